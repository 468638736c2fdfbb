//! Random histories before the [`Oracle`]: requests, answers that are stale, late or doubled, jumps
//! of the clock, crashes. Numbers are resolved against the world as it is, so that most of them hit.

use alloc::{collections::BTreeSet, format, string::String, vec::Vec};

use proptest::{prelude::*, sample::Index};

use super::{
    drive::{Drive, blob, owner, request, session, start},
    oracle::Oracle,
};
use crate::{
    budget::Counters,
    capability::{BashReport, BashStatus, CapabilityId, Grant},
    command::{Cancel, Command, ExecutionReport, KernelReport, KnownTicket, Reach},
    event::{Event, Output, ResultStatus},
    host_call::{Answered, CallId, CallOutcome, Called, Decision, HostFact, Standing},
    id::{Generation, Language, Lease, SessionId, TicketId},
    slot::{Exit, GroupOutcome, KernelProcess, Slot},
    ticket::{Timeouts, Work},
    time::Millis,
    watchdog::{NobodyReason, Rung, Verdict},
    world::{Policy, World},
};

/// One thing that somebody does.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    Submit {
        to: u8,
        by: u8,
        r: bool,
        work: Work,
        key: Option<u8>,
        after: Option<Index>,
        timeouts: Timeouts,
    },
    Repeat {
        ticket: Index,
        with_other_digest: bool,
    },
    Cancel {
        ticket: Index,
        by: u8,
        reach: Reach,
    },
    /// By its owner, and of what runs.
    Stop {
        which: Index,
        bare: bool,
    },
    Pause(Option<u8>),
    Resume(Option<u8>),
    Close {
        session: u8,
        remove: bool,
    },
    Ask {
        session: u8,
        ticket: Option<Index>,
        expires: Option<u64>,
    },
    Answer {
        question: Index,
        allow: bool,
    },
    /// A cell asks its host for something, or asks again.
    Call {
        which: Index,
        stale: bool,
        again: Option<Index>,
        decision: Decision,
        repeatable: bool,
        expires: Option<u64>,
        answered: Option<Answered>,
    },
    /// A service answers, or a cell gives up.
    Serve {
        which: Index,
        call: Index,
        answered: Option<Answered>,
    },
    Pass {
        millis: u64,
        tick: bool,
    },
    Settle(u8),
    Kernel {
        which: Index,
        stale: bool,
        report: KernelReport,
    },
    Execution {
        which: Index,
        stale: bool,
        report: ExecutionReport,
    },
    StopDaemon {
        stop_kernels: bool,
    },
    Crash,
}

/// Which part of the contract a history dwells on.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Focus {
    Queue,
    Kernels,
    Ladder,
    Questions,
    Calls,
    Everything,
}

pub(crate) fn history(focus: Focus) -> impl Strategy<Value = Vec<Op>> {
    let (queue, kernels, ladder, questions, calls, daemon) = match focus {
        Focus::Queue => (12, 2, 2, 0, 0, 1),
        Focus::Kernels => (3, 12, 3, 0, 0, 2),
        Focus::Ladder => (3, 3, 14, 2, 4, 1),
        Focus::Questions => (3, 3, 3, 10, 0, 1),
        Focus::Calls => (2, 1, 5, 3, 14, 2),
        Focus::Everything => (6, 5, 6, 2, 3, 1),
    };
    let op = prop_oneof![
        queue => queue_op(),
        kernels => kernel_op(),
        ladder => execution_op(),
        questions => question_op(),
        calls => call_op(),
        daemon => daemon_op(),
        6 => (prop_oneof![0u64..50, 0u64..3_000, 0u64..40_000], any::<bool>())
            .prop_map(|(millis, tick)| Op::Pass { millis, tick }),
        4 => progress(),
    ];
    prop::collection::vec(op, 1..90)
}

fn limit() -> impl Strategy<Value = Option<Millis>> {
    prop::option::weighted(0.4, prop_oneof![Just(0u64), 1u64..5_000].prop_map(Millis))
}

fn timeouts() -> impl Strategy<Value = Timeouts> {
    (limit(), limit(), limit(), limit(), limit()).prop_map(|(wait, close, beat, interrupt, kill)| Timeouts {
        schedule_to_start: wait,
        start_to_close: close,
        heartbeat: beat,
        interrupt_grace: interrupt,
        kill_grace: kill,
    })
}

