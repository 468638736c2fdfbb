//! Scenarios of the ladder: interrupt, grace, kill, and the word at its end.

use super::script::{go_on, walk};

/// One cell with a second to run, begun, under g0.
const LIMITED: &str = "
    start
    submit 1 timeout=1000
    ready g0
    began 1
";

#[test]
fn a_result_in_time_is_returned_untouched() {
    let mut drive = walk(LIMITED);
    go_on(
        &mut drive,
        "wait 999               -> nothing
         result 1 error         -> result g0/1 error; ended 1 failed yes; cell 1 closed
         wait 1                 -> nothing",
    );
}

#[test]
fn no_budget_is_spent_while_a_permission_is_pending() {
    let mut drive = walk(LIMITED);
    go_on(
        &mut drive,
        "wait 600
         ask 1                  -> asked p1
         ask 1                  -> asked p2
         wait 5000              -> nothing
         allow p1               -> allowed p1
         allow p1               -> refused: there is no open question p1
         wait 5000              -> nothing
         deny p2                -> denied p2
         wait 399               -> nothing
         wait 1                 -> ladder g0/1 timeout; interrupt g0/1 #1",
    );
}

#[test]
fn a_question_of_another_ticket_freezes_nothing() {
    let mut drive = walk(LIMITED);
    go_on(
        &mut drive,
        "submit 2
         ask 2                  -> asked p1
         ask -                  -> asked p2
         ask 9                  -> refused: there is no open ticket 00000000000000000000000009
         wait 1000              -> ladder g0/1 timeout; interrupt g0/1 #1",
    );
}

#[test]
fn a_question_expires_as_a_no_and_the_budget_goes_on() {
    let mut drive = walk(LIMITED);
    go_on(
        &mut drive,
        "ask 1 expires=700
         wait 700               -> expired p1
         wait 999               -> nothing
         wait 1                 -> ladder g0/1 timeout; interrupt g0/1 #1
         result 1 interrupted landed -> result g0/1 interrupted; ladder g0/1 finished; ended 1 interrupted yes; cell 1 closed",
    );
}

#[test]
fn an_interrupt_that_ends_the_cell_within_its_grace_keeps_the_kernel() {
    let mut drive = walk(LIMITED);
    go_on(
        &mut drive,
        "wait 1000              -> ladder g0/1 timeout; interrupt g0/1 #1
         verdict 1 delivered    -> delivered g0/1
         wait 9999              -> nothing
         result 1 interrupted   -> result g0/1 interrupted; ladder g0/1 finished; ended 1 interrupted yes; cell 1 closed
         submit 2               -> queued 2; admitted 2; execute g0/2 #2",
    );
}

#[test]
fn a_cancellation_cuts_through_a_pending_permission_with_one_interrupt() {
    let mut drive = walk(LIMITED);
    go_on(
        &mut drive,
        "ask 1
         cancel 1               -> cancel 1 (enough); ladder g0/1 cancellation; interrupt g0/1 #1; it is being interrupted
         cancel 1               -> nothing; asked before: enough
         verdict 1 delivered
         result 1 interrupted landed -> result g0/1 interrupted; expired p1; ladder g0/1 finished; ended 1 interrupted yes; cell 1 closed",
    );
}

#[test]
fn an_ignored_interrupt_is_followed_by_a_kill_and_a_fresh_kernel() {
    let mut drive = walk(LIMITED);
    go_on(
        &mut drive,
        "submit 2
         wait 1000
         verdict 1 delivered
         wait 9999              -> nothing
         wait 1                 -> kill g0/1
         stopped 1 output       -> output g0/1; group g0/1 gone; gone g0; starting python g1 after g0
         wait 10000             -> nothing
         ready g1               -> ready g1; ladder g0/1 reset to g1; ended 1 timed_out yes; cell 1 closed; admitted 2; execute g1/2 #2 without g0",
    );
}

#[test]
fn the_grace_of_a_ticket_overrides_the_rule() {
    walk(
        "start
         submit 1 timeout=1000 grace=600
         ready g0
         began 1
         wait 1000
         verdict 1 delivered
         wait 599               -> nothing
         wait 1                 -> kill g0/1",
    );
}

#[test]
fn an_interrupt_that_reached_nobody_skips_the_grace() {
    let mut drive = walk(LIMITED);
    go_on(
        &mut drive,
        "wait 1000
         verdict 1 nobody       -> reached nobody g0/1; kill g0/1",
    );
}

