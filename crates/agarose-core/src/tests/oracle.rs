//! The contract, told a second time and in another way: it reads the log and the effects and says
//! which promise they break. It knows nothing of the machines.

use alloc::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    format,
    string::String,
};

use crate::{
    attempt::{EndCause, Executed, Word},
    capability::{CapabilityId, VoidReason},
    effect::Effect,
    event::{Event, ResultStatus, TicketEnded, TicketQueued},
    host_call::{CallId, CallOutcome, Decision},
    id::{Generation, Language, Lease, SessionId, TicketId},
    permission::PermissionId,
    slot::GroupOutcome,
    ticket::{Timeouts, Work},
    time::{Millis, Stamp},
    watchdog::{Cause, KernelFate, LadderEnd, Verdict},
    world::Policy,
};

macro_rules! ensure {
    ($condition:expr, $($words:tt)+) => {
        if !$condition {
            return Err(format!($($words)+));
        }
    };
}

type Verified = Result<(), String>;

/// What the log has said so far.
#[derive(Clone, Default)]
pub(crate) struct Oracle {
    policy: Policy,
    admits: bool,
    all_paused: bool,
    pub(crate) sessions: BTreeMap<SessionId, Room>,
    pub(crate) tickets: BTreeMap<TicketId, Life>,
    generations: BTreeSet<Generation>,
    questions: BTreeSet<PermissionId>,
    /// The ticket whose cell has to be closed by the very next event.
    to_close: Option<TicketId>,
}

#[derive(Clone, Default)]
pub(crate) struct Room {
    pub(crate) waiting: VecDeque<TicketId>,
    pub(crate) running: Option<TicketId>,
    paused: bool,
    closed: bool,
    /// Whether it was looked at since the daemon started.
    settled: bool,
    sent: u64,
    kernels: BTreeMap<Language, Kernel>,
    open_questions: BTreeMap<PermissionId, Option<TicketId>>,
    calls: BTreeMap<CallId, Call>,
    capabilities: BTreeMap<CapabilityId, bool>,
}

/// A call of the running cell.
#[derive(Clone)]
struct Call {
    lease: Lease,
    may_begin: bool,
    waits_for: Option<PermissionId>,
    repeatable: bool,
    dispatched: bool,
    /// Whether a daemon has died since it was dispatched.
    orphaned: bool,
}

#[derive(Clone, Copy, Default)]
struct Kernel {
    live: Option<(Generation, Stage)>,
    ran: bool,
    /// The life whose variables went and whose loss no cell was told yet.
    lost: Option<Generation>,
}

#[derive(Clone, Copy, PartialEq)]
enum Stage {
    Starting,
    Ready,
    Stopping,
}

#[derive(Clone)]
pub(crate) struct Life {
    session: SessionId,
    language: Language,
    is_cell: bool,
    timeouts: Timeouts,
    queued: u64,
    after: Option<TicketId>,
    pub(crate) word: Option<Word>,
    attempt: Option<Attempt>,
}

#[derive(Clone)]
struct Attempt {
    lease: Lease,
    begun: bool,
    result: bool,
    output: bool,
    ladder: Option<Cause>,
    interrupts: u32,
    answered: Option<(u64, bool)>,
    kill: bool,
    group: Option<bool>,
    charged: u64,
    charged_until: u64,
    /// The last sign of life; an answer that sets the clock going again is one.
    active: u64,
    /// The word that it will have, and until when its calls may take.
    drain: Option<(Word, u64)>,
}

