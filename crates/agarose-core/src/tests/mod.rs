//! What the machines must do together: scenarios, and random histories before an oracle.

pub(crate) mod drive;
pub(crate) mod oracle;
pub(crate) mod random;
pub(crate) mod script;

mod calls;
mod coordinator;
mod purity;
mod recovery;
mod restore;
pub(crate) mod scale;
mod tables;
mod watchdog;
