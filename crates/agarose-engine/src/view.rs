//! What people and programs are shown: projections of the log and of the folded world.
//!
//! Field names are a promise (`agarose show --json`); absent is absent, never null.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use agarose_analysis::Summary;
use agarose_core::{
    BlobRef, Counters, Event, Executed, Generation, Language, Lease, Owner, Stamp, TicketId, Unit, Word,
    World,
    attempt::EndCause,
    cell::Phase,
    event::{Output, TicketQueued},
    host_call::Submission,
    permission::Permission,
    session::Session,
    slot::{Exit, GroupOutcome, ProcessNote, Slot, StopReason},
    stream::{self, StreamChannel},
    ticket::{Ticket, Work},
    watchdog::{Cause, KernelFate, Rung},
};
use agarose_journal::Reader;
use agarose_kernel::wire::{
    frame::{self, Decoder, Limits},
    worker::{CellResult, Display, DisplayKind, FileUse, FromWorker, Usage},
};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde::{Deserialize, Serialize};

/// Everything known of a ticket.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TicketView {
    /// Its id.
    pub ticket: String,
    /// Its session.
    pub session: String,
    /// Who asked.
    pub owner: OwnerView,
    /// Which interpreter.
    pub language: String,
    /// What it asks for, when it is not a cell: `stop_kernel` or `restart_kernel`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work: Option<String>,
    /// Where it stands.
    pub state: String,
    /// Whether user code ran: `yes`, `no` or `unknown`.
    pub executed: String,
    /// 0 when it runs, from 1 on while it waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub position: Option<u64>,
    /// Its number among the session's cells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ordinal: Option<u64>,
    /// Which life of the kernel ran it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<String>,
    /// Under which lease.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<String>,
    /// When it was accepted, RFC 3339.
    pub queued_at: String,
    /// When it was sent to a kernel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<String>,
    /// When it got its last word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<String>,
    /// Whether somebody asked to stop it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cancel: Option<CancelView>,
    /// What it printed on descriptor 1.
    pub stdout: StreamView,
    /// What it printed on descriptor 2.
    pub stderr: StreamView,
    /// What it displayed, in order.
    #[serde(default)]
    pub display: Vec<DisplayView>,
    /// The value of its last expression, by MIME type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<BTreeMap<String, String>>,
    /// Files with the figures among its displays.
    #[serde(default)]
    pub figures: Vec<String>,
    /// Why it did not complete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ErrorView>,
    /// Files that it read, as far as they were recorded.
    #[serde(default)]
    pub files_read: Vec<FileUse>,
    /// Files that it wrote, as far as they were recorded.
    #[serde(default)]
    pub files_written: Vec<FileUse>,
    /// What it used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// Remarks for people: variables that are gone, children that were left.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// The caller's own key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The ticket that had to complete first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// The ticket that this one tries again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_of: Option<String>,
    /// The branch of work it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// What it will touch, in the caller's words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resource_keys: Vec<String>,
    /// What the caller wanted kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<serde_json::Value>,
    /// Its source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// What it reads, writes and deletes, as it was recorded with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub analysis: Option<Summary>,
    /// The result that it handed in; it counts because the cell completed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub submission: Option<SubmissionView>,
    /// What it asked its host for: the first of them, when they are many.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub host_calls: Vec<HostCallView>,
    /// How often it asked its host for something.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub host_calls_count: u64,
    /// What it is for: `scientific`, `scratch`, `recovery` or `system`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub visibility: Option<String>,
    /// Why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub visibility_reasons: Vec<String>,
    /// Whether it may be repeated: `safe`, `conditional` or `never`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replay_policy: Option<String>,
    /// Why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub replay_reasons: Vec<String>,
    /// Whether its result can still be trusted, in its session as it is now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<crate::stale::VerdictView>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
const fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// A result that a cell handed in.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SubmissionView {
    /// It.
    pub output: serde_json::Value,
    /// What was done.
    pub completion_bullets: Vec<String>,
}

/// What a cell asked its host for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostCallView {
    /// Its number in its kernel.
    pub id: String,
    /// What was asked for.
    pub method: String,
    /// Its arguments in short, with secrets masked.
    pub preview: String,
    /// `open`, or how it ended.
    pub outcome: String,
    /// How long it took, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ms: Option<u64>,
}

/// Who asked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnerView {
    /// What sort of writer.
    pub kind: String,
    /// Which one.
    pub id: String,
}

impl From<&Owner> for OwnerView {
    fn from(owner: &Owner) -> Self {
        Self { kind: owner.kind.as_str().to_owned(), id: owner.id().to_owned() }
    }
}

