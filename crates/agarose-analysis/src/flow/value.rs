//! Values as far as they decide who shares what with whom.

use super::{Flow, Var};
use crate::symbols::Symbol;

/// A value of the analysis: a position in its table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Value(u32);

/// New, and shared with nothing.
pub(crate) const FRESH: Value = Value(0);
/// Cannot be changed in place.
pub(crate) const IMMUTABLE: Value = Value(1);

impl Value {
    pub(super) const NONE: Self = Self(u32::MAX);

    pub(super) const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Something with an identity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Object {
    /// The value that a variable had before the cell (in a function: before the call).
    External(Var),
    /// An argument of the function whose body runs in this frame.
    Parameter(u32, u32),
    /// Made by the cell.
    New,
}

/// How a value hangs together with an object; the closer, the later.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Rel {
    /// In a way that code unknown to us decides.
    Possible,
    /// It holds the object.
    Inside,
    /// It is a part of the object.
    Part,
    /// It is one of several, of which the object is one.
    Element,
    /// It is the object.
    Same,
}

impl Rel {
    /// `self` of something that is `inner` of an object.
    pub(crate) fn then(self, inner: Self) -> Self {
        match (self, inner) {
            (Self::Same, other) | (other, Self::Same) => other,
            (Self::Part, Self::Inside) => Self::Element,
            (Self::Part | Self::Element, Self::Part | Self::Element) => Self::Part,
            (Self::Inside, Self::Inside | Self::Element) | (Self::Element, Self::Inside) => Self::Inside,
            (Self::Inside, Self::Part) | (Self::Possible, _) | (_, Self::Possible) => Self::Possible,
        }
    }
}

/// What a value is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) enum Kind {
    #[default]
    Unknown,
    Immutable,
    /// Reading it uses it up.
    Iterator,
    /// It has identity though the language copies.
    Reference,
    /// A module, or a member of one, by its full name.
    Module(Symbol),
    /// One of these functions of the cell.
    Functions(Vec<u32>),
    /// A class of the cell.
    Class(u32),
    /// An instance of a class of the cell.
    Instance(u32),
    /// The namespace itself.
    Namespace,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ValueData {
    pub(super) rels: Vec<(u32, Rel)>,
    pub(super) kind: Kind,
    /// Names whose calls made it.
    pub(super) made_by: Vec<Var>,
    /// Functions that it holds, and may be asked to call.
    pub(super) held: Vec<u32>,
    /// The value follows from this text alone.
    pub(super) constant: Option<u64>,
}

impl ValueData {
    pub(super) fn of_kind(kind: Kind) -> Self {
        Self { kind, ..Self::default() }
    }
}

/// Objects that one value is followed to; more of them become one [`Rel::Possible`] each, then the rest
/// are kept as they are: a wrong drop would be unsound, so this only bounds the list by its distinct objects.
const MANY: usize = 64;

