//! What happened: past tense, each with a number that is frozen once it has reached a disk.

use alloc::{boxed::Box, string::String, vec::Vec};

use serde::{Deserialize, Serialize};

use crate::{
    attempt::{EndCause, Executed, Word},
    budget::Counters,
    capability::{BashReport, CapabilityId, Grant, VoidReason},
    host_call::{Artifact, CallId, CallOutcome, Decision, Submission},
    id::{BlobRef, Generation, Language, Lease, Owner, SessionId, TicketId},
    permission::PermissionId,
    slot::{Exit, GroupOutcome, KernelProcess, StopReason},
    ticket::{Timeouts, Work},
    watchdog::{Cause, LadderEnd, Verdict},
    world::Policy,
};

/// A fact. State is what facts fold to, and nothing else.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Event {
    /// A daemon opened the data directory and will decide from here on.
    DaemonStarted(DaemonStarted),
    /// The daemon admits nobody any more.
    DaemonStopping {
        /// Whether kernels are stopped with it or left to their supervisors.
        stop_kernels: bool,
    },

    /// The first request for a session name (or the first since it was removed).
    SessionOpened {
        /// Its name.
        session: SessionId,
        /// The directory that its cells run in, when the first request named one.
        workspace: Option<String>,
    },
    /// Admits nobody until it is resumed; what runs goes on.
    SessionPaused {
        /// Which session.
        session: SessionId,
        /// Who paused it.
        by: Owner,
    },
    /// Admits again.
    SessionResumed {
        /// Which session.
        session: SessionId,
        /// Who resumed it.
        by: Owner,
    },
    /// Refuses new work from here on.
    SessionClosed {
        /// Which session.
        session: SessionId,
        /// Why, in the words of whoever closed it.
        reason: String,
        /// Whether the name is freed when the last work is gone.
        remove: bool,
    },
    /// The name may be used afresh.
    SessionRemoved {
        /// Which session.
        session: SessionId,
    },
    /// Every session admits nobody until all are resumed.
    AllPaused {
        /// Who paused them.
        by: Owner,
    },
    /// Sessions admit again.
    AllResumed {
        /// Who resumed them.
        by: Owner,
    },

    /// A request was accepted; it stands last in its session's queue.
    TicketQueued(Box<TicketQueued>),
    /// The head of the queue became the session's one active ticket.
    TicketAdmitted {
        /// Whose.
        session: SessionId,
        /// Which.
        ticket: TicketId,
    },
    /// Somebody asked for a ticket to be stopped; the first reason stays.
    CancelRequested {
        /// Whose.
        session: SessionId,
        /// Which.
        ticket: TicketId,
        /// Who asked.
        by: Owner,
        /// Why, in their words.
        reason: String,
    },
    /// The last word of a ticket. There is exactly one.
    TicketEnded(TicketEnded),
    /// Nothing routes to the cell any more. Follows its [`Event::TicketEnded`].
    CellClosed {
        /// Whose.
        session: SessionId,
        /// Which.
        ticket: TicketId,
    },

    /// A kernel is about to be started.
    KernelStarting {
        /// For which session.
        session: SessionId,
        /// Which interpreter.
        language: Language,
        /// The life that begins.
        generation: Generation,
        /// The life whose variables are gone, if there was one that ran a cell.
        previous: Option<Generation>,
    },
    /// The worker answered and waits for cells.
    KernelReady {
        /// Of which session.
        session: SessionId,
        /// Which interpreter.
        language: Language,
        /// Which life.
        generation: Generation,
        /// What runs.
        process: KernelProcess,
    },
    /// The kernel did not come up.
    KernelStartFailed {
        /// Of which session.
        session: SessionId,
        /// Which interpreter.
        language: Language,
        /// Which life.
        generation: Generation,
        /// Why, for people.
        reason: String,
        /// Whether there is no such interpreter here (rather than one that failed).
        unavailable: bool,
    },
    /// The kernel is about to be stopped.
    KernelStopRequested {
        /// Of which session.
        session: SessionId,
        /// Which interpreter.
        language: Language,
        /// Which life.
        generation: Generation,
        /// Why.
        reason: StopReason,
    },
    /// The kernel is not there any more, or not ours any more.
    KernelGone {
        /// Of which session.
        session: SessionId,
        /// Which interpreter.
        language: Language,
        /// Which life.
        generation: Generation,
        /// How it ended.
        exit: Exit,
    },
    /// A restarted daemon found the kernel alive and speaks to its supervisor again.
    KernelReattached {
        /// Of which session.
        session: SessionId,
        /// Which interpreter.
        language: Language,
        /// Which life.
        generation: Generation,
    },

    /// The cell is about to be sent; from here on it may have run.
    ExecuteRequested {
        /// Of which session.
        session: SessionId,
        /// Under which lease.
        lease: Lease,
        /// How many cells this session has sent so far, this one included.
        ordinal: u64,
        /// The life whose variables are gone, when this is the first cell after it.
        variables_lost: Option<Generation>,
    },
    /// The worker said that it has begun.
    ExecuteAcknowledged {
        /// Of which session.
        session: SessionId,
        /// Under which lease.
        lease: Lease,
    },
    /// The worker returned a result.
    ResultReceived {
        /// Of which session.
        session: SessionId,
        /// Under which lease.
        lease: Lease,
        /// What the worker said of it.
        status: ResultStatus,
        /// Whether an interrupt of ours was raised in the cell's own code.
        interrupt_landed: bool,
        /// Everything else that it said, as a JSON document.
        record: BlobRef,
        /// Its output.
        output: Output,
    },
    /// The output of a cell that returned no result, as far as it got.
    OutputKept {
        /// Of which session.
        session: SessionId,
        /// Under which lease.
        lease: Lease,
        /// Its output.
        output: Output,
    },
    /// The cell gave a sign of life since its idle deadline was last set.
    ActivityNoted {
        /// Of which session.
        session: SessionId,
        /// Under which lease.
        lease: Lease,
        /// When, on the data directory's clock.
        at: u64,
    },

    /// The watchdog begins to stop a cell.
    LadderStarted {
        /// Of which session.
        session: SessionId,
        /// Under which lease.
        lease: Lease,
        /// Why.
        cause: Cause,
    },
    /// An interrupt is about to be sent.
    InterruptRequested {
        /// Of which session.
        session: SessionId,
        /// Under which lease.
        lease: Lease,
        /// The how-manieth of this lease.
        attempt: u32,
    },
    /// What became of the interrupt.
    InterruptAnswered {
        /// Of which session.
        session: SessionId,
        /// Under which lease.
        lease: Lease,
        /// Whom it reached.
        verdict: Verdict,
    },
    /// The whole group is about to be stopped.
    KillRequested {
        /// Of which session.
        session: SessionId,
        /// Under which lease.
        lease: Lease,
    },
    /// What the probe of the group said.
    GroupStopped {
        /// Of which session.
        session: SessionId,
        /// Under which lease.
        lease: Lease,
        /// What is known of it.
        outcome: GroupOutcome,
    },
    /// The ladder is over; no signal is sent under its lease any more.
    LadderEnded {
        /// Of which session.
        session: SessionId,
        /// Under which lease.
        lease: Lease,
        /// How.
        end: LadderEnd,
    },

    /// What a cell reads, writes and deletes, found without running it.
    CellAnalysed {
        /// Whose.
        session: SessionId,
        /// Which.
        ticket: TicketId,
        /// The version of the analysis.
        analyser: String,
        /// The facts, as a JSON document.
        facts: BlobRef,
    },

    /// A namespace is about to be built anew, in a session of its own.
    RestoreStarted {
        /// Whose namespace.
        session: SessionId,
        /// Which interpreter's.
        language: Language,
        /// The session in which it is built.
        candidate: SessionId,
        /// What is run, as a JSON document.
        plan: BlobRef,
    },
    /// The candidate's kernel became the session's; the candidate has the one that was there.
    RestorePublished {
        /// Whose namespace.
        session: SessionId,
        /// Which interpreter's.
        language: Language,
        /// The session in which it was built.
        candidate: SessionId,
        /// The life that the session goes on with.
        generation: Generation,
        /// The life that was there.
        replaced: Option<Generation>,
    },
    /// The restore is over.
    RestoreEnded {
        /// Whose namespace.
        session: SessionId,
        /// Which interpreter's.
        language: Language,
        /// The session in which it was built.
        candidate: SessionId,
        /// The word.
        outcome: RestoreOutcome,
        /// What was rebuilt and what was not, as a JSON document.
        report: BlobRef,
    },

    /// Somebody has to say yes or no before the cell goes on.
    PermissionProposed {
        /// Of which session.
        session: SessionId,
        /// The question.
        permission: PermissionId,
        /// The cell that waits for it; its budget is frozen meanwhile.
        ticket: Option<TicketId>,
        /// What is asked for.
        method: String,
        /// The particulars, for people.
        detail: String,
        /// When it expires, on the data directory's clock.
        expires: Option<u64>,
    },
    /// It was answered.
    PermissionDecided {
        /// Of which session.
        session: SessionId,
        /// The question.
        permission: PermissionId,
        /// The answer.
        allowed: bool,
        /// Who answered.
        by: Owner,
    },
    /// Nobody answered in time; that is a no.
    PermissionExpired {
        /// Of which session.
        session: SessionId,
        /// The question.
        permission: PermissionId,
    },

    /// A cell asks its host for something.
    HostCallStarted(Box<HostCallStarted>),
    /// Its service is about to begin; from here on it may have had its effect.
    HostCallDispatched {
        /// Of which session.
        session: SessionId,
        /// Under which lease.
        lease: Lease,
        /// Which call.
        call: CallId,
    },
    /// The one answer of a call.
    HostCallAnswered {
        /// Of which session.
        session: SessionId,
        /// Under which lease.
        lease: Lease,
        /// Which call.
        call: CallId,
        /// How it ended.
        outcome: CallOutcome,
        /// How long the answer is, in bytes.
        bytes: u64,
        /// The answer, should it have to be sent again.
        answer: Option<BlobRef>,
    },
    /// The cell gave a call up; its service is told to stop.
    HostCallCancelRequested {
        /// Of which session.
        session: SessionId,
        /// Under which lease.
        lease: Lease,
        /// Which call.
        call: CallId,
    },
    /// The cell has ended, and its calls are told to; its last word waits for them.
    CellDraining {
        /// Of which session.
        session: SessionId,
        /// Under which lease.
        lease: Lease,
        /// The word that it will have.
        word: Word,
        /// Whether it ran.
        executed: Executed,
        /// What the word rests on.
        cause: EndCause,
        /// Until when its calls are waited for, on the data directory's clock.
        until: u64,
    },

    /// One exact command may be run once.
    CapabilityGranted {
        /// Of which session.
        session: SessionId,
        /// Under which lease.
        lease: Lease,
        /// What it is bound to.
        grant: Box<Grant>,
    },
    /// It is spent; from here on the command may have been run.
    CapabilityConsumed {
        /// Of which session.
        session: SessionId,
        /// Under which lease.
        lease: Lease,
        /// Which.
        capability: CapabilityId,
    },
    /// How its command ended.
    CapabilityReported {
        /// Of which session.
        session: SessionId,
        /// Under which lease.
        lease: Lease,
        /// Which.
        capability: CapabilityId,
        /// How.
        report: BashReport,
    },
    /// It is gone without a report.
    CapabilityVoided {
        /// Of which session.
        session: SessionId,
        /// Under which lease.
        lease: Lease,
        /// Which.
        capability: CapabilityId,
        /// Why.
        reason: VoidReason,
    },

    /// A cell handed in a result; it counts if the cell completes, and the last one counts.
    OutputSubmitted {
        /// Of which session.
        session: SessionId,
        /// Under which lease.
        lease: Lease,
        /// It.
        submission: Submission,
    },
    /// A cell saved a version of an artifact.
    ArtifactSaved {
        /// Of which session.
        session: SessionId,
        /// Under which lease.
        lease: Lease,
        /// It.
        artifact: Box<Artifact>,
    },
    /// A cell wrote a document of its session.
    DocumentWritten {
        /// Of which session.
        session: SessionId,
        /// Under which lease.
        lease: Lease,
        /// Which.
        name: String,
        /// The how-manieth version of it this is.
        version: u64,
        /// What it holds now.
        content: BlobRef,
    },
    /// Somebody was given a cell's output up to here.
    OutputObserved {
        /// Of which session.
        session: SessionId,
        /// Which ticket.
        ticket: TicketId,
        /// An offset in its stream.
        through: u64,
    },
}

