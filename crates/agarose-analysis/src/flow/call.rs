//! Functions: what is left of a body after its run, and what a call of it does.

use super::{
    BOUND, Certainty, ChannelUse, Doubt, ENTRY, FRESH, Flow, GONE, IMMUTABLE, Kind, NO_VAR, Object, Range,
    Rel, Value, Var, Via, WriteKind, kind_bit,
};
use crate::symbols::Symbol;

/// Which parameter an argument is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Key {
    Position(u32),
    Keyword(Symbol),
    /// Any of them (`*args`, `...`).
    Any,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Arg {
    pub(crate) key: Key,
    pub(crate) value: Value,
}

/// A call of a name whose definition the cell does not have.
#[derive(Clone)]
pub(super) struct CallRecord {
    pub(super) callee: Var,
    pub(super) method: Option<Symbol>,
    pub(super) arguments: Vec<Arg>,
    pub(super) at: Range,
}

/// One variable's part of a [`Summary`].
#[derive(Clone, Copy)]
pub(super) struct Trace {
    pub(super) var: Var,
    pub(super) read: Option<Certainty>,
    pub(super) write: Option<Certainty>,
    pub(super) value: Value,
    pub(super) mutated: Option<Certainty>,
    pub(super) delete: Option<Certainty>,
    pub(super) at: Range,
}

/// What a call of a function does.
pub(crate) struct Summary {
    pub(super) frame: u32,
    pub(super) parameters: Vec<Symbol>,
    pub(super) traces: Vec<Trace>,
    pub(super) mutated_parameters: u64,
    pub(super) calls: Vec<CallRecord>,
    pub(super) channels: Vec<ChannelUse>,
    pub(super) doubts: Vec<Doubt>,
    pub(super) defined: Vec<u32>,
    pub(super) stateful: bool,
    pub(super) result: Value,
}

pub(super) struct Class {
    pub(super) methods: Vec<(Symbol, u32)>,
    pub(super) name: Var,
    /// It may have methods that are not in the cell.
    pub(super) open: bool,
}

impl<'s> Flow<'s> {
    /// A function's body starts. Nothing that happens in it happens to the outside, until
    /// [`Flow::end_function`] sums it up.
    pub(crate) fn begin_function(&mut self) {
        self.push_frame();
    }

    /// The body ends with `last` as the value of falling off its end.
    pub(crate) fn end_function(&mut self, parameters: Vec<Symbol>, last: Value) -> u32 {
        if !self.frame_ref().dead {
            self.frame().results.push(last);
        }
        self.join_exits();
        let frame = self.frame_ref().id;
        let records = std::mem::take(&mut self.frame().records);
        let defined = std::mem::take(&mut self.frame().defined);
        let mut traces: Vec<Trace> = Vec::with_capacity(records.len());
        for record in &records {
            self.records[record.var as usize] = record.hidden;
            let owner = self.variables[record.var as usize].owner;
            if owner == frame {
                continue;
            }
            let bits = self.bits(record.var);
            let bound = record.kinds & BINDS != 0 && bits & BOUND != 0;
            let changes = bound || record.mutated.is_some_and(|certainty| certainty > Certainty::Possible);
            if owner != 0 && changes {
                self.frame().stateful = true;
            }
            traces.push(Trace {
                var: record.var,
                read: record.read,
                write: bound.then_some(if bits == BOUND { Certainty::Must } else { Certainty::May }),
                value: if bits & BOUND == 0 { FRESH } else { self.slot(record.var).value },
                mutated: record.mutated,
                delete: (record.deleted && bits & GONE != 0).then_some(if bits == GONE {
                    Certainty::Must
                } else {
                    Certainty::May
                }),
                at: record.reads.iter().next().or(record.writes.iter().next()).unwrap_or_default(),
            });
        }
        // What inner functions read is read when they run, which may be whenever this one runs or later.
        for inner in &defined {
            let reads: Vec<(Var, Range)> = self.summaries[*inner as usize]
                .traces
                .iter()
                .filter(|trace| trace.read.is_some())
                .map(|trace| (trace.var, trace.at))
                .collect();
            self.spend(reads.len());
            for (var, at) in reads {
                if self.bits(var) & ENTRY == 0 {
                    continue;
                }
                let Some(var) = self.outermost(var) else { continue };
                let owner = self.variables[var as usize].owner;
                if owner == frame {
                    continue;
                }
                match traces.iter_mut().find(|known| known.var == var) {
                    Some(known) => known.read = known.read.or(Some(Certainty::May)),
                    None => traces.push(Trace {
                        var,
                        read: Some(Certainty::May),
                        write: None,
                        value: FRESH,
                        mutated: None,
                        delete: None,
                        at,
                    }),
                }
            }
        }
        let results = std::mem::take(&mut self.frame().results);
        let mut result = results.first().copied().unwrap_or(FRESH);
        for other in results.iter().skip(1).take(64) {
            result = self.union(result, *other);
        }
        let mark = self.frame_ref().trail;
        while self.trail.len() > mark {
            if let Some((var, slot)) = self.trail.pop() {
                self.slots[var as usize] = slot;
            }
        }
        let Some(frame) = self.frames.pop() else { return 0 };
        self.watchers.truncate(frame.watchers);
        let id = self.summaries.len() as u32;
        self.summaries.push(Summary {
            frame: frame.id,
            parameters,
            traces,
            mutated_parameters: frame.mutated_parameters,
            calls: frame.calls,
            channels: frame.channels,
            doubts: frame.doubts,
            defined,
            stateful: frame.stateful,
            result,
        });
        self.frame().defined.push(id);
        id
    }

