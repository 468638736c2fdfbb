//! R through the whole program: as at a prompt, with the same ladder, the same queue and the same records.

use std::{fs, path::Path, process::Command};

use agarose_blackbox::{Lab, resident, signal};
use nix::sys::signal::Signal;
use serde_json::{Value, json};

/// Whether this machine has R; says what is left out if not.
fn has_r() -> bool {
    let found = Command::new("Rscript").arg("--version").output().is_ok_and(|output| output.status.success());
    if !found {
        eprintln!("left out: no Rscript on the path (install r-base-core)");
    }
    found
}

/// Whether R has a package; says what is left out if not.
fn has_package(name: &str) -> bool {
    let code = format!("quit(status = !requireNamespace('{name}', quietly = TRUE))");
    let found =
        Command::new("Rscript").args(["-e", &code]).output().is_ok_and(|output| output.status.success());
    if !found {
        eprintln!("left out: the R package {name} is not installed");
    }
    found
}

fn r(lab: &Lab, code: &str) -> Value {
    lab.exec_with("s", code, &["-l", "r"])
}

fn out(shown: &Value) -> String {
    shown["stdout"]["text"].as_str().unwrap_or_default().to_owned()
}

fn err(shown: &Value) -> String {
    shown["stderr"]["text"].as_str().unwrap_or_default().to_owned()
}

fn message(shown: &Value) -> String {
    shown["error"]["message"].as_str().unwrap_or_default().to_owned()
}

/// What a prompt prints of a value, whether it came as text or as a display with more forms.
fn printed(shown: &Value) -> String {
    let value = shown["result"]["text/plain"].as_str().map(|text| format!("{text}\n")).unwrap_or_default();
    out(shown) + &value
}

#[test]
fn a_session_of_r_is_as_at_the_prompt() {
    if !has_r() {
        return;
    }
    let lab = Lab::started();
    for (code, prints) in [
        ("x <- 20\nx + 1", "[1] 21\n"),
        ("x", "[1] 20\n"),
        ("invisible(x)", ""),
        ("data.frame(a = 1:2, b = c('x', 'y'))", "  a b\n1 1 x\n2 2 y\n"),
        (
            "setClass('P', representation(x = 'numeric')); new('P', x = 1)",
            "An object of class \"P\"\nSlot \"x\":\n[1] 1\n\n",
        ),
        ("print.mine <- function(x, ...) cat('<mine>\\n'); structure(1, class = 'mine')", "<mine>\n"),
        ("f <- function(n) {\n  n # kept\n}\nf", "function(n) {\n  n # kept\n}\n"),
        ("'é中'", "[1] \"é中\"\n"),
        ("x <- 5; .Last.value", "[1] 5\n"),
        ("options(OutDec = ','); 1.5", "[1] 1,5\n"),
        ("l10n_info()$`UTF-8`", "[1] TRUE\n"),
    ] {
        let shown = r(&lab, code);
        assert_eq!((printed(&shown), &shown["state"]), (prints.to_owned(), &json!("completed")), "{code}");
    }
    if has_package("R6") {
        let shown = r(&lab, "R6::R6Class('C', public = list(print = function(...) cat('<C>\\n')))$new()");
        assert_eq!(printed(&shown), "<C>\n");
    }
    if has_package("tibble") {
        let shown = r(&lab, "options(OutDec = '.'); tibble::tibble(a = 1)");
        assert!(printed(&shown).contains("# A tibble: 1 × 1"), "{shown:#}");
    }
}

