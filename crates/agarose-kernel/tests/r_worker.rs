//! The R worker over real pipes, where this machine has Rscript.
#![expect(clippy::print_stderr, reason = "a test says what it had to leave out")]

#[expect(dead_code, reason = "the driver serves both workers; what only Python's tests use is idle here")]
#[path = "python_worker/driver.rs"]
mod driver;

use std::{
    collections::BTreeSet,
    fs,
    os::unix::process::ExitStatusExt,
    process::{Command, Stdio},
};

use driver::{Cell, Outcome, Worker, text};
use serde_json::{Value, json};

const WORKER: &str = concat!("--file=", env!("CARGO_MANIFEST_DIR"), "/workers/r/worker.R");

/// Runs the test with a fresh worker, or says that there is no R.
fn with_r(test: impl Fn(&mut Worker) -> Outcome<()>) -> Outcome<()> {
    let found = Command::new("Rscript").arg("--version").output().is_ok_and(|output| output.status.success());
    if !found {
        eprintln!("left out: no Rscript on the path (install r-base-core)");
        return Ok(());
    }
    test(&mut start()?)
}

fn start() -> Outcome<Worker> {
    Worker::start(&["R", "--no-echo", "--no-restore", "--no-save", WORKER], json!({}))
}

fn interrupted(worker: &mut Worker, source: &str) -> Outcome<Cell> {
    let id = worker.begin(&format!("cat('in it\\n')\n{source}"))?;
    worker.printed("in it")?;
    worker.interrupt()?;
    worker.finish(&id)
}

/// Sends an interrupt to the worker and to what it has started, as the supervisor does.
fn interrupt_group(worker: &mut Worker) -> Outcome<()> {
    worker.interrupt()?;
    let leader = worker.pid();
    let mut told = BTreeSet::from([leader]);
    loop {
        let before = told.len();
        for entry in fs::read_dir("/proc")?.flatten() {
            let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
            let group = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(2));
            if let (Ok(pid), true) =
                (entry.file_name().to_string_lossy().parse::<u32>(), group == Some(&leader.to_string()))
                && told.insert(pid)
            {
                // Delivered when this returns, so that the next look sees what it had started by then.
                let _ = Command::new("kill")
                    .args(["-s", "INT", &pid.to_string()])
                    .stderr(Stdio::null())
                    .status()?;
            }
        }
        if told.len() == before {
            return Ok(());
        }
    }
}

#[test]
fn the_ready_frame_names_the_interpreter() -> Outcome<()> {
    with_r(|worker| {
        assert_eq!((&worker.ready["protocol"], &worker.ready["language"]), (&json!(1), &json!("r")));
        assert_eq!(worker.ready["pid"], worker.pid());
        assert!(text(&worker.ready["version"]).starts_with('4'), "{}", worker.ready);
        assert_eq!(text(&worker.ready["packages_digest"]).len(), 32);
        Ok(())
    })
}

#[test]
fn state_persists_and_visible_values_are_printed() -> Outcome<()> {
    with_r(|worker| {
        let cell = worker.run("x <- 20\ncat('hello\\n')\nx + 1")?;
        assert_eq!((cell.out().as_str(), cell.status().as_str()), ("hello\n[1] 21\n", "ok"));
        assert_eq!(worker.run("x")?.out(), "[1] 20\n");
        assert_eq!(worker.run("invisible(x); y <- 2")?.out(), "");
        assert_eq!(worker.run("(y <- 3)")?.out(), "[1] 3\n");
        assert_eq!(worker.run("")?.status(), "ok");
        assert_eq!(worker.run("# nothing")?.out(), "");
        assert_eq!(
            worker.run("f <- function(n) {\n  # kept\n  n\n}\nf")?.out(),
            "function(n) {\n  # kept\n  n\n}\n"
        );
        assert_eq!(worker.run("for (i in 1:2) print(i)")?.out(), "[1] 1\n[1] 2\n");
        assert_eq!(
            worker.run("setClass('P', representation(x = 'numeric')); new('P', x = 1)")?.out(),
            "An object of class \"P\"\nSlot \"x\":\n[1] 1\n\n"
        );
        assert_eq!(
            worker
                .run("print.thing <- function(x, ...) cat('a thing\\n')\nstructure(1, class = 'thing')")?
                .out(),
            "a thing\n"
        );
        assert_eq!(worker.run("'é中'")?.out(), "[1] \"é中\"\n");
        assert!(!worker.run("ls()")?.out().contains("running"));
        Ok(())
    })
}