fn submit() -> impl Strategy<Value = Op> {
    let work = prop_oneof![
        8 => Just(Work::Cell { source: blob(), name: None }),
        1 => Just(Work::StopKernel),
        1 => Just(Work::RestartKernel),
    ];
    let after = prop::option::weighted(0.2, any::<Index>());
    let key = prop::option::weighted(0.3, 0u8..4);
    (0u8..2, 0u8..2, prop::bool::weighted(0.2), work, key, after, timeouts()).prop_map(
        |(to, by, r, work, key, after, timeouts)| Op::Submit { to, by, r, work, key, after, timeouts },
    )
}

fn queue_op() -> impl Strategy<Value = Op> {
    let reach = prop_oneof![Just(Reach::Queued), Just(Reach::Interrupt), Just(Reach::Full)];
    let some_session = prop::option::weighted(0.7, 0u8..2);
    prop_oneof![
        8 => submit(),
        1 => (any::<Index>(), any::<bool>())
            .prop_map(|(ticket, with_other_digest)| Op::Repeat { ticket, with_other_digest }),
        3 => (any::<Index>(), 0u8..2, reach).prop_map(|(ticket, by, reach)| Op::Cancel { ticket, by, reach }),
        1 => some_session.clone().prop_map(Op::Pause),
        2 => some_session.prop_map(Op::Resume),
        1 => (0u8..2, any::<bool>()).prop_map(|(session, remove)| Op::Close { session, remove }),
    ]
}

fn kernel_op() -> impl Strategy<Value = Op> {
    let exit = prop_oneof![
        Just(Exit::Signal { signal: 9, out_of_memory: false }),
        Just(Exit::Unknown { evidence: String::from("its supervisor is gone") }),
    ];
    let left = prop::option::of(prop_oneof![
        Just(GroupOutcome::ExitedOnTerm),
        Just(GroupOutcome::Alive { left: Vec::new() })
    ]);
    let gone = (exit, any::<bool>(), any::<Option<bool>>(), any::<bool>(), left).prop_map(
        |(exit, while_down, began, output, left)| KernelReport::Gone {
            exit,
            while_down,
            began,
            output: output.then(Output::default),
            left,
        },
    );
    let report = prop_oneof![
        4 => Just(KernelReport::Ready(KernelProcess::default())),
        1 => Just(KernelReport::StartFailed { reason: String::from("no"), unavailable: true }),
        2 => gone,
        1 => Just(KernelReport::Reattached),
    ];
    (any::<Index>(), prop::bool::weighted(0.2), report).prop_map(|(which, stale, report)| Op::Kernel {
        which,
        stale,
        report,
    })
}

fn execution_op() -> impl Strategy<Value = Op> {
    let status =
        prop_oneof![Just(ResultStatus::Ok), Just(ResultStatus::Error), Just(ResultStatus::Interrupted)];
    let verdict = prop_oneof![
        Just(Verdict::Delivered),
        Just(Verdict::ReachedNobody { reason: NobodyReason::NotArmed })
    ];
    let outcome = prop_oneof![
        3 => Just(GroupOutcome::ExitedOnTerm),
        1 => Just(GroupOutcome::Alive { left: Vec::new() }),
    ];
    let report = prop_oneof![
        2 => Just(ExecutionReport::Acknowledged),
        2 => (status, any::<bool>()).prop_map(|(status, interrupt_landed)| ExecutionReport::Result {
            status,
            interrupt_landed,
            record: blob(),
            output: Output::default(),
        }),
        1 => (0u64..100_000).prop_map(|at| ExecutionReport::Active { at }),
        5 => (prop_oneof![3 => Just(1u32), 1 => 2u32..4], verdict).prop_map(|(attempt, verdict)| ExecutionReport::Interrupt { attempt, verdict }),
        2 => (outcome, any::<bool>()).prop_map(|(outcome, output)| ExecutionReport::Stopped {
            outcome,
            output: output.then(Output::default),
        }),
    ];
    let said = (any::<Index>(), prop::bool::weighted(0.2), report);
    prop_oneof![
        4 => said.prop_map(|(which, stale, report)| Op::Execution { which, stale, report }),
        2 => (any::<Index>(), any::<bool>()).prop_map(|(which, bare)| Op::Stop { which, bare }),
    ]
}

