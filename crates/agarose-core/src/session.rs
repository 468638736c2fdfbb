//! A session: one FIFO of tickets, one active cell, one slot per language.
//!
//! [`Session`] folds the events that name it. [`Plan`](crate::plan::Plan) decides what comes next.

use alloc::{
    boxed::Box,
    collections::{BTreeMap, BTreeSet, VecDeque},
    format,
    string::String,
    vec::Vec,
};

use serde::{Deserialize, Serialize};

use crate::{
    attempt::Word,
    capability::{Capability, CapabilityId, VoidReason},
    cell::{Cell, Drain, Phase, Run},
    effect::Effect,
    event::{Event, HostCallStarted, TicketEnded, TicketQueued},
    host_call::{CallId, CallOutcome, HostCall, Standing},
    id::{BlobRef, Generation, Language, Lease, Owner, SessionId, TicketId},
    permission::{Permission, PermissionId},
    slot::Slot,
    ticket::{Cancel, Ticket, Timeouts, Work},
    time::{Millis, Stamp},
    watchdog::{Budget, Cause, LadderEnd, Rung, Verdict},
    world::{CallReply, Policy},
};

/// One queue, its active cell and its kernels.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Session {
    /// Its name.
    pub id: SessionId,
    /// Since when it exists.
    pub opened: Stamp,
    /// The directory that its cells run in, when the first request named one.
    pub workspace: Option<String>,
    /// The open tickets.
    pub tickets: BTreeMap<TicketId, Ticket>,
    /// Those that wait, in the order in which they were accepted.
    pub queue: VecDeque<TicketId>,
    /// The one that was admitted.
    pub active: Option<Cell>,
    /// Its kernels.
    pub slots: BTreeMap<Language, Slot>,
    /// Who paused it.
    pub paused: Option<Owner>,
    /// Whether and why it refuses new work.
    pub closed: Option<Closed>,
    /// How many cells it has sent.
    pub ordinal: u64,
    /// The questions that wait for an answer.
    pub permissions: BTreeMap<PermissionId, Permission>,
    /// Facts that did not fit the state they met. Never more than zero in a log of ours.
    pub anomalies: u64,
    /// The namespaces that are being built anew.
    pub restores: BTreeMap<Language, Restore>,
    /// What the active cell has asked its host for and has no answer to.
    pub calls: BTreeMap<CallId, HostCall>,
    /// The last call that was answered, should its answer not have arrived.
    pub(crate) last_answer: Option<LastAnswer>,
    /// What the active cell may run once.
    pub capabilities: BTreeMap<CapabilityId, Capability>,
    /// The documents that its cells have written.
    pub documents: BTreeMap<String, Document>,
    /// The kernels of an earlier daemon that nobody has spoken to since.
    pub(crate) unattached: BTreeSet<Language>,
    /// When the driver has to look at it again; derived.
    pub(crate) deadline: Option<u64>,
}

/// A session that refuses new work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Closed {
    /// Why.
    pub reason: String,
    /// Whether its name is freed when the last work is gone.
    pub remove: bool,
}

/// A document that cells of a session write: its plan, for example.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Document {
    /// How often it was written.
    pub version: u64,
    /// What it holds.
    pub content: BlobRef,
}

/// The answer of a call that is not open any more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastAnswer {
    /// Who had asked.
    pub lease: Lease,
    /// Which call.
    pub call: CallId,
    /// How it ended.
    pub outcome: CallOutcome,
    /// The answer, when it was kept.
    pub answer: Option<BlobRef>,
}

/// A namespace that is being built anew.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Restore {
    /// The session in which it is built.
    pub candidate: SessionId,
    /// What is run.
    pub plan: BlobRef,
    /// The life that the session got from it, once it has.
    pub published: Option<Generation>,
}

/// How long an interrupt's verdict is awaited before nobody is taken to have been reached.
const VERDICT_WAIT: Millis = Millis(5_000);
/// How long beyond both graces the answer to a stop is awaited.
const STOP_MARGIN: Millis = Millis(5_000);

