//! `agarose cancel`, `interrupt` and `terminate`: exactly this ticket, or nobody.

use serde::Deserialize;

use super::{CancelArgs, Global, owner};
use crate::{
    api::CancelBody,
    client::{Client, parse},
    report::{Exit, Problem, say},
};

/// How far to go.
#[derive(Clone, Copy)]
pub(super) enum Reach {
    /// One interrupt.
    Interrupt,
    /// Wherever it stands, with the whole ladder.
    Full,
}

#[derive(Deserialize)]
struct Found {
    #[serde(default)]
    found: String,
    #[serde(default)]
    reason: Option<String>,
}

pub(super) fn cancel(global: &Global, args: &CancelArgs, reach: Reach) -> Result<Exit, Problem> {
    let request = CancelBody {
        owner: owner(args.owner.as_deref())?,
        reason: args.reason.clone(),
        reach: Some(match reach {
            Reach::Interrupt => "interrupt".into(),
            Reach::Full => "full".into(),
        }),
    };
    let mut client = Client::connect(&global.data_dir()?)?;
    let body = client.cancel(&args.ticket, &request)?;
    if global.json {
        say(&String::from_utf8_lossy(&body));
    } else {
        say(&sentence(&parse(&body)?, &args.ticket));
    }
    Ok(Exit::Done)
}

fn sentence(found: &Found, ticket: &str) -> String {
    match found.found.as_str() {
        "dequeued" => format!("{ticket} waited in the queue; it is cancelled and will not run"),
        "stopped_before_start" => format!("{ticket} had not begun; it is cancelled and will not run"),
        "interrupting" => {
            format!("{ticket} runs; an interrupt is on its way (`agarose wait {ticket}` tells the end)")
        }
        "already_requested" => match &found.reason {
            Some(reason) if !reason.is_empty() => {
                format!("{ticket} is being stopped already; the first reason stays: {reason}")
            }
            _ => format!("{ticket} is being stopped already"),
        },
        "cannot_stop" => format!("{ticket} stops or restarts a kernel, which cannot be taken back"),
        other => format!("{ticket}: {other}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_cancellation_found_is_said_in_a_sentence() {
        let of = |found: &str, reason: Option<&str>| {
            sentence(&Found { found: found.into(), reason: reason.map(str::to_owned) }, "T")
        };
        assert_eq!(of("dequeued", None), "T waited in the queue; it is cancelled and will not run");
        assert_eq!(
            of("already_requested", Some("too slow")),
            "T is being stopped already; the first reason stays: too slow"
        );
        assert_eq!(of("already_requested", None), "T is being stopped already");
    }
}
