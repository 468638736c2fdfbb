//! The loop: commands in, events out, one sync for all that waited.
//!
//! It runs on a thread of its own and owns the world and the journal; nothing else decides or
//! appends. A round takes everything that waits, decides each command on the tentative world, makes
//! all their events durable with one sync, and only then lets anything out: replies, observers,
//! effects. So nobody is ever told, and nothing is ever done, that a crash could take back.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError, mpsc},
    time::{Duration, Instant},
};

use agarose_core::{
    Command, Context, Effect, Event, Millis, Refusal, Stamp, TicketId, World, attempt::Word,
    command::ExecutionReport, event::DaemonStarted, world::Answer,
};
use agarose_journal::{AppendError, Attachment, Journal, RawEvent, Reader};
use tokio::sync::{oneshot, watch};

use crate::{
    clock::{Clock, fresh_ticket},
    error::RequestError,
    kernels::{Kernels, ToLink},
    snapshot::{self, Base},
};

/// What comes in.
pub(crate) enum Input {
    /// Something to decide.
    Command(Incoming),
    /// Something to look at between two rounds, when all that the world says is durable.
    Query(Question),
    /// Tell when a ticket has its last word; at once when it is not open.
    Wait {
        /// Which.
        ticket: TicketId,
        /// Whom.
        tell: oneshot::Sender<Option<Word>>,
    },
    /// Leave once everything is durable.
    Leave(oneshot::Sender<()>),
}

/// Something to look at.
pub(crate) type Question = Box<dyn FnOnce(&World) + Send>;

/// A command on its way in, with the content that its events name.
pub(crate) struct Incoming {
    pub(crate) command: Box<Command>,
    pub(crate) attachments: Vec<Attachment>,
    pub(crate) reply: Option<oneshot::Sender<Result<Decided, RequestError>>>,
}

impl Incoming {
    /// A command whose answer nobody waits for.
    pub(crate) fn report(command: Command) -> Self {
        Self { command: Box::new(command), attachments: Vec::new(), reply: None }
    }

    /// An acknowledgement says nothing that its supervisor could not say again, so it may wait a
    /// little for company instead of costing a sync of its own.
    fn may_wait(&self) -> bool {
        matches!(
            *self.command,
            Command::Execution { report: ExecutionReport::Acknowledged | ExecutionReport::Active { .. }, .. }
        )
    }
}

/// What a decision came to, once it is durable.
#[derive(Clone, Debug)]
pub(crate) struct Decided {
    pub(crate) answer: Answer,
    /// Where the ticket of the answer stands, if there is one and it is open.
    pub(crate) position: Option<u64>,
    /// Whether it made anything happen.
    pub(crate) changed: bool,
}

/// How long an acknowledgement waits for company.
const COMPANY: Duration = Duration::from_millis(10);
/// The most inputs in one round: a bound on how long the first of them waits.
const ROUND: usize = 1024;
/// Events between two snapshots.
const SNAPSHOT_EVERY: u64 = 20_000;

/// What everybody may read while the loop runs.
#[derive(Debug, Default)]
pub(crate) struct Health {
    read_only: Mutex<Option<String>>,
}

impl Health {
    pub(crate) fn read_only(&self) -> Option<String> {
        self.read_only.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, cause: Option<String>) {
        *self.read_only.lock().unwrap_or_else(PoisonError::into_inner) = cause;
    }
}

pub(crate) struct Driver {
    world: World,
    journal: Journal,
    reader: Reader,
    inbox: mpsc::Receiver<Input>,
    clock: Clock,
    kernels: Kernels,
    durable: watch::Sender<u64>,
    health: Arc<Health>,
    waiters: BTreeMap<TicketId, Vec<oneshot::Sender<Option<Word>>>>,
    base: Base,
}

/// What a loop is made of.
pub(crate) struct Parts {
    pub(crate) world: World,
    /// What `world` was folded onto.
    pub(crate) base: Base,
    pub(crate) journal: Journal,
    pub(crate) inbox: mpsc::Receiver<Input>,
    pub(crate) clock: Clock,
    pub(crate) kernels: Kernels,
    pub(crate) durable: watch::Sender<u64>,
    pub(crate) health: Arc<Health>,
}

