//! Scenarios of the queue: who is admitted, who is refused, who is cancelled.

use super::script::{go_on, walk};

/// One cell runs, begun, under g0.
const RUNNING: &str = "
    start
    submit 1
    ready g0
    began 1
";

#[test]
fn two_writers_of_a_session_never_overlap() {
    walk(
        "start                  -> started
         submit 1               -> opened s; queued 1; admitted 1; starting python g0
         submit 2               -> queued 2
         ready g0               -> ready g0; execute g0/1 #1
         began 1                -> began g0/1
         result 1 ok            -> result g0/1 ok; ended 1 completed yes; cell 1 closed; admitted 2; execute g0/2 #2
         result 2 error         -> began g0/2; result g0/2 error; ended 2 failed yes; cell 2 closed",
    );
}

#[test]
fn an_idle_session_admits_at_once_and_positions_renumber_as_work_ends() {
    let mut drive = walk(RUNNING);
    go_on(&mut drive, "submit 2\nsubmit 3\nsubmit 4");
    let position = |drive: &super::drive::Drive, ticket| {
        drive.world.sessions()[&super::drive::session("s")].position(crate::TicketId(ticket))
    };
    assert_eq!([1, 2, 3, 4].map(|ticket| position(&drive, ticket)), [Some(0), Some(1), Some(2), Some(3)]);
    go_on(&mut drive, "cancel 3\nresult 1 ok");
    assert_eq!([1, 2, 3, 4].map(|ticket| position(&drive, ticket)), [None, Some(0), None, Some(1)]);
}

#[test]
fn the_owner_of_a_waiting_ticket_cancels_it_and_the_active_one_is_not_touched() {
    let mut drive = walk(RUNNING);
    go_on(
        &mut drive,
        "submit 2 by=b
         cancel 2 by=b queued   -> cancel 2 (enough); ended 2 cancelled no; it waited
         result 1 ok            -> result g0/1 ok; ended 1 completed yes; cell 1 closed",
    );
}

#[test]
fn cancelling_the_middle_of_three_leaves_the_others_in_order() {
    let mut drive = walk(RUNNING);
    go_on(
        &mut drive,
        "submit 2
         submit 3
         submit 4
         cancel 3               -> cancel 3 (enough); ended 3 cancelled no; it waited
         result 1 ok            -> result g0/1 ok; ended 1 completed yes; cell 1 closed; admitted 2; execute g0/2 #2
         result 2 ok            -> began g0/2; result g0/2 ok; ended 2 completed yes; cell 2 closed; admitted 4; execute g0/4 #3",
    );
}

#[test]
fn a_cancellation_of_what_is_absent_running_ended_or_someone_elses_touches_nothing() {
    let mut drive = walk(RUNNING);
    go_on(
        &mut drive,
        "submit 2 by=b
         cancel 2 by=a queued   -> refused: ticket 00000000000000000000000002 does not belong to agent:a
         cancel 9 queued        -> refused: there is no open ticket 00000000000000000000000009
         cancel 1 queued        -> refused: ticket 00000000000000000000000001 has left the queue
         result 1 ok
         cancel 1 queued        -> refused: ticket 00000000000000000000000001 has ended: completed
         cancel 1               -> refused: ticket 00000000000000000000000001 has ended: completed",
    );
}

#[test]
fn only_the_exact_ticket_and_owner_interrupt_and_only_once() {
    let mut drive = walk(RUNNING);
    go_on(
        &mut drive,
        "submit 2
         cancel 1 by=b interrupt           -> refused: ticket 00000000000000000000000001 does not belong to agent:b
         cancel 2 interrupt                -> refused: ticket 00000000000000000000000002 runs no cell, so there is nothing to interrupt
         cancel 1 interrupt why=first      -> cancel 1 (first); ladder g0/1 interrupt; interrupt g0/1 #1; it is being interrupted
         cancel 1 interrupt why=second     -> nothing; asked before: first",
    );
}

#[test]
fn a_failure_is_written_and_the_next_is_admitted() {
    let mut drive = walk(RUNNING);
    go_on(
        &mut drive,
        "submit 2
         gone g0 -> gone g0; ended 1 failed yes; cell 1 closed; admitted 2; starting python g1 after g0
         ready g1 -> ready g1; execute g1/2 #2 without g0",
    );
}

