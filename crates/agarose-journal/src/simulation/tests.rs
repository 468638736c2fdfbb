//! Power is lost between any two operations, and everything that was acknowledged is there.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use std::path::PathBuf;

use agarose_core::{SessionId, Stamp, TicketId};

use super::{Choices, SimulatedFiles, SimulatedJournal};
use crate::{
    AppendError, Attachment, Entry, Journal, OpenError, Options, RawEvent, ReadError, StoreReport,
    StoreState, simulated::Faults,
};

fn options() -> Options {
    Options { segment_bytes: 4096, retained_bytes: 8192, reserve_bytes: 0, ..Options::default() }
}

fn event(n: u64, seed: u64) -> RawEvent {
    let mut choices = Choices::new(seed ^ n);
    let length = choices.below(9) * choices.below(60);
    RawEvent {
        kind: 1,
        version: 1,
        stamp: Stamp { wall: n, mono: n },
        session: Some(SessionId::new("s").unwrap()),
        ticket: Some(TicketId(u128::from(n))),
        key: n.is_multiple_of(3).then(|| format!("k{n}")),
        // Zeros are what a disk has where nothing was written: they must be told from that.
        payload: (0..length).map(|_| if choices.yes(128) { 0 } else { choices.number() as u8 }).collect(),
    }
}

/// What the outside knows: the last event that was acknowledged, and the last that was being appended.
#[derive(Default)]
struct Known {
    acknowledged: AtomicU64,
    attempted: AtomicU64,
}

fn append(journal: &mut Journal, known: &Known, seed: u64, choices: &mut Choices) -> Result<(), AppendError> {
    let first = journal.head().sequence + 1;
    let count = 1 + choices.below(4);
    let events: Vec<RawEvent> = (first..first + count).map(|n| event(n, seed)).collect();
    let attachments: Vec<Attachment> = (0..choices.below(3))
        .map(|n| Attachment::new(vec![n as u8; choices.below(700) as usize]).unwrap())
        .collect();
    known.attempted.store(first + count - 1, Ordering::SeqCst);
    let appended = journal.append(&events, &attachments)?;
    assert_eq!((appended.first, appended.last), (first, first + count - 1));
    known.acknowledged.store(appended.last, Ordering::SeqCst);
    for attachment in &attachments {
        let found = journal.reader().blob(&attachment.blob()).unwrap();
        assert_eq!(found.as_deref(), Some(&**attachment.bytes()));
    }
    Ok(())
}

fn check(journal: &Journal, seed: u64) {
    let reader = journal.reader();
    let head = reader.head();
    let mut next = 1;
    for entry in reader.events(..) {
        assert_eq!(entry.unwrap(), Entry { sequence: next, event: event(next, seed) });
        next += 1;
    }
    assert_eq!(next, head.sequence + 1);
    let mut previous = crate::record::ChainKey::of(&[7; 16]).genesis();
    for commit in reader.commits(1) {
        let commit = commit.unwrap();
        assert_eq!((commit.record, commit.previous), (previous.records, previous.hash));
        for blob in &commit.attachments {
            assert!(reader.blob(blob).unwrap().is_some());
        }
        previous.records += 1;
        previous.hash = commit.hash;
    }
    assert_eq!((previous.records, previous.hash), (head.records, head.hash));
}

