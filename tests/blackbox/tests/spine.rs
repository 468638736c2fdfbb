//! One durable cell, from submit to last word.

use agarose_blackbox::Lab;

#[test]
fn a_cell_runs_and_its_result_is_kept() {
    let lab = Lab::started();
    let shown = lab.exec("s", "print('hello')\n1 + 1");
    assert_eq!(shown["state"], "completed");
    assert_eq!(shown["executed"], "yes");
    assert_eq!(shown["stdout"]["text"], "hello\n");
    assert_eq!(shown["result"]["text/plain"], "2");
}

#[test]
fn variables_last_from_cell_to_cell() {
    let lab = Lab::started();
    assert_eq!(lab.exec("s", "x = 20")["state"], "completed");
    assert_eq!(lab.exec("s", "x + 1")["result"]["text/plain"], "21");
}

#[test]
fn a_failing_cell_says_what_failed_and_where() {
    let lab = Lab::started();
    let shown = lab.exec("s", "x = 1\nundefined_name");
    assert_eq!(shown["state"], "failed");
    assert_eq!(shown["error"]["kind"], "user");
    assert_eq!(shown["error"]["name"], "NameError");
    assert_eq!(shown["error"]["line"], 2);
}

#[test]
fn a_running_cell_outlives_a_killed_daemon_and_the_queue_goes_on() {
    let mut lab = Lab::started();
    let code = "import time\nfor i in range(20):\n    print(i, flush=True)\n    time.sleep(0.1)";
    let first = lab.submit("s", code);
    let second = lab.submit("s", "'next'");
    lab.until_printed(&first, "3\n");
    lab.kill_daemon();
    lab.serve(&[]);
    let shown = lab.wait(&first);
    assert_eq!(shown["state"], "completed", "{shown:#}");
    let lines: String = (0..20).map(|i| format!("{i}\n")).collect();
    assert_eq!(shown["stdout"]["text"], lines);
    assert_eq!(lab.wait(&second)["result"]["text/plain"], "'next'");
    lab.run(["log", "verify"]).ok();
}
