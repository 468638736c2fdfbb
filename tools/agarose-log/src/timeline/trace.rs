//! The timeline in the trace event format that Perfetto and `chrome://tracing` read: a process for each
//! session, with its cells, its interpreters and what waits; times in microseconds.

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

/// Rows of one session.
const CELLS: u64 = 1;
const PROCESSES: u64 = 2;
/// The daemon's own row.
const DAEMON: u64 = 1;

/// Writes the trace, one event a line.
pub(super) fn write(picture: &Picture, out: &mut dyn Write) -> io::Result<()> {
    let mut trace = Trace { out, first: true, sessions: BTreeMap::new() };
    trace.out.write_all(b"{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n")?;
    trace.name("process_name", DAEMON, 0, "Agarose")?;
    for span in &picture.daemon {
        trace.span(DAEMON, 0, span, picture.last)?;
    }
    for story in &picture.stories {
        let session = trace.session(story.session.as_ref())?;
        trace.story(session, story, picture.last)?;
    }
    for span in &picture.processes {
        let session = trace.session(span.session.as_ref())?;
        trace.span(session, PROCESSES, span, picture.last)?;
    }
    trace.out.write_all(b"\n]}\n")
}

struct Trace<'a> {
    out: &'a mut dyn Write,
    first: bool,
    sessions: BTreeMap<Option<SessionId>, u64>,
}

const fn micros(place: Place) -> u64 {
    place.at.mono.saturating_mul(1000)
}

fn length(from: Place, to: Place) -> Json {
    Json::Number(micros(to).saturating_sub(micros(from)))
}

impl Trace<'_> {
    fn event(&mut self, event: &Json) -> io::Result<()> {
        if !std::mem::take(&mut self.first) {
            self.out.write_all(b",\n")?;
        }
        self.out.write_all(event.line().as_bytes())
    }

    fn name(&mut self, what: &str, process: u64, thread: u64, name: &str) -> io::Result<()> {
        self.event(&Json::object([
            ("ph", Json::text("M")),
            ("name", Json::text(what)),
            ("pid", Json::Number(process)),
            ("tid", Json::Number(thread)),
            ("args", Json::object([("name", Json::text(name))])),
        ]))
    }

    /// The number of a session, with its rows named when it is new.
    fn session(&mut self, session: Option<&SessionId>) -> io::Result<u64> {
        if let Some(number) = self.sessions.get(&session.cloned()) {
            return Ok(*number);
        }
        let number = DAEMON + 1 + self.sessions.len() as u64;
        self.sessions.insert(session.cloned(), number);
        let title = session.map_or_else(|| "no session".to_owned(), |session| format!("session {session}"));
        self.name("process_name", number, 0, &title)?;
        self.name("thread_name", number, CELLS, "cells")?;
        self.name("thread_name", number, PROCESSES, "processes")?;
        Ok(number)
    }

    fn span(&mut self, process: u64, thread: u64, span: &Span, last: Place) -> io::Result<()> {
        self.event(&Json::object([
            ("ph", Json::text("X")),
            ("name", Json::text(&span.name)),
            ("pid", Json::Number(process)),
            ("tid", Json::Number(thread)),
            ("ts", Json::Number(micros(span.from))),
            ("dur", length(span.from, span.to.unwrap_or(last))),
        ]))
    }

    fn story(&mut self, session: u64, story: &Story, last: Place) -> io::Result<()> {
        let end = story.end.as_ref().map_or(last, |end| end.place);
        let began = story.began.or_else(|| story.sent.map(|sent| sent.place));
        let name = story.name().map_or_else(|| story.ticket.to_string(), str::to_owned);
        // What waits overlaps, so it is a pair of asynchronous events.
        for (phase, at) in [("b", story.first), ("e", began.unwrap_or(end))] {
            self.event(&Json::object([
                ("ph", Json::text(phase)),
                ("cat", Json::text("waiting")),
                ("name", Json::text("waiting")),
                ("id", Json::text(story.ticket)),
                ("pid", Json::Number(session)),
                ("tid", Json::Number(CELLS)),
                ("ts", Json::Number(micros(at))),
            ]))?;
        }
        let Some(began) = began else { return Ok(()) };
        let about = Json::object([
            ("ticket", Json::text(story.ticket)),
            ("state", Json::text(story.state())),
            ("owner", Json::maybe(story.queued(), |queued| Json::Text(who(&queued.owner)))),
            ("seq", Json::Number(story.first.sequence)),
        ]);
        self.event(&Json::object([
            ("ph", Json::text("X")),
            ("cat", Json::text(story.state())),
            ("name", Json::text(name)),
            ("pid", Json::Number(session)),
            ("tid", Json::Number(CELLS)),
            ("ts", Json::Number(micros(began))),
            ("dur", length(began, end)),
            ("args", about),
        ]))?;
        if let Some(stopping) = &story.stopping {
            self.event(&Json::object([
                ("ph", Json::text("X")),
                ("cat", Json::text("stopping")),
                ("name", Json::text("is being stopped")),
                ("pid", Json::Number(session)),
                ("tid", Json::Number(CELLS)),
                ("ts", Json::Number(micros(stopping.since))),
                ("dur", length(stopping.since, end)),
            ]))?;
        }
        Ok(())
    }
}
