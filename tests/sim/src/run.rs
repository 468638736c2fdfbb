//! One run: a daemon that may die between any two steps, its durable log, and the clock.

use std::collections::{BTreeMap, VecDeque};

use agarose_core::{
    Answer, Command, Context, Effect, Event, Generation, Millis, Owner, Policy, SessionId, Stamp, TicketId,
    World, event::DaemonStarted,
};

use crate::{
    invariants::{p1, p2, p3, p4, p5, p7},
    outside::{Mail, Outside, Report},
    rng::Rng,
    workload,
};

/// What a run came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// A hash of every durable event with its stamp.
    pub hash: u64,
    /// How often each kind of event is in the log, and what else is worth counting.
    pub counts: BTreeMap<String, u64>,
}

/// Something that leaves the daemon behind the durable mark.
#[derive(Clone, Debug)]
enum Leaving {
    Accepted(TicketId),
    Cancelled(TicketId),
    Effect(Effect),
    Ended(TicketId, agarose_core::Word),
}

/// A decision that is appended and not durable.
struct Appended {
    at: Stamp,
    events: Vec<Event>,
    leaving: Vec<Leaving>,
}

struct Daemon {
    /// The tentative world: what is appended.
    world: World,
    appended: VecDeque<Appended>,
    leaving: VecDeque<Leaving>,
}

struct Sim {
    rng: Rng,
    now: Stamp,
    log: Vec<(Stamp, Event)>,
    daemon: Option<Daemon>,
    /// Which start of a daemon this is.
    epoch: u64,
    outside: Outside,
    told: p1::Told,
    tickets: u64,
    decisions: u64,
    counts: BTreeMap<String, u64>,
}

const SAFETY_STEPS: u64 = 1_500;
const HEALING_STEPS: u64 = 20_000;

/// Lives through a seed.
///
/// # Errors
/// The promise that was broken, and when.
pub fn run(seed: u64) -> Result<Outcome, String> {
    let mut sim = Sim {
        rng: Rng::new(seed),
        now: Stamp { wall: 1_700_000_000_000, mono: 0 },
        log: Vec::new(),
        daemon: None,
        epoch: 0,
        outside: Outside::new(seed ^ 0x5eed),
        told: p1::Told::default(),
        tickets: 0,
        decisions: 0,
        counts: BTreeMap::new(),
    };
    let happened = sim.live();
    happened.map_err(|broken| format!("{broken}\n{}", sim.tail()))?;
    Ok(sim.outcome())
}

impl Sim {
    fn live(&mut self) -> Result<(), String> {
        for _ in 0..SAFETY_STEPS {
            self.step()?;
        }
        self.heal()?;
        self.look_back()?;
        self.recover_twice()
    }

    fn step(&mut self) -> Result<(), String> {
        let roll = self.rng.below(200);
        if self.daemon.is_none() {
            return match roll {
                0..60 => self.start(),
                60..140 => self.deliver(),
                _ => self.pass(),
            };
        }
        match roll {
            0..50 => self.deliver(),
            50..90 => self.leave(),
            90..120 => self.commit(),
            120..146 => self.request(),
            146..156 => self.tick(),
            156..194 => self.pass(),
            194..196 => {
                self.outside.kill_one(self.now.mono, self.epoch);
                Ok(())
            }
            196 if self.rng.percent(20) => {
                self.count("reboots");
                self.daemon = None;
                self.outside.reboot();
                Ok(())
            }
            _ => {
                self.count("crashes");
                self.daemon = None;
                Ok(())
            }
        }
    }

    fn count(&mut self, what: &str) {
        let count = self.counts.entry(what.to_owned()).or_default();
        *count = count.saturating_add(1);
    }

