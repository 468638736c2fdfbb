//! A daemon: the engine of one data directory, and the socket in front of it.
//!
//! `serve` is one in the foreground; `run` starts one inside itself when there is none.

use std::{
    ffi::OsString,
    io::ErrorKind,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use agarose_core::Millis;
use agarose_engine::{Engine, EngineConfig, KernelLimits, OrphanGrace, StartError, UseIpython, host};
use agarose_journal::OpenError;
use tokio::{
    runtime::{self, Runtime},
    sync::{mpsc, oneshot},
    task::JoinHandle,
};

use crate::{
    duration::Dur,
    http::{self, Listener, Served},
    report::{Exit, Problem},
};

/// How long connections may take to get their last answer.
const FAREWELL: Duration = Duration::from_secs(2);

/// How many threads carry connections; the engine decides on one of its own.
const THREADS: usize = 2;

/// How to run a daemon; absent is the default.
#[derive(Clone, Debug, Default)]
pub(crate) struct Options {
    pub(crate) python: Option<PathBuf>,
    pub(crate) rscript: Option<PathBuf>,
    pub(crate) ipython: UseIpython,
    pub(crate) workspace: Option<PathBuf>,
    pub(crate) kernel_idle: Option<Dur>,
    pub(crate) queue_cap: Option<u64>,
    pub(crate) default_timeout: Option<Dur>,
    pub(crate) orphan_grace: Option<OrphanGrace>,
    pub(crate) limits: KernelLimits,
    /// What cells may ask their host for.
    pub(crate) policy: host::policy::Policy,
}

/// A running daemon.
pub(crate) struct Daemon {
    engine: Engine,
    socket: PathBuf,
    server: JoinHandle<()>,
    farewell: oneshot::Sender<()>,
    stop_asked: mpsc::Receiver<bool>,
}

impl Daemon {
    /// Starts the engine of `dir` and serves it. Whoever holds the directory already is named.
    pub(crate) async fn start(dir: &Path, options: Options) -> Result<Self, Problem> {
        let config = config(dir, options)?;
        let engine = Engine::start(config).await.map_err(|error| start_problem(dir, &error))?;
        let listener = match Listener::bind(dir) {
            Ok(listener) => listener,
            Err(error) => {
                engine.shutdown(false).await;
                return Err(Problem::because(format!("cannot make the socket in {}", dir.display()), &error));
            }
        };
        let socket = listener.path().to_path_buf();
        let (stop, stop_asked) = mpsc::channel(1);
        let (farewell, leave) = oneshot::channel();
        let router = http::router(Served { engine: engine.clone(), stop });
        let server = tokio::spawn(async move {
            let served = axum::serve(listener, router).with_graceful_shutdown(async {
                // A sender that is gone says the same.
                let _ = leave.await;
            });
            if let Err(error) = served.await {
                tracing::error!(%error, "the socket is not served any more");
            }
        });
        Ok(Self { engine, socket, server, farewell, stop_asked })
    }

    /// Where it listens.
    pub(crate) fn socket(&self) -> &Path {
        &self.socket
    }

    /// The engine behind it.
    pub(crate) const fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Returns when somebody asks over the socket that it stops; whether kernels are to stop too.
    pub(crate) async fn stop_asked(&mut self) -> bool {
        match self.stop_asked.recv().await {
            Some(stop_kernels) => stop_kernels,
            // The senders live as long as the server does, and that ends only after this.
            None => std::future::pending().await,
        }
    }

    /// Stops in order. Kernels go on under their supervisors unless they are to stop too.
    pub(crate) async fn stop(self, stop_kernels: bool) {
        // The name goes first: after the lock is given back it may be somebody else's.
        if let Err(error) = std::fs::remove_file(&self.socket) {
            tracing::warn!(%error, "the socket could not be removed");
        }
        self.engine.shutdown(stop_kernels).await;
        // An error means that the server has ended already.
        let _ = self.farewell.send(());
        if tokio::time::timeout(FAREWELL, self.server).await.is_err() {
            tracing::info!("connections that did not end were closed");
        }
    }
}

fn config(dir: &Path, options: Options) -> Result<EngineConfig, Problem> {
    let program = std::env::current_exe()
        .map_err(|error| Problem::because("cannot tell where this program lies", &error))?;
    let supervisor = vec![program.into_os_string(), OsString::from("supervise")];
    let mut config = EngineConfig::new(dir.to_path_buf(), supervisor, env!("CARGO_PKG_VERSION"));
    if let Some(cap) = options.queue_cap {
        config.policy.queue_cap = cap;
    }
    if let Some(idle) = options.kernel_idle {
        config.policy.kernel_idle = idle.0.map(|_| Millis(idle.millis()));
    }
    if let Some(limit) = options.default_timeout {
        config.default_timeout = limit.0.map(|_| Millis(limit.millis()));
    }
    config.kernel.python = options.python;
    config.kernel.rscript = options.rscript;
    config.kernel.worker.ipython = options.ipython;
    config.kernel.workspace = options.workspace;
    config.kernel.orphan_grace = options.orphan_grace;
    config.kernel.limits = options.limits;
    config.host_policy = options.policy;
    Ok(config)
}

/// Why a daemon did not start, for people.
fn start_problem(dir: &Path, error: &StartError) -> Problem {
    let dir = dir.display();
    let problem = Problem::because(format!("cannot serve {dir}"), error);
    let StartError::Open { source, .. } = error else {
        return match error {
            StartError::DataDirectory { .. } => {
                problem.hint("name a directory that you may write to with --data-dir DIR")
            }
            StartError::Fold { .. } => {
                problem.hint(format!("nothing was changed; `agarose --data-dir {dir} log verify` says more"))
            }
            StartError::FirstWrite { .. } => problem.hint("make room on the disk, then start again"),
            StartError::Open { .. } => problem,
        };
    };
    match **source {
        OpenError::Locked(_) => {
            let mut problem = Problem::new(Exit::Refused, "in_use", format!("another daemon holds {dir}"));
            problem = problem.caused_by(source.as_ref());
            problem.hint(format!(
                "talk to it with `agarose --data-dir {dir} status`, or give this one a directory of its own with --data-dir"
            ))
        }
        OpenError::Newer { .. } => problem
            .hint("nothing was changed; use the version of agarose that wrote it, or a later one, or another --data-dir"),
        OpenError::Io { source: ref io, .. } => match io.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
                problem.hint("nothing was lost; make room on the disk, then start again")
            }
            ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
                problem.hint("name a directory that you may write to with --data-dir DIR")
            }
            _ => problem.hint(format!("nothing was changed; `agarose --data-dir {dir} log verify` says more")),
        },
        OpenError::Damaged(_) | OpenError::StoreLost { .. } => problem.hint(format!(
            "nothing was changed; `agarose --data-dir {dir} log verify` shows all of it, and \
             `agarose --data-dir {dir} log salvage DIR` copies what is whole"
        )),
        _ => problem.hint(format!("nothing was changed; `agarose --data-dir {dir} log verify` says more")),
    }
}

