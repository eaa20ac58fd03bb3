//! START and PROBE: growth by doubling until a queue appears or, in PROBE, most of the known rate is reached; then a measurement. Before it a
//! train of segments may show whether the line sends in bunches.

use super::arithmetic::{bytes_in, rate_of};
use super::parts::Part;
use super::{Lowtide, State};
use crate::events::Ack;

/// A queue that ends growth: 1.5 ms, three fifths of the least T.
const QUEUE_ENDS: u64 = 1_500;

/// A train that shows the line's bunches: its segments are as far apart, half a turn of 4 ms of another station, and a quarter of the line.
const TRAIN_APART: u64 = 2_000;
/// At most so many at once: 10 ms of a line of 35 Mbit/s.
const TRAIN_MOST: u64 = 30;
/// Its echo is listened to for so long: a window of `Bunches` at round trips of up to 90 ms, as two thirds of it longer ones have.
const LISTEN_FOR: u64 = 180_000;

/// How far a probe is.
#[derive(Clone, Copy, Debug, Default)]
pub struct Probe {
    step: Step,
    /// The step ends with what is sent after this many bytes were delivered.
    mark: u64,
    /// Delivered when the measurement began, and when that was.
    delivered: u64,
    since: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum Step {
    #[default]
    Growing,
    /// A queue has appeared: the window stays for a round trip, and the rate is measured.
    Judging,
    /// The cap is reached: a round trip passes until what was sent with it is acknowledged.
    Filling,
    /// Another one measures.
    Measuring,
    /// A train is under way.
    Calling,
    /// Its echo comes back.
    Listening,
}

impl Lowtide {
    pub(super) fn begin_probe(&mut self) {
        (self.state, self.probe) = (State::Probe, Probe::default());
        let empty = !self.floor.met && self.floor.level == 0 && self.has(Part::QuickProbe);
        // A receive window does not pace: its probes always begin small.
        self.set_window(if empty && self.receiving.is_none() { self.probe_cap() / 4 } else { 0 }.max(4 * self.signals.mss));
        self.signals.forget_rate();
    }

    /// START and PROBE, each acknowledgement.
    pub(super) fn grow(&mut self, ack: &Ack) {
        match self.probe.step {
            Step::Growing => self.double(ack),
            Step::Judging if self.measured_enough(ack) => {
                let rate = self.measured();
                self.signals.rate = rate;
                self.judge(ack, rate);
            }
            Step::Filling if ack.prior_delivered >= self.probe.mark => self.measure(Step::Measuring, ack),
            Step::Measuring if self.measured_enough(ack) => {
                let (rate, line) = (self.measured(), self.signals.line_rate());
                if rate > line / 100 * 79 {
                    // All that was sent came through: the line is what it was.
                    self.floor.nobody_was_here();
                    self.enter_law(line);
                } else {
                    self.signals.rate = rate;
                    self.judge(ack, rate);
                }
            }
            Step::Calling if ack.prior_delivered >= self.probe.mark => {
                self.signals.bunches.begin(self.signals.now);
                self.probe = Probe { step: Step::Listening, since: self.signals.now, ..Probe::default() };
            }
            Step::Listening if self.signals.now - self.probe.since > LISTEN_FOR => self.end_listening(ack),
            _ => {}
        }
    }

    /// Sends a train from the floor, whose pairs are too rare to show bunches.
    pub(super) fn begin_listening(&mut self, ack: &Ack) {
        self.begin_probe();
        let s = &self.signals;
        let segments = (s.srtt / TRAIN_APART.max(4 * s.serialisation)).clamp(4, TRAIN_MOST);
        self.set_window(segments * s.mss);
        self.measure(Step::Calling, ack);
    }

    /// On a line that sends in bunches their waits are nobody's queue, and a probe allows for them.
    fn end_listening(&mut self, ack: &Ack) {
        self.begin_probe();
        if !self.signals.bunches.conclude(self.signals.now) {
            self.floor.heard_nothing(self.signals.now);
            // Somebody made the samples come and go. The train may have cost him a reduction: what was seen before says nothing now.
            self.yield_line(ack, true);
        }
    }

