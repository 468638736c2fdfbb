//! What cells ask of their host, with the real daemon, real shells and real crashes.

use std::{fs, path::Path};

use agarose_blackbox::{Lab, eventually, is_alive};
use nix::sys::signal::Signal;
use serde_json::{Value, json};

/// Rules that let every command run.
const OPEN: &str = "[[rule]]\nmethod = \"*\"\ndecision = \"allow\"\n";

fn lab_with(policy: &str) -> Lab {
    let mut lab = Lab::new();
    fs::create_dir_all(lab.data()).unwrap();
    fs::write(lab.data().join("policy.toml"), policy).unwrap();
    lab.serve(&[]);
    lab
}

/// Runs a cell that completes, and gives what it printed.
fn printed(lab: &Lab, code: &str) -> String {
    let shown = lab.exec("s", code);
    assert_eq!(shown["state"], "completed", "{shown:#}");
    shown["stdout"]["text"].as_str().unwrap().trim().to_owned()
}

/// The kind of the error that an expression raises.
fn kind_of(lab: &Lab, expression: &str) -> String {
    printed(
        lab,
        &format!("try:\n    {expression}\n    print('none')\nexcept host.HostError as e: print(e.kind)"),
    )
}

fn kinds(lab: &Lab, ticket: &str) -> Vec<String> {
    let events = lab.events().into_iter().filter(|event| event["ticket"] == ticket);
    events.map(|event| event["kind"].as_str().unwrap().to_owned()).collect()
}

fn workspace(lab: &Lab) -> std::path::PathBuf {
    lab.data().join("workspaces/s")
}

#[test]
fn values_keep_their_types_on_the_way_to_the_host_and_back() {
    let lab = Lab::started();
    let code = "
values = [1, 1.0, 2**80, float('inf'), b'\\x00\\xff', True, 'é', {'$int': 'x'}, {'a': [1, {'b': 2.5}]}]
host.todo_write([{'v': v} for v in values])
back = [item['v'] for item in host.todo_read()]
assert back == values, back
assert [type(v) for v in back] == [type(v) for v in values], back
print('same')";
    assert_eq!(printed(&lab, code), "same");
    // An argument that is None is left out; one that cannot be sent is refused before it is.
    assert_eq!(kind_of(&lab, "host.plan_update('a', 'done', None)"), "none");
    assert_eq!(kind_of(&lab, "host.todo_write([object()])"), "bad_request");
    assert_eq!(kind_of(&lab, "host.todo_write([{1: 2}])"), "bad_request");
}

#[test]
fn wrong_arguments_are_refused_by_their_name_and_the_worker_goes_on() {
    let lab = Lab::started();
    let message = printed(
        &lab,
        "try: host._call('read_file', path='a', limit='many')
except host.HostError as e: print(e.kind, e)
try: host._call('read_file', path='a', pth=1)
except host.HostError as e: print(e.kind, e)
try: host._call('no_such_method')
except host.HostError as e: print(e.kind, e)
try: host.write_file('a', 'x' * (16 << 20))
except host.HostError as e: print(e.kind)
print(host.todo_read())",
    );
    let lines: Vec<&str> = message.lines().collect();
    assert!(lines[0].starts_with("bad_request") && lines[0].contains("limit"), "{message}");
    assert!(lines[1].starts_with("bad_request") && lines[1].contains("pth"), "{message}");
    assert!(lines[2].starts_with("unavailable") && lines[2].contains("no_such_method"), "{message}");
    assert_eq!(lines[3..], ["too_large", "[]"], "{message}");
}

