//! Whether the window was the limit (Linux `tcp_cwnd_validate`): what stops an idle flow's window from growing. A window that is
//! not in full use does not shrink while acknowledgements come, for each one stamps it as valid (`tcp_cong_avoid` sets
//! `snd_cwnd_stamp`); only a pause does that.

/// The window's use.
#[derive(Clone, Copy, Debug, Default)]
pub struct WindowUse {
    /// The window was the limit during the running round (`is_cwnd_limited`); it holds until `until` is acknowledged.
    limited: bool,
    until: u32,
    /// The most segments outstanding in a round without (`max_packets_out`).
    most_out: u32,
}

impl WindowUse {
    /// Sending stopped with `out` segments outstanding, of which `nxt` would be the next; `limited`: because of the window.
    pub fn note(&mut self, una: u32, nxt: u32, limited: bool) {
        let out = nxt - una;
        if una >= self.until || limited || (!self.limited && out > self.most_out) {
            (self.limited, self.until, self.most_out) = (limited, nxt, out);
        }
    }

    /// The window was the limit at some time during the last round.
    pub fn limited(&self) -> bool {
        self.limited
    }

    /// The most segments that were outstanding during the last round.
    pub fn most_out(&self) -> u32 {
        self.most_out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_refusal_holds_for_the_round_and_no_longer() {
        let mut used = WindowUse::default();
        used.note(0, 10, true);
        used.note(5, 12, false);
        assert!(used.limited());
        used.note(10, 14, false);
        assert!(!used.limited());
    }
}
