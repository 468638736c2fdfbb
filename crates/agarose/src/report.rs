//! What a person reads when something is in the way: what happened, to what, what to do next, and an
//! exit code that scripts may rely on.

use std::{
    fmt::Write as _,
    io::{IsTerminal, Write as _},
};

use serde::Serialize;

/// The exit codes of the program. Frozen: scripts rely on them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Exit {
    /// It completed, or it was done.
    Done = 0,
    /// An error of our own.
    Error = 1,
    /// The command line does not make sense.
    Usage = 2,
    /// No daemon answers.
    NoDaemon = 3,
    /// There is no such ticket, session or file.
    NotFound = 4,
    /// Refused: queue full, conflict, closed, denied.
    Refused = 5,
    /// The cell failed.
    Failed = 10,
    /// The cell was interrupted.
    Interrupted = 11,
    /// The ticket was cancelled.
    Cancelled = 12,
    /// Its time was over.
    TimedOut = 13,
    /// It was never run.
    NotRun = 14,
    /// It was under way in a crash, and nothing is left that could tell.
    Lost = 15,
    /// It goes on; or another observer is there.
    Busy = 20,
}

impl Exit {
    /// The code of a ticket's state; a ticket that is still open is busy.
    pub(crate) fn of_state(state: &str) -> Self {
        match state {
            "completed" => Self::Done,
            "failed" => Self::Failed,
            "interrupted" => Self::Interrupted,
            "cancelled" => Self::Cancelled,
            "timed_out" => Self::TimedOut,
            "refused" => Self::NotRun,
            "lost" => Self::Lost,
            "queued" | "running" => Self::Busy,
            _ => Self::Error,
        }
    }
}

impl From<Exit> for std::process::ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// Something that is in the way. Boxed, since every call that may meet one returns it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem(Box<Fields>);

impl std::ops::Deref for Problem {
    type Target = Fields;

    fn deref(&self) -> &Fields {
        &self.0
    }
}

impl std::ops::DerefMut for Problem {
    fn deref_mut(&mut self) -> &mut Fields {
        &mut self.0
    }
}

/// What is known of a problem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fields {
    /// A stable word for machines.
    pub(crate) kind: String,
    /// What happened, to what.
    pub(crate) message: String,
    /// Why, from the nearest cause to the farthest.
    pub(crate) causes: Vec<String>,
    /// What to do next.
    pub(crate) hint: Option<String>,
    /// The ticket that it is about.
    pub(crate) ticket: Option<String>,
    /// What the program ends with.
    pub(crate) exit: Exit,
}

#[derive(Serialize)]
struct ErrorBody<'a> {
    error: ErrorFields<'a>,
}

#[derive(Serialize)]
struct ErrorFields<'a> {
    kind: &'a str,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ticket: Option<&'a str>,
    exit_code: u8,
}

impl Problem {
    /// A problem without causes.
    pub(crate) fn new(exit: Exit, kind: &str, message: impl Into<String>) -> Self {
        let (kind, message) = (kind.into(), message.into());
        Self(Box::new(Fields { kind, message, causes: Vec::new(), hint: None, ticket: None, exit }))
    }

    /// An error of our own around another.
    pub(crate) fn because(message: impl Into<String>, error: &dyn std::error::Error) -> Self {
        let mut problem = Self::new(Exit::Error, "internal", message);
        problem.add_causes(error);
        problem
    }

