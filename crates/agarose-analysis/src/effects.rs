//! What well-known libraries do to their arguments, as tables: one small file per package.
//!
//! A line is `name name … : word word …`, a name is relative to the file's package, and `*` at the end of a
//! name stands for the rest of the package (the longest line wins). Words:
//!
//! - result: `fresh` (shares nothing), `immutable`, `iterator` (over its arguments), `view` (may share with
//!   its arguments), `holds` (a new thing that holds its arguments), `element` (one of the things in its
//!   first argument), `same` (its first argument), `reference` (an R value with identity), `unknown`
//! - arguments: `m0` `m1` … (the argument at this position is changed), `mself` (the receiver), `out` (what
//!   `out=` is given), `consumes` (an iterator given is used up), `calls` (functions given are called)
//! - channels: `draws`, `seeds`, `file-read`, `file-write`, `env-read`, `env-write`, `cwd`, `cwd-read`,
//!   `time`, `network`, `process`, `input`, `options`, `options-read`, `device`, `search-path`,
//!   `class-table`, `database`, `background`
//! - R only: `mask` (bare names in arguments may be columns), `forces` (evaluates its arguments at once)

pub(crate) mod python;
pub(crate) mod r;

use std::collections::HashMap;

use crate::facts::{Access, Channel};

/// What a call gives back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    Fresh,
    Immutable,
    Iterator,
    View,
    Holds,
    Element,
    Same,
    Reference,
    Unknown,
}

/// One line of a table.
#[derive(Debug, Clone)]
pub(crate) struct LibraryCall {
    pub(crate) outcome: Outcome,
    /// Positions of arguments that are changed, as bits.
    pub(crate) mutates: u16,
    pub(crate) mutates_self: bool,
    pub(crate) out: bool,
    pub(crate) consumes: bool,
    pub(crate) calls: bool,
    pub(crate) mask: bool,
    pub(crate) forces: bool,
    pub(crate) channels: Vec<(Channel, Access)>,
}

impl LibraryCall {
    fn parse(words: &str) -> Self {
        let mut call = Self {
            outcome: Outcome::Fresh,
            mutates: 0,
            mutates_self: false,
            out: false,
            consumes: false,
            calls: false,
            mask: false,
            forces: false,
            channels: Vec::new(),
        };
        for word in words.split_whitespace() {
            match word {
                "fresh" => call.outcome = Outcome::Fresh,
                "immutable" => call.outcome = Outcome::Immutable,
                "iterator" => call.outcome = Outcome::Iterator,
                "view" => call.outcome = Outcome::View,
                "holds" => call.outcome = Outcome::Holds,
                "element" => call.outcome = Outcome::Element,
                "same" => call.outcome = Outcome::Same,
                "reference" => call.outcome = Outcome::Reference,
                "unknown" => call.outcome = Outcome::Unknown,
                "mself" => call.mutates_self = true,
                "out" => call.out = true,
                "consumes" => call.consumes = true,
                "calls" => call.calls = true,
                "mask" => call.mask = true,
                "forces" => call.forces = true,
                _ => {
                    if let Some(position) = word.strip_prefix('m').and_then(|n| n.parse::<u32>().ok()) {
                        call.mutates |= 1 << position.min(15);
                    } else if let Some(uses) = channel(word) {
                        call.channels.extend_from_slice(uses);
                    }
                }
            }
        }
        call
    }
}

fn channel(word: &str) -> Option<&'static [(Channel, Access)]> {
    use Access::{Read, Set, Write};
    Some(match word {
        "draws" => &[(Channel::Random, Read), (Channel::Random, Write)],
        "seeds" => &[(Channel::Random, Set)],
        "file-read" => &[(Channel::File, Read)],
        "file-write" => &[(Channel::File, Write)],
        "env-read" => &[(Channel::Environment, Read)],
        "env-write" => &[(Channel::Environment, Write)],
        "cwd" => &[(Channel::Cwd, Set)],
        "cwd-read" => &[(Channel::Cwd, Read)],
        "time" => &[(Channel::Time, Read)],
        "network" => &[(Channel::Network, Read), (Channel::Network, Write)],
        "process" => &[(Channel::Process, Read), (Channel::Process, Write)],
        "input" => &[(Channel::Input, Read)],
        "options" => &[(Channel::Options, Write)],
        "options-read" => &[(Channel::Options, Read)],
        "device" => &[(Channel::Device, Write)],
        "search-path" => &[(Channel::SearchPath, Write)],
        "class-table" => &[(Channel::ClassTable, Write)],
        "database" => &[(Channel::Database, Read), (Channel::Database, Write)],
        "background" => &[(Channel::Background, Write)],
        _ => return None,
    })
}

/// Tables of several packages.
pub(crate) struct Tables {
    exact: HashMap<String, LibraryCall>,
    prefixes: HashMap<String, LibraryCall>,
}

impl Tables {
    fn of(packages: &[(&str, &str)]) -> Self {
        let mut tables = Self { exact: HashMap::new(), prefixes: HashMap::new() };
        for (package, table) in packages {
            for line in table.lines() {
                let Some((names, words)) = line.split_once(':') else { continue };
                if names.trim_start().starts_with('#') {
                    continue;
                }
                let call = LibraryCall::parse(words);
                for name in names.split_whitespace() {
                    let full = if package.is_empty() { name.to_owned() } else { format!("{package}.{name}") };
                    match full.strip_suffix(".*").or(full.strip_suffix('*')) {
                        Some(prefix) => tables.prefixes.insert(prefix.to_owned(), call.clone()),
                        None => tables.exact.insert(full, call.clone()),
                    };
                }
            }
        }
        tables
    }

    /// The line for a full name.
    pub(crate) fn find(&self, name: &str) -> Option<&LibraryCall> {
        if let Some(call) = self.exact.get(name) {
            return Some(call);
        }
        if self.prefixes.is_empty() {
            return None;
        }
        let mut prefix = name;
        while let Some((shorter, _)) = prefix.rsplit_once('.') {
            if let Some(call) = self.prefixes.get(shorter) {
                return Some(call);
            }
            prefix = shorter;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::{LibraryCall, Outcome, channel};

    #[test]
    fn every_word_of_every_table_is_a_word() {
        let known = |word: &str| {
            channel(word).is_some()
                || word.strip_prefix('m').is_some_and(|n| n.parse::<u32>().is_ok())
                || [
                    "fresh",
                    "immutable",
                    "iterator",
                    "view",
                    "holds",
                    "element",
                    "same",
                    "reference",
                    "unknown",
                    "mself",
                    "out",
                    "consumes",
                    "calls",
                    "mask",
                    "forces",
                ]
                .contains(&word)
        };
        for (package, table) in super::python::PACKAGES.iter().chain(super::r::PACKAGES) {
            for line in table.lines().filter(|line| !line.trim_start().starts_with('#')) {
                let Some((_, words)) = line.split_once(':') else {
                    assert!(line.trim().is_empty(), "{package}: a line without a colon: {line}");
                    continue;
                };
                for word in words.split_whitespace() {
                    assert!(known(word), "{package}: {word}");
                }
            }
        }
    }

    #[test]
    fn a_line_says_what_is_changed() {
        let call = LibraryCall::parse("view m0 m2 out draws");
        assert_eq!((call.outcome, call.mutates, call.out), (Outcome::View, 5, true));
    }
}
