//! H-TCP against Linux tcp_htcp.c: alpha, beta and the time since the last loss.

use super::*;
use crate::events::Cause;
use crate::reno_base::testing::{ack, avoiding, episode};

fn linux() -> Htcp {
    Htcp::new(Config::default(), Time::ZERO)
}

#[test]
fn the_increase_function() {
    for (seconds, want) in [(0.5, 1.0), (1.0, 1.0), (2.0, 11.25), (5.0, 45.0)] {
        assert_eq!(increase_function(Span::from_secs_f64(seconds)), want);
    }
}

#[test]
fn alpha_of_beta_time_and_rtt() {
    for (rtt_ms, scaled) in [(100, 18.0), (10, 1.8), (1, 1.8), (200, 36.0), (1000, 36.0)] {
        let mut law = linux();
        law.rtt_min = Some(Span::from_millis(rtt_ms));
        law.beta = 0.8;
        law.update_alpha(Time::from_millis(5000));
        assert!((law.alpha - scaled).abs() < 1e-9, "{rtt_ms} ms: {}", law.alpha);
    }
    let mut unscaled = Htcp::new(Config { rtt_scaling: false, ..Config::default() }, Time::ZERO);
    unscaled.rtt_min = Some(Span::from_millis(10));
    unscaled.update_alpha(Time::from_millis(2000));
    assert_eq!(unscaled.alpha, 11.25);
}

#[test]
fn a_window_grows_by_alpha_a_round() {
    let mut flow = avoiding(Base::default(), linux(), 100.0);
    flow.law.alpha = 5.0;
    (0..20).for_each(|_| flow.on_ack(&ack(500.0, 1.0, 100.0)));
    assert_eq!(flow.window.cwnd, 101.0);
    assert_eq!(flow.law.alpha, 1.0);
}

/// The parts that two losses in a row leave at a steady throughput.
fn losses(rtt_min_ms: u64, rtt_max_ms: u64, second_peak: f64) -> [f64; 2] {
    let mut flow = avoiding(Base::default(), linux(), 1000.0);
    flow.law.rtt_min = Some(Span::from_millis(rtt_min_ms));
    flow.law.throughput.previous_max = 100.0;
    [100.0, second_peak].map(|peak| {
        flow.law.rtt_max = Span::from_millis(rtt_max_ms);
        flow.law.throughput.max = peak;
        flow.window.cwnd = 1000.0;
        flow.on_congestion(&episode(5000.0, Cause::Loss, 1000.0));
        flow.window.cwnd / 1000.0
    })
}

#[test]
fn the_decrease_follows_the_rtt_range_when_the_throughput_is_steady() {
    assert_eq!(losses(60, 100, 100.0), [0.5, 0.6]);
    assert_eq!(losses(60, 100, 119.0), [0.5, 0.6]);
    assert_eq!(losses(60, 100, 121.0), [0.5, 0.5]);
    assert_eq!(losses(95, 100, 100.0), [0.5, 0.796]);
    assert_eq!(losses(30, 100, 100.0), [0.5, 0.5]);
    assert_eq!(losses(10, 12, 100.0), [0.5, 0.5]);
}

#[test]
fn a_loss_fades_rttmax_and_undo_gives_it_back() {
    let mut flow = avoiding(Base::default(), linux(), 100.0);
    flow.law.rtt_min = Some(Span::from_millis(100));
    flow.law.rtt_max = Span::from_millis(200);
    flow.on_congestion(&episode(5000.0, Cause::Loss, 100.0));
    assert_eq!(flow.law.rtt_max, Span::from_millis(195));
    assert_eq!(flow.law.last_loss, Time::from_millis(5000));
    flow.on_undo(Time::from_millis(5001));
    assert_eq!((flow.law.rtt_max, flow.law.last_loss, flow.window.cwnd), (Span::from_millis(200), Time::ZERO, 100.0));
}

#[test]
fn rttmax_ignores_leaps() {
    let mut law = linux();
    for (rtt, want) in [(100, 100), (119, 119), (300, 119), (139, 139)] {
        law.measure_rtt(Span::from_millis(rtt), false);
        assert_eq!(law.rtt_max, Span::from_millis(want));
    }
}

#[test]
fn peak_throughput_is_smoothed() {
    let mut law = linux();
    law.rtt_min = Some(Span::from_millis(100));
    law.measure_throughput(10.0, 10.0, Time::from_millis(100));
    assert_eq!(law.throughput.max, 100.0);
    law.measure_throughput(10.0, 20.0, Time::from_millis(400));
    law.measure_throughput(10.0, 50.0, Time::from_millis(500));
    assert!((law.throughput.smoothed - 193.75).abs() < 1e-9);
    assert_eq!(law.throughput.max, law.throughput.smoothed);
}
