//! bpf/receiver.h and bpf/path.h when the server or the receiver's program pauses or is slow: neither is a queue, and neither makes a window.

#[expect(dead_code, reason = "shared with other tests, which use other parts")]
mod world;

use world::{BASE, Event, MS, MSS, ONE_WAY, World};

const BUFFER: u32 = 1_000_000;

#[test]
fn a_server_that_stalls_is_not_a_queue() {
    let mut world = World::new(BUFFER);
    let (burst, seconds) = (3000, 40);
    for second in (0..seconds).step_by(4) {
        world.at(second * 1000 * MS, Event::Write(burst));
    }
    world.run(seconds * 1000 * MS);
    world.check();
    assert_eq!(world.rcv_nxt, 10 * burst * MSS, "all arrived");
    // 20 ms of line and 20 ms of queue, with slow start's overshoot.
    assert!(world.widest_segments() < 120.0, "{} segments", world.widest_segments());
}

/// Whose pauses are as long as many round trips, and whose bursts use the window: the smoothed RTT grows with them, the base and the queue do not.
#[test]
fn a_server_that_stalls_again_and_again_is_not_a_queue() {
    for (burst, pause) in [(2, 60), (2, 300), (20, 120), (40, 500), (100, 1500)] {
        let mut world = World::new(BUFFER);
        for n in 0..30_000 / pause {
            world.at(n * pause * MS, Event::Write(burst));
        }
        world.at(30_000 * MS, Event::Write(200_000));
        world.run(30_000 * MS);
        world.check();
        assert!(world.widest_segments() < 120.0, "{} segments, {burst} each {pause} ms", world.widest_segments());
        world.run(32_000 * MS);
        world.forget();
        let before = world.rcv_nxt;
        world.run(60_000 * MS);
        assert!(world.queued <= 2 * TARGET, "{} ms of queue after {burst} each {pause} ms", world.queued / MS);
        let rate = f64::from(world.rcv_nxt - before) * 8.0 / 28.0 / 20e6;
        assert!(rate > 0.8, "{rate} of the line after {burst} each {pause} ms");
    }
}

/// An upload fills the way back while the window is small: each round trip is then a silence of many of the first ones, and none would give a
/// sample. Here the line's is 20 ms, and 376 ms wait on the way back from the `rise`th on.
#[test]
fn a_round_trip_that_rises_for_good_is_no_pause() {
    for rise in [30, 60, 90] {
        let mut world = World::new(4 * BUFFER);
        world.at(0, Event::Write(200_000));
        world.run(rise * MS);
        world.back = 376 * MS;
        world.run(60_000 * MS);
        let before = world.rcv_nxt;
        world.run(80_000 * MS);
        let rate = f64::from(world.rcv_nxt - before) * 8.0 / 20e6;
        assert!(rate > 2.0, "{rate} of 20 Mbit/s, {} segments, from {rise} ms on", world.path.window() / f64::from(MSS));
        world.check();
    }
}

#[test]
fn an_answer_that_takes_time_to_think_of_is_not_a_queue() {
    for thinks in [0, 5, 40, 150] {
        let mut world = World::new(BUFFER);
        for round in 0..200 {
            world.at((10 + round * 250) * MS, Event::Ask(10, thinks));
        }
        world.run(60_000 * MS);
        world.check();
        assert_eq!(world.rcv_nxt, 2000 * MSS, "every answer arrived, thinking {thinks} ms");
        // Ten segments are all it uses: one round of slow start beyond, at most.
        assert!(world.widest_segments() < 16.0, "{} segments, thinking {thinks} ms", world.widest_segments());
    }
}

#[test]
fn a_program_that_stops_reading_stops_the_window_and_only_that() {
    let mut world = World::new(BUFFER);
    world.at(0, Event::Write(100_000));
    for pause in 0..4 {
        world.at((5_000 + pause * 5_000) * MS, Event::Stop);
        world.at((8_000 + pause * 5_000) * MS, Event::Read);
    }
    world.run(5_000 * MS);
    let before = (world.rcv_nxt, world.widest_segments());
    world.run(6_500 * MS);
    // The kernel rounds what is left of its window up to the field's unit with each ACK.
    assert!(
        world.unread <= BUFFER + BUFFER / MSS * 128 && world.unread + 2 * MSS > BUFFER,
        "{} bytes unread: the window closed",
        world.unread
    );
    world.run(8_000 * MS);
    let stopped = world.rcv_nxt;
    world.run(10_000 * MS);
    assert!(world.rcv_nxt - stopped > (before.0 / 5) * 3 / 2, "after the pause it goes on as before");
    world.run(30_000 * MS);
    world.check();
    assert!(world.widest_segments() < before.1 * 1.3, "{} segments, {} before any pause", world.widest_segments(), before.1);
}

