//! Proportional rate reduction as Linux 6.18 has it (`tcp_cwnd_reduction`; RFC 9937 with its slow-start bound): how many bytes may
//! be in flight during CWR and fast recovery. Knows bytes delivered, sent and in flight, no segments.

/// One reduction.
#[derive(Clone, Copy, Debug)]
pub struct Prr {
    /// The window before the reduction.
    prior_cwnd: u64,
    delivered: u64,
    out: u64,
    cwnd: u64,
}

impl Prr {
    /// A reduction from a window of `prior_cwnd` bytes.
    pub fn start(prior_cwnd: u64) -> Prr {
        Prr { prior_cwnd: prior_cwnd.max(1), delivered: 0, out: 0, cwnd: prior_cwnd }
    }

    /// An acknowledgement delivered `newly` bytes; `pipe` is in flight after it. `advanced`: the left edge moved and nothing more was
    /// declared lost, so that the path keeps pace and one more segment is safe.
    pub fn on_ack(&mut self, newly: u64, pipe: u64, ssthresh: u64, mss: u64, advanced: bool) {
        if newly == 0 {
            return;
        }
        self.delivered += newly;
        let mut send = if pipe > ssthresh {
            // Linux counts segments and rounds up to whole ones.
            let share = u128::from(ssthresh) * u128::from(self.delivered);
            let segments = share.div_ceil(u128::from(self.prior_cwnd) * u128::from(mss)) as u64;
            (segments * mss).saturating_sub(self.out)
        } else {
            let bound = newly.max(self.delivered.saturating_sub(self.out)) + if advanced { mss } else { 0 };
            bound.min(ssthresh - pipe)
        };
        if self.out == 0 {
            // The fast retransmission itself always leaves.
            send = send.max(mss);
        }
        self.cwnd = pipe + send;
    }

    /// `bytes` left.
    pub fn on_sent(&mut self, bytes: u64) {
        self.out += bytes;
    }

    /// What may be in flight.
    pub fn cwnd(&self) -> u64 {
        self.cwnd
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a reduction in whole segments: each ACK delivers one, the sender sends whatever fits. Returns what was sent and what is in
    /// flight at the end.
    fn episode(flight: u64, ssthresh: u64, lost: u64) -> (u64, u64) {
        let mut prr = Prr::start(flight);
        let mut pipe = flight - lost;
        let (mut sent, mut delivered) = (0, 0);
        for _ in 0..flight - lost {
            pipe -= 1;
            delivered += 1;
            prr.on_ack(1, pipe, ssthresh, 1, false);
            while pipe < prr.cwnd() {
                pipe += 1;
                sent += 1;
                prr.on_sent(1);
            }
            assert!(sent <= delivered + 1, "{sent} out for {delivered} delivered");
        }
        (sent, pipe)
    }

    /// RFC 6937 §4: in proportion, ssthresh · delivered / RecoverFS rounded up.
    #[test]
    fn a_cubic_reduction_spreads_fourteen_over_twenty() {
        assert_eq!(episode(20, 14, 1).0, 14);
    }

    #[test]
    fn heavy_loss_never_sends_more_than_was_delivered_plus_one() {
        let (sent, pipe) = episode(20, 14, 15);
        assert!(sent >= 5 && pipe <= 14, "{sent} {pipe}");
    }
}
