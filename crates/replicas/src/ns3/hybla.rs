//! `TcpHybla` of ns-3.37 (`tcp-hybla.cc`), on `TcpNewReno`. ρ goes by an RTT that is the smallest, the handshake's counted: where data
//! takes longer than a SYN there is none, and ρ stays 1.

use lowtide_units::Span;

use super::reno::NewReno;
use super::socket::{CongestionOps, SocketState};

/// `RRTT`, in ms.
const RTT0_MS: f64 = 50.0;

/// The state of a flow.
#[derive(Clone, Copy, Debug)]
pub struct Hybla {
    /// `m_rho`.
    rho: f64,
    /// `m_cWndCnt`.
    count: f64,
}

impl Default for Hybla {
    fn default() -> Hybla {
        Hybla { rho: 1.0, count: 0.0 }
    }
}

impl CongestionOps for Hybla {
    fn pkts_acked(&mut self, tcb: &mut SocketState, _: u32, rtt: Span) {
        if rtt > Span::ZERO && tcb.min_rtt == Some(rtt) {
            self.rho = ((rtt.nanos() / 1_000_000) as f64 / RTT0_MS).max(1.0);
        }
    }

    fn increase_window(&mut self, tcb: &mut SocketState, mut segments: u32) {
        if tcb.below_threshold() && segments > 0 {
            let increment = (libm::pow(2.0, self.rho) - 1.0) * f64::from(tcb.segment);
            tcb.cwnd = tcb.cwnd.saturating_add(increment as u32).min(tcb.ssthresh);
            segments -= 1;
        }
        if tcb.below_threshold() {
            return;
        }
        self.count += f64::from(segments) * self.rho * self.rho / f64::from(tcb.segments().max(1));
        let whole = self.count as u32;
        self.count -= f64::from(whole);
        tcb.cwnd += whole * tcb.segment;
    }

    fn get_ss_thresh(&mut self, tcb: &SocketState, bytes_in_flight: u32) -> u32 {
        NewReno::half(tcb, bytes_in_flight)
    }
}
