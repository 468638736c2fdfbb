//! A cell: the life of one admitted ticket, from its session's point of view.
//!
//! | phase | event | next |
//! |---|---|---|
//! | gone | `TicketAdmitted` | admitted |
//! | admitted, stop awaited | `KernelStarting` | start awaited |
//! | admitted, start awaited | `ExecuteRequested` | under way |
//! | admitted, start awaited | `KernelStopRequested`, of a lifecycle ticket | stop awaited |
//! | start awaited | `KernelStopRequested`, of a cell whose daemon stops | admitted |
//! | under way | `ExecuteAcknowledged` | begun |
//! | under way, begun | `CellDraining`, as calls to its host are under way | draining |
//! | admitted, start awaited, stop awaited, under way, begun, draining | `TicketEnded`, then `CellClosed` | gone |

use alloc::boxed::Box;

use serde::{Deserialize, Serialize};

use crate::{
    attempt::{EndCause, Executed, Word},
    id::{Lease, TicketId},
    time::Stamp,
    watchdog::{Budget, Rung},
};

/// The session's one active ticket.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cell {
    /// Which.
    pub ticket: TicketId,
    /// Since when it is the active one.
    pub admitted: Stamp,
    /// How far it has come.
    pub phase: Phase,
    /// Up to where its output was given to whoever observes it, an offset.
    pub observed: u64,
}

/// How far a cell has come.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Phase {
    /// Nothing was asked of a kernel yet.
    Admitted,
    /// A kernel is being started for it.
    StartAwaited,
    /// A kernel is being stopped for it.
    StopAwaited,
    /// It was sent.
    Underway(Box<Run>),
    /// It has ended, and its last word waits for the calls that it left behind.
    Draining(Box<Drain>),
}

/// An execution that has ended and whose last word is not said yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Drain {
    /// What it ran under.
    pub lease: Lease,
    /// The word that it will have.
    pub word: Word,
    /// Whether it ran.
    pub executed: Executed,
    /// What the word rests on.
    pub cause: EndCause,
    /// Until when its calls are waited for, on the data directory's clock.
    pub until: u64,
}

/// An execution that was sent and has no last word.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// What must be shown to touch it.
    pub lease: Lease,
    /// Its number in the session.
    pub ordinal: u64,
    /// When it was sent.
    pub sent: Stamp,
    /// When the worker said that it has begun.
    pub acknowledged: Option<Stamp>,
    /// What it may still take.
    pub budget: Budget,
    /// How far the watchdog has gone.
    pub rung: Rung,
    /// How many interrupts were requested.
    pub interrupts: u32,
    /// Whether its output is in the log already.
    pub output_kept: bool,
}

impl Cell {
    /// The execution, if it was sent.
    #[must_use]
    pub const fn run(&self) -> Option<&Run> {
        match &self.phase {
            Phase::Underway(run) => Some(run),
            Phase::Admitted | Phase::StartAwaited | Phase::StopAwaited | Phase::Draining(_) => None,
        }
    }

    /// What it waits for when it has ended and its last word is not said yet.
    #[must_use]
    pub const fn drain(&self) -> Option<&Drain> {
        match &self.phase {
            Phase::Draining(drain) => Some(drain),
            Phase::Admitted | Phase::StartAwaited | Phase::StopAwaited | Phase::Underway(_) => None,
        }
    }

    pub(crate) const fn run_mut(&mut self) -> Option<&mut Run> {
        match &mut self.phase {
            Phase::Underway(run) => Some(run),
            Phase::Admitted | Phase::StartAwaited | Phase::StopAwaited | Phase::Draining(_) => None,
        }
    }
}
