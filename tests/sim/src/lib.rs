//! A deterministic simulator: a seed makes a workload and faults over the real core, an in-memory
//! log stands in for the journal, and the invariants of `invariants/` are looked at after each step.
//!
//! The first half of a run is for safety: daemons are killed between any two steps, supervisors
//! die, mail is late or comes twice, the machine loses power. Then everything heals, and every open
//! ticket must end.

pub mod invariants;
pub mod outside;
pub mod rng;
mod run;
mod workload;

pub use run::{Outcome, run};
