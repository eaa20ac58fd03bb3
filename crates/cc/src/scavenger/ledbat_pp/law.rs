//! LEDBAT++'s laws of the window (-01 §4.2, §4.3): target, gain, slow start, and the step of congestion avoidance. Knows no
//! phases and no time but that of one round.

use lowtide_units::Span;

use super::{Decrease, LedbatPp, MIN_SEGMENTS};
use crate::controller::Controller;
use crate::events::Ack;

/// More is no round trip of a network, but a sample that is none; twin of LEDBAT_PP_MOST_STRETCH.
const LARGEST_STRETCH: f64 = 1024.0;

impl LedbatPp {
    fn base_ns(&self) -> Option<f64> {
        self.base.min().map(|ns| ns as f64)
    }

    fn full_target_ns(&self) -> f64 {
        self.config.target_ms * 1e6
    }

    pub(super) fn target_ns(&self) -> f64 {
        let target = match self.base_ns() {
            Some(base) if self.config.enhanced => self.full_target_ns().min(base + self.way_back.nanos() as f64),
            _ => self.full_target_ns(),
        };
        target.max(self.config.least_target_ms * 1e6)
    }

    /// The queueing delay of a burst's first segment at which its last bit is at the target. Below the time of the window's
    /// floor there is nothing to aim at.
    fn aim_ns(&self, segment_time: Span) -> f64 {
        let target = self.target_ns();
        let time = |segments: f64| (segments * segment_time.nanos() as f64).min(target);
        (target - time(self.config.burst_segments)).max(time(f64::from(MIN_SEGMENTS)))
    }

    /// GAIN = 1 / min(16, ceil(2T / base)) (-01 §4.3), with the draft's T whatever the target in use.
    pub(super) fn gain(&self) -> f64 {
        let base = self.base_ns().unwrap_or(0.0);
        if base <= 0.0 {
            return 1.0 / self.config.max_gain_divisor;
        }
        // The guard keeps exact divisors exact: 2T / base = 2.0 is a divisor of 2.
        let divisor = libm::ceil(2.0 * self.full_target_ns() / base - 1e-9);
        1.0 / divisor.clamp(1.0, self.config.max_gain_divisor)
    }

    /// How many times a round trip is what it would be without the queue on the way back; twin of `ledbat_pp_stretch`.
    fn stretch(&self, ack: &Ack) -> f64 {
        (ack.srtt.nanos() as f64 / ack.srtt.saturating_sub(self.way_back).nanos().max(1) as f64).clamp(1.0, LARGEST_STRETCH)
    }

    /// What an RTT adds to a segment's share of the window. Where round trips are `s` times longer by a queue on the way back, they are fewer and
    /// each has to carry more for the same rate: `s²` times as much keeps the rate growing as it would without that queue. Never by
    /// more than slow start's (1 + GAIN).
    fn growth(&self, ack: &Ack) -> f64 {
        let growth = self.gain() * self.mss / self.cwnd;
        if self.way_back == Span::ZERO {
            return growth;
        }
        let stretch = self.stretch(ack);
        (growth * stretch * stretch).min(self.gain()).max(growth)
    }

    /// A sender's slow start may go on while half the window is in use; a receiver knows whether its window was the limit.
    pub(super) fn may_slow_start(&self, ack: &Ack) -> bool {
        ack.may_grow(self.cwnd(), !self.config.receiver)
    }

    /// Times (1 + GAIN) per RTT, up to ssthresh (-01 §4.3).
    pub(super) fn slow_start(&mut self, ack: &Ack) {
        if self.may_slow_start(ack) && self.cwnd < self.ssthresh {
            self.cwnd = (self.cwnd + self.gain() * ack.acked as f64).min(self.ssthresh);
        }
    }

    /// Per RTT: + GAIN up to the target, + max(GAIN - C·W·(qd/T - 1), -W/2) above it (-01 §4.2).
    pub(super) fn avoid(&mut self, ack: &Ack, queueing: Option<f64>) {
        let Some(queueing) = queueing else { return };
        let excess = queueing / self.aim_ns(ack.segment_time) - 1.0;
        let growth = self.growth(ack);
        let shrink = match self.config.decrease {
            _ if excess <= 0.0 => -growth,
            Decrease::Halve => 0.5,
            Decrease::Prorated | Decrease::Step => self.config.decrease_constant * excess - growth,
        };
        if shrink <= 0.0 {
            if ack.may_grow(self.cwnd(), false) {
                self.cwnd -= shrink * ack.acked as f64;
            }
            return;
        }
        let due = match self.config.decrease {
            Decrease::Prorated => (shrink * ack.acked as f64).min(ack.acked as f64 / 2.0).min(self.quota),
            Decrease::Step | Decrease::Halve if ack.now >= self.next_step => {
                self.next_step = ack.now + ack.rtt.unwrap_or(ack.srtt);
                (shrink * self.cwnd).min(self.cwnd / 2.0)
            }
            Decrease::Step | Decrease::Halve => 0.0,
        };
        self.cwnd -= due;
        self.quota -= due;
    }
}
