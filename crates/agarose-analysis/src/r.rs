//! R: walks a cell in the order in which the evaluator would.
//!
//! Arguments are promises, evaluated when a function asks; here they are taken as evaluated at the call, and
//! assignments in them as possible only, unless the function is known to evaluate its arguments.

mod assign;
mod call;
mod kinds;
mod locals;
mod special;

use std::cell::RefCell;
use std::collections::HashSet;
use std::rc::Rc;

use tree_sitter::{Parser, Tree as Parsed};

use crate::effects::r::is_known;
use crate::facts::{Certainty, Code, Dialect, Effect, Facts, Language, Scope as NameScope, Via, WriteKind};
use crate::flow::{FRESH, Flow, IMMUTABLE, Kind as ValueKind, Value, Var};
use crate::span::Range;
use crate::symbols::{FastMap, Symbol};
use crate::tree::{NONE, Node, parse, parser};
use kinds::{Field, Kind, Tree, grammar, words};
use locals::assigned;

const MAX_DEPTH: u32 = 200;

#[derive(Default)]
struct Scope {
    names: FastMap<Symbol, Var>,
    /// Parameters whose defaults have not been evaluated, with the default.
    defaults: FastMap<Symbol, Node>,
    /// The frame of a function, rather than a block with names of its own.
    function: bool,
    /// Names that the class system provides (`self`, fields).
    provided: Vec<Symbol>,
    /// Any super-assignment in it goes to an object's field.
    fields: bool,
}

struct Walker<'s> {
    flow: Flow<'s>,
    tree: Rc<Tree>,
    text: &'s str,
    base: u32,
    scopes: Vec<Scope>,
    depth: u32,
    degraded: bool,
    loops: u32,
    /// Inside of something whose bare names may be columns.
    masks: u32,
    /// Places of assignments, to know quickly whether a subtree has one.
    assignments: Vec<Node>,
    snippets: u32,
}

thread_local! {
    static PARSER: RefCell<Option<Parser>> = RefCell::new(parser(&grammar()));
}

fn parse_r(source: &str, old: Option<&Parsed>) -> Option<Parsed> {
    PARSER.with_borrow_mut(|parser| parse(parser.as_mut()?, source, old))
}

/// The facts of a cell, and the parsed tree for the next edit of it.
pub(crate) fn analyse(source: &str, old: Option<&Parsed>) -> (Facts, Option<Parsed>) {
    let parsed = parse_r(source, old);
    let mut walker = Walker {
        flow: Flow::new(Language::R, |_| None),
        tree: Rc::new(Tree { nodes: Vec::new(), faults: Vec::new() }),
        text: source,
        base: 0,
        scopes: vec![Scope::default()],
        depth: 0,
        degraded: false,
        loops: 0,
        masks: 0,
        assignments: Vec::new(),
        snippets: 0,
    };
    let mut inspects = false;
    match &parsed {
        Some(parsed) => {
            walker.enter_tree(parsed);
            walker.program();
            inspects = walker.inspects();
        }
        None => walker.give_up(),
    }
    if walker.flow.exhausted() {
        walker.give_up();
    }
    let degraded = walker.degraded;
    let mut facts = walker.flow.report(source, Dialect::Plain, degraded, is_known);
    facts.inspects = inspects;
    (facts, parsed)
}

impl<'s> Walker<'s> {
    fn enter_tree(&mut self, parsed: &Parsed) {
        let tree = Tree::of(parsed, words());
        self.assignments.clear();
        for at in 0..tree.nodes.len() as Node {
            if tree.kind(at) == Kind::Operator
                && matches!(tree.text(self.text, at), "<-" | "<<-" | "->" | "->>" | "=" | ":=")
            {
                self.assignments.push(at);
            }
        }
        self.tree = Rc::new(tree);
    }

    fn give_up(&mut self) {
        self.degraded = true;
        let at = Range { start: 0, end: self.text.len() as u32 };
        self.flow.doubt(Code::LimitExceeded, Effect::ALL, NameScope::All, None, at);
    }

