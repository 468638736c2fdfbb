//! Any bytes as the payload of an event of any kind; what decodes encodes to what decodes the same.
#![no_main]

use agarose_journal::codec::{decode, encode};

libfuzzer_sys::fuzz_target!(|input: (u8, u8, &[u8])| {
    let (kind, version, bytes) = input;
    if let Ok(event) = decode(u16::from(kind), u16::from(version), bytes) {
        let Ok((kind, version, bytes)) = encode(&event) else { return };
        assert_eq!(decode(kind, version, &bytes).ok(), Some(event));
    }
});
