//! The one list of replicas: a name, as scenario files write it, to its constructor; and the look-up in it and in `lowtide-cc`'s.

use std::fmt;

use lowtide_cc::registry::{self as cc, Kind, UnknownName};
use lowtide_cc::{Controller, ParamError, Params, Start};

use crate::contract::{Plain, Replica};
use crate::ns2::{self, ledbat_draft};
use crate::ns3::socket::{CongestionOps, build};
use crate::ns3::{bbr, bic, cubic, dctcp, highspeed, htcp, hybla, illinois, ledbat, reno, scalable, tcp_lp, vegas, veno, westwood, yeah};
use crate::published;

/// A replica's `build`.
type AnyConstruct = fn(&Params, &Start) -> Result<Box<dyn Replica>, ParamError>;
/// One of ns-3's.
type Ns3Construct = fn(&Params, &Start) -> Result<Box<dyn CongestionOps>, ParamError>;

/// The same, by the host that it is made for.
#[derive(Clone, Copy, Debug)]
enum Construct {
    /// Any that acts on [`Controller`]'s events.
    Any(AnyConstruct),
    /// ns-3's socket alone.
    Ns3(Ns3Construct),
}

/// A replica under its name.
#[derive(Clone, Copy, Debug)]
pub struct Algorithm {
    /// The name scenarios use.
    pub name: &'static str,
    /// One line for `lowtide sim --list`.
    pub summary: &'static str,
    /// What it imitates.
    pub source: &'static str,
    /// Whether it is meant to yield.
    pub kind: Kind,
    construct: Construct,
}

impl Algorithm {
    /// A control with `params`.
    ///
    /// # Errors
    /// A parameter that it does not know or a value it cannot take.
    pub fn build(&self, params: &Params, start: &Start) -> Result<Built, ParamError> {
        let built = match self.construct {
            Construct::Any(construct) => construct(params, start).map(Built::Replica),
            Construct::Ns3(construct) => construct(params, start).map(Built::Ns3),
        };
        built.map_err(|e| ParamError { algorithm: self.name.to_owned(), ..e })
    }
}

const fn scavenger(name: &'static str, summary: &'static str, source: &'static str, construct: AnyConstruct) -> Algorithm {
    Algorithm { name, summary, source, kind: Kind::Scavenger, construct: Construct::Any(construct) }
}

const fn rival(name: &'static str, summary: &'static str, source: &'static str, construct: AnyConstruct) -> Algorithm {
    Algorithm { name, summary, source, kind: Kind::BestEffort, construct: Construct::Any(construct) }
}

/// A control of ns-3's socket.
const fn ns3(kind: Kind, name: &'static str, summary: &'static str, source: &'static str, construct: Ns3Construct) -> Algorithm {
    Algorithm { name, summary, source, kind, construct: Construct::Ns3(construct) }
}

