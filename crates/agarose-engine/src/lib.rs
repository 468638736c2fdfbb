//! The driver: commands in, events out, effects done, and recovery by the same path.
//!
//! [`Engine`] is a handle. Behind it one thread owns the world and the log (`driver`), and one task
//! for each kernel speaks with its supervisor (`kernels`). Whoever looks reads the log (`view`).
//!
//! | File | Its one reason |
//! |---|---|
//! | `driver` | the loop: decide, make durable, let out |
//! | `kernels` | a supervisor's connection, as commands |
//! | `recovery` | what a start finds, and what becomes of it |
//! | `observe` | one observer of a cell, and what it was not given yet |
//! | `host` | what cells ask for: dispatcher, policy, services |
//! | `analysis` | facts of cells, recorded beside them and read again |
//! | `restore` | a namespace that is built anew and published once |
//! | `request` | what a caller may ask, checked once |
//! | `stale` | which results of a session can still be trusted |
//! | `view` | what a caller is shown |
//! | `snapshot`, `clock`, `config`, `error` | what their names say |

mod analysis;
mod clock;
mod config;
mod driver;
mod error;
pub mod host;
mod kernels;
pub mod observe;
mod recovery;
mod request;
pub mod restore;
mod snapshot;
pub mod stale;
pub mod view;

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{Arc, mpsc},
    time::Duration,
};

use agarose_core::{
    Answer, Command, Millis, Owner, PermissionId, SessionId, TicketId, Word, World,
    command::{Cancel, KnownTicket, Reach, Submit},
    event::Event,
    session::Session,
    stream,
    ticket::{Timeouts, Work},
    world::CancelAnswer,
};
use agarose_journal::Reader;
use agarose_kernel::wire::Channel;
use tokio::sync::{oneshot, watch};

pub use agarose_kernel::{
    spec::KernelLimits,
    wire::worker::{UseIpython, WorkerOptions},
};
pub use analysis::analysed_as;
pub use config::{EngineConfig, KernelConfig, OrphanGrace};
use driver::{Decided, Health, Incoming, Input, chain};
pub use error::{RequestError, StartError};
use kernels::{Live, ToLink};
pub use request::{Asked, SubmitRequest};
use stale::{Projection, Projections, StaleView, WhatIfView};
use view::{History, PermissionView, SessionView, StatusView, TicketView};

/// A running engine. Handles are cheap and may be dropped; [`Engine::shutdown`] ends it in order.
#[derive(Clone)]
pub struct Engine {
    inner: Arc<Inner>,
}

struct Inner {
    inbox: mpsc::Sender<Input>,
    reader: Reader,
    durable: watch::Receiver<u64>,
    live: Live,
    health: Arc<Health>,
    data_dir: PathBuf,
    version: String,
    default_timeout: Option<Millis>,
    recovery: Vec<String>,
    projections: Projections,
    host: host::Host,
    observers: observe::Observers,
}

/// A ticket that was accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Submitted {
    /// Which.
    pub ticket: TicketId,
    /// `queued`, `running`, or its last word.
    pub state: String,
    /// 0 when it runs, from 1 on while it waits; absent when it has ended.
    pub position: Option<u64>,
    /// Whether an earlier request with the same key had made it.
    pub repeated: bool,
}

/// What a wait came to.
#[derive(Clone, Debug, PartialEq)]
pub enum Waited {
    /// It has its last word.
    Ended(Box<TicketView>),
    /// It has not, and the patience is over.
    StillOpen(Box<TicketView>),
}

/// Output since an offset.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OutputChunk {
    /// The pieces, in order.
    pub runs: Vec<OutputRun>,
    /// Where to read on.
    pub next: u64,
    /// Bytes that were dropped before the first piece.
    pub dropped: u64,
    /// Whether the cell has ended and this is its end.
    pub ended: bool,
}

/// A piece of output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputRun {
    /// Where it came from; a display's bytes are the frames of the worker's wire.
    pub channel: Channel,
    /// The offset of its first byte in the merged stream.
    pub start: u64,
    /// It.
    pub bytes: Vec<u8>,
}

