//! Statements.

use std::rc::Rc;

use super::Walker;
use super::kinds::{Field, Kind, Tree};
use super::scope::{Binding, Mention, Scope, ScopeKind, captures, mentions};
use crate::facts::{Certainty, Code, Effect, Scope as NameScope, Via, WriteKind};
use crate::flow::{FRESH, IMMUTABLE, Kind as ValueKind, Rel, Value};
use crate::symbols::Symbol;
use crate::tree::{NONE, Node};

impl<'s> Walker<'s> {
    pub(super) fn block(&mut self, node: Node) {
        if node == NONE {
            return;
        }
        let tree = Rc::clone(&self.tree);
        for child in tree.children(node) {
            self.statement(&tree, child);
        }
    }

    fn statement(&mut self, tree: &Tree, node: Node) {
        if !self.enter(node) {
            return;
        }
        let at = self.range(node);
        match tree.kind(node) {
            Kind::ExpressionStatement => self.expression_statement(tree, node),
            Kind::Import => self.import(tree, node),
            Kind::ImportFrom | Kind::Future => self.import_from(tree, node),
            Kind::If => self.if_statement(tree, node),
            Kind::For => self.for_statement(tree, node),
            Kind::While => self.while_statement(tree, node),
            Kind::Try => self.try_statement(tree, node),
            Kind::With => self.with_statement(tree, node),
            Kind::Match => self.match_statement(tree, node),
            Kind::Function => {
                let name = tree.child(node, Field::Name);
                let mut value = self.function(tree, node);
                let parameters = tree.child(node, Field::Parameters);
                if !tree.children(parameters).any(|parameter| tree.child(parameter, Field::Value) != NONE) {
                    value = self.flow.constant(value, self.text(node));
                }
                self.store(name, value, WriteKind::Define);
            }
            Kind::ClassDefinition => {
                let name = tree.child(node, Field::Name);
                let value = self.class(tree, node);
                self.store(name, value, WriteKind::Define);
            }
            Kind::Decorated => self.decorated(tree, node),
            Kind::Return => {
                let mut value = IMMUTABLE;
                for child in tree.children(node) {
                    value = self.expr(child);
                }
                if self.scopes.iter().any(|scope| scope.kind == ScopeKind::Function)
                    && self.flow.in_function()
                {
                    self.flow.leave(value);
                } else {
                    self.silent(node);
                }
            }
            Kind::Raise => {
                for child in tree.children(node) {
                    let value = self.expr(child);
                    self.flow.escape(value, at);
                }
                self.flow.raise();
            }
            Kind::Delete => {
                for child in tree.children(node) {
                    self.delete(tree, child);
                }
            }
            Kind::Break | Kind::Continue => {
                if self.loops == 0 {
                    self.silent(node);
                } else if tree.kind(node) == Kind::Break {
                    self.flow.loop_break();
                } else {
                    self.flow.loop_continue();
                }
            }
            Kind::Assert => {
                let mut children = tree.children(node);
                if let Some(condition) = children.next() {
                    self.expr(condition);
                }
                for message in children {
                    self.optional(message);
                }
            }
            Kind::TypeAlias => self.type_alias(tree, node),
            Kind::Global => {
                for name in tree.children(node) {
                    if self.text(name).is_empty() {
                        self.silent(node);
                    }
                }
            }
            Kind::Nonlocal => {
                if !self.flow.in_function() {
                    self.silent(node);
                }
            }
            Kind::Print | Kind::Exec => {
                self.silent(node);
                for child in tree.children(node) {
                    self.expr(child);
                }
            }
            Kind::Pass | Kind::Comment => {}
            Kind::Block => self.block(node),
            Kind::Error => self.opaque(node),
            _ => {
                self.expr(node);
            }
        }
        self.depth -= 1;
    }

    fn expression_statement(&mut self, tree: &Tree, node: Node) {
        for child in tree.children(node) {
            match tree.kind(child) {
                Kind::Assignment => {
                    self.assignment(tree, child);
                }
                Kind::Augmented => self.augmented(tree, child),
                _ => {
                    self.expr(child);
                }
            }
        }
    }

    fn optional(&mut self, node: Node) -> Value {
        let mut fork = self.flow.fork();
        let value = self.expr(node);
        self.flow.end_path(&mut fork);
        self.flow.end_path(&mut fork);
        self.flow.join(fork);
        value
    }

