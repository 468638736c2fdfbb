//! One namespace: a language in one life of its kernel.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::Hasher;
use std::sync::Arc;

use super::{Evidence, ReadAt, Run, Seen, Status, Value};
use crate::facts::{
    Access, Certainty, Channel, Effect, Facts, Function, Language, Scope, Shape, Strength, Via, Write,
    WriteKind,
};
use crate::symbols::FastHasher;

/// One change of a name.
#[derive(Debug, Clone, Copy)]
pub(super) struct Change {
    pub(super) run: u32,
    /// It replaced what was there.
    pub(super) replaces: bool,
    pub(super) certainty: Certainty,
    /// What it folds into a state.
    pub(super) delta: u64,
    /// The value afterwards, when the kernel knows it.
    pub(super) value: Option<u64>,
}

/// What a name is: how it came to be, and its value where the kernel knows it.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct State {
    /// With changes that happen on some path.
    pub(super) sure: u64,
    /// With those that are only possible, too.
    pub(super) full: u64,
    /// The value's fingerprint.
    pub(super) value: Option<u64>,
}

impl State {
    /// Nobody can tell this state from the other, even by what is only possible.
    pub(super) fn is(self, other: Self) -> bool {
        self.full == other.full || (self.value.is_some() && self.value == other.value)
    }

    /// The states differ at most by what is only possible.
    pub(super) fn may_be(self, other: Self) -> bool {
        self.is(other) || self.sure == other.sure
    }
}

/// What a name is bound to, as far as facts of other cells need it.
#[derive(Debug, Clone, Default)]
pub(super) struct Bound {
    pub(super) shape: Shape,
    /// It is a module, not a member of one.
    module: bool,
    pub(super) functions: Vec<Arc<Function>>,
    /// Classes and factories that made the value.
    pub(super) makers: Vec<Arc<Function>>,
    pub(super) objects: Vec<(u32, Strength)>,
}

#[derive(Debug, Default)]
pub(super) struct Name {
    pub(super) text: String,
    pub(super) state: State,
    /// The run after which the value became known, and was ever since.
    pub(super) valued_since: Option<u32>,
    /// The last run that replaced what was there.
    replaced: Option<u32>,
    /// Some report of the kernel speaks of it.
    reported: bool,
    pub(super) changes: Vec<Change>,
    pub(super) bound: Bound,
}

#[derive(Debug, Default)]
pub(super) struct World {
    numbers: HashMap<String, u32>,
    pub(super) names: Vec<Name>,
    holders: Vec<Vec<u32>>,
    /// Runs that may have changed anything.
    pub(super) barriers: Vec<u32>,
    /// Runs that changed some name.
    pub(super) changers: Vec<u32>,
    /// Packages on the search path: to attach one again changes nothing.
    attached: BTreeSet<String>,
    /// The next report of the kernel, while none is missing.
    report: Option<u64>,
    /// None is missing since the kernel began.
    whole: bool,
    /// Names whose value is known.
    valued: BTreeSet<u32>,
}

/// The effects of one run, before they are folded.
#[derive(Default)]
pub(super) struct Effects {
    pub(super) reads: BTreeSet<u32>,
    pub(super) writes: BTreeMap<u32, Change>,
}

pub(super) fn mix(parts: &[u64]) -> u64 {
    let mut hasher = FastHasher::default();
    for part in parts {
        hasher.write_u64(*part);
    }
    hasher.finish() | 1
}

fn text_hash(text: &str) -> u64 {
    let mut hasher = FastHasher::default();
    hasher.write(text.as_bytes());
    hasher.finish()
}

impl World {
    pub(super) fn number(&mut self, text: &str) -> u32 {
        if let Some(number) = self.numbers.get(text) {
            return *number;
        }
        let number = self.names.len() as u32;
        self.numbers.insert(text.to_owned(), number);
        self.names.push(Name { text: text.to_owned(), ..Name::default() });
        number
    }