/// The runtime that carries a daemon.
pub(crate) fn runtime() -> Result<Runtime, Problem> {
    runtime::Builder::new_multi_thread()
        .worker_threads(THREADS)
        .enable_all()
        .build()
        .map_err(|error| Problem::because("cannot start the threads of the daemon", &error))
}

/// A daemon inside another command.
pub(crate) struct Embedded {
    runtime: Runtime,
    handle: Handle,
}

/// A way to stop it from elsewhere.
#[derive(Clone)]
pub(crate) struct Handle {
    runtime: runtime::Handle,
    daemon: Arc<Mutex<Option<Daemon>>>,
}

impl Embedded {
    pub(crate) fn start(dir: &Path, options: Options) -> Result<Self, Problem> {
        let runtime = runtime()?;
        let daemon = runtime.block_on(Daemon::start(dir, options))?;
        let handle = Handle { runtime: runtime.handle().clone(), daemon: Arc::new(Mutex::new(Some(daemon))) };
        Ok(Self { runtime, handle })
    }

    /// A way to stop it from elsewhere.
    pub(crate) fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Stops it in order; kernels that are left go on under their supervisors.
    pub(crate) fn stop(self) {
        self.handle.stop(false);
        self.runtime.shutdown_timeout(FAREWELL);
    }
}