    fn assignment(&mut self, tree: &Tree, node: Node) -> Value {
        // `a = b = value` nests to the right; targets are bound from left to right.
        let mut targets = Vec::new();
        let mut at = node;
        let value = loop {
            let annotation = tree.child(at, Field::Type);
            let left = tree.child(at, Field::Left);
            let right = tree.child(at, Field::Right);
            if annotation != NONE && right == NONE {
                // An annotation alone binds nothing.
                if matches!(self.kind(left), Kind::Attribute | Kind::Subscript) {
                    self.expr(left);
                }
                self.annotation(annotation);
                return FRESH;
            }
            targets.push((left, annotation));
            match self.kind(right) {
                Kind::Integer | Kind::Float | Kind::String | Kind::True | Kind::False | Kind::None
                    if self.kind(left) == Kind::Identifier =>
                {
                    let value = self.expr(right);
                    let plain = self.kind(right) != Kind::String || self.literal(right).is_some();
                    break if plain { self.flow.constant(value, self.text(right)) } else { value };
                }
                Kind::Assignment => at = right,
                Kind::Augmented => {
                    self.silent(right);
                    self.augmented(tree, right);
                    break FRESH;
                }
                _ => break self.expr(right),
            }
        };
        for (left, annotation) in targets {
            self.bind_target(tree, left, value);
            if annotation != NONE {
                self.annotation(annotation);
            }
        }
        value
    }

    fn annotation(&mut self, node: Node) {
        // Annotations of a function's locals are not evaluated.
        if self.scopes.last().is_some_and(|scope| scope.kind == ScopeKind::Function) {
            return;
        }
        self.type_expression(node);
    }

    fn augmented(&mut self, tree: &Tree, node: Node) {
        let left = tree.child(node, Field::Left);
        let right = tree.child(node, Field::Right);
        let at = self.range(node);
        match self.kind(left) {
            Kind::Identifier => {
                let old = self.load(left);
                let value = match self.kind(right) {
                    Kind::Augmented | Kind::Assignment => {
                        self.silent(right);
                        FRESH
                    }
                    _ => self.expr(right),
                };
                let immutable = *self.flow.kind(old) == ValueKind::Immutable
                    || (value == IMMUTABLE
                        && matches!(self.kind(right), Kind::Integer | Kind::Float | Kind::String));
                if immutable {
                    self.store(left, IMMUTABLE, WriteKind::Bind);
                } else {
                    // `xs += ys` changes a list in place, and binds the same list again.
                    self.flow.mutate(old, Certainty::May, false, at);
                    let held = self.flow.holding(&[value]);
                    let merged = if held == FRESH { old } else { self.flow.union(old, held) };
                    self.store(left, merged, WriteKind::Bind);
                }
            }
            Kind::Attribute | Kind::Subscript => {
                self.expr(left);
                let value = self.expr(right);
                self.store_into(tree, left, value);
            }
            _ => {
                self.silent(node);
                self.expr(left);
                self.expr(right);
            }
        }
    }

    /// Binds a target: a name, an attribute, an item, or a list of targets.
    pub(super) fn bind_target(&mut self, tree: &Tree, node: Node, value: Value) {
        if node == NONE || !self.enter(node) {
            return;
        }
        match tree.kind(node) {
            Kind::Identifier => self.store(node, value, WriteKind::Bind),
            Kind::Attribute | Kind::Subscript => self.store_into(tree, node, value),
            Kind::PatternList
            | Kind::TuplePattern
            | Kind::ListPattern
            | Kind::Tuple
            | Kind::List
            | Kind::ExpressionList
            | Kind::SplatPattern
            | Kind::ListSplat => {
                let part = self.flow.related(value, Rel::Part);
                for child in tree.children(node) {
                    self.bind_target(tree, child, part);
                }
            }
            Kind::Parenthesized | Kind::AsTarget => {
                for child in tree.children(node) {
                    self.bind_target(tree, child, value);
                }
            }
            Kind::Comment => {}
            Kind::Error => self.opaque(node),
            _ => {
                self.silent(node);
                self.expr(node);
            }
        }
        self.depth -= 1;
    }

    /// `object.name = value`, `object[key] = value`.
    fn store_into(&mut self, tree: &Tree, node: Node, value: Value) {
        let at = self.range(node);
        let object_node = if tree.kind(node) == Kind::Attribute {
            tree.child(node, Field::Object)
        } else {
            tree.child(node, Field::Value)
        };
        let object = self.expr(object_node);
        let mut key = None;
        for child in tree.children(node) {
            if tree.field(child) == Field::Subscript {
                self.expr(child);
                key = key.or(self.literal(child));
            }
        }
        if tree.kind(node) == Kind::Attribute {
            key = Some(self.text(tree.child(node, Field::Attribute)));
        }
        self.change(object, key, Some(value), at);
        if let Some(var) = self.variable_of(object_node) {
            self.flow.absorb(var, &[value]);
        }
    }

