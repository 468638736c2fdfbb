//! `timeline`: tickets, processes and the daemon's own life along one line of time: for the terminal,
//! as one page, or as a trace.
//!
//! Time is the data directory's own clock, which never goes back and goes on while no daemon is there.

mod page;
mod trace;

use std::{
    collections::{BTreeMap, VecDeque},
    fs::File,
    io::{self, BufWriter, Write},
    ops::RangeInclusive,
    path::Path,
};

use agarose_core::{Event, Generation, Language, SessionId, Stamp};

use crate::{
    args::TimelineArgs,
    clock::{duration, rfc3339},
    error::LogError,
    json::Json,
    log::Log,
    ls::stories,
    screen::Screen,
    select::Selection,
    story::{Place, Story},
    words::{capital, short},
};

/// The most stretches of the daemon and of processes that are held.
const SPANS: usize = 4096;
/// How many tickets are drawn in a terminal, and how many on a page or in a trace, unless told.
const ON_A_TERMINAL: usize = 40;
const ON_A_PAGE: usize = 50_000;
/// Every how many events the two clocks are compared.
const PAIR_EVERY: u64 = 1024;
/// The most comparisons that are held.
const PAIRS: usize = 4096;

/// The kinds of event that begin and end lives; frozen numbers.
const DAEMON_STARTED: u16 = 1;
const KERNEL_LIVES: RangeInclusive<u16> = 30..=35;

/// One life: of a process, or of the daemon.
#[derive(Clone, Debug)]
struct Span {
    session: Option<SessionId>,
    name: String,
    from: Place,
    to: Option<Place>,
}

/// What is drawn.
struct Picture {
    stories: VecDeque<Story>,
    left_out: u64,
    processes: VecDeque<Span>,
    daemon: VecDeque<Span>,
    /// Places at which the wall clock and the log's own clock were read together.
    walls: VecDeque<Stamp>,
    last: Place,
}

/// Runs `timeline`.
pub(crate) fn run(log: &Log, args: &TimelineArgs, screen: &mut Screen<'_>) -> Result<u8, LogError> {
    let Some(picture) = gather(log, args)? else {
        screen.note("nothing has happened yet");
        return Ok(0);
    };
    if let Some(file) = &args.html {
        to_file(file, screen, |out| page::write(&picture, out))?;
    }
    if let Some(file) = &args.trace {
        to_file(file, screen, |out| trace::write(&picture, out))?;
    }
    if args.html.is_some() || args.trace.is_some() {
        return Ok(0);
    }
    if screen.json {
        json(&picture, screen)
    } else {
        draw(&picture, args.width.clamp(10, 400).into(), screen)
    }
}

/// Writes a file, or to standard output for `-`.
fn to_file(
    file: &Path,
    screen: &mut Screen<'_>,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<(), LogError> {
    if file == Path::new("-") {
        return Ok(write(screen.out)?);
    }
    let failed = |source| LogError::File { path: file.to_owned(), source };
    let mut out = BufWriter::new(File::create(file).map_err(failed)?);
    write(&mut out).and_then(|()| out.flush()).map_err(failed)?;
    screen.note(&format!("written to {}", file.display()));
    Ok(())
}

fn gather(log: &Log, args: &TimelineArgs) -> Result<Option<Picture>, LogError> {
    let selection = Selection::new(&args.filter, &[])?;
    let Some(last) = log.last()? else { return Ok(None) };
    let on_a_page = args.html.is_some() || args.trace.is_some();
    let limit = args.limit.unwrap_or(if on_a_page { ON_A_PAGE } else { ON_A_TERMINAL });
    let mut picture = Picture {
        stories: VecDeque::new(),
        left_out: 0,
        processes: VecDeque::new(),
        daemon: VecDeque::new(),
        walls: VecDeque::new(),
        last,
    };
    stories(log, &selection, |story| {
        picture.stories.push_back(story);
        if picture.stories.len() > limit.max(1) {
            picture.stories.pop_front();
            picture.left_out = picture.left_out.saturating_add(1);
        }
        Ok(true)
    })?;
    picture.stories.make_contiguous().sort_by_key(|story| story.first.sequence);
    lives(log, &selection, &mut picture)?;
    Ok(Some(picture))
}

