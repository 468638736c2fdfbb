//! One persistent worker, the words spoken to it, and the supervisor that outlives the daemon.
//!
//! ```text
//! daemon ── unix socket ── supervisor ── two pipes of its own ── worker (Python, R)
//!   client, launch           supervisor, spool   fds 1, 2 → spool   workers/
//! ```
//!
//! The supervisor is the same binary, started as `agarose supervise --dir DIR`. Everything about
//! one life of one kernel lies in DIR:
//!
//! | File | Written by | What it holds |
//! |---|---|---|
//! | `spec.json` | [`launch`] | what to start and how, with the secret; 0600 |
//! | `socket` | [`launch`] | where the supervisor listens |
//! | `worker/` | [`launch`] | the sources of the worker |
//! | `supervisor.log` | supervisor | remarks, bounded |
//! | `spool-N` | supervisor | the output and the end of one execution at a time |
//! | `final.json` | supervisor | how it all ended; its presence says that the supervisor left by itself |
//!
//! This crate knows neither tokio nor the journal.

pub mod client;
pub mod launch;
pub mod spec;
pub mod spool;
pub mod supervisor;
pub mod wire;
