//! CoDel (RFC 8289): drops at the head when packets have waited longer than the target for a whole interval. The control law
//! (its `CodelController`) is apart from the FIFO so that FQ-CoDel can run one per queue.
//!
//! The gaps between drops are Linux's and ns-3's: 1/√count by one Newton step a drop in 16 bits (`codel_Newton_step`), not
//! exactly. The first steps are far off, 100, 50, 56, 49 ms and so on instead of 100, 71, 58, 50 ms.

use lowtide_units::{Rate, Span, Time};
use serde::{Deserialize, Serialize};

use crate::configuration::Configuration;
use crate::error::{ConfigError, require};
use crate::queue::{Drop, Packet, Queue, TimedFifo, Waiting, mark};
use crate::random::Seed;

/// CoDel's parameters (RFC 8289 §4.2, §4.3).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Parameters {
    /// Acceptable standing delay: 5 ms.
    pub target: Span,
    /// About a worst-case RTT: 100 ms.
    pub interval: Span,
    /// No drop while no more than this waits: one frame.
    pub max_packet: u64,
    /// Mark ECT packets instead of dropping them.
    pub ecn: bool,
    /// Mark every ECT packet that waited longer (RFC 8290; Linux `ce_threshold`), whatever the state.
    pub ce_threshold: Option<Span>,
}

impl Default for Parameters {
    fn default() -> Parameters {
        Parameters { target: Span::from_millis(5), interval: Span::from_millis(100), max_packet: 1514, ecn: true, ce_threshold: None }
    }
}

/// CoDel as a scenario writes it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Acceptable standing delay.
    pub target_ms: f64,
    /// About a worst-case RTT.
    pub interval_ms: f64,
    /// Packets at most.
    pub packets: usize,
    /// Mark ECT packets instead of dropping them.
    pub ecn: bool,
    /// Mark every ECT packet that waited longer than this.
    pub ce_threshold_ms: Option<f64>,
    /// Packets that a device below the discipline holds in addition.
    pub device_queue_packets: usize,
}

impl Default for Config {
    fn default() -> Config {
        Config { target_ms: 5.0, interval_ms: 100.0, packets: 1000, ecn: true, ce_threshold_ms: None, device_queue_packets: 0 }
    }
}

impl Configuration for Config {
    fn build<P: Packet + Send + 'static>(&self, name: &'static str, _rate: Rate, _seed: Seed) -> Result<Box<dyn Queue<P>>, ConfigError> {
        let parameters = Parameters::from_ms(name, self.target_ms, self.interval_ms, self.ecn, self.ce_threshold_ms)?;
        require(self.packets > 0, name, "`packets` must be above 0")?;
        Ok(Box::new(CoDel::new(parameters, self.packets)))
    }

    fn device_queue_packets(&self) -> usize {
        self.device_queue_packets
    }
}

impl Parameters {
    /// The parameters from what a scenario writes.
    ///
    /// # Errors
    /// A time that is not above zero.
    pub fn from_ms(
        queue: &'static str,
        target: f64,
        interval: f64,
        ecn: bool,
        ce_threshold: Option<f64>,
    ) -> Result<Parameters, ConfigError> {
        let possible = |ms: f64| ms > 0.0 && ms.is_finite();
        if !possible(target) || !possible(interval) {
            return Err(ConfigError { queue, reason: "`target_ms` and `interval_ms` must be above 0" });
        }
        if ce_threshold.is_some_and(|ms| !possible(ms)) {
            return Err(ConfigError { queue, reason: "`ce_threshold_ms` must be above 0" });
        }
        Ok(Parameters {
            target: Span::from_millis_f64(target),
            interval: Span::from_millis_f64(interval),
            ecn,
            ce_threshold: ce_threshold.map(Span::from_millis_f64),
            ..Parameters::default()
        })
    }
}

/// Re-entering the dropping state within so many intervals resumes the drop rate (RFC 8289 §5.4, Linux: 16).
const RESUME_INTERVALS: u64 = 16;

/// CoDel's state machine (RFC 8289 §5.2–5.5).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CodelController {
    first_above: Option<Time>,
    drop_next: Time,
    count: u32,
    last_count: u32,
    /// 1/√count in 1/2^16 (Linux: `rec_inv_sqrt`).
    inverse_root: u16,
    dropping: bool,
    /// CE marks set.
    pub marks: u64,
}

