//! The Python worker over real pipes, in every CPython from 3.9 on that this machine has.
#![expect(
    clippy::print_stderr,
    reason = "a test says which interpreters it ran, and what it had to leave out"
)]

#[path = "python_worker/driver.rs"]
mod driver;

use std::{
    collections::BTreeMap,
    fs,
    os::unix::process::ExitStatusExt,
    thread,
    time::{Duration, Instant},
};

use driver::{Cell, Event, Outcome, Python, Worker, pythons, text};
use serde_json::{Value, json};

const WORKER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/workers/python/agarose_worker.py");

fn start(python: &Python) -> Outcome<Worker> {
    start_with(python, json!({}))
}

fn start_with(python: &Python, options: Value) -> Outcome<Worker> {
    Worker::start(&[&python.path.to_string_lossy(), WORKER], options)
}

/// Runs the test once in each interpreter, and says which.
fn each(test: impl Fn(&Python) -> Outcome<()>) -> Outcome<()> {
    let found = pythons();
    if found.is_empty() {
        eprintln!("left out: no CPython from 3.9 on found");
    }
    for python in found {
        eprintln!("in {}", python.path.display());
        test(python).map_err(|error| format!("in {}: {error}", python.path.display()))?;
    }
    Ok(())
}

/// Runs the cells in a fresh worker; the outcome of the last.
fn last(python: &Python, cells: &[&str]) -> Outcome<Cell> {
    let mut worker = start(python)?;
    let mut last = Cell::default();
    for source in cells {
        last = worker.run(source)?;
    }
    Ok(last)
}

fn can_import(python: &Python, module: &str) -> Outcome<bool> {
    let code = format!("import {module}");
    Ok(std::process::Command::new(&python.path).args(["-c", &code]).output()?.status.success())
}

#[test]
fn the_ready_frame_names_the_interpreter() -> Outcome<()> {
    each(|python| {
        let worker = start(python)?;
        let ready = &worker.ready;
        assert_eq!(ready["protocol"], 1);
        assert_eq!(ready["language"], "python");
        assert_eq!(ready["pid"], worker.pid());
        assert_eq!(ready["executable"], *python.path.to_string_lossy());
        assert!(text(&ready["version"]).starts_with(&format!("{}.{}.", python.version.0, python.version.1)));
        assert_eq!(text(&ready["packages_digest"]).len(), 64);
        Ok(())
    })
}

#[test]
fn state_persists_and_the_last_value_is_shown() -> Outcome<()> {
    each(|python| {
        let mut worker = start(python)?;
        let first = worker.run("x = 20\nprint('hello')\nx + 1")?;
        assert_eq!((first.out().as_str(), first.value().as_str()), ("hello\n", "21"));
        assert_eq!((first.status().as_str(), &first.field("interrupt_seen")), ("ok", &json!(false)));
        assert!(first.field("usage")["peak_rss_kb"].as_u64() > Some(1000));
        assert_eq!(worker.run("x * 2")?.value(), "40");
        assert_eq!(worker.run("x;")?.value(), "");
        assert_eq!(worker.run("(x  # a ; in a comment\n)")?.value(), "20");
        assert_eq!(worker.run("(x  # a\n) ;  # suppressed")?.value(), "");
        assert_eq!(worker.run("None")?.value(), "");
        assert_eq!(worker.run("_")?.value(), "20");
        assert_eq!(worker.run("'a;b'")?.value(), "'a;b'");
        assert_eq!(worker.run("")?.status(), "ok");
        assert_eq!(worker.run("# only a comment")?.status(), "ok");
        Ok(())
    })
}

#[test]
fn main_is_a_module_with_nothing_of_the_worker_in_it() -> Outcome<()> {
    each(|python| {
        let mut worker = start(python)?;
        let names = worker.run("sorted(globals())")?;
        assert_eq!(
            names.value(),
            "['__builtins__', '__doc__', '__loader__', '__name__', '__package__', '__spec__']"
        );
        let same =
            "import sys\n(__name__, sys.modules['__main__'].__dict__ is globals(), sys.argv, sys.path[0])";
        assert_eq!(worker.run(same)?.value(), "('__main__', True, [''], '')");
        let modules = worker.run("[name for name in sys.modules if 'agarose' in name], \
                                  [name for name in ('asyncio', 'inspect', 'json', 'threading') if name in sys.modules]")?;
        assert!(modules.value().starts_with("([], "), "{}", modules.value());
        let environment = worker.run("import os; [name for name in os.environ if 'AGAROSE' in name]")?;
        assert_eq!(environment.value(), "[]");
        Ok(())
    })
}

#[test]
fn what_a_cell_defines_pickles_and_shows_its_source() -> Outcome<()> {
    each(|python| {
        let mut worker = start(python)?;
        worker.run("import dataclasses, inspect, pickle\n@dataclasses.dataclass\nclass Point:\n    x: int\n    y: int = 2\n")?;
        worker.run("def double(n):\n    # by two\n    return n * 2\n")?;
        worker.run("class Bare:\n    word = 'bare'\n")?;
        assert_eq!(
            worker
                .run("pickle.loads(pickle.dumps(Point(1))), pickle.loads(pickle.dumps(double))(4)")?
                .value(),
            "(Point(x=1, y=2), 8)"
        );
        assert_eq!(
            worker.run("print(inspect.getsource(double), end='')")?.out(),
            "def double(n):\n    # by two\n    return n * 2\n"
        );
        assert_eq!(
            worker.run("print(inspect.getsource(Bare), end='')")?.out(),
            "class Bare:\n    word = 'bare'\n"
        );
        assert_eq!(worker.run("print(inspect.getsource(Point).splitlines()[-1])")?.out(), "    y: int = 2\n");
        Ok(())
    })
}

#[test]
fn forked_and_spawned_pools_run_what_cells_define() -> Outcome<()> {
    each(|python| {
        let mut worker = start(python)?;
        worker.run("import multiprocessing, collections, os\nfrom concurrent.futures import ProcessPoolExecutor\nOFFSET = 5")?;
        worker.run("Pair = collections.namedtuple('Pair', 'a b')\nprint('only once')\ndef work(n):\n    return Pair(n, helper(n))")?;
        worker.run("helper = lambda n: n * n + OFFSET\nif __name__ == '__main__':\n    print('main')")?;
        for method in ["fork", "spawn", "forkserver"] {
            let cell = worker.run(&format!(
                "context = multiprocessing.get_context('{method}')\nwith context.Pool(2) as pool:\n    print(pool.map(work, range(3)))"
            ))?;
            assert_eq!(
                cell.out(),
                "[Pair(a=0, b=5), Pair(a=1, b=6), Pair(a=2, b=9)]\n",
                "{method}: {}",
                cell.err()
            );
        }
        let executor =
            worker.run("with ProcessPoolExecutor(2) as pool:\n    print(list(pool.map(work, [7])))")?;
        assert_eq!(executor.out(), "[Pair(a=7, b=54)]\n", "{}", executor.err());
        Ok(())
    })
}

