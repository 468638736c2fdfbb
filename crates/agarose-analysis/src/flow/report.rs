//! The end of the run: from the state to [`Facts`].

use std::collections::{BTreeMap, BTreeSet};

use super::call::{BINDS, CallRecord, kinds_of};
use super::{BOUND, ChannelUse, Doubt, ENTRY, Flow, GONE, Kind, NO_VAR, Object, Rel, Value, Var};
use crate::facts::{
    ANALYSER, Alias, Argument, Call, Certainty, ChannelEvent, Delete, Dialect, Facts, Function, Import, Read,
    Shape, Strength, Uncertain, Via, Write,
};
use crate::span::{Places, Range, Rows};

/// Aliases of one cell that are listed one by one.
const MAX_ALIASES: usize = 4096;

impl Flow<'_> {
    /// Everything that the run found. `degraded` when parts of the source were not understood: nothing is
    /// then certain. `builtin` says which names the language itself defines.
    pub(crate) fn report(
        mut self,
        source: &str,
        dialect: Dialect,
        degraded: bool,
        builtin: fn(&str) -> bool,
    ) -> Facts {
        self.join_exits();
        self.deferred_reads();
        if degraded {
            self.unsettle();
        }
        let rows = Rows::of(source);
        let spans = |places: &Places| places.iter().map(|range| rows.span(range)).collect::<Vec<_>>();
        let records = std::mem::take(&mut self.frame().records);
        let mut facts = Facts {
            analyser: ANALYSER.to_owned(),
            language: self.language,
            dialect,
            digest: crate::digest::sha256(source.as_bytes()),
            reads: BTreeMap::new(),
            writes: BTreeMap::new(),
            deletes: BTreeMap::new(),
            kills: BTreeSet::new(),
            functions: BTreeMap::new(),
            held: BTreeMap::new(),
            aliases: Vec::new(),
            made_by: BTreeMap::new(),
            calls: Vec::new(),
            assumed: BTreeMap::new(),
            consumes: BTreeSet::new(),
            touches: BTreeSet::new(),
            imports: Vec::new(),
            channels: Vec::new(),
            uncertain: Vec::new(),
            opaque: self.opaque.clone(),
            inspects: false,
        };
        let mut bound: Vec<(Var, Value)> = Vec::new();
        for record in &records {
            if !self.is_global(record.var) {
                continue;
            }
            let slot = self.slot(record.var);
            let name = self.name_of(record.var);
            let cap = |certainty: Certainty| if degraded { certainty.min(Certainty::May) } else { certainty };
            if let Some(certainty) = record.read {
                let read = Read {
                    certainty: cap(certainty),
                    via: record.via,
                    builtin: builtin(name),
                    spans: spans(&record.reads),
                };
                facts.reads.insert(name.to_owned(), read);
            }
            let binds = record.kinds & BINDS != 0 && slot.bits & BOUND != 0;
            // Bound only on paths that do not end normally: if the run fails, it may have happened.
            let lost = record.kinds & BINDS != 0 && slot.bits == ENTRY && !degraded;
            let certainty = if lost {
                Some(Certainty::May)
            } else if binds {
                Some(if slot.bits == BOUND { Certainty::Must } else { Certainty::May })
            } else {
                None
            };
            if let Some(certainty) = certainty.max(record.mutated) {
                let kinds = if binds || lost { record.kinds } else { record.kinds & !BINDS };
                let write = Write {
                    certainty: cap(certainty),
                    kinds: kinds_of(kinds).collect(),
                    deep: record.deep,
                    shape: if binds { self.shape(slot.value) } else { Shape::Unknown },
                    constant: if slot.bits == BOUND && record.mutated.is_none() && !degraded {
                        self.values[slot.value.index()].constant
                    } else {
                        None
                    },
                    spans: spans(&record.writes),
                };
                facts.writes.insert(name.to_owned(), write);
                if binds {
                    bound.push((record.var, slot.value));
                }
                if !binds && slot.value != super::FRESH {
                    bound.push((record.var, slot.value));
                }
                if slot.bits == BOUND && record.read.is_none() && !degraded {
                    facts.kills.insert(name.to_owned());
                }
            }
            if record.deleted && slot.bits & GONE != 0 {
                let certainty = if slot.bits == GONE { Certainty::Must } else { Certainty::May };
                let delete = Delete { certainty: cap(certainty), spans: spans(&record.deletes) };
                facts.deletes.insert(name.to_owned(), delete);
            }
        }
        self.report_values(&bound, &mut facts, &rows);
        for (symbol, module) in &self.assumed {
            let name = self.symbols.name(*symbol);
            if facts.reads.contains_key(name) {
                facts.assumed.insert(name.to_owned(), (*module).to_owned());
            }
        }
        for var in &self.consumed {
            if self.is_global(*var) {
                facts.consumes.insert(self.name_of(*var).to_owned());
            }
        }
        for var in &self.touched {
            if self.is_global(*var) {
                facts.touches.insert(self.name_of(*var).to_owned());
            }
        }
        for (module, symbol, at) in &self.imports {
            let name = symbol.map(|symbol| self.symbols.name(symbol).to_owned());
            facts.imports.push(Import { module: module.clone(), name, span: rows.span(*at) });
        }
        let frame = self.frame_ref();
        facts.calls = self.calls(&frame.calls, &rows);
        facts.channels = channels(&frame.channels, &rows);
        facts.uncertain = doubts(&frame.doubts, &rows);
        facts.imports.sort();
        facts.imports.dedup();
        facts
    }

    /// What functions of the cell read when somebody calls them later.
    fn deferred_reads(&mut self) {
        let mut seen = vec![false; self.summaries.len()];
        let mut open: Vec<u32> = self.frame_ref().defined.clone();
        while let Some(id) = open.pop() {
            if std::mem::replace(&mut seen[id as usize], true) {
                continue;
            }
            let summary = &self.summaries[id as usize];
            let reads: Vec<(Var, Range)> = summary
                .traces
                .iter()
                .filter(|trace| trace.read.is_some())
                .map(|trace| (trace.var, trace.at))
                .collect();
            open.extend(&summary.defined);
            for (var, at) in reads {
                if self.is_global(var) && self.bits(var) & ENTRY != 0 {
                    self.uncertain();
                    self.read(var, at, Via::Deferred);
                    self.certain();
                }
            }
        }
    }

    fn shape(&self, value: Value) -> Shape {
        match self.kind(value) {
            Kind::Immutable => Shape::Immutable,
            Kind::Iterator => Shape::Iterator,
            Kind::Reference => Shape::Reference,
            Kind::Module(name) => Shape::Module(self.symbols.name(*name).to_owned()),
            Kind::Unknown | Kind::Functions(_) | Kind::Class(_) | Kind::Instance(_) | Kind::Namespace => {
                Shape::Unknown
            }
        }
    }

    fn report_values(&mut self, bound: &[(Var, Value)], facts: &mut Facts, rows: &Rows) {
        let mut shared: BTreeMap<u32, Vec<(Var, Rel)>> = BTreeMap::new();
        for (var, value) in bound {
            let name = self.name_of(*var).to_owned();
            match self.kind(*value).clone() {
                Kind::Functions(ids) => {
                    let mut function = Function::default();
                    for id in ids.iter().take(8) {
                        self.describe(*id, &mut function, ids.len() > 1, rows, 0);
                    }
                    facts.functions.insert(name.clone(), function);
                }
                Kind::Class(class) => {
                    let function = self.describe_class(class, rows);
                    facts.functions.insert(name.clone(), function);
                }
                _ => {}
            }
            let held = self.values[value.index()].held.clone();
            if !held.is_empty() {
                let mut function = Function::default();
                for id in held {
                    self.describe(id, &mut function, true, rows, 1);
                }
                facts.held.insert(name.clone(), function);
            }
            let makers: BTreeSet<String> = self
                .made_by(*value)
                .iter()
                .filter(|maker| self.is_global(**maker))
                .map(|maker| self.name_of(*maker).to_owned())
                .filter(|maker| *maker != name)
                .collect();
            if !makers.is_empty() {
                facts.made_by.insert(name.clone(), makers);
            }
            let reference =
                self.language == crate::facts::Language::Python || *self.kind(*value) == Kind::Reference;
            for (object, rel) in &self.values[value.index()].rels {
                match self.objects[*object as usize] {
                    Object::External(other) if self.is_global(other) => {
                        if (other != *var || self.bits(*var) & BOUND != 0)
                            && facts.aliases.len() < MAX_ALIASES
                            && !matches!(self.kind(*value), Kind::Module(_))
                        {
                            facts.aliases.push(Alias {
                                name: name.clone(),
                                other: self.name_of(other).to_owned(),
                                before: true,
                                strength: strength(*rel),
                            });
                        }
                    }
                    Object::New if reference => shared.entry(*object).or_default().push((*var, *rel)),
                    Object::External(_) | Object::Parameter(..) | Object::New => {}
                }
            }
        }
        for holders in shared.values().filter(|holders| holders.len() > 1) {
            // A chain is enough: whoever reads it takes the closure.
            for pair in holders.windows(2) {
                let [(one, a), (two, b)] = pair else { continue };
                if facts.aliases.len() < MAX_ALIASES {
                    facts.aliases.push(Alias {
                        name: self.name_of(*one).to_owned(),
                        other: self.name_of(*two).to_owned(),
                        before: false,
                        strength: both(*a, *b),
                    });
                }
            }
        }
        facts.aliases.sort();
        facts.aliases.dedup();
    }

    fn describe_class(&self, class: u32, rows: &Rows) -> Function {
        let class = &self.classes[class as usize];
        let mut whole = Function::default();
        for (name, id) in &class.methods {
            let mut method = Function::default();
            self.describe(*id, &mut method, false, rows, 0);
            whole.methods.insert(self.symbols.name(*name).to_owned(), method);
        }
        if class.open {
            // Inherited methods are not here; the marker keeps their calls unknown.
            whole.methods.insert("*".to_owned(), Function::default());
        }
        whole
    }

    fn describe(&self, id: u32, into: &mut Function, several: bool, rows: &Rows, depth: usize) {
        let summary = &self.summaries[id as usize];
        for trace in &summary.traces {
            if !self.is_global(trace.var) {
                continue;
            }
            let name = self.name_of(trace.var);
            let cap = |certainty: Certainty| if several { certainty.min(Certainty::May) } else { certainty };
            let add = |map: &mut BTreeMap<String, Certainty>, certainty: Option<Certainty>| {
                if let Some(certainty) = certainty {
                    let known = map.entry(name.to_owned()).or_insert(Certainty::Possible);
                    *known = (*known).max(if depth > 0 { Certainty::Possible } else { cap(certainty) });
                }
            };
            add(&mut into.reads, trace.read);
            add(&mut into.writes, trace.write.max(trace.mutated));
            add(&mut into.deletes, trace.delete);
        }
        if depth == 0 {
            if into.parameters.is_empty() {
                into.parameters =
                    summary.parameters.iter().map(|name| self.symbols.name(*name).to_owned()).collect();
            }
            into.mutates.extend((0..64).filter(|n| summary.mutated_parameters & (1 << n) != 0));
        }
        into.stateful |= summary.stateful;
        into.calls.extend(self.calls(&summary.calls, rows));
        into.calls.sort();
        into.calls.dedup();
        into.channels.extend(channels(&summary.channels, rows));
        into.uncertain.extend(doubts(&summary.doubts, rows));
        if depth < 4 {
            for inner in summary.defined.iter().take(64) {
                self.describe(*inner, into, several, rows, depth + 1);
            }
        }
    }

    fn calls(&self, calls: &[CallRecord], rows: &Rows) -> Vec<Call> {
        let mut list: Vec<Call> = Vec::new();
        for call in calls {
            if call.callee == NO_VAR || !self.is_global(call.callee) {
                continue;
            }
            let mut arguments: Vec<Argument> = Vec::new();
            for arg in &call.arguments {
                let (position, keyword) = match arg.key {
                    super::Key::Position(n) => (Some(n), None),
                    super::Key::Keyword(name) => (None, Some(self.symbols.name(name).to_owned())),
                    super::Key::Any => (None, None),
                };
                for (object, _) in &self.values[arg.value.index()].rels {
                    let (name, parameter) = match self.objects[*object as usize] {
                        Object::External(root) if self.is_global(root) => {
                            (self.name_of(root).to_owned(), None)
                        }
                        Object::Parameter(_, of) => (String::new(), Some(of)),
                        Object::External(_) | Object::New => continue,
                    };
                    arguments.push(Argument { position, keyword: keyword.clone(), name, parameter });
                }
            }
            arguments.sort();
            arguments.dedup();
            list.push(Call {
                callee: self.name_of(call.callee).to_owned(),
                method: call.method.map(|name| self.symbols.name(name).to_owned()),
                arguments,
                span: rows.span(call.at),
            });
        }
        list.sort();
        list.dedup_by(|a, b| a.callee == b.callee && a.method == b.method && a.arguments == b.arguments);
        list
    }
}