impl Session {
    pub(crate) const fn new(id: SessionId, opened: Stamp, workspace: Option<String>) -> Self {
        Self {
            id,
            opened,
            workspace,
            tickets: BTreeMap::new(),
            queue: VecDeque::new(),
            active: None,
            slots: BTreeMap::new(),
            paused: None,
            closed: None,
            ordinal: 0,
            permissions: BTreeMap::new(),
            anomalies: 0,
            restores: BTreeMap::new(),
            calls: BTreeMap::new(),
            last_answer: None,
            capabilities: BTreeMap::new(),
            documents: BTreeMap::new(),
            unattached: BTreeSet::new(),
            deadline: None,
        }
    }

    /// Where a ticket stands: 0 when it is the active one, from 1 on while it waits.
    #[must_use]
    pub fn position(&self, ticket: TicketId) -> Option<u64> {
        if self.active.as_ref().is_some_and(|cell| cell.ticket == ticket) {
            return Some(0);
        }
        let index = self.queue.iter().position(|waiting| *waiting == ticket)?;
        u64::try_from(index).ok().map(|index| index.saturating_add(1))
    }

    /// The slot of a language.
    #[must_use]
    pub fn slot(&self, language: Language) -> &Slot {
        const ABSENT: &Slot = &Slot::Absent { previous: None };
        self.slots.get(&language).unwrap_or(ABSENT)
    }

    /// The active ticket.
    #[must_use]
    pub fn active_ticket(&self) -> Option<&Ticket> {
        self.active.as_ref().and_then(|cell| self.tickets.get(&cell.ticket))
    }

    /// The execution that was sent and has no last word.
    #[must_use]
    pub fn run(&self) -> Option<&Run> {
        self.active.as_ref().and_then(Cell::run)
    }

    /// The execution that has ended and whose last word waits for its calls.
    #[must_use]
    pub fn drain(&self) -> Option<&Drain> {
        self.active.as_ref().and_then(Cell::drain)
    }

    /// The lease of the cell that may speak to its host: it runs, or its calls are being ended.
    #[must_use]
    pub fn lease(&self) -> Option<Lease> {
        self.run().map(|run| run.lease).or_else(|| self.drain().map(|drain| drain.lease))
    }

    /// Where a call stands, for whoever waits for its answer.
    pub(crate) fn call_reply(&self, lease: Lease, call: CallId) -> CallReply {
        if self.calls.get(&call).is_some_and(|open| open.lease == lease) {
            return CallReply::Open;
        }
        match &self.last_answer {
            Some(last) if last.lease == lease && last.call == call => {
                CallReply::Answered { outcome: last.outcome.clone(), answer: last.answer }
            }
            // Calls of one worker come one after another: whoever asks for an earlier one has gone on.
            Some(_) | None => CallReply::Stale,
        }
    }

    /// The execution, if it runs under exactly this lease.
    #[must_use]
    pub fn run_under(&self, lease: Lease) -> Option<&Run> {
        self.run().filter(|run| run.lease == lease)
    }

    /// How long TERM and then KILL are waited for when the active cell is stopped.
    pub(crate) fn kill_grace(&self, policy: &Policy) -> Millis {
        self.active_timeouts().kill_grace.unwrap_or(policy.kill_grace)
    }

    fn active_timeouts(&self) -> Timeouts {
        self.active_ticket().map(|ticket| ticket.timeouts).unwrap_or_default()
    }

    fn run_mut_under(&mut self, lease: Lease) -> Option<&mut Run> {
        let run = self.active.as_mut().and_then(Cell::run_mut).filter(|run| run.lease == lease);
        if run.is_none() {
            self.anomalies = self.anomalies.saturating_add(1);
        }
        run
    }

    /// Folds one fact. A fact that does not fit is counted and otherwise left alone.
    pub(crate) fn apply(&mut self, now: Stamp, event: &Event, policy: &Policy) {
        if !self.fold(now, event, policy) {
            self.anomalies = self.anomalies.saturating_add(1);
        }
        self.deadline = self.earliest_deadline(policy);
    }

