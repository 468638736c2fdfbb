//! The whole folded state, and the four questions that may be asked of it.
//!
//! `decide` may refuse and changes nothing. `apply` is total: a logged fact cannot be refused. What
//! time alone will change is [`World::next_deadline`]; what a restart must look at again is
//! [`World::in_flight`].

use alloc::{
    boxed::Box,
    collections::{BTreeMap, BTreeSet, VecDeque},
    string::String,
    vec::Vec,
};

use serde::{Deserialize, Serialize};

use crate::{
    attempt::{EndCause, Executed, Word},
    cell::Phase,
    command::{Cancel, Command, Context, KnownTicket, Reach, Submit},
    effect::{Effect, Obligation},
    event::{Event, TicketEnded, TicketQueued},
    host_call::CallOutcome,
    id::{BlobRef, Generation, Language, Owner, SessionId, TicketId},
    permission::{Permission, PermissionId},
    plan::Plan,
    refusal::Refusal,
    session::{Restore, Session},
    slot::Slot,
    time::{Millis, Stamp},
    watchdog::{Cause, Rung},
};

/// The rules that hold from one start of a daemon to the next; they are in the log, so that a later
/// fold decides by the rules that were in force.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Policy {
    /// How many tickets may wait in a session.
    pub queue_cap: u64,
    /// How long a delivered interrupt is waited for.
    pub interrupt_grace: Millis,
    /// How long TERM and then KILL are waited for, each.
    pub kill_grace: Millis,
    /// How long a kernel may take to come up.
    pub start_deadline: Millis,
    /// How long a kernel may stand idle; absent means for ever.
    pub kernel_idle: Option<Millis>,
    /// How many ended tickets are remembered outside the log.
    pub recent: u64,
}

impl Default for Policy {
    /// The numbers of the contract.
    fn default() -> Self {
        Self {
            queue_cap: 64,
            interrupt_grace: Millis::seconds(10),
            kill_grace: Millis::seconds(10),
            start_deadline: Millis::seconds(60),
            kernel_idle: None,
            recent: 1024,
        }
    }
}

/// The last point at which the data directory's clock and a boot's clock were read together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockBase {
    /// Which boot.
    pub boot: String,
    /// Milliseconds since that boot.
    pub uptime: u64,
    /// The data directory's clock then.
    pub mono: u64,
}

/// Whether a daemon is there to go on with things.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
enum Gate {
    /// None has started here yet.
    #[default]
    Unattended,
    /// One is.
    Open,
    /// It is on its way out.
    Stopping {
        /// Whether kernels are stopped with it.
        stop_kernels: bool,
    },
}

/// What holds for all sessions at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gates {
    pub(crate) admitting: bool,
    pub(crate) stop_kernels: bool,
    pub(crate) paused: bool,
}

/// Everything that the log folds to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct World {
    policy: Policy,
    gate: Gate,
    paused: Option<Owner>,
    sessions: BTreeMap<SessionId, Session>,
    open: BTreeMap<TicketId, SessionId>,
    recent: VecDeque<KnownTicket>,
    next_generation: Generation,
    next_permission: PermissionId,
    starts: u64,
    clock: Option<ClockBase>,
    last_wall: u64,
    wall_steps_back: u64,
    anomalies: u64,
    // Derived from the rest; kept beside it so that no command costs more with more sessions.
    keys: BTreeMap<SessionId, BTreeMap<String, TicketId>>,
    recent_by_ticket: BTreeMap<TicketId, KnownTicket>,
    questions: BTreeMap<PermissionId, SessionId>,
    /// The sessions of kernels that were started for another one.
    moved: BTreeMap<Generation, SessionId>,
    deadlines: BTreeSet<(u64, SessionId)>,
}

/// A decision: the facts that it makes and what to tell whoever asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// What happens; empty when nothing changes.
    pub events: Vec<Event>,
    /// What to tell.
    pub answer: Answer,
}

/// What a command is answered with once its events are durable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It was done.
    Done,
    /// The ticket of a submit.
    Ticket {
        /// Which.
        ticket: TicketId,
        /// Whether an earlier request with the same key had made it.
        repeated: bool,
    },
    /// What a cancellation found.
    Cancel(CancelAnswer),
    /// The question that was asked.
    Permission(PermissionId),
    /// Where a call to the host stands.
    Call(CallReply),
}

/// Where a call to the host stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallReply {
    /// It has no answer yet; what is to be done follows from the effects.
    Open,
    /// It has its answer.
    Answered {
        /// How it ended.
        outcome: CallOutcome,
        /// The answer, when it was kept to be sent again.
        answer: Option<BlobRef>,
    },
    /// Its cell is over, and nobody waits for it.
    Stale,
}

/// What a cancellation found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CancelAnswer {
    /// It waited and does not any more.
    Dequeued,
    /// It had not been sent to a kernel yet and will not be.
    StoppedBeforeStart,
    /// It runs, and the interrupt is on its way.
    Interrupting,
    /// Somebody had asked before; that request stays.
    AlreadyRequested {
        /// The first reason.
        reason: String,
    },
    /// It stops or restarts a kernel, which cannot be taken back.
    CannotStop,
}

impl Decision {
    fn done(events: Vec<Event>) -> Self {
        Self { events, answer: Answer::Done }
    }
}