#[test]
fn errors_say_the_call_the_line_and_where() -> Outcome<()> {
    with_r(|worker| {
        worker.run("inner <- function(n) {\n  stop('bad ', n)\n}\nouter <- function(n) {\n  inner(n)\n}")?;
        let cell = worker.run("x <- 1\n\nouter(5)\ncat('not reached')")?;
        assert_eq!((cell.error().as_str(), &cell.field("error")["line"]), ("Error: bad 5", &json!(3)));
        assert_eq!(
            cell.traceback(),
            "Error in inner(n) : bad 5\nTraceback (innermost first):\n3: stop(\"bad \", n)  at <cell 1>:2\n2: inner(n)  at <cell 1>:5\n1: outer(5)"
        );
        assert_eq!(cell.out(), "");
        let custom = worker.run(
            "stop(structure(class = c('mine', 'error', 'condition'), list(message = 'm', call = NULL)))",
        )?;
        assert_eq!(custom.error(), "mine: m");
        let parse = worker.run("cat('ran')\nx = = 1")?;
        assert_eq!((parse.out().as_str(), &parse.field("error")["line"]), ("", &json!(2)));
        let top = worker.run("stop('top')")?;
        assert!(top.traceback().starts_with("Error: top\n"), "{}", top.traceback());
        let last = worker.run("tryCatch(stop('a'), finally = cat('finally\\n'))")?;
        assert_eq!((last.out().as_str(), last.status().as_str()), ("finally\n", "error"));
        let big = worker.run("stop(strrep('x', 5e7))")?;
        assert!(text(&big.field("error")["message"]).len() < 10_100);
        let deep = worker.run("g <- function(n) g(n + 1)\ng(1)")?;
        assert_eq!(deep.status(), "error");
        assert_eq!(worker.run("1 + 1")?.out(), "[1] 2\n");
        Ok(())
    })
}

#[test]
fn messages_and_warnings_come_on_stderr_as_at_the_prompt() -> Outcome<()> {
    with_r(|worker| {
        let cell = worker.run("message('m'); cat('o\\n'); message('n')")?;
        assert_eq!(
            (cell.out().as_str(), cell.err().as_str(), cell.order().as_str()),
            ("o\n", "m\nn\n", "err out err")
        );
        let cell = worker.run("h <- function() { warning('in h'); cat('after\\n') }\nh()\ncat('end\\n')")?;
        assert_eq!(
            (cell.out().as_str(), cell.err().as_str()),
            ("after\nend\n", "Warning message:\nIn h() : in h\n")
        );
        assert_eq!(cell.order(), "out err out", "a deferred warning follows its own expression");
        assert_eq!(worker.run("warnings()")?.out(), "Warning message:\nIn h() : in h\n");
        assert_eq!(worker.run("options(warn = 1); h()")?.err(), "Warning in h() : in h\n");
        let error = worker.run("options(warn = 2); h()")?;
        assert_eq!(error.error(), "Error: (converted from warning) in h");
        assert_eq!(worker.run("options(warn = 0); suppressWarnings(h())")?.err(), "");
        assert_eq!(
            worker.run("tryCatch(warning('x'), warning = function(w) cat('caught\\n'))")?.out(),
            "caught\n"
        );
        assert_eq!(worker.run("as.integer('a')")?.err(), "Warning message:\nNAs introduced by coercion\n");
        assert_eq!(
            worker.run("withCallingHandlers(message('a'), message = function(m) cat('saw\\n'))")?.out(),
            "saw\n"
        );
        Ok(())
    })
}

#[test]
fn many_deferred_warnings_are_counted_and_can_be_asked_for() -> Outcome<()> {
    with_r(|worker| {
        let many = |count: u32| format!("for (i in 1:{count}) warning('w', i)");
        let two = worker.run(&many(2))?;
        assert_eq!(two.err(), "Warning messages:\n1: w1\n2: w2\n");
        assert_eq!(worker.run(&many(11))?.err(), "There were 11 warnings (use warnings() to see them)\n");
        let asked = worker.run("warnings()")?;
        assert!(asked.out().starts_with("Warning messages:\n1: w1\n"), "{}", asked.out());
        assert!(asked.out().ends_with("11: w11\n"), "{}", asked.out());
        assert_eq!(
            worker.run(&many(5000))?.err(),
            "There were 50 or more warnings (use warnings() to see the first 50)\n"
        );
        assert_eq!(worker.run("length(warnings())")?.out(), "[1] 50\n");
        assert_eq!(
            worker.run("options(nwarnings = 60); for (i in 1:55) warning('w')")?.err(),
            "There were 55 warnings (use warnings() to see them)\n"
        );
        Ok(())
    })
}

