//! FLOOR: nearly silent. Pairs of packets show whether the line is free, busy, held by one of our kind, or slower than before.

use super::arithmetic::{bytes_in, rate_of, ratio, shuffle};
use super::parts::Part;
use super::{Lowtide, State};
use crate::events::Ack;

/// Samples that a first visit takes; relapses take 2, 4, 8 times as many.
const SAMPLES: u32 = 4;
/// Relapses beyond this change nothing.
const LEVELS: u32 = 8;
/// The shortest and the longest hold.
const HOLD_LEAST: u64 = 200_000;
const HOLD_MOST: u64 = 8_000_000;

/// Samples in a row that were even: nobody sends.
const EVEN: u32 = 6;

/// Pairs of a visit that have all been delayed alike, and not by the least time of this path: the line has become slower, or the path longer.
const ALIKE: u32 = 8;

/// A floor that is uneven, but where no queue is seen, is left after this long.
const DOUBT: u64 = 20_000_000;

/// After a train that met no bunches the next one waits so long, and then twice as long each time: what trains cost others goes down with
/// their number.
const LISTEN_AGAIN: u64 = 4_000_000;
const LISTEN_LATEST: u64 = 128_000_000;
/// Of 32 samples so many differ from the one before: a queue that others fill stands for several of them, while waits for a channel are
/// independent. With 1 to 5 other stations 31 · 2 p (1 − p) = 16 to 9 are expected, where p = n / (n + 1) of the samples have to wait.
const CHANGES: u32 = 8;

/// Who has waited for a channel has waited longer, whoever has not less: a lone segment between other packets waits for any time.
const WAITED: u64 = 500;

/// By how much pairs differ on an empty line before that has been seen: network cards hold interrupts back by up to 125 µs at either end
/// (Intel's drivers: at most 8000 a second), mostly less.
const NOISE: u64 = 200;
const NOISE_MOST: u64 = 5_000;

/// What the visit has found.
#[derive(Debug)]
pub struct Floor {
    /// Relapses in a row.
    pub level: u32,
    /// Somebody was met, the first sample aside: our own queue may still have been in its way.
    pub met: bool,
    /// A queue before this is a relapse.
    pub relapse_until: u64,
    /// The rate at which we left.
    pub left_at: u64,
    /// What was sent before this many bytes were delivered says nothing.
    mark: u64,
    hold_until: u64,
    /// A floor that is uneven but has no queue is left from then on.
    doubt_at: u64,
    /// The line is not listened to before, and after the next train in vain not for so long.
    listen_from: u64,
    listen_again: u64,
    /// The visit was left so.
    doubted: bool,
    /// The path's own noise makes the floor uneven.
    noisy: bool,
    /// By how much whole pairs differ that nobody delays.
    noise: u64,
    samples: u32,
    /// Samples that were whole pairs.
    pairs: u32,
    /// Acknowledged since nothing was under way: a pair is complete when nothing is again.
    arrived: u64,
    /// One bit a sample: there was a queue.
    busy: u32,
    /// The same for one that was not even.
    uneven: u32,
    /// The same for one that waited, but less than a queue that counts.
    between: u32,
    /// Whoever left the visit took the waits for the line's own, and nothing has confirmed it.
    trusted: bool,
    least: u64,
    most: u64,
    queues: [u64; 8],
    random: u64,
}

impl Floor {
    pub fn new(seed: u64) -> Floor {
        Floor {
            level: 0,
            met: false,
            relapse_until: 0,
            left_at: 0,
            mark: 0,
            hold_until: 0,
            doubt_at: 0,
            listen_from: 0,
            listen_again: LISTEN_AGAIN,
            doubted: false,
            noisy: false,
            noise: NOISE,
            samples: 0,
            pairs: 0,
            arrived: 0,
            busy: 0,
            uneven: 0,
            between: 0,
            trusted: false,
            least: u64::MAX,
            most: 0,
            queues: [0; 8],
            random: seed | 1,
        }
    }