fn question_op() -> impl Strategy<Value = Op> {
    let ticket = prop::option::weighted(0.9, any::<Index>());
    let expires = prop::option::weighted(0.5, 0u64..3_000);
    prop_oneof![
        (0u8..2, ticket, expires).prop_map(|(session, ticket, expires)| Op::Ask { session, ticket, expires }),
        (any::<Index>(), any::<bool>()).prop_map(|(question, allow)| Op::Answer { question, allow }),
    ]
}

fn answered() -> impl Strategy<Value = Answered> {
    let grant = |capability: u8| Grant {
        capability: CapabilityId([capability; 32]),
        command: [1; 32],
        directory: String::from("/w"),
        root: String::from("/w"),
        generation: Generation(0),
        challenge: String::from("c"),
        issued: 0,
        expires: 60_000,
        detach: false,
    };
    let report = BashReport {
        status: BashStatus::Completed,
        exit_code: Some(0),
        wall_ms: 1,
        stdout: Counters::default(),
        stderr: Counters::default(),
        stopped: 0,
    };
    let fact = prop_oneof![
        2 => (0u8..200).prop_map(move |number| HostFact::Grant(grant(number).into())),
        3 => (0u8..200).prop_map(move |number| HostFact::Consume(grant(number).into())),
        2 => (0u8..200).prop_map(move |number| HostFact::Report {
            capability: CapabilityId([number; 32]),
            report: report.clone(),
        }),
        1 => Just(HostFact::Document { name: String::from("plan"), content: blob() }),
    ];
    let failed = CallOutcome::Failed { kind: String::from("k"), message: String::from("m") };
    let outcome =
        prop_oneof![3 => Just(CallOutcome::Ok), 1 => Just(failed), 1 => Just(CallOutcome::Cancelled)];
    (outcome, prop::collection::vec(fact, 0..2)).prop_map(|(outcome, facts)| Answered {
        outcome,
        bytes: 2,
        answer: Some(blob()),
        facts,
    })
}

fn call_op() -> impl Strategy<Value = Op> {
    let rule = String::new;
    let decision = prop_oneof![
        4 => Just(Decision::Allow { rule: rule() }),
        2 => Just(Decision::Ask { rule: rule() }),
        1 => Just(Decision::Deny { rule: rule() }),
    ];
    let again = prop::option::weighted(0.4, any::<Index>());
    let expires = prop::option::weighted(0.5, 1u64..3_000);
    let inline = prop::option::weighted(0.4, answered());
    let stale = prop::bool::weighted(0.1);
    let call = (any::<Index>(), stale, again, decision, any::<bool>(), expires, inline).prop_map(
        |(which, stale, again, decision, repeatable, expires, answered)| Op::Call {
            which,
            stale,
            again,
            decision,
            repeatable,
            expires,
            answered,
        },
    );
    let served = prop::option::weighted(0.7, answered());
    prop_oneof![
        3 => call,
        2 => (any::<Index>(), any::<Index>(), served)
            .prop_map(|(which, call, answered)| Op::Serve { which, call, answered }),
    ]
}

fn daemon_op() -> impl Strategy<Value = Op> {
    prop_oneof![
        3 => Just(Op::Crash),
        1 => any::<bool>().prop_map(|stop_kernels| Op::StopDaemon { stop_kernels }),
        1 => (0u8..2).prop_map(Op::Settle),
    ]
}

/// What a well-behaved outside would say next, so that histories get somewhere.
fn progress() -> impl Strategy<Value = Op> {
    let ready = KernelReport::Ready(KernelProcess::default());
    prop_oneof![
        submit(),
        any::<Index>().prop_map(move |which| Op::Kernel { which, stale: false, report: ready.clone() }),
        any::<Index>().prop_map(|which| Op::Execution {
            which,
            stale: false,
            report: ExecutionReport::Acknowledged
        }),
    ]
}

/// A history under way.
pub(crate) struct History {
    pub(crate) drive: Drive,
    pub(crate) oracle: Oracle,
    tickets: Vec<(TicketId, SessionId)>,
    next_ticket: u128,
}

/// Small numbers, so that limits are met.
fn policy() -> Policy {
    Policy {
        queue_cap: 3,
        interrupt_grace: Millis(500),
        kill_grace: Millis(500),
        start_deadline: Millis(2_000),
        kernel_idle: Some(Millis(5_000)),
        recent: 4,
    }
}

const SESSIONS: [&str; 2] = ["s", "t"];

