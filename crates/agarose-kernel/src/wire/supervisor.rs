//! What a daemon and a supervisor say to each other.
//!
//! Every request carries the generation it is meant for; a supervisor of another generation
//! refuses it. What the daemon asks may be asked again: an execution by its id, an interrupt by id
//! and attempt, a stop as such.

use agarose_core::{Counters, Generation, Unit};
use agarose_process::{Exit, ProcessId, StopOutcome};
use serde::{Deserialize, Serialize};

use crate::spec::PassedLimit;

use super::{
    Channel, ExecutionId, Run, generation_text,
    worker::{CellResult, Ready},
};

/// Daemon to supervisor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "t", rename_all = "snake_case")]
pub enum ToSupervisor {
    /// The first frame; anything else closes the connection.
    Attach {
        /// [`super::PROTOCOL`].
        protocol: u32,
        /// Which life of the kernel is meant.
        #[serde(with = "generation_text")]
        generation: Generation,
        /// The secret from the specification.
        secret: String,
        /// Who attaches.
        daemon: Daemon,
    },
    /// Run the body as one cell. A second with the same id is answered by the state of the first.
    Execute {
        /// Which life of the kernel is meant.
        #[serde(with = "generation_text")]
        generation: Generation,
        /// Which execution.
        id: ExecutionId,
        /// The file name for tracebacks, such as `<cell 3>`.
        name: String,
        /// The number of the cell in its session.
        ordinal: u64,
    },
    /// Interrupt exactly this execution, once per attempt.
    Interrupt {
        /// Which life of the kernel is meant.
        #[serde(with = "generation_text")]
        generation: Generation,
        /// Which execution.
        id: ExecutionId,
        /// A higher number signals again, the same number repeats the verdict.
        attempt: u32,
    },
    /// Stop the worker and everything it started.
    Stop {
        /// Which life of the kernel is meant.
        #[serde(with = "generation_text")]
        generation: Generation,
        /// Only while the worker has this execution; absent is in any case.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        id: Option<ExecutionId>,
        /// How long to wait between TERM and KILL, in milliseconds.
        term_grace_ms: u64,
        /// How long to wait after KILL, in milliseconds.
        kill_grace_ms: u64,
    },
    /// Asks for output as a [`FromSupervisor::Chunk`].
    Read {
        /// Which life of the kernel is meant.
        #[serde(with = "generation_text")]
        generation: Generation,
        /// Which execution; absent for the output that belongs to the kernel.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        id: Option<ExecutionId>,
        /// The first offset wanted.
        from: u64,
        /// The most bytes wanted.
        max: u64,
    },
    /// Asks for [`FromSupervisor::Progress`], or for no more of it.
    Follow {
        /// Which life of the kernel is meant.
        #[serde(with = "generation_text")]
        generation: Generation,
        /// Which execution.
        id: ExecutionId,
        /// Whether progress is wanted.
        on: bool,
    },
    /// The log has the result: what is held of this execution may go.
    Release {
        /// Which life of the kernel is meant.
        #[serde(with = "generation_text")]
        generation: Generation,
        /// Which execution.
        id: ExecutionId,
    },
    /// The answer to a host call; the body is JSON, the value or the error.
    HostReply {
        /// Which life of the kernel is meant.
        #[serde(with = "generation_text")]
        generation: Generation,
        /// Which call.
        call: u64,
        /// Whether the body is a value or an error.
        ok: bool,
    },
    /// Stop the worker, as [`ToSupervisor::Stop`] with the graces of the specification, and leave.
    Shutdown {
        /// Which life of the kernel is meant.
        #[serde(with = "generation_text")]
        generation: Generation,
    },
}

impl ToSupervisor {
    /// Which life of the kernel is meant.
    #[must_use]
    pub const fn generation(&self) -> Generation {
        match self {
            Self::Attach { generation, .. }
            | Self::Execute { generation, .. }
            | Self::Interrupt { generation, .. }
            | Self::Stop { generation, .. }
            | Self::Read { generation, .. }
            | Self::Follow { generation, .. }
            | Self::Release { generation, .. }
            | Self::HostReply { generation, .. }
            | Self::Shutdown { generation } => *generation,
        }
    }
}