impl Handle {
    /// Stops it in order, once.
    pub(crate) fn stop(&self, stop_kernels: bool) {
        let daemon = self.daemon.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(daemon) = daemon {
            self.runtime.block_on(daemon.stop(stop_kernels));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        api::{CancelBody, FlowBody, SubmitBody},
        client::{Client, session_path},
        places,
    };

    /// A daemon that admits nobody, so that no kernel is ever started.
    fn paused(options: Options) -> (tempfile::TempDir, Embedded, Client) {
        let dir = tempfile::tempdir().unwrap();
        let embedded = Embedded::start(dir.path(), options).unwrap();
        let mut client = Client::connect(dir.path()).unwrap();
        let all = FlowBody { session: None, all: true, owner: "agent:a".into() };
        client.post("/v1/pause", &all).unwrap();
        (dir, embedded, client)
    }

    /// Starts a daemon once the one before has given the directory back.
    fn started_again(dir: &Path) -> Embedded {
        let deadline = std::time::Instant::now() + Duration::from_secs(30);
        loop {
            match Embedded::start(dir, Options::default()) {
                Err(problem) if problem.kind == "in_use" && std::time::Instant::now() < deadline => {
                    std::thread::yield_now();
                }
                other => return other.unwrap(),
            }
        }
    }

    fn cell(session: &str) -> SubmitBody {
        SubmitBody {
            session: session.into(),
            owner: "agent:a".into(),
            code: "1".into(),
            ..SubmitBody::default()
        }
    }

    #[test]
    fn a_ticket_waits_is_shown_and_is_cancelled_over_the_socket() {
        let (_dir, embedded, mut client) = paused(Options::default());
        let submitted = client.submit(&cell("s")).unwrap();
        assert_eq!((submitted.state.as_str(), submitted.position), ("queued", 1));
        let (_, view) = client.wait(&submitted.ticket, Some(Duration::ZERO)).unwrap();
        assert_eq!((view.state.as_str(), view.has_ended()), ("queued", false));
        let cancel = CancelBody { owner: "agent:a".into(), reason: Some("enough".into()), reach: None };
        let found: serde_json::Value =
            serde_json::from_slice(&client.cancel(&submitted.ticket, &cancel).unwrap()).unwrap();
        assert_eq!(found, serde_json::json!({"ticket": submitted.ticket, "found": "dequeued"}));
        let (_, view) = client.wait(&submitted.ticket, None).unwrap();
        assert_eq!((view.state.as_str(), view.executed.as_deref()), ("cancelled", Some("no")));
        let again = client.cancel(&submitted.ticket, &cancel).unwrap_err();
        assert_eq!((again.kind.as_str(), again.exit), ("ended", Exit::Refused));
        embedded.stop();
    }

    #[test]
    fn what_is_wrong_with_a_request_is_said_with_its_field_and_its_exit_code() {
        let (_dir, embedded, mut client) = paused(Options { queue_cap: Some(1), ..Options::default() });
        let mut told = |change: &dyn Fn(&mut SubmitBody)| {
            let mut request = cell("s");
            change(&mut request);
            let problem = client.submit(&request).unwrap_err();
            (problem.kind.clone(), problem.message.clone(), problem.exit)
        };
        let usage = |message: &str| ("bad_request".to_owned(), message.to_owned(), Exit::Usage);
        assert_eq!(told(&|r| r.session = " ".into()), usage("session: session is empty"));
        assert_eq!(told(&|r| r.owner = "agent:".into()), usage("owner: owner id is empty"));
        assert_eq!(told(&|r| r.key = Some(String::new())), usage("key: is empty"));
        let (kind, message, exit) = told(&|r| r.language = Some("julia".into()));
        assert_eq!((kind.as_str(), exit), ("bad_request", Exit::Usage));
        assert!(message.starts_with("language: "), "{message}");
        client.submit(&cell("s")).unwrap();
        let full = client.submit(&cell("s")).unwrap_err();
        assert_eq!((full.kind.as_str(), full.exit), ("queue_full", Exit::Refused));
        client.submit(&cell("another")).unwrap();
        let unknown = "0".repeat(26);
        for path in ["/v1/nowhere".to_owned(), format!("/v1/tickets/{unknown}"), session_path("none", "")] {
            let problem = client.get(&path).unwrap_err();
            assert_eq!((problem.kind.as_str(), problem.exit), ("not_found", Exit::NotFound), "{path}");
        }
        let misspelt = serde_json::json!({"session": "s", "owner": "agent:a", "code": "1", "timeout": 5});
        let problem = client.post("/v1/tickets", &misspelt).unwrap_err();
        assert!(problem.message.contains("unknown field `timeout`"), "{}", problem.message);
        embedded.stop();
    }

    #[test]
    fn the_same_key_is_the_same_ticket_also_for_the_next_daemon() {
        let (dir, embedded, mut client) = paused(Options::default());
        let keyed = SubmitBody { key: Some("k".into()), ..cell("s") };
        let first = client.submit(&keyed).unwrap();
        embedded.stop();
        let embedded = started_again(dir.path());
        let mut client = Client::connect(dir.path()).unwrap();
        let second = client.submit(&keyed).unwrap();
        assert_eq!((&second.ticket, second.repeated), (&first.ticket, true));
        let other = SubmitBody { code: "2".into(), ..keyed };
        let problem = client.submit(&other).unwrap_err();
        assert_eq!((problem.kind.as_str(), problem.exit), ("key_conflict", Exit::Refused));
        assert_eq!(problem.ticket.as_ref(), Some(&first.ticket));
        embedded.stop();
    }

    #[test]
    fn the_log_can_be_read_on_from_any_event_without_a_hole() {
        let (_dir, embedded, mut client) = paused(Options::default());
        for _ in 0..3 {
            client.submit(&cell("s")).unwrap();
        }
        let mut sequences = |path: &str| -> Vec<u64> {
            let body = String::from_utf8(client.get(path).unwrap()).unwrap();
            let event = |line: &str| serde_json::from_str::<serde_json::Value>(line).unwrap();
            body.lines().map(|line| event(line)["seq"].as_u64().unwrap()).collect()
        };
        let all = sequences("/v1/events");
        assert_eq!(all, (1..=all.len() as u64).collect::<Vec<_>>());
        assert!(all.len() >= 5, "{all:?}");
        assert_eq!(sequences("/v1/events?from=4"), all[3..]);
        assert_eq!(sequences("/v1/events?from=1000"), [0; 0]);
        embedded.stop();
    }

    #[test]
    fn a_second_daemon_is_told_who_holds_the_directory() {
        let (dir, embedded, _client) = paused(Options::default());
        let Err(problem) = Embedded::start(dir.path(), Options::default()) else {
            panic!("two daemons hold one directory");
        };
        assert_eq!((problem.kind.as_str(), problem.exit), ("in_use", Exit::Refused));
        assert!(problem.sentence().contains(&std::process::id().to_string()), "{}", problem.sentence());
        embedded.stop();
        assert!(!dir.path().join(places::SOCKET).exists());
        started_again(dir.path()).stop();
    }

    #[test]
    fn a_directory_that_cannot_be_used_is_told_with_what_to_do() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let Err(problem) = Embedded::start(file.path(), Options::default()) else {
            panic!("a file is no directory");
        };
        assert_eq!(problem.exit, Exit::Error);
        assert!(problem.hint.as_deref().is_some_and(|hint| hint.contains("--data-dir")));
    }
}
