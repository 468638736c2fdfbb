//! A supervisor small enough for a test: one thread that reads the worker's three pipes in turn.

use std::{
    collections::BTreeMap,
    env,
    error::Error,
    fs::{self, File, OpenOptions},
    io::{ErrorKind, PipeReader, PipeWriter, Read, Write, pipe},
    os::{
        fd::{AsFd, AsRawFd},
        unix::{fs::OpenOptionsExt, process::CommandExt},
    },
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, ExitStatus, Stdio},
    sync::OnceLock,
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

pub(crate) type Outcome<T> = Result<T, Box<dyn Error>>;

const O_NONBLOCK: i32 = 0o4000;
/// Generous: only a worker that hangs meets it.
const PATIENCE: Duration = Duration::from_secs(120);

/// What arrived, in the order of arrival; neighbouring pieces of one stream are one.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Event {
    Stdout(Vec<u8>),
    Stderr(Vec<u8>),
    Frame(Value, Vec<u8>),
}

/// Everything of one execution.
#[derive(Debug, Default)]
pub(crate) struct Cell {
    pub(crate) events: Vec<Event>,
    /// The result frame; absent when the worker died.
    pub(crate) result: Option<Value>,
    pub(crate) died: Option<ExitStatus>,
}

impl Cell {
    pub(crate) fn stdout(&self) -> Vec<u8> {
        self.stream(|event| if let Event::Stdout(bytes) = event { Some(bytes) } else { None })
    }

    pub(crate) fn stderr(&self) -> Vec<u8> {
        self.stream(|event| if let Event::Stderr(bytes) = event { Some(bytes) } else { None })
    }

    pub(crate) fn out(&self) -> String {
        String::from_utf8_lossy(&self.stdout()).into_owned()
    }

    pub(crate) fn err(&self) -> String {
        String::from_utf8_lossy(&self.stderr()).into_owned()
    }

    fn stream(&self, of: impl Fn(&Event) -> Option<&Vec<u8>>) -> Vec<u8> {
        self.events.iter().filter_map(of).flatten().copied().collect()
    }

    pub(crate) fn frames(&self, kind: &str) -> Vec<(&Value, &[u8])> {
        self.events
            .iter()
            .filter_map(|event| match event {
                Event::Frame(head, body) if head["t"] == kind => Some((head, body.as_slice())),
                _ => None,
            })
            .collect()
    }

    /// The displays as (kind, MIME type to bytes).
    pub(crate) fn displays(&self) -> Vec<(String, BTreeMap<String, Vec<u8>>)> {
        self.frames("display")
            .into_iter()
            .map(|(head, body)| {
                let mut at = 0;
                let mut parts = BTreeMap::new();
                for part in head["parts"].as_array().into_iter().flatten() {
                    let len = usize::try_from(part["len"].as_u64().unwrap_or(0)).unwrap_or(0);
                    let bytes = body.get(at..at + len).unwrap_or_default().to_vec();
                    parts.insert(text(&part["mime"]), bytes);
                    at += len;
                }
                assert_eq!(at, body.len(), "the parts make up the body");
                (text(&head["kind"]), parts)
            })
            .collect()
    }

    /// The text form of the last expression's value.
    pub(crate) fn value(&self) -> String {
        self.displays()
            .into_iter()
            .filter(|(kind, _)| kind == "result")
            .filter_map(|(_, parts)| parts.get("text/plain").cloned())
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            .collect()
    }

    pub(crate) fn field(&self, name: &str) -> Value {
        self.result.as_ref().map(|result| result[name].clone()).unwrap_or_default()
    }

    pub(crate) fn status(&self) -> String {
        text(&self.field("status"))
    }

    /// `name: message` of the error.
    pub(crate) fn error(&self) -> String {
        let error = self.field("error");
        if error.is_null() {
            return String::new();
        }
        format!("{}: {}", text(&error["name"]), text(&error["message"]))
    }

    pub(crate) fn traceback(&self) -> String {
        text(&self.field("error")["traceback"])
    }

    /// The order of channels, as in `out err display out`.
    pub(crate) fn order(&self) -> String {
        let words: Vec<&str> = self
            .events
            .iter()
            .filter_map(|event| match event {
                Event::Stdout(_) => Some("out"),
                Event::Stderr(_) => Some("err"),
                Event::Frame(head, _) if head["t"] == "display" => Some("display"),
                Event::Frame(..) => None,
            })
            .collect();
        words.join(" ")
    }
}

