//! `why` for every way in which a ticket can end. Each golden file is to be read aloud to somebody who
//! has never seen Agarose.

use agarose_core::{
    Command, EndCause, Millis, TicketId,
    command::{ExecutionReport, KernelReport, Reach},
    event::ResultStatus,
    slot::{Exit, GroupOutcome, ProcessNote},
    ticket::Work,
    watchdog::{KernelFate, NobodyReason, Verdict},
};

use crate::lab::{Lab, golden, owner, session};

/// Asks why, and compares all of the answer.
fn why(lab: &Lab, ticket: TicketId, name: &str) {
    golden(&format!("why_{name}.txt"), &lab.told(&["why", &ticket.to_string()]));
}

fn note(pid: u32, state: char, command: &str) -> ProcessNote {
    ProcessNote { pid, state, command: command.to_owned(), escaped: false }
}

fn killed() -> GroupOutcome {
    let escaped = ProcessNote { escaped: true, ..note(4007, 'S', "sleep") };
    GroupOutcome::Killed { killed: vec![note(4000, 'R', "python3 -m agarose_worker"), escaped] }
}

fn stopped(lab: &mut Lab, outcome: GroupOutcome) {
    lab.after(2000).execution("analysis", ExecutionReport::Stopped { outcome, output: None });
}

/// A cell that runs into its limit of 5 s and ignores the interrupt.
fn overrun(lab: &mut Lab) -> TicketId {
    let ticket = lab.submit_as("analysis", "while True: pass", |submit| {
        submit.timeouts.start_to_close = Some(Millis(5000));
        submit.timeouts.interrupt_grace = Some(Millis(1000));
    });
    lab.begin("analysis");
    lab.after(5000).tick();
    lab.after(10).verdict("analysis", Verdict::Delivered);
    lab.after(1000).tick();
    ticket
}

#[test]
fn a_cell_that_completed() {
    let mut lab = Lab::new();
    let ticket = lab.after(1000).submit("analysis", "print(6 * 7)");
    lab.complete("analysis", 1200, "42\n");
    why(&lab, ticket, "completed");
}

#[test]
fn a_cell_that_waited_behind_others_and_completed() {
    let mut lab = Lab::new();
    lab.submit("analysis", "a = 1");
    lab.submit("analysis", "b = 2");
    let ticket = lab.after(100).submit_as("analysis", "c = 3", |submit| {
        submit.work = match &submit.work {
            Work::Cell { source, .. } => Work::Cell { source: *source, name: Some("fit model".to_owned()) },
            other => other.clone(),
        };
    });
    for _ in 0..3 {
        lab.complete("analysis", 400, "");
    }
    why(&lab, ticket, "completed_after_others");
}

#[test]
fn a_cell_that_raised_an_error() {
    let mut lab = Lab::new();
    let ticket = lab.submit("analysis", "y = 2\nprint(x)");
    lab.begin("analysis");
    let record = r#"{"result":{"status":"error","error":{"name":"NameError","message":"name 'x' is not defined","line":2}}}"#;
    lab.after(30).result("analysis", ResultStatus::Error, "", record);
    why(&lab, ticket, "failed");
}

#[test]
fn a_cell_that_was_interrupted() {
    let mut lab = Lab::new();
    let ticket = lab.submit("analysis", "import time; time.sleep(60)");
    lab.begin("analysis");
    lab.after(3000).cancel(ticket, "it takes too long", Reach::Full);
    lab.after(2).verdict("analysis", Verdict::Delivered);
    lab.after(3).result_as("analysis", ResultStatus::Interrupted, true, "", "{}");
    why(&lab, ticket, "interrupted");
}

#[test]
fn a_cell_that_ran_out_of_time_and_heeded_the_interrupt() {
    let mut lab = Lab::new();
    let ticket = lab.submit_as("analysis", "import time; time.sleep(60)", |submit| {
        submit.timeouts.start_to_close = Some(Millis(5000));
    });
    lab.begin("analysis");
    lab.after(5000).tick();
    lab.after(2).verdict("analysis", Verdict::Delivered);
    lab.after(3).result_as("analysis", ResultStatus::Interrupted, true, "", "{}");
    why(&lab, ticket, "interrupted_by_timeout");
}

#[test]
fn a_cell_that_completed_although_it_was_cancelled() {
    let mut lab = Lab::new();
    let ticket = lab.submit("analysis", "try: work()\nexcept KeyboardInterrupt: pass");
    lab.begin("analysis");
    lab.after(900).cancel(ticket, "not needed", Reach::Full);
    lab.after(2).verdict("analysis", Verdict::Delivered);
    lab.after(1).result_as("analysis", ResultStatus::Ok, true, "", "{}");
    why(&lab, ticket, "completed_although_cancelled");
}

#[test]
fn a_cell_that_was_cancelled_in_the_queue() {
    let mut lab = Lab::new();
    lab.submit("analysis", "a = 1");
    let ticket = lab.submit("analysis", "b = 2");
    lab.begin("analysis");
    lab.after(700).cancel(ticket, "not needed any more", Reach::Full);
    why(&lab, ticket, "cancelled_in_the_queue");
}

