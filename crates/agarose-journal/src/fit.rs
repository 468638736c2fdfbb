//! Fitting the store to the segments: what is in it, whether it can be believed, and what it lacks.

use std::{
    fs, io,
    ops::{Bound, Range},
    path::PathBuf,
    sync::Arc,
};

use crate::{
    error::{OpenError, ReadError},
    files::Files,
    journal::Options,
    mend::{Mended, mend},
    open::{StoreReport, at, lost_end},
    page,
    record::{ChainKey, Head, Record},
    scan::{Scan, ScanError},
    segment,
    shared::Places,
    snapshot,
    store::{Batch, SledStore, Space, Store, StoreError},
    tail::Commit,
};

/// Where the store is kept.
pub(crate) trait StorePlace {
    /// Whether anything is there.
    fn exists(&self) -> bool;
    /// Opens it, or makes an empty one.
    fn open(&self) -> Result<Arc<dyn Store>, StoreError>;
    /// Moves what is there out of the way; returns where to.
    fn set_aside(&self) -> io::Result<PathBuf>;
    /// Whether a thread of its own feeds it.
    fn threads(&self) -> bool {
        true
    }
}

/// How many stores that were set aside are kept.
const ASIDE: usize = 3;

pub(crate) struct SledPlace<'a> {
    pub(crate) places: &'a Places,
}

impl StorePlace for SledPlace<'_> {
    fn exists(&self) -> bool {
        self.places.store.exists()
    }

    fn open(&self) -> Result<Arc<dyn Store>, StoreError> {
        // A process that has just closed the store may still hold sled's own lock for a moment; ours is
        // already taken, so nobody else has it.
        let mut tries = 0;
        loop {
            match SledStore::open(&self.places.store) {
                Err(StoreError::Failed { what, .. })
                    if what.contains("could not acquire lock") && tries < 100 =>
                {
                    tries += 1;
                    std::thread::sleep(std::time::Duration::from_millis(20));
                }
                opened => return Ok(Arc::new(opened?)),
            }
        }
    }

    fn set_aside(&self) -> io::Result<PathBuf> {
        let place = |n: usize| self.places.root.join(format!("store.aside-{n}"));
        // The first ones are kept: they have what was lost. A crash loop overwrites only its own last one.
        let n = (0..ASIDE).find(|n| !place(*n).exists()).unwrap_or(ASIDE - 1);
        let to = place(n);
        if to.exists() {
            fs::remove_dir_all(&to)?;
        }
        fs::rename(&self.places.store, &to)?;
        fs::File::open(&self.places.root)?.sync_all()?;
        Ok(to)
    }
}

/// The first event that the store has.
pub(crate) fn first_event(store: &dyn Store) -> Result<Option<u64>, StoreError> {
    let found = store.first(Space::Page, Bound::Unbounded, Bound::Unbounded)?;
    Ok(found.and_then(|(key, _)| Some(u64::from_be_bytes(key.get(..8)?.try_into().ok()?))))
}

/// What is to be done about the store that was found.
enum Verdict {
    Keep(Arc<dyn Store>, StoreReport),
    Replace(String),
}

#[expect(
    clippy::too_many_arguments,
    reason = "one caller; each of them is a different thing that it has found"
)]
pub(crate) fn fit_store(
    chain: ChainKey,
    scan: &Scan,
    places: &Places,
    options: &Options,
    place: &dyn StorePlace,
    snapshots: &[(u64, PathBuf)],
    files: &dyn Files,
    journal: &[u8; 16],
) -> Result<(Arc<dyn Store>, StoreReport), OpenError> {
    let existed = place.exists();
    let verdict = match place.open() {
        Ok(store) => judge_store(chain, scan, places, store, journal, existed)?,
        Err(error) => Verdict::Replace(error.to_string()),
    };
    let cause = match verdict {
        Verdict::Keep(store, report) => return Ok((store, report)),
        Verdict::Replace(cause) => cause,
    };
    let from = scan.from.unwrap_or_else(|| chain.genesis());
    if from.records > 0 {
        let bridged = || {
            let good = |(sequence, path): &(u64, PathBuf)| {
                *sequence >= from.sequence
                    && *sequence <= scan.head.sequence
                    && snapshot::read(files, path, journal).is_ok()
            };
            snapshots.iter().any(good)
        };
        if !(options.accept_lost_history && bridged()) {
            return Err(OpenError::StoreLost { cause, from: from.sequence.saturating_add(1) });
        }
    }
    tracing::warn!(cause, "the store is set aside and made anew");
    let path = if place.exists() { Some(place.set_aside().map_err(at(&places.store))?) } else { None };
    Ok((place.open()?, StoreReport::SetAside { path, cause }))
}