#[test]
fn a_normal_return_in_the_grace_of_a_cancellation_is_cancelled_and_an_error_keeps_its_word() {
    let cancelled = "
        cancel 1
        verdict 1 delivered -> delivered g0/1
    ";
    let mut drive = walk(RUNNING);
    go_on(&mut drive, cancelled);
    go_on(
        &mut drive,
        "result 1 ok -> result g0/1 ok; ladder g0/1 finished; ended 1 cancelled yes; cell 1 closed",
    );
    let mut drive = walk(RUNNING);
    go_on(&mut drive, cancelled);
    go_on(
        &mut drive,
        "result 1 ok landed -> result g0/1 ok; ladder g0/1 finished; ended 1 completed yes; cell 1 closed",
    );
    let mut drive = walk(RUNNING);
    go_on(&mut drive, cancelled);
    go_on(
        &mut drive,
        "result 1 error landed -> result g0/1 error; ladder g0/1 finished; ended 1 failed yes; cell 1 closed",
    );
}

#[test]
fn a_result_before_the_verdict_of_its_interrupt_keeps_its_own_word() {
    let mut drive = walk(RUNNING);
    go_on(
        &mut drive,
        "cancel 1
         result 1 ok -> result g0/1 ok; ladder g0/1 finished; ended 1 completed yes; cell 1 closed",
    );
}

#[test]
fn a_cell_that_an_interrupt_did_not_reach_completes_by_its_own_word() {
    let mut drive = walk(RUNNING);
    go_on(
        &mut drive,
        "cancel 1 interrupt
         verdict 1 nobody -> reached nobody g0/1; ladder g0/1 ignored
         result 1 ok      -> result g0/1 ok; ended 1 completed yes; cell 1 closed",
    );
}

#[test]
fn a_busy_or_full_session_does_not_delay_another() {
    walk(
        "start cap=1
         submit 1
         submit 2
         submit 3               -> refused: session s has 1 tickets waiting, and at most 1 may wait
         submit 3 in=t          -> opened t; queued 3; admitted 3; starting python g1",
    );
}

#[test]
fn at_the_cap_a_submit_is_refused_before_registration_and_its_id_may_be_used_again() {
    let mut drive = walk(
        "start cap=2
         submit 1
         submit 2
         submit 3
         submit 4               -> refused: session s has 2 tickets waiting, and at most 2 may wait
         cancel 2
         submit 4               -> queued 4",
    );
    go_on(&mut drive, "submit 5 -> refused: session s has 2 tickets waiting, and at most 2 may wait");
}

#[test]
fn the_sixty_fifth_waiting_ticket_is_refused() {
    let mut drive = walk("start\nsubmit 1");
    for ticket in 2..66 {
        go_on(&mut drive, &alloc::format!("submit {ticket} -> queued {ticket}"));
    }
    go_on(&mut drive, "submit 66 -> refused: session s has 64 tickets waiting, and at most 64 may wait");
}

#[test]
fn closing_cancels_the_waiters_signals_the_active_once_and_refuses_with_the_reason() {
    let mut drive = walk(RUNNING);
    go_on(
        &mut drive,
        "submit 2
         submit 3
         close why=lunch        -> closed s; ended 2 cancelled no; ended 3 cancelled no; cancel 1 (lunch); ladder g0/1 cancellation; interrupt g0/1 #1
         close why=dinner       -> nothing
         submit 4               -> refused: session s is closed: lunch
         verdict 1 delivered
         result 1 interrupted   -> result g0/1 interrupted; ladder g0/1 finished; ended 1 interrupted yes; cell 1 closed; stop g0 (sessionclosed)
         gone g0                -> gone g0
         settle                 -> nothing",
    );
}

#[test]
fn cleaning_up_frees_the_name_and_the_generations_go_on() {
    let mut drive = walk(RUNNING);
    go_on(
        &mut drive,
        "result 1 ok
         ask -                  -> asked p1
         close remove           -> closed s; stop g0 (sessionclosed)
         submit 2               -> refused: session s is closed: over
         gone g0                -> gone g0; expired p1; removed s
         submit 1               -> refused: ticket 00000000000000000000000001 exists already
         submit 2               -> opened s; queued 2; admitted 2; starting python g1",
    );
}

#[test]
fn a_close_that_also_removes_may_follow_one_that_does_not() {
    walk(
        "start
         submit 1
         ready g0
         result 1 ok
         close                  -> closed s; stop g0 (sessionclosed)
         gone g0                -> gone g0
         close remove           -> closed s; removed s",
    );
}

