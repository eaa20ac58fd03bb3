//! bpf/receiver.h and bpf/path.h: the window on the wire, RTT, losses and the sharing of a path (docs/algorithms/receiver.md).

use lowtide_kernel::native::{Flow, In, Out, UNKNOWN};
use proptest::prelude::*;

const MS: u64 = 1_000_000;

fn out(now_us: u64, ack: u32, tsval: u32, field: u16) -> Out {
    Out { now: now_us * 1000, ack, tsval, field, ..Out::default() }
}

fn segment(now_us: u64, seq: u32, len: u32, tsval: u32, tsecr: u32, rcv_nxt: u32) -> In {
    In { now: now_us * 1000, seq, len, wire: len, tsval, tsecr, rcv_nxt, ce: false }
}

/// A flow that has said once what the kernel allows at `ack`.
fn open(scale: u8, share: u32, ack: u32, field: u16) -> Flow {
    let mut flow = Flow::new(0, 1460, scale, true);
    flow.set_window(share);
    flow.set_srtt(20 * MS);
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
    flow.set_window(30_000);
    for now in 21..25 {
        assert_eq!(flow.send(&out(now, 1000, 2, 60_000)), 10_000);
    }
    assert_eq!(flow.send(&out(30, 3920, 3, 60_000)), 30_000, "the hole is filled");
}

/// A record that egress is writing while ingress looks, or that is half written when the processor changes: its time is new, its TSval and edge
/// are those of 1024 records ago. It must not give an RTT: `rx_oldest` leaves its slot out, the oldest record gives no sample, and what was
/// written over while it was read is told by `head` (for which it takes two processors). Any one of the three is enough here.
#[test]
fn a_record_that_is_half_written_gives_no_rtt() {
    for timestamps in [true, false] {
        let mut flow = Flow::new(0, 1460, 0, timestamps);
        flow.set_window(3000);
        let tsval = |i: u32| if timestamps { i } else { 0 };
        for i in 0..1030u32 {
            flow.send(&out(u64::from(i) * 1000, i * 1460, tsval(i), 60_000));
        }
        // The oldest records are those of ACKs 6 and 7; the next that is written goes where ACK 6's is.
        flow.tear(1_035_000 * MS);
        for i in 0..10 {
            let label = 6 + i;
            let end = label * 1460 + 3000;
            let report = flow.receive(&segment(1_036_000, end - 1460, 1460, 90, tsval(label), end - 1460));
            assert!(report.rtt == UNKNOWN || report.rtt > 1000 * MS, "record {label}, timestamps {timestamps}: {report:?}");
        }
    }
}

/// The ACK showed the kernel's own edge: what that permits left earlier than any record of ours says, and no later ACK may take it back.
#[test]
fn an_acknowledgement_that_could_not_be_lowered_is_counted_as_it_left() {
    let mut flow = open(0, 3000, 0, 0);
    let refused = out(10, 0, 2, 60_000);
    assert_eq!(flow.send(&refused), 3000);
    flow.not_lowered(&refused);
    assert_eq!(flow.edge(), 60_000);
    let report = flow.receive(&segment(40, 0, 1460, 90, 2, 0));
    assert_eq!((report.got, report.rtt), (1460, UNKNOWN), "it may have been permitted before");
    assert_eq!(flow.send(&out(50, 1460, 3, 60_000)), 58_540, "the edge stays");
}

/// The edge tells which ACK released a segment, the timestamp alone does not.
#[test]
fn labels() {
    let mut flow = open(0, 3000, 0, 0);
    flow.send(&out(1_000, 0, 7, 60_000));
    flow.set_window(6000);
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
    assert!(old.ignored && !old.lost, "below rcv_nxt: {old:?}");
    let mut two_holes = start();
    assert!(two_holes.receive(&segment(20_500, 1000, 500, 91, 1, 1000)).lost);
    let second = two_holes.receive(&segment(20_600, 2000, 500, 91, 1, 1500));
    assert!(second.retransmitted && !second.lost, "one episode a flight: {second:?}");
    let mut wrapped = open(0, 60_000, 1000, 60_000);
    wrapped.receive(&segment(20_000, 3540, 1460, 0xffff_fff0, 1, 1000));
    assert!(wrapped.receive(&segment(20_500, 2000, 500, 5, 1, 1000)).lost, "TSval 5 is newer than 0xfffffff0");
}

