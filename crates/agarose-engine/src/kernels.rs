//! Kernels from the engine's side: one task for each supervisor's connection.
//!
//! A task turns what the loop sends ([`ToLink`]) into frames, and what the supervisor says into
//! commands. It never decides anything and it knows no state but the connection's own.

use std::{
    collections::{BTreeMap, VecDeque},
    ffi::OsString,
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError, mpsc},
    time::Duration,
};

use agarose_core::{
    BlobRef, Command, Counters, Event, Generation, Language, Lease, Millis, SessionId, TicketId,
    command::{ExecutionReport, KernelReport},
    event::{Output as CoreOutput, ResultStatus},
    host_call::CallId,
    slot::{Exit, GroupOutcome, KernelProcess, ProcessNote},
    stream::{self, StreamChannel, StreamRun},
    watchdog::{NobodyReason, Verdict},
};
use agarose_journal::{Attachment, Reader};
use agarose_kernel::{
    client::{self, Found, GoneBecause},
    launch,
    spec::{KernelSpec, PassedLimit},
    wire::{
        Channel, ExecutionId,
        frame::{self, Decoder},
        supervisor::{
            self as wire, Attached, FromSupervisor, NobodyReached, ToSupervisor, VerdictWord, WorkerState,
        },
        worker::{CellResult, CellStatus, Ready},
    },
};
use agarose_process::{Exit as ProcessExit, ProcessState, StopEnd, StopOutcome};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        UnixStream,
        unix::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::{mpsc as tokio_mpsc, oneshot, watch},
    time::Instant,
};

use crate::{
    clock::Clock,
    config::KernelConfig,
    driver::{Decided, Incoming, Input, chain},
    error::RequestError,
    host::{Caller, Host},
    view::ResultRecord,
};

/// What the loop tells a connection.
pub(crate) enum ToLink {
    /// Send a cell.
    Execute { lease: Lease, source: BlobRef, name: String, ordinal: u64, heartbeat: Option<Millis> },
    /// Send an interrupt.
    Interrupt { lease: Lease, attempt: u32 },
    /// Stop the group, because of an execution or of nothing in particular.
    Stop { lease: Option<Lease>, grace: Millis },
    /// The log has the output.
    Release { lease: Lease },
    /// Read output.
    Read { ticket: TicketId, from: u64, max: u64, tell: oneshot::Sender<Chunk> },
    /// Somebody follows the output.
    Follow { ticket: TicketId },
    /// A call of a cell to its host has its answer.
    HostReply { call: CallId, ok: bool, body: Vec<u8> },
}

/// Output of a running cell.
#[derive(Debug, Default)]
pub(crate) struct Chunk {
    pub(crate) runs: Vec<(Channel, u64, Vec<u8>)>,
    pub(crate) next: u64,
    pub(crate) dropped: u64,
    /// Whether anything is held of that execution.
    pub(crate) held: bool,
}

/// The executions whose output can be read from a supervisor now.
#[derive(Clone, Default)]
pub(crate) struct Live(Arc<Mutex<BTreeMap<TicketId, LiveEntry>>>);

#[derive(Clone)]
pub(crate) struct LiveEntry {
    pub(crate) link: tokio_mpsc::WeakUnboundedSender<ToLink>,
    /// The end of its output, an offset.
    pub(crate) end: watch::Receiver<u64>,
}

impl Live {
    pub(crate) fn get(&self, ticket: TicketId) -> Option<LiveEntry> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&ticket).cloned()
    }

    fn insert(&self, ticket: TicketId, entry: LiveEntry) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(ticket, entry);
    }

    fn remove(&self, ticket: TicketId) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&ticket);
    }
}

/// What every connection needs.
#[derive(Clone)]
pub(crate) struct Surroundings {
    pub(crate) runtime: tokio::runtime::Handle,
    pub(crate) loop_inbox: mpsc::Sender<Input>,
    pub(crate) reader: Reader,
    pub(crate) clock: Clock,
    pub(crate) data_dir: PathBuf,
    pub(crate) supervisor: Arc<[OsString]>,
    pub(crate) config: Arc<KernelConfig>,
    pub(crate) live: Live,
    pub(crate) host: Host,
}

/// The connections, by the life of the kernel that they go to.
pub(crate) struct Kernels {
    surroundings: Surroundings,
    links: BTreeMap<Generation, tokio_mpsc::UnboundedSender<ToLink>>,
}

impl Kernels {
    pub(crate) const fn new(surroundings: Surroundings) -> Self {
        Self { surroundings, links: BTreeMap::new() }
    }

    /// The host of the cells.
    pub(crate) const fn host(&self) -> &Host {
        &self.surroundings.host
    }

    /// Starts a supervisor and connects to it.
    pub(crate) fn start(
        &mut self,
        session: SessionId,
        language: Language,
        generation: Generation,
        workspace: Option<String>,
    ) {
        let link = self.link(session, language, generation);
        self.surroundings.runtime.spawn(link.start(workspace));
    }

    /// Looks for a kernel that should be there and connects to it again.
    pub(crate) fn reattach(&mut self, found: Reattachment) {
        let link = self.link(found.session.clone(), found.language, found.generation);
        self.surroundings.runtime.spawn(link.reattach(found));
    }

    fn link(&mut self, session: SessionId, language: Language, generation: Generation) -> Link {
        let (sender, receiver) = tokio_mpsc::unbounded_channel();
        let weak = sender.downgrade();
        self.links.insert(generation, sender);
        Link {
            around: self.surroundings.clone(),
            directory: kernel_directory(&self.surroundings.data_dir, generation),
            session,
            language,
            generation,
            inbox: receiver,
            sender: weak,
            resolved: None,
            running: BTreeMap::new(),
            reads: VecDeque::new(),
            workspace: PathBuf::new(),
            worker: 0,
            stop_answers: None,
        }
    }

