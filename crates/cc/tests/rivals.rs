//! Each rival alone on 10 Mbit/s, 40 ms and one BDP of buffer, and Reno beside CUBIC on a small pipe: whole rounds, no host.

use lowtide_cc::registry::{self, ALGORITHMS, Kind};
use lowtide_cc::{Ack, Cause, Congestion, Controller, Params, Recovery, Span, Start, Time};

const MSS: u64 = 1448;

fn build(name: &str) -> Box<dyn Controller> {
    let algorithm = registry::by_name(name).expect("registered");
    algorithm
        .build(&Params::default(), &Start { handshake_rtt: Some(Span::from_millis(40)), ..Start::default() })
        .expect("presets are valid")
}

/// Rounds of a drop-tail link that several flows share. All of a flow's segments arrive together, spread over the round.
struct Link {
    base_ms: f64,
    per_ms: f64,
    buffer: f64,
    now_ms: f64,
    delivered: Vec<u64>,
}

impl Link {
    fn new(mbps: f64, base_ms: f64, flows: usize) -> Link {
        let per_ms = mbps * 1e3 / 8.0 / MSS as f64;
        Link { base_ms, per_ms, buffer: base_ms * per_ms, now_ms: 1.0, delivered: vec![0; flows] }
    }

    fn round(&mut self, flows: &mut [Box<dyn Controller>]) {
        let windows: Vec<u64> = flows.iter().map(|f| (f.cwnd() / MSS).max(1)).collect();
        let total = windows.iter().sum::<u64>() as f64;
        let pipe = self.base_ms * self.per_ms;
        let carried = total.min(pipe + self.buffer);
        let rtt = self.base_ms.max(carried / self.per_ms);
        for (i, flow) in flows.iter_mut().enumerate() {
            let prior = self.delivered[i];
            let share = windows[i] as f64 * carried / total;
            for n in 1..=share as u64 {
                self.delivered[i] += MSS;
                flow.on_ack(&self.ack(rtt, n as f64 / share, windows[i] * MSS, self.delivered[i], prior));
            }
        }
        self.now_ms += rtt;
        if total > pipe + self.buffer {
            for (flow, window) in flows.iter_mut().zip(windows) {
                let now = Time::from_secs_f64(self.now_ms / 1e3);
                flow.on_congestion(&Congestion {
                    now,
                    cause: Cause::Loss,
                    lost: MSS,
                    in_flight: window * MSS,
                    srtt: Span::from_millis_f64(rtt),
                });
            }
        }
    }

    fn ack(&self, rtt_ms: f64, part: f64, in_flight: u64, delivered: u64, prior_delivered: u64) -> Ack {
        let rtt = Span::from_millis_f64(rtt_ms);
        Ack {
            now: Time::from_secs_f64((self.now_ms + rtt_ms * part) / 1e3),
            acked: MSS,
            in_flight,
            rtt: Some(rtt),
            srtt: rtt,
            delivered,
            prior_delivered,
            cwnd_limited: true,
            ..Ack::default()
        }
    }

    /// What each flow got over `seconds`, as a part of the capacity.
    fn run(&mut self, flows: &mut [Box<dyn Controller>], seconds: f64) -> Vec<f64> {
        let (begin, before) = (self.now_ms, self.delivered.clone());
        while self.now_ms < begin + seconds * 1e3 {
            self.round(flows);
        }
        let capacity = (self.now_ms - begin) * self.per_ms * MSS as f64;
        self.delivered.iter().zip(before).map(|(d, b)| (d - b) as f64 / capacity).collect()
    }
}

#[test]
fn every_rival_alone_fills_the_link() {
    for algorithm in ALGORITHMS.iter().filter(|a| a.kind == Kind::BestEffort) {
        let mut flows = [build(algorithm.name)];
        if flows[0].recovery() == Recovery::Own {
            continue; // BBR needs delivery-rate samples: its own tests.
        }
        let mut link = Link::new(10.0, 40.0, 1);
        link.run(&mut flows, 10.0);
        let used = link.run(&mut flows, 120.0)[0];
        let least = if algorithm.name.starts_with("vegas") { 0.95 } else { 0.90 };
        assert!(used > least, "{}: {used:.3}", algorithm.name);
    }
}

/// The Reno-friendly region: 5 Mbit/s, 10 ms.
#[test]
fn cubic_shares_small_pipes_with_reno() {
    let ratio = |cubic: &str, reno: &str| {
        let mut flows = [build(cubic), build(reno)];
        let mut link = Link::new(5.0, 10.0, 2);
        link.buffer = 20.0;
        link.run(&mut flows, 60.0);
        let shares = link.run(&mut flows, 600.0);
        shares[0] / shares[1]
    };
    for (cubic, reno) in [("cubic", "reno"), ("cubic-rfc9438", "reno")] {
        let got = ratio(cubic, reno);
        assert!((0.8..=1.25).contains(&got), "{cubic}: {got:.2}");
    }
}
