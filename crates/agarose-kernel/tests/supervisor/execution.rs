//! A cell from its request to its release.

use agarose_kernel::wire::{
    Channel,
    supervisor::{ExecuteRefusal, FromSupervisor, ToSupervisor},
    worker::CellStatus,
};

use crate::{
    lab::{Daemon, Kernel, id},
    tests,
};

tests! {
    a_cell_s_result_and_its_output_come_back,
    what_a_cell_defines_stays_for_the_next,
    the_same_execution_twice_runs_once,
    a_second_execution_is_refused_while_the_first_runs,
    an_execution_before_the_worker_is_ready_is_refused,
    a_released_execution_is_known_as_that,
    a_frame_about_another_execution_is_not_believed,
    a_request_of_another_generation_ends_the_connection,
    a_long_source_arrives_whole,
    children_that_a_cell_leaves_are_counted_and_live,
    a_host_call_goes_to_the_daemon_and_its_answer_to_the_worker,
    a_host_call_without_a_daemon_waits_for_one,
}

fn refused(daemon: &mut Daemon) -> ExecuteRefusal {
    daemon.wait(|message, _| match message {
        FromSupervisor::Refused { refusal, .. } => Some(*refusal),
        _ => None,
    })
}

fn a_cell_s_result_and_its_output_come_back() {
    let kernel = Kernel::real();
    let mut daemon = kernel.attach_ready();
    daemon.execute(id(1), "import sys\nprint('out')\nprint('err', file=sys.stderr)\n1 + 1");
    daemon.started(id(1));
    let end = daemon.ended(id(1));
    assert_eq!(end.result.status, CellStatus::Ok);
    assert_eq!(end.text(Channel::Stdout), "out\n");
    assert_eq!(end.text(Channel::Stderr), "err\n");
    assert!(end.text(Channel::Display).contains("\"kind\":\"result\""));
    assert_eq!((end.output.stdout.seen, end.output.stdout.retained), (4, 4));
}

fn what_a_cell_defines_stays_for_the_next() {
    let kernel = Kernel::real();
    let mut daemon = kernel.attach_ready();
    daemon.run(id(1), "x = 41");
    daemon.release(id(1));
    assert_eq!(daemon.run(id(2), "print(x + 1)").text(Channel::Stdout), "42\n");
    let failed = daemon.run(id(3), "x / 0").result;
    assert_eq!(
        (failed.status, failed.error.unwrap().name),
        (CellStatus::Error, "ZeroDivisionError".to_owned())
    );
}

fn the_same_execution_twice_runs_once() {
    let kernel = Kernel::real();
    let mut daemon = kernel.attach_ready();
    let source = "n = globals().get('n', 0) + 1; print(n)";
    daemon.execute(id(1), source);
    daemon.execute(id(1), source);
    assert_eq!(daemon.ended(id(1)).text(Channel::Stdout), "1\n");
    assert_eq!(daemon.run(id(1), source).text(Channel::Stdout), "1\n");
    assert_eq!(daemon.run(id(2), source).text(Channel::Stdout), "2\n");
}

fn a_second_execution_is_refused_while_the_first_runs() {
    let kernel = Kernel::stub();
    let mut daemon = kernel.attach_ready();
    daemon.execute(id(1), "send({'t': 'started', 'id': id}); import time; time.sleep(0.3)");
    daemon.started(id(1));
    daemon.execute(id(2), "pass");
    assert_eq!(refused(&mut daemon), ExecuteRefusal::Busy);
    daemon.ended(id(1));
    daemon.run(id(2), "pass");
}

fn an_execution_before_the_worker_is_ready_is_refused() {
    let mut argv = crate::lab::stub();
    argv[2] = argv[2].replace("\nreceive()\n", "\nreceive(); import time; time.sleep(0.5)\n");
    let kernel = Kernel::with(argv, |_| {});
    let mut daemon = kernel.attach();
    daemon.execute(id(1), "pass");
    assert_eq!(refused(&mut daemon), ExecuteRefusal::NotReady);
    daemon.ready();
    daemon.run(id(1), "pass");
}

fn a_released_execution_is_known_as_that() {
    let kernel = Kernel::stub();
    let mut daemon = kernel.attach_ready();
    daemon.run(id(1), "print(1)");
    daemon.release(id(1));
    daemon.execute(id(1), "print(1)");
    assert_eq!(refused(&mut daemon), ExecuteRefusal::Released);
    assert!(!daemon.read(Some(id(1)), 0, 100).held);
}

