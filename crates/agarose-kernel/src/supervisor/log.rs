//! The supervisor's remarks: one line each, bounded.

use std::{
    io::{self, Write},
    time::{SystemTime, UNIX_EPOCH},
};

/// The most bytes that one supervisor writes to its log.
const LIMIT: usize = 256 << 10;
/// The longest remark, in bytes.
const LONGEST: usize = 2 << 10;

/// Milliseconds since the Unix epoch.
pub(super) fn wall_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// Where remarks go: descriptor 2, which is the log file of a supervisor that was launched.
#[derive(Debug, Default)]
pub(super) struct Log {
    written: usize,
}

impl Log {
    /// Writes a line; one that does not fit or that nobody takes is lost.
    pub(super) fn note(&mut self, text: &str) {
        if self.written > LIMIT {
            return;
        }
        let text = text.get(..text.floor_char_boundary(LONGEST)).unwrap_or(text);
        let line = format!("{} {}\n", wall_ms(), text.escape_debug());
        self.written += line.len();
        let _ = io::stderr().write_all(line.as_bytes());
        if self.written > LIMIT {
            let _ = io::stderr().write_all(b"the log has reached its limit; later remarks are lost\n");
        }
    }
}
