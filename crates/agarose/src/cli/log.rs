//! `agarose log …`: the inspector, in its own words. It reads the data directory and asks no daemon.

use std::io::{BufWriter, Write};

use agarose_log::LogArgs;

use super::Global;
use crate::report::{Exit, Problem};

pub(super) fn log(global: &Global, args: &LogArgs) -> Result<std::process::ExitCode, Problem> {
    let dir = global.data_dir()?;
    let mut out = BufWriter::new(std::io::stdout().lock());
    let mut err = std::io::stderr().lock();
    let done = agarose_log::run(args, &dir, global.json, &mut out, &mut err);
    // Whoever reads may have gone away.
    let _ = out.flush();
    drop(err);
    done.map(Into::into).map_err(|error| {
        let exit = match error.exit_code() {
            2 => Exit::Usage,
            4 => Exit::NotFound,
            5 => Exit::Refused,
            _ => Exit::Error,
        };
        let mut problem = Problem::new(exit, "log", error.to_string());
        if let Some(source) = std::error::Error::source(&error) {
            problem = problem.caused_by(source);
        }
        match error.hint() {
            Some(hint) => problem.hint(hint),
            None => problem,
        }
    })
}
