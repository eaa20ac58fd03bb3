//! RACK (RFC 8985 as Linux 6.18 has it, `tcp_recovery.c`): a segment is lost when one sent sufficiently later has been
//! delivered. Knows times of transmission and what is SACKed, no windows.

use lowtide_units::{Span, Time};

use super::scoreboard::{Scoreboard, Segment};

/// Recoveries for which a widened reordering window lasts (Linux `TCP_RACK_RECOVERY_THRESH`).
const PERSIST: u32 = 16;
/// Segments out of order that are expected at first (Linux `net.ipv4.tcp_reordering`); SACKed ones that make a loss likely.
pub const DUP_THRESHOLD: u32 = 3;
/// The largest degree of reordering that is remembered (`net.ipv4.tcp_max_reordering`).
const MAX_REORDERING: u32 = 300;
/// The most quarters of the minimum RTT that the window is widened to (`tcp_rack_update_reo_wnd`).
const MAX_STEPS: u64 = 255;

/// The state of one connection (Linux `tp->rack`, `tp->reordering`, `tp->reord_seen`).
#[derive(Clone, Copy, Debug)]
pub struct Rack {
    /// Of the most recently sent segment that was delivered: its place among the transmissions.
    order: u32,
    /// RTT of the segment delivered last.
    rtt: Span,
    /// The running acknowledgement delivered something: losses are looked for again.
    advanced: bool,
    /// The reordering window in quarters of the minimum RTT.
    steps: u64,
    /// Recoveries for which `steps` stays.
    persist: u32,
    /// A duplicate was reported since the window was last adjusted.
    dsack: bool,
    /// What had been delivered when the window was widened.
    widened_at: u64,
    reordering_seen: bool,
    reordering: u32,
}

impl Default for Rack {
    fn default() -> Rack {
        Rack {
            order: 0,
            rtt: Span::ZERO,
            advanced: false,
            steps: 1,
            persist: 0,
            dsack: false,
            widened_at: 0,
            reordering_seen: false,
            reordering: DUP_THRESHOLD,
        }
    }
}

impl Rack {
    /// `segment` was delivered (`tcp_rack_advance`).
    pub fn on_delivered(&mut self, segment: &Segment, now: Time, min_rtt: Span) {
        let rtt = now.since(segment.stamp.sent);
        // Faster than the path allows: this answers the original, not the retransmission.
        if segment.retransmitted && rtt < min_rtt {
            return;
        }
        self.advanced = true;
        self.rtt = rtt;
        self.order = self.order.max(segment.order);
    }

    /// Segment `seq`, never sent again, arrived after those below `highest` (`tcp_check_sack_reordering`).
    pub fn on_reordering(&mut self, seq: u32, highest: u32) {
        if seq < highest {
            self.reordering = self.reordering.max((highest - seq).min(MAX_REORDERING));
            self.reordering_seen = true;
        }
    }

    /// A duplicate SACK that answers no probe: after reordering was seen, something was sent again too early (`tcp_dsack_seen`).
    pub fn on_dsack(&mut self) {
        self.dsack |= self.reordering_seen;
    }

    /// Widens the reordering window, once a round trip at most (`tcp_rack_update_reo_wnd`). `prior`: what had been delivered when the
    /// newest segment acknowledged now was sent; `delivered`: what has been by now.
    pub fn update_window(&mut self, prior: u64, delivered: u64) {
        if prior < self.widened_at {
            self.dsack = false;
        }
        if self.dsack {
            (self.steps, self.persist, self.dsack) = ((self.steps + 1).min(MAX_STEPS), PERSIST, false);
            self.widened_at = delivered;
        } else if self.persist == 0 {
            self.steps = 1;
        }
    }

    /// A recovery ended and was not for nothing (`tcp_try_undo_recovery`).
    pub fn on_recovered(&mut self) {
        self.persist = self.persist.saturating_sub(1);
    }

    /// A reduction was given back because every retransmission was reported as a duplicate (`tcp_try_undo_dsack`).
    pub fn on_undone_by_dsack(&mut self) {
        self.persist = (self.persist + 1).min(PERSIST);
    }

    /// The reduction was for nothing: losses are judged anew (`tcp_undo_cwnd_reduction`).
    pub fn judge_again(&mut self) {
        self.advanced = true;
    }

    /// Whether more than the usual reordering has been seen: windows grow on SACKs, too (`tcp_may_raise_cwnd`).
    pub fn expects_reordering(&self) -> bool {
        self.reordering > DUP_THRESHOLD
    }

