//! The real binary, from outside. One program, one file for each thing that may go wrong.

mod crash;
mod spine;
mod stopping;
mod table;