    fn fold(&mut self, now: Stamp, event: &Event, policy: &Policy) -> bool {
        match event {
            Event::DaemonStarted(_)
            | Event::DaemonStopping { .. }
            | Event::AllPaused { .. }
            | Event::AllResumed { .. } => false,
            Event::SessionOpened { .. } | Event::SessionRemoved { .. } => true,
            Event::CellAnalysed { ticket, .. } => self.tickets.contains_key(ticket),
            Event::RestoreStarted { language, candidate, plan, .. } => {
                let restore = Restore { candidate: candidate.clone(), plan: *plan, published: None };
                self.restores.insert(*language, restore).is_none()
            }
            // The kernels are exchanged where both sessions are: in the world.
            Event::RestorePublished { language, generation, .. } => {
                let Some(restore) = self.restores.get_mut(language) else { return false };
                restore.published = Some(*generation);
                true
            }
            Event::RestoreEnded { language, .. } => self.restores.remove(language).is_some(),
            Event::SessionPaused { by, .. } => {
                self.paused = Some(by.clone());
                true
            }
            Event::SessionResumed { .. } => self.paused.take().is_some(),
            Event::SessionClosed { reason, remove, .. } => {
                let remove = *remove || self.closed.as_ref().is_some_and(|closed| closed.remove);
                let reason = self.closed.take().map_or_else(|| reason.clone(), |closed| closed.reason);
                self.closed = Some(Closed { reason, remove });
                true
            }
            Event::TicketQueued(queued) => self.fold_queued(now, queued),
            Event::TicketAdmitted { ticket, .. } => {
                let is_head = self.queue.front() == Some(ticket) && self.active.is_none();
                if is_head {
                    self.queue.pop_front();
                    self.active =
                        Some(Cell { ticket: *ticket, admitted: now, phase: Phase::Admitted, observed: 0 });
                }
                is_head
            }
            Event::CancelRequested { ticket, by, reason, .. } => {
                let Some(ticket) = self.tickets.get_mut(ticket).filter(|ticket| ticket.cancel.is_none())
                else {
                    return false;
                };
                ticket.cancel = Some(Cancel { by: by.clone(), reason: reason.clone(), at: now });
                true
            }
            Event::TicketEnded(TicketEnded { ticket, word, .. }) => self.fold_ended(now, *ticket, *word),
            Event::CellClosed { ticket, .. } => !self.tickets.contains_key(ticket),
            Event::KernelStarting { language, generation, previous, .. } => {
                self.fold_starting(now, *language, *generation, *previous)
            }
            Event::KernelReady { language, generation, process, .. } => {
                let Slot::Starting { generation: starting, previous, .. } = self.slot(*language) else {
                    return false;
                };
                if starting != generation {
                    return false;
                }
                let ready = Slot::Ready {
                    generation: *generation,
                    previous: *previous,
                    process: process.clone(),
                    used: false,
                    idle_since: now.mono,
                };
                self.slots.insert(*language, ready);
                true
            }
            Event::KernelStartFailed { language, generation, .. }
            | Event::KernelGone { language, generation, .. } => {
                let slot = self.slot(*language);
                if slot.generation() != Some(*generation) {
                    return false;
                }
                let gone = slot.gone();
                self.slots.insert(*language, gone);
                self.unattached.remove(language);
                true
            }
            Event::KernelStopRequested { language, generation, .. } => {
                let until = now.deadline(stop_wait(policy.kill_grace));
                if let Some(cell) = &mut self.active
                    && cell.run().is_none()
                    && cell.drain().is_none()
                    && let Some(ticket) = self.tickets.get(&cell.ticket)
                    && ticket.language == *language
                {
                    // A cell does not wait for a kernel to go, it waits for one to come.
                    cell.phase = match ticket.work {
                        Work::StopKernel | Work::RestartKernel => Phase::StopAwaited,
                        Work::Cell { .. } => Phase::Admitted,
                    };
                }
                self.fold_stopping(*language, *generation, until)
            }
            Event::KernelReattached { language, generation, .. } => {
                let known = self.slot(*language).generation() == Some(*generation);
                self.unattached.remove(language);
                known
            }
            Event::ExecuteRequested { lease, ordinal, .. } => self.fold_execute(now, *lease, *ordinal),
            Event::ExecuteAcknowledged { lease, .. } => {
                let Some(run) = self.run_mut_under(*lease) else {
                    return true;
                };
                run.acknowledged = Some(now);
                run.budget.note_activity(now.mono);
                true
            }
            Event::ResultReceived { lease, .. } | Event::OutputKept { lease, .. } => {
                let Some(run) = self.run_mut_under(*lease) else {
                    return true;
                };
                run.output_kept = true;
                true
            }
            Event::ActivityNoted { lease, at, .. } => {
                let Some(run) = self.run_mut_under(*lease) else {
                    return true;
                };
                run.budget.note_activity(*at);
                true
            }
            Event::LadderStarted { lease, cause, .. } => self.set_rung(*lease, |_| {
                Some(Rung::Interrupting { cause: *cause, until: now.deadline(VERDICT_WAIT) })
            }),
            Event::InterruptRequested { lease, attempt, .. } => {
                let Some(run) = self.run_mut_under(*lease) else {
                    return true;
                };
                run.interrupts = *attempt;
                true
            }
            Event::InterruptAnswered { lease, verdict, .. } => {
                let grace = self.active_timeouts().interrupt_grace.unwrap_or(policy.interrupt_grace);
                match verdict {
                    Verdict::Delivered => self.set_rung(*lease, |rung| {
                        rung.cause().map(|cause| Rung::Grace { cause, until: now.deadline(grace) })
                    }),
                    Verdict::ReachedNobody { .. } => true,
                }
            }
            Event::KillRequested { lease, .. } => {
                let until = now.deadline(stop_wait(self.kill_grace(policy)));
                let language = self.active_ticket().map(|ticket| ticket.language);
                let stopping =
                    language.is_some_and(|language| self.fold_stopping(language, lease.generation, until));
                stopping
                    && self.set_rung(*lease, |rung| rung.cause().map(|cause| Rung::Killing { cause, until }))
            }
            Event::GroupStopped { lease, outcome, .. } => self.set_rung(*lease, |rung| {
                rung.cause().map(|cause| Rung::Stopped { cause, group: outcome.clone(), replacement: None })
            }),
            Event::LadderEnded { lease, end, .. } => match end {
                LadderEnd::Ignored => self.set_rung(*lease, |_| Some(Rung::Waiting)),
                LadderEnd::Finished | LadderEnd::Stopped(_) => true,
            },
            Event::PermissionProposed { permission, ticket, method, detail, expires, .. } => {
                let question = Permission {
                    id: *permission,
                    session: self.id.clone(),
                    ticket: *ticket,
                    method: method.clone(),
                    detail: detail.clone(),
                    since: now.wall,
                    expires: *expires,
                };
                self.permissions.insert(*permission, question);
                if let Some(run) = self.active.as_mut().and_then(Cell::run_mut)
                    && Some(run.lease.ticket) == *ticket
                {
                    run.budget.freeze(now, *permission);
                }
                true
            }
            Event::PermissionDecided { permission, .. } | Event::PermissionExpired { permission, .. } => {
                if let Some(run) = self.active.as_mut().and_then(Cell::run_mut) {
                    run.budget.thaw(now, *permission);
                }
                self.permissions.remove(permission).is_some()
            }
            Event::HostCallStarted(started) => self.fold_called(now, started),
            Event::HostCallDispatched { call, lease, .. } => self.fold_dispatched(*call, *lease),
            Event::HostCallCancelRequested { call, .. } => self.calls.contains_key(call),
            Event::HostCallAnswered { call, lease, outcome, answer, .. } => {
                let known = self.calls.remove(call).is_some();
                self.last_answer = Some(LastAnswer {
                    lease: *lease,
                    call: *call,
                    outcome: outcome.clone(),
                    answer: *answer,
                });
                if let Some(run) = self.active.as_mut().and_then(Cell::run_mut) {
                    run.budget.note_activity(now.mono);
                }
                known
            }
            Event::CellDraining { lease, word, executed, cause, until, .. } => {
                let Some(cell) = self.active.as_mut().filter(|cell| cell.ticket == lease.ticket) else {
                    return false;
                };
                cell.phase = Phase::Draining(Box::new(Drain {
                    lease: *lease,
                    word: *word,
                    executed: *executed,
                    cause: cause.clone(),
                    until: *until,
                }));
                true
            }
            Event::CapabilityGranted { grant, .. } => {
                let fresh = Capability { grant: (**grant).clone(), consumed: false, void: false };
                self.capabilities.insert(grant.capability, fresh).is_none()
            }
            Event::CapabilityConsumed { capability, .. } => {
                let Some(capability) = self.capabilities.get_mut(capability) else { return false };
                let unspent = !capability.consumed;
                capability.consumed = true;
                unspent
            }
            Event::CapabilityReported { capability, .. } | Event::CapabilityVoided { capability, .. } => {
                self.capabilities.remove(capability).is_some()
            }
            Event::OutputSubmitted { .. } | Event::ArtifactSaved { .. } => true,
            Event::DocumentWritten { name, version, content, .. } => {
                let document = Document { version: *version, content: *content };
                self.documents.insert(name.clone(), document);
                true
            }
            Event::OutputObserved { ticket, through, .. } => {
                // Whoever observed it may be told later than the cell has ended.
                if let Some(cell) = self.active.as_mut().filter(|cell| cell.ticket == *ticket) {
                    cell.observed = cell.observed.max(*through);
                }
                true
            }
        }
    }

