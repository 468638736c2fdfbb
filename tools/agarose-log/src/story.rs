//! What a log says of one ticket, gathered event by event: the base of every listing and of `why`.

use agarose_core::{
    BlobRef, EndCause, Event, Executed, Generation, Lease, Owner, SessionId, Stamp, TicketId, Word,
    event::{Output, ResultStatus, TicketQueued},
    ticket::Work,
    watchdog::{Cause, Verdict},
};

use crate::{clock::rfc3339, json::Json};

/// A place in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) sequence: u64,
    pub(crate) at: Stamp,
}

/// Somebody asked for it to be stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CancelNote {
    pub(crate) place: Place,
    pub(crate) by: Owner,
    pub(crate) reason: String,
}

/// It was sent to a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sent {
    pub(crate) place: Place,
    pub(crate) lease: Lease,
    pub(crate) variables_lost: Option<Generation>,
}

/// What its process returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ResultNote {
    pub(crate) status: ResultStatus,
    pub(crate) record: BlobRef,
    pub(crate) place: Place,
}

/// The attempt to stop it that the watchdog made last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stopping {
    pub(crate) cause: Cause,
    pub(crate) since: Place,
    pub(crate) verdict: Option<Verdict>,
    pub(crate) killed: Option<Place>,
}

/// Its last word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct End {
    pub(crate) place: Place,
    pub(crate) word: Word,
    pub(crate) executed: Executed,
    pub(crate) cause: EndCause,
}

/// Everything that the log says of one ticket. Parts are missing while they have not happened, and
/// for ever where the log begins later or is damaged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Story {
    pub(crate) ticket: TicketId,
    pub(crate) session: Option<SessionId>,
    pub(crate) first: Place,
    pub(crate) last: Place,
    pub(crate) request: Option<(Place, Box<TicketQueued>)>,
    pub(crate) admitted: Option<Place>,
    pub(crate) cancel: Option<CancelNote>,
    pub(crate) sent: Option<Sent>,
    pub(crate) began: Option<Place>,
    pub(crate) result: Option<ResultNote>,
    pub(crate) output: Option<Output>,
    pub(crate) stopping: Option<Stopping>,
    pub(crate) end: Option<End>,
}

impl Story {
    /// A story of which nothing is known but that an event at this place speaks of it.
    pub(crate) const fn new(ticket: TicketId, place: Place) -> Self {
        Self {
            ticket,
            session: None,
            first: place,
            last: place,
            request: None,
            admitted: None,
            cancel: None,
            sent: None,
            began: None,
            result: None,
            output: None,
            stopping: None,
            end: None,
        }
    }

    /// Adds an event that speaks of this ticket.
    pub(crate) fn add(&mut self, place: Place, event: &Event) {
        self.last = place;
        if self.session.is_none() {
            self.session = event.session().cloned();
        }
        match event {
            Event::TicketQueued(queued) => self.request = Some((place, queued.clone())),
            Event::TicketAdmitted { .. } => self.admitted = Some(place),
            Event::CancelRequested { by, reason, .. } => {
                let note = CancelNote { place, by: by.clone(), reason: reason.clone() };
                self.cancel.get_or_insert(note);
            }
            Event::TicketEnded(ended) => {
                self.end = Some(End {
                    place,
                    word: ended.word,
                    executed: ended.executed,
                    cause: ended.cause.clone(),
                });
            }
            Event::ExecuteRequested { lease, variables_lost, .. } => {
                self.sent = Some(Sent { place, lease: *lease, variables_lost: *variables_lost });
            }
            Event::ExecuteAcknowledged { .. } => self.began = Some(place),
            Event::ResultReceived { status, record, output, .. } => {
                self.result = Some(ResultNote { status: *status, record: *record, place });
                self.output = Some(output.clone());
            }
            Event::OutputKept { output, .. } => self.output = Some(output.clone()),
            Event::LadderStarted { cause, .. } => {
                self.stopping = Some(Stopping { cause: *cause, since: place, verdict: None, killed: None });
            }
            Event::InterruptAnswered { verdict, .. } => {
                if let Some(stopping) = &mut self.stopping {
                    stopping.verdict = Some(verdict.clone());
                }
            }
            Event::KillRequested { .. } => {
                if let Some(stopping) = &mut self.stopping {
                    stopping.killed = Some(place);
                }
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
            | Event::GroupStopped { .. }
            | Event::LadderEnded { .. }
            | Event::PermissionProposed { .. }
            | Event::PermissionDecided { .. }
            | Event::PermissionExpired { .. }
            | Event::CellAnalysed { .. }
            | Event::RestoreStarted { .. }
            | Event::RestorePublished { .. }
            | Event::RestoreEnded { .. }
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
            | Event::OutputObserved { .. } => {}
        }
    }

    /// The request, if the log has it.
    pub(crate) fn queued(&self) -> Option<&TicketQueued> {
        self.request.as_ref().map(|(_, queued)| &**queued)
    }

    /// What its code is called, if it was given a name.
    pub(crate) fn name(&self) -> Option<&str> {
        match &self.queued()?.work {
            Work::Cell { name, .. } => name.as_deref(),
            Work::StopKernel => Some("stop the process"),
            Work::RestartKernel => Some("restart the process"),
        }
    }

    /// The word that `show` uses: `queued`, `running` or the last one.
    pub(crate) fn state(&self) -> &'static str {
        match (&self.end, self.admitted.is_some() || self.sent.is_some()) {
            (Some(end), _) => end.word.as_str(),
            (None, true) => "running",
            (None, false) => "queued",
        }
    }

