//! One call, from its arrival to its answer.

use std::{path::PathBuf, sync::Arc};

use agarose_core::{
    Command, Generation, Lease, SessionId,
    command::ExecutionReport,
    host_call::{Answered, CallId, CallOutcome, Called, Decision, HostFact},
    world::{Answer, CallReply},
};
use agarose_journal::{Attachment, INLINE_LIMIT};
use serde_json::Value;
use tokio::sync::{Notify, oneshot};

use super::{
    Host, Link, Stop,
    error::{ErrorKind, HostError},
    method::{Asked, Traits},
    secrets,
};
use crate::{
    driver::{Decided, Incoming, Input, chain},
    error::RequestError,
};

/// How much of a call's arguments is written down, in characters.
const PREVIEW: usize = 500;
/// The longest message of an error that is written down, in characters.
const MESSAGE: usize = 500;

/// The cell that asks.
#[derive(Clone)]
pub(crate) struct Caller {
    /// The session that its kernel was started for.
    pub(crate) session: SessionId,
    pub(crate) lease: Lease,
    /// Where its cells run.
    pub(crate) workspace: PathBuf,
    pub(crate) link: Link,
}

/// A call without an answer.
pub(crate) struct Pending {
    pub(super) caller: Caller,
    /// What its service has still to do.
    pub(super) asked: Option<Asked>,
    pub(super) stop: Stop,
    /// Its service's answer, while that is not durable: how the service says it ended, and its JSON.
    pub(super) body: Option<(CallOutcome, Vec<u8>)>,
}

/// What a service has done.
#[derive(Default)]
pub(crate) struct Done {
    pub(crate) value: Value,
    pub(crate) facts: Vec<HostFact>,
    pub(crate) attachments: Vec<Attachment>,
}

impl Done {
    pub(crate) fn value(value: impl Into<Value>) -> Self {
        Self { value: value.into(), ..Self::default() }
    }

    pub(crate) fn of(value: &impl serde::Serialize) -> Result<Self, HostError> {
        let value = serde_json::to_value(value);
        value.map(Self::value).map_err(|error| HostError::new(ErrorKind::Internal, error.to_string()))
    }
}

impl Host {
    /// A cell asks for something.
    pub(crate) fn arrived(&self, caller: Caller, call: CallId, method: String, body: Vec<u8>) {
        let host = self.clone();
        self.0.runtime.spawn(async move { host.take(caller, call, method, body).await });
    }

    /// A cell does not wait for a call any more.
    pub(crate) fn given_up(&self, session: SessionId, lease: Lease, call: CallId) {
        let report = ExecutionReport::HostCallGivenUp { call };
        let command = Command::Execution { session, lease, report };
        // The loop is only gone when the whole engine is.
        let _ = self.0.loop_inbox.send(Input::Command(Incoming::report(command)));
    }

    async fn take(self, caller: Caller, call: CallId, method: String, body: Vec<u8>) {
        let parsed = Asked::parse(&method, &body, &caller, self.handlers());
        let traits = parsed.as_ref().map_or_else(|_| Traits::refused(), Asked::traits);
        let session = caller.session.as_str();
        let decision = match &parsed {
            Ok(_) => self.0.policy.decide(session, &method, &traits.subject, traits.verdict),
            // What makes no sense needs nobody's leave to be refused.
            Err(_) => Decision::Allow { rule: String::new() },
        };
        let is_allowed = matches!(decision, Decision::Allow { .. });
        let (mut asked, mut served) = (None, None);
        match parsed {
            Err(error) => served = Some(Err(error)),
            Ok(quick) if is_allowed && quick.is_quick() => {
                served = Some(self.clone().serve(quick, caller.clone(), Arc::new(Notify::new())).await);
            }
            Ok(other) => asked = Some(other),
        }
        let (answered, body_of_answer, attachments) = match served {
            None => (None, None, Vec::new()),
            Some(served) => {
                let (answered, body, attachments) = self.answer_of(served, traits.repeatable);
                (Some(Box::new(answered)), Some(body), attachments)
            }
        };
        let key = (caller.lease.generation, call);
        let (session, lease) = (caller.session.clone(), caller.lease);
        self.pending(|pending| {
            let stop = Arc::new(Notify::new());
            pending.insert(key, Pending { caller, asked, stop, body: body_of_answer });
        });
        let report = ExecutionReport::HostCall(Box::new(Called {
            call,
            method,
            digest: *blake3::hash(&body).as_bytes(),
            bytes: body.len() as u64,
            preview: match (traits.shown, traits.subject.as_str()) {
                (Some(shown), _) => shown,
                (None, "") => secrets::preview(&String::from_utf8_lossy(&body), PREVIEW),
                (None, subject) => secrets::preview(subject, PREVIEW),
            },
            repeatable: traits.repeatable,
            decision,
            expires_after: Some(self.0.policy.expires()),
            answered,
        }));
        let told = self.tell(Command::Execution { session, lease, report }, attachments).await;
        self.heard(lease, call, told);
    }

    /// What the loop said of a call, where no effect says it.
    fn heard(&self, lease: Lease, call: CallId, told: Result<Decided, RequestError>) {
        match told {
            // What was decided now comes as an effect.
            Ok(Decided { changed: true, .. }) => {}
            Ok(Decided { answer: Answer::Call(CallReply::Open), .. }) => {
                if self.early(|early| early.remove(&(lease.generation, call))) {
                    self.perform(lease, call);
                }
            }
            Ok(Decided { answer: Answer::Call(CallReply::Answered { outcome, answer }), .. }) => {
                let stored = answer.and_then(|blob| self.0.reader.blob(&blob).ok().flatten());
                self.deliver(lease, call, &outcome, stored);
            }
            Ok(_) => self.deliver(lease, call, &CallOutcome::Cancelled, None),
            Err(error) => {
                let outcome = CallOutcome::Failed {
                    kind: ErrorKind::Unavailable.as_str().to_owned(),
                    message: format!("the call could not be written down, so it was not answered: {error}"),
                };
                self.deliver(lease, call, &outcome, None);
            }
        }
    }

