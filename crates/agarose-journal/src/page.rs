//! Pages: how consecutive records lie in the store.
//!
//! One value holds many small commits, and one index entry says "this ticket is spoken of in that
//! page", so feeding the store costs per page and not per event. A page is never changed.

use std::{collections::BTreeSet, ops::Bound, sync::Arc};

use agarose_core::{BlobRef, SessionId, TicketId};

use crate::{
    error::ReadError,
    record::{ChainKey, HEAD, Hash, Head, Record},
    store::{Batch, Space, Store, StoreError},
    tail::Commit,
};

/// A page takes records until it has this many bytes.
const PAGE_BYTES: usize = 8 * 1024;
/// A longer value (one large record, an attachment) is split into parts of this many bytes. sled keeps up to
/// some 26 values in a node, and moves a node that is larger than a quarter of its log's segments into a file of
/// its own, which nobody syncs: with this there are no such files.
const PART_BYTES: usize = 8 * 1024;

/// The place of a page: first event and first record of its first record, both rising.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PageKey {
    pub(crate) first: u64,
    pub(crate) record: u64,
}

impl PageKey {
    fn bytes(self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.first.to_be_bytes());
        bytes[8..].copy_from_slice(&self.record.to_be_bytes());
        bytes
    }

    fn part(self, part: u16) -> [u8; 18] {
        let mut bytes = [0; 18];
        bytes[..16].copy_from_slice(&self.bytes());
        bytes[16..].copy_from_slice(&part.to_be_bytes());
        bytes
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        Some(Self {
            first: u64::from_be_bytes(bytes.get(..8)?.try_into().ok()?),
            record: u64::from_be_bytes(bytes.get(8..16)?.try_into().ok()?),
        })
    }
}

fn session_prefix(session: &SessionId) -> Vec<u8> {
    // A session's name holds no control characters, so the zero ends it.
    let mut prefix = session.as_str().as_bytes().to_vec();
    prefix.push(0);
    prefix
}

/// Whose pages to find.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Index {
    Ticket(TicketId),
    Session(SessionId),
}

impl Index {
    fn space(&self) -> Space {
        match self {
            Self::Ticket(_) => Space::Ticket,
            Self::Session(_) => Space::Session,
        }
    }

    fn prefix(&self) -> Vec<u8> {
        match self {
            Self::Ticket(ticket) => ticket.0.to_be_bytes().to_vec(),
            Self::Session(session) => session_prefix(session),
        }
    }

    fn key(&self, page: PageKey) -> Vec<u8> {
        let mut key = self.prefix();
        key.extend_from_slice(&page.bytes());
        key
    }

    /// The first page that can hold an event of this from `sequence` on.
    pub(crate) fn from(&self, store: &dyn Store, sequence: u64) -> Result<Option<PageKey>, StoreError> {
        let (low, high) = (self.prefix(), self.key(PageKey { first: sequence, record: u64::MAX }));
        let before = store.last(self.space(), Bound::Included(&low), Bound::Included(&high))?;
        match before.and_then(|(key, _)| PageKey::read(key.get(low.len()..)?)) {
            Some(page) => Ok(Some(page)),
            None => self.next(store, None),
        }
    }

    /// The next page that speaks of this, after `after`.
    pub(crate) fn next(
        &self,
        store: &dyn Store,
        after: Option<PageKey>,
    ) -> Result<Option<PageKey>, StoreError> {
        let low = after.map_or_else(|| self.prefix(), |page| self.key(page));
        let low =
            if after.is_some() { Bound::Excluded(low.as_slice()) } else { Bound::Included(low.as_slice()) };
        let high = self.key(PageKey { first: u64::MAX, record: u64::MAX });
        let found = store.first(self.space(), low, Bound::Included(&high))?;
        let prefix = self.prefix().len();
        Ok(found.and_then(|(key, _)| PageKey::read(key.get(prefix..)?)))
    }
}

/// A value in parts; an empty one is one empty part.
fn parts(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.chunks(PART_BYTES).chain(value.is_empty().then_some(value))
}

fn blob_part(hash: &Hash, part: u16) -> [u8; 34] {
    let mut key = [0; 34];
    key[..32].copy_from_slice(hash);
    key[32..].copy_from_slice(&part.to_be_bytes());
    key
}

/// Reads an attachment, if the store has it. The caller has made sure that the length is one that an attachment may have.
pub(crate) fn blob(store: &dyn Store, blob: &BlobRef) -> Result<Option<Vec<u8>>, StoreError> {
    let mut bytes = Vec::new();
    for part in 0.. {
        match store.get(Space::Blob, &blob_part(&blob.hash, part))? {
            Some(found) => bytes.extend_from_slice(&found),
            None => return Ok(None),
        }
        if bytes.len() as u64 >= blob.length {
            break;
        }
    }
    Ok(Some(bytes))
}

/// Adds commits to a batch as pages, with their index entries, keys and attachments.
pub(crate) fn put(store: &dyn Store, commits: &[Arc<Commit>], batch: &mut Batch) -> Result<(), StoreError> {
    put_with(store, commits, &mut BTreeSet::new(), batch)
}

