//! CoDel (RFC 8289): drops at the head when packets have waited longer than the target for a whole interval. The control law
//! (its `Law`) is apart from the FIFO so that FQ-CoDel can run one per queue.

use lowtide_units::{Span, Time};
use serde::{Deserialize, Serialize};

use crate::config::ConfigError;
use crate::queue::{Drop, Fifo, Packet, Queue, Waiting, mark};

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
pub(crate) struct Law {
    first_above: Option<Time>,
    drop_next: Time,
    count: u32,
    last_count: u32,
    dropping: bool,
    /// CE marks set.
    pub marks: u64,
}

impl Law {
    /// The next packet of `fifo` to send; what the law drops goes to `dropped`.
    pub fn dequeue<P: Packet>(&mut self, fifo: &mut Fifo<P>, p: &Parameters, now: Time, dropped: &mut Vec<(P, Drop)>) -> Option<P> {
        let mut head = self.take(fifo, p, now);
        if self.dropping {
            if !head.1 {
                self.dropping = false;
            }
            while self.dropping && now >= self.drop_next {
                self.count += 1;
                if self.mark(&mut head.0, p) {
                    self.drop_next += interval_over_root(p.interval, self.count);
                    break;
                }
                head = self.replace(head.0, fifo, p, now, dropped);
                if head.1 {
                    self.drop_next += interval_over_root(p.interval, self.count);
                } else {
                    self.dropping = false;
                }
            }
        } else if head.1 {
            self.enter(p, now);
            if !self.mark(&mut head.0, p) {
                head = self.replace(head.0, fifo, p, now, dropped);
            }
        }
        let mut stamped = head.0?;
        if p.ce_threshold.is_some_and(|limit| stamped.sojourn(now) > limit) && mark(&mut stamped.packet) {
            self.marks += 1;
        }
        Some(stamped.packet)
    }

    /// Takes a packet and says whether it may be dropped: the delay has been above target for an interval.
    fn take<P: Packet>(&mut self, fifo: &mut Fifo<P>, p: &Parameters, now: Time) -> (Option<Waiting<P>>, bool) {
        let Some(stamped) = fifo.pop() else {
            self.first_above = None;
            return (None, false);
        };
        if stamped.sojourn(now) < p.target || fifo.bytes() <= p.max_packet {
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
        fifo: &mut Fifo<P>,
        p: &Parameters,
        now: Time,
        dropped: &mut Vec<(P, Drop)>,
    ) -> (Option<Waiting<P>>, bool) {
        dropped.extend(head.map(|s| (s.packet, Drop::Early)));
        self.take(fifo, p, now)
    }

    fn mark<P: Packet>(&mut self, head: &mut Option<Waiting<P>>, p: &Parameters) -> bool {
        let marked = p.ecn && head.as_mut().is_some_and(|waiting| mark(&mut waiting.packet));
        self.marks += u64::from(marked);
        marked
    }

    fn enter(&mut self, p: &Parameters, now: Time) {
        self.dropping = true;
        let delta = self.count.saturating_sub(self.last_count);
        let recent = now.since(self.drop_next) < p.interval * RESUME_INTERVALS;
        self.count = if delta > 1 && recent { delta } else { 1 };
        self.last_count = self.count;
        self.drop_next = now + interval_over_root(p.interval, self.count);
    }
}

/// interval / √count: square roots are exactly rounded on every machine.
fn interval_over_root(interval: Span, count: u32) -> Span {
    Span::from_nanos((interval.nanos() as f64 / f64::from(count).sqrt()) as u64)
}

/// CoDel over one FIFO.
#[derive(Debug)]
pub struct CoDel<P> {
    fifo: Fifo<P>,
    law: Law,
    parameters: Parameters,
    limit_packets: usize,
}

impl<P: Packet> CoDel<P> {
    /// An empty queue that holds at most `limit_packets`.
    pub fn new(parameters: Parameters, limit_packets: usize) -> CoDel<P> {
        CoDel { fifo: Fifo::default(), law: Law::default(), parameters, limit_packets }
    }
}

impl<P: Packet + Send> Queue<P> for CoDel<P> {
    fn enqueue(&mut self, packet: P, now: Time, dropped: &mut Vec<(P, Drop)>) {
        if self.fifo.packets() >= self.limit_packets {
            dropped.push((packet, Drop::Overflow));
            return;
        }
        self.fifo.push(packet, now);
    }

