//! Expressions.

use std::rc::Rc;

use super::Walker;
use super::kinds::{Field, Kind, Tree};
use super::scope::{Mention, ScopeKind, targets};
use crate::facts::{Access, Certainty, Channel, Code, Effect, Scope as NameScope, WriteKind};
use crate::flow::{FRESH, IMMUTABLE, Kind as ValueKind, Rel, Value, Var};
use crate::span::Range;
use crate::tree::{NONE, Node};

impl<'s> Walker<'s> {
    pub(super) fn expr(&mut self, node: Node) -> Value {
        if node == NONE {
            return FRESH;
        }
        // Leaves first: they are most of a tree and need no depth.
        match self.kind(node) {
            Kind::Identifier => return self.load(node),
            Kind::Integer | Kind::Float | Kind::True | Kind::False | Kind::None | Kind::Ellipsis => {
                return IMMUTABLE;
            }
            Kind::Comment | Kind::Escape | Kind::StringContent | Kind::StringStart => return FRESH,
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
            Kind::Attribute => self.attribute(tree, node),
            Kind::Call => self.call(tree, node),
            Kind::Subscript => self.subscript(tree, node),
            Kind::String | Kind::ConcatenatedString | Kind::Interpolation | Kind::FormatSpecifier => {
                for child in tree.children(node) {
                    self.expr(child);
                }
                IMMUTABLE
            }
            Kind::Binary => self.binary(tree, node),
            Kind::Comparison => {
                self.all(tree, node);
                FRESH
            }
            Kind::Not | Kind::Unary => {
                let value = self.expr(tree.child(node, Field::Argument));
                if value == IMMUTABLE || tree.kind(node) == Kind::Not { IMMUTABLE } else { FRESH }
            }
            Kind::Boolean => self.boolean(tree, node),
            Kind::Conditional => self.conditional(tree, node),
            Kind::Parenthesized | Kind::ListSplat | Kind::DictSplat | Kind::Await => {
                let mut value = FRESH;
                for child in tree.children(node) {
                    if tree.kind(child) != Kind::Comment {
                        value = self.expr(child);
                    }
                }
                value
            }
            Kind::List
            | Kind::Tuple
            | Kind::Set
            | Kind::ExpressionList
            | Kind::PatternList
            | Kind::TuplePattern
            | Kind::ListPattern => {
                let mut held = Vec::new();
                for child in tree.children(node) {
                    held.push(self.expr(child));
                }
                if matches!(tree.kind(node), Kind::Tuple | Kind::ExpressionList)
                    && held.iter().all(|value| *value == IMMUTABLE)
                {
                    return IMMUTABLE;
                }
                self.hold(&held, self.range(node))
            }
            Kind::Dictionary => {
                let mut held = Vec::new();
                for child in tree.children(node) {
                    if tree.kind(child) == Kind::Pair {
                        self.expr(tree.child(child, Field::Key));
                        held.push(self.expr(tree.child(child, Field::Value)));
                    } else {
                        held.push(self.expr(child));
                    }
                }
                self.hold(&held, self.range(node))
            }
            Kind::ListComp | Kind::SetComp | Kind::DictComp | Kind::Generator => {
                self.comprehension(tree, node)
            }
            Kind::Lambda => {
                let parameters = tree.child(node, Field::Parameters);
                let defaults = self.defaults(tree, parameters);
                self.body(tree, node, parameters, &defaults, true)
            }
            Kind::Named => {
                let name = tree.child(node, Field::Name);
                let value = self.expr(tree.child(node, Field::Value));
                if name != NONE {
                    if self
                        .scopes
                        .iter()
                        .rev()
                        .find(|scope| scope.kind != ScopeKind::Comprehension)
                        .is_some_and(|s| s.kind == ScopeKind::Class)
                        && self.scopes.last().is_some_and(|s| s.kind == ScopeKind::Comprehension)
                    {
                        self.silent(node);
                    }
                    let symbol = self.symbol(name);
                    let var = self.binding(symbol, true);
                    let at = self.range(name);
                    self.flow.write(var, value, WriteKind::Bind, at);
                }
                value
            }
            Kind::Type => {
                self.type_expression(node);
                IMMUTABLE
            }
            Kind::Slice | Kind::Yield | Kind::Chevron | Kind::AsPattern | Kind::ArgumentList => {
                self.all(tree, node);
                FRESH
            }
            Kind::Keyword => self.expr(tree.child(node, Field::Value)),
            Kind::Pair => {
                self.expr(tree.child(node, Field::Key));
                self.expr(tree.child(node, Field::Value))
            }
            Kind::Assignment | Kind::Augmented => {
                self.silent(node);
                self.all(tree, node);
                FRESH
            }
            Kind::Error => {
                self.opaque(node);
                FRESH
            }
            _ => {
                self.all(tree, node);
                FRESH
            }
        }
    }

    pub(super) fn all(&mut self, tree: &Tree, node: Node) {
        for child in tree.children(node) {
            self.expr(child);
        }
    }