/// Opens what is left, checks it, goes on, and checks it again after one more loss.
fn recover(left: &SimulatedJournal, known: &Known, seed: u64, choices: &mut Choices, depth: u32) {
    let acknowledged = known.acknowledged.load(Ordering::SeqCst);
    let attempted = known.attempted.load(Ordering::SeqCst);
    let again = Known::default();
    if depth > 0 {
        // Power is lost once more while it recovers.
        let (point, own) = (choices.below(14), Choices::new(choices.number()));
        let points = AtomicU64::new(0);
        let store = left.clone();
        let known = Known { acknowledged: acknowledged.into(), attempted: attempted.into() };
        left.files.watch(move |disk| {
            if points.fetch_add(1, Ordering::SeqCst) == point {
                let files = disk.after_power_loss(&mut own.clone());
                recover(
                    &store.with_files(files, &mut own.clone()),
                    &known,
                    seed,
                    &mut own.clone(),
                    depth - 1,
                );
            }
        });
    }
    let mut opened = match left.open(&options()) {
        Ok(opened) => opened,
        Err(error) => panic!("seed {seed}, event {acknowledged}: {error}"),
    };
    left.files.watch(|_| {});
    let head = opened.report.head.sequence;
    assert!(
        head == acknowledged || head == attempted,
        "{acknowledged} acknowledged, {attempted} tried, {head} found"
    );
    check(&opened.journal, seed);
    again.acknowledged.store(head, Ordering::SeqCst);
    again.attempted.store(head, Ordering::SeqCst);
    append(&mut opened.journal, &again, seed, choices).unwrap();
    drop(opened);
    let left = left.after_power_loss(choices);
    let opened = left.open(&options()).unwrap();
    assert_eq!(opened.report.head.sequence, again.acknowledged.load(Ordering::SeqCst));
    check(&opened.journal, seed);
}

/// Runs a workload with a loss of power after every operation on the disk; returns how many losses there were.
fn lose_power_everywhere(seed: u64, steps: u64) -> u64 {
    let mut choices = Choices::new(seed);
    let journal = SimulatedJournal::default();
    let known = Arc::new(Known::default());
    let losses = Arc::new(AtomicU64::new(0));
    {
        let (store, known, losses) = (journal.clone(), Arc::clone(&known), Arc::clone(&losses));
        journal.files.watch(move |disk: &SimulatedFiles| {
            let n = losses.fetch_add(1, Ordering::SeqCst);
            let mut choices = Choices::new(seed.wrapping_mul(31) ^ n);
            let files =
                if n.is_multiple_of(16) { disk.after_kill() } else { disk.after_power_loss(&mut choices) };
            let left = store.with_files(files, &mut choices);
            recover(&left, &known, seed, &mut choices, u32::from(n.is_multiple_of(8)));
        });
    }
    let mut opened = journal.open(&options()).unwrap().journal;
    for _ in 0..steps {
        match choices.below(12) {
            0 => opened.checkpoint().unwrap(),
            1 => {
                let sequence = opened.head().sequence;
                opened.snapshots().write(sequence, &sequence.to_le_bytes()).unwrap();
            }
            2 => {
                opened.close().unwrap();
                opened = journal.open(&options()).unwrap().journal;
            }
            3..6 => opened.step_feeder(),
            _ => append(&mut opened, &known, seed, &mut choices).unwrap(),
        }
    }
    check(&opened, seed);
    losses.load(Ordering::SeqCst)
}

/// How many losses of power to simulate: some tens of thousands, or what the environment says.
fn wanted() -> u64 {
    std::env::var("AGAROSE_POWER_LOSSES").ok().and_then(|n| n.parse().ok()).unwrap_or(20_000)
}

#[test]
fn whatever_a_loss_of_power_takes_nothing_acknowledged_is_lost() {
    let mut losses = 0;
    let mut seed = 1;
    while losses < wanted() {
        losses += lose_power_everywhere(seed, 50);
        seed += 1;
    }
    println!("{losses} losses of power, {} workloads", seed - 1);
}

/// A journal with `batches` batches in it, and what is known of it.
fn filled(options: &Options, batches: u64, seed: u64) -> (SimulatedJournal, Journal, Known, Choices) {
    let (place, known, mut choices) = (SimulatedJournal::default(), Known::default(), Choices::new(seed));
    let mut journal = place.open(options).unwrap().journal;
    for _ in 0..batches {
        append(&mut journal, &known, seed, &mut choices).unwrap();
    }
    (place, journal, known, choices)
}