    /// What a name means in the end, when neither this variable nor those behind it are surely bound.
    fn outermost(&self, mut var: Var) -> Option<Var> {
        while let Some(outer) = self.fallback(var) {
            if self.bits(outer) & ENTRY == 0 {
                return None;
            }
            var = outer;
        }
        Some(var)
    }

    pub(crate) fn function_value(&mut self, id: u32) -> Value {
        self.new_of_kind(Kind::Functions(vec![id]))
    }

    pub(crate) fn class_value(&mut self, name: Var, methods: Vec<(Symbol, u32)>, open: bool) -> Value {
        let id = self.classes.len() as u32;
        self.classes.push(Class { methods, name, open });
        self.new_of_kind(Kind::Class(id))
    }

    /// The functions that a value is, or the method of this name that it has; and whether it may as well be
    /// something else.
    fn targets(&self, value: Value, method: Option<Symbol>) -> (Vec<u32>, bool) {
        match (self.kind(value), method) {
            (Kind::Functions(ids), None) => (ids.clone(), false),
            (Kind::Instance(class) | Kind::Class(class), Some(name)) => {
                let class = &self.classes[*class as usize];
                let found: Vec<u32> =
                    class.methods.iter().filter(|(known, _)| *known == name).map(|(_, id)| *id).collect();
                let open = found.is_empty() || class.open;
                (found, open)
            }
            _ => (Vec::new(), true),
        }
    }

    /// Calls `value`, or `value.method` when a method is given.
    pub(crate) fn call(
        &mut self,
        value: Value,
        method: Option<Symbol>,
        arguments: &[Arg],
        at: Range,
        copies: bool,
    ) -> Value {
        if let (Kind::Class(class), None) = (self.kind(value).clone(), method) {
            return self.instantiate(value, class, arguments, at);
        }
        let (targets, open) = self.targets(value, method);
        let is_method = method.is_some() && matches!(self.kind(value), Kind::Instance(_));
        let mut shifted: Vec<Arg> = Vec::new();
        if is_method {
            shifted.push(Arg { key: Key::Position(0), value });
            shifted.extend(arguments.iter().map(|arg| match arg.key {
                Key::Position(n) => Arg { key: Key::Position(n + 1), value: arg.value },
                Key::Keyword(_) | Key::Any => *arg,
            }));
        }
        let passed: &[Arg] = if is_method { &shifted } else { arguments };
        let certain = targets.len() == 1 && !open;
        let mut result = Value::NONE;
        for id in &targets {
            let one = self.apply(*id, passed, certain, at);
            result = if result == Value::NONE { one } else { self.union(result, one) };
        }
        if !open {
            return if result == Value::NONE { FRESH } else { result };
        }
        // Somebody else's code: it may keep, return or change whatever it is given.
        let mut given: Vec<Value> = arguments.iter().map(|arg| arg.value).collect();
        let mut recorded = false;
        if let Some(callee) = self.root(value) {
            recorded = self.record_call(callee, method, arguments, at);
        } else if method.is_some() && matches!(self.kind(value), Kind::Unknown) {
            // What came out of a call of the session's, if that made an object.
            let makers = self.made_by(value).to_vec();
            let alone = makers.len() == 1 && self.roots(value).iter().all(|root| makers.contains(root));
            for maker in makers.iter().copied().take(4) {
                recorded = self.record_call(maker, method, arguments, at) && alone;
            }
        } else {
            for callee in self.roots(value).into_iter().take(4) {
                self.record_call(callee, method, arguments, at);
            }
        }
        if !copies {
            for arg in arguments {
                self.mutate_by_call(arg.value, recorded, at);
            }
        }
        if (method.is_some() && !copies) || matches!(self.kind(value), Kind::Instance(_) | Kind::Class(_)) {
            self.mutate_by_call(value, recorded, at);
        }
        for arg in arguments {
            self.escape(arg.value, at);
        }
        self.hand_over(arguments, at);
        if method.is_some() || matches!(self.kind(value), Kind::Functions(_)) {
            given.push(value);
        }
        let mut unknown = if copies { FRESH } else { self.made_by_unknown(&given) };
        if method.is_none()
            && let Some(callee) = self.root(value)
        {
            unknown = self.with_maker(unknown, callee);
        }
        if result == Value::NONE { unknown } else { self.union(result, unknown) }
    }