    /// A new container of these; a function that is put into one may be called from anywhere later.
    fn hold(&mut self, held: &[Value], at: Range) -> Value {
        for value in held {
            if matches!(self.flow.kind(*value), ValueKind::Functions(_)) {
                self.flow.escape(*value, at);
            }
        }
        let value = self.flow.holding(held);
        if value == FRESH { self.flow.new_of_kind(ValueKind::Unknown) } else { value }
    }

    fn attribute(&mut self, tree: &Tree, node: Node) -> Value {
        let object_node = tree.child(node, Field::Object);
        let name = self.text(tree.child(node, Field::Attribute));
        let object = self.expr(object_node);
        let at = self.range(node);
        match self.flow.kind(object).clone() {
            ValueKind::Module(module) => {
                let full = format!("{}.{name}", self.flow.symbols.name(module));
                match full.as_str() {
                    "sys.modules" | "sys._getframe" | "builtins.exec" | "builtins.eval" => {}
                    "numpy.pi" | "numpy.e" | "numpy.nan" | "numpy.inf" | "numpy.newaxis" | "math.pi"
                    | "math.e" | "math.inf" | "math.nan" | "os.sep" => return IMMUTABLE,
                    "os.environ" => self.flow.channel(Channel::Environment, Access::Read, None, at),
                    "sys.argv" | "sys.path" => self.flow.channel(Channel::SearchPath, Access::Read, None, at),
                    _ => {}
                }
                let symbol = self.flow.symbols.intern_owned(full);
                let part = self.flow.related(object, Rel::Part);
                self.flow.with_kind(part, ValueKind::Module(symbol))
            }
            ValueKind::Instance(_) | ValueKind::Class(_) => {
                // A bound method taken as a value may be called later.
                if !self.called(tree, node) {
                    self.flow.escape(object, at);
                }
                self.flow.related(object, Rel::Part)
            }
            _ => {
                if name == "__dict__" || name == "__globals__" || name == "f_globals" || name == "f_locals" {
                    let effect = Effect::READS;
                    self.flow.doubt(Code::NamespaceHandle, effect, NameScope::All, Some(name), at);
                    if name != "__dict__" {
                        let all = Effect::ALL;
                        self.flow.doubt(Code::NamespaceHandle, all, NameScope::All, Some(name), at);
                    }
                }
                self.flow.related(object, Rel::Part)
            }
        }
    }

    fn called(&self, tree: &Tree, node: Node) -> bool {
        tree.field(node) == Field::Function
    }

    fn subscript(&mut self, tree: &Tree, node: Node) -> Value {
        let object = self.expr(tree.child(node, Field::Value));
        let at = self.range(node);
        let mut key = None;
        for child in tree.children(node) {
            if tree.field(child) == Field::Subscript {
                self.expr(child);
                key = key.or(self.literal(child));
            }
        }
        match self.flow.kind(object).clone() {
            ValueKind::Module(module) => match self.flow.symbols.name(module) {
                "sys.modules" => {
                    if key.is_none() || key == Some("__main__") {
                        self.flow.doubt(Code::NamespaceHandle, Effect::ALL, NameScope::All, key, at);
                    }
                    self.flow.related(object, Rel::Part)
                }
                "os.environ" => {
                    self.flow.channel(Channel::Environment, Access::Read, key.map(str::to_owned), at);
                    IMMUTABLE
                }
                _ => self.flow.related(object, Rel::Part),
            },
            ValueKind::Namespace => {
                if let Some(key) = key {
                    let symbol = self.flow.intern(key);
                    let var = self.flow.global(symbol);
                    self.flow.read(var, at, crate::facts::Via::Text)
                } else {
                    self.flow.doubt(Code::NamespaceHandle, Effect::READS, NameScope::All, None, at);
                    FRESH
                }
            }
            ValueKind::Immutable => IMMUTABLE,
            _ => self.flow.related(object, Rel::Part),
        }
    }

    /// `a + b + c …` nests to the left; walked without going deeper.
    fn binary(&mut self, tree: &Tree, node: Node) -> Value {
        let mut spine = vec![node];
        let mut left = tree.child(node, Field::Left);
        while self.kind(left) == Kind::Binary {
            spine.push(left);
            left = tree.child(left, Field::Left);
        }
        let mut held = vec![self.expr(left)];
        let mut immutable = held[0] == IMMUTABLE;
        let mut joins = false;
        while let Some(at) = spine.pop() {
            let right = self.expr(tree.child(at, Field::Right));
            immutable &= right == IMMUTABLE;
            let operator = self.between(tree, at);
            joins |= matches!(operator, "+" | "|" | "*" | "&");
            if held.len() < 16 {
                held.push(right);
            }
        }
        if immutable {
            IMMUTABLE
        } else if joins {
            // Lists that are added share their items with the sum.
            let value = self.flow.holding(&held);
            if value == FRESH { FRESH } else { value }
        } else {
            FRESH
        }
    }

