//! `agarose doctor`: what works on this machine, and how to mend what does not.

use std::{
    fs,
    io::Write,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use agarose_core::Language;
use agarose_kernel::launch::{InterpreterError, find_interpreter};
use serde::Serialize;

use super::{DoctorArgs, Global, sessions::table};
use crate::{
    client::Client,
    places,
    report::{Exit, Problem, say},
};

/// How long a program may take to say its version.
const PATIENCE: Duration = Duration::from_secs(10);

/// One check, as `--json` prints it.
#[derive(Debug, Serialize)]
struct Check {
    name: &'static str,
    /// `ok`, `note` (something is missing that not everybody needs) or `bad`.
    state: State,
    found: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    fix: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum State {
    Ok,
    Note,
    Bad,
}

#[derive(Serialize)]
struct Report {
    version: u32,
    agarose: &'static str,
    data_dir: String,
    checks: Vec<Check>,
}

pub(super) fn doctor(global: &Global, args: &DoctorArgs) -> Result<Exit, Problem> {
    let dir = global.data_dir()?;
    let here = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/"));
    let python = args.python.as_deref();
    let checks = vec![
        check_python(python, &here),
        check_packages(python, &here),
        check_r(args.rscript.as_deref(), &here),
        check_strace(),
        check_cgroup(),
        check_directory(&dir),
        check_format(&dir),
        check_sync(&dir),
        check_daemon(&dir),
    ];
    let bad = checks.iter().any(|check| check.state == State::Bad);
    if global.json {
        let report = Report {
            version: 1,
            agarose: env!("CARGO_PKG_VERSION"),
            data_dir: dir.display().to_string(),
            checks,
        };
        say(&serde_json::to_string(&report).map_err(|error| Problem::because("cannot write JSON", &error))?);
    } else {
        tell(&checks);
    }
    Ok(if bad { Exit::Error } else { Exit::Done })
}

fn tell(checks: &[Check]) {
    let colour = crate::report::colour(&std::io::stdout());
    let rows: Vec<[String; 3]> = checks
        .iter()
        .map(|check| {
            let state = match check.state {
                State::Ok => "ok",
                State::Note => "note",
                State::Bad => "BAD",
            };
            [state.to_owned(), check.name.to_owned(), check.found.clone()]
        })
        .collect();
    for (line, check) in table(&rows).iter().zip(checks) {
        let paint = match check.state {
            State::Ok => "\x1b[32m",
            State::Note => "\x1b[33m",
            State::Bad => "\x1b[1;31m",
        };
        if colour {
            let (state, rest) = line.split_at(line.find(' ').unwrap_or(line.len()));
            say(&format!("{paint}{state}\x1b[0m{rest}"));
        } else {
            say(line);
        }
        if let Some(fix) = &check.fix {
            say(&format!("      {fix}"));
        }
    }
}

fn ok(name: &'static str, found: impl Into<String>) -> Check {
    Check { name, state: State::Ok, found: found.into(), fix: None }
}

fn note(name: &'static str, found: impl Into<String>, fix: &str) -> Check {
    Check { name, state: State::Note, found: found.into(), fix: Some(fix.to_owned()) }
}

fn bad(name: &'static str, found: impl Into<String>, fix: &str) -> Check {
    Check { name, state: State::Bad, found: found.into(), fix: Some(fix.to_owned()) }
}

fn check_python(asked: Option<&Path>, here: &Path) -> Check {
    let fix = "install Python 3.9 or later (`apt install python3`), or name one with --python PATH";
    let python = match find_interpreter(Language::Python, asked, here) {
        Ok(python) => python,
        Err(error) => return bad("python", error.to_string(), fix),
    };
    let code = "import sys; print('.'.join(map(str, sys.version_info[:3])))";
    let shown = format!("{} ({})", python.program.display(), python.found);
    match answer(&python.program, &["-I", "-c", code]) {
        Ok(version) if is_at_least(&version, 3, 9) => ok("python", format!("{version}, {shown}")),
        Ok(version) => bad("python", format!("{version} is too old, {shown}"), fix),
        Err(why) => bad("python", format!("{shown} does not run: {why}"), fix),
    }
}

/// Whether `3.11.2` is at least 3.9.
fn is_at_least(version: &str, major: u32, minor: u32) -> bool {
    let mut parts = version.split('.').map(|part| part.parse::<u32>().unwrap_or(0));
    (parts.next().unwrap_or(0), parts.next().unwrap_or(0)) >= (major, minor)
}

fn check_packages(asked: Option<&Path>, here: &Path) -> Check {
    let Ok(python) = find_interpreter(Language::Python, asked, here) else {
        return note("packages", "not looked for without Python", "install Python first");
    };
    let code =
        "import importlib.util as u; print(*[n for n in ('pandas', 'matplotlib') if u.find_spec(n) is None])";
    match answer(&python.program, &["-c", code]) {
        Ok(missing) if missing.is_empty() => ok("packages", "pandas and matplotlib"),
        Ok(missing) => note(
            "packages",
            format!("without {}", missing.replace(' ', " and ")),
            "cells run without them; `python3 -m venv .venv && .venv/bin/pip install pandas matplotlib` brings them",
        ),
        Err(why) => note("packages", format!("not known: {why}"), "see the check of python"),
    }
}

fn check_r(asked: Option<&Path>, here: &Path) -> Check {
    let fix = "only needed for R cells: `apt install r-base-core`, or name one with --rscript PATH";
    let r = match find_interpreter(Language::R, asked, here) {
        Ok(r) => r,
        Err(error) if asked.is_some() => return bad("R", error.to_string(), fix),
        Err(error @ InterpreterError::DoesNotRun { .. }) => return note("R", error.to_string(), fix),
        Err(InterpreterError::NotFound { install, .. }) => {
            // One that is there and does not run is said before what to install.
            let broken = install.split_once("; ").map(|(broken, _)| broken.to_owned());
            return note("R", broken.unwrap_or_else(|| "not found".into()), fix);
        }
    };
    // An renv project has a library of its own, which its `.Rprofile` takes up.
    let library = match (here.join("renv/activate.R").exists(), here.join(".Rprofile").exists()) {
        (true, true) => ", with the library of the renv project here",
        (true, false) => ", without the library of the renv project here, which has no .Rprofile",
        (false, _) => "",
    };
    let shown = format!("{} ({}){library}", r.program.display(), r.found);
    match answer(&r.program, &["--version"]) {
        Ok(version) => ok("R", format!("{}, {shown}", version.lines().next().unwrap_or(""))),
        Err(why) => note("R", format!("{shown} does not run: {why}"), fix),
    }
}

fn check_strace() -> Check {
    match answer(Path::new("strace"), &["-V"]) {
        Ok(version) => ok("strace", version.lines().next().unwrap_or("").to_owned()),
        Err(_) => note("strace", "not found", "only needed by the project's own tests: `apt install strace`"),
    }
}

fn check_cgroup() -> Check {
    let fix = "limits and stopping use process groups and rlimits instead; for cgroups run the daemon as a systemd \
               user service with Delegate=yes";
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let mount = mounts.lines().find_map(|line| {
        let mut words = line.split(' ').skip(1);
        let at = words.next()?;
        (words.next()? == "cgroup2").then(|| PathBuf::from(at))
    });
    let Some(mount) = mount else { return note("cgroup v2", "not mounted", fix) };
    let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let own = own.lines().find_map(|line| line.strip_prefix("0::/")).unwrap_or("").to_owned();
    let group = mount.join(own);
    let controllers = fs::read_to_string(group.join("cgroup.controllers")).unwrap_or_default();
    let has = |name: &str| controllers.split_whitespace().any(|controller| controller == name);
    // The only honest test of whether a directory may be made is to make one.
    let probe = group.join(format!("agarose-doctor-{}", std::process::id()));
    let writable = fs::create_dir(&probe).and_then(|()| fs::remove_dir(&probe)).is_ok();
    match (writable, has("memory") && has("pids")) {
        (true, true) => ok("cgroup v2", format!("writable, with memory and pids, at {}", group.display())),
        (true, false) => note(
            "cgroup v2",
            format!("writable at {}, without the memory and pids controllers", group.display()),
            "whole groups can be killed; memory and processes are limited by cgroup v1 or rlimits",
        ),
        (false, _) => note("cgroup v2", format!("not writable at {}", group.display()), fix),
    }
}

/// The nearest directory above that is there.
fn nearest(dir: &Path) -> &Path {
    dir.ancestors().find(|dir| dir.exists()).unwrap_or(Path::new("/"))
}

fn check_directory(dir: &Path) -> Check {
    let fix =
        "choose another with --data-dir DIR or AGAROSE_DATA_DIR, or give yourself the right to write there";
    let there = nearest(dir);
    let Ok(metadata) = fs::metadata(there) else {
        return bad("data directory", format!("{} cannot be looked at", there.display()), fix);
    };
    if !metadata.is_dir() {
        return bad("data directory", format!("{} is not a directory", there.display()), fix);
    }
    if let Err(error) = tempfile::Builder::new().prefix(".agarose-doctor-").tempfile_in(there) {
        return bad("data directory", format!("cannot write in {}: {error}", there.display()), fix);
    }
    if there != dir {
        return ok("data directory", format!("{} will be made", dir.display()));
    }
    if metadata.mode() & 0o077 != 0 {
        return note(
            "data directory",
            format!("{} can be looked into by others", dir.display()),
            "what cells print and where they run is in there: `chmod 700` it",
        );
    }
    ok("data directory", dir.display().to_string())
}

fn check_format(dir: &Path) -> Check {
    use clap::Parser;
    let Ok(super::Cli { command: super::Command::Log(args), .. }) =
        super::Cli::try_parse_from(["agarose", "log", "stats"])
    else {
        return note("log", "cannot be looked at by this build", "run `agarose log verify`");
    };
    let mut text = Vec::new();
    match agarose_log::run(&args, dir, true, &mut text, &mut std::io::sink()) {
        Ok(_) => {
            let stats: serde_json::Value = serde_json::from_slice(&text).unwrap_or_default();
            match stats.get("events").and_then(serde_json::Value::as_u64) {
                Some(events) => ok("log", format!("opens, {events} events")),
                None => ok("log", "opens"),
            }
        }
        Err(error) if error.exit_code() == 4 => ok("log", "none yet"),
        Err(error) => {
            let problem = Problem::because("does not open", &error);
            let hint = error.hint().unwrap_or("`agarose log verify` says more");
            bad("log", problem.sentence(), &format!("nothing is changed by looking; {hint}"))
        }
    }
}

fn check_sync(dir: &Path) -> Check {
    let there = nearest(dir);
    let fix = "put the data directory on a local disk with --data-dir DIR";
    let timed = || -> std::io::Result<Duration> {
        let mut file = tempfile::Builder::new().prefix(".agarose-doctor-").tempfile_in(there)?;
        let mut times = Vec::new();
        for _ in 0..9 {
            file.write_all(&[7; 4096])?;
            let begin = Instant::now();
            file.as_file().sync_data()?;
            times.push(begin.elapsed());
        }
        fs::File::open(there)?.sync_all()?;
        times.sort_unstable();
        Ok(times.get(times.len() / 2).copied().unwrap_or_default())
    };
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let kind = file_system(&mounts, there).unwrap_or_default();
    match timed() {
        Err(error) => bad("disk sync", format!("fails in {}: {error}", there.display()), fix),
        Ok(_) if matches!(kind.as_str(), "tmpfs" | "ramfs") => {
            note("disk sync", format!("{} is {kind}: it is gone after a reboot", there.display()), fix)
        }
        Ok(_) if kind.starts_with("nfs") || kind == "cifs" || kind.starts_with("fuse") => note(
            "disk sync",
            format!("{} is {kind}: locks and syncs may not hold there", there.display()),
            fix,
        ),
        Ok(median) if median > Duration::from_millis(50) => {
            note("disk sync", format!("slow: {} ms each on {kind}", median.as_millis()), fix)
        }
        Ok(median) => ok("disk sync", format!("{} µs each on {kind}", median.as_micros())),
    }
}

/// The kind of file system that a path lies on.
fn file_system(mounts: &str, path: &Path) -> Option<String> {
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
    let candidates = mounts.lines().filter_map(|line| {
        let mut words = line.split(' ').skip(1);
        let (at, kind) = (words.next()?, words.next()?);
        path.starts_with(at).then(|| (at.len(), kind.to_owned()))
    });
    // Of two at the same place the later one hides the earlier.
    candidates.max_by_key(|(length, _)| *length).map(|(_, kind)| kind)
}

fn check_daemon(dir: &Path) -> Check {
    match Client::connect(dir).and_then(|mut client| client.get("/v1/status")) {
        Ok(body) => {
            let status: serde_json::Value = serde_json::from_slice(&body).unwrap_or_default();
            let text =
                |key: &str| status.get(key).map(ToString::to_string).unwrap_or_default().replace('"', "");
            let running = format!("agarose {}, pid {}", text("version"), text("pid"));
            if text("version") == env!("CARGO_PKG_VERSION") {
                ok("daemon", running)
            } else {
                note("daemon", format!("{running}, another version than this program"), "restart the daemon")
            }
        }
        Err(problem) if problem.kind == "no_daemon" => Check {
            name: "daemon",
            state: State::Ok,
            found: "none runs".into(),
            fix: Some(format!("start one with `{}`", places::serve_command(dir))),
        },
        Err(problem) => bad("daemon", problem.sentence(), "stop it and start it again"),
    }
}

/// What a program says on stdout, or why it says nothing.
fn answer(program: &Path, arguments: &[&str]) -> Result<String, String> {
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| error.to_string())?;
    let deadline = Instant::now() + PATIENCE;
    let status = loop {
        match child.try_wait().map_err(|error| error.to_string())? {
            Some(status) => break status,
            None if Instant::now() > deadline => {
                // It is ours and has no right to go on.
                let _ = child.kill().and_then(|()| child.wait().map(drop));
                return Err(format!("no answer within {} s", PATIENCE.as_secs()));
            }
            None => std::thread::sleep(Duration::from_millis(5)),
        }
    };
    let output = child.wait_with_output().map_err(|error| error.to_string())?;
    if status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    } else {
        Err(format!("it ended with {status}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_compare_by_their_numbers() {
        assert!(is_at_least("3.11.2", 3, 9));
        assert!(is_at_least("3.9", 3, 9));
        assert!(!is_at_least("3.8.18", 3, 9));
        assert!(is_at_least("4.0", 3, 9));
        assert!(!is_at_least("", 3, 9));
    }

    #[test]
    fn the_file_system_of_a_path_is_that_of_the_longest_mount_above_it() {
        let mounts = "a / ext4 rw 0 0\nb /nowhere tmpfs rw 0 0\nc /nowhere/deep nfs4 rw 0 0\n";
        assert_eq!(file_system(mounts, Path::new("/nowhere/deep/x")).as_deref(), Some("nfs4"));
        assert_eq!(file_system(mounts, Path::new("/nowhere/other")).as_deref(), Some("tmpfs"));
        assert_eq!(file_system(mounts, Path::new("/elsewhere")).as_deref(), Some("ext4"));
    }

    #[test]
    fn a_program_that_is_not_there_or_fails_gives_no_answer() {
        assert!(answer(Path::new("/nowhere/python"), &[]).is_err());
        assert!(answer(Path::new("false"), &[]).is_err());
        assert_eq!(answer(Path::new("echo"), &["hi"]).as_deref(), Ok("hi"));
    }
}
