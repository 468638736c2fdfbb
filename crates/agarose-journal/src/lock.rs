//! One daemon per data directory: an flock held for life.
//!
//! The file is never removed (that would let two processes each lock a file of that name), and its
//! content is only what a refusal says about the holder; the lock itself is the kernel's.

use std::{
    fmt, fs, io,
    io::{Read, Seek, SeekFrom, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

/// How long the lock of a holder that is gone is waited for: a child that it was just about to start has a copy of
/// the descriptor, until it begins its own program.
const COPY_PATIENCE: Duration = Duration::from_secs(2);
const COPY_PAUSE: Duration = Duration::from_millis(2);

/// Who holds a data directory, as its lock file says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Holder {
    /// The process id.
    pub pid: Option<u32>,
    /// When that process was started, in clock ticks since boot: tells it from a later one with its id.
    pub started: Option<u64>,
    /// The boot that it runs under.
    pub boot: Option<String>,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.pid {
            Some(pid) => write!(f, "process {pid}"),
            None => f.write_str("a process that has not written its name"),
        }
    }
}

impl Holder {
    /// This process.
    #[must_use]
    pub fn this_process() -> Self {
        Self { pid: Some(std::process::id()), started: start_time("self"), boot: boot_id() }
    }

    fn parse(text: &str) -> Self {
        let mut holder = Self::default();
        for line in text.lines() {
            match line.split_once(' ') {
                Some(("pid", value)) => holder.pid = value.parse().ok(),
                Some(("started", value)) => holder.started = value.parse().ok(),
                Some(("boot", value)) => holder.boot = Some(value.to_owned()),
                _ => {}
            }
        }
        holder
    }

    /// Whether that very process is known to be there no more.
    fn is_gone(&self) -> bool {
        let (Some(pid), Some(started)) = (self.pid, self.started) else { return false };
        self.boot != boot_id() || start_time(&pid.to_string()) != Some(started)
    }

    fn text(&self) -> String {
        let line = |name: &str, value: Option<String>| {
            value.map_or_else(String::new, |value| format!("{name} {value}\n"))
        };
        line("pid", self.pid.map(|pid| pid.to_string()))
            + &line("started", self.started.map(|started| started.to_string()))
            + &line("boot", self.boot.clone())
    }
}

/// When a process that still runs was started; a zombie has nothing open any more.
fn start_time(pid: &str) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The command is in parentheses and may hold spaces; field 22 is the 20th after it (proc_pid_stat(5)).
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
    fields.next().filter(|state| *state != "Z")?;
    fields.nth(18)?.parse().ok()
}

/// The id of this boot of the machine.
#[must_use]
pub fn boot_id() -> Option<String> {
    Some(fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?.trim().to_owned())
}

/// Why the lock was not taken.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Somebody has it.
    #[error("{path} is held by {holder}", path = path.display())]
    Held {
        /// The lock file.
        path: PathBuf,
        /// Who.
        holder: Holder,
    },
    /// The disk says no.
    #[error("the lock file {path} cannot be used", path = path.display())]
    Io {
        /// The lock file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// The right to write in a data directory; given up when dropped.
#[derive(Debug)]
pub(crate) struct Lock {
    _file: fs::File,
    /// Who held it before, if they left their name.
    pub(crate) before: Option<Holder>,
}

impl Lock {
    /// Takes the lock at `path`, and writes there who has it.
    pub(crate) fn take(path: &Path) -> Result<Self, LockError> {
        let until = Instant::now() + COPY_PATIENCE;
        Self::take_while(path, || {
            thread::sleep(COPY_PAUSE);
            Instant::now() < until
        })
    }

    /// As [`Lock::take`]; asks again as long as its holder is gone and `patient` says so.
    fn take_while(path: &Path, mut patient: impl FnMut() -> bool) -> Result<Self, LockError> {
        let io = |source| LockError::Io { path: path.to_owned(), source };
        let mut file = fs::OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(path)
            .map_err(io)?;
        loop {
            match file.try_lock() {
                Ok(()) => break,
                Err(fs::TryLockError::WouldBlock) => {
                    let holder = read_holder(&mut file).unwrap_or_default();
                    if !holder.is_gone() || !patient() {
                        return Err(LockError::Held { path: path.to_owned(), holder });
                    }
                }
                Err(fs::TryLockError::Error(source)) => return Err(io(source)),
            }
        }
        let before = read_holder(&mut file).ok().filter(|holder| holder.pid.is_some());
        // A full disk must not keep the daemon from starting: the name is a courtesy, the lock holds without it.
        if let Err(error) = write_holder(&mut file) {
            tracing::warn!(%error, path = %path.display(), "cannot write who holds the lock");
        }
        Ok(Self { _file: file, before })
    }
}

fn read_holder(file: &mut fs::File) -> io::Result<Holder> {
    file.seek(SeekFrom::Start(0))?;
    let mut text = String::new();
    file.take(4096).read_to_string(&mut text)?;
    Ok(Holder::parse(&text))
}

fn write_holder(file: &mut fs::File) -> io::Result<()> {
    file.set_len(0)?;
    file.seek(SeekFrom::Start(0))?;
    file.write_all(Holder::this_process().text().as_bytes())
}

/// Who holds the lock at `path` now, if anybody does; takes and changes nothing.
///
/// # Errors
/// The file cannot be read.
pub fn holder(path: &Path) -> Result<Option<Holder>, LockError> {
    let io = |source| LockError::Io { path: path.to_owned(), source };
    let mut file = match fs::File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(io(error)),
    };
    match file.try_lock_shared() {
        Ok(()) => Ok(None),
        Err(fs::TryLockError::WouldBlock) => read_holder(&mut file).map(Some).map_err(io),
        Err(fs::TryLockError::Error(source)) => Err(io(source)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_taker_is_told_who_holds_the_lock() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("lock");
        let lock = Lock::take(&path).unwrap();
        let Err(LockError::Held { holder: found, .. }) = Lock::take(&path) else { panic!("taken twice") };
        assert_eq!(found, Holder::this_process());
        assert_eq!(holder(&path).unwrap(), Some(Holder::this_process()));
        drop(lock);
        assert_eq!(holder(&path).unwrap(), None);
        assert_eq!(Lock::take(&path).unwrap().before, Some(Holder::this_process()));
    }

    #[test]
    fn what_a_dead_holder_s_child_still_has_is_waited_for_and_a_living_holder_is_not() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("lock");
        let mut copy = Some(Lock::take(&path).unwrap());
        let mut asked = 0;
        let mut give_back = || {
            asked += 1;
            copy = None;
            true
        };
        assert!(matches!(Lock::take_while(&path, &mut give_back), Err(LockError::Held { .. })));
        // As if the process that wrote its name there had died: nobody was started so early.
        let dead = Holder { started: Some(0), ..Holder::this_process() };
        fs::write(&path, dead.text()).unwrap();
        let taken = Lock::take_while(&path, &mut give_back).unwrap();
        assert_eq!((taken.before, asked), (Some(dead), 1));
    }
}
