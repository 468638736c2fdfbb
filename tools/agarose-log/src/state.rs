//! `state` and `diff`: what the events fold to, at any point.

use agarose_core::{
    Stamp, World, cell::Phase, host_call::Standing, session::Session, slot::Slot, ticket::Work,
};

use crate::{
    clock::{duration, rfc3339},
    error::LogError,
    json::Json,
    log::Log,
    screen::Screen,
    select::Point,
    show::scalar,
    story::Place,
    words::{count, interpreter, plain, quoted, short, who},
};

/// Fields of the state that repeat others for speed; they say nothing new.
const DERIVED: [&str; 4] = ["keys", "recent_by_ticket", "questions", "deadlines"];

/// A folded state and the last event that is in it.
pub(crate) struct Folded {
    pub(crate) world: World,
    pub(crate) last: Option<Place>,
}

/// Folds the log up to a point; all of it without one.
pub(crate) fn fold(log: &Log, to: Option<Point>) -> Result<Folded, LogError> {
    let mut folded = Folded { world: World::new(), last: None };
    go_on(log, &mut folded, to)?;
    Ok(folded)
}

/// Folds further, up to a later point.
fn go_on(log: &Log, folded: &mut Folded, to: Option<Point>) -> Result<(), LogError> {
    let next = folded.last.map_or(1, |last| last.sequence.saturating_add(1));
    for moment in log.events(next, u64::MAX) {
        let moment = moment?;
        if to.is_some_and(|to| to.is_before(&moment)) {
            break;
        }
        folded.world.apply(moment.stamp(), &moment.event()?);
        folded.last = Some(moment.place());
    }
    Ok(())
}

fn point(log: &Log, text: &str) -> Result<Point, LogError> {
    let point = Point::parse(text)?;
    if let Point::After(sequence) = point
        && sequence > log.head().sequence
    {
        return Err(LogError::NoSuchEvent { sequence, first: log.first(), last: log.head().sequence });
    }
    Ok(point)
}

/// The state without what is derived from the rest of it.
fn state_json(world: &World) -> Json {
    let mut json = Json::of(world);
    if let Json::Object(fields) = &mut json {
        fields.retain(|(name, _)| !DERIVED.contains(&name.as_str()));
    }
    json
}

/// Runs `state [--at SEQ|TIME]`.
pub(crate) fn state(log: &Log, at: Option<&str>, screen: &mut Screen<'_>) -> Result<u8, LogError> {
    let to = at.map(|at| point(log, at)).transpose()?;
    let folded = fold(log, to)?;
    if screen.json {
        let mut json = Json::object([
            ("seq", Json::Number(folded.last.map_or(0, |last| last.sequence))),
            ("wall", Json::maybe(folded.last, |last| Json::Text(rfc3339(last.at.wall)))),
            ("mono", Json::maybe(folded.last, |last| Json::Number(last.at.mono))),
        ]);
        json.push("anomalies_total", Json::Number(folded.world.anomalies()));
        json.push("state", state_json(&folded.world));
        screen.value(&json)?;
    } else {
        for_people(&folded, screen)?;
    }
    Ok(0)
}

fn for_people(folded: &Folded, screen: &mut Screen<'_>) -> Result<(), LogError> {
    let world = &folded.world;
    let Some(last) = folded.last else {
        screen.line("Nothing has happened yet.")?;
        return Ok(());
    };
    screen.line(&format!("after event {} of {}", last.sequence, rfc3339(last.at.wall)))?;
    let gate = match (world.admitting(), world.paused()) {
        (false, _) => "Agarose is stopping or stopped".to_owned(),
        (true, Some(by)) => format!("every session is paused by {}", who(by)),
        (true, None) => "Agarose takes new work".to_owned(),
    };
    screen.line(&format!(
        "{gate}; started {}; {}; {}",
        count(world.starts(), "time", "times"),
        count(world.sessions().len() as u64, "session", "sessions"),
        count(world.open_tickets() as u64, "open ticket", "open tickets"),
    ))?;
    if world.anomalies() > 0 {
        let n = count(world.anomalies(), "event does", "events do");
        screen.line(&format!("{n} not fit the state before, which must not happen"))?;
    }
    for (name, session) in world.sessions() {
        screen.line("")?;
        let mut title = format!("session {}", plain(name.as_str()));
        if let Some(by) = &session.paused {
            title.push_str(&format!(", paused by {}", who(by)));
        }
        if let Some(closed) = &session.closed {
            title.push_str(&format!(", closed: {}", quoted(&closed.reason)));
        }
        screen.line(&title)?;
        show_session(session, last.at, screen)?;
    }
    Ok(())
}