/// A request to stop a ticket.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CancelView {
    /// Whether there is one.
    pub requested: bool,
    /// Why, in the words of whoever asked.
    pub reason: String,
}

/// One channel of output: what is kept of it and how much there was.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamView {
    /// What is kept; bytes that are not UTF-8 are shown replaced, and a hole is marked.
    pub text: String,
    /// Bytes seen.
    pub seen: u64,
    /// Bytes kept.
    pub retained: u64,
    /// Bytes not kept.
    pub dropped: u64,
    /// Whether anything was dropped.
    pub truncated: bool,
    /// What is counted.
    pub unit: Unit,
    /// Whether `text` shows bytes replaced because they are not UTF-8.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub lossy: bool,
}

/// Something that was displayed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DisplayView {
    /// By MIME type; binary types in base64.
    pub data: BTreeMap<String, String>,
    /// What the library says of it.
    #[serde(default)]
    pub metadata: serde_json::Map<String, serde_json::Value>,
    /// The name under which it may be updated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub display_id: Option<String>,
}

/// Why a ticket did not complete.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorView {
    /// `user`, `timeout`, `cancellation`, `kernel_died`, `refused` or `lost`.
    pub kind: String,
    /// The name of the error, for the cell's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What happened, for people.
    pub message: String,
    /// Where it came from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traceback: Option<String>,
    /// The line of the cell, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u64>,
    /// What became of the kernel: `reset`, `not_reset`, `reset_unavailable` or `kept`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<String>,
}

/// A consistent cut through one session.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SessionView {
    /// The version of this shape.
    pub version: u32,
    /// Its name.
    pub session: String,
    /// Whether it refuses new work.
    pub closed: bool,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub close_reason: Option<String>,
    /// Who paused it, or everything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused_by: Option<OwnerView>,
    /// Where its cells run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<String>,
    /// Who owns the running ticket.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<OwnerView>,
    /// The running ticket.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active: Option<QueuedView>,
    /// The tickets that wait, in order.
    pub queue: Vec<QueuedView>,
    /// How many wait.
    pub queued_count: u64,
    /// How many run: 0 or 1.
    pub active_count: u64,
    /// Its kernels.
    pub kernels: Vec<KernelView>,
    /// Its cells that have run and whether their results can still be trusted; only where one session is
    /// asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cells: Vec<crate::stale::CellVerdict>,
}

/// An open ticket in a session's cut.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct QueuedView {
    /// Its id.
    pub ticket: String,
    /// Its session.
    pub session: String,
    /// Who asked.
    pub owner: OwnerView,
    /// Which interpreter.
    pub language: String,
    /// `queued` or `running`.
    pub state: String,
    /// 0 when it runs, from 1 on while it waits.
    pub position: u64,
    /// Which life of the kernel runs it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<String>,
    /// The branch of work it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// What it will touch.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resource_keys: Vec<String>,
    /// When it was accepted.
    pub queued_at: String,
    /// When it was sent to a kernel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<String>,
    /// Whether somebody asked to stop it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cancel: Option<CancelView>,
    /// What it waits for or does: `waiting`, `paused`, `starting kernel`, `running`, `interrupting`, `grace`, `killing`, `restarting`.
    pub doing: String,
}

/// A kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelView {
    /// Of which session.
    pub session: String,
    /// Which interpreter.
    pub language: String,
    /// `starting`, `ready` or `stopping`.
    pub state: String,
    /// Which life.
    pub generation: String,
    /// The worker's process id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// The interpreter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub executable: Option<String>,
    /// Its version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}

/// The daemon, at a glance.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StatusView {
    /// The program's version.
    pub version: String,
    /// The daemon's process id.
    pub pid: u32,
    /// The data directory.
    pub data_dir: String,
    /// Whether new tickets are admitted.
    pub admitting: bool,
    /// Why no more events are taken, if none are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_only: Option<String>,
    /// Who paused everything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused_by: Option<OwnerView>,
    /// How many sessions there are.
    pub sessions: u64,
    /// How many tickets wait or run.
    pub open_tickets: u64,
    /// Its kernels.
    pub kernels: Vec<KernelView>,
    /// The last durable event.
    pub sequence: u64,
    /// How often a daemon has started here.
    pub starts: u64,
    /// What the last start found and did, for people.
    pub recovery: Vec<String>,
}

/// A question that waits for an answer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PermissionView {
    /// Its name.
    pub id: String,
    /// Of which session.
    pub session: String,
    /// The cell that waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ticket: Option<String>,
    /// What is asked for.
    pub method: String,
    /// The particulars.
    pub detail: String,
    /// Since when.
    pub since: String,
}

