//! Interrupts and stops reach whom they name, or nobody.

use agarose_kernel::wire::{
    Channel, ExecutionId,
    supervisor::{FromSupervisor, NobodyReached, Verdict, VerdictWord},
    worker::CellStatus,
};
use agarose_process::{Exit, StopEnd, StopOutcome, is_running};

use crate::{
    lab::{Daemon, Kernel, id, wait_for},
    tests,
};

tests! {
    an_interrupt_reaches_the_cell_it_names,
    an_interrupt_wakes_a_cell_that_waits_for_a_child_and_the_child_too,
    an_interrupt_of_what_does_not_run_reaches_nobody_and_says_why,
    an_interrupt_before_the_cell_has_started_is_owed_to_it,
    the_same_attempt_signals_once_and_repeats_its_verdict,
    a_stop_ends_the_worker_and_says_how,
    a_stop_kills_what_ignores_term_and_names_it,
    a_stop_finds_what_left_the_group,
    a_stop_of_another_execution_is_refused,
    a_stop_of_what_is_stopped_already_says_the_same,
    a_worker_that_ignores_interrupts_is_stopped_with_what_it_had,
}

fn verdict(daemon: &mut Daemon) -> Verdict {
    daemon.wait(|message, _| match message {
        FromSupervisor::Verdict(verdict) => Some(verdict.clone()),
        _ => None,
    })
}

fn delivered(id: ExecutionId, attempt: u32) -> Verdict {
    Verdict { id, attempt, verdict: VerdictWord::Delivered, reason: None }
}

fn nobody(id: ExecutionId, attempt: u32, reason: NobodyReached) -> Verdict {
    Verdict { id, attempt, verdict: VerdictWord::ReachedNobody, reason: Some(reason) }
}

fn stopped(daemon: &mut Daemon) -> StopOutcome {
    daemon.wait(|message, _| match message {
        FromSupervisor::Stopped { outcome, .. } => Some(outcome.clone()),
        _ => None,
    })
}

fn an_interrupt_reaches_the_cell_it_names() {
    let kernel = Kernel::real();
    let mut daemon = kernel.attach_ready();
    daemon.execute(id(1), "import time\nprint('begun')\ntime.sleep(1000)");
    daemon.started(id(1));
    daemon.interrupt(id(1), 1);
    assert_eq!(verdict(&mut daemon), delivered(id(1), 1));
    let result = daemon.ended(id(1)).result;
    assert_eq!((result.status, result.interrupt_seen), (CellStatus::Interrupted, true));
    assert_eq!(daemon.run(id(2), "print('alive')").text(Channel::Stdout), "alive\n");
}

fn an_interrupt_wakes_a_cell_that_waits_for_a_child_and_the_child_too() {
    let kernel = Kernel::real();
    let mut daemon = kernel.attach_ready();
    daemon.execute(
        id(1),
        "import subprocess\np = subprocess.Popen(['sleep', '1000'])\nprint('up', flush=True)\np.wait()",
    );
    daemon.follow(id(1));
    daemon.wait(|message, _| matches!(message, FromSupervisor::Progress { stdout: 3, .. }).then_some(()));
    daemon.interrupt(id(1), 1);
    assert_eq!(daemon.ended(id(1)).result.status, CellStatus::Interrupted);
    // Python loses a child's status when its own interrupt comes in the same moment.
    let status = daemon.run(id(2), "print(p.wait())").text(Channel::Stdout);
    assert!(["-2\n", "0\n"].contains(&status.as_str()), "{status}");
}

fn an_interrupt_of_what_does_not_run_reaches_nobody_and_says_why() {
    let kernel = Kernel::real();
    let mut daemon = kernel.attach_ready();
    daemon.interrupt(id(7), 1);
    assert_eq!(verdict(&mut daemon), nobody(id(7), 1, NobodyReached::NotExecuting));
    daemon.run(id(1), "1");
    daemon.interrupt(id(1), 1);
    assert_eq!(verdict(&mut daemon), nobody(id(1), 1, NobodyReached::AlreadyEnded));
    daemon.release(id(1));
    daemon.interrupt(id(1), 2);
    assert_eq!(verdict(&mut daemon), nobody(id(1), 2, NobodyReached::AlreadyEnded));
    // The next cell is not hit by what was meant for another.
    daemon.execute(id(2), "import time; time.sleep(0.2); print('whole')");
    daemon.started(id(2));
    daemon.interrupt(id(1), 3);
    assert_eq!(daemon.ended(id(2)).text(Channel::Stdout), "whole\n");
    daemon.stop(None, 5000);
    daemon.worker_gone();
    daemon.interrupt(id(3), 1);
    assert_eq!(verdict(&mut daemon), nobody(id(3), 1, NobodyReached::WorkerGone));
}

fn an_interrupt_before_the_cell_has_started_is_owed_to_it() {
    let kernel = Kernel::stub();
    let mut daemon = kernel.attach_ready();
    // It says that it starts only when told to; then the owed signal comes.
    let source = "import time, os\n\
                  while not os.path.exists('go'): time.sleep(0.01)\n\
                  try:\n    send({'t': 'started', 'id': id}); time.sleep(1000)\n\
                  except KeyboardInterrupt: result['status'] = 'interrupted'; result['interrupt_seen'] = True";
    daemon.execute(id(1), source);
    daemon.interrupt(id(1), 1);
    // An answer to something else shows that no verdict has been given yet.
    daemon.send(
        &agarose_kernel::wire::supervisor::ToSupervisor::Read {
            generation: kernel.spec.generation,
            id: None,
            from: 0,
            max: 1,
        },
        &[],
    );
    let (first, _) = daemon.next().unwrap();
    assert!(matches!(first, FromSupervisor::Chunk { .. }), "{first:?}");
    std::fs::write(kernel.workspace().join("go"), "").unwrap();
    assert_eq!(verdict(&mut daemon), delivered(id(1), 1));
    assert_eq!(daemon.ended(id(1)).result.status, CellStatus::Interrupted);
    // One that ends without ever having started is not interrupted.
    daemon.execute(id(2), "time = __import__('time'); time.sleep(0.3)");
    daemon.interrupt(id(2), 1);
    assert_eq!(verdict(&mut daemon), nobody(id(2), 1, NobodyReached::AlreadyEnded));
}

