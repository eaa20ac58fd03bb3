//! `TcpNewReno` (`tcp-congestion-ops.cc`) and `TcpLinuxReno` (`tcp-linux-reno.cc`) of ns-3.37.

use super::socket::{CongestionOps, SocketState};

/// `TcpNewReno`: counts acknowledgements, one segment each in slow start, SMSS²/cwnd after it, in whole bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct NewReno;

impl NewReno {
    /// `SlowStart`; the segments that are left.
    pub fn slow_start(tcb: &mut SocketState, segments: u32) -> u32 {
        if segments == 0 {
            return 0;
        }
        tcb.cwnd = tcb.cwnd.wrapping_add(tcb.segment);
        segments - 1
    }

    /// `CongestionAvoidance`.
    pub fn congestion_avoidance(tcb: &mut SocketState, segments: u32) {
        if segments > 0 {
            let adder = f64::from(tcb.segment) * f64::from(tcb.segment) / f64::from(tcb.cwnd);
            tcb.cwnd = tcb.cwnd.wrapping_add(adder.max(1.0) as u32);
        }
    }

    /// `IncreaseWindow`, with `avoid` for its congestion avoidance.
    pub fn increase(tcb: &mut SocketState, mut segments: u32, avoid: impl FnOnce(&mut SocketState, u32)) {
        if tcb.below_threshold() {
            segments = NewReno::slow_start(tcb, segments);
        }
        if !tcb.below_threshold() {
            avoid(tcb, segments);
        }
    }

    /// `GetSsThresh`.
    pub fn half(tcb: &SocketState, bytes_in_flight: u32) -> u32 {
        tcb.least().max(bytes_in_flight / 2)
    }
}

impl CongestionOps for NewReno {
    fn increase_window(&mut self, tcb: &mut SocketState, segments: u32) {
        NewReno::increase(tcb, segments, NewReno::congestion_avoidance);
    }

    fn get_ss_thresh(&mut self, tcb: &SocketState, bytes_in_flight: u32) -> u32 {
        NewReno::half(tcb, bytes_in_flight)
    }
}

/// `TcpLinuxReno`: counts segments. Unlike Linux (`tcp_init_cwnd_reduction`) it keeps its count over a reduction.
#[derive(Clone, Copy, Debug, Default)]
pub struct LinuxReno {
    /// `m_cWndCnt`.
    count: u32,
}

impl CongestionOps for LinuxReno {
    fn increase_window(&mut self, tcb: &mut SocketState, segments: u32) {
        if tcb.below_threshold() {
            tcb.cwnd = tcb.cwnd.saturating_add(segments * tcb.segment).min(tcb.ssthresh);
            return;
        }
        let window = tcb.segments().max(1);
        if self.count >= window {
            self.count = 0;
            tcb.cwnd += tcb.segment;
        }
        self.count += segments;
        if self.count >= window {
            tcb.cwnd += self.count / window * tcb.segment;
            self.count %= window;
        }
    }

    fn get_ss_thresh(&mut self, tcb: &SocketState, _: u32) -> u32 {
        tcb.least().max(tcb.cwnd / 2)
    }
}
