//! Scripts with `# %%` cells, as Jupytext, Spyder and VS Code write them.
//!
//! A marker stands at the beginning of a line, outside of any string: `# %%`, `#%%`, with an optional
//! title, `[markdown]` or `[raw]`, and Jupytext's `key="value"` and `{json}` options, which are kept.
//! `# %%time` is a comment, not a marker.

use agarose_core::Language;
use serde_json::{Map, Value};

use super::{Cell, CellKind, Document, trimmed_block};

pub(super) fn read(text: &str, language: Language) -> Document {
    let lines: Vec<&str> = text.lines().collect();
    let mut begin = header_length(&lines);
    let mut marker: Option<Marker> = None;
    let mut cells = Vec::new();
    let mut strings = Strings::new(language);
    for (n, line) in lines.iter().enumerate() {
        let found = if strings.is_open() || n < begin { None } else { Marker::of(line) };
        match found {
            Some(next) => {
                cells.extend(cell(&lines, begin, n, marker.as_ref(), language));
                marker = Some(next);
                begin = n + 1;
                // A marker that is kept on despite an odd line before it starts afresh.
                strings = Strings::new(language);
            }
            None => strings.pass(line),
        }
    }
    cells.extend(cell(&lines, begin, lines.len(), marker.as_ref(), language));
    Document { cells, metadata: Map::new(), remarks: Vec::new() }
}

fn cell(
    lines: &[&str],
    begin: usize,
    end: usize,
    marker: Option<&Marker>,
    language: Language,
) -> Option<Cell> {
    let (first, source) = trimmed_block(lines.get(begin..end)?)?;
    let kind = marker.map_or(CellKind::Code(language), |marker| match marker.kind {
        Kind::Code if marker.inert() => CellKind::Inert,
        Kind::Code => CellKind::Code(language),
        Kind::Markdown => CellKind::Markdown,
        Kind::Raw => CellKind::Raw,
    });
    let source = match kind {
        CellKind::Code(_) | CellKind::Inert => source,
        CellKind::Markdown | CellKind::Raw => uncommented(&source),
    };
    let mut cell = Cell::new(kind, source);
    cell.line = Some(begin + first + 1);
    if let Some(marker) = marker {
        cell.title.clone_from(&marker.title);
        cell.metadata = marker.options.clone();
    }
    Some(cell)
}

/// The YAML header that Jupytext writes as comments: `# ---` to `# ---`.
fn header_length(lines: &[&str]) -> usize {
    let start = usize::from(lines.first().is_some_and(|line| line.starts_with("#!")));
    let is_fence = |line: &&str| matches!(line.trim_end(), "# ---" | "#' ---");
    if !lines.get(start).is_some_and(is_fence) {
        return 0;
    }
    let body = lines.get(start + 1..).unwrap_or_default();
    match body.iter().position(|line| is_fence(line) || !line.starts_with('#')) {
        Some(at) if body.get(at).is_some_and(is_fence) => start + at + 2,
        _ => 0,
    }
}

/// Prose that was written as comments, or as one triple-quoted string.
fn uncommented(source: &str) -> String {
    for quote in ["\"\"\"", "'''"] {
        let inner = ["r", ""]
            .into_iter()
            .find_map(|prefix| source.trim().strip_prefix(prefix)?.strip_prefix(quote)?.strip_suffix(quote));
        if let Some(inner) = inner {
            return inner.trim_matches('\n').to_owned();
        }
    }
    let plain = |line: &str| match line.strip_prefix('#') {
        Some(rest) => rest.strip_prefix(' ').unwrap_or(rest).to_owned(),
        None => line.to_owned(),
    };
    source.lines().map(plain).collect::<Vec<_>>().join("\n")
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Code,
    Markdown,
    Raw,
}

#[derive(Clone, Debug, PartialEq)]
struct Marker {
    kind: Kind,
    title: Option<String>,
    options: Map<String, Value>,
}

