//! A child with exactly the descriptors, environment and limits that were asked for.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    fs::File,
    io,
    mem::MaybeUninit,
    os::{
        fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd},
        unix::process::CommandExt,
    },
    path::PathBuf,
    process::{Command, Stdio},
};

use nix::{
    errno::Errno,
    fcntl::{FcntlArg, fcntl},
    libc,
    sys::{
        prctl,
        resource::setrlimit,
        signal::{SigSet, SigmaskHow, Signal, sigprocmask},
        wait::waitpid,
    },
    unistd::{ForkResult, Pid, dup2_raw, fork, getpid, getppid, read, setsid, write},
};

use crate::{
    limits::{Limit, ResourceLimits},
    outcome::{Exit, ProcessId},
    probe::start_time,
    signal::Pidfd,
};

/// What to start and how. Descriptor 0 is `/dev/null`; what is not named here is closed.
#[derive(Debug)]
pub struct SpawnPlan {
    /// The program, a path or a name on `PATH`.
    pub program: OsString,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// Its whole environment.
    pub environment: BTreeMap<OsString, OsString>,
    /// Where it starts; absent is where we are.
    pub directory: Option<PathBuf>,
    /// Descriptor 1.
    pub stdout: OwnedFd,
    /// Descriptor 2.
    pub stderr: OwnedFd,
    /// Further descriptors, each with the number it gets.
    pub keep: Vec<(OwnedFd, RawFd)>,
    /// What it may use.
    pub limits: ResourceLimits,
    /// Whether it is killed when the thread that starts it ends.
    pub die_with_parent: bool,
    /// Whether setuid programs give it no more rights.
    pub no_new_privileges: bool,
    /// Open `cgroup.procs` files of the control groups that it is to enter.
    pub control_groups: Vec<OwnedFd>,
}