    fn program(&mut self) {
        let tree = Rc::clone(&self.tree);
        if tree.nodes.is_empty() {
            return;
        }
        for fault in &tree.faults {
            self.degraded = true;
            let at = Range { start: fault.start + self.base, end: fault.end + self.base };
            self.flow.doubt(Code::SyntaxError, Effect::ALL, NameScope::All, None, at);
        }
        self.sequence(&tree, 0, true);
    }

    /// Expressions one after the other.
    fn sequence(&mut self, tree: &Tree, node: Node, top: bool) -> Value {
        let mut value = IMMUTABLE;
        let mut last: Option<Range> = None;
        for child in tree.children(node) {
            if tree.kind(child) == Kind::Comment || tree.kind(child) == Kind::Operator {
                continue;
            }
            let range = tree.range(child);
            if let Some(before) = last {
                // The grammar lets expressions stand side by side; the language does not.
                let between = self.text.get(before.end as usize..range.start as usize).unwrap_or("");
                if !between.contains(['\n', ';', '\r']) {
                    self.silent(child);
                }
            }
            last = Some(range);
            if top && tree.kind(child) == Kind::If {
                self.else_on_its_own_line(tree, child);
            }
            value = self.expr(child);
        }
        value
    }

    /// At the top level `if (a) b` ends at its line, so that an `else` on the next is an error.
    fn else_on_its_own_line(&mut self, tree: &Tree, node: Node) {
        let (then, otherwise) = (tree.child(node, Field::Consequence), tree.child(node, Field::Alternative));
        if then == NONE || otherwise == NONE {
            return;
        }
        let between =
            self.text.get(tree.range(then).end as usize..tree.range(otherwise).start as usize).unwrap_or("");
        if between.split("else").next().unwrap_or("").contains('\n') {
            self.silent(otherwise);
        }
    }

    fn kind(&self, node: Node) -> Kind {
        if node == NONE { Kind::Other } else { self.tree.kind(node) }
    }

    fn range(&self, node: Node) -> Range {
        let range = self.tree.range(node);
        Range { start: range.start + self.base, end: range.end + self.base }
    }

