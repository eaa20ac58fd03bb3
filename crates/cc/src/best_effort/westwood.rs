//! TCP Westwood+: Reno's increase; a loss leaves what the estimated bandwidth fills at the smallest RTT (Linux `tcp_westwood.c`).
//! The two ns-3 models differ in when the bandwidth is sampled and how it is filtered.

use lowtide_units::{Span, Time};
use serde::Deserialize;

use crate::controller::{Controller, Start};
use crate::events::{Ack, Congestion};
use crate::params::{ParamError, Params};
use crate::reno_base::{Base, Law, Rival, Window, ns3_base};

/// Parameters; the defaults are Linux's.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The base's variant.
    pub base: Base,
    /// How the bandwidth is estimated.
    pub estimator: Estimator,
}

/// How the bandwidth is estimated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Estimator {
    /// Bytes over max(RTT, 50 ms), two stages of weight 1/8 (Westwood+, Linux).
    #[default]
    Linux,
    /// Bytes over the time since the last acknowledgement, Tustin filter (ns-3.37 Westwood).
    Ns3PerAck,
    /// Bytes over an RTT, Tustin filter (ns-3.37 WestwoodPlus).
    Ns3PerRtt,
}

/// `westwood-ns3`: what S3's figures labelled Westwood+ ran (rivals.md H.0.1).
pub const NS3: &str = concat!(ns3_base!(), "estimator = 'ns3_per_ack'");
/// `westwood_plus-ns3`.
pub const NS3_PLUS: &str = concat!(ns3_base!(), "estimator = 'ns3_per_rtt'");

/// A sample spans at least this (Linux TCP_WESTWOOD_RTT_MIN).
const MIN_SAMPLE: Span = Span::from_millis(50);
/// Weight of the old value in each stage (Linux `westwood_do_filter`).
const STAGE: f64 = 7.0 / 8.0;
/// Weight of the old value in Tustin's filter (ns-3).
const TUSTIN: f64 = 0.9;

/// The registry's constructor.
///
/// # Errors
/// Unknown parameters.
pub fn build(params: &Params, start: &Start) -> Result<Box<dyn Controller>, ParamError> {
    let config: Config = params.read("westwood")?;
    Ok(Box::new(Rival::new(config.base, Westwood::new(config.estimator, start), start)))
}

/// The state of Westwood+.
#[derive(Debug)]
pub struct Westwood {
    estimator: Estimator,
    /// Bytes a second after the last stage, none before the first sample.
    bandwidth: Option<f64>,
    /// The first stage, or ns-3's last sample.
    stage: f64,
    bytes: f64,
    sample_start: Time,
    rtt: Option<Span>,
    rtt_min: Option<Span>,
}

impl Westwood {
    /// A flow that has measured nothing but, in ns-3, the handshake (`TcpSocketState::m_minRtt`).
    pub fn new(estimator: Estimator, start: &Start) -> Westwood {
        let rtt_min = start.handshake_rtt.filter(|_| estimator != Estimator::Linux);
        Westwood { estimator, bandwidth: None, stage: 0.0, bytes: 0.0, sample_start: start.now, rtt: None, rtt_min }
    }

    /// The bytes that `ack` counts for. ns-3's socket calls `PktsAcked` with one segment for a duplicate and for a partial
    /// acknowledgement, and else with all by which the left edge moved, although the duplicates have counted most of it.
    fn worth(&self, window: &Window, ack: &Ack) -> f64 {
        match self.estimator {
            Estimator::Linux => ack.acked as f64,
            _ if ack.advanced == 0 || ack.in_recovery => window.mss,
            _ => ack.advanced as f64,
        }
    }

    /// Whether a sample taken over `elapsed` is complete.
    fn is_due(&self, elapsed: Span) -> bool {
        match (self.estimator, self.rtt) {
            (_, None) => false,
            (Estimator::Linux, Some(rtt)) => elapsed > rtt.max(MIN_SAMPLE),
            (Estimator::Ns3PerAck, Some(_)) => elapsed > Span::ZERO,
            (Estimator::Ns3PerRtt, Some(rtt)) => elapsed >= rtt && elapsed > Span::ZERO,
        }
    }

    fn filter(&mut self, sample: f64) {
        let before = self.stage;
        self.bandwidth = Some(match (self.estimator, self.bandwidth) {
            (Estimator::Linux, None) => {
                self.stage = sample;
                sample
            }
            (Estimator::Linux, Some(old)) => {
                self.stage = STAGE * before + (1.0 - STAGE) * sample;
                STAGE * old + (1.0 - STAGE) * self.stage
            }
            (Estimator::Ns3PerAck | Estimator::Ns3PerRtt, old) => {
                self.stage = sample;
                TUSTIN * old.unwrap_or(0.0) + (1.0 - TUSTIN) * (sample + before) / 2.0
            }
        });
    }

    fn close_sample(&mut self, now: Time) {
        let elapsed = now.since(self.sample_start);
        if self.is_due(elapsed) {
            self.filter(self.bytes / elapsed.secs_f64());
            self.bytes = 0.0;
            self.sample_start = now;
        }
    }
}

impl Law for Westwood {
    fn measure(&mut self, window: &mut Window, ack: &Ack) {
        if let Some(rtt) = ack.rtt.filter(|rtt| *rtt > Span::ZERO) {
            self.rtt = Some(rtt);
            self.rtt_min = Some(self.rtt_min.map_or(rtt, |min| min.min(rtt)));
        }
        // Linux closes the sample before it adds the acknowledgement that comes after its end.
        if self.estimator == Estimator::Linux {
            self.close_sample(ack.now);
        }
        self.bytes += self.worth(window, ack);
        if self.estimator != Estimator::Linux {
            self.close_sample(ack.now);
        }
    }

