//! Copa (Arun and Balakrishnan, "Copa: Practical Delay-Based Congestion Control for the Internet", NSDI 2018): steers the rate at
//! 1/(δ·dq), where dq is the queueing delay, and competes with flows that fill buffers by a smaller δ. Knows no host.

use std::collections::VecDeque;

use lowtide_units::{Rate, Span, Time};
use serde::Deserialize;

use crate::controller::{Controller, Recovery, Start};
use crate::events::{Ack, Cause, Congestion, Snapshot};
use crate::params::{ParamError, Params, require};
use crate::round::Round;

/// Parameters; the defaults are the paper's.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// δ of the default mode (§2.2).
    pub delta: f64,
    /// Whether it has the mode that competes with those who fill buffers (§2.2).
    pub competes: bool,
}

impl Default for Config {
    fn default() -> Config {
        Config { delta: 0.5, competes: true }
    }
}

/// The minimum RTT is that of so long (§2).
const MIN_RTT_WINDOW: Span = Span::from_secs(10);
/// The queue is nearly empty below this part of the largest queueing delay of four RTTs (§2.2) …
const NEARLY_EMPTY: f64 = 0.1;
const LARGEST_RTTS: u64 = 4;
/// … and somebody fills it if it was not so for five.
const FILLED_RTTS: u64 = 5;
/// The velocity doubles once the direction has been the same for so many windows (§2.1).
const STEADY_WINDOWS: u32 = 3;
/// No window is smaller, in segments. The paper names none; two is what a receiver acknowledges without its timer.
const SMALLEST: f64 = 2.0;
/// After a timeout, of which the paper says nothing: one segment (RFC 5681 §3.1).
const LOSS_WINDOW: f64 = 1.0;
const INITIAL_SEGMENTS: u32 = 10;

/// The registry's constructor.
///
/// # Errors
/// Unknown or impossible parameters.
pub fn build(params: &Params, start: &Start) -> Result<Box<dyn Controller>, ParamError> {
    let config: Config = params.read("copa")?;
    require(config.delta > 0.0 && config.delta <= 1.0, "copa", "delta must lie above 0 and be at most 1")?;
    Ok(Box::new(Copa::new(config, start)))
}

/// The least (or with [`largest`](Recent::largest) the most) of the last samples. What can never be it again is dropped at once.
#[derive(Clone, Debug, Default)]
struct Recent {
    samples: VecDeque<(Time, Span)>,
}

impl Recent {
    fn add(&mut self, now: Time, rtt: Span, window: Span, better: fn(Span, Span) -> bool) -> Span {
        while self.samples.back().is_some_and(|&(_, last)| !better(last, rtt)) {
            self.samples.pop_back();
        }
        self.samples.push_back((now, rtt));
        while self.samples.len() > 1 && self.samples[0].0 + window < now {
            self.samples.pop_front();
        }
        self.samples[0].1
    }

    fn least(&mut self, now: Time, rtt: Span, window: Span) -> Span {
        self.add(now, rtt, window, |a, b| a < b)
    }

    fn largest(&mut self, now: Time, rtt: Span, window: Span) -> Span {
        self.add(now, rtt, window, |a, b| a > b)
    }
}

/// The state of one flow.
#[derive(Clone, Debug)]
pub struct Copa {
    config: Config,
    mss: f64,
    /// Segments.
    cwnd: f64,
    slow_start: bool,
    /// RTTstanding: the minimum of half a smoothed RTT, which ACK compression and delayed ACKs do not move.
    standing: Recent,
    smallest: Recent,
    largest: Recent,
    standing_rtt: Span,
    min_rtt: Span,
    /// 1/δ.
    packets: f64,
    competes: bool,
    nearly_empty_at: Time,
    round: Round,
    /// The window when the round began, which way it went in the last one, and for how many rounds.
    began_with: f64,
    rising: Option<bool>,
    steady: u32,
    velocity: f64,
    lost_in_round: bool,
}

impl Copa {
    /// A flow at its initial window.
    pub fn new(config: Config, start: &Start) -> Copa {
        let mss = f64::from(start.mss);
        let cwnd = start.window_or(INITIAL_SEGMENTS) as f64 / mss;
        Copa {
            config,
            mss,
            cwnd,
            slow_start: true,
            standing: Recent::default(),
            smallest: Recent::default(),
            largest: Recent::default(),
            standing_rtt: start.handshake_rtt.unwrap_or(Span::ZERO),
            min_rtt: Span::ZERO,
            packets: 1.0 / config.delta,
            competes: false,
            nearly_empty_at: start.now,
            round: Round::default(),
            began_with: cwnd,
            rising: None,
            steady: 0,
            velocity: 1.0,
            lost_in_round: false,
        }
    }

    fn queueing_delay(&self) -> Span {
        self.standing_rtt.saturating_sub(self.min_rtt)
    }

