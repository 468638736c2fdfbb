//! What cells ask of their host: the dispatcher, which no service can be reached around.
//!
//! A call is checked against its method's schema, put before the policy, and said to the loop, which writes it
//! down and decides. Its service begins when the loop says so, and the cell gets its answer when that is durable.
//!
//! | File | Its one reason |
//! |---|---|
//! | `call` | one call, from its arrival to its answer |
//! | `method` | the methods, and what each may take |
//! | `error` | why a call has no value |
//! | `policy` | what the rules say of a call |
//! | `secrets` | what must not be read, and not be written down |
//! | `bash`, `files`, `artifacts`, `documents`, `submission`, `background` | the services |
//! | `handlers` | methods that a driver serves |

mod artifacts;
mod background;
mod bash;
mod call;
mod documents;
mod error;
mod files;
pub mod handlers;
mod method;
pub mod policy;
mod secrets;
mod submission;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    sync::{Arc, Mutex, OnceLock, PoisonError, mpsc},
};

use agarose_core::{
    Effect, Generation, Lease,
    host_call::{CallId, CallOutcome},
};
use agarose_journal::Reader;
use tokio::sync::{Notify, mpsc as tokio_mpsc};

pub use artifacts::{ArtifactView, LineageView};
pub(crate) use call::{Caller, Pending};
pub use error::ErrorKind;
pub(crate) use error::HostError;

use self::{handlers::Handlers, policy::Policy};
use crate::{Engine, clock::Clock, driver::Input, kernels::ToLink};

/// The host of every cell of a daemon.
#[derive(Clone)]
pub(crate) struct Host(Arc<Shared>);

pub(crate) struct Shared {
    runtime: tokio::runtime::Handle,
    loop_inbox: mpsc::Sender<Input>,
    reader: Reader,
    clock: Clock,
    data_dir: PathBuf,
    policy: Policy,
    pending: Mutex<BTreeMap<(Generation, CallId), Pending>>,
    /// Calls that may begin and whose arguments have not come yet: somebody answered a question before the
    /// supervisor of a cell was found again.
    early: Mutex<BTreeSet<(Generation, CallId)>>,
    handlers: Handlers,
    artifacts: artifacts::Index,
    /// What the services of the daemon itself are asked for; there once it has started.
    engine: OnceLock<Engine>,
}

/// What a host is made of.
pub(crate) struct Parts {
    pub(crate) runtime: tokio::runtime::Handle,
    pub(crate) loop_inbox: mpsc::Sender<Input>,
    pub(crate) reader: Reader,
    pub(crate) clock: Clock,
    pub(crate) data_dir: PathBuf,
    pub(crate) policy: Policy,
}

impl Host {
    pub(crate) fn new(parts: Parts) -> Self {
        let Parts { runtime, loop_inbox, reader, clock, data_dir, policy } = parts;
        Self(Arc::new(Shared {
            runtime,
            loop_inbox,
            reader,
            clock,
            data_dir,
            policy,
            pending: Mutex::default(),
            early: Mutex::default(),
            handlers: Handlers::default(),
            artifacts: artifacts::Index::default(),
            engine: OnceLock::new(),
        }))
    }

    /// Gives it the engine whose sessions its services may use.
    pub(crate) fn know(&self, engine: Engine) {
        // It is said once, at the start.
        let _ = self.0.engine.set(engine);
    }

    /// The methods that drivers serve.
    pub(crate) fn handlers(&self) -> &Handlers {
        &self.0.handlers
    }

    /// Every version of every artifact that the log has.
    pub(crate) fn artifacts(&self) -> Result<Vec<ArtifactView>, String> {
        self.0.artifacts.all(&self.0.reader)
    }

    /// Where a version came from, and what came from it.
    pub(crate) fn lineage(
        &self,
        version: &str,
        limits: (usize, usize),
    ) -> Result<Option<LineageView>, String> {
        self.0.artifacts.lineage(&self.0.reader, version, limits)
    }

    fn pending<T>(&self, act: impl FnOnce(&mut BTreeMap<(Generation, CallId), Pending>) -> T) -> T {
        act(&mut self.0.pending.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn early<T>(&self, act: impl FnOnce(&mut BTreeSet<(Generation, CallId)>) -> T) -> T {
        act(&mut self.0.early.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Does what the loop says; nothing when it is of another kind.
    pub(crate) fn act(&self, effect: &Effect) {
        match effect {
            Effect::PerformHostCall { lease, call, .. } => self.perform(*lease, *call),
            Effect::CancelHostCall { lease, call, .. } => {
                let stop = self.pending(|pending| {
                    pending.get(&(lease.generation, *call)).map(|pending| Arc::clone(&pending.stop))
                });
                if let Some(stop) = stop {
                    stop.notify_one();
                }
            }
            Effect::AnswerHostCall { lease, call, outcome, .. } => self.deliver(*lease, *call, outcome, None),
            Effect::StartKernel { .. }
            | Effect::SendExecute { .. }
            | Effect::SendInterrupt { .. }
            | Effect::StopGroup { .. }
            | Effect::StopKernel { .. }
            | Effect::ReleaseResult { .. } => {}
        }
    }

    /// Gives a call its answer: its own when it has one, else what the outcome says.
    fn deliver(&self, lease: Lease, call: CallId, outcome: &CallOutcome, stored: Option<Vec<u8>>) {
        self.early(|early| early.remove(&(lease.generation, call)));
        let Some(pending) = self.pending(|pending| pending.remove(&(lease.generation, call))) else { return };
        // What was decided may be something else than what the service said.
        let own = pending.body.filter(|(said, _)| said == outcome);
        let (ok, body) = match (own, stored, outcome) {
            (Some((_, body)), _, outcome) => (*outcome == CallOutcome::Ok, body),
            (None, Some(stored), CallOutcome::Ok) => (true, stored),
            (None, None, CallOutcome::Ok) => {
                let lost = HostError::new(
                    ErrorKind::OutcomeUnknown,
                    "the call was done, and its answer was lost with the daemon that had it",
                );
                (false, lost.to_json())
            }
            (None, _, outcome) => (false, HostError::of(outcome).to_json()),
        };
        if let Some(link) = pending.caller.link.upgrade() {
            // A connection that is gone takes its kernel's calls along, or asks again.
            let _ = link.send(ToLink::HostReply { call, ok, body });
        }
    }
}

/// Who told us to stop.
pub(crate) type Stop = Arc<Notify>;

/// A way back to a kernel.
pub(crate) type Link = tokio_mpsc::WeakUnboundedSender<ToLink>;
