//! Processes that are killed, watched, or run out of disk: each test starts this test binary again with a
//! part to play.

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

use agarose_core::BlobRef;
use agarose_journal::{Attachment, Journal, Options, name_of};

use super::{check, event, open, options};

const PLACE: &str = "AGAROSE_CHILD_PLACE";
const PART: &str = "AGAROSE_CHILD_PART";
const SEED: &str = "AGAROSE_CHILD_SEED";

/// The content of a blob file that exists before the event with this number.
fn large(n: u64) -> Vec<u8> {
    n.to_le_bytes().repeat(10_000)
}

fn small(n: u64) -> Attachment {
    Attachment::new(n.to_le_bytes().repeat(40)).unwrap()
}

fn acknowledge(out: &mut impl Write, last: u64) {
    out.write_all(format!("ack {last}\n").as_bytes()).unwrap();
    out.flush().unwrap();
}

/// The part that the other tests start in a process of its own.
#[test]
fn a_part_to_play() {
    let (Ok(place), Ok(part)) = (std::env::var(PLACE), std::env::var(PART)) else { return };
    let place = Path::new(&place);
    let mut out = std::io::stdout().lock();
    match part.as_str() {
        "append until killed" => {
            let mut state: u64 = std::env::var(SEED).unwrap().parse().unwrap();
            let mut choose = |bound: u64| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (state >> 33) % bound
            };
            let mut journal = open(place).journal;
            acknowledge(&mut out, journal.head().sequence);
            loop {
                let first = journal.head().sequence + 1;
                let count = 1 + choose(8);
                let events: Vec<_> = (first..first + count).map(event).collect();
                for n in (first..first + count).filter(|n| n % 16 == 0) {
                    journal.blobs().store(&large(n)).unwrap();
                }
                let appended = journal.append(&events, &[small(first)]).unwrap();
                acknowledge(&mut out, appended.last);
                match choose(40) {
                    0 => journal.checkpoint().unwrap(),
                    1 => journal.snapshots().write(appended.last, &appended.last.to_le_bytes()).unwrap(),
                    2 => {
                        journal.close().unwrap();
                        journal = open(place).journal;
                    }
                    _ => {}
                }
            }
        }
        "append and close" => {
            let options = Options { segment_bytes: 8 * 1024, retained_bytes: 8 * 1024, ..options() };
            let mut journal = Journal::open(place, &options).unwrap().journal;
            for round in 0..4 {
                for n in 0..40 {
                    let appended = journal.append(&[event(round * 40 + n + 1)], &[]).unwrap();
                    acknowledge(&mut out, appended.last);
                }
                journal.checkpoint().unwrap();
            }
            journal.close().unwrap();
        }
        other => panic!("{other}"),
    }
}

fn start(command: &mut Command, place: &Path, part: &str, seed: u64) -> Child {
    command
        .env(PLACE, place)
        .env(PART, part)
        .env(SEED, seed.to_string())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

fn this_binary() -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "crash::a_part_to_play", "--nocapture", "--quiet", "--test-threads=1"]);
    command
}

/// The last whole acknowledgement in what a child wrote.
fn last_acknowledged(written: &str) -> Option<u64> {
    let whole = &written[..written.rfind('\n')?];
    whole.lines().rev().find_map(|line| line.strip_prefix("ack ")?.parse().ok())
}

