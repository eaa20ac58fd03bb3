//! `TcpLedbat` of ns-3.37 (`tcp-ledbat.cc`), on `TcpNewReno`: whole milliseconds, no growth beyond what is in flight, slow start.

use lowtide_units::Span;

use super::reno::NewReno;
use super::socket::{CongestionOps, SocketState};

/// `TargetDelay`, in ms.
const TARGET_MS: i64 = 100;
/// `Gain`.
const GAIN: f64 = 1.0;
/// `MinCwnd`, in segments.
const MIN_SEGMENTS: u32 = 2;
/// `NoiseFilterLen` and `BaseHistoryLen`: a buffer of length n forgets at n entries, so it holds n − 1.
const FILTER: usize = 4;
const BASE_HISTORY: usize = 10;

/// `OwdCircBuf`, its minimum looked for anew.
#[derive(Clone, Debug, Default)]
struct Delays(Vec<i64>);

impl Delays {
    /// `AddDelay`.
    fn add(&mut self, delay: i64, length: usize) {
        self.0.push(delay);
        if self.0.len() >= length {
            self.0.remove(0);
        }
    }

    fn min(&self) -> Option<i64> {
        self.0.iter().min().copied()
    }
}

/// The state of a flow; delays in ms.
#[derive(Clone, Debug)]
pub struct Ledbat {
    /// `LEDBAT_VALID_OWD`, `LEDBAT_CAN_SS`.
    valid: bool,
    can_slow_start: bool,
    /// `m_noiseFilter`, `m_baseHistory`, `m_lastRollover` in seconds.
    filter: Delays,
    base: Delays,
    last_rollover: u64,
}

impl Default for Ledbat {
    fn default() -> Ledbat {
        Ledbat { valid: false, can_slow_start: true, filter: Delays::default(), base: Delays::default(), last_rollover: 0 }
    }
}

impl Ledbat {
    fn update_base(&mut self, now_s: u64, delay: i64) {
        let Some(last) = self.base.0.last_mut() else { return self.base.add(delay, BASE_HISTORY) };
        if now_s - self.last_rollover > 60 {
            self.last_rollover = now_s;
            self.base.add(delay, BASE_HISTORY);
        } else {
            *last = delay.min(*last);
        }
    }

    fn queueing_ms(&self) -> Option<i64> {
        Some(self.filter.min()? - self.base.min()?)
    }

    fn congestion_avoidance(&mut self, tcb: &mut SocketState, segments: u32) {
        let Some(queueing) = self.queueing_ms().filter(|_| self.valid) else { return NewReno::congestion_avoidance(tcb, segments) };
        let offset = (TARGET_MS - queueing) as f64 * GAIN;
        let (segment, window) = (f64::from(tcb.segment), f64::from(tcb.cwnd));
        let count = (offset * f64::from(segments) * segment) as i32;
        let increase = f64::from(count) / (TARGET_MS as f64 * window);
        // What is out, and what this acknowledgement has taken out of it.
        let most = tcb.high_tx.saturating_sub(tcb.acked) as u32 + segments * tcb.segment;
        let cwnd = (window + increase * segment) as u32;
        tcb.cwnd = cwnd.min(most).max(MIN_SEGMENTS * tcb.segment);
        // The threshold stays below the window, so that a fall is not followed by slow start.
        if tcb.cwnd <= tcb.ssthresh {
            tcb.ssthresh = tcb.cwnd - 1;
        }
    }
}

impl CongestionOps for Ledbat {
    fn pkts_acked(&mut self, tcb: &mut SocketState, _: u32, rtt: Span) {
        self.valid = tcb.timestamp_value != 0 && tcb.timestamp_echo != 0;
        if rtt > Span::ZERO {
            self.filter.add(tcb.one_way_ms(), FILTER);
            self.update_base(tcb.now.nanos() / 1_000_000_000, tcb.one_way_ms());
        }
    }

    fn increase_window(&mut self, tcb: &mut SocketState, segments: u32) {
        self.can_slow_start |= tcb.cwnd <= tcb.segment;
        if tcb.cwnd <= tcb.ssthresh && self.can_slow_start {
            NewReno::slow_start(tcb, segments);
        } else {
            self.can_slow_start = false;
            self.congestion_avoidance(tcb, segments);
        }
    }

    fn get_ss_thresh(&mut self, tcb: &SocketState, bytes_in_flight: u32) -> u32 {
        NewReno::half(tcb, bytes_in_flight)
    }

    fn delays(&self) -> (Option<Span>, Option<Span>) {
        (None, self.queueing_ms().map(|ms| Span::from_millis(ms.max(0) as u64)))
    }
}
