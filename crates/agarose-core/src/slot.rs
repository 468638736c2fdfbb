//! A kernel's slot: one per session and language.
//!
//! | state | event | next |
//! |---|---|---|
//! | absent | `KernelStarting` | starting |
//! | starting | `KernelReady` | ready |
//! | starting | `KernelStartFailed`, `KernelGone` | absent |
//! | starting, ready | `KernelStopRequested` | stopping |
//! | ready | `KillRequested` | stopping |
//! | ready, stopping | `KernelGone` | absent |
//!
//! `DaemonStarted` leaves what is there unattached until `KernelReattached`. A generation is never
//! used again. Whether the kernel is busy follows from the session's active cell and is not said
//! twice.

use alloc::{string::String, vec::Vec};

use serde::{Deserialize, Serialize};

use crate::id::Generation;

/// Where a kernel stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Slot {
    /// There is none.
    Absent {
        /// The last life that ran a cell and whose variables no later cell was told to be gone.
        previous: Option<Generation>,
    },
    /// Its supervisor is being started, or waits for its worker.
    Starting {
        /// Which life.
        generation: Generation,
        /// As in [`Slot::Absent`].
        previous: Option<Generation>,
        /// Since when, on the data directory's clock.
        since: u64,
    },
    /// It takes cells.
    Ready {
        /// Which life.
        generation: Generation,
        /// As in [`Slot::Absent`], until the first cell was sent.
        previous: Option<Generation>,
        /// What runs.
        process: KernelProcess,
        /// Whether a cell was ever sent to it.
        used: bool,
        /// Since when nothing was sent to it, on the data directory's clock.
        idle_since: u64,
    },
    /// It was told to go.
    Stopping {
        /// Which life.
        generation: Generation,
        /// As in [`Slot::Absent`], once it has gone.
        previous: Option<Generation>,
        /// Until when it is waited for, on the data directory's clock.
        until: u64,
    },
}

impl Default for Slot {
    fn default() -> Self {
        Self::Absent { previous: None }
    }
}

impl Slot {
    /// The life that is there now.
    #[must_use]
    pub const fn generation(&self) -> Option<Generation> {
        match self {
            Self::Absent { .. } => None,
            Self::Starting { generation, .. }
            | Self::Ready { generation, .. }
            | Self::Stopping { generation, .. } => Some(*generation),
        }
    }

    /// Whether nothing is there.
    #[must_use]
    pub const fn is_absent(&self) -> bool {
        matches!(self, Self::Absent { .. })
    }

    /// The life whose variables are lost once this kernel has gone: its own if it ran a cell, else
    /// the one that nobody was told of yet.
    #[must_use]
    pub(crate) const fn left_behind(&self) -> Option<Generation> {
        match self {
            Self::Ready { used: true, generation, .. } => Some(*generation),
            Self::Absent { previous }
            | Self::Starting { previous, .. }
            | Self::Ready { used: false, previous, .. }
            | Self::Stopping { previous, .. } => *previous,
        }
    }

    /// The state after the kernel has gone.
    #[must_use]
    pub(crate) const fn gone(&self) -> Self {
        Self::Absent { previous: self.left_behind() }
    }

    /// The word used on the wire.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Absent { .. } => "absent",
            Self::Starting { .. } => "starting",
            Self::Ready { .. } => "ready",
            Self::Stopping { .. } => "stopping",
        }
    }
}

/// What runs as a kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelProcess {
    /// The worker's process id.
    pub pid: u32,
    /// The interpreter's path.
    pub executable: String,
    /// The interpreter's version.
    pub version: String,
    /// Digest of the packages that it can see.
    pub packages: String,
}

/// Why a kernel is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// Nobody used it for as long as the policy says.
    Idle,
    /// Somebody asked for it.
    Requested,
    /// Its session was closed.
    SessionClosed,
    /// The daemon stops and was told to stop the kernels too.
    DaemonStopping,
}

/// How a process ended, as far as is known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Exit {
    /// It exited by itself.
    Code(i32),
    /// A signal ended it.
    Signal {
        /// Its number.
        signal: i32,
        /// Whether the machine's memory seems to have been exhausted.
        out_of_memory: bool,
    },
    /// A limit of ours ended it.
    Limit {
        /// Which, for people: `memory limit 2 GiB`.
        limit: String,
    },
    /// We stopped it.
    Stopped,
    /// It left the protocol.
    Protocol {
        /// How, for people.
        reason: String,
    },
    /// Its supervisor is gone, and with it the exit status.
    Unknown {
        /// What is known, for people.
        evidence: String,
    },
}

impl core::fmt::Display for Exit {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Code(code) => write!(f, "exited with code {code}"),
            Self::Signal { signal, out_of_memory } => {
                write!(f, "killed by {}", SignalName(*signal))?;
                f.write_str(if *out_of_memory { " (out of memory)" } else { "" })
            }
            Self::Limit { limit } => write!(f, "killed: {limit}"),
            Self::Stopped => f.write_str("stopped by Agarose"),
            Self::Protocol { reason } => write!(f, "ended because it left the protocol: {reason}"),
            Self::Unknown { evidence } => f.write_str(evidence),
        }
    }
}

/// A signal by its name, where it has a well-known one.
struct SignalName(i32);

impl core::fmt::Display for SignalName {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        // Numbers of Linux on x86-64 and aarch64 (signal(7)).
        let name = match self.0 {
            1 => "SIGHUP",
            2 => "SIGINT",
            3 => "SIGQUIT",
            4 => "SIGILL",
            6 => "SIGABRT",
            7 => "SIGBUS",
            8 => "SIGFPE",
            9 => "SIGKILL",
            11 => "SIGSEGV",
            13 => "SIGPIPE",
            14 => "SIGALRM",
            15 => "SIGTERM",
            24 => "SIGXCPU",
            25 => "SIGXFSZ",
            31 => "SIGSYS",
            other => return write!(f, "signal {other}"),
        };
        f.write_str(name)
    }
}

/// What the probe of a process group said after it was stopped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum GroupOutcome {
    /// There was nothing left to stop.
    AlreadyExited,
    /// All of it went on TERM.
    ExitedOnTerm,
    /// These had to be killed.
    Killed {
        /// What had to be killed.
        killed: Vec<ProcessNote>,
    },
    /// These are still there after KILL.
    Alive {
        /// What is still there.
        left: Vec<ProcessNote>,
    },
    /// The signal could not be sent.
    NotSignalled {
        /// The error number that the kernel gave.
        errno: i32,
    },
    /// Nobody could be asked.
    Unreachable {
        /// Why, for people.
        reason: String,
    },
}

impl GroupOutcome {
    /// Whether the probe showed that nothing is left.
    #[must_use]
    pub const fn is_gone(&self) -> bool {
        match self {
            Self::AlreadyExited | Self::ExitedOnTerm | Self::Killed { .. } => true,
            Self::Alive { .. } | Self::NotSignalled { .. } | Self::Unreachable { .. } => false,
        }
    }
}

/// One process, as it was seen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessNote {
    /// Its process id.
    pub pid: u32,
    /// The letter that the kernel has for its state (`R`, `S`, `D`, `T`, `Z`…).
    pub state: char,
    /// Its command, cut to a readable length.
    pub command: String,
    /// Whether it had left the kernel's process group.
    pub escaped: bool,
}
