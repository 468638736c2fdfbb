//! P5: nothing runs twice by itself, and the log never says of a cell that ran that it did not, nor
//! of one that did not that it did.

use std::collections::BTreeMap;

use agarose_core::{Event, Executed, Stamp, TicketId};

/// Holds what the log says of each ticket against how often its cell began.
pub fn check(begun: &BTreeMap<TicketId, u64>, log: &[(Stamp, Event)]) -> Result<(), String> {
    if let Some((ticket, times)) = begun.iter().find(|(_, times)| **times > 1) {
        return Err(format!("{ticket} ran {times} times"));
    }
    for (_, event) in log {
        if let Event::TicketEnded(ended) = event {
            let ran = begun.contains_key(&ended.ticket);
            let lies = match ended.executed {
                Executed::Yes => !ran,
                Executed::No => ran,
                Executed::Unknown => false,
            };
            if lies {
                return Err(format!("{} ran: {ran}, and the log says {:?}", ended.ticket, ended.executed));
            }
        }
    }
    Ok(())
}