/// Who attaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Daemon {
    /// Its process id.
    pub pid: i32,
}

/// Supervisor to daemon.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "t", rename_all = "snake_case")]
pub enum FromSupervisor {
    /// The connection is this daemon's. What it may have missed follows as ordinary frames.
    Attached(Attached),
    /// The worker is up.
    Ready(Ready),
    /// The worker did not come up, and has been stopped.
    StartFailed {
        /// Why.
        reason: String,
        /// The last of what it wrote to descriptor 2.
        stderr_tail: String,
    },
    /// User code of this execution begins.
    Started {
        /// Which execution.
        id: ExecutionId,
    },
    /// This execution will not be run here, and has not been.
    Refused {
        /// Which execution.
        id: ExecutionId,
        /// Why.
        refusal: ExecuteRefusal,
    },
    /// How far the output of a followed execution is; at most one in 20 ms.
    Progress {
        /// Which execution.
        id: ExecutionId,
        /// Bytes seen on descriptor 1.
        stdout: u64,
        /// Bytes seen on descriptor 2.
        stderr: u64,
        /// The end of the merged stream, an offset.
        end: u64,
        /// Milliseconds since the last output.
        idle_ms: u64,
    },
    /// A host call waits for its answer; the body is its arguments.
    HostCall {
        /// Which execution.
        id: ExecutionId,
        /// Which call.
        call: u64,
        /// What is called.
        method: String,
    },
    /// The cell gave a call up; it has no answer yet and takes none.
    HostCallGivenUp {
        /// Which execution.
        id: ExecutionId,
        /// Which call.
        call: u64,
    },
    /// The execution ended; held until it is released.
    ///
    /// The body is the whole retained stream when that is at most [`INLINE_OUTPUT`] bytes, and
    /// empty otherwise: then it is to be read.
    Ended {
        /// Which execution.
        id: ExecutionId,
        /// How, as the worker said it.
        result: CellResult,
        /// What it put out.
        output: Output,
        /// Processes of this kernel beside the worker that still run.
        #[serde(default)]
        children_left: u64,
    },
    /// The worker is gone, and so is everything that it started unless `left` says otherwise.
    WorkerGone(WorkerGone),
    /// What became of an interrupt.
    Verdict(Verdict),
    /// What became of a stop.
    Stopped {
        /// As in the request.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        id: Option<ExecutionId>,
        /// What was found.
        outcome: StopOutcome,
    },
    /// The stop was meant for an execution that the worker does not have; nothing was signalled.
    StopRefused {
        /// As in the request.
        id: ExecutionId,
        /// What it has.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        executing: Option<ExecutionId>,
    },
    /// Output, the body, cut in runs.
    Chunk {
        /// As in the request.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        id: Option<ExecutionId>,
        /// The offset asked for.
        from: u64,
        /// Where to read on.
        next: u64,
        /// The end of the stream so far.
        end: u64,
        /// How many bytes from `from` on were dropped before the first run.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        gap: Option<Gap>,
        /// What the body is made of.
        runs: Vec<Run>,
        /// Whether anything is held of this execution; false for an id that is unknown or released.
        held: bool,
    },
    /// What was received is refused; the connection is closed.
    ProtocolError {
        /// Why.
        reason: String,
    },
}

/// The most retained output that travels with [`FromSupervisor::Ended`], in bytes.
pub const INLINE_OUTPUT: u64 = 64 << 10;
/// The most bytes of output in one [`FromSupervisor::Chunk`].
pub const CHUNK_LIMIT: u64 = 1 << 20;

/// What a daemon is told when it attaches.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attached {
    /// The boot that the process ids belong to.
    pub boot_id: String,
    /// The supervisor's own process.
    pub supervisor: ProcessId,
    /// The worker's process, once it was started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<ProcessId>,
    /// What the worker does.
    pub state: WorkerState,
    /// What it executes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub executing: Option<ExecutionId>,
    /// Whether user code of that execution has begun.
    #[serde(default)]
    pub started: bool,
    /// The verdicts on interrupts of executions that are still held.
    #[serde(default)]
    pub verdicts: Vec<Verdict>,
    /// The executions that ended and were not released.
    #[serde(default)]
    pub ended: Vec<ExecutionId>,
    /// Host calls that wait for an answer.
    #[serde(default)]
    pub host_calls: Vec<HostCall>,
    /// The end of the kernel's own output, an offset.
    #[serde(default)]
    pub kernel_end: u64,
    /// How long no daemon was there, in milliseconds.
    #[serde(default)]
    pub alone_ms: u64,
    /// What the limits rest on, and what could not be had.
    #[serde(default)]
    pub confinement: Vec<String>,
}