impl Oracle {
    /// Follows one event.
    pub(crate) fn see(&mut self, now: Stamp, event: &Event) -> Verified {
        if let Some(ticket) = self.to_close.take() {
            let closes = matches!(event, Event::CellClosed { ticket: closed, .. } if *closed == ticket);
            ensure!(closes, "the cell of {ticket} was not closed with its last word");
        } else {
            ensure!(event.name() != "CellClosed", "a cell was closed that did not end: {event:?}");
        }
        if let Some(session) = event.session() {
            self.charge(session, now.mono);
            if event.name() != "SessionOpened" {
                ensure!(self.sessions.contains_key(session), "there is no session for {event:?}");
            }
        }
        match event {
            Event::DaemonStarted(started) => {
                self.policy = started.policy.clone();
                self.admits = true;
                for room in self.sessions.values_mut() {
                    room.settled = false;
                    room.calls.values_mut().for_each(|call| call.orphaned = call.dispatched);
                }
                // Signs of life while nobody listened are not known, so silence is counted anew.
                for run in self.tickets.values_mut().filter_map(|life| life.attempt.as_mut()) {
                    run.active = run.active.max(now.mono);
                }
            }
            Event::DaemonStopping { .. } => self.admits = false,
            Event::AllPaused { .. } => self.all_paused = true,
            Event::AllResumed { .. } => self.all_paused = false,
            Event::SessionOpened { session, .. } => {
                let room = Room { settled: true, ..Room::default() };
                ensure!(self.sessions.insert(session.clone(), room).is_none(), "{session} was there already");
            }
            Event::SessionPaused { session, .. } => self.room(session).paused = true,
            Event::SessionResumed { session, .. } => self.room(session).paused = false,
            Event::SessionClosed { session, .. } => self.room(session).closed = true,
            Event::SessionRemoved { session } => {
                let room = self.sessions.remove(session).unwrap();
                let is_empty =
                    room.waiting.is_empty() && room.running.is_none() && room.open_questions.is_empty();
                ensure!(is_empty, "{session} was removed with work in it");
                ensure!(room.kernels.values().all(|kernel| kernel.live.is_none()), "{session} left a kernel");
            }
            Event::TicketQueued(queued) => self.queued(now, queued)?,
            Event::TicketAdmitted { session, ticket } => self.admitted(session, *ticket)?,
            Event::CancelRequested { ticket, .. } => {
                ensure!(self.life(*ticket)?.word.is_none(), "{ticket} was cancelled after its end");
            }
            Event::TicketEnded(ended) => self.ended(now, ended)?,
            Event::CellClosed { .. } => {}
            Event::KernelStarting { session, language, generation, previous } => {
                ensure!(self.generations.insert(*generation), "{generation} lives twice");
                let kernel = self.room(session).kernels.entry(*language).or_default();
                ensure!(
                    kernel.live.is_none(),
                    "a second kernel was started beside {:?}",
                    kernel.live.unwrap().0
                );
                ensure!(kernel.lost == *previous, "{generation} follows {:?}, not {previous:?}", kernel.lost);
                *kernel =
                    Kernel { live: Some((*generation, Stage::Starting)), ran: false, lost: kernel.lost };
            }
            Event::KernelReady { session, language, generation, .. } => {
                let stage = self.stage(session, *language, *generation)?;
                ensure!(*stage == Stage::Starting, "{generation} became ready twice");
                *stage = Stage::Ready;
            }
            Event::KernelStopRequested { session, language, generation, .. } => {
                let stage = self.stage(session, *language, *generation)?;
                ensure!(*stage != Stage::Stopping, "{generation} was told to stop twice");
                *stage = Stage::Stopping;
                let holds = self.running(session).and_then(|life| life.attempt.as_ref());
                ensure!(
                    holds.is_none_or(|run| run.lease.generation != *generation),
                    "{generation} runs a cell"
                );
            }
            Event::KernelReattached { session, language, generation } => {
                self.stage(session, *language, *generation)?;
            }
            Event::KernelStartFailed { session, language, generation, .. }
            | Event::KernelGone { session, language, generation, .. } => {
                self.stage(session, *language, *generation)?;
                let kernel = self.room(session).kernels.get_mut(language).unwrap();
                let lost = if kernel.ran { Some(*generation) } else { kernel.lost };
                *kernel = Kernel { live: None, ran: false, lost };
            }
            Event::ExecuteRequested { session, lease, ordinal, variables_lost } => {
                self.sent(now, session, *lease, *ordinal, *variables_lost)?;
            }
            Event::ExecuteAcknowledged { lease, .. } => {
                let run = self.run(*lease)?;
                ensure!(!run.begun, "{lease} began twice");
                run.begun = true;
                run.active = run.active.max(now.mono);
            }
            Event::ResultReceived { lease, .. } => {
                let run = self.run(*lease)?;
                ensure!(run.begun && !run.result && !run.output, "{lease} brought an impossible result");
                run.result = true;
            }
            Event::OutputKept { lease, .. } => {
                let run = self.run(*lease)?;
                ensure!(!run.output && !run.result, "the output of {lease} was kept twice");
                run.output = true;
            }
            Event::ActivityNoted { lease, at, .. } => {
                let run = self.run(*lease)?;
                ensure!(*at <= now.mono, "{lease} was alive in the future");
                run.active = run.active.max(*at);
            }
            Event::LadderStarted { lease, cause, .. } => self.ladder(now, *lease, *cause)?,
            Event::InterruptRequested { lease, attempt, .. } => {
                let run = self.run(*lease)?;
                ensure!(run.ladder.is_some() && !run.kill, "{lease} was interrupted out of turn");
                ensure!(*attempt == run.interrupts + 1, "the interrupts of {lease} are not counted");
                (run.interrupts, run.answered) = (*attempt, None);
            }
            Event::InterruptAnswered { lease, verdict, .. } => {
                let run = self.run(*lease)?;
                ensure!(
                    run.answered.is_none() && run.interrupts > 0,
                    "an interrupt of {lease} was answered twice"
                );
                run.answered = Some((now.mono, *verdict == Verdict::Delivered));
            }
            Event::KillRequested { lease, .. } => self.killed(now, *lease)?,
            Event::GroupStopped { lease, outcome, .. } => self.stopped(*lease, outcome)?,
            Event::LadderEnded { lease, end, .. } => {
                let run = self.run(*lease)?;
                let cause = run.ladder.take();
                ensure!(cause.is_some(), "a ladder of {lease} ended that had not begun");
                match end {
                    LadderEnd::Ignored => {
                        ensure!(cause == Some(Cause::Interrupt), "only a bare interrupt may be ignored");
                    }
                    LadderEnd::Finished => ensure!(!run.kill, "{lease} was killed and finished"),
                    LadderEnd::Stopped(fate) => {
                        let not_reset = matches!(fate, KernelFate::NotReset { .. });
                        ensure!(
                            run.group == Some(!not_reset),
                            "the fate of {lease} is not what the probe said"
                        );
                    }
                }
            }
            Event::PermissionProposed { session, permission, ticket, .. } => {
                ensure!(self.questions.insert(*permission), "{permission} was asked twice");
                self.room(session).open_questions.insert(*permission, *ticket);
            }
            Event::PermissionDecided { session, permission, .. }
            | Event::PermissionExpired { session, permission } => {
                let asked = self.room(session).open_questions.remove(permission);
                ensure!(asked.is_some(), "{permission} was answered twice");
                let allowed = matches!(event, Event::PermissionDecided { allowed: true, .. });
                for call in self.room(session).calls.values_mut() {
                    call.may_begin |= allowed && call.waits_for == Some(*permission);
                }
                let still = self.room(session).open_questions.values().any(|asks| Some(*asks) == asked);
                let life = asked.flatten().filter(|_| !still).and_then(|asked| self.tickets.get_mut(&asked));
                if let Some(run) = life.and_then(|life| life.attempt.as_mut()) {
                    run.active = run.active.max(now.mono);
                }
            }
            Event::HostCallStarted(started) => {
                let run = self.run(started.lease)?;
                run.active = run.active.max(now.mono);
                let call = Call {
                    lease: started.lease,
                    may_begin: matches!(started.decision, Decision::Allow { .. }),
                    waits_for: started.permission,
                    repeatable: started.repeatable,
                    dispatched: false,
                    orphaned: false,
                };
                let calls = &mut self.room(&started.session).calls;
                ensure!(calls.insert(started.call, call).is_none(), "{} was started twice", started.call);
            }
            Event::HostCallDispatched { session, lease, call } => {
                let run = self.run(*lease)?;
                let is_stopped = !matches!(run.ladder, None | Some(Cause::Interrupt));
                ensure!(
                    run.drain.is_none() && !is_stopped,
                    "{call} was begun for a cell that is being stopped"
                );
                let open =
                    self.room(session).calls.get_mut(call).ok_or("a call was begun that is not open")?;
                ensure!(open.may_begin, "{call} was begun, and nobody had allowed it");
                let again = open.dispatched && open.orphaned && open.repeatable;
                ensure!(!open.dispatched || again, "{call} was begun twice");
                (open.dispatched, open.orphaned) = (true, false);
            }
            Event::HostCallCancelRequested { session, call, .. } => {
                let open = self.room(session).calls.get(call).is_some_and(|call| call.dispatched);
                ensure!(open, "{call} was told to stop and did not run");
            }
            Event::HostCallAnswered { session, lease, call, outcome, .. } => {
                let run = self.run(*lease)?;
                run.active = run.active.max(now.mono);
                let drain = run.drain;
                let open = self.room(session).calls.remove(call);
                let open = open.filter(|open| open.lease == *lease).ok_or("a call was answered twice")?;
                match outcome {
                    CallOutcome::OutcomeUnknown => ensure!(open.orphaned, "{call}: its service was there"),
                    CallOutcome::Abandoned => {
                        ensure!(
                            drain.is_some_and(|(_, until)| until <= now.mono),
                            "{call} was given up early"
                        );
                    }
                    CallOutcome::Ok => ensure!(open.may_begin, "{call} was done without leave"),
                    CallOutcome::Failed { .. } | CallOutcome::Denied { .. } | CallOutcome::Cancelled => {}
                }
            }
            Event::CellDraining { session, lease, word, until, .. } => {
                ensure!(*until > now.mono, "{lease} is drained in no time");
                ensure!(!self.room(session).calls.is_empty(), "{lease} waits for nothing");
                let run = self.run(*lease)?;
                ensure!(run.drain.is_none(), "{lease} ended twice");
                run.drain = Some((*word, *until));
            }
            Event::CapabilityGranted { session, lease, grant } => {
                self.run(*lease)?;
                let known = self.room(session).capabilities.insert(grant.capability, false);
                ensure!(known.is_none(), "a capability was granted twice");
            }
            Event::CapabilityConsumed { session, lease, capability } => {
                self.run(*lease)?;
                let spent = self.room(session).capabilities.insert(*capability, true);
                ensure!(spent == Some(false), "a capability was consumed that was not there to consume");
            }
            Event::CapabilityReported { session, capability, .. } => {
                let spent = self.room(session).capabilities.remove(capability);
                ensure!(spent == Some(true), "a command that was not run was reported");
            }
            Event::CapabilityVoided { session, capability, reason, .. } => {
                let spent = self.room(session).capabilities.remove(capability);
                let unknown = *reason == VoidReason::OutcomeUnknown;
                ensure!(spent == Some(unknown), "a capability went with the wrong reason: {reason:?}");
            }
            Event::OutputSubmitted { lease, .. }
            | Event::ArtifactSaved { lease, .. }
            | Event::DocumentWritten { lease, .. } => {
                self.run(*lease)?;
            }
            Event::OutputObserved { .. } => {}
            // The random commands have no analysis and no restore; their own tests do.
            Event::CellAnalysed { .. }
            | Event::RestoreStarted { .. }
            | Event::RestorePublished { .. }
            | Event::RestoreEnded { .. } => {}
        }
        Ok(())
    }

