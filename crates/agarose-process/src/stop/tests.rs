//! The stop against processes that do what real ones can hardly be made to do.

use super::*;

/// A process that goes on the signals in `goes_on`, and is asked in vain with `refuses`.
struct Simulated {
    process: ProcessState,
    goes_on: &'static [Signal],
    refuses: Option<Errno>,
    there: bool,
    heard: Vec<Signal>,
}

impl Simulated {
    fn new(pid: i32, state: char, goes_on: &'static [Signal]) -> Self {
        let process = ProcessState {
            id: ProcessId { pid, start_time: 1 },
            parent: 1,
            group: 10,
            state,
            command: "cell".into(),
        };
        Self { process, goes_on, refuses: None, there: true, heard: Vec::new() }
    }
}

struct World(Vec<Simulated>);

impl Group for World {
    fn list(&mut self) -> Vec<ProcessState> {
        self.0.iter().filter(|one| one.there).map(|one| one.process.clone()).collect()
    }

    fn signal(&mut self, process: &ProcessState, signal: Signal) -> Result<(), SignalError> {
        let one = self.0.iter_mut().find(|one| one.process.id == process.id).unwrap();
        if let Some(errno) = one.refuses {
            return Err(SignalError::Refused(errno));
        }
        one.heard.push(signal);
        one.there &= !one.goes_on.contains(&signal);
        Ok(())
    }

    fn signal_together(&mut self, signal: Signal) -> bool {
        let group: Vec<ProcessState> =
            self.list().into_iter().filter(|process| !self.escaped(process)).collect();
        group.iter().filter(|process| self.signal(process, signal).is_ok()).count() > 0
    }

    fn escaped(&self, process: &ProcessState) -> bool {
        process.group != 10
    }
}

/// Runs a stop with graces of 5 and 10 s on a clock that jumps to each probe.
fn run(world: &mut World) -> StopOutcome {
    let mut now = Instant::now();
    let end = now + Duration::from_secs(20);
    let mut stop = match Stop::begin(world, Duration::from_secs(5), Duration::from_secs(10), now) {
        Ok(stop) => stop,
        Err(outcome) => return outcome,
    };
    loop {
        now = stop.next_probe();
        assert!(now < end, "the stop goes on beyond its graces");
        if let Some(outcome) = stop.step(world, now) {
            return outcome;
        }
    }
}

const BOTH: &[Signal] = &[Signal::SIGTERM, Signal::SIGKILL];

#[test]
fn nothing_to_stop_is_said_to_have_exited_already() {
    assert_eq!(run(&mut World(vec![])).end, StopEnd::AlreadyExited);
}

#[test]
fn what_leaves_on_term_is_not_killed() {
    let outcome = run(&mut World(vec![Simulated::new(10, 'S', BOTH), Simulated::new(11, 'R', BOTH)]));
    assert_eq!((outcome.end, outcome.killed_count), (StopEnd::ExitedOnTerm, 0));
}

#[test]
fn only_what_ignores_term_is_named_as_killed() {
    let mut world = World(vec![Simulated::new(10, 'S', BOTH), Simulated::new(11, 'R', &[Signal::SIGKILL])]);
    let outcome = run(&mut world);
    assert_eq!(outcome.end, StopEnd::Killed);
    assert_eq!(outcome.killed.iter().map(|process| process.id.pid).collect::<Vec<_>>(), [11]);
}

#[test]
fn a_process_in_uninterruptible_sleep_is_said_to_be_alive_with_its_state() {
    let mut world = World(vec![Simulated::new(10, 'D', &[])]);
    let outcome = run(&mut world);
    let StopEnd::AliveAfterKill { left } = outcome.end else { panic!("{:?}", outcome.end) };
    assert_eq!((left[0].id.pid, left[0].state), (10, 'D'));
}

#[test]
fn a_process_that_we_may_not_signal_is_said_to_be_that_with_the_error() {
    let mut world = World(vec![Simulated::new(10, 'S', BOTH)]);
    world.0[0].refuses = Some(Errno::EPERM);
    let outcome = run(&mut world);
    let StopEnd::CouldNotSignal { errno, left } = outcome.end else { panic!("{:?}", outcome.end) };
    assert_eq!((errno, left.len()), (Errno::EPERM as i32, 1));
}

#[test]
fn a_stopped_process_is_continued_so_that_it_hears_term_and_hears_it_once() {
    let mut world = World(vec![Simulated::new(10, 'T', &[Signal::SIGCONT])]);
    assert_eq!(run(&mut world).end, StopEnd::ExitedOnTerm);
    assert_eq!(world.0[0].heard, [Signal::SIGTERM, Signal::SIGCONT]);
}

#[test]
fn what_left_the_group_is_signalled_too_and_counted() {
    let mut world = World(vec![Simulated::new(12, 'S', BOTH)]);
    world.0[0].process.group = 12;
    let outcome = run(&mut world);
    assert_eq!((outcome.end, outcome.escaped_count), (StopEnd::ExitedOnTerm, 1));
}