    /// LAW has lasted until a drain. If the floor had been uneven all the same, that was the path's own noise.
    pub fn nobody_came(&mut self) {
        self.noisy |= self.doubted;
        self.listen_again = LISTEN_AGAIN;
        self.trusted = false;
    }

    /// The probe after this visit found all of the line, so that nobody has delayed these pairs; the first may have met our own queue. Of
    /// delays whose noise has the triangular distribution of two equal ones' sum the differences are 0.23 of its breadth in the mean.
    pub fn nobody_was_here(&mut self) {
        let count = (self.pairs as usize).saturating_sub(1).min(self.queues.len());
        let differences = self.queues[..count].windows(2).map(|pair| pair[0].abs_diff(pair[1]).min(NOISE_MOST));
        self.noise = (8 * self.noise + 4 * differences.sum::<u64>()) / (8 + count.saturating_sub(1) as u64);
    }

    /// Whether samples come and go as they do where a station waits for its channel, and nothing speaks against a train.
    fn may_listen(&self, now: u64) -> bool {
        let changes = (self.busy ^ (self.busy >> 1)) & (u32::MAX >> 1);
        self.samples >= 32 && now >= self.listen_from && changes.count_ones() >= CHANGES
    }

    /// A loss or a mark: a line that makes a station wait does neither, so that somebody fills a queue, and a train would cost him one.
    pub fn refuse_to_listen(&mut self, now: u64) {
        self.listen_from = self.listen_from.max(now + LISTEN_LATEST);
    }

    /// Whether of 32 samples each has either waited for long or not at all, as for a channel.
    fn waits_for_a_channel(&self) -> bool {
        self.between == 0
    }

    /// What the last samples waited, in the mean.
    fn usual_wait(&self) -> u64 {
        self.queues.iter().sum::<u64>() / self.queues.len() as u64
    }

    /// The line was listened to in vain.
    pub fn heard_nothing(&mut self, now: u64) {
        self.listen_from = self.listen_from.max(now + self.listen_again);
        self.listen_again = (2 * self.listen_again).min(LISTEN_LATEST);
    }

    /// Whether `ack` completes a pair. After a loss segments travel alone and wait less.
    fn completes_a_pair(&mut self, ack: &Ack, mss: u64) -> bool {
        let arrived = if ack.lost > 0 { 0 } else { self.arrived + ack.acked };
        let complete = ack.in_flight <= ack.acked + ack.lost;
        self.arrived = if complete { 0 } else { arrived };
        complete && arrived >= 2 * mss
    }

    fn take(&mut self, rtt: u64, queue: u64) {
        if self.pairs == 1 {
            // The first may have met our own queue.
            self.most = 0;
        }
        self.pairs = self.pairs.saturating_add(1);
        (self.least, self.most) = (self.least.min(rtt), self.most.max(rtt));
        self.queues.rotate_right(1);
        self.queues[0] = queue;
    }
}

fn least_and_most(queues: &[u64]) -> (u64, u64) {
    queues.iter().fold((u64::MAX, 0), |(least, most), &queue| (queue.min(least), queue.max(most)))
}

impl Lowtide {
    /// Leaves the line to others. `relapse`: a probe has just found them.
    pub(super) fn yield_line(&mut self, ack: &Ack, relapse: bool) {
        self.trust_no_more();
        let (s, floor) = (&self.signals, &mut self.floor);
        let again = (relapse || s.now < floor.relapse_until) && self.parts.has(Part::Relapse);
        floor.level = if again { (floor.level + 1).min(LEVELS) } else { 0 };
        floor.noisy &= !relapse;
        if self.state != State::Probe {
            floor.left_at = s.rate;
        }
        floor.random = shuffle(floor.random);
        (floor.met, floor.doubted, floor.samples) = (false, false, 0);
        (floor.busy, floor.uneven, floor.between) = (0, 0, 0);
        (floor.pairs, floor.arrived, floor.least, floor.most) = (0, 0, u64::MAX, 0);
        floor.mark = s.mark(ack);
        // Up to half more at random: two of ours that left together must not come back together.
        let hold = ((10 * s.base).max(HOLD_LEAST) << floor.level) / 1024 * (1024 + floor.random % 512);
        floor.hold_until = s.now + hold.min(HOLD_MOST.max(10 * s.base));
        floor.doubt_at = s.now + DOUBT.max(4 * hold);
        (self.state, self.calm) = (State::Floor, 0);
    }