impl From<&Permission> for PermissionView {
    fn from(permission: &Permission) -> Self {
        Self {
            id: permission.id.to_string(),
            session: permission.session.to_string(),
            ticket: permission.ticket.map(|ticket| ticket.to_string()),
            method: permission.method.clone(),
            detail: permission.detail.clone(),
            since: rfc3339(permission.since),
        }
    }
}

/// A wall time in RFC 3339, with milliseconds.
#[must_use]
pub fn rfc3339(wall: u64) -> String {
    let milliseconds = i64::try_from(wall).unwrap_or(i64::MAX);
    jiff::Timestamp::from_millisecond(milliseconds).map_or_else(|_| wall.to_string(), |at| format!("{at:.3}"))
}

/// What the events of one ticket fold to.
#[derive(Clone, Debug, Default)]
pub(crate) struct History {
    pub(crate) queued: Option<(Stamp, Box<TicketQueued>)>,
    pub(crate) admitted: Option<Stamp>,
    pub(crate) sent: Option<(Stamp, Lease, u64)>,
    pub(crate) variables_lost: Option<Generation>,
    pub(crate) acknowledged: bool,
    pub(crate) cancel: Option<String>,
    /// The version of an analysis and its facts.
    pub(crate) analysis: Option<(String, BlobRef)>,
    pub(crate) record: Option<BlobRef>,
    pub(crate) output: Option<Output>,
    /// Why the watchdog last began to stop it.
    pub(crate) stopped_for: Option<Cause>,
    pub(crate) ended: Option<(Stamp, Word, Executed, EndCause)>,
    /// Why its kernel was told to stop when it ended.
    pub(crate) kernel_stopped: Option<StopReason>,
    /// The last result that was handed in.
    pub(crate) submission: Option<Submission>,
    pub(crate) host_calls: Vec<(Stamp, HostCallView)>,
    pub(crate) host_calls_count: u64,
}

/// How many calls of a cell are shown.
const CALLS_SHOWN: usize = 200;

impl History {
    pub(crate) fn apply(&mut self, stamp: Stamp, event: Event) {
        match event {
            Event::TicketQueued(queued) => self.queued = Some((stamp, queued)),
            Event::TicketAdmitted { .. } => self.admitted = Some(stamp),
            Event::ExecuteRequested { lease, ordinal, variables_lost, .. } => {
                self.sent = Some((stamp, lease, ordinal));
                self.variables_lost = variables_lost;
            }
            Event::CellAnalysed { analyser, facts, .. } => self.analysis = Some((analyser, facts)),
            Event::ExecuteAcknowledged { .. } => self.acknowledged = true,
            Event::CancelRequested { reason, .. } => self.cancel = Some(reason),
            Event::ResultReceived { record, output, .. } => {
                self.record = Some(record);
                self.output = Some(output);
            }
            Event::OutputKept { output, .. } => self.output = Some(output),
            Event::LadderStarted { cause, .. } => self.stopped_for = Some(cause),
            Event::OutputSubmitted { submission, .. } => self.submission = Some(submission),
            Event::HostCallStarted(started) => {
                self.host_calls_count += 1;
                if self.host_calls.len() < CALLS_SHOWN {
                    let view = HostCallView {
                        id: started.call.to_string(),
                        method: started.method,
                        preview: started.preview,
                        outcome: "open".to_owned(),
                        ms: None,
                    };
                    self.host_calls.push((stamp, view));
                }
            }
            Event::HostCallAnswered { call, outcome, .. } => {
                let id = call.to_string();
                if let Some((since, view)) = self.host_calls.iter_mut().rev().find(|(_, view)| view.id == id)
                {
                    outcome.as_str().clone_into(&mut view.outcome);
                    view.ms = Some(stamp.mono.saturating_sub(since.mono));
                }
            }
            Event::TicketEnded(ended) => {
                self.ended = Some((stamp, ended.word, ended.executed, ended.cause));
            }
            Event::DaemonStarted(_)
            | Event::DaemonStopping { .. }
            | Event::SessionOpened { .. }
            | Event::SessionPaused { .. }
            | Event::SessionResumed { .. }
            | Event::SessionClosed { .. }
            | Event::SessionRemoved { .. }
            | Event::AllPaused { .. }
            | Event::AllResumed { .. }
            | Event::CellClosed { .. }
            | Event::KernelStarting { .. }
            | Event::KernelReady { .. }
            | Event::KernelStartFailed { .. }
            | Event::KernelStopRequested { .. }
            | Event::KernelGone { .. }
            | Event::KernelReattached { .. }
            | Event::ActivityNoted { .. }
            | Event::InterruptRequested { .. }
            | Event::InterruptAnswered { .. }
            | Event::KillRequested { .. }
            | Event::GroupStopped { .. }
            | Event::LadderEnded { .. }
            | Event::PermissionProposed { .. }
            | Event::PermissionDecided { .. }
            | Event::PermissionExpired { .. }
            | Event::RestoreStarted { .. }
            | Event::RestorePublished { .. }
            | Event::RestoreEnded { .. }
            | Event::HostCallDispatched { .. }
            | Event::HostCallCancelRequested { .. }
            | Event::CellDraining { .. }
            | Event::CapabilityGranted { .. }
            | Event::CapabilityConsumed { .. }
            | Event::CapabilityReported { .. }
            | Event::CapabilityVoided { .. }
            | Event::ArtifactSaved { .. }
            | Event::DocumentWritten { .. }
            | Event::OutputObserved { .. } => {}
        }
    }

