//! Calls: of what the cell defines, of the language's own, of well-known libraries, of anything.

use super::Walker;
use super::kinds::{Field, Kind, Tree};
use crate::effects::{LibraryCall, Outcome, python as library};
use crate::facts::{Access, Certainty, Channel, Code, Effect, Scope as NameScope, Via, WriteKind};
use crate::flow::{Arg, ENTRY, FRESH, IMMUTABLE, Key, Kind as ValueKind, Rel, Value};
use crate::span::Range;
use crate::tree::{NONE, Node};

impl<'s> Walker<'s> {
    pub(super) fn call(&mut self, tree: &Tree, node: Node) -> Value {
        // `a.b().c().d()` nests to the left; the receivers are called first, without going deeper.
        let mut spine = vec![node];
        let mut value = loop {
            let call = spine[spine.len() - 1];
            let function = tree.child(call, Field::Function);
            if self.kind(function) == Kind::Attribute {
                let receiver = tree.child(function, Field::Object);
                if self.kind(receiver) == Kind::Call {
                    spine.push(receiver);
                    continue;
                }
            }
            spine.pop();
            break self.one_call(tree, call);
        };
        while let Some(call) = spine.pop() {
            value = self.method_call(tree, call, NONE, value);
        }
        value
    }

    fn one_call(&mut self, tree: &Tree, node: Node) -> Value {
        let function = tree.child(node, Field::Function);
        let at = self.range(node);
        match self.kind(function) {
            Kind::Identifier => {
                let symbol = self.symbol(function);
                let var = self.binding(symbol, false);
                let own = self.flow.is_global(var) && self.flow.bits(var) == ENTRY;
                let callee = self.load(function);
                let name = self.text(function);
                if own && library::is_builtin(name) {
                    if let Some(value) = self.special(tree, node, name) {
                        return value;
                    }
                    let arguments = self.arguments(tree, node);
                    let full = format!("builtins.{name}");
                    if let Some(effect) = library::function(&full) {
                        return self.library_call(tree, node, effect, &full, FRESH, NONE, &arguments);
                    }
                    return self.unknown_call(callee, None, &arguments, at);
                }
                self.call_value(tree, node, callee)
            }
            Kind::Attribute => {
                let receiver_node = tree.child(function, Field::Object);
                let receiver = self.expr(receiver_node);
                self.method_call(tree, node, receiver_node, receiver)
            }
            _ => {
                let callee = self.expr(function);
                self.call_value(tree, node, callee)
            }
        }
    }

    fn call_value(&mut self, tree: &Tree, node: Node, callee: Value) -> Value {
        let arguments = self.arguments(tree, node);
        if let ValueKind::Module(full) = self.flow.kind(callee) {
            let full = self.flow.symbols.name(*full).to_owned();
            return self.module_call(tree, node, &full, callee, &arguments);
        }
        let at = self.range(node);
        self.unknown_call(callee, None, &arguments, at)
    }

    fn unknown_call(&mut self, callee: Value, method: Option<u32>, arguments: &[Arg], at: Range) -> Value {
        self.flow.call(callee, method, arguments, at, false)
    }

    fn method_call(&mut self, tree: &Tree, node: Node, receiver_node: Node, receiver: Value) -> Value {
        let function = tree.child(node, Field::Function);
        let name_node = tree.child(function, Field::Attribute);
        let name = self.text(name_node);
        let at = self.range(node);
        match self.flow.kind(receiver).clone() {
            ValueKind::Module(module) => {
                let full = format!("{}.{name}", self.flow.symbols.name(module));
                let arguments = self.arguments(tree, node);
                return self.module_call(tree, node, &full, receiver, &arguments);
            }
            ValueKind::Namespace => {
                let arguments = self.arguments(tree, node);
                self.namespace_method(tree, node, name, &arguments);
                return FRESH;
            }
            ValueKind::Class(_) | ValueKind::Instance(_) => {
                let arguments = self.arguments(tree, node);
                let method = self.flow.intern(name);
                return self.unknown_call(receiver, Some(method), &arguments, at);
            }
            _ => {}
        }
        let arguments = self.arguments(tree, node);
        let immutable = *self.flow.kind(receiver) == ValueKind::Immutable;
        if let Some(effect) = library::method(name) {
            return self.library_call(tree, node, effect, "", receiver, receiver_node, &arguments);
        }
        // `x.add_(1)` changes a tensor in place.
        if name.ends_with('_') && !name.starts_with('_') && !name.ends_with("__") {
            self.flow.mutate(receiver, Certainty::Must, false, at);
            return receiver;
        }
        if name.starts_with("is_") || name.starts_with("has_") || immutable {
            return FRESH;
        }
        // An object's own method: only the session knows its class.
        self.inplace(tree, node, receiver, at);
        let method = self.flow.intern(name);
        self.unknown_call(receiver, Some(method), &arguments, at)
    }

