//! Live, stopped, copied and damaged directories.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use crate::lab::{Lab, inspect};

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

/// `SAMPLE=DIR cargo test -p agarose-log --test inspector -- --ignored pages` writes pages to look at.
#[test]
#[ignore = "writes pages for people to look at"]
fn pages_to_look_at() {
    let into = PathBuf::from(std::env::var_os("SAMPLE").unwrap());
    for (name, events, sessions) in [("small", 10, 1), ("middle", 400, 3), ("large", 100_000, 12)] {
        let mut lab = Lab::new();
        lab.fill(events, sessions);
        lab.after(20_000).restart(&["the daemon before did not stop in order"]);
        lab.reattach();
        lab.fill(events / 10, sessions);
        let page = into.join(format!("{name}.html"));
        assert_eq!(inspect(lab.path(), &["timeline", "--html", page.to_str().unwrap()]).code, 0);
    }
}
