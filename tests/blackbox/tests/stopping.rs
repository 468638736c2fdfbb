//! Cells that will not stop: the ladder, exact cancellation, whole process groups.

use std::{path::PathBuf, process::Command};

use agarose_blackbox::{Lab, eventually, is_alive, parent, signal};
use nix::sys::signal::Signal;
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
    let code = "import subprocess\nchild = subprocess.Popen(['sleep', '1e6'])\nprint(child.pid, flush=True)\nchild.wait()";
    let shown = timed_out(&lab, code);
    assert_eq!(shown["state"], "interrupted", "{shown:#}");
    assert_eq!(shown["error"]["kernel"], "kept");
    let child: i32 = shown["stdout"]["text"].as_str().unwrap().trim().parse().unwrap();
    eventually("the child is gone", || (!is_alive(child)).then_some(()));
    assert!(!shown["notes"].to_string().contains("still run"), "{shown:#}");
}

#[test]
fn a_thread_that_does_not_join_does_not_keep_a_cell() {
    let lab = Lab::started();
    let code = "import threading, time\nt = threading.Thread(target=time.sleep, args=(1e6,), daemon=True)\nt.start(); t.join()";
    let shown = timed_out(&lab, code);
    assert_eq!(shown["state"], "interrupted", "{shown:#}");
    assert_eq!(shown["error"]["kernel"], "kept");
}

#[test]
fn six_threads_in_the_way_do_not_keep_an_interrupt_from_the_cell() {
    let lab = Lab::started();
    let code = "import threading, time\ndef spin():\n    while True: pass\n\
                for _ in range(6): threading.Thread(target=spin, daemon=True).start()\n\
                print('on', flush=True)\ntime.sleep(1e6)";
    let ticket = lab.submit_with("s", code, &["--interrupt-grace", "15s"]);
    lab.until_printed(&ticket, "on");
    lab.run(["cancel", &ticket, "--owner", OWNER, "--json"]).ok();
    let shown = lab.wait(&ticket);
    assert_eq!(shown["state"], "interrupted", "{shown:#}");
    assert_eq!(shown["error"]["kernel"], "kept");
}

#[test]
fn a_regular_expression_that_never_ends_is_stopped() {
    let lab = Lab::started();
    let shown = timed_out(&lab, "import re; re.match(r'(a+)+$', 'a' * 64 + 'b')");
    // Its engine looks for interrupts now and then, so that the kernel is kept.
    assert_eq!(shown["state"], "interrupted", "{shown:#}");
    assert_eq!(shown["error"]["kernel"], "kept");
}

#[test]
fn one_interrupt_ends_all_that_a_cell_awaits_and_later_cells_can_await() {
    let lab = Lab::started();
    let code = "import asyncio, time\nasync def f(): time.sleep(1e6)\nprint('on', flush=True)\n\
                await asyncio.gather(*[asyncio.create_task(f()) for _ in range(10)])";
    let ticket = lab.submit_with("s", code, &["--interrupt-grace", "15s"]);
    lab.until_printed(&ticket, "on");
    lab.run(["cancel", &ticket, "--owner", OWNER, "--json"]).ok();
    let shown = lab.wait(&ticket);
    assert_eq!(shown["state"], "interrupted", "{shown:#}");
    assert_eq!(lab.events_of(&ticket, "InterruptRequested").len(), 1);
    let next = lab.exec("s", "import asyncio\nawait asyncio.sleep(0)\n'awaited'");
    assert_eq!(next["result"]["text/plain"], "'awaited'", "{next:#}");
}