    /// Whether its process returned it and it did not complete, so that somebody wants to know what
    /// became of its variables.
    pub(crate) fn came_back_unwell(&self) -> bool {
        matches!(&self.ended, Some((_, word, _, EndCause::Result { .. })) if *word != Word::Completed)
    }

    /// Notes that a kernel was told to stop when this ticket ended.
    pub(crate) fn stopped_with(&mut self, generation: Generation, reason: StopReason) {
        if self.sent.is_some_and(|(_, lease, _)| lease.generation == generation) {
            self.kernel_stopped = Some(reason);
        }
    }

    /// What became of the variables of a cell that its process returned, and the word for its kernel.
    const fn variables(&self) -> (&'static str, &'static str) {
        match self.kernel_stopped {
            None => ("variables that it had set before are kept", "kept"),
            Some(StopReason::SessionClosed) => {
                ("its session was closed, so its kernel was stopped and its variables are gone", "reset")
            }
            Some(StopReason::DaemonStopping) => {
                ("the daemon stopped its kernels when it stopped, so its variables are gone", "reset")
            }
            Some(StopReason::Idle | StopReason::Requested) => {
                ("its kernel was stopped, and its variables are gone", "reset")
            }
        }
    }

    fn executed(&self) -> Executed {
        match (&self.ended, &self.sent, self.acknowledged) {
            (Some((_, _, executed, _)), _, _) => *executed,
            (None, None, _) => Executed::No,
            (None, Some(_), true) => Executed::Yes,
            (None, Some(_), false) => Executed::Unknown,
        }
    }
}

/// The record that is kept beside a result: what the worker said, less what has a place of its own.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ResultRecord {
    pub(crate) result: CellResult,
    #[serde(default)]
    pub(crate) children_left: u64,
}