fn lives(log: &Log, selection: &Selection, picture: &mut Picture) -> Result<(), LogError> {
    let mut open: BTreeMap<(SessionId, Language, Generation), Span> = BTreeMap::new();
    let mut daemon: Option<Span> = None;
    let mut before: Option<Place> = None;
    let keep = |spans: &mut VecDeque<Span>, span: Span| {
        spans.push_back(span);
        if spans.len() > SPANS {
            spans.pop_front();
        }
    };
    for moment in log.events(1, u64::MAX) {
        let moment = moment?;
        let place = moment.place();
        let starts = moment.kind() == DAEMON_STARTED;
        if starts || moment.sequence.is_multiple_of(PAIR_EVERY) {
            picture.walls.push_back(place.at);
            if picture.walls.len() > PAIRS {
                picture.walls.pop_front();
            }
        }
        // Everything else is not about lives, and need not be read.
        if !starts && !KERNEL_LIVES.contains(&moment.kind()) {
            before = Some(place);
            continue;
        }
        match moment.decode() {
            Ok(Event::DaemonStarted(started)) => {
                // A daemon that was killed was last seen with its last event.
                if let Some(mut span) = daemon.take() {
                    span.to = before;
                    keep(&mut picture.daemon, span);
                }
                let name = format!("process {}", started.pid);
                daemon = Some(Span { session: None, name, from: place, to: None });
            }
            Ok(Event::KernelStarting { session, language, generation, .. }) => {
                let span = Span {
                    session: Some(session.clone()),
                    name: format!("{language} {generation}"),
                    from: place,
                    to: None,
                };
                open.insert((session, language, generation), span);
            }
            Ok(
                Event::KernelGone { session, language, generation, .. }
                | Event::KernelStartFailed { session, language, generation, .. },
            ) => {
                if let Some(mut span) = open.remove(&(session, language, generation)) {
                    span.to = Some(place);
                    keep(&mut picture.processes, span);
                }
            }
            _ => {}
        }
        before = Some(place);
    }
    for span in open.into_values() {
        keep(&mut picture.processes, span);
    }
    if let Some(span) = daemon {
        keep(&mut picture.daemon, span);
    }
    let wanted = |span: &Span| selection.session.is_none() || span.session == selection.session;
    picture.processes.retain(wanted);
    picture.processes.make_contiguous().sort_by_key(|span| span.from.sequence);
    Ok(())
}

fn span_json(lane: &str, span: &Span) -> Json {
    Json::object([
        ("lane", Json::text(lane)),
        ("session", Json::maybe(span.session.as_ref(), Json::text)),
        ("name", Json::text(&span.name)),
        ("from_at", Json::Text(rfc3339(span.from.at.wall))),
        ("from_mono", Json::Number(span.from.at.mono)),
        ("to_at", Json::maybe(span.to, |to| Json::Text(rfc3339(to.at.wall)))),
        ("to_mono", Json::maybe(span.to, |to| Json::Number(to.at.mono))),
    ])
}

fn json(picture: &Picture, screen: &mut Screen<'_>) -> Result<u8, LogError> {
    for story in &picture.stories {
        let mut json = Json::object([("lane", Json::text("ticket"))]);
        if let (Json::Object(fields), Json::Object(more)) = (&mut json, story.json()) {
            fields.extend(more);
        }
        let mono = |place: Option<Place>| Json::maybe(place, |place| Json::Number(place.at.mono));
        json.push("queued_mono", mono(story.request.as_ref().map(|(place, _)| *place)));
        json.push("began_mono", mono(story.began));
        json.push("stopping_mono", mono(story.stopping.as_ref().map(|stopping| stopping.since)));
        json.push("finished_mono", mono(story.end.as_ref().map(|end| end.place)));
        screen.value(&json)?;
    }
    for span in &picture.processes {
        screen.value(&span_json("process", span))?;
    }
    for span in &picture.daemon {
        screen.value(&span_json("daemon", span))?;
    }
    Ok(0)
}