#[test]
fn calls_of_threads_take_turns_and_those_that_are_left_behind_end_with_their_cell() {
    let lab = Lab::started();
    let code = "
import threading
def work(n):
    for i in range(20): host.plan_update(f'{n}-{i}', 'done')
threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
[t.start() for t in threads]; [t.join() for t in threads]
print(len(host.plan_read()))";
    assert_eq!(printed(&lab, code), "80");
    // A thread waits for a person when its cell ends: the call is given up, and the next cell is served.
    let code = "
import threading
told = []
def ask():
    try: host.bash('true')
    except host.HostError as e: told.append(e.kind)
thread = threading.Thread(target=ask); thread.start()
import time
while not host._calls.turn.locked(): time.sleep(0.001)
time.sleep(0.05)";
    let left = lab.exec("s", code);
    assert_eq!(left["state"], "completed", "{left:#}");
    assert_eq!(printed(&lab, "thread.join(); print(told, len(host.plan_read()))"), "['cancelled'] 80");
    let outcomes: Vec<&Value> =
        left["host_calls"].as_array().unwrap().iter().map(|call| &call["outcome"]).collect();
    assert_eq!(outcomes, ["cancelled"], "{left:#}");
    assert_eq!(lab.run(["pending", "--json"]).ok().json(), json!([]));
}

#[test]
fn every_call_is_in_the_log_with_what_was_decided_and_secrets_are_masked() {
    let lab = Lab::started();
    printed(&lab, "host.remember('api_key=hunter2secret')\nhost.write_file('a.txt', 'x')");
    let audit = lab.run(["log", "audit"]).ok().stdout;
    assert!(audit.contains("host.remember") && audit.contains("host.write_file (a.txt)"), "{audit}");
    let whole = lab.run(["log", "export"]).ok().stdout;
    assert!(audit.contains("***") && !audit.contains("hunter2secret"), "{audit}");
    let started = whole.lines().filter(|line| line.contains("HostCallStarted"));
    assert!(
        started.clone().count() == 2 && started.clone().all(|line| !line.contains("hunter2secret")),
        "{whole}"
    );
}

#[test]
fn a_question_freezes_the_budget_and_its_answer_runs_the_command_or_does_not() {
    let lab = Lab::started();
    let code = "
for command in ('echo ran', 'echo not'):
    try: print(host.bash(command)['stdout'].strip())
    except host.HostError as e: print(e.kind, e)";
    let ticket = lab.submit_with("s", code, &["--timeout", "5s"]);
    let question = |method: &'static str| {
        eventually("a question", || {
            let asked = lab.run(["pending", "--json"]).ok().json();
            let asked = asked.as_array()?.first()?.clone();
            (asked["detail"].as_str()? == method).then(|| asked["id"].as_str().unwrap().to_owned())
        })
    };
    let observed = lab.run(["observe", &ticket, "--until", "pending", "--json"]).ok().json();
    assert_eq!(observed["outstanding"][0]["method"], "bash", "{observed:#}");
    let first = question("echo ran");
    assert_eq!(observed["outstanding"][0]["permission"], first);
    lab.run(["approve", &first]).ok();
    lab.run(["deny", &question("echo not")]).ok();
    let shown = lab.wait(&ticket);
    let text = shown["stdout"]["text"].as_str().unwrap();
    assert!(text.starts_with("ran\ndenied") && text.contains("said no"), "{shown:#}");
}

#[test]
fn the_rules_of_the_policy_are_kept_and_a_veto_beats_an_allowance() {
    let lab = lab_with(
        "[[rule]]\nmethod = \"bash\"\ndecision = \"allow\"\n[[rule]]\nmethod = \"bash\"\nmatch = \"*danger*\"\n\
         decision = \"deny\"\nreason = \"too dangerous\"\n[[rule]]\nmethod = \"write_file\"\nsession = \"other\"\n\
         decision = \"deny\"\n",
    );
    assert_eq!(printed(&lab, "print(host.bash('echo fine')['stdout'])"), "fine");
    let refused = printed(&lab, "try: host.bash('echo danger')\nexcept host.HostError as e: print(e)");
    assert!(refused.contains("too dangerous"), "{refused}");
    assert_eq!(kind_of(&lab, "host.write_file('a', 'x')"), "none");
    let other = lab.exec("other", "host.write_file('a', 'x')");
    assert_eq!(other["state"], "failed");
    let mut lab = Lab::new();
    fs::create_dir_all(lab.data()).unwrap();
    fs::write(lab.data().join("policy.toml"), "[[rule]]\nmethod = 7\n").unwrap();
    let (status, said) = lab.try_serve(&[]).unwrap_err();
    assert_eq!(status.code(), Some(2), "{said}");
    assert!(said.contains("policy.toml") && said.contains("method"), "{said}");
}