    pub(super) fn find(&self, text: &str) -> Option<u32> {
        self.numbers.get(text).copied()
    }

    /// A channel's part as a name that no cell can have.
    pub(super) fn channel(&mut self, channel: Channel, key: &str) -> u32 {
        self.number(&format!("\u{0}{channel:?}\u{0}{key}"))
    }

    fn new_object(&mut self, name: u32) -> u32 {
        let object = self.holders.len() as u32;
        self.holders.push(vec![name]);
        object
    }

    /// Adds a run: what it reads is looked up first, then its effects are folded in.
    pub(super) fn fold(&mut self, index: u32, run: &Run) -> Seen {
        let facts = &run.facts;
        let rejected = run.status == Status::Rejected;
        let complete = run.status == Status::Completed;
        let mut effects = Effects::default();
        let mut reads_all = false;
        let mut barrier = None;
        if !rejected {
            for (name, read) in &facts.reads {
                // What a function reads later is an input of whoever calls it then.
                if read.via != Via::Deferred {
                    let number = self.number(name);
                    effects.reads.insert(number);
                }
            }
            self.call_effects(facts, &mut effects, index);
            for reason in &facts.uncertain {
                reads_all |= reason.effect.reads() && reason.scope == Scope::All;
                if !reason.effect.changes() {
                    continue;
                }
                match &reason.scope {
                    Scope::All => barrier = barrier.or(Some(reason.code)),
                    Scope::Names(names) => {
                        for name in names {
                            let number = self.number(name);
                            effects.change(number, index, Certainty::Possible, false);
                        }
                    }
                    Scope::Pattern(pattern) => {
                        let prefix = pattern.trim_end_matches('*');
                        let hit: Vec<u32> = self
                            .numbers
                            .iter()
                            .filter(|(name, _)| name.starts_with(prefix))
                            .map(|(_, number)| *number)
                            .collect();
                        for number in hit {
                            effects.change(number, index, Certainty::Possible, false);
                        }
                    }
                }
            }
        }
        let evidence = self.follows(run.evidence.as_ref());
        let random = self.channel_reads(facts, &mut effects, rejected);
        if facts.language == Language::R && !rejected {
            self.search_path_read(&mut effects);
        }
        let mut reads: Vec<ReadAt> = effects
            .reads
            .iter()
            .map(|number| {
                let name = &self.names[*number as usize];
                ReadAt {
                    name: *number,
                    seen: name.changes.len() as u32,
                    state: self.state_read(*number),
                    valued: name.valued_since.is_some(),
                }
            })
            .collect();
        // The same source on the same inputs does the same, unless something is not known of either.
        let exact = complete
            && barrier.is_none()
            && !reads_all
            && !random
            && facts.uncertain.iter().all(|reason| reason.effect == Effect::default())
            && facts.channels.iter().all(|event| !is_outside(event.channel));
        let mut identity = vec![text_hash(&facts.digest)];
        if exact {
            for read in &reads {
                identity.push(text_hash(&self.names[read.name as usize].text));
                identity.push(read.state.full);
            }
        } else {
            identity.push(u64::from(index) << 1);
        }
        let identity = mix(&identity);
        let mut writes: Vec<u32> = Vec::new();
        let mut in_place: Vec<u32> = Vec::new();
        if !rejected {
            self.names_changed(index, facts, complete, &mut effects);
            // What the run bound before it called may share its value with what the callee changes.
            if facts.aliases.iter().any(|alias| facts.writes.contains_key(&alias.name)) {
                self.call_effects(facts, &mut effects, index);
            }
            self.channel_writes(index, facts, &mut effects);
        }
        let hidden = self.witness(index, evidence, &mut effects);
        // What changed without a fact that says so may have changed before it was read.
        for read in reads.iter_mut().filter(|read| barrier.is_none() && hidden.contains(&read.name)) {
            let unlike = mix(&[u64::from(index), read.state.full]);
            read.state = State { sure: unlike, full: unlike, value: None };
        }
        {
            for (number, mut change) in std::mem::take(&mut effects.writes) {
                if !complete {
                    change.replaces = false;
                    change.certainty = change.certainty.min(Certainty::May);
                }
                writes.push(number);
                let name = &mut self.names[number as usize];
                // It was possible, and did not happen.
                if !change.replaces && change.value.is_some() && change.value == name.state.value {
                    continue;
                }
                let constant = facts.writes.get(&name.text).and_then(|write| constant(write, name));
                change.delta = match constant {
                    Some(constant) if change.replaces => mix(&[constant, 1]),
                    _ => mix(&[identity, text_hash(&name.text)]),
                };
                apply(&mut name.state, change);
                name.changes.push(change);
                if change.replaces {
                    name.replaced = Some(index);
                }
                if !change.replaces {
                    in_place.push(number);
                }
            }
            if !writes.is_empty() {
                self.changers.push(index);
            }
            if barrier.is_some() {
                self.barriers.push(index);
                self.changers.push(index);
            }
        }
        Seen {
            cell: run.cell.clone(),
            digest: facts.digest.clone(),
            language: facts.language,
            generation: run.generation,
            status: run.status,
            reads,
            writes,
            in_place,
            reads_all,
            barrier,
        }
    }

