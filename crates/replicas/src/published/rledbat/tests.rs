//! The module's arithmetic by hand, case by case; each switch on and off. Scale 0 makes a unit one byte.

use lowtide_units::Time;
use proptest::prelude::*;

use super::*;

const MS: u64 = 1_000_000;

/// A module and the segments that come to it, each with an echo of its own unless said otherwise.
struct Flow {
    module: Published,
    tsval: u32,
    seq: u32,
    now: u64,
}

fn flow(scale: u8, params: &str) -> Flow {
    let params = Params::from_toml(params).expect("TOML");
    Flow { module: Published::build(&params, scale).expect("parameters"), tsval: 0, seq: 1, now: 10_000 * MS }
}

/// In congestion avoidance with `window` bytes, a base RTT of 60 ms, the queue read empty, and no slowdown before 100 s.
fn settled(window: u64, scale: u8, params: &str) -> Flow {
    let mut flow = flow(scale, params);
    flow.read(60);
    (flow.module.ssthresh, flow.module.first_slow_start, flow.module.slow_start_allowed) = (1, false, false);
    (flow.module.scheduled, flow.module.slowdown_at) = (true, 100_000 * MS);
    flow.hold(window);
    flow
}

impl Flow {
    fn acknowledge(&mut self) {
        self.tsval += 1;
        self.module.on_outgoing(&Outgoing { now: Time::from_nanos(self.now), ack: self.seq, field: u16::MAX, tsval: Some(self.tsval) });
    }

    fn arrive(&mut self, seq: u32, len: u32, tsval: u32, tsecr: u32) {
        let now = Time::from_nanos(self.now);
        self.module.on_segment(&Segment { now, seq, len, wire: len, timestamps: Some((tsval, tsecr)), ce: false });
    }

    /// The next segment, with the echo of an acknowledgement that left `rtt_ms` before it.
    fn read(&mut self, rtt_ms: u64) {
        self.now += MS;
        let arrival = self.now;
        self.now -= rtt_ms * MS;
        self.acknowledge();
        self.now = arrival;
        self.next(self.tsval);
    }

    /// The window is `bytes` and no fraction more.
    fn hold(&mut self, bytes: u64) {
        (self.module.window, self.module.grown, self.module.avoidance) = (bytes / self.module.unit, 0, 0);
    }

    /// The next segment, with that echo.
    fn next(&mut self, tsecr: u32) {
        self.arrive(self.seq, 1448, self.now as u32, tsecr);
        self.seq += 1448;
    }
}

#[test]
fn it_begins_with_one_segment_of_its_own_size() {
    for (scale, units, least) in [(0, 1448, 2896), (7, 12, 23), (11, 1, 2), (14, 1, 1)] {
        let mut module = flow(scale, "").module;
        let out = |field| Outgoing { now: Time::from_millis(1), ack: 1, field, tsval: Some(1) };
        assert_eq!((module.on_outgoing(&out(u16::MAX)), module.least), (units, least), "scale {scale}");
        assert_eq!((module.on_outgoing(&out(0)), module.on_outgoing(&out(1))), (0, 1), "never above the host's");
    }
}

#[test]
fn gain_divides_by_one_too_many_where_the_base_divides() {
    for (base_ms, published, off) in
        [(5, 16, 16), (7, 16, 16), (8, 16, 15), (40, 4, 3), (59, 3, 3), (60, 3, 2), (61, 2, 2), (119, 2, 2), (120, 1, 1), (300, 1, 1)]
    {
        for (params, divisor) in [("", published), ("ceiling_adds_one = false", off)] {
            let mut flow = flow(0, params);
            assert_eq!(flow.module.divisor(), 1, "before the first RTT");
            flow.read(base_ms);
            assert_eq!(flow.module.divisor(), divisor, "base {base_ms} ms, {params}");
            assert_eq!(flow.module.window, 1448 + 1448 / divisor, "slow start");
        }
    }
}

/// The filter holds ten packets: the empty queue of the first is forgotten at the eleventh. That one grows by all it carries.
#[test]
fn the_first_slow_start_ends_above_three_quarters_of_the_target() {
    let mut flow = flow(0, "");
    flow.read(60);
    for _ in 0..9 {
        flow.read(106);
    }
    assert_eq!((flow.module.window, flow.module.first_slow_start), (1448 + 10 * 482, true));
    flow.read(106);
    assert_eq!((flow.module.window, flow.module.ssthresh, flow.module.first_slow_start), (6268 + 1448, 6268, false));
    assert_eq!((flow.module.scheduled, flow.module.slowdown_at), (true, flow.now + 2 * 106 * MS));
    let mut below = self::flow(0, "");
    below.read(60);
    (0..30).for_each(|_| below.read(105));
    assert!(below.module.first_slow_start, "45 ms are not above");
}

