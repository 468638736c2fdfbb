//! Appending: one record, one fdatasync, acknowledged. No other thread is on this path.

use std::{
    io,
    path::Path,
    sync::{Arc, MutexGuard, PoisonError},
    thread::JoinHandle,
    time::{Duration, Instant},
};

use crate::{
    blobs::Blobs,
    error::{AppendError, OpenError, SnapshotError},
    event::{Attachment, RawEvent},
    feeder, files,
    lock::Lock,
    open,
    reader::Reader,
    record::{self, Head, Record, Unwritable},
    segment::{self, Segment, SegmentHeader},
    shared::{Retained, Shared, Spare, State, StoreState, is_full},
    snapshot,
    tail::Commit,
};

/// Events and bytes that the store may lack before an appender waits for it.
const BEHIND_EVENTS: u64 = 100_000;
const BEHIND_BYTES: usize = 64 * 1024 * 1024;
/// How long an appender waits for the store before it refuses.
const PATIENCE: Duration = Duration::from_secs(30);

/// How to open a journal.
#[derive(Clone, Debug)]
pub struct Options {
    /// Bytes of one segment.
    pub segment_bytes: u64,
    /// Bytes of segments that stay after the store has their records.
    pub retained_bytes: u64,
    /// Bytes of the reserve: given up on a full disk, so that endings can still be written; 0 for none.
    pub reserve_bytes: u64,
    /// When the store is lost and the segments do not reach back to the beginning: go on from a snapshot
    /// that they do reach back to, without the history before it. The lost store is kept, set aside.
    pub accept_lost_history: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            segment_bytes: 16 * 1024 * 1024,
            retained_bytes: feeder::RETAINED_BYTES,
            reserve_bytes: 1024 * 1024,
            accept_lost_history: false,
        }
    }
}

/// What an append made durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appended {
    /// The sequence number of the first event.
    pub first: u64,
    /// The sequence number of the last event.
    pub last: u64,
}

/// How the journal is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// Events that the store lacks; the segments have them.
    pub behind: u64,
    /// Up to which event the store is durable.
    pub stored: u64,
    /// What the store is doing.
    pub store: StoreState,
    /// Why no more events are taken, if none are.
    pub poisoned: Option<String>,
    /// Whether the reserve is there.
    pub reserve: bool,
}

/// Whether events must be written at all cost.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Urgency {
    Ordinary,
    /// Endings, cancellations, the orderly stop: they may use the reserve.
    Urgent,
}

/// A log of events that survives. One owner appends; see [`Journal::reader`] for everybody else.
pub struct Journal {
    shared: Arc<Shared>,
    current: Segment,
    /// Where the next record goes, in bytes from the start of the segment.
    at: u64,
    /// The segment in which the next one was asked for.
    spare_asked_in: u64,
    /// Whether the segment in use was made out of the reserve: only urgent events may use it.
    emergency: bool,
    reserve: bool,
    head: Head,
    /// Up to which event the last record says that the store is durable.
    noted: u64,
    buffer: Vec<u8>,
    poisoned: Option<String>,
    /// Whether each record is synced by itself; not while a whole journal is being copied.
    sync_each: bool,
    feeder: Feeding,
    /// Given up last.
    _lock: Option<Lock>,
}

/// Who feeds the store.
enum Feeding {
    /// A thread, as it should be.
    Thread(JoinHandle<()>),
    /// Whoever waits for it, one step at a time: so that a simulation is the same each time.
    #[cfg(any(test, feature = "simulation"))]
    Inline(std::sync::Mutex<feeder::Feeder>),
    /// Nobody any more.
    Ended,
}

/// What [`open`](mod@crate::open) hands over.
pub(crate) struct Parts {
    pub(crate) shared: Arc<Shared>,
    pub(crate) current: Segment,
    pub(crate) at: u64,
    pub(crate) reserve: bool,
    pub(crate) head: Head,
    pub(crate) noted: u64,
    pub(crate) lock: Option<Lock>,
    pub(crate) retained_bytes: u64,
    pub(crate) threads: bool,
}

#[cfg(any(test, feature = "simulation"))]
fn feeding(feeder: feeder::Feeder, threads: bool) -> io::Result<Feeding> {
    if threads { spawn(feeder) } else { Ok(Feeding::Inline(std::sync::Mutex::new(feeder))) }
}

