//! A namespace that is built anew: planned from the recorded facts, replayed in a candidate session through
//! ordinary tickets, compared, and published once.
//!
//! The log has the plan before the first ticket and the word after the last. Every ticket has a key that
//! follows from the restore, so whoever goes on after a crash asks for the same tickets again and gets
//! those that are there. Until the kernels are exchanged the session has the kernel that it had.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    time::Duration,
};

use agarose_analysis::{
    Access, Channel,
    policy::{self, Replay},
};
use agarose_core::{
    Command, Event, Language, Owner, OwnerKind, Refusal, SessionId, TicketId, Word, event::RestoreOutcome,
    session::Restore, slot::Slot,
};
use serde::{Deserialize, Serialize};

use crate::{
    Asked, Engine, SubmitRequest, clock,
    error::RequestError,
    internal,
    stale::{self, Projection},
    view::TicketView,
};

/// How long a session that starts or stops a kernel is waited for before a restore gives up on it.
const PATIENCE: Duration = Duration::from_secs(60);

/// What a restore is asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RestoreRequest {
    /// The language; absent for the one that ran last.
    pub language: Option<Language>,
    /// The names that are wanted; empty for all.
    pub names: Vec<String>,
    /// Plan it and do nothing.
    pub dry_run: bool,
}

/// A restore: what is planned, and what came of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RestoreView {
    /// Whose namespace.
    pub session: String,
    /// Which interpreter's.
    pub language: String,
    /// The session in which it is built; absent in a dry run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub candidate: Option<String>,
    /// `complete`, `partial` or `failed`; in a dry run, what it could come to at best.
    pub outcome: String,
    /// Whether nothing was done.
    pub dry_run: bool,
    /// Whether the session got the candidate's kernel.
    pub published: bool,
    /// Why it is not complete, in sentences.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<String>,
    /// The names that are there again.
    pub restored: Vec<String>,
    /// The names that are not, with the reason of each.
    pub missing: Vec<MissingName>,
    /// What is run, in order.
    pub steps: Vec<StepView>,
}

/// A name that was not rebuilt.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MissingName {
    /// It.
    pub name: String,
    /// Why not.
    pub reason: String,
}

/// A past run and its repetition.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepView {
    /// The run.
    pub ticket: String,
    /// Its cell.
    pub cell: String,
    /// Its first line.
    pub label: String,
    /// `safe`, `conditional` or `never`.
    pub policy: String,
    /// Why.
    pub reasons: Vec<String>,
    /// `planned`, `done`, `differs`, `failed`, `refused` or `blocked`.
    pub state: String,
    /// What stands behind the state, when it is not done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub because: Option<String>,
    /// The ticket that repeats it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replay: Option<String>,
}

/// The plan, as it is in the log.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Plan {
    /// How many cells the session had sent.
    ordinal: u64,
    /// Whether there was a kernel to lose.
    had_kernel: bool,
    names: Vec<String>,
    missing: Vec<MissingName>,
    steps: Vec<PlannedStep>,
    reasons: Vec<String>,
}

/// A step of a plan.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct PlannedStep {
    ticket: String,
    cell: String,
    label: String,
    policy: Replay,
    reasons: Vec<String>,
    /// Why it must not be repeated, when it must not.
    refused: Option<String>,
    /// Why a repetition need not give the same, when nothing shows that it does.
    #[serde(default)]
    unrepeatable: Option<String>,
    /// The steps before it whose results it needs.
    needs: Vec<usize>,
    /// The wanted names that it makes.
    makes: Vec<String>,
}

impl Engine {
    /// Builds a namespace anew, and says how much of it is there again.
    ///
    /// # Errors
    /// There is no such session, it is busy or being restored already, or the disk says no.
    pub async fn restore(
        &self,
        session: SessionId,
        request: RestoreRequest,
    ) -> Result<RestoreView, RequestError> {
        let (language, plan) = self.plan_restore(&session, &request).await?;
        if request.dry_run {
            return Ok(planned(&session, language, &plan));
        }
        let fresh = clock::fresh_ticket();
        let candidate = SessionId::new(&format!("restore-{fresh}")).map_err(|error| internal(&error))?;
        let (plan_blob, attachments) = self.keep(&plan).await?;
        let start = Command::StartRestore {
            session: session.clone(),
            language,
            candidate: candidate.clone(),
            plan: plan_blob,
        };
        self.ask(start, attachments).await?;
        let restore = Restore { candidate, plan: plan_blob, published: None };
        // Whoever asked may go away; what was begun is brought to its end all the same.
        let engine = self.clone();
        let driven = tokio::spawn(async move { engine.drive(session, language, restore).await });
        driven.await.map_err(|error| internal(&error))?
    }