    /// Tells a connection something. One that is gone has said so or will; nothing is lost with it.
    pub(crate) fn send(&self, generation: Generation, message: ToLink) {
        if let Some(link) = self.links.get(&generation) {
            // A closed channel means that the connection's end is already on its way to the loop.
            let _ = link.send(message);
        }
    }

    /// Forgets connections whose kernel is gone.
    pub(crate) fn note(&mut self, event: &Event) {
        if let Event::KernelGone { generation, .. } | Event::KernelStartFailed { generation, .. } = event {
            self.links.remove(generation);
        }
    }

    /// Lets go of every kernel; their supervisors go on.
    pub(crate) fn detach(&mut self) {
        self.links.clear();
    }
}

/// A kernel that should be there when a daemon starts.
pub(crate) struct Reattachment {
    pub(crate) session: SessionId,
    pub(crate) language: Language,
    pub(crate) generation: Generation,
    pub(crate) lease: Option<Lease>,
    pub(crate) heartbeat: Option<Millis>,
    pub(crate) ready: bool,
    pub(crate) workspace: Option<String>,
    /// Told once what was found is durable, in words for people.
    pub(crate) resolved: oneshot::Sender<String>,
}

/// Where everything about one life of a kernel lies.
pub(crate) fn kernel_directory(data_dir: &Path, generation: Generation) -> PathBuf {
    data_dir.join("kernels").join(generation.to_string())
}

/// An execution that was sent to this kernel.
struct Running {
    end: watch::Sender<u64>,
    heartbeat: Option<Millis>,
    /// When the loop was last told of a sign of life, and the one that it was not told of yet.
    told: Instant,
    untold: Option<u64>,
}

struct Link {
    around: Surroundings,
    directory: PathBuf,
    session: SessionId,
    language: Language,
    generation: Generation,
    inbox: tokio_mpsc::UnboundedReceiver<ToLink>,
    /// For those who read output; only the loop keeps the connection up.
    sender: tokio_mpsc::WeakUnboundedSender<ToLink>,
    /// Told once what a start found of this kernel is durable.
    resolved: Option<oneshot::Sender<String>>,
    running: BTreeMap<TicketId, Running>,
    reads: VecDeque<oneshot::Sender<Chunk>>,
    /// Where its cells run.
    workspace: PathBuf,
    /// The worker's process id, which is its group's; 0 until it is known.
    worker: i32,
    /// The execution for which the next stop of the whole kernel answers.
    stop_answers: Option<ExecutionId>,
}

/// A supervisor's connection.
struct Connection {
    from: OwnedReadHalf,
    to: OwnedWriteHalf,
    decoder: Decoder,
    buffer: Vec<u8>,
    /// Frames that came while another was waited for.
    early: VecDeque<(FromSupervisor, Vec<u8>)>,
}

impl Connection {
    async fn send(&mut self, message: &ToSupervisor, body: &[u8]) -> io::Result<()> {
        let mut bytes = Vec::new();
        frame::encode(message, body, &mut bytes).map_err(io::Error::other)?;
        self.to.write_all(&bytes).await
    }

    /// The next frame; `None` at the end of the connection. Dropped at its await it loses nothing:
    /// bytes are in the decoder before it awaits again.
    async fn next(&mut self) -> io::Result<Option<(FromSupervisor, Vec<u8>)>> {
        if let Some(early) = self.early.pop_front() {
            return Ok(Some(early));
        }
        self.next_on_wire().await
    }

    async fn next_on_wire(&mut self) -> io::Result<Option<(FromSupervisor, Vec<u8>)>> {
        loop {
            if let Some(frame) = self.decoder.next_frame().map_err(io::Error::other)? {
                let message = frame.message().map_err(io::Error::other)?;
                return Ok(Some((message, frame.body.to_vec())));
            }
            let read = self.from.read(&mut self.buffer).await?;
            if read == 0 {
                return Ok(None);
            }
            self.decoder.push(&self.buffer[..read]);
        }
    }
}

/// How long a supervisor may take to leave once it was told to.
const LEAVE_PATIENCE: Duration = Duration::from_secs(30);

/// Why a connection is over.
enum Over {
    /// The kernel's end was reported.
    Reported,
    /// It broke, and the kernel may still be there.
    Broken(String),
    /// The engine lets go of it.
    Detached,
}

impl Link {
    fn kernel(&self, report: KernelReport) -> Command {
        Command::Kernel {
            session: self.session.clone(),
            language: self.language,
            generation: self.generation,
            report,
        }
    }

    fn execution(&self, ticket: TicketId, report: ExecutionReport) -> Command {
        let lease = Lease { generation: self.generation, ticket };
        Command::Execution { session: self.session.clone(), lease, report }
    }

    /// Tells the loop something that nobody waits for.
    fn report(&self, command: Command) {
        // The loop is only gone when the whole engine is.
        let _ = self.around.loop_inbox.send(Input::Command(Incoming::report(command)));
    }

    /// Tells the loop something and waits until it is durable.
    async fn report_durably(
        &self,
        command: Command,
        attachments: Vec<Attachment>,
    ) -> Result<Decided, RequestError> {
        let (reply, answer) = oneshot::channel::<Result<Decided, RequestError>>();
        let incoming = Incoming { command: Box::new(command), attachments, reply: Some(reply) };
        self.around.loop_inbox.send(Input::Command(incoming)).map_err(|_| RequestError::Gone)?;
        match answer.await {
            Ok(decided) => decided,
            Err(_) => Err(RequestError::Gone),
        }
    }

