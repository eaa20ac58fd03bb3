//! What a group sends and receives by: the control that a user names, and the queueing delay that it aims at. Knows no program.

use std::fmt;
use std::str::FromStr;

use lowtide_window::Profile;

const NS_PER_MS: u64 = 1_000_000;
/// What the queue of a busy host varies by anyway, with room.
const LEAST_MS: u8 = 5;
/// T of LEDBAT++ (draft-irtf-iccrg-ledbat-plus-plus-01 §4.2).
const LEDBAT_PP_MOST_MS: u8 = 60;
/// TARGET of LEDBAT (RFC 6817 §3.3).
const LEDBAT_MOST_MS: u8 = 100;

/// A queueing delay to aim at, as a user writes it: `25ms`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delay {
    ms: u8,
}

impl fmt::Display for Delay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{}ms", self.ms))
    }
}

impl FromStr for Delay {
    type Err = String;

    fn from_str(text: &str) -> Result<Delay, String> {
        let ms = text.strip_suffix("ms").and_then(|ms| ms.trim_end().parse().ok()).filter(|ms| (LEAST_MS..=LEDBAT_MOST_MS).contains(ms));
        ms.map(|ms| Delay { ms }).ok_or_else(|| match lowtide_window::by_name(text) {
            Ok(profile) => format!("a target is a delay, such as `25ms`; for that control: --cc {}", profile.name),
            Err(_) => format!("a target is a delay from {LEAST_MS}ms to {LEDBAT_MOST_MS}ms, such as `25ms`"),
        })
    }
}

/// What `lowtide run` yields by unless told otherwise, as names of profiles.
struct Defaults {
    received: &'static str,
    sent: &'static str,
    /// Both where a delay to aim at is given, and what is sent where the kernel refuses its control: it needs least of the kernel.
    plain: &'static str,
}

static DEFAULTS: Defaults =
    Defaults { received: "ledbat_pp-enhanced-burst", sent: "ledbat_pp-enhanced-burst", plain: "ledbat_pp-enhanced-burst" };

fn profile(name: &'static str) -> &'static Profile {
    lowtide_window::by_name(name).unwrap_or_else(|e| unreachable!("a test names every default: {e}"))
}

/// The controls of a group, one for each direction, and what they aim at. Made by [`Choice::new`]; the default is what `lowtide run` uses unless told
/// otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    received: &'static Profile,
    sent: &'static Profile,
    /// The one that was asked for; without any, that of what is received.
    named: &'static Profile,
    target: Option<Delay>,
}

impl Default for Choice {
    fn default() -> Choice {
        let received = profile(DEFAULTS.received);
        Choice { received, sent: profile(DEFAULTS.sent), named: received, target: None }
    }
}

/// What yields by which control, in words.
impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.receives_by(), self.sends_by()) {
            (received, sent) if received == sent => write!(f, "`{sent}`"),
            (received, sent) => write!(f, "`{received}` of what is received, `{sent}` of what is sent"),
        }
    }
}

impl Choice {
    /// Both directions by `control`, none for each direction's default, that aims at `target`, none for what its source says. Where that is min(T, base
    /// RTT) (Bagnulo 2023 §7), `target` is T. A target without a control chooses for both directions the default that aims at one.
    ///
    /// # Errors
    /// The control aims at no delay, or not at this one.
    pub fn new(control: Option<&'static Profile>, target: Option<Delay>) -> Result<Choice, String> {
        let Some(control) = control.or_else(|| target.map(|_| profile(DEFAULTS.plain))) else { return Ok(Choice::default()) };
        let most = match control.name {
            "ledbat" => LEDBAT_MOST_MS,
            name if name.starts_with("ledbat_pp") => LEDBAT_PP_MOST_MS,
            name if target.is_some() => return Err(format!("`{name}` aims at no queueing delay that could be set: leave --target out")),
            _ => u8::MAX,
        };
        let received = if control.receives() { control } else { profile(DEFAULTS.received) };
        match target {
            Some(delay) if delay.ms > most => Err(format!("`{}` aims at {LEAST_MS}ms to {most}ms, not at {delay}", control.name)),
            _ => Ok(Choice { received, sent: control, named: control, target }),
        }
    }

    /// What it aims at: a delay, or the control whose source says it.
    pub fn target(&self) -> String {
        self.target.map_or_else(|| self.named.name.to_owned(), |delay| delay.to_string())
    }

