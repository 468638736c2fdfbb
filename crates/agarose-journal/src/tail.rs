//! The tail: what is durable in the segments and not yet in the store.
//!
//! The appender pushes at the back, the feeder takes from the front, readers look at it. Its size
//! is bounded; an appender that would pass the bound waits for the feeder.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use agarose_core::TicketId;

use crate::{
    event::Attachment,
    record::{Hash, Head, Record},
};

/// One commit as the tail keeps it.
#[derive(Clone, Debug)]
pub(crate) struct Commit {
    pub(crate) record: Record,
    pub(crate) attachments: Vec<Attachment>,
}

impl Commit {
    fn bytes(&self) -> usize {
        self.record.bytes().len() + self.attachments.iter().map(|a| a.bytes().len()).sum::<usize>()
    }
}

/// Commits that the store lacks.
#[derive(Debug)]
pub(crate) struct Tail {
    /// Where the log stands with all of the tail.
    pub(crate) head: Head,
    /// Where the log stands without it: what the store has.
    pub(crate) base: Head,
    commits: VecDeque<Arc<Commit>>,
    bytes: usize,
    keys: HashMap<Vec<u8>, (TicketId, u64)>,
    blobs: HashMap<Hash, (u64, Arc<[u8]>)>,
}

impl Tail {
    pub(crate) fn new(base: Head) -> Self {
        Self {
            head: base,
            base,
            commits: VecDeque::new(),
            bytes: 0,
            keys: HashMap::new(),
            blobs: HashMap::new(),
        }
    }

    pub(crate) fn push(&mut self, commit: Arc<Commit>) {
        self.head = commit.record.header().head();
        self.bytes += commit.bytes();
        for entry in commit.record.entries().map_while(Result::ok) {
            if let Some((key, ticket)) = entry.event.indexed_key() {
                self.keys.entry(key).or_insert((ticket, entry.sequence));
            }
        }
        let record = commit.record.header().record;
        for attachment in &commit.attachments {
            self.blobs.insert(attachment.blob().hash, (record, Arc::clone(attachment.bytes())));
        }
        self.commits.push_back(commit);
    }

    /// Forgets the commits up to `base`, which the store has now.
    pub(crate) fn forget(&mut self, base: Head) {
        while let Some(commit) = self.commits.front()
            && commit.record.header().record < base.records
        {
            self.bytes -= commit.bytes();
            for entry in commit.record.entries().map_while(Result::ok) {
                if let Some((key, _)) = entry.event.indexed_key()
                    && self.keys.get(&key).is_some_and(|(_, sequence)| *sequence == entry.sequence)
                {
                    self.keys.remove(&key);
                }
            }
            for attachment in &commit.attachments {
                let hash = &attachment.blob().hash;
                if self.blobs.get(hash).is_some_and(|(record, _)| *record < base.records) {
                    self.blobs.remove(hash);
                }
            }
            self.commits.pop_front();
        }
        self.base = base;
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn events(&self) -> u64 {
        self.head.sequence - self.base.sequence
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.commits.is_empty()
    }

    pub(crate) fn key(&self, key: &[u8]) -> Option<(TicketId, u64)> {
        self.keys.get(key).copied()
    }

    pub(crate) fn blob(&self, hash: &Hash) -> Option<Arc<[u8]>> {
        self.blobs.get(hash).map(|(_, bytes)| Arc::clone(bytes))
    }

    /// Some commits from the front, until they have `bytes`.
    pub(crate) fn front(&self, bytes: usize) -> Vec<Arc<Commit>> {
        Self::some(self.commits.iter(), bytes)
    }

    /// Some commits from the one that holds `sequence` on (or, between two, from the first after it).
    pub(crate) fn since_sequence(&self, sequence: u64, bytes: usize) -> Vec<Arc<Commit>> {
        let at = self.commits.partition_point(|commit| commit.record.header().head().sequence < sequence);
        Self::some(self.commits.range(at..), bytes)
    }

    /// Some commits from a record on.
    pub(crate) fn since_record(&self, record: u64, bytes: usize) -> Vec<Arc<Commit>> {
        let at = self.commits.partition_point(|commit| commit.record.header().record < record);
        Self::some(self.commits.range(at..), bytes)
    }

    fn some<'a>(commits: impl Iterator<Item = &'a Arc<Commit>>, bytes: usize) -> Vec<Arc<Commit>> {
        let mut have = 0;
        commits
            .take_while(|commit| {
                let fits = have < bytes;
                have += commit.bytes();
                fits
            })
            .cloned()
            .collect()
    }
}
