//! How much of a round trip is a queue on the way back, that of the acknowledgements, by the clock in the peer's timestamps: that queue is not
//! the one that a window makes or empties. Ours, for RFC 9840 and LEDBAT++ measure round trips. The reference of crates/kernel/bpf/way_back.h;
//! docs/algorithms/way-back.md says why each rule is there. Knows no segment and no control.

use lowtide_units::{Span, Time};

/// A tick of the clock in the timestamps; twin of WAY_BACK_TICK_NS.
const TICK: i64 = 1_000_000;
/// What a clock that is 100 ppm fast or slow is off after a minute and 20 s, and a tick, ns; twin of WAY_BACK_DRIFT_NS.
const DRIFT: i64 = 9 * TICK;
/// By how much the base may fall in a minute once the clock has settled, 0.1 %, before all begins anew; twin of WAY_BACK_FALL_NS. Other clocks
/// are 10 % off and more.
const FALL: i64 = 60 * TICK;
/// From the beginning; until then it may fall by no more than `DRIFT`; twin of WAY_BACK_SETTLED_NS.
const SETTLED: Span = Span::from_secs(2);
/// What the ticks of both ends make of a way without a queue.
const EMPTY: i64 = 2 * TICK;
/// Twin of WAY_BACK_MINUTE_NS.
const MINUTE: Span = Span::from_secs(60);
/// Minutes in which the way there was never empty before all begins anew, as long as a base delay lives (RFC 6817 §3.4.2); twin of
/// WAY_BACK_MINUTES.
const MINUTES: i64 = 10;
/// So long nothing but another clock is heard before it is taken, and so many samples of it in a row without queues; twins of
/// WAY_BACK_STRANGE_NS and WAY_BACK_STRANGE.
const STRANGE: Span = Span::from_secs(10);
const STRANGE_SAMPLES: u32 = 16;
/// So long a floor is looked at; twin of WAY_BACK_STOOD_RTTS.
const STOOD_RTTS: u64 = 8;

/// How much later, in ns, the peer's TSval has arrived `now` than it was written. Its zero is the difference of the clocks.
pub fn since(now: Time, tsval: u32) -> i64 {
    let ms = now.nanos() / 1_000_000;
    i64::from((ms as u32).wrapping_sub(tsval) as i32) * TICK + (now.nanos() % 1_000_000) as i64
}

/// What is known of the two ways of a path; delays in ns.
#[derive(Clone, Copy, Debug)]
struct Base {
    rtt: i64,
    /// Its zero is the difference of the clocks.
    there: i64,
}

/// The filter of one path.
#[derive(Clone, Debug, Default)]
pub struct WayBack {
    base: Option<Base>,
    heard: Time,
    minute_end: Time,
    /// When a clock that has stayed since the beginning has settled.
    settled: Time,
    /// By how much the base of the way there is lower than when this minute began; what round trips have raised it by counts against its falls.
    fell: i64,
    /// The least of this minute above the base: of the way there, and of the way back.
    least: Option<(i64, i64)>,
    /// Minutes in which the way there was never empty, since both ways were.
    stale: i64,
    /// Samples in a row that another clock tells, of round trips without queues.
    strange: u32,
    /// The queue on the way back, smoothed.
    mean: Span,
    /// While the window is at its floor.
    stood: Option<Stood>,
    /// The queue on the way back was that of this flow's own acknowledgements.
    ours: bool,
}

/// A time at the floor.
#[derive(Clone, Copy, Debug)]
struct Stood {
    /// A floor that lasts longer is looked at again.
    until: Time,
    /// The queue on the way back when it began.
    before: Span,
    /// And the least since.
    least: Span,
}

