//! Every command on one small log: exact answers.

use agarose_core::{
    Command, Event, Millis, TicketId,
    command::{ExecutionReport, KernelReport, Reach},
    event::ResultStatus,
    slot::{Exit, GroupOutcome},
    watchdog::Verdict,
};

use crate::lab::{Lab, golden, owner, session};

/// Two sessions, a permission, a failure, a timeout by force, a crash of the daemon, a closing.
fn scenario() -> Lab {
    let mut lab = Lab::new();
    let load = lab.after(1000).submit_as("analysis", "df = load('data.csv')", |submit| {
        submit.key = Some("load-1".to_owned());
    });
    lab.submit_as("analysis", "print(df.shape)", |submit| submit.after = Some(load));
    lab.complete("analysis", 1200, "");
    lab.complete("analysis", 20, "(150, 4)\n");
    lab.after(500).submit("plots", "plot()");
    lab.begin("plots");
    let ticket = lab.after(40).decide_permission("plots");
    lab.after(2000).decide(&Command::DecidePermission {
        permission: ticket,
        allow: true,
        by: owner("user_repl:grace"),
    });
    let record =
        r#"{"result":{"status":"error","error":{"name":"ValueError","message":"no axes","line":1}}}"#;
    lab.after(30).result("plots", ResultStatus::Error, "", record);
    lab.after(10_000).submit_as("analysis", "while True: pass", |submit| {
        submit.timeouts.start_to_close = Some(Millis(5000));
        submit.timeouts.interrupt_grace = Some(Millis(1000));
    });
    lab.begin("analysis");
    lab.after(5000).tick();
    lab.after(10).verdict("analysis", Verdict::Delivered);
    lab.after(1000).tick();
    let outcome = GroupOutcome::ExitedOnTerm;
    lab.after(800).execution("analysis", ExecutionReport::Stopped { outcome, output: None });
    lab.after(250).kernel_ready("analysis");
    lab.after(1000).submit("analysis", "fit()");
    let waiting = lab.submit("analysis", "save()");
    lab.begin("analysis");
    lab.after(30_000).restart(&["the daemon before did not stop in order"]);
    lab.after(10).kernel(
        "analysis",
        KernelReport::Gone {
            exit: Exit::Signal { signal: 9, out_of_memory: false },
            while_down: true,
            began: Some(true),
            output: None,
            left: None,
        },
    );
    lab.after(100).cancel(waiting, "no point without fit()", Reach::Full);
    lab.after(500).decide(&Command::CloseSession {
        session: session("plots"),
        by: owner("user_repl:grace"),
        reason: "done".to_owned(),
        remove: true,
    });
    lab.after(200).submit("analysis", "summary()");
    lab
}

fn all_lines(lab: &Lab, words: &[&str]) -> String {
    let plain = lab.told(words);
    let json = lab.told(&[words, &["--json"]].concat());
    for line in json.lines() {
        serde_json::from_str::<serde_json::Value>(line).unwrap();
    }
    format!("{plain}\n{json}")
}

#[test]
fn ls_lists_tickets_sessions_and_events() {
    let lab = scenario();
    golden("ls_tickets.txt", &all_lines(&lab, &["ls"]));
    golden("ls_sessions.txt", &all_lines(&lab, &["ls", "sessions"]));
    golden("ls_events.txt", &all_lines(&lab, &["ls", "events"]));
}

#[test]
fn ls_chooses_by_session_ticket_kind_state_time_place_and_count() {
    let lab = scenario();
    let count = |words: &[&str]| lab.told(words).lines().count();
    assert_eq!(count(&["ls", "--state", "failed"]), 1);
    assert_eq!(count(&["ls", "--state", "failed", "--state", "timed_out", "-s", "analysis"]), 1);
    assert_eq!(count(&["ls", "-n", "2"]), 2);
    assert_eq!(count(&["ls", "events", "-n", "0"]), 0);
    assert_eq!(count(&["ls", "--kind", "kernelgone"]), 2);
    assert_eq!(count(&["ls", "--kind", "KernelGone", "--kind", "DaemonStarted"]), 4);
    assert_eq!(count(&["ls", "events", "-t", "00000000000000000000000002"]), 7);
    assert_eq!(count(&["ls", "events", "--from", "5", "--to", "9"]), 5);
    assert_eq!(count(&["ls", "--since", "2025-12-01T04:00:20Z"]), 4);
    assert_eq!(count(&["ls", "--until", "2025-12-01T04:00:01Z"]), 2);
    assert_eq!(count(&["ls", "events", "-s", "nowhere"]), 0);
}

