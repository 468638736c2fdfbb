//! `ls`, `tail` and `grep`: lists, written as they are read. What is held in memory is what is open,
//! and one line for each session.

use std::{
    collections::{BTreeMap, VecDeque},
    thread,
    time::{Duration, Instant},
};

use agarose_core::{Event, SessionId, TicketId, Word, ticket::Work};

use crate::{
    args::{Filter, GrepArgs, Listed, LsArgs, TailArgs},
    clock::{duration, rfc3339},
    error::LogError,
    follow::Follow,
    json::Json,
    log::{Log, Moment, data},
    say,
    screen::Screen,
    select::Selection,
    story::{Place, Story},
    words::{count, short, who},
};

/// How often a followed log is looked at.
const LOOK_AGAIN: Duration = Duration::from_millis(200);
/// The largest source that `grep --code` reads, in bytes.
const CODE_LIMIT: u64 = 64 * 1024 * 1024;

/// Runs `ls`.
pub(crate) fn ls(log: &Log, args: &LsArgs, screen: &mut Screen<'_>) -> Result<u8, LogError> {
    let selection = Selection::new(&args.filter, &args.kind)?;
    match args.what {
        Listed::Events => events(log, &selection, args, screen),
        _ if !args.kind.is_empty() => events(log, &selection, args, screen),
        Listed::Tickets => tickets(log, &selection, args, screen),
        Listed::Sessions => sessions(log, &selection, args, screen),
    }
}

fn limit(args: &LsArgs) -> usize {
    args.limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX)
}

fn events(log: &Log, selection: &Selection, args: &LsArgs, screen: &mut Screen<'_>) -> Result<u8, LogError> {
    for moment in selection.walk(log).take(limit(args)) {
        show_moment(&moment?, screen)?;
    }
    Ok(0)
}

fn show_moment(moment: &Moment, screen: &mut Screen<'_>) -> Result<(), LogError> {
    if screen.json {
        screen.value(&moment.json())?
    } else {
        screen.line(&moment.line())?
    }
    Ok(())
}

/// Calls `each` with the story of every ticket: when it has ended, or at the end of the log. Stops when
/// `each` says so.
pub(crate) fn stories(
    log: &Log,
    selection: &Selection,
    mut each: impl FnMut(Story) -> Result<bool, LogError>,
) -> Result<(), LogError> {
    // Times choose among tickets, not among their events.
    let by_place = Selection { since: None, until: None, ..selection.clone() };
    let wanted = |story: &Story| selection.touches(story.first.at.wall, story.last.at.wall);
    let mut open: BTreeMap<TicketId, Story> = BTreeMap::new();
    for moment in by_place.walk(log) {
        let moment = moment?;
        let Some(ticket) = moment.ticket() else { continue };
        let place = moment.place();
        let Ok(event) = moment.decode() else { continue };
        // What follows the last word is its echo.
        if matches!(event, Event::CellClosed { .. }) && !open.contains_key(&ticket) {
            continue;
        }
        open.entry(ticket).or_insert_with(|| Story::new(ticket, place)).add(place, &event);
        if matches!(event, Event::TicketEnded(_))
            && let Some(story) = open.remove(&ticket)
            && wanted(&story)
            && !each(story)?
        {
            return Ok(());
        }
    }
    let mut open: Vec<Story> = open.into_values().filter(wanted).collect();
    open.sort_by_key(|story| story.first.sequence);
    for story in open {
        if !each(story)? {
            break;
        }
    }
    Ok(())
}

fn tickets(log: &Log, selection: &Selection, args: &LsArgs, screen: &mut Screen<'_>) -> Result<u8, LogError> {
    let mut left = limit(args);
    if left == 0 {
        return Ok(0);
    }
    stories(log, selection, |story| {
        if args.state.is_empty() || args.state.iter().any(|state| state.as_str() == story.state()) {
            if screen.json {
                screen.value(&story.json())?
            } else {
                screen.line(&ticket_line(&story))?
            }
            left -= 1;
        }
        Ok(left > 0)
    })?;
    Ok(0)
}

