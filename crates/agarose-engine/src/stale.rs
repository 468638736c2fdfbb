//! Which results of a session can still be trusted: its runs from the log, folded as they come.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use agarose_analysis::{
    Facts,
    policy::{Origin, Seen},
    stale::{Cause, Evidence, Judgement, Policy, Project, Run, Status, Through, Value, Verdict},
};
use agarose_core::{
    BlobRef, Event, Executed, Generation, Language, OwnerKind, SessionId, TicketId, Word,
    event::TicketQueued, ticket::Work,
};
use agarose_journal::Reader;
use agarose_kernel::wire::worker::{FileUse, NamesSeen};
use serde::{Deserialize, Serialize};

use crate::{
    analysis,
    view::{self, ResultRecord},
};

/// Files larger than this are compared by size alone, in bytes.
const HASHED: u64 = 64 << 20;

/// What becomes of a session's results.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StaleView {
    /// Of which session.
    pub session: String,
    /// Which later runs count: `document_order` or `current_state`.
    pub policy: String,
    /// The cells, in their order.
    pub cells: Vec<CellVerdict>,
}

/// What becomes of a cell's latest result.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CellVerdict {
    /// The cell: its name, or its first ticket.
    pub cell: String,
    /// Its latest run.
    pub ticket: String,
    /// `python` or `r`.
    pub language: String,
    /// Its first line.
    pub label: String,
    /// The verdict and what it rests on.
    #[serde(flatten)]
    pub verdict: VerdictView,
}

/// A verdict on a result.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VerdictView {
    /// `fresh`, `superseded`, `uncertain`, `stale`, `edited`, `failed` or `detached`.
    pub verdict: String,
    /// Why it is not fresh, for programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<CauseView>,
    /// From the result back to the change that made it so, nearest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub path: Vec<CauseView>,
}

/// What a verdict rests on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CauseView {
    /// `name`, `channel`, `unknown`, `producer`, `upstream_edited`, `upstream_removed` or `itself`.
    pub through: String,
    /// Which name, channel, code or cell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub what: Option<String>,
    /// The part of a channel: a file's path, a variable's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The run that did it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ticket: Option<String>,
    /// The cell of that run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cell: Option<String>,
}

/// What an edit would do.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WhatIfView {
    /// The cell.
    pub cell: String,
    /// Cells whose results would be stale.
    pub stale: Vec<String>,
    /// What to run, in this order, to have everything fresh again.
    pub rerun: Vec<String>,
    /// Cells that need each other's results.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cycle: Vec<String>,
}

/// A run that has ended, and what is known of it.
#[derive(Clone, Debug)]
pub(crate) struct Ran {
    pub(crate) ticket: TicketId,
    pub(crate) cell: String,
    pub(crate) language: Language,
    pub(crate) facts: Arc<Facts>,
    pub(crate) label: String,
    pub(crate) word: Word,
    pub(crate) files_read: Vec<FileUse>,
    pub(crate) files_written: Vec<FileUse>,
    /// It showed a figure.
    pub(crate) displayed: bool,
}

/// A ticket that has not ended, as far as its run will need it.
#[derive(Clone, Debug)]
struct Open {
    queued: Box<TicketQueued>,
    analysis: Option<(String, BlobRef)>,
    generation: Option<Generation>,
    record: Option<BlobRef>,
    stream: Option<BlobRef>,
}

/// The runs of one session.
#[derive(Debug, Default)]
pub(crate) struct Projection {
    pub(crate) project: Project,
    pub(crate) runs: Vec<Ran>,
    open: BTreeMap<TicketId, Open>,
    cells: BTreeMap<TicketId, String>,
    places: BTreeMap<TicketId, u32>,
    /// The verdicts in the document's order as long as nothing else runs, all files being what they were.
    judged: Option<Arc<[Judgement]>>,
    /// Where its cells run, if the session is there and says so.
    pub(crate) workspace: Option<PathBuf>,
    /// The last event that was folded.
    cursor: u64,
}

/// The projections that somebody asked for.
#[derive(Debug, Default)]
pub(crate) struct Projections(Mutex<BTreeMap<SessionId, Arc<Mutex<Projection>>>>);

/// Sessions that are kept folded.
const KEPT: usize = 256;

impl Projections {
    /// Asks something of a session's runs, with all that is durable folded in.
    pub(crate) fn with<T>(
        &self,
        reader: &Reader,
        session: &SessionId,
        ask: impl FnOnce(&mut Projection) -> T,
    ) -> T {
        let projection = {
            let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if kept.len() >= KEPT && !kept.contains_key(session) {
                kept.pop_first();
            }
            Arc::clone(kept.entry(session.clone()).or_default())
        };
        let mut projection = projection.lock().unwrap_or_else(PoisonError::into_inner);
        projection.follow(reader, session);
        ask(&mut projection)
    }
}