    /// An item or attribute of `object` is bound or unbound.
    fn change(&mut self, object: Value, key: Option<&'s str>, value: Option<Value>, at: crate::span::Range) {
        match self.flow.kind(object).clone() {
            ValueKind::Namespace => {
                if let Some(key) = key {
                    let symbol = self.flow.intern(key);
                    let var = self.flow.global(symbol);
                    match value {
                        Some(value) => self.flow.write(var, value, WriteKind::Bind, at),
                        None => self.flow.delete(var, at),
                    }
                } else {
                    let effect = Effect::WRITES.and(Effect::DELETES);
                    self.flow.doubt(Code::NamespaceHandle, effect, NameScope::All, None, at);
                }
                return;
            }
            ValueKind::Module(module) => {
                let module = self.flow.symbols.name(module).to_owned();
                self.module_changed(&module, key, at);
            }
            _ => {}
        }
        self.flow.mutate(object, Certainty::Must, false, at);
    }

    fn delete(&mut self, tree: &Tree, node: Node) {
        if !self.enter(node) {
            return;
        }
        let at = self.range(node);
        match tree.kind(node) {
            Kind::Identifier => {
                let symbol = self.symbol(node);
                let var = self.binding(symbol, false);
                self.flow.delete(var, at);
            }
            Kind::Attribute | Kind::Subscript => {
                let field = if tree.kind(node) == Kind::Attribute { Field::Object } else { Field::Value };
                let object = self.expr(tree.child(node, field));
                let mut key = None;
                for child in tree.children(node) {
                    if tree.field(child) == Field::Subscript {
                        self.expr(child);
                        key = key.or(self.literal(child));
                    }
                }
                self.change(object, key, None, at);
            }
            Kind::Tuple | Kind::List | Kind::Parenthesized | Kind::ExpressionList | Kind::PatternList => {
                for child in tree.children(node) {
                    self.delete(tree, child);
                }
            }
            Kind::Comment => {}
            _ => {
                self.silent(node);
                self.expr(node);
            }
        }
        self.depth -= 1;
    }

    fn import(&mut self, tree: &Tree, node: Node) {
        for name in tree.children(node).filter(|node| tree.field(*node) == Field::Name) {
            let at = self.range(name);
            let (module, bound, target) = match tree.kind(name) {
                Kind::AliasedImport => {
                    let module = self.text(tree.child(name, Field::Name));
                    (module, tree.child(name, Field::Alias), module)
                }
                _ => {
                    let module = self.text(name);
                    (module, tree.first(name), module.split('.').next().unwrap_or(module))
                }
            };
            if bound == NONE {
                continue;
            }
            let target = self.flow.intern(target);
            let value = self.flow.of_kind(ValueKind::Module(target));
            let value = self.flow.constant(value, module);
            self.store(bound, value, WriteKind::Import);
            let symbol = self.symbol(bound);
            self.flow.imports.push((module.to_owned(), Some(symbol), at));
        }
    }

    fn import_from(&mut self, tree: &Tree, node: Node) {
        let module = self.text(tree.child(node, Field::ModuleName));
        let at = self.range(node);
        for child in tree.children(node) {
            if tree.kind(child) == Kind::Wildcard {
                self.flow.doubt(Code::StarImport, Effect::WRITES, NameScope::All, Some(module), at);
                self.flow.imports.push((module.to_owned(), None, at));
                if !(self.scopes.len() == 1
                    || self.scopes.iter().all(|scope| scope.kind == ScopeKind::Module))
                {
                    self.silent(child);
                }
            }
            if tree.field(child) != Field::Name {
                continue;
            }
            let (name, bound) = match tree.kind(child) {
                Kind::AliasedImport => {
                    (self.text(tree.child(child, Field::Name)), tree.child(child, Field::Alias))
                }
                _ => (self.text(child), tree.first(child)),
            };
            if bound == NONE {
                continue;
            }
            let full = if module.is_empty() || module.starts_with('.') {
                name.to_owned()
            } else {
                format!("{module}.{name}")
            };
            if module == "__main__" {
                let effect = Effect::READS;
                self.flow.doubt(Code::NamespaceHandle, effect, NameScope::All, Some(name), at);
            }
            let target = self.flow.symbols.intern_owned(full.clone());
            let value = self.flow.of_kind(ValueKind::Module(target));
            self.store(bound, value, WriteKind::Import);
            let symbol = self.symbol(bound);
            self.flow.imports.push((full, Some(symbol), at));
        }
    }

