//! What cells print and show: all of it counted, as much of it kept as there is room for, in its order.

use agarose_blackbox::{Lab, eventually, resident};
use serde_json::Value;

/// The counters of a stream agree with each other and with what is shown.
fn assert_counters(stream: &Value) {
    let count = |name: &str| stream[name].as_u64().unwrap();
    assert_eq!(count("seen"), count("retained") + count("dropped"), "{stream:#}");
    assert_eq!(stream["truncated"] == true, count("dropped") > 0);
    assert_eq!(stream["unit"], "bytes");
}

#[test]
fn an_endless_print_is_counted_bounded_and_stopped() {
    let lab = Lab::started();
    let ticket = lab.submit("s", "while True: print('a line that never ends')");
    lab.until(&ticket, "much is printed", |shown| shown["stdout"]["seen"].as_u64().unwrap() > 30_000_000);
    let daemon = resident(lab.daemon_pid());
    lab.run(["cancel", &ticket]).ok();
    let shown = lab.wait(&ticket);
    assert_eq!(shown["state"], "interrupted", "{}", shown["error"]);
    let stdout = &shown["stdout"];
    assert_counters(stdout);
    assert!(stdout["seen"].as_u64().unwrap() > stdout["retained"].as_u64().unwrap());
    assert_eq!(stdout["truncated"], true);
    assert!(daemon < 200 << 20, "the daemon holds {daemon} bytes");
    assert_eq!(lab.exec("s", "1")["state"], "completed");
}

#[test]
fn one_write_of_a_hundred_megabytes_is_counted_and_its_ends_are_kept() {
    let lab = Lab::started();
    let code = "import sys\nn = sys.stdout.write('HEAD' + 'x' * 10**8 + 'TAIL')";
    let shown = lab.exec("s", code);
    assert_eq!(shown["state"], "completed", "{}", shown["error"]);
    assert_counters(&shown["stdout"]);
    assert_eq!(shown["stdout"]["seen"], 100_000_008);
    let text = shown["stdout"]["text"].as_str().unwrap();
    assert!(text.starts_with("HEADxxx") && text.ends_with("xxxTAIL"), "{} bytes", text.len());
    assert!(text.contains("bytes dropped"), "the hole is told");
    assert!(resident(lab.daemon_pid()) < 200 << 20);
}

#[test]
fn what_fits_exactly_was_not_truncated() {
    let lab = Lab::started();
    let shown = lab.exec("s", "print('x' * 99_999)");
    assert_counters(&shown["stdout"]);
    assert_eq!(shown["stdout"]["seen"], 100_000);
    assert_eq!(shown["stdout"]["truncated"], false);
    assert_eq!(shown["stdout"]["text"].as_str().unwrap().len(), 100_000);
    assert_eq!(
        shown["stderr"],
        serde_json::json!({
            "text": "", "seen": 0, "retained": 0, "dropped": 0, "truncated": false, "unit": "bytes"
        })
    );
}

#[test]
fn a_child_that_fills_both_descriptors_in_turn_does_not_hang() {
    let lab = Lab::started();
    let code = r"
import subprocess, sys
child = '''
import os
for _ in range(8):
    for fd in (2, 1):
        left = 1_000_000
        while left: left -= os.write(fd, b'y' * min(left, 65536))
'''
subprocess.run([sys.executable, '-c', child], check=True)
";
    let shown = lab.exec_with("s", code, &["--timeout", "60s"]);
    assert_eq!(shown["state"], "completed", "{}", shown["error"]);
    for channel in ["stdout", "stderr"] {
        assert_counters(&shown[channel]);
        assert_eq!(shown[channel]["seen"], 8_000_000);
    }
}

#[test]
fn output_is_whole_before_the_last_word_and_stays_with_its_cell() {
    let lab = Lab::started();
    let tickets: Vec<String> = (0..60).map(|i| lab.submit("s", &format!("print({i})"))).collect();
    for (i, ticket) in tickets.iter().enumerate() {
        let shown = lab.wait(ticket);
        assert_eq!(shown["stdout"]["text"], format!("{i}\n"));
    }
}

