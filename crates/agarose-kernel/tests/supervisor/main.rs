//! The supervisor as a process, from outside: real workers, real signals, a daemon that comes and
//! goes. The program runs itself as the supervisor.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test may stop where it stands")]
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "it reports as a test program does")]

mod end;
mod execution;
mod interruption;
mod lab;
mod output;
mod reattachment;
mod start;

use std::{
    collections::BTreeSet,
    env, panic,
    path::Path,
    process::ExitCode,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

type Test = (&'static str, fn());

/// Three at a time: most of them wait most of the time.
const AT_ONCE: usize = 3;

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().collect();
    if let [_, word, _, dir] = arguments.as_slice()
        && word == lab::SUPERVISE
    {
        return match agarose_kernel::supervisor::supervise(Path::new(dir)) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("{error}");
                ExitCode::FAILURE
            }
        };
    }
    if let [_, word, _, dir] = arguments.as_slice()
        && word == lab::ATTACH
    {
        let dir = Path::new(dir);
        let attached = agarose_kernel::client::attach(
            &mut agarose_kernel::client::connect(dir).unwrap(),
            &agarose_kernel::spec::read_spec(dir).unwrap(),
        );
        print!("{}", attached.map_or_else(|error| error.to_string(), |_| "attached".to_owned()));
        return ExitCode::SUCCESS;
    }
    let filters: Vec<&String> = arguments.iter().skip(1).filter(|word| !word.starts_with('-')).collect();
    let tests: Vec<Test> =
        [start::TESTS, execution::TESTS, output::TESTS, interruption::TESTS, reattachment::TESTS, end::TESTS]
            .concat();
    let chosen: Vec<Test> = tests
        .into_iter()
        .filter(|(name, _)| filters.is_empty() || filters.iter().any(|filter| name.contains(filter.as_str())))
        .collect();
    run(&chosen)
}

fn run(tests: &[Test]) -> ExitCode {
    let next = AtomicUsize::new(0);
    let failed = Mutex::new(BTreeSet::new());
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some((name, test)) = tests.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let passed = panic::catch_unwind(test).is_ok();
                    println!("test {name} ... {}", if passed { "ok" } else { "FAILED" });
                    if !passed {
                        failed.lock().unwrap().insert(*name);
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().unwrap();
    println!("\n{} passed; {} failed", tests.len() - failed.len(), failed.len());
    for name in &failed {
        println!("    {name}");
    }
    if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The tests of a module by their names.
#[macro_export]
macro_rules! tests {
    ($($name:ident,)*) => {
        pub(crate) const TESTS: &[$crate::Test] = &[$((stringify!($name), $name)),*];
    };
}