impl Projection {
    /// Folds what has been written since.
    fn follow(&mut self, reader: &Reader, session: &SessionId) {
        for entry in reader.session_events(session, self.cursor.saturating_add(1)..) {
            let Ok(entry) = entry else { return };
            let Ok(event) = entry.event.decode() else { return };
            self.cursor = entry.sequence;
            match event {
                // A name that is used afresh has nothing to do with what had it before.
                Event::SessionOpened { workspace, .. } => {
                    let workspace = workspace.map(PathBuf::from);
                    *self = Self { cursor: self.cursor, workspace, ..Self::default() };
                }
                Event::SessionRemoved { .. } => self.workspace = None,
                Event::RestorePublished { candidate, .. } => self.adopt(reader, &candidate, entry.sequence),
                event => self.apply(reader, event),
            }
        }
    }

    /// What ran in the candidate of a restore that was published.
    fn adopt(&mut self, reader: &Reader, candidate: &SessionId, until: u64) {
        for entry in reader.session_events(candidate, ..until) {
            let Ok(entry) = entry else { return };
            let Ok(event) = entry.event.decode() else { return };
            self.apply(reader, event);
        }
    }

    fn apply(&mut self, reader: &Reader, event: Event) {
        match event {
            // A restore also looks at what it has built; that is nobody's result.
            Event::TicketQueued(queued)
                if queued.owner.kind == OwnerKind::Recovery && restored_cell(&queued).is_none() => {}
            Event::TicketQueued(queued) => {
                if let Work::Cell { name, .. } = &queued.work {
                    let given = restored_cell(&queued).or_else(|| name.clone());
                    let cell = given
                        .or_else(|| queued.retry_of.and_then(|first| self.cells.get(&first).cloned()))
                        .unwrap_or_else(|| queued.ticket.to_string());
                    self.cells.insert(queued.ticket, cell);
                    let ticket = queued.ticket;
                    let open = Open { queued, analysis: None, generation: None, record: None, stream: None };
                    self.open.insert(ticket, open);
                }
            }
            Event::CellAnalysed { ticket, analyser, facts, .. } => {
                if let Some(open) = self.open.get_mut(&ticket) {
                    open.analysis = Some((analyser, facts));
                }
            }
            Event::ExecuteRequested { lease, .. } => {
                if let Some(open) = self.open.get_mut(&lease.ticket) {
                    open.generation = Some(lease.generation);
                }
            }
            Event::ResultReceived { lease, record, output, .. } => {
                if let Some(open) = self.open.get_mut(&lease.ticket) {
                    open.record = Some(record);
                    open.stream = output.stream;
                }
            }
            Event::TicketEnded(ended) => {
                if let Some(open) = self.open.remove(&ended.ticket)
                    && ended.executed != Executed::No
                {
                    self.append(reader, open, ended.ticket, ended.word);
                }
            }
            _ => {}
        }
    }

    fn append(&mut self, reader: &Reader, open: Open, ticket: TicketId, word: Word) {
        let Work::Cell { source, .. } = &open.queued.work else { return };
        let language = open.queued.language;
        let Some(facts) = analysis::read(reader, language, open.analysis.as_ref(), source) else { return };
        let Some(generation) = open.generation else { return };
        let record: Option<ResultRecord> = open
            .record
            .and_then(|blob| reader.blob(&blob).ok().flatten())
            .and_then(|bytes| serde_json::from_slice(&bytes).ok());
        let result = record.map(|record| record.result);
        let error = result.as_ref().and_then(|result| result.error.as_ref());
        let status = status(word, &facts, error.map(|error| error.name.as_str()));
        let cell = self.cells.get(&ticket).cloned().unwrap_or_else(|| ticket.to_string());
        let text = reader.blob(source).ok().flatten().unwrap_or_default();
        self.project.append(Run {
            cell: cell.clone(),
            facts: Arc::clone(&facts),
            status,
            generation: generation.0,
            evidence: result.as_ref().and_then(|result| result.names.clone()).map(evidence),
        });
        self.judged = None;
        self.places.insert(ticket, self.runs.len() as u32);
        self.runs.push(Ran {
            ticket,
            cell,
            language,
            facts,
            label: label(&String::from_utf8_lossy(&text)),
            word,
            files_read: result.as_ref().map(|result| result.files_read.clone()).unwrap_or_default(),
            files_written: result.as_ref().map(|result| result.files_written.clone()).unwrap_or_default(),
            displayed: open.stream.is_some_and(|stream| has_figure(reader, &stream)),
        });
    }

