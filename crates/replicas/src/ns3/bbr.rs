//! `TcpBbr` of ns-3.37 (`tcp-bbr.cc`), faults and all. For comparison with papers that ran it; `bbr1` is the algorithm.
//!
//! What it and its socket do otherwise than Linux:
//! - The socket ends a recovery by setting the window to the threshold (`ProcessAck`). `CheckDrain` sets that once, when STARTUP ends;
//!   until then it is 2³² − 1, and the first acknowledgement that adds to it (`SetCwnd`) wraps it in 32 bits: four segments.
//! - Its RTTs are the socket's smoothed ones (`UpdateRTprop` takes `m_lastRtt`): what PROBE_RTT finds holds some of the queue.
//! - Acknowledgements are expected to bring nothing in an epoch's first second (`UpdateAckAggregation`: seconds in an integer), and
//!   the epoch starts over at 2¹² bytes, not segments.
//! - After a timeout nothing gives the window back (`CongestionStateSet` knows no end of CA_LOSS).
//! - The rates are those that the socket samples, which are too low where single segments wait for the timer.
//! - A restart counts after the first PROBE_RTT only (`CwndEvent` asks for `m_appLimited`, which nothing else sets), but each segment that
//!   finds nothing out is one, after a timeout, too.
//! - A burst is one segment, and the rate paced at has no margin.

mod control;
mod extra;
mod filter;

use lowtide_units::{Span, Time};

use super::socket::{CongestionOps, Event, RateSample, SocketState, State};
use extra::Extra;
use filter::RateMax;
use lowtide_cc::{ParamError, Params, Start};

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

/// The registry's constructor.
///
/// # Errors
/// Unknown parameters.
pub fn build(params: &Params, start: &Start) -> Result<Box<dyn CongestionOps>, ParamError> {
    super::socket::build("bbr-ns3", Bbr::new(start.seed), params)
}

/// `BbrMode_t`.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Mode {
    Startup,
    Drain,
    ProbeBw,
    ProbeRtt,
}

/// The state of a flow.
#[derive(Debug)]
pub struct Bbr {
    /// `m_isInitialized`.
    initialized: bool,
    /// `m_state`.
    mode: Mode,
    pacing_gain: f64,
    cwnd_gain: f64,
    /// `m_maxBwFilter`.
    rate: RateMax,
    /// `m_hasSeenRtt`.
    has_seen_rtt: bool,
    /// `m_delivered`.
    delivered: u64,
    /// `m_nextRoundDelivered`, `m_roundCount`, `m_roundStart`.
    next_round_delivered: u64,
    rounds: u64,
    round_start: bool,
    /// `m_packetConservation`.
    conserve: bool,
    prior_cwnd: u32,
    /// `m_isPipeFilled`, `m_fullBandwidth`, `m_fullBandwidthCount`.
    full: bool,
    plateau: u64,
    flat_rounds: u32,
    rt_prop: Option<Span>,
    rt_prop_at: Time,
    rt_prop_expired: bool,
    /// `m_probeRttDoneStamp`, `m_probeRttRoundDone`.
    probe_done: Option<Time>,
    probe_round_done: bool,
    /// `m_appLimited` is not zero: PROBE_RTT has been there.
    app_limited: bool,
    idle_restart: bool,
    /// `m_cycleIndex`, `m_cycleStamp`.
    cycle: usize,
    cycle_start: Time,
    extra: Extra,
    /// `m_uv`.
    random: u64,
}

impl Bbr {
    /// A flow whose phases `seed` draws.
    pub fn new(seed: u64) -> Bbr {
        Bbr {
            initialized: false,
            mode: Mode::Startup,
            pacing_gain: HIGH_GAIN,
            cwnd_gain: HIGH_GAIN,
            rate: RateMax::new(0),
            has_seen_rtt: false,
            delivered: 0,
            next_round_delivered: 0,
            rounds: 0,
            round_start: false,
            conserve: false,
            prior_cwnd: 0,
            full: false,
            plateau: 0,
            flat_rounds: 0,
            rt_prop: None,
            rt_prop_at: Time::ZERO,
            rt_prop_expired: false,
            probe_done: None,
            probe_round_done: false,
            app_limited: false,
            idle_restart: false,
            cycle: 0,
            cycle_start: Time::ZERO,
            extra: Extra::new(Time::ZERO),
            random: seed,
        }
    }