    /// Notes the call for whoever knows the session. Whether it could.
    fn record_call(&mut self, callee: Var, method: Option<Symbol>, arguments: &[Arg], at: Range) -> bool {
        let conventional = matches!(self.externals.get(callee as usize), Some(known) if *known != Value::NONE
            && matches!(self.kind(*known), Kind::Module(_)));
        if conventional || !self.is_global(callee) {
            return false;
        }
        let frame = self.frame();
        let room = frame.calls.len() < 4096;
        if room {
            frame.calls.push(CallRecord { callee, method, arguments: arguments.to_vec(), at });
        }
        room
    }

    fn instantiate(&mut self, value: Value, class: u32, arguments: &[Arg], at: Range) -> Value {
        let init = self.symbols.intern("__init__");
        let found: Vec<u32> = self.classes[class as usize]
            .methods
            .iter()
            .filter(|(known, _)| *known == init)
            .map(|(_, id)| *id)
            .collect();
        let open = self.classes[class as usize].open;
        let given: Vec<Value> = arguments.iter().map(|arg| arg.value).collect();
        let made = self.holding(&given);
        let made = if made == FRESH { self.new_object() } else { made };
        let instance = self.with_kind(made, Kind::Instance(class));
        let name = self.classes[class as usize].name;
        let instance = if name == NO_VAR { instance } else { self.with_maker(instance, name) };
        let mut passed = vec![Arg { key: Key::Position(0), value: instance }];
        passed.extend(arguments.iter().map(|arg| match arg.key {
            Key::Position(n) => Arg { key: Key::Position(n + 1), value: arg.value },
            Key::Keyword(_) | Key::Any => *arg,
        }));
        for id in found {
            self.apply(id, &passed, !open, at);
        }
        if open {
            for arg in arguments {
                self.mutate(arg.value, Certainty::Possible, true, at);
                self.escape(arg.value, at);
            }
        }
        let _ = value;
        instance
    }

    /// Functions of other cells among these are handed to code that calls them, with the rest as arguments.
    pub(crate) fn hand_over(&mut self, arguments: &[Arg], at: Range) {
        for (position, arg) in arguments.iter().enumerate() {
            let Some(callee) = self.root(arg.value) else { continue };
            if !self.is_global(callee) {
                continue;
            }
            let others: Vec<Arg> = arguments
                .iter()
                .enumerate()
                .filter(|(other, _)| *other != position)
                .map(|(_, arg)| Arg { key: Key::Any, value: arg.value })
                .collect();
            self.record_call(callee, None, &others, at);
        }
    }

    /// The value is handed to code that is not known: whatever it can do may happen now or later.
    pub(crate) fn escape(&mut self, value: Value, at: Range) {
        let ids: Vec<u32> = match self.kind(value) {
            Kind::Functions(ids) => ids.clone(),
            Kind::Class(class) | Kind::Instance(class) => {
                self.classes[*class as usize].methods.iter().map(|(_, id)| *id).collect()
            }
            _ => return,
        };
        for id in ids {
            if self.frame_ref().escaped.contains(&id) {
                continue;
            }
            self.frame().escaped.push(id);
            self.apply(id, &[], false, at);
        }
    }

