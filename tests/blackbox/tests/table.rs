//! The table of scenarios in `tests/README.md`: none missing, no dead names.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

/// The scenarios of the contract that are promised so far: component and last number, with those
/// in between that belong to later work left out.
fn promised() -> BTreeSet<String> {
    let numbered = |component: &str, numbers: &mut dyn Iterator<Item = u32>| {
        numbers.map(|number| format!("{component} {number}")).collect::<Vec<_>>()
    };
    let mut promised = BTreeSet::new();
    promised.extend(numbered("coordinator", &mut (1..=25).chain([27])));
    promised.extend(numbered("kernel", &mut (1..=16).chain(18..=25)));
    promised.extend(numbered("journal", &mut (1..=11).chain([14, 15, 17, 19, 20])));
    promised.extend(numbered("recovery", &mut (1..=3).chain(5..=6)));
    promised.extend(numbered("watchdog", &mut (1..=22)));
    promised.extend(numbered("analysis", &mut (1..=9)));
    let odd = |prefix: &str, last: u32| {
        (1..=last).step_by(2).map(|number| format!("{prefix}-{number:02}")).collect::<Vec<_>>()
    };
    promised.extend(odd("OUT", 23));
    // INT-11 is of R; PROC-15 has no test of its own yet.
    promised.extend(odd("INT", 15).into_iter().filter(|scenario| scenario != "INT-11"));
    promised.extend(odd("PROC", 17).into_iter().filter(|scenario| scenario != "PROC-15"));
    promised.extend(odd("R", 17));
    promised
        .extend((1..=14).filter(|number| ![8, 9].contains(number)).map(|number| format!("RK-{number:02}")));
    promised.extend(["INT-11".to_owned(), "watchdog 9 in R".to_owned()]);
    promised.extend(odd("CELL", 21));
    promised
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// The rows of the table: the scenario, and the names in backticks behind it.
fn rows(text: &str) -> BTreeMap<String, Vec<String>> {
    let mut rows = BTreeMap::new();
    for line in text.lines() {
        let cells: Vec<&str> = line.trim().trim_matches('|').split('|').map(str::trim).collect();
        if cells.len() < 3 || !line.starts_with('|') || cells[0].starts_with("---") || cells[0] == "Scenario"
        {
            continue;
        }
        let names = cells[2].split('`').skip(1).step_by(2).map(str::to_owned).collect();
        assert!(rows.insert(cells[0].to_owned(), names).is_none(), "{} has two rows", cells[0]);
    }
    rows
}

fn sources(directory: &Path, found: &mut Vec<String>) {
    for entry in fs::read_dir(directory).unwrap().flatten() {
        let path = entry.path();
        let name = entry.file_name();
        if path.is_dir() && name != "target" && name != ".git" {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(fs::read_to_string(path).unwrap());
        }
    }
}

#[test]
fn every_scenario_has_a_row_and_every_row_names_tests_that_exist() {
    let text = fs::read_to_string(root().join("tests/README.md")).unwrap();
    let rows = rows(&text);
    let mut texts = Vec::new();
    for directory in ["crates", "tests", "tools"] {
        sources(&root().join(directory), &mut texts);
    }
    let mut wrong = Vec::new();
    for scenario in promised() {
        match rows.get(&scenario) {
            None => wrong.push(format!("{scenario} has no row")),
            Some(names) if names.is_empty() => wrong.push(format!("{scenario} names no test")),
            Some(_) => {}
        }
    }
    for (scenario, names) in &rows {
        for name in names {
            let function = name.rsplit("::").next().unwrap();
            let definition = format!("fn {function}(");
            if !texts.iter().any(|text| text.contains(&definition)) {
                wrong.push(format!("{scenario} names {name}, which is not there"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
