//! Why a request was not served, in types that a caller can tell apart.

use std::path::PathBuf;

use agarose_core::Refusal;
use agarose_journal::OpenError;

/// Why an engine did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The data directory could not be made or is not usable.
    #[error("cannot use the data directory {path}", path = path.display())]
    DataDirectory {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The log could not be opened.
    #[error("cannot open the log in {path}", path = path.display())]
    Open {
        /// Which.
        path: PathBuf,
        /// Why.
        source: Box<OpenError>,
    },
    /// An event or the snapshot could not be read back.
    #[error("cannot fold the log in {path}: {detail}", path = path.display())]
    Fold {
        /// Which.
        path: PathBuf,
        /// What does not read.
        detail: String,
    },
    /// The first event could not be written.
    #[error("cannot write to the log in {path}: {detail}", path = path.display())]
    FirstWrite {
        /// Which.
        path: PathBuf,
        /// Why.
        detail: String,
    },
}

/// Why a request was not served.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// Something stands in the way.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// There is no such thing.
    #[error("there is no {what}")]
    NotFound {
        /// What was looked for.
        what: String,
    },
    /// The request does not make sense.
    #[error("{field}: {message}")]
    BadRequest {
        /// Which field.
        field: String,
        /// What is wrong with it.
        message: String,
    },
    /// Somebody else observes it.
    #[error("ticket {ticket} is observed by somebody else")]
    Busy {
        /// Which.
        ticket: agarose_core::TicketId,
    },
    /// No event can be written.
    #[error("read_only: {cause}")]
    ReadOnly {
        /// Why.
        cause: String,
    },
    /// The engine is gone.
    #[error("the daemon has stopped")]
    Gone,
    /// Something of ours failed.
    #[error("{message}")]
    Internal {
        /// What.
        message: String,
    },
}

impl RequestError {
    /// Content could not be brought to the disk.
    pub(crate) fn not_stored(error: &std::io::Error) -> Self {
        Self::ReadOnly { cause: error.to_string() }
    }

    /// A stable word for programs.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Refused(refusal) => match refusal {
                Refusal::Stopping => "stopping",
                Refusal::SessionClosed { .. } => "session_closed",
                Refusal::QueueFull { .. } => "queue_full",
                Refusal::DuplicateTicket { .. } => "duplicate_ticket",
                Refusal::KeyConflict { .. } => "key_conflict",
                Refusal::UnknownPredecessor { .. } => "unknown_predecessor",
                Refusal::NoSuchTicket { .. }
                | Refusal::NoSuchSession { .. }
                | Refusal::NoSuchPermission { .. } => "not_found",
                Refusal::Ended { .. } => "ended",
                Refusal::NotOwner { .. } => "not_owner",
                Refusal::NotRunning { .. } => "not_running",
                Refusal::NotQueued { .. } => "not_queued",
                Refusal::RestoreUnderWay { .. } => "restore_under_way",
                Refusal::NoRestore { .. } => "no_restore",
                Refusal::RestoreOvertaken { .. } => "restore_overtaken",
                Refusal::RestoreNotReady { .. } => "restore_not_ready",
            },
            Self::NotFound { .. } => "not_found",
            Self::Busy { .. } => "busy",
            Self::BadRequest { .. } => "bad_request",
            Self::ReadOnly { .. } => "read_only",
            Self::Gone => "gone",
            Self::Internal { .. } => "internal",
        }
    }

    /// What to do next, for people.
    #[must_use]
    pub fn hint(&self) -> String {
        match self {
            Self::Refused(refusal) => match refusal {
                Refusal::Stopping => {
                    "start the daemon again with `agarose serve`, then submit again".to_owned()
                }
                Refusal::SessionClosed { session, .. } => {
                    format!("use another session, or free the name with `agarose session cleanup {session}`")
                }
                Refusal::QueueFull { session, .. } => format!(
                    "wait for one to finish, cancel one (`agarose session show {session}` lists them), or use another session"
                ),
                Refusal::DuplicateTicket { ticket } => format!("look at it with `agarose show {ticket}`"),
                Refusal::KeyConflict { ticket, .. } => {
                    format!("use a fresh key for a new request; `agarose show {ticket}` shows the first one")
                }
                Refusal::UnknownPredecessor { session, .. } => {
                    format!("name a ticket of the same session; `agarose log ls -s {session}` lists them")
                }
                Refusal::NoSuchTicket { .. } => {
                    "`agarose sessions` lists what is open, `agarose log ls` what has ended".to_owned()
                }
                Refusal::Ended { ticket, .. } => format!("look at it with `agarose show {ticket}`"),
                Refusal::NotOwner { ticket, .. } => {
                    format!("name its owner with --owner KIND:ID; `agarose show {ticket}` tells who that is")
                }
                Refusal::NotRunning { ticket } => {
                    format!("take it out of the queue with `agarose cancel {ticket}`")
                }
                Refusal::NotQueued { ticket } => format!("stop it with `agarose cancel {ticket}`"),
                Refusal::RestoreUnderWay { candidate, .. } => {
                    format!("wait for it, or stop it with `agarose session cleanup {candidate}`")
                }
                Refusal::NoRestore { session } => format!("begin one with `agarose restore {session}`"),
                Refusal::RestoreOvertaken { session } => {
                    format!("restore again with `agarose restore {session}`")
                }
                Refusal::RestoreNotReady { .. } => "wait until it stands still and try again".to_owned(),
                Refusal::NoSuchSession { .. } => "`agarose sessions` lists them".to_owned(),
                Refusal::NoSuchPermission { .. } => "`agarose pending` lists the open questions".to_owned(),
            },
            Self::NotFound { .. } => {
                "`agarose sessions` lists what is open, `agarose log ls` what has ended".to_owned()
            }
            Self::Busy { ticket } => {
                format!("wait until they are done, or read along with `agarose show {ticket}`")
            }
            Self::BadRequest { .. } => "correct the field and send it again".to_owned(),
            Self::ReadOnly { .. } => {
                "make room or mend the disk; reading goes on meanwhile, and writing as soon as it can"
                    .to_owned()
            }
            Self::Gone => "start it again with `agarose serve`; what was acknowledged is kept".to_owned(),
            Self::Internal { .. } => "`agarose log tail` and the daemon's own log say more".to_owned(),
        }
    }
}