/// Why a child could not be started.
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    /// Its descriptors could not be arranged.
    #[error("could not arrange the descriptors of {}", program.display())]
    Descriptors {
        /// Which program.
        program: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The program did not start.
    #[error("could not start {}", program.display())]
    Start {
        /// Which program.
        program: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It was gone before it could be looked at.
    #[error("{} was gone at once", program.display())]
    Gone {
        /// Which program.
        program: PathBuf,
    },
}

/// A child of ours, the leader of its own session and group, not reaped before we say so.
#[derive(Debug)]
pub struct Child {
    id: ProcessId,
    pidfd: Pidfd,
}

impl Child {
    /// Which process.
    #[must_use]
    pub const fn id(&self) -> ProcessId {
        self.id
    }

    /// Readable once it has ended.
    #[must_use]
    pub fn pidfd(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }

    /// Sends it a signal.
    ///
    /// # Errors
    /// When it is gone or the system refuses.
    pub fn signal(&self, signal: Signal) -> Result<(), crate::SignalError> {
        self.pidfd.send(signal)
    }

    /// How it ended, if it has; it stays a zombie, so that its number stays taken.
    #[must_use]
    pub fn peek(&self) -> Option<Exit> {
        self.wait(libc::WNOWAIT | libc::WNOHANG)
    }

    /// Reaps it if it has ended, and says how.
    #[must_use]
    pub fn reap(&self) -> Option<Exit> {
        self.wait(libc::WNOHANG)
    }

    fn wait(&self, flags: i32) -> Option<Exit> {
        let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
        let id = libc::id_t::try_from(self.id.pid).ok()?;
        // SAFETY: `info` is a valid place for the answer.
        let answer = unsafe { libc::waitid(libc::P_PID, id, info.as_mut_ptr(), libc::WEXITED | flags) };
        if answer != 0 {
            // ECHILD: somebody else has reaped it.
            return (Errno::last() == Errno::ECHILD).then_some(Exit::Unknown);
        }
        // SAFETY: zeroed is a valid siginfo_t, and the call has filled it in.
        let info = unsafe { info.assume_init() };
        // SAFETY: after waitid these two fields are the ones in use; both are plain integers.
        let (pid, status) = unsafe { (info.si_pid(), info.si_status()) };
        if pid == 0 {
            return None;
        }
        Some(match info.si_code {
            libc::CLD_EXITED => Exit::Code(status),
            libc::CLD_KILLED => Exit::Signal { number: status, core: false },
            libc::CLD_DUMPED => Exit::Signal { number: status, core: true },
            _ => Exit::Unknown,
        })
    }
}

/// Starts a child in a session and group of its own.
///
/// # Errors
/// When its descriptors cannot be arranged or the program does not start.
pub fn spawn(plan: SpawnPlan) -> Result<Child, SpawnError> {
    let program = PathBuf::from(&plan.program);
    let pid = start(plan, None)?;
    let gone = || SpawnError::Gone { program: program.clone() };
    // It is our child and not reaped, so both find it even when it has ended already.
    let id = ProcessId { pid, start_time: start_time(pid).ok_or_else(gone)? };
    let pidfd = Pidfd::of_number(pid).map_err(|_| gone())?;
    Ok(Child { id, pidfd })
}

/// Starts a process in a session of its own that is not our child: it lives on when we die, and
/// we need not reap it.
///
/// # Errors
/// When its descriptors cannot be arranged or the program does not start.
pub fn spawn_detached(plan: SpawnPlan) -> Result<ProcessId, SpawnError> {
    let program = PathBuf::from(&plan.program);
    let fault = |source: io::Error| SpawnError::Descriptors { program: program.clone(), source };
    let (told, tell) = crate::pipe().map_err(fault)?;
    let between = start(plan, Some(tell))?;
    let _ = waitpid(Pid::from_raw(between), None);
    let mut number = [0; 4];
    let length = read(&told, &mut number).map_err(|errno| fault(errno.into()))?;
    let pid = i32::from_ne_bytes(number);
    match start_time(pid) {
        Some(start_time) if length == number.len() => Ok(ProcessId { pid, start_time }),
        _ => Err(SpawnError::Gone { program }),
    }
}

fn start(plan: SpawnPlan, detach: Option<OwnedFd>) -> Result<i32, SpawnError> {
    let program = PathBuf::from(&plan.program);
    let arranged = arrange(plan.keep);
    let (keep, _reserved) =
        arranged.map_err(|source| SpawnError::Descriptors { program: program.clone(), source })?;
    let setup = Setup {
        parent: getpid(),
        keep,
        limits: plan.limits.resolve(),
        nice: plan.limits.nice,
        die_with_parent: plan.die_with_parent,
        no_new_privileges: plan.no_new_privileges,
        control_groups: plan.control_groups,
        detach,
    };
    let mut command = Command::new(&plan.program);
    command
        .args(&plan.arguments)
        .env_clear()
        .envs(&plan.environment)
        .stdin(Stdio::null())
        .stdout(plan.stdout)
        .stderr(plan.stderr);
    if let Some(directory) = &plan.directory {
        command.current_dir(directory);
    }
    // SAFETY: between fork and exec only `Setup::apply` runs: system calls, no allocation, no lock.
    unsafe { command.pre_exec(move || setup.apply()) };
    let child = command.spawn().map_err(|source| SpawnError::Start { program: program.clone(), source })?;
    i32::try_from(child.id()).map_err(|_| SpawnError::Gone { program })
}

type Kept = Vec<(OwnedFd, RawFd)>;

/// Moves what is to be kept out of the way of the numbers it gets, and takes those numbers so
/// that std does not use one of them for its own pipe to the child.
fn arrange(keep: Kept) -> io::Result<(Kept, Vec<OwnedFd>)> {
    let above = keep.iter().map(|(_, number)| *number).max().unwrap_or(2).saturating_add(1);
    let mut reserved = Vec::new();
    let null = File::open("/dev/null")?;
    for (_, number) in &keep {
        // Taken already: then std cannot get it either.
        let taken = duplicate(&null, *number)?;
        if taken.as_raw_fd() == *number {
            reserved.push(taken);
        }
    }
    let kept = keep
        .into_iter()
        .map(|(fd, number)| Ok((duplicate(&fd, above)?, number)))
        .collect::<io::Result<Kept>>()?;
    Ok((kept, reserved))
}

/// A copy with a number of at least `from`, closed on exec.
fn duplicate(fd: impl AsFd, from: RawFd) -> io::Result<OwnedFd> {
    let copy = fcntl(fd.as_fd(), FcntlArg::F_DUPFD_CLOEXEC(from))?;
    // SAFETY: the call returned a new descriptor that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(copy) })
}

/// What the child does to itself between fork and exec.
struct Setup {
    parent: Pid,
    keep: Kept,
    limits: Vec<Limit>,
    nice: Option<u8>,
    die_with_parent: bool,
    no_new_privileges: bool,
    control_groups: Vec<OwnedFd>,
    /// Where the one in between says the number of the real one, when the child is not to be ours.
    detach: Option<OwnedFd>,
}

impl Setup {
    /// Only system calls: another thread may have held any lock at the moment of the fork.
    fn apply(&self) -> io::Result<()> {
        if let Some(tell) = &self.detach {
            // SAFETY: this process has one thread, and both sides do nothing but system calls.
            if let ForkResult::Parent { child } = unsafe { fork() }? {
                let told = write(tell, &child.as_raw().to_ne_bytes());
                // SAFETY: `_exit` ends this process and runs nothing of the parent's.
                unsafe { libc::_exit(i32::from(told.is_err())) };
            }
        } else if self.die_with_parent {
            prctl::set_pdeathsig(Signal::SIGKILL)?;
            // It may have died before we asked to be told.
            if getppid() != self.parent {
                return Err(Errno::ESRCH.into());
            }
        }
        setsid()?;
        default_signal_actions();
        sigprocmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::empty()), None)?;
        for group in &self.control_groups {
            write(group, b"0")?;
        }
        if let Some(nice) = self.nice {
            // SAFETY: an integer in, an integer out.
            unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, i32::from(nice)) };
        }
        if self.no_new_privileges {
            prctl::set_no_new_privs()?;
        }
        close_on_exec_from(3);
        for (fd, number) in &self.keep {
            // SAFETY: `number` is one that `arrange` has reserved for this, so nothing is lost.
            let kept = unsafe { dup2_raw(fd, *number) }?;
            // It has to stay open in the program, and nobody closes it here.
            std::mem::forget(kept);
        }
        for (resource, soft, hard) in &self.limits {
            setrlimit(*resource, *soft, *hard)?;
        }
        Ok(())
    }
}