/// What one round has come to so far.
#[derive(Default)]
struct Round {
    events: Vec<(Stamp, Event)>,
    attachments: Vec<Attachment>,
    effects: Vec<Effect>,
    decided: Vec<(Incoming, Result<Decided, RequestError>)>,
    queries: Vec<Question>,
    waits: Vec<(TicketId, oneshot::Sender<Option<Word>>)>,
    leave: Option<oneshot::Sender<()>>,
}

impl Driver {
    pub(crate) fn new(parts: Parts) -> Self {
        let Parts { world, base, journal, inbox, clock, kernels, durable, health } = parts;
        let reader = journal.reader();
        Self {
            world,
            journal,
            reader,
            inbox,
            clock,
            kernels,
            durable,
            health,
            waiters: BTreeMap::new(),
            base,
        }
    }

    /// The first event of this start.
    pub(crate) fn start(&mut self, started: DaemonStarted) -> Result<(), String> {
        let mut round = Round::default();
        self.take_command(Incoming::report(Command::StartDaemon(started)), &mut round);
        self.append(&round).map_err(|error| chain(&error))?;
        self.publish(round);
        Ok(())
    }

    /// The folded world, before the loop runs.
    pub(crate) const fn world(&self) -> &World {
        &self.world
    }

    pub(crate) const fn kernels(&mut self) -> &mut Kernels {
        &mut self.kernels
    }

    /// Runs until it is told to leave or nobody is left to tell it anything.
    pub(crate) fn run(mut self) {
        let mut held: Vec<Incoming> = Vec::new();
        let mut held_since = Instant::now();
        loop {
            let patience = self.patience(if held.is_empty() { None } else { Some(held_since) });
            let first = match patience {
                None => self.inbox.recv().map_err(|_| mpsc::RecvTimeoutError::Disconnected),
                Some(patience) => self.inbox.recv_timeout(patience),
            };
            let mut round = Round::default();
            let mut pressing = false;
            match first {
                Ok(input) => pressing |= self.sort(input, &mut held, &mut held_since, &mut round),
                Err(mpsc::RecvTimeoutError::Timeout) => {}
                Err(mpsc::RecvTimeoutError::Disconnected) => break,
            }
            for _ in 0..ROUND {
                let Ok(input) = self.inbox.try_recv() else { break };
                pressing |= self.sort(input, &mut held, &mut held_since, &mut round);
            }
            let now = self.clock.mono();
            let due = self.world.next_deadline().is_some_and(|at| at <= now);
            if !pressing && !due && !held.is_empty() && held_since.elapsed() < COMPANY {
                continue;
            }
            // What was held came first, so it is decided first.
            let newer = std::mem::take(&mut round.decided);
            for incoming in held.drain(..).chain(newer.into_iter().map(|(incoming, _)| incoming)) {
                self.take_command(incoming, &mut round);
            }
            self.tick(&mut round);
            let leave = self.commit(round);
            if let Some(done) = leave {
                self.leave();
                // Whoever asked may have given up waiting.
                let _ = done.send(());
                break;
            }
        }
    }

    /// Puts an input where it belongs; says whether the round has to be made now.
    fn sort(
        &self,
        input: Input,
        held: &mut Vec<Incoming>,
        held_since: &mut Instant,
        round: &mut Round,
    ) -> bool {
        match input {
            Input::Command(incoming) => {
                if incoming.may_wait() && round.decided.is_empty() {
                    if held.is_empty() {
                        *held_since = Instant::now();
                    }
                    held.push(incoming);
                    return false;
                }
                // Decided in its turn; until then the refusal is a place holder.
                round.decided.push((incoming, Err(RequestError::Gone)));
            }
            Input::Query(query) => round.queries.push(query),
            Input::Wait { ticket, tell } => round.waits.push((ticket, tell)),
            Input::Leave(done) => round.leave = Some(done),
        }
        true
    }

    /// How long to wait for input; `None` is for ever.
    fn patience(&self, held_since: Option<Instant>) -> Option<Duration> {
        let deadline =
            self.world.next_deadline().map(|at| Duration::from_millis(at.saturating_sub(self.clock.mono())));
        let company = held_since.map(|since| COMPANY.saturating_sub(since.elapsed()));
        match (deadline, company) {
            (Some(deadline), Some(company)) => Some(deadline.min(company)),
            (one, None) | (None, one) => one,
        }
    }

