//! A daemon dies and another comes; a supervisor dies and a daemon looks.

use std::{fs, time::Duration};

use agarose_kernel::{
    client::{Found, GoneBecause, look, stop_remains},
    spec::FinalCause,
    wire::{
        Channel,
        supervisor::{FromSupervisor, WorkerState},
        worker::CellStatus,
    },
};
use agarose_process::{StopEnd, is_running, tagged};

use crate::{
    lab::{Kernel, id, wait_for},
    tests,
};

tests! {
    a_cell_prints_on_while_no_daemon_is_there_without_hole_or_repeat,
    a_result_is_held_for_the_next_daemon_until_it_is_released,
    a_verdict_is_not_lost_with_the_daemon,
    nobody_comes_within_the_grace_and_the_group_is_stopped_with_a_record,
    a_grace_of_zero_stops_the_group_as_soon_as_the_daemon_is_gone,
    a_shutdown_leaves_a_record_and_no_process,
    a_supervisor_told_to_terminate_stops_its_group_and_says_so,
    a_killed_supervisor_takes_its_worker_along_and_its_output_is_found,
    what_a_killed_supervisor_s_worker_started_is_found_and_stopped,
    another_boot_is_known_as_that,
    a_directory_that_is_not_there_is_nothing,
}

fn a_cell_prints_on_while_no_daemon_is_there_without_hole_or_repeat() {
    let kernel = Kernel::real();
    let mut daemon = kernel.attach_ready();
    daemon.execute(id(1), "import time\nfor i in range(100): print(i, flush=True); time.sleep(0.01)");
    daemon.started(id(1));
    let (mut from, mut text) = (0, Vec::new());
    let end = loop {
        let chunk = daemon.read(Some(id(1)), from, 7);
        assert_eq!(chunk.dropped, 0);
        text.extend(chunk.body);
        from = chunk.next;
        drop(daemon);
        std::thread::sleep(Duration::from_millis(100));
        daemon = kernel.attach();
        if daemon.attached.state == WorkerState::Idle {
            break daemon.ended(id(1));
        }
        assert_eq!((daemon.attached.executing, daemon.attached.started), (Some(id(1)), true));
    };
    let rest = daemon.read(Some(id(1)), from, 1 << 20);
    text.extend(rest.body);
    let wanted: String = (0..100).map(|number| format!("{number}\n")).collect();
    assert_eq!(String::from_utf8(text).unwrap(), wanted);
    assert_eq!(end.text(Channel::Stdout), wanted);
}

fn a_result_is_held_for_the_next_daemon_until_it_is_released() {
    let kernel = Kernel::real();
    let mut daemon = kernel.attach_ready();
    daemon.run(id(1), "print('held')");
    for _ in 0..2 {
        drop(daemon);
        daemon = kernel.attach();
        assert_eq!(daemon.attached.ended, [id(1)]);
        assert_eq!(daemon.ended(id(1)).text(Channel::Stdout), "held\n");
    }
    daemon.release(id(1));
    daemon.run(id(2), "1");
    drop(daemon);
    assert_eq!(kernel.attach().attached.ended, [id(2)]);
}

fn a_verdict_is_not_lost_with_the_daemon() {
    let kernel = Kernel::real();
    let mut daemon = kernel.attach_ready();
    daemon.execute(id(1), "import time\ntry: time.sleep(1000)\nexcept KeyboardInterrupt: time.sleep(1000)");
    daemon.started(id(1));
    daemon.interrupt(id(1), 1);
    daemon.wait(|message, _| matches!(message, FromSupervisor::Verdict(_)).then_some(()));
    drop(daemon);
    let verdicts = kernel.attach().attached.verdicts;
    assert_eq!(
        verdicts.iter().map(|verdict| (verdict.id, verdict.attempt)).collect::<Vec<_>>(),
        [(id(1), 1)]
    );
}

fn nobody_comes_within_the_grace_and_the_group_is_stopped_with_a_record() {
    let kernel = Kernel::with(crate::lab::real(), |spec| spec.orphan_grace_ms = Some(300));
    let mut daemon = kernel.attach_ready();
    daemon.run(id(1), "print('ended')");
    daemon.execute(id(2), "print('running', flush=True)\nimport time; time.sleep(1000)");
    daemon.follow(id(2));
    daemon.wait(|message, _| matches!(message, FromSupervisor::Progress { stdout: 8, .. }).then_some(()));
    drop(daemon);
    let remains = kernel.remains();
    assert_eq!(remains.because, GoneBecause::Left);
    let record = remains.record.unwrap();
    assert_eq!((record.cause, record.executing, record.started), (FinalCause::Orphaned, Some(id(2)), true));
    assert_eq!((record.held, record.stopped.unwrap().end), (vec![id(1)], StopEnd::ExitedOnTerm));
    let found: Vec<_> =
        remains.executions.iter().map(|one| (one.id, one.result.is_some(), one.bytes.as_slice())).collect();
    assert_eq!(found, [(id(1), true, &b"ended\n"[..]), (id(2), false, &b"running\n"[..])]);
}