#[test]
fn a_cell_that_was_cancelled_while_its_process_started() {
    let mut lab = Lab::new();
    let ticket = lab.submit("analysis", "a = 1");
    lab.after(50).cancel(ticket, "wrong session", Reach::Full);
    assert_eq!(lab.end_of(ticket), EndCause::CancelledBeforeStart);
    why(&lab, ticket, "cancelled_before_start");
}

#[test]
fn a_cell_that_was_cancelled_while_a_child_of_it_ran() {
    let mut lab = Lab::new();
    let ticket = lab.submit("analysis", "import os; os.system('sleep 60')");
    lab.begin("analysis");
    lab.after(2000).cancel(ticket, "wrong file", Reach::Full);
    lab.after(2).verdict("analysis", Verdict::Delivered);
    lab.after(5).result("analysis", ResultStatus::Ok, "", "{}");
    why(&lab, ticket, "cancelled_with_its_child");
}

#[test]
fn a_cell_that_was_cancelled_and_had_to_be_stopped_by_force() {
    let mut lab = Lab::new();
    let ticket = lab.submit("analysis", "while True: pass");
    lab.begin("analysis");
    lab.after(2000).cancel(ticket, "runs wild", Reach::Full);
    lab.after(10).verdict("analysis", Verdict::Delivered);
    lab.after(10_000).tick();
    stopped(&mut lab, killed());
    lab.after(300).kernel_ready("analysis");
    why(&lab, ticket, "cancelled_by_force");
}

#[test]
fn a_cell_that_waited_longer_than_it_may() {
    let mut lab = Lab::new();
    lab.submit("analysis", "a = 1");
    let ticket = lab.submit_as("analysis", "b = 2", |submit| {
        submit.timeouts.schedule_to_start = Some(Millis(30_000));
    });
    lab.begin("analysis");
    lab.after(30_000).tick();
    why(&lab, ticket, "waited_too_long");
}

#[test]
fn a_cell_whose_predecessor_failed() {
    let mut lab = Lab::new();
    let first = lab.submit("analysis", "load()");
    let ticket = lab.submit_as("analysis", "plot()", |submit| submit.after = Some(first));
    lab.begin("analysis");
    lab.after(100).result("analysis", ResultStatus::Error, "", "{}");
    why(&lab, ticket, "predecessor_failed");
}

#[test]
fn a_cell_whose_session_was_closed() {
    let mut lab = Lab::new();
    lab.submit("analysis", "a = 1");
    let ticket = lab.submit("analysis", "b = 2");
    lab.begin("analysis");
    lab.after(100).decide(&Command::CloseSession {
        session: session("analysis"),
        by: owner("user_repl:grace"),
        reason: "done for today".to_owned(),
        remove: false,
    });
    why(&lab, ticket, "session_closed");
}

#[test]
fn a_cell_that_was_refused() {
    let mut lab = Lab::new();
    let ticket = lab.submit("analysis", "a = 1");
    lab.after(20).kernel(
        "analysis",
        KernelReport::StartFailed { reason: "no python3 is on the PATH".to_owned(), unavailable: true },
    );
    why(&lab, ticket, "refused");
}

#[test]
fn a_cell_whose_process_died() {
    let mut lab = Lab::new();
    let ticket = lab.submit("analysis", "x = bytearray(10**12)");
    lab.begin("analysis");
    lab.after(4000).kernel(
        "analysis",
        KernelReport::Gone {
            exit: Exit::Signal { signal: 9, out_of_memory: true },
            while_down: false,
            began: Some(true),
            output: None,
            left: None,
        },
    );
    why(&lab, ticket, "kernel_died");
}

#[test]
fn a_cell_whose_process_was_killed_by_a_limit() {
    let mut lab = Lab::new();
    let ticket = lab.submit("analysis", "x = bytearray(10**12)");
    lab.begin("analysis");
    lab.after(4000).kernel(
        "analysis",
        KernelReport::Gone {
            exit: Exit::Limit { limit: "memory limit 2 GiB".to_owned() },
            while_down: false,
            began: Some(true),
            output: None,
            left: None,
        },
    );
    why(&lab, ticket, "killed_by_a_limit");
}

#[test]
fn a_cell_whose_session_was_closed_while_it_ran() {
    let mut lab = Lab::new();
    let ticket = lab.submit("analysis", "import time; time.sleep(60)");
    lab.begin("analysis");
    lab.after(100).decide(&Command::CloseSession {
        session: session("analysis"),
        by: owner("user_repl:grace"),
        reason: "done for today".to_owned(),
        remove: false,
    });
    lab.after(2).verdict("analysis", Verdict::Delivered);
    lab.after(3).result_as("analysis", ResultStatus::Interrupted, true, "", "{}");
    why(&lab, ticket, "interrupted_by_a_close");
}

