//! What cells start: whole groups are stopped, whatever is in them, and what had to be killed is named.

use std::{
    io::{BufRead, BufReader},
    process::{Command, Stdio},
};

use agarose_blackbox::{Lab, agarose, eventually, is_alive, parent, signal};
use nix::sys::signal::Signal;
use serde_json::Value;

const OWNER: &str = "user_repl:tester";
/// Time enough to heed an interrupt and to leave on TERM, on a busy machine.
const GRACES: [&str; 4] = ["--interrupt-grace", "500ms", "--kill-grace", "5s"];

/// A Python program that does not leave on TERM or on an interrupt, and says that it is there.
const DEAF: &str = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); signal.signal(signal.SIGINT, signal.SIG_IGN); print('deaf', flush=True); time.sleep(1000002)";

/// The numbers that a cell has printed, one in a line.
fn printed(shown: &Value) -> Vec<i32> {
    let text = shown["stdout"]["text"].as_str().unwrap_or_default();
    text.lines().filter_map(|line| line.parse().ok()).collect()
}

/// Waits until none of these processes is there any more.
fn all_gone(pids: &[i32]) {
    eventually("all of them are gone", || (!pids.iter().any(|pid| is_alive(*pid))).then_some(()));
}

/// Runs a cell that prints the numbers of what it starts and then `up`, cancels it, and gives its end
/// and those numbers. None of them may be there when the last word is.
fn cancelled(lab: &Lab, code: &str, more: &[&str]) -> (Value, Vec<i32>) {
    let ticket = lab.submit_with("s", code, more);
    let pids = printed(&lab.until_printed(&ticket, "up\n"));
    assert!(!pids.is_empty());
    lab.run(["cancel", &ticket, "--owner", OWNER, "--json"]).ok();
    let shown = lab.wait(&ticket);
    assert!(!pids.iter().any(|pid| is_alive(*pid)), "{shown:#}");
    assert_eq!(lab.exec("s", "1 + 1")["result"]["text/plain"], "2");
    (shown, pids)
}

/// What the log says had to be killed, and what had left its group of it.
fn killed(lab: &Lab, ticket: &str) -> Vec<(i64, bool)> {
    let stopped = lab.events_of(ticket, "GroupStopped");
    assert_eq!(stopped.len(), 1, "{stopped:#?}");
    let killed = stopped[0]["data"]["outcome"]["Killed"]["killed"].as_array().unwrap().clone();
    let note = |one: &Value| (one["pid"].as_i64().unwrap(), one["escaped"].as_bool().unwrap());
    killed.iter().map(note).collect()
}

#[test]
fn what_ignores_term_is_killed_and_named_and_what_had_escaped_is_marked() {
    let lab = Lab::started();
    let code = format!(
        r#"
import os, signal, subprocess, sys
def start(*argv, **more):
    child = subprocess.Popen(argv, stdout=subprocess.PIPE, **more)
    if argv[0] == sys.executable: child.stdout.readline()
    print(child.pid, flush=True)
    return child
deaf = start(sys.executable, "-c", {DEAF:?})
loner = start(sys.executable, "-c", {DEAF:?}, start_new_session=True)
start("setsid", "--wait", "sleep", "1000001")
os.kill(start("sleep", "1000003").pid, signal.SIGSTOP)
reading, writing = os.pipe()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.write(writing, str(os.getpid()).encode())
        os.execvp("sleep", ["sleep", "1000004"])
    os._exit(0)
print(os.read(reading, 20).decode(), flush=True)
print("up", flush=True)
sum(range(10**13))
"#
    );
    let (shown, pids) = cancelled(&lab, &code, &GRACES);
    assert_eq!(shown["state"], "cancelled", "{shown:#}");
    assert_eq!(shown["error"]["kernel"], "reset");
    let ticket = shown["ticket"].as_str().unwrap();
    let (deaf, loner) = (i64::from(pids[0]), i64::from(pids[1]));
    let mut expected = vec![(deaf, false), (loner, true)];
    expected.sort_unstable();
    let mut found = killed(&lab, ticket);
    found.sort_unstable();
    assert_eq!(found, expected, "all else leaves on TERM");
    let message = shown["error"]["message"].as_str().unwrap();
    assert!(message.contains(&format!("(pid {deaf})")), "{message}");
    assert!(message.contains(&format!("(pid {loner}, escaped)")), "{message}");
    let why = lab.run(["log", "why", ticket]).ok().stdout;
    let two = why.lines().next().unwrap();
    assert!(two.contains(&format!("process {deaf} ")) && two.contains("had left its group"), "{two}");
    assert!(two.contains("variables of session \"s\" are gone"), "{two}");
}

#[test]
fn a_thousand_children_are_stopped_with_their_cell() {
    let lab = Lab::started();
    let code = "import subprocess\nfor _ in range(1000): print(subprocess.Popen(['sleep', '1e6']).pid)\nprint('up', flush=True)\nsum(range(10**13))";
    let (shown, pids) = cancelled(&lab, code, &["--interrupt-grace", "500ms"]);
    assert_eq!(pids.len(), 1000);
    assert_eq!(shown["state"], "cancelled", "{shown:#}");
    assert_eq!(shown["error"]["kernel"], "reset");
}

