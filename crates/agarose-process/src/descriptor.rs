//! The few calls on descriptors that std lacks.

use std::{
    fs, io,
    os::{
        fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd},
        unix::{
            fs::{OpenOptionsExt, PermissionsExt},
            net::{UnixListener, UnixStream},
        },
    },
    path::{Path, PathBuf},
    time::Duration,
};

use nix::{
    errno::Errno,
    fcntl::{FcntlArg, OFlag, fcntl},
    poll::{PollFd, PollFlags, PollTimeout},
    sys::{
        signal::{SigSet, Signal},
        signalfd::{SfdFlags, SignalFd},
        socket::{getsockopt, sockopt::PeerCredentials},
    },
    unistd::pipe2,
};

/// What is waited for on a descriptor.
#[derive(Clone, Copy, Debug)]
pub struct Interest<'a> {
    /// On which.
    pub fd: BorrowedFd<'a>,
    /// That it can be read, or that its other end is gone.
    pub read: bool,
    /// That it can be written, or that its other end is gone.
    pub write: bool,
}

/// What a descriptor is ready for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Readiness {
    /// A read would not block; it may find the end or an error.
    pub readable: bool,
    /// A write would not block; it may find an error.
    pub writable: bool,
}

/// Waits until one of `interests` is ready or the time is over, and says which are ready, in the
/// same order. `None` waits without end. A signal ends the wait early, with nothing ready.
///
/// # Errors
/// When the system refuses.
pub fn poll(
    interests: &[Interest<'_>],
    timeout: Option<Duration>,
    ready: &mut Vec<Readiness>,
) -> io::Result<()> {
    let mut fds: Vec<PollFd<'_>> = interests
        .iter()
        .map(|interest| {
            let mut flags = PollFlags::empty();
            flags.set(PollFlags::POLLIN, interest.read);
            flags.set(PollFlags::POLLOUT, interest.write);
            PollFd::new(interest.fd, flags)
        })
        .collect();
    let timeout = timeout.map_or(PollTimeout::NONE, |time| {
        // Rounded up: a wait that ends too early would be repeated until the time has really come.
        let millis = time.as_micros().div_ceil(1000);
        PollTimeout::try_from(millis).unwrap_or(PollTimeout::MAX)
    });
    ready.clear();
    match nix::poll::poll(&mut fds, timeout) {
        Ok(_) => {}
        Err(Errno::EINTR) => {
            ready.resize(interests.len(), Readiness::default());
            return Ok(());
        }
        Err(errno) => return Err(errno.into()),
    }
    ready.extend(fds.iter().zip(interests).map(|(fd, interest)| {
        let events = fd.revents().unwrap_or(PollFlags::empty());
        let broken = events.intersects(PollFlags::POLLERR | PollFlags::POLLHUP | PollFlags::POLLNVAL);
        Readiness {
            readable: interest.read && (broken || events.contains(PollFlags::POLLIN)),
            writable: interest.write && (broken || events.contains(PollFlags::POLLOUT)),
        }
    }));
    Ok(())
}

/// A pipe: the end to read from, the end to write to; closed on exec.
///
/// # Errors
/// When there are no descriptors left.
pub fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    pipe2(OFlag::O_CLOEXEC).map_err(io::Error::from)
}

/// Makes reads and writes return instead of waiting.
///
/// # Errors
/// When the descriptor does not have such a mode.
pub fn set_nonblocking(fd: impl AsFd) -> io::Result<()> {
    let flags = OFlag::from_bits_retain(fcntl(fd.as_fd(), FcntlArg::F_GETFL)?);
    fcntl(fd.as_fd(), FcntlArg::F_SETFL(flags | OFlag::O_NONBLOCK))?;
    Ok(())
}

/// A copy of the descriptor with this number, closed on exec, for one that was handed over by
/// number when we were started.
///
/// # Errors
/// When no descriptor has this number.
pub fn copy_of(number: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: it is borrowed for this call alone, which refuses a number that is not open.
    let copy = fcntl(unsafe { BorrowedFd::borrow_raw(number) }, FcntlArg::F_DUPFD_CLOEXEC(3))?;
    // SAFETY: the call returned a new descriptor that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(copy) })
}

/// Makes this process the leader of a session of its own; it may be one already.
pub fn own_session() {
    // Refused to a process that leads its group: then somebody has done it for us.
    let _ = nix::unistd::setsid();
}

/// Asks for a pipe that holds at least `bytes`; a system that gives less is taken as it is.
pub fn widen_pipe(fd: impl AsFd, bytes: u32) {
    let wanted = i32::try_from(bytes).unwrap_or(i32::MAX);
    // The limit of the user may be reached; the pipe then stays as it was, which works too.
    let _ = fcntl(fd.as_fd(), FcntlArg::F_SETPIPE_SZ(wanted));
}