    fn if_statement(&mut self, tree: &Tree, node: Node) {
        self.expr(tree.child(node, Field::Condition));
        let mut fork = self.flow.fork();
        self.block(tree.child(node, Field::Consequence));
        self.flow.end_path(&mut fork);
        // Each `elif` is the `else` of the one before; flat, so that a long chain is not deep.
        let mut closed = false;
        let mut inner = Vec::new();
        for clause in tree.children(node).filter(|node| tree.field(*node) == Field::Alternative) {
            match tree.kind(clause) {
                Kind::Elif => {
                    self.expr(tree.child(clause, Field::Condition));
                    let mut next = self.flow.fork();
                    self.block(tree.child(clause, Field::Consequence));
                    self.flow.end_path(&mut next);
                    inner.push(next);
                }
                _ => {
                    closed = true;
                    self.block(tree.child(clause, Field::Body));
                }
            }
        }
        let _ = closed;
        while let Some(mut next) = inner.pop() {
            self.flow.end_path(&mut next);
            self.flow.join(next);
        }
        self.flow.end_path(&mut fork);
        self.flow.join(fork);
    }

    fn for_statement(&mut self, tree: &Tree, node: Node) {
        let at = self.range(node);
        let source = self.expr(tree.child(node, Field::Right));
        self.consume(source, at);
        let element = self.flow.related(source, Rel::Part);
        self.loops += 1;
        self.flow.begin_loop();
        self.bind_target(tree, tree.child(node, Field::Left), element);
        self.loop_body(tree, tree.child(node, Field::Body));
        self.flow.end_body(true, false);
        self.loops -= 1;
        let alternative = tree.child(node, Field::Alternative);
        if alternative != NONE {
            self.block(tree.child(alternative, Field::Body));
        }
        self.flow.end_loop();
    }

    /// The body of a loop. A function that one round defines is what the next one calls, so such a body is
    /// walked twice; once is enough for the loops in it.
    fn loop_body(&mut self, tree: &Tree, body: Node) {
        self.block(body);
        let defines =
            |at: Node| matches!(tree.kind(at), Kind::Function | Kind::Lambda | Kind::ClassDefinition);
        if self.loops == 1 && body != NONE && (body..tree.after(body)).any(defines) {
            self.block(body);
        }
    }

    fn while_statement(&mut self, tree: &Tree, node: Node) {
        let condition = tree.child(node, Field::Condition);
        self.expr(condition);
        let endless = matches!(self.kind(condition), Kind::True)
            || (self.kind(condition) == Kind::Integer && self.text(condition) != "0");
        self.loops += 1;
        self.flow.begin_loop();
        if endless {
            // The body runs at least once: its reads are certain.
            self.flow.certain();
            self.flow.certain();
        }
        self.loop_body(tree, tree.child(node, Field::Body));
        if endless {
            self.flow.uncertain();
            self.flow.uncertain();
        }
        self.flow.end_body(true, endless);
        self.loops -= 1;
        let alternative = tree.child(node, Field::Alternative);
        if alternative != NONE {
            self.block(tree.child(alternative, Field::Body));
        }
        self.flow.end_loop();
    }

    fn try_statement(&mut self, tree: &Tree, node: Node) {
        let finally = tree.children(node).find(|node| tree.kind(*node) == Kind::Finally).unwrap_or(NONE);
        if finally != NONE {
            self.flow.watch();
        }
        let mut fork = self.flow.fork();
        self.flow.watch();
        self.block(tree.child(node, Field::Body));
        let raised = self.flow.unwatch();
        for clause in tree.children(node).filter(|node| tree.kind(*node) == Kind::Else) {
            self.block(tree.child(clause, Field::Body));
        }
        self.flow.end_path(&mut fork);
        for clause in tree.children(node).filter(|node| tree.kind(*node) == Kind::Except) {
            self.flow.revive();
            self.flow.disturb(&raised);
            let mut body = NONE;
            let mut alias = tree.child(clause, Field::Alias);
            for child in tree.children(clause) {
                match (tree.field(child), tree.kind(child)) {
                    (Field::Value, Kind::AsPattern) => {
                        if let Some(class) = tree.children(child).next() {
                            self.expr(class);
                        }
                        alias = tree.first(tree.child(child, Field::Alias));
                    }
                    (Field::Value, _) => {
                        self.expr(child);
                    }
                    (_, Kind::Block) => body = child,
                    _ => {}
                }
            }
            if alias != NONE {
                self.bind_target(tree, alias, FRESH);
            }
            self.block(body);
            if self.kind(alias) == Kind::Identifier {
                let symbol = self.symbol(alias);
                let var = self.binding(symbol, false);
                let at = self.range(alias);
                self.flow.delete(var, at);
            }
            self.flow.end_path(&mut fork);
        }
        self.flow.join(fork);
        if finally != NONE {
            let states = self.flow.unwatch();
            let body = tree.children(finally).find(|node| tree.kind(*node) == Kind::Block).unwrap_or(NONE);
            let mut states = states;
            states.shrink_to_fit();
            self.finally(body, &states);
        }
    }

