//! The modes that both versions go through, their gains, and how PROBE_RTT is timed. Knows no rates; the phases of PROBE_BW are
//! each version's own.

use lowtide_units::{Span, Time};

use super::{DRAIN_GAIN, STARTUP_GAIN, UNIT};
use crate::events::Ack;
use crate::round::Round;

/// PROBE_RTT lasts at least this long and one round (`bbr_probe_rtt_mode_ms`).
const PROBE_RTT_TIME: Span = Span::from_millis(200);
/// PROBE_BW's window gain (`bbr_cwnd_gain`).
pub(crate) const CWND_GAIN: u64 = 2 * UNIT;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Mode {
    Startup,
    Drain,
    ProbeBw,
    ProbeRtt(ProbeRtt),
}

impl Mode {
    pub(crate) fn is_probe_rtt(self) -> bool {
        matches!(self, Mode::ProbeRtt(_))
    }

    /// The pacing gain, in PROBE_BW that of its phase.
    pub(crate) fn pacing_gain(self, phase: u64) -> u64 {
        match self {
            Mode::Startup => STARTUP_GAIN,
            Mode::Drain => DRAIN_GAIN,
            Mode::ProbeBw => phase,
            Mode::ProbeRtt(_) => UNIT,
        }
    }

    pub(crate) fn cwnd_gain(self) -> u64 {
        match self {
            Mode::Startup | Mode::Drain => STARTUP_GAIN,
            Mode::ProbeBw => CWND_GAIN,
            Mode::ProbeRtt(_) => UNIT,
        }
    }

    /// For displays.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Mode::Startup => "startup",
            Mode::Drain => "drain",
            Mode::ProbeBw => "probe_bw",
            Mode::ProbeRtt(_) => "probe_rtt",
        }
    }
}

/// A PROBE_RTT under way: its time and its round begin once the window has drained.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct ProbeRtt {
    until: Option<Time>,
    round_over: bool,
}

impl ProbeRtt {
    /// Goes on; `drained`: no more is in flight than the mode allows. True where both its time and its round are over.
    pub(crate) fn goes_on(&mut self, ack: &Ack, drained: bool, round_start: bool, round: &mut Round) -> bool {
        if self.until.is_some() {
            self.round_over |= round_start;
        } else if drained {
            self.until = Some(ack.now + PROBE_RTT_TIME);
            round.restart(ack.delivered);
        }
        self.round_over && self.time_is_over(ack.now)
    }

    pub(crate) fn time_is_over(&self, now: Time) -> bool {
        self.until.is_some_and(|until| now > until)
    }
}

/// What was sent in PROBE_RTT, by the delivered marks between which it left: its samples show a sender that held back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HeldBack {
    from: u64,
    to: u64,
}

impl Default for HeldBack {
    fn default() -> HeldBack {
        HeldBack { from: u64::MAX, to: 0 }
    }
}

impl HeldBack {
    pub(crate) fn since(delivered: u64) -> HeldBack {
        HeldBack { from: delivered, to: delivered }
    }

    pub(crate) fn until(&mut self, delivered: u64) {
        self.to = delivered;
    }

    pub(crate) fn covers(&self, ack: &Ack) -> bool {
        (self.from..=self.to).contains(&ack.prior_delivered)
    }
}
