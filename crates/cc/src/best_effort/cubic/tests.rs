//! Linux's CUBIC.

use super::*;
use crate::events::Cause;
use crate::reno_base::testing::{ack, avoiding, episode, starting};

fn cubic(config: Config) -> Cubic {
    Cubic::new(config)
}

#[test]
fn reductions_and_fast_convergence() {
    let mut flow = avoiding(Base::default(), cubic(Config::default()), 100.0);
    flow.on_congestion(&episode(0.0, Cause::Loss, 100.0));
    assert_eq!((flow.window.cwnd, flow.law.last_max), (70.0, 100.0));
    flow.window.cwnd = 80.0;
    flow.on_congestion(&episode(0.0, Cause::Loss, 80.0));
    assert_eq!((flow.window.cwnd, flow.law.last_max), (56.0, 68.0));
    flow.on_congestion(&episode(0.0, Cause::Timeout, 56.0));
    assert_eq!((flow.window.cwnd, flow.window.ssthresh, flow.law.last_max), (1.0, 39.0, 0.0));
}

#[test]
fn undo_gives_back_window_threshold_and_maximum() {
    let mut flow = avoiding(Base::default(), cubic(Config::default()), 100.0);
    flow.law.last_max = 120.0;
    flow.on_congestion(&episode(0.0, Cause::Loss, 100.0));
    flow.on_undo(Time::ZERO);
    assert_eq!((flow.window.cwnd, flow.law.last_max), (100.0, 120.0));
}

/// Without delay samples t is the time since the epoch began: the window follows the curve, whose distance from its plateau Linux
/// counts in whole segments, a segment at most behind.
#[test]
fn the_window_follows_the_curve_to_its_plateau() {
    let config = Config { reno_friendly: false, ..Config::default() };
    let mut flow = avoiding(Base::default(), cubic(config), 100.0);
    flow.on_congestion(&episode(0.0, Cause::Loss, 100.0));
    for at in 0..=4200 {
        flow.on_ack(&Ack { rtt: None, ..ack(f64::from(at), 10.0, 10.0) });
        let want = match at {
            1000 => 86.68,
            2000 => 95.64,
            4200 => 100.0,
            _ => continue,
        };
        assert!((want - 1.0..=want + 1.0).contains(&flow.window.cwnd), "{} at {at} ms, curve at {want}", flow.window.cwnd);
    }
}

#[test]
fn never_above_one_and_a_half_a_round() {
    let mut flow = avoiding(Base::default(), cubic(Config::default()), 100.0);
    flow.law.last_max = 1e6;
    for _ in 0..20 {
        let before = flow.window.cwnd;
        for i in 0..before as u32 {
            flow.on_ack(&ack(f64::from(i) / 100.0, 1.0, 10_000.0));
        }
        assert!(flow.window.cwnd <= 1.5 * before + 1.0, "{before} to {}", flow.window.cwnd);
    }
}

#[test]
fn before_the_first_loss_a_twentieth_a_round_at_least() {
    let mut flow = avoiding(Base::default(), cubic(Config::default()), 400.0);
    for _ in 0..400 {
        flow.on_ack(&ack(1.0, 1.0, 50.0));
    }
    assert_eq!(flow.window.cwnd, 420.0);
}

#[test]
fn idle_time_adds_nothing_to_the_curve() {
    let run = |pause_ms: u64| {
        let mut flow = avoiding(Base::default(), cubic(Config::default()), 1000.0);
        flow.on_congestion(&episode(0.0, Cause::Loss, 1000.0));
        flow.on_ack(&ack(10.0, 1.0, 50.0));
        let now = Time::from_millis(20 + pause_ms);
        flow.on_restart(&Restart { now, idle: Span::from_millis(pause_ms), rto: Span::from_secs(60) });
        for i in 0..2000 {
            flow.on_ack(&ack(21.0 + pause_ms as f64 + f64::from(i), 1.0, 50.0));
        }
        flow.window.cwnd
    };
    assert_eq!(run(0), run(10_000));
}

/// The first round's samples set the base; the ninth sample of a later round decides.
fn leaves_slow_start_at(config: Config, base_ms: f64, later_ms: f64) -> bool {
    let mut flow = starting(Base::default(), cubic(config), 20.0);
    for (start, rtt) in [(1000.0, base_ms), (2000.0, later_ms)] {
        for i in 0..10 {
            let delivered = start as u64 * 1000 + i;
            // 3 ms apart: no acknowledgement train.
            let prior = if i == 0 { delivered } else { 0 };
            flow.on_ack(&Ack { delivered, prior_delivered: prior, ..ack(start + 3.0 * i as f64, 1.0, rtt) });
        }
    }
    !flow.window.in_slow_start()
}

