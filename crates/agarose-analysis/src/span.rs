//! Places in a source: half-open byte ranges with the row and column a person sees.

use serde::{Deserialize, Serialize};

/// A half-open byte range of the analysed source, with the position of its first byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Span {
    /// First byte.
    pub start: u32,
    /// One past the last byte.
    pub end: u32,
    /// Row of `start`, counted from 0.
    pub row: u32,
    /// UTF-8 bytes between the start of the row and `start`.
    pub column: u32,
}

/// A range before rows and columns are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub(crate) struct Range {
    pub(crate) start: u32,
    pub(crate) end: u32,
}

/// Up to three places where a fact was seen: enough to point at, bounded for a cell of any size.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Places {
    len: u8,
    items: [Range; 3],
}

impl Places {
    pub(crate) fn add(&mut self, at: Range) {
        if self.items[..usize::from(self.len)].contains(&at) {
            return;
        }
        if let Some(slot) = self.items.get_mut(usize::from(self.len)) {
            *slot = at;
            self.len += 1;
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Range> + '_ {
        self.items[..usize::from(self.len)].iter().copied()
    }
}

/// The starts of the rows of a source.
pub(crate) struct Rows(Vec<u32>);

impl Rows {
    pub(crate) fn of(source: &str) -> Self {
        let mut starts = vec![0];
        starts.extend(
            source.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at as u32 + 1),
        );
        Self(starts)
    }

    pub(crate) fn span(&self, range: Range) -> Span {
        let row = self.0.partition_point(|start| *start <= range.start).saturating_sub(1);
        let column = range.start - self.0.get(row).copied().unwrap_or(0);
        Span { start: range.start, end: range.end, row: row as u32, column }
    }
}