    fn fold_called(&mut self, now: Stamp, started: &HostCallStarted) -> bool {
        let standing = started.permission.map_or(Standing::Open, Standing::Asked);
        let call = HostCall {
            lease: started.lease,
            method: started.method.clone(),
            since: now.mono,
            repeatable: started.repeatable,
            standing,
        };
        if let Some(run) = self.active.as_mut().and_then(Cell::run_mut) {
            run.budget.note_activity(now.mono);
        }
        self.calls.insert(started.call, call).is_none() && self.lease() == Some(started.lease)
    }

    fn fold_dispatched(&mut self, call: CallId, lease: Lease) -> bool {
        let Some(call) = self.calls.get_mut(&call).filter(|call| call.lease == lease) else {
            return false;
        };
        let again = matches!(call.standing, Standing::Dispatched { orphaned: false });
        call.standing = Standing::Dispatched { orphaned: false };
        !again
    }

    fn fold_queued(&mut self, now: Stamp, queued: &TicketQueued) -> bool {
        let ticket = Ticket {
            id: queued.ticket,
            owner: queued.owner.clone(),
            language: queued.language,
            work: queued.work.clone(),
            key: queued.key.clone(),
            digest: queued.digest,
            after: queued.after.map(|after| (after, queued.after_word)),
            timeouts: queued.timeouts,
            branch: queued.branch.clone(),
            resource_keys: queued.resource_keys.clone(),
            queued: now,
            cancel: None,
        };
        let fresh = self.tickets.insert(queued.ticket, ticket).is_none();
        if fresh {
            self.queue.push_back(queued.ticket);
        }
        fresh
    }

