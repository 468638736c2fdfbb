//! What may be wrong with what we are given: each gets a message that says what to do, the documented
//! exit code, and nothing is lost. And `agarose run` over scripts and notebooks.

use std::{
    fs,
    io::Read,
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
    process::{Child, Command},
};

use agarose_blackbox::{Lab, Outcome, eventually, outcome, signal};
use nix::sys::signal::Signal;
use serde_json::{Value, json};

/// A failure that a person can go on from.
fn assert_helpful(outcome: &Outcome, code: i32, words: &[&str]) {
    assert_eq!(outcome.code, code, "{outcome:?}");
    assert!(outcome.stderr.starts_with("error: "), "{outcome:?}");
    assert!(outcome.stderr.contains("hint: "), "{outcome:?}");
    for word in words {
        assert!(outcome.stderr.contains(word), "{word:?} is not in {outcome:?}");
    }
    assert!(!outcome.stderr.contains("panicked"), "{outcome:?}");
}

const SCRIPT: &str = "\
# %% [markdown]
# # Title
# %% first
x = 20
print('printed')
# %%
x + 1
# %% last
display('shown')
x + 22
";

fn script(lab: &Lab, text: &str) -> String {
    let path = lab.work().join("analysis.py");
    fs::write(&path, text).unwrap();
    path.display().to_string()
}

fn notebook(lab: &Lab, cells: &[&str]) -> String {
    let cells: Vec<Value> = cells
        .iter()
        .enumerate()
        .map(|(number, source)| {
            json!({"cell_type": "code", "id": format!("c{number}"), "metadata": {"tags": ["kept"]}, "execution_count": null, "outputs": [], "source": source})
        })
        .collect();
    let notebook = json!({"cells": cells, "metadata": {"mine": 1}, "nbformat": 4, "nbformat_minor": 5});
    let path = lab.work().join("analysis.ipynb");
    fs::write(&path, notebook.to_string()).unwrap();
    path.display().to_string()
}

fn read_json(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

#[test]
fn a_script_runs_without_a_daemon_and_leaves_nothing_behind() {
    let lab = Lab::new();
    let out = lab.work().join("out.ipynb");
    let ran = lab.run(["run", &script(&lab, SCRIPT), "--out", out.to_str().unwrap()]).ok();
    assert!(ran.stdout.contains("printed") && ran.stdout.contains("42"), "{ran:?}");
    assert!(ran.stderr.contains("3 of 3 cells completed"), "{ran:?}");
    assert_eq!(lab.processes(), [] as [i32; 0]);
    let written = read_json(&out);
    let cells = written["cells"].as_array().unwrap();
    assert_eq!(cells.len(), 4);
    assert_eq!(cells[0]["cell_type"], "markdown");
    assert_eq!(cells[1]["outputs"][0]["text"].to_string().matches("printed").count(), 1, "{written:#}");
    assert_eq!(cells[2]["outputs"][0]["data"]["text/plain"].to_string().matches("21").count(), 1);
    lab.run(["log", "verify"]).ok();
}

#[test]
fn a_script_runs_in_the_daemon_that_is_there_and_its_session_is_kept_when_it_has_a_name() {
    let lab = Lab::started();
    lab.run(["run", &script(&lab, SCRIPT), "-s", "mine"]).ok();
    assert_eq!(lab.exec("mine", "x")["result"]["text/plain"], "20");
    let by_itself = lab.run(["run", &script(&lab, SCRIPT), "--json"]).ok();
    let lines: Vec<Value> =
        by_itself.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 4, "three cells and an end: {by_itself:?}");
    assert_eq!(lines[1]["view"]["result"]["text/plain"], "21");
    assert_eq!(lines[3]["completed"], 3);
    eventually("the session of the run is gone", || {
        (lab.run(["sessions", "--json"]).ok().json().as_array().unwrap().len() == 1).then_some(())
    });
}

