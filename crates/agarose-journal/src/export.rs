//! Export and import: JSON Lines with every field, under stable names.
//!
//! The first line says which journal it is and where the export begins; then come a line per commit, lines
//! with pieces of blob files, and a last line that says where the export ends, so that one that was cut
//! short is known as such. Importing it makes the same records: the same sequence numbers, the same hashes.

use std::{
    io::{self, BufRead, Read, Write},
    path::{Path, PathBuf},
};

use agarose_core::{BlobRef, SessionId, Stamp, TicketId};
use serde::{Deserialize, Serialize};

use crate::{
    blobs::parse_hash,
    codec,
    error::{AppendError, BlobError, OpenError, ReadError},
    event::{Attachment, Entry, RawEvent},
    journal::{Journal, Options},
    open,
    reader::{Commit, Reader},
    record::Head,
};

/// The version of the lines. Frozen: 1.
const VERSION: u32 = 1;
/// Bytes of a blob file in one line.
const PIECE: usize = 256 * 1024;
/// The longest line that is read, in bytes: a record of the largest size in hexadecimal, and its names.
const LINE_LIMIT: u64 = 3 * crate::record::RECORD_LIMIT as u64;

#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "line", rename_all = "snake_case")]
enum Line {
    Begin {
        agarose_export: u32,
        journal: String,
        /// Where the log stands before the first commit of the export.
        sequence: u64,
        records: u64,
        hash: String,
    },
    Commit(CommitLine),
    Blob {
        hash: String,
        length: u64,
        offset: u64,
        content: String,
    },
    End {
        sequence: u64,
        records: u64,
        hash: String,
    },
}

#[derive(Debug, Serialize, Deserialize)]
struct CommitLine {
    record: u64,
    first: u64,
    stored: u64,
    previous: String,
    hash: String,
    events: Vec<EventLine>,
    attachments: Vec<AttachmentLine>,
}

#[derive(Debug, Serialize, Deserialize)]
struct EventLine {
    sequence: u64,
    kind: u16,
    version: u16,
    /// For people; not read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    wall: u64,
    mono: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    session: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ticket: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    payload: String,
    /// The payload as the codec reads it. For people; not read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    event: Option<serde_json::Value>,
}

#[derive(Debug, Serialize, Deserialize)]
struct AttachmentLine {
    hash: String,
    length: u64,
    content: String,
}

/// Why an export was not written.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The log cannot be read.
    #[error("cannot read the log")]
    Read(#[from] ReadError),
    /// Content that the log names is not there.
    #[error("blob {0} is missing")]
    Blob(BlobRef),
    /// A blob file cannot be read.
    #[error("cannot read blob {blob}")]
    BlobFile {
        /// The blob.
        blob: BlobRef,
        /// Why.
        source: io::Error,
    },
    /// The lines cannot be written.
    #[error("cannot write the export")]
    Write(#[from] io::Error),
}

/// Why an export was not imported.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// The lines cannot be read.
    #[error("cannot read line {line}")]
    Read {
        /// Which, counted from 1.
        line: u64,
        /// Why.
        source: io::Error,
    },
    /// A line is not one of an export.
    #[error("line {line} is not one of an export: {what}")]
    Line {
        /// Which, counted from 1.
        line: u64,
        /// What is wrong with it.
        what: String,
    },
    /// Written by a newer version.
    #[error("export version {version}, written by a newer version (this one reads up to {VERSION})")]
    Newer {
        /// Its version.
        version: u32,
    },
    /// The contents of a commit do not have the hash that it says.
    #[error("line {line}: record {record} does not have its hash")]
    Hash {
        /// Which, counted from 1.
        line: u64,
        /// The record.
        record: u64,
    },
    /// The last line is missing, or says something else than what came before it.
    #[error("the export ends after event {sequence} without its last line: it was cut short")]
    Cut {
        /// The last event that there was.
        sequence: u64,
    },
    /// The place is not a new one.
    #[error("{path} is not empty", path = path.display())]
    NotEmpty {
        /// The place.
        path: PathBuf,
    },
    /// The journal cannot be made.
    #[error("cannot make the journal")]
    Open(#[from] OpenError),
    /// The journal cannot be written.
    #[error("cannot write the journal")]
    Append(#[from] AppendError),
    /// A blob cannot be written.
    #[error("cannot write a blob")]
    Blob(#[from] BlobError),
}

/// Bytes in hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        for digit in [byte >> 4, byte & 15] {
            text.push(char::from(DIGITS[usize::from(digit)]));
        }
    }
    text
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    if !rest.is_empty() {
        return None;
    }
    pairs.iter().map(|[high, low]| Some((digit(*high)? << 4) | digit(*low)?)).collect()
}

fn put(out: &mut dyn Write, line: &Line) -> io::Result<()> {
    serde_json::to_writer(&mut *out, line)?;
    out.write_all(b"\n")
}

