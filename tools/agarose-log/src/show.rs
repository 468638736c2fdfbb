//! `show`: one event, or one ticket with its code and what it printed.

use agarose_core::{
    BlobRef, TicketId,
    event::Output,
    stream::{self, StreamChannel},
    ticket::Work,
};

use crate::{
    clock::{duration, rfc3339},
    error::LogError,
    json::{Json, hex},
    log::{Log, Moment, data},
    say,
    screen::Screen,
    story::{Place, Story, counters},
    words::{bytes, capital, plain, plain_lines, short, who},
};

/// The largest content that is read to be shown, in bytes.
const CONTENT_LIMIT: u64 = 64 * 1024 * 1024;

/// Runs `show SEQ|TICKET`.
pub(crate) fn run(log: &Log, what: &str, screen: &mut Screen<'_>) -> Result<u8, LogError> {
    let what = what.trim();
    // A ticket may consist of digits alone, and no event has a number of 26 digits.
    if let Ok(ticket) = what.parse::<TicketId>() {
        return ticket_and_events(log, ticket, screen);
    }
    let sequence = what.parse::<u64>().map_err(|_| LogError::Usage {
        what: format!("{:?} is neither the number of an event nor a ticket", short(what, 60)),
    })?;
    event(log, sequence, screen)
}

fn event(log: &Log, sequence: u64, screen: &mut Screen<'_>) -> Result<u8, LogError> {
    let (first, last) = (log.first(), log.head().sequence);
    let missing = || LogError::NoSuchEvent { sequence, first, last };
    if sequence < first || sequence > last {
        return Err(missing());
    }
    let moment = log.events(sequence, sequence).next().ok_or_else(missing)??;
    let commit = log.commit(sequence)?;
    let mut json = moment.json();
    json.push("record", Json::Number(commit.record));
    json.push("record_hash", Json::Text(hex(&commit.hash)));
    if screen.json {
        screen.value(&json)?;
        return Ok(0);
    }
    screen.line(&format!("event {sequence}  {}", moment.kind_name()))?;
    match moment.decode() {
        Ok(event) => screen.line(&format!("  {}", capital(&say::event(&event))))?,
        Err(error) => screen.line(&format!("  This event cannot be read: {}", plain(&error.to_string())))?,
    }
    let (wall, mono) = (moment.stamp().wall, moment.stamp().mono);
    screen.line(&format!("  at         {}  (the log's own clock: {})", rfc3339(wall), duration(mono)))?;
    screen.line(&format!("  record     {} ({})", commit.record, hex(&commit.hash)))?;
    match moment.decode().map(|event| data(&event)) {
        Ok(fields) => show_fields(&fields, "  ", screen)?,
        Err(_) => screen.line(&format!("  payload    {}", hex(&moment.raw.payload)))?,
    }
    Ok(0)
}

/// Writes the fields of an object, one a line, nested ones indented.
pub(crate) fn show_fields(json: &Json, indent: &str, screen: &mut Screen<'_>) -> Result<(), LogError> {
    let Json::Object(fields) = json else {
        screen.line(&format!("{indent}{}", scalar(json)))?;
        return Ok(());
    };
    for (name, value) in fields {
        match value {
            Json::Object(inner) if !inner.is_empty() => {
                screen.line(&format!("{indent}{}", plain(name)))?;
                show_fields(value, &format!("{indent}  "), screen)?;
            }
            value => screen.line(&format!("{indent}{:<9}  {}", plain(name), scalar(value)))?,
        }
    }
    Ok(())
}

/// A value on one line for people.
pub(crate) fn scalar(json: &Json) -> String {
    match json {
        Json::Text(text) => plain(text).into_owned(),
        Json::List(list) if list.is_empty() => "none".to_owned(),
        Json::Object(fields) if fields.is_empty() => "none".to_owned(),
        other => plain(&other.line()).into_owned(),
    }
}

/// What a cell printed, by channel.
#[derive(Default)]
struct Printed {
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    displays: u64,
}

/// Content that may be shown, or a sentence that says why it is not.
fn content(log: &Log, blob: &BlobRef) -> Result<Vec<u8>, String> {
    if blob.length > CONTENT_LIMIT {
        return Err(format!("{} are too many to show here", bytes(blob.length)));
    }
    match log.blob(blob) {
        Ok(Some(bytes)) => Ok(bytes),
        Ok(None) => Err(format!("the content {blob} is missing from the log")),
        Err(error) => Err(format!("the content {blob} cannot be read: {error}")),
    }
}

fn printed(log: &Log, output: &Output) -> Result<Printed, String> {
    let Some(blob) = &output.stream else { return Ok(Printed::default()) };
    let stream = content(log, blob)?;
    let mut printed = Printed::default();
    for run in stream::runs(&stream) {
        match run.channel {
            StreamChannel::Stdout => printed.stdout.extend_from_slice(run.bytes),
            StreamChannel::Stderr => printed.stderr.extend_from_slice(run.bytes),
            StreamChannel::Display => printed.displays = printed.displays.saturating_add(1),
        }
    }
    Ok(printed)
}

