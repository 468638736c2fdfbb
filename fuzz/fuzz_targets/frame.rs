//! Any bytes as frames of both wires, in pieces.
#![no_main]

use agarose_kernel::wire::{
    frame::{Decoder, Limits},
    supervisor::{FromSupervisor, ToSupervisor},
    worker::FromWorker,
};

libfuzzer_sys::fuzz_target!(|input: (u8, &[u8])| {
    let (size, bytes) = input;
    let mut decoder = Decoder::new(Limits::USUAL);
    for piece in bytes.chunks(usize::from(size).max(1)) {
        decoder.push(piece);
        while let Ok(Some(frame)) = decoder.next_frame() {
            drop(frame.message::<FromWorker>());
            drop(frame.message::<ToSupervisor>());
            drop(frame.message::<FromSupervisor>());
        }
    }
});
