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
//! | admitted, start awaited, stop awaited, under way, begun | `TicketEnded`, then `CellClosed` | gone |

use alloc::boxed::Box;

use serde::{Deserialize, Serialize};

use crate::{
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
            Phase::Admitted | Phase::StartAwaited | Phase::StopAwaited => None,
        }
    }

    pub(crate) const fn run_mut(&mut self) -> Option<&mut Run> {
        match &mut self.phase {
            Phase::Underway(run) => Some(run),
            Phase::Admitted | Phase::StartAwaited | Phase::StopAwaited => None,
        }
    }
}
