//! The folded world as bytes: a cache of the log, thrown away whenever it does not read.

use agarose_core::World;
use agarose_journal::{Journal, Reader, Snapshot};

/// Raised with every change in what [`World`] holds, so that an older snapshot is passed over and
/// the log is folded from its beginning instead.
const SHAPE: u32 = 3;

const CONFIGURATION: bincode::config::Configuration = bincode::config::standard();

/// The world as bytes.
pub(crate) fn encode(world: &World) -> Option<Vec<u8>> {
    bincode::serde::encode_to_vec((SHAPE, world), CONFIGURATION).ok()
}

fn decode(bytes: &[u8]) -> Option<World> {
    let ((shape, _), _): ((u32, Ignored), usize) =
        bincode::serde::decode_from_slice(bytes, CONFIGURATION).ok()?;
    if shape != SHAPE {
        return None;
    }
    let ((_, world), read): ((u32, World), usize) =
        bincode::serde::decode_from_slice(bytes, CONFIGURATION).ok()?;
    (read == bytes.len()).then_some(world)
}

/// Takes up no bytes, so that the shape can be read before what it describes.
#[derive(serde::Deserialize)]
struct Ignored;

/// A point to fold on from: the last event in it, and the world then.
#[derive(Clone, Debug, Default)]
pub(crate) struct Base {
    pub(crate) sequence: u64,
    pub(crate) state: Vec<u8>,
}

impl From<Snapshot> for Base {
    fn from(snapshot: Snapshot) -> Self {
        Self { sequence: snapshot.sequence, state: snapshot.state }
    }
}

/// Folds the log onto a base; a base that does not read is passed over.
pub(crate) fn fold(reader: &Reader, base: &Base) -> Result<World, String> {
    let (mut world, from) = match decode(&base.state) {
        Some(world) => (world, base.sequence.saturating_add(1)),
        None => (World::new(), 1),
    };
    for entry in reader.events(from..) {
        let entry = entry.map_err(|error| crate::driver::chain(&error))?;
        let event = entry
            .event
            .decode()
            .map_err(|error| format!("event {}: {}", entry.sequence, crate::driver::chain(&error)))?;
        world.apply(entry.event.stamp, &event);
    }
    Ok(world)
}

/// Writes a snapshot. That it fails only makes the next start slower.
pub(crate) fn write(journal: &Journal, sequence: u64, world: &World) -> Option<Base> {
    let state = encode(world)?;
    if let Err(error) = journal.snapshots().write(sequence, &state) {
        tracing::warn!(error = %crate::driver::chain(&error), "a snapshot could not be written");
    }
    Some(Base { sequence, state })
}
