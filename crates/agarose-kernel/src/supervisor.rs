//! The process that holds a worker, and outlives the daemon.
//!
//! One thread, one poll, no timer while nothing is due. It holds the worker's pipes, its group
//! and its exit status, keeps its output in the [`spool`](crate::spool), and serves one daemon at
//! a time on a unix socket. A daemon's death never touches the worker.
//!
//! | Life | What happens | Next |
//! |---|---|---|
//! | starting | `ready` comes | up |
//! | starting, up | the worker dies, breaks the protocol, or is to be stopped | stopping |
//! | stopping | nothing of its group is left | gone |
//! | stopping | something is left in spite of KILL | stuck |
//! | stuck | the worker dies after all | stopping |
//! | gone, stuck | a daemon says `shutdown`, or none comes within the grace | leave, with a record |

mod connection;
mod log;
mod requests;
mod worker;

use std::{
    collections::{BTreeSet, VecDeque},
    io,
    os::{fd::AsFd, unix::net::UnixListener},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use agarose_process::{
    Exit, Interest, ProcessId, Readiness, Signal, SignalError, SignalEvents, Stop, StopEnd, StopOutcome,
    become_subreaper, bind_in, boot_id, copy_of, group_members, own_session, poll, reap_orphans,
    signal_process, start_time,
};

use self::{
    connection::{Connection, STRANGER_TIME},
    log::{Log, wall_ms},
    worker::Worker,
};
use crate::{
    launch::LISTENER_VARIABLE,
    spec::{
        FINAL_FILE, FinalCause, FinalRecord, KernelProcesses, KernelSpec, PROCESSES_FILE, PassedLimit,
        SOCKET_FILE, read_spec, write_json,
    },
    spool::{Spool, Stream},
    wire::{
        Channel, ExecutionId, PROTOCOL,
        frame::{EncodeError, FrameError, HEADER, encode},
        supervisor::{
            Attached, FromSupervisor, HostCall, INLINE_OUTPUT, NobodyReached, Output, Verdict, VerdictWord,
            WorkerGone, WorkerState,
        },
        worker::{CellResult, FromWorker, Ready, ToWorker},
    },
};

/// How much is read at once.
const BUFFER: usize = 128 << 10;
/// How often the wire is read before others get their turn.
const WIRE_READS: usize = 16;
/// How long a worker may go on after it has closed its wire, as it does when it dies.
const WIRE_GRACE: Duration = Duration::from_millis(500);
/// How long what a dead or broken worker leaves behind may take to leave on TERM.
const REST_GRACE: Duration = Duration::from_millis(200);
/// A supervisor that no daemon has ever claimed waits at least so long: one is about to.
const FIRST_CLAIM: Duration = Duration::from_secs(30);
/// The shortest time between two reports of progress.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(20);
/// How long after an interrupt, and after each nudge, the worker is nudged by a SIGURG: a SIGINT
/// that comes between an interpreter's last look and a system call that blocks is not seen until
/// that call returns, and any handled signal makes it return.
/// They go on, a second apart, until the execution ends.
const NUDGES_AFTER: [Duration; 4] = [
    Duration::from_millis(2),
    Duration::from_millis(10),
    Duration::from_millis(50),
    Duration::from_millis(250),
];
const NUDGES_APART: Duration = Duration::from_secs(1);
/// How often the worker's group is looked at for an interrupt.
const INTERRUPT_ROUNDS: usize = 16;
/// How many connections may wait to show their secret.
const STRANGERS: usize = 8;
/// How many released executions, and how many verdicts, are remembered.
const REMEMBERED: usize = 1024;
/// The most bytes of host calls without an answer that are held, for a daemon that is not there yet.
const CALLS_HELD: usize = 16 << 20;

/// Why a supervisor could not do its work.
#[derive(Debug, thiserror::Error)]
pub enum SuperviseError {
    /// The specification could not be read.
    #[error("could not read the specification in {}", dir.display())]
    Spec {
        /// The kernel's directory.
        dir: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Something that it cannot do without failed.
    #[error("could not {what} in {}", dir.display())]
    Setup {
        /// What.
        what: &'static str,
        /// The kernel's directory.
        dir: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It could not wait for its peers.
    #[error("could not wait for events")]
    Poll(#[source] io::Error),
}

/// Supervises the kernel of `dir` until it is told to leave or nobody claims it.
///
/// The process belongs to it: it becomes the leader of a session, a child subreaper, and blocks
/// SIGCHLD and SIGTERM. To be called from the main thread, with no other thread running: the
/// worker is killed when the thread that started it ends.
///
/// # Errors
/// When the kernel could not be set up at all. A worker that does not start is no such error: the
/// daemon is told.
pub fn supervise(dir: &Path) -> Result<(), SuperviseError> {
    let spec = read_spec(dir).map_err(|source| SuperviseError::Spec { dir: dir.to_path_buf(), source })?;
    Supervisor::new(dir, spec)?.run()
}

/// What becomes of the worker.
#[derive(Debug)]
enum Life {
    Starting { until: Instant },
    Up,
    Stopping(Stop),
    Stuck,
    Gone,
}

/// The execution that the worker has.
#[derive(Debug)]
struct Current {
    id: ExecutionId,
    started: bool,
    /// Attempts to interrupt it that came before it had started.
    owed: Vec<u32>,
    last_output: Instant,
    /// When the worker is to be nudged, and how often it has been.
    nudge: Option<(Instant, usize)>,
}

/// An execution that ended and was not released.
#[derive(Debug)]
struct Ended {
    result: CellResult,
    children_left: u64,
}

/// A host call that has no answer yet.
#[derive(Clone, Debug)]
struct Call {
    call: HostCall,
    /// Its arguments, for the daemon that is there and for one that comes after it.
    arguments: Vec<u8>,
    given_up: bool,
}

/// What the daemon is kept informed of.
#[derive(Debug)]
struct Follow {
    id: ExecutionId,
    last: Instant,
    due: Option<Instant>,
}

/// What an event came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    Signals,
    Listener,
    Daemon,
    Stranger(usize),
    WorkerDeath,
    WorkerInput,
    Worker(Channel),
}

struct Supervisor {
    dir: PathBuf,
    spec: KernelSpec,
    processes: KernelProcesses,
    listener: UnixListener,
    events: SignalEvents,
    life: Life,
    worker: Option<Worker>,
    /// Whether the worker's death has been noticed; its pidfd stays readable from then on.
    worker_dead: bool,
    wire_closed: Option<Instant>,
    ready: Option<Ready>,
    current: Option<Current>,
    /// The execution that the worker had when it went.
    lost: Option<(ExecutionId, bool)>,
    ended: Vec<Ended>,
    released: VecDeque<ExecutionId>,
    verdicts: VecDeque<Verdict>,
    calls: Vec<Call>,
    spool: Spool,
    daemon: Option<Connection>,
    strangers: Vec<Connection>,
    alone_since: Instant,
    claimed: bool,
    follow: Option<Follow>,
    stop_requests: Vec<Option<ExecutionId>>,
    last_stop: Option<StopOutcome>,
    /// Why the worker is being stopped, when it is its own fault.
    fault: Option<String>,
    /// Whether a stop was asked for, so that a SIGKILL is our own.
    asked_to_stop: bool,
    /// What is said of the worker's end, once it has come.
    end: Option<FromSupervisor>,
    exit: Option<Exit>,
    /// The limit that ended it.
    limit: Option<PassedLimit>,
    leaving: Option<FinalCause>,
    log: Log,
    buffer: Vec<u8>,
}

impl Supervisor {
    fn new(dir: &Path, spec: KernelSpec) -> Result<Self, SuperviseError> {
        let fault = |what| move |source| SuperviseError::Setup { what, dir: dir.to_path_buf(), source };
        own_session();
        become_subreaper().map_err(fault("become the parent of orphans"))?;
        let events = SignalEvents::of(&[Signal::SIGCHLD, Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP])
            .map_err(fault("take signals"))?;
        let listener = listen(dir).map_err(fault("listen"))?;
        listener.set_nonblocking(true).map_err(fault("listen"))?;
        let pid = std::process::id().cast_signed();
        let supervisor = ProcessId { pid, start_time: start_time(pid).unwrap_or_default() };
        let boot_id = boot_id().map_err(fault("learn the boot"))?;
        let processes = KernelProcesses { boot_id, supervisor, worker: None };
        write_json(dir, PROCESSES_FILE, &processes).map_err(fault("write down who we are"))?;
        let spool = Spool::create(dir, spec.spool).map_err(fault("prepare the spool"))?;
        let now = Instant::now();
        let mut supervisor = Self {
            dir: dir.to_path_buf(),
            life: Life::Starting { until: now + Duration::from_millis(spec.start_deadline_ms) },
            spec,
            processes,
            listener,
            events,
            worker: None,
            worker_dead: false,
            wire_closed: None,
            ready: None,
            current: None,
            lost: None,
            ended: Vec::new(),
            released: VecDeque::new(),
            verdicts: VecDeque::new(),
            calls: Vec::new(),
            spool,
            daemon: None,
            strangers: Vec::new(),
            alone_since: now,
            claimed: false,
            follow: None,
            stop_requests: Vec::new(),
            last_stop: None,
            fault: None,
            asked_to_stop: false,
            end: None,
            exit: None,
            limit: None,
            leaving: None,
            log: Log::default(),
            buffer: vec![0; BUFFER],
        };
        supervisor.start_worker();
        Ok(supervisor)
    }

    fn start_worker(&mut self) {
        match Worker::start(&self.spec, self.processes.supervisor) {
            Ok(worker) => {
                self.processes.worker = Some(worker.id());
                if let Err(error) = write_json(&self.dir, PROCESSES_FILE, &self.processes) {
                    self.log.note(&format!("the worker's number could not be written down: {error}"));
                }
                self.worker = Some(worker);
                self.tell_worker(
                    &ToWorker::Hello {
                        protocol: PROTOCOL,
                        generation: self.spec.generation,
                        workspace: self.spec.workspace.to_string_lossy().into_owned(),
                        options: self.spec.worker.clone(),
                    },
                    &[],
                );
            }
            Err(error) => {
                let reason = chain(&error);
                self.log.note(&reason);
                self.life = Life::Gone;
                self.end = Some(FromSupervisor::StartFailed { reason, stderr_tail: String::new() });
            }
        }
    }

    fn run(mut self) -> Result<(), SuperviseError> {
        let mut ready = Vec::new();
        loop {
            if matches!(self.life, Life::Gone | Life::Stuck)
                && let Some(cause) = self.leaving
            {
                self.leave(cause);
                return Ok(());
            }
            for (source, readiness) in self.wait(&mut ready).map_err(SuperviseError::Poll)? {
                self.on_event(source, readiness);
            }
            self.on_time(Instant::now());
            self.flush();
        }
    }

    /// Waits for the next event or deadline. What is ready comes in the order in which it is to
    /// be handled: the worker first, so that a request is decided on what it has already said.
    fn wait(&self, ready: &mut Vec<Readiness>) -> io::Result<Vec<(Source, Readiness)>> {
        let mut sources = Vec::with_capacity(16);
        let mut interests = Vec::with_capacity(16);
        let mut add = |source, fd, read, write| {
            if read || write {
                sources.push(source);
                interests.push(Interest { fd, read, write });
            }
        };
        if let Some(worker) = &self.worker {
            // Before user code has begun, what it says comes before what it prints.
            let order = if self.current.as_ref().is_none_or(|current| current.started) {
                [Channel::Stdout, Channel::Stderr, Channel::Display]
            } else {
                [Channel::Display, Channel::Stdout, Channel::Stderr]
            };
            for channel in order {
                if let Some(fd) = worker.output(channel) {
                    add(Source::Worker(channel), fd, true, false);
                }
            }
            if let Some(fd) = worker.wants_write() {
                add(Source::WorkerInput, fd, false, true);
            }
            add(Source::WorkerDeath, worker.pidfd(), !self.worker_dead, false);
        }
        if let Some(daemon) = &self.daemon {
            add(Source::Daemon, daemon.fd(), daemon.wants_read(), daemon.wants_write());
        }
        for (index, stranger) in self.strangers.iter().enumerate() {
            add(Source::Stranger(index), stranger.fd(), true, false);
        }
        add(Source::Listener, self.listener.as_fd(), self.strangers.len() < STRANGERS, false);
        add(Source::Signals, self.events.as_fd(), true, false);
        let timeout = self.next_deadline().map(|at| at.saturating_duration_since(Instant::now()));
        poll(&interests, timeout, ready)?;
        let happened = sources.into_iter().zip(ready.iter().copied());
        Ok(happened.filter(|(_, ready)| ready.readable || ready.writable).collect())
    }

    fn next_deadline(&self) -> Option<Instant> {
        let life = match &self.life {
            Life::Starting { until } => Some(*until),
            Life::Stopping(stop) => Some(stop.next_probe()),
            Life::Up | Life::Stuck | Life::Gone => None,
        };
        // Progress waits until the daemon has read what was said before.
        let unread = self.daemon.as_ref().is_none_or(Connection::wants_write);
        let progress = self.follow.as_ref().and_then(|follow| follow.due).filter(|_| !unread);
        let strangers = self.strangers.iter().map(|stranger| stranger.since + STRANGER_TIME).min();
        let wire = self.wire_closed.map(|at| at + WIRE_GRACE);
        let nudge = self.current.as_ref().and_then(|current| current.nudge).map(|(at, _)| at);
        [life, self.orphaned_at(), strangers, progress, wire, nudge].into_iter().flatten().min()
    }

    /// When nobody has claimed us for too long.
    fn orphaned_at(&self) -> Option<Instant> {
        if self.daemon.is_some() || self.leaving.is_some() {
            return None;
        }
        let grace = Duration::from_millis(self.spec.orphan_grace_ms?);
        self.alone_since.checked_add(if self.claimed { grace } else { grace.max(FIRST_CLAIM) })
    }

    fn on_event(&mut self, source: Source, readiness: Readiness) {
        match source {
            Source::Signals => self.on_signals(),
            Source::Listener => self.accept(),
            Source::Daemon if readiness.readable => self.hear_daemon(),
            // What is left to be said is said at the end of the round.
            Source::Daemon | Source::WorkerInput => {}
            Source::Stranger(index) => self.hear_stranger(index),
            Source::WorkerDeath => self.on_worker_death(),
            Source::Worker(Channel::Display) => self.hear_worker(),
            Source::Worker(channel) => self.take_output(channel),
        }
    }

    fn on_time(&mut self, now: Instant) {
        let before = self.strangers.len();
        self.strangers.retain(|stranger| stranger.is_open() && stranger.since + STRANGER_TIME > now);
        if self.strangers.len() < before {
            self.log.note("a connection was closed that had not said who it is");
        }
        if self.daemon.as_ref().is_some_and(|daemon| !daemon.is_open()) {
            self.lose_daemon(now);
        }
        match &self.life {
            Life::Starting { until } if *until <= now => {
                let millis = self.spec.start_deadline_ms;
                self.end_worker(format!("the worker did not say that it is ready within {millis} ms"));
            }
            Life::Stopping(stop) if stop.next_probe() <= now => self.step_stop(now),
            _ => {}
        }
        if self.wire_closed.is_some_and(|at| at + WIRE_GRACE <= now) {
            self.wire_closed = None;
            self.end_worker("the worker closed its wire and went on".to_owned());
        }
        if self.orphaned_at().is_some_and(|at| at <= now) {
            self.log.note("no daemon has claimed this kernel within its grace");
            self.leave_because(FinalCause::Orphaned);
        }
        if self.follow.as_ref().and_then(|follow| follow.due).is_some_and(|due| due <= now) {
            self.report_progress(now);
        }
        self.nudge(now);
    }

    fn nudge(&mut self, now: Instant) {
        let Some(current) = &mut self.current else {
            return;
        };
        let Some((at, count)) = current.nudge.filter(|(at, _)| *at <= now) else {
            return;
        };
        let wait = NUDGES_AFTER.get(count + 1).copied().unwrap_or(NUDGES_APART);
        current.nudge = Some((at.max(now) + wait, count + 1));
        if let Some(worker) = self.worker.as_ref().filter(|_| !self.worker_dead) {
            // One that has just died needs none.
            let _ = worker.signal(Signal::SIGURG);
        }
    }

    fn on_signals(&mut self) {
        for signal in self.events.take() {
            match signal {
                Signal::SIGCHLD => reap_orphans(self.worker.as_ref().map(|worker| worker.id().pid)),
                Signal::SIGTERM => {
                    self.log.note("told to terminate by SIGTERM");
                    self.leave_because(FinalCause::Signalled);
                }
                // A terminal's business, which we have none of.
                _ => {}
            }
        }
    }

    fn flush(&mut self) {
        if let Some(worker) = &mut self.worker {
            worker.flush();
        }
        if let Some(daemon) = &mut self.daemon
            && daemon.wants_write()
        {
            daemon.flush();
        }
    }

    fn tell_daemon(&mut self, message: &FromSupervisor, body: &[u8]) {
        if let Some(daemon) = &mut self.daemon {
            daemon.send(message, body);
        }
    }

    /// Says something to the worker; written at once as far as the pipe takes it.
    fn tell_worker(&mut self, message: &ToWorker, body: &[u8]) {
        let Some(worker) = &mut self.worker else {
            return;
        };
        match encode(message, body, worker.outgoing()) {
            Ok(()) => worker.flush(),
            Err(EncodeError::Json(_) | EncodeError::TooLong { .. }) => {
                self.log.note("something too long for the worker was not sent");
            }
        }
    }

    // The worker speaks.

    /// Takes what is in a pipe, as much as can have been in it at one moment: a child that never
    /// stops printing must not hold up what the worker says.
    fn take_output(&mut self, channel: Channel) {
        let Some(worker) = &mut self.worker else {
            return;
        };
        let mut buffer = std::mem::take(&mut self.buffer);
        let mut left = worker.capacity();
        let mut any = false;
        while let Some(length) = worker.read_output(channel, &mut buffer) {
            let bytes = buffer.get(..length).unwrap_or_default();
            any = true;
            match self.current.as_ref().and_then(|current| self.spool.stream_mut(current.id)) {
                Some(stream) => stream.append(channel, bytes),
                None => self.spool.append_to_kernel(channel, bytes),
            }
            left = left.saturating_sub(length);
            // A read that did not fill the buffer has emptied the pipe.
            if left == 0 || length < buffer.len() {
                break;
            }
        }
        self.buffer = buffer;
        if any {
            self.note_output();
        }
    }

    fn take_all_output(&mut self) {
        self.take_output(Channel::Stdout);
        self.take_output(Channel::Stderr);
    }

    fn note_output(&mut self) {
        let Some(current) = &mut self.current else {
            return;
        };
        let now = Instant::now();
        current.last_output = now;
        if let Some(follow) = &mut self.follow
            && follow.id == current.id
            && follow.due.is_none()
        {
            follow.due = Some((follow.last + PROGRESS_INTERVAL).max(now));
        }
    }

    fn hear_worker(&mut self) {
        for _ in 0..WIRE_READS {
            // What was printed before the next frame is in the pipes while that frame is in the
            // wire. Once the wire is empty the worker may print what belongs after the frame.
            if self.current.as_ref().is_some_and(|current| current.started) {
                self.take_all_output();
            }
            let mut buffer = std::mem::take(&mut self.buffer);
            let read = self.worker.as_mut().map_or(0, |worker| worker.read_wire(&mut buffer));
            let more = read == buffer.len();
            self.buffer = buffer;
            if read == 0 {
                break;
            }
            loop {
                match self.next_from_worker() {
                    Ok(Some((message, bytes))) => self.on_worker_frame(message, &bytes),
                    Ok(None) => break,
                    Err(error) => {
                        if let Some(worker) = &mut self.worker {
                            worker.close_wire();
                        }
                        self.end_worker(format!("the worker broke the protocol: {error}"));
                        return;
                    }
                }
            }
            if !more {
                return;
            }
        }
        let closed = self.worker.as_ref().is_some_and(|worker| !worker.wire_is_open());
        if closed && self.wire_closed.is_none() && matches!(self.life, Life::Starting { .. } | Life::Up) {
            self.wire_closed = Some(Instant::now());
        }
    }

    /// The next message of the worker, with its body; of a display the whole frame.
    fn next_from_worker(&mut self) -> Result<Option<(FromWorker, Vec<u8>)>, FrameError> {
        let Some(worker) = &mut self.worker else {
            return Ok(None);
        };
        let Some(frame) = worker.decoder.next_frame()? else {
            return Ok(None);
        };
        let message: FromWorker = frame.message()?;
        let bytes = match message {
            FromWorker::Display(_) | FromWorker::ClearOutput { .. } => {
                let lengths = (frame.json.len() as u64) | ((frame.body.len() as u64) << 32);
                let mut whole = Vec::with_capacity(HEADER + frame.json.len() + frame.body.len());
                whole.extend_from_slice(&lengths.to_le_bytes());
                whole.extend_from_slice(frame.json);
                whole.extend_from_slice(frame.body);
                whole
            }
            _ => frame.body.to_vec(),
        };
        Ok(Some((message, bytes)))
    }

    /// The worker's current execution, if it is this one. A frame about another one is a fork's or
    /// a mistake, and is not believed.
    fn current_mut(&mut self, id: ExecutionId) -> Option<&mut Current> {
        let current = self.current.as_mut().filter(|current| current.id == id);
        if current.is_none() {
            self.log.note(&format!("the worker spoke of {id}, which it does not have"));
        }
        current
    }

    fn on_worker_frame(&mut self, message: FromWorker, bytes: &[u8]) {
        match message {
            FromWorker::Ready(ready) => self.on_ready(ready),
            FromWorker::Started { id } => self.on_started(id),
            FromWorker::Display(shown) => self.on_display(shown.id, bytes),
            FromWorker::ClearOutput { id, .. } => self.on_display(id, bytes),
            FromWorker::Flush { id } => {
                if self.current_mut(id).is_some() {
                    self.take_all_output();
                }
                self.tell_worker(&ToWorker::Flushed {}, &[]);
            }
            FromWorker::Stray { channel } => self.spool.append_to_kernel(channel, bytes),
            FromWorker::Log { level, message } => self.log.note(&format!("worker, {level}: {message}")),
            FromWorker::Result(result) => self.on_result(result),
            FromWorker::HostCall { id, call, method } => {
                self.on_host_call(HostCall { id, call, method }, bytes)
            }
            FromWorker::HostCallGivenUp { id, call } => {
                let known =
                    self.calls.iter_mut().find(|known| known.call.id == id && known.call.call == call);
                if let Some(known) = known {
                    known.given_up = true;
                    self.tell_daemon(&FromSupervisor::HostCallGivenUp { id, call }, &[]);
                }
            }
        }
    }

    fn on_ready(&mut self, ready: Ready) {
        if !matches!(self.life, Life::Starting { .. }) {
            self.log.note("the worker said again that it is ready");
            return;
        }
        if ready.protocol != PROTOCOL {
            let theirs = ready.protocol;
            self.end_worker(format!("the worker speaks protocol {theirs}, and {PROTOCOL} is wanted"));
            return;
        }
        self.life = Life::Up;
        self.tell_daemon(&FromSupervisor::Ready(ready.clone()), &[]);
        self.ready = Some(ready);
    }

    fn on_started(&mut self, id: ExecutionId) {
        let Some(current) = self.current_mut(id).filter(|current| !current.started) else {
            return;
        };
        current.started = true;
        let owed = std::mem::take(&mut current.owed);
        if let Some(stream) = self.spool.stream_mut(id) {
            stream.start();
        }
        self.tell_daemon(&FromSupervisor::Started { id }, &[]);
        if !owed.is_empty() {
            let outcome = self.interrupt_worker();
            for attempt in owed {
                self.give_verdict(id, attempt, outcome);
            }
        }
    }

    fn on_display(&mut self, id: ExecutionId, frame: &[u8]) {
        if self.current_mut(id).is_none() {
            return;
        }
        if let Some(stream) = self.spool.stream_mut(id) {
            stream.append_display(frame);
        }
        self.note_output();
    }

    fn on_result(&mut self, result: CellResult) {
        let id = result.id;
        if self.current_mut(id).is_none() {
            return;
        }
        // All that the cell has printed is in the pipes before it says how it ended.
        self.take_all_output();
        let Some(current) = self.current.take() else {
            return;
        };
        for attempt in current.owed {
            self.give_verdict(id, attempt, Err(NobodyReached::AlreadyEnded));
        }
        if let Some(stream) = self.spool.stream_mut(id)
            && let Err(error) = stream.finish(&result)
        {
            self.log.note(&format!("the result of {id} is held in memory only: {error}"));
        }
        let children_left = self.worker.as_ref().map_or(0, Worker::children_left);
        self.calls.retain(|call| call.call.id != id);
        self.follow = self.follow.take().filter(|follow| follow.id != id);
        self.ended.push(Ended { result, children_left });
        self.tell_ended(id);
    }

    fn tell_ended(&mut self, id: ExecutionId) {
        let Some(ended) = self.ended.iter().find(|ended| ended.result.id == id) else {
            return;
        };
        let (output, body) = self.spool.stream(id).map(inline_output).unwrap_or_default();
        let message = FromSupervisor::Ended {
            id,
            result: ended.result.clone(),
            output,
            children_left: ended.children_left,
        };
        self.tell_daemon(&message, &body);
    }

    fn on_host_call(&mut self, call: HostCall, arguments: &[u8]) {
        if self.current_mut(call.id).is_none() {
            return;
        }
        let held: usize = self.calls.iter().map(|call| call.arguments.len()).sum();
        if held + arguments.len() > CALLS_HELD {
            let error =
                br#"{"kind":"too_large","message":"this call is too large, or too many wait for an answer"}"#;
            self.tell_worker(&ToWorker::HostReply { call: call.call, ok: false }, error);
            return;
        }
        if let Some(daemon) = &mut self.daemon {
            let HostCall { id, call, method } = call.clone();
            daemon.send(&FromSupervisor::HostCall { id, call, method }, arguments);
        }
        self.calls.push(Call { call, arguments: arguments.to_vec(), given_up: false });
    }

    // The worker ends.

    /// Sends SIGINT to the worker's main thread, then to the rest of its group.
    fn interrupt_worker(&mut self) -> Result<(), NobodyReached> {
        let worker = self.worker.as_ref().filter(|_| !self.worker_dead).ok_or(NobodyReached::WorkerGone)?;
        worker.signal(Signal::SIGINT).map_err(|error| match error {
            SignalError::Gone => NobodyReached::WorkerGone,
            SignalError::Refused(_) => NobodyReached::NotPermitted,
        })?;
        let leader = worker.id().pid;
        if let (Some(current), [first, ..]) = (&mut self.current, NUDGES_AFTER) {
            current.nudge = Some((Instant::now() + first, 0));
        }
        // A program that forks meanwhile leaves a child that was not in the list: look again, as
        // long as there is somebody new, and not for ever at one that never stops forking.
        let mut told = BTreeSet::from([leader]);
        for _ in 0..INTERRUPT_ROUNDS {
            let before = told.len();
            for process in group_members(leader) {
                if !process.is_dead() && told.insert(process.id.pid) {
                    // One that has left meanwhile needs no signal.
                    let _ = signal_process(process.id, Signal::SIGINT);
                }
            }
            if told.len() == before {
                break;
            }
        }
        Ok(())
    }

    fn give_verdict(&mut self, id: ExecutionId, attempt: u32, outcome: Result<(), NobodyReached>) {
        let (verdict, reason) = match outcome {
            Ok(()) => (VerdictWord::Delivered, None),
            Err(reason) => (VerdictWord::ReachedNobody, Some(reason)),
        };
        let verdict = Verdict { id, attempt, verdict, reason };
        self.tell_daemon(&FromSupervisor::Verdict(verdict.clone()), &[]);
        if self.verdicts.len() >= REMEMBERED {
            self.verdicts.pop_front();
        }
        self.verdicts.push_back(verdict);
    }

    fn on_worker_death(&mut self) {
        self.worker_dead = true;
        self.wire_closed = None;
        // What it said and printed before it died is in the pipes.
        self.hear_worker();
        self.take_all_output();
        match self.life {
            Life::Starting { .. } | Life::Up | Life::Stuck => {
                let kill = Duration::from_millis(self.spec.kill_grace_ms);
                self.begin_stop(REST_GRACE, kill);
            }
            Life::Stopping(_) => self.step_stop(Instant::now()),
            Life::Gone => {}
        }
    }

    /// Ends a worker that is at fault.
    fn end_worker(&mut self, reason: String) {
        if !matches!(self.life, Life::Starting { .. } | Life::Up) {
            return;
        }
        self.log.note(&reason);
        self.fault = Some(reason);
        self.begin_stop(REST_GRACE, Duration::from_millis(self.spec.kill_grace_ms));
    }

    /// Begins to stop the worker and all that it started.
    fn begin_stop(&mut self, term: Duration, kill: Duration) {
        let Some(worker) = &self.worker else {
            return;
        };
        match Stop::begin(&mut worker.group(), term, kill, Instant::now()) {
            Ok(stop) => self.life = Life::Stopping(stop),
            Err(outcome) => self.finish_stop(outcome),
        }
    }

    fn step_stop(&mut self, now: Instant) {
        let Life::Stopping(stop) = &mut self.life else {
            return;
        };
        let Some(worker) = &self.worker else {
            return;
        };
        if let Some(outcome) = stop.step(&mut worker.group(), now) {
            self.finish_stop(outcome);
        }
    }

    fn finish_stop(&mut self, outcome: StopOutcome) {
        // A result that came in the grace is the execution's own.
        self.hear_worker();
        self.take_all_output();
        match self.worker.as_ref().and_then(Worker::reap) {
            Some((exit, used)) => self.bury_worker(exit, used, &outcome),
            None => {
                self.log.note("the worker is there in spite of KILL");
                self.life = Life::Stuck;
            }
        }
        for id in std::mem::take(&mut self.stop_requests) {
            self.tell_daemon(&FromSupervisor::Stopped { id, outcome: outcome.clone() }, &[]);
        }
        self.last_stop = Some(outcome);
        if matches!(self.life, Life::Gone)
            && let Some(end) = self.end.take()
        {
            self.tell_daemon(&end, &[]);
            self.end = Some(end);
        }
    }

    fn bury_worker(&mut self, exit: Exit, used: Option<Duration>, outcome: &StopOutcome) {
        let Some(worker) = self.worker.take() else {
            return;
        };
        self.life = Life::Gone;
        self.exit = Some(exit);
        let stderr_tail = worker.stderr_tail();
        let by_us = self.asked_to_stop || self.fault.is_some();
        self.limit = if by_us { None } else { worker.passed_limit(exit, used) };
        self.log.note(&match self.limit {
            Some(limit) => format!("the worker {exit}: {limit}"),
            None => format!("the worker {exit}"),
        });
        self.follow = None;
        self.calls.clear();
        let Some(_) = &self.ready else {
            let reason =
                self.fault.take().unwrap_or_else(|| format!("the worker {exit} before it was ready"));
            self.end = Some(FromSupervisor::StartFailed { reason, stderr_tail });
            return;
        };
        let killed = matches!(exit, Exit::Signal { number, .. } if number == Signal::SIGKILL as i32);
        let oom = if killed && !by_us { worker.memory_ran_out() } else { None };
        let current = self.current.take();
        for attempt in current.as_ref().map(|current| current.owed.clone()).unwrap_or_default() {
            if let Some(current) = &current {
                self.give_verdict(current.id, attempt, Err(NobodyReached::WorkerGone));
            }
        }
        self.lost = current.map(|current| (current.id, current.started));
        let output = self.lost.and_then(|(id, _)| self.spool.stream(id)).map(Stream::output);
        self.end = Some(FromSupervisor::WorkerGone(WorkerGone {
            exit,
            reason: self.fault.take(),
            executing: self.lost.map(|(id, _)| id),
            started: self.lost.is_some_and(|(_, started)| started),
            output,
            oom,
            limit: self.limit,
            stderr_tail,
            left: (outcome.end != StopEnd::AlreadyExited).then(|| outcome.clone()),
            kernel_end: self.spool.kernel_end(),
        }));
    }

    // Leaving.

    fn leave_because(&mut self, cause: FinalCause) {
        self.leaving.get_or_insert(cause);
        self.asked_to_stop = true;
        if matches!(self.life, Life::Starting { .. } | Life::Up) {
            let term = Duration::from_millis(self.spec.term_grace_ms);
            self.begin_stop(term, Duration::from_millis(self.spec.kill_grace_ms));
        }
    }

    fn leave(&mut self, cause: FinalCause) {
        let record = FinalRecord {
            generation: self.spec.generation,
            boot_id: self.processes.boot_id.clone(),
            supervisor: self.processes.supervisor,
            worker: self.processes.worker,
            cause,
            wall_ms: wall_ms(),
            exit: self.exit,
            limit: self.limit,
            stopped: self.last_stop.clone(),
            executing: self.lost.map(|(id, _)| id),
            started: self.lost.is_some_and(|(_, started)| started),
            held: self.ended.iter().map(|ended| ended.result.id).collect(),
        };
        if let Err(error) = write_json(&self.dir, FINAL_FILE, &record) {
            self.log.note(&format!("the record of the end could not be written: {error}"));
        }
        if let Some(daemon) = &mut self.daemon {
            daemon.flush_within(Duration::from_secs(2));
        }
    }
}

/// The counters of a stream, and what of it travels with them.
fn inline_output(stream: &Stream) -> (Output, Vec<u8>) {
    let output = stream.output();
    match stream.read_whole(INLINE_OUTPUT) {
        Some((runs, bytes)) => (Output { runs, ..output }, bytes),
        None => (output, Vec::new()),
    }
}

/// The socket that whoever launched us has bound, or one of our own.
fn listen(dir: &Path) -> io::Result<UnixListener> {
    let handed_over = std::env::var(LISTENER_VARIABLE).ok().and_then(|number| number.parse().ok());
    match handed_over {
        Some(number) => copy_of(number).map(UnixListener::from),
        None => bind_in(dir, SOCKET_FILE),
    }
}

/// An error with all that it came from, in one line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text.push_str(": ");
        text.push_str(&error.to_string());
        source = error.source();
    }
    text
}