#[test]
fn what_the_prompt_keeps_of_the_last_expression_is_kept() -> Outcome<()> {
    with_r(|worker| {
        assert_eq!(worker.run("traceback()")?.out(), "No traceback available \n");
        worker.run("6 * 7")?;
        assert_eq!(worker.run(".Last.value + 1")?.out(), "[1] 43\n");
        worker.run("x <- 10; invisible(11)")?;
        assert_eq!(worker.run(".Last.value")?.out(), "[1] 11\n");
        worker.run("inner <- function(n) stop('bad')\nouter <- function(n) {\n  inner(n)\n}")?;
        assert_eq!(worker.run("outer(5)")?.status(), "error");
        assert_eq!(
            worker.run("traceback()")?.out(),
            "3: stop(\"bad\") at <cell 6>#1\n2: inner(n) at <cell 6>#3\n1: outer(5)\n"
        );
        assert_eq!(worker.run("length(.traceback())")?.out(), "[1] 3\n");
        assert_eq!(worker.run("f <- function() traceback(0); f()")?.out().lines().last(), Some("1: f()"));
        Ok(())
    })
}

#[test]
fn help_is_plain_text_among_the_output() -> Outcome<()> {
    with_r(|worker| {
        for source in ["?mean", "help('mean')", "help(\"mean\", help_type = 'html')", "print(?mean)"] {
            let cell = worker.run(source)?;
            assert_eq!(cell.status(), "ok", "{}", cell.error());
            // Where `repr` is installed it is a value with more forms than its text.
            let said = cell.out() + &cell.value();
            assert!(said.contains("Arithmetic Mean"), "{source}: {said} {}", cell.err());
            assert!(!said.contains('\u{8}'), "{source}: {said}");
        }
        let shown = worker.run("writeLines('t', 'text'); file.show('text', title = 'title')")?;
        assert_eq!(shown.out(), "t\n");
        Ok(())
    })
}

#[test]
fn plots_come_as_png_one_for_each_page_and_in_order() -> Outcome<()> {
    with_r(|worker| {
        let cell = worker.run("plot(1:3)\nmessage('between')\nplot(3:1)\nstop('after')")?;
        let kinds: Vec<(String, bool)> = cell
            .displays()
            .iter()
            .map(|(kind, parts)| (kind.clone(), parts["image/png"].starts_with(b"\x89PNG")))
            .collect();
        assert_eq!(kinds, [("display".to_owned(), true), ("display".to_owned(), true)]);
        assert_eq!((cell.order().as_str(), cell.status().as_str()), ("display err display", "error"));
        let ids = |cell: &Cell| -> Vec<(String, String)> {
            cell.frames("display")
                .iter()
                .map(|(head, _)| {
                    (
                        text(&head["kind"]),
                        text(&head["display_id"]).rsplit('-').next().unwrap_or_default().to_owned(),
                    )
                })
                .collect()
        };
        let drawn_on = worker.run("plot(1:3)\nlines(3:1)\nplot(1)")?;
        assert_eq!(
            ids(&drawn_on),
            [("display".into(), "1".into()), ("update".into(), "1".into()), ("display".into(), "2".into())]
        );
        let grid = worker.run("invisible({par(mfrow = c(1, 2)); plot(1); plot(2)})")?;
        assert_eq!(grid.displays().len(), 1);
        let in_loop = worker.run("for (i in 1:3) plot(i)")?;
        assert_eq!(in_loop.displays().len(), 3);
        let own = worker.run("pdf('mine.pdf'); plot(1); invisible(dev.off())")?;
        assert_eq!(own.displays().len(), 0);
        assert!(worker.workspace.path().join("mine.pdf").exists());
        let many = worker.run("for (i in 1:60) plot.new()\ninvisible()")?;
        assert!(many.displays().len() <= 50, "{}", many.displays().len());
        assert_eq!(worker.run("dev.list()")?.out(), "NULL\n");
        Ok(())
    })
}