/// The view of a ticket from its history. `position` and `stream` come from whoever knows them now;
/// figures are written below `figures` on the way, unless they are there.
pub(crate) fn ticket(
    id: TicketId,
    history: &History,
    position: Option<u64>,
    reader: &Reader,
    figures: &Path,
) -> TicketView {
    let mut view = TicketView { ticket: id.to_string(), ..TicketView::default() };
    if let Some((stamp, queued)) = &history.queued {
        view.session = queued.session.to_string();
        view.owner = OwnerView::from(&queued.owner);
        view.language = queued.language.as_str().to_owned();
        view.queued_at = rfc3339(stamp.wall);
        view.key.clone_from(&queued.key);
        view.after = queued.after.map(|after| after.to_string());
        view.retry_of = queued.retry_of.map(|of| of.to_string());
        view.branch.clone_from(&queued.branch);
        view.resource_keys.clone_from(&queued.resource_keys);
        view.metadata = queued.metadata.as_deref().and_then(|text| serde_json::from_str(text).ok());
        match &queued.work {
            Work::Cell { source, .. } => {
                let bytes = reader.blob(source).ok().flatten();
                view.source = bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
            }
            Work::StopKernel => view.work = Some("stop_kernel".to_owned()),
            Work::RestartKernel => view.work = Some("restart_kernel".to_owned()),
        }
    }
    view.state = match (&history.ended, history.admitted) {
        (Some((_, word, _, _)), _) => word.as_str(),
        (None, Some(_)) => "running",
        (None, None) => "queued",
    }
    .to_owned();
    view.position = if history.ended.is_some() { None } else { position };
    view.executed = history.executed().as_str().to_owned();
    view.host_calls = history.host_calls.iter().map(|(_, view)| view.clone()).collect();
    view.host_calls_count = history.host_calls_count;
    let completed = matches!(&history.ended, Some((_, Word::Completed, _, _)));
    view.submission = history.submission.as_ref().filter(|_| completed).and_then(|submission| {
        let bytes = reader.blob(&submission.output).ok().flatten()?;
        let output = serde_json::from_slice(&bytes).ok()?;
        Some(SubmissionView { output, completion_bullets: submission.bullets.clone() })
    });
    if let Some((stamp, lease, ordinal)) = &history.sent {
        view.started_at = Some(rfc3339(stamp.wall));
        view.generation = Some(lease.generation.to_string());
        view.lease = Some(lease.to_string());
        view.ordinal = Some(*ordinal);
    }
    view.finished_at = history.ended.as_ref().map(|(stamp, ..)| rfc3339(stamp.wall));
    view.cancel = history.cancel.clone().map(|reason| CancelView { requested: true, reason });
    if let Some(lost) = history.variables_lost {
        view.notes
            .push(format!("kernel {lost} is gone, and with it the variables of the cells before this one"));
    }
    if let Some(output) = &history.output {
        let stream = output.stream.and_then(|blob| reader.blob(&blob).ok().flatten()).unwrap_or_default();
        fill_output(&mut view, output, &stream, figures);
    }
    let record = history
        .record
        .and_then(|blob| reader.blob(&blob).ok().flatten())
        .and_then(|bytes| serde_json::from_slice::<ResultRecord>(&bytes).ok());
    view.error = history.ended.as_ref().and_then(|(_, word, executed, cause)| {
        let result = record.as_ref().map(|record| &record.result);
        error(history, *word, *executed, cause, result)
    });
    // Elsewhere the message of the error says it; this one is the user's own.
    if history.kernel_stopped.is_some() && view.state == Word::Failed.as_str() {
        view.notes.push(history.variables().0.to_owned());
    }
    if let Some(record) = record {
        if record.children_left > 0 {
            view.notes.push(format!("{} processes that this kernel started still run", record.children_left));
        }
        view.notes.extend(record.result.warnings);
        view.files_read = record.result.files_read;
        view.files_written = record.result.files_written;
        view.usage = Some(record.result.usage);
    }
    view
}

fn stream_view(counters: Counters, bytes: Vec<u8>) -> StreamView {
    let (text, lossy) = match String::from_utf8(bytes) {
        Ok(text) => (text, false),
        Err(error) => (String::from_utf8_lossy(error.as_bytes()).into_owned(), true),
    };
    StreamView {
        text,
        seen: counters.seen(),
        retained: counters.retained(),
        dropped: counters.dropped(),
        truncated: counters.truncated(),
        unit: counters.unit(),
        lossy,
    }
}

/// Fills in what a retained stream holds: text, displays, the value of the last expression, figures.
pub(crate) fn fill_output(view: &mut TicketView, output: &Output, stream: &[u8], figures: &Path) {
    let mut text = [Vec::new(), Vec::new()];
    let mut end = 0u64;
    let mut displays = Vec::new();
    for run in stream::runs(stream) {
        let hole = run.start.saturating_sub(end);
        end = run.start.saturating_add(run.bytes.len() as u64);
        let index = match run.channel {
            StreamChannel::Stdout => 0,
            StreamChannel::Stderr => 1,
            StreamChannel::Display => {
                displays.extend(decode_displays(run.bytes));
                continue;
            }
        };
        if hole > 0 {
            text[index].extend_from_slice(format!("\n… {hole} bytes dropped …\n").as_bytes());
        }
        text[index].extend_from_slice(run.bytes);
    }
    let [stdout, stderr] = text;
    view.stdout = stream_view(output.stdout, stdout);
    view.stderr = stream_view(output.stderr, stderr);
    place_displays(view, displays, figures);
}

/// A frame of the display channel.
pub(crate) enum DisplayFrame {
    /// Something to show, with the bytes of its parts.
    Show(Display, Vec<Vec<u8>>),
    /// What was shown before is taken back.
    Clear,
}

impl DisplayFrame {
    /// Whether it shows something that is kept as a figure.
    pub(crate) fn is_figure(&self) -> bool {
        match self {
            Self::Show(display, _) => display.parts.iter().any(|part| figure_suffix(&part.mime).is_some()),
            Self::Clear => false,
        }
    }
}

/// The display frames in a run of the display channel.
pub(crate) fn decode_displays(bytes: &[u8]) -> Vec<DisplayFrame> {
    let mut decoder = Decoder::new(Limits::USUAL);
    decoder.push(bytes);
    let mut frames = Vec::new();
    while let Ok(Some(frame)) = decoder.next_frame() {
        match frame::decode::<FromWorker>(frame.json) {
            Ok(FromWorker::Display(display)) => {
                let mut rest = frame.body;
                let parts = display.parts.iter().map(|part| {
                    let length = usize::try_from(part.len).unwrap_or(usize::MAX).min(rest.len());
                    let (part, after) = rest.split_at(length);
                    rest = after;
                    part.to_vec()
                });
                let parts = parts.collect();
                frames.push(DisplayFrame::Show(display, parts));
            }
            Ok(FromWorker::ClearOutput { .. }) => frames.push(DisplayFrame::Clear),
            Ok(_) | Err(_) => {}
        }
    }
    frames
}

