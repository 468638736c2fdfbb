//! What a session does next: decisions, taken on a scratch copy that folds each event as it is made.
//!
//! A decision is the list of events; the copy is thrown away. The last word of an attempt, the
//! release of its ticket, the closing of its cell and the admission of the next are one decision.

mod calls;

use alloc::{boxed::Box, vec::Vec};

use crate::{
    attempt::{self, EndCause, Executed, Word},
    cell::{Phase, Run},
    command::{Context, ExecutionReport, KernelReport},
    event::{Event, Output, TicketEnded, TicketQueued},
    host_call,
    id::{Generation, Language, Lease, Owner, TicketId},
    permission::PermissionId,
    session::Session,
    slot::{Exit, GroupOutcome, Slot, StopReason},
    ticket::Work,
    watchdog::{Cause, KernelFate, LadderEnd, NobodyReason, Rung, Verdict},
    world::{Gates, Policy},
};

/// A decision in the making.
pub(crate) struct Plan<'world> {
    session: Session,
    policy: &'world Policy,
    gates: Gates,
    context: Context,
    next_generation: Generation,
    next_permission: PermissionId,
    events: Vec<Event>,
}

impl<'world> Plan<'world> {
    pub(crate) fn new(
        session: Session,
        policy: &'world Policy,
        gates: Gates,
        context: Context,
        next_generation: Generation,
    ) -> Self {
        #[cfg(test)]
        crate::tests::scale::count_plan();
        let next_permission = PermissionId::default();
        Self { session, policy, gates, context, next_generation, next_permission, events: Vec::new() }
    }

    /// The number of the next question, for plans that may ask one.
    pub(crate) const fn asking(mut self, next: PermissionId) -> Self {
        self.next_permission = next;
        self
    }

    pub(crate) const fn session(&self) -> &Session {
        &self.session
    }

    pub(crate) fn push(&mut self, event: Event) {
        if let Event::KernelStarting { generation, .. } = &event {
            self.next_generation = Generation(generation.0.saturating_add(1));
        }
        self.session.apply(self.context.now, &event, self.policy);
        self.events.push(event);
    }

    /// The decision: goes on as far as the session can go by itself.
    pub(crate) fn finish(self) -> Vec<Event> {
        self.finish_with_context().0
    }

    /// The decision, and what is left of the context for the next plan of the same decision.
    pub(crate) fn finish_with_context(mut self) -> (Vec<Event>, Context) {
        self.settle();
        (self.events, self.context)
    }

    fn settle(&mut self) {
        if matches!(self.events.last(), Some(Event::SessionRemoved { .. })) {
            return;
        }
        self.void_capabilities(false);
        loop {
            let moved = if self.session.active.is_some() { self.move_active() } else { self.admit_next() };
            if !moved {
                break;
            }
        }
        self.wind_down();
    }

    /// Moves the active ticket one step; says whether anything happened.
    fn move_active(&mut self) -> bool {
        let Some(ticket) = self.session.active_ticket() else {
            return false;
        };
        let (id, language, work) = (ticket.id, ticket.language, ticket.work.clone());
        let reason = if ticket.owner == Owner::idle() { StopReason::Idle } else { StopReason::Requested };
        let Some(phase) = self.session.active.as_ref().map(|cell| cell.phase.clone()) else {
            return false;
        };
        match (phase, work) {
            (Phase::Underway(run), _) => self.replace_stopped(&run, language),
            (Phase::Admitted | Phase::StartAwaited, Work::Cell { .. }) => self.send_or_start(id, language),
            (Phase::Admitted, Work::StopKernel | Work::RestartKernel) => match self.session.slot(language) {
                Slot::Absent { .. } => self.start_or_end(language),
                Slot::Starting { generation, .. } | Slot::Ready { generation, .. } => {
                    let generation = *generation;
                    self.stop_kernel(language, generation, reason);
                    true
                }
                Slot::Stopping { .. } => false,
            },
            (Phase::StopAwaited, Work::StopKernel | Work::RestartKernel) => {
                self.session.slot(language).is_absent() && self.start_or_end(language)
            }
            (Phase::StartAwaited, Work::StopKernel | Work::RestartKernel) => {
                match self.session.slot(language) {
                    Slot::Ready { .. } => {
                        self.end(id, EndCause::Lifecycle, Executed::No);
                        true
                    }
                    // The start was lost with a daemon.
                    Slot::Absent { .. } => self.start_or_end(language),
                    Slot::Starting { .. } | Slot::Stopping { .. } => false,
                }
            }
            (Phase::StopAwaited, Work::Cell { .. }) => false,
            (Phase::Draining(drain), _) => self.end_drained(&drain),
        }
    }