    fn text(&self, node: Node) -> &'s str {
        if node == NONE { "" } else { self.tree.text(self.text, node) }
    }

    fn silent(&mut self, node: Node) {
        let at = self.range(node);
        self.degraded = true;
        self.flow.doubt(Code::SilentSyntax, Effect::ALL, NameScope::All, None, at);
    }

    fn opaque(&mut self, node: Node) {
        let tree = Rc::clone(&self.tree);
        self.degraded = true;
        let mut seen = HashSet::new();
        for at in node..tree.after(node) {
            if tree.kind(at) == Kind::Identifier && !self.text(at).is_empty() {
                let symbol = self.symbol(at);
                if !seen.insert(symbol) {
                    continue;
                }
                let var = self.flow.global(symbol);
                let range = self.range(at);
                self.flow.read_as(var, range, Via::Immediate, Certainty::May);
                self.flow.write_maybe(var, FRESH, WriteKind::Bind, range);
            }
        }
    }

    fn enter(&mut self, node: Node) -> bool {
        if self.depth >= MAX_DEPTH || self.flow.exhausted() {
            let at = self.range(node);
            self.flow.doubt(Code::LimitExceeded, Effect::ALL, NameScope::All, None, at);
            if !self.flow.exhausted() {
                self.opaque(node);
            }
            self.degraded = true;
            return false;
        }
        self.depth += 1;
        true
    }

    /// Whether the subtree has an assignment.
    fn assigns(&self, node: Node) -> bool {
        let end = self.tree.after(node);
        let first = self.assignments.partition_point(|at| *at < node);
        self.assignments.get(first).is_some_and(|at| *at < end)
    }

    /// The name of an identifier or string, without quotes.
    fn symbol(&mut self, node: Node) -> Symbol {
        if self.kind(node) == Kind::String {
            let text = self.string(node).unwrap_or("");
            return self.flow.intern(text);
        }
        let text = self.text(node);
        if let Some(inner) = text.strip_prefix('`').and_then(|text| text.strip_suffix('`')) {
            if inner.contains('\\') {
                return self.flow.symbols.intern_owned(inner.replace('\\', ""));
            }
            return self.flow.intern(inner);
        }
        if text.starts_with('_') {
            self.silent(node);
        }
        self.flow.intern(text)
    }

    /// The text of a string without escapes.
    fn string(&self, node: Node) -> Option<&'s str> {
        self.string_at(node).map(|(text, _)| text)
    }

    fn string_at(&self, node: Node) -> Option<(&'s str, u32)> {
        if self.kind(node) != Kind::String {
            return None;
        }
        let content = self.tree.child(node, Field::Content);
        if content == NONE {
            return Some(("", self.range(node).end));
        }
        if self.tree.first(content) != NONE {
            return None;
        }
        Some((self.text(content), self.range(content).start))
    }

    /// The variable that a name means here.
    fn resolve(&mut self, symbol: Symbol) -> Option<Var> {
        for scope in self.scopes.iter().rev() {
            if scope.provided.contains(&symbol) {
                return None;
            }
            if let Some(var) = scope.names.get(&symbol) {
                return Some(*var);
            }
        }
        Some(self.flow.global(symbol))
    }

    fn load(&mut self, node: Node) -> Value {
        let symbol = self.symbol(node);
        let at = self.range(node);
        self.load_symbol(symbol, at)
    }

    fn load_symbol(&mut self, symbol: Symbol, at: Range) -> Value {
        let name = self.flow.symbols.name(symbol);
        if name.is_empty() || name == "." && (self.masks > 0 || self.scopes.len() == 1) {
            return FRESH;
        }
        if let Some(rest) = name.strip_prefix("..")
            && rest.starts_with(|c: char| c.is_alphabetic())
        {
            // data.table: `..k` is `k` of the calling scope.
            let rest = rest.to_owned();
            let symbol = self.flow.symbols.intern_owned(rest);
            return self.read_by(symbol, at, Via::Mask, Certainty::May);
        }
        if name == ".GlobalEnv" {
            return self.flow.of_kind(ValueKind::Namespace);
        }
        if self.masks > 0 {
            return self.read_by(symbol, at, Via::Mask, Certainty::Possible);
        }
        self.force_default(symbol);
        self.read_by(symbol, at, Via::Immediate, Certainty::Must)
    }

    fn read_by(&mut self, symbol: Symbol, at: Range, via: Via, most: Certainty) -> Value {
        match self.resolve(symbol) {
            Some(var) => self.flow.read_as(var, at, via, most),
            None => FRESH,
        }
    }

    /// A parameter's default is evaluated where the parameter is first needed, in the function's frame.
    fn force_default(&mut self, symbol: Symbol) {
        let Some(scope) = self.scopes.last_mut() else { return };
        let Some(default) = scope.defaults.remove(&symbol) else { return };
        self.flow.uncertain();
        self.expr(default);
        self.flow.certain();
    }

    /// The variable that an ordinary assignment here binds.
    fn own(&mut self, symbol: Symbol) -> Var {
        let Some(at) = self.scopes.len().checked_sub(1) else { return self.flow.global(symbol) };
        if at == 0 {
            return self.flow.global(symbol);
        }
        if let Some(var) = self.scopes[at].names.get(&symbol) {
            return *var;
        }
        let outer = self.resolve_below(at, symbol);
        let var = self.flow.local(symbol);
        self.flow.set_outer(var, outer);
        self.scopes[at].names.insert(symbol, var);
        var
    }

    fn resolve_below(&mut self, at: usize, symbol: Symbol) -> Var {
        for scope in self.scopes[..at].iter().rev() {
            if let Some(var) = scope.names.get(&symbol) {
                return *var;
            }
        }
        self.flow.global(symbol)
    }

    /// The variable that `<<-` here binds; nothing when it is a field of an object.
    fn above(&mut self, symbol: Symbol) -> Option<Var> {
        let top = self.scopes.len() - 1;
        for at in (1..=top).rev() {
            let scope = &self.scopes[at];
            if scope.fields && (scope.provided.contains(&symbol) || scope.provided.is_empty()) {
                return None;
            }
            if at < top
                && let Some(var) = scope.names.get(&symbol)
            {
                return Some(*var);
            }
        }
        Some(self.flow.global(symbol))
    }

    /// Opens a block with names of its own, that runs here and now.
    fn push_block(&mut self, body: Node) {
        let tree = Rc::clone(&self.tree);
        let mut found = Vec::new();
        assigned(&tree, self.text, body, &mut found);
        self.scopes.push(Scope::default());
        for node in found {
            let symbol = self.symbol(node);
            self.own(symbol);
        }
    }

    fn expr(&mut self, node: Node) -> Value {
        if node == NONE {
            return FRESH;
        }
        match self.kind(node) {
            Kind::Identifier => return self.load(node),
            Kind::Float
            | Kind::Integer
            | Kind::Complex
            | Kind::True
            | Kind::False
            | Kind::Null
            | Kind::Na
            | Kind::Inf
            | Kind::Nan
            | Kind::String
            | Kind::Namespace => return IMMUTABLE,
            Kind::Comment | Kind::Dots | Kind::DotDotI | Kind::Operator => return FRESH,
            _ => {}
        }
        if !self.enter(node) {
            return FRESH;
        }
        let tree = Rc::clone(&self.tree);
        let value = self.compound(&tree, node);
        self.depth -= 1;
        value
    }

    fn compound(&mut self, tree: &Tree, node: Node) -> Value {
        match tree.kind(node) {
            Kind::Call => self.call(tree, node, None),
            Kind::Binary => self.binary(tree, node),
            Kind::Braced => self.sequence(tree, node, false),
            Kind::Parenthesized => self.expr(tree.child(node, Field::Body)),
            Kind::Extract => {
                let left = tree.child(node, Field::Left);
                let object = self.expr(left);
                match self.flow.kind(object) {
                    ValueKind::Namespace => {
                        let right = tree.child(node, Field::Right);
                        if right == NONE {
                            return FRESH;
                        }
                        let symbol = self.symbol(right);
                        let var = self.flow.global(symbol);
                        let at = self.range(node);
                        self.flow.read(var, at, Via::Text)
                    }
                    ValueKind::Reference => object,
                    _ => FRESH,
                }
            }
            Kind::Subset | Kind::Subset2 => self.subset(tree, node),
            Kind::Unary => {
                let operator = self.text(tree.child(node, Field::Operator));
                let right = tree.child(node, Field::Right);
                match operator {
                    "?" => FRESH,
                    "~" => self.masked(right),
                    _ => {
                        self.expr(right);
                        FRESH
                    }
                }
            }
            Kind::If => {
                self.expr(tree.child(node, Field::Condition));
                let mut fork = self.flow.fork();
                let then = self.expr(tree.child(node, Field::Consequence));
                self.flow.end_path(&mut fork);
                let otherwise = self.expr(tree.child(node, Field::Alternative));
                self.flow.end_path(&mut fork);
                self.flow.join(fork);
                self.flow.union(then, otherwise)
            }
            Kind::For => {
                self.expr(tree.child(node, Field::Sequence));
                let variable = tree.child(node, Field::Variable);
                if variable != NONE {
                    // Bound even when there is nothing to go through: then it is NULL.
                    let symbol = self.symbol(variable);
                    let var = self.own(symbol);
                    let at = self.range(variable);
                    self.flow.write(var, FRESH, WriteKind::Bind, at);
                }
                self.a_loop(tree.child(node, Field::Body), false);
                FRESH
            }
            Kind::While => {
                let condition = tree.child(node, Field::Condition);
                self.expr(condition);
                self.a_loop(tree.child(node, Field::Body), self.kind(condition) == Kind::True);
                FRESH
            }
            Kind::Repeat => {
                self.a_loop(tree.child(node, Field::Body), true);
                FRESH
            }
            Kind::Break | Kind::Next => {
                if self.loops > 0 {
                    if tree.kind(node) == Kind::Break {
                        self.flow.loop_break();
                    } else {
                        self.flow.loop_continue();
                    }
                }
                FRESH
            }
            Kind::Function => self.function(tree, node, &[], false),
            Kind::Error => {
                self.opaque(node);
                FRESH
            }
            _ => {
                for child in tree.children(node) {
                    self.expr(child);
                }
                FRESH
            }
        }
    }

    fn a_loop(&mut self, body: Node, endless: bool) {
        self.loops += 1;
        self.flow.begin_loop();
        if endless {
            self.flow.certain();
            self.flow.certain();
        }
        self.expr(body);
        // A function that one round defines is what the next one calls; once is enough for nested loops.
        let defines = |at: Node| self.kind(at) == Kind::Function;
        if self.loops == 1 && body != NONE && (body..self.tree.after(body)).any(defines) {
            self.expr(body);
        }
        if endless {
            self.flow.uncertain();
            self.flow.uncertain();
        }
        self.flow.end_body(true, endless);
        self.flow.end_loop();
        self.loops -= 1;
    }

    /// An expression whose bare names may be columns; its own assignments stay in it.
    fn masked(&mut self, node: Node) -> Value {
        if node == NONE {
            return FRESH;
        }
        let block = self.assigns(node);
        if block {
            self.push_block(node);
        }
        self.masks += 1;
        let value = self.expr(node);
        self.masks -= 1;
        if block {
            self.scopes.pop();
        }
        value
    }

    /// A function: its body in a frame of its own. `provided` are names that its class system gives it.
    fn function(&mut self, tree: &Tree, node: Node, provided: &[Symbol], fields: bool) -> Value {
        let parameters = tree.child(node, Field::Parameters);
        let body = tree.child(node, Field::Body);
        let mut found = Vec::new();
        assigned(tree, self.text, body, &mut found);
        let masks = std::mem::take(&mut self.masks);
        let loops = std::mem::take(&mut self.loops);
        self.flow.begin_function();
        self.scopes.push(Scope { function: true, provided: provided.to_vec(), fields, ..Scope::default() });
        let mut names: Vec<Symbol> = Vec::new();
        for parameter in tree.children(parameters).filter(|node| tree.kind(*node) == Kind::Parameter) {
            let name = tree.child(parameter, Field::Name);
            if self.kind(name) != Kind::Identifier {
                names.push(self.flow.symbols.intern("..."));
                continue;
            }
            let symbol = self.symbol(name);
            if names.contains(&symbol) {
                self.silent(name);
            }
            let value = self.flow.parameter(names.len() as u32);
            names.push(symbol);
            let var = self.own(symbol);
            let at = self.range(name);
            self.flow.write(var, value, WriteKind::Bind, at);
            let default = tree.child(parameter, Field::Default);
            if default != NONE
                && let Some(scope) = self.scopes.last_mut()
            {
                scope.defaults.insert(symbol, default);
            }
        }
        for name in found {
            let symbol = self.symbol(name);
            self.own(symbol);
        }
        let value = self.expr(body);
        // Defaults that the body did not need by name: whoever asks for them later gets them then.
        loop {
            let next = self.scopes.last().and_then(|scope| scope.defaults.keys().min().copied());
            let Some(symbol) = next else { break };
            self.force_default(symbol);
        }
        self.scopes.pop();
        self.masks = masks;
        self.loops = loops;
        let id = self.flow.end_function(names, value);
        self.flow.function_value(id)
    }

    fn subset(&mut self, tree: &Tree, node: Node) -> Value {
        let object_node = tree.child(node, Field::Function);
        let object = self.expr(object_node);
        let arguments = tree.child(node, Field::Arguments);
        let at = self.range(node);
        if *self.flow.kind(object) == ValueKind::Namespace {
            let first =
                tree.children(arguments).find(|node| tree.kind(*node) == Kind::Argument).unwrap_or(NONE);
            let value = if first == NONE { NONE } else { tree.child(first, Field::Value) };
            return match self.string(value) {
                Some(name) => {
                    let symbol = self.flow.intern(name);
                    let var = self.flow.global(symbol);
                    self.flow.read(var, at, Via::Text)
                }
                None => {
                    self.expr(value);
                    self.flow.doubt(Code::NamespaceHandle, Effect::READS, NameScope::All, None, at);
                    FRESH
                }
            };
        }
        // `dt[, z := …]` is data.table's: it changes `dt` in place, and bare names are columns first.
        let walrus = tree.kind(node) == Kind::Subset && self.has_walrus(tree, arguments);
        let table = walrus || self.is_table_call(tree, arguments);
        if walrus {
            self.change_reference(object, object_node, at);
        }
        for argument in tree.children(arguments).filter(|node| tree.kind(*node) == Kind::Argument) {
            let value = tree.child(argument, Field::Value);
            if value == NONE {
                continue;
            }
            if table {
                self.masked(value);
            } else {
                self.expr(value);
            }
        }
        if *self.flow.kind(object) == ValueKind::Reference { object } else { FRESH }
    }

    fn has_walrus(&self, tree: &Tree, arguments: Node) -> bool {
        tree.children(arguments).filter(|node| tree.kind(*node) == Kind::Argument).any(|argument| {
            let value = tree.child(argument, Field::Value);
            if value == NONE {
                return false;
            }
            match tree.kind(value) {
                Kind::Binary => self.text(tree.child(value, Field::Operator)) == ":=",
                Kind::Call => matches!(self.text(tree.child(value, Field::Function)), "`:=`" | "let"),
                _ => false,
            }
        })
    }

    /// `dt[i, .(…), by = …]`: no other class has these.
    fn is_table_call(&self, tree: &Tree, arguments: Node) -> bool {
        tree.children(arguments).filter(|node| tree.kind(*node) == Kind::Argument).any(|argument| {
            let name = tree.child(argument, Field::Name);
            let value = tree.child(argument, Field::Value);
            (name != NONE && matches!(self.text(name), "by" | "keyby" | ".SDcols" | "on"))
                || (value != NONE
                    && tree.kind(value) == Kind::Call
                    && self.text(tree.child(value, Field::Function)) == ".")
        })
    }

    /// Analyses a piece of R that is a string of the cell.
    fn snippet(&mut self, text: &'s str, start: u32) -> bool {
        if self.snippets >= 256 || self.depth + 20 > MAX_DEPTH {
            return false;
        }
        self.snippets += 1;
        let Some(parsed) = parse_r(text, None) else { return false };
        if parsed.root_node().has_error() {
            return false;
        }
        let outer = (Rc::clone(&self.tree), self.text, self.base, std::mem::take(&mut self.assignments));
        self.text = text;
        self.base = start;
        self.enter_tree(&parsed);
        self.depth += 20;
        let tree = Rc::clone(&self.tree);
        if !tree.nodes.is_empty() {
            self.sequence(&tree, 0, false);
        }
        self.depth -= 20;
        (self.tree, self.text, self.base, self.assignments) = outer;
        true
    }

    fn inspects(&self) -> bool {
        if self.tree.nodes.is_empty() {
            return true;
        }
        let Some(last) = self.tree.children(0).filter(|node| self.kind(*node) != Kind::Comment).last() else {
            return true;
        };
        match self.kind(last) {
            Kind::Identifier | Kind::Extract | Kind::Subset | Kind::Subset2 => true,
            Kind::Call => matches!(
                self.text(self.tree.child(last, Field::Function)),
                "print"
                    | "head"
                    | "tail"
                    | "str"
                    | "summary"
                    | "help"
                    | "dim"
                    | "names"
                    | "class"
                    | "length"
                    | "View"
                    | "nrow"
                    | "ncol"
                    | "ls"
                    | "levels"
                    | "glimpse"
                    | "skim"
            ),
            Kind::Unary => self.text(last).starts_with('?'),
            _ => false,
        }
    }
}
