//! A group of processes: start, signal, probe, limit, confine.
//!
//! This crate knows no event and no kernel. It is the only one that may use `unsafe`.
//!
//! | File | Its one reason |
//! |---|---|
//! | `spawn` | a child with exactly the descriptors, environment and limits that were asked for |
//! | `probe` | what `/proc` says: who is there, since when, in which group |
//! | `signal` | signals that cannot reach a stranger |
//! | `stop` | TERM, grace, KILL, grace, probe: and what was found |
//! | `limits`, `cgroup` | what a group may use |
//! | `init` | the first process of a container, which has to reap orphans |
//! | `descriptor`, `mapping` | the few calls on descriptors that std lacks |
#![expect(unsafe_code, reason = "this is the crate that wraps the system calls which std and nix lack")]

mod cgroup;
mod descriptor;
mod init;
mod limits;
mod mapping;
mod outcome;
mod probe;
mod signal;
mod spawn;
mod stop;

pub use cgroup::Cgroup;
pub use descriptor::{
    Interest, PeerProcess, Readiness, SignalEvents, bind_in, connect_in, copy_of, own_session, pipe,
    pipe_capacity, poll, read_some, set_nonblocking, widen_pipe, write_some,
};
pub use init::stand_in_for_init;
pub use limits::{CPU_LIMIT_GRACE, ResourceLimits};
pub use mapping::SharedMapping;
pub use nix::sys::signal::Signal;
pub use outcome::{Exit, ProcessId, ProcessState, StopEnd, StopOutcome, signal_name};
pub use probe::{
    boot_id, cpu_time, descendants, group_members, is_running, machine_oom_kills, process_state, processes,
    start_time, tagged,
};
pub use signal::{
    ChildCounter, Pidfd, SignalError, become_subreaper, reap_orphans, signal_main_thread, signal_process,
};
pub use spawn::{Child, SpawnError, SpawnPlan, spawn, spawn_detached};
pub use stop::{Descendants, Group, Stop, Tagged, stop};