fn place_displays(view: &mut TicketView, frames: Vec<DisplayFrame>, figures: &Path) {
    let mut figure = 0u32;
    // What is shown again in its place is one figure, as it was last.
    let mut last = BTreeMap::new();
    for (at, frame) in frames.iter().enumerate() {
        if let DisplayFrame::Show(display, _) = frame
            && let Some(id) = &display.display_id
        {
            last.insert(id.clone(), at);
        }
    }
    let mut numbers: BTreeMap<(String, usize), u32> = BTreeMap::new();
    let mut paths = BTreeMap::new();
    for (at, frame) in frames.into_iter().enumerate() {
        let DisplayFrame::Show(display, parts) = frame else {
            view.display.clear();
            continue;
        };
        let id = display.display_id.as_ref();
        let superseded = id.is_some_and(|id| last.get(id) != Some(&at));
        let mut data = BTreeMap::new();
        for (nth, (part, bytes)) in display.parts.iter().zip(parts).enumerate() {
            if let Some(suffix) = figure_suffix(&part.mime) {
                let mut next = || {
                    figure += 1;
                    figure
                };
                let number = match id {
                    Some(id) => *numbers.entry((id.clone(), nth)).or_insert_with(next),
                    None => next(),
                };
                let path = figures.join(format!("{}-{number}.{suffix}", view.ticket));
                if !superseded && write_figure(&path, &bytes) {
                    paths.insert(number, path.display().to_string());
                }
            }
            let text = match String::from_utf8(bytes) {
                Ok(text) if !is_binary(&part.mime) => text,
                Ok(text) => BASE64_STANDARD.encode(text),
                Err(error) => BASE64_STANDARD.encode(error.as_bytes()),
            };
            data.insert(part.mime.clone(), text);
        }
        match display.kind {
            DisplayKind::Result => view.result = Some(data),
            DisplayKind::Display => {
                view.display.push(DisplayView {
                    data,
                    metadata: display.metadata,
                    display_id: display.display_id,
                });
            }
            DisplayKind::Update => {
                let earlier =
                    view.display.iter_mut().filter(|earlier| earlier.display_id == display.display_id);
                for earlier in earlier {
                    earlier.data.clone_from(&data);
                    earlier.metadata.clone_from(&display.metadata);
                }
            }
        }
    }
    view.figures.extend(paths.into_values());
}

fn is_binary(mime: &str) -> bool {
    mime == "application/pdf"
        || (mime.starts_with("image/") && mime != "image/svg+xml")
        || mime.starts_with("audio/")
        || mime.starts_with("video/")
}

fn figure_suffix(mime: &str) -> Option<&'static str> {
    match mime {
        "image/png" => Some("png"),
        "image/jpeg" => Some("jpg"),
        "image/svg+xml" => Some("svg"),
        "application/pdf" => Some("pdf"),
        _ => None,
    }
}

/// Writes a figure where people can open it. It is a copy of what the log holds, so that it may be
/// missing or removed; a write that fails only means that no path is given.
fn write_figure(path: &Path, bytes: &[u8]) -> bool {
    if path.metadata().is_ok_and(|there| there.len() == bytes.len() as u64) {
        return true;
    }
    let Some(directory) = path.parent() else { return false };
    fs::create_dir_all(directory).and_then(|()| fs::write(path, bytes)).is_ok()
}

