//! Tickets and queues, as whoever submits them sees them.

use std::thread;

use agarose_blackbox::{Lab, eventually, outcome, signal};
use nix::sys::signal::Signal;
use serde_json::Value;

/// A submit, with its whole answer.
fn submitted(lab: &Lab, session: &str, code: &str) -> Value {
    lab.run(["submit", "-s", session, "-c", code, "--json"]).ok().json()
}

#[test]
fn an_idle_session_admits_at_once_and_the_others_stand_in_line() {
    let lab = Lab::started();
    let first = submitted(&lab, "s", &lab.gate("go"));
    assert_eq!((&first["state"], &first["position"]), (&"running".into(), &0.into()));
    for position in 1..4 {
        let next = submitted(&lab, "s", "open('order', 'a').write('x')");
        assert_eq!((&next["state"], &next["position"]), (&"queued".into(), &position.into()));
    }
    let cut = lab.session("s");
    assert_eq!(cut["active"]["ticket"], first["ticket"]);
    let positions: Vec<u64> = cut["queue"]
        .as_array()
        .unwrap()
        .iter()
        .map(|waiting| waiting["position"].as_u64().unwrap())
        .collect();
    assert_eq!(positions, [1, 2, 3]);
    lab.open_gate("go");
}

#[test]
fn the_same_key_is_one_ticket_and_another_request_under_it_is_a_conflict() {
    let lab = Lab::started();
    let request = ["submit", "-s", "s", "--key", "k", "-c", "open('ran', 'a').write('x')", "--json"];
    let first = lab.run(request).ok().json();
    let again = lab.run(request).ok().json();
    assert_eq!(first["ticket"], again["ticket"]);
    assert_eq!((&first["repeated"], &again["repeated"]), (&false.into(), &true.into()));
    let _ = lab.wait(first["ticket"].as_str().unwrap());
    let after_its_end = lab.run(request).ok().json();
    assert_eq!(after_its_end["ticket"], first["ticket"]);
    let conflict = lab.run(["submit", "-s", "s", "--key", "k", "-c", "2", "--json"]);
    assert_eq!(conflict.code, 5, "{conflict:?}");
    assert_eq!(conflict.json()["error"]["kind"], "key_conflict");
    assert_eq!(conflict.json()["error"]["ticket"], first["ticket"]);
    let read = lab.exec("s", "open('ran').read()");
    assert_eq!(read["result"]["text/plain"], "'x'");
    assert_eq!(lab.events().iter().filter(|event| event["kind"] == "TicketQueued").count(), 2);
}

#[test]
fn identity_that_is_blank_is_refused_with_the_name_of_the_field() {
    let lab = Lab::started();
    for (arguments, field) in [
        (["--owner", "agent:", "-s", "s"], "owner"),
        (["--owner", "agent", "-s", "s"], "owner"),
        (["--owner", ":x", "-s", "s"], "owner"),
        (["--owner", "agent:x", "-s", ""], "session"),
    ] {
        let refused = lab.run(["submit", "-c", "1", "--json"].iter().chain(&arguments));
        assert_eq!(refused.code, 2, "{refused:?}");
        assert!(refused.json()["error"]["message"].as_str().unwrap().contains(field), "{refused:?}");
    }
    assert!(lab.events().iter().all(|event| event["kind"] != "TicketQueued"));
}