impl World {
    /// The state before the first event.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The rules in force.
    #[must_use]
    pub const fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Whether new tickets are admitted at all.
    #[must_use]
    pub const fn admitting(&self) -> bool {
        matches!(self.gate, Gate::Open)
    }

    const fn gates(&self) -> Gates {
        Gates {
            admitting: self.admitting(),
            stop_kernels: matches!(self.gate, Gate::Stopping { stop_kernels: true }),
            paused: self.paused.is_some(),
        }
    }

    /// Who paused everything, if somebody did.
    #[must_use]
    pub const fn paused(&self) -> Option<&Owner> {
        self.paused.as_ref()
    }

    /// The sessions, by name.
    #[must_use]
    pub const fn sessions(&self) -> &BTreeMap<SessionId, Session> {
        &self.sessions
    }

    /// The session of an open ticket.
    #[must_use]
    pub fn session_of(&self, ticket: TicketId) -> Option<&Session> {
        self.open.get(&ticket).and_then(|session| self.sessions.get(session))
    }

    /// A ticket that ended not long ago.
    #[must_use]
    pub fn recent(&self, ticket: TicketId) -> Option<&KnownTicket> {
        self.recent_by_ticket.get(&ticket)
    }

    /// The open questions.
    pub fn permissions(&self) -> impl Iterator<Item = &Permission> {
        self.questions.iter().filter_map(|(id, session)| self.sessions.get(session)?.permissions.get(id))
    }

    /// How many tickets are open.
    #[must_use]
    pub fn open_tickets(&self) -> usize {
        self.open.len()
    }

    /// What the data directory's clock goes on from.
    #[must_use]
    pub const fn clock(&self) -> Option<&ClockBase> {
        self.clock.as_ref()
    }

    /// How often a daemon has started here.
    #[must_use]
    pub const fn starts(&self) -> u64 {
        self.starts
    }

    /// How often the wall clock stood earlier than for the event before.
    #[must_use]
    pub const fn wall_steps_back(&self) -> u64 {
        self.wall_steps_back
    }

    /// Facts that did not fit the state they met. Never more than zero in a log of ours.
    #[must_use]
    pub fn anomalies(&self) -> u64 {
        self.sessions.values().fold(self.anomalies, |sum, session| sum.saturating_add(session.anomalies))
    }

    /// When time alone next changes something, on the data directory's clock.
    #[must_use]
    pub fn next_deadline(&self) -> Option<u64> {
        self.deadlines.first().map(|(at, _)| *at)
    }

