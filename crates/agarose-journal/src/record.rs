//! A record is one commit, in bytes: header, hash, events, names of attachments, attachments, end mark.
//!
//! Every number here is on disk and frozen; `FORMAT.md` has the same layout in words. The hash of a
//! record covers its header (which holds the hash of the record before it), its events and the names
//! of its attachments; a name is itself a hash of the content.

use std::sync::Arc;

use agarose_core::{BlobRef, SessionId, Stamp, TicketId};

use crate::event::{Attachment, Entry, INLINE_LIMIT, KEY_LIMIT, RawEvent};

/// A BLAKE3 hash.
pub type Hash = [u8; 32];

/// The format that this code writes. Frozen: 1.
pub const FORMAT: u16 = 1;
/// The first four bytes of a record. Frozen.
pub(crate) const MAGIC: [u8; 4] = *b"AGR\x01";
/// The last four bytes of a record. Frozen; not zero, so that a record whose end was never written shows it.
pub(crate) const END: [u8; 4] = *b"\x01RGA";
/// Bytes before the events: header (84) and hash (32). Frozen.
pub(crate) const HEAD: usize = 116;
/// Bytes of the header that the header's own check covers. Frozen.
const CHECKED: usize = 80;
/// Bytes of a header with its check. Frozen.
const HEADER: usize = 84;
/// Bytes of the name of one attachment: hash and length. Frozen.
const NAME: usize = 36;
/// The largest record, in bytes. A reader never allocates more than this on the word of a header.
pub const RECORD_LIMIT: usize = 64 * 1024 * 1024;
/// The most events in one record.
pub const EVENTS_LIMIT: usize = 1 << 20;

const HAS_SESSION: u8 = 1;
const HAS_TICKET: u8 = 2;
const HAS_KEY: u8 = 4;

/// What keys the hashes of one journal, so that a record of another one (in a cell's output, say) is
/// never taken for one of its own. It is also the hash that the first record names as the one before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChainKey(Hash);

impl ChainKey {
    /// The key of the journal with this id.
    pub(crate) fn of(journal: &[u8; 16]) -> Self {
        let mut hasher = blake3::Hasher::new_derive_key("agarose journal 1 chain");
        hasher.update(journal);
        Self(*hasher.finalize().as_bytes())
    }

    /// Where the empty log stands.
    pub(crate) fn genesis(self) -> Head {
        Head { sequence: 0, records: 0, hash: self.0 }
    }

    fn hash(self, header: &[u8], body: &[u8]) -> Hash {
        let mut hasher = blake3::Hasher::new_keyed(&self.0);
        hasher.update(header);
        hasher.update(body);
        *hasher.finalize().as_bytes()
    }
}

/// Where the log stands: what the next record must continue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// The sequence number of the last event; 0 in an empty log.
    pub sequence: u64,
    /// How many records there are.
    pub records: u64,
    /// The hash of the last record: the chain's head.
    pub hash: Hash,
}

/// The fixed part of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) record: u64,
    pub(crate) first: u64,
    pub(crate) events: u32,
    pub(crate) attachments: u32,
    pub(crate) body: u32,
    pub(crate) attached: u32,
    pub(crate) stored: u64,
    pub(crate) previous: Hash,
    pub(crate) hash: Hash,
}

impl Header {
    /// Bytes of the whole record.
    pub(crate) fn length(&self) -> usize {
        HEAD + self.body as usize + self.attached as usize + END.len()
    }

    /// The head of the log after this record.
    pub(crate) fn head(&self) -> Head {
        Head {
            sequence: self.first.saturating_add(u64::from(self.events)).saturating_sub(1),
            records: self.record.saturating_add(1),
            hash: self.hash,
        }
    }

    /// The head of the log that this record continues.
    pub(crate) fn before(&self) -> Head {
        Head { sequence: self.first.saturating_sub(1), records: self.record, hash: self.previous }
    }
}

