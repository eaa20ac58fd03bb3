//! The scoreboard's counters against a recount.

use proptest::prelude::*;

use super::*;

fn board(segments: u32) -> Scoreboard {
    let mut board = Scoreboard::default();
    for _ in 0..segments {
        board.send_new(Stamp::default(), 1000);
    }
    board
}

#[test]
fn three_sacked_above_a_hole_make_it_lost() {
    let mut b = board(20);
    b.sack(1, 3, |_, _, _| {});
    assert_eq!(b.lost_below(3), 0);
    b.sack(3, 4, |_, _, _| {});
    assert_eq!(b.lost_below(3), 1);
    assert_eq!(b.mark_lost(0), 1000);
    assert_eq!((b.in_flight(), b.next_lost()), (16_000, Some(0)));
    b.send_again(0, Stamp::default());
    assert_eq!((b.in_flight(), b.next_lost()), (17_000, None));
    assert_eq!(b.mark_lost(0), 1000, "its retransmission is lost, too");
    assert_eq!((b.in_flight(), b.next_lost(), b.lost()), (16_000, Some(0), 1));
}

#[test]
fn a_block_tells_only_its_news() {
    let mut b = board(100);
    let mut news = Vec::new();
    for (from, to) in [(10, 12), (20, 22), (5, 30)] {
        b.sack(from, to, |seq, _, _| news.push(seq));
    }
    assert_eq!(news.len(), 25);
    assert_eq!((b.sacked(), b.sacked_to()), (25, 30));
    b.acknowledge(50, |seq, segment| news.extend((!segment.sacked).then_some(seq)));
    assert_eq!((news.len(), b.sacked(), b.una()), (50, 0, 50));
}

/// Linux counts a repair of what was not lost after all until it is acknowledged.
#[test]
fn losses_taken_back_leave_both_copies_in_flight() {
    let mut b = board(10);
    b.mark_lost(0);
    b.mark_lost(1);
    b.send_again(0, Stamp::default());
    b.take_back_losses();
    assert_eq!((b.in_flight(), b.lost(), b.resent(), b.next_lost()), (11_000, 0, 1, None));
    b.sack(0, 1, |_, _, _| {});
    assert_eq!((b.in_flight(), b.resent()), (10_000, 1));
    b.acknowledge(1, |_, _| {});
    assert_eq!((b.in_flight(), b.resent()), (9_000, 0));
}

fn copies(segment: &Segment) -> u64 {
    u64::from(!segment.sacked && !segment.lost) + u64::from(segment.resent)
}

proptest! {
    /// Whatever happens, the counters equal a recount and every segment is reported delivered exactly once.
    #[test]
    fn counters_match_a_recount(steps in prop::collection::vec((0u8..7, 0u32..200, 1u32..20), 1..300)) {
        let mut b = Scoreboard::default();
        let mut delivered = Vec::new();
        for (what, at, n) in steps {
            let some = b.una() + at % b.outstanding().max(1);
            match what {
                0 => for _ in 0..n { b.send_new(Stamp::default(), 1000); },
                1 => b.sack(b.una() + at, b.una() + at + n, |seq, _, _| delivered.push(seq)),
                2 => b.acknowledge(b.una() + n, |seq, segment| delivered.extend((!segment.sacked).then_some(seq))),
                3 => b.take_back_losses(),
                4 if b.outstanding() > 0 => { b.mark_lost(some); }
                5 if b.outstanding() > 0 && !b.segment(some).sacked && !b.segment(some).awaits_repair() => b.send_probe(some, Stamp::default()),
                _ => if let Some(seq) = b.next_lost() { b.send_again(seq, Stamp::default()) },
            }
            let count = |which: fn(&Segment) -> bool| (b.una()..b.nxt()).filter(|&s| which(b.segment(s))).count() as u32;
            let counted = (count(|s| s.sacked), count(|s| s.lost), count(|s| s.resent), count(Segment::awaits_repair));
            prop_assert_eq!(counted, (b.sacked(), b.lost(), b.resent(), b.awaiting_repair()));
            prop_assert_eq!(b.in_flight(), (b.una()..b.nxt()).map(|s| copies(b.segment(s)) * 1000).sum::<u64>());
            let listed: Vec<u32> = std::iter::successors(b.oldest_in_flight(), |&s| b.sent_after(s)).collect();
            prop_assert_eq!(listed.len() as u32, count(|s| !s.sacked && !s.awaits_repair()));
            prop_assert!(listed.windows(2).all(|w| b.segment(w[0]).order < b.segment(w[1]).order));
            prop_assert!(b.runs.windows(2).all(|w| w[0].1 < w[1].0));
            prop_assert_eq!(b.next_lost(), (b.una()..b.nxt()).find(|&s| b.segment(s).awaits_repair()));
        }
        let told = delivered.len();
        delivered.sort_unstable();
        delivered.dedup();
        prop_assert_eq!(told, delivered.len());
    }
}