/// One ticket for people.
pub(crate) fn ticket_line(story: &Story) -> String {
    let queued = story.queued();
    let mut line = format!(
        "{}  {}  {:<11}  {}",
        story.ticket,
        rfc3339(story.first.at.wall),
        story.state(),
        story.session.as_ref().map_or_else(|| "-".to_owned(), |session| short(session.as_str(), 40))
    );
    let what = queued.map(|queued| match &queued.work {
        Work::Cell { name: Some(name), .. } => format!("{} {}", queued.language, short(name, 40)),
        Work::Cell { name: None, .. } => queued.language.to_string(),
        Work::StopKernel => format!("stop {}", queued.language),
        Work::RestartKernel => format!("restart {}", queued.language),
    });
    for part in [what, queued.map(|queued| who(&queued.owner))].into_iter().flatten() {
        line.push_str("  ");
        line.push_str(&part);
    }
    let mut times = Vec::new();
    if let Some(waited) = story.waited() {
        times.push(format!("waited {}", duration(waited)));
    }
    if let Some(ran) = story.ran() {
        times.push(format!("ran {}", duration(ran)));
    }
    if !times.is_empty() {
        line.push_str("  ");
        line.push_str(&times.join(", "));
    }
    line
}

/// What is known of a session.
struct SessionLine {
    first: Place,
    last: Place,
    words: BTreeMap<Word, u64>,
    open: u64,
    closed: Option<String>,
    removed: bool,
    paused: bool,
}

fn sessions(
    log: &Log,
    selection: &Selection,
    args: &LsArgs,
    screen: &mut Screen<'_>,
) -> Result<u8, LogError> {
    let mut found: BTreeMap<SessionId, SessionLine> = BTreeMap::new();
    let by_place = Selection { since: None, until: None, ..selection.clone() };
    for moment in by_place.walk(log) {
        let moment = moment?;
        let (Some(session), Ok(event)) = (moment.session(), moment.decode()) else { continue };
        let place = moment.place();
        let line = found.entry(session.clone()).or_insert_with(|| SessionLine {
            first: place,
            last: place,
            words: BTreeMap::new(),
            open: 0,
            closed: None,
            removed: false,
            paused: false,
        });
        line.last = place;
        match event {
            Event::SessionOpened { .. } => (line.closed, line.removed, line.paused) = (None, false, false),
            Event::SessionClosed { reason, .. } => {
                line.closed.get_or_insert(reason);
            }
            Event::SessionRemoved { .. } => line.removed = true,
            Event::SessionPaused { .. } => line.paused = true,
            Event::SessionResumed { .. } => line.paused = false,
            Event::TicketQueued(_) => line.open = line.open.saturating_add(1),
            Event::TicketEnded(ended) => {
                line.open = line.open.saturating_sub(1);
                *line.words.entry(ended.word).or_default() += 1;
            }
            _ => {}
        }
    }
    let wanted = found
        .iter()
        .filter(|(_, line)| selection.touches(line.first.at.wall, line.last.at.wall))
        .take(limit(args));
    for (session, line) in wanted {
        if screen.json {
            screen.value(&session_json(session, line))?;
        } else {
            screen.line(&session_line(session, line))?;
        }
    }
    Ok(0)
}

const fn session_state(line: &SessionLine) -> &'static str {
    match (line.removed, &line.closed, line.paused) {
        (true, _, _) => "removed",
        (false, Some(_), _) => "closed",
        (false, None, true) => "paused",
        (false, None, false) => "open",
    }
}

fn session_json(session: &SessionId, line: &SessionLine) -> Json {
    let words = line.words.iter().map(|(word, n)| (word.as_str().to_owned(), Json::Number(*n)));
    Json::object([
        ("session", Json::text(session)),
        ("state", Json::text(session_state(line))),
        ("reason", Json::maybe(line.closed.as_ref(), Json::text)),
        ("open_tickets", Json::Number(line.open)),
        ("ended", Json::Object(words.collect())),
        ("first_at", Json::Text(rfc3339(line.first.at.wall))),
        ("last_at", Json::Text(rfc3339(line.last.at.wall))),
        ("first_seq", Json::Number(line.first.sequence)),
        ("last_seq", Json::Number(line.last.sequence)),
    ])
}

