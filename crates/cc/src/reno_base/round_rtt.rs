//! The RTT samples of a packet-timed round and the smallest of all: what the Vegas family measures. Knows no window.

use lowtide_units::Span;

use crate::events::Ack;
use crate::round::Round;

/// RTT over a packet-timed round, as the Vegas family measures it.
#[derive(Clone, Debug, Default)]
pub struct RoundRtt {
    /// The smallest RTT of the connection.
    pub base: Option<Span>,
    /// The smallest RTT of the running round.
    pub min: Option<Span>,
    /// Samples in the running round.
    pub samples: u64,
    round: Round,
}

impl RoundRtt {
    /// Takes the sample of an acknowledgement.
    pub fn measure(&mut self, ack: &Ack) {
        let Some(rtt) = ack.rtt.filter(|rtt| *rtt > Span::ZERO) else { return };
        self.base = Some(self.base.map_or(rtt, |base| base.min(rtt)));
        self.min = Some(self.min.map_or(rtt, |min| min.min(rtt)));
        self.samples += 1;
    }

    /// Whether `ack` ends the round.
    pub fn ends(&mut self, ack: &Ack) -> bool {
        self.round.ended_by(ack)
    }

    /// (base, round minimum) in ns if the round has more than two samples.
    pub fn enough(&self) -> Option<(f64, f64)> {
        let (base, min) = (self.base?, self.min?);
        (self.samples > 2).then_some((base.nanos() as f64, min.nanos() as f64))
    }

    /// Forgets the round's samples.
    pub fn clear(&mut self) {
        self.min = None;
        self.samples = 0;
    }

    /// Starts a new round at `delivered`, without samples.
    pub fn restart(&mut self, delivered: u64) {
        self.clear();
        self.round.restart(delivered);
    }

    /// For `Law::delays`.
    pub fn delays(&self) -> (Option<Span>, Option<Span>) {
        (self.base, self.min.zip(self.base).map(|(min, base)| min - base))
    }
}