    /// Lets the service of a call begin.
    pub(super) fn perform(&self, lease: Lease, call: CallId) {
        let key = (lease.generation, call);
        let begun = self.pending(|pending| {
            let Some(pending) = pending.get_mut(&key) else {
                self.early(|early| early.insert(key));
                return None;
            };
            Some((pending.asked.take()?, pending.caller.clone(), Arc::clone(&pending.stop)))
        });
        let Some((asked, caller, stop)) = begun else { return };
        let host = self.clone();
        self.0.runtime.spawn(async move {
            let repeatable = asked.traits().repeatable;
            let session = caller.session.clone();
            let served = host.clone().serve(asked, caller, stop).await;
            let (answered, body, attachments) = host.answer_of(served, repeatable);
            let is_waited_for = host.pending(|pending| {
                pending.get_mut(&(lease.generation, call)).map(|pending| pending.body = Some(body)).is_some()
            });
            if is_waited_for {
                let report = ExecutionReport::HostCallAnswered { call, answered: Box::new(answered) };
                let told = host.tell(Command::Execution { session, lease, report }, attachments).await;
                host.heard(lease, call, told);
            }
        });
    }

    /// What a service has come to: for the log, for the cell, and what the log names.
    fn answer_of(
        &self,
        served: Result<Done, HostError>,
        repeatable: bool,
    ) -> (Answered, (CallOutcome, Vec<u8>), Vec<Attachment>) {
        let done = served.and_then(|done| {
            let body = serde_json::to_vec(&done.value);
            let body = body.map_err(|error| HostError::new(ErrorKind::Internal, error.to_string()))?;
            Ok((done, body))
        });
        match done {
            Ok((done, body)) => {
                let mut attachments = done.attachments;
                // What may not be done again must be able to say again how it went.
                let kept = Some(&body).filter(|body| !repeatable && body.len() <= INLINE_LIMIT);
                let kept = kept.and_then(|body| Attachment::new(body.clone()).ok());
                let answer = kept.map(|kept| {
                    let blob = kept.blob();
                    attachments.push(kept);
                    blob
                });
                let bytes = body.len() as u64;
                let answered = Answered { outcome: CallOutcome::Ok, bytes, answer, facts: done.facts };
                (answered, (CallOutcome::Ok, body), attachments)
            }
            Err(error) => {
                let outcome = if error.kind == ErrorKind::Cancelled.as_str() {
                    CallOutcome::Cancelled
                } else {
                    let message = secrets::preview(&error.message, MESSAGE);
                    CallOutcome::Failed { kind: error.kind.clone(), message }
                };
                let body = error.to_json();
                (Answered::plain(outcome.clone(), body.len() as u64), (outcome, body), Vec::new())
            }
        }
    }

    /// Tells the loop something and waits until it is durable.
    async fn tell(&self, command: Command, attachments: Vec<Attachment>) -> Result<Decided, RequestError> {
        let (reply, answer) = oneshot::channel();
        let incoming = Incoming { command: Box::new(command), attachments, reply: Some(reply) };
        self.0.loop_inbox.send(Input::Command(incoming)).map_err(|_| RequestError::Gone)?;
        answer.await.map_err(|_| RequestError::Gone)?
    }

    /// Does what was asked.
    async fn serve(self, asked: Asked, caller: Caller, stop: Stop) -> Result<Done, HostError> {
        match asked {
            Asked::Files(asked) => blocking(move || super::files::serve(&asked, &caller.workspace)).await,
            Asked::SaveArtifact(asked) => blocking(move || self.save_artifact(&asked, &caller)).await,
            Asked::Artifacts(asked) => blocking(move || self.serve_artifacts(&asked, &caller)).await,
            Asked::AuthorizeBash(asked) => super::bash::authorize(&asked, &caller, &self.0.clock),
            Asked::ConsumeBash(shown) => super::bash::consume(&shown),
            Asked::ReportBash(report) => super::bash::report(&report),
            Asked::SubmitOutput(asked) => super::submission::submit(&asked),
            Asked::Document(asked) => self.serve_document(asked, &caller).await,
            Asked::Background(asked) => self.serve_background(asked, &caller).await,
            Asked::Capabilities => Ok(Done::value(self.capabilities(&caller))),
            Asked::Handler { method, arguments } => {
                self.handlers().call(&method, arguments, &caller, &stop).await.map(Done::value)
            }
        }
    }
}

/// Runs what waits for the disk where it holds nobody up.
async fn blocking(act: impl FnOnce() -> Result<Done, HostError> + Send + 'static) -> Result<Done, HostError> {
    match tokio::task::spawn_blocking(act).await {
        Ok(done) => done,
        Err(error) => Err(HostError::new(ErrorKind::Internal, format!("the service failed: {error}"))),
    }
}

/// Small content on its way into the log.
pub(crate) fn attach(bytes: Vec<u8>, done: &mut Done) -> Result<agarose_core::BlobRef, HostError> {
    let attachment =
        Attachment::new(bytes).map_err(|error| HostError::new(ErrorKind::TooLarge, chain(&error)))?;
    let blob = attachment.blob();
    done.attachments.push(attachment);
    Ok(blob)
}

/// The generation as cells write it.
pub(crate) fn generation(text: &str) -> Option<Generation> {
    text.strip_prefix('g')?.parse().ok().map(Generation)
}
