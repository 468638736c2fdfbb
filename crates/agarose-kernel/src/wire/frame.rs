//! Frames: the bytes under both protocols. Sans I/O: bytes are pushed in, frames come out.
//!
//! ```text
//! u32 LE length of the JSON | u32 LE length of the body | JSON (UTF-8 object with "t") | body
//! ```
//!
//! A reader never allocates by what a length claims, only by what has arrived.

use serde::{Serialize, de::DeserializeOwned};

/// Bytes of the two lengths in front of every frame. Frozen: it is on the wire.
pub const HEADER: usize = 8;
/// The longest JSON part, in bytes.
pub const JSON_LIMIT: usize = 8 << 20;
/// The longest body, in bytes, except that of `execute`.
pub const BODY_LIMIT: usize = 64 << 20;
/// The longest body of `execute` (the source of a cell), in bytes.
pub const SOURCE_LIMIT: usize = 256 << 20;

/// Why bytes are not a frame of this protocol. The stream cannot be read any further.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// The JSON part claims to be longer than allowed.
    #[error("a frame claims {claimed} bytes of JSON, and {limit} are allowed")]
    JsonTooLong {
        /// The claimed length, in bytes.
        claimed: u64,
        /// The longest allowed, in bytes.
        limit: u64,
    },
    /// The body claims to be longer than allowed.
    #[error("a frame claims a body of {claimed} bytes, and {limit} are allowed")]
    BodyTooLong {
        /// The claimed length, in bytes.
        claimed: u64,
        /// The longest allowed, in bytes.
        limit: u64,
    },
    /// The JSON part is not a message of this protocol.
    #[error("a frame is not a message of this protocol: {detail}")]
    Message {
        /// What the parser says, bounded; it names an unknown message.
        detail: String,
    },
}

/// Why a message cannot be sent.
#[derive(Debug, thiserror::Error)]
pub enum EncodeError {
    /// Too long for the reader.
    #[error("the {part} of a frame is {length} bytes long, and {limit} are allowed")]
    TooLong {
        /// `JSON` or `body`.
        part: &'static str,
        /// Its length, in bytes.
        length: usize,
        /// The longest allowed, in bytes.
        limit: usize,
    },
    /// The message has no JSON form.
    #[error("a message could not be written as JSON")]
    Json(#[from] serde_json::Error),
}

/// How long the parts of a frame may be, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Of the JSON part.
    pub json: usize,
    /// Of the body.
    pub body: usize,
}

impl Limits {
    /// For a reader that may get sources: the worker, and the supervisor from a daemon.
    pub const WITH_SOURCE: Self = Self { json: JSON_LIMIT, body: SOURCE_LIMIT };
    /// For every other reader.
    pub const USUAL: Self = Self { json: JSON_LIMIT, body: BODY_LIMIT };
    /// For a peer that has not shown its secret yet.
    pub const STRANGER: Self = Self { json: 4 << 10, body: 0 };
}

/// One frame, still in the decoder's buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// The JSON part, not yet parsed.
    pub json: &'a [u8],
    /// The body; empty when there is none.
    pub body: &'a [u8],
}

impl Frame<'_> {
    /// The message of this frame.
    ///
    /// # Errors
    /// When the JSON part is not a message of type `M`.
    pub fn message<M: DeserializeOwned>(&self) -> Result<M, FrameError> {
        decode(self.json)
    }
}

/// Reads a message from the JSON part of a frame.
///
/// # Errors
/// When it is not one; the detail names an unknown message.
pub fn decode<M: DeserializeOwned>(json: &[u8]) -> Result<M, FrameError> {
    serde_json::from_slice(json).map_err(|error| {
        let mut detail = error.to_string();
        if detail.len() > 300 {
            let cut = detail.floor_char_boundary(300);
            detail.truncate(cut);
            detail.push('…');
        }
        FrameError::Message { detail }
    })
}

/// Appends one frame to `out`.
///
/// # Errors
/// When a part is longer than any reader accepts; `out` is then as before.
pub fn encode<M: Serialize>(message: &M, body: &[u8], out: &mut Vec<u8>) -> Result<(), EncodeError> {
    let before = out.len();
    out.extend_from_slice(&[0; HEADER]);
    let written = serde_json::to_writer(&mut *out, message);
    let json = out.len().saturating_sub(before + HEADER);
    let fault = match written {
        Err(error) => Some(EncodeError::Json(error)),
        Ok(()) if json > JSON_LIMIT => {
            Some(EncodeError::TooLong { part: "JSON", length: json, limit: JSON_LIMIT })
        }
        Ok(()) if body.len() > SOURCE_LIMIT => {
            Some(EncodeError::TooLong { part: "body", length: body.len(), limit: SOURCE_LIMIT })
        }
        Ok(()) => None,
    };
    if let Some(fault) = fault {
        out.truncate(before);
        return Err(fault);
    }
    // Both lengths are below the limits just checked, which fit in 32 bits.
    let lengths = (json as u64) | ((body.len() as u64) << 32);
    if let Some(header) = out.get_mut(before..before + HEADER) {
        header.copy_from_slice(&lengths.to_le_bytes());
    }
    out.extend_from_slice(body);
    Ok(())
}