    /// §2.2: who sees the queue nearly empty within five RTTs is among its own kind.
    fn choose_mode(&mut self, now: Time, largest: Span, srtt: Span) {
        let swing = largest.saturating_sub(self.min_rtt);
        // A queue that is always empty has no swing: it counts as nearly empty.
        if self.queueing_delay() <= swing.mul_f64(NEARLY_EMPTY) {
            self.nearly_empty_at = now;
        }
        self.competes = self.config.competes && now.since(self.nearly_empty_at) > srtt * FILLED_RTTS;
        if !self.competes {
            self.packets = 1.0 / self.config.delta;
        }
    }

    /// Once a window: the velocity, and 1/δ of the competitive mode, which grows by one without a loss.
    fn end_round(&mut self) {
        let rising = self.cwnd > self.began_with;
        self.steady = if self.rising == Some(rising) { self.steady + 1 } else { 1 };
        self.velocity = if self.rising != Some(rising) {
            1.0
        } else if self.steady > STEADY_WINDOWS {
            self.velocity * 2.0
        } else {
            self.velocity
        };
        (self.rising, self.began_with) = (Some(rising), self.cwnd);
        if self.competes && !self.lost_in_round {
            self.packets += 1.0;
        }
        self.lost_in_round = false;
    }

    /// §2.1, steps 2 and 3: λ ≤ 1/(δ·dq), written without divisions.
    fn is_below_target(&self) -> bool {
        self.cwnd * self.queueing_delay().secs_f64() <= self.packets * self.standing_rtt.secs_f64()
    }
}

impl Controller for Copa {
    fn on_ack(&mut self, ack: &Ack) {
        let Some(rtt) = ack.rtt else { return };
        self.standing_rtt = self.standing.least(ack.now, rtt, ack.srtt / 2);
        self.min_rtt = self.smallest.least(ack.now, rtt, MIN_RTT_WINDOW);
        let largest = self.largest.largest(ack.now, rtt, ack.srtt * LARGEST_RTTS);
        self.choose_mode(ack.now, largest, ack.srtt);
        let acked = ack.acked as f64 / self.mss;
        let below = self.is_below_target();
        if self.slow_start && below {
            self.cwnd += if ack.may_grow(self.cwnd(), true) { acked } else { 0.0 };
        } else {
            self.slow_start = false;
            let step = self.velocity * self.packets * acked / self.cwnd;
            if !below {
                // A step is no larger than the window, whatever the velocity.
                self.cwnd -= step.min(self.cwnd / 2.0);
            } else if ack.may_grow(self.cwnd(), false) {
                self.cwnd += step.min(self.cwnd);
            }
        }
        self.cwnd = self.cwnd.max(SMALLEST);
        if self.round.ended_by(ack) && !self.slow_start {
            self.end_round();
        }
    }

    /// The default mode does not answer losses; the competitive one halves 1/δ (§2.2).
    fn on_congestion(&mut self, event: &Congestion) {
        self.lost_in_round = true;
        if self.competes {
            self.packets = (self.packets / 2.0).max(1.0 / self.config.delta);
        }
        if event.cause == Cause::Timeout {
            (self.cwnd, self.velocity, self.steady, self.rising) = (self.cwnd.min(LOSS_WINDOW), 1.0, 0, None);
        }
    }

    fn on_mss(&mut self, mss: u32) {
        self.cwnd *= self.mss / f64::from(mss);
        self.mss = f64::from(mss);
    }

    fn cwnd(&self) -> u64 {
        ((self.cwnd * self.mss) as u64).max(1)
    }

    /// Twice the window in a standing RTT (§2.1): bursts are no queue of its own making.
    fn pacing_rate(&self) -> Option<Rate> {
        (self.standing_rtt > Span::ZERO).then(|| Rate::from_bytes_over(2 * self.cwnd(), self.standing_rtt))
    }

