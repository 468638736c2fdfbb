//! Journals that released versions wrote: they open, fold and verify for ever.

use std::{
    fs,
    path::{Path, PathBuf},
};

use agarose_core::{
    Counters, Generation, Language, Lease, Millis, Owner, SessionId, Stamp, TicketId, Unit,
    attempt::{EndCause, Executed, Word},
    event::{DaemonStarted, Event, Output, ResultStatus, TicketEnded, TicketQueued},
    slot::KernelProcess,
    ticket::Work,
    world::{Policy, World},
};
use agarose_journal::{
    Attachment, Journal, RawEvent, Reader, StoreReport,
    export::export,
    inspect::{Depth, verify},
};

use super::{damage::copy, options};

fn golden() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("golden/v1")
}

const TICKET: TicketId = TicketId(0x0193_8d5b_7c00_1234_5678_9abc_def0_1122);

/// One cell from the start of the daemon to its end.
fn story() -> (Vec<Vec<Event>>, Vec<Attachment>) {
    let session = SessionId::new("golden").unwrap();
    let (generation, language) = (Generation(1), Language::Python);
    let lease = Lease { generation, ticket: TICKET };
    let source = Attachment::new(&b"print('hello')"[..]).unwrap();
    let record = Attachment::new(&b"{\"status\":\"ok\"}"[..]).unwrap();
    let stream = Attachment::new(&b"hello\n"[..]).unwrap();
    let policy = Policy {
        queue_cap: 64,
        interrupt_grace: Millis(10_000),
        kill_grace: Millis(10_000),
        start_deadline: Millis(60_000),
        kernel_idle: None,
        recent: 1000,
    };
    let output = Output {
        stdout: Counters::whole(6, Unit::Bytes),
        stderr: Counters::whole(0, Unit::Bytes),
        stream: Some(stream.blob()),
    };
    let status = ResultStatus::Ok;
    let work = Work::Cell { source: source.blob(), name: None };
    let commits = vec![
        vec![Event::DaemonStarted(DaemonStarted {
            version: "0.1.0".to_owned(),
            boot: "b7c1d4e0-0000-4000-8000-000000000000".to_owned(),
            pid: 42,
            uptime: 1000,
            found: Vec::new(),
            policy,
        })],
        vec![
            Event::SessionOpened { session: session.clone(), workspace: None },
            Event::TicketQueued(Box::new(TicketQueued {
                key: Some("once".to_owned()),
                digest: [9; 32],
                ..TicketQueued::plain(session.clone(), TICKET, Owner::system(), language, work)
            })),
            Event::TicketAdmitted { session: session.clone(), ticket: TICKET },
            Event::KernelStarting { session: session.clone(), language, generation, previous: None },
        ],
        vec![
            Event::KernelReady {
                session: session.clone(),
                language,
                generation,
                process: KernelProcess {
                    pid: 99,
                    executable: "/usr/bin/python3".to_owned(),
                    version: "3.11.2".to_owned(),
                    packages: String::new(),
                },
            },
            Event::ExecuteRequested { session: session.clone(), lease, ordinal: 1, variables_lost: None },
        ],
        vec![Event::ExecuteAcknowledged { session: session.clone(), lease }],
        vec![
            Event::ResultReceived {
                session: session.clone(),
                lease,
                status,
                interrupt_landed: false,
                record: record.blob(),
                output,
            },
            Event::TicketEnded(TicketEnded {
                session: session.clone(),
                ticket: TICKET,
                word: Word::Completed,
                executed: Executed::Yes,
                cause: EndCause::Result { status },
            }),
            Event::CellClosed { session, ticket: TICKET },
        ],
    ];
    (commits, vec![source, record, stream])
}

/// Writes the golden journal, once: what is there is never written again.
fn write(place: &Path) {
    let mut journal =
        Journal::open(place, &super::Options { segment_bytes: 8192, ..options() }).unwrap().journal;
    let (commits, contents) = story();
    let mut n = 0;
    for commit in &commits {
        let events: Vec<RawEvent> = commit
            .iter()
            .map(|event| {
                n += 1;
                RawEvent::of(event, Stamp { wall: 1_764_547_200_000 + n, mono: n }).unwrap()
            })
            .collect();
        let attached: Vec<Attachment> = match events[0].kind {
            10 => vec![contents[0].clone()],
            42 => contents[1..].to_vec(),
            _ => Vec::new(),
        };
        journal.append(&events, &attached).unwrap();
    }
    journal.blobs().store(&b"a blob file".repeat(10)).unwrap();
    journal.snapshots().write(5, b"a state").unwrap();
    let mut lines = Vec::new();
    journal.close().unwrap();
    let journal = Journal::open(place, &options()).unwrap().journal;
    export(&journal.reader(), &mut lines).unwrap();
    fs::write(place.with_extension("jsonl"), lines).unwrap();
    drop(journal);
    fs::remove_file(place.join("lock")).unwrap();
}

fn fold(reader: &Reader) -> World {
    let mut world = World::new();
    for entry in reader.events(..) {
        let entry = entry.unwrap();
        world.apply(entry.event.stamp, &entry.event.decode().unwrap());
    }
    world
}

#[test]
fn the_golden_journal_opens_verifies_exports_and_folds_as_it_did() {
    let place = golden().join("journal");
    if std::env::var_os("AGAROSE_WRITE_GOLDEN").is_some() && !place.exists() {
        write(&place);
    }
    let expected = fs::read_to_string(golden().join("journal.jsonl")).unwrap();
    for without_store in [false, true] {
        let directory = tempfile::tempdir().unwrap();
        copy(&place, directory.path());
        if without_store {
            fs::remove_dir_all(directory.path().join("store")).unwrap();
        }
        let report = verify(directory.path(), Depth::Everything).unwrap();
        assert!(report.is_sound());
        assert_eq!((report.events, report.records, report.contents, report.snapshots), (11, 6, 4, 1));
        let opened = Journal::open(directory.path(), &options()).unwrap();
        assert_eq!(opened.report.store == StoreReport::Sound, !without_store);
        assert_eq!(opened.snapshot.unwrap().state, b"a state");
        let reader = opened.journal.reader();
        let mut lines = Vec::new();
        export(&reader, &mut lines).unwrap();
        assert!(String::from_utf8(lines).unwrap() == expected, "the export has changed");
        let (_, contents) = story();
        for content in contents {
            assert_eq!(reader.blob(&content.blob()).unwrap().as_deref(), Some(&**content.bytes()));
        }
        let session = SessionId::new("golden").unwrap();
        assert_eq!(reader.by_key(&session, "once").unwrap(), Some((TICKET, 3)));
        assert_eq!(reader.by_ticket(TICKET).map(Result::unwrap).count(), 7);
        let world = fold(&reader);
        assert_eq!((world.anomalies(), world.open_tickets(), world.check()), (0, 0, Ok(())));
        assert_eq!(world.sessions().len(), 1);
    }
}