impl Inner {
    /// What the analysis says of a cell, and what follows from it in its session.
    fn show_analysis(&self, ticket: TicketId, history: &History, shown: &mut TicketView) {
        let Some((_, queued)) = &history.queued else { return };
        let Work::Cell { source, .. } = &queued.work else { return };
        let facts = analysis::read(&self.reader, queued.language, history.analysis.as_ref(), source);
        let Some(facts) = facts else { return };
        shown.analysis = Some(agarose_analysis::Summary::from(&*facts));
        let origin = stale::origin(queued.owner.kind);
        let (seen, verdict) = self.projections.with(&self.reader, &queued.session, |projection| {
            let workspace = projection.workspace.clone();
            let seen = projection.run(ticket).map(|run| projection.seen(run as usize, workspace.as_deref()));
            (seen.unwrap_or_default(), projection.verdict(ticket, workspace.as_deref()))
        });
        let visibility = agarose_analysis::policy::visibility(&facts, origin, &seen);
        let replay = agarose_analysis::policy::replay(&facts, origin, &seen);
        shown.visibility = Some(stale::word(&visibility.value));
        shown.visibility_reasons = visibility.reasons;
        shown.replay_policy = Some(stale::word(&replay.value));
        shown.replay_reasons = replay.reasons;
        shown.verdict = verdict;
    }
}

impl Engine {
    /// Opens the data directory, goes on with what was under way, and starts to decide.
    ///
    /// Must be called inside a tokio runtime, which carries the kernels' connections.
    ///
    /// # Errors
    /// The directory cannot be used, is somebody else's, or its log is damaged. Nothing is lost then.
    pub async fn start(config: EngineConfig) -> Result<Self, StartError> {
        let engine = recovery::start(config).await?;
        engine.inner.host.know(engine.clone());
        engine.resume_restores().await;
        Ok(engine)
    }

    async fn ask(
        &self,
        command: Command,
        attachments: Vec<agarose_journal::Attachment>,
    ) -> Result<Decided, RequestError> {
        let (reply, answer) = oneshot::channel();
        let incoming = Incoming { command: Box::new(command), attachments, reply: Some(reply) };
        self.inner.inbox.send(Input::Command(incoming)).map_err(|_| RequestError::Gone)?;
        answer.await.map_err(|_| RequestError::Gone)?
    }

