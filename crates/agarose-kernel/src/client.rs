//! A daemon's side of the socket, and what it can tell without one.

use std::{
    fmt, io,
    io::{Read, Write},
    os::unix::net::UnixStream,
    path::Path,
    time::Duration,
};

use agarose_process::{ProcessId, StopOutcome, Tagged, boot_id, connect_in, is_running, stop};

use crate::{
    spec::{FinalRecord, KernelProcesses, KernelSpec, SOCKET_FILE, read_final, read_processes},
    spool,
    wire::{
        ExecutionId, PROTOCOL, Run,
        frame::{Decoder, EncodeError, FrameError, Limits, encode},
        supervisor::{Attached, Daemon, FromSupervisor, Output, ToSupervisor},
        worker::CellResult,
    },
};

/// How long a supervisor may take to answer an attach: it may still be starting.
const ATTACH_TIME: Duration = Duration::from_secs(20);

/// Connects to the supervisor of `dir`. Paths longer than a socket address holds work.
///
/// The stream is blocking; nothing has been said on it yet.
///
/// # Errors
/// When nobody listens there.
pub fn connect(dir: &Path) -> io::Result<UnixStream> {
    connect_in(dir, SOCKET_FILE)
}

/// The message to send first.
#[must_use]
pub fn attach_request(spec: &KernelSpec) -> ToSupervisor {
    ToSupervisor::Attach {
        protocol: PROTOCOL,
        generation: spec.generation,
        secret: spec.secret.clone(),
        daemon: Daemon { pid: std::process::id().cast_signed() },
    }
}

/// Why a supervisor did not take us.
#[derive(Debug, thiserror::Error)]
pub enum AttachError {
    /// The connection broke, or nothing came in time.
    #[error("the connection to the supervisor failed")]
    Io(#[from] io::Error),
    /// It said no.
    #[error("the supervisor refused: {reason}")]
    Refused {
        /// In its words.
        reason: String,
    },
    /// It does not speak this protocol.
    #[error("the supervisor does not speak this protocol")]
    Frame(#[from] FrameError),
    /// The request could not be written.
    #[error("the request to attach could not be written")]
    Encode(#[from] EncodeError),
}

/// Attaches on a blocking stream and gives the answer, with the decoder that has read it: what
/// follows on the stream are ordinary frames, and some of them may be in it already.
///
/// # Errors
/// When it refuses, does not answer in time or the connection breaks.
pub fn attach(stream: &mut UnixStream, spec: &KernelSpec) -> Result<(Attached, Decoder), AttachError> {
    let mut request = Vec::new();
    encode(&attach_request(spec), &[], &mut request)?;
    stream.write_all(&request)?;
    stream.set_read_timeout(Some(ATTACH_TIME))?;
    let mut decoder = Decoder::new(Limits::USUAL);
    let mut buffer = [0; 4096];
    loop {
        if let Some(frame) = decoder.next_frame()? {
            match frame.message()? {
                FromSupervisor::Attached(attached) => {
                    stream.set_read_timeout(None)?;
                    return Ok((attached, decoder));
                }
                FromSupervisor::ProtocolError { reason } => return Err(AttachError::Refused { reason }),
                _ => {
                    let detail = "something else than an answer to attach came first".to_owned();
                    return Err(AttachError::Frame(FrameError::Message { detail }));
                }
            }
        }
        let length = stream.read(&mut buffer)?;
        if length == 0 {
            return Err(AttachError::Io(io::ErrorKind::UnexpectedEof.into()));
        }
        decoder.push(buffer.get(..length).unwrap_or_default());
    }
}

/// What is left of a life of a kernel, seen from its directory alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// Its supervisor lives; connect.
    Alive {
        /// The supervisor; absent when it has only just been started.
        supervisor: Option<ProcessId>,
    },
    /// Its supervisor is gone.
    Gone(Box<Remains>),
    /// There never was one here, or its directory is gone.
    Nothing,
}

/// Why a supervisor is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GoneBecause {
    /// It left by itself; its record says how.
    Left,
    /// The machine was started again since, so no process of it can be there.
    OtherBoot,
    /// Its process is gone, and it left no record: it was killed.
    Killed,
    /// It never came up.
    NeverStarted,
}

impl fmt::Display for GoneBecause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Left => "its supervisor left by itself",
            Self::OtherBoot => "the machine was started again since",
            Self::Killed => "its supervisor was killed",
            Self::NeverStarted => "its supervisor never came up",
        })
    }
}

/// What a supervisor that is gone left behind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remains {
    /// Why it is gone.
    pub because: GoneBecause,
    /// Its own last record, when it left by itself.
    pub record: Option<FinalRecord>,
    /// Which processes it was.
    pub processes: Option<KernelProcesses>,
    /// What is in the spool, in the order in which it began.
    pub executions: Vec<RecoveredExecution>,
    /// The kernel's own output: its runs.
    pub kernel_runs: Vec<Run>,
    /// The bytes of those runs.
    pub kernel_bytes: Vec<u8>,
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
    /// What it put out so far; its runs describe `bytes`.
    pub output: Output,
    /// The retained output, of every run one after the other.
    pub bytes: Vec<u8>,
}

/// Looks at `dir` without a socket: whether its supervisor lives (by number, start time and
/// boot), and if not, what it left.
///
/// # Errors
/// When the directory is there and cannot be read.
pub fn look(dir: &Path) -> io::Result<Found> {
    if !dir.try_exists()? {
        return Ok(Found::Nothing);
    }
    let record = read_final(dir)?;
    let processes = read_processes(dir)?;
    let because = match &processes {
        _ if record.is_some() => GoneBecause::Left,
        // Between its start and its first words only its socket tells of it.
        None if connect(dir).is_ok() => return Ok(Found::Alive { supervisor: None }),
        None => GoneBecause::NeverStarted,
        Some(processes) if processes.boot_id != boot_id()? => GoneBecause::OtherBoot,
        Some(processes) if is_running(processes.supervisor) => {
            return Ok(Found::Alive { supervisor: Some(processes.supervisor) });
        }
        Some(_) => GoneBecause::Killed,
    };
    let (kernel_runs, kernel_bytes) = spool::recover_kernel(dir)?;
    let executions = spool::recover(dir)?;
    Ok(Found::Gone(Box::new(Remains { because, record, processes, executions, kernel_runs, kernel_bytes })))
}

/// Stops what a dead supervisor left behind. Its worker dies with it, but what the worker started
/// may go on. Nothing else is touched: everything of a kernel carries its mark.
#[must_use]
pub fn stop_remains(remains: &Remains, term_grace: Duration, kill_grace: Duration) -> Option<StopOutcome> {
    if remains.because == GoneBecause::OtherBoot {
        return None;
    }
    let processes = remains.processes.as_ref()?;
    let group = processes.worker.map_or(0, |worker| worker.pid);
    let mut group = Tagged { variable: processes.mark(), group };
    Some(stop(&mut group, term_grace, kill_grace))
}
