//! ns-3.37's `TcpBbr` with what its socket does to it (`tcp-bbr.cc`, `tcp-socket-base.cc`), faults and all. For comparison with papers
//! that ran it; `bbr1` is the algorithm.
//!
//! What it does otherwise than Linux:
//! - The socket ends a recovery by setting the window to the threshold (`ProcessAck`). `CheckDrain` sets that once, when STARTUP ends;
//!   until then it is 2³² − 1, and the first acknowledgement that adds to it (`SetCwnd`) wraps it in 32 bits: four segments.
//! - Its RTTs are the socket's smoothed ones (`UpdateRTprop` takes `m_lastRtt`): what PROBE_RTT finds holds some of the queue.
//! - Acknowledgements are expected to bring nothing in an epoch's first second (`UpdateAckAggregation`: seconds in an integer), and
//!   the epoch starts over at 2¹² bytes, not segments.
//! - After a timeout nothing gives the window back (`CongestionStateSet` knows no end of CA_LOSS).
//! - The rates are those that the socket samples ([`SocketSample`]), which are too low where single segments wait for the timer.
//! - A restart counts after the first PROBE_RTT only (`CwndEvent` asks for `m_appLimited`, which nothing else sets), but each segment that
//!   finds nothing out is one, after a timeout, too.
//! - A burst is one segment, and the rate paced at has no margin.

mod extra;
mod filter;
mod state;

use lowtide_units::{Rate, Span, Time};

use super::socket::SocketSample;
use crate::contract::{Beside, Replica};
use extra::Extra;
use filter::RateMax;
use lowtide_cc::{Ack, Cause, Congestion, Restart, Snapshot};
use lowtide_cc::{Controller, Recovery, Start};
use lowtide_cc::{ParamError, Params};
use state::{Mode, Socket};

/// `InitialCwnd` of the sockets that are compared.
const INITIAL_SEGMENTS: u32 = 10;
/// `HighGain`.
const HIGH_GAIN: f64 = 2.89;
/// `PACING_GAIN_CYCLE`.
const CYCLE: [f64; 8] = [1.25, 0.75, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0];
/// `RttWindowLength`.
const RTT_WINDOW: Span = Span::from_secs(10);
/// `ProbeRttDuration`.
const PROBE_RTT: Span = Span::from_millis(200);
/// `m_minPipeCwnd`, in segments.
const MIN_PIPE: u32 = 4;
/// A round's rate that is a quarter above the last plateau is growth; so many rounds without fill the pipe (`CheckFullPipe`).
const GROWTH: f64 = 1.25;
const FLAT_ROUNDS: u32 = 3;
/// The threshold that the socket starts with.
const UNSET: u32 = u32::MAX;

/// The registry's constructor.
///
/// # Errors
/// Unknown parameters.
pub fn build(params: &Params, start: &Start) -> Result<Box<dyn Replica>, ParamError> {
    let Config {} = params.read("bbr-ns3")?;
    Ok(Box::new(BbrNs3::new(start)))
}

/// No parameters.
#[derive(Clone, Copy, Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {}

/// The state of a flow. Windows are in bytes, 32 bits of them as in ns-3.
#[derive(Debug)]
pub struct BbrNs3 {
    mss: u32,
    cwnd: u32,
    prior_cwnd: u32,
    ssthresh: u32,
    socket: Socket,
    mode: Mode,
    pacing_gain: f64,
    cwnd_gain: f64,
    pacing_bps: f64,
    acked_any: bool,
    rate: RateMax,
    /// The last rate where the host tells no such samples.
    last_bps: u64,
    /// `m_nextRoundDelivered`, `m_roundCount`.
    round_end: u64,
    rounds: u64,
    round_start: bool,
    conserve: bool,
    full: bool,
    plateau: u64,
    flat_rounds: u32,
    rt_prop: Option<Span>,
    rt_prop_at: Time,
    probe_done: Option<Time>,
    probe_round_done: bool,
    /// PROBE_RTT has been there (`m_appLimited`).
    has_probed: bool,
    idle_restart: bool,
    cycle: usize,
    cycle_start: Time,
    extra: Extra,
    random: u64,
}