#[test]
fn a_leader_that_leaves_takes_its_children_along_also_those_that_ignore_term() {
    let lab = Lab::started();
    let code = format!(
        "import os, subprocess, sys\nprint(subprocess.Popen(['sleep', '1e6']).pid)\n\
         deaf = subprocess.Popen([sys.executable, '-c', {DEAF:?}], stdout=subprocess.PIPE)\n\
         deaf.stdout.readline()\nprint(deaf.pid, flush=True)\nos._exit(0)"
    );
    let shown = lab.exec("s", &code);
    assert_eq!(shown["state"], "failed", "{shown:#}");
    assert_eq!(shown["error"]["kind"], "kernel_died");
    assert!(shown["error"]["message"].as_str().unwrap().contains("exited with code 0"), "{shown:#}");
    let pids = printed(&shown);
    assert_eq!(pids.len(), 2, "{shown:#}");
    all_gone(&pids);
    assert_eq!(lab.exec("s", "1 + 1")["result"]["text/plain"], "2");
}

#[test]
fn a_pool_goes_with_a_worker_that_is_killed() {
    let lab = Lab::started();
    let code = "import multiprocessing, time\npool = multiprocessing.get_context('fork').Pool(4)\n\
                for child in multiprocessing.active_children(): print(child.pid)\n\
                print('up', flush=True)\ntime.sleep(1e6)";
    let ticket = lab.submit("s", code);
    let pids = printed(&lab.until_printed(&ticket, "up\n"));
    assert_eq!(pids.len(), 4);
    signal(lab.worker("s"), Signal::SIGKILL);
    let shown = lab.wait(&ticket);
    assert_eq!(shown["state"], "failed", "{shown:#}");
    assert!(shown["error"]["message"].as_str().unwrap().contains("killed by SIGKILL"), "{shown:#}");
    all_gone(&pids);
}

#[test]
fn a_fork_bomb_is_held_by_its_limit_and_stopped_with_its_cell() {
    let mut lab = Lab::new();
    lab.serve(&["--processes", "60"]);
    // Where nothing holds it, it stays at what eight doublings make of it; once something has, it
    // goes on for ever.
    let code = "import os, time\nheld = False\nfor _ in range(8):\n    try: os.fork()\n    except OSError: held = True; break\n\
                if held: print('held', flush=True)\nwhile held:\n    try: os.fork()\n    except OSError: time.sleep(0.001)\n\
                time.sleep(1e6)";
    let ticket = lab.submit_with("s", code, &GRACES);
    let shown = eventually("the bomb is held or grows", || {
        let shown = lab.show(&ticket);
        let held = shown["stdout"]["text"].as_str().is_some_and(|text| text.contains("held"));
        (held || lab.processes().len() > 200).then_some(shown)
    });
    let is_root = std::os::unix::fs::MetadataExt::uid(&std::fs::metadata("/proc/self").unwrap()) == 0;
    if !shown["stdout"]["text"].as_str().is_some_and(|text| text.contains("held")) {
        assert!(is_root, "a limit of processes did not bind a user who is not root");
        eprintln!("skipped: no control group can be written to, and no resource limit binds root");
    } else {
        // The worker's own threads count too, so there are fewer than sixty; and one supervisor.
        assert!(lab.processes().len() <= 61, "{}", lab.processes().len());
    }
    lab.run(["cancel", &ticket, "--owner", OWNER, "--json"]).ok();
    let shown = lab.wait(&ticket);
    assert_eq!(shown["error"]["kind"], "cancellation", "{shown:#}");
    assert_eq!(lab.exec("s", "1 + 1")["result"]["text/plain"], "2");
    eventually("only the supervisor and one worker are left", || (lab.processes().len() == 2).then_some(()));
}

/// A control group whose processes do not even die while it is frozen (version 1 only), so that
/// something survives KILL for as long as a test wants.
struct Freezer(std::path::PathBuf);

impl Freezer {
    fn make() -> Option<Self> {
        let dir = std::path::PathBuf::from(format!("/sys/fs/cgroup/freezer/agarose-{}", std::process::id()));
        std::fs::create_dir(&dir).ok()?;
        let freezer = Self(dir);
        freezer.0.join("freezer.state").exists().then_some(freezer)
    }

    fn freeze(&self, pid: i32) {
        std::fs::write(self.0.join("cgroup.procs"), pid.to_string()).unwrap();
        std::fs::write(self.0.join("freezer.state"), "FROZEN").unwrap();
        eventually("it is frozen", || {
            std::fs::read_to_string(self.0.join("freezer.state")).unwrap().starts_with("FROZEN").then_some(())
        });
    }

    fn thaw(&self) {
        std::fs::write(self.0.join("freezer.state"), "THAWED").unwrap();
    }
}