#[test]
fn a_notebook_is_run_and_written_back_with_what_it_had() {
    let lab = Lab::new();
    let file =
        notebook(&lab, &["import sys\nprint('one')\nprint('two', file=sys.stderr)", "1 + 1", "display('x')"]);
    let source = fs::read(&file).unwrap();
    let out = lab.work().join("executed.ipynb");
    lab.run(["run", &file, "--out", out.to_str().unwrap()]).ok();
    assert_eq!(fs::read(&file).unwrap(), source, "what was read is not touched");
    let written = read_json(&out);
    assert_eq!(written["metadata"]["mine"], 1);
    let cells = written["cells"].as_array().unwrap();
    assert_eq!(cells[0]["id"], "c0");
    assert_eq!(cells[0]["metadata"]["tags"][0], "kept");
    let outputs = cells[0]["outputs"].as_array().unwrap();
    assert_eq!(
        outputs.iter().map(|output| output["name"].as_str().unwrap()).collect::<Vec<_>>(),
        ["stdout", "stderr"]
    );
    assert_eq!(cells[1]["outputs"][0]["output_type"], "execute_result");
    assert_eq!(cells[1]["execution_count"], cells[1]["outputs"][0]["execution_count"]);
    assert_eq!(cells[2]["outputs"][0]["output_type"], "display_data");
}

#[test]
fn a_run_ends_at_the_first_cell_that_fails_unless_it_is_to_go_on() {
    let lab = Lab::new();
    let file = notebook(&lab, &["print('a')", "1 / 0", "print('c')"]);
    let out = lab.work().join("executed.ipynb");
    let ran = lab.run(["run", &file, "--out", out.to_str().unwrap()]);
    assert_eq!(ran.code, 10, "{ran:?}");
    assert!(ran.stderr.contains("ZeroDivisionError"), "{ran:?}");
    assert!(!ran.stdout.contains('c'), "{ran:?}");
    let written = read_json(&out);
    assert_eq!(written["cells"][1]["outputs"][0]["output_type"], "error");
    assert_eq!(written["cells"][1]["outputs"][0]["ename"], "ZeroDivisionError");
    assert_eq!(written["cells"][2]["outputs"], json!([]));
    let ran = lab.run(["run", &file, "--keep-going"]);
    assert_eq!(ran.code, 10);
    assert_eq!(ran.stdout, "a\nc\n");
}

#[test]
fn a_syntax_error_is_told_with_its_line_and_costs_one_cell() {
    let lab = Lab::new();
    let text = "# %%\nx = 1\n# %%\ny = (\n# %%\nx";
    let ran = lab.run(["run", &script(&lab, text), "--keep-going"]);
    assert_eq!(ran.code, 10, "{ran:?}");
    assert!(ran.stderr.contains("SyntaxError"), "{ran:?}");
    assert!(ran.stderr.contains("line 4") || ran.stderr.contains(":4"), "the line of the file: {ran:?}");
    assert!(ran.stdout.contains('1'), "{ran:?}");
    assert!(ran.stderr.contains("2 of 3 cells completed"), "{ran:?}");
}

