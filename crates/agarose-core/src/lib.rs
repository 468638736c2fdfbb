//! What happened, and what may happen next.
//!
//! This crate is pure: it knows no clock, no file, no socket, no thread, no float and no hashing
//! order. Time, ids and randomness come in with a command ([`Context`]) and are written into the
//! events. `decide` may refuse; `apply` cannot fail; the same events fold to the same [`World`] on
//! every machine and in every later version.
//!
//! | File | Its one reason |
//! |---|---|
//! | `id`, `time`, `budget` | the words everything else is made of |
//! | `command`, `event`, `effect`, `refusal` | the four vocabularies |
//! | `world` | `decide`, `apply`, `effects`, `next_deadline`, `in_flight`, `check` |
//! | `ticket`, `slot`, `cell`, `watchdog`, `attempt`, `permission`, `host_call`, `capability` | one state machine each |
#![cfg_attr(not(test), no_std)]
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::float_arithmetic,
        clippy::indexing_slicing,
        clippy::string_slice,
        clippy::wildcard_enum_match_arm
    )
)]

extern crate alloc;

pub mod attempt;
pub mod budget;
pub mod capability;
pub mod cell;
pub mod command;
pub mod effect;
pub mod event;
pub mod host_call;
pub mod id;
pub mod permission;
mod plan;
pub mod refusal;
pub mod session;
pub mod slot;
pub mod stream;
#[cfg(test)]
mod tests;
pub mod ticket;
pub mod time;
pub mod watchdog;
pub mod world;

pub use attempt::{EndCause, Executed, Word};
pub use budget::{Counters, Unit};
pub use command::{Command, Context};
pub use effect::{Effect, Obligation};
pub use event::Event;
pub use id::{BlobRef, Generation, Language, Lease, Owner, OwnerKind, SessionId, TicketId};
pub use permission::PermissionId;
pub use refusal::Refusal;
pub use time::{Millis, Stamp};
pub use world::{Answer, Decision, Policy, World};
