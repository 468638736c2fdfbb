//! What a process and its children may use, by resource limits.

use std::{os::unix::fs::MetadataExt, time::Duration};

use nix::{
    libc::rlim_t,
    sys::resource::{Resource, getrlimit},
};

/// How long after SIGXCPU a process that does not leave is killed, in processor time.
pub const CPU_LIMIT_GRACE: Duration = Duration::from_secs(5);

/// Limits for a child; absent is without limit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResourceLimits {
    /// Private writable memory of each process, in bytes (`RLIMIT_DATA`: address space itself is
    /// left alone, since numerical libraries reserve far more of it than they use).
    pub memory: Option<u64>,
    /// Processes and threads beside those that the user has already. It does not bind root.
    pub processes: Option<u64>,
    /// Open files of each process.
    pub open_files: Option<u64>,
    /// Processor time of each process, in seconds; beyond it comes SIGXCPU, and
    /// [`CPU_LIMIT_GRACE`] later SIGKILL.
    pub cpu_seconds: Option<u64>,
    /// Niceness, from 0 to 19.
    pub nice: Option<u8>,
}

/// A limit as the child is to set it: which, soft, hard.
pub(crate) type Limit = (Resource, rlim_t, rlim_t);

impl ResourceLimits {
    /// The limits in the form that the child sets, computed before the fork. A limit never rises
    /// above the hard limit that is in force.
    pub(crate) fn resolve(&self) -> Vec<Limit> {
        let mut limits = Vec::new();
        let mut add = |resource: Resource, soft: u64, hard: u64| {
            let ceiling = getrlimit(resource).map_or(rlim_t::MAX, |(_, hard)| hard);
            limits.push((resource, soft.min(ceiling), hard.min(ceiling)));
        };
        if let Some(memory) = self.memory {
            add(Resource::RLIMIT_DATA, memory, memory);
        }
        if let Some(processes) = self.processes {
            let limit = processes.saturating_add(threads_of_user());
            add(Resource::RLIMIT_NPROC, limit, limit);
        }
        if let Some(files) = self.open_files {
            add(Resource::RLIMIT_NOFILE, files, files);
        }
        if let Some(seconds) = self.cpu_seconds {
            add(Resource::RLIMIT_CPU, seconds, seconds.saturating_add(CPU_LIMIT_GRACE.as_secs()));
        }
        limits
    }
}

/// How many threads run under our user: the system counts them all against `RLIMIT_NPROC`.
fn threads_of_user() -> u64 {
    let user = nix::unistd::getuid().as_raw();
    let Ok(entries) = std::fs::read_dir("/proc") else {
        return 0;
    };
    entries
        .flatten()
        .filter(|entry| entry.metadata().is_ok_and(|metadata| metadata.uid() == user))
        .filter_map(|entry| std::fs::read_dir(entry.path().join("task")).ok())
        .map(|threads| threads.count() as u64)
        .sum()
}
