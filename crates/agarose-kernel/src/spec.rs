//! The specification of one life of one kernel, and the record of its end.

use std::{
    collections::BTreeMap,
    fmt,
    fs::{self, OpenOptions},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use agarose_core::{Generation, Language};
use agarose_process::{Exit, ProcessId, StopOutcome};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::wire::{ExecutionId, generation_text, worker::WorkerOptions};

/// The file that says what to start.
pub const SPEC_FILE: &str = "spec.json";
/// The file that says how it ended.
pub const FINAL_FILE: &str = "final.json";
/// The file that says which processes it is.
pub const PROCESSES_FILE: &str = "processes.json";
/// The socket that the supervisor listens on.
pub const SOCKET_FILE: &str = "socket";
/// The supervisor's log.
pub const LOG_FILE: &str = "supervisor.log";

/// What a supervisor is to start and how. Times are in milliseconds, sizes in bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelSpec {
    /// Which life of the kernel; never used twice.
    #[serde(with = "generation_text")]
    pub generation: Generation,
    /// Whoever attaches must know it.
    pub secret: String,
    /// Which interpreter it is.
    pub language: Language,
    /// The worker's program and arguments.
    pub argv: Vec<String>,
    /// The worker's whole environment.
    pub environment: BTreeMap<String, String>,
    /// The directory that cells run in, absolute.
    pub workspace: PathBuf,
    /// What the worker may use.
    #[serde(default)]
    pub limits: KernelLimits,
    /// How long the supervisor goes on without a daemon; absent is for ever.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub orphan_grace_ms: Option<u64>,
    /// How long the worker may take to say that it is ready.
    #[serde(default = "start_deadline_ms")]
    pub start_deadline_ms: u64,
    /// How long after TERM the group is killed, where nobody said otherwise.
    #[serde(default = "term_grace_ms")]
    pub term_grace_ms: u64,
    /// How long after KILL the group is given up, where nobody said otherwise.
    #[serde(default = "kill_grace_ms")]
    pub kill_grace_ms: u64,
    /// How much output is kept.
    #[serde(default)]
    pub spool: SpoolBounds,
    /// How the worker shows things.
    #[serde(default)]
    pub worker: WorkerOptions,
}

const fn start_deadline_ms() -> u64 {
    30_000
}

const fn term_grace_ms() -> u64 {
    5_000
}

const fn kill_grace_ms() -> u64 {
    10_000
}

/// The grace of a supervisor that nobody claims, where nobody said otherwise: 15 minutes.
pub const ORPHAN_GRACE_MS: u64 = 15 * 60 * 1000;

impl KernelSpec {
    /// A specification with every bound at its default.
    #[must_use]
    pub fn new(
        generation: Generation,
        secret: String,
        language: Language,
        argv: Vec<String>,
        workspace: PathBuf,
    ) -> Self {
        Self {
            generation,
            secret,
            language,
            argv,
            environment: BTreeMap::new(),
            workspace,
            limits: KernelLimits::default(),
            orphan_grace_ms: Some(ORPHAN_GRACE_MS),
            start_deadline_ms: start_deadline_ms(),
            term_grace_ms: term_grace_ms(),
            kill_grace_ms: kill_grace_ms(),
            spool: SpoolBounds::default(),
            worker: WorkerOptions::default(),
        }
    }
}

/// What a worker and everything it starts may use; absent is without limit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelLimits {
    /// Memory, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<u64>,
    /// Processes and threads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processes: Option<u64>,
    /// Open files, of each process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open_files: Option<u64>,
    /// Processor time, in seconds, of each process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_seconds: Option<u64>,
    /// Niceness, from 0 to 19.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nice: Option<u8>,
    /// Whether setuid programs give no more rights.
    #[serde(default)]
    pub no_new_privileges: bool,
}

/// A limit of ours that ended a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PassedLimit {
    /// [`KernelLimits::memory`], held by a control group; in bytes.
    Memory(u64),
    /// [`KernelLimits::cpu_seconds`], of the worker's own process; in seconds.
    CpuSeconds(u64),
}