    /// A lifecycle ticket with nothing left to stop: ends, or goes on to its second half.
    fn start_or_end(&mut self, language: Language) -> bool {
        let Some(ticket) = self.session.active_ticket() else {
            return false;
        };
        let id = ticket.id;
        match ticket.work {
            Work::RestartKernel => self.start_kernel(language),
            Work::StopKernel | Work::Cell { .. } => {
                self.end(id, EndCause::Lifecycle, Executed::No);
                true
            }
        }
    }

    fn send_or_start(&mut self, ticket: TicketId, language: Language) -> bool {
        // A ticket that was admitted before the daemon began to stop keeps its place, and the next
        // daemon goes on with it.
        if !self.gates.admitting {
            return false;
        }
        match self.session.slot(language) {
            Slot::Absent { .. } => self.start_kernel(language),
            Slot::Ready { generation, previous, .. } => {
                let (generation, variables_lost) = (*generation, *previous);
                self.push(Event::ExecuteRequested {
                    session: self.session.id.clone(),
                    lease: Lease { generation, ticket },
                    ordinal: self.session.ordinal.saturating_add(1),
                    variables_lost,
                });
                true
            }
            Slot::Starting { .. } | Slot::Stopping { .. } => false,
        }
    }

    fn start_kernel(&mut self, language: Language) -> bool {
        if !self.gates.admitting {
            return false;
        }
        let Slot::Absent { previous } = *self.session.slot(language) else {
            return false;
        };
        let generation = self.next_generation;
        self.push(Event::KernelStarting { session: self.session.id.clone(), language, generation, previous });
        true
    }

    fn stop_kernel(&mut self, language: Language, generation: Generation, reason: StopReason) {
        self.push(Event::KernelStopRequested {
            session: self.session.id.clone(),
            language,
            generation,
            reason,
        });
    }

    /// The top of the ladder: a replacement for the kernel that was stopped, then the last word.
    fn replace_stopped(&mut self, run: &Run, language: Language) -> bool {
        let Rung::Stopped { cause, group, replacement } = &run.rung else {
            return false;
        };
        let (cause, group) = (*cause, group.clone());
        let ticket = run.lease.ticket;
        if !group.is_gone() {
            self.end_stopped(ticket, cause, KernelFate::NotReset { group });
            return true;
        }
        let replace = self.gates.admitting && self.session.closed.is_none();
        match replacement {
            None if replace => self.start_kernel(language),
            None => {
                self.end_stopped(ticket, cause, KernelFate::Reset { group, replacement: None });
                true
            }
            Some(generation) => {
                let generation = *generation;
                let ready = matches!(self.session.slot(language), Slot::Ready { generation: ready, .. } if *ready == generation);
                if ready || !replace {
                    let fate = KernelFate::Reset { group, replacement: Some(generation) };
                    self.end_stopped(ticket, cause, fate);
                }
                ready || !replace
            }
        }
    }

    fn end_stopped(&mut self, ticket: TicketId, cause: Cause, kernel: KernelFate) {
        let executed = self.executed();
        self.end(ticket, EndCause::Stopped { cause, kernel }, executed);
    }

    /// Admits the head of the queue, or ends it; says whether anything happened.
    fn admit_next(&mut self) -> bool {
        if !self.gates.admitting || self.gates.paused || self.session.paused.is_some() {
            return false;
        }
        let Some(ticket) = self.session.queue.front().and_then(|id| self.session.tickets.get(id)) else {
            return false;
        };
        let id = ticket.id;
        match ticket.after {
            Some((after, Some(word))) if word != Word::Completed => {
                self.end(id, EndCause::PredecessorNotCompleted { after, word }, Executed::No);
            }
            // A predecessor stands before its successors in the same queue, so it has ended.
            Some((_, Some(_) | None)) | None => {
                self.push(Event::TicketAdmitted { session: self.session.id.clone(), ticket: id });
            }
        }
        true
    }

