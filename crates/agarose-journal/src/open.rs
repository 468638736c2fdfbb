//! Opening: the lock, the segments, the store; each is brought up to what the other knows.

use std::{
    collections::VecDeque,
    fs,
    io::{self, Read},
    path::{Path, PathBuf},
    sync::Arc,
};

use crate::{
    error::{Damage, OpenError},
    files::{self, Files, RealFiles, TEMPORARY},
    fit::{SledPlace, StorePlace, feed, first_event, fit_store, says, write_identity},
    journal::{Journal, Options, Parts},
    lock::{Holder, Lock},
    reader::Reader,
    record::{ChainKey, Head},
    scan::{self, Scan, Torn},
    segment::{self, Found, HEADER, Segment, SegmentHeader},
    shared::{Places, Retained, Shared, Spare},
    snapshot::{self, Snapshot},
    tail::Tail,
};

/// A journal that has been opened.
pub struct Opened {
    /// To append to.
    pub journal: Journal,
    /// What was found and done.
    pub report: Report,
    /// The newest good snapshot: fold the events after it onto its state.
    pub snapshot: Option<Snapshot>,
}

/// What opening found and did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Whether the journal was made just now.
    pub created: bool,
    /// Where the log stands.
    pub head: Head,
    /// A record that had not been written to its end, and that nobody had been told of. It is left where
    /// it is; the log goes on in the next segment.
    pub cut: Option<Torn>,
    /// What was done about the store.
    pub store: StoreReport,
    /// How many events the store lacked and got from the segments.
    pub fed: u64,
    /// Snapshots that were passed over, and why.
    pub passed_over: Vec<(PathBuf, String)>,
    /// Unfinished files that were removed.
    pub removed: Vec<PathBuf>,
    /// Everything else worth knowing.
    pub warnings: Vec<String>,
    /// Who had the lock before.
    pub before: Option<Holder>,
}

/// What opening did about the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreReport {
    /// It was there, with everything that it was known to have.
    Sound,
    /// It was made.
    Made,
    /// It had lost events that it was known to have; the segments had them.
    LostTail {
        /// Up to which event it was known to be durable.
        known: u64,
        /// Up to which event it had.
        had: u64,
    },
    /// It had lost something in its middle, and got it back from the segments.
    Mended {
        /// How many events it had lost.
        events: u64,
        /// How many index entries, keys and parts of attachments it had lost beside that.
        entries: u64,
    },
    /// Some of it cannot be read, and it is kept because only it has what is older than the segments.
    Holes {
        /// What it said.
        cause: String,
    },
    /// It could not be used. It was set aside and made anew from the segments.
    SetAside {
        /// Where it is now; `None` if nothing was there.
        path: Option<PathBuf>,
        /// What was wrong with it.
        cause: String,
    },
}

pub(crate) fn open(directory: &Path, options: &Options) -> Result<Opened, OpenError> {
    let places = Places::of(directory);
    let new = !places.root.exists();
    let files = RealFiles::shared();
    files.create_directory(&places.root).map_err(at(&places.root))?;
    if new && let Some(parent) = places.root.parent() {
        let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
        files.sync_directory(parent).map_err(at(parent))?;
    }
    let lock = Lock::take(&places.lock)?;
    let mut id = [0; 16];
    let random = Path::new("/dev/urandom");
    fs::File::open(random).and_then(|mut file| file.read_exact(&mut id)).map_err(at(random))?;
    let place = SledPlace { places: &places };
    open_with(files, &places, options, &place, Some(lock), id)
}

pub(crate) fn at(path: &Path) -> impl Fn(io::Error) -> OpenError + '_ {
    move |source| OpenError::Io { path: path.to_owned(), source }
}

