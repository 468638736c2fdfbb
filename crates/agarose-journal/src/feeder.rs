//! The feeder: one thread that brings the tail into the store, makes segments ahead, checkpoints,
//! and removes the segments that nobody needs. Nothing waits for it but an appender that is too far ahead.

use std::{
    io,
    sync::{Arc, MutexGuard},
    time::Duration,
};

use crate::{
    page,
    segment::{self, Segment, SegmentHeader},
    shared::{Shared, Spare, State, StoreState},
    store::{Batch, StoreError},
};

/// How long the feeder gathers commits before it feeds them: many small ones cost what one costs, and each time
/// it writes, the sync of a commit that comes meanwhile takes twice as long.
const GATHER: Duration = Duration::from_millis(50);
/// How long it waits before it looks again whether a full disk has room.
const RETRY: Duration = Duration::from_millis(200);
/// Bytes of the tail at which it does not wait for more.
pub(crate) const ENOUGH: usize = 256 * 1024;
/// Bytes of commits in one batch of the store.
const BATCH_BYTES: usize = 1024 * 1024;
/// Bytes fed after which it checkpoints by itself.
const CHECKPOINT_BYTES: u64 = 8 * 1024 * 1024;
/// Bytes of segments that stay, however old.
pub(crate) const RETAINED_BYTES: u64 = 64 * 1024 * 1024;
/// Room on the disk, beyond what is written, under which the store is not fed: it takes a full disk badly.
const MARGIN: u64 = 2 * 1024 * 1024;

/// What the feeder remembers from one step to the next.
pub(crate) struct Feeder {
    shared: Arc<Shared>,
    retained_bytes: u64,
    since_checkpoint: u64,
    /// How many records the store held durably at the checkpoint before the last one.
    before_last: u64,
}

/// How a step went.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// Something was done.
    Done,
    /// The store cannot be fed now.
    Stuck,
}

/// Runs until it is told to stop.
pub(crate) fn run(mut feeder: Feeder) {
    let shared = Arc::clone(&feeder.shared);
    loop {
        let mut state = shared.lock();
        while !has_work(&state) {
            state.feeder_idle = true;
            state = wait(&shared, state, None);
            state.feeder_idle = false;
        }
        if state.stop {
            return;
        }
        let hurried = state.tail.bytes() >= ENOUGH
            || state.checkpoints.0 > state.checkpoints.1
            || matches!(state.spare, Spare::Wanted { .. });
        if !hurried {
            state = wait(&shared, state, Some(GATHER));
        }
        drop(state);
        if feeder.step() == Step::Stuck {
            drop(wait(&shared, shared.lock(), Some(RETRY)));
        }
    }
}

impl Feeder {
    pub(crate) fn new(shared: Arc<Shared>, retained_bytes: u64) -> Self {
        let before_last = 0;
        Self { shared, retained_bytes, since_checkpoint: 0, before_last }
    }

    /// Does the next thing, if there is one.
    pub(crate) fn step(&mut self) -> Step {
        let wanted = {
            let spare = &mut self.shared.lock().spare;
            match *spare {
                Spare::Wanted { number, size } => {
                    *spare = Spare::Making;
                    Some((number, size))
                }
                Spare::None | Spare::Making | Spare::Ready(_) => None,
            }
        };
        if let Some((number, size)) = wanted {
            self.make_spare(number, size);
            return Step::Done;
        }
        self.feed_and_checkpoint()
    }

    fn feed_and_checkpoint(&mut self) -> Step {
        let (commits, wanted) = {
            let state = self.shared.lock();
            (state.tail.front(BATCH_BYTES), state.checkpoints.0)
        };
        let mut step = Step::Done;
        if let Some(last) = commits.last() {
            let base = last.record.header().head();
            let fed = self.feed(&commits);
            let mut state = self.shared.lock();
            match fed {
                Ok(Some(bytes)) => {
                    self.since_checkpoint += bytes;
                    state.tail.forget(base);
                    state.store = StoreState::Fed;
                }
                Ok(None) => {
                    state.store = StoreState::NoRoom;
                    step = Step::Stuck;
                }
                Err(error) => {
                    tracing::error!(%error, "the store cannot be fed");
                    state.store = StoreState::Failed(error.to_string());
                    step = Step::Stuck;
                }
            }
            drop(state);
            self.shared.done.notify_all();
        }
        let (asked, drained, fed) = {
            let state = self.shared.lock();
            (state.checkpoints.1 < wanted, state.tail.is_empty(), state.store == StoreState::Fed)
        };
        // One that was asked for covers everything that was durable when it was asked for.
        if self.since_checkpoint >= CHECKPOINT_BYTES || (asked && (drained || !fed)) {
            self.checkpoint(wanted);
        }
        step
    }

