//! How workers end, and that nothing is left of them.

use std::fs;

use agarose_kernel::{
    spec::PassedLimit,
    wire::{Channel, supervisor::ExecuteRefusal, supervisor::FromSupervisor},
};
use agarose_process::{Exit, StopEnd, is_running};

use crate::{
    lab::{Daemon, Kernel, id, stub, wait_for},
    tests,
};

tests! {
    a_worker_that_is_killed_is_said_to_be_that_and_its_output_is_kept,
    a_worker_that_exits_by_itself_is_said_to_be_that,
    a_segmentation_fault_is_named,
    what_a_dead_worker_started_is_stopped_and_named,
    a_garbage_frame_ends_the_worker_with_the_reason,
    a_frame_too_long_ends_the_worker_with_the_reason,
    a_worker_that_closes_its_wire_is_ended,
    a_limit_of_memory_is_met_as_itself,
    a_limit_of_processor_time_is_met_as_itself,
    a_worker_that_ignores_the_warning_of_its_time_is_killed_by_its_limit,
    a_signal_within_the_limits_is_not_taken_for_one_of_them,
    a_fork_bomb_is_held_by_its_limit_and_stopped,
    an_idle_supervisor_is_never_woken,
    after_the_end_no_cell_is_taken_and_the_same_is_said_again,
    fifty_kernels_leave_no_process_descriptor_or_file,
}

/// Runs a cell that the worker does not survive.
fn die(daemon: &mut Daemon, source: &str) -> agarose_kernel::wire::supervisor::WorkerGone {
    daemon.execute(id(1), source);
    daemon.worker_gone()
}

fn a_worker_that_is_killed_is_said_to_be_that_and_its_output_is_kept() {
    let kernel = Kernel::real();
    let mut daemon = kernel.attach_ready();
    let gone = die(&mut daemon, "print('last words', flush=True)\nimport os; os.kill(os.getpid(), 9)");
    assert_eq!(gone.exit.to_string(), "killed by SIGKILL");
    assert_eq!((gone.executing, gone.started, gone.oom), (Some(id(1)), true, Some(false)));
    assert_eq!(gone.output.unwrap().stdout.seen, 11);
    assert_eq!(daemon.read_all(Some(id(1))).0[&Channel::Stdout], b"last words\n");
    daemon.release(id(1));
    assert!(!daemon.read(Some(id(1)), 0, 1).held);
}

fn a_worker_that_exits_by_itself_is_said_to_be_that() {
    let kernel = Kernel::real();
    let gone = die(
        &mut kernel.attach_ready(),
        "import os, sys\nprint('why', file=sys.stderr, flush=True)\nos._exit(7)",
    );
    assert_eq!((gone.exit, gone.stderr_tail.as_str(), gone.left), (Exit::Code(7), "why\n", None));
}

fn a_segmentation_fault_is_named() {
    let kernel = Kernel::real();
    let gone = die(&mut kernel.attach_ready(), "import ctypes; ctypes.string_at(0)");
    assert!(gone.exit.to_string().starts_with("killed by SIGSEGV"), "{:?}", gone.exit);
}

fn what_a_dead_worker_started_is_stopped_and_named() {
    let kernel = Kernel::real();
    let mut daemon = kernel.attach_ready();
    let source = "import subprocess, os\n\
                  subprocess.Popen(['sh', '-c', \"trap '' TERM; echo up; while :; do sleep 1; done\"], stdout=subprocess.PIPE).stdout.readline()\n\
                  os.kill(os.getpid(), 9)";
    let left = die(&mut daemon, source).left.unwrap();
    assert_eq!(left.end, StopEnd::Killed);
    assert!(left.killed.iter().any(|process| process.command == "sh"), "{left:?}");
}

fn a_garbage_frame_ends_the_worker_with_the_reason() {
    let kernel = Kernel::stub();
    let gone = die(&mut kernel.attach_ready(), "send({'t': 'dance'}); receive()");
    let reason = gone.reason.unwrap();
    assert!(reason.contains("unknown variant `dance`"), "{reason}");
    assert_eq!((gone.executing, gone.oom), (Some(id(1)), None));
}

