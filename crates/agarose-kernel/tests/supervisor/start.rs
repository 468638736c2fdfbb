//! How a kernel comes up, or does not.

use std::{io::Write, os::unix::fs::PermissionsExt};

use agarose_kernel::{
    client::{AttachError, Found, connect, look},
    wire::supervisor::{FromSupervisor, WorkerState},
};
use agarose_process::is_running;

use crate::{
    lab::{Daemon, Kernel, id, real, shell, stub, wait_for},
    tests,
};

tests! {
    a_worker_comes_up_and_says_what_it_is,
    a_kernel_works_at_the_end_of_a_long_path,
    its_socket_and_its_files_are_for_nobody_else,
    a_program_that_is_not_there_is_a_failed_start_with_its_name,
    a_worker_that_leaves_at_once_is_a_failed_start_with_its_last_words,
    a_worker_that_is_never_ready_is_a_failed_start_and_is_stopped,
    a_worker_of_another_protocol_is_a_failed_start,
    noise_in_place_of_the_first_frame_is_a_failed_start,
    a_wrong_secret_and_a_wrong_generation_are_refused,
    whoever_does_not_say_who_he_is_is_hung_up_on,
    a_second_daemon_is_refused_while_the_first_is_there,
    a_directory_is_used_for_one_life_only,
}

fn a_worker_comes_up_and_says_what_it_is() {
    let kernel = Kernel::real();
    let mut daemon = kernel.attach();
    assert_eq!(daemon.attached.supervisor, kernel.supervisor);
    let ready = daemon.ready();
    assert_eq!((ready.protocol, ready.language.as_str()), (1, "python"));
    let worker = daemon.attached.worker.unwrap();
    assert_eq!(ready.pid, worker.pid);
    let Found::Alive { supervisor } = look(&kernel.dir).unwrap() else { panic!("it is not alive") };
    assert_eq!(supervisor, Some(kernel.supervisor));
}

fn a_kernel_works_at_the_end_of_a_long_path() {
    let name = ["a-directory-name-of-thirty-chars"; 7].join("/");
    let kernel = Kernel::in_dir(stub(), &name, |_| {});
    assert!(kernel.dir.as_os_str().len() > 200);
    kernel.attach_ready().run(id(1), "pass");
}

fn its_socket_and_its_files_are_for_nobody_else() {
    let kernel = Kernel::stub();
    kernel.attach_ready().run(id(1), "print(1)");
    let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&kernel.dir), 0o700);
    for entry in std::fs::read_dir(&kernel.dir).unwrap() {
        let path = entry.unwrap().path();
        assert_eq!(mode(&path), 0o600, "{}", path.display());
    }
}

fn failure(kernel: &Kernel) -> (String, String) {
    let mut daemon = kernel.attach();
    daemon.wait(|message, _| match message {
        FromSupervisor::StartFailed { reason, stderr_tail } => Some((reason.clone(), stderr_tail.clone())),
        _ => None,
    })
}

fn a_program_that_is_not_there_is_a_failed_start_with_its_name() {
    let kernel = Kernel::with(shell(&["/nonexistent/python"]), |_| {});
    let (reason, _) = failure(&kernel);
    assert!(reason.starts_with("could not start /nonexistent/python: No such file"), "{reason}");
}

fn a_worker_that_leaves_at_once_is_a_failed_start_with_its_last_words() {
    let kernel = Kernel::with(shell(&["sh", "-c", "echo no such module >&2; exit 3"]), |_| {});
    let wanted =
        ("the worker exited with code 3 before it was ready".to_owned(), "no such module\n".to_owned());
    assert_eq!(failure(&kernel), wanted);
    // Another daemon is told the same.
    assert_eq!(failure(&kernel), wanted);
}

