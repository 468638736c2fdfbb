//! The specification in `specs/`: every fenced cell is analysed, every fenced session is folded, and the
//! quoted line after it says what comes out.
//!
//! A cell's line names facts by kind: `reads` (while it runs), `later` (by a function that it defines),
//! `writes`, `deletes`, `uncertain` (codes of reasons with an effect). `?` marks what happens on some path,
//! `~` what is only possible. Names of the language itself are left out.
//!
//! A session's fence is `runs LANGUAGE [current_state]`; a line `@cell` begins a run, `@edit cell` a change
//! of the document, `@what-if cell` a question. `@cell sees x=7 y=? z=` adds what the kernel saw. Its line
//! has the verdict on each cell that is not fresh, and through what.
#![expect(clippy::unwrap_used, reason = "a specification that cannot be read is a failure")]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use agarose_analysis::stale::{Evidence, Policy, Project, Run, Status, Through, Value, Verdict};
use agarose_analysis::{Certainty, Facts, Language, Via, analyse};

struct Case {
    place: String,
    fence: String,
    source: String,
    expected: String,
}

fn cases(path: &Path) -> Vec<Case> {
    let text = std::fs::read_to_string(path).unwrap();
    let name = path.file_name().unwrap().to_string_lossy().into_owned();
    let (mut heading, mut fence, mut source) = (String::new(), None::<String>, String::new());
    let mut cases: Vec<Case> = Vec::new();
    let mut open = false;
    for line in text.lines() {
        if let Some(word) = line.strip_prefix("```") {
            if open {
                open = false;
            } else {
                assert!(fence.is_none(), "{name}: {heading}: a fence without its line");
                open = true;
                fence = Some(word.to_owned());
                source.clear();
            }
        } else if open {
            if !source.is_empty() {
                source.push('\n');
            }
            source.push_str(line);
        } else if let Some(title) = line.strip_prefix("## ") {
            title.clone_into(&mut heading);
        } else if let Some(expected) = line.strip_prefix("> ")
            && let Some(fence) = fence.take()
        {
            let place = format!("{name}: {heading}");
            cases.push(Case { place, fence, source: source.clone(), expected: expected.to_owned() });
        }
    }
    cases
}

fn files(directory: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

fn language(word: &str) -> Language {
    match word {
        "python" => Language::Python,
        "r" => Language::R,
        other => panic!("no language is called {other:?}"),
    }
}

fn mark(certainty: Certainty) -> &'static str {
    match certainty {
        Certainty::Must => "",
        Certainty::May => "?",
        Certainty::Possible => "~",
    }
}

/// The facts as a specification says them.
fn describe(facts: &Facts) -> String {
    let external = || facts.reads.iter().filter(|(_, read)| !read.builtin);
    let parts = [
        (
            "reads",
            external()
                .filter(|(_, read)| read.via != Via::Deferred)
                .map(|(name, read)| format!("{name}{}", mark(read.certainty)))
                .collect::<Vec<_>>(),
        ),
        (
            "later",
            external().filter(|(_, read)| read.via == Via::Deferred).map(|(name, _)| name.clone()).collect(),
        ),
        (
            "writes",
            facts.writes.iter().map(|(name, write)| format!("{name}{}", mark(write.certainty))).collect(),
        ),
        (
            "deletes",
            facts.deletes.iter().map(|(name, delete)| format!("{name}{}", mark(delete.certainty))).collect(),
        ),
        (
            "uncertain",
            facts
                .uncertain
                .iter()
                .filter(|reason| reason.effect.0 != 0)
                .map(|reason| word(&reason.code))
                .collect::<BTreeSet<_>>()
                .into_iter()
                .collect(),
        ),
    ];
    let said: Vec<String> = parts
        .iter()
        .filter(|(_, names)| !names.is_empty())
        .map(|(kind, names)| format!("{kind} {}", names.join(", ")))
        .collect();
    if said.is_empty() { "nothing".to_owned() } else { said.join("; ") }
}

fn word(value: &impl serde::Serialize) -> String {
    serde_json::to_value(value).unwrap().as_str().unwrap().to_owned()
}

