//! `agarose pause`, `resume`, `retry`, `pending`, `approve` and `deny`.

use serde::Deserialize;

use super::{DecideArgs, FlowArgs, Global, RetryArgs, owner};
use crate::{
    api::{DecisionBody, FlowBody, RetryBody, SubmittedBody},
    client::{Client, parse},
    report::{Exit, Problem, note, printable, say},
};

/// Which way.
#[derive(Clone, Copy)]
pub(super) enum Flow {
    /// Admit no more.
    Pause,
    /// Admit again.
    Resume,
}

pub(super) fn flow(global: &Global, args: &FlowArgs, flow: Flow) -> Result<Exit, Problem> {
    let request =
        FlowBody { session: args.session.clone(), all: args.all, owner: owner(args.owner.as_deref())? };
    let (path, done) = match flow {
        Flow::Pause => ("/v1/pause", "paused; what runs goes on"),
        Flow::Resume => ("/v1/resume", "resumed"),
    };
    let body = Client::connect(&global.data_dir()?)?.post(path, &request)?;
    if global.json {
        say(&String::from_utf8_lossy(&body));
    } else {
        let what =
            args.session.as_deref().map_or("all sessions".into(), |session| format!("session {session}"));
        say(&format!("{what} {done}"));
    }
    Ok(Exit::Done)
}

pub(super) fn retry(global: &Global, args: &RetryArgs) -> Result<Exit, Problem> {
    let request = RetryBody { owner: args.owner.as_deref().map(|named| owner(Some(named))).transpose()? };
    let mut client = Client::connect(&global.data_dir()?)?;
    let path = crate::client::ticket_path(&args.ticket, "/retry");
    let body = client.post(&path, &request)?;
    if global.json {
        say(&String::from_utf8_lossy(&body));
    } else {
        say(&parse::<SubmittedBody>(&body)?.ticket);
    }
    Ok(Exit::Done)
}

#[derive(Deserialize)]
#[serde(default)]
#[derive(Default)]
struct Question {
    id: String,
    session: String,
    ticket: Option<String>,
    method: String,
    detail: String,
}

pub(super) fn pending(global: &Global) -> Result<Exit, Problem> {
    let body = Client::connect(&global.data_dir()?)?.get("/v1/permissions")?;
    if global.json {
        say(&String::from_utf8_lossy(&body));
        return Ok(Exit::Done);
    }
    let questions: Vec<Question> = parse(&body)?;
    for question in &questions {
        let who = question.ticket.as_deref().unwrap_or(&question.session);
        say(&format!("{}  {}  {}: {}", question.id, who, question.method, printable(&question.detail)));
    }
    if questions.is_empty() {
        note("no question waits for an answer");
    } else {
        note("answer with `agarose approve ID` or `agarose deny ID`");
    }
    Ok(Exit::Done)
}

pub(super) fn decide(global: &Global, args: &DecideArgs, allow: bool) -> Result<Exit, Problem> {
    let request = DecisionBody { allow, owner: owner(args.owner.as_deref())? };
    let path = crate::client::permission_path(&args.id);
    let body = Client::connect(&global.data_dir()?)?.post(&path, &request)?;
    if global.json {
        say(&String::from_utf8_lossy(&body));
    } else {
        say(&format!("{} {}", args.id, if allow { "approved" } else { "denied" }));
    }
    Ok(Exit::Done)
}