#[test]
fn a_traceback_shows_the_cells_own_lines_and_no_frame_of_the_worker() -> Outcome<()> {
    each(|python| {
        let mut worker = start(python)?;
        worker.run("def inner(n):\n    return 1 / n")?;
        let cell = worker.run("x = 1\n\ninner(0)")?;
        assert_eq!(cell.error(), "ZeroDivisionError: division by zero");
        assert_eq!(cell.field("error")["line"], 3);
        let lines: Vec<String> = cell
            .traceback()
            .lines()
            .filter(|line| !line.trim_start().starts_with(['~', '^']))
            .map(str::to_owned)
            .collect();
        assert_eq!(
            lines,
            [
                "Traceback (most recent call last):",
                "  File \"<cell 2>\", line 3, in <module>",
                "    inner(0)",
                "  File \"<cell 1>\", line 2, in inner",
                "    return 1 / n",
                "ZeroDivisionError: division by zero",
            ]
        );
        let awaited = worker.run("import asyncio\nawait asyncio.sleep(0)\ninner(0)")?;
        assert_eq!(awaited.field("error")["line"], 3);
        assert!(!awaited.traceback().contains("run_until_complete"), "{}", awaited.traceback());
        let chained = worker.run(
            "try:\n    inner(0)\nexcept ZeroDivisionError as error:\n    raise KeyError('k') from error",
        )?;
        assert!(chained.traceback().contains("direct cause"), "{}", chained.traceback());
        assert_eq!(chained.error(), "KeyError: 'k'");
        assert_eq!(chained.field("error")["line"], 4);
        Ok(())
    })
}

#[test]
fn a_cell_that_does_not_parse_runs_nothing_and_names_the_line() -> Outcome<()> {
    each(|python| {
        let mut worker = start(python)?;
        let cell = worker.run("print('ran')\nx = = 1")?;
        assert_eq!((cell.out().as_str(), cell.status().as_str()), ("", "error"));
        assert_eq!(
            (text(&cell.field("error")["name"]).as_str(), &cell.field("error")["line"]),
            ("SyntaxError", &json!(2))
        );
        assert!(cell.traceback().contains("File \"<cell 1>\", line 2"), "{}", cell.traceback());
        let nul = worker.run("x = '\0'")?;
        assert_eq!(nul.status(), "error");
        let mut worker = start(python)?;
        let id = worker.begin("")?;
        worker.finish(&id)?;
        worker.send(
            &json!({"t": "execute", "id": "bad", "name": "<cell 9>", "ordinal": 9, "capture": true}),
            b"\xff\xfe",
        )?;
        assert_eq!(text(&worker.finish("bad")?.field("error")["name"]), "UnicodeDecodeError");
        assert_eq!(worker.run("1")?.value(), "1");
        Ok(())
    })
}

#[test]
fn a_future_import_holds_for_later_cells() -> Outcome<()> {
    each(|python| {
        let cell = last(
            python,
            &["from __future__ import annotations", "def f(x: Undefined): pass\nf.__annotations__"],
        )?;
        assert_eq!(cell.value(), "{'x': 'Undefined'}");
        Ok(())
    })
}

