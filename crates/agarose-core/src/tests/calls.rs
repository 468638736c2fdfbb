//! Scenarios of calls to the host, and of one-shot capabilities.

use super::script::{go_on, walk};

/// One cell with ten seconds to run, begun, under g0.
const BEGUN: &str = "
    start
    submit 1 timeout=10000
    ready g0
    began 1
";

#[test]
fn an_allowed_call_is_begun_once_and_answered_once() {
    go_on(
        &mut walk(BEGUN),
        "call 1 h1              -> called h1 m; dispatched h1
         call 1 h1              -> nothing
         served 1 h1            -> answered h1 ok
         served 1 h1            -> nothing
         call 1 h1              -> nothing
         call 1 h2 inline       -> called h2 m; answered h2 ok
         call 1 h3 deny         -> called h3 m; answered h3 denied
         result 1 ok            -> result g0/1 ok; ended 1 completed yes; cell 1 closed",
    );
}

#[test]
fn a_question_stops_the_clock_and_its_answer_begins_the_call_or_ends_it() {
    go_on(
        &mut walk(BEGUN),
        "call 1 h1 ask          -> called h1 m; asked p1
         wait 60000             -> nothing
         allow p1               -> allowed p1; dispatched h1
         served 1 h1 failed     -> answered h1 failed
         call 1 h2 ask          -> called h2 m; asked p2
         deny p2                -> denied p2; answered h2 denied
         call 1 h3 ask expires=500 -> called h3 m; asked p3
         wait 500               -> expired p3; answered h3 denied
         call 1 h4 ask          -> called h4 m; asked p4
         giveup 1 h4            -> answered h4 cancelled; expired p4",
    );
}

#[test]
fn a_cell_s_last_word_waits_for_its_calls_and_no_longer_than_it_must() {
    go_on(
        &mut walk(BEGUN),
        "call 1 h1              -> called h1 m; dispatched h1
         call 1 h2 ask          -> called h2 m; asked p1
         result 1 ok            -> result g0/1 ok; give up h1; answered h2 cancelled; expired p1; draining g0/1
         cancel 1               -> refused: ticket 00000000000000000000000001 has ended: completed
         submit 2               -> queued 2
         call 1 h3              -> called h3 m; answered h3 cancelled
         wait 4999              -> nothing
         wait 1                 -> answered h1 abandoned; ended 1 completed yes; cell 1 closed; admitted 2; execute g0/2 #2",
    );
    go_on(
        &mut walk(BEGUN),
        "call 1 h1              -> called h1 m; dispatched h1
         result 1 error         -> result g0/1 error; give up h1; draining g0/1
         served 1 h1            -> answered h1 ok; ended 1 failed yes; cell 1 closed",
    );
}

#[test]
fn a_cell_that_is_being_stopped_begins_no_call() {
    go_on(
        &mut walk(BEGUN),
        "call 1 h1 ask          -> called h1 m; asked p1
         cancel 1               -> cancel 1 (enough); ladder g0/1 cancellation; interrupt g0/1 #1; it is being interrupted
         allow p1               -> allowed p1; answered h1 cancelled
         call 1 h2              -> called h2 m; answered h2 cancelled",
    );
}

#[test]
fn what_a_dead_daemon_s_service_had_is_repeated_where_it_may_be_and_else_unknown() {
    go_on(
        &mut walk(BEGUN),
        "call 1 h1              -> called h1 m; dispatched h1
         call 1 h2 once         -> called h2 m; dispatched h2
         call 1 h3 ask          -> called h3 m; asked p1
         start                  -> started
         call 1 h1              -> dispatched h1
         call 1 h2 once         -> answered h2 outcome_unknown
         call 1 h3 ask          -> nothing
         allow p1               -> allowed p1; dispatched h3
         start                  -> started
         gone g0 down           -> gone g0; answered h1 outcome_unknown; answered h3 outcome_unknown; ended 1 lost yes; cell 1 closed",
    );
}

#[test]
fn a_capability_is_consumed_once_and_only_as_it_was_granted() {
    go_on(
        &mut walk(BEGUN),
        "call 1 h1 inline grant=7            -> called h1 m; granted 7; answered h1 ok
         call 1 h2 inline consume=8          -> called h2 m; answered h2 failed
         call 1 h3 inline consume=7 command=2 -> called h3 m; answered h3 failed
         call 1 h4 inline consume=7 of=1     -> called h4 m; answered h4 failed
         call 1 h5 inline consume=7 detach   -> called h5 m; answered h5 failed
         call 1 h6 inline report=7           -> called h6 m; answered h6 failed
         call 1 h7 inline consume=7          -> called h7 m; consumed 7; answered h7 ok
         call 1 h8 inline consume=7          -> called h8 m; answered h8 failed
         call 1 h9 inline report=7           -> called h9 m; reported 7; answered h9 ok
         call 1 h10 inline report=7          -> called h10 m; answered h10 failed
         call 1 h11 inline grant=9 until=100 -> called h11 m; granted 9; answered h11 ok
         pass 100
         call 1 h12 inline consume=9         -> called h12 m; answered h12 failed
         result 1 ok -> result g0/1 ok; voided 9 cell_ended; ended 1 completed yes; cell 1 closed",
    );
}

#[test]
fn a_crash_voids_what_was_granted_and_the_log_says_what_was_never_reported() {
    go_on(
        &mut walk(BEGUN),
        "call 1 h1 inline grant=7      -> called h1 m; granted 7; answered h1 ok
         call 1 h2 inline grant=8      -> called h2 m; granted 8; answered h2 ok
         call 1 h3 inline consume=8    -> called h3 m; consumed 8; answered h3 ok
         start                         -> started
         settle                        -> voided 7 daemon_restarted
         call 1 h4 inline consume=7    -> called h4 m; answered h4 failed
         result 1 ok -> result g0/1 ok; voided 8 outcome_unknown; ended 1 completed yes; cell 1 closed",
    );
}

#[test]
fn documents_count_their_versions() {
    go_on(
        &mut walk(BEGUN),
        "call 1 h1 inline write=plan   -> called h1 m; wrote plan 1; answered h1 ok
         call 1 h2 inline write=plan   -> called h2 m; wrote plan 2; answered h2 ok
         call 1 h3 inline write=todos  -> called h3 m; wrote todos 1; answered h3 ok",
    );
}
