//! bpf/sender.h, natively: one flow on it beside the reference in `cc`, event by event, and what the flows of a path must not do to each
//! other.

mod shared {
    pub mod cause;
    pub mod phase;
}

use lowtide_cc::scavenger::ledbat_pp::{Config, LedbatPp};
use lowtide_cc::{Ack, Cause, Congestion, Controller as _, Restart, Span, Start, Time};
use lowtide_kernel::Phase;
use lowtide_kernel::native::{self, Sent, Tx, TxPath, UNKNOWN};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use shared::{cause, phase};

const MS: u64 = 1_000_000;
/// Its number in control.h.
const LEDBAT_PP: u32 = 1;
/// The kernel's clock does not begin at zero.
const BOOTED: u64 = 1_000 * MS;

/// A flow alone, twice: sender.h, and the reference behind the same rules of rounds and of episodes, written anew here.
struct Pair {
    path: TxPath,
    flow: Tx,
    reference: LedbatPp,
    srtt: u64,
    round_end: u64,
    limited: bool,
    limited_before: bool,
    last_ack: u64,
    last_loss: u64,
    episode_open: bool,
}

impl Pair {
    fn new(mss: u32, enhanced: bool, target_ms: u32) -> Pair {
        let mut path = TxPath::new(LEDBAT_PP, u64::from(target_ms) * MS, enhanced);
        let flow = path.join(BOOTED, mss);
        let config = Config { enhanced, target_ms: f64::from(target_ms), least_target_ms: 1.0, ..Config::default() };
        let start = Start { mss, now: Time::from_nanos(BOOTED), ..Start::default() };
        Pair {
            path,
            flow,
            reference: LedbatPp::new(config, &start),
            srtt: 0,
            round_end: 0,
            limited: false,
            limited_before: false,
            last_ack: BOOTED,
            last_loss: 0,
            episode_open: false,
        }
    }

    fn ack(&mut self, ack: &Sent) {
        let avoiding = self.reference.snapshot().phase == "avoidance";
        self.path.on_ack(&mut self.flow, ack);
        let rtt = (ack.rtt != UNKNOWN).then_some(ack.rtt);
        if let Some(rtt) = rtt {
            self.srtt = if self.srtt == 0 { rtt } else { self.srtt - self.srtt / 8 + rtt / 8 };
        }
        let sent = ack.now.saturating_sub(rtt.unwrap_or(2 * self.srtt));
        if sent >= self.round_end {
            (self.round_end, self.limited_before, self.limited) = (ack.now, self.limited, false);
        }
        self.limited |= ack.limited;
        self.reference.on_ack(&Ack {
            now: Time::from_nanos(ack.now),
            acked: ack.acked,
            in_flight: ack.in_flight,
            rtt: rtt.map(Span::from_nanos),
            srtt: Span::from_nanos(self.srtt),
            delivered: ack.now,
            prior_delivered: sent,
            cwnd_limited: self.limited || (self.limited_before && avoiding),
            in_recovery: ack.in_recovery,
            ..Ack::default()
        });
        self.last_ack = ack.now;
    }

    fn congestion(&mut self, now: u64, cause: Cause, in_flight: u64) {
        self.path.on_congestion(&mut self.flow, now, cause::native(cause), in_flight);
        if now >= self.last_loss + self.srtt || cause == Cause::Timeout {
            (self.last_loss, self.episode_open) = (now, true);
            let srtt = Span::from_nanos(self.srtt);
            self.reference.on_congestion(&Congestion { now: Time::from_nanos(now), cause, lost: 0, in_flight, srtt });
        }
    }

    fn restart(&mut self, now: u64) {
        self.path.restart(&mut self.flow, now);
        let (idle, rto) = (now - self.last_ack, self.srtt + self.srtt.max(200 * MS));
        if self.srtt > 0 && idle > rto {
            self.reference.on_restart(&Restart { now: Time::from_nanos(now), idle: Span::from_nanos(idle), rto: Span::from_nanos(rto) });
            self.last_ack = now;
        }
    }

    fn undo(&mut self, now: u64) {
        self.path.on_undo(&mut self.flow, now);
        if std::mem::take(&mut self.episode_open) {
            self.reference.on_undo(Time::from_nanos(now));
        }
    }

    /// In bytes.
    fn difference(&self) -> f64 {
        (self.path.show().window() - self.reference.cwnd() as f64).abs()
    }
}

