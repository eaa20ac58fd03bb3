//! Rate halving as ns-2's Linux agent does it (`tcp/tcp-linux.cc`, Linux 2.6's `tcp_cwnd_down` simplified): one segment leaves for
//! two acknowledgements until the window is a quarter of what it was, however long recovery takes. Knows bytes, not segments.

/// Linux's `tcp_max_burst`: how many segments may leave at once when recovery ends (`tcp_moderate_cwnd`).
const MAX_BURST: u64 = 3;

/// One recovery episode.
#[derive(Clone, Copy, Debug)]
pub struct Halving {
    /// What the pipe may hold (`next_pkts_in_flight_`).
    next: u64,
    /// The window that is halved to, half of the slow-start threshold (`tcp_reno_min_cwnd`).
    floor: u64,
    mss: u64,
}

impl Halving {
    /// An episode that starts with `flight` bytes in flight and is to leave `ssthresh`.
    pub fn start(flight: u64, ssthresh: u64, mss: u64) -> Halving {
        Halving { next: flight, floor: ssthresh / 2, mss }
    }

    /// An acknowledgement leaves `pipe` in flight.
    pub fn on_ack(&mut self, pipe: u64, ssthresh: u64) {
        self.floor = ssthresh / 2;
        self.next = self.next.min(pipe + self.mss);
    }

    /// A segment left: with it `pipe` are in flight.
    pub fn on_sent(&mut self, pipe: u64) {
        self.next = self.next.min(pipe.saturating_sub(self.mss).max(self.mss));
    }

    /// What the pipe may hold.
    pub fn cwnd(&self) -> u64 {
        self.next.max(self.floor)
    }

    /// The window after the episode, from which slow start leads back to the threshold.
    pub fn moderated(outstanding: u64, mss: u64) -> u64 {
        outstanding + MAX_BURST * mss
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Twenty in flight, one lost: nineteen acknowledgements let every second one release a segment.
    #[test]
    fn one_segment_leaves_for_two_acknowledgements() {
        let mut halving = Halving::start(20, 10, 1);
        let (mut pipe, mut sent) = (19, 0);
        for _ in 0..18 {
            pipe -= 1;
            halving.on_ack(pipe, 10);
            while pipe < halving.cwnd() {
                pipe += 1;
                sent += 1;
                halving.on_sent(pipe);
            }
        }
        assert_eq!((sent, pipe), (9, 10));
    }

    /// A recovery that lasts goes on below the threshold, down to half of it.
    #[test]
    fn a_long_recovery_leaves_a_quarter() {
        let mut halving = Halving::start(20, 10, 1);
        let mut pipe = 19;
        for _ in 0..100 {
            pipe -= 1;
            halving.on_ack(pipe, 10);
            while pipe < halving.cwnd() {
                pipe += 1;
                halving.on_sent(pipe);
            }
        }
        assert_eq!(pipe, 5);
    }
}
