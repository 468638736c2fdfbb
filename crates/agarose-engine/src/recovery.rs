//! Starting is recovering: one path for a first start, a clean restart, a crash and a reboot.
//!
//! Open, verify, fold; append the record of this start; look at every kernel that should be there
//! and feed what was found in as commands; then let every session go on. Nothing is submitted again:
//! what a supervisor was asked before is asked again under the same lease, and it knows the answer.

use std::{
    fs,
    os::unix::fs::DirBuilderExt,
    path::Path,
    sync::{Arc, mpsc},
    time::Duration,
};

use agarose_core::{Command, Stamp, event::DaemonStarted};
use agarose_journal::{Journal, Options, Report, StoreReport};
use tokio::sync::{oneshot, watch};

use crate::{
    Engine, Inner,
    clock::{self, Clock},
    config::EngineConfig,
    driver::{Driver, Health, Incoming, Input, Parts, chain},
    error::StartError,
    host::{self, Host},
    kernels::{Kernels, Live, Reattachment, Surroundings},
    snapshot::{self, Base},
    stale::Projections,
};

/// How long a start waits for the supervisors that it found before it takes requests all the same.
const PATIENCE: Duration = Duration::from_secs(15);

pub(crate) async fn start(config: EngineConfig) -> Result<Engine, StartError> {
    let data_dir = config.data_dir.clone();
    let opened = tokio::task::spawn_blocking(move || open(&data_dir)).await;
    let (journal, base, found) = opened
        .map_err(|error| StartError::Fold { path: config.data_dir.clone(), detail: error.to_string() })??;
    let reader = journal.reader();
    let fold_error = |detail| StartError::Fold { path: config.data_dir.clone(), detail };
    let world = snapshot::fold(&reader, &base).map_err(fold_error)?;
    let last = last_stamp(&reader).map_err(fold_error)?;
    let boot = agarose_process::boot_id().unwrap_or_else(|_| "unknown".to_owned());
    let uptime = clock::uptime();
    let clock = Clock::resume(world.clock(), last, &boot, uptime);
    let obligations = world.in_flight();

    let (inbox, received) = mpsc::channel();
    let (durable, durable_seen) = watch::channel(reader.head().sequence);
    let health = Arc::new(Health::default());
    let live = Live::default();
    let host = Host::new(host::Parts {
        runtime: tokio::runtime::Handle::current(),
        loop_inbox: inbox.clone(),
        reader: reader.clone(),
        clock,
        data_dir: config.data_dir.clone(),
        policy: config.host_policy,
    });
    let kernels = Kernels::new(Surroundings {
        host: host.clone(),
        runtime: tokio::runtime::Handle::current(),
        loop_inbox: inbox.clone(),
        reader: reader.clone(),
        clock,
        data_dir: config.data_dir.clone(),
        supervisor: config.supervisor.into(),
        config: Arc::new(config.kernel),
        live: live.clone(),
    });
    let mut driver = Driver::new(Parts {
        world,
        base,
        journal,
        inbox: received,
        clock,
        kernels,
        durable,
        health: Arc::clone(&health),
    });
    driver
        .start(DaemonStarted {
            version: config.version.clone(),
            boot,
            pid: std::process::id(),
            uptime,
            found: found.clone(),
            policy: config.policy,
        })
        .map_err(|detail| StartError::FirstWrite { path: config.data_dir.clone(), detail })?;

    let mut resolutions = Vec::new();
    for obligation in obligations {
        let (resolved, resolution) = oneshot::channel();
        let heartbeat = obligation.lease.and_then(|lease| driver.heartbeat(lease.ticket));
        let workspace =
            driver.world().sessions().get(&obligation.session).and_then(|session| session.workspace.clone());
        driver.kernels().reattach(Reattachment {
            session: obligation.session,
            language: obligation.language,
            generation: obligation.generation,
            lease: obligation.lease,
            heartbeat,
            ready: obligation.ready,
            workspace,
            resolved,
        });
        resolutions.push(resolution);
    }
    let sessions: Vec<_> = driver.world().sessions().keys().cloned().collect();
    std::thread::Builder::new()
        .name("agarose-loop".to_owned())
        .spawn(move || driver.run())
        .map_err(|source| StartError::DataDirectory { path: config.data_dir.clone(), source })?;

    let mut recovery = found;
    let deadline = tokio::time::Instant::now() + PATIENCE;
    for resolution in resolutions {
        match tokio::time::timeout_at(deadline, resolution).await {
            Ok(Ok(told)) => recovery.push(told),
            Ok(Err(_)) => {
                recovery.push("a kernel's connection ended before it said what it found".to_owned())
            }
            Err(_) => recovery.push("a kernel has not answered yet".to_owned()),
        }
    }
    for session in sessions {
        // The loop was started just now and has not been told to leave.
        let _ = inbox.send(Input::Command(Incoming::report(Command::Settle { session })));
    }
    Ok(Engine {
        inner: Arc::new(Inner {
            inbox,
            reader,
            durable: durable_seen,
            live,
            health,
            data_dir: config.data_dir,
            version: config.version,
            default_timeout: config.default_timeout,
            recovery,
            projections: Projections::default(),
            host,
            observers: crate::observe::Observers::default(),
        }),
    })
}

