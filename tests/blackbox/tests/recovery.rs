//! Starting is recovering: what was in flight gets one outcome, with its evidence.

use std::fs;

use agarose_blackbox::{Lab, eventually, is_alive, parent, signal};
use nix::sys::signal::Signal;
use serde_json::Value;

const SLEEP: &str = "print('on', flush=True)\nimport time; time.sleep(1e6)";

/// The events without what every start adds.
fn without_starts(mut events: Vec<Value>) -> Vec<Value> {
    events.retain(|event| !["DaemonStarted", "KernelReattached"].contains(&event["kind"].as_str().unwrap()));
    events
}

/// Kills the supervisor of a worker, which takes the worker along.
fn kill_supervisor(worker: i32) {
    signal(parent(worker), Signal::SIGKILL);
    eventually("the worker went with its supervisor", || (!is_alive(worker)).then_some(()));
}

/// Changes what a supervisor has written down about itself.
fn rewrite_processes(lab: &Lab, shown: &Value, change: impl FnOnce(&mut Value)) {
    let file = lab.kernel_directory(shown["generation"].as_str().unwrap()).join("processes.json");
    let mut processes: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    change(&mut processes);
    fs::write(&file, processes.to_string()).unwrap();
}

#[test]
fn a_queue_without_a_kernel_goes_on_by_itself_after_a_crash() {
    let mut lab = Lab::started();
    lab.run(["pause", "--all"]).ok();
    let tickets: Vec<String> = (0..3).map(|number| lab.submit("s", &number.to_string())).collect();
    lab.kill_daemon();
    lab.serve(&[]);
    let positions: Vec<Value> = tickets.iter().map(|ticket| lab.show(ticket)["position"].clone()).collect();
    assert_eq!(positions, [1, 2, 3]);
    lab.run(["resume", "--all"]).ok();
    for (number, ticket) in tickets.iter().enumerate() {
        assert_eq!(lab.wait(ticket)["result"]["text/plain"], number.to_string());
    }
}

#[test]
fn a_result_that_came_while_no_daemon_was_there_is_recorded() {
    let mut lab = Lab::started();
    let code = format!("{}print('done')\nopen('done', 'w').close()\n41 + 1", lab.gate("go"));
    let ticket = lab.submit_with("s", &code, &["--workspace", lab.work().to_str().unwrap()]);
    let behind = lab.submit("s", "'behind'");
    lab.until_begun(&ticket);
    lab.kill_daemon();
    lab.open_gate("go");
    eventually("the cell has ended", || lab.work().join("done").exists().then_some(()));
    lab.serve(&[]);
    let shown = lab.wait(&ticket);
    assert_eq!(shown["state"], "completed", "{shown:#}");
    assert_eq!(shown["stdout"]["text"], "done\n");
    assert_eq!(shown["result"]["text/plain"], "42");
    assert_eq!(lab.wait(&behind)["state"], "completed");
    assert_eq!(lab.events_of(&ticket, "ExecuteRequested").len(), 1, "it was never sent again");
}

#[test]
fn a_worker_killed_while_no_daemon_was_there_makes_its_cell_lost() {
    let mut lab = Lab::started();
    let before = lab.exec("s", "x = 1");
    let ticket = lab.submit("s", SLEEP);
    let behind = lab.submit("s", "'x' in globals()");
    lab.until_printed(&ticket, "on");
    let worker = lab.worker("s");
    lab.kill_daemon();
    signal(worker, Signal::SIGKILL);
    eventually("the worker is gone", || (!is_alive(worker)).then_some(()));
    lab.serve(&[]);
    let shown = lab.wait(&ticket);
    assert_eq!(shown["state"], "lost", "{shown:#}");
    assert_eq!(shown["executed"], "yes");
    assert_eq!(shown["error"]["kind"], "lost");
    assert!(shown["error"]["message"].as_str().unwrap().contains("SIGKILL"), "{shown:#}");
    assert_eq!(shown["stdout"]["text"], "on\n");
    assert_eq!(lab.run(["wait", &ticket]).code, 15);
    let next = lab.wait(&behind);
    assert_eq!(next["result"]["text/plain"], "False");
    assert_ne!(next["generation"], before["generation"]);
    assert!(next["notes"].to_string().contains("variables"), "{next:#}");
    assert!(lab.run(["status", "--json"]).ok().json()["recovery"].to_string().contains(&ticket));
}

#[test]
fn a_kernel_killed_whole_while_no_daemon_was_there_makes_its_cell_lost() {
    let mut lab = Lab::started();
    let ticket = lab.submit("s", SLEEP);
    lab.until_printed(&ticket, "on");
    let worker = lab.worker("s");
    lab.kill_daemon();
    kill_supervisor(worker);
    lab.serve(&[]);
    let shown = lab.wait(&ticket);
    assert_eq!(shown["state"], "lost", "{shown:#}");
    assert_eq!(shown["executed"], "yes");
    assert_eq!(shown["stdout"]["text"], "on\n", "its output is found on disk");
    assert_eq!(lab.exec("s", "1")["state"], "completed");
}

