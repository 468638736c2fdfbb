//! How fast appending is here, beside a bare loop of write and fdatasync on a preallocated file.
//!
//! `cargo run --release -p agarose-journal --example append [DIRECTORY [keep]]`, then `… append read DIRECTORY/batch-1000/journal`
#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "a measurement for people")]

use std::{fs, os::unix::fs::FileExt, path::Path, time::Instant};

use agarose_core::{SessionId, Stamp, TicketId};
use agarose_journal::{Journal, Options, RawEvent};

fn event(n: u64) -> RawEvent {
    RawEvent {
        kind: 1,
        version: 1,
        stamp: Stamp { wall: n, mono: n },
        session: Some(SessionId::new("bench").unwrap()),
        ticket: Some(TicketId(u128::from(n / 6))),
        key: None,
        payload: vec![7; 150],
    }
}

fn bare(directory: &Path, bytes: usize, times: u64) -> Vec<u64> {
    let file = fs::File::create(directory.join("bare")).unwrap();
    file.write_all_at(&vec![0; bytes * times as usize], 0).unwrap();
    file.sync_all().unwrap();
    let record = vec![7; bytes];
    (0..times)
        .map(|n| {
            let began = Instant::now();
            file.write_all_at(&record, n * bytes as u64).unwrap();
            file.sync_data().unwrap();
            began.elapsed().as_nanos() as u64
        })
        .collect()
}

fn report(what: &str, mut nanos: Vec<u64>, events: u64) {
    let total: u64 = nanos.iter().sum();
    nanos.sort_unstable();
    let at = |percent: usize| nanos[nanos.len() * percent / 100] / 1000;
    let rate = events * 1_000_000_000 / total;
    println!(
        "{what:34} p50 {:5} us  p99 {:5} us  max {:7} us  {rate:7} events/s",
        at(50),
        at(99),
        nanos[nanos.len() - 1] / 1000
    );
}

/// What the process has of memory now, in MiB.
fn resident() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_ascii_whitespace().nth(1).unwrap().parse::<u64>().unwrap() / 1024
}

fn read(place: &Path) {
    let began = Instant::now();
    let opened = Journal::open(place, &Options::default()).unwrap();
    let events = opened.report.head.sequence;
    println!("  open {} ms, {events} events, {} MiB resident", began.elapsed().as_millis(), resident());
    let began = Instant::now();
    let count = opened.journal.reader().events(..).count();
    println!("  read {count} events in {} ms, {} MiB resident", began.elapsed().as_millis(), resident());
}

fn main() {
    if let (Some("read"), Some(place)) = (std::env::args().nth(1).as_deref(), std::env::args().nth(2)) {
        return read(Path::new(&place));
    }
    let place = std::env::args().nth(1).map_or_else(|| tempfile::tempdir().unwrap().keep(), Into::into);
    for batch in [1u64, 64, 1000] {
        let times = if batch == 1 { 10_000 } else { 3000 };
        let dir = place.join(format!("batch-{batch}"));
        fs::create_dir_all(&dir).unwrap();
        let length = 120 + batch as usize * 204;
        report(&format!("bare, {length} bytes"), bare(&dir, length, times), times * batch);
        let mut journal = Journal::open(&dir.join("journal"), &Options::default()).unwrap().journal;
        let mut nanos = Vec::new();
        let mut most_behind = 0;
        for n in 0..times {
            let events: Vec<RawEvent> = (n * batch..(n + 1) * batch).map(event).collect();
            let began = Instant::now();
            journal.append(&events, &[]).unwrap();
            nanos.push(began.elapsed().as_nanos() as u64);
            most_behind = most_behind.max(journal.status().behind);
        }
        report(&format!("append, batches of {batch}"), nanos, times * batch);
        report(&format!("bare, {length} bytes"), bare(&dir, length, times), times * batch);
        let began = Instant::now();
        journal.close().unwrap();
        println!("  most behind {most_behind} events, close {} ms", began.elapsed().as_millis());
        read(&dir.join("journal"));
    }
    if std::env::args().nth(2).as_deref() != Some("keep") {
        fs::remove_dir_all(&place).unwrap();
    }
}
