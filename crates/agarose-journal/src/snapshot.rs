//! Snapshots: the folded state at the end of a commit, as a file that is whole or not there.
//!
//! A snapshot is a cache. One that does not verify is passed over for an older one.

use std::{
    io,
    path::{Path, PathBuf},
};

use crate::{
    files::{self, Files},
    record::{FORMAT, Hash, Head},
};

const MAGIC: [u8; 8] = *b"AGARSNP\x01";
/// Bytes before the state. Frozen.
const HEADER: usize = 80;
/// Bytes of the hash after the state. Frozen.
const HASH: usize = 32;
/// The largest snapshot that is read, in bytes.
const LIMIT: u64 = 4 << 30;
/// How many snapshots are kept: the newest, and those to fall back on.
const KEPT: usize = 3;

/// A folded state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// The last event that is in the state.
    pub sequence: u64,
    /// How many records are in the state.
    pub records: u64,
    /// The hash of the record that ends with that event.
    pub head: Hash,
    /// The state, as it was given.
    pub state: Vec<u8>,
    /// BLAKE3 of the state.
    pub hash: Hash,
}

fn name(sequence: u64) -> String {
    format!("{sequence:020}.snap")
}

fn sequence(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(".snap")?;
    if digits.len() == 20 { digits.parse().ok() } else { None }
}

/// The snapshots in a directory, oldest first.
pub(crate) fn list(files: &dyn Files, directory: &Path) -> io::Result<Vec<(u64, PathBuf)>> {
    let mut found: Vec<(u64, PathBuf)> = match files.list(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        names => names?
            .into_iter()
            .filter_map(|file| Some((sequence(file.to_str()?)?, directory.join(&file))))
            .collect(),
    };
    found.sort();
    Ok(found)
}

/// Writes a snapshot, durable on return, and removes those beyond the few that are kept.
pub(crate) fn write(
    files: &dyn Files,
    directory: &Path,
    journal: &[u8; 16],
    head: &Head,
    state: &[u8],
) -> io::Result<()> {
    let mut header = [0; HEADER];
    header[..8].copy_from_slice(&MAGIC);
    header[8..10].copy_from_slice(&FORMAT.to_le_bytes());
    header[16..24].copy_from_slice(&head.sequence.to_le_bytes());
    header[24..32].copy_from_slice(&head.records.to_le_bytes());
    header[32..64].copy_from_slice(&head.hash);
    header[64..80].copy_from_slice(journal);
    let mut hasher = blake3::Hasher::new();
    hasher.update(&header);
    hasher.update(state);
    let hash = hasher.finalize();
    files::write_whole(files, directory, &name(head.sequence), |file| {
        files::write_all(file, &header, 0)?;
        files::write_all(file, state, HEADER as u64)?;
        files::write_all(file, hash.as_bytes(), HEADER as u64 + state.len() as u64)
    })?;
    let found = list(files, directory)?;
    for (_, path) in found.iter().take(found.len().saturating_sub(KEPT)) {
        files.remove(path)?;
    }
    Ok(())
}

/// Reads a snapshot of this journal; the text says why it is not good.
pub(crate) fn read(files: &dyn Files, path: &Path, journal: &[u8; 16]) -> Result<Snapshot, String> {
    let mut bytes = files::read_file(files, path, LIMIT).map_err(|error| error.to_string())?;
    parse(&mut bytes, journal).ok_or_else(|| "the contents do not match their hash".to_owned())?
}

fn parse(bytes: &mut Vec<u8>, journal: &[u8; 16]) -> Option<Result<Snapshot, String>> {
    let end = bytes.len().checked_sub(HASH)?;
    let (content, hash) = bytes.split_at(end);
    if end < HEADER || hash != blake3::hash(content).as_bytes() || content[..8] != MAGIC {
        return None;
    }
    let format = u16::from_le_bytes(content[8..10].try_into().ok()?);
    if format != FORMAT {
        return Some(Err(format!("format {format}, written by a newer version")));
    }
    if content[64..80] != *journal {
        return Some(Err("it belongs to another journal".to_owned()));
    }
    let sequence = u64::from_le_bytes(content[16..24].try_into().ok()?);
    let records = u64::from_le_bytes(content[24..32].try_into().ok()?);
    let head = content[32..64].try_into().ok()?;
    bytes.truncate(end);
    bytes.drain(..HEADER);
    let hash = *blake3::hash(bytes).as_bytes();
    Some(Ok(Snapshot { sequence, records, head, state: std::mem::take(bytes), hash }))
}
