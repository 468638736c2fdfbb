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
//! | `ticket`, `slot`, `cell`, `watchdog`, `attempt` | one state machine each |
#![cfg_attr(not(test), no_std)]

extern crate alloc;

pub mod budget;
pub mod id;
pub mod time;

pub use budget::{Counters, Unit};
pub use id::{BlobRef, Generation, Language, Lease, Owner, OwnerKind, SessionId, TicketId};
pub use time::{Millis, Stamp};
