//! The one list of algorithms: a name, as the field and scenario files write it, to its constructor.

use crate::bbr_ns3;
use crate::bbr1;
use crate::bbr2;
use crate::bic;
use crate::controller::{Controller, Start};
use crate::cubic;
use crate::cubic_rfc9438;
use crate::dctcp;
use crate::highspeed;
use crate::htcp;
use crate::hybla;
use crate::illinois;
use crate::libutp;
use crate::newreno;
use crate::params::{ParamError, Params};
use crate::scalable;
use crate::vegas;
use crate::veno;
use crate::westwood;
use crate::yeah;
use crate::{ledbat, ledbat_dynamic, ledbat_ns2, ledbat_pp, ledbat_pp_published};
use crate::{tcp_lp, tcp_lp_linux, tcp_lp_ns2, tcp_lp_ns3, tcp_nice, tcp_nice_ns2};

/// An algorithm's `build`.
type Construct = fn(&Params, &Start) -> Result<Box<dyn Controller>, ParamError>;

/// An algorithm under one name. Profiles of one algorithm are entries with a preset of their own.
#[derive(Clone, Copy, Debug)]
pub struct Algorithm {
    /// The name scenarios use.
    pub name: &'static str,
    /// One line for `lowtide sim --list`.
    pub summary: &'static str,
    /// The text it follows.
    pub source: &'static str,
    /// Whether it is meant to yield.
    pub kind: Kind,
    /// Parameters (TOML) that this name presets; a scenario's own win.
    preset: &'static str,
    construct: Construct,
}

/// What an algorithm is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Less than best effort: yields to the others.
    Scavenger,
    /// Best effort: what scavengers are measured against.
    BestEffort,
}

impl Algorithm {
    /// A controller with `params` laid over this name's preset.
    ///
    /// # Errors
    /// A parameter that the algorithm does not know or a value it cannot take.
    pub fn build(&self, params: &Params, start: &Start) -> Result<Box<dyn Controller>, ParamError> {
        let preset = Params::from_toml(self.preset).map_err(|e| ParamError { algorithm: self.name.to_owned(), reason: e.to_string() })?;
        (self.construct)(&params.over(&preset), start).map_err(|e| ParamError { algorithm: self.name.to_owned(), ..e })
    }
}

/// A best-effort rival.
const fn rival(name: &'static str, summary: &'static str, source: &'static str, preset: &'static str, construct: Construct) -> Algorithm {
    Algorithm { name, summary, source, kind: Kind::BestEffort, preset, construct }
}

