//! Drop-tail, link and impairments against worked values (aqm.md I.2) and conservation.

use proptest::prelude::*;

use crate::droptail::{DropTail, Limit};
use crate::*;

#[derive(Debug)]
struct P(u32);

impl Packet for P {
    fn bytes(&self) -> u32 {
        self.0
    }
    fn flow(&self) -> u64 {
        0
    }
    fn ecn(&self) -> Ecn {
        Ecn::NotEct
    }
    fn mark_ce(&mut self) {}
}

fn droptail(toml: &str) -> Box<dyn Queue<P>> {
    let config: QueueConfig = toml::from_str(&format!("kind = \"droptail\"\n{toml}")).expect("a queue");
    config.build(Rate::from_mbps_f64(10.0), 1).expect("one limit")
}

/// 10 Mbit/s for 50 ms are 62,500 bytes: 41 frames of 1500, and a smaller one still fits.
#[test]
fn fifty_milliseconds_hold_forty_one_frames() {
    for (toml, small_fits) in [("ms = 50", true), ("bytes = 62500", true), ("packets = 41", false)] {
        let (mut queue, mut dropped) = (droptail(toml), Vec::new());
        for _ in 0..42 {
            queue.enqueue(P(1500), Time::ZERO, &mut dropped);
        }
        assert_eq!((queue.packets(), dropped.len()), (41, 1), "{toml}");
        queue.enqueue(P(1000), Time::ZERO, &mut dropped);
        assert_eq!(dropped.len() == 1, small_fits, "{toml}");
    }
}

#[test]
fn a_queue_without_or_with_two_limits_is_refused() {
    for toml in ["", "ms = 3\npackets = 4"] {
        let config: QueueConfig = toml::from_str(&format!("kind = \"droptail\"\n{toml}")).expect("a queue");
        let message = config.build::<P>(Rate::from_bps(1), 1).err().expect("refused").to_string();
        assert!(message.contains("exactly one"), "{message}");
    }
}

/// 3 Mbit/s and 1000 bytes do not divide: a million packets later the last bit still leaves on time.
#[test]
fn the_transmitter_does_not_drift() {
    let mut link = Transmitter::new(Rate::from_bps(3_000_000));
    let end = (0..1_000_000).map(|_| link.start(1000, Time::ZERO)).last().expect("sent");
    assert_eq!(end.nanos(), 8_000_000_000_000_000 / 3_000);
}

#[test]
fn losses_come_at_their_rate_and_jitter_keeps_the_order() {
    let config = ImpairConfig { loss: 0.05, jitter_ms: 5.0, ..ImpairConfig::default() };
    let mut link = Impairments::new(&config, Span::from_millis(10), 7);
    let (mut lost, mut last) = (0, Time::ZERO);
    for i in 0..100_000 {
        match link.pass(Time::from_millis(i)) {
            Fate::Lost => lost += 1,
            Fate::Arrives { at, .. } => {
                assert!(at >= last && at.since(Time::from_millis(i)) >= Span::from_millis(10));
                last = at;
            }
        }
    }
    assert!((4_700..5_300).contains(&lost), "{lost}");
}

proptest! {
    #[test]
    fn what_goes_in_comes_out_or_is_dropped(steps in prop::collection::vec((any::<bool>(), 40u32..1600), 1..500)) {
        let mut queue = DropTail::new(Limit::Bytes(20_000));
        let (mut dropped, mut entered, mut left) = (Vec::new(), 0, 0);
        for (enqueue, bytes) in steps {
            if enqueue {
                entered += 1;
                queue.enqueue(P(bytes), Time::ZERO, &mut dropped);
            } else {
                left += usize::from(queue.dequeue(Time::ZERO, &mut dropped).is_some());
            }
            prop_assert_eq!(entered, left + dropped.len() + queue.packets());
            prop_assert!(queue.bytes() <= 20_000);
        }
    }
}