    fn room(&mut self, session: &SessionId) -> &mut Room {
        self.sessions.get_mut(session).unwrap()
    }

    fn life(&mut self, ticket: TicketId) -> Result<&mut Life, String> {
        self.tickets.get_mut(&ticket).ok_or_else(|| format!("there is no ticket {ticket}"))
    }

    fn running(&self, session: &SessionId) -> Option<&Life> {
        self.tickets.get(&self.sessions.get(session)?.running?)
    }

    /// The attempt under a lease, which must be the running one of its session.
    fn run(&mut self, lease: Lease) -> Result<&mut Attempt, String> {
        let life = self.life(lease.ticket)?;
        ensure!(life.word.is_none(), "{lease} was touched after its last word");
        let session = life.session.clone();
        ensure!(self.sessions[&session].running == Some(lease.ticket), "{lease} does not run");
        let run = self.life(lease.ticket)?.attempt.as_mut().filter(|run| run.lease == lease);
        run.ok_or_else(|| format!("{lease} is stale"))
    }

    fn stage(
        &mut self,
        session: &SessionId,
        language: Language,
        life: Generation,
    ) -> Result<&mut Stage, String> {
        let kernel = self.room(session).kernels.get_mut(&language);
        match kernel.and_then(|kernel| kernel.live.as_mut()) {
            Some((generation, stage)) if *generation == life => Ok(stage),
            Some(_) | None => Err(format!("{life} is not there")),
        }
    }