/// Opens a journal on any files and any store. `new_id` names it if it has to be made.
pub(crate) fn open_with(
    files: Arc<dyn Files>,
    places: &Places,
    options: &Options,
    store_place: &dyn StorePlace,
    lock: Option<Lock>,
    new_id: [u8; 16],
) -> Result<Opened, OpenError> {
    if !(segment::SMALLEST..=segment::LARGEST).contains(&options.segment_bytes) {
        return Err(OpenError::SegmentBytes(options.segment_bytes));
    }
    for directory in [&places.segments, &places.snapshots, &places.blobs] {
        files.create_directory(directory).map_err(at(directory))?;
    }
    let removed = remove_temporaries(&*files, places)?;
    // A process that was killed may have left names that only the page cache has. What is appended to a file is
    // no more durable than its name.
    for directory in [&places.segments, &places.snapshots, &places.blobs, &places.root] {
        files.sync_directory(directory).map_err(at(directory))?;
    }
    let found = segment::find(&*files, &places.segments, true).map_err(at(&places.segments))?;
    let created = found.is_empty();
    let journal =
        found.iter().find_map(|segment| segment.header.ok()).map_or(new_id, |header| header.journal);
    let chain = ChainKey::of(&journal);
    let mut scan = scan::scan(found, chain, &journal);
    if let Some(damage) = scan.damage.take() {
        return Err(damage.into());
    }

    let snapshots = snapshot::list(&*files, &places.snapshots).map_err(at(&places.snapshots))?;
    let (store, store_report) =
        fit_store(chain, &scan, places, options, store_place, &snapshots, &*files, &journal)?;
    let beyond = snapshots.iter().rev().find(|(sequence, path)| {
        *sequence > scan.head.sequence && snapshot::read(&*files, path, &journal).is_ok()
    });
    if let Some((sequence, _)) = beyond {
        return Err(lost_end(&scan, places, format!("a snapshot has folded events up to {sequence}")).into());
    }
    // First the segments, then the store: the store must never know what they may still lose.
    sync_last(&scan)?;
    write_identity(&*store, &journal)?;
    let fed = feed(chain, &scan, &*store)?;
    store.sync()?;

    let (current, end, spare, retained) = continue_at(&*files, places, options, journal, &scan)?;
    let reserve = make_reserve(&*files, places, options.reserve_bytes).unwrap_or_else(|error| {
        tracing::warn!(%error, "cannot make the reserve");
        false
    });
    let head = scan.head;
    let first = first_event(&*store)?.unwrap_or(1);
    let shared = Arc::new(Shared::new(
        journal,
        first,
        files,
        places.clone(),
        options,
        store,
        Tail::new(head),
        retained,
        spare,
        (head.sequence, head.records),
    ));
    let (snapshot, passed_over) = newest_snapshot(&shared, &snapshots)?;
    let before = lock.as_ref().and_then(|lock| lock.before.clone());
    let parts = Parts {
        shared,
        current,
        at: end,
        reserve,
        head,
        noted: scan.stored,
        lock,
        retained_bytes: options.retained_bytes,
        threads: store_place.threads(),
    };
    let journal = Journal::start(parts).map_err(at(&places.root))?;
    let report = Report {
        created,
        head,
        cut: scan.torn,
        store: store_report,
        fed,
        passed_over,
        removed,
        warnings: scan.warnings,
        before,
    };
    Ok(Opened { journal, report, snapshot })
}

/// Begins a journal with this id in a directory that is empty or not there, at any point of a log; `None` if
/// something is there.
pub(crate) fn begin(
    directory: &Path,
    options: &Options,
    id: [u8; 16],
    head: Head,
) -> Result<Option<Journal>, OpenError> {
    if directory.exists() && fs::read_dir(directory).map_err(at(directory))?.next().is_some() {
        return Ok(None);
    }
    let places = Places::of(directory);
    let files = RealFiles::shared();
    for place in [&places.root, &places.segments, &places.snapshots, &places.blobs] {
        files.create_directory(place).map_err(at(place))?;
    }
    let lock = Lock::take(&places.lock)?;
    files.sync_directory(&places.root).map_err(at(&places.root))?;
    // Only the first segment of all begins with the first record of all.
    let number = if head.records == 0 { 1 } else { 2 };
    let room = files.room(&places.segments).map_err(at(&places.segments))?;
    let size = segment::size_for(options.segment_bytes, 0, room);
    let header = SegmentHeader { number, size, journal: id };
    let current = Segment::create(&*files, &places.segments, header).map_err(at(&places.segments))?;
    let store = SledPlace { places: &places }.open()?;
    write_identity(&*store, &id)?;
    let shared = Arc::new(Shared::new(
        id,
        head.sequence.saturating_add(1),
        files,
        places.clone(),
        options,
        store,
        Tail::new(head),
        VecDeque::new(),
        Spare::None,
        (head.sequence, head.records),
    ));
    let parts = Parts {
        shared,
        current,
        at: HEADER,
        reserve: false,
        head,
        noted: 0,
        lock: Some(lock),
        retained_bytes: options.retained_bytes,
        threads: true,
    };
    Journal::start(parts).map(Some).map_err(at(&places.root))
}

fn remove_temporaries(files: &dyn Files, places: &Places) -> Result<Vec<PathBuf>, OpenError> {
    let mut removed = Vec::new();
    for directory in [&places.root, &places.segments, &places.snapshots, &places.blobs] {
        for name in files.list(directory).map_err(at(directory))? {
            if name.to_str().is_some_and(|name| name.ends_with(TEMPORARY)) {
                let path = directory.join(name);
                files.remove(&path).map_err(at(&path))?;
                removed.push(path);
            }
        }
    }
    Ok(removed)
}

pub(crate) fn lost_end(scan: &Scan, places: &Places, what: String) -> Damage {
    let (path, offset) = scan
        .segments
        .iter()
        .rev()
        .find(|segment| segment.holds.is_some())
        .map_or((places.segments.clone(), 0), |segment| (segment.found.path.clone(), segment.end));
    let head = scan.head;
    let what = format!("the segments end here, and {what}");
    Damage { path, offset, record: head.records, sequence: head.sequence + 1, what, tickets: Vec::new() }
}

