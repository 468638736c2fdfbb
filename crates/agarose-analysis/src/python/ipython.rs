//! IPython's own lines, turned into Python of the same length before the parser sees them, so that every
//! place stays where it was.

use super::Walker;
use crate::facts::{Access, Certainty, Channel, Code, Effect, Scope as NameScope, Via, WriteKind};
use crate::flow::FRESH;
use crate::span::Range;

/// What a magic does that the rewritten Python does not say.
pub(super) enum Magic {
    /// Names read by the line (`!ls {d}`, `$x`).
    Reads(String, Range),
    /// Names bound by it.
    Binds(String, Range),
    /// Code whose assignments do not leak.
    Inner(String, Range),
    /// Unknown effect on names.
    Unknown(String, Effect, Range),
    /// Another process or language.
    Outside(String, Range),
    /// Changes the working directory.
    Directory(Range),
    Environment(Range),
}

pub(super) struct Cell {
    /// The rewritten text, if anything had to be rewritten.
    pub(super) text: Option<String>,
    pub(super) magics: Vec<Magic>,
}

/// Cell magics that run their cell in the session.
const TRANSPARENT: &[&str] = &["time", "prun", "capture", "memit", "mprun", "lprun", "snakeviz", "heat"];
/// Line magics that neither bind nor change names.
const HARMLESS: &[&str] = &[
    "matplotlib",
    "config",
    "load_ext",
    "reload_ext",
    "unload_ext",
    "autoreload",
    "who",
    "whos",
    "who_ls",
    "pwd",
    "ls",
    "ll",
    "pinfo",
    "pinfo2",
    "pdoc",
    "psource",
    "history",
    "hist",
    "lsmagic",
    "magic",
    "quickref",
    "precision",
    "pprint",
    "colors",
    "xmode",
    "pdb",
    "debug",
    "tb",
    "alias_magic",
    "aimport",
    "conda",
    "pip",
    "mamba",
    "micromamba",
    "load",
    "page",
    "notebook",
    "doctest_mode",
    "logstart",
    "logstop",
    "logon",
    "logoff",
    "gui",
    "automagic",
    "bookmark",
    "dirs",
    "dhist",
    "cat",
    "less",
    "more",
    "man",
    "rerun_",
    "recall",
    "save",
    "pastebin",
    "uv",
    "watermark",
    "tensorboard",
];

pub(super) fn lex(source: &str) -> Cell {
    let mut cell = Cell { text: None, magics: Vec::new() };
    if !source.contains(['%', '!', '?']) {
        return cell;
    }
    let first = source.lines().find(|line| !line.trim().is_empty()).unwrap_or("");
    if let Some(rest) = first.trim_start().strip_prefix("%%")
        && !first.starts_with(char::is_whitespace)
    {
        let start = first.as_ptr() as usize - source.as_ptr() as usize;
        return cell_magic(source, rest, start, first.len());
    }
    let mut state = State::default();
    let mut text: Option<String> = None;
    let mut at = 0;
    for line in source.split_inclusive('\n') {
        let start = at;
        at += line.len();
        let fresh = state.is_fresh();
        let body = line.trim_end_matches(['\n', '\r']);
        if fresh && let Some(new) = rewrite(body, start as u32, &mut cell.magics) {
            debug_assert_eq!(new.len(), body.len());
            let text = text.get_or_insert_with(|| source.to_owned());
            text.replace_range(start..start + body.len(), &new);
            state.line(&new);
            continue;
        }
        state.line(body);
    }
    cell.text = text;
    cell
}

/// Whether a line continues the one before: inside brackets or a long string, or after a backslash.
#[derive(Default)]
struct State {
    depth: u32,
    quote: Option<&'static str>,
    backslash: bool,
}

impl State {
    fn is_fresh(&self) -> bool {
        self.depth == 0 && self.quote.is_none() && !self.backslash
    }

    fn line(&mut self, line: &str) {
        let bytes = line.as_bytes();
        let mut at = 0;
        self.backslash = false;
        while at < bytes.len() {
            let rest = &line.as_bytes()[at..];
            if let Some(quote) = self.quote {
                if rest[0] == b'\\' {
                    at += 2;
                } else if rest.starts_with(quote.as_bytes()) {
                    at += quote.len();
                    self.quote = None;
                } else {
                    at += 1;
                }
                continue;
            }
            match rest[0] {
                b'#' => return,
                b'(' | b'[' | b'{' => self.depth += 1,
                b')' | b']' | b'}' => self.depth = self.depth.saturating_sub(1),
                b'\\' if at + 1 == bytes.len() => self.backslash = true,
                b'"' | b'\'' => {
                    let quote = match (rest[0], rest.starts_with(b"\"\"\""), rest.starts_with(b"'''")) {
                        (_, true, _) => "\"\"\"",
                        (_, _, true) => "'''",
                        (b'"', ..) => "\"",
                        _ => "'",
                    };
                    self.quote = Some(quote);
                    at += quote.len();
                    continue;
                }
                _ => {}
            }
            at += 1;
        }
        if matches!(self.quote, Some("\"" | "'")) {
            self.backslash = line.ends_with('\\');
            if !self.backslash {
                self.quote = None;
            }
        }
    }
}