fn event_line(entry: Entry) -> EventLine {
    let Entry { sequence, event } = entry;
    let decoded = event.decode().ok().and_then(|event| serde_json::to_value(event).ok());
    EventLine {
        sequence,
        kind: event.kind,
        version: event.version,
        name: codec::kind_name(event.kind).map(str::to_owned),
        wall: event.stamp.wall,
        mono: event.stamp.mono,
        session: event.session.map(|session| session.as_str().to_owned()),
        ticket: event.ticket.map(|ticket| ticket.to_string()),
        key: event.key,
        payload: hex(&event.payload),
        event: decoded,
    }
}

fn commit_line(
    commit: Commit,
    content: impl Fn(&BlobRef) -> Result<Vec<u8>, ExportError>,
) -> Result<Line, ExportError> {
    let attachments: Result<Vec<AttachmentLine>, ExportError> = commit
        .attachments
        .iter()
        .map(|blob| {
            let content = hex(&content(blob)?);
            Ok(AttachmentLine { hash: hex(&blob.hash), length: blob.length, content })
        })
        .collect();
    Ok(Line::Commit(CommitLine {
        record: commit.record,
        first: commit.first,
        stored: commit.stored,
        previous: hex(&commit.previous),
        hash: hex(&commit.hash),
        events: commit.entries.into_iter().map(event_line).collect(),
        attachments: attachments?,
    }))
}

/// Writes one commit as its line. `content` gives what its attachments hold.
pub(crate) fn write_commit(
    commit: Commit,
    content: impl Fn(&BlobRef) -> Result<Vec<u8>, ExportError>,
    out: &mut dyn Write,
) -> Result<(), ExportError> {
    Ok(put(out, &commit_line(commit, content)?)?)
}

/// Writes all that a reader sees as JSON Lines, and returns where the log stands at the end of it.
///
/// # Errors
/// The log cannot be read, or the lines cannot be written.
pub fn export(reader: &Reader, out: &mut dyn Write) -> Result<Head, ExportError> {
    let mut at: Option<Head> = None;
    for commit in reader.commits(reader.first()) {
        let commit = commit?;
        if at.is_none() {
            put(
                out,
                &Line::Begin {
                    agarose_export: VERSION,
                    journal: hex(&reader.journal()),
                    sequence: commit.first.saturating_sub(1),
                    records: commit.record,
                    hash: hex(&commit.previous),
                },
            )?;
        }
        at = Some(Head {
            sequence: commit.first.saturating_add(commit.entries.len() as u64).saturating_sub(1),
            records: commit.record.saturating_add(1),
            hash: commit.hash,
        });
        write_commit(commit, |blob| reader.blob(blob)?.ok_or(ExportError::Blob(*blob)), out)?;
    }
    let head = match at {
        Some(head) => head,
        None => {
            let Head { sequence, records, hash } = reader.head();
            let journal = hex(&reader.journal());
            put(out, &Line::Begin { agarose_export: VERSION, journal, sequence, records, hash: hex(&hash) })?;
            reader.head()
        }
    };
    for blob in reader.blobs().list().map_err(ExportError::Write)? {
        export_blob(reader, &blob, out)?;
    }
    put(out, &Line::End { sequence: head.sequence, records: head.records, hash: hex(&head.hash) })?;
    out.flush()?;
    Ok(head)
}

fn export_blob(reader: &Reader, blob: &BlobRef, out: &mut dyn Write) -> Result<(), ExportError> {
    let Some(mut file) = reader.blobs().open(blob)? else { return Err(ExportError::Blob(*blob)) };
    let mut piece = vec![0; PIECE];
    let mut offset = 0u64;
    loop {
        let count = file.read(&mut piece).map_err(|source| ExportError::BlobFile { blob: *blob, source })?;
        if count == 0 {
            return Ok(());
        }
        let content = hex(piece.get(..count).unwrap_or_default());
        put(out, &Line::Blob { hash: hex(&blob.hash), length: blob.length, offset, content })?;
        offset += count as u64;
    }
}

/// Makes a journal in a new directory out of an export, and returns where it stands: the same head as the
/// one that was exported. A directory that it could not finish is not a journal; remove it.
///
/// # Errors
/// The place is not empty, the export is cut short or damaged, or the disk says no.
pub fn import(lines: &mut dyn BufRead, into: &Path, options: &Options) -> Result<Head, ImportError> {
    let mut import = Import { number: 0, into, options, journal: None, blob: None };
    loop {
        import.number += 1;
        let number = import.number;
        let mut text = String::new();
        let read = (&mut *lines).take(LINE_LIMIT).read_line(&mut text);
        let count = read.map_err(|source| ImportError::Read { line: number, source })?;
        if count == 0 || !text.ends_with('\n') {
            let sequence = import.journal.as_ref().map_or(0, |journal| journal.head().sequence);
            return Err(ImportError::Cut { sequence });
        }
        let line = serde_json::from_str(&text).map_err(|error| import.wrong(&error.to_string()))?;
        if let Some(head) = import.take(line)? {
            return Ok(head);
        }
    }
}

