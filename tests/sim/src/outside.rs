//! Everything that outlives a daemon: supervisors, workers, and the mail between them.
//!
//! A supervisor answers each request by lease and attempt and does none of them twice. It may be
//! slow, die, or answer late or twice; it never lies. What a worker does with a cell is drawn when
//! the cell begins, and every beginning is counted.

use std::collections::BTreeMap;

use agarose_core::{
    BlobRef, Effect, Generation, Language, Lease, SessionId, TicketId,
    command::{Command, ExecutionReport, KernelReport},
    event::{Output, ResultStatus},
    slot::{Exit, GroupOutcome, KernelProcess},
    watchdog::{NobodyReason, Verdict},
};

use crate::rng::Rng;

/// Something under way from one to another.
#[derive(Clone, Debug)]
pub enum Mail {
    /// To the daemon of one start; a later one never gets it.
    Daemon {
        /// Which start.
        epoch: u64,
        /// What it says.
        command: Command,
    },
    /// To a supervisor; it arrives though its sender may be dead by then.
    Supervisor(Generation, Effect),
    /// What a worker does by itself.
    Worker(Generation, Happening),
}

/// What a worker does by itself.
#[derive(Clone, Debug)]
pub enum Happening {
    /// It takes cells.
    Up,
    /// It cannot come up.
    Broken,
    /// The cell begins.
    Begins(Lease),
    /// The cell returns.
    Ends(Lease, ResultStatus, bool),
    /// It dies.
    Dies,
}

/// What a cell does when it is interrupted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Manner {
    /// It stops with `KeyboardInterrupt`.
    Heeds,
    /// Its child stops, and it returns normally.
    InAChild,
    /// It goes on.
    Ignores,
}

#[derive(Clone, Debug)]
struct Running {
    lease: Lease,
    begun: bool,
    manner: Manner,
}

/// One supervisor with its worker.
#[derive(Clone, Debug)]
pub struct Supervisor {
    session: SessionId,
    language: Language,
    up: bool,
    gone: Option<(Exit, Option<bool>)>,
    running: Option<Running>,
    held: BTreeMap<Lease, ExecutionReport>,
    verdicts: BTreeMap<(Lease, u32), Verdict>,
    stops: BTreeMap<Lease, GroupOutcome>,
    /// Its worker cannot be killed.
    unkillable: bool,
    last_mail: u64,
}

/// The world around a daemon.
#[derive(Clone, Debug)]
pub struct Outside {
    /// The supervisors that are alive.
    pub supervisors: BTreeMap<Generation, Supervisor>,
    /// How often each ticket's cell has begun.
    pub begun: BTreeMap<TicketId, u64>,
    /// Who got a signal, in order.
    pub signalled: Vec<Lease>,
    mail: BTreeMap<(u64, u64), Mail>,
    sent: u64,
    /// Whether things go wrong.
    pub faults: bool,
    rng: Rng,
}

