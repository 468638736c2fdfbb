//! The abstract run of a cell, the same for both languages.
//!
//! A language's walker visits a cell in the order of evaluation and tells [`Flow`] what happens: a name
//! is read, bound, unbound, its value changed; paths part and meet. `Flow` keeps, for each variable, the
//! *set* of things it may be at this point (still what it was before the cell, bound by the cell,
//! unbound by the cell), and from that decides which reads see the outside and which writes are certain.
//!
//! - State is one slot per variable plus a trail of old slots: to part is to remember the trail's
//!   length, to meet is to roll back to it. The cost is the number of changes, not of variables.
//! - A function's body is run once, where it is defined, in a frame of its own in which every variable is
//!   again "what it was before". What is left of it is a [`Summary`], applied at each call.
//! - Values carry just enough to follow aliases: the objects that they are, hold or belong to.
//!
//! It must not know any syntax, and no library.

mod call;
mod fork;
mod report;
mod value;

pub(crate) use call::{Arg, Key, Summary};
pub(crate) use fork::Fork;
pub(crate) use value::{FRESH, IMMUTABLE, Kind, Object, Rel, Value};

use crate::facts::{Access, Certainty, Channel, Code, Effect, Language, Scope, Via, WriteKind};
use crate::span::{Places, Range};
use crate::symbols::{Symbol, Symbols};
use call::{CallRecord, Class};
use value::ValueData;

/// A variable of the analysis: a name of the session, or a local of a function or class body.
pub(crate) type Var = u32;
pub(crate) const NO_VAR: Var = u32::MAX;

/// It may still be what it was before the cell (in a function: before the call).
pub(crate) const ENTRY: u8 = 1;
/// It may have been bound here.
pub(crate) const BOUND: u8 = 2;
/// It may have been unbound here.
pub(crate) const GONE: u8 = 4;

/// Names of one cell. Beyond this the rest of the cell is not analysed, and that is said.
const MAX_NAMES: usize = 1 << 16;
/// Steps of one analysis (a step is about a variable touched). Bounds the applications of summaries.
const MAX_WORK: u64 = 6_000_000;

#[derive(Clone, Copy)]
struct Slot {
    frame: u32,
    bits: u8,
    value: Value,
}

#[derive(Clone, Copy)]
struct Variable {
    symbol: Symbol,
    /// The frame that owns it; 0 for names of the session.
    owner: u32,
    /// The variable that the name means while this one is not bound (R looks outwards at each read).
    outer: Var,
}

/// What happened to one variable in one frame.
#[derive(Clone, Copy)]
struct Record {
    var: Var,
    /// The record that this one hides, of an outer frame.
    hidden: (u32, u32),
    read: Option<Certainty>,
    via: Via,
    kinds: u8,
    mutated: Option<Certainty>,
    deep: bool,
    deleted: bool,
    reads: Places,
    writes: Places,
    deletes: Places,
}

pub(crate) struct ChannelUse {
    pub(crate) channel: Channel,
    pub(crate) access: Access,
    pub(crate) key: Option<String>,
    pub(crate) at: Range,
}

#[derive(Clone)]
pub(crate) struct Doubt {
    pub(crate) code: Code,
    pub(crate) effect: Effect,
    pub(crate) scope: Scope,
    pub(crate) what: Option<String>,
    pub(crate) at: Range,
}

struct Frame {
    id: u32,
    trail: usize,
    records: Vec<Record>,
    /// How many conditions stand between this point and the frame's start.
    conditions: u32,
    /// No normal path reaches this point.
    dead: bool,
    exit: Fork,
    /// State at a `raise` that leaves the frame, for cells that only end so.
    abnormal: Fork,
    loops: Vec<(Fork, Fork)>,
    calls: Vec<CallRecord>,
    channels: Vec<ChannelUse>,
    doubts: Vec<Doubt>,
    /// Functions defined here, run or not.
    defined: Vec<u32>,
    escaped: Vec<u32>,
    mutated_parameters: u64,
    results: Vec<Value>,
    stateful: bool,
    watchers: usize,
}

/// See the module.
pub(crate) struct Flow<'s> {
    pub(crate) symbols: Symbols<'s>,
    pub(crate) language: Language,
    variables: Vec<Variable>,
    slots: Vec<Slot>,
    records: Vec<(u32, u32)>,
    externals: Vec<Value>,
    globals: Vec<Var>,
    values: Vec<ValueData>,
    objects: Vec<Object>,
    trail: Vec<(Var, Slot)>,
    frames: Vec<Frame>,
    next_frame: u32,
    summaries: Vec<Summary>,
    classes: Vec<Class>,
    watchers: Vec<Vec<(Var, Slot)>>,
    stamps: Vec<u32>,
    stamp: u32,
    work: u64,
    exhausted: bool,
    applying: Vec<u32>,
    pub(crate) imports: Vec<(String, Option<Symbol>, Range)>,
    /// Functions of libraries that no table has.
    pub(crate) opaque: std::collections::BTreeSet<String>,
    pub(crate) assumed: Vec<(Symbol, &'static str)>,
    pub(crate) consumed: Vec<Var>,
    /// Changed if they have identity (R only).
    touched: Vec<Var>,
    /// The names by which everybody calls a module.
    conventions: fn(&str) -> Option<&'static str>,
}

