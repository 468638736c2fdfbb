//! Markdown with chunks: Quarto's `.qmd` and R Markdown's `.Rmd`.
//!
//! A chunk is a fence whose info string is `{python …}` or `{r …}`. `eval=FALSE` in the braces or
//! `#| eval: false` in the chunk keeps it from running. A chunk inside another fence is text.

use agarose_core::Language;
use serde_json::Map;

use super::{Cell, CellKind, Document, trimmed_block};

pub(super) fn read(text: &str) -> Document {
    let lines: Vec<&str> = text.lines().collect();
    let (header, mut at) = header(&lines);
    let mut cells = Vec::new();
    let mut remarks = Vec::new();
    cells.extend(header);
    let mut prose_from = at;
    while at < lines.len() {
        let line = lines.get(at).copied().unwrap_or_default();
        let Some(fence) = Fence::opening(line) else {
            at += 1;
            continue;
        };
        let body = lines.get(at + 1..).unwrap_or_default();
        let length = body.iter().position(|line| fence.is_closed_by(line)).unwrap_or(body.len());
        let after = (at + length + 2).min(lines.len());
        if let Some(chunk) = Chunk::of(fence.info) {
            cells.extend(prose(&lines, prose_from, at));
            cells.extend(chunk.cell(
                body.get(..length).unwrap_or_default(),
                fence.indent,
                at + 2,
                &mut remarks,
            ));
            prose_from = after;
        }
        at = after;
    }
    cells.extend(prose(&lines, prose_from, lines.len()));
    Document { cells, metadata: Map::new(), remarks }
}

/// The YAML header, kept as a raw cell, and the first line behind it.
fn header(lines: &[&str]) -> (Option<Cell>, usize) {
    if lines.first().is_none_or(|line| line.trim_end() != "---") {
        return (None, 0);
    }
    let body = lines.get(1..).unwrap_or_default();
    let Some(length) = body.iter().position(|line| matches!(line.trim_end(), "---" | "...")) else {
        return (None, 0);
    };
    let source = lines.get(..length + 2).unwrap_or_default().join("\n");
    let mut cell = Cell::new(CellKind::Raw, source);
    cell.line = Some(1);
    (Some(cell), length + 2)
}

fn prose(lines: &[&str], from: usize, to: usize) -> Option<Cell> {
    let (first, source) = trimmed_block(lines.get(from..to)?)?;
    let mut cell = Cell::new(CellKind::Markdown, source);
    cell.line = Some(from + first + 1);
    Some(cell)
}

struct Fence<'a> {
    mark: char,
    length: usize,
    /// What stands before it: white space of a list item, or `>` of a quotation.
    indent: &'a str,
    info: &'a str,
}

impl<'a> Fence<'a> {
    fn opening(line: &'a str) -> Option<Self> {
        let rest = line.trim_start_matches([' ', '\t', '>']);
        let indent = line.get(..line.len() - rest.len())?;
        let mark = rest.chars().next().filter(|c| matches!(c, '`' | '~'))?;
        let info = rest.trim_start_matches(mark);
        let length = rest.len() - info.len();
        // A line of code in backticks is not a fence.
        let plain = length >= 3 && !(mark == '`' && info.contains('`'));
        plain.then(|| Self { mark, length, indent, info: info.trim() })
    }

    fn is_closed_by(&self, line: &str) -> bool {
        let rest = line.trim_start_matches([' ', '\t', '>']).trim_end();
        rest.len() >= self.length && rest.chars().all(|c| c == self.mark)
    }
}

/// The braces of a chunk.
struct Chunk<'a> {
    engine: &'a str,
    label: Option<String>,
    runs: bool,
}