fn ticket_and_events(log: &Log, ticket: TicketId, screen: &mut Screen<'_>) -> Result<u8, LogError> {
    let mut story: Option<Story> = None;
    for moment in log.by_ticket(ticket) {
        let moment = moment?;
        let place: Place = moment.place();
        let story = story.get_or_insert_with(|| Story::new(ticket, place));
        if let Ok(event) = moment.decode() {
            story.add(place, &event);
        }
    }
    let story = story.ok_or(LogError::NoSuchTicket { ticket })?;
    let code = story.queued().and_then(|queued| match &queued.work {
        Work::Cell { source, .. } => Some(content(log, source)),
        Work::StopKernel | Work::RestartKernel => None,
    });
    let printed = story.output.as_ref().map(|output| printed(log, output));
    if screen.json {
        let mut json = story.json();
        add_content(&mut json, &story, code, printed);
        screen.value(&json)?;
    } else {
        for_people(&story, code, printed, screen)?;
        screen.line("events")?;
    }
    for moment in log.by_ticket(ticket) {
        let moment: Moment = moment?;
        if screen.json { screen.value(&moment.json())? } else { screen.line(&moment.line())? }
    }
    Ok(0)
}

fn add_content(
    json: &mut Json,
    story: &Story,
    code: Option<Result<Vec<u8>, String>>,
    printed: Option<Result<Printed, String>>,
) {
    match code {
        Some(Ok(code)) => json.push("code", Json::text(String::from_utf8_lossy(&code))),
        Some(Err(why)) => json.push("code_missing", Json::Text(why)),
        None => {}
    }
    if let Json::Object(fields) = json {
        fields.retain(|(name, _)| name != "stdout" && name != "stderr");
    }
    let Some(output) = &story.output else { return };
    let channel = |text: Option<&[u8]>, count| {
        let mut channel =
            Json::object([("text", Json::maybe(text, |text| Json::text(String::from_utf8_lossy(text))))]);
        if let (Json::Object(fields), Json::Object(more)) = (&mut channel, counters(count)) {
            fields.extend(more);
        }
        channel
    };
    let known = printed.as_ref().and_then(|printed| printed.as_ref().ok());
    json.push("stdout", channel(known.map(|printed| &*printed.stdout), &output.stdout));
    json.push("stderr", channel(known.map(|printed| &*printed.stderr), &output.stderr));
    match printed {
        Some(Err(why)) => json.push("output_missing", Json::Text(why)),
        Some(Ok(printed)) if printed.displays > 0 => json.push("displays", Json::Number(printed.displays)),
        Some(Ok(_)) | None => {}
    }
}

fn for_people(
    story: &Story,
    code: Option<Result<Vec<u8>, String>>,
    printed: Option<Result<Printed, String>>,
    screen: &mut Screen<'_>,
) -> Result<(), LogError> {
    screen.line(&format!("ticket {}  {}", story.ticket, story.state()))?;
    let mut field = |name: &str, value: Option<String>| -> Result<(), LogError> {
        if let Some(value) = value {
            screen.line(&format!("  {name:<9}  {value}"))?;
        }
        Ok(())
    };
    let queued = story.queued();
    let at = |place: Place| format!("{}  (event {})", rfc3339(place.at.wall), place.sequence);
    field("session", story.session.as_ref().map(|session| plain(session.as_str()).into_owned()))?;
    field("owner", queued.map(|queued| who(&queued.owner)))?;
    field("language", queued.map(|queued| queued.language.to_string()))?;
    field("key", queued.and_then(|queued| queued.key.as_deref()).map(|key| short(key, 200)))?;
    field("follows", queued.and_then(|queued| queued.after).map(|after| after.to_string()))?;
    field("retries", queued.and_then(|queued| queued.retry_of).map(|first| first.to_string()))?;
    field("queued", story.request.as_ref().map(|(place, _)| at(*place)))?;
    field("admitted", story.admitted.map(at))?;
    field("began", story.began.map(at))?;
    field("ended", story.end.as_ref().map(|end| at(end.place)))?;
    field("ran", story.end.as_ref().map(|end| end.executed.as_str().to_owned()))?;
    field("process", story.sent.map(|sent| sent.lease.generation.to_string()))?;
    match code {
        Some(Ok(code)) => block("code", &code, screen)?,
        Some(Err(why)) => screen.line(&format!("code: {why}"))?,
        None => {}
    }
    match printed {
        Some(Ok(printed)) => {
            block("standard output", &printed.stdout, screen)?;
            block("standard error", &printed.stderr, screen)?;
            if printed.displays > 0 {
                screen.line(&format!(
                    "shown: {}",
                    crate::words::count(printed.displays, "figure or value", "figures or values")
                ))?;
            }
        }
        Some(Err(why)) => screen.line(&format!("output: {why}"))?,
        None => {}
    }
    Ok(())
}

fn block(title: &str, text: &[u8], screen: &mut Screen<'_>) -> Result<(), LogError> {
    if text.is_empty() {
        return Ok(());
    }
    screen.line(title)?;
    for line in plain_lines(&String::from_utf8_lossy(text)).trim_end_matches('\n').split('\n') {
        screen.line(&format!("    {line}"))?;
    }
    Ok(())
}