    /// A session that is closed, or whose daemon takes the kernels with it, stops the kernels that
    /// run nothing; a closed one that has nothing left goes, if asked to.
    fn wind_down(&mut self) {
        let is_done = self.session.active.is_none() && self.session.queue.is_empty();
        let closed = self.session.closed.clone().filter(|_| is_done);
        let reason = match (&closed, self.gates.stop_kernels) {
            (Some(_), _) => StopReason::SessionClosed,
            (None, true) => StopReason::DaemonStopping,
            (None, false) => return,
        };
        let held = self.session.lease().map(|lease| lease.generation);
        let live: Vec<_> = self
            .session
            .slots
            .iter()
            .filter_map(|(language, slot)| match slot {
                Slot::Starting { generation, .. } | Slot::Ready { generation, .. } => {
                    Some((*language, *generation)).filter(|_| held != Some(*generation))
                }
                Slot::Absent { .. } | Slot::Stopping { .. } => None,
            })
            .collect();
        for (language, generation) in live {
            self.stop_kernel(language, generation, reason);
        }
        if closed.is_some_and(|closed| closed.remove) && self.session.slots.values().all(Slot::is_absent) {
            let questions: Vec<PermissionId> = self.session.permissions.keys().copied().collect();
            self.expire(questions);
            self.push(Event::SessionRemoved { session: self.session.id.clone() });
        }
    }

    /// Nobody will read the answer of a question whose ticket ends.
    fn expire_questions_of(&mut self, ticket: TicketId) {
        let asked = self.session.permissions.values();
        let asked = asked.filter(|permission| permission.ticket == Some(ticket)).map(|asked| asked.id);
        let asked = asked.collect();
        self.expire(asked);
    }

    fn expire(&mut self, questions: Vec<PermissionId>) {
        for permission in questions {
            self.push(Event::PermissionExpired { session: self.session.id.clone(), permission });
            self.refuse_asked(permission, "nobody answered in time");
        }
    }

    /// Whether the active cell ran, as far as is known when it ends without a result.
    fn executed(&self) -> Executed {
        match self.session.run() {
            None => Executed::No,
            Some(Run { acknowledged: Some(_), .. }) => Executed::Yes,
            Some(Run { acknowledged: None, .. }) => Executed::Unknown,
        }
    }

    /// The last word, with everything that goes with it, in the order of the contract: questions
    /// that nobody will read the answer of, the end of the ladder, the word, the closing.
    pub(crate) fn end(&mut self, ticket: TicketId, cause: EndCause, executed: Executed) {
        self.end_as(ticket, cause, executed, false);
    }

    fn end_as(&mut self, ticket: TicketId, cause: EndCause, executed: Executed, interrupt_landed: bool) {
        let session = self.session.id.clone();
        let reached_a_child = was_cancelled_in_a_child(self.session.run(), ticket, interrupt_landed);
        let is_theirs = self.session.lease().is_some_and(|lease| lease.ticket == ticket);
        let is_draining = is_theirs && self.give_up_calls();
        self.expire_questions_of(ticket);
        let word = attempt::word(&cause, reached_a_child);
        let run = self.session.run().filter(|run| run.lease.ticket == ticket);
        let lease = run.map(|run| run.lease);
        if let Some(run) = run
            && run.rung != Rung::Waiting
        {
            let lease = run.lease;
            let end = match &cause {
                EndCause::Stopped { kernel, .. } => LadderEnd::Stopped(kernel.clone()),
                EndCause::Result { .. }
                | EndCause::CancelledBeforeStart
                | EndCause::AdmissionTimedOut
                | EndCause::PredecessorNotCompleted { .. }
                | EndCause::SessionClosed
                | EndCause::NoKernel { .. }
                | EndCause::KernelDied { .. }
                | EndCause::Lost { .. }
                | EndCause::Lifecycle => LadderEnd::Finished,
            };
            self.push(Event::LadderEnded { session: session.clone(), lease, end });
        }
        if let Some(lease) = lease.filter(|_| is_draining) {
            // A service that was told to stop gets a little time to do so.
            let until = self.context.now.deadline(host_call::DRAIN);
            self.push(Event::CellDraining { session, lease, word, executed, cause, until });
            return;
        }
        self.say_last(ticket, word, cause, executed);
    }

