//! Controls that name a rate, or a window smaller than a packet.

use lowtide_cc::{Ack, Congestion, Controller, Snapshot};
use lowtide_units::Rate;

use super::pair::{Fate, Pair};
use super::*;

/// A control that wants the same for ever.
#[derive(Debug)]
struct Fixed {
    cwnd: u64,
    rate: Option<Rate>,
}

impl Controller for Fixed {
    fn on_ack(&mut self, _: &Ack) {}
    fn on_congestion(&mut self, _: &Congestion) {}
    fn on_mss(&mut self, _: u32) {}
    fn cwnd(&self) -> u64 {
        self.cwnd
    }
    fn pacing_rate(&self) -> Option<Rate> {
        self.rate
    }
    fn snapshot(&self) -> Snapshot {
        Snapshot::of(self.cwnd, f64::INFINITY, "fixed")
    }
}

/// Payload that arrives between 1 s and 11 s, and the most packets that left at one time meanwhile.
fn sends(cwnd: u64, rate: Option<Rate>) -> (u64, usize) {
    let mut pair = Pair::under(Config::default(), Box::new(Fixed { cwnd, rate }), Open { id: 65_535, seq: 7 }, 9);
    pair.initiator.write(u64::MAX);
    let received = |pair: &Pair| pair.acceptor.as_ref().map_or(0, Connection::received);
    pair.run(at(1000), &mut |_| Fate::Pass);
    let before = received(&pair);
    pair.sent.clear();
    pair.run(at(11_000), &mut |_| Fate::Pass);
    let times = times_of(Kind::Data, &pair);
    let most = times.chunk_by(|a, b| a == b).map(<[u64]>::len).max().unwrap_or(0);
    (received(&pair) - before, most)
}

/// 100 packets a second for ten seconds; before, all of a window left at once.
#[test]
fn a_rate_spaces_packets_out() {
    let rate = Rate::from_bytes_over(1382, Span::from_millis(10));
    let (paced, most) = sends(100 * 1382, Some(rate));
    assert!((1_375_000..=1_390_000).contains(&paced) && most <= 2, "{paced} {most}");
    assert!(sends(100 * 1382, None).1 > 50, "without a rate a window leaves at once");
}

/// A quarter of a packet in 20 ms: a packet each 80 ms. Before, none ever left.
#[test]
fn a_window_below_a_packet_is_a_packet_now_and_then() {
    let (received, most) = sends(1382 / 4, None);
    assert!((165_000..=175_000).contains(&received) && most == 1, "{received} {most}");
}