    fn finally(&mut self, body: Node, states: &[(u32, u8, Value)]) {
        // The closure cannot borrow the walker as well, so the flow's two halves are driven from here.
        let guard = self.flow.begin_finally(states);
        self.block(body);
        self.flow.end_finally(guard);
    }

    fn with_statement(&mut self, tree: &Tree, node: Node) {
        let mut swallows = false;
        for clause in tree.children(node).filter(|node| tree.kind(*node) == Kind::WithClause) {
            for item in tree.children(clause).filter(|node| tree.kind(*node) == Kind::WithItem) {
                self.with_item(tree, tree.child(item, Field::Value), &mut swallows);
            }
        }
        let body = tree.child(node, Field::Body);
        if swallows {
            let mut fork = self.flow.fork();
            self.flow.watch();
            self.block(body);
            let raised = self.flow.unwatch();
            self.flow.end_path(&mut fork);
            self.flow.revive();
            self.flow.disturb(&raised);
            self.flow.end_path(&mut fork);
            self.flow.join(fork);
        } else {
            self.block(body);
        }
    }

    fn with_item(&mut self, tree: &Tree, value: Node, swallows: &mut bool) {
        match self.kind(value) {
            Kind::AsPattern => {
                let mut children = tree.children(value);
                let manager = children.next().unwrap_or(NONE);
                let entered = self.expr(manager);
                *swallows |= !self.is_plain_manager(tree, manager);
                let at = self.range(value);
                self.flow.escape(entered, at);
                let target = tree.child(value, Field::Alias);
                self.bind_target(tree, target, entered);
            }
            Kind::Tuple | Kind::Parenthesized
                if tree.children(value).any(|n| tree.kind(n) == Kind::AsPattern) =>
            {
                for child in tree.children(value) {
                    self.with_item(tree, child, swallows);
                }
            }
            _ => {
                let entered = self.expr(value);
                let at = self.range(value);
                self.flow.escape(entered, at);
                *swallows |= !self.is_plain_manager(tree, value);
            }
        }
    }

    /// A context manager of a well-known library: it does not swallow exceptions.
    fn is_plain_manager(&mut self, tree: &Tree, node: Node) -> bool {
        let callee = if self.kind(node) == Kind::Call { tree.child(node, Field::Function) } else { node };
        let text = self.text(callee);
        if text == "open" {
            return true;
        }
        let last = text.rsplit('.').next().unwrap_or(text);
        !matches!(last, "suppress" | "raises" | "assertRaises" | "assertRaisesRegex")
            && text.contains('.')
            && self.qualified(tree, callee).is_some_and(|name| {
                crate::effects::python::function(&name).is_some() && !name.starts_with("contextlib.")
            })
    }

    /// The full name of an expression like `np.random.seed`, when its root is a module.
    fn qualified(&mut self, tree: &Tree, node: Node) -> Option<String> {
        let mut parts = Vec::new();
        let mut at = node;
        while self.kind(at) == Kind::Attribute {
            parts.push(self.text(tree.child(at, Field::Attribute)));
            at = tree.child(at, Field::Object);
        }
        if self.kind(at) != Kind::Identifier {
            return None;
        }
        let symbol = self.symbol(at);
        let var = self.binding(symbol, false);
        let value = self.flow.peek(var);
        let ValueKind::Module(module) = self.flow.kind(value) else { return None };
        let mut name = self.flow.symbols.name(*module).to_owned();
        for part in parts.iter().rev() {
            name.push('.');
            name.push_str(part);
        }
        Some(name)
    }

