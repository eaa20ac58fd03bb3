//! RACK (RFC 8985): a segment is lost when one sent sufficiently later has been delivered. Knows times of transmission, not
//! windows.

use lowtide_units::{Span, Time};

use super::sack::{Scoreboard, Segment};

/// Recoveries without a DSACK after which the reordering window shrinks again (RFC 8985 §6.2).
const CALM_RECOVERIES: u32 = 16;
/// SACKed segments that make reordering unlikely (RFC 8985 §6.2, DupThresh).
const DUP_THRESHOLD: u32 = 3;

/// The state of one connection.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rack {
    /// Place among the transmissions and RTT of the most recently sent segment that was delivered.
    order: u32,
    rtt: Span,
    /// Highest segment delivered plus one: an older one delivered later was reordered.
    highest: u32,
    reordering: bool,
    /// Quarters of the minimum RTT in the reordering window, minus one.
    widened: u64,
    calm: u32,
}

impl Rack {
    /// `segment` was delivered.
    pub fn on_delivered(&mut self, seq: u32, segment: &Segment, now: Time, min_rtt: Span) {
        let rtt = now.since(segment.stamp.sent);
        if segment.retransmitted {
            // Faster than the path allows: this is the original's acknowledgement.
            if rtt < min_rtt {
                return;
            }
        } else {
            self.reordering |= seq + 1 < self.highest;
        }
        self.highest = self.highest.max(seq + 1);
        if segment.order > self.order {
            (self.order, self.rtt) = (segment.order, rtt);
        }
    }

    /// A duplicate SACK: something was sent again for nothing, so the window was too narrow.
    pub fn on_dsack(&mut self) {
        self.widened = (self.widened + 1).min(63);
        self.reordering = true;
        self.calm = 0;
    }

    /// A recovery ended without a duplicate SACK.
    pub fn on_recovered(&mut self) {
        self.calm += 1;
        if self.calm >= CALM_RECOVERIES {
            (self.widened, self.calm) = (0, 0);
        }
    }

    /// Whether segments have been seen to overtake each other.
    pub fn sees_reordering(&self) -> bool {
        self.reordering
    }

    /// How long a segment may be overtaken (RFC 8985 §6.2 step 4).
    pub fn reordering_window(&self, in_recovery: bool, sacked: u32, min_rtt: Span, srtt: Span) -> Span {
        if !self.reordering && (in_recovery || sacked >= DUP_THRESHOLD) {
            return Span::ZERO;
        }
        (min_rtt * (1 + self.widened) / 4).min(srtt)
    }

    /// Marks what is lost by now; returns its bytes and when to look again.
    pub fn detect(&self, board: &mut Scoreboard, now: Time, window: Span) -> (u64, Option<Time>) {
        let mut lost = 0;
        while let Some(seq) = board.oldest_in_flight() {
            let segment = board.segment(seq);
            if segment.order >= self.order {
                break;
            }
            let due = segment.stamp.sent + self.rtt + window;
            if now < due {
                return (lost, Some(due));
            }
            lost += board.mark_lost(seq);
        }
        (lost, None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stacks::ns3::rate::Stamp;

    const MIN_RTT: Span = Span::from_millis(40);
    const SRTT: Span = Span::from_millis(50);

    /// Five segments sent at 0; SACKs for `sacked` of them (not the first) arrive at 50 ms.
    fn after(sacked: u32) -> (Rack, Scoreboard) {
        let mut board = Scoreboard::default();
        for _ in 0..5 {
            board.send_new(Stamp::default(), 1000);
        }
        let mut rack = Rack::default();
        board.sack(1, 1 + sacked, |seq, s| rack.on_delivered(seq, s, Time::from_millis(50), MIN_RTT));
        (rack, board)
    }

    #[test]
    fn three_sacks_mean_lost_at_once_one_means_ten_milliseconds_later() {
        // Spec K.3's check.
        for (sacked, wait_ms) in [(3, 0), (1, 10)] {
            let (rack, mut board) = after(sacked);
            let window = rack.reordering_window(false, sacked, MIN_RTT, SRTT);
            assert_eq!(window, Span::from_millis(wait_ms));
            let (lost, again) = rack.detect(&mut board, Time::from_millis(50), window);
            assert_eq!(lost, if wait_ms == 0 { 1000 } else { 0 });
            if let Some(again) = again {
                assert_eq!(again, Time::from_millis(60));
                assert_eq!(rack.detect(&mut board, again, window), (1000, None));
            }
        }
    }

    #[test]
    fn a_lost_retransmission_is_found() {
        let (mut rack, mut board) = after(3);
        rack.detect(&mut board, Time::from_millis(50), Span::ZERO);
        let at = |ms| Stamp { sent: Time::from_millis(ms), ..Stamp::default() };
        board.send_again(0, at(50));
        let new = board.send_new(at(51), 1000);
        board.sack(new, new + 1, |seq, s| rack.on_delivered(seq, s, Time::from_millis(101), MIN_RTT));
        assert_eq!(rack.detect(&mut board, Time::from_millis(101), Span::ZERO), (2000, None), "segments 0 and 4");
        assert_eq!(board.next_lost(), Some(0));
    }

    #[test]
    fn duplicate_sacks_widen_the_window_and_calm_narrows_it() {
        let (mut rack, _) = after(3);
        rack.on_dsack();
        assert_eq!(rack.reordering_window(true, 9, MIN_RTT, SRTT), Span::from_millis(20));
        for _ in 0..CALM_RECOVERIES {
            rack.on_recovered();
        }
        assert_eq!(rack.reordering_window(true, 9, MIN_RTT, SRTT), Span::from_millis(10));
    }
}