#[test]
fn a_full_session_refuses_with_what_to_do_and_holds_nobody_else_up() {
    let mut lab = Lab::new();
    lab.serve(&["--queue-cap", "2"]);
    let gate = lab.gate("go");
    let running = lab.submit("s", &gate);
    let waiting = [lab.submit("s", "1"), lab.submit("s", "2")];
    let request = ["submit", "-s", "s", "-c", "3", "--key", "third", "--json"];
    let refused = lab.run(request);
    assert_eq!(refused.code, 5, "{refused:?}");
    let error = &refused.json()["error"];
    assert_eq!(error["kind"], "queue_full");
    let message = error["message"].as_str().unwrap();
    assert!(message.contains("session s has 2 tickets waiting, and at most 2"), "{message}");
    assert!(!error["hint"].as_str().unwrap().is_empty());
    // Somebody else's session neither waits nor refuses.
    assert_eq!(lab.exec("other", "7")["result"]["text/plain"], "7");
    lab.open_gate("go");
    assert_eq!(lab.wait(&waiting[1])["result"]["text/plain"], "2");
    let admitted = lab.run(request).ok().json();
    assert_eq!(admitted["repeated"], false);
    assert_eq!(lab.wait(&running)["state"], "completed");
}

#[test]
fn a_ticket_whose_time_to_wait_is_over_is_never_run() {
    let lab = Lab::started();
    let running = lab.submit("s", &lab.gate("go"));
    let impatient = lab.submit_with("s", "open('ran', 'w')", &["--wait-timeout", "200ms"]);
    let shown = lab.wait(&impatient);
    assert_eq!(shown["state"], "cancelled");
    assert_eq!(shown["executed"], "no");
    assert!(shown["error"]["message"].as_str().unwrap().contains("--wait-timeout"), "{shown:#}");
    assert_eq!(lab.run(["wait", &impatient]).code, 12);
    lab.open_gate("go");
    assert_eq!(lab.wait(&running)["state"], "completed");
    assert_eq!(lab.exec("s", "os.path.exists('ran')")["result"]["text/plain"], "False");
}

#[test]
fn a_waiter_that_goes_away_leaves_its_ticket_where_it_was() {
    let lab = Lab::started();
    let running = lab.submit("s", &lab.gate("go"));
    let mut follower = lab.spawn(["exec", "-s", "s", "-c", "'still here'", "--key", "followed"]);
    let queued = eventually("the follower's ticket waits", || {
        lab.session("s")["queue"][0]["ticket"].as_str().map(str::to_owned)
    });
    follower.kill().unwrap();
    let _ = outcome(follower);
    let given_up = lab.run(["wait", &queued, "--timeout", "50ms"]);
    assert_eq!(given_up.code, 20, "{given_up:?}");
    assert_eq!(lab.show(&queued)["state"], "queued");
    lab.open_gate("go");
    assert_eq!(lab.wait(&running)["state"], "completed");
    assert_eq!(lab.wait(&queued)["result"]["text/plain"], "'still here'");
}

#[test]
fn a_stranger_cancels_nothing_and_the_first_reason_stays() {
    let lab = Lab::started();
    let code = "import time\nprint('on', flush=True)\nend = time.monotonic() + 60\nwhile time.monotonic() < end:\n    try: time.sleep(1)\n    except KeyboardInterrupt: pass";
    let mine = ["--owner", "agent:a"];
    let running =
        lab.submit_with("s", code, &["--owner", "agent:a", "--interrupt-grace", "1s", "--kill-grace", "1s"]);
    let waiting = lab.submit_with("s", "1", &mine);
    lab.until_printed(&running, "on");
    for ticket in [&running, &waiting] {
        let refused = lab.run(["cancel", ticket, "--owner", "agent:b", "--json"]);
        assert_eq!(refused.code, 5, "{refused:?}");
        assert_eq!(refused.json()["error"]["kind"], "not_owner");
        assert!(lab.show(ticket)["cancel"].is_null());
    }
    let queued = lab.run(["interrupt", &waiting, "--owner", "agent:a", "--json"]);
    assert_eq!(queued.code, 5, "an interrupt is for what runs: {queued:?}");
    assert_eq!(lab.show(&waiting)["state"], "queued");
    lab.run(["cancel", &running, "--owner", "agent:a", "--reason", "first", "--json"]).ok();
    let again = lab.run(["cancel", &running, "--owner", "agent:a", "--reason", "second", "--json"]).ok();
    assert_eq!(again.json()["found"], "already_requested", "{again:?}");
    let shown = lab.wait(&running);
    assert_eq!(shown["state"], "cancelled", "{shown:#}");
    assert_eq!(shown["cancel"]["reason"], "first");
    assert_eq!(lab.events_of(&running, "CancelRequested").len(), 1);
    assert_eq!(lab.wait(&waiting)["state"], "completed");
}

