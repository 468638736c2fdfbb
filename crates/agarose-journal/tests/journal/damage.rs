use std::{
    fs,
    path::{Path, PathBuf},
};

use agarose_journal::{Journal, OpenError, Options, StoreReport};

use super::{append, check, open, options};

/// Everything stays in the segments.
fn keep_all() -> Options {
    Options { retained_bytes: 1 << 40, ..options() }
}

/// A closed journal with two checkpoints and some events after them.
fn filled(directory: &Path, options: &Options) -> u64 {
    let mut journal = Journal::open(directory, options).unwrap().journal;
    append(&mut journal, 1, 3001, 20);
    journal.checkpoint().unwrap();
    append(&mut journal, 3001, 5001, 20);
    journal.checkpoint().unwrap();
    append(&mut journal, 5001, 5101, 3);
    5100
}

pub(crate) fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

fn flip(path: &Path, byte: u64, bit: u8) {
    let mut bytes = fs::read(path).unwrap();
    bytes[byte as usize] ^= 1 << bit;
    fs::write(path, bytes).unwrap();
}

/// Damages a copy of a journal's store and opens it; returns what the start said.
fn with_damaged_store(original: &Path, last: u64, damage: impl FnOnce(&Path)) -> StoreReport {
    let directory = tempfile::tempdir().unwrap();
    copy(original, directory.path());
    damage(&directory.path().join("store"));
    let mut opened = Journal::open(directory.path(), &keep_all()).unwrap();
    check(&opened.journal, last);
    append(&mut opened.journal, last + 1, last + 50, 7);
    opened.journal.close().unwrap();
    let opened = Journal::open(directory.path(), &keep_all()).unwrap();
    check(&opened.journal, last + 49);
    let StoreReport::Sound = opened.report.store else { panic!("{:?}", opened.report) };
    opened.report.store
}

#[test]
fn whatever_happens_to_the_store_the_segments_make_it_whole() {
    let original = tempfile::tempdir().unwrap();
    let last = filled(original.path(), &keep_all());
    let place = original.path();
    let length = fs::metadata(place.join("store/db")).unwrap().len();
    with_damaged_store(place, last, |store| fs::remove_dir_all(store).unwrap());
    with_damaged_store(place, last, |store| fs::remove_file(store.join("db")).unwrap());
    with_damaged_store(place, last, |store| fs::remove_file(store.join("conf")).unwrap());
    with_damaged_store(place, last, |store| fs::write(store.join("conf"), b"nonsense").unwrap());
    for cut in [1, 2, 511, 4096, 100_000, length / 2, length - 1, length] {
        with_damaged_store(place, last, |store| {
            fs::OpenOptions::new().write(true).open(store.join("db")).unwrap().set_len(length - cut).unwrap();
        });
    }
    for zeroed in [1, 700, 65_536, length / 2, length] {
        with_damaged_store(place, last, |store| {
            let mut bytes = fs::read(store.join("db")).unwrap();
            let from = bytes.len() - zeroed as usize;
            bytes[from..].fill(0);
            fs::write(store.join("db"), bytes).unwrap();
        });
    }
}

#[test]
fn a_bit_flipped_anywhere_in_the_store_loses_nothing() {
    let original = tempfile::tempdir().unwrap();
    let last = filled(original.path(), &keep_all());
    let length = fs::metadata(original.path().join("store/db")).unwrap().len();
    let used = length.min(1 << 20);
    for n in 0..40 {
        with_damaged_store(original.path(), last, |store| {
            flip(&store.join("db"), (n * 7919 * 31) % used, (n % 8) as u8);
        });
    }
}

/// Makes the store one that does not open.
fn spoil(store: &Path) {
    fs::rename(store.join("db"), store.join("db.before")).unwrap();
    fs::create_dir(store.join("db")).unwrap();
}

#[test]
fn a_store_that_cannot_be_used_is_kept_and_the_report_says_where() {
    let directory = tempfile::tempdir().unwrap();
    let last = filled(directory.path(), &keep_all());
    spoil(&directory.path().join("store"));
    let opened = Journal::open(directory.path(), &keep_all()).unwrap();
    let StoreReport::SetAside { path: Some(path), .. } = &opened.report.store else {
        panic!("{:?}", opened.report)
    };
    assert!(path.join("db.before").exists());
    assert_eq!(opened.report.fed, last);
    check(&opened.journal, last);
}

