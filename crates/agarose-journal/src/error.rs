//! Why an operation of the journal did not do what it was asked. One type per operation.

use std::{fmt, io, path::PathBuf};

use agarose_core::TicketId;

use crate::{
    lock::LockError,
    record::{Flaw, Unwritable},
    store::StoreError,
};

/// Why a batch was not appended. Unless it says otherwise, nothing of the batch is in the log, and the
/// journal may go on.
#[derive(Debug, thiserror::Error)]
pub enum AppendError {
    /// The batch cannot be a record.
    #[error("the batch cannot be written")]
    Unwritable(#[from] Unwritable),
    /// There is no room on the disk. Appending works again when there is; reading goes on.
    #[error("read_only: disk full ({needed} bytes are needed in {directory})", directory = directory.display())]
    DiskFull {
        /// Bytes that are needed.
        needed: u64,
        /// Where.
        directory: PathBuf,
    },
    /// The disk refused; what may have been written was taken back.
    #[error("cannot write to {path}", path = path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The store does not keep up, so that no more may be held for it in memory.
    #[error("the store is {events} events behind: {cause}")]
    Behind {
        /// How many events the store lacks.
        events: u64,
        /// Why.
        cause: String,
    },
    /// A sync failed, now or before: whether this batch is in the log is not known, and a new start must
    /// find out. It is never tried again on the same descriptor.
    #[error("the journal takes no more events since a sync failed: {why}")]
    Poisoned {
        /// What failed.
        why: String,
    },
}

/// Why something could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The journal has been closed.
    #[error("the journal is closed")]
    Closed,
    /// The store fails.
    #[error("cannot read from the store")]
    Store(#[from] StoreError),
    /// The store returned something else than it was given.
    #[error("record {record} (event {sequence} on) is damaged in the store")]
    Damaged {
        /// The record, or the one before it.
        record: u64,
        /// Its first event.
        sequence: u64,
        /// What is wrong with it.
        source: Flaw,
    },
    /// The log should have this event, and nobody has it.
    #[error("event {sequence} is missing from the store")]
    Missing {
        /// The event.
        sequence: u64,
    },
    /// A blob file cannot be read.
    #[error("cannot read {path}", path = path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A blob is not what its name says.
    #[error("blob {blob} is damaged")]
    Blob {
        /// The blob.
        blob: agarose_core::BlobRef,
    },
}

/// Why a blob was not stored.
#[derive(Debug, thiserror::Error)]
#[error("cannot store a blob in {path}", path = path.display())]
pub struct BlobError {
    /// The file or directory.
    pub path: PathBuf,
    /// Why.
    #[source]
    pub source: io::Error,
}

/// Why a snapshot was not written.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// No commit ends with that event.
    #[error("no commit ends with event {sequence}")]
    NotACommit {
        /// The event.
        sequence: u64,
    },
    /// The log cannot be read.
    #[error("cannot read the log")]
    Read(#[from] ReadError),
    /// The disk says no.
    #[error("cannot write the snapshot {path}", path = path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// Where the log is damaged, and what it costs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The file.
    pub path: PathBuf,
    /// Where in the file, in bytes.
    pub offset: u64,
    /// The record that should be there, counted from 0.
    pub record: u64,
    /// The first event of that record.
    pub sequence: u64,
    /// What is wrong there, and how it is known that it is not a torn write.
    pub what: String,
    /// Tickets that the record speaks of, as far as can be read.
    pub tickets: Vec<TicketId>,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "record {} (event {} on) at byte {} of {}: {}",
            self.record,
            self.sequence,
            self.offset,
            self.path.display(),
            self.what
        )?;
        for (n, ticket) in self.tickets.iter().enumerate() {
            write!(f, "{} {ticket}", if n == 0 { "; tickets" } else { "," })?;
        }
        Ok(())
    }
}

/// Why a journal was not opened. Nothing has been changed, unless it says so.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process writes here.
    #[error("the data directory is in use")]
    Locked(#[from] LockError),
    /// The disk says no.
    #[error("cannot use {path}", path = path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The options make no sense.
    #[error("segments of {0} bytes are not possible")]
    SegmentBytes(u64),
    /// Acknowledged events are damaged or gone.
    #[error(
        "the log is damaged: {0}. `verify` shows all of it; `salvage` copies what is whole to a new directory"
    )]
    Damaged(Box<Damage>),
    /// Written by a newer version.
    #[error("{path} has format {format}, written by a newer version", path = path.display())]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its format.
        format: u16,
    },
    /// The store is gone or does not open, and the segments do not reach back far enough to make it anew.
    #[error(
        "the store cannot be used ({cause}) and the segments begin with event {from}: {}. `salvage` copies what is whole \
         to a new directory; opening with the loss accepted goes on without the history",
        lost(*from)
    )]
    StoreLost {
        /// What is wrong with the store.
        cause: String,
        /// The first event that the segments have.
        from: u64,
    },
    /// The store cannot be fed.
    #[error("the store cannot be written")]
    Store(#[from] StoreError),
    /// The store cannot be read.
    #[error("the store cannot be read")]
    Read(#[from] ReadError),
    /// The log cannot be continued.
    #[error("the log cannot be continued")]
    Append(#[from] AppendError),
}

fn lost(from: u64) -> String {
    format!("the history of events 1 to {} would be lost", from.saturating_sub(1))
}