#[test]
fn where_nobody_can_be_asked_asking_is_a_no() {
    let lab = Lab::new();
    fs::write(lab.work().join("a.py"), "try: host.bash('true')\nexcept host.HostError as e: print(e)")
        .unwrap();
    let run = lab.run(["run", "a.py"]).ok();
    assert!(run.stdout.contains("nobody is there who could be asked"), "{run:?}");
}

#[test]
fn what_no_rule_allows_is_refused_before_anybody_is_asked() {
    let lab = Lab::started();
    for (command, kind) in [("cat .env", "secret"), ("rm -rf /", "denied"), ("", "bad_request")] {
        assert_eq!(kind_of(&lab, &format!("host.bash({command:?})")), kind, "{command}");
    }
    assert_eq!(kind_of(&lab, "host.bash('true', workdir='/')"), "out_of_bounds");
    assert_eq!(kind_of(&lab, "host.bash('true', timeout=float('inf'))"), "bad_request");
    assert_eq!(lab.run(["pending", "--json"]).ok().json(), json!([]));
}

#[test]
fn a_capability_serves_exactly_its_own_command_once() {
    let lab = lab_with(OPEN);
    let ask = "
import hashlib, os
def ask(command='true'):
    sha = hashlib.sha256(command.encode()).hexdigest()
    return host._call('bash', command=command, command_sha256=sha, cwd=os.getcwd(),
                      generation=host._calls.cells.generation, challenge='c' * 32, timeout_ms=1000, detach=False)
def kind(**changes):
    granted = dict(ask(), **changes)
    try: host._call('bash_start', **granted); return 'none'
    except host.HostError as e: return e.kind";
    printed(&lab, ask);
    assert_eq!(printed(&lab, "print(kind())"), "none");
    for change in [
        "command_sha256='0' * 64",
        "cwd='/tmp'",
        "root='/'",
        "generation='g77'",
        "challenge='d' * 32",
        "expires_ms=10**15",
        "issued_ms=0",
        "detach=True",
    ] {
        assert_eq!(printed(&lab, &format!("print(kind({change}))")), "capability_mismatch", "{change}");
    }
    assert_eq!(printed(&lab, "print(kind(token='x' * 43))"), "capability_unknown");
    let replay = "
granted = ask()
host._call('bash_start', **granted)
try: host._call('bash_start', **granted)
except host.HostError as e: print(e.kind)
report = dict(token=granted['token'], status='completed', wall_ms=1, stdout_seen=1, stdout_retained=5, stderr_seen=0,
              stderr_retained=0, stopped=0)
host._call('bash_report', **report)
try: host._call('bash_report', **report)
except host.HostError as e: print(e.kind)";
    assert_eq!(printed(&lab, replay), "capability_consumed\ncapability_unknown");
    // What was claimed to be kept and never seen is clamped.
    let report = lab.events().into_iter().rfind(|event| event["kind"] == "CapabilityReported").unwrap();
    assert_eq!(report["data"]["report"]["stdout"]["retained"], 1, "{report}");
    // A capability is one cell's: the next has nothing of it.
    printed(&lab, "granted = ask()");
    let late = "try: host._call('bash_start', **granted)\nexcept host.HostError as e: print(e.kind)";
    assert_eq!(printed(&lab, late), "capability_unknown");
}