/// What a kernel saw: `x=7` for a value, `x=?` for one it cannot tell, `x=` for none.
fn seen(report: &str) -> BTreeMap<String, Value> {
    let entry = |word: &str| {
        let (name, value) = word.split_once('=').unwrap();
        let value = match value {
            "?" => Value::Unknown,
            "" => Value::Unbound,
            value => Value::Known(value.to_owned()),
        };
        (name.to_owned(), value)
    };
    report.split_whitespace().map(entry).collect()
}

/// Plays a session and says what became of its cells.
fn play(fence: &str, source: &str) -> String {
    let mut words = fence.split_whitespace().skip(1);
    let language = language(words.next().unwrap());
    let policy =
        if words.next() == Some("current_state") { Policy::CurrentState } else { Policy::DocumentOrder };
    let mut project = Project::new();
    let mut answers = String::new();
    for step in source.split("\n@").map(|step| step.trim_start_matches('@')) {
        let (head, body) = step.split_once('\n').unwrap_or((step, ""));
        let facts = analyse(language, body);
        if let Some(cell) = head.strip_prefix("edit ") {
            project.edit(cell, &facts.digest);
        } else if let Some(cell) = head.strip_prefix("what-if ") {
            let answer = project.what_if(cell, &facts);
            write!(answers, "stale {}; run {}", answer.stale.join(" "), answer.rerun.join(" ")).unwrap();
        } else {
            let (head, evidence) = match head.split_once(" sees") {
                Some((head, report)) => (head, Some(report)),
                None => (head, None),
            };
            let (cell, status) = match head.split_once(' ') {
                Some((cell, "fails")) => (cell, Status::Failed),
                Some((_, other)) => panic!("a run does not end as {other:?}"),
                None => (head, Status::Completed),
            };
            let evidence =
                evidence.map(|report| Evidence { number: project.len() as u64, values: seen(report) });
            let facts = Arc::new(facts);
            project.append(Run { cell: cell.to_owned(), facts, status, generation: 1, evidence });
        }
    }
    if !answers.is_empty() {
        return answers;
    }
    let said: Vec<String> = project
        .cells(policy)
        .iter()
        .filter(|(_, judgement)| judgement.verdict != Verdict::Fresh)
        .map(|(cell, judgement)| {
            let through = match judgement.cause.as_ref().map(|cause| &cause.through) {
                Some(Through::Name(name)) => format!(" ({name})"),
                Some(Through::Channel(channel, _)) => format!(" (channel {})", word(channel)),
                Some(Through::Unknown(code)) => format!(" ({})", word(code)),
                Some(Through::Producer(cell)) => format!(" (made by {cell})"),
                Some(Through::UpstreamEdited(cell)) => format!(" ({cell} is edited)"),
                Some(Through::UpstreamRemoved(cell)) => format!(" ({cell} is removed)"),
                Some(Through::Itself) | None => String::new(),
            };
            format!("{cell} {}{through}", word(&judgement.verdict))
        })
        .collect();
    if said.is_empty() { "all fresh".to_owned() } else { said.join("; ") }
}

fn check(directory: &str) {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("specs").join(directory);
    let mut wrong = String::new();
    let mut count = 0;
    for path in files(&directory) {
        for case in cases(&path) {
            count += 1;
            let found = if case.fence.starts_with("runs ") {
                play(&case.fence, &case.source)
            } else {
                describe(&analyse(language(&case.fence), &case.source))
            };
            if found != case.expected {
                writeln!(wrong, "{}\n  says  {}\n  finds {found}", case.place, case.expected).unwrap();
            }
        }
    }
    assert!(count > 0, "{} has no cases", directory.display());
    assert!(wrong.is_empty(), "\n{wrong}");
}

#[test]
fn python_cells_have_the_facts_of_their_specification() {
    check("python");
}

#[test]
fn r_cells_have_the_facts_of_their_specification() {
    check("r");
}

#[test]
fn sessions_have_the_verdicts_of_their_specification() {
    check("sessions");
}
