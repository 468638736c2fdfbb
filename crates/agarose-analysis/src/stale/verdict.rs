//! From the folded runs to verdicts, in one pass and one spread.

use super::world::{World, apply};
use super::{Cause, Judgement, Policy, Project, ReadAt, Seen, Status, Through, Verdict};
use crate::facts::{Certainty, Channel, Code};

/// Where a run's cell stands; runs of cells that left the document count as before everything.
const GONE: u32 = 0;

pub(super) fn judge(project: &Project, policy: Policy) -> Vec<Judgement> {
    let runs = &project.runs;
    let mut places: Vec<u32> = Vec::with_capacity(runs.len());
    let mut latest: Vec<bool> = Vec::with_capacity(runs.len());
    for (index, run) in runs.iter().enumerate() {
        let cell = project.cells.get(&run.cell);
        places.push(cell.and_then(|cell| cell.position).map_or(GONE, |position| position + 1));
        latest.push(cell.and_then(|cell| cell.run) == Some(index as u32));
    }
    let suffixes: std::collections::BTreeMap<_, Suffixes> = project
        .worlds
        .iter()
        .map(|(key, world)| {
            let suffixes = match policy {
                Policy::DocumentOrder => Suffixes::of(world, &places),
                Policy::CurrentState => Suffixes::default(),
            };
            (*key, suffixes)
        })
        .collect();
    let mut judgements: Vec<Judgement> = Vec::with_capacity(runs.len());
    let mut bindings_only: Vec<bool> = Vec::with_capacity(runs.len());
    for (index, run) in runs.iter().enumerate() {
        let index = index as u32;
        let key = (run.language, run.generation);
        let (judgement, bindings) = match (project.worlds.get(&key), suffixes.get(&key)) {
            (Some(world), Some(suffixes)) => {
                let place = places[index as usize];
                Judge { project, policy, world, suffixes, places: &places }.direct(
                    index,
                    run,
                    place,
                    latest[index as usize],
                )
            }
            _ => (Judgement { verdict: Verdict::Fresh, cause: None }, false),
        };
        judgements.push(judgement);
        bindings_only.push(bindings);
    }
    spread(project, policy, &places, &mut judgements, &mut bindings_only);
    judgements
}

/// For each name, the least place in the document of the runs that changed it from some change on.
#[derive(Default)]
struct Suffixes {
    names: Vec<Vec<u32>>,
    barriers: Vec<u32>,
    changers: Vec<u32>,
}

impl Suffixes {
    fn of(world: &World, places: &[u32]) -> Self {
        let least = |runs: &mut dyn DoubleEndedIterator<Item = u32>| {
            let mut low = u32::MAX;
            let mut list: Vec<u32> = runs
                .rev()
                .map(|run| {
                    low = low.min(places[run as usize]);
                    low
                })
                .collect();
            list.reverse();
            list
        };
        Self {
            names: world
                .names
                .iter()
                .map(|name| least(&mut name.changes.iter().map(|change| change.run)))
                .collect(),
            barriers: least(&mut world.barriers.iter().copied()),
            changers: least(&mut world.changers.iter().copied()),
        }
    }
}

struct Judge<'p> {
    project: &'p Project,
    policy: Policy,
    world: &'p World,
    suffixes: &'p Suffixes,
    places: &'p [u32],
}

