//! What the control knows of its path: base RTT, queue, own rate, the line's rate, a packet's time on it, its jitter. Knows no window law.

use super::arithmetic::{RATE_MAX, TIME_MAX, WINDOW_MAX, bytes_in, rate_of, time_of};
use super::bunches::Bunches;
use super::round_so_far::RoundSoFar;
use super::spacing::Spacing;
use super::unevenness::Unevenness;
use crate::controller::Start;
use crate::events::{Ack, RateSample};

/// A round lasts at least this long, so that a queue's minimum is one of several samples.
const ROUND_LEAST: u64 = 4_000;
/// The line's rate is measured over at least this long: less would take the bursts of a scheduler for the rate.
const RATE_WINDOW: u64 = 100_000;
/// A rate that was not reached again is forgotten after one to two of these.
const RATE_BUCKET: u64 = 20_000_000;
/// Own queue at which a line is in full use, at least: 2.5 ms is what hosts' own jitter leaves visible.
const KNEE_LEAST: u64 = 2_500;
/// A lone packet's queue is free below this, besides its own time on the line and the jitter.
const FREE: u64 = 1_000;
/// A silence longer than this, besides four times the usual one, is a pause of the line (a scan of a radio, a handover).
const STALL: u64 = 25_000;
/// After a loss or a mark no unevenness is learned for so long, as no jitter is behind a receive window (`receiver::QUIET`).
const QUIET: u64 = 10_000_000;
/// The usual silence of a line that aggregates is taken to be at most this long.
const GAP_MOST: u64 = 30_000;
/// Pauses of a line are at least this far apart, and eight round trips.
const STALL_APART: u64 = 2_000_000;

/// See the module. Times in µs, rates in bytes a second.
#[derive(Debug)]
pub struct Signals {
    pub mss: u64,
    pub now: u64,
    pub srtt: u64,
    /// The least RTT; zero before the first sample.
    pub base: u64,
    /// A queue of others' on the way back, which the host has left out of the RTTs (docs/algorithms/way-back.md).
    pub behind: u64,
    /// When a sample was last near it.
    pub base_seen: u64,
    /// The least queueing delay of the last round.
    pub queue: u64,
    /// Delivered per second in the last round.
    pub rate: u64,
    /// The same, smoothed over four rounds; zero: not yet measured.
    pub smooth_rate: u64,
    /// The least RTT since it was last reset: what a drain found.
    pub drained: u64,
    /// Bytes that have arrived in all.
    pub total: u64,
    pub round: RoundSoFar,
    /// The least RTT of the round before.
    pub least_before: u64,
    /// The same of the round before that.
    pub least_long_before: u64,
    /// The form of a receive window: positions are of edges, and arrivals come in trains.
    pub receiver: bool,
    /// The time of a packet on the line, see `refresh`.
    pub serialisation: u64,
    /// T, the queue up to which our own law pushes.
    pub knee: u64,
    /// T2, the queue above which somebody else is there.
    pub alarm: u64,
    /// The usual longest silence of a round on a line that aggregates.
    gap: u64,
    /// The sender's way to tell such a line; a receiver gives it no sample.
    pub bunches: Bunches,
    uneven: Unevenness,
    pub spacing: Spacing,
    line: [u64; 2],
    bucket_since: u64,
    window_since: u64,
    window_delivered: u64,
    sample: RateSample,
    /// The two smallest times of a packet between acknowledgements.
    dispersion: [u64; 2],
    recent: [u64; 8],
    samples: u64,
    /// The least of the samples that make the next entry of `recent`, and how many they are.
    bin: (u64, u64),
    last_ack: u64,
    /// That one had waited on its way.
    waits: bool,
    stall_until: u64,
    /// The next silence from then on may be taken for a pause of the line.
    next_stall: u64,
}

impl Signals {
    pub fn new(start: &Start) -> Signals {
        let (mss, now) = (u64::from(start.mss).max(1), start.now.nanos() / 1000);
        let mut signals = Signals {
            mss,
            now,
            srtt: 100_000,
            base: 0,
            behind: 0,
            base_seen: now,
            queue: 0,
            rate: 0,
            smooth_rate: 0,
            drained: u64::MAX,
            total: 0,
            round: RoundSoFar::new(now, 0, 0),
            least_before: u64::MAX,
            least_long_before: u64::MAX,
            receiver: false,
            serialisation: 0,
            knee: 0,
            alarm: 0,
            gap: 0,
            bunches: Bunches::default(),
            uneven: Unevenness::default(),
            spacing: Spacing::default(),
            line: [0; 2],
            bucket_since: now,
            window_since: now,
            window_delivered: 0,
            sample: RateSample::default(),
            dispersion: [u64::MAX; 2],
            recent: [u64::MAX; 8],
            samples: 0,
            bin: (u64::MAX, 0),
            last_ack: now,
            waits: false,
            stall_until: 0,
            next_stall: 0,
        };
        signals.refresh();
        signals
    }

