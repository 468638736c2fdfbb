//! What cells read and write, whether their results can still be trusted, and a namespace built anew.

use agarose_blackbox::{Lab, eventually, outcome, signal};
use nix::sys::signal::Signal;
use serde_json::{Value, json};

/// Runs a named cell, which has to complete.
fn cell(lab: &Lab, name: &str, code: &str) -> Value {
    let shown = lab.exec_with("s", code, &["--name", name]);
    assert_eq!(shown["state"], "completed", "{name}: {shown:#}");
    shown
}

/// The verdicts on the cells of the session, by name.
fn verdicts(lab: &Lab, more: &[&str]) -> Vec<(String, String)> {
    let view = lab.run(["stale", "s", "--json"].iter().chain(more)).ok().json();
    let cells = view["cells"].as_array().unwrap().iter();
    cells.map(|cell| (text(&cell["cell"]), text(&cell["verdict"]))).collect()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    expected.iter().map(|(cell, verdict)| ((*cell).to_owned(), (*verdict).to_owned())).collect()
}

/// The steps of a restore: cell and state.
fn steps(view: &Value) -> Vec<(String, String)> {
    let steps = view["steps"].as_array().unwrap().iter();
    steps.map(|step| (text(&step["cell"]), text(&step["state"]))).collect()
}

fn kill_kernel(lab: &Lab) {
    let killed = lab.exec("s", "import os; os.kill(os.getpid(), 9)");
    assert_eq!(killed["error"]["kind"], "kernel_died", "{killed:#}");
}

#[test]
fn a_file_is_analysed_without_a_daemon_and_without_running_it() {
    let lab = Lab::new();
    let file = lab.work().join("a.py");
    std::fs::write(&file, "y = x + 1\ndel z\nraise SystemExit\n").unwrap();
    let found = lab.run(["analyse", file.to_str().unwrap(), "--json"]).ok().json();
    assert_eq!(found["reads"], json!(["x"]));
    assert_eq!(found["writes"], json!(["y"]));
    assert_eq!(found["deletes"], json!(["z"]));
    assert_eq!(found["uncertain"], json!([]));
    let script = lab.work().join("s.txt");
    std::fs::write(&script, "names(a) <- b\nif (").unwrap();
    let found = lab.run(["analyse", script.to_str().unwrap(), "-l", "r", "--json"]).ok().json();
    assert_eq!(found["uncertain"][0]["reason"], "syntax_error", "{found:#}");
    assert!(found["reads"].as_array().unwrap().contains(&json!("b")), "the rest is analysed: {found:#}");
    let told = lab.run(["analyse", file.to_str().unwrap()]).ok();
    assert_eq!(told.stdout, "reads      x\nwrites     y\ndeletes    z\n");
}

#[test]
fn the_facts_of_a_cell_are_recorded_with_it_and_shown() {
    let mut lab = Lab::started();
    let shown = cell(&lab, "c1", "import math\ndef f(q):\n    return q + k\nexec('z = 1')\ny = math.pi");
    let analysis = &shown["analysis"];
    assert_eq!(analysis["writes"], json!(["f", "math", "y", "z"]), "{analysis:#}");
    assert_eq!(analysis["reads"], json!(["k"]), "a name read in a function is an edge all the same");
    let ticket = text(&shown["ticket"]);
    let recorded = lab.events_of(&ticket, "CellAnalysed");
    assert_eq!(recorded.len(), 1, "{recorded:#?}");
    assert!(recorded[0].to_string().contains("agarose-analysis"), "with its version: {recorded:#?}");
    lab.kill_daemon();
    lab.serve(&[]);
    assert_eq!(lab.show(&ticket)["analysis"], *analysis, "the same after a crash");
}

#[test]
fn visibility_and_replay_follow_from_what_a_cell_does() {
    let lab = Lab::started();
    for (code, visibility, replay, reason) in [
        ("x = 1", "scientific", "safe", "only changes the namespace"),
        ("x", "scratch", "safe", "only changes the namespace"),
        ("open('out.txt', 'w').write('1')", "scientific", "conditional", "out.txt"),
        ("import subprocess; subprocess.run(['true'])", "scientific", "never", "another program"),
        ("open('/tmp/agarose-outside.txt', 'w').close()", "scientific", "never", "outside of the workspace"),
    ] {
        let shown = lab.exec("s", code);
        assert_eq!(shown["visibility"], visibility, "{code}: {shown:#}");
        assert_eq!(shown["replay_policy"], replay, "{code}: {shown:#}");
        assert!(shown["replay_reasons"].to_string().contains(reason), "{code}: {shown:#}");
        assert!(!shown["visibility_reasons"].as_array().unwrap().is_empty(), "{code}");
    }
    std::fs::remove_file("/tmp/agarose-outside.txt").unwrap();
}

