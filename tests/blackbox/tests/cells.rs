//! Cells that do what cells should not do: each costs at most itself, and says what happened.

use agarose_blackbox::{Lab, eventually, is_alive, parent, signal};
use nix::sys::signal::Signal;

#[test]
fn reading_from_a_person_who_is_not_there_fails_at_once_and_says_why() {
    let lab = Lab::started();
    for code in ["input('name? ')", "import sys; sys.stdin.readline()", "import getpass; getpass.getpass()"] {
        let shown = lab.exec_with("s", code, &["--timeout", "30s"]);
        assert_ne!(shown["error"]["kind"], "timeout", "{code} hung");
        if shown["state"] == "failed" {
            let message = shown["error"]["message"].as_str().unwrap();
            assert!(message.contains("input"), "{code}: {shown:#}");
        } else {
            // An empty line is the end of a file.
            assert_eq!(shown["result"]["text/plain"], "''", "{code}: {shown:#}");
        }
    }
    let input = lab.exec("s", "input()");
    assert_eq!(input["state"], "failed", "{input:#}");
    assert_eq!(lab.exec("s", "1")["state"], "completed");
}

#[test]
fn a_child_that_reads_standard_input_gets_its_end_at_once() {
    let lab = Lab::started();
    let code = "import subprocess; subprocess.run(['cat'], capture_output=True).stdout";
    let shown = lab.exec_with("s", code, &["--timeout", "30s"]);
    assert_eq!(shown["result"]["text/plain"], "b''", "{shown:#}");
    let open = lab.exec(
        "s",
        "subprocess.run(['ls', '-l', '/proc/self/fd'], capture_output=True, text=True).stdout.count('->')",
    );
    let count: u32 = open["result"]["text/plain"].as_str().unwrap().parse().unwrap();
    // The three standard descriptors, and the directory that ls reads.
    assert!(count <= 4, "{open:#}");
}

#[test]
fn a_forked_child_never_becomes_a_second_kernel() {
    let lab = Lab::started();
    let shown = lab.exec(
        "s",
        "import os\npid = os.fork()\nif pid == 0: print('child')\nelse: os.waitpid(pid, 0)\n'parent'",
    );
    assert_eq!(shown["result"]["text/plain"], "'parent'", "{shown:#}");
    assert!(shown["stdout"]["text"].as_str().unwrap().contains("child"), "{shown:#}");
    let next = lab.exec("s", "os.getpid() == pid, pid");
    assert!(next["result"]["text/plain"].as_str().unwrap().starts_with("(False"), "{next:#}");
    assert_eq!(lab.events_of(shown["ticket"].as_str().unwrap(), "ResultReceived").len(), 1);
}

#[test]
fn pools_of_processes_finish_whether_they_fork_or_spawn() {
    let lab = Lab::started();
    for method in ["fork", "spawn"] {
        let code = format!(
            "import multiprocessing\ndef square(x): return x * x\nwith multiprocessing.get_context('{method}').Pool(2) as pool: squares = pool.map(square, range(4))\nsquares"
        );
        let shown = lab.exec_with("s", &code, &["--timeout", "60s"]);
        assert_eq!(shown["result"]["text/plain"], "[0, 1, 4, 9]", "{method}: {shown:#}");
    }
}

#[test]
fn a_segmentation_fault_names_its_signal_and_the_queue_goes_on_in_a_new_generation() {
    let lab = Lab::started();
    let first = lab.exec("s", "x = 1");
    let fault = lab.submit("s", "print('before', flush=True)\nimport ctypes; ctypes.string_at(0)");
    let behind = [lab.submit("s", "'x' in globals()"), lab.submit("s", "2")];
    let shown = lab.wait(&fault);
    assert_eq!(shown["state"], "failed", "{shown:#}");
    assert_eq!(shown["executed"], "yes");
    assert_eq!(shown["error"]["kind"], "kernel_died");
    assert_eq!(shown["error"]["kernel"], "reset");
    assert!(shown["error"]["message"].as_str().unwrap().contains("SIGSEGV"), "{shown:#}");
    assert_eq!(shown["stdout"]["text"], "before\n", "output so far is kept");
    let next = lab.wait(&behind[0]);
    assert_eq!(next["result"]["text/plain"], "False");
    assert_ne!(next["generation"], first["generation"]);
    assert!(next["notes"].to_string().contains("variables"), "{next:#}");
    let last = lab.wait(&behind[1]);
    assert_eq!(last["generation"], next["generation"]);
    assert!(last.get("notes").is_none(), "it is said once: {last:#}");
}