fn a_worker_that_is_never_ready_is_a_failed_start_and_is_stopped() {
    let kernel =
        Kernel::with(shell(&["sh", "-c", "sleep 1000 & sleep 1000"]), |spec| spec.start_deadline_ms = 50);
    let (reason, _) = failure(&kernel);
    assert_eq!(reason, "the worker did not say that it is ready within 50 ms");
    assert!(!is_running(kernel.attach().attached.worker.unwrap()));
}

fn a_worker_of_another_protocol_is_a_failed_start() {
    let mut argv = stub();
    argv[2] = argv[2].replace(r#""protocol": 1"#, r#""protocol": 2"#);
    let (reason, _) = failure(&Kernel::with(argv, |_| {}));
    assert_eq!(reason, "the worker speaks protocol 2, and 1 is wanted");
}

fn noise_in_place_of_the_first_frame_is_a_failed_start() {
    let kernel = Kernel::with(shell(&["sh", "-c", "echo hello, I am not a frame >&4; sleep 1000"]), |_| {});
    let (reason, _) = failure(&kernel);
    assert!(reason.starts_with("the worker broke the protocol: a frame claims "), "{reason}");
}

fn refusal(kernel: &Kernel, spec: &agarose_kernel::spec::KernelSpec) -> String {
    match kernel.try_attach(spec).map(drop) {
        Err(AttachError::Refused { reason }) => reason,
        other => panic!("{other:?}"),
    }
}

fn a_wrong_secret_and_a_wrong_generation_are_refused() {
    let kernel = Kernel::stub();
    let mut wrong = kernel.spec.clone();
    wrong.secret = "a secreT".to_owned();
    assert_eq!(refusal(&kernel, &wrong), "the secret is wrong");
    wrong = kernel.spec.clone();
    wrong.generation.0 += 1;
    assert!(refusal(&kernel, &wrong).starts_with("this is generation g"));
    // They are noted, and they harm nobody.
    kernel.attach_ready().run(id(1), "pass");
    assert!(kernel.log().contains("a connection was refused: the secret is wrong"));
    assert!(!kernel.log().contains("a secreT"));
}

fn whoever_does_not_say_who_he_is_is_hung_up_on() {
    let kernel = Kernel::stub();
    let mut daemon = kernel.attach_ready();
    for noise in [&b"GET / HTTP/1.1\r\n\r\n"[..], b"\x02\0\0\0\0\0\0\0{}"] {
        let mut stranger = connect(&kernel.dir).unwrap();
        stranger.write_all(noise).unwrap();
        stranger.set_read_timeout(Some(crate::lab::PATIENCE)).unwrap();
        // It is told why, and then nothing more comes.
        std::io::copy(&mut stranger, &mut std::io::sink()).unwrap();
    }
    // Some say nothing at all; the daemon is served all the same.
    let _silent: Vec<_> = (0..20).map_while(|_| connect(&kernel.dir).ok()).collect();
    daemon.run(id(1), "pass");
}

fn a_second_daemon_is_refused_while_the_first_is_there() {
    let kernel = Kernel::stub();
    let first: Daemon = kernel.attach_ready();
    let second = || {
        let program = std::env::current_exe().unwrap();
        let output = std::process::Command::new(program)
            .arg(crate::lab::ATTACH)
            .arg("--dir")
            .arg(&kernel.dir)
            .output();
        String::from_utf8(output.unwrap().stdout).unwrap()
    };
    assert_eq!(second(), "the supervisor refused: another daemon is attached");
    drop(first);
    wait_for("the second is taken", || second() == "attached");
    // One that calls again takes its own place.
    let third = kernel.attach();
    assert_eq!(third.attached.state, WorkerState::Idle);
    let mut fourth = kernel.attach();
    fourth.run(id(1), "pass");
}

fn a_directory_is_used_for_one_life_only() {
    let kernel = Kernel::with(real(), |_| {});
    let error = agarose_kernel::launch::launch(&["/bin/true".into()], &kernel.spec, &kernel.dir).unwrap_err();
    assert!(error.to_string().ends_with("has held a kernel already"), "{error}");
}