impl CodelController {
    /// The next packet of `source` to send; what the controller drops goes to `dropped`.
    pub fn dequeue<P: Packet>(&mut self, source: &mut Source<'_, P>, p: &Parameters, now: Time, dropped: &mut Vec<(P, Drop)>) -> Option<P> {
        let mut head = self.take(source, p, now);
        if self.dropping {
            if !head.1 {
                self.dropping = false;
            }
            while self.dropping && now >= self.drop_next {
                self.count = self.count.wrapping_add(1);
                self.newton_step();
                if self.mark(&mut head.0, p) {
                    self.drop_next += self.gap(p);
                    break;
                }
                head = self.replace(head.0, source, p, now, dropped);
                if head.1 {
                    self.drop_next += self.gap(p);
                } else {
                    self.dropping = false;
                }
            }
        } else if head.1 {
            self.enter(p, now);
            if !self.mark(&mut head.0, p) {
                head = self.replace(head.0, source, p, now, dropped);
            }
        }
        let mut stamped = head.0?;
        if p.ce_threshold.is_some_and(|limit| stamped.sojourn(now) > limit) && mark(&mut stamped.packet) {
            self.marks += 1;
        }
        Some(stamped.packet)
    }

    /// Takes a packet and says whether it may be dropped: the delay has been above target for an interval.
    fn take<P: Packet>(&mut self, source: &mut Source<'_, P>, p: &Parameters, now: Time) -> (Option<Waiting<P>>, bool) {
        let Some(stamped) = source.fifo.pop() else {
            self.first_above = None;
            return (None, false);
        };
        if stamped.sojourn(now) < p.target || source.elsewhere + source.fifo.bytes() <= p.max_packet {
            self.first_above = None;
            return (Some(stamped), false);
        }
        let ok = match self.first_above {
            None => {
                self.first_above = Some(now + p.interval);
                false
            }
            Some(at) => now >= at,
        };
        (Some(stamped), ok)
    }

    fn replace<P: Packet>(
        &mut self,
        head: Option<Waiting<P>>,
        source: &mut Source<'_, P>,
        p: &Parameters,
        now: Time,
        dropped: &mut Vec<(P, Drop)>,
    ) -> (Option<Waiting<P>>, bool) {
        dropped.extend(head.map(|s| (s.packet, Drop::Early)));
        self.take(source, p, now)
    }

    fn mark<P: Packet>(&mut self, head: &mut Option<Waiting<P>>, p: &Parameters) -> bool {
        let marked = p.ecn && head.as_mut().is_some_and(|waiting| mark(&mut waiting.packet));
        self.marks += u64::from(marked);
        marked
    }

    fn enter(&mut self, p: &Parameters, now: Time) {
        self.dropping = true;
        let delta = self.count.saturating_sub(self.last_count);
        let before = self.drop_next != Time::ZERO;
        let recent = before && now.since(self.drop_next) < p.interval * RESUME_INTERVALS;
        if delta > 1 && recent {
            self.count = delta;
            self.newton_step();
        } else {
            self.count = 1;
            self.inverse_root = u16::MAX;
        }
        self.last_count = self.count;
        self.drop_next = now + self.gap(p);
    }

    /// One step of Newton's method towards 1/√count: x ← x (3 − count x²) / 2, in Linux's integers (`codel_Newton_step`).
    fn newton_step(&mut self) {
        let root = u64::from(self.inverse_root) << 16;
        let square = (root * root) >> 32;
        let factor = (3u64 << 32).wrapping_sub(u64::from(self.count).wrapping_mul(square)) >> 2;
        self.inverse_root = (factor.wrapping_mul(root) >> 47) as u16;
    }

    /// interval / √count, as far as Newton's method has come (`codel_control_law`).
    fn gap(&self, p: &Parameters) -> Span {
        Span::from_nanos(((u128::from(p.interval.nanos()) * u128::from(self.inverse_root)) >> 16) as u64)
    }

    /// `packets` of the queue were dropped for want of room: the controller drops more often for it (`fq_codel_drop`).
    pub fn overflowed(&mut self, packets: u32) {
        self.count = self.count.wrapping_add(packets);
    }
}

/// What a controller takes its packets from.
pub(crate) struct Source<'a, P> {
    /// The queue.
    pub fifo: &'a mut TimedFifo<P>,
    /// Bytes that wait in other queues of the same discipline. While more than a frame waits anywhere, Linux drops the only packet of
    /// a queue, too (`fq_codel_dequeue` hands over the backlog of the whole discipline); in ns-3 a queue's last packet is safe.
    pub elsewhere: u64,
}

/// CoDel over one FIFO.
#[derive(Debug)]
pub struct CoDel<P> {
    fifo: TimedFifo<P>,
    controller: CodelController,
    parameters: Parameters,
    limit_packets: usize,
}

impl<P: Packet> CoDel<P> {
    /// An empty queue that holds at most `limit_packets`.
    pub fn new(parameters: Parameters, limit_packets: usize) -> CoDel<P> {
        CoDel { fifo: TimedFifo::default(), controller: CodelController::default(), parameters, limit_packets }
    }
}

