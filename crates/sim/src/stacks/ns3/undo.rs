//! Whether the last reduction was for nothing: the originals had only been late. By timestamps (Eifel, RFC 3522; Linux
//! `tcp_packet_delayed`), by duplicates reported of every retransmission (Linux `undo_retrans`), and after a timeout by
//! originals that arrive (F-RTO, RFC 5682, as Linux has it with SACK). Knows segments' numbers and times, no windows.

use lowtide_units::Time;

/// The evidence of one episode.
#[derive(Clone, Copy, Debug)]
pub struct Undo {
    /// The left edge when it began: duplicates below are older.
    marker: u32,
    /// The first segment sent again, and when.
    first: Option<(u32, Time)>,
    /// Retransmissions not reported as duplicates.
    unproven: u32,
    /// After a timeout: transmissions up to this one were on their way when the timer expired.
    before_timeout: Option<u32>,
}

impl Undo {
    /// An episode begins with `una` as the left edge.
    pub fn new(una: u32) -> Undo {
        Undo { marker: una, first: None, unproven: 0, before_timeout: None }
    }

    /// A timer expired after `transmissions` with `una` as the left edge.
    pub fn after_timeout(una: u32, transmissions: u32) -> Undo {
        Undo { before_timeout: Some(transmissions), ..Undo::new(una) }
    }

    /// Segment `seq` leaves again.
    pub fn on_retransmission(&mut self, seq: u32, now: Time) {
        self.first.get_or_insert((seq, now));
        self.unproven += 1;
    }

    /// An acknowledgement up to `una` that echoes `echo`: whether what it answers left before anything was sent again.
    pub fn answers_original(&self, una: u32, echo: Time) -> bool {
        self.first.is_some_and(|(seq, at)| una > seq && echo < at)
    }

    /// The transmission number `order`, of a segment not sent again, was delivered: whether it had been given up by the timer.
    pub fn was_under_way(&self, order: u32) -> bool {
        self.before_timeout.is_some_and(|last| order <= last)
    }

    /// `from..to` arrived twice: whether by now every retransmission is known to have been for nothing.
    pub fn on_duplicate(&mut self, from: u32, to: u32) -> bool {
        if self.first.is_none() || from < self.marker {
            return false;
        }
        self.unproven = self.unproven.saturating_sub(to - from);
        self.unproven == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_to_the_original_is_told_by_its_echo() {
        let mut undo = Undo::new(5);
        assert!(!undo.answers_original(6, Time::ZERO), "nothing was sent again yet");
        undo.on_retransmission(5, Time::from_millis(300));
        assert!(undo.answers_original(6, Time::from_millis(10)));
        assert!(!undo.answers_original(5, Time::from_millis(10)), "it does not cover what was sent again");
        assert!(!undo.answers_original(6, Time::from_millis(300)), "the retransmission itself");
    }

    #[test]
    fn all_retransmissions_must_be_known_as_duplicates() {
        let mut undo = Undo::new(5);
        undo.on_retransmission(5, Time::ZERO);
        undo.on_retransmission(7, Time::ZERO);
        assert!(!undo.on_duplicate(3, 4), "older than the episode");
        assert!(!undo.on_duplicate(5, 6));
        assert!(undo.on_duplicate(7, 8));
    }
}
