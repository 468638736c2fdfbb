use std::{
    collections::BTreeMap,
    fs,
    io::BufReader,
    path::{Path, PathBuf},
};

use agarose_core::{SessionId, Stamp, event::Event};
use agarose_journal::{
    Attachment, Journal, Options, RawEvent, ReadError,
    export::{ImportError, export, import},
    inspect::{Depth, InspectError, Inspector, SalvageError, Severity, salvage, verify},
};

use super::options;

/// Everything below a directory, with its bytes.
fn contents(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(contents(&path));
        } else {
            found.insert(path.clone(), fs::read(&path).unwrap());
        }
    }
    found
}

fn event(n: u64) -> RawEvent {
    let event = Event::SessionRemoved { session: SessionId::new(&format!("session {n}")).unwrap() };
    RawEvent::of(&event, Stamp { wall: 1000 + n, mono: n }).unwrap()
}

/// A journal with 300 events that decode, attachments, a blob file and a snapshot.
fn filled(directory: &Path) -> Journal {
    let mut journal = Journal::open(directory, &options()).unwrap().journal;
    journal.blobs().store(&[5; 100_000]).unwrap();
    for n in 0..100 {
        let events = [event(3 * n + 1), event(3 * n + 2), event(3 * n + 3)];
        let attachment = Attachment::new(n.to_le_bytes().repeat(100)).unwrap();
        journal.append(&events, &[attachment]).unwrap();
        if n == 60 {
            journal.checkpoint().unwrap();
            journal.snapshots().write(3 * n + 3, b"state").unwrap();
        }
    }
    journal
}

fn first_segment(directory: &Path) -> PathBuf {
    directory.join("segments/0000000000000001.seg")
}

/// Where record `n` begins in the first segment, by walking over the lengths in the headers.
fn offset_of(bytes: &[u8], n: u64) -> usize {
    let u32_at = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
    (0..n).fold(512, |at, _| at + 116 + u32_at(at + 32) + u32_at(at + 36) + 4)
}

#[test]
fn a_sound_journal_verifies_and_nothing_in_it_is_touched() {
    let directory = tempfile::tempdir().unwrap();
    filled(directory.path()).close().unwrap();
    let before = contents(directory.path());
    let report = verify(directory.path(), Depth::Everything).unwrap();
    assert!(report.is_sound());
    assert_eq!(report.findings, []);
    assert_eq!((report.first, report.head.sequence, report.events), (1, 300, 300));
    assert_eq!((report.records, report.contents, report.snapshots), (101, 101, 1));
    assert_eq!(contents(directory.path()), before);
}

#[test]
fn a_journal_in_use_is_inspected_beside_its_owner() {
    let directory = tempfile::tempdir().unwrap();
    let mut journal = filled(directory.path());
    let inspector = Inspector::open(directory.path()).unwrap();
    assert_eq!(inspector.holder().unwrap().pid, Some(std::process::id()));
    assert_eq!(inspector.reader().head().sequence, 300);
    assert_eq!(inspector.reader().events(..).map(Result::unwrap).count(), 300);
    assert_eq!(inspector.findings().iter().map(|found| found.severity).collect::<Vec<_>>(), [Severity::Note]);
    journal.append(&[event(301)], &[]).unwrap();
    assert_eq!(verify(directory.path(), Depth::Everything).unwrap().head.sequence, 301);
}

#[test]
fn there_is_nothing_to_inspect_where_there_is_no_journal() {
    let directory = tempfile::tempdir().unwrap();
    assert!(matches!(Inspector::open(directory.path()), Err(InspectError::NotAJournal { .. })));
    fs::create_dir(directory.path().join("segments")).unwrap();
    let empty = verify(directory.path(), Depth::Everything).unwrap();
    assert_eq!((empty.head.sequence, empty.records), (0, 0));
}

#[test]
fn a_journal_without_its_store_is_read_from_its_segments() {
    let directory = tempfile::tempdir().unwrap();
    drop(filled(directory.path()));
    fs::remove_dir_all(directory.path().join("store")).unwrap();
    let report = verify(directory.path(), Depth::Everything).unwrap();
    assert_eq!((report.head.sequence, report.events, report.is_sound()), (300, 300, true));
    assert_eq!(report.findings.len(), 1);
}

#[test]
fn a_journal_without_its_segments_is_read_from_its_store_and_called_damaged() {
    let directory = tempfile::tempdir().unwrap();
    filled(directory.path()).close().unwrap();
    fs::remove_dir_all(directory.path().join("segments")).unwrap();
    let report = verify(directory.path(), Depth::Everything).unwrap();
    assert_eq!((report.head.sequence, report.events, report.is_sound()), (300, 300, false));
}