impl<P: Packet + Send> Queue<P> for CoDel<P> {
    fn enqueue(&mut self, packet: P, now: Time, dropped: &mut Vec<(P, Drop)>) {
        if self.fifo.packets() >= self.limit_packets {
            dropped.push((packet, Drop::Overflow));
            return;
        }
        self.fifo.push_at(packet, now);
    }

    fn dequeue(&mut self, now: Time, dropped: &mut Vec<(P, Drop)>) -> Option<P> {
        self.controller.dequeue(&mut Source { fifo: &mut self.fifo, elsewhere: 0 }, &self.parameters, now, dropped)
    }

    fn bytes(&self) -> u64 {
        self.fifo.bytes()
    }

    fn packets(&self) -> usize {
        self.fifo.packets()
    }

    fn marks(&self) -> u64 {
        self.controller.marks
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{Pkt, ect, pkt};

    /// Drop times in ms after the first drop, of a queue that never gets shorter than a second of packets.
    fn drop_times(controller: &mut CodelController, from: Time, span: Span) -> Vec<f64> {
        let (mut fifo, mut dropped, mut times) = (TimedFifo::<Pkt>::default(), Vec::new(), Vec::new());
        let mut now = from;
        while now.since(from) < span {
            while fifo.packets() < 1000 {
                fifo.push_at(pkt(1, 1500), now - Span::from_millis(50));
            }
            controller.dequeue(&mut Source { fifo: &mut fifo, elsewhere: 0 }, &Parameters::default(), now, &mut dropped);
            times.extend(std::iter::repeat_n(now.since(from).millis_f64(), dropped.len()));
            dropped.clear();
            now += Span::from_micros(120);
        }
        times
    }

    /// The first drop comes an interval after the delay rose. The gaps that follow were computed from `codel_Newton_step` of Linux 6.12
    /// with Python's integers; from the exact law they would be 100, 70.7, 57.7, 50, 44.7 ms.
    #[test]
    fn the_gaps_between_drops_are_linuxs() {
        let times = drop_times(&mut CodelController::default(), Time::from_millis(1000), Span::from_millis(1110));
        let first = times[0];
        assert!((first - 100.0).abs() < 0.13, "{first}");
        let want = [0.0, 99.998, 149.999, 206.248, 255.026, 299.177, 339.583, 377.100, 412.251, 445.432];
        for (got, want) in times.iter().map(|t| t - first).zip(want) {
            assert!((got - want).abs() <= 0.13, "{got} is not {want}");
        }
        assert_eq!(times.iter().filter(|t| **t - first < 1000.0).count(), 34);
    }

    #[test]
    fn reentry_resumes_within_sixteen_intervals() {
        for (after_ms, count) in [(1590, 19), (1610, 1)] {
            let mut controller = CodelController {
                count: 20,
                last_count: 1,
                inverse_root: 1 << 14,
                drop_next: Time::from_millis(10_000),
                ..CodelController::default()
            };
            controller.enter(&Parameters::default(), Time::from_millis(10_000 + after_ms));
            assert_eq!(controller.count, count, "{after_ms} ms after drop_next");
        }
    }

    #[test]
    fn short_queues_and_short_delays_are_left_alone() {
        let (mut controller, mut fifo, mut dropped) = (CodelController::default(), TimedFifo::default(), Vec::new());
        // 250 kbit/s, a window of two: 48 ms a packet, but never more than one frame waits.
        for i in 0..1250u64 {
            fifo.push_at(pkt(1, 1500), Time::from_millis(48 * i));
            controller.dequeue(
                &mut Source { fifo: &mut fifo, elsewhere: 0 },
                &Parameters::default(),
                Time::from_millis(48 * i + 47),
                &mut dropped,
            );
        }
        // A deep queue whose packets wait 4.9 ms.
        for i in 0..100_000u64 {
            fifo.push_at(pkt(1, 1500), Time::from_nanos(100_000 * i));
            if i >= 49 {
                controller.dequeue(
                    &mut Source { fifo: &mut fifo, elsewhere: 0 },
                    &Parameters::default(),
                    Time::from_nanos(100_000 * i),
                    &mut dropped,
                );
            }
        }
        assert!(dropped.is_empty());
    }

    #[test]
    fn ect_packets_are_marked_on_the_same_schedule_and_none_is_lost() {
        let (mut controller, mut fifo, mut dropped) = (CodelController::default(), TimedFifo::default(), Vec::new());
        for i in 0..9000u64 {
            while fifo.packets() < 1000 {
                fifo.push_at(ect(1, 1500), Time::from_nanos(120_000 * i));
            }
            controller.dequeue(
                &mut Source { fifo: &mut fifo, elsewhere: 0 },
                &Parameters::default(),
                Time::from_millis(60) + Span::from_micros(120 * i),
                &mut dropped,
            );
        }
        assert!(dropped.is_empty() && (30..37).contains(&controller.marks), "{} marks", controller.marks);
    }
}