    /// How long it ran, in milliseconds on the data directory's clock.
    pub(crate) fn ran(&self) -> Option<u64> {
        let began = self.began.or_else(|| self.sent.map(|sent| sent.place))?;
        Some(self.end.as_ref()?.place.at.mono.saturating_sub(began.at.mono))
    }

    /// How long it waited in the queue, in milliseconds on the data directory's clock.
    pub(crate) fn waited(&self) -> Option<u64> {
        let (queued, _) = self.request.as_ref()?;
        let until = self.admitted.or_else(|| self.end.as_ref().map(|end| end.place))?;
        Some(until.at.mono.saturating_sub(queued.at.mono))
    }

    /// One line of `ls tickets --json`; the names are those of `agarose show --json`.
    pub(crate) fn json(&self) -> Json {
        let queued = self.queued();
        let mut json = Json::object([
            ("ticket", Json::text(self.ticket)),
            ("session", Json::maybe(self.session.as_ref(), Json::text)),
            ("owner", Json::maybe(queued, |queued| Json::of(&queued.owner))),
            ("language", Json::maybe(queued, |queued| Json::text(queued.language))),
            ("state", Json::text(self.state())),
            ("executed", Json::maybe(self.end.as_ref(), |end| Json::text(end.executed.as_str()))),
            ("cause", Json::maybe(self.end.as_ref(), |end| Json::of(&end.cause))),
            ("generation", Json::maybe(self.sent, |sent| Json::text(sent.lease.generation))),
            ("queued_at", Json::maybe(self.request.as_ref(), |(place, _)| at(*place))),
            ("admitted_at", Json::maybe(self.admitted, at)),
            ("started_at", Json::maybe(self.began, at)),
            ("finished_at", Json::maybe(self.end.as_ref(), |end| at(end.place))),
            ("waited_ms", Json::maybe(self.waited(), Json::Number)),
            ("ran_ms", Json::maybe(self.ran(), Json::Number)),
        ]);
        if let Some(cancel) = &self.cancel {
            let cancel = Json::object([
                ("requested", Json::Bool(true)),
                ("by", Json::of(&cancel.by)),
                ("reason", Json::text(&cancel.reason)),
                ("at", at(cancel.place)),
            ]);
            json.push("cancel", cancel);
        }
        if let Some(output) = &self.output {
            json.push("stdout", counters(&output.stdout));
            json.push("stderr", counters(&output.stderr));
        }
        json.push("first_seq", Json::Number(self.first.sequence));
        json.push("last_seq", Json::Number(self.last.sequence));
        json
    }
}

fn at(place: Place) -> Json {
    Json::Text(rfc3339(place.at.wall))
}

/// Counters in the four words of the contract.
pub(crate) fn counters(counters: &agarose_core::Counters) -> Json {
    Json::object([
        ("seen", Json::Number(counters.seen())),
        ("retained", Json::Number(counters.retained())),
        ("dropped", Json::Number(counters.dropped())),
        ("truncated", Json::Bool(counters.truncated())),
        ("unit", Json::of(&counters.unit())),
    ])
}
