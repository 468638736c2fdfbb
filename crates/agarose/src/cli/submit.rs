//! `agarose submit`: a ticket at once.

use std::{
    io::Read,
    path::{Path, PathBuf},
};

use agarose_core::Language;

use super::{Global, SubmitArgs, owner};
use crate::{
    api::SubmitBody,
    client::Client,
    report::{Exit, Problem, say},
};

/// How long a source may be, in bytes; JSON may make it longer on the way.
const SOURCE_LIMIT: u64 = 200 << 20;

pub(super) fn submit(global: &Global, args: &SubmitArgs) -> Result<Exit, Problem> {
    let request = request(args)?;
    let mut client = Client::connect(&global.data_dir()?)?;
    let submitted = client.submit(&request)?;
    if global.json {
        say(&serde_json::to_string(&submitted)
            .map_err(|error| Problem::because("cannot write JSON", &error))?);
    } else {
        say(&submitted.ticket);
    }
    Ok(Exit::Done)
}

/// The code that was typed, or that of a file with the file's name.
pub(super) fn source(code: Option<&str>, file: Option<&Path>) -> Result<(String, Option<String>), Problem> {
    match (code, file) {
        (Some(code), _) => Ok((code.to_owned(), None)),
        (None, Some(path)) => read_source(path),
        (None, None) => Err(Problem::usage("there is no code").hint("give -c CODE, a file, or - for stdin")),
    }
}

/// The request that was typed.
pub(super) fn request(args: &SubmitArgs) -> Result<SubmitBody, Problem> {
    let owner = owner(args.owner.as_deref())?;
    let language = match (&args.language, &args.file) {
        (Some(named), _) => parse_language(named)?,
        (None, Some(file)) if file.extension().is_some_and(|suffix| suffix.eq_ignore_ascii_case("r")) => {
            Language::R
        }
        (None, _) => Language::Python,
    };
    let (code, file_name) = source(args.code.as_deref(), args.file.as_deref())?;
    Ok(SubmitBody {
        session: args.session.clone(),
        owner,
        language: Some(language.as_str().to_owned()),
        code,
        name: args.name.clone().or(file_name),
        key: args.key.clone(),
        after: args.after.clone(),
        timeout_ms: args.timeout.map(crate::duration::Dur::millis),
        wait_timeout_ms: args.wait_timeout.map(crate::duration::Dur::millis),
        idle_timeout_ms: args.idle_timeout.map(crate::duration::Dur::millis),
        interrupt_grace_ms: args.interrupt_grace.map(crate::duration::Dur::millis),
        kill_grace_ms: args.kill_grace.map(crate::duration::Dur::millis),
        branch: args.branch.clone(),
        resource_keys: Vec::new(),
        metadata: None,
        workspace: args.workspace.as_deref().map(workspace).transpose()?,
    })
}

/// A language that was named.
pub(super) fn parse_language(named: &str) -> Result<Language, Problem> {
    named.parse().map_err(|error: agarose_core::id::IdError| {
        Problem::usage(error.to_string()).hint("write -l python or -l r")
    })
}

/// A directory for cells to run in, absolute; it must be there.
pub(super) fn workspace(dir: &Path) -> Result<String, Problem> {
    let absolute = std::fs::canonicalize(dir).and_then(|path| {
        if path.is_dir() { Ok(path) } else { Err(std::io::ErrorKind::NotADirectory.into()) }
    });
    let absolute: PathBuf = absolute.map_err(|error| {
        Problem::usage(format!("cells cannot run in {}", dir.display()))
            .caused_by(&error)
            .hint("name a directory that is there with --workspace DIR")
    })?;
    absolute.into_os_string().into_string().map_err(|path| {
        Problem::usage(format!("the name of {} is not UTF-8", path.display())).hint("rename it")
    })
}

fn read_source(path: &Path) -> Result<(String, Option<String>), Problem> {
    let from_stdin = path.as_os_str() == "-";
    let mut bytes = Vec::new();
    let read = if from_stdin {
        std::io::stdin().lock().take(SOURCE_LIMIT + 1).read_to_end(&mut bytes)
    } else {
        std::fs::File::open(path).and_then(|file| file.take(SOURCE_LIMIT + 1).read_to_end(&mut bytes))
    };
    let shown = if from_stdin { "standard input".to_owned() } else { path.display().to_string() };
    read.map_err(|error| {
        let missing = error.kind() == std::io::ErrorKind::NotFound;
        let exit = if missing { Exit::NotFound } else { Exit::Error };
        Problem::new(exit, "file", format!("cannot read {shown}")).caused_by(&error)
    })?;
    if bytes.len() as u64 > SOURCE_LIMIT {
        return Err(Problem::usage(format!("{shown} is longer than 200 MB"))
            .hint("put the data in a file and read it from the cell"));
    }
    let code = String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        Problem::usage(format!("{shown} is not UTF-8 text: byte {at} is not"))
            .hint("save it as UTF-8, for example with `iconv -f latin1 -t utf-8`")
    })?;
    if path.extension().is_some_and(|suffix| suffix.eq_ignore_ascii_case("ipynb")) {
        return Err(Problem::usage(format!("{shown} is a notebook, not one cell"))
            .hint(format!("run all of its cells with `agarose run {shown}`")));
    }
    let name = path.file_name().filter(|_| !from_stdin).map(|name| name.to_string_lossy().into_owned());
    Ok((code, name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    fn parsed(words: &[&str]) -> Result<SubmitBody, Problem> {
        let words = ["agarose", "submit"].iter().chain(words);
        let super::super::Cli { command: super::super::Command::Submit(args), .. } =
            super::super::Cli::try_parse_from(words).unwrap()
        else {
            panic!("it is a submit")
        };
        request(&args)
    }

    #[test]
    fn what_was_typed_becomes_a_request() {
        let request =
            parsed(&["-s", "w", "-l", "R", "--owner", "agent:a", "--timeout", "0", "-c", "1"]).unwrap();
        assert_eq!(
            request,
            SubmitBody {
                session: "w".into(),
                owner: "agent:a".into(),
                language: Some("r".into()),
                code: "1".into(),
                timeout_ms: Some(0),
                ..SubmitBody::default()
            }
        );
    }

    #[test]
    fn a_file_tells_its_language_and_its_name() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.R");
        std::fs::write(&path, "x <- 1").unwrap();
        let request = parsed(&[path.to_str().unwrap()]).unwrap();
        assert_eq!((request.language.as_deref(), request.name.as_deref()), (Some("r"), Some("a.R")));
    }

    #[test]
    fn slips_are_told_before_a_daemon_is_asked() {
        for (words, part) in [
            (&["--owner", "nobody", "-c", "1"] as &[&str], "an owner (KIND:ID"),
            (&["--owner", "agent: ", "-c", "1"], "owner id is empty"),
            (&["-l", "julia", "-c", "1"], "a language (python or r)"),
            (&["--workspace", "/nowhere", "-c", "1"], "cells cannot run in /nowhere"),
        ] {
            let problem = parsed(words).unwrap_err();
            assert_eq!(problem.exit, Exit::Usage);
            assert!(problem.message.contains(part), "{}", problem.message);
            assert!(problem.hint.is_some());
        }
        assert_eq!(parsed(&["/nowhere/a.py"]).unwrap_err().exit, Exit::NotFound);
    }
}
