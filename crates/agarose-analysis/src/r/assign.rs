//! Operators: assignments in all their forms, pipes, formulas.

use super::Walker;
use super::kinds::{Field, Kind, Tree};
use super::locals::base;
use crate::effects::r as library;
use crate::facts::{Certainty, Code, Effect, Scope as NameScope, WriteKind};
use crate::flow::{FRESH, Kind as ValueKind, Value};
use crate::span::Range;
use crate::tree::{NONE, Node};

impl<'s> Walker<'s> {
    pub(super) fn binary(&mut self, tree: &Tree, node: Node) -> Value {
        let (left, right) = (tree.child(node, Field::Left), tree.child(node, Field::Right));
        let operator = self.text(tree.child(node, Field::Operator));
        match operator {
            "<-" | "=" | "<<-" => self.assign(tree, node, left, right, operator == "<<-"),
            "->" | "->>" => self.assign(tree, node, right, left, operator == "->>"),
            ":=" => {
                // A column's name, or rlang's name of an argument.
                if !matches!(self.kind(left), Kind::Identifier | Kind::String) {
                    self.expr(left);
                }
                self.expr(right);
                FRESH
            }
            "~" => {
                self.masked(left);
                self.masked(right);
                FRESH
            }
            "?" => FRESH,
            "&&" | "||" => {
                self.expr(left);
                let mut fork = self.flow.fork();
                self.expr(right);
                self.flow.end_path(&mut fork);
                self.flow.end_path(&mut fork);
                self.flow.join(fork);
                FRESH
            }
            "|>" | "%>%" | "%T>%" | "%<>%" | "%$%" | "%!>%" => self.pipe(tree, node),
            "%<-%" | "%->%" => {
                let (target, value) = if operator == "%<-%" { (left, right) } else { (right, left) };
                self.expr(value);
                self.destructure(tree, target);
                FRESH
            }
            _ => self.arithmetic(tree, node),
        }
    }

    /// `a + b + c …` nests to the left; walked without going deeper.
    fn arithmetic(&mut self, tree: &Tree, node: Node) -> Value {
        let mut spine = vec![node];
        let mut left = tree.child(node, Field::Left);
        while self.kind(left) == Kind::Binary && self.is_plain(tree, left) {
            spine.push(left);
            left = tree.child(left, Field::Left);
        }
        self.expr(left);
        while let Some(at) = spine.pop() {
            self.expr(tree.child(at, Field::Right));
            let operator = tree.child(at, Field::Operator);
            let text = self.text(operator);
            let symbol = self.flow.intern(text);
            let place = self.range(operator);
            if text.starts_with('%') {
                self.read_function(symbol, place);
            } else if let Some(var) = self.resolve(symbol)
                && (!self.flow.is_global(var) || self.flow.bits(var) != crate::flow::ENTRY)
            {
                // An operator that the cell itself defines.
                self.flow.read(var, place, crate::facts::Via::Immediate);
            }
        }
        FRESH
    }

    fn is_plain(&self, tree: &Tree, node: Node) -> bool {
        !matches!(
            self.text(tree.child(node, Field::Operator)),
            "<-" | "="
                | "<<-"
                | "->"
                | "->>"
                | ":="
                | "~"
                | "?"
                | "&&"
                | "||"
                | "|>"
                | "%>%"
                | "%T>%"
                | "%<>%"
                | "%$%"
                | "%!>%"
                | "%<-%"
                | "%->%"
        )
    }

    /// `target <- value`.
    fn assign(&mut self, tree: &Tree, node: Node, target: Node, value: Node, above: bool) -> Value {
        // `a <- b <- c <- value` nests to the right.
        let mut targets = vec![(node, target, above)];
        let mut source = value;
        while self.kind(source) == Kind::Binary {
            let (left, right) = (tree.child(source, Field::Left), tree.child(source, Field::Right));
            match self.text(tree.child(source, Field::Operator)) {
                "<-" | "=" => targets.push((source, left, false)),
                "<<-" => targets.push((source, left, true)),
                _ => break,
            }
            source = right;
        }
        let mut value = self.expr(source);
        match self.kind(source) {
            Kind::Float
            | Kind::Integer
            | Kind::String
            | Kind::True
            | Kind::False
            | Kind::Null
            | Kind::Function => {
                value = self.flow.constant(value, self.text(source));
            }
            _ => {}
        }
        while let Some((at, target, above)) = targets.pop() {
            self.assign_to(tree, at, target, value, above);
        }
        value
    }