fn strength(rel: Rel) -> Strength {
    match rel {
        Rel::Possible => Strength::Possible,
        Rel::Inside => Strength::Holds,
        Rel::Part | Rel::Element => Strength::Part,
        Rel::Same => Strength::Same,
    }
}

/// How two values hang together that are `a` and `b` of one object.
fn both(a: Rel, b: Rel) -> Strength {
    match (a, b) {
        (Rel::Same, Rel::Same) => Strength::Same,
        (Rel::Same, Rel::Inside) => Strength::Part,
        (Rel::Inside, Rel::Same) => Strength::Holds,
        (Rel::Same | Rel::Inside, Rel::Part | Rel::Element) => Strength::Holds,
        (Rel::Part | Rel::Element, Rel::Same | Rel::Inside) => Strength::Part,
        _ => Strength::Possible,
    }
}

fn channels(used: &[ChannelUse], rows: &Rows) -> Vec<ChannelEvent> {
    let mut list: Vec<ChannelEvent> = used
        .iter()
        .map(|used| ChannelEvent {
            channel: used.channel,
            access: used.access,
            key: used.key.clone(),
            span: rows.span(used.at),
        })
        .collect();
    list.sort();
    list.dedup();
    list
}

fn doubts(doubts: &[Doubt], rows: &Rows) -> Vec<Uncertain> {
    let mut list: Vec<Uncertain> = doubts
        .iter()
        .map(|doubt| Uncertain {
            code: doubt.code,
            effect: doubt.effect,
            scope: doubt.scope.clone(),
            what: doubt.what.clone(),
            span: rows.span(doubt.at),
        })
        .collect();
    list.sort();
    list.dedup();
    list
}
