//! Mending: a store that has lost something in its middle gets it back from the segments.
//!
//! sled drops what it cannot read without a word, and what that was shows only when it is asked for: a page, an
//! index entry, a key, a part of an attachment. So at every start what the segments still have is compared with
//! what the store has of it. What is older than the segments nobody can compare; `verify` reads it.

use std::{collections::BTreeSet, ops::AddAssign, sync::Arc};

use crate::{
    error::{OpenError, ReadError},
    fit::walk,
    page::{self, PageKey},
    record::{self, HEAD, Head},
    scan::Scan,
    store::{Batch, Space, Store, StoreError},
    tail::Commit,
};

/// Bytes of one batch of what is put back.
const BATCH_BYTES: usize = 1024 * 1024;

/// What was put back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Mended {
    /// Events whose page was lost.
    pub(crate) events: u64,
    /// Index entries, keys and parts of attachments that were lost while their page was there.
    pub(crate) entries: u64,
}

impl Mended {
    pub(crate) fn is_nothing(self) -> bool {
        self == Self::default()
    }
}

impl AddAssign for Mended {
    fn add_assign(&mut self, other: Self) {
        self.events += other.events;
        self.entries += other.entries;
    }
}

/// Puts back what the store lacks of the records before `had` that the segments hold.
///
/// # Errors
/// [`OpenError::Store`] when the store cannot be read or written where it has to be.
pub(crate) fn mend(scan: &Scan, store: &dyn Store, had: Head) -> Result<Mended, OpenError> {
    let mut mender = Mender {
        store,
        run: Run::Lost,
        commits: Vec::new(),
        batch: Batch::default(),
        bytes: 0,
        keys: BTreeSet::new(),
        mended: Mended::default(),
    };
    walk(scan, 0..had.records, |commit| Ok(mender.take(Arc::new(commit))?))?;
    mender.end_run()?;
    mender.put()?;
    Ok(mender.mended)
}

/// What the commits at hand have in common.
enum Run {
    /// They are in this page.
    In {
        page: PageKey,
        bytes: Vec<u8>,
        /// Where in the bytes its records that are still to come begin.
        next: usize,
    },
    /// No page has them.
    Lost,
}

/// Whether a record is what a page goes on with; then the page goes on after it.
fn continues(page: &[u8], next: &mut usize, record: &[u8]) -> bool {
    let here = page.get(*next..).is_some_and(|rest| rest.starts_with(record));
    if here {
        *next += record.len();
    }
    here
}

/// Where in a page a record begins; its end if it is not there.
fn place(page: &[u8], record: u64) -> usize {
    let mut at = 0;
    while let Some(Ok(header)) = page.get(at..).map(record::read_header)
        && header.record < record
    {
        at += HEAD + header.body as usize;
    }
    at.min(page.len())
}

struct Mender<'a> {
    store: &'a dyn Store,
    run: Run,
    commits: Vec<Arc<Commit>>,
    batch: Batch,
    bytes: usize,
    keys: BTreeSet<Vec<u8>>,
    mended: Mended,
}

impl Mender<'_> {
    fn take(&mut self, commit: Arc<Commit>) -> Result<(), StoreError> {
        let here = match &mut self.run {
            Run::In { bytes, next, .. } => continues(bytes, next, commit.record.bytes()),
            Run::Lost => false,
        };
        if !here {
            match self.page_of(&commit)? {
                Some(found) => {
                    self.end_run()?;
                    self.run = found;
                }
                None if matches!(self.run, Run::In { .. }) => {
                    self.end_run()?;
                    self.run = Run::Lost;
                }
                None => {}
            }
        }
        self.commits.push(commit);
        Ok(())
    }

    /// The page that has a commit, if one does.
    fn page_of(&self, commit: &Commit) -> Result<Option<Run>, StoreError> {
        let header = commit.record.header();
        let at = PageKey { first: header.first, record: header.record };
        match page::find_bytes(self.store, at) {
            Ok(Some((page, bytes))) => {
                let mut next = if page == at { 0 } else { place(&bytes, header.record) };
                let here = continues(&bytes, &mut next, commit.record.bytes());
                Ok(here.then_some(Run::In { page, bytes, next }))
            }
            Ok(None) | Err(ReadError::Missing { .. } | ReadError::Damaged { .. }) => Ok(None),
            Err(ReadError::Store(error)) => Err(error),
            Err(other) => Err(StoreError::Failed { doing: "reading", what: other.to_string() }),
        }
    }

    fn end_run(&mut self) -> Result<(), StoreError> {
        let commits = std::mem::take(&mut self.commits);
        let before = self.batch.puts.len();
        match std::mem::replace(&mut self.run, Run::Lost) {
            // A page that goes on with something else cannot be read, and is written anew.
            Run::In { page, bytes, next } if next == bytes.len() => {
                let mut whole = Batch::default();
                page::put_page(self.store, page, &commits, &mut self.keys, &mut whole)?;
                for (space, key, value) in whole.puts {
                    // The page may begin before the segments do, and it has been read.
                    if space != Space::Page && self.store.get(space, &key)?.is_none() {
                        self.batch.puts.push((space, key, value));
                        self.mended.entries += 1;
                    }
                }
            }
            Run::In { .. } | Run::Lost => {
                self.mended.events +=
                    commits.iter().map(|commit| u64::from(commit.record.header().events)).sum::<u64>();
                page::put_with(self.store, &commits, &mut self.keys, &mut self.batch)?;
            }
        }
        let added = self.batch.puts.get(before..).unwrap_or_default();
        self.bytes += added.iter().map(|(_, key, value)| key.len() + value.len()).sum::<usize>();
        if self.bytes >= BATCH_BYTES { self.put() } else { Ok(()) }
    }

    fn put(&mut self) -> Result<(), StoreError> {
        self.bytes = 0;
        let batch = std::mem::take(&mut self.batch);
        if batch.puts.is_empty() { Ok(()) } else { self.store.put(batch) }
    }
}