#[test]
fn a_cell_that_ignores_interrupts_goes_down_the_ladder_and_the_next_heeds_them() {
    let lab = Lab::started();
    // `SIG_IGN` goes to programs that it starts too, and a kernel that ends takes none of it along.
    let ignoring = "import signal, time\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\ntime.sleep(1e6)";
    let shown = lab.exec_with("s", ignoring, &with_timeout("1s"));
    assert_eq!(shown["state"], "timed_out", "{shown:#}");
    let sleeping = lab.exec_with("s", "import time; time.sleep(1e6)", &with_timeout("1s"));
    assert_eq!(sleeping["state"], "interrupted", "{sleeping:#}");
    // Neither does one that ends by itself.
    let shown = lab.exec("s", "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)");
    assert_eq!(shown["state"], "completed", "{shown:#}");
    let sleeping = lab.exec_with("s", "import time; time.sleep(1e6)", &with_timeout("1s"));
    assert_eq!(sleeping["state"], "interrupted", "{sleeping:#}");
}

#[test]
fn a_database_that_was_interrupted_in_a_query_answers_the_next() {
    let lab = Lab::started();
    let code = "import sqlite3\nc = sqlite3.connect(':memory:')\nc.execute('create table t (x)')\n\
                c.execute('insert into t values (1)')\nc.commit()\n\
                c.create_function('step', 1, lambda n: n + 1)\nprint('on', flush=True)\n\
                c.execute('with recursive r(n) as (select 1 union all select step(n) from r) select sum(n) from r').fetchall()";
    let ticket = lab.submit_with("s", code, &["--interrupt-grace", "15s"]);
    lab.until_printed(&ticket, "on");
    lab.run(["cancel", &ticket, "--owner", OWNER, "--json"]).ok();
    let shown = lab.wait(&ticket);
    // The library turns the interrupt of its callback into an error of its own, and that is what it is.
    assert_eq!(shown["state"], "failed", "{shown:#}");
    assert_eq!(shown["error"]["name"], "sqlite3.OperationalError");
    assert_eq!(shown["error"]["kernel"], "kept");
    let next = lab.exec("s", "c.execute('select x from t').fetchall()");
    assert_eq!(next["result"]["text/plain"], "[(1,)]", "{next:#}");
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
    crash_on("killing", DEAF, "begun");
}

/// A cell with a child that ignores TERM, whose number it prints.
const DEAF: &str = r#"
import signal, subprocess, sys
deaf = subprocess.Popen([sys.executable, "-c", "import signal,time; signal.signal(signal.SIGTERM, signal.SIG_IGN); signal.signal(signal.SIGINT, signal.SIG_IGN); print('deaf', flush=True); time.sleep(1000002)"], stdout=subprocess.PIPE)
deaf.stdout.readline()
print(deaf.pid)
print('begun', flush=True)
sum(range(10**13))
"#;

#[test]
fn a_daemon_that_is_away_from_term_to_kill_hears_of_it_and_ends_the_cell_once() {
    let mut lab = Lab::started();
    let more = ["--timeout", "2s", "--interrupt-grace", "500ms", "--kill-grace", "2s"];
    let ticket = lab.submit_with("s", DEAF, &more);
    let shown = lab.until_printed(&ticket, "begun");
    let deaf: i32 = shown["stdout"]["text"].as_str().unwrap().lines().next().unwrap().parse().unwrap();
    eventually("its group is told to end", || (doing(&lab, "s") == "killing").then_some(()));
    assert!(is_alive(deaf), "it has its grace");
    lab.kill_daemon();
    eventually("it is killed without a daemon", || (!is_alive(deaf)).then_some(()));
    lab.serve(&[]);
    let shown = lab.wait(&ticket);
    assert_eq!(shown["state"], "timed_out", "{shown:#}");
    assert_eq!(shown["error"]["kernel"], "reset", "{shown:#}");
    let message = shown["error"]["message"].as_str().unwrap();
    assert!(message.contains(&format!("(pid {deaf})")), "{message}");
    assert_eq!(lab.events_of(&ticket, "TicketEnded").len(), 1);
    assert_eq!(lab.events_of(&ticket, "KillRequested").len(), 1);
}