#[test]
fn an_admission_timeout_removes_exactly_that_ticket_in_one_decision() {
    let mut drive = walk(RUNNING);
    go_on(
        &mut drive,
        "submit 2 wait=100
         submit 3 wait=300
         wait 99                -> nothing
         wait 1                 -> ended 2 cancelled no
         tick                   -> nothing
         result 1 ok            -> result g0/1 ok; ended 1 completed yes; cell 1 closed; admitted 3; execute g0/3 #2
         wait 500               -> nothing",
    );
}

#[test]
fn a_key_names_its_first_ticket_and_another_request_under_it_is_a_conflict() {
    walk(
        "start
         submit 1 key=k digest=1
         submit 2 key=k digest=1 -> nothing; it is 1
         submit 2 key=k digest=2 -> refused: key \"k\" belongs to ticket 00000000000000000000000001, which asked for something else
         submit 1                -> refused: ticket 00000000000000000000000001 exists already
         submit 2 key=k in=t     -> opened t; queued 2; admitted 2; starting python g1
         ready g0
         result 1 ok
         submit 3 key=k digest=1 -> nothing; it is 1
         stop
         submit 3 key=k digest=1 -> nothing; it is 1",
    );
}

#[test]
fn a_key_outlives_the_memory_of_its_ticket_when_the_log_is_asked() {
    let mut drive = walk(
        "start recent=1
         submit 1 key=k digest=1
         ready g0
         result 1 ok
         submit 2
         result 2 ok",
    );
    assert!(drive.world.recent(crate::TicketId(1)).is_none());
    let mut submit = super::drive::request("s", 3);
    submit.key = Some("k".into());
    submit.digest = [1; 32];
    submit.known.push(crate::command::KnownTicket {
        ticket: crate::TicketId(1),
        session: super::drive::session("s"),
        key: Some("k".into()),
        digest: [1; 32],
        word: crate::Word::Completed,
    });
    let decided = drive.decide(&crate::Command::Submit(submit.into())).unwrap();
    assert_eq!(decided.events, []);
    assert_eq!(decided.answer, crate::Answer::Ticket { ticket: crate::TicketId(1), repeated: true });
}

#[test]
fn a_chained_ticket_runs_only_after_a_completed_one() {
    walk(
        "start
         submit 1
         submit 2 after=1
         submit 3 after=2
         submit 4
         submit 5 after=9       -> refused: ticket 00000000000000000000000009 is not known in session s, so nothing can follow it there
         submit 6 after=6       -> refused: ticket 00000000000000000000000006 is not known in session s, so nothing can follow it there
         ready g0
         result 1 error         -> began g0/1; result g0/1 error; ended 1 failed yes; cell 1 closed; ended 2 cancelled no; ended 3 cancelled no; admitted 4; execute g0/4 #2
         submit 7 after=4
         submit 8 after=1
         result 4 ok            -> began g0/4; result g0/4 ok; ended 4 completed yes; cell 4 closed; admitted 7; execute g0/7 #3
         result 7 ok            -> began g0/7; result g0/7 ok; ended 7 completed yes; cell 7 closed; ended 8 cancelled no",
    );
}

#[test]
fn a_chain_behind_a_cancelled_ticket_ends_cancelled() {
    walk(
        "start
         submit 1
         submit 2
         submit 3 after=2
         cancel 2               -> cancel 2 (enough); ended 2 cancelled no; it waited
         ready g0
         result 1 ok            -> began g0/1; result g0/1 ok; ended 1 completed yes; cell 1 closed; ended 3 cancelled no",
    );
}

#[test]
fn a_retry_is_a_new_ticket_and_nothing_retries_by_itself() {
    let mut drive = walk(RUNNING);
    go_on(
        &mut drive,
        "result 1 error         -> result g0/1 error; ended 1 failed yes; cell 1 closed
         tick                   -> nothing
         settle                 -> nothing
         submit 2 retry=1       -> queued 2; admitted 2; execute g0/2 #2",
    );
}

#[test]
fn a_paused_session_admits_nobody_while_its_running_ticket_goes_on() {
    let mut drive = walk(RUNNING);
    go_on(
        &mut drive,
        "submit 2
         submit 3
         pause in=s             -> paused s
         pause in=s             -> nothing
         result 1 ok            -> result g0/1 ok; ended 1 completed yes; cell 1 closed
         settle                 -> nothing
         resume in=s            -> resumed s; admitted 2; execute g0/2 #2
         resume in=s            -> nothing",
    );
}