#[test]
fn what_would_wait_for_somebody_fails_at_once() -> Outcome<()> {
    with_r(|worker| {
        for source in [
            "readline('name? ')",
            "browser()",
            "f <- function() 1; debug(f); f()",
            "menu(c('a', 'b'))",
            "utils::menu('a')",
            "base::readline()",
        ] {
            let cell = worker.run(source)?;
            assert!(cell.error().contains("needs somebody at a terminal"), "{source}: {}", cell.error());
            assert_eq!(worker.run("1 + 1")?.out(), "[1] 2\n", "after {source}");
        }
        assert_eq!(worker.run("readLines(stdin())")?.out(), "character(0)\n");
        assert_eq!(worker.run("readLines(file('stdin'))")?.out(), "character(0)\n");
        assert!(worker.run("host$bash('ls')")?.error().contains("no host in R"));
        Ok(())
    })
}

#[test]
fn leaving_ends_the_cell_and_not_the_kernel() -> Outcome<()> {
    with_r(|worker| {
        worker.run("x <- 5")?;
        for source in [
            "q()",
            "quit('no', 3)",
            "base::q()",
            "tryCatch(q(), error = function(e) NULL)",
            "f <- function() { on.exit(cat('cleaned\\n')); q() }; f()",
        ] {
            let cell = worker.run(source)?;
            assert_eq!(
                (cell.status().as_str(), &cell.field("error")["exit"]),
                ("error", &json!(true)),
                "{source}"
            );
            assert!(cell.error().starts_with("quit: the cell called q()"), "{}", cell.error());
        }
        assert_eq!(worker.run("invokeRestart('abort')")?.error(), "abort: the cell jumped to the top level");
        assert_eq!(worker.run("x")?.out(), "[1] 5\n");
        Ok(())
    })
}

#[test]
fn an_interrupt_reaches_the_cell_and_keeps_the_namespace() -> Outcome<()> {
    with_r(|worker| {
        worker.run("x <- 5")?;
        for source in [
            "Sys.sleep(600)",
            "repeat {}",
            "repeat writeLines('x')",
            "for (i in 1:1e9) sqrt(i)",
            "f <- function() repeat Sys.sleep(1); f()",
        ] {
            let cell = interrupted(worker, source)?;
            assert_eq!(
                (cell.status().as_str(), &cell.field("interrupt_seen")),
                ("interrupted", &json!(true)),
                "{source}"
            );
            assert_eq!(worker.run("x")?.out(), "[1] 5\n", "after {source}");
        }
        // Within one expression: between two of them an interrupt ends the cell before the second.
        let id =
            worker.begin("tryCatch({ cat('in it\\n'); Sys.sleep(600) }, finally = cat('finally\\n'))")?;
        worker.printed("in it")?;
        worker.interrupt()?;
        let cell = worker.finish(&id)?;
        assert!(cell.out().ends_with("finally\n"));
        for _ in 0..20 {
            worker.interrupt()?;
        }
        let cell = worker.run("x")?;
        assert!(["ok", "interrupted"].contains(&cell.status().as_str()));
        assert_eq!(worker.run("x")?.status(), "ok");
        Ok(())
    })
}

#[test]
fn an_interrupt_during_a_program_ends_the_cell_with_it() -> Outcome<()> {
    with_r(|worker| {
        // What it prints says that the program runs, and no shell is just starting it: one that is loses
        // the signal for its child.
        worker.run("writeLines('in it', 'said')")?;
        for source in [
            "system('tail -f said')\ncat('next\\n')",
            "for (i in 1:5) system('tail -f said')",
            "{ system2('tail', c('-f', 'said')); cat('next\\n') }",
            "x <- system('tail -f said >&2', intern = TRUE)\ncat('next\\n')",
            "readLines(pipe('tail -f said >&2'))\ncat('next\\n')",
        ] {
            let id = worker.begin(source)?;
            worker.until(|events| {
                events.iter().position(|event| {
                    matches!(event, driver::Event::Stdout(bytes) | driver::Event::Stderr(bytes) if String::from_utf8_lossy(bytes).contains("in it"))
                })
            })?;
            interrupt_group(worker)?;
            let cell = worker.finish(&id)?;
            assert_eq!(
                (cell.status().as_str(), &cell.field("interrupt_seen")),
                ("interrupted", &json!(true)),
                "{source}"
            );
            assert!(!cell.out().contains("next"), "{source}: {}", cell.out());
        }
        let caught = "tryCatch(system('tail -f said'), interrupt = function(i) cat('caught\\n'))";
        let id = worker.begin(caught)?;
        worker.printed("in it")?;
        interrupt_group(worker)?;
        let cell = worker.finish(&id)?;
        assert_eq!((cell.out().as_str(), cell.status().as_str()), ("in it\ncaught\n", "ok"));
        Ok(())
    })
}