#[test]
fn a_machine_that_was_started_again_makes_its_cells_lost_with_that_reason() {
    let mut lab = Lab::started();
    let ticket = lab.submit("s", SLEEP);
    let behind = lab.submit("s", "7");
    let shown = lab.until_printed(&ticket, "on");
    let worker = lab.worker("s");
    lab.kill_daemon();
    kill_supervisor(worker);
    // What a reboot leaves: a directory that another boot has written.
    rewrite_processes(&lab, &shown, |processes| {
        processes["boot_id"] = "00000000-0000-0000-0000-000000000000".into();
    });
    lab.serve(&[]);
    let shown = lab.wait(&ticket);
    assert_eq!(shown["state"], "lost", "{shown:#}");
    let message = shown["error"]["message"].as_str().unwrap();
    assert!(message.contains("machine was started again"), "{message}");
    assert_eq!(lab.wait(&behind)["result"]["text/plain"], "7");
}

#[test]
fn a_number_that_belongs_to_somebody_else_now_is_not_taken_for_the_kernel() {
    let mut lab = Lab::started();
    let ticket = lab.submit("s", SLEEP);
    let shown = lab.until_printed(&ticket, "on");
    let worker = lab.worker("s");
    lab.kill_daemon();
    kill_supervisor(worker);
    // The supervisor's number now is that of this test, which started at another time.
    rewrite_processes(&lab, &shown, |processes| {
        processes["supervisor"]["pid"] = std::process::id().into();
    });
    lab.serve(&[]);
    assert_eq!(lab.wait(&ticket)["state"], "lost");
    assert_eq!(lab.exec("s", "1")["state"], "completed");
}

#[test]
fn a_cell_whose_acknowledgement_nobody_heard_runs_once() {
    let mut lab = Lab::started();
    assert_eq!(lab.exec("s", "1")["state"], "completed");
    let worker = lab.worker("s");
    // A worker that stands still hears nothing, so that the cell is sent and not acknowledged.
    signal(worker, Signal::SIGSTOP);
    let ticket = lab.submit("s", "open('ran', 'a').write('x')");
    eventually("the cell is sent", || lab.show(&ticket)["started_at"].is_string().then_some(()));
    assert_eq!(lab.show(&ticket)["executed"], "unknown");
    lab.kill_daemon();
    lab.serve(&[]);
    assert_eq!(lab.show(&ticket)["state"], "running");
    signal(worker, Signal::SIGCONT);
    assert_eq!(lab.wait(&ticket)["state"], "completed");
    assert_eq!(lab.exec("s", "open('ran').read()")["result"]["text/plain"], "'x'");
}

/// A cell that was sent to a worker that does not listen, under a daemon that is killed then.
fn unheard() -> (Lab, String, i32) {
    let mut lab = Lab::started();
    assert_eq!(lab.exec("s", "1")["state"], "completed");
    let worker = lab.worker("s");
    signal(worker, Signal::SIGSTOP);
    let ticket = lab.submit("s", "open('ran', 'a').write('x')");
    eventually("the cell is sent", || lab.show(&ticket)["started_at"].is_string().then_some(()));
    // An id is a number in the base of Crockford, and lies in the spool as that.
    let digits = "0123456789abcdefghjkmnpqrstvwxyz";
    let number =
        ticket.chars().fold(0u128, |number, digit| number << 5 | digits.find(digit).unwrap() as u128);
    let low = (number as u64).to_le_bytes();
    let spool = lab.kernel_directory("g0");
    eventually("the supervisor has it", || {
        let mut files = fs::read_dir(&spool).unwrap().flatten();
        files
            .any(|file| {
                let name = file.file_name();
                name.to_string_lossy().starts_with("spool")
                    && fs::read(file.path()).unwrap().windows(8).any(|id| id == low)
            })
            .then_some(())
    });
    lab.kill_daemon();
    (lab, ticket, worker)
}

#[test]
fn a_cell_that_was_sent_and_lost_with_its_supervisor_may_have_run_or_not() {
    let (mut lab, ticket, worker) = unheard();
    kill_supervisor(worker);
    lab.serve(&[]);
    let shown = lab.wait(&ticket);
    assert_eq!(shown["state"], "lost", "{shown:#}");
    assert_eq!(shown["executed"], "unknown");
    assert!(shown["error"]["message"].as_str().unwrap().contains("not known"), "{shown:#}");
}

