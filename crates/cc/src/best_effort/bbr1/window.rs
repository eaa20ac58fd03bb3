//! BBRv1's congestion window: the target that rate and minimum RTT give, and what recovery and timeouts make of it. Knows
//! nothing of the modes' order (Linux `tcp_bbr.c`, `bbr_set_cwnd`).

use super::{Bbr1, Episode, Mode};
use crate::best_effort::bbr::{INITIAL_SEGMENTS, MIN_SEGMENTS, bdp_segments, burst_segments};
use crate::events::{Ack, Congestion};

impl Bbr1 {
    /// Room for bursts at the sender, the host and the receiver, an even number of segments (`bbr_quantization_budget`).
    fn with_burst_room(&self, segments: u64) -> u64 {
        let even = (segments + 3 * burst_segments(self.pacer.rate, self.mss)).next_multiple_of(2);
        let probing = self.mode == Mode::ProbeBw && self.cycle == 0;
        (even + if probing { 2 } else { 0 }) * self.mss
    }

    /// What leaves together (`bbr_tso_segs_goal`).
    pub(super) fn burst(&self) -> u64 {
        burst_segments(self.pacer.rate, self.mss) * self.mss
    }

    /// Bytes in flight that fill the pipe at `gain` (`bbr_inflight`).
    pub(super) fn inflight_at(&self, gain: u64) -> u64 {
        self.with_burst_room(bdp_segments(self.rate.max(), self.min_rtt, gain, self.mss))
    }

    fn target_cwnd(&self) -> u64 {
        let rate = self.rate_bps();
        let extra = match self.config.aggregation && self.full_pipe.reached() {
            true => self.aggregation.allowance(rate) / self.mss,
            false => 0,
        };
        self.with_burst_room(bdp_segments(rate, self.min_rtt, self.mode.cwnd_gain(), self.mss) + extra)
    }

    pub(super) fn save_cwnd(&mut self) {
        let undisturbed = self.episode == Episode::None && !self.mode.is_probe_rtt();
        self.prior_cwnd = if undisturbed { self.cwnd } else { self.prior_cwnd.max(self.cwnd) };
    }

    /// Linux `bbr_set_cwnd`.
    pub(super) fn set_cwnd(&mut self, ack: &Ack, left_in_flight: u64) {
        if ack.acked > 0 && !self.recover_or_restore(ack, left_in_flight) {
            let target = self.target_cwnd();
            if self.full_pipe.reached() {
                self.cwnd = (self.cwnd + ack.acked).min(target);
            } else if self.cwnd < target || ack.delivered < u64::from(INITIAL_SEGMENTS) * self.mss {
                self.cwnd += ack.acked;
            }
            self.cwnd = self.cwnd.max(MIN_SEGMENTS * self.mss);
        }
        if self.mode.is_probe_rtt() {
            self.cwnd = self.cwnd.min(MIN_SEGMENTS * self.mss);
        }
    }

    /// True while the window only replaces what left the network (`bbr_set_cwnd_to_recover_or_restore`).
    fn recover_or_restore(&mut self, ack: &Ack, left_in_flight: u64) -> bool {
        if ack.lost > 0 {
            self.cwnd = self.cwnd.saturating_sub(ack.lost).max(self.mss);
        }
        match self.episode {
            Episode::Entering if ack.in_recovery => {
                self.episode = Episode::Recovery;
                self.conserve_packets = true;
                self.round.restart(ack.delivered);
                self.cwnd = left_in_flight + ack.acked;
            }
            Episode::Entering => self.episode = Episode::None,
            Episode::Recovery if !ack.in_recovery => self.restore(),
            Episode::Timeout { until } if ack.delivered >= until => self.restore(),
            _ => {}
        }
        if self.conserve_packets {
            self.cwnd = self.cwnd.max(left_in_flight + ack.acked);
        }
        self.conserve_packets
    }

    pub(super) fn restore(&mut self) {
        self.episode = Episode::None;
        self.cwnd = self.cwnd.max(self.prior_cwnd);
        self.conserve_packets = false;
    }

    /// The stack leaves one segment; BBR forgets the plateau and counts a round (`bbr_set_state`).
    pub(super) fn on_timeout(&mut self, event: &Congestion) {
        self.save_cwnd();
        self.episode = Episode::Timeout { until: self.delivered + event.in_flight };
        self.conserve_packets = false;
        self.full_pipe.forget_plateau();
        self.lost += event.lost;
        self.round_start = true;
        self.watch_for_policer(&self.seen(event.now, true, false));
        self.cwnd = self.cwnd.min(self.mss);
    }
}
