//! Doors for fuzz targets to decoders that nobody else needs from outside.

use crate::record::{ChainKey, Record, read_event};

/// Reads any bytes as a record, with and without its hash in the way.
pub fn record(bytes: &[u8]) {
    let key = ChainKey::of(&[0; 16]);
    drop(Record::read(key, bytes));
    drop(Record::read_whole(key, bytes));
    let mut rest = bytes;
    while let Some((event, after)) = read_event(rest) {
        assert!(after.len() < rest.len(), "reading an event goes on");
        drop(event.decode());
        rest = after;
    }
}
