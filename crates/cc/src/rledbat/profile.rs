//! The receivers that scenarios name: a rule for RTTs, how reports are joined, and the window control that each runs. Knows neither's
//! workings.

use lowtide_units::Span;

use super::{Flow, Group, Receiver, RttRule};
use crate::controller::Start;
use crate::params::{ParamError, Params};
use crate::registry;

/// A profile of the receiver. Those that the kernel has are twins of `PROFILES` in crates/window/src/registry.rs.
#[derive(Clone, Copy, Debug)]
pub struct Profile {
    /// The name that scenarios use.
    pub name: &'static str,
    control: &'static str,
    preset: &'static str,
    rtt: RttRule,
    /// Segments that come closer together are reported to the control as one.
    interval: Span,
    /// A queue on the way back is no part of the delays that the control is told.
    way_back: bool,
}

/// Segments in the first window.
const INITIAL_SEGMENTS: u64 = 2;
/// Slowdowns begin with a drain; a target below 1 ms would be below what ticks and interrupts add (crates/kernel/bpf/path.h).
const RECEIVER: &str = "receiver = true\nleast_target_ms = 1.0";
/// A receiver acknowledges every second segment (RFC 1122 §4.2.3.2), and its window may just have grown by one more.
const BURST: &str = "receiver = true\nleast_target_ms = 1.0\nburst_segments = 3.0";
/// Segments that come within this make one report of `-burst`: two at 100 Mbit/s.
const TOGETHER: Span = Span::from_micros(200);

/// `ledbat_pp` and `ledbat_pp-enhanced` as their sources have them; the same with `-burst`, which is ours; `lowtide`, ours, too; and
/// `rledbat-fig2`, the pseudo-code of Bagnulo 2023, Fig. 2: to a part β_d above the target, once per RTT, first echoes, the minimum of four
/// samples.
pub static PROFILES: [Profile; 6] = [
    Profile { name: "ledbat_pp", control: "ledbat_pp", preset: RECEIVER, rtt: RttRule::Edge, interval: Span::ZERO, way_back: false },
    Profile {
        name: "ledbat_pp-enhanced",
        control: "ledbat_pp-enhanced",
        preset: RECEIVER,
        rtt: RttRule::Edge,
        interval: Span::ZERO,
        way_back: false,
    },
    Profile { name: "ledbat_pp-burst", control: "ledbat_pp", preset: BURST, rtt: RttRule::Edge, interval: TOGETHER, way_back: true },
    Profile {
        name: "ledbat_pp-enhanced-burst",
        control: "ledbat_pp-enhanced",
        preset: BURST,
        rtt: RttRule::Edge,
        interval: TOGETHER,
        way_back: true,
    },
    Profile { name: "lowtide", control: "lowtide", preset: "receiver = true", rtt: RttRule::Edge, interval: Span::ZERO, way_back: true },
    Profile {
        name: "rledbat-fig2",
        control: "ledbat_pp",
        preset: "decrease = \"halve\"",
        rtt: RttRule::FirstEcho,
        interval: Span::ZERO,
        way_back: false,
    },
];

/// The receiver of that profile with its control, whose parameters `params` are, for a connection whose windows are scaled by 2^`scale`.
///
/// # Errors
/// An unknown profile or parameter.
pub fn build(name: &str, params: &Params, start: &Start, scale: u8) -> Result<Receiver, ParamError> {
    let error = |reason: String| ParamError { algorithm: name.to_owned(), reason };
    let known = || PROFILES.map(|p| p.name).join(", ");
    let profile = PROFILES.iter().find(|p| p.name == name).ok_or_else(|| error(format!("no such receiver; known are {}", known())))?;
    let preset = Params::from_toml(profile.preset).map_err(|e| error(e.to_string()))?;
    let first = start.initial_window.unwrap_or(u64::from(start.mss) * INITIAL_SEGMENTS);
    let start = Start { initial_window: Some(first), ..*start };
    let control = registry::by_name(profile.control).map_err(|e| error(e.to_string()))?.build(&params.over(&preset), &start)?;
    let flow = Flow::new(start.now, start.mss, start.mss, scale, true).with_rtts_by(profile.rtt);
    let group = Group::new(control, start.mss, profile.interval);
    Ok(Receiver::new(flow, if profile.way_back { group.without_the_way_back() } else { group }))
}