    fn match_statement(&mut self, tree: &Tree, node: Node) {
        let mut subject = FRESH;
        for child in tree.children(node).filter(|node| tree.field(*node) == Field::Subject) {
            subject = self.expr(child);
        }
        let part = {
            let part = self.flow.related(subject, Rel::Part);
            self.flow.union(subject, part)
        };
        let mut fork = self.flow.fork();
        let mut complete = false;
        let body = tree.child(node, Field::Body);
        for case in tree.children(body).filter(|node| tree.kind(*node) == Kind::Case) {
            // A pattern that fails late may have captured already: captures stay for the next case.
            let mut found = Vec::new();
            let mut patterns = 0;
            let mut irrefutable = false;
            for pattern in tree.children(case).filter(|node| tree.kind(*node) == Kind::CasePattern) {
                patterns += 1;
                captures(tree, pattern, &mut found);
                self.pattern_reads(tree, pattern);
                irrefutable = is_irrefutable(tree, pattern, self.text(pattern));
            }
            let guard = tree.child(case, Field::Guard);
            let irrefutable = irrefutable && patterns == 1;
            for (name, _) in &found {
                let symbol = self.symbol(*name);
                let var = self.binding(symbol, false);
                let at = self.range(*name);
                if irrefutable {
                    self.flow.write(var, subject, WriteKind::Bind, at);
                } else {
                    self.flow.write_maybe(var, part, WriteKind::Bind, at);
                }
            }
            if guard != NONE {
                for child in tree.children(guard) {
                    self.expr(child);
                }
            }
            let mut arm = self.flow.fork();
            if !irrefutable {
                // In the body all captures are bound.
                for (name, _) in &found {
                    self.store(*name, part, WriteKind::Bind);
                }
            }
            self.block(tree.child(case, Field::Consequence));
            self.flow.end_path_into(&mut arm, &mut fork);
            if irrefutable && guard == NONE {
                complete = true;
                break;
            }
        }
        if complete {
            self.flow.drop_path(&fork);
        } else {
            self.flow.end_path(&mut fork);
        }
        self.flow.join(fork);
    }

    fn pattern_reads(&mut self, tree: &Tree, root: Node) {
        let end = tree.after(root);
        let mut at = root;
        while at < end {
            match tree.kind(at) {
                Kind::DottedName => {
                    if tree.children(at).count() > 1 {
                        self.load(tree.first(at));
                    }
                    at = tree.after(at);
                }
                Kind::ClassPattern => {
                    let name = tree.first(at);
                    if name != NONE {
                        self.load(tree.first(name));
                        at = tree.after(name);
                    } else {
                        at += 1;
                    }
                }
                _ => at += 1,
            }
        }
    }

    fn type_alias(&mut self, tree: &Tree, node: Node) {
        let left = tree.child(node, Field::Left);
        let right = tree.child(node, Field::Right);
        let mut found = Vec::new();
        let written = tree.first(left);
        if !matches!(self.kind(written), Kind::Identifier | Kind::GenericType) {
            // `type(x).attribute = value` looks like an alias to the grammar.
            let at = self.range(node);
            let symbol = self.flow.intern("type");
            self.load_symbol(symbol, at, Via::Immediate);
            let value = self.expr(tree.first(right));
            self.expr(written);
            let object = self.flow.made_by_unknown(&[value]);
            self.flow.mutate(object, Certainty::Possible, true, at);
            self.touch_names(tree, written, at);
            return;
        }
        super::scope::targets(tree, left, &mut found);
        let pushed = self.push_type_parameters(tree, left);
        self.flow.begin_function();
        self.type_expression(right);
        self.flow.end_function(Vec::new(), FRESH);
        if pushed {
            self.scopes.pop();
        }
        if let Some((name, _)) = found.first() {
            self.store(*name, FRESH, WriteKind::Define);
        }
    }

    /// Values of all names under `node` may be changed.
    fn touch_names(&mut self, tree: &Tree, node: Node, at: crate::span::Range) {
        for name in node..tree.after(node) {
            if tree.kind(name) == Kind::Identifier {
                let symbol = self.symbol(name);
                let var = self.binding(symbol, false);
                let value = self.flow.peek(var);
                self.flow.mutate(value, Certainty::May, true, at);
            }
        }
    }

    /// Opens a scope for `[T: bound, *Ts]` under `node`; bounds are evaluated when somebody asks.
    fn push_type_parameters(&mut self, tree: &Tree, node: Node) -> bool {
        if node == NONE {
            return false;
        }
        let end = tree.after(node);
        let list = (node..end).find(|at| tree.kind(*at) == Kind::TypeParameter).unwrap_or(NONE);
        if list == NONE {
            return false;
        }
        let mut names = Vec::new();
        for parameter in tree.children(list) {
            // `T`, `T: bound`, `*Ts`, `**P`, `T = default`: the first identifier is the name.
            if let Some(name) =
                (parameter..tree.after(parameter)).find(|at| tree.kind(*at) == Kind::Identifier)
            {
                names.push((name, Mention::Bound));
            }
        }
        self.push_scope(ScopeKind::TypeParameters, None, &names);
        for (name, _) in &names {
            let symbol = self.symbol(*name);
            if let Some(Binding::Local(var)) =
                self.scopes.last().and_then(|scope| scope.names.get(&symbol)).copied()
            {
                let at = self.range(*name);
                self.flow.write(var, IMMUTABLE, WriteKind::Bind, at);
            }
        }
        self.flow.begin_function();
        for parameter in tree.children(list) {
            self.type_expression(parameter);
        }
        self.flow.end_function(Vec::new(), FRESH);
        true
    }

