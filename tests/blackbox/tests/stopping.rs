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
        let mut left =
            lab.processes().into_iter().filter(|pid| before.contains(pid) && !kernels.contains(pid));
        (!left.any(is_alive)).then_some(())
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

/// What a ticket's session says that it does now.
fn doing(lab: &Lab, session: &str) -> String {
    let shown = lab.run(["session", "show", session, "--json"]).ok().json();
    shown["active"]["doing"].as_str().unwrap_or_default().to_owned()
}

/// Kills the daemon when a cell that does not heed interrupts stands on a rung, and starts it again:
/// the ladder goes on, and ends once, as it would have without the crash.
fn crash_on(rung: &str, code: &str, printed: &str) {
    let mut lab = Lab::started();
    let more = ["--timeout", "2s", "--interrupt-grace", "3s", "--kill-grace", "3s"];
    let ticket = lab.submit_with("s", code, &more);
    lab.until_printed(&ticket, printed);
    eventually(rung, || (doing(&lab, "s") == rung).then_some(()));
    lab.kill_daemon();
    lab.serve(&[]);
    let shown = lab.wait(&ticket);
    assert_eq!(shown["state"], "timed_out", "{shown:#}");
    assert_eq!(shown["error"]["kernel"], "reset", "{shown:#}");
    assert_eq!(shown["executed"], "yes");
    assert_eq!(lab.exec("s", "1 + 1")["result"]["text/plain"], "2");
    let ends =
        lab.events().into_iter().filter(|event| event["kind"] == "TicketEnded" && event["ticket"] == *ticket);
    assert_eq!(ends.count(), 1);
    lab.run(["log", "verify"]).ok();
}

const C_LOOP: &str = "print('begun', flush=True)\nsum(range(10**13))";

#[test]
fn a_daemon_killed_before_the_timeout_goes_on_with_what_was_left_of_it() {
    crash_on("running", C_LOOP, "begun");
}

#[test]
fn a_daemon_killed_in_the_grace_goes_on_from_there() {
    crash_on("grace", C_LOOP, "begun");
}

#[test]
fn a_daemon_killed_while_the_group_is_stopped_goes_on_from_there() {
    let code = r#"
import signal, subprocess, sys
deaf = subprocess.Popen([sys.executable, "-c", "import signal,time; signal.signal(signal.SIGTERM, signal.SIG_IGN); signal.signal(signal.SIGINT, signal.SIG_IGN); print('deaf', flush=True); time.sleep(1000002)"], stdout=subprocess.PIPE)
deaf.stdout.readline()
print('begun', flush=True)
sum(range(10**13))
"#;
    crash_on("killing", code, "begun");
}