/// What is wrong with some bytes that should be a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Flaw {
    /// Nothing was ever written there.
    #[error("nothing but zeros")]
    Blank,
    /// Not the header of a record, or a damaged one.
    #[error("the header does not match its check")]
    Header,
    /// Written by a newer version.
    #[error("format {0}, written by a newer version (this one reads up to {FORMAT})")]
    Newer(u16),
    /// A length beyond what is allowed or there.
    #[error("the record claims more bytes than there are")]
    Length,
    /// The hash does not match the contents.
    #[error("the contents do not match their hash")]
    Hash,
    /// An attachment does not match its name.
    #[error("an attachment does not match its hash")]
    Attachment,
    /// The hash matches, and the contents still make no sense.
    #[error("the contents are not events")]
    Contents,
    /// Sound by itself, and does not continue the record before it.
    #[error("the record does not continue the one before it")]
    Chain,
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

fn hash_at(bytes: &[u8], at: usize) -> Option<Hash> {
    bytes.get(at..at + 32)?.try_into().ok()
}

fn header_check(checked: &[u8]) -> [u8; 4] {
    let hash = blake3::hash(checked);
    let [a, b, c, d, ..] = *hash.as_bytes();
    [a, b, c, d]
}

/// Reads the fixed part of a record; says nothing about what follows it.
pub(crate) fn read_header(bytes: &[u8]) -> Result<Header, Flaw> {
    let head = bytes.get(..HEAD).ok_or(Flaw::Length)?;
    if head.iter().all(|byte| *byte == 0) {
        return Err(Flaw::Blank);
    }
    read_fields(head).ok_or(Flaw::Header)?
}

fn read_fields(head: &[u8]) -> Option<Result<Header, Flaw>> {
    if head.get(..4)? != MAGIC || head.get(CHECKED..HEADER)? != header_check(head.get(..CHECKED)?) {
        return None;
    }
    let format = u16_at(head, 4)?;
    if format != FORMAT {
        return Some(Err(Flaw::Newer(format)));
    }
    let header = Header {
        record: u64_at(head, 8)?,
        first: u64_at(head, 16)?,
        events: u32_at(head, 24)?,
        attachments: u32_at(head, 28)?,
        body: u32_at(head, 32)?,
        attached: u32_at(head, 36)?,
        stored: u64_at(head, 40)?,
        previous: hash_at(head, 48)?,
        hash: hash_at(head, HEADER)?,
    };
    let length = HEAD as u64 + u64::from(header.body) + u64::from(header.attached) + END.len() as u64;
    let sound = length <= RECORD_LIMIT as u64
        && header.events as usize <= EVENTS_LIMIT
        && u64::from(header.attachments) * NAME as u64 <= u64::from(header.body);
    Some(if sound { Ok(header) } else { Err(Flaw::Length) })
}

/// One sound record. `bytes` are its head and body, without attachments and end mark: the form in
/// which the store keeps it too.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    header: Header,
    bytes: Arc<[u8]>,
}

impl Record {
    /// Reads and checks the record at the front of `bytes`, without its attachments.
    pub(crate) fn read(key: ChainKey, bytes: &[u8]) -> Result<Self, Flaw> {
        let header = read_header(bytes)?;
        let end = HEAD + header.body as usize;
        let whole = bytes.get(..end).ok_or(Flaw::Length)?;
        let (head, body) = whole.split_at(HEAD);
        if key.hash(&head[..HEADER], body) != header.hash {
            return Err(Flaw::Hash);
        }
        let record = Self { header, bytes: whole.into() };
        let mut events = 0;
        for entry in record.entries() {
            entry?;
            events += 1;
        }
        if events != header.events {
            return Err(Flaw::Contents);
        }
        Ok(record)
    }

    /// Reads and checks the whole record at the front of `bytes`: also its attachments and its end.
    pub(crate) fn read_whole(key: ChainKey, bytes: &[u8]) -> Result<(Self, Vec<Attachment>), Flaw> {
        let header = read_header(bytes)?;
        let whole = bytes.get(..header.length()).ok_or(Flaw::Length)?;
        let record = Self::read(key, whole)?;
        let attachments = record.attachments(whole, |content, name| {
            let attachment = Attachment::new(content).map_err(|_| Flaw::Contents)?;
            if attachment.blob() == name { Ok(attachment) } else { Err(Flaw::Attachment) }
        })?;
        Ok((record, attachments))
    }

