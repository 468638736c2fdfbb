//! Scenarios of a daemon that was killed and comes back.

use super::{
    drive::Drive,
    script::{go_on, walk},
};
use crate::{Effect, Event};

const RUNNING: &str = "
    start
    submit 1 timeout=1000
    submit 2
    ready g0
    began 1
";

fn effects_of(drive: &Drive, name: &str) -> alloc::vec::Vec<Effect> {
    let last = drive.log.iter().rev().find(|(_, event)| event.name() == name);
    drive.world.effects(&last.unwrap().1)
}

#[test]
fn a_cell_goes_on_under_a_restarted_daemon_and_its_clock_with_it() {
    let mut drive = walk(RUNNING);
    go_on(
        &mut drive,
        "pass 900
         start                  -> started
         reattached g0          -> reattached g0
         reattached g0          -> nothing
         settle                 -> nothing
         wait 99                -> nothing
         wait 1                 -> ladder g0/1 timeout; interrupt g0/1 #1",
    );
}

#[test]
fn a_held_result_is_recorded_and_the_queue_goes_on() {
    let mut drive = walk(RUNNING);
    go_on(
        &mut drive,
        "start
         reattached g0
         result 1 ok            -> result g0/1 ok; ended 1 completed yes; cell 1 closed; admitted 2; execute g0/2 #2
         result 1 ok            -> nothing",
    );
}

#[test]
fn a_cell_whose_kernel_went_with_the_daemon_is_lost_and_never_run_again() {
    for (evidence, executed) in [("", "unknown"), ("begun", "yes"), ("unbegun", "no")] {
        let mut drive = walk("start\nsubmit 1\nsubmit 2\nready g0\nstart");
        let begun = if evidence == "begun" { "began g0/1; " } else { "" };
        let row = alloc::format!(
            "gone g0 down {evidence} -> {begun}gone g0; ended 1 lost {executed}; cell 1 closed; admitted 2; starting python g1 after g0"
        );
        go_on(&mut drive, &row);
    }
}

#[test]
fn a_cell_that_had_begun_is_never_said_not_to_have_run() {
    let mut drive = walk(RUNNING);
    go_on(
        &mut drive,
        "start
         gone g0 down unbegun   -> gone g0; ended 1 lost yes; cell 1 closed; admitted 2; starting python g1 after g0",
    );
}

#[test]
fn a_start_that_was_lost_with_the_daemon_is_made_again_for_whoever_waits() {
    walk(
        "start
         submit 1
         start
         gone g0 down           -> gone g0; starting python g1
         ready g1               -> ready g1; execute g1/1 #1",
    );
    walk(
        "start
         submit 1 restart
         start
         gone g0 down           -> gone g0; starting python g1
         ready g1               -> ready g1; ended 1 completed no; cell 1 closed",
    );
}

#[test]
fn a_ladder_goes_on_from_its_rung_and_its_unanswered_step_is_asked_again() {
    let mut drive = walk(RUNNING);
    go_on(&mut drive, "wait 1000\nstart\nreattached g0");
    assert!(matches!(effects_of(&drive, "KernelReattached")[..], [Effect::SendInterrupt { attempt: 1, .. }]));
    go_on(&mut drive, "verdict 1 nobody -> reached nobody g0/1; kill g0/1\nstart\nreattached g0");
    assert!(matches!(effects_of(&drive, "KernelReattached")[..], [Effect::StopGroup { .. }]));
    go_on(
        &mut drive,
        "stopped 1              -> group g0/1 gone; gone g0; starting python g1 after g0
         start
         reattached g1          -> reattached g1
         ready g1               -> ready g1; ladder g0/1 reset to g1; ended 1 timed_out yes; cell 1 closed; admitted 2; execute g1/2 #2 without g0",
    );
}

#[test]
fn an_answer_that_nobody_listened_for_is_waited_for_again() {
    let mut drive = walk(RUNNING);
    go_on(
        &mut drive,
        "wait 1000              -> ladder g0/1 timeout; interrupt g0/1 #1
         pass 100000
         start
         tick                   -> nothing
         wait 4999              -> nothing
         verdict 1 delivered    -> delivered g0/1
         pass 100000
         start
         tick                   -> nothing
         result 1 interrupted   -> result g0/1 interrupted; ladder g0/1 finished; ended 1 interrupted yes; cell 1 closed; admitted 2; execute g0/2 #2",
    );
}

#[test]
fn a_cell_that_was_not_acknowledged_is_sent_again_unless_it_is_being_stopped() {
    let mut drive = walk("start\nsubmit 1\nready g0\nstart\nreattached g0");
    assert!(matches!(effects_of(&drive, "KernelReattached")[..], [Effect::SendExecute { .. }]));
    go_on(&mut drive, "cancel 1\nstart\nreattached g0");
    assert!(matches!(effects_of(&drive, "KernelReattached")[..], [Effect::SendInterrupt { .. }]));
}

#[test]
fn a_connection_that_was_lost_under_a_living_daemon_has_its_requests_asked_again() {
    let mut drive = walk(
        "start
         submit 1
         ready g0               -> ready g0; execute g0/1 #1
         reattached g0          -> reattached g0",
    );
    assert!(matches!(effects_of(&drive, "KernelReattached")[..], [Effect::SendExecute { .. }]));
    go_on(
        &mut drive,
        "began 1
         reattached g0          -> nothing
         cancel 1
         reattached g0          -> reattached g0",
    );
    assert!(matches!(effects_of(&drive, "KernelReattached")[..], [Effect::SendInterrupt { .. }]));
}

#[test]
fn a_kernel_that_was_told_to_go_is_told_again() {
    let mut drive = walk("start\nsubmit 1\nready g0\nresult 1 ok\nsubmit 2 restart\nstart\nreattached g0");
    assert!(matches!(effects_of(&drive, "KernelReattached")[..], [Effect::StopKernel { .. }]));
    go_on(&mut drive, "gone g0 -> gone g0; starting python g1 after g0");
}

#[test]
fn a_question_stays_open_and_the_budget_frozen() {
    let mut drive = walk(RUNNING);
    go_on(
        &mut drive,
        "wait 400
         ask 1
         pass 100000
         start
         reattached g0
         tick                   -> nothing
         allow p1               -> allowed p1
         wait 599               -> nothing
         wait 1                 -> ladder g0/1 timeout; interrupt g0/1 #1",
    );
}

#[test]
fn the_queue_goes_on_by_itself_after_a_crash_between_two_tickets() {
    let mut drive = walk(RUNNING);
    go_on(&mut drive, "pause\nresult 1 ok\nresume");
    // The last decision is cut in the middle, as no commit of ours is: admitted, and never sent.
    let cut =
        drive.log.iter().rposition(|(_, event)| matches!(event, Event::ExecuteRequested { .. })).unwrap();
    let mut again = Drive::default();
    again.now = drive.now;
    for (at, event) in &drive.log[..cut] {
        again.world.apply(*at, event);
        again.log.push((*at, event.clone()));
    }
    go_on(&mut again, "start\nreattached g0 -> reattached g0; execute g0/2 #2");
}
