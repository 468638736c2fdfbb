//! What a run is for, and whether it may be run again without asking: from its facts and what was seen of it.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::facts::{Access, Channel, Code, Facts, WriteKind};

/// Who asked for a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// The system itself.
    System,
    /// A restore.
    Recovery,
    /// Anybody else.
    Work,
}

/// What was seen of a run.
#[derive(Debug, Clone, Default)]
pub struct Seen {
    /// It has its last word, and that is `completed`.
    pub completed: bool,
    /// It showed or wrote something to keep: a figure, a file.
    pub kept: bool,
    /// A later run reads what it wrote.
    pub read_later: bool,
    /// It failed, and a later run of its cell did not.
    pub retried: bool,
    /// Files that it wrote outside of the workspace.
    pub written_outside: Vec<String>,
    /// Files that it read and whose names look like a secret's.
    pub secrets: Vec<String>,
}

/// What a run is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Visibility {
    /// It belongs to the work.
    Scientific,
    /// A look at something, which nothing depends on.
    Scratch,
    /// A restore made it.
    Recovery,
    /// The system made it.
    System,
}

/// Whether a run may be repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Replay {
    /// It only changes the namespace, and everything that it does is known.
    Safe,
    /// Probably: the reasons say on what it depends.
    Conditional,
    /// It acts on something that a repetition would act on again.
    Never,
}

/// A default with its reasons.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reasoned<T> {
    /// The default.
    pub value: T,
    /// Why, in sentences.
    pub reasons: Vec<String>,
}

/// What a run is for.
#[must_use]
pub fn visibility(facts: &Facts, origin: Origin, seen: &Seen) -> Reasoned<Visibility> {
    let because = |value, reason: &str| Reasoned { value, reasons: vec![reason.to_owned()] };
    match origin {
        Origin::System => return because(Visibility::System, "the system asked for it"),
        Origin::Recovery => return because(Visibility::Recovery, "a restore asked for it"),
        Origin::Work => {}
    }
    let acts = seen.kept
        || seen.read_later
        || facts.mutation_uncertain()
        || !facts.deletes.is_empty()
        || facts
            .channels
            .iter()
            .any(|event| event.access != Access::Read && event.channel != Channel::Random);
    if acts {
        return because(Visibility::Scientific, "something is kept of it, or other cells may depend on it");
    }
    if seen.retried {
        return because(Visibility::Scratch, "it failed, and its cell ran again and completed");
    }
    if seen.completed && facts.inspects && facts.writes.is_empty() {
        return because(Visibility::Scratch, "it only looks at something");
    }
    let private = |name: &String| name.starts_with(['_', '.']);
    if seen.completed && !facts.writes.is_empty() && facts.writes.keys().all(private) {
        return because(Visibility::Scratch, "it only binds names that begin with _ or a dot");
    }
    because(Visibility::Scientific, "it is part of the work")
}

/// Whether a run may be repeated. A label is not believed by itself: whatever reaches beyond the namespace,
/// or may, makes it unsafe.
#[must_use]
pub fn replay(facts: &Facts, origin: Origin, seen: &Seen) -> Reasoned<Replay> {
    let mut never: BTreeSet<String> = BTreeSet::new();
    let mut conditions: BTreeSet<String> = BTreeSet::new();
    if origin == Origin::System {
        never.insert("the system asked for it".to_owned());
    }
    channels(facts, &mut never, &mut conditions);
    unknown(facts, &mut never, &mut conditions);
    for path in &seen.written_outside {
        never.insert(format!("it wrote {path}, outside of the workspace"));
    }
    for path in &seen.secrets {
        never.insert(format!("it read {path}, which looks like a secret"));
    }
    if facts.calls.iter().any(|call| call.callee == "host") || facts.reads.contains_key("host") {
        never.insert("it asks the host for something".to_owned());
    }
    if !seen.completed {
        conditions.insert("it did not complete".to_owned());
    }
    let value = match (never.is_empty(), conditions.is_empty()) {
        (false, _) => Replay::Never,
        (true, false) => Replay::Conditional,
        (true, true) => Replay::Safe,
    };
    let mut reasons: Vec<String> = never.into_iter().chain(conditions).collect();
    if reasons.is_empty() {
        reasons.push("it only changes the namespace, and all that it does is known".to_owned());
    }
    Reasoned { value, reasons }
}

fn channels(facts: &Facts, never: &mut BTreeSet<String>, conditions: &mut BTreeSet<String>) {
    let events = || {
        let later = facts.functions.values().chain(facts.held.values()).flat_map(|f| &f.channels);
        facts.channels.iter().map(|event| (event, true)).chain(later.map(|event| (event, false)))
    };
    let seeded =
        events().any(|(event, now)| now && event.channel == Channel::Random && event.access == Access::Set);
    for (event, now) in events() {
        let key = event.key.as_deref();
        // What a function would do is done by whoever calls it.
        let reasons = if now { &mut *never } else { &mut *conditions };
        match (event.channel, event.access) {
            (Channel::Network, _) => drop(reasons.insert("it uses the network".to_owned())),
            (Channel::Process, _) => drop(reasons.insert("it starts another program".to_owned())),
            (Channel::Host, _) => drop(reasons.insert("it asks the host for something".to_owned())),
            (Channel::Database, _) => drop(reasons.insert("it uses a database".to_owned())),
            (Channel::Input, _) => drop(reasons.insert("it waits for somebody's input".to_owned())),
            (Channel::Background, _) => {
                reasons.insert("it starts something that outlives it".to_owned());
            }
            (Channel::File, Access::Write | Access::Set) => match key {
                Some(path) if is_inside(path) => {
                    conditions.insert(format!("it writes the file {path} again"));
                }
                Some(path) => drop(reasons.insert(format!("it writes {path}, outside of the workspace"))),
                None => drop(conditions.insert("it writes a file whose name is computed".to_owned())),
            },
            (Channel::File, Access::Read) => {
                conditions.insert(match key {
                    Some(path) => format!("it needs the file {path} as it was"),
                    None => "it reads a file whose name is computed".to_owned(),
                });
            }
            (Channel::Random, Access::Read | Access::Write) if !seeded => {
                conditions.insert("it draws random numbers without a seed of its own".to_owned());
            }
            (Channel::Time, _) => drop(conditions.insert("it reads the clock".to_owned())),
            (Channel::Environment, Access::Read) => {
                let name = key.unwrap_or("whose name is computed");
                conditions.insert(format!("it reads the environment variable {name}"));
            }
            (Channel::Cwd, Access::Read) => {
                conditions.insert("it depends on the working directory".to_owned());
            }
            (Channel::Environment | Channel::Cwd, Access::Write | Access::Set)
            | (
                Channel::Random
                | Channel::Options
                | Channel::Device
                | Channel::SearchPath
                | Channel::ClassTable,
                _,
            ) => {}
        }
    }
}