    /// Charges the running cell of a session for the time since it was last looked at.
    fn charge(&mut self, session: &SessionId, now: u64) {
        let Some(room) = self.sessions.get(session) else { return };
        let Some(ticket) = room.running else { return };
        let is_frozen = room.open_questions.values().any(|asks| *asks == Some(ticket));
        if let Some(run) = self.tickets.get_mut(&ticket).and_then(|life| life.attempt.as_mut()) {
            if !is_frozen {
                run.charged += now - run.charged_until;
            }
            run.charged_until = now;
        }
    }

    fn queued(&mut self, now: Stamp, queued: &TicketQueued) -> Verified {
        let (cap, admits) = (self.policy.queue_cap, self.admits);
        let room = self.room(&queued.session);
        ensure!((room.waiting.len() as u64) < cap, "the queue of {} took more than its cap", queued.session);
        ensure!(!room.closed && admits, "a request was accepted behind a closed door");
        room.waiting.push_back(queued.ticket);
        let life = Life {
            session: queued.session.clone(),
            language: queued.language,
            is_cell: matches!(queued.work, Work::Cell { .. }),
            timeouts: queued.timeouts,
            queued: now.mono,
            after: queued.after,
            word: None,
            attempt: None,
        };
        ensure!(self.tickets.insert(queued.ticket, life).is_none(), "{} exists twice", queued.ticket);
        Ok(())
    }

