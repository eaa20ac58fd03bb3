//! What a run's seed decides about a flow before it runs, the same in the simulator and in the laboratory.

use lowtide_net::Seed;
use lowtide_net::random::unit;

use super::Flow;

/// What is drawn for one copy of a flow.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Draw {
    /// When it starts, in seconds.
    pub start_s: f64,
    /// What its own random numbers begin with: arrivals, sizes, its connections' controls.
    pub seed: Seed,
}

impl Flow {
    /// What is drawn for copy number `copy` (from zero) of this flow, the scenario's `index`-th, in the run with seed `run`.
    pub fn draw(&self, run: u64, index: usize, copy: u32) -> Draw {
        let seed = Seed::new(run).of("flow").nth(index as u64).nth(u64::from(copy));
        let jitter_s = if self.start_jitter_s > 0.0 { unit(&mut seed.of("start").generator()) * self.start_jitter_s } else { 0.0 };
        Draw { start_s: self.start_s + self.stagger_s * f64::from(copy) + jitter_s, seed }
    }
}