/// As [`put`]; `keys` are the idempotency keys that the batch has already.
pub(crate) fn put_with(
    store: &dyn Store,
    commits: &[Arc<Commit>],
    keys: &mut BTreeSet<Vec<u8>>,
    batch: &mut Batch,
) -> Result<(), StoreError> {
    let mut rest = commits;
    while let Some(first) = rest.first() {
        let mut bytes = 0;
        let count = rest
            .iter()
            .take_while(|commit| {
                let fits = bytes == 0 || bytes + commit.record.bytes().len() <= PAGE_BYTES;
                bytes += commit.record.bytes().len();
                fits
            })
            .count();
        let (page, after) = rest.split_at(count);
        let header = first.record.header();
        put_page(store, PageKey { first: header.first, record: header.record }, page, keys, batch)?;
        rest = after;
    }
    Ok(())
}

/// Adds consecutive commits to a batch as one page.
pub(crate) fn put_page(
    store: &dyn Store,
    key: PageKey,
    commits: &[Arc<Commit>],
    keys: &mut BTreeSet<Vec<u8>>,
    batch: &mut Batch,
) -> Result<(), StoreError> {
    let mut value = Vec::with_capacity(PAGE_BYTES);
    let mut tickets = BTreeSet::new();
    let mut sessions = BTreeSet::new();
    for commit in commits {
        value.extend_from_slice(commit.record.bytes());
        for entry in commit.record.entries().map_while(Result::ok) {
            if let Some((name, ticket)) = entry.event.indexed_key()
                && store.get(Space::Key, &name)?.is_none()
                && keys.insert(name.clone())
            {
                let mut place = ticket.0.to_le_bytes().to_vec();
                place.extend_from_slice(&entry.sequence.to_le_bytes());
                batch.put(Space::Key, name, place);
            }
            tickets.extend(entry.event.ticket);
            sessions.extend(entry.event.session);
        }
        for attachment in &commit.attachments {
            let hash = attachment.blob().hash;
            if blob(store, &attachment.blob())?.is_none() {
                for (part, bytes) in (0u16..).zip(parts(attachment.bytes())) {
                    batch.put(Space::Blob, blob_part(&hash, part), bytes);
                }
            }
        }
    }
    for (part, bytes) in (0u16..).zip(parts(&value)) {
        batch.put(Space::Page, key.part(part), bytes);
    }
    for ticket in tickets {
        batch.put(Space::Ticket, Index::Ticket(ticket).key(key), Vec::new());
    }
    for session in sessions {
        batch.put(Space::Session, Index::Session(session).key(key), Vec::new());
    }
    Ok(())
}

/// Reads the last page that begins at or before `at`.
pub(crate) fn find(
    chain: ChainKey,
    store: &dyn Store,
    at: PageKey,
) -> Result<Option<(PageKey, Vec<Record>)>, ReadError> {
    match find_bytes(store, at)? {
        Some((page, bytes)) => Ok(Some((page, records(chain, page, &bytes)?))),
        None => Ok(None),
    }
}

/// The last page that begins at or before `at`, unread.
pub(crate) fn find_bytes(store: &dyn Store, at: PageKey) -> Result<Option<(PageKey, Vec<u8>)>, ReadError> {
    let Some((key, value)) =
        store.last(Space::Page, Bound::Unbounded, Bound::Included(&at.part(u16::MAX)))?
    else {
        return Ok(None);
    };
    let damaged = |source| ReadError::Damaged { record: at.record, sequence: at.first, source };
    let page = PageKey::read(&key).ok_or_else(|| damaged(crate::record::Flaw::Contents))?;
    let last = key.get(16..18).map_or(0, |part| u16::from_be_bytes([part[0], part[1]]));
    if last == 0 {
        return Ok(Some((page, value)));
    }
    let mut bytes = Vec::new();
    for part in 0..last {
        let missing = ReadError::Missing { sequence: page.first };
        bytes.extend_from_slice(&store.get(Space::Page, &page.part(part))?.ok_or(missing)?);
    }
    bytes.extend_from_slice(&value);
    Ok(Some((page, bytes)))
}

fn records(chain: ChainKey, page: PageKey, bytes: &[u8]) -> Result<Vec<Record>, ReadError> {
    let mut records: Vec<Record> = Vec::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        let place = records.last().map_or(page, |record| {
            let head = record.header().head();
            PageKey { first: head.sequence.saturating_add(1), record: head.records }
        });
        let damaged = |source| ReadError::Damaged { record: place.record, sequence: place.first, source };
        let record = Record::read(chain, rest).map_err(damaged)?;
        let follows = match records.last() {
            Some(before) => before.header().head() == record.header().before(),
            None => record.header().record == page.record && record.header().first == page.first,
        };
        if !follows {
            return Err(damaged(crate::record::Flaw::Chain));
        }
        rest = rest.get(HEAD + record.header().body as usize..).unwrap_or_default();
        records.push(record);
    }
    Ok(records)
}

/// Where the log stands by what the store has; `None` when it has nothing.
pub(crate) fn head(chain: ChainKey, store: &dyn Store) -> Result<Option<Head>, ReadError> {
    let found = find(chain, store, PageKey { first: u64::MAX, record: u64::MAX })?;
    Ok(found.and_then(|(_, records)| records.last().map(|record| record.header().head())))
}
