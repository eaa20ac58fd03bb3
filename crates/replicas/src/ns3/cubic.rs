//! `TcpCubic` of ns-3.37 (`tcp-cubic.cc`): without a Reno-friendly region; its HyStart takes the smallest RTT of the first eight samples
//! of a round and waits for a whole RTT more; `m_cWndCnt` outlives reductions, and the count is computed for every acknowledgement.

use lowtide_units::{Span, Time};

use super::socket::{CongestionOps, SocketState, State};

/// `Beta`, `C`.
const BETA: f64 = 0.7;
const C: f64 = 0.4;
/// `HyStartLowWindow`, in segments.
const LOW_WINDOW: u32 = 16;
/// `HyStartMinSamples`.
const MIN_SAMPLES: u32 = 8;
/// `HyStartAckDelta`.
const ACK_DELTA: Span = Span::from_millis(2);
/// `HyStartDelayMin`, `HyStartDelayMax`.
const DELAY_MIN: Span = Span::from_millis(4);
const DELAY_MAX: Span = Span::from_millis(1000);
/// `CubicDelta`: samples this soon after a reduction's first growth are ignored.
const DELTA: Span = Span::from_millis(10);
/// `CntClamp`: segments per +1 at the most before the first loss.
const COUNT_CLAMP: u32 = 20;

/// The state of a flow; windows in segments.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cubic {
    /// `m_cWndCnt`.
    count: u32,
    /// `m_lastMaxCwnd`.
    last_max: u32,
    /// `m_epochStart`, `m_bicK`, `m_bicOriginPoint`.
    epoch: Option<(Time, f64, u32)>,
    /// `m_delayMin`.
    delay_min: Option<Span>,
    /// `m_found`.
    found: bool,
    /// `m_roundStart`, `m_lastAck`, `m_endSeq`.
    round_start: Time,
    last_ack: Time,
    end: u64,
    /// `m_currRtt`, `m_sampleCnt`.
    round_rtt: Option<Span>,
    samples: u32,
}

impl Cubic {
    fn hystart_reset(&mut self, tcb: &SocketState) {
        (self.round_start, self.last_ack, self.end) = (tcb.now, tcb.now, tcb.high_tx);
        (self.round_rtt, self.samples) = (None, 0);
    }

    fn hystart_update(&mut self, tcb: &mut SocketState, delay: Span, delay_min: Span) {
        if self.found {
            return;
        }
        if tcb.now.since(self.last_ack) <= ACK_DELTA {
            self.last_ack = tcb.now;
            self.found |= tcb.now.since(self.round_start) > delay_min;
        }
        if self.samples < MIN_SAMPLES {
            self.round_rtt = Some(self.round_rtt.map_or(delay, |least| least.min(delay)));
            self.samples += 1;
        } else {
            let threshold = delay_min + delay_min.clamp(DELAY_MIN, DELAY_MAX);
            self.found |= self.round_rtt.is_some_and(|least| least > threshold);
        }
        if self.found {
            tcb.ssthresh = tcb.cwnd;
        }
    }

    /// `Update`: segments per +1.
    fn update(&mut self, tcb: &SocketState) -> u32 {
        let window = tcb.segments();
        let (start, k, origin) = *self.epoch.get_or_insert_with(|| match self.last_max <= window {
            true => (tcb.now, 0.0, window),
            false => (tcb.now, libm::pow(f64::from(self.last_max - window) / C, 1.0 / 3.0), self.last_max),
        });
        let t = (tcb.now.since(start) + self.delay_min.unwrap_or(Span::ZERO)).secs_f64();
        let offset = (t - k).abs();
        // Truncated before it is subtracted.
        let delta = (C * offset * offset * offset) as u32;
        let target = if t < k { origin.wrapping_sub(delta) } else { origin.wrapping_add(delta) };
        let mut count = if target > window { window / (target - window) } else { 100 * window };
        if self.last_max == 0 {
            count = count.min(COUNT_CLAMP);
        }
        count.max(2)
    }
}

impl CongestionOps for Cubic {
    fn pkts_acked(&mut self, tcb: &mut SocketState, _: u32, rtt: Span) {
        if self.epoch.is_some_and(|(start, ..)| tcb.now.since(start) < DELTA) || rtt == Span::ZERO {
            return;
        }
        let delay_min = self.delay_min.map_or(rtt, |min| min.min(rtt));
        self.delay_min = Some(delay_min);
        if tcb.cwnd <= tcb.ssthresh && tcb.cwnd >= LOW_WINDOW * tcb.segment {
            self.hystart_update(tcb, rtt, delay_min);
        }
    }

    fn increase_window(&mut self, tcb: &mut SocketState, segments: u32) {
        if tcb.below_threshold() {
            if tcb.acked > self.end {
                self.hystart_reset(tcb);
            }
            tcb.cwnd += segments * tcb.segment;
            return;
        }
        self.count += segments;
        let count = self.update(tcb);
        if self.count >= count {
            tcb.cwnd += tcb.segment;
            self.count -= count;
        }
    }

    fn get_ss_thresh(&mut self, tcb: &SocketState, _: u32) -> u32 {
        let window = tcb.segments();
        let converge = window < self.last_max;
        self.last_max = if converge { (f64::from(window) * (1.0 + BETA) / 2.0) as u32 } else { window };
        self.epoch = None;
        ((f64::from(window) * BETA) as u32).max(2) * tcb.segment
    }

    fn congestion_state_set(&mut self, tcb: &mut SocketState, state: State) {
        if state == State::Loss {
            (self.last_max, self.delay_min, self.found) = (0, None, false);
            self.hystart_reset(tcb);
        }
    }

    fn delays(&self) -> (Option<Span>, Option<Span>) {
        (self.delay_min, None)
    }
}