    /// The state of a name for whoever reads it now: what may have changed anything may have changed it since it
    /// was bound, and nobody knows to what.
    fn state_read(&self, number: u32) -> State {
        let name = &self.names[number as usize];
        let mut state = name.state;
        if let Some(barrier) = self.barriers.last().copied()
            && name.replaced.is_none_or(|replaced| replaced <= barrier)
            && !self.is_seen(number, barrier, true)
        {
            state.full = mix(&[state.full, u64::from(barrier)]);
        }
        state
    }

    /// The kernel's reports show the name as it was at this run, and whatever became of it since. `valued` says
    /// whether they did before the run.
    pub(super) fn is_seen(&self, number: u32, run: u32, valued: bool) -> bool {
        let name = &self.names[number as usize];
        let hidden =
            name.text.starts_with('\u{0}') || (name.text.starts_with("__") && name.text.ends_with("__"));
        (valued && name.valued_since.is_some_and(|since| since <= run))
            || (self.whole && !name.reported && !hidden)
    }

    /// The run's report, if none is missing before it; if one is, what was known is forgotten.
    fn follows<'e>(&mut self, evidence: Option<&'e Evidence>) -> Option<&'e Evidence> {
        let evidence = evidence.filter(|evidence| evidence.number < u64::MAX);
        let next = evidence.map(|evidence| evidence.number + 1);
        let gapless = evidence.is_some_and(|evidence| self.report.is_none_or(|due| due == evidence.number));
        self.report = next;
        self.whole = gapless && (self.whole || evidence.is_some_and(|evidence| evidence.number == 0));
        if !gapless {
            for number in std::mem::take(&mut self.valued) {
                let name = &mut self.names[number as usize];
                name.state.value = None;
                name.valued_since = None;
            }
        }
        evidence
    }

    /// Adds what the kernel saw to a run's effects. Gives the names that changed without a fact that says so.
    fn witness(&mut self, index: u32, evidence: Option<&Evidence>, effects: &mut Effects) -> BTreeSet<u32> {
        let mut hidden = BTreeSet::new();
        for (text, value) in evidence.into_iter().flat_map(|evidence| &evidence.values) {
            let number = self.number(text);
            let value = match value {
                Value::Known(print) => Some(text_hash(print)),
                Value::Unknown => None,
                Value::Unbound => Some(UNBOUND),
            };
            let name = &mut self.names[number as usize];
            let before = name.state.value;
            if before.is_some() && value.is_some() && !effects.writes.contains_key(&number) {
                effects.change(number, index, Certainty::May, false);
                hidden.insert(number);
            }
            match (value, effects.writes.get_mut(&number)) {
                (_, Some(change)) => change.value = value,
                // The value was there all along, and can now be seen or no longer be seen.
                (_, None) => name.state.value = value,
            }
            name.reported = true;
            name.valued_since = value.map(|_| name.valued_since.unwrap_or(index));
            if value.is_some() {
                self.valued.insert(number);
            } else {
                self.valued.remove(&number);
            }
        }
        // What is not in the report is what it was.
        for (number, change) in &mut effects.writes {
            let name = &self.names[*number as usize];
            let reported = evidence.is_some_and(|evidence| evidence.values.contains_key(&name.text));
            if evidence.is_some() && !reported {
                change.value = name.state.value;
            }
        }
        hidden
    }

    /// Bindings, deletions and changes in place, with what they do to names that share the value.
    fn names_changed(&mut self, index: u32, facts: &Facts, complete: bool, effects: &mut Effects) {
        // Changes in place first: they are changes of what the names were bound to before.
        for (text, write) in &facts.writes {
            let in_place =
                write.kinds.contains(&WriteKind::Mutate) || write.kinds.contains(&WriteKind::CallMutate);
            if !in_place {
                continue;
            }
            let number = self.number(text);
            let only_possible = !write.kinds.contains(&WriteKind::Mutate);
            let certainty = if only_possible { Certainty::Possible } else { write.certainty };
            self.mutated(number, certainty, write.deep, index, effects);
        }
        for text in &facts.consumes {
            let number = self.number(text);
            if self.names[number as usize].bound.shape == Shape::Iterator {
                self.mutated(number, Certainty::May, false, index, effects);
            }
        }
        for text in &facts.touches {
            let number = self.number(text);
            if self.names[number as usize].bound.shape == Shape::Reference {
                self.mutated(number, Certainty::May, true, index, effects);
            }
        }
        for (text, module) in &facts.assumed {
            // A name was taken for a module; if it is something else, anything may have happened to it.
            let number = self.number(text);
            let changed = !self.names[number as usize].changes.is_empty();
            let fits = matches!(&self.names[number as usize].bound.shape, Shape::Module(known) if known == module
                || module.starts_with(known.as_str()));
            if changed && !fits {
                self.mutated(number, Certainty::Possible, true, index, effects);
            }
        }
        let mut bound: Vec<(u32, Bound, bool)> = Vec::new();
        for (text, write) in &facts.writes {
            let binds = write
                .kinds
                .iter()
                .any(|kind| matches!(kind, WriteKind::Bind | WriteKind::Import | WriteKind::Define));
            if !binds {
                continue;
            }
            let number = self.number(text);
            let must = write.certainty == Certainty::Must && complete;
            // To bind again what was changed in place (`df["c"] = 1` in R, `x += 1`) needs what was there.
            let kills = facts.kills.contains(text);
            effects.change(
                number,
                index,
                write.certainty,
                must && (kills || !facts.reads.contains_key(text)),
            );
            if must && !kills {
                effects.replaces(number);
            }
            let module = must && matches!(write.shape, Shape::Module(_)) && write.constant.is_some();
            let mut value = Bound { shape: write.shape.clone(), module, ..Bound::default() };
            if let Some(function) = facts.functions.get(text) {
                value.functions.push(Arc::new(function.clone()));
            }
            value.makers.extend(facts.held.get(text).cloned().map(Arc::new));
            for maker in facts.made_by.get(text).into_iter().flatten() {
                if let Some(maker) = facts.functions.get(maker) {
                    value.makers.push(Arc::new(maker.clone()));
                } else if let Some(maker) = self.find(maker) {
                    value.makers.extend(self.names[maker as usize].bound.functions.iter().cloned());
                }
            }
            let before = |strength: Strength| match facts.language {
                Language::Python => true,
                Language::R => strength == Strength::Same,
            };
            for alias in facts.aliases.iter().filter(|alias| alias.name == *text && alias.before) {
                let Some(other) = self.find(&alias.other) else { continue };
                if !before(alias.strength) {
                    continue;
                }
                let source = &self.names[other as usize].bound;
                if facts.language == Language::R && source.shape != Shape::Reference {
                    if alias.strength == Strength::Same {
                        value.functions.extend(source.functions.iter().cloned());
                        value.makers.extend(source.makers.iter().cloned());
                    }
                    continue;
                }
                if alias.strength == Strength::Same {
                    if value.shape == Shape::Unknown {
                        value.shape = source.shape.clone();
                    }
                    value.functions.extend(source.functions.iter().cloned());
                    value.makers.extend(source.makers.iter().cloned());
                } else {
                    value.makers.extend(source.functions.iter().chain(&source.makers).cloned());
                }
                if source.shape == Shape::Immutable && alias.strength == Strength::Same {
                    continue;
                }
                // What a module's function gives back does not change the module.
                if source.module && alias.strength != Strength::Same {
                    continue;
                }
                let objects: Vec<(u32, Strength)> = source
                    .objects
                    .iter()
                    .map(|(object, inner)| (*object, then(alias.strength, *inner)))
                    .collect();
                for entry in objects {
                    add_object(&mut value.objects, entry);
                }
            }
            bound.push((number, value, must));
        }
        // Names whose values got something put into them, without being bound.
        for alias in facts.aliases.iter().filter(|alias| alias.before) {
            let binds = facts.writes.get(&alias.name).is_some_and(|write| {
                write
                    .kinds
                    .iter()
                    .any(|kind| matches!(kind, WriteKind::Bind | WriteKind::Import | WriteKind::Define))
            });
            if binds || facts.language == Language::R {
                continue;
            }
            let (number, Some(other)) = (self.number(&alias.name), self.find(&alias.other)) else { continue };
            if number == other {
                continue;
            }
            let source = &self.names[other as usize].bound;
            let makers: Vec<Arc<Function>> = source.functions.iter().chain(&source.makers).cloned().collect();
            self.names[number as usize].bound.makers.extend(makers);
            let objects: Vec<(u32, Strength)> = self.names[other as usize]
                .bound
                .objects
                .iter()
                .map(|(object, inner)| (*object, then(alias.strength, *inner)))
                .collect();
            for (object, strength) in objects {
                add_object(&mut self.names[number as usize].bound.objects, (object, strength));
                self.holders[object as usize].push(number);
            }
        }
        for (text, function) in &facts.held {
            let number = self.number(text);
            self.names[number as usize].bound.makers.push(Arc::new(function.clone()));
        }
        for (number, mut value, must) in bound {
            if !must {
                let old = &self.names[number as usize].bound;
                value.objects.extend(old.objects.iter().copied());
                value.functions.extend(old.functions.iter().cloned());
                value.makers.extend(old.makers.iter().cloned());
                if old.shape != value.shape {
                    let keeps = |shape: &Shape| matches!(shape, Shape::Iterator | Shape::Reference);
                    value.shape = if keeps(&old.shape) {
                        old.shape.clone()
                    } else if keeps(&value.shape) {
                        value.shape
                    } else {
                        Shape::Unknown
                    };
                }
            }
            if value.shape != Shape::Immutable {
                let object = self.new_object(number);
                value.objects.push((object, Strength::Same));
            }
            for (object, _) in &value.objects {
                let holders = &mut self.holders[*object as usize];
                if holders.last() != Some(&number) {
                    holders.push(number);
                }
            }
            value.functions.truncate(16);
            value.makers.truncate(16);
            self.names[number as usize].bound = value;
        }
        for alias in facts.aliases.iter().filter(|alias| !alias.before) {
            let (Some(one), Some(two)) = (self.find(&alias.name), self.find(&alias.other)) else { continue };
            for (a, b, strength) in [(one, two, alias.strength), (two, one, flip(alias.strength))] {
                let objects = self.names[b as usize].bound.objects.clone();
                for (object, inner) in objects {
                    add_object(&mut self.names[a as usize].bound.objects, (object, then(strength, inner)));
                    self.holders[object as usize].push(a);
                }
            }
        }
        for (text, delete) in &facts.deletes {
            let number = self.number(text);
            let must = delete.certainty == Certainty::Must && complete;
            effects.change(number, index, delete.certainty, must);
            if must {
                self.names[number as usize].bound = Bound::default();
            }
        }
    }

    /// The value of a name is changed in place; so are the values that share it.
    pub(super) fn mutated(
        &mut self,
        number: u32,
        certainty: Certainty,
        deep: bool,
        index: u32,
        effects: &mut Effects,
    ) {
        let bound = &self.names[number as usize].bound;
        if certainty == Certainty::Possible && matches!(bound.shape, Shape::Immutable | Shape::Module(_)) {
            return;
        }
        effects.change(number, index, certainty, false);
        let mut open: Vec<(u32, Certainty, bool)> = Vec::new();
        for (object, strength) in &bound.objects {
            let reached = match strength {
                Strength::Same => Some(certainty),
                Strength::Part => Some(certainty.min(Certainty::May)),
                Strength::Holds => deep.then_some(certainty.min(Certainty::May)),
                Strength::Possible => Some(Certainty::Possible),
            };
            if let Some(reached) = reached {
                open.push((*object, reached, deep || *strength == Strength::Part));
            }
        }
        for (object, certainty, deep) in open {
            let holders = self.holders[object as usize].clone();
            for holder in holders {
                if holder == number {
                    continue;
                }
                let shared =
                    self.names[holder as usize].bound.objects.iter().find(|(known, _)| *known == object);
                let Some((_, strength)) = shared else { continue };
                match strength {
                    Strength::Same | Strength::Holds => {
                        effects.change(holder, index, certainty.min(Certainty::May), false)
                    }
                    Strength::Part if deep => {
                        effects.change(holder, index, certainty.min(Certainty::May), false)
                    }
                    Strength::Part => {}
                    Strength::Possible => effects.change(holder, index, Certainty::Possible, false),
                }
            }
        }
    }

    /// Adds the channels that a run reads; says whether it depends on something that no state shows.
    fn channel_reads(&mut self, facts: &Facts, effects: &mut Effects, rejected: bool) -> bool {
        let mut random = false;
        if rejected {
            return random;
        }
        for event in &facts.channels {
            if event.access != Access::Read || is_outside(event.channel) {
                continue;
            }
            random |= event.channel == Channel::File || event.channel == Channel::Database;
            let number = match (&event.key, event.channel) {
                (Some(key), _) => {
                    let any = self.channel(event.channel, "?");
                    effects.reads.insert(any);
                    self.channel(event.channel, key)
                }
                (None, Channel::File | Channel::Environment) => self.channel(event.channel, "*"),
                (None, _) => self.channel(event.channel, ""),
            };
            effects.reads.insert(number);
            if event.channel == Channel::File {
                let cwd = self.channel(Channel::Cwd, "");
                effects.reads.insert(cwd);
            }
        }
        random
    }

    /// What the session does not bind is looked up along the search path.
    fn search_path_read(&mut self, effects: &mut Effects) {
        let unbound = |number: &u32| self.names[*number as usize].changes.is_empty();
        if effects.reads.iter().any(unbound) {
            let any = self.channel(Channel::SearchPath, "*");
            effects.reads.insert(any);
        }
    }

    fn channel_writes(&mut self, index: u32, facts: &Facts, effects: &mut Effects) {
        for event in &facts.channels {
            if is_outside(event.channel) {
                continue;
            }
            if let (Channel::SearchPath, Some(package)) = (event.channel, &event.key)
                && !self.attached.insert(package.clone())
            {
                continue;
            }
            let (certainty, replaces) = match event.access {
                Access::Read => continue,
                // Which names a package hides is not known.
                Access::Write if event.channel == Channel::SearchPath => (Certainty::Possible, false),
                Access::Write if event.channel == Channel::Random => (Certainty::Possible, false),
                Access::Write => (Certainty::May, false),
                Access::Set => (Certainty::Must, true),
            };
            match (&event.key, event.channel) {
                (Some(key), _) => {
                    let any = self.channel(event.channel, "*");
                    effects.change(any, index, certainty, false);
                    let number = self.channel(event.channel, key);
                    effects.change(number, index, certainty, replaces);
                }
                (None, Channel::File | Channel::Environment | Channel::SearchPath) => {
                    for key in ["*", "?"] {
                        let number = self.channel(event.channel, key);
                        effects.change(number, index, Certainty::Possible, false);
                    }
                }
                (None, _) => {
                    let number = self.channel(event.channel, "");
                    effects.change(number, index, certainty, replaces);
                }
            }
        }
    }
}

