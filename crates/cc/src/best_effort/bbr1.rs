//! BBR version 1 (Linux `tcp_bbr.c`): a rate and a minimum RTT instead of a window that halves. Knows nothing of how the host
//! paces or repairs losses; during recovery its own window counts ([`Recovery::Own`]).

mod policer;
mod window;

use lowtide_units::{Rate, Span, Time};
use serde::Deserialize;

use crate::best_effort::bbr::aggregation::{Acked, Aggregation};
use crate::best_effort::bbr::mode::{HeldBack, Mode, ProbeRtt};
use crate::best_effort::bbr::pacer::Pacer;
use crate::best_effort::bbr::{FullPipe, INITIAL_SEGMENTS, MIN_RTT_WINDOW, MIN_SEGMENTS, RoundMax, STARTUP_GAIN, UNIT, draw};
use crate::controller::{Controller, Recovery, Start};
use crate::events::{Ack, Cause, Congestion, Restart, Snapshot};
use crate::params::{ParamError, Params, require};
use crate::round::Round;
use policer::{Policer, Seen, Verdict};

/// Parameters; the defaults are Linux's. With all three off or zero it is close to ns-3's.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Look for token-bucket policers.
    pub policer: bool,
    /// Add to the window what acknowledgements arrive in bursts.
    pub aggregation: bool,
    /// Pace this much below the rate found (`bbr_pacing_margin_percent`).
    pub pacing_margin_percent: u64,
}

impl Default for Config {
    fn default() -> Config {
        Config { policer: true, aggregation: true, pacing_margin_percent: 1 }
    }
}

/// PROBE_BW's pacing gains: probe, drain, cruise (`bbr_pacing_gain`).
const CYCLE: [u64; 8] = [UNIT * 5 / 4, UNIT * 3 / 4, UNIT, UNIT, UNIT, UNIT, UNIT, UNIT];
/// Rounds that the rate filter remembers: a cycle and two (`bbr_bw_rtts`).
const RATE_ROUNDS: u64 = 10;
/// Rounds in a window of the aggregation filter (`bbr_extra_acked_win_rtts`).
const AGGREGATION_ROUNDS: u64 = 5;

/// The registry's constructor.
///
/// # Errors
/// Unknown or impossible parameters.
pub fn build(params: &Params, start: &Start) -> Result<Box<dyn Controller>, ParamError> {
    let config: Config = params.read("bbr1")?;
    require(config.pacing_margin_percent < 100, "bbr1", "pacing_margin_percent must be below 100")?;
    Ok(Box::new(Bbr1::new(config, start)))
}

/// The state of one BBRv1 flow.
#[derive(Debug)]
pub struct Bbr1 {
    config: Config,
    mss: u64,
    cwnd: u64,
    /// The window to return to after recovery and PROBE_RTT.
    prior_cwnd: u64,
    pacer: Pacer,
    mode: Mode,
    cycle: usize,
    cycle_start: Time,
    rate: RoundMax,
    min_rtt: Option<Span>,
    min_rtt_at: Time,
    round: Round,
    round_start: bool,
    full_pipe: FullPipe,
    aggregation: Aggregation,
    policer: Policer,
    episode: Episode,
    conserve_packets: bool,
    idle_restart: bool,
    delivered: u64,
    lost: u64,
    held_back: HeldBack,
    random: u64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Episode {
    None,
    /// A loss was told; the next acknowledgement enters recovery.
    Entering,
    Recovery,
    /// Until this much is delivered.
    Timeout {
        until: u64,
    },
}

impl Bbr1 {
    /// A flow at its initial window.
    pub fn new(config: Config, start: &Start) -> Bbr1 {
        let cwnd = start.window_or(INITIAL_SEGMENTS);
        Bbr1 {
            config,
            mss: u64::from(start.mss),
            cwnd,
            prior_cwnd: 0,
            pacer: Pacer::new(cwnd, start, STARTUP_GAIN, config.pacing_margin_percent),
            mode: Mode::Startup,
            cycle: 0,
            cycle_start: start.now,
            rate: RoundMax::new(RATE_ROUNDS),
            min_rtt: None,
            min_rtt_at: start.now,
            round: Round::default(),
            round_start: false,
            full_pipe: FullPipe::default(),
            aggregation: Aggregation::new(start.now),
            policer: Policer::default(),
            episode: Episode::None,
            conserve_packets: false,
            idle_restart: false,
            delivered: 0,
            lost: 0,
            held_back: HeldBack::default(),
            random: start.seed,
        }
    }

    fn rate_bps(&self) -> u64 {
        self.policer.rate().unwrap_or(self.rate.max())
    }

    fn pacing_gain(&self) -> u64 {
        self.mode.pacing_gain(if self.policer.rate().is_some() { UNIT } else { CYCLE[self.cycle] })
    }

    fn app_limited(&self, ack: &Ack) -> bool {
        ack.rate.is_some_and(|s| s.app_limited) || self.held_back.covers(ack)
    }

    fn seen(&self, now: Time, loss: bool, app_limited: bool) -> Seen {
        Seen {
            now,
            delivered: self.delivered,
            lost: self.lost,
            loss,
            app_limited,
            round_start: self.round_start,
            probing_bandwidth: self.mode == Mode::ProbeBw,
        }
    }

    fn watch_for_policer(&mut self, seen: &Seen) {
        if self.config.policer && self.policer.update(seen) == Verdict::Expired {
            self.probe_bandwidth(seen.now);
        }
    }