impl BbrNs3 {
    /// A flow at its initial window whose handshake took what `start` says (`CongestionStateSet`, CA_OPEN).
    pub fn new(start: &Start) -> BbrNs3 {
        let cwnd = start.window_or(INITIAL_SEGMENTS) as u32;
        let rtt = start.handshake_rtt.map_or(1, |rtt| (rtt.nanos() / 1_000_000).max(1));
        let first_bps = u64::from(cwnd) * 8 * 1000 / rtt;
        BbrNs3 {
            mss: start.mss,
            cwnd,
            prior_cwnd: cwnd,
            ssthresh: UNSET,
            socket: Socket::Open,
            mode: Mode::Startup,
            pacing_gain: HIGH_GAIN,
            cwnd_gain: HIGH_GAIN,
            pacing_bps: HIGH_GAIN * first_bps as f64,
            acked_any: false,
            rate: RateMax::new(first_bps),
            last_bps: 0,
            round_end: 0,
            rounds: 0,
            round_start: false,
            conserve: false,
            full: false,
            plateau: 0,
            flat_rounds: 0,
            rt_prop: start.handshake_rtt,
            rt_prop_at: start.now,
            probe_done: None,
            probe_round_done: false,
            has_probed: false,
            idle_restart: false,
            cycle: 0,
            cycle_start: start.now,
            extra: Extra::new(start.now),
            random: start.seed,
        }
    }

    /// `InFlight`: three segments of bursts beside the product, two more while probing.
    fn in_flight_at(&self, gain: f64) -> u32 {
        let Some(rtt) = self.rt_prop else { return INITIAL_SEGMENTS * self.mss };
        let probing = self.mode == Mode::ProbeBw && self.cycle == 0;
        let room = if probing { 5 } else { 3 } * self.mss;
        (gain * self.rate.max() as f64 * rtt.secs_f64() / 8.0 + f64::from(room)) as u32
    }

    fn save_cwnd(&mut self) {
        let undisturbed = self.socket != Socket::Recovery && self.mode != Mode::ProbeRtt;
        self.prior_cwnd = if undisturbed { self.cwnd } else { self.prior_cwnd.max(self.cwnd) };
    }

    fn enter(&mut self, mode: Mode, pacing_gain: f64, cwnd_gain: f64) {
        (self.mode, self.pacing_gain, self.cwnd_gain) = (mode, pacing_gain, cwnd_gain);
    }

    /// `EnterProbeBW`: any phase but the draining one.
    fn probe_bandwidth(&mut self, now: Time) {
        self.enter(Mode::ProbeBw, 1.0, 2.0);
        self.cycle = 7 - draw(&mut self.random, 6) as usize;
        self.advance_cycle(now);
    }

    fn advance_cycle(&mut self, now: Time) {
        self.cycle = (self.cycle + 1) % CYCLE.len();
        (self.cycle_start, self.pacing_gain) = (now, CYCLE[self.cycle]);
    }

    /// The socket's sample, or what a host that is none of ns-3's tells in its place.
    fn sampled(&mut self, ack: &Ack, told: Option<SocketSample>) -> SocketSample {
        let sample = told.unwrap_or_else(|| SocketSample {
            bps: ack.rate.map_or(self.last_bps, |rate| rate.rate().bps()),
            prior_delivered: ack.prior_delivered,
            delivered: ack.rate.map(|rate| rate.delivered),
            app_limited: ack.rate.is_some_and(|rate| rate.app_limited),
            in_flight: ack.in_flight.saturating_sub(ack.acked + ack.lost),
            lost: ack.lost,
        });
        self.last_bps = sample.bps;
        sample
    }

    /// `UpdateBtlBw`, `UpdateAckAggregation`, `CheckCyclePhase`, `CheckFullPipe`, `CheckDrain` in the order of `UpdateModelAndState`.
    fn update_rate_and_mode(&mut self, ack: &Ack, sample: &SocketSample) {
        if sample.bps > 0 {
            self.update_round(ack, sample);
            if sample.bps >= self.rate.max() || !sample.app_limited {
                self.rate.update(self.rounds, sample.bps);
            }
        }
        if ack.acked > 0 && sample.delivered.is_some() {
            self.extra.update(ack, self.round_start, self.rate.max(), self.cwnd);
        }
        if self.mode == Mode::ProbeBw && self.phase_is_over(ack, sample) {
            self.advance_cycle(ack.now);
        }
        if !self.full && self.round_start && !sample.app_limited {
            self.check_full_pipe();
        }
        if self.mode == Mode::Startup && self.full {
            self.enter(Mode::Drain, 1.0 / HIGH_GAIN, HIGH_GAIN);
            self.ssthresh = self.in_flight_at(1.0);
        }
        if self.mode == Mode::Drain && sample.in_flight <= u64::from(self.in_flight_at(1.0)) {
            self.probe_bandwidth(ack.now);
        }
    }

