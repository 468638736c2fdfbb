//! What daemons ask, and what they are told.

use std::{
    os::unix::net::UnixStream,
    time::{Duration, Instant},
};

use agarose_process::{ProcessId, StopOutcome};

use super::{
    Attached, Call, Connection, Current, ExecutionId, FinalCause, Follow, FrameError, FromSupervisor, Life,
    NobodyReached, REMEMBERED, Supervisor, ToWorker, WorkerState,
};
use crate::{
    spool::{Piece, Stream},
    wire::{
        Channel, PROTOCOL,
        frame::{BODY_LIMIT, Limits},
        supervisor::{CHUNK_LIMIT, ExecuteRefusal, Gap, ToSupervisor},
    },
};

impl Supervisor {
    pub(super) fn accept(&mut self) {
        while self.strangers.len() < super::STRANGERS {
            let Ok((stream, _)) = self.listener.accept() else {
                return;
            };
            self.meet(stream);
        }
    }

    fn meet(&mut self, stream: UnixStream) {
        match Connection::of_stranger(stream, Instant::now()) {
            Some(stranger) => {
                self.strangers.push(stranger);
                // Most say who they are with their first breath.
                self.hear_stranger(self.strangers.len() - 1);
            }
            None => self.log.note("a connection of another user was closed"),
        }
    }

    pub(super) fn hear_stranger(&mut self, index: usize) {
        let mut buffer = std::mem::take(&mut self.buffer);
        let Some(stranger) = self.strangers.get_mut(index) else {
            self.buffer = buffer;
            return;
        };
        let read = stranger.read(&mut buffer);
        self.buffer = buffer;
        if !read {
            // Whether it is closed is looked at when the round is over, so that the numbers of
            // the others stay valid.
            return;
        }
        let attach = match stranger.decoder.next_frame() {
            Ok(None) => return,
            Ok(Some(frame)) => frame.message::<ToSupervisor>(),
            Err(error) => Err(error),
        };
        // The daemon that we have may have hung up before this one called.
        self.hear_daemon();
        let peer = self.strangers.get(index).and_then(|stranger| stranger.peer);
        let refusal = match attach {
            Ok(attach) => self.refusal(&attach, peer),
            Err(error) => Some(error.to_string()),
        };
        let Some(stranger) = self.strangers.get_mut(index) else {
            return;
        };
        match refusal {
            Some(reason) => {
                stranger.refuse(&reason);
                self.log.note(&format!("a connection was refused: {reason}"));
            }
            None => {
                // The others keep their places until the round is over.
                let mut daemon = self.strangers.swap_remove(index);
                daemon.decoder.set_limits(Limits::WITH_SOURCE);
                self.daemon = Some(daemon);
                self.welcome();
            }
        }
    }

    /// Why the process `peer` that sends this is not taken.
    fn refusal(&self, message: &ToSupervisor, peer: Option<ProcessId>) -> Option<String> {
        let ToSupervisor::Attach { protocol, generation, secret, .. } = message else {
            return Some("the first message is not attach".to_owned());
        };
        if *protocol != PROTOCOL {
            return Some(format!("protocol {protocol} is not spoken here, but {PROTOCOL}"));
        }
        if *generation != self.spec.generation {
            return Some(format!("this is generation {}, not {generation}", self.spec.generation));
        }
        if !same_secret(secret, &self.spec.secret) {
            return Some("the secret is wrong".to_owned());
        }
        if self.leaving.is_some() {
            return Some("the supervisor is leaving".to_owned());
        }
        // One that has died, or that calls again, may have left its old end to a child.
        let taken = self
            .daemon
            .as_ref()
            .is_some_and(|daemon| daemon.is_open() && daemon.peer != peer && daemon.peer_is_running());
        taken.then(|| "another daemon is attached".to_owned())
    }

