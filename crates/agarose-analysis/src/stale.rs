//! Which results can still be trusted, folded from the runs that really happened.
//!
//! Every name (and every channel) of a namespace has a *state*: a hash of how it came to be. A run that
//! certainly binds a name gives it a state made of the run's source and of the states that it read, so that
//! to run the same cell again on the same inputs gives the same state. A change in place, or one that is
//! only possible, is folded into the state that was there. A run remembers the states that it read; it is
//! stale when one of them is no longer what the name has, or when the run that made it is itself stale.
//!
//! Beside the state that follows from the facts there is, where the kernel can tell, the value itself (its
//! fingerprint). It shows that an equal value was written, that something only possible did not happen, and
//! what code that nobody can read did; it is only believed as long as every run came with a report.
//!
//! Two policies say which later runs count ([`Policy`]). `fresh` is only said when no fact of any later run
//! that counts, however unsure, can have touched what the run depends on.

mod call;
mod verdict;
mod what_if;
mod world;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::facts::{Channel, Code, Facts};
pub use what_if::WhatIf;
use world::{State, World};

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Normally.
    Completed,
    /// With an error: any part of it may have happened.
    Failed,
    /// Somebody stopped it: any part of it may have happened.
    Interrupted,
    /// The language did not accept it: nothing happened.
    Rejected,
}

/// What the kernel saw of a run, which the analysis could not know: the names whose value is not what was
/// known of it after the run before.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Evidence {
    /// Which report of this kernel it is. When one is missing, nothing that was known still holds.
    pub number: u64,
    /// What the names are now.
    pub values: BTreeMap<String, Value>,
}

/// What the kernel knows of a name's value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Value {
    /// A fingerprint of all of it: equal ones of one kernel are values that nobody can tell apart.
    Known(String),
    /// It is something, and cannot be told.
    Unknown,
    /// The name is not bound.
    Unbound,
}

/// One run, as the log has it.
#[derive(Debug, Clone)]
pub struct Run {
    /// The cell.
    pub cell: String,
    /// What the analysis says of the source that ran.
    pub facts: Arc<Facts>,
    /// How it ended.
    pub status: Status,
    /// The kernel's generation: a restart starts another, and nothing of before is left.
    pub generation: u64,
    /// What the kernel saw.
    pub evidence: Option<Evidence>,
}

/// Which later runs count against a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Policy {
    /// Only runs of cells that stand before it in the document. The one to show.
    DocumentOrder,
    /// All: would the cell, run now, see what it saw?
    CurrentState,
}

/// What can be said of a run's result. Later ones win over earlier ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It is what the cell would give.
    Fresh,
    /// Its inputs were changed, but only by cells after it in the document; or the cell has run again.
    Superseded,
    /// Its inputs may have changed.
    Uncertain,
    /// Its inputs changed.
    Stale,
    /// The cell's source is no longer what ran.
    Edited,
    /// The run did not complete.
    Failed,
    /// It belongs to a kernel that is gone.
    Detached,
}

/// What a verdict rests on.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Through {
    /// A name.
    Name(String),
    /// A channel, and its part.
    Channel(Channel, Option<String>),
    /// Something that is not known and may be anything.
    Unknown(Code),
    /// An input was made by a run whose own result is not fresh.
    Producer(String),
    /// An input was made by a cell whose source has changed since.
    UpstreamEdited(String),
    /// An input was made by a cell that is no longer in the document.
    UpstreamRemoved(String),
    /// The run itself: its status, its source, a later run of its cell.
    Itself,
}

/// Why a verdict is not [`Verdict::Fresh`].
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Cause {
    /// Through what.
    pub through: Through,
    /// The run that did it, by its index.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by_run: Option<u32>,
}

/// The verdict on one run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Judgement {
    /// The verdict.
    pub verdict: Verdict,
    /// Its first cause, by the order of runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<Cause>,
}

/// A cell of the document as it is now.
#[derive(Debug, Clone)]
struct Cell {
    /// SHA-256 of the source, when the document has one.
    digest: Option<String>,
    position: Option<u32>,
    /// Its latest run.
    run: Option<u32>,
}

/// The runs of a session and its document.
#[derive(Debug, Default)]
pub struct Project {
    runs: Vec<Seen>,
    cells: BTreeMap<String, Cell>,
    worlds: BTreeMap<(crate::facts::Language, u64), World>,
    newest: BTreeMap<crate::facts::Language, u64>,
    /// Runs that read a file which is not any more what they read.
    files_changed: BTreeMap<u32, String>,
    next_position: u32,
}

/// What is kept of a run.
#[derive(Debug)]
struct Seen {
    cell: String,
    digest: String,
    language: crate::facts::Language,
    generation: u64,
    status: Status,
    reads: Vec<ReadAt>,
    writes: Vec<u32>,
    /// Writes that need what was there before.
    in_place: Vec<u32>,
    /// It may read anything.
    reads_all: bool,
    /// It may change anything.
    barrier: Option<Code>,
}

/// An input of a run: which name, and where in the name's history.
#[derive(Debug, Clone, Copy)]
struct ReadAt {
    name: u32,
    /// Changes of the name before the read.
    seen: u32,
    state: State,
    /// Its value was known by the kernel then.
    valued: bool,
}

impl Project {
    /// No runs, no cells.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a run and gives its index. A cell that is not in the document goes to its end.
    pub fn append(&mut self, run: Run) -> u32 {
        let index = self.runs.len() as u32;
        let language = run.facts.language;
        let newest = self.newest.entry(language).or_insert(run.generation);
        *newest = (*newest).max(run.generation);
        let world = self.worlds.entry((language, run.generation)).or_default();
        let seen = world.fold(index, &run);
        self.runs.push(seen);
        let position = self.next_position;
        let cell =
            self.cells.entry(run.cell).or_insert_with(|| Cell { digest: None, position: None, run: None });
        cell.run = Some(index);
        if cell.digest.is_none() && cell.position.is_none() {
            cell.position = Some(position);
            self.next_position += 1;
        }
        index
    }

