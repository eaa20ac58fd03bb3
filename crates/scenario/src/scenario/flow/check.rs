//! What a flow must be: bounds of its keys, and of what it sends in a run. Knows no other flow.

use super::{Flow, Kind, Stack, Traffic};
use crate::scenario::{FASTEST_MBPS, LONGEST_S, SLOWEST_MBPS, ScenarioError, check_delay, require};

/// The most transfers, or bursts, that all copies of a flow may make.
const MOST_TRANSFERS: f64 = 1e6;
/// The most datagrams.
const MOST_DATAGRAMS: f64 = 1e9;
/// The shortest burst.
const SHORTEST_S: f64 = 1e-6;
/// The most copies of one flow.
const MOST_COPIES: u32 = 10_000;
/// An IPv4 packet's 65,535 bytes less 52 of headers with timestamps.
const LARGEST_MSS: u32 = 65_483;

impl Flow {
    /// In a file, a receiver that would do nothing is a slip. (`--set kind=tcp` takes it away.)
    pub(in crate::scenario) fn check_receiver_counts(&self) -> Result<(), ScenarioError> {
        let key = format!("flows.{}.receiver", self.name);
        require(self.receiver.is_none() || self.kind == Kind::Rledbat, &key, "does nothing without `kind = \"rledbat\"`")
    }

    pub(in crate::scenario) fn check(&self) -> Result<(), ScenarioError> {
        let rule = |ok: bool, key: &str, rule: &str| require(ok, &format!("flows.{}.{key}", self.name), rule);
        let held = "kind rledbat needs `receiver = { algorithm = \"ledbat_pp-enhanced-burst\" }`";
        rule(self.kind != Kind::Rledbat || self.receiver.is_some(), "receiver", held)?;
        rule(self.kind == Kind::Udp || !self.cc.is_empty(), "cc", "is missing; `lowtide sim --list` names the congestion controls")?;
        let times = [("start_s", self.start_s), ("start_jitter_s", self.start_jitter_s), ("stagger_s", self.stagger_s)];
        for (key, value) in times {
            rule(value <= LONGEST_S, key, "must be at most 10000000 (115 days)")?;
        }
        rule(self.start_s >= 0.0, "start_s", "must not be negative")?;
        rule(self.stop_s.is_none_or(|stop| stop > self.start_s), "stop_s", "must lie after `start_s`")?;
        rule(self.start_jitter_s >= 0.0, "start_jitter_s", "must not be negative")?;
        rule(self.stagger_s >= 0.0, "stagger_s", "must not be negative")?;
        self.rtt_ms.map_or(Ok(()), |rtt| check_delay(rtt, &format!("flows.{}.rtt_ms", self.name)))?;
        rule(self.count <= MOST_COPIES, "count", "must be at most 10000")?;
        rule((1..=LARGEST_MSS).contains(&self.tcp.mss), "tcp.mss", "must be between 1 and 65483: an IP packet's 64 KiB less the headers")?;
        rule(self.tcp.window_scale <= 14, "tcp.window_scale", "must be at most 14 (RFC 7323)")?;
        rule((1..=2).contains(&self.tcp.delayed_ack), "tcp.delayed_ack", "must be 1 (every segment) or 2")?;
        let tcp = &self.tcp;
        rule(tcp.ns3.is_none() || tcp.stack == Stack::Ns3, "tcp.ns3", "does nothing without `stack = \"ns3\"`")?;
        rule(tcp.ns2.is_none() || tcp.stack == Stack::Ns2, "tcp.ns2", "does nothing without `stack = \"ns2\"`")?;
        rule(tcp.recovery.is_none() || tcp.stack == Stack::Rfc, "tcp.recovery", "does nothing without `stack = \"rfc\"`")?;
        rule((1..=9000).contains(&self.utp.payload_bytes), "utp.payload_bytes", "must be between 1 and 9000")?;
        rule(self.utp.min_rto_ms >= 1.0 && self.utp.tick_ms >= 1.0, "utp", "`min_rto_ms` and `tick_ms` must be at least 1")?;
        rule(self.traffic.is_sound(), "traffic", "its sizes, times and rates must be above 0")?;
        let Traffic::Poisson { mean_bytes, pareto_shape, sizes, .. } = &self.traffic else { return Ok(()) };
        rule(mean_bytes.is_some() == sizes.is_empty(), "traffic", "wants one of `mean_bytes` and `sizes`")?;
        let has_mean = |shape: f64| shape > 1.0 && mean_bytes.is_some();
        rule(pareto_shape.is_none_or(has_mean), "traffic.pareto_shape", "must be above 1, beside `mean_bytes`")?;
        rule(
            sizes.is_empty() || is_distribution(sizes),
            "traffic.sizes",
            "must be points [bytes, part] such as [[1000, 0.5], [1e6, 1]]: both rise, the last part is 1",
        )
    }