#[test]
fn only_consumers_of_the_old_value_are_stale_and_the_way_to_the_change_is_told() {
    let lab = Lab::started();
    cell(&lab, "c1", "x = 1");
    cell(&lab, "c2", "def f(): return x");
    cell(&lab, "c3", "y = f()");
    cell(&lab, "c4", "z = y + 1");
    cell(&lab, "c5", "other = 5");
    let all = [("c1", "fresh"), ("c2", "fresh"), ("c3", "fresh"), ("c4", "fresh"), ("c5", "fresh")];
    assert_eq!(verdicts(&lab, &[]), pairs(&all));
    let changed = cell(&lab, "c1", "x = 2");
    let now = [("c1", "fresh"), ("c2", "fresh"), ("c3", "stale"), ("c4", "stale"), ("c5", "fresh")];
    assert_eq!(verdicts(&lab, &[]), pairs(&now));
    let view = lab.run(["stale", "s", "--json"]).ok().json();
    let path = view["cells"][3]["path"].as_array().unwrap();
    assert_eq!(path[0]["through"], "producer", "{view:#}");
    assert_eq!((&path[1]["through"], &path[1]["what"]), (&json!("name"), &json!("x")), "{view:#}");
    assert_eq!(path[1]["ticket"], changed["ticket"], "{view:#}");
    assert_eq!(lab.session("s")["cells"], view["cells"], "a session's cut has them too");
    cell(&lab, "c3", "y = f()");
    let told = lab.run(["stale", "s"]).ok();
    assert!(told.stdout.contains("y was changed by c3"), "{}", told.stdout);
    cell(&lab, "c4", "z = y + 1");
    assert_eq!(verdicts(&lab, &[]), pairs(&all));
}

#[test]
fn the_order_of_running_counts_and_not_the_order_on_the_page() {
    let lab = Lab::started();
    cell(&lab, "c1", "x = 1");
    cell(&lab, "c2", "y = x");
    cell(&lab, "c3", "x = 3");
    assert_eq!(
        verdicts(&lab, &[])[1].1,
        "superseded",
        "a cell further down does not count against one above"
    );
    assert_eq!(verdicts(&lab, &["--current-state"])[1].1, "stale");
}

#[test]
fn a_cell_that_may_do_anything_taints_what_ran_before_until_all_runs_again() {
    let lab = Lab::started();
    // What an object is, the kernel cannot see.
    let run_all = || {
        cell(&lab, "c1", "class Note: pass\nx = Note()");
        cell(&lab, "c2", "exec(compile('x' + '.a = 2', 'p', 'exec'))");
        cell(&lab, "c3", "y = x");
    };
    run_all();
    cell(&lab, "c2", "exec(compile('x' + '.a = 3', 'p', 'exec'))");
    let view = lab.run(["stale", "s", "--json"]).ok().json();
    let third = &view["cells"][2];
    assert_eq!(third["verdict"], "uncertain", "{view:#}");
    assert_eq!(
        (&third["cause"]["through"], &third["cause"]["what"]),
        (&json!("unknown"), &json!("exec_eval"))
    );
    run_all();
    assert!(verdicts(&lab, &[]).iter().all(|(_, verdict)| verdict == "fresh" || verdict == "superseded"));
}

#[test]
fn what_the_kernel_saw_of_a_value_counts_before_what_might_have_become_of_it() {
    let mut lab = Lab::started();
    cell(&lab, "c1", "x, xs = 1, [1]");
    cell(&lab, "c2", "print(x)");
    cell(&lab, "c3", "print(len(xs))");
    let third = |view: &Value| (text(&view["cells"][2]["verdict"]), text(&view["cells"][2]["cause"]["what"]));
    cell(&lab, "c0", "exec(compile('z' + ' = 2', 'p', 'exec'))\nx = 3 - 2");
    let fresh = [("c1", "fresh"), ("c2", "fresh"), ("c3", "fresh")];
    assert_eq!(verdicts(&lab, &["--current-state"])[..3], pairs(&fresh));
    cell(&lab, "c0", "exec(compile('xs' + '.append(2)', 'p', 'exec'))");
    let view = lab.run(["stale", "s", "--current-state", "--json"]).ok().json();
    assert_eq!(third(&view), ("stale".to_owned(), "xs".to_owned()), "{view:#}");
    // A crash of the daemon loses nothing of what was seen.
    lab.kill_daemon();
    lab.serve(&[]);
    let after = lab.run(["stale", "s", "--current-state", "--json"]).ok().json();
    assert_eq!(after, view);
}

