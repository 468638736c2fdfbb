//! `audit`: who asked for what, and what was done by force.

use agarose_core::{Event, Owner};

use crate::{
    args::AuditArgs,
    clock::rfc3339,
    error::LogError,
    json::Json,
    log::{Log, Moment},
    say,
    screen::Screen,
    select::Selection,
    words::{capital, who},
};

/// Who did it, and in which column it belongs; nothing for an event that is nobody's act.
fn act(event: &Event) -> Option<(Option<Owner>, &'static str)> {
    let system = || Some(Owner::system());
    Some(match event {
        Event::DaemonStarted(_) | Event::DaemonStopping { .. } => (system(), "daemon"),
        Event::SessionPaused { by, .. } | Event::AllPaused { by } => (Some(by.clone()), "pause"),
        Event::SessionResumed { by, .. } | Event::AllResumed { by } => (Some(by.clone()), "resume"),
        // The log does not say who closed it: the cancellations beside it do.
        Event::SessionClosed { .. } => (None, "close"),
        Event::TicketQueued(queued) => (Some(queued.owner.clone()), "submit"),
        Event::CancelRequested { by, .. } => (Some(by.clone()), "cancel"),
        Event::KernelStopRequested { .. } => (system(), "stop"),
        Event::KillRequested { .. } | Event::GroupStopped { .. } => (system(), "kill"),
        Event::PermissionProposed { .. } => (None, "permission"),
        Event::PermissionDecided { by, .. } => (Some(by.clone()), "permission"),
        Event::PermissionExpired { .. } => (system(), "permission"),
        Event::RestorePublished { .. } => (system(), "restore"),
        Event::HostCallStarted(_) | Event::HostCallAnswered { .. } => (None, "host call"),
        Event::CapabilityGranted { .. }
        | Event::CapabilityConsumed { .. }
        | Event::CapabilityReported { .. }
        | Event::CapabilityVoided { .. } => (None, "bash"),
        Event::OutputSubmitted { .. } => (None, "submission"),
        Event::ArtifactSaved { .. } => (None, "artifact"),
        Event::CellAnalysed { .. }
        | Event::RestoreStarted { .. }
        | Event::RestoreEnded { .. }
        | Event::SessionOpened { .. }
        | Event::SessionRemoved { .. }
        | Event::TicketAdmitted { .. }
        | Event::TicketEnded(_)
        | Event::CellClosed { .. }
        | Event::KernelStarting { .. }
        | Event::KernelReady { .. }
        | Event::KernelStartFailed { .. }
        | Event::KernelGone { .. }
        | Event::KernelReattached { .. }
        | Event::ExecuteRequested { .. }
        | Event::ExecuteAcknowledged { .. }
        | Event::ResultReceived { .. }
        | Event::OutputKept { .. }
        | Event::ActivityNoted { .. }
        | Event::LadderStarted { .. }
        | Event::InterruptRequested { .. }
        | Event::InterruptAnswered { .. }
        | Event::LadderEnded { .. }
        | Event::HostCallDispatched { .. }
        | Event::HostCallCancelRequested { .. }
        | Event::CellDraining { .. }
        | Event::DocumentWritten { .. }
        | Event::OutputObserved { .. } => return None,
    })
}

/// Runs `audit`.
pub(crate) fn run(log: &Log, args: &AuditArgs, screen: &mut Screen<'_>) -> Result<u8, LogError> {
    let selection = Selection::new(&args.filter, &[])?;
    for moment in selection.walk(log) {
        let moment: Moment = moment?;
        let event = moment.event()?;
        let Some((by, act)) = act(&event) else { continue };
        if screen.json {
            let mut json = Json::object([
                ("act", Json::text(act)),
                ("by", Json::maybe(by.as_ref(), Json::of)),
                ("text", Json::Text(say::event(&event))),
            ]);
            if let (Json::Object(fields), Json::Object(more)) = (&mut json, moment.json()) {
                fields.extend(more);
            }
            screen.value(&json)?;
        } else {
            let ticket = moment.ticket().map(|ticket| format!("  ({ticket})")).unwrap_or_default();
            screen.line(&format!(
                "{:>7}  {}  {act:<10}  {:<20}  {}{ticket}",
                moment.sequence,
                rfc3339(moment.stamp().wall),
                by.as_ref().map_or_else(|| "-".to_owned(), who),
                capital(&say::event(&event))
            ))?;
        }
    }
    Ok(0)
}