    /// A timer expired with `sacked` segments SACKed: if those are many, the degree of reordering was overestimated (`tcp_enter_loss`).
    pub fn expect_less_reordering(&mut self, sacked: u32) {
        if sacked >= DUP_THRESHOLD {
            self.reordering = self.reordering.min(DUP_THRESHOLD);
        }
    }

    /// How long a segment may be overtaken (`tcp_rack_reo_wnd`).
    pub fn reordering_window(&self, in_recovery: bool, sacked: u32, min_rtt: Span, srtt: Span) -> Span {
        if !self.reordering_seen && (in_recovery || sacked >= self.reordering) {
            return Span::ZERO;
        }
        (min_rtt * self.steps / 4).min(srtt)
    }

    /// Marks what is lost by now if this acknowledgement delivered anything (`tcp_rack_mark_lost`).
    pub fn detect_on_ack(&mut self, board: &mut Scoreboard, now: Time, window: Span) -> (u64, Option<Time>) {
        if !std::mem::take(&mut self.advanced) {
            return (0, None);
        }
        self.detect(board, now, window)
    }

    /// Marks what is lost by now; returns its bytes and when to look again: when all that was sent early enough has had its time
    /// (`tcp_rack_detect_loss`).
    pub fn detect(&self, board: &mut Scoreboard, now: Time, window: Span) -> (u64, Option<Time>) {
        let (mut lost, mut again) = (0, None);
        let mut next = board.oldest_in_flight();
        while let Some(seq) = next {
            let segment = board.segment(seq);
            if segment.order >= self.order {
                break;
            }
            let due = segment.stamp.sent + self.rtt + window;
            next = board.sent_after(seq);
            if due <= now {
                lost += board.mark_lost(seq);
            } else {
                again = again.max(Some(due));
            }
        }
        (lost, again)
    }

    /// Whether a segment sent at `sent` should have been answered by now, reordering aside (`tcp_rack_skb_timeout`).
    pub fn is_overdue(&self, sent: Time, now: Time) -> bool {
        sent + self.rtt <= now
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::rate::Stamp;

    const MIN_RTT: Span = Span::from_millis(40);
    const SRTT: Span = Span::from_millis(50);

    /// Five segments sent at 0; SACKs for `sacked` of them (not the first) arrive at 50 ms.
    fn after(sacked: u32) -> (Rack, Scoreboard) {
        let mut board = Scoreboard::default();
        for _ in 0..5 {
            board.send_new(Stamp::default(), 1000);
        }
        let mut rack = Rack::default();
        board.sack(1, 1 + sacked, |_, s, _| rack.on_delivered(s, Time::from_millis(50), MIN_RTT));
        (rack, board)
    }

    /// RFC 8985 §6.2 step 4: without reordering seen, three SACKed segments leave no reordering window.
    #[test]
    fn three_sacks_mean_lost_at_once_one_means_a_quarter_of_the_rtt_later() {
        for (sacked, wait_ms) in [(3, 0), (1, 10)] {
            let (mut rack, mut board) = after(sacked);
            let window = rack.reordering_window(false, sacked, MIN_RTT, SRTT);
            assert_eq!(window, Span::from_millis(wait_ms));
            let (lost, again) = rack.detect_on_ack(&mut board, Time::from_millis(50), window);
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
        board.sack(new, new + 1, |_, s, _| rack.on_delivered(s, Time::from_millis(101), MIN_RTT));
        assert_eq!(rack.detect(&mut board, Time::from_millis(101), Span::ZERO), (2000, None), "segments 0 and 4");
        assert_eq!(board.next_lost(), Some(0));
    }

    /// Four duplicates in one round widen the window once (RFC 8985 §7.2's "RACK.dsack_round"); without reordering none does.
    #[test]
    fn duplicate_sacks_widen_the_window_once_a_round_and_calm_narrows_it() {
        let (mut rack, _) = after(3);
        rack.on_dsack();
        rack.update_window(1000, 2000);
        assert_eq!(rack.reordering_window(true, 9, MIN_RTT, SRTT), Span::ZERO, "nothing was reordered");
        rack.on_reordering(1, 3);
        for delivered in 2001..2005 {
            rack.on_dsack();
            rack.update_window(1000, delivered);
        }
        assert_eq!(rack.reordering_window(true, 9, MIN_RTT, SRTT), Span::from_millis(20));
        rack.on_dsack();
        rack.update_window(2001, 3000);
        assert_eq!(rack.reordering_window(true, 9, MIN_RTT, SRTT), Span::from_millis(30), "a round later");
        for _ in 0..PERSIST {
            rack.on_recovered();
        }
        rack.update_window(3001, 4000);
        assert_eq!(rack.reordering_window(true, 9, MIN_RTT, SRTT), Span::from_millis(10));
    }
}