fn a_frame_about_another_execution_is_not_believed() {
    let kernel = Kernel::stub();
    let mut daemon = kernel.attach_ready();
    let other = id(9);
    let source = format!(
        "send({{'t': 'started', 'id': '{other}'}}); send({{'t': 'result', 'id': '{other}', 'status': 'ok'}})\n\
         send({{'t': 'display', 'id': '{other}', 'kind': 'display', 'parts': []}}); print('mine')"
    );
    let end = daemon.run(id(1), &source);
    assert_eq!((end.result.id, end.output.display.seen), (id(1), 0));
    daemon.run(id(2), "pass");
}

fn a_request_of_another_generation_ends_the_connection() {
    let kernel = Kernel::stub();
    let mut daemon = kernel.attach_ready();
    let generation = agarose_core::Generation(999_999);
    daemon.send(&ToSupervisor::Stop { generation, id: None, term_grace_ms: 0, kill_grace_ms: 0 }, &[]);
    let Some((FromSupervisor::ProtocolError { reason }, _)) = daemon.next() else { panic!("it was taken") };
    assert!(reason.ends_with("not g999999"), "{reason}");
    assert!(daemon.next().is_none());
    crate::lab::wait_for("it is taken again", || kernel.try_attach(&kernel.spec).is_ok());
    kernel.attach_ready().run(id(1), "pass");
}

fn a_long_source_arrives_whole() {
    let kernel = Kernel::stub();
    let mut daemon = kernel.attach_ready();
    let source = format!("print(len('{}'))", "x".repeat(20_000_000));
    assert_eq!(daemon.run(id(1), &source).text(Channel::Stdout), "20000000\n");
}

fn children_that_a_cell_leaves_are_counted_and_live() {
    let kernel = Kernel::real();
    let mut daemon = kernel.attach_ready();
    let end = daemon.run(id(1), "import subprocess; p = subprocess.Popen(['sleep', '1000'])");
    assert_eq!(end.children_left, 1);
    assert_eq!(daemon.run(id(2), "print(p.poll())").text(Channel::Stdout), "None\n");
    assert_eq!(daemon.run(id(3), "p.kill(); p.wait()").children_left, 0);
}

/// A cell that calls the host and prints the answer.
const CALL: &str = "send({'t': 'started', 'id': id})\n\
                    send({'t': 'host_call', 'id': id, 'call': 7, 'method': 'files.read'}, b'{\"path\":\"a\"}')\n\
                    print(receive())";

fn host_call(daemon: &mut Daemon) -> Vec<u8> {
    daemon.wait(|message, body| match message {
        FromSupervisor::HostCall { call: 7, method, .. } if method == "files.read" => Some(body.to_vec()),
        _ => None,
    })
}

fn a_host_call_goes_to_the_daemon_and_its_answer_to_the_worker() {
    let kernel = Kernel::stub();
    let mut daemon = kernel.attach_ready();
    daemon.execute(id(1), CALL);
    assert_eq!(host_call(&mut daemon), b"{\"path\":\"a\"}");
    let generation = kernel.spec.generation;
    daemon.send(&ToSupervisor::HostReply { generation, call: 7, ok: true }, b"\"content\"");
    let text = daemon.ended(id(1)).text(Channel::Stdout);
    assert!(text.contains("'ok': True") && text.contains("content"), "{text}");
}

fn a_host_call_without_a_daemon_waits_for_one() {
    let kernel = Kernel::stub();
    let mut first = kernel.attach_ready();
    first.execute(id(1), &CALL.replace("\nsend", "\nimport time; time.sleep(0.3)\nsend"));
    first.started(id(1));
    drop(first);
    let mut second = kernel.attach();
    assert_eq!(host_call(&mut second), b"{\"path\":\"a\"}");
    drop(second);
    // The next one is told that somebody else has its arguments.
    let mut third = kernel.attach();
    assert_eq!(third.attached.host_calls.len(), 1);
    let generation = kernel.spec.generation;
    third
        .send(&ToSupervisor::HostReply { generation, call: 7, ok: false }, b"{\"kind\":\"outcome_unknown\"}");
    let text = third.ended(id(1)).text(Channel::Stdout);
    assert!(text.contains("'ok': False") && text.contains("outcome_unknown"), "{text}");
}