#[test]
fn conditions_of_r_come_when_they_are_raised_and_errors_say_where() {
    if !has_r() {
        return;
    }
    let lab = Lab::started();
    let shown = r(&lab, "message('m'); warning('now?'); cat('after\\n')\npackageStartupMessage('p')");
    assert_eq!((out(&shown).as_str(), err(&shown).as_str()), ("after\n", "m\nWarning message:\nnow?\np\n"));
    let shown = r(&lab, "for (i in 1:12) warning('w', i)");
    assert_eq!(err(&shown), "There were 12 warnings (use warnings() to see them)\n");
    assert!(out(&r(&lab, "warnings()")).starts_with("Warning messages:\n1: w1\n"));
    let shown = r(&lab, "options(warn = 2); as.integer('a')");
    assert_eq!(
        (shown["state"].as_str(), message(&shown).contains("converted from warning")),
        (Some("failed"), true)
    );
    r(&lab, "options(warn = 0); inner <- function(n) stop('bad ', n)\nouter <- function(n) {\n  inner(n)\n}");
    let shown = r(&lab, "x <- 1\n\nouter(5)");
    assert_eq!(shown["error"]["line"], 3, "{shown:#}");
    assert_eq!(message(&shown), "bad 5");
    let traceback = shown["error"]["traceback"].as_str().unwrap();
    let lines: Vec<&str> = traceback.lines().collect();
    assert_eq!(lines.len(), 5, "{traceback}");
    assert_eq!(lines[0], "Error in inner(n) : bad 5");
    assert!(lines[4].starts_with("1: outer(5)"), "{traceback}");
    assert!(out(&r(&lab, "traceback()")).ends_with("1: outer(5)\n"));
    let unknown = r(&lab, "plor()");
    assert_eq!(message(&unknown), "could not find function \"plor\"");
    assert!(unknown["error"]["traceback"].as_str().unwrap().lines().count() < 5, "{unknown:#}");
    let finally = r(&lab, "tryCatch(stop('a'), finally = cat('finally\\n'))");
    assert_eq!((out(&finally).as_str(), finally["state"].as_str()), ("finally\n", Some("failed")));
    let big = r(&lab, "stop(strrep('x', 5e7))");
    assert!(message(&big).len() < 10_100, "{} bytes", message(&big).len());
    let shown = printed(&r(&lab, "?mean"));
    assert!(shown.contains("Arithmetic Mean"), "{shown}");
}

#[test]
fn output_of_one_long_expression_of_r_is_live_bounded_and_counted() {
    if !has_r() {
        return;
    }
    let lab = Lab::started();
    let ticket = lab.submit_with("s", "{ cat('early\\n'); Sys.sleep(1e6) }", &["-l", "r"]);
    lab.until_printed(&ticket, "early");
    lab.run(["cancel", &ticket]).ok();
    assert_eq!(lab.wait(&ticket)["state"], "interrupted");
    let shown = r(&lab, "options(max.print = 1e8); print(1:2e6)");
    let stdout = &shown["stdout"];
    let count = |name: &str| stdout[name].as_u64().unwrap();
    assert!(count("seen") > 15_000_000, "{} bytes", count("seen"));
    assert_eq!(count("seen"), count("retained") + count("dropped"));
    assert_eq!(stdout["truncated"], true);
    assert!(out(&shown).ends_with("2000000\n"), "the tail is kept");
    assert!(resident(lab.daemon_pid()) < 200 << 20);
    let exact = r(&lab, "cat(strrep('é', 50000))");
    assert_eq!(
        (exact["stdout"]["seen"].as_u64(), &exact["stdout"]["truncated"]),
        (Some(100_000), &json!(false))
    );
    let children =
        r(&lab, "system('echo out; echo err >&2; head -c 65537 /dev/zero >&2; head -c 65537 /dev/zero')");
    assert_eq!(
        (children["stdout"]["seen"].as_u64(), children["stderr"]["seen"].as_u64()),
        (Some(65_541), Some(65_541))
    );
    let forked = r(&lab, "invisible(parallel::mclapply(1:2, function(i) cat('child\\n')))");
    assert_eq!(out(&forked), "child\nchild\n");
    let bytes = r(&lab, "cat('\\xff\\xfe\\n')");
    assert_eq!((bytes["state"].as_str(), bytes["stdout"]["seen"].as_u64()), (Some("completed"), Some(3)));
}

