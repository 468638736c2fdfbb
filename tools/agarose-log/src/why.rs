//! Why a ticket ended as it did: two sentences for somebody who has never seen Agarose, then the
//! events behind them.
//!
//! The sentences follow from the last word, what it rests on, and what the log says of the way there.
//! Error texts of user code are quoted and never read.

use std::collections::BTreeSet;

use agarose_core::{
    EndCause, Event, Executed, Language, TicketId, Word,
    event::ResultStatus,
    slot::GroupOutcome,
    ticket::Work,
    watchdog::{Cause, KernelFate, Verdict},
};

use crate::{
    clock::{duration, in_words, rfc3339},
    error::LogError,
    json::Json,
    log::Log,
    say,
    screen::Screen,
    story::{Place, Story},
    words::{capital, interpreter, quoted, short, who},
};

/// How many events of the chain are shown at its beginning and at its end when it is too long.
const SHOWN: usize = 200;
/// Bytes of a result's record that are read for the error it names.
const RECORD_LIMIT: u64 = 8 * 1024 * 1024;

/// One event of the chain.
struct Link {
    place: Place,
    kind: &'static str,
    text: String,
}

/// The error that user code raised, as its process reported it.
#[derive(Debug, Default, serde::Deserialize)]
struct RaisedError {
    name: Option<String>,
    message: Option<String>,
    line: Option<u64>,
}

/// The part of a result's record that is read here; the engine writes more.
#[derive(Debug, Default, serde::Deserialize)]
struct ResultRecord {
    #[serde(default)]
    result: Returned,
}

#[derive(Debug, Default, serde::Deserialize)]
struct Returned {
    error: Option<RaisedError>,
}

/// Everything that an answer rests on.
struct Evidence {
    story: Story,
    chain: Vec<Link>,
    /// How many events of the chain were left out, and after which one.
    left_out: Option<(usize, usize)>,
    /// How many tickets were before it when it was queued.
    ahead: u64,
    error: RaisedError,
    /// Why its session was closed, if it was while the ticket was open.
    closed: Option<String>,
    /// Whether Agarose stopped with its kernels while the ticket was open.
    taken_along: bool,
    /// Why the last process that was started for its session did not start.
    start_failed: Option<String>,
    /// The last event of the log.
    last: Option<Place>,
}

/// Runs `why TICKET`.
pub(crate) fn run(log: &Log, ticket: TicketId, screen: &mut Screen<'_>) -> Result<u8, LogError> {
    let evidence = gather(log, ticket)?;
    let summary = summary(&evidence);
    if screen.json {
        screen.value(&json(&evidence, &summary))?;
        return Ok(0);
    }
    let [first, second] = &summary;
    screen.line(&format!("{first} {second}"))?;
    screen.line("")?;
    let start = evidence.story.first.at.mono;
    let offset = |place: Place| format!("+{}", duration(place.at.mono.saturating_sub(start)));
    for (index, link) in evidence.chain.iter().enumerate() {
        if let Some((after, count)) = evidence.left_out
            && after == index
        {
            screen.line(&format!("… {count} events are left out …"))?;
        }
        screen.line(&format!(
            "{}  {:>12}  {}  (event {})",
            rfc3339(link.place.at.wall),
            offset(link.place),
            capital(&link.text),
            link.place.sequence
        ))?;
    }
    Ok(0)
}

fn json(evidence: &Evidence, summary: &[String; 2]) -> Json {
    let story = &evidence.story;
    let start = story.first.at.mono;
    let chain = evidence.chain.iter().map(|link| {
        Json::object([
            ("seq", Json::Number(link.place.sequence)),
            ("wall", Json::Text(rfc3339(link.place.at.wall))),
            ("offset_ms", Json::Number(link.place.at.mono.saturating_sub(start))),
            ("kind", Json::text(link.kind)),
            ("text", Json::text(&link.text)),
        ])
    });
    Json::object([
        ("ticket", Json::text(story.ticket)),
        ("session", Json::maybe(story.session.as_ref(), Json::text)),
        ("state", Json::text(story.state())),
        ("executed", Json::maybe(story.end.as_ref(), |end| Json::text(end.executed.as_str()))),
        ("cause", Json::maybe(story.end.as_ref(), |end| Json::of(&end.cause))),
        ("summary", Json::List(summary.iter().map(Json::text).collect())),
        ("chain", Json::List(chain.collect())),
        ("left_out", Json::maybe(evidence.left_out, |(_, count)| Json::Number(count as u64))),
    ])
}

