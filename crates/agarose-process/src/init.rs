//! The first process of a container, which is the parent of every orphan in it.

use std::{
    env,
    io::{self, IsTerminal},
    os::{
        fd::AsFd,
        unix::process::{CommandExt, ExitStatusExt},
    },
    process::Command,
};

use nix::{
    sys::signal::{SigSet, SigmaskHow, Signal, kill, sigprocmask},
    unistd::Pid,
};

use crate::{Interest, SignalEvents, poll, reap_orphans};

/// Where this process is number 1, runs the program again as a child, passes signals on to it, reaps
/// whatever else dies, and gives the exit code in the end. Anywhere else it does nothing.
///
/// A program that waits for children of its own cannot also reap strangers without taking one for
/// the other; so the two are two processes. To be called before any thread is started.
///
/// # Errors
/// When the child cannot be started or signals cannot be taken.
pub fn stand_in_for_init() -> io::Result<Option<i32>> {
    if Pid::this().as_raw() != 1 {
        return Ok(None);
    }
    let mut events = SignalEvents::of(&[Signal::SIGCHLD, Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP])?;
    let mut command = Command::new(env::current_exe()?);
    let mut words = env::args_os();
    if let Some(name) = words.next() {
        command.arg0(name);
    }
    command.args(words);
    let unblock = || Ok(sigprocmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::empty()), None)?);
    // SAFETY: between fork and exec only this one system call is made.
    unsafe { command.pre_exec(unblock) };
    let mut child = command.spawn()?;
    let number = Pid::from_raw(child.id().cast_signed());
    // A terminal sends Ctrl-C to the child itself, and twice means something else.
    let at_terminal = io::stdin().is_terminal();
    let mut ready = Vec::new();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0))));
        }
        poll(&[Interest { fd: events.as_fd(), read: true, write: false }], None, &mut ready)?;
        for signal in events.take() {
            match signal {
                Signal::SIGCHLD => reap_orphans(Some(number.as_raw())),
                Signal::SIGINT if at_terminal => {}
                // The child is not reaped, so the number is its own.
                signal => drop(kill(number, signal)),
            }
        }
    }
}
