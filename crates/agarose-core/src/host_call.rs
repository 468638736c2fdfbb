//! A host call: what a running cell asks of its host, from the asking to the one answer.
//!
//! | state | event | next |
//! |---|---|---|
//! | – | `HostCallStarted`, to be asked about | asked |
//! | – | `HostCallStarted`, allowed or refused | open |
//! | asked, open | `HostCallDispatched` | dispatched |
//! | dispatched | `HostCallDispatched`, as a later daemon repeats what may be repeated | dispatched |
//! | asked, open, dispatched | `HostCallAnswered` | answered |
//!
//! A call that was dispatched may have had its effect. One that needs no effect outside the log is answered
//! in the decision that starts it. A daemon's death takes its services along: what was dispatched is then
//! orphaned, and is repeated where it may be, or ends as `outcome_unknown`.

use alloc::{boxed::Box, string::String, vec::Vec};
use core::fmt;

use serde::{Deserialize, Serialize};

use crate::{
    capability::{BashReport, CapabilityId, Grant},
    id::{BlobRef, Lease, TicketId},
    permission::PermissionId,
    time::Millis,
};

/// How long the calls of a cell that has ended may take for their own cleaning up.
pub const DRAIN: Millis = Millis(5_000);

/// The number of a call, counted by the worker over its life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CallId(pub u64);

impl fmt::Display for CallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "h{}", self.0)
    }
}

/// A call without an answer yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostCall {
    /// The execution that made it.
    pub lease: Lease,
    /// What is asked for.
    pub method: String,
    /// Since when, on the data directory's clock.
    pub since: u64,
    /// Whether it may be done twice.
    pub repeatable: bool,
    /// How far it has come.
    pub standing: Standing,
}

/// How far a call has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Standing {
    /// Started, and nothing more; only within one decision.
    Open,
    /// Somebody has to say yes first.
    Asked(PermissionId),
    /// Its service was told to begin.
    Dispatched {
        /// Whether the daemon whose service had it is gone.
        orphaned: bool,
    },
}

/// What the policy says of a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Decision {
    /// It may be done.
    Allow {
        /// The rule that says so, for people; empty for the method's default.
        rule: String,
    },
    /// Somebody has to be asked.
    Ask {
        /// The rule that says so, for people; empty for the method's default.
        rule: String,
    },
    /// It may not be done.
    Deny {
        /// The rule that says so, for people.
        rule: String,
    },
}

/// How a call ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CallOutcome {
    /// It has a value.
    Ok,
    /// Its service said no.
    Failed {
        /// Of a closed, documented set.
        kind: String,
        /// Why, for people; secrets are masked.
        message: String,
    },
    /// The policy or somebody who was asked said no.
    Denied {
        /// Who or what, for people.
        reason: String,
    },
    /// Its cell gave it up or ended.
    Cancelled,
    /// The daemon died while it was under way, and it is not known what became of it.
    OutcomeUnknown,
    /// Its cell ended, and its service did not end in time.
    Abandoned,
}

impl CallOutcome {
    /// The word used on the wire and by the inspector.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Failed { .. } => "failed",
            Self::Denied { .. } => "denied",
            Self::Cancelled => "cancelled",
            Self::OutcomeUnknown => "outcome_unknown",
            Self::Abandoned => "abandoned",
        }
    }
}

/// A call that has arrived, with what the policy says of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Called {
    /// Its number.
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
    /// What the policy says.
    pub decision: Decision,
    /// How long somebody who is asked may take.
    pub expires_after: Option<Millis>,
    /// Its answer, when it needs nothing outside the log.
    pub answered: Option<Box<Answered>>,
}

/// What a service says of its call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answered {
    /// How it ended.
    pub outcome: CallOutcome,
    /// How long the answer is, in bytes.
    pub bytes: u64,
    /// The answer, should it have to be sent again.
    pub answer: Option<BlobRef>,
    /// What it made true.
    pub facts: Vec<HostFact>,
}

impl Answered {
    /// An answer that changed nothing.
    #[must_use]
    pub const fn plain(outcome: CallOutcome, bytes: u64) -> Self {
        Self { outcome, bytes, answer: None, facts: Vec::new() }
    }
}

/// What a call makes true in the log, together with its answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostFact {
    /// A result was handed in.
    Submit(Submission),
    /// A version of an artifact was saved.
    Artifact(Box<Artifact>),
    /// A document of the session was written.
    Document {
        /// Which.
        name: String,
        /// What it holds now.
        content: BlobRef,
    },
    /// One command may be run once.
    Grant(Box<Grant>),
    /// The permission to run it is spent; refused unless everything is as it was granted.
    Consume(Box<Grant>),
    /// How that command ended.
    Report {
        /// Under which permission it ran.
        capability: CapabilityId,
        /// How.
        report: BashReport,
    },
}

/// A result that a cell handed in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Submission {
    /// It, as a JSON document.
    pub output: BlobRef,
    /// What was done, one sentence each.
    pub bullets: Vec<String>,
}

/// A version of an artifact: content that never changes, and where it came from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Artifact {
    /// The version's name for ever.
    pub version: TicketId,
    /// What it is called; versions of one name follow each other.
    pub name: String,
    /// Its content.
    pub content: BlobRef,
    /// Its media type.
    pub media_type: String,
    /// The versions that it was made from.
    pub inputs: Vec<TicketId>,
    /// The version of another session that it was brought in from.
    pub origin: Option<TicketId>,
    /// Where it was retrieved from, as a JSON document.
    pub source: Option<BlobRef>,
}