fn gather(log: &Log, ticket: TicketId) -> Result<Evidence, LogError> {
    let mut story: Option<Story> = None;
    for moment in log.by_ticket(ticket) {
        let moment = moment?;
        let place = moment.place();
        story.get_or_insert_with(|| Story::new(ticket, place)).add(place, &moment.event()?);
    }
    let story = story.ok_or(LogError::NoSuchTicket { ticket })?;
    let mut evidence = Evidence {
        ahead: ahead(log, &story)?,
        error: raised(log, &story),
        story,
        chain: Vec::new(),
        left_out: None,
        closed: None,
        taken_along: false,
        start_failed: None,
        last: log.last()?,
    };
    let to = evidence.story.last.sequence;
    for moment in log.events(evidence.story.first.sequence, to) {
        let moment = moment?;
        let own = moment.ticket() == Some(ticket);
        // Of other tickets and sessions nothing is told.
        let near = moment.ticket().is_none()
            && (moment.session().is_none() || moment.session() == evidence.story.session.as_ref());
        if !own && !near {
            continue;
        }
        let event = moment.event()?;
        if own || is_context(&event, &evidence.story, moment.place()) {
            note(&mut evidence, moment.place(), &event);
        }
    }
    Ok(evidence)
}

/// Whether an event that does not name the ticket belongs to its chain: what held its session up
/// while it was open, and what became of its process once it was its turn.
fn is_context(event: &Event, story: &Story, place: Place) -> bool {
    let its_turn = story.admitted.is_some_and(|admitted| place.sequence > admitted.sequence);
    match event {
        Event::DaemonStarted(_)
        | Event::DaemonStopping { .. }
        | Event::AllPaused { .. }
        | Event::AllResumed { .. }
        | Event::SessionPaused { .. }
        | Event::SessionResumed { .. }
        | Event::SessionClosed { .. } => true,
        Event::KernelStarting { language, .. }
        | Event::KernelReady { language, .. }
        | Event::KernelStartFailed { language, .. }
        | Event::KernelStopRequested { language, .. }
        | Event::KernelGone { language, .. }
        | Event::KernelReattached { language, .. } => {
            its_turn && story.queued().is_none_or(|queued| queued.language == *language)
        }
        Event::PermissionDecided { .. } | Event::PermissionExpired { .. } => its_turn,
        Event::CellAnalysed { .. }
        | Event::RestoreStarted { .. }
        | Event::RestorePublished { .. }
        | Event::RestoreEnded { .. }
        | Event::SessionOpened { .. }
        | Event::SessionRemoved { .. }
        | Event::TicketQueued(_)
        | Event::TicketAdmitted { .. }
        | Event::CancelRequested { .. }
        | Event::TicketEnded(_)
        | Event::CellClosed { .. }
        | Event::ExecuteRequested { .. }
        | Event::ExecuteAcknowledged { .. }
        | Event::ResultReceived { .. }
        | Event::OutputKept { .. }
        | Event::ActivityNoted { .. }
        | Event::LadderStarted { .. }
        | Event::InterruptRequested { .. }
        | Event::InterruptAnswered { .. }
        | Event::KillRequested { .. }
        | Event::GroupStopped { .. }
        | Event::LadderEnded { .. }
        | Event::PermissionProposed { .. }
        | Event::HostCallStarted(_)
        | Event::HostCallDispatched { .. }
        | Event::HostCallAnswered { .. }
        | Event::HostCallCancelRequested { .. }
        | Event::CellDraining { .. }
        | Event::CapabilityGranted { .. }
        | Event::CapabilityConsumed { .. }
        | Event::CapabilityReported { .. }
        | Event::CapabilityVoided { .. }
        | Event::OutputSubmitted { .. }
        | Event::ArtifactSaved { .. }
        | Event::DocumentWritten { .. }
        | Event::OutputObserved { .. } => false,
    }
}

