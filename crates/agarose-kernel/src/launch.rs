//! From a wish for a kernel to a running supervisor.

use std::{
    ffi::OsString,
    io,
    path::{Path, PathBuf},
};

use agarose_core::Language;
use agarose_process::ProcessId;

use crate::spec::KernelSpec;

/// An interpreter that was found, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interpreter {
    /// Which language.
    pub language: Language,
    /// The program itself, not a shim of pyenv or asdf.
    pub program: PathBuf,
    /// How it was found, for people: `.venv in the workspace`.
    pub found: String,
}

/// Why there is no interpreter.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InterpreterError {
    /// None was found.
    #[error("no {language} interpreter was found; {install}")]
    NotFound {
        /// For which language.
        language: Language,
        /// What to install, or to set.
        install: String,
    },
    /// The one asked for does not run.
    #[error("{} does not run as a {language} interpreter: {detail}", program.display())]
    DoesNotRun {
        /// For which language.
        language: Language,
        /// The program.
        program: PathBuf,
        /// What happened.
        detail: String,
    },
}

/// Finds an interpreter: the one asked for; else the active environment; else the workspace's
/// own; else the first on `PATH`. Shims are resolved to the real program by asking it once.
///
/// # Errors
/// When there is none, with what to install.
pub fn find_interpreter(
    language: Language,
    asked_for: Option<&Path>,
    workspace: &Path,
) -> Result<Interpreter, InterpreterError> {
    let _ = (asked_for, workspace);
    Err(InterpreterError::NotFound { language, install: String::new() })
}

/// Why a supervisor could not be started.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// The kernel's directory could not be prepared.
    #[error("could not prepare {}", path.display())]
    Directory {
        /// Which file or directory.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The program did not start.
    #[error("could not start the supervisor {}", program.display())]
    Spawn {
        /// Which program.
        program: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// The worker's program and arguments for an interpreter whose worker sources lie in `dir/worker`.
#[must_use]
pub fn worker_argv(interpreter: &Interpreter, dir: &Path) -> Vec<String> {
    let _ = (interpreter, dir);
    Vec::new()
}

/// The environment of a worker: what the allowlist lets through of `inherited`, and no more.
///
/// Never provider keys, proxies or `LD_*`.
#[must_use]
pub fn worker_environment(
    inherited: impl IntoIterator<Item = (OsString, OsString)>,
    interpreter: &Interpreter,
) -> std::collections::BTreeMap<String, String> {
    let _ = (inherited, interpreter);
    std::collections::BTreeMap::new()
}

/// Prepares `dir` (made if need be, 0700) and starts a supervisor there, detached from this
/// process: in its own session, and not our child. The socket is bound when this returns, so
/// that [`crate::client::connect`] works at once.
///
/// `supervisor` is the program and its arguments up to `--dir`, which is appended:
/// `["/usr/bin/agarose", "supervise"]`.
///
/// # Errors
/// When the directory cannot be prepared or the program does not start.
pub fn launch(supervisor: &[OsString], spec: &KernelSpec, dir: &Path) -> Result<ProcessId, LaunchError> {
    let _ = (supervisor, spec);
    Err(LaunchError::Directory { path: dir.to_path_buf(), source: io::ErrorKind::Unsupported.into() })
}