    /// Tells a new daemon where things stand, and what it may have missed.
    fn welcome(&mut self) {
        self.claimed = true;
        let alone = Instant::now().saturating_duration_since(self.alone_since);
        self.follow = None;
        let state = match (&self.life, &self.current) {
            (Life::Starting { .. }, _) => WorkerState::Starting,
            (Life::Up, None) => WorkerState::Idle,
            (Life::Up, Some(_)) => WorkerState::Busy,
            (Life::Stopping(_) | Life::Stuck | Life::Gone, _) => WorkerState::Gone,
        };
        let attached = Attached {
            boot_id: self.processes.boot_id.clone(),
            supervisor: self.processes.supervisor,
            worker: self.processes.worker,
            state,
            executing: self.current.as_ref().map(|current| current.id),
            started: self.current.as_ref().is_some_and(|current| current.started),
            verdicts: self.verdicts.iter().cloned().collect(),
            ended: self.ended.iter().map(|ended| ended.result.id).collect(),
            host_calls: self.calls.iter().map(|call| call.call.clone()).collect(),
            kernel_end: self.spool.kernel_end(),
            alone_ms: u64::try_from(alone.as_millis()).unwrap_or(u64::MAX),
            confinement: self.worker.as_ref().map(|worker| worker.confinement.clone()).unwrap_or_default(),
        };
        self.tell_daemon(&FromSupervisor::Attached(attached), &[]);
        if let Some(ready) = self.ready.clone() {
            self.tell_daemon(&FromSupervisor::Ready(ready), &[]);
        }
        if let Some(id) = self.current.as_ref().filter(|current| current.started).map(|current| current.id) {
            self.tell_daemon(&FromSupervisor::Started { id }, &[]);
        }
        let ended: Vec<ExecutionId> = self.ended.iter().map(|ended| ended.result.id).collect();
        for id in ended {
            self.tell_ended(id);
        }
        for index in 0..self.calls.len() {
            // A daemon that had it may have died with it.
            let Some(Call { call, arguments, given_up }) = self.calls.get(index).cloned() else { break };
            let (id, number) = (call.id, call.call);
            let message = FromSupervisor::HostCall { id, call: number, method: call.method };
            self.tell_daemon(&message, &arguments);
            if given_up {
                self.tell_daemon(&FromSupervisor::HostCallGivenUp { id, call: number }, &[]);
            }
        }
        if let Some(end) = self.end.clone() {
            self.tell_daemon(&end, &[]);
        }
        // It may have asked for something in the same breath.
        self.answer_daemon();
    }

    pub(super) fn lose_daemon(&mut self, now: Instant) {
        self.daemon = None;
        self.follow = None;
        self.alone_since = now;
    }

    pub(super) fn hear_daemon(&mut self) {
        let mut buffer = std::mem::take(&mut self.buffer);
        let read = self.daemon.as_mut().is_some_and(|daemon| daemon.read(&mut buffer));
        self.buffer = buffer;
        if read {
            self.answer_daemon();
        }
    }

    fn answer_daemon(&mut self) {
        loop {
            match self.next_from_daemon() {
                Ok(Some((request, body))) => self.on_request(request, &body),
                Ok(None) => return,
                Err(error) => return self.hang_up(&error.to_string()),
            }
        }
    }

    fn next_from_daemon(&mut self) -> Result<Option<(ToSupervisor, Vec<u8>)>, FrameError> {
        let Some(daemon) = self.daemon.as_mut().filter(|daemon| daemon.is_open()) else {
            return Ok(None);
        };
        let Some(frame) = daemon.decoder.next_frame()? else {
            return Ok(None);
        };
        let message: ToSupervisor = frame.message()?;
        if frame.body.len() > BODY_LIMIT && !matches!(message, ToSupervisor::Execute { .. }) {
            let (claimed, limit) = (frame.body.len() as u64, BODY_LIMIT as u64);
            return Err(FrameError::BodyTooLong { claimed, limit });
        }
        Ok(Some((message, frame.body.to_vec())))
    }

    fn hang_up(&mut self, reason: &str) {
        self.log.note(&format!("the daemon's connection was closed: {reason}"));
        if let Some(daemon) = &mut self.daemon {
            daemon.refuse(reason);
        }
    }

