//! Which interpreter a kernel runs.

use std::{
    collections::BTreeMap,
    env,
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::Mutex,
};

use agarose_core::Language;

/// An interpreter that was found, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interpreter {
    /// Which language.
    pub language: Language,
    /// The program itself, not a shim of pyenv or asdf.
    pub program: PathBuf,
    /// How it was found, for people: `.venv in the workspace`.
    pub found: String,
}

/// Why there is no interpreter.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InterpreterError {
    /// None was found.
    #[error("no {language} interpreter was found; {install}")]
    NotFound {
        /// For which language.
        language: Language,
        /// What to install, or to set.
        install: String,
    },
    /// The one asked for does not run.
    #[error("{} does not run as a {language} interpreter: {detail}", program.display())]
    DoesNotRun {
        /// For which language.
        language: Language,
        /// The program.
        program: PathBuf,
        /// What happened.
        detail: String,
    },
}

/// What an interpreter is asked, once: its own program and its version.
const ASK_PYTHON: &str = "import sys; print(sys.executable); print('%d.%d' % sys.version_info[:2])";
const ASK_R: &str =
    "cat(file.path(R.home('bin'), 'R'), paste(R.version$major, R.version$minor, sep='.'), sep='\\n')";

const INSTALL_PYTHON: &str = "install Python 3.9 or later (`apt install python3`, `conda install python`), or name one with --python PATH";
const INSTALL_R: &str = "install R 4.1 or later (`apt install r-base-core`, `conda install -c conda-forge r-base`), or name one with --rscript PATH";

/// Finds an interpreter: the one asked for; else the active environment's; else the workspace's
/// own; else, for R, that of the conda environment named `r`; else the first on `PATH`. The library
/// of an renv project is no other interpreter: R itself takes it up, from the workspace's `.Rprofile`. It is asked once what program it really is, since a shim of
/// pyenv or asdf costs time at every start; the answer is remembered while this process lives.
///
/// # Errors
/// When there is none, with what to install, or the one asked for does not run.
pub fn find_interpreter(
    language: Language,
    asked_for: Option<&Path>,
    workspace: &Path,
) -> Result<Interpreter, InterpreterError> {
    find_in(language, asked_for, workspace, &|name| env::var_os(name))
}

fn find_in(
    language: Language,
    asked_for: Option<&Path>,
    workspace: &Path,
    variable: &dyn Fn(&str) -> Option<OsString>,
) -> Result<Interpreter, InterpreterError> {
    let search = variable("PATH").unwrap_or_default();
    if let Some(program) = asked_for {
        let found = format!("{}, as asked for", program.display());
        let program = if program.components().count() == 1 {
            on_path(&search, program).unwrap_or_else(|| program.to_path_buf())
        } else {
            workspace.join(program)
        };
        return ask(language, &program, workspace, &search)
            .map(|program| Interpreter { language, program, found })
            .map_err(|detail| InterpreterError::DoesNotRun { language, program, detail });
    }
    let mut candidates: Vec<(PathBuf, &str)> = Vec::new();
    let mut add = |path: Option<PathBuf>, how| candidates.extend(path.map(|path| (path, how)));
    let active = |name: &str| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    match language {
        Language::Python => {
            add(
                active("VIRTUAL_ENV").map(|prefix| prefix.join("bin/python")),
                "the active virtual environment",
            );
            add(
                active("CONDA_PREFIX").map(|prefix| prefix.join("bin/python")),
                "the active conda environment",
            );
            add(Some(workspace.join(".venv/bin/python")), ".venv in the workspace");
            add(on_path(&search, Path::new("python3")), "python3 on PATH");
            add(on_path(&search, Path::new("python")), "python on PATH");
        }
        Language::R => {
            add(
                active("CONDA_PREFIX").map(|prefix| prefix.join("bin/Rscript")),
                "the active conda environment",
            );
            add(Some(workspace.join(".conda/bin/Rscript")), ".conda in the workspace");
            add(Some(workspace.join(".pixi/envs/default/bin/Rscript")), ".pixi in the workspace");
            for root in conda_roots(&active) {
                add(Some(root.join("envs/r/bin/Rscript")), "the conda environment r");
            }
            add(on_path(&search, Path::new("Rscript")), "Rscript on PATH");
        }
    }
    let mut broken = None;
    for (candidate, how) in candidates {
        if !candidate.exists() {
            continue;
        }
        match ask(language, &candidate, workspace, &search) {
            Ok(program) => return Ok(Interpreter { language, program, found: how.to_owned() }),
            Err(detail) => {
                broken.get_or_insert(format!("{how} ({}) does not run: {detail}", candidate.display()));
            }
        }
    }
    let install = match language {
        Language::Python => INSTALL_PYTHON,
        Language::R => INSTALL_R,
    };
    let install = broken.map_or_else(|| install.to_owned(), |broken| format!("{broken}; {install}"));
    Err(InterpreterError::NotFound { language, install })
}

