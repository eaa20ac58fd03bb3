//! BBRv2's PROBE_BW: down, cruise, refill, up, and when to go from one to the next. Knows nothing of pacing and windows
//! (`tcp_bbr2.c`, `bbr2_update_cycle_phase`).

use lowtide_units::{Span, Time};

use super::{Bbr2, Mode};
use crate::best_effort::bbr::{UNIT, draw};
use crate::controller::Start;
use crate::events::{Ack, RateSample};

/// UP ends when so much of the bandwidth-delay product is in flight (`bbr_bw_probe_pif_gain`).
const UP_GAIN: u64 = UNIT * 5 / 4;
/// Wait at least this long between probes (`bbr_bw_probe_base_us`) …
const WAIT: Span = Span::from_secs(2);
/// … and up to this much longer (`bbr_bw_probe_rand_us`), in µs …
const WAIT_RANDOM_US: u64 = 1_000_000;
/// … but no more rounds than Reno would need at this window, and never more than this (`bbr_bw_probe_max_rounds`).
const WAIT_ROUNDS: u64 = 63;
/// The count of rounds starts at random below this (`bbr_bw_probe_rand_rounds`).
const RANDOM_ROUNDS: u64 = 2;
/// The slope of UP doubles up to 2^30 segments a round.
const STEEPEST: u32 = 30;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Down,
    Cruise,
    Refill,
    Up,
}

impl Phase {
    pub(super) fn name(self) -> &'static str {
        match self {
            Phase::Down => "probe_bw_down",
            Phase::Cruise => "probe_bw_cruise",
            Phase::Refill => "probe_bw_refill",
            Phase::Up => "probe_bw_up",
        }
    }

    /// Of DOWN the rules say it.
    pub(super) fn pacing_gain(self) -> u64 {
        if self == Phase::Up { UNIT * 5 / 4 } else { UNIT }
    }
}

/// What the acknowledgements now arriving tell of: which sending they answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Acks {
    Init,
    Refilling,
    ProbeStarting,
    ProbeFeedback,
    ProbeStopping,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Cycle {
    pub(super) phase: Phase,
    /// Rounds since the last probe.
    pub(super) rounds: u64,
    start: Time,
    pub(super) wait: Span,
    acks: Acks,
    /// The samples now arriving were sent while probing: too much loss among them counts.
    pub(super) samples_from_probe: bool,
    /// The last probe lost too much.
    pub(super) too_high: bool,
    /// UP ended at the upper bound without knowing whether more would have passed.
    stopped_at_bound: bool,
    up_rounds: u32,
    pub(super) up_acked: u64,
    pub(super) up_acks_per_segment: u64,
    random: u64,
}

impl Cycle {
    pub(super) fn new(start: &Start) -> Cycle {
        Cycle {
            phase: Phase::Down,
            rounds: 0,
            start: start.now,
            wait: WAIT,
            acks: Acks::Init,
            samples_from_probe: false,
            too_high: false,
            stopped_at_bound: false,
            up_rounds: 0,
            up_acked: 0,
            up_acks_per_segment: u64::from(u32::MAX),
            random: start.seed,
        }
    }

    /// PROBE_RTT begins: no more samples of a probe after this round.
    pub(super) fn stop_probing(&mut self) {
        self.acks = Acks::ProbeStopping;
    }

    /// The next round of UP raises the bound twice as fast.
    pub(super) fn steepen(&mut self, cwnd_segments: u64) {
        self.up_acks_per_segment = (cwnd_segments >> self.up_rounds).max(1);
        self.up_rounds = (self.up_rounds + 1).min(STEEPEST);
    }

    fn elapsed(&self, now: Time, span: Span) -> bool {
        now > self.start + span
    }
}

impl Bbr2 {
    pub(super) fn start_down(&mut self, now: Time) {
        self.bounds.forget_signals();
        let c = &mut self.cycle;
        c.rounds = draw(&mut c.random, RANDOM_ROUNDS);
        c.wait = WAIT + Span::from_micros(draw(&mut c.random, WAIT_RANDOM_US));
        (c.start, c.acks, c.phase) = (now, Acks::ProbeStopping, Phase::Down);
        self.round.restart(self.delivered);
    }

    pub(super) fn start_cruise(&mut self) {
        if self.bounds.inflight_low != u64::MAX {
            self.bounds.inflight_low = self.bounds.inflight_low.min(self.bounds.inflight_high);
        }
        self.cycle.phase = Phase::Cruise;
    }

