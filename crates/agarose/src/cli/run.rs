//! `agarose run`: a file of cells, one after another, through the whole engine.

use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use agarose_core::Language;
use serde::Serialize;

use super::{
    Global, RunArgs,
    exec::{self, Interrupts, LEAVING},
    owner,
    screen::{Progress, Screen},
    serve,
    sessions::table,
    submit,
};
use crate::{
    api::{CloseBody, SubmitBody, TicketView},
    client::{Client, session_path},
    daemon::{Embedded, Options},
    duration,
    notebook::{self, Cell, CellKind, Document, Piece, Ran},
    places,
    report::{Exit, Problem, say},
};

/// How long another daemon that is just starting or stopping is waited for.
const OTHER_DAEMON_WAIT: Duration = Duration::from_secs(10);

pub(super) fn run(global: &Global, args: &RunArgs) -> Result<Exit, Problem> {
    let document = notebook::read(&args.file)?;
    let owner = owner(args.owner.as_deref())?;
    let workspace = submit::workspace(args.workspace.as_deref().unwrap_or(Path::new(".")))?;
    let out = args.out.as_deref().map(checked_out).transpose()?;
    let dir = global.data_dir()?;
    let (client, embedded) = reach(&dir, args)?;
    let signals = if embedded.is_some() { &LEAVING[..] } else { &LEAVING[..1] };
    let detach = embedded.as_ref().map(Embedded::handle);
    let interrupts = Interrupts::watch(&client, owner.clone(), signals, move || {
        if let Some(daemon) = &detach {
            daemon.stop(false);
        }
    })?;
    let session = args.session.clone().unwrap_or_else(|| fresh_session(&args.file));
    let mut runner = Runner {
        client,
        screen: Screen::new(!global.json, true),
        interrupts,
        document: &document,
        session,
        owner,
        workspace,
        file: args.file.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned()),
        timeout_ms: args.timeout.map(duration::Dur::millis),
        json: global.json,
        keeps_session: args.session.is_some(),
        keeps_output: out.is_some(),
        ran: vec![None; document.cells.len()],
        times: vec![None; document.cells.len()],
    };
    for (name, asked) in [("--python", &args.python), ("--rscript", &args.rscript)] {
        if asked.is_some() && embedded.is_none() {
            runner.screen.note(&format!(
                "note: a daemon runs here already, and its own {name} decides; this one has no effect"
            ));
        }
    }
    for remark in &document.remarks {
        runner.screen.note(&format!("note: {remark}"));
    }
    let ended = runner.run_all(args.keep_going);
    runner.interrupts.stay_if_leaving();
    if args.session.is_none() {
        runner.clean_up();
    }
    let exit = ended.and_then(|exit| {
        if let Some(out) = &out {
            notebook::write(out, &document, &runner.ran).map_err(|error| {
                Problem::because(format!("cannot write {}", out.display()), &error)
                    .hint("the cells have run; `agarose show TICKET` has what they gave")
            })?;
        }
        Ok(exit)
    });
    runner.summary(out.as_deref(), exit.as_ref().map_or_else(|problem| problem.exit, |exit| *exit));
    drop(runner);
    if let Some(embedded) = embedded {
        embedded.stop();
    }
    exit
}

/// How long the kernels of a run are waited for at its end.
const CLEAN_UP_WAIT: Duration = Duration::from_secs(20);

/// The daemon of the data directory, or one of our own.
fn reach(dir: &Path, args: &RunArgs) -> Result<(Client, Option<Embedded>), Problem> {
    let deadline = Instant::now() + OTHER_DAEMON_WAIT;
    loop {
        match Client::connect(dir) {
            Err(problem) if problem.kind == "no_daemon" && problem.causes.is_empty() => {}
            other => return other.map(|client| (client, None)),
        }
        let options = Options {
            python: args.python.clone(),
            rscript: args.rscript.clone(),
            // Nobody is there who could be asked.
            policy: serve::policy(dir, None)?.unattended(),
            ..Options::default()
        };
        match Embedded::start(dir, options) {
            Ok(embedded) => return Ok((Client::connect(dir)?, Some(embedded))),
            // A daemon that holds the directory and does not listen yet, or not any more.
            Err(problem) if problem.kind == "in_use" && Instant::now() < deadline => {
                std::thread::sleep(Duration::from_millis(50));
            }
            Err(problem) => return Err(problem),
        }
    }
}

/// A place to write to that is worth running cells for.
fn checked_out(out: &Path) -> Result<PathBuf, Problem> {
    if out.extension().is_none_or(|suffix| !suffix.eq_ignore_ascii_case("ipynb")) {
        return Err(Problem::usage(format!("{} is not a name for a notebook", out.display()))
            .hint("end it in .ipynb"));
    }
    let parent = out.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if !parent.is_dir() {
        return Err(Problem::usage(format!("there is no directory {} to write to", parent.display()))
            .hint("make it first, or name another place with --out"));
    }
    Ok(out.to_path_buf())
}