#[test]
fn a_verdict_that_never_comes_counts_as_nobody() {
    let mut drive = walk(LIMITED);
    go_on(
        &mut drive,
        "wait 1000
         wait 4999              -> nothing
         wait 1                 -> reached nobody g0/1; kill g0/1
         verdict 1 delivered    -> nothing",
    );
}

#[test]
fn a_group_that_is_not_gone_is_abandoned_and_the_late_stop_touches_no_later_kernel() {
    let mut drive = walk(LIMITED);
    go_on(
        &mut drive,
        "submit 2
         wait 1000
         verdict 1 nobody
         stopped 1 alive        -> group g0/1 not gone; gone g0; ladder g0/1 not reset; ended 1 timed_out yes; cell 1 closed; admitted 2; starting python g1 after g0
         stopped 1              -> nothing
         gone g0                -> nothing
         result 1 ok            -> nothing
         ready g1               -> ready g1; execute g1/2 #2 without g0",
    );
}

#[test]
fn a_stop_that_is_never_answered_is_an_end_all_the_same() {
    let mut drive = walk(LIMITED);
    go_on(
        &mut drive,
        "wait 1000
         verdict 1 nobody
         wait 24999             -> nothing
         wait 1                 -> group g0/1 not gone; gone g0; ladder g0/1 not reset; ended 1 timed_out yes; cell 1 closed
         tick                   -> nothing",
    );
}

#[test]
fn a_replacement_that_does_not_come_up_is_reset_unavailable() {
    for failure in ["failed g1", "gone g1", "gone g1 down", "wait 60000"] {
        let mut drive = walk(LIMITED);
        let row = alloc::format!(
            "{failure} -> failed g1; ladder g0/1 reset unavailable; ended 1 timed_out yes; cell 1 closed"
        );
        go_on(&mut drive, "wait 1000\nverdict 1 nobody\nstopped 1");
        go_on(&mut drive, &row);
    }
}

#[test]
fn a_cancellation_that_needed_a_hard_stop_is_cancelled_and_never_timed_out() {
    let mut drive = walk(LIMITED);
    go_on(
        &mut drive,
        "cancel 1
         verdict 1 nobody
         wait 1000              -> nothing
         stopped 1              -> group g0/1 gone; gone g0; starting python g1 after g0
         ready g1               -> ready g1; ladder g0/1 reset to g1; ended 1 cancelled yes; cell 1 closed",
    );
}

#[test]
fn a_stale_lease_is_never_served() {
    let mut drive = walk(LIMITED);
    go_on(
        &mut drive,
        "cancel 1
         verdict 1 delivered under=7   -> nothing
         verdict 1 delivered attempt=2 -> nothing
         stopped 1 under=7             -> nothing
         stopped 1                     -> nothing
         result 1 ok under=7           -> nothing
         began 1 under=7               -> nothing",
    );
}

#[test]
fn a_result_after_the_kill_is_written_and_the_ladder_has_the_last_word() {
    let mut drive = walk(
        "start
         submit 1 timeout=1000
         ready g0",
    );
    go_on(
        &mut drive,
        "wait 1000
         verdict 1 nobody       -> reached nobody g0/1; kill g0/1
         result 1 ok            -> began g0/1; result g0/1 ok
         result 1 ok            -> nothing
         stopped 1 output       -> group g0/1 gone; gone g0; starting python g1 after g0
         ready g1               -> ready g1; ladder g0/1 reset to g1; ended 1 timed_out yes; cell 1 closed",
    );
}

#[test]
fn a_worker_that_dies_on_the_ladder_is_a_stopped_group() {
    for rung in ["", "verdict 1 delivered", "verdict 1 nobody"] {
        let mut drive = walk(LIMITED);
        go_on(&mut drive, "wait 1000");
        go_on(&mut drive, rung);
        go_on(
            &mut drive,
            "gone g0 -> gone g0; group g0/1 gone; starting python g1 after g0\nstopped 1 -> nothing",
        );
    }
    let mut drive = walk(LIMITED);
    go_on(
        &mut drive,
        "wait 1000
         gone g0 unknown -> gone g0; group g0/1 not gone; ladder g0/1 not reset; ended 1 timed_out yes; cell 1 closed",
    );
}

