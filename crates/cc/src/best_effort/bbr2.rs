//! BBR version 2 (google/bbr `tcp_bbr2.c`, v2alpha) without its ECN response, which is off by default: version 1 with bounds
//! on what is in flight, learned from loss. Version 3 is the same machine with other [rules](Rules). Knows nothing of how the host paces
//! or repairs losses.

mod bounds;
mod cycle;
mod min_rtt;
mod rules;

use lowtide_units::{Rate, Span, Time};
use serde::Deserialize;

use crate::best_effort::bbr::aggregation::{Acked, Aggregation};
use crate::best_effort::bbr::mode::{HeldBack, Mode};
use crate::best_effort::bbr::pacer::Pacer;
use crate::best_effort::bbr::{FullPipe, INITIAL_SEGMENTS, MIN_SEGMENTS, UNIT, bdp_segments, burst_segments};
use crate::controller::{Controller, Recovery, Start};
use crate::events::{Ack, Cause, Congestion, RateSample, Restart, Snapshot};
use crate::params::{ParamError, Params, require};
use crate::round::Round;
use bounds::Bounds;
use cycle::{Cycle, Phase};
pub(super) use rules::Rules;

/// Parameters; the defaults are v2alpha's.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// More than this part of the flight lost is too much (`bbr_loss_thresh`: 2 %, in the source 5/256).
    pub loss_threshold: f64,
    /// What a bound keeps when it is cut (1 − `bbr_beta`: 180/256).
    pub keep: f64,
    /// The part of the upper bound left free while cruising (`bbr_inflight_headroom`: 38/256).
    pub headroom: f64,
    /// Pace this much below the rate found (`bbr_pacing_margin_percent`).
    pub pacing_margin_percent: u64,
}

impl Default for Config {
    fn default() -> Config {
        Config { loss_threshold: 5.0 / 256.0, keep: 180.0 / 256.0, headroom: 38.0 / 256.0, pacing_margin_percent: 1 }
    }
}

/// PROBE_RTT keeps half a bandwidth-delay product (`bbr_probe_rtt_cwnd_gain`) …
const PROBE_RTT_GAIN: u64 = UNIT / 2;
/// … and is due after this long without a new minimum (`bbr_probe_rtt_win_ms`).
const PROBE_RTT_DUE: Span = Span::from_secs(5);
/// Rounds in a window of the aggregation filter, and in STARTUP (`bbr_extra_acked_win_rtts`, `extra_acked_in_startup`).
const AGGREGATION_ROUNDS: u64 = 5;
/// A burst grows by 64 KiB, halved for every 512 µs of RTT (`bbr_tso_rtt_shift`).
const BURST_RTT: Span = Span::from_micros(512);

/// The registry's constructor.
///
/// # Errors
/// Unknown or impossible parameters.
pub fn build(params: &Params, start: &Start) -> Result<Box<dyn Controller>, ParamError> {
    build_as(Rules::V2, "bbr2", params, start)
}

/// Version `rules` under its `name` in the registry; the versions have the same parameters with the same defaults.
///
/// # Errors
/// Unknown or impossible parameters.
pub(super) fn build_as(rules: Rules, name: &str, params: &Params, start: &Start) -> Result<Box<dyn Controller>, ParamError> {
    let config: Config = params.read(name)?;
    for (key, value) in [("loss_threshold", config.loss_threshold), ("keep", config.keep), ("headroom", config.headroom)] {
        require(value > 0.0 && value < 1.0, name, &format!("{key} must lie between 0 and 1"))?;
    }
    require(config.pacing_margin_percent < 100, name, "pacing_margin_percent must be below 100")?;
    Ok(Box::new(Bbr2::with_rules(rules, config, start)))
}

