//! What a scenario asks of the laboratory: ports, programs and paths, or why it cannot be run here. Starts nothing.

use std::collections::BTreeMap;
use std::ops::Range;

use anyhow::{Result, bail, ensure};
use lowtide_net::{ImpairConfig, RateTrace, Seed};
use lowtide_scenario::scenario::{Direction, Dumbbell, Kind};
use lowtide_scenario::{Flow, Scenario, Topology, Traffic};
use lowtide_units::{Rate, Span, Time};

use crate::packet::MTU;
use crate::path::PathConfig;
use crate::probe::Beat;

/// The first server's port; below the ephemeral ones.
const FIRST_PORT: u16 = 5001;
/// IPv4 and UDP headers: what a datagram is longer than its payload.
const DATAGRAM_HEADERS: u32 = 28;
/// IPv4 and TCP headers with timestamps: what a packet is longer than its segment.
const SEGMENT_HEADERS: u32 = 52;
/// IPv4, UDP and uTP headers.
const UTP_HEADERS: u32 = 48;
/// The smallest MTU that IPv4 guarantees (RFC 791).
const MIN_MTU: u32 = 576;
/// More bytes than any run of the laboratory can carry.
const ENDLESS: u64 = 1 << 40;

/// One program, or the call.
#[derive(Clone, Debug)]
pub struct Job {
    /// The flow's name, with its number where there are several.
    pub name: String,
    /// The flow as the scenario has it.
    pub flow: Flow,
    /// The port of its server.
    pub port: u16,
    /// The congestion control as the kernel calls it.
    pub cc: String,
    /// The options of the `lowtide run` that manages it, if one does: by which control, none for what it uses by itself.
    pub managed: Option<Vec<String>>,
    /// When it runs, in seconds of the scenario.
    pub runs: Range<f64>,
    /// What it does.
    pub work: Work,
}

/// What a job does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Work {
    /// curl moves so many bytes over so many connections, again at the given interval if there is one.
    Curl {
        /// Payload bytes.
        bytes: u64,
        /// From start to start, in seconds.
        every: Option<f64>,
        /// Towards the server.
        up: bool,
    },
    /// iperf3, downwards or upwards.
    Iperf {
        /// Towards the server.
        up: bool,
    },
    /// uTP, both ends of this program's own.
    Utp {
        /// Payload bytes; none for as long as it runs.
        bytes: Option<u64>,
        /// Towards the server.
        up: bool,
    },
    /// The call.
    Call(Beat),
}

impl Job {
    /// It has an end of its own.
    pub fn is_transfer(&self) -> bool {
        matches!(self.work, Work::Curl { bytes, .. } | Work::Utp { bytes: Some(bytes), .. } if bytes != ENDLESS)
    }

    /// Its data goes from the client to the server.
    pub fn is_upload(&self) -> bool {
        matches!(self.work, Work::Curl { up: true, .. } | Work::Iperf { up: true } | Work::Utp { up: true, .. })
    }

    /// Its samples are its receiver's: of an upload over TCP only the server is seen.
    pub fn is_seen_from_receiver(&self) -> bool {
        self.is_upload() && !matches!(self.work, Work::Utp { .. })
    }

    /// It may be ended when its time is over, not when its data is.
    pub fn endless(&self) -> bool {
        matches!(self.work, Work::Curl { bytes: ENDLESS, .. } | Work::Iperf { .. } | Work::Utp { bytes: None, .. })
    }
}

/// The link as the scenario has it.
pub fn dumbbell(scenario: &Scenario) -> Result<&Dumbbell> {
    match &scenario.topology {
        Topology::Dumbbell(Dumbbell { token_bucket_bytes: Some(_), .. }) => {
            bail!("key topology.token_bucket_bytes: the laboratory's link is a wire; `lowtide sim` has token buckets")
        }
        Topology::Dumbbell(d) if d.wifi.is_some() || d.cellular.is_some() || d.opportunities.is_some() => {
            bail!("key topology: `wifi`, `cellular` and `opportunities` are links of `lowtide sim`; the laboratory's is a wire")
        }
        Topology::Dumbbell(dumbbell) => Ok(dumbbell),
        _ => bail!("key topology.kind: the laboratory has one link, a `dumbbell`; `lowtide sim` runs the others"),
    }
}

