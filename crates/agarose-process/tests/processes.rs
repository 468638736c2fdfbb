//! Starting and stopping real processes. Each test runs in a process of its own, since it becomes
//! the parent of everything below it.

#![expect(clippy::unwrap_used, reason = "a test may stop where it stands")]

use std::{
    collections::BTreeMap,
    env, fs,
    io::Read,
    os::fd::OwnedFd,
    process::Command,
    thread,
    time::{Duration, Instant},
};

use agarose_process::{
    Cgroup, Child, Descendants, Exit, ProcessId, ResourceLimits, Signal, SignalError, SpawnPlan, StopEnd,
    StopOutcome, Tagged, become_subreaper, descendants, is_running, pipe, process_state, signal_process,
    spawn, spawn_detached, start_time, stop, tagged,
};

/// Runs `body` in a process of its own, by running this test again in one.
fn alone(test: &str, body: impl FnOnce()) {
    if env::var("AGAROSE_TEST_ALONE").as_deref() == Ok(test) {
        become_subreaper().unwrap();
        body();
        return;
    }
    while env::var("AGAROSE_TEST_ALONE").as_deref() == Ok("bomb") {
        // The bomb of the test below: it goes on when it cannot fork.
        let _ = Command::new(env::current_exe().unwrap()).args([test, "--test-threads=1"]).spawn();
        thread::sleep(Duration::from_millis(1));
    }
    let output = Command::new(env::current_exe().unwrap())
        .args([test, "--exact", "--nocapture", "--test-threads=1"])
        .env("AGAROSE_TEST_ALONE", test)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("1 passed"), "{text}");
}

fn plan(program: &str, arguments: &[&str]) -> (SpawnPlan, fs::File) {
    let (output, input) = pipe().unwrap();
    let path = env::var_os("PATH").unwrap();
    let plan = SpawnPlan {
        program: program.into(),
        arguments: arguments.iter().map(Into::into).collect(),
        environment: BTreeMap::from([("PATH".into(), path), ("MARK".into(), "m".into())]),
        directory: Some("/".into()),
        stdout: input,
        stderr: fs::OpenOptions::new().write(true).open("/dev/null").unwrap().into(),
        keep: vec![],
        limits: ResourceLimits::default(),
        die_with_parent: true,
        no_new_privileges: false,
        control_groups: vec![],
    };
    (plan, fs::File::from(output))
}

fn shell(script: &str) -> (Child, fs::File) {
    let (plan, output) = plan("sh", &["-c", script]);
    (spawn(plan).unwrap(), output)
}

/// Reads up to the line `ready`.
fn wait_ready(output: &mut fs::File) {
    let mut seen = String::new();
    let mut byte = [0];
    while !seen.ends_with("ready\n") {
        assert_eq!(output.read(&mut byte).unwrap(), 1, "the child left before it was ready: {seen}");
        seen.push(char::from(byte[0]));
    }
}

fn wait_for(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !condition() {
        assert!(Instant::now() < deadline, "in vain: {what}");
        thread::sleep(Duration::from_millis(2));
    }
}

fn stop_all(child: &Child, term: u64) -> StopOutcome {
    let mut group = Descendants { leader: child.id(), control_group: None };
    let outcome = stop(&mut group, Duration::from_millis(term), Duration::from_secs(30));
    assert!(child.reap().is_some(), "the leader is still there after the stop");
    let us = i32::try_from(std::process::id()).unwrap();
    assert_eq!(descendants(us), [], "something is left, or not reaped");
    outcome
}

#[test]
fn a_leader_that_leaves_on_term_is_not_killed() {
    alone("a_leader_that_leaves_on_term_is_not_killed", || {
        let (child, mut output) = shell("echo ready; exec sleep 1000");
        wait_ready(&mut output);
        let mut group = Descendants { leader: child.id(), control_group: None };
        let outcome = stop(&mut group, Duration::from_secs(30), Duration::from_secs(30));
        assert_eq!(outcome.end, StopEnd::ExitedOnTerm);
        assert_eq!(child.peek(), Some(Exit::Signal { number: 15, core: false }));
        assert_eq!(child.reap(), Some(Exit::Signal { number: 15, core: false }));
    });
}

