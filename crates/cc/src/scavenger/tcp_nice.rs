//! TCP-NICE (Venkataramani 2002): Vegas that halves its window when many RTTs of a round lie high in the range seen, down to a
//! window of 1/48 segment. Knows nothing of retransmissions; a host spaces its segments while the window is below one.

use lowtide_units::{Span, Time};
use serde::Deserialize;

use crate::controller::{Controller, Start};
use crate::events::{Ack, Cause, Congestion, Restart, Snapshot};
use crate::params::{ParamError, Params, require};
use crate::round::Round;

/// Parameters; the defaults are those of the paper's prototype as Carofiglio 2010 gives them.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// t: an RTT above (1 − t)·min + t·max is high (0.2).
    pub threshold: f64,
    /// f: the part of the window whose RTTs must be high (0.5).
    pub fraction: f64,
    /// Vegas: grow below so many segments in the queue (1).
    pub alpha: f64,
    /// Vegas: shrink above so many (3).
    pub beta: f64,
    /// Vegas: leave slow start above so many (1).
    pub gamma: f64,
    /// The floor in segments (1/48).
    pub min_segments: f64,
}

impl Default for Config {
    fn default() -> Config {
        Config { threshold: 0.2, fraction: 0.5, alpha: 1.0, beta: 3.0, gamma: 1.0, min_segments: 1.0 / 48.0 }
    }
}

/// Below this spread of RTTs the threshold drowns in noise; no source has this bound.
const LEAST_SPREAD: Span = Span::from_millis(1);
/// Vegas judges a round by at least so many samples (Linux `tcp_vegas.c`), unless the window itself is smaller.
const LEAST_SAMPLES: u32 = 3;
/// Below this window a round is a period with two segments in it (the paper's prototype).
const PAIR: f64 = 2.0;

/// The registry's constructor.
///
/// # Errors
/// Unknown or impossible parameters.
pub fn build(params: &Params, start: &Start) -> Result<Box<dyn Controller>, ParamError> {
    let config: Config = params.read("tcp_nice")?;
    require(config.threshold > 0.0 && config.threshold < 1.0, "tcp_nice", "threshold must lie between 0 and 1")?;
    require(config.fraction > 0.0 && config.fraction <= 1.0, "tcp_nice", "fraction must be above 0 and at most 1")?;
    require(config.alpha <= config.beta, "tcp_nice", "alpha must not exceed beta")?;
    require(config.min_segments > 0.0 && config.min_segments <= 2.0, "tcp_nice", "min_segments must be above 0 and at most 2")?;
    Ok(Box::new(TcpNice::new(config, start)))
}

/// The state of one TCP-NICE flow.
#[derive(Debug)]
pub struct TcpNice {
    config: Config,
    mss: f64,
    cwnd: f64,
    ssthresh: f64,
    range: Option<(Span, Span)>,
    round: Round,
    /// Bytes of this round with an RTT, those whose RTT was high, the samples and the smallest RTT.
    seen: u64,
    high: u64,
    samples: u32,
    round_min: Span,
    lost: bool,
    limited: bool,
    before_episode: (f64, f64),
}

impl TcpNice {
    /// A flow at its initial window.
    pub fn new(config: Config, start: &Start) -> TcpNice {
        let cwnd = start.window_or(10) as f64;
        TcpNice {
            config,
            mss: f64::from(start.mss),
            cwnd,
            ssthresh: f64::INFINITY,
            range: None,
            round: Round::default(),
            seen: 0,
            high: 0,
            samples: 0,
            round_min: Span::MAX,
            lost: false,
            limited: false,
            before_episode: (cwnd, f64::INFINITY),
        }
    }

    fn segments(&self) -> f64 {
        self.cwnd / self.mss
    }

    fn in_slow_start(&self) -> bool {
        self.cwnd < self.ssthresh
    }

