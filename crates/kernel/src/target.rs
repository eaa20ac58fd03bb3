//! The queueing delay that a group aims at, and its names. Knows no program.

use std::fmt;
use std::str::FromStr;

use lowtide_window::{PROFILES, Profile};
use serde::{Deserialize, Serialize};

const NS_PER_MS: u64 = 1_000_000;
/// T of the draft (draft-irtf-iccrg-ledbat-plus-plus-01 §4.2).
const MOST_MS: u8 = 60;
/// What the queue of a busy host varies by anyway, with room.
const LEAST_MS: u8 = 5;

/// What a group aims at. As text: the name of a profile (`ledbat_pp-enhanced-burst`, the default), or a delay (`25ms`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum Target {
    /// What the profile says: 60 ms (draft-irtf-iccrg-ledbat-plus-plus-01 §4.2), or min(60 ms, base RTT) (Bagnulo 2023 §7), which yields to BBR
    /// too.
    Profile(&'static Profile),
    /// min(T, base RTT) with a T of the user's, 5 to 60 ms: less in the way of others where the RTT is large, and slower there.
    Within {
        /// T.
        ms: u8,
    },
}

impl Default for Target {
    fn default() -> Target {
        Target::Profile(&PROFILES[0])
    }
}

impl Target {
    /// T in ns, zero for the control's own; and the profile that aims at it.
    pub(crate) fn parts(self) -> (u64, &'static Profile) {
        match self {
            Target::Profile(profile) => (0, profile),
            Target::Within { ms } => (u64::from(ms) * NS_PER_MS, &PROFILES[0]),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::Profile(profile) => f.pad(profile.name),
            Target::Within { ms } => f.pad(&format!("{ms}ms")),
        }
    }
}

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Target, String> {
        if let Ok(profile) = lowtide_window::by_name(text) {
            return Ok(Target::Profile(profile));
        }
        let ms = text.strip_suffix("ms").and_then(|ms| ms.trim_end().parse().ok()).filter(|ms| (LEAST_MS..=MOST_MS).contains(ms));
        let names = || PROFILES.map(|p| p.name).join(", ");
        ms.map(|ms| Target::Within { ms })
            .ok_or_else(|| format!("a target is a delay from {LEAST_MS}ms to {MOST_MS}ms, such as `25ms`, or one of {}", names()))
    }
}

impl From<Target> for String {
    fn from(target: Target) -> String {
        target.to_string()
    }
}

impl TryFrom<String> for Target {
    type Error = String;

    fn try_from(text: String) -> Result<Target, String> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_target_is_read_as_it_is_written() {
        let profiles = PROFILES.iter().map(Target::Profile);
        for target in profiles.chain([Target::Within { ms: 5 }, Target::Within { ms: 60 }]) {
            assert_eq!(target.to_string().parse(), Ok(target));
        }
    }

    #[test]
    fn what_is_no_target_is_refused_with_what_one_is() {
        for text in ["", "fast", "25", "4ms", "61ms", "-5ms", "ms", "1e1ms"] {
            let error = text.parse::<Target>().expect_err(text);
            assert!(error.contains("5ms to 60ms"), "{text}: {error}");
        }
    }
}