impl History {
    pub(crate) fn begin() -> Self {
        let mut history =
            Self { drive: Drive::default(), oracle: Oracle::default(), tickets: Vec::new(), next_ticket: 1 };
        history.decide(&start(policy())).unwrap();
        history
    }

    /// Lives through a history; the error names the broken promise.
    pub(crate) fn live(ops: &[Op]) -> Result<Self, String> {
        let mut history = Self::begin();
        for (index, op) in ops.iter().enumerate() {
            history.act(op).map_err(|broken| history.report(&broken, index, op))?;
        }
        Ok(history)
    }

    fn report(&self, broken: &str, index: usize, op: &Op) -> String {
        let tail = self.drive.log.iter().rev().take(12).rev();
        let tail: Vec<String> = tail.map(|(at, event)| format!("{:>6} {event:?}", at.mono)).collect();
        format!("{broken}\nat step {index}: {op:?}\n{}", tail.join("\n"))
    }

    /// Decides one command, before the eyes of the oracle.
    pub(crate) fn decide(&mut self, command: &Command) -> Result<Vec<Event>, String> {
        let first = self.drive.log.len();
        let was_due = self.drive.world.next_deadline().is_some_and(|at| at <= self.drive.now.mono);
        let Ok(decided) = self.drive.decide(command) else {
            self.expect_refusal_to_be_right(command)?;
            return Ok(Vec::new());
        };
        let now = self.drive.now;
        for (_, event) in &self.drive.log[first..] {
            self.oracle.see(now, event)?;
        }
        self.drive.world.check()?;
        for effect in &decided.effects {
            self.oracle.allows(effect)?;
        }
        match command {
            Command::Tick => {
                let late = self.drive.world.next_deadline().filter(|at| *at <= now.mono);
                if let Some(at) = late {
                    return Err(format!("after a tick at {} the next deadline is {at}", now.mono));
                }
                if decided.events.is_empty() == was_due {
                    return Err(format!(
                        "a deadline was due: {was_due}, and the tick made {:?}",
                        decided.events
                    ));
                }
            }
            Command::Cancel(cancel) => {
                let named = |effect: &crate::Effect| match effect {
                    crate::Effect::SendInterrupt { lease, .. } | crate::Effect::StopGroup { lease, .. } => {
                        lease.ticket == cancel.ticket
                    }
                    _ => true,
                };
                if !decided.effects.iter().all(named) {
                    return Err(format!("a cancellation of {} reached another", cancel.ticket));
                }
            }
            Command::Settle { session } => self.oracle.settled(session),
            _ => {}
        }
        self.oracle.rests(now, matches!(command, Command::Tick))?;
        Ok(decided.events)
    }

    fn expect_refusal_to_be_right(&mut self, command: &Command) -> Result<(), String> {
        let Command::Cancel(Cancel { ticket, owner, reach: Reach::Full, .. }) = command else {
            return Ok(());
        };
        let open = self.drive.world.session_of(*ticket).and_then(|session| session.tickets.get(ticket));
        match open {
            Some(_) if self.drive.world.session_of(*ticket).is_some_and(|room| room.drain().is_some()) => {
                Ok(())
            }
            Some(open) if open.owner == *owner => Err(format!("{ticket} was not to be cancelled")),
            Some(_) | None => Ok(()),
        }
    }