impl<'s> Flow<'s> {
    pub(crate) fn new(language: Language, conventions: fn(&str) -> Option<&'static str>) -> Self {
        let mut flow = Self {
            symbols: Symbols::default(),
            language,
            variables: Vec::new(),
            slots: Vec::new(),
            records: Vec::new(),
            externals: Vec::new(),
            globals: Vec::new(),
            values: vec![ValueData::default(), ValueData::of_kind(Kind::Immutable)],
            objects: Vec::new(),
            trail: Vec::new(),
            frames: Vec::new(),
            next_frame: 1,
            summaries: Vec::new(),
            classes: Vec::new(),
            watchers: Vec::new(),
            stamps: Vec::new(),
            stamp: 0,
            work: 0,
            exhausted: false,
            applying: Vec::new(),
            imports: Vec::new(),
            opaque: std::collections::BTreeSet::new(),
            assumed: Vec::new(),
            consumed: Vec::new(),
            touched: Vec::new(),
            conventions,
        };
        flow.push_frame();
        flow
    }

    fn push_frame(&mut self) -> u32 {
        let id = self.next_frame;
        self.next_frame += 1;
        let mark = self.trail.len();
        self.frames.push(Frame {
            id,
            trail: mark,
            records: Vec::new(),
            conditions: 0,
            dead: false,
            exit: Fork::at(mark),
            abnormal: Fork::at(mark),
            loops: Vec::new(),
            calls: Vec::new(),
            channels: Vec::new(),
            doubts: Vec::new(),
            defined: Vec::new(),
            escaped: Vec::new(),
            mutated_parameters: 0,
            results: Vec::new(),
            stateful: false,
            watchers: self.watchers.len(),
        });
        id
    }

    fn frame(&mut self) -> &mut Frame {
        let last = self.frames.len() - 1;
        &mut self.frames[last]
    }

    fn frame_ref(&self) -> &Frame {
        &self.frames[self.frames.len() - 1]
    }

    /// Whether the code is in a function's body.
    pub(crate) fn in_function(&self) -> bool {
        self.frames.len() > 1
    }

    pub(crate) fn exhausted(&self) -> bool {
        self.exhausted
    }

    fn spend(&mut self, steps: usize) -> bool {
        self.work += steps as u64;
        if self.work > MAX_WORK && !self.exhausted {
            self.exhausted = true;
        }
        !self.exhausted
    }

    pub(crate) fn intern(&mut self, name: &'s str) -> Symbol {
        self.symbols.intern(name)
    }

    fn new_variable(&mut self, symbol: Symbol, owner: u32) -> Var {
        let var = self.variables.len() as Var;
        self.variables.push(Variable { symbol, owner, outer: NO_VAR });
        self.slots.push(Slot { frame: 0, bits: ENTRY, value: FRESH });
        self.records.push((0, 0));
        self.externals.push(Value::NONE);
        self.stamps.push(0);
        if self.variables.len() > MAX_NAMES {
            self.exhausted = true;
        }
        var
    }

    /// The session's variable of this name.
    pub(crate) fn global(&mut self, symbol: Symbol) -> Var {
        let at = symbol as usize;
        if at >= self.globals.len() {
            self.globals.resize(at + 1, NO_VAR);
        }
        if self.globals[at] == NO_VAR {
            self.globals[at] = self.new_variable(symbol, 0);
        }
        self.globals[at]
    }

    /// A variable of the frame that runs now, or of a block in it (a class body, a mask).
    pub(crate) fn local(&mut self, symbol: Symbol) -> Var {
        let owner = self.frame_ref().id;
        self.new_variable(symbol, owner)
    }

    /// Where the name is looked up while `var` is not bound.
    pub(crate) fn set_outer(&mut self, var: Var, outer: Var) {
        self.variables[var as usize].outer = outer;
    }

    /// The variable that the name means while `var` is not bound, where that is this frame's business.
    fn fallback(&self, var: Var) -> Option<Var> {
        let variable = self.variables[var as usize];
        let own = variable.owner == self.frame_ref().id;
        (own && variable.outer != NO_VAR).then_some(variable.outer)
    }

    pub(crate) fn is_global(&self, var: Var) -> bool {
        self.variables[var as usize].owner == 0
    }

    pub(crate) fn symbol_of(&self, var: Var) -> Symbol {
        self.variables[var as usize].symbol
    }