    /// Where the cells of its session run.
    fn directory_of_cells(&self, workspace: Option<&str>) -> PathBuf {
        let around = &self.around;
        workspace.map_or_else(|| around.config.workspace_of(&around.data_dir, &self.session), PathBuf::from)
    }

    async fn start(mut self, workspace: Option<String>) {
        self.workspace = self.directory_of_cells(workspace.as_deref());
        match self.launch(self.workspace.clone()).await {
            Ok((connection, attached)) => self.serve(connection, &attached).await,
            Err((reason, unavailable)) => {
                let _ = self
                    .report_durably(self.kernel(KernelReport::StartFailed { reason, unavailable }), vec![])
                    .await;
            }
        }
    }

    /// Starts a supervisor; the failure says whether there is no interpreter at all.
    async fn launch(&self, workspace: PathBuf) -> Result<(Connection, Attached), (String, bool)> {
        let around = self.around.clone();
        let directory = self.directory.clone();
        let (language, generation) = (self.language, self.generation);
        let launched = tokio::task::spawn_blocking(move || {
            std::fs::create_dir_all(&workspace).map_err(|error| {
                (format!("its workspace {} cannot be used: {error}", workspace.display()), false)
            })?;
            let asked_for = around.config.interpreter(language);
            let interpreter = launch::find_interpreter(language, asked_for, &workspace)
                .map_err(|error| (chain(&error), true))?;
            let workers = launch::install_workers(&around.data_dir.join("workers"))
                .map_err(|error| (format!("the worker's sources could not be written: {error}"), false))?;
            let argv = launch::worker_argv(&interpreter, &workers);
            let mut spec = KernelSpec::new(generation, secret(), language, argv, workspace);
            spec.environment = launch::worker_environment(std::env::vars_os(), &interpreter);
            around.config.apply(&mut spec);
            launch::launch(&around.supervisor, &spec, &directory).map_err(|error| (chain(&error), false))?;
            attach_blocking(&directory, &spec).map_err(|reason| (reason, false))
        })
        .await;
        match launched {
            Ok(Ok(attached)) => open_connection(attached).map_err(|error| (error.to_string(), false)),
            Ok(Err(failure)) => Err(failure),
            Err(error) => Err((format!("starting the kernel failed inside Agarose: {error}"), false)),
        }
    }

    async fn reattach(mut self, found: Reattachment) {
        self.workspace = self.directory_of_cells(found.workspace.as_deref());
        let directory = self.directory.clone();
        let looked = tokio::task::spawn_blocking(move || look_and_attach(&directory)).await;
        let looked = looked.unwrap_or_else(|error| Looked::Unreachable(error.to_string()));
        match looked {
            Looked::Attached(attached) => match open_connection(*attached) {
                Ok((connection, attached)) => {
                    self.resolved = Some(found.resolved);
                    self.resume(&attached, found.lease, found.heartbeat).await;
                    self.serve(connection, &attached).await;
                }
                Err(error) => {
                    let told = self.say_gone(error.to_string(), None).await;
                    let _ = found.resolved.send(told);
                }
            },
            // The daemon died between the intent and the start, or before the kernel was of any
            // use: nothing ran in it, so it may be started now.
            Looked::Nothing | Looked::Gone(_) if !found.ready => {
                remove_directory(&self.directory).await;
                let session = self.session.clone();
                let _ = found.resolved.send(format!("session {session}: its kernel is started again"));
                self.start(found.workspace).await;
            }
            Looked::Nothing => {
                let told = self.say_gone("its directory is gone".to_owned(), None).await;
                let _ = found.resolved.send(told);
            }
            Looked::Unreachable(reason) => {
                let told = self.say_gone(reason, None).await;
                let _ = found.resolved.send(told);
            }
            Looked::Gone(remains) => {
                let ticket = found.lease.map(|lease| lease.ticket);
                let told = self.collect_remains(*remains, ticket, true).await;
                let _ = found.resolved.send(told);
                remove_directory(&self.directory).await;
            }
        }
    }

    /// Says that the kernel speaks to us again; the loop repeats what it had asked for.
    async fn resume(&mut self, attached: &Attached, lease: Option<Lease>, heartbeat: Option<Millis>) {
        if let Some(lease) = lease {
            self.track(lease.ticket, heartbeat);
        }
        // How it died comes next, and only then is it known what a start found.
        if attached.state == WorkerState::Gone {
            return;
        }
        let _ = self.report_durably(self.kernel(KernelReport::Reattached), vec![]).await;
        let (session, generation) = (&self.session, self.generation);
        let told = match attached.executing {
            Some(id) => format!("session {session}: ticket {id} went on running in {generation}"),
            None => format!("session {session}: kernel {generation} was found again"),
        };
        self.resolve(told);
    }

    /// Tells whoever started the engine what was found, if that is still awaited.
    fn resolve(&mut self, told: String) {
        if let Some(resolved) = self.resolved.take() {
            // Whoever started the engine may have given up waiting for the summary.
            let _ = resolved.send(told);
        }
    }

    async fn say_gone(&self, evidence: String, output: Option<CoreOutput>) -> String {
        let told = format!("session {}: its kernel {} is gone ({evidence})", self.session, self.generation);
        let exit = Exit::Unknown { evidence };
        let gone = KernelReport::Gone { exit, while_down: true, began: None, output, left: None };
        let _ = self.report_durably(self.kernel(gone), vec![]).await;
        told
    }

