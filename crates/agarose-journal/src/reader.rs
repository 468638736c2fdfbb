//! Reading: the store and the tail as one log, up to the durable mark.

use std::{
    collections::VecDeque,
    io::Read,
    ops::{Bound, RangeBounds},
    sync::Arc,
};

use agarose_core::{BlobRef, SessionId, TicketId};

use crate::{
    blobs::{BlobReader, Blobs},
    error::ReadError,
    event::{Entry, key_name, name_of},
    page::{self, Index, PageKey},
    record::{Hash, Head, Record, attachment_limit},
    shared::Shared,
    store::Space,
};

/// How much of the tail is taken at once, in bytes.
const STEP: usize = 256 * 1024;

/// Reads everything that is durable. Cheap to clone, and usable from any thread.
#[derive(Clone)]
pub struct Reader {
    shared: Arc<Shared>,
}

/// One commit, as it was appended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Commit {
    /// Which record it is, counted from 0.
    pub record: u64,
    /// The sequence number of its first event.
    pub first: u64,
    /// Up to which event the store was known to be durable when it was written.
    pub stored: u64,
    /// The hash of the record before it.
    pub previous: Hash,
    /// Its own hash.
    pub hash: Hash,
    /// Its events; none in a mark, which only notes what is stored.
    pub entries: Vec<Entry>,
    /// The names of the contents that travelled in it.
    pub attachments: Vec<BlobRef>,
}

impl Reader {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    /// Where the log stands: the last durable event and the head of the chain.
    #[must_use]
    pub fn head(&self) -> Head {
        self.shared.lock().tail.head
    }

    /// The id of the journal.
    #[must_use]
    pub fn journal(&self) -> [u8; 16] {
        self.shared.journal
    }

    /// The first event there is: 1, unless the history before it was given up. What comes before it is
    /// [`ReadError::Missing`].
    #[must_use]
    pub fn first(&self) -> u64 {
        self.shared.first
    }

    /// The events in a range of sequence numbers, in order, up to those that are durable now.
    pub fn events(&self, range: impl RangeBounds<u64>) -> Events {
        self.walk(range, None)
    }

    /// The events of a ticket, in order.
    #[must_use]
    pub fn by_ticket(&self, ticket: TicketId) -> Events {
        self.walk(.., Some(Index::Ticket(ticket)))
    }

    /// The events of a session, in order.
    #[must_use]
    pub fn by_session(&self, session: &SessionId) -> Events {
        self.walk(.., Some(Index::Session(session.clone())))
    }

    /// The events of a session in a range of sequence numbers, in order.
    pub fn session_events(&self, session: &SessionId, range: impl RangeBounds<u64>) -> Events {
        self.walk(range, Some(Index::Session(session.clone())))
    }

    fn walk(&self, range: impl RangeBounds<u64>, only: Option<Index>) -> Events {
        let from = match range.start_bound() {
            Bound::Included(n) => (*n).max(1),
            Bound::Excluded(n) => n.saturating_add(1),
            Bound::Unbounded => self.first(),
        };
        let to = match range.end_bound() {
            Bound::Included(n) => *n,
            Bound::Excluded(n) => n.saturating_sub(1),
            Bound::Unbounded => u64::MAX,
        };
        let (head, base) = {
            let state = self.shared.lock();
            (state.tail.head.sequence, state.tail.base.sequence)
        };
        Events {
            shared: Arc::clone(&self.shared),
            next: from,
            last: to.min(head),
            only,
            indexed: Some(base),
            page: None,
            ready: VecDeque::new(),
            failed: false,
        }
    }

    /// The ticket that was submitted in a session under an idempotency key, and the event that says so.
    ///
    /// # Errors
    /// The store fails.
    pub fn by_key(&self, session: &SessionId, key: &str) -> Result<Option<(TicketId, u64)>, ReadError> {
        // The store first: the first event under a key wins, and what is in the store is older. A key that the
        // feeder moves meanwhile is in the tail until it is in the store, so the tail is asked before too.
        let name = key_name(session, key);
        let in_tail = self.shared.lock().tail.key(&name);
        let found = self.shared.store()?.get(Space::Key, &name)?;
        let stored = found.and_then(|value| {
            let ticket = TicketId(u128::from_le_bytes(value.get(..16)?.try_into().ok()?));
            Some((ticket, u64::from_le_bytes(value.get(16..24)?.try_into().ok()?)))
        });
        Ok(stored.or(in_tail))
    }

