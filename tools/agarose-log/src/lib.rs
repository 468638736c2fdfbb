//! The log inspector: what happened, when, and why, from the log alone.
//!
//! It needs no daemon and no async runtime, and it works when both are dead. It opens live, stopped,
//! copied and damaged data directories and writes nothing into them. `agarose log …` and the program
//! `agarose-log` are the same commands.
//!
//! | File | Its one reason |
//! |---|---|
//! | `args` | the words of the command line |
//! | `log`, `follow`, `select` | the log, what is appended to it, and the part of it that is wanted |
//! | `story`, `say` | one ticket gathered; one event as a clause |
//! | `ls`, `show`, `why`, `state`, `timeline`, `audit`, `stats`, `verify`, `transfer` | the commands |
//! | `json`, `clock`, `words`, `screen` | how things are written |

mod args;
mod audit;
mod clock;
mod error;
mod follow;
mod json;
mod log;
mod ls;
mod say;
mod screen;
mod select;
mod show;
mod state;
mod stats;
mod story;
mod timeline;
mod transfer;
mod verify;
mod why;
mod words;

use std::{
    io::{self, Write},
    path::Path,
};

pub use args::{
    AuditArgs, CompactArgs, DiffArgs, ExportArgs, Filter, GrepArgs, ImportArgs, Listed, LogArgs, LogCommand,
    LsArgs, SalvageArgs, ShowArgs, StateArgs, StatsArgs, TailArgs, TicketState, TimelineArgs, VerifyArgs,
    WhyArgs,
};
pub use error::LogError;

use agarose_journal::{Entry, inspect::Severity};
use log::Log;
use screen::Screen;

/// Runs one command on the log of a data directory. The answer goes to `out` (with `json`: one JSON
/// value a line and nothing else), everything else to `err`. Returns the exit code: 0, 1 when `verify`
/// finds damage, 4 when `grep` finds nothing.
///
/// # Errors
/// Says what stands in the way; [`LogError::exit_code`] and [`LogError::hint`] go with it.
pub fn run(
    args: &LogArgs,
    data_dir: &Path,
    json: bool,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> Result<u8, LogError> {
    let mut screen = Screen { out, err, json };
    let result = dispatch(&args.command, data_dir, &mut screen)
        .and_then(|code| screen.out.flush().map(|()| code).map_err(LogError::Output));
    match result {
        // Whoever read the answer has seen enough (`agarose log ls | head`).
        Err(LogError::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => Ok(0),
        result => result,
    }
}

/// One event as `agarose log ls events --json` prints it, without the line end.
#[must_use]
pub fn json_line(entry: Entry) -> String {
    log::Moment::from(entry).json().line()
}

fn dispatch(command: &LogCommand, data_dir: &Path, screen: &mut Screen<'_>) -> Result<u8, LogError> {
    // These open the log in their own way, or need none.
    match command {
        LogCommand::Verify(args) => return verify::run(data_dir, args.deep, screen),
        LogCommand::Salvage(args) => return transfer::salvage(data_dir, args, screen),
        LogCommand::Import(args) => return transfer::import(args, screen),
        _ => {}
    }
    let log = Log::open(data_dir)?;
    on_log(command, log, screen)
}

/// Runs a command on a log. What is damaged is said on the other output, and then the exit code is 1.
fn on_log(command: &LogCommand, log: Log, screen: &mut Screen<'_>) -> Result<u8, LogError> {
    let mut damaged = false;
    for finding in log.findings() {
        if finding.severity > Severity::Note {
            screen.note(&verify::finding_line(finding));
        }
        damaged |= finding.severity == Severity::Damage;
    }
    let code = match command {
        LogCommand::Ls(args) => ls::ls(&log, args, screen),
        LogCommand::Show(args) => show::run(&log, &args.what, screen),
        LogCommand::Tail(args) => ls::tail(log, args, screen),
        LogCommand::Grep(args) => ls::grep(&log, args, screen),
        LogCommand::Why(args) => why::run(&log, args.ticket, screen),
        LogCommand::State(args) => state::state(&log, args.at.as_deref(), screen),
        LogCommand::Diff(args) => state::diff(&log, &args.a, &args.b, screen),
        LogCommand::Timeline(args) => timeline::run(&log, args, screen),
        LogCommand::Audit(args) => audit::run(&log, args, screen),
        LogCommand::Stats(args) => stats::run(&log, args, screen),
        LogCommand::Export(args) => transfer::export(&log, args, screen),
        LogCommand::Compact(args) => transfer::compact(&log, args, screen),
        LogCommand::Verify(args) => verify::run(log.directory(), args.deep, screen),
        LogCommand::Salvage(args) => transfer::salvage(log.directory(), args, screen),
        LogCommand::Import(args) => transfer::import(args, screen),
    }?;
    Ok(if code == 0 { u8::from(damaged) } else { code })
}