    /// μ: the most the line has delivered lately; a guess before that is known.
    pub fn line_rate(&self) -> u64 {
        match self.line[0].max(self.line[1]) {
            0 => self.sample_rate().max(self.rate).max(10 * self.mss),
            rate => rate,
        }
    }

    /// The newest delivery-rate sample.
    pub fn sample_rate(&self) -> u64 {
        if self.sample.delivered == 0 { 0 } else { rate_of(self.sample.delivered, self.sample.interval.nanos() / 1000) }
    }

    /// The line is slower than was believed.
    pub fn lower_line_rate(&mut self, rate: u64) {
        self.line = [rate; 2];
        self.refresh();
    }

    /// The line was seen to deliver this.
    pub fn raise_line_rate(&mut self, rate: u64) {
        if rate > self.line[1] {
            self.line[1] = rate;
            self.refresh();
        }
    }

    /// The jitter of the line: half its usual longest silence, or twice what its deliveries usually range over in a round.
    pub fn jitter(&self) -> u64 {
        (self.gap / 2).max(2 * self.uneven.usual())
    }

    /// The own queue aimed at, in bytes, at `rate`: max(3, 4 √(rate / 1667 packets/s)) packets, and what hides in the jitter.
    pub fn share_of_queue(&self, rate: u64) -> u64 {
        // In 1/256 packets: √(16 · 65536 · rate / 1667), 1667 packets/s being 20 Mbit/s.
        let packets = ((rate << 20) / (1667 * self.mss)).isqrt().max(3 << 8);
        packets * self.mss / 256 + bytes_in(rate, 2 * self.jitter())
    }

    /// What a round trip takes without a queue on the way there.
    pub fn round_trip(&self) -> u64 {
        self.base + self.behind
    }

    /// The least queue of the last `count` samples, at most eight; zero before there are as many.
    pub fn queue_of_last(&self, count: u64) -> u64 {
        if self.samples < count {
            return 0;
        }
        let least = (1..=count).map(|back| self.recent[(self.samples - back) as usize % 8]).min();
        least.unwrap_or(0).saturating_sub(self.base)
    }

    /// The queue up to which a lone pair of packets has met nobody.
    pub fn free(&self) -> u64 {
        self.least_queue() + 2 * self.jitter()
    }

    /// The same of a line without jitter.
    pub fn least_queue(&self) -> u64 {
        FREE + self.serialisation * 3 / 2
    }

    /// Starts the measurement of a probe afresh.
    pub fn forget_rate(&mut self) {
        (self.rate, self.samples, self.round.least_rtt) = (0, 0, u64::MAX);
        (self.least_before, self.least_long_before, self.bin) = (u64::MAX, u64::MAX, (u64::MAX, 0));
        self.sample = RateSample::default();
    }

    /// What every acknowledgement tells, whatever the state: times, gaps, losses.
    pub fn observe(&mut self, ack: &Ack, steady: bool) {
        // As if acknowledgements had not waited: those that come together after a wait (ACK compression) say nothing of the line.
        self.now = self.now.max((ack.now.nanos() / 1000).saturating_sub(ack.waited.nanos() / 1000));
        self.total = if self.receiver { self.total + ack.acked } else { ack.delivered };
        self.srtt = (ack.srtt.nanos() / 1000).clamp(100, TIME_MAX);
        self.behind = (ack.way_back.nanos() / 1000).min(TIME_MAX);
        let gap = self.now.saturating_sub(self.last_ack);
        self.last_ack = self.now;
        // How long one has waited is known to a tick of the peer's clock, which may be longer than a packet's time.
        let prompt = ack.waited.nanos() == 0 && !self.waits;
        self.waits = ack.waited.nanos() > 0;
        if gap > 0 && gap < TIME_MAX && ack.acked > 0 && prompt {
            self.take_dispersion(gap * self.mss / ack.acked);
            if self.receiver {
                self.spacing.take(gap * self.mss / ack.acked);
            }
        }
        // A window's trains leave a hole in each round trip.
        let hole = if self.receiver { self.round_trip() / 5 * 2 } else { 0 };
        if steady && gap > (STALL + 4 * self.gap).max(hole) && self.now >= self.next_stall {
            self.stall_until = self.mark(ack);
            // A burst of somebody else's, once a round trip, looks the same.
            self.next_stall = self.now + STALL_APART.max(8 * self.srtt);
        }
        self.round.longest_gap = self.round.longest_gap.max(gap.min(TIME_MAX));
        if !self.receiver {
            self.uneven.note((self.now - self.round.since).min(TIME_MAX), (self.total - self.round.total).min(WINDOW_MAX));
        }
        self.round.lost += ack.lost;
        self.round.marked |= ack.ce > 0;
        if let Some(sample) = ack.rate {
            self.sample = sample;
        }
        if self.line == [0; 2] {
            self.refresh();
        }
    }