    fn arguments(&mut self, tree: &Tree, node: Node) -> Vec<Arg> {
        let list = tree.child(node, Field::Arguments);
        let mut arguments = Vec::new();
        if list == NONE {
            return arguments;
        }
        if tree.kind(list) == Kind::Generator {
            let value = self.expr(list);
            arguments.push(Arg { key: Key::Position(0), value });
            return arguments;
        }
        let mut position = 0;
        let mut spread = false;
        let mut keyworded = false;
        for child in tree.children(list) {
            match tree.kind(child) {
                Kind::Comment => {}
                Kind::Keyword => {
                    keyworded = true;
                    let name = self.text(tree.child(child, Field::Name));
                    let value = self.expr(tree.child(child, Field::Value));
                    let symbol = self.flow.intern(name);
                    arguments.push(Arg { key: Key::Keyword(symbol), value });
                }
                Kind::ListSplat | Kind::DictSplat => {
                    let value = self.expr(child);
                    let at = self.range(child);
                    self.consume(value, at);
                    let value = self.flow.related(value, Rel::Part);
                    spread = true;
                    arguments.push(Arg { key: Key::Any, value });
                }
                _ => {
                    if keyworded && !spread {
                        self.silent(child);
                    }
                    let value = self.expr(child);
                    let key = if spread { Key::Any } else { Key::Position(position) };
                    position += 1;
                    arguments.push(Arg { key, value });
                }
            }
        }
        arguments
    }

    /// The nodes of the arguments: positional ones, and keywords by name.
    fn argument_node(&self, tree: &Tree, node: Node, position: usize, keyword: &str) -> Node {
        let list = tree.child(node, Field::Arguments);
        if list == NONE {
            return NONE;
        }
        let mut seen = 0;
        for child in tree.children(list) {
            match tree.kind(child) {
                Kind::Comment | Kind::ListSplat | Kind::DictSplat => {}
                Kind::Keyword => {
                    if self.text(tree.child(child, Field::Name)) == keyword {
                        return tree.child(child, Field::Value);
                    }
                }
                _ => {
                    if seen == position {
                        return child;
                    }
                    seen += 1;
                }
            }
        }
        NONE
    }

    /// `inplace=True`, or something that may be true.
    fn inplace(&mut self, tree: &Tree, node: Node, receiver: Value, at: Range) -> bool {
        let flag = self.argument_node(tree, node, usize::MAX, "inplace");
        if flag == NONE || self.kind(flag) == Kind::False {
            return false;
        }
        let certainty = if self.kind(flag) == Kind::True { Certainty::Must } else { Certainty::May };
        self.flow.mutate(receiver, certainty, false, at);
        true
    }