fn session_line(session: &SessionId, line: &SessionLine) -> String {
    let mut counts: Vec<String> =
        line.words.iter().map(|(word, n)| format!("{n} {}", say::word(*word))).collect();
    if line.open > 0 {
        counts.push(format!("{} open", line.open));
    }
    if counts.is_empty() {
        counts.push("no tickets".to_owned());
    }
    format!(
        "{:<20}  {:<7}  {} to {}  {}",
        short(session.as_str(), 40),
        session_state(line),
        rfc3339(line.first.at.wall),
        rfc3339(line.last.at.wall),
        counts.join(", ")
    )
}

/// Runs `tail`. Following ends when nobody reads the answer any more.
pub(crate) fn tail(log: Log, args: &TailArgs, screen: &mut Screen<'_>) -> Result<u8, LogError> {
    let filter = Filter { session: args.session.clone(), ticket: args.ticket, ..Filter::default() };
    let mut selection = Selection::new(&filter, &args.kind)?;
    let lines = usize::try_from(args.lines).unwrap_or(usize::MAX);
    let head = log.head().sequence;
    let mut last: VecDeque<Moment> = VecDeque::new();
    let plain = filter.session.is_none() && filter.ticket.is_none() && args.kind.is_empty();
    selection.to = Some(head);
    if plain {
        selection.from = head.saturating_sub(args.lines).saturating_add(1);
    }
    for moment in selection.walk(&log) {
        last.push_back(moment?);
        if last.len() > lines {
            last.pop_front();
        }
    }
    for moment in &last {
        show_moment(moment, screen)?;
    }
    screen.out.flush()?;
    if !args.follow {
        return Ok(0);
    }
    let mut follow = Follow::new(log.directory(), head.saturating_add(1));
    (selection.from, selection.to) = (0, None);
    // Gives back the copy of the store, which may be large.
    drop(log);
    loop {
        let began = Instant::now();
        let any = follow
            .more(|moment| if selection.takes(&moment) { show_moment(&moment, screen) } else { Ok(()) })?;
        if any {
            screen.out.flush()?;
        }
        // A log that takes long to look at is looked at less often.
        thread::sleep(LOOK_AGAIN.max(began.elapsed().saturating_mul(4)));
    }
}

/// Runs `grep`. Finding nothing exits with 4, as everything that is not found.
pub(crate) fn grep(log: &Log, args: &GrepArgs, screen: &mut Screen<'_>) -> Result<u8, LogError> {
    let selection = Selection::new(&args.filter, &args.kind)?;
    let fold = |text: String| if args.ignore_case { text.to_lowercase() } else { text };
    let wanted = fold(args.text.clone());
    let mut found = 0_u64;
    for moment in selection.walk(log) {
        let moment = moment?;
        let mut hit = fold(moment.line()).contains(&wanted);
        if !hit && let Ok(event) = moment.decode() {
            hit = fold(data(&event).line()).contains(&wanted)
                || (args.code && code_of(log, &event).is_some_and(|code| fold(code).contains(&wanted)));
        }
        if hit {
            found = found.saturating_add(1);
            show_moment(&moment, screen)?;
        }
    }
    if found == 0 {
        screen.note(&format!("{} hold {:?}", count(0, "event", "events"), short(&args.text, 60)));
        return Ok(4);
    }
    Ok(0)
}

fn code_of(log: &Log, event: &Event) -> Option<String> {
    let Event::TicketQueued(queued) = event else { return None };
    let Work::Cell { source, .. } = &queued.work else { return None };
    let bytes = if source.length <= CODE_LIMIT { log.blob(source).ok()?? } else { return None };
    Some(String::from_utf8_lossy(&bytes).into_owned())
}