    fn act(&mut self, op: &Op) -> Result<(), String> {
        let name = |number: &u8| session(SESSIONS[usize::from(*number)]);
        let who = |number: &u8| owner(["a", "b"][usize::from(*number)]);
        let command = match op {
            Op::Submit { to, by, r, work, key, after, timeouts } => {
                let mut submit = request(SESSIONS[usize::from(*to)], self.next_ticket);
                submit.owner = who(by);
                submit.language = if *r { Language::R } else { Language::Python };
                (submit.work, submit.timeouts) = (work.clone(), *timeouts);
                submit.key = key.map(|key| format!("k{key}-{}", self.next_ticket / 8));
                submit.after = after.and_then(|index| self.some_ticket(&index)).map(|(ticket, _)| ticket);
                submit.known = self.known();
                self.tickets.push((submit.ticket, submit.session.clone()));
                self.next_ticket += 1;
                Command::Submit(submit.into())
            }
            Op::Repeat { ticket, with_other_digest } => return self.repeat(ticket, *with_other_digest),
            Op::Cancel { ticket, by, reach } => {
                let Some((ticket, _)) = self.some_ticket(ticket) else { return Ok(()) };
                Command::Cancel(Cancel { ticket, owner: who(by), reason: String::from("r"), reach: *reach })
            }
            Op::Stop { which, bare } => {
                let Some((session, lease)) = self.some_lease(which, false) else { return Ok(()) };
                let owner = self.drive.world.sessions()[&session].tickets[&lease.ticket].owner.clone();
                let reach = if *bare { Reach::Interrupt } else { Reach::Full };
                let reason = String::from("r");
                Command::Cancel(Cancel { ticket: lease.ticket, owner, reason, reach })
            }
            Op::Pause(which) => Command::Pause { session: which.as_ref().map(name), by: who(&0) },
            Op::Resume(which) => Command::Resume { session: which.as_ref().map(name), by: who(&0) },
            Op::Close { session, remove } => Command::CloseSession {
                session: name(session),
                by: who(&0),
                reason: String::from("c"),
                remove: *remove,
            },
            Op::Ask { session, ticket, expires } => Command::ProposePermission {
                session: name(session),
                ticket: ticket.and_then(|index| self.live_ticket(&index)),
                method: String::from("m"),
                detail: String::new(),
                expires_after: expires.map(Millis),
            },
            Op::Answer { question, allow } => {
                let open: Vec<_> = self.drive.world.permissions().map(|question| question.id).collect();
                if open.is_empty() {
                    return Ok(());
                }
                Command::DecidePermission { permission: *question.get(&open), allow: *allow, by: who(&0) }
            }
            Op::Pass { millis, tick } => {
                self.drive.pass(*millis);
                if !tick {
                    return Ok(());
                }
                self.decide(&Command::Tick)?;
                Command::Tick
            }
            Op::Settle(number) => Command::Settle { session: name(number) },
            Op::Kernel { which, stale, report } => {
                let Some((session, language, generation)) = self.some_kernel(which, *stale) else {
                    return Ok(());
                };
                Command::Kernel { session, language, generation, report: report.clone() }
            }
            Op::Execution { which, stale, report } => {
                let Some((session, lease)) = self.some_lease(which, *stale) else { return Ok(()) };
                Command::Execution { session, lease, report: report.clone() }
            }
            Op::Call { which, stale, again, decision, repeatable, expires, answered } => {
                let Some((session, lease)) = self.some_lease(which, *stale) else { return Ok(()) };
                let started = |(_, event): &(_, Event)| match event {
                    Event::HostCallStarted(started) if started.lease == lease => Some(started.call),
                    _ => None,
                };
                let known: Vec<CallId> = self.drive.log.iter().filter_map(started).collect();
                let fresh = CallId(1 + known.len() as u64);
                let call = match again {
                    Some(index) if !known.is_empty() => *index.get(&known),
                    Some(_) | None => fresh,
                };
                let report = ExecutionReport::HostCall(
                    Called {
                        call,
                        method: String::from("m"),
                        digest: [0; 32],
                        bytes: 2,
                        preview: String::new(),
                        repeatable: *repeatable,
                        decision: decision.clone(),
                        expires_after: expires.map(Millis),
                        answered: self.known_capabilities(answered.as_ref(), &session).map(Into::into),
                    }
                    .into(),
                );
                Command::Execution { session, lease, report }
            }
            Op::Serve { which, call, answered } => {
                let rooms = self.drive.world.sessions().values().filter(|room| !room.calls.is_empty());
                let rooms: Vec<_> = rooms.collect();
                if rooms.is_empty() {
                    return Ok(());
                }
                let room = which.get(&rooms);
                let open: Vec<(CallId, Lease)> =
                    room.calls.iter().map(|(call, open)| (*call, open.lease)).collect();
                let (call, lease) = *call.get(&open);
                let is_under_way = matches!(room.calls[&call].standing, Standing::Dispatched { .. });
                let report = match self.known_capabilities(answered.as_ref(), &room.id) {
                    // A service that was never told to begin says nothing.
                    Some(answered) if is_under_way => {
                        ExecutionReport::HostCallAnswered { call, answered: answered.into() }
                    }
                    Some(_) | None => ExecutionReport::HostCallGivenUp { call },
                };
                Command::Execution { session: room.id.clone(), lease, report }
            }
            Op::StopDaemon { stop_kernels } => Command::StopDaemon { stop_kernels: *stop_kernels },
            Op::Crash => return self.restart(),
        };
        self.decide(&command).map(|_| ())
    }

