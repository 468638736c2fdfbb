//! Which names a function's body may bind in its own frame.

use super::kinds::{Field, Kind, Tree};
use crate::tree::{NONE, Node};

/// Calls whose arguments are not evaluated in the frame around them.
const ELSEWHERE: &[&str] = &[
    "quote",
    "bquote",
    "substitute",
    "expression",
    "local",
    "with",
    "within",
    "evalq",
    "expr",
    "quo",
    "exprs",
    "quos",
    "enquo",
    "alist",
    "withr::with_seed",
    "R6Class",
    "setRefClass",
    "~",
];

/// The names, as identifier or string nodes, that the code under `root` assigns to.
pub(super) fn assigned(tree: &Tree, source: &str, root: Node, found: &mut Vec<Node>) {
    if root == NONE {
        return;
    }
    let end = tree.after(root);
    let mut at = root;
    while at < end {
        match tree.kind(at) {
            Kind::Function if at != root => {
                at = tree.after(at);
                continue;
            }
            Kind::Call => {
                let function = tree.child(at, Field::Function);
                let name = if function == NONE { "" } else { tree.text(source, function) };
                if ELSEWHERE.contains(&name) {
                    at = tree.after(at);
                    continue;
                }
                if matches!(name, "assign" | "delayedAssign" | "makeActiveBinding") {
                    let arguments = tree.child(at, Field::Arguments);
                    let mut list = tree.children(arguments).filter(|node| tree.kind(*node) == Kind::Argument);
                    if let Some(first) = list.next()
                        && list.all(|node| {
                            let name = tree.child(node, Field::Name);
                            name == NONE
                                || !matches!(tree.text(source, name), "envir" | "pos" | "env" | "assign.env")
                        })
                    {
                        let value = tree.child(first, Field::Value);
                        if value != NONE && tree.kind(value) == Kind::String {
                            found.push(value);
                        }
                    }
                }
            }
            Kind::For => {
                let variable = tree.child(at, Field::Variable);
                if variable != NONE {
                    found.push(variable);
                }
            }
            Kind::Binary => {
                let operator = tree.child(at, Field::Operator);
                let target = match if operator == NONE { "" } else { tree.text(source, operator) } {
                    "<-" | "=" => tree.child(at, Field::Left),
                    "->" => tree.child(at, Field::Right),
                    _ => NONE,
                };
                if target != NONE
                    && let Some(root) = base(tree, target)
                {
                    found.push(root);
                }
            }
            _ => {}
        }
        at += 1;
    }
}

/// The symbol that an assignment to `target` changes: `x` in `names(x)[2]`, `x$a`, `x`.
pub(super) fn base(tree: &Tree, target: Node) -> Option<Node> {
    let mut at = target;
    loop {
        at = match tree.kind(at) {
            Kind::Identifier | Kind::String => return Some(at),
            Kind::Extract => tree.child(at, Field::Left),
            Kind::Subset | Kind::Subset2 => tree.child(at, Field::Function),
            Kind::Parenthesized => tree.child(at, Field::Body),
            Kind::Call => {
                let arguments = tree.child(at, Field::Arguments);
                let first = tree.children(arguments).find(|node| tree.kind(*node) == Kind::Argument)?;
                tree.child(first, Field::Value)
            }
            _ => return None,
        };
        if at == NONE {
            return None;
        }
    }
}