/// The ways up and down. The base RTT is shared by halves; a flow with an RTT of its own has the rest on its way down.
pub fn paths(scenario: &Scenario, jobs: &[Job]) -> Result<(PathConfig, PathConfig)> {
    let link = dumbbell(scenario)?;
    let base = jobs.iter().filter_map(|j| j.flow.rtt_ms).fold(link.rtt_ms, f64::min);
    let extra = jobs
        .iter()
        .map(|j| (j.port, Span::from_millis_f64(j.flow.rtt_ms.unwrap_or(link.rtt_ms) - base)))
        .filter(|(_, extra)| *extra > Span::ZERO)
        .collect();
    let down = PathConfig {
        rate: Rate::from_mbps_f64(link.rate_mbps),
        trace: trace(link.rate_trace.as_ref(), scenario)?,
        extra,
        queue: link.queue.clone(),
        impair: on_top(link.impair, base / 2.0),
        header: link.link_header_bytes,
        seed: Seed::new(scenario.seed).of("link").nth(0),
    };
    let up = PathConfig {
        rate: Rate::from_mbps_f64(link.reverse_rate_mbps.unwrap_or(link.rate_mbps)),
        trace: trace(link.reverse_rate_trace.as_ref(), scenario)?,
        extra: BTreeMap::new(),
        queue: link.reverse_queue.as_ref().unwrap_or(&link.queue).clone(),
        impair: on_top(link.reverse_impair, base / 2.0),
        seed: Seed::new(scenario.seed).of("link").nth(1),
        ..down.clone()
    };
    Ok((up, down))
}

/// What the link carries while it is measured, down and up, in Mbit/s: the means of rates that change.
pub fn mean_rates(scenario: &Scenario, link: &Dumbbell) -> Result<(f64, f64)> {
    let (from, to) = (Time::from_secs_f64(scenario.warmup_s), Time::from_secs_f64(scenario.duration_s));
    let mean = |text: Option<&String>, constant: f64| -> Result<f64> {
        Ok(trace(text, scenario)?.map_or(constant, |(trace, _)| trace.mean_between(from, to).bps() as f64 / 1e6))
    };
    let up = link.reverse_rate_mbps.unwrap_or(link.rate_mbps);
    Ok((mean(link.rate_trace.as_ref(), link.rate_mbps)?, mean(link.reverse_rate_trace.as_ref(), up)?))
}

/// A rate over time, by the scenario's clock: measuring begins when the warm-up is over.
fn trace(text: Option<&String>, scenario: &Scenario) -> Result<Option<(RateTrace, Span)>> {
    text.map(|text| Ok((RateTrace::parse(text)?, Span::from_secs_f64(scenario.warmup_s)))).transpose()
}

/// The scenario's impairments come on top of the base delay.
fn on_top(impair: ImpairConfig, delay_ms: f64) -> ImpairConfig {
    ImpairConfig { delay_ms: impair.delay_ms + delay_ms, ..impair }
}

/// The jobs, in the scenario's order.
pub fn jobs(scenario: &Scenario) -> Result<Vec<Job>> {
    let mut jobs = Vec::new();
    for (index, flow) in scenario.flows.iter().enumerate() {
        for number in 0..flow.count {
            let name = if flow.count == 1 { flow.name.clone() } else { format!("{}.{}", flow.name, number + 1) };
            let start = flow.draw(scenario.seed, index, number).start_s;
            let stop = flow.stop_s.unwrap_or(scenario.duration_s).min(scenario.duration_s);
            ensure!(start < stop, "flow `{name}` starts at {start} s, when it is over: give it a smaller `start_s` or a longer run");
            let port = FIRST_PORT + jobs.len() as u16;
            let (cc, managed) = (kernel_name(&flow.cc).to_owned(), managed(flow)?);
            jobs.push(Job { work: work(flow)?, cc, managed, name, flow: flow.clone(), port, runs: start..stop });
        }
    }
    Ok(jobs)
}

/// The registry's names are those of the algorithms; the kernel's differ where it has only one version, and where lowtide brings them.
pub fn kernel_name(cc: &str) -> &str {
    match cc {
        "bbr1" => "bbr",
        "newreno" => "reno",
        "ledbat_pp" => "lt_ledbat_pp",
        "ledbat_pp-enhanced" => "lt_enhanced",
        "ledbat" => "lt_ledbat",
        "tcp_lp" => "lt_tcp_lp",
        "tcp_nice" => "lt_nice",
        "lowtide" => "lt_lowtide",
        other => other,
    }
}

/// A flow is managed if it asks for it here (`lab.lowtide`) or is of the simulator's kind that means the same.
fn managed(flow: &Flow) -> Result<Option<Vec<String>>> {
    let target = match (&flow.receiver, flow.kind, flow.lab.target.as_deref()) {
        (Some(receiver), Kind::Rledbat, _) => receiver.algorithm.as_str(),
        (.., Some(target)) if flow.lab.lowtide => target,
        _ if flow.lab.lowtide => return Ok(Some(Vec::new())),
        _ => return Ok(None),
    };
    match lowtide_window::by_name(target) {
        Err(unknown) if !is_delay(target) => {
            bail!("flow `{}`: {unknown}, or a delay such as `25ms`; for others run `lowtide sim`", flow.name)
        }
        known => Ok(Some([if known.is_ok() { "--cc" } else { "--target" }, target].map(str::to_owned).to_vec())),
    }
}