#[test]
fn a_cancel_before_the_kernel_is_up_takes_the_ticket_and_not_the_kernel() {
    let mut lab = Lab::new();
    // A Python that takes its time to come up, so that the cancel comes before it is ready.
    let slow = lab.work().join("slow-python");
    let gate = lab.work().join("gate");
    let real = real_python();
    let script = format!(
        "#!/bin/sh\ncase \"$*\" in *agarose_worker*) while [ ! -e {} ]; do sleep 0.05; done;; esac\nexec {real} \"$@\"\n",
        gate.display()
    );
    std::fs::write(&slow, script).unwrap();
    std::fs::set_permissions(&slow, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    // The interpreter is asked for its own path, which would be the real one.
    let site = lab.work().join("sitecustomize.py");
    std::fs::write(&site, "").unwrap();
    lab.serve(&["--python", slow.to_str().unwrap()]);
    let ticket = lab.submit("s", "open('ran', 'w')");
    lab.run(["cancel", &ticket, "--owner", OWNER, "--json"]).ok();
    std::fs::write(&gate, "").unwrap();
    let shown = lab.wait(&ticket);
    assert!(
        ["cancelled", "interrupted", "completed"].contains(&shown["state"].as_str().unwrap()),
        "{shown:#}"
    );
    assert_eq!(lab.exec("s", "2")["state"], "completed");
}

fn real_python() -> String {
    let output =
        std::process::Command::new("python3").args(["-c", "import sys; print(sys.executable)"]).output();
    String::from_utf8(output.unwrap().stdout).unwrap().trim().to_owned()
}

#[test]
fn a_cell_without_a_sign_of_life_times_out_and_one_that_prints_does_not() {
    let lab = Lab::started();
    let more = ["--idle-timeout", "1500ms", "--interrupt-grace", "1s", "--kill-grace", "2s"];
    let silent = lab.exec_with("a", "import time; time.sleep(1e6)", &more);
    assert_eq!(silent["state"], "interrupted", "{silent:#}");
    assert_eq!(silent["error"]["kind"], "timeout");
    let code = "import time\nfor i in range(20):\n    print(i, flush=True)\n    time.sleep(0.2)";
    let lively = lab.exec_with("b", code, &more);
    assert_eq!(lively["state"], "completed", "{lively:#}");
}

#[test]
fn an_interrupt_that_is_not_heeded_leaves_the_cell_alone_and_a_cancel_after_it_does_not() {
    let lab = Lab::started();
    let code = "import time\nprint('on', flush=True)\nwhile True:\n    try: time.sleep(1)\n    except KeyboardInterrupt: print('caught', flush=True)";
    let ticket = lab.submit_with("s", code, &SHORT);
    lab.until_printed(&ticket, "on");
    lab.run(["interrupt", &ticket, "--owner", OWNER, "--json"]).ok();
    lab.until_printed(&ticket, "caught");
    eventually("the grace of the interrupt is over", || (doing(&lab, "s") == "running").then_some(()));
    assert_eq!(lab.show(&ticket)["state"], "running");
    lab.run(["cancel", &ticket, "--owner", OWNER, "--json"]).ok();
    let shown = lab.wait(&ticket);
    assert_eq!(shown["state"], "cancelled", "{shown:#}");
    assert!(shown["stdout"]["text"].as_str().unwrap().matches("caught").count() >= 2, "{shown:#}");
}

#[test]
fn an_interrupt_of_a_cell_that_has_ended_never_reaches_the_next() {
    let lab = Lab::started();
    let first = lab.submit("s", "1");
    let _ = lab.wait(&first);
    let second = lab.submit("s", "import time; time.sleep(1)\n'whole'");
    lab.until_begun(&second);
    for command in ["interrupt", "cancel", "terminate"] {
        let outcome = lab.run([command, &first, "--owner", OWNER, "--json"]);
        assert_eq!(outcome.code, 5, "{outcome:?}");
    }
    assert_eq!(lab.wait(&second)["result"]["text/plain"], "'whole'");
}

#[test]
fn an_idle_kernel_is_stopped_by_a_ticket_of_its_own() {
    let mut lab = Lab::new();
    lab.serve(&["--kernel-idle", "500ms"]);
    assert_eq!(lab.exec("s", "x = 1")["state"], "completed");
    eventually("the kernel is stopped", || {
        let status = lab.run(["status", "--json"]).ok().json();
        status["kernels"].as_array().unwrap().is_empty().then_some(())
    });
    let owners: Vec<Value> = lab
        .events()
        .into_iter()
        .filter(|event| event["kind"] == "TicketQueued")
        .map(|event| event["data"]["owner"]["kind"].clone())
        .collect();
    assert_eq!(owners, ["user_repl", "lifecycle"]);
    let shown = lab.exec("s", "'x' in globals()");
    assert_eq!(shown["result"]["text/plain"], "False");
    assert!(shown["notes"][0].as_str().unwrap().contains("variables"), "{shown:#}");
}

#[test]
fn closing_a_session_cancels_what_waits_and_stops_what_runs() {
    let lab = Lab::started();
    let running = lab.submit("s", "import time; time.sleep(1e6)");
    let waiting = lab.submit("s", "1");
    lab.until_begun(&running);
    lab.run(["session", "close", "s", "--json"]).ok();
    assert_eq!(lab.wait(&waiting)["state"], "cancelled");
    assert_eq!(lab.wait(&running)["state"], "interrupted");
    let refused = lab.run(["submit", "-s", "s", "-c", "1", "--json"]);
    assert_eq!(refused.code, 5, "{refused:?}");
    lab.run(["session", "cleanup", "s", "--json"]).ok();
    eventually("the name is free", || {
        lab.run(["sessions", "--json"]).ok().json().as_array().unwrap().is_empty().then_some(())
    });
    assert_eq!(lab.exec("s", "3")["result"]["text/plain"], "3");
}

#[test]
fn a_daemon_that_stops_leaves_kernels_running_and_the_next_one_finds_them() {
    let mut lab = Lab::started();
    assert_eq!(lab.exec("s", "x = 5")["state"], "completed");
    let ticket = lab.submit("s", "import time; time.sleep(1)\nx + 1");
    lab.until_begun(&ticket);
    assert!(lab.stop_daemon().success());
    lab.serve(&[]);
    assert_eq!(lab.wait(&ticket)["result"]["text/plain"], "6");
}

#[test]
fn a_daemon_that_stops_kernels_too_leaves_nothing_behind() {
    let mut lab = Lab::new();
    lab.serve(&["--stop-kernels"]);
    assert_eq!(lab.exec("s", "x = 5")["state"], "completed");
    let ticket = lab.submit("s", "import time; time.sleep(1e6)");
    lab.until_begun(&ticket);
    assert!(lab.stop_daemon().success());
    eventually("nothing is left", || lab.processes().is_empty().then_some(()));
    lab.serve(&[]);
    let shown = lab.wait(&ticket);
    assert!(["interrupted", "cancelled"].contains(&shown["state"].as_str().unwrap()), "{shown:#}");
}

#[test]
fn kernels_that_no_daemon_claims_stop_themselves_after_their_grace() {
    let mut lab = Lab::new();
    lab.serve(&["--orphan-grace", "1s"]);
    let ticket = lab.submit("s", "import time; time.sleep(1e6)");
    lab.until_begun(&ticket);
    lab.kill_daemon();
    eventually("nothing is left", || lab.processes().is_empty().then_some(()));
    lab.serve(&[]);
    let shown = lab.wait(&ticket);
    assert_eq!(shown["state"], "lost", "{shown:#}");
    assert_eq!(shown["executed"], "yes");
}

#[test]
fn cancelling_says_what_it_found_in_every_state() {
    let lab = Lab::started();
    let running = lab.submit("s", "import time; time.sleep(1e6)");
    let waiting = lab.submit("s", "1");
    let behind = lab.submit("s", "'behind'");
    lab.until_begun(&running);
    lab.run(["cancel", &waiting, "--owner", OWNER, "--json"]).ok();
    assert_eq!(lab.wait(&waiting)["state"], "cancelled");
    assert_eq!(lab.show(&waiting)["executed"], "no");
    lab.run(["cancel", &running, "--owner", OWNER, "--json"]).ok();
    assert_eq!(lab.wait(&running)["state"], "interrupted");
    assert_eq!(lab.wait(&behind)["state"], "completed");
    assert_eq!(lab.run(["cancel", &behind, "--owner", OWNER]).code, 5);
    assert_eq!(lab.run(["cancel", "00000000000000000000000000", "--owner", OWNER]).code, 4);
}