    fn admitted(&mut self, session: &SessionId, ticket: TicketId) -> Verified {
        ensure!(self.admits && !self.all_paused, "{ticket} was admitted while nobody may be");
        let room = self.room(session);
        ensure!(!room.paused, "{ticket} was admitted in a paused session");
        ensure!(room.running.is_none(), "{ticket} was admitted beside another");
        ensure!(room.waiting.pop_front() == Some(ticket), "{ticket} was admitted out of turn");
        room.running = Some(ticket);
        let after = self.life(ticket)?.after;
        if let Some(life) = after.and_then(|after| self.tickets.get(&after)) {
            ensure!(life.word == Some(Word::Completed), "{ticket} runs behind one that did not complete");
        }
        Ok(())
    }

    fn sent(
        &mut self,
        now: Stamp,
        session: &SessionId,
        lease: Lease,
        ordinal: u64,
        lost: Option<Generation>,
    ) -> Verified {
        ensure!(self.admits, "{lease} was sent by a daemon on its way out");
        let life = self.life(lease.ticket)?;
        ensure!(life.is_cell && life.attempt.is_none(), "{lease} was sent a second time");
        life.attempt = Some(Attempt {
            lease,
            begun: false,
            result: false,
            output: false,
            ladder: None,
            interrupts: 0,
            answered: None,
            kill: false,
            group: None,
            charged: 0,
            charged_until: now.mono,
            active: now.mono,
            drain: None,
        });
        let language = life.language;
        self.run(lease)?;
        ensure!(
            *self.stage(session, language, lease.generation)? == Stage::Ready,
            "{lease} was sent too early"
        );
        let room = self.room(session);
        room.sent += 1;
        ensure!(room.sent == ordinal, "{lease} is cell {} and not {ordinal}", room.sent);
        let kernel = room.kernels.get_mut(&language).unwrap();
        ensure!(kernel.lost == lost, "{lease} was told that {lost:?} is lost, and {:?} is", kernel.lost);
        (kernel.lost, kernel.ran) = (None, true);
        Ok(())
    }

