//! A kernel, and a daemon's side of its socket.

use std::{
    collections::BTreeMap,
    env,
    io::{Read, Write},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    sync::{
        OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use agarose_core::{Generation, Language, TicketId};
use agarose_kernel::{
    client::{self, AttachError, Found, Remains},
    launch::{Interpreter, find_interpreter, install_workers, launch, worker_argv, worker_environment},
    spec::KernelSpec,
    wire::{
        Channel, ExecutionId, Run,
        frame::{Decoder, encode},
        supervisor::{Attached, FromSupervisor, Output, ToSupervisor, WorkerGone},
        worker::{CellResult, Ready},
    },
};
use agarose_process::{ProcessId, Signal, is_running, signal_process};

/// The word by which the program is told to be the supervisor.
pub(crate) const SUPERVISE: &str = "supervise";
/// The word by which the program is told to attach and to say what came of it.
pub(crate) const ATTACH: &str = "attach";
/// Nothing here takes that long, unless something is wrong.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A worker that speaks the protocol and does with each cell what the cell says: `send` takes a
/// frame, `raw` takes bytes. It is for what the real workers would never say.
const STUB: &str = r#"
import json, os, struct, sys
def read(count):
    data = b""
    while len(data) < count:
        part = os.read(3, count - len(data))
        if not part: sys.exit(0)
        data += part
    return data
def receive():
    head, body = struct.unpack("<II", read(8))
    return json.loads(read(head)), read(body)
def raw(data):
    while data: data = data[os.write(4, data):]
def send(message, body=b""):
    head = json.dumps(message).encode()
    raw(struct.pack("<II", len(head), len(body)) + head + body)
receive()
send({"t": "ready", "protocol": 1, "language": "python", "version": "0", "executable": sys.executable, "pid": os.getpid()})
while True:
    message, body = receive()
    if message["t"] == "execute":
        result = {"t": "result", "id": message["id"], "status": "ok"}
        exec(body.decode(), dict(globals(), id=message["id"], result=result))
        sys.stdout.flush()
        send(result)
"#;

pub(crate) fn python() -> &'static Interpreter {
    static PYTHON: OnceLock<Interpreter> = OnceLock::new();
    PYTHON.get_or_init(|| find_interpreter(Language::Python, None, Path::new("/")).unwrap())
}

/// The arguments of the real worker.
pub(crate) fn real() -> Vec<String> {
    static WORKERS: OnceLock<tempfile::TempDir> = OnceLock::new();
    let root = WORKERS.get_or_init(|| tempfile::tempdir().unwrap());
    worker_argv(python(), &install_workers(root.path()).unwrap())
}

/// The arguments of the worker that says what it is told to say.
pub(crate) fn stub() -> Vec<String> {
    shell(&[python().program.to_str().unwrap(), "-c", STUB])
}

pub(crate) fn shell(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

pub(crate) fn id(number: u128) -> ExecutionId {
    ExecutionId(TicketId(number))
}

pub(crate) fn wait_for(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < deadline, "in vain: {what}");
        thread::sleep(Duration::from_millis(2));
    }
}

/// One life of a kernel, in a directory that goes with it.
pub(crate) struct Kernel {
    root: tempfile::TempDir,
    pub(crate) dir: PathBuf,
    pub(crate) spec: KernelSpec,
    pub(crate) supervisor: ProcessId,
}

impl Kernel {
    /// A kernel with the real worker.
    pub(crate) fn real() -> Self {
        Self::with(real(), |_| {})
    }

    /// A kernel with the worker that says what it is told to say.
    pub(crate) fn stub() -> Self {
        Self::with(stub(), |_| {})
    }

    pub(crate) fn with(argv: Vec<String>, adjust: impl FnOnce(&mut KernelSpec)) -> Self {
        Self::in_dir(argv, "kernel", adjust)
    }

    pub(crate) fn in_dir(argv: Vec<String>, name: &str, adjust: impl FnOnce(&mut KernelSpec)) -> Self {
        static GENERATION: AtomicU64 = AtomicU64::new(1);
        let root = tempfile::tempdir().unwrap();
        let workspace = root.path().join("work");
        std::fs::create_dir(&workspace).unwrap();
        let generation = Generation(GENERATION.fetch_add(1, Ordering::Relaxed));
        let mut spec = KernelSpec::new(generation, "a secret".to_owned(), Language::Python, argv, workspace);
        spec.environment = worker_environment(env::vars_os(), python());
        // What a failing test leaves behind is gone soon.
        spec.orphan_grace_ms = Some(120_000);
        adjust(&mut spec);
        let dir = root.path().join(name);
        let program = [env::current_exe().unwrap().into_os_string(), SUPERVISE.into()];
        let supervisor = launch(&program, &spec, &dir).unwrap();
        Self { root, dir, spec, supervisor }
    }