    fn pass(&mut self) -> Result<(), String> {
        // To the next thing that is due, or a little, or (seldom) far.
        let due =
            [self.outside.next_mail(), self.daemon.as_ref().and_then(|daemon| daemon.world.next_deadline())];
        let next = due.into_iter().flatten().min().map_or(0, |at| at.saturating_sub(self.now.mono));
        let pause = match self.rng.below(20) {
            0 => self.rng.below(30_000),
            1..=12 => next,
            _ => self.rng.below(200),
        };
        self.forward(pause);
        Ok(())
    }

    fn forward(&mut self, pause: u64) {
        let Stamp { wall, mono } = self.now;
        self.now = Stamp { wall: wall.saturating_add(pause), mono: mono.saturating_add(pause) };
    }

    /// One letter that has arrived reaches whom it is for.
    fn deliver(&mut self) -> Result<(), String> {
        let (now, epoch) = (self.now.mono, self.epoch);
        match self.outside.arrived(now) {
            None => Ok(()),
            Some(Mail::Daemon { epoch: to, command }) if to == epoch && self.daemon.is_some() => {
                self.decide(&command)
            }
            Some(Mail::Daemon { .. }) => Ok(()),
            Some(Mail::Supervisor(to, request)) => {
                self.outside.serve(now, epoch, to, &request);
                for lease in std::mem::take(&mut self.outside.signalled) {
                    p4::delivered(lease, &self.log)?;
                }
                Ok(())
            }
            Some(Mail::Worker(by, happening)) => {
                let begun = self.outside.happen(now, epoch, by, &happening);
                let session = self.outside.session_of(by).cloned();
                if let (Some(lease), Some(session)) = (begun, session) {
                    p3::check(&self.outside, &session, lease, &self.log)?;
                    p5::check(&self.outside.begun, &[])?;
                }
                Ok(())
            }
        }
    }

    fn request(&mut self) -> Result<(), String> {
        self.tickets = self.tickets.saturating_add(1);
        let fresh = TicketId(u128::from(self.tickets));
        let Some(daemon) = &self.daemon else { return Ok(()) };
        let command = workload::request(&mut self.rng, &daemon.world, fresh);
        self.decide(&command)
    }

    /// Decides on the tentative world and appends.
    fn decide(&mut self, command: &Command) -> Result<(), String> {
        let now = self.now;
        let Some(daemon) = &mut self.daemon else { return Ok(()) };
        self.decisions += 1;
        // Far from the requests' own, and far from each other.
        let context = Context { now, fresh: TicketId((1 << 100) + (u128::from(self.decisions) << 16)) };
        let Ok(decision) = daemon.world.decide(command, context) else {
            self.count("refusals");
            return Ok(());
        };
        for event in &decision.events {
            daemon.world.apply(now, event);
        }
        daemon.world.check()?;
        let mut leaving: Vec<Leaving> = match (&decision.answer, command) {
            (Answer::Ticket { ticket, .. }, _) => vec![Leaving::Accepted(*ticket)],
            (Answer::Cancel(_), Command::Cancel(cancel)) => vec![Leaving::Cancelled(cancel.ticket)],
            _ => Vec::new(),
        };
        for event in &decision.events {
            if let Event::TicketEnded(ended) = event {
                leaving.push(Leaving::Ended(ended.ticket, ended.word));
            }
            leaving.extend(daemon.world.effects(event).into_iter().map(Leaving::Effect));
        }
        if *command == Command::Tick && daemon.world.next_deadline().is_some_and(|at| at <= now.mono) {
            return Err(String::from("after a tick the next deadline is in the past"));
        }
        if !decision.events.is_empty() || !leaving.is_empty() {
            daemon.appended.push_back(Appended { at: now, events: decision.events, leaving });
        }
        Ok(())
    }

    fn tick(&mut self) -> Result<(), String> {
        let due = self.daemon.as_ref().and_then(|daemon| daemon.world.next_deadline());
        if due.is_some_and(|at| at <= self.now.mono) { self.decide(&Command::Tick) } else { Ok(()) }
    }