    fn decorated(&mut self, tree: &Tree, node: Node) {
        let definition = tree.child(node, Field::Definition);
        let mut keeps = true;
        let mut values = Vec::new();
        for decorator in tree.children(node).filter(|node| tree.kind(*node) == Kind::Decorator) {
            let expression = tree.first(decorator);
            let value = self.expr(expression);
            values.push(value);
            let called = if self.kind(expression) == Kind::Call {
                tree.child(expression, Field::Function)
            } else {
                expression
            };
            let text = self.text(called);
            let last = text.rsplit('.').next().unwrap_or(text);
            keeps &= matches!(
                last,
                "property"
                    | "setter"
                    | "getter"
                    | "deleter"
                    | "staticmethod"
                    | "classmethod"
                    | "abstractmethod"
                    | "cache"
                    | "lru_cache"
                    | "cached_property"
                    | "wraps"
                    | "dataclass"
                    | "contextmanager"
                    | "jit"
                    | "njit"
                    | "fixture"
                    | "overload"
                    | "override"
                    | "final"
                    | "total_ordering"
                    | "no_grad"
                    | "vectorize"
                    | "runtime_checkable"
                    | "parametrize"
                    | "asynccontextmanager"
                    | "unique"
                    | "guvectorize"
            );
        }
        let name = tree.child(definition, Field::Name);
        if name == NONE {
            return;
        }
        let value = if tree.kind(definition) == Kind::Function {
            self.function(tree, definition)
        } else {
            self.class(tree, definition)
        };
        let at = self.range(node);
        if keeps {
            self.store(name, value, WriteKind::Define);
            return;
        }
        // An unknown decorator may call what it is given, and may keep state of its own.
        self.flow.escape(value, at);
        self.store(name, value, WriteKind::Define);
    }

    /// A function definition: what is evaluated now, then the body in a frame of its own.
    fn function(&mut self, tree: &Tree, node: Node) -> Value {
        let parameters = tree.child(node, Field::Parameters);
        let defaults = self.defaults(tree, parameters);
        let typed = self.push_type_parameters(tree, tree.child(node, Field::TypeParameters));
        for parameter in tree.children(parameters) {
            let annotation = tree.child(parameter, Field::Type);
            if annotation != NONE {
                self.type_expression(annotation);
            }
        }
        let returns = tree.child(node, Field::ReturnType);
        if returns != NONE {
            self.type_expression(returns);
        }
        let value = self.body(tree, node, parameters, &defaults, false);
        if typed {
            self.scopes.pop();
        }
        value
    }

    pub(super) fn defaults(&mut self, tree: &Tree, parameters: Node) -> Vec<(Node, Value)> {
        let mut defaults = Vec::new();
        for parameter in tree.children(parameters) {
            let value = tree.child(parameter, Field::Value);
            if value != NONE {
                let value = self.expr(value);
                defaults.push((parameter, value));
            }
        }
        defaults
    }