fn note(evidence: &mut Evidence, place: Place, event: &Event) {
    let mut text = say::event(event);
    match event {
        // They are many, and they say nothing of why a ticket ended.
        Event::ActivityNoted { .. } | Event::OutputObserved { .. } => return,
        Event::TicketQueued(_) if evidence.ahead > 0 => {
            text.push_str(&format!("; {} before it", say::others_are(evidence.ahead)));
        }
        Event::SessionClosed { reason, .. } => {
            evidence.closed.get_or_insert_with(|| reason.clone());
        }
        Event::DaemonStopping { stop_kernels } => evidence.taken_along |= stop_kernels,
        Event::DaemonStarted(_) => evidence.taken_along = false,
        Event::KernelStartFailed { reason, .. } => evidence.start_failed = Some(reason.clone()),
        _ => {}
    }
    if evidence.chain.len() >= SHOWN * 2 {
        evidence.chain.remove(SHOWN);
        let (_, count) = evidence.left_out.unwrap_or((SHOWN, 0));
        evidence.left_out = Some((SHOWN, count.saturating_add(1)));
    }
    evidence.chain.push(Link { place, kind: event.name(), text });
}

/// How many tickets of its session were open when it was queued. Only envelopes are read.
fn ahead(log: &Log, story: &Story) -> Result<u64, LogError> {
    const QUEUED: u16 = 20;
    const ENDED: u16 = 23;
    let (Some(session), Some((queued, _))) = (&story.session, &story.request) else { return Ok(0) };
    let mut open = BTreeSet::new();
    for moment in log.by_session(session) {
        let moment = moment?;
        if moment.sequence >= queued.sequence {
            break;
        }
        match (moment.kind(), moment.ticket()) {
            (QUEUED, Some(ticket)) => {
                open.insert(ticket);
            }
            (ENDED, Some(ticket)) => {
                open.remove(&ticket);
            }
            _ => {}
        }
    }
    Ok(open.len() as u64)
}

/// The error that its code raised, when its result's record is there and names one.
fn raised(log: &Log, story: &Story) -> RaisedError {
    story
        .result
        .filter(|result| result.status == ResultStatus::Error && result.record.length <= RECORD_LIMIT)
        .and_then(|result| log.blob(&result.record).ok().flatten())
        .and_then(|bytes| serde_json::from_slice::<ResultRecord>(&bytes).ok())
        .and_then(|record| record.result.error)
        .unwrap_or_default()
}

