//! A journal on a simulated disk and a store in memory, for tests here and above.

use std::{
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use crate::{
    error::OpenError,
    fit::StorePlace,
    journal::Options,
    open::{self, Opened},
    shared::Places,
    simulated::{Choices, SimulatedFiles},
    store::{MemoryStore, Store, StoreError},
};

/// Where a simulated journal lies.
const ROOT: &str = "/journal";

/// The disk and the store of a journal: what is left of it when its process is gone.
#[derive(Clone, Default)]
pub struct SimulatedJournal {
    /// The disk.
    pub files: SimulatedFiles,
    store: Arc<Mutex<Option<Arc<MemoryStore>>>>,
}

impl SimulatedJournal {
    fn store(&self) -> MutexGuard<'_, Option<Arc<MemoryStore>>> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens the journal there, or makes one. No thread feeds its store: see [`crate::Journal::step_feeder`].
    ///
    /// # Errors
    /// As [`crate::Journal::open`].
    pub fn open(&self, options: &Options) -> Result<Opened, OpenError> {
        let files = Arc::new(self.files.clone());
        open::open_with(files, &Places::of(Path::new(ROOT)), options, self, None, [7; 16])
    }

    /// What a loss of power leaves.
    #[must_use]
    pub fn after_power_loss(&self, choices: &mut Choices) -> Self {
        self.with_files(self.files.after_power_loss(choices), choices)
    }

    /// What is left when the process is killed: the disk as it is, and of the store what it had written by itself.
    #[must_use]
    pub fn after_kill(&self, choices: &mut Choices) -> Self {
        self.with_files(self.files.after_kill(), choices)
    }

    /// This journal's store as a loss of power leaves it, with these files.
    #[must_use]
    pub fn with_files(&self, files: SimulatedFiles, choices: &mut Choices) -> Self {
        let store = self.store().as_ref().map(|store| {
            let kept = choices.below(store.unsynced() as u64 + 1);
            Arc::new(store.after_power_loss(kept as usize))
        });
        Self { files, store: Arc::new(Mutex::new(store)) }
    }

    /// Loses values of the store here and there: each with a chance of `share` in 256.
    pub fn rot_store(&self, share: u64, choices: &mut Choices) {
        if let Some(store) = &*self.store() {
            store.rot(|| choices.yes(share));
        }
    }

    /// Takes the store away.
    pub fn lose_store(&self) {
        *self.store() = None;
    }
}

impl StorePlace for SimulatedJournal {
    fn exists(&self) -> bool {
        self.store().is_some()
    }

    fn open(&self) -> Result<Arc<dyn Store>, StoreError> {
        let store: Arc<MemoryStore> = Arc::clone(self.store().get_or_insert_default());
        Ok(store)
    }

    fn set_aside(&self) -> io::Result<PathBuf> {
        *self.store() = None;
        Ok(PathBuf::from(ROOT).join("store.aside-0"))
    }

    fn threads(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests;
