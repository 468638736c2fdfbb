//! What events are as bytes. The one place that knows it.
//!
//! The payload of an event is the contents of its variant in bincode 2 (`standard` configuration), without
//! the number of the variant: the envelope has the frozen number of the kind instead, so the order in
//! which core declares its events means nothing on disk. bincode says nothing about itself, so every
//! kind has its own version, and `golden/` has a payload of each kind and version that was ever released.
//!
//! To change the contents of a kind: raise its version in [`KINDS`], and give [`upcast`] the way from the
//! version before.

mod named;

use agarose_core::{Stamp, event::Event};
use bincode::config::{Configuration, Limit, standard};

use crate::event::RawEvent;

/// The largest payload, in bytes.
pub const PAYLOAD_LIMIT: usize = 16 * 1024 * 1024;

const CONFIGURATION: Configuration<
    bincode::config::LittleEndian,
    bincode::config::Varint,
    Limit<PAYLOAD_LIMIT>,
> = standard().with_limit::<PAYLOAD_LIMIT>();

/// A kind of event: its number, the version of its contents that is written now, and its name in core.
struct Kind {
    number: u16,
    version: u16,
    name: &'static str,
}

const fn kind(number: u16, version: u16, name: &'static str) -> Kind {
    Kind { number, version, name }
}

/// Every kind that this version can read. The numbers are frozen.
const KINDS: [Kind; 51] = [
    kind(1, 1, "DaemonStarted"),
    kind(2, 1, "DaemonStopping"),
    kind(10, 1, "SessionOpened"),
    kind(11, 1, "SessionPaused"),
    kind(12, 1, "SessionResumed"),
    kind(13, 1, "SessionClosed"),
    kind(14, 1, "SessionRemoved"),
    kind(15, 1, "AllPaused"),
    kind(16, 1, "AllResumed"),
    kind(20, 1, "TicketQueued"),
    kind(21, 1, "TicketAdmitted"),
    kind(22, 1, "CancelRequested"),
    kind(23, 1, "TicketEnded"),
    kind(24, 1, "CellClosed"),
    kind(30, 1, "KernelStarting"),
    kind(31, 1, "KernelReady"),
    kind(32, 1, "KernelStartFailed"),
    kind(33, 1, "KernelStopRequested"),
    kind(34, 1, "KernelGone"),
    kind(35, 1, "KernelReattached"),
    kind(40, 1, "ExecuteRequested"),
    kind(41, 1, "ExecuteAcknowledged"),
    kind(42, 1, "ResultReceived"),
    kind(43, 1, "OutputKept"),
    kind(44, 1, "ActivityNoted"),
    kind(45, 1, "CellAnalysed"),
    kind(50, 1, "LadderStarted"),
    kind(51, 1, "InterruptRequested"),
    kind(52, 1, "InterruptAnswered"),
    kind(53, 1, "KillRequested"),
    kind(54, 1, "GroupStopped"),
    kind(55, 1, "LadderEnded"),
    kind(60, 1, "PermissionProposed"),
    kind(61, 1, "PermissionDecided"),
    kind(62, 1, "PermissionExpired"),
    kind(70, 1, "RestoreStarted"),
    kind(71, 1, "RestorePublished"),
    kind(72, 1, "RestoreEnded"),
    kind(80, 1, "HostCallStarted"),
    kind(81, 1, "HostCallDispatched"),
    kind(82, 1, "HostCallAnswered"),
    kind(83, 1, "HostCallCancelRequested"),
    kind(84, 1, "CellDraining"),
    kind(90, 1, "CapabilityGranted"),
    kind(91, 1, "CapabilityConsumed"),
    kind(92, 1, "CapabilityReported"),
    kind(93, 1, "CapabilityVoided"),
    kind(100, 1, "OutputSubmitted"),
    kind(101, 1, "ArtifactSaved"),
    kind(102, 1, "DocumentWritten"),
    kind(103, 1, "OutputObserved"),
];