#[test]
fn pausing_everything_holds_every_session_and_resuming_admits_in_order() {
    walk(
        "start
         pause                  -> paused all
         submit 1               -> opened s; queued 1
         submit 2 in=t          -> opened t; queued 2
         submit 3               -> queued 3
         resume                 -> resumed all; admitted 1; starting python g0; admitted 2; starting python g1",
    );
}

#[test]
fn a_lifecycle_ticket_waits_its_turn() {
    let mut drive = walk(RUNNING);
    go_on(
        &mut drive,
        "submit 2 restart
         submit 3 halt
         submit 4
         result 1 ok            -> result g0/1 ok; ended 1 completed yes; cell 1 closed; admitted 2; stop g0 (requested)
         cancel 2 interrupt     -> refused: ticket 00000000000000000000000002 runs no cell, so there is nothing to interrupt
         cancel 2               -> cancel 2 (enough); it cannot be stopped
         gone g0                -> gone g0; starting python g1 after g0
         ready g1               -> ready g1; ended 2 completed no; cell 2 closed; admitted 3; stop g1 (requested)
         gone g1                -> gone g1; ended 3 completed no; cell 3 closed; admitted 4; starting python g2 after g0
         ready g2               -> ready g2; execute g2/4 #2 without g0",
    );
}

#[test]
fn a_restart_of_nothing_starts_and_a_stop_of_nothing_ends() {
    walk(
        "start
         submit 1 halt          -> opened s; queued 1; admitted 1; ended 1 completed no; cell 1 closed
         submit 2 restart       -> queued 2; admitted 2; starting python g0
         failed g0              -> failed g0; ended 2 refused no; cell 2 closed",
    );
}

#[test]
fn a_restart_while_a_kernel_starts_stops_that_one_first() {
    walk(
        "start
         submit 1
         submit 2 restart
         cancel 1               -> cancel 1 (enough); ended 1 cancelled no; cell 1 closed; admitted 2; stop g0 (requested); it had not begun
         ready g0               -> nothing
         gone g0                -> gone g0; starting python g1",
    );
}

#[test]
fn what_is_cancelled_while_its_kernel_starts_leaves_the_kernel_to_the_next() {
    walk(
        "start
         submit 1
         submit 2
         cancel 1               -> cancel 1 (enough); ended 1 cancelled no; cell 1 closed; admitted 2; it had not begun
         ready g0               -> ready g0; execute g0/2 #1",
    );
}

#[test]
fn a_start_that_failed_for_someone_else_is_tried_once_more() {
    walk(
        "start
         submit 1
         cancel 1
         submit 2               -> queued 2; admitted 2
         failed g0              -> failed g0; starting python g1
         failed g1 unavailable  -> failed g1; ended 2 refused no; cell 2 closed",
    );
}

#[test]
fn a_start_that_is_never_answered_is_refused_in_time_and_told_to_go() {
    let mut drive = walk(
        "start
         submit 1
         wait 59999             -> nothing
         wait 1                 -> failed g0; ended 1 refused no; cell 1 closed
         ready g0               -> nothing
         tick                   -> nothing",
    );
    let (_, failed) = drive.log[drive.log.len() - 3].clone();
    assert!(matches!(drive.world.effects(&failed)[..], [crate::Effect::StopKernel { .. }]), "{failed:?}");
    go_on(&mut drive, "gone g0 -> nothing");
}

#[test]
fn an_idle_kernel_is_stopped_by_a_ticket_of_its_own_and_only_while_nobody_wants_it() {
    walk(
        "start idle=1000
         submit 1
         submit 2 r
         ready g0
         result 1 ok            -> began g0/1; result g0/1 ok; ended 1 completed yes; cell 1 closed; admitted 2; starting r g1
         ready g1
         result 2 ok
         wait 999               -> nothing
         wait 1                 -> queued 1001; queued 1002; admitted 1001; stop g0 (idle)
         submit 3               -> queued 3
         wait 1000              -> nothing
         gone g0                -> gone g0; ended 1001 completed no; cell 1001 closed; admitted 1002; stop g1 (idle)
         gone g1                -> gone g1; ended 1002 completed no; cell 1002 closed; admitted 3; starting python g2 after g0
         ready g2               -> ready g2; execute g2/3 #3 without g0
         tick                   -> nothing",
    );
}

#[test]
fn an_idle_kernel_of_a_full_session_is_stopped_without_a_ticket_beyond_the_cap() {
    walk(
        "start idle=1000 cap=1
         submit 1
         ready g0
         result 1 ok
         submit 2 r
         submit 3 r             -> queued 3
         wait 1000              -> stop g0 (idle)",
    );
}

