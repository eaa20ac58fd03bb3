//! The controls that the kernel's programs have, and the profiles of them that people name. Names are those of `cc::registry`, where
//! the reference of each is. Knows no event.

/// Number and name of each control; twin of `CONTROLS` in crates/kernel/bpf/control.h.
pub static CONTROLS: [(u32, &str); 5] = [(1, "ledbat_pp"), (2, "ledbat"), (3, "tcp_lp"), (4, "tcp_nice"), (5, "lowtide")];

/// A control with its settings, under the name that people give.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Profile {
    /// Its name, and that of its reference in `cc::registry`.
    pub name: &'static str,
    /// The control's number.
    pub number: u32,
    /// The target is min(target, base RTT).
    pub enhanced: bool,
    /// Segments whose time is kept free below the target.
    pub burst: u32,
    /// A queue on the way back is no part of the delays that the control is told.
    pub way_back: bool,
    /// Segments of a flow that come closer together are reported to its path as one, ns; zero: none are.
    pub report_ns: u32,
    /// A sender says a pace besides its window, which means little without it (IS_PACED of crates/kernel/bpf/send_state.h).
    pub paces: bool,
}

/// Every profile of both directions. `-enhanced` is the target of Bagnulo 2023, section 7. `-burst` is
/// ours: the segments that one ACK releases (two by RFC 1122 §4.2.3.2, and one by which the window grew) end at the target, not above it,
/// segments of a flow that come within 0.2 ms, at 100 Mbit/s two, are reported as one, and a queue on the way back is not taken for one of
/// the data's (docs/algorithms/way-back.md).
pub static PROFILES: [Profile; 5] = [
    Profile { name: "ledbat_pp-enhanced-burst", number: 1, enhanced: true, burst: 3, way_back: true, report_ns: 200_000, paces: false },
    Profile { name: "ledbat_pp-burst", number: 1, enhanced: false, burst: 3, way_back: true, report_ns: 200_000, paces: false },
    Profile { name: "ledbat_pp-enhanced", number: 1, enhanced: true, burst: 0, way_back: false, report_ns: 0, paces: false },
    Profile { name: "ledbat_pp", number: 1, enhanced: false, burst: 0, way_back: false, report_ns: 0, paces: false },
    Profile { name: "lowtide", number: 5, enhanced: false, burst: 0, way_back: true, report_ns: 0, paces: true },
];

/// Those that only a sender has: they steer by what a receiver does not see, or down to less than a window can say.
pub static SENDERS: [Profile; 3] = [
    Profile { name: "ledbat", number: 2, enhanced: false, burst: 0, way_back: false, report_ns: 0, paces: false },
    Profile { name: "tcp_lp", number: 3, enhanced: false, burst: 0, way_back: false, report_ns: 0, paces: false },
    Profile { name: "tcp_nice", number: 4, enhanced: false, burst: 0, way_back: false, report_ns: 0, paces: false },
];

/// What people write for some of them, as papers and drafts do, with what `lowtide run` means by it.
pub static SPELLINGS: [(&str, &str); 2] = [("enhanced", "ledbat_pp-enhanced-burst"), ("ledbat++", "ledbat_pp-burst")];

impl Profile {
    /// Whether a receiver can run it.
    pub fn receives(&self) -> bool {
        PROFILES.iter().any(|p| p.name == self.name)
    }
}

/// A name that is no profile's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownProfile(pub String);

impl std::fmt::Display for UnknownProfile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names = PROFILES.iter().chain(&SENDERS).map(|p| p.name).collect::<Vec<_>>();
        write!(f, "the kernel has no control `{}`; it has {}", self.0, names.join(", "))
    }
}

impl std::error::Error for UnknownProfile {}

/// The profile of that name or spelling, of both directions or of a sender.
///
/// # Errors
/// A name that is no profile's.
pub fn by_name(name: &str) -> Result<&'static Profile, UnknownProfile> {
    let meant = SPELLINGS.iter().find(|(spelling, _)| *spelling == name).map_or(name, |(_, meant)| meant);
    PROFILES.iter().chain(&SENDERS).find(|p| p.name == meant).ok_or_else(|| UnknownProfile(name.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_names_are_those_of_control_h() {
        for (number, name) in CONTROLS {
            assert_eq!(crate::control::name(number), Some(name));
        }
        let beyond = CONTROLS.iter().map(|(number, _)| number).max().expect("there are controls") + 1;
        assert_eq!(crate::control::name(beyond), None, "control.h has more");
        assert!(SPELLINGS.iter().all(|(spelling, name)| by_name(spelling).map(|p| p.name) == Ok(*name)));
        assert!(PROFILES.iter().chain(&SENDERS).all(|p| CONTROLS.iter().any(|(number, _)| *number == p.number)));
    }
}