/// A cell asks its host for something.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostCallStarted {
    /// Of which session.
    pub session: SessionId,
    /// Under which lease.
    pub lease: Lease,
    /// Which call.
    pub call: CallId,
    /// What is asked for.
    pub method: String,
    /// Digest of its arguments.
    pub digest: [u8; 32],
    /// How long its arguments are, in bytes.
    pub bytes: u64,
    /// Its arguments in short, with secrets masked.
    pub preview: String,
    /// Whether it may be done twice.
    pub repeatable: bool,
    /// What the policy says of it.
    pub decision: Decision,
    /// The question that somebody has to answer first.
    pub permission: Option<PermissionId>,
}

/// The record that every start appends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DaemonStarted {
    /// The program's version.
    pub version: String,
    /// Which boot of the machine.
    pub boot: String,
    /// The daemon's process id.
    pub pid: u32,
    /// Milliseconds since that boot, so that the next start of the same boot knows how long nobody was there.
    pub uptime: u64,
    /// What opening found, cut or repaired, for people; empty when nothing.
    pub found: Vec<String>,
    /// The rules that hold from here on.
    pub policy: Policy,
}

/// A request was accepted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TicketQueued {
    /// Whose queue.
    pub session: SessionId,
    /// Its name for ever.
    pub ticket: TicketId,
    /// Who asked.
    pub owner: Owner,
    /// Which interpreter.
    pub language: Language,
    /// What is to be done.
    pub work: Work,
    /// The caller's own key: the same key with the same request is the same ticket.
    pub key: Option<String>,
    /// Digest of the request, to tell a repeat from a conflict.
    pub digest: [u8; 32],
    /// Runs only if that ticket completed.
    pub after: Option<TicketId>,
    /// How that ticket had ended, when it had.
    pub after_word: Option<Word>,
    /// The ticket that this one tries again.
    pub retry_of: Option<TicketId>,
    /// Its limits.
    pub timeouts: Timeouts,
    /// The branch of work it belongs to, in the caller's words.
    pub branch: Option<String>,
    /// What it will touch, in the caller's words.
    pub resource_keys: Vec<String>,
    /// Anything else the caller wants kept, as JSON text.
    pub metadata: Option<String>,
}