/// One random life. Returns the largest difference of the windows in segments, and whether the phases were ever different.
fn random_life(seed: u64, slowdowns: &mut u64) -> (f64, bool) {
    let mut rng = SmallRng::seed_from_u64(seed);
    let mss = rng.random_range(500..9000);
    let target_ms = if rng.random() { 60 } else { rng.random_range(5..60) };
    let mut pair = Pair::new(mss, rng.random(), target_ms);
    let mss = u64::from(mss);
    let base = rng.random_range(MS / 5..300 * MS);
    let (mut now, mut queue, mut recovery) = (BOOTED, 0u64, 0u32);
    let (mut worst, mut apart) = (0.0f64, false);
    for _ in 0..rng.random_range(50..500) {
        let window = pair.reference.cwnd();
        now += rng.random_range(1..base / 4);
        queue = match rng.random_range(0..40) {
            0 => 0,
            1 => rng.random_range(0..300 * MS),
            _ => (queue + rng.random_range(0..6 * MS)).saturating_sub(rng.random_range(0..6 * MS)),
        };
        let in_flight = if rng.random_range(0..6) == 0 { rng.random_range(0..2 * mss + 1) } else { window };
        pair.ack(&Sent {
            now,
            // Ragged: a window that meets ssthresh to the bit is a tie, which floating and fixed point break an ACK apart.
            acked: rng.random_range(mss / 2..8 * mss),
            in_flight,
            rtt: if rng.random_range(0..20) > 0 { base + queue } else { UNKNOWN },
            limited: rng.random_range(0..5) > 0,
            in_recovery: recovery > 0,
            unacked: rng.random_range(0..20),
            ..Sent::default()
        });
        recovery = recovery.saturating_sub(1);
        match rng.random_range(0..150) {
            0 => {
                pair.congestion(now, Cause::Loss, window);
                recovery = rng.random_range(0..10);
            }
            1 => pair.congestion(now, Cause::Ecn, window),
            2 => pair.congestion(now, Cause::Timeout, window),
            3 => {
                now += rng.random_range(0..900_000 * MS);
                pair.restart(now);
            }
            4 => pair.undo(now),
            _ => {}
        }
        worst = worst.max(pair.difference() / mss as f64);
        apart |= phase::name(pair.path.show().phase()) != pair.reference.snapshot().phase;
    }
    *slowdowns += pair.path.show().slowdowns;
    (worst, apart)
}

#[test]
fn a_flow_alone_does_what_the_reference_does_in_ten_thousand_random_lives() {
    let (mut worst, mut apart, mut slowdowns) = ((0.0f64, 0), 0, 0);
    for seed in 0..10_000 {
        let (difference, phases) = random_life(seed, &mut slowdowns);
        apart += u32::from(phases);
        if difference > worst.0 {
            worst = (difference, seed);
        }
    }
    assert!(slowdowns > 10_000, "{slowdowns}: they must be among what is compared");
    assert!(worst.0 < 1.0, "seed {}: {} segments", worst.1, worst.0);
    assert_eq!(apart, 0, "lives were in different phases");
}

/// iperf3's first connection says what is to come, gets an answer and is silent. The second one's freeze must not wait for it.
#[test]
fn what_a_silent_flow_had_acknowledged_does_not_hold_up_a_freeze() {
    const MSS: u64 = 1448;
    let (mut path, rtt) = (TxPath::new(LEDBAT_PP, 0, true), 200 * MS);
    let (mut silent, mut bulk) = (path.join(BOOTED, MSS as u32), path.join(BOOTED, MSS as u32));
    let ack = |now, segments, rtt| Sent { now, acked: segments * MSS, in_flight: segments * MSS, rtt, limited: true, ..Sent::default() };
    path.on_ack(&mut silent, &Sent { unacked: 0, ..ack(BOOTED, 2, rtt) });
    let mut now = BOOTED + 2_000 * MS;
    // Slow start, until a queue ends it; the first slowdown is due two RTTs later.
    while path.show().phase() != Phase::Freeze {
        now += 25 * MS;
        assert!(now < BOOTED + 5_000 * MS, "{:?}", path.show());
        let queue = if now < BOOTED + 2_250 * MS { 0 } else { 80 };
        let in_flight = u64::from(bulk.window());
        path.on_ack(&mut bulk, &Sent { in_flight, ..ack(now, 2, rtt + queue * MS) });
    }
    // One of the two segments that may be in flight is acknowledged each half RTT.
    for _ in 0..20 {
        now += rtt / 2;
        path.on_ack(&mut bulk, &Sent { in_flight: 2 * MSS, ..ack(now, 1, rtt) });
    }
    assert_ne!(path.show().phase(), Phase::Freeze, "ten RTTs after it began");
}

