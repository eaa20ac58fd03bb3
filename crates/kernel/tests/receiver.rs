//! bpf/receiver.h and bpf/path.h: the window on the wire, RTT, losses and the sharing of a path (spec F.2 to F.6).

use lowtide_kernel::Phase;
use lowtide_kernel::native::{Flow, In, Out, Path, Seen, UNKNOWN};
use proptest::prelude::*;

const MS: u64 = 1_000_000;

fn out(now_us: u64, ack: u32, tsval: u32, field: u16) -> Out {
    Out { now: now_us * 1000, ack, tsval, field, data: false }
}

fn segment(now_us: u64, seq: u32, len: u32, tsval: u32, tsecr: u32, rcv_nxt: u32) -> In {
    In { now: now_us * 1000, srtt: 20 * MS, seq, len, wire: len, tsval, tsecr, rcv_nxt, ce: false }
}

/// A flow that has said once what the kernel allows at `ack`.
fn open(scale: u8, share: u32, ack: u32, field: u16) -> Flow {
    let mut flow = Flow::new(0, 1460, scale, true);
    flow.set_share(share);
    assert_eq!(flow.send(&out(1, ack, 1, field)), field, "the first segment shows what was promised before");
    flow
}

#[test]
fn rounding_is_up_and_never_above_the_kernels() {
    // (scale, share, kernel's field later, expected)
    for (scale, share, kernel, want) in
        [(7u8, 2920u32, 500u16, 23u16), (14, 2920, 4, 1), (0, 70_000, 65_535, 65_535), (7, 1 << 29, 500, 500)]
    {
        let mut flow = open(scale, share, 0, 0);
        assert_eq!(flow.send(&out(2, 0, 2, kernel)), want, "scale {scale}, share {share}");
        assert_eq!(flow.edge(), u32::from(want) << scale);
    }
}

#[test]
fn a_reduction_is_paid_with_received_bytes() {
    let mut flow = open(0, 2920, 0, 60_000);
    for ack in (0..57_080).step_by(1460) {
        flow.send(&out(2, ack, 2, 60_000));
        assert_eq!(flow.edge(), 60_000, "at {ack}");
    }
    flow.send(&out(3, 57_080, 2, 60_000));
    assert_eq!(flow.edge(), 60_000);
    flow.send(&out(4, 58_540, 2, 60_000));
    assert_eq!(flow.edge(), 61_460);
}

#[test]
fn a_kernel_that_pulls_back_is_followed() {
    let mut flow = open(0, 50_000, 1000, 20_000);
    assert_eq!(flow.send(&out(2, 2000, 2, 5000)), 5000);
    assert_eq!(flow.send(&out(3, 2000, 3, 0)), 0, "zero only from the kernel");
    assert_eq!(flow.edge(), 21_000);
}

#[test]
fn duplicate_acks_keep_their_field() {
    let mut flow = open(0, 10_000, 1000, 10_000);
    assert_eq!(flow.receive(&segment(20, 2460, 1460, 90, 1, 1000)).got, 1460);
    flow.set_share(30_000);
    for now in 21..25 {
        assert_eq!(flow.send(&out(now, 1000, 2, 60_000)), 10_000);
    }
    assert_eq!(flow.send(&out(30, 3920, 3, 60_000)), 30_000, "the hole is filled");
}

/// F.6, labels: the edge tells which ACK released a segment, the timestamp alone does not.
#[test]
fn labels() {
    let mut flow = open(0, 3000, 0, 0);
    flow.send(&out(1_000, 0, 7, 60_000));
    flow.set_share(6000);
    flow.send(&out(1_400, 0, 7, 60_000));
    assert_eq!(flow.edge(), 6000);
    let seen = flow.receive(&segment(21_400, 4540, 1460, 90, 7, 4540));
    assert!(seen.rtt.abs_diff(20 * MS) < 2048, "{seen:?}");
    assert!(seen.limited);
    let early = flow.receive(&segment(21_450, 6000, 1460, 90, 8, 6000));
    assert_eq!(early.rtt, UNKNOWN, "an echo of something never sent");
}

#[test]
fn samples_are_neither_small_packets_nor_what_a_pause_left() {
    let mut flow = open(0, 60_000, 0, 60_000);
    flow.receive(&segment(20_000, 0, 1460, 90, 1, 0));
    flow.send(&out(20_010, 1460, 21, 60_000));
    assert_eq!(flow.receive(&segment(40_000, 1460, 40, 95, 21, 1460)).rtt, UNKNOWN, "a packet of 40 bytes");
    flow.send(&out(40_010, 1500, 41, 60_000));
    let paused = flow.receive(&segment(1_040_000, 1500, 1460, 1090, 41, 1500));
    assert_eq!(paused.rtt, UNKNOWN, "the peer had nothing to send for a second");
    flow.send(&out(1_040_010, 2960, 1041, 60_000));
    let next = flow.receive(&segment(1_060_010, 2960, 1460, 1095, 1041, 2960));
    assert!(next.rtt.abs_diff(20 * MS) < 2048, "{next:?}");
}

