//! A group of processes: start, signal, probe, limit, confine.
//!
//! This crate knows no event and no kernel. It is the only one that may use `unsafe`.

mod outcome;

pub use outcome::{Exit, ProcessId, ProcessState, StopEnd, StopOutcome, signal_name};
