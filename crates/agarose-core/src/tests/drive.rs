//! A world, its log and its clock: decides, folds and remembers.

use alloc::{collections::BTreeMap, string::String, vec, vec::Vec};

use crate::{
    command::{Command, Context, Submit},
    effect::Effect,
    event::{DaemonStarted, Event},
    id::{BlobRef, Generation, Language, Lease, Owner, OwnerKind, SessionId, TicketId},
    refusal::Refusal,
    ticket::Work,
    time::Stamp,
    world::{Answer, Policy, World},
};

/// A world under test.
#[derive(Clone, Default)]
pub(crate) struct Drive {
    pub(crate) world: World,
    pub(crate) log: Vec<(Stamp, Event)>,
    pub(crate) now: Stamp,
    minted: u128,
}

/// What a decision brought.
pub(crate) struct Decided {
    pub(crate) events: Vec<Event>,
    pub(crate) effects: Vec<Effect>,
    pub(crate) answer: Answer,
}

impl Drive {
    /// Tickets that decisions make are numbered from 1001 on.
    pub(crate) const fn context(&self) -> Context {
        Context { now: self.now, fresh: TicketId(1001 + self.minted) }
    }

    /// Decides, folds every event, and asks for the effects once the whole decision is folded.
    pub(crate) fn decide(&mut self, command: &Command) -> Result<Decided, Refusal> {
        let context = self.context();
        let decision = self.world.decide(command, context)?;
        for event in &decision.events {
            self.world.apply(self.now, event);
            self.log.push((self.now, event.clone()));
            self.minted +=
                u128::from(matches!(event, Event::TicketQueued(queued) if queued.owner == Owner::idle()));
        }
        let effects = decision.events.iter().flat_map(|event| self.world.effects(event)).collect();
        Ok(Decided { events: decision.events, effects, answer: decision.answer })
    }

    pub(crate) fn pass(&mut self, milliseconds: u64) {
        self.now = Stamp { wall: self.now.wall + milliseconds, mono: self.now.mono + milliseconds };
    }

    /// Every generation that ever was, with its session and language.
    pub(crate) fn generations(&self) -> BTreeMap<Generation, (SessionId, Language)> {
        let of = |(_, event): &(Stamp, Event)| match event {
            Event::KernelStarting { session, language, generation, .. } => {
                Some((*generation, (session.clone(), *language)))
            }
            _ => None,
        };
        self.log.iter().filter_map(of).collect()
    }

    /// The lease under which a ticket was sent, with its session.
    pub(crate) fn lease_of(&self, ticket: TicketId) -> Option<(SessionId, Lease)> {
        self.log.iter().rev().find_map(|(_, event)| match event {
            Event::ExecuteRequested { session, lease, .. } if lease.ticket == ticket => {
                Some((session.clone(), *lease))
            }
            _ => None,
        })
    }
}

pub(crate) fn session(name: &str) -> SessionId {
    SessionId::new(name).unwrap()
}

pub(crate) fn owner(name: &str) -> Owner {
    Owner::new(OwnerKind::Agent, name).unwrap()
}

pub(crate) fn blob() -> BlobRef {
    BlobRef { hash: [7; 32], length: 1 }
}

/// A start with these rules.
pub(crate) fn start(policy: Policy) -> Command {
    Command::StartDaemon(DaemonStarted {
        version: String::from("0"),
        boot: String::from("b"),
        pid: 1,
        uptime: 0,
        found: vec![],
        policy,
    })
}

/// A request with nothing special about it.
pub(crate) fn request(in_session: &str, ticket: u128) -> Submit {
    let work = Work::Cell { source: blob(), name: None };
    Submit::plain(session(in_session), TicketId(ticket), owner("a"), Language::Python, work)
}
