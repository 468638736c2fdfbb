//! Kernels as the machine sees them: processes, descriptors, directories, limits, interpreters.

use std::{fs, os::unix::fs::MetadataExt, path::PathBuf, process::Command, thread};

use agarose_blackbox::{Lab, eventually, is_alive, parent, resident, signal};
use nix::sys::signal::Signal;

/// How many descriptors a process has open.
fn descriptors(pid: i32) -> usize {
    fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count()
}

/// The children of a process that are zombies.
fn zombies_of(pid: i32) -> usize {
    let stats = fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter_map(|entry| fs::read_to_string(entry.path().join("stat")).ok());
    stats
        .filter(|stat| {
            let mut fields = stat.rsplit_once(')').unwrap().1.split_whitespace();
            fields.next() == Some("Z") && fields.next() == Some(&pid.to_string())
        })
        .count()
}

#[test]
fn kernels_started_and_stopped_leave_no_zombie_orphan_descriptor_or_directory() {
    // `AGAROSE_MANY_KERNELS=200` for the whole of it.
    let many = std::env::var("AGAROSE_MANY_KERNELS").ok().and_then(|many| many.parse().ok()).unwrap_or(24);
    let lab = Lab::started();
    let daemon = lab.daemon_pid();
    let wave = |first: usize, last: usize| {
        let sessions: Vec<String> = (first..last).map(|number| format!("s{number}")).collect();
        thread::scope(|scope| {
            for session in &sessions {
                let lab = &lab;
                scope.spawn(move || {
                    assert_eq!(lab.exec(session, "1 + 1")["state"], "completed", "{session}");
                    lab.run(["session", "cleanup", session, "--json"]).ok();
                });
            }
        });
        eventually("the sessions are gone", || {
            lab.run(["sessions", "--json"]).ok().json().as_array().unwrap().is_empty().then_some(())
        });
        eventually("every process is gone", || lab.processes().is_empty().then_some(()));
        eventually("every directory of a kernel is gone", || {
            (fs::read_dir(lab.data().join("kernels")).unwrap().count() == 0).then_some(())
        });
    };
    // What is opened once and kept is open after the first wave.
    wave(0, 4);
    let settled = || {
        eventually("connections that were closed are forgotten", || {
            let first = descriptors(daemon);
            thread::yield_now();
            (descriptors(daemon) == first).then_some(first)
        })
    };
    let before = settled();
    for first in (4..many).step_by(8) {
        wave(first, (first + 8).min(many));
    }
    eventually("no descriptor more than before", || (settled() <= before).then_some(()));
    assert_eq!(zombies_of(daemon), 0);
}

#[test]
fn nothing_in_the_data_directory_is_for_anybody_else() {
    let lab = Lab::started();
    assert_eq!(lab.exec("s", "1")["state"], "completed");
    let mode = |path: PathBuf| fs::metadata(&path).unwrap().mode() & 0o777;
    assert_eq!(mode(lab.data()), 0o700);
    assert_eq!(mode(lab.data().join("agarose.sock")), 0o600);
    let kernel = lab.kernel_directory("g0");
    assert_eq!(mode(kernel.clone()), 0o700);
    assert_eq!(mode(kernel.join("socket")), 0o600);
}

#[test]
fn a_cell_goes_on_and_its_kernel_keeps_its_variables_over_many_daemons() {
    let mut lab = Lab::started();
    let generation = lab.exec("s", "x = 0")["generation"].clone();
    for _ in 0..4 {
        lab.kill_daemon();
        lab.serve(&[]);
        let shown = lab.exec("s", "x += 1; x");
        assert_eq!(shown["generation"], generation);
    }
    assert_eq!(lab.exec("s", "x")["result"]["text/plain"], "4");
    assert_eq!(lab.processes().len(), 2);
}

#[test]
fn an_idle_kernel_costs_little_beside_its_worker() {
    let lab = Lab::started();
    assert_eq!(lab.exec("s", "1")["state"], "completed");
    let supervisor = parent(lab.worker("s"));
    let held = resident(supervisor);
    assert!(held < 16 << 20, "the supervisor holds {held} bytes");
}