impl Marker {
    fn of(line: &str) -> Option<Self> {
        let rest = line.strip_prefix('#')?.trim_start_matches([' ', '\t']).strip_prefix("%%")?;
        // More of them make a cell of a lower level, as in Spyder and Jupytext.
        let rest = rest.trim_start_matches('%');
        if !(rest.is_empty() || rest.starts_with([' ', '\t', '['])) {
            return None;
        }
        let (title, options) = split_options(rest.trim());
        let (kind, title) = take_kind(&title);
        Some(Self { kind, title: Some(title).filter(|title| !title.is_empty()), options })
    }

    /// Whether its author switched it off (Jupytext's `active` and `eval`).
    fn inert(&self) -> bool {
        let is = |key: &str, values: &[&str]| {
            self.options.get(key).is_some_and(|value| match value {
                Value::Bool(on) => values.contains(&if *on { "true" } else { "false" }),
                Value::String(text) => values.contains(&text.as_str()),
                _ => false,
            })
        };
        is("eval", &["false", "False", "FALSE"]) || is("active", &["", "ipynb-only"])
    }
}

fn take_kind(title: &str) -> (Kind, String) {
    for (word, kind) in [("[markdown]", Kind::Markdown), ("[md]", Kind::Markdown), ("[raw]", Kind::Raw)] {
        if let Some(at) = title.to_ascii_lowercase().find(word)
            && let (Some(before), Some(after)) = (title.get(..at), title.get(at + word.len()..))
        {
            let words = [before.trim(), after.trim()];
            return (kind, words.into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" "));
        }
    }
    (Kind::Code, title.to_owned())
}

/// A title and the options behind it: `{json}` or `key="value"` words.
fn split_options(text: &str) -> (String, Map<String, Value>) {
    if let Some(at) = text.find('{')
        && let Some(Ok(Value::Object(options))) = text.get(at..).map(serde_json::from_str)
    {
        return (text.get(..at).unwrap_or_default().trim().to_owned(), options);
    }
    let is_option = |word: &str| {
        word.split_once('=').is_some_and(|(key, value)| {
            let named =
                !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || "_-.".contains(c));
            named && serde_json::from_str::<Value>(value).is_ok()
        })
    };
    // Only words at the end are options, so that a title may hold an `=`.
    let words = words_of(text);
    let from = words.iter().rposition(|word| !is_option(word)).map_or(0, |at| at + 1);
    let (title, options) = words.split_at(from.min(words.len()));
    let options = options.iter().filter_map(|word| {
        let (key, value) = word.split_once('=')?;
        Some((key.to_owned(), serde_json::from_str(value).ok()?))
    });
    let options: Map<String, Value> = options.collect();
    if options.is_empty() { (text.to_owned(), options) } else { (title.join(" "), options) }
}