    fn plan(&self, session: Session, context: Context) -> Plan<'_> {
        Plan::new(session, &self.policy, self.gates(), context, self.next_generation)
    }

    /// What a command makes happen.
    ///
    /// # Errors
    /// Says what stands in the way; nothing has changed then.
    pub fn decide(&self, command: &Command, context: Context) -> Result<Decision, Refusal> {
        match command {
            Command::StartDaemon(started) => {
                Ok(Decision::done(alloc::vec![Event::DaemonStarted(started.clone())]))
            }
            Command::StopDaemon { stop_kernels } => Ok(self.stop_daemon(*stop_kernels, context)),
            Command::Submit(submit) => self.submit(submit, context),
            Command::Cancel(cancel) => self.cancel(cancel, context),
            Command::Pause { session, by } => self.pause(session.as_ref(), by),
            Command::Resume { session, by } => self.resume(session.as_ref(), by, context),
            Command::CloseSession { session, by, reason, remove } => {
                self.close(session, by, reason, *remove, context)
            }
            Command::ProposePermission { session, ticket, method, detail, expires_after } => {
                let asking = self.named(session)?;
                // A question of a cell that has ended would never be expired with it.
                if let Some(ticket) = ticket.filter(|ticket| !asking.tickets.contains_key(ticket)) {
                    return Err(Refusal::NoSuchTicket { ticket });
                }
                let permission = PermissionId(self.next_permission.0.saturating_add(1));
                let event = Event::PermissionProposed {
                    session: session.clone(),
                    permission,
                    ticket: *ticket,
                    method: method.clone(),
                    detail: detail.clone(),
                    expires: expires_after.map(|after| context.now.deadline(after)),
                };
                Ok(Decision { events: alloc::vec![event], answer: Answer::Permission(permission) })
            }
            Command::DecidePermission { permission, allow, by } => {
                let session = self
                    .questions
                    .get(permission)
                    .ok_or(Refusal::NoSuchPermission { permission: *permission })?;
                self.with_session(session, context, |plan| plan.decide_permission(*permission, *allow, by))
            }
            Command::StartRestore { session, language, candidate, plan } => {
                let state = self.named(session)?;
                if let Some(open) = state.restores.get(language) {
                    let candidate = open.candidate.clone();
                    return Err(Refusal::RestoreUnderWay { session: session.clone(), candidate });
                }
                Ok(Decision::done(alloc::vec![Event::RestoreStarted {
                    session: session.clone(),
                    language: *language,
                    candidate: candidate.clone(),
                    plan: *plan,
                }]))
            }
            Command::PublishRestore { session, language, ordinal } => {
                self.publish_restore(session, *language, *ordinal)
            }
            Command::EndRestore { session, language, outcome, report } => {
                let restore = self.restore(session, *language)?;
                let candidate = restore.candidate.clone();
                let mut events = alloc::vec![Event::RestoreEnded {
                    session: session.clone(),
                    language: *language,
                    candidate: candidate.clone(),
                    outcome: *outcome,
                    report: *report,
                }];
                if self.sessions.contains_key(&candidate) {
                    let reason = "the restore is over";
                    events.extend(self.close(&candidate, &Owner::system(), reason, true, context)?.events);
                }
                Ok(Decision::done(events))
            }
            Command::Tick => Ok(Decision::done(self.tick(context))),
            Command::Settle { session } => self.with_session(session, context, |_| {}),
            Command::Kernel { session, language, generation, report } => {
                self.with_session(self.home(session, *generation), context, |plan| {
                    plan.kernel(*language, *generation, report.clone())
                })
            }
            Command::Execution { session, lease, report } => {
                let next = PermissionId(self.next_permission.0.saturating_add(1));
                let home = self.named(self.home(session, lease.generation))?;
                let mut plan = self.plan(home.clone(), context).asking(next);
                plan.execution(*lease, report.clone());
                let answer = report.call().map(|call| Answer::Call(plan.session().call_reply(*lease, call)));
                Ok(Decision { events: plan.finish(), answer: answer.unwrap_or(Answer::Done) })
            }
        }
    }

    fn named(&self, session: &SessionId) -> Result<&Session, Refusal> {
        self.sessions.get(session).ok_or_else(|| Refusal::NoSuchSession { session: session.clone() })
    }

    fn restore(&self, session: &SessionId, language: Language) -> Result<&Restore, Refusal> {
        let restore = self.named(session)?.restores.get(&language);
        restore.ok_or_else(|| Refusal::NoRestore { session: session.clone() })
    }

    /// The session that a kernel belongs to now; whoever speaks to it may know only the first one.
    fn home<'a>(&'a self, first: &'a SessionId, generation: Generation) -> &'a SessionId {
        self.moved.get(&generation).unwrap_or(first)
    }

    /// Exchanges the kernels of a session and its candidate, when both stand still and nothing ran in
    /// the session meanwhile: what a cell did to the old kernel would be lost.
    fn publish_restore(&self, id: &SessionId, language: Language, ordinal: u64) -> Result<Decision, Refusal> {
        let restore = self.restore(id, language)?;
        if restore.published.is_some() {
            return Ok(Decision::done(Vec::new()));
        }
        let session = self.named(id)?;
        let candidate = self.named(&restore.candidate)?;
        if session.ordinal != ordinal {
            return Err(Refusal::RestoreOvertaken { session: id.clone() });
        }
        let not_ready = |why: &str| Refusal::RestoreNotReady { session: id.clone(), why: String::from(why) };
        if session.active.is_some() {
            return Err(not_ready("it is running a ticket"));
        }
        if candidate.active.is_some() {
            return Err(not_ready("the candidate is running a ticket"));
        }
        let replaced = match session.slot(language) {
            Slot::Absent { .. } => None,
            Slot::Ready { generation, .. } => Some(*generation),
            Slot::Starting { .. } => return Err(not_ready("its kernel is starting")),
            Slot::Stopping { .. } => return Err(not_ready("its kernel is stopping")),
        };
        let Slot::Ready { generation, .. } = candidate.slot(language) else {
            return Err(not_ready("the candidate has no kernel"));
        };
        Ok(Decision::done(alloc::vec![Event::RestorePublished {
            session: id.clone(),
            language,
            candidate: restore.candidate.clone(),
            generation: *generation,
            replaced,
        }]))
    }

    fn with_session(
        &self,
        session: &SessionId,
        context: Context,
        act: impl FnOnce(&mut Plan<'_>),
    ) -> Result<Decision, Refusal> {
        let mut plan = self.plan(self.named(session)?.clone(), context);
        act(&mut plan);
        Ok(Decision::done(plan.finish()))
    }

    fn submit(&self, submit: &Submit, context: Context) -> Result<Decision, Refusal> {
        if let Some(decision) = self.repeated(submit)? {
            return Ok(decision);
        }
        if !self.admitting() {
            return Err(Refusal::Stopping);
        }
        let existing = self.sessions.get(&submit.session);
        if let Some(closed) = existing.and_then(|session| session.closed.as_ref()) {
            return Err(Refusal::SessionClosed {
                session: submit.session.clone(),
                reason: closed.reason.clone(),
            });
        }
        let waiting = existing.map_or(0, |session| session.queue.len());
        let waiting = u64::try_from(waiting).unwrap_or(u64::MAX);
        if waiting >= self.policy.queue_cap {
            return Err(Refusal::QueueFull {
                session: submit.session.clone(),
                waiting,
                cap: self.policy.queue_cap,
            });
        }
        let after_word = self.predecessor(submit, existing)?;
        let session = existing
            .cloned()
            .unwrap_or_else(|| Session::new(submit.session.clone(), context.now, submit.workspace.clone()));
        let mut plan = self.plan(session, context);
        if existing.is_none() {
            let workspace = submit.workspace.clone();
            plan.push(Event::SessionOpened { session: submit.session.clone(), workspace });
        }
        plan.push(Event::TicketQueued(Box::new(TicketQueued {
            session: submit.session.clone(),
            ticket: submit.ticket,
            owner: submit.owner.clone(),
            language: submit.language,
            work: submit.work.clone(),
            key: submit.key.clone(),
            digest: submit.digest,
            after: submit.after,
            after_word,
            retry_of: submit.retry_of,
            timeouts: submit.timeouts,
            branch: submit.branch.clone(),
            resource_keys: submit.resource_keys.clone(),
            metadata: submit.metadata.clone(),
        })));
        if let Some(analysis) = &submit.analysis {
            plan.push(Event::CellAnalysed {
                session: submit.session.clone(),
                ticket: submit.ticket,
                analyser: analysis.analyser.clone(),
                facts: analysis.facts,
            });
        }
        Ok(Decision {
            events: plan.finish(),
            answer: Answer::Ticket { ticket: submit.ticket, repeated: false },
        })
    }

    /// The first ticket, when a request repeats one by its key; a refusal when it only pretends to.
    fn repeated(&self, submit: &Submit) -> Result<Option<Decision>, Refusal> {
        let by_key = submit.key.as_ref().and_then(|key| {
            let known = self.keys.get(&submit.session).and_then(|keys| keys.get(key)).copied();
            known.or_else(|| {
                let same =
                    |known: &&KnownTicket| known.session == submit.session && known.key.as_ref() == Some(key);
                submit.known.iter().find(same).map(|known| known.ticket)
            })
        });
        if let (Some(ticket), Some(key)) = (by_key, &submit.key) {
            return match self.digest_of(ticket, submit) {
                Some(digest) if digest == submit.digest => Ok(Some(Decision {
                    events: Vec::new(),
                    answer: Answer::Ticket { ticket, repeated: true },
                })),
                Some(_) | None => Err(Refusal::KeyConflict { key: key.clone(), ticket }),
            };
        }
        if self.digest_of(submit.ticket, submit).is_some() {
            return Err(Refusal::DuplicateTicket { ticket: submit.ticket });
        }
        Ok(None)
    }

    fn digest_of(&self, ticket: TicketId, submit: &Submit) -> Option<[u8; 32]> {
        let open = self.session_of(ticket).and_then(|session| session.tickets.get(&ticket));
        open.map(|ticket| ticket.digest)
            .or_else(|| self.recent(ticket).map(|known| known.digest))
            .or_else(|| submit.known.iter().find(|known| known.ticket == ticket).map(|known| known.digest))
    }

    /// How the ticket to follow ended, if it has.
    fn predecessor(&self, submit: &Submit, session: Option<&Session>) -> Result<Option<Word>, Refusal> {
        let Some(after) = submit.after else {
            return Ok(None);
        };
        if session.is_some_and(|session| session.tickets.contains_key(&after)) {
            return Ok(None);
        }
        self.recent(after)
            .or_else(|| submit.known.iter().find(|known| known.ticket == after))
            .filter(|known| known.session == submit.session)
            .map(|known| Some(known.word))
            .ok_or_else(|| Refusal::UnknownPredecessor { after, session: submit.session.clone() })
    }

    fn cancel(&self, cancel: &Cancel, context: Context) -> Result<Decision, Refusal> {
        let Some(session) = self.session_of(cancel.ticket) else {
            return Err(match self.recent(cancel.ticket) {
                Some(known) => Refusal::Ended { ticket: cancel.ticket, word: known.word },
                None => Refusal::NoSuchTicket { ticket: cancel.ticket },
            });
        };
        let Some(ticket) = session.tickets.get(&cancel.ticket) else {
            return Err(Refusal::NoSuchTicket { ticket: cancel.ticket });
        };
        if ticket.owner != cancel.owner {
            return Err(Refusal::NotOwner { ticket: cancel.ticket, asked: cancel.owner.clone() });
        }
        // A natural result that has arrived wins over whoever comes later.
        if let Some(drain) = session.drain().filter(|drain| drain.lease.ticket == ticket.id) {
            return Err(Refusal::Ended { ticket: ticket.id, word: drain.word });
        }
        let is_active = session.active.as_ref().is_some_and(|cell| cell.ticket == ticket.id);
        let run = session.run().filter(|run| run.lease.ticket == ticket.id);
        match cancel.reach {
            Reach::Queued if is_active => return Err(Refusal::NotQueued { ticket: ticket.id }),
            // There is nothing to interrupt before a cell was sent, and nothing to take back from a
            // kernel that stops.
            Reach::Interrupt if run.is_none() => return Err(Refusal::NotRunning { ticket: ticket.id }),
            Reach::Queued | Reach::Interrupt | Reach::Full => {}
        }
        let climbing = run.and_then(|run| run.rung.cause());
        let escalates =
            cancel.reach == Reach::Full && run.is_some() && matches!(climbing, None | Some(Cause::Interrupt));
        if let Some(first) = &ticket.cancel
            && !escalates
        {
            let answer = CancelAnswer::AlreadyRequested { reason: first.reason.clone() };
            return Ok(Decision { events: Vec::new(), answer: Answer::Cancel(answer) });
        }
        let first_request = ticket.cancel.is_none();
        let mut plan = self.plan(session.clone(), context);
        if first_request {
            plan.push(Event::CancelRequested {
                session: session.id.clone(),
                ticket: cancel.ticket,
                by: cancel.owner.clone(),
                reason: cancel.reason.clone(),
            });
        }
        let answer = if is_active {
            let answer = match session.active.as_ref().map(|cell| &cell.phase) {
                Some(Phase::Underway(_)) => CancelAnswer::Interrupting,
                Some(Phase::StopAwaited) => CancelAnswer::CannotStop,
                Some(Phase::Admitted | Phase::StartAwaited | Phase::Draining(_)) | None => {
                    CancelAnswer::StoppedBeforeStart
                }
            };
            match cancel.reach {
                // A ladder that is being climbed already has sent its interrupt and is not set back.
                Reach::Interrupt if climbing.is_some() => {}
                Reach::Interrupt => plan.begin_ladder(Cause::Interrupt),
                Reach::Full | Reach::Queued => plan.cancel_active(),
            }
            answer
        } else {
            plan.end(cancel.ticket, EndCause::CancelledBeforeStart, Executed::No);
            CancelAnswer::Dequeued
        };
        Ok(Decision { events: plan.finish(), answer: Answer::Cancel(answer) })
    }

    fn pause(&self, session: Option<&SessionId>, by: &Owner) -> Result<Decision, Refusal> {
        let Some(id) = session else {
            let events = match self.paused {
                Some(_) => Vec::new(),
                None => alloc::vec![Event::AllPaused { by: by.clone() }],
            };
            return Ok(Decision::done(events));
        };
        let session = self.named(id)?;
        let events = match session.paused {
            Some(_) => Vec::new(),
            None => alloc::vec![Event::SessionPaused { session: id.clone(), by: by.clone() }],
        };
        Ok(Decision::done(events))
    }

    fn resume(&self, session: Option<&SessionId>, by: &Owner, context: Context) -> Result<Decision, Refusal> {
        let Some(id) = session else {
            if self.paused.is_none() {
                return Ok(Decision::done(Vec::new()));
            }
            let gates = Gates { paused: false, ..self.gates() };
            let mut events = alloc::vec![Event::AllResumed { by: by.clone() }];
            let mut next_generation = self.next_generation;
            for session in self.sessions.values().filter(|session| !session.queue.is_empty()) {
                let plan = Plan::new(session.clone(), &self.policy, gates, context, next_generation);
                let decided = plan.finish();
                next_generation = after(next_generation, &decided);
                events.extend(decided);
            }
            return Ok(Decision::done(events));
        };
        let paused = self.sessions.get(id).is_some_and(|session| session.paused.is_some());
        self.with_session(id, context, |plan| {
            if paused {
                plan.push(Event::SessionResumed { session: id.clone(), by: by.clone() });
            }
        })
    }

    fn close(
        &self,
        id: &SessionId,
        by: &Owner,
        reason: &str,
        remove: bool,
        context: Context,
    ) -> Result<Decision, Refusal> {
        let session = self.named(id)?;
        let already = session.closed.as_ref().is_some_and(|closed| closed.remove || !remove);
        if already {
            return self.with_session(id, context, |_| {});
        }
        self.with_session(id, context, |plan| {
            plan.push(Event::SessionClosed { session: id.clone(), reason: String::from(reason), remove });
            let waiting: Vec<TicketId> = plan.session().queue.iter().copied().collect();
            for ticket in waiting {
                plan.end(ticket, EndCause::SessionClosed, Executed::No);
            }
            if plan.session().drain().is_none() {
                plan.request_cancel(by, reason);
                plan.cancel_active();
            }
        })
    }

    fn stop_daemon(&self, stop_kernels: bool, context: Context) -> Decision {
        // A second request changes nothing, unless it asks for more than the first.
        let asks_for_more = match self.gate {
            Gate::Unattended | Gate::Open => true,
            Gate::Stopping { stop_kernels: already } => stop_kernels && !already,
        };
        if !asks_for_more {
            return Decision::done(Vec::new());
        }
        let mut events = alloc::vec![Event::DaemonStopping { stop_kernels }];
        if stop_kernels {
            let gates = Gates { admitting: false, stop_kernels, ..self.gates() };
            for session in self.sessions.values() {
                let mut plan = Plan::new(session.clone(), &self.policy, gates, context, self.next_generation);
                if plan.session().run().is_some() {
                    plan.request_cancel(&Owner::system(), "the daemon stops and takes its kernels with it");
                    plan.cancel_active();
                }
                events.extend(plan.finish());
            }
        }
        Decision::done(events)
    }

    /// Goes through the sessions whose time has come.
    fn tick(&self, mut context: Context) -> Vec<Event> {
        let now = context.now.mono;
        let mut events = Vec::new();
        let mut next_generation = self.next_generation;
        let gates = self.gates();
        for (_, id) in self.deadlines.iter().take_while(|(at, _)| *at <= now) {
            let Some(session) = self.sessions.get(id) else {
                continue;
            };
            let mut plan = Plan::new(session.clone(), &self.policy, gates, context, next_generation);
            plan.tick();
            let (decided, rest) = plan.finish_with_context();
            context = rest;
            next_generation = after(next_generation, &decided);
            events.extend(decided);
        }
        events
    }

    /// Folds one fact.
    pub fn apply(&mut self, now: Stamp, event: &Event) {
        if now.wall < self.last_wall {
            self.wall_steps_back = self.wall_steps_back.saturating_add(1);
        }
        self.last_wall = now.wall;
        match event {
            Event::DaemonStarted(started) => {
                self.policy = started.policy.clone();
                self.gate = Gate::Open;
                self.starts = self.starts.saturating_add(1);
                self.clock =
                    Some(ClockBase { boot: started.boot.clone(), uptime: started.uptime, mono: now.mono });
                self.renew(now);
            }
            Event::DaemonStopping { stop_kernels } => {
                self.gate = Gate::Stopping { stop_kernels: *stop_kernels };
            }
            Event::AllPaused { by } => self.paused = Some(by.clone()),
            Event::AllResumed { .. } => self.paused = None,
            Event::SessionOpened { session, workspace } => {
                let fresh = Session::new(session.clone(), now, workspace.clone());
                if self.sessions.insert(session.clone(), fresh).is_some() {
                    self.anomalies = self.anomalies.saturating_add(1);
                }
            }
            Event::SessionRemoved { session } => self.remove(session),
            Event::RestorePublished { session, language, candidate, generation, replaced } => {
                self.exchange(session, candidate, *language);
                self.moved.insert(*generation, session.clone());
                if let Some(replaced) = replaced {
                    self.moved.insert(*replaced, candidate.clone());
                }
                self.apply_to_session(now, event);
                self.change(candidate, Session::set_deadline);
            }
            Event::KernelGone { generation, .. } => {
                self.moved.remove(generation);
                self.apply_to_session(now, event);
            }
            Event::TicketQueued(queued) => {
                self.index_queued(queued);
                self.apply_to_session(now, event);
            }
            Event::TicketEnded(ended) => {
                self.index_ended(ended);
                self.apply_to_session(now, event);
            }
            Event::KernelStarting { generation, .. } => {
                self.next_generation = self.next_generation.max(Generation(generation.0.saturating_add(1)));
                self.apply_to_session(now, event);
            }
            Event::PermissionProposed { permission, session, .. } => {
                self.next_permission = self.next_permission.max(*permission);
                self.questions.insert(*permission, session.clone());
                self.apply_to_session(now, event);
            }
            Event::PermissionDecided { permission, .. } | Event::PermissionExpired { permission, .. } => {
                self.questions.remove(permission);
                self.apply_to_session(now, event);
            }
            Event::SessionPaused { .. }
            | Event::SessionResumed { .. }
            | Event::SessionClosed { .. }
            | Event::TicketAdmitted { .. }
            | Event::CancelRequested { .. }
            | Event::CellClosed { .. }
            | Event::KernelReady { .. }
            | Event::KernelStartFailed { .. }
            | Event::KernelStopRequested { .. }
            | Event::KernelReattached { .. }
            | Event::ExecuteRequested { .. }
            | Event::ExecuteAcknowledged { .. }
            | Event::ResultReceived { .. }
            | Event::OutputKept { .. }
            | Event::ActivityNoted { .. }
            | Event::CellAnalysed { .. }
            | Event::RestoreStarted { .. }
            | Event::RestoreEnded { .. }
            | Event::LadderStarted { .. }
            | Event::InterruptRequested { .. }
            | Event::InterruptAnswered { .. }
            | Event::KillRequested { .. }
            | Event::GroupStopped { .. }
            | Event::LadderEnded { .. }
            | Event::HostCallStarted(_)
            | Event::HostCallDispatched { .. }
            | Event::HostCallAnswered { .. }
            | Event::HostCallCancelRequested { .. }
            | Event::CellDraining { .. }
            | Event::CapabilityGranted { .. }
            | Event::CapabilityConsumed { .. }
            | Event::CapabilityReported { .. }
            | Event::CapabilityVoided { .. }
            | Event::OutputSubmitted { .. }
            | Event::ArtifactSaved { .. }
            | Event::DocumentWritten { .. }
            | Event::OutputObserved { .. } => self.apply_to_session(now, event),
        }
    }

    /// The kernel of each becomes that of the other.
    fn exchange(&mut self, one: &SessionId, other: &SessionId, language: Language) {
        let mut part = |id: &SessionId| {
            let session = self.sessions.get_mut(id)?;
            let slot = session.slots.remove(&language).unwrap_or_default();
            Some((slot, session.unattached.remove(&language)))
        };
        let (first, second) = (part(one), part(other));
        for (id, part) in [(one, second), (other, first)] {
            let (Some(session), Some((slot, unattached))) = (self.sessions.get_mut(id), part) else {
                self.anomalies = self.anomalies.saturating_add(1);
                continue;
            };
            session.slots.insert(language, slot);
            if unattached {
                session.unattached.insert(language);
            }
        }
    }

    fn apply_to_session(&mut self, now: Stamp, event: &Event) {
        let apply = |session: &mut Session, policy: &Policy| session.apply(now, event, policy);
        if !event.session().is_some_and(|id| self.change(id, apply)) {
            self.anomalies = self.anomalies.saturating_add(1);
        }
    }

    /// Changes a session and keeps the index of deadlines with it; says whether it is there.
    fn change(&mut self, id: &SessionId, change: impl FnOnce(&mut Session, &Policy)) -> bool {
        let Some(session) = self.sessions.get_mut(id) else { return false };
        let before = session.deadline;
        change(session, &self.policy);
        if session.deadline != before {
            if let Some(at) = before {
                self.deadlines.remove(&(at, session.id.clone()));
            }
            if let Some(at) = session.deadline {
                self.deadlines.insert((at, session.id.clone()));
            }
        }
        true
    }

    /// A daemon is there again: what it waits for from outside gets its time anew.
    fn renew(&mut self, now: Stamp) {
        self.deadlines.clear();
        for session in self.sessions.values_mut() {
            session.renew(now, &self.policy);
            if let Some(at) = session.deadline {
                self.deadlines.insert((at, session.id.clone()));
            }
        }
    }

    fn remove(&mut self, id: &SessionId) {
        let Some(session) = self.sessions.remove(id) else {
            self.anomalies = self.anomalies.saturating_add(1);
            return;
        };
        if let Some(at) = session.deadline {
            self.deadlines.remove(&(at, id.clone()));
        }
        self.anomalies = self.anomalies.saturating_add(session.anomalies);
        for permission in session.permissions.keys() {
            self.questions.remove(permission);
        }
        for ticket in session.tickets.keys() {
            self.open.remove(ticket);
            self.anomalies = self.anomalies.saturating_add(1);
        }
    }

    fn index_queued(&mut self, queued: &TicketQueued) {
        if self.open.insert(queued.ticket, queued.session.clone()).is_some() {
            self.anomalies = self.anomalies.saturating_add(1);
        }
        if let Some(key) = &queued.key {
            let keys = self.keys.entry(queued.session.clone()).or_default();
            keys.insert(key.clone(), queued.ticket);
        }
    }

    fn index_ended(&mut self, ended: &TicketEnded) {
        let ticket = self
            .open
            .remove(&ended.ticket)
            .and_then(|session| self.sessions.get(&session))
            .and_then(|session| session.tickets.get(&ended.ticket));
        let known = KnownTicket {
            ticket: ended.ticket,
            session: ended.session.clone(),
            key: ticket.and_then(|ticket| ticket.key.clone()),
            digest: ticket.map(|ticket| ticket.digest).unwrap_or_default(),
            word: ended.word,
        };
        self.recent_by_ticket.insert(ended.ticket, known.clone());
        self.recent.push_back(known);
        while u64::try_from(self.recent.len()).unwrap_or(u64::MAX) > self.policy.recent {
            let Some(oldest) = self.recent.pop_front() else {
                break;
            };
            self.recent_by_ticket.remove(&oldest.ticket);
            if let (Some(key), Some(keys)) = (&oldest.key, self.keys.get_mut(&oldest.session)) {
                if keys.get(key) == Some(&oldest.ticket) {
                    keys.remove(key);
                }
                if keys.is_empty() {
                    self.keys.remove(&oldest.session);
                }
            }
        }
    }

    /// What a fact obliges us to do. Asked of the world after the whole decision was folded.
    #[must_use]
    pub fn effects(&self, event: &Event) -> Vec<Effect> {
        match event {
            Event::KernelStarting { session, language, generation, .. } => alloc::vec![Effect::StartKernel {
                session: session.clone(),
                language: *language,
                generation: *generation,
            }],
            Event::ExecuteRequested { session, lease, ordinal, .. } => {
                let session = self.sessions.get(session);
                session.and_then(|session| session.send_execute(*lease, *ordinal)).into_iter().collect()
            }
            Event::InterruptRequested { session, lease, attempt } => alloc::vec![Effect::SendInterrupt {
                session: session.clone(),
                lease: *lease,
                attempt: *attempt,
            }],
            Event::KillRequested { session, lease } => {
                let grace =
                    self.sessions.get(session).map_or(self.policy.kill_grace, |s| s.kill_grace(&self.policy));
                alloc::vec![Effect::StopGroup { session: session.clone(), lease: *lease, grace }]
            }
            Event::KernelStopRequested { session, language, generation, .. } => {
                alloc::vec![Effect::StopKernel {
                    session: session.clone(),
                    language: *language,
                    generation: *generation,
                    grace: self.policy.kill_grace,
                }]
            }
            Event::ResultReceived { session, lease, .. } | Event::OutputKept { session, lease, .. } => {
                alloc::vec![Effect::ReleaseResult { session: session.clone(), lease: *lease }]
            }
            Event::KernelReattached { session, generation, .. } => self.unanswered(session, *generation),
            Event::HostCallDispatched { session, lease, call } => {
                alloc::vec![Effect::PerformHostCall { session: session.clone(), lease: *lease, call: *call }]
            }
            Event::HostCallCancelRequested { session, lease, call } => {
                alloc::vec![Effect::CancelHostCall { session: session.clone(), lease: *lease, call: *call }]
            }
            Event::HostCallAnswered { session, lease, call, outcome, .. } => {
                alloc::vec![Effect::AnswerHostCall {
                    session: session.clone(),
                    lease: *lease,
                    call: *call,
                    outcome: outcome.clone(),
                }]
            }
            // Its answer may only be late: nothing of it is to stay behind.
            Event::KernelStartFailed { session, language, generation, .. } => {
                alloc::vec![Effect::StopKernel {
                    session: session.clone(),
                    language: *language,
                    generation: *generation,
                    grace: self.policy.kill_grace,
                }]
            }
            Event::DaemonStarted(_)
            | Event::DaemonStopping { .. }
            | Event::SessionOpened { .. }
            | Event::SessionPaused { .. }
            | Event::SessionResumed { .. }
            | Event::SessionClosed { .. }
            | Event::SessionRemoved { .. }
            | Event::AllPaused { .. }
            | Event::AllResumed { .. }
            | Event::TicketQueued(_)
            | Event::TicketAdmitted { .. }
            | Event::CancelRequested { .. }
            | Event::TicketEnded(_)
            | Event::CellClosed { .. }
            | Event::KernelReady { .. }
            | Event::KernelGone { .. }
            | Event::ExecuteAcknowledged { .. }
            | Event::ActivityNoted { .. }
            | Event::CellAnalysed { .. }
            | Event::RestoreStarted { .. }
            | Event::RestorePublished { .. }
            | Event::RestoreEnded { .. }
            | Event::LadderStarted { .. }
            | Event::InterruptAnswered { .. }
            | Event::GroupStopped { .. }
            | Event::LadderEnded { .. }
            | Event::PermissionProposed { .. }
            | Event::PermissionDecided { .. }
            | Event::PermissionExpired { .. }
            | Event::HostCallStarted(_)
            | Event::CellDraining { .. }
            | Event::CapabilityGranted { .. }
            | Event::CapabilityConsumed { .. }
            | Event::CapabilityReported { .. }
            | Event::CapabilityVoided { .. }
            | Event::OutputSubmitted { .. }
            | Event::ArtifactSaved { .. }
            | Event::DocumentWritten { .. }
            | Event::OutputObserved { .. } => Vec::new(),
        }
    }

    /// What was asked of a supervisor and has no answer yet, to be asked again after a connection
    /// was lost: it answers each request by lease and attempt, and does none of them twice.
    #[must_use]
    pub fn unanswered(&self, session: &SessionId, generation: Generation) -> Vec<Effect> {
        let session = self.sessions.get(session);
        session.map(|session| session.unanswered(generation, &self.policy)).unwrap_or_default()
    }

    /// What a restart must look at again: every kernel that should be there. Each is answered by
    /// `Reattached` or `Gone`, and then each session by `Settle`.
    #[must_use]
    pub fn in_flight(&self) -> Vec<Obligation> {
        let mut obligations = Vec::new();
        for session in self.sessions.values() {
            for (language, slot) in &session.slots {
                let Some(generation) = slot.generation() else {
                    continue;
                };
                obligations.push(Obligation {
                    session: session.id.clone(),
                    language: *language,
                    generation,
                    lease: session.run().map(|run| run.lease).filter(|lease| lease.generation == generation),
                    ready: !matches!(slot, Slot::Starting { .. }),
                });
            }
        }
        obligations
    }

    /// What must hold after any event; the sentence names what does not.
    ///
    /// # Errors
    /// The broken rule.
    pub fn check(&self) -> Result<(), String> {
        use alloc::format;
        let anomalies = self.anomalies();
        if anomalies > 0 {
            return Err(format!("{anomalies} facts did not fit the state they met"));
        }
        let mut open = 0usize;
        for (id, session) in &self.sessions {
            open = open.saturating_add(session.tickets.len());
            if *id != session.id {
                return Err(format!("session {id} is filed under another name"));
            }
            let active = session.active.as_ref().map(|cell| cell.ticket);
            let listed = session.queue.len().saturating_add(usize::from(active.is_some()));
            if listed != session.tickets.len() {
                return Err(format!("session {id} has tickets that neither wait nor run"));
            }
            if active.is_some_and(|active| session.queue.contains(&active)) {
                return Err(format!("the active ticket of session {id} also waits"));
            }
            if session.calls.values().any(|call| Some(call.lease) != session.lease()) {
                return Err(format!("session {id} has calls of a cell that is over"));
            }
            if !session.capabilities.is_empty() && session.lease().is_none() {
                return Err(format!("session {id} has capabilities of a cell that is over"));
            }
            if session.drain().is_some() && session.calls.is_empty() {
                return Err(format!("the cell of session {id} waits for calls that it does not have"));
            }
            if let Some(run) = session.run() {
                let language = session.active_ticket().map(|ticket| ticket.language);
                let slot = language.map(|language| session.slot(language));
                let held = slot.is_some_and(|slot| slot.generation() == Some(run.lease.generation));
                if !held && !matches!(run.rung, Rung::Stopped { .. }) {
                    return Err(format!("the cell of session {id} runs under a lease that nobody holds"));
                }
            }
            if session.deadline.is_some_and(|at| !self.deadlines.contains(&(at, id.clone()))) {
                return Err(format!("the deadline of session {id} is not in the index"));
            }
        }
        let timed = self.sessions.values().filter(|session| session.deadline.is_some()).count();
        if timed != self.deadlines.len() {
            return Err(format!("{timed} sessions have a deadline and {} are indexed", self.deadlines.len()));
        }
        let asked: usize = self.sessions.values().map(|session| session.permissions.len()).sum();
        if asked != self.questions.len() {
            return Err(format!("{asked} questions are open and {} are indexed", self.questions.len()));
        }
        if open != self.open.len() {
            return Err(format!("{open} tickets are open and {} are indexed", self.open.len()));
        }
        if self.recent.len() != self.recent_by_ticket.len() {
            return Err(String::from("the memory of ended tickets and its index differ"));
        }
        Ok(())
    }
}

/// The next free generation after these events.
fn after(next: Generation, events: &[Event]) -> Generation {
    events.iter().fold(next, |next, event| {
        if let Event::KernelStarting { generation, .. } = event {
            next.max(Generation(generation.0.saturating_add(1)))
        } else {
            next
        }
    })
}
