//! What clients ask for, drawn from the seed.

use agarose_core::{
    BlobRef, Command, Language, Millis, Owner, OwnerKind, SessionId, TicketId, World,
    command::{Cancel, Reach, Submit},
    ticket::{Timeouts, Work},
};

use crate::rng::Rng;

const SESSIONS: [&str; 3] = ["fish", "fly", "mouse"];
const OWNERS: [&str; 2] = ["ada", "grace"];

fn session(rng: &mut Rng) -> SessionId {
    SessionId::new(rng.pick(&SESSIONS).unwrap_or(&"fish")).unwrap_or_else(|_| unreachable!("a constant name"))
}

fn owner(rng: &mut Rng) -> Owner {
    let name = rng.pick(&OWNERS).unwrap_or(&"ada");
    Owner::new(OwnerKind::Agent, name).unwrap_or_else(|_| Owner::system())
}

fn limit(rng: &mut Rng, chance: u64, longest: u64) -> Option<Millis> {
    rng.percent(chance).then(|| Millis(rng.below(longest)))
}

fn submit(rng: &mut Rng, ticket: TicketId, open: &[TicketId]) -> Submit {
    let work = match rng.below(12) {
        0 => Work::StopKernel,
        1 => Work::RestartKernel,
        _ => Work::Cell { source: BlobRef { hash: [1; 32], length: 9 }, name: None },
    };
    let (session, owner) = (session(rng), owner(rng));
    let language = if rng.percent(25) { Language::R } else { Language::Python };
    Submit {
        key: rng.percent(30).then(|| format!("key {}", rng.below(6))),
        after: rng.percent(15).then(|| rng.pick(open).copied()).flatten(),
        timeouts: Timeouts {
            schedule_to_start: limit(rng, 20, 60_000),
            start_to_close: limit(rng, 50, 20_000),
            heartbeat: limit(rng, 20, 20_000),
            interrupt_grace: limit(rng, 20, 5_000),
            kill_grace: limit(rng, 20, 5_000),
        },
        ..Submit::plain(session, ticket, owner, language, work)
    }
}

/// The next thing that a client asks for.
pub(crate) fn request(rng: &mut Rng, world: &World, fresh: TicketId) -> Command {
    let rooms = || world.sessions().values();
    let open: Vec<TicketId> = rooms().flat_map(|room| room.tickets.keys().copied()).collect();
    let running: Vec<TicketId> = rooms().filter_map(|room| Some(room.run()?.lease.ticket)).collect();
    match rng.below(40) {
        0..=21 => Command::Submit(Box::new(submit(rng, fresh, &open))),
        22..=29 => {
            let among = if rng.percent(50) { &running } else { &open };
            let ticket = rng.pick(among).copied().unwrap_or(fresh);
            let known = world.session_of(ticket).and_then(|room| room.tickets.get(&ticket));
            // Mostly by its owner; sometimes by whoever it is.
            let by = known.filter(|_| rng.percent(80)).map(|ticket| ticket.owner.clone());
            Command::Cancel(Cancel {
                ticket,
                owner: by.unwrap_or_else(|| owner(rng)),
                reason: String::from("changed my mind"),
                reach: rng
                    .pick(&[Reach::Full, Reach::Interrupt, Reach::Queued])
                    .copied()
                    .unwrap_or(Reach::Full),
            })
        }
        30 | 31 => Command::Pause { session: rng.percent(80).then(|| session(rng)), by: owner(rng) },
        32..=34 => Command::Resume { session: rng.percent(50).then(|| session(rng)), by: owner(rng) },
        35 => Command::CloseSession {
            session: session(rng),
            by: owner(rng),
            reason: String::from("done here"),
            remove: rng.percent(70),
        },
        36 | 37 => {
            let ticket = rng.pick(&running).copied();
            let room = ticket.and_then(|ticket| world.session_of(ticket)).map(|room| room.id.clone());
            Command::ProposePermission {
                session: room.unwrap_or_else(|| session(rng)),
                ticket,
                method: String::from("bash"),
                detail: String::from("ls"),
                expires_after: limit(rng, 70, 30_000),
            }
        }
        38 => {
            let asked: Vec<_> = world.permissions().map(|question| question.id).collect();
            match rng.pick(&asked) {
                Some(permission) => Command::DecidePermission {
                    permission: *permission,
                    allow: rng.percent(50),
                    by: owner(rng),
                },
                None => Command::Tick,
            }
        }
        _ => Command::StopDaemon { stop_kernels: rng.percent(50) },
    }
}