#[test]
fn a_session_that_was_cleaned_up_begins_afresh_with_a_fresh_generation() {
    let lab = Lab::started();
    let first = lab.exec("s", "x = 1");
    lab.run(["session", "close", "s", "--reason", "done for today", "--json"]).ok();
    lab.run(["session", "close", "s", "--reason", "again", "--json"]).ok();
    let refused = lab.run(["submit", "-s", "s", "-c", "1", "--json"]);
    assert_eq!(refused.code, 5, "{refused:?}");
    assert!(refused.json()["error"]["message"].as_str().unwrap().contains("done for today"), "{refused:?}");
    lab.run(["session", "cleanup", "s", "--json"]).ok();
    eventually("the session is gone", || (lab.run(["session", "show", "s"]).code == 4).then_some(()));
    let afresh = lab.exec("s", "'x' in globals()");
    assert_eq!(afresh["result"]["text/plain"], "False");
    assert_ne!(afresh["generation"], first["generation"]);
    assert_eq!(lab.show(first["ticket"].as_str().unwrap())["state"], "completed");
}

#[test]
fn a_stopped_daemon_leaves_cell_and_queue_and_the_next_goes_on_in_order() {
    let mut lab = Lab::started();
    let mut tickets = vec![lab.submit("s", &lab.gate("go"))];
    for number in 0..3 {
        tickets.push(lab.submit("s", &format!("open('order', 'a').write('{number}')")));
    }
    lab.until_begun(&tickets[0]);
    let daemon = lab.daemon_pid();
    signal(daemon, Signal::SIGTERM);
    // A second one in a hurry changes nothing, and no event is lost.
    let _ = nix::sys::signal::kill(nix::unistd::Pid::from_raw(daemon), Signal::SIGTERM);
    assert!(lab.await_daemon().success());
    assert_eq!(lab.run(["show", &tickets[0]]).code, 3);
    lab.run(["log", "verify"]).ok();
    lab.serve(&[]);
    assert_eq!(lab.show(&tickets[0])["state"], "running");
    assert_eq!(lab.show(&tickets[3])["position"], 3);
    lab.open_gate("go");
    for ticket in &tickets {
        assert_eq!(lab.wait(ticket)["state"], "completed");
    }
    assert_eq!(lab.exec("s", "open('order').read()")["result"]["text/plain"], "'012'");
}

#[test]
fn a_stopped_daemon_that_takes_its_kernels_keeps_the_queue() {
    let mut lab = Lab::started();
    let running = lab.submit("s", "print('on', flush=True)\nimport time; time.sleep(1e6)");
    let waiting = lab.submit("s", "6 * 7");
    lab.until_printed(&running, "on");
    let (status, _) = lab.post("/v1/shutdown", &serde_json::json!({ "stop_kernels": true }));
    assert_eq!(status, 200);
    assert!(lab.await_daemon().success());
    assert_eq!(lab.processes(), [] as [i32; 0]);
    lab.serve(&[]);
    let ended = lab.wait(&running);
    assert!(["cancelled", "interrupted"].contains(&ended["state"].as_str().unwrap()), "{ended:#}");
    assert_eq!(ended["stdout"]["text"], "on\n");
    assert_eq!(lab.wait(&waiting)["result"]["text/plain"], "42");
}