fn a_frame_too_long_ends_the_worker_with_the_reason() {
    let kernel = Kernel::stub();
    let gone = die(&mut kernel.attach_ready(), "raw(b'\\xff' * 8); receive()");
    assert_eq!(
        gone.reason.unwrap(),
        "the worker broke the protocol: a frame claims 4294967295 bytes of JSON, and 8388608 are allowed"
    );
}

fn a_worker_that_closes_its_wire_is_ended() {
    let kernel = Kernel::stub();
    let gone = die(&mut kernel.attach_ready(), "os.close(4); import time; time.sleep(1000)");
    assert_eq!(gone.reason.unwrap(), "the worker closed its wire and went on");
}

fn a_limit_of_memory_is_met_as_itself() {
    let kernel = Kernel::with(crate::lab::real(), |spec| spec.limits.memory = Some(300 << 20));
    let mut daemon = kernel.attach_ready();
    let confinement = daemon.attached.confinement.clone();
    daemon.execute(id(1), "x = []\nwhile True: x.append(bytearray(b'x' * 10_000_000))");
    // A control group kills; a resource limit makes the allocation fail.
    let ended = daemon.wait(|message, _| match message {
        FromSupervisor::WorkerGone(gone) => {
            Some(gone.oom == Some(true) && gone.limit == Some(PassedLimit::Memory(300 << 20)))
        }
        FromSupervisor::Ended { result, .. } => {
            Some(result.error.as_ref().is_some_and(|error| error.name == "MemoryError"))
        }
        _ => None,
    });
    assert!(ended, "{confinement:?}");
    assert!(confinement[0].starts_with("memory is limited by"), "{confinement:?}");
}

fn a_limit_of_processor_time_is_met_as_itself() {
    let kernel = Kernel::with(crate::lab::real(), |spec| spec.limits.cpu_seconds = Some(1));
    let gone = die(&mut kernel.attach_ready(), "while True: pass");
    assert_eq!(gone.exit.to_string(), "killed by SIGXCPU");
    assert_eq!(gone.limit, Some(PassedLimit::CpuSeconds(1)));
}

fn a_worker_that_ignores_the_warning_of_its_time_is_killed_by_its_limit() {
    let kernel = Kernel::with(crate::lab::real(), |spec| spec.limits.cpu_seconds = Some(1));
    let source = "import signal\nsignal.signal(signal.SIGXCPU, signal.SIG_IGN)\nsum(range(10**13))";
    let gone = die(&mut kernel.attach_ready(), source);
    assert_eq!(gone.exit.to_string(), "killed by SIGKILL");
    assert_eq!(gone.limit, Some(PassedLimit::CpuSeconds(1)));
}

fn a_signal_within_the_limits_is_not_taken_for_one_of_them() {
    for signal in ["SIGXCPU", "SIGKILL"] {
        let kernel = Kernel::with(crate::lab::real(), |spec| {
            spec.limits.cpu_seconds = Some(1000);
            spec.limits.memory = Some(1 << 30);
        });
        let source = format!("import os, signal\nos.kill(os.getpid(), signal.{signal})");
        let gone = die(&mut kernel.attach_ready(), &source);
        assert_eq!((gone.exit.to_string(), gone.limit), (format!("killed by {signal}"), None));
    }
}

fn a_fork_bomb_is_held_by_its_limit_and_stopped() {
    let kernel = Kernel::with(crate::lab::real(), |spec| spec.limits.processes = Some(60));
    let mut daemon = kernel.attach_ready();
    let root = fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0);
    if root && daemon.attached.confinement[0].contains("RLIMIT") {
        println!("skipped: no control group can be written to, and no resource limit binds root");
        return;
    }
    let source = "import os, time\nos.setsid() if os.fork() == 0 else None\nwhile True:\n    \
                  try: os.fork()\n    except OSError: time.sleep(0.001)";
    daemon.execute(id(1), source);
    daemon.started(id(1));
    let mark = mark(&kernel);
    wait_for("the bomb grows", || agarose_process::tagged(&mark).len() > 40);
    assert!(agarose_process::tagged(&mark).len() <= 60);
    daemon.stop(Some(id(1)), 100);
    let end = daemon.wait(|message, _| match message {
        FromSupervisor::Stopped { outcome, .. } => Some(outcome.end.clone()),
        _ => None,
    });
    assert!(matches!(end, StopEnd::Killed | StopEnd::ExitedOnTerm), "{end:?}");
    assert!(agarose_process::tagged(&mark).is_empty());
}