#[test]
fn killed_at_any_moment_a_journal_has_everything_that_it_acknowledged() {
    let kills = std::env::var("AGAROSE_KILLS").ok().and_then(|n| n.parse().ok()).unwrap_or(200u64);
    let mut directory = tempfile::tempdir().unwrap();
    let mut acknowledged_before = 0;
    let mut appended = 0;
    for n in 0..kills {
        if n % 25 == 0 {
            directory = tempfile::tempdir().unwrap();
            acknowledged_before = 0;
        }
        let mut child = start(&mut this_binary(), directory.path(), "append until killed", n);
        let mut pipe = BufReader::new(child.stdout.take().unwrap());
        let mut written = String::new();
        // The moment: right after the start, while it opens, or after so many acknowledgements and a little more.
        let wait_for = (n * 7919) % 50;
        let mut acknowledgements = 0;
        while acknowledgements < wait_for && pipe.read_line(&mut written).unwrap() > 0 {
            acknowledgements = written.matches("ack ").count() as u64;
        }
        std::thread::sleep(Duration::from_micros((n * 104_729) % if wait_for < 10 { 60_000 } else { 3000 }));
        child.kill().unwrap();
        child.wait().unwrap();
        pipe.read_to_string(&mut written).unwrap();
        let acknowledged = last_acknowledged(&written).unwrap_or(0).max(acknowledged_before);
        let opened = open(directory.path());
        let head = opened.report.head.sequence;
        assert!(head >= acknowledged, "kill {n}: {acknowledged} acknowledged, {head} found");
        check(&opened.journal, head);
        let reader = opened.journal.reader();
        for at in (1..=head).filter(|at| at % 16 == 0) {
            let name: BlobRef = name_of(&large(at));
            assert!(reader.open_blob(&name).unwrap().is_some(), "kill {n}: the blob of {at}");
        }
        for commit in reader.commits(acknowledged_before + 1) {
            for name in commit.unwrap().attachments {
                assert!(reader.blob(&name).unwrap().is_some());
            }
        }
        appended += head - acknowledged_before;
        acknowledged_before = head;
    }
    assert!(appended > kills, "{appended} events in {kills} kills: they came too early to show anything");
}

/// One system call of a trace, at the place where it had returned.
struct Call {
    text: String,
    /// Where it began.
    began: usize,
}

/// The calls of a trace in the order in which they returned.
fn calls(trace: &str) -> Vec<Call> {
    let mut unfinished: Vec<(String, String, usize)> = Vec::new();
    let mut calls = Vec::new();
    for (began, line) in trace.lines().enumerate() {
        let Some((pid, text)) = line.trim_start().split_once(' ') else { continue };
        let text = text.trim();
        if let Some(start) = text.strip_suffix("<unfinished ...>") {
            unfinished.push((pid.to_owned(), start.to_owned(), began));
        } else if text.starts_with("<... ") {
            let Some(at) = unfinished.iter().position(|(of, ..)| of == pid) else { continue };
            let (_, start, began) = unfinished.remove(at);
            let rest = text.split_once("resumed>").map_or("", |(_, rest)| rest);
            calls.push(Call { text: format!("{start}{rest}"), began });
        } else {
            calls.push(Call { text: text.to_owned(), began });
        }
    }
    calls
}

