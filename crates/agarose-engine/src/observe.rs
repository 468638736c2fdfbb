//! Observing a cell: at most one observer at a time, who gets what has come since the last observation.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use agarose_core::{Command, Lease, TicketId, World, command::ExecutionReport, host_call::Standing};
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::{
    Engine, OutputChunk, OutputRun,
    driver::{Incoming, Input},
    error::RequestError,
};

/// The most output that one observation carries, in bytes.
const OBSERVED: u64 = 4 << 20;

/// How long one wait for output lasts.
const LOOK: Duration = Duration::from_secs(30);

/// What an observer waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Until {
    /// A while.
    Yield,
    /// That the cell waits for its host and for nothing else.
    Pending,
    /// Its last word.
    End,
}

/// What an observer gets.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Observed {
    /// Where the ticket stands.
    pub state: String,
    /// The calls that have no answer yet.
    pub outstanding: Vec<OutstandingView>,
    /// What has come since the last observation.
    pub output: Vec<OutputRun>,
    /// How much of it was dropped.
    pub dropped: u64,
    /// Where the next observation begins.
    pub next: u64,
}

/// A call that has no answer yet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutstandingView {
    /// Its number in its kernel.
    pub id: String,
    /// What is asked for.
    pub method: String,
    /// The question that somebody has to answer first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permission: Option<String>,
}

/// Who observes now.
#[derive(Clone, Default)]
pub(crate) struct Observers(Arc<Mutex<BTreeSet<TicketId>>>);

/// A place that is given up with its connection.
struct Place {
    observers: Observers,
    ticket: TicketId,
}

impl Observers {
    fn take(&self, ticket: TicketId) -> Option<Place> {
        let fresh = self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(ticket);
        fresh.then(|| Place { observers: self.clone(), ticket })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.observers.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.ticket);
    }
}

/// A cut through what is known of a cell.
#[derive(Clone, Default)]
struct Cut {
    lease: Option<Lease>,
    observed: u64,
    begun: bool,
    outstanding: Vec<OutstandingView>,
}

fn standing(world: &World, ticket: TicketId) -> Cut {
    let Some(session) = world.session_of(ticket) else { return Cut::default() };
    let Some(cell) = session.active.as_ref().filter(|cell| cell.ticket == ticket) else {
        return Cut::default();
    };
    let outstanding = session.calls.iter().map(|(call, open)| OutstandingView {
        id: call.to_string(),
        method: open.method.clone(),
        permission: match open.standing {
            Standing::Asked(permission) => Some(permission.to_string()),
            Standing::Open | Standing::Dispatched { .. } => None,
        },
    });
    Cut {
        lease: session.lease(),
        observed: cell.observed,
        begun: session.run().is_some_and(|run| run.acknowledged.is_some()),
        outstanding: outstanding.collect(),
    }
}

impl Engine {
    /// Observes a cell; what nobody was given before, or what comes from an offset on.
    ///
    /// # Errors
    /// Somebody else observes it, there is no such ticket, or the log cannot be read.
    pub async fn observe(
        &self,
        ticket: TicketId,
        until: Until,
        patience: Option<Duration>,
        from: Option<u64>,
    ) -> Result<Observed, RequestError> {
        let place = self.inner.observers.take(ticket).ok_or(RequestError::Busy { ticket })?;
        let deadline = patience.map(|patience| Instant::now() + patience);
        let mut stands = self.query(move |world| standing(world, ticket)).await?;
        // Where an ended cell was read to is not kept: whoever comes back for it says from where.
        let mut observed = Observed { next: from.unwrap_or(stands.observed), ..Observed::default() };
        let mut durable = self.inner.durable.clone();
        loop {
            durable.borrow_and_update();
            let ended = self.take_output(ticket, &mut observed).await?;
            stands = self.query(move |world| standing(world, ticket)).await?;
            let is_late = deadline.is_some_and(|at| Instant::now() >= at);
            let is_pending = until == Until::Pending && stands.begun && !stands.outstanding.is_empty();
            if ended || is_late || is_pending {
                break;
            }
            let left = deadline.map_or(LOOK, |at| at.saturating_duration_since(Instant::now()).min(LOOK));
            tokio::select! {
                changed = durable.changed() => if changed.is_err() { return Err(RequestError::Gone) },
                more = self.output(ticket, observed.next, 1, Some(left)) => drop(more?),
            }
        }
        let shown = self.show(ticket).await?;
        observed.state = shown.state;
        observed.outstanding = stands.outstanding;
        if let Some(lease) = stands.lease {
            let report = ExecutionReport::Observed { through: observed.next };
            let session = agarose_core::SessionId::new(&shown.session)
                .map_err(|error| RequestError::Internal { message: error.to_string() })?;
            let command = Command::Execution { session, lease, report };
            // What is not written down is given again: a repeat is better than a hole.
            let _ = self.inner.inbox.send(Input::Command(Incoming::report(command)));
        }
        drop(place);
        Ok(observed)
    }

    /// Takes what has come; says whether the cell has ended and this was the last of it.
    async fn take_output(&self, ticket: TicketId, observed: &mut Observed) -> Result<bool, RequestError> {
        loop {
            let taken: u64 = observed.output.iter().map(|run| run.bytes.len() as u64).sum();
            if taken >= OBSERVED {
                return Ok(true);
            }
            let chunk: OutputChunk = self.output(ticket, observed.next, OBSERVED - taken, None).await?;
            let moved = chunk.next > observed.next || !chunk.runs.is_empty();
            observed.next = chunk.next;
            observed.dropped = observed.dropped.saturating_add(chunk.dropped);
            observed.output.extend(chunk.runs);
            if chunk.ended {
                // The last word comes a moment after the last output.
                return Ok(self.show(ticket).await?.finished_at.is_some());
            }
            if !moved {
                return Ok(false);
            }
        }
    }
}
