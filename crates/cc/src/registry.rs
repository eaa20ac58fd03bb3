//! The one list of algorithms: a name, as the field and scenario files write it, to its constructor.

use crate::best_effort::{
    bbr1, bbr2, bbr3, bic, copa, cubic, cubic_rfc9438, dctcp, highspeed, htcp, hybla, illinois, newreno, scalable, vegas, veno, westwood,
    yeah,
};
use crate::controller::{Controller, Start};
use crate::params::{ParamError, Params};
use crate::scavenger::{ledbat, ledbat_dynamic, ledbat_pp, libutp, lowtide, tcp_lp, tcp_lp_linux, tcp_nice};

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
        name: "lowtide",
        summary: "ours: holds a queue of milliseconds, leaves at any larger one, returns when the line is free",
        source: "docs/algorithms/lowtide.md",
        kind: Kind::Scavenger,
        preset: "",
        construct: lowtide::build,
    },
    Algorithm {
        name: "bbr1",
        summary: "BBR version 1: paces at the rate found, two bandwidth-delay products at most",
        source: "Linux tcp_bbr.c",
        kind: Kind::BestEffort,
        preset: "",
        construct: bbr1::build,
    },
    rival("cubic", "CUBIC with HyStart, as Linux has it", "Linux tcp_cubic.c", "", cubic::build),
    rival("cubic-rfc9438", "CUBIC with HyStart++, as the RFC writes it", "RFC 9438, RFC 9406", "", cubic_rfc9438::build),
    rival("reno", "Reno as Linux has it: counts segments, halves the window", "Linux tcp_cong.c", "", newreno::build),
    rival("newreno", "NewReno: counts bytes, halves the flight", "RFC 5681, RFC 6582", newreno::RFC5681, newreno::build),
    rival("newreno-period", "NewReno before byte counting: grows per acknowledgement", "RFC 2581, ns-2", newreno::PERIOD, newreno::build),
    rival("vegas", "Vegas: holds two to four queued segments", "Brakmo 1995, Linux tcp_vegas.c", "", vegas::build),
    rival("vegas-linux", "Vegas with Linux's divisor, the base RTT", "Linux tcp_vegas.c", vegas::LINUX, vegas::build),
    rival("westwood", "Westwood+: a loss leaves what the bandwidth fills", "Linux tcp_westwood.c", "", westwood::build),
    rival("dctcp", "DCTCP: cuts by the share of marked bytes", "RFC 8257", "", dctcp::build),
    rival("scalable", "Scalable TCP: one segment per hundred, an eighth off", "Linux tcp_scalable.c", "", scalable::build),
    rival("highspeed", "HighSpeed TCP", "RFC 3649", "", highspeed::build),
    rival("hybla", "Hybla: grows as at an RTT of 25 ms", "Linux tcp_hybla.c", "", hybla::build),
    rival("htcp", "H-TCP: the increase grows with the time since the last loss", "Linux tcp_htcp.c", "", htcp::build),
    rival("illinois", "Illinois: increase and decrease follow the mean delay", "Linux tcp_illinois.c", "", illinois::build),
    rival("bic", "BIC: binary search for the window of the last loss", "Linux tcp_bic.c", "", bic::build),
    rival("veno", "Veno: tells random from congestive loss", "Linux tcp_veno.c", "", veno::build),
    rival("yeah", "YeAH: Scalable on short queues, Reno on long ones", "Linux tcp_yeah.c", "", yeah::build),
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
        name: "tcp_nice",
        summary: "TCP-NICE: Vegas that halves when half a round's RTTs pass 20 % of their range",
        source: "Venkataramani 2002, Carofiglio 2010",
        kind: Kind::Scavenger,
        preset: "",
        construct: tcp_nice::build,
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
    Algorithm {
        name: "bbr3",
        summary: "BBR version 3: version 2 that probes until its rate no longer grows, and drains more gently",
        source: "google/bbr tcp_bbr.c (v3), without ECN",
        kind: Kind::BestEffort,
        preset: "",
        construct: bbr3::build,
    },
    Algorithm {
        name: "copa",
        summary: "Copa: a rate of 1/(delta x queueing delay); competes with those who fill buffers",
        source: "Arun and Balakrishnan, NSDI 2018",
        kind: Kind::BestEffort,
        preset: "",
        construct: copa::build,
    },
];

/// The algorithm of that name.
///
/// # Errors
/// An unknown name, with the names there are.
pub fn by_name(name: &str) -> Result<&'static Algorithm, UnknownName> {
    let known = || ALGORITHMS.iter().map(|a| a.name).collect::<Vec<_>>().join(", ");
    ALGORITHMS.iter().find(|a| a.name == name).ok_or_else(|| UnknownName { name: name.to_owned(), known: known() })
}

/// A name that no registry holds.
#[derive(Debug, thiserror::Error)]
#[error("unknown congestion control `{name}`; known are {known}")]
pub struct UnknownName {
    name: String,
    known: String,
}

impl UnknownName {
    /// `others`, a few words, are known too: a line that names every algorithm of two registries is read by nobody.
    pub fn also(mut self, others: &str) -> UnknownName {
        self.known.push_str(", ");
        self.known.push_str(others);
        self
    }
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