#[test]
fn every_way_for_a_cell_to_end_its_kernel_is_named() {
    let lab = Lab::started();
    for (code, named) in [
        ("import os; os._exit(3)", "exited with code 3"),
        ("import os, signal; os.kill(os.getpid(), 9)", "SIGKILL"),
        ("import os; os.abort()", "SIGABRT"),
    ] {
        let shown = lab.exec("s", code);
        assert_eq!(shown["state"], "failed", "{code}: {shown:#}");
        assert_eq!(shown["error"]["kind"], "kernel_died", "{code}: {shown:#}");
        assert!(shown["error"]["message"].as_str().unwrap().contains(named), "{code}: {shown:#}");
        assert_eq!(lab.exec("s", "1")["state"], "completed");
    }
}

#[test]
fn leaving_ends_the_cell_and_not_the_kernel() {
    let lab = Lab::started();
    assert_eq!(lab.exec("s", "x = 5")["state"], "completed");
    for code in ["import sys; sys.exit(3)", "exit()", "quit()", "raise SystemExit('enough')"] {
        let shown = lab.exec("s", code);
        assert_eq!(shown["state"], "failed", "{code}: {shown:#}");
        assert_eq!(shown["error"]["name"], "SystemExit", "{code}: {shown:#}");
        assert_eq!(shown["error"]["kernel"], "kept");
    }
    assert_eq!(lab.exec("s", "x")["result"]["text/plain"], "5");
}

#[test]
fn a_kernel_that_was_killed_between_cells_is_noticed_and_said() {
    let lab = Lab::started();
    let first = lab.exec("s", "x = 1");
    signal(lab.worker("s"), Signal::SIGKILL);
    eventually("the daemon has noticed", || {
        lab.session("s")["kernels"].as_array().is_none_or(Vec::is_empty).then_some(())
    });
    let next = lab.exec("s", "x");
    assert_eq!(next["state"], "failed");
    assert_eq!(next["error"]["name"], "NameError");
    assert_ne!(next["generation"], first["generation"]);
    let lost = first["generation"].as_str().unwrap();
    assert!(next["notes"][0].as_str().unwrap().contains(lost), "{next:#}");
}

#[test]
fn a_cell_that_takes_the_ground_away_costs_at_most_its_kernel() {
    let lab = Lab::started();
    for hostile in [
        "del __builtins__",
        "import sys; sys.modules.clear()",
        "import builtins; builtins.__dict__.clear()",
        "globals().clear()",
        "import os; os.closerange(3, 200)",
        "import json; json.dumps = None; json.loads = None",
        "import threading; threading.Thread = None; import os; os.write = None",
    ] {
        let shown = lab.exec_with("s", hostile, &["--timeout", "20s"]);
        let state = shown["state"].as_str().unwrap();
        assert!(["completed", "failed"].contains(&state), "{hostile}: {shown:#}");
        if state == "failed" {
            assert!(!shown["error"]["message"].as_str().unwrap().is_empty(), "{hostile}: {shown:#}");
        }
        let next = lab.exec_with("s", "6 * 7", &["--timeout", "20s"]);
        if next["state"] == "failed" {
            // Whatever it broke for itself, a fresh kernel mends.
            signal(lab.worker("s"), Signal::SIGKILL);
            eventually("the daemon has noticed", || {
                lab.session("s")["kernels"].as_array().is_none_or(Vec::is_empty).then_some(())
            });
        }
        assert_eq!(lab.exec("s", "6 * 7")["result"]["text/plain"], "42", "after {hostile}");
    }
}

