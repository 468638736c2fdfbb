//! `agarose wait` and `agarose observe`: looking without touching.

use std::time::{Duration, Instant};

use super::{Global, ObserveArgs, Until, WaitArgs, exec, screen::Screen};
use crate::{
    api::{OutputBody, RunBody},
    client::Client,
    duration,
    report::{Exit, Problem, say},
};

pub(super) fn wait(global: &Global, args: &WaitArgs) -> Result<Exit, Problem> {
    let mut client = Client::connect(&global.data_dir()?)?;
    let (raw, view) = client.wait(&args.ticket, args.timeout.and_then(|limit| limit.0))?;
    if global.json {
        say(&String::from_utf8_lossy(&raw));
    } else if view.has_ended() {
        say(&view.state);
        exec::conclude(&Screen::new(true, false), &view);
    } else {
        let waited = args.timeout.and_then(|limit| limit.0).map(duration::spoken).unwrap_or_default();
        say(&view.state);
        crate::report::note(&format!("it goes on; {waited} of waiting are over"));
    }
    Ok(Exit::of_state(&view.state))
}

/// One observation, as JSON tells it.
#[derive(serde::Serialize)]
struct Observation {
    ticket: String,
    state: String,
    running: bool,
    /// Host calls that are waited for.
    outstanding: Vec<String>,
    output: Vec<RunBody>,
    /// Where the next observation begins.
    next: u64,
}

pub(super) fn observe(global: &Global, args: &ObserveArgs) -> Result<Exit, Problem> {
    let mut client = Client::connect(&global.data_dir()?)?;
    let deadline = match args.until {
        Until::End => None,
        Until::Yield => args.yield_after.0.map(|after| Instant::now() + after),
    };
    let screen = Screen::new(!global.json, false);
    let mut next = args.from;
    let mut runs = Vec::new();
    let mut is_last = false;
    while !is_last {
        let left = deadline.map(|at| at.saturating_duration_since(Instant::now()));
        is_last = left.is_some_and(|left| left.is_zero());
        let output: OutputBody =
            client.output_within(&args.ticket, next, left.unwrap_or(Duration::from_secs(30)))?;
        if global.json {
            runs.extend(output.runs);
        } else {
            exec::show(&output, next, &screen);
        }
        is_last = output.ended || is_last && next == output.next;
        next = output.next;
    }
    // The last word comes a moment after the last output; who asked for the end gets it.
    let (_, view) = match args.until {
        Until::End => client.wait(&args.ticket, None)?,
        Until::Yield => client.wait(&args.ticket, Some(Duration::ZERO))?,
    };
    if global.json {
        let observation = Observation {
            ticket: view.ticket.clone(),
            running: !view.has_ended(),
            state: view.state.clone(),
            outstanding: Vec::new(),
            output: runs,
            next,
        };
        say(&serde_json::to_string(&observation)
            .map_err(|error| Problem::because("cannot write JSON", &error))?);
    } else {
        screen.note(&format!("{}; go on with --from {next}", view.state));
    }
    Ok(if view.has_ended() { Exit::of_state(&view.state) } else { Exit::Done })
}