/// Six flows of one group over 20 Mbit/s and 20 ms, to peers that let the acknowledgement of a lone segment wait for 40 ms. Somebody
/// else's queue of 500 ms pushes them to their floor for ten seconds, then the line is theirs. The mean sum of their windows in the last
/// five seconds of that, and in the last ten after it, in segments.
fn pushed_and_let_go() -> (f64, f64) {
    const MSS: u64 = 1448;
    let mut path = TxPath::new(LEDBAT_PP, 0, true);
    let mut flows: Vec<_> = (0..6).map(|_| path.join(BOOTED, MSS as u32)).collect();
    // When each flow's flight is acknowledged, how much that is, and its RTT.
    let mut due: Vec<(u64, u64, u64)> = (0..6).map(|n| (BOOTED + (20 + n) * MS, 2, 20 * MS)).collect();
    let (mut pushed, mut alone) = ([0.0; 2], [0.0; 2]);
    loop {
        let (n, (now, segments, rtt)) = due.iter().copied().enumerate().min_by_key(|(_, due)| due.0).expect("six");
        let ms = (now - BOOTED) / MS;
        if ms > 50_000 {
            return (pushed[0] / pushed[1], alone[0] / alone[1]);
        }
        let (acked, in_flight) = (segments * MSS, segments * MSS);
        path.on_ack(&mut flows[n], &Sent { now, acked, in_flight, rtt, limited: true, unacked: 1 << 20, ..Sent::default() });
        let all: u64 = flows.iter().map(|flow| u64::from(flow.window()) / MSS).sum();
        let theirs = if (10_000..20_000).contains(&ms) { 500 * MS } else { 0 };
        let segments = u64::from(flows[n].window()) / MSS;
        // What 20 Mbit/s does not carry in 20 ms waits: 0.6 ms a frame.
        let rtt = 20 * MS + theirs + all.saturating_sub(33) * 6 * MS / 10 + if segments == 1 { 40 * MS } else { 0 };
        due[n] = (now + rtt, segments, rtt);
        match ms {
            15_000..20_000 => pushed = [pushed[0] + all as f64, pushed[1] + 1.0],
            40_000.. => alone = [alone[0] + all as f64, alone[1] + 1.0],
            _ => {}
        }
    }
}

#[test]
fn acknowledgements_that_wait_for_a_second_segment_do_not_hold_a_group_at_its_floor() {
    let (pushed, alone) = pushed_and_let_go();
    // While the turn passes from one flow to another, both may have two.
    assert!(pushed < 7.5, "one segment each, and one flow two: {pushed}");
    assert!(alone > 25.0, "the line holds 33: {alone}");
}

/// At 1 Mbit/s a full segment takes 12 ms to cross the line, and a request of 37 bytes less than one.
#[test]
fn a_small_segment_is_no_sample_for_full_ones() {
    let mut largest = 0;
    let full = |largest: &mut u32, size| native::is_full(largest, size);
    assert!(!full(&mut largest, 37), "nothing larger is known, yet a request is no data");
    assert!(full(&mut largest, 1448));
    assert!(!full(&mut largest, 1000), "a last segment, or a mean of one and a rest");
    assert!(full(&mut largest, 1448 * 3 / 4));
    assert!(full(&mut largest, 9000) && !full(&mut largest, 1448), "segments have grown");
}

/// A path of 10 ms there and 10 ms back with a queue each way, its peer's clock `ahead` ms before ours, ticking `rate` times a millisecond.
fn one_way(clock: &mut native::Clock, ahead: u32, rate: f64, at_ms: u32, there: u32, back: u32) -> u64 {
    let theirs = (f64::from(at_ms + 10 + there) * rate) as u32;
    clock.one_way(theirs.wrapping_add(ahead), at_ms, (20 + there + back) * 1000) / MS
}