impl<'a> Chunk<'a> {
    fn of(info: &'a str) -> Option<Self> {
        let inner = info.strip_prefix('{')?.strip_suffix('}')?.trim();
        // `{{python}}` shows a chunk and `{.python}` is a class: neither is one.
        let end = inner.find([' ', ',', '\t']).unwrap_or(inner.len());
        let (engine, options) = inner.split_at(end);
        if engine.is_empty() || !engine.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
            return None;
        }
        let options = options.trim_start_matches([' ', ',', '\t']);
        let label = options.split([',', ' ']).next().filter(|word| !word.is_empty() && !word.contains('='));
        let plain: String = options.chars().filter(|c| !c.is_whitespace()).collect();
        let off = ["eval=FALSE", "eval=F", "eval=false"]
            .iter()
            .any(|off| plain.split(',').any(|option| option == *off));
        Some(Self { engine, label: label.map(str::to_owned), runs: !off })
    }

    fn cell(self, body: &[&str], indent: &str, line: usize, remarks: &mut Vec<String>) -> Option<Cell> {
        let body: Vec<&str> = body.iter().map(|line| line.strip_prefix(indent).unwrap_or(line)).collect();
        let (first, source) = trimmed_block(&body)?;
        let mut label = self.label;
        let mut runs = self.runs;
        for option in source.lines().map_while(|line| line.trim_start().strip_prefix("#|")) {
            match option.split_once(':').map(|(key, value)| (key.trim(), value.trim())) {
                Some(("eval", "false" | "FALSE" | "no")) => runs = false,
                Some(("label", name)) => label = Some(name.trim_matches(['"', '\'']).to_owned()),
                _ => {}
            }
        }
        let at = line + first;
        let kind = match self.engine.parse::<Language>() {
            Ok(language) if runs => CellKind::Code(language),
            Ok(_) => CellKind::Inert,
            Err(_) => {
                if runs {
                    remarks.push(format!(
                        "line {at}: a chunk of {} is passed over; Python and R run here",
                        self.engine
                    ));
                }
                CellKind::Inert
            }
        };
        let mut cell = Cell::new(kind, source);
        cell.title = label;
        cell.line = Some(at);
        Some(cell)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(text: &str) -> Vec<(CellKind, String)> {
        read(text).cells.into_iter().map(|cell| (cell.kind, cell.source)).collect()
    }

    const PYTHON: CellKind = CellKind::Code(Language::Python);
    const R: CellKind = CellKind::Code(Language::R);

    #[test]
    fn prose_and_chunks_alternate_and_know_their_lines() {
        let text = "---\ntitle: x\n---\n\n# Head\n\n```{python}\nx = 1\n```\n\ntext\n```{r plot, echo=FALSE}\n\nplot(1)\n```\n";
        assert_eq!(
            seen(text),
            [
                (CellKind::Raw, "---\ntitle: x\n---".into()),
                (CellKind::Markdown, "# Head".into()),
                (PYTHON, "x = 1".into()),
                (CellKind::Markdown, "text".into()),
                (R, "plot(1)".into()),
            ]
        );
        let cells = read(text).cells;
        assert_eq!((cells[2].line, cells[4].line), (Some(8), Some(14)));
        assert_eq!(cells[4].title.as_deref(), Some("plot"));
    }

    #[test]
    fn a_chunk_that_is_switched_off_is_kept_and_not_run() {
        let text = "```{r, eval = FALSE}\nx\n```\n```{python}\n#| label: fit\n#| eval: false\ny\n```\n";
        let cells = read(text).cells;
        assert_eq!(
            cells.iter().map(|cell| cell.kind).collect::<Vec<_>>(),
            [CellKind::Inert, CellKind::Inert]
        );
        assert_eq!(cells[1].title.as_deref(), Some("fit"));
    }

    #[test]
    fn what_only_shows_code_is_prose() {
        for text in [
            "```python\nx\n```",
            "```{.python}\nx\n```",
            "```{{python}}\nx\n```",
            "````\n```{python}\nx\n```\n````",
            "`` ```{python} ``",
        ] {
            let kinds: Vec<_> = seen(text).into_iter().map(|(kind, _)| kind).collect();
            assert_eq!(kinds, [CellKind::Markdown], "{text}");
        }
    }

    #[test]
    fn a_chunk_of_another_language_is_passed_over_with_a_remark() {
        let document = read("```{bash}\nls\n```\n");
        assert_eq!(document.cells[0].kind, CellKind::Inert);
        assert_eq!(document.remarks, ["line 2: a chunk of bash is passed over; Python and R run here"]);
    }

    #[test]
    fn an_indented_chunk_loses_its_indent_and_tildes_are_fences_too() {
        assert_eq!(seen("- a\n  ~~~{python}\n  if x:\n    y\n  ~~~\n")[1], (PYTHON, "if x:\n  y".into()));
    }

    #[test]
    fn a_fence_that_is_never_closed_ends_with_the_file() {
        assert_eq!(seen("```{python}\nx = 1\n"), [(PYTHON, "x = 1".into())]);
        assert_eq!(seen("---\nnever closed\n"), [(CellKind::Markdown, "---\nnever closed".into())]);
    }
}