    pub(super) fn assign_to(&mut self, tree: &Tree, node: Node, target: Node, value: Value, above: bool) {
        if target == NONE {
            return;
        }
        match self.kind(target) {
            Kind::Identifier | Kind::String => {
                let symbol = self.symbol(target);
                let at = self.range(target);
                let var = if above { self.above(symbol) } else { Some(self.own(symbol)) };
                if let Some(var) = var {
                    let kind = if matches!(self.flow.kind(value), ValueKind::Functions(_)) {
                        WriteKind::Define
                    } else {
                        WriteKind::Bind
                    };
                    self.flow.write(var, value, kind, at);
                    // A variable of the function around it that is not bound yet is passed over.
                    if above && !self.flow.is_global(var) && !self.flow.is_surely_bound(var) {
                        let outermost = self.flow.global(symbol);
                        self.flow.write_maybe(outermost, value, kind, at);
                    }
                }
            }
            Kind::Extract | Kind::Subset | Kind::Subset2 | Kind::Call | Kind::Parenthesized => {
                self.assign_into(tree, target, value, above);
            }
            _ => {
                self.silent(node);
                self.expr(target);
            }
        }
    }

    /// `f(g(x)[i])$a <- value`: reads `x` and the indices, changes `x`.
    fn assign_into(&mut self, tree: &Tree, target: Node, value: Value, above: bool) {
        let at = self.range(target);
        let Some(root) = base(tree, target) else {
            self.silent(target);
            self.expr(target);
            return;
        };
        let mut level = target;
        let mut depth = 0;
        let mut inner_name: Option<&'s str> = None;
        while level != root && level != NONE && depth < 1000 {
            depth += 1;
            level = match self.kind(level) {
                Kind::Extract => {
                    inner_name = Some(self.text(tree.child(level, Field::Right)));
                    tree.child(level, Field::Left)
                }
                Kind::Parenthesized => tree.child(level, Field::Body),
                Kind::Subset | Kind::Subset2 => {
                    let arguments = tree.child(level, Field::Arguments);
                    inner_name = None;
                    let count =
                        tree.children(arguments).filter(|node| tree.kind(*node) == Kind::Argument).count();
                    for argument in tree.children(arguments).filter(|node| tree.kind(*node) == Kind::Argument)
                    {
                        let index = tree.child(argument, Field::Value);
                        if count == 1 {
                            inner_name = self.string(index);
                        }
                        self.expr(index);
                    }
                    tree.child(level, Field::Function)
                }
                Kind::Call => {
                    let function = tree.child(level, Field::Function);
                    inner_name = None;
                    let place = self.range(function);
                    if matches!(self.kind(function), Kind::Identifier) {
                        let name = format!("{}<-", self.text(function).trim_matches('`'));
                        if name == "body<-" {
                            // The new body is quoted code, whose names are read when the function is called.
                            self.flow.doubt(
                                Code::OpaqueCall,
                                Effect::READS,
                                NameScope::All,
                                Some("body"),
                                at,
                            );
                        }
                        if !library::is_builtin(&name) {
                            let symbol = self.flow.symbols.intern_owned(name);
                            // A package's replacement function is not a name of the session: only one that
                            // the session is known to define makes an edge.
                            self.read_by(symbol, place, crate::facts::Via::Callee, Certainty::Possible);
                        }
                    }
                    let arguments = tree.child(level, Field::Arguments);
                    let mut list = tree.children(arguments).filter(|node| tree.kind(*node) == Kind::Argument);
                    let first = list.next().unwrap_or(NONE);
                    for argument in list {
                        self.expr(tree.child(argument, Field::Value));
                    }
                    if first == NONE { NONE } else { tree.child(first, Field::Value) }
                }
                _ => NONE,
            };
        }
        let symbol = self.symbol(root);
        let place = self.range(root);
        if self.flow.symbols.name(symbol) == ".GlobalEnv" {
            match inner_name {
                Some(name) => {
                    let symbol = self.flow.intern(name.trim_matches(['`', '"', '\'']));
                    let var = self.flow.global(symbol);
                    self.flow.write(var, value, WriteKind::Bind, place);
                }
                None => self.flow.doubt(Code::NamespaceHandle, Effect::WRITES, NameScope::All, None, at),
            }
            return;
        }
        if self.kind(root) == Kind::Identifier {
            self.force_default(symbol);
        }
        let old = self.read_by(symbol, place, crate::facts::Via::Immediate, Certainty::Must);
        if *self.flow.kind(old) == ValueKind::Namespace {
            match inner_name {
                Some(name) => {
                    let symbol = self.flow.intern(name.trim_matches(['`', '"', '\'']));
                    let var = self.flow.global(symbol);
                    self.flow.write(var, value, WriteKind::Bind, place);
                }
                None => self.flow.doubt(Code::NamespaceHandle, Effect::WRITES, NameScope::All, None, at),
            }
            return;
        }
        self.flow.mutate(old, Certainty::Must, false, at);
        let var = if above { self.above(symbol) } else { Some(self.own(symbol)) };
        if let Some(var) = var {
            if self.flow.is_global(var) {
                self.flow.touch(var, Certainty::Must, WriteKind::Mutate, false, place);
            }
            let kept = if *self.flow.kind(old) == ValueKind::Reference { old } else { FRESH };
            if kept == FRESH && self.flow.root(old).is_some() {
                // The same thing if it has identity; a changed copy if not.
                self.flow.write(var, old, WriteKind::Bind, place);
            } else {
                self.flow.write(var, kept, WriteKind::Bind, place);
            }
        }
    }

