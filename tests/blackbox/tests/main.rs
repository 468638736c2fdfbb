//! The real binary, from outside. One program, one file for each thing that may go wrong.

mod attempts;
mod cells;
mod coordinator;
mod crash;
mod input;
mod journal;
mod kernel;
mod output;
mod recovery;
mod spine;
mod stopping;
mod table;
