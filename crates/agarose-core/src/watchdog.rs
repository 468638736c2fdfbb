//! The watchdog: one ladder per frozen lease, and the budget it watches.
//!
//! | rung | event | next rung |
//! |---|---|---|
//! | waiting | `LadderStarted`, then `InterruptRequested` | interrupting |
//! | interrupting, grace | `LadderStarted`, over a bare interrupt | interrupting |
//! | interrupting | `InterruptAnswered`, delivered | grace |
//! | interrupting | `KillRequested`, as the interrupt reached nobody | killing |
//! | grace | `KillRequested` | killing |
//! | interrupting, grace | `LadderEnded`, as a bare interrupt was ignored | waiting |
//! | killing | `GroupStopped` | stopped |
//! | interrupting, grace | `GroupStopped`, as its worker went by itself | stopped |
//! | stopped | `KernelStarting` | replacing |
//! | waiting, interrupting, grace, stopped, replacing | `TicketEnded`, `CellDraining` | ended |
//!
//! Deadlines are state: folding the log gives the same rung with the same deadline, so a daemon
//! that was killed on any rung goes on from it. A bare interrupt (`agarose interrupt`) climbs one
//! rung only; a cancellation and a timeout climb to the top.

use alloc::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::{id::Generation, permission::PermissionId, slot::GroupOutcome, ticket::Timeouts, time::Stamp};

/// Why a cell is being stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// Start-to-close time is over.
    Timeout,
    /// No sign of life for as long as its heartbeat allows.
    IdleTimeout,
    /// Somebody cancelled it.
    Cancellation,
    /// Somebody asked for one interrupt and nothing more.
    Interrupt,
}

/// Whom an interrupt reached.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Verdict {
    /// The armed execution.
    Delivered,
    /// Nobody.
    ReachedNobody {
        /// Why.
        reason: NobodyReason,
    },
}

/// Why an interrupt reached nobody.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NobodyReason {
    /// Another execution is there.
    StaleLease,
    /// The execution has not begun or has ended.
    NotArmed,
    /// The worker is not there any more.
    WorkerGone,
    /// Its supervisor does not answer.
    SupervisorUnreachable,
}

/// What became of the kernel of a cell that had to be stopped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum KernelFate {
    /// The old one is gone with its variables; a new one is there or comes with the next cell.
    Reset {
        /// What the probe said.
        group: GroupOutcome,
        /// The life that replaces it, when one was started.
        replacement: Option<Generation>,
    },
    /// It could not be stopped from here: the work may still run.
    NotReset {
        /// The evidence.
        group: GroupOutcome,
    },
    /// The old one is gone, and its replacement did not come up.
    ResetUnavailable {
        /// What the probe said.
        group: GroupOutcome,
    },
}

/// How a ladder ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LadderEnd {
    /// A result came after all.
    Finished,
    /// A bare interrupt was not heeded within its grace; the cell goes on.
    Ignored,
    /// The cell was stopped.
    Stopped(KernelFate),
}

/// How far the ladder was climbed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Rung {
    /// Nothing was done yet.
    #[default]
    Waiting,
    /// The interrupt is under way.
    Interrupting {
        /// Why.
        cause: Cause,
        /// Until when its verdict is awaited, on the data directory's clock.
        until: u64,
    },
    /// It was delivered; the cell may end by itself.
    Grace {
        /// Why.
        cause: Cause,
        /// Until when, on the data directory's clock.
        until: u64,
    },
    /// The group is being stopped.
    Killing {
        /// Why.
        cause: Cause,
        /// Until when the answer is awaited, on the data directory's clock.
        until: u64,
    },
    /// The group was stopped; a replacement may be under way.
    Stopped {
        /// Why.
        cause: Cause,
        /// What the probe said.
        group: GroupOutcome,
        /// The life that replaces it.
        replacement: Option<Generation>,
    },
}

impl Rung {
    /// Why the ladder is being climbed, if it is.
    #[must_use]
    pub const fn cause(&self) -> Option<Cause> {
        match self {
            Self::Waiting => None,
            Self::Interrupting { cause, .. }
            | Self::Grace { cause, .. }
            | Self::Killing { cause, .. }
            | Self::Stopped { cause, .. } => Some(*cause),
        }
    }

    /// When the driver has to look again.
    #[must_use]
    pub const fn deadline(&self) -> Option<u64> {
        match self {
            Self::Interrupting { until, .. } | Self::Grace { until, .. } | Self::Killing { until, .. } => {
                Some(*until)
            }
            Self::Waiting | Self::Stopped { .. } => None,
        }
    }
}

