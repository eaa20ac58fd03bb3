//! When a receiver acknowledges and what it says.

use lowtide_net::Ecn;

use super::*;
use crate::packet::TCP_HEADER;
use crate::pair::Receiving as _;

fn segment(seq: u32) -> Packet {
    Packet { seq, ..Packet::new(0, Kind::Data, 1448 + TCP_HEADER, Time::ZERO) }
}

fn receiver(every: u32, quick: u32) -> Receiver {
    Receiver::new(0, ReceiverConfig { every, quick, grows: false, ..ReceiverConfig::linux(1448) })
}

#[test]
fn every_second_segment_or_the_timer() {
    let mut r = receiver(2, 0);
    assert!(r.answer_to(&segment(0), Time::from_millis(1)).is_none());
    assert_eq!(r.deadline(), Some(Time::from_millis(41)));
    assert_eq!(r.answer_to(&segment(1), Time::from_millis(2)).map(|a| a.seq), Some(2));
    assert_eq!(r.deadline(), None);
    r.answer_to(&segment(2), Time::from_millis(3));
    assert!(r.late_answer(Time::from_millis(42)).is_none());
    assert_eq!(r.late_answer(Time::from_millis(43)).map(|a| a.seq), Some(3));
}

#[test]
fn the_end_of_a_transfer_waits_for_no_timer() {
    let mut r = receiver(2, 0);
    assert_eq!(r.answer_to(&Packet { fin: true, ..segment(0) }, Time::ZERO).map(|a| a.seq), Some(1));
}

#[test]
fn the_first_segments_are_acknowledged_at_once_and_those_after_a_duplicate() {
    let mut r = receiver(2, 16);
    let acks =
        |r: &mut Receiver, segments: std::ops::Range<u32>| segments.filter(|&n| r.answer_to(&segment(n), Time::ZERO).is_some()).count();
    assert_eq!(acks(&mut r, 0..32), 16 + 8);
    assert_eq!(acks(&mut r, 31..32), 1, "a duplicate, with DSACK");
    assert_eq!(acks(&mut r, 32..64), 15 + 8, "fifteen more: its own acknowledgement was the first of sixteen");
}

/// Linux `tcp_incr_quickack`: no more than fill half the window, two where that is none.
#[test]
fn a_small_window_has_fewer_quick_acknowledgements() {
    for (segments, quick) in [(40, 16), (20, 10), (3, 1), (1, 2)] {
        let config = ReceiverConfig { quick: 0, grows: false, buffer: segments * 1448, ..ReceiverConfig::linux(1448) };
        let mut r = Receiver::new(0, config);
        r.answer_to(&segment(0), Time::ZERO);
        r.answer_to(&segment(0), Time::ZERO).expect("a duplicate is answered");
        let alone = (1..40).take_while(|&n| r.answer_to(&segment(n), Time::ZERO).is_some()).count();
        assert_eq!(alone, quick - 1, "{segments}");
    }
}

#[test]
fn the_newest_run_comes_first_and_a_filled_hole_is_told_at_once() {
    let mut r = receiver(2, 0);
    let sack = |r: &mut Receiver, n| r.answer_to(&segment(n), Time::ZERO).expect("out of order").sack;
    assert_eq!(sack(&mut r, 1)[0], (1, 2));
    assert_eq!(sack(&mut r, 5)[..2], [(5, 6), (1, 2)]);
    assert_eq!(sack(&mut r, 2)[..2], [(1, 3), (5, 6)]);
    assert_eq!(sack(&mut r, 9), [(9, 10), (1, 3), (5, 6)]);
    assert_eq!(sack(&mut r, 5)[..2], [(5, 6), (9, 10)], "duplicate first, then the newest run");
    assert_eq!(r.answer_to(&segment(0), Time::ZERO).map(|a| a.seq), Some(3));
    assert_eq!(r.delivered(), 3 * 1448);
}