    fn take_command(&mut self, incoming: Incoming, round: &mut Round) {
        let before = round.events.len();
        let result = match self.decide(&incoming.command, round) {
            Ok(answer) => {
                let position = match &answer {
                    Answer::Ticket { ticket, .. } => {
                        self.world.session_of(*ticket).and_then(|session| session.position(*ticket))
                    }
                    Answer::Done | Answer::Cancel(_) | Answer::Permission(_) | Answer::Call(_) => None,
                };
                round.attachments.extend(incoming.attachments.iter().cloned());
                Ok(Decided { answer, position, changed: round.events.len() > before })
            }
            Err(refusal) => Err(RequestError::Refused(refusal)),
        };
        round.decided.push((incoming, result));
    }

    fn decide(&mut self, command: &Command, round: &mut Round) -> Result<Answer, Refusal> {
        let context = Context { now: self.clock.now(), fresh: fresh_ticket() };
        let decision = self.world.decide(command, context)?;
        for event in &decision.events {
            self.world.apply(context.now, event);
        }
        for event in &decision.events {
            round.effects.extend(self.world.effects(event));
        }
        round.events.extend(decision.events.into_iter().map(|event| (context.now, event)));
        Ok(decision.answer)
    }

    /// Lets time pass as far as it has.
    fn tick(&mut self, round: &mut Round) {
        while self.world.next_deadline().is_some_and(|at| at <= self.clock.mono()) {
            let before = round.events.len();
            if self.decide(&Command::Tick, round).is_err() || round.events.len() == before {
                break;
            }
        }
    }

    fn append(&mut self, round: &Round) -> Result<(), AppendOrEncode> {
        let mut raw = Vec::with_capacity(round.events.len());
        for (stamp, event) in &round.events {
            raw.push(RawEvent::of(event, *stamp)?);
        }
        // Endings, cancellations and the orderly stop may use the reserve on a full disk; new work
        // may not.
        let new_work = round.events.iter().any(|(_, event)| matches!(event, Event::TicketQueued(_)));
        let appended = if new_work {
            self.journal.append(&raw, &round.attachments)
        } else {
            self.journal.append_urgent(&raw, &round.attachments)
        };
        appended.map(drop).map_err(AppendOrEncode::Append)
    }

    /// Makes the round durable and lets it out.
    fn commit(&mut self, mut round: Round) -> Option<oneshot::Sender<()>> {
        let leave = round.leave.take();
        if !round.events.is_empty()
            && let Err(error) = self.append(&round)
        {
            self.fail(round, &error);
            return leave;
        }
        if !round.events.is_empty() && self.health.read_only().is_some() {
            self.health.set(None);
        }
        self.publish(round);
        leave
    }

    /// A round that could not be written: nobody was told of it, so it never happened. What only
    /// ends things is tried once more without the new work that came with it.
    fn fail(&mut self, round: Round, error: &AppendOrEncode) {
        let cause = chain(error);
        tracing::error!(%cause, "a round could not be written");
        self.health.set(Some(cause.clone()));
        if let Err(error) = self.refold() {
            tracing::error!(%error, "the log could not be folded again");
        }
        let mut second = Round { queries: round.queries, waits: round.waits, ..Round::default() };
        let poisoned = matches!(error, AppendOrEncode::Append(AppendError::Poisoned { .. }));
        for (incoming, _) in round.decided {
            if poisoned || matches!(*incoming.command, Command::Submit(_)) {
                refuse(incoming, &cause);
            } else {
                self.take_command(incoming, &mut second);
            }
        }
        let new_work = second.events.iter().any(|(_, event)| matches!(event, Event::TicketQueued(_)));
        if second.events.is_empty() || new_work || self.append(&second).is_ok() {
            if new_work {
                // A kernel that would be stopped for being idle: that can wait for a better disk.
                let _ = self.refold();
                second.events.clear();
                second.effects.clear();
            }
            self.publish(second);
            return;
        }
        let _ = self.refold();
        for (incoming, _) in std::mem::take(&mut second.decided) {
            refuse(incoming, &cause);
        }
        second.events.clear();
        second.effects.clear();
        self.publish(second);
    }

