//! The sources of the workers, which travel in the program.

use std::{
    fs::{self, DirBuilder},
    io,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
};

include!(concat!(env!("OUT_DIR"), "/workers.rs"));

/// Writes the workers' sources below `root`, in a directory named after what is in them, unless
/// they are there; gives that directory.
///
/// It is one place for all kernels, and not one for each, so that an interpreter can keep there
/// what it has compiled.
///
/// # Errors
/// When they cannot be written.
pub fn install_workers(root: &Path) -> io::Result<PathBuf> {
    static TRIES: AtomicU64 = AtomicU64::new(0);
    let dir = root.join(format!("{DIGEST:016x}"));
    if dir.is_dir() {
        return Ok(dir);
    }
    // Whole or not at all: another kernel may be starting from it.
    let number = TRIES.fetch_add(1, Ordering::Relaxed);
    let beside = root.join(format!("{DIGEST:016x}.new-{}-{number}", std::process::id()));
    let mut builder = DirBuilder::new();
    builder.recursive(true).mode(0o700);
    for (name, content) in FILES {
        let path = beside.join(name);
        if let Some(parent) = path.parent() {
            builder.create(parent)?;
        }
        fs::write(path, content)?;
    }
    match fs::rename(&beside, &dir) {
        // Somebody else was faster.
        Err(_) if dir.is_dir() => {
            fs::remove_dir_all(&beside)?;
            Ok(dir)
        }
        other => other.map(|()| dir),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_workers_are_written_once_and_are_what_the_program_holds() {
        let root = tempfile::tempdir().unwrap();
        let dir = install_workers(root.path()).unwrap();
        assert_eq!(install_workers(root.path()).unwrap(), dir);
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), 1);
        assert!(!FILES.is_empty());
        for (name, content) in FILES {
            assert_eq!(fs::read_to_string(dir.join(name)).unwrap(), *content);
        }
    }
}