/// Kills the daemon while its interrupt has no verdict, and starts it again.
fn crash_while_interrupting(code: &str) -> (Lab, String) {
    let mut lab = Lab::started();
    let ticket = lab.submit_with("s", code, &["--interrupt-grace", "2s", "--kill-grace", "5s"]);
    lab.until_printed(&ticket, "begun");
    let supervisor = parent(lab.worker("s"));
    signal(supervisor, Signal::SIGSTOP);
    lab.run(["cancel", &ticket, "--owner", OWNER, "--json"]).ok();
    eventually("the interrupt is under way", || (doing(&lab, "s") == "interrupting").then_some(()));
    lab.kill_daemon();
    signal(supervisor, Signal::SIGCONT);
    lab.serve(&[]);
    (lab, ticket)
}

#[test]
fn a_daemon_killed_before_the_verdict_on_its_interrupt_gets_it_and_interrupts_once() {
    let (lab, ticket) = crash_while_interrupting("import time\nprint('begun', flush=True)\ntime.sleep(1e6)");
    let shown = lab.wait(&ticket);
    assert_eq!(shown["state"], "interrupted", "{shown:#}");
    assert_eq!(shown["error"]["kernel"], "kept");
    assert_eq!(lab.events_of(&ticket, "InterruptRequested").len(), 1);
    assert_eq!(lab.events_of(&ticket, "TicketEnded").len(), 1);
    assert_eq!(lab.exec("s", "1 + 1")["result"]["text/plain"], "2");
}

#[test]
fn a_daemon_killed_before_the_verdict_on_an_interrupt_in_vain_goes_up_the_ladder() {
    let (lab, ticket) = crash_while_interrupting(C_LOOP);
    let shown = lab.wait(&ticket);
    assert_eq!(shown["state"], "cancelled", "{shown:#}");
    assert_eq!(shown["error"]["kernel"], "reset");
    for kind in ["InterruptRequested", "KillRequested", "GroupStopped", "TicketEnded"] {
        assert_eq!(lab.events_of(&ticket, kind).len(), 1, "{kind}");
    }
}

/// A Python that takes its time to come up: its workers wait as long as the file `hold` is there.
fn slow_python(lab: &Lab) -> PathBuf {
    let place = lab.work().join("slow");
    let made = Command::new("python3").args(["-m", "venv", "--without-pip"]).arg(&place).output().unwrap();
    assert!(made.status.success(), "{made:?}");
    let packages = Command::new(place.join("bin/python"))
        .args(["-c", "import site; print(site.getsitepackages()[0])"])
        .output()
        .unwrap();
    let packages = PathBuf::from(String::from_utf8(packages.stdout).unwrap().trim());
    let hold = lab.work().join("hold");
    let wait = format!(
        "import os, sys, time\nargv = open('/proc/self/cmdline').read()\n\
         while 'agarose_worker' in argv and os.path.exists({hold:?}): time.sleep(0.01)\n"
    );
    std::fs::write(packages.join("slowly.py"), wait).unwrap();
    std::fs::write(packages.join("slowly.pth"), "import slowly\n").unwrap();
    place.join("bin/python")
}

#[test]
fn a_daemon_killed_while_the_replacement_starts_ends_the_cell_once_with_the_same_word() {
    let mut lab = Lab::new();
    let python = slow_python(&lab);
    lab.serve(&["--python", python.to_str().unwrap()]);
    let more = ["--timeout", "1s", "--interrupt-grace", "500ms", "--kill-grace", "3s"];
    let ticket = lab.submit_with("s", C_LOOP, &more);
    lab.until_printed(&ticket, "begun");
    std::fs::write(lab.work().join("hold"), "").unwrap();
    eventually("a replacement starts", || (doing(&lab, "s") == "restarting").then_some(()));
    lab.kill_daemon();
    std::fs::remove_file(lab.work().join("hold")).unwrap();
    lab.serve(&["--python", python.to_str().unwrap()]);
    let shown = lab.wait(&ticket);
    assert_eq!(shown["state"], "timed_out", "{shown:#}");
    assert_eq!(shown["error"]["kernel"], "reset", "{shown:#}");
    for kind in ["InterruptRequested", "KillRequested", "GroupStopped", "TicketEnded"] {
        assert_eq!(lab.events_of(&ticket, kind).len(), 1, "{kind}");
    }
    let next = lab.exec("s", "1 + 1");
    assert_eq!(next["result"]["text/plain"], "2", "{next:#}");
    assert_eq!(lab.processes().len(), 2, "one supervisor and one worker");
}