#[test]
fn retransmissions() {
    let start = || {
        let mut flow = open(0, 60_000, 1000, 60_000);
        flow.receive(&segment(20_000, 3540, 1460, 90, 1, 1000));
        flow
    };
    let seen = start().receive(&segment(20_500, 2000, 500, 91, 1, 1000));
    assert!(seen.lost && seen.retransmitted && seen.rtt == UNKNOWN, "S2 < S1 and TS2 > TS1: {seen:?}");
    assert!(!start().receive(&segment(20_500, 2000, 500, 90, 1, 1000)).lost, "same tick, a young hole: reordering");
    assert!(start().receive(&segment(40_500, 2000, 500, 90, 1, 1000)).lost, "same tick, an old hole");
    let old = start().receive(&segment(20_500, 500, 500, 95, 1, 1000));
    assert!(old.old && !old.lost, "below rcv_nxt: {old:?}");
    let mut two_holes = start();
    assert!(two_holes.receive(&segment(20_500, 1000, 500, 91, 1, 1000)).lost);
    let second = two_holes.receive(&segment(20_600, 2000, 500, 91, 1, 1500));
    assert!(second.retransmitted && !second.lost, "one episode a flight: {second:?}");
    let mut wrapped = open(0, 60_000, 1000, 60_000);
    wrapped.receive(&segment(20_000, 3540, 1460, 0xffff_fff0, 1, 1000));
    assert!(wrapped.receive(&segment(20_500, 2000, 500, 5, 1, 1000)).lost, "TSval 5 is newer than 0xfffffff0");
}

proptest! {
    /// F.6: whatever arrives and whatever the kernel wants to send, the edge on the wire never moves left (but where the
    /// kernel's own does), no field is above the kernel's, none is zero unless that is, duplicate ACKs carry equal fields.
    #[test]
    fn the_wire_is_never_lied_to(
        scale in 0u8..=14, start in any::<u32>(), timestamps in any::<bool>(),
        events in prop::collection::vec((0u8..8, 1u32..30_000, any::<u16>(), 0u32..200_000, 0u64..30_000), 1..300),
    ) {
        let mut flow = Flow::new(0, 1460, scale, timestamps);
        let (mut rcv_nxt, mut highest, mut ack, mut now, mut wire) = (start, start, start, 1u64, None::<u32>);
        let mut last: Option<(u32, u16, u16)> = None;
        let mut held = 0u32; // bytes received above a hole
        for (kind, len, field, share, gap) in events {
            now += gap;
            let tick = (now / 1000) as u32;
            match kind {
                0..=2 => { // in order
                    let end = rcv_nxt.wrapping_add(len);
                    flow.receive(&segment(now, rcv_nxt, len, tick, tick.wrapping_sub(20), rcv_nxt));
                    rcv_nxt = if held > 0 && end.wrapping_sub(highest) as i32 <= 0 { highest } else { end };
                    highest = rcv_nxt;
                    held = 0;
                    last = None;
                }
                3 => { // above a hole
                    let seq = highest.wrapping_add(len);
                    flow.receive(&segment(now, seq, 1460, tick, tick.wrapping_sub(20), rcv_nxt));
                    highest = seq.wrapping_add(1460);
                    held += 1460;
                    last = None;
                }
                4 => flow.set_share(share.max(2920)),
                _ => {
                    let fresh = ack != rcv_nxt;
                    ack = rcv_nxt;
                    let sent = flow.send(&out(now, ack, tick, field));
                    prop_assert!(sent <= field && (sent > 0 || field == 0));
                    let edge = ack.wrapping_add(u32::from(sent) << scale);
                    let kernel = ack.wrapping_add(u32::from(field) << scale);
                    if let Some(before) = wire {
                        let moved = edge.wrapping_sub(before) as i32;
                        prop_assert!(moved >= 0 || edge == kernel, "the edge moved by {moved}");
                    }
                    wire = Some(wire.map_or(edge, |b| if edge.wrapping_sub(b) as i32 > 0 { edge } else { b }));
                    if let (false, true, Some((a, k, f))) = (fresh, held > 0, last) {
                        if a == ack && k == field && i64::from(k) << scale >= i64::from(wire.unwrap_or(ack).wrapping_sub(ack)) {
                            prop_assert_eq!(f, sent, "a duplicate ACK with another window");
                        }
                    }
                    last = Some((ack, field, sent));
                }
            }
        }
    }
}

