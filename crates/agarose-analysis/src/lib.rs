//! What a cell reads, writes and deletes, found without running it; and which results are stale.
//!
//! [`analyse`] takes a source and gives [`Facts`]: names with how sure each fact is, what is *not* known and
//! why, what calls of the defined functions will do, and state that no name shows. [`stale::Project`] folds
//! the facts of what really ran into verdicts.
//!
//! Two promises. A fact is only left out when nothing that the source can do needs it; where that cannot be
//! seen, an [`Uncertain`] says so. And it is total: any bytes, any depth, bounded time, the same answer for
//! the same source.
//!
//! No I/O, no clock, no other Agarose crate.

mod digest;
mod editor;
mod effects;
mod facts;
mod flow;
pub mod policy;
mod python;
mod r;
mod slice;
mod span;
pub mod stale;
mod summary;
mod symbols;
mod tree;

pub use digest::sha256;
pub use editor::Editor;
pub use facts::{
    ANALYSER, Access, Alias, Argument, Call, Certainty, Channel, ChannelEvent, Code, Delete, Dialect, Effect,
    Facts, Function, Import, Language, Read, Scope, Shape, Strength, Uncertain, Via, Write, WriteKind,
};
pub use slice::{Slice, Step};
pub use span::Span;
pub use summary::{ChannelHint, FileHint, Reason, Summary};

/// The facts of a cell.
#[must_use]
pub fn analyse(language: Language, source: &str) -> Facts {
    match language {
        Language::Python => python::analyse(source, None).0,
        Language::R => r::analyse(source, None).0,
    }
}