/// The line of time: which column a moment falls into.
struct Scale {
    from: u64,
    to: u64,
    width: usize,
}

impl Scale {
    fn column(&self, mono: u64) -> usize {
        let span = u128::from(self.to.saturating_sub(self.from)).saturating_add(1);
        let at = u128::from(mono.clamp(self.from, self.to).saturating_sub(self.from));
        let column = at.saturating_mul(self.width as u128) / span;
        usize::try_from(column).unwrap_or(usize::MAX).min(self.width.saturating_sub(1))
    }

    /// Paints from one moment to another; later painting wins.
    fn paint(&self, row: &mut [char], from: u64, to: u64, with: char) {
        if to < self.from || from > self.to {
            return;
        }
        for cell in row.iter_mut().take(self.column(to) + 1).skip(self.column(from)) {
            *cell = with;
        }
    }
}

fn draw(picture: &Picture, width: usize, screen: &mut Screen<'_>) -> Result<u8, LogError> {
    let Some(first) = picture.stories.iter().map(|story| story.first).min_by_key(|place| place.at.mono)
    else {
        screen.note("no ticket is in this part of the log");
        return Ok(0);
    };
    let ends = picture.stories.iter().map(|story| match story.end {
        Some(_) => story.last.at.mono,
        None => picture.last.at.mono,
    });
    let scale =
        Scale { from: first.at.mono, to: ends.max().unwrap_or(first.at.mono).max(first.at.mono), width };
    let length = scale.to.saturating_sub(scale.from);
    screen.line(&format!(
        "from {} on, {} long; one column is {}",
        rfc3339(first.at.wall),
        duration(length),
        duration((length / width as u64).max(1))
    ))?;
    screen.line("░ waits   █ runs   ▒ is being stopped   ─ lives")?;
    if picture.left_out > 0 {
        screen.line(&format!("{} earlier tickets are left out (-n shows more)", picture.left_out))?;
    }
    let mut by_session: BTreeMap<Option<&SessionId>, Vec<&Story>> = BTreeMap::new();
    for story in &picture.stories {
        by_session.entry(story.session.as_ref()).or_default().push(story);
    }
    for (session, stories) in by_session {
        screen.line("")?;
        screen
            .line(&session.map_or_else(|| "no session".to_owned(), |session| short(session.as_str(), 60)))?;
        for story in stories {
            screen.line(&ticket_row(story, &scale, picture.last))?;
        }
        for span in picture.processes.iter().filter(|span| span.session.as_ref() == session) {
            span_row(span, &span.name, &scale, picture.last, screen)?;
        }
    }
    screen.line("")?;
    screen.line("daemon")?;
    for span in &picture.daemon {
        span_row(span, &span.name, &scale, picture.last, screen)?;
    }
    Ok(0)
}

fn ticket_row(story: &Story, scale: &Scale, last: Place) -> String {
    let mut row = vec![' '; scale.width];
    let end = story.end.as_ref().map_or(last.at.mono, |end| end.place.at.mono);
    scale.paint(&mut row, story.first.at.mono, end, '░');
    if let Some(began) = story.began.or_else(|| story.sent.map(|sent| sent.place)) {
        scale.paint(&mut row, began.at.mono, end, '█');
    }
    if let Some(stopping) = &story.stopping {
        scale.paint(&mut row, stopping.since.at.mono, end, '▒');
    }
    format!("  {}  {:<11}  {}", story.ticket, story.state(), row_text(&row))
}

fn span_row(
    span: &Span,
    name: &str,
    scale: &Scale,
    last: Place,
    screen: &mut Screen<'_>,
) -> Result<(), LogError> {
    let end = span.to.unwrap_or(last).at.mono;
    if end < scale.from || span.from.at.mono > scale.to {
        return Ok(());
    }
    let mut row = vec![' '; scale.width];
    scale.paint(&mut row, span.from.at.mono, end, '─');
    screen.line(&format!("  {:<39}  {}", capital(name), row_text(&row)))?;
    Ok(())
}

fn row_text(row: &[char]) -> String {
    row.iter().collect::<String>().trim_end().to_owned()
}