#[test]
fn a_cell_that_a_living_supervisor_saw_not_beginning_was_not_executed() {
    let (mut lab, ticket, worker) = unheard();
    signal(worker, Signal::SIGKILL);
    eventually("the worker is gone", || (!is_alive(worker)).then_some(()));
    lab.serve(&[]);
    let shown = lab.wait(&ticket);
    assert_eq!(shown["state"], "lost", "{shown:#}");
    assert_eq!(shown["executed"], "no");
}

#[test]
fn a_daemon_killed_while_a_kernel_starts_starts_it_again_for_whoever_waits() {
    for _ in 0..3 {
        let mut lab = Lab::started();
        let ticket = lab.submit("s", "open('ran', 'a').write('x')");
        lab.kill_daemon();
        lab.serve(&[]);
        assert_eq!(lab.wait(&ticket)["state"], "completed");
        assert_eq!(lab.exec("s", "open('ran').read()")["result"]["text/plain"], "'x'");
        assert_eq!(lab.processes().len(), 2, "one supervisor and one worker");
    }
}

#[test]
fn recovering_again_and_again_adds_nothing_and_killing_it_half_way_changes_nothing() {
    let mut lab = Lab::started();
    let held = lab.submit_with("held", &lab.gate("held"), &["--workspace", lab.work().to_str().unwrap()]);
    let lost = lab.submit("lost", SLEEP);
    let ladder = lab.submit_with("ladder", SLEEP, &["--interrupt-grace", "60s"]);
    for ticket in [&held, &lost, &ladder] {
        lab.until_begun(ticket);
    }
    let waiting = lab.submit("ladder", "'waited'");
    let worker = lab.worker("lost");
    lab.kill_daemon();
    signal(worker, Signal::SIGKILL);
    lab.open_gate("held");
    // Killed in the middle of recovery, at moments of its own.
    for moment in 0..6 {
        let mut daemon =
            lab.command(["serve", "--json"]).stderr(std::process::Stdio::null()).spawn().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(15 * moment));
        daemon.kill().unwrap();
        daemon.wait().unwrap();
    }
    lab.serve(&[]);
    assert_eq!(lab.wait(&held)["state"], "completed");
    assert_eq!(lab.wait(&lost)["state"], "lost");
    assert_eq!(lab.show(&ladder)["state"], "running");
    assert_eq!(lab.show(&waiting)["state"], "queued");
    let settled = without_starts(lab.events());
    for _ in 0..2 {
        lab.kill_daemon();
        lab.serve(&[]);
    }
    assert_eq!(without_starts(lab.events()), settled);
    for ticket in [&held, &lost] {
        assert_eq!(lab.events_of(ticket, "TicketEnded").len(), 1);
    }
    lab.run(["cancel", &ladder]).ok();
    assert_eq!(lab.wait(&waiting)["state"], "completed");
    lab.run(["log", "verify", "--deep"]).ok();
}

#[test]
fn a_first_start_a_clean_one_and_one_after_a_crash_leave_the_same_kind_of_record() {
    let mut lab = Lab::started();
    assert!(lab.stop_daemon().success());
    lab.serve(&[]);
    lab.kill_daemon();
    lab.serve(&[]);
    let starts: Vec<Value> =
        lab.events().into_iter().filter(|event| event["kind"] == "DaemonStarted").collect();
    assert_eq!(starts.len(), 3);
    for start in &starts {
        assert_eq!(start["data"]["version"], env!("CARGO_PKG_VERSION"), "{start:#}");
        assert!(start["data"]["boot"].as_str().is_some_and(|boot| !boot.is_empty()), "{start:#}");
        assert!(start["data"]["found"].is_array(), "{start:#}");
    }
    assert_eq!(lab.run(["status", "--json"]).ok().json()["starts"], 3);
}

#[test]
fn half_of_the_supervisors_gone_and_stale_sockets_are_no_obstacle() {
    let mut lab = Lab::started();
    let sessions = ["a", "b", "c", "d"];
    let tickets: Vec<String> = sessions.iter().map(|session| lab.submit(session, &lab.gate("go"))).collect();
    for ticket in &tickets {
        lab.until_begun(ticket);
    }
    let workers: Vec<i32> = sessions.iter().map(|session| lab.worker(session)).collect();
    lab.kill_daemon();
    for worker in &workers[..2] {
        signal(parent(*worker), Signal::SIGKILL);
        eventually("the worker went with its supervisor", || (!is_alive(*worker)).then_some(()));
    }
    lab.serve(&[]);
    lab.open_gate("go");
    let states: Vec<Value> = tickets.iter().map(|ticket| lab.wait(ticket)["state"].clone()).collect();
    assert_eq!(states, ["lost", "lost", "completed", "completed"]);
    for session in sessions {
        assert_eq!(lab.exec(session, "1")["state"], "completed");
    }
}
