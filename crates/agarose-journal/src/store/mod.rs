//! The store: what remembers, once the segments have made it durable.
//!
//! One ordered map of bytes, split into [`Space`]s. Every batch is atomic. Nothing here is durable
//! until [`Store::sync`] has returned; what was lost before that comes back from the segments.

mod memory;
mod sled;
#[cfg(test)]
mod suite;

use std::ops::Bound;

pub use self::{memory::MemoryStore, sled::SledStore};

/// One kind of key. The first byte of every key in the store. Frozen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Space {
    /// `b` hash, part → a part of content that travelled in a commit.
    Blob = b'b',
    /// `k` idempotency key → ticket, sequence.
    Key = b'k',
    /// `m` name → facts about the store itself.
    Meta = b'm',
    /// `p` first sequence, first record, part → consecutive records without their attachments.
    Page = b'p',
    /// `s` session, 0, first sequence of a page → nothing.
    Session = b's',
    /// `t` ticket, first sequence of a page → nothing.
    Ticket = b't',
}

/// A key and its value.
pub type Pair = (Vec<u8>, Vec<u8>);

/// What to put into the store at once.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    pub(crate) puts: Vec<(Space, Vec<u8>, Vec<u8>)>,
}

impl Batch {
    /// Adds a value under a key.
    pub fn put(&mut self, space: Space, key: impl Into<Vec<u8>>, value: impl Into<Vec<u8>>) {
        self.puts.push((space, key.into(), value.into()));
    }
}

/// The store does not answer.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// It says why.
    #[error("the store failed while {doing}: {what}")]
    Failed {
        /// What was being done.
        doing: &'static str,
        /// What it said.
        what: String,
    },
    /// It panicked, which it does on some damage.
    #[error("the store panicked while {doing}: {what}")]
    Panicked {
        /// What was being done.
        doing: &'static str,
        /// What it said.
        what: String,
    },
}

/// An ordered map of bytes with atomic batches. Keys are given and returned without their space.
pub trait Store: Send + Sync {
    /// Puts a batch, whole or not at all, over what was there.
    ///
    /// # Errors
    /// The store fails; it should be opened anew.
    fn put(&self, batch: Batch) -> Result<(), StoreError>;

    /// The value under a key.
    ///
    /// # Errors
    /// The store fails.
    fn get(&self, space: Space, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError>;

    /// The first pair in a range of keys of one space.
    ///
    /// # Errors
    /// The store fails.
    fn first(&self, space: Space, from: Bound<&[u8]>, to: Bound<&[u8]>) -> Result<Option<Pair>, StoreError>;

    /// The last pair in a range of keys of one space.
    ///
    /// # Errors
    /// The store fails.
    fn last(&self, space: Space, from: Bound<&[u8]>, to: Bound<&[u8]>) -> Result<Option<Pair>, StoreError>;

    /// Makes everything put so far survive a loss of power.
    ///
    /// # Errors
    /// The store fails; what was put is in doubt.
    fn sync(&self) -> Result<(), StoreError>;
}

fn full_key(space: Space, key: &[u8]) -> Vec<u8> {
    let mut full = Vec::with_capacity(key.len() + 1);
    full.push(space as u8);
    full.extend_from_slice(key);
    full
}

/// The range of full keys for a range of keys in one space.
fn full_range(space: Space, from: Bound<&[u8]>, to: Bound<&[u8]>) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
    let low = match from {
        Bound::Included(key) => Bound::Included(full_key(space, key)),
        Bound::Excluded(key) => Bound::Excluded(full_key(space, key)),
        Bound::Unbounded => Bound::Included(vec![space as u8]),
    };
    let high = match to {
        Bound::Included(key) => Bound::Included(full_key(space, key)),
        Bound::Excluded(key) => Bound::Excluded(full_key(space, key)),
        Bound::Unbounded => Bound::Excluded(vec![space as u8 + 1]),
    };
    (low, high)
}

/// Whether a range holds nothing by its bounds alone; ordered maps panic when asked for some of those.
fn is_empty_range(low: &Bound<Vec<u8>>, high: &Bound<Vec<u8>>) -> bool {
    match (low, high) {
        (Bound::Included(a), Bound::Included(b)) => a > b,
        (Bound::Included(a) | Bound::Excluded(a), Bound::Included(b) | Bound::Excluded(b)) => a >= b,
        (Bound::Unbounded, _) | (_, Bound::Unbounded) => false,
    }
}
