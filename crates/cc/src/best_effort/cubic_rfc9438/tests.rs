//! The window of RFC 9438 §4 checked against its equations, HyStart++ against RFC 9406 §4.2.

use super::*;
use crate::reno_base::testing::{ack, avoiding, episode, starting};

fn close(got: f64, want: f64, tolerance: f64) {
    assert!((got - want).abs() <= tolerance, "{got} is not {want}");
}

fn law() -> CubicRfc {
    CubicRfc::new(Config::default())
}

fn after_a_loss_at(window: f64) -> Rival<CubicRfc> {
    let mut flow = avoiding(Config::default().base, law(), window);
    flow.on_congestion(&episode(0.0, Cause::Loss, window));
    flow
}

#[test]
fn the_curve_of_a_hundred_and_k() {
    let mut flow = after_a_loss_at(100.0);
    assert_eq!(flow.window.cwnd, 70.0);
    let epoch = flow.law.new_epoch(Time::ZERO, 70.0);
    close(epoch.k, 4.217, 5e-4);
    for (t, want) in [(0.0, 70.0), (1.0, 86.68), (2.0, 95.64), (epoch.k, 100.0)] {
        close(flow.law.w_cubic(&epoch, t), want, 5e-3);
    }
    let mut large = after_a_loss_at(1000.0);
    close(large.law.new_epoch(Time::ZERO, 700.0).k, 9.086, 5e-4);
    close(law().alpha(), 0.5294, 5e-5);
}

/// Dense acknowledgements: the window is where the curve will be one RTT later.
#[test]
fn the_window_tracks_the_curve() {
    let mut flow = after_a_loss_at(1000.0);
    for at in 0..9000 {
        flow.on_ack(&ack(f64::from(at), 50.0, 1.0));
    }
    let epoch = flow.law.epoch.expect("running");
    close(flow.window.cwnd, flow.law.w_cubic(&epoch, 9.0), 1.0);
}

#[test]
fn reductions_floors_and_fast_convergence() {
    let mut flow = avoiding(Config::default().base, law(), 80.0);
    flow.law.w_max = 100.0;
    flow.on_congestion(&episode(0.0, Cause::Loss, 80.0));
    close(flow.law.w_max, 68.0, 1e-9);
    close(flow.window.cwnd, 56.0, 1e-9);
    for (cause, window, want) in [(Cause::Loss, 2.0, 2.0), (Cause::Ecn, 2.0, 1.4), (Cause::Ecn, 1.0, 1.0)] {
        let mut flow = avoiding(Config::default().base, law(), window);
        flow.on_congestion(&episode(0.0, cause, window));
        close(flow.window.cwnd, want, 1e-9);
        assert_eq!(flow.window.ssthresh, 2.0);
    }
}

#[test]
fn a_window_that_was_not_used_is_not_what_a_reduction_starts_from() {
    let mut flow = avoiding(Config::default().base, law(), 100.0);
    flow.on_ack(&Ack { cwnd_limited: false, ..ack(0.0, 1.0, 50.0) });
    flow.on_congestion(&episode(0.0, Cause::Loss, 20.0));
    close(flow.window.cwnd, 14.0, 1e-9);
}

#[test]
fn after_a_timeout_the_curve_starts_flat() {
    let mut flow = avoiding(Config::default().base, law(), 100.0);
    flow.on_congestion(&episode(0.0, Cause::Timeout, 100.0));
    assert_eq!(flow.window.cwnd, 1.0);
    close(flow.window.ssthresh, 70.0, 1e-9);
    flow.window.cwnd = 70.0;
    flow.window.ssthresh = 70.0;
    flow.on_ack(&ack(1.0, 1.0, 50.0));
    let epoch = flow.law.epoch.expect("begun");
    assert_eq!((epoch.k, flow.law.w_max), (0.0, 70.0));
}

#[test]
fn idle_and_unused_time_add_nothing_to_t() {
    let mut flow = after_a_loss_at(1000.0);
    flow.on_ack(&ack(10.0, 1.0, 50.0));
    let before = flow.law.epoch.expect("begun").start;
    flow.on_restart(&Restart { now: Time::from_millis(10_010), idle: Span::from_secs(10), rto: Span::from_secs(60) });
    assert_eq!(flow.law.epoch.expect("kept").start, before + Span::from_secs(10));
    flow.on_ack(&ack(10_010.0, 1.0, 50.0));
    flow.on_ack(&Ack { cwnd_limited: false, ..ack(11_010.0, 1.0, 50.0) });
    assert_eq!(flow.law.epoch.expect("kept").start, before + Span::from_secs(11));
}

