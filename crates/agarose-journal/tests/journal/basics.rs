use agarose_core::{SessionId, TicketId};
use agarose_journal::{
    AppendError, Attachment, BlobError, Journal, OpenError, ReadError, StoreReport, Unwritable,
};
use proptest::prelude::*;

use super::{append, check, event, open, options};

#[test]
fn what_was_appended_is_read_back_before_and_after_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let mut opened = open(directory.path());
    assert!(opened.report.created);
    append(&mut opened.journal, 1, 2000, 7);
    check(&opened.journal, 1999);
    opened.journal.close().unwrap();
    let mut opened = open(directory.path());
    assert!(!opened.report.created);
    assert_eq!((opened.report.store.clone(), opened.report.fed), (StoreReport::Sound, 0));
    check(&opened.journal, 1999);
    append(&mut opened.journal, 2000, 2500, 1);
    check(&opened.journal, 2499);
}

#[test]
fn events_are_found_by_ticket_session_and_key_in_the_store_and_in_the_tail() {
    let directory = tempfile::tempdir().unwrap();
    let mut journal = open(directory.path()).journal;
    append(&mut journal, 1, 1001, 10);
    journal.checkpoint().unwrap();
    append(&mut journal, 1001, 1100, 3);
    let reader = journal.reader();
    for ticket in [0, 1, 100, 249, 250, 260, 274] {
        let found: Vec<u64> =
            reader.by_ticket(TicketId(ticket)).map(|entry| entry.unwrap().sequence).collect();
        let expected: Vec<u64> = (1..1100).filter(|n| u128::from(n / 4) == ticket).collect();
        assert_eq!(found, expected, "ticket {ticket}");
    }
    let session = SessionId::new("session-1").unwrap();
    let found: Vec<u64> = reader.by_session(&session).map(|entry| entry.unwrap().sequence).collect();
    assert_eq!(found, (1..1100).filter(|n| n % 3 == 1).collect::<Vec<u64>>());
    assert_eq!(
        reader.by_key(&SessionId::new("session-1").unwrap(), "key-400").unwrap(),
        Some((TicketId(100), 400))
    );
    assert_eq!(reader.by_key(&session, "key-1096").unwrap(), Some((TicketId(274), 1096)));
    assert_eq!(reader.by_key(&session, "key-401").unwrap(), None);
    let some: Vec<u64> = reader.events(998..=1003).map(|entry| entry.unwrap().sequence).collect();
    assert_eq!(some, [998, 999, 1000, 1001, 1002, 1003]);
}

#[test]
fn the_first_event_under_a_key_wins() {
    let directory = tempfile::tempdir().unwrap();
    let mut journal = open(directory.path()).journal;
    let session = SessionId::new("session-1").unwrap();
    let with = |ticket| {
        let mut event = event(1);
        (event.ticket, event.key) = (Some(TicketId(ticket)), Some("same".to_owned()));
        event
    };
    journal.append(&[with(7), with(8)], &[]).unwrap();
    assert_eq!(journal.reader().by_key(&session, "same").unwrap(), Some((TicketId(7), 1)));
    journal.checkpoint().unwrap();
    journal.append(&[with(9)], &[]).unwrap();
    assert_eq!(journal.reader().by_key(&session, "same").unwrap(), Some((TicketId(7), 1)));
    journal.checkpoint().unwrap();
    assert_eq!(journal.reader().by_key(&session, "same").unwrap(), Some((TicketId(7), 1)));
}

