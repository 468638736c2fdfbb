//! `agarose serve`: the daemon in the foreground.

use std::{
    io::IsTerminal,
    path::{Path, PathBuf},
};

use agarose_engine::{KernelLimits, OrphanGrace, UseIpython, host::policy::Policy};
use clap::Args;
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::{EnvFilter, fmt, layer::SubscriberExt, util::SubscriberInitExt};

use super::{Global, submit};
use crate::{
    daemon::{self, Daemon, Options},
    duration::{Dur, parse_size},
    report::{self, Exit, Problem, note, say},
};

#[derive(Clone, Debug, Args)]
pub(crate) struct ServeArgs {
    /// Stop the kernels too when the daemon stops; else they go on and are found again
    #[arg(long)]
    stop_kernels: bool,
    /// The Python of the kernels [default: the active environment, .venv in the workspace, python3]
    #[arg(long, value_name = "PATH")]
    python: Option<PathBuf>,
    /// The Rscript of the kernels [default: the active conda environment's, the workspace's, Rscript]
    #[arg(long, value_name = "PATH")]
    rscript: Option<PathBuf>,
    /// Whether cells may use IPython's magics: never, where the Python has IPython, or only with it
    #[arg(long, value_name = "WHEN", value_parser = parse_ipython, default_value = "off")]
    ipython: UseIpython,
    /// Where cells run when their session does not say [default: a directory for each session]
    #[arg(long, value_name = "DIR")]
    workspace: Option<PathBuf>,
    /// How long a kernel may stand idle before it is stopped; 0 is for ever [default: 0]
    #[arg(long, value_name = "DUR")]
    kernel_idle: Option<Dur>,
    /// How many tickets may wait in a session [default: 64]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    queue_cap: Option<u64>,
    /// How long a cell may run when nobody says; 0 is for ever [default: 900s]
    #[arg(long, value_name = "DUR")]
    default_timeout: Option<Dur>,
    /// How long kernels go on without a daemon: a duration, 0 for not at all, or inf [default: 15m]
    #[arg(long, value_name = "DUR", value_parser = parse_grace)]
    orphan_grace: Option<OrphanGrace>,
    /// Memory of each kernel, for example 2G
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    memory: Option<u64>,
    /// Processes and threads of each kernel
    #[arg(long, value_name = "N")]
    processes: Option<u64>,
    /// Open files of each process of a kernel
    #[arg(long, value_name = "N")]
    open_files: Option<u64>,
    /// Processor time of each process of a kernel
    #[arg(long, value_name = "DUR")]
    cpu: Option<Dur>,
    /// What cells may ask their host for, in TOML [default: policy.toml in the data directory, if it is there]
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
    /// Niceness of kernels, from 0 to 19
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(0..=19))]
    nice: Option<u8>,
}

fn parse_ipython(text: &str) -> Result<UseIpython, String> {
    match text {
        "auto" => Ok(UseIpython::Auto),
        "on" => Ok(UseIpython::On),
        "off" => Ok(UseIpython::Off),
        _ => Err("it is auto, on or off".to_owned()),
    }
}

fn parse_grace(text: &str) -> Result<OrphanGrace, String> {
    if matches!(text.trim(), "inf" | "never") {
        return Ok(OrphanGrace::Never);
    }
    let grace: Dur =
        text.parse().map_err(|error| format!("{error}; here 0 is not at all, and inf is for ever"))?;
    Ok(OrphanGrace::After(agarose_core::Millis(grace.millis())))
}