impl Judge<'_> {
    /// The verdict without that of producers, and whether it only doubts that what the run bound is still there.
    fn direct(&self, index: u32, run: &Seen, place: u32, latest: bool) -> (Judgement, bool) {
        let itself = |verdict| {
            (Judgement { verdict, cause: Some(Cause { through: Through::Itself, by_run: None }) }, false)
        };
        if self.project.newest.get(&run.language).is_some_and(|newest| run.generation < *newest) {
            return itself(Verdict::Detached);
        }
        if run.status != Status::Completed {
            return itself(Verdict::Failed);
        }
        let cell = self.project.cells.get(&run.cell);
        if latest
            && let Some(digest) = cell.and_then(|cell| cell.digest.as_ref())
            && !digest.is_empty()
            && *digest != run.digest
        {
            return itself(Verdict::Edited);
        }
        let mut found = Judgement { verdict: Verdict::Fresh, cause: None };
        let mut raise = |verdict: Verdict, through: Through, by_run: Option<u32>| {
            if verdict > found.verdict {
                found = Judgement { verdict, cause: Some(Cause { through, by_run }) };
            }
        };
        for read in &run.reads {
            let (verdict, by_run) = self.input(index, read, place);
            if verdict != Verdict::Fresh {
                raise(verdict, self.through(read.name), by_run);
            }
        }
        if let Some(path) = self.project.files_changed.get(&index) {
            raise(Verdict::Stale, Through::Channel(Channel::File, Some(path.clone())), None);
        }
        self.barriers(index, run.reads.iter().map(|read| (read.name, read.valued)), place, &mut raise);
        if run.reads_all {
            self.anything(index, place, &mut raise);
        }
        let inputs = found.verdict;
        let mut raise = |verdict: Verdict, through: Through, by_run: Option<u32>| {
            if verdict > found.verdict {
                found = Judgement { verdict, cause: Some(Cause { through, by_run }) };
            }
        };
        self.barriers(index, run.writes.iter().map(|name| (*name, true)), place, &mut raise);
        if !latest {
            raise(Verdict::Superseded, Through::Itself, cell.and_then(|cell| cell.run));
        }
        let bindings_only = found.verdict == Verdict::Uncertain && inputs < Verdict::Uncertain;
        (found, bindings_only)
    }

    /// Whether a run counts against one that stands at `place`.
    fn counts(&self, by: u32, place: u32) -> bool {
        match self.policy {
            Policy::CurrentState => true,
            Policy::DocumentOrder => self.places[by as usize] < place,
        }
    }

    /// Whether an input still is what it was.
    fn input(&self, index: u32, read: &ReadAt, place: u32) -> (Verdict, Option<u32>) {
        let name = &self.world.names[read.name as usize];
        let later = &name.changes[(read.seen as usize).min(name.changes.len())..];
        let others = later.iter().position(|change| change.run != index);
        let Some(first) = others else { return (Verdict::Fresh, None) };
        if self.policy == Policy::CurrentState {
            if name.state.is(read.state) {
                return (Verdict::Fresh, None);
            }
            // The run's own change is not a reason against it: only what came on top.
            if first > 0 || name.state.sure != read.state.sure {
                return self.replay(index, read, place, later);
            }
            return (Verdict::Uncertain, Some(later[first].run));
        }
        let lowest =
            self.suffixes.names.get(read.name as usize).and_then(|list| list.get(read.seen as usize));
        if lowest.is_none_or(|lowest| *lowest >= place) {
            return (Verdict::Superseded, Some(later[first].run));
        }
        self.replay(index, read, place, later)
    }

    /// Folds the later changes that count onto the states that were read, and compares.
    fn replay(
        &self,
        index: u32,
        read: &ReadAt,
        place: u32,
        later: &[super::world::Change],
    ) -> (Verdict, Option<u32>) {
        // Only what follows the last replacement that counts can matter, and the first one to blame.
        let from = later
            .iter()
            .rposition(|change| change.replaces && change.run != index && self.counts(change.run, place))
            .unwrap_or(0);
        let mut now = read.state;
        let mut own = read.state;
        let mut blame: Option<u32> = None;
        // The value that the kernel saw is what it is with all changes; without some, it would be another.
        let mut skipped = false;
        for change in &later[from..] {
            let counts = change.run == index || self.counts(change.run, place);
            skipped = !counts || (skipped && !change.replaces);
            if !counts {
                continue;
            }
            apply(&mut now, *change);
            if skipped {
                now.value = None;
            }
            if change.run == index {
                own = now;
            } else {
                blame = blame.or(Some(change.run));
            }
        }
        if now.is(read.state) || now.is(own) {
            let skipped = later.iter().any(|change| change.run != index && !self.counts(change.run, place));
            return if skipped { (Verdict::Superseded, None) } else { (Verdict::Fresh, None) };
        }
        if now.may_be(read.state) || now.may_be(own) {
            return (Verdict::Uncertain, blame);
        }
        (Verdict::Stale, blame)
    }

    /// Runs after this one that may have changed anything, these names (and whether the kernel saw them) too.
    fn barriers(
        &self,
        index: u32,
        mut names: impl Iterator<Item = (u32, bool)>,
        place: u32,
        raise: &mut impl FnMut(Verdict, Through, Option<u32>),
    ) {
        let barriers = &self.world.barriers;
        let from = barriers.partition_point(|barrier| *barrier <= index);
        if from >= barriers.len() {
            return;
        }
        if self.policy == Policy::DocumentOrder
            && self.suffixes.barriers.get(from).is_none_or(|low| *low >= place)
        {
            return;
        }
        let Some(by) = barriers[from..].iter().rev().copied().find(|barrier| self.counts(*barrier, place))
        else {
            return;
        };
        let code = self.project.runs[by as usize].barrier.unwrap_or(Code::ExecEval);
        // A name that was certainly bound again since is known again, and one that the kernel can see always was.
        let known = |number: u32, valued: bool| {
            self.world.is_seen(number, index, valued)
                || self.world.names[number as usize]
                    .changes
                    .iter()
                    .rev()
                    .take_while(|change| change.run > by)
                    .any(|change| change.replaces)
        };
        if names.any(|(number, valued)| !known(number, valued)) {
            raise(Verdict::Uncertain, Through::Unknown(code), Some(by));
        }
    }

    /// The run may have read anything: any later change counts.
    fn anything(&self, index: u32, place: u32, raise: &mut impl FnMut(Verdict, Through, Option<u32>)) {
        let changers = &self.world.changers;
        let from = changers.partition_point(|run| *run <= index);
        if from >= changers.len() {
            return;
        }
        if self.policy == Policy::DocumentOrder
            && self.suffixes.changers.get(from).is_none_or(|low| *low >= place)
        {
            return;
        }
        if let Some(by) = changers[from..].iter().copied().find(|run| self.counts(*run, place)) {
            raise(Verdict::Uncertain, Through::Unknown(Code::ExecEval), Some(by));
        }
    }

    fn through(&self, number: u32) -> Through {
        through(&self.world.names[number as usize].text)
    }
}