    /// Round, policer, rate and aggregation; without a valid sample none of them (`bbr_update_bw`).
    fn learn_rate(&mut self, ack: &Ack) {
        self.round_start = false;
        let Some(sample) = ack.rate.filter(|s| s.interval > Span::ZERO) else { return };
        if self.round.ended_by(ack) {
            self.round_start = true;
            self.conserve_packets = false;
        }
        let app_limited = self.app_limited(ack);
        self.watch_for_policer(&self.seen(ack.now, ack.lost > 0, app_limited));
        let rate = sample.rate().bps();
        if !app_limited || rate >= self.rate.max() {
            self.rate.update(self.round.count(), rate);
        }
        self.aggregation.update(Acked {
            now: ack.now,
            bytes: ack.acked,
            round_start: self.round_start,
            window_rounds: AGGREGATION_ROUNDS,
            rate_bps: self.rate_bps(),
            cwnd: self.cwnd,
            mss: self.mss,
        });
    }

    /// Whether the phase of PROBE_BW is over (`bbr_is_next_cycle_phase`). A rising flight counts with the burst that leaves next
    /// (`bbr_packets_in_net_at_edt`).
    fn phase_over(&self, ack: &Ack) -> bool {
        let full_length = self.min_rtt.is_some_and(|rtt| ack.now.since(self.cycle_start) > rtt);
        match self.pacing_gain() {
            UNIT => full_length,
            up if up > UNIT => full_length && (ack.lost > 0 || ack.in_flight + self.burst() >= self.inflight_at(up)),
            _ => full_length || ack.in_flight <= self.inflight_at(UNIT),
        }
    }

    fn next_phase(&mut self, now: Time) {
        self.cycle = (self.cycle + 1) % CYCLE.len();
        self.cycle_start = now;
    }

    /// PROBE_BW begins in a random phase other than the draining one (`bbr_reset_probe_bw_mode`).
    fn probe_bandwidth(&mut self, now: Time) {
        self.mode = Mode::ProbeBw;
        self.cycle = CYCLE.len() - 1 - draw(&mut self.random, CYCLE.len() as u64 - 1) as usize;
        self.next_phase(now);
    }

    /// The modes, in the order of `bbr_update_model`.
    fn change_mode(&mut self, ack: &Ack, left_in_flight: u64) {
        if self.mode == Mode::ProbeBw && self.phase_over(ack) {
            self.next_phase(ack.now);
        }
        if self.round_start && !self.app_limited(ack) {
            self.full_pipe.on_round(self.rate.max());
        }
        if self.mode == Mode::Startup && self.full_pipe.reached() {
            self.mode = Mode::Drain;
        }
        if self.mode == Mode::Drain && left_in_flight <= self.inflight_at(UNIT) {
            self.probe_bandwidth(ack.now);
        }
    }

    /// Linux `bbr_update_min_rtt`. Strictly smaller: equal samples would keep an old minimum alive for ever.
    fn learn_min_rtt(&mut self, ack: &Ack, left_in_flight: u64) {
        let expired = ack.now > self.min_rtt_at + MIN_RTT_WINDOW;
        let delayed = ack.rate.is_some_and(|s| s.ack_delayed);
        if let Some(rtt) = ack.rtt
            && (self.min_rtt.is_none_or(|min| rtt < min) || (expired && !delayed))
        {
            self.min_rtt = Some(rtt);
            self.min_rtt_at = ack.now;
        }
        if expired && !self.idle_restart && !self.mode.is_probe_rtt() {
            self.save_cwnd();
            self.mode = Mode::ProbeRtt(ProbeRtt::default());
            self.held_back = HeldBack::since(ack.delivered);
        }
        if let Mode::ProbeRtt(probe) = &mut self.mode {
            self.held_back.until(ack.delivered + left_in_flight);
            if probe.goes_on(ack, left_in_flight <= MIN_SEGMENTS * self.mss, self.round_start, &mut self.round) {
                self.end_probe_rtt(ack.now);
            }
        }
        if ack.acked > 0 {
            self.idle_restart = false;
        }
    }

    fn end_probe_rtt(&mut self, now: Time) {
        self.min_rtt_at = now;
        self.cwnd = self.cwnd.max(self.prior_cwnd);
        match self.full_pipe.reached() {
            true => self.probe_bandwidth(now),
            false => self.mode = Mode::Startup,
        }
    }

    /// Linux `bbr_set_pacing_rate`.
    fn set_pacing(&mut self, gain: u64) {
        self.pacer.set(self.rate_bps(), gain, self.full_pipe.reached());
    }
}

impl Controller for Bbr1 {
    fn on_ack(&mut self, ack: &Ack) {
        let left_in_flight = ack.in_flight.saturating_sub(ack.acked + ack.lost);
        self.delivered = ack.delivered;
        self.lost += ack.lost;
        self.learn_rate(ack);
        self.change_mode(ack, left_in_flight);
        self.learn_min_rtt(ack, left_in_flight);
        self.pacer.see_rtt(self.cwnd, ack.srtt);
        self.set_pacing(self.pacing_gain());
        self.set_cwnd(ack, left_in_flight);
    }

    fn on_congestion(&mut self, event: &Congestion) {
        match event.cause {
            Cause::Loss => {
                self.save_cwnd();
                self.episode = Episode::Entering;
            }
            Cause::Ecn => self.save_cwnd(),
            Cause::Timeout => self.on_timeout(event),
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
        self.policer.reset();
        if matches!(self.episode, Episode::Timeout { .. }) {
            // The stack is out of CA_Loss at once (`bbr_set_cwnd_to_recover_or_restore`).
            self.restore();
        }
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
        Snapshot { cwnd: self.cwnd(), ssthresh: None, base_delay: self.min_rtt, queueing_delay: None, phase: self.mode.name() }
    }
}

#[cfg(test)]
mod tests;