    /// Content by its name, checked; `None` if the journal does not have it. Reads all of it into memory:
    /// use [`Reader::open_blob`] for large content.
    ///
    /// # Errors
    /// The store or the disk fails, or what is there is not what the name says.
    pub fn blob(&self, blob: &BlobRef) -> Result<Option<Vec<u8>>, ReadError> {
        if let Some(bytes) = self.attached(blob)? {
            return Ok(Some(bytes));
        }
        let Some(mut file) = self.shared.blobs.open(blob)? else { return Ok(None) };
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(|_| ReadError::Blob { blob: *blob })?;
        Ok(Some(bytes))
    }

    /// Content by its name, to be read in pieces; `None` if the journal does not have it.
    ///
    /// # Errors
    /// As [`Reader::blob`]; a damaged file shows itself at its end.
    pub fn open_blob(&self, blob: &BlobRef) -> Result<Option<Box<dyn Read + Send>>, ReadError> {
        if let Some(bytes) = self.attached(blob)? {
            return Ok(Some(Box::new(std::io::Cursor::new(bytes))));
        }
        Ok(self.shared.blobs.open(blob)?.map(|file: BlobReader| Box::new(file) as Box<dyn Read + Send>))
    }

    fn attached(&self, blob: &BlobRef) -> Result<Option<Vec<u8>>, ReadError> {
        if blob.length > attachment_limit() {
            return Ok(None);
        }
        if let Some(bytes) = self.shared.lock().tail.blob(&blob.hash) {
            return Ok(Some(bytes.to_vec()));
        }
        let found = page::blob(&*self.shared.store()?, blob)?;
        match found {
            Some(bytes) if name_of(&bytes) != *blob => Err(ReadError::Blob { blob: *blob }),
            other => Ok(other),
        }
    }

    /// The blob files, to store content before the event that names it.
    #[must_use]
    pub fn blobs(&self) -> &Blobs {
        &self.shared.blobs
    }

    /// The commits from the one that holds event `from` on, with their hashes; marks too.
    #[must_use]
    pub fn commits(&self, from: u64) -> Commits {
        let head = self.head();
        Commits {
            shared: Arc::clone(&self.shared),
            at: PageKey { first: from.max(1), record: 0 },
            skip_below: from.max(1),
            end: if from > head.sequence.max(1) { 0 } else { head.records },
            ready: VecDeque::new(),
            failed: false,
        }
    }

    /// Where the log stood right after event `sequence`; `None` when no commit ends with it.
    ///
    /// # Errors
    /// The store fails.
    pub fn head_at(&self, sequence: u64) -> Result<Option<Head>, ReadError> {
        if sequence == 0 {
            return Ok(Some(self.shared.chain.genesis()));
        }
        let head = self.head();
        if sequence >= head.sequence {
            return Ok((sequence == head.sequence).then_some(head));
        }
        let records = self.shared.records_from_sequence(sequence)?;
        Ok(records
            .iter()
            .find(|record| record.header().events > 0)
            .map(|record| record.header().head())
            .filter(|head| head.sequence == sequence))
    }
}

impl Shared {
    /// Some consecutive records, of which the first with events holds `sequence`.
    fn records_from_sequence(&self, sequence: u64) -> Result<Vec<Record>, ReadError> {
        {
            let state = self.lock();
            if sequence > state.tail.base.sequence {
                let commits = state.tail.since_sequence(sequence, STEP);
                return Ok(commits.iter().map(|commit| commit.record.clone()).collect());
            }
        }
        let at = PageKey { first: sequence, record: u64::MAX };
        let (_, mut records) =
            page::find(self.chain, &*self.store()?, at)?.ok_or(ReadError::Missing { sequence })?;
        records.retain(|record| record.header().events > 0 && record.header().head().sequence >= sequence);
        if records.first().is_none_or(|record| record.header().first > sequence) {
            return Err(ReadError::Missing { sequence });
        }
        Ok(records)
    }
}

/// Events in order. After an error there are no more.
pub struct Events {
    shared: Arc<Shared>,
    next: u64,
    last: u64,
    only: Option<Index>,
    /// Up to which event the index answers; then the rest of the log is walked, which is short.
    indexed: Option<u64>,
    page: Option<PageKey>,
    ready: VecDeque<Entry>,
    failed: bool,
}

