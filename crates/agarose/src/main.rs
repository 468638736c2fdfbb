//! The program: command line, daemon and what people see of both.
//!
//! | Module | Its one reason |
//! |---|---|
//! | `cli` | what may be typed, and who does it |
//! | `client`, `api`, `places` | the socket, from the side of whoever asks |
//! | `daemon`, `http` | the engine of a directory, and the socket from its side |
//! | `notebook` | files of cells, read and written |
//! | `report`, `duration` | words for people, numbers for scripts |
//!
//! It knows no store, no process and no syntax: the engine does.

mod api;
mod cli;
mod client;
mod daemon;
mod duration;
mod http;
mod notebook;
mod places;
mod report;

use std::{ffi::OsString, path::Path, process::ExitCode};

use clap::Parser;

fn main() -> ExitCode {
    let mut words = std::env::args_os().skip(1);
    if words.next().is_some_and(|word| word == "supervise") {
        return supervise(words);
    }
    // In a container we may be the first process, whose orphans nobody else reaps: supervisors among them.
    match agarose_kernel::stand_in_for_init() {
        Ok(None) => {}
        Ok(Some(code)) => return ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX)),
        Err(error) => {
            return report::Problem::because("could not start as the first process", &error)
                .tell(false)
                .into();
        }
    }
    let cli = cli::Cli::parse();
    let json = cli.global.json;
    match cli::act(cli) {
        Ok(exit) => exit,
        Err(problem) => problem.tell(json).into(),
    }
}

/// `agarose supervise --dir DIR`, which the engine starts and nobody types.
///
/// It holds a worker and must be small and alone in its process: no thread and no parser is started.
fn supervise(mut words: impl Iterator<Item = OsString>) -> ExitCode {
    let (Some(flag), Some(dir), None) = (words.next(), words.next(), words.next()) else {
        return report::Problem::usage("supervise takes --dir DIR and nothing else").tell(false).into();
    };
    if flag != "--dir" {
        return report::Problem::usage("supervise takes --dir DIR").tell(false).into();
    }
    match agarose_kernel::supervisor::supervise(Path::new(&dir)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => report::Problem::because("the supervisor ended", &error).tell(false).into(),
    }
}
