//! Blob files: content too large to travel in a commit, by its hash.
//!
//! A file is whole and synced before the event that names it is appended, and is never changed.

use std::{
    io::{self, Read},
    path::PathBuf,
    sync::Arc,
};

use agarose_core::BlobRef;

use crate::{
    error::{BlobError, ReadError},
    files::{self, File, Files},
};

const PIECE: usize = 256 * 1024;

/// The blob files of a journal.
#[derive(Clone)]
pub struct Blobs {
    files: Arc<dyn Files>,
    directory: PathBuf,
}

impl Blobs {
    pub(crate) fn new(files: Arc<dyn Files>, directory: PathBuf) -> Self {
        Self { files, directory }
    }

    fn place(&self, blob: &BlobRef) -> (PathBuf, String) {
        let text = blob.to_string();
        let (shelf, name) = text.split_at(2);
        (self.directory.join(shelf), name.to_owned())
    }

    fn shelf(&self, blob: &BlobRef) -> io::Result<(PathBuf, String)> {
        let (shelf, name) = self.place(blob);
        self.files.create_directory(&shelf)?;
        self.files.sync_directory(&self.directory)?;
        Ok((shelf, name))
    }

    fn has(&self, blob: &BlobRef) -> bool {
        let (shelf, name) = self.place(blob);
        self.files
            .open(&shelf.join(name), false)
            .and_then(|file| file.length())
            .is_ok_and(|n| n == blob.length)
    }

    /// Stores content; on return it is durable, and an event may name it.
    ///
    /// # Errors
    /// The disk says no; nothing is left behind but at most a temporary file, which the next start removes.
    pub fn store(&self, bytes: &[u8]) -> Result<BlobRef, BlobError> {
        self.store_from(&mut &*bytes)
    }

    /// Stores content from a reader, in pieces, so that memory does not grow with it.
    ///
    /// # Errors
    /// As [`Blobs::store`], or the reader fails.
    pub fn store_from(&self, from: &mut dyn Read) -> Result<BlobRef, BlobError> {
        let directory = &self.directory;
        self.receive(from).map_err(|source| BlobError { path: directory.clone(), source })
    }

    fn receive(&self, from: &mut dyn Read) -> io::Result<BlobRef> {
        // Two threads may store at once, and two processes never do (see `lock`).
        static COUNT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
        let count = COUNT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let temporary = self.directory.join(format!("{}-{count}{}", std::process::id(), files::TEMPORARY));
        let file = self.files.create(&temporary)?;
        let stored = self.fill(&*file, from).and_then(|blob| {
            let (shelf, name) = self.shelf(&blob)?;
            if self.has(&blob) {
                // Whoever stored it may have been killed before its name was durable.
                self.files.sync_directory(&shelf)?;
                return self.files.remove(&temporary).map(|()| blob);
            }
            file.sync_all()?;
            self.files.rename(&temporary, &shelf.join(name))?;
            self.files.sync_directory(&shelf)?;
            Ok(blob)
        });
        if stored.is_err() {
            // The error being returned says more than one about the left-over.
            drop(self.files.remove(&temporary));
        }
        stored
    }

    fn fill(&self, file: &dyn File, from: &mut dyn Read) -> io::Result<BlobRef> {
        let mut hasher = blake3::Hasher::new();
        let mut piece = vec![0; PIECE];
        let mut length = 0u64;
        loop {
            let count = match from.read(&mut piece) {
                Ok(0) => break,
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            let bytes = piece.get(..count).unwrap_or_default();
            hasher.update(bytes);
            files::write_all(file, bytes, length)?;
            length += count as u64;
        }
        Ok(BlobRef { hash: *hasher.finalize().as_bytes(), length })
    }

    /// Opens a blob file for reading in pieces; `None` if there is none.
    ///
    /// # Errors
    /// The disk says no.
    pub fn open(&self, blob: &BlobRef) -> Result<Option<BlobReader>, ReadError> {
        let (shelf, name) = self.place(blob);
        let path = shelf.join(name);
        match self.files.open(&path, false) {
            Ok(file) => Ok(Some(BlobReader { file, blob: *blob, offset: 0, hasher: blake3::Hasher::new() })),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(ReadError::Io { path, source }),
        }
    }

    /// The names of all blob files, with the lengths that they have.
    pub(crate) fn list(&self) -> io::Result<Vec<BlobRef>> {
        let mut found = Vec::new();
        let shelves = match self.files.list(&self.directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(found),
            other => other?,
        };
        for shelf in shelves.iter().filter_map(|name| name.to_str()).filter(|name| name.len() == 2) {
            let directory = self.directory.join(shelf);
            for name in self.files.list(&directory)? {
                let Some(hash) = name.to_str().and_then(|name| parse_hash(&format!("{shelf}{name}"))) else {
                    continue;
                };
                let length = self.files.open(&directory.join(&name), false)?.length()?;
                found.push(BlobRef { hash, length });
            }
        }
        Ok(found)
    }
}

pub(crate) fn parse_hash(text: &str) -> Option<[u8; 32]> {
    if text.len() != 64 || !text.is_ascii() {
        return None;
    }
    let mut hash = [0; 32];
    for (byte, digits) in hash.iter_mut().zip(text.as_bytes().chunks(2)) {
        *byte = u8::from_str_radix(core::str::from_utf8(digits).ok()?, 16).ok()?;
    }
    Some(hash)
}

/// Reads a blob file in pieces. The end of the file is an error when what was read is not what the
/// blob's name says, so that a whole read is a checked read.
pub struct BlobReader {
    file: Box<dyn File>,
    blob: BlobRef,
    offset: u64,
    hasher: blake3::Hasher,
}

impl Read for BlobReader {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if into.is_empty() {
            return Ok(0);
        }
        let count = self.file.read_at(into, self.offset)?;
        if count == 0 {
            let sound =
                self.offset == self.blob.length && *self.hasher.finalize().as_bytes() == self.blob.hash;
            return if sound {
                Ok(0)
            } else {
                Err(io::Error::new(io::ErrorKind::InvalidData, "the blob is damaged"))
            };
        }
        self.hasher.update(into.get(..count).unwrap_or_default());
        self.offset += count as u64;
        Ok(count)
    }
}