    /// Stops a restore: what runs in its candidate is cancelled, and the session keeps its kernel.
    ///
    /// # Errors
    /// The session is not being restored, or the disk says no.
    pub async fn cancel_restore(&self, session: SessionId, by: Owner) -> Result<(), RequestError> {
        let name = session.clone();
        let open: Vec<SessionId> = self
            .query(move |world| {
                let restores = world.sessions().get(&name).map(|session| session.restores.values());
                restores.into_iter().flatten().map(|restore| restore.candidate.clone()).collect()
            })
            .await?;
        if open.is_empty() {
            return Err(Refusal::NoRestore { session }.into());
        }
        for candidate in open {
            match self.close_session(candidate, by.clone(), "the restore was stopped".to_owned(), false).await
            {
                // It has not begun: the first ticket will find nothing to run for.
                Ok(()) | Err(RequestError::Refused(Refusal::NoSuchSession { .. })) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Goes on with the restores that an earlier daemon had begun.
    pub(crate) async fn resume_restores(&self) {
        let open: Result<Vec<(SessionId, Language, Restore)>, _> = self
            .query(|world| {
                let of = |session: &agarose_core::session::Session| {
                    let id = session.id.clone();
                    let restores = session.restores.clone();
                    restores.into_iter().map(move |(language, restore)| (id.clone(), language, restore))
                };
                world.sessions().values().flat_map(of).collect()
            })
            .await;
        for (session, language, restore) in open.unwrap_or_default() {
            let engine = self.clone();
            tokio::spawn(async move {
                let candidate = restore.candidate.clone();
                if let Err(error) = engine.drive(session, language, restore).await {
                    tracing::error!(%candidate, %error, "a restore could not be brought to its end");
                }
            });
        }
    }

    async fn plan_restore(
        &self,
        session: &SessionId,
        request: &RestoreRequest,
    ) -> Result<(Language, Plan), RequestError> {
        let (busy, ordinal, kernels) = self
            .of_session(session, |_, session| {
                let kernels: Vec<Language> = session
                    .slots
                    .iter()
                    .filter(|(_, slot)| !slot.is_absent())
                    .map(|(language, _)| *language)
                    .collect();
                (session.active.is_some(), session.ordinal, kernels)
            })
            .await?;
        if busy {
            let why = "it is running a ticket, whose effect is not known yet".to_owned();
            return Err(Refusal::RestoreNotReady { session: session.clone(), why }.into());
        }
        let workspace = self.workspace(session).await?;
        let (asked, names) = (request.language, request.names.clone());
        let planned = self
            .project(session.clone(), move |projection| {
                let language = asked.or_else(|| projection.runs.last().map(|ran| ran.language))?;
                let mut plan = plan(projection, language, names, workspace.as_deref());
                plan.ordinal = ordinal;
                plan.had_kernel = kernels.contains(&language);
                Some((language, plan))
            })
            .await?;
        planned.ok_or_else(|| RequestError::NotFound { what: format!("run in session {session}") })
    }

    /// Brings a restore that is in the log to its end.
    async fn drive(
        &self,
        session: SessionId,
        language: Language,
        restore: Restore,
    ) -> Result<RestoreView, RequestError> {
        let bytes = self.inner.reader.blob(&restore.plan).map_err(|error| internal(&error))?;
        let plan: Plan =
            serde_json::from_slice(&bytes.unwrap_or_default()).map_err(|error| internal(&error))?;
        let mut view = planned(&session, language, &plan);
        view.dry_run = false;
        view.candidate = Some(restore.candidate.to_string());
        view.published = restore.published.is_some();
        view.restored.clear();
        let replayed = self.replay(&session, language, &restore.candidate, &plan, &mut view).await;
        if let Err(error) = &replayed {
            view.reasons.push(error.to_string());
        }
        let there = match replayed {
            Ok(true) => self.names_there(language, &restore.candidate, &plan).await,
            Ok(false) | Err(_) => Ok(BTreeSet::new()),
        };
        view.reasons.extend(self.environment_differs(&session, language, &restore.candidate, &plan).await?);
        let mut outcome = settle(&plan, &mut view, there);
        if outcome != RestoreOutcome::Failed && !view.published {
            match self.publish(&session, language, plan.ordinal).await {
                Ok(()) => view.published = true,
                Err(error) => {
                    outcome = RestoreOutcome::Failed;
                    view.reasons.push(error.to_string());
                    let restored = std::mem::take(&mut view.restored);
                    let reason = "it was rebuilt, but the candidate was not published".to_owned();
                    let lost = restored.into_iter().map(|name| MissingName { name, reason: reason.clone() });
                    view.missing.extend(lost);
                }
            }
        }
        outcome.as_str().clone_into(&mut view.outcome);
        let (report, attachments) = self.keep(&view).await?;
        let end = Command::EndRestore { session, language, outcome, report };
        self.ask(end, attachments).await?;
        Ok(view)
    }

    /// What is not the same in the interpreter that ran the cells and in the one that repeats them.
    async fn environment_differs(
        &self,
        session: &SessionId,
        language: Language,
        candidate: &SessionId,
        plan: &Plan,
    ) -> Result<Vec<String>, RequestError> {
        let Some(last) = plan.steps.last() else { return Ok(Vec::new()) };
        let last: TicketId = last.ticket.parse().map_err(|error| internal(&error))?;
        let Some((_, lease, _)) = self.read_history(last)?.sent else { return Ok(Vec::new()) };
        let (reader, of) = (self.inner.reader.clone(), session.clone());
        let ready = tokio::task::spawn_blocking(move || {
            reader.session_events(&of, ..).flatten().find_map(|entry| match entry.event.decode() {
                Ok(Event::KernelReady { generation, process, .. }) if generation == lease.generation => {
                    Some(process)
                }
                _ => None,
            })
        });
        // A kernel that came out of a restore was ready in a session that is gone.
        let Some(then) = ready.await.map_err(|error| internal(&error))? else { return Ok(Vec::new()) };
        let (session, candidate) = (session.clone(), candidate.clone());
        let now = self
            .query(move |world| {
                let slot = |id: &SessionId| match world.sessions().get(id)?.slot(language) {
                    Slot::Ready { process, .. } => Some(process.clone()),
                    Slot::Absent { .. } | Slot::Starting { .. } | Slot::Stopping { .. } => None,
                };
                slot(&candidate).or_else(|| slot(&session))
            })
            .await?;
        let Some(now) = now else { return Ok(Vec::new()) };
        let mut differs = Vec::new();
        if then.version != now.version {
            differs.push(format!("the interpreter is {} and was {}", now.version, then.version));
        }
        if then.packages != now.packages {
            differs.push("the packages that the interpreter sees are not what they were".to_owned());
        }
        Ok(differs)
    }

    /// A document on its way into the log.
    async fn keep(
        &self,
        document: &impl Serialize,
    ) -> Result<(agarose_core::BlobRef, Vec<agarose_journal::Attachment>), RequestError> {
        let bytes = serde_json::to_vec(document).map_err(|error| internal(&error))?;
        let mut attachments = Vec::new();
        let blob = crate::kernels::store(&self.inner.reader, bytes, &mut attachments)
            .await
            .map_err(|error| RequestError::not_stored(&error))?;
        Ok((blob, attachments))
    }

    /// Runs what may be run, in order; says whether anything was.
    async fn replay(
        &self,
        session: &SessionId,
        language: Language,
        candidate: &SessionId,
        plan: &Plan,
        view: &mut RestoreView,
    ) -> Result<bool, RequestError> {
        let mut ran = false;
        for (at, step) in plan.steps.iter().enumerate() {
            let blocked = unmet(step, &view.steps, stands)
                .map(|needed| format!("it needs {}, which was not repeated", needed.cell));
            let Some(shown) = view.steps.get_mut(at) else { break };
            if let Some(reason) = &step.refused {
                shown.state = "refused".to_owned();
                shown.because = Some(reason.clone());
                continue;
            }
            if let Some(reason) = blocked {
                shown.state = "blocked".to_owned();
                shown.because = Some(reason);
                continue;
            }
            let first: TicketId = step.ticket.parse().map_err(|error| internal(&error))?;
            let (replay, view_now) = self.repeat(session, language, candidate, at, step, first).await?;
            ran = true;
            shown.replay = Some(replay.to_string());
            let before = self.show(first).await?;
            (shown.state, shown.because) = compare(&before, &view_now);
            if shown.state == "done"
                && let Some(reason) = &step.unrepeatable
            {
                shown.state = "differs".to_owned();
                shown.because = Some(format!("{reason}, so nothing shows that it gives the same"));
            }
            if view_now.state == Word::Cancelled.as_str() || view_now.state == Word::Interrupted.as_str() {
                view.reasons.push("the restore was stopped".to_owned());
                for left in view.steps.iter_mut().filter(|step| step.state == "planned") {
                    left.state = "blocked".to_owned();
                    left.because = Some("the restore was stopped".to_owned());
                }
                return Ok(false);
            }
        }
        Ok(ran)
    }

    /// Repeats one run in the candidate; a step that was asked for before is not asked for twice.
    async fn repeat(
        &self,
        session: &SessionId,
        language: Language,
        candidate: &SessionId,
        at: usize,
        step: &PlannedStep,
        first: TicketId,
    ) -> Result<(TicketId, TicketView), RequestError> {
        let history = self.history(first)?;
        let Some((_, queued)) = history.queued else {
            return Err(RequestError::NotFound { what: format!("ticket {first}") });
        };
        let agarose_core::ticket::Work::Cell { source, name } = &queued.work else {
            return Err(RequestError::NotFound { what: format!("cell of ticket {first}") });
        };
        let code = self.inner.reader.blob(source).map_err(|error| internal(&error))?;
        let code =
            code.ok_or_else(|| RequestError::NotFound { what: format!("source of ticket {first}") })?;
        let name = name.clone().or_else(|| Some(step.cell.clone()));
        let asked = Asked::Cell { code, name };
        let mut request = SubmitRequest::new(candidate.clone(), recovery_owner(candidate)?, language, asked);
        request.key = Some(format!("step-{at}"));
        request.timeout = queued.timeouts.start_to_close;
        request.metadata = Some(serde_json::json!({
            "restores": { "session": session.as_str(), "ticket": step.ticket, "cell": step.cell }
        }));
        request.workspace = self.workspace(session).await?;
        let submitted = self.submit(request).await?;
        self.word(submitted.ticket, None).await?;
        Ok((submitted.ticket, self.show(submitted.ticket).await?))
    }

    /// Which of the wanted names the candidate has.
    async fn names_there(
        &self,
        language: Language,
        candidate: &SessionId,
        plan: &Plan,
    ) -> Result<BTreeSet<String>, RequestError> {
        let names = serde_json::to_string(&plan.names).map_err(|error| internal(&error))?;
        let code = match language {
            Language::Python => format!("print(*(name for name in {names} if name in globals()), sep='\\n')"),
            Language::R => {
                let list = names.trim_start_matches('[').trim_end_matches(']');
                // Neither a name of a package, nor a look that would run an active binding.
                format!(
                    "base::cat(base::Filter(function(name) base::exists(name, base::globalenv(), inherits = FALSE), base::c({list})), sep = '\\n')"
                )
            }
        };
        let asked = Asked::Cell { code: code.into_bytes(), name: Some("<names>".to_owned()) };
        let mut request = SubmitRequest::new(candidate.clone(), recovery_owner(candidate)?, language, asked);
        request.key = Some("names".to_owned());
        let submitted = self.submit(request).await?;
        self.word(submitted.ticket, None).await?;
        let shown = self.show(submitted.ticket).await?;
        if shown.state != Word::Completed.as_str() {
            let ended = shown.state;
            return Err(RequestError::Internal {
                message: format!("the names of the candidate could not be listed: that {ended}"),
            });
        }
        Ok(shown.stdout.text.lines().map(str::to_owned).collect())
    }

    /// Gives the session the candidate's kernel, once it stands still.
    async fn publish(
        &self,
        session: &SessionId,
        language: Language,
        ordinal: u64,
    ) -> Result<(), RequestError> {
        let deadline = tokio::time::Instant::now() + PATIENCE;
        loop {
            let mut durable = self.inner.durable.clone();
            durable.borrow_and_update();
            let publish = Command::PublishRestore { session: session.clone(), language, ordinal };
            match self.ask(publish, vec![]).await {
                Ok(_) => return Ok(()),
                Err(RequestError::Refused(refusal @ Refusal::RestoreNotReady { .. })) => {
                    tokio::select! {
                        changed = durable.changed() => if changed.is_err() { return Err(RequestError::Gone) },
                        () = tokio::time::sleep_until(deadline) => return Err(refusal.into()),
                    }
                }
                Err(error) => return Err(error),
            }
        }
    }
}

fn recovery_owner(candidate: &SessionId) -> Result<Owner, RequestError> {
    Owner::new(OwnerKind::Recovery, candidate.as_str()).map_err(|error| internal(&error))
}

/// The plan for some names, or for all that the session has.
fn plan(
    projection: &mut Projection,
    language: Language,
    names: Vec<String>,
    workspace: Option<&Path>,
) -> Plan {
    let names = if names.is_empty() { all_names(projection, language) } else { names };
    let slice =
        projection.project.slice(crate::analysis::analysed_as(language), names.iter().map(String::as_str));
    let places: BTreeMap<u32, usize> =
        slice.steps.iter().enumerate().map(|(at, step)| (step.run, at)).collect();
    let mut seeded = false;
    let steps = slice.steps.iter().filter_map(|step| {
        let ran = projection.runs.get(step.run as usize)?;
        seeded |= uses(ran, Channel::Random, Access::Set);
        let seen = projection.seen(step.run as usize, workspace);
        // A run that a restore made stands for the work that it repeated.
        let replay = policy::replay(&ran.facts, policy::Origin::Work, &seen);
        let refused = (replay.value == Replay::Never)
            .then(|| replay.reasons.join("; "))
            .or_else(|| changed_file(ran, workspace));
        Some(PlannedStep {
            ticket: ran.ticket.to_string(),
            cell: ran.cell.clone(),
            label: ran.label.clone(),
            policy: replay.value,
            reasons: replay.reasons,
            refused,
            unrepeatable: unrepeatable(ran, seeded),
            needs: step.needs.iter().filter_map(|run| places.get(run).copied()).collect(),
            makes: step.makes.iter().cloned().collect(),
        })
    });
    let steps = steps.collect();
    let missing = slice
        .missing
        .iter()
        .map(|name| MissingName { name: name.clone(), reason: "no run of this session made it".to_owned() });
    let mut reasons = Vec::new();
    if slice.uncertain {
        reasons.push("something unknown may have changed what these runs made".to_owned());
    }
    Plan { ordinal: 0, had_kernel: false, names, missing: missing.collect(), steps, reasons }
}

/// The names that the runs bound and did not unbind.
fn all_names(projection: &Projection, language: Language) -> Vec<String> {
    let mut names: BTreeSet<String> = BTreeSet::new();
    for ran in projection.runs.iter().filter(|ran| ran.language == language) {
        for (name, write) in &ran.facts.writes {
            let binds = write.kinds.iter().any(|kind| {
                use agarose_analysis::WriteKind;
                matches!(kind, WriteKind::Bind | WriteKind::Import | WriteKind::Define)
            });
            if binds && (ran.word == Word::Completed || write.certainty < agarose_analysis::Certainty::Must) {
                names.insert(name.clone());
            }
        }
        for name in ran.facts.deletes.keys() {
            names.remove(name);
        }
    }
    names.retain(|name| !name.starts_with(['_', '.']));
    names.into_iter().collect()
}

fn uses(ran: &stale::Ran, channel: Channel, access: Access) -> bool {
    ran.facts.channels.iter().any(|event| event.channel == channel && event.access == access)
}

/// What makes every repetition give something else.
fn unrepeatable(ran: &stale::Ran, seeded: bool) -> Option<String> {
    if uses(ran, Channel::Time, Access::Read) {
        return Some("it reads the clock".to_owned());
    }
    let draws = uses(ran, Channel::Random, Access::Read) || uses(ran, Channel::Random, Access::Write);
    (draws && !seeded).then(|| "it draws random numbers and nothing seeds them".to_owned())
}

/// A file that the run read and that is not any more what it read.
fn changed_file(ran: &stale::Ran, workspace: Option<&Path>) -> Option<String> {
    ran.files_read.iter().find_map(|file| {
        let then = file.sha256.as_ref()?;
        (stale::digest_of(&file.path, workspace).as_ref() != Some(then))
            .then(|| format!("the file {} is not any more what it read", file.path))
    })
}

/// Whether a step was repeated, with whatever result.
fn stands(step: &StepView) -> bool {
    matches!(step.state.as_str(), "done" | "differs")
}

/// The first step that another one needs and that is not met.
fn unmet<'a>(
    step: &PlannedStep,
    steps: &'a [StepView],
    is_met: impl Fn(&StepView) -> bool,
) -> Option<&'a StepView> {
    step.needs.iter().filter_map(|needed| steps.get(*needed)).find(|needed| !is_met(needed))
}

/// A plan for people, as if all of it will be done.
fn planned(session: &SessionId, language: Language, plan: &Plan) -> RestoreView {
    let mut view = RestoreView {
        session: session.to_string(),
        language: language.as_str().to_owned(),
        dry_run: true,
        reasons: plan.reasons.clone(),
        steps: plan
            .steps
            .iter()
            .map(|step| StepView {
                ticket: step.ticket.clone(),
                cell: step.cell.clone(),
                label: step.label.clone(),
                policy: stale::word(&step.policy),
                reasons: step.reasons.clone(),
                state: if step.refused.is_some() { "refused" } else { "planned" }.to_owned(),
                because: step.refused.clone(),
                replay: None,
            })
            .collect(),
        ..RestoreView::default()
    };
    for at in 0..plan.steps.len() {
        let blocked = unmet(&plan.steps[at], &view.steps, |needed| needed.state == "planned")
            .map(|needed| format!("it needs {}, which is not repeated", needed.cell));
        if let Some(reason) = blocked.filter(|_| view.steps[at].state == "planned") {
            view.steps[at].state = "blocked".to_owned();
            view.steps[at].because = Some(reason);
        }
    }
    let all: BTreeSet<String> = plan.names.iter().cloned().collect();
    let mut best = view.clone();
    best.steps.iter_mut().filter(|step| step.state == "planned").for_each(|step| step.state = "done".into());
    settle(plan, &mut best, Ok(all)).as_str().clone_into(&mut view.outcome);
    (view.restored, view.missing) = (best.restored, best.missing);
    view
}

/// The word, from the states of the steps and the names that are there.
fn settle(
    plan: &Plan,
    view: &mut RestoreView,
    there: Result<BTreeSet<String>, RequestError>,
) -> RestoreOutcome {
    let there = match there {
        Ok(there) => there,
        Err(error) => {
            view.reasons.push(error.to_string());
            BTreeSet::new()
        }
    };
    view.restored.clear();
    view.missing.clone_from(&plan.missing);
    let unknown: BTreeSet<&String> = plan.missing.iter().map(|missing| &missing.name).collect();
    for name in plan.names.iter().filter(|name| !unknown.contains(name)) {
        let makers = || plan.steps.iter().zip(&view.steps).filter(|(step, _)| step.makes.contains(name));
        let undone = makers().find(|(_, shown)| !stands(shown));
        let reason = match undone {
            Some((_, shown)) => {
                let why = shown.because.clone().unwrap_or_else(|| "it was not repeated".to_owned());
                Some(format!("{}: {why}", shown.cell))
            }
            None if !there.contains(name) => Some("it is not there after the replay".to_owned()),
            None => None,
        };
        match reason {
            Some(reason) => view.missing.push(MissingName { name: name.clone(), reason }),
            None => view.restored.push(name.clone()),
        }
    }
    let differs = view.steps.iter().any(|step| step.state == "differs");
    match (view.restored.is_empty(), view.missing.is_empty()) {
        (true, _) => RestoreOutcome::Failed,
        (false, true) if !differs && view.reasons.is_empty() => RestoreOutcome::Complete,
        // A kernel that works is not given up for a part of what it has.
        (false, _) if plan.had_kernel => {
            view.reasons.push("the session has a kernel, which is not replaced by a part of it".to_owned());
            RestoreOutcome::Failed
        }
        (false, _) => RestoreOutcome::Partial,
    }
}

/// What a repetition shows beside the run that it repeats.
fn compare(before: &TicketView, now: &TicketView) -> (String, Option<String>) {
    if now.state != before.state {
        let error = now.error.as_ref().map(|error| format!(": {}", error.message)).unwrap_or_default();
        return ("failed".to_owned(), Some(format!("it {} this time{error}", now.state.replace('_', " "))));
    }
    let mut differs = Vec::new();
    if before.stdout.text != now.stdout.text {
        differs.push("what it prints");
    }
    let plain = |view: &TicketView| view.result.as_ref().and_then(|data| data.get("text/plain").cloned());
    if plain(before) != plain(now) {
        differs.push("its value");
    }
    let written = |view: &TicketView| {
        let digests = view.files_written.iter().map(|file| (file.path.clone(), file.sha256.clone()));
        digests.collect::<BTreeMap<_, _>>()
    };
    if written(before) != written(now) {
        differs.push("what it writes");
    }
    if differs.is_empty() {
        ("done".to_owned(), None)
    } else {
        ("differs".to_owned(), Some(format!("{} is not what it was", differs.join(" and "))))
    }
}
