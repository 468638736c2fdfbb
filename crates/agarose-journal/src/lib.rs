//! Bytes that survive: segments to be durable, a store to remember.
//!
//! A commit is one record in a preallocated segment and one fdatasync; then it is acknowledged. Behind
//! that mark a thread feeds the store (sled), which answers by sequence, session, ticket and key. Opening
//! compares the two and brings each up to what the other knows, or refuses and says what is damaged.
//!
//! This crate knows no async runtime and no process but its own. It knows events as bytes with an
//! envelope; only the codec knows what they mean. `FORMAT.md` has every byte that is written.
//!
//! | File | Its one reason |
//! |---|---|
//! | `event`, `record`, `segment` | the bytes: envelope, record and chain, segment |
//! | `journal` | the commit path |
//! | `tail`, `page`, `feeder`, `store` | from the segments to the store |
//! | `scan`, `fit`, `open` | what is there, and how it is continued |
//! | `reader` | the log as others see it |
//! | `codec` | what events are as bytes |
//! | `blobs`, `snapshot` | large content, folded states |
//! | `inspect`, `export` | looking without writing; verify, salvage, export, import |
//! | `files`, `lock`, `error` | the disk, the owner, what goes wrong |

mod blobs;
pub mod codec;
mod error;
mod event;
pub mod export;
mod feeder;
pub mod files;
mod fit;
#[doc(hidden)]
pub mod fuzzing;
pub mod inspect;
mod journal;
pub mod lock;
mod mend;
pub mod open;
mod page;
mod reader;
mod record;
mod scan;
mod segment;
mod shared;
#[cfg(any(test, feature = "simulation"))]
pub mod simulated;
#[cfg(any(test, feature = "simulation"))]
mod simulation;
mod snapshot;
pub mod store;
mod tail;

pub use blobs::{BlobReader, Blobs};
pub use error::{AppendError, BlobError, Damage, OpenError, ReadError, SnapshotError};
pub use event::{Attachment, Entry, INLINE_LIMIT, KEY_LIMIT, RawEvent, TooLargeToAttach, name_of};
pub use journal::{Appended, Journal, Options, Snapshots, Status};
pub use open::{Opened, Report, StoreReport};
pub use reader::{Commit, Commits, Events, Reader};
pub use record::{EVENTS_LIMIT, FORMAT, Flaw, Hash, Head, RECORD_LIMIT, Unwritable};
pub use scan::Torn;
pub use shared::StoreState;
#[cfg(any(test, feature = "simulation"))]
pub use simulation::SimulatedJournal;
pub use snapshot::Snapshot;
