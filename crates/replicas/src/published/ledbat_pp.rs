//! LEDBAT++ as Kapetanidou 2024 published it for ns-3 (github.com/IoannaAngelikiKapetanidou/ns3-tcp-ledbatpp, 88d9f97): what the
//! paper's figures show. It differs from the draft in eight places, each one switch here; with all of them off what is left
//! follows the draft. Not to be used for anything but comparison: `ledbat_pp` is the algorithm.

use lowtide_units::{Span, Time};
use serde::Deserialize;

use crate::ns3::reno::NewReno;
use crate::ns3::socket::{CongestionOps, Event, SocketState};

use lowtide_cc::delay::{BaseDelay, CurrentDelay};
use lowtide_cc::params::{ParamError, Params, require};
use lowtide_cc::scavenger::ledbat_pp::{FIRST_SLOWDOWN_RTTS, FREEZE_RTTS, SLOWDOWN_INTERVAL_FACTOR};

/// Parameters. The switches are the published faults; by default all of them are there.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Queueing-delay target T (60 ms).
    pub target_ms: f64,
    /// GAIN divides 2T in seconds by the base delay in milliseconds, rounds up, and so is 1 on every path.
    /// Off: 1/min(16, ⌈2T/base⌉) (-01 §4.3).
    pub mixed_units: bool,
    /// GAIN is added to the window in bytes: one byte an acknowledgement. Off: GAIN segments a round trip.
    pub gain_in_bytes: bool,
    /// Above the target each acknowledgement adds the larger of the decrease and −W/2, both as unsigned 32-bit numbers with
    /// qd/T a whole number: about 2³¹ bytes from 61 to 119 ms of queue, and a window of one byte from 120 ms on.
    /// Off: GAIN − W·(qd/T − 1), at least −W/2, over a round trip (-01 §4.2).
    pub unsigned_decrease: bool,
    /// The initial slow start ends above 3/4·T, but 3/4 is 0 in whole numbers: at the first millisecond of queue.
    /// Off: above 45 ms (-01 §4.3).
    pub whole_three_quarters: bool,
    /// A slowdown sets the window to 2 bytes instead of two segments: nothing leaves until the retransmission timer, of at
    /// least a second, gives one segment back (-01 §4.4: two packets for two RTTs).
    pub freeze_in_bytes: bool,
    /// After a step of congestion avoidance a threshold above the window is put one byte below it. Off: it stays.
    pub threshold_follows: bool,
    /// After the freeze one acknowledgement grows by slow start, then congestion avoidance takes over. Off: slow start up to
    /// the window of before the slowdown (-01 §4.4).
    pub one_step_ramp: bool,
    /// Delays are the socket's smoothed RTT, the handshake's in it, in whole milliseconds. Off: the age of each echoed timestamp (-01 §4.1).
    pub smoothed_delay: bool,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            target_ms: 60.0,
            mixed_units: true,
            gain_in_bytes: true,
            unsigned_decrease: true,
            whole_three_quarters: true,
            freeze_in_bytes: true,
            threshold_follows: true,
            one_step_ramp: true,
            smoothed_delay: true,
        }
    }
}

/// The window of a slowdown, whatever the unit (-01 §4.4).
const FREEZE: f64 = 2.0;
/// The largest divisor of GAIN (-01 §4.3).
const MAX_DIVISOR: f64 = 16.0;
/// The published filter is made for four samples and forgets one early.
const FILTER: usize = 3;

/// The registry's constructor.
///
/// # Errors
/// Unknown or impossible parameters.
pub fn build(params: &Params) -> Result<Box<dyn CongestionOps>, ParamError> {
    let config: Config = params.read("ledbat_pp-published")?;
    require(config.target_ms >= 1.0 && config.target_ms.is_finite(), "ledbat_pp-published", "target_ms must be at least 1")?;
    Ok(Box::new(Published::new(config)))
}