    fn ladder(&mut self, now: Stamp, lease: Lease, cause: Cause) -> Verified {
        ensure!(self.run(lease)?.drain.is_none(), "{lease} has ended and is stopped all the same");
        let life = self.life(lease.ticket)?;
        let (limit, beat) = (life.timeouts.start_to_close, life.timeouts.heartbeat);
        let session = life.session.clone();
        let is_frozen =
            self.sessions[&session].open_questions.values().any(|asks| *asks == Some(lease.ticket));
        let by_clock = matches!(cause, Cause::Timeout | Cause::IdleTimeout);
        ensure!(!(by_clock && is_frozen), "{lease} ran out of time while its clock stood still");
        let run = self.run(lease)?;
        let may_begin = matches!(run.ladder, None | Some(Cause::Interrupt)) && !run.kill;
        ensure!(may_begin, "a ladder of {lease} was begun twice");
        ensure!(
            cause != Cause::Timeout || limit.is_some_and(|limit| run.charged >= limit.0),
            "{lease} ran out of time after {} ms",
            run.charged
        );
        let silent = beat.is_some_and(|beat| beat.0 > 0 && run.active + beat.0 <= now.mono);
        ensure!(cause != Cause::IdleTimeout || silent, "{lease} gave a sign of life at {}", run.active);
        run.ladder = Some(cause);
        Ok(())
    }

    fn killed(&mut self, now: Stamp, lease: Lease) -> Verified {
        let grace = self.life(lease.ticket)?.timeouts.interrupt_grace.unwrap_or(self.policy.interrupt_grace);
        let (session, language) =
            (self.life(lease.ticket)?.session.clone(), self.life(lease.ticket)?.language);
        let run = self.run(lease)?;
        ensure!(!run.kill, "{lease} was killed twice");
        ensure!(
            !matches!(run.ladder, None | Some(Cause::Interrupt)),
            "{lease} was killed without a reason to"
        );
        let may_kill = match run.answered {
            None => false,
            Some((at, delivered)) => !delivered || now.mono >= at + grace.0,
        };
        ensure!(may_kill, "{lease} was killed before its interrupt had its time");
        run.kill = true;
        *self.stage(&session, language, lease.generation)? = Stage::Stopping;
        Ok(())
    }

    fn stopped(&mut self, lease: Lease, outcome: &GroupOutcome) -> Verified {
        let (session, language) =
            (self.life(lease.ticket)?.session.clone(), self.life(lease.ticket)?.language);
        let has_gone = self.stage(&session, language, lease.generation).is_err();
        let run = self.run(lease)?;
        ensure!(run.group.is_none(), "the group of {lease} was stopped twice");
        ensure!(run.kill || has_gone, "the group of {lease} was stopped by nobody");
        run.group = Some(outcome.is_gone());
        Ok(())
    }

