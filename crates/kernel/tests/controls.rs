//! bpf/ledbat_pp.h behind bpf/control.h against tables worked out by hand from the draft. Beside its reference it is in lives.rs.

use lowtide_kernel::Phase;
use lowtide_kernel::native::{self, Control};

const MS: u64 = 1_000_000;

/// Its number in control.h.
const LEDBAT_PP: u32 = 1;

/// The start of a control with a window of so many segments.
fn begin(mss: u32, segments: u64) -> native::Start {
    native::Start { mss, window: segments * u64::from(mss), ..native::Start::default() }
}

fn loss(now: u64, srtt: u64) -> native::Congestion {
    native::Congestion { now, in_flight: 0, lost: 0, srtt, cause: native::Cause::Loss }
}

/// An acknowledgement as the tables assume it: window-limited, every one in a new round's flight.
fn plain(at_ms: u64, acked: u64, rtt: u64) -> native::Ack {
    native::Ack { now: at_ms * MS, acked, in_flight: 8000, rtt, srtt: 110 * MS, limited: true, ..native::Ack::default() }
}

/// A life worked out by hand from the draft, to a thousandth of a byte. In the freeze no more than the floor is in flight.
#[test]
fn worked_trace() {
    use Phase::{Avoidance, Freeze, Ramp, SlowStart};
    let rows: [(u64, u64, u64, Phase, f64); 24] = [
        (60, 1000, 60, SlowStart, 2500.0),
        (61, 1000, 61, SlowStart, 3000.0),
        (130, 2000, 66, SlowStart, 4000.0),
        (131, 1000, 68, SlowStart, 4500.0),
        (240, 2000, 106, SlowStart, 5500.0),
        (241, 1000, 107, SlowStart, 6000.0),
        (242, 1000, 108, SlowStart, 6500.0),
        (243, 1000, 106, Avoidance, 6500.0),
        (250, 1000, 112, Avoidance, 6576.923),
        (340, 1000, 124, Avoidance, 6652.946),
        (341, 1000, 126, Avoidance, 6728.101),
        (342, 1000, 127, Avoidance, 6802.416),
        (343, 1000, 128, Avoidance, 6809.253),
        (344, 1000, 190, Avoidance, 6782.682),
        (345, 1000, 220, Avoidance, 6739.733),
        (346, 1000, 220, Avoidance, 6680.586),
        (347, 1000, 220, Avoidance, 6180.586),
        (463, 1000, 118, Freeze, 2000.0),
        (530, 1000, 90, Freeze, 2000.0),
        (640, 2000, 64, Freeze, 2000.0),
        (700, 2000, 61, Ramp, 3000.0),
        (761, 3000, 60, Ramp, 4500.0),
        (822, 4000, 62, Avoidance, 6180.586),
        (900, 1000, 62, Avoidance, 6261.485),
    ];
    let mut flow = Control::new(LEDBAT_PP, &begin(1000, 2));
    for (row, (at, acked, rtt, phase, window)) in rows.into_iter().enumerate() {
        let in_flight = if phase == Freeze || phase == Ramp { 2000 } else { 8000 };
        flow.on_ack(&native::Ack { in_flight, ..plain(at, acked, rtt * MS) });
        assert_eq!(flow.show().phase(), phase, "row {}", row + 1);
        assert!((flow.show().window() - window).abs() < 1e-3, "row {}: {} is not {window}", row + 1, flow.show().window());
    }
    flow.on_ack(&native::Ack { in_flight: 8000, ..plain(4052, 1000, 62 * MS) });
    assert_eq!(flow.show().phase(), Avoidance);
    flow.on_ack(&native::Ack { in_flight: 8000, ..plain(4053, 1000, 62 * MS) });
    assert_eq!(flow.show().phase(), Freeze, "9 times 359 ms after 822");
}

