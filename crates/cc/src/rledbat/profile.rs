//! The receivers that scenarios name: a rule for RTTs and the window control that each runs. Knows neither's workings.

use super::{Config, Receiver, RttRule};
use crate::controller::{Controller, Start};
use crate::params::{ParamError, Params};
use crate::registry;

/// A profile of the receiver: its rule for RTTs, and the window control that it runs.
#[derive(Clone, Copy, Debug)]
pub struct Profile {
    /// The name that scenarios use.
    pub name: &'static str,
    control: &'static str,
    preset: &'static str,
    rtt: RttRule,
    /// Segments in the first window.
    initial_segments: u32,
}

/// A receiver acknowledges every second segment (RFC 1122 §4.2.3.2), and its window may just have grown by one more.
const BURST: &str = "receiver = true\nburst_segments = 3.0";
/// Slowdowns begin with a drain.
const RECEIVER: &str = "receiver = true";

/// `ledbat_pp` and `ledbat_pp-enhanced` as their sources have them; the same with `-burst`, which is ours; and `rledbat-fig2`, the pseudo-code
/// of Bagnulo 2023, Fig. 2: to a part β_d above the target, once per RTT, first echoes, the minimum of four samples.
pub static PROFILES: [Profile; 5] = [
    Profile { name: "ledbat_pp", control: "ledbat_pp", preset: RECEIVER, rtt: RttRule::Edge, initial_segments: 2 },
    Profile { name: "ledbat_pp-enhanced", control: "ledbat_pp-enhanced", preset: RECEIVER, rtt: RttRule::Edge, initial_segments: 2 },
    Profile { name: "ledbat_pp-burst", control: "ledbat_pp", preset: BURST, rtt: RttRule::Edge, initial_segments: 2 },
    Profile { name: "ledbat_pp-enhanced-burst", control: "ledbat_pp-enhanced", preset: BURST, rtt: RttRule::Edge, initial_segments: 2 },
    Profile { name: "rledbat-fig2", control: "ledbat_pp", preset: "decrease = \"halve\"", rtt: RttRule::FirstEcho, initial_segments: 2 },
];

/// The receiver of that profile with its LEDBAT++, whose parameters `params` are.
///
/// # Errors
/// An unknown profile or parameter.
pub fn build(name: &str, params: &Params, start: &Start, scale: u8) -> Result<Receiver<Box<dyn Controller>>, ParamError> {
    let error = |reason: String| ParamError { algorithm: name.to_owned(), reason };
    let known = || PROFILES.map(|p| p.name).join(", ");
    let profile = PROFILES.iter().find(|p| p.name == name).ok_or_else(|| error(format!("no such receiver; known are {}", known())))?;
    let preset = Params::from_toml(profile.preset).map_err(|e| error(e.to_string()))?;
    let first = start.initial_window.unwrap_or(u64::from(start.mss) * u64::from(profile.initial_segments));
    let start = Start { initial_window: Some(first), ..*start };
    let control = registry::by_name(profile.control).map_err(|e| error(e.to_string()))?.build(&params.over(&preset), &start)?;
    Ok(Receiver::new(Config { rtt: profile.rtt }, control, start.mss, scale))
}