/// The time a running cell may still take. Time frozen by a permission question is never charged;
/// time during which the daemon was down is, because the cell ran on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Budget {
    /// Since when it is charged, on the data directory's clock.
    started: u64,
    /// Milliseconds that were frozen and are over.
    thawed: u64,
    /// Since when it is frozen.
    frozen_since: Option<u64>,
    /// The questions that freeze it.
    frozen_by: BTreeSet<PermissionId>,
    /// The last sign of life that the log knows, on the data directory's clock.
    active: u64,
    timeouts: Timeouts,
}

impl Budget {
    /// A budget that is charged from `now` on.
    #[must_use]
    pub const fn new(now: Stamp, timeouts: Timeouts) -> Self {
        Self {
            started: now.mono,
            thawed: 0,
            frozen_since: None,
            frozen_by: BTreeSet::new(),
            active: now.mono,
            timeouts,
        }
    }

    /// Milliseconds charged until `now`.
    #[must_use]
    pub const fn charged(&self, now: u64) -> u64 {
        let until = match self.frozen_since {
            Some(since) if since < now => since,
            Some(_) | None => now,
        };
        until.saturating_sub(self.started).saturating_sub(self.thawed)
    }

    /// Stops the charging for a question; a second question keeps it stopped.
    pub fn freeze(&mut self, now: Stamp, by: PermissionId) {
        if self.frozen_by.insert(by) && self.frozen_since.is_none() {
            self.frozen_since = Some(now.mono);
        }
    }

    /// Starts the charging again once no question is left.
    pub fn thaw(&mut self, now: Stamp, by: PermissionId) {
        if self.frozen_by.remove(&by)
            && self.frozen_by.is_empty()
            && let Some(since) = self.frozen_since.take()
        {
            let pause = now.mono.saturating_sub(since);
            self.thawed = self.thawed.saturating_add(pause);
            self.active = self.active.max(now.mono);
        }
    }

    /// Whether a question stops the charging.
    #[must_use]
    pub const fn is_frozen(&self) -> bool {
        self.frozen_since.is_some()
    }

    /// Notes a sign of life.
    pub fn note_activity(&mut self, at: u64) {
        self.active = self.active.max(at);
    }

    /// The last sign of life that the log knows.
    #[must_use]
    pub const fn last_activity(&self) -> u64 {
        self.active
    }

    /// Whether a sign of life changes anything.
    #[must_use]
    pub const fn heeds_activity(&self) -> bool {
        self.timeouts.heartbeat.is_some()
    }

    /// When it runs out, and why: the earlier of its two limits; never while it is frozen. A limit
    /// of zero is no limit.
    #[must_use]
    pub fn expiry(&self) -> Option<(u64, Cause)> {
        if self.is_frozen() {
            return None;
        }
        let close =
            self.timeouts.start_to_close.filter(|limit| limit.0 > 0).map(|limit| {
                (self.started.saturating_add(self.thawed).saturating_add(limit.0), Cause::Timeout)
            });
        let idle = self
            .timeouts
            .heartbeat
            .filter(|limit| limit.0 > 0)
            .map(|limit| (self.active.saturating_add(limit.0), Cause::IdleTimeout));
        match (close, idle) {
            (Some(close), Some(idle)) => Some(close.min(idle)),
            (Some(one), None) | (None, Some(one)) => Some(one),
            (None, None) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Millis;
    use proptest::prelude::*;

    fn at(mono: u64) -> Stamp {
        Stamp { wall: mono, mono }
    }

    fn budget(limit: u64) -> Budget {
        let timeouts = Timeouts { start_to_close: Some(Millis(limit)), ..Timeouts::default() };
        Budget::new(at(0), timeouts)
    }

    #[test]
    fn two_questions_freeze_until_both_are_decided() {
        let mut budget = budget(100);
        budget.freeze(at(10), PermissionId(1));
        budget.freeze(at(20), PermissionId(2));
        budget.thaw(at(30), PermissionId(1));
        assert!(budget.is_frozen());
        budget.thaw(at(50), PermissionId(2));
        assert_eq!(budget.expiry(), Some((140, Cause::Timeout)));
    }

    proptest! {
        #[test]
        fn frozen_time_is_never_charged(steps in proptest::collection::vec((0u64..50, 0u64..4, any::<bool>()), 0..40)) {
            let mut budget = budget(1_000_000);
            let (mut now, mut charged) = (0u64, 0u64);
            let mut open = alloc::collections::BTreeSet::new();
            for (pause, question, freeze) in steps {
                if open.is_empty() {
                    charged += pause;
                }
                now += pause;
                if freeze {
                    open.insert(question);
                    budget.freeze(at(now), PermissionId(question));
                } else {
                    open.remove(&question);
                    budget.thaw(at(now), PermissionId(question));
                }
                prop_assert_eq!(budget.charged(now), charged);
                prop_assert_eq!(budget.is_frozen(), !open.is_empty());
            }
        }
    }
}