impl Flow<'_> {
    pub(super) fn add_value(&mut self, data: ValueData) -> Value {
        self.work += 1 + data.rels.len() as u64;
        let value = Value(self.values.len() as u32);
        self.values.push(data);
        value
    }

    pub(super) fn new_object(&mut self) -> Value {
        let object = self.objects.len() as u32;
        self.objects.push(Object::New);
        self.add_value(ValueData { rels: vec![(object, Rel::Same)], ..ValueData::default() })
    }

    pub(crate) fn of_kind(&mut self, kind: Kind) -> Value {
        self.add_value(ValueData::of_kind(kind))
    }

    pub(crate) fn new_of_kind(&mut self, kind: Kind) -> Value {
        let object = self.objects.len() as u32;
        self.objects.push(Object::New);
        self.add_value(ValueData { rels: vec![(object, Rel::Same)], kind, ..ValueData::default() })
    }

    pub(crate) fn parameter(&mut self, position: u32) -> Value {
        let object = self.objects.len() as u32;
        let frame = self.frame_ref().id;
        self.objects.push(Object::Parameter(frame, position));
        self.add_value(ValueData { rels: vec![(object, Rel::Same)], ..ValueData::default() })
    }

    pub(super) fn external(&mut self, var: Var) -> Value {
        let known = self.externals[var as usize];
        if known != Value::NONE {
            return known;
        }
        let object = self.objects.len() as u32;
        self.objects.push(Object::External(var));
        let mut kind = Kind::Unknown;
        if self.is_global(var)
            && let Some(module) = (self.conventions)(self.name_of(var))
        {
            let symbol = self.symbol_of(var);
            self.assumed.push((symbol, module));
            kind = Kind::Module(self.symbols.intern(module));
        }
        let value =
            self.add_value(ValueData { rels: vec![(object, Rel::Same)], kind, ..ValueData::default() });
        self.externals[var as usize] = value;
        value
    }

    pub(crate) fn kind(&self, value: Value) -> &Kind {
        &self.values[value.index()].kind
    }

    /// The variable whose outside value this is, if it is just that.
    pub(crate) fn root(&self, value: Value) -> Option<Var> {
        match self.values[value.index()].rels.as_slice() {
            [(object, Rel::Same)] => match self.objects[*object as usize] {
                Object::External(var) => Some(var),
                Object::Parameter(..) | Object::New => None,
            },
            _ => None,
        }
    }

    /// Variables whose outside values this value is, holds or belongs to.
    pub(crate) fn roots(&self, value: Value) -> Vec<Var> {
        let mut roots: Vec<Var> = self.values[value.index()]
            .rels
            .iter()
            .filter_map(|(object, _)| match self.objects[*object as usize] {
                Object::External(var) => Some(var),
                Object::Parameter(..) | Object::New => None,
            })
            .collect();
        roots.dedup();
        roots
    }

    pub(super) fn made_by(&self, value: Value) -> &[Var] {
        &self.values[value.index()].made_by
    }

    fn has_objects(&self, value: Value) -> bool {
        !self.values[value.index()].rels.is_empty()
    }

    /// Either of the two.
    pub(crate) fn union(&mut self, one: Value, two: Value) -> Value {
        if one == two || two == Value::NONE {
            return one;
        }
        let mut rels = self.values[one.index()].rels.clone();
        add_all(&mut rels, &self.values[two.index()].rels);
        let (a, b) = (&self.values[one.index()], &self.values[two.index()]);
        let kind = match (&a.kind, &b.kind) {
            (Kind::Functions(x), Kind::Functions(y)) => {
                let mut all = x.clone();
                all.extend(y.iter().filter(|id| !x.contains(id)));
                Kind::Functions(all)
            }
            (Kind::Functions(x), _) | (_, Kind::Functions(x)) => Kind::Functions(x.clone()),
            (Kind::Class(x), Kind::Unknown) | (Kind::Unknown, Kind::Class(x)) => Kind::Class(*x),
            (Kind::Instance(x), Kind::Unknown) | (Kind::Unknown, Kind::Instance(x)) => Kind::Instance(*x),
            (Kind::Iterator | Kind::Reference | Kind::Namespace, _) => a.kind.clone(),
            (_, Kind::Iterator | Kind::Reference | Kind::Namespace) => b.kind.clone(),
            (x, y) if x == y => x.clone(),
            _ => Kind::Unknown,
        };
        let mut made_by = a.made_by.clone();
        made_by.extend(b.made_by.iter().filter(|var| !a.made_by.contains(var)));
        let mut held = a.held.clone();
        held.extend(b.held.iter().filter(|id| !a.held.contains(id)));
        if !matches!(kind, Kind::Functions(_)) {
            held.extend(self.callables(one));
            held.extend(self.callables(two));
            held.sort_unstable();
            held.dedup();
        }
        held.truncate(MANY);
        self.add_value(ValueData { rels, kind, made_by, held, constant: None })
    }

    /// Something that is `rel` of `value`.
    pub(crate) fn related(&mut self, value: Value, rel: Rel) -> Value {
        if !self.has_objects(value) {
            return FRESH;
        }
        let data = &self.values[value.index()];
        let rels = data.rels.iter().map(|(o, inner)| (*o, rel.then(*inner))).collect();
        let (held, made_by) = (data.held.clone(), data.made_by.clone());
        self.add_value(ValueData { rels, held, made_by, ..ValueData::default() })
    }

    /// A new thing that holds these.
    pub(crate) fn holding(&mut self, values: &[Value]) -> Value {
        self.gather(values, Rel::Inside, true)
    }

    pub(super) fn gather_inside(&mut self, values: &[Value]) -> Value {
        self.gather(values, Rel::Inside, false)
    }

    /// The result of code that is not known and was given these.
    pub(crate) fn made_by_unknown(&mut self, values: &[Value]) -> Value {
        self.gather(values, Rel::Possible, false)
    }

    fn gather(&mut self, values: &[Value], rel: Rel, own: bool) -> Value {
        if values.iter().all(|value| !self.has_objects(*value)) {
            return FRESH;
        }
        let mut rels: Vec<(u32, Rel)> = Vec::new();
        if own {
            rels.push((self.objects.len() as u32, Rel::Same));
            self.objects.push(Object::New);
        }
        for value in values {
            let related: Vec<_> =
                self.values[value.index()].rels.iter().map(|(o, inner)| (*o, rel.then(*inner))).collect();
            add_all(&mut rels, &related);
        }
        let mut held: Vec<u32> = Vec::new();
        for value in values {
            held.extend(&self.values[value.index()].held);
            held.extend(self.callables(*value));
        }
        held.sort_unstable();
        held.dedup();
        held.truncate(MANY);
        self.add_value(ValueData { rels, held, ..ValueData::default() })
    }

    /// What a value may be asked to run.
    fn callables(&self, value: Value) -> Vec<u32> {
        match self.kind(value) {
            Kind::Functions(ids) => ids.clone(),
            Kind::Class(class) | Kind::Instance(class) => {
                self.classes[*class as usize].methods.iter().map(|(_, id)| *id).collect()
            }
            _ => Vec::new(),
        }
    }

    /// The value follows from `text` alone.
    pub(crate) fn constant(&mut self, value: Value, text: &str) -> Value {
        use std::hash::Hasher;
        let mut hasher = crate::symbols::FastHasher::default();
        hasher.write(text.as_bytes());
        let mut data = self.values[value.index()].clone();
        data.constant = Some(hasher.finish());
        self.add_value(data)
    }

    pub(crate) fn with_kind(&mut self, value: Value, kind: Kind) -> Value {
        let mut data = self.values[value.index()].clone();
        data.kind = kind;
        self.add_value(data)
    }

    pub(crate) fn with_maker(&mut self, value: Value, maker: Var) -> Value {
        let mut data = self.values[value.index()].clone();
        if data.made_by.contains(&maker) {
            return value;
        }
        data.made_by.push(maker);
        self.add_value(data)
    }
}

fn add_all(rels: &mut Vec<(u32, Rel)>, more: &[(u32, Rel)]) {
    for (object, rel) in more {
        if rels.len() < MANY || rels.len() + more.len() < MANY {
            match rels.iter_mut().find(|(known, _)| known == object) {
                Some((_, known)) => *known = (*known).max(*rel),
                None => rels.push((*object, *rel)),
            }
        } else {
            // A long list is only appended to: searching it each time would be quadratic.
            rels.push((*object, *rel));
        }
    }
    if rels.len() > MANY {
        rels.sort_unstable();
        rels.dedup_by_key(|(object, _)| *object);
    }
}