    /// The RTT of an acknowledgement as the base; whether it counts as a sample of the queue, too, is the caller's to say.
    pub fn take_base(&mut self, rtt: u64) {
        let near = (self.serialisation / 2).clamp(100, 5_000) + self.jitter() / 2;
        if self.base == 0 || rtt < self.base {
            self.base = rtt;
            self.refresh();
        }
        // Whose train follows the hole sees no queue though one stands: behind a receive window only a drain tells.
        if rtt <= self.base + near && !self.receiver {
            self.base_seen = self.now;
        }
    }

    /// Whether packets of this acknowledgement were under way during a pause of the line.
    pub fn met_a_stall(&self, ack: &Ack) -> bool {
        ack.prior_delivered < self.stall_until
    }

    /// What is sent from now on has this in `prior_delivered`, or more.
    pub fn mark(&self, ack: &Ack) -> u64 {
        if self.receiver { ack.delivered } else { ack.delivered + ack.in_flight }
    }

    /// The least queue of this round and the one before; zero before there are samples.
    pub fn queue_of_two_rounds(&self) -> u64 {
        match self.round.least_rtt.min(self.least_before) {
            u64::MAX => 0,
            least => least.saturating_sub(self.base),
        }
    }

    /// Whether a packet alone takes less than 0.35 of its mean time: data comes in trains.
    pub fn in_trains(&self) -> bool {
        self.dispersion[1] < u64::MAX && self.dispersion[1] * 20 < time_of(self.mss, self.rate) * 7
    }

    /// The least queue of the two rounds before this one; huge before there were two.
    pub fn queue_before(&self) -> u64 {
        self.least_before.min(self.least_long_before).saturating_sub(self.base)
    }

    /// A sample of the queue; behind a receive window one is one of the last eight only as the least of a 32nd of `window`.
    pub fn take_rtt(&mut self, rtt: u64, window: u64) {
        self.round.least_rtt = self.round.least_rtt.min(rtt);
        self.drained = self.drained.min(rtt);
        self.bin = (self.bin.0.min(rtt), self.bin.1 + 1);
        if self.receiver && self.bin.1 * 32 * self.mss < window {
            return;
        }
        self.recent[self.samples as usize % 8] = self.bin.0;
        self.bin = (u64::MAX, 0);
        self.samples += 1;
    }

    /// Measures the line's rate while `law` runs, over windows of at least `RATE_WINDOW` and an RTT.
    pub fn measure_line(&mut self, law: bool) {
        let lasted = self.now.saturating_sub(self.window_since);
        if lasted < self.srtt.max(RATE_WINDOW) {
            return;
        }
        let rate = rate_of(self.total - self.window_delivered, lasted);
        (self.window_since, self.window_delivered) = (self.now, self.total);
        if !law {
            return;
        }
        self.line[1] = self.line[1].max(rate);
        if self.now - self.bucket_since > RATE_BUCKET {
            (self.line, self.bucket_since) = ([self.line[1], rate], self.now);
        }
        self.refresh();
    }

    /// Whether the round is over that began when `delivered` of it had arrived.
    pub fn round_over(&self, ack: &Ack) -> bool {
        ack.prior_delivered >= self.round.delivered
            && self.now.saturating_sub(self.round.since) >= self.base.max(ROUND_LEAST).max(4 * self.gap)
    }

    /// Ends the round and returns what it saw; `steady`: the law holds more than six packets, so that silences are the line's, and `law`, so that
    /// deliveries are.
    pub fn end_round(&mut self, ack: &Ack, steady: bool, law: bool) -> RoundSoFar {
        let seen = self.round;
        self.rate = self.rate_in_round();
        if seen.least_rtt < u64::MAX {
            self.queue = seen.least_rtt.saturating_sub(self.base);
        }
        if !self.receiver {
            self.learn_unevenness(law);
            self.learn_teeth();
        } else if steady {
            self.learn_jitter(seen.longest_gap);
        }
        (self.least_before, self.least_long_before) = (seen.least_rtt, self.least_before);
        self.spacing.end_round();
        self.round = RoundSoFar::new(self.now, ack.delivered, self.total);
        seen
    }

    /// Delivered per second since the round began.
    pub fn rate_in_round(&self) -> u64 {
        rate_of(self.total - self.round.total, self.now.saturating_sub(self.round.since))
    }

