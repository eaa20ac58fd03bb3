//! TCP-LP computed by hand on the link of Carofiglio 2010: 10 Mbit/s, 25 ms one way, 120 ms of buffer.

use proptest::prelude::*;

use super::*;

const MSS: f64 = 1500.0;

/// A flow at 40 segments that has seen delays from 25 to 145 ms and whose smoothed delay is 25 ms.
fn flow(config: Config) -> TcpLp {
    let mut flow = TcpLp::new(config, &Start { mss: 1500, ..Start::default() });
    (flow.cwnd, flow.ssthresh, flow.learning) = (40.0 * MSS, 20.0 * MSS, false);
    flow.delays = Some(Delays { origin: 25_000_000, min: 0.0, max: 120e6, smoothed: 0.0 });
    flow
}

/// The same flow once its smoothed delay has risen to 100 ms.
fn congested(config: Config) -> TcpLp {
    let mut flow = flow(config);
    if let Some(d) = flow.delays.as_mut() {
        d.smoothed = 75e6;
    }
    flow
}

fn ack(at_ms: f64, owd_ms: f64) -> Ack {
    Ack {
        now: Time::from_secs_f64(at_ms / 1e3),
        acked: 1500,
        in_flight: 60_000,
        owd: Some((owd_ms * 1e6) as i64),
        rtt: Some(Span::from_millis(85)),
        srtt: Span::from_millis(85),
        cwnd_limited: true,
        ..Ack::default()
    }
}

fn segments(flow: &TcpLp) -> f64 {
    flow.cwnd / MSS
}

#[test]
fn the_sixth_delay_of_sixty_ms_indicates_congestion() {
    let mut flow = flow(Config::default());
    for (i, want) in [29.375, 33.203, 36.553, 39.484, 42.048, 44.292].into_iter().enumerate() {
        let before = flow.cwnd;
        flow.on_ack(&ack(i as f64, 60.0));
        let smoothed = flow.delays.expect("seen").smoothed / 1e6 + 25.0;
        assert!((smoothed - want).abs() < 1e-3, "{smoothed} is not {want}");
        assert_eq!(flow.cwnd < before, i == 5, "acknowledgement {}", i + 1);
    }
    flow.on_ack(&ack(6.0, 25.0));
    let smoothed = flow.delays.expect("seen").smoothed / 1e6 + 25.0;
    assert!((smoothed - 41.881).abs() < 1e-3);
    assert!(!flow.early_indication(&ack(6.0, 25.0)));
}

/// 40 → 20; ignored within an RTT; at 100 ms → 1; held until 255 ms later; then Reno again.
#[test]
fn inference_phase() {
    let mut flow = congested(Config::default());
    flow.on_ack(&ack(0.0, 100.0));
    assert_eq!(segments(&flow), 20.0);
    for ms in [10.0, 50.0, 84.9] {
        flow.on_ack(&ack(ms, 100.0));
        assert_eq!(segments(&flow), 20.0, "{ms}");
    }
    flow.on_ack(&ack(100.0, 100.0));
    assert_eq!(segments(&flow), 1.0);
    if let Some(d) = flow.delays.as_mut() {
        d.smoothed = 0.0;
    }
    for ms in [101.0, 200.0, 354.9] {
        flow.on_ack(&ack(ms, 25.0));
        assert_eq!(segments(&flow), 1.0, "{ms}");
    }
    flow.on_ack(&ack(355.0, 25.0));
    assert_eq!(segments(&flow), 2.0);
}

#[test]
fn carofiglio_holds_through_inference_and_judges_at_its_end() {
    let mut flow = congested(Config { persist: Persist::After, ..Config::default() });
    flow.on_ack(&ack(0.0, 100.0));
    for ms in [100.0, 200.0, 254.0] {
        flow.on_ack(&ack(ms, 100.0));
        assert_eq!(segments(&flow), 20.0, "{ms}");
    }
    flow.on_ack(&ack(255.0, 100.0));
    assert_eq!(segments(&flow), 1.0);
}

#[test]
fn before_the_first_loss_it_only_learns() {
    let mut flow = TcpLp::new(Config::default(), &Start { mss: 1500, ..Start::default() });
    for i in 0..20 {
        flow.on_ack(&ack(f64::from(i), 25.0 + f64::from(i)));
    }
    assert_eq!(segments(&flow), 30.0);
    let event = Congestion { now: Time::from_millis(30), cause: Cause::Loss, lost: 1500, in_flight: 45_000, srtt: Span::from_millis(85) };
    flow.on_congestion(&event);
    assert_eq!(segments(&flow), 15.0);
    flow.on_ack(&ack(200.0, 45.0));
    assert!(segments(&flow) < 8.0, "now the indications count");
}

proptest! {
    /// A constant delay never indicates congestion.
    #[test]
    fn constant_delay_is_no_congestion(owd in any::<i32>(), count in 1u32..200) {
        let mut flow = TcpLp::new(Config::default(), &Start::default());
        flow.learning = false;
        for i in 0..count {
            let one = Ack { owd: Some(i64::from(owd)), ..ack(f64::from(i), 0.0) };
            flow.on_ack(&one);
            prop_assert!(!flow.early_indication(&one));
        }
    }

    /// Any constant added to all delays changes nothing; no two reactions come within an RTT.
    #[test]
    fn zero_point_and_reaction_rate(offset in -1i64 << 50..1 << 50, delays in prop::collection::vec(0i64..300, 1..300)) {
        let (mut plain, mut shifted) = (flow(Config::default()), flow(Config::default()));
        if let Some(d) = shifted.delays.as_mut() {
            d.origin += offset;
        }
        let mut last: Option<Time> = None;
        for (i, delay) in delays.into_iter().enumerate() {
            let one = ack(i as f64 * 10.0, delay as f64);
            let before = plain.cwnd;
            plain.on_ack(&one);
            shifted.on_ack(&Ack { owd: one.owd.map(|d| d + offset), ..one });
            prop_assert_eq!(plain.cwnd, shifted.cwnd);
            if plain.cwnd < before {
                prop_assert!(last.is_none_or(|at| one.now.since(at) >= Span::from_millis(85)));
                last = Some(one.now);
            }
        }
    }
}
