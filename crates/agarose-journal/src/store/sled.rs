//! The store in sled 0.34.
//!
//! Three things are known about it and guarded against here. Its `flush` does not sync: [`Store::sync`]
//! does, through descriptors of our own. It panics on some damage: every call is under `catch_unwind`.
//! It drops a damaged tail without a word: opening compares it with the segments.

use std::{
    any::Any,
    fs,
    ops::Bound,
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
};

use super::{Batch, Pair, Space, Store, StoreError, full_key, full_range, is_empty_range};

/// Bytes of sled's page cache; it is a target, not a ceiling.
const CACHE_BYTES: u64 = 16 * 1024 * 1024;
/// Bytes of sled's log segments. See `page` for what the size of values has to do with it.
const SEGMENT_BYTES: usize = 1024 * 1024;

/// A sled database with one tree.
pub struct SledStore {
    database: sled::Db,
    directory: PathBuf,
}

fn guarded<T>(doing: &'static str, act: impl FnOnce() -> Result<T, sled::Error>) -> Result<T, StoreError> {
    match catch_unwind(AssertUnwindSafe(act)) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err(StoreError::Failed { doing, what: error.to_string() }),
        Err(panic) => Err(StoreError::Panicked { doing, what: said(&*panic) }),
    }
}

fn said(panic: &(dyn Any + Send)) -> String {
    panic
        .downcast_ref::<String>()
        .cloned()
        .or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()))
        .unwrap_or_else(|| "no message".to_owned())
}

impl SledStore {
    /// Opens or makes the store in a directory. Opening writes: sled cuts what it deems torn.
    ///
    /// # Errors
    /// sled refuses or panics.
    pub fn open(directory: &Path) -> Result<Self, StoreError> {
        let database = guarded("opening", || {
            sled::Config::new()
                .path(directory)
                .cache_capacity(CACHE_BYTES)
                .segment_size(SEGMENT_BYTES)
                .flush_every_ms(None)
                .use_compression(false)
                .open()
        })?;
        Ok(Self { database, directory: directory.to_owned() })
    }

    fn sync_files(&self) -> std::io::Result<()> {
        for entry in fs::read_dir(&self.directory)? {
            let entry = entry?;
            if entry.file_type()?.is_file() {
                match fs::OpenOptions::new().read(true).write(true).open(entry.path()) {
                    Ok(file) => file.sync_data()?,
                    // sled removes its old snapshots when it likes.
                    Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                    Err(error) => return Err(error),
                }
            }
        }
        fs::File::open(&self.directory)?.sync_all()
    }
}

fn unspaced((key, value): (sled::IVec, sled::IVec)) -> Pair {
    (key.get(1..).unwrap_or_default().to_vec(), value.to_vec())
}

impl Store for SledStore {
    fn put(&self, batch: Batch) -> Result<(), StoreError> {
        let mut puts = sled::Batch::default();
        for (space, key, value) in batch.puts {
            puts.insert(full_key(space, &key), value);
        }
        guarded("writing", || self.database.apply_batch(puts))
    }

    fn get(&self, space: Space, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        let found = guarded("reading", || self.database.get(full_key(space, key)))?;
        Ok(found.map(|value| value.to_vec()))
    }

    fn first(&self, space: Space, from: Bound<&[u8]>, to: Bound<&[u8]>) -> Result<Option<Pair>, StoreError> {
        let (low, high) = full_range(space, from, to);
        if is_empty_range(&low, &high) {
            return Ok(None);
        }
        guarded("reading", || self.database.range((low, high)).next().transpose())
            .map(|found| found.map(unspaced))
    }

    fn last(&self, space: Space, from: Bound<&[u8]>, to: Bound<&[u8]>) -> Result<Option<Pair>, StoreError> {
        let (low, high) = full_range(space, from, to);
        if is_empty_range(&low, &high) {
            return Ok(None);
        }
        guarded("reading", || self.database.range((low, high)).next_back().transpose())
            .map(|found| found.map(unspaced))
    }

    fn sync(&self) -> Result<(), StoreError> {
        guarded("flushing", || self.database.flush().map(drop))?;
        self.sync_files().map_err(|error| StoreError::Failed { doing: "syncing", what: error.to_string() })
    }
}