#[test]
fn plots_of_r_are_figures_one_for_each_page_and_in_order() {
    if !has_r() {
        return;
    }
    let lab = Lab::started();
    let figures = |shown: &Value| shown["figures"].as_array().map_or(0, Vec::len);
    let shown = r(
        &lab,
        "plot(1:3)\nmessage('m')\nplot(3:1)\nwarning('w')\n(function() { plot(2); stop('after') })()",
    );
    assert_eq!((figures(&shown), shown["state"].as_str()), (3, Some("failed")), "{shown:#}");
    assert_eq!(err(&shown), "m\nWarning message:\nw\n");
    for figure in shown["figures"].as_array().unwrap() {
        let path = figure.as_str().unwrap();
        assert!(fs::read(path).unwrap().starts_with(b"\x89PNG"), "{path}");
    }
    assert_eq!(figures(&r(&lab, "par(mfrow = c(1, 2)); plot(1); plot(2); invisible()")), 1);
    if has_package("lattice") {
        assert_eq!(figures(&r(&lab, "library(lattice); xyplot(mpg ~ wt, mtcars)")), 1);
    }
    if has_package("ggplot2") {
        assert_eq!(figures(&r(&lab, "library(ggplot2); ggplot(mtcars, aes(wt, mpg)) + geom_point()")), 1);
        assert_eq!(figures(&r(&lab, "for (i in 1:2) print(ggplot(mtcars, aes(wt, mpg)) + geom_point())")), 2);
    }
    assert_eq!(figures(&r(&lab, "p <- 1")), 0);
    // A page that is drawn on by several expressions is one figure: as it was last.
    let page = |shown: &Value| fs::read(shown["figures"][0].as_str().unwrap()).unwrap();
    let (drawn, whole) = (
        r(&lab, "plot(1:9)\nlines(9:1)\nabline(h = 5)"),
        r(&lab, "{ plot(1:9); lines(9:1); abline(h = 5) }"),
    );
    assert_eq!((figures(&drawn), figures(&whole)), (1, 1));
    assert!(page(&drawn) == page(&whole), "the last state of the page is kept");
    assert!(page(&drawn) != page(&r(&lab, "plot(1:9)")));
}

#[test]
fn what_waits_for_somebody_or_leaves_costs_r_at_most_its_cell() {
    if !has_r() {
        return;
    }
    let lab = Lab::started();
    r(&lab, "x <- 5");
    let worker = lab.worker("s");
    for code in ["readline('name? ')", "browser()", "f <- function() 1; debug(f); f()", "menu(c('a', 'b'))"] {
        let shown = lab.exec_with("s", code, &["-l", "r", "--timeout", "60s"]);
        assert!(message(&shown).contains("needs somebody at a terminal"), "{code}: {shown:#}");
        assert_eq!(out(&r(&lab, "1 + 1")), "[1] 2\n", "after {code}");
    }
    for code in ["q()", "quit('no', 3)", "tryCatch(q(), error = function(e) NULL)"] {
        let shown = r(&lab, code);
        assert_eq!(
            (shown["state"].as_str(), shown["error"]["kernel"].as_str()),
            (Some("failed"), Some("kept")),
            "{code}"
        );
        assert!(message(&shown).contains("the cell called q()"), "{shown:#}");
    }
    for code in [
        "closeAllConnections()",
        "sink('/dev/null'); cat('gone')",
        "rm(list = ls(all.names = TRUE)); c <- 1; T <- 0; for (i in 1:3) {}",
        "detach('package:stats'); while (length(search()) > 2) detach(2)",
        "options(OutDec = ',', warn = 1, error = quote(q()))",
        "signalCondition(structure(class = c('fatal', 'condition'), list(message = 'm', call = NULL)))",
        "makeActiveBinding('z', function() repeat {}, globalenv()); delayedAssign('forced', stop('forced'))",
    ] {
        r(&lab, code);
        let next = r(&lab, "base::cat('printed\\n')");
        assert_eq!(
            (out(&next).as_str(), next["state"].as_str()),
            ("printed\n", Some("completed")),
            "after {code}"
        );
    }
    signal(worker, Signal::SIGINT);
    assert_eq!(out(&r(&lab, "base::cat(6 * 7)")), "42", "an interrupt of nobody does nothing");
    assert_eq!(lab.worker("s"), worker, "one kernel ran it all");
}