    fn module_call(
        &mut self,
        tree: &Tree,
        node: Node,
        full: &str,
        callee: Value,
        arguments: &[Arg],
    ) -> Value {
        let at = self.range(node);
        match full {
            "importlib.reload" => {
                self.flow.doubt(Code::Reload, Effect::ALL, NameScope::All, None, at);
                return FRESH;
            }
            "sys._getframe" | "inspect.currentframe" | "inspect.stack" => {
                self.flow.doubt(
                    Code::NamespaceHandle,
                    Effect::ALL,
                    NameScope::All,
                    Some(full_tail(full)),
                    at,
                );
                return FRESH;
            }
            "importlib.import_module" => {
                if self.literal(self.argument_node(tree, node, 0, "name")) == Some("__main__") {
                    self.flow.doubt(Code::NamespaceHandle, Effect::ALL, NameScope::All, None, at);
                }
                return FRESH;
            }
            "ctypes.pythonapi" | "runpy.run_path" | "runpy.run_module" => {
                self.flow.doubt(Code::LoadSource, Effect::ALL, NameScope::All, Some(full_tail(full)), at);
                return FRESH;
            }
            "builtins.exec" | "builtins.eval" => {
                self.flow.doubt(Code::ExecEval, Effect::ALL, NameScope::All, None, at);
                return FRESH;
            }
            "os.environ.get" | "os.getenv" => {
                let key = self.literal(self.argument_node(tree, node, 0, "key")).map(str::to_owned);
                self.flow.channel(Channel::Environment, Access::Read, key, at);
                return IMMUTABLE;
            }
            _ => {}
        }
        if let Some(effect) = library::function(full) {
            let value = self.library_call(tree, node, effect, full, FRESH, NONE, arguments);
            let seeds = effect.channels.contains(&(Channel::Random, Access::Set));
            if seeds || effect.channels.iter().any(|(channel, _)| *channel == Channel::Options) {
                // Older tools list the module as changed: state behind it is.
                for root in self.flow.roots(callee) {
                    self.flow.touch(root, Certainty::Possible, WriteKind::Hidden, false, at);
                }
            }
            if full.starts_with("threading.")
                || full.starts_with("asyncio.")
                    && effect.channels.iter().any(|(c, _)| *c == Channel::Background)
            {
                self.flow.doubt(
                    Code::Background,
                    Effect::default(),
                    NameScope::All,
                    Some(full_tail(full)),
                    at,
                );
            }
            return value;
        }
        self.flow.opaque.insert(full.to_owned());
        let tail = full_tail(full);
        if tail.chars().next().is_some_and(char::is_uppercase) {
            // By convention a class: what it makes holds what it is given.
            for arg in arguments {
                self.flow.escape(arg.value, at);
            }
            let given: Vec<Value> = arguments.iter().map(|arg| arg.value).collect();
            return self.flow.holding(&given);
        }
        for arg in arguments {
            self.flow.mutate(arg.value, Certainty::Possible, true, at);
            self.flow.escape(arg.value, at);
        }
        self.flow.hand_over(arguments, at);
        let given: Vec<Value> = arguments.iter().map(|arg| arg.value).collect();
        self.flow.made_by_unknown(&given)
    }

