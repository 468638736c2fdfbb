//! Names as small numbers, for the length of one analysis.

use std::borrow::Cow;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A name of one analysis.
pub(crate) type Symbol = u32;

/// A multiplicative hash: names are short and come from one source, so speed counts and floods do not
/// (the number of names is capped).
#[derive(Default, Clone, Copy)]
pub(crate) struct FastHasher(u64);

const SEED: u64 = 0x51_7c_c1_b7_27_22_0a_95;

impl Hasher for FastHasher {
    fn finish(&self) -> u64 {
        self.0 ^ (self.0 >> 29)
    }

    fn write(&mut self, bytes: &[u8]) {
        let mut chunks = bytes.chunks_exact(8);
        for chunk in &mut chunks {
            let mut word = [0; 8];
            word.copy_from_slice(chunk);
            self.write_u64(u64::from_le_bytes(word));
        }
        let mut word = 0;
        for byte in chunks.remainder() {
            word = (word << 8) | u64::from(*byte);
        }
        self.write_u64(word ^ ((bytes.len() as u64) << 56));
    }

    fn write_u8(&mut self, value: u8) {
        self.write_u64(u64::from(value));
    }

    fn write_u32(&mut self, value: u32) {
        self.write_u64(u64::from(value));
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = (self.0.rotate_left(5) ^ value).wrapping_mul(SEED);
    }
}

pub(crate) type FastMap<K, V> = HashMap<K, V, BuildHasherDefault<FastHasher>>;

/// Every name that one analysis met, in the order it met them.
#[derive(Default)]
pub(crate) struct Symbols<'s> {
    numbers: FastMap<Cow<'s, str>, Symbol>,
    names: Vec<Cow<'s, str>>,
}

impl<'s> Symbols<'s> {
    pub(crate) fn intern(&mut self, name: &'s str) -> Symbol {
        if let Some(number) = self.numbers.get(name) {
            return *number;
        }
        self.insert(Cow::Borrowed(name))
    }

    pub(crate) fn intern_owned(&mut self, name: String) -> Symbol {
        if let Some(number) = self.numbers.get(name.as_str()) {
            return *number;
        }
        self.insert(Cow::Owned(name))
    }

    fn insert(&mut self, name: Cow<'s, str>) -> Symbol {
        let number = self.names.len() as Symbol;
        self.names.push(name.clone());
        self.numbers.insert(name, number);
        number
    }

    pub(crate) fn name(&self, symbol: Symbol) -> &str {
        self.names.get(symbol as usize).map_or("", |name| name)
    }
}