    /// A group commit takes all that waits.
    fn commit(&mut self) -> Result<(), String> {
        let Some(daemon) = &mut self.daemon else { return Ok(()) };
        for appended in daemon.appended.drain(..) {
            self.log.extend(appended.events.into_iter().map(|event| (appended.at, event)));
            daemon.leaving.extend(appended.leaving);
        }
        Ok(())
    }

    /// One thing leaves the daemon, in order.
    fn leave(&mut self) -> Result<(), String> {
        let Some(leaving) = self.daemon.as_mut().and_then(|daemon| daemon.leaving.pop_front()) else {
            return Ok(());
        };
        match leaving {
            Leaving::Accepted(ticket) => self.told.accepted(ticket),
            Leaving::Cancelled(ticket) => self.told.cancelled(ticket),
            Leaving::Ended(ticket, word) => self.told.ended(ticket, word)?,
            Leaving::Effect(effect) => {
                p2::check(&self.log, &effect)?;
                self.outside.perform(self.now.mono, effect);
            }
        }
        Ok(())
    }

    /// A daemon starts on what is durable: it looks at what was in flight, then goes on.
    fn start(&mut self) -> Result<(), String> {
        self.look_back()?;
        let cut = usize::try_from(self.rng.below(u64::try_from(self.log.len()).unwrap_or(0))).unwrap_or(0);
        let world = p7::fold(&self.log, cut)?;
        self.epoch = self.epoch.saturating_add(1);
        self.daemon = Some(Daemon { world, appended: VecDeque::new(), leaving: VecDeque::new() });
        self.decide(&Command::StartDaemon(DaemonStarted {
            version: String::from("sim"),
            boot: String::from("sim"),
            pid: 1,
            uptime: 0,
            found: Vec::new(),
            policy: Policy { queue_cap: 6, kernel_idle: Some(Millis(50_000)), ..Policy::default() },
        }))?;
        for command in self.found() {
            let at = self.now.mono.saturating_add(self.rng.below(30));
            self.outside.post(at, Mail::Daemon { epoch: self.epoch, command });
        }
        Ok(())
    }

    /// What looking at everything in flight says, and that every session is to go on.
    fn found(&mut self) -> Vec<Command> {
        let Some(daemon) = &self.daemon else { return Vec::new() };
        let obligations = daemon.world.in_flight();
        let wanted: Vec<Generation> = obligations.iter().map(|obligation| obligation.generation).collect();
        self.outside.sweep(&wanted);
        let mut commands = Vec::new();
        for obligation in obligations {
            let (language, generation) = (obligation.language, obligation.generation);
            for report in self.outside.attach(generation, obligation.lease) {
                let session = obligation.session.clone();
                commands.push(match report {
                    Report::Kernel(report) => Command::Kernel { session, language, generation, report },
                    Report::Execution(lease, report) => Command::Execution { session, lease, report },
                });
            }
        }
        let sessions: Vec<SessionId> = daemon.world.sessions().keys().cloned().collect();
        commands.extend(sessions.into_iter().map(|session| Command::Settle { session }));
        commands
    }

    /// Nothing goes wrong any more, all doors open, and everything must end.
    fn heal(&mut self) -> Result<(), String> {
        self.outside.heal(self.now.mono);
        let was_stopping = self.daemon.as_ref().is_some_and(|daemon| !daemon.world.admitting());
        if self.daemon.is_none() || was_stopping {
            self.start()?;
        }
        self.decide(&Command::Resume { session: None, by: Owner::system() })?;
        let sessions: Vec<SessionId> =
            self.daemon.iter().flat_map(|daemon| daemon.world.sessions().keys().cloned()).collect();
        for session in sessions {
            self.decide(&Command::Resume { session: Some(session), by: Owner::system() })?;
        }
        for _ in 0..HEALING_STEPS {
            self.commit()?;
            let Some(daemon) = &self.daemon else { return Err(String::from("the daemon is gone")) };
            if !daemon.leaving.is_empty() {
                self.leave()?;
            } else if daemon.world.open_tickets() == 0 {
                return Ok(());
            } else if self.outside.next_mail().is_some_and(|at| at <= self.now.mono) {
                self.deliver()?;
            } else if daemon.world.next_deadline().is_some_and(|at| at <= self.now.mono) {
                self.decide(&Command::Tick)?;
            } else {
                let due = [self.outside.next_mail(), daemon.world.next_deadline()];
                let Some(at) = due.into_iter().flatten().min() else {
                    return Err(self.stuck("nothing is under way any more"));
                };
                self.forward(at.saturating_sub(self.now.mono));
            }
        }
        Err(self.stuck("it goes on for ever"))
    }