    /// A repeat of a request under its key makes nothing; another request under it is refused.
    fn repeat(&mut self, ticket: &Index, with_other_digest: bool) -> Result<(), String> {
        let Some((ticket, _)) = self.some_ticket(ticket) else { return Ok(()) };
        let queued = self.drive.log.iter().find_map(|(_, event)| match event {
            Event::TicketQueued(queued) if queued.ticket == ticket => Some(queued.clone()),
            _ => None,
        });
        let Some(queued) = queued else { return Ok(()) };
        let mut submit = request(queued.session.as_str(), self.next_ticket);
        submit.key = queued.key.clone();
        submit.digest = [u8::from(with_other_digest); 32];
        submit.known = self.known();
        if submit.key.is_none() {
            submit.ticket = ticket;
        }
        match self.drive.decide(&Command::Submit(submit.into())) {
            Ok(decided) => {
                let first = crate::Answer::Ticket { ticket, repeated: true };
                let right = queued.key.is_some() && !with_other_digest && decided.events.is_empty();
                if right && decided.answer == first {
                    Ok(())
                } else {
                    Err(format!("{ticket} was made again"))
                }
            }
            Err(_) if queued.key.is_none() || with_other_digest => Ok(()),
            Err(refusal) => Err(format!("a repeat of {ticket} was refused: {refusal}")),
        }
    }

    /// What the log would say of tickets that ended.
    fn known(&self) -> Vec<KnownTicket> {
        let ended = |ticket| {
            self.drive.log.iter().find_map(|(_, event)| match event {
                Event::TicketEnded(ended) if ended.ticket == ticket => Some(ended.word),
                _ => None,
            })
        };
        let known = |(_, event): &(_, Event)| match event {
            Event::TicketQueued(queued) => Some(KnownTicket {
                ticket: queued.ticket,
                session: queued.session.clone(),
                key: queued.key.clone(),
                digest: queued.digest,
                word: ended(queued.ticket)?,
            }),
            _ => None,
        };
        self.drive.log.iter().filter_map(known).collect()
    }

    fn some_ticket(&self, index: &Index) -> Option<(TicketId, SessionId)> {
        // Mostly the newest: those are open.
        let newest: Vec<_> = self.tickets.iter().rev().take(6).collect();
        (!newest.is_empty()).then(|| (*index.get(&newest)).clone())
    }

    fn live_ticket(&self, index: &Index) -> Option<TicketId> {
        let active: Vec<_> =
            self.drive.world.sessions().values().filter_map(|room| room.active.as_ref()).collect();
        if active.is_empty() {
            self.some_ticket(index).map(|(id, _)| id)
        } else {
            Some(index.get(&active).ticket)
        }
    }

    /// An answer whose capabilities are mostly some that the session has.
    fn known_capabilities(&self, answered: Option<&Answered>, session: &SessionId) -> Option<Answered> {
        let mut answered = answered?.clone();
        let held = self.drive.world.sessions().get(session);
        let held: Vec<CapabilityId> =
            held.into_iter().flat_map(|room| room.capabilities.keys().copied()).collect();
        for fact in &mut answered.facts {
            let (HostFact::Consume(_) | HostFact::Report { .. }) = fact else { continue };
            if let HostFact::Consume(grant) = fact
                && let Some(id) = held.get(usize::from(grant.capability.0[0]) % held.len().max(1))
            {
                grant.capability = *id;
            }
            if let HostFact::Report { capability, .. } = fact
                && let Some(id) = held.get(usize::from(capability.0[0]) % held.len().max(1))
            {
                *capability = *id;
            }
        }
        // A service never grants what is there.
        answered.facts.retain(|fact| match fact {
            HostFact::Grant(grant) => !held.contains(&grant.capability),
            _ => true,
        });
        Some(answered)
    }

    fn some_kernel(&self, index: &Index, stale: bool) -> Option<(SessionId, Language, Generation)> {
        let all = self.drive.generations();
        let live: BTreeSet<Generation> =
            self.drive.world.in_flight().iter().map(|obligation| obligation.generation).collect();
        let pick: Vec<_> = all.iter().filter(|(id, _)| stale != live.contains(id)).collect();
        if pick.is_empty() {
            return None;
        }
        let (generation, (session, language)) = index.get(&pick);
        Some((session.clone(), *language, **generation))
    }