    /// A supervisor that is gone may have left results and output in its spool.
    async fn collect_remains(
        &mut self,
        remains: client::Remains,
        ticket: Option<TicketId>,
        while_down: bool,
    ) -> String {
        let remains = stop_remains(remains).await;
        let reason = remains.because;
        // What is not in the spool never reached the worker.
        let mut began = ticket.map(|_| false);
        let mut output = None;
        let mut attachments = Vec::new();
        let mut told =
            format!("session {}: its kernel {} is gone ({})", self.session, self.generation, reason);
        for execution in remains.executions {
            if Some(execution.id.0) != ticket {
                continue;
            }
            let runs = execution.output.runs.iter().map(|run| (run.channel, run.start, run.len));
            let stream = stream_of(runs, &execution.bytes);
            let kept = match self.keep(&execution.output, stream, &mut attachments).await {
                Ok(kept) => kept,
                Err(error) => {
                    tracing::warn!(%error, "output of a lost cell could not be kept");
                    CoreOutput::default()
                }
            };
            match execution.result {
                Some(result) => {
                    let told_result = self
                        .say_result(execution.id.0, result, 0, kept, std::mem::take(&mut attachments))
                        .await;
                    if told_result.is_ok() {
                        told = format!(
                            "session {}: ticket {} had ended, its result was recorded; kernel {} is gone",
                            self.session, execution.id, self.generation
                        );
                    }
                }
                None => {
                    // A supervisor that was killed may have heard of the beginning and not written it down.
                    let is_known = execution.started || reason != GoneBecause::Killed;
                    began = is_known.then_some(execution.started);
                    output = Some(kept);
                    told.push_str(&format!(", while ticket {} ran in it", execution.id));
                }
            }
        }
        let stopped = remains.record.as_ref().and_then(|record| {
            Some(group_of(record.stopped.clone()?, record.worker.map_or(0, |worker| worker.pid)))
        });
        let exit = match remains.record.and_then(|record| Some((record.exit?, record.limit))) {
            Some((exit, limit)) => exit_of(&exit, None, limit),
            None => Exit::Unknown { evidence: reason.to_string() },
        };
        let gone = KernelReport::Gone { exit, while_down, began, output, left: stopped };
        let _ = self.report_durably(self.kernel(gone), attachments).await;
        told
    }

    /// Speaks with the supervisor until the kernel is gone or the engine lets go.
    async fn serve(&mut self, mut connection: Connection, attached: &Attached) {
        self.worker = attached.worker.map_or(0, |worker| worker.pid);
        let mut died_alone = attached.state == WorkerState::Gone;
        loop {
            match self.converse(&mut connection, &mut died_alone).await {
                Over::Detached => return,
                Over::Reported => {
                    drop(connection);
                    remove_directory(&self.directory).await;
                    return;
                }
                Over::Broken(reason) => {
                    tracing::warn!(generation = %self.generation, %reason, "a supervisor's connection broke");
                    match self.reconnect().await {
                        Some(again) => connection = again,
                        None => return,
                    }
                }
            }
        }
    }

    /// After a broken connection: the supervisor again, or what it left.
    async fn reconnect(&mut self) -> Option<Connection> {
        let directory = self.directory.clone();
        let looked = tokio::task::spawn_blocking(move || look_and_attach(&directory)).await;
        let evidence = match looked {
            Ok(Looked::Attached(attached)) => match open_connection(*attached) {
                Ok((again, attached)) if attached.state != WorkerState::Gone => {
                    let _ = self.report_durably(self.kernel(KernelReport::Reattached), vec![]).await;
                    return Some(again);
                }
                Ok((again, _)) => return Some(again),
                Err(error) => error.to_string(),
            },
            Ok(Looked::Gone(remains)) => {
                // A kernel runs one cell at a time.
                let ticket = self.running.keys().next().copied();
                self.collect_remains(*remains, ticket, false).await;
                remove_directory(&self.directory).await;
                return None;
            }
            Ok(Looked::Nothing) => "its directory is gone".to_owned(),
            Ok(Looked::Unreachable(reason)) => reason,
            Err(error) => error.to_string(),
        };
        let gone = KernelReport::Gone {
            exit: Exit::Unknown { evidence },
            while_down: false,
            began: None,
            output: None,
            left: None,
        };
        let _ = self.report_durably(self.kernel(gone), vec![]).await;
        remove_directory(&self.directory).await;
        None
    }

    async fn converse(&mut self, connection: &mut Connection, died_alone: &mut bool) -> Over {
        loop {
            let quiet = self.next_sign_of_life();
            // Each branch may be dropped at its await: a message stays in its channel, bytes stay in
            // the decoder, and the timer is made anew.
            tokio::select! {
                message = self.inbox.recv() => {
                    let Some(message) = message else { return Over::Detached };
                    if let Err(error) = self.pass_on(connection, message).await {
                        return Over::Broken(error.to_string());
                    }
                }
                frame = connection.next() => match frame {
                    Ok(Some((message, body))) => {
                        match self.hear(connection, message, body, died_alone).await {
                            Ok(None) => {}
                            Ok(Some(over)) => return over,
                            Err(error) => return Over::Broken(error.to_string()),
                        }
                    }
                    Ok(None) => return Over::Broken("the supervisor closed it".to_owned()),
                    Err(error) => return Over::Broken(error.to_string()),
                },
                () = sleep_until(quiet) => self.tell_signs_of_life(),
            }
        }
    }