#[test]
fn programs_answer_as_they_do_at_the_prompt() -> Outcome<()> {
    with_r(|worker| {
        for (source, printed) in [
            ("system('exit 3')", ""),
            ("x <- system('exit 3'); x", "[1] 3\n"),
            ("print(system2('true'))", "[1] 0\n"),
            ("system(\"echo 'a  b' \\\"$HOME\\\" | tr -d '/'; false\", ignore.stderr = TRUE) + 1", ""),
            ("system('echo a', intern = TRUE)", "[1] \"a\"\n"),
            ("system('cat', input = c('x', 'y'))", "x\ny\n"),
            ("x <- suppressWarnings(system('-none', ignore.stderr = TRUE)); x", "[1] 127\n"),
            (
                "withCallingHandlers(x <- system('none-such', ignore.stderr = TRUE), warning = function(w) cat(deparse(conditionCall(w))))",
                "system(\"none-such\", ignore.stderr = TRUE)",
            ),
            ("attr(suppressWarnings(system('exit 4', intern = TRUE)), 'status')", "[1] 4\n"),
            ("system2('echo', c('1', '2'), stdout = TRUE)", "[1] \"1 2\"\n"),
            ("system('echo b > made &', wait = TRUE); invisible()", ""),
            (
                "try(system(1), silent = TRUE); cat(geterrmessage())",
                "Error in system(1) : non-empty character argument expected\n",
            ),
        ] {
            let cell = worker.run(source)?;
            assert_eq!(cell.status(), "ok", "{source}: {}", cell.error());
            if !printed.is_empty() {
                assert_eq!(cell.out(), printed, "{source}");
            }
        }
        assert_eq!(worker.run("x <- system('sleep 600', wait = FALSE); x")?.out(), "[1] 0\n");
        Ok(())
    })
}

#[test]
fn an_interrupt_right_after_the_start_of_much_output_never_costs_the_worker() -> Outcome<()> {
    with_r(|worker| {
        worker.run("x <- 5")?;
        for round in 0..200 {
            let id = worker.begin("repeat writeLines('x')")?;
            worker.started(&id)?;
            worker.interrupt()?;
            let cell = worker.finish(&id)?;
            assert!(cell.died.is_none(), "round {round}: {}", cell.err());
            assert_eq!(cell.status(), "interrupted", "round {round}");
        }
        assert_eq!(worker.run("x")?.out(), "[1] 5\n");
        Ok(())
    })
}

#[test]
fn interrupts_around_the_ends_of_cells_tear_no_frame() -> Outcome<()> {
    with_r(|worker| {
        for round in 0..60 {
            let id = worker
                .begin(["1", "cat('x\\n')", "stop('e')", "for (i in 1:1000) i", "message('m')"][round % 5])?;
            worker.started(&id)?;
            worker.interrupt()?;
            let status = worker.finish(&id)?.status();
            assert!(["ok", "error", "interrupted"].contains(&status.as_str()), "{status}");
        }
        worker.run("1")?;
        assert_eq!(worker.run("6 * 7")?.out(), "[1] 42\n");
        Ok(())
    })
}

#[test]
fn output_is_live_and_all_there_before_the_result() -> Outcome<()> {
    with_r(|worker| {
        let id = worker.begin("{ cat('early\\n'); Sys.sleep(600) }")?;
        worker.printed("early")?;
        worker.interrupt()?;
        assert_eq!(worker.finish(&id)?.status(), "interrupted");
        let long = worker.run("cat(1:200000, sep = '\\n')")?;
        assert_eq!(long.out().lines().count(), 200_000);
        let bytes = worker.run("cat('\\xff\\xfe\\n'); cat(strrep('y', 1e7))")?;
        assert_eq!((&bytes.stdout()[..3], bytes.stdout().len()), (&b"\xff\xfe\n"[..], 10_000_003));
        assert_eq!(worker.run("stop('\\xff')")?.status(), "error");
        assert_eq!(worker.run("system('echo out; echo err >&2')")?.err(), "err\n");
        let forked = worker.run("invisible(parallel::mclapply(1:2, function(i) cat('child\\n')))")?;
        assert_eq!(forked.out(), "child\nchild\n");
        Ok(())
    })
}

#[test]
fn a_forked_child_never_answers() -> Outcome<()> {
    with_r(|worker| {
        let cell = worker.run("p <- parallel:::mcfork()\nif (inherits(p, 'masterProcess')) cat('child\\n') else invisible(parallel:::selectChildren(p, 10))")?;
        assert_eq!(cell.status(), "ok");
        assert_eq!(worker.run("1 + 1")?.out().lines().last(), Some("[1] 2"));
        Ok(())
    })
}

