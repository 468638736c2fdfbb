//! A log made by the real core: commands are decided, their events appended, the state folded.

use std::{io::Write, path::Path};

use agarose_core::{
    Command, Context, EndCause, Event, Generation, Language, Lease, Millis, Owner, PermissionId, Policy,
    SessionId, Stamp, TicketId, World,
    budget::{Counters, Unit},
    command::{Cancel, ExecutionReport, KernelReport, Reach, Submit},
    event::{DaemonStarted, Output, ResultStatus},
    slot::{GroupOutcome, KernelProcess},
    stream::{self, StreamChannel, StreamRun},
    ticket::Work,
    watchdog::Verdict,
};
use agarose_journal::{Attachment, Journal, Options, RawEvent};
use clap::Parser;

/// 2025-12-01T04:00:00Z
pub(crate) const START: u64 = 1_764_561_600_000;

/// A data directory and whoever writes its log.
pub(crate) struct Lab {
    directory: tempfile::TempDir,
    journal: Option<Journal>,
    world: World,
    now: Stamp,
    tickets: u128,
    attachments: Vec<Attachment>,
    /// Events that are gathered into larger commits, when many are made.
    gathered: Option<Vec<RawEvent>>,
    appended: u64,
}

/// What a command wrote.
#[derive(Debug)]
pub(crate) struct Told {
    pub(crate) code: u8,
    pub(crate) out: String,
    pub(crate) err: String,
}

#[derive(Parser)]
struct Cli {
    #[command(flatten)]
    log: agarose_log::LogArgs,
}

pub(crate) fn session(name: &str) -> SessionId {
    SessionId::new(name).unwrap()
}

pub(crate) fn owner(text: &str) -> Owner {
    text.parse().unwrap()
}

/// Runs one command of the inspector.
pub(crate) fn inspect(directory: &Path, words: &[&str]) -> Told {
    let mut out = Vec::new();
    let told = inspect_into(directory, words, &mut out);
    Told { out: String::from_utf8(out).unwrap(), ..told }
}

/// Runs one command whose answer goes somewhere else.
pub(crate) fn inspect_into(directory: &Path, words: &[&str], out: &mut dyn Write) -> Told {
    let json = words.contains(&"--json");
    let words = words.iter().filter(|word| **word != "--json");
    let cli = match Cli::try_parse_from(std::iter::once(&"log").chain(words)) {
        Ok(cli) => cli,
        Err(error) => return Told { code: 2, out: String::new(), err: error.to_string() },
    };
    let mut err = Vec::new();
    let code = match agarose_log::run(&cli.log, directory, json, out, &mut err) {
        Ok(code) => code,
        Err(error) => {
            err.extend_from_slice(format!("error: {error}\n").as_bytes());
            error.exit_code()
        }
    };
    Told { code, out: String::new(), err: String::from_utf8(err).unwrap() }
}