/// What a person reads about a ticket that did not complete. It follows from the type alone.
fn error(
    history: &History,
    word: Word,
    executed: Executed,
    cause: &EndCause,
    result: Option<&CellResult>,
) -> Option<ErrorView> {
    let plain =
        |kind: &str, message: String| ErrorView { kind: kind.to_owned(), message, ..ErrorView::default() };
    let with_kernel = |kind: &str, message: String, kernel: &str| ErrorView {
        kernel: Some(kernel.to_owned()),
        ..plain(kind, message)
    };
    let (variables, kernel) = history.variables();
    match cause {
        EndCause::Result { .. } => match word {
            Word::Completed => None,
            Word::Cancelled => Some(with_kernel(
                "cancellation",
                format!("The cell returned after it was cancelled; {variables}."),
                kernel,
            )),
            Word::Interrupted => {
                let (kind, message) = match history.stopped_for {
                    Some(Cause::Timeout) => {
                        ("timeout", "The cell ran longer than its timeout allows and was interrupted")
                    }
                    Some(Cause::IdleTimeout) => (
                        "timeout",
                        "The cell gave no sign of life for longer than its idle timeout allows and was interrupted",
                    ),
                    Some(Cause::Cancellation) => {
                        ("cancellation", "The cell was cancelled and stopped at the interrupt")
                    }
                    Some(Cause::Interrupt) | None => ("cancellation", "The cell was interrupted"),
                };
                let error = result.and_then(|result| result.error.as_ref());
                Some(ErrorView {
                    traceback: error.map(|error| error.traceback.clone()).filter(|text| !text.is_empty()),
                    line: error.and_then(|error| error.line),
                    ..with_kernel(kind, format!("{message}; {variables}."), kernel)
                })
            }
            Word::Failed | Word::TimedOut | Word::Refused | Word::Lost => {
                let error = result.and_then(|result| result.error.clone()).unwrap_or_default();
                Some(ErrorView {
                    name: Some(error.name),
                    traceback: Some(error.traceback).filter(|text| !text.is_empty()),
                    line: error.line,
                    ..with_kernel("user", error.message, kernel)
                })
            }
        },
        EndCause::CancelledBeforeStart => {
            Some(plain("cancellation", "It was cancelled before it ran.".to_owned()))
        }
        EndCause::AdmissionTimedOut => Some(plain(
            "cancellation",
            "It waited in the queue for as long as its --wait-timeout allows, and was never run.".to_owned(),
        )),
        EndCause::PredecessorNotCompleted { after, word } => Some(plain(
            "cancellation",
            format!("It was to run only if ticket {after} completed, and that ended as {}.", word.as_str()),
        )),
        EndCause::SessionClosed => {
            Some(plain("cancellation", "Its session was closed before it ran.".to_owned()))
        }
        EndCause::NoKernel { reason } => {
            Some(plain("refused", format!("There is no kernel to run it: {reason}")))
        }
        EndCause::KernelDied { exit } => Some(with_kernel(
            "kernel_died",
            format!(
                "The kernel died while the cell ran ({exit}). Its variables are gone.{}",
                // Whoever meets a limit may not know that there is one.
                if matches!(exit, Exit::Limit { .. }) { " `agarose serve` sets the limits." } else { "" }
            ),
            "reset",
        )),
        EndCause::Lost { exit } => {
            let ran = match executed {
                Executed::Yes => "It had begun to run",
                Executed::No => "It had not begun to run",
                Executed::Unknown => "Whether it had begun to run is not known",
            };
            Some(with_kernel(
                "lost",
                format!(
                    "Its kernel was gone when the daemon came back ({exit}). {ran}; it is not run again by itself. \
                     Variables are gone."
                ),
                "reset",
            ))
        }
        EndCause::Stopped { cause, kernel } => {
            let (kind, what) = match cause {
                Cause::Timeout => ("timeout", "The cell ran longer than its timeout allows"),
                Cause::IdleTimeout => {
                    ("timeout", "The cell gave no sign of life for longer than its idle timeout allows")
                }
                Cause::Cancellation | Cause::Interrupt => ("cancellation", "The cell was cancelled"),
            };
            let (kernel, then) = match kernel {
                KernelFate::Reset { group, replacement } => (
                    "reset",
                    format!(
                        "Its kernel was stopped{}, and its variables are gone.{}",
                        killed(group),
                        replacement.map_or(String::new(), |new| format!(" A fresh kernel ({new}) is ready."))
                    ),
                ),
                KernelFate::NotReset { group } => (
                    "not_reset",
                    format!(
                        "Its kernel could not be stopped: {}. The work may still be running.",
                        alive(group)
                    ),
                ),
                KernelFate::ResetUnavailable { group } => (
                    "reset_unavailable",
                    format!(
                        "Its kernel was stopped{}, and its variables are gone. The fresh kernel that was to replace it \
                         did not come up; the next cell tries again.",
                        killed(group)
                    ),
                ),
            };
            Some(with_kernel(kind, format!("{what} and did not stop by itself. {then}"), kernel))
        }
        EndCause::Lifecycle => None,
    }
}

fn notes(processes: &[ProcessNote]) -> String {
    let named: Vec<String> = processes
        .iter()
        .take(5)
        .map(|process| {
            format!(
                "{} (pid {}{})",
                process.command,
                process.pid,
                if process.escaped { ", escaped" } else { "" }
            )
        })
        .collect();
    let more = processes.len().saturating_sub(named.len());
    if more > 0 { format!("{} and {more} more", named.join(", ")) } else { named.join(", ") }
}

