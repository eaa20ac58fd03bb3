//! bpf/way_back.h against its reference `cc::rledbat::WayBack`, sample by sample: queues on both ways, clocks that drift, are set or belong to
//! another flow, pauses. Then the sender: what its control is told while a download fills the way back.

use lowtide_cc::rledbat::{self, WayBack};
use lowtide_cc::{Ack, Params, RateSample, Span, Start, Time, registry};
use lowtide_kernel::native::{self, Paced, Sent, TxPath};
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

/// bpf/lowtide.h, which paces: the sender beside the reference's filter and control, window and pace at each acknowledgement.
#[test]
fn a_sender_that_paces_tells_its_control_what_the_reference_does() {
    const LOWTIDE: u32 = 5;
    let (mut left_out, mut whole) = (0, 0);
    for seed in 0..1_000 {
        let mut rng = SmallRng::seed_from_u64(seed);
        let mss = 1448u64;
        let mut path = TxPath::new(LOWTIDE, 0, false);
        let mut flow = path.join(BOOTED, mss as u32);
        let start = Start { mss: mss as u32, now: Time::from_nanos(BOOTED), seed: BOOTED, ..Start::default() };
        let mut control = registry::by_name("lowtide").expect("it has one").build(&Params::default(), &start).expect("it builds");
        let (mut filter, mut behind, mut srtt) = (WayBack::default(), Span::ZERO, Span::ZERO);
        let (base, offset): (u64, u32) = (rng.random_range(4 * MS..200 * MS), rng.random());
        let (mut now, mut back, mut delivered) = (BOOTED, 0u64, 0u64);
        for n in 0..1_500 {
            now += base / 8 + rng.random_range(0..MS);
            match rng.random_range(0..1000) {
                0 => back = 0,
                1..5 => back = rng.random_range(0..500 * MS),
                _ => back = (back + rng.random_range(0..3 * MS)).saturating_sub(rng.random_range(0..3 * MS)),
            }
            let ahead = if rng.random_range(0..40) == 0 { rng.random_range(0..60 * MS) } else { 0 };
            let tsval = (((now - base / 2 - back.min(now / 2)) / MS) as u32).wrapping_add(offset);
            let rtt = Span::from_nanos(base + ahead + back);
            let there = rtt.nanos() as i64 - rledbat::since(Time::from_nanos(now), tsval);
            let (acked, in_flight) = (2 * mss, control.cwnd());
            let since = in_flight.min(delivered);
            delivered += acked;
            let sample = RateSample { delivered: acked, interval: Span::from_nanos(base / 8), ..RateSample::default() };

            srtt = if srtt == Span::ZERO { rtt } else { srtt - srtt / 8 + rtt / 8 };
            let at_the_floor = control.cwnd() <= 8 * mss;
            let waited = filter.queue(Time::from_nanos(now), rtt, Some(there));
            let queue = filter.of_others(Time::from_nanos(now), waited, at_the_floor, srtt, true);
            behind = behind - behind / 8 + queue / 8;
            left_out += u64::from(queue > Span::ZERO);
            whole += u64::from(queue == Span::ZERO);
            control.on_ack(&Ack {
                now: Time::from_nanos(now),
                acked,
                in_flight,
                rtt: Some(rtt - queue),
                srtt,
                way_back: behind,
                waited,
                delivered,
                prior_delivered: delivered - since.min(delivered),
                rate: Some(sample),
                cwnd_limited: true,
                ..Ack::default()
            });
            let told = Paced {
                now,
                rtt: rtt.nanos(),
                there: there.cast_unsigned(),
                acked,
                in_flight,
                since,
                rate_delivered: sample.delivered,
                rate_interval: sample.interval.nanos(),
                unacked: 1 << 20,
                ..Paced::default()
            };
            path.on_paced(&mut flow, &told);
            let shown = path.show();
            let pace = control.pacing_rate().map_or(0, |rate| rate.bps() / 8);
            assert_eq!((shown.cwnd, shown.pacing_rate), (control.cwnd() << 16, pace), "seed {seed}, acknowledgement {n}");
        }
    }
    assert!(left_out > 100_000 && whole > 100_000, "{left_out} with a queue of others' on the way back, {whole} without");
}