impl Evidence {
    fn interpreter(&self) -> &'static str {
        interpreter(self.language().unwrap_or(Language::Python))
    }

    fn language(&self) -> Option<Language> {
        self.story.queued().map(|queued| queued.language)
    }

    /// The process that ran it, by the name of its interpreter when that is known.
    fn process(&self) -> String {
        self.language()
            .map_or_else(|| "process".to_owned(), |language| format!("{} process", interpreter(language)))
    }

    fn subject(&self) -> String {
        match self.story.queued().map(|queued| &queued.work) {
            Some(Work::Cell { name: Some(name), .. }) => {
                format!("The {} cell {}", self.interpreter(), quoted(name))
            }
            Some(Work::Cell { name: None, .. }) => format!("This {} cell", self.interpreter()),
            Some(Work::StopKernel) => format!("This request to stop the {} process", self.interpreter()),
            Some(Work::RestartKernel) => {
                format!("This request to restart the {} process", self.interpreter())
            }
            None => "This cell (the log begins after its request)".to_owned(),
        }
    }

    /// ` after 3.2 s`, or nothing when that is not known.
    fn after_running(&self) -> String {
        self.story.ran().map(|ran| format!(" after {}", duration(ran))).unwrap_or_default()
    }

    /// Who asked for it to be stopped and why, as a clause.
    fn asked(&self, what: &str) -> String {
        match &self.story.cancel {
            Some(cancel) if cancel.reason.trim().is_empty() => {
                format!("{} asked for it to be {what}", who(&cancel.by))
            }
            Some(cancel) => {
                format!("{} asked for it to be {what} ({})", who(&cancel.by), quoted(&cancel.reason))
            }
            None => format!("somebody asked for it to be {what}"),
        }
    }

    /// Which limit it ran into, as a clause.
    fn over_time(&self, idle: bool) -> String {
        let timeouts = self.story.queued().map(|queued| queued.timeouts);
        let limit = timeouts.and_then(|t| if idle { t.heartbeat } else { t.start_to_close });
        let limit = limit.filter(|limit| limit.0 > 0);
        match (limit, idle) {
            (Some(limit), false) => format!("it ran longer than the {} that it may run", duration(limit.0)),
            (None, false) => "it ran longer than it may".to_owned(),
            (Some(limit), true) => {
                format!("it gave no sign of life for the {} that it may be silent", duration(limit.0))
            }
            (None, true) => "it was silent longer than it may be".to_owned(),
        }
    }

    /// Why it is being stopped, as a clause.
    fn stopped_because(&self, cause: Cause) -> String {
        match cause {
            Cause::Timeout => self.over_time(false),
            Cause::IdleTimeout => self.over_time(true),
            Cause::Cancellation => self.asked("stopped"),
            Cause::Interrupt => self.asked("interrupted"),
        }
    }

    /// What the interrupt did to a cell that had to be stopped, as the next clause.
    fn interrupt_failed(&self) -> String {
        let stopping = self.story.stopping.as_ref();
        match stopping.and_then(|stopping| stopping.verdict.as_ref()) {
            Some(Verdict::Delivered) => {
                let waited = stopping
                    .and_then(|stopping| Some((stopping.since, stopping.killed?)))
                    .map(|(since, killed)| duration(killed.at.mono.saturating_sub(since.at.mono)));
                waited.map_or_else(
                    || "it did not react to an interrupt".to_owned(),
                    |waited| format!("it did not react to an interrupt within {waited}"),
                )
            }
            Some(Verdict::ReachedNobody { reason }) => {
                format!("it could not be interrupted ({})", say::nobody(*reason))
            }
            None => "it did not end by itself".to_owned(),
        }
    }

    /// What becomes of the variables of a cell that came back, as the rest of a sentence.
    fn kept(&self) -> String {
        let process = self.process();
        if self.closed.is_some() {
            return format!("the variables go with the {process}, since {} is closed", self.session());
        }
        if self.taken_along {
            return format!("the variables go with the {process}, since Agarose took its kernels with it");
        }
        format!("the {process} keeps its variables for the next cell")
    }

    /// What comes after a process that is gone, as the rest of a sentence.
    fn next(&self) -> String {
        if self.closed.is_some() {
            return format!("no other is started, since {} is closed", self.session());
        }
        "the next cell starts in a new one".to_owned()
    }

    /// What is lost with a process.
    fn variables(&self) -> String {
        let of = self.session();
        self.language().map_or_else(
            || format!("the variables of {of}"),
            |language| format!("the {} variables of {of}", interpreter(language)),
        )
    }

    fn session(&self) -> String {
        self.story.session.as_ref().map_or_else(
            || "its session".to_owned(),
            |session| format!("session {}", quoted(session.as_str())),
        )
    }
}

