//! The store in memory: for tests, and as the model that the other one is compared with.

use std::{
    collections::BTreeMap,
    ops::Bound,
    sync::{Mutex, MutexGuard, PoisonError},
};

use super::{Batch, Pair, Space, Store, StoreError, full_key, full_range, is_empty_range};

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

#[derive(Debug, Default)]
struct Contents {
    now: Map,
    synced: Map,
    unsynced: Vec<Batch>,
}

/// An ordered map in memory that remembers what had been synced.
#[derive(Debug, Default)]
pub struct MemoryStore {
    contents: Mutex<Contents>,
}

impl MemoryStore {
    fn contents(&self) -> MutexGuard<'_, Contents> {
        self.contents.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a loss of power leaves: what was synced, and the first `kept` of the batches after that.
    #[must_use]
    pub fn after_power_loss(&self, kept: usize) -> Self {
        let contents = self.contents();
        let mut map = contents.synced.clone();
        for batch in contents.unsynced.iter().take(kept) {
            apply(&mut map, batch);
        }
        let contents = Contents { now: map.clone(), synced: map, unsynced: Vec::new() };
        Self { contents: Mutex::new(contents) }
    }

    /// Forgets each value for which `lost` says so, as a disk that rots does; facts about the store itself stay.
    pub fn rot(&self, mut lost: impl FnMut() -> bool) {
        let mut contents = self.contents();
        let Contents { now, synced, .. } = &mut *contents;
        now.retain(|key, _| {
            let stays = key.first() == Some(&(Space::Meta as u8)) || !lost();
            if !stays {
                synced.remove(key);
            }
            stays
        });
    }

    /// How many batches a loss of power may take.
    #[must_use]
    pub fn unsynced(&self) -> usize {
        self.contents().unsynced.len()
    }
}

fn apply(map: &mut Map, batch: &Batch) {
    for (space, key, value) in &batch.puts {
        map.insert(full_key(*space, key), value.clone());
    }
}

fn unspaced((key, value): (&Vec<u8>, &Vec<u8>)) -> Pair {
    (key.get(1..).unwrap_or_default().to_vec(), value.clone())
}

impl Store for MemoryStore {
    fn put(&self, batch: Batch) -> Result<(), StoreError> {
        let mut contents = self.contents();
        apply(&mut contents.now, &batch);
        contents.unsynced.push(batch);
        Ok(())
    }

    fn get(&self, space: Space, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.contents().now.get(&full_key(space, key)).cloned())
    }

    fn first(&self, space: Space, from: Bound<&[u8]>, to: Bound<&[u8]>) -> Result<Option<Pair>, StoreError> {
        let range = full_range(space, from, to);
        if is_empty_range(&range.0, &range.1) {
            return Ok(None);
        }
        Ok(self.contents().now.range(range).next().map(unspaced))
    }

    fn last(&self, space: Space, from: Bound<&[u8]>, to: Bound<&[u8]>) -> Result<Option<Pair>, StoreError> {
        let range = full_range(space, from, to);
        if is_empty_range(&range.0, &range.1) {
            return Ok(None);
        }
        Ok(self.contents().now.range(range).next_back().map(unspaced))
    }

    fn sync(&self) -> Result<(), StoreError> {
        let mut contents = self.contents();
        let unsynced = std::mem::take(&mut contents.unsynced);
        for batch in &unsynced {
            apply(&mut contents.synced, batch);
        }
        Ok(())
    }
}