#[test]
fn a_command_past_its_deadline_leaves_nothing_and_the_shell_s_leaving_is_not_its_end() {
    let lab = lab_with(OPEN);
    let code = "
import os
script = '''import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen(['sleep', '1000'], start_new_session=True)
open('pids', 'w').write(f'{os.getpid()} {child.pid}')
print('training', flush=True)
time.sleep(1000)'''
open('train.py', 'w').write(script)
try: host.bash('bash -c \"python3 train.py\"', timeout=1.5)
except host.HostError as e: print(e.kind, e.details['stdout'].strip(), e.details['stopped'])
# The shell leaves at once; who holds its output is part of the command until the deadline.
try: host.bash('sleep 1000 & echo $! > background', timeout=1)
except host.HostError as e: print(e.kind)
# Who does not is stopped when the shell has left.
host.bash('sleep 1000 > /dev/null 2>&1 & echo $! > quiet')";
    let said = printed(&lab, code);
    let lines: Vec<&str> = said.lines().collect();
    assert!(lines[0].starts_with("timeout training"), "{said}");
    assert_eq!(lines[1], "timeout");
    for file in ["pids", "background", "quiet"] {
        let text = fs::read_to_string(workspace(&lab).join(file)).unwrap();
        for pid in text.split_whitespace() {
            assert!(!is_alive(pid.parse().unwrap()), "{file}: {pid} is alive");
        }
    }
}

#[test]
fn a_command_s_output_costs_bounded_memory_and_is_counted_whole() {
    let lab = lab_with(OPEN);
    let code = "
import resource
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
r = host.bash('head -c 300000000 /dev/zero; echo -n end')
grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
print(r['stdout_counters']['seen'], r['stdout_counters']['retained'], r['stdout'].endswith('end'), grown < 50_000)";
    assert_eq!(printed(&lab, code), "300000003 30000 True True");
    let report = lab.events().into_iter().find(|event| event["kind"] == "CapabilityReported").unwrap();
    assert_eq!(report["data"]["report"]["stdout"]["seen"], 300_000_003, "{report}");
}

#[test]
fn a_command_tells_what_it_changed_in_the_workspace() {
    let lab = lab_with(OPEN);
    let code = "
open('old', 'w').write('1'); open('gone', 'w').write('1')
c = host.bash('echo 22 > old; rm gone; s=server.; touch new ${s}pem')['changes']
print(c['created'], c['changed'], c['removed'])";
    let said = printed(&lab, code);
    assert!(
        said.contains("'new'") && said.contains("['old'] ['gone']") && !said.contains("server.pem"),
        "{said}"
    );
}

#[test]
fn an_interrupt_stops_the_command_and_the_log_says_so() {
    let lab = lab_with(OPEN);
    let ticket = lab.submit("s", "host.bash('echo $$ > pid; sleep 1000')");
    let pid = eventually("the command", || {
        let text = fs::read_to_string(workspace(&lab).join("pid")).ok()?;
        text.trim().parse::<i32>().ok()
    });
    lab.run(["interrupt", &ticket]).ok();
    assert_eq!(lab.wait(&ticket)["state"], "interrupted");
    assert!(!is_alive(pid));
    let report = lab.events().into_iter().find(|event| event["kind"] == "CapabilityReported").unwrap();
    assert_eq!(report["data"]["report"]["status"], "interrupted", "{report}");
    // While somebody is asked an interrupt gives the call up, and the worker serves the next cell.
    lab.serve_again();
}

trait Again {
    fn serve_again(&self);
}

impl Again for Lab {
    fn serve_again(&self) {
        assert_eq!(printed(self, "print(host.bash('echo again')['stdout'])"), "again");
    }
}

#[test]
fn an_interrupt_while_somebody_is_asked_gives_the_call_up() {
    let lab = Lab::started();
    let ticket = lab.submit("s", "host.bash('true')");
    eventually("the question", || lab.run(["pending", "--json"]).ok().json().as_array()?.first().cloned());
    lab.run(["interrupt", &ticket]).ok();
    assert_eq!(lab.wait(&ticket)["state"], "interrupted");
    assert_eq!(lab.run(["pending", "--json"]).ok().json(), json!([]));
    assert_eq!(printed(&lab, "print(host.todo_read())"), "[]");
    let cancelled = lab.show(&ticket);
    assert_eq!(cancelled["host_calls"][0]["outcome"], "cancelled", "{cancelled:#}");
}