#[test]
fn a_short_last_segment_counts_its_bytes_wherever_it_arrives() {
    for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0], [0, 2, 1]] {
        let mut r = receiver(2, 0);
        for seq in order {
            let size = TCP_HEADER + if seq == 2 { 100 } else { 1448 };
            r.answer_to(&Packet { size, ..segment(seq) }, Time::ZERO);
        }
        assert_eq!(r.delivered(), 2 * 1448 + 100, "{order:?}");
    }
}

/// Of segments that left at 1, 2, …: RFC 7323 §4.3's cases (A), (B) and (C).
#[test]
fn the_echo_is_that_of_the_first_segment_not_yet_acknowledged() {
    let mut r = receiver(2, 0);
    let at = |seq, ms| Packet { sent: Time::from_millis(ms), ..segment(seq) };
    assert!(r.answer_to(&at(0, 1), Time::from_millis(9)).is_none());
    let echo = |r: &mut Receiver, seq, ms| r.answer_to(&at(seq, ms), Time::from_millis(9)).map(|a| a.echo.nanos() / 1_000_000);
    assert_eq!(echo(&mut r, 1, 2), Some(1), "a delayed acknowledgement answers the earlier");
    assert_eq!(echo(&mut r, 3, 4), Some(1), "above a hole: the last in order");
    assert_eq!(echo(&mut r, 4, 5), Some(1));
    assert_eq!(echo(&mut r, 2, 8), Some(8), "what fills the hole");
}

fn marked(seq: u32, ce: bool, cwr: bool) -> Packet {
    Packet { ecn: if ce { Ecn::Ce } else { Ecn::Ect0 }, cwr, ..segment(seq) }
}

/// RFC 3168 §6.1.3: a lost acknowledgement loses no mark.
#[test]
fn a_mark_is_echoed_until_the_sender_answers() {
    let mut r = receiver(1, 0);
    let mut ece = |seq, ce, cwr| r.answer_to(&marked(seq, ce, cwr), Time::ZERO).expect("each is acknowledged").ece;
    let echoed = [ece(0, false, false), ece(1, true, false), ece(2, false, false), ece(3, false, true), ece(4, false, false)];
    assert_eq!(echoed, [false, true, true, false, false]);
    assert!(ece(5, true, true), "a mark that arrives with the answer is a new one");
}

/// RFC 8257 §3.2: what came before a change of marks is acknowledged with the old state, what follows at once with the new.
#[test]
fn for_dctcp_each_change_of_marks_is_told_at_once() {
    let config = ReceiverConfig { quick: 0, grows: false, marks: MarkEcho::EachChange, ..ReceiverConfig::linux(1448) };
    let mut r = Receiver::new(0, config);
    let now = Time::from_millis(5);
    let told = |ack: Option<Packet>| ack.map(|a| (a.seq, a.ece));
    assert_eq!(told(r.answer_to(&marked(0, false, false), now)), None);
    assert_eq!(told(r.answer_to(&marked(1, true, false), now)), Some((1, false)));
    assert_eq!(r.deadline(), Some(now));
    assert_eq!(told(r.late_answer(now)), Some((2, true)));
    assert_eq!(told(r.answer_to(&marked(2, true, false), now)), None);
    assert_eq!(told(r.answer_to(&marked(3, true, false), now)), Some((4, true)));
    assert_eq!(told(r.answer_to(&marked(4, false, false), now)), Some((5, false)), "nothing was held back");
}

#[test]
fn a_window_probe_is_answered() {
    let mut r = receiver(2, 0);
    r.answer_to(&segment(0), Time::ZERO);
    let probe = Packet { size: TCP_HEADER, ..segment(0) };
    assert_eq!(r.answer_to(&probe, Time::ZERO).map(|a| (a.seq, a.sack)), Some((1, [(0, 0); 3])));
}

#[test]
fn the_window_field_is_rounded_down_to_its_unit() {
    let config = ReceiverConfig { buffer: 100_000, scale: 14, ..ReceiverConfig::linux(1448) };
    let ack = Receiver::new(0, config).answer_to(&segment(0), Time::ZERO).expect("quick");
    assert_eq!(ack.window, 6 * 16384);
}
