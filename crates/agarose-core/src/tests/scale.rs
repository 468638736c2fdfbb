//! Ten thousand sessions: what a command costs is counted, not timed.

use alloc::{format, vec::Vec};
use core::cell::Cell;

use super::drive::{Drive, owner, request, session, start};
use crate::{
    command::{Cancel, Command, ExecutionReport, KernelReport, Reach},
    event::{Event, Output, ResultStatus, TicketQueued},
    id::{Generation, Lease, TicketId},
    slot::KernelProcess,
    ticket::Timeouts,
    time::Millis,
    world::{Policy, World},
};

std::thread_local! {
    static PLANS: Cell<u64> = const { Cell::new(0) };
}

/// Counts a session that was copied in order to decide.
pub(crate) fn count_plan() {
    PLANS.set(PLANS.get() + 1);
}

/// So many sessions with one ticket that waits for its kernel and so many behind it.
fn crowd(sessions: u64, waiting: u64) -> Drive {
    let mut drive = Drive::default();
    drive.decide(&start(Policy::default())).unwrap();
    for number in 0..sessions {
        let name = session(&format!("s{number}"));
        let mut fold = |event: Event| drive.world.apply(drive.now, &event);
        fold(Event::SessionOpened { session: name.clone(), workspace: None });
        for index in 0..=waiting {
            let submit = request(name.as_str(), u128::from(number * 1_000 + index));
            fold(Event::TicketQueued(
                TicketQueued {
                    session: submit.session,
                    ticket: submit.ticket,
                    owner: submit.owner,
                    language: submit.language,
                    work: submit.work,
                    key: Some(format!("key {index}")),
                    digest: submit.digest,
                    after: None,
                    after_word: None,
                    retry_of: None,
                    timeouts: Timeouts {
                        schedule_to_start: Some(Millis(60_000 + number)),
                        ..submit.timeouts
                    },
                    branch: None,
                    resource_keys: Vec::new(),
                    metadata: None,
                }
                .into(),
            ));
            if index == 0 {
                fold(Event::TicketAdmitted { session: name.clone(), ticket: submit.ticket });
                fold(Event::KernelStarting {
                    session: name.clone(),
                    language: submit.language,
                    generation: Generation(number),
                    previous: None,
                });
            }
        }
    }
    drive
}

fn written(world: &World) -> usize {
    bincode::serde::encode_to_vec(world, bincode::config::standard()).unwrap().len()
}

#[test]
fn ten_thousand_sessions_of_sixty_four_waiting_tickets_grow_linearly() {
    let small = written(&crowd(1_000, 64).world);
    let large = crowd(10_000, 64).world;
    assert_eq!(large.open_tickets(), 650_000);
    // Numbers of more digits and names of more letters add a little.
    assert!(written(&large) < small * 11, "{} and {small} bytes", written(&large));
    assert_eq!(large.check(), Ok(()));
}

/// How many sessions each of these commands copied.
fn costs(drive: &mut Drive) -> Vec<u64> {
    let name = session("s7");
    let lease = Lease { generation: Generation(7), ticket: TicketId(7_000) };
    let kernel = |report| Command::Kernel {
        session: name.clone(),
        language: crate::Language::Python,
        generation: Generation(7),
        report,
    };
    let execution = |report| Command::Execution { session: name.clone(), lease, report };
    let cancel = |ticket| Cancel {
        ticket: TicketId(ticket),
        owner: owner("a"),
        reason: "r".into(),
        reach: Reach::Full,
    };
    let result = ExecutionReport::Result {
        status: ResultStatus::Ok,
        interrupt_landed: false,
        record: super::drive::blob(),
        output: Output::default(),
    };
    let commands = [
        kernel(KernelReport::Ready(KernelProcess::default())),
        execution(ExecutionReport::Acknowledged),
        Command::Cancel(cancel(7_001)),
        execution(result),
        Command::Submit(request("s7", 7_900).into()),
        Command::Settle { session: name.clone() },
        Command::Tick,
    ];
    let mut costs = Vec::new();
    for command in commands {
        PLANS.set(0);
        let decided = drive.decide(&command).unwrap();
        costs.push(PLANS.get());
        assert!(decided.events.len() < 8, "{command:?} made {}", decided.events.len());
    }
    costs
}

#[test]
fn a_command_copies_one_session_however_many_there_are() {
    for sessions in [10, 2_000] {
        assert_eq!(costs(&mut crowd(sessions, 8)), [1, 1, 1, 1, 1, 1, 0], "among {sessions}");
    }
}

#[test]
fn a_tick_looks_only_at_the_sessions_whose_time_has_come() {
    let mut drive = crowd(2_000, 1);
    // The starts are answered in some, and the waiting of the first five is over.
    for number in 0..2_000 {
        let ready = KernelReport::Ready(KernelProcess::default());
        drive
            .decide(&Command::Kernel {
                session: session(&format!("s{number}")),
                language: crate::Language::Python,
                generation: Generation(number),
                report: ready,
            })
            .unwrap();
    }
    drive.pass(60_004);
    PLANS.set(0);
    let decided = drive.decide(&Command::Tick).unwrap();
    assert_eq!((decided.events.len(), PLANS.get()), (5, 5));
}