#[test]
fn words_that_make_no_sense_are_usage_errors() {
    let lab = Lab::new();
    let refused = |words: &[&str]| {
        let told = lab.log(words);
        assert_eq!((told.code, told.out.as_str()), (2, ""), "{words:?}");
        told.err
    };
    assert!(
        refused(&["ls", "--kind", "Kernel"])
            .starts_with("error: \"Kernel\" is not a kind of event (DaemonStarted, ")
    );
    assert_eq!(
        refused(&["ls", "--since", "noon"]),
        "error: \"noon\" is not a time (2026-12-01T04:00:00Z, or 10m for ten minutes ago)\n"
    );
    assert_eq!(refused(&["show", "x"]), "error: \"x\" is neither the number of an event nor a ticket\n");
    assert_eq!(refused(&["diff", "1", "0"]), "error: 0 is before 1; the earlier point comes first\n");
    refused(&["ls", "--state", "happy"]);
    refused(&["why", "short"]);
    refused(&["dance"]);
}

#[test]
fn show_shows_an_event_and_a_ticket_with_its_code_and_output() {
    let lab = scenario();
    let event = all_lines(&lab, &["show", "3"]);
    let json: serde_json::Value = serde_json::from_str(event.lines().last().unwrap()).unwrap();
    golden("show_event.txt", &event.replace(json["record_hash"].as_str().unwrap(), "HASH"));
    let ticket = TicketId(4).to_string();
    golden("show_ticket.txt", &all_lines(&lab, &["show", &ticket]));
    let told = lab.log(&["show", "9999"]);
    assert_eq!(told.code, 4);
    assert!(told.err.starts_with("error: there is no event 9999 in this log, which has events 1 to "));
    assert_eq!(lab.log(&["show", "00000000000000000000000999"]).code, 4);
    assert_eq!(lab.log(&["show", "0"]).code, 4);
}

#[test]
fn tail_shows_the_last_events() {
    let lab = scenario();
    let all = lab.told(&["ls", "events"]);
    let last: Vec<&str> = all.lines().rev().take(3).collect();
    let tail = lab.told(&["tail", "-n", "3"]);
    assert_eq!(tail.lines().rev().collect::<Vec<_>>(), last);
    assert_eq!(lab.told(&["tail", "-n", "2", "-k", "DaemonStarted"]).lines().count(), 2);
    assert_eq!(lab.told(&["tail", "-n", "1", "-s", "plots", "--json"]).lines().count(), 1);
}

#[test]
fn grep_finds_what_events_say_hold_and_run() {
    let lab = scenario();
    assert_eq!(lab.told(&["grep", "no point without"]).lines().count(), 1);
    assert_eq!(lab.told(&["grep", "-i", "LOAD-1"]).lines().count(), 1);
    assert_eq!(lab.told(&["grep", "data.csv", "--code", "--json"]).lines().count(), 1);
    let told = lab.log(&["grep", "data.csv"]);
    assert_eq!((told.code, told.out.as_str(), told.err.as_str()), (4, "", "0 events hold \"data.csv\"\n"));
}

#[test]
fn state_shows_what_the_events_fold_to_now_and_before() {
    let lab = scenario();
    golden("state_now.txt", &lab.told(&["state"]));
    golden("state_before.txt", &lab.told(&["state", "--at", "2025-12-01T04:00:21Z"]));
    golden("state_first.txt", &lab.told(&["state", "--at", "0"]));
    assert_eq!(lab.log(&["state", "--at", "9999"]).code, 4);
    let of = |at: &str| lab.told(&["state", "--json", "--at", at]);
    assert_eq!(of("6"), of("2025-12-01T04:00:01.000Z"));
    let json: serde_json::Value = serde_json::from_str(&of("6")).unwrap();
    assert_eq!(json["seq"], 6);
    let session = &json["state"]["sessions"]["analysis"];
    assert_eq!(session["queue"], serde_json::json!(["00000000000000000000000004"]));
    assert_eq!(session["slots"]["python"]["Starting"]["generation"], "g0");
    assert_eq!(json["state"]["policy"]["queue_cap"], 64);
}

#[test]
fn diff_shows_what_changed_between_two_events() {
    let lab = scenario();
    golden("diff.txt", &all_lines(&lab, &["diff", "6", "9"]));
    golden("diff_nothing.txt", &lab.told(&["diff", "6", "6"]));
}

#[test]
fn timeline_draws_tickets_processes_and_the_daemon() {
    let lab = scenario();
    golden("timeline.txt", &all_lines(&lab, &["timeline"]));
    golden("timeline_session.txt", &lab.told(&["timeline", "-s", "plots", "--width", "30", "-n", "1"]));
}

