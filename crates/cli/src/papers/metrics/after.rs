//! Drops at the first bottleneck and what comes after them: how often the n-th data packet behind a dropped one is dropped too,
//! and how often it is the retransmission of it. Counted over a run's packet events; knows neither paper nor simulator.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::Path;

use lowtide_scenario::events;

use super::track::Track;
use super::tracks::Tracks;

/// Packets behind a dropped one that are looked at.
const MOST: usize = 20;

/// The data packets of a flow that came to the first bottleneck, in their order.
#[derive(Default)]
struct Arrivals {
    /// Its number, and whether it was dropped.
    packets: Vec<(u64, bool)>,
    /// Where those that wait stand in `packets`, by number.
    waiting: HashMap<u64, usize>,
    /// When which was dropped.
    drops: Vec<(f64, f64)>,
}

impl Arrivals {
    fn on(&mut self, time_ns: u64, event: &str, number: u64) {
        if event.starts_with("drop") {
            self.drops.push((time_ns as f64 / 1e9, number as f64));
        }
        match event {
            "enqueue" => {
                self.waiting.insert(number, self.packets.len());
                self.packets.push((number, false));
            }
            "dequeue" => {
                self.waiting.remove(&number);
            }
            "drop-overflow" | "drop-early" => match self.waiting.remove(&number) {
                Some(at) => self.packets[at].1 = true,
                // Refused on arrival.
                None => self.packets.push((number, true)),
            },
            _ => {}
        }
    }

    /// For n = 1, 2, …: the parts of the drops whose n-th successor was dropped, and was the same packet again. A successor
    /// counts once, as the first copy of it.
    fn after(&self) -> [Vec<(f64, f64)>; 2] {
        let (mut dropped, mut resent, mut drops) = ([0u64; MOST], [0u64; MOST], [0u64; MOST]);
        for (at, &(number, _)) in self.packets.iter().enumerate().filter(|(_, p)| p.1) {
            let behind = self.packets[at + 1..].iter().take(MOST);
            let again = behind.clone().position(|p| p.0 == number);
            for (n, next) in behind.enumerate() {
                drops[n] += 1;
                dropped[n] += u64::from(next.1);
                resent[n] += u64::from(again == Some(n));
            }
        }
        [dropped, resent].map(|counts| (0..MOST).map(|n| ((n + 1) as f64, counts[n] as f64 / drops[n].max(1) as f64)).collect())
    }
}

/// Tracks by flow from the packet events in `dir` at the bottleneck `forward`: over n `dropped_after` and `resent_after`, and over
/// time `drops`, the numbers of the packets dropped.
///
/// # Errors
/// A result without packet events.
pub fn tracks(dir: &Path) -> io::Result<Tracks> {
    let mut flows: BTreeMap<String, Arrivals> = BTreeMap::new();
    events::read(dir, |time_ns, [event, link, flow, packet], [_, number, ..]| {
        if link == "forward" && matches!(packet, "data" | "resent") {
            if !flows.contains_key(flow) {
                flows.insert(flow.to_owned(), Arrivals::default());
            }
            if let Some(arrivals) = flows.get_mut(flow) {
                arrivals.on(time_ns, event, number);
            }
        }
    })?;
    let mut all = Tracks::new();
    for (flow, arrivals) in flows {
        let [dropped, resent] = arrivals.after();
        all.entry("dropped_after").or_default().insert(flow.clone(), Track::new(dropped));
        all.entry("resent_after").or_default().insert(flow.clone(), Track::new(resent));
        all.entry("drops").or_default().insert(flow, Track::new(arrivals.drops));
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 1 dropped at the head after 2, 3, 4 have come; its retransmission is the fourth behind it and is refused on arrival,
    /// the one after that, the sixth, is not.
    #[test]
    fn successors_are_counted_by_their_arrival() {
        let mut arrivals = Arrivals::default();
        for (event, number) in [
            ("enqueue", 1),
            ("enqueue", 2),
            ("enqueue", 3),
            ("enqueue", 4),
            ("drop-early", 1),
            ("dequeue", 2),
            ("drop-overflow", 1),
            ("enqueue", 5),
            ("enqueue", 1),
            ("dequeue", 3),
        ] {
            arrivals.on(7, event, number);
        }
        assert_eq!(arrivals.drops, [(7e-9, 1.0); 2]);
        let [dropped, resent] = arrivals.after();
        // Two drops: behind the first 2, 3, 4, 1 (dropped), 5, 1; behind the second 5, 1.
        let at = |curve: &[(f64, f64)]| curve.iter().take(7).map(|p| p.1).collect::<Vec<_>>();
        assert_eq!(at(&dropped), [0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0]);
        assert_eq!(at(&resent), [0.0, 0.5, 0.0, 1.0, 0.0, 0.0, 0.0]);
    }
}
