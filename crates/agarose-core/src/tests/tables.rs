//! The tables in the machines' doc comments are true and whole: histories make every transition
//! that a table promises, and none that it does not.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    format,
    string::{String, ToString},
    vec::Vec,
};

use proptest::{
    strategy::{Strategy, ValueTree},
    test_runner::{Config, RngAlgorithm, TestRng, TestRunner},
};

use super::random::{Focus, History, history};
use crate::{cell::Phase, event::Event, host_call::Standing, session::Session, watchdog::Rung, world::World};

/// A transition: state, event, next state.
type Step = (String, String, String);

/// The steps that the first table of a source's doc comment promises.
fn promised(source: &str) -> BTreeSet<Step> {
    let rows = source.lines().filter_map(|line| line.strip_prefix("//! | "));
    let mut steps = BTreeSet::new();
    for row in rows.skip(1) {
        let columns: Vec<&str> = row.trim_end_matches('|').split('|').map(str::trim).collect();
        let [states, events, next] = columns[..] else { panic!("not a row: {row}") };
        // Backquotes are events, and words outside them explain.
        let events: Vec<&str> = events.split('`').skip(1).step_by(2).collect();
        for state in states.split(", ") {
            for event in events.iter().take(if row.contains(", then `") { 1 } else { events.len() }) {
                steps.insert((state.to_string(), event.to_string(), next.to_string()));
            }
        }
    }
    steps
}

/// Where the machines of a session stand; the name of the machine comes first.
fn stand(session: &Session) -> BTreeMap<String, &'static str> {
    let mut stand = BTreeMap::new();
    for (language, slot) in &session.slots {
        stand.insert(format!("slot {language}"), slot.as_str());
    }
    for ticket in session.tickets.keys() {
        let is_active = session.active.as_ref().is_some_and(|cell| cell.ticket == *ticket);
        stand.insert(format!("ticket {ticket}"), if is_active { "running" } else { "queued" });
    }
    if let Some(cell) = &session.active {
        let phase = match &cell.phase {
            Phase::Admitted => "admitted",
            Phase::StartAwaited => "start awaited",
            Phase::StopAwaited => "stop awaited",
            Phase::Underway(run) if run.acknowledged.is_some() => "begun",
            Phase::Underway(_) => "under way",
            Phase::Draining(_) => "draining",
        };
        stand.insert(format!("cell {}", cell.ticket), phase);
    }
    for (call, open) in &session.calls {
        let standing = match open.standing {
            Standing::Open => "open",
            Standing::Asked(_) => "asked",
            Standing::Dispatched { .. } => "dispatched",
        };
        stand.insert(format!("call {} {call}", open.lease), standing);
    }
    for id in session.capabilities.keys() {
        let standing = if session.capabilities[id].consumed { "consumed" } else { "granted" };
        stand.insert(format!("capability {id:?}"), standing);
    }
    if let Some(run) = session.run() {
        let rung = match &run.rung {
            Rung::Waiting => "waiting",
            Rung::Interrupting { .. } => "interrupting",
            Rung::Grace { .. } => "grace",
            Rung::Killing { .. } => "killing",
            Rung::Stopped { replacement: None, .. } => "stopped",
            Rung::Stopped { replacement: Some(_), .. } => "replacing",
        };
        stand.insert(format!("rung {}", run.lease.ticket), rung);
    }
    stand
}

/// Every step that a history made, by machine.
fn made(history: &History, steps: &mut BTreeMap<String, BTreeSet<Step>>) {
    let mut world = World::new();
    for (at, event) in &history.drive.log {
        let id = event.session().cloned();
        let of = |world: &World| {
            id.as_ref().and_then(|id| world.sessions().get(id)).map(stand).unwrap_or_default()
        };
        let before = of(&world);
        world.apply(*at, event);
        let after = of(&world);
        let machines: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
        for machine in machines {
            let kind = machine.split(' ').next().unwrap_or_default();
            let nowhere = |ended| match kind {
                "slot" => "absent",
                "cell" | "capability" if ended => "gone",
                "cell" => "gone",
                "call" if ended => "answered",
                "call" | "capability" => "–",
                "rung" => "ended",
                _ if ended => "ended",
                _ => "absent",
            };
            let from = before.get(machine).copied().unwrap_or_else(|| nowhere(false));
            let to = after.get(machine).copied().unwrap_or_else(|| nowhere(true));
            // A rung comes into being with its cell, and a removed session takes everything with it.
            let is_birth = kind == "rung" && from == "ended";
            // Begun again over a bare interrupt: from a rung to the same.
            let is_again = (kind == "rung" && event.name() == "LadderStarted")
                || (kind == "call" && event.name() == "HostCallDispatched" && names(event, machine));
            if (from != to || is_again) && !is_birth {
                let step = (from.to_string(), event.name().to_string(), to.to_string());
                steps.entry(kind.to_string()).or_default().insert(step);
            }
        }
    }
}

/// Whether an event about a call is about the call of this machine.
fn names(event: &Event, machine: &str) -> bool {
    matches!(event, Event::HostCallDispatched { lease, call, .. } if machine == format!("call {lease} {call}"))
}

#[test]
fn the_tables_in_the_doc_comments_are_true_and_whole() {
    let mut runner =
        TestRunner::new_with_rng(Config::default(), TestRng::deterministic_rng(RngAlgorithm::ChaCha));
    let mut steps = BTreeMap::new();
    for (focus, histories) in
        [(Focus::Kernels, 150), (Focus::Ladder, 700), (Focus::Calls, 900), (Focus::Everything, 150)]
    {
        let strategy = history(focus);
        for _ in 0..histories {
            let ops = strategy.new_tree(&mut runner).unwrap().current();
            let mut history = History::live(&ops).unwrap_or_else(|broken| panic!("{broken}"));
            made(&history, &mut steps);
            history.heal().unwrap_or_else(|broken| panic!("{broken}"));
            made(&history, &mut steps);
        }
    }
    for (machine, source) in [
        ("slot", include_str!("../slot.rs")),
        ("cell", include_str!("../cell.rs")),
        ("rung", include_str!("../watchdog.rs")),
        ("ticket", include_str!("../ticket.rs")),
        ("call", include_str!("../host_call.rs")),
        ("capability", include_str!("../capability.rs")),
    ] {
        let promised = promised(source);
        let made = &steps[machine];
        let (missing, unheard): (Vec<_>, Vec<_>) =
            (promised.difference(made).collect(), made.difference(&promised).collect());
        assert!(
            missing.is_empty() && unheard.is_empty(),
            "{machine}: never made {missing:#?}, not in its table {unheard:#?}"
        );
    }
}
