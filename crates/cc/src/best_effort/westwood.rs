//! TCP Westwood+: Reno's increase; a loss leaves what the estimated bandwidth fills at the smallest RTT (Linux `tcp_westwood.c`).

use lowtide_units::{Span, Time};
use serde::Deserialize;

use crate::controller::{Controller, Start};
use crate::events::{Ack, Congestion};
use crate::params::{ParamError, Params};
use crate::reno_base::{Base, Law, Rival, Window};

/// Parameters; the defaults are Linux's.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The base's variant.
    pub base: Base,
}

/// A sample spans at least this (Linux TCP_WESTWOOD_RTT_MIN).
const MIN_SAMPLE: Span = Span::from_millis(50);
/// Weight of the old value in each stage (Linux `westwood_do_filter`).
const STAGE: f64 = 7.0 / 8.0;

/// The registry's constructor.
///
/// # Errors
/// Unknown parameters.
pub fn build(params: &Params, start: &Start) -> Result<Box<dyn Controller>, ParamError> {
    let config: Config = params.read("westwood")?;
    Ok(Box::new(Rival::new(config.base, Westwood::new(start), start)))
}

/// The state of Westwood+.
#[derive(Debug)]
pub struct Westwood {
    /// Bytes a second after the last stage, none before the first sample.
    bandwidth: Option<f64>,
    /// The first stage.
    stage: f64,
    bytes: f64,
    sample_start: Time,
    rtt: Option<Span>,
    rtt_min: Option<Span>,
}

impl Westwood {
    /// A flow that has measured nothing.
    pub fn new(start: &Start) -> Westwood {
        Westwood { bandwidth: None, stage: 0.0, bytes: 0.0, sample_start: start.now, rtt: None, rtt_min: None }
    }

    /// Whether a sample taken over `elapsed` is complete.
    fn is_due(&self, elapsed: Span) -> bool {
        self.rtt.is_some_and(|rtt| elapsed > rtt.max(MIN_SAMPLE))
    }

    fn filter(&mut self, sample: f64) {
        let Some(old) = self.bandwidth else {
            (self.stage, self.bandwidth) = (sample, Some(sample));
            return;
        };
        self.stage = STAGE * self.stage + (1.0 - STAGE) * sample;
        self.bandwidth = Some(STAGE * old + (1.0 - STAGE) * self.stage);
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
    fn measure(&mut self, _window: &mut Window, ack: &Ack) {
        if let Some(rtt) = ack.rtt.filter(|rtt| *rtt > Span::ZERO) {
            self.rtt = Some(rtt);
            self.rtt_min = Some(self.rtt_min.map_or(rtt, |min| min.min(rtt)));
        }
        // The sample is closed before the acknowledgement that comes after its end is added.
        self.close_sample(ack.now);
        self.bytes += ack.acked as f64;
    }

    fn adjust(&mut self, window: &mut Window, ack: &Ack) {
        window.grow_as_reno(ack);
    }

    fn reduce(&mut self, window: &mut Window, _event: &Congestion) {
        let rtt = self.rtt_min.map_or(0.0, Span::secs_f64);
        window.cut_to(libm::floor(self.bandwidth.unwrap_or(0.0) * rtt / window.mss));
    }

    fn forget_after_timeout(&mut self, _now: Time) {
        // CA_EVENT_LOSS: the path may have changed.
        self.rtt_min = None;
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
    fn window_after(segments: f64, every_ms: f64, cause: Cause) -> f64 {
        let mut flow = avoiding(Base::default(), Westwood::new(&Start::default()), 60.0);
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
        let left = window_after(1.5, 1.2, Cause::Loss) * f64::from(MSS) / 1500.0;
        assert!((32.0..=34.0).contains(&left), "{left}");
        assert_eq!(window_after(1.5, 1.2, Cause::Timeout), 1.0);
    }

    #[test]
    fn without_an_estimate_two_are_left() {
        let mut flow = avoiding(Base::default(), Westwood::new(&Start::default()), 60.0);
        flow.on_congestion(&episode(0.0, Cause::Loss, 60.0));
        assert_eq!(flow.window.cwnd, 2.0);
    }

    #[test]
    fn two_stages_of_seven_eighths() {
        let mut law = Westwood::new(&Start::default());
        law.filter(800.0);
        assert_eq!(law.bandwidth, Some(800.0));
        law.filter(1600.0);
        assert_eq!((law.stage, law.bandwidth), (900.0, Some(812.5)));
    }

    #[test]
    fn a_sample_spans_fifty_milliseconds_at_least() {
        let mut flow = avoiding(Base::default(), Westwood::new(&Start::default()), 60.0);
        for at in [10.0, 20.0, 30.0, 40.0, 50.0] {
            flow.on_ack(&ack(at, 1.0, 5.0));
        }
        assert_eq!(flow.law.bandwidth, None);
        flow.on_ack(&ack(60.0, 1.0, 5.0));
        assert!((flow.law.bandwidth.expect("sampled") - 5000.0 / 0.06).abs() < 1e-6);
    }

    #[test]
    fn a_timeout_forgets_the_smallest_rtt() {
        let mut flow = avoiding(Base::default(), Westwood::new(&Start::default()), 60.0);
        flow.on_ack(&ack(10.0, 1.0, 5.0));
        flow.on_congestion(&episode(0.0, Cause::Timeout, 60.0));
        flow.on_ack(&ack(20.0, 1.0, 50.0));
        assert_eq!(flow.law.rtt_min, Some(Span::from_millis(50)));
    }
}
