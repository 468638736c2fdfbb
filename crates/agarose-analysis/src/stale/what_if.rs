//! What an edit would do, and what would have to run again.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::{Project, Seen};
use crate::facts::Facts;

/// The answer to "what if this cell had these facts, and ran".
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct WhatIf {
    /// Cells whose results would be stale.
    pub stale: Vec<String>,
    /// What to run, in this order, to have everything fresh again; with the cell itself, and with cells that
    /// must first restore what it, or one after it, changes in place.
    pub rerun: Vec<String>,
    /// The order cannot be kept: cells that need each other's results.
    pub cycle: Vec<String>,
}

impl Project {
    /// What the edit of `cell` would do.
    #[must_use]
    pub fn what_if(&self, cell: &str, facts: &Facts) -> WhatIf {
        // The latest run of each cell, by place in the document.
        let mut order: Vec<(&str, &Seen, u32)> = self
            .cells
            .iter()
            .filter_map(|(name, cell)| {
                let run = self.runs.get(cell.run? as usize)?;
                (run.language == facts.language).then_some((name.as_str(), run, cell.position?))
            })
            .collect();
        order.sort_by_key(|(_, _, position)| *position);
        let newest = self.newest.get(&facts.language).copied().unwrap_or(0);
        let Some(world) = self.worlds.get(&(facts.language, newest)) else {
            return WhatIf { rerun: vec![cell.to_owned()], ..WhatIf::default() };
        };
        order.retain(|(_, run, _)| run.generation == newest);
        let here = order.iter().position(|(name, ..)| *name == cell);
        let text = |number: u32| world.names[number as usize].text.as_str();
        let mut readers: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
        let mut writers: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
        for (at, (_, run, _)) in order.iter().enumerate() {
            for read in &run.reads {
                readers.entry(read.name).or_default().push(at);
            }
            for name in &run.writes {
                writers.entry(*name).or_default().push(at);
            }
        }
        let mut changed: BTreeSet<u32> = BTreeSet::new();
        for name in facts.writes.keys().chain(facts.deletes.keys()) {
            changed.extend(world.find(name));
        }
        if let Some(here) = here {
            changed.extend(&order[here].1.writes);
        }
        let everything = facts.mutation_uncertain();
        let mut again: BTreeSet<usize> = BTreeSet::new();
        let mut cycle: BTreeSet<usize> = BTreeSet::new();
        if everything {
            again.extend((0..order.len()).filter(|at| Some(*at) != here));
        }
        // Downstream: whoever reads what changes, then whoever reads what they write.
        let mut open: Vec<u32> = changed.iter().copied().collect();
        while let Some(name) = open.pop() {
            for at in readers.get(&name).into_iter().flatten() {
                if Some(*at) == here || !again.insert(*at) {
                    continue;
                }
                for written in &order[*at].1.writes {
                    if changed.insert(*written) {
                        open.push(*written);
                    }
                }
            }
        }
        let stale: Vec<String> = again.iter().map(|at| order[*at].0.to_owned()).collect();
        // A cell that changes something in place needs it as it was: whoever made it runs first.
        let mut needs: Vec<usize> = again.iter().copied().chain(here).collect();
        let mut seen: BTreeSet<usize> = needs.iter().copied().collect();
        while let Some(at) = needs.pop() {
            let in_place: Vec<u32> = if Some(at) == here {
                facts
                    .writes
                    .keys()
                    .filter(|name| !facts.kills.contains(*name))
                    .filter_map(|name| world.find(name))
                    .chain(order[at].1.in_place.iter().copied())
                    .collect()
            } else {
                order[at].1.in_place.clone()
            };
            for name in in_place {
                if text(name).starts_with('\u{0}') {
                    continue;
                }
                for maker in writers.get(&name).into_iter().flatten() {
                    if *maker < at && seen.insert(*maker) {
                        again.insert(*maker);
                        needs.push(*maker);
                    }
                }
            }
        }
        // Something before the edited cell that must run after it: the document's order has a cycle.
        if let Some(here) = here {
            let inputs: BTreeSet<u32> = facts.reads.keys().filter_map(|name| world.find(name)).collect();
            for at in &again {
                if *at < here && order[*at].1.writes.iter().any(|name| inputs.contains(name)) {
                    let reads_ours = order[*at].1.reads.iter().any(|read| {
                        facts.writes.contains_key(text(read.name))
                            && !order[*at].1.writes.contains(&read.name)
                    });
                    if reads_ours {
                        cycle.insert(*at);
                    }
                }
            }
            again.insert(here);
        }
        let mut rerun: Vec<String> = again.iter().map(|at| order[*at].0.to_owned()).collect();
        if here.is_none() {
            rerun.push(cell.to_owned());
        }
        WhatIf { stale, rerun, cycle: cycle.iter().map(|at| order[*at].0.to_owned()).collect() }
    }
}
