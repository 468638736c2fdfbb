//! Time as integers that come in with a command.

use serde::{Deserialize, Serialize};

/// A duration in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Millis(pub u64);

impl Millis {
    /// Seconds as milliseconds, saturating.
    #[must_use]
    pub const fn seconds(seconds: u64) -> Self {
        Self(seconds.saturating_mul(1000))
    }

    /// This much longer, saturating.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// This much shorter, never below zero.
    #[must_use]
    pub const fn minus(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

/// When something happened, twice.
///
/// `wall` is for people: it may jump. `mono` is the data directory's own clock: milliseconds since
/// it was made, never decreasing, carried across restarts by the driver. Every deadline and every
/// duration is taken from `mono`; order is taken from the log's sequence and from nothing else.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Stamp {
    /// Milliseconds since the Unix epoch, as the wall clock said.
    pub wall: u64,
    /// Milliseconds on the data directory's own clock.
    pub mono: u64,
}

impl Stamp {
    /// The point on the data directory's clock that lies `after` from now.
    #[must_use]
    pub const fn deadline(self, after: Millis) -> u64 {
        self.mono.saturating_add(after.0)
    }
}