impl fmt::Display for PassedLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory(bytes) => {
                let units = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
                // Exactly as it was asked for, so that people find it again in what they wrote.
                let (unit, size) =
                    units.into_iter().find(|(_, size)| bytes % size == 0).unwrap_or(("bytes", 1));
                write!(f, "memory limit {} {unit}", bytes / size)
            }
            Self::CpuSeconds(seconds) => write!(f, "processor time limit {seconds} s"),
        }
    }
}

/// How much of an execution's output is kept, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpoolBounds {
    /// The first text.
    pub head: u64,
    /// The last text.
    pub tail: u64,
    /// The first displays.
    pub displays: u64,
}

impl Default for SpoolBounds {
    fn default() -> Self {
        Self { head: 512 << 10, tail: 512 << 10, displays: 32 << 20 }
    }
}

/// Which processes a kernel is, for a daemon that finds its supervisor dead.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelProcesses {
    /// The boot that the process ids belong to.
    pub boot_id: String,
    /// The supervisor.
    pub supervisor: ProcessId,
    /// The worker, once it was started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<ProcessId>,
}

impl KernelProcesses {
    /// The variable in the environment of everything that the worker starts, `NAME=value`, by
    /// which it is found when its supervisor is dead. No other kernel of this boot has it.
    #[must_use]
    pub fn mark(&self) -> String {
        format!("{MARK}={}", mark_value(self.supervisor))
    }
}

/// The name of the variable of [`KernelProcesses::mark`].
pub(crate) const MARK: &str = "AGAROSE_KERNEL";

pub(crate) fn mark_value(supervisor: ProcessId) -> String {
    format!("{}-{}", supervisor.pid, supervisor.start_time)
}

/// How a supervisor left. What was held is still in the spool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FinalRecord {
    /// Which life of the kernel.
    #[serde(with = "generation_text")]
    pub generation: Generation,
    /// The boot that the process ids belong to.
    pub boot_id: String,
    /// The supervisor.
    pub supervisor: ProcessId,
    /// The worker, if one was started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<ProcessId>,
    /// Why the supervisor left.
    pub cause: FinalCause,
    /// When, in milliseconds since the Unix epoch.
    pub wall_ms: u64,
    /// How the worker ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit: Option<Exit>,
    /// The limit of ours that ended it, when it is known to be one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<PassedLimit>,
    /// What the stop of its group found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped: Option<StopOutcome>,
    /// What was running then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub executing: Option<ExecutionId>,
    /// Whether user code of that execution had begun.
    #[serde(default)]
    pub started: bool,
    /// The executions that ended and were not released.
    #[serde(default)]
    pub held: Vec<ExecutionId>,
}

/// Why a supervisor left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FinalCause {
    /// A daemon said so.
    Shutdown,
    /// No daemon came within the grace.
    Orphaned,
    /// It was told to terminate by a signal.
    Signalled,
}

/// Reads `spec.json`.
///
/// # Errors
/// When the file cannot be read or is not a specification.
pub fn read_spec(dir: &Path) -> io::Result<KernelSpec> {
    read_json(&dir.join(SPEC_FILE))
}

/// Reads `final.json`, if it is there.
///
/// # Errors
/// When the file cannot be read or is not a record.
pub fn read_final(dir: &Path) -> io::Result<Option<FinalRecord>> {
    if_there(read_json(&dir.join(FINAL_FILE)))
}

/// Reads `processes.json`, if it is there.
///
/// # Errors
/// When the file cannot be read or is not that.
pub fn read_processes(dir: &Path) -> io::Result<Option<KernelProcesses>> {
    if_there(read_json(&dir.join(PROCESSES_FILE)))
}

fn if_there<T>(read: io::Result<T>) -> io::Result<Option<T>> {
    match read {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Writes a file that is there whole or not at all, for our user only.
pub(crate) fn write_json<T: Serialize>(dir: &Path, name: &str, value: &T) -> io::Result<()> {
    let bytes = serde_json::to_vec_pretty(value)?;
    let path = dir.join(name);
    let beside = dir.join(format!("{name}.new"));
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&beside)?;
    file.write_all(&bytes)?;
    fs::rename(&beside, &path)
}

fn read_json<T: DeserializeOwned>(path: &Path) -> io::Result<T> {
    let bytes = fs::read(path)?;
    serde_json::from_slice(&bytes).map_err(io::Error::from)
}
