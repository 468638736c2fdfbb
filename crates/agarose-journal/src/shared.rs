//! What the appender, the feeder and the readers share.

use std::{
    collections::VecDeque,
    io,
    path::{Path, PathBuf},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock},
};

use crate::{
    blobs::Blobs, error::ReadError, files::Files, journal::Options, record::ChainKey, segment::Segment,
    store::Store, tail::Tail,
};

/// Where everything lies in a journal's directory. Frozen.
#[derive(Clone, Debug)]
pub(crate) struct Places {
    pub(crate) root: PathBuf,
    pub(crate) lock: PathBuf,
    pub(crate) segments: PathBuf,
    pub(crate) store: PathBuf,
    pub(crate) snapshots: PathBuf,
    pub(crate) blobs: PathBuf,
    pub(crate) reserve: PathBuf,
}

impl Places {
    pub(crate) fn of(root: &Path) -> Self {
        Self {
            root: root.to_owned(),
            lock: root.join("lock"),
            segments: root.join("segments"),
            store: root.join("store"),
            snapshots: root.join("snapshots"),
            blobs: root.join("blobs"),
            reserve: root.join("reserve"),
        }
    }
}

/// The segment that comes after the one in use.
pub(crate) enum Spare {
    /// Nobody has made it.
    None,
    /// The feeder has been asked for it.
    Wanted { number: u64, size: u64 },
    /// The feeder is making it.
    Making,
    /// It is there.
    Ready(Segment),
}

/// A segment that takes no more records, or the one that does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Retained {
    pub(crate) number: u64,
    pub(crate) bytes: u64,
    /// How many records the log has with this segment's last one.
    pub(crate) records: u64,
}

/// What the store is doing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreState {
    /// It is fed.
    Fed,
    /// It waits for room on the disk; the segments keep what it lacks.
    NoRoom,
    /// It failed; a new start is needed before what it lacks becomes too much.
    Failed(String),
}

pub(crate) struct State {
    pub(crate) tail: Tail,
    pub(crate) store: StoreState,
    pub(crate) spare: Spare,
    /// Segments on the disk, oldest first, without the one in use.
    pub(crate) retained: VecDeque<Retained>,
    /// Up to which event the store is known to be durable, and how many records that is.
    pub(crate) stored: (u64, u64),
    /// Checkpoints asked for and made.
    pub(crate) checkpoints: (u64, u64),
    pub(crate) checkpoint_error: Option<String>,
    /// Whether the feeder waits for work without a time limit.
    pub(crate) feeder_idle: bool,
    pub(crate) stop: bool,
}

pub(crate) struct Shared {
    pub(crate) journal: [u8; 16],
    pub(crate) chain: ChainKey,
    pub(crate) files: Arc<dyn Files>,
    pub(crate) places: Places,
    pub(crate) blobs: Blobs,
    /// The first event there is.
    pub(crate) first: u64,
    pub(crate) segment_bytes: u64,
    pub(crate) reserve_bytes: u64,
    store: RwLock<Option<Arc<dyn Store>>>,
    state: Mutex<State>,
    /// Told to the feeder: there is work.
    pub(crate) work: Condvar,
    /// Told to whoever waits for the feeder: something has been done.
    pub(crate) done: Condvar,
}

impl Shared {
    #[expect(clippy::too_many_arguments, reason = "one caller, which has just found out each of them")]
    pub(crate) fn new(
        journal: [u8; 16],
        first: u64,
        files: Arc<dyn Files>,
        places: Places,
        options: &Options,
        store: Arc<dyn Store>,
        tail: Tail,
        retained: VecDeque<Retained>,
        spare: Spare,
        stored: (u64, u64),
    ) -> Self {
        Self {
            journal,
            first,
            chain: ChainKey::of(&journal),
            blobs: Blobs::new(Arc::clone(&files), places.blobs.clone()),
            files,
            places,
            segment_bytes: options.segment_bytes,
            reserve_bytes: options.reserve_bytes,
            store: RwLock::new(Some(store)),
            state: Mutex::new(State {
                tail,
                store: StoreState::Fed,
                spare,
                retained,
                stored,
                checkpoints: (0, 0),
                checkpoint_error: None,
                feeder_idle: false,
                stop: false,
            }),
            work: Condvar::new(),
            done: Condvar::new(),
        }
    }

    /// The state. A thread that panicked while it held this left nothing half done: each change is a
    /// single statement or follows the last fallible one.
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn store(&self) -> Result<Arc<dyn Store>, ReadError> {
        let store = self.store.read().unwrap_or_else(PoisonError::into_inner);
        store.as_ref().map(Arc::clone).ok_or(ReadError::Closed)
    }

    /// Gives the store back; readers that are left get [`ReadError::Closed`].
    pub(crate) fn close_store(&self) {
        *self.store.write().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// Whether an error says that the disk, or somebody's share of it, is full.
pub(crate) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}
