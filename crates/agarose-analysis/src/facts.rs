//! What an analysis says about one cell. Everything here is sorted, deduplicated and serialisable.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::span::Span;

/// The version of this analyser. It changes whenever the same source may get other facts.
pub const ANALYSER: &str = "agarose-analysis 1";

/// The languages of cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Language {
    /// Python with IPython's line syntax.
    Python,
    /// R.
    R,
}

/// How sure a fact is. The order matters: a later one is surer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Certainty {
    /// Cannot be excluded: the code of a callee or an object is not known.
    Possible,
    /// Happens on some path.
    May,
    /// Happens on every path that ends normally.
    Must,
}

/// How a name is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Via {
    /// While the cell runs.
    Immediate,
    /// By a function that the cell calls.
    Callee,
    /// Where a data frame's columns hide variables (`with`, dplyr, data.table, a formula).
    Mask,
    /// By a name in a string (`get("x")`, a template).
    Text,
    /// By a function that the cell defines and does not call.
    Deferred,
}

/// A name whose value of before the cell matters to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Read {
    /// How sure.
    pub certainty: Certainty,
    /// The most direct way in which it is read.
    pub via: Via,
    /// The language or its standard packages define this name, so the read may mean that one.
    #[serde(default, skip_serializing_if = "is_false")]
    pub builtin: bool,
    /// Where (at most three places).
    pub spans: Vec<Span>,
}

/// Ways in which a name or its value changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WriteKind {
    /// Bound to a value.
    Bind,
    /// Bound by an import.
    Import,
    /// Bound by a function or class definition.
    Define,
    /// Its value is changed in place by the language's own syntax or a known function.
    Mutate,
    /// Its value may be changed by a function of the session, which [`Facts::calls`] names.
    CalleeMutate,
    /// Its value may be changed by code that nobody knows.
    CallMutate,
    /// State behind it changes that no name shows (a module's generator, a finalizer).
    Hidden,
}

/// A name that the cell binds or whose value it changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Write {
    /// How sure.
    pub certainty: Certainty,
    /// In which ways.
    pub kinds: BTreeSet<WriteKind>,
    /// A change in place also reaches what the value holds.
    #[serde(default, skip_serializing_if = "is_false")]
    pub deep: bool,
    /// What the name is bound to at the end, as far as that decides later facts.
    #[serde(default, skip_serializing_if = "Shape::is_unknown")]
    pub shape: Shape,
    /// The value follows from a part of the source alone; this is that part's hash.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub constant: Option<u64>,
    /// Where (at most three places).
    pub spans: Vec<Span>,
}

/// What is known of a value.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Shape {
    /// Nothing.
    #[default]
    Unknown,
    /// Nothing can change it in place.
    Immutable,
    /// Reading it uses it up (an iterator, an open file).
    Iterator,
    /// It has identity even where the language copies (an R environment, R6 object, data.table).
    Reference,
    /// A module or a member of one, by its full name.
    Module(String),
}

impl Shape {
    fn is_unknown(&self) -> bool {
        *self == Self::Unknown
    }
}

/// A name that is unbound at the end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delete {
    /// How sure.
    pub certainty: Certainty,
    /// Where (at most three places).
    pub spans: Vec<Span>,
}

/// What a call of a function does, learnt from its body.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Function {
    /// Names of the session that it reads.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub reads: BTreeMap<String, Certainty>,
    /// Names of the session that it binds or whose values it changes.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub writes: BTreeMap<String, Certainty>,
    /// Names of the session that it unbinds.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub deletes: BTreeMap<String, Certainty>,
    /// Parameters in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parameters: Vec<String>,
    /// Positions of parameters whose values it changes (0 is `self` in a method).
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub mutates: BTreeSet<u32>,
    /// Calls of names of the session.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<Call>,
    /// It keeps state between calls, in a variable around it.
    #[serde(default, skip_serializing_if = "is_false")]
    pub stateful: bool,
    /// Methods, when it is a class.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub methods: BTreeMap<String, Function>,
    /// State outside of names that it uses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub channels: Vec<ChannelEvent>,
    /// What is not known about it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub uncertain: Vec<Uncertain>,
}

