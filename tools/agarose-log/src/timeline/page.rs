//! The timeline as one page that needs no network and no other file.

use std::{
    collections::BTreeMap,
    io::{self, Write},
};

use agarose_core::SessionId;

use super::{Picture, Span};
use crate::{
    json::Json,
    story::{Place, Story},
    words::who,
};

/// The page with a place for its data.
const PAGE: &str = include_str!("page.html");
const DATA: &str = "@DATA@";

/// Writes the page. Tickets are written one by one.
pub(super) fn write(picture: &Picture, out: &mut dyn Write) -> io::Result<()> {
    let (before, after) = PAGE.split_once(DATA).unwrap_or((PAGE, ""));
    let mut sessions: BTreeMap<&SessionId, u64> = BTreeMap::new();
    let of_stories = picture.stories.iter().filter_map(|story| story.session.as_ref());
    let of_processes = picture.processes.iter().filter_map(|span| span.session.as_ref());
    for session in of_stories.chain(of_processes) {
        let next = sessions.len() as u64;
        sessions.entry(session).or_insert(next);
    }
    let mut names: Vec<(&SessionId, u64)> = sessions.iter().map(|(session, n)| (*session, *n)).collect();
    names.sort_by_key(|(_, n)| *n);
    let from = picture.stories.iter().map(|story| story.first.at.mono).min();
    let from = from.unwrap_or(picture.last.at.mono);

    out.write_all(before.as_bytes())?;
    let field =
        |out: &mut dyn Write, name: &str, value: &Json| write!(out, "\"{name}\":{},", embedded(value));
    out.write_all(b"{")?;
    field(out, "from", &Json::Number(from))?;
    field(out, "to", &Json::Number(picture.last.at.mono.max(from)))?;
    field(out, "left_out", &Json::Number(picture.left_out))?;
    field(out, "sessions", &Json::List(names.iter().map(|(session, _)| Json::text(session)).collect()))?;
    let walls = picture.walls.iter().map(|at| Json::List(vec![Json::Number(at.mono), Json::Number(at.wall)]));
    field(out, "walls", &Json::List(walls.collect()))?;
    let index = |session: Option<&SessionId>| match session.and_then(|session| sessions.get(session)) {
        Some(n) => Json::Number(*n),
        None => Json::Signed(-1),
    };
    let process = |span: &Span| {
        let to = Json::maybe(span.to, |to| Json::Number(to.at.mono));
        Json::List(vec![
            index(span.session.as_ref()),
            Json::text(&span.name),
            Json::Number(span.from.at.mono),
            to,
        ])
    };
    field(out, "processes", &Json::List(picture.processes.iter().map(process).collect()))?;
    let daemon = |span: &Span| {
        let to = Json::maybe(span.to, |to| Json::Number(to.at.mono));
        Json::List(vec![Json::Number(span.from.at.mono), to, Json::text(&span.name)])
    };
    field(out, "daemon", &Json::List(picture.daemon.iter().map(daemon).collect()))?;
    out.write_all(b"\"tickets\":[")?;
    for (n, story) in picture.stories.iter().enumerate() {
        if n > 0 {
            out.write_all(b",\n")?;
        }
        out.write_all(embedded(&ticket(story, index(story.session.as_ref()))).as_bytes())?;
    }
    out.write_all(b"]}")?;
    out.write_all(after.as_bytes())
}

/// One ticket; the page names its columns.
fn ticket(story: &Story, session: Json) -> Json {
    let queued = story.queued();
    let mono = |place: Option<Place>| Json::maybe(place, |place| Json::Number(place.at.mono));
    let stopping = story.stopping.as_ref();
    Json::List(vec![
        Json::text(story.ticket),
        session,
        Json::maybe(queued, |queued| Json::Text(who(&queued.owner))),
        Json::maybe(queued, |queued| Json::text(queued.language)),
        Json::maybe(story.name(), Json::text),
        Json::text(story.state()),
        Json::maybe(story.end.as_ref(), |end| Json::text(end.executed.as_str())),
        Json::Number(story.first.at.mono),
        mono(story.began.or_else(|| story.sent.map(|sent| sent.place))),
        mono(stopping.map(|stopping| stopping.since)),
        mono(stopping.and_then(|stopping| stopping.killed)),
        mono(story.end.as_ref().map(|end| end.place)),
        Json::Number(story.first.sequence),
    ])
}

/// JSON that cannot end the element that it stands in.
fn embedded(json: &Json) -> String {
    json.line().replace('<', "\\u003c").replace('\u{2028}', "\\u2028").replace('\u{2029}', "\\u2029")
}