#[test]
fn a_full_disk_refuses_events_lets_endings_through_and_is_forgotten_when_there_is_room() {
    let options = Options { reserve_bytes: 64 * 1024, segment_bytes: 32 * 1024, ..options() };
    let (place, mut journal, known, mut choices) = filled(&options, 3, 5);
    let used: u64 = place.files.files().iter().map(|(_, length)| length).sum();
    place.files.set_faults(Faults { capacity: Some(used + 8 * 1024), ..Faults::default() });
    let refused = loop {
        match append(&mut journal, &known, 5, &mut choices) {
            Ok(()) => journal.step_feeder(),
            Err(refused) => break refused,
        }
    };
    assert!(matches!(refused, AppendError::DiskFull { .. }), "{refused}");
    assert!(refused.to_string().starts_with("read_only: disk full"));
    check(&journal, 5);
    let ending = |journal: &Journal| [event(journal.head().sequence + 1, 5)];
    for _ in 0..20 {
        journal.append_urgent(&ending(&journal), &[]).unwrap();
        assert!(matches!(append(&mut journal, &known, 5, &mut choices), Err(AppendError::DiskFull { .. })));
    }
    assert!(!journal.status().reserve);
    check(&journal, 5);

    place.files.set_faults(Faults::default());
    append(&mut journal, &known, 5, &mut choices).unwrap();
    assert!(journal.status().reserve);
    check(&journal, 5);
    journal.close().unwrap();
    check(&place.open(&options).unwrap().journal, 5);
}

#[test]
fn a_store_without_room_waits_and_the_segments_keep_what_it_lacks() {
    let options = Options { segment_bytes: 256 * 1024, ..options() };
    let (place, mut journal, known, mut choices) = filled(&options, 3, 6);
    let used: u64 = place.files.files().iter().map(|(_, length)| length).sum();
    place.files.set_faults(Faults { capacity: Some(used), ..Faults::default() });
    append(&mut journal, &known, 6, &mut choices).unwrap();
    journal.step_feeder();
    assert_eq!(journal.status().store, StoreState::NoRoom);
    assert!(matches!(journal.checkpoint(), Err(AppendError::DiskFull { .. })));
    check(&journal, 6);
    place.files.set_faults(Faults::default());
    journal.checkpoint().unwrap();
    assert_eq!((journal.status().store, journal.status().behind), (StoreState::Fed, 0));
}

#[test]
fn a_write_that_fails_half_way_leaves_nothing_of_its_batch() {
    let (place, mut journal, known, mut choices) = filled(&options(), 2, 7);
    let next = place.files.operations() + 1;
    place.files.set_faults(Faults { short_write: Some(next), ..Faults::default() });
    append(&mut journal, &known, 7, &mut choices).unwrap();
    check(&journal, 7);

    let before = journal.head();
    let next = place.files.operations() + 1;
    place.files.set_faults(Faults { failing_writes: next..next + 1, ..Faults::default() });
    let error = append(&mut journal, &known, 7, &mut choices).unwrap_err();
    assert!(matches!(error, AppendError::Io { .. }), "{error}");
    assert_eq!(journal.reader().head(), before);
    let left = place.after_power_loss(&mut choices).open(&options()).unwrap();
    assert_eq!((left.report.head, left.report.cut), (before, None));
    append(&mut journal, &known, 7, &mut choices).unwrap();
    check(&journal, 7);

    let before = journal.head();
    place.files.set_faults(Faults { failing_writes: 0..u64::MAX, ..Faults::default() });
    let error = append(&mut journal, &known, 7, &mut choices).unwrap_err();
    assert!(matches!(error, AppendError::Poisoned { .. }), "a write that cannot be taken back: {error}");
    assert_eq!(journal.reader().head(), before);
    place.files.set_faults(Faults::default());
    drop(journal);
    let opened = place.open(&options()).unwrap();
    assert_eq!(opened.report.head, before);
    check(&opened.journal, 7);
}