impl TicketQueued {
    /// A ticket with nothing but what every ticket has.
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
            after_word: None,
            retry_of: None,
            timeouts: Timeouts::default(),
            branch: None,
            resource_keys: Vec::new(),
            metadata: None,
        }
    }
}

/// The last word of a ticket.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TicketEnded {
    /// Whose.
    pub session: SessionId,
    /// Which.
    pub ticket: TicketId,
    /// The word.
    pub word: Word,
    /// Whether it ran.
    pub executed: Executed,
    /// What it rests on.
    pub cause: EndCause,
}

/// How much of a namespace a restore rebuilt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RestoreOutcome {
    /// Everything that was wanted.
    Complete,
    /// Some of it; the rest is listed.
    Partial,
    /// Nothing; the session has the kernel that it had.
    Failed,
}

impl RestoreOutcome {
    /// The word used on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::Partial => "partial",
            Self::Failed => "failed",
        }
    }
}

/// What the worker said of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ResultStatus {
    /// It ran to its end.
    Ok,
    /// It raised.
    Error,
    /// An interrupt of ours ended it.
    Interrupted,
}

/// What a cell printed and showed, as kept.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Output {
    /// Bytes on standard output.
    pub stdout: Counters,
    /// Bytes on standard error.
    pub stderr: Counters,
    /// The retained stream of all channels in order; absent when empty.
    pub stream: Option<BlobRef>,
}

