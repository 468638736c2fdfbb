//! P4: a signal reaches only an execution that the log names for it, and a cancellation is in the
//! log only by the ticket's owner, by whoever closed its session, or by Agarose itself.

use std::collections::BTreeMap;

use agarose_core::{Event, Lease, Owner, OwnerKind, Stamp, TicketId};

/// Holds a signal that was delivered against the log.
pub fn delivered(lease: Lease, log: &[(Stamp, Event)]) -> Result<(), String> {
    let named = |event: &Event| match event {
        Event::InterruptRequested { lease: of, .. } | Event::KillRequested { lease: of, .. } => *of == lease,
        _ => false,
    };
    if log.iter().any(|(_, event)| named(event)) {
        Ok(())
    } else {
        Err(format!("{lease} was signalled by nobody"))
    }
}

/// Holds every cancellation of a log against the owners.
pub fn check(log: &[(Stamp, Event)]) -> Result<(), String> {
    let mut owners: BTreeMap<TicketId, Owner> = BTreeMap::new();
    let mut is_closing = false;
    for (_, event) in log {
        match event {
            Event::TicketQueued(queued) => drop(owners.insert(queued.ticket, queued.owner.clone())),
            Event::CancelRequested { ticket, by, .. } => {
                let may = owners.get(ticket) == Some(by) || by.kind == OwnerKind::System || is_closing;
                if !may {
                    return Err(format!("{by} cancelled {ticket}, which belongs to somebody else"));
                }
            }
            _ => {}
        }
        // A close ends the waiters first, then asks the active ticket to stop.
        is_closing = match event {
            Event::SessionClosed { .. } => true,
            Event::TicketEnded(_) | Event::PermissionExpired { .. } => is_closing,
            _ => false,
        };
    }
    Ok(())
}
