//! `agarose wait` and `agarose observe`: looking without touching.

use std::time::Duration;

use super::{Global, ObserveArgs, Until, WaitArgs, exec, screen::Screen};
use crate::{
    api::{ObservedBody, OutputBody},
    client::{Client, parse, ticket_path},
    duration::{self, Dur},
    report::{Exit, Problem, say},
};

/// How long a yield is waited for when nobody says.
const YIELD_AFTER: Dur = Dur(Some(Duration::from_secs(1)));

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

pub(super) fn observe(global: &Global, args: &ObserveArgs) -> Result<Exit, Problem> {
    let mut client = Client::connect(&global.data_dir()?)?;
    let until = match args.until {
        Until::Yield => "yield",
        Until::Pending => "pending",
        Until::End => "end",
    };
    let mut query = format!("/observe?until={until}");
    let patience = args.yield_after.or((args.until == Until::Yield).then_some(YIELD_AFTER));
    if let Some(after) = patience.and_then(|after| after.0) {
        query.push_str(&format!("&yield_after_ms={}", after.as_millis()));
    }
    if let Some(from) = args.from {
        query.push_str(&format!("&from={from}"));
    }
    let body = client.get(&ticket_path(&args.ticket, &query))?;
    let observed: ObservedBody = parse(&body)?;
    if global.json {
        say(&String::from_utf8_lossy(&body));
    } else {
        let screen = Screen::new(true, false);
        let next = observed.next;
        let output = OutputBody { runs: observed.output, next, dropped: observed.dropped, ended: false };
        exec::show(&output, next, &screen);
        for call in &observed.outstanding {
            let answer = call.permission.as_deref().map_or_else(String::new, |permission| {
                format!("; answer with `agarose approve {permission}` or `agarose deny {permission}`")
            });
            screen.note(&format!("it waits for host.{} ({}){answer}", call.method, call.id));
        }
        screen.note(&format!("{}; the next observation goes on from {next}", observed.state));
    }
    Ok(if observed.running { Exit::Done } else { Exit::of_state(&observed.state) })
}