fn range(start: u32, len: usize) -> Range {
    Range { start, end: start + len as u32 }
}

/// A line in Python of the same length, if it is IPython's.
fn rewrite(line: &str, start: u32, magics: &mut Vec<Magic>) -> Option<String> {
    let code = line.trim_start();
    let indent = line.len() - code.len();
    let at = range(start + indent as u32, code.len());
    let first = code.bytes().next()?;
    if first == b'%' || first == b'!' {
        let new = command(code, at, magics)?;
        return Some(format!("{}{new}", &line[..indent]));
    }
    if first == b'?' {
        let marks = code.len() - code.trim_start_matches('?').len();
        let named = code.trim_matches('?').trim();
        if is_dotted(named) {
            return Some(format!("{}{}{}", &line[..indent], "+".repeat(marks), blank_marks(&code[marks..])));
        }
        return Some(format!("{}{}", &line[..indent], filler(code.len())));
    }
    let trimmed = code.trim_end();
    if trimmed.ends_with('?') {
        let named = trimmed.trim_end_matches('?').trim_end();
        if is_dotted(named) {
            return Some(format!("{}{}", &line[..indent], blank_marks(code)));
        }
        if named.starts_with('%') || named.ends_with('*') {
            return Some(format!("{}{}", &line[..indent], filler(code.len())));
        }
    }
    // `x = !command`, `x = %magic`.
    let equals = code.find('=')?;
    let (left, right) = code.split_at(equals + 1);
    let target = left[..equals].trim();
    let value = right.trim_start();
    if !(value.starts_with('!') || value.starts_with('%')) || target.is_empty() {
        return None;
    }
    let target_ok = target.split(',').all(|part| {
        let part = part.trim();
        !part.is_empty()
            && part.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '.' | '[' | ']' | '"' | '\''))
    });
    if !target_ok {
        return None;
    }
    let offset = line.len() - value.len();
    let at = range(start + offset as u32, value.len());
    if let Some(shell) = value.strip_prefix('!') {
        magics.push(Magic::Reads(shell.to_owned(), at));
        magics.push(Magic::Outside("!".to_owned(), at));
    } else {
        let (name, rest) = split_word(&value[1..]);
        match name {
            "timeit" | "time" | "prun" => magics.push(Magic::Inner(rest.to_owned(), at)),
            "pwd" | "env" | "who_ls" | "history" | "alias" => {}
            _ => magics.push(Magic::Unknown(name.to_owned(), Effect::ALL, at)),
        }
    }
    Some(format!("{}{}", &line[..offset], filler(value.len())))
}

/// `%magic …` or `!command` as a statement.
fn command(code: &str, at: Range, magics: &mut Vec<Magic>) -> Option<String> {
    if let Some(shell) = code.strip_prefix('!') {
        magics.push(Magic::Reads(shell.trim_start_matches('!').to_owned(), at));
        magics.push(Magic::Outside("!".to_owned(), at));
        return Some(filler(code.len()));
    }
    let (name, rest) = split_word(&code[1..]);
    if !name.chars().all(|c| c.is_alphanumeric() || c == '_' || c == '%') || name.is_empty() {
        return None;
    }
    match name {
        "time" | "prun" | "memit" | "lprun" => {
            // Options come first; the rest is a statement of the session.
            let mut statement = rest;
            while statement.starts_with('-') {
                let (_, after) = split_word(statement);
                statement = after;
                if name == "lprun" && !statement.starts_with('-') {
                    let (_, after) = split_word(statement);
                    statement = after;
                }
            }
            let used = code.len() - statement.len();
            if statement.is_empty() {
                return Some(filler(code.len()));
            }
            if used < 2 {
                return None;
            }
            return Some(format!("0{};{statement}", " ".repeat(used - 2)));
        }
        "timeit" => magics.push(Magic::Inner(strip_options(rest).to_owned(), at)),
        "run" => magics.push(Magic::Unknown("run".to_owned(), Effect::ALL, at)),
        "xdel" => magics.push(Magic::Unknown("xdel".to_owned(), Effect::DELETES, at)),
        "reset" | "reset_selective" => magics.push(Magic::Unknown(name.to_owned(), Effect::DELETES, at)),
        "cd" | "pushd" | "popd" => {
            magics.push(Magic::Reads(rest.to_owned(), at));
            magics.push(Magic::Directory(at));
        }
        "env" | "set_env" => magics.push(Magic::Environment(at)),
        "pylab" => magics.push(Magic::Unknown("pylab".to_owned(), Effect::WRITES, at)),
        "store" => magics.push(Magic::Unknown("store".to_owned(), Effect::WRITES, at)),
        "sx" | "system" => {
            magics.push(Magic::Reads(rest.to_owned(), at));
            magics.push(Magic::Outside(name.to_owned(), at));
        }
        "sc" => {
            let target = rest.trim_start_matches("-l").trim_start();
            let (target, _) = target.split_once('=').unwrap_or((target, ""));
            magics.push(Magic::Binds(target.trim().to_owned(), at));
            magics.push(Magic::Outside(name.to_owned(), at));
        }
        "macro" => magics.push(Magic::Binds(split_word(rest).0.to_owned(), at)),
        _ if HARMLESS.contains(&name) => {
            if matches!(name, "config" | "matplotlib" | "precision") {
                // Settings of the display.
            }
        }
        _ => magics.push(Magic::Unknown(name.to_owned(), Effect::ALL, at)),
    }
    Some(filler(code.len()))
}

