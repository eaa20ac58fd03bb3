//! The send buffer by hand, and its counters against a recount.

use super::*;
use proptest::prelude::*;

const BIG: u64 = 1 << 30;

/// `n` segments of 1000 bytes are out.
fn buffer(n: u32) -> TxBuffer {
    let mut buffer = TxBuffer::new(1000, BIG);
    buffer.add(u64::from(n) * 1000);
    (0..n).for_each(|seq| assert!(!buffer.copy_from_sequence(seq, 1000, Time::ZERO)));
    buffer
}

fn again(buffer: &mut TxBuffer, seq: u32) {
    assert!(buffer.copy_from_sequence(seq, 1000, Time::ZERO));
}

/// Ten out, all but the first two SACKed: both lost, sent again; the second repair arrives, the first does not. It stays in the pipe
/// until the hole is closed or the timer expires.
#[test]
fn a_repair_behind_a_hole_stays_in_the_pipe() {
    let mut b = buffer(10);
    b.update(&[(2, 10)], |_| {});
    assert_eq!((b.lost_out(), b.bytes_in_flight(), b.next_seg(BIG, false)), (2000, 0, Some((0, 1000))));
    again(&mut b, 0);
    again(&mut b, 1);
    b.update(&[(1, 10)], |_| {});
    assert_eq!((b.lost_out(), b.bytes_in_flight()), (1000, 2000));
    b.set_sent_list_lost();
    assert_eq!((b.lost_out(), b.bytes_in_flight()), (1000, 0));
    again(&mut b, 0);
    assert_eq!(b.bytes_in_flight(), 1000);
    b.discard_up_to(10, |_| {});
    assert_eq!((b.lost_out(), b.bytes_in_flight(), b.is_empty()), (0, 0, true));
}

#[test]
fn three_sacked_above_make_a_segment_lost() {
    let mut b = buffer(20);
    b.update(&[(1, 3)], |_| {});
    assert_eq!(b.lost_out(), 0);
    b.update(&[(1, 4)], |_| {});
    assert_eq!((b.lost_out(), b.bytes_in_flight()), (1000, 16_000));
}

/// What is SACKed just below the highest takes its place, and the one above no longer counts: four are needed then.
#[test]
fn an_item_just_below_the_highest_takes_its_place() {
    let mut b = buffer(10);
    b.update(&[(5, 6)], |_| {});
    b.update(&[(4, 6)], |_| {});
    b.update(&[(3, 6)], |_| {});
    assert_eq!(b.lost_out(), 0);
    b.update(&[(3, 6), (7, 8)], |_| {});
    assert_eq!(b.lost_out(), 3000, "7, 5 and 4: what is below 4");
}

/// Segments 0 and 3 of ten are lost: something between them is SACKed, or it is not.
#[test]
fn a_second_hole_counts_where_nothing_below_it_was_sacked() {
    for (from, seen) in [(1, false), (3, true)] {
        let mut b = buffer(10);
        b.update(&[(from, 3), (4, 10)], |_| {});
        assert_eq!(b.is_lost(1), seen);
    }
}

/// Rule 3 repeats what is not known to be lost where nothing new can be had: it is in the pipe twice.
#[test]
fn a_repair_of_what_was_not_lost_is_beside_its_original() {
    let mut b = buffer(3);
    assert_eq!((b.next_seg(BIG, false), b.next_seg(BIG, true)), (None, Some((0, 1000))));
    again(&mut b, 0);
    assert_eq!((b.bytes_in_flight(), b.next_seg(BIG, true)), (4000, Some((1, 1000))));
    b.add(1000);
    assert_eq!(b.next_seg(BIG, true), Some((3, 1000)), "new data first");
    assert_eq!(b.next_seg(2999, true), None, "the peer's window is full");
}

/// Room for 2.6 segments: two whole ones are taken in, the third when one is acknowledged; a shorter last one where it fits.
#[test]
fn a_segment_that_does_not_fit_in_whole_waits() {
    let mut b = TxBuffer::new(1000, 2600);
    b.add(3500);
    assert_eq!(b.unsent(), 2000);
    (0..2).for_each(|seq| assert!(!b.copy_from_sequence(seq, 1000, Time::ZERO)));
    assert_eq!((b.unsent(), b.next_seg(BIG, false)), (0, None));
    b.discard_up_to(1, |_| {});
    assert_eq!((b.unsent(), b.next_seg(BIG, false)), (1500, Some((2, 1000))));
}

proptest! {
    /// Whatever happens, the counters equal a recount.
    #[test]
    fn counters_match_a_recount(steps in prop::collection::vec((0u8..6, 0u32..60, 1u32..20), 1..200)) {
        let mut b = TxBuffer::new(1000, BIG);
        b.add(u64::MAX);
        for (what, at, n) in steps {
            match what {
                0 => for _ in 0..n { let seq = b.high_tx(); b.copy_from_sequence(seq, 1000, Time::ZERO); },
                1 => { let from = b.head() + 1 + at; b.update(&[(from, from + n)], |_| {}); },
                2 => {
                    // Never onto what is SACKed: it would have been acknowledged.
                    let mut to = (b.head() + n).min(b.high_tx());
                    while to < b.high_tx() && b.flag(to) & SACKED != 0 { to += 1; }
                    b.discard_up_to(to, |_| {});
                }
                3 => for _ in 0..n {
                    if let Some((seq, _)) = b.next_seg(BIG, true) { b.copy_from_sequence(seq, 1000, Time::ZERO); }
                },
                4 => b.mark_head_as_lost(),
                _ => b.set_sent_list_lost(),
            }
            let count = |flag: u8| 1000 * b.flags.iter().filter(|flags| **flags & flag != 0).count() as u32;
            prop_assert_eq!((b.sacked_out, b.lost_out, b.retrans), (count(SACKED), count(LOST), count(RETRANS)));
            let waiting: Vec<u32> = (b.head()..b.high_tx()).filter(|seq| is_waiting(b.flag(*seq))).collect();
            prop_assert_eq!(b.waiting as usize, waiting.len());
            prop_assert!(waiting.first().is_none_or(|first| b.waiting_from.max(b.head) <= *first));
            prop_assert_eq!(b.sent_size, 1000 * b.sent.len() as u64);
        }
    }
}