/// Why an event has no bytes.
#[derive(Debug, thiserror::Error)]
pub enum EncodeError {
    /// bincode says why.
    #[error("the event cannot be encoded")]
    Bincode(#[from] bincode::error::EncodeError),
    /// Its kind is missing here: a test makes sure that this does not happen.
    #[error("events of kind {kind} are not known to the codec")]
    Kind {
        /// The kind.
        kind: u16,
    },
    /// It has more bytes than a payload may have.
    #[error("an event of {bytes} bytes is larger than {PAYLOAD_LIMIT}")]
    TooLarge {
        /// How many it has.
        bytes: usize,
    },
}

/// Why bytes are no event.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// This program is too old for it. It is never skipped.
    #[error("an event of kind {kind}, version {version}, written by a newer version")]
    Newer {
        /// The kind.
        kind: u16,
        /// The version of its contents.
        version: u16,
    },
    /// No version ever wrote such an event.
    #[error("an event of kind {kind}, version {version}, which no version has written")]
    Unknown {
        /// The kind.
        kind: u16,
        /// The version of its contents.
        version: u16,
    },
    /// The contents do not make sense.
    #[error("the contents of an event of kind {kind}, version {version}, make no sense")]
    Bincode {
        /// The kind.
        kind: u16,
        /// The version of its contents.
        version: u16,
        /// What bincode says.
        source: bincode::error::DecodeError,
    },
    /// There is something after the contents.
    #[error("{left} bytes follow the contents of an event of kind {kind}, version {version}")]
    Trailing {
        /// The kind.
        kind: u16,
        /// The version of its contents.
        version: u16,
        /// How many bytes.
        left: usize,
    },
}

fn known(number: u16) -> Option<&'static Kind> {
    KINDS.binary_search_by_key(&number, |kind| kind.number).ok().map(|at| &KINDS[at])
}

/// The kind, version and payload of an event.
///
/// # Errors
/// It is too large, or not known here.
pub fn encode(event: &Event) -> Result<(u16, u16, Vec<u8>), EncodeError> {
    let number = event.kind();
    let kind = known(number).ok_or(EncodeError::Kind { kind: number })?;
    let mut bytes = bincode::serde::encode_to_vec(event, standard())?;
    // bincode writes the variant's number first, in one byte while there are fewer than 251 of them.
    let variant = match bytes.first() {
        Some(251) => 3,
        _ => 1,
    };
    bytes.drain(..variant.min(bytes.len()));
    if bytes.len() > PAYLOAD_LIMIT {
        return Err(EncodeError::TooLarge { bytes: bytes.len() });
    }
    Ok((number, kind.version, bytes))
}

/// The event that some bytes are.
///
/// # Errors
/// They are of a newer version, or make no sense.
pub fn decode(kind: u16, version: u16, bytes: &[u8]) -> Result<Event, DecodeError> {
    let Some(known) = known(kind) else { return Err(DecodeError::Newer { kind, version }) };
    if version > known.version {
        return Err(DecodeError::Newer { kind, version });
    }
    if version < known.version {
        return upcast(kind, version, bytes);
    }
    let decoded = bincode::serde::seed_decode_from_slice(named::Variant(known.name), bytes, CONFIGURATION);
    let (event, used) = decoded.map_err(|source| DecodeError::Bincode { kind, version, source })?;
    if used != bytes.len() {
        return Err(DecodeError::Trailing { kind, version, left: bytes.len() - used });
    }
    Ok(event)
}

/// Reads contents of an older version. None has been released yet; each that is gets a named way here
/// from its own type to the event of today, and keeps its golden payload.
fn upcast(kind: u16, version: u16, _bytes: &[u8]) -> Result<Event, DecodeError> {
    Err(DecodeError::Unknown { kind, version })
}

impl RawEvent {
    /// An event in its envelope.
    ///
    /// # Errors
    /// As [`encode`].
    pub fn of(event: &Event, stamp: Stamp) -> Result<Self, EncodeError> {
        let (kind, version, payload) = encode(event)?;
        Ok(Self {
            kind,
            version,
            stamp,
            session: event.session().cloned(),
            ticket: event.ticket(),
            key: event.key().map(str::to_owned),
            payload,
        })
    }

    /// The event in the envelope.
    ///
    /// # Errors
    /// As [`decode`].
    pub fn decode(&self) -> Result<Event, DecodeError> {
        decode(self.kind, self.version, &self.payload)
    }
}

/// The name of a kind of event, for people; `None` when a newer version wrote it.
#[must_use]
pub fn kind_name(kind: u16) -> Option<&'static str> {
    known(kind).map(|kind| kind.name)
}

#[cfg(test)]
mod tests;
