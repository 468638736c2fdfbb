//! `verify`: the chain, and with `--deep` the fold, the snapshots and all content.

use std::{collections::BTreeSet, path::Path};

use agarose_core::{BlobRef, Event, World, ticket::Work};
use agarose_journal::{
    Snapshot,
    inspect::{self, Depth, Finding, InspectError, Severity, VerifyReport},
};

use crate::{
    error::LogError,
    json::{Json, hex},
    log::Log,
    screen::Screen,
    words::{count, plain},
};

/// How many findings are named.
const NAMED: usize = 100;
/// How many names of content are remembered, so that content that many events name is read once.
const REMEMBERED: usize = 100_000;
/// The shape of the state in a snapshot that this version can compare; others are passed over.
const SHAPE: u32 = 1;

/// Runs `verify [--deep]`. A damaged log exits with 1, and the damage is named.
pub(crate) fn run(directory: &Path, deep: bool, screen: &mut Screen<'_>) -> Result<u8, LogError> {
    let depth = if deep { Depth::Everything } else { Depth::Segments };
    let mut report = inspect::verify(directory, depth).map_err(|error| match error {
        InspectError::NotAJournal { path } => LogError::NoLog { directory: path },
        source => LogError::Open { directory: directory.to_owned(), source },
    })?;
    if deep {
        fold(&Log::open(directory)?, &mut report)?;
    }
    let sound = report.is_sound();
    let more = report.findings.len().saturating_sub(NAMED);
    let named = report.findings.iter().take(NAMED);
    let events = report.head.sequence.saturating_add(1).saturating_sub(report.first);
    if screen.json {
        screen.value(&Json::object([
            ("sound", Json::Bool(sound)),
            ("deep", Json::Bool(deep)),
            ("journal", Json::Text(hex(&report.journal))),
            ("first_seq", Json::Number(report.first)),
            ("last_seq", Json::Number(report.head.sequence)),
            ("events", Json::Number(events)),
            ("records", Json::Number(report.head.records)),
            ("contents", Json::Number(report.contents)),
            ("snapshots", Json::Number(report.snapshots)),
            ("head", Json::Text(hex(&report.head.hash))),
            ("findings", Json::List(named.map(finding_json).collect())),
            ("more_findings", Json::Number(more as u64)),
        ]))?;
        return Ok(u8::from(!sound));
    }
    for finding in named {
        screen.line(&finding_line(finding))?;
    }
    if more > 0 {
        screen.line(&format!("… and {more} more"))?;
    }
    screen.line(&format!(
        "{}: {} in {}{}, head {}",
        if sound { "the log is whole" } else { "the log is damaged" },
        count(events, "event", "events"),
        count(report.head.records, "record", "records"),
        if deep {
            format!(
                ", {}, {}",
                count(report.contents, "content", "contents"),
                count(report.snapshots, "snapshot", "snapshots")
            )
        } else {
            String::new()
        },
        hex(&report.head.hash)
    ))?;
    Ok(u8::from(!sound))
}

const fn severity(severity: Severity) -> &'static str {
    match severity {
        Severity::Note => "note",
        Severity::Warning => "warning",
        Severity::Damage => "damage",
    }
}

/// One finding for programs.
pub(crate) fn finding_json(finding: &Finding) -> Json {
    Json::object([
        ("severity", Json::text(severity(finding.severity))),
        ("what", Json::text(&finding.what)),
        ("path", Json::maybe(finding.path.as_ref(), |path| Json::text(path.display()))),
        ("offset", Json::maybe(finding.offset, Json::Number)),
        ("record", Json::maybe(finding.record, Json::Number)),
        ("seq", Json::maybe(finding.sequence, Json::Number)),
        ("tickets", Json::List(finding.tickets.iter().map(Json::text).collect())),
    ])
}

/// One finding for people.
pub(crate) fn finding_line(finding: &Finding) -> String {
    let mut place = Vec::new();
    if let Some(path) = &finding.path {
        place.push(match finding.offset {
            Some(offset) => format!("{} at byte {offset}", path.display()),
            None => path.display().to_string(),
        });
    }
    if let Some(record) = finding.record {
        place.push(format!("record {record}"));
    }
    if let Some(sequence) = finding.sequence {
        place.push(format!("event {sequence}"));
    }
    if !finding.tickets.is_empty() {
        let tickets: Vec<String> = finding.tickets.iter().map(ToString::to_string).collect();
        place.push(format!("tickets {}", tickets.join(", ")));
    }
    let place = if place.is_empty() { String::new() } else { format!(" ({})", place.join("; ")) };
    format!("{}: {}{}", severity(finding.severity), plain(&finding.what), plain(&place))
}

fn damage(sequence: Option<u64>, what: String) -> Finding {
    Finding {
        severity: Severity::Damage,
        path: None,
        offset: None,
        record: None,
        sequence,
        tickets: Vec::new(),
        what,
    }
}