#[test]
fn never_above_one_and_a_half_a_round() {
    let mut flow = avoiding(Config::default().base, law(), 100.0);
    flow.law.w_max = 1e6;
    flow.law.flat = false;
    for round in 1..10 {
        let before = flow.window.cwnd;
        flow.on_ack(&ack(f64::from(round) * 60_000.0, before, 60_000.0));
        assert!(flow.window.cwnd <= 1.5 * before + 1e-6, "{before} to {}", flow.window.cwnd);
    }
}

/// Mean window under one loss every 1/p segments, without fast convergence, as the tables' formula assumes (RFC 9438 §5.2's tables: 187 at 100 ms; the Reno region's 120 at 10 ms).
fn mean_window(rtt_ms: f64, p: f64) -> f64 {
    let config = Config { fast_convergence: false, ..Config::default() };
    // The cubic fixed point is approached ever more slowly: begin near it.
    let mut flow = avoiding(config.base, CubicRfc::new(config), 200.0);
    flow.on_congestion(&episode(0.0, Cause::Loss, 200.0));
    let (mut now, mut since_loss, mut area, mut time) = (0.0, 0.0, 0.0, 0.0);
    while now < 1e6 * rtt_ms / 100.0 {
        let step = flow.window.cwnd / 10.0;
        flow.on_ack(&ack(now, step, rtt_ms));
        now += rtt_ms / 10.0;
        since_loss += step;
        if now > 1e5 * rtt_ms / 100.0 {
            area += flow.window.cwnd;
            time += 1.0;
        }
        if since_loss >= 1.0 / p {
            since_loss = 0.0;
            flow.on_congestion(&episode(now, Cause::Loss, flow.window.cwnd));
        }
    }
    area / time
}

#[test]
fn mean_windows_under_regular_loss() {
    close(mean_window(100.0, 1e-4), 187.0, 3.0);
    close(mean_window(10.0, 1e-4), 120.0, 3.0);
}

/// Ten samples of `rtt_ms` in one round; returns the window's growth.
fn round(flow: &mut Rival<CubicRfc>, number: u32, rtt_ms: f64) -> f64 {
    let before = flow.window.cwnd;
    for i in 0..10 {
        let delivered = u64::from(number * 1000 + i);
        let prior = if i == 0 { delivered } else { 0 };
        flow.on_ack(&Ack { delivered, prior_delivered: prior, ..ack(f64::from(number) * 100.0 + f64::from(i), 1.0, rtt_ms) });
    }
    flow.window.cwnd - before
}

#[test]
fn hystart_pp_grows_by_a_quarter_for_five_rounds() {
    let mut flow = starting(Config::default().base, law(), 20.0);
    assert_eq!(round(&mut flow, 1, 100.0), 10.0);
    assert_eq!(round(&mut flow, 2, 112.0), 10.0);
    let mut flow = starting(Config::default().base, law(), 20.0);
    round(&mut flow, 1, 100.0);
    // The eighth sample triggers: seven whole segments, three quarters.
    assert_eq!(round(&mut flow, 2, 113.0), 7.75);
    for number in 3..=6 {
        assert_eq!(round(&mut flow, number, 113.0), 2.5, "round {number}");
        assert!(flow.window.in_slow_start());
    }
    round(&mut flow, 7, 113.0);
    assert!(!flow.window.in_slow_start());
    assert_eq!(flow.window.ssthresh, 20.0 + 10.0 + 7.75 + 4.0 * 2.5);
}

#[test]
fn hystart_pp_returns_to_slow_start_when_the_delay_was_passing() {
    let mut flow = starting(Config::default().base, law(), 20.0);
    round(&mut flow, 1, 100.0);
    round(&mut flow, 2, 120.0);
    assert_eq!(round(&mut flow, 3, 119.0), 7.0 * 0.25 + 3.0);
    assert_eq!(round(&mut flow, 4, 119.0), 10.0);
}

#[test]
fn slow_start_is_limited_to_eight_segments_an_ack_unless_paced() {
    for (limit, want) in [(8.0, 28.0), (0.0, 60.0)] {
        let config = Config { slow_start_limit: limit, ..Config::default() };
        let mut flow = starting(config.base, CubicRfc::new(config), 20.0);
        flow.on_ack(&ack(1.0, 40.0, 50.0));
        assert_eq!(flow.window.cwnd, want);
    }
}