impl Drop for Freezer {
    fn drop(&mut self) {
        let _ = std::fs::write(self.0.join("freezer.state"), "THAWED");
        for _ in 0..200 {
            if std::fs::remove_dir(&self.0).is_ok() {
                return;
            }
            std::thread::yield_now();
        }
    }
}

const FROZEN: &str = "import subprocess\nprint(subprocess.Popen(['sleep', '1e6']).pid)\nprint('up', flush=True)\nsum(range(10**13))";

#[test]
fn what_survives_a_kill_is_named_and_the_next_cell_starts_afresh() {
    let Some(freezer) = Freezer::make() else {
        eprintln!("skipped: nothing here can be frozen; see a_process_in_uninterruptible_sleep_…");
        return;
    };
    let lab = Lab::started();
    let more = ["--timeout", "2s", "--interrupt-grace", "300ms", "--kill-grace", "500ms"];
    let ticket = lab.submit_with("s", FROZEN, &more);
    let pid = printed(&lab.until_printed(&ticket, "up\n"))[0];
    freezer.freeze(pid);
    let shown = lab.wait(&ticket);
    assert_eq!(shown["state"], "timed_out", "{shown:#}");
    assert_eq!(shown["error"]["kernel"], "not_reset");
    let message = shown["error"]["message"].as_str().unwrap();
    let named = format!("still there after KILL are sleep (pid {pid}). The work may still be running.");
    assert!(message.contains(&named), "{message}");
    let why = lab.run(["log", "why", &ticket]).ok().stdout;
    let two = why.lines().next().unwrap();
    assert!(two.contains(&format!("process {pid} \"sleep\"")), "{two}");
    assert!(two.contains("It may still run and change files"), "{two}");
    // The session goes on in another generation, and what is left is never taken for it.
    let next = lab.exec("s", "1 + 1");
    assert_eq!(next["result"]["text/plain"], "2");
    assert_ne!(next["generation"], shown["generation"]);
    freezer.thaw();
    all_gone(&[pid]);
}

#[test]
fn a_daemon_killed_while_something_survives_the_kill_ends_its_cell_once() {
    let Some(freezer) = Freezer::make() else {
        eprintln!("skipped: nothing here can be frozen, so nothing survives KILL");
        return;
    };
    let mut lab = Lab::started();
    let more = ["--timeout", "2s", "--interrupt-grace", "300ms", "--kill-grace", "20s"];
    let ticket = lab.submit_with("s", FROZEN, &more);
    let pid = printed(&lab.until_printed(&ticket, "up\n"))[0];
    let worker = lab.worker("s");
    freezer.freeze(pid);
    // The worker leaves on TERM; the rest is past that once it is KILL's turn, which it survives.
    eventually("the worker is gone", || (!is_alive(worker)).then_some(()));
    eventually("the log says that it is killed", || {
        (!lab.events_of(&ticket, "KillRequested").is_empty()).then_some(())
    });
    lab.kill_daemon();
    freezer.thaw();
    all_gone(&[pid]);
    lab.serve(&[]);
    let shown = lab.wait(&ticket);
    assert_eq!(shown["state"], "timed_out", "{shown:#}");
    assert_eq!(shown["error"]["kernel"], "reset", "{shown:#}");
    assert_eq!(lab.events_of(&ticket, "TicketEnded").len(), 1);
    assert_eq!(lab.exec("s", "1 + 1")["result"]["text/plain"], "2");
}

#[test]
fn the_first_process_of_a_container_reaps_what_the_others_leave() {
    let lab = Lab::new();
    let spaces: [&[&str]; 2] = [
        &["--pid", "--fork", "--mount-proc"],
        &["--user", "--map-root-user", "--pid", "--fork", "--mount-proc"],
    ];
    let can = |space: &&&[&str]| {
        Command::new("unshare").args(**space).arg("true").status().is_ok_and(|status| status.success())
    };
    let Some(space) = spaces.iter().find(can) else {
        eprintln!("skipped: no process here may become the first of a container");
        return;
    };
    let mut outside = Command::new("unshare")
        .args(*space)
        .arg(agarose())
        .args(["serve", "--json"])
        .env("AGAROSE_DATA_DIR", lab.data())
        .current_dir(lab.work())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(outside.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.contains("ready"), "{line}");
    let children = |of: i32| -> Vec<i32> {
        std::fs::read_to_string(format!("/proc/{of}/task/{of}/children"))
            .unwrap_or_default()
            .split_whitespace()
            .map(|pid| pid.parse().unwrap())
            .collect()
    };
    let first = children(outside.id().cast_signed())[0];
    for session in ["a", "b", "c"] {
        assert_eq!(lab.exec(session, "1 + 1")["result"]["text/plain"], "2");
        lab.run(["session", "cleanup", session, "--json"]).ok();
    }
    // Their supervisors were nobody's but the first process's, and it has to let them go.
    let left = eventually("only the daemon is left", || {
        let left = children(first);
        (left.len() == 1).then_some(left)
    });
    assert_eq!(parent(left[0]), first);
    signal(first, Signal::SIGTERM);
    assert!(outside.wait().unwrap().success(), "it ends as its daemon does");
}
