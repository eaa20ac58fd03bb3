//! Whether the last reduction was for nothing (Linux `tcp_may_undo`): the originals had only been late. By the echoed timestamp
//! (Eifel, RFC 3522; `tcp_packet_delayed`) or by a duplicate reported of every retransmission (`undo_retrans`). Knows segments'
//! numbers and times, no windows.

use lowtide_units::Time;

/// The evidence about the last reduction.
#[derive(Clone, Copy, Debug, Default)]
pub struct Undo {
    /// The left edge when the episode began (`undo_marker`); none: nothing to give back.
    marker: Option<u32>,
    /// Retransmissions not reported as duplicates; none before the first (`undo_retrans`).
    unproven: Option<u32>,
    /// The window may be given back; not after an ECN echo (`prior_ssthresh`).
    restores_window: bool,
}

impl Undo {
    /// An episode begins at left edge `una` with `resent` retransmissions in flight (`tcp_init_undo`). `restores_window`: it is this
    /// episode that reduces the window, and no mark did.
    pub fn begin(una: u32, resent: u32, restores_window: bool) -> Undo {
        Undo { marker: Some(una), unproven: (resent > 0).then_some(resent), restores_window }
    }

    /// An ECN echo arrived: the reduction is required whatever else is learnt.
    pub fn forbid(&mut self) {
        self.restores_window = false;
    }

    /// Something leaves again, other than a probe.
    pub fn on_retransmission(&mut self) {
        self.unproven = Some(self.unproven.unwrap_or(0) + 1);
    }

    /// `from..to` arrived twice.
    pub fn on_duplicate(&mut self, from: u32, to: u32) {
        if self.marker.is_some_and(|marker| to > marker) {
            self.unproven = self.unproven.map(|n| n.saturating_sub(to - from));
        }
    }

    /// Whether there is a reduction to give back.
    pub fn is_open(&self) -> bool {
        self.marker.is_some()
    }

    /// Whether every retransmission is known to have been for nothing.
    pub fn is_proven_by_duplicates(&self) -> bool {
        self.marker.is_some() && self.unproven == Some(0)
    }

    /// Ends the matter; whether the window is given back.
    pub fn settle(&mut self) -> bool {
        self.marker = None;
        self.restores_window
    }
}

/// Whether an echoed timestamp is older than the first retransmission: what it answers is the original (`tcp_packet_delayed`).
pub fn answers_original(echo: Time, first_retransmission: Option<Time>) -> bool {
    first_retransmission.is_some_and(|at| echo < at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_retransmissions_must_be_known_as_duplicates() {
        let mut undo = Undo::begin(5, 0, true);
        assert!(!undo.is_proven_by_duplicates(), "nothing was sent again yet");
        undo.on_retransmission();
        undo.on_retransmission();
        undo.on_duplicate(3, 4);
        undo.on_duplicate(5, 6);
        assert!(!undo.is_proven_by_duplicates(), "the first is older than the episode");
        undo.on_duplicate(7, 8);
        assert!(undo.is_proven_by_duplicates());
        assert!(undo.settle() && !undo.is_open());
    }

    #[test]
    fn an_echo_from_before_the_first_retransmission_answers_the_original() {
        assert!(!answers_original(Time::ZERO, None));
        assert!(answers_original(Time::from_millis(10), Some(Time::from_millis(300))));
        assert!(!answers_original(Time::from_millis(300), Some(Time::from_millis(300))));
    }
}
