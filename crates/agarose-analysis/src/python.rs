//! Python: walks a cell in the order in which CPython evaluates it.

mod call;
mod expression;
mod ipython;
mod kinds;
mod matches;
mod name;
mod scope;
mod statement;

use std::cell::RefCell;
use std::collections::HashSet;
use std::rc::Rc;

use tree_sitter::{Parser, Tree as Parsed};

use crate::effects::python::{conventional_module, is_builtin};
use crate::facts::{Certainty, Code, Dialect, Effect, Facts, Language, Scope as NameScope, Via, WriteKind};
use crate::flow::{FRESH, Flow, IMMUTABLE, Value, Var};
use crate::span::Range;
use crate::symbols::Symbol;
use crate::tree::{NONE, Node, parse, parser};
use kinds::{Kind, Tree, grammar, words};
use scope::{Binding, Mention, Scope, ScopeKind};

/// Nesting of syntax that is analysed. CPython itself gives up at about 100 blocks and 200 parentheses.
const MAX_DEPTH: u32 = 200;

struct Walker<'s> {
    flow: Flow<'s>,
    tree: Rc<Tree>,
    /// The text that `tree` is of, and where it starts in the cell.
    text: &'s str,
    base: u32,
    scopes: Vec<Scope>,
    depth: u32,
    degraded: bool,
    loops: u32,
    snippets: u32,
}

thread_local! {
    static PARSER: RefCell<Option<Parser>> = RefCell::new(parser(&grammar()));
}

/// Parses Python within a budget.
fn parse_python(source: &str, old: Option<&Parsed>) -> Option<Parsed> {
    PARSER.with_borrow_mut(|parser| parse(parser.as_mut()?, source, old))
}

/// The facts of a cell, and the parsed tree for the next edit of it. `old` is a tree of an earlier
/// version, told of the edit.
pub(crate) fn analyse(source: &str, old: Option<&Parsed>) -> (Facts, Option<Parsed>) {
    let cell = ipython::lex(source);
    let mut parsed = match &cell.text {
        None => parse_python(source, old),
        Some(text) => parse_python(text, None),
    };
    let mended =
        parsed.as_ref().and_then(|parsed| matches::mend(cell.text.as_deref().unwrap_or(source), parsed));
    if let Some(text) = &mended {
        parsed = parse_python(text, None);
    }
    let rewritten = mended.as_deref().or(cell.text.as_deref());
    let text: &str = rewritten.unwrap_or(source);
    let mut walker = Walker {
        flow: Flow::new(Language::Python, conventional_module),
        tree: Rc::new(Tree { nodes: Vec::new(), faults: Vec::new() }),
        text,
        base: 0,
        scopes: vec![Scope::new(ScopeKind::Module, None)],
        depth: 0,
        degraded: false,
        loops: 0,
        snippets: 0,
    };
    let mut inspects = false;
    if let Some(parsed) = &parsed {
        walker.tree = Rc::new(Tree::of(parsed, words()));
        walker.magics_before(&cell.magics);
        walker.module();
        inspects = walker.inspects();
    } else {
        walker.give_up(Range { start: 0, end: source.len() as u32 });
    }
    walker.magics_after(&cell.magics);
    let dialect = if cell.text.is_some() { Dialect::Ipython } else { Dialect::Plain };
    if walker.flow.exhausted() {
        walker.give_up(Range { start: 0, end: source.len() as u32 });
    }
    let degraded = walker.degraded;
    let mut facts = walker.flow.report(source, dialect, degraded, is_builtin);
    facts.inspects = inspects;
    (facts, if rewritten.is_none() { parsed } else { None })
}

