use agarose_core::TicketId;
use proptest::prelude::*;

use super::*;
use crate::wire::worker::{CellStatus, FileCounters, Usage};

fn id(number: u128) -> ExecutionId {
    ExecutionId(TicketId(number))
}

fn bounds(head: u64, tail: u64, displays: u64) -> SpoolBounds {
    SpoolBounds { head, tail, displays }
}

fn result(number: u128, message: &str) -> CellResult {
    CellResult {
        id: id(number),
        status: CellStatus::Ok,
        interrupt_seen: false,
        error: None,
        files_read: vec![],
        files_written: vec![],
        files_counters: FileCounters::default(),
        names: None,
        usage: Usage::default(),
        warnings: vec![message.to_owned()],
    }
}

/// What is kept, byte by byte: offset, channel, byte.
fn whole(runs: &[Run], bytes: &[u8]) -> Vec<(u64, Channel, u8)> {
    let mut bytes = bytes.iter();
    let mut kept = Vec::new();
    for run in runs {
        for offset in 0..run.len {
            kept.push((run.start + offset, run.channel, *bytes.next().unwrap()));
        }
    }
    assert_eq!(bytes.next(), None);
    kept
}

/// Reads piece by piece as a follower does.
fn follow(stream: &Stream, max: u64) -> Vec<(u64, Channel, u8)> {
    let (mut from, mut kept) = (0, Vec::new());
    loop {
        let piece = stream.read(from, max);
        kept.extend(whole(&piece.runs, &piece.bytes));
        assert_eq!(piece.runs.first().map_or(piece.next, |run| run.start), from + piece.dropped);
        assert!(piece.next > from || piece.next == piece.end);
        from = piece.next;
        if from == piece.end {
            return kept;
        }
    }
}

fn channel() -> impl Strategy<Value = Channel> {
    prop_oneof![Just(Channel::Stdout), Just(Channel::Stderr), Just(Channel::Display)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn the_first_and_the_last_are_kept_and_every_byte_is_counted(
        writes in proptest::collection::vec((channel(), proptest::collection::vec(any::<u8>(), 1..40)), 0..60),
        head in 0_u64..60,
        tail in 0_u64..60,
        max in 1_u64..50,
    ) {
        let dir = tempfile::tempdir().unwrap();
        let mut spool = Spool::create(dir.path(), bounds(head, tail, 160)).unwrap();
        spool.begin(id(1)).unwrap();
        let (mut text, mut displays, mut offset) = (Vec::new(), Vec::new(), 0);
        for (channel, bytes) in &writes {
            let stream = spool.stream_mut(id(1)).unwrap();
            let all: Vec<_> = (offset..).zip(bytes).map(|(at, byte)| (at, *channel, *byte)).collect();
            offset += bytes.len() as u64;
            if *channel == Channel::Display {
                stream.append_display(bytes);
                displays.push(all);
            } else {
                stream.append(*channel, bytes);
                text.extend(all);
            }
        }
        // The model of the text: the first `head` bytes and the last `tail`.
        let last = text.len().saturating_sub(tail as usize).max(head as usize);
        let mut kept: Vec<_> = text.iter().take(head as usize).chain(text.iter().skip(last)).copied().collect();
        // The model of the displays, in two halves of 80 bytes: what fits first, then the last that fit.
        let (mut first, mut later): (usize, Vec<Vec<_>>) = (0, Vec::new());
        for display in &displays {
            if first + display.len() <= 80 {
                first += display.len();
                kept.extend(display);
            } else {
                later.push(display.clone());
                while later.iter().map(Vec::len).sum::<usize>() > 80 {
                    later.remove(0);
                }
            }
        }
        kept.extend(later.into_iter().flatten());
        kept.sort_unstable();

        let stream = spool.stream(id(1)).unwrap();
        let (runs, bytes) = stream.read_whole(u64::MAX).unwrap();
        prop_assert_eq!(&whole(&runs, &bytes), &kept);
        prop_assert_eq!(&follow(stream, max), &kept);
        let output = stream.output();
        for channel in [Channel::Stdout, Channel::Stderr, Channel::Display] {
            let seen: usize = writes.iter().filter(|(one, _)| *one == channel).map(|(_, bytes)| bytes.len()).sum();
            prop_assert_eq!(output.of(channel).seen, seen as u64);
            let retained = kept.iter().filter(|(_, one, _)| *one == channel).count();
            prop_assert_eq!(output.of(channel).retained, retained as u64);
        }
        prop_assert_eq!(output.stream_end, offset);
        // A later daemon reads the same from the files alone.
        let found = recover(dir.path()).unwrap();
        prop_assert_eq!(found.len(), 1);
        prop_assert_eq!(whole(&found[0].output.runs, &found[0].bytes), kept);
    }

    #[test]
    fn a_damaged_file_reads_as_something_or_nothing_and_never_panics(
        words in proptest::collection::vec((4_usize..32, any::<u64>()), 1..6),
        runs in proptest::collection::vec((4096_usize..4400, any::<u8>()), 0..20),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let mut spool = Spool::create(dir.path(), bounds(100, 100, 100)).unwrap();
        spool.begin(id(1)).unwrap();
        for _ in 0..10 {
            spool.stream_mut(id(1)).unwrap().append(Channel::Stdout, &[b'x'; 33]);
        }
        drop(spool);
        let path = stream_file(dir.path(), 0);
        let mut bytes = std::fs::read(&path).unwrap();
        for (word, value) in words {
            bytes[word * 8..word * 8 + 8].copy_from_slice(&value.to_le_bytes());
        }
        for (at, value) in runs {
            bytes[at] = value;
        }
        std::fs::write(&path, bytes).unwrap();
        let found = recover(dir.path()).unwrap();
        prop_assert!(found.iter().map(|execution| execution.bytes.len()).sum::<usize>() < 1000);
    }
}

#[test]
fn a_result_and_a_beginning_are_found_by_a_later_daemon() {
    let dir = tempfile::tempdir().unwrap();
    let mut spool = Spool::create(dir.path(), SpoolBounds::default()).unwrap();
    for number in 1..=4 {
        spool.begin(id(number)).unwrap();
    }
    spool.stream_mut(id(2)).unwrap().start();
    let large = "x".repeat(100_000);
    for (number, message) in [(3, "small"), (4, large.as_str())] {
        let stream = spool.stream_mut(id(number)).unwrap();
        stream.start();
        stream.finish(&result(number, message)).unwrap();
    }
    spool.append_to_kernel(Channel::Stderr, b"stray");
    let found = recover(dir.path()).unwrap();
    let seen: Vec<_> = found.iter().map(|one| (one.id, one.started, one.result.clone())).collect();
    assert_eq!(
        seen,
        [
            (id(1), false, None),
            (id(2), true, None),
            (id(3), true, Some(result(3, "small"))),
            (id(4), true, Some(result(4, &large))),
        ]
    );
    assert_eq!(recover_kernel(dir.path()).unwrap().1, b"stray");
}

#[test]
fn a_released_stream_is_used_again_and_makes_no_file() {
    let dir = tempfile::tempdir().unwrap();
    let mut spool = Spool::create(dir.path(), SpoolBounds::default()).unwrap();
    for number in 1..=50 {
        spool.begin(id(number)).unwrap();
        let stream = spool.stream_mut(id(number)).unwrap();
        assert_eq!(stream.read_whole(u64::MAX), Some((vec![], vec![])));
        stream.append(Channel::Stdout, b"output");
        stream.append_display(&[0; 5000]);
        stream.finish(&result(number, "done")).unwrap();
        stream.release();
        assert!(spool.stream(id(number)).is_none());
    }
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    assert_eq!(recover(dir.path()).unwrap(), []);
}

#[test]
fn more_executions_than_can_be_held_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let mut spool = Spool::create(dir.path(), bounds(10, 10, 10)).unwrap();
    for number in 0..STREAMS {
        spool.begin(id(number as u128)).unwrap();
    }
    assert_eq!(spool.begin(id(99)).unwrap_err().kind(), io::ErrorKind::QuotaExceeded);
}