    /// The last word, once nothing that the cell asked for is under way any more.
    fn say_last(&mut self, ticket: TicketId, word: Word, cause: EndCause, executed: Executed) {
        let session = self.session.id.clone();
        let was_active = self.session.active.as_ref().is_some_and(|cell| cell.ticket == ticket);
        // Somebody may have asked one while its calls were being ended.
        self.expire_questions_of(ticket);
        if was_active {
            self.void_capabilities(true);
        }
        let ended = TicketEnded { session: session.clone(), ticket, word, executed, cause };
        self.push(Event::TicketEnded(ended));
        if was_active {
            self.push(Event::CellClosed { session, ticket });
        }
    }

    /// Begins to stop the active cell.
    pub(crate) fn begin_ladder(&mut self, cause: Cause) {
        let Some(run) = self.session.run() else {
            return;
        };
        let (lease, attempt) = (run.lease, run.interrupts.saturating_add(1));
        let session = self.session.id.clone();
        self.push(Event::LadderStarted { session: session.clone(), lease, cause });
        self.push(Event::InterruptRequested { session, lease, attempt });
    }

    fn kill(&mut self, lease: Lease) {
        self.push(Event::KillRequested { session: self.session.id.clone(), lease });
    }

    /// Notes that somebody asked for the active ticket to be stopped; the first reason stays.
    pub(crate) fn request_cancel(&mut self, by: &Owner, reason: &str) {
        let Some(ticket) = self.session.active_ticket().filter(|ticket| ticket.cancel.is_none()) else {
            return;
        };
        self.push(Event::CancelRequested {
            session: self.session.id.clone(),
            ticket: ticket.id,
            by: by.clone(),
            reason: alloc::string::String::from(reason),
        });
    }

    /// Stops the active ticket for a cancellation, from wherever it stands.
    pub(crate) fn cancel_active(&mut self) {
        let Some(cell) = &self.session.active else {
            return;
        };
        let ticket = cell.ticket;
        match &cell.phase {
            Phase::Underway(run) => match run.rung.cause() {
                None | Some(Cause::Interrupt) => self.begin_ladder(Cause::Cancellation),
                Some(Cause::Timeout | Cause::IdleTimeout | Cause::Cancellation) => {}
            },
            // A worker is never signalled before it is ready: the ticket goes, the start goes on.
            Phase::Admitted | Phase::StartAwaited => {
                self.end(ticket, EndCause::CancelledBeforeStart, Executed::No);
            }
            // A kernel that is being stopped cannot be un-stopped; the ticket ends when it has gone.
            Phase::StopAwaited => {}
            // It has ended, and its word stands.
            Phase::Draining(_) => {}
        }
    }

    /// What time alone changes. What it ends may make something else overdue (a kernel that only the
    /// ended ticket wanted), so it goes on until nothing is: a driver that sleeps until the next
    /// deadline must not find it in the past.
    pub(crate) fn tick(&mut self) {
        let now = self.context.now.mono;
        while self.session.is_due(now) {
            let before = self.events.len();
            self.expire_waiting(now);
            self.expire_questions(now);
            self.expire_run(now);
            self.expire_slots(now);
            self.expire_drain(now);
            self.settle();
            if self.events.len() == before {
                break;
            }
        }
    }

    fn expire_waiting(&mut self, now: u64) {
        let late: Vec<TicketId> = self
            .session
            .queue
            .iter()
            .filter_map(|id| self.session.tickets.get(id))
            .filter(|ticket| ticket.admission_deadline().is_some_and(|deadline| deadline <= now))
            .map(|ticket| ticket.id)
            .collect();
        for ticket in late {
            self.end(ticket, EndCause::AdmissionTimedOut, Executed::No);
        }
    }

    fn expire_questions(&mut self, now: u64) {
        let late: Vec<PermissionId> = self
            .session
            .permissions
            .values()
            .filter(|permission| permission.expires.is_some_and(|deadline| deadline <= now))
            .map(|permission| permission.id)
            .collect();
        self.expire(late);
    }