/// A sender, a queue and a receiver in a few lines: `rate` bytes a ms, `base` ms, one segment a time; the sender sends what
/// the window and its own `limit` allow. Returns the path's window and the largest queue (ms) over the last half.
struct Loop {
    flows: Vec<(Flow, u32, u32, u32)>, // receiver, rcv_nxt, sender's next byte, its permission
    path: Path,
    limit: u32,
    peak: u32,
    worst_queue: u64,
}

impl Loop {
    fn run(count: usize, limit: u32, seconds: u64, enhanced: bool) -> Loop {
        const MSS: u32 = 1448;
        let (base, service) = (20 * MS, 579_200u64); // 20 Mbit/s
        let mut world = Loop { flows: Vec::new(), path: Path::default(), limit: limit.saturating_mul(MSS), peak: 0, worst_queue: 0 };
        let mut wire: std::collections::BinaryHeap<std::cmp::Reverse<(u64, usize, u32, u32, u32)>> = std::collections::BinaryHeap::new();
        let mut link_free = 0u64;
        for _ in 0..count {
            let mut flow = Flow::new(0, MSS, 7, true);
            let first = flow.send(&Out { now: 1, ack: 0, tsval: 0, field: 23, data: false });
            world.flows.push((flow, 0, 0, u32::from(first) << 7));
        }
        let mut now = 2u64;
        let end = seconds * 1000 * MS;
        let mut echoed = vec![(0u32, 0u64); count]; // TSval the sender echoes, when it learnt it
        for i in 0..count {
            world.release(i, now, &mut link_free, service, base, &mut wire, echoed[i].0);
        }
        while let Some(std::cmp::Reverse((at, i, seq, tsecr, tsval))) = wire.pop() {
            now = at;
            if now > end {
                break;
            }
            let srtt = world.path.srtt();
            let (flow, rcv_nxt, ..) = &mut world.flows[i];
            let seen: Seen = flow.receive(&In { now, srtt, seq, len: MSS, wire: MSS, tsval, tsecr, rcv_nxt: *rcv_nxt, ce: false });
            *rcv_nxt = seq + MSS;
            world.path.receive(flow, &seen, now, enhanced);
            let tick = (now / MS) as u32;
            let field = flow.send(&Out { now, ack: *rcv_nxt, tsval: tick, field: 40_000, data: false });
            let edge = *rcv_nxt + (u32::from(field) << 7);
            world.flows[i].3 = edge;
            echoed[i] = (tick, now);
            if now > end / 2 {
                world.peak = world.peak.max(world.path.window() as u32);
                world.worst_queue = world.worst_queue.max(link_free.saturating_sub(now) / MS);
            }
            world.release(i, now, &mut link_free, service, base, &mut wire, tick);
        }
        world
    }

    #[expect(clippy::too_many_arguments, reason = "a toy world, spelt out")]
    fn release(
        &mut self,
        i: usize,
        now: u64,
        free: &mut u64,
        service: u64,
        base: u64,
        wire: &mut std::collections::BinaryHeap<std::cmp::Reverse<(u64, usize, u32, u32, u32)>>,
        tsecr: u32,
    ) {
        let (_, rcv_nxt, next, edge) = &mut self.flows[i];
        // The ACK takes no time back: the whole base delay lies on the way here.
        while *next + 1448 <= *edge && *next + 1448 - *rcv_nxt <= self.limit {
            *free = (*free).max(now) + service;
            wire.push(std::cmp::Reverse((*free + base, i, *next, tsecr, (now / MS) as u32)));
            *next += 1448;
        }
    }
}

/// F.6: a sender held at 10 segments by its own window for 60 s must not make ours grow. 12 segments (one tick of data is
/// slack), and the one round of slow start, a seventh, that passes before it shows.
#[test]
fn a_window_that_is_not_used_does_not_grow() {
    let world = Loop::run(1, 10, 60, false);
    assert!(world.peak <= 14 * 1448, "{} bytes", world.peak);
    assert!(world.peak >= 8 * 1448, "{} bytes", world.peak);
}

/// One, four and twenty flows of one group share one window: the queue stays about the target whatever their number.
#[test]
fn a_group_queues_as_one_flow() {
    for (count, enhanced, most) in [(1, false, 75), (4, false, 75), (20, false, 85), (1, true, 32), (4, true, 32), (20, true, 48)] {
        let world = Loop::run(count, u32::MAX / 1448, 60, enhanced);
        assert!(world.worst_queue <= most, "{count} flows, enhanced {enhanced}: {} ms", world.worst_queue);
        assert_eq!(world.path.flows(), count as u32);
        let total: u64 = world.flows.iter().map(|f| u64::from(f.1)).sum();
        assert!(total as f64 > 0.85 * 60.0 * 2_500_000.0, "{count} flows, enhanced {enhanced}: {total} bytes");
        assert!(world.path.base().is_some_and(|b| b.abs_diff(20 * MS) < 2 * MS), "base {:?}", world.path.base());
        assert_ne!(world.path.phase(), Phase::SlowStart);
    }
}
