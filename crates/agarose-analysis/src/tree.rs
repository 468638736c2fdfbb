//! A parsed cell as one flat array in preorder: no recursion to build it, a subtree is a range of it.

use std::ops::ControlFlow;

use tree_sitter::{Language as Grammar, ParseOptions, Parser, Tree};

use crate::span::Range;

/// Position of a node in [`Flat`]. `NONE` is no node.
pub(crate) type Node = u32;
pub(crate) const NONE: Node = u32::MAX;

/// What the analysers keep of one syntax node.
#[derive(Clone, Copy)]
pub(crate) struct Entry<K, F> {
    pub(crate) kind: K,
    pub(crate) field: F,
    pub(crate) start: u32,
    pub(crate) end: u32,
    /// The first node after this subtree.
    next: Node,
}

/// The kinds and fields of a grammar as the analysers name them.
pub(crate) trait Vocabulary: Sized + 'static {
    type Kind: Copy + PartialEq;
    type Field: Copy + PartialEq;
    /// By grammar number: the kind, or nothing for a token that no analyser looks at.
    fn kind(&self, id: u16) -> Option<Self::Kind>;
    fn field(&self, id: Option<std::num::NonZeroU16>) -> Self::Field;
}

/// The whole tree, its faults, and how deep it goes.
pub(crate) struct Flat<V: Vocabulary> {
    pub(crate) nodes: Vec<Entry<V::Kind, V::Field>>,
    /// Where the grammar gave up or invented a token.
    pub(crate) faults: Vec<Range>,
}

impl<V: Vocabulary> Flat<V> {
    pub(crate) fn of(tree: &Tree, words: &V) -> Self {
        let mut flat = Self { nodes: Vec::new(), faults: Vec::new() };
        let root = tree.root_node();
        flat.nodes.reserve(root.descendant_count() / 2 + 8);
        let mut cursor = root.walk();
        let mut open: Vec<Node> = Vec::with_capacity(64);
        let faulty = root.has_error();
        'walk: loop {
            let node = cursor.node();
            let range = Range { start: node.start_byte() as u32, end: node.end_byte() as u32 };
            if faulty && (node.is_error() || node.is_missing()) {
                flat.faults.push(range);
            }
            let position = match words.kind(node.kind_id()) {
                Some(kind) => {
                    flat.nodes.push(Entry {
                        kind,
                        field: words.field(cursor.field_id()),
                        start: range.start,
                        end: range.end,
                        next: NONE,
                    });
                    flat.nodes.len() as Node - 1
                }
                None => NONE,
            };
            if cursor.goto_first_child() {
                open.push(position);
                continue;
            }
            flat.close(position);
            while !cursor.goto_next_sibling() {
                if !cursor.goto_parent() {
                    break 'walk;
                }
                let Some(position) = open.pop() else { break 'walk };
                flat.close(position);
            }
        }
        flat
    }

    fn close(&mut self, position: Node) {
        let next = self.nodes.len() as Node;
        if let Some(entry) = self.nodes.get_mut(position as usize) {
            entry.next = next;
        }
    }

    pub(crate) fn kind(&self, node: Node) -> V::Kind {
        self.nodes[node as usize].kind
    }

    pub(crate) fn field(&self, node: Node) -> V::Field {
        self.nodes[node as usize].field
    }

    pub(crate) fn range(&self, node: Node) -> Range {
        let entry = &self.nodes[node as usize];
        Range { start: entry.start, end: entry.end }
    }

    pub(crate) fn text<'s>(&self, source: &'s str, node: Node) -> &'s str {
        let range = self.range(node);
        source.get(range.start as usize..range.end as usize).unwrap_or("")
    }

    /// The first node after the subtree of `node`.
    pub(crate) fn after(&self, node: Node) -> Node {
        self.nodes[node as usize].next
    }

    pub(crate) fn first(&self, node: Node) -> Node {
        if node == NONE {
            return NONE;
        }
        if node + 1 < self.after(node) { node + 1 } else { NONE }
    }

    pub(crate) fn children(&self, parent: Node) -> Children<'_, V> {
        let (at, end) = if parent == NONE { (NONE, NONE) } else { (parent + 1, self.after(parent)) };
        Children { flat: self, at, end }
    }

    pub(crate) fn child(&self, parent: Node, field: V::Field) -> Node {
        self.children(parent).find(|node| self.field(*node) == field).unwrap_or(NONE)
    }
}

pub(crate) struct Children<'t, V: Vocabulary> {
    flat: &'t Flat<V>,
    at: Node,
    end: Node,
}

impl<V: Vocabulary> Iterator for Children<'_, V> {
    type Item = Node;

    fn next(&mut self) -> Option<Node> {
        if self.at >= self.end {
            return None;
        }
        let node = self.at;
        self.at = self.flat.after(node);
        Some(node)
    }
}

/// Bytes of a source that are parsed.
const MAX_SOURCE: usize = 1 << 20;
/// Brackets inside each other that are parsed. CPython allows 200 and R 50 contexts.
const MAX_BRACKETS: u32 = 512;

/// Parses within a budget of parser steps that follows from the length alone, so that the same source
/// always ends the same way. `None` means that it is hostile: it is larger or nests deeper than any cell, or
/// the budget ran out. Public cells need at most a step for 50 bytes, and next to none after an error.
pub(crate) fn parse(parser: &mut Parser, source: &str, old: Option<&Tree>) -> Option<Tree> {
    if source.len() > MAX_SOURCE || is_too_deep(source) {
        return None;
    }
    let budget = 2_000 + source.len() / 40;
    let after_error = 300 + source.len() / 10_000;
    let (mut calls, mut recovering) = (0_usize, 0_usize);
    let mut progress = |state: &tree_sitter::ParseState| {
        calls += 1;
        recovering += usize::from(state.has_error());
        if calls > budget || recovering > after_error {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    };
    let options = ParseOptions::new().progress_callback(&mut progress);
    let bytes = source.as_bytes();
    let tree = parser.parse_with_options(&mut |at, _| bytes.get(at..).unwrap_or(&[]), old, Some(options));
    if tree.is_none() {
        parser.reset();
    }
    tree
}

/// Brackets in strings and comments count too: what that mistakes is only called uncertain.
fn is_too_deep(source: &str) -> bool {
    let mut depth = 0_u32;
    source.bytes().any(|byte| {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth > MAX_BRACKETS
    })
}

/// A parser for `grammar`, or nothing when the grammar was built for another runtime.
pub(crate) fn parser(grammar: &Grammar) -> Option<Parser> {
    let mut parser = Parser::new();
    parser.set_language(grammar).ok()?;
    Some(parser)
}