    /// After a drain that did not reach the base: the path may have become longer, by at most 0.2 ms a time, lest a standing queue of
    /// others' be taken for the path.
    pub fn settle_base(&mut self) {
        if self.drained < u64::MAX && self.drained > self.base {
            self.base += ((self.drained - self.base) / 8).min(200);
        }
        self.base_seen = self.now;
        self.refresh();
    }

    /// The segment size changed; times of a packet change with it.
    pub fn on_mss(&mut self, mss: u64) {
        for time in self.dispersion.iter_mut().filter(|time| **time < u64::MAX) {
            *time = (*time * mss / self.mss).clamp(1, TIME_MAX);
        }
        self.mss = mss;
        self.refresh();
    }

    /// The second smallest is kept: the smallest may be an accident of acknowledgements that were sent together.
    fn take_dispersion(&mut self, time: u64) {
        if time < self.dispersion[0] {
            self.dispersion = [time, self.dispersion[0]];
        } else if time < self.dispersion[1] {
            self.dispersion[1] = time;
        } else {
            return;
        }
        self.refresh();
    }

    /// Learns the silences of a line that aggregates: while we have the whole of it nobody else can have caused them.
    fn learn_jitter(&mut self, longest: u64) {
        let full = self.rate * 4 > self.line_rate() * 3;
        if !full || !self.in_trains() || longest >= GAP_MOST {
            return;
        }
        let excess = longest.saturating_sub(6 * self.serialisation.max(time_of(self.mss, self.rate)));
        self.gap = if excess > self.gap { self.gap + (excess - self.gap) / 4 } else { self.gap - (self.gap - excess) / 16 };
        self.refresh();
    }

    /// A round has had none of the line's silences.
    pub fn decay_jitter(&mut self) {
        if self.gap > 0 {
            self.gap -= self.gap.div_ceil(16);
            self.refresh();
        }
    }

    /// A sample of a sender that sends steadily.
    pub fn watch_bunches(&mut self, rtt: u64) {
        self.bunches.take(self.now, rtt, self.srtt, self.serialisation);
    }

    /// Learns the jitter of a line that sends in bunches from the delay's teeth.
    fn learn_teeth(&mut self) {
        let tooth = self.bunches.take_tooth();
        if !self.bunches.many() {
            self.gap -= self.gap / 16;
        } else if tooth > self.gap {
            self.gap = if self.gap == 0 { tooth } else { self.gap + (tooth - self.gap) / 4 };
        } else if tooth > 0 {
            self.gap -= (self.gap - tooth) / 16;
        }
        self.refresh();
    }

    /// Learns how unevenly the line delivers, from rounds that had three quarters of it: what others send would have taken more. It is no line of one
    /// rate, on which others come between our packets: there none of them takes less than a packet's time, a sixteenth of the mean.
    fn learn_unevenness(&mut self, law: bool) {
        let range = self.uneven.end_round(if law { self.smooth_rate } else { 0 });
        let (Some(range), true) = (range, law) else { return };
        let mean = time_of(self.mss, self.rate);
        let one_rate = self.dispersion[1] == u64::MAX || self.dispersion[1] * 16 >= mean;
        if one_rate {
            self.uneven.learn(self.now, 0);
        } else if self.rate * 4 > self.line_rate() * 3 {
            self.uneven.learn(self.now, range.saturating_sub(2 * mean));
        }
        self.refresh();
    }

    /// A loss or a mark: a radio line delivers late and does not drop, so that somebody fills a queue.
    pub fn forget_unevenness(&mut self) {
        self.uneven.forget(self.now + QUIET);
        self.refresh();
    }

    /// What packets usually wait for the line.
    pub fn expect_jitter(&mut self, wait: u64) {
        self.gap = self.gap.max(wait.min(GAP_MOST));
        self.refresh();
    }

    /// What looked like the line's silences may be somebody else's.
    pub fn forget_jitter(&mut self) {
        if self.gap > 0 {
            self.gap = 0;
            self.refresh();
        }
    }

    /// Computes what follows from base, line rate, dispersion and jitter.
    fn refresh(&mut self) {
        let of_mean = time_of(self.mss, self.line_rate().min(RATE_MAX));
        self.serialisation = if self.dispersion[1] < u64::MAX { self.dispersion[1].min(of_mean) } else { of_mean.min(2_000) };
        // A fiftieth of the base: the law's time constant is about 2 base² / queue, so long paths need more queue to converge.
        self.knee = KNEE_LEAST.max(self.base / 50).max(3 * self.serialisation) + 2 * self.jitter();
        self.alarm = 2 * self.knee + (2 * self.serialisation).max(2_000);
    }
}