#[test]
fn content_is_found_by_its_name_wherever_it_lies() {
    let directory = tempfile::tempdir().unwrap();
    let mut journal = open(directory.path()).journal;
    let small = Attachment::new(&b"print(1)"[..]).unwrap();
    let empty = Attachment::new(&b""[..]).unwrap();
    journal.append(&[event(1)], &[small.clone(), empty.clone()]).unwrap();
    let large: Vec<u8> = (0..300_000u32).flat_map(u32::to_le_bytes).collect();
    let stored = journal.blobs().store(&large).unwrap();
    assert_eq!(journal.blobs().store_from(&mut large.as_slice()).unwrap(), stored);
    for again in [false, true] {
        if again {
            journal.close().unwrap();
            journal = open(directory.path()).journal;
        }
        let reader = journal.reader();
        assert_eq!(reader.blob(&small.blob()).unwrap().as_deref(), Some(&b"print(1)"[..]));
        assert_eq!(reader.blob(&empty.blob()).unwrap().as_deref(), Some(&b""[..]));
        assert_eq!(reader.blob(&stored).unwrap(), Some(large.clone()));
        let mut absent = stored;
        absent.hash[0] ^= 1;
        assert_eq!(reader.blob(&absent).unwrap(), None);
    }
    let shelf = std::fs::read_dir(directory.path().join("blobs")).unwrap().next().unwrap().unwrap().path();
    let file = std::fs::read_dir(shelf).unwrap().next().unwrap().unwrap().path();
    let mut bytes = std::fs::read(&file).unwrap();
    bytes[70_000] ^= 1;
    std::fs::write(&file, bytes).unwrap();
    assert!(matches!(journal.reader().blob(&stored), Err(ReadError::Blob { .. })));
}

#[test]
fn a_failing_source_of_a_blob_leaves_nothing_behind() {
    struct Failing;
    impl std::io::Read for Failing {
        fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
            Err(std::io::Error::other("gone"))
        }
    }
    let directory = tempfile::tempdir().unwrap();
    let journal = open(directory.path()).journal;
    let BlobError { .. } = journal.blobs().store_from(&mut Failing).unwrap_err();
    assert_eq!(std::fs::read_dir(directory.path().join("blobs")).unwrap().count(), 0);
}

#[test]
fn a_second_journal_in_the_same_place_is_refused_and_told_who_holds_it() {
    let directory = tempfile::tempdir().unwrap();
    let _journal = open(directory.path()).journal;
    let Err(error) = Journal::open(directory.path(), &options()) else { panic!("opened twice") };
    let OpenError::Locked(source) = error else { panic!("{error}") };
    assert!(source.to_string().contains(&format!("process {}", std::process::id())), "{source}");
}

#[test]
fn a_batch_that_cannot_be_a_record_is_refused_and_nothing_changes() {
    let directory = tempfile::tempdir().unwrap();
    let mut journal = open(directory.path()).journal;
    assert!(matches!(journal.append(&[], &[]), Err(AppendError::Unwritable(Unwritable::Empty))));
    let mut huge = event(1);
    huge.payload = vec![1; 70 << 20];
    assert!(matches!(
        journal.append(&[huge], &[]),
        Err(AppendError::Unwritable(Unwritable::TooLarge { .. }))
    ));
    let mut long = event(1);
    long.key = Some("k".repeat(2000));
    assert!(matches!(journal.append(&[long], &[]), Err(AppendError::Unwritable(Unwritable::Key { .. }))));
    append(&mut journal, 1, 10, 3);
    check(&journal, 9);
}

#[test]
fn a_record_larger_than_a_segment_gets_one_of_its_own() {
    let directory = tempfile::tempdir().unwrap();
    let mut journal = open(directory.path()).journal;
    append(&mut journal, 1, 600, 5);
    let mut large = event(600);
    large.payload = (0..200_000u32).flat_map(u32::to_le_bytes).collect();
    journal.append(std::slice::from_ref(&large), &[]).unwrap();
    append(&mut journal, 601, 700, 5);
    for again in [false, true] {
        if again {
            journal.close().unwrap();
            journal = open(directory.path()).journal;
        }
        let found: Vec<_> = journal.reader().events(600..=600).map(|entry| entry.unwrap().event).collect();
        assert!(found == [large.clone()]);
        assert_eq!(journal.reader().events(..).map(Result::unwrap).count(), 699);
    }
}

#[test]
fn segments_that_the_store_has_twice_over_are_removed_and_the_log_stays_whole() {
    let directory = tempfile::tempdir().unwrap();
    let mut journal = open(directory.path()).journal;
    let mut next = 1;
    for _ in 0..6 {
        append(&mut journal, next, next + 3000, 100);
        next += 3000;
        journal.checkpoint().unwrap();
    }
    let segments = std::fs::read_dir(directory.path().join("segments")).unwrap().count();
    assert!(segments < 30, "{segments} segments");
    check(&journal, next - 1);
    drop(journal);
    let opened = open(directory.path());
    check(&opened.journal, next - 1);
}