/// Every algorithm, in the order `--list` shows.
pub static ALGORITHMS: &[Algorithm] = &[
    Algorithm {
        name: "ledbat",
        summary: "LEDBAT: one-way delay, 100 ms target, linear controller",
        source: "RFC 6817",
        kind: Kind::Scavenger,
        preset: "",
        construct: ledbat::build,
    },
    Algorithm {
        name: "ledbat-2009",
        summary: "LEDBAT as its first drafts had it: 25 ms target, no bound by what is in flight",
        source: "draft-shalunov-ledbat-congestion-00",
        kind: Kind::Scavenger,
        preset: ledbat::DRAFT_2009,
        construct: ledbat::build,
    },
    Algorithm {
        name: "ledbat-2009-bounded",
        summary: "ledbat-2009 that grows by one segment a round trip at most, whatever its gain",
        source: "draft-shalunov-ledbat-congestion-00, bounded as tcp_ledbat.c",
        kind: Kind::Scavenger,
        preset: ledbat::DRAFT_2009_BOUNDED,
        construct: ledbat::build,
    },
    Algorithm {
        name: "ledbat-ns2",
        summary: "LEDBAT as its first simulations ran it: whole packets and milliseconds, minimum of two delays",
        source: "Carofiglio 2010, tcp_ledbat.c for ns-2 (Valenti, Testa, Rossi)",
        kind: Kind::Scavenger,
        preset: newreno::NS2_LINUX,
        construct: ledbat_ns2::build,
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
        name: "ledbat-dynamic",
        summary: "LEDBAT whose gain falls with the window once the target is reached",
        source: "Abu 2010",
        kind: Kind::Scavenger,
        preset: "",
        construct: ledbat_dynamic::build,
    },
    Algorithm {
        name: "ledbat_pp",
        summary: "LEDBAT++: RTT-based, 60 ms target, multiplicative decrease, periodic slowdowns",
        source: "draft-irtf-iccrg-ledbat-plus-plus-01",
        kind: Kind::Scavenger,
        preset: "",
        construct: ledbat_pp::build,
    },
    Algorithm {
        name: "ledbat_pp-enhanced",
        summary: "LEDBAT++ with the target min(60 ms, base RTT), which yields to BBR",
        source: "Bagnulo 2023 §7",
        kind: Kind::Scavenger,
        preset: "enhanced = true",
        construct: ledbat_pp::build,
    },
    Algorithm {
        name: "ledbat_pp-published",
        summary: "LEDBAT++ as published for ns-3, faults and all: for comparison with that paper only",
        source: "Kapetanidou 2024, ns3-tcp-ledbatpp 88d9f97",
        kind: Kind::Scavenger,
        preset: "",
        construct: ledbat_pp_published::build,
    },
    Algorithm {
        name: "bbr1",
        summary: "BBR version 1: paces at the rate found, two bandwidth-delay products at most",
        source: "Linux tcp_bbr.c",
        kind: Kind::BestEffort,
        preset: "",
        construct: bbr1::build,
    },
    rival("bbr-ns3", "BBR as ns-3 models it, its socket's faults included", "ns-3.37 TcpBbr", "", bbr_ns3::build),
    rival("cubic", "CUBIC with HyStart, as Linux has it", "Linux tcp_cubic.c", "", cubic::build),
    rival("cubic-rfc9438", "CUBIC with HyStart++, as the RFC writes it", "RFC 9438, RFC 9406", "", cubic_rfc9438::build),
    rival("cubic-ns3", "CUBIC as ns-3 models it: no Reno-friendly region, late HyStart", "ns-3.37 TcpCubic", cubic::NS3, cubic::build),
    rival("reno", "Reno as Linux has it: counts segments, halves the window", "Linux tcp_cong.c", "", newreno::build),
    rival("reno-ns3", "LinuxReno as ns-3 models it", "ns-3.37 TcpLinuxReno", newreno::NS3_LINUX, newreno::build),
    rival("newreno", "NewReno: counts bytes, halves the flight", "RFC 5681, RFC 6582", newreno::RFC5681, newreno::build),
    rival("newreno-period", "NewReno before byte counting: grows per acknowledgement", "RFC 2581, ns-2", newreno::PERIOD, newreno::build),
    rival(
        "reno-ns2",
        "Reno as ns-2's Linux agent has it: grows per acknowledgement",
        "ns-2 tcp_cong.c",
        newreno::NS2_LINUX,
        newreno::build,
    ),
    rival("newreno-ns3", "NewReno as ns-3 models it: grows per acknowledgement", "ns-3.37 TcpNewReno", newreno::NS3, newreno::build),
    rival("vegas", "Vegas: holds two to four queued segments", "Brakmo 1995, Linux tcp_vegas.c", "", vegas::build),
    rival("vegas-linux", "Vegas with Linux's divisor, the base RTT", "Linux tcp_vegas.c", vegas::LINUX, vegas::build),
    rival("vegas-ns3", "Vegas as ns-3 models it: a loss costs one segment", "ns-3.37 TcpVegas", vegas::NS3, vegas::build),
    rival("westwood", "Westwood+: a loss leaves what the bandwidth fills", "Linux tcp_westwood.c", "", westwood::build),
    rival(
        "westwood-ns3",
        "Westwood as ns-3 models it: bandwidth per acknowledgement",
        "ns-3.37 TcpWestwood",
        westwood::NS3,
        westwood::build,
    ),
    rival("westwood_plus-ns3", "Westwood+ as ns-3 models it", "ns-3.37 TcpWestwoodPlus", westwood::NS3_PLUS, westwood::build),
    rival("dctcp", "DCTCP: cuts by the share of marked bytes", "RFC 8257", "", dctcp::build),
    rival("dctcp-ns3", "DCTCP as ns-3 models it: a loss cuts by alpha too", "ns-3.37 TcpDctcp", dctcp::NS3, dctcp::build),
    rival("scalable", "Scalable TCP: one segment per hundred, an eighth off", "Linux tcp_scalable.c", "", scalable::build),
    rival("scalable-ns3", "Scalable TCP as ns-3 models it: one per fifty", "ns-3.37 TcpScalable", scalable::NS3, scalable::build),
    rival("highspeed", "HighSpeed TCP", "RFC 3649", "", highspeed::build),
    rival("highspeed-ns3", "HighSpeed TCP as ns-3 models it: whole segments", "ns-3.37 TcpHighSpeed", highspeed::NS3, highspeed::build),
    rival("hybla", "Hybla: grows as at an RTT of 25 ms", "Linux tcp_hybla.c", "", hybla::build),
    rival("hybla-ns3", "Hybla as ns-3 models it: 50 ms", "ns-3.37 TcpHybla", hybla::NS3, hybla::build),
    rival("htcp", "H-TCP: the increase grows with the time since the last loss", "Linux tcp_htcp.c", "", htcp::build),
    rival("htcp-ns3", "H-TCP as ns-3 models it: another law", "ns-3.37 TcpHtcp", htcp::NS3, htcp::build),
    rival("illinois", "Illinois: increase and decrease follow the mean delay", "Linux tcp_illinois.c", "", illinois::build),
    rival("illinois-ns3", "Illinois as ns-3 models it: whole segments of credit", "ns-3.37 TcpIllinois", illinois::NS3, illinois::build),
    rival("bic", "BIC: binary search for the window of the last loss", "Linux tcp_bic.c", "", bic::build),
    rival("bic-ns3", "BIC as ns-3 models it", "ns-3.37 TcpBic", bic::NS3, bic::build),
    rival("veno", "Veno: tells random from congestive loss", "Linux tcp_veno.c", "", veno::build),
    rival("veno-ns3", "Veno as ns-3 models it: NewReno's increase", "ns-3.37 TcpVeno", veno::NS3, veno::build),
    rival("yeah", "YeAH: Scalable on short queues, Reno on long ones", "Linux tcp_yeah.c", "", yeah::build),
    rival("yeah-ns3", "YeAH as ns-3 models it: Reno whenever a queue exists", "ns-3.37 TcpYeah", yeah::NS3, yeah::build),
    Algorithm {
        name: "tcp_lp",
        summary: "TCP-LP: Reno that withdraws when the one-way delay passes 15 % of its range",
        source: "RFC 6297 §4.1, Carofiglio 2010",
        kind: Kind::Scavenger,
        preset: "",
        construct: tcp_lp::build,
    },
    Algorithm {
        name: "tcp_lp-linux",
        summary: "TCP-LP as Linux has it: forgets the delay range at every indication",
        source: "Linux tcp_lp.c",
        kind: Kind::Scavenger,
        preset: "",
        construct: tcp_lp_linux::build,
    },
    Algorithm {
        name: "tcp_lp-ns2",
        summary: "TCP-LP as ns-2's Linux agent runs it, faults and all: for comparison with that paper only",
        source: "Carofiglio 2010, ns-2 tcp/linux/src/tcp_lp.c (Linux 2.6.22)",
        kind: Kind::Scavenger,
        preset: newreno::NS2_LINUX,
        construct: tcp_lp_ns2::build,
    },
    Algorithm {
        name: "tcp_lp-ns3",
        summary: "TCP-LP as ns-3 models it: forgets its delay range, reacts at every acknowledgement",
        source: "ns-3.37 TcpLp",
        kind: Kind::Scavenger,
        preset: tcp_lp_ns3::NS3,
        construct: tcp_lp_ns3::build,
    },
    Algorithm {
        name: "tcp_nice",
        summary: "TCP-NICE: Vegas that halves when half a round's RTTs pass 20 % of their range",
        source: "Venkataramani 2002, Carofiglio 2010",
        kind: Kind::Scavenger,
        preset: "",
        construct: tcp_nice::build,
    },
    Algorithm {
        name: "tcp_nice-ns2",
        summary: "TCP-NICE on the Vegas of ns-2's Linux agent: whole segments, at least two",
        source: "Carofiglio 2010, ns-2 tcp/linux/src/tcp_vegas.c (Linux 2.6.22)",
        kind: Kind::Scavenger,
        preset: newreno::NS2_LINUX,
        construct: tcp_nice_ns2::build,
    },
    Algorithm {
        name: "libutp",
        summary: "libutp: LEDBAT at 3000 bytes per RTT, losses at most every 100 ms",
        source: "libutp 3110314 (2016)",
        kind: Kind::Scavenger,
        preset: "",
        construct: libutp::build,
    },
    Algorithm {
        name: "libutp-mod",
        summary: "libutp-mod: one packet per RTT, losses at most once an RTT",
        source: "Alsaadi 2018, libutp-mod 0c452e1",
        kind: Kind::Scavenger,
        preset: libutp::MOD,
        construct: libutp::build,
    },
    Algorithm {
        name: "bbr2",
        summary: "BBR version 2: version 1 with bounds on the flight learned from loss",
        source: "google/bbr tcp_bbr2.c (v2alpha), without ECN",
        kind: Kind::BestEffort,
        preset: "",
        construct: bbr2::build,
    },
];

