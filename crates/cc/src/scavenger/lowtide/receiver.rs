//! What the form of a receive window adds: data comes in trains that no pace smooths, a lone loss may be all that tells of a rival, and the sender
//! may want less than it is granted.

use super::arithmetic::bytes_in;
use super::parts::Part;
use super::round_so_far::RoundSoFar;
use super::{Lowtide, State};
use crate::controller::Start;
use crate::events::Ack;

/// Samples of a round that its quantile is taken of, and those that are kept: the smallest quarter.
const SAMPLES: usize = 32;
const LEAST: usize = SAMPLES / 4;
/// A quarter of the samples may be this much above the least before that counts: what the host's own trains build.
const TRAIN: u64 = 1_200;
/// A loss sends to the floor again after this at first, and at most.
const VALIDATE_LEAST: u64 = 4_000_000;
const VALIDATE_MOST: u64 = 80_000_000;
/// Rounds in a row with more queue than ours at less than 0.6 of the line, after which the floor is asked.
const PRESSED: u32 = 8;
/// After a loss or a mark no jitter is learned for so long: a loss-based flow on a line of tens of Mbit/s is back at its maximum after 3 to 9 s
/// (RFC 9438 §4.2, K), and silences that its packets make are not the line's.
const QUIET: u64 = 10_000_000;
/// The usual hole is taken to be at most this long.
const HOLE_MOST: u64 = 100_000;

/// See the module. Times in µs.
#[derive(Debug)]
pub struct Receiving {
    /// The smallest first.
    least: [u64; LEAST],
    taken: usize,
    /// Samples that follow and are not taken.
    skip: u64,
    /// Silences of the round that are longer than the line's own.
    gaps: u32,
    last_arrival: u64,
    /// The usual longest silence of a round.
    hole: u64,
    /// Silences before this may be a rival's.
    quiet_from: u64,
    validate_from: u64,
    validate_every: u64,
    validating: bool,
    pressed: u32,
}

impl Receiving {
    /// Puts a sample among the smallest.
    fn keep(&mut self, mut sample: u64) {
        for least in &mut self.least {
            (*least, sample) = ((*least).min(sample), (*least).max(sample));
        }
    }
}

impl Lowtide {
    pub(super) fn become_receiver(&mut self, start: &Start) {
        self.signals.receiver = true;
        self.receiving = Some(Box::new(Receiving {
            least: [u64::MAX; LEAST],
            taken: 0,
            skip: 0,
            gaps: 0,
            last_arrival: start.now.nanos() / 1000,
            hole: 0,
            quiet_from: 0,
            validate_from: 0,
            validate_every: VALIDATE_LEAST,
            validating: false,
            pressed: 0,
        }));
    }

    /// Each segment, before the signals have seen it.
    pub(super) fn note_arrival(&mut self, ack: &Ack) {
        let Some(receiving) = &mut self.receiving else { return };
        let now = ack.now.nanos() / 1000;
        let gap = now.saturating_sub(receiving.last_arrival);
        receiving.last_arrival = now;
        if ack.lost > 0 || ack.ce > 0 {
            receiving.quiet_from = now + QUIET;
            self.signals.forget_jitter();
        }
        receiving.gaps += u32::from(gap > 1_000.max(6 * self.signals.serialisation));
        if let Some(rtt) = ack.rtt.filter(|_| self.state == State::Law && receiving.taken < SAMPLES) {
            if receiving.skip > 0 {
                receiving.skip -= 1;
                return;
            }
            // A window gives twenty-four samples.
            receiving.skip = (self.window / (24 * self.signals.mss)).saturating_sub(1);
            receiving.taken += 1;
            receiving.keep(rtt.nanos() / 1000);
        }
    }

    /// A window makes one hole a round trip by itself, and a rival makes others. A round at full rate without the line's own takes back what was
    /// learned beside somebody.
    pub(super) fn gaps_are_the_lines(&mut self) -> bool {
        let Some(receiving) = &mut self.receiving else { return true };
        let several = std::mem::take(&mut receiving.gaps) > 1;
        if !several && self.signals.rate * 4 > self.signals.line_rate() * 3 {
            self.signals.decay_jitter();
        }
        several && self.signals.now > receiving.quiet_from
    }

