//! Sources that nobody writes: the answer is a reason, never silence, and no stack is exhausted.

use agarose_analysis::{Code, Language, analyse};

#[test]
fn a_source_that_is_too_deep_or_too_large_is_uncertain_and_never_silent() {
    let deep = 100_000;
    for source in [
        "(".repeat(deep),
        "[".repeat(deep) + &"]".repeat(deep),
        "f(".repeat(deep),
        "-".repeat(deep) + "1",
        "a".to_owned() + &"[a]".repeat(deep),
        "x = 1\n".repeat(200_000),
        "not ".repeat(deep) + "x",
        "\u{0}\u{feff}(".to_owned(),
        "function(x) ".repeat(deep) + "x",
    ] {
        for language in [Language::Python, Language::R] {
            let facts = analyse(language, &source);
            let start: String = source.chars().take(12).collect();
            let told = facts.uncertain.iter().any(|reason| {
                matches!(reason.code, Code::LimitExceeded | Code::SyntaxError | Code::SilentSyntax)
            });
            assert!(told, "{language:?} {start:?} has no reason");
            assert_eq!(facts, analyse(language, &source), "{language:?} {start:?} has two answers");
        }
    }
}