    /// Applies a function's summary here.
    pub(crate) fn apply(&mut self, id: u32, arguments: &[Arg], certain: bool, at: Range) -> Value {
        if self.applying.contains(&id) || self.applying.len() > 64 {
            return FRESH;
        }
        let summary = &self.summaries[id as usize];
        let steps = 1 + summary.traces.len() + summary.calls.len();
        if !self.spend(steps) {
            return FRESH;
        }
        self.applying.push(id);
        let summary = &self.summaries[id as usize];
        let frame = summary.frame;
        let parameters = summary.parameters.clone();
        let traces = summary.traces.clone();
        let calls = summary.calls.clone();
        let mutated = summary.mutated_parameters;
        let result = summary.result;
        let doubts = summary.doubts.clone();
        let channels: Vec<_> =
            summary.channels.iter().map(|used| (used.channel, used.access, used.key.clone())).collect();
        for trace in &traces {
            if trace.read.is_some() {
                let most = if certain { trace.read.unwrap_or(Certainty::May) } else { Certainty::May };
                self.read_as(trace.var, at, Via::Callee, most);
            }
        }
        for call in &calls {
            let passed: Vec<Arg> = call
                .arguments
                .iter()
                .map(|arg| Arg {
                    key: arg.key,
                    value: self.substitute(arg.value, frame, &parameters, arguments),
                })
                .collect();
            let callee = self.peek(call.callee);
            if matches!(self.kind(callee), Kind::Functions(_) | Kind::Class(_) | Kind::Instance(_)) {
                self.uncertain();
                self.call(callee, call.method, &passed, at, false);
                self.certain();
            } else if self.bits(call.callee) & ENTRY != 0 {
                let recorded = self.record_call(call.callee, call.method, &passed, at);
                if self.language == crate::facts::Language::Python {
                    for arg in &passed {
                        self.mutate_by_call(arg.value, recorded, at);
                    }
                }
            }
        }
        for trace in &traces {
            if let Some(certainty) = trace.mutated {
                let value = self.peek(trace.var);
                let most = if certain { certainty } else { certainty.min(Certainty::May) };
                self.mutate(value, most, true, at);
            }
            if let Some(certainty) = trace.write {
                let value = self.substitute(trace.value, frame, &parameters, arguments);
                if certain && certainty == Certainty::Must {
                    self.write(trace.var, value, WriteKind::Bind, at);
                } else {
                    self.write_maybe(trace.var, value, WriteKind::Bind, at);
                }
            }
            if let Some(certainty) = trace.delete {
                if certain && certainty == Certainty::Must {
                    self.delete(trace.var, at);
                } else {
                    self.delete_maybe(trace.var, at);
                }
            }
        }
        if mutated != 0 {
            for arg in arguments {
                let hit = match arg.key {
                    Key::Position(n) => mutated & (1 << n.min(63)) != 0,
                    Key::Keyword(name) => parameters
                        .iter()
                        .position(|known| *known == name)
                        .is_none_or(|n| mutated & (1 << n.min(63)) != 0),
                    Key::Any => true,
                };
                if hit {
                    self.mutate(arg.value, Certainty::May, true, at);
                }
            }
        }
        for mut doubt in doubts {
            doubt.at = at;
            self.add_doubt(doubt);
        }
        for (channel, access, key) in channels {
            self.channel(channel, access, key, at);
        }
        let result = self.substitute(result, frame, &parameters, arguments);
        self.applying.pop();
        result
    }

    /// A value of a function's body, with the arguments in place of its parameters.
    fn substitute(&mut self, value: Value, frame: u32, parameters: &[Symbol], arguments: &[Arg]) -> Value {
        let data = &self.values[value.index()];
        let inner = |(object, _): &(u32, Rel)| matches!(self.objects[*object as usize], Object::Parameter(of, _) if of == frame);
        if value == FRESH || value == IMMUTABLE || !data.rels.iter().any(inner) {
            return value;
        }
        let mut data = data.clone();
        let rels = std::mem::take(&mut data.rels);
        let mut kept: Vec<(u32, Rel)> = Vec::with_capacity(rels.len());
        for (object, rel) in rels {
            let Object::Parameter(of, position) = self.objects[object as usize] else {
                kept.push((object, rel));
                continue;
            };
            if of != frame {
                kept.push((object, rel));
                continue;
            }
            for arg in arguments {
                let (hit, rel) = match arg.key {
                    Key::Position(n) => (n == position, rel),
                    Key::Keyword(name) => (parameters.get(position as usize) == Some(&name), rel),
                    Key::Any => (true, Rel::Possible),
                };
                if hit {
                    let given = &self.values[arg.value.index()];
                    if rel == Rel::Same && matches!(data.kind, Kind::Unknown) {
                        data.kind = given.kind.clone();
                    }
                    kept.extend(given.rels.iter().map(|(known, inner)| (*known, rel.then(*inner))));
                }
            }
        }
        data.rels = kept;
        self.add_value(data)
    }
}

/// Kinds of writes that bind.
pub(super) const BINDS: u8 =
    (1 << (WriteKind::Bind as u8)) | (1 << (WriteKind::Import as u8)) | (1 << (WriteKind::Define as u8));

const _: () = assert!(BINDS == 7, "the binding kinds come first");

pub(super) fn kinds_of(bits: u8) -> impl Iterator<Item = WriteKind> {
    [
        WriteKind::Bind,
        WriteKind::Import,
        WriteKind::Define,
        WriteKind::Mutate,
        WriteKind::CalleeMutate,
        WriteKind::CallMutate,
        WriteKind::Hidden,
    ]
    .into_iter()
    .filter(move |kind| bits & kind_bit(*kind) != 0)
}