    fn fold_ended(&mut self, now: Stamp, ticket: TicketId, word: Word) -> bool {
        let Some(ended) = self.tickets.remove(&ticket) else {
            return false;
        };
        self.queue.retain(|waiting| *waiting != ticket);
        if self.active.as_ref().is_some_and(|cell| cell.ticket == ticket) {
            self.active = None;
        }
        // Idle begins when nobody wants it any more; whoever cancels its stop keeps it as long again.
        if let Some(Slot::Ready { idle_since, .. }) = self.slots.get_mut(&ended.language) {
            *idle_since = now.mono;
        }
        for waiting in self.tickets.values_mut() {
            if let Some((after, known)) = &mut waiting.after
                && *after == ticket
            {
                *known = Some(word);
            }
        }
        true
    }

    fn fold_starting(
        &mut self,
        now: Stamp,
        language: Language,
        generation: Generation,
        previous: Option<Generation>,
    ) -> bool {
        if !self.slot(language).is_absent() {
            return false;
        }
        self.slots.insert(language, Slot::Starting { generation, previous, since: now.mono });
        if let Some(cell) = &mut self.active {
            match &mut cell.phase {
                Phase::Underway(run) => {
                    let Rung::Stopped { replacement, .. } = &mut run.rung else { return false };
                    *replacement = Some(generation);
                }
                Phase::Admitted | Phase::StopAwaited | Phase::StartAwaited => {
                    cell.phase = Phase::StartAwaited;
                }
                Phase::Draining(_) => return false,
            }
        }
        true
    }