/// The state of one flow.
#[derive(Debug)]
pub struct Published {
    config: Config,
    /// `m_cWnd` with the part of a byte that the draft's arithmetic needs, and `m_ssThresh`.
    cwnd: f64,
    ssthresh: f64,
    segment: f64,
    base: BaseDelay,
    current: CurrentDelay,
    /// The socket's estimate at the last acknowledgement: what timers that fire between two of them see.
    srtt: Span,
    initial: bool,
    /// Slow start is allowed: until it was left, and again after the window was one segment.
    may_slow_start: bool,
    /// In a slowdown, or in the ramp after it: when the freeze ends.
    frozen: Option<Time>,
    slowdown_due: Option<Time>,
    slowdown_start: Time,
    /// The length of the last slowdown has been taken.
    timed: bool,
}

impl Published {
    /// A flow before its first acknowledgement.
    pub fn new(config: Config) -> Published {
        Published {
            config,
            cwnd: 0.0,
            ssthresh: 0.0,
            segment: 0.0,
            base: BaseDelay::ten_minutes(),
            current: CurrentDelay::new(FILTER),
            srtt: Span::ZERO,
            initial: true,
            may_slow_start: true,
            frozen: None,
            slowdown_due: None,
            slowdown_start: Time::ZERO,
            timed: false,
        }
    }

    fn target_ns(&self) -> f64 {
        self.config.target_ms * 1e6
    }

    fn queueing_ns(&self) -> f64 {
        self.current.min().zip(self.base.min()).map_or(0.0, |(now, base)| (now - base).abs() as f64)
    }

    /// What the socket has set since is taken over.
    fn adopt(&mut self, tcb: &SocketState) {
        self.segment = f64::from(tcb.segment);
        if self.cwnd as u32 != tcb.cwnd {
            self.cwnd = f64::from(tcb.cwnd);
        }
        if self.ssthresh as u32 != tcb.ssthresh {
            self.ssthresh = f64::from(tcb.ssthresh);
        }
        self.catch_up(tcb.now);
    }

    fn publish(&self, tcb: &mut SocketState) {
        (tcb.cwnd, tcb.ssthresh) = (self.cwnd as u32, self.ssthresh as u32);
    }

    fn observe(&mut self, tcb: &SocketState, rtt: Span) {
        let whole_ms = |span: Span| Span::from_millis(span.nanos() / 1_000_000);
        let echoed = tcb.now.since(Time::from_millis(tcb.timestamp_echo as u64));
        let delay = if self.config.smoothed_delay { whole_ms(rtt) } else { echoed };
        if rtt > Span::ZERO && delay > Span::ZERO {
            self.current.push(tcb.now, delay.nanos() as i64);
            self.base.update(tcb.now, delay.nanos() as i64);
        }
        self.srtt = rtt;
    }

    /// Slowdowns are timed: one that fell due since the last event happened then.
    fn catch_up(&mut self, now: Time) {
        let Some(due) = self.slowdown_due.filter(|due| *due <= now) else { return };
        self.slowdown_due = None;
        self.ssthresh = self.cwnd;
        self.cwnd = if self.config.freeze_in_bytes { FREEZE } else { FREEZE * self.segment };
        self.may_slow_start |= !self.config.freeze_in_bytes;
        self.frozen = Some(due + self.srtt * FREEZE_RTTS);
        self.timed = false;
        self.slowdown_start = due;
    }

    /// Back at the threshold, the slowdown is over: the next one is due nine times its length from now.
    fn time_next_slowdown(&mut self, now: Time) {
        if self.cwnd >= self.ssthresh && !self.timed && now > self.slowdown_start {
            self.slowdown_due = Some(now + now.since(self.slowdown_start) * SLOWDOWN_INTERVAL_FACTOR);
            self.timed = true;
        }
    }

    fn leave_initial_slow_start(&mut self, now: Time) {
        self.initial = false;
        let due = now + self.srtt * FIRST_SLOWDOWN_RTTS;
        self.slowdown_due = Some(due);
        // Nothing is timed before it.
        self.slowdown_start = due;
    }

    fn slow_start(&mut self) {
        self.cwnd += self.segment * if self.initial { 1.0 } else { self.gain() };
    }

