//! Functions whose arguments are not simply evaluated, or whose effect is on names.

use super::Walker;
use super::call::Written;
use super::kinds::{Field, Kind, Tree};
use crate::facts::{Access, Certainty, Channel, Code, Effect, Scope as NameScope, Via, WriteKind};
use crate::flow::{FRESH, IMMUTABLE, Kind as ValueKind, Value};
use crate::span::Range;
use crate::symbols::Symbol;
use crate::tree::{NONE, Node};

impl<'s> Walker<'s> {
    /// The call's value when the function is one of these.
    pub(super) fn special(
        &mut self,
        tree: &Tree,
        node: Node,
        name: &str,
        package: Option<&str>,
        written: &[Written<'s>],
        piped: Option<(Value, Node)>,
    ) -> Option<Value> {
        let at = self.range(node);
        let first = self.argument(written, "", 0);
        if package == Some("box") && name == "use" {
            self.box_use(tree, written, at);
            return Some(FRESH);
        }
        match name {
            "function" | "UseMethod" | "NextMethod" | "Recall" | "missing" | "nargs" | "sys.call"
            | "match.call" | "standardGeneric" | "callNextMethod" | "on.exit" | "help" | "demo"
            | "vignette" | "example" | "interactive" => {
                if name == "on.exit" {
                    // It runs when the function ends; here, where its frame still is.
                    self.flow.uncertain();
                    for argument in written {
                        self.expr(argument.value);
                    }
                    self.flow.certain();
                } else if matches!(name, "NextMethod" | "callNextMethod" | "Recall") {
                    self.arguments(written, piped, false);
                }
                Some(FRESH)
            }
            "return" => {
                let value = self.expr(first);
                if self.flow.in_function() && self.scopes.last().is_some_and(|scope| scope.function) {
                    self.flow.leave(value);
                }
                Some(value)
            }
            "stop" | "abort" | "quit" | "q" => {
                self.arguments(written, piped, true);
                self.flow.raise();
                Some(FRESH)
            }
            "quote" | "expression" | "bquote" | "substitute" | "alist" | "expr" | "exprs" | "quo"
            | "quos" | "enquo" | "enquos" | "ensym" | "sym_" | "parse_expr" => {
                if name == "parse_expr" {
                    return None;
                }
                for argument in written {
                    self.quoted(tree, argument.value);
                }
                // `substitute(x, list(…))`, `bquote(x, where)`: the rest is evaluated.
                if matches!(name, "substitute" | "bquote") {
                    for argument in written.iter().skip(1) {
                        self.expr(argument.value);
                    }
                }
                Some(IMMUTABLE)
            }
            "local" => {
                let env = self.argument(written, "envir", 1);
                if env != NONE {
                    let value = self.expr(env);
                    self.change_environment(value, at);
                }
                self.push_block(first);
                let value = self.expr(first);
                self.scopes.pop();
                Some(value)
            }
            "with" | "within" | "with.default" if piped.is_none() => {
                let data = self.argument(written, "data", 0);
                self.expr(data);
                let body = self.argument(written, "expr", 1);
                self.push_block(body);
                self.masks += 1;
                self.expr(body);
                self.masks -= 1;
                self.scopes.pop();
                Some(FRESH)
            }
            "replicate" => {
                // The expression becomes the body of a function.
                for (position, argument) in written.iter().enumerate() {
                    if position == 0 || argument.value == NONE {
                        self.expr(argument.value);
                        continue;
                    }
                    self.push_block(argument.value);
                    self.expr(argument.value);
                    self.scopes.pop();
                }
                Some(FRESH)
            }
            "binomial" | "poisson" | "Gamma" | "gaussian" | "quasibinomial" | "quasipoisson" | "quasi"
            | "inverse.gaussian"
                if self.kind(self.argument(written, "link", 0)) == Kind::Identifier =>
            {
                // The link's name is taken as written.
                Some(FRESH)
            }
            "switch" => {
                let mut values = FRESH;
                for (position, argument) in written.iter().enumerate() {
                    if position == 0 {
                        self.expr(argument.value);
                    } else if argument.value != NONE {
                        let mut fork = self.flow.fork();
                        let value = self.expr(argument.value);
                        values = self.flow.union(values, value);
                        self.flow.end_path(&mut fork);
                        self.flow.end_path(&mut fork);
                        self.flow.join(fork);
                    }
                }
                Some(values)
            }
            "try" | "tryCatch" | "withCallingHandlers" | "try_fetch" | "possibly_" => {
                self.try_call(written);
                Some(FRESH)
            }
            "assign"
            | "delayedAssign"
            | "makeActiveBinding"
            | "assignInNamespace"
            | "assignInMyNamespace" => {
                self.assign_by_name(name, written, at);
                Some(FRESH)
            }
            "rm" | "remove" => {
                self.remove(tree, written, at);
                Some(FRESH)
            }
            "get" | "get0" | "mget" | "exists" | "match.fun" | "dynGet" | "getElement_"
            | "existsFunction" => self.read_by_text(name, written, at),
            "do.call" => {
                if let Some(text) = self.string(first) {
                    let symbol = self.flow.intern(text);
                    let place = self.range(first);
                    self.read_by(symbol, place, Via::Text, Certainty::Must);
                    for argument in written.iter().skip(1) {
                        self.expr(argument.value);
                    }
                    if self.masks == 0 {
                        let var = self.flow.global(symbol);
                        let callee = self.flow.peek(var);
                        return Some(self.flow.call(callee, None, &[], at, true));
                    }
                    return Some(FRESH);
                }
                if self.kind(first) == Kind::Identifier {
                    let callee = self.expr(first);
                    for argument in written.iter().skip(1) {
                        self.expr(argument.value);
                    }
                    return Some(self.flow.call(callee, None, &[], at, true));
                }
                None
            }
            "eval" | "evalq" | "eval_tidy" | "eval.parent" => {
                self.eval(tree, name, written, at);
                Some(FRESH)
            }
            "source" | "sys.source" | "load" | "attach" | "detach" | "data" | "list2env" | "library"
            | "require" | "requireNamespace" | "loadNamespace" | "import" | "attachNamespace"
            | "unloadNamespace" | "p_load" => self.load_names(tree, name, written, at),
            "globalenv" | "topenv" | "sys.frames" => Some(self.flow.of_kind(ValueKind::Namespace)),
            "environment" | "parent.frame" | "as.environment" | "pos.to.env" | "parent.env" | "sys.frame"
            | "current_env" | "caller_env" | "global_env" | "rlang::global_env" => {
                let environment_of = name == "environment" && !written.is_empty();
                let number = self.kind(first);
                for argument in written {
                    self.expr(argument.value);
                }
                let global = match name {
                    "environment" | "current_env" => !environment_of && !self.flow.in_function(),
                    "parent.frame" | "caller_env" | "sys.frame" => true,
                    "as.environment" | "pos.to.env" => {
                        matches!(number, Kind::Float | Kind::Integer) && self.text(first).starts_with('1')
                            || self.string(first) == Some(".GlobalEnv")
                    }
                    "global_env" => true,
                    _ => false,
                };
                Some(if global {
                    self.flow.of_kind(ValueKind::Namespace)
                } else {
                    self.flow.new_of_kind(ValueKind::Reference)
                })
            }
            "ls" | "objects" | "ls.str" | "sys.function" if name != "sys.function" => {
                if written.is_empty() && self.scopes.len() == 1 {
                    let effect = Effect::READS;
                    self.flow.doubt(Code::NamespaceHandle, effect, NameScope::All, Some(name), at);
                }
                for argument in written {
                    self.expr(argument.value);
                }
                Some(FRESH)
            }
            "save.image" => {
                self.flow.doubt(Code::NamespaceHandle, Effect::READS, NameScope::All, Some(name), at);
                self.channel(Channel::File, Access::Write, Some(".RData"), at);
                Some(FRESH)
            }
            "save" | "dump" => {
                for argument in written {
                    if matches!(argument.name, None | Some("list")) {
                        if let Some(text) = self.string(argument.value) {
                            let symbol = self.flow.intern(text);
                            let place = self.range(argument.value);
                            self.read_by(symbol, place, Via::Text, Certainty::Must);
                            continue;
                        }
                        self.each_string(tree, argument.value, |walker, symbol, place| {
                            walker.read_by(symbol, place, Via::Text, Certainty::Must);
                        });
                    }
                    self.expr(argument.value);
                }
                let file = self.argument(written, "file", usize::MAX);
                let key = self.string(file);
                self.channel(Channel::File, Access::Write, key, at);
                Some(FRESH)
            }
            "setClass" | "setGeneric" | "setMethod" | "setReplaceMethod" | "setValidity" | "setRefClass"
            | "R6Class" | "setClassUnion" | "setAs" | "setIs" => {
                Some(self.define_class(tree, name, written, at))
            }
            "lockBinding" | "unlockBinding" | "lockEnvironment" | "makeLocked_" => {
                for argument in written.iter().skip(1) {
                    self.expr(argument.value);
                }
                let symbol = match self.kind(first) {
                    Kind::String => Some(self.symbol(first)),
                    _ => {
                        self.expr(first);
                        None
                    }
                };
                if let Some(symbol) = symbol {
                    let var = self.flow.global(symbol);
                    self.flow.touch(var, Certainty::Must, WriteKind::Hidden, false, at);
                }
                Some(FRESH)
            }
            "glue" | "glue_data" | "str_glue" | "cli_text" | "cli_alert_info" | "cli_alert_success"
            | "cli_abort" | "str_interp" | "f" => {
                if name == "f" {
                    return None;
                }
                let symbol = self.flow.symbols.intern_owned(name.to_owned());
                if package.is_none() {
                    let place = self.range(tree.child(node, Field::Function));
                    self.read_function(symbol, place);
                }
                self.arguments(written, piped, false);
                for argument in written {
                    if let Some((text, start)) = self.string_at(argument.value) {
                        self.template(text, start);
                    }
                }
                Some(FRESH)
            }
            ":=" | "let" => {
                for argument in written {
                    self.expr(argument.value);
                }
                Some(FRESH)
            }
            "UQ" | "UQS" | "inject" => None,
            "later" | "addTaskCallback" | "reg.finalizer" | "future" => {
                self.flow.doubt(Code::Background, Effect::default(), NameScope::All, Some(name), at);
                None
            }
            "trace" | "untrace" | "registerS3method" | "dyn.load" | "reload" => {
                if name == "dyn.load" || name == "reload" {
                    self.flow.doubt(Code::Reload, Effect::ALL, NameScope::All, Some(name), at);
                }
                None
            }
            "rename" | "select" | "mutate" if false => None,
            _ => None,
        }
    }

    /// Only what is unquoted in it is evaluated.
    fn quoted(&mut self, tree: &Tree, node: Node) {
        if node == NONE {
            return;
        }
        let end = tree.after(node);
        let mut at = node;
        while at < end {
            let unquoted = match tree.kind(at) {
                Kind::Call => {
                    let name = self.text(tree.child(at, Field::Function));
                    matches!(name, "." | ".." | "UQ" | "UQS")
                }
                Kind::Unary => self.text(at).starts_with("!!"),
                _ => false,
            };
            if unquoted {
                if tree.kind(at) == Kind::Call {
                    for argument in self.written(tree, at) {
                        self.expr(argument.value);
                    }
                } else {
                    self.expr(at);
                }
                at = tree.after(at);
            } else {
                at += 1;
            }
        }
    }

    fn try_call(&mut self, written: &[Written<'s>]) {
        let expression = self.argument(written, "expr", 0);
        let mut fork = self.flow.fork();
        self.flow.watch();
        self.expr(expression);
        let raised = self.flow.unwatch();
        self.flow.end_path(&mut fork);
        self.flow.revive();
        self.flow.disturb(&raised);
        self.flow.end_path(&mut fork);
        self.flow.join(fork);
        for argument in written.iter().filter(|argument| argument.value != expression) {
            let value = self.expr(argument.value);
            if argument.value != NONE {
                let place = self.range(argument.value);
                self.flow.escape(value, place);
            }
        }
    }

    /// Values of an environment that is known to be one are changed.
    fn change_environment(&mut self, value: Value, at: Range) {
        let reference = self.flow.with_kind(value, ValueKind::Reference);
        self.flow.mutate(reference, Certainty::Must, false, at);
    }

    fn assign_by_name(&mut self, name: &str, written: &[Written<'s>], at: Range) {
        let target = self.argument(written, if name == "makeActiveBinding" { "sym" } else { "x" }, 0);
        let value_node = self.argument(written, if name == "makeActiveBinding" { "fun" } else { "value" }, 1);
        let envir = written
            .iter()
            .find(|argument| {
                matches!(argument.name, Some("envir" | "pos" | "env" | "assign.env" | "eval.env"))
            })
            .map_or_else(
                || {
                    written
                        .iter()
                        .filter(|argument| argument.name.is_none())
                        .nth(2)
                        .map_or(NONE, |argument| argument.value)
                },
                |argument| argument.value,
            );
        let value = self.expr(value_node);
        let inherits = written.iter().any(|argument| argument.name == Some("inherits"));
        let mut environment = None;
        if envir != NONE {
            let given = self.expr(envir);
            if *self.flow.kind(given) != ValueKind::Namespace {
                self.change_environment(given, at);
                if self.kind(target) != Kind::String {
                    self.expr(target);
                }
                return;
            }
            if self.kind(envir) == Kind::Identifier && self.text(envir) != ".GlobalEnv" {
                let none = Effect::default();
                self.flow.doubt(Code::NamespaceHandle, none, NameScope::All, Some(self.text(envir)), at);
            }
            environment = Some(given);
        }
        if name == "makeActiveBinding" {
            let effect = Effect::default();
            self.flow.doubt(Code::ActiveBinding, effect, NameScope::All, self.string(target), at);
            self.flow.escape(value, at);
        }
        match self.string(target) {
            Some(text) => {
                let symbol = self.flow.intern(text);
                let var = if environment.is_some() || inherits {
                    self.flow.global(symbol)
                } else {
                    self.own(symbol)
                };
                self.flow.write(var, value, WriteKind::Bind, at);
            }
            None => {
                self.expr(target);
                if environment.is_some() || !self.flow.in_function() {
                    let scope = self.pattern(target);
                    self.flow.doubt(Code::DynamicName, Effect::WRITES, scope, Some(name), at);
                }
            }
        }
    }

    /// `paste0("x", i)` can only be `x…`.
    fn pattern(&self, node: Node) -> NameScope {
        if self.kind(node) == Kind::Call {
            let tree = &self.tree;
            let called = self.text(tree.child(node, Field::Function));
            if called == "paste0" {
                let written = self.written(tree, node);
                if let Some(prefix) = written.first().and_then(|first| self.string(first.value)) {
                    return NameScope::Pattern(format!("{prefix}*"));
                }
            }
        }
        NameScope::All
    }

    fn each_string(
        &mut self,
        tree: &Tree,
        node: Node,
        mut each: impl FnMut(&mut Self, Symbol, Range),
    ) -> bool {
        match self.kind(node) {
            Kind::String => {
                let symbol = self.symbol(node);
                let place = self.range(node);
                each(self, symbol, place);
                true
            }
            Kind::Call if self.text(tree.child(node, Field::Function)) == "c" => {
                let written = self.written(tree, node);
                let all = written.iter().all(|argument| self.string(argument.value).is_some());
                for argument in written {
                    if self.kind(argument.value) == Kind::String {
                        let symbol = self.symbol(argument.value);
                        let place = self.range(argument.value);
                        each(self, symbol, place);
                    }
                }
                all
            }
            _ => false,
        }
    }

    fn remove(&mut self, tree: &Tree, written: &[Written<'s>], at: Range) {
        let envir = written
            .iter()
            .find(|argument| matches!(argument.name, Some("envir" | "pos")))
            .map_or(NONE, |argument| argument.value);
        let mut global = !self.flow.in_function();
        if envir != NONE {
            let given = self.expr(envir);
            if *self.flow.kind(given) != ValueKind::Namespace {
                self.change_environment(given, at);
                return;
            }
            global = true;
        }
        let drop = |walker: &mut Self, symbol: Symbol, place: Range| {
            let scope = walker.scopes.len().saturating_sub(1);
            if (global && envir != NONE) || scope == 0 {
                let var = walker.flow.global(symbol);
                walker.flow.delete(var, place);
            } else if let Some(var) = walker.scopes[scope].names.get(&symbol).copied() {
                // What the local hid is seen again. A name that is not local is not removed at all.
                walker.flow.forget(var);
            }
        };
        for argument in written {
            match argument.name {
                None => match self.kind(argument.value) {
                    Kind::Identifier | Kind::String => {
                        let symbol = self.symbol(argument.value);
                        let place = self.range(argument.value);
                        drop(self, symbol, place);
                    }
                    _ => self.flow.doubt(Code::DynamicName, Effect::DELETES, NameScope::All, Some("rm"), at),
                },
                Some("list") => {
                    if !self.each_string(tree, argument.value, drop) {
                        let listing = self.kind(argument.value) == Kind::Call
                            && self.text(tree.child(argument.value, Field::Function)) == "ls";
                        if !listing {
                            self.expr(argument.value);
                        }
                        if global {
                            self.flow.doubt(
                                Code::DynamicName,
                                Effect::DELETES,
                                NameScope::All,
                                Some("rm"),
                                at,
                            );
                        }
                    }
                }
                Some(_) => {}
            }
        }
    }

    fn read_by_text(&mut self, name: &str, written: &[Written<'s>], at: Range) -> Option<Value> {
        let target = self.argument(written, if name == "match.fun" { "FUN" } else { "x" }, 0);
        let envir = written
            .iter()
            .find(|argument| matches!(argument.name, Some("envir" | "pos" | "where")))
            .map_or(NONE, |argument| argument.value);
        let mut elsewhere = false;
        for argument in written.iter().filter(|argument| argument.value != target) {
            let value = self.expr(argument.value);
            if argument.value == envir && *self.flow.kind(value) != ValueKind::Namespace {
                elsewhere = true;
            }
        }
        match self.string(target) {
            Some(_) if elsewhere => Some(FRESH),
            Some(text) => {
                let symbol = self.flow.intern(text);
                let place = self.range(target);
                Some(self.read_by(symbol, place, Via::Text, Certainty::Must))
            }
            None => {
                let tree = std::rc::Rc::clone(&self.tree);
                let all = self.each_string(&tree, target, |walker, symbol, place| {
                    walker.read_by(symbol, place, Via::Text, Certainty::Must);
                });
                if !all {
                    let value = self.expr(target);
                    if name == "match.fun" {
                        return Some(value);
                    }
                    if !elsewhere {
                        let scope = self.pattern(target);
                        self.flow.doubt(Code::DynamicName, Effect::READS, scope, Some(name), at);
                    }
                }
                Some(FRESH)
            }
        }
    }

    fn eval(&mut self, tree: &Tree, name: &str, written: &[Written<'s>], at: Range) {
        let expression = self.argument(written, "expr", 0);
        let envir = self.argument(written, "envir", 1);
        let mut elsewhere = false;
        for argument in written.iter().filter(|argument| argument.value != expression) {
            let value = self.expr(argument.value);
            if argument.value == envir && *self.flow.kind(value) != ValueKind::Namespace {
                elsewhere = true;
                let environment =
                    !matches!(self.kind(envir), Kind::Call) || *self.flow.kind(value) == ValueKind::Reference;
                if environment {
                    self.change_environment(value, at);
                }
            }
        }
        let mut body = if name == "evalq" { expression } else { NONE };
        let mut snippet = None;
        if name != "evalq" && self.kind(expression) == Kind::Call {
            let inner = self.text(tree.child(expression, Field::Function));
            let inside = self.written(tree, expression);
            match inner {
                "quote" | "expression" => body = inside.first().map_or(NONE, |argument| argument.value),
                "parse" | "str2lang" | "str2expression" => {
                    let text = self.argument(&inside, "text", if inner == "parse" { usize::MAX } else { 0 });
                    snippet = self.string_at(text);
                    if snippet.is_none() {
                        self.expr(expression);
                    }
                }
                _ => {}
            }
        }
        if body != NONE || snippet.is_some() {
            if elsewhere {
                self.push_block(if body == NONE { expression } else { body });
                self.masks += 1;
            }
            let mut known = true;
            match snippet {
                Some((text, start)) => known = self.snippet(text, start),
                None => {
                    self.expr(body);
                }
            }
            if elsewhere {
                self.masks -= 1;
                self.scopes.pop();
            }
            if known {
                return;
            }
        } else if !(name == "eval" && matches!(self.kind(expression), Kind::Call) && snippet.is_some()) {
            self.expr(expression);
        }
        let effect = if elsewhere { Effect::READS } else { Effect::ALL };
        self.flow.doubt(Code::ExecEval, effect, NameScope::All, Some(name), at);
    }

    fn load_names(&mut self, tree: &Tree, name: &str, written: &[Written<'s>], at: Range) -> Option<Value> {
        let first = self.argument(written, "", 0);
        match name {
            "library" | "require" | "requireNamespace" | "loadNamespace" | "attachNamespace" | "p_load" => {
                let character = written.iter().any(|argument| {
                    argument.name == Some("character.only")
                        && !matches!(self.kind(argument.value), Kind::False)
                });
                let package = self.argument(written, "package", 0);
                if character || !matches!(self.kind(package), Kind::Identifier | Kind::String) {
                    self.expr(package);
                } else if package != NONE {
                    let text = self.text(package).trim_matches(['"', '\'', '`']).to_owned();
                    self.flow.imports.push((text, None, at));
                }
                if !matches!(name, "requireNamespace" | "loadNamespace") {
                    let key = (!character).then(|| self.text(package).trim_matches(['"', '\'', '`']));
                    self.channel(Channel::SearchPath, Access::Write, key, at);
                }
                Some(IMMUTABLE)
            }
            "import" => None,
            "attach" | "detach" | "unloadNamespace" => {
                if name == "attach" {
                    self.expr(first);
                }
                self.channel(Channel::SearchPath, Access::Write, None, at);
                self.flow.doubt(Code::SearchPath, Effect::READS, NameScope::All, Some(name), at);
                Some(FRESH)
            }
            "source" | "sys.source" => {
                let local = written
                    .iter()
                    .find(|argument| matches!(argument.name, Some("local" | "envir")))
                    .map_or(NONE, |argument| argument.value);
                let mut elsewhere = false;
                if local != NONE {
                    let value = self.expr(local);
                    elsewhere = match self.kind(local) {
                        Kind::False => false,
                        Kind::True => self.flow.in_function(),
                        _ => *self.flow.kind(value) != ValueKind::Namespace,
                    };
                    if elsewhere && *self.flow.kind(value) != ValueKind::Immutable {
                        self.change_environment(value, at);
                    }
                }
                self.expr(first);
                let key = self.string(first);
                self.channel(Channel::File, Access::Read, key, at);
                let effect = if elsewhere { Effect::default() } else { Effect::ALL };
                self.flow.doubt(Code::LoadSource, effect, NameScope::All, Some(name), at);
                Some(FRESH)
            }
            "load" => {
                let file = self.argument(written, "file", 0);
                self.expr(file);
                let key = self.string(file);
                self.channel(Channel::File, Access::Read, key, at);
                let envir = self.argument(written, "envir", 1);
                if envir != NONE {
                    let value = self.expr(envir);
                    if *self.flow.kind(value) != ValueKind::Namespace {
                        self.change_environment(value, at);
                        return Some(FRESH);
                    }
                }
                self.flow.doubt(Code::LoadSource, Effect::WRITES, NameScope::All, Some(name), at);
                Some(FRESH)
            }
            "data" => {
                for argument in written {
                    match argument.name {
                        None if matches!(self.kind(argument.value), Kind::Identifier | Kind::String) => {
                            let symbol = self.symbol(argument.value);
                            let place = self.range(argument.value);
                            let var = self.own(symbol);
                            self.flow.write(var, FRESH, WriteKind::Bind, place);
                        }
                        Some("list") => {
                            let exact = self.each_string(tree, argument.value, |walker, symbol, place| {
                                let var = walker.flow.global(symbol);
                                walker.flow.write(var, FRESH, WriteKind::Bind, place);
                            });
                            if !exact {
                                self.expr(argument.value);
                                self.flow.doubt(
                                    Code::DynamicName,
                                    Effect::WRITES,
                                    NameScope::All,
                                    Some(name),
                                    at,
                                );
                            }
                        }
                        _ => {}
                    }
                }
                Some(FRESH)
            }
            _ => {
                // list2env
                let list = self.argument(written, "x", 0);
                self.expr(list);
                let envir = self.argument(written, "envir", 1);
                if envir == NONE {
                    return Some(self.flow.new_of_kind(ValueKind::Reference));
                }
                let value = self.expr(envir);
                if *self.flow.kind(value) == ValueKind::Namespace {
                    self.flow.doubt(Code::DynamicName, Effect::WRITES, NameScope::All, Some(name), at);
                } else {
                    self.change_environment(value, at);
                }
                Some(value)
            }
        }
    }

    fn define_class(&mut self, tree: &Tree, name: &str, written: &[Written<'s>], at: Range) -> Value {
        self.channel(Channel::ClassTable, Access::Write, None, at);
        let first = written.first().map_or(NONE, |argument| argument.value);
        if let Some(class) = self.string(first) {
            match name {
                "setClass" | "setClassUnion" => {
                    let symbol = self.flow.symbols.intern_owned(format!(".__C__{class}"));
                    let var = self.flow.global(symbol);
                    let place = self.range(first);
                    self.flow.write(var, IMMUTABLE, WriteKind::Bind, place);
                }
                "setGeneric" => {
                    let symbol = self.flow.intern(class);
                    let var = self.flow.global(symbol);
                    let place = self.range(first);
                    self.flow.write(var, IMMUTABLE, WriteKind::Bind, place);
                }
                _ => {}
            }
        }
        if !matches!(name, "R6Class" | "setRefClass") {
            for argument in written.iter().skip(1) {
                let value = self.expr(argument.value);
                if argument.value != NONE {
                    let place = self.range(argument.value);
                    let _ = (value, place);
                }
            }
            return FRESH;
        }
        // Methods see the object: R6 by `self`, reference classes by the bare names of fields.
        let mut provided: Vec<Symbol> = [
            "self",
            "private",
            "super",
            ".self",
            "callSuper",
            "initFields",
            "methods",
            "copy",
            "field",
            "show",
            "active",
        ]
        .iter()
        .map(|name| self.flow.symbols.intern(name))
        .collect();
        if name == "setRefClass" {
            for argument in written {
                if argument.value != NONE
                    && matches!(argument.name, Some("fields" | "methods"))
                    && self.kind(argument.value) == Kind::Call
                {
                    for field in self.written(tree, argument.value) {
                        if let Some(name) = field.name {
                            provided.push(self.flow.intern(name));
                        } else if self.kind(field.value) == Kind::String {
                            let symbol = self.symbol(field.value);
                            provided.push(symbol);
                        }
                    }
                }
            }
        }
        for argument in written.iter().skip(1) {
            if argument.value == NONE {
                continue;
            }
            if self.kind(argument.value) == Kind::Call {
                for member in self.written(tree, argument.value) {
                    if self.kind(member.value) == Kind::Function {
                        // What its methods read is read when somebody calls them.
                        self.function(tree, member.value, &provided, name == "setRefClass");
                    } else {
                        self.expr(member.value);
                    }
                }
            } else {
                self.expr(argument.value);
            }
        }
        self.flow.new_of_kind(ValueKind::Reference)
    }

    fn box_use(&mut self, tree: &Tree, written: &[Written<'s>], at: Range) {
        self.channel(Channel::SearchPath, Access::Write, None, at);
        for argument in written {
            match self.kind(argument.value) {
                Kind::Subset => {
                    for name in self.written(tree, argument.value) {
                        let bound = match name.name {
                            Some(alias) => Some(self.flow.intern(alias)),
                            None if self.kind(name.value) == Kind::Identifier => {
                                Some(self.symbol(name.value))
                            }
                            None => None,
                        };
                        match bound {
                            Some(symbol) => {
                                let var = self.flow.global(symbol);
                                self.flow.write(var, IMMUTABLE, WriteKind::Import, at);
                            }
                            None => {
                                self.flow.doubt(Code::StarImport, Effect::WRITES, NameScope::All, None, at)
                            }
                        }
                    }
                }
                Kind::Identifier => {
                    let symbol = match argument.name {
                        Some(alias) => self.flow.intern(alias),
                        None => self.symbol(argument.value),
                    };
                    let var = self.flow.global(symbol);
                    self.flow.write(var, IMMUTABLE, WriteKind::Import, at);
                }
                Kind::Binary => {
                    // `pkg/module` binds `module`.
                    let right = tree.child(argument.value, Field::Right);
                    if self.kind(right) == Kind::Identifier {
                        let symbol = self.symbol(right);
                        let var = self.flow.global(symbol);
                        self.flow.write(var, IMMUTABLE, WriteKind::Import, at);
                    }
                }
                _ => {}
            }
        }
    }

    /// `{code}` in a template is evaluated.
    fn template(&mut self, text: &'s str, start: u32) {
        let mut from = 0;
        let bytes = text.as_bytes();
        let mut budget = 64;
        while let Some(open) = text.get(from..).and_then(|rest| rest.find('{')) {
            let open = from + open;
            if bytes.get(open + 1) == Some(&b'{') {
                from = open + 2;
                continue;
            }
            let mut depth = 0;
            let mut close = None;
            for (at, byte) in bytes.iter().enumerate().skip(open) {
                match byte {
                    b'{' => depth += 1,
                    b'}' => {
                        depth -= 1;
                        if depth == 0 {
                            close = Some(at);
                            break;
                        }
                    }
                    _ => {}
                }
            }
            budget -= 1;
            let Some(close) = close else { return };
            if budget == 0 {
                return;
            }
            if let Some(code) = text.get(open + 1..close) {
                self.snippet(code, start + open as u32 + 1);
            }
            from = close + 1;
        }
    }
}