pub(crate) const IDENTITY: &[u8] = b"journal";

pub(crate) fn write_identity(store: &dyn Store, journal: &[u8; 16]) -> Result<(), StoreError> {
    if store.get(Space::Meta, IDENTITY)?.is_none_or(|found| found != journal) {
        let mut batch = Batch::default();
        batch.put(Space::Meta, IDENTITY, *journal);
        store.put(batch)?;
    }
    Ok(())
}

/// Compares what the store has with what the segments have.
fn judge_store(
    chain: ChainKey,
    scan: &Scan,
    places: &Places,
    store: Arc<dyn Store>,
    journal: &[u8; 16],
    existed: bool,
) -> Result<Verdict, OpenError> {
    let identity = match store.get(Space::Meta, IDENTITY) {
        Ok(identity) => identity,
        Err(error) => return Ok(Verdict::Replace(error.to_string())),
    };
    if scan.segments.is_empty() {
        // The store is made before the first segment. One without events is from a start that got no further.
        return match store.first(Space::Page, Bound::Unbounded, Bound::Unbounded) {
            Ok(None) => Ok(Verdict::Keep(store, StoreReport::Made)),
            Ok(Some(_)) => Err(lost_end(scan, places, "the store has events of a journal".to_owned()).into()),
            Err(error) => Ok(Verdict::Replace(error.to_string())),
        };
    }
    if identity.as_ref().is_some_and(|found| found != journal) {
        return Ok(Verdict::Replace("it belongs to another journal".to_owned()));
    }
    let had = match page::head(chain, &*store) {
        Ok(head) => head.unwrap_or_else(|| chain.genesis()),
        Err(error) => return Ok(Verdict::Replace(says(&error))),
    };
    if had.records > scan.head.records {
        return Err(lost_end(scan, places, format!("the store has events up to {}", had.sequence)).into());
    }
    let from = scan.from.unwrap_or(scan.head);
    if had.records < from.records {
        let what =
            format!("it ends with event {}, and the segments begin with {}", had.sequence, from.sequence + 1);
        return Ok(Verdict::Replace(what));
    }
    if !segments_agree(scan, had).map_err(|error| match error {
        ScanError::Io(path, source) => OpenError::Io { path, source },
        other => other.into(),
    })? {
        return Ok(Verdict::Replace(format!(
            "its record {} is not that of the segments",
            had.records.saturating_sub(1)
        )));
    }
    let mended = match mend_store(scan, &*store, had)? {
        Ok(mended) => mended,
        Err(cause) if from.records == 0 => return Ok(Verdict::Replace(cause)),
        // Nothing but this store has what came before the segments.
        Err(cause) => return Ok(Verdict::Keep(store, StoreReport::Holes { cause })),
    };
    if had.sequence < scan.stored {
        // It has lost what it had: what is left of it is only believed after all of it has been read.
        if let Err(error) = whole(chain, &*store, had) {
            return Ok(Verdict::Replace(says(&error)));
        }
        return Ok(Verdict::Keep(store, StoreReport::LostTail { known: scan.stored, had: had.sequence }));
    }
    let report = if !mended.is_nothing() {
        StoreReport::Mended { events: mended.events, entries: mended.entries }
    } else if existed {
        StoreReport::Sound
    } else {
        StoreReport::SetAside { path: None, cause: "it was not there".to_owned() }
    };
    Ok(Verdict::Keep(store, report))
}