impl Outside {
    /// An outside without anybody in it.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self {
            supervisors: BTreeMap::new(),
            begun: BTreeMap::new(),
            signalled: Vec::new(),
            mail: BTreeMap::new(),
            sent: 0,
            faults: true,
            rng: Rng::new(seed),
        }
    }

    /// When the next mail arrives.
    #[must_use]
    pub fn next_mail(&self) -> Option<u64> {
        self.mail.first_key_value().map(|((at, _), _)| *at)
    }

    /// The mail that has arrived by now, oldest first.
    pub fn arrived(&mut self, now: u64) -> Option<Mail> {
        let entry = self.mail.first_entry()?;
        (entry.key().0 <= now).then(|| entry.remove())
    }

    /// Mostly soon; with faults sometimes later than anybody waits for.
    fn delay(&mut self) -> u64 {
        if self.faults && self.rng.percent(4) { self.rng.below(90_000) } else { self.rng.below(20) }
    }

    /// Sends mail.
    pub fn post(&mut self, at: u64, mail: Mail) {
        self.sent = self.sent.saturating_add(1);
        self.mail.insert((at, self.sent), mail);
    }

    /// Does what a fact obliged the daemon to, as far as the daemon is concerned.
    pub fn perform(&mut self, now: u64, effect: Effect) {
        let to = match &effect {
            Effect::StartKernel { session, language, generation } => {
                return self.launch(now, session.clone(), *language, *generation);
            }
            Effect::StopKernel { generation, .. } => *generation,
            Effect::SendExecute { lease, .. }
            | Effect::SendInterrupt { lease, .. }
            | Effect::StopGroup { lease, .. }
            | Effect::ReleaseResult { lease, .. } => lease.generation,
            // The cells here ask their host for nothing; the properties of calls are the core's.
            Effect::PerformHostCall { .. }
            | Effect::CancelHostCall { .. }
            | Effect::AnswerHostCall { .. } => return,
        };
        let pause = self.delay();
        let Some(supervisor) = self.supervisors.get_mut(&to) else { return };
        // One connection keeps its order.
        supervisor.last_mail = supervisor.last_mail.max(now.saturating_add(pause));
        let at = supervisor.last_mail;
        self.post(at, Mail::Supervisor(to, effect));
    }

    fn launch(&mut self, now: u64, session: SessionId, language: Language, generation: Generation) {
        let supervisor = Supervisor {
            session,
            language,
            up: false,
            gone: None,
            running: None,
            held: BTreeMap::new(),
            verdicts: BTreeMap::new(),
            stops: BTreeMap::new(),
            unkillable: self.faults && self.rng.percent(3),
            last_mail: now,
        };
        self.supervisors.entry(generation).or_insert(supervisor);
        let happening = if self.faults && self.rng.percent(8) { Happening::Broken } else { Happening::Up };
        let at = now.saturating_add(self.delay());
        self.post(at, Mail::Worker(generation, happening));
    }

    /// Tells the daemon something; with faults sometimes twice.
    fn tell(&mut self, now: u64, epoch: u64, command: &Command) {
        let again = self.faults && self.rng.percent(5);
        for _ in 0..=u8::from(again) {
            let at = now.saturating_add(self.delay());
            self.post(at, Mail::Daemon { epoch, command: command.clone() });
        }
    }

    fn tell_kernel(&mut self, now: u64, epoch: u64, generation: Generation, report: KernelReport) {
        let Some(supervisor) = self.supervisors.get(&generation) else { return };
        let (session, language) = (supervisor.session.clone(), supervisor.language);
        self.tell(now, epoch, &Command::Kernel { session, language, generation, report });
    }

    fn tell_execution(&mut self, now: u64, epoch: u64, lease: Lease, report: ExecutionReport) {
        let Some(supervisor) = self.supervisors.get(&lease.generation) else { return };
        let session = supervisor.session.clone();
        self.tell(now, epoch, &Command::Execution { session, lease, report });
    }

    /// A supervisor reads a request.
    pub fn serve(&mut self, now: u64, epoch: u64, to: Generation, request: &Effect) {
        let Some(supervisor) = self.supervisors.get_mut(&to) else { return };
        match request {
            Effect::StartKernel { .. }
            | Effect::PerformHostCall { .. }
            | Effect::CancelHostCall { .. }
            | Effect::AnswerHostCall { .. } => {}
            Effect::SendExecute { lease, .. } => {
                let known = supervisor.held.contains_key(lease)
                    || supervisor.running.as_ref().is_some_and(|running| running.lease == *lease);
                let free = supervisor.up && supervisor.gone.is_none() && supervisor.running.is_none();
                // One that it released it would not know: the log has its result, so nobody asks.
                if !known && free {
                    let manner = match self.rng.below(4) {
                        0 => Manner::Ignores,
                        1 => Manner::InAChild,
                        _ => Manner::Heeds,
                    };
                    supervisor.running = Some(Running { lease: *lease, begun: false, manner });
                    let at = now.saturating_add(self.rng.below(5));
                    self.post(at, Mail::Worker(to, Happening::Begins(*lease)));
                }
            }
            Effect::SendInterrupt { lease, attempt, .. } => {
                let verdict = match supervisor.verdicts.get(&(*lease, *attempt)) {
                    Some(verdict) => verdict.clone(),
                    None => self.interrupt(now, *lease, *attempt),
                };
                let report = ExecutionReport::Interrupt { attempt: *attempt, verdict };
                self.tell_execution(now, epoch, *lease, report);
            }
            Effect::StopGroup { lease, .. } => {
                let outcome = self.stop(to, Some(*lease));
                self.tell_execution(now, epoch, *lease, ExecutionReport::Stopped { outcome, output: None });
            }
            Effect::StopKernel { .. } => {
                if self.stop(to, None).is_gone() {
                    let exit = Exit::Stopped;
                    let gone =
                        KernelReport::Gone { exit, while_down: false, began: None, output: None, left: None };
                    self.tell_kernel(now, epoch, to, gone);
                }
            }
            Effect::ReleaseResult { lease, .. } => {
                supervisor.held.remove(lease);
            }
        }
    }

    fn interrupt(&mut self, now: u64, lease: Lease, attempt: u32) -> Verdict {
        let pause = self.rng.below(400);
        let Some(supervisor) = self.supervisors.get_mut(&lease.generation) else {
            return Verdict::ReachedNobody { reason: NobodyReason::SupervisorUnreachable };
        };
        let running = supervisor.running.as_ref().filter(|running| running.lease == lease && running.begun);
        let verdict = match running {
            Some(_) => Verdict::Delivered,
            None => Verdict::ReachedNobody { reason: NobodyReason::NotArmed },
        };
        supervisor.verdicts.insert((lease, attempt), verdict.clone());
        if let Some(running) = running {
            let (status, landed) = match running.manner {
                Manner::Heeds => (ResultStatus::Interrupted, true),
                Manner::InAChild | Manner::Ignores => (ResultStatus::Ok, false),
            };
            let heeds = running.manner != Manner::Ignores;
            self.signalled.push(lease);
            if heeds {
                let ends = Happening::Ends(lease, status, landed);
                self.post(now.saturating_add(pause), Mail::Worker(lease.generation, ends));
            }
        }
        verdict
    }

    /// Stops the group of a supervisor, and says what is left; a second time says the same.
    fn stop(&mut self, generation: Generation, lease: Option<Lease>) -> GroupOutcome {
        let Some(supervisor) = self.supervisors.get_mut(&generation) else {
            return GroupOutcome::AlreadyExited;
        };
        if let Some(outcome) = lease.and_then(|lease| supervisor.stops.get(&lease)) {
            return outcome.clone();
        }
        let outcome = if supervisor.gone.is_some() {
            GroupOutcome::AlreadyExited
        } else if supervisor.unkillable {
            GroupOutcome::Alive { left: Vec::new() }
        } else {
            GroupOutcome::ExitedOnTerm
        };
        if let Some(lease) = lease {
            supervisor.stops.insert(lease, outcome.clone());
            self.signalled.push(lease);
        }
        if outcome.is_gone() && supervisor.gone.is_none() {
            supervisor.gone = Some((Exit::Stopped, supervisor.running.as_ref().map(|running| running.begun)));
            supervisor.running = None;
        }
        outcome
    }

    /// A worker does something by itself. Gives the lease that began to run, if one did.
    pub fn happen(&mut self, now: u64, epoch: u64, by: Generation, happening: &Happening) -> Option<Lease> {
        let supervisor = self.supervisors.get_mut(&by).filter(|supervisor| supervisor.gone.is_none())?;
        match happening {
            Happening::Up => {
                supervisor.up = true;
                self.tell_kernel(now, epoch, by, KernelReport::Ready(KernelProcess::default()));
            }
            Happening::Broken => {
                supervisor.gone = Some((Exit::Code(1), None));
                let reason = String::from("no such module");
                self.tell_kernel(now, epoch, by, KernelReport::StartFailed { reason, unavailable: false });
            }
            Happening::Begins(lease) => {
                let running = supervisor.running.as_mut().filter(|running| running.lease == *lease)?;
                running.begun = true;
                let begun = self.begun.entry(lease.ticket).or_default();
                *begun = begun.saturating_add(1);
                self.tell_execution(now, epoch, *lease, ExecutionReport::Acknowledged);
                self.draw_an_end(now, *lease);
                return Some(*lease);
            }
            Happening::Ends(lease, status, interrupt_landed) => {
                supervisor.running.take_if(|running| running.lease == *lease)?;
                let report = ExecutionReport::Result {
                    status: *status,
                    interrupt_landed: *interrupt_landed,
                    record: BlobRef { hash: [0; 32], length: 0 },
                    output: Output::default(),
                };
                supervisor.held.insert(*lease, report.clone());
                self.tell_execution(now, epoch, *lease, report);
            }
            Happening::Dies => {
                let began = supervisor.running.take().map(|running| running.begun);
                let exit = Exit::Signal { signal: 11, out_of_memory: false };
                supervisor.gone = Some((exit.clone(), began));
                let gone = KernelReport::Gone { exit, while_down: false, began, output: None, left: None };
                self.tell_kernel(now, epoch, by, gone);
            }
        }
        None
    }

    /// How and when a cell ends by itself; with faults some never do.
    fn draw_an_end(&mut self, now: u64, lease: Lease) {
        let (kind, short, long) = (self.rng.below(20), self.rng.below(300), self.rng.below(30_000));
        let (pause, happening) = match kind {
            0 if self.faults => return,
            1 if self.faults => (long, Happening::Dies),
            2..=4 => (short, Happening::Ends(lease, ResultStatus::Error, false)),
            5..=8 if self.faults => (long, Happening::Ends(lease, ResultStatus::Ok, false)),
            _ => (short, Happening::Ends(lease, ResultStatus::Ok, false)),
        };
        self.post(now.saturating_add(pause), Mail::Worker(lease.generation, happening));
    }

    /// From here on nothing goes wrong any more, and what would never end does.
    pub fn heal(&mut self, now: u64) {
        self.faults = false;
        let running: Vec<Lease> = self
            .supervisors
            .values()
            .filter_map(|supervisor| Some(supervisor.running.as_ref()?.lease))
            .collect();
        for lease in running {
            let ends = Happening::Ends(lease, ResultStatus::Ok, false);
            self.post(now.saturating_add(200), Mail::Worker(lease.generation, ends));
        }
    }

    /// A supervisor dies with its worker. The daemon, if one is there, sees the connection end.
    pub fn kill_one(&mut self, now: u64, epoch: u64) {
        let all: Vec<Generation> = self.supervisors.keys().copied().collect();
        let Some(generation) = self.rng.pick(&all).copied() else { return };
        let exit = Exit::Unknown { evidence: String::from("its supervisor is gone") };
        let gone = KernelReport::Gone { exit, while_down: false, began: None, output: None, left: None };
        self.tell_kernel(now, epoch, generation, gone);
        self.supervisors.remove(&generation);
    }

    /// The machine loses its power.
    pub fn reboot(&mut self) {
        self.supervisors.clear();
        self.mail.clear();
    }

    /// What a restarted daemon finds where a kernel should be, in the order of the wire: what the
    /// supervisor holds, and what it has to say of its worker.
    #[must_use]
    pub fn attach(&self, generation: Generation, lease: Option<Lease>) -> Vec<Report> {
        let Some(supervisor) = self.supervisors.get(&generation) else {
            let exit = Exit::Unknown { evidence: String::from("its supervisor is gone") };
            return vec![Report::Kernel(KernelReport::Gone {
                exit,
                while_down: true,
                began: None,
                output: None,
                left: None,
            })];
        };
        let mut reports = vec![Report::Kernel(KernelReport::Reattached)];
        if supervisor.up {
            reports.push(Report::Kernel(KernelReport::Ready(KernelProcess::default())));
        }
        if let Some(lease) = lease {
            if supervisor.running.as_ref().is_some_and(|running| running.lease == lease && running.begun) {
                reports.push(Report::Execution(lease, ExecutionReport::Acknowledged));
            }
            let verdicts = supervisor.verdicts.iter().filter(|((of, _), _)| *of == lease);
            reports.extend(verdicts.map(|((_, attempt), verdict)| {
                let (attempt, verdict) = (*attempt, verdict.clone());
                Report::Execution(lease, ExecutionReport::Interrupt { attempt, verdict })
            }));
            reports.extend(supervisor.held.get(&lease).map(|held| Report::Execution(lease, held.clone())));
            reports.extend(supervisor.stops.get(&lease).map(|outcome| {
                let outcome = outcome.clone();
                Report::Execution(lease, ExecutionReport::Stopped { outcome, output: None })
            }));
        }
        if let Some((exit, began)) = &supervisor.gone {
            let (exit, began) = (exit.clone(), *began);
            reports.push(Report::Kernel(KernelReport::Gone {
                exit,
                while_down: true,
                began,
                output: None,
                left: None,
            }));
        }
        reports
    }

    /// Who executes a cell of this session right now.
    pub fn executing(&self, session: &SessionId) -> impl Iterator<Item = Lease> {
        let of_session = self.supervisors.values().filter(move |supervisor| supervisor.session == *session);
        of_session
            .filter_map(|supervisor| supervisor.running.as_ref())
            .filter(|running| running.begun)
            .map(|r| r.lease)
    }

    /// The session of a supervisor.
    #[must_use]
    pub fn session_of(&self, generation: Generation) -> Option<&SessionId> {
        self.supervisors.get(&generation).map(|supervisor| &supervisor.session)
    }

    /// What no obligation names is left over from a decision whose effect a crash swallowed: it is
    /// stopped and forgotten.
    pub fn sweep(&mut self, wanted: &[Generation]) {
        let left: Vec<Generation> =
            self.supervisors.keys().filter(|generation| !wanted.contains(generation)).copied().collect();
        for generation in left {
            if self.stop(generation, None).is_gone() {
                self.supervisors.remove(&generation);
            }
        }
    }
}

/// What a supervisor says on attachment.
#[derive(Clone, Debug)]
pub enum Report {
    /// Of its kernel.
    Kernel(KernelReport),
    /// Of an execution.
    Execution(Lease, ExecutionReport),
}