/// How many bytes a pipe holds at most.
#[must_use]
pub fn pipe_capacity(fd: impl AsFd) -> usize {
    fcntl(fd.as_fd(), FcntlArg::F_GETPIPE_SZ)
        .ok()
        .and_then(|size| usize::try_from(size).ok())
        .unwrap_or(64 << 10)
}

/// Signals as bytes to be read instead of interruptions. They stay blocked for this thread.
#[derive(Debug)]
pub struct SignalEvents(SignalFd);

impl SignalEvents {
    /// From now on `signals` come here, for this thread and those it starts.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn of(signals: &[Signal]) -> io::Result<Self> {
        let mask: SigSet = signals.iter().copied().collect();
        mask.thread_block()?;
        Ok(Self(SignalFd::with_flags(&mask, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?))
    }

    /// The signals that have come since the last call.
    #[must_use]
    pub fn take(&mut self) -> Vec<Signal> {
        let mut taken = Vec::new();
        while let Ok(Some(event)) = self.0.read_signal() {
            taken
                .extend(i32::try_from(event.ssi_signo).ok().and_then(|number| Signal::try_from(number).ok()));
        }
        taken
    }
}

impl AsFd for SignalEvents {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Who is at the other end of a unix socket, as the system vouches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerProcess {
    /// The process that connected.
    pub pid: i32,
    /// Its user.
    pub uid: u32,
}

impl PeerProcess {
    /// Asks the system.
    ///
    /// # Errors
    /// When the socket is not connected.
    pub fn of(stream: &UnixStream) -> io::Result<Self> {
        let credentials = getsockopt(stream, PeerCredentials)?;
        Ok(Self { pid: credentials.pid(), uid: credentials.uid() })
    }

    /// Whether it is a process of our own user, or of root.
    #[must_use]
    pub fn is_ours(&self) -> bool {
        self.uid == nix::unistd::geteuid().as_raw() || self.uid == 0
    }
}

/// A short path to `name` in `dir`, valid while the descriptor is open.
///
/// The address of a socket holds 107 bytes, and data directories may be deeper than that.
fn short_path(dir: &Path, name: &str) -> io::Result<(fs::File, PathBuf)> {
    let flags = OFlag::O_PATH | OFlag::O_DIRECTORY;
    let dir = fs::OpenOptions::new().read(true).custom_flags(flags.bits()).open(dir)?;
    let path = PathBuf::from(format!("/proc/self/fd/{}/{name}", dir.as_raw_fd()));
    Ok((dir, path))
}

/// Listens on the socket `name` in `dir`, whatever the length of the path; for our user only.
///
/// # Errors
/// When the socket cannot be made, or something of that name is there.
pub fn bind_in(dir: &Path, name: &str) -> io::Result<UnixListener> {
    let (_dir, path) = short_path(dir, name)?;
    let listener = UnixListener::bind(&path)?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600))?;
    Ok(listener)
}

/// Connects to the socket `name` in `dir`, whatever the length of the path.
///
/// # Errors
/// When nobody listens there.
pub fn connect_in(dir: &Path, name: &str) -> io::Result<UnixStream> {
    let (_dir, path) = short_path(dir, name)?;
    UnixStream::connect(path)
}

/// Reads what is there from a descriptor that is not ours alone to buffer.
///
/// # Errors
/// As `read(2)`; `WouldBlock` when nothing is there.
pub fn read_some(fd: &OwnedFd, buffer: &mut [u8]) -> io::Result<usize> {
    loop {
        match nix::unistd::read(fd, buffer) {
            Err(Errno::EINTR) => {}
            other => return other.map_err(io::Error::from),
        }
    }
}

/// Writes what fits.
///
/// # Errors
/// As `write(2)`; `WouldBlock` when nothing fits.
pub fn write_some(fd: &OwnedFd, bytes: &[u8]) -> io::Result<usize> {
    loop {
        match nix::unistd::write(fd, bytes) {
            Err(Errno::EINTR) => {}
            other => return other.map_err(io::Error::from),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use super::*;

    #[test]
    fn a_socket_works_at_the_end_of_a_path_longer_than_an_address() {
        let root = tempfile::tempdir().unwrap();
        let mut dir = root.path().to_path_buf();
        for _ in 0..6 {
            dir.push("a-directory-name-of-thirty-chars");
        }
        fs::create_dir_all(&dir).unwrap();
        assert!(dir.as_os_str().len() > 150);
        let listener = bind_in(&dir, "socket").unwrap();
        let mut client = connect_in(&dir, "socket").unwrap();
        let (mut served, _) = listener.accept().unwrap();
        client.write_all(b"x").unwrap();
        let mut byte = [0];
        served.read_exact(&mut byte).unwrap();
        assert_eq!(&byte, b"x");
        assert!(PeerProcess::of(&served).unwrap().is_ours());
        assert_eq!(fs::metadata(dir.join("socket")).unwrap().permissions().mode() & 0o777, 0o600);
    }
}
