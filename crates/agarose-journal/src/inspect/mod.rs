//! Looking at a journal without writing to it: one that is stopped, in use, copied from elsewhere or damaged.
//!
//! sled writes when it opens, so its files are copied to a temporary directory first, and what the copy
//! lacks comes from the segments. What cannot be read is a [`Finding`]; the rest is read.

mod salvage;
mod verify;

use std::{
    collections::VecDeque,
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use agarose_core::TicketId;
use tempfile::TempDir;

pub use self::{
    salvage::{SalvageError, SalvageReport, salvage},
    verify::{Depth, VerifyReport, verify},
};
use crate::{
    error::{Damage, OpenError, ReadError},
    files::RealFiles,
    fit::{self, says},
    journal::Options,
    lock::{self, Holder},
    mend::{Mended, mend},
    page,
    reader::Reader,
    record::{ChainKey, Head},
    scan::{self, Scan, ScanError},
    segment,
    shared::{Places, Shared, Spare},
    snapshot::{self, Snapshot},
    store::{Batch, SledStore, Space, Store, StoreError},
    tail::{Commit, Tail},
};

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Worth knowing; a start deals with it.
    Note,
    /// Nothing acknowledged is lost, but something is not as it should be.
    Warning,
    /// Acknowledged events are damaged or gone.
    Damage,
}

/// Something that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// The file that it is in.
    pub path: Option<PathBuf>,
    /// Where in the file, in bytes.
    pub offset: Option<u64>,
    /// The record that it is about, counted from 0.
    pub record: Option<u64>,
    /// The event that it is about.
    pub sequence: Option<u64>,
    /// The tickets that it is about, as far as can be read.
    pub tickets: Vec<TicketId>,
    /// What it is.
    pub what: String,
}

impl Finding {
    fn new(severity: Severity, what: impl Into<String>) -> Self {
        let what = what.into();
        Self { severity, path: None, offset: None, record: None, sequence: None, tickets: Vec::new(), what }
    }

    fn in_file(severity: Severity, path: &Path, what: impl Into<String>) -> Self {
        Self { path: Some(path.to_owned()), ..Self::new(severity, what) }
    }
}

impl From<Damage> for Finding {
    fn from(damage: Damage) -> Self {
        let Damage { path, offset, record, sequence, what, tickets } = damage;
        Self {
            severity: Severity::Damage,
            path: Some(path),
            offset: Some(offset),
            record: Some(record),
            sequence: Some(sequence),
            tickets,
            what,
        }
    }
}

/// Why there is nothing to look at.
#[derive(Debug, thiserror::Error)]
pub enum InspectError {
    /// There is no journal.
    #[error("{path} is not the directory of a journal", path = path.display())]
    NotAJournal {
        /// The directory.
        path: PathBuf,
    },
    /// The disk says no.
    #[error("cannot read {path}", path = path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The temporary copy of the store cannot be used.
    #[error("the temporary copy of the store cannot be used")]
    Store(#[from] StoreError),
    /// The log cannot be read.
    #[error("the log cannot be read")]
    Read(#[from] ReadError),
    /// Something else.
    #[error("the journal cannot be inspected")]
    Open(#[from] OpenError),
}

/// One segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentSummary {
    /// The file.
    pub path: PathBuf,
    /// Its number.
    pub number: u64,
    /// Its length in bytes.
    pub bytes: u64,
    /// How many of them are used.
    pub used: u64,
    /// The first and the last event in it, if there is one.
    pub events: Option<(u64, u64)>,
}

/// A record that is sound by itself, and that nothing connects with the log any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Beyond {
    /// Which record it is, counted from 0.
    pub record: u64,
    /// Its first event.
    pub first: u64,
    /// Its last event.
    pub last: u64,
    /// The file that it is in.
    pub path: PathBuf,
}

/// A journal that is only looked at.
pub struct Inspector {
    reader: Reader,
    places: Places,
    findings: Vec<Finding>,
    segments: Vec<SegmentSummary>,
    beyond: Vec<(Beyond, Arc<Commit>)>,
    holder: Option<Holder>,
    /// Where the copy of the store is; removed last.
    _copy: TempDir,
}

fn at(path: &Path) -> impl Fn(io::Error) -> InspectError + '_ {
    move |source| InspectError::Io { path: path.to_owned(), source }
}

