//! The window of ns-2's Linux agent and what Linux 2.6.22's `tcp_cong.c` does with it (`tcp/tcp-linux.cc`, `tcp/linux/src/tcp_cong.c`
//! with `sysctl_tcp_abc` = 1, so `tcp/linux/ns-linux-param.c`): growth is counted in bytes that are acknowledged, whether the window
//! may grow meanwhile or not. What a module forgoes is made up for at one segment an acknowledgement as soon as it asks again.
//! A module is a [`Module`] on that window; [`Agent`] makes it a control.

use std::fmt;

use lowtide_cc::{Ack, Cause, Congestion, Controller, ParamError, Params, Restart, Snapshot, Start};
use lowtide_units::Span;

use crate::contract::{Beside, Replica};
use crate::no_params;

/// A reduction leaves at least this many segments.
pub const MIN_SSTHRESH: f64 = 2.0;
/// The initial window where the host does not insist on one.
const INITIAL_SEGMENTS: u32 = 10;
/// Windows are 32 bits wide.
const MAX_SEGMENTS: f64 = 4_294_967_295.0;

/// A congestion window in segments.
#[derive(Clone, Debug)]
pub struct Window {
    /// `snd_cwnd`.
    pub cwnd: f64,
    /// `snd_ssthresh`, infinite while unset.
    pub ssthresh: f64,
    /// Bytes in a segment.
    pub mss: f64,
    initial: f64,
    /// `bytes_acked`.
    acknowledged: u64,
    /// `tcp_is_cwnd_limited`: nothing more could have been sent before this acknowledgement.
    limited: bool,
}

impl Window {
    /// The initial window.
    pub fn new(start: &Start) -> Window {
        let mss = f64::from(start.mss);
        let initial = start.window_or(INITIAL_SEGMENTS) as f64 / mss;
        Window { cwnd: initial, ssthresh: f64::INFINITY, mss, initial, acknowledged: 0, limited: false }
    }

    /// Whether it is slow start, which it is at the threshold, too.
    pub fn in_slow_start(&self) -> bool {
        self.cwnd <= self.ssthresh
    }

    /// The window in bytes.
    pub fn bytes(&self) -> u64 {
        ((self.cwnd * self.mss + 1e-6) as u64).max(1)
    }

    /// Whether the acknowledgement that came last may raise the window.
    pub fn may_grow(&self) -> bool {
        self.limited
    }

    /// An acknowledgement, whatever becomes of it (`tcp-linux.cc` `recv`: `bytes_acked`).
    pub fn note(&mut self, ack: &Ack) {
        self.acknowledged += ack.acked;
        self.limited = !ack.no_growth && ack.in_flight >= self.bytes();
    }

    /// `tcp_reno_cong_avoid`.
    pub fn grow_as_reno(&mut self) {
        if !self.limited {
            return;
        }
        if self.in_slow_start() {
            self.slow_start();
        } else if self.acknowledged >= self.bytes() {
            self.acknowledged -= self.bytes();
            self.cwnd += 1.0;
        }
    }

    /// `tcp_slow_start`: a segment more, whatever the threshold, and nothing is left to make up for.
    pub fn slow_start(&mut self) {
        self.acknowledged = 0;
        self.cwnd += 1.0;
    }

    /// `tcp_reno_ssthresh`, to which the agent sets the window at once.
    pub fn halve(&mut self) {
        self.ssthresh = libm::floor(self.cwnd / 2.0).max(MIN_SSTHRESH);
        self.cwnd = self.ssthresh;
        self.acknowledged = 0;
    }

    /// `tcp_cwnd_restart`: after a pause the window is halved once per timeout down to the initial one.
    fn rest(&mut self, restart: &Restart) {
        if restart.idle <= restart.rto {
            return;
        }
        let floor = self.initial.min(self.cwnd);
        self.ssthresh = self.ssthresh.max(0.75 * self.cwnd);
        let mut left = restart.idle - restart.rto;
        while left > Span::ZERO && self.cwnd > floor {
            self.cwnd = (self.cwnd / 2.0).max(floor);
            left -= restart.rto.max(Span::from_millis(1));
        }
    }
}

/// A module: `tcp_congestion_ops` of that age.
pub trait Module: fmt::Debug + Send {
    /// `pkts_acked` and `rtt_sample`: every acknowledgement.
    fn measure(&mut self, _window: &mut Window, _ack: &Ack, _beside: &Beside) {}
    /// `cong_avoid`: every acknowledgement outside a recovery.
    fn avoid(&mut self, window: &mut Window, _ack: &Ack) {
        window.grow_as_reno();
    }
    /// `ssthresh`.
    fn reduce(&mut self, window: &mut Window) {
        window.halve();
    }
    /// `set_state(TCP_CA_Loss)`.
    fn lost(&mut self) {}
    /// The first acknowledgement after a recovery (`set_state(TCP_CA_Open)`).
    fn recovered(&mut self, _ack: &Ack) {}
    /// `cwnd_event(CA_EVENT_TX_START)`.
    fn rested(&mut self) {}
    /// What it measures: base delay and queueing delay.
    fn delays(&self) -> (Option<Span>, Option<Span>) {
        (None, None)
    }
    /// The name of the state after slow start.
    fn phase(&self) -> &'static str {
        "avoidance"
    }
}