    /// The verdict on every cell's latest run. Files that were read are compared with what they are now.
    pub(crate) fn view(
        &mut self,
        session: &SessionId,
        policy: Policy,
        workspace: Option<&Path>,
    ) -> StaleView {
        let latest: Vec<u32> = (0..self.runs.len() as u32)
            .filter(|run| self.project.latest(&self.runs[*run as usize].cell) == Some(*run))
            .collect();
        self.compare_files(latest.iter().copied(), workspace);
        let verdicts = self.project.verdicts(policy);
        let mut cells: Vec<(u32, u32)> = latest
            .into_iter()
            .map(|run| (self.project.position(&self.runs[run as usize].cell).unwrap_or(u32::MAX), run))
            .collect();
        cells.sort_unstable();
        let cells = cells.into_iter().filter_map(|(_, run)| {
            let ran = self.runs.get(run as usize)?;
            let verdict = self.verdict_of(run, &verdicts)?;
            Some(CellVerdict {
                cell: ran.cell.clone(),
                ticket: ran.ticket.to_string(),
                language: ran.language.as_str().to_owned(),
                label: ran.label.clone(),
                verdict,
            })
        });
        StaleView { session: session.to_string(), policy: word(&policy), cells: cells.collect() }
    }

    /// The verdict on one run.
    pub(crate) fn verdict(&mut self, ticket: TicketId, workspace: Option<&Path>) -> Option<VerdictView> {
        let run = self.run(ticket)?;
        let verdicts = match (self.judged.clone(), self.compare_files([run], workspace)) {
            (Some(judged), false) => judged,
            (_, changed) => {
                let verdicts: Arc<[Judgement]> = self.project.verdicts(Policy::DocumentOrder).into();
                if !changed {
                    self.judged = Some(Arc::clone(&verdicts));
                }
                verdicts
            }
        };
        self.verdict_of(run, &verdicts)
    }

    /// Which run a ticket was.
    pub(crate) fn run(&self, ticket: TicketId) -> Option<u32> {
        self.places.get(&ticket).copied()
    }

    fn verdict_of(&self, run: u32, verdicts: &[Judgement]) -> Option<VerdictView> {
        let judgement = verdicts.get(run as usize)?;
        let path = agarose_analysis::stale::path_from(verdicts, run);
        let path: Vec<CauseView> = path.iter().map(|(_, cause)| self.cause(cause)).collect();
        Some(VerdictView {
            verdict: word(&judgement.verdict),
            cause: judgement.cause.as_ref().map(|cause| self.cause(cause)),
            path: if path.len() > 1 { path } else { Vec::new() },
        })
    }

    fn cause(&self, cause: &Cause) -> CauseView {
        let (through, what, key) = match &cause.through {
            Through::Name(name) => ("name", Some(name.clone()), None),
            Through::Channel(channel, key) => ("channel", Some(word(channel)), key.clone()),
            Through::Unknown(code) => ("unknown", Some(word(code)), None),
            Through::Producer(cell) => ("producer", Some(cell.clone()), None),
            Through::UpstreamEdited(cell) => ("upstream_edited", Some(cell.clone()), None),
            Through::UpstreamRemoved(cell) => ("upstream_removed", Some(cell.clone()), None),
            Through::Itself => ("itself", None, None),
        };
        let by = cause.by_run.and_then(|run| self.runs.get(run as usize));
        CauseView {
            through: through.to_owned(),
            what,
            key,
            ticket: by.map(|ran| ran.ticket.to_string()),
            cell: by.map(|ran| ran.cell.clone()),
        }
    }

    /// What an edit of a cell would do.
    pub(crate) fn what_if(&self, cell: &str, facts: &Facts) -> WhatIfView {
        let found = self.project.what_if(cell, facts);
        WhatIfView { cell: cell.to_owned(), stale: found.stale, rerun: found.rerun, cycle: found.cycle }
    }

    /// What was seen of a run, for its policies.
    pub(crate) fn seen(&self, run: usize, workspace: Option<&Path>) -> Seen {
        let Some(ran) = self.runs.get(run) else { return Seen::default() };
        let later = self.runs.get(run.saturating_add(1)..).unwrap_or_default();
        let written: BTreeSet<&String> = ran.facts.writes.keys().collect();
        let same = later.iter().find(|other| other.cell == ran.cell && other.word == Word::Completed);
        Seen {
            completed: ran.word == Word::Completed,
            kept: ran.displayed || !ran.files_written.is_empty(),
            read_later: later.iter().any(|other| other.facts.reads.keys().any(|name| written.contains(name))),
            retried: ran.word == Word::Failed && same.is_some(),
            written_outside: ran
                .files_written
                .iter()
                .map(|file| file.path.clone())
                .filter(|path| is_outside(path, workspace))
                .collect(),
            secrets: ran
                .files_read
                .iter()
                .filter(|file| file.masked == Some(true))
                .map(|file| file.path.clone())
                .collect(),
        }
    }

