//! A namespace built anew in a candidate session, and the exchange of kernels that publishes it.

use alloc::{string::String, vec::Vec};

use super::drive::{Drive, blob, request, session, start};
use crate::{
    Answer, Command, Event, Generation, Language, Policy, Refusal,
    command::{ExecutionReport, KernelReport},
    event::{Output, RestoreOutcome, ResultStatus},
    id::Lease,
    slot::{Exit, KernelProcess, Slot},
};

const CANDIDATE: &str = "restore-1";

fn ok(drive: &mut Drive, command: &Command) -> Answer {
    match drive.decide(command) {
        Ok(decided) => decided.answer,
        Err(refusal) => panic!("{command:?} was refused: {refusal}"),
    }
}

fn refused(drive: &mut Drive, command: &Command) -> Refusal {
    drive.decide(command).err().unwrap()
}

fn begin(drive: &mut Drive) {
    ok(drive, &start(Policy::default()));
}

/// Runs a cell to its end, starting the kernel if there is none.
fn run(drive: &mut Drive, name: &str, ticket: u128) -> Generation {
    ok(drive, &Command::Submit(alloc::boxed::Box::new(request(name, ticket))));
    if let Slot::Starting { generation, .. } = drive.world.sessions()[&session(name)].slot(Language::Python) {
        let report = KernelReport::Ready(KernelProcess::default());
        let generation = *generation;
        ok(drive, &kernel(name, generation, report));
    }
    let lease = drive.world.sessions()[&session(name)].run().unwrap().lease;
    ok(drive, &execution(name, lease, result()));
    lease.generation
}

fn kernel(name: &str, generation: Generation, report: KernelReport) -> Command {
    Command::Kernel { session: session(name), language: Language::Python, generation, report }
}

fn execution(name: &str, lease: Lease, report: ExecutionReport) -> Command {
    Command::Execution { session: session(name), lease, report }
}

fn result() -> ExecutionReport {
    ExecutionReport::Result {
        status: ResultStatus::Ok,
        interrupt_landed: false,
        record: blob(),
        output: Output::default(),
    }
}

fn started() -> Command {
    Command::StartRestore {
        session: session("s"),
        language: Language::Python,
        candidate: session(CANDIDATE),
        plan: blob(),
    }
}

fn publish(ordinal: u64) -> Command {
    Command::PublishRestore { session: session("s"), language: Language::Python, ordinal }
}

fn end(outcome: RestoreOutcome) -> Command {
    Command::EndRestore { session: session("s"), language: Language::Python, outcome, report: blob() }
}

fn generation_of(drive: &Drive, name: &str) -> Option<Generation> {
    drive.world.sessions().get(&session(name))?.slot(Language::Python).generation()
}

#[test]
fn the_candidates_kernel_becomes_the_sessions_and_the_old_one_goes_with_the_candidate() {
    let mut drive = Drive::default();
    begin(&mut drive);
    let old = run(&mut drive, "s", 1);
    ok(&mut drive, &started());
    let new = run(&mut drive, CANDIDATE, 2);
    assert_eq!(generation_of(&drive, "s"), Some(old), "the old kernel is untouched until then");
    ok(&mut drive, &publish(1));
    assert_eq!(generation_of(&drive, "s"), Some(new));
    assert_eq!(generation_of(&drive, CANDIDATE), Some(old));
    ok(&mut drive, &end(RestoreOutcome::Complete));
    let stopped = drive.log.iter().any(
        |(_, event)| matches!(event, Event::KernelStopRequested { generation, .. } if *generation == old),
    );
    assert!(stopped, "the kernel that was replaced is stopped");
    // Its supervisor knows it by the session for which it was started.
    ok(
        &mut drive,
        &kernel(
            "s",
            old,
            KernelReport::Gone {
                exit: Exit::Stopped,
                while_down: false,
                began: None,
                output: None,
                left: None,
            },
        ),
    );
    assert!(!drive.world.sessions().contains_key(&session(CANDIDATE)), "the candidate is removed");
    // And the new one by the candidate.
    ok(&mut drive, &Command::Submit(alloc::boxed::Box::new(request("s", 3))));
    let lease = drive.world.sessions()[&session("s")].run().unwrap().lease;
    assert_eq!(lease.generation, new);
    ok(&mut drive, &execution(CANDIDATE, lease, result()));
    assert!(drive.world.sessions()[&session("s")].active.is_none(), "the result reached its session");
    drive.world.check().unwrap();
}

#[test]
fn a_session_whose_kernel_is_gone_gets_the_candidates() {
    let mut drive = Drive::default();
    begin(&mut drive);
    let old = run(&mut drive, "s", 1);
    ok(
        &mut drive,
        &kernel(
            "s",
            old,
            KernelReport::Gone {
                exit: Exit::Code(1),
                while_down: false,
                began: None,
                output: None,
                left: None,
            },
        ),
    );
    ok(&mut drive, &started());
    let new = run(&mut drive, CANDIDATE, 2);
    ok(&mut drive, &publish(1));
    assert_eq!((generation_of(&drive, "s"), generation_of(&drive, CANDIDATE)), (Some(new), None));
    ok(&mut drive, &end(RestoreOutcome::Partial));
    assert!(!drive.world.sessions().contains_key(&session(CANDIDATE)));
    drive.world.check().unwrap();
}

#[test]
fn what_ran_meanwhile_is_not_lost_to_a_publication() {
    let mut drive = Drive::default();
    begin(&mut drive);
    run(&mut drive, "s", 1);
    ok(&mut drive, &started());
    run(&mut drive, CANDIDATE, 2);
    let old = run(&mut drive, "s", 3);
    assert_eq!(refused(&mut drive, &publish(1)), Refusal::RestoreOvertaken { session: session("s") });
    ok(&mut drive, &end(RestoreOutcome::Failed));
    assert_eq!(generation_of(&drive, "s"), Some(old));
}

#[test]
fn a_session_is_restored_once_at_a_time_and_published_once() {
    let mut drive = Drive::default();
    begin(&mut drive);
    run(&mut drive, "s", 1);
    assert_eq!(refused(&mut drive, &publish(1)), Refusal::NoRestore { session: session("s") });
    ok(&mut drive, &started());
    let under_way = Refusal::RestoreUnderWay { session: session("s"), candidate: session(CANDIDATE) };
    assert_eq!(refused(&mut drive, &started()), under_way);
    run(&mut drive, CANDIDATE, 2);
    ok(&mut drive, &publish(1));
    let events = drive.log.len();
    ok(&mut drive, &publish(1));
    assert_eq!(drive.log.len(), events, "to publish again changes nothing");
}

#[test]
fn an_analysis_is_in_the_same_decision_as_its_ticket() {
    let mut drive = Drive::default();
    begin(&mut drive);
    let mut submit = request("s", 1);
    submit.analysis = Some(crate::command::Analysis { analyser: String::from("a 1"), facts: blob() });
    let answer = ok(&mut drive, &Command::Submit(alloc::boxed::Box::new(submit)));
    assert!(matches!(answer, Answer::Ticket { .. }));
    let names: Vec<_> = drive.log.iter().map(|(_, event)| event.name()).collect();
    let queued = names.iter().position(|name| *name == "TicketQueued").unwrap();
    assert_eq!(names[queued + 1], "CellAnalysed");
    drive.world.check().unwrap();
}
