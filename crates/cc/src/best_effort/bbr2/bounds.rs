//! BBRv2's bounds on rate and flight: the upper one from what probing lost, the lower ones from loss at other times. Knows
//! nothing of the phases' order (`tcp_bbr2.c`, `bbr2_adapt_upper_bounds`, `bbr2_adapt_lower_bounds`).

use super::{Bbr2, Mode, Phase};
use crate::best_effort::bbr::MIN_SEGMENTS;
use crate::events::{Ack, RateSample};

/// `u64::MAX`: no bound.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// bit/s.
    pub(super) rate_low: u64,
    /// Bytes.
    pub(super) inflight_low: u64,
    /// Bytes: the most that was in flight without too much loss.
    pub(super) inflight_high: u64,
    loss_in_round: bool,
    /// Ends when something sent after this was delivered.
    loss_round_end: u64,
    rate_latest: u64,
    inflight_latest: u64,
    /// The same of the whole round that ended last.
    pub(super) inflight_of_round: u64,
}

impl Default for Bounds {
    fn default() -> Bounds {
        Bounds {
            rate_low: u64::MAX,
            inflight_low: u64::MAX,
            inflight_high: u64::MAX,
            loss_in_round: false,
            loss_round_end: 1,
            rate_latest: 0,
            inflight_latest: 0,
            inflight_of_round: 0,
        }
    }
}

impl Bounds {
    pub(super) fn forget_signals(&mut self) {
        (self.loss_in_round, self.rate_latest, self.inflight_latest) = (false, 0, 0);
    }

    pub(super) fn lift_low(&mut self) {
        (self.rate_low, self.inflight_low) = (u64::MAX, u64::MAX);
    }

    /// The first loss of a round begins a round of its own, so that a whole one shows what still passes.
    pub(super) fn note_loss(&mut self, delivered: u64) {
        if !self.loss_in_round {
            self.loss_round_end = delivered;
        }
        self.loss_in_round = true;
    }

    pub(super) fn undo(&mut self, before: &Bounds) {
        self.loss_in_round = false;
        self.rate_low = self.rate_low.max(before.rate_low);
        self.inflight_low = self.inflight_low.max(before.inflight_low);
        self.inflight_high = self.inflight_high.max(before.inflight_high);
    }
}

fn part(of: u64, factor: f64) -> u64 {
    (of as f64 * factor) as u64
}

impl Bbr2 {
    /// More was lost of the sample's flight than allowed, counted in whole segments (`bbr2_is_inflight_too_high`).
    pub(super) fn too_high(&self, sample: &RateSample) -> bool {
        let allowed = part(sample.tx_in_flight / self.mss, self.config.loss_threshold);
        sample.tx_in_flight > 0 && sample.lost.div_ceil(self.mss) > allowed
    }

    /// Takes the sample into the rate's maximum and, once a loss round, into the lower bounds. True where such a round starts
    /// (`bbr2_update_congestion_signals`).
    pub(super) fn learn_from(&mut self, ack: &Ack, sample: &RateSample, rate: u64) -> bool {
        if !sample.app_limited || rate >= self.max_rate() {
            self.rate[1] = self.rate[1].max(rate);
        }
        let b = &mut self.bounds;
        b.rate_latest = b.rate_latest.max(rate);
        b.inflight_latest = b.inflight_latest.max(sample.delivered);
        if ack.prior_delivered < b.loss_round_end {
            return false;
        }
        b.loss_round_end = ack.delivered;
        if self.bounds.loss_in_round && !self.asks_for_loss() {
            self.lower();
        }
        let b = &mut self.bounds;
        b.inflight_of_round = b.inflight_latest;
        (b.loss_in_round, b.rate_latest, b.inflight_latest) = (false, rate, sample.delivered);
        true
    }

    /// Never below what was delivered in the round: that much does pass.
    fn lower(&mut self) {
        let (rate, cwnd, keep) = (self.max_rate(), self.cwnd, self.config.keep);
        let b = &mut self.bounds;
        let rate_before = if b.rate_low == u64::MAX { rate } else { b.rate_low };
        let inflight_before = if b.inflight_low == u64::MAX { cwnd } else { b.inflight_low };
        b.rate_low = b.rate_latest.max(part(rate_before, keep));
        b.inflight_low = b.inflight_latest.max(part(inflight_before, keep));
    }

    /// Once a probe: the flight that lost too much is the upper bound, then the queue is drained.
    pub(super) fn on_too_high(&mut self, ack: &Ack, sample: &RateSample) {
        self.cycle.too_high = true;
        self.cycle.samples_from_probe = false;
        if !sample.app_limited {
            self.bounds.inflight_high = sample.tx_in_flight.max(part(self.target_inflight(), self.config.keep));
        }
        if self.probing_up() {
            self.start_down(ack.now);
        }
    }

    /// A flight that passed raises the upper bound; UP raises it by 1, 2, 4, … segments a round while the window is the limit.
    pub(super) fn raise(&mut self, ack: &Ack, sample: &RateSample) {
        if self.bounds.inflight_high == u64::MAX {
            return;
        }
        self.bounds.inflight_high = self.bounds.inflight_high.max(sample.tx_in_flight);
        if !self.probing_up() {
            return;
        }
        if !ack.cwnd_limited || self.cwnd < self.bounds.inflight_high {
            if !self.rules.up_keeps_count {
                self.cycle.up_acked = 0;
            }
            return;
        }
        self.cycle.up_acked += ack.acked;
        let per_segment = self.cycle.up_acks_per_segment * self.mss;
        self.bounds.inflight_high += self.cycle.up_acked / per_segment * self.mss;
        self.cycle.up_acked %= per_segment;
        if self.round_start {
            self.cycle.steepen(self.cwnd / self.mss);
        }
    }

    /// The upper bound less the headroom for others (`bbr2_inflight_with_headroom`).
    pub(super) fn inflight_with_headroom(&self) -> u64 {
        let high = self.bounds.inflight_high;
        if high == u64::MAX {
            return high;
        }
        let segments = high / self.mss;
        let headroom = part(segments, self.config.headroom).max(1);
        segments.saturating_sub(headroom).max(MIN_SEGMENTS) * self.mss
    }

    /// `bbr2_bound_cwnd_for_inflight_model`.
    pub(super) fn inflight_cap(&self) -> u64 {
        let high = match self.mode {
            Mode::ProbeBw if self.cycle.phase != Phase::Cruise => self.bounds.inflight_high,
            Mode::ProbeBw | Mode::ProbeRtt(_) => self.inflight_with_headroom(),
            Mode::Startup | Mode::Drain => u64::MAX,
        };
        high.min(self.bounds.inflight_low)
    }
}