    fn fold_stopping(&mut self, language: Language, generation: Generation, until: u64) -> bool {
        let slot = self.slot(language);
        if slot.generation() != Some(generation) {
            return false;
        }
        let previous = slot.left_behind();
        self.slots.insert(language, Slot::Stopping { generation, previous, until });
        true
    }

    fn fold_execute(&mut self, now: Stamp, lease: Lease, ordinal: u64) -> bool {
        let timeouts = self.active_timeouts();
        let Some(language) = self.active_ticket().map(|ticket| ticket.language) else {
            return false;
        };
        let Some(Slot::Ready { generation, previous, used, idle_since, .. }) = self.slots.get_mut(&language)
        else {
            return false;
        };
        let Some(cell) = self.active.as_mut() else {
            return false;
        };
        if *generation != lease.generation || cell.ticket != lease.ticket || cell.run().is_some() {
            return false;
        }
        *used = true;
        *previous = None;
        *idle_since = now.mono;
        self.ordinal = ordinal;
        let mut budget = Budget::new(now, timeouts);
        for question in self.permissions.values().filter(|question| question.ticket == Some(lease.ticket)) {
            budget.freeze(now, question.id);
        }
        cell.phase = Phase::Underway(Box::new(Run {
            lease,
            ordinal,
            sent: now,
            acknowledged: None,
            budget,
            rung: Rung::Waiting,
            interrupts: 0,
            output_kept: false,
        }));
        true
    }

    /// What a cell's execution asks of its supervisor.
    pub(crate) fn send_execute(&self, lease: Lease, ordinal: u64) -> Option<Effect> {
        let ticket = self.tickets.get(&lease.ticket)?;
        let Work::Cell { source, name } = &ticket.work else {
            return None;
        };
        Some(Effect::SendExecute {
            session: self.id.clone(),
            lease,
            language: ticket.language,
            source: *source,
            name: name.clone().unwrap_or_else(|| format!("<cell {ordinal}>")),
            ordinal,
        })
    }

    /// What was asked of a kernel's supervisor and has no answer yet.
    pub(crate) fn unanswered(&self, generation: Generation, policy: &Policy) -> Vec<Effect> {
        let session = self.id.clone();
        if let Some(run) = self.run().filter(|run| run.lease.generation == generation) {
            let lease = run.lease;
            // A cell that is being stopped is not begun: it may never have been sent.
            let goes_on = matches!(run.rung.cause(), None | Some(Cause::Interrupt));
            let execute = self.send_execute(lease, run.ordinal);
            let execute = execute.filter(|_| run.acknowledged.is_none() && goes_on);
            let step = match &run.rung {
                Rung::Waiting | Rung::Grace { .. } | Rung::Stopped { .. } => None,
                Rung::Interrupting { .. } => {
                    Some(Effect::SendInterrupt { session, lease, attempt: run.interrupts })
                }
                Rung::Killing { .. } => {
                    Some(Effect::StopGroup { session, lease, grace: self.kill_grace(policy) })
                }
            };
            return execute.into_iter().chain(step).collect();
        }
        let stopping = self.slots.iter().find(|(_, slot)| {
            matches!(slot, Slot::Stopping { generation: stopping, .. } if *stopping == generation)
        });
        let again = stopping.map(|(language, _)| Effect::StopKernel {
            session,
            language: *language,
            generation,
            grace: policy.kill_grace,
        });
        again.into_iter().collect()
    }

    /// Why each capability goes when the cell that has them ends, or when nobody can consume it any more.
    pub(crate) fn void_capabilities(&self, cell_ends: bool) -> Vec<(CapabilityId, VoidReason)> {
        let reason = |capability: &Capability| match (capability.consumed, capability.void) {
            (true, _) => Some(VoidReason::OutcomeUnknown).filter(|_| cell_ends),
            (false, true) => Some(VoidReason::DaemonRestarted),
            (false, false) => Some(VoidReason::CellEnded).filter(|_| cell_ends),
        };
        let all = self.capabilities.iter();
        all.filter_map(|(id, capability)| Some((*id, reason(capability)?))).collect()
    }