#[test]
fn two_sessions_that_print_at_once_do_not_mix() {
    let lab = Lab::started();
    let code = |word: &str| format!("for i in range(3000): print('{word}', i)");
    let tickets = [("ping", lab.submit("a", &code("ping"))), ("pong", lab.submit("b", &code("pong")))];
    for (word, ticket) in &tickets {
        let expected: String = (0..3000).map(|i| format!("{word} {i}\n")).collect();
        assert_eq!(lab.wait(ticket)["stdout"]["text"], expected);
    }
}

#[test]
fn bytes_that_are_not_text_are_shown_replaced_and_kept_as_they_were() {
    let lab = Lab::started();
    let shown = lab.exec("s", "import os\nn = os.write(1, bytes(range(256)))");
    assert_eq!(shown["state"], "completed");
    assert_eq!(shown["stdout"]["seen"], 256);
    assert_eq!(shown["stdout"]["lossy"], true);
    assert!(shown["stdout"]["text"].as_str().unwrap().contains('\u{fffd}'));
    // Whoever follows live gets the bytes themselves.
    let live = lab.command(["exec", "-s", "s", "-c", "n = os.write(1, bytes(range(256)))"]).output().unwrap();
    assert_eq!(live.stdout, (0..=255).collect::<Vec<u8>>());
}

#[test]
fn nuls_surrogates_and_split_characters_come_through() {
    let lab = Lab::started();
    let code = r"
import os, sys
sys.stdout.write('\0nul\n')
sys.stdout.write('lone \ud800 surrogate\n')
sys.stdout.flush()
for byte in 'ü€😀'.encode(): os.write(1, bytes([byte]))
";
    let shown = lab.exec("s", code);
    assert_eq!(shown["state"], "completed", "{}", shown["error"]);
    let text = shown["stdout"]["text"].as_str().unwrap();
    assert!(text.starts_with("\0nul\nlone "), "{text:?}");
    assert!(text.ends_with("ü€😀"), "{text:?}");
}

#[test]
fn a_progress_bar_counts_every_byte() {
    let lab = Lab::started();
    let code = "import sys\nfor i in range(20_000): n = sys.stderr.write(f'\\r{i:6d}/20000')";
    let shown = lab.exec("s", code);
    assert_eq!(shown["state"], "completed", "{}", shown["error"]);
    assert_counters(&shown["stderr"]);
    assert_eq!(shown["stderr"]["seen"], 20_000 * 13);
    assert!(shown["stderr"]["text"].as_str().unwrap().ends_with("\r 19999/20000"));
}

#[test]
fn emoji_and_colours_pass_unchanged() {
    let lab = Lab::started();
    let text = "\x1b[31mred \u{1f980}\x1b[1m bold \u{1f1e9}\u{1f1ea}\x1b[0m";
    let shown =
        lab.exec("s", &format!("print({text:?})").replace("\\u{", "\\U{").replace("\\U{1b}", "\\x1b"));
    let printed = shown["stdout"]["text"].as_str().unwrap_or_default();
    assert_eq!(printed, format!("{text}\n"), "{shown:#}");
}

#[test]
fn an_endless_recursion_gives_a_bounded_traceback() {
    let lab = Lab::started();
    let shown = lab.exec("s", "def f(x): return f(x)\nf(0)");
    assert_eq!(shown["error"]["name"], "RecursionError", "{shown:#}");
    let traceback = shown["error"]["traceback"].as_str().unwrap();
    assert!(traceback.len() < 64 << 10, "{} bytes", traceback.len());
    assert!(traceback.contains("return f(x)"));
    // Two functions that call each other are not folded by Python itself.
    let shown = lab.exec("s", "def g(x): return h(x)\ndef h(x): return g(x)\ng(0)");
    assert_eq!(shown["error"]["name"], "RecursionError");
    assert!(shown["error"]["traceback"].as_str().unwrap().len() < 64 << 10);
}