impl WayBack {
    /// A round trip of `rtt` whose way there took `there` ns, if that is known: so much of it is a queue on the way back, never more than the
    /// round trip is above the least.
    pub fn queue(&mut self, now: Time, rtt: Span, there: Option<i64>) -> Span {
        self.end_minute(now);
        let Some(there) = there else { return Span::ZERO };
        let rtt = rtt.nanos() as i64;
        if let Some(base) = &mut self.base {
            let later = there - base.there;
            if !(-FALL..=rtt + 1000 * TICK).contains(&later) {
                // Another flow's clock; or ours was set, or began with a queue on the way there: the next round trips without queues tell.
                self.strange += u32::from(rtt <= base.rtt + TICK);
                if now < self.heard + STRANGE && self.strange < STRANGE_SAMPLES {
                    return Span::ZERO;
                }
                self.base = None;
            } else if later < 0 {
                self.fell -= later;
                base.there = there;
            }
        }
        (self.heard, self.strange) = (now, 0);
        if self.fell > if now > self.settled { FALL } else { DRIFT } {
            self.base = None;
        }
        if self.base.is_none() {
            self.stale = 0;
            self.settled = now + SETTLED;
            self.begin_minute(now);
        }
        let base = self.base.get_or_insert(Base { rtt, there });
        base.rtt = base.rtt.min(rtt);
        let above = rtt - base.rtt;
        if above <= TICK {
            self.stale = 0;
        }
        // No more than the round trip: what is above that is a slow clock.
        let later = there - base.there;
        let ahead = later.min(above + TICK);
        // Hosts' jitter makes both ways now and then shorter than they are together at the least, and so does a queue that stood on the way back
        // from the beginning and is now shorter, beside one on the way there: then the base goes up and down. No clock did that.
        self.fell -= later - ahead;
        base.there = there - ahead;
        let back = (above - ahead).max(0);
        let least = self.least.get_or_insert((ahead, back));
        *least = (least.0.min(ahead), least.1.min(back));
        Span::from_nanos((back - TICK - self.stale * DRIFT).max(0) as u64)
    }

    /// Of such a queue what others made; `at_the_floor`: with the window that this path has now its acknowledgements make none. A queue that goes
    /// when the flow stands back was that of its own acknowledgements, on a way back too narrow for them: that counts. `doubts`:
    /// `Controller::yields_to_others_only`; each queue counts until a floor has shown that it stays.
    pub fn of_others(&mut self, now: Time, queue: Span, at_the_floor: bool, srtt: Span, doubts: bool) -> Span {
        self.mean = self.mean - self.mean / 8 + queue / 8;
        self.ours |= doubts && self.mean.nanos() as i64 <= DRIFT;
        if at_the_floor {
            let stood = self.stood.get_or_insert(Stood { until: now + srtt * STOOD_RTTS, before: self.mean, least: queue });
            stood.least = stood.least.min(queue);
        }
        if let Some(stood) = self.stood.filter(|stood| !at_the_floor || now > stood.until) {
            if stood.before.nanos() as i64 > DRIFT {
                self.ours = stood.least < stood.before / 4;
            }
            self.stood = None;
        }
        if self.ours { Span::ZERO } else { queue }
    }

    /// Whether there is a least of both ways to compare with.
    pub fn knows_the_clock(&self) -> bool {
        self.base.is_some()
    }

    fn begin_minute(&mut self, now: Time) {
        (self.minute_end, self.fell, self.least) = (now + MINUTE, 0, None);
    }

    fn end_minute(&mut self, now: Time) {
        if now < self.minute_end {
            return;
        }
        match (self.least, &mut self.base) {
            (Some((..=EMPTY, _)), _) => {}
            // Nearly empty, and a queue stood on the way back all the time so that round trips told of nothing: a slow clock's drift.
            (Some((there @ ..=DRIFT, back)), Some(base)) if back > DRIFT && self.stale == 0 => base.there += there,
            // It is open whether a fast clock has hidden a part of the queue there.
            _ => self.stale += 1,
        }
        if self.stale >= MINUTES {
            self.base = None;
        }
        self.begin_minute(now);
    }
}