#[test]
fn a_cancel_before_the_kernel_is_up_takes_the_ticket_and_not_the_kernel() {
    let mut lab = Lab::new();
    let python = slow_python(&lab);
    std::fs::write(lab.work().join("hold"), "").unwrap();
    lab.serve(&["--python", python.to_str().unwrap()]);
    let ticket = lab.submit("s", "open('ran', 'w')");
    eventually("its kernel is started", || (doing(&lab, "s") == "starting kernel").then_some(()));
    lab.run(["cancel", &ticket, "--owner", OWNER, "--json"]).ok();
    let shown = lab.wait(&ticket);
    assert_eq!((&shown["state"], &shown["executed"]), (&"cancelled".into(), &"no".into()), "{shown:#}");
    std::fs::remove_file(lab.work().join("hold")).unwrap();
    let next = lab.exec("s", "import os; os.path.exists('ran')");
    assert_eq!(next["result"]["text/plain"], "False", "{next:#}");
    assert_eq!(next["generation"], "g0", "the kernel that was coming up serves the next: {next:#}");
    assert!(lab.events().iter().all(|event| event["kind"] != "KernelGone"));
}

#[test]
fn a_result_and_a_timeout_at_the_same_moment_make_one_word_and_the_log_says_which_came_first() {
    let lab = Lab::started();
    assert_eq!(lab.exec("s", "import time")["state"], "completed");
    // From a little before the timeout to a little after it.
    let mut words = std::collections::BTreeSet::new();
    for millis in (180..220).step_by(2) {
        let code = format!("print('whole', flush=True)\ntime.sleep({millis} / 1000)\n'done'");
        let shown = lab.exec_with("s", &code, &["--timeout", "200ms", "--interrupt-grace", "15s"]);
        let ticket = shown["ticket"].as_str().unwrap();
        let word = shown["state"].as_str().unwrap().to_owned();
        assert!(["completed", "interrupted"].contains(&word.as_str()), "{shown:#}");
        assert_eq!(shown["stdout"]["text"], "whole\n", "{shown:#}");
        assert_eq!(lab.events_of(ticket, "TicketEnded").len(), 1, "{shown:#}");
        let result = lab.events_of(ticket, "ResultReceived");
        assert_eq!(result.len(), 1, "{shown:#}");
        let ladder = lab.events_of(ticket, "LadderStarted");
        match word.as_str() {
            "completed" => assert_eq!(shown["result"]["text/plain"], "'done'"),
            _ => assert!(ladder[0]["seq"].as_u64() < result[0]["seq"].as_u64(), "{ladder:?} {result:?}"),
        }
        words.insert(word);
    }
    assert_eq!(lab.exec("s", "1 + 1")["result"]["text/plain"], "2");
    assert!(!words.is_empty());
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
    let stopped = lab.wait(&running);
    assert_eq!(stopped["state"], "interrupted");
    // It came back, and its variables went all the same.
    assert_eq!(stopped["error"]["kernel"], "reset", "{stopped:#}");
    let message = stopped["error"]["message"].as_str().unwrap();
    assert!(
        message.ends_with("its session was closed, so its kernel was stopped and its variables are gone.")
    );
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
    assert_eq!(shown["error"]["kernel"], "reset", "{shown:#}");
    assert!(shown["error"]["message"].as_str().unwrap().contains("variables are gone"), "{shown:#}");
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
