//! The journal as its users see it: real files, real sled.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![expect(clippy::print_stdout, reason = "a test that skips itself says why")]

mod basics;
mod crash;
mod damage;
mod golden;
mod inspection;

use std::path::Path;

use agarose_core::{SessionId, Stamp, TicketId};
use agarose_journal::{Entry, Journal, Opened, Options, RawEvent};

/// Small segments, so that a test makes many.
fn options() -> Options {
    Options { segment_bytes: 64 * 1024, retained_bytes: 256 * 1024, reserve_bytes: 0, ..Options::default() }
}

fn open(directory: &Path) -> Opened {
    Journal::open(directory, &options()).unwrap()
}

/// An event that says its number.
fn event(n: u64) -> RawEvent {
    RawEvent {
        kind: 1,
        version: 1,
        stamp: Stamp { wall: 1_700_000_000_000 + n, mono: n },
        session: Some(SessionId::new(&format!("session-{}", n % 3)).unwrap()),
        ticket: Some(TicketId(u128::from(n / 4))),
        key: n.is_multiple_of(4).then(|| format!("key-{n}")),
        payload: n.to_le_bytes().repeat(8),
    }
}

/// Appends events `from..to` (their numbers are their sequence numbers), `batch` at a time.
fn append(journal: &mut Journal, from: u64, to: u64, batch: u64) {
    let mut at = from;
    while at < to {
        let end = (at + batch).min(to);
        let events: Vec<RawEvent> = (at..end).map(event).collect();
        let appended = journal.append(&events, &[]).unwrap();
        assert_eq!((appended.first, appended.last), (at, end - 1));
        at = end;
    }
}

/// Everything in the log is what was appended: events 1 to `last`, once each.
fn check(journal: &Journal, last: u64) {
    let reader = journal.reader();
    assert_eq!(reader.head().sequence, last);
    let found: Vec<Entry> = reader.events(..).map(Result::unwrap).collect();
    let expected: Vec<Entry> = (1..=last).map(|n| Entry { sequence: n, event: event(n) }).collect();
    assert_eq!(found.len(), expected.len());
    assert!(found == expected);
    let mut previous = None;
    for commit in reader.commits(1) {
        let commit = commit.unwrap();
        assert_eq!(commit.record, previous.map_or(0, |(record, _)| record + 1));
        if let Some((_, hash)) = previous {
            assert_eq!(commit.previous, hash);
        }
        previous = Some((commit.record, commit.hash));
    }
    assert_eq!(previous.map(|(record, _)| record + 1).unwrap_or(0), reader.head().records);
}
