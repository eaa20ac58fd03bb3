//! A point of an experiment: what is set there, in which column, and how often it is run. Knows no experiment.

use serde::Deserialize;

/// Whose algorithm it is: the column of a verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Profile {
    /// As the paper, an RFC or a draft describes it, over today's TCP.
    Described,
    /// As the authors ran it: a replica of their module, simulator or program.
    Run,
    /// As described, with additions of this project.
    Ours,
}

impl Profile {
    /// In the order in which they are shown.
    pub const ALL: [Profile; 3] = [Profile::Described, Profile::Run, Profile::Ours];

    /// In folders and files.
    pub fn key(self) -> &'static str {
        match self {
            Profile::Described => "described",
            Profile::Run => "run",
            Profile::Ours => "ours",
        }
    }

    /// In a report.
    pub fn title(self) -> &'static str {
        match self {
            Profile::Described => "as described",
            Profile::Run => "as run",
            Profile::Ours => "with our additions",
        }
    }
}

/// One combination of variant and swept values.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Point {
    /// Variant and swept values by name.
    pub at: Vec<(String, toml::Value)>,
    /// What to set in the scenario.
    pub set: Vec<(String, toml::Value)>,
    /// Its column; none for a companion.
    pub profile: Option<Profile>,
    /// The companion it belongs to, if it is none of the paper's.
    pub companion: Option<String>,
    /// Runs, with the seeds after `seeds_after`.
    pub repeat: u32,
    pub seeds_after: u32,
}

/// Which points are run, and how often.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// All, as often as the paper.
    Full,
    /// Few, once.
    Quick,
    /// Those of the laboratory.
    Lab,
}

impl Point {
    /// The seeds of its runs.
    pub fn seeds(&self) -> std::ops::RangeInclusive<u32> {
        self.seeds_after + 1..=self.seeds_after + self.repeat
    }

    /// The number at which it stands in a sweep.
    pub fn number(&self, sweep: &str) -> Option<f64> {
        let (_, value) = self.at.iter().find(|(name, _)| name == sweep)?;
        value.as_float().or_else(|| value.as_integer().map(|i| i as f64))
    }

    /// `run rtt=20 variant=rl`, for messages and folder names.
    pub fn label(&self) -> String {
        let at = self.at.iter().map(|(k, v)| format!("{k}={}", v.to_string().trim_matches('"')));
        let parts: Vec<String> = self.profile.iter().map(|p| p.key().to_owned()).chain(at).collect();
        parts.join(" ")
    }
}
