//! Live, stopped, copied and damaged directories.

use std::{
    collections::BTreeMap,
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
};

use crate::lab::{Lab, inspect, inspect_into};

/// Every command that reads all of a log.
const ALL: [&[&str]; 9] = [
    &["ls"],
    &["ls", "sessions"],
    &["ls", "events"],
    &["tail", "-n", "5"],
    &["state"],
    &["timeline"],
    &["audit"],
    &["stats"],
    &["verify", "--deep"],
];

fn lab() -> Lab {
    let mut lab = Lab::new();
    for n in 0..20 {
        lab.after(100).submit("analysis", &format!("x = {n}"));
        lab.complete("analysis", 10, "done\n");
    }
    lab
}

fn files(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.insert(path.clone(), fs::read(&path).unwrap());
        }
    }
    found
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

#[test]
fn a_live_a_stopped_and_a_copied_directory_give_the_same_answers() {
    let mut lab = lab();
    let answers =
        |directory: &Path| ALL[..7].iter().map(|words| inspect(directory, words).out).collect::<Vec<_>>();
    let live = answers(lab.path());
    assert_eq!(live[0].lines().count(), 20);
    lab.kill_daemon();
    assert_eq!(answers(lab.path()), live);
    let copied = tempfile::tempdir().unwrap();
    copy(lab.path(), copied.path());
    assert_eq!(answers(copied.path()), live);
}

#[test]
fn no_command_writes_into_the_directory_that_it_looks_at() {
    let mut lab = lab();
    lab.kill_daemon();
    let before = files(lab.path());
    for words in ALL {
        let told = inspect(lab.path(), words);
        assert_eq!(told.code, 0, "{words:?}: {}", told.err);
    }
    assert!(files(lab.path()) == before);
}