    /// Asks something of the world between two rounds, when all that it says is durable.
    async fn query<T: Send + 'static>(
        &self,
        question: impl FnOnce(&World) -> T + Send + 'static,
    ) -> Result<T, RequestError> {
        let (tell, answer) = oneshot::channel();
        let question = Box::new(move |world: &World| {
            // Whoever asked may be gone.
            let _ = tell.send(question(world));
        });
        self.inner.inbox.send(Input::Query(question)).map_err(|_| RequestError::Gone)?;
        answer.await.map_err(|_| RequestError::Gone)
    }

    /// Accepts a ticket; when this returns, it is durable.
    ///
    /// # Errors
    /// The request does not make sense, something stands in its way, or the disk says no.
    pub async fn submit(&self, request: SubmitRequest) -> Result<Submitted, RequestError> {
        let request = request.check()?;
        let digest = request.digest();
        let ticket = request.ticket.unwrap_or_else(clock::fresh_ticket);
        let mut attachments = Vec::new();
        let mut analysis = None;
        let work = match request.asked {
            Asked::Cell { code, name } => {
                analysis = Some(
                    analysis::record(&self.inner.reader, request.language, &code, &mut attachments).await?,
                );
                let source = kernels::store(&self.inner.reader, code, &mut attachments)
                    .await
                    .map_err(|error| RequestError::not_stored(&error))?;
                Work::Cell { source, name }
            }
            Asked::StopKernel => Work::StopKernel,
            Asked::RestartKernel => Work::RestartKernel,
        };
        let start_to_close = match request.timeout {
            Some(Millis(0)) => None,
            Some(limit) => Some(limit),
            None => self.inner.default_timeout,
        };
        let known = self.known(&request.session, request.key.as_deref(), request.ticket, request.after)?;
        let submit = Submit {
            session: request.session,
            ticket,
            owner: request.owner,
            language: request.language,
            work,
            key: request.key,
            digest,
            after: request.after,
            retry_of: request.retry_of,
            timeouts: Timeouts {
                schedule_to_start: request.wait_timeout.filter(|limit| limit.0 > 0),
                start_to_close,
                heartbeat: request.idle_timeout.filter(|limit| limit.0 > 0),
                interrupt_grace: request.interrupt_grace,
                kill_grace: request.kill_grace,
            },
            branch: request.branch,
            resource_keys: request.resource_keys,
            workspace: request.workspace.map(|path| path.display().to_string()),
            metadata: request.metadata.map(|value| value.to_string()),
            analysis,
            known,
        };
        let decided = self.ask(Command::Submit(Box::new(submit)), attachments).await?;
        let Answer::Ticket { ticket, repeated } = decided.answer else {
            return Err(RequestError::Internal {
                message: "a submit was answered with something else".to_owned(),
            });
        };
        let state = match decided.position {
            Some(0) => "running".to_owned(),
            Some(_) => "queued".to_owned(),
            None => self.history(ticket)?.ended.map_or("running", |(_, word, ..)| word.as_str()).to_owned(),
        };
        Ok(Submitted { ticket, state, position: decided.position, repeated })
    }

    /// What only the log knows of the tickets that a request touches.
    fn known(
        &self,
        session: &SessionId,
        key: Option<&str>,
        ticket: Option<TicketId>,
        after: Option<TicketId>,
    ) -> Result<Vec<KnownTicket>, RequestError> {
        let mut touched: Vec<TicketId> = ticket.into_iter().chain(after).collect();
        if let Some(key) = key {
            let found = self.inner.reader.by_key(session, key).map_err(|error| internal(&error))?;
            touched.extend(found.map(|(ticket, _)| ticket));
        }
        let mut known = Vec::new();
        for ticket in touched {
            let history = self.read_history(ticket)?;
            if let (Some((_, queued)), Some((_, word, ..))) = (history.queued, history.ended) {
                known.push(KnownTicket {
                    ticket,
                    session: queued.session.clone(),
                    key: queued.key.clone(),
                    digest: queued.digest,
                    word,
                });
            }
        }
        Ok(known)
    }

    fn read_history(&self, ticket: TicketId) -> Result<History, RequestError> {
        let mut history = History::default();
        let mut closed = None;
        for entry in self.inner.reader.by_ticket(ticket) {
            let entry = entry.map_err(|error| internal(&error))?;
            let event: Event = entry.event.decode().map_err(|error| internal(&error))?;
            if matches!(event, Event::CellClosed { .. }) {
                closed = Some(entry.sequence);
            }
            history.apply(entry.event.stamp, event);
        }
        if let Some(closed) = closed.filter(|_| history.came_back_unwell()) {
            // What stops its kernel with it is decided with its end, and written right behind it.
            for entry in self.inner.reader.events(closed.saturating_add(1)..) {
                let entry = entry.map_err(|error| internal(&error))?;
                let event: Event = entry.event.decode().map_err(|error| internal(&error))?;
                let Event::KernelStopRequested { generation, reason, .. } = event else { break };
                history.stopped_with(generation, reason);
            }
        }
        Ok(history)
    }

    /// The history of a ticket that exists.
    fn history(&self, ticket: TicketId) -> Result<History, RequestError> {
        let history = self.read_history(ticket)?;
        if history.queued.is_none() {
            return Err(RequestError::NotFound { what: format!("ticket {ticket}") });
        }
        Ok(history)
    }

    /// Submits what a ticket asked for again, as a new ticket that names it.
    ///
    /// # Errors
    /// There is no such ticket, it is still open, or as [`Engine::submit`].
    pub async fn retry(&self, ticket: TicketId, owner: Option<Owner>) -> Result<Submitted, RequestError> {
        let history = self.history(ticket)?;
        let Some((_, queued)) = history.queued else {
            return Err(RequestError::NotFound { what: format!("ticket {ticket}") });
        };
        if history.ended.is_none() {
            return Err(RequestError::BadRequest {
                field: "ticket".to_owned(),
                message: format!("{ticket} has not ended, so there is nothing to try again"),
            });
        }
        let asked = match &queued.work {
            Work::Cell { source, name } => {
                let code = self.inner.reader.blob(source).map_err(|error| internal(&error))?;
                let code = code.ok_or_else(|| RequestError::Internal {
                    message: format!("the source of ticket {ticket} is not in the log any more"),
                })?;
                Asked::Cell { code, name: name.clone() }
            }
            Work::StopKernel => Asked::StopKernel,
            Work::RestartKernel => Asked::RestartKernel,
        };
        let mut request = SubmitRequest::new(
            queued.session.clone(),
            owner.unwrap_or_else(|| queued.owner.clone()),
            queued.language,
            asked,
        );
        request.retry_of = Some(ticket);
        request.timeout = Some(queued.timeouts.start_to_close.unwrap_or(Millis(0)));
        request.wait_timeout = queued.timeouts.schedule_to_start;
        request.idle_timeout = queued.timeouts.heartbeat;
        request.interrupt_grace = queued.timeouts.interrupt_grace;
        request.kill_grace = queued.timeouts.kill_grace;
        request.branch.clone_from(&queued.branch);
        request.resource_keys.clone_from(&queued.resource_keys);
        request.metadata = queued.metadata.as_deref().and_then(|text| serde_json::from_str(text).ok());
        self.submit(request).await
    }

    /// Stops a ticket, wherever it stands; says what it found.
    ///
    /// # Errors
    /// There is no such ticket, it has ended, it is somebody else's, or it is not where `reach` needs it.
    pub async fn cancel(
        &self,
        ticket: TicketId,
        owner: Owner,
        reason: String,
        reach: Reach,
    ) -> Result<CancelAnswer, RequestError> {
        let asked = self.ask(Command::Cancel(Cancel { ticket, owner, reason, reach }), vec![]).await;
        match asked {
            Ok(Decided { answer: Answer::Cancel(answer), .. }) => Ok(answer),
            Ok(_) => Err(RequestError::Internal {
                message: "a cancel was answered with something else".to_owned(),
            }),
            // The loop remembers only what ended lately; the log knows the rest.
            Err(RequestError::Refused(agarose_core::Refusal::NoSuchTicket { ticket })) => {
                match self.read_history(ticket)?.ended {
                    Some((_, word, ..)) => Err(agarose_core::Refusal::Ended { ticket, word }.into()),
                    None => Err(agarose_core::Refusal::NoSuchTicket { ticket }.into()),
                }
            }
            Err(error) => Err(error),
        }
    }

    /// Admits nobody in a session, or in any, until it is resumed.
    ///
    /// # Errors
    /// There is no such session, or the disk says no.
    pub async fn pause(&self, session: Option<SessionId>, by: Owner) -> Result<(), RequestError> {
        self.ask(Command::Pause { session, by }, vec![]).await.map(drop)
    }

    /// Admits again.
    ///
    /// # Errors
    /// As [`Engine::pause`].
    pub async fn resume(&self, session: Option<SessionId>, by: Owner) -> Result<(), RequestError> {
        self.ask(Command::Resume { session, by }, vec![]).await.map(drop)
    }

    /// Refuses new work, cancels what waits, stops what runs; with `remove` the name is freed after it.
    ///
    /// # Errors
    /// As [`Engine::pause`].
    pub async fn close_session(
        &self,
        session: SessionId,
        by: Owner,
        reason: String,
        remove: bool,
    ) -> Result<(), RequestError> {
        self.ask(Command::CloseSession { session, by, reason, remove }, vec![]).await.map(drop)
    }

    /// Asks somebody before a cell goes on.
    ///
    /// # Errors
    /// There is no such session, or the disk says no.
    pub async fn propose_permission(
        &self,
        session: SessionId,
        ticket: Option<TicketId>,
        method: String,
        detail: String,
        expires_after: Option<Millis>,
    ) -> Result<PermissionId, RequestError> {
        let command = Command::ProposePermission { session, ticket, method, detail, expires_after };
        match self.ask(command, vec![]).await?.answer {
            Answer::Permission(permission) => Ok(permission),
            Answer::Done | Answer::Ticket { .. } | Answer::Cancel(_) | Answer::Call(_) => {
                Err(RequestError::Internal {
                    message: "a question was answered with something else".to_owned(),
                })
            }
        }
    }

    /// Answers a question.
    ///
    /// # Errors
    /// There is no such open question, or the disk says no.
    pub async fn decide_permission(
        &self,
        permission: PermissionId,
        allow: bool,
        by: Owner,
    ) -> Result<(), RequestError> {
        self.ask(Command::DecidePermission { permission, allow, by }, vec![]).await.map(drop)
    }

    /// The questions that wait for an answer.
    ///
    /// # Errors
    /// The engine is gone.
    pub async fn pending(&self) -> Result<Vec<PermissionView>, RequestError> {
        self.query(|world| world.permissions().map(PermissionView::from).collect()).await
    }

    /// Everything known of a ticket, open or ended.
    ///
    /// # Errors
    /// There is no such ticket, or it cannot be read.
    pub async fn show(&self, ticket: TicketId) -> Result<TicketView, RequestError> {
        let mut history = self.history(ticket)?;
        let mut position = None;
        if history.ended.is_none() {
            position = self
                .query(move |world| world.session_of(ticket).and_then(|session| session.position(ticket)))
                .await?;
            // It may have ended between the two looks.
            history = self.history(ticket)?;
        }
        let running = history.ended.is_none() && history.output.is_none();
        let inner = Arc::clone(&self.inner);
        let mut shown = tokio::task::spawn_blocking(move || {
            let figures = view::figures_directory(&inner.data_dir);
            let mut shown = view::ticket(ticket, &history, position, &inner.reader, &figures);
            inner.show_analysis(ticket, &history, &mut shown);
            shown
        })
        .await
        .map_err(|error| internal(&error))?;
        if running {
            self.show_live_output(ticket, &mut shown).await;
        }
        Ok(shown)
    }

    /// Where a session's cells run, if it is there and says so.
    async fn workspace(&self, session: &SessionId) -> Result<Option<PathBuf>, RequestError> {
        match self.workspace_there(session).await {
            Err(RequestError::Refused(agarose_core::Refusal::NoSuchSession { .. })) => Ok(None),
            found => found,
        }
    }

    /// Where the cells of a session that has to be there run, if it says so.
    async fn workspace_there(&self, session: &SessionId) -> Result<Option<PathBuf>, RequestError> {
        self.of_session(session, |_, found| found.workspace.clone().map(PathBuf::from)).await
    }

    /// Asks something of a session that has to be there.
    async fn of_session<T: Send + 'static>(
        &self,
        session: &SessionId,
        ask: impl FnOnce(&World, &Session) -> T + Send + 'static,
    ) -> Result<T, RequestError> {
        let name = session.clone();
        self.query(move |world| world.sessions().get(&name).map(|found| ask(world, found))).await?.ok_or_else(
            || RequestError::Refused(agarose_core::Refusal::NoSuchSession { session: session.clone() }),
        )
    }

    /// Asks something of what ran in a session, where nobody else waits.
    async fn project<T: Send + 'static>(
        &self,
        session: SessionId,
        ask: impl FnOnce(&mut Projection) -> T + Send + 'static,
    ) -> Result<T, RequestError> {
        let inner = Arc::clone(&self.inner);
        tokio::task::spawn_blocking(move || inner.projections.with(&inner.reader, &session, ask))
            .await
            .map_err(|error| internal(&error))
    }

    /// Which results of a session can still be trusted.
    ///
    /// # Errors
    /// There is no such session, or the engine is gone.
    pub async fn stale(
        &self,
        session: SessionId,
        policy: agarose_analysis::stale::Policy,
    ) -> Result<StaleView, RequestError> {
        let workspace = self.workspace_there(&session).await?;
        let name = session.clone();
        self.project(session, move |projection| projection.view(&name, policy, workspace.as_deref())).await
    }

    /// What would have to run again if a cell of a session had another source.
    ///
    /// # Errors
    /// There is no such session or cell, or the engine is gone.
    pub async fn what_if(
        &self,
        session: SessionId,
        cell: String,
        code: String,
    ) -> Result<WhatIfView, RequestError> {
        self.of_session(&session, |_, _| ()).await?;
        let asked = cell.clone();
        let found = self
            .project(session.clone(), move |projection| {
                let ran = projection.runs.iter().rev().find(|ran| ran.cell == asked)?;
                let facts = agarose_analysis::analyse(analysis::analysed_as(ran.language), &code);
                Some(projection.what_if(&asked, &facts))
            })
            .await?;
        found.ok_or_else(|| RequestError::NotFound { what: format!("cell {cell:?} in session {session}") })
    }

    /// The output so far of a cell that runs.
    async fn show_live_output(&self, ticket: TicketId, shown: &mut TicketView) {
        let mut bytes = Vec::new();
        let mut from = 0;
        while let Some(chunk) = self.read_live(ticket, from, 1 << 20).await {
            for (channel, start, piece) in &chunk.runs {
                let channel = match channel {
                    Channel::Stdout => stream::StreamChannel::Stdout,
                    Channel::Stderr => stream::StreamChannel::Stderr,
                    Channel::Display => stream::StreamChannel::Display,
                };
                stream::push(&mut bytes, stream::StreamRun { channel, start: *start, bytes: piece });
            }
            if chunk.next <= from || chunk.runs.is_empty() {
                break;
            }
            from = chunk.next;
        }
        let counted = kernels::count(&bytes);
        let figures = view::figures_directory(&self.inner.data_dir);
        view::fill_output(shown, &counted, &bytes, &figures);
    }

    async fn read_live(&self, ticket: TicketId, from: u64, max: u64) -> Option<kernels::Chunk> {
        let entry = self.inner.live.get(ticket)?;
        let (tell, answer) = oneshot::channel();
        entry.link.upgrade()?.send(ToLink::Read { ticket, from, max, tell }).ok()?;
        answer.await.ok().filter(|chunk| chunk.held)
    }

    /// Waits for the last word of a ticket.
    ///
    /// # Errors
    /// There is no such ticket, or the engine is gone.
    pub async fn wait(&self, ticket: TicketId, patience: Option<Duration>) -> Result<Waited, RequestError> {
        self.history(ticket)?;
        let word = self.word(ticket, patience).await?;
        let shown = Box::new(self.show(ticket).await?);
        Ok(if word { Waited::Ended(shown) } else { Waited::StillOpen(shown) })
    }

    /// Whether a ticket has its last word, once it has or the patience is over.
    async fn word(&self, ticket: TicketId, patience: Option<Duration>) -> Result<bool, RequestError> {
        let (tell, told) = oneshot::channel::<Option<Word>>();
        self.inner.inbox.send(Input::Wait { ticket, tell }).map_err(|_| RequestError::Gone)?;
        match patience {
            None => told.await.map_err(|_| RequestError::Gone)?,
            Some(patience) => match tokio::time::timeout(patience, told).await {
                Ok(told) => told.map_err(|_| RequestError::Gone)?,
                Err(_) => return Ok(false),
            },
        };
        Ok(true)
    }

    /// Output since an offset. With `wait` it returns when there is some, or the cell has ended, or
    /// the patience is over.
    ///
    /// # Errors
    /// There is no such ticket, or it cannot be read.
    pub async fn output(
        &self,
        ticket: TicketId,
        from: u64,
        max: u64,
        wait: Option<Duration>,
    ) -> Result<OutputChunk, RequestError> {
        let deadline = wait.map(|wait| tokio::time::Instant::now() + wait);
        loop {
            let mut durable = self.inner.durable.clone();
            durable.borrow_and_update();
            // Live first: a cell that ends between the two looks is then found in the log.
            let entry = self.inner.live.get(ticket);
            if let Some(chunk) = self.read_live(ticket, from, max).await
                && (!chunk.runs.is_empty() || chunk.next > from)
            {
                return Ok(live_chunk(chunk));
            }
            let history = self.history(ticket)?;
            if history.output.is_some() || history.ended.is_some() {
                return self.logged_output(&history, from, max);
            }
            let Some(deadline) = deadline else {
                return Ok(OutputChunk { next: from, ..OutputChunk::default() });
            };
            let mut end = entry.map(|entry| {
                // A link that is gone has told the loop how.
                if let Some(link) = entry.link.upgrade() {
                    let _ = link.send(ToLink::Follow { ticket });
                }
                entry.end
            });
            if end.as_mut().is_some_and(|end| *end.borrow_and_update() > from) {
                continue;
            }
            let more = async {
                match &mut end {
                    // The sender goes with the connection; the log says what became of it.
                    Some(end) => drop(end.changed().await),
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = more => {}
                changed = durable.changed() => if changed.is_err() { return Err(RequestError::Gone) },
                () = tokio::time::sleep_until(deadline) => {
                    return Ok(OutputChunk { next: from, ..OutputChunk::default() });
                }
            }
        }
    }

    fn logged_output(&self, history: &History, from: u64, max: u64) -> Result<OutputChunk, RequestError> {
        let stream = history.output.as_ref().and_then(|output| output.stream);
        let bytes = match stream {
            Some(blob) => {
                self.inner.reader.blob(&blob).map_err(|error| internal(&error))?.unwrap_or_default()
            }
            None => Vec::new(),
        };
        let mut chunk = OutputChunk { next: from, ended: true, ..OutputChunk::default() };
        let mut room = usize::try_from(max).unwrap_or(usize::MAX).max(1);
        for run in stream::runs(&bytes) {
            let end = run.start.saturating_add(run.bytes.len() as u64);
            if end <= from {
                continue;
            }
            if room == 0 {
                chunk.ended = false;
                break;
            }
            let skip = usize::try_from(from.saturating_sub(run.start)).unwrap_or(usize::MAX);
            let whole = run.bytes.get(skip..).unwrap_or_default();
            let channel = match run.channel {
                stream::StreamChannel::Stdout => Channel::Stdout,
                stream::StreamChannel::Stderr => Channel::Stderr,
                stream::StreamChannel::Display => Channel::Display,
            };
            // A display is one frame and of no use in pieces.
            let take = if channel == Channel::Display { whole.len() } else { whole.len().min(room) };
            let start = run.start.saturating_add(skip as u64);
            if chunk.runs.is_empty() {
                chunk.dropped = start.saturating_sub(from);
            }
            chunk.runs.push(OutputRun {
                channel,
                start,
                bytes: whole.get(..take).unwrap_or_default().to_vec(),
            });
            chunk.next = start.saturating_add(take as u64);
            room = room.saturating_sub(take);
            if take < whole.len() {
                chunk.ended = false;
            }
        }
        Ok(chunk)
    }

    /// Consistent cuts through all sessions.
    ///
    /// # Errors
    /// The engine is gone.
    pub async fn sessions(&self) -> Result<Vec<SessionView>, RequestError> {
        self.query(|world| world.sessions().values().map(|session| view::session(world, session)).collect())
            .await
    }

    /// A consistent cut through one session.
    ///
    /// # Errors
    /// There is no such session, or the engine is gone.
    pub async fn session(&self, session: SessionId) -> Result<SessionView, RequestError> {
        let mut cut = self.of_session(&session, view::session).await?;
        cut.cells = self.stale(session, agarose_analysis::stale::Policy::DocumentOrder).await?.cells;
        Ok(cut)
    }

    /// The daemon, at a glance.
    ///
    /// # Errors
    /// The engine is gone.
    pub async fn status(&self) -> Result<StatusView, RequestError> {
        let mut status = self
            .query(|world| StatusView {
                admitting: world.admitting(),
                paused_by: world.paused().map(view::OwnerView::from),
                sessions: world.sessions().len() as u64,
                open_tickets: world.open_tickets() as u64,
                kernels: world.sessions().values().flat_map(view::kernels).collect(),
                starts: world.starts(),
                ..StatusView::default()
            })
            .await?;
        status.version.clone_from(&self.inner.version);
        status.pid = std::process::id();
        status.data_dir = self.inner.data_dir.display().to_string();
        status.read_only = self.inner.health.read_only();
        status.sequence = self.inner.reader.head().sequence;
        status.recovery.clone_from(&self.inner.recovery);
        Ok(status)
    }

    /// A driver that serves methods of `host` has connected.
    #[must_use]
    pub fn connect_driver(&self) -> host::handlers::Driver {
        self.inner.host.handlers().connect()
    }

    /// What a driver says.
    pub fn hear_driver(&self, driver: &host::handlers::Driver, said: host::handlers::FromDriver) {
        self.inner.host.handlers().hear(driver, said);
    }

    /// A driver has gone.
    pub fn disconnect_driver(&self, driver: &host::handlers::Driver) {
        self.inner.host.handlers().disconnect(driver);
    }

    /// Every version of every artifact.
    ///
    /// # Errors
    /// The log cannot be read.
    pub fn artifacts(&self) -> Result<Vec<host::ArtifactView>, RequestError> {
        self.inner.host.artifacts().map_err(|message| RequestError::Internal { message })
    }

    /// Where a version of an artifact came from.
    ///
    /// # Errors
    /// There is no such version, or the log cannot be read.
    pub fn lineage(&self, version: &str) -> Result<host::LineageView, RequestError> {
        let found = self.inner.host.lineage(version, (32, 500));
        let found = found.map_err(|message| RequestError::Internal { message })?;
        found.ok_or_else(|| RequestError::NotFound { what: format!("version {version} of an artifact") })
    }

    /// The log, for observers.
    #[must_use]
    pub fn reader(&self) -> Reader {
        self.inner.reader.clone()
    }

    /// The last durable event; changes whenever there are more.
    #[must_use]
    pub fn durable(&self) -> watch::Receiver<u64> {
        self.inner.durable.clone()
    }

    /// Where everything lies.
    #[must_use]
    pub fn data_dir(&self) -> &std::path::Path {
        &self.inner.data_dir
    }

    /// Stops in order: admits nobody, leaves kernels to their supervisors or stops them, makes
    /// everything durable and gives the directory back.
    pub async fn shutdown(&self, stop_kernels: bool) {
        if let Err(error) = self.ask(Command::StopDaemon { stop_kernels }, vec![]).await {
            tracing::error!(error = %chain(&error), "the orderly stop could not be written");
        }
        if stop_kernels {
            self.await_kernels().await;
        }
        let (done, left) = oneshot::channel();
        if self.inner.inbox.send(Input::Leave(done)).is_ok() {
            // An error means that the loop has left already.
            let _ = left.await;
        }
    }

    /// Waits until no kernel is left, within the graces that stop them.
    async fn await_kernels(&self) {
        let deadline = tokio::time::Instant::now() + Duration::from_secs(60);
        loop {
            let mut durable = self.inner.durable.clone();
            durable.borrow_and_update();
            let live: Result<BTreeMap<_, _>, _> = self
                .query(|world| {
                    world.in_flight().into_iter().map(|kernel| (kernel.generation, kernel.session)).collect()
                })
                .await;
            if live.is_ok_and(|live| live.is_empty()) {
                return;
            }
            tokio::select! {
                changed = durable.changed() => if changed.is_err() { return },
                () = tokio::time::sleep_until(deadline) => return,
            }
        }
    }
}

fn live_chunk(chunk: kernels::Chunk) -> OutputChunk {
    let runs = chunk.runs.into_iter().map(|(channel, start, bytes)| OutputRun { channel, start, bytes });
    OutputChunk { runs: runs.collect(), next: chunk.next, dropped: chunk.dropped, ended: false }
}

fn internal(error: &dyn std::error::Error) -> RequestError {
    RequestError::Internal { message: chain(error) }
}
