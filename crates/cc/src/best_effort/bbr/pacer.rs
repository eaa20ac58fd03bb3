//! The pacing rate of both versions: from the window while no rate is known, from the rate afterwards. Knows no modes.

use lowtide_units::{Rate, Span};

use super::{FIRST_RTT, pacing};
use crate::controller::Start;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Pacer {
    pub(crate) rate: Rate,
    gain: u64,
    margin_percent: u64,
    seen_rtt: bool,
}

impl Pacer {
    /// The first rate: the initial window over the handshake's RTT, at STARTUP's `gain` (`bbr_init_pacing_rate_from_rtt`).
    pub(crate) fn new(cwnd: u64, start: &Start, gain: u64, margin_percent: u64) -> Pacer {
        let mut pacer = Pacer { rate: Rate::from_bps(0), gain, margin_percent, seen_rtt: start.handshake_rtt.is_some() };
        pacer.rate = pacer.over(cwnd, start.handshake_rtt.unwrap_or(FIRST_RTT));
        pacer
    }

    fn over(&self, cwnd: u64, rtt: Span) -> Rate {
        let rate = Rate::from_bytes_over(cwnd, rtt.max(Span::from_micros(1)));
        pacing(rate.bps(), self.gain, self.margin_percent)
    }

    /// The rate found, at `gain`; before the pipe is full it only rises (`bbr_set_pacing_rate`).
    pub(crate) fn set(&mut self, rate_bps: u64, gain: u64, full_pipe: bool) {
        let rate = pacing(rate_bps, gain, self.margin_percent);
        if full_pipe || rate > self.rate {
            self.rate = rate;
        }
    }

    /// The first measured RTT replaces the guess.
    pub(crate) fn see_rtt(&mut self, cwnd: u64, srtt: Span) {
        if !self.seen_rtt && srtt > Span::ZERO {
            self.seen_rtt = true;
            self.rate = self.over(cwnd, srtt);
        }
    }
}
