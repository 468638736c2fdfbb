//! Calls of what other cells defined, resolved where the session is known.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::world::{Effects, World};
use crate::effects::python as library;
use crate::facts::{Argument, Call, Certainty, Facts, Function, Language, Shape, WriteKind};

/// How deep calls of calls are followed; beyond, a callee counts as unknown.
const MAX_DEPTH: u32 = 24;
/// Functions looked at for one run.
const MAX_STEPS: u32 = 4096;

struct Resolver<'w> {
    world: &'w mut World,
    effects: &'w mut Effects,
    index: u32,
    steps: u32,
    /// Calls being followed, against recursion.
    open: BTreeSet<(String, Option<String>)>,
    language: Language,
    /// Functions that the run itself defines come before those of the session.
    own: &'w Facts,
}

impl World {
    /// What the calls of a run read and change through functions of the session.
    pub(super) fn call_effects(&mut self, facts: &Facts, effects: &mut Effects, index: u32) {
        let mut resolver = Resolver {
            world: self,
            effects,
            index,
            steps: 0,
            open: BTreeSet::new(),
            language: facts.language,
            own: facts,
        };
        for call in &facts.calls {
            resolver.call(call, &[], 0);
        }
        // Changes in place by callees are listed as possible; what the callees do not do is not done.
        for (name, write) in &facts.writes {
            let callee = write.kinds.contains(&WriteKind::CalleeMutate);
            if callee && facts.calls.is_empty() {
                let number = self.number(name);
                self.mutated(number, Certainty::Possible, true, index, effects);
            }
        }
    }
}

