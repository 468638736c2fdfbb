//! What a record carries: events in their envelope, and content that travels with them.

use std::sync::Arc;

use agarose_core::{BlobRef, SessionId, Stamp, TicketId};

/// The largest content that travels inside a commit, in bytes; larger content is a blob file.
pub const INLINE_LIMIT: usize = 64 * 1024;

/// The longest idempotency key, in bytes.
pub const KEY_LIMIT: usize = 1024;

/// One event as the log keeps it: an envelope that the journal reads, and a payload that it does not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawEvent {
    /// The frozen number of the kind of event.
    pub kind: u16,
    /// The version of that kind's payload.
    pub version: u16,
    /// When it happened.
    pub stamp: Stamp,
    /// The session it belongs to, if any; indexed.
    pub session: Option<SessionId>,
    /// The ticket it belongs to, if any; indexed.
    pub ticket: Option<TicketId>,
    /// A text under which the ticket is found again within its session (an idempotency key); indexed, the
    /// first one wins. Without session and ticket it is kept and not indexed.
    pub key: Option<String>,
    /// The payload, as the codec wrote it.
    pub payload: Vec<u8>,
}

/// The key of the index for an idempotency key. A session's name holds no control characters, so the zero ends it.
pub(crate) fn key_name(session: &SessionId, key: &str) -> Vec<u8> {
    let mut name = session.as_str().as_bytes().to_vec();
    name.push(0);
    name.extend_from_slice(key.as_bytes());
    name
}

impl RawEvent {
    /// What the index keeps of the event's idempotency key.
    pub(crate) fn indexed_key(&self) -> Option<(Vec<u8>, TicketId)> {
        Some((key_name(self.session.as_ref()?, self.key.as_deref()?), self.ticket?))
    }
}

/// An event with its place in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The event's sequence number: 1 for the first event of the log, one more for each after it.
    pub sequence: u64,
    /// The event.
    pub event: RawEvent,
}

/// Content that travels in the commit of the event that names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attachment {
    blob: BlobRef,
    bytes: Arc<[u8]>,
}

/// The content is too large to travel in a commit: store it as a blob file first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("content of {length} bytes does not fit into a commit, which takes {INLINE_LIMIT}")]
pub struct TooLargeToAttach {
    /// How many bytes it has.
    pub length: usize,
}

impl Attachment {
    /// Content for a commit, and its name.
    ///
    /// # Errors
    /// More than [`INLINE_LIMIT`] bytes.
    pub fn new(bytes: impl Into<Arc<[u8]>>) -> Result<Self, TooLargeToAttach> {
        let bytes = bytes.into();
        if bytes.len() > INLINE_LIMIT {
            return Err(TooLargeToAttach { length: bytes.len() });
        }
        Ok(Self { blob: name_of(&bytes), bytes })
    }

    /// Content whose name is known to be right.
    pub(crate) fn checked(blob: BlobRef, bytes: &[u8]) -> Self {
        Self { blob, bytes: bytes.into() }
    }

    /// The name of the content.
    #[must_use]
    pub fn blob(&self) -> BlobRef {
        self.blob
    }

    /// The content.
    #[must_use]
    pub fn bytes(&self) -> &Arc<[u8]> {
        &self.bytes
    }
}

/// The name of some bytes: their BLAKE3 hash and their length.
#[must_use]
pub fn name_of(bytes: &[u8]) -> BlobRef {
    BlobRef { hash: *blake3::hash(bytes).as_bytes(), length: bytes.len() as u64 }
}