    /// `CongestionStateSet`'s first CA_OPEN.
    fn initialize(&mut self, tcb: &mut SocketState) {
        self.rt_prop = Some(tcb.last_rtt).filter(|rtt| *rtt > Span::ZERO);
        self.rt_prop_at = tcb.now;
        self.prior_cwnd = tcb.cwnd;
        self.enter(Mode::Startup, HIGH_GAIN, HIGH_GAIN);
        self.init_pacing_rate(tcb);
        self.extra = Extra::new(tcb.now);
        self.initialized = true;
    }

    /// `InitPacingRate`.
    fn init_pacing_rate(&mut self, tcb: &mut SocketState) {
        tcb.pacing = true;
        let rtt_ms = tcb.min_rtt.map_or(1, |rtt| (rtt.nanos() / 1_000_000).max(1));
        self.has_seen_rtt |= tcb.min_rtt.is_some();
        let nominal = u64::from(tcb.cwnd) * 8 * 1000 / rtt_ms;
        tcb.pacing_bps = self.pacing_gain * nominal as f64;
        self.rate = RateMax::new(nominal);
    }

    fn enter(&mut self, mode: Mode, pacing_gain: f64, cwnd_gain: f64) {
        (self.mode, self.pacing_gain, self.cwnd_gain) = (mode, pacing_gain, cwnd_gain);
    }

    fn save_cwnd(&mut self, tcb: &SocketState) {
        let undisturbed = tcb.state != State::Recovery && self.mode != Mode::ProbeRtt;
        self.prior_cwnd = if undisturbed { tcb.cwnd } else { self.prior_cwnd.max(tcb.cwnd) };
    }

    fn restore_cwnd(&self, tcb: &mut SocketState) {
        tcb.cwnd = self.prior_cwnd.max(tcb.cwnd);
    }
}

impl CongestionOps for Bbr {
    fn increase_window(&mut self, _: &mut SocketState, _: u32) {}

    fn get_ss_thresh(&mut self, tcb: &SocketState, _: u32) -> u32 {
        self.save_cwnd(tcb);
        tcb.ssthresh
    }

    fn congestion_state_set(&mut self, tcb: &mut SocketState, state: State) {
        match state {
            State::Open if !self.initialized => self.initialize(tcb),
            State::Loss => {
                self.save_cwnd(tcb);
                self.round_start = true;
            }
            State::Recovery => {
                self.save_cwnd(tcb);
                tcb.cwnd = tcb.bytes_in_flight.wrapping_add(tcb.last_acked_sacked.max(tcb.segment));
                self.conserve = true;
            }
            _ => {}
        }
    }

    fn cwnd_event(&mut self, tcb: &mut SocketState, event: Event) {
        match event {
            Event::CompleteCwr => {
                self.conserve = false;
                self.restore_cwnd(tcb);
            }
            Event::TxStart if self.app_limited => {
                self.idle_restart = true;
                self.extra.restart(tcb.now);
                match self.mode {
                    Mode::ProbeBw => self.set_pacing_rate(tcb, 1.0),
                    Mode::ProbeRtt => self.leave_probe_rtt(tcb),
                    _ => {}
                }
            }
            _ => {}
        }
    }

    fn has_cong_control(&self) -> bool {
        true
    }

    fn cong_control(&mut self, tcb: &mut SocketState, sample: &RateSample) {
        self.delivered = sample.total_delivered;
        self.update_model_and_state(tcb, sample);
        self.set_pacing_rate(tcb, self.pacing_gain);
        self.set_cwnd(tcb, sample);
    }

    fn delays(&self) -> (Option<Span>, Option<Span>) {
        (self.rt_prop, None)
    }

    fn phase(&self) -> Option<&'static str> {
        Some(match self.mode {
            Mode::Startup => "startup",
            Mode::Drain => "drain",
            Mode::ProbeBw => "probe_bw",
            Mode::ProbeRtt => "probe_rtt",
        })
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