#[test]
fn a_file_that_changed_since_it_was_read_makes_the_result_stale_and_touching_it_does_not() {
    let lab = Lab::started();
    let file = lab.work().join("data.csv");
    std::fs::write(&file, "1").unwrap();
    let code = format!("t = open({:?}).read()", file.to_str().unwrap());
    let read = cell(&lab, "c1", &code);
    assert_eq!(read["files_read"].as_array().map(Vec::len), Some(1), "{read:#}");
    cell(&lab, "c2", "u = len(t)");
    std::fs::write(&file, "1").unwrap();
    assert_eq!(verdicts(&lab, &[]), pairs(&[("c1", "fresh"), ("c2", "fresh")]));
    std::fs::write(&file, "22").unwrap();
    assert_eq!(verdicts(&lab, &[]), pairs(&[("c1", "stale"), ("c2", "stale")]));
    let told = lab.run(["stale", "s"]).ok();
    assert!(told.stdout.contains("data.csv changed"), "{}", told.stdout);
}

#[test]
fn what_an_edit_would_do_is_told_before_it_runs() {
    let lab = Lab::started();
    cell(&lab, "c1", "xs = [1, 2]");
    cell(&lab, "c2", "xs.append(3)");
    cell(&lab, "c3", "n = len(xs)");
    cell(&lab, "c4", "m = 1");
    let found = lab.run(["stale", "s", "--what-if", "c2", "-c", "xs.append(4)", "--json"]).ok().json();
    assert_eq!(found["stale"], json!(["c3"]));
    assert_eq!(found["rerun"], json!(["c1", "c2", "c3"]), "what is changed in place is made anew first");
    let missing = lab.run(["stale", "s", "--what-if", "nowhere", "-c", "1"]);
    assert_eq!(missing.code, 4, "{}", missing.stderr);
}

#[test]
fn results_of_a_kernel_that_is_gone_are_detached() {
    let lab = Lab::started();
    cell(&lab, "c1", "x = 1");
    kill_kernel(&lab);
    cell(&lab, "c2", "y = 2");
    assert_eq!(verdicts(&lab, &[])[0], ("c1".to_owned(), "detached".to_owned()));
}

#[test]
fn only_the_slice_of_what_is_wanted_is_replayed_after_a_reset() {
    let lab = Lab::started();
    cell(&lab, "c1", "import math");
    cell(&lab, "c2", "values = [1, 4, 9]");
    for number in 3..28 {
        cell(&lab, &format!("c{number}"), &format!("noise{number} = {number}"));
    }
    cell(&lab, "c28", "roots = [math.sqrt(v) for v in values]");
    cell(&lab, "c29", "roots.append(4.0)");
    cell(&lab, "c30", "print(roots)");
    let plan = lab.run(["restore", "s", "--names", "roots", "--dry-run", "--json"]).ok().json();
    let slice = |state: &str| {
        let of = |cell: &str| (cell.to_owned(), state.to_owned());
        ["c1", "c2", "c28", "c29"].map(of).to_vec()
    };
    assert_eq!(steps(&plan), slice("planned"), "{plan:#}");
    assert_eq!(plan["outcome"], "complete");
    let before = lab.session("s");
    kill_kernel(&lab);
    let done = lab.run(["restore", "s", "--names", "roots", "--json"]).ok().json();
    assert_eq!(steps(&done), slice("done"), "{done:#}");
    assert_eq!((&done["outcome"], &done["published"]), (&json!("complete"), &json!(true)), "{done:#}");
    assert_eq!(done["restored"], json!(["roots"]));
    let shown = lab.exec("s", "print(roots); 'noise3' in globals()");
    assert_eq!(shown["stdout"]["text"], "[1.0, 2.0, 3.0, 4.0]\n", "{shown:#}");
    assert_eq!(shown["result"]["text/plain"], "False");
    assert_ne!(shown["generation"], before["kernels"][0]["generation"]);
    let replay = lab.show(done["steps"][0]["replay"].as_str().unwrap());
    assert_eq!(replay["owner"]["kind"], "recovery", "through ordinary tickets: {replay:#}");
    assert_eq!(replay["visibility"], "recovery");
    for kind in ["RestoreStarted", "RestorePublished", "RestoreEnded"] {
        let said = lab.events().iter().filter(|event| event.to_string().contains(kind)).count();
        assert_eq!(said, 1, "{kind} is in the log once");
    }
    let fresh = verdicts(&lab, &[]).into_iter().filter(|(_, verdict)| verdict == "fresh");
    let cells: Vec<String> = fresh.map(|(cell, _)| cell).collect();
    assert_eq!(cells[..4], ["c1", "c2", "c28", "c29"], "they are the session's results now");
    let sessions = eventually("the candidate is gone", || {
        let sessions = lab.run(["sessions", "--json"]).ok().json();
        (sessions.as_array().unwrap().len() == 1).then_some(sessions)
    });
    assert_eq!(sessions[0]["session"], "s");
}