pub(super) fn serve(global: &Global, args: &ServeArgs) -> Result<Exit, Problem> {
    let dir = global.data_dir()?;
    let workspace = args.workspace.as_deref().map(submit::workspace).transpose()?;
    let options = Options {
        python: args.python.clone(),
        rscript: args.rscript.clone(),
        ipython: args.ipython,
        workspace: workspace.map(PathBuf::from),
        kernel_idle: args.kernel_idle,
        queue_cap: args.queue_cap,
        default_timeout: args.default_timeout,
        orphan_grace: args.orphan_grace,
        limits: KernelLimits {
            memory: args.memory,
            processes: args.processes,
            open_files: args.open_files,
            cpu_seconds: args.cpu.and_then(|cpu| cpu.0).map(|cpu| cpu.as_secs().max(1)),
            nice: args.nice,
            ..KernelLimits::default()
        },
        policy: policy(&dir, args.policy.as_deref())?,
    };
    log_to_stderr();
    let runtime = daemon::runtime()?;
    let stopped = runtime.block_on(async {
        // Before anything is started, so that a signal during the start is not lost.
        let watch = |kind| signal(kind).map_err(|error| Problem::because("cannot watch for signals", &error));
        let mut terminate = watch(SignalKind::terminate())?;
        let mut interrupt = watch(SignalKind::interrupt())?;
        // A terminal that goes away is no reason to stop: kernels and clients are elsewhere.
        let mut hangup = watch(SignalKind::hangup())?;
        let mut daemon = Daemon::start(&dir, options).await?;
        tell_ready(global, &daemon).await;
        let stop_kernels = loop {
            tokio::select! {
                _ = terminate.recv() => break args.stop_kernels,
                _ = interrupt.recv() => break args.stop_kernels,
                _ = hangup.recv() => tracing::info!("the terminal is gone; the daemon goes on"),
                asked = daemon.stop_asked() => break asked || args.stop_kernels,
            }
        };
        tracing::info!(stop_kernels, "stopping");
        let stopping = daemon.stop(stop_kernels);
        tokio::pin!(stopping);
        loop {
            tokio::select! {
                () = &mut stopping => break,
                // What is under way is being made durable; that is not to be cut short.
                _ = terminate.recv() => note("stopping already; a moment"),
                _ = interrupt.recv() => note("stopping already; a moment"),
            }
        }
        Ok(Exit::Done)
    });
    runtime.shutdown_background();
    stopped
}

/// The rules of a file, or of the one in the data directory, if there is one.
pub(super) fn policy(dir: &Path, named: Option<&Path>) -> Result<Policy, Problem> {
    let usual = dir.join("policy.toml");
    let path = match named {
        Some(path) => path,
        None if usual.exists() => &usual,
        None => return Ok(Policy::default()),
    };
    Policy::read(path).map_err(|error| {
        let problem = Problem::new(Exit::Usage, "bad_policy", "the rules for cells cannot be used");
        problem.caused_by(&error).hint("correct the file; nothing was started")
    })
}

async fn tell_ready(global: &Global, daemon: &Daemon) {
    let socket = daemon.socket().display();
    if global.json {
        let ready = serde_json::json!({
            "event": "ready",
            "socket": socket.to_string(),
            "pid": std::process::id(),
        });
        say(&ready.to_string());
    } else {
        if let Ok(status) = daemon.engine().status().await {
            for line in status.recovery {
                note(&format!("recovery: {line}"));
            }
        }
        note(&format!("agarose: ready on {socket} (pid {})", std::process::id()));
    }
}

/// The daemon's own log: `AGAROSE_LOG` says how much, in the words of `RUST_LOG`.
fn log_to_stderr() {
    let filter =
        EnvFilter::try_from_env("AGAROSE_LOG").unwrap_or_else(|_| EnvFilter::new("warn,agarose=info"));
    let lines = fmt::layer()
        .with_writer(std::io::stderr)
        .with_ansi(report::colour(&std::io::stderr()) && std::io::stderr().is_terminal());
    // A second subscriber in one process would be a mistake of ours, and not worth dying for.
    let _ = tracing_subscriber::registry().with(filter).with(lines).try_init();
}

#[cfg(test)]
mod tests {
    use super::*;
    use agarose_core::Millis;

    #[test]
    fn the_grace_of_orphans_may_be_nothing_or_for_ever() {
        assert_eq!(parse_grace("0"), Ok(OrphanGrace::After(Millis(0))));
        assert_eq!(parse_grace("90s"), Ok(OrphanGrace::After(Millis(90_000))));
        assert_eq!(parse_grace("inf"), Ok(OrphanGrace::Never));
        assert!(parse_grace("soon").unwrap_err().contains("inf is for ever"));
    }
}