#[test]
fn a_bare_interrupt_climbs_one_rung_and_a_cancellation_goes_on_from_it() {
    let mut drive = walk(LIMITED);
    go_on(
        &mut drive,
        "cancel 1 interrupt why=first
         verdict 1 delivered
         cancel 1 why=second    -> ladder g0/1 cancellation; interrupt g0/1 #2; it is being interrupted
         verdict 1 delivered    -> nothing
         verdict 1 delivered attempt=2 -> delivered g0/1
         wait 10000             -> kill g0/1",
    );
}

#[test]
fn a_bare_interrupt_does_not_stop_the_clock() {
    let mut drive = walk(LIMITED);
    go_on(
        &mut drive,
        "wait 900
         cancel 1 interrupt
         verdict 1 delivered
         wait 100               -> ladder g0/1 timeout; interrupt g0/1 #2",
    );
}

#[test]
fn an_interrupt_does_not_set_a_ladder_back() {
    let mut drive = walk(LIMITED);
    go_on(
        &mut drive,
        "wait 1000
         verdict 1 nobody       -> reached nobody g0/1; kill g0/1
         cancel 1 interrupt     -> cancel 1 (enough); it is being interrupted
         stopped 1              -> group g0/1 gone; gone g0; starting python g1 after g0
         cancel 1               -> nothing; asked before: enough
         ready g1               -> ready g1; ladder g0/1 reset to g1; ended 1 timed_out yes; cell 1 closed",
    );
}

#[test]
fn closing_while_a_ladder_climbs_signals_nobody_twice_and_starts_no_replacement() {
    let mut drive = walk(LIMITED);
    go_on(
        &mut drive,
        "cancel 1
         close remove           -> closed s
         verdict 1 nobody       -> reached nobody g0/1; kill g0/1
         stopped 1              -> group g0/1 gone; gone g0; ladder g0/1 reset; ended 1 cancelled yes; cell 1 closed; removed s",
    );
}

#[test]
fn closing_while_a_replacement_comes_up_ends_the_ticket_and_stops_the_replacement() {
    let mut drive = walk(LIMITED);
    go_on(
        &mut drive,
        "cancel 1
         verdict 1 nobody
         stopped 1
         close remove           -> closed s; ladder g0/1 reset to g1; ended 1 cancelled yes; cell 1 closed; stop g1 (sessionclosed)
         gone g1                -> gone g1; removed s",
    );
}

#[test]
fn a_silent_cell_runs_into_its_heartbeat_and_a_sign_of_life_moves_it() {
    walk(
        "start
         submit 1 beat=1000
         ready g0
         began 1
         pass 500
         alive 1 at=400         -> alive g0/1 at 400
         alive 1 at=300         -> nothing
         alive 1 at=9000        -> alive g0/1 at 500
         wait 999               -> nothing
         wait 1                 -> ladder g0/1 idletimeout; interrupt g0/1 #1
         verdict 1 nobody
         stopped 1 alive        -> group g0/1 not gone; gone g0; ladder g0/1 not reset; ended 1 timed_out yes; cell 1 closed",
    );
}

#[test]
fn a_sign_of_life_of_a_cell_without_a_heartbeat_is_no_event() {
    let mut drive = walk(LIMITED);
    go_on(&mut drive, "pass 10\nalive 1 at=5 -> nothing");
}

#[test]
fn zero_is_no_limit() {
    let mut drive = walk(
        "start
         submit 1 timeout=0 beat=0
         ready g0
         began 1
         wait 100000000         -> nothing
         cancel 1               -> cancel 1 (enough); ladder g0/1 cancellation; interrupt g0/1 #1; it is being interrupted",
    );
    go_on(&mut drive, "result 1 interrupted");
}

#[test]
fn a_result_and_a_timeout_in_the_same_instant_make_one_word() {
    let mut drive = walk(LIMITED);
    go_on(
        &mut drive,
        "pass 1000
         result 1 ok            -> result g0/1 ok; ended 1 completed yes; cell 1 closed
         tick                   -> nothing",
    );
    let mut drive = walk(LIMITED);
    go_on(
        &mut drive,
        "wait 1000              -> ladder g0/1 timeout; interrupt g0/1 #1
         result 1 ok            -> result g0/1 ok; ladder g0/1 finished; ended 1 completed yes; cell 1 closed",
    );
}