    /// Feeds commits; `None` when there is no room for them.
    fn feed(&self, commits: &[Arc<crate::tail::Commit>]) -> Result<Option<u64>, StoreError> {
        let closed = |_| StoreError::Failed { doing: "writing", what: "it is closed".to_owned() };
        let store = self.shared.store().map_err(closed)?;
        let mut batch = Batch::default();
        page::put(&*store, commits, &mut batch)?;
        let bytes: u64 = batch.puts.iter().map(|(_, key, value)| (key.len() + value.len()) as u64).sum();
        let margin = MARGIN.min(self.shared.segment_bytes);
        if self.shared.files.room(&self.shared.places.root).is_ok_and(|room| room < bytes * 3 + margin) {
            return Ok(None);
        }
        store.put(batch)?;
        Ok(Some(bytes))
    }

    fn checkpoint(&mut self, wanted: u64) {
        let base = self.shared.lock().tail.base;
        let synced = match self.shared.store() {
            Ok(store) => store.sync().map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        let mut state = self.shared.lock();
        state.checkpoints.1 = wanted;
        match synced {
            Ok(()) => {
                self.since_checkpoint = 0;
                // Segments are safe to remove when the checkpoint before this one covered them.
                self.before_last = state.stored.1;
                state.stored = (base.sequence, base.records);
                state.checkpoint_error = None;
                drop(state);
                self.recycle();
            }
            Err(error) => {
                tracing::error!(error, "the store cannot be made durable");
                state.store = StoreState::Failed(error.clone());
                state.checkpoint_error = Some(error);
                drop(state);
            }
        }
        self.shared.done.notify_all();
    }

    /// Removes the oldest segments that two checkpoints cover, down to what is retained. Each removal is
    /// durable before the next, so that what is left after a loss of power has no hole.
    fn recycle(&self) {
        loop {
            let oldest = {
                let state = self.shared.lock();
                let bytes: u64 = state.retained.iter().map(|segment| segment.bytes).sum();
                match state.retained.front() {
                    Some(oldest)
                        if oldest.records <= self.before_last
                            && bytes.saturating_sub(oldest.bytes) >= self.retained_bytes =>
                    {
                        *oldest
                    }
                    _ => return,
                }
            };
            let path = self.shared.places.segments.join(segment::name(oldest.number));
            let removed = self
                .shared
                .files
                .remove(&path)
                .and_then(|()| self.shared.files.sync_directory(&self.shared.places.segments));
            if let Err(error) = removed {
                tracing::warn!(%error, path = %path.display(), "cannot remove an old segment");
                return;
            }
            self.shared.lock().retained.pop_front();
        }
    }

    fn make_spare(&self, number: u64, size: u64) {
        let made = self.create(number, size);
        let mut state = self.shared.lock();
        state.spare = match made {
            Ok(segment) => Spare::Ready(segment),
            Err(error) => {
                // The appender makes its own when it needs one, and says what stands in the way.
                tracing::warn!(%error, "cannot make a segment ahead");
                Spare::None
            }
        };
        drop(state);
        self.shared.done.notify_all();
    }

    fn create(&self, number: u64, size: u64) -> io::Result<Segment> {
        let room = self.shared.files.room(&self.shared.places.segments)?;
        if room < size.saturating_mul(2) {
            return Err(io::Error::from(io::ErrorKind::StorageFull));
        }
        let header = SegmentHeader { number, size, journal: self.shared.journal };
        Segment::create(&*self.shared.files, &self.shared.places.segments, header)
    }
}

fn has_work(state: &State) -> bool {
    state.stop
        || !state.tail.is_empty()
        || state.checkpoints.0 > state.checkpoints.1
        || matches!(state.spare, Spare::Wanted { .. })
}

fn wait<'a>(
    shared: &'a Shared,
    state: MutexGuard<'a, State>,
    limit: Option<Duration>,
) -> MutexGuard<'a, State> {
    use std::sync::PoisonError;
    match limit {
        None => shared.work.wait(state).unwrap_or_else(PoisonError::into_inner),
        Some(limit) => shared.work.wait_timeout(state, limit).unwrap_or_else(PoisonError::into_inner).0,
    }
}
