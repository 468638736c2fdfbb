//! Power is lost between any two operations, and everything that was acknowledged is there.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use agarose_core::{SessionId, Stamp, TicketId};

use super::{Choices, SimulatedFiles, SimulatedJournal};
use crate::{AppendError, Attachment, Entry, Journal, Options, RawEvent};

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
        payload: (0..length).map(|_| if choices.yes(128) { 0 } else { choices.next() as u8 }).collect(),
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
        let (point, own) = (choices.below(14), Choices::new(choices.next()));
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
        losses += lose_power_everywhere(seed, 120);
        seed += 1;
    }
    println!("{losses} losses of power, {} workloads", seed - 1);
}