    fn some_lease(&self, index: &Index, stale: bool) -> Option<(SessionId, Lease)> {
        let leases: Vec<(SessionId, Lease)> = if stale {
            let sent = |(_, event): &(_, Event)| match event {
                Event::ExecuteRequested { session, lease, .. } => Some((session.clone(), *lease)),
                _ => None,
            };
            self.drive.log.iter().filter_map(sent).collect()
        } else {
            let rooms = self.drive.world.sessions().values();
            rooms.filter_map(|room| Some((room.id.clone(), room.lease()?))).collect()
        };
        (!leases.is_empty()).then(|| index.get(&leases).clone())
    }

    /// The daemon dies and comes back: it knows what the log says and nothing else.
    pub(crate) fn restart(&mut self) -> Result<(), String> {
        let mut again = World::new();
        for (at, event) in &self.drive.log {
            again.apply(*at, event);
        }
        if again != self.drive.world {
            return Err(String::from("the log folds to another world"));
        }
        self.decide(&start(policy()))?;
        self.recover()?;
        let first = self.drive.log.len();
        self.recover()?;
        // But for asking again what has no answer.
        let again = |(_, event): &&(_, Event)| !matches!(event, Event::KernelReattached { .. });
        if let Some(appended) = self.drive.log[first..].iter().find(again) {
            return Err(format!("a second recovery appended {appended:?}"));
        }
        Ok(())
    }

    /// Looks at everything in flight, finds it there, and goes on.
    fn recover(&mut self) -> Result<(), String> {
        for found in self.drive.world.in_flight() {
            self.decide(&Command::Kernel {
                session: found.session,
                language: found.language,
                generation: found.generation,
                report: KernelReport::Reattached,
            })?;
        }
        let sessions: Vec<SessionId> = self.drive.world.sessions().keys().cloned().collect();
        for session in sessions {
            self.decide(&Command::Settle { session })?;
        }
        Ok(())
    }

    /// Every obstacle is taken away and every question of the daemon answered: all must end.
    pub(crate) fn heal(&mut self) -> Result<(), String> {
        self.restart()?;
        self.open_the_doors()?;
        for _ in 0..400 {
            if self.oracle.open().next().is_none() {
                return Ok(());
            }
            match self.next_answer() {
                Some(command) => drop(self.decide(&command)?),
                None => self.let_time_pass()?,
            }
        }
        Err(format!("these never end: {:?}", self.oracle.open().collect::<Vec<_>>()))
    }

    /// No kernel ever answers again. What its owner cancels ends all the same, by the clock alone.
    pub(crate) fn starve(&mut self) -> Result<(), String> {
        self.restart()?;
        self.open_the_doors()?;
        for _ in 0..400 {
            let open: Vec<TicketId> = self.oracle.open().collect();
            if open.is_empty() {
                return Ok(());
            }
            for ticket in open {
                let Some(session) = self.drive.world.session_of(ticket) else { continue };
                let owner = session.tickets[&ticket].owner.clone();
                let reason = String::from("over");
                self.decide(&Command::Cancel(Cancel { ticket, owner, reason, reach: Reach::Full }))?;
            }
            self.let_time_pass()?;
        }
        Err(format!("the clock alone does not end {:?}", self.oracle.open().collect::<Vec<_>>()))
    }

    fn open_the_doors(&mut self) -> Result<(), String> {
        self.decide(&Command::Resume { session: None, by: owner("a") })?;
        let sessions: Vec<SessionId> = self.drive.world.sessions().keys().cloned().collect();
        for session in sessions {
            self.decide(&Command::Resume { session: Some(session), by: owner("a") })?;
        }
        Ok(())
    }

    fn let_time_pass(&mut self) -> Result<(), String> {
        let Some(at) = self.drive.world.next_deadline() else { return Ok(()) };
        self.drive.pass(at.saturating_sub(self.drive.now.mono));
        self.decide(&Command::Tick).map(|_| ())
    }

