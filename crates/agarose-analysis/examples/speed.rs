//! Bars of speed, in one process on one core: full facts beside the bare parse of the same cells, the
//! projection of 10,000 runs, an append to them, and hostile sources of 1 MiB.
//!
//! `speed CELLS.jsonl …` measures the first, `speed` alone the others; an exit code of 1 says that a bar is missed. Only ratios are bars for the
//! parse, for machines differ.

use std::error::Error;
use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use agarose_analysis::stale::{Policy, Project, Run, Status};
use agarose_analysis::{Facts, Language, analyse};
use tree_sitter::Parser;

/// Rounds of which the fastest counts: others disturb, nobody helps.
const ROUNDS: u32 = 5;

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let mut out = std::io::stdout().lock();
    let mut kept = true;
    for path in std::env::args().skip(1) {
        kept &= cells(&mut out, &path)?;
    }
    if std::env::args().len() < 2 {
        kept &= projection(&mut out)?;
        kept &= hostile(&mut out)?;
    }
    Ok(if kept { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn fastest(mut work: impl FnMut()) -> Duration {
    let time = |_| {
        let start = Instant::now();
        work();
        start.elapsed()
    };
    (0..ROUNDS).map(time).min().unwrap_or_default()
}

fn cells(out: &mut impl Write, path: &str) -> Result<bool, Box<dyn Error>> {
    let mut sources = Vec::new();
    let mut language = Language::Python;
    for line in std::fs::read_to_string(path)?.lines() {
        let cell: serde_json::Value = serde_json::from_str(line)?;
        language = if cell["lang"] == "r" { Language::R } else { Language::Python };
        sources.push(cell["src"].as_str().unwrap_or("").to_owned());
    }
    let mut parser = Parser::new();
    parser.set_language(&match language {
        Language::Python => tree_sitter_python::LANGUAGE.into(),
        Language::R => tree_sitter_r::LANGUAGE.into(),
    })?;
    let parse = fastest(|| {
        for source in &sources {
            std::hint::black_box(parser.parse(source, None));
        }
    });
    let full = fastest(|| {
        for source in &sources {
            std::hint::black_box(analyse(language, source));
        }
    });
    let mut slowest: Vec<Duration> = sources
        .iter()
        .map(|source| {
            let start = Instant::now();
            std::hint::black_box(analyse(language, source));
            start.elapsed()
        })
        .collect();
    slowest.sort();
    let bytes: usize = sources.iter().map(String::len).sum();
    let ratio = full.as_secs_f64() / parse.as_secs_f64();
    writeln!(
        out,
        "{path}: {} cells, {bytes} bytes; parse {:.0} cells/s, facts {:.0} cells/s and {:.1} MB/s, {ratio:.2} times the \
         parse (at most 1.6); p99 {:.2} ms",
        sources.len(),
        sources.len() as f64 / parse.as_secs_f64(),
        sources.len() as f64 / full.as_secs_f64(),
        bytes as f64 / full.as_secs_f64() / 1e6,
        slowest[slowest.len() * 99 / 100].as_secs_f64() * 1e3,
    )?;
    Ok(ratio <= 1.6)
}

/// A session in which cells read what others wrote, and some run again.
fn runs(count: usize) -> Vec<(String, Arc<Facts>)> {
    (0..count)
        .map(|at| {
            let cell = at % 3_000;
            let source = match cell % 4 {
                0 => format!("x{cell} = {at}"),
                1 => format!("y{cell} = x{} + 1", cell - 1),
                2 => format!("x{}.append(y{})", cell - 2, cell - 1),
                _ => format!("print(x{}, y{})", cell - 3, cell - 2),
            };
            (format!("c{cell}"), Arc::new(analyse(Language::Python, &source)))
        })
        .collect()
}

fn run((cell, facts): &(String, Arc<Facts>)) -> Run {
    let facts = Arc::clone(facts);
    Run { cell: cell.clone(), facts, status: Status::Completed, generation: 1, evidence: None }
}

fn projection(out: &mut impl Write) -> Result<bool, Box<dyn Error>> {
    let all = runs(10_000);
    let mut project = Project::new();
    let start = Instant::now();
    for one in &all {
        project.append(run(one));
    }
    let append = start.elapsed() / 10_000;
    let whole = fastest(|| {
        std::hint::black_box(project.verdicts(Policy::DocumentOrder));
    });
    writeln!(
        out,
        "10,000 runs: an append {:.1} µs (at most 50), the verdicts {:.1} ms (at most 25)",
        append.as_secs_f64() * 1e6,
        whole.as_secs_f64() * 1e3
    )?;
    Ok(append <= Duration::from_micros(50) && whole <= Duration::from_millis(25))
}

fn hostile(out: &mut impl Write) -> Result<bool, Box<dyn Error>> {
    const SIZE: usize = 1 << 20;
    let sources = [
        ("parentheses", "(".repeat(SIZE)),
        ("brackets", "[".repeat(SIZE / 2) + &"]".repeat(SIZE / 2)),
        ("calls", "f(".repeat(SIZE / 2)),
        ("operators", "-".repeat(SIZE - 1) + "1"),
        ("lambdas", "lambda: ".repeat(SIZE / 8) + "1"),
        ("comprehensions", "[x for x in ".repeat(SIZE / 12)),
        ("attributes", "a".to_owned() + &".a".repeat(SIZE / 2)),
        ("blocks", (0..1_400).map(|deep| " ".repeat(deep) + "if x:\n").collect()),
        ("names", (0..SIZE / 12).map(|at| format!("n{at} = n{}\n", at / 2)).collect()),
        ("functions", (0..SIZE / 24).map(|at| format!("def f{at}(): f{}()\n", at / 2)).collect()),
        ("functions in functions", (0..1_000).map(|deep| " ".repeat(deep) + "def f(x):\n").collect()),
        ("closing brackets", ")".repeat(SIZE)),
        ("quotes", "'".repeat(SIZE)),
        ("braces of a string", "f'".to_owned() + &"{".repeat(SIZE)),
        ("assignments", "x <- ".repeat(SIZE / 5) + "1"),
        ("functions of R", "function(x) ".repeat(SIZE / 12) + "1"),
        ("pipes", "x".to_owned() + &" |> f()".repeat(SIZE / 7)),
        ("bytes", (0..SIZE).map(|at| char::from((at * 7919 % 94 + 33) as u8)).collect()),
    ];
    let mut worst = (Duration::ZERO, "", Language::Python);
    for (name, source) in &sources {
        for language in [Language::Python, Language::R] {
            let start = Instant::now();
            std::hint::black_box(analyse(language, source));
            worst = worst.max_by_time((start.elapsed(), name, language));
        }
    }
    let (time, name, language) = worst;
    writeln!(
        out,
        "{} hostile sources of 1 MiB: the slowest {:.0} ms (at most 1000), {name} as {language:?}",
        sources.len(),
        time.as_secs_f64() * 1e3
    )?;
    Ok(time <= Duration::from_secs(1))
}

trait Slower {
    fn max_by_time(self, other: Self) -> Self;
}

impl Slower for (Duration, &str, Language) {
    fn max_by_time(self, other: Self) -> Self {
        if other.0 > self.0 { other } else { self }
    }
}