    /// By bytes rather than by acknowledgements: with delayed ones no more than half the window could ever be high.
    fn observe(&mut self, ack: &Ack) {
        let Some(rtt) = ack.rtt else { return };
        let (min, max) = self.range.map_or((rtt, rtt), |(min, max)| (min.min(rtt), max.max(rtt)));
        self.range = Some((min, max));
        self.samples += 1;
        self.round_min = self.round_min.min(rtt);
        self.seen += ack.acked;
        let t = self.config.threshold;
        let threshold = (1.0 - t) * min.nanos() as f64 + t * max.nanos() as f64;
        if max - min >= LEAST_SPREAD && rtt.nanos() as f64 > threshold {
            self.high += ack.acked;
        }
    }

    /// A loss rules the round, then NICE, then Vegas; the paper names no order.
    fn end_round(&mut self) {
        if !self.lost {
            // Below a pair a round is as many segments as the host sends in a period: two, or one.
            if self.high as f64 > self.config.fraction * self.cwnd.max((PAIR * self.mss).min(self.seen as f64)) {
                self.cwnd /= 2.0;
                self.ssthresh = self.cwnd;
            } else {
                self.vegas();
            }
        }
        self.clamp();
        self.start_round();
    }

    fn start_round(&mut self) {
        (self.seen, self.high, self.samples, self.round_min) = (0, 0, 0, Span::MAX);
        (self.lost, self.limited) = (false, false);
    }

    fn vegas(&mut self) {
        let Some((min, _)) = self.range else { return };
        let enough = if self.segments() < f64::from(LEAST_SAMPLES) { 1 } else { LEAST_SAMPLES };
        if self.samples < enough {
            return;
        }
        let ratio = min.nanos() as f64 / (self.round_min.nanos() as f64).max(1.0);
        let queued = self.segments() * (1.0 - ratio);
        if self.in_slow_start() {
            if queued > self.config.gamma {
                self.cwnd = self.cwnd.min(self.cwnd * ratio + self.mss);
                self.ssthresh = self.cwnd;
            }
        } else if queued < self.config.alpha {
            if self.limited {
                self.cwnd += self.mss;
            }
        } else if queued > self.config.beta {
            self.cwnd -= self.mss;
        }
    }

    fn clamp(&mut self) {
        self.cwnd = self.cwnd.max(self.config.min_segments * self.mss);
    }
}

impl Controller for TcpNice {
    fn on_ack(&mut self, ack: &Ack) {
        self.observe(ack);
        // A window below one segment is always the limit: its pace is.
        self.limited |= ack.cwnd_limited || self.cwnd < self.mss;
        if ack.in_recovery {
            self.lost = true;
        } else if self.in_slow_start() && ack.may_grow(self.cwnd(), true) {
            self.cwnd = (self.cwnd + ack.acked as f64).min(self.ssthresh);
        }
        if self.round.ended_by(ack) {
            self.end_round();
        }
    }

    fn on_congestion(&mut self, event: &Congestion) {
        self.before_episode = (self.cwnd, self.ssthresh);
        self.lost = true;
        match event.cause {
            Cause::Loss | Cause::Ecn => {
                self.cwnd /= 2.0;
                self.clamp();
                self.ssthresh = self.cwnd;
            }
            Cause::Timeout => {
                self.ssthresh = (event.in_flight as f64 / 2.0).max(2.0 * self.mss);
                self.cwnd = self.cwnd.min(self.mss);
            }
        }
    }

    fn on_restart(&mut self, restart: &Restart) {
        if restart.idle > restart.rto {
            self.start_round();
            self.cwnd = self.cwnd.min(10.0 * self.mss);
        }
    }

    fn on_undo(&mut self, _now: Time) {
        (self.cwnd, self.ssthresh) = self.before_episode;
    }

    fn on_mss(&mut self, mss: u32) {
        self.mss = f64::from(mss);
        self.clamp();
    }

    fn cwnd(&self) -> u64 {
        (self.cwnd as u64).max(1)
    }

    fn snapshot(&self) -> Snapshot {
        let current = (self.round_min < Span::MAX).then_some(self.round_min);
        Snapshot {
            base_delay: self.range.map(|(min, _)| min),
            queueing_delay: self.range.zip(current).map(|((min, _), rtt)| rtt - min),
            ..Snapshot::of(self.cwnd(), self.ssthresh, if self.in_slow_start() { "slow_start" } else { "avoidance" })
        }
    }
}

#[cfg(test)]
mod tests;