#[cfg(not(any(test, feature = "simulation")))]
fn feeding(feeder: feeder::Feeder, _threads: bool) -> io::Result<Feeding> {
    spawn(feeder)
}

fn spawn(feeder: feeder::Feeder) -> io::Result<Feeding> {
    let thread = std::thread::Builder::new().name("journal-feeder".to_owned());
    thread.spawn(move || feeder::run(feeder)).map(Feeding::Thread)
}

impl Journal {
    /// Opens the journal in a directory, or makes one there.
    ///
    /// Takes the lock, reads the segments, opens the store and brings each up to what the other
    /// knows; [`open::Report`] says what was found and done.
    ///
    /// # Errors
    /// The directory is in use, the log is damaged, or the disk says no. Nothing is repaired by guessing.
    pub fn open(directory: &Path, options: &Options) -> Result<open::Opened, OpenError> {
        open::open(directory, options)
    }

    pub(crate) fn start(parts: Parts) -> io::Result<Self> {
        let Parts { shared, current, at, reserve, head, noted, lock, retained_bytes, threads } = parts;
        let feeder = feeding(feeder::Feeder::new(Arc::clone(&shared), retained_bytes), threads)?;
        Ok(Self {
            shared,
            current,
            at,
            spare_asked_in: 0,
            emergency: false,
            reserve,
            head,
            noted,
            buffer: Vec::new(),
            poisoned: None,
            sync_each: true,
            feeder,
            _lock: lock,
        })
    }

    /// Appends a batch as one record. When this returns, the batch is durable and readers see it; when it
    /// fails, nothing of it is in the log (but see [`AppendError::Poisoned`]).
    ///
    /// # Errors
    /// The batch cannot be a record, or the disk says no.
    pub fn append(
        &mut self,
        events: &[RawEvent],
        attachments: &[Attachment],
    ) -> Result<Appended, AppendError> {
        self.append_batch(events, attachments, Urgency::Ordinary)
    }

    /// Appends a batch that must be written even when the disk is full: an ending, a cancellation, the
    /// orderly stop. It may use the reserve.
    ///
    /// # Errors
    /// As [`Journal::append`].
    pub fn append_urgent(
        &mut self,
        events: &[RawEvent],
        attachments: &[Attachment],
    ) -> Result<Appended, AppendError> {
        self.append_batch(events, attachments, Urgency::Urgent)
    }

    fn append_batch(
        &mut self,
        events: &[RawEvent],
        attachments: &[Attachment],
        urgency: Urgency,
    ) -> Result<Appended, AppendError> {
        if events.is_empty() {
            return Err(AppendError::Unwritable(Unwritable::Empty));
        }
        self.wait_for_store(urgency)?;
        self.append_record(events, attachments, urgency)?;
        Ok(Appended { first: self.head.sequence + 1 - events.len() as u64, last: self.head.sequence })
    }

    /// Writes a record that only notes what is stored.
    fn append_mark(&mut self) -> Result<(), AppendError> {
        self.append_record(&[], &[], Urgency::Urgent)
    }

    fn append_record(
        &mut self,
        events: &[RawEvent],
        attachments: &[Attachment],
        urgency: Urgency,
    ) -> Result<(), AppendError> {
        let stored = self.shared.lock().stored.0;
        self.append_noting(stored, events, attachments, urgency)
    }

    /// Appends a record of another journal as it is; it is durable after [`Journal::finish_copy`].
    pub(crate) fn append_copy(
        &mut self,
        stored: u64,
        events: &[RawEvent],
        attachments: &[Attachment],
    ) -> Result<Head, AppendError> {
        self.sync_each = false;
        self.wait_for_store(Urgency::Ordinary)?;
        self.append_noting(stored, events, attachments, Urgency::Ordinary)?;
        Ok(self.head)
    }

    /// Makes a copy durable, and closes it.
    pub(crate) fn finish_copy(mut self) -> Result<(), AppendError> {
        self.sync_current()?;
        self.sync_each = true;
        self.checkpoint()
    }

    fn sync_current(&mut self) -> Result<(), AppendError> {
        match self.current.file.sync_data() {
            Ok(()) => Ok(()),
            Err(error) => Err(self.poison(&format!("{}: {error}", self.current.path.display()))),
        }
    }

