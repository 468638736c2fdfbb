//! P1: what was acknowledged is there after every crash, once, in order, with the same word.

use std::collections::{BTreeMap, BTreeSet};

use agarose_core::{Event, Stamp, TicketId, Word};

/// What clients were told.
#[derive(Clone, Debug, Default)]
pub struct Told {
    accepted: Vec<TicketId>,
    words: BTreeMap<TicketId, Word>,
    cancelled: Vec<TicketId>,
}

impl Told {
    /// A client saw its ticket.
    pub fn accepted(&mut self, ticket: TicketId) {
        if !self.accepted.contains(&ticket) {
            self.accepted.push(ticket);
        }
    }

    /// A client saw that its cancellation was taken up.
    pub fn cancelled(&mut self, ticket: TicketId) {
        self.cancelled.push(ticket);
    }

    /// An observer saw a last word.
    pub fn ended(&mut self, ticket: TicketId, word: Word) -> Result<(), String> {
        match self.words.insert(ticket, word) {
            Some(before) if before != word => Err(format!("{ticket} was {before:?} and then {word:?}")),
            Some(_) | None => Ok(()),
        }
    }

    /// Holds the log against what was told.
    pub fn check(&self, log: &[(Stamp, Event)]) -> Result<(), String> {
        let mut queued: BTreeSet<TicketId> = BTreeSet::new();
        let mut words: BTreeMap<TicketId, Word> = BTreeMap::new();
        let mut cancelled = Vec::new();
        for (_, event) in log {
            match event {
                Event::TicketQueued(ticket) if queued.insert(ticket.ticket) => {}
                Event::TicketQueued(ticket) => return Err(format!("{} is in the log twice", ticket.ticket)),
                Event::TicketEnded(ended) if words.insert(ended.ticket, ended.word).is_none() => {}
                Event::TicketEnded(ended) => return Err(format!("{} has two last words", ended.ticket)),
                Event::CancelRequested { ticket, .. } => cancelled.push(*ticket),
                _ => {}
            }
        }
        if let Some(lost) = self.accepted.iter().find(|ticket| !queued.contains(ticket)) {
            return Err(format!("{lost} was acknowledged and is not in the log"));
        }
        if let Some(lost) = self.cancelled.iter().find(|ticket| !cancelled.contains(ticket)) {
            return Err(format!("the cancellation of {lost} was acknowledged and is not in the log"));
        }
        let differs = self.words.iter().find(|(ticket, word)| words.get(ticket) != Some(word));
        differs.map_or(Ok(()), |(ticket, word)| Err(format!("{ticket} was told to be {word:?}")))
    }
}