impl Lab {
    /// A new data directory in which a daemon has started.
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let options = Options { segment_bytes: 64 * 1024, ..Options::default() };
        let journal = Journal::open(directory.path(), &options).unwrap().journal;
        let mut lab = Self {
            directory,
            journal: Some(journal),
            world: World::new(),
            now: Stamp { wall: START, mono: 0 },
            tickets: 0,
            attachments: Vec::new(),
            gathered: None,
            appended: 0,
        };
        lab.start_daemon(&[]);
        lab
    }

    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    pub(crate) fn journal(&mut self) -> &mut Journal {
        self.journal.as_mut().unwrap()
    }

    /// Lets time pass.
    pub(crate) fn after(&mut self, millis: u64) -> &mut Self {
        self.now = Stamp { wall: self.now.wall + millis, mono: self.now.mono + millis };
        self
    }

    pub(crate) fn start_daemon(&mut self, found: &[&str]) {
        self.decide(&Command::StartDaemon(DaemonStarted {
            version: "0.1.0".to_owned(),
            boot: "boot".to_owned(),
            pid: 100 + u32::try_from(self.world.starts()).unwrap(),
            uptime: 0,
            found: found.iter().map(|text| (*text).to_owned()).collect(),
            policy: Policy::default(),
        }));
    }

    /// Decides a command, appends its events and folds them.
    pub(crate) fn decide(&mut self, command: &Command) {
        self.tickets += 1;
        let context = Context { now: self.now, fresh: TicketId(1_000_000 + self.tickets) };
        let decision = self.world.decide(command, context).unwrap();
        self.append(&decision.events);
    }

    /// Appends events as they are.
    pub(crate) fn append(&mut self, events: &[Event]) {
        let raw: Vec<RawEvent> = events.iter().map(|event| RawEvent::of(event, self.now).unwrap()).collect();
        self.appended += raw.len() as u64;
        let gathered = match &mut self.gathered {
            Some(gathered) => {
                gathered.extend(raw);
                if gathered.len() < 500 { Vec::new() } else { std::mem::take(gathered) }
            }
            None => raw,
        };
        if !gathered.is_empty() {
            let attachments = std::mem::take(&mut self.attachments);
            self.journal().append(&gathered, &attachments).unwrap();
        }
        for event in events {
            self.world.apply(self.now, event);
        }
    }

    pub(crate) fn submit(&mut self, name: &str, code: &str) -> TicketId {
        self.submit_as(name, code, |_| {})
    }

    /// Submits a cell that `change` has changed.
    pub(crate) fn submit_as(&mut self, name: &str, code: &str, change: impl FnOnce(&mut Submit)) -> TicketId {
        let source = Attachment::new(code.as_bytes()).unwrap();
        self.tickets += 1;
        let (ticket, work) = (TicketId(self.tickets), Work::Cell { source: source.blob(), name: None });
        let mut submit = Submit::plain(session(name), ticket, owner("agent:ada"), Language::Python, work);
        self.attachments.push(source);
        change(&mut submit);
        let ticket = submit.ticket;
        self.decide(&Command::Submit(Box::new(submit)));
        ticket
    }

    pub(crate) fn generation(&self, name: &str) -> Generation {
        self.world.sessions()[&session(name)].slot(Language::Python).generation().unwrap()
    }

    pub(crate) fn lease(&self, name: &str) -> Lease {
        self.world.sessions()[&session(name)].run().unwrap().lease
    }

    pub(crate) fn kernel(&mut self, name: &str, report: KernelReport) {
        let (session, generation) = (session(name), self.generation(name));
        self.decide(&Command::Kernel { session, language: Language::Python, generation, report });
    }

    pub(crate) fn kernel_ready(&mut self, name: &str) {
        let pid = 4000 + u32::try_from(self.generation(name).0).unwrap();
        self.kernel(
            name,
            KernelReport::Ready(KernelProcess {
                pid,
                executable: "/usr/bin/python3".to_owned(),
                version: "3.11.2".to_owned(),
                packages: String::new(),
            }),
        );
    }

    pub(crate) fn execution(&mut self, name: &str, report: ExecutionReport) {
        let (session, lease) = (session(name), self.lease(name));
        self.decide(&Command::Execution { session, lease, report });
    }

    /// The kernel comes up and the cell begins, a little later each.
    pub(crate) fn begin(&mut self, name: &str) {
        if self.world.sessions()[&session(name)].run().is_none() {
            self.after(250).kernel_ready(name);
        }
        self.after(5).execution(name, ExecutionReport::Acknowledged);
    }

    pub(crate) fn result(&mut self, name: &str, status: ResultStatus, stdout: &str, record: &str) {
        self.result_as(name, status, false, stdout, record);
    }

    pub(crate) fn result_as(
        &mut self,
        name: &str,
        status: ResultStatus,
        interrupt_landed: bool,
        stdout: &str,
        record: &str,
    ) {
        let record = Attachment::new(record.as_bytes()).unwrap();
        let output = self.output(stdout);
        let report = ExecutionReport::Result { status, interrupt_landed, record: record.blob(), output };
        self.attachments.push(record);
        self.execution(name, report);
    }

    /// Output to be kept, and its bytes for the next commit.
    pub(crate) fn output(&mut self, stdout: &str) -> Output {
        if stdout.is_empty() {
            return Output::default();
        }
        let mut bytes = Vec::new();
        stream::push(
            &mut bytes,
            StreamRun { channel: StreamChannel::Stdout, start: 0, bytes: stdout.as_bytes() },
        );
        let stream = Attachment::new(bytes).unwrap();
        let output = Output {
            stdout: Counters::whole(stdout.len() as u64, Unit::Bytes),
            stderr: Counters::default(),
            stream: Some(stream.blob()),
        };
        self.attachments.push(stream);
        output
    }

    /// Cells in several sessions until the log has this many events: most complete, some do not.
    pub(crate) fn fill(&mut self, events: u64, sessions: u64) {
        self.gathered = Some(Vec::new());
        let (start, mut n) = (self.appended, 0);
        while self.appended < start + events {
            n += 1;
            let name = format!("session-{:02}", n % sessions);
            let ticket = self.after(n * 7919 % 900).submit_as(&name, &format!("step({n})"), |submit| {
                submit.timeouts.start_to_close = Some(Millis(5000));
            });
            let waiting = n.is_multiple_of(5).then(|| self.submit(&name, "later()"));
            let waiting = waiting.filter(|waiting| {
                if !n.is_multiple_of(10) {
                    self.cancel(*waiting, "not needed", Reach::Full);
                }
                n.is_multiple_of(10)
            });
            self.begin(&name);
            match n % 23 {
                7 => self.after(40).result(&name, ResultStatus::Error, "", "{}"),
                11 => {
                    self.after(300).cancel(ticket, "not needed", Reach::Full);
                    self.after(2).verdict(&name, Verdict::Delivered);
                    self.after(3).result_as(&name, ResultStatus::Interrupted, true, "", "{}");
                }
                13 if n.is_multiple_of(3) => {
                    self.after(5000).tick();
                    self.after(10).verdict(&name, Verdict::Delivered);
                    self.after(10_000).tick();
                    let outcome = GroupOutcome::ExitedOnTerm;
                    self.after(800).execution(&name, ExecutionReport::Stopped { outcome, output: None });
                    self.after(250).kernel_ready(&name);
                }
                _ => self.after(n * 104_729 % 2500).result(&name, ResultStatus::Ok, "", "{}"),
            }
            if waiting.is_some() {
                self.begin(&name);
                self.after(n * 31 % 400).result(&name, ResultStatus::Ok, "", "{}");
            }
        }
        let rest = self.gathered.take().unwrap();
        if !rest.is_empty() {
            let attachments = std::mem::take(&mut self.attachments);
            self.journal().append(&rest, &attachments).unwrap();
        }
    }

    /// A cell that runs to its end.
    pub(crate) fn complete(&mut self, name: &str, millis: u64, stdout: &str) {
        self.begin(name);
        self.after(millis).result(name, ResultStatus::Ok, stdout, r#"{"result":{"status":"ok"}}"#);
    }

    pub(crate) fn cancel(&mut self, ticket: TicketId, reason: &str, reach: Reach) {
        self.decide(&Command::Cancel(Cancel {
            ticket,
            owner: owner("agent:ada"),
            reason: reason.to_owned(),
            reach,
        }));
    }

    /// The verdict on the interrupt that was sent last.
    pub(crate) fn verdict(&mut self, name: &str, verdict: Verdict) {
        let attempt = self.world.sessions()[&session(name)].run().unwrap().interrupts;
        self.execution(name, ExecutionReport::Interrupt { attempt, verdict });
    }

    pub(crate) fn tick(&mut self) {
        self.decide(&Command::Tick);
    }

    /// The daemon ends without a word, and its log is closed.
    pub(crate) fn kill_daemon(&mut self) {
        if let Some(journal) = self.journal.take() {
            journal.close().unwrap();
        }
    }

    /// A daemon starts again.
    pub(crate) fn restart(&mut self, found: &[&str]) {
        self.kill_daemon();
        let options = Options { segment_bytes: 64 * 1024, ..Options::default() };
        self.journal = Some(Journal::open(self.directory.path(), &options).unwrap().journal);
        self.start_daemon(found);
    }

    /// The cell of a session asks whether it may do something.
    pub(crate) fn decide_permission(&mut self, name: &str) -> PermissionId {
        let ticket = Some(self.lease(name).ticket);
        self.decide(&Command::ProposePermission {
            session: session(name),
            ticket,
            method: "bash".to_owned(),
            detail: "rm -r old/".to_owned(),
            expires_after: Some(Millis(60_000)),
        });
        self.world.permissions().last().unwrap().id
    }

    /// The events of the log that are wanted.
    pub(crate) fn events(&mut self, wanted: impl Fn(&Event) -> bool) -> Vec<Event> {
        let events = self.journal().reader().events(..);
        events.map(|entry| entry.unwrap().event.decode().unwrap()).filter(|event| wanted(event)).collect()
    }

    /// Every kernel is found alive after a restart.
    pub(crate) fn reattach(&mut self) {
        let sessions: Vec<SessionId> = self.world.sessions().keys().cloned().collect();
        for session in sessions {
            if self.world.sessions()[&session].slot(Language::Python).generation().is_some() {
                self.kernel(session.as_str(), KernelReport::Reattached);
            }
        }
    }

    /// The last event and the state after it, as a snapshot holds it.
    pub(crate) fn state(&mut self) -> (u64, Vec<u8>) {
        let state = bincode::serde::encode_to_vec((1_u32, &self.world), bincode::config::standard()).unwrap();
        (self.journal().reader().head().sequence, state)
    }

    /// What the last event says of how a ticket ended.
    pub(crate) fn end_of(&mut self, ticket: TicketId) -> EndCause {
        let events = self.journal().reader().by_ticket(ticket);
        events
            .filter_map(|entry| match entry.unwrap().event.decode().unwrap() {
                Event::TicketEnded(ended) => Some(ended.cause),
                _ => None,
            })
            .last()
            .unwrap()
    }

    /// Runs one command on the log of this laboratory.
    pub(crate) fn log(&self, words: &[&str]) -> Told {
        inspect(self.directory.path(), words)
    }

    /// The answer of a command that does its work.
    pub(crate) fn told(&self, words: &[&str]) -> String {
        let told = self.log(words);
        assert_eq!((told.code, told.err.as_str()), (0, ""), "{words:?}: {}", told.out);
        told.out
    }
}

/// Compares an answer with the file that holds what is expected. `BLESS=1` writes the file anew: read the
/// difference before it is committed.
pub(crate) fn golden(name: &str, answer: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/inspector/golden").join(name);
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, answer).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(answer, expected, "{name} differs");
}