#[test]
fn what_reaches_beyond_the_namespace_is_not_replayed_and_says_why() {
    let lab = Lab::started();
    let outside = lab.data().join("outside.txt");
    cell(&lab, "c1", "x = 1");
    cell(&lab, "c2", &format!("w = open({:?}, 'a').write('once')", outside.to_str().unwrap()));
    cell(&lab, "c3", "import subprocess\nr = subprocess.run(['true']).returncode");
    cell(
        &lab,
        "c4",
        "import urllib.request\ndef fetch(u):\n    return urllib.request.urlopen(u)\ns = 1 if True else fetch('http://localhost:1/')",
    );
    cell(&lab, "c5", "host = type('Host', (), {'submit_output': lambda self, v: v})()");
    cell(&lab, "c6", "sent = host.submit_output(x)");
    cell(&lab, "c7", "after = r + 1");
    kill_kernel(&lab);
    let run = lab.run(["restore", "s", "--names", "x,w,r,sent,after", "--json"]);
    assert_eq!(run.code, 10, "a part is not the whole: {}", run.stderr);
    let done = run.json();
    assert_eq!((&done["outcome"], &done["published"]), (&json!("partial"), &json!(true)), "{done:#}");
    assert_eq!(done["restored"], json!(["x"]), "{done:#}");
    let states = steps(&done);
    for (cell, state) in
        [("c1", "done"), ("c2", "refused"), ("c3", "refused"), ("c6", "refused"), ("c7", "blocked")]
    {
        assert!(states.contains(&(cell.to_owned(), state.to_owned())), "{cell}: {done:#}");
    }
    let reasons = done["missing"].to_string();
    for reason in ["outside of the workspace", "another program", "host"] {
        assert!(reasons.contains(reason), "{reason}: {done:#}");
    }
    assert_eq!(std::fs::read_to_string(outside).unwrap(), "once", "it was not written again");
}

#[test]
fn a_part_does_not_replace_a_kernel_that_works() {
    let lab = Lab::started();
    cell(&lab, "c1", "x = 1");
    cell(&lab, "c2", "import subprocess\nr = subprocess.run(['true']).returncode");
    let before = lab.worker("s");
    let run = lab.run(["restore", "s", "--json"]);
    let done = run.json();
    assert_eq!(
        (run.code, &done["outcome"], &done["published"]),
        (10, &json!("failed"), &json!(false)),
        "{done:#}"
    );
    assert_eq!(lab.worker("s"), before, "the kernel is the one that it was");
    assert_eq!(lab.exec("s", "x, r")["result"]["text/plain"], "(1, 0)");
}

#[test]
fn hidden_state_that_is_not_what_it_was_is_named() {
    let lab = Lab::started();
    let file = lab.work().join("data.csv");
    std::fs::write(&file, "1").unwrap();
    cell(&lab, "c1", &format!("t = open({:?}).read()", file.to_str().unwrap()));
    cell(&lab, "c2", "import random\nv = random.random()");
    cell(&lab, "c3", "random.seed(7)\nsure = random.random()");
    std::fs::write(&file, "2").unwrap();
    kill_kernel(&lab);
    let done = lab.run(["restore", "s", "--names", "t,v,sure", "--json"]).json();
    assert_eq!(done["outcome"], "partial", "{done:#}");
    let told = done.to_string();
    assert!(told.contains("data.csv is not any more what it read"), "{done:#}");
    assert!(told.contains("nothing seeds them"), "{done:#}");
    let states = steps(&done);
    assert_eq!(states[0], ("c1".to_owned(), "refused".to_owned()), "{done:#}");
}