/// How often a journal in use is looked at anew because it changed under the look.
const TRIES: u32 = 5;

impl Inspector {
    /// Looks at the journal in a directory. Writes nothing there.
    ///
    /// # Errors
    /// There is no journal, or the disk says no. Damage is not an error: see [`Inspector::findings`].
    pub fn open(directory: &Path) -> Result<Self, InspectError> {
        let mut tries = 1;
        loop {
            match Self::look(directory) {
                // A segment that was there has been removed by the daemon since.
                Err(InspectError::Io { source, .. })
                    if source.kind() == io::ErrorKind::NotFound && tries < TRIES && directory.exists() =>
                {
                    tries += 1;
                }
                // A daemon appends while its store is copied: what the copy lacks is in no segment any more.
                Ok(found) if found.holder.is_some() && found.is_broken() && tries < TRIES => tries += 1,
                other => return other,
            }
        }
    }

    fn is_broken(&self) -> bool {
        self.findings.iter().any(|finding| finding.severity == Severity::Damage)
    }

    fn look(directory: &Path) -> Result<Self, InspectError> {
        let places = Places::of(directory);
        if !places.segments.is_dir() && !places.store.is_dir() {
            return Err(InspectError::NotAJournal { path: directory.to_owned() });
        }
        let files = RealFiles::shared();
        let mut findings = Vec::new();
        let holder = lock::holder(&places.lock).ok().flatten();
        if let Some(holder) = &holder {
            findings.push(Finding::in_file(
                Severity::Note,
                &places.lock,
                format!("it is in use by {holder}"),
            ));
        }
        let found = if places.segments.is_dir() {
            segment::find(&*files, &places.segments, false).map_err(at(&places.segments))?
        } else {
            findings.push(Finding::in_file(Severity::Damage, &places.segments, "it is not there"));
            Vec::new()
        };
        let copy = tempfile::Builder::new()
            .prefix("agarose-inspect-")
            .tempdir()
            .map_err(at(&std::env::temp_dir()))?;
        let (store, of_store) = copied_store(&places, copy.path(), &mut findings)?;
        let of_segments = found.iter().find_map(|segment| segment.header.ok()).map(|header| header.journal);
        let journal = of_segments.or(of_store).unwrap_or_default();
        let chain = ChainKey::of(&journal);
        let mut scan = scan::scan(found, chain, &journal);
        let segments = summaries(&scan);
        let damage = scan.damage.take();
        note_scan(&scan, damage, &mut findings);

        let store = match of_store {
            Some(id) if id != journal => {
                let what = "it belongs to another journal than the segments";
                findings.push(Finding::in_file(Severity::Warning, &places.store, what));
                empty_store(copy.path())?
            }
            Some(_) | None => store,
        };
        let (store, had) = match page::head(chain, &*store) {
            Ok(head) => (store, head),
            Err(error) => {
                findings.push(Finding::in_file(Severity::Warning, &places.store, says(&error)));
                (empty_store(copy.path())?, None)
            }
        };
        let mut head = join(chain, &scan, &*store, had, &places, holder.is_some(), &mut findings)?;
        let beyond = bridge(chain, &scan, &*store, &mut head)?;
        for (beyond, _) in &beyond {
            let Beyond { record, first, last, path } = beyond;
            let what = format!(
                "record {record} (events {first} to {last}) is whole, and what it continues is not there"
            );
            findings.push(Finding {
                record: Some(*record),
                sequence: Some(*first),
                ..Finding::in_file(Severity::Damage, path, what)
            });
        }
        let first = fit::first_event(&*store)?.unwrap_or(1);
        if first > 1 {
            let what = format!("the history of events 1 to {} is gone", first - 1);
            findings.push(Finding { sequence: Some(1), ..Finding::new(Severity::Warning, what) });
        }
        let shared = Shared::new(
            journal,
            first,
            files,
            places.clone(),
            &Options::default(),
            store,
            Tail::new(head),
            VecDeque::new(),
            Spare::None,
            (head.sequence, head.records),
        );
        let reader = Reader::new(Arc::new(shared));
        Ok(Self { reader, places, findings, segments, beyond, holder, _copy: copy })
    }