    fn on_request(&mut self, request: ToSupervisor, body: &[u8]) {
        if request.generation() != self.spec.generation {
            let reason = format!("this is generation {}, not {}", self.spec.generation, request.generation());
            return self.hang_up(&reason);
        }
        match request {
            ToSupervisor::Attach { .. } => self.hang_up("attach came twice"),
            ToSupervisor::Execute { id, name, ordinal, .. } => self.execute(id, name, ordinal, body),
            ToSupervisor::Interrupt { id, attempt, .. } => self.interrupt(id, attempt),
            ToSupervisor::Stop { id, term_grace_ms, kill_grace_ms, .. } => {
                self.stop(id, Duration::from_millis(term_grace_ms), Duration::from_millis(kill_grace_ms));
            }
            ToSupervisor::Read { id, from, max, .. } => self.read(id, from, max),
            ToSupervisor::Follow { id, on, .. } => self.follow(id, on),
            ToSupervisor::Release { id, .. } => self.release(id),
            ToSupervisor::HostReply { call, ok, .. } => self.host_reply(call, ok, body),
            ToSupervisor::Shutdown { .. } => self.leave_because(FinalCause::Shutdown),
        }
    }

    fn execute(&mut self, id: ExecutionId, name: String, ordinal: u64, source: &[u8]) {
        if let Some(current) = self.current.as_ref().filter(|current| current.id == id) {
            if current.started {
                self.tell_daemon(&FromSupervisor::Started { id }, &[]);
            }
            return;
        }
        if self.ended.iter().any(|ended| ended.result.id == id) {
            return self.tell_ended(id);
        }
        if self.lost.is_some_and(|(lost, _)| lost == id)
            && let Some(end) = self.end.clone()
        {
            return self.tell_daemon(&end, &[]);
        }
        let refusal = match self.life {
            _ if self.released.contains(&id) => Some(ExecuteRefusal::Released),
            Life::Starting { .. } => Some(ExecuteRefusal::NotReady),
            Life::Stopping(_) | Life::Stuck | Life::Gone => Some(ExecuteRefusal::Gone),
            Life::Up if self.current.is_some() => Some(ExecuteRefusal::Busy),
            Life::Up => self.spool.begin(id).err().map(|error| {
                self.log.note(&format!("{id} cannot be held: {error}"));
                ExecuteRefusal::TooManyHeld
            }),
        };
        if let Some(refusal) = refusal {
            return self.tell_daemon(&FromSupervisor::Refused { id, refusal }, &[]);
        }
        // What was printed until now is not this execution's.
        self.take_all_output();
        self.current =
            Some(Current { id, started: false, owed: Vec::new(), last_output: Instant::now(), nudge: None });
        self.tell_worker(&ToWorker::Execute { id, name, ordinal, capture: true }, source);
        // The cell does not wait for this.
        if let Some(worker) = &mut self.worker {
            worker.begin_cell();
        }
    }

    fn interrupt(&mut self, id: ExecutionId, attempt: u32) {
        let given = self.verdicts.iter().find(|verdict| verdict.id == id && verdict.attempt == attempt);
        if let Some(verdict) = given.cloned() {
            return self.tell_daemon(&FromSupervisor::Verdict(verdict), &[]);
        }
        // A result that is on its way already means that there is nobody left to interrupt.
        self.hear_worker();
        let outcome = match (&self.life, &mut self.current) {
            (Life::Up, Some(current)) if current.id == id => {
                if !current.started {
                    if !current.owed.contains(&attempt) {
                        current.owed.push(attempt);
                    }
                    return;
                }
                self.interrupt_worker()
            }
            (Life::Stopping(_), Some(current)) if current.id == id => Err(NobodyReached::Stopping),
            _ if self.ended.iter().any(|ended| ended.result.id == id) => Err(NobodyReached::AlreadyEnded),
            _ if self.released.contains(&id) => Err(NobodyReached::AlreadyEnded),
            (Life::Stuck | Life::Gone, _) => Err(NobodyReached::WorkerGone),
            _ => Err(NobodyReached::NotExecuting),
        };
        self.give_verdict(id, attempt, outcome);
    }