    pub(crate) fn workspace(&self) -> PathBuf {
        self.root.path().join("work")
    }

    pub(crate) fn try_attach(&self, spec: &KernelSpec) -> Result<Daemon, AttachError> {
        let mut stream = client::connect(&self.dir)?;
        let (attached, decoder) = client::attach(&mut stream, spec)?;
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Ok(Daemon { stream, decoder, generation: spec.generation, attached })
    }

    pub(crate) fn attach(&self) -> Daemon {
        match self.try_attach(&self.spec) {
            Ok(daemon) => daemon,
            Err(error) => panic!("{error:?}; the log:\n{}", self.log()),
        }
    }

    /// A daemon whose worker is ready.
    pub(crate) fn attach_ready(&self) -> Daemon {
        let mut daemon = self.attach();
        daemon.ready();
        daemon
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.dir.join("supervisor.log")).unwrap_or_default()
    }

    pub(crate) fn kill_supervisor(&self) {
        signal_process(self.supervisor, Signal::SIGKILL).unwrap();
        wait_for("the supervisor is gone", || !is_running(self.supervisor));
    }

    /// Waits until the supervisor has left, and looks at what is there.
    pub(crate) fn remains(&self) -> Remains {
        wait_for("the supervisor leaves", || !is_running(self.supervisor));
        match client::look(&self.dir).unwrap() {
            Found::Gone(remains) => *remains,
            found => panic!("{found:?}"),
        }
    }
}

impl Drop for Kernel {
    fn drop(&mut self) {
        let _ = signal_process(self.supervisor, Signal::SIGKILL);
        wait_for("the supervisor is gone", || !is_running(self.supervisor));
        if let Ok(Found::Gone(remains)) = client::look(&self.dir) {
            let _ = client::stop_remains(&remains, Duration::ZERO, PATIENCE);
        }
    }
}

/// What an execution ended as.
#[derive(Debug)]
pub(crate) struct End {
    pub(crate) result: CellResult,
    pub(crate) output: Output,
    pub(crate) body: Vec<u8>,
    pub(crate) children_left: u64,
}

impl End {
    /// The text of a channel that came with the end.
    pub(crate) fn text(&self, channel: Channel) -> String {
        String::from_utf8_lossy(&of_channel(&self.output.runs, &self.body, channel)).into_owned()
    }
}

pub(crate) fn of_channel(runs: &[Run], body: &[u8], channel: Channel) -> Vec<u8> {
    let (mut rest, mut text) = (body, Vec::new());
    for run in runs {
        let (bytes, after) = rest.split_at(usize::try_from(run.len).unwrap());
        if run.channel == channel {
            text.extend_from_slice(bytes);
        }
        rest = after;
    }
    text
}

/// A daemon that is attached.
pub(crate) struct Daemon {
    pub(crate) stream: UnixStream,
    decoder: Decoder,
    generation: Generation,
    pub(crate) attached: Attached,
}

impl Daemon {
    pub(crate) fn send(&mut self, message: &ToSupervisor, body: &[u8]) {
        let mut bytes = Vec::new();
        encode(message, body, &mut bytes).unwrap();
        self.stream.write_all(&bytes).unwrap();
    }

    /// The next frame; `None` when the supervisor has hung up.
    pub(crate) fn next(&mut self) -> Option<(FromSupervisor, Vec<u8>)> {
        let mut buffer = vec![0; 64 << 10];
        loop {
            if let Some(frame) = self.decoder.next_frame().unwrap() {
                return Some((frame.message().unwrap(), frame.body.to_vec()));
            }
            match self.stream.read(&mut buffer) {
                Ok(0) => return None,
                Ok(length) => self.decoder.push(&buffer[..length]),
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => return None,
                Err(error) => panic!("nothing came: {error}"),
            }
        }
    }

    /// Waits for a frame, and passes over the others.
    pub(crate) fn wait<T>(&mut self, mut wanted: impl FnMut(&FromSupervisor, &[u8]) -> Option<T>) -> T {
        loop {
            let Some((message, body)) = self.next() else {
                panic!("the supervisor hung up");
            };
            if let Some(found) = wanted(&message, &body) {
                return found;
            }
        }
    }