/// A name that was not there before.
fn fresh_session(file: &Path) -> String {
    use std::hash::{BuildHasher, Hasher, RandomState};
    let stem = file.file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into_owned());
    let stem: String = stem.chars().map(|c| if c.is_alphanumeric() { c } else { '-' }).take(32).collect();
    let mut hasher = RandomState::new().build_hasher();
    hasher.write_u32(std::process::id());
    format!("run-{stem}-{:06x}", hasher.finish() & 0xff_ffff)
}

struct Runner<'a> {
    client: Client,
    screen: Screen,
    interrupts: Interrupts,
    document: &'a Document,
    session: String,
    owner: String,
    workspace: String,
    file: String,
    timeout_ms: Option<u64>,
    json: bool,
    keeps_session: bool,
    keeps_output: bool,
    ran: Vec<Option<Ran>>,
    times: Vec<Option<Duration>>,
}

/// What `--json` prints of each cell.
#[derive(Serialize)]
struct CellLine<'a> {
    event: &'static str,
    cell: usize,
    of: usize,
    label: String,
    wall_ms: u64,
    view: &'a serde_json::value::RawValue,
}

/// What `--json` prints at the end.
#[derive(Serialize)]
struct EndLine<'a> {
    event: &'static str,
    session: &'a str,
    cells: usize,
    completed: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    out: Option<String>,
    exit_code: u8,
}