/// The value of a name that has none.
const UNBOUND: u64 = 0;

/// What a binding's state follows from, when it follows from the source alone. An import gives what the
/// module holds, which is what it was unless somebody changed it through this name.
fn constant(write: &Write, name: &Name) -> Option<u64> {
    let Shape::Module(member) = &write.shape else { return write.constant };
    if write.kinds.iter().any(|kind| *kind != WriteKind::Import) {
        return write.constant;
    }
    let kept = name.changes.iter().all(|change| change.replaces);
    kept.then(|| text_hash(member))
}

/// Channels whose state nobody can keep track of: they make a run unrepeatable, never stale.
fn is_outside(channel: Channel) -> bool {
    match channel {
        Channel::Time
        | Channel::Network
        | Channel::Process
        | Channel::Input
        | Channel::Background
        | Channel::Host
        | Channel::Device => true,
        Channel::File
        | Channel::Cwd
        | Channel::Environment
        | Channel::Random
        | Channel::Options
        | Channel::SearchPath
        | Channel::ClassTable
        | Channel::Database => false,
    }
}

/// A change on top of a name's states.
pub(super) fn apply(state: &mut State, change: Change) {
    state.value = change.value;
    if change.replaces {
        state.sure = change.delta;
        state.full = change.delta;
        return;
    }
    if change.certainty > Certainty::Possible {
        state.sure = mix(&[state.sure, change.delta]);
    }
    state.full = mix(&[state.full, change.delta]);
}