#[test]
fn a_store_of_another_journal_is_not_believed() {
    let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let last = filled(one.path(), &keep_all());
    let mut other = open(two.path()).journal;
    append(&mut other, 1, 40, 4);
    other.close().unwrap();
    fs::remove_dir_all(one.path().join("store")).unwrap();
    copy(&two.path().join("store"), &one.path().join("store"));
    let opened = Journal::open(one.path(), &keep_all()).unwrap();
    assert!(
        matches!(opened.report.store, StoreReport::SetAside { path: Some(_), .. }),
        "{:?}",
        opened.report
    );
    check(&opened.journal, last);
}

fn segments(directory: &Path) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> =
        fs::read_dir(directory.join("segments")).unwrap().map(|entry| entry.unwrap().path()).collect();
    found.sort();
    found
}

/// Where the records of a segment end: zeros follow.
fn used(path: &Path) -> u64 {
    let bytes = fs::read(path).unwrap();
    bytes.iter().rposition(|byte| *byte != 0).unwrap() as u64 + 1
}

fn last_used(directory: &Path) -> (PathBuf, u64) {
    segments(directory)
        .into_iter()
        .map(|path| (path.clone(), used(&path)))
        .rfind(|(_, used)| *used > 512)
        .unwrap()
}

#[test]
fn the_last_record_torn_at_every_byte_is_cut_and_the_log_goes_on() {
    let original = tempfile::tempdir().unwrap();
    let mut journal = open(original.path()).journal;
    append(&mut journal, 1, 20, 3);
    let (path, before) = (last_used(original.path()).0, last_used(original.path()).1);
    append(&mut journal, 20, 22, 2);
    let after = used(&path);
    // The copies are of a process that was killed: the store knows nothing of the last record.
    let killed = tempfile::tempdir().unwrap();
    copy(original.path(), killed.path());
    fs::remove_dir_all(killed.path().join("store")).unwrap();
    drop(journal);
    let name = path.file_name().unwrap();
    // Every byte of it is torn in the simulation; here some are, with real files.
    for cut in (before..after).step_by(19).chain(after - 3..after) {
        let directory = tempfile::tempdir().unwrap();
        copy(killed.path(), directory.path());
        let torn = directory.path().join("segments").join(name);
        let mut bytes = fs::read(&torn).unwrap();
        bytes[cut as usize..].fill(0);
        fs::write(&torn, bytes).unwrap();
        let mut opened = open(directory.path());
        assert_eq!(opened.report.cut.is_some(), cut > before, "cut at {cut}");
        check(&opened.journal, 19);
        append(&mut opened.journal, 20, 30, 4);
        drop(opened);
        let mut opened = open(directory.path());
        assert_eq!(opened.report.cut, None);
        check(&opened.journal, 29);
        append(&mut opened.journal, 30, 33, 1);
        drop(opened);
        check(&open(directory.path()).journal, 32);
    }
}

#[test]
fn damage_before_the_end_stops_the_start_and_says_where_and_whose_it_is() {
    let directory = tempfile::tempdir().unwrap();
    let mut journal = open(directory.path()).journal;
    append(&mut journal, 1, 100, 3);
    journal.close().unwrap();
    let path = segments(directory.path())[0].clone();
    let original = fs::read(&path).unwrap();
    // In the payload of the first event of some record.
    let needle = 40u64.to_le_bytes().repeat(8);
    let at = original.windows(needle.len()).position(|window| window == needle).unwrap();
    flip(&path, at as u64 + 3, 2);
    let Err(OpenError::Damaged(damage)) = Journal::open(directory.path(), &options()) else {
        panic!("opened")
    };
    assert_eq!(damage.path, path);
    assert_eq!((damage.record, damage.sequence), (13, 40));
    assert!(damage.offset < at as u64 && damage.offset + 200 > at as u64);
    let tickets: Vec<u128> = damage.tickets.iter().map(|ticket| ticket.0).collect();
    assert_eq!(tickets, [10]);
    assert!(damage.what.contains("follows it"), "{damage}");
    // Nothing was repaired, and once the damage is undone nothing is missing.
    fs::write(&path, &original).unwrap();
    check(&open(directory.path()).journal, 99);
}

#[test]
fn a_last_record_that_was_written_and_has_rotted_is_not_taken_for_a_torn_one() {
    let directory = tempfile::tempdir().unwrap();
    let mut journal = open(directory.path()).journal;
    append(&mut journal, 1, 20, 3);
    drop(journal);
    fs::remove_dir_all(directory.path().join("store")).unwrap();
    let (path, end) = last_used(directory.path());
    flip(&path, end - 30, 1);
    let Err(OpenError::Damaged(damage)) = Journal::open(directory.path(), &options()) else {
        panic!("opened")
    };
    assert!(damage.what.contains("was written to its end"), "{damage}");
}

