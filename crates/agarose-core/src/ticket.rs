//! A ticket: one request, from the queue to its last word.
//!
//! | state | event | next |
//! |---|---|---|
//! | absent | `TicketQueued` | queued |
//! | queued | `TicketAdmitted` | running |
//! | queued, running | `TicketEnded` | ended |
//!
//! What waits can only end cancelled. Its identity never changes; an ended ticket never changes again. Only open tickets live in the
//! [`World`](crate::world::World); what has ended is read from the log.

use alloc::{string::String, vec::Vec};

use serde::{Deserialize, Serialize};

use crate::{
    attempt::Word,
    id::{BlobRef, Language, Owner, TicketId},
    time::{Millis, Stamp},
};

/// What a ticket asks for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Work {
    /// Run a cell.
    Cell {
        /// Its source, UTF-8.
        source: BlobRef,
        /// What tracebacks call it; absent for `<cell N>`.
        name: Option<String>,
    },
    /// Stop the kernel.
    StopKernel,
    /// Stop the kernel and start a fresh one.
    RestartKernel,
}

/// The limits of a ticket; absent means none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timeouts {
    /// Schedule-to-start: how long it may wait in the queue.
    pub schedule_to_start: Option<Millis>,
    /// Start-to-close: how long it may run.
    pub start_to_close: Option<Millis>,
    /// Heartbeat: how long it may run without output or a host call.
    pub heartbeat: Option<Millis>,
    /// How long a delivered interrupt is waited for.
    pub interrupt_grace: Option<Millis>,
    /// How long TERM and then KILL are waited for, each.
    pub kill_grace: Option<Millis>,
}

/// A request to stop a ticket. The first one stays.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cancel {
    /// Who asked.
    pub by: Owner,
    /// Why, in their words.
    pub reason: String,
    /// When.
    pub at: Stamp,
}

/// An open ticket.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ticket {
    /// Its name for ever.
    pub id: TicketId,
    /// Who asked.
    pub owner: Owner,
    /// Which interpreter.
    pub language: Language,
    /// What is to be done.
    pub work: Work,
    /// The caller's own key.
    pub key: Option<String>,
    /// Digest of the request.
    pub digest: [u8; 32],
    /// The ticket that has to complete first, and how it ended once it has.
    pub after: Option<(TicketId, Option<Word>)>,
    /// Its limits.
    pub timeouts: Timeouts,
    /// The branch of work it belongs to.
    pub branch: Option<String>,
    /// What it will touch.
    pub resource_keys: Vec<String>,
    /// When it was accepted.
    pub queued: Stamp,
    /// Who asked to stop it, if somebody did.
    pub cancel: Option<Cancel>,
}

impl Ticket {
    /// When it gives up waiting, on the data directory's clock.
    #[must_use]
    pub fn admission_deadline(&self) -> Option<u64> {
        self.timeouts.schedule_to_start.map(|limit| self.queued.deadline(limit))
    }
}
