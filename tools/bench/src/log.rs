//! The log beside a bare preallocated file with one fdatasync for each event.

use std::{
    fs::File,
    io::Write,
    os::unix::fs::FileExt,
    path::Path,
    time::{Duration, Instant},
};

use agarose_core::{Stamp, TicketId};
use agarose_journal::{Journal, Options, RawEvent};
use anyhow::Result;

use crate::table::{Sample, Table, ms, over};

const PAYLOAD: usize = 200;
const ROUNDS: usize = 3000;

fn event(number: u64) -> RawEvent {
    RawEvent {
        kind: 41,
        version: 1,
        stamp: Stamp { wall: number, mono: number },
        session: None,
        ticket: Some(TicketId(u128::from(number / 8))),
        key: None,
        payload: vec![7; PAYLOAD],
    }
}

/// A directory on the disk that the bench was started on; a file system in memory would show nothing.
fn directory() -> Result<tempfile::TempDir> {
    Ok(tempfile::Builder::new().prefix("agarose-bench-").tempdir_in(".")?)
}

fn bare(path: &Path) -> Result<Vec<Duration>> {
    let mut file = File::create(path)?;
    let zeros = vec![0u8; 1 << 20];
    for _ in 0..16 {
        file.write_all(&zeros)?;
    }
    file.sync_all()?;
    let payload = vec![7u8; PAYLOAD];
    let mut took = Vec::with_capacity(ROUNDS);
    for round in 0..ROUNDS {
        let begun = Instant::now();
        file.write_all_at(&payload, (round * PAYLOAD) as u64)?;
        file.sync_data()?;
        took.push(begun.elapsed());
    }
    Ok(took)
}

pub(crate) fn append(table: &mut Table) -> Result<()> {
    let here = directory()?;
    let mut journal = Journal::open(&here.path().join("log"), &Options::default())?.journal;
    let (mut ours, mut bares) = (Vec::new(), Vec::new());
    let mut number = 0;
    // Alternately, so that whatever else the machine does meets both.
    for round in 0..3 {
        bares.extend(bare(&here.path().join(format!("bare-{round}")))?);
        for _ in 0..ROUNDS {
            number += 1;
            let one = [event(number)];
            let begun = Instant::now();
            journal.append(&one, &[])?;
            ours.push(begun.elapsed());
        }
    }
    let bare_total: Duration = bares.iter().sum();
    let ours_total: Duration = ours.iter().sum();
    let per_second = |count: usize, total: Duration| count as f64 / total.as_secs_f64();
    let (ours_rate, bare_rate) = (per_second(ours.len(), ours_total), per_second(bares.len(), bare_total));
    table.row(
        "durable append, 1 appender, events/s",
        format!("{ours_rate:.0}"),
        format!("{bare_rate:.0} (bare write + fdatasync)"),
        ours_rate / bare_rate,
        "≥ 0.9",
    );
    let (ours, bares) = (Sample::new(ours), Sample::new(bares));
    table.row(
        "durable append, 1 appender, p50",
        ms(ours.percentile(50)),
        ms(bares.percentile(50)),
        over(ours.percentile(50), bares.percentile(50)),
        "–",
    );
    let (rate, journal) = many(journal, number)?;
    table.row(
        "durable append, 64 appenders, events/s",
        format!("{rate:.0}"),
        format!("{bare_rate:.0} (bare write + fdatasync)"),
        rate / bare_rate,
        "≥ 15",
    );
    journal.close()?;
    Ok(())
}

/// 64 tasks that each append one event at a time and wait until it is durable, through one loop that takes all
/// that waits: as requests reach the engine. Returns the events a second.
fn many(mut journal: Journal, mut number: u64) -> Result<(f64, Journal)> {
    const APPENDERS: usize = 64;
    const TIME: Duration = Duration::from_secs(3);
    let (ask, asked) = std::sync::mpsc::channel::<tokio::sync::oneshot::Sender<()>>();
    let appender = std::thread::spawn(move || -> Result<Journal> {
        while let Ok(first) = asked.recv() {
            let waiting: Vec<_> = std::iter::once(first).chain(asked.try_iter()).collect();
            let events: Vec<RawEvent> = (number..).map(event).take(waiting.len()).collect();
            number += events.len() as u64;
            journal.append(&events, &[])?;
            for waits in waiting {
                // Whoever has stopped waiting is not told.
                let _ = waits.send(());
            }
        }
        Ok(journal)
    });
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build()?;
    let begun = Instant::now();
    let count = runtime.block_on(async {
        let mut tasks = tokio::task::JoinSet::new();
        for _ in 0..APPENDERS {
            let ask = ask.clone();
            tasks.spawn(async move {
                let mut count = 0;
                while begun.elapsed() < TIME {
                    let (tell, told) = tokio::sync::oneshot::channel();
                    if ask.send(tell).is_err() || told.await.is_err() {
                        break;
                    }
                    count += 1;
                }
                count
            });
        }
        tasks.join_all().await.iter().sum::<usize>()
    });
    let rate = count as f64 / begun.elapsed().as_secs_f64();
    drop(ask);
    let journal = appender.join().map_err(|_| anyhow::anyhow!("the appender panicked"))??;
    Ok((rate, journal))
}

pub(crate) fn open(table: &mut Table) -> Result<()> {
    let here = directory()?;
    let path = here.path().join("log");
    let mut journal = Journal::open(&path, &Options::default())?.journal;
    const EVENTS: u64 = 1_000_000;
    let begun = Instant::now();
    for first in (0..EVENTS).step_by(1000) {
        let batch: Vec<RawEvent> = (first..first + 1000).map(event).collect();
        journal.append(&batch, &[])?;
    }
    journal.snapshots().write(EVENTS, &vec![1; 10_000])?;
    journal.close()?;
    let filled = begun.elapsed();
    let begun = Instant::now();
    let opened = Journal::open(&path, &Options::default())?;
    let took = begun.elapsed();
    let bytes = size_of(&path)?;
    table.row(
        "open with 1,000,000 events from a snapshot",
        ms(took),
        format!("1 s (filled in {:.1} s, {} bytes/event on disk)", filled.as_secs_f64(), bytes / EVENTS),
        over(took, Duration::from_secs(1)),
        "< 1",
    );
    opened.journal.close()?;
    Ok(())
}

/// Bytes of all files below a directory.
pub(crate) fn size_of(path: &Path) -> Result<u64> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(path)? {
        let entry = entry?;
        bytes += if entry.file_type()?.is_dir() { size_of(&entry.path())? } else { entry.metadata()?.len() };
    }
    Ok(bytes)
}