/// 1448² / 3 for each segment; what is above the window makes bytes.
#[test]
fn congestion_avoidance_grows_by_gain_segments_a_window() {
    let mut flow = settled(10_000, 0, "");
    flow.read(60);
    assert_eq!((flow.module.window, flow.module.avoidance), (10_069, 698_901 - 69 * 10_000));
    flow.read(60);
    assert_eq!((flow.module.window, flow.module.avoidance), (10_139, 8_901 + 698_901 - 70 * 10_069));
    let mut coarse = settled(128 * 100, 7, "");
    coarse.read(60);
    coarse.read(60);
    assert_eq!((coarse.module.window, coarse.module.grown), (100, 109), "not yet a unit of 128");
    coarse.read(60);
    assert_eq!((coarse.module.window, coarse.module.grown), (101, 163 - 128));
}

/// max(GAIN − W (qd/T − 1), −W/2), W = 100 000, GAIN 1/3 of a byte or of a segment.
#[test]
fn a_decrease_is_one_step_with_gain_in_bytes() {
    for (rtt_ms, published, off) in
        [(121, -1666, -1184), (123, -4999, -4517), (150, -49_999, -49_517), (151, -50_000, -50_000), (400, -50_000, -50_000)]
    {
        for (params, change) in [("", published), ("gain_in_bytes = false", off)] {
            let flow = settled(100_000, 0, params);
            assert_eq!(flow.module.change((rtt_ms - 60) * MS), change, "RTT {rtt_ms} ms, {params}");
        }
    }
    assert_eq!(settled(10_000, 0, "gain_in_bytes = false").module.change(61 * MS), 316, "growth above the target, by eq. 4");
    assert_eq!(settled(10_000, 0, "").module.change(60 * MS + 1), 0);
}

/// A settled flow of 40 000 bytes whose filter has just come to read 63 ms: it owes 1999 bytes.
fn owing(params: &str) -> Flow {
    let mut flow = settled(40_000, 0, params);
    (0..9).for_each(|_| flow.read(123));
    flow.hold(40_000);
    flow.read(123);
    assert_eq!((flow.module.window, flow.module.reducing, flow.module.debt), (40_000, true, 1999));
    assert_eq!(flow.module.next_decrease, flow.now + 123 * MS);
    flow
}

#[test]
fn a_decrease_is_paid_by_the_bytes_that_follow() {
    let mut flow = owing("");
    let windows = [(); 2].map(|()| {
        assert!(flow.module.reducing);
        flow.next(flow.tsval);
        flow.module.window
    });
    assert_eq!((windows, flow.module.reducing), ([38_552, 38_001], false));
}

/// What was sent before the decrease is in the table no more: its echoes read as an empty queue, and the window grows until
/// what was sent after it has been echoed ten times.
#[test]
fn a_decrease_empties_the_table_and_the_window_grows_for_a_round_trip() {
    let regrown = |params: &str| {
        let mut flow = owing(params);
        (0..12).for_each(|_| flow.next(flow.tsval));
        let before = flow.module.window;
        (0..9).for_each(|_| flow.read(123));
        let after = flow.module.window;
        flow.read(123);
        assert_eq!(flow.module.window, after, "the tenth: above the target, and less than an RTT since the decrease");
        (before - 38_001, after - before)
    };
    // 1448² / 3 a segment, of 38 kB.
    assert_eq!(regrown(""), (183, 164));
    assert_eq!(regrown("forgets_on_decrease = false"), (0, 0), "the queue still reads 63 ms");
    assert_eq!(regrown("unknown_is_empty = false"), (0, 0), "what is not known is not read");
}

/// A segment of 1390 bytes is 10.86 units of 128: eleven are taken, and the right edge moves left by 18 bytes.
#[test]
fn what_a_segment_pays_is_rounded_up_to_units() {
    for (params, units) in [("", 11), ("pays_in_excess = false", 10)] {
        let mut flow = settled(128 * 500, 7, params);
        flow.module.reduce_to(450);
        flow.arrive(flow.seq, 1390, 0, 0);
        assert_eq!((flow.module.window, flow.module.debt), (500 - units, 6400 - 128 * units as i64), "{params}");
        (0..9).for_each(|n| flow.arrive(flow.seq + 1390 * (1 + n), 1390, 0, 0));
        assert!(flow.module.window <= 450 && !flow.module.reducing, "{params}: {}", flow.module.window);
    }
}

#[test]
fn a_retransmission_is_what_is_not_above_the_segment_before() {
    let seen = |params: &str, segments: &[(u32, u32)]| {
        let mut module = flow(7, params).module;
        segments.iter().map(|&(seq, tsval)| module.is_retransmission(seq, tsval)).collect::<Vec<_>>()
    };
    // 2 and 3 lost, sent again at 20; then 9 overtakes 8.
    let lost = [(1, 10), (4, 10), (5, 10), (2, 20), (3, 20), (6, 20), (9, 30), (8, 30)];
    assert_eq!(seen("", &lost), [false, false, false, true, false, false, false, true]);
    assert_eq!(seen("told_by_last_segment = false", &lost), [false, false, false, true, true, false, false, false]);
    let wrapped = [(u32::MAX - 99, 10), (4, 10)];
    assert_eq!((seen("", &wrapped), seen("told_by_last_segment = false", &wrapped)), (vec![false, true], vec![false, false]));
}