#[test]
fn whoever_cancels_the_stop_of_an_idle_kernel_keeps_it_as_long_again() {
    walk(
        "start idle=1000
         submit 1
         ready g0
         result 1 ok
         submit 2 r
         wait 1000              -> queued 1001
         cancel 1001 by=lifecycle:idle
         wait 999               -> nothing
         wait 1                 -> queued 1002",
    );
}

#[test]
fn an_idle_kernel_of_a_stopping_daemon_does_not_keep_the_clock_in_the_past() {
    let drive = walk(
        "start idle=1000
         submit 1
         ready g0
         result 1 ok
         stop
         wait 5000              -> stop g0 (idle)
         tick                   -> nothing",
    );
    assert!(drive.world.next_deadline().is_some_and(|at| at > drive.now.mono));
}

#[test]
fn a_kernel_is_idle_from_when_the_last_ticket_that_wanted_it_has_ended() {
    // The chained ticket wants g0 and never gets it, because g1 does not come up.
    walk(
        "start idle=1000
         submit 1
         ready g0
         result 1 ok
         submit 2 r
         submit 3 after=2
         wait 60000             -> failed g1; ended 2 refused no; cell 2 closed; ended 3 cancelled no
         tick                   -> nothing
         wait 999               -> nothing
         wait 1                 -> queued 1001; admitted 1001; stop g0 (idle)",
    );
}

#[test]
fn a_kernel_that_was_never_used_passes_on_what_was_lost_before_it() {
    let mut drive = walk(RUNNING);
    go_on(
        &mut drive,
        "gone g0
         submit 2 restart
         ready g1
         submit 3 halt
         gone g1
         submit 4               -> queued 4; admitted 4; starting python g2 after g0
         ready g2               -> ready g2; execute g2/4 #2 without g0
         gone g2 down
         submit 5               -> queued 5; admitted 5; starting python g3 after g2",
    );
}

#[test]
fn the_daemon_stops_its_admission_and_leaves_queue_and_cell_alone() {
    let mut drive = walk(RUNNING);
    go_on(
        &mut drive,
        "submit 2
         stop                   -> stopping
         stop                   -> nothing
         submit 3               -> refused: the daemon is stopping and admits no new work
         result 1 ok            -> result g0/1 ok; ended 1 completed yes; cell 1 closed
         start                  -> started
         reattached g0          -> reattached g0; admitted 2; execute g0/2 #2
         settle                 -> nothing",
    );
}

#[test]
fn a_daemon_that_takes_its_kernels_with_it_ends_each_cell_and_leaves_no_kernel() {
    let mut drive = walk(RUNNING);
    go_on(
        &mut drive,
        "submit 2
         submit 3 r in=t
         stop                   -> stopping
         stop kernels           -> stopping with kernels; cancel 1 (the daemon stops and takes its kernels with it); ladder g0/1 cancellation; interrupt g0/1 #1; stop g1 (daemonstopping)
         stop kernels           -> nothing
         stop                   -> nothing
         verdict 1 delivered
         result 1 interrupted   -> result g0/1 interrupted; ladder g0/1 finished; ended 1 interrupted yes; cell 1 closed; stop g0 (daemonstopping)
         gone g0                -> gone g0
         gone g1                -> gone g1
         start                  -> started
         settle                 -> admitted 2; starting python g2 after g0
         settle in=t            -> starting r g3",
    );
    assert_eq!(drive.world.in_flight().len(), 2);
}

#[test]
fn a_daemon_that_stops_kernels_also_ends_a_cell_that_ignored_an_interrupt_before() {
    let mut drive = walk(RUNNING);
    go_on(
        &mut drive,
        "cancel 1 interrupt
         verdict 1 delivered
         wait 10000             -> ladder g0/1 ignored
         stop kernels           -> stopping with kernels; ladder g0/1 cancellation; interrupt g0/1 #2
         verdict 1 nobody attempt=2 -> reached nobody g0/1; kill g0/1
         stopped 1              -> group g0/1 gone; gone g0; ladder g0/1 reset; ended 1 cancelled yes; cell 1 closed",
    );
}

#[test]
fn a_cell_that_waits_for_its_kernel_keeps_its_place_over_a_stop_of_the_kernels() {
    walk(
        "start
         submit 1
         submit 2
         stop kernels           -> stopping with kernels; stop g0 (daemonstopping)
         ready g0               -> nothing
         gone g0                -> gone g0
         start
         settle                 -> starting python g1
         ready g1               -> ready g1; execute g1/1 #1",
    );
}