impl Event {
    /// Its frozen number. Numbers are never used again for something else.
    #[must_use]
    pub const fn kind(&self) -> u16 {
        match self {
            Self::DaemonStarted(_) => 1,
            Self::DaemonStopping { .. } => 2,
            Self::SessionOpened { .. } => 10,
            Self::SessionPaused { .. } => 11,
            Self::SessionResumed { .. } => 12,
            Self::SessionClosed { .. } => 13,
            Self::SessionRemoved { .. } => 14,
            Self::AllPaused { .. } => 15,
            Self::AllResumed { .. } => 16,
            Self::TicketQueued(_) => 20,
            Self::TicketAdmitted { .. } => 21,
            Self::CancelRequested { .. } => 22,
            Self::TicketEnded(_) => 23,
            Self::CellClosed { .. } => 24,
            Self::KernelStarting { .. } => 30,
            Self::KernelReady { .. } => 31,
            Self::KernelStartFailed { .. } => 32,
            Self::KernelStopRequested { .. } => 33,
            Self::KernelGone { .. } => 34,
            Self::KernelReattached { .. } => 35,
            Self::ExecuteRequested { .. } => 40,
            Self::ExecuteAcknowledged { .. } => 41,
            Self::ResultReceived { .. } => 42,
            Self::OutputKept { .. } => 43,
            Self::ActivityNoted { .. } => 44,
            Self::CellAnalysed { .. } => 45,
            Self::LadderStarted { .. } => 50,
            Self::InterruptRequested { .. } => 51,
            Self::InterruptAnswered { .. } => 52,
            Self::KillRequested { .. } => 53,
            Self::GroupStopped { .. } => 54,
            Self::LadderEnded { .. } => 55,
            Self::PermissionProposed { .. } => 60,
            Self::PermissionDecided { .. } => 61,
            Self::PermissionExpired { .. } => 62,
            Self::RestoreStarted { .. } => 70,
            Self::RestorePublished { .. } => 71,
            Self::RestoreEnded { .. } => 72,
            Self::HostCallStarted(_) => 80,
            Self::HostCallDispatched { .. } => 81,
            Self::HostCallAnswered { .. } => 82,
            Self::HostCallCancelRequested { .. } => 83,
            Self::CellDraining { .. } => 84,
            Self::CapabilityGranted { .. } => 90,
            Self::CapabilityConsumed { .. } => 91,
            Self::CapabilityReported { .. } => 92,
            Self::CapabilityVoided { .. } => 93,
            Self::OutputSubmitted { .. } => 100,
            Self::ArtifactSaved { .. } => 101,
            Self::DocumentWritten { .. } => 102,
            Self::OutputObserved { .. } => 103,
        }
    }

