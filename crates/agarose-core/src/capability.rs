//! A one-shot capability: the right to run one exact command once.
//!
//! | state | event | next |
//! |---|---|---|
//! | – | `CapabilityGranted` | granted |
//! | granted | `CapabilityConsumed` | consumed |
//! | consumed | `CapabilityReported` | gone |
//! | granted, consumed | `CapabilityVoided` | gone |
//!
//! Consumed means that the command may have been run. A daemon's death voids what was granted and not
//! consumed; what was consumed and never reported is voided as of unknown outcome when its cell ends.

use alloc::string::String;

use serde::{Deserialize, Serialize};

use crate::{budget::Counters, id::Generation};

/// What names a capability: the digest of its secret token, which is never in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CapabilityId(pub [u8; 32]);

/// What a capability is bound to. Every part must be shown again to consume it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    /// Digest of the token.
    pub capability: CapabilityId,
    /// SHA-256 of the command.
    pub command: [u8; 32],
    /// Where it runs.
    pub directory: String,
    /// The workspace, or the other root within which `directory` lies.
    pub root: String,
    /// The kernel's life that it was granted to.
    pub generation: Generation,
    /// What the worker made up for this one command.
    pub challenge: String,
    /// When it was granted, on the data directory's clock.
    pub issued: u64,
    /// Until when it may be consumed, on the data directory's clock.
    pub expires: u64,
    /// Whether programs that it leaves in the background may stay.
    pub detach: bool,
}

/// A capability that is not gone yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Capability {
    /// What it is bound to.
    pub grant: Grant,
    /// Whether the command may have been run.
    pub consumed: bool,
    /// Whether the daemon that granted it is gone.
    pub void: bool,
}

/// Why a capability cannot be consumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unfit {
    /// Nobody has it: it was never granted, or is gone.
    Unknown,
    /// It was consumed.
    AlreadyConsumed,
    /// Its time is over.
    Expired,
    /// This part is not as it was granted.
    Binding(&'static str),
}

impl Unfit {
    /// The word that a cell gets.
    #[must_use]
    pub const fn kind(self) -> &'static str {
        match self {
            Self::Unknown => "capability_unknown",
            Self::AlreadyConsumed => "capability_consumed",
            Self::Expired => "capability_expired",
            Self::Binding(_) => "capability_mismatch",
        }
    }

    /// What to tell people.
    #[must_use]
    pub fn message(self) -> String {
        match self {
            Self::Unknown => String::from("no such permission to run a command was given, or it is void"),
            Self::AlreadyConsumed => String::from("this permission to run a command was used already"),
            Self::Expired => String::from("the time in which this command had to be started is over"),
            Self::Binding(part) => alloc::format!("the permission was given for another {part}"),
        }
    }
}

impl Capability {
    /// Whether exactly this may be consumed now, and else why not: the first of used, late and different.
    ///
    /// # Errors
    /// What does not fit.
    pub fn check(&self, shown: &Grant, now: u64) -> Result<(), Unfit> {
        if self.consumed {
            return Err(Unfit::AlreadyConsumed);
        }
        if self.void {
            return Err(Unfit::Unknown);
        }
        if now >= self.grant.expires {
            return Err(Unfit::Expired);
        }
        let parts = [
            ("command", self.grant.command == shown.command),
            ("directory", self.grant.directory == shown.directory),
            ("root", self.grant.root == shown.root),
            ("generation", self.grant.generation == shown.generation),
            ("challenge", self.grant.challenge == shown.challenge),
            ("expiry", self.grant.expires == shown.expires),
            ("time of issue", self.grant.issued == shown.issued),
            ("detachment", self.grant.detach == shown.detach),
        ];
        match parts.into_iter().find(|(_, same)| !same) {
            Some((part, _)) => Err(Unfit::Binding(part)),
            None => Ok(()),
        }
    }
}

/// How a command ended, as its worker says; numbers are clamped where they contradict each other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BashReport {
    /// `completed`, `timed_out`, `interrupted`, `launch_failed` or `failed`.
    pub status: BashStatus,
    /// Its exit code, or 128 and the number of the signal that ended it.
    pub exit_code: Option<i32>,
    /// How long it took, in milliseconds.
    pub wall_ms: u64,
    /// Its standard output.
    pub stdout: Counters,
    /// Its standard error.
    pub stderr: Counters,
    /// How many processes of it had to be stopped.
    pub stopped: u64,
}

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BashStatus {
    /// It left by itself.
    Completed,
    /// Its time was over, and it was stopped.
    TimedOut,
    /// Its cell was interrupted, and it was stopped.
    Interrupted,
    /// It could not be started.
    LaunchFailed,
    /// Anything else.
    Failed,
}

impl BashStatus {
    /// The word used on the wire and by the inspector.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::TimedOut => "timed_out",
            Self::Interrupted => "interrupted",
            Self::LaunchFailed => "launch_failed",
            Self::Failed => "failed",
        }
    }
}

/// Why a capability is gone without a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum VoidReason {
    /// The daemon that granted it died before it was consumed: the command was not run.
    DaemonRestarted,
    /// Its cell ended before it was consumed: the command was not run.
    CellEnded,
    /// It was consumed, and its cell ended without a report: the command may have been run, once.
    OutcomeUnknown,
}

impl VoidReason {
    /// The word used by the inspector.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::DaemonRestarted => "daemon_restarted",
            Self::CellEnded => "cell_ended",
            Self::OutcomeUnknown => "outcome_unknown",
        }
    }
}
