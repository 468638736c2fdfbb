//! What is known of a process that was looked at, stopped or waited for.

use std::fmt;

use nix::sys::signal::Signal;
use serde::{Deserialize, Serialize};

/// A process that cannot be mistaken for a later one with the same number, within one boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ProcessId {
    /// Its process id.
    pub pid: i32,
    /// When it started, in clock ticks since the boot (field 22 of `/proc/PID/stat`).
    pub start_time: u64,
}

impl fmt::Display for ProcessId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.pid)
    }
}

/// A process as it was seen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessState {
    /// Which one.
    pub id: ProcessId,
    /// Its parent, when it was seen.
    pub parent: i32,
    /// Its process group, when it was seen.
    pub group: i32,
    /// The letter of its state as `/proc/PID/stat` gives it: `R`, `S`, `D`, `T`, `Z` …
    pub state: char,
    /// The name of its program, at most 15 bytes of it.
    pub command: String,
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Exit {
    /// By itself, with this code.
    Code(i32),
    /// By a signal.
    Signal {
        /// The signal's number.
        number: i32,
        /// Whether it left a core file.
        core: bool,
    },
    /// It is gone, and nobody could tell how.
    Unknown,
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(f, "exited with code {code}"),
            Self::Signal { number, core } => {
                write!(f, "killed by {}", signal_name(*number))?;
                if *core { f.write_str(" (core dumped)") } else { Ok(()) }
            }
            Self::Unknown => f.write_str("gone, with an unknown exit status"),
        }
    }
}

/// The name of a signal, such as `SIGKILL`; a number that has none is given as `signal 34`.
#[must_use]
pub fn signal_name(number: i32) -> String {
    Signal::try_from(number).map_or_else(|_| format!("signal {number}"), |signal| signal.as_str().to_owned())
}

/// What a stop found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StopOutcome {
    /// The word.
    pub end: StopEnd,
    /// What had to be killed because it did not leave on TERM; bounded, see `killed_count`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub killed: Vec<ProcessState>,
    /// How many had to be killed.
    #[serde(default)]
    pub killed_count: u64,
    /// How many had left the group (by `setsid`, say) and were found all the same.
    #[serde(default)]
    pub escaped_count: u64,
}

impl StopOutcome {
    /// What a stop says that found nothing to stop.
    #[must_use]
    pub const fn nothing_there() -> Self {
        Self { end: StopEnd::AlreadyExited, killed: Vec::new(), killed_count: 0, escaped_count: 0 }
    }
}

/// How a stop ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopEnd {
    /// Nothing was there to stop.
    AlreadyExited,
    /// All of it left on TERM, within the grace.
    ExitedOnTerm,
    /// Something had to be killed; nothing is left.
    Killed,
    /// Something is there in spite of KILL.
    AliveAfterKill {
        /// What; bounded to the first hundred.
        left: Vec<ProcessState>,
    },
    /// The system would not send the signal, and something is there.
    CouldNotSignal {
        /// The error's number.
        errno: i32,
        /// What is there; bounded to the first hundred.
        left: Vec<ProcessState>,
    },
}