    /// As [`Record::read_whole`], of bytes that have been checked a moment ago: nothing is hashed once more.
    pub(crate) fn read_checked(bytes: &[u8]) -> Result<(Self, Vec<Attachment>), Flaw> {
        let header = read_header(bytes)?;
        let whole = bytes.get(..header.length()).ok_or(Flaw::Length)?;
        let own = whole.get(..HEAD + header.body as usize).ok_or(Flaw::Length)?;
        let record = Self { header, bytes: own.into() };
        let attachments =
            record.attachments(whole, |content, name| Ok(Attachment::checked(name, content)))?;
        Ok((record, attachments))
    }

    fn attachments(
        &self,
        whole: &[u8],
        read: impl Fn(&[u8], BlobRef) -> Result<Attachment, Flaw>,
    ) -> Result<Vec<Attachment>, Flaw> {
        let mut rest = whole.get(self.bytes.len()..).unwrap_or_default();
        let mut attachments = Vec::new();
        for name in self.names() {
            let length = usize::try_from(name.length).map_err(|_| Flaw::Contents)?;
            let (content, after) = rest.split_at_checked(length).ok_or(Flaw::Contents)?;
            rest = after;
            attachments.push(read(content, name)?);
        }
        if rest == END { Ok(attachments) } else { Err(Flaw::Attachment) }
    }

    pub(crate) fn header(&self) -> &Header {
        &self.header
    }

    /// Head and body, as the store keeps them.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    fn events_end(&self) -> usize {
        self.bytes.len().saturating_sub(self.header.attachments as usize * NAME)
    }

    /// The events, in order.
    pub(crate) fn entries(&self) -> Entries<'_> {
        Entries {
            bytes: self.bytes.get(HEAD..self.events_end()).unwrap_or_default(),
            sequence: self.header.first,
        }
    }

    /// The names of the attachments, in order.
    pub(crate) fn names(&self) -> impl Iterator<Item = BlobRef> + '_ {
        self.bytes.get(self.events_end()..).unwrap_or_default().chunks_exact(NAME).filter_map(|name| {
            Some(BlobRef { hash: hash_at(name, 0)?, length: u64::from(u32_at(name, 32)?) })
        })
    }
}

/// Reads what it can of the events in bytes that need not be sound, to say what a damaged record was about.
pub(crate) fn guess_tickets(bytes: &[u8]) -> Vec<TicketId> {
    let Ok(header) = read_header(bytes) else { return Vec::new() };
    let body = bytes.get(HEAD..).unwrap_or_default();
    let body = body.get(..header.body as usize).unwrap_or(body);
    let mut tickets: Vec<TicketId> = Entries { bytes: body, sequence: header.first }
        .map_while(Result::ok)
        .take(header.events as usize)
        .filter_map(|entry| entry.event.ticket)
        .collect();
    tickets.sort_unstable();
    tickets.dedup();
    tickets
}

/// Walks the events of one record.
pub(crate) struct Entries<'a> {
    bytes: &'a [u8],
    sequence: u64,
}

impl Iterator for Entries<'_> {
    type Item = Result<Entry, Flaw>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.bytes.is_empty() {
            return None;
        }
        let Some((event, rest)) = read_event(self.bytes) else {
            self.bytes = &[];
            return Some(Err(Flaw::Contents));
        };
        self.bytes = rest;
        let sequence = self.sequence;
        self.sequence = self.sequence.saturating_add(1);
        Some(Ok(Entry { sequence, event }))
    }
}

struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    fn text(&mut self) -> Option<&'a str> {
        let length = u16::from_le_bytes(self.array()?);
        core::str::from_utf8(self.take(usize::from(length))?).ok()
    }
}

