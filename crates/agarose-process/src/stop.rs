//! TERM, grace, KILL, grace, probe: and what was found.
//!
//! | Phase | Something is there | Nothing is there |
//! |---|---|---|
//! | begin | TERM to all of it, go to *term* | already exited |
//! | term, until its grace is over | TERM to newcomers | exited on TERM |
//! | kill, until its grace is over | KILL to all of it, each time | killed |
//! | after | alive after KILL, or could not be signalled | killed |
//!
//! The group is probed, never its leader: a leader may leave and its children go on.

use std::{
    collections::BTreeSet,
    thread,
    time::{Duration, Instant},
};

use nix::{
    errno::Errno,
    sys::signal::{Signal, killpg},
    unistd::Pid,
};

use crate::{
    cgroup::Cgroup,
    outcome::{ProcessId, ProcessState, StopEnd, StopOutcome},
    probe::{descendants, tagged},
    signal::{SignalError, reap_orphans, signal_process},
};

/// How many processes are named in an outcome.
const NAMED: usize = 100;
/// The waits between two probes grow from this …
const FIRST_WAIT: Duration = Duration::from_millis(1);
/// … to this.
const LONGEST_WAIT: Duration = Duration::from_millis(50);

/// Processes that are to be stopped together.
pub trait Group {
    /// Those that are there, without zombies.
    fn list(&mut self) -> Vec<ProcessState>;
    /// Sends a signal to one of them, and to no stranger.
    ///
    /// # Errors
    /// When it is gone or the system refuses.
    fn signal(&mut self, process: &ProcessState, signal: Signal) -> Result<(), SignalError>;
    /// Sends a signal to all that did not escape in one call, which they cannot fork out of the
    /// way of; says whether there is such a call.
    fn signal_together(&mut self, signal: Signal) -> bool;
    /// Whether it left the place where it was started.
    fn escaped(&self, process: &ProcessState) -> bool;
}

/// Everything that descends from this process, which is a child subreaper with one worker.
#[derive(Debug)]
pub struct Descendants<'a> {
    /// The worker: a child of ours, the leader of its group, not reaped before the stop has ended.
    pub leader: ProcessId,
    /// The control group it is in.
    pub control_group: Option<&'a Cgroup>,
}

impl Group for Descendants<'_> {
    fn list(&mut self) -> Vec<ProcessState> {
        let mut found = descendants(Pid::this().as_raw());
        // Afterwards: what was dead when it was looked at is then gone when nothing is left.
        reap_orphans(Some(self.leader.pid));
        found.retain(|process| !process.is_dead());
        found
    }

    fn signal(&mut self, process: &ProcessState, signal: Signal) -> Result<(), SignalError> {
        signal_process(process.id, signal)
    }

    fn signal_together(&mut self, signal: Signal) -> bool {
        if signal == Signal::SIGKILL
            && let Some(group) = self.control_group
        {
            group.kill();
        }
        // The leader is not reaped, so its number is still that of its group.
        killpg(Pid::from_raw(self.leader.pid), signal).is_ok()
    }

    fn escaped(&self, process: &ProcessState) -> bool {
        process.group != self.leader.pid
    }
}

/// Everything that carries a variable in its environment: what a dead supervisor left behind.
#[derive(Debug)]
pub struct Tagged {
    /// `NAME=value`.
    pub variable: String,
    /// The group that the worker led.
    pub group: i32,
}

impl Group for Tagged {
    fn list(&mut self) -> Vec<ProcessState> {
        tagged(&self.variable)
    }

    fn signal(&mut self, process: &ProcessState, signal: Signal) -> Result<(), SignalError> {
        signal_process(process.id, signal)
    }

    fn signal_together(&mut self, _signal: Signal) -> bool {
        // The number of the group may be a stranger's by now.
        false
    }

    fn escaped(&self, process: &ProcessState) -> bool {
        process.group != self.group
    }
}

#[derive(Debug)]
enum Phase {
    Term { until: Instant },
    Kill { until: Instant },
}

/// A stop under way. It holds no descriptor and never waits: whoever has it calls [`Stop::step`].
#[derive(Debug)]
pub struct Stop {
    phase: Phase,
    kill_grace: Duration,
    next_probe: Instant,
    wait: Duration,
    told: BTreeSet<ProcessId>,
    killed: BTreeSet<ProcessId>,
    killed_named: Vec<ProcessState>,
    escaped: BTreeSet<ProcessId>,
    refused: Option<Errno>,
}