    /// Whether what it sends in `duration_s` can be simulated in a bounded time and memory.
    pub(in crate::scenario) fn check_amount(&self, duration_s: f64) -> Result<(), ScenarioError> {
        let rule = |ok: bool, key: &str, rule: &str| require(ok, &format!("flows.{}.traffic.{key}", self.name), rule);
        let copies = f64::from(self.count);
        let transfers = "makes more than 1000000 transfers in `duration_s`; give it a longer pause, or fewer copies";
        match &self.traffic {
            Traffic::Repeat { every_s, .. } => rule(duration_s / every_s * copies <= MOST_TRANSFERS, "every_s", transfers),
            Traffic::Poisson { arrivals_per_s, .. } => {
                rule(duration_s * arrivals_per_s * copies <= MOST_TRANSFERS, "arrivals_per_s", transfers)
            }
            Traffic::Cbr { rate_kbps, packet_bytes } => {
                let packets = rate_kbps * 1e3 / 8.0 / f64::from(*packet_bytes) * duration_s * copies;
                rule(*rate_kbps <= FASTEST_MBPS * 1e3, "rate_kbps", "must be at most 1000000000 (1 Tbit/s)")?;
                rule(packets <= MOST_DATAGRAMS, "rate_kbps", "makes more than 1000000000 packets in `duration_s`; lower it")
            }
            Traffic::OnOff { on_s, off_s, rate_mbps, .. } => {
                let fast = rate_mbps.is_none_or(|mbps| (SLOWEST_MBPS..=FASTEST_MBPS).contains(&mbps));
                rule(fast, "rate_mbps", "must be between 0.000001 and 1000000")?;
                let bursts = duration_s / (on_s + off_s) * copies;
                rule(*on_s >= SHORTEST_S && bursts <= MOST_TRANSFERS, "on_s", "must be at least 0.000001, and make at most 1000000 bursts")
            }
            Traffic::Bulk | Traffic::Finite { .. } => Ok(()),
        }
    }

    pub(in crate::scenario) fn check_has_no_ends(&self) -> Result<(), ScenarioError> {
        let said = [("from", self.from.is_some()), ("to", self.to.is_some()), ("route", !self.route.is_empty())];
        match said.iter().find(|(_, said)| *said) {
            Some((key, _)) => Err(ScenarioError::at(format!("flows.{}.{key}", self.name), "a dumbbell has no nodes; say `direction`")),
            None => Ok(()),
        }
    }
}

/// Points of a cumulative distribution.
fn is_distribution(points: &[[f64; 2]]) -> bool {
    let rises = points.windows(2).all(|pair| pair[1][0] > pair[0][0] && pair[1][1] > pair[0][1]);
    let (Some(first), Some(last)) = (points.first(), points.last()) else { return false };
    rises && first[0] > 0.0 && first[1] >= 0.0 && last[1] == 1.0 && last[0].is_finite()
}

impl Traffic {
    fn is_sound(&self) -> bool {
        let positive = |value: &Option<f64>| value.is_none_or(|value| value > 0.0);
        match self {
            Traffic::Bulk => true,
            Traffic::Finite { bytes } => *bytes > 0,
            Traffic::Repeat { bytes, every_s } => *bytes > 0 && *every_s > 0.0,
            Traffic::Cbr { rate_kbps, packet_bytes } => *rate_kbps > 0.0 && *packet_bytes > 0,
            Traffic::OnOff { on_s, off_s, rate_mbps: r, wait_s: w, .. } => *on_s > 0.0 && *off_s >= 0.0 && positive(r) && positive(w),
            Traffic::Poisson { arrivals_per_s, mean_bytes, .. } => *arrivals_per_s > 0.0 && positive(mean_bytes),
        }
    }
}