fn a_grace_of_zero_stops_the_group_as_soon_as_the_daemon_is_gone() {
    let kernel = Kernel::with(crate::lab::stub(), |spec| spec.orphan_grace_ms = Some(0));
    let daemon = kernel.attach_ready();
    let worker = daemon.attached.worker.unwrap();
    drop(daemon);
    assert_eq!(kernel.remains().record.unwrap().cause, FinalCause::Orphaned);
    assert!(!is_running(worker));
}

fn a_shutdown_leaves_a_record_and_no_process() {
    let kernel = Kernel::real();
    let mut daemon = kernel.attach_ready();
    daemon.run(id(1), "import subprocess; subprocess.Popen(['sleep', '1000'])");
    let Found::Alive { .. } = look(&kernel.dir).unwrap() else { panic!("it is not alive") };
    daemon.shutdown();
    daemon.worker_gone();
    assert!(daemon.next().is_none());
    let remains = kernel.remains();
    assert_eq!(remains.record.unwrap().cause, FinalCause::Shutdown);
    assert!(tagged(&remains.processes.unwrap().mark()).is_empty());
}

fn a_supervisor_told_to_terminate_stops_its_group_and_says_so() {
    let kernel = Kernel::real();
    let worker = kernel.attach_ready().attached.worker.unwrap();
    agarose_process::signal_process(kernel.supervisor, agarose_process::Signal::SIGTERM).unwrap();
    assert_eq!(kernel.remains().record.unwrap().cause, FinalCause::Signalled);
    assert!(!is_running(worker));
}

fn a_killed_supervisor_takes_its_worker_along_and_its_output_is_found() {
    let kernel = Kernel::real();
    let mut daemon = kernel.attach_ready();
    daemon.run(id(1), "print('done'); 1 / 0");
    daemon.execute(id(2), "print('so far', flush=True)\nimport time; time.sleep(1000)");
    daemon.follow(id(2));
    daemon.wait(|message, _| matches!(message, FromSupervisor::Progress { stdout: 7, .. }).then_some(()));
    kernel.kill_supervisor();
    let remains = kernel.remains();
    assert_eq!((remains.because, &remains.record), (GoneBecause::Killed, &None));
    let worker = remains.processes.unwrap().worker.unwrap();
    wait_for("the worker dies too", || !is_running(worker));
    let [first, second] = remains.executions.as_slice() else { panic!("{:?}", remains.executions) };
    assert_eq!((first.id, first.started, first.bytes.as_slice()), (id(1), true, &b"done\n"[..]));
    assert_eq!(first.result.as_ref().unwrap().status, CellStatus::Error);
    assert_eq!((second.id, second.started, &second.result), (id(2), true, &None));
    assert_eq!((second.bytes.as_slice(), second.output.stdout.seen), (&b"so far\n"[..], 7));
}

fn what_a_killed_supervisor_s_worker_started_is_found_and_stopped() {
    let kernel = Kernel::real();
    let mut daemon = kernel.attach_ready();
    daemon.run(
        id(1),
        "import subprocess\nfor s in [False, True]: subprocess.Popen(['sleep', '1000'], start_new_session=s)",
    );
    kernel.kill_supervisor();
    let remains = kernel.remains();
    let worker = remains.processes.as_ref().unwrap().worker.unwrap();
    wait_for("the worker dies too", || !is_running(worker));
    let mark = remains.processes.as_ref().unwrap().mark();
    assert_eq!(tagged(&mark).len(), 2);
    let outcome = stop_remains(&remains, Duration::from_secs(30), Duration::from_secs(30)).unwrap();
    assert_eq!((outcome.end, outcome.escaped_count), (StopEnd::ExitedOnTerm, 1));
    assert!(tagged(&mark).is_empty());
}

fn another_boot_is_known_as_that() {
    let kernel = Kernel::stub();
    kernel.attach_ready().run(id(1), "print('of another boot')");
    kernel.kill_supervisor();
    let path = kernel.dir.join("processes.json");
    let boot = agarose_process::boot_id().unwrap();
    let text = fs::read_to_string(&path).unwrap().replace(&boot, "00000000-0000-0000-0000-000000000000");
    fs::write(&path, text).unwrap();
    let remains = kernel.remains();
    assert_eq!(remains.because, GoneBecause::OtherBoot);
    assert_eq!(remains.executions.len(), 1);
    assert_eq!(stop_remains(&remains, Duration::ZERO, Duration::ZERO), None);
}

fn a_directory_that_is_not_there_is_nothing() {
    let root = tempfile::tempdir().unwrap();
    assert_eq!(look(&root.path().join("missing")).unwrap(), Found::Nothing);
    let Found::Gone(remains) = look(root.path()).unwrap() else { panic!("it lives") };
    assert_eq!(remains.because, GoneBecause::NeverStarted);
}
