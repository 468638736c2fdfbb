//! The words spoken to a worker and to a supervisor. Pure: no descriptor, no clock.

pub mod frame;
pub mod supervisor;
pub mod worker;

#[cfg(test)]
mod tests;

use std::fmt;

use agarose_core::{Generation, TicketId};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// The version of both protocols. A peer of another version is refused.
pub const PROTOCOL: u32 = 1;

/// The id of an execution as both wires carry it: the 26 characters of its ticket's id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ExecutionId(pub TicketId);

impl From<TicketId> for ExecutionId {
    fn from(ticket: TicketId) -> Self {
        Self(ticket)
    }
}

impl fmt::Display for ExecutionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl Serialize for ExecutionId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

struct ParsedText<T>(&'static str, fn(&str) -> Option<T>);

impl<T> de::Visitor<'_> for ParsedText<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
        (self.1)(text).ok_or_else(|| {
            let shown: String = text.chars().take(64).collect();
            E::invalid_value(de::Unexpected::Str(&shown), &self)
        })
    }
}

impl<'de> Deserialize<'de> for ExecutionId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(ParsedText("the 26 characters of an execution's id", |text| {
            text.parse().ok().map(Self)
        }))
    }
}

/// A generation as the wire carries it: `g7`.
pub(crate) mod generation_text {
    use super::{Deserializer, Generation, ParsedText, Serializer};

    pub(crate) fn serialize<S: Serializer>(
        generation: &Generation,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_str(generation)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Generation, D::Error> {
        deserializer.deserialize_str(ParsedText("a generation such as g7", |text| {
            text.strip_prefix('g')?.parse().ok().map(Generation)
        }))
    }
}

/// Where a piece of a cell's output came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Channel {
    /// Descriptor 1.
    Stdout,
    /// Descriptor 2.
    Stderr,
    /// What the cell displayed: whole `display` and `clear_output` frames, as they came.
    Display,
}

/// A piece of an execution's merged stream, at its absolute offset.
///
/// Offsets count every byte of every channel in the order in which they were read, dropped or not:
/// where one run ends before the next begins, the bytes between were dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// Where it came from.
    pub channel: Channel,
    /// The offset of its first byte in the merged stream.
    pub start: u64,
    /// Its length, in bytes.
    pub len: u64,
}