    pub(crate) fn name_of(&self, var: Var) -> &str {
        self.symbols.name(self.symbol_of(var))
    }

    fn slot(&self, var: Var) -> Slot {
        let slot = self.slots[var as usize];
        let frame = self.frame_ref().id;
        if slot.frame == frame { slot } else { Slot { frame, bits: ENTRY, value: FRESH } }
    }

    /// Whether the variable is bound on every path that has come so far, in the function that owns it.
    pub(crate) fn is_surely_bound(&self, var: Var) -> bool {
        let slot = self.slots[var as usize];
        slot.bits == BOUND && slot.frame == self.variables[var as usize].owner
    }

    /// What the variable may be here: a set of [`ENTRY`], [`BOUND`] and [`GONE`].
    pub(crate) fn bits(&self, var: Var) -> u8 {
        self.slot(var).bits
    }

    fn set(&mut self, var: Var, bits: u8, value: Value) {
        let frame = self.frame_ref().id;
        self.trail.push((var, self.slots[var as usize]));
        let slot = Slot { frame, bits, value };
        self.slots[var as usize] = slot;
        if self.watchers.len() > self.frame_ref().watchers
            && let Some(watcher) = self.watchers.last_mut()
        {
            watcher.push((var, slot));
        }
    }

    fn record(&mut self, var: Var) -> &mut Record {
        let frame = self.frames.len() - 1;
        let (id, index) = self.records[var as usize];
        let frame = &mut self.frames[frame];
        if id == frame.id {
            return &mut frame.records[index as usize];
        }
        self.records[var as usize] = (frame.id, frame.records.len() as u32);
        frame.records.push(Record {
            var,
            hidden: (id, index),
            read: None,
            via: Via::Deferred,
            kinds: 0,
            mutated: None,
            deep: false,
            deleted: false,
            reads: Places::default(),
            writes: Places::default(),
            deletes: Places::default(),
        });
        let last = frame.records.len() - 1;
        &mut frame.records[last]
    }

    fn straight(&self) -> bool {
        let frame = self.frame_ref();
        frame.conditions == 0 && !frame.dead
    }

    /// The name is evaluated here.
    pub(crate) fn read(&mut self, var: Var, at: Range, via: Via) -> Value {
        self.read_as(var, at, via, Certainty::Must)
    }

    /// The name is evaluated here, at most with this certainty.
    pub(crate) fn read_as(&mut self, var: Var, at: Range, via: Via, most: Certainty) -> Value {
        let slot = self.slot(var);
        if slot.bits & ENTRY == 0 {
            return slot.value;
        }
        let certainty = if slot.bits == ENTRY && self.straight() { most } else { most.min(Certainty::May) };
        if let Some(outer) = self.fallback(var) {
            let value = self.read_as(outer, at, via, certainty);
            return if slot.bits & BOUND == 0 { value } else { self.union(slot.value, value) };
        }
        let record = self.record(var);
        record.read = Some(record.read.map_or(certainty, |known| known.max(certainty)));
        record.via = record.via.min(via);
        record.reads.add(at);
        self.entry_value(var, slot)
    }

    fn entry_value(&mut self, var: Var, slot: Slot) -> Value {
        if let Some(outer) = self.fallback(var) {
            let value = self.peek(outer);
            return if slot.bits & BOUND == 0 { value } else { self.union(slot.value, value) };
        }
        if slot.bits == ENTRY && slot.value != FRESH {
            return slot.value;
        }
        let external = self.external(var);
        if slot.bits == ENTRY { external } else { self.union(external, slot.value) }
    }

    /// The value that the variable has here, without reading it.
    pub(crate) fn peek(&mut self, var: Var) -> Value {
        let slot = self.slot(var);
        if slot.bits & ENTRY == 0 {
            return slot.value;
        }
        self.entry_value(var, slot)
    }

    /// The variable's value now also holds these (they were put into it).
    pub(crate) fn absorb(&mut self, var: Var, values: &[Value]) {
        if self.frame_ref().dead {
            return;
        }
        let held = self.gather_inside(values);
        if held == FRESH {
            return;
        }
        let slot = self.slot(var);
        let value = self.peek(var);
        let value = self.union(value, held);
        self.set(var, slot.bits, value);
    }

    /// The name is bound here.
    pub(crate) fn write(&mut self, var: Var, value: Value, kind: WriteKind, at: Range) {
        let record = self.record(var);
        record.kinds |= kind_bit(kind);
        record.writes.add(at);
        if self.frame_ref().dead {
            return;
        }
        let value = if value == FRESH { self.new_object() } else { value };
        self.set(var, BOUND, value);
    }