#[test]
fn a_child_that_goes_on_after_its_leader_left_is_stopped() {
    alone("a_child_that_goes_on_after_its_leader_left_is_stopped", || {
        let (child, _output) = shell("sleep 1000 & exit 3");
        wait_for("the leader leaves", || child.peek().is_some());
        assert_eq!(child.peek(), Some(Exit::Code(3)));
        assert_eq!(stop_all(&child, 30_000).end, StopEnd::ExitedOnTerm);
    });
}

#[test]
fn a_zombie_leader_alone_has_exited_already() {
    alone("a_zombie_leader_alone_has_exited_already", || {
        let (child, _output) = shell("exit 0");
        wait_for("the leader leaves", || child.peek().is_some());
        assert_eq!(process_state(child.id().pid).unwrap().state, 'Z');
        assert_eq!(stop_all(&child, 30_000).end, StopEnd::AlreadyExited);
    });
}

#[test]
fn a_child_that_ignores_term_is_killed_and_named() {
    alone("a_child_that_ignores_term_is_killed_and_named", || {
        let (child, mut output) = shell("trap '' TERM; echo ready; while :; do sleep 1; done");
        wait_ready(&mut output);
        let outcome = stop_all(&child, 50);
        assert_eq!(outcome.end, StopEnd::Killed);
        assert!(outcome.killed.iter().any(|process| process.id == child.id()), "{outcome:?}");
    });
}

#[test]
fn what_left_the_group_by_a_double_fork_and_setsid_is_found_stopped_and_counted() {
    alone("what_left_the_group_by_a_double_fork_and_setsid_is_found_stopped_and_counted", || {
        let (child, mut output) =
            shell("(setsid sh -c 'trap \"\" TERM; echo ready; while :; do sleep 1; done' &); sleep 1000");
        wait_ready(&mut output);
        let outcome = stop_all(&child, 50);
        assert_eq!(outcome.end, StopEnd::Killed);
        assert!(outcome.escaped_count >= 1, "{outcome:?}");
        assert!(outcome.killed.iter().all(|process| process.group != child.id().pid), "{outcome:?}");
    });
}

#[test]
fn a_thousand_children_are_stopped() {
    alone("a_thousand_children_are_stopped", || {
        let (child, mut output) =
            shell("i=0; while [ $i -lt 1000 ]; do sleep 1000 & i=$((i+1)); done; echo ready; wait");
        wait_ready(&mut output);
        let outcome = stop_all(&child, 30_000);
        assert_eq!(outcome.end, StopEnd::ExitedOnTerm);
    });
}

#[test]
fn a_stopped_child_leaves_on_term() {
    alone("a_stopped_child_leaves_on_term", || {
        let (child, _output) = shell("kill -STOP $$; sleep 1000");
        wait_for("the child stops", || process_state(child.id().pid).is_some_and(|p| p.state == 'T'));
        assert_eq!(stop_all(&child, 30_000).end, StopEnd::ExitedOnTerm);
    });
}

