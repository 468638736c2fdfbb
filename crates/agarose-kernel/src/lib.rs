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
//! | `spec.json` | [`launch`] | what to start and how, with the secret |
//! | `socket` | [`launch`] | where the supervisor listens |
//! | `supervisor.log` | supervisor | remarks, bounded |
//! | `processes.json` | supervisor | which processes it is, in which boot |
//! | `spool-0` … | supervisor | the output and the end of one execution at a time each |
//! | `spool-kernel` | supervisor | output that belongs to no execution |
//! | `final.json` | supervisor | how it all ended; its presence says that the supervisor left by itself |
//!
//! The workers' sources are installed once for all kernels ([`launch::install_workers`]).
//!
//! This crate knows neither tokio nor the journal.

pub mod client;
pub mod launch;
pub mod spec;
pub mod spool;
pub mod supervisor;
pub mod wire;

pub use agarose_process::stand_in_for_init;