    async fn pass_on(&mut self, connection: &mut Connection, message: ToLink) -> io::Result<()> {
        let generation = self.generation;
        match message {
            ToLink::Execute { lease, source, name, ordinal, heartbeat } => {
                let source = match self.around.reader.blob(&source) {
                    Ok(Some(source)) => source,
                    Ok(None) => return Err(io::Error::other("the source of the cell is not in the log")),
                    Err(error) => return Err(io::Error::other(chain(&error))),
                };
                self.track(lease.ticket, heartbeat);
                let id = ExecutionId(lease.ticket);
                connection.send(&ToSupervisor::Execute { generation, id, name, ordinal }, &source).await?;
                if heartbeat.is_some() {
                    connection.send(&ToSupervisor::Follow { generation, id, on: true }, &[]).await?;
                }
                Ok(())
            }
            ToLink::Interrupt { lease, attempt } => {
                let id = ExecutionId(lease.ticket);
                connection.send(&ToSupervisor::Interrupt { generation, id, attempt }, &[]).await
            }
            ToLink::Stop { lease, grace } => {
                let stop = ToSupervisor::Stop {
                    generation,
                    id: lease.map(|lease| ExecutionId(lease.ticket)),
                    term_grace_ms: grace.0.min(5_000),
                    kill_grace_ms: grace.0,
                };
                connection.send(&stop, &[]).await
            }
            ToLink::Release { lease } => {
                self.untrack(lease.ticket);
                let id = ExecutionId(lease.ticket);
                connection.send(&ToSupervisor::Release { generation, id }, &[]).await
            }
            ToLink::Read { ticket, from, max, tell } => {
                self.reads.push_back(tell);
                let id = Some(ExecutionId(ticket));
                connection.send(&ToSupervisor::Read { generation, id, from, max }, &[]).await
            }
            ToLink::Follow { ticket } => {
                let id = ExecutionId(ticket);
                connection.send(&ToSupervisor::Follow { generation, id, on: true }, &[]).await
            }
            ToLink::HostReply { call, ok, body } => {
                connection.send(&ToSupervisor::HostReply { generation, call: call.0, ok }, &body).await
            }
        }
    }

    /// Hears one frame; says when the conversation is over.
    async fn hear(
        &mut self,
        connection: &mut Connection,
        message: FromSupervisor,
        body: Vec<u8>,
        died_alone: &mut bool,
    ) -> io::Result<Option<Over>> {
        match message {
            FromSupervisor::Attached(_) => {}
            FromSupervisor::Ready(ready) => {
                self.worker = ready.pid;
                let process = process_of(&ready);
                self.report(self.kernel(KernelReport::Ready(process)));
            }
            FromSupervisor::StartFailed { reason, stderr_tail } => {
                let reason = if stderr_tail.trim().is_empty() {
                    reason
                } else {
                    format!("{reason}; it wrote: {}", stderr_tail.trim())
                };
                let failed = KernelReport::StartFailed { reason, unavailable: false };
                let _ = self.report_durably(self.kernel(failed), vec![]).await;
                return self.part(connection, true).await.map(Some);
            }
            FromSupervisor::Started { id } => {
                self.report(self.execution(id.0, ExecutionReport::Acknowledged));
            }
            FromSupervisor::Refused { id, refusal } => {
                tracing::warn!(ticket = %id, ?refusal, "a supervisor refused a cell");
            }
            FromSupervisor::Progress { id, end, idle_ms, .. } => self.note_progress(id.0, end, idle_ms),
            FromSupervisor::HostCall { id, call, method } => {
                let lease = Lease { generation: self.generation, ticket: id.0 };
                let (session, workspace, link) =
                    (self.session.clone(), self.workspace.clone(), self.sender.clone());
                let caller = Caller { session, lease, workspace, link };
                self.around.host.arrived(caller, CallId(call), method, body);
            }
            FromSupervisor::HostCallGivenUp { id, call } => {
                let lease = Lease { generation: self.generation, ticket: id.0 };
                self.around.host.given_up(self.session.clone(), lease, CallId(call));
            }
            FromSupervisor::Ended { id, result, output, children_left } => {
                self.hear_ended(connection, id, result, output, children_left, &body).await?;
            }
            FromSupervisor::WorkerGone(gone) => {
                return self.hear_gone(connection, gone, *died_alone).await.map(Some);
            }
            FromSupervisor::Verdict(verdict) => {
                let report =
                    ExecutionReport::Interrupt { attempt: verdict.attempt, verdict: verdict_of(&verdict) };
                self.report(self.execution(verdict.id.0, report));
            }
            FromSupervisor::Stopped { id: Some(id), outcome } => {
                let mut attachments = Vec::new();
                let output = self.collect_unless_told(connection, id, &mut attachments).await?;
                return self.say_stopped(connection, id, outcome, output, attachments).await.map(Some);
            }
            FromSupervisor::StopRefused { id, .. } => {
                // The cell ended while its stop was on the way. The log already says that the
                // kernel is stopped, so it is, and that answers for the cell too.
                self.stop_answers = Some(id);
                let stop = ToSupervisor::Stop {
                    generation: self.generation,
                    id: None,
                    term_grace_ms: 5_000,
                    kill_grace_ms: 10_000,
                };
                connection.send(&stop, &[]).await?;
            }
            FromSupervisor::Stopped { id: None, outcome } => {
                if let Some(id) = self.stop_answers.take() {
                    return self.say_stopped(connection, id, outcome, None, vec![]).await.map(Some);
                }
                let group = group_of(outcome, self.worker);
                let exit = if group.is_gone() {
                    Exit::Stopped
                } else {
                    Exit::Unknown { evidence: "its group could not be stopped".to_owned() }
                };
                let gone =
                    KernelReport::Gone { exit, while_down: false, began: None, output: None, left: None };
                let _ = self.report_durably(self.kernel(gone), vec![]).await;
                return self.part(connection, group.is_gone()).await.map(Some);
            }
            FromSupervisor::Chunk { next, gap, runs, held, .. } => {
                if let Some(tell) = self.reads.pop_front() {
                    let mut rest = body.as_slice();
                    let runs = runs.iter().map(|run| {
                        let length = usize::try_from(run.len).unwrap_or(usize::MAX).min(rest.len());
                        let (bytes, after) = rest.split_at(length);
                        rest = after;
                        (run.channel, run.start, bytes.to_vec())
                    });
                    let runs = runs.collect();
                    let dropped = gap.map_or(0, |gap| gap.dropped);
                    // The reader may have gone.
                    let _ = tell.send(Chunk { runs, next, dropped, held });
                }
            }
            FromSupervisor::ProtocolError { reason } => return Err(io::Error::other(reason)),
        }
        Ok(None)
    }