#[test]
fn a_cell_of_r_past_its_timeout_is_interrupted_and_keeps_its_variables() {
    if !has_r() {
        return;
    }
    let lab = Lab::started();
    let limits = ["-l", "r", "--timeout", "1s", "--interrupt-grace", "10s", "--kill-grace", "2s"];
    r(&lab, "kept <- 7");
    for code in [
        "repeat {}",
        "Sys.sleep(1e6)",
        "for (i in 1:1e9) print(i)",
        "system('exec sleep 1000000')",
        "system2('sleep', '1000000')",
        "x <- system('exec sleep 1000000', intern = TRUE)",
        "readLines(pipe('exec sleep 1000000'))",
    ] {
        let shown = lab.exec_with("s", code, &limits);
        assert_eq!(shown["state"], "interrupted", "{code}: {}", shown["error"]);
        assert_eq!(shown["error"]["kernel"], "kept", "{code}: {shown:#}");
        assert_eq!(out(&r(&lab, "kept")), "[1] 7\n", "after {code}");
    }
    let shown = lab.exec_with(
        "s",
        "tryCatch({ cat('in\\n'); Sys.sleep(1e6) }, finally = cat('finally\\n'))",
        &limits,
    );
    assert_eq!(out(&shown), "in\nfinally\n");
    assert_eq!(lab.processes().iter().filter(|pid| is_sleep(**pid)).count(), 0);
}

fn is_sleep(pid: i32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.trim() == "sleep")
}

#[test]
fn what_r_does_not_interrupt_is_ended_by_the_ladder() {
    if !has_r() {
        return;
    }
    let lab = Lab::started();
    let limits = ["-l", "r", "--timeout", "1s", "--interrupt-grace", "300ms", "--kill-grace", "2s"];
    for code in [
        "repeat tryCatch(Sys.sleep(1), interrupt = function(c) NULL)",
        // C code that never looks, and an R that does not in between.
        "suspendInterrupts({ m <- matrix(1, 2000, 2000); repeat m %*% m })",
        "system('trap \"\" INT; sleep 1000000')",
    ] {
        let shown = lab.exec_with("s", code, &limits);
        assert_eq!(
            (shown["state"].as_str(), shown["error"]["kernel"].as_str()),
            (Some("timed_out"), Some("reset")),
            "{code}: {}",
            shown["error"]
        );
        assert_eq!(out(&r(&lab, "1 + 1")), "[1] 2\n", "after {code}");
    }
}

#[test]
fn a_worker_of_r_that_dies_is_named_and_the_session_goes_on_in_a_new_generation() {
    if !has_r() {
        return;
    }
    let lab = Lab::started();
    let first = r(&lab, "x <- 1");
    let shown = r(
        &lab,
        "cat('before\\n'); write('last words', stderr()); tools::pskill(Sys.getpid(), 9); Sys.sleep(1e6)",
    );
    assert_eq!(
        (shown["state"].as_str(), shown["error"]["kind"].as_str()),
        (Some("failed"), Some("kernel_died"))
    );
    assert!(message(&shown).contains("SIGKILL"), "{shown:#}");
    assert_eq!((out(&shown).as_str(), err(&shown).as_str()), ("before\n", "last words\n"));
    let next = r(&lab, "exists('x')");
    assert_eq!(out(&next), "[1] FALSE\n");
    assert_ne!(next["generation"], first["generation"]);
}