/// Runs `host.bash` in a cell that stops at one of its steps until a file is there, kills the daemon there, starts it
/// again and lets the cell go on. Gives what the cell said, and how often the command ran.
fn killed_at(step: &str) -> (Lab, String, String, usize) {
    let mut lab = lab_with(OPEN);
    let code = format!(
        "
import os, time
calls = host._calls
usual = calls.call
def call(method, arguments):
    value = usual(method, arguments)
    if method == '{step}':
        open('at', 'w').close()
        while not os.path.exists('go'): time.sleep(0.01)
    return value
calls.call = call
try: print(host.bash('echo ran >> runs')['exit_code'])
except host.HostError as e: print(e.kind)
finally: calls.call = usual"
    );
    let ticket = lab.submit("s", &code);
    let at = workspace(&lab).join("at");
    eventually("the step", || at.exists().then_some(()));
    lab.kill_daemon();
    lab.serve(&[]);
    fs::write(workspace(&lab).join("go"), "").unwrap();
    let shown = lab.wait(&ticket);
    let said = shown["stdout"]["text"].as_str().unwrap_or_default().trim().to_owned();
    let runs = fs::read_to_string(workspace(&lab).join("runs")).unwrap_or_default().lines().count();
    (lab, ticket, said, runs)
}

#[test]
fn a_daemon_killed_between_grant_and_start_voids_the_grant_and_nothing_runs() {
    let (lab, ticket, said, runs) = killed_at("bash");
    assert_eq!((said.as_str(), runs), ("capability_unknown", 0));
    let voided = lab.events().into_iter().find(|event| event["kind"] == "CapabilityVoided").unwrap();
    assert_eq!(voided["data"]["reason"], "daemon_restarted", "{voided}");
    assert!(!kinds(&lab, &ticket).contains(&"CapabilityConsumed".to_owned()));
}

#[test]
fn a_daemon_killed_between_start_and_command_leaves_it_to_run_once_and_be_reported() {
    let (lab, ticket, said, runs) = killed_at("bash_start");
    assert_eq!((said.as_str(), runs), ("0", 1));
    let kinds = kinds(&lab, &ticket);
    assert_eq!(kinds.iter().filter(|kind| *kind == "CapabilityConsumed").count(), 1);
    assert_eq!(kinds.iter().filter(|kind| *kind == "CapabilityReported").count(), 1);
}

#[test]
fn a_daemon_killed_during_a_command_hears_of_its_end_when_it_is_there_again() {
    let mut lab = lab_with(OPEN);
    let code =
        "print(host.bash('echo ran >> runs; while [ ! -e go ]; do sleep 0.02; done; echo over')['stdout'])";
    let ticket = lab.submit("s", code);
    let runs = workspace(&lab).join("runs");
    eventually("the command", || runs.exists().then_some(()));
    lab.kill_daemon();
    fs::write(workspace(&lab).join("go"), "").unwrap();
    lab.serve(&[]);
    let shown = lab.wait(&ticket);
    assert_eq!(shown["state"], "completed", "{shown:#}");
    assert_eq!(fs::read_to_string(runs).unwrap(), "ran\n");
    assert_eq!(kinds(&lab, &ticket).iter().filter(|kind| *kind == "CapabilityReported").count(), 1);
}

#[test]
fn a_worker_killed_during_a_command_leaves_an_unknown_outcome_in_the_log() {
    let lab = lab_with(OPEN);
    let ticket = lab.submit("s", "host.bash('echo $$ > pid; sleep 1000')");
    let pid: i32 = eventually("the command", || {
        fs::read_to_string(workspace(&lab).join("pid")).ok()?.trim().parse().ok()
    });
    agarose_blackbox::signal(lab.worker("s"), Signal::SIGKILL);
    assert_eq!(lab.wait(&ticket)["state"], "failed");
    let voided = lab.events().into_iter().find(|event| event["kind"] == "CapabilityVoided").unwrap();
    assert_eq!(voided["data"]["reason"], "outcome_unknown", "{voided}");
    eventually("the end of the command", || (!is_alive(pid)).then_some(()));
}