    /// Tells the project which runs read files that are not any more what they read, and says whether any did.
    fn compare_files(&mut self, runs: impl IntoIterator<Item = u32>, workspace: Option<&Path>) -> bool {
        let mut now: BTreeMap<&str, Option<String>> = BTreeMap::new();
        let mut changed = BTreeMap::new();
        for run in runs {
            for file in &self.runs[run as usize].files_read {
                if let Some(sha256) = &file.sha256 {
                    let found = now.entry(&file.path).or_insert_with(|| digest_of(&file.path, workspace));
                    if found.as_ref() != Some(sha256) {
                        changed.entry(run).or_insert_with(|| file.path.clone());
                    }
                }
            }
        }
        let any = !changed.is_empty();
        self.project.files_changed(changed);
        any
    }
}

/// Output larger than this is not searched for figures, in bytes.
const SEARCHED: u64 = 16 << 20;

fn has_figure(reader: &Reader, blob: &BlobRef) -> bool {
    if blob.length > SEARCHED {
        return false;
    }
    let bytes = reader.blob(blob).ok().flatten().unwrap_or_default();
    agarose_core::stream::runs(&bytes)
        .filter(|run| run.channel == agarose_core::stream::StreamChannel::Display)
        .any(|run| view::decode_displays(run.bytes).iter().any(view::DisplayFrame::is_figure))
}

/// The SHA-256 of a file as it is now; `None` when it is gone or too large to look at.
pub(crate) fn digest_of(path: &str, workspace: Option<&Path>) -> Option<String> {
    let path = workspace.map_or_else(|| Path::new(path).to_path_buf(), |base| base.join(path));
    let mut file = std::fs::File::open(path).ok()?;
    if file.metadata().ok()?.len() > HASHED {
        return None;
    }
    let mut bytes = Vec::new();
    std::io::Read::read_to_end(&mut file, &mut bytes).ok()?;
    Some(agarose_analysis::sha256(&bytes))
}

/// Whether a path leads out of where the cells run.
fn is_outside(path: &str, workspace: Option<&Path>) -> bool {
    let path = Path::new(path);
    match workspace {
        Some(base) if path.is_absolute() => !path.starts_with(base),
        _ => path.is_absolute() || path.components().any(|part| part == std::path::Component::ParentDir),
    }
}

/// The cell that a recovery ticket repeats.
fn restored_cell(queued: &TicketQueued) -> Option<String> {
    if queued.owner.kind != OwnerKind::Recovery {
        return None;
    }
    let metadata: serde_json::Value = serde_json::from_str(queued.metadata.as_deref()?).ok()?;
    Some(metadata.get("restores")?.get("cell")?.as_str()?.to_owned())
}

fn evidence(names: NamesSeen) -> Evidence {
    let known = names.known.into_iter().map(|(name, value)| (name, Value::Known(value)));
    let unknown = names.unknown.into_iter().map(|name| (name, Value::Unknown));
    let unbound = names.unbound.into_iter().map(|name| (name, Value::Unbound));
    Evidence { number: names.number, values: known.chain(unknown).chain(unbound).collect() }
}

fn status(word: Word, facts: &Facts, error: Option<&str>) -> Status {
    use agarose_analysis::Code;
    match word {
        Word::Completed => Status::Completed,
        Word::Failed => {
            let rejected = matches!(error, Some("SyntaxError" | "IndentationError" | "TabError"))
                && facts
                    .uncertain
                    .iter()
                    .any(|reason| matches!(reason.code, Code::SyntaxError | Code::SilentSyntax));
            if rejected { Status::Rejected } else { Status::Failed }
        }
        Word::Interrupted | Word::Cancelled | Word::TimedOut | Word::Refused | Word::Lost => {
            Status::Interrupted
        }
    }
}

/// Whose run it is.
pub(crate) const fn origin(kind: OwnerKind) -> Origin {
    match kind {
        OwnerKind::System | OwnerKind::Lifecycle => Origin::System,
        OwnerKind::Recovery => Origin::Recovery,
        OwnerKind::Agent | OwnerKind::UserRepl => Origin::Work,
    }
}

/// The first line of code, for people.
fn label(source: &str) -> String {
    let code = source.lines().map(str::trim).find(|line| !line.is_empty() && !line.starts_with('#'));
    let line = code.or_else(|| source.lines().next()).unwrap_or("");
    line.chars().take(60).collect()
}

/// The stable word of a value that serialises as one.
pub(crate) fn word(value: &impl Serialize) -> String {
    serde_json::to_value(value).ok().and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
}

/// Whether a verdict says that the result is as good as new.
#[must_use]
pub fn is_fresh(verdict: &str) -> bool {
    verdict == word(&Verdict::Fresh) || verdict == word(&Verdict::Superseded)
}
