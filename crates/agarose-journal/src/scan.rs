//! Reading all segments of a directory and judging what is there: the log, a torn end, or damage.
//!
//! Appends follow each other one by one, each synced before the next, so a crash can leave at most one
//! record that is not whole, and it is the last. A record that is not whole is therefore damage when a
//! sound record follows it, when somebody (store, snapshot) knows it, or when it does not look torn.

use std::{collections::VecDeque, io, path::PathBuf};

use crate::{
    error::{Damage, OpenError},
    record::{self, ChainKey, Flaw, HEAD, Head, Record},
    segment::{self, End, Found, HEADER},
};

/// One segment and what it holds.
pub(crate) struct Scanned {
    pub(crate) found: Found,
    pub(crate) size: u64,
    /// Where the log stands before its first record and after its last one; `None` if it holds none.
    pub(crate) holds: Option<(Head, Head)>,
    /// Where its records end, in bytes from the start of the file.
    pub(crate) end: u64,
    /// Where its last record lies and how long it is.
    pub(crate) last: Option<(u64, u64)>,
    /// Whether there is nothing but zeros after its header.
    pub(crate) blank: bool,
}

impl Scanned {
    /// The records that were found, once more.
    pub(crate) fn records(&self) -> io::Result<Vec<u8>> {
        let mut bytes = self.found.read()?;
        // What came after them was not checked.
        bytes.truncate(usize::try_from(self.end.saturating_sub(HEADER)).unwrap_or(usize::MAX));
        Ok(bytes)
    }
}

/// A place where bytes are that are no record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Torn {
    /// The file.
    pub path: PathBuf,
    /// Where in the file, in bytes.
    pub offset: u64,
    /// The record that was being written, counted from 0.
    pub record: u64,
    /// The first event that it would have had.
    pub sequence: u64,
}

/// What the segments say.
pub(crate) struct Scan {
    pub(crate) segments: Vec<Scanned>,
    /// Where the log stands before the first record there is; `None` when there is no record.
    pub(crate) from: Option<Head>,
    /// Where it stands after the last one.
    pub(crate) head: Head,
    /// How much the store must have, in events, by what the records note.
    pub(crate) stored: u64,
    /// The torn end, if there is one.
    pub(crate) torn: Option<Torn>,
    pub(crate) warnings: Vec<String>,
    /// What is wrong with the segments, if anything is.
    pub(crate) damage: Option<ScanError>,
    /// The segments that were not read because of that.
    pub(crate) unread: VecDeque<Found>,
}

/// Why a scan did not end well.
pub(crate) enum ScanError {
    Io(PathBuf, io::Error),
    Newer(PathBuf, u16),
    Damaged(Box<Damage>),
}

impl From<ScanError> for OpenError {
    fn from(error: ScanError) -> Self {
        match error {
            ScanError::Io(path, source) => Self::Io { path, source },
            ScanError::Newer(path, format) => Self::Newer { path, format },
            ScanError::Damaged(damage) => Self::Damaged(damage),
        }
    }
}

impl From<Damage> for ScanError {
    fn from(damage: Damage) -> Self {
        Self::Damaged(Box::new(damage))
    }
}

/// An end of records that is not clean, until something tells what it was.
struct Question {
    path: PathBuf,
    offset: u64,
    /// Why it is damage, if it is that by its looks.
    not_torn: Option<String>,
    tickets: Vec<agarose_core::TicketId>,
}

impl Question {
    fn damage(self, head: Head, what: String) -> Damage {
        Damage {
            path: self.path,
            offset: self.offset,
            record: head.records,
            sequence: head.sequence.saturating_add(1),
            what,
            tickets: self.tickets,
        }
    }
}

/// Reads and judges segments in order. They must be those of one journal; what is wrong with them is in the
/// result, with everything that comes before it.
pub(crate) fn scan(found: Vec<Found>, chain: ChainKey, journal: &[u8; 16]) -> Scan {
    let mut scan = Scan {
        segments: Vec::new(),
        from: None,
        head: chain.genesis(),
        stored: 0,
        torn: None,
        warnings: Vec::new(),
        damage: None,
        unread: found.into(),
    };
    scan.damage = scan.read(chain, journal).err();
    scan
}

