//! The worker's process and its four pipes, without a word of what is said on them.

use std::{
    collections::{BTreeMap, VecDeque},
    ffi::OsString,
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    time::Duration,
};

use agarose_process::{
    CPU_LIMIT_GRACE, Cgroup, Child, ChildCounter, Descendants, Exit, ProcessId, ResourceLimits, Signal,
    SignalError, SpawnPlan, cpu_time, machine_oom_kills, pipe, pipe_capacity, read_some, set_nonblocking,
    signal_main_thread, spawn, widen_pipe, write_some,
};

use crate::{
    spec::{KernelLimits, KernelSpec, MARK, PassedLimit, mark_value},
    wire::{
        Channel,
        frame::{Decoder, Limits},
    },
};

/// The numbers that the worker finds its wire under; it moves it away from there.
const WIRE_IN: i32 = 3;
const WIRE_OUT: i32 = 4;
/// What pipes are asked to hold, so that a worker that prints much is not switched off so often.
const PIPE_BYTES: u32 = 256 << 10;
/// How much of descriptor 2 is remembered for a worker that dies, in bytes.
const STDERR_TAIL: usize = 4 << 10;

/// Why there is no worker.
#[derive(Debug, thiserror::Error)]
pub(super) enum StartError {
    #[error("the specification names no program")]
    NoProgram,
    #[error("the worker's pipes could not be made")]
    Pipes(#[source] io::Error),
    #[error("the worker could not enter its control group")]
    ControlGroup(#[source] io::Error),
    #[error(transparent)]
    Spawn(#[from] agarose_process::SpawnError),
}

/// A worker that was started.
#[derive(Debug)]
pub(super) struct Worker {
    child: Child,
    wire_in: Option<OwnedFd>,
    wire_out: Option<OwnedFd>,
    stdout: Option<OwnedFd>,
    stderr: Option<OwnedFd>,
    pub(super) decoder: Decoder,
    outgoing: Outgoing,
    stderr_tail: VecDeque<u8>,
    control_group: Cgroup,
    capacity: usize,
    children: Option<ChildCounter>,
    /// How often the system had killed for want of memory when the last cell began.
    oom_kills_before: Option<u64>,
    /// What it may use, as it was asked for.
    limits: KernelLimits,
    /// What the limits rest on.
    pub(super) confinement: Vec<String>,
}

impl Worker {
    /// Starts the worker that the specification describes, as a child of `supervisor`.
    pub(super) fn start(spec: &KernelSpec, supervisor: ProcessId) -> Result<Self, StartError> {
        let (program, arguments) = spec.argv.split_first().ok_or(StartError::NoProgram)?;
        let (control_group, limits, confinement) = confine(spec, supervisor);
        let (worker_in, wire_in) = pipe().map_err(StartError::Pipes)?;
        let (wire_out, worker_out) = pipe().map_err(StartError::Pipes)?;
        let (stdout, worker_stdout) = pipe().map_err(StartError::Pipes)?;
        let (stderr, worker_stderr) = pipe().map_err(StartError::Pipes)?;
        for ours in [&wire_in, &wire_out, &stdout, &stderr] {
            set_nonblocking(ours).map_err(StartError::Pipes)?;
            widen_pipe(ours, PIPE_BYTES);
        }
        let mut environment: BTreeMap<OsString, OsString> =
            spec.environment.iter().map(|(name, value)| (name.into(), value.into())).collect();
        for (name, value) in [
            ("AGAROSE_WIRE_IN", WIRE_IN.to_string()),
            ("AGAROSE_WIRE_OUT", WIRE_OUT.to_string()),
            (MARK, mark_value(supervisor)),
        ] {
            environment.insert(name.into(), value.into());
        }
        let child = spawn(SpawnPlan {
            program: program.into(),
            arguments: arguments.iter().map(Into::into).collect(),
            environment,
            directory: Some(spec.workspace.clone()),
            stdout: worker_stdout,
            stderr: worker_stderr,
            keep: vec![(worker_in, WIRE_IN), (worker_out, WIRE_OUT)],
            limits,
            die_with_parent: true,
            no_new_privileges: spec.limits.no_new_privileges,
            control_groups: control_group.entrances().map_err(StartError::ControlGroup)?,
        })?;
        Ok(Self {
            capacity: pipe_capacity(&stdout).max(pipe_capacity(&stderr)),
            children: ChildCounter::of(child.id().pid).ok(),
            child,
            wire_in: Some(wire_in),
            wire_out: Some(wire_out),
            stdout: Some(stdout),
            stderr: Some(stderr),
            decoder: Decoder::new(Limits::USUAL),
            outgoing: Outgoing::default(),
            stderr_tail: VecDeque::new(),
            oom_kills_before: control_group.oom_kills().or_else(machine_oom_kills),
            limits: spec.limits.clone(),
            control_group,
            confinement,
        })
    }

    pub(super) const fn id(&self) -> ProcessId {
        self.child.id()
    }

    /// Readable once the worker is dead.
    pub(super) fn pidfd(&self) -> BorrowedFd<'_> {
        self.child.pidfd()
    }

    /// Reaps it, if it has ended, and says how much processor time it had used.
    pub(super) fn reap(&self) -> Option<(Exit, Option<Duration>)> {
        self.child.peek()?;
        // A zombie has its figures still; once it is reaped nobody has.
        let used = cpu_time(self.child.id().pid);
        Some((self.child.reap()?, used))
    }

    /// All that is to be stopped with it.
    pub(super) const fn group(&self) -> Descendants<'_> {
        Descendants { leader: self.child.id(), control_group: Some(&self.control_group) }
    }

    /// Sends a signal to its main thread, the one that runs cells.
    pub(super) fn signal(&self, signal: Signal) -> Result<(), SignalError> {
        signal_main_thread(self.child.id().pid, signal)
    }

    /// How many processes it has started that still run.
    pub(super) fn children_left(&self) -> u64 {
        self.children.as_ref().map_or(0, |children| children.count(self.child.id().pid))
    }

    /// Notes that a cell begins: what the system killed before is not this one's doing.
    pub(super) fn begin_cell(&mut self) {
        self.oom_kills_before = self.oom_kills();
    }

    /// Whether the system has killed something for want of memory since the last cell began.
    pub(super) fn memory_ran_out(&self) -> Option<bool> {
        let before = self.oom_kills_before?;
        self.oom_kills().map(|now| now > before)
    }

    fn oom_kills(&self) -> Option<u64> {
        self.control_group.oom_kills().or_else(machine_oom_kills)
    }

    /// Which of its limits ended a worker that nobody here has killed, as far as that can be known.
    /// A limit that only makes a call fail is the cell's own to report.
    pub(super) fn passed_limit(&self, exit: Exit, used: Option<Duration>) -> Option<PassedLimit> {
        let Exit::Signal { number, .. } = exit else {
            return None;
        };
        let is = |signal: Signal| number == signal as i32;
        if let Some(bytes) = self.limits.memory
            && is(Signal::SIGKILL)
            && self.control_group.limits_memory()
            && self.memory_ran_out() == Some(true)
        {
            return Some(PassedLimit::Memory(bytes));
        }
        let seconds = self.limits.cpu_seconds?;
        // A process that does not leave on SIGXCPU is killed. The two clocks of the system, that
        // of the limit and that of the figures, differ by a tenth on a busy machine.
        let due = match number {
            _ if is(Signal::SIGXCPU) => Duration::from_secs(seconds),
            _ if is(Signal::SIGKILL) => Duration::from_secs(seconds) + CPU_LIMIT_GRACE,
            _ => return None,
        };
        (used? >= due * 3 / 4).then_some(PassedLimit::CpuSeconds(seconds))
    }

    pub(super) fn stderr_tail(&self) -> String {
        let (first, second) = self.stderr_tail.as_slices();
        String::from_utf8_lossy(&[first, second].concat()).into_owned()
    }

    /// The pipe of a channel, while it is open.
    pub(super) fn output(&self, channel: Channel) -> Option<BorrowedFd<'_>> {
        self.pipe(channel).map(|fd| fd.as_fd())
    }