    /// The window of FLOOR in bytes, below one segment: 1.2 % of the line, twice that while nobody is seen. The first samples of a first visit
    /// come as fast as they can. They are sent by time: pairs that the acknowledgements clock would fall into the same gaps of somebody
    /// else's bursts again and again.
    pub(super) fn floor_window(&self) -> u64 {
        let s = &self.signals;
        if s.receiver {
            // The own delayed acknowledgement (RFC 9293 §3.8.6.3) spaces lone segments.
            return s.mss;
        }
        let most = s.mss * 9 / 10;
        if self.floor.level == 0 && self.floor.samples < SAMPLES {
            return most;
        }
        let permille = if self.floor.uneven & 1 == 0 { 24 } else { 12 };
        (bytes_in(s.line_rate(), s.srtt) / 1000 * permille).clamp((s.mss / 100).min(most), most)
    }

    pub(super) fn in_floor(&mut self, ack: &Ack, rtt: u64) {
        let receiver = self.signals.receiver;
        if ack.prior_delivered < self.floor.mark + u64::from(receiver) || (receiver && !ack.drained) {
            return;
        }
        let queue = rtt - self.signals.base;
        let pair = self.signals.receiver || self.floor.completes_a_pair(ack, self.signals.mss);
        if pair {
            self.floor.take(rtt, queue);
        }
        let other_line = self.floor.samples >= 2 && self.line_is_slower(self.floor.left_at);
        let busy = queue > self.signals.free() && !other_line;
        let even = self.even();
        let floor = &mut self.floor;
        // On an empty line all pairs take the same time. One that waited for a packet in service tells of somebody who sends, even if no
        // queue stands, and behind a fair queue that is all that one sees of him.
        let uneven = busy || pair && even.is_some_and(|within| rtt > floor.least + within);
        floor.met |= uneven && floor.samples > 0;
        floor.busy = (floor.busy << 1) | u32::from(busy);
        floor.uneven = (floor.uneven << 1) | u32::from(uneven);
        floor.between = (floor.between << 1) | u32::from(queue > WAITED && queue <= self.signals.least_queue());
        floor.samples = floor.samples.saturating_add(1);
        self.leave_floor(ack);
    }

    /// How much even samples may differ; none where the path's noise hides a packet's time.
    fn even(&self) -> Option<u64> {
        let within = (self.signals.serialisation / 4).max(self.floor.noise) + 2 * self.signals.jitter();
        (within * 2 < self.signals.serialisation && !self.floor.noisy && self.has(Part::EvenFloor)).then_some(within)
    }

    fn leave_floor(&mut self, ack: &Ack) {
        let (s, floor) = (&self.signals, &self.floor);
        let precise = self.even().is_some();
        let wanted = if precise && floor.met { 32 } else { SAMPLES << floor.level.min(3) };
        let of_recent = |bits: u32| (bits & (u32::MAX >> (32 - wanted))).count_ones();
        let tolerated = if precise || s.jitter() > 1_000 { wanted / 4 } else { wanted / 8 };
        let friend = self.has(Part::Friend) && self.meets_a_friend();
        let first_visit = floor.level == 0 && floor.samples >= 3 && (!floor.met || friend);
        let nobody = precise && floor.samples > EVEN && floor.uneven.trailing_zeros() >= EVEN && self.has(Part::EarlyLeave);
        let enough = |samples| s.now >= floor.hold_until && floor.samples >= samples;
        let free = (enough(wanted) && of_recent(floor.uneven) <= tolerated) || (enough(SAMPLES << floor.level.min(3)) && friend);
        let doubt = enough(wanted) && s.now >= floor.doubt_at && of_recent(floor.busy) <= wanted / 8;
        if !(first_visit || nobody || free || doubt) {
            if !floor.may_listen(s.now) || !self.has(Part::Listen) {
                return;
            }
            if s.receiver {
                if floor.waits_for_a_channel() {
                    self.trust_the_waits();
                }
            } else {
                self.begin_listening(ack);
            }
            return;
        }
        self.validated(friend);
        if self.floor.met && friend {
            return self.join_a_friend();
        }
        self.floor.met &= !nobody;
        self.floor.doubted = doubt && !free;
        self.begin_probe();
    }