    /// `UpdateRound`.
    fn update_round(&mut self, ack: &Ack, sample: &SocketSample) {
        self.round_start = sample.prior_delivered >= self.round_end;
        if self.round_start {
            self.round_end = ack.delivered;
            self.rounds += 1;
            self.conserve = false;
        }
    }

    /// `IsNextCyclePhase`.
    fn phase_is_over(&self, ack: &Ack, sample: &SocketSample) -> bool {
        let full_length = self.rt_prop.is_some_and(|rtt| ack.now.since(self.cycle_start) > rtt);
        if self.pacing_gain > 1.0 {
            full_length && (sample.lost > 0 || ack.in_flight >= u64::from(self.in_flight_at(self.pacing_gain)))
        } else {
            full_length || (self.pacing_gain < 1.0 && ack.in_flight <= u64::from(self.in_flight_at(1.0)))
        }
    }

    fn check_full_pipe(&mut self) {
        if self.rate.max() as f64 >= self.plateau as f64 * GROWTH {
            (self.plateau, self.flat_rounds) = (self.rate.max(), 0);
            return;
        }
        self.flat_rounds += 1;
        self.full = self.flat_rounds >= FLAT_ROUNDS;
    }

    /// `UpdateRTprop` and `CheckProbeRTT`.
    fn update_rt_prop(&mut self, ack: &Ack, sample: &SocketSample) {
        let expired = ack.now > self.rt_prop_at + RTT_WINDOW;
        if ack.srtt > Span::ZERO && (expired || self.rt_prop.is_none_or(|least| ack.srtt <= least)) {
            (self.rt_prop, self.rt_prop_at) = (Some(ack.srtt), ack.now);
        }
        if self.mode != Mode::ProbeRtt && expired && !self.idle_restart {
            self.enter(Mode::ProbeRtt, 1.0, 1.0);
            self.save_cwnd();
            self.probe_done = None;
        }
        if self.mode == Mode::ProbeRtt {
            self.probe_rtt(ack, sample.in_flight);
        }
        self.idle_restart &= sample.delivered == Some(0);
    }

    /// `HandleProbeRTT`.
    fn probe_rtt(&mut self, ack: &Ack, left: u64) {
        self.has_probed = true;
        let Some(done) = self.probe_done else {
            if left <= u64::from(MIN_PIPE * self.mss) {
                (self.probe_done, self.probe_round_done) = (Some(ack.now + PROBE_RTT), false);
                self.round_end = ack.delivered;
            }
            return;
        };
        self.probe_round_done |= self.round_start;
        self.leave_probe_rtt(ack.now, done);
    }

    /// `HandleProbeRTT`'s end, which `CwndEvent` repeats.
    fn leave_probe_rtt(&mut self, now: Time, done: Time) {
        if self.probe_round_done && now > done {
            self.rt_prop_at = now;
            self.cwnd = self.cwnd.max(self.prior_cwnd);
            if self.full {
                self.probe_bandwidth(now);
            } else {
                self.enter(Mode::Startup, HIGH_GAIN, HIGH_GAIN);
            }
        }
    }

    /// `SetPacingRate`.
    fn pace(&mut self, gain: f64) {
        let rate = gain * self.rate.max() as f64;
        if self.full || rate > self.pacing_bps {
            self.pacing_bps = rate;
        }
    }