    fn ended(&mut self, now: Stamp, ended: &TicketEnded) -> Verified {
        let ticket = ended.ticket;
        let life = self.life(ticket)?.clone();
        ensure!(life.word.is_none(), "{ticket} has two last words");
        self.life(ticket)?.word = Some(ended.word);
        let open = self.sessions[&life.session].open_questions.values().any(|asks| *asks == Some(ticket));
        ensure!(!open, "{ticket} left a question behind");
        let room = self.room(&life.session);
        if room.running == Some(ticket) {
            ensure!(room.calls.is_empty(), "{ticket} left a call behind");
            ensure!(room.capabilities.is_empty(), "{ticket} left a capability behind");
        }
        let drained = life.attempt.as_ref().and_then(|run| run.drain);
        ensure!(drained.is_none_or(|(word, _)| word == ended.word), "{ticket} has another word than it had");
        let room = self.room(&life.session);
        if room.running == Some(ticket) {
            room.running = None;
            self.to_close = Some(ticket);
        } else {
            ensure!(ended.word == Word::Cancelled, "{ticket} waited and ended {}", ended.word.as_str());
            room.waiting.retain(|waiting| *waiting != ticket);
        }
        let executed = match &life.attempt {
            None => Executed::No,
            Some(run) if run.begun => Executed::Yes,
            // Only a supervisor that outlived its worker can know that it never began.
            Some(_) if ended.executed == Executed::No => {
                let says_so = matches!(ended.cause, EndCause::Lost { .. } | EndCause::KernelDied { .. });
                ensure!(says_so, "{ticket} was sent, and nobody can know that it did not run");
                Executed::No
            }
            Some(_) => Executed::Unknown,
        };
        ensure!(
            ended.executed == executed,
            "{ticket} ran: {executed:?}, and the log says {:?}",
            ended.executed
        );
        let kill = life.attempt.as_ref().is_some_and(|run| run.kill);
        let fits = match &ended.cause {
            EndCause::Result { status } => {
                let own = match status {
                    ResultStatus::Ok => matches!(ended.word, Word::Completed | Word::Cancelled),
                    ResultStatus::Error => ended.word == Word::Failed,
                    ResultStatus::Interrupted => ended.word == Word::Interrupted,
                };
                own && !kill && life.attempt.as_ref().is_some_and(|run| run.result)
            }
            EndCause::CancelledBeforeStart => ended.word == Word::Cancelled && executed == Executed::No,
            EndCause::AdmissionTimedOut => {
                let limit = life.timeouts.schedule_to_start.map_or(u64::MAX, |limit| life.queued + limit.0);
                ended.word == Word::Cancelled && now.mono >= limit
            }
            EndCause::PredecessorNotCompleted { after, word } => {
                let known = self.tickets.get(after).and_then(|life| life.word);
                life.after == Some(*after)
                    && *word != Word::Completed
                    && known.is_none_or(|known| known == *word)
            }
            EndCause::SessionClosed => self.sessions[&life.session].closed,
            EndCause::NoKernel { .. } => ended.word == Word::Refused && executed == Executed::No,
            EndCause::KernelDied { .. } => ended.word == Word::Failed && !kill,
            EndCause::Lost { .. } => ended.word == Word::Lost && !kill,
            EndCause::Stopped { cause, .. } => {
                let run = life.attempt.as_ref();
                let group = run.is_some_and(|run| run.group.is_some());
                group
                    && ended.word
                        == if *cause == Cause::Cancellation { Word::Cancelled } else { Word::TimedOut }
            }
            EndCause::Lifecycle => !life.is_cell && ended.word == Word::Completed,
        };
        ensure!(fits, "{ticket} ended {} for {:?}", ended.word.as_str(), ended.cause);
        Ok(())
    }