#[test]
fn without_r_its_cells_are_refused_and_python_is_unaffected() {
    let mut lab = Lab::new();
    // Python as it is found, and nothing else.
    let only = lab.work().join("only");
    fs::create_dir(&only).unwrap();
    let python = Command::new("python3").args(["-c", "import sys; print(sys.executable)"]).output().unwrap();
    let python = String::from_utf8(python.stdout).unwrap();
    std::os::unix::fs::symlink(python.trim(), only.join("python3")).unwrap();
    lab.set_env("PATH", only.to_str().unwrap());
    lab.set_env("CONDA_PREFIX", "");
    lab.serve(&[]);
    let shown = r(&lab, "1");
    assert_eq!(
        (shown["state"].as_str(), shown["executed"].as_str()),
        (Some("refused"), Some("no")),
        "{shown:#}"
    );
    assert!(
        message(&shown).contains("install R 4.1") && message(&shown).contains("apt install r-base-core"),
        "{shown:#}"
    );
    assert_eq!(lab.run(["wait", shown["ticket"].as_str().unwrap()]).code, 14);
    assert_eq!(lab.exec("s", "6 * 7")["result"]["text/plain"], "42");
    let doctor = lab.run(["doctor", "--json"]).json();
    let check =
        doctor["checks"].as_array().unwrap().iter().find(|check| check["name"] == "R").unwrap().clone();
    assert_eq!(check["state"], "note", "{check:#}");
    assert!(check["fix"].as_str().unwrap().contains("apt install r-base-core"), "{check:#}");
}

#[test]
fn a_profile_that_ends_r_is_said_with_what_it_wrote() {
    if !has_r() {
        return;
    }
    let lab = Lab::new();
    fs::write(lab.work().join(".Rprofile"), "stop('broken profile')\n").unwrap();
    let ran = lab.run(["run", &script(&lab, "a.R", "1")]);
    assert_eq!(ran.code, 14, "{ran:?}");
    assert!(ran.stderr.contains("broken profile"), "{ran:?}");
    fs::write(lab.work().join(".Rprofile"), "cat('from the profile\\n'); mine <- 5\n").unwrap();
    let ran = lab.run(["run", &script(&lab, "a.R", "mine")]).ok();
    assert_eq!(ran.stdout, "[1] 5\n", "what it prints is no cell's");
}

#[test]
fn host_is_not_in_r_and_says_where_it_is() {
    if !has_r() {
        return;
    }
    let lab = Lab::started();
    for code in ["host$bash('ls')", "host", "host[['read']]"] {
        assert_eq!(message(&r(&lab, code)), "there is no host in R; call it from a Python cell", "{code}");
    }
    assert_eq!(out(&r(&lab, "host <- 'mine'; host")), "[1] \"mine\"\n");
}

#[test]
fn the_r_that_was_asked_for_runs_and_is_recorded_with_its_library() {
    if !has_r() {
        return;
    }
    let mut lab = Lab::new();
    let answer = lab.run(["run", &script(&lab, "a.R", "1"), "--rscript", "./no-such", "--json"]);
    assert_eq!(answer.code, 14, "{answer:?}");
    assert!(answer.stdout.contains("no-such does not run as a r interpreter"), "{answer:?}");
    let doctor = lab.run(["doctor", "--rscript", "/no-such", "--json"]);
    assert_eq!(doctor.code, 1, "{doctor:?}");
    let rscript = Command::new("sh").args(["-c", "command -v Rscript"]).output().unwrap();
    let rscript = String::from_utf8(rscript.stdout).unwrap();
    lab.serve(&["--rscript", rscript.trim()]);
    // An renv project: R takes its library up by itself, from the workspace.
    let project = lab.work().join("project");
    fs::create_dir_all(project.join("renv/library/mine")).unwrap();
    fs::write(project.join(".Rprofile"), "source('renv/activate.R')\n").unwrap();
    fs::write(
        project.join("renv/activate.R"),
        ".libPaths(c(file.path(getwd(), 'renv/library'), .libPaths()))\n",
    )
    .unwrap();
    fs::write(project.join("renv/library/mine/DESCRIPTION"), "Package: mine\nVersion: 1.0\n").unwrap();
    let inside = lab.exec_with(
        "inside",
        "basename(dirname(.libPaths()[1]))",
        &["-l", "r", "--workspace", project.to_str().unwrap()],
    );
    assert_eq!(out(&inside), "[1] \"renv\"\n", "{inside:#}");
    assert_eq!(out(&lab.exec_with("outside", "R.home('bin')", &["-l", "r"])).matches("bin").count(), 1);
    let version = out(&lab.exec_with("outside", "cat(as.character(getRversion()))", &["-l", "r"]));
    let ready: Vec<Value> = lab.events().into_iter().filter(|event| event["kind"] == "KernelReady").collect();
    let processes: Vec<&Value> = ready.iter().map(|event| find(event, "packages").unwrap()).collect();
    assert_eq!(processes.len(), 2);
    assert!(processes.iter().all(|process| process["version"] == version.as_str()), "{processes:#?}");
    assert!(processes.iter().all(|process| Path::new(process["executable"].as_str().unwrap()).exists()));
    assert_ne!(processes[0]["packages"], processes[1]["packages"], "the library is another");
    let shown = lab.run(["session", "show", "outside"]).ok().stdout;
    assert!(
        shown.contains(&format!("r {version} ({})", processes[0]["executable"].as_str().unwrap())),
        "{shown}"
    );
}