    async fn hear_ended(
        &mut self,
        connection: &mut Connection,
        id: ExecutionId,
        result: CellResult,
        output: wire::Output,
        children_left: u64,
        body: &[u8],
    ) -> io::Result<()> {
        let mut attachments = Vec::new();
        let total = output.stdout.retained + output.stderr.retained + output.display.retained;
        let stream = if total <= wire::INLINE_OUTPUT {
            stream_of(output.runs.iter().map(|run| (run.channel, run.start, run.len)), body)
        } else {
            self.read_all(connection, id).await?
        };
        let kept = self.keep(&output, stream, &mut attachments).await?;
        if let Some(running) = self.running.get(&id.0) {
            running.end.send_replace(output.stream_end);
        }
        match self.say_result(id.0, result, children_left, kept, attachments).await {
            // The loop has it released.
            Ok(Decided { changed: true, .. }) => Ok(()),
            // The log had it before: an earlier daemon's release did not arrive.
            Ok(Decided { changed: false, .. }) => {
                self.untrack(id.0);
                connection.send(&ToSupervisor::Release { generation: self.generation, id }, &[]).await
            }
            Err(error) => {
                // It stays with the supervisor; a later start collects it.
                tracing::error!(ticket = %id, %error, "a result could not be recorded");
                Ok(())
            }
        }
    }

    async fn say_result(
        &self,
        ticket: TicketId,
        result: CellResult,
        children_left: u64,
        output: CoreOutput,
        mut attachments: Vec<Attachment>,
    ) -> Result<Decided, RequestError> {
        let status = match result.status {
            CellStatus::Ok => ResultStatus::Ok,
            CellStatus::Error => ResultStatus::Error,
            CellStatus::Interrupted => ResultStatus::Interrupted,
        };
        let interrupt_landed = result.interrupt_seen;
        let record = serde_json::to_vec(&ResultRecord { result, children_left })
            .map_err(|error| RequestError::Internal { message: error.to_string() })?;
        let record = self
            .store(record, &mut attachments)
            .await
            .map_err(|error| RequestError::Internal { message: error.to_string() })?;
        let report = ExecutionReport::Result { status, interrupt_landed, record, output };
        self.report_durably(self.execution(ticket, report), attachments).await
    }

    async fn say_stopped(
        &self,
        connection: &mut Connection,
        id: ExecutionId,
        outcome: StopOutcome,
        output: Option<CoreOutput>,
        attachments: Vec<Attachment>,
    ) -> io::Result<Over> {
        let outcome = group_of(outcome, self.worker);
        let is_gone = outcome.is_gone();
        let report = ExecutionReport::Stopped { outcome, output };
        let _ = self.report_durably(self.execution(id.0, report), attachments).await;
        self.part(connection, is_gone).await
    }

    /// Parts from a supervisor whose kernel is not ours any more. One that could not stop its group
    /// is left to try again when its grace is over.
    async fn part(&self, connection: &mut Connection, is_gone: bool) -> io::Result<Over> {
        if !is_gone {
            return Ok(Over::Detached);
        }
        let leave = ToSupervisor::Shutdown { generation: self.generation };
        // It may have left already.
        let _ = connection.send(&leave, &[]).await;
        // It writes its last record on the way out, and only then may its directory go.
        let left = async { while let Ok(Some(_)) = connection.next_on_wire().await {} };
        if tokio::time::timeout(LEAVE_PATIENCE, left).await.is_err() {
            tracing::warn!(generation = %self.generation, "a supervisor does not leave; its grace will end it");
            return Ok(Over::Detached);
        }
        Ok(Over::Reported)
    }

    async fn hear_gone(
        &mut self,
        connection: &mut Connection,
        gone: wire::WorkerGone,
        died_alone: bool,
    ) -> io::Result<Over> {
        let mut attachments = Vec::new();
        let mut output = None;
        if let (Some(id), Some(counted)) = (gone.executing, &gone.output) {
            let stream = self.read_all(connection, id).await?;
            output = Some(self.keep(counted, stream, &mut attachments).await?);
        }
        let exit = match gone.reason {
            Some(reason) => Exit::Protocol { reason },
            None => exit_of(&gone.exit, gone.oom, gone.limit),
        };
        let began = gone.executing.map(|_| gone.started);
        let left = gone.left.map(|left| group_of(left, self.worker));
        let lost = gone.executing.map(|id| format!(" while ticket {id} ran in it")).unwrap_or_default();
        let gone = KernelReport::Gone { exit, while_down: died_alone, began, output, left };
        if self.report_durably(self.kernel(gone), attachments).await.is_err() {
            // It stays with the supervisor; a later start collects it.
            return Ok(Over::Detached);
        }
        self.resolve(format!("session {}: its kernel {} had died{lost}", self.session, self.generation));
        self.part(connection, true).await
    }

    /// The output of a cell that was stopped.
    async fn collect_unless_told(
        &mut self,
        connection: &mut Connection,
        id: ExecutionId,
        attachments: &mut Vec<Attachment>,
    ) -> io::Result<Option<CoreOutput>> {
        if !self.running.contains_key(&id.0) {
            return Ok(None);
        }
        let stream = self.read_all(connection, id).await?;
        let mut output = count(&stream);
        if !stream.is_empty() {
            output.stream = Some(self.store(stream, attachments).await?);
        }
        Ok(Some(output))
    }