impl Runner<'_> {
    /// Runs the cells in order; the code of the first that did not complete.
    fn run_all(&mut self, keep_going: bool) -> Result<Exit, Problem> {
        let document = self.document;
        let code = document.cells.iter().enumerate().filter_map(|(at, cell)| match cell.kind {
            CellKind::Code(language) if !cell.source.trim().is_empty() => Some((at, cell, language)),
            CellKind::Code(_) | CellKind::Inert | CellKind::Markdown | CellKind::Raw => None,
        });
        let code: Vec<(usize, &Cell, Language)> = code.collect();
        if code.is_empty() {
            self.screen.note("note: there is no cell to run");
        }
        let mut first = Exit::Done;
        for (n, (at, cell, language)) in code.iter().enumerate() {
            let exit = self.run_cell(n + 1, code.len(), *at, cell, *language)?;
            if first == Exit::Done {
                first = exit;
            }
            if self.interrupts.pressed() || (exit != Exit::Done && !keep_going) {
                break;
            }
        }
        Ok(first)
    }

    fn run_cell(
        &mut self,
        n: usize,
        of: usize,
        at: usize,
        cell: &Cell,
        language: Language,
    ) -> Result<Exit, Problem> {
        let label = cell.label();
        let request = SubmitBody {
            session: self.session.clone(),
            owner: self.owner.clone(),
            language: Some(language.as_str().to_owned()),
            code: cell.source.clone(),
            name: Some(format!("<{} cell {n}>", self.file)),
            timeout_ms: self.timeout_ms,
            workspace: Some(self.workspace.clone()),
            ..SubmitBody::default()
        };
        self.screen.heading(n, of, &label);
        let since = Instant::now();
        self.screen.progress(Some(Progress { cell: n, of, label: label.clone(), since, position: 0 }));
        let submitted = self.client.submit(&request)?;
        self.screen.amend(|progress| progress.position = submitted.position);
        self.interrupts.now_running(&submitted.ticket);
        let (raw, view) = exec::follow(&mut self.client, &submitted.ticket, &self.screen)?;
        self.screen.progress(None);
        let wall = since.elapsed();
        if self.json {
            self.tell_cell(n, of, label, wall, &raw)?;
        } else {
            exec::conclude(&self.screen, &view);
            // In a script the line of the file is what an editor can jump to.
            if let (Some(error), Some(first)) = (view.error.as_ref().and_then(|error| error.line), cell.line)
            {
                let line = first + usize::try_from(error).unwrap_or(1).saturating_sub(1);
                self.screen.note(&format!("at {}:{line}", self.file));
            }
        }
        let exit = Exit::of_state(&view.state);
        let pieces = if self.keeps_output { self.retained(&view)? } else { Vec::new() };
        if let Some(place) = self.times.get_mut(at) {
            *place = Some(wall);
        }
        if let Some(place) = self.ran.get_mut(at) {
            *place = Some(Ran { view, pieces });
        }
        Ok(exit)
    }

    fn tell_cell(
        &self,
        n: usize,
        of: usize,
        label: String,
        wall: Duration,
        raw: &[u8],
    ) -> Result<(), Problem> {
        let told = serde_json::from_slice::<&serde_json::value::RawValue>(raw).and_then(|view| {
            let wall_ms = u64::try_from(wall.as_millis()).unwrap_or(u64::MAX);
            serde_json::to_string(&CellLine { event: "cell", cell: n, of, label, wall_ms, view })
        });
        say(&told.map_err(|error| Problem::because("cannot write JSON", &error))?);
        Ok(())
    }

    /// The output of a ticket that has ended, as it is kept.
    fn retained(&mut self, view: &TicketView) -> Result<Vec<Piece>, Problem> {
        let mut pieces = Vec::new();
        let mut from = 0;
        loop {
            let output = self.client.output_within(&view.ticket, from, Duration::ZERO)?;
            pieces.extend(exec::pieces(&output, from));
            if output.ended || output.next <= from {
                return Ok(pieces);
            }
            from = output.next;
        }
    }

    /// Frees the session that only this run used, and waits until its kernels are gone: the daemon
    /// inside this command could not see to it any more.
    fn clean_up(&mut self) {
        let request = CloseBody {
            owner: self.owner.clone(),
            reason: Some(String::from("the run is over")),
            remove: true,
        };
        let path = session_path(&self.session, "");
        let deadline = Instant::now() + CLEAN_UP_WAIT;
        let mut left = self.client.post(&session_path(&self.session, "/close"), &request);
        while left.is_ok() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(10));
            left = self.client.get(&path);
        }
        if let Err(problem) = left
            && problem.exit != Exit::NotFound
        {
            self.screen.note(&format!(
                "note: session {} was not cleaned up: {}",
                self.session,
                problem.sentence()
            ));
        }
    }

    fn summary(&self, out: Option<&Path>, exit: Exit) {
        let completed = self.ran.iter().flatten().filter(|ran| ran.view.state == "completed").count();
        let runs = |cell: &&Cell| matches!(cell.kind, CellKind::Code(_)) && !cell.source.trim().is_empty();
        let cells = self.document.cells.iter().filter(runs).count();
        if self.json {
            let end = EndLine {
                event: "end",
                session: &self.session,
                cells,
                completed,
                out: out.map(|out| out.display().to_string()),
                exit_code: exit as u8,
            };
            say(&serde_json::to_string(&end).unwrap_or_default());
            return;
        }
        let mut rows = vec![["CELL", "STATE", "TIME", "FIGURES", "TITLE"].map(str::to_owned)];
        let code = self.document.cells.iter().enumerate().filter(|(_, cell)| runs(cell));
        for (n, (at, cell)) in code.enumerate() {
            let ran = self.ran.get(at).and_then(Option::as_ref);
            let time = self.times.get(at).copied().flatten();
            rows.push([
                (n + 1).to_string(),
                ran.map_or_else(|| "not run".into(), |ran| ran.view.state.replace('_', " ")),
                time.map(duration::spoken).unwrap_or_default(),
                ran.map(|ran| ran.view.figures.len())
                    .filter(|n| *n > 0)
                    .map(|n| n.to_string())
                    .unwrap_or_default(),
                cell.label(),
            ]);
        }
        self.screen.note("");
        for line in table(&rows) {
            self.screen.note(&line);
        }
        let total: Duration = self.times.iter().flatten().sum();
        self.screen.note(&format!("{completed} of {cells} cells completed in {}", duration::spoken(total)));
        if let Some(out) = out.filter(|out| out.is_file()) {
            self.screen.note(&format!("executed notebook: {}", out.display()));
        }
        if self.keeps_session {
            let dir = places::quoted(&self.client.data_dir().display().to_string());
            self.screen.note(&format!(
                "session {} is kept: agarose --data-dir {dir} session show {}",
                self.session,
                places::quoted(&self.session)
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fresh_session_is_named_after_its_file_and_is_another_each_time() {
        let name = fresh_session(Path::new("dir/my data.v2.ipynb"));
        assert!(name.starts_with("run-my-data-v2-"), "{name}");
        assert_ne!(name, fresh_session(Path::new("dir/my data.v2.ipynb")));
        assert!(agarose_core::SessionId::new(&fresh_session(Path::new(&"ü".repeat(200)))).is_ok());
    }

    #[test]
    fn a_notebook_that_cannot_be_written_is_told_before_a_cell_runs() {
        assert_eq!(checked_out(Path::new("a.txt")).unwrap_err().exit, Exit::Usage);
        assert_eq!(checked_out(Path::new("/nowhere/a.ipynb")).unwrap_err().exit, Exit::Usage);
        assert!(checked_out(Path::new("a.ipynb")).is_ok());
    }
}