/// The object within a value that has such a field.
fn find<'a>(value: &'a Value, field: &str) -> Option<&'a Value> {
    match value {
        Value::Object(object) if object.contains_key(field) => Some(value),
        Value::Object(object) => object.values().find_map(|inner| find(inner, field)),
        Value::Array(items) => items.iter().find_map(|inner| find(inner, field)),
        _ => None,
    }
}

fn script(lab: &Lab, name: &str, text: &str) -> String {
    let path = lab.work().join(name);
    fs::write(&path, text).unwrap();
    path.display().to_string()
}

#[test]
fn files_that_r_reads_and_writes_are_in_the_record_of_the_cell() {
    if !has_r() {
        return;
    }
    let lab = Lab::started();
    let wrote = r(
        &lab,
        "write.csv(cars, 'cars.csv', row.names = FALSE); saveRDS(cars, 'cars.rds'); writeLines('k', '.env')",
    );
    let paths = |files: &Value| {
        let mut paths: Vec<String> = files
            .as_array()
            .into_iter()
            .flatten()
            .map(|file| file["path"].as_str().unwrap().to_owned())
            .collect();
        paths.sort();
        paths
    };
    assert_eq!(paths(&wrote["files_written"]), ["***", "cars.csv", "cars.rds"], "{wrote:#}");
    let read = r(&lab, "a <- read.csv('cars.csv'); b <- readRDS('cars.rds'); identical(dim(a), dim(b))");
    assert_eq!(paths(&read["files_read"]), ["cars.csv", "cars.rds"], "{read:#}");
    let digest = |files: &Value, path: &str| {
        files.as_array().unwrap().iter().find(|file| file["path"] == path).unwrap()["sha256"].clone()
    };
    for path in ["cars.csv", "cars.rds"] {
        assert_eq!(digest(&wrote["files_written"], path).as_str().unwrap().len(), 64);
        assert_eq!(digest(&wrote["files_written"], path), digest(&read["files_read"], path));
    }
    // By which a later change is noticed.
    r(&lab, "cat('1,2\\n', file = 'cars.csv', append = TRUE)");
    let stale = lab.run(["stale", "s", "-l", "r"]);
    let stale = if stale.code == 2 { lab.run(["stale", "s"]) } else { stale };
    assert!(stale.stdout.contains("cars.csv"), "{stale:?}");
}

