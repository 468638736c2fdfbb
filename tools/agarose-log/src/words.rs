//! Small pieces of sentences: counts with nouns, bytes with units, names that cannot harm a terminal.

use std::borrow::Cow;

use agarose_core::{Language, Owner, OwnerKind};

/// A count with its noun.
pub(crate) fn count(n: u64, one: &str, many: &str) -> String {
    format!("{n} {}", if n == 1 { one } else { many })
}

/// Bytes with their unit: `120 bytes`, `1.5 KiB`, `3.0 MiB`.
pub(crate) fn bytes(n: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if n < 1024 {
        return count(n, "byte", "bytes");
    }
    let mut tenths = u128::from(n) * 10 / 1024;
    let mut unit = 0;
    while tenths >= 10_240 && unit + 1 < UNITS.len() {
        tenths /= 1024;
        unit += 1;
    }
    format!("{}.{} {}", tenths / 10, tenths % 10, UNITS.get(unit).copied().unwrap_or("KiB"))
}

/// A text on one line, for a terminal: control characters are written as escapes, so that a text in
/// the log cannot move the cursor or colour what follows.
pub(crate) fn plain(text: &str) -> Cow<'_, str> {
    if text.chars().any(is_unsafe) { Cow::Owned(escaped(text, |_| false)) } else { Cow::Borrowed(text) }
}

fn escaped(text: &str, keep: impl Fn(char) -> bool) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        if is_unsafe(c) && !keep(c) { safe.extend(c.escape_default()) } else { safe.push(c) }
    }
    safe
}

/// A text of several lines, for a terminal: line ends and tabs stay.
pub(crate) fn plain_lines(text: &str) -> String {
    escaped(&text.replace("\r\n", "\n"), |c| matches!(c, '\n' | '\t'))
}

/// Control characters, and those that turn the direction of what follows.
fn is_unsafe(c: char) -> bool {
    c.is_control() || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// A text on one line, cut to `limit` characters.
pub(crate) fn short(text: &str, limit: usize) -> String {
    let safe = plain(text);
    match safe.char_indices().nth(limit) {
        Some((at, _)) => format!("{}…", safe.get(..at).unwrap_or_default()),
        None => safe.into_owned(),
    }
}

/// A text in quotation marks.
pub(crate) fn quoted(text: &str) -> String {
    format!("\"{}\"", short(text, 300))
}

/// Who asks, in words.
pub(crate) fn who(owner: &Owner) -> String {
    let id = plain(owner.id());
    match owner.kind {
        OwnerKind::Agent => format!("agent {id}"),
        OwnerKind::UserRepl => format!("user {id}"),
        OwnerKind::Lifecycle => format!("{id} (kernel lifecycle)"),
        OwnerKind::Recovery => format!("{id} (recovery)"),
        OwnerKind::System => "Agarose".to_owned(),
    }
}

/// The interpreter's own name.
pub(crate) const fn interpreter(language: Language) -> &'static str {
    match language {
        Language::Python => "Python",
        Language::R => "R",
    }
}

/// The same text with a capital first letter.
pub(crate) fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_and_counts_have_units() {
        let all = [0, 1, 1023, 1024, 1536, 1_048_576, 5_368_709_120, u64::MAX];
        let texts: Vec<String> = all.into_iter().map(bytes).collect();
        let expected =
            ["0 bytes", "1 byte", "1023 bytes", "1.0 KiB", "1.5 KiB", "1.0 MiB", "5.0 GiB", "16777215.9 TiB"];
        assert_eq!(texts, expected);
        assert_eq!(
            (count(1, "cell", "cells"), count(2, "cell", "cells")),
            ("1 cell".into(), "2 cells".into())
        );
    }

    #[test]
    fn a_text_of_the_log_cannot_command_the_terminal() {
        assert_eq!(plain("a\u{1b}[31mb\nc"), "a\\u{1b}[31mb\\nc");
        assert_eq!(plain("\u{202e}x"), "\\u{202e}x");
        assert_eq!(plain("naïve"), "naïve");
        assert_eq!(plain_lines("a\tb\r\nc\u{7}"), "a\tb\nc\\u{7}");
        assert_eq!(short("abcdef", 3), "abc…");
    }
}
