//! The log inspector: what happened, when, and why, from the log alone.
//!
//! It needs no daemon and no async runtime, and it works when both are dead. It opens live, stopped,
//! copied and damaged data directories and writes nothing into them. `agarose log …` and the program
//! `agarose-log` are the same commands.
//!
//! | File | Its one reason |
//! |---|---|
//! | `args` | the words of the command line |
//! | `log`, `select` | the log, and the part of it that is wanted |
//! | `story`, `say` | one ticket gathered; one event as a clause |
//! | `ls`, `show`, `why`, `state`, `timeline`, `audit`, `stats`, `verify` | the commands |
//! | `json`, `clock`, `words`, `screen` | how things are written |

mod args;
mod audit;
mod clock;
mod error;
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
mod verify;
mod why;
mod words;

use std::{
    io::{self, Write},
    path::Path,
};

pub use args::{
    AuditArgs, DiffArgs, ExportArgs, Filter, GrepArgs, ImportArgs, Listed, LogArgs, LogCommand, LsArgs,
    SalvageArgs, ShowArgs, StateArgs, StatsArgs, TailArgs, TicketState, TimelineArgs, VerifyArgs, WhyArgs,
};
pub use error::LogError;

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

fn dispatch(command: &LogCommand, data_dir: &Path, screen: &mut Screen<'_>) -> Result<u8, LogError> {
    let mut log = Log::open(data_dir)?;
    match command {
        LogCommand::Ls(args) => ls::ls(&log, args, screen),
        LogCommand::Show(args) => show::run(&log, &args.what, screen),
        LogCommand::Tail(args) => ls::tail(&mut log, args, screen),
        LogCommand::Grep(args) => ls::grep(&log, args, screen),
        LogCommand::Why(args) => why::run(&log, args.ticket, screen),
        LogCommand::State(args) => state::state(&log, args.at.as_deref(), screen),
        LogCommand::Diff(args) => state::diff(&log, &args.a, &args.b, screen),
        LogCommand::Timeline(args) => timeline::run(&log, args, screen),
        LogCommand::Audit(args) => audit::run(&log, args, screen),
        LogCommand::Stats(args) => stats::run(&log, args, screen),
        LogCommand::Verify(args) => verify::run(&log, args.deep, screen),
        LogCommand::Salvage(_) | LogCommand::Export(_) | LogCommand::Import(_) => {
            Err(LogError::Usage { what: "this command is not there yet".to_owned() })
        }
    }
}