#[test]
fn a_cell_that_closes_or_replaces_stdout_does_not_silence_the_next() {
    let lab = Lab::started();
    for hostile in [
        "import sys\nsys.stdout.close()",
        "import sys\nsys.stdout.detach()",
        "import sys\nsys.stdout = None",
        "import sys\nsys.stderr.close()\nsys.stdout = sys.stderr",
    ] {
        let _ = lab.exec("s", hostile);
        let next = lab.exec("s", "print('heard')");
        assert_eq!(next["state"], "completed", "after {hostile:?}: {next:#}");
        assert_eq!(next["stdout"]["text"], "heard\n", "after {hostile:?}");
    }
}

#[test]
fn a_hundred_figures_that_nobody_closes_are_shown_bounded_and_closed() {
    let lab = Lab::started();
    // A stand-in where matplotlib is not installed: the worker asks the module, not the package.
    let code = r#"
import sys
try:
    import matplotlib.pyplot as plt
    have = True
except ImportError:
    have = False
if have:
    for i in range(100): fig, ax = plt.subplots()
print(have)
"#;
    let shown = lab.exec_with("s", code, &["--timeout", "120s"]);
    assert_eq!(shown["state"], "completed", "{}", shown["error"]);
    if shown["stdout"]["text"] == "False\n" {
        eprintln!("skipped: matplotlib is not installed for the default interpreter");
        return;
    }
    assert_eq!(lab.exec("s", "len(plt.get_fignums())")["result"]["text/plain"], "0");
    assert!(!shown["figures"].as_array().unwrap().is_empty());
}

#[test]
fn channels_are_kept_in_the_order_of_their_writing() {
    let lab = Lab::started();
    let code = r#"
import os, sys
print("out 1")
print("err 1", file=sys.stderr)
display("shown")
os.write(1, b"out 2\n")
os.system("echo err 2 >&2")
print("out 3")
"#;
    let shown = lab.exec("s", code);
    assert_eq!(shown["state"], "completed", "{}", shown["error"]);
    let observed = lab.run(["observe", shown["ticket"].as_str().unwrap(), "--until", "end", "--json"]).json();
    let order: Vec<String> = observed["output"]
        .as_array()
        .unwrap()
        .iter()
        .map(|run| {
            let text = run["text"].as_str().unwrap_or_default();
            format!("{}:{text}", run["channel"].as_str().unwrap())
        })
        .collect();
    let expected = [
        "stdout:out 1\n",
        "stderr:err 1\n",
        "display:",
        "stdout:out 2\n",
        "stderr:err 2\n",
        "stdout:out 3\n",
    ];
    assert_eq!(order, expected, "{observed:#}");
}

#[test]
fn observations_follow_one_another_without_hole_or_repeat() {
    let lab = Lab::started();
    let code = "for i in range(5):\n    print(i, flush=True)\n    while not os.path.exists(f'{i}.gate'): time.sleep(0.005)";
    let ticket = lab.submit("s", &format!("import os, time\nos.chdir({:?})\n{code}", lab.work()));
    let mut next = 0;
    let mut text = String::new();
    for i in 0..5 {
        lab.until_printed(&ticket, &format!("{i}\n"));
        let from = next.to_string();
        let observed = lab.run([
            "observe",
            &ticket,
            "--until",
            "yield",
            "--yield-after",
            "1ms",
            "--from",
            &from,
            "--json",
        ]);
        let observed = observed.ok().json();
        assert_eq!(observed["running"], true);
        next = observed["next"].as_u64().unwrap();
        for run in observed["output"].as_array().unwrap() {
            text.push_str(run["text"].as_str().unwrap());
        }
        lab.open_gate(&i.to_string());
    }
    assert_eq!(lab.wait(&ticket)["stdout"]["text"], text);
    assert_eq!(text, "0\n1\n2\n3\n4\n");
}

