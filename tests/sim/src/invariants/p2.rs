//! P2: no process is started and no signal sent before the event that says so is durable.

use agarose_core::{Effect, Event, Stamp};

/// Whether the durable log holds the fact that obliges to this effect.
pub fn check(log: &[(Stamp, Event)], effect: &Effect) -> Result<(), String> {
    let intends = |event: &Event| match (effect, event) {
        (Effect::StartKernel { generation, .. }, Event::KernelStarting { generation: of, .. }) => {
            generation == of
        }
        (Effect::SendExecute { lease, .. }, Event::ExecuteRequested { lease: of, .. })
        | (Effect::StopGroup { lease, .. }, Event::KillRequested { lease: of, .. })
        | (
            Effect::ReleaseResult { lease, .. },
            Event::ResultReceived { lease: of, .. } | Event::OutputKept { lease: of, .. },
        ) => lease == of,
        (
            Effect::SendInterrupt { lease, attempt, .. },
            Event::InterruptRequested { lease: of, attempt: number, .. },
        ) => lease == of && attempt == number,
        (
            Effect::StopKernel { generation, .. },
            Event::KernelStopRequested { generation: of, .. }
            | Event::KernelStartFailed { generation: of, .. },
        ) => generation == of,
        _ => false,
    };
    if log.iter().rev().any(|(_, event)| intends(event)) {
        Ok(())
    } else {
        Err(format!("nothing durable says why: {effect:?}"))
    }
}
