//! What the window-based rivals share: the window in segments, slow start, counted additive increase, idle decay and undo.
//! An algorithm is a [`Law`] on that window; [`Rival`] makes it a controller. Knows no algorithm.

use std::fmt;

use lowtide_units::{Span, Time};
use serde::Deserialize;

use crate::controller::{Controller, Start};
use crate::events::{Ack, Cause, Congestion, Restart, Snapshot};

/// Where implementations of one algorithm differ in its NewReno base. The default is Linux.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Base {
    /// Grow per acknowledgement instead of per acknowledged segment (no ABC; RFC 2581): +1 segment in slow start, +1/W after it.
    pub per_ack: bool,
    /// What a reduction starts from.
    pub reduce_from: ReduceFrom,
    /// What a pause longer than the RTO does.
    pub idle: Idle,
}

/// What a reduction starts from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReduceFrom {
    /// The window (Linux).
    #[default]
    Window,
    /// What was in flight before anything was declared lost (RFC 5681 (4)).
    Flight,
}

/// What a pause longer than the RTO does to the window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Idle {
    /// Halve it once per RTO down to the initial window (RFC 2861, Linux `tcp_cwnd_restart`).
    #[default]
    Halve,
    /// Restart from min(IW, cwnd) (RFC 5681 §4.1).
    Restart,
}

/// A reduction leaves at least this many segments (RFC 5681 (4), Linux).
pub const MIN_SSTHRESH: f64 = 2.0;
/// Linux keeps windows in 32 bits (`snd_cwnd_clamp`).
const MAX_SEGMENTS: f64 = 4_294_967_295.0;
/// Initial window of RFC 6928.
const INITIAL_SEGMENTS: u32 = 10;

/// A congestion window in segments, as Linux and the papers count it.
#[derive(Clone, Debug)]
pub struct Window {
    /// The window.
    pub cwnd: f64,
    /// The slow-start threshold, infinite while unset.
    pub ssthresh: f64,
    /// Bytes in a segment.
    pub mss: f64,
    /// The base's variant.
    pub base: Base,
    initial_bytes: f64,
    /// Segments acknowledged towards the next +1 (`snd_cwnd_cnt`).
    credit: f64,
    before_episode: Option<(f64, f64)>,
}

impl Window {
    /// The initial window.
    pub fn new(base: Base, start: &Start) -> Window {
        let (mss, initial_bytes) = (f64::from(start.mss), start.window_or(INITIAL_SEGMENTS) as f64);
        let cwnd = initial_bytes / mss;
        Window { cwnd, ssthresh: f64::INFINITY, mss, base, initial_bytes, credit: 0.0, before_episode: None }
    }

    /// Whether the window is below its threshold.
    pub fn in_slow_start(&self) -> bool {
        self.cwnd < self.ssthresh
    }

    /// The window in bytes.
    pub fn bytes(&self) -> u64 {
        ((self.cwnd * self.mss + 1e-6) as u64).max(1)
    }

    /// Whether this acknowledgement may raise the window.
    pub fn may_grow(&self, ack: &Ack) -> bool {
        ack.may_grow(self.bytes(), self.in_slow_start())
    }

    /// Segments that `ack` is worth: those it delivered, or one where the base counts acknowledgements.
    pub fn credit_of(&self, ack: &Ack) -> f64 {
        if self.base.per_ack { 1.0 } else { self.segments(ack.acked) }
    }

    /// `bytes` in segments.
    pub fn segments(&self, bytes: u64) -> f64 {
        bytes as f64 / self.mss
    }

    /// What a reduction starts from.
    pub fn reference(&self, event: &Congestion) -> f64 {
        match self.base.reduce_from {
            ReduceFrom::Window => self.cwnd,
            ReduceFrom::Flight => self.segments(event.in_flight),
        }
    }

    /// Adds `n` up to the threshold and returns what is left of it for congestion avoidance (Linux `tcp_slow_start`).
    pub fn slow_start(&mut self, n: f64) -> f64 {
        let grown = (self.cwnd + n).min(self.ssthresh).max(self.cwnd);
        let rest = n - (grown - self.cwnd);
        self.cwnd = grown;
        rest
    }