    /// The round's minimum alone is unfair: whose train follows the hole sees no queue. A quarter of the samples must see little.
    pub(super) fn refine_queue(&mut self) {
        let Some(receiving) = &mut self.receiving else { return };
        let (taken, least) = (std::mem::take(&mut receiving.taken), std::mem::replace(&mut receiving.least, [u64::MAX; LEAST]));
        receiving.skip = 0;
        if taken <= 3 {
            return;
        }
        let queue = least[(taken - 1) / 4].saturating_sub(self.signals.base);
        self.signals.queue += queue.saturating_sub(self.signals.queue + TRAIN);
    }

    /// Whether a round's samples are of one train, which wait alike: on a line that makes it wait for its channel one round says nothing of a
    /// queue that stands.
    pub(super) fn rounds_are_trains(&self) -> bool {
        self.receiving.is_some() && self.signals.in_trains() && self.has(Part::Trains)
    }

    /// What a silence may be longer for than on a sender's path.
    pub(super) fn usual_hole(&mut self, seen: &RoundSoFar) -> u64 {
        let Some(receiving) = &mut self.receiving else { return 0 };
        let before = receiving.hole;
        receiving.hole = (3 * before + seen.longest_gap.min(HOLE_MOST)) / 4;
        before + before / 2
    }

    /// Whether somebody may be there whose queue is no alarm. A late-comer beside one who fills a small buffer takes his queue for the path: only
    /// losses tell. One whom an AQM holds below our alarm pushes us back, round by round.
    pub(super) fn wants_to_validate(&mut self, seen: &RoundSoFar) -> bool {
        let s = &self.signals;
        let Some(receiving) = &mut self.receiving else { return false };
        let pressed = s.queue * 5 > s.knee * 6 && s.smooth_rate * 5 < s.line_rate() * 3;
        receiving.pressed = if pressed { receiving.pressed + 1 } else { 0 };
        (seen.lost > 0 || receiving.pressed >= PRESSED) && s.now > receiving.validate_from
    }

    /// The floor shows who is there.
    pub(super) fn validate(&mut self, ack: &Ack) {
        self.yield_line(ack, false);
        self.floor.level = self.floor.level.max(1);
        if let Some(receiving) = &mut self.receiving {
            receiving.validating = true;
        }
    }

    /// The floor is left; a friend is nobody.
    pub(super) fn validated(&mut self, friend: bool) {
        let Some(receiving) = &mut self.receiving else { return };
        if std::mem::take(&mut receiving.validating) {
            receiving.validate_every =
                if self.floor.met && !friend { VALIDATE_LEAST } else { (2 * receiving.validate_every).min(VALIDATE_MOST) };
            receiving.validate_from = self.signals.now + receiving.validate_every;
            self.floor.level = 0;
        }
    }

    /// A sender that does not use its permission would keep a window that says nothing: at most twice what arrives in a round trip. Not of the last
    /// one alone: BBR sends four segments for 200 ms each ten seconds (PROBE_RTT), and loses nothing by it.
    pub(super) fn keep_to_what_is_used(&mut self, ack: &Ack) {
        if self.receiving.is_none() || ack.cwnd_limited || self.signals.rate == 0 || matches!(self.state, State::Floor | State::Drain) {
            return;
        }
        let used = bytes_in(self.signals.rate.max(self.signals.smooth_rate), self.signals.round_trip() + self.signals.queue);
        self.window = self.window.min(2 * used + 4 * self.signals.mss);
    }

    /// Data again after a pause: what the line has now is not known.
    pub(super) fn after_a_pause(&mut self) {
        if self.receiving.is_some() && matches!(self.state, State::Law | State::Drain) {
            self.begin_probe();
        }
    }
}

#[cfg(test)]
mod tests {
    use lowtide_units::{Span, Time};

    use super::super::parts::Parts;
    use super::*;
    use crate::controller::Controller;

    /// A receiver whose segments come as told; times in µs.
    struct Line {
        cc: Lowtide,
        now: u64,
        drained: bool,
        limited: bool,
    }

