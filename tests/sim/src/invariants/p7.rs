//! P7: the same log folds to the same world, also through a snapshot in the middle.

use agarose_core::{Event, Stamp, World};

/// The world of a log, folded in two halves with the first written down and read back.
pub fn fold(log: &[(Stamp, Event)], cut: usize) -> Result<World, String> {
    let fold = |mut world: World, events: &[(Stamp, Event)]| {
        for (at, event) in events {
            world.apply(*at, event);
        }
        world
    };
    let (first, rest) = log.split_at(cut.min(log.len()));
    let plain = bincode::config::standard();
    let written =
        bincode::serde::encode_to_vec(fold(World::new(), first), plain).map_err(|error| error.to_string())?;
    let (read, _) = bincode::serde::decode_from_slice(&written, plain).map_err(|error| error.to_string())?;
    let halves = fold(read, rest);
    if halves == fold(World::new(), log) {
        Ok(halves)
    } else {
        Err(format!("a snapshot at event {cut} folds to another world"))
    }
}
