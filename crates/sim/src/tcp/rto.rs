//! The retransmission timeout: RFC 6298, and Linux's form of it. Knows RTT samples and rounds only.

use lowtide_units::Span;

/// Whose timer it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RtoProfile {
    /// Linux `tcp_rtt_estimator`: initial 1 s, the variance term never below 200 ms, at most 120 s.
    #[default]
    Linux,
    /// RFC 6298: initial 1 s, at least 1 s, at most 60 s.
    Rfc,
}

impl RtoProfile {
    /// Linux: of the variance term; RFC: of the timeout.
    fn floor(self) -> Span {
        match self {
            RtoProfile::Linux => Span::from_millis(200),
            RtoProfile::Rfc => Span::from_secs(1),
        }
    }

    fn most(self) -> Span {
        match self {
            RtoProfile::Linux => Span::from_secs(120),
            RtoProfile::Rfc => Span::from_secs(60),
        }
    }
}

/// The timeout before the first sample (RFC 6298 (2.1)).
const INITIAL: Span = Span::from_secs(1);

/// The estimator of one connection.
#[derive(Clone, Copy, Debug)]
pub struct RtoEstimator {
    profile: RtoProfile,
    floor: Span,
    srtt: Span,
    /// RFC: the mean deviation RTTVAR. Linux: four times the mean deviation, its `mdev_us`.
    deviation: Span,
    /// Linux: largest deviation of the running round (`mdev_max_us`), and the variance term in use (`rttvar_us`).
    round_max: Span,
    variance: Span,
    sampled: bool,
    backoff: u32,
}

impl RtoEstimator {
    /// No sample yet; `floor` instead of the profile's own.
    pub fn new(profile: RtoProfile, floor: Option<Span>) -> RtoEstimator {
        RtoEstimator {
            profile,
            floor: floor.unwrap_or(profile.floor()),
            srtt: Span::ZERO,
            deviation: Span::ZERO,
            round_max: Span::ZERO,
            variance: Span::ZERO,
            sampled: false,
            backoff: 0,
        }
    }

    /// The smoothed RTT, zero before the first sample.
    pub fn srtt(&self) -> Span {
        self.srtt
    }

    /// The least that the timeout adds to the RTT (Linux `tcp_rto_min`).
    pub fn floor(&self) -> Span {
        self.floor
    }

    /// One RTT sample; `round_ended` once per round trip. A sample ends a back-off.
    pub fn sample(&mut self, rtt: Span, round_ended: bool) {
        self.backoff = 0;
        if !self.sampled {
            self.sampled = true;
            self.srtt = rtt;
            self.deviation = if self.profile == RtoProfile::Linux { rtt * 2 } else { rtt / 2 };
            self.variance = self.deviation.max(self.floor);
            self.round_max = self.variance;
            return;
        }
        match self.profile {
            RtoProfile::Linux => self.linux_sample(rtt, round_ended),
            RtoProfile::Rfc => {
                let error = rtt.saturating_sub(self.srtt) + self.srtt.saturating_sub(rtt);
                self.deviation = (self.deviation * 3 + error) / 4;
            }
        }
        self.srtt = (self.srtt * 7 + rtt) / 8;
    }

    /// Linux `tcp_rtt_estimator`: a fall of the RTT hardly raises the deviation; V rises at once and falls once a round.
    fn linux_sample(&mut self, rtt: Span, round_ended: bool) {
        let below = self.srtt.saturating_sub(rtt);
        let error = rtt.saturating_sub(self.srtt) + below;
        // `deviation` is 4 × the mean deviation: the gains ¼ and 1/32 act on the error unscaled.
        let mean = self.deviation / 4;
        self.deviation =
            if below > Span::ZERO && error > mean { self.deviation + (error - mean) / 8 } else { self.deviation - mean + error };
        if self.deviation > self.round_max {
            self.round_max = self.deviation;
            self.variance = self.variance.max(self.round_max);
        }
        if round_ended {
            if self.round_max < self.variance {
                self.variance = self.variance - (self.variance - self.round_max) / 4;
            }
            self.round_max = self.floor;
        }
    }

    /// The timer expired: the next one is twice as long.
    pub fn back_off(&mut self) {
        self.backoff = (self.backoff + 1).min(16);
    }

    /// The timeout in use, back-off included.
    pub fn rto(&self) -> Span {
        (self.unbacked() * (1 << self.backoff)).min(self.profile.most())
    }

    fn unbacked(&self) -> Span {
        match self.profile {
            _ if !self.sampled => INITIAL,
            RtoProfile::Linux => self.srtt + self.variance,
            RtoProfile::Rfc => (self.srtt + self.deviation * 4).max(self.floor),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn estimator(profile: RtoProfile, samples_ms: &[u64]) -> RtoEstimator {
        sampled(RtoEstimator::new(profile, None), samples_ms)
    }

    fn sampled(mut e: RtoEstimator, samples_ms: &[u64]) -> RtoEstimator {
        for &ms in samples_ms {
            e.sample(Span::from_millis(ms), true);
        }
        e
    }

    #[test]
    fn linux_keeps_two_hundred_milliseconds_above_a_constant_rtt() {
        assert_eq!(estimator(RtoProfile::Linux, &[100; 1]).rto(), Span::from_millis(300));
        assert_eq!(estimator(RtoProfile::Linux, &[100; 50]).rto(), Span::from_millis(300));
    }

    #[test]
    fn linux_after_a_doubled_rtt_matches_the_worked_value() {
        // 100 then 200 ms: SRTT 112.5; mdev 200 + (100·4 - 200)/4, the variance term 250.
        assert_eq!(estimator(RtoProfile::Linux, &[100, 200]).rto(), Span::from_millis_f64(362.5));
    }

    #[test]
    fn the_rfc_sequence_before_its_floor() {
        // RTTVAR 50, 37.5, 28.1, 21.1 ms with a constant RTT of 100 ms; seen here through a lower floor.
        let lower = RtoEstimator::new(RtoProfile::Rfc, Some(Span::from_millis(200)));
        for (n, ms) in [(1, 300.0), (2, 250.0), (3, 212.5)] {
            assert_eq!(sampled(lower, &vec![100; n]).rto(), Span::from_millis_f64(ms));
        }
        assert_eq!(sampled(lower, &[100; 4]).rto(), Span::from_millis(200));
        assert_eq!(estimator(RtoProfile::Rfc, &[100]).rto(), Span::from_secs(1));
    }

    #[test]
    fn back_off_doubles_to_the_cap_and_ends_with_a_sample() {
        let mut e = RtoEstimator::new(RtoProfile::Linux, None);
        let mut seen = Vec::new();
        for _ in 0..9 {
            seen.push(e.rto().nanos() / 1_000_000_000);
            e.back_off();
        }
        assert_eq!(seen, [1, 2, 4, 8, 16, 32, 64, 120, 120]);
        e.sample(Span::from_millis(50), true);
        assert_eq!(e.rto(), Span::from_millis(250));
    }
}