#[test]
fn scripts_and_documents_of_r_run_and_become_notebooks_that_run_again() {
    if !has_r() {
        return;
    }
    let lab = Lab::new();
    let document =
        "---\ntitle: T\n---\n\n# Head\n\n```{r first}\nx <- 20\nx + 1\n```\n\nText\n\n```{r}\nplot(x)\n```\n";
    for (name, text) in [
        ("analysis.Rmd", document),
        ("analysis.qmd", document),
        ("analysis.R", "# %% first\nx <- 20\nx + 1\n# %%\nplot(x)\n"),
    ] {
        let file = script(&lab, name, text);
        let notebook = lab.work().join(format!("{name}.ipynb"));
        let ran = lab.run(["run", &file, "--out", notebook.to_str().unwrap()]).ok();
        assert!(ran.stdout.contains("[1] 21"), "{name}: {ran:?}");
        assert!(ran.stderr.contains("2 of 2 cells completed"), "{name}: {ran:?}");
        let written: Value = serde_json::from_slice(&fs::read(&notebook).unwrap()).unwrap();
        assert_eq!(written["metadata"]["kernelspec"]["name"], "ir");
        assert!(written.to_string().contains("image/png"), "{name}");
        let again = lab.run(["run", notebook.to_str().unwrap()]).ok();
        assert!(again.stdout.contains("[1] 21"), "{name}: {again:?}");
    }
    let failing = lab.run(["run", &script(&lab, "bad.R", "x <- 1\n\nstop('here')\n")]);
    assert_eq!(failing.code, 10);
    assert!(failing.stderr.contains("at bad.R:3"), "{failing:?}");
}

#[test]
fn a_notebook_of_both_languages_runs_in_its_order_and_shares_files() {
    if !has_r() {
        return;
    }
    let lab = Lab::new();
    let text = "```{python}\nopen('shared.txt', 'w').write('from python')\nprint('1 python')\n```\n\n```{r}\ncat('2', readLines('shared.txt', warn = FALSE), '\\n')\nwriteLines('from r', 'back.txt')\nx <- 1\n```\n\n```{python}\nprint('3', open('back.txt').read().strip())\n```\n\n```{r}\ncat('4', x, '\\n')\n```\n";
    let notebook = lab.work().join("mixed.ipynb");
    let ran = lab.run(["run", &script(&lab, "mixed.qmd", text), "--out", notebook.to_str().unwrap()]).ok();
    let expected = "1 python\n2 from python \n3 from r\n4 1 \n";
    assert_eq!(ran.stdout, expected);
    // What was written is run again in the same languages.
    assert_eq!(lab.run(["run", notebook.to_str().unwrap()]).ok().stdout, expected);
}

#[test]
fn cells_of_both_languages_of_a_session_stand_in_one_queue() {
    if !has_r() {
        return;
    }
    let lab = Lab::started();
    let gate = lab.gate("go");
    let place = lab.work().join("order.txt");
    let place = place.display();
    let python = |word: &str| format!("with open('{place}', 'a') as f: f.write('{word} ')\n");
    let in_r = |word: &str| format!("cat('{word} ', file = '{place}', append = TRUE)");
    let mut tickets = vec![lab.submit("s", &(gate + &python("a")))];
    tickets.push(lab.submit_with("s", &in_r("b"), &["-l", "r"]));
    tickets.push(lab.submit("s", &python("c")));
    tickets.push(lab.submit_with("s", &in_r("d"), &["-l", "r"]));
    lab.open_gate("go");
    for ticket in &tickets {
        assert_eq!(lab.wait(ticket)["state"], "completed");
    }
    assert_eq!(fs::read_to_string(lab.work().join("order.txt")).unwrap(), "a b c d ");
    assert_eq!(lab.session("s")["kernels"].as_array().unwrap().len(), 2);
}

#[test]
fn a_namespace_of_r_is_restored_by_its_names_alone() {
    if !has_r() {
        return;
    }
    let lab = Lab::started();
    r(&lab, "kept <- 20 + 1");
    r(&lab, "df <- kept * 2");
    assert_eq!(r(&lab, "tools::pskill(Sys.getpid(), 9); Sys.sleep(1e6)")["error"]["kind"], "kernel_died");
    // `df` is also a function of a package: that is not what was lost.
    assert_eq!(out(&r(&lab, "is.function(df)")), "[1] TRUE\n");
    let done = lab.run(["restore", "s", "--names", "kept,df", "-l", "r", "--json"]).json();
    assert_eq!(done["restored"], json!(["kept", "df"]), "{done:#}");
    assert_eq!(out(&r(&lab, "df")), "[1] 42\n");
}