    pub(crate) fn ready(&mut self) -> Ready {
        self.wait(|message, _| match message {
            FromSupervisor::Ready(ready) => Some(ready.clone()),
            FromSupervisor::StartFailed { reason, stderr_tail } => panic!("{reason}\n{stderr_tail}"),
            _ => None,
        })
    }

    pub(crate) fn execute(&mut self, id: ExecutionId, source: &str) {
        let message = ToSupervisor::Execute {
            generation: self.generation,
            id,
            name: "<cell 1>".to_owned(),
            ordinal: 1,
        };
        self.send(&message, source.as_bytes());
    }

    pub(crate) fn started(&mut self, id: ExecutionId) {
        self.wait(|message, _| (*message == FromSupervisor::Started { id }).then_some(()));
    }

    pub(crate) fn ended(&mut self, id: ExecutionId) -> End {
        self.wait(|message, body| match message {
            FromSupervisor::Ended { id: ended, result, output, children_left } if *ended == id => Some(End {
                result: result.clone(),
                output: output.clone(),
                body: body.to_vec(),
                children_left: *children_left,
            }),
            FromSupervisor::WorkerGone(gone) => panic!("{gone:?}"),
            FromSupervisor::Refused { refusal, .. } => panic!("{refusal:?}"),
            _ => None,
        })
    }

    /// Runs a cell to its end.
    pub(crate) fn run(&mut self, id: ExecutionId, source: &str) -> End {
        self.execute(id, source);
        self.ended(id)
    }

    pub(crate) fn worker_gone(&mut self) -> WorkerGone {
        self.wait(|message, _| match message {
            FromSupervisor::WorkerGone(gone) => Some(gone.clone()),
            _ => None,
        })
    }

    pub(crate) fn interrupt(&mut self, id: ExecutionId, attempt: u32) {
        self.send(&ToSupervisor::Interrupt { generation: self.generation, id, attempt }, &[]);
    }

    pub(crate) fn stop(&mut self, id: Option<ExecutionId>, term_grace_ms: u64) {
        let generation = self.generation;
        self.send(&ToSupervisor::Stop { generation, id, term_grace_ms, kill_grace_ms: 30_000 }, &[]);
    }

    pub(crate) fn release(&mut self, id: ExecutionId) {
        self.send(&ToSupervisor::Release { generation: self.generation, id }, &[]);
    }

    pub(crate) fn follow(&mut self, id: ExecutionId) {
        self.send(&ToSupervisor::Follow { generation: self.generation, id, on: true }, &[]);
    }

    pub(crate) fn shutdown(&mut self) {
        self.send(&ToSupervisor::Shutdown { generation: self.generation }, &[]);
    }

    /// One piece of output.
    pub(crate) fn read(&mut self, id: Option<ExecutionId>, from: u64, max: u64) -> Chunk {
        self.send(&ToSupervisor::Read { generation: self.generation, id, from, max }, &[]);
        self.wait(|message, body| match message {
            FromSupervisor::Chunk { from: answered, next, end, gap, runs, held, .. } if *answered == from => {
                Some(Chunk {
                    next: *next,
                    end: *end,
                    dropped: gap.map_or(0, |gap| gap.dropped),
                    runs: runs.clone(),
                    body: body.to_vec(),
                    held: *held,
                })
            }
            _ => None,
        })
    }

    /// All that is kept, by channel, and how much was dropped.
    pub(crate) fn read_all(&mut self, id: Option<ExecutionId>) -> (BTreeMap<Channel, Vec<u8>>, u64) {
        let (mut kept, mut dropped, mut from) = (BTreeMap::<_, Vec<u8>>::new(), 0, 0);
        loop {
            let chunk = self.read(id, from, 1 << 20);
            dropped += chunk.dropped;
            for channel in [Channel::Stdout, Channel::Stderr, Channel::Display] {
                kept.entry(channel).or_default().extend(of_channel(&chunk.runs, &chunk.body, channel));
            }
            if chunk.next == chunk.end {
                return (kept, dropped);
            }
            assert!(chunk.next > from, "{chunk:?}");
            from = chunk.next;
        }
    }
}

/// A piece of output.
#[derive(Debug)]
pub(crate) struct Chunk {
    pub(crate) next: u64,
    pub(crate) end: u64,
    pub(crate) dropped: u64,
    pub(crate) runs: Vec<Run>,
    pub(crate) body: Vec<u8>,
    pub(crate) held: bool,
}