#[test]
fn a_fork_bomb_is_held_by_the_limit_of_processes_and_stopped() {
    alone("a_fork_bomb_is_held_by_the_limit_of_processes_and_stopped", || {
        let control = Cgroup::create(&format!("agarose-bomb-{}", std::process::id()), None, Some(60));
        let exe = env::current_exe().unwrap();
        let (mut plan, _output) = plan(exe.to_str().unwrap(), &["a_fork_bomb", "--test-threads=1"]);
        plan.environment.insert("AGAROSE_TEST_ALONE".into(), "bomb".into());
        plan.control_groups = control.entrances().unwrap();
        if !control.limits_processes() {
            if fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0) {
                println!(
                    "skipped: no control group can be written to, and root is not bound by RLIMIT_NPROC"
                );
                return;
            }
            plan.limits.processes = Some(60);
        }
        let child = spawn(plan).unwrap();
        let us = i32::try_from(std::process::id()).unwrap();
        wait_for("the bomb grows", || descendants(us).len() > 25);
        assert!(descendants(us).len() <= 60);
        let mut group = Descendants { leader: child.id(), control_group: Some(&control) };
        let outcome = stop(&mut group, Duration::from_millis(20), Duration::from_secs(30));
        assert!(matches!(outcome.end, StopEnd::Killed | StopEnd::ExitedOnTerm), "{outcome:?}");
        assert!(child.reap().is_some());
        assert_eq!(descendants(us), []);
    });
}

#[test]
fn a_number_that_belongs_to_another_process_now_is_not_signalled() {
    alone("a_number_that_belongs_to_another_process_now_is_not_signalled", || {
        let (child, mut output) = shell("echo ready; exec sleep 1000");
        wait_ready(&mut output);
        let earlier = ProcessId { start_time: child.id().start_time - 1, ..child.id() };
        assert_eq!(signal_process(earlier, Signal::SIGKILL), Err(SignalError::Gone));
        assert!(!is_running(earlier));
        assert!(is_running(child.id()));
        assert_eq!(stop_all(&child, 30_000).end, StopEnd::ExitedOnTerm);
        assert_eq!(signal_process(child.id(), Signal::SIGKILL), Err(SignalError::Gone));
    });
}

#[test]
fn what_a_dead_parent_left_behind_is_found_by_its_mark_and_stopped() {
    alone("what_a_dead_parent_left_behind_is_found_by_its_mark_and_stopped", || {
        let mark = format!("left-by-{}", std::process::id());
        let (mut plan, mut output) =
            plan("sh", &["-c", "(setsid sleep 1000 &); echo ready; exec sleep 1000"]);
        plan.environment.insert("AGAROSE_MARK".into(), mark.clone().into());
        let leader = spawn_detached(plan).unwrap();
        wait_ready(&mut output);
        let mut group = Tagged { variable: format!("AGAROSE_MARK={mark}"), group: leader.pid };
        wait_for("both are there", || tagged(&group.variable).len() == 2);
        let outcome = stop(&mut group, Duration::from_secs(30), Duration::from_secs(30));
        assert_eq!((outcome.end, outcome.escaped_count), (StopEnd::ExitedOnTerm, 1));
        assert!(tagged(&group.variable).is_empty());
    });
}

#[test]
fn a_child_has_exactly_what_it_was_given() {
    alone("a_child_has_exactly_what_it_was_given", || {
        // A descriptor that is not closed on exec, as a careless library leaves them.
        let (careless, _keep) = pipe().unwrap();
        let (from_us, to_child) = pipe().unwrap();
        let inherited: OwnedFd = careless;
        let (mut plan, mut output) = plan(
            "sh",
            &["-c", "cat <&7; echo; readlink /proc/self/fd/0; ls /proc/$$/fd; env -u PWD -u _ -u SHLVL; pwd"],
        );
        plan.keep = vec![(from_us, 7)];
        let child = spawn(plan).unwrap();
        std::io::Write::write_all(&mut fs::File::from(to_child), b"hello").unwrap();
        let mut text = String::new();
        output.read_to_string(&mut text).unwrap();
        let path = env::var("PATH").unwrap();
        let mut lines: Vec<&str> = text.lines().collect();
        lines.sort_unstable();
        let mut wanted = vec!["hello", "/dev/null", "0", "1", "2", "7", "MARK=m", "/"]
            .into_iter()
            .map(str::to_owned)
            .collect::<Vec<_>>();
        wanted.push(format!("PATH={path}"));
        wanted.sort_unstable();
        assert_eq!(lines, wanted);
        drop(inherited);
        wait_for("it leaves", || child.reap().is_some());
    });
}