/// Restores the default action of every signal, whatever those who started us have ignored. Not
/// by way of libc, which leaves out the two that it uses itself.
fn default_signal_actions() {
    // What the kernel calls a sigaction: SIG_DFL, no flags, no restorer, an empty mask.
    let default: [u64; 4] = [0; 4];
    for number in 1..=64_i64 {
        // SAFETY: reads 32 bytes that are there; the two that may not be changed are refused.
        unsafe {
            libc::syscall(
                libc::SYS_rt_sigaction,
                number,
                default.as_ptr(),
                std::ptr::null::<u64>(),
                size_of::<u64>(),
            )
        };
    }
}

/// Marks every descriptor from `first` on as closed on exec.
fn close_on_exec_from(first: u32) {
    // SAFETY: integers in, an integer out.
    let marked = unsafe {
        libc::syscall(
            libc::SYS_close_range,
            libc::c_long::from(first),
            libc::c_long::from(u32::MAX),
            libc::c_long::from(libc::CLOSE_RANGE_CLOEXEC),
        )
    };
    if marked == 0 {
        return;
    }
    // Before Linux 5.11. Our own descriptors are all marked when they are made; this is for
    // those that came to us from whoever started us.
    for fd in first..4096 {
        // SAFETY: a descriptor that is not open is refused, and that is all right.
        unsafe { libc::fcntl(fd.cast_signed(), libc::F_SETFD, libc::FD_CLOEXEC) };
    }
}