#[test]
fn audit_lists_who_asked_for_what() {
    let lab = scenario();
    golden("audit.txt", &all_lines(&lab, &["audit"]));
}

#[test]
fn stats_counts() {
    let lab = scenario();
    let cut = |text: String| {
        let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with("disk")).collect();
        lines.join("\n") + "\n"
    };
    golden("stats.txt", &cut(lab.told(&["stats"])));
    let json: serde_json::Value = serde_json::from_str(&lab.told(&["stats", "--json"])).unwrap();
    assert_eq!(json["submitted"], 7);
    assert!(json["disk_bytes"]["segments"].as_u64().unwrap() > 0);
}

#[test]
fn a_sound_log_is_verified() {
    let lab = scenario();
    let told = lab.told(&["verify", "--deep", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&told).unwrap();
    assert_eq!(
        (&json["sound"], &json["last_seq"], &json["records"].is_u64()),
        (&true.into(), &63.into(), &true)
    );
    let findings = json["findings"].as_array().unwrap();
    assert!(findings.iter().all(|finding| finding["severity"] == "note"), "{told}");
    assert!(lab.told(&["verify"]).contains("the log is whole: 63 events in "));
}

#[test]
fn events_that_do_not_fit_and_content_that_is_missing_are_named() {
    let mut lab = Lab::new();
    lab.submit("analysis", "a = 1");
    lab.complete("analysis", 10, "");
    // A ticket that never was ends.
    let mut strange = lab.events(|event| matches!(event, Event::TicketEnded(_)));
    if let Some(Event::TicketEnded(ended)) = strange.first_mut() {
        ended.ticket = TicketId(77);
    }
    let mut queued = lab.events(|event| matches!(event, Event::TicketQueued(_)));
    if let Some(Event::TicketQueued(queued)) = queued.first_mut()
        && let agarose_core::ticket::Work::Cell { source, .. } = &mut queued.work
    {
        queued.ticket = TicketId(78);
        source.hash = [9; 32];
    }
    lab.append(&strange);
    lab.append(&queued);
    let told = lab.log(&["verify", "--deep"]);
    assert_eq!(told.code, 1);
    let found: Vec<&str> = told.out.lines().filter(|line| line.starts_with("damage")).collect();
    assert_eq!(
        found,
        [
            "damage: TicketEnded does not fit the state before it (event 12)",
            "damage: content 0909090909090909090909090909090909090909090909090909090909090909 is missing \
             (event 13; tickets 0000000000000000000000002e)",
        ]
    );
    assert!(told.out.contains("\nthe log is damaged: 13 events in "), "{}", told.out);
    assert_eq!(lab.log(&["verify"]).code, 0);
}

#[test]
fn a_directory_without_a_log_is_not_found() {
    let directory = tempfile::tempdir().unwrap();
    let told = crate::lab::inspect(directory.path(), &["ls"]);
    assert_eq!((told.code, told.out.as_str()), (4, ""));
    assert!(told.err.starts_with("error: there is no log in "));
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
}

#[test]
fn an_empty_log_has_nothing_to_show_and_that_is_no_error() {
    let directory = tempfile::tempdir().unwrap();
    let options = agarose_journal::Options::default();
    agarose_journal::Journal::open(directory.path(), &options).unwrap().journal.close().unwrap();
    for words in [
        &["ls"][..],
        &["ls", "events"],
        &["ls", "sessions"],
        &["tail"],
        &["state"],
        &["timeline"],
        &["audit"],
        &["stats"],
        &["verify", "--deep"],
    ] {
        let told = crate::lab::inspect(directory.path(), words);
        assert_eq!(told.code, 0, "{words:?}: {}", told.err);
    }
}

#[test]
fn timeline_is_written_as_a_page_that_needs_nothing_else() {
    let mut lab = scenario();
    lab.submit_as("</script><b>", "x", |submit| submit.owner = owner("agent:<!--"));
    let page = lab.told(&["timeline", "--html", "-"]);
    assert!(!page.contains("</script><b>") && !page.contains("agent <!--"), "data ends its element");
    for word in ["http:", "https:", "src=", "@import"] {
        assert!(!page.contains(word), "the page asks for something else: {word}");
    }
    let start = page.find("<script id=\"data\" type=\"application/json\">").unwrap();
    let data = page[start..].split_once('>').unwrap().1.split_once("</script>").unwrap().0;
    let data: serde_json::Value = serde_json::from_str(data).unwrap();
    assert_eq!(data["sessions"], serde_json::json!(["analysis", "plots", "</script><b>"]));
    assert_eq!(data["tickets"].as_array().unwrap().len(), 8);
    assert_eq!(data["daemon"].as_array().unwrap().len(), 2);
    assert!(data["tickets"].as_array().unwrap().iter().all(|ticket| ticket.as_array().unwrap().len() == 13));
}

#[test]
fn timeline_is_written_as_a_trace() {
    let lab = scenario();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("trace.json");
    let told = lab.log(&["timeline", "--trace", file.to_str().unwrap()]);
    assert_eq!((told.code, told.out.as_str()), (0, ""));
    let trace = std::fs::read_to_string(file).unwrap();
    let json: serde_json::Value = serde_json::from_str(&trace).unwrap();
    assert_eq!(json["traceEvents"].as_array().unwrap().len(), trace.lines().count() - 2);
    golden("trace.json", &trace);
}

#[test]
fn verify_compares_the_fold_with_the_snapshots() {
    let mut lab = Lab::new();
    lab.submit("analysis", "a = 1");
    let (sequence, state) = lab.state();
    lab.journal().snapshots().write(sequence, &state).unwrap();
    lab.complete("analysis", 10, "");
    let told = lab.told(&["verify", "--deep", "--json"]);
    assert!(told.contains(r#""snapshots":1,"#) && !told.contains("warning"), "{told}");
    let (sequence, mut state) = lab.state();
    *state.last_mut().unwrap() ^= 1;
    lab.journal().snapshots().write(sequence, &state).unwrap();
    let told = lab.told(&["verify", "--deep"]);
    assert!(
        told.contains("warning: the snapshot is not the state that the log folds to (event 11)\n"),
        "{told}"
    );
}

#[test]
fn an_export_is_imported_with_the_same_head_and_gives_the_same_answers() {
    let lab = scenario();
    let place = tempfile::tempdir().unwrap();
    let (file, into) = (place.path().join("log.jsonl"), place.path().join("log"));
    let (file, into) = (file.to_str().unwrap(), into.to_str().unwrap());
    let exported = lab.told(&["export", file, "--json"]);
    let exported: serde_json::Value = serde_json::from_str(&exported).unwrap();
    assert_eq!(lab.told(&["export"]), std::fs::read_to_string(file).unwrap());
    let imported = lab.told(&["import", file, into, "--json"]);
    let imported: serde_json::Value = serde_json::from_str(&imported).unwrap();
    assert_eq!(imported["head"], exported["head"]);
    for words in
        [&["ls", "events", "--json"][..], &["state", "--json"], &["show", "00000000000000000000000004"]]
    {
        assert_eq!(crate::lab::inspect(std::path::Path::new(into), words).out, lab.told(words));
    }
    let again = lab.log(&["import", file, into]);
    assert_eq!((again.code, again.out.as_str()), (1, ""));
    let text = std::fs::read_to_string(file).unwrap();
    std::fs::write(file, &text[..text.len() / 2]).unwrap();
    let cut = lab.log(&["import", file, place.path().join("cut").to_str().unwrap()]);
    assert_eq!(cut.code, 1);
    assert!(cut.err.starts_with("error: cannot import "), "{}", cut.err);
    assert_eq!(lab.log(&["import", "/nowhere/log.jsonl", into]).code, 1);
}

#[test]
fn a_sound_log_is_salvaged_whole() {
    let lab = scenario();
    let place = tempfile::tempdir().unwrap();
    let into = place.path().join("salvaged");
    let told = lab.told(&["salvage", into.to_str().unwrap()]);
    assert!(told.contains("63 events are copied to ") && told.contains("; nothing is lost"), "{told}");
    assert_eq!(crate::lab::inspect(&into, &["ls", "events"]).out, lab.told(&["ls", "events"]));
    assert_eq!(lab.log(&["salvage", into.to_str().unwrap()]).code, 1);
}

#[test]
fn compact_only_shows_what_could_be_done() {
    let mut lab = Lab::new();
    assert_eq!(
        lab.told(&["compact", "--dry-run"]),
        "there is no snapshot yet, so nothing could be archived\n"
    );
    lab.submit("analysis", "a = 1");
    let (sequence, state) = lab.state();
    lab.journal().snapshots().write(sequence, &state).unwrap();
    lab.submit("analysis", "b = 2");
    assert_eq!(
        lab.told(&["compact", "--dry-run"]),
        "5 of 6 events are older than the newest snapshot (event 5) and could be archived\n"
    );
    assert_eq!(lab.log(&["compact"]).code, 2);
}