struct Import<'a> {
    number: u64,
    into: &'a Path,
    options: &'a Options,
    journal: Option<Journal>,
    /// The blob file that is being received, and how much of it there is.
    blob: Option<(BlobRef, tempfile::NamedTempFile, u64)>,
}

impl Import<'_> {
    fn wrong(&self, what: &str) -> ImportError {
        ImportError::Line { line: self.number, what: what.to_owned() }
    }

    fn hash(&self, text: &str) -> Result<[u8; 32], ImportError> {
        parse_hash(text).ok_or_else(|| self.wrong("a hash is not 64 hexadecimal digits"))
    }

    fn bytes(&self, text: &str) -> Result<Vec<u8>, ImportError> {
        unhex(text).ok_or_else(|| self.wrong("contents are not hexadecimal"))
    }

    fn take(&mut self, line: Line) -> Result<Option<Head>, ImportError> {
        match line {
            Line::Begin { agarose_export, journal, sequence, records, hash } => {
                if agarose_export > VERSION {
                    return Err(ImportError::Newer { version: agarose_export });
                }
                if self.journal.is_some() {
                    return Err(self.wrong("it begins twice"));
                }
                let id = self
                    .bytes(&journal)?
                    .try_into()
                    .map_err(|_| self.wrong("the journal's id has 16 bytes"))?;
                let head = Head { sequence, records, hash: self.hash(&hash)? };
                self.journal = Some(
                    open::begin(self.into, self.options, id, head)?
                        .ok_or_else(|| ImportError::NotEmpty { path: self.into.to_owned() })?,
                );
            }
            Line::Commit(commit) => self.commit(commit)?,
            Line::Blob { hash, length, offset, content } => {
                let blob = BlobRef { hash: self.hash(&hash)?, length };
                self.piece(blob, offset, &self.bytes(&content)?)?;
            }
            Line::End { sequence, records, hash } => {
                let head = Head { sequence, records, hash: self.hash(&hash)? };
                if self.blob.is_some() {
                    return Err(self.wrong("a blob is not complete"));
                }
                let journal = self.journal.take().ok_or_else(|| self.wrong("it has no beginning"))?;
                if journal.head() != head {
                    return Err(ImportError::Cut { sequence: journal.head().sequence });
                }
                journal.finish_copy()?;
                return Ok(Some(head));
            }
        }
        Ok(None)
    }

    fn commit(&mut self, line: CommitLine) -> Result<(), ImportError> {
        let mut events = Vec::with_capacity(line.events.len());
        for event in &line.events {
            let session = event.session.as_deref().map(SessionId::new).transpose();
            let ticket = event.ticket.as_deref().map(str::parse::<TicketId>).transpose();
            events.push(RawEvent {
                kind: event.kind,
                version: event.version,
                stamp: Stamp { wall: event.wall, mono: event.mono },
                session: session.map_err(|error| self.wrong(&error.to_string()))?,
                ticket: ticket.map_err(|error| self.wrong(&error.to_string()))?,
                key: event.key.clone(),
                payload: self.bytes(&event.payload)?,
            });
        }
        let mut attachments = Vec::with_capacity(line.attachments.len());
        for attachment in &line.attachments {
            let content = self.bytes(&attachment.content)?;
            attachments.push(Attachment::new(content).map_err(|error| self.wrong(&error.to_string()))?);
        }
        let (number, hash) = (self.number, self.hash(&line.hash)?);
        let Some(journal) = &mut self.journal else { return Err(self.wrong("it has no beginning")) };
        let made = journal.append_copy(line.stored, &events, &attachments)?;
        if made.hash != hash || made.records != line.record.saturating_add(1) {
            return Err(ImportError::Hash { line: number, record: line.record });
        }
        Ok(())
    }

    fn piece(&mut self, blob: BlobRef, offset: u64, content: &[u8]) -> Result<(), ImportError> {
        let number = self.number;
        let io = |source| ImportError::Read { line: number, source };
        let (of, mut file, have) = match self.blob.take() {
            Some(receiving) => receiving,
            None => (blob, tempfile::NamedTempFile::new_in(self.into).map_err(io)?, 0),
        };
        if of != blob || have != offset {
            return Err(self.wrong("a piece of a blob is missing"));
        }
        file.write_all(content).map_err(io)?;
        let have = have + content.len() as u64;
        if have < blob.length {
            self.blob = Some((blob, file, have));
            return Ok(());
        }
        let Some(journal) = &self.journal else { return Err(self.wrong("it has no beginning")) };
        let mut whole = file.reopen().map_err(io)?;
        if journal.blobs().store_from(&mut whole)? != blob {
            return Err(self.wrong("a blob does not have its hash"));
        }
        Ok(())
    }
}