impl Resolver<'_> {
    /// `arguments` are the names behind the parameters of the function that calls.
    fn call(&mut self, call: &Call, around: &[Argument], depth: u32) {
        self.steps += 1;
        let arguments: Vec<Argument> = call
            .arguments
            .iter()
            .flat_map(|argument| match argument.parameter {
                None => vec![argument.clone()],
                Some(of) => around
                    .iter()
                    .filter(|outer| {
                        outer.position == Some(of) || (outer.position.is_none() && outer.keyword.is_none())
                    })
                    .map(|outer| Argument {
                        position: argument.position,
                        keyword: argument.keyword.clone(),
                        name: outer.name.clone(),
                        parameter: None,
                    })
                    .collect(),
            })
            .collect();
        let key = (call.callee.clone(), call.method.clone());
        if depth > MAX_DEPTH || self.steps > MAX_STEPS {
            self.unknown(call, &arguments);
            return;
        }
        let number = self.world.number(&call.callee);
        self.effects.reads.insert(number);
        if !self.open.insert(key.clone()) {
            return;
        }
        let bound = self.world.names[number as usize].bound.clone();
        let own = if depth > 0 { self.own.functions.get(&call.callee) } else { None };
        match &call.method {
            None => {
                let functions: Vec<Arc<Function>> = match own {
                    Some(function) => vec![Arc::new(function.clone())],
                    None => bound.functions.clone(),
                };
                if functions.is_empty() {
                    let keeps_state = !bound.makers.is_empty();
                    for maker in &bound.makers {
                        // Something that a call of the session returned, now called: its inner functions.
                        self.apply(maker, &arguments, 0, depth, true);
                        if maker.stateful {
                            self.world.mutated(number, Certainty::May, true, self.index, self.effects);
                        }
                        if let Some(call) = maker.methods.get("__call__") {
                            self.apply(call, &arguments, 1, depth, false);
                            self.changes_self(call, number);
                        }
                    }
                    if !keeps_state {
                        match &bound.shape {
                            Shape::Module(module) => self.library(&module.clone(), &arguments),
                            _ => self.unknown(call, &arguments),
                        }
                    }
                }
                for function in functions {
                    let class = !function.methods.is_empty();
                    if class {
                        if let Some(init) = function.methods.get("__init__") {
                            self.apply(init, &arguments, 1, depth, false);
                        }
                        if function.methods.contains_key("*") {
                            self.unknown_arguments(&arguments);
                        }
                    } else {
                        self.apply(&function, &arguments, 0, depth, false);
                    }
                }
            }
            Some(method) => {
                let mut known = false;
                for maker in bound.makers.iter().chain(&bound.functions) {
                    if let Some(function) = maker.methods.get(method) {
                        known = true;
                        self.apply(function, &arguments, 1, depth, false);
                        self.changes_self(function, number);
                    }
                }
                if !known {
                    if let Shape::Module(module) = &bound.shape {
                        let full = format!("{module}.{method}");
                        self.library(&full, &arguments);
                    } else {
                        for maker in &bound.makers {
                            if maker.methods.is_empty() {
                                self.apply(maker, &arguments, 0, depth, true);
                            }
                            for function in maker.methods.values() {
                                self.apply(function, &arguments, 1, depth, true);
                            }
                        }
                        if self.language == Language::Python {
                            self.world.mutated(number, Certainty::Possible, true, self.index, self.effects);
                        } else if bound.shape == Shape::Reference {
                            self.world.mutated(number, Certainty::May, true, self.index, self.effects);
                        }
                        self.unknown_arguments(&arguments);
                    }
                }
            }
        }
        self.open.remove(&key);
    }

    fn changes_self(&mut self, method: &Function, number: u32) {
        if method.mutates.contains(&0) {
            self.world.mutated(number, Certainty::May, true, self.index, self.effects);
        }
    }

    /// A function's summary. `shift` is 1 for methods, whose first parameter is the receiver.
    fn apply(&mut self, function: &Function, arguments: &[Argument], shift: u32, depth: u32, perhaps: bool) {
        for name in function.reads.keys() {
            let number = self.world.number(name);
            self.effects.reads.insert(number);
        }
        for (name, certainty) in function.writes.iter().chain(&function.deletes) {
            let number = self.world.number(name);
            let certainty = if perhaps { Certainty::Possible } else { (*certainty).min(Certainty::May) };
            self.world.mutated(number, certainty, true, self.index, self.effects);
            self.effects.change(number, self.index, certainty, false);
        }
        let shifted: Vec<Argument> = arguments
            .iter()
            .map(|argument| Argument {
                position: argument
                    .position
                    .map(|n| n + shift)
                    .or_else(|| position_of(function, argument.keyword.as_deref())),
                keyword: None,
                name: argument.name.clone(),
                parameter: None,
            })
            .collect();
        for argument in &shifted {
            let hit = argument.position.is_none_or(|n| function.mutates.contains(&n.min(63)));
            if hit && !function.mutates.is_empty() {
                self.argument(argument, if perhaps { Certainty::Possible } else { Certainty::May });
            }
        }
        for call in &function.calls {
            self.call(call, &shifted, depth + 1);
        }
    }

    fn argument(&mut self, argument: &Argument, certainty: Certainty) {
        if argument.name.is_empty() {
            return;
        }
        let number = self.world.number(&argument.name);
        if self.language == Language::R && self.world.names[number as usize].bound.shape != Shape::Reference {
            return;
        }
        self.world.mutated(number, certainty, true, self.index, self.effects);
    }

    fn library(&mut self, full: &str, arguments: &[Argument]) {
        let Some(effect) = library::function(full) else {
            let class = full.rsplit('.').next().is_some_and(|tail| tail.starts_with(char::is_uppercase));
            if !class {
                self.unknown_arguments(arguments);
            }
            return;
        };
        for argument in arguments {
            let hit = match argument.position {
                Some(n) => effect.mutates & (1 << n.min(15)) != 0,
                None => effect.out && argument.keyword.as_deref() == Some("out"),
            };
            if hit {
                self.argument(argument, Certainty::Must);
            }
        }
    }

    fn unknown(&mut self, call: &Call, arguments: &[Argument]) {
        if self.language == Language::Python && call.method.is_some() {
            let number = self.world.number(&call.callee);
            self.world.mutated(number, Certainty::Possible, true, self.index, self.effects);
        }
        self.unknown_arguments(arguments);
    }

    fn unknown_arguments(&mut self, arguments: &[Argument]) {
        for argument in arguments {
            self.argument(argument, Certainty::Possible);
        }
    }
}

fn position_of(function: &Function, keyword: Option<&str>) -> Option<u32> {
    let keyword = keyword?;
    function.parameters.iter().position(|name| name == keyword).map(|n| n as u32)
}
