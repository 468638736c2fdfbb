//! One counter for every bounded channel: seen, retained, dropped, truncated.
//!
//! Whatever bounds an input says so with these four numbers (promise P6), in one spelling across
//! the code, the wire and the terminal.

use serde::{Deserialize, Serialize};

/// What a [`Counters`] counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Octets, before any decoding.
    #[default]
    Bytes,
    /// Unicode scalar values.
    Characters,
    /// Whole things: files, entries, frames.
    Items,
}

/// How much went through a bounded channel, and how much of it was kept.
///
/// `retained` never exceeds `seen`; a claim that it does is clamped where the value is made, so
/// that `dropped` is never negative and `truncated` is true exactly when something was dropped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Counters {
    seen: u64,
    retained: u64,
    unit: Unit,
}

impl Counters {
    /// Counters with `retained` out of `seen`; more retained than seen is clamped to seen.
    #[must_use]
    pub const fn new(seen: u64, retained: u64, unit: Unit) -> Self {
        let retained = if retained > seen { seen } else { retained };
        Self { seen, retained, unit }
    }

    /// Everything that was seen was kept.
    #[must_use]
    pub const fn whole(seen: u64, unit: Unit) -> Self {
        Self { seen, retained: seen, unit }
    }

    /// What passed, whether it was kept or not.
    #[must_use]
    pub const fn seen(&self) -> u64 {
        self.seen
    }

    /// What was kept.
    #[must_use]
    pub const fn retained(&self) -> u64 {
        self.retained
    }

    /// What was seen and not kept.
    #[must_use]
    pub const fn dropped(&self) -> u64 {
        self.seen.saturating_sub(self.retained)
    }

    /// Whether anything was dropped. Output that ends exactly at its bound was not truncated.
    #[must_use]
    pub const fn truncated(&self) -> bool {
        self.dropped() > 0
    }

    /// What is counted.
    #[must_use]
    pub const fn unit(&self) -> Unit {
        self.unit
    }

    /// The same counters after `seen` more passed, of which `retained` were kept.
    #[must_use]
    pub const fn and(self, seen: u64, retained: u64) -> Self {
        Self::new(self.seen.saturating_add(seen), self.retained.saturating_add(retained), self.unit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_reached_exactly_is_not_truncated() {
        assert!(!Counters::new(10, 10, Unit::Bytes).truncated());
        assert!(Counters::new(11, 10, Unit::Bytes).truncated());
    }

    #[test]
    fn a_claim_to_hold_more_than_was_seen_is_clamped() {
        let counters = Counters::new(3, 9, Unit::Items);
        assert_eq!((counters.retained(), counters.dropped()), (3, 0));
    }
}