    impl Line {
        /// In LAW on a path of 20 ms, so long after its start that a queue is an alarm.
        fn in_law() -> Line {
            let start = Start { now: Time::from_millis(1_000), mss: 1448, ..Start::default() };
            let mut line = Line { cc: Lowtide::new(&start, Parts::ALL), now: 1_000_000, drained: true, limited: true };
            line.cc.become_receiver(&start);
            (0..200).for_each(|_| line.segment(600, 20_000, 0));
            (0..300).for_each(|_| line.segment(600, 22_400, 0));
            assert_eq!(line.phase(), "law");
            line
        }

        /// The next one, `after` the last.
        fn segment(&mut self, after: u64, rtt: u64, lost: u64) {
            self.now += after;
            let ns = |us: u64| us * 1000;
            self.cc.on_ack(&Ack {
                now: Time::from_nanos(ns(self.now)),
                acked: 1448,
                lost,
                in_flight: 40 * 1448,
                rtt: Some(Span::from_micros(rtt)),
                srtt: Span::from_micros(rtt),
                delivered: ns(self.now),
                prior_delivered: ns(self.now - rtt),
                cwnd_limited: self.limited,
                drained: self.drained,
                ..Ack::default()
            });
        }

        fn phase(&self) -> &'static str {
            self.cc.snapshot().phase
        }