impl Events {
    fn fill(&mut self) -> Result<bool, ReadError> {
        if let (Some(only), Some(base)) = (&self.only, self.indexed) {
            let store = self.shared.store()?;
            let page = match self.page {
                None => only.from(&*store, self.next)?,
                after => only.next(&*store, after)?,
            };
            match page {
                Some(page) if page.first <= base.min(self.last) => {
                    self.page = Some(page);
                    let found = page::find(self.shared.chain, &*store, page)?;
                    let (_, records) = found.ok_or(ReadError::Missing { sequence: page.first })?;
                    self.take(&records, base)?;
                }
                _ => {
                    self.indexed = None;
                    self.next = self.next.max(base.saturating_add(1));
                }
            }
            return Ok(true);
        }
        if self.next > self.last {
            return Ok(false);
        }
        let records = self.shared.records_from_sequence(self.next)?;
        let end = records.last().map_or(0, |record| record.header().head().sequence);
        if end < self.next {
            return Err(ReadError::Missing { sequence: self.next });
        }
        self.take(&records, u64::MAX)?;
        self.next = end.saturating_add(1);
        Ok(true)
    }

    fn take(&mut self, records: &[Record], to: u64) -> Result<(), ReadError> {
        for record in records {
            for entry in record.entries() {
                let damaged = |source| ReadError::Damaged {
                    record: record.header().record,
                    sequence: record.header().first,
                    source,
                };
                let entry = entry.map_err(damaged)?;
                let wanted = match &self.only {
                    None => true,
                    Some(Index::Ticket(ticket)) => entry.event.ticket == Some(*ticket),
                    Some(Index::Session(session)) => entry.event.session.as_ref() == Some(session),
                };
                if wanted && entry.sequence >= self.next && entry.sequence <= self.last.min(to) {
                    self.ready.push_back(entry);
                }
            }
        }
        Ok(())
    }
}

impl Iterator for Events {
    type Item = Result<Entry, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(entry) = self.ready.pop_front() {
                return Some(Ok(entry));
            }
            if self.failed {
                return None;
            }
            match self.fill() {
                Ok(true) => {}
                Ok(false) => return None,
                Err(error) => {
                    self.failed = true;
                    return Some(Err(error));
                }
            }
        }
    }
}

/// Commits in order. After an error there are no more.
pub struct Commits {
    shared: Arc<Shared>,
    at: PageKey,
    skip_below: u64,
    end: u64,
    ready: VecDeque<Record>,
    failed: bool,
}

impl Commits {
    fn fill(&mut self) -> Result<bool, ReadError> {
        if self.at.record >= self.end {
            return Ok(false);
        }
        let from_tail = {
            let state = self.shared.lock();
            let base = state.tail.base;
            let in_tail =
                self.at.record >= base.records || (self.at.record == 0 && self.at.first > base.sequence);
            in_tail.then(|| state.tail.since_record(self.at.record, STEP))
        };
        let records: Vec<Record> = match from_tail {
            Some(commits) => commits.iter().map(|commit| commit.record.clone()).collect(),
            None => {
                let (sequence, store) = (self.at.first, self.shared.store()?);
                let mut found = page::find(self.shared.chain, &*store, self.at)?;
                if found.is_none() && self.at.record == 0 {
                    // The log begins with this event, and not with the first record of all.
                    let at = PageKey { first: sequence, record: u64::MAX };
                    found = page::find(self.shared.chain, &*store, at)?;
                }
                found.ok_or(ReadError::Missing { sequence })?.1
            }
        };
        let end = records.last().map(|record| record.header().head());
        let Some(end) = end.filter(|end| end.records > self.at.record) else {
            return Err(ReadError::Missing { sequence: self.at.first });
        };
        let wanted = |record: &Record| {
            record.header().record >= self.at.record
                && record.header().record < self.end
                && record.header().first.saturating_add(u64::from(record.header().events).max(1))
                    > self.skip_below
        };
        self.ready.extend(records.into_iter().filter(wanted));
        self.at = PageKey { first: end.sequence.saturating_add(1), record: end.records };
        Ok(true)
    }
}

impl Iterator for Commits {
    type Item = Result<Commit, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(record) = self.ready.pop_front() {
                return Some(commit(&record));
            }
            if self.failed {
                return None;
            }
            match self.fill() {
                Ok(true) => {}
                Ok(false) => return None,
                Err(error) => {
                    self.failed = true;
                    return Some(Err(error));
                }
            }
        }
    }
}

pub(crate) fn commit(record: &Record) -> Result<Commit, ReadError> {
    let header = record.header();
    let entries: Result<Vec<Entry>, _> = record.entries().collect();
    let entries = entries.map_err(|source| ReadError::Damaged {
        record: header.record,
        sequence: header.first,
        source,
    })?;
    Ok(Commit {
        record: header.record,
        first: header.first,
        stored: header.stored,
        previous: header.previous,
        hash: header.hash,
        entries,
        attachments: record.names().collect(),
    })
}
