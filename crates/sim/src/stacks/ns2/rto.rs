//! The retransmission timeout: RFC 6298, Linux's form of it, ns-2's, ns-3's and libutp's. Knows RTT samples and rounds only.

use lowtide_units::Span;

/// Whose timer it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RtoProfile {
    /// Initial 1 s, the variance term never below 200 ms, at most 120 s.
    #[default]
    Linux,
    /// RFC 6298: initial 1 s, at least 1 s, at most 60 s.
    Rfc,
    /// ns-3.37: as the RFC, with a granularity of 1 ms.
    Ns3,
    /// libutp: initial 3 s, at least 1 s, whole milliseconds.
    Libutp,
    /// ns-2's Linux agent (`tcp/tcp-linux.cc` `rtt_update`): Linux's estimator in whole milliseconds without its memory of the
    /// round's largest deviation; initial 3 s, at least 200 ms in all, at most 120 s.
    Ns2 {
        /// Every acknowledgement is a sample, by the timestamp that it echoes: of a duplicate that of what came in order, ever
        /// longer ago. Otherwise, ns-2's default, one segment a round is timed, and a back-off lasts until one was.
        timestamps: bool,
    },
}

/// What of acknowledgements and their RTT samples an estimator is to be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Samples {
    /// Each RTT sample.
    EveryRtt,
    /// The first one of a round.
    OneARound,
    /// How old the timestamp is that an acknowledgement echoes, of duplicates, too.
    EveryAck,
}

impl RtoProfile {
    /// Linux: of the variance term; the others: of the timeout.
    fn floor(self) -> Span {
        match self {
            RtoProfile::Linux | RtoProfile::Ns2 { .. } => Span::from_millis(200),
            RtoProfile::Rfc | RtoProfile::Ns3 | RtoProfile::Libutp => Span::from_secs(1),
        }
    }
}

/// The estimator of one connection.
#[derive(Clone, Copy, Debug)]
pub struct RtoEstimator {
    profile: RtoProfile,
    floor: Span,
    srtt: Span,
    /// RFC: the mean deviation RTTVAR. Linux: four times the mean deviation, its `mdev`.
    deviation: Span,
    /// Linux: largest deviation of the running round, and the term V in use.
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