#[test]
fn a_queue_on_the_way_back_is_no_part_of_the_one_way_delay_whatever_the_clocks_say() {
    for ahead in [0, 1_000_000, u32::MAX - 3_000, u32::MAX / 2] {
        let mut clock = native::Clock::default();
        let mut at = |ms, there, back| one_way(&mut clock, ahead, 1.0, ms, there, back);
        assert_eq!(at(10, 0, 50), 70, "the RTT until the clock is known");
        assert_eq!(at(500, 30, 0), 50);
        (1_000..5_000).step_by(10).for_each(|ms| assert!(at(ms, 0, 40) <= 60));
        assert_eq!([at(5_000, 0, 40), at(5_010, 25, 40), at(5_020, 25, 0)], [20, 45, 45], "{ahead}");
    }
}

/// RFC 7323 §4.1: a tick lasts from 1 ms to 1 s; a peer may also count microseconds.
#[test]
fn a_peer_whose_clock_counts_no_milliseconds_is_measured_by_the_rtt() {
    for rate in [0.001, 0.1, 0.25, 10.0, 1000.0] {
        let mut clock = native::Clock::default();
        for ms in (0..20_000).step_by(10) {
            assert_eq!(one_way(&mut clock, 77, rate, ms, ms % 300, 5), u64::from(25 + ms % 300), "{rate} at {ms} ms");
        }
    }
}

/// The kernel spaces what a flow sends by its pace, and what it has put off it does not send sooner when the pace rises: a flow of many that was
/// told to wait for its part of the floor would wait for minutes, and the group with it.
#[test]
fn no_flow_of_a_group_that_paces_is_silenced_for_longer_than_a_second() {
    const MSS: u64 = 1448;
    const LOWTIDE: u32 = 5;
    let mut path = TxPath::new(LOWTIDE, 0, false);
    let mut flows: Vec<Tx> = (0..20).map(|_| path.join(BOOTED, MSS as u32)).collect();
    let (mut now, rtt, mut yielded) = (BOOTED, 20 * MS, 0);
    for n in 0..40_000u64 {
        now += MS;
        let queue = if n > 2_000 && n < 20_000 { 400 } else { 1 };
        let flow = &mut flows[n as usize % 20];
        let in_flight = u64::from(flow.window());
        let ack =
            native::Paced { now, rtt: rtt + queue * MS, acked: 2 * MSS, in_flight, since: in_flight, unacked: 1, ..Default::default() };
        let pace = path.on_paced(flow, &ack);
        assert!(pace >= 2 * MSS, "event {n}: a pair in {} s", 2 * MSS / pace.max(1));
        if path.show().phase() == Phase::Yielding {
            yielded += 1;
            assert!(pace <= 20 * 2 * MSS, "event {n}: {pace} bytes/s at the floor");
        }
    }
    assert!(yielded > 1_000, "{yielded}: it must have yielded");
}

/// Twenty pairs at once, and none for a second, would be one look at the line and not twenty; and what is spaced out for a second, a probe waits for.
#[test]
fn flows_that_come_to_the_floor_together_send_their_pairs_one_after_another() {
    const MSS: u64 = 1448;
    const LOWTIDE: u32 = 5;
    let mut path = TxPath::new(LOWTIDE, 0, false);
    let mut flows: Vec<Tx> = (0..20).map(|_| path.join(BOOTED, MSS as u32)).collect();
    let (rtt, mut spaces) = (20 * MS, vec![0; 20]);
    for n in 0..6_000_u64 {
        let now = BOOTED + n * MS;
        let queue = if n > 2_000 { 40 } else { 1 };
        let which = n as usize % 20;
        let in_flight = u64::from(flows[which].window());
        let told =
            native::Paced { now, rtt: rtt + queue * MS, acked: 2 * MSS, in_flight, since: in_flight, unacked: 1, ..Default::default() };
        let pace = path.on_paced(&mut flows[which], &told);
        if path.show().phase() == Phase::Yielding {
            spaces[which] = 2 * MSS * 1_000 / pace;
            if spaces.iter().all(|&ms| ms > 0) {
                break;
            }
        }
    }
    spaces.sort_unstable();
    assert!(spaces[0] > 0, "it must have yielded: {spaces:?} ms");
    assert!(spaces.windows(2).all(|pair| pair[1] - pair[0] < spaces[19] / 5) && spaces[0] * 5 < spaces[19], "{spaces:?} ms");
}
