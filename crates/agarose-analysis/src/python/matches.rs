//! `match [a, b]:` with a case of one expression, which the grammar takes for an annotation of an item of
//! `match`. The subject's brackets become parentheses, which keeps every place where it was.

use tree_sitter::Tree as Parsed;

use super::kinds::{Field, Kind, Tree, words};
use super::parse_python;
use crate::tree::{NONE, Node};

/// Statements inside statements that are looked at: each round shows one level more.
const MAX_ROUNDS: u32 = 16;

/// The text with such subjects in parentheses, if there are any.
pub(super) fn mend(text: &str, parsed: &Parsed) -> Option<String> {
    if !has_candidate(text) {
        return None;
    }
    let mut mended: Option<String> = None;
    let mut tree = Tree::of(parsed, words());
    for _ in 0..MAX_ROUNDS {
        let text = mended.as_deref().unwrap_or(text);
        let subjects: Vec<(usize, usize)> =
            (0..tree.nodes.len() as Node).filter_map(|node| subject(&tree, text, node)).collect();
        if subjects.is_empty() {
            break;
        }
        let mut bytes = text.as_bytes().to_vec();
        for (open, close) in subjects {
            if bytes.get(open) == Some(&b'[') && bytes.get(close) == Some(&b']') {
                bytes[open] = b'(';
                bytes[close] = b')';
            }
        }
        let next = String::from_utf8(bytes).ok()?;
        tree = Tree::of(&parse_python(&next, None)?, words());
        mended = Some(next);
    }
    mended
}

/// Whether some line begins as such a statement does: most cells are spared the walk.
fn has_candidate(text: &str) -> bool {
    text.lines().any(|line| {
        line.trim_start().strip_prefix("match").is_some_and(|rest| rest.trim_start().starts_with('['))
    })
}

/// The brackets of the subject, if the node is an annotation that is none: its type is on a later line.
fn subject(tree: &Tree, text: &str, node: Node) -> Option<(usize, usize)> {
    if tree.kind(node) != Kind::Assignment {
        return None;
    }
    let (left, annotation) = (tree.child(node, Field::Left), tree.child(node, Field::Type));
    if left == NONE || annotation == NONE {
        return None;
    }
    let between = text.get(tree.range(left).end as usize..tree.range(annotation).start as usize)?;
    if !between.contains('\n') || between.contains('\\') {
        return None;
    }
    (left..tree.after(left)).find_map(|at| {
        let item = tree.kind(at) == Kind::Subscript && {
            let value = tree.child(at, Field::Value);
            value != NONE && tree.text(text, value) == "match"
        };
        let open = item.then(|| text.get(tree.range(at).start as usize..)?.find('['))??;
        Some((tree.range(at).start as usize + open, (tree.range(at).end as usize).checked_sub(1)?))
    })
}