    /// `SetCwnd`; the sum wraps as in ns-3.
    fn set_cwnd(&mut self, ack: &Ack, sample: &SocketSample) {
        let (acked, min_pipe) = (ack.acked as u32, MIN_PIPE * self.mss);
        let recovering = self.socket == Socket::Recovery && acked > 0;
        if recovering && sample.lost > 0 {
            self.cwnd = self.cwnd.saturating_sub(sample.lost as u32).max(self.mss);
        }
        if recovering && self.conserve {
            self.cwnd = self.cwnd.max((sample.in_flight as u32).wrapping_add(acked));
        } else if acked > 0 {
            let extra = if self.full { self.extra.allowance(self.rate.max()) } else { 0 };
            let target = self.in_flight_at(self.cwnd_gain).wrapping_add(extra as u32);
            if self.full {
                self.cwnd = self.cwnd.wrapping_add(acked).min(target);
            } else if self.cwnd < target || ack.delivered < u64::from(INITIAL_SEGMENTS * self.mss) {
                self.cwnd = self.cwnd.wrapping_add(acked);
            }
            self.cwnd = self.cwnd.max(min_pipe);
        }
        if self.mode == Mode::ProbeRtt {
            self.cwnd = self.cwnd.min(min_pipe);
        }
    }

    /// The socket's part before `CongControl`: `EnterRecovery`, or the end of a recovery in `ProcessAck`.
    fn follow_socket(&mut self, ack: &Ack, left: u64) {
        match (self.socket, ack.in_recovery) {
            (Socket::Entering, true) => {
                self.socket = Socket::Recovery;
                self.cwnd = (left as u32).wrapping_add((ack.acked as u32).max(self.mss));
                // `EnterRecovery` asks for the threshold after it has told the state.
                self.save_cwnd();
                self.conserve = true;
            }
            (Socket::Recovery | Socket::Entering, false) => {
                self.socket = Socket::Open;
                self.conserve = false;
                self.cwnd = self.ssthresh;
            }
            _ => {}
        }
    }
}

impl Replica for BbrNs3 {
    fn on_ack_beside(&mut self, ack: &Ack, beside: &Beside) {
        let sample = self.sampled(ack, beside.sample);
        self.acked_any = true;
        self.follow_socket(ack, sample.in_flight);
        self.update_rate_and_mode(ack, &sample);
        self.update_rt_prop(ack, &sample);
        self.pace(self.pacing_gain);
        self.set_cwnd(ack, &sample);
    }
}

impl Controller for BbrNs3 {
    fn on_ack(&mut self, ack: &Ack) {
        self.on_ack_beside(ack, &Beside::default());
    }

    fn on_congestion(&mut self, event: &Congestion) {
        self.save_cwnd();
        match event.cause {
            Cause::Loss | Cause::Ecn => self.socket = Socket::Entering,
            Cause::Timeout => {
                (self.socket, self.round_start) = (Socket::Open, true);
                self.cwnd = self.mss;
            }
        }
    }

    /// `CwndEvent`, CA_EVENT_TX_START.
    fn on_restart(&mut self, restart: &Restart) {
        if !self.has_probed {
            return;
        }
        self.idle_restart = true;
        self.extra.restart(restart.now);
        match (self.mode, self.probe_done) {
            (Mode::ProbeBw, _) => self.pace(1.0),
            (Mode::ProbeRtt, Some(done)) => self.leave_probe_rtt(restart.now, done),
            _ => {}
        }
    }

    fn on_mss(&mut self, mss: u32) {
        self.mss = mss;
    }

    fn cwnd(&self) -> u64 {
        u64::from(self.cwnd)
    }

    /// None at first: ns-3 does not pace the initial window (`PaceInitialWindow`).
    fn pacing_rate(&self) -> Option<Rate> {
        self.acked_any.then(|| Rate::from_bps(self.pacing_bps as u64))
    }

    fn recovery(&self) -> Recovery {
        Recovery::Own
    }

    fn snapshot(&self) -> Snapshot {
        let ssthresh = if self.ssthresh == UNSET { f64::INFINITY } else { f64::from(self.ssthresh) };
        Snapshot { base_delay: self.rt_prop, ..Snapshot::of(self.cwnd(), ssthresh, self.mode.name()) }
    }
}

/// A deterministic draw from 0 to `below` − 1 (splitmix64): the same on every machine, which `SmallRng` does not promise.
fn draw(state: &mut u64, below: u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (z ^ (z >> 31)) % below
}

#[cfg(test)]
mod tests;