    #[expect(clippy::too_many_arguments, reason = "a call has that many parts")]
    fn library_call(
        &mut self,
        tree: &Tree,
        node: Node,
        effect: &LibraryCall,
        full: &str,
        receiver: Value,
        receiver_node: Node,
        arguments: &[Arg],
    ) -> Value {
        let at = self.range(node);
        for arg in arguments {
            if effect.calls || effect.outcome != Outcome::Immutable {
                self.flow.escape(arg.value, at);
            }
            let hit = match arg.key {
                Key::Position(n) => effect.mutates & (1 << n.min(15)) != 0,
                Key::Keyword(name) => effect.out && self.flow.symbols.name(name) == "out",
                Key::Any => effect.mutates != 0,
            };
            if hit {
                let certainty = if arg.key == Key::Any { Certainty::Possible } else { Certainty::Must };
                self.flow.mutate(arg.value, certainty, false, at);
            }
            if effect.consumes {
                self.consume(arg.value, at);
            }
        }
        if effect.calls {
            self.flow.hand_over(arguments, at);
        }
        let inplace = self.inplace(tree, node, receiver, at);
        let given: Vec<Value> = arguments.iter().map(|arg| arg.value).collect();
        if effect.mutates_self {
            let method = self.text(tree.child(tree.child(node, Field::Function), Field::Attribute));
            // `a.update(b)` on what is not a container is an object's own method, of which less is known.
            let _ = method;
            self.flow.mutate(receiver, Certainty::Must, false, at);
            if let Some(var) = self.variable_of(receiver_node) {
                self.flow.absorb(var, &given);
            }
        }
        if !effect.channels.is_empty() {
            let key_node = self.argument_node(tree, node, 0, "");
            for (channel, access) in &effect.channels {
                let key = match channel {
                    Channel::File | Channel::Environment => self.literal(key_node).map(str::to_owned),
                    _ => None,
                };
                let mut access = *access;
                if full == "builtins.open" {
                    let mode = self.argument_node(tree, node, 1, "mode");
                    if mode != NONE {
                        let text = self.literal(mode).unwrap_or("r+");
                        if text.contains(['w', 'a', 'x', '+']) {
                            self.flow.channel(Channel::File, Access::Write, key.clone(), at);
                        }
                        if text.contains(['w', 'x']) && !text.contains('+') {
                            access = Access::Write;
                        }
                    }
                }
                self.flow.channel(*channel, access, key, at);
            }
        }
        match effect.outcome {
            Outcome::Immutable => IMMUTABLE,
            Outcome::Fresh => FRESH,
            Outcome::Iterator => {
                let made = if full == "builtins.open" { FRESH } else { self.flow.holding(&given) };
                if made == FRESH {
                    self.flow.new_of_kind(ValueKind::Iterator)
                } else {
                    self.flow.with_kind(made, ValueKind::Iterator)
                }
            }
            Outcome::View => {
                let mut shared = given;
                shared.push(receiver);
                if inplace { FRESH } else { self.flow.made_by_unknown(&shared) }
            }
            Outcome::Holds => {
                let mut parts = Vec::with_capacity(given.len());
                for value in given {
                    // `list(xs)` holds what `xs` holds, not `xs`; both are covered by holding.
                    parts.push(value);
                }
                parts.push(receiver);
                self.flow.holding(&parts)
            }
            Outcome::Element => {
                let first =
                    if receiver == FRESH { given.first().copied().unwrap_or(FRESH) } else { receiver };
                let mut value = self.flow.related(first, Rel::Part);
                for other in given.iter().skip(usize::from(receiver == FRESH)) {
                    value = self.flow.union(value, *other);
                }
                value
            }
            Outcome::Same => {
                if receiver == FRESH {
                    given.first().copied().unwrap_or(FRESH)
                } else {
                    receiver
                }
            }
            Outcome::Reference | Outcome::Unknown => {
                let mut shared = given;
                shared.push(receiver);
                self.flow.made_by_unknown(&shared)
            }
        }
    }

    /// Members of a module are replaced.
    pub(super) fn module_changed(&mut self, module: &str, key: Option<&str>, at: Range) {
        let channel = match module {
            "os.environ" => Channel::Environment,
            _ if module.ends_with("rcParams")
                || module.ends_with("options.display")
                || module.contains("options") =>
            {
                Channel::Options
            }
            "sys.path" | "sys.modules" => Channel::SearchPath,
            _ => {
                self.flow.doubt(Code::MonkeyPatch, Effect::default(), NameScope::All, Some(module), at);
                Channel::ClassTable
            }
        };
        self.flow.channel(channel, Access::Write, key.map(str::to_owned), at);
    }

    fn namespace_method(&mut self, tree: &Tree, node: Node, name: &str, arguments: &[Arg]) {
        let at = self.range(node);
        let key = self.literal(self.argument_node(tree, node, 0, ""));
        match name {
            "get" | "__getitem__" => match key {
                Some(key) => {
                    let symbol = self.flow.intern(key);
                    let var = self.flow.global(symbol);
                    self.flow.read(var, at, Via::Text);
                }
                None => self.flow.doubt(Code::NamespaceHandle, Effect::READS, NameScope::All, None, at),
            },
            "keys" | "items" | "values" | "copy" | "__contains__" | "__len__" => {
                self.flow.doubt(Code::NamespaceHandle, Effect::READS, NameScope::All, None, at);
            }
            "update" if arguments.iter().all(|arg| matches!(arg.key, Key::Keyword(_))) => {
                for arg in arguments {
                    if let Key::Keyword(name) = arg.key {
                        let var = self.flow.global(name);
                        self.flow.write(var, arg.value, WriteKind::Bind, at);
                    }
                }
            }
            _ => self.flow.doubt(Code::NamespaceHandle, Effect::ALL, NameScope::All, Some(name), at),
        }
    }

