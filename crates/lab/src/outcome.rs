//! What a run in the laboratory leaves behind: its result, and all that was seen, for series. Does not know how it was measured.

use std::time::Duration;

use lowtide_scenario::Summary;
use lowtide_units::Time;

use crate::link::Record;
use crate::plan::Job;
use crate::probe::Echoes;
use crate::programs::Said;
use crate::server::Stats;

/// How often the servers' connections are looked at.
pub(crate) const SAMPLE: Duration = Duration::from_millis(100);

/// The state of one server's connections at one time.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// When.
    pub at: Time,
    /// What the kernel said.
    pub stats: Stats,
}

/// What one flow left behind.
#[derive(Clone, Debug)]
pub struct Trace {
    /// The flow.
    pub job: Job,
    /// Its server's connections, for flows that a server of ours sends.
    pub samples: Vec<Sample>,
    /// For an upload by curl, what its client's connections may have in flight: when, bytes.
    pub uploads: Vec<(Time, u64)>,
    /// What its programs said.
    pub said: Said,
    /// For a call, what it heard.
    pub echoes: Option<Echoes>,
}

/// A finished run.
#[derive(Debug)]
pub struct Outcome {
    /// In the scenario's terms.
    pub summary: Summary,
    /// Everything that was seen, for series.
    pub traces: Vec<Trace>,
    /// What the link saw: `reverse` is the way up.
    pub link: Record,
    /// The scenario's zero on the laboratory's clock.
    pub zero: Time,
}
