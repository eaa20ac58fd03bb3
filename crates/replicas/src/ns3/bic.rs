//! `TcpBic` of ns-3.37 (`tcp-bic.cc`).

use super::socket::{CongestionOps, SocketState};

/// `Beta`, `MaxIncr`, `LowWnd`, `SmoothPart`, `BinarySearchCoefficient`.
const BETA: f64 = 0.8;
const MAX_INCREMENT: u32 = 16;
const LOW_WINDOW: u32 = 14;
const SMOOTH_PART: u32 = 5;
const B: u32 = 4;

/// The state of a flow; windows in segments.
#[derive(Clone, Copy, Debug, Default)]
pub struct Bic {
    /// `m_cWndCnt`.
    count: u32,
    /// `m_lastMaxCwnd`.
    last_max: u32,
}

impl Bic {
    /// `Update`: segments per +1. The distance to the last maximum is divided in whole numbers.
    fn update(&self, window: u32) -> u32 {
        if window < LOW_WINDOW {
            return window;
        }
        let mut count = if window < self.last_max {
            let distance = (self.last_max - window) / B;
            if distance > MAX_INCREMENT {
                window / MAX_INCREMENT
            } else if distance <= 1 {
                window * SMOOTH_PART / B
            } else {
                window / distance
            }
        } else if window < self.last_max + B {
            window * SMOOTH_PART / B
        } else if window < self.last_max + MAX_INCREMENT * (B - 1) {
            window * (B - 1) / (window - self.last_max)
        } else {
            window / MAX_INCREMENT
        };
        if self.last_max == 0 {
            count = count.min(20);
        }
        count.max(1)
    }
}

impl CongestionOps for Bic {
    fn increase_window(&mut self, tcb: &mut SocketState, mut segments: u32) {
        if tcb.below_threshold() {
            tcb.cwnd += tcb.segment;
            segments = segments.saturating_sub(1);
        }
        if !tcb.below_threshold() && segments > 0 {
            self.count += segments;
            if self.count > self.update(tcb.segments()) {
                tcb.cwnd += tcb.segment;
                self.count = 0;
            }
        }
    }

    fn get_ss_thresh(&mut self, tcb: &SocketState, bytes_in_flight: u32) -> u32 {
        let window = tcb.segments();
        self.last_max = if window < self.last_max { (BETA * f64::from(window)) as u32 } else { window };
        if window < LOW_WINDOW {
            return tcb.least().max(bytes_in_flight / 2);
        }
        ((f64::from(window) * BETA).max(2.0) * f64::from(tcb.segment)) as u32
    }
}
