//! A cell that is being edited: each change is parsed from what the parser knew before it.

use std::ops::Range;

use tree_sitter::{InputEdit, Point, Tree};

use crate::facts::{Facts, Language};
use crate::{python, r};

/// A source and its facts, kept equal to those of [`analyse`](crate::analyse) through every edit.
#[derive(Debug)]
pub struct Editor {
    language: Language,
    source: String,
    /// Nothing when the source was rewritten before it was parsed, or not parsed at all.
    tree: Option<Tree>,
    facts: Facts,
}

impl Editor {
    /// A source as it is.
    #[must_use]
    pub fn new(language: Language, source: impl Into<String>) -> Self {
        let source = source.into();
        let (facts, tree) = analyse(language, &source, None);
        Self { language, source, tree, facts }
    }

    /// The source as it is now.
    #[must_use]
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The facts of it.
    #[must_use]
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// Puts `text` in the place of some bytes. A range that is not in the source, or that cuts a character,
    /// is brought to the nearest that is and does not.
    pub fn edit(&mut self, range: Range<usize>, text: &str) -> &Facts {
        let start = floor(&self.source, range.start);
        let end = floor(&self.source, range.end).max(start);
        if let Some(tree) = &mut self.tree {
            let start_position = position(&self.source, start);
            let old_end_position = position(&self.source, end);
            self.source.replace_range(start..end, text);
            tree.edit(&InputEdit {
                start_byte: start,
                old_end_byte: end,
                new_end_byte: start + text.len(),
                start_position,
                old_end_position,
                new_end_position: position(&self.source, start + text.len()),
            });
        } else {
            self.source.replace_range(start..end, text);
        }
        (self.facts, self.tree) = analyse(self.language, &self.source, self.tree.as_ref());
        &self.facts
    }
}

fn analyse(language: Language, source: &str, old: Option<&Tree>) -> (Facts, Option<Tree>) {
    match language {
        Language::Python => python::analyse(source, old),
        Language::R => r::analyse(source, old),
    }
}

/// The last boundary of a character at or before `at`.
fn floor(source: &str, at: usize) -> usize {
    (0..=at.min(source.len())).rev().find(|at| source.is_char_boundary(*at)).unwrap_or(0)
}

fn position(source: &str, at: usize) -> Point {
    let before = source.get(..at).unwrap_or_default();
    let line = before.rfind('\n').map_or(0, |newline| newline + 1);
    Point { row: before.bytes().filter(|byte| *byte == b'\n').count(), column: at - line }
}

#[cfg(test)]
mod tests {
    use super::Editor;
    use crate::{Language, analyse};

    const PYTHON: &str = "import math\n\ndef f(q, k=x):\n    return [q + v for v in ys if v > k]\n\nfor i in \
                          range(3):\n    zs.append(f(i))\nmatch p:\n    case {'a': a, **rest}:\n        print(a)\n";
    const R: &str = "f <- function(x, y = z) {\n  x$a[1] <- y\n  g <<- x\n}\ndat %>% mutate(b = a + k)\nif (c) y <- \
                     0 else y <- \"ü\"\n";
    const PIECES: &[&str] = &[
        "", "", "x", " ", "\n", "(", ")", "= 1", "\"", "#", "é", "    ", "del y\n", "%time ", "[", "<- ",
        "'''",
    ];

    #[test]
    fn the_facts_after_any_edits_are_those_of_the_source_from_scratch() {
        // A generator of our own, so that every run edits alike.
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut next = |limit: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % limit.max(1)
        };
        for (language, source) in [(Language::Python, PYTHON), (Language::R, R)] {
            for _ in 0..40 {
                let mut editor = Editor::new(language, source);
                for _ in 0..12 {
                    let start = next(editor.source().len() + 1);
                    let end = start + next(6);
                    let facts = editor.edit(start..end, PIECES[next(PIECES.len())]).clone();
                    assert_eq!(facts, analyse(language, editor.source()), "{:?}", editor.source());
                }
            }
        }
    }
}