    fn append_noting(
        &mut self,
        stored: u64,
        events: &[RawEvent],
        attachments: &[Attachment],
        urgency: Urgency,
    ) -> Result<(), AppendError> {
        if let Some(why) = &self.poisoned {
            return Err(AppendError::Poisoned { why: why.clone() });
        }
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.clear();
        let written = record::write(self.shared.chain, &self.head, stored, events, attachments, &mut buffer)
            .map_err(AppendError::from)
            .and_then(|record| {
                self.make_room(buffer.len() as u64, urgency)?;
                self.write(&buffer)?;
                Ok(record)
            });
        self.buffer = buffer;
        self.buffer.shrink_to(4 * 1024 * 1024);
        let record = written?;
        self.publish(record, attachments);
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), AppendError> {
        let file = &*self.current.file;
        if let Err(source) = files::write_all(file, bytes, self.at) {
            // Whatever part of it was written must not be found by the next start.
            let zeros = vec![0; bytes.len()];
            if let Err(error) = files::write_all(file, &zeros, self.at).and_then(|()| file.sync_data()) {
                return Err(self.poison(&format!("a failed write could not be taken back: {error}")));
            }
            return Err(if is_full(&source) {
                self.disk_full(bytes.len() as u64)
            } else {
                AppendError::Io { path: self.current.path.clone(), source }
            });
        }
        if self.sync_each {
            self.sync_current()?;
        }
        self.at += bytes.len() as u64;
        Ok(())
    }

    fn publish(&mut self, record: Record, attachments: &[Attachment]) {
        self.head = record.header().head();
        self.noted = record.header().stored;
        let commit = Arc::new(Commit { record, attachments: attachments.to_vec() });
        let mut state = self.shared.lock();
        let before = state.tail.bytes();
        state.tail.push(commit);
        // The next segment is made ahead, when half of this one is used. It is asked for once.
        let half = self.at > self.current.header.size / 2;
        if half && self.spare_asked_in != self.current.header.number && !self.emergency {
            self.spare_asked_in = self.current.header.number;
            if matches!(state.spare, Spare::None) {
                let number = self.current.header.number + 1;
                state.spare = Spare::Wanted { number, size: self.shared.segment_bytes };
            }
        }
        // A feeder that gathers wakes by itself; one that idles is woken, and one that has enough.
        let wake = state.feeder_idle || (before < feeder::ENOUGH && state.tail.bytes() >= feeder::ENOUGH);
        drop(state);
        if wake {
            self.shared.work.notify_one();
        }
    }

    fn poison(&mut self, why: &str) -> AppendError {
        tracing::error!(why, "the journal takes no more events");
        self.poisoned = Some(why.to_owned());
        AppendError::Poisoned { why: why.to_owned() }
    }

    fn disk_full(&self, needed: u64) -> AppendError {
        AppendError::DiskFull { needed, directory: self.shared.places.root.clone() }
    }

    fn wait_for_store(&self, urgency: Urgency) -> Result<(), AppendError> {
        let mut state = self.shared.lock();
        let began = Instant::now();
        // An urgent batch is small and rare, and must not wait for what may never come.
        while urgency == Urgency::Ordinary
            && (state.tail.events() >= BEHIND_EVENTS || state.tail.bytes() >= BEHIND_BYTES)
        {
            let behind =
                |cause: &str| AppendError::Behind { events: state.tail.events(), cause: cause.to_owned() };
            match &state.store {
                StoreState::NoRoom => return Err(self.disk_full(state.tail.bytes() as u64)),
                StoreState::Failed(why) => return Err(behind(why)),
                StoreState::Fed if began.elapsed() > PATIENCE => return Err(behind("it is too slow")),
                StoreState::Fed => {}
            }
            state = self.await_feeder(state);
        }
        Ok(())
    }

