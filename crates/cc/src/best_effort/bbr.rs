//! What BBR version 1 and 2 share: filters over rounds, the full-pipe test, and the sums that turn a rate and an RTT into a
//! window. Knows no state machine. Gains are in 1/256, as the sources have them; all of it is integer arithmetic.

pub(crate) mod aggregation;
pub(crate) mod mode;
pub(crate) mod pacer;

use std::collections::VecDeque;

use lowtide_units::{Rate, Span};

/// A gain of one (Linux `tcp_bbr.c`: BBR_UNIT).
pub(crate) const UNIT: u64 = 256;
/// 2 / ln 2: the smallest gain that doubles the rate every round (`bbr_high_gain`).
pub(crate) const STARTUP_GAIN: u64 = 739;
/// What empties the queue of STARTUP in about one round (`bbr_drain_gain`).
pub(crate) const DRAIN_GAIN: u64 = 88;
/// The window's floor and PROBE_RTT's window in version 1 (`bbr_cwnd_min_target`).
pub(crate) const MIN_SEGMENTS: u64 = 4;
/// Segments to start with and to use while no RTT is known (RFC 6928, TCP_INIT_CWND).
pub(crate) const INITIAL_SEGMENTS: u32 = 10;
/// The minimum RTT is forgotten after this long (`bbr_min_rtt_win_sec`).
pub(crate) const MIN_RTT_WINDOW: Span = Span::from_secs(10);
/// The rate paced at before the first RTT is known assumes this one (`bbr_init_pacing_rate_from_rtt`).
pub(crate) const FIRST_RTT: Span = Span::from_millis(1);
/// STARTUP goes on while the rate grows by a quarter (`bbr_full_bw_thresh`) …
const FULL_PIPE_GROWTH: u64 = UNIT * 5 / 4;
/// … and ends after so many rounds without that (`bbr_full_bw_cnt`).
const FULL_PIPE_ROUNDS: u32 = 3;
/// Below this pacing rate one segment a burst, above it two (`bbr_min_tso_rate`).
const SINGLE_SEGMENT_RATE: u64 = 1_200_000;
/// The largest burst that one skb can carry (GSO_MAX_SIZE, headers neglected) …
const MAX_BURST_BYTES: u64 = 65_535;
/// … and that BBR asks for, in segments (`bbr_tso_segs_goal`).
const MAX_BURST_SEGMENTS: u64 = 0x7f;

/// Maximum over the last rounds, exact (Linux keeps three candidates of it, `minmax_running_max`).
#[derive(Clone, Debug)]
pub(crate) struct RoundMax {
    window: u64,
    /// Rounds rise, values fall: the front is the maximum.
    samples: VecDeque<(u64, u64)>,
}

impl RoundMax {
    pub(crate) fn new(window: u64) -> RoundMax {
        RoundMax { window, samples: VecDeque::new() }
    }

    pub(crate) fn update(&mut self, round: u64, value: u64) {
        while self.samples.back().is_some_and(|&(_, v)| v <= value) {
            self.samples.pop_back();
        }
        self.samples.push_back((round, value));
        while self.samples.front().is_some_and(|&(r, _)| round - r > self.window) {
            self.samples.pop_front();
        }
    }

    pub(crate) fn max(&self) -> u64 {
        self.samples.front().map_or(0, |&(_, value)| value)
    }
}

/// Whether STARTUP has filled the pipe: no growth by a quarter in three rounds (`bbr_check_full_bw_reached`).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FullPipe {
    baseline: u64,
    flat_rounds: u32,
    reached: bool,
    /// Version 3: the plateau seen last, which PROBE_UP forgets.
    now: bool,
}

impl FullPipe {
    /// To be called once a round that was not limited by the application, with the filtered rate in bit/s.
    pub(crate) fn on_round(&mut self, rate: u64) {
        if self.reached {
            return;
        }
        if u128::from(rate) * u128::from(UNIT) >= u128::from(self.baseline) * u128::from(FULL_PIPE_GROWTH) {
            (self.baseline, self.flat_rounds) = (rate, 0);
            return;
        }
        self.flat_rounds += 1;
        self.reached = self.flat_rounds >= FULL_PIPE_ROUNDS;
    }

    /// Version 3: to be called for each acknowledgement that was not limited by the application, with its own sample in bit/s. Growth
    /// shows at once, rounds without it are counted at their ends; the plateau holds until it is forgotten.
    pub(crate) fn on_sample(&mut self, rate: u64, round_start: bool) {
        if self.now {
            return;
        }
        if u128::from(rate) * u128::from(UNIT) >= u128::from(self.baseline) * u128::from(FULL_PIPE_GROWTH) {
            self.begin(rate);
        } else if round_start {
            self.flat_rounds += 1;
            self.now = self.flat_rounds >= FULL_PIPE_ROUNDS;
            self.reached |= self.now;
        }
    }