    /// The name of its kind, as the inspector and the export print it.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::DaemonStarted(_) => "DaemonStarted",
            Self::DaemonStopping { .. } => "DaemonStopping",
            Self::SessionOpened { .. } => "SessionOpened",
            Self::SessionPaused { .. } => "SessionPaused",
            Self::SessionResumed { .. } => "SessionResumed",
            Self::SessionClosed { .. } => "SessionClosed",
            Self::SessionRemoved { .. } => "SessionRemoved",
            Self::AllPaused { .. } => "AllPaused",
            Self::AllResumed { .. } => "AllResumed",
            Self::TicketQueued(_) => "TicketQueued",
            Self::TicketAdmitted { .. } => "TicketAdmitted",
            Self::CancelRequested { .. } => "CancelRequested",
            Self::TicketEnded(_) => "TicketEnded",
            Self::CellClosed { .. } => "CellClosed",
            Self::KernelStarting { .. } => "KernelStarting",
            Self::KernelReady { .. } => "KernelReady",
            Self::KernelStartFailed { .. } => "KernelStartFailed",
            Self::KernelStopRequested { .. } => "KernelStopRequested",
            Self::KernelGone { .. } => "KernelGone",
            Self::KernelReattached { .. } => "KernelReattached",
            Self::ExecuteRequested { .. } => "ExecuteRequested",
            Self::ExecuteAcknowledged { .. } => "ExecuteAcknowledged",
            Self::ResultReceived { .. } => "ResultReceived",
            Self::OutputKept { .. } => "OutputKept",
            Self::ActivityNoted { .. } => "ActivityNoted",
            Self::CellAnalysed { .. } => "CellAnalysed",
            Self::LadderStarted { .. } => "LadderStarted",
            Self::InterruptRequested { .. } => "InterruptRequested",
            Self::InterruptAnswered { .. } => "InterruptAnswered",
            Self::KillRequested { .. } => "KillRequested",
            Self::GroupStopped { .. } => "GroupStopped",
            Self::LadderEnded { .. } => "LadderEnded",
            Self::PermissionProposed { .. } => "PermissionProposed",
            Self::PermissionDecided { .. } => "PermissionDecided",
            Self::PermissionExpired { .. } => "PermissionExpired",
            Self::RestoreStarted { .. } => "RestoreStarted",
            Self::RestorePublished { .. } => "RestorePublished",
            Self::RestoreEnded { .. } => "RestoreEnded",
            Self::HostCallStarted(_) => "HostCallStarted",
            Self::HostCallDispatched { .. } => "HostCallDispatched",
            Self::HostCallAnswered { .. } => "HostCallAnswered",
            Self::HostCallCancelRequested { .. } => "HostCallCancelRequested",
            Self::CellDraining { .. } => "CellDraining",
            Self::CapabilityGranted { .. } => "CapabilityGranted",
            Self::CapabilityConsumed { .. } => "CapabilityConsumed",
            Self::CapabilityReported { .. } => "CapabilityReported",
            Self::CapabilityVoided { .. } => "CapabilityVoided",
            Self::OutputSubmitted { .. } => "OutputSubmitted",
            Self::ArtifactSaved { .. } => "ArtifactSaved",
            Self::DocumentWritten { .. } => "DocumentWritten",
            Self::OutputObserved { .. } => "OutputObserved",
        }
    }

    /// The session that it belongs to; the daemon's own events have none.
    #[must_use]
    pub const fn session(&self) -> Option<&SessionId> {
        match self {
            Self::DaemonStarted(_)
            | Self::DaemonStopping { .. }
            | Self::AllPaused { .. }
            | Self::AllResumed { .. } => None,
            Self::TicketQueued(queued) => Some(&queued.session),
            Self::HostCallStarted(started) => Some(&started.session),
            Self::TicketEnded(TicketEnded { session, .. })
            | Self::SessionOpened { session, .. }
            | Self::SessionPaused { session, .. }
            | Self::SessionResumed { session, .. }
            | Self::SessionClosed { session, .. }
            | Self::SessionRemoved { session }
            | Self::TicketAdmitted { session, .. }
            | Self::CancelRequested { session, .. }
            | Self::CellClosed { session, .. }
            | Self::KernelStarting { session, .. }
            | Self::KernelReady { session, .. }
            | Self::KernelStartFailed { session, .. }
            | Self::KernelStopRequested { session, .. }
            | Self::KernelGone { session, .. }
            | Self::KernelReattached { session, .. }
            | Self::ExecuteRequested { session, .. }
            | Self::ExecuteAcknowledged { session, .. }
            | Self::ResultReceived { session, .. }
            | Self::OutputKept { session, .. }
            | Self::ActivityNoted { session, .. }
            | Self::CellAnalysed { session, .. }
            | Self::RestoreStarted { session, .. }
            | Self::RestorePublished { session, .. }
            | Self::RestoreEnded { session, .. }
            | Self::LadderStarted { session, .. }
            | Self::InterruptRequested { session, .. }
            | Self::InterruptAnswered { session, .. }
            | Self::KillRequested { session, .. }
            | Self::GroupStopped { session, .. }
            | Self::LadderEnded { session, .. }
            | Self::PermissionProposed { session, .. }
            | Self::PermissionDecided { session, .. }
            | Self::PermissionExpired { session, .. }
            | Self::HostCallDispatched { session, .. }
            | Self::HostCallAnswered { session, .. }
            | Self::HostCallCancelRequested { session, .. }
            | Self::CellDraining { session, .. }
            | Self::CapabilityGranted { session, .. }
            | Self::CapabilityConsumed { session, .. }
            | Self::CapabilityReported { session, .. }
            | Self::CapabilityVoided { session, .. }
            | Self::OutputSubmitted { session, .. }
            | Self::ArtifactSaved { session, .. }
            | Self::DocumentWritten { session, .. }
            | Self::OutputObserved { session, .. } => Some(session),
        }
    }

    /// The ticket that it belongs to, if it belongs to one.
    #[must_use]
    pub const fn ticket(&self) -> Option<TicketId> {
        match self {
            Self::TicketQueued(queued) => Some(queued.ticket),
            Self::HostCallStarted(started) => Some(started.lease.ticket),
            Self::TicketEnded(TicketEnded { ticket, .. })
            | Self::TicketAdmitted { ticket, .. }
            | Self::CancelRequested { ticket, .. }
            | Self::CellClosed { ticket, .. }
            | Self::CellAnalysed { ticket, .. }
            | Self::OutputObserved { ticket, .. } => Some(*ticket),
            Self::ExecuteRequested { lease, .. }
            | Self::ExecuteAcknowledged { lease, .. }
            | Self::ResultReceived { lease, .. }
            | Self::OutputKept { lease, .. }
            | Self::ActivityNoted { lease, .. }
            | Self::LadderStarted { lease, .. }
            | Self::InterruptRequested { lease, .. }
            | Self::InterruptAnswered { lease, .. }
            | Self::KillRequested { lease, .. }
            | Self::GroupStopped { lease, .. }
            | Self::LadderEnded { lease, .. }
            | Self::HostCallDispatched { lease, .. }
            | Self::HostCallAnswered { lease, .. }
            | Self::HostCallCancelRequested { lease, .. }
            | Self::CellDraining { lease, .. }
            | Self::CapabilityGranted { lease, .. }
            | Self::CapabilityConsumed { lease, .. }
            | Self::CapabilityReported { lease, .. }
            | Self::CapabilityVoided { lease, .. }
            | Self::OutputSubmitted { lease, .. }
            | Self::ArtifactSaved { lease, .. }
            | Self::DocumentWritten { lease, .. } => Some(lease.ticket),
            Self::PermissionProposed { ticket, .. } => *ticket,
            Self::DaemonStarted(_)
            | Self::DaemonStopping { .. }
            | Self::SessionOpened { .. }
            | Self::SessionPaused { .. }
            | Self::SessionResumed { .. }
            | Self::SessionClosed { .. }
            | Self::SessionRemoved { .. }
            | Self::AllPaused { .. }
            | Self::AllResumed { .. }
            | Self::KernelStarting { .. }
            | Self::KernelReady { .. }
            | Self::KernelStartFailed { .. }
            | Self::KernelStopRequested { .. }
            | Self::KernelGone { .. }
            | Self::KernelReattached { .. }
            | Self::PermissionDecided { .. }
            | Self::PermissionExpired { .. }
            | Self::RestoreStarted { .. }
            | Self::RestorePublished { .. }
            | Self::RestoreEnded { .. } => None,
        }
    }

    /// The caller's own key, on the event that binds it to a ticket.
    #[must_use]
    pub fn key(&self) -> Option<&str> {
        if let Self::TicketQueued(queued) = self { queued.key.as_deref() } else { None }
    }
}