#[test]
fn a_cell_that_ran_when_agarose_stopped_with_its_kernels() {
    let mut lab = Lab::new();
    let ticket = lab.submit("analysis", "import time; time.sleep(60)");
    lab.begin("analysis");
    lab.after(100).decide(&Command::StopDaemon { stop_kernels: true });
    lab.after(2).verdict("analysis", Verdict::Delivered);
    lab.after(3).result_as("analysis", ResultStatus::Interrupted, true, "", "{}");
    why(&lab, ticket, "interrupted_by_a_stop");
}

fn lost(began: Option<bool>) -> (Lab, TicketId) {
    let mut lab = Lab::new();
    let ticket = lab.submit("analysis", "fit()");
    lab.after(250).kernel_ready("analysis");
    if began == Some(true) {
        lab.after(5).execution("analysis", ExecutionReport::Acknowledged);
    }
    lab.after(60_000).restart(&["the daemon before did not stop in order"]);
    lab.after(10).kernel(
        "analysis",
        KernelReport::Gone {
            exit: Exit::Unknown { evidence: "its supervisor does not answer any more".to_owned() },
            while_down: true,
            began,
            output: None,
            left: None,
        },
    );
    (lab, ticket)
}

#[test]
fn a_cell_that_was_lost_while_it_ran() {
    let (lab, ticket) = lost(Some(true));
    why(&lab, ticket, "lost");
}

#[test]
fn a_cell_that_was_lost_and_nobody_knows_whether_it_began() {
    let (lab, ticket) = lost(None);
    why(&lab, ticket, "lost_unknown");
}

#[test]
fn a_cell_that_timed_out_and_whose_process_was_replaced() {
    let mut lab = Lab::new();
    let ticket = overrun(&mut lab);
    stopped(&mut lab, killed());
    lab.after(300).kernel_ready("analysis");
    why(&lab, ticket, "timed_out_reset");
}

#[test]
fn a_cell_that_timed_out_and_could_not_be_stopped() {
    let mut lab = Lab::new();
    let ticket = overrun(&mut lab);
    stopped(&mut lab, GroupOutcome::Alive { left: vec![note(4000, 'D', "python3 -m agarose_worker")] });
    assert!(matches!(lab.end_of(ticket), EndCause::Stopped { kernel: KernelFate::NotReset { .. }, .. }));
    why(&lab, ticket, "timed_out_not_reset");
}

#[test]
fn a_cell_that_timed_out_and_whose_process_could_not_be_replaced() {
    let mut lab = Lab::new();
    let ticket = overrun(&mut lab);
    stopped(&mut lab, killed());
    lab.after(300).kernel(
        "analysis",
        KernelReport::StartFailed { reason: "/usr/bin/python3 is gone".to_owned(), unavailable: true },
    );
    why(&lab, ticket, "timed_out_reset_unavailable");
}

#[test]
fn a_cell_that_was_silent_too_long_and_could_not_be_interrupted() {
    let mut lab = Lab::new();
    let ticket = lab.submit_as("analysis", "wait()", |submit| {
        submit.timeouts.heartbeat = Some(Millis(60_000));
    });
    lab.begin("analysis");
    lab.after(60_000).tick();
    lab.after(10).verdict("analysis", Verdict::ReachedNobody { reason: NobodyReason::SupervisorUnreachable });
    stopped(&mut lab, GroupOutcome::ExitedOnTerm);
    lab.after(300).kernel_ready("analysis");
    why(&lab, ticket, "timed_out_silent");
}

#[test]
fn a_request_to_restart_the_process() {
    let mut lab = Lab::new();
    lab.submit("analysis", "a = 1");
    lab.complete("analysis", 10, "");
    let ticket = lab.after(1000).submit_as("analysis", "", |submit| submit.work = Work::RestartKernel);
    lab.after(100).kernel(
        "analysis",
        KernelReport::Gone { exit: Exit::Stopped, while_down: false, began: None, output: None, left: None },
    );
    lab.after(250).kernel_ready("analysis");
    why(&lab, ticket, "restarted");
}

#[test]
fn a_cell_that_waits_and_one_that_runs() {
    let mut lab = Lab::new();
    let first = lab.submit("analysis", "a = 1");
    let second = lab.submit("analysis", "b = 2");
    lab.begin("analysis");
    lab.after(5000).decide(&Command::Pause { session: None, by: owner("user_repl:grace") });
    why(&lab, first, "runs");
    why(&lab, second, "waits");
}

#[test]
fn the_answer_for_programs_has_the_same_sentences() {
    let mut lab = Lab::new();
    let ticket = lab.after(1000).submit("analysis", "print(6 * 7)");
    lab.complete("analysis", 1200, "42\n");
    golden("why_completed.json", &lab.told(&["why", "--json", &ticket.to_string()]));
}

#[test]
fn a_ticket_that_is_not_in_the_log_is_not_found() {
    let told = Lab::new().log(&["why", "00000000000000000000000099"]);
    assert_eq!((told.code, told.out.as_str()), (4, ""));
    assert_eq!(told.err, "error: there is no ticket 00000000000000000000000099 in this log\n");
}