#[test]
fn a_cut_through_a_session_has_everything_of_its_tickets() {
    let lab = Lab::started();
    let owner = ["--owner", "agent:a", "--branch", "trunk"];
    let running = lab.submit_with("s", &lab.gate("go"), &owner);
    let waiting = lab.submit_with("s", "1", &owner);
    lab.until_begun(&running);
    let cut = lab.session("s");
    assert_eq!(cut["version"], 1);
    assert_eq!(cut["session"], "s");
    assert_eq!(cut["closed"], false);
    assert_eq!(cut["owner"], serde_json::json!({"kind": "agent", "id": "a"}));
    assert_eq!((&cut["active_count"], &cut["queued_count"]), (&1.into(), &1.into()));
    let (active, queued) = (&cut["active"], &cut["queue"][0]);
    assert_eq!((&active["ticket"], &queued["ticket"]), (&running.into(), &waiting.into()));
    for (ticket, state, position) in [(active, "running", 0), (queued, "queued", 1)] {
        assert_eq!(ticket["state"], state);
        assert_eq!(ticket["position"], position);
        assert_eq!(ticket["session"], "s");
        assert_eq!(ticket["branch"], "trunk");
        assert_eq!(ticket["language"], "python");
        assert_eq!(ticket["owner"]["id"], "a");
        assert!(ticket["queued_at"].is_string());
        assert!(ticket["cancel"].is_null());
    }
    assert!(active["generation"].is_string() && active["started_at"].is_string(), "{active:#}");
    assert!(queued.get("generation").is_none() && queued.get("started_at").is_none(), "{queued:#}");
    assert_eq!(lab.run(["session", "show", "nowhere"]).code, 4);
    lab.open_gate("go");
}

#[test]
fn a_pause_lasts_over_a_crash_and_a_resumed_backlog_runs_in_order() {
    let mut lab = Lab::started();
    let running = lab.submit("s", &lab.gate("go"));
    lab.run(["pause", "s", "--owner", "agent:a", "--json"]).ok();
    let waiting: Vec<String> =
        (0..3).map(|number| lab.submit("s", &format!("open('order', 'a').write('{number}')"))).collect();
    lab.open_gate("go");
    assert_eq!(lab.wait(&running)["state"], "completed", "what runs goes on");
    lab.kill_daemon();
    lab.serve(&[]);
    let cut = lab.session("s");
    assert_eq!(cut["paused_by"], serde_json::json!({"kind": "agent", "id": "a"}));
    assert_eq!(cut["queue"][0]["doing"], "paused");
    assert_eq!(cut["active_count"], 0);
    assert_eq!(lab.exec("other", "1")["state"], "completed");
    lab.run(["resume", "s", "--json"]).ok();
    assert_eq!(lab.wait(&waiting[2])["state"], "completed");
    assert_eq!(lab.exec("s", "open('order').read()")["result"]["text/plain"], "'012'");
}

#[test]
fn pausing_all_holds_every_session_until_all_are_resumed() {
    let lab = Lab::started();
    lab.run(["pause", "--all", "--json"]).ok();
    let tickets = [lab.submit("a", "1"), lab.submit("b", "2")];
    assert_eq!(lab.session("b")["queue"][0]["doing"], "paused");
    assert_eq!(lab.session("b")["paused_by"]["id"], "tester");
    lab.run(["resume", "--all", "--json"]).ok();
    for ticket in &tickets {
        assert_eq!(lab.wait(ticket)["state"], "completed");
    }
    assert_ne!(lab.run(["pause"]).code, 0, "neither a session nor --all was said");
}

#[test]
fn a_retry_is_a_new_ticket_that_names_the_old_one() {
    let lab = Lab::started();
    let code = "import os\nif not os.path.exists('mended'): raise RuntimeError('not yet')\n'mended'";
    let first = lab.exec("s", code);
    assert_eq!(first["state"], "failed");
    let old = first["ticket"].as_str().unwrap();
    assert_eq!(lab.exec("s", "open('mended', 'w').close()")["state"], "completed");
    let again = lab.run(["retry", old, "--json"]).ok().json()["ticket"].as_str().unwrap().to_owned();
    assert_ne!(again, old);
    let shown = lab.wait(&again);
    assert_eq!(shown["result"]["text/plain"], "'mended'");
    assert_eq!(shown["retry_of"], old);
    assert_eq!(lab.show(old)["state"], "failed");
    assert_eq!(lab.run(["retry", "00000000000000000000000000"]).code, 4);
}

