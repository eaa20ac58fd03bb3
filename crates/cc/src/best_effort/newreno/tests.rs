//! Reno, and the base that every rival shares.

use lowtide_units::{Span, Time};

use super::*;
use crate::events::{Cause, Restart};
use crate::reno_base::Idle;
use crate::reno_base::testing::{MSS, ack, avoiding, episode, starting};

const LINUX: Base = Base { per_ack: false, reduce_from: crate::reno_base::ReduceFrom::Window, idle: Idle::Halve };
const RFC: Base = Base { per_ack: false, reduce_from: crate::reno_base::ReduceFrom::Flight, idle: Idle::Restart };
const PERIOD: Base = Base { per_ack: true, reduce_from: crate::reno_base::ReduceFrom::Flight, idle: Idle::Restart };
const RENO: Reno = Reno { limit: 0.0 };

fn close(got: f64, want: f64) {
    assert!((got - want).abs() < 1e-3, "{got} is not {want}");
}

#[test]
fn ten_acks_from_ten_counted_and_by_formula() {
    for (base, want) in [(LINUX, 11.0), (PERIOD, 10.959)] {
        let mut flow = avoiding(base, RENO, 10.0);
        for i in 0..10 {
            flow.on_ack(&ack(f64::from(i), 1.0, 100.0));
        }
        close(flow.window.cwnd, want);
    }
}

#[test]
fn delayed_acks_halve_the_growth_only_without_byte_counting() {
    for (base, want, tolerance) in [(LINUX, 11.0, 1e-9), (PERIOD, 10.5, 0.02)] {
        let mut flow = avoiding(base, RENO, 10.0);
        for i in 0..5 {
            flow.on_ack(&ack(f64::from(i), 2.0, 100.0));
        }
        assert!((flow.window.cwnd - want).abs() < tolerance, "{base:?}: {}", flow.window.cwnd);
    }
    for (base, limit, want) in [(LINUX, 0.0, 20.0), (RFC, 1.0, 15.0), (RFC, 2.0, 20.0), (PERIOD, 0.0, 15.0)] {
        let mut flow = starting(base, Reno { limit }, 10.0);
        for i in 0..5 {
            flow.on_ack(&ack(f64::from(i), 2.0, 100.0));
        }
        assert_eq!(flow.window.cwnd, want, "{base:?}, limit {limit}");
    }
}

#[test]
fn linux_passes_what_slow_start_leaves_to_avoidance() {
    let mut flow = starting(LINUX, RENO, 10.0);
    flow.window.ssthresh = 12.0;
    flow.on_ack(&ack(0.0, 10.0, 100.0));
    assert_eq!(flow.window.cwnd, 12.0);
    flow.on_ack(&ack(0.0, 4.0, 100.0));
    assert_eq!(flow.window.cwnd, 13.0);
}

#[test]
fn losses_halve_the_window_or_the_flight_and_leave_two() {
    for (base, cwnd, flight, want) in
        [(RFC, 40.0, 20.0, 10.0), (RFC, 40.0, 3.0, 2.0), (LINUX, 20.0, 7.0, 10.0), (LINUX, 3.0, 3.0, 2.0), (LINUX, 15.0, 15.0, 7.0)]
    {
        for cause in [Cause::Loss, Cause::Ecn] {
            let mut flow = avoiding(base, RENO, cwnd);
            flow.on_congestion(&episode(0.0, cause, flight));
            assert_eq!((flow.window.ssthresh, flow.window.cwnd), (want, want));
        }
        let mut flow = avoiding(base, RENO, cwnd);
        flow.on_congestion(&episode(0.0, Cause::Timeout, flight));
        assert_eq!((flow.window.ssthresh, flow.cwnd()), (want, u64::from(MSS)));
    }
}

#[test]
fn nothing_grows_in_recovery_or_while_the_window_is_not_the_limit() {
    let mut flow = avoiding(LINUX, RENO, 10.0);
    for _ in 0..100 {
        flow.on_ack(&Ack { in_recovery: true, ..ack(0.0, 2.0, 100.0) });
        flow.on_ack(&Ack { cwnd_limited: false, in_flight: 10_000, ..ack(0.0, 2.0, 100.0) });
    }
    assert_eq!(flow.window.cwnd, 10.0);
}

#[test]
fn idle_halves_per_rto_down_to_the_initial_window() {
    let restart = |idle| Restart { now: Time::from_millis(9000), idle: Span::from_millis(idle), rto: Span::from_millis(300) };
    for (idle, want) in [(300, 160.0), (301, 80.0), (600, 80.0), (601, 40.0), (3000, 10.0), (1_000_000, 10.0)] {
        let mut flow = avoiding(LINUX, RENO, 160.0);
        flow.on_restart(&restart(idle));
        assert_eq!(flow.window.cwnd, want, "idle {idle} ms");
        assert_eq!(flow.window.ssthresh, if idle > 300 { 120.0 } else { 2.0 });
    }
    let mut flow = avoiding(RFC, RENO, 160.0);
    flow.on_restart(&restart(301));
    assert_eq!(flow.window.cwnd, 10.0);
    let mut small = avoiding(LINUX, RENO, 4.0);
    small.on_restart(&restart(5000));
    assert_eq!(small.window.cwnd, 4.0);
}

#[test]
fn undo_restores_once_and_only_after_an_episode() {
    let mut flow = avoiding(LINUX, RENO, 40.0);
    flow.window.ssthresh = 30.0;
    flow.on_undo(Time::ZERO);
    assert_eq!(flow.window.cwnd, 40.0);
    flow.on_congestion(&episode(0.0, Cause::Timeout, 40.0));
    flow.on_undo(Time::ZERO);
    assert_eq!((flow.window.cwnd, flow.window.ssthresh), (40.0, 30.0));
    flow.window.cwnd = 5.0;
    flow.on_undo(Time::ZERO);
    assert_eq!(flow.window.cwnd, 5.0);
}

#[test]
fn a_new_segment_size_keeps_the_bytes() {
    let mut flow = avoiding(LINUX, RENO, 40.0);
    flow.on_congestion(&episode(0.0, Cause::Loss, 40.0));
    flow.on_mss(500);
    assert_eq!((flow.cwnd(), flow.window.ssthresh), (20_000, 40.0));
    flow.on_undo(Time::ZERO);
    assert_eq!(flow.cwnd(), 40_000);
}

#[test]
fn the_snapshot_names_the_state() {
    let mut flow = starting(LINUX, RENO, 10.0);
    assert_eq!((flow.snapshot().phase, flow.snapshot().ssthresh), ("slow_start", None));
    flow.on_congestion(&episode(0.0, Cause::Loss, 10.0));
    flow.on_ack(&Ack { in_recovery: true, ..ack(0.0, 1.0, 100.0) });
    assert_eq!((flow.snapshot().phase, flow.snapshot().ssthresh), ("recovery", Some(5000)));
    flow.on_ack(&ack(0.0, 1.0, 100.0));
    assert_eq!(flow.snapshot().phase, "avoidance");
}
