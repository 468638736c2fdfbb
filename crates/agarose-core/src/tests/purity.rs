//! The core's sources stay pure: what the compiler cannot forbid is looked for in their text.

use alloc::{borrow::ToOwned, format, string::String, vec::Vec};
use std::{fs, path::Path};

/// The text of each source file up to its tests.
fn sources() -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut sources = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).unwrap();
            let own = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
            sources.push((format!("{}", path.display()), own.to_owned()));
        }
    }
    assert!(sources.len() > 10, "the sources were not found");
    sources
}

/// Whether `word` stands in `line` by itself.
fn names(line: &str, word: &str) -> bool {
    let is_part = |character: char| character.is_alphanumeric() || character == '_';
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + word.len()..].chars().next();
        !before.is_some_and(is_part) && !after.is_some_and(is_part)
    })
}

#[test]
fn the_core_knows_no_clock_no_float_and_no_hashing_order() {
    const IMPURE: &[&str] =
        &["std", "f32", "f64", "HashMap", "HashSet", "SystemTime", "Instant", "thread", "unsafe"];
    for (path, text) in sources() {
        for (number, line) in text.lines().enumerate() {
            if line.trim_start().starts_with("//") {
                continue;
            }
            for word in IMPURE {
                assert!(!names(line, word), "{path}:{}: {word} in: {line}", number + 1);
            }
        }
    }
}

#[test]
fn only_what_concerns_every_session_goes_through_every_session() {
    const MAY: &[&str] = &["anomalies", "resume", "stop_daemon", "renew", "in_flight", "check"];
    let (_, world) = sources().into_iter().find(|(path, _)| path.ends_with("world.rs")).unwrap();
    let mut function = String::new();
    for line in world.lines() {
        if let Some((_, rest)) = line.split_once("fn ") {
            function = rest.split(['(', '<']).next().unwrap_or_default().to_owned();
        }
        let walks = ["self.sessions.values", "self.sessions.iter", "in &self.sessions", "in self.sessions"];
        if walks.iter().any(|walk| line.contains(walk)) {
            assert!(MAY.contains(&function.as_str()), "{function} goes through all sessions: {line}");
        }
    }
}