#[test]
fn after_a_failed_sync_no_more_is_taken_and_the_next_start_makes_sure_of_what_it_finds() {
    for seed in 0..50 {
        let (place, mut journal, known, mut choices) = filled(&options(), 2, seed);
        place.files.set_faults(Faults { failing_sync: Some(0), ..Faults::default() });
        match append(&mut journal, &known, seed, &mut choices) {
            Err(AppendError::Poisoned { .. }) => {}
            // It was the sync of a new segment: nothing is in doubt, and another one can be made.
            Ok(()) | Err(AppendError::Io { .. }) => continue,
            Err(error) => panic!("{error}"),
        }
        place.files.set_faults(Faults::default());
        let operations = place.files.operations();
        assert!(matches!(
            append(&mut journal, &known, seed, &mut choices),
            Err(AppendError::Poisoned { .. })
        ));
        assert_eq!(place.files.operations(), operations, "it was tried again");
        check(&journal, seed);
        drop(journal);
        // The record reads as written and is not on the disk; what a start shows must survive.
        let shown = place.open(&options()).unwrap().report.head;
        let after = place.after_power_loss(&mut choices).open(&options()).unwrap();
        assert_eq!(after.report.head, shown);
    }
}

#[test]
fn one_flipped_bit_anywhere_is_harmless_or_named() {
    let (mut refused, mut harmless) = (0, 0);
    for seed in 0..400 {
        let (place, journal, known, mut choices) = filled(&options(), 25, seed);
        if choices.yes(128) {
            journal.checkpoint().unwrap();
        }
        drop(journal);
        let files = place.files.files();
        let (path, length) = files[choices.below(files.len() as u64) as usize].clone();
        let byte = choices.below(length);
        place.files.rot(&path, byte, choices.below(8) as u8);
        let acknowledged = known.acknowledged.load(Ordering::SeqCst);
        match place.open(&options()) {
            Ok(opened) => {
                harmless += 1;
                // A flip in the very last record, if that has a whole sector of zeros and the store does not know it
                // yet, looks just like a torn write. It is reported as one.
                let cut =
                    opened.report.cut.as_ref().is_some_and(|cut| cut.path == path && cut.offset <= byte);
                assert!(
                    opened.report.head.sequence == acknowledged || cut,
                    "seed {seed}: {:?}",
                    opened.report
                );
                check(&opened.journal, seed);
            }
            Err(OpenError::Damaged(damage)) => {
                refused += 1;
                assert_eq!(damage.path, path, "seed {seed}: {damage}");
                assert!(damage.offset <= byte, "seed {seed}: {damage}");
            }
            Err(error) => panic!("seed {seed}: {error}"),
        }
    }
    assert!(refused > 50 && harmless > 50, "{refused} refused, {harmless} harmless");
}

fn segments(place: &SimulatedJournal) -> Vec<(PathBuf, u64)> {
    place.files.files().into_iter().filter(|(path, _)| path.extension().is_some_and(|e| e == "seg")).collect()
}

#[test]
fn a_segment_cut_at_any_byte_is_refused_unless_nothing_was_lost() {
    let (place, journal, known, mut choices) = filled(&options(), 12, 11);
    drop(journal);
    let acknowledged = known.acknowledged.load(Ordering::SeqCst);
    let (mut refused, mut opened_again) = (0, 0);
    for (path, length) in segments(&place) {
        for cut in (0..length).step_by(7) {
            let left = place.after_kill(&mut choices);
            left.files.cut(&path, cut);
            match left.open(&options()) {
                Ok(opened) => {
                    opened_again += 1;
                    assert_eq!(opened.report.head.sequence, acknowledged, "{} cut to {cut}", path.display());
                    check(&opened.journal, 11);
                }
                Err(OpenError::Damaged(damage)) => {
                    refused += 1;
                    assert_eq!(damage.path, path);
                }
                Err(error) => panic!("{error}"),
            }
        }
    }
    assert!(refused > 50 && opened_again > 50, "{refused} refused, {opened_again} opened");
}