    /// Builtins that no table can describe.
    fn special(&mut self, tree: &Tree, node: Node, name: &str) -> Option<Value> {
        let at = self.range(node);
        match name {
            "exec" | "eval" => {
                let source = self.argument_node(tree, node, 0, "");
                let own_namespace = self.argument_node(tree, node, 1, "globals") != NONE;
                let literal = self.literal_at(source);
                let arguments = self.arguments(tree, node);
                if own_namespace {
                    let handle =
                        arguments.iter().any(|arg| *self.flow.kind(arg.value) == ValueKind::Namespace);
                    if !handle {
                        // It runs in a dictionary that is given; only that one changes, as far as we see.
                        for arg in arguments.iter().skip(1) {
                            self.flow.mutate(arg.value, Certainty::May, true, at);
                        }
                        self.flow.doubt(Code::ExecEval, Effect::READS, NameScope::All, Some(name), at);
                        return Some(FRESH);
                    }
                }
                if let Some((text, start)) = literal {
                    // A function's body has its own locals, which `exec` writes to, and nobody else sees.
                    self.flow.uncertain();
                    let known = self.snippet(text, start);
                    self.flow.certain();
                    if known {
                        return Some(FRESH);
                    }
                }
                self.flow.doubt(Code::ExecEval, Effect::ALL, NameScope::All, Some(name), at);
                Some(FRESH)
            }
            "globals" | "locals" | "vars" => {
                let arguments = self.arguments(tree, node);
                if !arguments.is_empty() {
                    return Some(self.flow.related(arguments[0].value, Rel::Part));
                }
                if name != "globals" && self.flow.in_function() {
                    return Some(FRESH);
                }
                self.namespace_handle(tree, node, at);
                Some(self.flow.of_kind(ValueKind::Namespace))
            }
            "setattr" | "delattr" => {
                let target = self.argument_node(tree, node, 0, "");
                let key = self.literal(self.argument_node(tree, node, 1, ""));
                let arguments = self.arguments(tree, node);
                let object = arguments.first().map_or(FRESH, |arg| arg.value);
                match self.flow.kind(object).clone() {
                    ValueKind::Module(module) => {
                        let module = self.flow.symbols.name(module).to_owned();
                        self.module_changed(&module, key, at);
                    }
                    ValueKind::Unknown if self.kind(target) == Kind::Call => {
                        self.flow.doubt(Code::DynamicName, Effect::ALL, NameScope::All, Some(name), at);
                    }
                    _ => {}
                }
                self.flow.mutate(object, Certainty::Must, false, at);
                let value = arguments.get(2).map_or(FRESH, |arg| arg.value);
                if let Some(var) = self.variable_of(target) {
                    self.flow.absorb(var, &[value]);
                }
                Some(IMMUTABLE)
            }
            "__import__" => {
                let module = self.literal(self.argument_node(tree, node, 0, "name"));
                self.arguments(tree, node);
                match module {
                    Some("__main__") | None => {
                        self.flow.doubt(Code::NamespaceHandle, Effect::ALL, NameScope::All, module, at);
                        Some(FRESH)
                    }
                    Some(module) => {
                        let symbol = self.flow.intern(module);
                        Some(self.flow.of_kind(ValueKind::Module(symbol)))
                    }
                }
            }
            "get_ipython" => {
                self.flow.doubt(Code::Magic, Effect::ALL, NameScope::All, Some(name), at);
                Some(FRESH)
            }
            "super" => {
                self.arguments(tree, node);
                Some(FRESH)
            }
            "compile" => {
                self.arguments(tree, node);
                Some(FRESH)
            }
            _ => None,
        }
    }

    /// The namespace as a value is harmless where its use is seen at once.
    fn namespace_handle(&mut self, tree: &Tree, node: Node, at: Range) {
        let _ = tree;
        match tree.field(node) {
            // `globals()["x"]`, `globals().get(…)`: the subscript or the method says what happens. The
            // reference's own reader wants the write flagged, and so does everyone who aliases the handle.
            Field::Value | Field::Object => {
                self.flow.doubt(
                    Code::NamespaceHandle,
                    Effect::default(),
                    NameScope::All,
                    Some("globals"),
                    at,
                );
            }
            _ => self.flow.doubt(Code::NamespaceHandle, Effect::ALL, NameScope::All, Some("globals"), at),
        }
    }
}

fn full_tail(full: &str) -> &str {
    full.rsplit('.').next().unwrap_or(full)
}
