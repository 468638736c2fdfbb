//! A laboratory for the real binary: real daemons, real Python and R, real signals.
//!
//! Every test gets a data directory of its own and leaves nothing running. Nothing here sleeps to
//! let something happen: it asks again until it has, or until a patience is over that no healthy
//! machine needs.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a laboratory for tests: to fail is to panic")]
#![expect(clippy::print_stderr, reason = "what a failing test prints is read by people")]

pub mod torture;

use std::{
    ffi::OsStr,
    fs,
    io::{BufRead, BufReader, Read, Write},
    os::unix::net::UnixStream,
    path::PathBuf,
    process::{Child, Command, ExitStatus, Stdio},
    thread,
    time::{Duration, Instant},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::Value;

/// Longer than anything healthy takes.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// The program under test: `AGAROSE_BIN`, or the one that was built beside this program; tests lie one deeper.
#[must_use]
pub fn agarose() -> PathBuf {
    if let Some(path) = std::env::var_os("AGAROSE_BIN") {
        return path.into();
    }
    let here = std::env::current_exe().unwrap();
    let places = here.ancestors().skip(1).take(2).map(|directory| directory.join("agarose"));
    let beside = places.into_iter().find(|place| place.is_file());
    beside.unwrap_or_else(|| {
        panic!("agarose is not beside {}: run `cargo build -p agarose` first", here.display())
    })
}

/// What a command came to.
#[derive(Debug)]
pub struct Outcome {
    /// Its exit code.
    pub code: i32,
    /// What it printed.
    pub stdout: String,
    /// What it remarked.
    pub stderr: String,
}

impl Outcome {
    /// Its output as one JSON value.
    #[must_use]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The same, after it ended with exit code 0.
    pub fn ok(self) -> Self {
        assert_eq!(self.code, 0, "{self:?}");
        self
    }
}

/// A data directory, perhaps with a daemon on it.
pub struct Lab {
    directory: tempfile::TempDir,
    daemon: Option<Child>,
    environment: Vec<(String, String)>,
}

impl Default for Lab {
    fn default() -> Self {
        Self::new()
    }
}

impl Lab {
    /// An empty data directory without a daemon.
    #[must_use]
    pub fn new() -> Self {
        let directory = tempfile::Builder::new().prefix("agarose-lab-").tempdir().unwrap();
        fs::create_dir(directory.path().join("work")).unwrap();
        Self { directory, daemon: None, environment: Vec::new() }
    }

    /// An empty data directory with a daemon.
    #[must_use]
    pub fn started() -> Self {
        let mut lab = Self::new();
        lab.serve(&[]);
        lab
    }

    /// Sets a variable for every command and daemon from here on.
    pub fn set_env(&mut self, name: &str, value: &str) {
        self.environment.push((name.to_owned(), value.to_owned()));
    }

    /// The data directory.
    #[must_use]
    pub fn data(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    /// Where commands run, and where a test may put files.
    #[must_use]
    pub fn work(&self) -> PathBuf {
        self.directory.path().join("work")
    }

    /// A command of the program on this data directory.
    pub fn command<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Command {
        let mut command = Command::new(agarose());
        command
            .args(arguments)
            .current_dir(self.work())
            .env("AGAROSE_DATA_DIR", self.data())
            // Tests that want an active environment set one; packages of the tests come by PATH.
            .env_remove("VIRTUAL_ENV")
            .env("NO_COLOR", "1")
            .env("USER", "tester")
            .envs(self.environment.iter().cloned())
            .stdin(Stdio::null());
        command
    }

    /// Starts the daemon and waits until it is ready.
    pub fn serve(&mut self, arguments: &[&str]) {
        let outcome = self.try_serve(arguments);
        if let Err((status, stderr)) = outcome {
            panic!("the daemon did not start: {status}\n{stderr}");
        }
    }

    /// Starts the daemon; when it does not become ready, how it ended and what it said.
    ///
    /// # Errors
    /// Its exit status and its remarks.
    pub fn try_serve(&mut self, arguments: &[&str]) -> Result<(), (ExitStatus, String)> {
        assert!(self.daemon.is_none(), "there is a daemon already");
        let log =
            fs::OpenOptions::new().create(true).append(true).open(self.directory.path().join("daemon.log"));
        let before = fs::metadata(self.directory.path().join("daemon.log")).map_or(0, |there| there.len());
        let mut child = self
            .command(["serve", "--json"].iter().chain(arguments))
            .stdout(Stdio::piped())
            .stderr(log.unwrap())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        if line.contains("ready") {
            self.daemon = Some(child);
            return Ok(());
        }
        let status = child.wait().unwrap();
        let log = self.daemon_log();
        let said = log.get(usize::try_from(before).unwrap()..).unwrap_or_default();
        Err((status, said.to_owned()))
    }

    /// What daemons have said on their standard error so far.
    #[must_use]
    pub fn daemon_log(&self) -> String {
        fs::read_to_string(self.directory.path().join("daemon.log")).unwrap_or_default()
    }

    /// The daemon's process id.
    #[must_use]
    pub fn daemon_pid(&self) -> i32 {
        i32::try_from(self.daemon.as_ref().expect("a daemon").id()).unwrap()
    }

    /// Kills the daemon as a crash would.
    pub fn kill_daemon(&mut self) {
        let mut daemon = self.daemon.take().expect("a daemon");
        daemon.kill().unwrap();
        daemon.wait().unwrap();
    }

    /// Stops the daemon in order and gives its exit status.
    pub fn stop_daemon(&mut self) -> ExitStatus {
        let mut daemon = self.daemon.take().expect("a daemon");
        signal(i32::try_from(daemon.id()).unwrap(), Signal::SIGTERM);
        daemon.wait().unwrap()
    }

    /// Waits for a daemon that ends by itself.
    pub fn await_daemon(&mut self) -> ExitStatus {
        self.daemon.take().expect("a daemon").wait().unwrap()
    }

    /// Runs a command to its end.
    pub fn run<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Outcome {
        let output = self.command(arguments).output().unwrap();
        Outcome {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// Submits a Python cell; gives the ticket.
    #[must_use]
    pub fn submit(&self, session: &str, code: &str) -> String {
        self.submit_with(session, code, &[])
    }

    /// Submits a cell with further arguments; gives the ticket.
    #[must_use]
    pub fn submit_with(&self, session: &str, code: &str, more: &[&str]) -> String {
        let arguments = ["submit", "-s", session, "-c", code, "--json"];
        let outcome = self.run(arguments.iter().chain(more)).ok();
        outcome.json()["ticket"].as_str().unwrap().to_owned()
    }

    /// Waits for the last word of a ticket and shows it.
    #[must_use]
    pub fn wait(&self, ticket: &str) -> Value {
        // The exit code is that of the word, so it is not looked at here.
        let outcome = self.run(["wait", ticket, "--timeout", "120s"]);
        let shown = self.show(ticket);
        assert!(
            shown["finished_at"].is_string(),
            "{ticket} has not ended: {outcome:?}\n{}",
            self.daemon_log()
        );
        shown
    }

    /// Runs a Python cell to its last word.
    #[must_use]
    pub fn exec(&self, session: &str, code: &str) -> Value {
        self.exec_with(session, code, &[])
    }

    /// Runs a cell with further arguments to its last word.
    #[must_use]
    pub fn exec_with(&self, session: &str, code: &str, more: &[&str]) -> Value {
        let ticket = self.submit_with(session, code, more);
        self.wait(&ticket)
    }

    /// Everything known of a ticket.
    #[must_use]
    pub fn show(&self, ticket: &str) -> Value {
        self.run(["show", ticket, "--json"]).ok().json()
    }

    /// Asks until what is shown of a ticket satisfies a condition.
    pub fn until(&self, ticket: &str, what: &str, condition: impl Fn(&Value) -> bool) -> Value {
        eventually(what, || Some(self.show(ticket)).filter(&condition))
    }

    /// Asks until a cell has printed something.
    pub fn until_printed(&self, ticket: &str, text: &str) -> Value {
        self.until(ticket, &format!("ticket {ticket} prints {text:?}"), |shown| {
            shown["stdout"]["text"].as_str().is_some_and(|printed| printed.contains(text))
        })
    }

    /// Asks until a cell runs in its kernel.
    pub fn until_begun(&self, ticket: &str) -> Value {
        self.until(ticket, &format!("ticket {ticket} begins"), |shown| shown["executed"] == "yes")
    }

    /// Asks until a ticket has this state.
    pub fn until_state(&self, ticket: &str, state: &str) -> Value {
        self.until(ticket, &format!("ticket {ticket} is {state}"), |shown| shown["state"] == state)
    }

    /// The first lines of a cell that goes on only once [`Lab::open_gate`] was called with its name.
    #[must_use]
    pub fn gate(&self, name: &str) -> String {
        let path = self.work().join(format!("{name}.gate"));
        format!("import os, time\nwhile not os.path.exists({path:?}): time.sleep(0.005)\n")
    }

    /// Lets the cells behind a gate go on.
    pub fn open_gate(&self, name: &str) {
        fs::write(self.work().join(format!("{name}.gate")), "").unwrap();
    }

    /// A command that runs beside the test, with its outputs as pipes.
    pub fn spawn<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Child {
        self.command(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// What the daemon answers to a POST over its socket: the status and the body.
    #[must_use]
    pub fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        let mut daemon = UnixStream::connect(self.data().join("agarose.sock")).unwrap();
        let body = body.to_string();
        let request = format!(
            "POST {path} HTTP/1.1\r\nHost: agarose\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\
             Connection: close\r\n\r\n{body}",
            body.len()
        );
        daemon.write_all(request.as_bytes()).unwrap();
        let answer = read_all(daemon);
        let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
        let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
        (status, serde_json::from_str(body).unwrap_or_default())
    }

    /// What the daemon answers to a GET over its socket: the status and the body as it is.
    #[must_use]
    pub fn get(&self, path: &str) -> (u16, String) {
        let mut daemon = UnixStream::connect(self.data().join("agarose.sock")).unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nHost: agarose\r\nConnection: close\r\n\r\n");
        daemon.write_all(request.as_bytes()).unwrap();
        let answer = read_all(daemon);
        let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_default();
        let is_chunked = head.to_ascii_lowercase().contains("transfer-encoding: chunked");
        // A chunk is a line with its size and then itself; ours hold whole lines of JSON.
        let lines = body.lines().filter(|line| !is_chunked || line.starts_with(['{', '[']));
        (status, lines.collect::<Vec<_>>().join("\n"))
    }

    /// A session's cut.
    #[must_use]
    pub fn session(&self, session: &str) -> Value {
        self.run(["session", "show", session, "--json"]).ok().json()
    }

    /// The process id of the worker of a session's only kernel.
    #[must_use]
    pub fn worker(&self, session: &str) -> i32 {
        let shown = self.session(session);
        shown["kernels"][0]["pid"].as_i64().and_then(|pid| i32::try_from(pid).ok()).expect("a kernel")
    }

    /// The directory of a kernel's life.
    #[must_use]
    pub fn kernel_directory(&self, generation: &str) -> PathBuf {
        self.data().join("kernels").join(generation)
    }

    /// The events of one kind that name a ticket.
    #[must_use]
    pub fn events_of(&self, ticket: &str, kind: &str) -> Vec<Value> {
        let mut events = self.events();
        events.retain(|event| event["kind"] == kind && event["ticket"] == ticket);
        events
    }

    /// The events of the log, as the inspector prints them with `--json`.
    #[must_use]
    pub fn events(&self) -> Vec<Value> {
        let outcome = self.run(["log", "tail", "-n", "1000000", "--json"]).ok();
        outcome.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// The processes that belong to this data directory: supervisors, workers and all that these started.
    #[must_use]
    pub fn processes(&self) -> Vec<i32> {
        let here = self.directory.path().display().to_string();
        let daemon = self.daemon.as_ref().map(|daemon| i32::try_from(daemon.id()).unwrap());
        let mut found = Vec::new();
        for entry in fs::read_dir("/proc").unwrap().flatten() {
            let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else {
                continue;
            };
            if Some(pid) == daemon || pid == i32::try_from(std::process::id()).unwrap() {
                continue;
            }
            let mentions = |file: &str| {
                fs::read(entry.path().join(file))
                    .is_ok_and(|bytes| bytes.windows(here.len()).any(|window| window == here.as_bytes()))
            };
            let runs_here = fs::read_link(entry.path().join("cwd"))
                .is_ok_and(|cwd| cwd.starts_with(self.directory.path()));
            if is_alive(pid) && (runs_here || mentions("cmdline") || mentions("environ")) {
                found.push(pid);
            }
        }
        found
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        if let Some(mut daemon) = self.daemon.take() {
            if thread::panicking()
                && let Ok(Some(status)) = daemon.try_wait()
            {
                eprintln!("the daemon had ended: {status}");
            }
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
        let begun = Instant::now();
        loop {
            let left = self.processes();
            if left.is_empty() || begun.elapsed() > PATIENCE {
                break;
            }
            for pid in left {
                let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
            }
            thread::yield_now();
        }
        if thread::panicking() {
            eprintln!("the daemon said:\n{}", self.daemon_log());
        }
    }
}

/// Sends a signal.
pub fn signal(pid: i32, signal: Signal) {
    kill(Pid::from_raw(pid), signal).unwrap();
}

/// Whether a process is there and not a zombie.
#[must_use]
pub fn is_alive(pid: i32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| {
        stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with(['Z', 'X']))
    })
}

/// The process that started another.
#[must_use]
pub fn parent(pid: i32) -> i32 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let rest = stat.rsplit_once(')').unwrap().1;
    rest.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// How much memory a process holds, in bytes.
#[must_use]
pub fn resident(pid: i32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

/// What a child that was started with [`Lab::spawn`] came to.
#[must_use]
pub fn outcome(child: Child) -> Outcome {
    let output = child.wait_with_output().unwrap();
    Outcome {
        code: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// Asks again and again until there is an answer.
///
/// # Panics
/// When there is none within [`PATIENCE`].
pub fn eventually<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(begun.elapsed() < PATIENCE, "waited in vain until {what}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// Reads a child's output to its end.
#[must_use]
pub fn read_all(mut from: impl Read) -> String {
    let mut bytes = Vec::new();
    from.read_to_end(&mut bytes).unwrap();
    String::from_utf8_lossy(&bytes).into_owned()
}