    fn stop(&mut self, id: Option<ExecutionId>, term: Duration, kill: Duration) {
        match self.life {
            Life::Gone | Life::Stuck => {
                let outcome = self.last_stop.clone().unwrap_or_else(StopOutcome::nothing_there);
                self.tell_daemon(&FromSupervisor::Stopped { id, outcome }, &[]);
            }
            Life::Starting { .. } | Life::Up => {
                // The result may be here already, and the next execution must not pay for this one.
                self.hear_worker();
                let executing = self.current.as_ref().map(|current| current.id);
                if let Some(id) = id.filter(|_| id != executing) {
                    return self.tell_daemon(&FromSupervisor::StopRefused { id, executing }, &[]);
                }
                self.asked_to_stop = true;
                self.stop_requests.push(id);
                self.begin_stop(term, kill);
            }
            Life::Stopping(ref mut stop) => {
                stop.hurry(term, Instant::now());
                self.asked_to_stop = true;
                self.stop_requests.push(id);
            }
        }
    }

    fn read(&mut self, id: Option<ExecutionId>, from: u64, max: u64) {
        let stream = match id {
            Some(id) => self.spool.stream(id),
            None => self.spool.kernel(),
        };
        let held = stream.is_some() || id.is_none();
        let Piece { dropped, runs, bytes, next, end } = stream.map_or_else(
            || Piece { next: from, ..Piece::default() },
            |stream| stream.read(from, max.min(CHUNK_LIMIT)),
        );
        let gap = (dropped > 0).then_some(Gap { dropped });
        self.tell_daemon(&FromSupervisor::Chunk { id, from, next, end, gap, runs, held }, &bytes);
        // What is asked for in one breath is written piece by piece.
        self.flush();
    }

    fn follow(&mut self, id: ExecutionId, on: bool) {
        if on {
            let now = Instant::now();
            self.follow = Some(Follow { id, last: now, due: Some(now) });
        } else {
            self.follow = self.follow.take().filter(|follow| follow.id != id);
        }
    }

    pub(super) fn report_progress(&mut self, now: Instant) {
        // A daemon that does not keep up is not told more often than it listens.
        if self.daemon.as_ref().is_none_or(Connection::wants_write) {
            return;
        }
        let Some(follow) = &mut self.follow else {
            return;
        };
        follow.last = now;
        follow.due = None;
        let id = follow.id;
        let Some(stream) = self.spool.stream(id) else {
            return;
        };
        let last_output =
            self.current.as_ref().filter(|current| current.id == id).map(|current| current.last_output);
        let idle = last_output.map_or(Duration::ZERO, |at| now.saturating_duration_since(at));
        let (stdout, stderr) = (stream.seen(Channel::Stdout), stream.seen(Channel::Stderr));
        let idle_ms = u64::try_from(idle.as_millis()).unwrap_or(u64::MAX);
        let message = FromSupervisor::Progress { id, stdout, stderr, end: stream.end(), idle_ms };
        self.tell_daemon(&message, &[]);
    }

    fn release(&mut self, id: ExecutionId) {
        if self.current.as_ref().is_some_and(|current| current.id == id) {
            self.log.note(&format!("{id} was released while the worker has it"));
            return;
        }
        if let Some(stream) = self.spool.stream_mut(id) {
            Stream::release(stream);
            if self.released.len() >= REMEMBERED {
                self.released.pop_front();
            }
            self.released.push_back(id);
        }
        self.ended.retain(|ended| ended.result.id != id);
    }

    fn host_reply(&mut self, call: u64, ok: bool, body: &[u8]) {
        let Some(index) = self.calls.iter().position(|waiting| waiting.call.call == call) else {
            self.log.note(&format!("host call {call} was answered, and does not wait for it"));
            return;
        };
        self.calls.remove(index);
        self.tell_worker(&ToWorker::HostReply { call, ok }, body);
    }
}

/// Compares without telling by its time where the first difference is.
fn same_secret(given: &str, wanted: &str) -> bool {
    let (given, wanted) = (given.as_bytes(), wanted.as_bytes());
    given.len() == wanted.len()
        && given.iter().zip(wanted).fold(0, |differences, (one, other)| differences | (one ^ other)) == 0
}