#[test]
fn a_last_record_that_the_store_knows_is_not_taken_for_a_torn_one() {
    let directory = tempfile::tempdir().unwrap();
    let mut journal = open(directory.path()).journal;
    append(&mut journal, 1, 20, 3);
    journal.checkpoint().unwrap();
    drop(journal);
    let (path, end) = last_used(directory.path());
    let mut bytes = fs::read(&path).unwrap();
    bytes[end as usize - 30..].fill(0);
    fs::write(&path, bytes).unwrap();
    let Err(OpenError::Damaged(damage)) = Journal::open(directory.path(), &options()) else {
        panic!("opened")
    };
    assert!(damage.what.contains("the store has events up to 19"), "{damage}");
}

#[test]
fn segments_of_a_newer_version_are_refused_by_that_name() {
    let directory = tempfile::tempdir().unwrap();
    let mut journal = open(directory.path()).journal;
    append(&mut journal, 1, 20, 3);
    drop(journal);
    let path = segments(directory.path())[0].clone();
    let mut bytes = fs::read(&path).unwrap();
    bytes[8] = 9;
    let check = *blake3::hash(&bytes[..480]).as_bytes();
    bytes[480..512].copy_from_slice(&check);
    fs::write(&path, bytes).unwrap();
    let Err(error) = Journal::open(directory.path(), &options()) else { panic!("opened") };
    assert!(error.to_string().contains("format 9, written by a newer version"), "{error}");
}

#[test]
fn unfinished_files_are_removed_at_the_start_and_named() {
    let directory = tempfile::tempdir().unwrap();
    drop(open(directory.path()));
    for name in
        ["segments/0000000000000002.seg.tmp", "snapshots/00000000000000000009.snap.tmp", "blobs/1-2.tmp"]
    {
        fs::write(directory.path().join(name), b"half").unwrap();
    }
    let opened = open(directory.path());
    assert_eq!(opened.report.removed.len(), 3);
    assert_eq!(open_twice_names(directory.path()), 0);
}

fn open_twice_names(directory: &Path) -> usize {
    ["segments", "snapshots", "blobs"]
        .iter()
        .flat_map(|name| fs::read_dir(directory.join(name)).unwrap())
        .filter(|entry| entry.as_ref().unwrap().path().extension().is_some_and(|end| end == "tmp"))
        .count()
}

#[test]
fn a_half_written_snapshot_is_ignored_and_a_lost_end_of_the_log_is_noticed_by_a_whole_one() {
    let directory = tempfile::tempdir().unwrap();
    let mut journal = open(directory.path()).journal;
    append(&mut journal, 1, 40, 3);
    journal.snapshots().write(39, b"state").unwrap();
    drop(journal);
    fs::write(directory.path().join("snapshots/00000000000000000099.snap"), b"AGARSNP\x01half").unwrap();
    let opened = open(directory.path());
    assert_eq!(opened.snapshot.as_ref().map(|snapshot| snapshot.sequence), Some(39));
    assert_eq!(opened.report.passed_over.len(), 1);
    drop(opened);
    fs::remove_dir_all(directory.path().join("store")).unwrap();
    let (path, _) = last_used(directory.path());
    let mut bytes = fs::read(&path).unwrap();
    bytes[1000..].fill(0);
    fs::write(&path, bytes).unwrap();
    let Err(OpenError::Damaged(damage)) = Journal::open(directory.path(), &options()) else {
        panic!("opened")
    };
    assert!(damage.what.contains("a snapshot has folded events up to 39"), "{damage}");
}

#[test]
fn a_crash_loop_leaves_no_more_files_than_one_crash() {
    let directory = tempfile::tempdir().unwrap();
    let mut counts = Vec::new();
    for n in 0..12 {
        let mut opened = Journal::open(directory.path(), &keep_all()).unwrap();
        let next = opened.report.head.sequence + 1;
        append(&mut opened.journal, next, next + 2, 2);
        drop(opened);
        let (path, end) = last_used(directory.path());
        // A torn record each time, and a store that has to be set aside each time.
        let mut file = fs::read(&path).unwrap();
        file[end as usize..end as usize + 4].copy_from_slice(b"AGR\x01");
        fs::write(&path, file).unwrap();
        spoil(&directory.path().join("store"));
        let aside = fs::read_dir(directory.path())
            .unwrap()
            .filter(|entry| entry.as_ref().unwrap().file_name().to_str().unwrap().starts_with("store.aside"))
            .count();
        counts.push(aside);
        assert!(aside <= 3, "round {n}: {counts:?}");
    }
}