proptest! {
    /// Whatever arrives, whatever the kernel wants to send, and whatever of it lowtide's program does not see (an interface made anew, a
    /// clsact filter asleep, for a second or for one ACK) or cannot write: the edge on the wire never moves left (but where the kernel's
    /// own does), no field is above the kernel's, none is zero unless that is, duplicate ACKs carry equal fields.
    #[test]
    fn the_wire_is_never_lied_to(
        scale in 0u8..=14, start in any::<u32>(), timestamps in any::<bool>(), pulls_back in any::<bool>(),
        events in prop::collection::vec((0u8..10, 1u32..30_000, any::<u16>(), 0u32..200_000, 0u64..30_000), 1..300),
    ) {
        let mut flow = Flow::new(0, 1460, scale, timestamps);
        let (mut rcv_nxt, mut highest, mut ack, mut now, mut wire) = (start, start, start, 1u64, None::<u32>);
        let mut last: Option<(u32, u16, u16)> = None;
        let mut held = 0u32; // bytes received above a hole
        let (mut before, mut unseen, mut own) = (1u32, false, None::<u32>);
        for (kind, len, field, window, gap) in events {
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
                3 => { // above a hole, so far as it is permitted and echoes what we sent
                    let seq = highest.wrapping_add(len);
                    let taken = flow.receive(&segment(now, seq, 1460, tick, tick.wrapping_sub(20), rcv_nxt));
                    if !taken.ignored {
                        highest = seq.wrapping_add(1460);
                        held += 1460;
                        last = None;
                    }
                }
                4 => flow.set_window(window.max(2920)),
                8 if !pulls_back => {
                    unseen = !unseen;
                    now += if unseen { 1_000_000 } else { 0 };
                }
                _ => {
                    let fresh = ack != rcv_nxt;
                    ack = rcv_nxt;
                    let mut field = field;
                    // Linux keeps its edge and rounds up what is left of the window (tcp_select_window).
                    if let (Some(edge), false) = (own, pulls_back) {
                        let left = edge.wrapping_sub(ack);
                        let least = if left as i32 > 0 { left.div_ceil(1 << scale) } else { 0 };
                        field = field.max(least.min(65_535) as u16);
                        if least > 65_535 {
                            continue; // A kernel would not have promised so much.
                        }
                    }
                    let kernel = ack.wrapping_add(u32::from(field) << scale);
                    own = Some(kernel);
                    let segment = Out { before, segs: 1, ..out(now, ack, tick, field) };
                    let mut sent = if unseen { field } else { flow.send(&segment) };
                    let refused = kind == 9 && sent != field;
                    if refused {
                        flow.not_lowered(&segment);
                        sent = field;
                    }
                    before += 1;
                    prop_assert!(sent <= field && (sent > 0 || field == 0));
                    let edge = ack.wrapping_add(u32::from(sent) << scale);
                    if let Some(was) = wire {
                        let moved = edge.wrapping_sub(was) as i32;
                        prop_assert!(moved >= 0 || edge == kernel, "the edge moved by {moved}");
                    }
                    wire = Some(wire.map_or(edge, |b| if edge.wrapping_sub(b) as i32 > 0 { edge } else { b }));
                    if let (false, false, true, Some((a, k, f))) = (unseen || refused, fresh, held > 0, last)
                        && a == ack && k == field && i64::from(k) << scale >= i64::from(wire.unwrap_or(ack).wrapping_sub(ack)) {
                            prop_assert_eq!(f, sent, "a duplicate ACK with another window");
                    }
                    last = (!unseen).then_some((ack, field, sent));
                }
            }
        }
    }
}
