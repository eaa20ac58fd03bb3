//! Proportional rate reduction (RFC 6937, with the bound Linux and RFC 9937 use): how many bytes may leave during fast
//! recovery. Knows bytes delivered, sent and in flight; nothing of segments.

/// One recovery episode.
#[derive(Clone, Copy, Debug)]
pub struct Prr {
    /// Bytes in flight when the episode began.
    recover_flight: u64,
    delivered: u64,
    out: u64,
    /// What the pipe may hold until the next acknowledgement.
    cwnd: u64,
}

impl Prr {
    /// An episode that starts with `flight` bytes in flight.
    pub fn start(flight: u64) -> Prr {
        Prr { recover_flight: flight.max(1), delivered: 0, out: 0, cwnd: 0 }
    }

    /// One whose first acknowledgement is taken off `flight` and counted already, and will be counted again.
    pub fn after(flight: u64, delivered: u64) -> Prr {
        Prr { delivered, ..Prr::start(flight) }
    }

    /// An acknowledgement delivered `newly` bytes; `pipe` is in flight after it. `advanced`: the left edge moved and
    /// nothing more was declared lost, so the path keeps pace and one more segment is safe (Linux `tcp_cwnd_reduction`).
    pub fn on_ack(&mut self, newly: u64, pipe: u64, ssthresh: u64, mss: u64, advanced: bool) {
        self.delivered += newly;
        let first = self.out == 0;
        let mut send = if pipe > ssthresh {
            (u128::from(self.delivered) * u128::from(ssthresh)).div_ceil(u128::from(self.recover_flight)) as u64
        } else {
            let bound = newly.max(self.delivered.saturating_sub(self.out)) + if advanced { mss } else { 0 };
            self.out + bound.min(ssthresh - pipe)
        }
        .saturating_sub(self.out);
        if first {
            // The fast retransmission itself always leaves.
            send = send.max(mss);
        }
        self.cwnd = pipe + send;
    }

    /// `bytes` left.
    pub fn on_sent(&mut self, bytes: u64) {
        self.out += bytes;
    }

    /// What the pipe may hold.
    pub fn cwnd(&self) -> u64 {
        self.cwnd
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs an episode in whole segments: each ACK delivers one, the sender sends whenever the pipe allows. Returns what was sent.
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

    #[test]
    fn a_cubic_reduction_spreads_fourteen_over_twenty() {
        // Spec K.4: flight 20, ssthresh 14, one loss, per-packet ACKs for the nineteen that arrived.
        let mut prr = Prr::start(20);
        let mut pipe = 19;
        let mut sent = 0;
        for _ in 0..19 {
            pipe -= 1;
            prr.on_ack(1, pipe, 14, 1, false);
            while pipe < prr.cwnd() {
                pipe += 1;
                sent += 1;
                prr.on_sent(1);
            }
        }
        assert_eq!(sent, 14);
    }

    #[test]
    fn heavy_loss_never_sends_more_than_was_delivered_plus_one() {
        let (sent, pipe) = episode(20, 14, 15);
        assert!(sent >= 5 && pipe <= 14, "{sent} {pipe}");
    }
}