/// The two sentences.
fn summary(evidence: &Evidence) -> [String; 2] {
    let subject = evidence.subject();
    let Some(end) = &evidence.story.end else { return unfinished(evidence, &subject) };
    let process = evidence.process();
    let began = began(end.executed);
    match &end.cause {
        EndCause::Result { status } => returned(evidence, &subject, *status, end.word),
        EndCause::CancelledBeforeStart => {
            let when = if evidence.story.admitted.is_some() {
                format!("while the {process} for it was still being started")
            } else {
                "while it waited in the queue".to_owned()
            };
            [
                format!("{subject} has been cancelled before it ran: {} {when}.", evidence.asked("stopped")),
                nothing_ran(),
            ]
        }
        EndCause::AdmissionTimedOut => {
            let limit = evidence.story.queued().and_then(|queued| queued.timeouts.schedule_to_start);
            let limit = limit.map_or_else(
                || "as long as it may wait".to_owned(),
                |limit| format!("the {} that it may wait", duration(limit.0)),
            );
            let others = match evidence.ahead {
                0 => "its turn did not come".to_owned(),
                n => format!("{} in {} came first", say::others(n), evidence.session()),
            };
            [
                format!(
                    "{subject} has been cancelled before it ran: it waited in the queue for {limit}, and {others}."
                ),
                nothing_ran(),
            ]
        }
        EndCause::PredecessorNotCompleted { after, word } => [
            format!(
                "{subject} has been cancelled before it ran: it was to run only if {after} completed, and that one has {}.",
                say::ended_as(*word)
            ),
            format!(
                "None of its code ran, so it has changed nothing; `agarose log why {after}` explains the other one."
            ),
        ],
        EndCause::SessionClosed => {
            let why =
                evidence.closed.as_ref().map(|reason| format!(" ({})", quoted(reason))).unwrap_or_default();
            [
                format!(
                    "{subject} has been cancelled before it ran: {} was closed{why} while it waited in the queue.",
                    evidence.session()
                ),
                nothing_ran(),
            ]
        }
        EndCause::NoKernel { reason } => [
            format!(
                "{subject} has been refused: there is no {process} to run it, because {}.",
                clause(reason)
            ),
            format!(
                "None of its code ran, so it has changed nothing; it can be submitted again once {} starts here (`agarose doctor` helps).",
                evidence.interpreter()
            ),
        ],
        EndCause::KernelDied { exit } => [
            format!(
                "{subject} has failed: the {process} that it ran in died{}; it {}.",
                evidence.after_running(),
                say::exit(exit)
            ),
            format!("{began}; {} are gone with that process, and {}.", evidence.variables(), evidence.next()),
        ],
        EndCause::Lost { exit } => {
            let when = match end.executed {
                Executed::Yes => "while it ran",
                Executed::No | Executed::Unknown => "just when it was sent to its process",
            };
            [
                format!(
                    "{subject} is lost: Agarose itself went down {when}, and when Agarose came back the {process} was gone as well; it {}.",
                    say::exit(exit)
                ),
                format!(
                    "{began}, and Agarose never runs such a cell again by itself (`agarose retry {}` does); {} are gone.",
                    evidence.story.ticket,
                    evidence.variables()
                ),
            ]
        }
        EndCause::Stopped { cause, kernel } => stopped(evidence, &subject, *cause, kernel, end.word, began),
        EndCause::Lifecycle => {
            let what = match evidence.story.queued().map(|queued| &queued.work) {
                Some(Work::RestartKernel) => format!("a new {process} is ready"),
                Some(Work::StopKernel | Work::Cell { .. }) | None => {
                    format!("no {process} is left in {}", evidence.session())
                }
            };
            [
                format!("{subject} has completed: {what}."),
                "It ran no code; the variables of the process before are gone.".to_owned(),
            ]
        }
    }
}

/// A reason that somebody else wrote, as the rest of a sentence.
fn clause(reason: &str) -> String {
    short(reason.trim().trim_end_matches('.'), 300)
}

fn nothing_ran() -> String {
    "None of its code ran, so it has changed nothing.".to_owned()
}

const fn began(executed: Executed) -> &'static str {
    match executed {
        Executed::Yes => "Its code had begun, so part of its work may be done",
        Executed::No => "Its code had not begun, so it has changed nothing",
        Executed::Unknown => "Whether its code had begun is not known, so part of its work may be done",
    }
}

fn returned(evidence: &Evidence, subject: &str, status: ResultStatus, word: Word) -> [String; 2] {
    let ran = evidence.story.ran().map(|ran| format!(" in {}", duration(ran))).unwrap_or_default();
    let after = evidence.after_running();
    match status {
        ResultStatus::Ok if word == Word::Cancelled => [
            format!(
                "{subject} has been cancelled: {}, and the interrupt ended what its code was waiting for{after}.",
                evidence.asked("stopped")
            ),
            format!("What it did before that stays done, and {}.", evidence.kept()),
        ],
        ResultStatus::Ok => {
            let although = match &evidence.story.cancel {
                Some(_) => format!(", although {}", evidence.asked("stopped")),
                None => String::new(),
            };
            let mut second = Vec::new();
            if let Some(waited) = evidence.story.waited().filter(|waited| *waited > 0) {
                second.push(format!("waited {} for its turn", duration(waited)));
            }
            if let Some(output) = &evidence.story.output {
                let output = say::output(output);
                second.push(output.strip_prefix("it ").unwrap_or(&output).to_owned());
            }
            let kept = evidence.kept();
            let second = if second.is_empty() {
                capital(&kept)
            } else {
                format!("It {}; {kept}", second.join(" and "))
            };
            [
                format!("{subject} has completed: its code ran to its end{ran}{although}."),
                format!("{second}."),
            ]
        }
        ResultStatus::Error => {
            let error = &evidence.error;
            let what = match (&error.name, &error.message) {
                (Some(name), Some(message)) if !message.trim().is_empty() => {
                    format!("{}: {}", short(name, 80), clause(message))
                }
                (Some(name), _) => short(name, 80),
                (None, Some(message)) => format!("an error: {}", clause(message)),
                (None, None) => "an error".to_owned(),
            };
            let mut place = Vec::new();
            if let Some(line) = error.line {
                place.push(format!("in line {line}"));
            }
            if let Some(ran) = evidence.story.ran() {
                place.push(format!("after {}", duration(ran)));
            }
            let place = if place.is_empty() { String::new() } else { format!("{}, ", place.join(", ")) };
            [
                format!("{subject} has failed: {place}its code raised {what}."),
                format!("What it did before the error stays done, and {}.", evidence.kept()),
            ]
        }
        ResultStatus::Interrupted => {
            let why = evidence.story.stopping.as_ref().map_or_else(
                || "it was interrupted".to_owned(),
                |stopping| evidence.stopped_because(stopping.cause),
            );
            [
                format!("{subject} has been interrupted: {why}, and an interrupt ended its code{after}."),
                format!("What it did before the interrupt stays done, and {}.", evidence.kept()),
            ]
        }
    }
}