    fn gain(&self) -> f64 {
        if self.config.mixed_units {
            return 1.0;
        }
        let divisor = self.base.min().map_or(MAX_DIVISOR, |base| libm::ceil(2.0 * self.target_ns() / (base as f64).max(1.0)));
        1.0 / divisor.min(MAX_DIVISOR)
    }

    fn avoid(&mut self, segments: u32) {
        let (gain, queueing) = (self.gain(), self.queueing_ns());
        let part = f64::from(segments) * self.segment / self.cwnd;
        if queueing <= self.target_ns() {
            self.cwnd += if self.config.gain_in_bytes { libm::floor(gain) } else { gain * self.segment * part };
        } else if self.config.unsigned_decrease {
            self.cwnd = f64::from(wrapped(self.cwnd as u32, gain, (queueing / 1e6) as i64 / self.config.target_ms as i64));
        } else {
            let change = gain * self.segment - self.cwnd * (queueing / self.target_ns() - 1.0);
            self.cwnd = (self.cwnd + change.max(-self.cwnd / 2.0) * part.min(1.0)).max(FREEZE * self.segment);
        }
        if self.config.threshold_follows && self.cwnd <= self.ssthresh {
            self.ssthresh = (self.cwnd - 1.0).max(0.0);
        }
    }
}

/// A step above the target in the published arithmetic: all unsigned, modulo 2³².
fn wrapped(cwnd: u32, gain: f64, quotient: i64) -> u32 {
    let decrease = (gain - (i64::from(cwnd) * (quotient - 1)) as f64) as i64 as u32;
    cwnd.wrapping_add(decrease.max(cwnd.wrapping_neg() / 2))
}

impl Published {
    fn grow(&mut self, now: Time, segments: u32) {
        self.may_slow_start |= self.cwnd <= self.segment;
        self.time_next_slowdown(now);
        let exit = if self.config.whole_three_quarters { 0.0 } else { 0.75 * self.target_ns() };
        let slow = self.cwnd <= self.ssthresh && self.may_slow_start;
        match self.frozen {
            _ if slow && self.initial && self.queueing_ns() <= exit => self.slow_start(),
            Some(end) if slow && !self.initial => {
                if now > end {
                    self.slow_start();
                    self.frozen = self.frozen.filter(|_| !self.config.one_step_ramp);
                }
            }
            None if slow && !self.initial => self.avoid(segments),
            _ => {
                self.may_slow_start = false;
                self.frozen = self.frozen.filter(|_| self.config.one_step_ramp);
                if self.initial {
                    self.leave_initial_slow_start(now);
                }
                self.avoid(segments);
            }
        }
    }
}

impl CongestionOps for Published {
    fn pkts_acked(&mut self, tcb: &mut SocketState, _: u32, rtt: Span) {
        self.adopt(tcb);
        self.observe(tcb, rtt);
        self.publish(tcb);
    }

    fn increase_window(&mut self, tcb: &mut SocketState, segments: u32) {
        self.adopt(tcb);
        self.grow(tcb.now, segments);
        self.publish(tcb);
    }

    /// ns-3's NewReno, which the published class inherits from.
    fn get_ss_thresh(&mut self, tcb: &SocketState, bytes_in_flight: u32) -> u32 {
        self.adopt(tcb);
        NewReno::half(tcb, bytes_in_flight)
    }

    fn cwnd_event(&mut self, tcb: &mut SocketState, _: Event) {
        self.adopt(tcb);
        self.publish(tcb);
    }

    fn delays(&self) -> (Option<Span>, Option<Span>) {
        (self.base.min().map(|ns| Span::from_nanos(ns as u64)), Some(Span::from_nanos(self.queueing_ns() as u64)))
    }

    fn phase(&self) -> Option<&'static str> {
        Some(match (self.initial, self.frozen) {
            (true, _) => "slow_start",
            (false, Some(_)) => "slowdown",
            (false, None) => "avoidance",
        })
    }
}

#[cfg(test)]
mod tests;