fn the_same_attempt_signals_once_and_repeats_its_verdict() {
    let kernel = Kernel::real();
    let mut daemon = kernel.attach_ready();
    let source = "import time\nfor i in range(3):\n    try:\n        print('try', i, flush=True); time.sleep(1000 if i < 2 else 0.5)\n    \
                  except KeyboardInterrupt: pass";
    daemon.execute(id(1), source);
    let printed = |daemon: &mut Daemon, wanted| {
        wait_for("it prints", || daemon.read(Some(id(1)), 0, 100).end == wanted);
    };
    printed(&mut daemon, 6);
    for _ in 0..3 {
        daemon.interrupt(id(1), 1);
        assert_eq!(verdict(&mut daemon), delivered(id(1), 1));
    }
    printed(&mut daemon, 12);
    daemon.interrupt(id(1), 2);
    assert_eq!(verdict(&mut daemon), delivered(id(1), 2));
    assert_eq!(daemon.ended(id(1)).text(Channel::Stdout), "try 0\ntry 1\ntry 2\n");
}

fn a_stop_ends_the_worker_and_says_how() {
    let kernel = Kernel::real();
    let mut daemon = kernel.attach_ready();
    daemon.execute(id(1), "print('so far', flush=True)\nwhile True: pass");
    daemon.follow(id(1));
    daemon.wait(|message, _| matches!(message, FromSupervisor::Progress { stdout: 7, .. }).then_some(()));
    daemon.stop(Some(id(1)), 30_000);
    assert_eq!(stopped(&mut daemon).end, StopEnd::ExitedOnTerm);
    let gone = daemon.worker_gone();
    assert_eq!(gone.exit, Exit::Signal { number: 15, core: false });
    assert_eq!((gone.executing, gone.started, gone.oom), (Some(id(1)), true, None));
    assert_eq!(gone.output.unwrap().stdout.seen, 7);
    assert_eq!(daemon.read_all(Some(id(1))).0[&Channel::Stdout], b"so far\n");
    assert!(!is_running(daemon.attached.worker.unwrap()));
}

fn a_stop_kills_what_ignores_term_and_names_it() {
    let kernel = Kernel::real();
    let mut daemon = kernel.attach_ready();
    daemon.run(id(1), "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)");
    daemon.stop(None, 50);
    let outcome = stopped(&mut daemon);
    assert_eq!((outcome.end, outcome.killed_count), (StopEnd::Killed, 1));
    assert_eq!(outcome.killed[0].id, daemon.attached.worker.unwrap());
    let gone = daemon.worker_gone();
    assert_eq!((gone.exit.to_string().as_str(), gone.oom), ("killed by SIGKILL", None));
}

fn a_stop_finds_what_left_the_group() {
    let kernel = Kernel::real();
    let mut daemon = kernel.attach_ready();
    let source = "import subprocess\nscript = \"(setsid sh -c 'echo up; exec sleep 1000' &)\"\n\
                  subprocess.Popen(['sh', '-c', script], stdout=subprocess.PIPE).stdout.readline()";
    assert!(daemon.run(id(1), source).children_left >= 1);
    daemon.stop(None, 30_000);
    let outcome = stopped(&mut daemon);
    assert_eq!((outcome.end, outcome.escaped_count), (StopEnd::ExitedOnTerm, 1));
}

fn a_stop_of_another_execution_is_refused() {
    let kernel = Kernel::real();
    let mut daemon = kernel.attach_ready();
    daemon.run(id(1), "1");
    daemon.execute(id(2), "import time; time.sleep(0.2)");
    daemon.started(id(2));
    daemon.stop(Some(id(1)), 0);
    let executing = daemon.wait(|message, _| match message {
        FromSupervisor::StopRefused { executing, .. } => Some(*executing),
        _ => None,
    });
    assert_eq!(executing, Some(id(2)));
    assert_eq!(daemon.ended(id(2)).result.status, CellStatus::Ok);
}

fn a_stop_of_what_is_stopped_already_says_the_same() {
    let kernel = Kernel::real();
    let mut daemon = kernel.attach_ready();
    daemon.stop(None, 30_000);
    daemon.stop(None, 30_000);
    let first = stopped(&mut daemon);
    assert_eq!(stopped(&mut daemon), first);
    daemon.stop(None, 30_000);
    assert_eq!(stopped(&mut daemon), first);
}

fn a_worker_that_ignores_interrupts_is_stopped_with_what_it_had() {
    let kernel = Kernel::real();
    let mut daemon = kernel.attach_ready();
    let source = "import signal, time\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nprint('deaf', flush=True)\n\
                  time.sleep(1000)";
    daemon.execute(id(1), source);
    wait_for("it prints", || daemon.read(Some(id(1)), 0, 100).end == 5);
    daemon.interrupt(id(1), 1);
    assert_eq!(verdict(&mut daemon), delivered(id(1), 1));
    daemon.stop(Some(id(1)), 0);
    assert_eq!(stopped(&mut daemon).end, StopEnd::Killed);
    assert_eq!(daemon.worker_gone().executing, Some(id(1)));
}