/// A call of something that the session defines, to be resolved where the session is known.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Call {
    /// The name at the root of what is called.
    pub callee: String,
    /// The method, for `callee.method(…)`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// Arguments that are, hold or belong to values of names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub arguments: Vec<Argument>,
    /// The first place.
    pub span: Span,
}

/// An argument of a [`Call`]. With neither position nor keyword it may be any.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Argument {
    /// Position from 0, without a receiver.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub position: Option<u32>,
    /// Keyword.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keyword: Option<String>,
    /// The name whose value is passed; empty when it is a parameter of the calling function.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The parameter of the calling function whose value is passed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parameter: Option<u32>,
}

/// How two values hang together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Strength {
    /// One may hold, be or view the other; the code that decides is not known.
    Possible,
    /// The name's value holds the other.
    Holds,
    /// The name's value is a part of the other.
    Part,
    /// They are one value.
    Same,
}

/// Two names whose values hang together after the cell: a change of one may be a change of the other.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Alias {
    /// A name that the cell binds.
    pub name: String,
    /// The other name.
    pub other: String,
    /// `other` means its value of before the cell (else the one of after it).
    pub before: bool,
    /// How.
    pub strength: Strength,
}

/// State that no name shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Channel {
    /// A file, by its path as written.
    File,
    /// The working directory.
    Cwd,
    /// An environment variable.
    Environment,
    /// A random number generator.
    Random,
    /// The clock.
    Time,
    /// The network.
    Network,
    /// Another process.
    Process,
    /// The person's input.
    Input,
    /// Options, locale, warnings, plot parameters.
    Options,
    /// The current figure or graphics device.
    Device,
    /// Where names are looked up beyond the session (`library`, `attach`, `sys.path`).
    SearchPath,
    /// Classes, methods and generics.
    ClassTable,
    /// A database.
    Database,
    /// Threads, tasks and callbacks that outlive the cell.
    Background,
    /// The host object that the cell may ask for things.
    Host,
}

/// What is done with a channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Access {
    /// Its state is an input.
    Read,
    /// Its state changes.
    Write,
    /// Its state is replaced by one that does not depend on the old one (a seed).
    Set,
}

/// One use of a channel.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ChannelEvent {
    /// Which.
    pub channel: Channel,
    /// How.
    pub access: Access,
    /// The part of it, when the source says so literally (a path, a variable's name).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Where.
    pub span: Span,
}

/// Why a fact may be missing. The words are stable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Code {
    /// The grammar does not accept the source here.
    SyntaxError,
    /// The grammar accepts what the language rejects.
    SilentSyntax,
    /// Code that is not in the source is run.
    ExecEval,
    /// The namespace itself is used as a value.
    NamespaceHandle,
    /// `from m import *` and the like.
    StarImport,
    /// A name is computed.
    DynamicName,
    /// A file with code or variables is loaded.
    LoadSource,
    /// An IPython magic whose effect is not known.
    Magic,
    /// An object's method is not known.
    OpaqueMethod,
    /// A function's effect is not known.
    OpaqueCall,
    /// Variables may be hidden by columns.
    DataMask,
    /// The search path changes.
    SearchPath,
    /// A variable is computed at each read.
    ActiveBinding,
    /// Something keeps running after the cell.
    Background,
    /// A module is loaded again.
    Reload,
    /// A module's own members are changed.
    MonkeyPatch,
    /// The cell, or a part of it, is another language.
    Embedded,
    /// The source is larger or deeper than what is analysed.
    LimitExceeded,
}

/// What an unknown part may do to names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Effect(pub u8);

