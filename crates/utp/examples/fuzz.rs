//! Random lives of a connection (`fuzz/life.rs`), by seeds. Ends with the first promise that is broken, and says the seed that breaks it.
//! Needs no more than stable Rust; `cargo +nightly fuzz run connection` is the same guided by coverage.
//!
//! `cargo run -p lowtide-utp --example fuzz [SECONDS [SEED]]`

#![expect(clippy::print_stdout, clippy::disallowed_methods, reason = "an example prints, and runs for real seconds")]

use std::time::{Duration, Instant};

use life::{Chance, Life};

#[path = "../fuzz/life.rs"]
mod life;

/// xorshift64*.
struct Random(u64);

impl Random {
    fn new(seed: u64) -> Random {
        let mut random = Random(seed | 1);
        for _ in 0..8 {
            random.next();
        }
        random
    }
}

impl Chance for Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, most: u64) -> u64 {
        (self.next() >> 16) % most
    }

    fn is_left(&self) -> bool {
        true
    }
}

fn main() {
    let mut args = std::env::args().skip(1).map(|text| text.parse::<u64>().unwrap_or_else(|e| panic!("{text}: {e}")));
    let (seconds, first) = (args.next().unwrap_or(60), args.next());
    let end = Instant::now() + Duration::from_secs(seconds);
    let (mut seed, mut lives, mut steps, mut sent, mut established) = (first.unwrap_or(1), 0u64, 0u64, 0u64, 0u64);
    while Instant::now() < end {
        let life = Life::new(Random::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
        let run = std::panic::AssertUnwindSafe(|| life.run(3000));
        match std::panic::catch_unwind(run) {
            Ok((ran, left, connected)) => {
                (steps, sent) = (steps + ran, sent + left);
                established += u64::from(connected);
            }
            Err(panic) => {
                println!("broken by: fuzz 1 {seed}");
                std::panic::resume_unwind(panic);
            }
        }
        (lives, seed) = (lives + 1, seed + 1);
    }
    println!("{lives} lives, {established} established, {steps} steps, {sent} packets sent, nothing broken");
}
