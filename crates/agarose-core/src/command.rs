//! What somebody asks for, or what the outside says: imperative, and it may be refused.

use alloc::{boxed::Box, string::String, vec::Vec};

use crate::{
    attempt::Word,
    event::{DaemonStarted, Output, RestoreOutcome, ResultStatus},
    host_call::{Answered, CallId, Called},
    id::{BlobRef, Generation, Language, Lease, Owner, SessionId, TicketId},
    permission::PermissionId,
    slot::{Exit, GroupOutcome, KernelProcess},
    ticket::{Timeouts, Work},
    time::{Millis, Stamp},
    watchdog::Verdict,
};

/// What comes in with a command because the core has no clock and no randomness of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Context {
    /// When the command is decided.
    pub now: Stamp,
    /// A ticket id that was never used, for tickets that the decision itself makes.
    pub fresh: TicketId,
}

impl Context {
    /// The next ticket id of this decision: the low bits of an id are random, so those that follow
    /// a fresh one are fresh too.
    pub(crate) const fn mint(&mut self) -> TicketId {
        let minted = self.fresh;
        self.fresh = TicketId(minted.0.wrapping_add(1));
        minted
    }
}

/// A request or an observation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// A daemon has opened the data directory.
    StartDaemon(DaemonStarted),
    /// Admit nobody any more.
    StopDaemon {
        /// Whether kernels are stopped or left to their supervisors.
        stop_kernels: bool,
    },
    /// Accept a ticket.
    Submit(Box<Submit>),
    /// Stop a ticket, wherever it stands.
    Cancel(Cancel),
    /// Admit nobody in a session until it is resumed.
    Pause {
        /// Which; absent means all.
        session: Option<SessionId>,
        /// Who asks.
        by: Owner,
    },
    /// Admit again.
    Resume {
        /// Which; absent means all.
        session: Option<SessionId>,
        /// Who asks.
        by: Owner,
    },
    /// Refuse new work, cancel what waits, stop what runs.
    CloseSession {
        /// Which.
        session: SessionId,
        /// Who asks.
        by: Owner,
        /// Why.
        reason: String,
        /// Whether the name is freed afterwards.
        remove: bool,
    },
    /// Ask somebody before a cell goes on.
    ProposePermission {
        /// Of which session.
        session: SessionId,
        /// The cell that waits.
        ticket: Option<TicketId>,
        /// What is asked for.
        method: String,
        /// The particulars, for people.
        detail: String,
        /// How long an answer is awaited.
        expires_after: Option<Millis>,
    },
    /// Answer a question.
    DecidePermission {
        /// Which.
        permission: PermissionId,
        /// Yes or no.
        allow: bool,
        /// Who answers.
        by: Owner,
    },
    /// Begin to build a session's namespace anew, in a session of its own.
    StartRestore {
        /// Whose namespace.
        session: SessionId,
        /// Which interpreter's.
        language: Language,
        /// The session in which it is built.
        candidate: SessionId,
        /// What is run, as a JSON document.
        plan: BlobRef,
    },
    /// Give the session the kernel of its candidate.
    PublishRestore {
        /// Whose namespace.
        session: SessionId,
        /// Which interpreter's.
        language: Language,
        /// How many cells the session had sent when the plan was made.
        ordinal: u64,
    },
    /// End a restore, and take its candidate away with the kernel that it has.
    EndRestore {
        /// Whose namespace.
        session: SessionId,
        /// Which interpreter's.
        language: Language,
        /// How much was rebuilt.
        outcome: RestoreOutcome,
        /// What was and what was not, as a JSON document.
        report: BlobRef,
    },
    /// Time has passed. A late or doubled tick decides nothing.
    Tick,
    /// Go on with whatever a session can go on with; decides nothing when there is nothing.
    Settle {
        /// Which.
        session: SessionId,
    },
    /// Something happened to a kernel.
    Kernel {
        /// Of which session.
        session: SessionId,
        /// Which interpreter.
        language: Language,
        /// Which life.
        generation: Generation,
        /// What.
        report: KernelReport,
    },
    /// Something happened to an execution.
    Execution {
        /// Of which session.
        session: SessionId,
        /// Under which lease.
        lease: Lease,
        /// What.
        report: ExecutionReport,
    },
}