/// Every replica, in the order `--list` shows.
pub static ALGORITHMS: &[Algorithm] = &[
    scavenger("ledbat-2009-ns2", "ledbat-2009 by ns-2's clock of doubles", "Abu 2010, ns-2.34 common/scheduler.cc", ledbat_draft::build),
    scavenger(
        "ledbat-dynamic-ns2",
        "ledbat-dynamic by ns-2's clock of doubles",
        "Abu 2010, ns-2.34 common/scheduler.cc",
        ledbat_draft::build_dynamic,
    ),
    scavenger(
        "ledbat-ns2",
        "LEDBAT as its first simulations ran it: whole packets and milliseconds, minimum of two delays",
        "Carofiglio 2010, tcp_ledbat.c for ns-2 (Valenti, Testa, Rossi)",
        ns2::ledbat::build,
    ),
    scavenger(
        "tcp_lp-ns2",
        "TCP-LP as ns-2's Linux agent runs it, faults and all: for comparison with that paper only",
        "Carofiglio 2010, ns-2 tcp/linux/src/tcp_lp.c (Linux 2.6.22)",
        ns2::tcp_lp::build,
    ),
    scavenger(
        "tcp_nice-ns2",
        "TCP-NICE on the Vegas of ns-2's Linux agent: whole segments, at least two",
        "Carofiglio 2010, ns-2 tcp/linux/src/tcp_vegas.c (Linux 2.6.22)",
        ns2::tcp_nice::build,
    ),
    ns3(
        Kind::Scavenger,
        "ledbat_pp-published",
        "LEDBAT++ as published for ns-3, faults and all: for comparison with that paper only",
        "Kapetanidou 2024, ns3-tcp-ledbatpp 88d9f97",
        |params, _| published::ledbat_pp::build(params),
    ),
    rival("reno-ns2", "Reno as ns-2's Linux agent has it: counts bytes", "ns-2 tcp/linux/src/tcp_cong.c", ns2::window::build),
    rival(
        "tcp_agent-ns2",
        "Reno as ns-2's own agents have it: counts acknowledgements, in parts of a segment",
        "ns-2 tcp/tcp.cc",
        ns2::tcp_agent::build,
    ),
    ns3(Kind::BestEffort, "bbr-ns3", "BBR as ns-3 models it, its socket's faults included", "ns-3.37 TcpBbr", bbr::build),
    ns3(
        Kind::Scavenger,
        "ledbat-ns3",
        "LEDBAT as ns-3 models it: no growth beyond what is in flight, whole milliseconds, slow start",
        "ns-3.37 TcpLedbat",
        |params, _| build("ledbat-ns3", ledbat::Ledbat::default(), params),
    ),
    ns3(
        Kind::Scavenger,
        "tcp_lp-ns3",
        "TCP-LP as ns-3 models it: forgets its delay range, reacts at every acknowledgement",
        "ns-3.37 TcpLp",
        |params, _| build("tcp_lp-ns3", tcp_lp::Lp::default(), params),
    ),
    ns3(Kind::BestEffort, "reno-ns3", "LinuxReno as ns-3 models it", "ns-3.37 TcpLinuxReno", |params, _| {
        build("reno-ns3", reno::LinuxReno::default(), params)
    }),
    ns3(Kind::BestEffort, "newreno-ns3", "NewReno as ns-3 models it: grows per acknowledgement", "ns-3.37 TcpNewReno", |params, _| {
        build("newreno-ns3", reno::NewReno, params)
    }),
    ns3(
        Kind::BestEffort,
        "cubic-ns3",
        "CUBIC as ns-3 models it: no Reno-friendly region, late HyStart",
        "ns-3.37 TcpCubic",
        |params, _| build("cubic-ns3", cubic::Cubic::default(), params),
    ),
    ns3(Kind::BestEffort, "vegas-ns3", "Vegas as ns-3 models it: a loss costs one segment", "ns-3.37 TcpVegas", |params, _| {
        build("vegas-ns3", vegas::Vegas::default(), params)
    }),
    ns3(
        Kind::BestEffort,
        "westwood-ns3",
        "Westwood as ns-3 models it: bandwidth per acknowledgement",
        "ns-3.37 TcpWestwood",
        |params, _| build("westwood-ns3", westwood::Westwood::new(westwood::Type::Westwood), params),
    ),
    ns3(Kind::BestEffort, "westwood_plus-ns3", "Westwood+ as ns-3 models it", "ns-3.37 TcpWestwoodPlus", |params, _| {
        build("westwood_plus-ns3", westwood::Westwood::new(westwood::Type::WestwoodPlus), params)
    }),
    ns3(Kind::BestEffort, "dctcp-ns3", "DCTCP as ns-3 models it: a loss cuts by alpha too", "ns-3.37 TcpDctcp", |params, _| {
        build("dctcp-ns3", dctcp::Dctcp::default(), params)
    }),
    ns3(Kind::BestEffort, "scalable-ns3", "Scalable TCP as ns-3 models it: one per fifty", "ns-3.37 TcpScalable", |params, _| {
        build("scalable-ns3", scalable::Scalable::new(50), params)
    }),
    ns3(Kind::BestEffort, "highspeed-ns3", "HighSpeed TCP as ns-3 models it: RFC 3649's table", "ns-3.37 TcpHighSpeed", |params, _| {
        build("highspeed-ns3", highspeed::HighSpeed::default(), params)
    }),
    ns3(Kind::BestEffort, "hybla-ns3", "Hybla as ns-3 models it: 50 ms", "ns-3.37 TcpHybla", |params, _| {
        build("hybla-ns3", hybla::Hybla::default(), params)
    }),
    ns3(Kind::BestEffort, "htcp-ns3", "H-TCP as ns-3 models it: another law", "ns-3.37 TcpHtcp", |params, _| {
        build("htcp-ns3", htcp::Htcp::default(), params)
    }),
    ns3(Kind::BestEffort, "illinois-ns3", "Illinois as ns-3 models it: whole segments of credit", "ns-3.37 TcpIllinois", |params, _| {
        build("illinois-ns3", illinois::Illinois::default(), params)
    }),
    ns3(Kind::BestEffort, "bic-ns3", "BIC as ns-3 models it", "ns-3.37 TcpBic", |params, _| build("bic-ns3", bic::Bic::default(), params)),
    ns3(Kind::BestEffort, "veno-ns3", "Veno as ns-3 models it: NewReno's increase", "ns-3.37 TcpVeno", |params, _| {
        build("veno-ns3", veno::Veno::default(), params)
    }),
    ns3(Kind::BestEffort, "yeah-ns3", "YeAH as ns-3 models it: Reno whenever a queue exists", "ns-3.37 TcpYeah", |params, _| {
        build("yeah-ns3", yeah::Yeah::default(), params)
    }),
];