    /// One RTT sample; `round_ended` once per round trip. A sample ends a back-off.
    pub fn sample(&mut self, rtt: Span, round_ended: bool) {
        let rtt = if self.profile == RtoProfile::Libutp { Span::from_millis(rtt.nanos() / 1_000_000) } else { rtt };
        self.backoff = 0;
        if let RtoProfile::Ns2 { timestamps } = self.profile {
            self.ns2_sample(rtt, timestamps);
            return;
        }
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
            _ => {
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

    /// In ticks of 1 ms: SRTT in eighths, RTTVAR in quarters, all rounded down.
    fn ns2_sample(&mut self, rtt: Span, rounded: bool) {
        const TICK: u64 = 1_000_000;
        let ticks = ((rtt.nanos() + if rounded { TICK / 2 } else { 0 }) / TICK).max(1) as i64;
        let (mut eighths, mut quarters) = ((self.srtt.nanos() / (TICK / 8)) as i64, (self.deviation.nanos() / (TICK / 4)) as i64);
        if eighths == 0 {
            (eighths, quarters) = (ticks << 3, ticks << 1);
        } else {
            let error = ticks - (eighths >> 3);
            eighths = (eighths + error).max(1);
            let excess = error.abs() - (quarters >> 2);
            // As in Linux a fall of the RTT hardly raises the deviation.
            quarters += if error < 0 && excess > 0 { excess >> 3 } else { excess };
        }
        self.sampled = true;
        (self.srtt, self.deviation) = (Span::from_nanos(eighths as u64 * TICK / 8), Span::from_nanos(quarters as u64 * TICK / 4));
    }

    /// The timer expired: the next one is twice as long.
    pub fn back_off(&mut self) {
        self.backoff = (self.backoff + 1).min(16);
        // Backed off this far, ns-2 takes the next sample for the first one (`TcpAgent::rtt_backoff`).
        if self.is_ns2() && self.backoff > 3 {
            self.deviation += self.srtt / 4;
            self.srtt = Span::ZERO;
        }
    }

    /// Whether it expired and nothing has been acknowledged since.
    pub fn is_backed_off(&self) -> bool {
        self.backoff > 0
    }

    /// Something new was acknowledged: back-off ends even if the sample was ambiguous (Linux).
    pub fn progress(&mut self) {
        if !self.is_ns2() {
            self.backoff = 0;
        }
    }

    /// What it is to be told.
    pub fn samples(&self) -> Samples {
        match self.profile {
            RtoProfile::Ns2 { timestamps: true } => Samples::EveryAck,
            RtoProfile::Ns2 { timestamps: false } => Samples::OneARound,
            _ => Samples::EveryRtt,
        }
    }

    fn is_ns2(&self) -> bool {
        matches!(self.profile, RtoProfile::Ns2 { .. })
    }

    /// The timeout in use, back-off included.
    pub fn rto(&self) -> Span {
        let (initial, max) = match self.profile {
            RtoProfile::Linux => (Span::from_secs(1), Span::from_secs(120)),
            RtoProfile::Rfc => (Span::from_secs(1), Span::from_secs(60)),
            RtoProfile::Ns3 | RtoProfile::Libutp => (Span::from_secs(3), Span::from_secs(60)),
            RtoProfile::Ns2 { .. } => (Span::from_secs(3), Span::from_secs(120)),
        };
        let base = if !self.sampled { initial } else { self.unbacked() };
        (base * (1 << self.backoff)).min(max)
    }

    fn unbacked(&self) -> Span {
        let four = self.deviation * 4;
        match self.profile {
            RtoProfile::Linux => self.srtt + self.variance,
            RtoProfile::Rfc | RtoProfile::Libutp => (self.srtt + four).max(self.floor),
            RtoProfile::Ns2 { .. } => Span::from_millis((self.srtt + four).nanos() / 1_000_000).max(self.floor),
            RtoProfile::Ns3 => (self.srtt + four.max(Span::from_millis(1))).max(self.floor),
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
        // Spec K.1: 100 then 200 ms: SRTT 112.5, V = 250.
        assert_eq!(estimator(RtoProfile::Linux, &[100, 200]).rto(), Span::from_millis_f64(362.5));
    }

    #[test]
    fn the_rfc_sequence_before_its_floor() {
        // Spec K.1: 300, 250, 212.5, 184.4 with a 100 ms RTT; seen here through the lower floor.
        let lower = RtoEstimator::new(RtoProfile::Rfc, Some(Span::from_millis(200)));
        for (n, ms) in [(1, 300.0), (2, 250.0), (3, 212.5)] {
            assert_eq!(sampled(lower, &vec![100; n]).rto(), Span::from_millis_f64(ms));
        }
        assert_eq!(sampled(lower, &[100; 4]).rto(), Span::from_millis(200));
        assert_eq!(estimator(RtoProfile::Rfc, &[100]).rto(), Span::from_secs(1));
    }

    /// 100 ms, then 150: SRTT 106.25, RTTVAR 50 and then 50 + (50 - 50) / 4; a fall to 90 ms adds nothing above RTTVAR/4, but
    /// takes (16 - 50) / 4. The timeout is their sum in whole milliseconds.
    #[test]
    fn ns2_counts_in_ticks() {
        let profile = RtoProfile::Ns2 { timestamps: true };
        let e = |ms: &[u64]| estimator(profile, ms).rto();
        assert_eq!(e(&[]), Span::from_secs(3));
        assert_eq!(e(&[100]), Span::from_millis(300));
        assert_eq!(e(&[100, 150]), Span::from_millis(306));
        assert_eq!(e(&[100, 150, 90]), Span::from_millis(104 + 166));
        assert_eq!(e(&[100; 40]), Span::from_millis(200), "the floor is of the whole");
        let mut e = estimator(profile, &[100, 150]);
        (0..4).for_each(|_| e.back_off());
        assert_eq!((e.srtt(), e.rto()), (Span::ZERO, Span::from_millis(306 * 16)));
        e.sample(Span::from_millis(80), true);
        assert_eq!(e.rto(), Span::from_millis(240));
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