    fn set_rung(&mut self, lease: Lease, next: impl FnOnce(&Rung) -> Option<Rung>) -> bool {
        let Some(run) = self.run_mut_under(lease) else {
            return true;
        };
        match next(&run.rung) {
            Some(rung) => {
                run.rung = rung;
                true
            }
            None => false,
        }
    }

    /// A daemon is there again. Whoever was asked something gets the whole time for the answer, for
    /// nobody listened meanwhile; the cell's own time goes on with what was left of it.
    pub(crate) fn renew(&mut self, now: Stamp, policy: &Policy) {
        let attached = self.slots.iter().filter(|(_, slot)| !slot.is_absent());
        self.unattached = attached.map(|(language, _)| *language).collect();
        for call in self.calls.values_mut() {
            if let Standing::Dispatched { orphaned } = &mut call.standing {
                *orphaned = true;
            }
        }
        for capability in self.capabilities.values_mut() {
            capability.void |= !capability.consumed;
        }
        let stopped_by = now.deadline(stop_wait(self.kill_grace(policy)));
        for slot in self.slots.values_mut() {
            match slot {
                Slot::Absent { .. } | Slot::Ready { .. } => {}
                Slot::Starting { since, .. } => *since = now.mono,
                Slot::Stopping { until, .. } => *until = stopped_by,
            }
        }
        if let Some(run) = self.active.as_mut().and_then(Cell::run_mut) {
            run.budget.note_activity(now.mono);
            match &mut run.rung {
                Rung::Waiting | Rung::Stopped { .. } => {}
                Rung::Interrupting { until, .. } => *until = now.deadline(VERDICT_WAIT),
                // It may have ended in its grace while nobody listened.
                Rung::Grace { until, .. } => *until = (*until).max(now.deadline(VERDICT_WAIT)),
                Rung::Killing { until, .. } => *until = stopped_by,
            }
        }
        self.deadline = self.earliest_deadline(policy);
    }

    /// Whether time alone changes something here by now.
    pub(crate) fn is_due(&self, now: u64) -> bool {
        self.deadline.is_some_and(|at| at <= now)
    }

    /// Sets the deadline anew after a change that no event of this session made.
    pub(crate) fn set_deadline(&mut self, policy: &Policy) {
        self.deadline = self.earliest_deadline(policy);
    }

    /// The earliest moment at which time alone changes something here.
    fn earliest_deadline(&self, policy: &Policy) -> Option<u64> {
        let waiting = self.queue.iter().filter_map(|id| self.tickets.get(id)?.admission_deadline());
        let running = self.run().into_iter().flat_map(|run| {
            let expiry = run.budget.expiry().map(|(at, _)| at);
            let may_expire = matches!(run.rung.cause(), None | Some(Cause::Interrupt));
            [expiry.filter(|_| may_expire), run.rung.deadline()].into_iter().flatten()
        });
        let slots =
            self.slots.iter().filter_map(|(language, slot)| self.slot_deadline(*language, slot, policy));
        let questions = self.permissions.values().filter_map(|permission| permission.expires);
        let questions = questions.chain(self.drain().map(|drain| drain.until));
        waiting.chain(running).chain(slots).chain(questions).min()
    }

    /// When time alone changes something about a kernel.
    pub(crate) fn slot_deadline(&self, language: Language, slot: &Slot, policy: &Policy) -> Option<u64> {
        match slot {
            Slot::Absent { .. } => None,
            Slot::Starting { since, .. } => Some(since.saturating_add(policy.start_deadline.0)),
            Slot::Ready { idle_since, .. } => policy
                .kernel_idle
                .filter(|_| !self.wants(language))
                .map(|limit| idle_since.saturating_add(limit.0)),
            // The ladder has a deadline of its own for a kernel that it stops.
            Slot::Stopping { generation, until, .. } => {
                let is_held = self.run().is_some_and(|run| run.lease.generation == *generation);
                Some(*until).filter(|_| !is_held)
            }
        }
    }

    /// Whether an open ticket is for this interpreter.
    fn wants(&self, language: Language) -> bool {
        self.tickets.values().any(|ticket| ticket.language == language)
    }
}

/// How long the answer to a stop is awaited: TERM and KILL have a grace each.
const fn stop_wait(grace: Millis) -> Millis {
    grace.plus(grace).plus(STOP_MARGIN)
}
