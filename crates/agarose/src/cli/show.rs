//! `agarose show`: everything known of a ticket.

use super::Global;
use crate::{
    api::TicketView,
    client::{Client, parse},
    duration,
    report::{Exit, Problem, printable, say},
};

pub(super) fn show(global: &Global, ticket: &str) -> Result<Exit, Problem> {
    let raw = Client::connect(&global.data_dir()?)?.show(ticket)?;
    if global.json {
        say(&String::from_utf8_lossy(&raw));
    } else {
        say(text(&parse(&raw)?).trim_end());
    }
    Ok(Exit::Done)
}

/// A ticket for people.
fn text(view: &TicketView) -> String {
    let mut lines = Vec::new();
    let mut row = |name: &str, value: String| {
        if !value.is_empty() {
            lines.push(format!("{name:<10} {value}"));
        }
    };
    row("ticket", view.ticket.clone());
    row("session", format!("{} ({})", printable(&view.session), view.language));
    row("owner", format!("{}:{}", view.owner.kind, printable(&view.owner.id)));
    let executed = match view.executed.as_deref() {
        Some("yes") => ", it ran",
        Some("no") if view.has_ended() => ", it never ran",
        Some("unknown") => ", whether it ran is not known",
        _ => "",
    };
    let place = if view.state == "queued" { format!(", place {}", view.position) } else { String::new() };
    row("state", format!("{}{place}{executed}", view.state.replace('_', " ")));
    row("kernel", view.generation.clone().unwrap_or_default());
    row("queued", view.queued_at.clone().unwrap_or_default());
    row("started", view.started_at.clone().unwrap_or_default());
    row("finished", view.finished_at.clone().unwrap_or_default());
    if let Some(cancel) = view.cancel.as_ref().filter(|cancel| cancel.requested) {
        let reason = cancel.reason.as_deref().filter(|reason| !reason.is_empty());
        row(
            "cancelled",
            reason.map_or("asked for".into(), |reason| format!("asked for: {}", printable(reason))),
        );
    }
    if let Some(analysis) = &view.analysis {
        row("reads", printable(&analysis.reads.join(", ")));
        row("writes", printable(&analysis.writes.join(", ")));
        row("deletes", printable(&analysis.deletes.join(", ")));
    }
    row("for", view.visibility.clone().unwrap_or_default());
    if let Some(replay) = &view.replay_policy {
        row("replay", format!("{replay}: {}", printable(&view.replay_reasons.join("; "))));
    }
    if let Some(verdict) = &view.verdict {
        row("result", super::stale::told(verdict));
    }
    for figure in &view.figures {
        row("figure", figure.clone());
    }
    for note in &view.notes {
        row("note", note.clone());
    }
    if let Some(error) = &view.error {
        let name = error.name.as_deref().map(|name| format!("{name}: ")).unwrap_or_default();
        let line = error.line.map(|line| format!(" (line {line} of the cell)")).unwrap_or_default();
        row("error", format!("{name}{}{line}", error.message.as_deref().unwrap_or(&error.kind)));
    }
    let mut text = lines.join("\n");
    for (name, stream) in [("stdout", &view.stdout), ("stderr", &view.stderr)] {
        if stream.seen > 0 {
            let dropped = match stream.dropped {
                0 => String::new(),
                dropped => format!(", {} of them not kept", duration::bytes(dropped)),
            };
            let seen = duration::bytes(stream.seen);
            text.push_str(&format!("\n\n{name} ({seen}{dropped}):\n{}", stream.text.trim_end_matches('\n')));
        }
    }
    if let Some(result) =
        view.result.as_ref().and_then(|data| data.get("text/plain")).and_then(|text| text.as_str())
    {
        text.push_str(&format!("\n\nresult:\n{}", result.trim_end_matches('\n')));
    }
    if let Some(traceback) = view.error.as_ref().and_then(|error| error.traceback.as_deref()) {
        text.push_str(&format!("\n\ntraceback:\n{}", traceback.trim_end_matches('\n')));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ticket_is_told_with_its_end_and_what_was_not_kept() {
        let view: TicketView = serde_json::from_value(serde_json::json!({
            "ticket": "T", "session": "s", "owner": {"kind": "agent", "id": "a"}, "language": "python",
            "state": "timed_out", "executed": "yes", "queued_at": "2026-01-01T00:00:00.000Z",
            "stdout": {"text": "1\n2\n", "seen": 2_000_004, "retained": 4, "dropped": 2_000_000,
                       "truncated": true, "unit": "bytes"},
            "error": {"kind": "timeout", "message": "The cell ran too long.", "kernel": "reset"},
            "notes": ["variables are gone"],
        }))
        .unwrap();
        assert_eq!(
            text(&view),
            "ticket     T\nsession    s (python)\nowner      agent:a\nstate      timed out, it ran\n\
             queued     2026-01-01T00:00:00.000Z\nnote       variables are gone\n\
             error      The cell ran too long.\n\n\
             stdout (2.0 MB, 2.0 MB of them not kept):\n1\n2"
        );
    }
}