    const fn pipe(&self, channel: Channel) -> Option<&OwnedFd> {
        match channel {
            Channel::Stdout => self.stdout.as_ref(),
            Channel::Stderr => self.stderr.as_ref(),
            Channel::Display => self.wire_out.as_ref(),
        }
    }

    fn close(&mut self, channel: Channel) {
        match channel {
            Channel::Stdout => self.stdout = None,
            Channel::Stderr => self.stderr = None,
            Channel::Display => self.wire_out = None,
        }
    }

    /// How much may be in the pipe of descriptor 1 or 2 at one moment.
    pub(super) const fn capacity(&self) -> usize {
        self.capacity
    }

    /// Reads what is there on descriptor 1 or 2; `None` when nothing is.
    pub(super) fn read_output(&mut self, channel: Channel, buffer: &mut [u8]) -> Option<usize> {
        let length = read_some(self.pipe(channel)?, buffer);
        match length {
            Ok(0) => {
                self.close(channel);
                None
            }
            Ok(length) => {
                if channel == Channel::Stderr {
                    let bytes = buffer.get(..length).unwrap_or_default();
                    let bytes = bytes.get(bytes.len().saturating_sub(STDERR_TAIL)..).unwrap_or_default();
                    self.stderr_tail.extend(bytes);
                    let over = self.stderr_tail.len().saturating_sub(STDERR_TAIL);
                    self.stderr_tail.drain(..over);
                }
                Some(length)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
            Err(_) => {
                self.close(channel);
                None
            }
        }
    }

    /// Reads what is there on the wire into the decoder, and says how much it was.
    pub(super) fn read_wire(&mut self, buffer: &mut [u8]) -> usize {
        let Some(wire) = &self.wire_out else {
            return 0;
        };
        match read_some(wire, buffer) {
            Ok(length) if length > 0 => {
                self.decoder.push(buffer.get(..length).unwrap_or_default());
                length
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
            _ => {
                self.wire_out = None;
                0
            }
        }
    }

    /// Whether the worker can still say something.
    pub(super) const fn wire_is_open(&self) -> bool {
        self.wire_out.is_some()
    }

    /// Hears nothing more from the worker.
    pub(super) fn close_wire(&mut self) {
        self.wire_out = None;
    }

    /// What is to be said to the worker; written by [`Worker::flush`].
    pub(super) const fn outgoing(&mut self) -> &mut Vec<u8> {
        &mut self.outgoing.bytes
    }

    /// Where the rest is to be written, when there is a rest.
    pub(super) fn wants_write(&self) -> Option<BorrowedFd<'_>> {
        self.wire_in.as_ref().filter(|_| !self.outgoing.is_empty()).map(|fd| fd.as_fd())
    }

    /// Writes as much as the pipe takes.
    pub(super) fn flush(&mut self) {
        if let Some(wire) = &self.wire_in
            && self.outgoing.write_to(|bytes| write_some(wire, bytes)).is_err()
        {
            self.wire_in = None;
            self.outgoing = Outgoing::default();
        }
    }
}

/// The limits as they can be had: by control groups where they can be written to.
fn confine(spec: &KernelSpec, supervisor: ProcessId) -> (Cgroup, ResourceLimits, Vec<String>) {
    let wanted = &spec.limits;
    let mut limits = ResourceLimits {
        memory: wanted.memory,
        processes: wanted.processes,
        open_files: wanted.open_files,
        cpu_seconds: wanted.cpu_seconds,
        nice: wanted.nice,
    };
    let mut confinement = Vec::new();
    if wanted.memory.is_none() && wanted.processes.is_none() {
        return (Cgroup::default(), limits, confinement);
    }
    let name = format!("agarose-{}-{}", spec.generation, supervisor.pid);
    let group = Cgroup::create(&name, wanted.memory, wanted.processes);
    let mut say = |what: &str, wanted: &mut Option<u64>, held: bool, otherwise: &str| {
        if wanted.is_some() {
            let by = if held { "a control group" } else { otherwise };
            confinement.push(format!("{what} is limited by {by}"));
            if held {
                *wanted = None;
            }
        }
    };
    say("memory", &mut limits.memory, group.limits_memory(), "RLIMIT_DATA, for each process");
    say(
        "the number of processes",
        &mut limits.processes,
        group.limits_processes(),
        "RLIMIT_NPROC, which does not bind root",
    );
    (group, limits, confinement)
}

/// Bytes that wait to be written.
#[derive(Debug, Default)]
pub(super) struct Outgoing {
    pub(super) bytes: Vec<u8>,
    written: usize,
}

impl Outgoing {
    pub(super) const fn is_empty(&self) -> bool {
        self.written >= self.bytes.len()
    }

    /// How many bytes wait.
    pub(super) const fn len(&self) -> usize {
        self.bytes.len().saturating_sub(self.written)
    }

    /// Writes until all is written or nothing more fits.
    pub(super) fn write_to(&mut self, mut write: impl FnMut(&[u8]) -> io::Result<usize>) -> io::Result<()> {
        while !self.is_empty() {
            match write(self.bytes.get(self.written..).unwrap_or_default()) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(length) => self.written += length,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    // What was written is forgotten now and then, or a slow reader would make us grow.
                    if self.written > 1 << 20 {
                        self.bytes.drain(..self.written);
                        self.written = 0;
                    }
                    return Ok(());
                }
                Err(error) => return Err(error),
            }
        }
        self.written = 0;
        self.bytes.clear();
        // A rare large frame must not be paid for in memory ever after.
        self.bytes.shrink_to(64 << 10);
        Ok(())
    }
}