    /// What a kernel that works would say now.
    fn next_answer(&self) -> Option<Command> {
        let kernel = |session: &SessionId, language, generation, report| Command::Kernel {
            session: session.clone(),
            language,
            generation,
            report,
        };
        for (id, room) in self.drive.world.sessions() {
            if let Some(drain) = room.drain()
                && let Some(call) = room.calls.keys().next()
            {
                let answered = Answered::plain(CallOutcome::Cancelled, 0);
                let report = ExecutionReport::HostCallAnswered { call: *call, answered: answered.into() };
                return Some(Command::Execution { session: id.clone(), lease: drain.lease, report });
            }
            if let Some(run) = room.run() {
                let report = match run.rung {
                    Rung::Waiting if run.acknowledged.is_none() => Some(ExecutionReport::Acknowledged),
                    Rung::Waiting | Rung::Grace { .. } => Some(ExecutionReport::Result {
                        status: ResultStatus::Ok,
                        interrupt_landed: false,
                        record: blob(),
                        output: Output::default(),
                    }),
                    Rung::Interrupting { .. } => Some(ExecutionReport::Interrupt {
                        attempt: run.interrupts,
                        verdict: Verdict::Delivered,
                    }),
                    Rung::Killing { .. } => {
                        Some(ExecutionReport::Stopped { outcome: GroupOutcome::ExitedOnTerm, output: None })
                    }
                    Rung::Stopped { .. } => None,
                };
                if let Some(report) = report {
                    return Some(Command::Execution { session: id.clone(), lease: run.lease, report });
                }
            }
            for (language, slot) in &room.slots {
                match slot {
                    Slot::Starting { generation, .. } => {
                        let report = KernelReport::Ready(KernelProcess::default());
                        return Some(kernel(id, *language, *generation, report));
                    }
                    Slot::Stopping { generation, .. } if room.run().is_none() => {
                        let (exit, while_down) = (Exit::Stopped, false);
                        let report =
                            KernelReport::Gone { exit, while_down, began: None, output: None, left: None };
                        return Some(kernel(id, *language, *generation, report));
                    }
                    Slot::Absent { .. } | Slot::Ready { .. } | Slot::Stopping { .. } => {}
                }
            }
        }
        None
    }

    /// Folding in two halves, with the first written down and read back, is folding at once.
    pub(crate) fn folds_in_halves(&self, cut: &Index) -> Result<(), String> {
        let cut = cut.index(self.drive.log.len() + 1);
        let mut world = World::new();
        for (at, event) in &self.drive.log[..cut] {
            world.apply(*at, event);
        }
        let plain = bincode::config::standard();
        let bytes = bincode::serde::encode_to_vec(&world, plain).map_err(|error| format!("{error}"))?;
        let (mut world, read): (World, usize) =
            bincode::serde::decode_from_slice(&bytes, plain).map_err(|error| format!("{error}"))?;
        if read != bytes.len() {
            return Err(String::from("a world reads shorter than it was written"));
        }
        for (at, event) in &self.drive.log[cut..] {
            world.apply(*at, event);
        }
        if world == self.drive.world { Ok(()) } else { Err(format!("folding from event {cut} on differs")) }
    }
}

/// Lives through a history of one focus and to its end, both ways.
pub(crate) fn holds(ops: &[Op]) -> Result<(), TestCaseError> {
    let fail = TestCaseError::fail;
    History::live(ops).map_err(fail)?.heal().map_err(fail)?;
    History::live(ops).map_err(fail)?.starve().map_err(fail)
}

proptest! {
    #[test]
    fn any_history_keeps_the_contract_and_every_ticket_ends(ops in history(Focus::Everything)) {
        holds(&ops)?;
    }

    #[test]
    fn a_world_that_was_written_down_in_the_middle_is_the_same_world(
        ops in prop_oneof![history(Focus::Everything), history(Focus::Calls)], cut: Index
    ) {
        let history = History::live(&ops).map_err(TestCaseError::fail)?;
        history.folds_in_halves(&cut).map_err(TestCaseError::fail)?;
    }

    #[test]
    fn the_queue_keeps_its_order_its_cap_and_its_word(ops in history(Focus::Queue)) {
        holds(&ops)?;
    }

    #[test]
    fn a_slot_has_one_life_at_a_time(ops in history(Focus::Kernels)) {
        holds(&ops)?;
    }

    #[test]
    fn a_ladder_is_climbed_once_and_in_order(ops in history(Focus::Ladder)) {
        holds(&ops)?;
    }

    #[test]
    fn a_call_has_one_answer_and_leaves_nothing_behind(ops in history(Focus::Calls)) {
        holds(&ops)?;
    }

    #[test]
    fn a_question_is_answered_once_and_freezes_only_its_own_cell(ops in history(Focus::Questions)) {
        holds(&ops)?;
    }
}
