//! Random numbers that are the same on every machine: one generator, and a seed of its own for each purpose.
//!
//! The generator is PCG-XSL-RR 128/64 over a multiplicative congruence (`Pcg64Mcg`; O'Neill 2014), whose output its crate
//! promises never to change; `rand`'s `SmallRng` promises the opposite. Logarithms and powers come from `libm`, not from
//! the platform. Seeds are derived from a run's seed by name ([`Seed::of`]) and number ([`Seed::nth`]), so that no two
//! purposes draw the same numbers, and what one of them draws does not depend on whether another is switched on.

use rand::{Rng, SeedableRng};

/// The generator.
pub type Random = rand_pcg::Pcg64Mcg;

/// What a stream of random numbers begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seed(u64);

/// 2^64 divided by the golden ratio: the step of SplitMix64.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

impl Seed {
    /// The seed of a whole run, as a scenario writes it.
    pub const fn new(run: u64) -> Seed {
        Seed(mix(run.wrapping_add(STEP)))
    }

    /// The seed for `purpose` below this one: `s ← mix(s + STEP ⊕ byte)` for each byte of the name, then for 0xff, which no
    /// name holds: so no name continues another.
    #[must_use]
    pub fn of(self, purpose: &str) -> Seed {
        purpose.bytes().chain([0xff]).fold(self, |seed, byte| Seed(mix(seed.0.wrapping_add(STEP) ^ u64::from(byte))))
    }

    /// The seed of the `n`-th of several alike: `mix(mix(s + STEP) + STEP ⊕ n)`.
    #[must_use]
    pub fn nth(self, n: u64) -> Seed {
        Seed(mix(mix(self.0.wrapping_add(STEP)).wrapping_add(STEP) ^ n))
    }

    /// This seed as a number, for whoever has a generator of his own.
    pub const fn number(self) -> u64 {
        self.0
    }

    /// A generator that begins with this seed.
    pub fn generator(self) -> Random {
        Random::seed_from_u64(self.0)
    }
}

/// SplitMix64's finaliser (Steele, Lea and Flood 2014): every input bit reaches every output bit.
pub(crate) const fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// Evenly from 0 to 1, 1 left out.
pub fn unit(random: &mut Random) -> f64 {
    random.random::<f64>()
}

/// With an exponential distribution of mean 1.
pub fn exponential(random: &mut Random) -> f64 {
    -libm::log(1.0 - unit(random))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Computed once, on x86-64: what any machine must draw. A change here changes every stochastic result.
    #[test]
    fn the_numbers_are_these_on_every_machine() {
        let mut random = Seed::new(1).of("loss").nth(3).generator();
        assert_eq!(Seed::new(1).of("loss").nth(3).number(), 5_050_356_755_558_815_023);
        assert_eq!(random.random::<u64>(), 164_792_771_908_614_326);
        assert_eq!(
            (unit(&mut random).to_bits(), exponential(&mut random).to_bits()),
            (4_607_118_126_871_395_745, 4_599_421_652_655_917_220)
        );
    }

    #[test]
    fn no_two_purposes_have_one_seed() {
        let mut seen = BTreeSet::new();
        for run in 0..500 {
            let seed = Seed::new(run);
            seen.insert(seed.number());
            for purpose in ["", "l", "lo", "loss", "los", "sol", "jitter"] {
                seen.insert(seed.of(purpose).number());
                seen.extend((0..20).map(|n| seed.of(purpose).nth(n).number()));
            }
        }
        assert_eq!(seen.len(), 500 * (1 + 7 * 21));
    }

    #[test]
    fn exponential_draws_have_mean_and_deviation_one() {
        let mut random = Seed::new(1).generator();
        let drawn: Vec<f64> = (0..200_000).map(|_| exponential(&mut random)).collect();
        let mean = drawn.iter().sum::<f64>() / drawn.len() as f64;
        let variance = drawn.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / drawn.len() as f64;
        assert!((mean - 1.0).abs() < 0.01 && (variance - 1.0).abs() < 0.03, "{mean}, {variance}");
    }
}