#[test]
fn what_is_not_a_notebook_is_refused_before_anything_is_started() {
    let lab = Lab::new();
    for (name, text, words) in [
        ("empty.ipynb", "", "empty.ipynb"),
        ("text.ipynb", "# just text", "text.ipynb"),
        ("list.ipynb", "[1, 2]", "list.ipynb"),
        ("other.ipynb", r#"{"hello": "world"}"#, "other.ipynb"),
        ("cut.ipynb", r#"{"cells": [{"cell_type": "code""#, "cut.ipynb"),
        ("kind.xlsx", "x", ".ipynb"),
    ] {
        fs::write(lab.work().join(name), text).unwrap();
        let ran = lab.run(["run", name]);
        assert_ne!(ran.code, 0);
        assert_helpful(&ran, ran.code, &[words]);
        assert!([1, 2].contains(&ran.code), "{ran:?}");
    }
    let nowhere = lab.run(["run", "nowhere.py"]);
    assert_eq!(nowhere.code, 4);
    assert!(nowhere.stderr.contains("cannot read nowhere.py: No such file"), "{nowhere:?}");
    assert!(!lab.data().exists(), "no data directory was made");
}

#[test]
fn without_a_daemon_the_exit_code_is_3_and_the_command_that_starts_one_is_told() {
    let lab = Lab::new();
    for arguments in [
        vec!["submit", "-c", "1"],
        vec!["show", "x"],
        vec!["status"],
        vec!["sessions"],
        vec!["exec", "-c", "1"],
    ] {
        assert_helpful(&lab.run(arguments), 3, &["agarose", "serve"]);
    }
}

#[test]
fn a_python_that_is_none_is_told_and_another_one_mends_it() {
    let mut lab = Lab::new();
    let ran = lab.run(["run", &script(&lab, SCRIPT), "--python", "/nowhere/python"]);
    assert_eq!(ran.code, 14, "{ran:?}");
    assert!(ran.stderr.contains("/nowhere/python"), "{ran:?}");
    lab.set_env("PATH", "/nowhere");
    let ran = lab.run(["run", &script(&lab, SCRIPT)]);
    assert_eq!(ran.code, 14, "{ran:?}");
    assert!(ran.stderr.contains("install Python 3.9"), "{ran:?}");
    lab.run(["log", "verify"]).ok();
}

#[test]
fn a_data_directory_that_is_a_file_is_told() {
    let lab = Lab::new();
    fs::write(lab.data(), "not a directory").unwrap();
    for arguments in [vec!["serve".to_owned()], vec!["run".to_owned(), script(&lab, SCRIPT)]] {
        assert_helpful(&lab.run(arguments), 1, &["--data-dir"]);
    }
    assert_eq!(fs::read(lab.data()).unwrap(), b"not a directory");
}

#[test]
fn a_data_directory_that_cannot_be_written_is_told() {
    let lab = Lab::new();
    // Root may write where the mode says no, but nobody may write to proc.
    let place = if fs::metadata("/proc/self").unwrap().uid() == 0 {
        PathBuf::from("/proc/agarose")
    } else {
        fs::create_dir(lab.data()).unwrap();
        fs::set_permissions(lab.data(), fs::Permissions::from_mode(0o500)).unwrap();
        lab.data()
    };
    let refused = lab.run(["serve", "--data-dir", place.to_str().unwrap()]);
    assert_helpful(&refused, 1, &["--data-dir", place.to_str().unwrap()]);
}

#[test]
fn a_directory_of_a_newer_version_is_told_and_not_touched() {
    let mut lab = Lab::started();
    assert_eq!(lab.exec("s", "1")["state"], "completed");
    assert!(lab.stop_daemon().success());
    let segment = fs::read_dir(lab.data().join("segments")).unwrap().next().unwrap().unwrap().path();
    let mut bytes = fs::read(&segment).unwrap();
    // The format's number stands behind the eight bytes of magic, and a check behind the header.
    bytes[8] = 9;
    let check = *blake3::hash(&bytes[..480]).as_bytes();
    bytes[480..512].copy_from_slice(&check);
    fs::write(&segment, &bytes).unwrap();
    let (status, said) = lab.try_serve(&[]).unwrap_err();
    assert_eq!(status.code(), Some(1), "{said}");
    assert!(said.contains("newer version") && said.contains("hint:"), "{said}");
    assert_eq!(fs::read(&segment).unwrap(), bytes);
}

/// A small file system of its own; unmounted at the end.
struct SmallDisk(PathBuf);

impl SmallDisk {
    /// Mounts one; absent, with the reason printed, where that is not allowed.
    fn mount(at: PathBuf, size: &str) -> Option<Self> {
        fs::create_dir(&at).unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs"])
            .arg(&at)
            .output();
        match mounted {
            Ok(output) if output.status.success() => Some(Self(at)),
            other => {
                eprintln!("skipped: a small file system cannot be mounted here: {other:?}");
                None
            }
        }
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[test]
fn a_full_disk_refuses_with_the_cause_and_goes_on_when_there_is_room() {
    let mut lab = Lab::new();
    let Some(disk) = SmallDisk::mount(lab.data(), "48m") else { return };
    lab.serve(&["--workspace", lab.work().to_str().unwrap()]);
    let before = lab.exec("s", "x = 'kept'")["ticket"].as_str().unwrap().to_owned();
    let running = lab.submit("s", &lab.gate("go"));
    lab.until_begun(&running);
    // Somebody else fills the disk to its last byte.
    let ballast = disk.0.join("ballast");
    let filled = Command::new("dd")
        .args(["if=/dev/zero", "bs=4096"])
        .arg(format!("of={}", ballast.display()))
        .output()
        .unwrap();
    assert!(!filled.status.success(), "the disk is not full");
    let mut accepted = Vec::new();
    // What room is left in the segment is used up; then it is refused.
    let refused = eventually("a submit is refused", || {
        let outcome = lab.run(["submit", "-s", "t", "-c", &format!("'{}'", "x".repeat(100_000)), "--json"]);
        if outcome.code == 0 {
            accepted.push(outcome.json()["ticket"].as_str().unwrap().to_owned());
            return None;
        }
        Some(outcome)
    });
    assert!([1, 5].contains(&refused.code), "{refused:?}");
    let told = refused.json()["error"].to_string();
    assert!(told.contains("disk full") || told.contains("No space") || told.contains("queue"), "{refused:?}");
    assert_eq!(lab.show(&before)["state"], "completed", "reads go on");
    fs::remove_file(&ballast).unwrap();
    lab.open_gate("go");
    assert_eq!(lab.wait(&running)["state"], "completed");
    assert_eq!(lab.exec("s", "x")["result"]["text/plain"], "'kept'");
    for ticket in &accepted {
        assert_eq!(lab.wait(ticket)["state"], "completed", "what was acknowledged is there");
    }
    lab.kill_daemon();
    lab.serve(&["--workspace", lab.work().to_str().unwrap()]);
    assert_eq!(lab.show(&running)["state"], "completed");
    lab.run(["log", "verify"]).ok();
    lab.kill_daemon();
    drop(disk);
}

#[test]
fn a_disk_without_room_from_the_start_is_told() {
    let mut lab = Lab::new();
    let Some(disk) = SmallDisk::mount(lab.data(), "16k") else { return };
    let (status, said) = lab.try_serve(&[]).unwrap_err();
    assert_eq!(status.code(), Some(1), "{said}");
    assert!(said.contains("No space left") || said.contains("disk full"), "{said}");
    assert!(said.contains("hint:"), "{said}");
    drop(disk);
}

#[test]
fn wrong_arguments_have_exit_code_2() {
    let lab = Lab::new();
    for arguments in [
        vec!["submit"],
        vec!["submit", "-c", "1", "--timeout", "soon"],
        vec!["wait"],
        vec!["frobnicate"],
        vec!["run", "x.py", "--out", "x.txt"],
        vec!["pause", "s", "--all"],
        vec!["submit", "-c", "1", "x.py"],
    ] {
        fs::write(lab.work().join("x.py"), "1").unwrap();
        let refused = lab.run(&arguments);
        assert_eq!(refused.code, 2, "{arguments:?}: {refused:?}");
        assert!(!refused.stderr.is_empty());
    }
}

#[test]
fn code_comes_from_a_file_or_from_standard_input() {
    let lab = Lab::started();
    fs::write(lab.work().join("cell.py"), "'from a file'").unwrap();
    let from_file = lab.run(["exec", "-s", "s", "cell.py", "--json"]).ok().json();
    assert_eq!(from_file["result"]["text/plain"], "'from a file'");
    let piped = lab
        .command(["exec", "-s", "s", "-", "--json"])
        .stdin(fs::File::open(lab.work().join("cell.py")).unwrap())
        .output()
        .unwrap();
    let piped: Value = serde_json::from_slice(&piped.stdout).unwrap();
    assert_eq!(piped["result"]["text/plain"], "'from a file'");
}

/// Reads what a child prints until a text is in it.
fn read_until(child: &mut Child, text: &str) {
    let stdout = child.stdout.as_mut().unwrap();
    let mut seen = Vec::new();
    let mut byte = [0];
    while !String::from_utf8_lossy(&seen).contains(text) {
        assert_eq!(stdout.read(&mut byte).unwrap(), 1, "it ended before it printed {text:?}");
        seen.push(byte[0]);
    }
}

const SLEEPER: &str =
    "# %%\nx = 1\n# %%\nprint('asleep', flush=True)\nimport time; time.sleep(1e6)\n# %%\nprint('never')\n";

#[test]
fn ctrl_c_cancels_exactly_the_running_cell_and_output_comes_live() {
    for with_daemon in [true, false] {
        let lab = if with_daemon { Lab::started() } else { Lab::new() };
        let out = lab.work().join("out.ipynb");
        let mut child = lab.spawn(["run", &script(&lab, SLEEPER), "--out", out.to_str().unwrap()]);
        read_until(&mut child, "asleep");
        signal(i32::try_from(child.id()).unwrap(), Signal::SIGINT);
        let ran = outcome(child);
        assert_eq!(ran.code, 11, "{ran:?}");
        assert!(!ran.stdout.contains("never"), "{ran:?}");
        assert!(read_json(&out)["cells"][1]["outputs"].to_string().contains("asleep"));
        eventually("no process of the run is left", || (lab.processes().is_empty()).then_some(()));
        lab.run(["log", "verify"]).ok();
    }
}

#[test]
fn a_second_ctrl_c_leaves_the_cell_running() {
    let lab = Lab::started();
    let code = "import time\nprint('deaf', flush=True)\nwhile not __import__('os').path.exists('go'):\n    try: time.sleep(0.01)\n    except KeyboardInterrupt: print('heard', flush=True)\n'done'";
    let arguments = ["exec", "-s", "s", "--interrupt-grace", "60s", "--key", "k", "-c", code, "--workspace"];
    let work = lab.work().display().to_string();
    let mut child = lab.spawn(arguments.iter().chain(&[work.as_str()]));
    read_until(&mut child, "deaf");
    let pid = i32::try_from(child.id()).unwrap();
    signal(pid, Signal::SIGINT);
    read_until(&mut child, "heard");
    signal(pid, Signal::SIGINT);
    let left = outcome(child);
    assert_eq!(left.code, 20, "{left:?}");
    let ticket = lab.session("s")["active"]["ticket"].as_str().unwrap().to_owned();
    assert!(left.stderr.contains(&ticket), "the way back is told: {left:?}");
    fs::write(lab.work().join("go"), "").unwrap();
    assert!(["cancelled", "completed"].contains(&lab.wait(&ticket)["state"].as_str().unwrap()));
}

#[test]
fn json_is_all_there_is_on_stdout() {
    let lab = Lab::started();
    let ticket = lab.exec("s", "print('x')")["ticket"].as_str().unwrap().to_owned();
    for arguments in [
        vec!["show", &ticket, "--json"],
        vec!["wait", &ticket, "--json"],
        vec!["sessions", "--json"],
        vec!["session", "show", "s", "--json"],
        vec!["status", "--json"],
        vec!["exec", "-s", "s", "-c", "print(1)", "--json"],
        vec!["submit", "-s", "s", "-c", "1", "--json"],
        vec!["show", "nothing", "--json"],
        vec!["doctor", "--json"],
    ] {
        let outcome = lab.run(&arguments);
        let value: Result<Value, _> = serde_json::from_str(&outcome.stdout);
        assert!(value.is_ok(), "{arguments:?}: {outcome:?}");
    }
    assert_eq!(lab.run(["show", "00000000000000000000000000"]).code, 4);
}
