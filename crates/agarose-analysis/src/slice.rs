//! The runs that made given names what they are: for a restore, run them again in order.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::facts::Language;
use crate::stale::Project;

/// Runs to repeat.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Slice {
    /// Indices of runs, in order.
    pub runs: Vec<u32>,
    /// Wanted names that no run made.
    pub missing: Vec<String>,
    /// The runs may not be enough: something unknown may have changed what they made.
    pub uncertain: bool,
}

impl Project {
    /// The smallest ordered set of past runs of the newest generation that defines `names`.
    #[must_use]
    pub fn slice<'n>(&self, language: Language, names: impl IntoIterator<Item = &'n str>) -> Slice {
        let mut slice = Slice::default();
        let mut runs: BTreeSet<u32> = BTreeSet::new();
        let mut open: Vec<(u32, u32)> = Vec::new();
        for name in names {
            match self.history(language, name) {
                Some((number, changes)) if changes > 0 => open.push((number, changes)),
                _ => slice.missing.push(name.to_owned()),
            }
        }
        let mut seen: BTreeSet<(u32, u32)> = BTreeSet::new();
        while let Some((number, before)) = open.pop() {
            if !seen.insert((number, before)) {
                continue;
            }
            for run in self.makers(language, number, before) {
                if runs.insert(run) {
                    open.extend(self.inputs(run));
                    slice.uncertain |= self.is_barrier(run);
                }
            }
        }
        if let Some(first) = runs.first() {
            slice.uncertain |= self.barrier_after(language, *first);
        }
        slice.runs = runs.into_iter().collect();
        slice.missing.sort();
        slice
    }
}
