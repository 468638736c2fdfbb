//! The log that is inspected, opened so that nothing in its directory changes.

use std::{
    io,
    iter::Map,
    path::{Path, PathBuf},
};

use agarose_core::{BlobRef, Event, SessionId, Stamp, TicketId};
use agarose_journal::{
    Commit, Entry, Events, Head, RawEvent, ReadError, Reader, Snapshot,
    codec::{DecodeError, kind_name},
    inspect::{Finding, InspectError, Inspector},
};

use crate::{
    clock::rfc3339,
    error::LogError,
    json::{Json, hex},
    say,
    story::Place,
    words::{plain, short},
};

/// A log, open for reading.
pub(crate) struct Log {
    directory: PathBuf,
    inspector: Inspector,
}

/// One event and its place in the log.
#[derive(Clone, Debug)]
pub(crate) struct Moment {
    pub(crate) sequence: u64,
    pub(crate) raw: RawEvent,
}

impl From<Entry> for Moment {
    fn from(entry: Entry) -> Self {
        Self { sequence: entry.sequence, raw: entry.event }
    }
}

impl Moment {
    /// Where and when.
    pub(crate) const fn place(&self) -> Place {
        Place { sequence: self.sequence, at: self.raw.stamp }
    }

    /// When.
    pub(crate) const fn stamp(&self) -> Stamp {
        self.raw.stamp
    }

    /// The number of its kind.
    pub(crate) const fn kind(&self) -> u16 {
        self.raw.kind
    }

    /// The name of its kind; the number when a newer version wrote it.
    pub(crate) fn kind_name(&self) -> String {
        kind_name(self.raw.kind).map_or_else(|| format!("kind {}", self.raw.kind), str::to_owned)
    }

    /// The ticket it speaks of.
    pub(crate) const fn ticket(&self) -> Option<TicketId> {
        self.raw.ticket
    }

    /// The session it speaks of.
    pub(crate) const fn session(&self) -> Option<&SessionId> {
        self.raw.session.as_ref()
    }

    /// What happened.
    pub(crate) fn decode(&self) -> Result<Event, DecodeError> {
        self.raw.decode()
    }

    /// What happened, or the error that ends a command which cannot go on without.
    pub(crate) fn event(&self) -> Result<Event, LogError> {
        self.decode().map_err(|source| LogError::Event { sequence: self.sequence, source })
    }

    /// One line for people.
    pub(crate) fn line(&self) -> String {
        let text = match self.decode() {
            Ok(event) => say::event(&event),
            Err(error) => format!("this event cannot be read: {error}"),
        };
        let session = self.session().map_or_else(|| "-".to_owned(), |session| short(session.as_str(), 40));
        let ticket = self.ticket().map_or_else(|| "-".to_owned(), |ticket| ticket.to_string());
        format!(
            "{:>7}  {}  {:<19}  {session}  {ticket}  {text}",
            self.sequence,
            rfc3339(self.raw.stamp.wall),
            self.kind_name()
        )
    }

    /// One line for programs.
    pub(crate) fn json(&self) -> Json {
        let mut json = Json::object([
            ("seq", Json::Number(self.sequence)),
            ("wall", Json::Text(rfc3339(self.raw.stamp.wall))),
            ("mono", Json::Number(self.raw.stamp.mono)),
            ("kind", Json::Text(self.kind_name())),
            ("session", Json::maybe(self.session(), Json::text)),
            ("ticket", Json::maybe(self.ticket(), Json::text)),
        ]);
        match self.decode() {
            Ok(event) => json.push("data", data(&event)),
            Err(error) => {
                json.push("unreadable", Json::text(plain(&error.to_string())));
                json.push("version", Json::Number(self.raw.version.into()));
                json.push("payload", Json::Text(hex(&self.raw.payload)));
            }
        }
        json
    }
}

/// The fields of an event.
pub(crate) fn data(event: &Event) -> Json {
    match Json::of(event) {
        Json::Object(mut variant) if variant.len() == 1 => {
            variant.pop().map_or(Json::Absent, |(_, fields)| fields)
        }
        // A variant without fields.
        _ => Json::Object(Vec::new()),
    }
}

/// Events in order, each read when it is asked for.
pub(crate) type Moments = Map<Events, fn(Result<Entry, ReadError>) -> Result<Moment, LogError>>;

fn moments(entries: Events) -> Moments {
    entries.map(|entry| entry.map(Moment::from).map_err(LogError::Read))
}

impl Log {
    /// Opens the log of a data directory, whoever else has it open. Writes nothing there.
    pub(crate) fn open(directory: &Path) -> Result<Self, LogError> {
        let inspector = Inspector::open(directory).map_err(|error| match error {
            InspectError::NotAJournal { path } => LogError::NoLog { directory: path },
            source => LogError::Open { directory: directory.to_owned(), source },
        })?;
        Ok(Self { directory: directory.to_owned(), inspector })
    }

    /// What is not as it should be.
    pub(crate) fn findings(&self) -> &[Finding] {
        self.inspector.findings()
    }

    /// The snapshots, oldest first; what is wrong with those that are not good is said elsewhere.
    pub(crate) fn snapshots(&self) -> Result<impl Iterator<Item = Snapshot> + '_, LogError> {
        let snapshots = self.inspector.snapshots();
        let open = |source| LogError::Open { directory: self.directory.clone(), source };
        Ok(snapshots.map_err(open)?.flatten())
    }

    /// The log as the journal reads it.
    pub(crate) fn reader(&self) -> &Reader {
        self.inspector.reader()
    }

    /// Where the log ends.
    pub(crate) fn head(&self) -> Head {
        self.reader().head()
    }

    /// The first event that the log has.
    pub(crate) fn first(&self) -> u64 {
        self.reader().first()
    }

    /// The last event.
    pub(crate) fn last(&self) -> Result<Option<Place>, LogError> {
        let end = self.head().sequence;
        let last = self.events(end.max(1), end).next().transpose()?;
        Ok(last.map(|moment| moment.place()))
    }

    /// The events from one sequence number to another, both included, as far as the log has them.
    pub(crate) fn events(&self, from: u64, to: u64) -> Moments {
        moments(self.reader().events(from.max(self.first())..=to))
    }

    /// The events that speak of a ticket.
    pub(crate) fn by_ticket(&self, ticket: TicketId) -> Moments {
        moments(self.reader().by_ticket(ticket))
    }

    /// The events that speak of a session.
    pub(crate) fn by_session(&self, session: &SessionId) -> Moments {
        moments(self.reader().by_session(session))
    }

    /// The commit that holds an event.
    pub(crate) fn commit(&self, sequence: u64) -> Result<Commit, LogError> {
        let missing = || LogError::NoSuchEvent { sequence, first: self.first(), last: self.head().sequence };
        self.reader().commits(sequence).next().ok_or_else(missing)?.map_err(LogError::Read)
    }

    /// The directory of the log.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Whether content is there, and is what its name says; reads it in pieces.
    pub(crate) fn check_blob(&self, blob: &BlobRef) -> Result<bool, LogError> {
        let Some(mut content) = self.reader().open_blob(blob)? else { return Ok(false) };
        io::copy(&mut content, &mut io::sink())?;
        Ok(true)
    }

    /// Content by its name.
    pub(crate) fn blob(&self, blob: &BlobRef) -> Result<Option<Vec<u8>>, ReadError> {
        self.reader().blob(blob)
    }
}
