//! `TcpIllinois` of ns-3.37 (`tcp-illinois.cc`), on `TcpNewReno`: `m_ackCnt` is a whole number, so that nothing grows while α times the
//! segments acknowledged is below one; the window in bytes is compared with the threshold of 15 segments, so that it always adapts.

use lowtide_units::Span;

use super::reno::NewReno;
use super::socket::{CongestionOps, SocketState, State};

/// `AlphaMin`, `AlphaMax`, `AlphaBase`, `BetaMin`, `BetaMax`, `BetaBase`.
const ALPHA_MIN: f64 = 0.3;
const ALPHA_MAX: f64 = 10.0;
const ALPHA_BASE: f64 = 1.0;
const BETA_MIN: f64 = 0.125;
const BETA_MAX: f64 = 0.5;
/// `WinThresh`, compared with bytes.
const WINDOW_THRESHOLD: u32 = 15;
/// `Theta`.
const THETA: u32 = 5;

/// The state of a flow.
#[derive(Clone, Copy, Debug)]
pub struct Illinois {
    /// `m_alpha`, `m_beta`.
    alpha: f64,
    beta: f64,
    /// `m_baseRtt`, `m_maxRtt`, `m_sumRtt`, `m_cntRtt`.
    base: Option<Span>,
    max: Span,
    sum: Span,
    samples: u64,
    /// `m_rttAbove`, `m_rttLow`.
    above: bool,
    low: u32,
    /// `m_endSeq`.
    end: u64,
    /// `m_ackCnt`.
    count: u32,
}

impl Default for Illinois {
    fn default() -> Illinois {
        Illinois {
            alpha: ALPHA_MAX,
            beta: BETA_MAX,
            base: None,
            max: Span::ZERO,
            sum: Span::ZERO,
            samples: 0,
            above: false,
            low: 0,
            end: 0,
            count: 0,
        }
    }
}

fn whole_ms(span: Span) -> f64 {
    (span.nanos() / 1_000_000) as f64
}

impl Illinois {
    /// `RecalcParam`.
    fn recalculate(&mut self, cwnd: u32) {
        if cwnd < WINDOW_THRESHOLD {
            (self.alpha, self.beta) = (ALPHA_BASE, BETA_MAX);
        } else if let Some(base) = self.base.filter(|_| self.samples > 0) {
            let (mean, max) = (whole_ms(self.sum / self.samples - base), whole_ms(self.max - base));
            self.calculate_alpha(mean, max);
            self.beta = beta(mean, max);
        }
    }

    fn calculate_alpha(&mut self, mean: f64, max: f64) {
        let low = max / 100.0;
        if mean > low {
            self.above = true;
            let (mean, max) = (mean - low, max - low);
            self.alpha = max * ALPHA_MAX / (max + mean * (ALPHA_MAX - ALPHA_MIN) / ALPHA_MIN);
            return;
        }
        if !self.above {
            self.alpha = ALPHA_MAX;
        }
        self.low += 1;
        if self.low >= THETA {
            (self.low, self.above, self.alpha) = (0, false, ALPHA_MAX);
        }
    }

    fn reset(&mut self, next: u64) {
        (self.end, self.samples, self.sum) = (next, 0, Span::ZERO);
    }
}

fn beta(mean: f64, max: f64) -> f64 {
    let (low, high) = (max / 10.0, 8.0 * max / 10.0);
    if mean <= low {
        BETA_MIN
    } else if mean < high {
        (BETA_MIN * high - BETA_MAX * low + (BETA_MAX - BETA_MIN) * mean) / (high - low)
    } else {
        BETA_MAX
    }
}

impl CongestionOps for Illinois {
    fn pkts_acked(&mut self, _: &mut SocketState, _: u32, rtt: Span) {
        if rtt > Span::ZERO {
            self.base = Some(self.base.map_or(rtt, |base| base.min(rtt)));
            self.max = self.max.max(rtt);
            self.sum += rtt;
            self.samples += 1;
        }
    }

    fn increase_window(&mut self, tcb: &mut SocketState, segments: u32) {
        if tcb.acked >= self.end {
            self.recalculate(tcb.cwnd);
            self.reset(tcb.next);
        }
        if tcb.below_threshold() {
            NewReno::slow_start(tcb, segments);
            return;
        }
        let before = tcb.segments().max(1);
        let mut window = before;
        self.count = (f64::from(self.count) + f64::from(segments) * self.alpha) as u32;
        while self.count >= window {
            self.count -= window;
            window += 1;
        }
        if window != before {
            tcb.cwnd = window * tcb.segment;
        }
    }

    fn get_ss_thresh(&mut self, tcb: &SocketState, bytes_in_flight: u32) -> u32 {
        ((1.0 - self.beta) * f64::from(bytes_in_flight / tcb.segment)).max(2.0) as u32 * tcb.segment
    }

    fn congestion_state_set(&mut self, tcb: &mut SocketState, state: State) {
        if state == State::Loss {
            (self.alpha, self.beta, self.low, self.above) = (ALPHA_BASE, BETA_MAX, 0, false);
            self.reset(tcb.next);
        }
    }

    fn delays(&self) -> (Option<Span>, Option<Span>) {
        (self.base, self.base.filter(|_| self.samples > 0).map(|base| self.sum / self.samples - base))
    }
}