fn strip_options(rest: &str) -> &str {
    let mut rest = rest;
    while let Some(option) = rest.strip_prefix('-') {
        let (word, after) = split_word(option);
        rest = after;
        if matches!(word, "n" | "r" | "p" | "t" | "c")
            && word.len() == 1
            && rest.starts_with(|c: char| c.is_ascii_digit())
        {
            rest = split_word(rest).1;
        }
    }
    rest
}

fn cell_magic(source: &str, rest: &str, start: usize, len: usize) -> Cell {
    let (name, options) = split_word(rest);
    let mut magics = Vec::new();
    let line = range(start as u32, len);
    let whole = range(start as u32, source.len() - start);
    let body = source.get(start + len..).unwrap_or("");
    let mut text = source.to_owned();
    if TRANSPARENT.contains(&name) {
        if name == "capture"
            && let Some(target) = options.split_whitespace().find(|word| !word.starts_with('-'))
        {
            magics.push(Magic::Binds(target.to_owned(), line));
        }
        let inner = lex_body(body, (start + len) as u32, &mut magics);
        let statement = if name == "capture" { "" } else { strip_options(options) };
        let used = len - statement.len();
        let head = if statement.is_empty() || used < 2 {
            filler(len)
        } else {
            format!("0{};{statement}", " ".repeat(used - 2))
        };
        text.replace_range(start..start + len, &head);
        if let Some(inner) = inner {
            text.replace_range(start + len.., &inner);
        }
        return Cell { text: Some(text), magics };
    }
    match name {
        "timeit" => {
            let mut code = strip_options(options).to_owned();
            code.push_str(body);
            magics.push(Magic::Inner(code, whole));
        }
        "bash" | "sh" | "script" | "perl" | "ruby" | "javascript" | "js" | "html" | "HTML" | "latex"
        | "markdown" | "svg" | "SVG" | "cmd" | "python2" | "pypy" | "python3" | "python" | "writefile"
        | "file" | "system" | "sx" | "!" => {
            let mut words = options.split_whitespace();
            while let Some(word) = words.next() {
                if matches!(word, "--out" | "--err" | "--proc")
                    && let Some(target) = words.next()
                {
                    magics.push(Magic::Binds(target.to_owned(), line));
                }
            }
            let shows =
                matches!(name, "javascript" | "js" | "html" | "HTML" | "latex" | "markdown" | "svg" | "SVG");
            if !shows {
                magics.push(Magic::Outside(name.to_owned(), whole));
            }
            if matches!(name, "bash" | "sh" | "script" | "!" | "system" | "sx") {
                magics.push(Magic::Reads(body.to_owned(), whole));
            }
        }
        _ => magics.push(Magic::Unknown(name.to_owned(), Effect::ALL, whole)),
    }
    let blank: String = text
        .bytes()
        .map(|byte| if byte == b'\n' || byte == b'\r' { char::from(byte) } else { ' ' })
        .collect();
    Cell { text: Some(blank), magics }
}

/// The lines after a transparent cell magic, rewritten.
fn lex_body(body: &str, start: u32, magics: &mut Vec<Magic>) -> Option<String> {
    let inner = lex(body);
    for magic in inner.magics {
        magics.push(magic.moved(start));
    }
    inner.text
}

