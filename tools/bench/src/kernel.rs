//! Cells through the whole engine, every event durable, beside ipykernel through jupyter_client.

use std::{
    path::PathBuf,
    process::Command,
    time::{Duration, Instant},
};

use agarose_core::{Language, Owner, OwnerKind, SessionId, TicketId, command::Reach};
use agarose_engine::{Asked, Engine, EngineConfig, SubmitRequest, Waited, view::TicketView};
use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::{
    peer,
    table::{Sample, Table, ms, over},
};

pub(crate) struct Bench {
    pub(crate) engine: Engine,
    data: PathBuf,
    _directory: tempfile::TempDir,
}

impl Bench {
    pub(crate) async fn new() -> Result<Self> {
        let directory = tempfile::Builder::new().prefix("agarose-bench-").tempdir_in(".")?;
        let program = std::env::current_exe()?;
        let data = directory.path().canonicalize()?.join("data");
        let mut config = EngineConfig::new(data.clone(), vec![program.into(), "supervise".into()], "bench");
        // The peer's own Python, so that both run the same interpreter.
        config.kernel.python = Some(peer::python()?);
        Ok(Self { engine: Engine::start(config).await?, data, _directory: directory })
    }

    async fn submit(&self, session: &str, code: &str) -> Result<TicketId> {
        self.submit_in(Language::Python, session, code).await
    }

    async fn submit_in(&self, language: Language, session: &str, code: &str) -> Result<TicketId> {
        let request = SubmitRequest::new(
            SessionId::new(session)?,
            owner()?,
            language,
            Asked::Cell { code: code.as_bytes().to_vec(), name: None },
        );
        Ok(self.engine.submit(request).await?.ticket)
    }

    async fn run(&self, session: &str, code: &str) -> Result<TicketView> {
        self.run_in(Language::Python, session, code).await
    }

    pub(crate) async fn run_in(&self, language: Language, session: &str, code: &str) -> Result<TicketView> {
        let ticket = self.submit_in(language, session, code).await?;
        match self.engine.wait(ticket, None).await? {
            Waited::Ended(view) => Ok(*view),
            Waited::StillOpen(_) => bail!("{ticket} has not ended"),
        }
    }
}

fn owner() -> Result<Owner> {
    Ok(Owner::new(OwnerKind::System, "bench")?)
}

pub(crate) fn seconds(measured: &Value) -> Result<Vec<Duration>> {
    let list = measured["seconds"].as_array().context("the peer gave no list")?;
    Ok(list.iter().filter_map(Value::as_f64).map(Duration::from_secs_f64).collect())
}

pub(crate) async fn round_trip(table: &mut Table) -> Result<()> {
    let theirs = Sample::new(seconds(&peer::measure("roundtrip")?)?);
    let bench = Bench::new().await?;
    for _ in 0..50 {
        bench.run("s", "1").await?;
    }
    let mut took = Vec::new();
    for _ in 0..500 {
        let begun = Instant::now();
        let view = bench.run("s", "1").await?;
        took.push(begun.elapsed());
        ensure!(view.state == "completed", "{view:?}");
    }
    let ours = Sample::new(took);
    for percent in [50, 99] {
        table.row(
            &format!("round trip of `1`, every event durable, p{percent}"),
            ms(ours.percentile(percent)),
            format!("{} (ipykernel)", ms(theirs.percentile(percent))),
            over(theirs.percentile(percent), ours.percentile(percent)),
            "≥ 8",
        );
    }
    let theirs = Sample::new(seconds(&peer::measure("interrupt")?)?);
    bench.run("s", "import time").await?;
    let mut took = Vec::new();
    for _ in 0..20 {
        let ticket = bench.submit("s", "time.sleep(60)").await?;
        while bench.engine.show(ticket).await?.executed != "yes" {
            tokio::task::yield_now().await;
        }
        let begun = Instant::now();
        bench.engine.cancel(ticket, owner()?, "bench".to_owned(), Reach::Full).await?;
        bench.engine.wait(ticket, None).await?;
        took.push(begun.elapsed());
    }
    let ours = Sample::new(took);
    table.row(
        "interrupt of a sleep, request to last word, p50",
        ms(ours.percentile(50)),
        format!("{} (ipykernel)", ms(theirs.percentile(50))),
        over(theirs.percentile(50), ours.percentile(50)),
        "< 50 ms; ≥ 20",
    );
    bench.engine.shutdown(true).await;
    let log = bench.data.clone();
    // All of the cells above, their kernel and the interrupts among them.
    let cells = 50 + 500 + 1 + 20;
    let inspector = agarose_journal::inspect::Inspector::open(&log)?;
    let segments: u64 = inspector.segments().iter().map(|segment| segment.used).sum();
    let store = crate::log::size_of(&log.join("store"))?;
    table.row(
        "bytes on disk per cell, in the log's segments",
        (segments / cells).to_string(),
        format!("{} in the store, until its old segments are recycled", store / cells),
        segments as f64 / store as f64,
        "–",
    );
    Ok(())
}