    /// The body of a function or lambda.
    pub(super) fn body(
        &mut self,
        tree: &Tree,
        node: Node,
        parameters: Node,
        defaults: &[(Node, Value)],
        lambda: bool,
    ) -> Value {
        let body = tree.child(node, Field::Body);
        let mut found: Vec<(Node, Mention)> = Vec::new();
        let mut names: Vec<(Node, Node)> = Vec::new();
        for parameter in tree.children(parameters) {
            let name = match tree.kind(parameter) {
                Kind::Identifier => parameter,
                Kind::DefaultParameter | Kind::TypedDefault => tree.child(parameter, Field::Name),
                Kind::TypedParameter | Kind::SplatPattern | Kind::DictSplatPattern => (parameter
                    ..tree.after(parameter))
                    .find(|at| tree.kind(*at) == Kind::Identifier)
                    .unwrap_or(NONE),
                Kind::TuplePattern => {
                    self.silent(parameter);
                    NONE
                }
                _ => NONE,
            };
            if name != NONE {
                found.push((name, Mention::Bound));
                names.push((parameter, name));
            }
        }
        mentions(tree, body, &mut found);
        self.flow.begin_function();
        self.push_scope(ScopeKind::Function, None, &found);
        let loops = std::mem::take(&mut self.loops);
        let mut symbols: Vec<Symbol> = Vec::with_capacity(names.len());
        for (parameter, name) in names {
            let symbol = self.symbol(name);
            if symbols.contains(&symbol) {
                self.silent(name);
            }
            let mut value = self.flow.parameter(symbols.len() as u32);
            if matches!(tree.kind(parameter), Kind::SplatPattern | Kind::DictSplatPattern) {
                value = FRESH;
            }
            if let Some((_, default)) = defaults.iter().find(|(known, _)| *known == parameter) {
                value = self.flow.union(value, *default);
            }
            symbols.push(symbol);
            let var = self.binding(symbol, false);
            let at = self.range(name);
            self.flow.write(var, value, WriteKind::Bind, at);
        }
        let last = if lambda {
            self.expr(body)
        } else {
            self.block(body);
            IMMUTABLE
        };
        self.scopes.pop();
        self.loops = loops;
        let id = self.flow.end_function(symbols, last);
        self.flow.function_value(id)
    }

    fn class(&mut self, tree: &Tree, node: Node) -> Value {
        let name = tree.child(node, Field::Name);
        let typed = self.push_type_parameters(tree, tree.child(node, Field::TypeParameters));
        let superclasses = tree.child(node, Field::Superclasses);
        let mut open = false;
        for base in tree.children(superclasses) {
            let text = self.text(base);
            open |= !matches!(
                text,
                "object" | "Exception" | "ABC" | "abc.ABC" | "ValueError" | "NamedTuple" | "Enum"
            );
            let value = match tree.kind(base) {
                Kind::Keyword => self.expr(tree.child(base, Field::Value)),
                _ => self.expr(base),
            };
            let at = self.range(base);
            self.flow.escape(value, at);
        }
        let body = tree.child(node, Field::Body);
        let mut found = Vec::new();
        mentions(tree, body, &mut found);
        let class = self.flow.intern(self.text(name));
        self.push_scope(ScopeKind::Class, Some(class), &found);
        let loops = std::mem::take(&mut self.loops);
        self.block(body);
        self.loops = loops;
        let scope = self.scopes.pop().unwrap_or_else(|| Scope::new(ScopeKind::Class, None));
        let mut methods = Vec::new();
        let mut members: Vec<(Symbol, u32)> = scope
            .names
            .iter()
            .filter_map(|(symbol, binding)| match binding {
                Binding::Local(var) => Some((*symbol, *var)),
                Binding::Global | Binding::Nonlocal => None,
            })
            .collect();
        members.sort_unstable();
        let mut held = Vec::new();
        for (symbol, var) in members {
            let value = self.flow.peek(var);
            match self.flow.kind(value) {
                ValueKind::Functions(ids) => methods.extend(ids.iter().map(|id| (symbol, *id))),
                _ => held.push(value),
            }
        }
        if typed {
            self.scopes.pop();
        }
        let symbol = self.symbol(name);
        let var = self.binding(symbol, false);
        let var = if self.flow.is_global(var) { var } else { crate::flow::NO_VAR };
        self.flow.class_value(var, methods, open)
    }

    /// An expression in type position.
    pub(super) fn type_expression(&mut self, node: Node) {
        if node == NONE || !self.enter(node) {
            return;
        }
        let tree = Rc::clone(&self.tree);
        match tree.kind(node) {
            Kind::Type
            | Kind::GenericType
            | Kind::UnionType
            | Kind::SplatType
            | Kind::ConstrainedType
            | Kind::TypeParameter => {
                for child in tree.children(node) {
                    self.type_expression(child);
                }
            }
            Kind::MemberType => {
                if let Some(root) = tree.children(node).next() {
                    self.type_expression(root);
                }
            }
            Kind::Identifier => {
                let symbol = self.symbol(node);
                let at = self.range(node);
                self.load_symbol(symbol, at, Via::Immediate);
            }
            _ => {
                self.expr(node);
            }
        }
        self.depth -= 1;
    }
}

/// `case name:` and `case _:` always match.
fn is_irrefutable(tree: &Tree, pattern: Node, text: &str) -> bool {
    if text == "_" {
        return true;
    }
    let inner = tree.first(pattern);
    inner != NONE && tree.kind(inner) == Kind::DottedName && tree.children(inner).count() == 1
}
