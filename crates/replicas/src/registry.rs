//! The one list of replicas: a name, as scenario files write it, to its constructor.

use lowtide_cc::best_effort::{bic, cubic, dctcp, highspeed, htcp, hybla, illinois, newreno, scalable, vegas, veno, westwood, yeah};
use lowtide_cc::registry::{Algorithm, Kind, rival};
use lowtide_cc::scavenger::ledbat;

use crate::{ns2, ns3, published};

/// An exact clock, unless the scenario names the path's hops.
const HOPS: &str = "hops_ms = [0.0, 0.0, 0.0]";
const DRAFT_2009: &str = "target_ms = 25.0\nallowed_increase = inf\nmin_segments = 1.0\nhops_ms = [0.0, 0.0, 0.0]";

/// Every replica, in the order `--list` shows.
pub static ALGORITHMS: &[Algorithm] = &[
    Algorithm {
        name: "ledbat-2009-ns2",
        summary: "ledbat-2009 by ns-2's clock of doubles",
        source: "Abu 2010, ns-2.34 common/scheduler.cc",
        kind: Kind::Scavenger,
        preset: DRAFT_2009,
        construct: ns2::ledbat_draft::build,
    },
    Algorithm {
        name: "ledbat-dynamic-ns2",
        summary: "ledbat-dynamic by ns-2's clock of doubles",
        source: "Abu 2010, ns-2.34 common/scheduler.cc",
        kind: Kind::Scavenger,
        preset: HOPS,
        construct: ns2::ledbat_draft::build_dynamic,
    },
    Algorithm {
        name: "ledbat-ns2",
        summary: "LEDBAT as its first simulations ran it: whole packets and milliseconds, minimum of two delays",
        source: "Carofiglio 2010, tcp_ledbat.c for ns-2 (Valenti, Testa, Rossi)",
        kind: Kind::Scavenger,
        preset: newreno::NS2_LINUX,
        construct: ns2::ledbat::build,
    },
    Algorithm {
        name: "ledbat-ns3",
        summary: "LEDBAT as ns-3 models it: no growth beyond what is in flight, whole milliseconds, slow start",
        source: "ns-3.37 TcpLedbat",
        kind: Kind::Scavenger,
        preset: ledbat::NS3,
        construct: ledbat::build,
    },
    Algorithm {
        name: "ledbat_pp-published",
        summary: "LEDBAT++ as published for ns-3, faults and all: for comparison with that paper only",
        source: "Kapetanidou 2024, ns3-tcp-ledbatpp 88d9f97",
        kind: Kind::Scavenger,
        preset: "",
        construct: published::ledbat_pp::build,
    },
    rival("bbr-ns3", "BBR as ns-3 models it, its socket's faults included", "ns-3.37 TcpBbr", "", ns3::bbr::build),
    rival("cubic-ns3", "CUBIC as ns-3 models it: no Reno-friendly region, late HyStart", "ns-3.37 TcpCubic", cubic::NS3, cubic::build),
    rival("reno-ns3", "LinuxReno as ns-3 models it", "ns-3.37 TcpLinuxReno", newreno::NS3_LINUX, newreno::build),
    rival(
        "reno-ns2",
        "Reno as ns-2's Linux agent has it: grows per acknowledgement",
        "ns-2 tcp_cong.c",
        newreno::NS2_LINUX,
        newreno::build,
    ),
    rival("newreno-ns3", "NewReno as ns-3 models it: grows per acknowledgement", "ns-3.37 TcpNewReno", newreno::NS3, newreno::build),
    rival("vegas-ns3", "Vegas as ns-3 models it: a loss costs one segment", "ns-3.37 TcpVegas", vegas::NS3, vegas::build),
    rival(
        "westwood-ns3",
        "Westwood as ns-3 models it: bandwidth per acknowledgement",
        "ns-3.37 TcpWestwood",
        westwood::NS3,
        westwood::build,
    ),
    rival("westwood_plus-ns3", "Westwood+ as ns-3 models it", "ns-3.37 TcpWestwoodPlus", westwood::NS3_PLUS, westwood::build),
    rival("dctcp-ns3", "DCTCP as ns-3 models it: a loss cuts by alpha too", "ns-3.37 TcpDctcp", dctcp::NS3, dctcp::build),
    rival("scalable-ns3", "Scalable TCP as ns-3 models it: one per fifty", "ns-3.37 TcpScalable", scalable::NS3, scalable::build),
    rival("highspeed-ns3", "HighSpeed TCP as ns-3 models it: whole segments", "ns-3.37 TcpHighSpeed", highspeed::NS3, highspeed::build),
    rival("hybla-ns3", "Hybla as ns-3 models it: 50 ms", "ns-3.37 TcpHybla", hybla::NS3, hybla::build),
    rival("htcp-ns3", "H-TCP as ns-3 models it: another law", "ns-3.37 TcpHtcp", htcp::NS3, htcp::build),
    rival("illinois-ns3", "Illinois as ns-3 models it: whole segments of credit", "ns-3.37 TcpIllinois", illinois::NS3, illinois::build),
    rival("bic-ns3", "BIC as ns-3 models it", "ns-3.37 TcpBic", bic::NS3, bic::build),
    rival("veno-ns3", "Veno as ns-3 models it: NewReno's increase", "ns-3.37 TcpVeno", veno::NS3, veno::build),
    rival("yeah-ns3", "YeAH as ns-3 models it: Reno whenever a queue exists", "ns-3.37 TcpYeah", yeah::NS3, yeah::build),
    Algorithm {
        name: "tcp_lp-ns2",
        summary: "TCP-LP as ns-2's Linux agent runs it, faults and all: for comparison with that paper only",
        source: "Carofiglio 2010, ns-2 tcp/linux/src/tcp_lp.c (Linux 2.6.22)",
        kind: Kind::Scavenger,
        preset: newreno::NS2_LINUX,
        construct: ns2::tcp_lp::build,
    },
    Algorithm {
        name: "tcp_lp-ns3",
        summary: "TCP-LP as ns-3 models it: forgets its delay range, reacts at every acknowledgement",
        source: "ns-3.37 TcpLp",
        kind: Kind::Scavenger,
        preset: ns3::tcp_lp::NS3,
        construct: ns3::tcp_lp::build,
    },
    Algorithm {
        name: "tcp_nice-ns2",
        summary: "TCP-NICE on the Vegas of ns-2's Linux agent: whole segments, at least two",
        source: "Carofiglio 2010, ns-2 tcp/linux/src/tcp_vegas.c (Linux 2.6.22)",
        kind: Kind::Scavenger,
        preset: newreno::NS2_LINUX,
        construct: ns2::tcp_nice::build,
    },
];

#[cfg(test)]
mod tests {
    use lowtide_cc::{Params, Start};

    use super::*;

    #[test]
    fn every_name_builds_with_its_preset_and_is_unique_in_both_registries() {
        for (i, a) in ALGORITHMS.iter().enumerate() {
            a.build(&Params::default(), &Start::default()).unwrap_or_else(|e| panic!("{e}"));
            let all = lowtide_cc::registry::ALGORITHMS.iter().chain(&ALGORITHMS[..i]);
            assert!(all.into_iter().all(|b| b.name != a.name), "{} twice", a.name);
        }
    }
}