    fn expire_run(&mut self, now: u64) {
        let Some(run) = self.session.run() else {
            return;
        };
        let lease = run.lease;
        if matches!(run.rung.cause(), None | Some(Cause::Interrupt))
            && let Some((at, cause)) = run.budget.expiry()
            && at <= now
        {
            self.begin_ladder(cause);
            return;
        }
        if run.rung.deadline().is_none_or(|deadline| deadline > now) {
            return;
        }
        match run.rung.clone() {
            Rung::Interrupting { .. } => self.interrupt_answered(
                lease,
                Verdict::ReachedNobody { reason: NobodyReason::SupervisorUnreachable },
            ),
            Rung::Grace { cause: Cause::Interrupt, .. } => self.ladder_ignored(lease),
            Rung::Grace { .. } => self.kill(lease),
            Rung::Killing { .. } => {
                let reason = alloc::string::String::from("the supervisor did not answer in time");
                self.group_stopped(lease, GroupOutcome::Unreachable { reason }, None);
            }
            Rung::Waiting | Rung::Stopped { .. } => {}
        }
    }

    fn ladder_ignored(&mut self, lease: Lease) {
        let session = self.session.id.clone();
        self.push(Event::LadderEnded { session, lease, end: LadderEnd::Ignored });
    }

    fn expire_slots(&mut self, now: u64) {
        let late: Vec<(Language, Slot)> = self
            .session
            .slots
            .iter()
            .filter(|(language, slot)| {
                let deadline = self.session.slot_deadline(**language, slot, self.policy);
                deadline.is_some_and(|deadline| deadline <= now)
            })
            .map(|(language, slot)| (*language, slot.clone()))
            .collect();
        for (language, slot) in late {
            match slot {
                Slot::Absent { .. } => {}
                Slot::Starting { generation, .. } => {
                    let reason = alloc::string::String::from("the kernel did not answer in time");
                    self.start_failed(language, generation, reason, false);
                }
                // Nobody waits for it, so it may also be stopped without a ticket where none is taken.
                Slot::Ready { generation, .. } if !self.takes_tickets() => {
                    self.stop_kernel(language, generation, StopReason::Idle);
                }
                Slot::Ready { .. } => self.queue_idle_stop(language),
                Slot::Stopping { generation, .. } => {
                    let evidence = alloc::string::String::from("it did not go in time");
                    self.gone(language, generation, Exit::Unknown { evidence });
                }
            }
        }
    }

    /// Whether a ticket of ours may be queued, by the rules for everybody's.
    fn takes_tickets(&self) -> bool {
        let waiting = u64::try_from(self.session.queue.len()).unwrap_or(u64::MAX);
        self.session.closed.is_none() && self.gates.admitting && waiting < self.policy.queue_cap
    }

    /// A stop in line like every other writer's, so that it never overtakes anybody.
    fn queue_idle_stop(&mut self, language: Language) {
        let (session, ticket) = (self.session.id.clone(), self.context.mint());
        let queued = TicketQueued::plain(session, ticket, Owner::idle(), language, Work::StopKernel);
        self.push(Event::TicketQueued(Box::new(queued)));
    }

    /// What a supervisor says of its kernel. A report about another life is stale and decides
    /// nothing.
    pub(crate) fn kernel(&mut self, language: Language, generation: Generation, report: KernelReport) {
        let slot = self.session.slot(language);
        if slot.generation() != Some(generation) {
            return;
        }
        let session = self.session.id.clone();
        match report {
            KernelReport::Ready(process) => {
                if matches!(slot, Slot::Starting { .. }) {
                    self.push(Event::KernelReady { session, language, generation, process });
                }
            }
            KernelReport::StartFailed { reason, unavailable } => {
                if matches!(slot, Slot::Starting { .. }) {
                    self.start_failed(language, generation, reason, unavailable);
                } else {
                    let exit = Exit::Unknown { evidence: reason };
                    let gone = Gone { exit, while_down: false, began: None, output: None, left: None };
                    self.kernel_gone(language, generation, gone);
                }
            }
            // Said once for each start of a daemon, and again when a connection was lost with
            // something unanswered: the event is what has that asked again.
            KernelReport::Reattached => {
                let unanswered = !self.session.unanswered(generation, self.policy).is_empty();
                if unanswered || self.session.unattached.contains(&language) {
                    self.push(Event::KernelReattached { session, language, generation });
                }
            }
            KernelReport::Gone { exit, while_down, began, output, left } => {
                self.kernel_gone(language, generation, Gone { exit, while_down, began, output, left });
            }
        }
    }