fn stopped(
    evidence: &Evidence,
    subject: &str,
    cause: Cause,
    kernel: &KernelFate,
    word: Word,
    began: &str,
) -> [String; 2] {
    let (process, variables) = (evidence.process(), evidence.variables());
    let why = evidence.stopped_because(cause);
    let has = say::ended_as(word);
    let interrupt = evidence.interrupt_failed();
    match kernel {
        KernelFate::Reset { group, replacement } => {
            let new = match replacement {
                Some(_) => format!("a new {process} takes its place"),
                None => evidence.next(),
            };
            [
                format!("{subject} has {has}: {why}; {interrupt}, and {}.", ended_by(group)),
                format!("{began}; {variables} are gone with that process, and {new}."),
            ]
        }
        KernelFate::ResetUnavailable { group } => {
            let reason = evidence
                .start_failed
                .as_ref()
                .map(|reason| format!(" ({})", clause(reason)))
                .unwrap_or_default();
            [
                format!("{subject} has {has}: {why}; {interrupt}, and {}.", ended_by(group)),
                format!(
                    "{began}; {variables} are gone with that process, and a new {process} does not start{reason}."
                ),
            ]
        }
        KernelFate::NotReset { group } => [
            format!("{subject} has {has}: {why}; {interrupt}, and it could not be stopped from here."),
            format!(
                "It may still run and change files, because {}; the next cell starts in a new {process} without its variables.",
                clause(&say::group(group))
            ),
        ],
    }
}

/// How the processes of a stopped cell ended, as the last clause.
fn ended_by(group: &GroupOutcome) -> String {
    match group {
        GroupOutcome::AlreadyExited => "its process had ended by then".to_owned(),
        GroupOutcome::ExitedOnTerm => "its process was told to end and did".to_owned(),
        GroupOutcome::Killed { killed } => format!("it was stopped by force ({})", say::processes(killed)),
        GroupOutcome::Alive { .. } | GroupOutcome::NotSignalled { .. } | GroupOutcome::Unreachable { .. } => {
            say::group(group)
        }
    }
}

/// The two sentences for a ticket that has no last word.
fn unfinished(evidence: &Evidence, subject: &str) -> [String; 2] {
    let story = &evidence.story;
    let first = match (
        story.began.or_else(|| story.sent.map(|sent| sent.place)),
        story.admitted,
        &story.stopping,
    ) {
        (Some(since), _, Some(stopping)) => format!(
            "{subject} has no last word yet: it has been running since {}, and Agarose is about to stop it, because {}.",
            in_words(since.at.wall),
            evidence.stopped_because(stopping.cause)
        ),
        (Some(since), _, None) => {
            format!("{subject} has no last word yet: it has been running since {}.", in_words(since.at.wall))
        }
        (None, Some(_), _) => {
            format!(
                "{subject} has no last word yet: it is its turn, and its {} is being made ready.",
                evidence.process()
            )
        }
        (None, None, _) => {
            let others = match evidence.ahead {
                0 => String::new(),
                1 => " (1 other request was before it when it came)".to_owned(),
                n => format!(" ({n} other requests were before it when it came)"),
            };
            format!(
                "{subject} has no last word yet: it waits in the queue of {}{others}.",
                evidence.session()
            )
        }
    };
    let second = match evidence.last {
        Some(last) => {
            format!("The log ends with event {} on {}.", last.sequence, in_words(last.at.wall))
        }
        None => "The log says no more.".to_owned(),
    };
    [first, second]
}