    /// The cell's source in the document is now the one with this digest ([`Facts::digest`]).
    pub fn edit(&mut self, cell: &str, digest: &str) {
        let position = self.next_position;
        let entry = self.cells.entry(cell.to_owned()).or_insert_with(|| Cell {
            digest: None,
            position: Some(position),
            run: None,
        });
        entry.digest = Some(digest.to_owned());
        if entry.position == Some(position) {
            self.next_position += 1;
        }
    }

    /// The document's cells, in order. Cells that are not named are no longer in it.
    pub fn arrange<'c>(&mut self, order: impl IntoIterator<Item = &'c str>) {
        for cell in self.cells.values_mut() {
            cell.position = None;
        }
        let mut position = 0;
        for name in order {
            let cell = self.cells.entry(name.to_owned()).or_insert_with(|| Cell {
                digest: None,
                position: None,
                run: None,
            });
            cell.position = Some(position);
            position += 1;
        }
        self.next_position = position;
    }

    /// The cell is no longer in the document. What its runs did to the namespace stays done.
    pub fn remove(&mut self, cell: &str) {
        if let Some(cell) = self.cells.get_mut(cell) {
            cell.position = None;
            // A removed cell is told from a cell that never had a place.
            cell.digest.get_or_insert_default();
        }
    }

    /// Which runs read a file that is not any more what they read, and which file.
    pub fn files_changed(&mut self, changed: BTreeMap<u32, String>) {
        self.files_changed = changed;
    }

    /// Where a cell stands in the document.
    #[must_use]
    pub fn position(&self, cell: &str) -> Option<u32> {
        self.cells.get(cell).and_then(|cell| cell.position)
    }

    /// How many runs there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.runs.len()
    }

    /// Whether nothing has run.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// The latest run of a cell.
    #[must_use]
    pub fn latest(&self, cell: &str) -> Option<u32> {
        self.cells.get(cell).and_then(|cell| cell.run)
    }

    /// The verdict on every run, by index.
    #[must_use]
    pub fn verdicts(&self, policy: Policy) -> Vec<Judgement> {
        verdict::judge(self, policy)
    }

    /// The verdict on every cell's latest run.
    #[must_use]
    pub fn cells(&self, policy: Policy) -> BTreeMap<&str, Judgement> {
        let verdicts = self.verdicts(policy);
        self.cells
            .iter()
            .filter_map(|(name, cell)| {
                let run = cell.run?;
                Some((name.as_str(), verdicts.get(run as usize)?.clone()))
            })
            .collect()
    }

    /// From a run that is not fresh to the change that made it so: the runs in between, nearest first.
    #[must_use]
    pub fn path(&self, run: u32, policy: Policy) -> Vec<(u32, Cause)> {
        path_from(&self.verdicts(policy), run)
    }

    fn world(&self, run: &Seen) -> Option<&World> {
        self.worlds.get(&(run.language, run.generation))
    }
}

/// From a run that is not fresh to the change that made it so: the runs in between, nearest first.
#[must_use]
pub fn path_from(verdicts: &[Judgement], run: u32) -> Vec<(u32, Cause)> {
    let mut path = Vec::new();
    let mut at = run;
    while let Some(cause) = verdicts.get(at as usize).and_then(|judgement| judgement.cause.clone()) {
        let next = cause.by_run;
        let onward = matches!(cause.through, Through::Producer(_));
        path.push((at, cause));
        match next {
            Some(next) if onward && path.len() < verdicts.len() => at = next,
            _ => break,
        }
    }
    path
}

/// What slices need.
impl Project {
    /// The newest generation that has the name, its number there and how often it changed.
    pub(crate) fn history(&self, language: crate::facts::Language, name: &str) -> Option<(u64, u32, u32)> {
        self.worlds.iter().rev().filter(|((of, _), _)| *of == language).find_map(
            |((_, generation), world)| {
                let number = world.find(name)?;
                let changes = world.names[number as usize].changes.len() as u32;
                (changes > 0).then_some((*generation, number, changes))
            },
        )
    }

    /// The runs that made the name what it was after `before` changes: back to the last that replaced it.
    /// Files stay where they are, so whoever wrote them is not needed.
    pub(crate) fn makers(
        &self,
        language: crate::facts::Language,
        generation: u64,
        number: u32,
        before: u32,
    ) -> Vec<u32> {
        let mut makers = Vec::new();
        let Some(world) = self.worlds.get(&(language, generation)) else { return makers };
        let name = &world.names[number as usize];
        if matches!(verdict::through(&name.text), Through::Channel(Channel::File | Channel::Database, _)) {
            return makers;
        }
        for change in name.changes.iter().take(before as usize).rev() {
            makers.push(change.run);
            if change.replaces {
                break;
            }
        }
        makers
    }

    pub(crate) fn inputs(&self, run: u32) -> Vec<(u32, u32)> {
        self.runs[run as usize].reads.iter().map(|read| (read.name, read.seen)).collect()
    }

    pub(crate) fn is_barrier(&self, run: u32) -> bool {
        self.runs[run as usize].barrier.is_some() || self.runs[run as usize].reads_all
    }

    /// Whether something that may have changed anything ran after `run`, in the same namespace.
    pub(crate) fn barrier_after(&self, run: u32) -> bool {
        let world = self.world(&self.runs[run as usize]);
        world.is_some_and(|world| world.barriers.last().is_some_and(|last| *last > run))
    }
}