/// A queueing delay to aim at. `lowtide run` knows the bounds.
fn is_delay(target: &str) -> bool {
    target.strip_suffix("ms").is_some_and(|n| n.parse::<u8>().is_ok())
}

/// The MTU that gives the scenario's TCP flows their segments: one for all, since they share the devices.
pub fn mtu(scenario: &Scenario) -> Result<u32> {
    if let Some(large) = scenario.flows.iter().find(|f| f.kind == Kind::Utp && u32::from(f.utp.payload_bytes) + UTP_HEADERS > MTU as u32) {
        bail!("flow `{}`: in the laboratory `utp.payload_bytes` is at most {}", large.name, MTU as u32 - UTP_HEADERS);
    }
    let streams = || scenario.flows.iter().filter(|f| !matches!(f.kind, Kind::Udp | Kind::Utp) && f.count > 0);
    let mss = streams().map(|f| f.tcp.mss).max().unwrap_or(MTU as u32 - SEGMENT_HEADERS);
    if let Some(other) = streams().find(|f| f.tcp.mss != mss) {
        bail!("flow `{}`: in the laboratory all TCP flows have one `tcp.mss`, here {mss}", other.name);
    }
    let mtu = mss + SEGMENT_HEADERS;
    ensure!(
        (MIN_MTU..=MTU as u32).contains(&mtu),
        "`tcp.mss` = {mss}: the laboratory has {} to {}",
        MIN_MTU - SEGMENT_HEADERS,
        MTU as u32 - SEGMENT_HEADERS
    );
    Ok(mtu)
}