pub(crate) fn read_event(bytes: &[u8]) -> Option<(RawEvent, &[u8])> {
    let mut outer = Cursor(bytes);
    let length = u32::from_le_bytes(outer.array()?);
    let mut inner = Cursor(outer.take(length as usize)?);
    let kind = u16::from_le_bytes(inner.array()?);
    let version = u16::from_le_bytes(inner.array()?);
    let wall = u64::from_le_bytes(inner.array()?);
    let mono = u64::from_le_bytes(inner.array()?);
    let [flags] = inner.array()?;
    if flags & !(HAS_SESSION | HAS_TICKET | HAS_KEY) != 0 {
        return None;
    }
    let session = if flags & HAS_SESSION != 0 { Some(SessionId::new(inner.text()?).ok()?) } else { None };
    let ticket =
        if flags & HAS_TICKET != 0 { Some(TicketId(u128::from_le_bytes(inner.array()?))) } else { None };
    let key = if flags & HAS_KEY != 0 { Some(inner.text()?.to_owned()) } else { None };
    let payload = inner.0.to_vec();
    let event = RawEvent { kind, version, stamp: Stamp { wall, mono }, session, ticket, key, payload };
    Some((event, outer.0))
}

/// Why events do not make a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unwritable {
    /// No events.
    #[error("there are no events in the batch")]
    Empty,
    /// More bytes than a record may have.
    #[error("a batch of {bytes} bytes is larger than a record may be ({RECORD_LIMIT})")]
    TooLarge {
        /// How many it would have.
        bytes: u64,
    },
    /// More events than a record may have.
    #[error("a batch of {events} events is larger than a record may be ({EVENTS_LIMIT})")]
    TooMany {
        /// How many it would have.
        events: usize,
    },
    /// An idempotency key is too long.
    #[error("an idempotency key of {length} bytes is longer than {KEY_LIMIT}")]
    Key {
        /// How long it is.
        length: usize,
    },
}

fn write_text(text: &str, into: &mut Vec<u8>) {
    // Both kinds of text are far below 64 KiB: a session by its type, a key by `KEY_LIMIT`.
    let length = u16::try_from(text.len()).unwrap_or(u16::MAX);
    into.extend_from_slice(&length.to_le_bytes());
    into.extend_from_slice(text.as_bytes().get(..usize::from(length)).unwrap_or_default());
}

fn write_event(event: &RawEvent, into: &mut Vec<u8>) {
    let start = into.len();
    into.extend_from_slice(&[0; 4]);
    into.extend_from_slice(&event.kind.to_le_bytes());
    into.extend_from_slice(&event.version.to_le_bytes());
    into.extend_from_slice(&event.stamp.wall.to_le_bytes());
    into.extend_from_slice(&event.stamp.mono.to_le_bytes());
    let mut flags = 0;
    if event.session.is_some() {
        flags |= HAS_SESSION;
    }
    if event.ticket.is_some() {
        flags |= HAS_TICKET;
    }
    if event.key.is_some() {
        flags |= HAS_KEY;
    }
    into.push(flags);
    if let Some(session) = &event.session {
        write_text(session.as_str(), into);
    }
    if let Some(ticket) = event.ticket {
        into.extend_from_slice(&ticket.0.to_le_bytes());
    }
    if let Some(key) = &event.key {
        write_text(key, into);
    }
    into.extend_from_slice(&event.payload);
    // The sum of all payloads was checked against `RECORD_LIMIT`, so the length fits.
    let length = u32::try_from(into.len() - start - 4).unwrap_or(u32::MAX);
    into[start..start + 4].copy_from_slice(&length.to_le_bytes());
}

fn check_limits(events: &[RawEvent], attachments: &[Attachment]) -> Result<(), Unwritable> {
    if events.len() > EVENTS_LIMIT {
        return Err(Unwritable::TooMany { events: events.len() });
    }
    if let Some(length) =
        events.iter().filter_map(|e| e.key.as_ref()).map(String::len).find(|length| *length > KEY_LIMIT)
    {
        return Err(Unwritable::Key { length });
    }
    let envelopes: u64 = events
        .iter()
        .map(|e| {
            let session = e.session.as_ref().map_or(0, |s| s.as_str().len());
            let key = e.key.as_ref().map_or(0, String::len);
            64 + session as u64 + key as u64 + e.payload.len() as u64
        })
        .sum();
    let attached: u64 = attachments.iter().map(|a| (NAME + a.bytes().len()) as u64).sum();
    let bytes = HEAD as u64 + envelopes + attached + END.len() as u64;
    if bytes > RECORD_LIMIT as u64 { Err(Unwritable::TooLarge { bytes }) } else { Ok(()) }
}