impl Magic {
    fn moved(self, by: u32) -> Self {
        let shift = |at: Range| Range { start: at.start + by, end: at.end + by };
        match self {
            Self::Reads(text, at) => Self::Reads(text, shift(at)),
            Self::Binds(text, at) => Self::Binds(text, shift(at)),
            Self::Inner(text, at) => Self::Inner(text, shift(at)),
            Self::Unknown(text, effect, at) => Self::Unknown(text, effect, shift(at)),
            Self::Outside(text, at) => Self::Outside(text, shift(at)),
            Self::Directory(at) => Self::Directory(shift(at)),
            Self::Environment(at) => Self::Environment(shift(at)),
        }
    }
}

/// A statement without effect that is `len` bytes long.
fn filler(len: usize) -> String {
    if len == 0 { String::new() } else { format!("0{}", " ".repeat(len - 1)) }
}

fn blank_marks(code: &str) -> String {
    code.chars().map(|c| if c == '?' { ' ' } else { c }).collect()
}

fn is_dotted(name: &str) -> bool {
    !name.is_empty()
        && name.split('.').all(|part| {
            part.starts_with(|c: char| c.is_alphabetic() || c == '_')
                && part.chars().all(|c| c.is_alphanumeric() || c == '_')
        })
}

fn split_word(text: &str) -> (&str, &str) {
    let text = text.trim_start();
    match text.find(char::is_whitespace) {
        Some(end) => (&text[..end], text[end..].trim_start()),
        None => (text, ""),
    }
}

/// Names in a shell line: `{expression}` and `$name`.
fn shell_names(line: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut rest = line;
    while let Some(at) = rest.find(['{', '$']) {
        let (opening, after) = rest[at..].split_at(1);
        let after = after.strip_prefix('{').unwrap_or(after);
        let word: String = after.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        let quoted = opening == "$" && rest[at..].starts_with("$$");
        if !word.is_empty() && !quoted && !word.starts_with(|c: char| c.is_ascii_digit()) {
            names.push(word);
        }
        if opening == "{"
            && let Some(end) = after.find('}')
        {
            let inner: &str = &after[..end];
            for part in inner.split(|c: char| !(c.is_alphanumeric() || c == '_' || c == '.')) {
                let root = part.split('.').next().unwrap_or("");
                if root.starts_with(|c: char| c.is_alphabetic() || c == '_') {
                    names.push(root.to_owned());
                }
            }
        }
        rest = after;
    }
    names
}

impl Walker<'_> {
    /// What magics read, before the cell's own statements can hide it.
    pub(super) fn magics_before(&mut self, magics: &[Magic]) {
        for magic in magics {
            if let Magic::Reads(text, at) = magic {
                for name in shell_names(text) {
                    let symbol = self.flow.symbols.intern_owned(name);
                    let var = self.flow.global(symbol);
                    self.flow.read_as(var, *at, Via::Text, Certainty::May);
                }
            }
        }
    }

    pub(super) fn magics_after(&mut self, magics: &[Magic]) {
        for magic in magics {
            match magic {
                Magic::Reads(..) => {}
                Magic::Binds(name, at) => {
                    let symbol = self.flow.symbols.intern_owned(name.clone());
                    let var = self.flow.global(symbol);
                    self.flow.write(var, FRESH, WriteKind::Bind, *at);
                }
                Magic::Inner(code, at) => {
                    // Read like a function that is called; every name that is not bound in it is looked up.
                    let (facts, _) = super::analyse(code, None);
                    for (name, read) in facts.reads {
                        let symbol = self.flow.symbols.intern_owned(name);
                        let var = self.flow.global(symbol);
                        self.flow.read_as(var, *at, Via::Immediate, read.certainty.min(Certainty::May));
                    }
                    for (name, write) in facts.writes {
                        if let Some(certainty) = (write.kinds.contains(&WriteKind::Mutate)
                            || write.kinds.contains(&WriteKind::CallMutate))
                        .then_some(write.certainty)
                        {
                            let symbol = self.flow.symbols.intern_owned(name);
                            let var = self.flow.global(symbol);
                            self.flow.touch(var, certainty, WriteKind::Mutate, true, *at);
                        }
                    }
                    for doubt in facts.uncertain {
                        self.flow.doubt(doubt.code, doubt.effect, doubt.scope, doubt.what.as_deref(), *at);
                    }
                }
                Magic::Unknown(name, effect, at) => {
                    self.flow.doubt(Code::Magic, *effect, NameScope::All, Some(name), *at);
                }
                Magic::Outside(name, at) => {
                    self.flow.channel(Channel::Process, Access::Write, None, *at);
                    let effect = Effect::default();
                    self.flow.doubt(Code::Embedded, effect, NameScope::All, Some(name), *at);
                }
                Magic::Directory(at) => self.flow.channel(Channel::Cwd, Access::Set, None, *at),
                Magic::Environment(at) => self.flow.channel(Channel::Environment, Access::Write, None, *at),
            }
        }
    }
}