    /// Reads the log, as far as it hangs together. Usable as long as the inspector lives.
    #[must_use]
    pub fn reader(&self) -> &Reader {
        &self.reader
    }

    /// What is not as it should be.
    #[must_use]
    pub fn findings(&self) -> &[Finding] {
        &self.findings
    }

    /// The segments, oldest first, up to the first that is damaged.
    #[must_use]
    pub fn segments(&self) -> &[SegmentSummary] {
        &self.segments
    }

    /// Records behind a damaged one that nothing connects with the log.
    pub fn beyond(&self) -> impl Iterator<Item = &Beyond> {
        self.beyond.iter().map(|(beyond, _)| beyond)
    }

    /// Who has the journal open, if anybody does.
    #[must_use]
    pub fn holder(&self) -> Option<&Holder> {
        self.holder.as_ref()
    }

    /// The snapshots, oldest first, each read when it is asked for; a text says why one is not good.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub fn snapshots(
        &self,
    ) -> Result<impl Iterator<Item = Result<Snapshot, Box<Finding>>> + '_, InspectError> {
        let found = snapshot::list(&RealFiles, &self.places.snapshots).map_err(at(&self.places.snapshots))?;
        let journal = self.reader.journal();
        Ok(found.into_iter().map(move |(sequence, path)| {
            let snapshot = snapshot::read(&RealFiles, &path, &journal);
            let checked = snapshot.and_then(|snapshot| {
                let head = Head { sequence, records: snapshot.records, hash: snapshot.head };
                match self.reader.head_at(sequence) {
                    Ok(Some(here)) if here == head => Ok(snapshot),
                    Ok(_) => Err("the log does not continue it".to_owned()),
                    Err(error) => Err(says(&error)),
                }
            });
            checked.map_err(|what| {
                let what = format!("the snapshot is not good: {what}");
                let finding = Finding::in_file(Severity::Warning, &path, what);
                Box::new(Finding { sequence: Some(sequence), ..finding })
            })
        }))
    }
}

/// A store, and the id of the journal that it belongs to.
type CopiedStore = (Arc<dyn Store>, Option<[u8; 16]>);

/// A copy of the store, opened, and the id of the journal that it says it belongs to; an empty one if there is none.
fn copied_store(
    places: &Places,
    copy: &Path,
    findings: &mut Vec<Finding>,
) -> Result<CopiedStore, InspectError> {
    if !places.store.is_dir() {
        findings.push(Finding::in_file(Severity::Warning, &places.store, "the store is not there"));
        return Ok((empty_store(copy)?, None));
    }
    let target = copy.join("store");
    copy_directory(&places.store, &target).map_err(at(&places.store))?;
    let opened = SledStore::open(&target).and_then(|store| {
        let id = store.get(Space::Meta, fit::IDENTITY)?;
        Ok((store, id.and_then(|id| id.try_into().ok())))
    });
    match opened {
        Ok((store, id)) => Ok((Arc::new(store), id)),
        Err(error) => {
            findings.push(Finding::in_file(Severity::Warning, &places.store, error.to_string()));
            Ok((empty_store(copy)?, None))
        }
    }
}

fn empty_store(copy: &Path) -> Result<Arc<dyn Store>, StoreError> {
    let place = (0..).map(|n| copy.join(format!("empty-{n}"))).find(|path| !path.exists());
    Ok(Arc::new(SledStore::open(&place.unwrap_or_else(|| copy.join("empty")))?))
}