/// Words, of which one in double quotes or brackets may hold spaces.
fn words_of(text: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let (mut quoted, mut depth) = (false, 0_u32);
    for c in text.chars() {
        match c {
            '"' => quoted = !quoted,
            '[' if !quoted => depth += 1,
            ']' if !quoted => depth = depth.saturating_sub(1),
            _ => {}
        }
        if c.is_whitespace() && !quoted && depth == 0 {
            words.push(String::new());
        } else if let Some(word) = words.last_mut() {
            word.push(c);
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// Whether a string that may span lines is open at the end of what was passed.
struct Strings {
    language: Language,
    open: Option<Quote>,
}

enum Quote {
    /// Python's three quotes.
    Triple(char),
    /// A single quote that goes on after a backslash at the end of a line; R's may span lines anyway.
    Single(char),
    /// R's `r"---( )---"`: what closes it.
    RawR(String),
}

impl Strings {
    const fn new(language: Language) -> Self {
        Self { language, open: None }
    }

    const fn is_open(&self) -> bool {
        self.open.is_some()
    }

    fn pass(&mut self, line: &str) {
        let mut rest = line;
        // Each round takes at least one character off.
        while !rest.is_empty() {
            rest = match &self.open {
                None => self.pass_code(rest),
                Some(_) => self.pass_string(rest),
            };
        }
        if self.language == Language::Python
            && matches!(self.open, Some(Quote::Single(_)))
            && !line.ends_with('\\')
        {
            // An unclosed quote is a syntax error of that line and of no other.
            self.open = None;
        }
    }

    fn pass_code<'a>(&mut self, text: &'a str) -> &'a str {
        let Some(at) = text.find(['#', '"', '\'', '`']) else { return "" };
        let (before, here) = text.split_at(at);
        let quote = here.chars().next().unwrap_or('#');
        if quote == '#' {
            return "";
        }
        let prefix: &str =
            before.rsplit(|c: char| !c.is_ascii_alphanumeric() && c != '_').next().unwrap_or("");
        match self.language {
            Language::Python => {
                if quote == '`' {
                    return here.get(1..).unwrap_or("");
                }
                let triple: String = std::iter::repeat_n(quote, 3).collect();
                if let Some(rest) = here.strip_prefix(&triple) {
                    self.open = Some(Quote::Triple(quote));
                    return rest;
                }
                self.open = Some(Quote::Single(quote));
                here.get(1..).unwrap_or("")
            }
            Language::R => {
                let rest = here.get(1..).unwrap_or("");
                if matches!(prefix, "r" | "R") && quote != '`' {
                    let dashes = rest.len() - rest.trim_start_matches('-').len();
                    let bracket = rest.get(dashes..).and_then(|rest| rest.chars().next());
                    let close = bracket.and_then(|c| match c {
                        '(' => Some(')'),
                        '[' => Some(']'),
                        '{' => Some('}'),
                        _ => None,
                    });
                    if let Some(close) = close {
                        self.open = Some(Quote::RawR(format!("{close}{}{quote}", "-".repeat(dashes))));
                        return rest.get(dashes + 1..).unwrap_or("");
                    }
                }
                self.open = Some(Quote::Single(quote));
                rest
            }
        }
    }

    fn pass_string<'a>(&mut self, text: &'a str) -> &'a str {
        let end = match &self.open {
            None => Some(0),
            Some(Quote::RawR(close)) => text.find(close.as_str()).map(|at| at + close.len()),
            // In a raw string a backslash stands for itself but still guards the quote behind it.
            Some(Quote::Triple(quote)) => end_of(text, &std::iter::repeat_n(*quote, 3).collect::<String>()),
            Some(Quote::Single(quote)) => end_of(text, quote.encode_utf8(&mut [0; 4])),
        };
        match end {
            Some(end) => {
                self.open = None;
                text.get(end..).unwrap_or("")
            }
            None => "",
        }
    }
}