    fn dequeue(&mut self, now: Time, dropped: &mut Vec<(P, Drop)>) -> Option<P> {
        self.law.dequeue(&mut self.fifo, &self.parameters, now, dropped)
    }

    fn bytes(&self) -> u64 {
        self.fifo.bytes()
    }

    fn packets(&self) -> usize {
        self.fifo.packets()
    }

    fn marks(&self) -> u64 {
        self.law.marks
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{Pkt, ect, pkt};

    /// Drop times in ms after the first drop, of a queue that never gets shorter than a second of packets.
    fn drop_times(law: &mut Law, from: Time, span: Span) -> Vec<f64> {
        let (mut fifo, mut dropped, mut times) = (Fifo::<Pkt>::default(), Vec::new(), Vec::new());
        let mut now = from;
        while now.since(from) < span {
            while fifo.packets() < 1000 {
                fifo.push(pkt(1, 1500), now - Span::from_millis(50));
            }
            law.dequeue(&mut fifo, &Parameters::default(), now, &mut dropped);
            times.extend(std::iter::repeat_n(now.since(from).millis_f64(), dropped.len()));
            dropped.clear();
            now += Span::from_micros(120);
        }
        times
    }

    /// RFC 8289's control law: first drop an interval after the delay rose, then interval / √count apart (aqm.md I.3).
    #[test]
    fn drops_follow_the_inverse_square_root() {
        let times = drop_times(&mut Law::default(), Time::from_millis(1000), Span::from_millis(1110));
        let first = times[0];
        assert!((first - 100.0).abs() < 0.13, "{first}");
        let want = [0.0, 100.0, 170.71, 228.45, 278.45, 323.17, 363.99, 401.79, 437.14, 470.48];
        for (got, want) in times.iter().map(|t| t - first).zip(want) {
            assert!((got - want).abs() <= 0.13, "{got} is not {want}");
        }
        assert_eq!(times.iter().filter(|t| **t - first < 1000.0).count(), 33);
    }

    #[test]
    fn reentry_resumes_within_sixteen_intervals() {
        for (after_ms, count) in [(1590, 19), (1610, 1)] {
            let mut law = Law { count: 20, last_count: 1, drop_next: Time::from_millis(10_000), ..Law::default() };
            law.enter(&Parameters::default(), Time::from_millis(10_000 + after_ms));
            assert_eq!(law.count, count, "{after_ms} ms after drop_next");
        }
    }

    #[test]
    fn short_queues_and_short_delays_are_left_alone() {
        let (mut law, mut fifo, mut dropped) = (Law::default(), Fifo::default(), Vec::new());
        // 250 kbit/s, a window of two: 48 ms a packet, but never more than one frame waits.
        for i in 0..1250u64 {
            fifo.push(pkt(1, 1500), Time::from_millis(48 * i));
            law.dequeue(&mut fifo, &Parameters::default(), Time::from_millis(48 * i + 47), &mut dropped);
        }
        // A deep queue whose packets wait 4.9 ms.
        for i in 0..100_000u64 {
            fifo.push(pkt(1, 1500), Time::from_nanos(100_000 * i));
            if i >= 49 {
                law.dequeue(&mut fifo, &Parameters::default(), Time::from_nanos(100_000 * i), &mut dropped);
            }
        }
        assert!(dropped.is_empty());
    }

    #[test]
    fn ect_packets_are_marked_on_the_same_schedule_and_none_is_lost() {
        let (mut law, mut fifo, mut dropped) = (Law::default(), Fifo::default(), Vec::new());
        for i in 0..9000u64 {
            while fifo.packets() < 1000 {
                fifo.push(ect(1, 1500), Time::from_nanos(120_000 * i));
            }
            law.dequeue(&mut fifo, &Parameters::default(), Time::from_millis(60) + Span::from_micros(120 * i), &mut dropped);
        }
        assert!(dropped.is_empty() && (30..37).contains(&law.marks), "{} marks", law.marks);
    }
}
