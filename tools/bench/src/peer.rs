//! The peer: ipykernel by jupyter_client, in a virtual environment of the bench's own.

use std::{path::PathBuf, process::Command};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

/// What the peer measures of itself; prints one JSON object.
const SCRIPT: &str = include_str!("peer.py");

/// The Python of the peer's environment; made and filled at its first use.
pub(crate) fn python() -> Result<PathBuf> {
    let directory = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(".venv");
    let python = directory.join("bin/python");
    if !python.exists() {
        eprint(&format!("making {} with jupyter_client and ipykernel from PyPI", directory.display()));
        run(Command::new("python3").arg("-m").arg("venv").arg(&directory))?;
        run(Command::new(&python).args(["-m", "pip", "install", "-q", "jupyter_client", "ipykernel"]))?;
    }
    Ok(python)
}

#[expect(clippy::print_stderr, reason = "remarks of a tool")]
fn eprint(text: &str) {
    eprintln!("{text}");
}

fn run(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("{command:?}"))?;
    ensure!(status.success(), "{command:?} ended with {status}");
    Ok(())
}

/// Measures the peer; `what` is one of the script's words.
pub(crate) fn measure(what: &str) -> Result<Value> {
    measure_with(what, &[])
}

/// The same, of what is in `arguments`.
pub(crate) fn measure_with(what: &str, arguments: &[&str]) -> Result<Value> {
    let output = Command::new(python()?).args(["-c", SCRIPT, what]).args(arguments).output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(serde_json::from_slice(&output.stdout)?)
}