/// The state of one BBRv2 flow.
#[derive(Debug)]
pub struct Bbr2 {
    rules: Rules,
    config: Config,
    mss: u64,
    cwnd: u64,
    initial_cwnd: u64,
    prior_cwnd: u64,
    pacer: Pacer,
    mode: Mode,
    /// bit/s: the maximum of the last cycle of PROBE_BW and of this one.
    rate: [u64; 2],
    min_rtt: Option<Span>,
    min_rtt_at: Time,
    /// The minimum that times PROBE_RTT.
    recent_rtt: Option<Span>,
    recent_rtt_at: Time,
    round: Round,
    round_start: bool,
    full_pipe: FullPipe,
    startup_losses: u32,
    aggregation: Aggregation,
    bounds: Bounds,
    before_episode: Bounds,
    cycle: Cycle,
    in_recovery: bool,
    /// A timeout's repair lasts until this much is delivered.
    timeout_until: Option<u64>,
    idle_restart: bool,
    delivered: u64,
    held_back: HeldBack,
}

impl Bbr2 {
    /// A flow at its initial window.
    pub fn new(config: Config, start: &Start) -> Bbr2 {
        Bbr2::with_rules(Rules::V2, config, start)
    }

    /// The same by the rules of one version.
    pub(super) fn with_rules(rules: Rules, config: Config, start: &Start) -> Bbr2 {
        let cwnd = start.window_or(INITIAL_SEGMENTS);
        Bbr2 {
            rules,
            config,
            mss: u64::from(start.mss),
            cwnd,
            initial_cwnd: cwnd,
            prior_cwnd: 0,
            pacer: Pacer::new(cwnd, start, rules.startup_gain, config.pacing_margin_percent),
            mode: Mode::Startup,
            rate: [0; 2],
            min_rtt: None,
            min_rtt_at: start.now,
            recent_rtt: None,
            recent_rtt_at: start.now,
            round: Round::default(),
            round_start: false,
            full_pipe: FullPipe::default(),
            startup_losses: 0,
            aggregation: Aggregation::new(start.now),
            bounds: Bounds::default(),
            before_episode: Bounds::default(),
            cycle: Cycle::new(start),
            in_recovery: false,
            timeout_until: None,
            idle_restart: false,
            delivered: 0,
            held_back: HeldBack::default(),
        }
    }

    fn max_rate(&self) -> u64 {
        self.rate[0].max(self.rate[1])
    }

    fn rate_bps(&self) -> u64 {
        self.max_rate().min(self.bounds.rate_low)
    }

    fn probing_up(&self) -> bool {
        self.mode == Mode::ProbeBw && self.cycle.phase == Phase::Up
    }

    /// STARTUP, REFILL and UP ask for loss: what they see does not lower the bounds.
    fn asks_for_loss(&self) -> bool {
        self.mode == Mode::Startup || (self.mode == Mode::ProbeBw && matches!(self.cycle.phase, Phase::Refill | Phase::Up))
    }

    /// Segments that leave together (`bbr_tso_segs_goal`).
    fn burst(&self) -> u64 {
        let shift = self.min_rtt.map_or(64, |rtt| rtt.nanos() / BURST_RTT.nanos());
        let extra = if shift < 17 { (65_536u64 >> shift) / self.mss } else { 0 };
        (burst_segments(self.pacer.rate, self.mss) + extra).min(65_535 / self.mss).max(1)
    }

    /// Room for three bursts at the least, two segments more while probing (`bbr_quantization_budget`).
    fn with_burst_room(&self, segments: u64) -> u64 {
        let least = segments.max(3 * self.burst()).max(MIN_SEGMENTS);
        (least + if self.probing_up() { 2 } else { 0 }) * self.mss
    }

    /// Bytes in flight that fill a pipe of `rate_bps` at `gain` (`bbr_inflight`).
    fn inflight_at(&self, rate_bps: u64, gain: u64) -> u64 {
        self.with_burst_room(bdp_segments(rate_bps, self.min_rtt, gain, self.mss))
    }

    /// What is wanted in flight: a bandwidth-delay product, unless congestion has cut the window.
    fn target_inflight(&self) -> u64 {
        self.inflight_at(self.rate_bps(), UNIT).min(self.cwnd)
    }

