//! `agarose sessions`, `session …` and `status`: what is there.

use serde::Deserialize;

use super::{CloseArgs, Global, SessionCommand, owner};
use crate::{
    api::{CloseBody, OwnerView},
    client::{Client, parse, session_path},
    report::{Exit, Problem, note, printable, say},
};

#[derive(Default, Deserialize)]
#[serde(default)]
struct SessionView {
    session: String,
    closed: bool,
    close_reason: Option<String>,
    paused_by: Option<OwnerView>,
    workspace: Option<String>,
    active: Option<QueuedView>,
    queue: Vec<QueuedView>,
    queued_count: u64,
    kernels: Vec<KernelView>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct QueuedView {
    ticket: String,
    owner: OwnerView,
    position: u64,
    doing: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct KernelView {
    session: String,
    language: String,
    state: String,
    generation: String,
    pid: Option<u32>,
    executable: Option<String>,
    version: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct StatusView {
    version: String,
    pid: u32,
    data_dir: String,
    admitting: bool,
    read_only: Option<String>,
    paused_by: Option<OwnerView>,
    sessions: u64,
    open_tickets: u64,
    kernels: Vec<KernelView>,
    sequence: u64,
    starts: u64,
    recovery: Vec<String>,
}

pub(super) fn list(global: &Global) -> Result<Exit, Problem> {
    let raw = Client::connect(&global.data_dir()?)?.get("/v1/sessions")?;
    if global.json {
        say(&String::from_utf8_lossy(&raw));
        return Ok(Exit::Done);
    }
    let sessions: Vec<SessionView> = parse(&raw)?;
    if sessions.is_empty() {
        note("no session is there; `agarose exec -s NAME -c CODE` opens one");
        return Ok(Exit::Done);
    }
    let mut rows = vec![["SESSION", "STATE", "RUNNING", "WAITING", "KERNELS"].map(str::to_owned)];
    for session in &sessions {
        let kernels =
            session.kernels.iter().map(|kernel| format!("{} {}", kernel.language, kernel.generation));
        rows.push([
            printable(&session.session),
            state(session),
            session.active.as_ref().map_or_else(|| "–".into(), |active| active.ticket.clone()),
            session.queued_count.to_string(),
            kernels.collect::<Vec<_>>().join(", "),
        ]);
    }
    for line in table(&rows) {
        say(&line);
    }
    Ok(Exit::Done)
}

fn state(session: &SessionView) -> String {
    match (session.closed, &session.paused_by) {
        (true, _) => "closed".into(),
        (false, Some(by)) => format!("paused by {}:{}", by.kind, printable(&by.id)),
        (false, None) => "open".into(),
    }
}

pub(super) fn one(global: &Global, command: &SessionCommand) -> Result<Exit, Problem> {
    match command {
        SessionCommand::Show { session } => show(global, session),
        SessionCommand::Close(args) => close(global, args, false),
        SessionCommand::Cleanup(args) => close(global, args, true),
    }
}

fn show(global: &Global, session: &str) -> Result<Exit, Problem> {
    let raw = Client::connect(&global.data_dir()?)?.get(&session_path(session, ""))?;
    if global.json {
        say(&String::from_utf8_lossy(&raw));
        return Ok(Exit::Done);
    }
    let view: SessionView = parse(&raw)?;
    say(&format!("session    {} ({})", printable(&view.session), state(&view)));
    if let Some(reason) = &view.close_reason {
        say(&format!("closed     {}", printable(reason)));
    }
    if let Some(workspace) = &view.workspace {
        say(&format!("workspace  {workspace}"));
    }
    for kernel in &view.kernels {
        say(&format!("kernel     {}", kernel_line(kernel)));
    }
    for ticket in view.active.iter().chain(&view.queue) {
        let place =
            if ticket.position == 0 { "running".into() } else { format!("place {}", ticket.position) };
        let owner = format!("{}:{}", ticket.owner.kind, printable(&ticket.owner.id));
        say(&format!("ticket     {}  {place}, {}  {owner}", ticket.ticket, ticket.doing));
    }
    Ok(Exit::Done)
}

fn kernel_line(kernel: &KernelView) -> String {
    let version = kernel.version.as_deref().map(|version| format!(" {version}")).unwrap_or_default();
    let pid = kernel.pid.map(|pid| format!(", pid {pid}")).unwrap_or_default();
    let program =
        kernel.executable.as_deref().map(|path| format!(" ({})", printable(path))).unwrap_or_default();
    format!("{} {}{version}{program}, {}{pid}", kernel.generation, kernel.language, kernel.state)
}

fn close(global: &Global, args: &CloseArgs, remove: bool) -> Result<Exit, Problem> {
    let owner = owner(args.owner.as_deref())?;
    // Whoever is refused later reads it, so it is never empty.
    let reason = args.reason.clone().unwrap_or_else(|| format!("closed by {owner}"));
    let request = CloseBody { owner, reason: Some(reason), remove };
    let mut client = Client::connect(&global.data_dir()?)?;
    let body = client.post(&session_path(&args.session, "/close"), &request)?;
    if global.json {
        say(&String::from_utf8_lossy(&body));
    } else if remove {
        say(&format!("session {} is closed, and its name is free once nothing of it runs", args.session));
    } else {
        say(&format!("session {} is closed", args.session));
    }
    Ok(Exit::Done)
}

pub(super) fn status(global: &Global) -> Result<Exit, Problem> {
    let raw = Client::connect(&global.data_dir()?)?.get("/v1/status")?;
    if global.json {
        say(&String::from_utf8_lossy(&raw));
        return Ok(Exit::Done);
    }
    let status: StatusView = parse(&raw)?;
    let mut doing = Vec::new();
    if !status.admitting {
        doing.push("stopping".to_owned());
    }
    if let Some(cause) = &status.read_only {
        doing.push(format!("read only: {cause}"));
    }
    if let Some(by) = &status.paused_by {
        doing.push(format!("paused by {}:{}", by.kind, printable(&by.id)));
    }
    let doing = if doing.is_empty() { "serving".into() } else { doing.join(", ") };
    say(&format!("daemon     agarose {}, pid {}, {doing}", status.version, status.pid));
    say(&format!("data       {}", status.data_dir));
    say(&format!("log        {} events, start number {}", status.sequence, status.starts));
    say(&format!(
        "open       {} in {}",
        count(status.open_tickets, "ticket"),
        count(status.sessions, "session")
    ));
    for kernel in &status.kernels {
        say(&format!("kernel     {} of session {}", kernel_line(kernel), printable(&kernel.session)));
    }
    for line in &status.recovery {
        say(&format!("recovery   {line}"));
    }
    Ok(Exit::Done)
}

fn count(n: u64, noun: &str) -> String {
    format!("{n} {noun}{}", if n == 1 { "" } else { "s" })
}

/// Rows in columns.
pub(super) fn table<const N: usize>(rows: &[[String; N]]) -> Vec<String> {
    let width =
        |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max();
    let widths: Vec<usize> = (0..N).map(|column| width(column).unwrap_or(0)).collect();
    let line = |row: &[String; N]| {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_straight_columns_and_no_space_at_the_end() {
        let rows = [["a".to_owned(), "b".to_owned()], ["länger".to_owned(), String::new()]];
        assert_eq!(table(&rows), ["a       b", "länger"]);
    }
}