/// A host call that waits for an answer. Its arguments are said again to each daemon that attaches.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostCall {
    /// Of which execution.
    pub id: ExecutionId,
    /// Which call.
    pub call: u64,
    /// What is called.
    pub method: String,
}

/// What a worker does, seen from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkerState {
    /// It was started and has not said that it is ready.
    Starting,
    /// It waits for a cell.
    Idle,
    /// It has a cell.
    Busy,
    /// It is gone, or never came.
    Gone,
}

/// Why an execution is not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExecuteRefusal {
    /// The worker is not ready.
    NotReady,
    /// Another execution has the worker.
    Busy,
    /// The worker is being stopped, or gone.
    Gone,
    /// It ended and was released: its result is the daemon's to know.
    Released,
    /// Too many ended executions wait for their release.
    TooManyHeld,
}

/// What became of an interrupt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// Which execution was meant.
    pub id: ExecutionId,
    /// Which attempt.
    pub attempt: u32,
    /// What became of it.
    pub verdict: VerdictWord,
    /// Why nobody was reached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<NobodyReached>,
}

/// What became of an interrupt, in a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum VerdictWord {
    /// The worker was signalled while it ran this execution.
    Delivered,
    /// Nobody was signalled.
    ReachedNobody,
}

/// Why an interrupt reached nobody.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NobodyReached {
    /// No execution of that id runs here.
    NotExecuting,
    /// It had ended.
    AlreadyEnded,
    /// The worker is gone.
    WorkerGone,
    /// The worker is being stopped.
    Stopping,
    /// The system would not send the signal.
    NotPermitted,
}

/// What an execution put out, in counters and in runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Output {
    /// Descriptor 1.
    pub stdout: StreamCount,
    /// Descriptor 2.
    pub stderr: StreamCount,
    /// Displays, in bytes of their frames.
    #[serde(default)]
    pub display: StreamCount,
    /// The end of the merged stream, an offset.
    pub stream_end: u64,
    /// The retained runs, when they travel in the body of the frame.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub runs: Vec<Run>,
}

/// How much of a channel was seen and how much of it retained, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamCount {
    /// Bytes seen.
    pub seen: u64,
    /// Bytes retained.
    pub retained: u64,
}

impl From<StreamCount> for Counters {
    fn from(count: StreamCount) -> Self {
        Self::new(count.seen, count.retained, Unit::Bytes)
    }
}

/// A hole in what is retained.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gap {
    /// How many bytes are not there.
    pub dropped: u64,
}

/// How the worker went.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerGone {
    /// How its process ended.
    pub exit: Exit,
    /// Why the supervisor ended it, when it did: a garbage frame, say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Which execution it had.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub executing: Option<ExecutionId>,
    /// Whether user code of that execution had begun.
    #[serde(default)]
    pub started: bool,
    /// What that execution put out; it is held until it is released.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Output>,
    /// Whether the system killed it for want of memory, as far as can be told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oom: Option<bool>,
    /// The limit of ours that ended it, when it is known to be one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<PassedLimit>,
    /// The last of what it wrote to descriptor 2.
    #[serde(default)]
    pub stderr_tail: String,
    /// What became of the rest of its group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left: Option<StopOutcome>,
    /// The end of the kernel's own output, an offset.
    #[serde(default)]
    pub kernel_end: u64,
}

impl Output {
    /// The counters of one channel.
    #[must_use]
    pub const fn of(&self, channel: Channel) -> StreamCount {
        match channel {
            Channel::Stdout => self.stdout,
            Channel::Stderr => self.stderr,
            Channel::Display => self.display,
        }
    }
}