#[test]
fn damage_that_the_store_can_bridge_costs_nothing_in_a_salvage() {
    let directory = tempfile::tempdir().unwrap();
    let journal = filled(directory.path());
    let head = journal.head();
    drop(journal);
    let path = first_segment(directory.path());
    let mut bytes = fs::read(&path).unwrap();
    let at = offset_of(&bytes, 7) + 150;
    bytes[at] ^= 1;
    fs::write(&path, bytes).unwrap();
    assert!(Journal::open(directory.path(), &options()).is_err());
    let before = contents(directory.path());
    let target = tempfile::tempdir().unwrap();
    let into = target.path().join("salvaged");
    let report = salvage(directory.path(), &into).unwrap();
    assert_eq!((report.first, report.head), (1, head));
    assert_eq!((report.lost_contents.len(), report.beyond.len()), (0, 0));
    assert!(
        report.findings.iter().any(|found| found.record == Some(7) && found.severity == Severity::Damage)
    );
    assert_eq!(contents(directory.path()), before);
    assert!(verify(&into, Depth::Everything).unwrap().is_sound());
    let opened = Journal::open(&into, &Options::default()).unwrap();
    assert_eq!(opened.report.head, head);
    assert_eq!(opened.snapshot.unwrap().sequence, 183);
    assert_eq!(opened.journal.blobs().store(&[5; 100_000]).unwrap().length, 100_000);
}

#[test]
fn damage_that_nothing_bridges_ends_a_salvage_and_what_lies_behind_is_written_down() {
    let directory = tempfile::tempdir().unwrap();
    drop(filled(directory.path()));
    fs::remove_dir_all(directory.path().join("store")).unwrap();
    fs::remove_dir_all(directory.path().join("snapshots")).unwrap();
    let path = first_segment(directory.path());
    let mut bytes = fs::read(&path).unwrap();
    let at = offset_of(&bytes, 20) + 130;
    bytes[at] ^= 1;
    fs::write(&path, bytes).unwrap();
    let target = tempfile::tempdir().unwrap();
    let report = salvage(directory.path(), target.path()).unwrap();
    assert_eq!(report.head.sequence, 60);
    assert_eq!(
        report.beyond.iter().map(|beyond| beyond.record).collect::<Vec<_>>(),
        (21..100).collect::<Vec<_>>()
    );
    let lines = fs::read_to_string(target.path().join("beyond.jsonl")).unwrap();
    assert_eq!(lines.lines().count(), 79);
    assert_eq!(Journal::open(target.path(), &options()).unwrap().report.head.sequence, 60);
    assert!(matches!(salvage(directory.path(), target.path()), Err(SalvageError::NotEmpty { .. })));
}

#[test]
fn no_damage_makes_the_inspector_fail() {
    let original = tempfile::tempdir().unwrap();
    drop(filled(original.path()));
    let segment = fs::read(first_segment(original.path())).unwrap();
    let mut state = 1u64;
    for n in 0..60u64 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(n);
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("segments")).unwrap();
        let mut bytes = segment.clone();
        let at = (state >> 20) as usize % bytes.len();
        match n % 4 {
            0 => bytes[at] ^= 1 << (n % 8),
            1 => bytes.truncate(at),
            2 => bytes[at..].fill(0),
            _ => bytes.iter_mut().skip(at).for_each(|byte| *byte = byte.wrapping_mul(31).wrapping_add(7)),
        }
        fs::write(first_segment(directory.path()), bytes).unwrap();
        let report = verify(directory.path(), Depth::Everything).unwrap();
        assert!(report.head.sequence <= 300);
        assert_eq!(report.events, report.head.sequence);
        let target = tempfile::tempdir().unwrap();
        assert_eq!(salvage(directory.path(), target.path()).unwrap().head, report.head);
    }
}

#[test]
fn a_wall_clock_that_went_back_is_kept_and_noted() {
    let directory = tempfile::tempdir().unwrap();
    let mut journal = Journal::open(directory.path(), &options()).unwrap().journal;
    let mut earlier = event(2);
    earlier.stamp.wall = 400;
    journal.append(&[event(1), earlier], &[]).unwrap();
    drop(journal);
    let report = verify(directory.path(), Depth::Everything).unwrap();
    assert_eq!(report.findings.len(), 1);
    assert_eq!((report.findings[0].severity, report.findings[0].sequence), (Severity::Note, Some(2)));
    assert_eq!(report.findings[0].what, "the wall clock went back by 601 ms");
}