/// Folds the log from its first event on: does each event fit, does the state agree with the snapshots,
/// is the content there that the events name.
fn fold(log: &Log, report: &mut VerifyReport) -> Result<(), LogError> {
    if log.first() > 1 {
        // Without its beginning the log folds to another state; the journal has said that it is gone.
        return Ok(());
    }
    let mut snapshots = log.snapshots()?.peekable();
    let mut world = World::new();
    let mut anomalies = 0;
    let mut seen: BTreeSet<BlobRef> = BTreeSet::new();
    for moment in log.events(1, u64::MAX) {
        // What cannot be read is in the report already.
        let Ok(moment) = moment else { return Ok(()) };
        let Ok(event) = moment.decode() else { return Ok(()) };
        let sequence = moment.sequence;
        world.apply(moment.stamp(), &event);
        if world.anomalies() > anomalies {
            anomalies = world.anomalies();
            let what = format!("{} does not fit the state before it", moment.kind_name());
            report.findings.push(damage(Some(sequence), what));
        }
        while let Some(snapshot) = snapshots.next_if(|snapshot| snapshot.sequence <= sequence) {
            if snapshot.sequence == sequence
                && let Some(what) = disagrees(&world, &snapshot)
            {
                report.findings.push(Finding { severity: Severity::Warning, ..damage(Some(sequence), what) });
            }
        }
        for blob in contents(&event) {
            if seen.len() >= REMEMBERED {
                seen.clear();
            }
            if seen.insert(blob)
                && let Some(what) = missing(log, &blob)
            {
                let tickets = moment.ticket().into_iter().collect();
                report.findings.push(Finding { tickets, ..damage(Some(sequence), what) });
            }
        }
    }
    if anomalies == 0
        && let Err(broken) = world.check()
    {
        report.findings.push(damage(None, broken));
    }
    Ok(())
}

/// How a snapshot differs from the state that the log folds to, if it can be compared and does.
fn disagrees(world: &World, snapshot: &Snapshot) -> Option<String> {
    let configuration = bincode::config::standard();
    let shape = bincode::serde::decode_from_slice::<u32, _>(&snapshot.state, configuration).ok()?.0;
    if shape != SHAPE {
        return None;
    }
    let folded = bincode::serde::encode_to_vec((SHAPE, world), configuration).ok()?;
    (folded != snapshot.state).then(|| "the snapshot is not the state that the log folds to".to_owned())
}

/// What is wrong with content that an event names.
fn missing(log: &Log, blob: &BlobRef) -> Option<String> {
    match log.check_blob(blob) {
        Ok(true) => None,
        Ok(false) => Some(format!("content {blob} is missing")),
        Err(error) => Some(format!("content {blob} cannot be read: {error}")),
    }
}

/// The content that an event names.
fn contents(event: &Event) -> Vec<BlobRef> {
    match event {
        Event::TicketQueued(queued) => match &queued.work {
            Work::Cell { source, .. } => vec![*source],
            Work::StopKernel | Work::RestartKernel => Vec::new(),
        },
        Event::ResultReceived { record, output, .. } => {
            std::iter::once(*record).chain(output.stream).collect()
        }
        Event::OutputKept { output, .. } => output.stream.into_iter().collect(),
        Event::DaemonStarted(_)
        | Event::DaemonStopping { .. }
        | Event::SessionOpened { .. }
        | Event::SessionPaused { .. }
        | Event::SessionResumed { .. }
        | Event::SessionClosed { .. }
        | Event::SessionRemoved { .. }
        | Event::AllPaused { .. }
        | Event::AllResumed { .. }
        | Event::TicketAdmitted { .. }
        | Event::CancelRequested { .. }
        | Event::TicketEnded(_)
        | Event::CellClosed { .. }
        | Event::KernelStarting { .. }
        | Event::KernelReady { .. }
        | Event::KernelStartFailed { .. }
        | Event::KernelStopRequested { .. }
        | Event::KernelGone { .. }
        | Event::KernelReattached { .. }
        | Event::ExecuteRequested { .. }
        | Event::ExecuteAcknowledged { .. }
        | Event::ActivityNoted { .. }
        | Event::LadderStarted { .. }
        | Event::InterruptRequested { .. }
        | Event::InterruptAnswered { .. }
        | Event::KillRequested { .. }
        | Event::GroupStopped { .. }
        | Event::LadderEnded { .. }
        | Event::PermissionProposed { .. }
        | Event::PermissionDecided { .. }
        | Event::PermissionExpired { .. }
        | Event::RestorePublished { .. }
        | Event::HostCallStarted(_)
        | Event::HostCallDispatched { .. }
        | Event::HostCallCancelRequested { .. }
        | Event::CellDraining { .. }
        | Event::CapabilityGranted { .. }
        | Event::CapabilityConsumed { .. }
        | Event::CapabilityReported { .. }
        | Event::CapabilityVoided { .. }
        | Event::OutputObserved { .. } => Vec::new(),
        Event::HostCallAnswered { answer, .. } => answer.iter().copied().collect(),
        Event::OutputSubmitted { submission, .. } => vec![submission.output],
        Event::ArtifactSaved { artifact, .. } => {
            std::iter::once(artifact.content).chain(artifact.source).collect()
        }
        Event::DocumentWritten { content, .. } => vec![*content],
        Event::CellAnalysed { facts, .. } => vec![*facts],
        Event::RestoreStarted { plan, .. } => vec![*plan],
        Event::RestoreEnded { report, .. } => vec![*report],
    }
}