#[test]
fn a_child_leads_its_own_session_and_its_signals_are_as_new() {
    alone("a_child_leads_its_own_session_and_its_signals_are_as_new", || {
        let _events = agarose_process::SignalEvents::of(&[Signal::SIGTERM, Signal::SIGCHLD]).unwrap();
        let (plan, mut output) = plan("sh", &["-c", "exec cat /proc/self/status"]);
        let child = spawn(plan).unwrap();
        let mut text = String::new();
        output.read_to_string(&mut text).unwrap();
        for line in text.lines().filter(|line| line.starts_with("SigBlk") || line.starts_with("SigIgn")) {
            assert!(line.ends_with("0000000000000000"), "{line}");
        }
        let session = text.lines().find_map(|line| line.strip_prefix("NSsid:")).unwrap().trim();
        assert_eq!(session, child.id().pid.to_string());
        wait_for("it leaves", || child.reap().is_some());
    });
}

#[test]
fn a_child_dies_with_its_parent() {
    alone("a_child_dies_with_its_parent", || {
        // The thread is the parent that counts here.
        let (child, mut output) = thread::spawn(|| {
            let (child, mut output) = shell("echo ready; exec sleep 1000");
            wait_ready(&mut output);
            (child, output)
        })
        .join()
        .unwrap();
        wait_for("it dies", || child.peek().is_some());
        assert_eq!(child.reap(), Some(Exit::Signal { number: 9, core: false }));
        let mut rest = String::new();
        output.read_to_string(&mut rest).unwrap();
    });
}

#[test]
fn limits_hold_and_passing_one_is_seen_as_itself() {
    alone("limits_hold_and_passing_one_is_seen_as_itself", || {
        let (mut spinning, _output) = plan("sh", &["-c", "while :; do :; done"]);
        spinning.limits.cpu_seconds = Some(1);
        spinning.limits.nice = Some(5);
        let child = spawn(spinning).unwrap();
        wait_for("its time is over", || child.peek().is_some());
        assert_eq!(child.reap().map(|exit| exit.to_string()).unwrap(), "killed by SIGXCPU");

        let (mut counting, mut output) =
            plan("sh", &["-c", "ulimit -n; ulimit -d; grep NoNewPrivs /proc/self/status"]);
        counting.no_new_privileges = true;
        counting.limits.open_files = Some(64);
        counting.limits.memory = Some(1 << 30);
        let child = spawn(counting).unwrap();
        let mut text = String::new();
        output.read_to_string(&mut text).unwrap();
        assert_eq!(text, "64\n1048576\nNoNewPrivs:\t1\n");
        wait_for("it leaves", || child.reap().is_some());
    });
}

#[test]
fn a_program_that_is_not_there_is_said_to_be_that() {
    alone("a_program_that_is_not_there_is_said_to_be_that", || {
        let (missing, _output) = plan("/nonexistent/python", &[]);
        let error = spawn(missing).unwrap_err();
        assert_eq!(error.to_string(), "could not start /nonexistent/python");
        let (missing, _output) = plan("/nonexistent/python", &[]);
        assert_eq!(spawn_detached(missing).unwrap_err().to_string(), "could not start /nonexistent/python");
    });
}

#[test]
fn a_detached_process_is_not_our_child() {
    alone("a_detached_process_is_not_our_child", || {
        let (plan, mut output) = plan("sh", &["-c", "echo ready; exec sleep 1000"]);
        let id = spawn_detached(plan).unwrap();
        wait_ready(&mut output);
        assert_eq!(start_time(id.pid), Some(id.start_time));
        // This process is a subreaper, so it is the one that orphans come to.
        assert_eq!(process_state(id.pid).unwrap().group, id.pid);
        signal_process(id, Signal::SIGKILL).unwrap();
        wait_for("it is gone", || !is_running(id));
        agarose_process::reap_orphans(None);
    });
}
