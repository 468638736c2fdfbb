//! Segments: preallocated files that take records one after the other.
//!
//! A segment is made whole (zeros written, header, synced, renamed, directory synced) before it
//! gets its first record, so that an fdatasync after a record has no metadata to write. What a
//! segment continues is said by its first record, so a roll to the next one costs nothing.

use std::{
    io,
    path::{Path, PathBuf},
};

use crate::{
    event::Attachment,
    files::{self, File, Files},
    record::{self, ChainKey, Flaw, Hash, Head, MAGIC, Record},
};

/// Bytes before the first record. Frozen.
pub(crate) const HEADER: u64 = 512;
const SEGMENT_MAGIC: [u8; 8] = *b"AGARSEG\x01";
const CHECKED: usize = 480;
/// A segment can hold at least this, in bytes.
pub(crate) const SMALLEST: u64 = 4096;
/// No segment is larger than one record of the largest size needs, or than this, in bytes.
pub(crate) const LARGEST: u64 = 1 << 30;

/// The smallest segment that is made because the disk is small, in bytes.
const SMALL: u64 = 128 * 1024;

/// How large a segment for a record of `length` should be, where `room` bytes are left: on a small disk segments
/// are small, so that a few of them fit.
pub(crate) fn size_for(wanted: u64, length: u64, room: u64) -> u64 {
    let needed = HEADER.saturating_add(length).next_multiple_of(SMALLEST);
    let quarter = (room / 4 / SMALLEST * SMALLEST).max(SMALL);
    wanted.min(quarter).max(needed)
}

/// What the header of a segment says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentHeader {
    pub(crate) number: u64,
    pub(crate) size: u64,
    pub(crate) journal: [u8; 16],
}

impl SegmentHeader {
    fn write(&self) -> [u8; HEADER as usize] {
        let mut bytes = [0; HEADER as usize];
        bytes[..8].copy_from_slice(&SEGMENT_MAGIC);
        bytes[8..10].copy_from_slice(&record::FORMAT.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.number.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.size.to_le_bytes());
        bytes[32..48].copy_from_slice(&self.journal);
        let check: Hash = *blake3::hash(&bytes[..CHECKED]).as_bytes();
        bytes[CHECKED..].copy_from_slice(&check);
        bytes
    }

    fn read(bytes: &[u8]) -> Result<Self, Flaw> {
        Self::fields(bytes).ok_or(Flaw::Header)?
    }

    fn fields(bytes: &[u8]) -> Option<Result<Self, Flaw>> {
        let bytes: &[u8; HEADER as usize] = bytes.get(..HEADER as usize)?.try_into().ok()?;
        if bytes[..8] != SEGMENT_MAGIC || bytes[CHECKED..] != *blake3::hash(&bytes[..CHECKED]).as_bytes() {
            return None;
        }
        let format = u16::from_le_bytes(bytes[8..10].try_into().ok()?);
        if format != record::FORMAT {
            return Some(Err(Flaw::Newer(format)));
        }
        Some(Ok(Self {
            number: u64::from_le_bytes(bytes[16..24].try_into().ok()?),
            size: u64::from_le_bytes(bytes[24..32].try_into().ok()?),
            journal: bytes[32..48].try_into().ok()?,
        }))
    }
}

/// The file name of a segment.
pub(crate) fn name(number: u64) -> String {
    format!("{number:016}.seg")
}

fn number(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(".seg")?;
    if digits.len() == 16 { digits.parse().ok() } else { None }
}

/// A segment that records can be written to.
pub(crate) struct Segment {
    pub(crate) header: SegmentHeader,
    pub(crate) path: PathBuf,
    pub(crate) file: Box<dyn File>,
}

impl Segment {
    /// Makes a segment, durable under its name, with nothing in it.
    pub(crate) fn create(files: &dyn Files, directory: &Path, header: SegmentHeader) -> io::Result<Self> {
        let name = name(header.number);
        files::write_whole(files, directory, &name, |file| {
            files::write_all(file, &header.write(), 0)?;
            // Zeros are written, not only reserved: on ext4 a reserved extent costs a journal commit at the sync
            // of each record that first touches it.
            files::write_zeros(file, HEADER, header.size)
        })?;
        let path = directory.join(&name);
        let file = files.open(&path, true)?;
        Ok(Self { header, path, file })
    }
}

