//! The real binary, from outside. One program, one file for each thing that may go wrong.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![expect(clippy::print_stderr, reason = "a test that skips itself says why")]

mod agent;
mod analysis;
mod attempts;
mod cells;
mod coordinator;
mod crash;
mod groups;
mod host;
mod input;
mod journal;
mod kernel;
mod output;
mod permissions;
mod r;
mod recovery;
mod spine;
mod stopping;
mod table;