#[test]
fn a_restore_goes_on_after_its_daemon_was_killed_in_the_middle_of_it() {
    let mut lab = Lab::started();
    cell(&lab, "c1", "x = 1");
    // The first run finds its gate open; the repetition waits at it.
    lab.open_gate("first");
    cell(&lab, "c2", &format!("{}\ny = x + 1", lab.gate("first")));
    std::fs::remove_file(lab.work().join("first.gate")).unwrap();
    kill_kernel(&lab);
    let restore = lab.spawn(["restore", "s", "--names", "y", "--json"]);
    let replay = eventually("the second step is replayed", || {
        let events = lab.events();
        let sent: Vec<&Value> =
            events.iter().filter(|event| event.to_string().contains("\"step-1\"")).collect();
        sent.first().map(|event| text(&event["ticket"]))
    });
    lab.until_begun(&replay);
    lab.kill_daemon();
    drop(outcome(restore));
    lab.serve(&[]);
    lab.open_gate("first");
    let ended = eventually("the restore ends", || {
        lab.events().into_iter().find(|event| event.to_string().contains("RestoreEnded"))
    });
    assert!(ended.to_string().to_lowercase().contains("complete"), "{ended:#}");
    assert_eq!(lab.exec("s", "x, y")["result"]["text/plain"], "(1, 2)");
    let keys = lab.events().iter().filter(|event| event.to_string().contains("\"step-0\"")).count();
    assert_eq!(keys, 1, "nothing was asked for twice");
}

#[test]
fn a_restore_that_is_stopped_leaves_the_session_what_it_had() {
    let lab = Lab::started();
    cell(&lab, "c1", "x = 1");
    lab.open_gate("first");
    cell(&lab, "c2", &format!("{}\ny = x + 1", lab.gate("first")));
    std::fs::remove_file(lab.work().join("first.gate")).unwrap();
    let before = lab.worker("s");
    let restore = lab.spawn(["restore", "s", "--names", "y", "--json"]);
    let replay = eventually("the second step is replayed", || {
        let events = lab.events();
        let sent = events.iter().find(|event| event.to_string().contains("\"step-1\""));
        sent.map(|event| text(&event["ticket"]))
    });
    lab.until_begun(&replay);
    signal(restore.id().try_into().unwrap(), Signal::SIGINT);
    let ended = outcome(restore);
    let told = ended.json();
    assert_eq!((ended.code, &told["outcome"]), (10, &json!("failed")), "{told:#}");
    assert!(told["reasons"].to_string().contains("stopped"), "{told:#}");
    assert_eq!(lab.worker("s"), before, "the kernel is the one that it was");
    assert_eq!(lab.exec("s", "x, y")["result"]["text/plain"], "(1, 2)");
}

#[test]
fn an_r_namespace_is_judged_and_built_anew_like_a_python_one() {
    let lab = Lab::started();
    let cell = |name: &str, code: &str| {
        let shown = lab.exec_with("s", code, &["--name", name, "-l", "r"]);
        assert_eq!(shown["state"], "completed", "{name}: {shown:#}");
        shown
    };
    cell("c1", "x <- c(1, 4, 9)");
    let shown = cell("c2", "names(x) <- letters[1:3]");
    assert_eq!((&shown["analysis"]["reads"], &shown["analysis"]["writes"]), (&json!(["x"]), &json!(["x"])));
    cell("c3", "unrelated <- 'u'");
    cell("c4", "roots <- sqrt(x)");
    let killed = lab.exec_with("s", "tools::pskill(Sys.getpid(), 9)", &["-l", "r"]);
    assert_eq!(killed["error"]["kind"], "kernel_died", "{killed:#}");
    let done = lab.run(["restore", "s", "--names", "roots", "-l", "r", "--json"]).ok().json();
    let expected = [("c1", "done"), ("c2", "done"), ("c4", "done")];
    assert_eq!((steps(&done), &done["outcome"]), (pairs(&expected), &json!("complete")), "{done:#}");
    let shown = lab.exec_with("s", "cat(names(roots), roots, exists('unrelated'))", &["-l", "r"]);
    assert_eq!(shown["stdout"]["text"], "a b c 1 2 3 FALSE", "{shown:#}");
}