#[test]
fn a_thread_that_prints_after_its_cell_is_not_taken_for_the_next_cell() {
    let lab = Lab::started();
    let code = format!(
        "import threading\ndef late():\n    import os, time\n    while not os.path.exists({:?}): time.sleep(0.005)\n    print('late')\nt = threading.Thread(target=late)\nt.start()",
        lab.work().join("thread.gate")
    );
    assert_eq!(lab.exec("s", &code)["state"], "completed");
    let next = lab.submit(
        "s",
        &format!(
            "print('mine')\nopen({:?}, 'w').close()\nt.join()\nprint('mine too')",
            lab.work().join("thread.gate")
        ),
    );
    let shown = lab.wait(&next);
    assert_eq!(shown["stdout"]["text"], "mine\nmine too\n", "{shown:#}");
}

#[test]
fn output_that_comes_while_nobody_listens_is_bounded_on_disk() {
    let mut lab = Lab::started();
    let gate = lab.gate("go");
    let ticket = lab.submit(
        "s",
        &format!("{gate}for i in range(3_000_000): print('a line of nineteen')\nprint('the end')"),
    );
    lab.until_begun(&ticket);
    lab.kill_daemon();
    lab.open_gate("go");
    let supervisor = *lab
        .processes()
        .iter()
        .find(|pid| {
            std::fs::read_to_string(format!("/proc/{pid}/cmdline"))
                .is_ok_and(|line| line.contains("supervise"))
        })
        .unwrap();
    lab.serve(&[]);
    let shown = lab.wait(&ticket);
    assert_eq!(shown["state"], "completed", "{}", shown["error"]);
    assert_eq!(shown["stdout"]["seen"], 57_000_000 + 8);
    assert!(shown["stdout"]["text"].as_str().unwrap().ends_with("the end\n"));
    let kernel = lab.kernel_directory(shown["generation"].as_str().unwrap());
    let held: u64 =
        std::fs::read_dir(kernel).unwrap().map(|file| file.unwrap().metadata().unwrap().len()).sum();
    assert!(held < 64 << 20, "{held} bytes");
    assert!(resident(supervisor) < 64 << 20);
    eventually("the supervisor is still there", || {
        Some(agarose_blackbox::is_alive(supervisor)).filter(|is| *is)
    });
}

#[test]
fn what_a_cell_shows_is_kept_by_its_type_and_large_displays_say_so() {
    let lab = Lab::started();
    let code = r#"
class Rich:
    def _repr_html_(self): return "<b>rich</b>"
    def __repr__(self): return "plain"
display(Rich())
class Huge:
    def _repr_html_(self): return "x" * (200 << 20)
    def __repr__(self): return "huge"
display(Huge())
Rich()
"#;
    let shown = lab.exec("s", code);
    assert_eq!(shown["state"], "completed", "{}", shown["error"]);
    assert_eq!(shown["display"][0]["data"]["text/html"], "<b>rich</b>");
    assert_eq!(shown["result"]["text/html"], "<b>rich</b>");
    assert_eq!(shown["result"]["text/plain"], "plain");
    assert!(shown["display"].to_string().len() < 1 << 20);
    let quiet = lab.exec("s", "41 + 1;");
    assert!(quiet.get("result").is_none(), "{quiet:#}");
}

#[test]
fn files_read_and_written_are_in_the_record_and_secrets_are_masked() {
    let lab = Lab::started();
    let code = "open('in.csv', 'w').write('a,b')\nx = open('in.csv').read()\nopen('out.txt', 'w').write(x)\nopen('.env', 'w').write('KEY=1')";
    let _ = lab.exec("s", code);
    let shown = lab
        .exec("s", "y = open('in.csv').read(); z = open('out2.txt', 'w').write(y); k = open('.env').read()");
    let paths = |of: &Value| -> Vec<String> {
        of.as_array().unwrap().iter().map(|file| file["path"].as_str().unwrap().to_owned()).collect()
    };
    assert!(paths(&shown["files_read"]).contains(&"in.csv".to_owned()), "{shown:#}");
    assert!(paths(&shown["files_written"]).contains(&"out2.txt".to_owned()), "{shown:#}");
    let read = shown["files_read"].as_array().unwrap().iter().find(|file| file["path"] == "in.csv").unwrap();
    assert_eq!(read["size"], 3);
    assert_eq!(read["sha256"].as_str().unwrap().len(), 64);
    assert!(!shown["files_read"].to_string().contains(".env"), "{shown:#}");
}