/// An algorithm of one of the registries.
#[derive(Clone, Copy, Debug)]
pub enum Known {
    /// `lowtide-cc`'s.
    Core(&'static cc::Algorithm),
    /// A replica.
    Replica(&'static Algorithm),
}

/// A control of one of them.
#[derive(Debug)]
pub enum Built {
    /// `lowtide-cc`'s.
    Core(Box<dyn Controller>),
    /// A replica that any host may run.
    Replica(Box<dyn Replica>),
    /// One for ns-3's socket.
    Ns3(Box<dyn CongestionOps>),
}

/// A host cannot run a control.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unfit {
    /// A control of ns-3's socket without it.
    NeedsNs3,
    /// ns-3's socket with another.
    InNs3,
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Unfit::NeedsNs3 => "a model of ns-3 runs in ns-3's socket only: set `tcp = { stack = \"ns3\" }`",
            Unfit::InNs3 => "ns-3's socket runs ns-3's controls only: take one whose name ends in `-ns3`, or another `tcp.stack`",
        })
    }
}

impl Known {
    /// A control with `params`.
    ///
    /// # Errors
    /// A parameter that it does not know or a value it cannot take.
    pub fn build(&self, params: &Params, start: &Start) -> Result<Built, ParamError> {
        match self {
            Known::Core(algorithm) => algorithm.build(params, start).map(Built::Core),
            Known::Replica(algorithm) => algorithm.build(params, start),
        }
    }
}

impl Built {
    /// For a host that knows nothing of replicas.
    ///
    /// # Errors
    /// It needs ns-3's socket.
    pub fn into_controller(self) -> Result<Box<dyn Controller>, Unfit> {
        match self {
            Built::Core(controller) => Ok(controller),
            Built::Replica(replica) => Ok(replica),
            Built::Ns3(_) => Err(Unfit::NeedsNs3),
        }
    }

    /// For a host that imitates ns-2's agents.
    ///
    /// # Errors
    /// It needs ns-3's socket.
    pub fn into_replica(self) -> Result<Box<dyn Replica>, Unfit> {
        match self {
            Built::Core(controller) => Ok(Box::new(Plain(controller))),
            Built::Replica(replica) => Ok(replica),
            Built::Ns3(_) => Err(Unfit::NeedsNs3),
        }
    }

    /// For ns-3's socket.
    ///
    /// # Errors
    /// It is none of ns-3's.
    pub fn into_congestion_ops(self) -> Result<Box<dyn CongestionOps>, Unfit> {
        match self {
            Built::Ns3(ops) => Ok(ops),
            Built::Core(_) | Built::Replica(_) => Err(Unfit::InNs3),
        }
    }
}

/// The algorithm of that name, `lowtide-cc`'s or a replica.
///
/// # Errors
/// An unknown name, with the names there are.
pub fn by_name(name: &str) -> Result<Known, UnknownName> {
    if let Some(replica) = ALGORITHMS.iter().find(|a| a.name == name) {
        return Ok(Known::Replica(replica));
    }
    cc::by_name(name).map(Known::Core).map_err(|e| e.also("and the replicas that `lowtide sim --list` shows"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_builds_and_is_unique_in_both_registries() {
        for (i, a) in ALGORITHMS.iter().enumerate() {
            a.build(&Params::default(), &Start::default()).unwrap_or_else(|e| panic!("{e}"));
            assert!(ALGORITHMS[..i].iter().all(|b| b.name != a.name), "{} twice", a.name);
            assert!(cc::ALGORITHMS.iter().all(|b| b.name != a.name), "{} in both", a.name);
        }
    }

    #[test]
    fn an_unknown_name_is_told_the_core_s_names_and_where_the_replicas_stand() {
        let e = by_name("ledbatt").expect_err("misspelt").to_string();
        assert!(e.contains("ledbatt") && e.contains("ledbat_pp,") && e.contains("lowtide sim --list"), "{e}");
    }
}