pub(crate) async fn start(table: &mut Table) -> Result<()> {
    let theirs = Sample::new(seconds(&peer::measure("start")?)?);
    let bench = Bench::new().await?;
    bench.run("warm", "1").await?;
    let mut took = Vec::new();
    for number in 0..7 {
        let begun = Instant::now();
        bench.run(&format!("s{number}"), "1").await?;
        took.push(begun.elapsed());
    }
    let ours = Sample::new(took);
    table.row(
        "kernel start to first result, p50",
        ms(ours.percentile(50)),
        format!("{} (ipykernel)", ms(theirs.percentile(50))),
        over(theirs.percentile(50), ours.percentile(50)),
        "≥ 8",
    );
    bench.engine.shutdown(true).await;
    Ok(())
}

pub(crate) async fn output(table: &mut Table) -> Result<()> {
    let theirs = seconds(&peer::measure("output")?)?;
    let bench = Bench::new().await?;
    bench.run("s", "1").await?;
    let cells = [
        ("100 MB of stdout in one write", "import sys; n = sys.stdout.write('x' * 10**8)", "≥ 3"),
        ("100 MB of stdout in 100-byte prints", "for i in range(10**6): print('x' * 99)", "≥ 10"),
    ];
    for ((what, code, aim), theirs) in cells.into_iter().zip(theirs) {
        let begun = Instant::now();
        let view = bench.run("s", code).await?;
        let ours = begun.elapsed();
        ensure!(view.stdout.seen == 100_000_000, "{} bytes were seen", view.stdout.seen);
        table.row(what, ms(ours), format!("{} (ipykernel)", ms(theirs)), over(theirs, ours), aim);
    }
    bench.engine.shutdown(true).await;
    Ok(())
}

/// `agarose exec` as a whole process, with a warm kernel.
pub(crate) fn whole_process(table: &mut Table) -> Result<()> {
    let program = std::env::current_exe()?.parent().map(|beside| beside.join("agarose")).unwrap_or_default();
    ensure!(program.exists(), "{} is not there: cargo build --release -p agarose", program.display());
    let directory = tempfile::Builder::new().prefix("agarose-bench-").tempdir_in(".")?;
    let data: PathBuf = directory.path().canonicalize()?.join("data");
    let command = |arguments: &[&str]| {
        let mut command = Command::new(&program);
        command.args(arguments).env("AGAROSE_DATA_DIR", &data).env("USER", "bench");
        command
    };
    let mut daemon = command(&["serve", "--stop-kernels"]).stderr(std::process::Stdio::null()).spawn()?;
    while !data.join("agarose.sock").exists() {
        std::thread::yield_now();
    }
    let exec = || command(&["exec", "-s", "s", "-c", "1"]).output();
    for _ in 0..5 {
        exec()?;
    }
    let mut took = Vec::new();
    for _ in 0..100 {
        let begun = Instant::now();
        let output = exec()?;
        took.push(begun.elapsed());
        ensure!(output.status.success(), "{output:?}");
    }
    let ours = Sample::new(took);
    table.row(
        "`agarose exec -c 1` as a whole process, p50",
        ms(ours.percentile(50)),
        "15 ms".to_owned(),
        over(ours.percentile(50), Duration::from_millis(15)),
        "< 1",
    );
    let stopped = Command::new("kill").arg(daemon.id().to_string()).status()?;
    ensure!(stopped.success(), "the daemon could not be told to stop");
    daemon.wait()?;
    Ok(())
}