/// A path that stays where the cells run.
fn is_inside(path: &str) -> bool {
    let path = path.trim_matches(['"', '\'']);
    !path.starts_with(['/', '~', '\\']) && !path.contains("..") && !path.contains("://")
}

fn unknown(facts: &Facts, never: &mut BTreeSet<String>, conditions: &mut BTreeSet<String>) {
    for reason in &facts.uncertain {
        let what = reason.what.as_deref().map(|what| format!(" ({what})")).unwrap_or_default();
        match reason.code {
            Code::ExecEval | Code::LoadSource => {
                never.insert(format!("it runs code that is not in its source{what}"));
            }
            Code::Magic | Code::Embedded => {
                never.insert(format!("it is not only code of its language{what}"));
            }
            Code::Background => {
                never.insert(format!("it starts something that outlives it{what}"));
            }
            Code::SyntaxError
            | Code::SilentSyntax
            | Code::NamespaceHandle
            | Code::StarImport
            | Code::DynamicName
            | Code::OpaqueMethod
            | Code::OpaqueCall
            | Code::DataMask
            | Code::SearchPath
            | Code::ActiveBinding
            | Code::Reload
            | Code::MonkeyPatch
            | Code::LimitExceeded => {
                conditions.insert(format!("not all that it does is known{what}"));
            }
        }
    }
    for call in &facts.opaque {
        conditions.insert(format!("what {call} does is not known"));
    }
    let opaque_change = facts.writes.values().any(|write| write.kinds.contains(&WriteKind::CallMutate));
    if opaque_change && facts.opaque.is_empty() {
        conditions.insert("a method that it calls is not known".to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::{Origin, Reasoned, Replay, Seen, Visibility, replay, visibility};
    use crate::{Language, analyse};

    fn replayed(source: &str) -> Reasoned<Replay> {
        let seen = Seen { completed: true, ..Seen::default() };
        replay(&analyse(Language::Python, source), Origin::Work, &seen)
    }

    #[test]
    fn pure_work_is_safe() {
        for source in ["x = 1", "y = [v + 1 for v in xs]", "def f(q):\n    return q * 2", "import math"] {
            assert_eq!(replayed(source).value, Replay::Safe, "{source}: {:?}", replayed(source));
        }
    }

    #[test]
    fn what_acts_outside_is_never_repeated() {
        for (source, reason) in [
            ("import subprocess\nsubprocess.run(['ls'])", "it starts another program"),
            ("import os\nos.system('ls')", "it starts another program"),
            ("import urllib.request\nurllib.request.urlopen(u)", "it uses the network"),
            ("import requests\nr = requests.get(u)", "it uses the network"),
            ("open('/tmp/out.txt', 'w').write('x')", "it writes /tmp/out.txt, outside of the workspace"),
            ("host.submit_output(x)", "it asks the host for something"),
            ("exec(payload)", "it runs code that is not in its source (exec)"),
        ] {
            let found = replayed(source);
            assert_eq!(found.value, Replay::Never, "{source}: {found:?}");
            assert!(found.reasons.iter().any(|said| said == reason), "{source}: {found:?}");
        }
    }

    #[test]
    fn what_depends_on_something_says_on_what() {
        for (source, reason) in [
            ("t = open('a.csv').read()", "it needs the file a.csv as it was"),
            ("import random\nv = random.random()", "it draws random numbers without a seed of its own"),
            ("import unheard\ny = unheard.of(x)", "what unheard.of does is not known"),
        ] {
            let found = replayed(source);
            assert_eq!(found.value, Replay::Conditional, "{source}: {found:?}");
            assert!(found.reasons.iter().any(|said| said == reason), "{source}: {found:?}");
        }
    }

    #[test]
    fn a_look_is_scratch_unless_something_is_kept_of_it() {
        let facts = analyse(Language::Python, "df.head()");
        let mut seen = Seen { completed: true, ..Seen::default() };
        let seen_as = |seen: &Seen| visibility(&facts, Origin::Work, seen).value;
        seen.kept = true;
        assert_eq!(seen_as(&seen), Visibility::Scientific);
        let facts = analyse(Language::Python, "x");
        seen.kept = false;
        assert_eq!(visibility(&facts, Origin::Work, &seen).value, Visibility::Scratch);
        assert_eq!(visibility(&facts, Origin::Recovery, &seen).value, Visibility::Recovery);
        assert_eq!(visibility(&facts, Origin::System, &seen).value, Visibility::System);
    }
}
