//! Segments that are not the peer's, or are broken: programs see them before the kernel has checked checksum, timestamp and window
//! (docs/algorithms/receiver.md). Beside a live transfer they change neither its rate nor what is known of its path.

#[expect(dead_code, reason = "shared with other tests, which use other parts")]
mod world;

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use world::{BASE, Event, MS, MSS, World};

const SECONDS: u64 = 20;
const FORGED: u64 = 100_000;

/// Bytes received in `SECONDS` beside forged segments, which `forge` makes of where the transfer is about and a source of chance.
fn received(timestamps: bool, forge: impl Fn(u32, &mut SmallRng) -> Option<Event>) -> u32 {
    let mut world = World::with(500_000, timestamps);
    let mut rng = SmallRng::seed_from_u64(1);
    world.at(0, Event::Write(100_000));
    for i in 0..FORGED {
        let now = SECONDS * 1000 * MS / FORGED * i + 1;
        world.run(now);
        if let Some(event) = forge(world.rcv_nxt, &mut rng) {
            world.at(now, event);
        }
    }
    world.run(SECONDS * 1000 * MS);
    assert!(world.path.base().is_some_and(|b| b.abs_diff(BASE) < 2 * MS), "base {:?}", world.path.base());
    assert!(world.losses <= 2, "{} losses on a line that loses nothing", world.losses);
    world.rcv_nxt
}

fn compare(timestamps: bool, what: &str, forge: impl Fn(u32, &mut SmallRng) -> Event) {
    let (alone, beside) = (received(timestamps, |_, _| None), received(timestamps, |at, rng| Some(forge(at, rng))));
    let ratio = f64::from(beside) / f64::from(alone);
    assert!((ratio - 1.0).abs() <= 0.02, "{what}, timestamps {timestamps}: {ratio} of the rate");
}

#[test]
fn a_hundred_thousand_random_segments_change_nothing() {
    for timestamps in [true, false] {
        compare(timestamps, "random", |_, rng| {
            Event::Forged(rng.random(), rng.random_range(1..65_536), rng.random(), rng.random(), rng.random())
        });
    }
}

/// Far ahead, just beyond the right edge, just before what has arrived, and half a sequence space away.
#[test]
fn segments_outside_the_window_change_nothing_whatever_else_they_say() {
    for timestamps in [true, false] {
        compare(timestamps, "outside", |at, rng| {
            let echo = rng.random_range(0..20_000);
            let seq = match rng.random_range(0..4) {
                0 => at.wrapping_add(500_000_000),
                1 => at.wrapping_add(rng.random_range(400_000..600_000)),
                2 => at.wrapping_sub(rng.random_range(MSS..1_000_000)),
                _ => at.wrapping_add(1 << 31),
            };
            Event::Forged(seq, MSS, rng.random(), echo, rng.random())
        });
    }
}

/// Inside the window a segment that leaves a hole, or fills one, must echo a TSval of ours: that is 32 bits to guess.
#[test]
fn segments_inside_the_window_change_nothing_without_an_echo_of_ours() {
    compare(true, "inside", |at, rng| {
        Event::Forged(at.wrapping_add(rng.random_range(1..60_000)), MSS, rng.random(), rng.random(), rng.random())
    });
}
