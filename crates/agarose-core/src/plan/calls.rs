//! What becomes of the calls that a cell makes to its host.

use alloc::{boxed::Box, string::String, vec::Vec};

use super::Plan;
use crate::{
    cell::Drain,
    command::ExecutionReport,
    event::{Event, HostCallStarted},
    host_call::{Answered, CallId, CallOutcome, Called, Decision, HostFact, Standing},
    id::{Lease, Owner},
    permission::PermissionId,
    watchdog::Cause,
};

impl Plan<'_> {
    /// Takes up what concerns calls, and gives back what does not.
    pub(super) fn of_calls(&mut self, lease: Lease, report: ExecutionReport) -> Option<ExecutionReport> {
        let is_ours = self.session.lease() == Some(lease);
        match report {
            ExecutionReport::HostCall(called) if is_ours => self.called(lease, *called),
            ExecutionReport::HostCallGivenUp { call } if is_ours => self.give_up(call),
            ExecutionReport::HostCallAnswered { call, answered } if is_ours => {
                if self.session.calls.contains_key(&call) {
                    self.answered(lease, call, *answered);
                }
            }
            ExecutionReport::Observed { through } => {
                let session = self.session.id.clone();
                let observed = self.session.active.as_ref().filter(|cell| cell.ticket == lease.ticket);
                if observed.is_some_and(|cell| cell.observed < through) {
                    self.push(Event::OutputObserved { session, ticket: lease.ticket, through });
                }
            }
            // A call of an execution that is over: nobody waits for it.
            ExecutionReport::HostCall(_)
            | ExecutionReport::HostCallGivenUp { .. }
            | ExecutionReport::HostCallAnswered { .. } => {}
            ExecutionReport::Acknowledged
            | ExecutionReport::Result { .. }
            | ExecutionReport::Active { .. }
            | ExecutionReport::Interrupt { .. }
            | ExecutionReport::Stopped { .. } => return Some(report),
        }
        None
    }

    fn called(&mut self, lease: Lease, called: Called) {
        let call = called.call;
        if let Some(open) = self.session.calls.get(&call) {
            if matches!(open.standing, Standing::Dispatched { orphaned: true }) {
                self.take_up_orphan(call);
            }
            return;
        }
        // Its answer was said and may not have arrived: it is said again, and nothing is done again.
        if self.session.last_answer.as_ref().is_some_and(|last| last.lease == lease && last.call >= call) {
            return;
        }
        let asks = matches!(called.decision, Decision::Ask { .. });
        let takes_calls = self.takes_calls();
        let permission = Some(self.next_permission).filter(|_| asks && takes_calls);
        let session = self.session.id.clone();
        self.push(Event::HostCallStarted(Box::new(HostCallStarted {
            session: session.clone(),
            lease,
            call,
            method: called.method.clone(),
            digest: called.digest,
            bytes: called.bytes,
            preview: called.preview.clone(),
            repeatable: called.repeatable,
            decision: called.decision.clone(),
            permission,
        })));
        if !takes_calls {
            return self.answer(lease, call, CallOutcome::Cancelled);
        }
        match (called.decision, permission, called.answered) {
            (Decision::Deny { rule }, ..) => {
                self.answer(lease, call, CallOutcome::Denied { reason: rule });
            }
            (Decision::Ask { .. }, Some(permission), _) => {
                let expires = called.expires_after.map(|after| self.context.now.deadline(after));
                self.push(Event::PermissionProposed {
                    session,
                    permission,
                    ticket: Some(lease.ticket),
                    method: called.method,
                    detail: called.preview,
                    expires,
                });
            }
            (_, _, Some(answered)) => self.answered(lease, call, *answered),
            (_, _, None) => self.push(Event::HostCallDispatched { session, lease, call }),
        }
    }

    /// Whether the active cell may begin anything: not once it has ended or is being stopped.
    fn takes_calls(&self) -> bool {
        self.session.run().is_some_and(|run| matches!(run.rung.cause(), None | Some(Cause::Interrupt)))
    }

    fn answer(&mut self, lease: Lease, call: CallId, outcome: CallOutcome) {
        let session = self.session.id.clone();
        self.push(Event::HostCallAnswered { session, lease, call, outcome, bytes: 0, answer: None });
    }

    fn answered(&mut self, lease: Lease, call: CallId, answered: Answered) {
        let Answered { mut outcome, mut bytes, mut answer, facts } = answered;
        let events: Result<Vec<Event>, CallOutcome> =
            facts.into_iter().map(|fact| self.fact(lease, fact)).collect();
        match events {
            Ok(events) => events.into_iter().for_each(|event| self.push(event)),
            Err(refused) => {
                (outcome, bytes, answer) = (refused, 0, None);
            }
        }
        let session = self.session.id.clone();
        self.push(Event::HostCallAnswered { session, lease, call, outcome, bytes, answer });
    }

    /// The event that a fact is, or why it cannot be one.
    fn fact(&self, lease: Lease, fact: HostFact) -> Result<Event, CallOutcome> {
        let session = self.session.id.clone();
        Ok(match fact {
            HostFact::Submit(submission) => Event::OutputSubmitted { session, lease, submission },
            HostFact::Artifact(artifact) => Event::ArtifactSaved { session, lease, artifact },
            HostFact::Document { name, content } => {
                let version = self.session.documents.get(&name).map_or(0, |document| document.version);
                let version = version.saturating_add(1);
                Event::DocumentWritten { session, lease, name, version, content }
            }
            HostFact::Grant(_) | HostFact::Consume(_) if !self.takes_calls() => {
                return Err(CallOutcome::Cancelled);
            }
            HostFact::Grant(grant) => Event::CapabilityGranted { session, lease, grant },
            HostFact::Consume(shown) => {
                let unfit = |unfit: crate::capability::Unfit| CallOutcome::Failed {
                    kind: String::from(unfit.kind()),
                    message: unfit.message(),
                };
                let known = self.session.capabilities.get(&shown.capability);
                let known = known.ok_or_else(|| unfit(crate::capability::Unfit::Unknown))?;
                known.check(&shown, self.context.now.mono).map_err(unfit)?;
                Event::CapabilityConsumed { session, lease, capability: shown.capability }
            }
            HostFact::Report { capability, report } => {
                if self.session.capabilities.get(&capability).is_none_or(|known| !known.consumed) {
                    return Err(CallOutcome::Failed {
                        kind: String::from(crate::capability::Unfit::Unknown.kind()),
                        message: String::from("no command that may have run waits for this report"),
                    });
                }
                Event::CapabilityReported { session, lease, capability, report }
            }
        })
    }

    /// A call that a later daemon hears of again, whose service died with the earlier one.
    fn take_up_orphan(&mut self, call: CallId) {
        let Some(open) = self.session.calls.get(&call) else {
            return;
        };
        let lease = open.lease;
        if open.repeatable && self.takes_calls() {
            self.push(Event::HostCallDispatched { session: self.session.id.clone(), lease, call });
        } else {
            self.answer(lease, call, CallOutcome::OutcomeUnknown);
        }
    }

    fn give_up(&mut self, call: CallId) {
        let Some(open) = self.session.calls.get(&call) else {
            return;
        };
        let lease = open.lease;
        match open.standing {
            Standing::Open => {}
            Standing::Asked(permission) => {
                self.answer(lease, call, CallOutcome::Cancelled);
                self.expire(alloc::vec![permission]);
            }
            Standing::Dispatched { orphaned: true } => {
                self.answer(lease, call, CallOutcome::OutcomeUnknown);
            }
            Standing::Dispatched { orphaned: false } => {
                let session = self.session.id.clone();
                self.push(Event::HostCallCancelRequested { session, lease, call });
            }
        }
    }

    /// Gives up every call of a cell that ends; says whether some of them are still under way.
    pub(super) fn give_up_calls(&mut self) -> bool {
        let calls: Vec<CallId> = self.session.calls.keys().copied().collect();
        for call in calls {
            self.give_up(call);
        }
        !self.session.calls.is_empty()
    }

    /// Goes on with the end of a cell once its calls are over.
    pub(super) fn end_drained(&mut self, drain: &Drain) -> bool {
        let orphans: Vec<CallId> = self
            .session
            .calls
            .iter()
            .filter(|(_, call)| matches!(call.standing, Standing::Dispatched { orphaned: true }))
            .map(|(call, _)| *call)
            .collect();
        for call in orphans {
            self.answer(drain.lease, call, CallOutcome::OutcomeUnknown);
        }
        let is_over = self.session.calls.is_empty();
        if is_over {
            self.say_last(drain.lease.ticket, drain.word, drain.cause.clone(), drain.executed);
        }
        is_over
    }

    /// What has not ended in time is left alone, by name.
    pub(super) fn expire_drain(&mut self, now: u64) {
        let Some(drain) = self.session.drain().filter(|drain| drain.until <= now) else {
            return;
        };
        let lease = drain.lease;
        let calls: Vec<CallId> = self.session.calls.keys().copied().collect();
        for call in calls {
            self.answer(lease, call, CallOutcome::Abandoned);
        }
    }

    /// Somebody answered a question; the call that waits for it goes on.
    pub(crate) fn decide_permission(&mut self, permission: PermissionId, allowed: bool, by: &Owner) {
        let session = self.session.id.clone();
        self.push(Event::PermissionDecided { session: session.clone(), permission, allowed, by: by.clone() });
        if !allowed {
            return self.refuse_asked(permission, &alloc::format!("{by} said no"));
        }
        if let Some((call, lease)) = self.asked(permission) {
            if self.takes_calls() {
                self.push(Event::HostCallDispatched { session, lease, call });
            } else {
                self.answer(lease, call, CallOutcome::Cancelled);
            }
        }
    }

    /// The call that waits for this question.
    fn asked(&self, permission: PermissionId) -> Option<(CallId, Lease)> {
        let mut calls = self.session.calls.iter();
        calls
            .find(|(_, call)| call.standing == Standing::Asked(permission))
            .map(|(call, open)| (*call, open.lease))
    }

    pub(super) fn refuse_asked(&mut self, permission: PermissionId, reason: &str) {
        if let Some((call, lease)) = self.asked(permission) {
            self.answer(lease, call, CallOutcome::Denied { reason: String::from(reason) });
        }
    }

    /// Takes back what nobody can consume any more, or what the active cell leaves behind.
    pub(super) fn void_capabilities(&mut self, cell_ends: bool) {
        let Some(lease) = self.session.lease() else {
            return;
        };
        for (capability, reason) in self.session.void_capabilities(cell_ends) {
            let session = self.session.id.clone();
            self.push(Event::CapabilityVoided { session, lease, capability, reason });
        }
    }
}