#[test]
fn a_question_outlives_its_daemon_and_its_answer_runs_the_command() {
    let mut lab = Lab::started();
    let ticket = lab.submit("s", "print(host.bash('echo ran')['stdout'])");
    let first = |lab: &Lab| {
        eventually("the question", || lab.run(["pending", "--json"]).ok().json().as_array()?.first().cloned())
    };
    let before = first(&lab);
    lab.kill_daemon();
    lab.serve(&[]);
    let after = first(&lab);
    assert_eq!(before["id"], after["id"]);
    lab.run(["approve", after["id"].as_str().unwrap()]).ok();
    let shown = lab.wait(&ticket);
    assert_eq!(shown["stdout"]["text"], "ran\n\n", "{shown:#}");
}

#[test]
fn files_of_the_workspace_are_read_written_and_searched_and_nothing_else() {
    let lab = Lab::started();
    let code = "
host.write_file('sub/a.py', 'import os\\nprint(1)\\n')
host.edit_file('sub/a.py', 'print(1)', 'print(2)')
assert open('sub/a.py').read() == 'import os\\nprint(2)\\n'
assert host.read_file('sub/a.py', offset=1, limit=1)['content'] == 'print(2)\\n'
assert host.glob('**/*.py')['files'] == ['sub/a.py']
assert host.grep('import')['hits'][0]['line'] == 1
assert [e['name'] for e in host.list_dir('sub')['entries']] == ['a.py']
import os
os.symlink('/etc', 'out')
open('.env', 'w').write('KEY=1')
print('fine')";
    assert_eq!(printed(&lab, code), "fine");
    for (path, kind) in [
        ("../x", "out_of_bounds"),
        ("/etc/passwd", "out_of_bounds"),
        ("out/passwd", "out_of_bounds"),
        (".env", "secret"),
        ("absent", "not_found"),
        ("sub", "invalid"),
    ] {
        assert_eq!(kind_of(&lab, &format!("host.read_file({path:?})")), kind, "{path}");
    }
    assert_eq!(kind_of(&lab, "host.write_file('out/x', '')"), "out_of_bounds");
}

#[test]
fn artifacts_are_versions_that_never_change_and_know_where_they_came_from() {
    let lab = Lab::started();
    let code = "
open('data.csv', 'w').write('a,b\\n1,2\\n')
raw = host.save_artifact('data.csv', source={'url': 'https://example.org/data'})
open('data.csv', 'w').write('changed')
made = host.save_artifact(b'model', filename='model.bin', input_version_ids=[raw['version_id']])
again = host.save_artifact('data.csv')
assert open(host.artifact_path(raw['version_id'])).read() == 'a,b\\n1,2\\n'
graph = host.lineage.graph(made['version_id'])
assert [n['name'] for n in graph['nodes']] == ['model.bin', 'data.csv'] and not graph['truncated']
assert host.lineage.graph(made['version_id'], max_nodes=1)['truncated']
assert [a['version'] for a in host.artifacts(name='data')] == [2, 1]
assert host.lineage[raw['version_id']]['source'] == {'url': 'https://example.org/data'}
print(raw['version_id'])";
    let version = printed(&lab, code);
    // Another session cannot know it, and can bring it in by its name, with an edge back.
    let other = lab.exec(
        "other",
        &format!(
            "try: host.lineage[{version:?}]
except host.HostError as e: print(e.kind)
try: host.lineage['0' * 26]
except host.HostError as e: print(e.kind)
own = host.materialise_artifact({version:?})
print(open(own['path']).read())
print(host.lineage[own['version_id']]['origin'] == {version:?})"
        ),
    );
    assert_eq!(other["stdout"]["text"], "not_found\nnot_found\na,b\n1,2\n\nTrue\n", "{other:#}");
    let listed = lab.run(["artifacts", "--json"]).ok().json();
    assert_eq!(listed.as_array().unwrap().len(), 4, "{listed:#}");
    let lineage = lab.run(["lineage", &version]).ok().stdout;
    assert!(lineage.contains("data.csv v1"), "{lineage}");
    assert_eq!(lab.run(["lineage", "nonsense"]).code, 4);
}

