//! Which events a command looks at.

use std::time::{SystemTime, UNIX_EPOCH};

use agarose_core::{SessionId, TicketId};
use agarose_journal::codec::kind_name;

use crate::{
    args::Filter,
    clock,
    error::LogError,
    log::{Log, Moment},
    words::short,
};

/// A filter whose words have been read.
#[derive(Clone, Debug, Default)]
pub(crate) struct Selection {
    pub(crate) session: Option<SessionId>,
    pub(crate) ticket: Option<TicketId>,
    pub(crate) since: Option<u64>,
    pub(crate) until: Option<u64>,
    pub(crate) from: u64,
    pub(crate) to: Option<u64>,
    pub(crate) kinds: Vec<u16>,
}

impl Selection {
    /// Reads the words of a filter and the names of kinds.
    pub(crate) fn new(filter: &Filter, kinds: &[String]) -> Result<Self, LogError> {
        let time = |text: &Option<String>| text.as_deref().map(time).transpose();
        let kinds: Result<Vec<u16>, LogError> = kinds.iter().map(|kind| kind_number(kind)).collect();
        Ok(Self {
            session: filter.session.clone(),
            ticket: filter.ticket,
            since: time(&filter.since)?,
            until: time(&filter.until)?,
            from: filter.from.unwrap_or(1).max(1),
            to: filter.to,
            kinds: kinds?,
        })
    }

    /// The events that are wanted, in order.
    pub(crate) fn walk(&self, log: &Log) -> impl Iterator<Item = Result<Moment, LogError>> {
        let all = match (self.ticket, &self.session) {
            (Some(ticket), _) => log.by_ticket(ticket),
            (None, Some(session)) => log.by_session(session),
            (None, None) => log.events(self.from, self.to.unwrap_or(u64::MAX)),
        };
        all.filter(|moment| moment.as_ref().map_or(true, |moment| self.takes(moment)))
    }

    /// Whether an event is wanted.
    pub(crate) fn takes(&self, moment: &Moment) -> bool {
        let wall = moment.stamp().wall;
        moment.sequence >= self.from
            && self.to.is_none_or(|to| moment.sequence <= to)
            && self.since.is_none_or(|since| wall >= since)
            && self.until.is_none_or(|until| wall <= until)
            && (self.kinds.is_empty() || self.kinds.contains(&moment.kind()))
            && self.ticket.is_none_or(|ticket| moment.ticket() == Some(ticket))
            && self.session.as_ref().is_none_or(|session| moment.session() == Some(session))
    }

    /// Whether a stretch of time, as the wall clock said, touches what is wanted.
    pub(crate) fn touches(&self, first: u64, last: u64) -> bool {
        self.since.is_none_or(|since| last >= since) && self.until.is_none_or(|until| first <= until)
    }
}

fn time(text: &str) -> Result<u64, LogError> {
    clock::parse(text, now()).ok_or_else(|| LogError::Usage {
        what: format!(
            "{:?} is not a time (2026-12-01T04:00:00Z, or 10m for ten minutes ago)",
            short(text, 60)
        ),
    })
}

fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// The names and numbers of all kinds.
fn kinds() -> impl Iterator<Item = (u16, &'static str)> {
    (0..=u16::MAX).filter_map(|kind| Some((kind, kind_name(kind)?)))
}

fn kind_number(text: &str) -> Result<u16, LogError> {
    if let Ok(number) = text.parse() {
        return Ok(number);
    }
    kinds().find(|(_, name)| name.eq_ignore_ascii_case(text)).map(|(kind, _)| kind).ok_or_else(|| {
        let known: Vec<&str> = kinds().map(|(_, name)| name).collect();
        LogError::Usage {
            what: format!("{:?} is not a kind of event ({})", short(text, 60), known.join(", ")),
        }
    })
}

/// A point in the log: after an event, or at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Point {
    /// After the event with this number.
    After(u64),
    /// After the last event before the first one that is later than this.
    At(u64),
}

impl Point {
    /// Reads `SEQ` or `TIME`.
    pub(crate) fn parse(text: &str) -> Result<Self, LogError> {
        match text.trim().parse() {
            Ok(sequence) => Ok(Self::After(sequence)),
            Err(_) => Ok(Self::At(time(text)?)),
        }
    }

    /// Whether an event lies beyond the point.
    pub(crate) fn is_before(self, moment: &Moment) -> bool {
        match self {
            Self::After(sequence) => moment.sequence > sequence,
            Self::At(wall) => moment.stamp().wall > wall,
        }
    }
}