    fn probe_rtt_cwnd(&self) -> u64 {
        bdp_segments(self.rate_bps(), self.min_rtt, PROBE_RTT_GAIN, self.mss).max(MIN_SEGMENTS) * self.mss
    }

    fn save_cwnd(&mut self) {
        let undisturbed = !self.in_recovery && self.timeout_until.is_none() && !self.mode.is_probe_rtt();
        self.prior_cwnd = if undisturbed { self.cwnd } else { self.prior_cwnd.max(self.cwnd) };
    }

    /// The rate sample, marked if PROBE_RTT kept the sender from using the pipe.
    fn sample(&self, ack: &Ack) -> Option<RateSample> {
        let held_back = self.held_back.covers(ack);
        ack.rate.filter(|s| s.interval > Span::ZERO).map(|s| RateSample { app_limited: s.app_limited || held_back, ..s })
    }

    /// The order of `bbr2_update_model`.
    fn update_model(&mut self, ack: &Ack, sample: &RateSample, left_in_flight: u64) {
        let rate = sample.rate().bps();
        let loss_round_start = self.learn_from(ack, sample, rate);
        self.aggregation.update(Acked {
            now: ack.now,
            bytes: ack.acked,
            round_start: self.round_start,
            window_rounds: if self.full_pipe.reached() { AGGREGATION_ROUNDS } else { 1 },
            rate_bps: self.rate_bps(),
            cwnd: self.cwnd,
            mss: self.mss,
        });
        self.watch_startup_losses(ack, sample, loss_round_start);
        if self.rules.plateau_by_sample && !sample.app_limited {
            self.full_pipe.on_sample(rate, self.round_start);
        } else if self.round_start && !sample.app_limited {
            self.full_pipe.on_round(self.max_rate());
        }
        if self.mode == Mode::Startup && self.full_pipe.reached() {
            self.mode = Mode::Drain;
            self.bounds.forget_signals();
        }
        if self.mode == Mode::Drain && left_in_flight <= self.inflight_at(self.max_rate(), UNIT) {
            self.mode = Mode::ProbeBw;
            self.start_down(ack.now);
        }
        if self.full_pipe.reached() {
            self.update_cycle(ack, sample);
        }
    }

    /// So many losses in a round of recovery, and too many for the flight: the pipe is full (`bbr2_check_loss_too_high_in_startup`).
    fn watch_startup_losses(&mut self, ack: &Ack, sample: &RateSample, loss_round_start: bool) {
        if self.full_pipe.reached() {
            return;
        }
        self.startup_losses += u32::from(ack.lost > 0);
        if loss_round_start && ack.in_recovery && self.startup_losses >= self.rules.startup_losses && self.too_high(sample) {
            self.full_pipe.declare();
            let delivered = if self.rules.startup_keeps_delivered { self.bounds.inflight_of_round } else { 0 };
            self.bounds.inflight_high = self.inflight_at(self.max_rate(), UNIT).max(delivered);
        } else if loss_round_start {
            self.startup_losses = 0;
        }
    }

    fn pacing_gain(&self) -> u64 {
        match (self.mode, self.cycle.phase) {
            (Mode::Startup, _) => self.rules.startup_gain,
            (Mode::ProbeBw, Phase::Down) => self.rules.down_gain,
            (mode, phase) => mode.pacing_gain(phase.pacing_gain()),
        }
    }

    fn cwnd_gain(&self) -> u64 {
        match self.mode {
            Mode::Startup | Mode::Drain => self.rules.startup_cwnd_gain,
            Mode::ProbeBw if self.cycle.phase == Phase::Up => self.rules.up_cwnd_gain,
            mode => mode.cwnd_gain(),
        }
    }

    fn set_pacing(&mut self, gain: u64) {
        self.pacer.set(self.rate_bps(), gain, self.full_pipe.reached());
    }