impl<'s> Walker<'s> {
    fn module(&mut self) {
        let tree = Rc::clone(&self.tree);
        if tree.nodes.is_empty() {
            return;
        }
        for fault in &tree.faults {
            self.degraded = true;
            let at = Range { start: fault.start + self.base, end: fault.end + self.base };
            self.flow.doubt(Code::SyntaxError, Effect::ALL, NameScope::All, None, at);
        }
        self.block(0);
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

    /// The source is beyond the limits: every word may be a name that is read and bound.
    fn give_up(&mut self, at: Range) {
        self.degraded = true;
        self.flow.doubt(Code::LimitExceeded, Effect::ALL, NameScope::All, None, at);
    }

    /// Every name in the subtree may be read and bound: it is an error, or too deep.
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

    /// Goes one level deeper, or treats the node as opaque when that is too deep.
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

    fn silent(&mut self, node: Node) {
        let at = self.range(node);
        self.degraded = true;
        self.flow.doubt(Code::SilentSyntax, Effect::ALL, NameScope::All, None, at);
    }

    /// The name of an identifier as the compiler sees it: normalised, and mangled in a class.
    fn symbol(&mut self, node: Node) -> Symbol {
        let text = self.text(node);
        let mangle = self.scopes.last().and_then(|scope| scope.mangle);
        if !text.is_ascii() {
            let normal = name::normalise(text);
            return self.flow.symbols.intern_owned(normal);
        }
        if let Some(class) = mangle
            && text.starts_with("__")
            && !text.ends_with("__")
        {
            let class = self.flow.symbols.name(class).trim_start_matches('_').to_owned();
            if !class.is_empty() {
                return self.flow.symbols.intern_owned(format!("_{class}{text}"));
            }
        }
        self.flow.intern(text)
    }

    fn load(&mut self, node: Node) -> Value {
        if self.text(node).is_empty() {
            // A token that the parser made up.
            return FRESH;
        }
        let symbol = self.symbol(node);
        let at = self.range(node);
        self.load_symbol(symbol, at, Via::Immediate)
    }

    fn load_symbol(&mut self, symbol: Symbol, at: Range, via: Via) -> Value {
        // A constant of the compiler, and the cell that `super()` uses.
        match self.flow.symbols.name(symbol) {
            "__debug__" => return IMMUTABLE,
            "__class__" if self.scopes.iter().any(|scope| scope.kind == ScopeKind::Class) => return FRESH,
            _ => {}
        }
        let top = self.scopes.len() - 1;
        for index in (0..=top).rev() {
            let scope = &self.scopes[index];
            match scope.kind {
                ScopeKind::Module => break,
                ScopeKind::Class if index != top => continue,
                ScopeKind::Class
                | ScopeKind::Function
                | ScopeKind::Comprehension
                | ScopeKind::TypeParameters => {}
            }
            match scope.names.get(&symbol).copied() {
                Some(Binding::Local(var)) if scope.kind == ScopeKind::Class => {
                    let bits = self.flow.bits(var);
                    if bits == crate::flow::BOUND {
                        return self.flow.read(var, at, via);
                    }
                    if bits & crate::flow::BOUND != 0 {
                        // Bound on some paths: the others see the outer name.
                        let own = self.flow.read(var, at, via);
                        self.flow.uncertain();
                        let outer = self.load_outside(symbol, index, at, via);
                        self.flow.certain();
                        return self.flow.union(own, outer);
                    }
                    return self.load_outside(symbol, index, at, via);
                }
                Some(Binding::Local(var)) => return self.flow.read(var, at, via),
                Some(Binding::Global) => break,
                Some(Binding::Nonlocal) | None => {}
            }
        }
        let var = self.flow.global(symbol);
        self.flow.read(var, at, via)
    }

    /// What a name means for a class body that has not bound it.
    fn load_outside(&mut self, symbol: Symbol, class: usize, at: Range, via: Via) -> Value {
        for index in (0..class).rev() {
            let scope = &self.scopes[index];
            if matches!(scope.kind, ScopeKind::Class) {
                continue;
            }
            if let Some(Binding::Local(var)) = scope.names.get(&symbol).copied() {
                return self.flow.read(var, at, via);
            }
        }
        let var = self.flow.global(symbol);
        self.flow.read(var, at, via)
    }

    /// The variable that a binding of this name binds.
    fn binding(&mut self, symbol: Symbol, walrus: bool) -> Var {
        for index in (0..self.scopes.len()).rev() {
            let scope = &self.scopes[index];
            match scope.kind {
                ScopeKind::Module => break,
                ScopeKind::Comprehension if walrus => continue,
                ScopeKind::Comprehension
                | ScopeKind::Class
                | ScopeKind::Function
                | ScopeKind::TypeParameters => {}
            }
            match scope.names.get(&symbol).copied() {
                Some(Binding::Local(var)) => return var,
                Some(Binding::Global) => break,
                Some(Binding::Nonlocal) | None => {}
            }
        }
        self.flow.global(symbol)
    }

    fn store(&mut self, node: Node, value: Value, kind: WriteKind) {
        let symbol = self.symbol(node);
        let var = self.binding(symbol, false);
        let at = self.range(node);
        self.flow.write(var, value, kind, at);
    }

    /// Makes the names that `mentions` found the locals of a new scope, on top.
    fn push_scope(&mut self, kind: ScopeKind, mangle: Option<Symbol>, found: &[(Node, Mention)]) {
        let inherited = self.scopes.last().and_then(|scope| scope.mangle);
        let mut scope = Scope::new(kind, mangle.or(inherited));
        // Names are mangled as inside of the new scope.
        self.scopes.push(Scope::new(kind, scope.mangle));
        for (node, mention) in found {
            let symbol = self.symbol(*node);
            match mention {
                Mention::Global => {
                    scope.names.insert(symbol, Binding::Global);
                }
                Mention::Nonlocal => {
                    scope.names.insert(symbol, Binding::Nonlocal);
                }
                Mention::Bound => {
                    let flow = &mut self.flow;
                    scope.names.entry(symbol).or_insert_with(|| Binding::Local(flow.local(symbol)));
                }
            }
        }
        self.scopes.pop();
        self.scopes.push(scope);
    }

    /// Analyses a piece of Python that is a string of the cell. Facts point at the string.
    fn snippet(&mut self, text: &'s str, start: u32) -> bool {
        if self.snippets >= 64 || self.depth + 20 > MAX_DEPTH {
            return false;
        }
        self.snippets += 1;
        let Some(parsed) = parse_python(text, None) else { return false };
        if parsed.root_node().has_error() {
            return false;
        }
        let tree = Rc::new(Tree::of(&parsed, words()));
        let outer = (std::mem::replace(&mut self.tree, tree), self.text, self.base);
        self.text = text;
        self.base = start;
        self.depth += 20;
        self.block(0);
        self.depth -= 20;
        (self.tree, self.text, self.base) = outer;
        true
    }

    /// Whether the cell ends by only looking at something.
    fn inspects(&self) -> bool {
        let Some(last) = self.tree.children(0).filter(|node| self.kind(*node) != Kind::Comment).last() else {
            return true;
        };
        let expression = self.tree.first(last);
        if self.kind(last) != Kind::ExpressionStatement || expression == NONE {
            return false;
        }
        match self.kind(expression) {
            Kind::Identifier | Kind::Attribute | Kind::Subscript => true,
            Kind::Call => {
                let called = self.text(self.tree.first(expression));
                let word = called.rsplit('.').next().unwrap_or(called);
                matches!(
                    word,
                    "print"
                        | "display"
                        | "head"
                        | "tail"
                        | "describe"
                        | "info"
                        | "help"
                        | "len"
                        | "type"
                        | "dir"
                        | "value_counts"
                        | "sample"
                        | "pprint"
                        | "repr"
                )
            }
            _ => false,
        }
    }
}