/// Where conda and its like keep their named environments.
fn conda_roots(active: &dyn Fn(&str) -> Option<PathBuf>) -> Vec<PathBuf> {
    let above = |path: PathBuf, levels: usize| path.ancestors().nth(levels).map(Path::to_path_buf);
    let of_program = active("CONDA_EXE").and_then(|program| above(program, 2));
    let roots = [of_program, active("MAMBA_ROOT_PREFIX")];
    let mut roots: Vec<PathBuf> = roots.into_iter().flatten().collect();
    if let Some(prefix) = active("CONDA_PREFIX") {
        let named = prefix.parent().is_some_and(|parent| parent.ends_with("envs"));
        roots.extend(if named { above(prefix, 2) } else { Some(prefix) });
    }
    roots
}

fn on_path(search: &OsString, program: &Path) -> Option<PathBuf> {
    env::split_paths(search).map(|dir| dir.join(program)).find(|path| path.is_file())
}

/// Asks a program what it is; gives its own path. Remembered by the file and when it was changed,
/// and by the workspace, since a shim answers by that. An R takes a third of a second to answer, and
/// is asked once for all workspaces unless it lies among shims.
fn ask(language: Language, program: &Path, workspace: &Path, search: &OsString) -> Result<PathBuf, String> {
    type Key = (PathBuf, PathBuf, Option<std::time::SystemTime>);
    static ANSWERS: Mutex<BTreeMap<Key, Result<PathBuf, String>>> = Mutex::new(BTreeMap::new());
    let changed = fs::metadata(program).and_then(|metadata| metadata.modified()).ok();
    let everywhere = language == Language::R && !program.iter().any(|part| part == "shims");
    let asked_in = if everywhere { Path::new("") } else { workspace };
    let key = (program.to_path_buf(), asked_in.to_path_buf(), changed);
    // A panic elsewhere leaves the map whole: it is only ever inserted into.
    let remembered = |answers: &BTreeMap<Key, Result<PathBuf, String>>| answers.get(&key).cloned();
    let answers = ANSWERS.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    if let Some(answer) = remembered(&answers) {
        return answer;
    }
    drop(answers);
    let answer = ask_now(language, program, workspace, search);
    if answer.is_ok() {
        ANSWERS.lock().unwrap_or_else(std::sync::PoisonError::into_inner).insert(key, answer.clone());
    }
    answer
}

