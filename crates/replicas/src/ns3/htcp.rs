//! `TcpHtcp` of ns-3.37 (`tcp-htcp.cc`), on `TcpNewReno`: another law under the name. α counts bytes, is not scaled by the RTT, and its
//! first epoch begins at time zero.

use lowtide_units::{Span, Time};

use super::reno::NewReno;
use super::socket::{CongestionOps, SocketState, State};

/// `DefaultBackoff`.
const BACKOFF: f64 = 0.5;
/// `DeltaL`.
const LOW: Span = Span::from_secs(1);

/// The state of a flow.
#[derive(Clone, Copy, Debug, Default)]
pub struct Htcp {
    /// `m_alpha`, `m_beta`.
    alpha: f64,
    beta: f64,
    /// `m_lastCon`.
    last_congestion: Time,
    /// `m_minRtt`, `m_maxRtt`.
    min: Option<Span>,
    max: Span,
    /// `m_dataSent`, `m_throughput`, `m_lastThroughput`; bytes and bytes a second.
    sent: u64,
    throughput: u32,
    last_throughput: u32,
}

impl Htcp {
    fn update_alpha(&mut self, now: Time) {
        let beyond = now.since(self.last_congestion).secs_f64() - LOW.secs_f64();
        let alpha = if beyond <= 0.0 { 1.0 } else { 1.0 + 10.0 * beyond + 0.25 * beyond * beyond };
        self.alpha = (2.0 * (1.0 - self.beta) * alpha).max(1.0);
    }

    /// `diff / m_lastThroughput` is a division of whole numbers: a change of less than 100 % counts as none, below `ThroughputRatio` (0.2).
    fn update_beta(&mut self) {
        self.beta = BACKOFF;
        let (now, last) = (self.throughput, self.last_throughput);
        if let Some(min) = self.min.filter(|_| now > last && last > 0 && (now - last) / last == 0) {
            self.beta = min.secs_f64() / self.max.secs_f64();
        }
    }
}

impl CongestionOps for Htcp {
    fn pkts_acked(&mut self, tcb: &mut SocketState, segments: u32, rtt: Span) {
        if tcb.state == State::Open {
            self.sent += u64::from(segments) * u64::from(tcb.segment);
        }
        let since = tcb.now.since(self.last_congestion).secs_f64();
        self.throughput = if since > 0.0 { (self.sent as f64 / since) as u32 } else { 0 };
        self.update_alpha(tcb.now);
        if rtt > Span::ZERO {
            self.min = Some(self.min.map_or(rtt, |min| min.min(rtt)));
            self.max = self.max.max(rtt);
        }
    }

    fn increase_window(&mut self, tcb: &mut SocketState, segments: u32) {
        NewReno::increase(tcb, segments, |tcb, segments| {
            if segments > 0 {
                let (segment, window) = (f64::from(tcb.segment), f64::from(tcb.cwnd));
                let adder = (segment * segment + window * self.alpha) / window;
                tcb.cwnd = tcb.cwnd.wrapping_add(adder.max(1.0) as u32);
            }
        });
    }

    fn get_ss_thresh(&mut self, tcb: &SocketState, bytes_in_flight: u32) -> u32 {
        self.last_congestion = tcb.now;
        self.update_beta();
        self.update_alpha(tcb.now);
        (self.min, self.max) = (None, Span::ZERO);
        (self.last_throughput, self.throughput, self.sent) = (self.throughput, 0, 0);
        tcb.least().max((f64::from(bytes_in_flight) * self.beta) as u32)
    }

    fn delays(&self) -> (Option<Span>, Option<Span>) {
        (self.min, None)
    }
}