fn copy_directory(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        let kind = entry.file_type()?;
        if kind.is_dir() {
            copy_directory(&entry.path(), &target)?;
        } else if kind.is_file() {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

fn summaries(scan: &Scan) -> Vec<SegmentSummary> {
    let summary = |segment: &scan::Scanned| SegmentSummary {
        path: segment.found.path.clone(),
        number: segment.found.number,
        bytes: segment.found.length,
        used: segment.end,
        events: segment
            .holds
            .filter(|(before, end)| end.sequence > before.sequence)
            .map(|(before, end)| (before.sequence + 1, end.sequence)),
    };
    scan.segments.iter().map(summary).collect()
}

fn note_scan(scan: &Scan, damage: Option<ScanError>, findings: &mut Vec<Finding>) {
    findings.extend(scan.warnings.iter().map(|what| Finding::new(Severity::Warning, what.clone())));
    match damage {
        None => {}
        Some(ScanError::Damaged(damage)) => findings.push((*damage).into()),
        Some(ScanError::Io(path, error)) => {
            findings.push(Finding::in_file(Severity::Damage, &path, format!("it cannot be read: {error}")));
        }
        Some(ScanError::Newer(path, format)) => {
            let what = format!("format {format}, written by a newer version");
            findings.push(Finding::in_file(Severity::Damage, &path, what));
        }
    }
    if let Some(torn) = &scan.torn {
        let what = "a record was not written to its end, or is being written; nobody was told of it";
        findings.push(Finding {
            offset: Some(torn.offset),
            record: Some(torn.record),
            sequence: Some(torn.sequence),
            ..Finding::in_file(Severity::Note, &torn.path, what)
        });
    }
}

/// Brings the copy of the store up to what the segments have, and returns where the log stands.
fn join(
    chain: ChainKey,
    scan: &Scan,
    store: &dyn Store,
    had: Option<Head>,
    places: &Places,
    in_use: bool,
    findings: &mut Vec<Finding>,
) -> Result<Head, InspectError> {
    let had = had.unwrap_or_else(|| chain.genesis());
    if had.records > scan.head.records {
        let what = format!(
            "the segments end with event {}, and the store has events up to {}",
            scan.head.sequence, had.sequence
        );
        findings
            .push(Finding { sequence: Some(scan.head.sequence + 1), ..Finding::new(Severity::Damage, what) });
        return Ok(had);
    }
    if let Some(from) = scan.from
        && had.records < from.records
    {
        let what = format!(
            "the store ends with event {}, and the segments begin with {}",
            had.sequence,
            from.sequence + 1
        );
        findings.push(Finding {
            sequence: Some(had.sequence + 1),
            ..Finding::in_file(Severity::Damage, &places.store, what)
        });
    } else if had.records > 0 && had.sequence < scan.stored {
        let what = format!(
            "the store had events up to {}, and has them up to {}; the segments have the rest",
            scan.stored, had.sequence
        );
        findings.push(Finding::in_file(Severity::Warning, &places.store, what));
    }
    match mend(scan, store, had) {
        Ok(mended) if mended.is_nothing() => {}
        Ok(Mended { events, entries }) => {
            let what = format!(
                "the store has lost {events} events and {entries} entries in its middle; the segments have them"
            );
            // What a daemon writes while it is copied is not lost.
            let severity = if in_use { Severity::Note } else { Severity::Warning };
            findings.push(Finding::in_file(severity, &places.store, what));
        }
        Err(OpenError::Store(error)) => {
            findings.push(Finding::in_file(Severity::Damage, &places.store, error.to_string()));
        }
        Err(other) => return Err(other.into()),
    }
    fit::feed(chain, scan, store)?;
    Ok(scan.head)
}

/// Takes the sound records behind the damage that continue what there is, and returns the others.
fn bridge(
    chain: ChainKey,
    scan: &Scan,
    store: &dyn Store,
    head: &mut Head,
) -> Result<Vec<(Beyond, Arc<Commit>)>, InspectError> {
    let mut beyond = Vec::new();
    let damaged = scan.segments.last().filter(|segment| !segment.blank);
    let behind = damaged.map(|segment| (&segment.found, segment.end.saturating_sub(segment::HEADER)));
    for (found, from) in behind.into_iter().chain(scan.unread.iter().map(|found| (found, 0))) {
        let bytes = found.read().map_err(at(&found.path))?;
        let mut from = usize::try_from(from).unwrap_or(usize::MAX);
        while let Some((offset, record, attachments)) = segment::find_sound(chain, &bytes, from, 0) {
            from = offset + record.header().length();
            let header = *record.header();
            let commit = Arc::new(Commit { record, attachments });
            if header.before() == *head {
                let mut batch = Batch::default();
                page::put(store, &[commit], &mut batch)?;
                store.put(batch)?;
                *head = header.head();
            } else if header.record >= head.records {
                let last = header.head().sequence;
                let (record, first) = (header.record, header.first);
                beyond.push((Beyond { record, first, last, path: found.path.clone() }, commit));
            }
        }
    }
    Ok(beyond)
}
