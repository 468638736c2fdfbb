//! Where a command writes: its answer to one place, notes for people to another.

use std::io::{self, Write};

use crate::json::Json;

/// The two outputs and the form that was asked for.
pub(crate) struct Screen<'a> {
    pub(crate) out: &'a mut dyn Write,
    pub(crate) err: &'a mut dyn Write,
    /// Whether the answer is JSON, one value a line.
    pub(crate) json: bool,
}

impl Screen<'_> {
    /// Writes one line of the answer.
    pub(crate) fn line(&mut self, text: &str) -> io::Result<()> {
        self.out.write_all(text.as_bytes())?;
        self.out.write_all(b"\n")
    }

    /// Writes one value of the answer.
    pub(crate) fn value(&mut self, value: &Json) -> io::Result<()> {
        self.line(&value.line())
    }

    /// Tells people something beside the answer.
    pub(crate) fn note(&mut self, text: &str) {
        // Nobody can be told that nobody can be told.
        let _ = writeln!(self.err, "{text}");
    }
}
