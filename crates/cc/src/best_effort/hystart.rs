//! When to leave slow start before a loss: HyStart (Linux `tcp_cubic.c`) and HyStart++ (RFC 9406).
//! Both look at RTT samples and rounds; neither touches the window.

use lowtide_units::{Span, Time};

use crate::events::Ack;
use crate::round::Round;

/// RTT samples a round needs (Linux HYSTART_MIN_SAMPLES, RFC 9406 N_RTT_SAMPLE).
const MIN_SAMPLES: u32 = 8;
/// The delay threshold is this part of the base, within 4 and 16 ms (both sources).
const DELAY_DIVISOR: u64 = 8;
const DELAY_MIN: Span = Span::from_millis(4);
const DELAY_MAX: Span = Span::from_millis(16);
/// Acknowledgements this close belong to one train (Linux `hystart_ack_delta_us`).
const ACK_SPACING: Span = Span::from_millis(2);
/// Linux `hystart_ack_delay`: at most this much for bursts of the pacer.
const PACED_ALLOWANCE: Span = Span::from_millis(1);
/// Linux: the largest GSO packet, four of which the allowance is worth.
const GSO_BYTES: f64 = 65_536.0;
/// Rounds in conservative slow start (RFC 9406 CSS_ROUNDS).
const CSS_ROUNDS: u32 = 5;

fn delay_threshold(base: Span) -> Span {
    (base / DELAY_DIVISOR).clamp(DELAY_MIN, DELAY_MAX)
}

/// HyStart: leaves slow start at once.
#[derive(Clone, Debug, Default)]
pub struct Hystart {
    /// The host paces: an acknowledgement train may be as long as the base RTT.
    paced: bool,
    round: Round,
    /// What SND.UNA has to pass for the round to end (Linux `end_seq`), and SND.NXT when last told, in bytes.
    round_end: u64,
    nxt: u64,
    round_start: Time,
    last_ack: Time,
    round_min: Option<Span>,
    samples: u32,
    found: bool,
}

impl Hystart {
    /// Of a host that paces or does not.
    pub fn new(paced: bool) -> Hystart {
        Hystart { paced, ..Hystart::default() }
    }

    /// Starts from scratch after a timeout.
    pub fn reset(&mut self, now: Time) {
        let Hystart { round, nxt, paced, .. } = *self;
        *self = Hystart { round, round_end: nxt, nxt, paced, round_start: now, last_ack: now, ..Hystart::default() };
    }

    /// Follows the rounds: for each acknowledgement with an RTT sample in slow start, from the first on. Linux 5.16 to 6.13 began only
    /// at `hystart_low_window`, within a flight, so that the pause after it broke the train (mended as a regression).
    pub fn track(&mut self, ack: &Ack) {
        if self.ended_by(ack) {
            (self.round_start, self.last_ack) = (ack.now, ack.now);
            (self.round_min, self.samples) = (None, 0);
        }
    }

    /// Linux's rounds are those of SND.UNA; where the host does not tell it, those of what is delivered.
    fn ended_by(&mut self, ack: &Ack) -> bool {
        if ack.nxt == 0 {
            return self.round.ended_by(ack);
        }
        self.nxt = ack.nxt;
        let ended = ack.una > self.round_end;
        if ended {
            self.round_end = ack.nxt;
        }
        ended
    }

    /// Whether slow start should end: after [`track`](Self::track), where the window is large enough.
    /// `base` is the smallest RTT; `rate` what the window is worth in bytes a second.
    pub fn leave(&mut self, now: Time, rtt: Span, base: Span, rate: f64) -> bool {
        if self.found {
            return false;
        }
        // Not short-circuited: each detector keeps its own state.
        self.found = self.train_too_long(now, base, rate) | self.delay_too_long(rtt, base);
        self.found
    }

    fn train_too_long(&mut self, now: Time, base: Span, rate: f64) -> bool {
        if now.since(self.last_ack) > ACK_SPACING {
            return false;
        }
        self.last_ack = now;
        // Linux `hystart_ack_delay`: what four GSO packets take at the pacing rate, which the host knows whether it paces or not.
        let allowance = PACED_ALLOWANCE.min(Span::from_secs_f64(4.0 * GSO_BYTES / (2.0 * rate).max(1.0)));
        let limit = if self.paced {
            base + allowance
        } else {
            // Without pacing a flight fills half a round trip at most.
            (base + allowance) / 2
        };
        now.since(self.round_start) > limit
    }

    fn delay_too_long(&mut self, rtt: Span, base: Span) -> bool {
        let sampled = self.samples >= MIN_SAMPLES;
        self.round_min = Some(self.round_min.map_or(rtt, |min| min.min(rtt)));
        if !sampled {
            self.samples += 1;
            return false;
        }
        self.round_min.is_some_and(|min| min > base + delay_threshold(base))
    }
}

/// What HyStart++ says about the current acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// Grow by what was acknowledged.
    Full,
    /// Conservative slow start: grow by a quarter of it (RFC 9406 CSS_GROWTH_DIVISOR).
    Quarter,
    /// Leave slow start: ssthresh = cwnd.
    Leave,
}

/// HyStart++: leaves slow start after five conservative rounds, or returns to it if the delay was a passing one.
#[derive(Clone, Debug, Default)]
pub struct HystartPp {
    round: Round,
    last_min: Option<Span>,
    min: Option<Span>,
    samples: u32,
    /// (the round minimum that triggered, rounds ended since) while in conservative slow start.
    conservative: Option<(Span, u32)>,
}

impl HystartPp {
    /// One acknowledgement in slow start.
    pub fn pace(&mut self, ack: &Ack) -> Pace {
        if self.round.ended_by(ack) {
            (self.last_min, self.min, self.samples) = (self.min, None, 0);
            if let Some((_, rounds)) = &mut self.conservative {
                *rounds += 1;
            }
        }
        if let Some(rtt) = ack.rtt {
            self.min = Some(self.min.map_or(rtt, |min| min.min(rtt)));
            self.samples += 1;
        }
        let min = self.min.filter(|_| self.samples >= MIN_SAMPLES);
        match (self.conservative, min, self.last_min) {
            (Some((_, rounds)), ..) if rounds >= CSS_ROUNDS => return Pace::Leave,
            (Some((baseline, _)), Some(min), _) if min < baseline => self.conservative = None,
            (None, Some(min), Some(last)) if min >= last + delay_threshold(last) => self.conservative = Some((min, 0)),
            _ => {}
        }
        if self.conservative.is_some() { Pace::Quarter } else { Pace::Full }
    }
}
