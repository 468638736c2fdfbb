//! A piece of a file as memory.

use std::{
    fs::File,
    io,
    num::NonZeroUsize,
    ops::{Deref, DerefMut},
    ptr::NonNull,
};

use nix::{
    errno::Errno,
    fcntl::posix_fallocate,
    sys::mman::{MapFlags, ProtFlags, mmap, munmap},
};

/// The first bytes of a file as memory that is shared with the file: what is written is there for
/// whoever reads the file later, also when this process is killed in between.
///
/// Nobody else may write to the file or shorten it while it is mapped.
#[derive(Debug)]
pub struct SharedMapping {
    start: NonNull<u8>,
    length: usize,
}

// SAFETY: the mapping is owned by this value alone and is plain memory.
unsafe impl Send for SharedMapping {}

impl SharedMapping {
    /// Maps the first `length` bytes of `file`, after making sure that the disk has room for
    /// them: a write into a mapping cannot report that it has not, it can only kill us.
    ///
    /// # Errors
    /// When there is no room or the file system does not map files.
    pub fn of_file(file: &File, length: NonZeroUsize) -> io::Result<Self> {
        let size = i64::try_from(length.get()).map_err(|_| Errno::EFBIG)?;
        posix_fallocate(file, 0, size)?;
        let (protection, flags) = (ProtFlags::PROT_READ | ProtFlags::PROT_WRITE, MapFlags::MAP_SHARED);
        // SAFETY: a new mapping at an address of the system's choice, of a file that is at least
        // `length` long; it is unmapped only when this value is dropped.
        let start = unsafe { mmap(None, length, protection, flags, file, 0) }?;
        Ok(Self { start: start.cast(), length: length.get() })
    }
}

impl Deref for SharedMapping {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the mapping is `length` bytes long, lives as long as `self`, and nobody else
        // writes to it (see the type).
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.length) }
    }
}

impl DerefMut for SharedMapping {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`; `&mut self` makes this the only reference.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.length) }
    }
}

impl Drop for SharedMapping {
    fn drop(&mut self) {
        // SAFETY: this is the mapping that we made, and no reference into it is left.
        // An error would mean that it was not mapped, and there is nothing to be done about it.
        let _ = unsafe { munmap(self.start.cast(), self.length) };
    }
}