/// Mends the store; says why when that cannot be done.
fn mend_store(scan: &Scan, store: &dyn Store, had: Head) -> Result<Result<Mended, String>, OpenError> {
    let mut all = Mended::default();
    // Once more to see that what was put back is there.
    for _ in 0..2 {
        match mend(scan, store, had) {
            Ok(mended) if mended.is_nothing() => return Ok(Ok(all)),
            Ok(mended) => all += mended,
            Err(OpenError::Store(error)) => return Ok(Err(error.to_string())),
            Err(other) => return Err(other),
        }
    }
    Ok(Err("what was put back into it is gone again".to_owned()))
}

pub(crate) fn says(error: &ReadError) -> String {
    use std::error::Error;
    match error.source() {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}

/// Reads every page of the store up to `head` and follows the chain through them.
fn whole(chain: ChainKey, store: &dyn Store, head: Head) -> Result<(), ReadError> {
    let mut at = chain.genesis();
    while at.records < head.records {
        let sequence = at.sequence.saturating_add(1);
        let key = page::PageKey { first: sequence, record: at.records };
        let (_, records) = page::find(chain, store, key)?.ok_or(ReadError::Missing { sequence })?;
        let first = records.first().map(|record| record.header().before());
        let last = records.last().map(|record| record.header().head());
        match (first, last) {
            (Some(first), Some(last)) if first == at => at = last,
            // A store that was once begun in the middle has no older history.
            (Some(first), Some(last)) if at.records == 0 && first.records > 0 => at = last,
            _ => return Err(ReadError::Missing { sequence }),
        }
    }
    Ok(())
}

/// Walks the records of the segments whose numbers are in a range; the scan has checked them.
pub(crate) fn walk(
    scan: &Scan,
    records: Range<u64>,
    mut each: impl FnMut(Commit) -> Result<(), OpenError>,
) -> Result<(), OpenError> {
    for segment in &scan.segments {
        let Some((before, end)) = segment.holds else { continue };
        if end.records <= records.start || before.records >= records.end {
            continue;
        }
        let bytes = segment.records().map_err(at(&segment.found.path))?;
        segment::walk(Record::read_checked, &bytes, &mut Some(before), |_, record, attachments| {
            if records.contains(&record.header().record) {
                each(Commit { record: record.clone(), attachments })?;
            }
            Ok::<(), OpenError>(())
        })?;
    }
    Ok(())
}

/// Whether the segments have the same record at `head` as the store, where they have one at all.
fn segments_agree(scan: &Scan, head: Head) -> Result<bool, ScanError> {
    if head == scan.head || scan.from == Some(head) {
        return Ok(true);
    }
    for segment in &scan.segments {
        let Some((before, end)) = segment.holds else { continue };
        if head.records < before.records || head.records > end.records {
            continue;
        }
        if head == before || head == end {
            return Ok(true);
        }
        let io = |error| ScanError::Io(segment.found.path.clone(), error);
        let bytes = segment.records().map_err(io)?;
        let mut agrees = false;
        segment::walk(Record::read_checked, &bytes, &mut Some(before), |_, record, _| {
            agrees |= record.header().head() == head;
            Ok::<(), ScanError>(())
        })?;
        return Ok(agrees);
    }
    Ok(head.records == 0)
}

/// Gives the store what it lacks.
pub(crate) fn feed(chain: ChainKey, scan: &Scan, store: &dyn Store) -> Result<u64, OpenError> {
    const BATCH_BYTES: usize = 1024 * 1024;
    let had = page::head(chain, store)?.unwrap_or_else(|| chain.genesis());
    let mut waiting: Vec<Arc<Commit>> = Vec::new();
    let mut bytes = 0;
    let put = |waiting: &mut Vec<Arc<Commit>>| {
        let mut batch = Batch::default();
        page::put(store, waiting, &mut batch)?;
        waiting.clear();
        store.put(batch)
    };
    let mut fed = 0;
    walk(scan, had.records..u64::MAX, |commit| {
        fed += u64::from(commit.record.header().events);
        bytes += commit.record.bytes().len() + commit.record.header().attached as usize;
        waiting.push(Arc::new(commit));
        if bytes >= BATCH_BYTES {
            bytes = 0;
            put(&mut waiting)?;
        }
        Ok(())
    })?;
    if !waiting.is_empty() {
        put(&mut waiting)?;
    }
    Ok(fed)
}