    fn stuck(&self, why: &str) -> String {
        let sessions = self.daemon.iter().flat_map(|daemon| daemon.world.sessions().values());
        let open: Vec<String> =
            sessions.filter(|room| !room.tickets.is_empty()).map(|room| format!("{room:#?}")).collect();
        format!("open tickets never end ({why}):\n{}", open.join("\n"))
    }

    /// The promises that are looked at in the log as a whole.
    fn look_back(&self) -> Result<(), String> {
        self.told.check(&self.log)?;
        p4::check(&self.log)?;
        p5::check(&self.outside.begun, &self.log)
    }

    /// Looking at everything a second time appends nothing, but for asking again what has no answer.
    fn recover_twice(&mut self) -> Result<(), String> {
        self.daemon = None;
        self.start()?;
        for round in 0..2 {
            for command in self.found() {
                self.decide(&command)?;
            }
            let first = self.log.len();
            self.commit()?;
            let again = |(_, event): &&(Stamp, Event)| !matches!(event, Event::KernelReattached { .. });
            match self.log.iter().skip(first).find(again) {
                Some((_, event)) if round == 1 => {
                    return Err(format!("a second recovery appended {event:?}"));
                }
                Some(_) | None => {}
            }
        }
        Ok(())
    }

    fn tail(&self) -> String {
        let last = self.log.iter().rev().take(25).rev();
        last.map(|(at, event)| format!("{:>8} {event:?}", at.mono)).collect::<Vec<_>>().join("\n")
    }

    fn outcome(mut self) -> Outcome {
        // FNV-1a over what is written down.
        let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
        let log = std::mem::take(&mut self.log);
        for entry in &log {
            let bytes = bincode::serde::encode_to_vec(entry, bincode::config::standard()).unwrap_or_default();
            for byte in bytes {
                hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
            }
            self.count(entry.1.name());
            if let Event::TicketEnded(ended) = &entry.1 {
                self.count(&format!("ended {}", ended.word.as_str()));
            }
        }
        Outcome { hash, counts: self.counts }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_hundred_seeds_keep_every_promise_and_meet_every_event() {
        let mut met: BTreeMap<String, u64> = BTreeMap::new();
        for seed in 0..300 {
            let outcome = run(seed).unwrap_or_else(|broken| panic!("seed {seed}: {broken}"));
            for (what, count) in outcome.counts {
                *met.entry(what).or_default() += count;
            }
        }
        // What no seed ever met was not tested.
        for kind in [
            "crashes",
            "reboots",
            "refusals",
            "KernelStartFailed",
            "KernelReattached",
            "SessionRemoved",
            "GroupStopped",
            "LadderEnded",
            "PermissionExpired",
            "PermissionDecided",
            "ended completed",
            "ended failed",
            "ended interrupted",
            "ended cancelled",
            "ended timed_out",
            "ended refused",
            "ended lost",
        ] {
            assert!(met.contains_key(kind), "no seed met {kind}: {met:#?}");
        }
    }

    #[test]
    fn a_seed_gives_the_same_log_twice() {
        for seed in 1_000..1_040 {
            assert_eq!(run(seed), run(seed), "seed {seed}");
        }
    }
}
