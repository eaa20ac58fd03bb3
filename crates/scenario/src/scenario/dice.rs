//! What a seed decides about a flow before it runs, the same in the simulator and in the laboratory.

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::Flow;

/// The dice of one of a scenario's flows.
#[derive(Clone, Debug)]
pub struct Dice(SmallRng);

/// What is drawn for one copy of a flow.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Draw {
    /// When it starts, in seconds.
    pub start_s: f64,
    /// What its own chances begin with.
    pub seed: u64,
}

impl Dice {
    /// Those of the flow with this `index` in a run with this `seed`.
    pub fn of_flow(seed: u64, index: usize) -> Dice {
        Dice(SmallRng::seed_from_u64(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ index as u64))
    }

    /// For the flow's next copy, `copy` counted from zero.
    pub fn draw(&mut self, flow: &Flow, copy: u32) -> Draw {
        let jitter_s = if flow.start_jitter_s > 0.0 { self.0.random::<f64>() * flow.start_jitter_s } else { 0.0 };
        Draw { start_s: flow.start_s + flow.stagger_s * f64::from(copy) + jitter_s, seed: self.0.random() }
    }

    /// For what happens while it runs.
    pub fn rng(&mut self) -> &mut SmallRng {
        &mut self.0
    }
}
