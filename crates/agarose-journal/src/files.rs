//! The files that the journal needs, as small as they can be: so that a test can put a disk under it
//! that loses, tears and reorders what was not synced.

use std::{
    ffi::OsString,
    fs, io,
    os::unix::fs::{FileExt, OpenOptionsExt},
    path::Path,
    sync::Arc,
};

/// A directory tree.
pub trait Files: Send + Sync {
    /// Makes a new file for reading and writing, private to its owner.
    ///
    /// # Errors
    /// It exists, or the disk says no.
    fn create(&self, path: &Path) -> io::Result<Box<dyn File>>;

    /// Opens a file for reading and, if `write`, for writing.
    ///
    /// # Errors
    /// It does not exist, or the disk says no.
    fn open(&self, path: &Path, write: bool) -> io::Result<Box<dyn File>>;

    /// The names in a directory, sorted.
    ///
    /// # Errors
    /// It does not exist, or the disk says no.
    fn list(&self, directory: &Path) -> io::Result<Vec<OsString>>;

    /// Gives a file another name, over whatever had it.
    ///
    /// # Errors
    /// The disk says no.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file.
    ///
    /// # Errors
    /// The disk says no.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Makes a directory, with those above it; one that is there is left as it is.
    ///
    /// # Errors
    /// The disk says no.
    fn create_directory(&self, path: &Path) -> io::Result<()>;

    /// Makes the names in a directory durable.
    ///
    /// # Errors
    /// The disk says no.
    fn sync_directory(&self, path: &Path) -> io::Result<()>;

    /// How many bytes an ordinary user may still write.
    ///
    /// # Errors
    /// The disk says no.
    fn room(&self, path: &Path) -> io::Result<u64>;
}

/// An open file. Nobody shares a position: every read and write says where.
pub trait File: Send + Sync {
    /// Reads up to `into.len()` bytes.
    ///
    /// # Errors
    /// The disk says no.
    fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Writes up to `bytes.len()` bytes.
    ///
    /// # Errors
    /// The disk says no; some bytes may have been written.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize>;

    /// Makes the contents durable (fdatasync), and of the rest what is needed to read them.
    ///
    /// # Errors
    /// The disk says no; what was written is in doubt and must not be synced again on this descriptor.
    fn sync_data(&self) -> io::Result<()>;

    /// Makes contents and metadata durable (fsync).
    ///
    /// # Errors
    /// As [`File::sync_data`].
    fn sync_all(&self) -> io::Result<()>;

    /// The length in bytes.
    ///
    /// # Errors
    /// The disk says no.
    fn length(&self) -> io::Result<u64>;
}

/// Writes all of `bytes`, however many calls that takes.
pub(crate) fn write_all(file: &dyn File, mut bytes: &[u8], mut offset: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        match file.write_at(bytes, offset) {
            Ok(0) => return Err(io::Error::from(io::ErrorKind::WriteZero)),
            Ok(count) => {
                bytes = bytes.get(count..).unwrap_or_default();
                offset = offset.saturating_add(count as u64);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Writes zeros from `from` to `to`.
pub(crate) fn write_zeros(file: &dyn File, from: u64, to: u64) -> io::Result<()> {
    const PIECE: u64 = 256 * 1024;
    let zeros = vec![0; PIECE.min(to.saturating_sub(from)) as usize];
    let mut at = from;
    while at < to {
        let piece = (to - at).min(PIECE);
        write_all(file, zeros.get(..piece as usize).unwrap_or_default(), at)?;
        at += piece;
    }
    Ok(())
}

/// Reads until `into` is full or the file ends; returns how many bytes there were.
pub(crate) fn read_full(file: &dyn File, into: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut have = 0;
    while have < into.len() {
        match file.read_at(&mut into[have..], offset.saturating_add(have as u64)) {
            Ok(0) => break,
            Ok(count) => have += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(have)
}

/// Reads a whole file of at most `limit` bytes.
pub(crate) fn read_file(files: &dyn Files, path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let file = files.open(path, false)?;
    let length = file.length()?;
    if length > limit {
        return Err(io::Error::other(format!("{length} bytes, where at most {limit} are expected")));
    }
    let mut bytes = vec![0; usize::try_from(length).map_err(io::Error::other)?];
    let count = read_full(&*file, &mut bytes, 0)?;
    bytes.truncate(count);
    Ok(bytes)
}

/// The end of the name of a file that is not finished; removed at start.
pub(crate) const TEMPORARY: &str = ".tmp";

/// Writes a file that is there whole or not at all: under a temporary name, synced, renamed, the
/// directory synced. `write` gets the empty file.
pub(crate) fn write_whole<T>(
    files: &dyn Files,
    directory: &Path,
    name: &str,
    write: impl FnOnce(&dyn File) -> io::Result<T>,
) -> io::Result<T> {
    let temporary = directory.join(format!("{name}{TEMPORARY}"));
    match files.remove(&temporary) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let file = files.create(&temporary)?;
    let written = write(&*file).and_then(|value| file.sync_all().map(|()| value));
    drop(file);
    let renamed = written.and_then(|value| files.rename(&temporary, &directory.join(name)).map(|()| value));
    match renamed {
        Ok(value) => files.sync_directory(directory).map(|()| value),
        Err(error) => {
            // The error being returned says more than one about the left-over, which the next start removes.
            drop(files.remove(&temporary));
            Err(error)
        }
    }
}

/// The machine's own files.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealFiles;

impl RealFiles {
    /// The machine's own files, shared.
    #[must_use]
    pub fn shared() -> Arc<dyn Files> {
        Arc::new(Self)
    }
}

impl Files for RealFiles {
    fn create(&self, path: &Path) -> io::Result<Box<dyn File>> {
        let file = fs::OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path)?;
        Ok(Box::new(file))
    }

    fn open(&self, path: &Path, write: bool) -> io::Result<Box<dyn File>> {
        Ok(Box::new(fs::OpenOptions::new().read(true).write(write).open(path)?))
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<OsString>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(directory)? {
            names.push(entry?.file_name());
        }
        names.sort();
        Ok(names)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn create_directory(&self, path: &Path) -> io::Result<()> {
        use std::os::unix::fs::DirBuilderExt;
        fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
    }

    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        fs::File::open(path)?.sync_all()
    }

    fn room(&self, path: &Path) -> io::Result<u64> {
        let found = nix::sys::statvfs::statvfs(path).map_err(io::Error::from)?;
        Ok(found.blocks_available().saturating_mul(found.fragment_size()))
    }
}

impl File for fs::File {
    fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize> {
        FileExt::read_at(self, into, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        FileExt::write_at(self, bytes, offset)
    }

    fn sync_data(&self) -> io::Result<()> {
        fs::File::sync_data(self)
    }

    fn sync_all(&self) -> io::Result<()> {
        fs::File::sync_all(self)
    }

    fn length(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }
}
