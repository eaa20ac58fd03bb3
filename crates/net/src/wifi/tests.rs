//! The model's times against the standard's, and its properties.

use proptest::prelude::*;

use super::*;
use crate::random::Seed;

fn wifi(config: WifiConfig, phy_mbps: f64, seed: u64) -> Wifi {
    config.check().expect("possible");
    Wifi::new(config, Rate::from_mbps_f64(phy_mbps), Seed::new(seed).generator())
}

fn full(wifi: &Wifi) -> Aggregate {
    let mut aggregate = Aggregate::default();
    while wifi.add(&mut aggregate, 1514) {}
    aggregate
}

/// At 65 Mbit/s (MCS 7, 20 MHz) 4 ms hold 32,207 bytes after the preamble: 20 frames of 1560 bytes, 3.876 ms with preamble.
#[test]
fn an_aggregate_is_as_long_as_its_frames_take() {
    let wifi = wifi(WifiConfig::default(), 65.0, 1);
    let aggregate = full(&wifi);
    assert_eq!(aggregate, Aggregate { frames: 20, bytes: 20 * 1560 });
    assert_eq!(wifi.airtime(aggregate).nanos(), 36_000 + 3_840_000 + 16_000 + 32_000);
}

/// Fast PHYs are limited by the 65,535 bytes of an A-MPDU, small packets by the 64 bits of the block acknowledgement.
#[test]
fn an_aggregate_has_all_three_limits() {
    let fast = wifi(WifiConfig::default(), 300.0, 1);
    assert_eq!(full(&fast).frames, 42);
    let mut small = Aggregate::default();
    while fast.add(&mut small, 66) {}
    assert_eq!(small.frames, 64);
    assert_eq!(full(&wifi(WifiConfig { frames: 1, ..WifiConfig::default() }, 65.0, 1)).frames, 1);
}

proptest! {
    /// The mean of many full aggregates is the capacity, with and without others; and no wait is shorter than AIFS and airtime.
    #[test]
    fn full_aggregates_reach_the_capacity(phy in 6.5..300.0_f64, contenders in 0_u32..5, seed in 0_u64..1000) {
        let mut wifi = wifi(WifiConfig { contenders, ..WifiConfig::default() }, phy, seed);
        let (aggregate, count) = (full(&wifi), 4000);
        let mut total = Span::ZERO;
        for _ in 0..count {
            let took = wifi.send(aggregate);
            prop_assert!(took >= AIFS + wifi.airtime(aggregate));
            total += took;
        }
        let reached = Rate::from_bytes_over(aggregate.frames * 1514 * count, total).bps() as f64;
        let asked = wifi.capacity().bps() as f64;
        prop_assert!((reached / asked - 1.0).abs() < 0.08, "{reached} of {asked}");
    }
}

#[test]
fn the_same_seed_gives_the_same_times() {
    let config = WifiConfig { contenders: 2, ..WifiConfig::default() };
    let times = |seed| {
        let mut wifi = wifi(config, 65.0, seed);
        let aggregate = full(&wifi);
        (0..100).map(|_| wifi.send(aggregate)).collect::<Vec<_>>()
    };
    assert_eq!(times(7), times(7));
    assert_ne!(times(7), times(8));
}

#[test]
fn what_no_station_can_be_is_refused_by_its_key() {
    let refused = |config: WifiConfig| config.check().expect_err("impossible").0;
    assert_eq!(refused(WifiConfig { frames: 0, ..WifiConfig::default() }), "frames");
    assert_eq!(refused(WifiConfig { frames: 65, ..WifiConfig::default() }), "frames");
    assert_eq!(refused(WifiConfig { airtime_ms: f64::NAN, ..WifiConfig::default() }), "airtime_ms");
    assert_eq!(refused(WifiConfig { contenders: 101, ..WifiConfig::default() }), "contenders");
}
