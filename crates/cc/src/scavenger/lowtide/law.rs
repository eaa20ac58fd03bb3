//! LAW, the own share of a small standing queue, and DRAIN, which shows everybody the empty line.

use super::arithmetic::{bytes_in, time_of};
use super::parts::Part;
use super::round_so_far::RoundSoFar;
use super::{Lowtide, State};
use crate::events::Ack;

/// A base that was not seen for this long is looked for.
const DRAIN_AFTER: u64 = 10_000_000;
/// Rounds with hardly any queue after which growth becomes faster.
const CALM_ROUNDS: u32 = 3;
/// Samples in a row that are above the alarm before the round's end.
const ALARM_SAMPLES: u64 = 6;

impl Lowtide {
    /// Enters LAW at a rate that was measured: its bandwidth-delay product and half of the own queue.
    pub(super) fn enter_law(&mut self, rate: u64) {
        let before = self.window;
        self.set_window(bytes_in(rate, self.signals.round_trip()) + self.signals.share_of_queue(rate) / 2);
        (self.calm, self.calm_step, self.signals.smooth_rate) = (0, 0, rate);
        let round_trip = (self.signals.round_trip() + self.signals.queue).max(time_of(before, rate));
        self.no_alarm_before = self.signals.now + 2 * round_trip + 20_000;
        if self.state == State::Probe && self.floor.met && self.has(Part::Relapse) {
            // Somebody was there a moment ago: a queue in the next thirty round trips is a relapse.
            self.floor.relapse_until = self.signals.now + (30 * self.signals.base).max(1_000_000);
        }
        self.state = State::Law;
    }

    /// Between rounds: somebody who comes with a burst is seen at once.
    pub(super) fn watch(&mut self, ack: &Ack) {
        let s = &self.signals;
        // 1.2 T2, because six samples in a row are weaker evidence than the minimum of a round.
        let bound = s.alarm + s.alarm / 5;
        if s.now <= self.no_alarm_before
            || s.queue_of_last(1) <= bound
            || s.bunches.many()
            || s.bunches.undecided(s.now)
            || self.rounds_are_trains()
            || !self.has(Part::QuickAlarm)
        {
            return;
        }
        let queue = s.queue_of_last(ALARM_SAMPLES);
        if queue > bound && s.round.longest_gap < queue / 2 {
            self.signals.queue = queue;
            if self.signals.spacing.grows_now() && self.may_follow(self.signals.rate_in_round()) {
                return self.enter_law(self.signals.rate_in_round());
            }
            self.raise_alarm(ack);
        }
    }

    /// Whether the spacing of our packets may be the line's: with less than a fourth of its rate others' come between all of them. Not a sender's,
    /// which is a pace, and which acknowledgements for two segments each show in steps that hosts' jitter blurs.
    fn may_follow(&self, rate: u64) -> bool {
        let s = &self.signals;
        s.receiver && self.has(Part::Follow) && time_of(s.mss, rate) <= 4 * s.serialisation
    }

    /// Yields at the rate delivered last.
    fn raise_alarm(&mut self, ack: &Ack) {
        let rate = self.signals.sample_rate();
        if rate > 0 {
            self.signals.rate = rate;
        }
        self.yield_line(ack, false);
    }