pub(super) fn through(text: &str) -> Through {
    let Some(rest) = text.strip_prefix('\u{0}') else { return Through::Name(text.to_owned()) };
    let (channel, key) = rest.split_once('\u{0}').unwrap_or((rest, ""));
    let channel = match channel {
        "File" => Channel::File,
        "Cwd" => Channel::Cwd,
        "Environment" => Channel::Environment,
        "Random" => Channel::Random,
        "Options" => Channel::Options,
        "SearchPath" => Channel::SearchPath,
        "ClassTable" => Channel::ClassTable,
        _ => Channel::Database,
    };
    Through::Channel(channel, (!key.is_empty() && key != "*" && key != "?").then(|| key.to_owned()))
}

/// What is made from a stale input is stale. Spread from the runs that are, along who read from whom.
///
/// A run of which only the bindings are in doubt passes nothing on: who reads one of them is in doubt itself.
fn spread(
    project: &Project,
    policy: Policy,
    places: &[u32],
    judgements: &mut [Judgement],
    bindings_only: &mut [bool],
) {
    let runs = &project.runs;
    // For each run, the runs that read what it made.
    let mut heads: Vec<u32> = vec![u32::MAX; runs.len()];
    let mut edges: Vec<(u32, u32)> = Vec::new();
    let mut link = |from: u32, to: u32| {
        edges.push((to, heads[from as usize]));
        heads[from as usize] = edges.len() as u32 - 1;
    };
    for (index, run) in runs.iter().enumerate() {
        let index = index as u32;
        let Some(world) = project.world(run) else { continue };
        for read in &run.reads {
            let changes = &world.names[read.name as usize].changes;
            if let Some(producer) = producer(changes, read.seen, index, places, policy) {
                link(producer, index);
            }
        }
        // A change in place builds on the one before.
        for number in &run.in_place {
            let changes = &world.names[*number as usize].changes;
            let at = changes.partition_point(|change| change.run < index);
            if let Some(before) = at.checked_sub(1).and_then(|at| changes.get(at)) {
                link(before.run, index);
            }
        }
    }
    for wave in [Verdict::Stale, Verdict::Uncertain] {
        let mut open: Vec<u32> = Vec::new();
        for (index, judgement) in judgements.iter().enumerate() {
            let starts = match wave {
                Verdict::Stale => {
                    judgement.verdict == Verdict::Stale
                        || (policy == Policy::DocumentOrder && judgement.verdict == Verdict::Edited)
                }
                _ => judgement.verdict == Verdict::Uncertain && !bindings_only[index],
            };
            if starts
                || (wave == Verdict::Stale
                    && policy == Policy::DocumentOrder
                    && is_removed(project, &runs[index]))
            {
                open.push(index as u32);
            }
        }
        while let Some(from) = open.pop() {
            let cell = &runs[from as usize].cell;
            let through = match judgements[from as usize].verdict {
                Verdict::Edited => Through::UpstreamEdited(cell.clone()),
                Verdict::Stale | Verdict::Uncertain => Through::Producer(cell.clone()),
                Verdict::Fresh | Verdict::Superseded | Verdict::Failed | Verdict::Detached => {
                    Through::UpstreamRemoved(cell.clone())
                }
            };
            let mut edge = heads[from as usize];
            while let Some((to, next)) = edges.get(edge as usize).copied() {
                edge = next;
                let judgement = &mut judgements[to as usize];
                if judgement.verdict < wave {
                    judgement.verdict = wave;
                    judgement.cause = Some(Cause { through: through.clone(), by_run: Some(from) });
                    open.push(to);
                } else if judgement.verdict == wave && std::mem::take(&mut bindings_only[to as usize]) {
                    open.push(to);
                }
            }
        }
    }
}

fn is_removed(project: &Project, run: &Seen) -> bool {
    project.cells.get(&run.cell).is_some_and(|cell| cell.position.is_none() && cell.digest.is_some())
}

/// The run whose result an input is now.
fn producer(
    changes: &[super::world::Change],
    seen: u32,
    reader: u32,
    places: &[u32],
    policy: Policy,
) -> Option<u32> {
    let at_read = seen.checked_sub(1).and_then(|at| changes.get(at as usize)).map(|change| change.run);
    match policy {
        Policy::CurrentState => {
            // If the state is still the same, whoever made it last stands for it; if not, the reader is
            // stale anyway.
            changes.iter().rev().map(|change| change.run).find(|run| *run != reader).or(at_read)
        }
        Policy::DocumentOrder => {
            let place = places[reader as usize];
            let later = changes
                .get(seen as usize..)
                .unwrap_or(&[])
                .iter()
                .rev()
                .take(64)
                .find(|change| change.run != reader && change.replaces && places[change.run as usize] < place)
                .map(|change| change.run);
            later.or(at_read)
        }
    }
}

const _: () = assert!(Certainty::Possible as u8 == 0, "possible facts are the least certain");
