//! What a sender is set to. Plain data.

use lowtide_units::{Span, Time};

use crate::tcp::rto::RtoProfile;

/// How losses are found and repaired.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LossRecovery {
    /// As Linux: RACK-TLP (RFC 8985), proportional rate reduction, F-RTO, undo of what was for nothing.
    #[default]
    Linux,
    /// RFC 6675: three segments SACKed above; the window falls at once; lost retransmissions wait for the timer.
    Sack,
    /// RFC 6582: three duplicate ACKs, then one hole a round trip; the receiver need not SACK.
    NewReno,
}

/// How a sender behaves besides its congestion control.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SenderConfig {
    /// Payload bytes of a full segment.
    pub mss: u32,
    /// How losses are found and repaired.
    pub recovery: LossRecovery,
    /// The retransmission timer.
    pub rto: RtoProfile,
    /// Its floor, the profile's own if absent.
    pub rto_floor: Option<Span>,
    /// The clock that RTT samples are read from ticks this often; zero: exact.
    pub granularity: Span,
    /// Pace even if the algorithm names no rate.
    pub pacing: bool,
    /// Paced segments leave in bursts, as a host with segmentation offload sends them.
    pub tso: bool,
    /// Send ECN-capable and react to marks.
    pub ecn: bool,
    /// Segments that leave together while the window is below one.
    pub group: u32,
}

impl SenderConfig {
    /// Linux's defaults without pacing.
    pub fn linux(mss: u32) -> SenderConfig {
        SenderConfig {
            mss,
            recovery: LossRecovery::Linux,
            rto: RtoProfile::Linux,
            rto_floor: None,
            granularity: Span::ZERO,
            pacing: false,
            tso: false,
            ecn: false,
            group: 2,
        }
    }

    /// The RFCs' defaults: 5681, 6298 and `recovery`.
    pub fn rfc(mss: u32, recovery: LossRecovery) -> SenderConfig {
        SenderConfig { recovery, rto: RtoProfile::Rfc, ..SenderConfig::linux(mss) }
    }

    /// Whether both ends use SACK.
    pub fn has_sack(&self) -> bool {
        self.recovery != LossRecovery::NewReno
    }

    /// From one reading of the RTT clock to another.
    pub fn elapsed(&self, from: Time, to: Time) -> Span {
        match self.granularity.nanos() {
            0 => to.since(from),
            tick => Span::from_nanos((to.nanos() / tick).saturating_sub(from.nanos() / tick) * tick),
        }
    }
}