#[test]
fn programs_started_by_a_cell_do_not_get_the_wire() -> Outcome<()> {
    with_r(|worker| {
        worker.run(
            "closed <- function(n) any(grepl('flags:.*[2367]......$', readLines(file.path('/proc/self/fdinfo', n), warn = FALSE)))
             numbers <- setdiff(list.files('/proc/self/fd'), c('0', '1', '2'))
             numbers <- numbers[file.exists(file.path('/proc/self/fdinfo', numbers))]
             own <- Sys.readlink(file.path('/proc/self/fd', Filter(closed, numbers)))",
        )?;
        let cell = worker.run(
            "theirs <- system('for n in /proc/self/fd/*; do readlink $n; done', intern = TRUE)
             cat(sum(grepl('pipe', own)), length(intersect(grep('pipe', own, value = TRUE), theirs)))",
        )?;
        assert_eq!(cell.out(), "2 0");
        Ok(())
    })
}

#[test]
fn a_hostile_cell_fails_at_most_itself() -> Outcome<()> {
    with_r(|worker| {
        for source in [
            "rm(list = ls(all.names = TRUE))",
            "c <- 1; T <- 0; F <- 1; list <- 5; paste <- 3; tryCatch <- 1; send <- run <- NULL",
            "rm(list = ls(all.names = TRUE)); for (i in 1:3) {}",
            "closeAllConnections()",
            "sink('/dev/null'); cat('gone')",
            "sink(textConnection('held', 'w'), type = 'message')",
            "options(OutDec = ',', digits = 3, scipen = -5)",
            "options(warn = 1, error = quote(q()), expressions = 30)",
            "options(device = 'pdf'); options(keep.source = FALSE)",
            "invisible(Sys.setlocale('LC_ALL', 'C'))",
            "unlink(tempdir(), recursive = TRUE); plot(1)",
            "dir <- tempfile(); dir.create(dir); setwd(dir); unlink(dir, recursive = TRUE)",
            "detach('package:stats'); detach('package:utils')",
            "while (length(search()) > 2) detach(2)",
            "setHook('before.plot.new', function() stop('hook')); plot(1)",
            "signalCondition(structure(class = c('fatal', 'condition'), list(message = 'm', call = NULL)))",
            "stop(structure(class = c('e', 'error', 'condition'), list()))",
            "print.bad <- function(x, ...) stop('no'); structure(1, class = 'bad')",
            "conditionMessage.bad <- function(c) stop('no'); stop(structure(class = c('bad', 'error', 'condition'), list(message = 'm', call = NULL)))",
            "reg.finalizer(environment(), function(e) stop('final'), onexit = TRUE)",
            "graphics.off(); dev.new(); dev.off()",
            "Sys.setenv(LANG = 'de_DE'); Sys.unsetenv('HOME')",
            "gctorture(FALSE); invisible(gc())",
            "makeActiveBinding('z', function() stop('z'), globalenv())",
            "trace('print', quote(stop('t')), print = FALSE)",
            "untrace('print')",
            "compiler::enableJIT(0)",
            "x <- '\\\\u00e9\\\\'; cat(x)",
        ] {
            let cell = worker.run(source)?;
            assert!(cell.died.is_none(), "{source} ended the worker: {}", cell.err());
            let next = worker.run("base::cat('printed\\n')")?;
            assert_eq!(
                (next.out().as_str(), next.status().as_str()),
                ("printed\n", "ok"),
                "after {source}: {} {}",
                next.error(),
                next.err()
            );
            let error = worker.run("base::stop('mine')")?;
            assert_eq!(error.error(), "Error: mine", "after {source}");
        }
        Ok(())
    })
}