    /// Reads the whole retained output of an execution, setting aside what else comes meanwhile.
    async fn read_all(&mut self, connection: &mut Connection, id: ExecutionId) -> io::Result<Vec<u8>> {
        let generation = self.generation;
        let mut bytes = Vec::new();
        let mut from = 0;
        loop {
            let read = ToSupervisor::Read { generation, id: Some(id), from, max: wire::CHUNK_LIMIT };
            connection.send(&read, &[]).await?;
            // Answers come in order, so those that were asked for before come first.
            let earlier = self.reads.len();
            let mut answered = 0;
            let (next, end) = loop {
                let Some((message, body)) = connection.next_on_wire().await? else {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                };
                match message {
                    FromSupervisor::Chunk { next, end, runs, .. } if answered == earlier => {
                        bytes.extend(stream_of(
                            runs.iter().map(|run| (run.channel, run.start, run.len)),
                            &body,
                        ));
                        break (next, end);
                    }
                    FromSupervisor::Chunk { .. } => {
                        answered += 1;
                        connection.early.push_back((message, body));
                    }
                    other => connection.early.push_back((other, body)),
                }
            };
            if next >= end || next <= from {
                return Ok(bytes);
            }
            from = next;
        }
    }

    /// Puts output where the next commit finds it.
    async fn keep(
        &self,
        counted: &wire::Output,
        stream: Vec<u8>,
        attachments: &mut Vec<Attachment>,
    ) -> io::Result<CoreOutput> {
        let blob = if stream.is_empty() { None } else { Some(self.store(stream, attachments).await?) };
        Ok(CoreOutput {
            stdout: Counters::from(counted.stdout),
            stderr: Counters::from(counted.stderr),
            stream: blob,
        })
    }

    async fn store(&self, bytes: Vec<u8>, attachments: &mut Vec<Attachment>) -> io::Result<BlobRef> {
        store(&self.around.reader, bytes, attachments).await
    }

    fn track(&mut self, ticket: TicketId, heartbeat: Option<Millis>) {
        if self.running.contains_key(&ticket) {
            return;
        }
        let (end, ends) = watch::channel(0);
        self.around.live.insert(ticket, LiveEntry { link: self.sender.clone(), end: ends });
        self.running.insert(ticket, Running { end, heartbeat, told: Instant::now(), untold: None });
    }

    fn untrack(&mut self, ticket: TicketId) {
        self.running.remove(&ticket);
        self.around.live.remove(ticket);
    }

    fn note_progress(&mut self, ticket: TicketId, end: u64, idle_ms: u64) {
        let Some(running) = self.running.get_mut(&ticket) else { return };
        // A reader that asks to follow is told the same end again, which is no news to wake it with.
        running.end.send_if_modified(|known| std::mem::replace(known, end) != end);
        if running.heartbeat.is_some() {
            running.untold = Some(self.around.clock.mono().saturating_sub(idle_ms));
        }
    }

    /// When the loop has to be told of signs of life: a few times in each heartbeat is enough.
    fn next_sign_of_life(&self) -> Option<Instant> {
        let due = |running: &Running| {
            let heartbeat = running.heartbeat.filter(|_| running.untold.is_some())?;
            Some(running.told + Duration::from_millis(heartbeat.0 / 8))
        };
        self.running.values().filter_map(due).min()
    }

    fn tell_signs_of_life(&mut self) {
        let mut signs = Vec::new();
        for (ticket, running) in &mut self.running {
            if let Some(at) = running.untold.take() {
                running.told = Instant::now();
                signs.push((*ticket, at));
            }
        }
        for (ticket, at) in signs {
            self.report(self.execution(ticket, ExecutionReport::Active { at }));
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        for ticket in self.running.keys() {
            self.around.live.remove(*ticket);
        }
    }
}

/// Bytes on their way into the log: small ones with the commit, large ones synced before it.
pub(crate) async fn store(
    reader: &Reader,
    bytes: Vec<u8>,
    attachments: &mut Vec<Attachment>,
) -> io::Result<BlobRef> {
    if bytes.len() <= agarose_journal::INLINE_LIMIT {
        let attachment = Attachment::new(bytes).map_err(io::Error::other)?;
        let blob = attachment.blob();
        attachments.push(attachment);
        return Ok(blob);
    }
    let reader = reader.clone();
    tokio::task::spawn_blocking(move || reader.blobs().store(&bytes))
        .await
        .map_err(io::Error::other)?
        .map_err(|error| io::Error::other(chain(&error)))
}

/// Counters of a stream that came without them: what lies between its runs was dropped, and is
/// counted with the run behind it.
pub(crate) fn count(bytes: &[u8]) -> CoreOutput {
    let mut output = CoreOutput::default();
    let mut end = 0u64;
    for run in stream::runs(bytes) {
        let dropped = run.start.saturating_sub(end);
        let length = run.bytes.len() as u64;
        end = run.start.saturating_add(length);
        let count = match run.channel {
            StreamChannel::Stdout => &mut output.stdout,
            StreamChannel::Stderr => &mut output.stderr,
            StreamChannel::Display => continue,
        };
        *count = count.and(length.saturating_add(dropped), length);
    }
    output
}

async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

fn open_connection((stream, attached, decoder): RawConnection) -> io::Result<(Connection, Attached)> {
    stream.set_nonblocking(true)?;
    let (from, to) = UnixStream::from_std(stream)?.into_split();
    let connection = Connection { from, to, decoder, buffer: vec![0; 64 << 10], early: VecDeque::new() };
    Ok((connection, attached))
}

type RawConnection = (std::os::unix::net::UnixStream, Attached, Decoder);

fn attach_blocking(directory: &Path, spec: &KernelSpec) -> Result<RawConnection, String> {
    let mut stream =
        client::connect(directory).map_err(|error| format!("its supervisor does not listen: {error}"))?;
    let (attached, rest) = client::attach(&mut stream, spec).map_err(|error| chain(&error))?;
    Ok((stream, attached, rest))
}

/// What was found where a kernel should be.
enum Looked {
    Attached(Box<RawConnection>),
    Gone(Box<client::Remains>),
    Nothing,
    Unreachable(String),
}

fn look_and_attach(directory: &Path) -> Looked {
    match client::look(directory) {
        Ok(Found::Nothing) => Looked::Nothing,
        Ok(Found::Gone(remains)) => Looked::Gone(remains),
        Ok(Found::Alive { .. }) => {
            let spec = match agarose_kernel::spec::read_spec(directory) {
                Ok(spec) => spec,
                Err(error) => {
                    return Looked::Unreachable(format!("its specification does not read: {error}"));
                }
            };
            match attach_blocking(directory, &spec) {
                Ok(attached) => Looked::Attached(Box::new(attached)),
                // It may have left between the two looks.
                Err(reason) => match client::look(directory) {
                    Ok(Found::Gone(remains)) => Looked::Gone(remains),
                    Ok(Found::Nothing) => Looked::Nothing,
                    Ok(Found::Alive { .. }) | Err(_) => Looked::Unreachable(reason),
                },
            }
        }
        Err(error) => Looked::Unreachable(error.to_string()),
    }
}

async fn remove_directory(directory: &Path) {
    let directory = directory.to_path_buf();
    let _ = tokio::task::spawn_blocking(move || {
        if let Err(error) = std::fs::remove_dir_all(&directory)
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(directory = %directory.display(), %error, "a kernel's directory stays behind");
        }
    })
    .await;
}