#[test]
fn images_are_shown_and_what_is_none_is_not() {
    let lab = Lab::started();
    let code = "
import base64
png = base64.b64decode('iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==')
open('dot.png', 'wb').write(png)
host.view_image(path='dot.png')
open('a.txt', 'w').write('x')
try: host.view_image(path='a.txt')
except host.HostError as e: print(e.kind)";
    let shown = lab.exec("s", code);
    assert_eq!(shown["stdout"]["text"], "invalid\n", "{shown:#}");
    assert!(shown["display"][0]["data"]["image/png"].is_string(), "{shown:#}");
}

#[test]
fn a_submission_counts_when_its_cell_completes_and_the_last_valid_one_counts() {
    let lab = Lab::started();
    let code = "
host.submit_output({'n': 1}, ['Counted rows'])
host.submit_output({'n': 2}, ['Counted rows again'])
try: host.submit_output({'n': 3}, ['Count rows'])
except host.HostError as e: print(e.kind)
try: host.submit_output({'n': 3}, ['Counted'], {'properties': {'n': {'type': 'string'}}})
except host.HostError as e: print(e.kind, e.details)";
    let shown = lab.exec("s", code);
    assert_eq!(shown["submission"]["output"], json!({"n": 2}), "{shown:#}");
    assert_eq!(shown["stdout"]["text"], "invalid\ninvalid {'path': '/n'}\n");
    // One of a cell that does not complete is none; neither is what was printed or returned.
    let failed = lab.exec("s", "host.submit_output({}, ['Did it'])\n1/0");
    assert_eq!((failed["state"].as_str(), failed.get("submission")), (Some("failed"), None));
    assert_eq!(lab.exec("s", "host.todo_read()").get("submission"), None);
}

#[test]
fn documents_of_a_session_last_over_kernels_and_daemons() {
    let mut lab = Lab::started();
    printed(
        &lab,
        "host.todo_write([{'text': 'fit'}]); host.plan_update('1', 'done', 'quickly'); host.remember('x')",
    );
    agarose_blackbox::signal(lab.worker("s"), Signal::SIGKILL);
    lab.kill_daemon();
    lab.serve(&[]);
    let said = printed(&lab, "print(host.todo_read(), host.plan_read())");
    assert_eq!(said, "[{'text': 'fit'}] {'1': {'note': 'quickly', 'status': 'done'}}");
    assert_eq!(kind_of(&lab, "host.plan_update('1', 'finished')"), "bad_request");
}

#[test]
fn work_in_the_background_is_a_ticket_of_its_own_and_outlives_the_cell() {
    let lab = lab_with(OPEN);
    let id = printed(
        &lab,
        "job = host.exec_background('print(6 * 7, flush=True)\\nimport time; time.sleep(1000)')\nprint(job['id'])",
    );
    eventually("its output", || {
        printed(&lab, &format!("print(host.exec_peek({id:?})['stdout'])")).eq("42").then_some(())
    });
    assert!(printed(&lab, "print(host.exec_list())").contains(&id));
    assert_eq!(printed(&lab, &format!("print(host.exec_interrupt({id:?})['stopping'])")), "True");
    assert_eq!(lab.wait(&id)["state"], "interrupted");
    // Another session's job is not told from none.
    let other =
        lab.exec("other", &format!("try: host.exec_peek({id:?})\nexcept host.HostError as e: print(e.kind)"));
    assert_eq!(other["stdout"]["text"], "not_found\n", "{other:#}");
}