impl Scan {
    fn read(&mut self, chain: ChainKey, journal: &[u8; 16]) -> Result<(), ScanError> {
        let begins = self.unread.front().is_some_and(|segment| segment.number == 1);
        let mut head = begins.then(|| chain.genesis());
        let mut questions: Vec<Question> = Vec::new();
        let mut ended: Option<(PathBuf, u64)> = None;
        while let Some(segment) = self.unread.front() {
            let before = self.segments.last().map(|before: &Scanned| before.found.number);
            check_header(segment, before, self.head, journal)?;
            let bytes = segment.read().map_err(|error| ScanError::Io(segment.path.clone(), error))?;
            let Some(segment) = self.unread.pop_front() else { break };
            let mut first = None;
            let mut last = None;
            let walked = segment::walk(
                |bytes| Record::read_whole(chain, bytes),
                &bytes,
                &mut head,
                |offset, record, _| {
                    first.get_or_insert_with(|| record.header().before());
                    last = Some((offset, record.header().length() as u64));
                    self.stored = self.stored.max(record.header().stored);
                    Ok::<(), ScanError>(())
                },
            );
            let (at, end) = walked?;
            let offset = HEADER + at as u64;
            let rest = bytes.get(at..).unwrap_or_default();
            self.head = head.unwrap_or(self.head);
            self.from = self.from.or(first);
            let path = segment.path.clone();
            let judged = judge(&segment, chain, &bytes, at, end, self.head, &mut self.warnings);
            self.segments.push(Scanned {
                size: segment.header.map_or(0, |header| header.size),
                holds: first.zip(head),
                end: offset,
                last,
                blank: at == 0 && segment::is_blank(rest),
                found: segment,
            });
            if let End::Bad(Flaw::Newer(format)) = end {
                return Err(ScanError::Newer(path, format));
            }
            if first.is_some() {
                // What came before continues here without a hole, so whatever lay at its end was cut long ago.
                questions.clear();
            } else if end == End::Bad(Flaw::Chain) {
                let what = format!("{} begins with a record that does not follow", path.display());
                let (path, offset) = ended.unwrap_or((path, offset));
                let tickets = record::guess_tickets(rest);
                let question = questions.pop().unwrap_or(Question { path, offset, not_torn: None, tickets });
                return Err(question.damage(self.head, what).into());
            }
            ended = Some((path, offset));
            questions.extend(judged?);
        }
        for mut question in questions {
            if let Some(what) = question.not_torn.take() {
                return Err(question.damage(self.head, what).into());
            }
            self.torn = Some(Torn {
                path: question.path,
                offset: question.offset,
                record: self.head.records,
                sequence: self.head.sequence.saturating_add(1),
            });
        }
        Ok(())
    }
}

fn check_header(
    segment: &Found,
    before: Option<u64>,
    head: Head,
    journal: &[u8; 16],
) -> Result<(), ScanError> {
    let what = match segment.header {
        Err(Flaw::Newer(format)) => return Err(ScanError::Newer(segment.path.clone(), format)),
        Err(flaw) => format!("the segment cannot be read: {flaw}"),
        Ok(header) if header.journal != *journal => "the segment belongs to another journal".to_owned(),
        Ok(_) => match before {
            Some(before) if segment.number != before + 1 => {
                format!("the segment before it, {}, is missing", segment::name(before + 1))
            }
            Some(_) | None => return Ok(()),
        },
    };
    let question = Question { path: segment.path.clone(), offset: 0, not_torn: None, tickets: Vec::new() };
    Err(question.damage(head, what).into())
}

/// What the end of the records of one segment is by its looks; nothing when it is clean.
fn judge(
    segment: &Found,
    chain: ChainKey,
    bytes: &[u8],
    at: usize,
    end: End,
    head: Head,
    warnings: &mut Vec<String>,
) -> Result<Option<Question>, ScanError> {
    let offset = HEADER + at as u64;
    let rest = bytes.get(at..).unwrap_or_default();
    let question = |not_torn: Option<String>| Question {
        path: segment.path.clone(),
        offset,
        not_torn,
        tickets: record::guess_tickets(rest),
    };
    let missing = segment.missing();
    if missing > 0 {
        // The file was made with its full length before its first record, so no crash makes it shorter.
        let shown = segment.length.saturating_sub(offset);
        if end == End::Clean && shown >= HEAD as u64 && segment::is_blank(rest) {
            let path = segment.path.display();
            warnings.push(format!("{path} is {missing} bytes short; they were after its last record"));
            return Ok(None);
        }
        return Ok(Some(question(Some(format!("the file is cut: {missing} bytes are missing at its end")))));
    }
    let flaw = match end {
        End::Full => return Ok(None),
        End::Clean if segment::is_blank(rest) => return Ok(None),
        End::Clean => Flaw::Blank,
        End::Bad(flaw) => flaw,
    };
    // A record that is not whole was the last to be written, or it was acknowledged.
    if let Some((further, sound, _)) = segment::find_sound(chain, rest, 1, head.records) {
        let what = format!(
            "{flaw}, and record {} at byte {} follows it",
            sound.header().record,
            offset + further as u64
        );
        return Err(question(None).damage(head, what).into());
    }
    let not_torn = match flaw {
        Flaw::Blank | Flaw::Header | Flaw::Hash | Flaw::Attachment | Flaw::Length => {
            // A header that can be read says how long the record is, and the end mark is not zero.
            let (length, end) = record::read_header(rest).map_or((HEAD, 4), |header| (header.length(), 1));
            let written = rest.get(..length.min(rest.len())).unwrap_or_default();
            let torn = flaw == Flaw::Blank || record::may_be_torn(written, offset, end);
            (!torn).then(|| format!("{flaw}, and it was written to its end"))
        }
        Flaw::Contents | Flaw::Chain | Flaw::Newer(_) => Some(flaw.to_string()),
    };
    Ok(Some(question(not_torn)))
}