#[test]
fn a_trace_shows_a_sync_before_every_acknowledgement_and_before_every_removal() {
    let directory = tempfile::tempdir().unwrap();
    let trace = directory.path().join("trace");
    let place = directory.path().join("journal");
    let mut traced = Command::new("strace");
    let calls_wanted =
        "trace=openat,open,creat,pwrite64,write,fdatasync,fsync,rename,renameat,renameat2,unlink,unlinkat";
    traced.args(["-f", "-y", "-s", "64", "-e", calls_wanted, "-o"]).arg(&trace);
    traced.arg(std::env::current_exe().unwrap());
    traced.args(["--exact", "crash::a_part_to_play", "--nocapture", "--quiet", "--test-threads=1"]);
    let output = traced.env(PLACE, &place).env(PART, "append and close").env(SEED, "0").output();
    match output {
        Ok(output) if output.status.success() => {}
        other => {
            println!("skipped: strace does not run here: {other:?}");
            return;
        }
    }
    let text = fs::read_to_string(&trace).unwrap();
    let calls = calls(&text);
    let (mut acknowledged, mut removed, mut segments) = (0, 0, 0);
    // What was written to a segment, and whether it has been synced since, by the line of the sync's return.
    let mut written: Option<usize> = None;
    let mut synced = false;
    let mut store_syncs = 0;
    let mut store_syncs_at_write = 0;
    for (n, call) in calls.iter().enumerate() {
        let is = |name: &str| call.text.starts_with(name);
        let on = |what: &str| call.text.contains(what);
        let returned_zero = call.text.ends_with("= 0");
        if is("pwrite64(") && on(".seg>") {
            written = Some(n);
            synced = false;
        } else if is("fdatasync(") && on(".seg>") && returned_zero {
            synced = written.is_some_and(|written| written < n);
        } else if is("write(") && on("\"ack ") {
            assert!(synced, "acknowledged without a sync:\n{}", call.text);
            let written = written.take().unwrap();
            assert!(calls[written].began < call.began);
            synced = false;
            acknowledged += 1;
        } else if is("fdatasync(") && on("/store/db>") && returned_zero {
            store_syncs += 1;
        } else if is("rename") && on(".seg.tmp") {
            segments += 1;
            let name = call.text.split('"').nth(1).unwrap().to_owned();
            let before = calls[..n].iter().rev().find(|call| call.text.contains(&name)).unwrap();
            assert!(before.text.starts_with("fsync("), "renamed without a sync: {}", before.text);
            let after = calls[n..]
                .iter()
                .find(|call| call.text.starts_with("fsync(") && call.text.contains("/segments>"));
            assert!(after.is_some(), "the directory was not synced");
        } else if (is("unlink(") || is("unlinkat(")) && on(".seg\"") {
            assert!(store_syncs >= store_syncs_at_write + 2, "removed before two syncs of the store");
            store_syncs_at_write = store_syncs.min(store_syncs_at_write);
            removed += 1;
        }
    }
    assert_eq!(acknowledged, 160);
    assert!(segments >= 3, "{segments} segments were made");
    assert!(removed >= 1, "no segment was removed");
    for made in ["segments", "snapshots", "blobs", "store"] {
        assert!(place.join(made).is_dir());
    }
    let root_synced =
        calls.iter().any(|call| call.text.starts_with("fsync(") && call.text.contains("/journal>"));
    assert!(root_synced, "the directory of the journal was not synced");
}

/// A small disk of its own, unmounted when dropped.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    fn mount(bytes: u64) -> Option<Self> {
        let directory = tempfile::tempdir().unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={bytes},nr_inodes=200"), "agarose-test"])
            .arg(directory.path())
            .stderr(Stdio::null())
            .status();
        if mounted.is_ok_and(|status| status.success()) {
            return Some(Self(directory));
        }
        println!("skipped: a file system cannot be mounted here");
        None
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let unmounted = Command::new("umount").arg(self.0.path()).status();
        assert!(unmounted.is_ok_and(|status| status.success()));
    }
}

#[test]
fn a_small_disk_fills_refuses_and_is_used_again_when_there_is_room() {
    let Some(disk) = SmallDisk::mount(24 << 20) else { return };
    let place = disk.0.path().join("journal");
    let options = Options { segment_bytes: 1 << 20, ..Options::default() };
    let mut journal = Journal::open(&place, &options).unwrap().journal;
    super::append(&mut journal, 1, 101, 10);
    let ballast = disk.0.path().join("ballast");
    let mut filling = fs::File::create(&ballast).unwrap();
    while filling.write_all(&[1; 4096]).is_ok() {}
    drop(filling);
    let mut last = 100;
    let refused = loop {
        match journal.append(&[event(last + 1)], &[Attachment::new(vec![last as u8; 60_000]).unwrap()]) {
            Ok(appended) => last = appended.last,
            Err(refused) => break refused,
        }
    };
    assert!(refused.to_string().starts_with("read_only: disk full"), "{refused}");
    for _ in 0..3 {
        last = journal.append_urgent(&[event(last + 1)], &[]).unwrap().last;
    }
    check(&journal, last);
    assert!(journal.blobs().store(&[7; 100_000]).is_err());
    assert!(journal.snapshots().write(last, &[7; 100_000]).is_err());
    fs::remove_file(&ballast).unwrap();
    last = journal.append(&[event(last + 1)], &[]).unwrap().last;
    journal.checkpoint().unwrap();
    check(&journal, last);
    journal.close().unwrap();
    check(&Journal::open(&place, &options).unwrap().journal, last);
}