/// A request for a ticket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Submit {
    /// Whose queue.
    pub session: SessionId,
    /// Its name for ever.
    pub ticket: TicketId,
    /// Who asks.
    pub owner: Owner,
    /// Which interpreter.
    pub language: Language,
    /// What is to be done.
    pub work: Work,
    /// The caller's own key.
    pub key: Option<String>,
    /// Digest of the request.
    pub digest: [u8; 32],
    /// Run only if that ticket completed.
    pub after: Option<TicketId>,
    /// The ticket that this one tries again.
    pub retry_of: Option<TicketId>,
    /// Its limits, already resolved against the defaults.
    pub timeouts: Timeouts,
    /// The branch of work it belongs to.
    pub branch: Option<String>,
    /// What it will touch.
    pub resource_keys: Vec<String>,
    /// The directory that the session's cells run in, should this request open the session.
    pub workspace: Option<String>,
    /// Anything else to be kept, as JSON text.
    pub metadata: Option<String>,
    /// What an analysis says of the cell.
    pub analysis: Option<Analysis>,
    /// Tickets that this request touches and that ended so long ago that only the log knows them:
    /// under its key, under its id, or the one it follows.
    pub known: Vec<KnownTicket>,
}

impl Submit {
    /// A request for nothing but what every ticket has.
    #[must_use]
    pub fn plain(session: SessionId, ticket: TicketId, owner: Owner, language: Language, work: Work) -> Self {
        Self {
            session,
            ticket,
            owner,
            language,
            work,
            key: None,
            digest: [0; 32],
            after: None,
            retry_of: None,
            timeouts: Timeouts::default(),
            branch: None,
            resource_keys: Vec::new(),
            workspace: None,
            metadata: None,
            analysis: None,
            known: Vec::new(),
        }
    }
}

/// What an analysis says of a cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Analysis {
    /// Its version.
    pub analyser: String,
    /// The facts, as a JSON document.
    pub facts: BlobRef,
}

/// A ticket that has ended, as the log knows it.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct KnownTicket {
    /// Which.
    pub ticket: TicketId,
    /// Whose.
    pub session: SessionId,
    /// Under which key.
    pub key: Option<String>,
    /// Digest of its request.
    pub digest: [u8; 32],
    /// Its last word.
    pub word: Word,
}

/// A request to stop a ticket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cancel {
    /// Which.
    pub ticket: TicketId,
    /// Who asks; it must be its owner.
    pub owner: Owner,
    /// Why.
    pub reason: String,
    /// How far to go.
    pub reach: Reach,
}

/// How far a request to stop a ticket goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Only while it waits.
    Queued,
    /// One interrupt to the running execution and nothing more.
    Interrupt,
    /// Wherever it stands, with the whole ladder.
    Full,
}

/// What a supervisor says of its kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KernelReport {
    /// It takes cells.
    Ready(KernelProcess),
    /// It did not come up.
    StartFailed {
        /// Why, for people.
        reason: String,
        /// Whether there is no such interpreter here.
        unavailable: bool,
    },
    /// It is gone.
    Gone {
        /// How.
        exit: Exit,
        /// Whether it happened while no daemon was there.
        while_down: bool,
        /// Whether the cell that was sent had begun, when somebody could tell.
        began: Option<bool>,
        /// The output of that cell as far as it got.
        output: Option<Output>,
        /// What the stop of the rest of its group found, when there was a rest.
        left: Option<GroupOutcome>,
    },
    /// A restarted daemon speaks to it again.
    Reattached,
}

/// What a supervisor says of an execution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExecutionReport {
    /// It has begun.
    Acknowledged,
    /// It returned.
    Result {
        /// What the worker said of it.
        status: ResultStatus,
        /// Whether an interrupt of ours was raised in the cell's own code.
        interrupt_landed: bool,
        /// Everything else that it said.
        record: BlobRef,
        /// Its output.
        output: Output,
    },
    /// It gave a sign of life at this point of the data directory's clock.
    Active {
        /// When.
        at: u64,
    },
    /// What became of an interrupt.
    Interrupt {
        /// Which attempt.
        attempt: u32,
        /// Whom it reached.
        verdict: Verdict,
    },
    /// It asks its host for something; again, when it was not answered over a new connection.
    HostCall(Box<Called>),
    /// It gave a call up.
    HostCallGivenUp {
        /// Which.
        call: CallId,
    },
    /// A service has done what a call asked for, or not.
    HostCallAnswered {
        /// Which.
        call: CallId,
        /// What the service says.
        answered: Box<Answered>,
    },
    /// Somebody was given its output up to here.
    Observed {
        /// An offset in its stream.
        through: u64,
    },
    /// What the probe of its group said.
    Stopped {
        /// What is known.
        outcome: GroupOutcome,
        /// Its output as far as it got.
        output: Option<Output>,
    },
}

impl ExecutionReport {
    /// The call that somebody waits for the answer of.
    pub(crate) fn call(&self) -> Option<CallId> {
        match self {
            Self::HostCall(called) => Some(called.call),
            Self::HostCallAnswered { call, .. } => Some(*call),
            Self::Acknowledged
            | Self::Result { .. }
            | Self::Active { .. }
            | Self::Interrupt { .. }
            | Self::HostCallGivenUp { .. }
            | Self::Observed { .. }
            | Self::Stopped { .. } => None,
        }
    }
}