impl Stop {
    /// Sends TERM to what is there, or finds that nothing is.
    ///
    /// A `term_grace` of zero goes to KILL at once.
    pub fn begin(
        group: &mut dyn Group,
        term_grace: Duration,
        kill_grace: Duration,
        now: Instant,
    ) -> Result<Self, StopOutcome> {
        let mut stop = Self {
            phase: Phase::Term { until: now + term_grace },
            kill_grace,
            next_probe: now,
            wait: FIRST_WAIT,
            told: BTreeSet::new(),
            killed: BTreeSet::new(),
            killed_named: Vec::new(),
            escaped: BTreeSet::new(),
            refused: None,
        };
        let found = group.list();
        if found.is_empty() {
            return Err(stop.outcome(StopEnd::AlreadyExited));
        }
        if term_grace.is_zero() {
            stop.phase = Phase::Kill { until: now + kill_grace };
            stop.kill(group, &found);
        } else {
            let together = group.signal_together(Signal::SIGTERM);
            stop.terminate(group, &found, together);
        }
        stop.next_probe = now + stop.wait;
        Ok(stop)
    }

    /// When [`Stop::step`] wants to be called.
    #[must_use]
    pub const fn next_probe(&self) -> Instant {
        self.next_probe
    }

    /// Ends the wait for TERM `term_grace` from now, if that is earlier than it was to end.
    pub fn hurry(&mut self, term_grace: Duration, now: Instant) {
        if let Phase::Term { until } = &mut self.phase {
            *until = (*until).min(now + term_grace);
            self.next_probe = self.next_probe.min(*until);
        }
    }

    /// Looks again, signals what has to be signalled, and gives the outcome once there is one.
    pub fn step(&mut self, group: &mut dyn Group, now: Instant) -> Option<StopOutcome> {
        let found = group.list();
        if found.is_empty() {
            let end = if self.killed.is_empty() { StopEnd::ExitedOnTerm } else { StopEnd::Killed };
            return Some(self.outcome(end));
        }
        match self.phase {
            Phase::Term { until } if now < until => self.terminate(group, &found, false),
            Phase::Term { .. } => {
                self.phase = Phase::Kill { until: now + self.kill_grace };
                self.wait = FIRST_WAIT;
                self.kill(group, &found);
            }
            Phase::Kill { until } if now < until => self.kill(group, &found),
            Phase::Kill { .. } => {
                let left = found.into_iter().take(NAMED).collect();
                let end = match self.refused {
                    Some(errno) => StopEnd::CouldNotSignal { errno: errno as i32, left },
                    None => StopEnd::AliveAfterKill { left },
                };
                return Some(self.outcome(end));
            }
        }
        let (Phase::Term { until } | Phase::Kill { until }) = self.phase;
        self.next_probe = (now + self.wait).min(until.max(now + FIRST_WAIT));
        self.wait = (self.wait * 2).min(LONGEST_WAIT);
        None
    }

    /// Each process hears TERM once. One that is stopped has to be continued to hear it at all.
    fn terminate(&mut self, group: &mut dyn Group, found: &[ProcessState], together: bool) {
        for process in found {
            if !self.told.insert(process.id) {
                continue;
            }
            let escaped = group.escaped(process);
            if escaped {
                self.escaped.insert(process.id);
            }
            // What is in the group has heard it already: a second TERM might interrupt its handler.
            if escaped || !together {
                self.note(group.signal(process, Signal::SIGTERM));
            }
            if matches!(process.state, 'T' | 't') {
                self.note(group.signal(process, Signal::SIGCONT));
            }
        }
    }

    fn kill(&mut self, group: &mut dyn Group, found: &[ProcessState]) {
        // First in one call, which a process cannot fork out of the way of; then each by itself.
        group.signal_together(Signal::SIGKILL);
        for process in found {
            if group.escaped(process) {
                self.escaped.insert(process.id);
            }
            if self.killed.insert(process.id) && self.killed_named.len() < NAMED {
                self.killed_named.push(process.clone());
            }
            self.note(group.signal(process, Signal::SIGKILL));
        }
    }

    fn note(&mut self, sent: Result<(), SignalError>) {
        if let Err(SignalError::Refused(errno)) = sent {
            self.refused = Some(errno);
        }
    }

    fn outcome(&mut self, end: StopEnd) -> StopOutcome {
        StopOutcome {
            end,
            killed: std::mem::take(&mut self.killed_named),
            killed_count: self.killed.len() as u64,
            escaped_count: self.escaped.len() as u64,
        }
    }
}

/// Stops a group and waits for the outcome.
pub fn stop(group: &mut dyn Group, term_grace: Duration, kill_grace: Duration) -> StopOutcome {
    let mut stop = match Stop::begin(group, term_grace, kill_grace, Instant::now()) {
        Ok(stop) => stop,
        Err(outcome) => return outcome,
    };
    loop {
        thread::sleep(stop.next_probe().saturating_duration_since(Instant::now()));
        if let Some(outcome) = stop.step(group, Instant::now()) {
            return outcome;
        }
    }
}

#[cfg(test)]
mod tests;