#[test]
fn a_worker_that_dies_is_gone_with_its_exit_status() -> Outcome<()> {
    with_r(|worker| {
        let cell = worker.run("tools::pskill(Sys.getpid(), 9)\nSys.sleep(600)")?;
        assert_eq!(cell.died.and_then(|status| status.signal()), Some(9));
        let mut worker = start()?;
        let cell = worker.run("for (i in 3:20) try(close(getConnection(i)), silent = TRUE)")?;
        assert_eq!(cell.died.and_then(|status| status.code()), Some(70));
        assert!(cell.err().contains("agarose worker:"), "{}", cell.err());
        let mut worker = start()?;
        worker.send_bytes(b"\xff\xff\xff\xff\0\0\0\0")?;
        assert_eq!(worker.gone()?.died.and_then(|status| status.code()), Some(70));
        let mut worker = start()?;
        worker.hang_up()?;
        assert_eq!(worker.gone()?.died.and_then(|status| status.code()), Some(0));
        let mut worker = start()?;
        worker.run(".Last <- function() cat('last\\n')")?;
        worker.send(&json!({"t": "shutdown"}), b"")?;
        let end = worker.gone()?;
        assert_eq!((end.died.and_then(|status| status.code()), end.out().as_str()), (Some(0), "last\n"));
        Ok(())
    })
}

/// The files of a result: path, whether it is masked, and whether its digest is that of what is there.
fn files(worker: &Worker, cell: &Cell, field: &str) -> Vec<(String, bool, bool)> {
    let mut files: Vec<(String, bool, bool)> = cell
        .field(field)
        .as_array()
        .into_iter()
        .flatten()
        .map(|file| {
            let path = text(&file["path"]);
            let output = Command::new("sha256sum").arg(worker.workspace.path().join(&path)).output();
            let digest = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
            let same = digest.is_ok_and(|digest| {
                !text(&file["sha256"]).is_empty() && digest.starts_with(&text(&file["sha256"]))
            });
            (path, file["masked"] == true, same)
        })
        .collect();
    files.sort();
    files
}

#[test]
fn files_written_are_recorded_with_their_digests_and_secrets_are_masked() -> Outcome<()> {
    with_r(|worker| {
        fs::create_dir_all(worker.workspace.path().join("data"))?;
        let whole = |path: &str| (path.to_owned(), false, true);
        for (source, paths) in [
            (
                "writeLines('abc', 'data/out.txt'); cat('d', file = 'data/cat.txt')",
                &["data/cat.txt", "data/out.txt"][..],
            ),
            ("saveRDS(1:3, 'a.rds'); x <- 1; save(x, file = 'b.RData')", &["a.rds", "b.RData"]),
            ("write.csv(data.frame(a = 1), 'it\\'s \\'é\\'.csv')", &["it's 'é'.csv"]),
            ("system('echo x > made.txt')", &["made.txt"]),
            ("invisible(file.copy('made.txt', 'copied.txt'))", &["copied.txt"]),
            ("pdf('plot.pdf'); plot(1); invisible(dev.off())", &["plot.pdf"]),
            ("dump('x', 'dumped.R'); sink('sunk.txt'); print(1); sink()", &["dumped.R", "sunk.txt"]),
            ("con <- file('later.txt'); writeLines('a', con); close(con)", &["later.txt"]),
            ("x <- 2", &[]),
            ("x <- tempfile(); writeLines('a', x)", &[]),
        ] {
            let cell = worker.run(source)?;
            assert_eq!(cell.status(), "ok", "{source}: {}", cell.error());
            let expected: Vec<_> = paths.iter().map(|path| whole(path)).collect();
            assert_eq!(files(worker, &cell, "files_written"), expected, "{source}");
        }
        let names = [
            ".env",
            ".env.local",
            "x.env",
            "aws_credentials",
            "secrets.yml",
            "password.txt",
            "id_ed25519",
            "a.pem",
            "b.KEY",
            ".netrc",
            ".Renviron",
            "api_key.txt",
            "my-token.json",
            "c.p12",
        ];
        for name in names {
            let cell = worker.run(&format!("writeLines('k', 'data/{name}')"))?;
            assert_eq!(
                files(worker, &cell, "files_written"),
                [("data/***".to_owned(), true, false)],
                "{name}"
            );
        }
        let code = worker.run("writeLines('k', 'password.R'); writeLines('k', 'tokens.csv')")?;
        assert_eq!(files(worker, &code, "files_written"), [whole("password.R"), whole("tokens.csv")]);
        let many = worker.run("for (i in 1:300) writeLines('a', sprintf('data/%d.txt', i))")?;
        assert_eq!(files(worker, &many, "files_written").len(), 256);
        assert_eq!(many.field("files_counters")["written_seen"], 300);
        Ok(())
    })
}