    fn set_cwnd(&mut self, ack: &Ack) {
        if self.timeout_until.is_some_and(|until| ack.delivered >= until) {
            self.timeout_until = None;
            self.cwnd = self.cwnd.max(self.prior_cwnd);
        }
        let rate = self.rate_bps();
        let extra = self.aggregation.allowance(rate) / self.mss;
        let target = self.with_burst_room(bdp_segments(rate, self.min_rtt, self.cwnd_gain(), self.mss) + extra);
        if self.full_pipe.reached() {
            self.cwnd = (self.cwnd + ack.acked).min(target);
        } else if self.cwnd < target || self.cwnd < 2 * self.initial_cwnd {
            self.cwnd += ack.acked;
        }
        let floor = MIN_SEGMENTS * self.mss;
        self.cwnd = self.cwnd.max(floor);
        if self.mode.is_probe_rtt() {
            self.cwnd = self.cwnd.min(self.probe_rtt_cwnd());
        }
        self.cwnd = self.cwnd.min(self.inflight_cap().max(floor));
    }

    fn on_timeout(&mut self, event: &Congestion) {
        self.timeout_until = Some(self.delivered + event.in_flight);
        if self.rules.plateau_by_sample {
            self.full_pipe.restart();
        } else {
            self.full_pipe.forget_plateau();
        }
        self.bounds.note_loss(self.delivered);
        if !self.asks_for_loss() && self.bounds.inflight_low == u64::MAX {
            self.bounds.inflight_low = self.cwnd.max(self.prior_cwnd);
        }
        self.cwnd = self.cwnd.min(self.mss);
    }
}

impl Controller for Bbr2 {
    fn on_ack(&mut self, ack: &Ack) {
        let left_in_flight = ack.in_flight.saturating_sub(ack.acked + ack.lost);
        self.delivered = ack.delivered;
        self.in_recovery = ack.in_recovery;
        if ack.lost > 0 {
            self.bounds.note_loss(ack.delivered);
        }
        self.round_start = false;
        if let Some(sample) = self.sample(ack) {
            self.round_start = self.round.ended_by(ack);
            self.cycle.rounds += u64::from(self.round_start);
            self.update_model(ack, &sample, left_in_flight);
        }
        self.learn_min_rtt(ack, left_in_flight);
        self.pacer.see_rtt(self.cwnd, ack.srtt);
        self.set_pacing(self.pacing_gain());
        self.set_cwnd(ack);
    }

    fn on_congestion(&mut self, event: &Congestion) {
        self.save_cwnd();
        self.before_episode = self.bounds;
        if event.cause == Cause::Timeout {
            self.on_timeout(event);
        }
    }

    fn on_restart(&mut self, restart: &Restart) {
        self.idle_restart = true;
        self.aggregation.restart(restart.now);
        match self.mode {
            Mode::ProbeBw => self.set_pacing(UNIT),
            Mode::ProbeRtt(probe) if probe.time_is_over(restart.now) => self.end_probe_rtt(restart.now),
            _ => {}
        }
    }

    fn on_undo(&mut self, _now: Time) {
        self.full_pipe.restart();
        self.bounds.undo(&self.before_episode);
        self.cwnd = self.cwnd.max(self.prior_cwnd);
    }

    fn on_mss(&mut self, mss: u32) {
        self.mss = u64::from(mss);
    }

    fn cwnd(&self) -> u64 {
        self.cwnd.max(1)
    }

    fn pacing_rate(&self) -> Option<Rate> {
        Some(self.pacer.rate)
    }

    fn recovery(&self) -> Recovery {
        Recovery::Own
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot {
            cwnd: self.cwnd(),
            ssthresh: None,
            base_delay: self.min_rtt,
            queueing_delay: None,
            phase: if self.mode == Mode::ProbeBw { self.cycle.phase.name() } else { self.mode.name() },
        }
    }
}

#[cfg(test)]
mod tests;
