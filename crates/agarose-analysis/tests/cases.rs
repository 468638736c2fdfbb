//! Hand-made cases kept outside of the repository: no answer is unsound, few are over-flagged. Runs only
//! when `AGAROSE_CASES` names their directory.

use std::collections::BTreeSet;
use std::path::Path;

use agarose_analysis::{Certainty, Facts, Language, analyse};
use serde_json::Value;

struct Score {
    cases: usize,
    unsound: Vec<String>,
    over: Vec<String>,
    over_possible: usize,
}

fn names(value: &Value) -> BTreeSet<String> {
    value.as_array().into_iter().flatten().filter_map(|name| name.as_str().map(str::to_owned)).collect()
}

fn score(path: &Path, language: Language) -> Score {
    let text = std::fs::read_to_string(path).unwrap();
    let cases: Value = serde_json::from_str(&text).unwrap();
    let mut score = Score { cases: 0, unsound: Vec::new(), over: Vec::new(), over_possible: 0 };
    for case in cases.as_array().unwrap() {
        score.cases += 1;
        let code = case["code"].as_str().unwrap();
        let facts = analyse(language, code);
        let (reads, writes, deletes) = (names(&case["r"]), names(&case["w"]), names(&case["d"]));
        let uncertain = case["u"].as_bool().unwrap();
        let label = |what: &str, set: &BTreeSet<String>| format!("{} {code:?}: {what} {set:?}", case["id"]);
        let flagged = !facts.uncertain.is_empty();
        let missing = missing(&facts, &reads, &writes, &deletes);
        if !missing.is_empty() {
            score.unsound.push(label("misses", &missing));
        } else if uncertain && !flagged {
            score.unsound.push(label("not uncertain", &missing));
        }
        let mut extra = extra(&facts, &reads, &writes, &deletes, Certainty::May);
        if !uncertain && facts.uncertain.iter().any(|reason| reason.effect.0 != 0) {
            extra.insert("uncertain".to_owned());
        }
        if !extra.is_empty() {
            score.over.push(label("adds", &extra));
        } else if !self::extra(&facts, &reads, &writes, &deletes, Certainty::Possible).is_empty() {
            score.over_possible += 1;
        }
    }
    score
}

fn missing(
    facts: &Facts,
    reads: &BTreeSet<String>,
    writes: &BTreeSet<String>,
    deletes: &BTreeSet<String>,
) -> BTreeSet<String> {
    let mut missing = BTreeSet::new();
    missing
        .extend(reads.iter().filter(|name| !facts.reads.contains_key(*name)).map(|name| format!("R {name}")));
    missing.extend(
        writes.iter().filter(|name| !facts.writes.contains_key(*name)).map(|name| format!("W {name}")),
    );
    missing.extend(
        deletes.iter().filter(|name| !facts.deletes.contains_key(*name)).map(|name| format!("D {name}")),
    );
    missing
}

/// What is reported at least this surely and not expected. Names of the language are left out.
fn extra(
    facts: &Facts,
    reads: &BTreeSet<String>,
    writes: &BTreeSet<String>,
    deletes: &BTreeSet<String>,
    least: Certainty,
) -> BTreeSet<String> {
    let mut extra = BTreeSet::new();
    for (name, read) in &facts.reads {
        if !reads.contains(name) && !read.builtin && read.certainty >= least {
            extra.insert(format!("R {name}"));
        }
    }
    for (name, write) in &facts.writes {
        if !writes.contains(name) && write.certainty >= least {
            extra.insert(format!("W {name}"));
        }
    }
    for (name, delete) in &facts.deletes {
        if !deletes.contains(name) && delete.certainty >= least {
            extra.insert(format!("D {name}"));
        }
    }
    extra
}

fn check(file: &str, language: Language, most_over: usize) {
    let Some(directory) = std::env::var_os("AGAROSE_CASES") else { return };
    let score = score(&Path::new(&directory).join(file), language);
    println!(
        "{file}: {} cases, {} unsound, {} over-flagged, {} more with only possible facts",
        score.cases,
        score.unsound.len(),
        score.over.len(),
        score.over_possible
    );
    for line in &score.unsound {
        println!("  unsound {line}");
    }
    for line in &score.over {
        println!("  over    {line}");
    }
    assert!(score.unsound.is_empty() && score.over.len() <= most_over, "{file} misses its bar");
}

#[test]
fn python_cases_are_sound_and_at_most_three_are_over_flagged() {
    check("cases_py.json", Language::Python, 3);
}

#[test]
fn r_cases_are_sound_and_at_most_eight_are_over_flagged() {
    check("cases_r.json", Language::R, 8);
}