#[test]
fn state_pickles_and_source_belong_to_main() {
    let lab = Lab::started();
    let defined = lab.exec(
        "s",
        "import dataclasses, inspect, pickle\n@dataclasses.dataclass\nclass Point:\n    x: int\np = Point(1)\n__name__",
    );
    assert_eq!(defined["result"]["text/plain"], "'__main__'");
    let used = lab.exec("s", "pickle.loads(pickle.dumps(p)) == p, inspect.getsource(Point).count('x: int')");
    assert_eq!(used["result"]["text/plain"], "(True, 1)");
    let failing =
        lab.submit_with("s", "def broken():\n    return 1 / 0\nbroken()", &["--name", "<third cell>"]);
    let shown = lab.wait(&failing);
    let traceback = shown["error"]["traceback"].as_str().unwrap();
    assert!(traceback.contains("<third cell>") && traceback.contains("return 1 / 0"), "{traceback}");
    assert!(!traceback.contains("agarose_worker"), "{traceback}");
    let awaited = lab.exec("s", "import asyncio\nawait asyncio.sleep(0, 'slept')");
    assert_eq!(awaited["result"]["text/plain"], "'slept'");
}

#[test]
fn interrupts_between_cells_are_nobodys_and_floods_of_them_tear_nothing() {
    let lab = Lab::started();
    assert_eq!(lab.exec("s", "x = 1")["state"], "completed");
    let worker = lab.worker("s");
    for _ in 0..50 {
        signal(worker, Signal::SIGINT);
    }
    assert_eq!(lab.exec("s", "x")["result"]["text/plain"], "1");
    for round in 0..10 {
        let ticket = lab.submit("s", "print('y' * 1000)\nsum(range(200_000))");
        let _ = lab.run(["cancel", &ticket]);
        let shown = lab.wait(&ticket);
        let state = shown["state"].as_str().unwrap();
        assert!(["completed", "interrupted", "cancelled"].contains(&state), "round {round}: {shown:#}");
    }
    assert_eq!(lab.exec("s", "x")["result"]["text/plain"], "1");
    assert_eq!(lab.worker("s"), worker);
}

#[test]
fn magics_say_what_to_write_instead() {
    let lab = Lab::started();
    for code in ["%pip install x", "!ls", "%%bash\nls", "%time 1"] {
        let shown = lab.exec("s", code);
        assert_eq!(shown["state"], "failed", "{code}: {shown:#}");
        assert!(shown["error"]["message"].as_str().unwrap().len() > 20, "{code}: {shown:#}");
    }
}

fn pyenv(version: &str) -> Option<PathBuf> {
    let home = std::env::var_os("PYENV_ROOT")
        .map(PathBuf::from)
        .or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".pyenv")))?;
    let found = fs::read_dir(home.join("versions"))
        .ok()?
        .flatten()
        .map(|entry| entry.path())
        .find(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(version)))?;
    Some(found.join("bin/python3"))
}

#[test]
fn the_interpreter_that_was_asked_for_runs_and_is_recorded() {
    for version in ["3.9", "3.10", "3.12", "3.13"] {
        let Some(python) = pyenv(version) else {
            eprintln!("skipped: Python {version} is not installed");
            continue;
        };
        let mut lab = Lab::new();
        lab.serve(&["--python", python.to_str().unwrap()]);
        let shown = lab.exec("s", "import sys; '%d.%d' % sys.version_info[:2]");
        assert_eq!(shown["result"]["text/plain"], format!("'{version}'"), "{shown:#}");
        let kernel = &lab.session("s")["kernels"][0];
        assert!(kernel["version"].as_str().unwrap().starts_with(version), "{kernel:#}");
        let ready = lab.events().into_iter().find(|event| event["kind"] == "KernelReady").unwrap();
        assert!(ready["data"].to_string().contains("packages"), "{ready:#}");
    }
}

#[test]
fn an_environment_in_the_workspace_is_used_and_an_active_one_comes_before_it() {
    let mut lab = Lab::new();
    let make = |path: &std::path::Path| {
        let made = Command::new("python3").args(["-m", "venv", "--without-pip"]).arg(path).output().unwrap();
        assert!(made.status.success(), "{made:?}");
    };
    let workspace = lab.work().join("project");
    fs::create_dir(&workspace).unwrap();
    make(&workspace.join(".venv"));
    lab.serve(&[]);
    let code = "import sys; sys.prefix";
    let arguments = ["--workspace", workspace.to_str().unwrap()];
    let shown = lab.exec_with("s", code, &arguments);
    let expected = workspace.join(".venv").canonicalize().unwrap();
    assert_eq!(shown["result"]["text/plain"], format!("'{}'", expected.display()), "{shown:#}");
    assert!(lab.stop_daemon().success());
    let active = lab.work().join("active");
    make(&active);
    lab.set_env("VIRTUAL_ENV", active.to_str().unwrap());
    lab.serve(&[]);
    let shown = lab.exec_with("t", code, &arguments);
    assert_eq!(shown["result"]["text/plain"], format!("'{}'", active.canonicalize().unwrap().display()));
}

