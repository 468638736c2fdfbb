//! `verify`: the chain, and with `--deep` the fold and all content.

use std::collections::BTreeSet;

use agarose_core::{BlobRef, Event, World, ticket::Work};

use crate::{
    error::LogError,
    json::{Json, hex},
    log::Log,
    screen::Screen,
    words::count,
};

/// How many findings of one sort are named.
const NAMED: usize = 20;
/// How many names of content are remembered, so that content that many events name is read once.
const REMEMBERED: usize = 100_000;

/// Something that is wrong.
struct Finding {
    what: &'static str,
    sequence: Option<u64>,
    text: String,
}

/// What was looked at and found.
#[derive(Default)]
struct Findings {
    list: Vec<Finding>,
    more: u64,
    events: u64,
    records: u64,
    contents: u64,
}

impl Findings {
    fn add(&mut self, what: &'static str, sequence: Option<u64>, text: String) {
        if self.list.len() < NAMED {
            self.list.push(Finding { what, sequence, text });
        } else {
            self.more = self.more.saturating_add(1);
        }
    }
}

/// Runs `verify [--deep]`. A damaged log exits with 1, and the damage is named.
pub(crate) fn run(log: &Log, deep: bool, screen: &mut Screen<'_>) -> Result<u8, LogError> {
    let mut findings = Findings::default();
    chain(log, &mut findings);
    if deep {
        fold(log, &mut findings);
    }
    let sound = findings.list.is_empty();
    let head = log.head();
    if screen.json {
        screen.value(&Json::object([
            ("sound", Json::Bool(sound)),
            ("deep", Json::Bool(deep)),
            ("events", Json::Number(findings.events)),
            ("records", Json::Number(findings.records)),
            ("contents", Json::Number(findings.contents)),
            ("head", Json::Text(hex(&head.hash))),
            ("findings", Json::List(findings.list.iter().map(json).collect())),
            ("more_findings", Json::Number(findings.more)),
        ]))?;
        return Ok(u8::from(!sound));
    }
    for finding in &findings.list {
        screen.line(&format!("{}: {}", finding.what, finding.text))?;
    }
    if findings.more > 0 {
        screen.line(&format!("… and {} more", findings.more))?;
    }
    let what = if sound { "the log is whole" } else { "the log is damaged" };
    let contents =
        if deep { format!(", {}", count(findings.contents, "content", "contents")) } else { String::new() };
    screen.line(&format!(
        "{what}: {} in {}{contents}, head {}",
        count(findings.events, "event", "events"),
        count(findings.records, "record", "records"),
        hex(&head.hash)
    ))?;
    Ok(u8::from(!sound))
}

fn json(finding: &Finding) -> Json {
    Json::object([
        ("what", Json::text(finding.what)),
        ("seq", Json::maybe(finding.sequence, Json::Number)),
        ("text", Json::text(&finding.text)),
    ])
}

fn chain(log: &Log, findings: &mut Findings) {
    let mut before: Option<(u64, [u8; 32], u64)> = None;
    for commit in log.commits(log.first()) {
        let commit = match commit {
            Ok(commit) => commit,
            Err(error) => {
                findings.add("damage", None, error.to_string());
                return;
            }
        };
        if let Some((record, hash, next)) = before {
            if commit.record != record.saturating_add(1) || commit.previous != hash {
                let text = format!("record {} does not continue record {record}", commit.record);
                findings.add("chain", Some(commit.first), text);
            }
            if commit.first != next {
                let text = format!("event {next} should follow, and event {} does", commit.first);
                findings.add("sequence", Some(commit.first), text);
            }
        }
        let events = commit.entries.len() as u64;
        findings.records += 1;
        findings.events = findings.events.saturating_add(events);
        before = Some((commit.record, commit.hash, commit.first.saturating_add(events)));
    }
    let head = log.head();
    if let Some((record, hash, _)) = before
        && (record.saturating_add(1), hash) != (head.records, head.hash)
    {
        findings.add("chain", None, "the last record is not the head of the chain".to_owned());
    }
}

fn fold(log: &Log, findings: &mut Findings) {
    let mut world = World::new();
    let mut anomalies = 0;
    let mut seen: BTreeSet<BlobRef> = BTreeSet::new();
    let events = match log.events(log.first(), u64::MAX) {
        Ok(events) => events,
        Err(error) => return findings.add("damage", None, error.to_string()),
    };
    for moment in events {
        let moment = match moment {
            Ok(moment) => moment,
            Err(error) => return findings.add("damage", None, error.to_string()),
        };
        let sequence = moment.sequence;
        let event = match moment.decode() {
            Ok(event) => event,
            Err(error) => return findings.add("event", Some(sequence), format!("event {sequence}: {error}")),
        };
        world.apply(moment.stamp(), &event);
        if world.anomalies() > anomalies {
            anomalies = world.anomalies();
            let text = format!("event {sequence} ({}) does not fit the state before it", moment.kind_name());
            findings.add("fold", Some(sequence), text);
        }
        for blob in contents(&event) {
            if seen.len() >= REMEMBERED {
                seen.clear();
            }
            if seen.insert(blob) {
                findings.contents += 1;
                content(log, sequence, &blob, findings);
            }
        }
    }
    if anomalies == 0
        && let Err(broken) = world.check()
    {
        findings.add("fold", None, broken);
    }
}

fn content(log: &Log, sequence: u64, blob: &BlobRef, findings: &mut Findings) {
    let text = match log.check_blob(blob) {
        Ok(true) => return,
        Ok(false) => format!("content {blob} that event {sequence} names is missing"),
        Err(error) => format!("content {blob} that event {sequence} names: {error}"),
    };
    findings.add("content", Some(sequence), text);
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
        | Event::PermissionExpired { .. } => Vec::new(),
    }
}