    fn start_failed(
        &mut self,
        language: Language,
        generation: Generation,
        reason: alloc::string::String,
        unavailable: bool,
    ) {
        let session = self.session.id.clone();
        self.push(Event::KernelStartFailed {
            session,
            language,
            generation,
            reason: reason.clone(),
            unavailable,
        });
        let Some(ticket) = self.session.active_ticket().filter(|ticket| ticket.language == language) else {
            return;
        };
        let id = ticket.id;
        match self.session.active.as_ref().map(|cell| cell.phase.clone()) {
            Some(Phase::StartAwaited) => self.end(id, EndCause::NoKernel { reason }, Executed::No),
            Some(Phase::Underway(run)) => {
                if let Rung::Stopped { cause, group, replacement } = run.rung
                    && replacement == Some(generation)
                {
                    self.end_stopped(id, cause, KernelFate::ResetUnavailable { group });
                }
            }
            Some(Phase::Admitted | Phase::StopAwaited | Phase::Draining(_)) | None => {}
        }
    }

    fn gone(&mut self, language: Language, generation: Generation, exit: Exit) {
        let session = self.session.id.clone();
        self.push(Event::KernelGone { session, language, generation, exit });
    }

    fn kernel_gone(
        &mut self,
        language: Language,
        generation: Generation,
        Gone { exit, while_down, began, output, left }: Gone,
    ) {
        if matches!(self.session.slot(language), Slot::Starting { .. }) {
            // The start was lost with the daemon that asked for it. Nothing was sent to this life,
            // so whoever waits for it gets another.
            let is_replacement = self.session.run().is_some();
            if while_down && !is_replacement {
                self.gone(language, generation, exit);
                return;
            }
            let reason = alloc::format!("the kernel ended before it was ready: {exit}");
            self.start_failed(language, generation, reason, false);
            return;
        }
        let run = self.session.run().filter(|run| run.lease.generation == generation).cloned();
        let Some(run) = run else {
            self.gone(language, generation, exit);
            return;
        };
        let lease = run.lease;
        if began == Some(true) {
            self.acknowledge(lease);
        }
        self.keep_output(lease, output);
        self.gone(language, generation, exit.clone());
        match run.rung {
            Rung::Waiting
            | Rung::Interrupting { cause: Cause::Interrupt, .. }
            | Rung::Grace { cause: Cause::Interrupt, .. } => {
                let never_began = began == Some(false) && run.acknowledged.is_none();
                let executed = if never_began { Executed::No } else { self.executed() };
                let cause = if while_down { EndCause::Lost { exit } } else { EndCause::KernelDied { exit } };
                self.end(lease.ticket, cause, executed);
            }
            // The supervisor stops what is left of a group before it reports its worker's death.
            Rung::Interrupting { .. } | Rung::Grace { .. } | Rung::Killing { .. } => {
                let outcome = left.unwrap_or(match exit {
                    Exit::Unknown { evidence } => GroupOutcome::Unreachable { reason: evidence },
                    Exit::Code(_)
                    | Exit::Signal { .. }
                    | Exit::Limit { .. }
                    | Exit::Stopped
                    | Exit::Protocol { .. } => GroupOutcome::AlreadyExited,
                });
                self.push(Event::GroupStopped { session: self.session.id.clone(), lease, outcome });
            }
            Rung::Stopped { .. } => {}
        }
    }

    fn acknowledge(&mut self, lease: Lease) {
        if self.session.run_under(lease).is_some_and(|run| run.acknowledged.is_none()) {
            self.push(Event::ExecuteAcknowledged { session: self.session.id.clone(), lease });
        }
    }

    fn keep_output(&mut self, lease: Lease, output: Option<Output>) {
        if let Some(output) = output
            && self.session.run_under(lease).is_some_and(|run| !run.output_kept)
        {
            self.push(Event::OutputKept { session: self.session.id.clone(), lease, output });
        }
    }

