//! P3: at most one cell of a session executes, whatever crashed; a group that could not be stopped
//! is an exception only when the log says so.

use agarose_core::{Event, Lease, SessionId, Stamp};

use crate::outside::Outside;

/// Looks at a session in which a cell has just begun.
pub fn check(
    outside: &Outside,
    session: &SessionId,
    begun: Lease,
    log: &[(Stamp, Event)],
) -> Result<(), String> {
    let is_abandoned = |other: Lease| {
        log.iter().any(|(_, event)| match event {
            Event::GroupStopped { lease, outcome, .. } => *lease == other && !outcome.is_gone(),
            _ => false,
        })
    };
    match outside.executing(session).find(|other| *other != begun && !is_abandoned(*other)) {
        Some(other) => Err(format!("{begun} began in {session} while {other} executes")),
        None => Ok(()),
    }
}