/// `outer` of what is `inner` of an object.
fn then(outer: Strength, inner: Strength) -> Strength {
    match (outer, inner) {
        (Strength::Same, other) | (other, Strength::Same) => other,
        (Strength::Holds, Strength::Holds) => Strength::Holds,
        (Strength::Part, Strength::Part) => Strength::Part,
        _ => Strength::Possible,
    }
}

fn flip(strength: Strength) -> Strength {
    match strength {
        Strength::Holds => Strength::Part,
        Strength::Part => Strength::Holds,
        Strength::Same | Strength::Possible => strength,
    }
}

fn add_object(objects: &mut Vec<(u32, Strength)>, entry: (u32, Strength)) {
    match objects.iter_mut().find(|(known, _)| *known == entry.0) {
        Some((_, strength)) => *strength = (*strength).max(entry.1),
        None => objects.push(entry),
    }
}

impl Effects {
    pub(super) fn change(&mut self, number: u32, run: u32, certainty: Certainty, replaces: bool) {
        let change = self.writes.entry(number).or_insert(Change {
            run,
            replaces: false,
            certainty,
            delta: 0,
            value: None,
        });
        change.certainty = change.certainty.max(certainty);
        change.replaces |= replaces;
    }

    fn replaces(&mut self, number: u32) {
        if let Some(change) = self.writes.get_mut(&number) {
            change.replaces = true;
        }
    }
}
