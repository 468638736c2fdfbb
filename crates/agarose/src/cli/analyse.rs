//! `agarose analyse`: what a file of cells reads, writes and deletes, without running it.

use std::{io::Read, path::Path};

use agarose_analysis::{Facts, Summary};
use agarose_core::Language;
use serde::Serialize;

use super::{AnalyseArgs, Global};
use crate::{
    notebook::{self, CellKind},
    report::{Exit, Problem, printable, say},
};

/// What `--json` prints: the facts of a script as a whole, those of its cells when it has several.
#[derive(Serialize)]
struct FileAnalysis {
    file: String,
    #[serde(flatten)]
    whole: Option<Analysed>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    cells: Vec<CellAnalysis>,
}

#[derive(Serialize)]
struct CellAnalysis {
    cell: usize,
    label: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<usize>,
    #[serde(flatten)]
    analysed: Analysed,
}

#[derive(Serialize)]
struct Analysed {
    #[serde(flatten)]
    summary: Summary,
    /// Everything that the analysis says.
    facts: Facts,
}

impl Analysed {
    fn of(language: Language, source: &str) -> Self {
        let facts = agarose_analysis::analyse(agarose_engine::analysed_as(language), source);
        Self { summary: Summary::from(&facts), facts }
    }
}

pub(super) fn analyse(global: &Global, args: &AnalyseArgs) -> Result<Exit, Problem> {
    let analysis = match language(args)? {
        Some(language) => script(&args.file, language)?,
        None => document(&args.file)?,
    };
    if global.json {
        let text = serde_json::to_string(&analysis);
        say(&text.map_err(|error| Problem::because("cannot write JSON", &error))?);
    } else {
        say(text(&analysis).trim_end());
    }
    Ok(Exit::Done)
}

/// The language that was named; a file whose suffix says it needs none.
fn language(args: &AnalyseArgs) -> Result<Option<Language>, Problem> {
    match args.language.as_deref() {
        Some(named) => named.parse().map(Some).map_err(|_| {
            Problem::usage(format!("{named} is not a language that runs here"))
                .hint("write --language python or --language r")
        }),
        None if args.file == Path::new("-") => Ok(Some(Language::Python)),
        None => Ok(None),
    }
}

/// A source of one language, whatever its file is called.
fn script(file: &Path, language: Language) -> Result<FileAnalysis, Problem> {
    let shown = file.display().to_string();
    let mut bytes = Vec::new();
    if shown == "-" {
        std::io::stdin()
            .read_to_end(&mut bytes)
            .map_err(|error| Problem::because("cannot read standard input", &error))?;
    } else {
        bytes = std::fs::read(file).map_err(|error| {
            let missing = error.kind() == std::io::ErrorKind::NotFound;
            let exit = if missing { Exit::NotFound } else { Exit::Error };
            Problem::new(exit, "file", format!("cannot read {shown}")).caused_by(&error)
        })?;
    }
    // Total on any bytes: what is not UTF-8 is a fault of the source and reported as one.
    let source = String::from_utf8_lossy(&bytes);
    Ok(FileAnalysis { file: shown, whole: Some(Analysed::of(language, &source)), cells: Vec::new() })
}

fn document(file: &Path) -> Result<FileAnalysis, Problem> {
    let suffix = file.extension().map(|suffix| suffix.to_string_lossy().to_ascii_lowercase());
    let document = notebook::read(file)?;
    let whole = match suffix.as_deref() {
        Some("py") => script(file, Language::Python)?.whole,
        Some("r") => script(file, Language::R)?.whole,
        _ => None,
    };
    let code = document.cells.iter().filter_map(|cell| match cell.kind {
        CellKind::Code(language) => Some((cell, language)),
        CellKind::Inert | CellKind::Markdown | CellKind::Raw => None,
    });
    let mut cells: Vec<CellAnalysis> = code
        .enumerate()
        .map(|(at, (cell, language))| CellAnalysis {
            cell: at + 1,
            label: cell.label(),
            line: cell.line,
            analysed: Analysed::of(language, &cell.source),
        })
        .collect();
    if whole.is_some() && cells.len() < 2 {
        cells.clear();
    }
    Ok(FileAnalysis { file: file.display().to_string(), whole, cells })
}

/// An analysis for people.
fn text(analysis: &FileAnalysis) -> String {
    let mut lines = Vec::new();
    match &analysis.whole {
        Some(whole) if analysis.cells.is_empty() => rows(&whole.summary, "", &mut lines),
        _ => {
            for cell in &analysis.cells {
                lines.push(format!("[{}] {}", cell.cell, cell.label));
                rows(&cell.analysed.summary, "    ", &mut lines);
            }
        }
    }
    if lines.is_empty() {
        lines.push("it has no cell of code".to_owned());
    }
    lines.join("\n")
}

fn rows(summary: &Summary, indent: &str, lines: &mut Vec<String>) {
    let before = lines.len();
    let mut row = |name: &str, value: String| {
        if !value.is_empty() {
            lines.push(format!("{indent}{name:<10} {}", printable(&value)));
        }
    };
    row("reads", summary.reads.join(", "));
    row("writes", summary.writes.join(", "));
    row("deletes", summary.deletes.join(", "));
    row("imports", summary.imports.join(", "));
    for file in &summary.files {
        let path = file.path.as_deref().unwrap_or("a file whose name is computed");
        let how = if file.access == agarose_analysis::Access::Read { "reads" } else { "writes" };
        row("file", format!("{how} {path}"));
    }
    for reason in &summary.uncertain {
        let code = serde_json::to_value(reason.reason).ok();
        let code = code.as_ref().and_then(|code| code.as_str()).unwrap_or_default().replace('_', " ");
        let what = reason.what.as_deref().map(|what| format!(" ({what})")).unwrap_or_default();
        row("uncertain", format!("{code}{what}, bytes {} to {}", reason.start, reason.end));
    }
    if lines.len() == before {
        lines.push(format!("{indent}reads, writes and deletes nothing"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn analysed(name: &str, source: &str) -> FileAnalysis {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(name);
        std::fs::write(&path, source).unwrap();
        document(&path).unwrap()
    }

    #[test]
    fn a_script_is_told_as_a_whole_and_a_document_cell_by_cell() {
        assert_eq!(
            text(&analysed("a.py", "y = x + 1\ndel z\nexec(p)\n")),
            "reads      p, x\nwrites     y\ndeletes    z\nuncertain  exec eval (exec), bytes 16 to 23"
        );
        assert_eq!(
            text(&analysed("a.R", "# %% one\na <- b\n\n# %% two\nc1 <- a\n")),
            "[1] one\n    reads      b\n    writes     a\n[2] two\n    reads      a\n    writes     c1"
        );
    }

    #[test]
    fn the_json_of_a_script_has_the_facts_at_its_top() {
        let json = serde_json::to_value(analysed("a.py", "y = x\n")).unwrap();
        assert_eq!((&json["reads"], &json["writes"]), (&serde_json::json!(["x"]), &serde_json::json!(["y"])));
        assert!(json.get("cells").is_none());
    }
}
