//! Copying what hangs together into a new journal.

use std::{
    io,
    path::{Path, PathBuf},
};

use agarose_core::BlobRef;

use super::{Beyond, Finding, InspectError, Inspector, Severity};
use crate::{
    error::{AppendError, OpenError, ReadError},
    event::Attachment,
    export,
    files::{self, RealFiles},
    fit::says,
    journal::{Journal, Options},
    open,
    reader::{self, Reader},
    record::{ChainKey, Head},
    shared::Places,
    snapshot,
};

/// Why nothing was salvaged.
#[derive(Debug, thiserror::Error)]
pub enum SalvageError {
    /// The journal cannot be looked at.
    #[error("the journal cannot be inspected")]
    Inspect(#[from] InspectError),
    /// The target has something in it.
    #[error("{path} is not empty", path = path.display())]
    NotEmpty {
        /// The target.
        path: PathBuf,
    },
    /// The log cannot be read.
    #[error("the log cannot be read")]
    Read(#[from] ReadError),
    /// The new journal cannot be made.
    #[error("the new journal cannot be made")]
    Open(#[from] OpenError),
    /// The new journal cannot be written.
    #[error("the new journal cannot be written")]
    Append(#[from] AppendError),
    /// A file cannot be written.
    #[error("cannot write {path}", path = path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Records behind the damage cannot be written down.
    #[error("what lies behind the damage cannot be written down")]
    Export(#[from] export::ExportError),
}

/// What salvaging kept and what it lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SalvageReport {
    /// The first event that was kept.
    pub first: u64,
    /// Where the new journal stands.
    pub head: Head,
    /// Contents that were lost: missing or damaged attachments and blob files.
    pub lost_contents: Vec<BlobRef>,
    /// Records that are whole and that nothing connects with the log; they are in `beyond.jsonl`.
    pub beyond: Vec<Beyond>,
    /// What was wrong.
    pub findings: Vec<Finding>,
}

/// Copies what hangs together into a journal in a new directory, and says what was lost. The damaged journal is
/// left as it is.
///
/// # Errors
/// The target is not empty, or the disk says no.
pub fn salvage(directory: &Path, into: &Path) -> Result<SalvageReport, SalvageError> {
    let inspector = Inspector::open(directory)?;
    let reader = inspector.reader();
    let first = reader.first();
    let mut findings = inspector.findings.clone();
    let mut lost_contents = Vec::new();
    let mut journal = None;
    for commit in reader.commits(first) {
        let commit = match commit {
            Ok(commit) => commit,
            Err(error) => {
                findings.push(Finding::new(Severity::Damage, says(&error)));
                break;
            }
        };
        let mut attachments = Vec::new();
        for blob in &commit.attachments {
            match reader.blob(blob) {
                Ok(Some(content)) => attachments.extend(Attachment::new(content).ok()),
                Ok(None) | Err(_) => lost_contents.push(*blob),
            }
        }
        if attachments.len() < commit.attachments.len() {
            // Without its content the record cannot be made again; the log is whole up to here.
            findings.push(Finding {
                record: Some(commit.record),
                sequence: Some(commit.first),
                ..Finding::new(
                    Severity::Damage,
                    "an attachment of the record is lost, and with it what follows",
                )
            });
            break;
        }
        let before = Head { sequence: commit.first - 1, records: commit.record, hash: commit.previous };
        let to = match &mut journal {
            Some(journal) => journal,
            none => none.insert(new_journal(into, reader, before)?),
        };
        let events: Vec<_> = commit.entries.into_iter().map(|entry| entry.event).collect();
        to.append_copy(commit.stored, &events, &attachments)?;
    }
    let journal = match journal {
        Some(journal) => journal,
        None => new_journal(into, reader, ChainKey::of(&reader.journal()).genesis())?,
    };
    copy_blobs(&inspector, &journal, &mut lost_contents, &mut findings)?;
    copy_snapshots(&inspector, &journal, into)?;
    let head = journal.head();
    journal.finish_copy()?;
    write_beyond(&inspector, into)?;
    let beyond = inspector.beyond().cloned().collect();
    Ok(SalvageReport { first, head, lost_contents, beyond, findings })
}

fn new_journal(into: &Path, reader: &Reader, head: Head) -> Result<Journal, SalvageError> {
    open::begin(into, &Options::default(), reader.journal(), head)?
        .ok_or_else(|| SalvageError::NotEmpty { path: into.to_owned() })
}

fn copy_blobs(
    inspector: &Inspector,
    journal: &Journal,
    lost: &mut Vec<BlobRef>,
    findings: &mut Vec<Finding>,
) -> Result<(), SalvageError> {
    let from = inspector.reader.blobs();
    let io = |source| SalvageError::Io { path: inspector.places.blobs.clone(), source };
    for blob in from.list().map_err(io)? {
        let Some(mut file) = from.open(&blob)? else { continue };
        match journal.blobs().store_from(&mut file) {
            Ok(_) => {}
            // The reader says this at the end of a file that is not what its name says.
            Err(error) if error.source.kind() == io::ErrorKind::InvalidData => {
                lost.push(blob);
                let what = format!("blob {blob} is damaged");
                findings.push(Finding::in_file(Severity::Damage, &inspector.places.blobs, what));
            }
            Err(error) => return Err(SalvageError::Io { path: error.path, source: error.source }),
        }
    }
    Ok(())
}

fn copy_snapshots(inspector: &Inspector, journal: &Journal, into: &Path) -> Result<(), SalvageError> {
    let head = journal.head();
    let target = Places::of(into).snapshots;
    for snapshot in inspector.snapshots()?.flatten().filter(|snapshot| snapshot.sequence <= head.sequence) {
        let at = Head { sequence: snapshot.sequence, records: snapshot.records, hash: snapshot.head };
        snapshot::write(&RealFiles, &target, &inspector.reader.journal(), &at, &snapshot.state)
            .map_err(|source| SalvageError::Io { path: target.clone(), source })?;
    }
    Ok(())
}

fn write_beyond(inspector: &Inspector, into: &Path) -> Result<(), SalvageError> {
    if inspector.beyond.is_empty() {
        return Ok(());
    }
    let mut lines = Vec::new();
    for (_, commit) in &inspector.beyond {
        let content = |blob: &BlobRef| {
            let found = commit.attachments.iter().find(|attachment| attachment.blob() == *blob);
            found.map(|attachment| attachment.bytes().to_vec()).ok_or(export::ExportError::Blob(*blob))
        };
        export::write_commit(reader::commit(&commit.record)?, content, &mut lines)?;
    }
    let path = into.join("beyond.jsonl");
    files::write_whole(&RealFiles, into, "beyond.jsonl", |file| files::write_all(file, &lines, 0))
        .map_err(|source| SalvageError::Io { path, source })
}