    /// The name may be bound here, by code whose path is not known.
    pub(crate) fn write_maybe(&mut self, var: Var, value: Value, kind: WriteKind, at: Range) {
        let record = self.record(var);
        record.kinds |= kind_bit(kind);
        record.writes.add(at);
        if self.frame_ref().dead {
            return;
        }
        let slot = self.slot(var);
        let value = if value == FRESH { self.new_object() } else { value };
        let value = if slot.bits & BOUND == 0 { value } else { self.union(slot.value, value) };
        self.set(var, slot.bits | BOUND, value);
    }

    /// The name is unbound here.
    pub(crate) fn delete(&mut self, var: Var, at: Range) {
        let record = self.record(var);
        record.deleted = true;
        record.deletes.add(at);
        if !self.frame_ref().dead {
            self.set(var, GONE, FRESH);
        }
    }

    /// The local variable is unbound here, and the one around it is seen again.
    pub(crate) fn forget(&mut self, var: Var) {
        if !self.frame_ref().dead {
            self.set(var, ENTRY, FRESH);
        }
    }

    /// The name may be unbound here.
    pub(crate) fn delete_maybe(&mut self, var: Var, at: Range) {
        let record = self.record(var);
        record.deleted = true;
        record.deletes.add(at);
        if !self.frame_ref().dead {
            let slot = self.slot(var);
            self.set(var, slot.bits | GONE, slot.value);
        }
    }

    /// The variable's binding or value is changed behind its name.
    pub(crate) fn touch(&mut self, var: Var, certainty: Certainty, kind: WriteKind, deep: bool, at: Range) {
        let certainty = if self.straight() { certainty } else { certainty.min(Certainty::May) };
        let record = self.record(var);
        record.kinds |= kind_bit(kind);
        record.deep |= deep;
        record.mutated = Some(record.mutated.map_or(certainty, |known| known.max(certainty)));
        record.writes.add(at);
    }

    /// The value is changed in place. `deep` when also what it holds may be changed.
    pub(crate) fn mutate(&mut self, value: Value, certainty: Certainty, deep: bool, at: Range) {
        let kind = if certainty == Certainty::Possible { WriteKind::CallMutate } else { WriteKind::Mutate };
        self.mutate_as(value, certainty, kind, deep, at);
    }

    /// The value may be changed by a call; `recorded` when the session can tell whether it is.
    pub(crate) fn mutate_by_call(&mut self, value: Value, recorded: bool, at: Range) {
        let kind = if recorded { WriteKind::CalleeMutate } else { WriteKind::CallMutate };
        self.mutate_as(value, Certainty::Possible, kind, true, at);
    }

    fn mutate_as(&mut self, value: Value, certainty: Certainty, kind: WriteKind, deep: bool, at: Range) {
        let count = self.values[value.index()].rels.len();
        for n in 0..count {
            let Some((object, rel)) = self.values[value.index()].rels.get(n).copied() else { break };
            let certainty = match rel {
                Rel::Same => certainty,
                Rel::Element | Rel::Part => certainty.min(Certainty::May),
                Rel::Inside if deep => Certainty::Possible,
                Rel::Inside => continue,
                Rel::Possible => Certainty::Possible,
            };
            let identity = self.language == Language::Python || *self.kind(value) == Kind::Reference;
            match self.objects[object as usize] {
                Object::External(var) if !identity => self.touched.push(var),
                Object::External(var) => self.touch(var, certainty, kind, deep || rel == Rel::Part, at),
                // The call itself is noted with the parameter it gets.
                Object::Parameter(..) if kind == WriteKind::CalleeMutate => {}
                Object::Parameter(frame, position) => {
                    if let Some(frame) = self.frames.iter_mut().find(|known| known.id == frame) {
                        frame.mutated_parameters |= 1 << position.min(63);
                    }
                }
                Object::New => {}
            }
        }
    }

    pub(crate) fn channel(&mut self, channel: Channel, access: Access, key: Option<String>, at: Range) {
        let frame = self.frame();
        if frame.channels.len() < 256
            && !frame
                .channels
                .iter()
                .any(|known| known.channel == channel && known.access == access && known.key == key)
        {
            frame.channels.push(ChannelUse { channel, access, key, at });
        }
    }

    pub(crate) fn doubt(&mut self, code: Code, effect: Effect, scope: Scope, what: Option<&str>, at: Range) {
        let doubt = Doubt { code, effect, scope, what: what.map(str::to_owned), at };
        self.add_doubt(doubt);
    }

    fn add_doubt(&mut self, doubt: Doubt) {
        let frame = self.frame();
        if frame.doubts.len() < 256
            && !frame.doubts.iter().any(|known| {
                known.code == doubt.code
                    && known.effect == doubt.effect
                    && known.what == doubt.what
                    && known.scope == doubt.scope
            })
        {
            frame.doubts.push(doubt);
        }
    }
}

fn kind_bit(kind: WriteKind) -> u8 {
    1 << (kind as u8)
}
