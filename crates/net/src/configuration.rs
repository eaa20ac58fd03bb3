//! What a discipline's configuration has to do. Knows no discipline, and not the list of them.

use lowtide_units::Rate;

use crate::error::ConfigError;
use crate::queue::{Packet, Queue};
use crate::random::Seed;

/// What a scenario writes of one discipline.
pub(crate) trait Configuration {
    /// An empty queue named `name` for a link of `rate`. What it draws at random follows from `seed`.
    ///
    /// # Errors
    /// A value it cannot take.
    fn build<P: Packet + Send + 'static>(&self, name: &'static str, rate: Rate, seed: Seed) -> Result<Box<dyn Queue<P>>, ConfigError>;

    /// Packets that a device below it holds in addition.
    fn device_queue_packets(&self) -> usize;

    /// How many queues of flows it keeps.
    fn flow_queues(&self) -> usize {
        1
    }
}