    /// A wrong argument.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, "usage", message)
    }

    /// With what to do next.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// With an error and what lies under it.
    pub(crate) fn caused_by(mut self, error: &dyn std::error::Error) -> Self {
        self.add_causes(error);
        self
    }

    fn add_causes(&mut self, error: &dyn std::error::Error) {
        let mut next = Some(error);
        while let Some(error) = next {
            let text = error.to_string();
            // A library that repeats its source in its own text would be read twice.
            if !self.causes.iter().any(|known| known.ends_with(&text)) && !text.is_empty() {
                self.causes.push(text);
            }
            next = error.source();
        }
    }

    /// The message and its causes in one line.
    pub(crate) fn sentence(&self) -> String {
        let mut text = self.message.clone();
        for cause in &self.causes {
            let _ = write!(text, ": {cause}");
        }
        text
    }

    /// The text for a terminal or a pipe.
    pub(crate) fn render(&self, colour: bool) -> String {
        let (red, cyan, reset) = if colour { ("\x1b[1;31m", "\x1b[36m", "\x1b[0m") } else { ("", "", "") };
        let mut text = format!("{red}error:{reset} {}\n", self.sentence());
        if let Some(hint) = &self.hint {
            for (n, line) in hint.lines().enumerate() {
                let lead = if n == 0 { "hint:" } else { "     " };
                let _ = writeln!(text, " {cyan}{lead}{reset} {line}");
            }
        }
        text
    }

    /// The value that `--json` prints.
    pub(crate) fn json(&self) -> String {
        let body = ErrorBody {
            error: ErrorFields {
                kind: &self.kind,
                message: self.sentence(),
                hint: self.hint.as_deref(),
                ticket: self.ticket.as_deref(),
                exit_code: self.exit as u8,
            },
        };
        serde_json::to_string(&body).unwrap_or_else(|_| String::from("{\"error\":{\"kind\":\"internal\"}}"))
    }

    /// Tells it: to people on stderr and, with `--json`, to programs on stdout.
    pub(crate) fn tell(&self, json: bool) -> Exit {
        if json {
            say(&self.json());
        }
        let text = self.render(colour(&std::io::stderr()));
        let _ = std::io::stderr().lock().write_all(text.as_bytes());
        self.exit
    }
}

/// Whether a stream takes colours: a terminal, and nobody said no.
pub(crate) fn colour(stream: &impl IsTerminal) -> bool {
    let no_colour = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    !no_colour && !dumb && stream.is_terminal()
}

/// One line on stdout. A reader that has gone away is no error: it has seen what it wanted.
pub(crate) fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(line.as_bytes()).and_then(|()| out.write_all(b"\n")).and_then(|()| out.flush());
}

/// One line on stderr.
pub(crate) fn note(line: &str) {
    let mut err = std::io::stderr().lock();
    let _ = err.write_all(line.as_bytes()).and_then(|()| err.write_all(b"\n"));
}

/// Text from elsewhere, safe to print within a line: control characters are shown, not obeyed.
pub(crate) fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("could not read the segment")]
    struct Outer(#[source] std::io::Error);

    #[test]
    fn a_person_gets_what_happened_why_and_what_to_do() {
        let error = Outer(std::io::Error::other("the disk is gone"));
        let problem = Problem::because("could not open /data", &error).hint("plug it in\nthen try again");
        assert_eq!(
            problem.render(false),
            "error: could not open /data: could not read the segment: the disk is gone\n \
             hint: plug it in\n       then try again\n"
        );
    }

    #[test]
    fn a_cause_that_repeats_its_source_is_told_once() {
        let error = std::io::Error::other(Outer(std::io::Error::other("inner")));
        let problem = Problem::because("x", &error);
        assert_eq!(problem.sentence(), "x: could not read the segment: inner");
    }

    #[test]
    fn a_program_gets_the_same_as_one_json_value() {
        let mut problem = Problem::new(Exit::Refused, "queue_full", "the queue is full").hint("wait");
        problem.ticket = Some("01".into());
        assert_eq!(
            problem.json(),
            r#"{"error":{"kind":"queue_full","message":"the queue is full","hint":"wait","ticket":"01","exit_code":5}}"#
        );
    }

    #[test]
    fn every_last_word_has_its_exit_code() {
        let codes =
            ["completed", "failed", "interrupted", "cancelled", "timed_out", "refused", "lost", "running"]
                .map(|state| Exit::of_state(state) as u8);
        assert_eq!(codes, [0, 10, 11, 12, 13, 14, 15, 20]);
    }
}