    fn refold(&mut self) -> Result<(), String> {
        self.world = snapshot::fold(&self.reader, &self.base)?;
        Ok(())
    }

    /// Behind the durable mark, in order: the replies, the observers, the effects.
    fn publish(&mut self, round: Round) {
        let head = self.reader.head().sequence;
        for (incoming, result) in round.decided {
            if let Some(reply) = incoming.reply {
                // Whoever asked may be gone; the log has the answer.
                let _ = reply.send(result);
            }
        }
        self.durable.send_if_modified(|durable| {
            let moved = *durable != head;
            *durable = head;
            moved
        });
        for (_, event) in &round.events {
            self.kernels.note(event);
            if let Event::TicketEnded(ended) = event {
                for tell in self.waiters.remove(&ended.ticket).unwrap_or_default() {
                    let _ = tell.send(Some(ended.word));
                }
            }
        }
        for effect in round.effects {
            self.act(effect);
        }
        for (ticket, tell) in round.waits {
            if self.world.session_of(ticket).is_some() {
                let waiting = self.waiters.entry(ticket).or_default();
                waiting.retain(|tell| !tell.is_closed());
                waiting.push(tell);
            } else {
                let _ = tell.send(self.world.recent(ticket).map(|known| known.word));
            }
        }
        for query in round.queries {
            query(&self.world);
        }
        if head.saturating_sub(self.base.sequence) >= SNAPSHOT_EVERY {
            self.write_snapshot(head);
        }
    }

    fn act(&mut self, effect: Effect) {
        match effect {
            Effect::PerformHostCall { .. }
            | Effect::CancelHostCall { .. }
            | Effect::AnswerHostCall { .. } => {
                self.kernels.host().act(&effect);
            }
            Effect::StartKernel { session, language, generation } => {
                let workspace = self.world.sessions().get(&session).and_then(|state| state.workspace.clone());
                self.kernels.start(session, language, generation, workspace);
            }
            Effect::SendExecute { lease, source, name, ordinal, .. } => {
                let heartbeat = self.heartbeat(lease.ticket);
                self.kernels
                    .send(lease.generation, ToLink::Execute { lease, source, name, ordinal, heartbeat });
            }
            Effect::SendInterrupt { lease, attempt, .. } => {
                self.kernels.send(lease.generation, ToLink::Interrupt { lease, attempt });
            }
            Effect::StopGroup { lease, grace, .. } => {
                self.kernels.send(lease.generation, ToLink::Stop { lease: Some(lease), grace });
            }
            Effect::StopKernel { generation, grace, .. } => {
                self.kernels.send(generation, ToLink::Stop { lease: None, grace });
            }
            Effect::ReleaseResult { lease, .. } => {
                self.kernels.send(lease.generation, ToLink::Release { lease });
            }
        }
    }

    /// How long a ticket may be without a sign of life.
    pub(crate) fn heartbeat(&self, ticket: TicketId) -> Option<Millis> {
        self.world.session_of(ticket)?.tickets.get(&ticket)?.timeouts.heartbeat
    }

    fn write_snapshot(&mut self, head: u64) {
        if let Some(base) = snapshot::write(&self.journal, head, &self.world) {
            self.base = base;
        }
    }

    fn leave(&mut self) {
        let head = self.reader.head().sequence;
        self.write_snapshot(head);
        self.kernels.detach();
        if let Err(error) = self.journal.checkpoint() {
            tracing::warn!(error = %chain(&error), "the last checkpoint failed; the next start makes it");
        }
    }
}

fn refuse(incoming: Incoming, cause: &str) {
    if let Some(reply) = incoming.reply {
        let _ = reply.send(Err(RequestError::ReadOnly { cause: cause.to_owned() }));
    }
}

#[derive(Debug, thiserror::Error)]
enum AppendOrEncode {
    #[error("an event could not be encoded")]
    Encode(#[from] agarose_journal::codec::EncodeError),
    #[error(transparent)]
    Append(AppendError),
}

/// An error with everything that lies behind it, on one line.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        let inner_text = inner.to_string();
        if !text.ends_with(&inner_text) {
            text.push_str(": ");
            text.push_str(&inner_text);
        }
        source = inner.source();
    }
    text
}