    /// A round at the rate found, so that UP starts from a full pipe and not from a shallow queue.
    fn start_refill(&mut self) {
        self.bounds.lift_low();
        let c = &mut self.cycle;
        (c.up_rounds, c.up_acked, c.stopped_at_bound) = (0, 0, false);
        (c.acks, c.phase) = (Acks::Refilling, Phase::Refill);
        self.round.restart(self.delivered);
    }

    fn start_up(&mut self, now: Time, rate: u64) {
        self.full_pipe.begin_if(self.rules.plateau_by_sample, rate);
        let c = &mut self.cycle;
        (c.start, c.acks, c.phase) = (now, Acks::ProbeStarting, Phase::Up);
        c.steepen(self.cwnd / self.mss);
        self.round.restart(self.delivered);
    }

    pub(super) fn time_to_probe(&self, now: Time) -> bool {
        let reno_rounds = self.target_inflight() / self.mss;
        self.cycle.elapsed(now, self.cycle.wait) || self.cycle.rounds >= reno_rounds.min(WAIT_ROUNDS)
    }

    /// Bounds first, then the phases.
    pub(super) fn update_cycle(&mut self, ack: &Ack, sample: &RateSample) {
        if self.adapt_upper_bound(ack, sample) || self.mode != Mode::ProbeBw {
            return;
        }
        match self.cycle.phase {
            Phase::Cruise if self.time_to_probe(ack.now) => self.start_refill(),
            Phase::Refill if self.round_start => {
                self.cycle.samples_from_probe = true;
                self.start_up(ack.now, sample.rate().bps());
            }
            Phase::Up => self.leave_up(ack, sample),
            Phase::Down if self.time_to_probe(ack.now) => self.start_refill(),
            Phase::Down => {
                let drained = self.inflight_at(self.max_rate(), UNIT).min(self.inflight_with_headroom());
                if ack.in_flight <= drained {
                    self.start_cruise();
                }
            }
            Phase::Cruise | Phase::Refill => {}
        }
    }

    /// A rising flight counts with the burst that leaves next (`bbr_packets_in_net_at_edt`).
    ///
    /// Version 2 ends UP when a quarter more than the pipe is in flight, version 3 when its rate no longer grows, unless the upper bound is
    /// what keeps it from growing (`tcp_bbr.c`, `bbr_update_cycle_phase`).
    fn leave_up(&mut self, ack: &Ack, sample: &RateSample) {
        let in_flight = ack.in_flight + self.burst() * self.mss;
        let at_bound = self.cycle.too_high && in_flight >= self.bounds.inflight_high;
        let full = if self.rules.plateau_by_sample { self.is_flat(ack, sample, at_bound) } else { self.is_queueing(ack, in_flight) };
        self.cycle.stopped_at_bound |= at_bound;
        if at_bound || full {
            self.cycle.too_high = false;
            self.start_down(ack.now);
        }
    }

    /// Version 2: a round trip of UP is over and a quarter more than the pipe is in flight.
    fn is_queueing(&self, ack: &Ack, in_flight: u64) -> bool {
        let full_length = self.min_rtt.is_some_and(|rtt| self.cycle.elapsed(ack.now, rtt));
        full_length && in_flight >= self.inflight_at(self.max_rate(), UP_GAIN)
    }

    /// Version 3: the rate is flat; looked for anew while the upper bound is the limit.
    fn is_flat(&mut self, ack: &Ack, sample: &RateSample, at_bound: bool) -> bool {
        if !at_bound && ack.cwnd_limited && self.cwnd >= self.bounds.inflight_high {
            self.full_pipe.begin(sample.rate().bps());
        }
        self.full_pipe.is_flat()
    }

    /// True if it started another phase (`bbr2_adapt_upper_bounds`).
    fn adapt_upper_bound(&mut self, ack: &Ack, sample: &RateSample) -> bool {
        if self.cycle.acks == Acks::ProbeStarting && self.round_start {
            self.cycle.acks = Acks::ProbeFeedback;
        }
        if self.cycle.acks == Acks::ProbeStopping && self.round_start {
            self.cycle.samples_from_probe = false;
            self.cycle.acks = Acks::Init;
            // The best sample of this cycle has just been taken: forget the one before last.
            if self.mode == Mode::ProbeBw && !sample.app_limited && self.rate[1] > 0 {
                self.rate = [self.rate[1], 0];
            }
            if self.mode == Mode::ProbeBw && self.cycle.stopped_at_bound && !self.cycle.too_high {
                self.start_refill();
                return true;
            }
        }
        if !self.too_high(sample) {
            self.raise(ack, sample);
        } else if self.cycle.samples_from_probe {
            self.on_too_high(ack, sample);
        }
        false
    }
}