    /// Waits for a channel are nobody's queue: the usual one is the line's jitter until somebody is met. A receiver's way to listen, whose trains
    /// wait as one.
    fn trust_the_waits(&mut self) {
        self.signals.expect_jitter(self.floor.usual_wait());
        self.floor.trusted = true;
        self.validated(false);
        self.begin_probe();
    }

    /// Somebody was met before LAW had lasted until a drain: the waits were his.
    fn trust_no_more(&mut self) {
        if std::mem::take(&mut self.floor.trusted) {
            self.floor.heard_nothing(self.signals.now);
            self.signals.forget_jitter();
        }
    }

    /// One of our kind holds a small, steady queue: enter its law from two packets. A probe would drive both above the alarm.
    fn join_a_friend(&mut self) {
        self.signals.queue = self.floor.queues[0];
        let round_trip = self.signals.base + self.signals.queue;
        self.enter_law(rate_of(2 * self.signals.mss, round_trip));
        self.set_window(2 * self.signals.mss);
    }

    fn meets_a_friend(&self) -> bool {
        let (s, floor) = (&self.signals, &self.floor);
        let count = floor.pairs.min(SAMPLES << floor.level.min(1));
        if count < 3 {
            return false;
        }
        let queues = &floor.queues[..count as usize];
        let (least, most) = least_and_most(queues);
        // Between 0.6 T and 0.85 T2, and within 1.5 ms.
        least > s.knee * 3 / 5 + s.serialisation && most < s.alarm * 17 / 20 && most - least < 1_500 + 2 * s.jitter() + s.serialisation
    }

    /// Whether `rate` is all that the line has now. With r = μ / rate, a slow line delays both packets of a pair, together by
    /// (2r − 1) packets' times, a fair queue that serves somebody else in turn only by r. Where the jitter hides the difference a slow line is
    /// assumed.
    pub(super) fn line_is_slower(&self, rate: u64) -> bool {
        let (s, floor) = (&self.signals, &self.floor);
        let r = ratio(s.line_rate(), rate).min(1 << 20);
        if !self.has(Part::SlowerLine) {
            return false;
        }
        if r < 269 || s.jitter() * 1024 > (r - 256) * s.serialisation {
            return true;
        }
        if floor.pairs < 3 {
            return false;
        }
        if floor.pairs > ALIKE && self.even().is_some_and(|within| floor.most - floor.least <= within) {
            // A packet of somebody else's in service would have delayed one of them more than another.
            return true;
        }
        let delay = floor.least.saturating_sub(s.base) << 8;
        let spread = (floor.most - floor.least) << 8;
        if s.receiver {
            // A lone segment: r − 1 packets' times on a slow line.
            return delay + 333 * s.serialisation > r * s.serialisation
                && delay + 128 * s.serialisation < r * s.serialisation
                && spread < 38 * s.serialisation;
        }
        // Between 1.5 r − 0.7 and 2 r − 0.3 packets' times, and within 0.3.
        delay > (r * 3 / 2 - 179) * s.serialisation && delay < (2 * r - 77) * s.serialisation && spread < 77 * s.serialisation
    }
}
