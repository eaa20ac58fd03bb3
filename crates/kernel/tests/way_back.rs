//! bpf/way_back.h against its reference `cc::rledbat::WayBack`, sample by sample: queues on both ways, clocks that drift, are set or belong to
//! another flow, pauses. Then the sender: what its control is told while a download fills the way back.

use lowtide_cc::rledbat::{self, WayBack};
use lowtide_cc::{Span, Time};
use lowtide_kernel::native::{self, Sent, TxPath};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

const MS: u64 = 1_000_000;
const BOOTED: u64 = 1_000 * MS;

#[test]
fn ten_thousand_random_lives_agree_sample_by_sample() {
    let (mut left_out, mut whole, mut ours) = (0u64, 0u64, 0u64);
    for seed in 0..10_000 {
        let mut rng = SmallRng::seed_from_u64(seed);
        let (mut kernel, mut reference) = (native::WayBack::default(), WayBack::default());
        let base = rng.random_range(MS..200 * MS);
        let ppm = [0, 0, 100, -100, 5_000, -500_000][rng.random_range(0..6)];
        let (mut offset, other): (u32, u32) = (rng.random(), rng.random());
        let (mut now, mut there, mut back) = (BOOTED, 0u64, 0u64);
        let mut floor = SmallRng::seed_from_u64(!seed);
        let (mut at_the_floor, doubts) = (false, seed % 2 == 1);
        for _ in 0..400 {
            now += [MS / 2, 20 * MS, 3_000 * MS][rng.random_range(0..3)] * rng.random_range(1..8);
            match rng.random_range(0..200) {
                0..10 => there = rng.random_range(0..100 * MS),
                10..15 => there = 0,
                15..25 => back = rng.random_range(0..600 * MS),
                25..30 => back = 0,
                30 => offset = offset.wrapping_add_signed(rng.random_range(-300..300)),
                31 => offset = rng.random(),
                32 => now += rng.random_range(0..900_000 * MS),
                _ => there = (there + rng.random_range(0..3 * MS)).saturating_sub(rng.random_range(0..3 * MS)),
            }
            let left = now - base / 2 - there.min(now / 2);
            let ticks = (i128::from(left) * (1_000_000 + ppm) / 1_000_000 / i128::from(MS)) as u32;
            let tsval = ticks.wrapping_add(if rng.random_range(0..30) == 0 { other } else { offset });
            let (rtt, since) = (base + there + back, native::since(now, tsval));
            let (at, there) = (Time::from_nanos(now), rledbat::since(Time::from_nanos(now), tsval));
            assert_eq!(since, there.cast_unsigned(), "seed {seed}");
            // Of one flow in four the way there is not known: it has no timestamps.
            let known = rng.random_range(0..4) > 0;
            let queue = kernel.queue(now, rtt, if known { since } else { native::UNKNOWN });
            assert_eq!(queue, reference.queue(at, Span::from_nanos(rtt), known.then_some(there)).nanos(), "seed {seed}");
            assert!(queue < rtt);
            at_the_floor ^= floor.random_range(0..10) == 0;
            let of_others = kernel.of_others(now, at_the_floor, rtt, doubts);
            let theirs = reference.of_others(at, Span::from_nanos(queue), at_the_floor, Span::from_nanos(rtt), doubts);
            assert_eq!(of_others, theirs.nanos(), "seed {seed}");
            ours += u64::from(of_others < queue);
            left_out += u64::from(queue > 0);
            whole += u64::from(queue == 0);
        }
    }
    assert!(ours > 50_000, "{ours} of our own acknowledgements: that must be compared");
    assert!(left_out > 200_000 && whole > 200_000, "{left_out} with a queue on the way back, {whole} without: both must be compared");
}

/// An upload of ours over 20 Mbit/s and 20 ms; from the second second on a download fills the way back with 350 to 500 ms. Whether the sender tells
/// its control of the way there; the mean window of the last ten of sixty seconds, in segments.
fn upload_beside_a_download(tells: bool) -> f64 {
    const MSS: u64 = 1448;
    let mut path = TxPath::new(1, 0, true);
    let mut flow = path.join(BOOTED, MSS as u32);
    let (mut now, mut segments, mut rtt, mut back) = (BOOTED + 20 * MS, 2, 20 * MS, 0);
    let mut mean = (0.0, 0.0);
    while now < BOOTED + 60_000 * MS {
        let tsval = (((now - 10 * MS - back) / MS) as u32).wrapping_add(4_000_000_000);
        let there = if tells { rtt.wrapping_sub(native::since(now, tsval)) } else { native::UNKNOWN };
        let (acked, in_flight) = (segments * MSS, segments * MSS);
        path.on_ack(&mut flow, &Sent { now, rtt, there, acked, in_flight, limited: true, unacked: 1 << 20, ..Sent::default() });
        segments = u64::from(flow.window()) / MSS;
        let ms = (now - BOOTED) / MS;
        back = if ms < 2_000 { 0 } else { (350 + ms / 10 % 150) * MS };
        // What 20 Mbit/s does not carry meanwhile waits: 0.6 ms a frame.
        rtt = (20 * MS + back).max(segments * 6 * MS / 10);
        now += rtt;
        if ms > 50_000 {
            mean = (mean.0 + segments as f64, mean.1 + 1.0);
        }
    }
    mean.0 / mean.1
}

#[test]
fn a_download_that_fills_the_way_back_does_not_push_an_upload_to_its_floor() {
    let (round_trips, way_there) = (upload_beside_a_download(false), upload_beside_a_download(true));
    assert!(round_trips < 4.0, "by round trips it has {round_trips} segments");
    assert!(way_there > 25.0, "by the way there {way_there}; the line holds 33 in the round trip of 20 ms");
}