/// A segment as it was found.
pub(crate) struct Found {
    pub(crate) number: u64,
    pub(crate) path: PathBuf,
    /// The header, or what is wrong with it.
    pub(crate) header: Result<SegmentHeader, Flaw>,
    /// The bytes that are there; fewer than the header says when the file was cut.
    pub(crate) length: u64,
    pub(crate) file: Box<dyn File>,
}

/// The segments of a directory by number, opened for reading (and writing, if `write`).
pub(crate) fn find(files: &dyn Files, directory: &Path, write: bool) -> io::Result<Vec<Found>> {
    let mut found = Vec::new();
    for file_name in files.list(directory)? {
        let Some(number) = file_name.to_str().and_then(number) else { continue };
        let path = directory.join(&file_name);
        let file = files.open(&path, write)?;
        let length = file.length()?;
        let mut bytes = [0; HEADER as usize];
        let have = files::read_full(&*file, &mut bytes, 0)?;
        let header = SegmentHeader::read(&bytes[..have]).and_then(|header| {
            if header.number == number && header.size <= LARGEST { Ok(header) } else { Err(Flaw::Header) }
        });
        found.push(Found { number, path, header, length, file });
    }
    found.sort_by_key(|segment| segment.number);
    Ok(found)
}

impl Found {
    /// Everything after the header, as many bytes as there are; what was cut off reads as zeros.
    pub(crate) fn read(&self) -> io::Result<Vec<u8>> {
        let end = self.header.map_or(self.length.min(LARGEST), |header| header.size);
        let mut bytes = vec![0; usize::try_from(end.saturating_sub(HEADER)).map_err(io::Error::other)?];
        files::read_full(&*self.file, &mut bytes, HEADER)?;
        Ok(bytes)
    }

    /// Bytes that the file should have and has not.
    pub(crate) fn missing(&self) -> u64 {
        self.header.map_or(0, |header| header.size.saturating_sub(self.length))
    }
}

/// How the records of one segment end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// Zeros follow.
    Clean,
    /// The segment is full to its last byte.
    Full,
    /// Something that is not the next record.
    Bad(Flaw),
}

/// Walks the records of one segment that continue `head`; calls `each` with offset and record, and
/// returns where and how it ended. Without a head the first record is believed about what it continues.
/// `read` is [`Record::read_whole`] or [`Record::read_checked`].
pub(crate) fn walk<E>(
    read: impl Fn(&[u8]) -> Result<(Record, Vec<Attachment>), Flaw>,
    bytes: &[u8],
    head: &mut Option<Head>,
    mut each: impl FnMut(u64, &Record, Vec<Attachment>) -> Result<(), E>,
) -> Result<(usize, End), E> {
    let mut at = 0;
    loop {
        let rest = bytes.get(at..).unwrap_or_default();
        if rest.len() < record::HEAD {
            let end = if rest.iter().all(|byte| *byte == 0) { End::Full } else { End::Bad(Flaw::Header) };
            return Ok((at, end));
        }
        match read(rest) {
            Ok((record, attachments)) => {
                if head.is_some_and(|head| head != record.header().before()) {
                    return Ok((at, End::Bad(Flaw::Chain)));
                }
                each(HEADER + at as u64, &record, attachments)?;
                *head = Some(record.header().head());
                at += record.header().length();
            }
            Err(Flaw::Blank) => return Ok((at, End::Clean)),
            Err(flaw) => return Ok((at, End::Bad(flaw))),
        }
    }
}

/// Finds a sound record in `bytes` at or after `from` with a number of at least `least`: the proof that
/// what lies before it was acknowledged. Returns its place and the record.
pub(crate) fn find_sound(
    key: ChainKey,
    bytes: &[u8],
    from: usize,
    least: u64,
) -> Option<(usize, Record, Vec<Attachment>)> {
    let mut at = from;
    while let Some(rest) = bytes.get(at..) {
        let step = rest.windows(MAGIC.len()).position(|window| window == MAGIC)?;
        let candidate = rest.get(step..).unwrap_or_default();
        if let Ok(header) = record::read_header(candidate)
            && header.record >= least
            && let Ok((record, attachments)) = Record::read_whole(key, candidate)
        {
            return Some((at + step, record, attachments));
        }
        at += step + 1;
    }
    None
}

/// Whether nothing but zeros follows.
pub(crate) fn is_blank(bytes: &[u8]) -> bool {
    const PIECE: [u8; 4096] = [0; 4096];
    bytes.chunks(PIECE.len()).all(|chunk| chunk == &PIECE[..chunk.len()])
}
