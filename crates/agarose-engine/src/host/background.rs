//! Work beside the cell: a ticket in a session of its own, so that it is as durable as any other.

use agarose_core::{Language, Owner, OwnerKind, SessionId, TicketId, World, command::Reach};
use serde_json::{Value, json};

use super::{
    Caller, Host,
    call::Done,
    error::{ErrorKind, HostError},
    method::Background,
};
use crate::{Asked, Engine, SubmitRequest, error::RequestError};

/// The most jobs of a session that may be open at once.
const OPEN_LIMIT: usize = 16;
/// How much output a look gives, in bytes.
const PEEK: u64 = 64 << 10;

impl Host {
    /// The engine whose sessions the services use.
    pub(super) fn engine(&self) -> Result<&Engine, HostError> {
        let starting =
            || HostError::new(ErrorKind::Unavailable, "the daemon is starting; try again in a moment");
        self.0.engine.get().ok_or_else(starting)
    }

    pub(super) async fn serve_background(
        &self,
        asked: Background,
        caller: &Caller,
    ) -> Result<Done, HostError> {
        let engine = self.engine()?;
        let owner = Owner::new(OwnerKind::Agent, caller.session.as_str())
            .map_err(|error| HostError::new(ErrorKind::Internal, error.to_string()))?;
        match asked {
            Background::Exec(asked) => {
                let jobs = jobs(engine, &caller.session).await?;
                if jobs.len() >= OPEN_LIMIT {
                    let message =
                        format!("{OPEN_LIMIT} jobs of this session are open already; wait for one of them");
                    return Err(HostError::new(ErrorKind::Conflict, message));
                }
                let digest =
                    blake3::hash(format!("{}/{}", caller.lease.ticket, asked.key).as_bytes()).to_hex();
                let name = format!("{}~{}", shortened(caller.session.as_str()), &digest[..12]);
                let session = SessionId::new(&name).map_err(|error| HostError::bad(error.to_string()))?;
                let asked_for = Asked::Cell { code: asked.code.into_bytes(), name: asked.name };
                let mut request = SubmitRequest::new(session, owner, Language::Python, asked_for);
                // The same call is the same job, whoever asks again.
                request.key = Some(digest.to_string());
                request.workspace = Some(caller.workspace.clone());
                request.timeout = Some(agarose_core::Millis(0));
                let submitted = engine.submit(request).await.map_err(|error| told(&error))?;
                Ok(Done::value(json!({"id": submitted.ticket.to_string(), "state": submitted.state})))
            }
            Background::Peek(job) => {
                let ticket = self.job(engine, &job.id, &caller.session).await?;
                let shown = engine.show(ticket).await.map_err(|error| told(&error))?;
                let chunk = engine.output(ticket, 0, PEEK, None).await.map_err(|error| told(&error))?;
                let text = |channel| {
                    let runs = chunk.runs.iter().filter(|run| run.channel == channel);
                    String::from_utf8_lossy(
                        &runs.flat_map(|run| run.bytes.iter().copied()).collect::<Vec<u8>>(),
                    )
                    .into_owned()
                };
                let mut value = json!({
                    "id": job.id,
                    "state": shown.state,
                    "stdout": text(agarose_kernel::wire::Channel::Stdout),
                    "stderr": text(agarose_kernel::wire::Channel::Stderr),
                });
                if let Some(error) = shown.error {
                    value["error"] = serde_json::to_value(error).unwrap_or(Value::Null);
                }
                Ok(Done::value(value))
            }
            Background::Interrupt(job) => {
                let ticket = self.job(engine, &job.id, &caller.session).await?;
                let cancelled =
                    engine.cancel(ticket, owner, "host.exec_interrupt".to_owned(), Reach::Full).await;
                match cancelled {
                    Ok(_) => Ok(Done::value(json!({"id": job.id, "stopping": true}))),
                    Err(RequestError::Refused(agarose_core::Refusal::Ended { word, .. })) => {
                        Ok(Done::value(json!({"id": job.id, "stopping": false, "state": word.as_str()})))
                    }
                    Err(error) => Err(told(&error)),
                }
            }
            Background::List => {
                let jobs = jobs(engine, &caller.session).await?;
                let list = jobs.into_iter().map(|(id, state)| json!({"id": id.to_string(), "state": state}));
                Ok(Done::value(Value::Array(list.collect())))
            }
        }
    }

    /// A job of this session; one of another is not told from one that never was.
    async fn job(&self, engine: &Engine, id: &str, session: &SessionId) -> Result<TicketId, HostError> {
        let absent = || HostError::new(ErrorKind::NotFound, format!("there is no job {id}"));
        let ticket: TicketId = id.parse().map_err(|_| absent())?;
        let shown = engine.show(ticket).await.map_err(|_| absent())?;
        if shown.owner.id != session.as_str()
            || !shown.session.starts_with(&format!("{}~", shortened(session.as_str())))
        {
            return Err(absent());
        }
        Ok(ticket)
    }
}

/// The open jobs of a session.
async fn jobs(engine: &Engine, session: &SessionId) -> Result<Vec<(TicketId, &'static str)>, HostError> {
    let prefix = format!("{}~", shortened(session.as_str()));
    let open = move |world: &World| {
        let theirs = world.sessions().values().filter(|session| session.id.as_str().starts_with(&prefix));
        let tickets = theirs.flat_map(|session| {
            session.tickets.keys().map(|ticket| {
                let runs = session.active.as_ref().is_some_and(|cell| cell.ticket == *ticket);
                (*ticket, if runs { "running" } else { "queued" })
            })
        });
        tickets.collect()
    };
    engine.query(open).await.map_err(|error| told(&error))
}

/// A session's name with room for what is put behind it.
fn shortened(name: &str) -> &str {
    &name[..name.floor_char_boundary(100.min(name.len()))]
}

fn told(error: &RequestError) -> HostError {
    let kind = match error {
        RequestError::NotFound { .. } => ErrorKind::NotFound,
        RequestError::Refused(_) | RequestError::Busy { .. } => ErrorKind::Conflict,
        RequestError::BadRequest { .. } => ErrorKind::BadRequest,
        RequestError::ReadOnly { .. } | RequestError::Gone => ErrorKind::Unavailable,
        RequestError::Internal { .. } => ErrorKind::Internal,
    };
    HostError::new(kind, error.to_string())
}
