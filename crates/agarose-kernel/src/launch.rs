//! From a wish for a kernel to a running supervisor.

mod environment;
mod interpreter;
mod sources;

use std::{
    collections::BTreeMap,
    ffi::OsString,
    fs::{self, DirBuilder, OpenOptions},
    io,
    os::{
        fd::OwnedFd,
        unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt},
    },
    path::{Path, PathBuf},
};

use agarose_process::{ProcessId, ResourceLimits, SpawnError, SpawnPlan, bind_in, spawn_detached};

pub use self::{
    environment::worker_environment,
    interpreter::{Interpreter, InterpreterError, find_interpreter, worker_argv},
    sources::install_workers,
};
use crate::spec::{FINAL_FILE, KernelSpec, LOG_FILE, PROCESSES_FILE, SOCKET_FILE, SPEC_FILE, write_json};

/// The number of the descriptor that a supervisor listens on, when its launcher has bound it.
pub(crate) const LISTENER_VARIABLE: &str = "AGAROSE_LISTENER";
const LISTENER: i32 = 3;

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
    /// A kernel has been started in this directory before.
    #[error("{} has held a kernel already", dir.display())]
    Used {
        /// The directory.
        dir: PathBuf,
    },
    /// No program was named.
    #[error("no program was named that supervises")]
    NoProgram,
    /// The program did not start.
    #[error("could not start the supervisor")]
    Spawn(#[from] SpawnError),
}

/// Prepares `dir` (made if need be, 0700) and starts a supervisor there, detached from this
/// process: in its own session, and not our child. The socket is bound when this returns, so
/// that [`crate::client::connect`] works at once.
///
/// `supervisor` is the program and its arguments up to `--dir`, which is appended:
/// `["/usr/bin/agarose", "supervise"]`.
///
/// # Errors
/// When the directory cannot be prepared, has held a kernel before, or the program does not start.
pub fn launch(supervisor: &[OsString], spec: &KernelSpec, dir: &Path) -> Result<ProcessId, LaunchError> {
    let fault = |path: &Path| {
        let path = path.to_path_buf();
        move |source| LaunchError::Directory { path, source }
    };
    DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(fault(dir))?;
    fs::set_permissions(dir, fs::Permissions::from_mode(0o700)).map_err(fault(dir))?;
    // A path that the supervisor understands wherever it starts.
    let dir = &fs::canonicalize(dir).map_err(fault(dir))?;
    for used in [SPEC_FILE, PROCESSES_FILE, FINAL_FILE] {
        if dir.join(used).exists() {
            return Err(LaunchError::Used { dir: dir.clone() });
        }
    }
    let (program, arguments) = supervisor.split_first().ok_or(LaunchError::NoProgram)?;
    write_json(dir, SPEC_FILE, spec).map_err(fault(&dir.join(SPEC_FILE)))?;
    let listener = bind_in(dir, SOCKET_FILE).map_err(fault(&dir.join(SOCKET_FILE)))?;
    let log = dir.join(LOG_FILE);
    let log_file =
        OpenOptions::new().append(true).create(true).mode(0o600).open(&log).map_err(fault(&log))?;
    let also_log = log_file.try_clone().map_err(fault(&log))?;
    let mut arguments = arguments.to_vec();
    arguments.extend(["--dir".into(), dir.clone().into_os_string()]);
    let mut environment: BTreeMap<OsString, OsString> = BTreeMap::new();
    for name in ["PATH", "HOME", "LANG", "TMPDIR", "RUST_BACKTRACE"] {
        if let Some(value) = std::env::var_os(name) {
            environment.insert(name.into(), value);
        }
    }
    environment.insert(LISTENER_VARIABLE.into(), LISTENER.to_string().into());
    Ok(spawn_detached(SpawnPlan {
        program: program.clone(),
        arguments,
        environment,
        directory: Some(PathBuf::from("/")),
        stdout: OwnedFd::from(log_file),
        stderr: OwnedFd::from(also_log),
        keep: vec![(OwnedFd::from(listener), LISTENER)],
        limits: ResourceLimits::default(),
        die_with_parent: false,
        no_new_privileges: false,
        control_groups: Vec::new(),
    })?)
}
