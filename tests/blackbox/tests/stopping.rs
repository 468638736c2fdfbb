//! Cells that will not stop: the ladder, exact cancellation, whole process groups.

use agarose_blackbox::{Lab, eventually, is_alive};
use serde_json::Value;

const OWNER: &str = "user_repl:tester";
/// Graces short enough for a test and long enough for a busy machine to heed an interrupt.
const SHORT: [&str; 4] = ["--interrupt-grace", "1s", "--kill-grace", "2s"];

fn with_timeout(limit: &'static str) -> Vec<&'static str> {
    let mut arguments = vec!["--timeout", limit];
    arguments.extend(SHORT);
    arguments
}

/// Runs a cell into its timeout and gives what is shown of it.
fn timed_out(lab: &Lab, code: &str) -> Value {
    let shown = lab.exec_with("s", code, &with_timeout("1s"));
    // The session goes on whatever became of the cell.
    assert_eq!(lab.exec("s", "1")["state"], "completed");
    shown
}

#[test]
fn a_busy_loop_past_its_timeout_is_interrupted_and_keeps_its_variables() {
    let lab = Lab::started();
    let shown = lab.exec_with("s", "kept = 7\nwhile True: pass", &with_timeout("1s"));
    assert_eq!(shown["state"], "interrupted", "{shown:#}");
    assert_eq!(shown["error"]["kernel"], "kept");
    assert_eq!(lab.exec("s", "kept")["result"]["text/plain"], "7");
}

#[test]
fn a_sleep_past_its_timeout_is_interrupted() {
    let lab = Lab::started();
    assert_eq!(timed_out(&lab, "import time; time.sleep(1e6)")["state"], "interrupted");
}

#[test]
fn a_loop_in_c_past_its_timeout_costs_the_kernel_and_says_so() {
    let lab = Lab::started();
    let shown = timed_out(&lab, "sum(range(10**12))");
    assert_eq!(shown["state"], "timed_out", "{shown:#}");
    assert_eq!(shown["error"]["kind"], "timeout");
    assert_eq!(shown["error"]["kernel"], "reset");
    assert!(shown["error"]["message"].as_str().unwrap().contains("variables are gone"), "{shown:#}");
}

#[test]
fn a_cell_that_swallows_interrupts_is_killed() {
    let lab = Lab::started();
    // Not `while True: pass`: CPython 3.11 and 3.12 let an interrupt out of a `try` around that.
    let code = "import time\nwhile True:\n    try: time.sleep(1)\n    except KeyboardInterrupt: pass";
    assert_eq!(timed_out(&lab, code)["state"], "timed_out");
}

#[test]
fn a_cell_that_waits_for_a_child_is_interrupted_and_the_child_goes() {
    let lab = Lab::started();
    let shown = timed_out(&lab, "import subprocess; subprocess.run(['sleep', '1e6'])");
    assert_eq!(shown["state"], "interrupted", "{shown:#}");
}

#[test]
fn a_thread_that_does_not_join_does_not_keep_a_cell() {
    let lab = Lab::started();
    let code = "import threading, time\nt = threading.Thread(target=time.sleep, args=(1e6,), daemon=True)\nt.start(); t.join()";
    let shown = timed_out(&lab, code);
    assert!(["interrupted", "timed_out"].contains(&shown["state"].as_str().unwrap()), "{shown:#}");
}

#[test]
fn cancelling_a_sleeping_cell_reaches_it_and_only_it() {
    let lab = Lab::started();
    let ticket = lab.submit("s", "import time; time.sleep(1e6)");
    let next = lab.submit("s", "'next'");
    lab.until_begun(&ticket);
    let outcome = lab.run(["cancel", &ticket, "--owner", "agent:stranger", "--json"]);
    assert_eq!(outcome.code, 5, "{outcome:?}");
    lab.run(["cancel", &ticket, "--owner", OWNER, "--reason", "enough", "--json"]).ok();
    let shown = lab.wait(&ticket);
    assert_eq!(shown["state"], "interrupted", "{shown:#}");
    assert_eq!(shown["cancel"]["reason"], "enough");
    assert_eq!(lab.wait(&next)["state"], "completed");
}

#[test]
fn nothing_of_a_hostile_cell_lives_after_the_ladder() {
    let lab = Lab::started();
    let code = r#"
import os, signal, subprocess, sys, time
me = sys.executable
subprocess.Popen(["setsid", "sleep", "1000001"])
deaf = subprocess.Popen([me, "-c", "import signal,time; signal.signal(signal.SIGTERM, signal.SIG_IGN); signal.signal(signal.SIGINT, signal.SIG_IGN); print('deaf', flush=True); time.sleep(1000002)"], stdout=subprocess.PIPE)
deaf.stdout.readline()
stopped = subprocess.Popen(["sleep", "1000003"]); os.kill(stopped.pid, signal.SIGSTOP)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.execvp("sleep", ["sleep", "1000004"])
    os._exit(0)
print("started", flush=True)
sum(range(10**13))
"#;
    let ticket = lab.submit_with("s", code, &SHORT);
    lab.until_printed(&ticket, "started");
    let before = lab.processes();
    lab.run(["cancel", &ticket, "--owner", OWNER, "--json"]).ok();
    let shown = lab.wait(&ticket);
    assert_eq!(shown["state"], "cancelled", "{shown:#}");
    assert_eq!(shown["error"]["kernel"], "reset");
    let kernels: Vec<i32> = lab.run(["status", "--json"]).ok().json()["kernels"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|kernel| kernel["pid"].as_i64())
        .map(|pid| i32::try_from(pid).unwrap())
        .collect();
    eventually("all of the old kernel is gone", || {
        let left = lab.processes().into_iter().filter(|pid| before.contains(pid) && !kernels.contains(pid));
        left.filter(|pid| is_alive(*pid)).next().is_none().then_some(())
    });
    let message = shown["error"]["message"].as_str().unwrap();
    assert!(message.contains("had to be killed"), "{message}");
}

#[test]
fn os_system_under_an_interrupt_is_cancelled_though_it_returns() {
    let lab = Lab::started();
    let ticket = lab.submit("s", "import os\nos.system('sleep 1000')");
    lab.until_begun(&ticket);
    eventually("the child runs", || (lab.processes().len() >= 4).then_some(()));
    lab.run(["cancel", &ticket, "--owner", OWNER, "--json"]).ok();
    let shown = lab.wait(&ticket);
    assert_eq!(shown["state"], "cancelled", "{shown:#}");
    assert_eq!(shown["error"]["kernel"], "kept");
}
