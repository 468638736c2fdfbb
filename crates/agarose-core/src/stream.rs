//! The retained output of a cell as one blob: runs of one channel each, at their offsets.
//!
//! Frozen with format 1 of the log. A run is: channel (1 byte), offset in the merged stream
//! (8 bytes, little endian), length (4 bytes, little endian), the bytes. Offsets count every byte
//! of every channel, kept or not; what lies between two runs was dropped.

use alloc::vec::Vec;

/// Where a piece of output came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StreamChannel {
    /// Descriptor 1.
    Stdout,
    /// Descriptor 2.
    Stderr,
    /// Display frames of the worker's wire, whole, as they came.
    Display,
}

/// A piece of output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamRun<'a> {
    /// Where it came from.
    pub channel: StreamChannel,
    /// The offset of its first byte.
    pub start: u64,
    /// It.
    pub bytes: &'a [u8],
}

const HEADER: usize = 13;

/// Appends a run to a stream. A run longer than 4 GiB is cut.
pub fn push(stream: &mut Vec<u8>, run: StreamRun<'_>) {
    let length = u32::try_from(run.bytes.len()).unwrap_or(u32::MAX);
    let kept = usize::try_from(length).unwrap_or(usize::MAX);
    stream.push(match run.channel {
        StreamChannel::Stdout => 1,
        StreamChannel::Stderr => 2,
        StreamChannel::Display => 3,
    });
    stream.extend_from_slice(&run.start.to_le_bytes());
    stream.extend_from_slice(&length.to_le_bytes());
    stream.extend_from_slice(run.bytes.get(..kept).unwrap_or(run.bytes));
}

/// The runs of a stream, until its end or the first that does not read.
pub fn runs(mut stream: &[u8]) -> impl Iterator<Item = StreamRun<'_>> {
    core::iter::from_fn(move || {
        let (header, rest) = stream.split_at_checked(HEADER)?;
        let (channel, header) = header.split_first()?;
        let channel = match channel {
            1 => StreamChannel::Stdout,
            2 => StreamChannel::Stderr,
            3 => StreamChannel::Display,
            _ => return None,
        };
        let (start, length) = header.split_at_checked(8)?;
        let start = u64::from_le_bytes(start.try_into().ok()?);
        let length = u32::from_le_bytes(length.try_into().ok()?);
        let (bytes, rest) = rest.split_at_checked(usize::try_from(length).ok()?)?;
        stream = rest;
        Some(StreamRun { channel, start, bytes })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn runs_read_back_as_they_were_pushed(pieces in proptest::collection::vec((0u8..3, any::<u64>(), proptest::collection::vec(any::<u8>(), 0..50)), 0..10)) {
            let mut stream = vec![];
            let channels = [StreamChannel::Stdout, StreamChannel::Stderr, StreamChannel::Display];
            let pushed: Vec<_> = pieces
                .iter()
                .map(|(channel, start, bytes)| StreamRun { channel: channels[usize::from(*channel)], start: *start, bytes })
                .collect();
            for run in &pushed {
                push(&mut stream, *run);
            }
            prop_assert_eq!(runs(&stream).collect::<Vec<_>>(), pushed);
        }

        #[test]
        fn any_bytes_read_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            runs(&bytes).for_each(drop);
        }
    }
}
