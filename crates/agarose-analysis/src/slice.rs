//! The runs that made given names what they are: for a restore, run them again in order.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::facts::Language;
use crate::stale::Project;

/// Runs to repeat.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Slice {
    /// The runs, in order.
    pub steps: Vec<Step>,
    /// Wanted names that no run made.
    pub missing: Vec<String>,
    /// The runs may not be enough: something unknown may have changed what they made.
    pub uncertain: bool,
}

/// A run to repeat.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// Its index.
    pub run: u32,
    /// The steps whose results it needs, by the index of their run.
    pub needs: BTreeSet<u32>,
    /// The wanted names that it makes, or has a part in.
    pub makes: BTreeSet<String>,
}

impl Project {
    /// The smallest ordered set of past runs that defines `names`. Each name is taken from the newest
    /// generation that has it: what a kernel that is gone had counts until a later one has it again.
    #[must_use]
    pub fn slice<'n>(&self, language: Language, names: impl IntoIterator<Item = &'n str>) -> Slice {
        let mut slice = Slice::default();
        let mut steps: std::collections::BTreeMap<u32, Step> = std::collections::BTreeMap::new();
        let mut open: Vec<(u64, u32, u32, Option<u32>)> = Vec::new();
        for name in names {
            let Some((generation, number, changes)) = self.history(language, name) else {
                slice.missing.push(name.to_owned());
                continue;
            };
            for run in self.makers(language, generation, number, changes) {
                let step = steps.entry(run).or_insert_with(|| Step::of(run));
                step.makes.insert(name.to_owned());
            }
            open.push((generation, number, changes, None));
        }
        let mut seen: BTreeSet<(u64, u32, u32, Option<u32>)> = BTreeSet::new();
        let mut followed: BTreeSet<u32> = BTreeSet::new();
        while let Some(input) = open.pop() {
            if !seen.insert(input) {
                continue;
            }
            let (generation, number, before, reader) = input;
            for run in self.makers(language, generation, number, before) {
                if let Some(reader) = reader.filter(|reader| *reader != run) {
                    steps.entry(reader).or_insert_with(|| Step::of(reader)).needs.insert(run);
                }
                steps.entry(run).or_insert_with(|| Step::of(run));
                if followed.insert(run) {
                    let inputs = self.inputs(run);
                    open.extend(inputs.into_iter().map(|(name, seen)| (generation, name, seen, Some(run))));
                    slice.uncertain |= self.is_barrier(run) || self.barrier_after(run);
                }
            }
        }
        slice.steps = steps.into_values().collect();
        slice.missing.sort();
        slice
    }
}

impl Step {
    fn of(run: u32) -> Self {
        Self { run, needs: BTreeSet::new(), makes: BTreeSet::new() }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use crate::stale::{Project, Run, Status};
    use crate::{Language, analyse};

    fn project(runs: &[(u64, &str)]) -> Project {
        let mut project = Project::new();
        for (at, (generation, source)) in runs.iter().enumerate() {
            project.append(Run {
                cell: format!("c{at}"),
                facts: Arc::new(analyse(Language::Python, source)),
                status: Status::Completed,
                generation: *generation,
                evidence: None,
            });
        }
        project
    }

    fn runs(project: &Project, name: &str) -> Vec<u32> {
        project.slice(Language::Python, [name]).steps.iter().map(|step| step.run).collect()
    }

    #[test]
    fn only_what_a_name_needs_is_in_its_slice() {
        let project = project(&[
            (1, "import math"),
            (1, "x = 1"),
            (1, "other = 2"),
            (1, "xs = [x]"),
            (1, "xs.append(math.pi)"),
            (1, "print(xs)"),
            (1, "y = sum(xs)"),
        ]);
        assert_eq!(runs(&project, "y"), [0, 1, 3, 4, 6]);
        assert_eq!(runs(&project, "other"), [2]);
    }

    #[test]
    fn a_name_that_was_bound_again_needs_only_the_last_binding() {
        assert_eq!(runs(&project(&[(1, "x = 1"), (1, "x = 2"), (1, "x += 1")]), "x"), [1, 2]);
    }

    #[test]
    fn a_name_is_taken_from_the_newest_life_of_the_kernel_that_has_it() {
        let project = project(&[(1, "x = 1"), (1, "y = x"), (2, "x = 5")]);
        assert_eq!(runs(&project, "x"), [2]);
        assert_eq!(runs(&project, "y"), [0, 1]);
        assert_eq!(project.slice(Language::Python, ["z"]).missing, ["z"]);
    }

    #[test]
    fn something_unknown_makes_a_slice_uncertain() {
        assert!(project(&[(1, "x = 1"), (1, "exec(p)")]).slice(Language::Python, ["x"]).uncertain);
        assert!(!project(&[(1, "exec(p)"), (1, "x = 1")]).slice(Language::Python, ["x"]).uncertain);
    }
}