    fn recovery(&self) -> Recovery {
        Recovery::Own
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot {
            cwnd: self.cwnd(),
            ssthresh: None,
            base_delay: (self.min_rtt > Span::ZERO).then_some(self.min_rtt),
            queueing_delay: (self.min_rtt > Span::ZERO).then(|| self.queueing_delay()),
            phase: match (self.slow_start, self.competes) {
                (true, _) => "slow_start",
                (false, true) => "competitive",
                (false, false) => "default",
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MSS: u64 = 1000;
    const BASE_MS: f64 = 40.0;

    /// A flow on a path of `BASE_MS`, with the queueing delays that the test gives it.
    struct Path {
        flow: Copa,
        now_ms: f64,
        delivered: u64,
    }

    impl Path {
        fn new() -> Path {
            let flow = Copa::new(Config::default(), &Start { mss: MSS as u32, ..Start::default() });
            Path { flow, now_ms: 1.0, delivered: 0 }
        }

        /// A window of data is acknowledged, spread over a round trip, with `queue_ms` of delay on each.
        fn round(&mut self, queue_ms: f64) {
            let rtt_ms = BASE_MS + queue_ms;
            let (window, prior) = (self.flow.cwnd as u64, self.delivered);
            for n in 0..window.max(1) {
                self.delivered += MSS;
                self.flow.on_ack(&Ack {
                    now: Time::from_secs_f64((self.now_ms + rtt_ms * n as f64 / window as f64) / 1e3),
                    acked: MSS,
                    in_flight: self.flow.cwnd(),
                    rtt: Some(Span::from_millis_f64(rtt_ms)),
                    srtt: Span::from_millis_f64(rtt_ms),
                    delivered: self.delivered,
                    prior_delivered: prior,
                    cwnd_limited: true,
                    ..Ack::default()
                });
            }
            self.now_ms += rtt_ms;
        }
    }

    /// δ = 0.5, dq = 10 ms: 200 packets/s, which in 50 ms are a window of ten.
    #[test]
    fn the_target_is_one_over_delta_and_the_queueing_delay() {
        let mut path = Path::new();
        path.round(0.0);
        (path.flow.standing_rtt, path.flow.min_rtt) = (Span::from_millis(50), Span::from_millis(40));
        for (cwnd, below) in [(9.9, true), (10.0, true), (10.1, false)] {
            path.flow.cwnd = cwnd;
            assert_eq!(path.flow.is_below_target(), below, "{cwnd}");
        }
    }

    #[test]
    fn slow_start_doubles_until_the_rate_passes_the_target() {
        let mut path = Path::new();
        path.round(0.0);
        assert_eq!(path.flow.cwnd, 20.0);
        path.round(0.0);
        assert_eq!(path.flow.cwnd, 40.0);
        // 40 packets in 60 ms are more than 2 in 20 ms, once the standing RTT has forgotten the empty queue of half a round trip ago.
        path.round(20.0);
        assert_eq!(path.flow.snapshot().phase, "default");
        let left_with = path.flow.cwnd;
        path.round(20.0);
        assert!(left_with < 70.0 && path.flow.cwnd < left_with, "{left_with}");
    }

    /// 1/δ = 2 packets a window at velocity one; doubled from the fourth window in one direction on; one again when it turns.
    #[test]
    fn the_velocity_doubles_after_three_windows_in_one_direction() {
        let mut path = Path::new();
        (path.flow.slow_start, path.flow.cwnd, path.flow.began_with) = (false, 100.0, 100.0);
        let mut velocities = Vec::new();
        for _ in 0..8 {
            path.round(0.0);
            velocities.push(path.flow.velocity);
        }
        assert_eq!(velocities, [1.0, 1.0, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0]);
        path.round(30.0);
        path.round(30.0);
        assert_eq!(path.flow.velocity, 1.0);
    }

    /// A queue that swings between 30 and 40 ms is never nearly empty: after five RTTs it competes, 1/δ grows by one a window, and a
    /// loss halves it, never below the default; an empty queue ends it.
    #[test]
    fn a_queue_that_is_never_empty_is_competed_for() {
        let mut path = Path::new();
        path.flow.slow_start = false;
        path.round(0.0);
        for n in 0..6 {
            path.round(30.0 + f64::from(n % 2) * 10.0);
        }
        path.round(30.0);
        assert_eq!(path.flow.snapshot().phase, "competitive");
        let before = path.flow.packets;
        path.round(40.0);
        assert_eq!(path.flow.packets, before + 1.0);
        let loss = Congestion { now: Time::ZERO, cause: Cause::Loss, lost: MSS, in_flight: 10 * MSS, srtt: Span::from_millis(70) };
        path.flow.packets = 9.0;
        path.flow.on_congestion(&loss);
        assert_eq!(path.flow.packets, 4.5);
        path.flow.on_congestion(&loss);
        path.flow.on_congestion(&loss);
        assert_eq!(path.flow.packets, 2.0);
        path.round(0.0);
        path.round(0.0);
        assert_eq!(path.flow.snapshot().phase, "default");
    }

    #[test]
    fn the_default_mode_does_not_answer_a_loss() {
        let mut path = Path::new();
        path.round(0.0);
        let cwnd = path.flow.cwnd;
        path.flow.on_congestion(&Congestion { now: Time::ZERO, cause: Cause::Loss, lost: MSS, in_flight: 0, srtt: Span::ZERO });
        assert_eq!(path.flow.cwnd, cwnd);
    }

    #[test]
    fn it_paces_at_twice_its_window() {
        let mut path = Path::new();
        path.round(0.0);
        assert_eq!(path.flow.pacing_rate(), Some(Rate::from_bytes_over(2 * path.flow.cwnd(), Span::from_millis(40))));
    }
}
