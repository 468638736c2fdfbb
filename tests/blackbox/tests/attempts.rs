//! The last word of an attempt: what it rests on, and that no text of an error changes it.

use agarose_blackbox::Lab;

#[test]
fn the_text_of_an_error_never_decides_the_word() {
    let lab = Lab::started();
    for (code, name) in [
        ("timeout", "NameError"),
        ("def wait(timeout): raise ValueError(timeout)\ntimeout = 3\nwait(timeout=timeout)", "ValueError"),
        ("raise TimeoutError('timed out')", "TimeoutError"),
        ("import urllib.error; raise urllib.error.URLError('timed out')", "URLError"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt"),
        ("import asyncio; raise asyncio.CancelledError", "CancelledError"),
        ("raise Exception('interrupted cancelled lost refused')", "Exception"),
    ] {
        let shown = lab.exec("s", code);
        assert_eq!(shown["state"], "failed", "{code}: {shown:#}");
        assert_eq!(shown["executed"], "yes");
        assert_eq!(shown["error"]["kind"], "user", "{code}: {shown:#}");
        assert!(shown["error"]["name"].as_str().unwrap().ends_with(name), "{code}: {shown:#}");
        assert_eq!(lab.run(["wait", shown["ticket"].as_str().unwrap()]).code, 10);
    }
}

#[test]
fn every_word_has_its_exit_code() {
    let lab = Lab::started();
    let exec = |code: &str, more: &[&str]| lab.run(["exec", "-s", "s", "-c", code].iter().chain(more)).code;
    assert_eq!(exec("1", &[]), 0);
    assert_eq!(exec("1 / 0", &[]), 10);
    assert_eq!(exec("import time; time.sleep(1e6)", &["--timeout", "300ms"]), 11);
    let shorter = ["--timeout", "300ms", "--interrupt-grace", "300ms", "--kill-grace", "1s"];
    assert_eq!(exec("sum(range(10**13))", &shorter), 13);
    assert_eq!(lab.run(["exec", "-s", "r", "-l", "cobol", "-c", "1"]).code, 2);
}

#[test]
fn whether_user_code_ran_is_said_by_who_could_know() {
    let lab = Lab::started();
    let gate = lab.gate("go");
    let running = lab.submit("s", &gate);
    let cancelled = lab.submit("s", "1");
    lab.until_begun(&running);
    lab.run(["cancel", &cancelled]).ok();
    assert_eq!(lab.wait(&cancelled)["executed"], "no");
    lab.open_gate("go");
    assert_eq!(lab.wait(&running)["executed"], "yes");
    // A cell that does not even parse was read by the worker, which acknowledged it.
    let syntax = lab.exec("s", "def f(:\n    pass");
    assert_eq!(syntax["state"], "failed");
    assert_eq!(syntax["error"]["name"], "SyntaxError");
    assert_eq!(syntax["error"]["line"], 1);
}

#[test]
fn a_cell_without_an_interpreter_is_refused_and_was_not_executed() {
    let mut lab = Lab::new();
    lab.set_env("PATH", "/nowhere");
    lab.serve(&[]);
    let shown = lab.exec("s", "1");
    assert_eq!(shown["state"], "refused", "{shown:#}");
    assert_eq!(shown["executed"], "no");
    assert_eq!(shown["error"]["kind"], "refused");
    let message = shown["error"]["message"].as_str().unwrap();
    assert!(message.contains("install Python 3.9"), "{message}");
    assert_eq!(lab.run(["wait", shown["ticket"].as_str().unwrap()]).code, 14);
    assert_eq!(lab.exec("s", "1")["state"], "refused", "and the next, too");
}
