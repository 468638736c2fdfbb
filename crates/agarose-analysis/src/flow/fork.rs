//! Where paths part and meet.

use super::{BOUND, ENTRY, FRESH, Flow, Slot, Value, Var};
use crate::symbols::FastMap;

/// Paths that left one point and will meet at another.
#[derive(Default)]
pub(crate) struct Fork {
    mark: usize,
    conditions: u32,
    dead: bool,
    /// Paths that arrived.
    arrived: u32,
    changed: FastMap<Var, (u8, Value, u32)>,
}

impl Fork {
    pub(super) fn at(mark: usize) -> Self {
        Self { mark, ..Self::default() }
    }
}

/// See [`Flow::begin_finally`].
pub(crate) struct Finally {
    dead: bool,
    normal: Vec<(Var, Slot)>,
    mark: usize,
}

impl Flow<'_> {
    /// From here on, paths part.
    pub(crate) fn fork(&mut self) -> Fork {
        let mark = self.trail.len();
        let frame = self.frame();
        let fork = Fork { mark, conditions: frame.conditions, dead: frame.dead, ..Fork::default() };
        frame.conditions += 1;
        fork
    }

    /// The state here is one of those that will meet. The path goes on.
    fn arrive(&mut self, fork: &mut Fork) {
        if self.frame_ref().dead {
            return;
        }
        fork.arrived += 1;
        self.stamp += 1;
        let stamp = self.stamp;
        if !self.spend(1 + self.trail.len() - fork.mark) {
            return;
        }
        for at in fork.mark..self.trail.len() {
            let var = self.trail[at].0;
            if self.stamps[var as usize] == stamp {
                continue;
            }
            self.stamps[var as usize] = stamp;
            let slot = self.slot(var);
            match fork.changed.get(&var).copied() {
                None => {
                    fork.changed.insert(var, (slot.bits, slot.value, 1));
                }
                Some((bits, value, count)) => {
                    let value = self.meet(bits, value, slot);
                    fork.changed.insert(var, (bits | slot.bits, value, count + 1));
                }
            }
        }
    }

    fn meet(&mut self, bits: u8, value: Value, slot: Slot) -> Value {
        if slot.bits & BOUND == 0 {
            value
        } else if bits & BOUND == 0 {
            slot.value
        } else {
            self.union(value, slot.value)
        }
    }

    fn roll_back(&mut self, mark: usize) {
        while self.trail.len() > mark {
            if let Some((var, slot)) = self.trail.pop() {
                self.slots[var as usize] = slot;
            }
        }
    }

    /// This path ends here; the next one starts from where they parted.
    pub(crate) fn end_path(&mut self, fork: &mut Fork) {
        self.arrive(fork);
        self.roll_back(fork.mark);
        self.frame().dead = fork.dead;
    }

    /// All paths have ended: go on from where they meet.
    pub(crate) fn join(&mut self, fork: Fork) {
        self.roll_back(fork.mark);
        self.frame().conditions = fork.conditions;
        if fork.arrived == 0 {
            self.frame().dead = true;
            return;
        }
        self.frame().dead = fork.dead;
        let mut changed: Vec<_> = fork.changed.into_iter().collect();
        changed.sort_unstable_by_key(|(var, _)| *var);
        for (var, (mut bits, mut value, count)) in changed {
            if count < fork.arrived {
                let base = self.slot(var);
                value = self.meet(bits, value, base);
                bits |= base.bits;
            }
            self.set(var, bits, value);
        }
    }

    /// A loop starts. `end_loop` closes it.
    pub(crate) fn begin_loop(&mut self) {
        let breaks = self.fork();
        let normal = self.fork();
        self.frame().loops.push((breaks, normal));
    }

    /// The body has been run once: the loop's normal exits meet. `skippable` when it may run no time at
    /// all, `endless` when only a `break` leaves it.
    pub(crate) fn end_body(&mut self, skippable: bool, endless: bool) {
        let Some((breaks, mut normal)) = self.frame().loops.pop() else { return };
        if endless {
            self.roll_back(normal.mark);
            normal.arrived = 0;
        } else {
            self.end_path(&mut normal);
            if skippable {
                self.end_path(&mut normal);
            }
        }
        self.join(normal);
        self.frame().loops.push((breaks, Fork::default()));
    }

    /// After the `else` part: the breaks meet the rest.
    pub(crate) fn end_loop(&mut self) {
        let Some((mut breaks, _)) = self.frame().loops.pop() else { return };
        self.end_path(&mut breaks);
        self.join(breaks);
    }

    pub(crate) fn loop_break(&mut self) {
        if let Some((mut breaks, normal)) = self.frame().loops.pop() {
            self.arrive(&mut breaks);
            self.frame().loops.push((breaks, normal));
            self.frame().dead = true;
        }
    }

    pub(crate) fn loop_continue(&mut self) {
        if let Some((breaks, mut normal)) = self.frame().loops.pop() {
            self.arrive(&mut normal);
            self.frame().loops.push((breaks, normal));
            self.frame().dead = true;
        }
    }

    /// The function returns here.
    pub(crate) fn leave(&mut self, value: Value) {
        let mut exit = std::mem::take(&mut self.frame().exit);
        self.arrive(&mut exit);
        let frame = self.frame();
        frame.exit = exit;
        frame.results.push(value);
        frame.dead = true;
    }

    /// An exception is raised here.
    pub(crate) fn raise(&mut self) {
        let mut exit = std::mem::take(&mut self.frame().abnormal);
        self.arrive(&mut exit);
        let frame = self.frame();
        frame.abnormal = exit;
        frame.dead = true;
    }

    /// The frame's paths meet at its end.
    pub(super) fn join_exits(&mut self) {
        let mut exit = std::mem::take(&mut self.frame().exit);
        self.arrive(&mut exit);
        let mut abnormal = std::mem::take(&mut self.frame().abnormal);
        if exit.arrived == 0 {
            std::mem::swap(&mut exit, &mut abnormal);
        }
        exit.dead = false;
        self.join(exit);
        self.frame().dead = false;
    }

    /// From here on every state counts, for whoever catches an exception.
    pub(crate) fn watch(&mut self) {
        self.watchers.push(Vec::new());
    }

    /// The states since [`Flow::watch`], each variable's joined with what it was then.
    pub(crate) fn unwatch(&mut self) -> Vec<(Var, u8, Value)> {
        let seen = self.watchers.pop().unwrap_or_default();
        if self.watchers.len() > self.frame_ref().watchers
            && let Some(outer) = self.watchers.last_mut()
        {
            outer.extend_from_slice(&seen);
        }
        self.spend(seen.len());
        let mut states: FastMap<Var, (u8, Value)> = FastMap::default();
        for (var, slot) in seen {
            let joined = match states.get(&var).copied() {
                Some((bits, value)) => (bits | slot.bits, self.meet(bits, value, slot)),
                None => (slot.bits, slot.value),
            };
            states.insert(var, joined);
        }
        let mut states: Vec<_> = states.into_iter().map(|(var, (bits, value))| (var, bits, value)).collect();
        states.sort_unstable_by_key(|(var, ..)| *var);
        states
    }

    /// Takes on any of these states, or stays.
    pub(crate) fn disturb(&mut self, states: &[(Var, u8, Value)]) {
        for (var, bits, value) in states {
            let base = self.slot(*var);
            let value = self.meet(*bits, *value, base);
            self.set(*var, bits | base.bits, value);
        }
    }

    /// A part starts that also runs when an exception is on its way, with the states that this adds; what
    /// the part does not touch is after [`Flow::end_finally`] as it was on the normal path.
    pub(crate) fn begin_finally(&mut self, states: &[(Var, u8, Value)]) -> Finally {
        let dead = self.frame_ref().dead;
        self.frame().dead = false;
        let normal: Vec<(Var, Slot)> = states.iter().map(|(var, ..)| (*var, self.slot(*var))).collect();
        self.disturb(states);
        Finally { dead, normal, mark: self.trail.len() }
    }

    pub(crate) fn end_finally(&mut self, guard: Finally) {
        self.stamp += 1;
        for at in guard.mark..self.trail.len() {
            self.stamps[self.trail[at].0 as usize] = self.stamp;
        }
        for (var, slot) in guard.normal {
            if self.stamps[var as usize] != self.stamp {
                self.set(var, slot.bits, slot.value);
            }
        }
        self.frame().dead |= guard.dead;
    }

    /// This path ends in two meetings at once: `inner` is given up, `outer` is where it arrives.
    pub(crate) fn end_path_into(&mut self, inner: &mut Fork, outer: &mut Fork) {
        self.arrive(outer);
        self.roll_back(inner.mark);
        let frame = self.frame();
        frame.dead = inner.dead;
        frame.conditions = inner.conditions;
    }

    /// No path goes on from here.
    pub(crate) fn drop_path(&mut self, fork: &Fork) {
        self.roll_back(fork.mark);
        self.frame().dead = fork.dead;
    }

    /// Goes on although no path reaches this point: what follows is only possible.
    pub(crate) fn revive(&mut self) {
        self.frame().dead = false;
    }

    /// Everything until [`Flow::certain`] happens on some path only.
    pub(crate) fn uncertain(&mut self) {
        self.frame().conditions += 1;
    }

    pub(crate) fn certain(&mut self) {
        self.frame().conditions -= 1;
    }

    /// Forgets all certainty about the end: nothing is bound on every path.
    pub(super) fn unsettle(&mut self) {
        for var in 0..self.variables.len() as Var {
            let slot = self.slot(var);
            if slot.bits & ENTRY == 0 {
                let value = if slot.bits & BOUND == 0 { FRESH } else { slot.value };
                self.set(var, slot.bits | ENTRY, value);
            }
        }
    }
}