    /// Once a round.
    pub(super) fn on_round(&mut self, ack: &Ack) {
        let in_law = self.state == State::Law;
        let steady = in_law && self.window > 6 * self.signals.mss && self.has(Part::Jitter) && self.gaps_are_the_lines();
        let alone = in_law && self.window > 6 * self.signals.mss && self.has(Part::UnevenLine);
        let before = self.signals.queue_before();
        let seen = self.signals.end_round(ack, steady, alone);
        self.refine_queue();
        let paused = seen.longest_gap > (10_000 + self.usual_hole(&seen)).max(self.signals.queue / 2)
            && self.window > 8 * self.signals.mss
            && self.pauses < 2;
        self.pauses = if paused { self.pauses + 1 } else { 0 };
        self.end_unused_probe(ack);
        if !in_law || paused {
            return;
        }
        let s = &mut self.signals;
        s.smooth_rate = if s.smooth_rate == 0 { s.rate } else { (3 * s.smooth_rate + s.rate) / 4 };
        let may_yield = s.now > self.no_alarm_before;
        // CoDel holds the queue at 5 ms, below the alarm: there a mark is the sign, or a loss with more queue than we make.
        let managed = seen.marked || (seen.lost > 0 && s.queue * 2 > s.knee * 3);
        if managed {
            self.floor.refuse_to_listen(s.now);
        }
        if managed && may_yield && self.parts.has(Part::LossAlarm) {
            self.yield_line(ack, false);
        } else if may_yield && self.wants_to_validate(&seen) {
            self.validate(ack);
        } else if self.signals.queue > self.signals.alarm {
            if self.rounds_are_trains() && before <= self.signals.alarm {
                (self.calm, self.calm_step) = (0, 0);
                return;
            }
            if may_yield && self.signals.spacing.has_grown() && self.may_follow(self.signals.rate) {
                self.enter_law(self.signals.rate);
            } else if may_yield && !self.signals.bunches.undecided(self.signals.now) {
                self.raise_alarm(ack);
            } else {
                // Our own growth may have built it.
                self.set_window(bytes_in(self.signals.rate, self.signals.round_trip()));
            }
        } else {
            self.steer(ack, &seen);
        }
    }

    /// W += ½ (α min(1, (T/q)²) − W q / (base + q)): at the fixed point α bytes of the queue are ours, whatever the round trip.
    fn steer(&mut self, ack: &Ack, seen: &RoundSoFar) {
        let delivered = self.signals.total.saturating_sub(seen.total);
        if seen.lost * 25 > delivered {
            // More than 4 % is no random loss.
            self.set_window(self.window / 20 * 17);
        }
        let s = &self.signals;
        let share = s.share_of_queue(s.smooth_rate);
        // A window that is not used does not grow (RFC 9438 §5.8). What a receiver permits is bounded by what comes.
        let used = ack.cwnd_limited || s.receiver;
        let wanted = match s.queue {
            _ if !used => 0,
            queue if queue > s.knee => share * s.knee / queue * s.knee / queue,
            _ => share,
        };
        let held = self.window / 256 * ((s.queue << 8) / (s.round_trip() + s.queue));
        self.set_window((self.window + wanted / 2).saturating_sub(held / 2));
        if self.has(Part::CalmGrowth) {
            self.grow_when_calm(used, share);
        }
        if self.signals.now - self.signals.base_seen > DRAIN_AFTER && self.has(Part::Drain) {
            self.drain();
        }
    }

    /// The line has become faster, or somebody has left.
    fn grow_when_calm(&mut self, used: bool, share: u64) {
        let s = &self.signals;
        if !used || s.queue * 10 >= s.knee * 3 {
            (self.calm, self.calm_step) = (0, 0);
            return;
        }
        self.calm += 1;
        if self.calm < CALM_ROUNDS {
            return;
        }
        let near_full = s.rate * 4 > s.line_rate() * 3;
        let most = if near_full { share / 4 } else { self.window / 8 };
        self.calm_step = (self.calm_step * 3 / 2).max(share / 4).min(most);
        self.no_alarm_before = s.now + 3 * (s.round_trip() + s.queue) + 10_000;
        self.set_window(self.window + self.calm_step);
    }

    /// Takes more than the own queue away for a round trip. Others of our kind see the same minimum: their drains fall together.
    fn drain(&mut self) {
        self.floor.nobody_came();
        let s = &mut self.signals;
        s.drained = u64::MAX;
        self.saved = self.window;
        self.drain_until = s.now + (s.round_trip() + s.queue) * 13 / 10 + 4 * s.serialisation;
        let less = bytes_in(s.line_rate(), s.queue.max(500) * 3 / 2) + 2 * s.mss;
        self.state = State::Drain;
        self.set_window(self.window.saturating_sub(less).max(self.window / 10 * 3));
    }

    pub(super) fn in_drain(&mut self) {
        if self.signals.now < self.drain_until {
            return;
        }
        self.signals.settle_base();
        let share = self.signals.share_of_queue(self.signals.smooth_rate);
        self.no_alarm_before = self.signals.now + 4 * self.signals.round_trip() + 20_000;
        self.state = State::Law;
        self.set_window(self.saved.saturating_sub(share / 2));
    }
}
