//! Signals that cannot reach a stranger.

use std::{
    fs, io,
    mem::MaybeUninit,
    os::{
        fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd},
        unix::fs::FileExt,
    },
    ptr,
};

use nix::{
    errno::Errno,
    libc,
    sys::{
        prctl,
        signal::Signal,
        wait::{WaitPidFlag, waitpid},
    },
    unistd::Pid,
};

use crate::{
    outcome::ProcessId,
    probe::{process_state, processes, start_time},
};

/// Why a signal was not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SignalError {
    /// The process is gone, or its number belongs to another one now.
    #[error("the process is gone")]
    Gone,
    /// The system refused.
    #[error("the system would not send the signal: {0}")]
    Refused(Errno),
}

impl SignalError {
    fn of(errno: Errno) -> Self {
        if errno == Errno::ESRCH { Self::Gone } else { Self::Refused(errno) }
    }
}

/// A descriptor that means one process and no later one with the same number.
#[derive(Debug)]
pub struct Pidfd(OwnedFd);

impl Pidfd {
    /// Opens the process `id`, and not a later one with its number.
    ///
    /// # Errors
    /// [`SignalError::Gone`] when it is no longer there.
    pub fn open(id: ProcessId) -> Result<Self, SignalError> {
        let pidfd = Self::of_number(id.pid)?;
        // The descriptor is open, so whatever has the number now keeps it: compare only after.
        if start_time(id.pid) == Some(id.start_time) { Ok(pidfd) } else { Err(SignalError::Gone) }
    }

    /// Opens whatever process has this number now.
    ///
    /// # Errors
    /// [`SignalError::Gone`] when none has it.
    pub fn of_number(pid: i32) -> Result<Self, SignalError> {
        // SAFETY: pidfd_open takes two integers and touches no memory of ours.
        let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, libc::c_long::from(pid), 0_i64) };
        let fd = Errno::result(fd).map_err(SignalError::of)?;
        let fd = i32::try_from(fd).map_err(|_| SignalError::Refused(Errno::EBADF))?;
        // SAFETY: the call returned a new descriptor that nobody else owns.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Sends a signal.
    ///
    /// # Errors
    /// When the process is gone or the system refuses.
    pub fn send(&self, signal: Signal) -> Result<(), SignalError> {
        // SAFETY: pidfd_send_signal with a null siginfo reads no memory of ours.
        let sent = unsafe {
            libc::syscall(
                libc::SYS_pidfd_send_signal,
                libc::c_long::from(self.0.as_raw_fd()),
                signal as libc::c_long,
                ptr::null::<libc::siginfo_t>(),
                0_i64,
            )
        };
        Errno::result(sent).map(|_| ()).map_err(SignalError::of)
    }
}

impl AsFd for Pidfd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Sends a signal to the process `id`, and to no later one with its number.
///
/// # Errors
/// When it is gone or the system refuses.
pub fn signal_process(id: ProcessId, signal: Signal) -> Result<(), SignalError> {
    Pidfd::open(id)?.send(signal)
}

/// Sends a signal to the main thread of our child `pid`, so that it is the one whose system call
/// is interrupted. The caller has not reaped the child, so the number is its own.
///
/// # Errors
/// When it is gone or the system refuses.
pub fn signal_main_thread(pid: i32, signal: Signal) -> Result<(), SignalError> {
    // SAFETY: tgkill takes three integers and touches no memory of ours.
    let sent = unsafe {
        libc::syscall(
            libc::SYS_tgkill,
            libc::c_long::from(pid),
            libc::c_long::from(pid),
            signal as libc::c_long,
        )
    };
    Errno::result(sent).map(|_| ()).map_err(SignalError::of)
}

/// Makes this process the parent of every orphan below it, so that nothing that a worker starts
/// gets out of sight.
///
/// # Errors
/// When the system refuses.
pub fn become_subreaper() -> io::Result<()> {
    prctl::set_child_subreaper(true).map_err(io::Error::from)
}

/// Reaps our dead children, except `keep`.
///
/// `keep` stays a zombie so that its number, which is that of its group, stays taken.
pub fn reap_orphans(keep: Option<i32>) {
    let any = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
    loop {
        // It looks without reaping, since what it finds may be the one to keep.
        match dead_child(any) {
            Some(pid) if Some(pid) != keep => {
                let _ = waitpid(Pid::from_raw(pid), Some(WaitPidFlag::WNOHANG));
            }
            // It may hide others behind it.
            Some(_) => break,
            None => return,
        }
    }
    let us = Pid::this().as_raw();
    for process in processes() {
        if process.parent == us && process.is_dead() && Some(process.id.pid) != keep {
            let _ = waitpid(Pid::from_raw(process.id.pid), Some(WaitPidFlag::WNOHANG));
        }
    }
}

fn dead_child(flags: WaitPidFlag) -> Option<i32> {
    let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
    // SAFETY: `info` is a valid place for the answer; zeroed is a valid siginfo_t.
    let (answer, info) =
        unsafe { (libc::waitid(libc::P_ALL, 0, info.as_mut_ptr(), flags.bits()), info.assume_init()) };
    // SAFETY: after waitid this field is the one in use; zero when there was nobody.
    let pid = unsafe { info.si_pid() };
    (answer == 0 && pid != 0).then_some(pid)
}

/// How many processes we have as children, ourselves and `child`, dead ones not counted; `None`
/// where the system does not list them.
///
/// It misses what a thread other than the main thread of `child` has started: it is for a remark,
/// and cheap enough to be asked for after every cell.
#[derive(Debug)]
pub struct ChildCounter {
    ours: fs::File,
    theirs: fs::File,
}

impl ChildCounter {
    /// Opens what is to be read.
    ///
    /// # Errors
    /// When the system does not list children.
    pub fn of(child: i32) -> io::Result<Self> {
        let us = Pid::this();
        let ours = fs::File::open(format!("/proc/{us}/task/{us}/children"))?;
        let theirs = fs::File::open(format!("/proc/{child}/task/{child}/children"))?;
        Ok(Self { ours, theirs })
    }

    /// How many there are beside `child` itself.
    #[must_use]
    pub fn count(&self, child: i32) -> u64 {
        let mut buffer = [0; 4096];
        let mut count = 0;
        for file in [&self.ours, &self.theirs] {
            let length = file.read_at(&mut buffer, 0).unwrap_or(0);
            let text = std::str::from_utf8(buffer.get(..length).unwrap_or_default()).unwrap_or_default();
            let pids = text.split_ascii_whitespace().filter_map(|pid| pid.parse::<i32>().ok());
            let alive = |pid: &i32| process_state(*pid).is_some_and(|process| !process.is_dead());
            count += pids.filter(|pid| *pid != child).filter(alive).count() as u64;
        }
        count
    }
}
