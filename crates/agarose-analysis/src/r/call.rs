//! Calls.

use super::Walker;
use super::kinds::{Field, Kind, Tree};
use crate::effects::{Outcome, r as library};
use crate::facts::{Access, Certainty, Channel, Via};
use crate::flow::{Arg, ENTRY, FRESH, Key, Kind as ValueKind, Value};
use crate::span::Range;
use crate::symbols::Symbol;
use crate::tree::{NONE, Node};

/// One argument of a call as written.
#[derive(Clone, Copy)]
pub(super) struct Written<'s> {
    pub(super) name: Option<&'s str>,
    /// `NONE` for an empty one.
    pub(super) value: Node,
}

impl<'s> Walker<'s> {
    pub(super) fn written(&self, tree: &Tree, call: Node) -> Vec<Written<'s>> {
        let arguments = tree.child(call, Field::Arguments);
        tree.children(arguments)
            .filter(|node| tree.kind(*node) == Kind::Argument)
            .map(|argument| {
                let name = tree.child(argument, Field::Name);
                let text = (name != NONE).then(|| self.text(name).trim_matches(['`', '"', '\'']));
                Written { name: text, value: tree.child(argument, Field::Value) }
            })
            .collect()
    }

    /// A call; `piped` is what a pipe puts before the written arguments.
    pub(super) fn call(&mut self, tree: &Tree, node: Node, piped: Option<(Value, Node)>) -> Value {
        let function = tree.child(node, Field::Function);
        let mut written = self.written(tree, node);
        let at = self.range(node);
        match self.kind(function) {
            Kind::Identifier | Kind::String => {
                let symbol = self.symbol(function);
                let name = self.flow.symbols.name(symbol).to_owned();
                if self.is_outside(symbol) {
                    // The member of a selection is a name, not a variable, also in its call form.
                    let member = if piped.is_some() { 0 } else { 1 };
                    if matches!(name.as_str(), "$" | "$<-" | "@" | "@<-")
                        && written.get(member).is_some_and(|given| self.kind(given.value) == Kind::Identifier)
                    {
                        written.remove(member);
                    }
                    if let Some(value) = self.special(tree, node, &name, None, &written, piped) {
                        return value;
                    }
                    let place = self.range(function);
                    self.read_function(symbol, place);
                    return self.library_call(tree, &name, Some(symbol), &written, piped, at);
                }
                let place = self.range(function);
                let callee = self.load_function(symbol, place);
                self.call_value(callee, &written, piped, at)
            }
            Kind::Namespace => {
                let package = self.text(tree.child(function, Field::Left));
                let right = tree.child(function, Field::Right);
                let name = if right == NONE { "" } else { self.text(right).trim_matches('`') };
                if let Some(value) = self.special(tree, node, name, Some(package), &written, piped) {
                    return value;
                }
                self.library_call(tree, name, None, &written, piped, at)
            }
            Kind::Extract => {
                // `object$method(…)`: an object with identity changes itself.
                let left = tree.child(function, Field::Left);
                let method = self.text(tree.child(function, Field::Right));
                let object = self.expr(left);
                let arguments = self.arguments(&written, piped, false);
                if *self.flow.kind(object) == ValueKind::Namespace {
                    return FRESH;
                }
                if method == "new" {
                    let made = self.flow.new_of_kind(ValueKind::Reference);
                    let root = self.flow.root(object);
                    return match root {
                        Some(root) => self.flow.with_maker(made, root),
                        None => made,
                    };
                }
                if method == "methods" {
                    return FRESH;
                }
                let certainty = if *self.flow.kind(object) == ValueKind::Reference {
                    Certainty::May
                } else {
                    Certainty::Possible
                };
                let changed = self.flow.with_kind(object, ValueKind::Reference);
                self.flow.mutate(changed, certainty, true, at);
                let method = self.flow.intern(method);
                let value = self.flow.call(object, Some(method), &arguments, at, true);
                if matches!(self.flow.symbols.name(method), "clone") {
                    return self.flow.new_of_kind(ValueKind::Reference);
                }
                value
            }
            Kind::Call => {
                // `f(a)(b)`.
                let callee = self.expr(function);
                self.call_value(callee, &written, piped, at)
            }
            _ => {
                let callee = self.expr(function);
                self.call_value(callee, &written, piped, at)
            }
        }
    }

    /// Whether the name of a function means something that the cell has not bound.
    pub(super) fn is_outside(&mut self, symbol: Symbol) -> bool {
        match self.resolve(symbol) {
            // Parameters and locals hide a function only when they hold one; the usual names of the
            // language are not reused for that.
            Some(var) if self.flow.is_global(var) => self.flow.bits(var) == ENTRY,
            Some(_) => library::is_builtin(self.flow.symbols.name(symbol)) && !self.holds_function(symbol),
            None => true,
        }
    }

    fn holds_function(&mut self, symbol: Symbol) -> bool {
        let Some(var) = self.resolve(symbol) else { return false };
        let value = self.flow.peek(var);
        matches!(self.flow.kind(value), ValueKind::Functions(_))
    }

    /// The name is looked up as a function.
    pub(super) fn read_function(&mut self, symbol: Symbol, at: Range) {
        let Some(mut var) = self.resolve(symbol) else { return };
        if !self.flow.is_global(var) {
            var = self.flow.global(symbol);
        }
        if self.masks > 0 {
            self.flow.read_as(var, at, Via::Mask, Certainty::May);
        } else {
            self.flow.read(var, at, Via::Immediate);
        }
    }

    fn load_function(&mut self, symbol: Symbol, at: Range) -> Value {
        match self.resolve(symbol) {
            Some(var) => self.flow.read(var, at, Via::Immediate),
            None => FRESH,
        }
    }

    fn call_value(
        &mut self,
        callee: Value,
        written: &[Written<'s>],
        piped: Option<(Value, Node)>,
        at: Range,
    ) -> Value {
        let arguments = self.arguments(written, piped, false);
        self.flow.call(callee, None, &arguments, at, true)
    }

    /// A function by its name, given one value.
    pub(super) fn apply_by_name(&mut self, symbol: Symbol, value: Value, at: Range) -> Value {
        if self.is_outside(symbol) {
            self.read_function(symbol, at);
            let var = self.flow.global(symbol);
            let callee = self.flow.peek(var);
            if library::is_builtin(self.flow.symbols.name(symbol)) {
                let name = self.flow.symbols.name(symbol).to_owned();
                if let Some(effect) = library::function(&name) {
                    for (channel, access) in &effect.channels {
                        self.flow.channel(*channel, *access, None, at);
                    }
                }
                return FRESH;
            }
            let arguments = [Arg { key: Key::Position(0), value }];
            return self.flow.call(callee, None, &arguments, at, true);
        }
        let callee = self.load_function(symbol, at);
        self.flow.call(callee, None, &[Arg { key: Key::Position(0), value }], at, true)
    }

    /// Evaluates arguments. An assignment in one happens only if the function asks for it.
    pub(super) fn arguments(
        &mut self,
        written: &[Written<'s>],
        piped: Option<(Value, Node)>,
        forced: bool,
    ) -> Vec<Arg> {
        let mut arguments = Vec::with_capacity(written.len() + 1);
        let mut position = 0;
        if let Some((value, _)) = piped {
            arguments.push(Arg { key: Key::Position(0), value });
            position = 1;
        }
        for argument in written {
            if argument.value == NONE {
                position += 1;
                continue;
            }
            let value =
                if !forced && self.assigns(argument.value) && self.kind(argument.value) != Kind::Function {
                    let mut fork = self.flow.fork();
                    let value = self.expr(argument.value);
                    self.flow.end_path(&mut fork);
                    self.flow.end_path(&mut fork);
                    self.flow.join(fork);
                    value
                } else {
                    self.expr(argument.value)
                };
            let key = match argument.name {
                Some(name) => Key::Keyword(self.flow.intern(name)),
                None if self.kind(argument.value) == Kind::Dots => Key::Any,
                None => {
                    position += 1;
                    Key::Position(position - 1)
                }
            };
            arguments.push(Arg { key, value });
        }
        arguments
    }

    pub(super) fn argument(&self, written: &[Written<'s>], name: &str, position: usize) -> Node {
        if let Some(found) = written.iter().find(|argument| argument.name == Some(name)) {
            return found.value;
        }
        written
            .iter()
            .filter(|argument| argument.name.is_none())
            .nth(position)
            .map_or(NONE, |argument| argument.value)
    }

    /// A function that a table may know, else anybody's.
    fn library_call(
        &mut self,
        tree: &Tree,
        name: &str,
        symbol: Option<Symbol>,
        written: &[Written<'s>],
        piped: Option<(Value, Node)>,
        at: Range,
    ) -> Value {
        // The language's own functions evaluate their arguments, but for the few that choose among them.
        let forces =
            library::is_builtin(name) && !matches!(name, "ifelse" | "Negate" | "match.arg" | "by" | "curve");
        let Some(effect) = library::function(name) else {
            let arguments = self.arguments(written, piped, forces);
            for arg in &arguments {
                self.flow.escape(arg.value, at);
            }
            if symbol.is_none() {
                self.flow.opaque.insert(name.to_owned());
                self.flow.hand_over(&arguments, at);
            }
            let Some(symbol) = symbol else { return FRESH };
            if library::is_builtin(name) {
                return FRESH;
            }
            let var = self.flow.global(symbol);
            let callee = self.flow.peek(var);
            return self.flow.call(callee, None, &arguments, at, true);
        };
        let arguments = if effect.mask {
            self.masked_arguments(tree, name, written, piped)
        } else {
            self.arguments(written, piped, effect.forces || forces)
        };
        for arg in &arguments {
            self.flow.escape(arg.value, at);
        }
        if effect.calls {
            self.flow.hand_over(&arguments, at);
            // `sapply(xs, "f")`: a function by its name in a string.
            for argument in written.iter().skip(usize::from(piped.is_none())) {
                if !matches!(argument.name, None | Some("FUN" | "f" | ".f" | "what")) {
                    continue;
                }
                if let Some(text) = self.string(argument.value)
                    && is_syntactic(text)
                    && !library::is_builtin(text)
                {
                    let symbol = self.flow.intern(text);
                    let place = self.range(argument.value);
                    self.read_by(symbol, place, Via::Text, Certainty::May);
                }
                if name == "do.call" || name.starts_with("map") {
                    break;
                }
            }
        }
        if effect.mutates != 0
            && let Some(first) = arguments.first()
        {
            let node =
                piped.map_or_else(|| written.first().map_or(NONE, |first| first.value), |(_, node)| node);
            self.change_reference(first.value, node, at);
        }
        for (channel, access) in &effect.channels {
            let key = match channel {
                Channel::File => {
                    let first = self.argument(
                        written,
                        "file",
                        usize::from(matches!(
                            name,
                            "write.csv"
                                | "write.table"
                                | "saveRDS"
                                | "writeLines"
                                | "write"
                                | "write_csv"
                                | "dump"
                                | "save"
                        )),
                    );
                    self.string(first).map(str::to_owned)
                }
                Channel::Environment => self.string(self.argument(written, "x", 0)).map(str::to_owned),
                _ => None,
            };
            self.flow.channel(*channel, *access, key, at);
        }
        match effect.outcome {
            Outcome::Reference if effect.mutates != 0 => {
                let first = arguments.first().map_or(FRESH, |arg| arg.value);
                self.flow.with_kind(first, ValueKind::Reference)
            }
            Outcome::Reference => self.flow.new_of_kind(ValueKind::Reference),
            Outcome::Same => arguments.first().map_or(FRESH, |arg| arg.value),
            Outcome::Fresh
            | Outcome::Immutable
            | Outcome::Iterator
            | Outcome::View
            | Outcome::Holds
            | Outcome::Element
            | Outcome::Unknown => {
                if matches!(
                    name,
                    "identity"
                        | "invisible"
                        | "print"
                        | "force"
                        | "suppressWarnings"
                        | "suppressMessages"
                        | "return"
                ) {
                    return arguments.first().map_or(FRESH, |arg| arg.value);
                }
                FRESH
            }
        }
    }

    /// The data is evaluated as usual, the other arguments with its columns in front.
    fn masked_arguments(
        &mut self,
        tree: &Tree,
        name: &str,
        written: &[Written<'s>],
        piped: Option<(Value, Node)>,
    ) -> Vec<Arg> {
        let _ = tree;
        let mut arguments = Vec::new();
        let mut data_seen = piped.is_some()
            || matches!(
                name,
                "aes"
                    | "aes_"
                    | "vars"
                    | "facet_wrap"
                    | "facet_grid"
                    | "across"
                    | "if_else"
                    | "case_when"
                    | "desc"
                    | "between"
                    | "n_distinct"
                    | "tibble"
                    | "crossing"
                    | "CJ"
                    | "SJ"
            );
        let formula_first = matches!(
            name,
            "lm" | "glm"
                | "nls"
                | "loess"
                | "aov"
                | "t.test"
                | "wilcox.test"
                | "xtabs"
                | "model.matrix"
                | "model.frame"
                | "aggregate"
        );
        if let Some((value, _)) = piped {
            arguments.push(Arg { key: Key::Position(0), value });
        }
        for argument in written {
            if argument.value == NONE {
                continue;
            }
            let is_data = matches!(argument.name, Some("data" | ".data" | "x" | "_data" | "df"));
            let plain = if formula_first {
                !matches!(argument.name, Some("weights" | "subset" | "offset"))
            } else {
                is_data || (argument.name.is_none() && !data_seen)
            };
            let value = if plain {
                data_seen = true;
                self.expr(argument.value)
            } else {
                self.masked(argument.value)
            };
            let key = match argument.name {
                Some(name) => Key::Keyword(self.flow.intern(name)),
                None => Key::Position(arguments.len() as u32),
            };
            arguments.push(Arg { key, value });
        }
        arguments
    }

    pub(super) fn channel(&mut self, channel: Channel, access: Access, key: Option<&str>, at: Range) {
        self.flow.channel(channel, access, key.map(str::to_owned), at);
    }
}

/// Whether a text is a name that needs no quotes.
pub(super) fn is_syntactic(text: &str) -> bool {
    let mut letters = text.chars();
    letters.next().is_some_and(|c| c.is_alphabetic() || c == '.')
        && letters.all(|c| c.is_alphanumeric() || c == '_' || c == '.')
}