#[test]
fn many_tiny_runs_are_bounded_and_counted() {
    let dir = tempfile::tempdir().unwrap();
    let mut stream = Stream::create(&dir.path().join("s"), SpoolBounds::default()).unwrap();
    stream.begin(id(1), 1);
    for number in 0..40_000 {
        stream.append(if number % 2 == 0 { Channel::Stdout } else { Channel::Stderr }, b"x");
    }
    let output = stream.output();
    assert_eq!((output.stdout.seen, output.stderr.seen), (20_000, 20_000));
    assert_eq!(output.stdout.retained + output.stderr.retained, 2 * 8192);
    assert_eq!(stream.read(0, 10).bytes, b"xxxxxxxxxx");
    let last = stream.read(39_990, 10);
    assert_eq!((last.dropped, last.next, last.bytes.len()), (0, 40_000, 10));
}

#[test]
fn what_the_disk_does_not_take_is_dropped_and_counted_and_the_rest_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    let mut stream = Stream::create(&path, bounds(10, 10, 100)).unwrap();
    stream.begin(id(1), 1);
    stream.append(Channel::Stdout, b"before");
    // A descriptor that refuses to write, as a full disk does.
    let writable = std::mem::replace(&mut stream.file, File::open(&path).unwrap());
    stream.append(Channel::Stdout, b"lost");
    stream.append_display(b"lost too");
    assert!(stream.finish(&result(1, &"x".repeat(10_000))).is_err());
    stream.file = writable;
    stream.append(Channel::Stderr, b"after");
    let output = stream.output();
    assert_eq!((output.stdout, output.stderr.retained), (StreamCount { seen: 10, retained: 6 }, 5));
    assert_eq!((output.display, output.stream_end), (StreamCount { seen: 8, retained: 0 }, 23));
    let piece = stream.read(6, 100);
    assert_eq!((piece.dropped, piece.bytes.as_slice(), piece.next), (12, &b"after"[..], 23));
}