#[test]
fn hystart_leaves_on_delay_above_an_eighth() {
    let linux = Config::default();
    for (base, later, leaves) in
        [(100.0, 112.0, false), (100.0, 113.0, true), (10.0, 13.9, false), (10.0, 14.1, true), (400.0, 415.0, false), (400.0, 417.0, true)]
    {
        assert_eq!(leaves_slow_start_at(linux, base, later), leaves, "base {base}, later {later}");
    }
    assert!(!leaves_slow_start_at(Config { hystart: false, ..linux }, 100.0, 300.0));
}

/// A train of acknowledgements 1 ms apart: the time at which slow start ends, base RTT 100 ms.
fn train_ends_at(config: Config) -> Option<u32> {
    let mut flow = starting(Base::default(), cubic(config), 200.0);
    (1..=130).find(|&i| {
        let delivered = 1_000_000 + u64::from(i);
        let prior = if i == 1 { delivered } else { 0 };
        flow.on_ack(&Ack { delivered, prior_delivered: prior, ..ack(1000.0 + f64::from(i), 1.0, 100.0) });
        !flow.window.in_slow_start()
    })
}

#[test]
fn hystart_leaves_on_an_ack_train_of_half_the_base_or_all_of_it_when_paced() {
    let linux = Config::default();
    assert_eq!(train_ends_at(linux), Some(52));
    assert_eq!(train_ends_at(Config { paced: true, ..linux }), Some(103));
}

/// 20 Mbit/s, 20 ms: the flight of 20 that the first ten release comes back as a train of 11.4 ms, of which 10.5 are allowed. Its round began with it although
/// the window grew past 16 within the flight before (Linux up to 5.15 and since 6.14).
#[test]
fn hystart_counts_its_rounds_from_the_first_flight() {
    let mut flow = starting(Base::default(), cubic(Config::default()), 10.0);
    let left_at = (1..=30u64).find(|&n| {
        let (at, released_by) = if n <= 10 { (20.0 + 0.6 * n as f64, 0) } else { (40.0 + 0.6 * (n - 10) as f64, (n - 9) / 2) };
        flow.on_ack(&Ack { delivered: n, prior_delivered: released_by, ..ack(at, 1.0, 20.0) });
        !flow.window.in_slow_start()
    });
    assert_eq!(left_at, Some(29));
}

#[test]
fn hystart_does_not_look_at_small_windows() {
    let mut flow = starting(Base::default(), cubic(Config::default()), 2.0);
    for i in 0..10 {
        flow.on_ack(&ack(f64::from(i), 1.0, 10.0 + 20.0 * f64::from(i)));
    }
    assert!(flow.window.in_slow_start());
}

#[test]
fn samples_right_after_a_reduction_are_ignored() {
    let mut flow = avoiding(Base::default(), cubic(Config::default()), 100.0);
    flow.on_ack(&ack(0.0, 1.0, 50.0));
    flow.on_ack(&ack(900.0, 1.0, 40.0));
    assert_eq!(flow.law.delay_min, Some(Span::from_millis(50)));
    flow.on_ack(&ack(1000.0, 1.0, 40.0));
    assert_eq!(flow.law.delay_min, Some(Span::from_millis(40)));
}

/// At a small BDP Linux grows as Reno would, 0.53 a round; without the friendly region the cubic curve alone is slower.
#[test]
fn the_friendly_region_fills_small_pipes() {
    let [friendly, alone] = [true, false].map(|reno_friendly| Config { reno_friendly, ..Config::default() }).map(|config| {
        let mut flow = avoiding(Base::default(), cubic(config), 40.0);
        flow.on_congestion(&episode(0.0, Cause::Loss, 40.0));
        (0..28 * 20).for_each(|i| flow.on_ack(&ack(f64::from(i) * 10.0 / 28.0, 1.0, 10.0)));
        flow.window.cwnd
    });
    assert!((36.0..=39.0).contains(&friendly), "{friendly}");
    // 0.2 s into a curve with K = 3.1 s: 9.8 segments below 40, in whole ones 9.
    assert_eq!(alone, 31.0);
}