/// Where a string ends, behind the quote that closes it and that no backslash guards.
fn end_of(text: &str, close: &str) -> Option<usize> {
    let mut guarded = false;
    for (at, c) in text.char_indices() {
        if guarded {
            guarded = false;
        } else if c == '\\' {
            guarded = true;
        } else if text.get(at..).is_some_and(|rest| rest.starts_with(close)) {
            return Some(at + close.len());
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn python(text: &str) -> Vec<(CellKind, String)> {
        read(text, Language::Python).cells.into_iter().map(|cell| (cell.kind, cell.source)).collect()
    }

    const CODE: CellKind = CellKind::Code(Language::Python);

    #[test]
    fn a_script_without_markers_is_one_cell() {
        assert_eq!(python("\n\nx = 1\ny = 2\n\n"), [(CODE, "x = 1\ny = 2".into())]);
        assert_eq!(python(""), []);
        assert_eq!(python("\n \n"), []);
    }

    #[test]
    fn cells_begin_at_markers_and_empty_ones_are_none() {
        let text = "import os\n# %%\nx = 1\n\n#%% second\ny = 2\n# %%\n\n# %%% deeper\nz = 3\n";
        let cells = read(text, Language::Python).cells;
        let seen: Vec<_> =
            cells.iter().map(|cell| (cell.line, cell.title.as_deref(), cell.source.as_str())).collect();
        assert_eq!(
            seen,
            [
                (Some(1), None, "import os"),
                (Some(3), None, "x = 1"),
                (Some(6), Some("second"), "y = 2"),
                (Some(10), Some("deeper"), "z = 3"),
            ]
        );
    }

    #[test]
    fn prose_is_read_from_comments_and_from_strings() {
        let text =
            "# %% [markdown]\n# # Title\n#\n# text\n# %% [md] notes\n\"\"\"\nmore\n\"\"\"\n# %% [raw]\n# r\n";
        assert_eq!(
            python(text),
            [
                (CellKind::Markdown, "# Title\n\ntext".into()),
                (CellKind::Markdown, "more".into()),
                (CellKind::Raw, "r".into()),
            ]
        );
    }

    #[test]
    fn a_marker_inside_a_string_is_text() {
        let text =
            "s = \"\"\"\n# %% not a cell\n\"\"\"\nt = 'it\\'s' # \"\"\"\n# %%\nu = r'''\\'''\n# %%\nv = 1\n";
        assert_eq!(
            python(text).into_iter().map(|(_, source)| source).collect::<Vec<_>>(),
            ["s = \"\"\"\n# %% not a cell\n\"\"\"\nt = 'it\\'s' # \"\"\"", "u = r'''\\'''\n# %%\nv = 1",]
        );
    }

    #[test]
    fn an_unclosed_quote_spoils_its_own_line_only() {
        assert_eq!(python("x = 'oops\n# %%\ny = 1\n").len(), 2);
    }

    #[test]
    fn a_magic_that_looks_like_a_marker_is_a_comment() {
        assert_eq!(python("# %%time\nx = 1\n"), [(CODE, "# %%time\nx = 1".into())]);
        assert_eq!(python("  # %%\nx = 1\n").len(), 1);
    }

    #[test]
    fn options_are_kept_and_can_switch_a_cell_off() {
        let text = "# %% load data tags=[\"a\", \"b\"] eval=false\nx\n# %% {\"k\": 1}\ny\n# %% a = b\nz\n";
        let cells = read(text, Language::Python).cells;
        assert_eq!(cells[0].kind, CellKind::Inert);
        assert_eq!(cells[0].title.as_deref(), Some("load data"));
        assert_eq!(cells[0].metadata.get("tags"), Some(&serde_json::json!(["a", "b"])));
        assert_eq!(cells[1].metadata.get("k"), Some(&serde_json::json!(1)));
        assert_eq!(cells[2].title.as_deref(), Some("a = b"));
    }

    #[test]
    fn the_header_of_jupytext_is_not_a_cell() {
        let text = "# ---\n# jupyter:\n#   kernelspec: x\n# ---\n\n# %%\nx = 1\n";
        assert_eq!(python(text), [(CODE, "x = 1".into())]);
        assert_eq!(python("# ---\nx = 1\n"), [(CODE, "# ---\nx = 1".into())]);
    }

    #[test]
    fn an_r_string_may_span_lines_and_may_be_raw() {
        let text = "s <- 'one\n# %% no\n'\n# %% yes\nr <- r\"--(a\n# %% no)-\"\n)--\"\n# %%\nx <- 1 # it's\n# %%\ny\n";
        let cells = read(text, Language::R).cells;
        let sources: Vec<_> = cells.iter().map(|cell| cell.source.as_str()).collect();
        assert_eq!(
            sources,
            ["s <- 'one\n# %% no\n'", "r <- r\"--(a\n# %% no)-\"\n)--\"", "x <- 1 # it's", "y"]
        );
    }

    #[test]
    fn any_text_is_read_and_no_code_is_lost() {
        for text in ["'", "\"\"\"", "r'", "\\", "# %%\n'''\n# %%\n", "é'é\\", "x = f'''{a!r}''' '''"] {
            let cells = python(text);
            let kept: usize = cells.iter().map(|(_, source)| source.len()).sum();
            let markers = text.lines().filter(|line| Marker::of(line).is_some()).count();
            assert!(kept > 0 || markers > 0, "{text:?}");
        }
    }
}
