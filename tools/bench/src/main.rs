//! Ratios against peers and physical limits, each measured side by side in one run.
//!
//! `cargo run --release -p agarose-bench -- all`, or some of: `append`, `open`, `roundtrip`,
//! `start`, `exec`, `output`, `r`. Peers come from PyPI into a virtual environment of the bench's own.

#![expect(clippy::print_stdout, reason = "a tool that prints a table")]

mod kernel;
mod log;
mod peer;
mod r;
mod table;

use anyhow::Result;
use table::Table;

fn main() -> Result<()> {
    // The bench is its own supervisor, so that it measures what it was built with.
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, command, _, directory] = arguments.as_slice()
        && command == "supervise"
    {
        agarose_kernel::supervisor::supervise(std::path::Path::new(directory))?;
        return Ok(());
    }
    let wanted = |name: &str| {
        arguments.len() < 2 || arguments.iter().skip(1).any(|argument| argument == name || argument == "all")
    };
    let mut table = Table::default();
    if wanted("append") {
        log::append(&mut table)?;
    }
    if wanted("open") {
        log::open(&mut table)?;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    if wanted("roundtrip") {
        runtime.block_on(kernel::round_trip(&mut table))?;
    }
    if wanted("start") {
        runtime.block_on(kernel::start(&mut table))?;
    }
    if wanted("exec") {
        kernel::whole_process(&mut table)?;
    }
    if wanted("output") {
        runtime.block_on(kernel::output(&mut table))?;
    }
    if wanted("r") {
        runtime.block_on(r::all(&mut table))?;
    }
    println!("{table}");
    let path = std::path::Path::new("bench.json");
    std::fs::write(path, serde_json::to_vec_pretty(&table.json())?)?;
    println!("the same in {}", path.display());
    Ok(())
}
