//! The inspector as its users see it, on logs that the real core and the real journal made.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod commands;
mod lab;
mod places;
mod why;
