//! R cells beside IRkernel, which comes with Debian's r-cran-irkernel.

use std::{fs, time::Instant};

use agarose_core::Language;
use anyhow::{Context, Result, ensure};

use crate::{
    kernel::{Bench, seconds},
    peer,
    table::{Sample, Table, ms, over},
};

const ONE_WRITE: &str = "cat(strrep('x', 1e8))";
const LINES: &str = "for (i in 1:100000) cat(strrep('x', 99), '\\n', sep = '')";

pub(crate) async fn all(table: &mut Table) -> Result<()> {
    let bench = Bench::new().await?;
    let theirs = Sample::new(seconds(
        &peer::measure("r_roundtrip").context("IRkernel: apt install r-cran-irkernel")?,
    )?);
    for _ in 0..50 {
        bench.run_in(Language::R, "s", "1").await?;
    }
    let mut took = Vec::new();
    for _ in 0..300 {
        let begun = Instant::now();
        let view = bench.run_in(Language::R, "s", "1").await?;
        took.push(begun.elapsed());
        ensure!(view.state == "completed", "{view:?}");
    }
    let ours = Sample::new(took);
    for percent in [50, 99] {
        table.row(
            &format!("R: round trip of `1`, every event durable, p{percent}"),
            ms(ours.percentile(percent)),
            format!("{} (IRkernel)", ms(theirs.percentile(percent))),
            over(theirs.percentile(percent), ours.percentile(percent)),
            "≥ 3",
        );
    }
    let theirs = Sample::new(seconds(&peer::measure("r_start")?)?);
    let mut took = Vec::new();
    for number in 0..5 {
        let begun = Instant::now();
        bench.run_in(Language::R, &format!("s{number}"), "1").await?;
        took.push(begun.elapsed());
    }
    let ours = Sample::new(took);
    table.row(
        "R: kernel start to first result, p50",
        ms(ours.percentile(50)),
        format!("{} (IRkernel)", ms(theirs.percentile(50))),
        over(theirs.percentile(50), ours.percentile(50)),
        "≥ 3",
    );
    let theirs = seconds(&peer::measure_with("r_output", &[ONE_WRITE, LINES])?)?;
    let cells = [
        ("R: 100 MB of stdout in one write", ONE_WRITE, 100_000_000),
        ("R: 10 MB of stdout in 100-byte lines", LINES, 10_000_000),
    ];
    for ((what, code, bytes), theirs) in cells.into_iter().zip(theirs) {
        let begun = Instant::now();
        let view = bench.run_in(Language::R, "s", code).await?;
        let ours = begun.elapsed();
        ensure!(view.stdout.seen == bytes, "{} bytes were seen: {:?}", view.stdout.seen, view.error);
        table.row(what, ms(ours), format!("{} (IRkernel)", ms(theirs)), over(theirs, ours), "≥ 5");
    }
    let theirs = peer::measure("r_memory")?["seconds"][0].as_f64().context("the peer gave no memory")?;
    let view = bench.run_in(Language::R, "memory", "cat(Sys.getpid())").await?;
    let status = fs::read_to_string(format!("/proc/{}/status", view.stdout.text.trim()))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
    let ours = line.trim().trim_end_matches(" kB").parse::<f64>()? * 1024.0;
    table.row(
        "R: memory of an idle kernel's R after its first cell",
        format!("{:.0} MiB", ours / 1048576.0),
        format!("{:.0} MiB (IRkernel)", theirs / 1048576.0),
        theirs / ours,
        "> 1",
    );
    bench.engine.shutdown(true).await;
    Ok(())
}