fn ask_now(
    language: Language,
    program: &Path,
    workspace: &Path,
    search: &OsString,
) -> Result<PathBuf, String> {
    let (arguments, least): (&[&str], (u32, u32)) = match language {
        // -S and -E: what it is does not depend on what is installed in it.
        Language::Python => (&["-S", "-E", "-c", ASK_PYTHON], (3, 9)),
        Language::R => (&["--vanilla", "-e", ASK_R], (4, 1)),
    };
    let mut command = Command::new(program);
    command.args(arguments).env("PATH", search).stdin(Stdio::null());
    if workspace.is_dir() {
        command.current_dir(workspace);
    }
    let output = command.output().map_err(|error| error.to_string())?;
    if !output.status.success() {
        let said: String = String::from_utf8_lossy(&output.stderr).trim().chars().take(300).collect();
        return Err(if said.is_empty() { output.status.to_string() } else { said });
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let mut lines = text.lines().rev();
    let (Some(version), Some(path)) = (lines.next(), lines.next()) else {
        return Err("it does not say what it is".to_owned());
    };
    let mut numbers = version.split('.').map_while(|part| part.parse::<u32>().ok());
    let is = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    if is < least {
        return Err(format!("it is version {version}, and {}.{} or later is needed", least.0, least.1));
    }
    let path = PathBuf::from(path.trim());
    // An interpreter that does not know its own path is started as it was found.
    Ok(if path.is_absolute() && path.exists() { path } else { program.to_path_buf() })
}

/// The worker's program and arguments, for workers installed by [`super::install_workers`].
#[must_use]
pub fn worker_argv(interpreter: &Interpreter, workers: &Path) -> Vec<String> {
    let text = |path: PathBuf| path.to_string_lossy().into_owned();
    let program = text(interpreter.program.clone());
    match interpreter.language {
        Language::Python => vec![program, text(workers.join("python/agarose_worker.py"))],
        Language::R => {
            let file = format!("--file={}", text(workers.join("r/worker.R")));
            vec![program, "--no-echo".into(), "--no-restore".into(), "--no-save".into(), file]
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// A program that answers as an interpreter does.
    fn fake(path: &Path, script: &str) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn find(
        workspace: &Path,
        asked: Option<&str>,
        variables: &[(&str, &Path)],
    ) -> Result<Interpreter, InterpreterError> {
        find_in(Language::Python, asked.map(Path::new), workspace, &|name| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| value.as_os_str().to_owned())
        })
    }

    #[test]
    fn the_one_asked_for_comes_before_the_active_one_before_the_workspace_s_before_path() {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name);
        for place in ["path", "active", "work/.venv"] {
            let file = at(place).join(if place == "path" { "python3" } else { "bin/python" });
            fake(&file, "echo \"$0\"; echo 3.11");
        }
        fake(&at("asked/python"), "echo \"$0\"; echo 3.13");
        let (work, path, active) = (at("work"), at("path"), at("active"));
        let program =
            |asked: Option<&str>, variables: &[(&str, &Path)]| find(&work, asked, variables).unwrap().program;
        let asked = at("asked/python");
        let both: [(&str, &Path); 2] = [("VIRTUAL_ENV", &active), ("PATH", &path)];
        assert_eq!(program(asked.to_str(), &both), asked);
        assert_eq!(program(None, &both), at("active/bin/python"));
        assert_eq!(program(None, &both[1..]), at("work/.venv/bin/python"));
        assert_eq!(find(root.path(), None, &both[1..]).unwrap().found, "python3 on PATH");
    }

    #[test]
    fn an_r_is_the_active_one_s_the_workspace_s_conda_s_named_r_or_on_path() {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name);
        let (work, path, conda, active) = (at("work"), at("path"), at("conda"), at("conda/envs/active"));
        let programs = [
            active.join("bin/Rscript"),
            work.join(".conda/bin/Rscript"),
            conda.join("envs/r/bin/Rscript"),
            path.join("Rscript"),
        ];
        for program in &programs {
            fake(program, "echo \"$0\"; echo 4.3.1");
        }
        let variables = [("CONDA_PREFIX", active.as_path()), ("PATH", path.as_path())];
        for (n, program) in programs.iter().enumerate() {
            let found = find_in(Language::R, None, &work, &|name| {
                variables.iter().find(|(known, _)| *known == name).map(|(_, value)| value.into())
            });
            assert_eq!(&found.unwrap().program, program);
            // The next is found when this one is not there.
            fs::remove_file(&programs[n]).unwrap();
        }
        let error = find_in(Language::R, None, &work, &|_| None).unwrap_err().to_string();
        assert!(error.starts_with("no r interpreter was found; install R 4.1"), "{error}");
        assert!(error.contains("apt install r-base-core"), "{error}");
    }

    #[test]
    fn an_r_is_asked_once_for_all_workspaces_unless_it_is_a_shim() {
        let root = tempfile::tempdir().unwrap();
        for (place, times) in [("bin", 1), ("shims", 2)] {
            let asked = root.path().join(format!("asked-{place}"));
            let program = root.path().join(place).join("Rscript");
            fake(&program, &format!("echo x >>{}; echo \"$0\"; echo 4.3.1", asked.display()));
            for workspace in ["a", "b", "a"] {
                let workspace = root.path().join(workspace);
                let found = find_in(Language::R, Some(&program), &workspace, &|_| None).unwrap();
                assert_eq!(found.program, program);
            }
            assert_eq!(fs::read_to_string(asked).unwrap().lines().count(), times, "{place}");
        }
    }

    #[test]
    fn a_shim_is_resolved_to_the_program_it_stands_for() {
        let root = tempfile::tempdir().unwrap();
        let real = root.path().join("versions/bin/python3.11");
        fake(&real, "");
        fake(&root.path().join("shims/python3"), &format!("echo {}; echo 3.11", real.display()));
        let shims = root.path().join("shims");
        assert_eq!(find(root.path(), None, &[("PATH", &shims)]).unwrap().program, real);
    }

    #[test]
    fn without_an_interpreter_the_error_says_what_to_install() {
        let root = tempfile::tempdir().unwrap();
        let error = find(root.path(), None, &[("PATH", root.path())]).unwrap_err();
        assert!(
            error.to_string().starts_with("no python interpreter was found; install Python 3.9"),
            "{error}"
        );
        fake(&root.path().join("python3"), "echo /x; echo 3.6");
        let error = find(root.path(), None, &[("PATH", root.path())]).unwrap_err();
        assert!(error.to_string().contains("it is version 3.6, and 3.9 or later is needed"), "{error}");
    }

    #[test]
    fn one_asked_for_that_does_not_run_is_an_error_and_no_other_is_taken() {
        let root = tempfile::tempdir().unwrap();
        fake(&root.path().join("python3"), "echo broken >&2; exit 1");
        let error = find(root.path(), Some("./python3"), &[("PATH", root.path())]).unwrap_err();
        assert!(error.to_string().ends_with("does not run as a python interpreter: broken"), "{error}");
    }
}
