//! Whether the window was the limit (Linux `tcp_cwnd_validate`): what stops an idle flow's window from growing.

/// The window's use during the running round.
#[derive(Clone, Copy, Debug, Default)]
pub struct WindowUse {
    limited: bool,
    /// The verdict holds until this segment is acknowledged.
    until: u32,
    most_out: u32,
}

impl WindowUse {
    /// Sending stopped with `out` segments outstanding of `una..nxt`; `limited`: because of the window.
    pub fn note(&mut self, una: u32, nxt: u32, out: u32, limited: bool) {
        if una >= self.until || limited || (!self.limited && out > self.most_out) {
            *self = WindowUse { limited, until: nxt, most_out: out };
        }
    }

    /// The window was the limit at some time during the last round.
    pub fn limited(&self) -> bool {
        self.limited
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_refusal_holds_for_the_round_and_no_longer() {
        let mut used = WindowUse::default();
        used.note(0, 10, 10, true);
        used.note(5, 12, 7, false);
        assert!(used.limited());
        used.note(10, 14, 4, false);
        assert!(!used.limited());
    }
}