fn show_session(session: &Session, now: Stamp, screen: &mut Screen<'_>) -> Result<(), LogError> {
    let since = |mono: u64| duration(now.mono.saturating_sub(mono));
    if let Some(cell) = &session.active {
        let phase = match &cell.phase {
            Phase::Admitted => "it is its turn".to_owned(),
            Phase::StartAwaited => "waits for its process to start".to_owned(),
            Phase::StopAwaited => "waits for its process to stop".to_owned(),
            Phase::Underway(run) => {
                let mut text = match run.acknowledged {
                    Some(began) => format!("runs for {}", since(began.mono)),
                    None => format!("sent {} ago, not begun yet", since(run.sent.mono)),
                };
                if run.rung.cause().is_some() {
                    text.push_str(", is being stopped");
                }
                if run.budget.is_frozen() {
                    text.push_str(", its time stands still while a question is open");
                }
                text
            }
            Phase::Draining(drain) => {
                format!("has ended ({}); its calls are being ended", drain.word.as_str().replace('_', " "))
            }
        };
        screen.line(&format!("  active    {}  {phase}", cell.ticket))?;
    }
    for (call, open) in &session.calls {
        let standing = match open.standing {
            Standing::Asked(permission) => format!("waits for an answer to {permission}"),
            Standing::Dispatched { orphaned: true } => "was under way when Agarose died".to_owned(),
            Standing::Dispatched { orphaned: false } | Standing::Open => "is being done".to_owned(),
        };
        let age = since(open.since);
        screen.line(&format!("  call      {call}  host.{}, for {age}, {standing}", plain(&open.method)))?;
    }
    for (index, id) in session.queue.iter().enumerate() {
        let Some(ticket) = session.tickets.get(id) else { continue };
        let what = match &ticket.work {
            Work::Cell { name: Some(name), .. } => format!("{} {}", ticket.language, short(name, 40)),
            Work::Cell { name: None, .. } => ticket.language.to_string(),
            Work::StopKernel => format!("stop {}", ticket.language),
            Work::RestartKernel => format!("restart {}", ticket.language),
        };
        let position = index.saturating_add(1);
        screen.line(&format!(
            "  waiting   {id}  {position}. in the queue, {what}, {}, for {}",
            who(&ticket.owner),
            since(ticket.queued.mono)
        ))?;
    }
    for (language, slot) in &session.slots {
        let name = interpreter(*language);
        let text = match slot {
            Slot::Absent { .. } => continue,
            Slot::Starting { generation, since: at, .. } => {
                format!("{name} ({generation}) starts, for {}", since(*at))
            }
            Slot::Ready { generation, process, .. } => {
                format!("{name} {} ({generation}), process {}", short(&process.version, 60), process.pid)
            }
            Slot::Stopping { generation, .. } => format!("{name} ({generation}) is being stopped"),
        };
        screen.line(&format!("  process   {text}"))?;
    }
    for permission in session.permissions.values() {
        screen.line(&format!(
            "  question  {}  {}: {}",
            permission.id,
            short(&permission.method, 60),
            quoted(&permission.detail)
        ))?;
    }
    Ok(())
}

/// One difference between two states.
struct Difference {
    path: Vec<String>,
    before: Json,
    after: Json,
}

/// Runs `diff A B`.
pub(crate) fn diff(log: &Log, a: &str, b: &str, screen: &mut Screen<'_>) -> Result<u8, LogError> {
    let (first, second) = (a, b);
    let (a, b) = (point(log, a)?, point(log, b)?);
    let reversed = match (a, b) {
        (Point::After(a), Point::After(b)) | (Point::At(a), Point::At(b)) => b < a,
        (Point::After(_), Point::At(_)) | (Point::At(_), Point::After(_)) => false,
    };
    if reversed {
        let what = format!("{second} is before {first}; the earlier point comes first");
        return Err(LogError::Usage { what });
    }
    let mut folded = fold(log, Some(a))?;
    let (before, from) = (state_json(&folded.world), folded.last.map_or(0, |last| last.sequence));
    go_on(log, &mut folded, Some(b))?;
    let to = folded.last.map_or(0, |last| last.sequence);
    let mut differences = Vec::new();
    compare(&before, &state_json(&folded.world), &mut Vec::new(), &mut differences);
    if !screen.json {
        let n = count(differences.len() as u64, "change", "changes");
        screen.line(&format!("{n} from event {from} to event {to}"))?;
    }
    for difference in &differences {
        let (word, sign) = match (&difference.before, &difference.after) {
            (Json::Absent, _) => ("added", '+'),
            (_, Json::Absent) => ("removed", '-'),
            (_, _) => ("changed", '~'),
        };
        if screen.json {
            screen.value(&Json::object([
                ("path", Json::List(difference.path.iter().map(Json::text).collect())),
                ("change", Json::text(word)),
                ("before", difference.before.clone()),
                ("after", difference.after.clone()),
            ]))?;
        } else {
            let path = plain(&difference.path.join(" › ")).into_owned();
            screen.line(&match (&difference.before, &difference.after) {
                (Json::Absent, after) => format!("{sign} {path}: {}", scalar(after)),
                (before, Json::Absent) => format!("{sign} {path}: {}", scalar(before)),
                (before, after) => format!("{sign} {path}: {} → {}", scalar(before), scalar(after)),
            })?;
        }
    }
    Ok(0)
}

fn compare(before: &Json, after: &Json, path: &mut Vec<String>, found: &mut Vec<Difference>) {
    if before == after {
        return;
    }
    let (Json::Object(old), Json::Object(new)) = (before, after) else {
        found.push(Difference { path: path.clone(), before: before.clone(), after: after.clone() });
        return;
    };
    let in_old = |name: &str| old.iter().find(|(n, _)| n == name).map_or(&Json::Absent, |(_, value)| value);
    let in_new = |name: &str| new.iter().find(|(n, _)| n == name).map_or(&Json::Absent, |(_, value)| value);
    let gone = old.iter().filter(|(name, _)| *in_new(name) == Json::Absent);
    for name in new.iter().chain(gone).map(|(name, _)| name) {
        path.push(name.clone());
        compare(in_old(name), in_new(name), path, found);
        path.pop();
    }
}