fn work(flow: &Flow) -> Result<Work> {
    let name = &flow.name;
    let can_be_both_ends = flow.lab.lowtide && flow.lab.program == "iperf3";
    ensure!(
        can_be_both_ends || !flow.lab.lowtide_server,
        "flow `{name}`: `lab.lowtide_server` needs `lab.program = \"iperf3\"` and `lab.lowtide = true`"
    );
    if flow.kind == Kind::Utp {
        let up = flow.direction == Direction::Reverse;
        return match &flow.traffic {
            Traffic::Bulk => Ok(Work::Utp { bytes: None, up }),
            Traffic::Finite { bytes } => Ok(Work::Utp { bytes: Some(*bytes), up }),
            traffic => bail!("flow `{name}`: over uTP the laboratory has bulk and finite traffic; for {traffic:?} run `lowtide sim`"),
        };
    }
    let up = flow.direction == Direction::Reverse;
    match (&flow.traffic, flow.kind) {
        (Traffic::Cbr { rate_kbps, packet_bytes }, Kind::Udp) => {
            ensure!(
                *rate_kbps > 0.0 && *packet_bytes >= DATAGRAM_HEADERS + 24,
                "flow `{name}`: the probe needs packets of {} bytes or more",
                DATAGRAM_HEADERS + 24
            );
            let interval = Span::from_secs_f64(f64::from(*packet_bytes) * 8.0 / (rate_kbps * 1e3));
            Ok(Work::Call(Beat { size: (packet_bytes - DATAGRAM_HEADERS) as usize, interval }))
        }
        (_, Kind::Udp) => bail!("flow `{name}`: over UDP the laboratory has only `traffic = {{ kind = \"cbr\", … }}`"),
        (Traffic::Bulk, _) if flow.lab.program == "iperf3" => Ok(Work::Iperf { up }),
        _ if flow.lab.program != "curl" => {
            bail!("flow `{name}`: `lab.program` is `curl` or, for bulk traffic, `iperf3`; not `{}`", flow.lab.program)
        }
        (Traffic::Bulk, ..) => Ok(Work::Curl { bytes: ENDLESS, every: None, up }),
        (Traffic::Finite { bytes }, ..) => Ok(Work::Curl { bytes: *bytes, every: None, up }),
        (Traffic::Repeat { bytes, every_s }, ..) => Ok(Work::Curl { bytes: *bytes, every: Some(*every_s), up }),
        (traffic, ..) => bail!("flow `{name}`: the laboratory has bulk, finite, repeat and cbr traffic; for {traffic:?} run `lowtide sim`"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scenario(flows: &str) -> Scenario {
        let head = "duration_s = 10.0\n[topology]\nkind = \"dumbbell\"\nrate_mbps = 20.0\nrtt_ms = 20.0\nqueue = { kind = \"drop_tail\", ms = 500 }\n";
        Scenario::parse(&format!("{head}{flows}")).unwrap()
    }

    #[test]
    fn a_g711_call_is_160_bytes_each_20_ms() {
        let s = scenario("[[flows]]\nname = \"call\"\nkind = \"udp\"\ntraffic = { kind = \"cbr\", rate_kbps = 75.2, packet_bytes = 188 }");
        let Work::Call(beat) = jobs(&s).unwrap()[0].work else { panic!("not a call") };
        assert_eq!((beat.size, beat.interval), (160, Span::from_millis(20)));
    }

    #[test]
    fn each_of_several_has_a_name_and_a_port_and_its_own_rtt_on_the_way_down() {
        let s = scenario(
            "[[flows]]\nname = \"a\"\ncc = \"bbr1\"\ncount = 2\nstagger_s = 3.0\n[[flows]]\nname = \"far\"\ncc = \"cubic\"\nrtt_ms = 100.0",
        );
        let jobs = jobs(&s).unwrap();
        let seen: Vec<_> = jobs.iter().map(|j| (j.name.as_str(), j.port, j.cc.as_str(), j.runs.start)).collect();
        assert_eq!(seen, [("a.1", 5001, "bbr", 0.0), ("a.2", 5002, "bbr", 3.0), ("far", 5003, "cubic", 0.0)]);
        let (up, down) = paths(&s, &jobs).unwrap();
        assert_eq!((up.impair.delay_ms, down.impair.delay_ms), (10.0, 10.0));
        assert_eq!((up.extra.len(), &down.extra), (0, &BTreeMap::from([(5003, Span::from_millis(80))])));
    }

    #[test]
    fn the_simulators_rledbat_is_lowtide_run_here() {
        let s = scenario(
            "[[flows]]\nname = \"a\"\nkind = \"rledbat\"\ncc = \"cubic\"\nreceiver = { algorithm = \"ledbat_pp\" }\n[[flows]]\nname = \"b\"\ncc = \"cubic\"\nlab = { lowtide = true }\n[[flows]]\nname = \"c\"\ncc = \"cubic\"",
        );
        let seen: Vec<_> = jobs(&s).unwrap().into_iter().map(|j| j.managed).collect();
        let by = |control: &str| Some(vec!["--cc".to_owned(), control.to_owned()]);
        assert_eq!(seen, [by("ledbat_pp"), Some(Vec::new()), None]);
    }

    #[test]
    fn segments_decide_the_mtu_and_starts_are_drawn_by_the_seed() {
        let s = scenario("[[flows]]\nname = \"a\"\ncc = \"cubic\"\ntcp = { mss = 1390 }\nstart_jitter_s = 2.0");
        assert_eq!(mtu(&s).unwrap(), 1442);
        assert_eq!(mtu(&scenario("[[flows]]\nname = \"a\"\ncc = \"cubic\"")).unwrap(), 1500);
        assert!(mtu(&scenario("[[flows]]\nname = \"a\"\ncc = \"cubic\"\ntcp = { mss = 8948 }")).is_err());
        let starts = |seed| (1..20u64).map(|n| jobs(&Scenario { seed: seed + n, ..s.clone() }).unwrap()[0].runs.start).collect::<Vec<_>>();
        assert_eq!(starts(1), starts(1));
        assert!(starts(1).iter().all(|start| (0.0..2.0).contains(start)) && starts(1).iter().any(|start| *start > 1.0));
    }

    #[test]
    fn what_cannot_be_run_is_refused_by_name() {
        for (flow, word) in [
            (
                "name = \"u\"\nkind = \"utp\"\ncc = \"ledbat\"\ntraffic = { kind = \"poisson\", arrivals_per_s = 1.0, mean_bytes = 1e4 }",
                "uTP",
            ),
            ("name = \"p\"\ncc = \"cubic\"\ntraffic = { kind = \"poisson\", arrivals_per_s = 1.0, mean_bytes = 1e4 }", "Poisson"),
            ("name = \"r\"\nkind = \"rledbat\"\ncc = \"cubic\"\nreceiver = { algorithm = \"rledbat-s0\" }", "rledbat-s0"),
            ("name = \"w\"\ncc = \"cubic\"\nlab = { program = \"wget\" }", "wget"),
            ("name = \"l\"\ncc = \"cubic\"\nstart_s = 10.0", "start_s"),
            ("name = \"s\"\ncc = \"cubic\"\nlab = { lowtide_server = true }", "lowtide_server"),
        ] {
            let message = jobs(&scenario(&format!("[[flows]]\n{flow}"))).unwrap_err().to_string();
            assert!(message.contains(word), "{message}");
        }
    }
}