/// Bytes that are in flight when the line is full and the queue at its target of a base RTT.
const NEEDED: f64 = 2.0 * (2 * ONE_WAY) as f64 / 1e9 * 2_500_000.0;
const TARGET: u64 = BASE;

/// A program that reads slowly for 20 s and then as fast as it can.
fn slow_reader(buffer: u32, events: impl Fn(&mut World)) -> World {
    let mut world = World::new(buffer);
    world.at(0, Event::Write(100_000));
    events(&mut world);
    world.run(20_000 * MS);
    assert!(world.path.window() <= 2.0 * NEEDED, "{} bytes of window, {NEEDED} needed, {buffer} of buffer", world.path.window());
    world.forget();
    world.at(20_000 * MS, Event::Read);
    world.run(40_000 * MS);
    assert!(world.queued <= 2 * TARGET, "{} ms of queue after it was let go, {buffer} of buffer", world.queued / MS);
    assert!(world.path.base().is_some_and(|b| b.abs_diff(BASE) < 2 * MS));
    world
}

#[test]
fn a_slow_reader_does_not_pump_the_window() {
    for buffer in [65_536, 262_144, 4_194_304] {
        for rate in [250, 1000] {
            let world = slow_reader(buffer, |world| world.at(MS, Event::Take(rate)));
            assert!(
                world.rcv_nxt > 20_000 * 1400,
                "the line is used after it: {} bytes, {buffer} of buffer, {rate} bytes/ms {:?}",
                world.rcv_nxt,
                world.path
            );
        }
    }
}

#[test]
fn a_reader_that_stops_and_goes_does_not_pump_the_window() {
    for buffer in [65_536, 262_144, 4_194_304] {
        for half in [20, 100, 700] {
            slow_reader(buffer, |world| {
                for turn in 0..20_000 / (2 * half) {
                    world.at((2 * turn + 1) * half * MS, Event::Stop);
                    world.at((2 * turn + 2) * half * MS, Event::Read);
                }
            });
        }
    }
}

/// For a second lowtide's program sees nothing of what leaves: a clsact filter asleep, an interface made anew. The kernel's own window goes out
/// and its edge holds: the server may send that much, and no more than that.
#[test]
fn after_a_gap_the_edge_holds_and_the_window_comes_back() {
    for timestamps in [true, false] {
        let mut world = World::with(500_000, timestamps);
        world.at(0, Event::Write(200_000));
        world.at(5_000 * MS, Event::Seen(false));
        world.at(6_000 * MS, Event::Seen(true));
        // A single ACK, too, may pass unseen; and the first second of a connection.
        for i in 0..20 {
            world.at((20_000 + 1_000 * i) * MS + 7_000 * i, Event::Seen(false));
            world.at((20_001 + 1_000 * i) * MS, Event::Seen(true));
        }
        world.run(6_000 * MS);
        assert!(world.queued > 150 * MS, "the kernel's window was in use: {} ms of queue", world.queued / MS);
        world.run(12_000 * MS);
        world.forget();
        world.run(20_000 * MS);
        assert!(world.queued <= 2 * TARGET, "{} ms of queue after the gap, timestamps {timestamps}", world.queued / MS);
        world.run(60_000 * MS);
        assert!(world.path.base().is_some_and(|b| b.abs_diff(BASE) < 2 * MS), "base {:?}, timestamps {timestamps}", world.path.base());
    }
}

/// A connection that was open before lowtide: what its ACKs of before promised is held too.
#[test]
fn the_edge_of_a_connection_found_open_holds() {
    let mut world = World::new(500_000);
    world.at(0, Event::Seen(false));
    world.at(0, Event::Write(200_000));
    world.at(3_000 * MS, Event::Seen(true));
    world.run(10_000 * MS);
    world.forget();
    world.run(20_000 * MS);
    assert!(world.queued <= 2 * TARGET, "{} ms of queue", world.queued / MS);
    assert!(world.path.base().is_some_and(|b| b.abs_diff(BASE) < 2 * MS), "base {:?}", world.path.base());
}
