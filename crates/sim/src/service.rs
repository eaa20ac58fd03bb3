//! How a link that is no wire serves its queue: at opportunities, or as aggregates on a shared channel. Knows packets by their size.

use lowtide_net::{Aggregate, Opportunities, Packet as _, Wifi};
use lowtide_units::{Rate, Span, Time};

use crate::slab::Handle;

/// What serves the queue instead of a transmitter.
#[derive(Debug)]
pub enum Service {
    /// At opportunities.
    Slots(Slots),
    /// As aggregates.
    Radio(Radio),
}

/// Opportunities, and the packet that needs more than one.
#[derive(Debug)]
pub struct Slots {
    opportunities: Opportunities,
    /// The next one, where anything waits for it.
    due: Option<(Time, u64)>,
    /// Under way, and the bytes of it that have not left.
    in_transit: Option<(Handle, u64)>,
}

/// A station, and what it has on the air.
#[derive(Debug)]
pub struct Radio {
    wifi: Wifi,
    on_air: Vec<Handle>,
}

impl Service {
    /// A link that delivers at `opportunities`.
    pub fn slots(opportunities: Opportunities) -> Service {
        Service::Slots(Slots { opportunities, due: None, in_transit: None })
    }

    /// A Wi-Fi station.
    pub fn radio(wifi: Wifi) -> Service {
        Service::Radio(Radio { wifi, on_air: Vec::new() })
    }

    /// The most that it carries from `from` to `to`.
    pub fn capacity(&self, from: Time, to: Time) -> Rate {
        match self {
            Service::Slots(slots) => slots.opportunities.mean_between(from, to),
            Service::Radio(radio) => radio.wifi.capacity(),
        }
    }

    /// Packets that have left the queue and not the link.
    #[cfg(test)]
    pub fn packets(&self) -> usize {
        match self {
            Service::Slots(slots) => usize::from(slots.in_transit.is_some()),
            Service::Radio(radio) => radio.on_air.len(),
        }
    }

    /// It is `now`: what leaves goes to `leaving`, and `next` gives what waits, until there is nothing. When to be asked again; none:
    /// when a packet comes.
    pub fn serve(&mut self, now: Time, next: &mut dyn FnMut() -> Option<Handle>, leaving: &mut Vec<Handle>) -> Option<Time> {
        match self {
            Service::Slots(slots) => slots.serve(now, next, leaving),
            Service::Radio(radio) => radio.serve(now, next, leaving),
        }
    }
}

impl Slots {
    /// mahimahi's `LinkQueue::rationalize`: an opportunity's bytes go to the packet under way, then to those that wait; what nobody
    /// needs is lost.
    fn serve(&mut self, now: Time, next: &mut dyn FnMut() -> Option<Handle>, leaving: &mut Vec<Handle>) -> Option<Time> {
        let Some((_, mut budget)) = self.due.take().filter(|due| due.0 == now) else { return self.wait(now) };
        loop {
            let under_way = self.in_transit.take().or_else(|| next().map(|packet| (packet, u64::from(packet.bytes()))));
            let (packet, left) = under_way?;
            if left > budget {
                self.in_transit = Some((packet, left - budget));
                return self.wait(now);
            }
            leaving.push(packet);
            budget -= left;
            if budget == 0 {
                return self.wait(now);
            }
        }
    }

    fn wait(&mut self, now: Time) -> Option<Time> {
        self.due = Some(self.opportunities.after(now));
        self.due.map(|due| due.0)
    }
}

impl Radio {
    /// What was on the air has arrived; what waits goes next, as much of it as an aggregate holds.
    fn serve(&mut self, now: Time, next: &mut dyn FnMut() -> Option<Handle>, leaving: &mut Vec<Handle>) -> Option<Time> {
        leaving.append(&mut self.on_air);
        let mut aggregate = Aggregate::default();
        while let Some(packet) = next() {
            self.on_air.push(packet);
            if !self.wifi.add(&mut aggregate, packet.bytes()) {
                break;
            }
        }
        (!self.on_air.is_empty()).then(|| now + self.wifi.send(aggregate))
    }
}

