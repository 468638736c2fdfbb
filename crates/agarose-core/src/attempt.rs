//! The terminal word of an attempt: one rule, shared by everybody who writes one.
//!
//! | evidence | word |
//! |---|---|
//! | a result that says `interrupted` | interrupted |
//! | a result with an error | failed |
//! | any other result | completed |
//! | …but ok, in the grace of a cancellation whose interrupt was delivered and never raised in the cell's own code | cancelled |
//! | the watchdog ended it for a cancellation | cancelled |
//! | the watchdog ended it for a timeout | timed out |
//! | its worker died under a living daemon | failed |
//! | its worker was gone when the daemon came back | lost |
//! | it was never sent | refused or cancelled |
//!
//! It never reads error text: a `NameError` about a variable called `timeout` is a failure.

use alloc::string::String;

use serde::{Deserialize, Serialize};

use crate::{
    event::ResultStatus,
    id::TicketId,
    slot::Exit,
    watchdog::{Cause, KernelFate},
};

/// How a ticket ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Word {
    /// It ran to its end.
    Completed,
    /// It raised, or its worker died.
    Failed,
    /// An interrupt of ours ended it.
    Interrupted,
    /// Somebody cancelled it.
    Cancelled,
    /// Its time was over.
    TimedOut,
    /// It was never run.
    Refused,
    /// It was under way when the daemon died, and nothing is left that could tell.
    Lost,
}

impl Word {
    /// The word used on the wire, in the log and on the command line.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Interrupted => "interrupted",
            Self::Cancelled => "cancelled",
            Self::TimedOut => "timed_out",
            Self::Refused => "refused",
            Self::Lost => "lost",
        }
    }
}

/// Whether user code ran. A refusal has the bytes of a failure and is not evidence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Executed {
    /// The worker acknowledged it.
    Yes,
    /// It was never sent.
    No,
    /// It was sent, and whoever could tell is gone.
    Unknown,
}

impl Executed {
    /// The word used on the wire, in the log and on the command line.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Yes => "yes",
            Self::No => "no",
            Self::Unknown => "unknown",
        }
    }
}

/// What a last word rests on. Messages for people follow from this type alone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum EndCause {
    /// The worker returned a result.
    Result {
        /// What it said.
        status: ResultStatus,
    },
    /// It was cancelled before it was sent.
    CancelledBeforeStart,
    /// It waited longer than its schedule-to-start timeout.
    AdmissionTimedOut,
    /// The ticket it was chained to did not complete.
    PredecessorNotCompleted {
        /// Which.
        after: TicketId,
        /// How that ended.
        word: Word,
    },
    /// Its session was closed while it waited.
    SessionClosed,
    /// There is no kernel to run it.
    NoKernel {
        /// Why, for people.
        reason: String,
    },
    /// Its worker died under a living daemon.
    KernelDied {
        /// How.
        exit: Exit,
    },
    /// Its worker was gone when a daemon came back.
    Lost {
        /// What is known of its end.
        exit: Exit,
    },
    /// The watchdog ended it.
    Stopped {
        /// Why.
        cause: Cause,
        /// What became of the kernel.
        kernel: KernelFate,
    },
    /// A kernel was started, stopped or restarted as asked.
    Lifecycle,
}

/// The word that evidence spells. `reached_a_child` says whether an interrupt for a cancellation was
/// delivered and ended something in the cell without being raised in the cell's own code.
#[must_use]
pub const fn word(cause: &EndCause, reached_a_child: bool) -> Word {
    match cause {
        EndCause::Result { status } => match status {
            ResultStatus::Interrupted => Word::Interrupted,
            ResultStatus::Error => Word::Failed,
            // `os.system("sleep 60")` returns normally when our interrupt ends its child: nobody
            // caught anything, so the cancellation is what ended it.
            ResultStatus::Ok if reached_a_child => Word::Cancelled,
            ResultStatus::Ok => Word::Completed,
        },
        EndCause::CancelledBeforeStart
        | EndCause::AdmissionTimedOut
        | EndCause::PredecessorNotCompleted { .. }
        | EndCause::SessionClosed => Word::Cancelled,
        EndCause::NoKernel { .. } => Word::Refused,
        EndCause::KernelDied { .. } => Word::Failed,
        EndCause::Lost { .. } => Word::Lost,
        EndCause::Stopped { cause, .. } => match cause {
            Cause::Timeout | Cause::IdleTimeout => Word::TimedOut,
            Cause::Cancellation | Cause::Interrupt => Word::Cancelled,
        },
        EndCause::Lifecycle => Word::Completed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_keeps_its_own_word_whatever_was_asked_meanwhile() {
        let of = |status, reached| word(&EndCause::Result { status }, reached);
        assert_eq!(of(ResultStatus::Interrupted, true), Word::Interrupted);
        assert_eq!(of(ResultStatus::Error, true), Word::Failed);
        assert_eq!(of(ResultStatus::Ok, false), Word::Completed);
    }

    #[test]
    fn a_cell_whose_child_our_interrupt_ended_is_cancelled_though_it_returned() {
        let cause = EndCause::Result { status: ResultStatus::Ok };
        assert_eq!(word(&cause, true), Word::Cancelled);
    }
}
