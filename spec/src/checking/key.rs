//! Keys of states: the bytes by which a search remembers which states it has seen.

use std::hash::{Hash, Hasher};

/// Returns everything that a state's `Hash` writes, lengths and variants included.
///
/// Equal keys mean equal states. Small numbers take one byte.
pub fn key<S: Hash>(state: &S) -> Box<[u8]> {
    let mut bytes = Bytes(Vec::with_capacity(160));
    state.hash(&mut bytes);
    bytes.0.into_boxed_slice()
}

/// A fast hasher; its keys are not chosen by an adversary.
#[derive(Default)]
pub(crate) struct FastHasher(u64);

impl Hasher for FastHasher {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            let mixed = (self.0 ^ u64::from_le_bytes(word)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            self.0 = mixed ^ mixed >> 29;
        }
    }
}

struct Bytes(Vec<u8>);

impl Bytes {
    fn number(&mut self, number: u64) {
        match u8::try_from(number) {
            Ok(byte) if byte < u8::MAX => self.0.push(byte),
            _ => {
                self.0.push(u8::MAX);
                self.0.extend(number.to_le_bytes());
            }
        }
    }
}

impl Hasher for Bytes {
    fn finish(&self) -> u64 {
        0
    }
    fn write(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.0.extend(bytes);
    }
    fn write_u8(&mut self, number: u8) {
        self.number(number.into());
    }
    fn write_u32(&mut self, number: u32) {
        self.number(number.into());
    }
    fn write_u64(&mut self, number: u64) {
        self.number(number);
    }
    fn write_usize(&mut self, number: usize) {
        self.number(number as u64);
    }
    fn write_i64(&mut self, number: i64) {
        self.number(number as u64);
    }
    fn write_isize(&mut self, number: isize) {
        self.number(number as u64);
    }
}