/// A worker dies with its supervisor; what it had started does not.
async fn stop_remains(remains: client::Remains) -> client::Remains {
    const GRACE: Duration = Duration::from_secs(5);
    let kept = remains.clone();
    tokio::task::spawn_blocking(move || {
        let outcome = client::stop_remains(&remains, GRACE, GRACE);
        if let Some(outcome) = outcome.filter(|outcome| outcome.killed_count > 0) {
            tracing::info!(?outcome, "what a dead supervisor had left behind was stopped");
        }
        remains
    })
    .await
    .unwrap_or(kept)
}

fn secret() -> String {
    let mut bytes = [0u8; 32];
    if getrandom::fill(&mut bytes).is_err() {
        tracing::warn!("the system gives no randomness; the kernel's secret is weak");
    }
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn stream_of(runs: impl Iterator<Item = (Channel, u64, u64)>, mut bytes: &[u8]) -> Vec<u8> {
    let mut stream = Vec::with_capacity(bytes.len());
    for (channel, start, length) in runs {
        let length = usize::try_from(length).unwrap_or(usize::MAX).min(bytes.len());
        let (piece, rest) = bytes.split_at(length);
        bytes = rest;
        let channel = match channel {
            Channel::Stdout => StreamChannel::Stdout,
            Channel::Stderr => StreamChannel::Stderr,
            Channel::Display => StreamChannel::Display,
        };
        stream::push(&mut stream, StreamRun { channel, start, bytes: piece });
    }
    stream
}

fn process_of(ready: &Ready) -> KernelProcess {
    KernelProcess {
        pid: u32::try_from(ready.pid).unwrap_or(0),
        executable: ready.executable.clone(),
        version: ready.version.clone(),
        packages: ready.packages_digest.clone(),
    }
}

fn verdict_of(verdict: &wire::Verdict) -> Verdict {
    match verdict.verdict {
        VerdictWord::Delivered => Verdict::Delivered,
        VerdictWord::ReachedNobody => Verdict::ReachedNobody {
            reason: match verdict.reason {
                Some(NobodyReached::NotExecuting) => NobodyReason::StaleLease,
                Some(NobodyReached::AlreadyEnded) => NobodyReason::NotArmed,
                Some(NobodyReached::WorkerGone | NobodyReached::Stopping) => NobodyReason::WorkerGone,
                Some(NobodyReached::NotPermitted) | None => NobodyReason::SupervisorUnreachable,
            },
        },
    }
}

fn exit_of(exit: &ProcessExit, oom: Option<bool>, limit: Option<PassedLimit>) -> Exit {
    if let Some(limit) = limit {
        return Exit::Limit { limit: limit.to_string() };
    }
    match exit {
        ProcessExit::Code(code) => Exit::Code(*code),
        ProcessExit::Signal { number, .. } => {
            Exit::Signal { signal: *number, out_of_memory: oom.unwrap_or(false) }
        }
        ProcessExit::Unknown => Exit::Unknown { evidence: "gone, with an unknown exit status".to_owned() },
    }
}

fn group_of(outcome: StopOutcome, worker: i32) -> GroupOutcome {
    let notes = |states: Vec<ProcessState>| states.into_iter().map(|state| note_of(state, worker)).collect();
    match outcome.end {
        StopEnd::AlreadyExited => GroupOutcome::AlreadyExited,
        StopEnd::ExitedOnTerm => GroupOutcome::ExitedOnTerm,
        StopEnd::Killed => GroupOutcome::Killed { killed: notes(outcome.killed) },
        StopEnd::AliveAfterKill { left } => GroupOutcome::Alive { left: notes(left) },
        StopEnd::CouldNotSignal { errno, .. } => GroupOutcome::NotSignalled { errno },
    }
}

fn note_of(state: ProcessState, worker: i32) -> ProcessNote {
    ProcessNote {
        pid: u32::try_from(state.id.pid).unwrap_or(0),
        state: state.state,
        command: state.command,
        escaped: state.group != worker,
    }
}