/// The algorithm of that name.
///
/// # Errors
/// An unknown name, with the names there are.
pub fn by_name(name: &str) -> Result<&'static Algorithm, UnknownName> {
    ALGORITHMS.iter().find(|a| a.name == name).ok_or_else(|| UnknownName(name.to_owned()))
}

/// A name that the registry does not hold.
#[derive(Debug, thiserror::Error)]
#[error("unknown congestion control `{0}`; known are {names}", names = names())]
pub struct UnknownName(String);

fn names() -> String {
    ALGORITHMS.iter().map(|a| a.name).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_builds_with_its_preset_and_is_unique() {
        for (i, a) in ALGORITHMS.iter().enumerate() {
            a.build(&Params::default(), &Start::default()).unwrap_or_else(|e| panic!("{e}"));
            assert!(ALGORITHMS[..i].iter().all(|b| b.name != a.name), "{} twice", a.name);
        }
    }

    #[test]
    fn an_unknown_name_or_parameter_is_named_with_what_is_allowed() {
        let e = by_name("ledbatt").expect_err("misspelt").to_string();
        assert!(e.contains("ledbatt") && e.contains("ledbat_pp"), "{e}");
        let params = Params::from_toml("targett_ms = 3").expect("valid TOML");
        let e = by_name("ledbat_pp").expect("registered").build(&params, &Start::default()).expect_err("misspelt").to_string();
        assert!(e.contains("targett_ms") && e.contains("target_ms"), "{e}");
    }
}
