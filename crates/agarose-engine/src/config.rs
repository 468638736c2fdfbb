//! What an engine is started with.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

use crate::host;
use agarose_core::{Language, Millis, Policy, SessionId};
use agarose_kernel::{
    spec::{KernelLimits, KernelSpec},
    wire::worker::WorkerOptions,
};

/// How to run an engine.
#[derive(Clone, Debug)]
pub struct EngineConfig {
    /// The data directory; made if need be.
    pub data_dir: PathBuf,
    /// The program that becomes a supervisor, and its arguments up to `--dir`.
    pub supervisor: Vec<OsString>,
    /// The rules of this start.
    pub policy: Policy,
    /// How long a cell may run when its request does not say; absent means for ever.
    pub default_timeout: Option<Millis>,
    /// How kernels are started.
    pub kernel: KernelConfig,
    /// What cells may ask for.
    pub host_policy: host::policy::Policy,
    /// The program's version, for the record that every start appends.
    pub version: String,
}

impl EngineConfig {
    /// The contract's defaults.
    #[must_use]
    pub fn new(data_dir: PathBuf, supervisor: Vec<OsString>, version: &str) -> Self {
        Self {
            data_dir,
            supervisor,
            policy: Policy::default(),
            default_timeout: Some(Millis::seconds(900)),
            kernel: KernelConfig::default(),
            host_policy: host::policy::Policy::default(),
            version: version.to_owned(),
        }
    }
}

/// How kernels are started.
#[derive(Clone, Debug, Default)]
pub struct KernelConfig {
    /// The Python to use; absent means the active environment, then the workspace's, then the first on `PATH`.
    pub python: Option<PathBuf>,
    /// The Rscript to use; absent means the first that is found.
    pub rscript: Option<PathBuf>,
    /// Where cells run when their session does not say; absent means a directory of the session's own.
    pub workspace: Option<PathBuf>,
    /// What a kernel may use.
    pub limits: KernelLimits,
    /// How long a supervisor goes on without a daemon; absent means the supervisor's own default.
    pub orphan_grace: Option<OrphanGrace>,
    /// How things are shown.
    pub worker: WorkerOptions,
}

/// How long a supervisor goes on without a daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OrphanGrace {
    /// That long; zero means not at all.
    After(Millis),
    /// For ever.
    Never,
}

impl KernelConfig {
    pub(crate) fn interpreter(&self, language: Language) -> Option<&Path> {
        match language {
            Language::Python => self.python.as_deref(),
            Language::R => self.rscript.as_deref(),
        }
    }

    /// Where the cells of a session run.
    pub(crate) fn workspace_of(&self, data_dir: &Path, session: &SessionId) -> PathBuf {
        self.workspace
            .clone()
            .unwrap_or_else(|| data_dir.join("workspaces").join(directory_name(session.as_str())))
    }

    pub(crate) fn apply(&self, spec: &mut KernelSpec) {
        spec.limits = self.limits.clone();
        spec.worker = self.worker.clone();
        match self.orphan_grace {
            None => {}
            Some(OrphanGrace::After(grace)) => spec.orphan_grace_ms = Some(grace.0),
            Some(OrphanGrace::Never) => spec.orphan_grace_ms = None,
        }
    }
}

/// A session's name as the name of a directory: what a file system may not like is percent-encoded,
/// so that two names never meet.
fn directory_name(session: &str) -> String {
    let mut name = String::new();
    for byte in session.bytes() {
        let plain =
            byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_') || (byte == b'.' && !name.is_empty());
        if plain {
            name.push(char::from(byte));
        } else {
            name.push_str(&format!("%{byte:02X}"));
        }
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_name_cannot_leave_the_directory_of_workspaces() {
        assert_eq!(directory_name("../a b"), "%2E.%2Fa%20b");
        assert_eq!(directory_name("run-1.2"), "run-1.2");
    }
}