/// The change of a window over one round at a constant queueing delay (worked out by hand from -01 §4.2 and Bagnulo 2023 §7), in packets.
fn change_per_round(enhanced: bool, base_us: u64, packets: u64, queueing_us: u64) -> f64 {
    let ack = |at, acked, rtt_us| native::Ack { srtt: 1 << 40, ..plain(at, acked, rtt_us * 1000) };
    let mut flow = Control::new(LEDBAT_PP, &native::Start { enhanced, ..begin(1000, 2 * packets) });
    flow.on_ack(&ack(0, 0, base_us));
    // A loss ends the initial slow start at `packets`; the fourth acknowledgement after it pushes the base out of the filter.
    flow.on_congestion(&loss(0, 1 << 40));
    for at in 1..4 {
        flow.on_ack(&ack(at, 0, base_us + queueing_us));
    }
    flow.on_ack(&ack(4, 1000 * packets, base_us + queueing_us));
    flow.show().window() / 1000.0 - packets as f64
}

#[test]
fn window_rule_tables() {
    let table = [
        (30_000, 0.5, 0.1667),
        (60_000, 0.5, 0.1667),
        (60_300, 0.0, -0.3333),
        (63_000, -4.5, -4.8333),
        (75_000, -24.5, -24.8333),
        (90_000, -49.5, -49.8333),
        (90_300, -50.0, -50.0),
        (120_000, -50.0, -50.0),
    ];
    for (queueing, half, sixth) in table {
        for (base, want) in [(60_000, half), (20_000, sixth)] {
            let got = change_per_round(false, base, 100, queueing);
            assert!((got - want).abs() < 1e-3, "base {base} us, qd {queueing} us: {got} is not {want}");
        }
    }
    for (queueing, want) in [(25_000, -14.8333), (30_000, -29.8333), (30_060, -30.0)] {
        let got = change_per_round(true, 20_000, 60, queueing);
        assert!((got - want).abs() < 1e-3, "enhanced, qd {queueing} us: {got} is not {want}");
    }
}

/// A burst of three segments at 1 Mbit/s (12 ms each) leaves 24 of 60 ms to its first; at 20 ms of target the floor's two are aimed at.
#[test]
fn a_burst_ends_at_the_target() {
    let change = |enhanced: bool, base_ms: u64, queueing_us: u64| {
        let mut flow = Control::new(LEDBAT_PP, &native::Start { enhanced, burst: 3, ..begin(1500, 16) });
        let ack = |at, acked, rtt_us: u64| native::Ack { srtt: 96 * MS, segment: 12 * MS, acked, ..plain(at, acked, rtt_us * 1000) };
        flow.on_ack(&ack(0, 0, base_ms * 1000));
        flow.on_congestion(&loss(0, 96 * MS));
        (1..4).for_each(|at| flow.on_ack(&ack(at, 0, base_ms * 1000 + queueing_us)));
        flow.on_ack(&ack(4, 1500, base_ms * 1000 + queueing_us));
        flow.show().window() - 8.0 * 1500.0
    };
    assert!(change(false, 20, 24_000) > 0.0 && change(false, 20, 25_500) < 0.0);
    assert!(change(true, 20, 20_000) > 0.0 && change(true, 20, 22_000) < 0.0, "no more than the target");
    assert!(change(true, 50, 24_000) > 0.0 && change(true, 50, 26_000) < 0.0, "the floor's two segments");
}

/// A receiver's slowdown: the window falls at once; its two RTTs at the floor (-01 §4.4) begin when what was permitted before has arrived.
#[test]
fn a_receiver_drains_before_it_freezes() {
    let mut flow = Control::new(LEDBAT_PP, &native::Start { receiver: true, ..begin(1000, 20) });
    let ack = |at, drained| native::Ack { drained, in_flight: 20_000, acked: 1000, srtt: 50 * MS, ..plain(at, 0, 50 * MS) };
    flow.on_ack(&ack(0, false));
    flow.on_congestion(&loss(0, 50 * MS));
    flow.on_ack(&ack(101, false));
    assert_eq!((flow.show().phase(), flow.show().window()), (Phase::Drain, 2000.0));
    flow.on_ack(&ack(140, false));
    assert_eq!(flow.show().phase(), Phase::Drain);
    flow.on_ack(&ack(150, true));
    assert_eq!(flow.show().phase(), Phase::Freeze);
    flow.on_ack(&ack(249, true));
    assert_eq!((flow.show().phase(), flow.show().window()), (Phase::Freeze, 2000.0));
    flow.on_ack(&ack(250, true));
    assert_eq!(flow.show().phase(), Phase::Ramp);
}