        /// Ten segments at once, and then none for a while, three times a round trip.
        fn in_bursts(&mut self, lost: u64) {
            self.segment(100, 22_400, lost);
            for n in 1..300 {
                self.segment(if n % 10 == 0 { 6_000 } else { 100 }, 22_400, 0);
            }
        }
    }

    #[test]
    fn bursts_are_the_lines_own_unless_something_was_lost_a_moment_ago() {
        let mut alone = Line::in_law();
        alone.in_bursts(0);
        assert!(alone.cc.signals.jitter() > 500, "{}", alone.cc.signals.jitter());
        alone.segment(100, 22_400, 1448);
        assert_eq!(alone.cc.signals.jitter(), 0, "it may have been somebody else's");
        let mut beside = Line::in_law();
        beside.in_bursts(1448);
        assert_eq!(beside.cc.signals.jitter(), 0);
    }

    /// What somebody's packets between our trains have taught would be kept for ever: the others see a foe in the queue that it allows.
    #[test]
    fn a_line_without_silences_takes_the_jitter_back() {
        let mut line = Line::in_law();
        line.in_bursts(0);
        let learned = line.cc.signals.jitter();
        (0..8_000).for_each(|_| line.segment(600, 22_400, 0));
        assert!(learned > 500 && line.cc.signals.jitter() < learned / 10, "{learned}, {}", line.cc.signals.jitter());
    }

    #[test]
    fn a_round_in_which_the_server_holds_back_takes_no_window() {
        let mut line = Line::in_law();
        let window = line.cc.cwnd();
        line.limited = false;
        (0..12).for_each(|_| line.segment(20_000, 22_400, 0));
        assert!(line.cc.cwnd() > window / 2, "{} of {window}", line.cc.cwnd());
        (0..60).for_each(|_| line.segment(20_000, 22_400, 0));
        assert!(line.cc.cwnd() < window / 2, "{} of {window}", line.cc.cwnd());
    }

    /// Segments of the window of before say what the line was like before.
    #[test]
    fn the_floor_hears_only_what_was_permitted_there() {
        let mut line = Line::in_law();
        (0..60).for_each(|_| line.segment(600, 40_000, 0));
        assert_eq!(line.phase(), "floor");
        line.drained = false;
        (0..60).for_each(|_| line.segment(600, 20_000, 0));
        assert_eq!(line.phase(), "floor");
        line.drained = true;
        (0..10).for_each(|_| line.segment(60_000, 20_000, 0));
        assert_ne!(line.phase(), "floor");
    }

    /// Trains of two segments, one each 10 ms, of which the `n`th waits `wait(n)` for its channel.
    fn trains(line: &mut Line, count: u64, wait: impl Fn(u64) -> u64) {
        for n in 0..count {
            line.segment(9_800, 20_000 + wait(n), 0);
            line.segment(200, 20_000 + wait(n), 0);
        }
    }

    /// A round lasts for three or four of these trains; eight in a row wait, and four only stand
    /// in a queue that is ours: one or two whole rounds see nothing but waits.
    #[test]
    fn of_trains_three_in_a_row_must_have_waited() {
        let mut line = Line::in_law();
        trains(&mut line, 20, |_| 1_500);
        trains(&mut line, 120, |n| if n % 12 < 8 { 13_000 } else { 1_500 });
        assert_eq!(line.phase(), "law", "in no three rounds in a row");
        trains(&mut line, 20, |_| 13_000);
        assert_eq!(line.phase(), "floor", "a queue that stands");
    }

    /// Calm growth needs three rounds in a row. Without it LAW adds half of its share, two segments, a round trip at most: 200 in these 4 s.
    #[test]
    fn a_round_of_waits_ends_a_row_of_calm_rounds() {
        let mut line = Line::in_law();
        trains(&mut line, 20, |_| 1_500);
        let window = line.cc.cwnd();
        trains(&mut line, 400, |n| if n % 12 < 8 { 13_000 } else { 0 });
        assert_eq!(line.phase(), "law");
        assert!(line.cc.cwnd() < window + 200 * 2 * 1448, "{} of {} segments", line.cc.cwnd() / 1448, window / 1448);
    }

    /// Sent to the floor by a queue, then lone segments of which every other waits.
    fn floor_where_some_wait(wait: u64) -> Line {
        let mut line = Line::in_law();
        // At half of its rate, lest the line be thought to have become slower.
        (0..100).for_each(|_| line.segment(1_200, 22_400, 0));
        (0..40).for_each(|_| line.segment(1_200, 40_000, 0));
        assert_eq!(line.phase(), "floor");
        for n in 0..60 {
            if line.phase() == "floor" {
                line.segment(60_000, 20_000 + if n % 2 == 0 { wait + 400 * (n % 8) } else { 0 }, 0);
            }
        }
        line
    }

    #[test]
    fn waits_for_a_channel_are_the_lines_jitter_and_end_the_visit() {
        let line = floor_where_some_wait(4_300);
        assert_eq!(line.phase(), "probe");
        assert!((1_000..4_000).contains(&line.cc.signals.jitter()), "{}", line.cc.signals.jitter());
    }

    /// Between a rival's packets a lone segment waits for any time.
    #[test]
    fn waits_of_any_length_are_somebodys() {
        let line = floor_where_some_wait(900);
        assert_eq!((line.phase(), line.cc.signals.jitter()), ("floor", 0));
    }

    /// Whether the floor is asked while a line of `apart` µs a segment slows down by a twentieth a round, and a queue grows.
    fn yields_while_it_slows_down(apart: impl Fn(u64, u64) -> u64) -> bool {
        let mut line = Line::in_law();
        let rounds = [(630, 4_000), (665, 7_000), (700, 10_000), (735, 10_000)];
        rounds.into_iter().flat_map(|round| (0..40).map(move |n| (round, n))).any(|((time, queue), n)| {
            line.segment(apart(time, n), 20_000 + queue, 0);
            line.phase() == "floor"
        })
    }

    #[test]
    fn a_line_that_becomes_slower_little_by_little_is_followed() {
        assert!(!yields_while_it_slows_down(|time, _| time));
    }

    /// Every fourth segment comes as soon after the one before as ever.
    #[test]
    fn a_queue_of_somebodys_is_left_though_our_rate_falls_little_by_little() {
        assert!(yields_while_it_slows_down(|time, n| if n % 4 == 0 { 600 } else { time + (time - 600) / 3 }));
    }

    /// A segment that follows the hole between two trains sees no queue, though one stands.
    #[test]
    fn the_empty_line_is_looked_for_though_some_segments_see_no_queue() {
        let mut line = Line::in_law();
        let drained = (0..20_000).any(|n| {
            line.segment(600, if n % 40 == 0 { 20_000 } else { 22_400 }, 0);
            line.phase() == "drain"
        });
        assert!(drained);
    }

    /// CoDel keeps a rival's queue at 5 ms, below our alarm of 7: a third of the line is then all that is left to us.
    #[test]
    fn who_is_pushed_back_below_the_alarm_asks_the_floor() {
        let mut line = Line::in_law();
        let yielded = (0..600).any(|_| {
            line.segment(1_800, 24_500, 0);
            line.phase() == "floor"
        });
        assert!(yielded);
    }
}
