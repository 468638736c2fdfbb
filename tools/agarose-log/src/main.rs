//! The log inspector as a program of its own: works where `agarose` itself does not.

use std::{
    env,
    io::{self, BufWriter, Write},
    path::PathBuf,
    process::ExitCode,
};

use agarose_log::{LogArgs, LogError};
use clap::Parser;

/// Reads the log of an Agarose data directory: live, stopped, copied or damaged
#[derive(Debug, Parser)]
#[command(name = "agarose-log", version)]
struct Cli {
    /// The data directory
    #[arg(long, global = true, env = "AGAROSE_DATA_DIR", value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// One JSON value a line
    #[arg(long, global = true)]
    json: bool,
    #[command(flatten)]
    log: LogArgs,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let data_dir = cli.data_dir.unwrap_or_else(default_data_dir);
    let mut out = BufWriter::new(io::stdout().lock());
    let mut err = io::stderr().lock();
    match agarose_log::run(&cli.log, &data_dir, cli.json, &mut out, &mut err) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            report(&error, &mut err);
            ExitCode::from(error.exit_code())
        }
    }
}

/// The error with its causes on one line, and what to do next.
fn report(error: &LogError, err: &mut dyn Write) {
    let mut text = format!("error: {error}");
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        text.push_str(&format!(": {cause}"));
        source = cause.source();
    }
    if let Some(hint) = error.hint() {
        text.push_str(&format!("\nhint: {hint}"));
    }
    // Nobody can be told that nobody can be told.
    let _ = writeln!(err, "{text}");
}

fn default_data_dir() -> PathBuf {
    let home = || env::var_os("HOME").map_or_else(PathBuf::new, PathBuf::from).join(".local/share");
    env::var_os("XDG_DATA_HOME")
        .map(PathBuf::from)
        .filter(|path| path.is_absolute())
        .unwrap_or_else(home)
        .join("agarose")
}
