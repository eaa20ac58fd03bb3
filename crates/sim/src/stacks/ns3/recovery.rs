//! How the window falls during a recovery: `TcpClassicRecovery` (`tcp-recovery-ops.cc`) and `TcpPrrRecovery` (`tcp-prr-recovery.cc`,
//! with its default bound, SSRB).

use lowtide_replicas::ns3::socket::SocketState;

/// `TcpRecoveryOps`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecoveryOps {
    /// `TcpClassicRecovery`: at once to the threshold.
    Classic,
    /// `TcpPrrRecovery`.
    Prr {
        /// `m_recoveryFlightSize`.
        flight: u32,
        /// `m_prrDelivered`.
        delivered: u32,
        /// `m_prrOut`.
        out: u32,
    },
}

impl RecoveryOps {
    /// `TcpPrrRecovery` before its first episode.
    pub fn prr() -> RecoveryOps {
        RecoveryOps::Prr { flight: 0, delivered: 0, out: 0 }
    }

    /// `EnterRecovery`: with `unacknowledged` bytes between the left edge and what was sent, of which `delivered` have just come.
    pub fn enter_recovery(&mut self, tcb: &mut SocketState, unacknowledged: u32, newly: u32) {
        match self {
            RecoveryOps::Classic => tcb.cwnd = tcb.ssthresh,
            RecoveryOps::Prr { flight, delivered, out } => {
                (*flight, *delivered, *out) = (unacknowledged, 0, 0);
                self.do_recovery(tcb, newly);
            }
        }
    }

    /// `DoRecovery`: `newly` bytes have been delivered. What is in flight is as the socket last counted it.
    pub fn do_recovery(&mut self, tcb: &mut SocketState, newly: u32) {
        let RecoveryOps::Prr { flight, delivered, out } = self else { return };
        *delivered += newly;
        let (in_flight, ssthresh) = (i64::from(tcb.bytes_in_flight), i64::from(tcb.ssthresh));
        let unsent = i64::from(*delivered) - i64::from(*out);
        let count = if in_flight > ssthresh {
            // 32-bit product, as there.
            let product = delivered.wrapping_mul(tcb.ssthresh);
            libm::ceil(f64::from(product) / f64::from((*flight).max(1))) as i64 - i64::from(*out)
        } else {
            let limit = if tcb.retransmission_acked {
                // Of two unsigned numbers: where more was sent than delivered, that wraps and the limit is below zero.
                i64::from((unsent as u32).max(newly).wrapping_add(tcb.segment) as i32)
            } else {
                i64::from(newly)
            };
            limit.min(ssthresh - in_flight)
        };
        // The fast retransmission itself always leaves.
        let count = count.max(if *out > 0 { 0 } else { i64::from(tcb.segment) });
        tcb.cwnd = (in_flight + count) as u32;
    }

    /// `UpdateBytesSent`.
    pub fn update_bytes_sent(&mut self, bytes: u32) {
        if let RecoveryOps::Prr { out, .. } = self {
            *out += bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use lowtide_cc::Start;

    use super::*;

    /// Twenty in flight, one lost, a threshold of fourteen: what the nineteen others let go.
    #[test]
    fn a_reduction_is_spread_over_what_arrives() {
        let mut tcb = SocketState::new(&Start { mss: 1, ..Start::default() });
        (tcb.ssthresh, tcb.bytes_in_flight) = (14, 18);
        let mut prr = RecoveryOps::prr();
        let (mut sent, mut enters) = (0, true);
        for _ in 0..19 {
            if std::mem::take(&mut enters) {
                prr.enter_recovery(&mut tcb, 20, 1);
            } else {
                tcb.bytes_in_flight -= 1;
                prr.do_recovery(&mut tcb, 1);
            }
            while tcb.bytes_in_flight < tcb.cwnd {
                (tcb.bytes_in_flight, sent) = (tcb.bytes_in_flight + 1, sent + 1);
                prr.update_bytes_sent(1);
            }
        }
        assert_eq!((sent, tcb.bytes_in_flight), (14, 14));
    }

    #[test]
    fn the_classic_one_stands_at_the_threshold() {
        let mut tcb = SocketState::new(&Start { mss: 1, ..Start::default() });
        (tcb.ssthresh, tcb.cwnd) = (14, 20);
        let mut classic = RecoveryOps::Classic;
        classic.enter_recovery(&mut tcb, 20, 1);
        classic.do_recovery(&mut tcb, 1);
        assert_eq!(tcb.cwnd, 14);
    }
}