    /// What a supervisor says of an execution. A report under another lease is stale and decides
    /// nothing.
    pub(crate) fn execution(&mut self, lease: Lease, report: ExecutionReport) {
        let Some(report) = self.of_calls(lease, report) else {
            return;
        };
        let Some(run) = self.session.run_under(lease) else {
            return;
        };
        let session = self.session.id.clone();
        match report {
            ExecutionReport::Acknowledged => self.acknowledge(lease),
            ExecutionReport::Active { at } => {
                let at = at.min(self.context.now.mono);
                if run.budget.heeds_activity() && at > run.budget.last_activity() {
                    self.push(Event::ActivityNoted { session, lease, at });
                }
            }
            ExecutionReport::Interrupt { attempt, verdict } => {
                if attempt == run.interrupts && matches!(run.rung, Rung::Interrupting { .. }) {
                    self.interrupt_answered(lease, verdict);
                }
            }
            ExecutionReport::Stopped { outcome, output } => self.group_stopped(lease, outcome, output),
            // Taken up before: a cell whose last word waits for its calls has them as well.
            ExecutionReport::HostCall(_)
            | ExecutionReport::HostCallGivenUp { .. }
            | ExecutionReport::HostCallAnswered { .. }
            | ExecutionReport::Observed { .. } => {}
            ExecutionReport::Result { status, interrupt_landed, record, output } => {
                let too_late = matches!(run.rung, Rung::Killing { .. } | Rung::Stopped { .. });
                let kept = run.output_kept;
                self.acknowledge(lease);
                if kept {
                    return;
                }
                self.push(Event::ResultReceived { session, lease, status, interrupt_landed, record, output });
                // Once the group is being killed the ladder has the last word; the log still says
                // that a result came.
                if !too_late {
                    self.end_as(lease.ticket, EndCause::Result { status }, Executed::Yes, interrupt_landed);
                }
            }
        }
    }

    fn interrupt_answered(&mut self, lease: Lease, verdict: Verdict) {
        let Some(cause) = self.session.run_under(lease).and_then(|run| run.rung.cause()) else {
            return;
        };
        let reached = verdict == Verdict::Delivered;
        self.push(Event::InterruptAnswered { session: self.session.id.clone(), lease, verdict });
        match (reached, cause) {
            (true, _) => {}
            (false, Cause::Interrupt) => self.ladder_ignored(lease),
            (false, Cause::Timeout | Cause::IdleTimeout | Cause::Cancellation) => self.kill(lease),
        }
    }

    fn group_stopped(&mut self, lease: Lease, outcome: GroupOutcome, output: Option<Output>) {
        let Some(run) = self.session.run_under(lease) else {
            return;
        };
        if !matches!(run.rung, Rung::Killing { .. }) {
            return;
        }
        self.keep_output(lease, output);
        let exit = if outcome.is_gone() {
            Exit::Stopped
        } else {
            Exit::Unknown {
                evidence: alloc::string::String::from("abandoned: its group could not be stopped"),
            }
        };
        self.push(Event::GroupStopped { session: self.session.id.clone(), lease, outcome });
        let language = self.session.active_ticket().map(|ticket| ticket.language);
        if let Some(language) = language
            && self.session.slot(language).generation() == Some(lease.generation)
        {
            self.gone(language, lease.generation, exit);
        }
    }
}

/// Whether a cell that returned was ended by its cancellation all the same: the interrupt was
/// delivered, and in its grace something in the cell ended without it being raised in the cell's own
/// code. `os.system("sleep 60")` returns normally when our interrupt ends its child.
fn was_cancelled_in_a_child(run: Option<&Run>, ticket: TicketId, interrupt_landed: bool) -> bool {
    !interrupt_landed
        && run.filter(|run| run.lease.ticket == ticket).is_some_and(|run| {
            matches!(run.rung, Rung::Grace { cause: Cause::Cancellation | Cause::Interrupt, .. })
        })
}

/// How a kernel went, as [`KernelReport::Gone`] has it.
struct Gone {
    exit: Exit,
    while_down: bool,
    began: Option<bool>,
    output: Option<Output>,
    left: Option<GroupOutcome>,
}