/// A file system in a file of its own, mounted; unmounted when dropped.
struct ImageDisk {
    image: std::path::PathBuf,
    at: std::path::PathBuf,
}

impl ImageDisk {
    fn mount(image: &Path, at: &Path) -> Option<Self> {
        fs::create_dir_all(at).unwrap();
        let mut command = Command::new("mount");
        let mounted = command.args(["-o", "loop"]).arg(image).arg(at).stderr(Stdio::null()).status();
        mounted
            .is_ok_and(|status| status.success())
            .then(|| Self { image: image.to_owned(), at: at.to_owned() })
    }
}

impl Drop for ImageDisk {
    fn drop(&mut self) {
        let unmounted = Command::new("umount").arg(&self.at).status();
        assert!(unmounted.is_ok_and(|status| status.success()));
    }
}

/// Copies an image that its file system may be writing to: again, until nothing has changed meanwhile.
/// A copy that is part of one moment and part of another is what no loss of power leaves.
fn copy_of_one_moment(image: &Path, copied: &Path) {
    let is_same = || {
        let mut pair = [image, copied].map(|path| fs::File::open(path).unwrap());
        let mut pieces = [vec![0; 1 << 20], vec![0; 1 << 20]];
        loop {
            let [one, other] = &mut pieces;
            let length = pair[0].read(one).unwrap();
            pair[1].read_exact(&mut other[..length]).unwrap();
            if length == 0 || one[..length] != other[..length] {
                return length == 0;
            }
        }
    };
    for _ in 0..100 {
        fs::copy(image, copied).unwrap();
        if is_same() {
            return;
        }
    }
    panic!("the image never stands still");
}

#[test]
fn a_disk_copied_right_after_an_acknowledgement_has_what_was_acknowledged() {
    let directory = tempfile::tempdir().unwrap();
    let image = directory.path().join("image");
    fs::File::create(&image).unwrap().set_len(96 << 20).unwrap();
    let made = Command::new("mkfs.ext4").args(["-q", "-F"]).arg(&image).status();
    let disk = match made {
        Ok(status) if status.success() => ImageDisk::mount(&image, &directory.path().join("disk")),
        _ => None,
    };
    let Some(disk) = disk else {
        println!("skipped: no ext4 in a file can be made and mounted here");
        return;
    };
    let options = Options { segment_bytes: 256 * 1024, ..options() };
    let mut journal = Journal::open(&disk.at.join("journal"), &options).unwrap().journal;
    let mut last = 0;
    for round in 0..8u64 {
        for _ in 0..=round * 37 % 150 {
            let content = large(last + 1);
            journal.blobs().store(&content).unwrap();
            last = journal.append(&[event(last + 1)], &[small(last + 1)]).unwrap().last;
        }
        if round % 3 == 2 {
            journal.checkpoint().unwrap();
        }
        // What the disk has at this moment, as after a loss of power: nothing of the page cache above it.
        let copied = directory.path().join(format!("copy-{round}"));
        copy_of_one_moment(&disk.image, &copied);
        let after = ImageDisk::mount(&copied, &directory.path().join(format!("after-{round}"))).unwrap();
        let opened = Journal::open(&after.at.join("journal"), &options).unwrap();
        assert_eq!(opened.report.head.sequence, last, "round {round}");
        check(&opened.journal, last);
        let reader = opened.journal.reader();
        for n in 1..=last {
            assert!(
                reader.open_blob(&name_of(&large(n))).unwrap().is_some(),
                "round {round}: the blob of {n}"
            );
        }
        drop(reader);
        drop(opened);
        drop(after);
        fs::remove_file(copied).unwrap();
    }
    drop(journal);
}