/// A [`Module`] on its [`Window`]: the control.
#[derive(Debug)]
pub struct Agent<M> {
    /// The window.
    pub window: Window,
    /// The module.
    pub module: M,
    in_recovery: bool,
}

impl<M: Module> Agent<M> {
    /// A flow at its initial window.
    pub fn new(module: M, start: &Start) -> Agent<M> {
        Agent { window: Window::new(start), module, in_recovery: false }
    }
}

impl<M: Module> Replica for Agent<M> {
    fn on_ack_beside(&mut self, ack: &Ack, beside: &Beside) {
        self.window.note(ack);
        self.module.measure(&mut self.window, ack, beside);
        if self.in_recovery && !ack.in_recovery {
            self.module.recovered(ack);
        }
        self.in_recovery = ack.in_recovery;
        if !ack.in_recovery {
            self.module.avoid(&mut self.window, ack);
            self.window.cwnd = self.window.cwnd.clamp(1.0, MAX_SEGMENTS);
        }
    }

    fn on_repaired(&mut self, most: u64) {
        if self.window.cwnd < self.window.ssthresh {
            self.window.cwnd = self.window.ssthresh.min(most as f64 / self.window.mss);
        }
    }
}

impl<M: Module> Controller for Agent<M> {
    fn on_ack(&mut self, ack: &Ack) {
        self.on_ack_beside(ack, &Beside::default());
    }

    fn on_congestion(&mut self, event: &Congestion) {
        self.module.reduce(&mut self.window);
        if event.cause == Cause::Timeout {
            self.window.cwnd = 1.0;
            self.module.lost();
        }
    }

    fn on_restart(&mut self, restart: &Restart) {
        self.window.rest(restart);
        self.module.rested();
    }

    fn on_mss(&mut self, mss: u32) {
        let factor = self.window.mss / f64::from(mss.max(1));
        self.window.mss = f64::from(mss.max(1));
        self.window.cwnd *= factor;
        self.window.ssthresh *= factor;
    }

    fn cwnd(&self) -> u64 {
        self.window.bytes()
    }

    fn snapshot(&self) -> Snapshot {
        let (base_delay, queueing_delay) = self.module.delays();
        let phase = match (self.in_recovery, self.window.in_slow_start()) {
            (true, _) => "recovery",
            (false, true) => "slow_start",
            (false, false) => self.module.phase(),
        };
        let ssthresh = self.window.ssthresh * self.window.mss + 1e-6;
        Snapshot { base_delay, queueing_delay, ..Snapshot::of(self.cwnd(), ssthresh, phase) }
    }
}

/// `reno-ns2`: `tcp_reno_cong_avoid` and `tcp_reno_ssthresh`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reno;

impl Module for Reno {}

/// `reno-ns2`.
///
/// # Errors
/// Any parameter.
pub fn build(params: &Params, start: &Start) -> Result<Box<dyn Replica>, ParamError> {
    no_params::check(params, "reno-ns2")?;
    Ok(Box::new(Agent::new(Reno, start)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{MSS, ack};

    /// Ten segments after slow start to ten.
    fn window() -> Window {
        let start = Start { mss: MSS, ..Start::default() };
        let mut window = Window::new(&start);
        (window.cwnd, window.ssthresh) = (10.0, 10.0);
        window
    }

    fn full(segments: f64) -> Ack {
        Ack { in_flight: u64::MAX, ..ack(0.0, segments, 50.0) }
    }

    fn grown(window: &mut Window, acks: u32) -> f64 {
        for _ in 0..acks {
            window.note(&full(1.0));
            window.grow_as_reno();
        }
        window.cwnd
    }

    /// At the threshold one more by slow start, then one in a window: eleven, twelve.
    #[test]
    fn slow_start_reaches_past_the_threshold() {
        let mut window = window();
        assert_eq!(grown(&mut window, 1), 11.0);
        assert_eq!(grown(&mut window, 10), 11.0);
        assert_eq!(grown(&mut window, 1), 12.0);
        assert_eq!(grown(&mut window, 11), 12.0);
        assert_eq!(grown(&mut window, 1), 13.0);
    }

    /// Forty acknowledgements without growth are 40 segments: 11, 12 and 13 of them are one segment each, 4 are left.
    #[test]
    fn what_was_forgone_is_made_up_for() {
        let mut window = window();
        grown(&mut window, 1);
        (0..40).for_each(|_| window.note(&full(1.0)));
        assert_eq!([(); 4].map(|()| grown(&mut window, 1)), [12.0, 13.0, 14.0, 14.0]);
    }

    /// Neither an episode nor slow start leaves anything of it.
    #[test]
    fn an_episode_and_slow_start_forget_it() {
        for forget in [Window::halve, Window::slow_start] {
            let mut window = window();
            (0..100).for_each(|_| window.note(&full(1.0)));
            forget(&mut window);
            assert_eq!(window.acknowledged, 0);
        }
    }

    /// Nine of ten in flight: not the limit; but the bytes count.
    #[test]
    fn a_window_that_is_not_full_does_not_grow() {
        let mut window = window();
        window.ssthresh = 2.0;
        let nine = Ack { in_flight: 9 * u64::from(MSS), ..ack(0.0, 1.0, 50.0) };
        for _ in 0..10 {
            window.note(&nine);
            window.grow_as_reno();
        }
        assert_eq!((window.cwnd, window.acknowledged), (10.0, 10 * u64::from(MSS)));
    }
}