    /// +1 for every `per` segments of `n` and of what earlier calls left over (Linux `tcp_cong_avoid_ai`).
    pub fn count(&mut self, per: f64, n: f64) {
        if self.credit >= per {
            self.credit = 0.0;
            self.cwnd += 1.0;
        }
        self.credit += n;
        if self.credit >= per {
            let steps = libm::floor(self.credit / per);
            self.credit -= steps * per;
            self.cwnd += steps;
        }
    }

    /// Slow start if it is due, then Reno's congestion avoidance, on an acknowledgement that may grow.
    pub fn grow_as_reno(&mut self, ack: &Ack) {
        let rest = self.slow_start_on(ack);
        if rest > 0.0 {
            self.avoid_as_reno(rest);
        }
    }

    /// Slow start if it is due; what is left for congestion avoidance, zero when the window may not grow.
    pub fn slow_start_on(&mut self, ack: &Ack) -> f64 {
        if !self.may_grow(ack) {
            return 0.0;
        }
        let n = self.credit_of(ack);
        if self.in_slow_start() { self.slow_start(n) } else { n }
    }

    /// As `slow_start_on`, but what is left is in segments whatever the base counts: for laws with an avoidance of their own.
    pub fn left_in_segments(&mut self, ack: &Ack) -> f64 {
        let avoiding = !self.in_slow_start();
        let rest = self.slow_start_on(ack);
        if avoiding && rest > 0.0 { self.segments(ack.acked) } else { rest }
    }

    /// +1 a window: counted, or as SMSS²/cwnd where the base counts acknowledgements.
    pub fn avoid_as_reno(&mut self, n: f64) {
        if self.base.per_ack {
            self.cwnd += n / self.cwnd;
        } else {
            self.count(self.cwnd, n);
        }
    }

    /// Sets the threshold to `segments`, at least two, and the window to it.
    pub fn cut_to(&mut self, segments: f64) {
        self.ssthresh = segments.max(MIN_SSTHRESH);
        self.cwnd = self.ssthresh;
        self.credit = 0.0;
    }

    /// Reno's reduction.
    pub fn halve(&mut self, event: &Congestion) {
        let reference = self.reference(event);
        self.cut_to(if self.base.per_ack { reference / 2.0 } else { libm::floor(reference / 2.0) });
    }

    fn rest(&mut self, restart: &Restart) {
        if restart.idle <= restart.rto {
            return;
        }
        let floor = (self.initial_bytes / self.mss).min(self.cwnd);
        if self.base.idle == Idle::Restart {
            self.cwnd = floor;
            return;
        }
        // Linux tcp_current_ssthresh: remember three quarters of the window.
        self.ssthresh = self.ssthresh.max(0.75 * self.cwnd);
        let mut left = restart.idle - restart.rto;
        while left > Span::ZERO && self.cwnd > floor {
            self.cwnd = (self.cwnd / 2.0).max(floor);
            left -= restart.rto.max(Span::from_millis(1));
        }
    }

    fn undo(&mut self) {
        if let Some((cwnd, ssthresh)) = self.before_episode.take() {
            self.cwnd = self.cwnd.max(cwnd);
            self.ssthresh = self.ssthresh.max(ssthresh);
        }
    }

    /// The bytes stay; what is counted in segments is rescaled. Returns the factor.
    fn rescale(&mut self, mss: u32) -> f64 {
        let factor = self.mss / f64::from(mss.max(1));
        self.mss = f64::from(mss.max(1));
        self.cwnd *= factor;
        self.ssthresh *= factor;
        self.credit *= factor;
        self.before_episode = self.before_episode.map(|(c, s)| (c * factor, s * factor));
        factor
    }
}