#[test]
fn a_chain_breaks_at_what_did_not_complete_and_the_unchained_run() {
    let lab = Lab::started();
    let good = lab.submit("s", "1");
    let bad = lab.submit_with("s", "raise ValueError", &["--after", &good]);
    let behind = lab.submit_with("s", "open('ran', 'w')", &["--after", &bad]);
    let further = lab.submit_with("s", "open('ran', 'w')", &["--after", &behind]);
    let unchained = lab.submit("s", "import os; os.path.exists('ran')");
    assert_eq!(lab.wait(&bad)["state"], "failed", "it ran, since {good} completed");
    for (ticket, after, word) in [(&behind, &bad, "failed"), (&further, &behind, "cancelled")] {
        let shown = lab.wait(ticket);
        assert_eq!(shown["state"], "cancelled");
        assert_eq!(shown["executed"], "no");
        assert_eq!(shown["after"], **after);
        let message = shown["error"]["message"].as_str().unwrap();
        assert!(message.contains(after.as_str()) && message.contains(word), "{message}");
    }
    assert_eq!(lab.wait(&unchained)["result"]["text/plain"], "False");
    let late = lab.submit_with("s", "1", &["--after", &bad]);
    assert_eq!(lab.wait(&late)["state"], "cancelled", "what has failed long ago counts too");
    let nobody = lab.run(["submit", "-c", "1", "--after", "00000000000000000000000000", "--json"]);
    assert!([4, 5].contains(&nobody.code), "{nobody:?}");
}

#[test]
fn every_kind_of_timeout_is_in_the_log_with_its_ticket() {
    let lab = Lab::started();
    let more = ["--timeout", "20s", "--wait-timeout", "30s", "--idle-timeout", "40s"];
    let ticket = lab.submit_with("s", "1", &more);
    let _ = lab.wait(&ticket);
    let queued = &lab.events_of(&ticket, "TicketQueued")[0];
    let timeouts = queued["data"]["timeouts"].to_string();
    for limit in ["20000", "30000", "40000"] {
        assert!(timeouts.contains(limit), "{queued:#}");
    }
}

#[test]
fn whoever_follows_the_log_sees_changes_in_its_order_and_holds_nobody_up() {
    let lab = Lab::started();
    // A reader that never reads: its pipe is full soon.
    let mut lazy = lab.spawn(["log", "tail", "--follow", "--json", "-n", "1000"]);
    thread::scope(|scope| {
        for session in ["a", "b"] {
            let lab = &lab;
            scope.spawn(move || {
                let tickets: Vec<String> =
                    (0..20).map(|number| lab.submit(session, &format!("{number}"))).collect();
                for ticket in &tickets {
                    assert_eq!(lab.wait(ticket)["state"], "completed");
                }
            });
        }
    });
    lazy.kill().unwrap();
    let seen = outcome(lazy);
    let sequences: Vec<u64> = seen
        .stdout
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .map(|event| event["seq"].as_u64().unwrap())
        .collect();
    assert!(!sequences.is_empty(), "{seen:?}");
    assert!(sequences.windows(2).all(|pair| pair[0] < pair[1]), "{sequences:?}");
    let mut admitted = lab.events();
    admitted.retain(|event| ["TicketQueued", "TicketAdmitted"].contains(&event["kind"].as_str().unwrap()));
    for session in ["a", "b"] {
        let order = |kind: &str| -> Vec<String> {
            let of = admitted.iter().filter(|event| event["kind"] == kind && event["session"] == session);
            of.map(|event| event["ticket"].as_str().unwrap().to_owned()).collect()
        };
        assert_eq!(order("TicketQueued"), order("TicketAdmitted"));
    }
}
