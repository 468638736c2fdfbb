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

use std::{env, path::Path, process::ExitCode};

use libtest_mimic::{Arguments, Trial};

type Test = (&'static str, fn());

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
    let tests =
        [start::TESTS, execution::TESTS, output::TESTS, interruption::TESTS, reattachment::TESTS, end::TESTS]
            .concat();
    let trials = tests.into_iter().map(|(name, test)| {
        Trial::test(name, move || {
            test();
            Ok(())
        })
    });
    libtest_mimic::run(&Arguments::from_args(), trials.collect()).exit_code()
}

/// The tests of a module by their names.
#[macro_export]
macro_rules! tests {
    ($($name:ident,)*) => {
        pub(crate) const TESTS: &[$crate::Test] = &[$((stringify!($name), $name)),*];
    };
}