    fn adjust(&mut self, window: &mut Window, ack: &Ack) {
        window.grow_as_reno(ack);
    }

    fn reduce(&mut self, window: &mut Window, _event: &Congestion) {
        let rtt = self.rtt_min.map_or(0.0, Span::secs_f64);
        window.cut_to(libm::floor(self.bandwidth.unwrap_or(0.0) * rtt / window.mss));
    }

    fn forget_after_timeout(&mut self, _now: Time) {
        // Linux CA_EVENT_LOSS: the path may have changed. ns-3 keeps the smallest of the connection.
        if self.estimator == Estimator::Linux {
            self.rtt_min = None;
        }
    }

    fn delays(&self) -> (Option<Span>, Option<Span>) {
        (self.rtt_min, self.rtt.zip(self.rtt_min).map(|(rtt, min)| rtt - min))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::Cause;
    use crate::reno_base::testing::{MSS, ack, avoiding, episode};

    /// 5 s of `segments` every `every_ms` at an RTT of 40 ms, then a loss.
    fn window_after(estimator: Estimator, segments: f64, every_ms: f64, cause: Cause) -> f64 {
        let mut flow = avoiding(Base::default(), Westwood::new(estimator, &Start::default()), 60.0);
        let mut at = 0.0;
        while at < 5000.0 {
            at += every_ms;
            let ack = ack(at, segments, 40.0);
            flow.on_ack(&Ack { advanced: ack.acked, ..ack });
        }
        flow.on_congestion(&episode(at, cause, 60.0));
        flow.window.cwnd
    }

    #[test]
    fn ten_megabit_and_forty_milliseconds_leave_thirty_three() {
        // 10 Mbit/s in segments of 1500 B: one every 1.2 ms. Here a segment has 1000 B: 50 of them.
        for estimator in [Estimator::Linux, Estimator::Ns3PerAck, Estimator::Ns3PerRtt] {
            let left = window_after(estimator, 1.5, 1.2, Cause::Loss) * f64::from(MSS) / 1500.0;
            assert!((32.0..=34.0).contains(&left), "{estimator:?}: {left}");
        }
        assert_eq!(window_after(Estimator::Linux, 1.5, 1.2, Cause::Timeout), 1.0);
    }

    #[test]
    fn without_an_estimate_two_are_left() {
        let mut flow = avoiding(Base::default(), Westwood::new(Estimator::Linux, &Start::default()), 60.0);
        flow.on_congestion(&episode(0.0, Cause::Loss, 60.0));
        assert_eq!(flow.window.cwnd, 2.0);
    }

    #[test]
    fn two_stages_of_seven_eighths() {
        let mut law = Westwood::new(Estimator::Linux, &Start::default());
        law.filter(800.0);
        assert_eq!(law.bandwidth, Some(800.0));
        law.filter(1600.0);
        assert_eq!((law.stage, law.bandwidth), (900.0, Some(812.5)));
    }

    #[test]
    fn a_sample_spans_fifty_milliseconds_at_least() {
        let mut flow = avoiding(Base::default(), Westwood::new(Estimator::Linux, &Start::default()), 60.0);
        for at in [10.0, 20.0, 30.0, 40.0, 50.0] {
            flow.on_ack(&ack(at, 1.0, 5.0));
        }
        assert_eq!(flow.law.bandwidth, None);
        flow.on_ack(&ack(60.0, 1.0, 5.0));
        assert!((flow.law.bandwidth.expect("sampled") - 5000.0 / 0.06).abs() < 1e-6);
    }

    #[test]
    fn a_timeout_forgets_the_smallest_rtt_in_linux() {
        let start = Start { handshake_rtt: Some(Span::from_millis(4)), ..Start::default() };
        for (estimator, least) in [(Estimator::Linux, 50), (Estimator::Ns3PerAck, 4), (Estimator::Ns3PerRtt, 4)] {
            let mut flow = avoiding(Base::default(), Westwood::new(estimator, &start), 60.0);
            flow.on_ack(&ack(10.0, 1.0, 5.0));
            flow.on_congestion(&episode(0.0, Cause::Timeout, 60.0));
            flow.on_ack(&ack(20.0, 1.0, 50.0));
            assert_eq!(flow.law.rtt_min, Some(Span::from_millis(least)));
        }
    }

    /// Two SACKs above a hole, a partial acknowledgement and the one that ends the recovery: 1 + 1 + 1 and all four once more.
    #[test]
    fn ns3_counts_duplicates_and_then_what_they_announced() {
        let mss = u64::from(MSS);
        let sack = Ack { in_recovery: true, ..ack(0.0, 1.0, 40.0) };
        let acks =
            [(sack, 1), (sack, 1), (Ack { advanced: 2 * mss, ..sack }, 1), (Ack { advanced: 4 * mss, in_recovery: false, ..sack }, 4)];
        for (estimator, double) in [(Estimator::Ns3PerAck, true), (Estimator::Linux, false)] {
            let flow = avoiding(Base::default(), Westwood::new(estimator, &Start::default()), 60.0);
            for (ack, segments) in &acks {
                let want = if double { f64::from(*segments) * f64::from(MSS) } else { ack.acked as f64 };
                assert_eq!(flow.law.worth(&flow.window, ack), want);
            }
        }
    }
}
