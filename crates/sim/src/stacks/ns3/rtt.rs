//! `RttMeanDeviation` (`rtt-estimator.cc`) and what of `tcp-socket-base.cc` feeds it: the history of what was sent (`RttHistory`,
//! `UpdateRttHistory`, `EstimateRtt`) and the retransmission timeout (`m_rto`).

use std::collections::VecDeque;

use lowtide_units::Span;

/// `RttEstimator::InitialEstimation`.
const INITIAL_ESTIMATION: Span = Span::from_secs(1);
/// `TcpSocketBase::ClockGranularity`.
const CLOCK_GRANULARITY: Span = Span::from_millis(1);
/// The longest timeout (`ReTxTimeout`).
const MAX_RTO: Span = Span::from_secs(60);

/// The estimator, the history and the timeout of one socket.
#[derive(Clone, Debug)]
pub struct Rtt {
    /// `m_estimatedRtt`, `m_estimatedVariation`.
    estimate: Span,
    variation: Span,
    /// `m_nSamples` is not zero.
    sampled: bool,
    /// `m_rto`, `m_minRto`.
    rto: Span,
    min_rto: Span,
    /// `m_history`: segments in the order they were first sent, and whether they were sent again.
    history: VecDeque<(u32, bool)>,
}

impl Rtt {
    /// An estimator without samples.
    pub fn new(min_rto: Span) -> Rtt {
        let mut rtt =
            Rtt { estimate: INITIAL_ESTIMATION, variation: Span::ZERO, sampled: false, rto: Span::ZERO, min_rto, history: VecDeque::new() };
        rtt.set_rto();
        rtt
    }

    /// `GetEstimate`, zero before the first sample.
    pub fn estimate(&self) -> Span {
        if self.sampled { self.estimate } else { Span::ZERO }
    }

    /// `m_rto`.
    pub fn rto(&self) -> Span {
        self.rto
    }

    /// RFC 6298 §2.4.
    pub fn set_rto(&mut self) {
        self.rto = (self.estimate + (self.variation * 4).max(CLOCK_GRANULARITY)).max(self.min_rto);
    }

    /// `ReTxTimeout`: RFC 6298 §2.5; the history is forgotten.
    pub fn back_off(&mut self) {
        self.rto = (self.rto * 2).min(MAX_RTO);
        self.history.clear();
    }

    /// `Measurement`, by `IntegerUpdate`: gains of 1/8 and 1/4.
    pub fn measure(&mut self, m: Span) {
        if !self.sampled {
            (self.sampled, self.estimate, self.variation) = (true, m, m / 2);
            return;
        }
        let (m, estimate, variation) = (m.nanos() as i64, self.estimate.nanos() as i64, self.variation.nanos() as i64);
        let delta = m - estimate;
        self.estimate = Span::from_nanos((((estimate << 3) + delta) >> 3) as u64);
        self.variation = Span::from_nanos((((variation << 2) + delta.abs() - variation) >> 2) as u64);
    }

    /// `UpdateRttHistory`: segment `seq` leaves, for the first time or again.
    pub fn on_sent(&mut self, seq: u32, again: bool) {
        if !again {
            self.history.push_back((seq, false));
            return;
        }
        if let Ok(at) = self.history.binary_search_by_key(&seq, |entry| entry.0) {
            self.history[at].1 = true;
        }
    }

    /// `EstimateRtt`: `ack` arrives, `elapsed` after what it echoes was sent. The sample, if it is one: the oldest segment was sent once.
    pub fn on_ack(&mut self, ack: u32, elapsed: Span) -> Option<Span> {
        let valid = self.history.front().is_some_and(|&(seq, again)| seq < ack && !again);
        while self.history.front().is_some_and(|&(seq, _)| seq < ack) {
            self.history.pop_front();
        }
        if !valid {
            return None;
        }
        self.measure(elapsed);
        self.set_rto();
        Some(elapsed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 100 ms, then 200: 100 + 100/8 and 50 + (100 − 50)/4; the timeout is their sum with four times the second.
    #[test]
    fn gains_are_an_eighth_and_a_quarter() {
        let mut rtt = Rtt::new(Span::from_millis(100));
        assert_eq!(rtt.rto(), Span::from_millis(1001), "a second and the clock's granularity");
        rtt.on_sent(0, false);
        rtt.on_sent(1, false);
        rtt.on_ack(1, Span::from_millis(100));
        assert_eq!(rtt.rto(), Span::from_millis(300));
        rtt.on_ack(2, Span::from_millis(200));
        assert_eq!((rtt.estimate(), rtt.rto()), (Span::from_millis_f64(112.5), Span::from_millis_f64(112.5 + 250.0)));
    }

    #[test]
    fn what_was_sent_again_gives_no_sample_and_an_expiry_forgets() {
        let mut rtt = Rtt::new(Span::from_secs(1));
        rtt.on_sent(0, false);
        rtt.on_sent(1, false);
        rtt.on_sent(0, true);
        assert_eq!(rtt.on_ack(2, Span::from_millis(50)), None, "the oldest decides for all");
        rtt.on_sent(2, false);
        rtt.back_off();
        rtt.on_sent(2, true);
        assert_eq!(rtt.on_ack(3, Span::from_millis(50)), None);
        assert!(rtt.rto() > Span::from_secs(2));
    }
}
