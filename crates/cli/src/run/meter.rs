//! Rates: what the kernel counts since the start, seen against the last look. The one file of `run` that reads a clock.

#![expect(clippy::disallowed_methods, reason = "rates are per second of the machine's own clock")]

use std::collections::HashMap;
use std::time::{Duration, Instant};

use lowtide_kernel::{FlowSnapshot, SendSnapshot, SendTotals, Totals};
use lowtide_units::{Rate, Span};
use serde::Serialize;

use super::manage::Managed;
use crate::status_socket::{Direction, Flow, Group, Sending, WORTH_TELLING};

/// What is due without being asked for is due this often; a rate is never over less than `SHORTEST`.
const TICK: Duration = Duration::from_millis(1000);
const SHORTEST: Duration = Duration::from_millis(250);

/// Turns counters into rates.
pub struct Meter {
    description: Group,
    started: Instant,
    ticked: Instant,
    last: Look,
    shown: Group,
}

/// The counters at one time.
struct Look {
    at: Instant,
    group: u64,
    sent: u64,
    flows: HashMap<u64, u64>,
}

impl Meter {
    /// From now on. `description` has what does not change.
    pub fn start(description: Group) -> Meter {
        let now = Instant::now();
        let last = Look { at: now, group: 0, sent: 0, flows: HashMap::new() };
        Meter { shown: description.clone(), description, started: now, ticked: now, last }
    }

    /// Once a second, however often anybody has looked meanwhile.
    pub fn tick_is_due(&mut self) -> bool {
        let due = self.ticked.elapsed() >= TICK;
        if due {
            self.ticked = Instant::now();
        }
        due
    }

    /// The state now, with rates since the last look, or the last one if that is too near.
    pub fn group(&mut self, managed: Option<&Managed>) -> Group {
        if let Some(managed) = managed {
            self.sample(managed).unwrap_or_else(|e| super::note(&e));
        }
        self.shown.running_s = self.started.elapsed().as_secs_f64();
        self.shown.clone()
    }

    /// Takes a look, unless the last one is too near.
    pub fn sample(&mut self, managed: &Managed) -> anyhow::Result<()> {
        if self.last.at.elapsed() < SHORTEST {
            return Ok(());
        }
        let (totals, received) = (managed.totals()?, managed.flows()?);
        let (sending, sent) = (managed.sent()?, managed.uploads()?);
        let now = Instant::now();
        let span = Span::from_nanos(now.duration_since(self.last.at).as_nanos() as u64);
        self.shown = Group {
            bytes: totals.bytes,
            rate_bps: rate(totals.bytes, self.last.group, span),
            yielded_s: totals.yielded.secs_f64(),
            added_delay_ms: totals.mean_queueing_delay.map(Span::millis_f64),
            connections_left_alone: totals.left_alone.total(),
            left_alone: totals.left_alone,
            acks_lowered: totals.lowered,
            packets_unparsed: totals.unparsed + totals.unparsed_sent,
            interfaces: managed.interfaces(),
            sending: Sending { rate_bps: rate(sending.bytes, self.last.sent, span), ..managed.sending(&sending) },
            flows: flows(&received, &sent, &self.last.flows, span),
            ..self.description.clone()
        };
        self.last = look(now, &totals, &sending, &self.shown.flows);
        Ok(())
    }
}

fn look(at: Instant, totals: &Totals, sent: &SendTotals, flows: &[Flow]) -> Look {
    Look { at, group: totals.bytes, sent: sent.bytes, flows: flows.iter().map(|f| (f.id, f.bytes)).collect() }
}

/// A cookie is counted up from nought: this bit is free.
const UP: u64 = 1 << 63;

/// Both directions of each connection that carries bytes worth telling of.
fn flows(received: &[FlowSnapshot], sent: &[SendSnapshot], before: &HashMap<u64, u64>, span: Span) -> Vec<Flow> {
    let since = |id| before.get(&id).copied().unwrap_or(0);
    let down: HashMap<u64, u64> = received.iter().map(|f| (f.cookie, f.bytes)).collect();
    let up: HashMap<u64, u64> = sent.iter().map(|f| (f.cookie, f.bytes)).collect();
    let worth = |bytes: u64, other: Option<&u64>| bytes.saturating_mul(WORTH_TELLING) >= other.copied().unwrap_or(0);
    let received = received.iter().filter(|f| worth(f.bytes, up.get(&f.cookie))).map(|f| flow(f, since(f.cookie), span));
    let sent = sent.iter().filter(|f| f.bytes > 0 && worth(f.bytes, down.get(&f.cookie))).map(|f| upload(f, since(f.cookie | UP), span));
    received.chain(sent).collect()
}

fn rate(bytes: u64, before: u64, span: Span) -> u64 {
    Rate::from_bytes_over(bytes.saturating_sub(before), span).bps()
}

fn flow(flow: &FlowSnapshot, before: u64, span: Span) -> Flow {
    Flow {
        id: flow.cookie,
        direction: Direction::Down,
        local: flow.local.to_string(),
        remote: flow.remote.to_string(),
        bytes: flow.bytes,
        rate_bps: rate(flow.bytes, before, span),
        base_rtt_ms: flow.base_rtt.map(Span::millis_f64),
        rtt_ms: flow.rtt.map(Span::millis_f64),
        queueing_delay_ms: flow.queueing_delay.map(Span::millis_f64),
        window_bytes: flow.window,
        path_window_bytes: flow.path_window,
        path_flows: flow.path_flows,
        phase: word(&flow.phase),
        retransmissions: flow.retransmissions,
        slowdowns: flow.slowdowns,
        mode: word(&flow.mode),
        unseen: flow.unseen,
        idle_s: flow.idle.secs_f64(),
        age_s: flow.age.secs_f64(),
    }
}

fn upload(flow: &SendSnapshot, before: u64, span: Span) -> Flow {
    Flow {
        id: flow.cookie | UP,
        direction: Direction::Up,
        local: flow.local.to_string(),
        remote: flow.remote.to_string(),
        bytes: flow.bytes,
        rate_bps: rate(flow.bytes, before, span),
        base_rtt_ms: flow.base_rtt.map(Span::millis_f64),
        rtt_ms: flow.rtt.map(Span::millis_f64),
        queueing_delay_ms: flow.queueing_delay.map(Span::millis_f64),
        window_bytes: flow.window,
        path_window_bytes: flow.path_window,
        path_flows: flow.path_flows,
        phase: word(&flow.phase),
        retransmissions: flow.retransmissions,
        slowdowns: flow.slowdowns,
        mode: "sender".to_owned(),
        unseen: false,
        idle_s: flow.idle.secs_f64(),
        age_s: flow.age.secs_f64(),
    }
}

/// The name that serde gives an enum's variant, as words: `slow start`.
fn word(value: &impl Serialize) -> String {
    let name = serde_json::to_value(value).ok();
    name.as_ref().and_then(serde_json::Value::as_str).unwrap_or_default().replace('_', " ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use lowtide_kernel::{Mode, Phase};

    #[test]
    fn a_rate_is_what_came_since_the_last_look_and_never_negative() {
        let span = Span::from_millis(500);
        assert_eq!(rate(2_250_000, 1_000_000, span), 20_000_000);
        assert_eq!(rate(10, 1_000, span), 0);
        assert_eq!(rate(10, 0, Span::ZERO), 0);
    }

    #[test]
    fn states_are_written_as_words() {
        assert_eq!(word(&Phase::SlowStartAfterTimeout), "slow start after timeout");
        assert_eq!(word(&Mode::Timestamps), "timestamps");
    }
}
