//! Any text as a cell of either language, and any edit of it: no panic, and the same facts as from scratch.
#![no_main]

use agarose_analysis::{Editor, Language, analyse};

libfuzzer_sys::fuzz_target!(|input: (bool, &str, usize, usize, &str)| {
    let (python, source, start, length, text) = input;
    let language = if python { Language::Python } else { Language::R };
    let mut editor = Editor::new(language, source);
    let start = start % (source.len() + 1);
    let edited = editor.edit(start..start.saturating_add(length % 64), text).clone();
    assert_eq!(edited, analyse(language, editor.source()));
});
