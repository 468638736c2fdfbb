//! Why the inspector cannot do what was asked, with what to do next and an exit code.

use std::{io, path::PathBuf};

use agarose_core::TicketId;
use agarose_journal::{
    ReadError,
    codec::DecodeError,
    export::{ExportError, ImportError},
    inspect::{InspectError, SalvageError},
};

/// Why a command of the inspector did not do its work.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The words of the command make no sense together.
    #[error("{what}")]
    Usage {
        /// What is wrong, with the value in question.
        what: String,
    },
    /// There is no such ticket in the log.
    #[error("there is no ticket {ticket} in this log")]
    NoSuchTicket {
        /// Which.
        ticket: TicketId,
    },
    /// There is no such event in the log.
    #[error("there is no event {sequence} in this log, which has events {first} to {last}")]
    NoSuchEvent {
        /// Which.
        sequence: u64,
        /// The first event that the log has.
        first: u64,
        /// The last event that it has.
        last: u64,
    },
    /// There is no log in the directory.
    #[error("there is no log in {directory}", directory = directory.display())]
    NoLog {
        /// Which.
        directory: PathBuf,
    },
    /// The log cannot be opened.
    #[error("the log in {directory} cannot be opened", directory = directory.display())]
    Open {
        /// Which.
        directory: PathBuf,
        /// Why.
        source: InspectError,
    },
    /// The log cannot be read to its end.
    #[error("the log cannot be read further")]
    Read(#[from] ReadError),
    /// The log holds an event that this version does not know.
    #[error("event {sequence} cannot be read")]
    Event {
        /// Which.
        sequence: u64,
        /// Why.
        source: DecodeError,
    },
    /// Nothing was salvaged.
    #[error("cannot salvage the log into {into}", into = into.display())]
    Salvage {
        /// Where to.
        into: PathBuf,
        /// Why.
        source: SalvageError,
    },
    /// The log was not exported.
    #[error("cannot export the log")]
    Export(#[source] ExportError),
    /// An export was not imported.
    #[error("cannot import {file} into {into}", file = file.display(), into = into.display())]
    Import {
        /// The export.
        file: PathBuf,
        /// Where to.
        into: PathBuf,
        /// Why.
        source: ImportError,
    },
    /// A file cannot be read.
    #[error("cannot read {path}", path = path.display())]
    Source {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file cannot be written.
    #[error("cannot write {path}", path = path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Something in the way of the output.
    #[error("cannot write the output")]
    Output(#[from] io::Error),
}

impl LogError {
    /// The exit code that scripts may rely on: 2 for usage, 4 for what is not there, else 1.
    #[must_use]
    pub const fn exit_code(&self) -> u8 {
        match self {
            Self::Usage { .. } => 2,
            Self::NoSuchTicket { .. } | Self::NoSuchEvent { .. } | Self::NoLog { .. } => 4,
            Self::Open { .. }
            | Self::Read(_)
            | Self::Event { .. }
            | Self::Salvage { .. }
            | Self::Export(_)
            | Self::Import { .. }
            | Self::Source { .. }
            | Self::File { .. }
            | Self::Output(_) => 1,
        }
    }

    /// What to do next, for people.
    #[must_use]
    pub const fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Usage { .. } => Some("`agarose log --help` shows the words and examples"),
            Self::NoSuchTicket { .. } => Some("`agarose log ls` lists the tickets of this log"),
            Self::NoSuchEvent { .. } => Some("`agarose log ls events` lists the events of this log"),
            Self::NoLog { .. } => {
                Some("`--data-dir DIR` or AGAROSE_DATA_DIR says where the data directory is")
            }
            Self::Open { .. } | Self::Read(_) => {
                Some("`agarose log verify` names the damage; `agarose log salvage DIR` copies what is whole")
            }
            Self::Event { .. } => Some("a log of a newer version is read by that version's own inspector"),
            Self::Salvage { source: SalvageError::NotEmpty { .. }, .. }
            | Self::Import { source: ImportError::NotEmpty { .. }, .. } => {
                Some("give a directory that does not exist yet; nothing is ever overwritten")
            }
            Self::Export(ExportError::Blob(_) | ExportError::BlobFile { .. }) => Some(
                "`agarose log verify --deep` names what is missing; `agarose log salvage DIR` copies what is whole",
            ),
            Self::Import { .. } => {
                Some("a directory that could not be finished is no log: remove it before the next try")
            }
            Self::Salvage { .. }
            | Self::Export(_)
            | Self::Source { .. }
            | Self::File { .. }
            | Self::Output(_) => None,
        }
    }
}