/// What one algorithm does with the window. `Rival` calls it as Linux calls `tcp_congestion_ops`.
pub trait Law: fmt::Debug + Send {
    /// Every acknowledgement, also in recovery: measure (`pkts_acked`).
    fn measure(&mut self, _window: &mut Window, _ack: &Ack) {}
    /// Every acknowledgement outside recovery: change the window (`cong_avoid`); growth only where `Window::may_grow`.
    fn adjust(&mut self, window: &mut Window, ack: &Ack);
    /// An episode starts: `Window::cut_to` what it should leave. After a timeout one segment follows by itself.
    fn reduce(&mut self, window: &mut Window, event: &Congestion);
    /// A timeout, after `reduce` (`set_state(TCP_CA_Loss)`).
    fn forget_after_timeout(&mut self, _now: Time) {}
    /// The first acknowledgement after recovery.
    fn recovered(&mut self, _ack: &Ack) {}
    /// Before the first send after a pause, however short.
    fn rested(&mut self, _restart: &Restart) {}
    /// The last episode was spurious; the window is restored already.
    fn undo(&mut self) {}
    /// Segments are now `1/factor` of what they were.
    fn rescale(&mut self, _factor: f64) {}
    /// See [`Controller::counts_marks`].
    fn counts_marks(&self) -> bool {
        false
    }
    /// (base delay, queueing delay) where the algorithm measures them.
    fn delays(&self) -> (Option<Span>, Option<Span>) {
        (None, None)
    }
    /// The name of the state after slow start.
    fn phase(&self) -> &'static str {
        "avoidance"
    }
}

/// A [`Law`] on its [`Window`]: the controller.
#[derive(Debug)]
pub struct Rival<L> {
    /// The window.
    pub window: Window,
    /// The algorithm.
    pub law: L,
    in_recovery: bool,
}

impl<L: Law> Rival<L> {
    /// A flow at its initial window.
    pub fn new(base: Base, law: L, start: &Start) -> Rival<L> {
        Rival { window: Window::new(base, start), law, in_recovery: false }
    }
}

impl<L: Law> Controller for Rival<L> {
    fn on_ack(&mut self, ack: &Ack) {
        self.law.measure(&mut self.window, ack);
        if self.in_recovery && !ack.in_recovery {
            self.law.recovered(ack);
        }
        self.in_recovery = ack.in_recovery;
        if !ack.in_recovery {
            self.law.adjust(&mut self.window, ack);
            self.window.cwnd = self.window.cwnd.clamp(1.0, MAX_SEGMENTS);
        }
    }

    fn on_congestion(&mut self, event: &Congestion) {
        let before = (self.window.cwnd, self.window.ssthresh);
        self.window.before_episode = Some(before);
        self.law.reduce(&mut self.window, event);
        if event.cause == Cause::Timeout {
            self.window.cwnd = 1.0;
            self.law.forget_after_timeout(event.now);
        }
    }

    fn on_further_timeout(&mut self, event: &Congestion) {
        self.window.cwnd = 1.0;
        self.law.forget_after_timeout(event.now);
    }

    fn on_restart(&mut self, restart: &Restart) {
        self.window.rest(restart);
        self.law.rested(restart);
    }

    fn on_undo(&mut self, _now: Time) {
        if self.window.before_episode.is_some() {
            self.window.undo();
            self.law.undo();
        }
    }

    fn on_mss(&mut self, mss: u32) {
        let factor = self.window.rescale(mss);
        self.law.rescale(factor);
    }

    fn cwnd(&self) -> u64 {
        self.window.bytes()
    }

    fn counts_marks(&self) -> bool {
        self.law.counts_marks()
    }

    fn snapshot(&self) -> Snapshot {
        let (base_delay, queueing_delay) = self.law.delays();
        let phase = match (self.in_recovery, self.window.in_slow_start()) {
            (true, _) => "recovery",
            (false, true) => "slow_start",
            (false, false) => self.law.phase(),
        };
        let ssthresh = self.window.ssthresh * self.window.mss + 1e-6;
        Snapshot { base_delay, queueing_delay, ..Snapshot::of(self.cwnd(), ssthresh, phase) }
    }
}

mod round_rtt;
#[cfg(test)]
pub mod testing;

pub use round_rtt::RoundRtt;