/// Takes bytes as they arrive and gives frames.
#[derive(Debug)]
pub struct Decoder {
    buffer: Vec<u8>,
    /// How much of the buffer has been given out.
    taken: usize,
    limits: Limits,
}

impl Decoder {
    /// A decoder that refuses what is longer than `limits`.
    #[must_use]
    pub const fn new(limits: Limits) -> Self {
        Self { buffer: Vec::new(), taken: 0, limits }
    }

    /// Uses other limits from the next frame on.
    pub const fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
    }

    /// Adds bytes as they came.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.taken == self.buffer.len() {
            self.buffer.clear();
            self.taken = 0;
            // A rare large frame must not be paid for in memory ever after.
            if self.buffer.capacity() > 1 << 20 {
                self.buffer = Vec::new();
            }
        } else if self.taken > 0 {
            self.buffer.drain(..self.taken);
            self.taken = 0;
        }
        self.buffer.extend_from_slice(bytes);
    }

    /// The bytes that wait for the rest of their frame.
    #[must_use]
    pub fn pending(&self) -> &[u8] {
        self.buffer.get(self.taken..).unwrap_or_default()
    }

    /// The next whole frame, if it has arrived.
    ///
    /// # Errors
    /// When a length is beyond the limits. Every later call says the same.
    pub fn next_frame(&mut self) -> Result<Option<Frame<'_>>, FrameError> {
        let rest = self.buffer.get(self.taken..).unwrap_or_default();
        let Some((lengths, rest)) = rest.split_first_chunk::<HEADER>() else {
            return Ok(None);
        };
        let [a, b, c, d, e, f, g, h] = *lengths;
        let json = u32::from_le_bytes([a, b, c, d]) as usize;
        let body = u32::from_le_bytes([e, f, g, h]) as usize;
        if json > self.limits.json {
            return Err(FrameError::JsonTooLong { claimed: json as u64, limit: self.limits.json as u64 });
        }
        if body > self.limits.body {
            return Err(FrameError::BodyTooLong { claimed: body as u64, limit: self.limits.body as u64 });
        }
        let Some((json, rest)) = rest.split_at_checked(json) else {
            return Ok(None);
        };
        let Some(body) = rest.get(..body) else {
            return Ok(None);
        };
        self.taken += HEADER + json.len() + body.len();
        Ok(Some(Frame { json, body }))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    type Parts = (Vec<u8>, Vec<u8>);

    fn frames_of(bytes: &[u8], piece: usize, limits: Limits) -> (Vec<Parts>, bool) {
        let mut decoder = Decoder::new(limits);
        let mut frames = Vec::new();
        for part in bytes.chunks(piece) {
            decoder.push(part);
            loop {
                match decoder.next_frame() {
                    Ok(Some(frame)) => frames.push((frame.json.to_vec(), frame.body.to_vec())),
                    Ok(None) => break,
                    Err(_) => return (frames, true),
                }
            }
        }
        (frames, false)
    }

    proptest! {
        #[test]
        fn frames_come_out_as_they_went_in_however_they_are_cut(
            frames in proptest::collection::vec((any::<u64>(), proptest::collection::vec(any::<u8>(), 0..200)), 0..8),
            piece in 1_usize..64,
        ) {
            let mut bytes = Vec::new();
            let mut wanted = Vec::new();
            for (number, body) in &frames {
                encode(number, body, &mut bytes).unwrap();
                wanted.push((number.to_string().into_bytes(), body.clone()));
            }
            prop_assert_eq!(frames_of(&bytes, piece, Limits::USUAL), (wanted, false));
        }

        #[test]
        fn any_bytes_are_frames_or_a_refusal_and_cost_no_more_than_they_are(
            bytes in proptest::collection::vec(any::<u8>(), 0..400), piece in 1_usize..64,
        ) {
            let (frames, _) = frames_of(&bytes, piece, Limits::USUAL);
            let held: usize = frames.iter().map(|(json, body)| json.len() + body.len()).sum();
            prop_assert!(held <= bytes.len());
        }
    }

    #[test]
    fn a_claim_beyond_the_limit_is_refused_before_its_bytes_arrive() {
        let mut decoder = Decoder::new(Limits { json: 10, body: 5 });
        decoder.push(&[11, 0, 0, 0, 0, 0, 0, 0]);
        assert!(matches!(decoder.next_frame(), Err(FrameError::JsonTooLong { claimed: 11, limit: 10 })));
        let mut decoder = Decoder::new(Limits { json: 10, body: 5 });
        decoder.push(&[1, 0, 0, 0, 255, 255, 255, 255]);
        assert!(matches!(decoder.next_frame(), Err(FrameError::BodyTooLong { limit: 5, .. })));
    }
}