    /// Lets the feeder do something, and waits until it has, or a while.
    fn await_feeder<'a>(&'a self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        match &self.feeder {
            #[cfg(any(test, feature = "simulation"))]
            Feeding::Inline(feeder) => {
                drop(state);
                feeder.lock().unwrap_or_else(PoisonError::into_inner).step();
                self.shared.lock()
            }
            Feeding::Thread(_) | Feeding::Ended => {
                self.shared.work.notify_one();
                let limit = Duration::from_millis(100);
                self.shared.done.wait_timeout(state, limit).unwrap_or_else(PoisonError::into_inner).0
            }
        }
    }

    fn feeder_has_ended(&self) -> bool {
        match &self.feeder {
            #[cfg(any(test, feature = "simulation"))]
            Feeding::Inline(_) => false,
            Feeding::Thread(thread) => thread.is_finished(),
            Feeding::Ended => true,
        }
    }

    /// Lets the feeder do its next thing, in a simulation.
    #[cfg(any(test, feature = "simulation"))]
    pub fn step_feeder(&self) {
        if let Feeding::Inline(feeder) = &self.feeder {
            feeder.lock().unwrap_or_else(PoisonError::into_inner).step();
        }
    }

    /// Makes sure that a record of this length fits into the segment in use, which may become another one.
    fn make_room(&mut self, length: u64, urgency: Urgency) -> Result<(), AppendError> {
        let fits = self.at.saturating_add(length) <= self.current.header.size;
        if fits && (!self.emergency || urgency == Urgency::Urgent) {
            return Ok(());
        }
        match self.next_segment(length) {
            Ok(next) => {
                if !self.sync_each {
                    self.sync_current()?;
                }
                self.emergency = false;
                self.roll(next);
                self.remake_reserve();
                Ok(())
            }
            Err(error) if is_full(&error) && fits && urgency == Urgency::Urgent => Ok(()),
            Err(error) if is_full(&error) && urgency == Urgency::Urgent => self.use_reserve(length),
            Err(error) if is_full(&error) => Err(self.disk_full(length)),
            Err(source) => Err(AppendError::Io { path: self.shared.places.segments.clone(), source }),
        }
    }

    /// The next segment, with room for a record of this length: the one made ahead, or a new one.
    fn next_segment(&mut self, length: u64) -> io::Result<Segment> {
        let number = self.current.header.number + 1;
        if let Some(spare) = self.take_spare() {
            if segment::HEADER + length <= spare.header.size {
                return Ok(spare);
            }
            // Too small for this record: another one takes its place and its number.
            self.shared.files.remove(&spare.path)?;
            self.shared.files.sync_directory(&self.shared.places.segments)?;
        }
        let room = self.shared.files.room(&self.shared.places.segments)?;
        let size = segment::size_for(self.shared.segment_bytes, length, room);
        let reserve = if self.reserve { 0 } else { self.shared.reserve_bytes };
        if room < size.saturating_add(reserve) {
            return Err(io::Error::from(io::ErrorKind::StorageFull));
        }
        self.create(number, size)
    }

    fn create(&self, number: u64, size: u64) -> io::Result<Segment> {
        let header = SegmentHeader { number, size, journal: self.shared.journal };
        Segment::create(&*self.shared.files, &self.shared.places.segments, header)
    }

    fn take_spare(&self) -> Option<Segment> {
        let mut state = self.shared.lock();
        // What the feeder has begun is waited for; what it has not begun is sooner made here.
        while matches!(state.spare, Spare::Making) {
            if self.feeder_has_ended() {
                return None;
            }
            state = self.await_feeder(state);
        }
        match std::mem::replace(&mut state.spare, Spare::None) {
            Spare::Ready(segment) => Some(segment),
            Spare::None | Spare::Wanted { .. } | Spare::Making => None,
        }
    }

    fn roll(&mut self, next: Segment) {
        let full = std::mem::replace(&mut self.current, next);
        self.at = segment::HEADER;
        let retained =
            Retained { number: full.header.number, bytes: full.header.size, records: self.head.records };
        self.shared.lock().retained.push_back(retained);
    }

    /// Gives up the reserve for a small segment that only urgent events may use.
    fn use_reserve(&mut self, length: u64) -> Result<(), AppendError> {
        // A quarter of the reserve is left for what the file system needs to make a file.
        let size = (self.shared.reserve_bytes / 4 * 3 / segment::SMALLEST * segment::SMALLEST)
            .min(self.shared.segment_bytes);
        if !self.reserve || segment::HEADER + length > size {
            return Err(self.disk_full(length));
        }
        let places = &self.shared.places;
        tracing::warn!("the disk is full: the reserve is used");
        let made = self
            .shared
            .files
            .remove(&places.reserve)
            .and_then(|()| self.shared.files.sync_directory(&places.root))
            .and_then(|()| self.create(self.current.header.number + 1, size));
        self.reserve = false;
        match made {
            Ok(segment) => {
                self.roll(segment);
                self.emergency = true;
                Ok(())
            }
            Err(error) if is_full(&error) => Err(self.disk_full(size)),
            Err(source) => Err(AppendError::Io { path: self.shared.places.segments.clone(), source }),
        }
    }

    fn remake_reserve(&mut self) {
        if !self.reserve {
            match open::make_reserve(&*self.shared.files, &self.shared.places, self.shared.reserve_bytes) {
                Ok(made) => self.reserve = made,
                Err(error) => tracing::warn!(%error, "cannot make the reserve"),
            }
        }
    }

    /// Reads what is durable.
    #[must_use]
    pub fn reader(&self) -> Reader {
        Reader::new(Arc::clone(&self.shared))
    }

    /// The blob files, for content that does not fit into a commit. Usable from any thread.
    #[must_use]
    pub fn blobs(&self) -> Blobs {
        self.shared.blobs.clone()
    }

    /// The snapshots. Usable from any thread.
    #[must_use]
    pub fn snapshots(&self) -> Snapshots {
        Snapshots { shared: Arc::clone(&self.shared) }
    }

    /// Where the log stands.
    #[must_use]
    pub fn head(&self) -> Head {
        self.head
    }

    /// How the journal is.
    #[must_use]
    pub fn status(&self) -> Status {
        let state = self.shared.lock();
        Status {
            behind: state.tail.events(),
            stored: state.stored.0,
            store: state.store.clone(),
            poisoned: self.poisoned.clone(),
            reserve: self.reserve,
        }
    }

    /// Makes the store durable up to everything appended before this call, and waits for it.
    ///
    /// # Errors
    /// The store cannot be fed or synced; the segments keep what it lacks.
    pub fn checkpoint(&self) -> Result<(), AppendError> {
        let mut state = self.shared.lock();
        state.checkpoints.0 += 1;
        let wanted = state.checkpoints.0;
        self.shared.work.notify_one();
        while state.checkpoints.1 < wanted {
            if self.feeder_has_ended() {
                let cause = "the thread that feeds it has ended".to_owned();
                return Err(AppendError::Behind { events: state.tail.events(), cause });
            }
            state = self.await_feeder(state);
        }
        match (&state.checkpoint_error, &state.store) {
            (Some(cause), _) | (None, StoreState::Failed(cause)) => {
                Err(AppendError::Behind { events: state.tail.events(), cause: cause.clone() })
            }
            (None, StoreState::NoRoom) => Err(self.disk_full(state.tail.bytes() as u64)),
            (None, StoreState::Fed) => Ok(()),
        }
    }

    /// Makes the store durable, notes it in the segments, and closes the journal.
    ///
    /// # Errors
    /// Something of that did not work. Nothing acknowledged is lost: the next start does what is left.
    pub fn close(mut self) -> Result<(), AppendError> {
        self.checkpoint()?;
        // The mark tells the next start how much the store must have, unless the last record says so already.
        let stored = self.shared.lock().stored.0;
        if stored > self.noted {
            self.append_mark()?;
        }
        Ok(())
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        self.shared.lock().stop = true;
        self.shared.work.notify_all();
        if let Feeding::Thread(feeder) = std::mem::replace(&mut self.feeder, Feeding::Ended)
            && feeder.join().is_err()
        {
            tracing::error!("the thread that feeds the store panicked");
        }
        self.shared.close_store();
    }
}

/// Writes snapshots.
#[derive(Clone)]
pub struct Snapshots {
    shared: Arc<Shared>,
}

impl Snapshots {
    /// Writes the state that the events up to and with `sequence` fold to; durable on return. A few older
    /// snapshots are kept to fall back on.
    ///
    /// # Errors
    /// No commit ends with that event, or the disk says no.
    pub fn write(&self, sequence: u64, state: &[u8]) -> Result<(), SnapshotError> {
        let reader = Reader::new(Arc::clone(&self.shared));
        let head = reader.head_at(sequence)?.ok_or(SnapshotError::NotACommit { sequence })?;
        let places = &self.shared.places;
        snapshot::write(&*self.shared.files, &places.snapshots, &self.shared.journal, &head, state)
            .map_err(|source| SnapshotError::Io { path: places.snapshots.clone(), source })
    }
}