pub(crate) fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// One worker process.
pub(crate) struct Worker {
    child: Child,
    to: PipeWriter,
    wire: File,
    stdout: File,
    stderr: File,
    // The reading ends whose second, non-blocking descriptions are read above.
    _ends: (PipeReader, Vec<Box<dyn AsFd>>),
    pending: Vec<u8>,
    events: Vec<Event>,
    wire_ended: bool,
    count: u64,
    killer: Option<(Child, ChildStdin)>,
    /// When an interrupt was sent that has not shown yet.
    nudge: Option<Instant>,
    pub(crate) ready: Value,
    pub(crate) workspace: tempfile::TempDir,
}

impl Worker {
    pub(crate) fn start(program: &[&str], options: Value) -> Outcome<Self> {
        let (incoming, to) = pipe()?;
        let (wire, outgoing) = pipe()?;
        let us = std::process::id();
        // The standard library passes on three descriptors only; the shell opens the other two by name.
        let script = format!(
            "exec 8</proc/{us}/fd/{} 9>/proc/{us}/fd/{}; exec \"$@\" </dev/null",
            incoming.as_raw_fd(),
            outgoing.as_raw_fd()
        );
        let workspace = tempfile::tempdir()?;
        let mut child = Command::new("sh")
            .args(["-c", &script, "sh"])
            .args(program)
            .env("AGAROSE_WIRE_IN", "8")
            .env("AGAROSE_WIRE_OUT", "9")
            .env("HOME", workspace.path())
            .env_remove("MPLBACKEND")
            // Not beside the sources, whose folder the build watches.
            .env("PYTHONPYCACHEPREFIX", concat!(env!("CARGO_TARGET_TMPDIR"), "/pycache"))
            .current_dir("/")
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let (stdout_end, stderr_end) =
            (child.stdout.take().ok_or("no stdout")?, child.stderr.take().ok_or("no stderr")?);
        let mut worker = Self {
            wire: without_blocking(&wire)?,
            stdout: without_blocking(&stdout_end)?,
            stderr: without_blocking(&stderr_end)?,
            _ends: (wire, vec![Box::new(stdout_end), Box::new(stderr_end)]),
            child,
            to,
            pending: Vec::new(),
            events: Vec::new(),
            wire_ended: false,
            count: 0,
            killer: None,
            nudge: None,
            ready: Value::Null,
            workspace,
        };
        worker.send(
            &json!({"t": "hello", "protocol": 1, "generation": "g1",
                    "workspace": worker.workspace.path(), "options": options}),
            b"",
        )?;
        let ready = worker.until(|events| {
            events.iter().position(|event| matches!(event, Event::Frame(head, _) if head["t"] == "ready"))
        })?;
        // Only now: until the shell has opened them, these are what keeps the pipes alive.
        drop((incoming, outgoing));
        match ready.map(|at| worker.events.remove(at)) {
            Some(Event::Frame(head, _)) => worker.ready = head,
            _ => {
                let said = worker.events.iter().map(|event| match event {
                    Event::Stdout(bytes) | Event::Stderr(bytes) => {
                        String::from_utf8_lossy(bytes).into_owned()
                    }
                    Event::Frame(head, _) => head.to_string(),
                });
                return Err(format!("no ready frame: {}", said.collect::<String>()).into());
            }
        }
        Ok(worker)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn send(&mut self, head: &Value, body: &[u8]) -> Outcome<()> {
        let head = head.to_string();
        let mut frame = u32::try_from(head.len())?.to_le_bytes().to_vec();
        frame.extend(u32::try_from(body.len())?.to_le_bytes());
        frame.extend(head.as_bytes());
        frame.extend(body);
        self.to.write_all(&frame)?;
        Ok(())
    }

    pub(crate) fn send_bytes(&mut self, bytes: &[u8]) -> Outcome<()> {
        Ok(self.to.write_all(bytes)?)
    }

    /// Closes the worker's way of hearing us, as a supervisor that died would.
    pub(crate) fn hang_up(&mut self) -> Outcome<()> {
        let (_, other) = pipe()?;
        self.to = other;
        Ok(())
    }

    /// Sends a cell and waits for its result or for the worker's death.
    pub(crate) fn run(&mut self, source: &str) -> Outcome<Cell> {
        let id = self.begin(source)?;
        self.finish(&id)
    }

    /// Sends a cell and answers its id.
    pub(crate) fn begin(&mut self, source: &str) -> Outcome<String> {
        self.count += 1;
        let id = format!("execution{:017}", self.count);
        let head = json!({"t": "execute", "id": id, "name": format!("<cell {}>", self.count),
                          "ordinal": self.count, "capture": true});
        self.send(&head, source.as_bytes())?;
        Ok(id)
    }

    /// Waits until the worker said of this execution that user code begins.
    pub(crate) fn started(&mut self, id: &str) -> Outcome<()> {
        self.until(|events| find(events, "started", id))?;
        Ok(())
    }

    /// Waits until this text has come on stdout.
    pub(crate) fn printed(&mut self, wanted: &str) -> Outcome<()> {
        let found = self.until(|events| {
            events.iter().position(
                |event| matches!(event, Event::Stdout(bytes) if String::from_utf8_lossy(bytes).contains(wanted)),
            )
        })?;
        found.map(|_| ()).ok_or_else(|| format!("the worker died before it printed {wanted}").into())
    }

    pub(crate) fn finish(&mut self, id: &str) -> Outcome<Cell> {
        let found = self.until(|events| find(events, "result", id))?;
        self.nudge = None;
        let died = if found.is_none() { Some(self.child.wait()?) } else { None };
        // What was written before the result, or before the death, is in the pipes.
        self.pump()?;
        let mut cell = Cell { events: std::mem::take(&mut self.events), ..Cell::default() };
        if found.is_some() {
            let frames = |kind: &str| {
                cell.events.iter().filter(|event| matches!(event, Event::Frame(head, _) if head["t"] == kind && head["id"] == id)).count()
            };
            assert_eq!((frames("started"), frames("result")), (1, 1), "one start and one end");
            let at = find(&cell.events, "result", id).ok_or("no result")?;
            for event in &cell.events[at + 1..] {
                assert!(
                    !matches!(event, Event::Frame(head, _) if head["t"] != "stray"),
                    "the result is the last frame, but then came {event:?}"
                );
            }
            if let Event::Frame(head, _) = &cell.events[at] {
                cell.result = Some(head.clone());
            }
        } else {
            cell.died = died;
        }
        Ok(cell)
    }

    /// Waits for the worker's end.
    pub(crate) fn gone(&mut self) -> Outcome<Cell> {
        self.until(|_| None)?;
        let died = Some(self.child.wait()?);
        self.pump()?;
        Ok(Cell { events: std::mem::take(&mut self.events), result: None, died })
    }

    /// Waits until the events satisfy `done`; none when the worker went away first.
    pub(crate) fn until(&mut self, done: impl Fn(&[Event]) -> Option<usize>) -> Outcome<Option<usize>> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let moved = self.pump()?;
            if let Some(at) = done(&self.events) {
                return Ok(Some(at));
            }
            if self.wire_ended {
                return Ok(None);
            }
            if self.nudge.is_some_and(|at| Instant::now() > at) {
                // A signal just before a blocking system call shows only when that call returns.
                self.signal("URG")?;
                self.nudge = Some(Instant::now() + Duration::from_millis(20));
            }
            if !moved {
                if Instant::now() > deadline {
                    return Err(format!("nothing came in time; so far {:?}", self.events).into());
                }
                if self.ready.is_null() && self.child.try_wait()?.is_some() {
                    self.wire_ended = true;
                }
                thread::sleep(Duration::from_micros(50));
            }
        }
    }

    /// Reads what is there, each pipe until it is empty; whether anything was.
    pub(crate) fn pump(&mut self) -> Outcome<bool> {
        let mut moved = false;
        let mut chunk = vec![0; 1 << 16];
        moved |= self.pump_streams(&mut chunk)?;
        for _ in 0..64 {
            match self.wire.read(&mut chunk) {
                Ok(0) => {
                    self.wire_ended |= !self.ready.is_null();
                    break;
                }
                Ok(n) => {
                    moved = true;
                    self.pending.extend(&chunk[..n]);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error.into()),
            }
        }
        while let Some(lengths) = self.pending.get(..8) {
            let head_len = u32::from_le_bytes(lengths[..4].try_into()?) as usize;
            let body_len = u32::from_le_bytes(lengths[4..].try_into()?) as usize;
            assert!(head_len <= 8 << 20 && body_len <= 64 << 20, "a frame of the worker is bounded");
            let Some(frame) = self.pending.get(8..8 + head_len + body_len) else { break };
            let head: Value = serde_json::from_slice(&frame[..head_len])?;
            let body = frame[head_len..].to_vec();
            self.pending.drain(..8 + head_len + body_len);
            if head["t"] == "flush" {
                self.pump_streams(&mut chunk)?;
                self.send(&json!({"t": "flushed"}), b"")?;
            } else {
                self.events.push(Event::Frame(head, body));
            }
        }
        Ok(moved)
    }

    /// Reads what is in the pipes of text; whether anything was.
    fn pump_streams(&mut self, chunk: &mut [u8]) -> Outcome<bool> {
        let mut moved = false;
        // Bounded, so that a cell that never stops printing does not keep us from its other pipes.
        for _ in 0..64 {
            match self.stdout.read(chunk) {
                Ok(0) => break,
                Ok(n) => {
                    moved = true;
                    match self.events.last_mut() {
                        Some(Event::Stdout(bytes)) => bytes.extend(&chunk[..n]),
                        _ => self.events.push(Event::Stdout(chunk[..n].to_vec())),
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error.into()),
            }
        }
        for _ in 0..64 {
            match self.stderr.read(chunk) {
                Ok(0) => break,
                Ok(n) => {
                    moved = true;
                    match self.events.last_mut() {
                        Some(Event::Stderr(bytes)) => bytes.extend(&chunk[..n]),
                        _ => self.events.push(Event::Stderr(chunk[..n].to_vec())),
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(moved)
    }

    /// Sends SIGINT as the supervisor does, with its nudges while the result is awaited.
    pub(crate) fn interrupt(&mut self) -> Outcome<()> {
        self.signal("INT")?;
        self.nudge = Some(Instant::now() + Duration::from_millis(20));
        Ok(())
    }

    /// Has a shell that stays send the signal: that takes microseconds.
    fn signal(&mut self, name: &str) -> Outcome<()> {
        let pid = self.pid();
        if self.killer.is_none() {
            let mut shell = Command::new("sh")
                .args(["-c", "while read name pid; do kill -s $name $pid; done"])
                .stdin(Stdio::piped())
                .stderr(Stdio::null())
                .spawn()?;
            let stdin = shell.stdin.take().ok_or("no stdin")?;
            self.killer = Some((shell, stdin));
        }
        if let Some((_, stdin)) = &mut self.killer {
            writeln!(stdin, "{name} {pid}")?;
        }
        Ok(())
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        if let Some((mut shell, stdin)) = self.killer.take() {
            drop(stdin);
            let _ = shell.wait();
        }
        let _ = Command::new("kill")
            .args(["-9", "--", &format!("-{}", self.pid())])
            .stderr(Stdio::null())
            .status();
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn find(events: &[Event], kind: &str, id: &str) -> Option<usize> {
    events
        .iter()
        .position(|event| matches!(event, Event::Frame(head, _) if head["t"] == kind && head["id"] == id))
}

/// A second description of the pipe's reading end that does not block.
fn without_blocking(end: &impl AsRawFd) -> Outcome<File> {
    let path = format!("/proc/self/fd/{}", end.as_raw_fd());
    Ok(OpenOptions::new().read(true).custom_flags(O_NONBLOCK).open(path)?)
}

/// An interpreter of this machine.
#[derive(Clone, Debug)]
pub(crate) struct Python {
    pub(crate) path: PathBuf,
    pub(crate) version: (u32, u32),
}

/// One CPython of each version from 3.9 on that can be found, and what `AGAROSE_TEST_PYTHONS` names.
pub(crate) fn pythons() -> &'static [Python] {
    static FOUND: OnceLock<Vec<Python>> = OnceLock::new();
    FOUND.get_or_init(|| {
        let mut found: BTreeMap<(u32, u32), Python> = BTreeMap::new();
        let named = env::var("AGAROSE_TEST_PYTHONS").unwrap_or_default();
        let mut candidates: Vec<PathBuf> =
            named.split(':').filter(|name| !name.is_empty()).map(PathBuf::from).collect();
        candidates.extend((9..=13).map(|minor| PathBuf::from(format!("python3.{minor}"))));
        let pyenv = env::var_os("PYENV_ROOT")
            .map(PathBuf::from)
            .or_else(|| env::var_os("HOME").map(|home| Path::new(&home).join(".pyenv")));
        if let Some(listing) = pyenv.and_then(|root| fs::read_dir(root.join("versions")).ok()) {
            let mut versions: Vec<PathBuf> =
                listing.flatten().map(|entry| entry.path().join("bin/python3")).collect();
            versions.sort();
            candidates.extend(versions);
        }
        candidates.push("python3".into());
        for candidate in candidates {
            if let Some(python) = probe(&candidate) {
                found.entry(python.version).or_insert(python);
            }
        }
        found.into_values().collect()
    })
}

fn probe(candidate: &Path) -> Option<Python> {
    let script = "import sys; print(sys.executable, *sys.version_info[:2], sys.implementation.name)";
    let output = Command::new(candidate).args(["-c", script]).stderr(Stdio::null()).output().ok()?;
    let words = String::from_utf8(output.stdout).ok()?;
    let mut words = words.split_whitespace();
    let python = Python {
        path: words.next()?.into(),
        version: (words.next()?.parse().ok()?, words.next()?.parse().ok()?),
    };
    (words.next()? == "cpython" && python.version >= (3, 9)).then_some(python)
}