fn mark(kernel: &Kernel) -> String {
    agarose_kernel::spec::read_processes(&kernel.dir).unwrap().unwrap().mark()
}

fn an_idle_supervisor_is_never_woken() {
    let kernel = Kernel::real();
    let mut daemon = kernel.attach_ready();
    daemon.run(id(1), "1");
    daemon.release(id(1));
    let switches = || {
        let status = fs::read_to_string(format!("/proc/{}/status", kernel.supervisor.pid)).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:")).unwrap();
        line.trim().parse::<u64>().unwrap()
    };
    // An answer shows that it has done all that it was asked to do, and is about to wait.
    daemon.read(None, 0, 1);
    wait_for("it waits", || {
        agarose_process::process_state(kernel.supervisor.pid).is_some_and(|state| state.state == 'S')
    });
    let before = switches();
    std::thread::sleep(std::time::Duration::from_millis(700));
    assert_eq!(switches(), before);
}

fn after_the_end_no_cell_is_taken_and_the_same_is_said_again() {
    let kernel = Kernel::stub();
    let mut daemon = kernel.attach_ready();
    let gone = die(&mut daemon, "os._exit(3)");
    daemon.execute(id(2), "pass");
    let refusal = daemon.wait(|message, _| match message {
        FromSupervisor::Refused { refusal, .. } => Some(*refusal),
        _ => None,
    });
    assert_eq!(refusal, ExecuteRefusal::Gone);
    daemon.execute(id(1), "pass");
    assert_eq!(daemon.worker_gone(), gone);
    drop(daemon);
    assert_eq!(kernel.attach().worker_gone(), gone);
}

fn fifty_kernels_leave_no_process_descriptor_or_file() {
    let descriptors = |pid: u32| fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count();
    for _ in 0..5 {
        let kernels: Vec<Kernel> = (0..10).map(|_| Kernel::with(stub(), |_| {})).collect();
        let mut workers = Vec::new();
        for kernel in &kernels {
            let mut daemon = kernel.attach_ready();
            let open = || descriptors(kernel.supervisor.pid.cast_unsigned());
            daemon.run(id(1), "import subprocess; subprocess.Popen(['sleep', '1000'])");
            daemon.release(id(1));
            let before = open();
            for number in 2..20 {
                daemon.run(id(number), "print(1)");
                daemon.release(id(number));
            }
            assert_eq!(open(), before);
            workers.push((kernel.supervisor, daemon.attached.worker.unwrap()));
            daemon.shutdown();
            daemon.worker_gone();
        }
        for (kernel, (supervisor, worker)) in kernels.iter().zip(workers) {
            wait_for("the supervisor leaves", || !is_running(supervisor));
            assert!(!is_running(worker));
            let mark = kernel.remains().processes.unwrap().mark();
            assert!(agarose_process::tagged(&mark).is_empty());
            // One spool file, however many cells.
            let spools = fs::read_dir(&kernel.dir).unwrap().flatten();
            let spools = spools.filter(|entry| entry.file_name().to_string_lossy().starts_with("spool-"));
            assert_eq!(spools.count(), 1);
        }
        let dirs: Vec<_> = kernels.iter().map(|kernel| kernel.dir.clone()).collect();
        drop(kernels);
        assert!(dirs.iter().all(|dir| !dir.exists()));
    }
    let us = std::process::id().cast_signed();
    let zombies = agarose_process::descendants(us);
    assert!(zombies.iter().all(|process| !process.is_dead()), "{zombies:?}");
}