#[test]
fn no_value_is_kept_but_the_last() {
    let lab = Lab::started();
    let code = "import weakref\nclass Big: pass\nlast = Big(); ref = weakref.ref(last); last";
    assert_eq!(lab.exec("s", code)["state"], "completed");
    assert_eq!(lab.exec("s", "del last\n1")["state"], "completed");
    assert_eq!(lab.exec("s", "2")["state"], "completed");
    assert_eq!(lab.exec("s", "import gc; n = gc.collect(); ref() is None")["result"]["text/plain"], "True");
}

#[test]
fn whatever_a_library_raises_is_an_error_of_that_cell_alone() {
    let lab = Lab::started();
    assert_eq!(lab.exec("s", "kept = 1")["state"], "completed");
    for code in [
        "class B(BaseException): pass\nraise B('base')",
        "class R:\n    def __repr__(self): raise ValueError('repr')\nR()",
        "class S(Exception):\n    def __str__(self): raise ValueError('str')\nraise S",
        "raise GeneratorExit",
    ] {
        let shown = lab.exec("s", code);
        assert_eq!(shown["state"], "failed", "{code}: {shown:#}");
        assert_eq!(shown["error"]["kind"], "user", "{code}: {shown:#}");
    }
    for code in [
        "class H:\n    def _repr_html_(self): raise ValueError('html')\nH()",
        "class D:\n    def __del__(self): raise ValueError('del')\nd = D(); del d",
        "import sys\nsys.excepthook = None; sys.displayhook = None",
    ] {
        let shown = lab.exec("s", code);
        assert_eq!(shown["state"], "completed", "{code}: {shown:#}");
    }
    assert_eq!(lab.exec("s", "kept")["result"]["text/plain"], "1");
}

#[test]
fn a_directory_that_a_cell_removed_does_not_keep_the_next_kernel_from_starting() {
    let lab = Lab::started();
    let first = lab.exec("s", "import os; home = os.getcwd(); home");
    let gone = "import shutil, tempfile\nplace = tempfile.mkdtemp(); os.chdir(place); shutil.rmtree(place)";
    assert_eq!(lab.exec("s", gone)["state"], "completed");
    assert_eq!(lab.exec("s", "1 + 1")["result"]["text/plain"], "2");
    signal(lab.worker("s"), Signal::SIGKILL);
    eventually("the daemon has noticed", || {
        lab.session("s")["kernels"].as_array().is_none_or(Vec::is_empty).then_some(())
    });
    let next = lab.exec("s", "import os; os.getcwd()");
    assert_eq!(next["result"], first["result"]);
    // And when the workspace itself is gone, it is made again.
    assert_eq!(lab.exec("s", "import shutil; shutil.rmtree(os.getcwd())")["state"], "completed");
    signal(lab.worker("s"), Signal::SIGKILL);
    eventually("the daemon has noticed", || {
        lab.session("s")["kernels"].as_array().is_none_or(Vec::is_empty).then_some(())
    });
    let again = lab.exec("s", "import os; os.getcwd()");
    assert_eq!(again["result"], first["result"], "{again:#}");
}

#[test]
fn a_supervisor_that_dies_takes_its_worker_along_and_the_session_goes_on() {
    let lab = Lab::started();
    let ticket = lab.submit("s", "print('on', flush=True)\nimport time; time.sleep(1e6)");
    let behind = lab.submit("s", "1 + 1");
    lab.until_printed(&ticket, "on");
    let worker = lab.worker("s");
    signal(parent(worker), Signal::SIGKILL);
    let shown = lab.wait(&ticket);
    assert_eq!(shown["state"], "failed", "{shown:#}");
    assert_eq!(shown["error"]["kind"], "kernel_died");
    assert_eq!(shown["executed"], "yes");
    assert_eq!(shown["stdout"]["text"], "on\n");
    eventually("the worker is gone", || (!is_alive(worker)).then_some(()));
    assert_eq!(lab.wait(&behind)["result"]["text/plain"], "2");
}