#[test]
fn a_snapshot_is_found_again_and_a_bad_one_is_passed_over() {
    let directory = tempfile::tempdir().unwrap();
    let mut journal = open(directory.path()).journal;
    append(&mut journal, 1, 100, 3);
    journal.snapshots().write(30, b"state at 30").unwrap();
    journal.snapshots().write(60, b"state at 60").unwrap();
    assert!(journal.snapshots().write(61, b"not a commit").is_err());
    drop(journal);
    let opened = open(directory.path());
    assert_eq!(opened.snapshot.map(|s| (s.sequence, s.state)), Some((60, b"state at 60".to_vec())));
    drop(opened.journal);
    let newest = directory.path().join("snapshots/00000000000000000060.snap");
    let mut bytes = std::fs::read(&newest).unwrap();
    bytes[85] ^= 4;
    std::fs::write(&newest, bytes).unwrap();
    let opened = open(directory.path());
    assert_eq!(opened.snapshot.map(|s| s.sequence), Some(30));
    assert_eq!(opened.report.passed_over.len(), 1);
    check(&opened.journal, 99);
}

#[test]
fn a_reader_that_outlives_its_journal_is_told_that_it_is_closed() {
    let directory = tempfile::tempdir().unwrap();
    let mut journal = open(directory.path()).journal;
    append(&mut journal, 1, 100, 3);
    let reader = journal.reader();
    journal.close().unwrap();
    assert!(matches!(reader.events(..).next(), Some(Err(ReadError::Closed))));
    check(&open(directory.path()).journal, 99);
}

#[test]
fn readers_on_other_threads_see_no_gap_and_no_repeat_while_the_log_grows() {
    let directory = tempfile::tempdir().unwrap();
    let mut journal = open(directory.path()).journal;
    let reader = journal.reader();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            let reader = reader.clone();
            scope.spawn(move || {
                let mut seen = 0;
                while seen < 20_000 {
                    for entry in reader.events(seen + 1..) {
                        let entry = entry.unwrap();
                        assert_eq!(entry.sequence, seen + 1);
                        assert_eq!(entry.event.payload[..8], entry.sequence.to_le_bytes());
                        seen = entry.sequence;
                    }
                    std::thread::yield_now();
                }
            });
        }
        append(&mut journal, 1, 20_001, 50);
    });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]
    #[test]
    fn sequence_numbers_have_no_gap_and_no_repeat_over_restarts(
        steps in prop::collection::vec((1u64..40, 0u8..8), 1..25),
    ) {
        let directory = tempfile::tempdir().unwrap();
        let mut journal = open(directory.path()).journal;
        let mut next = 1;
        for (count, then) in steps {
            append(&mut journal, next, next + count, count);
            next += count;
            match then {
                0 => { journal.close().unwrap(); journal = open(directory.path()).journal; }
                1 => { drop(journal); journal = open(directory.path()).journal; }
                2 => journal.checkpoint().unwrap(),
                _ => {}
            }
        }
        check(&journal, next - 1);
    }
}

#[test]
fn the_store_keeps_nothing_in_files_that_nobody_syncs() {
    let directory = tempfile::tempdir().unwrap();
    let mut journal = open(directory.path()).journal;
    let mut names = Vec::new();
    for n in 0..300u64 {
        let mut large = event(n + 1);
        large.payload = vec![n as u8; (n as usize * 977) % 60_000];
        let content: Vec<u8> = (0..8192u64).flat_map(|m| (m * n).to_le_bytes()).collect();
        let attachment = Attachment::new(content).unwrap();
        names.push(attachment.blob());
        journal.append(&[large], &[attachment]).unwrap();
    }
    journal.checkpoint().unwrap();
    let aside = directory.path().join("store/blobs");
    assert_eq!(std::fs::read_dir(aside).map_or(0, Iterator::count), 0);
    for name in names {
        assert_eq!(journal.reader().blob(&name).unwrap().unwrap().len(), 65_536);
    }
    assert_eq!(journal.reader().events(..).map(Result::unwrap).count(), 300);
}