    /// The name of the control of what is received. Where the one that was named is a sender's only, the default.
    pub fn receives_by(&self) -> &'static str {
        self.received.name
    }

    /// The name of the control of what is sent.
    pub fn sends_by(&self) -> &'static str {
        self.sent.name
    }

    /// The same where the kernel refuses the control of what is sent; none where nothing needs less of it.
    pub(crate) fn without_its_sender(&self) -> Option<Choice> {
        let plain = profile(DEFAULTS.plain);
        (self.sent != plain).then_some(Choice { sent: plain, ..*self })
    }

    /// T in ns, zero for the control's own, and the receiver's control.
    pub(crate) fn receiving(&self) -> (u64, &'static Profile) {
        (self.target_of(self.received), self.received)
    }

    /// T in ns, zero for the control's own, and the sender's control.
    pub(crate) fn sending(&self) -> (u64, &'static Profile) {
        (self.target_of(self.sent), self.sent)
    }

    /// The target is that of the control that it was given for.
    fn target_of(&self, control: &Profile) -> u64 {
        self.target.filter(|_| control == self.named).map_or(0, |delay| u64::from(delay.ms) * NS_PER_MS)
    }
}

#[cfg(test)]
mod tests {
    use lowtide_window::{PROFILES, SENDERS};

    use super::*;

    fn named(name: &str) -> Option<&'static Profile> {
        Some(lowtide_window::by_name(name).expect("a control"))
    }

    fn delay(text: &str) -> Option<Delay> {
        Some(text.parse().expect("a delay"))
    }

    #[test]
    fn each_direction_has_a_default_and_a_target_chooses_for_both_one_that_aims_at_it() {
        let default = Choice::new(None, None).expect("the default");
        assert_eq!(default, Choice::default());
        assert!(default.received.receives() && profile(DEFAULTS.plain).receives());
        assert_eq!((default.receives_by(), default.sends_by()), (DEFAULTS.received, DEFAULTS.sent));
        let aimed = Choice::new(None, delay("25ms")).expect("it aims at one");
        assert_eq!((aimed.receives_by(), aimed.sends_by()), (DEFAULTS.plain, DEFAULTS.plain));
        assert_eq!((aimed.receiving().0, aimed.sending().0), (25 * NS_PER_MS, 25 * NS_PER_MS));
    }

    #[test]
    fn what_takes_the_place_of_a_sender_that_the_kernel_refuses_leaves_the_receiver_and_aims_by_itself() {
        let refused = Choice::new(named("ledbat"), delay("100ms")).expect("RFC 6817");
        let instead = refused.without_its_sender().expect("another");
        assert_eq!((instead.sends_by(), instead.receives_by()), (DEFAULTS.plain, refused.receives_by()));
        assert_eq!((instead.sending().0, instead.without_its_sender()), (0, None));
        assert_eq!(refused.to_string(), format!("`{}` of what is received, `ledbat` of what is sent", DEFAULTS.received));
    }

    #[test]
    fn a_senders_control_leaves_the_receiver_its_default() {
        for profile in &SENDERS {
            let choice = Choice::new(Some(profile), None).expect("it is there");
            assert_eq!((choice.sends_by(), choice.receives_by()), (profile.name, DEFAULTS.received));
        }
        for profile in &PROFILES {
            let choice = Choice::new(Some(profile), None).expect("it is there");
            assert_eq!((choice.sends_by(), choice.receives_by()), (profile.name, profile.name));
        }
    }

    #[test]
    fn a_target_is_for_those_that_aim_at_one() {
        assert_eq!(Choice::new(None, delay("25ms")).expect("the default has one").target(), "25ms");
        assert_eq!(Choice::new(named("ledbat"), delay("100ms")).expect("RFC 6817").sending().0, 100 * NS_PER_MS);
        assert_eq!(Choice::new(named("ledbat"), delay("100ms")).expect("RFC 6817").receiving().0, 0, "no T of LEDBAT++");
        let refused = |name, target| Choice::new(name, delay(target)).expect_err("refused");
        assert!(refused(named("tcp_nice"), "25ms").contains("tcp_nice"));
        assert!(refused(None, "61ms").contains("5ms to 60ms"));
    }

    #[test]
    fn what_is_no_target_is_refused_with_what_one_is() {
        for text in ["", "fast", "25", "4ms", "101ms", "-5ms", "ms", "1e1ms"] {
            let error = text.parse::<Delay>().expect_err(text);
            assert!(error.contains("5ms to 100ms"), "{text}: {error}");
        }
        assert!("ledbat_pp".parse::<Delay>().expect_err("a control").contains("--cc ledbat_pp"));
    }
}