    /// Whether the last rounds were flat.
    pub(crate) fn is_flat(&self) -> bool {
        self.now
    }

    /// As [`begin`](FullPipe::begin), in the version that looks for plateaus while probing.
    pub(crate) fn begin_if(&mut self, looks: bool, rate: u64) {
        if looks {
            self.begin(rate);
        }
    }

    /// Looks for a plateau from `rate` on (`bbr_reset_full_bw`).
    pub(crate) fn begin(&mut self, rate: u64) {
        (self.baseline, self.flat_rounds, self.now) = (rate, 0, false);
    }

    pub(crate) fn reached(&self) -> bool {
        self.reached
    }

    /// Declares the pipe full for another reason (version 2: loss in STARTUP).
    pub(crate) fn declare(&mut self) {
        self.reached = true;
    }

    /// Forgets the plateau seen so far, not the verdict.
    pub(crate) fn forget_plateau(&mut self) {
        self.baseline = 0;
    }

    /// As [`forget_plateau`](FullPipe::forget_plateau), the rounds counted included.
    pub(crate) fn restart(&mut self) {
        self.begin(0);
    }
}

/// `gain · rate · rtt` in whole segments, rounded up (`bbr_bdp`); the initial window while no RTT is known.
pub(crate) fn bdp_segments(rate_bps: u64, min_rtt: Option<Span>, gain: u64, mss: u64) -> u64 {
    let Some(rtt) = min_rtt else { return u64::from(INITIAL_SEGMENTS) };
    let scaled = u128::from(rate_bps) * u128::from(rtt.nanos()) * u128::from(gain);
    scaled.div_ceil(u128::from(8 * UNIT) * 1_000_000_000 * u128::from(mss)) as u64
}

/// `rate · gain` less the pacing margin (`bbr_bw_to_pacing_rate`).
pub(crate) fn pacing(rate_bps: u64, gain: u64, margin_percent: u64) -> Rate {
    let scaled = u128::from(rate_bps) * u128::from(gain) * u128::from(100 - margin_percent);
    Rate::from_bps((scaled / u128::from(UNIT * 100)) as u64)
}

/// Segments that leave as one burst: about a millisecond's worth (`bbr_tso_segs_goal`; the kernel's ms is 2⁻¹⁰ s).
pub(crate) fn burst_segments(pacing: Rate, mss: u64) -> u64 {
    let least = if pacing.bps() < SINGLE_SEGMENT_RATE { 1 } else { 2 };
    let bytes = (pacing.bps() / 8 / 1024).min(MAX_BURST_BYTES);
    (bytes / mss).max(least).min(MAX_BURST_SEGMENTS)
}

/// A deterministic draw from 0 to `below` − 1 (splitmix64): the same on every machine, which `SmallRng` does not promise.
pub(crate) fn draw(state: &mut u64, below: u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (z ^ (z >> 31)) % below
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_maximum_lasts_its_window_of_rounds() {
        let mut max = RoundMax::new(10);
        max.update(1, 50);
        for round in 2..=11 {
            max.update(round, 20 + round);
            assert_eq!(max.max(), 50, "round {round}");
        }
        max.update(12, 5);
        assert_eq!(max.max(), 31);
    }

    /// Rates 1, 2, 4, 5, 5, 5, 5: the first 5 grew by a quarter, the third one after it fills the pipe (H, test 5).
    #[test]
    fn three_flat_rounds_fill_the_pipe() {
        let mut pipe = FullPipe::default();
        let seen: Vec<bool> = [1, 2, 4, 5, 5, 5, 5]
            .map(|rate| {
                pipe.on_round(rate * 1_000_000);
                pipe.reached()
            })
            .to_vec();
        assert_eq!(seen, [false, false, false, false, false, false, true]);
    }

    /// 10 Mbit/s, 40 ms, 1500 bytes: 33.3 segments, rounded up (Linux tcp_bbr.c, bbr_bdp).
    #[test]
    fn bandwidth_delay_product_rounds_up() {
        let rtt = Some(Span::from_millis(40));
        assert_eq!(bdp_segments(10_000_000, rtt, UNIT, 1500), 34);
        assert_eq!(bdp_segments(10_000_000, rtt, 2 * UNIT, 1500), 67);
        assert_eq!(bdp_segments(10_000_000, None, UNIT, 1500), 10);
        assert_eq!(pacing(10_000_000, UNIT, 1), Rate::from_bps(9_900_000));
    }

    #[test]
    fn bursts_follow_the_rate() {
        for (bps, segments) in [(1_199_999, 1), (1_200_000, 2), (10_000_000, 2), (100_000_000, 8), (10_000_000_000, 43)] {
            assert_eq!(burst_segments(Rate::from_bps(bps), 1500), segments, "{bps}");
        }
    }
}