    /// The operator of a binary node.
    fn between(&self, tree: &Tree, node: Node) -> &'s str {
        let left = tree.range(tree.child(node, Field::Left)).end;
        let right = tree.child(node, Field::Right);
        if right == NONE {
            return "";
        }
        self.text.get(left as usize..tree.range(right).start as usize).unwrap_or("").trim()
    }

    fn boolean(&mut self, tree: &Tree, node: Node) -> Value {
        let mut spine = vec![node];
        let mut left = tree.child(node, Field::Left);
        while self.kind(left) == Kind::Boolean {
            spine.push(left);
            left = tree.child(left, Field::Left);
        }
        let mut value = self.expr(left);
        let mut forks = Vec::new();
        while let Some(at) = spine.pop() {
            forks.push(self.flow.fork());
            let right = self.expr(tree.child(at, Field::Right));
            value = self.flow.union(value, right);
        }
        // Each operand may be the last one that is evaluated.
        while let Some(mut fork) = forks.pop() {
            self.flow.end_path(&mut fork);
            self.flow.end_path(&mut fork);
            self.flow.join(fork);
        }
        value
    }

    fn conditional(&mut self, tree: &Tree, node: Node) -> Value {
        let parts: Vec<Node> = tree.children(node).filter(|part| tree.kind(*part) != Kind::Comment).collect();
        let [then, condition, otherwise] = parts.as_slice() else {
            self.all(tree, node);
            return FRESH;
        };
        self.expr(*condition);
        let mut fork = self.flow.fork();
        let one = self.expr(*then);
        self.flow.end_path(&mut fork);
        let two = self.expr(*otherwise);
        self.flow.end_path(&mut fork);
        self.flow.join(fork);
        self.flow.union(one, two)
    }

    fn comprehension(&mut self, tree: &Tree, node: Node) -> Value {
        let body = tree.child(node, Field::Body);
        let clauses: Vec<Node> = tree
            .children(node)
            .filter(|child| matches!(tree.kind(*child), Kind::ForIn | Kind::IfClause))
            .collect();
        let Some((first, rest)) = clauses.split_first() else { return FRESH };
        // The first iterable belongs to the block around; all else to the comprehension's own.
        let mut iterable = FRESH;
        for child in tree.children(*first).filter(|child| tree.field(*child) == Field::Right) {
            iterable = self.expr(child);
        }
        let at = self.range(node);
        self.consume(iterable, at);
        let mut found: Vec<(Node, Mention)> = Vec::new();
        for clause in &clauses {
            if tree.kind(*clause) == Kind::ForIn {
                targets(tree, tree.child(*clause, Field::Left), &mut found);
            }
        }
        self.push_scope(ScopeKind::Comprehension, None, &found);
        let mut fork = self.flow.fork();
        let element = self.flow.related(iterable, Rel::Part);
        self.bind_target(tree, tree.child(*first, Field::Left), element);
        for clause in rest {
            if tree.kind(*clause) == Kind::IfClause {
                self.all(tree, *clause);
                continue;
            }
            let mut inner = FRESH;
            for child in tree.children(*clause).filter(|child| tree.field(*child) == Field::Right) {
                inner = self.expr(child);
            }
            let element = self.flow.related(inner, Rel::Part);
            self.bind_target(tree, tree.child(*clause, Field::Left), element);
        }
        let value = self.expr(body);
        if tree.kind(node) == Kind::Generator {
            self.flow.escape(value, at);
        }
        self.flow.end_path(&mut fork);
        self.flow.end_path(&mut fork);
        self.flow.join(fork);
        self.scopes.pop();
        let made = self.hold(&[value], at);
        if tree.kind(node) == Kind::Generator { self.flow.with_kind(made, ValueKind::Iterator) } else { made }
    }

    /// The text of a string without escapes or interpolations.
    pub(super) fn literal(&self, node: Node) -> Option<&'s str> {
        self.literal_at(node).map(|(text, _)| text)
    }

    /// The same, with where it starts.
    pub(super) fn literal_at(&self, node: Node) -> Option<(&'s str, u32)> {
        if self.kind(node) != Kind::String {
            return None;
        }
        let tree = &self.tree;
        let mut content = NONE;
        for child in tree.children(node) {
            match tree.kind(child) {
                Kind::Interpolation => return None,
                Kind::StringContent if content == NONE => content = child,
                Kind::StringContent => return None,
                Kind::StringStart if self.text(child).contains(['b', 'B', 'f', 'F']) => return None,
                _ => {}
            }
        }
        if content == NONE {
            return Some(("", self.range(node).end));
        }
        let text = self.text(content);
        if text.contains('\\') { None } else { Some((text, self.range(content).start)) }
    }

    /// The variable that an expression names, if it is just a name.
    pub(super) fn variable_of(&mut self, node: Node) -> Option<Var> {
        if self.kind(node) != Kind::Identifier {
            return None;
        }
        let symbol = self.symbol(node);
        Some(self.binding(symbol, false))
    }

    /// An iterable is gone through: an iterator is then used up.
    pub(super) fn consume(&mut self, value: Value, at: Range) {
        if *self.flow.kind(value) == ValueKind::Iterator {
            self.flow.mutate(value, Certainty::May, false, at);
        } else if *self.flow.kind(value) == ValueKind::Unknown
            && let Some(var) = self.flow.root(value)
        {
            self.flow.consumed.push(var);
        }
    }
}