#[test]
fn displays_arrive_raw_in_all_their_forms() -> Outcome<()> {
    each(|python| {
        let mut worker = start(python)?;
        worker.run(
            "class Rich:\n    def __repr__(self): return 'plain'\n    def _repr_html_(self): return '<b>é</b>'\n    def _repr_png_(self): return b'\\x89PNG\\xff'\n    def _repr_latex_(self): return None\n    def _repr_json_(self): return {'a': [1]}\n",
        )?;
        let rich = worker.run("Rich()")?.displays();
        let expected: BTreeMap<String, Vec<u8>> = [
            ("text/plain", b"plain".to_vec()),
            ("text/html", "<b>é</b>".as_bytes().to_vec()),
            ("image/png", b"\x89PNG\xff".to_vec()),
            ("application/json", br#"{"a": [1]}"#.to_vec()),
        ]
        .map(|(mime, bytes)| (mime.to_owned(), bytes))
        .into();
        assert_eq!(rich, [("result".to_owned(), expected)]);
        let bundle = worker.run(
            "class Bundle:\n    def _repr_mimebundle_(self, include=None, exclude=None):\n        return {'text/plain': 'b', 'image/png': 'iVBORw=='}, {'image/png': {'width': 3}}\ndisplay(Bundle())",
        )?;
        assert_eq!(bundle.displays()[0].1["image/png"], b"\x89PNG");
        assert_eq!(bundle.frames("display")[0].0["metadata"], json!({"image/png": {"width": 3}}));
        let own = worker.run("class Own:\n    def _ipython_display_(self): print('own')\ndisplay(Own())")?;
        assert_eq!((own.out().as_str(), own.displays().len()), ("own\n", 0));
        let handle = worker.run("h = display('one', display_id='here')\nh.update('two')\nhandle = display(3, display_id=True)\nhandle.display_id;")?;
        let kinds: Vec<(String, Value)> = handle
            .frames("display")
            .iter()
            .map(|(head, _)| (text(&head["kind"]), head["display_id"].clone()))
            .collect();
        assert_eq!(
            kinds,
            [
                ("display".into(), json!("here")),
                ("update".into(), json!("here")),
                ("display".into(), json!("display-1"))
            ]
        );
        let classes = worker.run("Rich")?;
        assert_eq!(classes.value(), "<class '__main__.Rich'>");
        let raw = worker.run("display({'text/html': '<i>'}, raw=True)")?;
        assert_eq!(raw.displays()[0].1["text/html"], b"<i>");
        let many = worker.run("for i in range(10_050): display(i)")?;
        assert_eq!(many.displays().len(), 10_000);
        assert!(
            many.field("warnings")[0].as_str().is_some_and(|text| text.contains("10000")),
            "{:?}",
            many.field("warnings")
        );
        Ok(())
    })
}

#[test]
fn a_display_too_large_is_replaced_by_a_text_that_says_so() -> Outcome<()> {
    each(|python| {
        let mut worker = start_with(python, json!({"max_display_bytes": 100_000}))?;
        let cell = worker.run("class Big:\n    def __repr__(self): return 'big'\n    def _repr_html_(self): return 'x' * 200_000\nBig()")?;
        assert_eq!(cell.value(), "big\n[too large to show: text/html (200000 bytes)]");
        let plain = worker.run("'y' * 1_000_000")?;
        assert_eq!(plain.status(), "ok");
        assert!(
            plain.value().len() < 100_000 && plain.value().contains("characters left out"),
            "{}",
            plain.value().len()
        );
        let png = worker.run("class Picture:\n    def _repr_png_(self): return b'x' * 100_001\nPicture()")?;
        assert!(png.value().ends_with("[too large to show: image/png (100001 bytes)]"), "{}", png.value());
        Ok(())
    })
}

#[test]
fn figures_are_shown_in_order_when_the_cell_ends_and_closed() -> Outcome<()> {
    each(|python| {
        if !can_import(python, "matplotlib.pyplot")? {
            eprintln!("left out: {} has no matplotlib", python.path.display());
            return Ok(());
        }
        let mut worker = start(python)?;
        let cell = worker.run("import matplotlib.pyplot as plt\nprint('before')\nplt.figure(figsize=(2, 1)); plt.plot([1, 2])\nplt.figure(figsize=(1, 2)); plt.plot([2, 1]);")?;
        let shown = cell.displays();
        assert_eq!(shown.len(), 2, "{:?} {}", cell.field("warnings"), cell.err());
        let size = |png: &[u8]| {
            (
                u32::from_be_bytes([png[16], png[17], png[18], png[19]]),
                u32::from_be_bytes([png[20], png[21], png[22], png[23]]),
            )
        };
        let (wide, tall) = (size(&shown[0].1["image/png"]), size(&shown[1].1["image/png"]));
        assert!(wide.0 > wide.1 && tall.1 > tall.0, "{wide:?} {tall:?}");
        assert_eq!(worker.run("plt.get_fignums()")?.value(), "[]");
        let shown = worker.run("plt.plot([1])\nplt.show()\nprint('after')")?;
        assert_eq!((shown.order().as_str(), shown.err().as_str()), ("display out", ""));
        let once = worker.run("fig, ax = plt.subplots()\nax.plot([1])\nfig")?;
        assert_eq!(once.displays().len(), 1);
        let failed = worker.run("plt.plot([1])\n1 / 0")?;
        assert_eq!((failed.displays().len(), failed.status().as_str()), (1, "error"));
        let many = worker.run("for _ in range(60): plt.figure(figsize=(.2, .2))\nNone")?;
        assert_eq!(many.displays().len(), 50, "{:?}", many.field("warnings"));
        assert!(many.field("warnings").to_string().contains("60 figures"), "{:?}", many.field("warnings"));
        assert_eq!(worker.run("plt.get_fignums()")?.value(), "[]");
        Ok(())
    })
}

#[test]
fn pandas_tables_are_shown_as_html() -> Outcome<()> {
    each(|python| {
        if !can_import(python, "pandas")? {
            eprintln!("left out: {} has no pandas", python.path.display());
            return Ok(());
        }
        let cell = last(python, &["import pandas\npandas.DataFrame({'a': [1, 2]})"])?;
        let shown = &cell.displays()[0].1;
        assert!(String::from_utf8_lossy(&shown["text/html"]).contains("<table"));
        assert!(cell.value().contains("0  1"), "{}", cell.value());
        Ok(())
    })
}

#[test]
fn ipythons_display_publishes_through_the_worker() -> Outcome<()> {
    each(|python| {
        if !can_import(python, "IPython.display")? {
            eprintln!("left out: {} has no IPython", python.path.display());
            return Ok(());
        }
        let cell = last(
            python,
            &["from IPython.display import display, HTML\ndisplay(HTML('<b>x</b>'))\nHTML('<i>y</i>')"],
        )?;
        let forms: Vec<Vec<u8>> =
            cell.displays().into_iter().map(|(_, parts)| parts["text/html"].clone()).collect();
        assert_eq!(forms, [b"<b>x</b>".to_vec(), b"<i>y</i>".to_vec()]);
        Ok(())
    })
}

#[test]
fn await_and_async_comprehensions_work_at_the_top_level() -> Outcome<()> {
    each(|python| {
        let mut worker = start(python)?;
        let cell = worker.run("import asyncio\nasync def numbers():\n    for i in range(3):\n        await asyncio.sleep(0)\n        yield i\nx = [i async for i in numbers()]\nawait asyncio.sleep(0, x)")?;
        assert_eq!(cell.value(), "[0, 1, 2]", "{}", cell.traceback());
        worker.run("event = asyncio.Event()\nasync def set_later():\n    await asyncio.sleep(0.001)\n    event.set()\ntask = asyncio.get_event_loop().create_task(set_later())")?;
        assert_eq!(worker.run("await event.wait()")?.value(), "True");
        assert_eq!(worker.run("async with asyncio.Lock() as held:\n    inside = 1\ninside")?.value(), "1");
        assert_eq!(worker.run("asyncio.run(asyncio.sleep(0, 5))")?.value(), "5");
        assert_eq!(worker.run("await asyncio.sleep(0, 6)")?.value(), "6");
        worker.run("asyncio.get_event_loop_policy().get_event_loop().close()")?;
        assert_eq!(worker.run("await asyncio.sleep(0, 7)")?.value(), "7");
        Ok(())
    })
}

#[test]
fn an_interrupt_ends_what_a_cell_awaits_and_the_loop_goes_on() -> Outcome<()> {
    each(|python| {
        let mut worker = start(python)?;
        worker.run("import asyncio, time, contextlib\ncleaned = []\nasync def sleeper():\n    try:\n        await asyncio.sleep(600)\n    finally:\n        cleaned.append('sleeper')\nasync def blocker():\n    print('in it')\n    time.sleep(600)")?;
        for source in [
            "await asyncio.sleep(600)",
            "await sleeper()",
            "await asyncio.gather(*[asyncio.create_task(sleeper()) for _ in range(10)])",
            "await asyncio.gather(*[asyncio.create_task(blocker()) for _ in range(10)])",
            "async with contextlib.AsyncExitStack() as stack:\n    await asyncio.Event().wait()",
            "[await asyncio.sleep(600) async for _ in numbers()]",
        ] {
            worker.run("async def numbers():\n    yield 1")?;
            // Said by the loop itself, when all that the cell awaits has begun.
            let later = if source.contains("blocker") {
                ""
            } else {
                "asyncio.get_running_loop().call_later(0.01, print, 'in it')\nawait asyncio.sleep(0)"
            };
            let id = worker.begin(&format!("{later}\n{source}"))?;
            worker.printed("in it")?;
            worker.interrupt()?;
            let cell = worker.finish(&id)?;
            assert_eq!(
                (cell.status().as_str(), &cell.field("interrupt_seen")),
                ("interrupted", &json!(true)),
                "{source}: {}",
                cell.traceback()
            );
            assert_eq!(cell.field("error")["line"], Value::Null);
            assert_eq!(worker.run("await asyncio.sleep(0, 'fine')")?.value(), "'fine'", "after {source}");
            assert_eq!(worker.run("len([t for t in asyncio.all_tasks(asyncio.get_event_loop_policy().get_event_loop()) if not t.done()])")?.value(), "0", "after {source}");
        }
        assert_eq!(worker.run("len(cleaned)")?.value(), "11");
        Ok(())
    })
}

#[test]
fn a_task_of_an_earlier_cell_survives_the_interrupt_of_a_later_one() -> Outcome<()> {
    each(|python| {
        let mut worker = start(python)?;
        worker.run("import asyncio\nasync def tick():\n    while True:\n        await asyncio.sleep(0.001)\nticking = asyncio.ensure_future(tick(), loop=asyncio.get_event_loop()) if False else None\nawait asyncio.sleep(0)\nticking = asyncio.create_task(tick())\nawait asyncio.sleep(0.01)")?;
        let id = worker.begin("print('in it')\nawait asyncio.sleep(600)")?;
        worker.printed("in it")?;
        worker.interrupt()?;
        assert_eq!(worker.finish(&id)?.status(), "interrupted");
        assert_eq!(worker.run("await asyncio.sleep(0.01)\nticking.done()")?.value(), "False");
        Ok(())
    })
}

#[test]
fn text_of_a_thread_that_an_earlier_cell_started_is_not_the_running_cells() -> Outcome<()> {
    each(|python| {
        let mut worker = start(python)?;
        worker.run(
            "import threading, sys\ngo, done = threading.Event(), threading.Event()\ndef stray():\n    go.wait()\n    print('stray out')\n    print('stray err', file=sys.stderr)\n    display('stray display')\n    done.set()\nthread = threading.Thread(target=stray)\nthread.start()",
        )?;
        let cell = worker.run("def own(): print('own thread')\nthread2 = threading.Thread(target=own)\ngo.set(); done.wait()\nthread2.start(); thread2.join()\nprint('main')")?;
        assert_eq!((cell.out().as_str(), cell.err().as_str()), ("own thread\nmain\n", ""));
        let strays: Vec<(String, String)> = cell
            .frames("stray")
            .into_iter()
            .map(|(head, body)| (text(&head["channel"]), String::from_utf8_lossy(body).into_owned()))
            .collect();
        assert_eq!(
            strays,
            [
                ("stdout".into(), "stray out\n".into()),
                ("stderr".into(), "stray err\n".into()),
                ("stdout".into(), "'stray display'\n".into()),
            ]
        );
        assert!(cell.displays().is_empty());
        // Between cells too, and the last words without a newline.
        worker.run("def late():\n    while not stop.wait(0.001): pass\n    print('late', end='')\nstop = threading.Event()\nlater = threading.Thread(target=late); later.start()")?;
        let cell = worker.run("stop.set(); later.join(); print('x')")?;
        assert_eq!(cell.out(), "x\n");
        let next = worker.run("print('y')")?;
        assert_eq!((next.out().as_str(), next.frames("stray").len()), ("y\n", 1));
        Ok(())
    })
}

#[test]
fn reading_standard_input_fails_at_once_and_says_why() -> Outcome<()> {
    each(|python| {
        let mut worker = start(python)?;
        for source in [
            "input('name? ')",
            "import sys; sys.stdin.read()",
            "sys.stdin.readline()",
            "list(sys.stdin)",
            "sys.stdin.buffer.read()",
            "import getpass; getpass.getpass()",
        ] {
            let cell = worker.run(source)?;
            assert!(
                cell.error().starts_with("EOFError: this cell cannot read standard input"),
                "{source}: {}",
                cell.error()
            );
        }
        let program = worker.run("import subprocess\nsubprocess.run(['cat']).returncode")?;
        assert_eq!(program.value(), "0");
        assert!(worker.run("breakpoint()")?.error().contains("needs a terminal"));
        Ok(())
    })
}

#[test]
fn leaving_ends_the_cell_and_not_the_kernel() -> Outcome<()> {
    each(|python| {
        let mut worker = start(python)?;
        for (source, message) in [
            ("exit()", ""),
            ("quit()", ""),
            ("import sys; sys.exit('bye')", "bye"),
            ("sys.exit(3)", "3"),
            ("raise SystemExit", ""),
        ] {
            let cell = worker.run(source)?;
            assert_eq!(
                (cell.status().as_str(), cell.error()),
                ("error", format!("SystemExit: {message}")),
                "{source}"
            );
            assert_eq!(cell.field("error")["exit"], true);
        }
        assert_eq!(
            worker.run("import asyncio\nawait asyncio.sleep(0)\nsys.exit(4)")?.error(),
            "SystemExit: 4"
        );
        let long = worker.run("sys.exit('x' * 10**6)")?;
        let message = text(&long.field("error")["message"]);
        assert!(message.len() < 10_100 && message.matches("left out").count() == 1);
        assert_eq!(worker.run("1 + 1")?.value(), "2");
        Ok(())
    })
}

#[test]
fn a_worker_that_dies_is_gone_with_its_exit_status() -> Outcome<()> {
    each(|python| {
        let exited = last(python, &["import os\nprint('last words')\nos._exit(5)"])?;
        assert_eq!(
            (exited.died.and_then(|status| status.code()), exited.out().as_str()),
            (Some(5), "last words\n")
        );
        let fault = last(python, &["import ctypes; ctypes.string_at(0)"])?;
        assert_eq!(fault.died.and_then(|status| status.signal()), Some(11));
        assert!(
            fault.err().contains("Segmentation fault") && fault.err().contains("<cell 1>"),
            "{}",
            fault.err()
        );
        let killed = last(python, &["import os; os.kill(os.getpid(), 9)"])?;
        assert_eq!(killed.died.and_then(|status| status.signal()), Some(9));
        Ok(())
    })
}

#[test]
fn a_forked_child_never_answers() -> Outcome<()> {
    each(|python| {
        let mut worker = start(python)?;
        let cell = worker.run("import os, sys\npid = os.fork()\nif pid == 0:\n    display('not shown'); print('child')\nelse:\n    print(os.waitpid(pid, 0)[1])\npid > 0")?;
        assert_eq!(cell.value(), "True");
        assert_eq!(
            cell.out().lines().collect::<std::collections::BTreeSet<_>>(),
            ["'not shown'", "0", "child"].into()
        );
        let failing = worker.run("pid = os.fork()\nif pid == 0: raise ValueError('in the child')\nos.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])")?;
        assert_eq!(failing.value(), "1");
        assert!(failing.err().contains("ValueError: in the child"), "{}", failing.err());
        let leaving = worker.run(
            "pid = os.fork()\nif pid == 0: sys.exit(7)\nos.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])",
        )?;
        assert_eq!(leaving.value(), "7");
        let threaded = worker.run("import threading\ndef fork_in_thread():\n    global pid\n    pid = os.fork()\n    if pid: os.waitpid(pid, 0)\nt = threading.Thread(target=fork_in_thread); t.start(); t.join()\n'parent'")?;
        assert_eq!(threaded.value(), "'parent'");
        assert_eq!(worker.run("'still one'")?.value(), "'still one'");
        Ok(())
    })
}

#[test]
fn programs_started_by_a_cell_get_only_the_standard_descriptors() -> Outcome<()> {
    each(|python| {
        let cell = last(
            python,
            &[
                "import os, subprocess\nnumbers = [int(n) for n in os.listdir('/proc/self/fd')]",
                "def private(n):\n    try:\n        return n > 2 and not os.get_inheritable(n)\n    except OSError:\n        return False",
                "kept = {os.readlink(f'/proc/self/fd/{n}') for n in numbers if private(n)}",
                "listed = subprocess.run(['sh', '-c', 'for n in /proc/self/fd/*; do echo $n $(readlink $n); done'], close_fds=False, capture_output=True, text=True).stdout",
                "pairs = [line.split() for line in listed.splitlines()]\nlen(kept) > 4, [pair for pair in pairs if pair[-1] in kept and 'pipe' in pair[-1]], pairs[0][-1]",
            ],
        )?;
        assert_eq!(cell.value(), "(True, [], '/dev/null')");
        let read = last(python, &["import subprocess\nsubprocess.run(['cat'], capture_output=True).stdout"])?;
        assert_eq!(read.value(), "b''");
        Ok(())
    })
}

#[test]
fn an_interrupt_reaches_the_cell_and_keeps_the_namespace() -> Outcome<()> {
    each(|python| {
        let mut worker = start(python)?;
        for source in [
            "while True: pass",
            "time.sleep(600)",
            "subprocess.run(['sleep', '600'])",
            "threading.Event().wait()",
            "queue.Queue().get()",
            "[i for i in iter(int, 1)]",
            "threads = [threading.Thread(target=spin, daemon=True) for _ in range(6)]\n[t.start() for t in threads]\nthreads[0].join()",
        ] {
            worker.run("import time, subprocess, threading, queue\nx = 5\nstop = False\ndef spin():\n    while not stop: pass")?;
            let id = worker.begin(&format!("print('in it')\n{source}\nNone"))?;
            worker.printed("in it")?;
            worker.interrupt()?;
            let cell = worker.finish(&id)?;
            assert_eq!(
                (cell.status().as_str(), &cell.field("interrupt_seen")),
                ("interrupted", &json!(true)),
                "{source}"
            );
            assert_eq!(
                (cell.error().as_str(), &cell.field("error")["line"]),
                ("KeyboardInterrupt: ", &Value::Null),
                "{source}"
            );
            assert!(cell.traceback().contains("<cell "), "{}", cell.traceback());
            assert_eq!(worker.run("stop = True\nx")?.value(), "5");
        }
        Ok(())
    })
}

#[test]
fn an_interrupt_between_cells_means_nothing() -> Outcome<()> {
    each(|python| {
        let mut worker = start(python)?;
        for _ in 0..50 {
            worker.interrupt()?;
        }
        let cell = worker.run("1")?;
        // One that is still on its way may land in the cell; it is then the cell's.
        assert!(["ok", "interrupted"].contains(&cell.status().as_str()));
        worker.interrupt()?;
        thread::sleep(Duration::from_millis(20));
        assert_eq!(worker.run("'next'")?.status(), "ok");
        Ok(())
    })
}

#[test]
fn an_interrupt_that_comes_with_started_is_not_lost() -> Outcome<()> {
    each(|python| {
        let mut worker = start(python)?;
        worker.run("import time")?;
        for round in 0..40 {
            let id = worker.begin("time.sleep(600)")?;
            worker.started(&id)?;
            worker.interrupt()?;
            assert_eq!(worker.finish(&id)?.status(), "interrupted", "round {round}");
        }
        Ok(())
    })
}

#[test]
fn a_flood_of_interrupts_around_the_ends_of_cells_tears_no_frame() -> Outcome<()> {
    each(|python| {
        let mut worker = start(python)?;
        let cells = [
            ("1", "1"),
            ("print('x')", ""),
            ("for i in range(50): display(i)", ""),
            ("await __import__('asyncio').sleep(0.0005)", ""),
            ("1 / 0", ""),
            ("'y' * 100_000", ""),
        ];
        // A fixed sequence of pauses: the same in each run, as far as a machine allows.
        let mut state = 0x2545_F491_4F6C_DD1D_u64;
        let mut seen = 0;
        for round in 0..200 {
            let (source, _) = cells[round % cells.len()];
            let id = worker.begin(source)?;
            worker.started(&id)?;
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            let until = Instant::now() + Duration::from_micros(state % 600);
            while Instant::now() < until {
                worker.pump()?;
            }
            worker.interrupt()?;
            let cell = worker.finish(&id)?;
            let status = cell.status();
            assert!(["ok", "error", "interrupted"].contains(&status.as_str()), "{status}");
            if status == "interrupted" {
                assert_eq!(cell.field("interrupt_seen"), true);
                seen += 1;
            }
            if status == "error" {
                assert_eq!(cell.error(), "ZeroDivisionError: division by zero");
            }
        }
        eprintln!("{seen} of 200 landed in their cell");
        thread::sleep(Duration::from_millis(20));
        assert_eq!(worker.run("6 * 7")?.value(), "42");
        Ok(())
    })
}

#[test]
fn what_a_user_raises_is_an_ordinary_error() -> Outcome<()> {
    each(|python| {
        let mut worker = start(python)?;
        worker.run("import asyncio, time")?;
        for (source, name) in [
            ("raise KeyboardInterrupt", "KeyboardInterrupt"),
            ("raise asyncio.CancelledError", "asyncio.exceptions.CancelledError"),
            ("raise TimeoutError('timed out')", "TimeoutError"),
            ("await asyncio.sleep(0)\nraise asyncio.CancelledError", "asyncio.exceptions.CancelledError"),
            ("await asyncio.sleep(0)\nraise KeyboardInterrupt", "KeyboardInterrupt"),
            ("class Base(BaseException): pass\nraise Base", "Base"),
        ] {
            let cell = worker.run(source)?;
            assert_eq!(
                (cell.status().as_str(), text(&cell.field("error")["name"]).as_str()),
                ("error", name),
                "{source}"
            );
            assert_eq!(cell.field("interrupt_seen"), false);
            assert!(cell.field("error")["line"].is_u64(), "{source}");
        }
        // An interrupt that the cell handled is no excuse for what it raises later.
        let id = worker.begin("try:\n    print('in it')\n    time.sleep(600)\nexcept KeyboardInterrupt:\n    pass\nraise KeyboardInterrupt('mine')")?;
        worker.printed("in it")?;
        worker.interrupt()?;
        let cell = worker.finish(&id)?;
        assert_eq!((cell.status().as_str(), &cell.field("interrupt_seen")), ("error", &json!(true)));
        Ok(())
    })
}

#[test]
fn an_interrupt_that_python_discards_is_delivered_again() -> Outcome<()> {
    each(|python| {
        let mut worker = start(python)?;
        worker.run("import time\nclass Slow:\n    def __del__(self):\n        print('deleting')\n        time.sleep(0.5)")?;
        let id = worker.begin("x = Slow()\ndel x\ntime.sleep(600)")?;
        worker.printed("deleting")?;
        worker.interrupt()?;
        assert_eq!(worker.finish(&id)?.status(), "interrupted");
        Ok(())
    })
}

#[test]
fn a_cell_that_takes_the_signal_away_does_not_keep_it() -> Outcome<()> {
    each(|python| {
        let mut worker = start(python)?;
        for theft in [
            "signal.signal(signal.SIGINT, signal.SIG_IGN);",
            "signal.signal(signal.SIGINT, lambda *a: None);",
            "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT]);",
        ] {
            worker.run(&format!("import signal, time\n{theft}"))?;
            let id = worker.begin("print('in it')\ntime.sleep(600)")?;
            worker.printed("in it")?;
            worker.interrupt()?;
            assert_eq!(worker.finish(&id)?.status(), "interrupted", "{theft}");
        }
        Ok(())
    })
}

#[test]
fn bytes_of_every_kind_pass_as_they_are() -> Outcome<()> {
    each(|python| {
        let mut worker = start(python)?;
        let every: Vec<u8> = (0..=255).collect();
        assert_eq!(worker.run("import os, sys\nos.write(1, bytes(range(256)));")?.stdout(), every);
        assert_eq!(worker.run("sys.stdout.buffer.write(bytes(range(256)));")?.stdout(), every);
        assert_eq!(worker.run("print('a\\0b\\x1b[31mred\\x1b[0m 🙂')")?.out(), "a\0b\x1b[31mred\x1b[0m 🙂\n");
        assert_eq!(worker.run("print('\\ud800 \\udc80')")?.out(), "\\ud800 \\udc80\n");
        assert_eq!(
            worker.run("for i in range(3): print(f'\\r{i}%', end='', file=sys.stderr)")?.err(),
            "\r0%\r1%\r2%"
        );
        assert_eq!(worker.run("raise ValueError('\\ud800')")?.error(), "ValueError: \\ud800");
        assert_eq!(worker.run("'\\udfff'")?.value(), "'\\udfff'");
        assert_eq!(worker.run("for b in '🙂'.encode(): os.write(1, bytes([b])) and None")?.out(), "🙂");
        assert_eq!(worker.run("print('no newline', end='')")?.out(), "no newline");
        assert_eq!(worker.run("import ctypes; ctypes.CDLL(None).printf(b'from C\\n');")?.out(), "from C\n");
        Ok(())
    })
}

#[test]
fn much_output_is_all_there_before_the_result() -> Outcome<()> {
    each(|python| {
        let mut worker = start(python)?;
        let lines = worker.run("for i in range(100_000): print('x' * 99)")?;
        assert_eq!(lines.stdout().len(), 10_000_000);
        let one = worker.run("import resource\ns = 'y' * 100_000_000\nbefore = resource.getrusage(0).ru_maxrss\nprint(s, end='')\n(resource.getrusage(0).ru_maxrss - before) // 1024")?;
        assert_eq!(one.stdout().len(), 100_000_000);
        let growth: u64 = one.value().parse()?;
        assert!(growth < 150, "writing 100 MB took {growth} MiB more");
        let both = worker.run("import subprocess, sys\nsubprocess.run([sys.executable, '-c', 'import os\\nfor i in range(64):\\n os.write(1, b\"o\" * 65536)\\n os.write(2, b\"e\" * 65536)']).returncode")?;
        assert_eq!(
            (both.stdout().len(), both.stderr().len(), both.value().as_str()),
            (64 << 16, 64 << 16, "0")
        );
        for _ in 0..100 {
            assert_eq!(worker.run("print('z')")?.out(), "z\n");
        }
        Ok(())
    })
}

#[test]
fn an_endless_print_can_be_interrupted() -> Outcome<()> {
    each(|python| {
        let mut worker = start(python)?;
        let id = worker.begin("while True: print(1)")?;
        worker.printed("1\n1\n")?;
        worker.interrupt()?;
        let cell = worker.finish(&id)?;
        assert_eq!(cell.status(), "interrupted");
        assert!(cell.out().lines().all(|line| line == "1"), "no line is torn or doubled");
        Ok(())
    })
}

#[test]
fn channels_keep_the_order_of_their_writing() -> Outcome<()> {
    each(|python| {
        let mut worker = start(python)?;
        let cell = worker.run("import sys, subprocess\nfor i in range(20):\n    print(i); print(i, file=sys.stderr); display(i)")?;
        assert_eq!(cell.order(), ["out err display"; 20].join(" "));
        let cell = worker.run("print('a', end='')\ndisplay(1)\nprint('b', file=sys.stderr)\nprint('c')\nsys.stdout.buffer.write(b'd'); sys.stdout.flush()\nprint('e', file=sys.stderr)\n2")?;
        assert_eq!(cell.order(), "out display err out err display");
        let cell = worker.run(
            "for i in range(10):\n    subprocess.run(['echo', 'program'])\n    print('e', file=sys.stderr)",
        )?;
        assert_eq!(cell.order(), ["out err"; 10].join(" "));
        Ok(())
    })
}

#[test]
fn files_read_and_written_are_recorded() -> Outcome<()> {
    each(|python| {
        let mut worker = start(python)?;
        let workspace = worker.workspace.path().to_owned();
        fs::write(workspace.join("in.txt"), "abc")?;
        fs::write(workspace.join(".env"), "KEY=1")?;
        fs::write(workspace.join("local_module.py"), "value = 7")?;
        fs::create_dir_all(workspace.join("sub/.git"))?;
        fs::create_dir_all(workspace.join("data"))?;
        let cell = worker.run("open('in.txt').read()")?;
        let read = json!([{"path": "in.txt", "size": 3, "sha256": "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"}]);
        assert_eq!((cell.field("files_read"), cell.field("files_written")), (read, Value::Null));
        let cell = worker.run("open('data/out.txt', 'w').write('abc')\nopen('sub/ignored', 'w').close()")?;
        let mut written: Vec<String> = cell
            .field("files_written")
            .as_array()
            .into_iter()
            .flatten()
            .map(|file| text(&file["path"]))
            .collect();
        written.sort();
        assert_eq!(
            written,
            ["data/out.txt", "sub/ignored"],
            "what the hook saw counts even where the walk does not look"
        );
        assert_eq!(cell.field("files_counters"), json!({"read_seen": 0, "written_seen": 2}));
        let program = worker.run("import subprocess; subprocess.run('echo x > data/by_program; mv data/out.txt data/moved', shell=True);")?;
        let mut written: Vec<String> = program
            .field("files_written")
            .as_array()
            .into_iter()
            .flatten()
            .map(|file| text(&file["path"]))
            .collect();
        written.sort();
        assert_eq!(written, ["data/by_program", "data/moved"]);
        let secrets = worker.run("open('.env').read(); open('data/api_token.txt', 'w').close()\nopen('data/tokenizer.json', 'w').close()")?;
        assert_eq!(secrets.field("files_read"), json!([{"path": "***", "masked": true}]));
        let mut names: Vec<String> = secrets
            .field("files_written")
            .as_array()
            .into_iter()
            .flatten()
            .map(|file| text(&file["path"]))
            .collect();
        names.sort();
        assert_eq!(names, ["data/***", "data/tokenizer.json"]);
        assert!(!secrets.field("files_written").to_string().contains("api_token"));
        let imported = worker.run("import local_module, json, decimal; local_module.value")?;
        assert_eq!(imported.value(), "7");
        let read: Vec<String> = imported
            .field("files_read")
            .as_array()
            .into_iter()
            .flatten()
            .map(|file| text(&file["path"]))
            .collect();
        assert_eq!(read, ["local_module.py"], "libraries are not data");
        Ok(())
    })
}

#[test]
fn what_became_of_the_names_is_told_where_it_is_certain() -> Outcome<()> {
    each(|python| {
        let mut worker = start(python)?;
        let mut names = |source: &str| worker.run(source).map(|cell| cell.field("names"));
        let first = names("x, xs, text = 1, [1, {'k': (2,)}], 'secret'")?;
        assert_eq!(
            (&first["number"], first["known"].as_object().map(serde_json::Map::len)),
            (&json!(0), Some(3))
        );
        let (x, xs) = (text(&first["known"]["x"]), text(&first["known"]["xs"]));
        assert_eq!(names("print(x, xs, text)")?, json!({"number": 1}), "what is as it was is not told");
        let other = names("x += 1; xs.append(3)")?;
        assert!(text(&other["known"]["x"]) != x && text(&other["known"]["xs"]) != xs, "{other}");
        let again = names("x -= 1; xs.pop();")?;
        assert_eq!(
            again,
            json!({"number": 3, "known": {"x": x, "xs": xs}}),
            "equal values have equal fingerprints"
        );
        for (source, report) in [
            ("ys = xs", json!({"number": 4, "unknown": ["xs", "ys"]})),
            ("del ys", json!({"number": 5, "known": {"xs": xs}, "unbound": ["ys"]})),
            ("it = iter(xs)", json!({"number": 6, "unknown": ["xs", "it"]})),
            ("del it, xs", json!({"number": 7, "unbound": ["xs", "it"]})),
            ("rows = [[]] * 2", json!({"number": 8, "unknown": ["rows"]})),
            ("pair = ([],)", json!({"number": 9, "unknown": ["pair"]})),
            ("x = x +", json!({"number": 10})),
            ("exec('x' + ' = 1')", json!({"number": 11})),
            ("for i in range(600): globals()[f'n{i}'] = i", Value::Null),
            ("class Odd(int): pass\nx = Odd(1)", json!({"number": 13, "unknown": ["x", "Odd"]})),
        ] {
            assert_eq!(names(source)?, report, "{source}");
        }
        let function = names("def f(q): return q + 1")?;
        let known = text(&function["known"]["f"]);
        assert_eq!(names("f.note = 1")?["unknown"], json!(["f"]));
        assert_eq!(names("del f.note")?["known"]["f"], known);
        assert!(text(&names("def f(q): return q + 2")?["known"]["f"]) != known);
        let mut other = start(python)?;
        let elsewhere = other.run("x = 1")?.field("names");
        assert!(text(&elsewhere["known"]["x"]) != x, "fingerprints of another kernel tell nothing");
        Ok(())
    })
}

#[test]
fn many_files_are_counted_beyond_the_bound() -> Outcome<()> {
    each(|python| {
        let mut worker = start(python)?;
        let cell = worker.run("for i in range(300): open(f'f{i}', 'w').close()\nfor i in range(300): open(f'f{i}').close()\nopen('x' * 200, 'w').close()")?;
        assert_eq!(cell.field("files_counters"), json!({"read_seen": 300, "written_seen": 301}));
        assert_eq!(cell.field("files_read").as_array().map(Vec::len), Some(256));
        assert_eq!(cell.field("files_written").as_array().map(Vec::len), Some(256));
        let plain = worker.run("1")?;
        assert_eq!(plain.field("files_counters"), Value::Null, "a cell that opens nothing looks at nothing");
        Ok(())
    })
}

#[test]
fn magics_are_refused_with_what_to_write_instead() -> Outcome<()> {
    each(|python| {
        let mut worker = start(python)?;
        for (source, line, words) in [
            (
                "%pip install numpy",
                1,
                r#"subprocess.run([sys.executable, "-m", "pip", "install", "numpy"], check=True)"#,
            ),
            ("x = 1\n%time x", 2, "perf_counter"),
            ("%%bash\necho \"it's", 1, "shell=True"),
            ("!ls -la", 1, r#"subprocess.run("ls -la", shell=True, check=True)"#),
            ("if True:\n    !ls", 2, "subprocess"),
            ("files = !ls", 1, "subprocess"),
            ("x = %time 1", 1, "perf_counter"),
            ("?print", 1, "help(print)"),
            ("print?", 1, "help(print)"),
            ("%matplotlib inline", 1, "figures are shown when the cell ends"),
            ("%unheard_of", 1, "plain Python"),
        ] {
            let cell = worker.run(source)?;
            let error = cell.field("error");
            assert_eq!(
                (text(&error["name"]).as_str(), &error["line"]),
                ("SyntaxError", &json!(line)),
                "{source}"
            );
            let message = text(&error["message"]);
            assert!(message.contains("IPython magic") && message.contains(words), "{source}: {message}");
        }
        for source in ["s = '''\n%time\n!ls\n'''", "x = (5\n% 3)"] {
            assert_eq!(worker.run(source)?.status(), "ok", "{source}");
        }
        assert!(!worker.run("s = '''\n%time\n'''\nx = = 1")?.error().contains("magic"));
        Ok(())
    })
}

#[test]
fn with_ipython_magics_run_in_the_cells_namespace() -> Outcome<()> {
    each(|python| {
        if !can_import(python, "IPython.display")? {
            let refused = start_with(python, json!({"ipython": "on"}));
            assert!(refused.is_err_and(|error| error.to_string().contains("has no IPython")));
            let mut worker = start_with(python, json!({"ipython": "auto"}))?;
            assert!(worker.run("%time 1")?.error().contains("IPython magic"));
            return Ok(());
        }
        let mut worker = start_with(python, json!({"ipython": "auto"}))?;
        assert_eq!(worker.run("x = 20\nx + 1")?.value(), "21");
        let shell = worker.run("files = !echo one; echo two\nlist(files)")?;
        assert_eq!(shell.value(), "['one', 'two']", "{}", shell.traceback());
        let timed = worker.run("%time y = x + 2\ny")?;
        assert!(timed.out().contains("Wall time") && timed.value() == "22", "{timed:?}");
        assert_eq!(worker.run("%%bash\necho from bash")?.out(), "from bash\n");
        assert!(worker.run("!echo direct")?.out().contains("direct"));
        let missing = worker.run("%no_such_magic")?;
        assert_eq!(missing.status(), "error");
        assert!(worker.run("x?")?.status() == "ok");
        assert_eq!(worker.run("1 / 0")?.error(), "ZeroDivisionError: division by zero");
        assert_eq!(worker.run("x")?.value(), "20");
        Ok(())
    })
}

#[test]
fn a_hostile_cell_fails_at_most_itself() -> Outcome<()> {
    each(|python| {
        let mut worker = start(python)?;
        worker.run("import sys, os")?;
        for source in [
            "del __builtins__",
            "globals().clear()",
            "import builtins; vars(builtins).clear()",
            "import builtins\nfor name in list(vars(builtins)):\n    if not name.startswith('__'): setattr(builtins, name, None)",
            "import builtins, importlib; importlib.reload(builtins)",
            "import sys; sys.modules.clear()",
            "import sys; sys.modules['__main__'] = None",
            "import sys; sys.modules = {}",
            "import sys; sys.stdout.close(); sys.stderr.close()",
            "import sys; sys.stdout = sys.stderr = sys.stdin = None",
            "import sys; del sys.stdout, sys.stderr, sys.__stdout__",
            "import sys; sys.stdout.detach()",
            "import sys; sys.stdout.buffer.raw.close()",
            "import sys; sys.stdout.reconfigure(encoding='ascii', errors='strict', line_buffering=False)",
            "import os; os.close(0); os.close(1); os.close(2)",
            "import os; os.dup2(os.open(os.devnull, os.O_RDWR), 1)",
            "import os, tempfile; d = tempfile.mkdtemp(); os.chdir(d); os.rmdir(d)",
            "import sys; sys.setrecursionlimit(50)",
            "import sys; sys.settrace(lambda *a: 1 / 0)",
            "import sys; sys.setprofile(lambda *a: 1 / 0)",
            "import threading; threading.settrace(lambda *a: 1 / 0)",
            "import sys; sys.excepthook = sys.displayhook = sys.unraisablehook = None",
            "import sys; sys.meta_path.clear(); sys.path.clear(); sys.path_hooks.clear()",
            "import linecache, traceback\nlinecache.getline = linecache.cache = traceback.TracebackException = None\n1 / 0",
            "import json, os, time, io\njson.dumps = os.write = os.read = os.getpid = time.perf_counter = io.TextIOWrapper = None",
            "import gc; gc.disable(); gc.set_threshold(1, 1, 1); gc.enable()",
            "def f(x): return f(x)\nf(0)",
            "class R:\n    def __repr__(self): raise ValueError\nR()",
            "class R:\n    def __repr__(self): return 5\nR()",
            "class R:\n    def __repr__(self): raise BaseException\nR()",
            "class R:\n    def __getattribute__(self, name): raise ValueError\nR()",
            "class R:\n    def _repr_html_(self): raise ValueError\nR()",
            "class R:\n    def __del__(self): raise ValueError\nR(); None",
            "class E(Exception):\n    def __str__(self): raise SystemExit\nraise E",
            "class M(type):\n    @property\n    def __name__(cls): raise ValueError\nclass E(Exception, metaclass=M): pass\nraise E",
            "e = ValueError(); e.__cause__ = e\nraise e",
            "raise ValueError('x' * 50_000_000)",
            "def generate():\n    yield\nraise GeneratorExit",
            "import warnings; warnings.simplefilter('error'); warnings.warn('w')",
            "import atexit; atexit.register(lambda: 1 / 0)",
            "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)",
            "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (16, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))",
            "import os; os.environ.clear()",
            "import asyncio; asyncio.set_event_loop_policy(None); asyncio.run = asyncio.new_event_loop = None",
        ] {
            let broken = worker.run(source)?;
            assert!(broken.died.is_none(), "{source} ended the worker: {}", broken.err());
            let next = worker.run("print('printed')\n40 + 2")?;
            assert_eq!(
                (next.out().as_str(), next.value().as_str(), next.status().as_str()),
                ("printed\n", "42", "ok"),
                "after {source}: {} {}",
                next.traceback(),
                next.err()
            );
            let error = worker.run("missing_name")?;
            assert_eq!(error.error(), "NameError: name 'missing_name' is not defined", "after {source}");
            assert!(error.traceback().contains("missing_name\n"), "after {source}: {}", error.traceback());
            if source.contains("meta_path") {
                worker = start(python)?;
            }
        }
        Ok(())
    })
}

#[test]
fn what_a_cell_replaces_for_itself_does_not_reach_the_worker() -> Outcome<()> {
    each(|python| {
        let mut worker = start(python)?;
        worker.run("print = len = open = exec = compile = type = object = repr = 5")?;
        assert_eq!(worker.run("len")?.value(), "5");
        worker.run("import builtins\nfor name in ('len', 'isinstance', 'getattr', 'print', 'repr', 'open', '__import__'):\n    setattr(builtins, name, lambda *a, **k: 1 / 0)")?;
        let cell = worker.run("missing")?;
        assert_eq!((cell.error().as_str(), cell.died), ("NameError: name 'missing' is not defined", None));
        assert_eq!(worker.run("[1, {}]")?.value(), "[1, {}]");
        assert_eq!(worker.run("builtins.len([])")?.error(), "ZeroDivisionError: division by zero");
        Ok(())
    })
}

#[test]
fn a_module_of_the_workspace_cannot_stand_in_for_the_workers() -> Outcome<()> {
    each(|python| {
        let mut worker = start(python)?;
        for name in [
            "traceback",
            "linecache",
            "token",
            "tokenize",
            "json",
            "base64",
            "io",
            "ctypes",
            "ast",
            "pickle",
            "re",
            "enum",
        ] {
            fs::write(worker.workspace.path().join(format!("{name}.py")), "raise RuntimeError('shadow')")?;
        }
        let error = worker.run("def f(): return 1 / 0\nf()")?;
        assert_eq!(error.error(), "ZeroDivisionError: division by zero");
        assert!(error.traceback().contains("def f(): return 1 / 0"), "{}", error.traceback());
        assert_eq!(worker.run("display([1])")?.displays()[0].1["text/plain"], b"[1]");
        assert!(worker.run("%time 1")?.error().contains("magic"));
        Ok(())
    })
}

#[test]
fn errors_are_bounded_and_say_where_they_were_cut() -> Outcome<()> {
    each(|python| {
        let mut worker = start_with(python, json!({"max_traceback_chars": 5000}))?;
        let huge = worker.run("raise ValueError('x' * 50_000_000)")?;
        let message = text(&huge.field("error")["message"]);
        assert!(message.chars().count() <= 10_050 && message.contains("characters left out"));
        assert!(huge.traceback().chars().count() <= 5050 && huge.traceback().contains("left out"));
        let chain = worker
            .run("e = None\nfor i in range(3000):\n    n = ValueError(i); n.__cause__ = e; e = n\nraise e")?;
        assert!(chain.traceback().chars().count() <= 5050 && chain.traceback().contains("ValueError: 2999"));
        let deep = worker.run("import sys\nsys.setrecursionlimit(5000)\ndef a(n): return b(n)\ndef b(n): return a(n - 1) if n else 1 / 0\na(1000)")?;
        assert!(
            deep.traceback().contains("frames left out")
                && deep.traceback().ends_with("ZeroDivisionError: division by zero\n"),
            "{}",
            deep.traceback()
        );
        assert_eq!(deep.field("error")["line"], 4, "the innermost line of this cell");
        let fits = worker.run("raise ValueError('short')")?;
        assert!(!fits.traceback().contains("left out"));
        let line = worker.run(&format!("x = '{}'; 1 / 0", "z".repeat(1_000_000)))?;
        assert!(line.traceback().len() < 5050, "{}", line.traceback().len());
        Ok(())
    })
}

#[test]
fn no_result_is_kept_but_the_last() -> Outcome<()> {
    each(|python| {
        let mut worker = start(python)?;
        worker.run("import gc, weakref\nclass Value: pass\nalive = []\ndef make():\n    value = Value(); alive.append(weakref.ref(value)); return value")?;
        for _ in 0..5 {
            worker.run("make()")?;
        }
        worker.run("raise ValueError(make())")?;
        assert_eq!(worker.run("gc.collect()\nsum(ref() is not None for ref in alive)")?.value(), "1");
        Ok(())
    })
}

#[test]
fn a_broken_or_absent_supervisor_ends_the_worker() -> Outcome<()> {
    each(|python| {
        for (bytes, words) in [
            (&b"\xff\xff\xff\xff\0\0\0\0"[..], "claims"),
            (&b"\x03\0\0\0\0\0\0\0nul"[..], "not a JSON object"),
            (&b"\x02\0\0\0\0\0\0\0{}"[..], "not a JSON object"),
        ] {
            let mut worker = start(python)?;
            worker.send_bytes(bytes)?;
            let end = worker.gone()?;
            assert_eq!(end.died.and_then(|status| status.code()), Some(70));
            assert!(end.err().contains(words), "{}", end.err());
        }
        let mut worker = start(python)?;
        worker.hang_up()?;
        assert_eq!(worker.gone()?.died.and_then(|status| status.code()), Some(0));
        Ok(())
    })
}

#[test]
fn an_unknown_frame_is_remarked_and_passed_over() -> Outcome<()> {
    each(|python| {
        let mut worker = start(python)?;
        worker.send(&json!({"t": "complete", "prefix": "x"}), b"")?;
        let cell = worker.run("1")?;
        assert_eq!(cell.value(), "1");
        assert_eq!(cell.frames("log").len(), 1);
        Ok(())
    })
}

#[test]
fn shutdown_runs_exit_handlers_and_waits_for_no_thread() -> Outcome<()> {
    each(|python| {
        let mut worker = start(python)?;
        worker.run("import atexit, threading\natexit.register(print, 'at exit')\nthreading.Thread(target=threading.Event().wait).start()")?;
        worker.send(&json!({"t": "shutdown"}), b"")?;
        let end = worker.gone()?;
        assert_eq!((end.died.and_then(|status| status.code()), end.err().as_str()), (Some(0), ""));
        let said: Vec<&Event> = end.events.iter().collect();
        assert!(format!("{said:?}").contains("stray") || end.out() == "at exit\n", "{said:?}");
        Ok(())
    })
}
