//! Where things lie: the data directory and the socket in it.

use std::{
    env,
    fs::File,
    io,
    os::{fd::AsRawFd, unix::net::UnixStream},
    path::{Path, PathBuf},
};

use crate::report::{Exit, Problem};

/// The name of the daemon's socket in the data directory.
pub(crate) const SOCKET: &str = "agarose.sock";

/// A socket address holds 107 bytes of path.
const ADDRESS_LIMIT: usize = 107;

/// The data directory: the one that was asked for, else that of the user.
pub(crate) fn data_dir(asked: Option<&Path>) -> Result<PathBuf, Problem> {
    let from = |name: &str| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let dir = match asked.filter(|path| !path.as_os_str().is_empty()) {
        Some(path) => path.to_path_buf(),
        None => match (from("XDG_DATA_HOME").filter(|path| path.is_absolute()), from("HOME")) {
            (Some(data), _) => data.join("agarose"),
            (None, Some(home)) => home.join(".local/share/agarose"),
            (None, None) => {
                return Err(Problem::usage("there is no home directory to keep data in")
                    .hint("say where with --data-dir DIR or AGAROSE_DATA_DIR"));
            }
        },
    };
    std::path::absolute(&dir)
        .map_err(|error| Problem::because(format!("cannot use {} as data directory", dir.display()), &error))
}

/// The user who types, for owners.
pub(crate) fn user() -> String {
    use std::os::unix::fs::MetadataExt;
    let named = ["USER", "LOGNAME"].into_iter().filter_map(|name| env::var(name).ok());
    named.map(|name| name.trim().to_owned()).find(|name| !name.is_empty()).unwrap_or_else(|| {
        let uid = std::fs::metadata("/proc/self").map_or(0, |metadata| metadata.uid());
        if uid == 0 { String::from("root") } else { format!("uid{uid}") }
    })
}

/// A path by which a socket in `dir` can be named, however long `dir` is, and what has to stay open
/// for as long as it is used.
pub(crate) fn socket_address(dir: &Path, name: &str) -> io::Result<(PathBuf, Option<File>)> {
    let path = dir.join(name);
    if path.as_os_str().len() <= ADDRESS_LIMIT {
        return Ok((path, None));
    }
    let dir = File::open(dir)?;
    let path = PathBuf::from(format!("/proc/self/fd/{}/{name}", dir.as_raw_fd()));
    Ok((path, Some(dir)))
}

/// Connects to the daemon of a data directory.
pub(crate) fn connect(dir: &Path) -> Result<UnixStream, Problem> {
    let connected = socket_address(dir, SOCKET).and_then(|(path, _open)| UnixStream::connect(path));
    connected.map_err(|error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused | io::ErrorKind::NotADirectory => {
            no_daemon(dir)
        }
        io::ErrorKind::PermissionDenied => {
            Problem::new(Exit::NoDaemon, "no_daemon", format!("the daemon of {} is not yours", dir.display()))
                .caused_by(&error)
                .hint("a daemon serves only the user who started it")
        }
        _ => {
            Problem::new(Exit::NoDaemon, "no_daemon", format!("cannot reach the daemon of {}", dir.display()))
                .caused_by(&error)
        }
    })
}

/// Nobody listens there.
pub(crate) fn no_daemon(dir: &Path) -> Problem {
    let problem =
        Problem::new(Exit::NoDaemon, "no_daemon", format!("no daemon is running for {}", dir.display()));
    problem.hint(format!("start one with `{}`", serve_command(dir)))
}

/// The command that starts a daemon for a data directory.
pub(crate) fn serve_command(dir: &Path) -> String {
    if data_dir(None).is_ok_and(|default| default == dir) {
        String::from("agarose serve")
    } else {
        format!("agarose --data-dir {} serve", quoted(&dir.display().to_string()))
    }
}

/// A word for a shell.
pub(crate) fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:@%,=".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_can_be_pasted_quotes_what_a_shell_would_read() {
        assert_eq!(quoted("/data/run-1"), "/data/run-1");
        assert_eq!(quoted("/my data/it's"), r"'/my data/it'\''s'");
    }

    #[test]
    fn a_socket_can_be_reached_however_deep_its_directory_lies() {
        let top = tempfile::tempdir().unwrap();
        let deep = top.path().join("d".repeat(120)).join("e".repeat(120));
        std::fs::create_dir_all(&deep).unwrap();
        let (address, open) = socket_address(&deep, SOCKET).unwrap();
        assert!(open.is_some());
        let listener = std::os::unix::net::UnixListener::bind(&address).unwrap();
        assert!(connect(&deep).is_ok());
        drop(listener);
        assert_eq!(connect(&deep).unwrap_err().exit, Exit::NoDaemon);
    }

    #[test]
    fn without_a_daemon_the_command_that_starts_one_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let problem = connect(dir.path()).unwrap_err();
        assert_eq!(problem.exit, Exit::NoDaemon);
        assert_eq!(
            problem.hint,
            Some(format!("start one with `agarose --data-dir {} serve`", dir.path().display()))
        );
    }
}