    /// What leaves the house reaches exactly who runs, and nobody after its end.
    pub(crate) fn allows(&mut self, effect: &Effect) -> Verified {
        match effect {
            Effect::SendExecute { lease, .. }
            | Effect::SendInterrupt { lease, .. }
            | Effect::StopGroup { lease, .. } => {
                let run = self.run(*lease)?;
                let in_turn = match effect {
                    Effect::SendInterrupt { attempt, .. } => *attempt == run.interrupts && !run.kill,
                    Effect::StopGroup { .. } => run.kill,
                    _ => !run.begun && !run.kill,
                };
                ensure!(in_turn, "{effect:?} is out of turn");
            }
            Effect::StartKernel { session, language, generation } => {
                ensure!(
                    *self.stage(session, *language, *generation)? == Stage::Starting,
                    "{effect:?} is late"
                );
            }
            // Both may come after the end of what they name, and reach nothing else.
            Effect::StopKernel { session, language, generation, .. } => {
                let holds = self.running(session).and_then(|life| life.attempt.as_ref());
                ensure!(
                    holds.is_none_or(|run| run.lease.generation != *generation),
                    "{language}: {effect:?}"
                );
            }
            Effect::PerformHostCall { session, lease, call } => {
                self.run(*lease)?;
                let open = self.room(session).calls.get(call).is_some_and(|call| call.dispatched);
                ensure!(open, "{effect:?} is out of turn");
            }
            Effect::CancelHostCall { session, call, .. } => {
                let open = self.room(session).calls.get(call).is_some_and(|call| call.dispatched);
                ensure!(open, "{effect:?} is out of turn");
            }
            Effect::AnswerHostCall { session, call, .. } => {
                let open = self.sessions.get(session).is_some_and(|room| room.calls.contains_key(call));
                ensure!(!open, "{call} is open and has its answer");
            }
            Effect::ReleaseResult { lease, .. } => {
                let life = self.life(lease.ticket)?;
                let known = life
                    .attempt
                    .as_ref()
                    .is_some_and(|run| run.lease == *lease && (run.result || run.output));
                ensure!(known, "{lease} was released unread");
            }
        }
        Ok(())
    }

    /// What must hold between two decisions.
    pub(crate) fn rests(&mut self, now: Stamp, ticked: bool) -> Verified {
        ensure!(self.to_close.is_none(), "a decision ended without closing its cell");
        let sessions: alloc::vec::Vec<SessionId> = self.sessions.keys().cloned().collect();
        for session in &sessions {
            self.charge(session, now.mono);
            let (admits, all_paused) = (self.admits, self.all_paused);
            let room = &self.sessions[session];
            let may_go_on = admits && !all_paused && !room.paused && room.settled;
            let idles = room.running.is_none() && !room.waiting.is_empty();
            ensure!(!(may_go_on && idles), "{session} has work, and nobody does it");
            ensure!(!room.closed || room.waiting.is_empty(), "{session} is closed, and somebody waits");
            if ticked {
                self.is_on_time(session, now.mono)?;
            }
        }
        Ok(())
    }

    /// After a tick nothing is overdue.
    fn is_on_time(&self, session: &SessionId, now: u64) -> Verified {
        for ticket in &self.sessions[session].waiting {
            let life = &self.tickets[ticket];
            let late = life.timeouts.schedule_to_start.is_some_and(|limit| life.queued + limit.0 <= now);
            ensure!(!late, "{ticket} waits longer than it said it would");
        }
        let Some(life) = self.running(session) else { return Ok(()) };
        let Some(run) = &life.attempt else { return Ok(()) };
        if let Some((_, until)) = run.drain {
            ensure!(until > now, "{} waits for its calls for too long", run.lease);
            return Ok(());
        }
        let limit = life.timeouts.start_to_close.filter(|limit| *limit > Millis(0));
        let unheeded = matches!(run.ladder, None | Some(Cause::Interrupt));
        let room = &self.sessions[session];
        let is_frozen = room.open_questions.values().any(|asks| *asks == Some(run.lease.ticket));
        let beat = life.timeouts.heartbeat.filter(|beat| *beat > Millis(0));
        let silent = beat.is_some_and(|beat| run.active + beat.0 <= now);
        let over = (silent || limit.is_some_and(|limit| run.charged >= limit.0)) && !is_frozen;
        ensure!(!(over && unheeded), "{} is over its time, and nobody stops it", run.lease);
        Ok(())
    }

    /// A daemon has looked at every session.
    pub(crate) fn settled(&mut self, session: &SessionId) {
        if let Some(room) = self.sessions.get_mut(session) {
            room.settled = true;
        }
    }

    /// The tickets without a last word.
    pub(crate) fn open(&self) -> impl Iterator<Item = TicketId> {
        self.tickets.iter().filter(|(_, life)| life.word.is_none()).map(|(ticket, _)| *ticket)
    }
}
