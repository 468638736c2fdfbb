//! Why a call has no value: a closed set of kinds, told to the cell as a `HostError`.

use agarose_core::host_call::CallOutcome;
use serde::{Deserialize, Serialize};

/// What went wrong. The set is closed, and its words are frozen: cells compare them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorKind {
    /// An argument is missing, of another type, or unknown.
    BadRequest,
    /// The policy or somebody who was asked said no.
    Denied,
    /// Nobody provides it here.
    Unavailable,
    /// There is no such thing, or it is not to be known.
    NotFound,
    /// It is outside of what the cell may reach.
    OutOfBounds,
    /// It looks like a secret.
    Secret,
    /// It is larger than it may be.
    TooLarge,
    /// It is not what it has to be: not text, not JSON, not one match.
    Invalid,
    /// It is there already, or was changed meanwhile.
    Conflict,
    /// The system said no.
    Io,
    /// Its time was over.
    Timeout,
    /// The cell gave it up or ended.
    Cancelled,
    /// The daemon died while it was under way: it may have been done.
    OutcomeUnknown,
    /// Nobody has this capability.
    CapabilityUnknown,
    /// This capability was used.
    CapabilityConsumed,
    /// This capability's time is over.
    CapabilityExpired,
    /// This capability was given for something else.
    CapabilityMismatch,
    /// Whoever serves the method failed.
    Handler,
    /// A fault of Agarose.
    Internal,
}

impl ErrorKind {
    /// The word that a cell gets.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::BadRequest => "bad_request",
            Self::Denied => "denied",
            Self::Unavailable => "unavailable",
            Self::NotFound => "not_found",
            Self::OutOfBounds => "out_of_bounds",
            Self::Secret => "secret",
            Self::TooLarge => "too_large",
            Self::Invalid => "invalid",
            Self::Conflict => "conflict",
            Self::Io => "io",
            Self::Timeout => "timeout",
            Self::Cancelled => "cancelled",
            Self::OutcomeUnknown => "outcome_unknown",
            Self::CapabilityUnknown => "capability_unknown",
            Self::CapabilityConsumed => "capability_consumed",
            Self::CapabilityExpired => "capability_expired",
            Self::CapabilityMismatch => "capability_mismatch",
            Self::Handler => "handler",
            Self::Internal => "internal",
        }
    }
}

/// Why a call has no value, as the cell gets it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct HostError {
    pub(crate) kind: String,
    pub(crate) message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) details: Option<serde_json::Value>,
}

impl HostError {
    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind: kind.as_str().to_owned(), message: message.into(), details: None }
    }

    pub(crate) fn with(mut self, details: serde_json::Value) -> Self {
        self.details = Some(details);
        self
    }

    pub(crate) fn bad(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::BadRequest, message)
    }

    /// What a cell is told of an outcome that is not its service's own.
    pub(crate) fn of(outcome: &CallOutcome) -> Self {
        match outcome {
            CallOutcome::Ok => Self::new(ErrorKind::Internal, "an answer was lost"),
            CallOutcome::Failed { kind, message } => {
                Self { kind: kind.clone(), message: message.clone(), details: None }
            }
            CallOutcome::Denied { reason } => Self::new(ErrorKind::Denied, format!("not allowed: {reason}")),
            CallOutcome::Cancelled => Self::new(
                ErrorKind::Cancelled,
                "the call was given up: its cell has ended, is being stopped, or did not wait",
            ),
            CallOutcome::OutcomeUnknown => Self::new(
                ErrorKind::OutcomeUnknown,
                "the daemon died while the call was under way: it may have been done, and is not done again by itself",
            ),
            CallOutcome::Abandoned => {
                Self::new(ErrorKind::Cancelled, "its cell had ended, and the call did not end in time")
            }
        }
    }

    pub(crate) fn to_json(&self) -> Vec<u8> {
        serde_json::to_vec(self)
            .unwrap_or_else(|_| br#"{"kind":"internal","message":"an error without words"}"#.to_vec())
    }
}

impl From<std::io::Error> for HostError {
    fn from(error: std::io::Error) -> Self {
        let kind = match error.kind() {
            std::io::ErrorKind::NotFound => ErrorKind::NotFound,
            _ => ErrorKind::Io,
        };
        Self::new(kind, error.to_string())
    }
}
