//! A disk in memory that does what disks do: it forgets what was not synced, tears and reorders it, is
//! full, fails, and rots.
//!
//! A sector of 512 bytes is written whole or not at all; of everything that was written and not synced,
//! a loss of power keeps any sectors and loses any others; of names that were changed in a directory and
//! not synced, it keeps any changes and loses any others.

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsString,
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use crate::files::{File, Files};

const SECTOR: usize = 512;

/// A source of choices that gives the same ones for the same seed.
#[derive(Clone, Debug)]
pub struct Choices(u64);

impl Choices {
    /// The choices of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits (splitmix64).
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`; 0 for a bound of 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.number().checked_rem(bound).unwrap_or(0)
    }

    /// Yes with `chances` out of 256.
    pub fn yes(&mut self, chances: u64) -> bool {
        self.below(256) < chances
    }
}

#[derive(Clone, Debug, Default)]
struct Inode {
    now: Vec<u8>,
    durable: Vec<u8>,
    unsynced: Vec<(usize, Vec<u8>)>,
}

#[derive(Clone, Debug)]
enum NameChange {
    Set(PathBuf, usize),
    Rename(PathBuf, PathBuf, usize),
    Remove(PathBuf),
}

impl NameChange {
    fn is_in(&self, directory: &Path) -> bool {
        match self {
            Self::Set(path, _) | Self::Remove(path) | Self::Rename(_, path, _) => {
                path.parent() == Some(directory)
            }
        }
    }

    fn apply(&self, names: &mut BTreeMap<PathBuf, usize>) {
        match self {
            Self::Set(path, inode) => {
                names.insert(path.clone(), *inode);
            }
            Self::Rename(from, to, inode) => {
                names.remove(from);
                names.insert(to.clone(), *inode);
            }
            Self::Remove(path) => {
                names.remove(path);
            }
        }
    }
}

/// What goes wrong, by the number of the operation at which it does (see [`SimulatedFiles::operations`]).
#[derive(Clone, Debug, Default)]
pub struct Faults {
    /// Bytes that the disk has; no limit if `None`.
    pub capacity: Option<u64>,
    /// Writes at these operations fail with EIO, after a part of them was written.
    pub failing_writes: std::ops::Range<u64>,
    /// The write at this operation is cut short once; the next one goes on.
    pub short_write: Option<u64>,
    /// The first sync at or after this operation fails, and what it should have synced is lost while it still reads as written.
    pub failing_sync: Option<u64>,
}

#[derive(Clone, Debug, Default)]
struct Disk {
    inodes: Vec<Inode>,
    names: BTreeMap<PathBuf, usize>,
    durable_names: BTreeMap<PathBuf, usize>,
    unsynced_names: Vec<NameChange>,
    directories: BTreeSet<PathBuf>,
    operations: u64,
    faults: Faults,
}

type Watch = Arc<dyn Fn(&SimulatedFiles) + Send + Sync>;

/// A disk in memory. Clones are the same disk.
#[derive(Clone, Default)]
pub struct SimulatedFiles {
    disk: Arc<Mutex<Disk>>,
    watch: Arc<Mutex<Option<Watch>>>,
}

impl SimulatedFiles {
    fn disk(&self) -> MutexGuard<'_, Disk> {
        self.disk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls `watch` after every operation that changes something, with a copy of the disk.
    pub fn watch(&self, watch: impl Fn(&Self) + Send + Sync + 'static) {
        *self.watch.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(watch));
    }

    fn changed(&self) {
        let watch = self.watch.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(watch) = watch {
            let copy = Self { disk: Arc::new(Mutex::new(self.disk().clone())), watch: Arc::default() };
            watch(&copy);
        }
    }

    /// How many operations there have been.
    #[must_use]
    pub fn operations(&self) -> u64 {
        self.disk().operations
    }

    /// Sets what goes wrong.
    pub fn set_faults(&self, faults: Faults) {
        self.disk().faults = faults;
    }

    /// The disk as it may be after a loss of power.
    #[must_use]
    pub fn after_power_loss(&self, choices: &mut Choices) -> Self {
        let disk = self.disk();
        // Some losses take nearly everything, some nearly nothing, and most take some.
        let kept = [0, 256, 128, 32, 224][choices.below(5) as usize];
        let mut names = disk.durable_names.clone();
        for change in &disk.unsynced_names {
            if choices.yes(kept) {
                change.apply(&mut names);
            }
        }
        let inodes = disk.inodes.iter().map(|inode| inode.after_power_loss(kept, choices)).collect();
        let after = Disk {
            inodes,
            durable_names: names.clone(),
            names,
            directories: disk.directories.clone(),
            ..Disk::default()
        };
        Self { disk: Arc::new(Mutex::new(after)), watch: Arc::default() }
    }

    /// The disk as the next process finds it when this one was killed: all of it, but for the end of a write
    /// that was under way.
    #[must_use]
    pub fn after_kill(&self) -> Self {
        let mut after = self.disk().clone();
        after.operations = 0;
        after.faults = Faults::default();
        Self { disk: Arc::new(Mutex::new(after)), watch: Arc::default() }
    }

    /// Flips one bit of a file.
    pub fn rot(&self, path: &Path, byte: u64, bit: u8) {
        let mut disk = self.disk();
        if let Some(inode) = disk.names.get(path).copied()
            && let Some(inode) = disk.inodes.get_mut(inode)
        {
            for bytes in [&mut inode.now, &mut inode.durable] {
                if let Some(byte) = bytes.get_mut(byte as usize) {
                    *byte ^= 1 << (bit % 8);
                }
            }
        }
    }

    /// Cuts a file to a length.
    pub fn cut(&self, path: &Path, length: u64) {
        let mut disk = self.disk();
        if let Some(inode) = disk.names.get(path).copied()
            && let Some(inode) = disk.inodes.get_mut(inode)
        {
            inode.now.truncate(length as usize);
            inode.durable.truncate(length as usize);
        }
    }

    /// Overwrites a file with zeros from a byte on.
    pub fn blank(&self, path: &Path, from: u64) {
        let mut disk = self.disk();
        if let Some(inode) = disk.names.get(path).copied()
            && let Some(inode) = disk.inodes.get_mut(inode)
        {
            for bytes in [&mut inode.now, &mut inode.durable] {
                bytes.iter_mut().skip(from as usize).for_each(|byte| *byte = 0);
            }
        }
    }

    /// How many bytes of a file there are before the zeros at its end.
    #[must_use]
    pub fn used(&self, path: &Path) -> u64 {
        let disk = self.disk();
        let inode = disk.names.get(path).and_then(|inode| disk.inodes.get(*inode));
        let last = inode.and_then(|inode| inode.now.iter().rposition(|byte| *byte != 0));
        last.map_or(0, |last| last as u64 + 1)
    }

    /// The files there are, with their lengths.
    #[must_use]
    pub fn files(&self) -> Vec<(PathBuf, u64)> {
        let disk = self.disk();
        let length = |inode: &usize| disk.inodes.get(*inode).map_or(0, |inode| inode.now.len() as u64);
        disk.names.iter().map(|(path, inode)| (path.clone(), length(inode))).collect()
    }
}

impl Inode {
    fn after_power_loss(&self, kept: u64, choices: &mut Choices) -> Self {
        let mut bytes = self.durable.clone();
        for (offset, written) in &self.unsynced {
            let mut at = *offset;
            let end = offset + written.len();
            while at < end {
                let next = ((at / SECTOR + 1) * SECTOR).min(end);
                if choices.yes(kept) {
                    if bytes.len() < next {
                        bytes.resize(next, 0);
                    }
                    bytes[at..next].copy_from_slice(&written[at - offset..next - offset]);
                }
                at = next;
            }
        }
        Self { now: bytes.clone(), durable: bytes, unsynced: Vec::new() }
    }

    fn sync(&mut self) {
        self.durable.clone_from(&self.now);
        self.unsynced.clear();
    }
}

impl Disk {
    fn used(&self) -> u64 {
        self.names
            .values()
            .filter_map(|inode| self.inodes.get(*inode))
            .map(|inode| inode.now.len() as u64)
            .sum()
    }

    fn find(&self, path: &Path) -> io::Result<usize> {
        self.names.get(path).copied().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn sync_failed(&mut self) -> bool {
        self.operations += 1;
        let operations = self.operations;
        self.faults.failing_sync.take_if(|from| *from <= operations).is_some()
    }
}

fn gone() -> io::Error {
    io::Error::from(io::ErrorKind::NotFound)
}

fn failed() -> io::Error {
    // EIO, the same on every Linux machine.
    io::Error::from_raw_os_error(5)
}

struct SimulatedFile {
    files: SimulatedFiles,
    inode: usize,
}

impl SimulatedFile {
    fn sync(&self) -> io::Result<()> {
        {
            let mut disk = self.files.disk();
            let fails = disk.sync_failed();
            let inode = disk.inodes.get_mut(self.inode).ok_or_else(gone)?;
            if fails {
                // What Linux does: the pages look clean from now on and were never written.
                inode.unsynced.clear();
                return Err(failed());
            }
            inode.sync();
        }
        self.files.changed();
        Ok(())
    }
}

impl File for SimulatedFile {
    fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize> {
        let disk = self.files.disk();
        let inode = disk.inodes.get(self.inode).ok_or_else(gone)?;
        let rest = inode.now.get(offset as usize..).unwrap_or_default();
        let count = rest.len().min(into.len());
        into[..count].copy_from_slice(&rest[..count]);
        Ok(count)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        let result = {
            let mut disk = self.files.disk();
            disk.operations += 1;
            let used = disk.used();
            let number = disk.operations;
            let fails = disk.faults.failing_writes.contains(&number);
            let short = disk.faults.short_write == Some(number);
            let capacity = disk.faults.capacity;
            let inode = disk.inodes.get_mut(self.inode).ok_or_else(gone)?;
            let mut count = if fails || short { bytes.len() / 2 } else { bytes.len() };
            let grows = (offset as usize + count).saturating_sub(inode.now.len()) as u64;
            let mut full = false;
            if let Some(capacity) = capacity
                && used + grows > capacity
            {
                full = true;
                count = count.saturating_sub((used + grows - capacity) as usize);
            }
            let end = offset as usize + count;
            if inode.now.len() < end {
                inode.now.resize(end, 0);
            }
            inode.now[offset as usize..end].copy_from_slice(&bytes[..count]);
            inode.unsynced.push((offset as usize, bytes[..count].to_vec()));
            match (fails, full && count == 0) {
                (true, _) => Err(failed()),
                (false, true) => Err(io::Error::from(io::ErrorKind::StorageFull)),
                (false, false) => Ok(count),
            }
        };
        self.files.changed();
        result
    }

    fn sync_data(&self) -> io::Result<()> {
        self.sync()
    }

    fn sync_all(&self) -> io::Result<()> {
        self.sync()
    }

    fn length(&self) -> io::Result<u64> {
        let disk = self.files.disk();
        Ok(disk.inodes.get(self.inode).ok_or_else(gone)?.now.len() as u64)
    }
}

impl Files for SimulatedFiles {
    fn create(&self, path: &Path) -> io::Result<Box<dyn File>> {
        let inode = {
            let mut disk = self.disk();
            disk.operations += 1;
            if disk.names.contains_key(path) {
                return Err(io::ErrorKind::AlreadyExists.into());
            }
            if !path.parent().is_some_and(|parent| disk.directories.contains(parent)) {
                return Err(gone());
            }
            let inode = disk.inodes.len();
            disk.inodes.push(Inode::default());
            disk.names.insert(path.to_owned(), inode);
            disk.unsynced_names.push(NameChange::Set(path.to_owned(), inode));
            inode
        };
        self.changed();
        Ok(Box::new(SimulatedFile { files: self.clone(), inode }))
    }

    fn open(&self, path: &Path, _write: bool) -> io::Result<Box<dyn File>> {
        let inode = self.disk().find(path)?;
        Ok(Box::new(SimulatedFile { files: self.clone(), inode }))
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<OsString>> {
        let disk = self.disk();
        if !disk.directories.contains(directory) {
            return Err(gone());
        }
        let files = disk.names.keys().filter(|path| path.parent() == Some(directory));
        let directories = disk.directories.iter().filter(|path| path.parent() == Some(directory));
        let mut names: Vec<OsString> =
            files.chain(directories).filter_map(|path| path.file_name()).map(OsString::from).collect();
        names.sort();
        Ok(names)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        {
            let mut disk = self.disk();
            disk.operations += 1;
            let inode = disk.find(from)?;
            disk.names.remove(from);
            disk.names.insert(to.to_owned(), inode);
            disk.unsynced_names.push(NameChange::Rename(from.to_owned(), to.to_owned(), inode));
        }
        self.changed();
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        {
            let mut disk = self.disk();
            disk.operations += 1;
            disk.find(path)?;
            disk.names.remove(path);
            disk.unsynced_names.push(NameChange::Remove(path.to_owned()));
        }
        self.changed();
        Ok(())
    }

    fn create_directory(&self, path: &Path) -> io::Result<()> {
        let mut disk = self.disk();
        for ancestor in path.ancestors() {
            disk.directories.insert(ancestor.to_owned());
        }
        Ok(())
    }

    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        {
            let mut disk = self.disk();
            if disk.sync_failed() {
                return Err(failed());
            }
            let changes = std::mem::take(&mut disk.unsynced_names);
            let (here, elsewhere): (Vec<_>, Vec<_>) =
                changes.into_iter().partition(|change| change.is_in(path));
            for change in here {
                change.apply(&mut disk.durable_names);
            }
            disk.unsynced_names = elsewhere;
        }
        self.changed();
        Ok(())
    }

    fn room(&self, _path: &Path) -> io::Result<u64> {
        let disk = self.disk();
        Ok(disk.faults.capacity.map_or(u64::MAX / 8, |capacity| capacity.saturating_sub(disk.used())))
    }
}
