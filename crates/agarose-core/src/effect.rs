//! What a fact obliges us to do outside: imperative, at most once.
//!
//! The event before an effect already says that it may have happened. Every request to a
//! supervisor is idempotent there (by lease and attempt), so what a restart finds unanswered may be
//! asked again; what must not happen twice is decided by the supervisor, which knows.

use crate::{
    host_call::{CallId, CallOutcome},
    id::{BlobRef, Generation, Language, Lease, SessionId},
    time::Millis,
};

/// An act outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Start a supervisor with a worker.
    StartKernel {
        /// For which session.
        session: SessionId,
        /// Which interpreter.
        language: Language,
        /// Which life.
        generation: Generation,
    },
    /// Send a cell.
    SendExecute {
        /// Of which session.
        session: SessionId,
        /// Under which lease.
        lease: Lease,
        /// Which interpreter.
        language: Language,
        /// Its source.
        source: BlobRef,
        /// What tracebacks call it.
        name: alloc::string::String,
        /// Its number in the session.
        ordinal: u64,
    },
    /// Send an interrupt.
    SendInterrupt {
        /// Of which session.
        session: SessionId,
        /// To whom, and to nobody else.
        lease: Lease,
        /// Which attempt.
        attempt: u32,
    },
    /// Stop the whole group under a lease.
    StopGroup {
        /// Of which session.
        session: SessionId,
        /// Whose group.
        lease: Lease,
        /// How long TERM and then KILL are waited for, each.
        grace: Millis,
    },
    /// Stop a kernel that runs nothing of ours.
    StopKernel {
        /// Of which session.
        session: SessionId,
        /// Which interpreter.
        language: Language,
        /// Which life.
        generation: Generation,
        /// How long TERM and then KILL are waited for, each.
        grace: Millis,
    },
    /// Let a call's service begin.
    PerformHostCall {
        /// Of which session.
        session: SessionId,
        /// Who asked.
        lease: Lease,
        /// Which call.
        call: CallId,
    },
    /// Let a call's service stop.
    CancelHostCall {
        /// Of which session.
        session: SessionId,
        /// Who asked.
        lease: Lease,
        /// Which call.
        call: CallId,
    },
    /// Give a call its answer.
    AnswerHostCall {
        /// Of which session.
        session: SessionId,
        /// Who asked.
        lease: Lease,
        /// Which call.
        call: CallId,
        /// How it ended.
        outcome: CallOutcome,
    },
    /// The log has the result; the supervisor need not hold it any longer.
    ReleaseResult {
        /// Of which session.
        session: SessionId,
        /// Under which lease.
        lease: Lease,
    },
}

/// What a restart must look at again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Obligation {
    /// Of which session.
    pub session: SessionId,
    /// Which interpreter.
    pub language: Language,
    /// Which life of its kernel.
    pub generation: Generation,
    /// The execution that was sent to it and has no last word.
    pub lease: Option<Lease>,
    /// Whether the kernel had said that it is ready.
    pub ready: bool,
}