/// What hosts add to the delay of their packets: drawn evenly for each, none before one that left earlier (Floyd and Jacobson, "On
/// Traffic Phase Effects in Packet-Switched Gateways", 1992, §5: without it, flows on a clean line keep step with one another).
#[derive(Debug)]
pub struct HostJitter {
    most: Span,
    random: lowtide_net::Random,
    last: Time,
}

impl HostJitter {
    /// From zero to `most`.
    pub fn new(most: Span, random: lowtide_net::Random) -> HostJitter {
        HostJitter { most, random, last: Time::ZERO }
    }

    /// When a packet of `now` leaves the host.
    pub fn leaves(&mut self, now: Time) -> Time {
        self.last = self.last.max(now + self.most.mul_f64(lowtide_net::random::unit(&mut self.random)));
        self.last
    }
}

#[cfg(test)]
mod tests {
    use lowtide_net::{Rate, Recording, Seed, WifiConfig};

    use super::*;
    use crate::packet::{Kind, Packet};
    use crate::slab::Slab;

    /// Packets of `sizes` wait at time zero; when each leaves, in ms.
    fn departures(mut service: Service, sizes: &[u32]) -> Vec<u64> {
        let mut slab = Slab::default();
        let packets = sizes.iter().rev().map(|&size| Packet::new(0, Kind::Data, size, Time::ZERO));
        let mut waiting: Vec<Handle> = packets.map(|packet| slab.put(&packet, 0, 0, Time::ZERO)).collect();
        let (mut now, mut left) = (Time::ZERO, Vec::new());
        loop {
            let mut leaving = Vec::new();
            let again = service.serve(now, &mut || waiting.pop(), &mut leaving);
            left.extend(leaving.iter().map(|_| now.nanos() / 1_000_000));
            let Some(again) = again else { return left };
            now = again;
        }
    }

    /// 1500 bytes at each of 2, 2, 3 and 7 ms, and over again: two at 2 ms, a half at 3 ms that ends at 7 ms, with room for a small one.
    #[test]
    fn packets_leave_at_opportunities_whole_or_over_several() {
        let service = || Service::slots(Opportunities::recorded(Recording::parse("2\n2\n3\n7\n").expect("a trace")));
        assert_eq!(departures(service(), &[1500, 1500, 1500, 1500, 1500]), [2, 2, 3, 7, 9]);
        assert_eq!(departures(service(), &[1500, 1000, 2500, 400, 100]), [2, 2, 7, 7, 7]);
    }

    #[test]
    fn an_aggregate_arrives_at_once_and_the_next_takes_what_came_meanwhile() {
        let wifi = Wifi::new(WifiConfig { frames: 3, ..WifiConfig::default() }, Rate::from_mbps_f64(6.5), Seed::new(1).generator());
        let left = departures(Service::radio(wifi), &[1500; 5]);
        // Three frames of 1546 bytes take 5.7 ms at 6.5 Mbit/s, so that 4 ms have room for two.
        assert!(left[0] == left[1] && left[2] == left[3] && left[1] < left[2] && left[3] < left[4], "{left:?}");
    }

    #[test]
    fn a_hosts_jitter_is_even_and_keeps_the_order() {
        let mut jitter = HostJitter::new(Span::from_micros(100), Seed::new(1).generator());
        let mut sum = 0;
        for n in 0..10_000 {
            let now = Time::from_millis(n);
            sum += jitter.leaves(now).since(now).nanos();
        }
        assert!((sum / 10_000).abs_diff(50_000) < 1_000, "{sum}");
        let close: Vec<Time> = (0..1000).map(|n| jitter.leaves(Time::from_nanos(20_000_000_000 + n * 1000))).collect();
        assert!(close.is_sorted());
    }
}
