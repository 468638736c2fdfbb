//! Daemons killed at random moments under load, and what must be true afterwards.
//!
//! Three sessions submit cells that each append one line to a file, and cancel some of them. The
//! daemon is killed again and again. Then it is left alone, and every ticket that was ever
//! acknowledged must have ended once, in order, having run at most once.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, thread,
    time::Duration,
};

use serde_json::Value;

use crate::Lab;

/// What a campaign came to.
#[derive(Debug, Default)]
pub struct Tally {
    /// How often the daemon was killed.
    pub kills: u64,
    /// Tickets that were acknowledged.
    pub acknowledged: u64,
    /// Submits that were cut off before their acknowledgement and sent again under the same key.
    pub repeated: u64,
    /// How the tickets ended.
    pub words: BTreeMap<String, u64>,
}

/// A small generator of numbers that look random and follow from a seed (xorshift64*, Vigna 2016).
#[derive(Clone, Debug)]
pub struct Dice(u64);

impl Dice {
    /// From a seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// A number below `bound`.
    pub const fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % bound
    }
}

const SESSIONS: [&str; 3] = ["a", "b", "c"];

/// One session's client: what it was told, in order.
struct Client {
    session: &'static str,
    dice: Dice,
    submitted: u64,
    /// Acknowledged tickets in order, with the number that their cell writes.
    acknowledged: Vec<(String, u64)>,
    repeated: u64,
}

impl Client {
    /// Submits until the daemon does not answer any more.
    fn work(&mut self, lab: &Lab) {
        loop {
            let number = self.submitted;
            let file = lab.work().join(self.session);
            let code =
                format!("with open({:?}, 'a') as f: f.write('{number}\\n')", file.display().to_string());
            let key = format!("{}-{number}", self.session);
            let arguments = ["submit", "-s", self.session, "-c", &code, "--key", &key, "--json"];
            let outcome = lab.run(arguments);
            match outcome.code {
                0 => {
                    let ticket = outcome.json()["ticket"].as_str().unwrap().to_owned();
                    self.repeated += u64::from(outcome.json()["repeated"] == true);
                    self.acknowledged.push((ticket.clone(), number));
                    self.submitted += 1;
                    if self.dice.below(8) == 0 {
                        let _ = lab.run(["cancel", &ticket, "--owner", "user_repl:tester", "--json"]);
                    }
                }
                // The queue is full: let it drain a little.
                5 => {
                    let waited = lab.run([
                        "wait",
                        &self.acknowledged[self.acknowledged.len() / 2].0,
                        "--timeout",
                        "1s",
                    ]);
                    if waited.code == 3 || waited.code == 1 {
                        return;
                    }
                }
                _ => return,
            }
        }
    }
}

/// Runs a campaign.
///
/// # Panics
/// When a promise is broken; the message names the seed.
#[must_use]
pub fn campaign(seed: u64, rounds: u64) -> Tally {
    let mut lab = Lab::new();
    let mut dice = Dice::new(seed);
    let mut clients: Vec<Client> = SESSIONS
        .iter()
        .map(|session| Client {
            session,
            dice: Dice::new(dice.below(u64::MAX)),
            submitted: 0,
            acknowledged: Vec::new(),
            repeated: 0,
        })
        .collect();
    let mut tally = Tally::default();
    for _ in 0..rounds {
        lab.serve(&[]);
        let moment = Duration::from_millis(dice.below(500));
        let pid = lab.daemon_pid();
        thread::scope(|scope| {
            for client in &mut clients {
                let lab = &lab;
                scope.spawn(move || client.work(lab));
            }
            // The moment of the kill is the experiment's own, not a way to wait for anything.
            thread::sleep(moment);
            crate::signal(pid, nix::sys::signal::Signal::SIGKILL);
        });
        let _ = lab.await_daemon();
        tally.kills += 1;
    }
    lab.serve(&[]);
    for client in &clients {
        tally.acknowledged += client.acknowledged.len() as u64;
        tally.repeated += client.repeated;
        judge(seed, &lab, client, &mut tally);
    }
    lab.run(["log", "verify"]).ok();
    tally
}

fn judge(seed: u64, lab: &Lab, client: &Client, tally: &mut Tally) {
    let session = client.session;
    let tickets: BTreeSet<&String> = client.acknowledged.iter().map(|(ticket, _)| ticket).collect();
    assert_eq!(
        tickets.len(),
        client.acknowledged.len(),
        "seed {seed}: a ticket was given to two requests of {session}"
    );
    let text = fs::read_to_string(lab.work().join(session)).unwrap_or_default();
    let written: Vec<u64> = text.lines().map(|line| line.parse().unwrap()).collect();
    let once: BTreeSet<u64> = written.iter().copied().collect();
    assert_eq!(once.len(), written.len(), "seed {seed}: a cell of {session} ran twice: {written:?}");
    assert!(written.is_sorted(), "seed {seed}: the cells of {session} ran out of order: {written:?}");
    for (ticket, number) in &client.acknowledged {
        let shown: Value = lab.wait(ticket);
        let state = shown["state"].as_str().unwrap().to_owned();
        let ran = fs::read_to_string(lab.work().join(session))
            .unwrap_or_default()
            .lines()
            .any(|line| line == number.to_string());
        match state.as_str() {
            "completed" => assert!(ran, "seed {seed}: {ticket} completed and its cell left nothing"),
            "cancelled" if shown["executed"] == "no" => {
                assert!(!ran, "seed {seed}: {ticket} was cancelled before it ran, and it ran");
            }
            "cancelled" | "interrupted" | "lost" => {}
            other => panic!("seed {seed}: {ticket} ended as {other}: {shown:#}"),
        }
        *tally.words.entry(state).or_default() += 1;
    }
}
