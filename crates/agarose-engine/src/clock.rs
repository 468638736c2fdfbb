//! The only place where time and ids are born.

use std::{fs, time::Instant};

use agarose_core::{Stamp, TicketId, world::ClockBase};

/// The data directory's clock, carried on from the last start.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    base: u64,
    started: Instant,
}

impl Clock {
    /// A clock that goes on from `last`, the latest stamp in the log.
    ///
    /// Within one boot the machine's own uptime says how long nobody was there; across boots only
    /// the wall clock can, and it may be wrong, so that it never moves this clock back.
    pub(crate) fn resume(base: Option<&ClockBase>, last: Stamp, boot: &str, uptime: u64) -> Self {
        let since_start = base
            .filter(|base| base.boot == boot)
            .map(|base| base.mono.saturating_add(uptime.saturating_sub(base.uptime)));
        // An empty log has no last stamp: the clock begins with it.
        let away = if last == Stamp::default() { 0 } else { wall_now().saturating_sub(last.wall) };
        let by_wall = last.mono.saturating_add(away);
        let base = since_start.unwrap_or(by_wall).max(last.mono);
        Self { base, started: Instant::now() }
    }

    pub(crate) fn now(&self) -> Stamp {
        Stamp { wall: wall_now(), mono: self.mono() }
    }

    pub(crate) fn mono(&self) -> u64 {
        let elapsed = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.base.saturating_add(elapsed)
    }
}

/// Milliseconds since the Unix epoch.
pub(crate) fn wall_now() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// Milliseconds since the machine was started, suspended time included (proc_uptime(5)).
pub(crate) fn uptime() -> u64 {
    let text = fs::read_to_string("/proc/uptime").unwrap_or_default();
    let first = text.split_whitespace().next().unwrap_or_default();
    let (seconds, hundredths) = first.split_once('.').unwrap_or((first, "0"));
    let seconds: u64 = seconds.parse().unwrap_or(0);
    let hundredths: u64 = hundredths.parse().unwrap_or(0);
    seconds.saturating_mul(1000).saturating_add(hundredths.saturating_mul(10))
}

/// A ticket id that was never used: 48 bits of wall time, 80 bits of the system's randomness.
pub(crate) fn fresh_ticket() -> TicketId {
    let mut random = [0u8; 16];
    if getrandom::fill(&mut random[..10]).is_err() {
        // Without a source of randomness the clock's finest digits and our own address are left.
        let nanos =
            std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default().as_nanos();
        random = (nanos ^ (u128::from(std::process::id()) << 64)).to_le_bytes();
    }
    let random = u128::from_le_bytes(random) & ((1 << 80) - 1);
    TicketId((u128::from(wall_now()) << 80) | random)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn base(uptime: u64, mono: u64) -> ClockBase {
        ClockBase { boot: "b".to_owned(), uptime, mono }
    }

    #[test]
    fn time_without_a_daemon_counts_by_uptime_whatever_the_wall_says() {
        let last = Stamp { wall: wall_now() + 3_600_000, mono: 700 };
        let clock = Clock::resume(Some(&base(1_000, 500)), last, "b", 9_000);
        assert_eq!(clock.base, 8_500);
    }

    #[test]
    fn a_wall_clock_set_back_across_a_boot_never_moves_the_clock_back() {
        let last = Stamp { wall: wall_now() + 3_600_000, mono: 700 };
        let clock = Clock::resume(Some(&base(1_000, 500)), last, "another", 10);
        assert_eq!(clock.base, 700);
    }

    #[test]
    fn the_clock_of_a_new_directory_begins_at_zero() {
        assert_eq!(Clock::resume(None, Stamp::default(), "b", 5).base, 0);
    }

    #[test]
    fn fresh_tickets_differ_and_sort_by_time() {
        let (a, b) = (fresh_ticket(), fresh_ticket());
        assert_ne!(a, b);
        assert!(a.0 >> 80 <= b.0 >> 80);
    }
}
