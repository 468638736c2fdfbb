//! Files of cells: read into one shape, and written back as executed notebooks.
//!
//! | Suffix | Read as |
//! |---|---|
//! | `.ipynb` | Jupyter notebook, format 3 or 4 |
//! | `.py`, `.R` | script; cells begin at `# %%` lines |
//! | `.qmd`, `.Rmd` | Markdown with `{python}` and `{r}` chunks |

mod ipynb;
mod markdown;
mod percent;
mod write;

use std::path::Path;

use agarose_core::Language;

pub(crate) use write::{Piece, Ran, write};

use crate::report::{Exit, Problem};

/// A file of cells.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Document {
    /// Its cells, in order.
    pub(crate) cells: Vec<Cell>,
    /// The metadata of a notebook that was read from one.
    pub(crate) metadata: serde_json::Map<String, serde_json::Value>,
    /// What the reader passed over, for people.
    pub(crate) remarks: Vec<String>,
}

/// One cell.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Cell {
    pub(crate) kind: CellKind,
    pub(crate) source: String,
    /// What its author calls it.
    pub(crate) title: Option<String>,
    /// The line of the file on which its source begins, from 1; absent in notebooks.
    pub(crate) line: Option<usize>,
    /// Its id in a notebook that has them.
    pub(crate) id: Option<String>,
    /// Its metadata in a notebook.
    pub(crate) metadata: serde_json::Map<String, serde_json::Value>,
    /// Pictures that its prose names, in a notebook.
    pub(crate) attachments: Option<serde_json::Value>,
}

/// What is in a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CellKind {
    /// Code to be run.
    Code(Language),
    /// Code that its author switched off, or of a language that does not run here.
    Inert,
    /// Prose.
    Markdown,
    /// Neither.
    Raw,
}

impl Cell {
    fn new(kind: CellKind, source: String) -> Self {
        let metadata = serde_json::Map::new();
        Self { kind, source, title: None, line: None, id: None, metadata, attachments: None }
    }

    /// What to call it in one line: its title, else its first line of code.
    pub(crate) fn label(&self) -> String {
        let first = || {
            let lines = self.source.lines().map(str::trim);
            let code = lines.clone().find(|line| !line.is_empty() && !line.starts_with('#'));
            code.or_else(|| lines.clone().find(|line| !line.is_empty())).unwrap_or("").to_owned()
        };
        let text = self.title.clone().unwrap_or_else(first);
        let text = crate::report::printable(&text);
        match text.char_indices().nth(48) {
            Some((cut, _)) => format!("{}…", text.get(..cut).unwrap_or_default()),
            None => text,
        }
    }
}

/// Reads a file of cells.
pub(crate) fn read(path: &Path) -> Result<Document, Problem> {
    let shown = path.display();
    let suffix = path.extension().map(|suffix| suffix.to_string_lossy().to_ascii_lowercase());
    let bytes = std::fs::read(path).map_err(|error| {
        let exit = if error.kind() == std::io::ErrorKind::NotFound { Exit::NotFound } else { Exit::Error };
        Problem::new(exit, "file", format!("cannot read {shown}")).caused_by(&error)
    })?;
    let text = text_of(&bytes).map_err(|line| {
        let what = format!("{shown} is not UTF-8 text: line {line} holds other bytes");
        not_a_notebook(what).hint("save it as UTF-8, for example with `iconv -f latin1 -t utf-8`")
    })?;
    let document = match suffix.as_deref() {
        Some("ipynb") => ipynb::read(&text).map_err(|(what, hint)| {
            not_a_notebook(format!("{shown} is not a notebook that can be run: {what}")).hint(hint)
        })?,
        Some("py") => percent::read(&text, Language::Python),
        Some("r") => percent::read(&text, Language::R),
        Some("qmd" | "rmd") => markdown::read(&text),
        _ => {
            return Err(not_a_notebook(format!("{shown} has no suffix that says what it is"))
                .hint("`agarose run` takes .py and .R with `# %%` cells, .ipynb, .qmd and .Rmd"));
        }
    };
    Ok(document)
}

fn not_a_notebook(what: String) -> Problem {
    Problem::new(Exit::Usage, "not_a_notebook", what)
}

/// Text without byte order mark and with plain line ends; or the line that is not UTF-8.
fn text_of(bytes: &[u8]) -> Result<String, usize> {
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let before = bytes.get(..error.valid_up_to()).unwrap_or_default();
        before.iter().filter(|byte| **byte == b'\n').count() + 1
    })?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    Ok(text.replace("\r\n", "\n"))
}

/// Lines without the empty ones around them, each with its end but for the last.
fn trimmed_block(lines: &[&str]) -> Option<(usize, String)> {
    let first = lines.iter().position(|line| !line.trim().is_empty())?;
    let last = lines.iter().rposition(|line| !line.trim().is_empty())?;
    Some((first, lines.get(first..=last)?.join("\n")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_not_text_is_refused_with_the_line() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.py");
        std::fs::write(&path, b"x = 1\ny = '\xe9'\n").unwrap();
        let problem = read(&path).unwrap_err();
        assert_eq!(problem.exit, Exit::Usage);
        assert!(
            problem.message.ends_with("is not UTF-8 text: line 2 holds other bytes"),
            "{}",
            problem.message
        );
    }

    #[test]
    fn a_file_that_is_not_there_is_not_found() {
        assert_eq!(read(Path::new("/nowhere/a.py")).unwrap_err().exit, Exit::NotFound);
    }

    #[test]
    fn a_suffix_that_says_nothing_is_refused_with_those_that_do() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.txt");
        std::fs::write(&path, "x").unwrap();
        assert!(read(&path).unwrap_err().hint.as_deref().unwrap().contains(".ipynb"));
    }

    #[test]
    fn a_byte_order_mark_and_windows_line_ends_do_not_reach_the_code() {
        assert_eq!(text_of("\u{feff}a\r\nb\r\n".as_bytes()), Ok("a\nb\n".into()));
    }

    #[test]
    fn the_example_is_the_same_analysis_in_both_forms() {
        let example = |name: &str| {
            let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/penguins");
            let cells = read(&root.join(name)).unwrap().cells.into_iter();
            let code = cells.filter(|cell| matches!(cell.kind, CellKind::Code(_)));
            code.map(|cell| (cell.title, cell.source)).collect::<Vec<_>>()
        };
        let script = example("penguins.py");
        assert_eq!(script.len(), 12);
        assert_eq!(script, example("penguins.ipynb"));
    }

    #[test]
    fn a_label_is_the_title_or_the_first_line_of_code() {
        let mut cell = Cell::new(CellKind::Code(Language::Python), "# a comment\n\nx = 1\n".into());
        assert_eq!(cell.label(), "x = 1");
        cell.title = Some("t".repeat(60));
        assert_eq!(cell.label().chars().count(), 49);
    }
}