#[test]
fn a_loss_halves_and_a_second_one_on_the_way_down_is_not_seen() {
    let mut flow = settled(100_000, 0, "");
    flow.arrive(1, 1448, 0, flow.tsval);
    assert_eq!((flow.module.ssthresh, flow.module.debt, flow.module.window), (50_000, 50_000, 100_000));
    assert!(flow.module.slow_start_allowed && flow.module.delays.is_forgotten());
    flow.arrive(1, 1448, 0, flow.tsval);
    assert_eq!((flow.module.ssthresh, flow.module.window), (50_000, 98_552));
    flow.seq = 100_000;
    (0..34).for_each(|_| flow.next(flow.tsval));
    assert_eq!((flow.module.window, flow.module.reducing), (50_000, false));
}

#[test]
fn a_loss_while_a_decrease_is_paid_takes_the_window_to_its_floor() {
    let mut flow = owing("");
    flow.arrive(1, 1448, 0, flow.tsval);
    assert_eq!((flow.module.window, flow.module.ssthresh, flow.module.debt), (38_552, 19_276, 38_552 - 2896));
    (0..25).for_each(|_| flow.next(flow.tsval));
    assert_eq!((flow.module.window, flow.module.reducing), (2896, false));
    flow.next(flow.tsval);
    assert_eq!(flow.module.window, 2896 + 482, "and from there by slow start");
}

#[test]
fn below_the_floor_a_loss_leaves_the_window_for_good() {
    let mut flow = flow(7, "");
    flow.read(60);
    flow.arrive(1, 1448, 0, 0);
    let stuck = flow.module.window;
    assert!(stuck < 23 && flow.module.debt < 0);
    (0..1000).for_each(|_| flow.read(60));
    assert_eq!(flow.module.window, stuck);
}

/// Due: down to the floor by the bytes that follow, two of the last RTTs there, slow start back, the next after nine times that.
#[test]
fn a_slowdown_waits_for_two_of_the_last_rtts_once_it_is_down() {
    let mut flow = settled(20_000, 0, "");
    flow.module.slowdown_at = flow.now;
    flow.read(60);
    let began = flow.now;
    assert_eq!((flow.module.ssthresh, flow.module.debt, flow.module.scheduled), (20_000, 20_000 - 2896, false));
    (0..12).for_each(|_| flow.read(60));
    assert_eq!((flow.module.window, flow.module.reducing), (2896, false));
    flow.read(75);
    let until = flow.now + 150 * MS;
    while flow.now + MS < until {
        flow.read(61);
        assert_eq!(flow.module.window, 2896, "{}", flow.now);
    }
    (0..36).for_each(|_| flow.read(60));
    assert_eq!((flow.module.window, flow.module.scheduled), (2896 + 36 * 482, false));
    flow.read(60);
    assert_eq!((flow.module.scheduled, flow.module.slowdown_at), (true, flow.now + 9 * (flow.now - began)));
}

#[test]
fn the_enhanced_target_is_the_base_and_gain_keeps_its_own() {
    let mut flow = flow(0, "enhanced = true");
    assert_eq!(flow.module.target(), TARGET);
    flow.read(20);
    assert_eq!((flow.module.target(), flow.module.divisor()), (20 * MS, 7));
    flow.module.delays = Delays::default();
    flow.read(200);
    assert_eq!(flow.module.target(), TARGET);
}

#[test]
fn a_parameter_it_does_not_have_is_named() {
    let error = Published::build(&Params::from_toml("target_ms = 25").expect("TOML"), 7).expect_err("compiled in");
    assert!(error.to_string().contains("target_ms") && error.to_string().contains(PUBLISHED), "{error}");
}

proptest! {
    /// Whatever the RTTs and losses: in order, the right edge moves left only by what the module rounds, less than a unit a
    /// segment, and without that not at all. The window never closes, and once at its floor is never below.
    #[test]
    fn the_right_edge_moves_left_only_by_what_is_rounded(
        scale in 0u8..=11, excess in any::<bool>(),
        steps in prop::collection::vec((1u64..400, 1u32..=1448, 0u64..50, prop::bool::weighted(0.03)), 1..600),
    ) {
        let mut flow = flow(scale, &format!("pays_in_excess = {excess}"));
        let (mut edge, mut opened) = (0, false);
        let slack = if excess { flow.module.unit - 1 } else { 0 };
        for (rtt_ms, len, gap_ms, lost) in steps {
            flow.now += gap_ms * MS;
            let now = flow.now;
            flow.now -= rtt_ms * MS;
            flow.acknowledge();
            flow.now = now;
            if lost {
                flow.module.before = Some((u32::MAX, 0));
            }
            flow.arrive(flow.seq, len, 0, flow.tsval);
            flow.seq += len;
            let window = flow.module.window();
            let shown = u64::from(flow.seq) + window;
            prop_assert!(shown + slack >= edge, "{edge} to {shown}");
            edge = shown;
            opened |= flow.module.window >= flow.module.least;
            prop_assert!(window > 0 && (!opened || flow.module.window >= flow.module.least));
        }
    }
}