#[test]
fn the_last_record_torn_at_every_byte_is_cut_and_the_log_goes_on() {
    for seed in 16..22 {
        let (place, mut journal, known, mut choices) = filled(&options(), 6, seed);
        let acknowledged = known.acknowledged.load(Ordering::SeqCst);
        let before = used(&place);
        append(&mut journal, &known, seed, &mut choices).unwrap();
        let (path, after) = used(&place);
        let begin = if before.0 == path { before.1 } else { crate::segment::HEADER };
        drop(journal);
        for cut in begin..after {
            let left = place.after_kill(&mut choices);
            left.lose_store();
            left.files.blank(&path, cut);
            let mut opened = left.open(&options()).unwrap();
            assert_eq!(opened.report.head.sequence, acknowledged);
            assert_eq!(opened.report.cut.is_some(), cut > begin);
            let again = Known { acknowledged: acknowledged.into(), attempted: acknowledged.into() };
            append(&mut opened.journal, &again, seed, &mut choices).unwrap();
            drop(opened);
            let opened = left.after_power_loss(&mut choices).open(&options()).unwrap();
            assert_eq!(opened.report.head.sequence, again.acknowledged.load(Ordering::SeqCst));
            check(&opened.journal, seed);
        }
    }
}

/// The last segment with records in it, and where those end.
fn used(place: &SimulatedJournal) -> (PathBuf, u64) {
    let ends = segments(place).into_iter().map(|(path, _)| (path.clone(), place.files.used(&path)));
    ends.filter(|(_, used)| *used > 512).max().unwrap()
}