impl From<Damage> for OpenError {
    fn from(damage: Damage) -> Self {
        Self::Damaged(Box::new(damage))
    }
}

/// Writes the last record once more and syncs it. Only that one may be in the page cache and not on the
/// disk: after a kill between write and sync, or after a failed sync, which leaves pages that look clean.
fn sync_last(scan: &Scan) -> Result<(), OpenError> {
    let Some((segment, (offset, length))) =
        scan.segments.iter().rev().find_map(|segment| Some((segment, segment.last?)))
    else {
        return Ok(());
    };
    let file = &*segment.found.file;
    let mut bytes = vec![0; usize::try_from(length).unwrap_or(0)];
    files::read_full(file, &mut bytes, offset)
        .and_then(|_| files::write_all(file, &bytes, offset))
        .and_then(|()| file.sync_data())
        .map_err(at(&segment.found.path))
}

type Continued = (Segment, u64, Spare, VecDeque<Retained>);

/// Finds the segment that takes the next record, and the one after it.
fn continue_at(
    files: &dyn Files,
    places: &Places,
    options: &Options,
    journal: [u8; 16],
    scan: &Scan,
) -> Result<Continued, OpenError> {
    let reopen = |found: &Found| -> Result<Segment, OpenError> {
        let file = files.open(&found.path, true).map_err(at(&found.path))?;
        let header = found.header.map_err(|_| OpenError::SegmentBytes(0))?;
        Ok(Segment { header, path: found.path.clone(), file })
    };
    let mut retained = VecDeque::new();
    let mut records = scan.from.map_or(0, |head| head.records);
    let mut current: Option<(Segment, u64)> = None;
    let mut spare = Spare::None;
    let used = scan.segments.iter().rposition(|segment| !segment.blank);
    for (n, segment) in scan.segments.iter().enumerate() {
        records = segment.holds.map_or(records, |(_, end)| end.records);
        let retire = Retained { number: segment.found.number, bytes: segment.size, records };
        let whole = segment.found.missing() == 0;
        if used.is_some_and(|used| n < used) {
            retained.push_back(retire);
        } else if used == Some(n) {
            let torn = scan.torn.as_ref().is_some_and(|torn| torn.path == segment.found.path);
            if torn || !whole {
                retained.push_back(retire);
            } else {
                current = Some((reopen(&segment.found)?, segment.end));
            }
        } else if whole && current.is_none() {
            current = Some((reopen(&segment.found)?, HEADER));
        } else if whole && matches!(spare, Spare::None) {
            spare = Spare::Ready(reopen(&segment.found)?);
        } else {
            files.remove(&segment.found.path).map_err(at(&segment.found.path))?;
        }
    }
    let (current, end) = match current {
        Some(found) => found,
        None => {
            let number = scan.segments.last().map_or(1, |segment| segment.found.number + 1);
            let room = files.room(&places.segments).map_err(at(&places.segments))?;
            let size = segment::size_for(options.segment_bytes, 0, room);
            let header = SegmentHeader { number, size, journal };
            let made = Segment::create(files, &places.segments, header).map_err(at(&places.segments))?;
            (made, HEADER)
        }
    };
    Ok((current, end, spare, retained))
}

/// Makes the reserve if it is not there and there is room for it; returns whether it is there.
pub(crate) fn make_reserve(files: &dyn Files, places: &Places, bytes: u64) -> io::Result<bool> {
    match files.open(&places.reserve, false).and_then(|file| file.length()) {
        Ok(length) if length == bytes => return Ok(true),
        Ok(_) => files.remove(&places.reserve)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    if bytes == 0 || files.room(&places.root)? < bytes.saturating_mul(3) {
        return Ok(false);
    }
    files::write_whole(files, &places.root, "reserve", |file| files::write_zeros(file, 0, bytes))?;
    Ok(true)
}

/// A snapshot, and those that were passed over with the reason for each.
type Chosen = (Option<Snapshot>, Vec<(PathBuf, String)>);

/// The newest snapshot that verifies and that the log continues.
fn newest_snapshot(shared: &Arc<Shared>, snapshots: &[(u64, PathBuf)]) -> Result<Chosen, OpenError> {
    let reader = Reader::new(Arc::clone(shared));
    let mut passed_over = Vec::new();
    for (_, path) in snapshots.iter().rev() {
        let why = match snapshot::read(&*shared.files, path, &shared.journal) {
            Ok(found) => {
                let head = Head { sequence: found.sequence, records: found.records, hash: found.head };
                match reader.head_at(found.sequence) {
                    Ok(Some(here)) if here == head => return Ok((Some(found), passed_over)),
                    Ok(_) => "the log does not continue it".to_owned(),
                    Err(error) => says(&error),
                }
            }
            Err(why) => why,
        };
        tracing::warn!(path = %path.display(), why, "a snapshot is passed over");
        passed_over.push((path.clone(), why));
    }
    Ok((None, passed_over))
}