#[test]
fn a_limit_of_open_files_is_met_as_itself() {
    let mut lab = Lab::new();
    lab.serve(&["--open-files", "64"]);
    let shown = lab.exec("s", "import os\nfds = [os.open('/dev/null', 0) for _ in range(100)]");
    assert_eq!(shown["state"], "failed", "{shown:#}");
    assert_eq!(shown["error"]["name"], "OSError");
    assert!(shown["error"]["message"].as_str().unwrap().contains("Too many open files"), "{shown:#}");
    assert_eq!(
        lab.exec("s", "[os.close(fd) for fd in fds] if 'fds' in globals() else 1")["state"],
        "completed"
    );
}

#[test]
fn a_limit_of_processor_time_is_met_as_itself() {
    let mut lab = Lab::new();
    lab.serve(&["--cpu", "1s"]);
    let shown = lab.exec("s", "while True: pass");
    assert_eq!(shown["state"], "failed", "{shown:#}");
    assert_eq!(shown["error"]["kind"], "kernel_died");
    let message = shown["error"]["message"].as_str().unwrap();
    assert!(message.contains("(killed: processor time limit 1 s)"), "{message}");
    let why = lab.run(["log", "why", shown["ticket"].as_str().unwrap()]).ok().stdout;
    assert!(why.contains("a limit of Agarose: processor time limit 1 s"), "{why}");
    assert_eq!(lab.exec("s", "1")["state"], "completed");
}

#[test]
fn a_limit_of_memory_is_met_as_itself() {
    let mut lab = Lab::new();
    lab.serve(&["--memory", "300M"]);
    let shown = lab.exec("s", "kept = 1\nx = bytearray(10**9)");
    assert_eq!(shown["state"], "failed", "{shown:#}");
    let told = shown["error"]["message"].as_str().unwrap();
    // Where no control group can be made, the system refuses the memory and the cell is told.
    if shown["error"]["kind"] == "user" {
        assert_eq!(shown["error"]["name"], "MemoryError", "{shown:#}");
        assert_eq!(lab.exec("s", "kept")["result"]["text/plain"], "1");
        return;
    }
    assert_eq!(shown["error"]["kind"], "kernel_died", "{shown:#}");
    assert!(told.contains("(killed: memory limit 300 MiB). Its variables are gone."), "{told}");
    let why = lab.run(["log", "why", shown["ticket"].as_str().unwrap()]).ok().stdout;
    assert!(why.contains("a limit of Agarose: memory limit 300 MiB"), "{why}");
    assert_eq!(lab.exec("s", "'kept' in globals()")["result"]["text/plain"], "False");
}

#[test]
fn niceness_is_that_which_was_asked_for() {
    let mut lab = Lab::new();
    lab.serve(&["--nice", "7"]);
    assert_eq!(lab.exec("s", "import os; os.nice(0)")["result"]["text/plain"], "7");
}

#[test]
fn what_a_cell_started_and_left_goes_with_its_kernel() {
    let lab = Lab::started();
    let code =
        "import subprocess\nchild = subprocess.Popen(['sleep', '1e6'], start_new_session=True)\nchild.pid";
    let shown = lab.exec("s", code);
    let child: i32 = shown["result"]["text/plain"].as_str().unwrap().parse().unwrap();
    assert!(is_alive(child));
    assert!(shown["notes"].to_string().contains("still run"), "{shown:#}");
    lab.run(["session", "cleanup", "s", "--json"]).ok();
    eventually("the child is gone", || (!is_alive(child)).then_some(()));
}

#[test]
fn a_second_daemon_is_told_who_holds_the_directory_and_harms_nobody() {
    let lab = Lab::started();
    let ticket = lab.submit("s", &lab.gate("go"));
    lab.until_begun(&ticket);
    let second = lab.run(["serve", "--json"]);
    assert_eq!(second.code, 5, "{second:?}");
    assert!(second.stderr.contains(&lab.daemon_pid().to_string()), "{second:?}");
    assert!(second.stderr.contains("hint:"), "{second:?}");
    lab.open_gate("go");
    assert_eq!(lab.wait(&ticket)["state"], "completed");
}