fn killed(group: &GroupOutcome) -> String {
    match group {
        GroupOutcome::Killed { killed } if !killed.is_empty() => {
            format!(" (had to be killed: {})", notes(killed))
        }
        GroupOutcome::Killed { .. }
        | GroupOutcome::AlreadyExited
        | GroupOutcome::ExitedOnTerm
        | GroupOutcome::Alive { .. }
        | GroupOutcome::NotSignalled { .. }
        | GroupOutcome::Unreachable { .. } => String::new(),
    }
}

fn alive(group: &GroupOutcome) -> String {
    match group {
        GroupOutcome::Alive { left } => format!("still there after KILL are {}", notes(left)),
        GroupOutcome::NotSignalled { errno } => format!("the system refused the signal (errno {errno})"),
        GroupOutcome::Unreachable { reason } => reason.clone(),
        GroupOutcome::AlreadyExited | GroupOutcome::ExitedOnTerm | GroupOutcome::Killed { .. } => {
            "it is gone".to_owned()
        }
    }
}

/// A consistent cut through a session.
pub(crate) fn session(world: &World, session: &Session) -> SessionView {
    let open = |ticket: &Ticket| queued(world, session, ticket);
    SessionView {
        version: 1,
        session: session.id.to_string(),
        closed: session.closed.is_some(),
        close_reason: session.closed.as_ref().map(|closed| closed.reason.clone()),
        paused_by: session.paused.as_ref().or(world.paused()).map(OwnerView::from),
        workspace: session.workspace.clone(),
        owner: session.active_ticket().map(|ticket| OwnerView::from(&ticket.owner)),
        active: session.active_ticket().map(open),
        queue: session.queue.iter().filter_map(|id| session.tickets.get(id)).map(open).collect(),
        queued_count: session.queue.len() as u64,
        active_count: u64::from(session.active.is_some()),
        kernels: kernels(session).collect(),
        cells: Vec::new(),
    }
}

fn queued(world: &World, session: &Session, ticket: &Ticket) -> QueuedView {
    let position = session.position(ticket.id).unwrap_or(0);
    let cell = session.active.as_ref().filter(|cell| cell.ticket == ticket.id);
    let run = cell.and_then(|cell| cell.run());
    let doing = match cell.map(|cell| &cell.phase) {
        None if session.paused.is_some() || world.paused().is_some() => "paused",
        None => "waiting",
        Some(Phase::Admitted | Phase::StartAwaited) => "starting kernel",
        Some(Phase::StopAwaited) => "stopping kernel",
        Some(Phase::Underway(run)) => match run.rung {
            Rung::Waiting => "running",
            Rung::Interrupting { .. } => "interrupting",
            Rung::Grace { .. } => "grace",
            Rung::Killing { .. } => "killing",
            Rung::Stopped { .. } => "restarting",
        },
        Some(Phase::Draining(_)) => "ending its host calls",
    };
    QueuedView {
        ticket: ticket.id.to_string(),
        session: session.id.to_string(),
        owner: OwnerView::from(&ticket.owner),
        language: ticket.language.as_str().to_owned(),
        state: if cell.is_some() { "running" } else { "queued" }.to_owned(),
        position,
        generation: run.map(|run| run.lease.generation.to_string()),
        branch: ticket.branch.clone(),
        resource_keys: ticket.resource_keys.clone(),
        queued_at: rfc3339(ticket.queued.wall),
        started_at: run.map(|run| rfc3339(run.sent.wall)),
        cancel: ticket
            .cancel
            .as_ref()
            .map(|cancel| CancelView { requested: true, reason: cancel.reason.clone() }),
        doing: doing.to_owned(),
    }
}

/// The kernels of a session.
pub(crate) fn kernels(session: &Session) -> impl Iterator<Item = KernelView> {
    session.slots.iter().filter_map(|(language, slot)| {
        let generation = slot.generation()?;
        let process = match slot {
            Slot::Ready { process, .. } => Some(process),
            Slot::Absent { .. } | Slot::Starting { .. } | Slot::Stopping { .. } => None,
        };
        Some(KernelView {
            session: session.id.to_string(),
            language: Language::as_str(*language).to_owned(),
            state: slot.as_str().to_owned(),
            generation: generation.to_string(),
            pid: process.map(|process| process.pid),
            executable: process.map(|process| process.executable.clone()),
            version: process.map(|process| process.version.clone()),
        })
    })
}

/// Where figures are written for people to open.
pub(crate) fn figures_directory(data_dir: &Path) -> PathBuf {
    data_dir.join("figures")
}