/// Writes the record that continues `head` to the end of `into`, and returns it as the tail and the
/// store keep it. A batch without events makes a mark: a record that only notes what is stored.
pub(crate) fn write(
    key: ChainKey,
    head: &Head,
    stored: u64,
    events: &[RawEvent],
    attachments: &[Attachment],
    into: &mut Vec<u8>,
) -> Result<Record, Unwritable> {
    check_limits(events, attachments)?;
    let start = into.len();
    into.resize(start + HEAD, 0);
    for event in events {
        write_event(event, into);
    }
    for attachment in attachments {
        into.extend_from_slice(&attachment.blob().hash);
        into.extend_from_slice(&u32::try_from(attachment.bytes().len()).unwrap_or(u32::MAX).to_le_bytes());
    }
    let body_end = into.len();
    let attached: usize = attachments.iter().map(|a| a.bytes().len()).sum();
    let small = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    let mut header = Header {
        record: head.records,
        first: head.sequence.saturating_add(1),
        events: small(events.len()),
        attachments: small(attachments.len()),
        body: small(body_end - start - HEAD),
        attached: small(attached),
        stored,
        previous: head.hash,
        hash: [0; 32],
    };
    let (fixed, body) = into[start..].split_at_mut(HEAD);
    fixed[..4].copy_from_slice(&MAGIC);
    fixed[4..6].copy_from_slice(&FORMAT.to_le_bytes());
    fixed[8..16].copy_from_slice(&header.record.to_le_bytes());
    fixed[16..24].copy_from_slice(&header.first.to_le_bytes());
    fixed[24..28].copy_from_slice(&header.events.to_le_bytes());
    fixed[28..32].copy_from_slice(&header.attachments.to_le_bytes());
    fixed[32..36].copy_from_slice(&header.body.to_le_bytes());
    fixed[36..40].copy_from_slice(&header.attached.to_le_bytes());
    fixed[40..48].copy_from_slice(&header.stored.to_le_bytes());
    fixed[48..80].copy_from_slice(&header.previous);
    let check = header_check(&fixed[..CHECKED]);
    fixed[CHECKED..HEADER].copy_from_slice(&check);
    header.hash = key.hash(&fixed[..HEADER], body);
    fixed[HEADER..HEAD].copy_from_slice(&header.hash);
    let record = Record { header, bytes: into[start..body_end].into() };
    for attachment in attachments {
        into.extend_from_slice(attachment.bytes());
    }
    into.extend_from_slice(&END);
    Ok(record)
}

/// The granularity at which a disk writes whole or not at all, in bytes.
const SECTOR: usize = 512;

/// Whether bytes that begin at `offset` of a file that held zeros can be what a power loss left of a
/// write that had not been synced: some whole sector of them was never written, or their end was not.
/// What was written completely and is wrong nevertheless has rotted, and is not a torn write.
/// The end shows itself by its last `end` bytes, which a whole record would not have as zeros.
pub(crate) fn may_be_torn(bytes: &[u8], offset: u64, end: usize) -> bool {
    if bytes.iter().rev().take(end).all(|byte| *byte == 0) {
        return true;
    }
    let lead = (SECTOR - (offset % SECTOR as u64) as usize) % SECTOR;
    let (first, rest) = bytes.split_at(lead.min(bytes.len()));
    let blank = |piece: &[u8]| !piece.is_empty() && piece.iter().all(|byte| *byte == 0);
    blank(first) || rest.chunks(SECTOR).any(blank)
}

/// The most that one attachment can take, so that a reader may check a name before it allocates.
pub(crate) const fn attachment_limit() -> u64 {
    INLINE_LIMIT as u64
}