#[test]
fn files_read_are_recorded_with_their_digests() -> Outcome<()> {
    with_r(|worker| {
        fs::create_dir_all(worker.workspace.path().join("data"))?;
        worker.run(
            "write.csv(cars, 'data/cars.csv'); saveRDS(1, 'a.rds'); x <- 1; save(x, file = 'b.RData'); writeLines('y <- 2', 'code.R'); writeLines('p', '.pgpass')",
        )?;
        for (source, path) in [
            ("d <- read.csv('data/cars.csv')", "data/cars.csv"),
            ("d <- readLines('data/cars.csv')", "data/cars.csv"),
            ("setwd('data'); d <- scan('cars.csv', '', quiet = TRUE); setwd('..')", "data/cars.csv"),
            ("con <- file('data/cars.csv', 'r'); d <- readLines(con, 1); close(con)", "data/cars.csv"),
            ("con <- file('data/cars.csv'); d <- readLines(con, 1); close(con)", "data/cars.csv"),
            ("d <- readBin('data/cars.csv', 'raw', 5)", "data/cars.csv"),
            ("d <- readRDS('a.rds')", "a.rds"),
            ("load('b.RData')", "b.RData"),
            ("source('code.R')", "code.R"),
            ("invisible(file.copy('a.rds', 'c.rds'))", "a.rds"),
        ] {
            let cell = worker.run(source)?;
            assert_eq!(cell.status(), "ok", "{source}: {}", cell.error());
            assert_eq!(files(worker, &cell, "files_read"), [(path.to_owned(), false, true)], "{source}");
        }
        let secret = worker.run("d <- readLines('.pgpass')")?;
        assert_eq!(files(worker, &secret, "files_read"), [("***".to_owned(), true, false)]);
        // What belongs to R and its packages is not the cell's data.
        let library = worker
            .run("library(MASS); d <- readLines('/etc/passwd'); try(readRDS('none.rds'), silent = TRUE)")?;
        assert_eq!(library.field("files_read"), Value::Null);
        Ok(())
    })
}

#[test]
fn the_last_value_is_shown_in_the_forms_that_repr_has_for_it() -> Outcome<()> {
    with_r(|worker| {
        let repr = worker.run("requireNamespace('repr', quietly = TRUE)")?.out() == "[1] TRUE\n";
        let source = "print(1)\ndata.frame(a = 1:2)";
        let plain = "  a\n1 1\n2 2";
        if repr {
            let cell = worker.run(source)?;
            assert_eq!((cell.out().as_str(), cell.value().as_str()), ("[1] 1\n", plain));
            let shown = cell.displays();
            let forms: Vec<&str> = shown[0].1.keys().map(String::as_str).collect();
            assert_eq!(forms, ["text/html", "text/latex", "text/markdown", "text/plain"]);
            assert!(shown[0].1["text/html"].starts_with(b"<table"));
            assert_eq!(worker.run("structure(list(1), class = 'mine')")?.displays().len(), 0);
            for printed in ["1:3", "list(1)", "'a'", "function(x) x", "invisible(data.frame(a = 1))", "NULL"]
            {
                assert_eq!(worker.run(printed)?.displays().len(), 0, "{printed}");
            }
            let broken = worker.run(
                "print.data.frame <- function(x, ...) { cat('before\\n'); stop('no') }; data.frame(a = 1)",
            )?;
            assert_eq!((broken.out().as_str(), broken.error().as_str()), ("before\n", "Error: no"));
            worker.run("rm(print.data.frame)")?;
        } else {
            eprintln!("left out: the forms of a package that is not installed (r-cran-repr)");
        }
        // As on a machine that has R and no package.
        worker.run("assign('.lib.loc', .Library, envir = environment(.libPaths)); if ('repr' %in% loadedNamespaces()) unloadNamespace('repr')")?;
        let cell = worker.run(source)?;
        assert_eq!((cell.out(), cell.displays().len()), (format!("[1] 1\n{plain}\n"), 0));
        Ok(())
    })
}

#[test]
fn a_cell_that_is_not_text_is_refused() -> Outcome<()> {
    with_r(|worker| {
        worker.send(&json!({"t": "execute", "id": "nul", "name": "<cell \"9\\\u{e9}\">", "ordinal": 9, "capture": true}), b"x <- '\0'")?;
        assert!(worker.finish("nul")?.error().contains("NUL"));
        worker.send(
            &json!({"t": "execute", "id": "bad", "name": "<cell 9>", "ordinal": 9, "capture": true}),
            b"x <- '\xff'",
        )?;
        assert!(worker.finish("bad")?.error().contains("not UTF-8"));
        worker.send(&json!({"t": "complete", "prefix": "x"}), b"")?;
        assert_eq!(worker.run("1")?.frames("log").len(), 1);
        Ok(())
    })
}