impl Effect {
    /// It may read names.
    pub const READS: Self = Self(1);
    /// It may bind names.
    pub const WRITES: Self = Self(2);
    /// It may unbind names.
    pub const DELETES: Self = Self(4);
    /// It may change values in place.
    pub const MUTATES: Self = Self(8);
    /// All of these.
    pub const ALL: Self = Self(15);

    /// Both.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// It may change names or values.
    #[must_use]
    pub const fn changes(self) -> bool {
        self.0 & 14 != 0
    }

    /// It may read names.
    #[must_use]
    pub const fn reads(self) -> bool {
        self.0 & 1 != 0
    }
}

/// Which names an unknown part may touch.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// Any.
    All,
    /// These.
    Names(BTreeSet<String>),
    /// Those that match, with `*` for any text.
    Pattern(String),
}

/// One thing that the analysis does not know.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Uncertain {
    /// Why.
    pub code: Code,
    /// What it may do.
    pub effect: Effect,
    /// To which names.
    pub scope: Scope,
    /// The word in question (a magic's name, a function's).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub what: Option<String>,
    /// Where.
    pub span: Span,
}

impl Uncertain {
    /// Whether it may change names that nothing else lists.
    #[must_use]
    pub fn is_barrier(&self) -> bool {
        self.effect.changes() && matches!(self.scope, Scope::All | Scope::Pattern(_))
    }
}

/// A module that the cell imports.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Import {
    /// The module or package.
    pub module: String,
    /// The name it gets, if it gets one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Where.
    pub span: Span,
}

/// How the language's syntax was used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Dialect {
    /// Nothing but the language.
    Plain,
    /// Lines that only IPython understands.
    Ipython,
}

/// Everything known about one cell.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Facts {
    /// [`ANALYSER`] of the analysis that made this.
    pub analyser: String,
    /// The language it was analysed as.
    pub language: Language,
    /// Which dialect it needs.
    pub dialect: Dialect,
    /// SHA-256 of the source, hexadecimal.
    pub digest: String,
    /// Names whose earlier value matters.
    pub reads: BTreeMap<String, Read>,
    /// Names bound or changed.
    pub writes: BTreeMap<String, Write>,
    /// Names unbound.
    pub deletes: BTreeMap<String, Delete>,
    /// Names bound on every path whose earlier value does not matter.
    pub kills: BTreeSet<String>,
    /// What calls of the names that the cell defines will do.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub functions: BTreeMap<String, Function>,
    /// Functions that the values of names hold, so that somebody may call them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub held: BTreeMap<String, Function>,
    /// Values that hang together after the cell.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub aliases: Vec<Alias>,
    /// Names whose values came out of calls of other names (an instance of a class, a closure).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub made_by: BTreeMap<String, BTreeSet<String>>,
    /// Calls whose callees the session knows.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<Call>,
    /// Names taken for a module because everybody calls it so, without an import in the cell.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub assumed: BTreeMap<String, String>,
    /// Names that are used up if they hold an iterator.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub consumes: BTreeSet<String>,
    /// Names whose values are changed if they have identity (an R environment, a data.table).
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub touches: BTreeSet<String>,
    /// Modules and packages.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub imports: Vec<Import>,
    /// State outside of names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub channels: Vec<ChannelEvent>,
    /// What is not known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub uncertain: Vec<Uncertain>,
    /// Functions of libraries that no table of effects has.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub opaque: BTreeSet<String>,
    /// The last expression only looks at something (a bare name, `head`, `print`, …).
    #[serde(default, skip_serializing_if = "is_false")]
    pub inspects: bool,
}

impl Facts {
    /// Whether names outside of `writes` and `deletes` may have changed.
    #[must_use]
    pub fn mutation_uncertain(&self) -> bool {
        self.uncertain.iter().any(Uncertain::is_barrier)
    }

    /// The files that the source names, as written.
    pub fn files(&self) -> impl Iterator<Item = &ChannelEvent> {
        self.channels.iter().filter(|event| event.channel == Channel::File)
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde wants a reference")]
fn is_false(value: &bool) -> bool {
    !*value
}