#[test]
fn a_method_that_nobody_serves_says_what_would_serve_it() {
    let lab = Lab::started();
    let said = printed(&lab, "try: host.llm('hi')\nexcept host.HostError as e: print(e.kind, e)");
    assert!(
        said.starts_with("unavailable") && said.contains("host.llm") && said.contains("language model"),
        "{said}"
    );
    assert_eq!(printed(&lab, "print(hasattr(host, 'no_such_thing'))"), "False");
    let said = printed(
        &lab,
        "print(sorted(host.capabilities()['unavailable'])[0], 'read_file' in host.capabilities()['methods'])",
    );
    assert_eq!(said, "children True");
}

#[test]
fn a_second_observer_is_busy_and_the_first_gets_its_answer() {
    let lab = Lab::started();
    let gate = lab.gate("go");
    let ticket = lab.submit("s", &format!("print('one', flush=True)\n{gate}\nprint('two')"));
    lab.until_printed(&ticket, "one");
    let first = lab.spawn(["observe", &ticket, "--until", "end", "--json"]);
    // Whoever is second is busy as soon as the first is there.
    let busy = eventually("a busy answer", || {
        let second = lab.run(["observe", &ticket, "--until", "yield", "--yield-after", "1ms", "--json"]);
        (second.code == 20).then_some(second)
    });
    assert!(busy.stderr.contains("observed by somebody else") || busy.stdout.contains("busy"), "{busy:?}");
    lab.open_gate("go");
    let first = agarose_blackbox::outcome(first);
    let observed: Value = serde_json::from_str(&first.stdout).unwrap();
    assert_eq!(observed["state"], "completed", "{first:?}");
}

#[test]
fn an_observer_that_goes_away_loses_nothing_and_a_restart_keeps_the_place() {
    let mut lab = Lab::started();
    let gate = lab.gate("go");
    let ticket = lab.submit(
        "s",
        &format!("print('one', flush=True)\n{gate}\nprint('two', flush=True)\nimport time; time.sleep(1000)"),
    );
    lab.until_printed(&ticket, "one");
    let text = |observed: &Value| -> String {
        observed["output"]
            .as_array()
            .unwrap()
            .iter()
            .map(|run| run["text"].as_str().unwrap_or_default())
            .collect()
    };
    let observe = |lab: &Lab| lab.run(["observe", &ticket, "--yield-after", "300ms", "--json"]).ok().json();
    assert_eq!(text(&observe(&lab)), "one\n");
    let mut gone = lab.spawn(["observe", &ticket, "--until", "end", "--json"]);
    gone.kill().unwrap();
    gone.wait().unwrap();
    lab.open_gate("go");
    lab.until_printed(&ticket, "two");
    let seen = lab.events_of(&ticket, "OutputObserved").len();
    assert_eq!(seen, 1);
    lab.kill_daemon();
    lab.serve(&[]);
    assert_eq!(text(&observe(&lab)), "two\n");
}

#[test]
fn a_process_that_a_cell_forked_has_no_host() {
    let lab = Lab::started();
    let code = "
import os
r, w = os.pipe()
pid = os.fork()
if pid == 0:
    try: host.todo_read()
    except host.HostError as e: os.write(w, e.kind.encode())
    os._exit(0)
os.waitpid(pid, 0)
print(os.read(r, 100).decode(), host.todo_read())";
    assert_eq!(printed(&lab, code), "unavailable []");
}

#[test]
fn a_thousand_calls_leave_nothing_behind() {
    let lab = Lab::started();
    let code = "
import os
host.todo_read()
before = len(os.listdir('/proc/self/fd'))
for i in range(1000): host.todo_read()
print(len(os.listdir('/proc/self/fd')) - before)";
    assert_eq!(printed(&lab, code), "0");
    let shown = lab.exec("s", "host.todo_read()");
    assert_eq!(shown["host_calls_count"], 1);
    assert!(Path::new(&workspace(&lab)).exists());
}
