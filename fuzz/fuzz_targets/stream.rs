//! Any bytes as the retained output of a cell.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let kept: usize = agarose_core::stream::runs(bytes).map(|run| run.bytes.len()).sum();
    assert!(kept <= bytes.len());
});