fn open(data_dir: &Path) -> Result<(Journal, Base, Vec<String>), StartError> {
    let unusable = |source| StartError::DataDirectory { path: data_dir.to_path_buf(), source };
    for directory in [data_dir.to_path_buf(), data_dir.join("kernels")] {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(unusable)?;
    }
    let opened = Journal::open(data_dir, &Options::default())
        .map_err(|error| StartError::Open { path: data_dir.to_path_buf(), source: Box::new(error) })?;
    let found = sentences(&opened.report);
    let base = opened.snapshot.map(Base::from).unwrap_or_default();
    Ok((opened.journal, base, found))
}

/// What opening found and did, for people.
fn sentences(report: &Report) -> Vec<String> {
    let mut found = Vec::new();
    if let Some(torn) = &report.cut {
        found.push(format!(
            "a record that nobody had been told of was not written to its end and was cut: {torn:?}"
        ));
    }
    match &report.store {
        StoreReport::Sound | StoreReport::Made => {}
        StoreReport::LostTail { known, had } => found.push(format!(
            "the store had lost events {} to {known}; they were put back from the segments",
            had.saturating_add(1)
        )),
        StoreReport::Mended { events, entries } => found.push(format!(
            "the store had lost {events} events and {entries} entries in its middle; they were put back from the \
             segments"
        )),
        StoreReport::Holes { cause } => found.push(format!(
            "some of the store cannot be read ({cause}), and only it has the oldest events: `agarose log verify \
             --deep` says which are affected"
        )),
        StoreReport::SetAside { path: Some(path), cause } => found.push(format!(
            "the store could not be used ({cause}); it was made anew from the segments, and is kept as {}",
            path.display()
        )),
        StoreReport::SetAside { path: None, cause } => {
            found.push(format!("the store was made anew from the segments: {cause}"));
        }
    }
    if report.fed > 0 {
        let (events, were) = if report.fed == 1 { ("event", "it was") } else { ("events", "they were") };
        found.push(format!("the store lacked {} {events}; {were} put back from the segments", report.fed));
    }
    for (path, why) in &report.passed_over {
        found.push(format!("snapshot {} was passed over: {why}", path.display()));
    }
    if !report.removed.is_empty() {
        found.push(format!("{} unfinished files were removed", report.removed.len()));
    }
    found.extend(report.warnings.iter().cloned());
    found
}

/// The stamp of the last event in the log.
fn last_stamp(reader: &agarose_journal::Reader) -> Result<Stamp, String> {
    let head = reader.head().sequence;
    match reader.events(head..).next() {
        None => Ok(Stamp::default()),
        Some(Ok(entry)) => Ok(entry.event.stamp),
        Some(Err(error)) => Err(chain(&error)),
    }
}