    fn destructure(&mut self, tree: &Tree, target: Node) {
        match self.kind(target) {
            Kind::Identifier => self.assign_to(tree, target, target, FRESH, false),
            Kind::Call => {
                let arguments = tree.child(target, Field::Arguments);
                for argument in tree.children(arguments).filter(|node| tree.kind(*node) == Kind::Argument) {
                    let value = tree.child(argument, Field::Value);
                    if value != NONE && self.enter(value) {
                        self.destructure(tree, value);
                        self.depth -= 1;
                    }
                }
            }
            Kind::Extract | Kind::Subset | Kind::Subset2 => self.assign_into(tree, target, FRESH, false),
            _ => {}
        }
    }

    /// `x %>% f(y) %>% g`: nests to the left.
    fn pipe(&mut self, tree: &Tree, node: Node) -> Value {
        let mut spine = vec![node];
        let mut left = tree.child(node, Field::Left);
        while self.kind(left) == Kind::Binary
            && matches!(
                self.text(tree.child(left, Field::Operator)),
                "|>" | "%>%" | "%T>%" | "%<>%" | "%$%" | "%!>%"
            )
        {
            spine.push(left);
            left = tree.child(left, Field::Left);
        }
        let assigns =
            spine.last().is_some_and(|first| self.text(tree.child(*first, Field::Operator)) == "%<>%");
        let mut value = self.expr(left);
        let source = left;
        let mut first = left;
        while let Some(at) = spine.pop() {
            let operator = self.text(tree.child(at, Field::Operator));
            let right = tree.child(at, Field::Right);
            let place = self.range(at);
            let result = match self.kind(right) {
                Kind::Call if operator != "%$%" => {
                    if self.enter(right) {
                        let result = self.call(tree, right, Some((value, first)));
                        self.depth -= 1;
                        result
                    } else {
                        FRESH
                    }
                }
                Kind::Identifier => {
                    if operator == "|>" {
                        self.silent(right);
                    }
                    let symbol = self.symbol(right);
                    self.apply_by_name(symbol, value, place)
                }
                Kind::Namespace | Kind::String => FRESH,
                _ if operator == "%$%" => self.masked(right),
                Kind::Function
                | Kind::Extract
                | Kind::Subset
                | Kind::Subset2
                | Kind::Braced
                | Kind::Parenthesized => {
                    self.masks += 1;
                    let function = self.expr(right);
                    self.masks -= 1;
                    self.flow.escape(function, place);
                    FRESH
                }
                _ => {
                    if operator == "|>" {
                        self.silent(right);
                    }
                    self.expr(right)
                }
            };
            if operator != "%T>%" {
                value = result;
            }
            first = NONE;
        }
        if assigns {
            self.assign_to(tree, node, source, value, false);
        }
        value
    }

    /// The place of a change in place of what `object` is.
    pub(super) fn change_reference(&mut self, object: Value, node: Node, at: Range) {
        let reference = self.flow.with_kind(object, ValueKind::Reference);
        self.flow.mutate(reference, Certainty::Must, false, at);
        if self.kind(node) == Kind::Identifier {
            let symbol = self.symbol(node);
            if let Some(var) = self.resolve(symbol)
                && self.flow.is_global(var)
                && self.flow.root(object) != Some(var)
            {
                self.flow.touch(var, Certainty::Must, WriteKind::Mutate, false, at);
            }
        }
    }
}