#[test]
fn a_segment_taken_away_is_refused_and_named() {
    let (place, journal, _, mut choices) = filled(&options(), 60, 12);
    drop(journal);
    let segments = segments(&place);
    assert!(segments.len() > 3);
    for (n, (path, _)) in segments.iter().enumerate() {
        let left = place.after_kill(&mut choices);
        if n == 0 {
            left.lose_store();
        }
        crate::files::Files::remove(&left.files, path).unwrap();
        match left.open(&options()) {
            // The last one may be the one made ahead, with nothing in it; without the first, the store has its records.
            Ok(opened) => check(&opened.journal, 12),
            Err(OpenError::Damaged(_)) => assert!(n > 0),
            Err(OpenError::StoreLost { from, .. }) => assert!(n == 0 && from > 1),
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn a_lost_store_is_made_anew_when_the_segments_reach_back_and_else_the_loss_is_named() {
    let keep = Options { retained_bytes: 1 << 30, ..options() };
    let (place, journal, _, _) = filled(&keep, 80, 13);
    journal.checkpoint().unwrap();
    drop(journal);
    place.lose_store();
    let opened = place.open(&keep).unwrap();
    assert_eq!(opened.report.fed, opened.report.head.sequence);
    check(&opened.journal, 13);
    drop(opened);

    let (place, mut journal, known, mut choices) = filled(&options(), 10, 14);
    for _ in 0..10 {
        for _ in 0..10 {
            append(&mut journal, &known, 14, &mut choices).unwrap();
        }
        journal.checkpoint().unwrap();
    }
    let sequence = journal.head().sequence;
    let snapshots = journal.snapshots();
    drop(journal);
    place.lose_store();
    let Err(OpenError::StoreLost { from, .. }) = place.open(&options()) else { panic!("opened") };
    assert!(from > 1);
    let accept = Options { accept_lost_history: true, ..options() };
    assert!(
        matches!(place.open(&accept), Err(OpenError::StoreLost { .. })),
        "there is no snapshot to go on from"
    );
    drop(snapshots);

    // With a snapshot, and when told to, it goes on.
    let (place, mut journal, known, mut choices) = filled(&options(), 10, 15);
    for _ in 0..10 {
        for _ in 0..10 {
            append(&mut journal, &known, 15, &mut choices).unwrap();
        }
        journal.checkpoint().unwrap();
    }
    assert!(journal.head().sequence > sequence / 2);
    let last = journal.head().sequence;
    journal.snapshots().write(last, b"all of it").unwrap();
    append(&mut journal, &known, 15, &mut choices).unwrap();
    drop(journal);
    place.lose_store();
    assert!(matches!(place.open(&options()), Err(OpenError::StoreLost { .. })));
    let mut opened = place.open(&accept).unwrap();
    assert_eq!(opened.snapshot.unwrap().sequence, last);
    let after: Vec<u64> =
        opened.journal.reader().events(last + 1..).map(|entry| entry.unwrap().sequence).collect();
    assert_eq!(after, (last + 1..=known.acknowledged.load(Ordering::SeqCst)).collect::<Vec<u64>>());
    append(&mut opened.journal, &known, 15, &mut choices).unwrap();
    drop(opened.journal);
    place.open(&options()).unwrap();
}

/// What every way of asking says about the whole log.
fn check_every_way(journal: &Journal, seed: u64) {
    check(journal, seed);
    let reader = journal.reader();
    let session = SessionId::new("s").unwrap();
    let head = reader.head().sequence;
    for n in 1..=head {
        let event = event(n, seed);
        let found: Vec<Entry> = reader.by_ticket(TicketId(u128::from(n))).map(Result::unwrap).collect();
        assert_eq!(found, [Entry { sequence: n, event: event.clone() }], "seed {seed}, event {n}");
        if let Some(key) = event.key {
            assert_eq!(reader.by_key(&session, &key).unwrap(), Some((TicketId(u128::from(n)), n)));
        }
    }
    assert_eq!(reader.by_session(&session).count() as u64, head);
    for from in (1..=head + 1).step_by(3) {
        for to in [from, from + 5, head + 9] {
            let found: Vec<u64> =
                reader.session_events(&session, from..to).map(|entry| entry.unwrap().sequence).collect();
            assert_eq!(found, (from..to.min(head + 1)).collect::<Vec<_>>(), "seed {seed}, {from}..{to}");
        }
    }
}

#[test]
fn whatever_rots_in_the_middle_of_the_store_comes_back_from_the_segments() {
    for seed in 0..60 {
        let options = Options { retained_bytes: 1 << 40, ..options() };
        let (place, mut journal, known, mut choices) = filled(&options, 10 + seed % 40, seed);
        let large = Attachment::new(vec![7; 30_000]).unwrap();
        let first = journal.head().sequence + 1;
        journal.append(&[event(first, seed)], std::slice::from_ref(&large)).unwrap();
        append(&mut journal, &known, seed, &mut choices).unwrap();
        journal.checkpoint().unwrap();
        journal.close().unwrap();
        place.rot_store([1, 20, 128, 250][seed as usize % 4], &mut choices);
        for round in 0..2 {
            let opened = place.open(&options).unwrap();
            if round == 1 {
                assert_eq!((opened.report.store, opened.report.fed), (StoreReport::Sound, 0), "seed {seed}");
            }
            check_every_way(&opened.journal, seed);
            let found = opened.journal.reader().blob(&large.blob()).unwrap();
            assert_eq!(found.as_deref(), Some(&**large.bytes()));
        }
    }
}

#[test]
fn what_rots_is_told_and_what_only_the_store_had_is_not_invented() {
    let options = Options { segment_bytes: 4096, retained_bytes: 4096, ..options() };
    let (place, mut journal, known, mut choices) = filled(&options, 120, 3);
    for _ in 0..3 {
        journal.checkpoint().unwrap();
        append(&mut journal, &known, 3, &mut choices).unwrap();
    }
    journal.checkpoint().unwrap();
    journal.close().unwrap();
    place.rot_store(100, &mut choices);
    let opened = place.open(&options).unwrap();
    let StoreReport::Mended { events, entries } = opened.report.store else {
        panic!("{:?}", opened.report.store)
    };
    assert!(events + entries > 0);
    let lost = opened.journal.reader().events(..).find_map(Result::err);
    assert!(matches!(lost, Some(ReadError::Missing { .. })), "{lost:?}");
}
