//! The state machine under libFuzzer: a life (`life.rs`) whose chances are the fuzzer's bytes. `cargo +nightly fuzz run connection` in
//! crates/utp; `-- -max_len=65536` for longer lives.
#![no_main]

use libfuzzer_sys::fuzz_target;
use life::{Chance, Life};

mod life;

/// Bytes, and nothing but zeros behind them.
struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    fn take(&mut self, bytes: usize) -> u64 {
        let (taken, rest) = self.0.split_at(bytes.min(self.0.len()));
        self.0 = rest;
        taken.iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
    }
}

impl Chance for Bytes<'_> {
    fn next(&mut self) -> u64 {
        self.take(8)
    }

    fn below(&mut self, most: u64) -> u64 {
        // As few bytes as the choice needs: a changed byte is another choice, and does not shift those behind.
        self.take((64 - (most - 1).leading_zeros()).div_ceil(8).max(1) as usize) % most
    }

    fn is_left(&self) -> bool {
        !self.0.is_empty()
    }
}

fuzz_target!(|bytes: &[u8]| {
    Life::new(Bytes(bytes)).run(u64::MAX);
});