/// Writes that fail once as many lines were taken, as a pipe does that nobody reads any more.
struct Lines {
    left: usize,
    taken: Vec<u8>,
}

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.left = self.left.saturating_sub(bytes.iter().filter(|byte| **byte == b'\n').count());
        self.taken.extend_from_slice(bytes);
        if self.left == 0 { Err(io::ErrorKind::BrokenPipe.into()) } else { Ok(bytes.len()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_live_log_is_followed_over_segments_and_restarts_until_nobody_reads() {
    let mut lab = Lab::new();
    let directory = lab.path().to_owned();
    let follower = std::thread::spawn(move || {
        let mut lines = Lines { left: 600, taken: Vec::new() };
        let told = inspect_into(&directory, &["tail", "-f", "-n", "100"], &mut lines);
        assert_eq!((told.code, told.err.as_str()), (0, ""));
        String::from_utf8(lines.taken).unwrap()
    });
    let mut n = 0;
    while !follower.is_finished() {
        n += 1;
        lab.submit("analysis", &format!("x = {n}"));
        lab.complete("analysis", 10, &"long output ".repeat(200));
        if n % 50 == 0 {
            lab.restart(&[]);
            lab.reattach();
        }
    }
    let followed = follower.join().unwrap();
    let numbers: Vec<u64> =
        followed.lines().map(|line| line.split_whitespace().next().unwrap().parse().unwrap()).collect();
    let expected: Vec<u64> = (numbers[0]..).take(numbers.len()).collect();
    assert_eq!(numbers, expected, "a hole or a repeat");
    assert!(numbers.len() >= 600);
}

/// Damages of one file, each to be told or harmless, never to break anything.
fn damage_and_look(directory: &Path, path: &Path, change: impl Fn(&mut Vec<u8>)) -> Vec<u8> {
    let sound = fs::read(path).unwrap();
    let mut bytes = sound.clone();
    change(&mut bytes);
    fs::write(path, &bytes).unwrap();
    let mut codes = Vec::new();
    for words in ALL {
        let told = inspect(directory, words);
        assert!(told.code <= 1, "{words:?} gives {}: {}", told.code, told.err);
        codes.push(told.code);
    }
    fs::write(path, &sound).unwrap();
    codes
}

/// Numbers that look like chance and are the same in every run.
fn scattered(seed: u64) -> impl Iterator<Item = u64> {
    let mut state = seed;
    std::iter::repeat_with(move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> 33
    })
}

#[test]
fn any_damaged_byte_is_survived_by_every_command() {
    let mut lab = lab();
    lab.kill_daemon();
    let paths: Vec<PathBuf> = files(lab.path()).into_keys().collect();
    let mut places = scattered(7);
    for path in paths.iter().filter(|path| !path.ends_with("lock") && !path.ends_with("reserve")) {
        let length = fs::metadata(path).unwrap().len().min(20_000);
        if length == 0 {
            continue;
        }
        for _ in 0..3 {
            let (at, bit) = (places.next().unwrap() % length, places.next().unwrap() % 8);
            damage_and_look(lab.path(), path, |bytes| bytes[at as usize] ^= 1 << bit);
        }
        let cut = places.next().unwrap() % length;
        damage_and_look(lab.path(), path, |bytes| bytes.truncate(cut as usize));
    }
}

#[test]
fn damage_is_named_and_what_is_whole_is_listed_and_salvaged() {
    let mut lab = lab();
    lab.kill_daemon();
    // Without the store the segments are all there is, and one of their records is hit.
    fs::remove_dir_all(lab.path().join("store")).unwrap();
    let segment = lab.path().join("segments/0000000000000001.seg");
    let mut bytes = fs::read(&segment).unwrap();
    bytes[9000] ^= 0x10;
    fs::write(&segment, bytes).unwrap();
    let told = lab.log(&["ls", "events"]);
    assert_eq!(told.code, 1);
    let whole = told.out.lines().count();
    assert!(whole > 5, "{}", told.out);
    assert!(
        told.err.contains("damage: ") && told.err.contains("0000000000000001.seg at byte "),
        "{}",
        told.err
    );
    let told = lab.log(&["verify", "--json"]);
    assert_eq!(told.code, 1);
    let json: serde_json::Value = serde_json::from_str(&told.out).unwrap();
    assert_eq!((&json["sound"], &json["last_seq"]), (&false.into(), &whole.into()));
    let into = tempfile::tempdir().unwrap();
    let told = lab.log(&["salvage", into.path().join("new").to_str().unwrap()]);
    assert_eq!(told.code, 1, "{}", told.err);
    assert!(told.out.contains(&format!("{whole} events are copied to ")), "{}", told.out);
    let salvaged = inspect(&into.path().join("new"), &["verify", "--deep"]);
    assert_eq!(salvaged.code, 0, "{}", salvaged.out);
}

/// The most memory, in KiB, that the program has needed for any command so far.
fn peak() -> i64 {
    nix::sys::resource::getrusage(nix::sys::resource::UsageWho::RUSAGE_CHILDREN).unwrap().max_rss()
}

#[test]
fn a_hundred_thousand_events_are_listed_in_the_memory_of_twenty_thousand() {
    let mut before = None;
    for events in [20_000, 100_000] {
        let mut lab = Lab::new();
        lab.fill(events, 5);
        lab.kill_daemon();
        for words in [&["ls"][..], &["ls", "events"], &["ls", "sessions"], &["audit"], &["stats"]] {
            let mut program = std::process::Command::new(env!("CARGO_BIN_EXE_agarose-log"));
            let output = program.arg("--data-dir").arg(lab.path()).args(words).output().unwrap();
            assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
            if words == ["ls", "events"] {
                let listed = output.stdout.iter().filter(|byte| **byte == b'\n').count();
                assert!(listed as u64 >= events);
            }
        }
        // The events that the larger log has more would take 50 MB in memory.
        let grown = peak() - before.unwrap_or_else(peak);
        assert!(grown < 40 * 1024, "{grown} KiB more for five times the events");
        before = Some(peak());
    }
}

/// `SAMPLE=DIR cargo test -p agarose-log --test inspector -- --ignored look` writes logs and their pages.
#[test]
#[ignore = "writes logs and pages for people to look at"]
fn logs_and_pages_to_look_at() {
    let into = PathBuf::from(std::env::var_os("SAMPLE").unwrap());
    for (name, events, sessions) in
        [("small", 10, 1), ("middle", 400, 3), ("large", 100_000, 12), ("larger", 500_000, 12)]
    {
        let mut lab = Lab::new();
        lab.fill(events, sessions);
        lab.after(20_000).restart(&["the daemon before did not stop in order"]);
        lab.reattach();
        lab.fill(events / 10, sessions);
        let page = into.join(format!("{name}.html"));
        assert_eq!(inspect(lab.path(), &["timeline", "--html", page.to_str().unwrap()]).code, 0);
        lab.kill_daemon();
        copy(lab.path(), &into.join(name));
    }
}