    fn double(&mut self, ack: &Ack) {
        let s = &self.signals;
        let probing = self.state == State::Probe;
        let most = QUEUE_ENDS + 2 * s.jitter() + if probing { s.knee / 2 } else { 0 };
        // On a line that sends in bunches four samples are one of them.
        let queue = if s.receiver || s.bunches.many() || s.bunches.undecided(s.now) {
            s.queue_of_two_rounds()
        } else {
            s.queue_of_last(if self.window < 8 * s.mss { 2 } else { 4 })
        };
        // A server that is held back by its own control, not by our window, shows no queue of ours: its losses end growth, too.
        let lost = ack.lost > 0 && (queue > most / 2 || (s.receiver && !probing));
        let somebody = queue > most.max(s.serialisation * 6 / 5) || lost || (probing && ack.ce > 0);
        if somebody && probing {
            return self.measure(Step::Judging, ack);
        }
        if somebody {
            return self.end_start();
        }
        // A window that is not used does not grow.
        let acked = if ack.cwnd_limited { ack.acked } else { 0 };
        if !probing {
            let slow = s.receiver && self.window * s.serialisation > s.mss * s.round_trip() / 2;
            return self.set_window(self.window + if slow { acked / 4 } else { acked });
        }
        let cap = self.probe_cap();
        // Where somebody was met before, a small step builds a small queue: doubling would cost them two reductions.
        let careful =
            (self.floor.met || self.floor.level > 0 || self.receiving.is_some()) && self.window * 2 > cap && self.has(Part::CarefulProbe);
        self.set_window(self.window + if careful { acked / 4 } else { acked });
        if self.window >= cap {
            self.set_window(cap);
            self.measure(Step::Filling, ack);
        }
    }

    /// Once a round: the application or the peer's window, and not ours, is the limit, and no queue is seen. Such a probe says nothing of others.
    pub(super) fn end_unused_probe(&mut self, ack: &Ack) {
        let growing = self.state == State::Probe && self.probe.step == Step::Growing;
        if growing && !ack.cwnd_limited && self.receiving.is_none() && self.signals.rate > 0 {
            self.enter_law(self.signals.rate);
        }
    }

    /// 0.85 of the line: the rest shows whether somebody else has it.
    fn probe_cap(&self) -> u64 {
        (bytes_in(self.signals.line_rate(), self.signals.round_trip()) / 20 * 17).max(4 * self.signals.mss)
    }

    fn measure(&mut self, step: Step, ack: &Ack) {
        self.probe = Probe { step, mark: self.signals.mark(ack), delivered: self.signals.total, since: self.signals.now };
    }

    /// A round trip, and four of the line's usual silences.
    fn measured_enough(&self, ack: &Ack) -> bool {
        let waits = if self.signals.receiver { 0 } else { 8 * self.signals.jitter() };
        ack.prior_delivered >= self.probe.mark && self.signals.now - self.probe.since >= waits
    }

    fn measured(&self) -> u64 {
        rate_of(self.signals.total - self.probe.delivered, self.signals.now.saturating_sub(self.probe.since))
    }

    /// The first queue of a connection is taken for its own.
    fn end_start(&mut self) {
        let s = &mut self.signals;
        let queue = s.queue_of_last(1);
        let rate = s.sample_rate().max(s.rate).max(rate_of(self.window / 2, s.round_trip() + queue));
        s.queue = queue;
        s.raise_line_rate(rate);
        self.enter_law(rate);
    }

    /// With at least 0.6 of the line the queue was our own doing, or nobody's who would give way.
    fn judge(&mut self, ack: &Ack, rate: u64) {
        if rate >= self.signals.line_rate() / 10 * 6 {
            self.signals.queue = self.signals.queue_of_last(1);
            // A queue below the rate known before: somebody may be there, and an alarm soon is a relapse.
            self.floor.met = true;
            return self.enter_law(rate);
        }
        self.floor.left_at = rate;
        if self.line_is_slower(rate) {
            self.signals.lower_line_rate(rate);
            return self.enter_law(rate);
        }
        self.yield_line(ack, true);
    }
}
