//! Long campaigns: `cargo run --release -p agarose-sim -- --seeds 100000`.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program for a terminal")]

use std::{collections::BTreeMap, process::ExitCode};

use clap::Parser;

/// Runs seeds against the promises and prints what they met.
#[derive(Parser)]
struct Options {
    /// How many seeds.
    #[arg(long, default_value_t = 1_000)]
    seeds: u64,
    /// The first.
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// Runs each seed twice and compares the logs.
    #[arg(long)]
    twice: bool,
}

fn main() -> ExitCode {
    let options = Options::parse();
    let mut met: BTreeMap<String, u64> = BTreeMap::new();
    let (mut failed, end) = (0u64, options.from.saturating_add(options.seeds));
    for seed in options.from..end {
        let outcome = agarose_sim::run(seed);
        if options.twice && agarose_sim::run(seed) != outcome {
            eprintln!("seed {seed} gives two different logs");
            failed = failed.saturating_add(1);
        }
        match outcome {
            Ok(outcome) => {
                for (what, count) in outcome.counts {
                    let sum = met.entry(what).or_default();
                    *sum = sum.saturating_add(count);
                }
            }
            Err(broken) => {
                eprintln!(
                    "seed {seed}: {broken}\nagain: cargo run -p agarose-sim -- --from {seed} --seeds 1\n"
                );
                failed = failed.saturating_add(1);
            }
        }
    }
    for (what, count) in &met {
        println!("{count:>12} {what}");
    }
    println!("{} seeds, {failed} of them broke a promise", options.seeds);
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
