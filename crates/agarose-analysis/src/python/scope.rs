//! Which names a block binds, as CPython's symbol table has it.

use super::kinds::{Field, Kind, Tree};
use crate::flow::Var;
use crate::symbols::{FastMap, Symbol};
use crate::tree::{NONE, Node};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ScopeKind {
    Module,
    Function,
    Class,
    Comprehension,
    TypeParameters,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Binding {
    Local(Var),
    Global,
    Nonlocal,
}

pub(super) struct Scope {
    pub(super) kind: ScopeKind,
    pub(super) names: FastMap<Symbol, Binding>,
    /// The class whose name mangles private names.
    pub(super) mangle: Option<Symbol>,
}

impl Scope {
    pub(super) fn new(kind: ScopeKind, mangle: Option<Symbol>) -> Self {
        Self { kind, names: FastMap::default(), mangle }
    }
}

/// How a block mentions a name in a binding position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mention {
    Bound,
    Global,
    Nonlocal,
}

/// Every name that the block under `root` binds or declares, without the blocks inside of it.
pub(super) fn mentions(tree: &Tree, root: Node, found: &mut Vec<(Node, Mention)>) {
    if root == NONE {
        return;
    }
    let mut skips: Vec<Node> = Vec::new();
    let end = tree.after(root);
    let mut at = root;
    while at < end {
        if skips.last() == Some(&at) {
            skips.pop();
            at = tree.after(at);
            continue;
        }
        match tree.kind(at) {
            Kind::Function | Kind::ClassDefinition => {
                let name = tree.child(at, Field::Name);
                if name != NONE {
                    found.push((name, Mention::Bound));
                }
                skip(tree, at, &mut skips);
            }
            Kind::Lambda => skip(tree, at, &mut skips),
            // `(x): T` declares nothing, `x: T` makes `x` a local.
            Kind::Assignment
                if tree.child(at, Field::Right) == NONE
                    && !matches!(tree.child(at, Field::Left), left if left != NONE && tree.kind(left) == Kind::Identifier) =>
                {}
            Kind::Assignment | Kind::Augmented | Kind::For => {
                targets(tree, tree.child(at, Field::Left), found);
            }
            Kind::TypeAlias => targets(tree, tree.child(at, Field::Left), found),
            Kind::Named => {
                let name = tree.child(at, Field::Name);
                if name != NONE {
                    found.push((name, Mention::Bound));
                }
            }
            Kind::AsTarget | Kind::Delete => targets(tree, at, found),
            Kind::Except => {
                targets(tree, tree.child(at, Field::Alias), found);
            }
            Kind::Import | Kind::ImportFrom | Kind::Future => {
                for name in tree.children(at).filter(|node| tree.field(*node) == Field::Name) {
                    let bound = match tree.kind(name) {
                        Kind::AliasedImport => tree.child(name, Field::Alias),
                        _ if tree.kind(at) == Kind::Import => tree.first(name),
                        _ => tree.children(name).last().unwrap_or(NONE),
                    };
                    if bound != NONE {
                        found.push((bound, Mention::Bound));
                    }
                }
                at = tree.after(at);
                continue;
            }
            Kind::Global | Kind::Nonlocal => {
                let mention = if tree.kind(at) == Kind::Global { Mention::Global } else { Mention::Nonlocal };
                found.extend(tree.children(at).map(|name| (name, mention)));
            }
            Kind::Case => {
                for pattern in tree.children(at).filter(|node| tree.kind(*node) == Kind::CasePattern) {
                    captures(tree, pattern, found);
                }
            }
            _ => {}
        }
        at += 1;
    }
}

fn skip(tree: &Tree, node: Node, skips: &mut Vec<Node>) {
    let body = tree.child(node, Field::Body);
    if body != NONE {
        skips.push(body);
    }
}

/// The plain names of a target list.
pub(super) fn targets(tree: &Tree, root: Node, found: &mut Vec<(Node, Mention)>) {
    if root == NONE {
        return;
    }
    let end = tree.after(root);
    let mut at = root;
    while at < end {
        match tree.kind(at) {
            Kind::Identifier => {
                found.push((at, Mention::Bound));
                at += 1;
            }
            Kind::PatternList
            | Kind::ListPattern
            | Kind::TuplePattern
            | Kind::SplatPattern
            | Kind::AsTarget
            | Kind::Tuple
            | Kind::List
            | Kind::Parenthesized
            | Kind::ListSplat
            | Kind::Delete
            | Kind::ExpressionList
            | Kind::Type => at += 1,
            Kind::GenericType => {
                // `type A[T] = …`: the name is the first child, the rest are parameters.
                if let Some(name) = tree.children(at).next() {
                    found.push((name, Mention::Bound));
                }
                at = tree.after(at);
            }
            _ => at = tree.after(at),
        }
    }
}

/// The names that a case pattern captures.
pub(super) fn captures(tree: &Tree, root: Node, found: &mut Vec<(Node, Mention)>) {
    let end = tree.after(root);
    let mut at = root;
    while at < end {
        match tree.kind(at) {
            Kind::DottedName => {
                let mut parts = tree.children(at);
                if let (Some(name), None) = (parts.next(), parts.next()) {
                    found.push((name, Mention::Bound));
                }
                at = tree.after(at);
            }
            Kind::ClassPattern => {
                // Its name is read; the patterns in it capture.
                at = tree.children(at).next().map_or(tree.after(at), |name| tree.after(name));
            }
            Kind::KeywordPattern => {
                at = tree.children(at).next().map_or(tree.after(at), |name| tree.after(name));
            }
            Kind::Identifier => {
                found.push((at, Mention::Bound));
                at += 1;
            }
            _ => at += 1,
        }
    }
}
