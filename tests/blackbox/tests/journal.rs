//! The data directory after a crash, and after worse: what was acknowledged is there.

use std::{
    fs::{self, OpenOptions},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

use agarose_blackbox::Lab;
use serde_json::Value;

/// A directory in which tickets ended, wait and run, killed; and the tickets in order.
fn crashed() -> (Lab, Vec<String>) {
    let mut lab = Lab::started();
    let mut tickets: Vec<String> =
        (0..8).map(|number| lab.submit("done", &format!("print({number})"))).collect();
    for ticket in &tickets {
        assert_eq!(lab.wait(ticket)["state"], "completed");
    }
    tickets.push(lab.submit("running", &lab.gate("go")));
    tickets.extend((0..4).map(|number| lab.submit("running", &format!("print('behind', {number})"))));
    lab.until_begun(&tickets[8]);
    lab.kill_daemon();
    (lab, tickets)
}

/// Every ticket is there, in its state, and those that were open end in order.
fn assert_whole(mut lab: Lab, tickets: &[String]) {
    lab.serve(&[]);
    for (number, ticket) in tickets[..8].iter().enumerate() {
        let shown = lab.show(ticket);
        assert_eq!(shown["state"], "completed");
        assert_eq!(shown["stdout"]["text"], format!("{number}\n"));
    }
    let positions: Vec<Value> =
        tickets[8..].iter().map(|ticket| lab.show(ticket)["position"].clone()).collect();
    assert_eq!(positions, [0, 1, 2, 3, 4]);
    lab.open_gate("go");
    for ticket in &tickets[8..] {
        assert_eq!(lab.wait(ticket)["state"], "completed");
    }
    let start = lab.events().into_iter().rfind(|event| event["kind"] == "DaemonStarted").unwrap();
    assert!(
        !start["data"]["found"].as_array().unwrap().is_empty(),
        "the start says what it found: {start:#}"
    );
    lab.run(["log", "verify", "--deep"]).ok();
}

/// The file of the store that holds its data.
fn store_file(lab: &Lab) -> PathBuf {
    let file = lab.data().join("store/db");
    assert!(file.is_file(), "the store lies elsewhere now");
    file
}

fn flip(path: &Path, at: u64) {
    let file = OpenOptions::new().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ 0x10], at).unwrap();
}

#[test]
fn a_store_that_was_deleted_after_a_crash_costs_nothing() {
    let (lab, tickets) = crashed();
    fs::remove_dir_all(lab.data().join("store")).unwrap();
    assert_whole(lab, &tickets);
}

#[test]
fn a_store_without_its_last_byte_costs_nothing() {
    let (lab, tickets) = crashed();
    let file = OpenOptions::new().write(true).open(store_file(&lab)).unwrap();
    file.set_len(file.metadata().unwrap().len() - 1).unwrap();
    assert_whole(lab, &tickets);
}

#[test]
fn a_store_cut_to_half_or_to_nothing_costs_nothing() {
    for keep in [2, u64::MAX] {
        let (lab, tickets) = crashed();
        let file = OpenOptions::new().write(true).open(store_file(&lab)).unwrap();
        file.set_len(file.metadata().unwrap().len() / keep).unwrap();
        assert_whole(lab, &tickets);
    }
}

#[test]
fn a_store_whose_tail_is_zeros_costs_nothing() {
    let (lab, tickets) = crashed();
    let file = OpenOptions::new().write(true).open(store_file(&lab)).unwrap();
    let length = file.metadata().unwrap().len();
    file.set_len(length * 3 / 4).unwrap();
    file.set_len(length).unwrap();
    assert_whole(lab, &tickets);
}

#[test]
fn a_store_with_a_flipped_bit_costs_nothing_wherever_it_lies() {
    for eighth in [0, 1, 3, 6] {
        let (lab, tickets) = crashed();
        let file = store_file(&lab);
        let length = fs::metadata(&file).unwrap().len();
        flip(&file, length / 8 * eighth + 17);
        assert_whole(lab, &tickets);
    }
}

#[test]
fn a_segment_whose_middle_has_rotted_stops_the_start_and_says_where_and_what_to_do() {
    let (mut lab, tickets) = crashed();
    // The store would bridge the damage; without it nothing can.
    fs::remove_dir_all(lab.data().join("store")).unwrap();
    let segment = fs::read_dir(lab.data().join("segments")).unwrap().next().unwrap().unwrap().path();
    let before = fs::read(&segment).unwrap();
    let written = before.iter().rposition(|byte| *byte != 0).unwrap() as u64;
    flip(&segment, written / 2);
    let rotten = fs::read(&segment).unwrap();
    let (status, said) = lab.try_serve(&[]).unwrap_err();
    assert_eq!(status.code(), Some(1), "{said}");
    assert!(said.contains("hint:") && said.contains("log verify"), "{said}");
    assert!(said.contains(segment.file_name().unwrap().to_str().unwrap()), "{said}");
    assert_eq!(fs::read(&segment).unwrap(), rotten, "nothing was repaired in place");
    let verified = lab.run(["log", "verify"]);
    assert_ne!(verified.code, 0, "{verified:?}");
    let saved = lab.work().join("saved");
    let salvage = lab.run(["log", "salvage", saved.to_str().unwrap()]);
    assert!(saved.is_dir(), "{salvage:?}");
    // What was lost is said; what is whole is there.
    let mut other = lab.command(["log", "ls", "--json", "--data-dir", saved.to_str().unwrap()]);
    let listed = String::from_utf8(other.output().unwrap().stdout).unwrap();
    assert!(listed.contains(&tickets[0]), "{salvage:?}\n{listed}");
}

#[test]
fn the_log_can_be_read_with_and_without_its_daemon_and_reading_writes_nothing() {
    let mut lab = Lab::started();
    let ticket = lab.exec("s", "1")["ticket"].as_str().unwrap().to_owned();
    let listed = |lab: &Lab| lab.run(["log", "ls", "--json"]).ok().stdout;
    let live = listed(&lab);
    assert!(live.contains(&ticket));
    lab.kill_daemon();
    let files = |lab: &Lab| -> Vec<(PathBuf, u64, std::time::SystemTime)> {
        let mut found = Vec::new();
        let mut left = vec![lab.data()];
        while let Some(directory) = left.pop() {
            for entry in fs::read_dir(directory).unwrap().flatten() {
                let metadata = entry.metadata().unwrap();
                if metadata.is_dir() {
                    left.push(entry.path());
                } else {
                    found.push((entry.path(), metadata.len(), metadata.modified().unwrap()));
                }
            }
        }
        found.retain(|(path, ..)| !path.starts_with(lab.data().join("kernels")));
        found.sort();
        found
    };
    let before = files(&lab);
    assert_eq!(listed(&lab), live);
    lab.run(["log", "verify"]).ok();
    lab.run(["log", "show", &ticket]).ok();
    assert_eq!(files(&lab), before);
}
