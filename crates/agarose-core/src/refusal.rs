//! What stands in the way of a command. A refusal changes nothing.

use alloc::string::String;

use crate::{
    attempt::Word,
    id::{Owner, SessionId, TicketId},
    permission::PermissionId,
};

/// Why a command was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The daemon is on its way out.
    #[error("the daemon is stopping and admits no new work")]
    Stopping,
    /// The session takes no new work.
    #[error("session {session} is closed: {reason}")]
    SessionClosed {
        /// Which.
        session: SessionId,
        /// Why it was closed.
        reason: String,
    },
    /// As many tickets wait as may wait.
    #[error("session {session} has {waiting} tickets waiting, and at most {cap} may wait")]
    QueueFull {
        /// Which.
        session: SessionId,
        /// How many wait.
        waiting: u64,
        /// How many may.
        cap: u64,
    },
    /// The id was used before.
    #[error("ticket {ticket} exists already")]
    DuplicateTicket {
        /// Which.
        ticket: TicketId,
    },
    /// The same key was used for another request.
    #[error("key {key:?} belongs to ticket {ticket}, which asked for something else")]
    KeyConflict {
        /// The key.
        key: String,
        /// Whose it is.
        ticket: TicketId,
    },
    /// The ticket to follow is not known in this session.
    #[error("ticket {after} is not known in session {session}, so nothing can follow it there")]
    UnknownPredecessor {
        /// Which.
        after: TicketId,
        /// Where it was looked for.
        session: SessionId,
    },
    /// There is no such open ticket.
    #[error("there is no open ticket {ticket}")]
    NoSuchTicket {
        /// Which.
        ticket: TicketId,
    },
    /// It has its last word already.
    #[error("ticket {ticket} has ended: {}", word.as_str())]
    Ended {
        /// Which.
        ticket: TicketId,
        /// How.
        word: Word,
    },
    /// It belongs to somebody else.
    #[error("ticket {ticket} does not belong to {asked}")]
    NotOwner {
        /// Which.
        ticket: TicketId,
        /// Who asked.
        asked: Owner,
    },
    /// It does not run yet.
    #[error("ticket {ticket} runs no cell, so there is nothing to interrupt")]
    NotRunning {
        /// Which.
        ticket: TicketId,
    },
    /// It does not wait any more.
    #[error("ticket {ticket} has left the queue")]
    NotQueued {
        /// Which.
        ticket: TicketId,
    },
    /// There is no such session.
    #[error("there is no session {session}")]
    NoSuchSession {
        /// Which.
        session: SessionId,
    },
    /// The namespace is being built anew already.
    #[error("session {session} is being restored in {candidate}")]
    RestoreUnderWay {
        /// Whose.
        session: SessionId,
        /// Where.
        candidate: SessionId,
    },
    /// There is no restore to go on with.
    #[error("session {session} is not being restored")]
    NoRestore {
        /// Whose.
        session: SessionId,
    },
    /// A cell ran in the session since the restore was planned, and publishing would lose what it did.
    #[error("session {session} has run other cells since the restore was planned")]
    RestoreOvertaken {
        /// Whose.
        session: SessionId,
    },
    /// The kernels cannot be exchanged at this moment.
    #[error("session {session} cannot take over the restored kernel now: {why}")]
    RestoreNotReady {
        /// Whose.
        session: SessionId,
        /// What stands in the way.
        why: String,
    },
    /// There is no such open question.
    #[error("there is no open question {permission}")]
    NoSuchPermission {
        /// Which.
        permission: PermissionId,
    },
}