#[test]
fn an_event_of_a_newer_version_is_found_by_verify() {
    let directory = tempfile::tempdir().unwrap();
    let mut journal = Journal::open(directory.path(), &options()).unwrap().journal;
    let mut newer = event(1);
    newer.version = 7;
    journal.append(&[newer], &[]).unwrap();
    drop(journal);
    let report = verify(directory.path(), Depth::Everything).unwrap();
    assert!(!report.is_sound());
    assert!(report.findings[0].what.contains("written by a newer version"));
}

#[test]
fn importing_an_export_gives_the_same_head_and_exporting_that_the_same_lines() {
    let directory = tempfile::tempdir().unwrap();
    let journal = filled(directory.path());
    let mut lines = Vec::new();
    let head = export(&journal.reader(), &mut lines).unwrap();
    assert_eq!(head, journal.head());
    let target = tempfile::tempdir().unwrap();
    assert_eq!(import(&mut lines.as_slice(), target.path(), &options()).unwrap(), head);
    let opened = Journal::open(target.path(), &options()).unwrap();
    assert_eq!(opened.report.head, head);
    let mut again = Vec::new();
    export(&opened.journal.reader(), &mut again).unwrap();
    assert!(again == lines);
    drop(opened);
    assert!(verify(target.path(), Depth::Everything).unwrap().is_sound());
    let full = import(&mut lines.as_slice(), target.path(), &options());
    assert!(matches!(full, Err(ImportError::NotEmpty { .. })));
}

#[test]
fn an_export_that_was_cut_or_changed_is_not_imported() {
    let directory = tempfile::tempdir().unwrap();
    let journal = filled(directory.path());
    let mut lines = Vec::new();
    export(&journal.reader(), &mut lines).unwrap();
    for cut in [0, 10, lines.len() / 2, lines.len() - 1] {
        let target = tempfile::tempdir().unwrap();
        let refused = import(&mut BufReader::new(&lines[..cut]), target.path(), &options()).unwrap_err();
        assert!(matches!(refused, ImportError::Cut { .. }), "cut to {cut}: {refused}");
    }
    let text = String::from_utf8(lines).unwrap();
    let target = tempfile::tempdir().unwrap();
    let changed = text.replacen("\"wall\":1004", "\"wall\":1005", 1);
    let refused = import(&mut changed.as_bytes(), target.path(), &options()).unwrap_err();
    assert!(matches!(refused, ImportError::Hash { record: 1, .. }), "{refused}");
    let target = tempfile::tempdir().unwrap();
    let newer = text.replacen("\"agarose_export\":1", "\"agarose_export\":2", 1);
    let refused = import(&mut newer.as_bytes(), target.path(), &options()).unwrap_err();
    assert!(matches!(refused, ImportError::Newer { version: 2 }), "{refused}");
}

#[test]
fn a_journal_whose_history_was_given_up_is_salvaged_and_exported_from_where_it_begins() {
    let directory = tempfile::tempdir().unwrap();
    let small = Options { segment_bytes: 8192, retained_bytes: 16_384, ..options() };
    let mut journal = Journal::open(directory.path(), &small).unwrap().journal;
    for n in 1..=400 {
        journal.append(&[event(n)], &[]).unwrap();
        if n % 50 == 0 {
            journal.checkpoint().unwrap();
        }
    }
    journal.snapshots().write(400, b"all").unwrap();
    drop(journal);
    fs::remove_dir_all(directory.path().join("store")).unwrap();
    let accept = Options { accept_lost_history: true, ..small };
    let opened = Journal::open(directory.path(), &accept).unwrap();
    let reader = opened.journal.reader();
    let first = reader.first();
    assert!(first > 1);
    assert_eq!(reader.events(..).map(Result::unwrap).count() as u64, 401 - first);
    assert!(matches!(reader.events(1..).next(), Some(Err(ReadError::Missing { sequence: 1 }))));
    let mut lines = Vec::new();
    let head = export(&reader, &mut lines).unwrap();
    let (imported, salvaged) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    assert_eq!(import(&mut lines.as_slice(), imported.path(), &accept).unwrap(), head);
    drop(opened);
    assert_eq!(salvage(directory.path(), salvaged.path()).unwrap().head, head);
    for made in [imported.path(), salvaged.path()] {
        let opened = Journal::open(made, &accept).unwrap();
        assert_eq!((opened.report.head, opened.journal.reader().first()), (head, first));
    }
}
