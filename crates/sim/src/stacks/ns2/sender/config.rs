//! What a sender is set to, and what it counts. Plain data.

use lowtide_units::{Span, Time};

use crate::stacks::ns2::rto::RtoProfile;

/// How losses are noticed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Detection {
    /// RACK (RFC 8985).
    #[default]
    Rack,
    /// Three segments SACKed above (RFC 6675); lost retransmissions wait for the timer.
    Rfc6675,
    /// Three duplicate ACKs, then one hole a round trip (RFC 6582); the receiver need not SACK.
    NewReno,
    /// Three duplicate ACKs, once a window; the first new ACK ends the recovery, and other holes wait for the timer (RFC 2581,
    /// ns-2's Reno).
    Reno,
    /// By the timer alone, as ns-2's Linux agent opposite a receiver without SACK (`tcp/tcp-linux.cc`; ns-2.34 and 2.35 are the same):
    /// only SACK blocks make it mark a segment lost (`scoreboard1.cc` `UpdateScoreBoard`), duplicates tell it nothing. Each
    /// acknowledgement, duplicates too, sets the timer anew; each expiry reduces the window; when what was out then is
    /// acknowledged, the window is lifted to the threshold, three segments above what is in flight at most.
    Timer,
}

impl Detection {
    /// Whether duplicate ACKs are all that tells of losses.
    pub fn counts_duplicates(self) -> bool {
        matches!(self, Detection::NewReno | Detection::Reno)
    }
}

/// How the window gets down to what the algorithm wants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reduction {
    /// In proportion to what arrives (RFC 6937).
    #[default]
    Prr,
    /// One segment for two acknowledgements, and on below the threshold (ns-2's Linux agent).
    Halving,
    /// At once.
    AtOnce,
}

/// How a sender behaves besides its congestion control.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SenderConfig {
    /// Payload bytes of a full segment.
    pub mss: u32,
    /// How losses are noticed.
    pub detection: Detection,
    /// How the window falls during fast recovery.
    pub reduction: Reduction,
    /// The retransmission timer.
    pub rto: RtoProfile,
    /// Its floor, the profile's own if absent.
    pub rto_floor: Option<Span>,
    /// Tail loss probes (RFC 8985 §7).
    pub tlp: bool,
    /// Give reductions back that turn out to have been for nothing (Linux; needs timestamps).
    pub undo: bool,
    /// The clock that RTT samples are read from ticks this often; zero: exact.
    pub granularity: Span,
    /// Pace even if the algorithm names no rate.
    pub pacing: bool,
    /// Send ECN-capable and react to marks.
    pub ecn: bool,
    /// Segments that leave together while the window is below one.
    pub group: u32,
    /// Send nothing while the window is below one segment, until the retransmission timer gives one (ns-3).
    pub stalls: bool,
    /// During recovery only the first acknowledgement of new data restarts the retransmission timer, and no retransmission does (RFC 6582
    /// §4's impatient variant, ns-3).
    pub impatient: bool,
    /// The pipe as ns-3 counts it ([`Scoreboard::keep_ghosts`](crate::stacks::ns2::sack::Scoreboard::keep_ghosts)), and where no new data may be
    /// sent, a recovery sends again what is not known to be lost (RFC 6675 `NextSeg`, rule 3; ns-3's send buffer ends where the
    /// peer's window does).
    pub ghosts: bool,
    /// An episode begins as in ns-3 (`TcpSocketBase::DupAck`): with the third acknowledgement in a row that SACKs something, or with the
    /// first one by which a segment behind the first hole is lost, too. What is lost otherwise is sent again and reduces nothing.
    pub disorder: bool,
    /// RTT samples and one-way delays go by the echoed timestamp, that of the oldest segment acknowledged (RFC 7323 §4.3, ns-3): the
    /// time that it waited for a delayed acknowledgement is in them. Otherwise by the newest segment.
    pub echoed_rtt: bool,
    /// The algorithm is told the smoothed RTT as the sample (ns-3 3.37).
    pub smoothed_rtt: bool,
    /// No handshake: the first segment is the SYN, headers alone, and what else the initial window holds leaves with it (ns-2
    /// `tcp/tcp.cc` `output`: `syn_`).
    pub one_way: bool,
    /// The algorithm is told whether its window was the limit; otherwise that it always was (ns-3).
    pub validated: bool,
    /// The acknowledgement that reports a mark counts twice in the rate reduction, of a flight that it is no longer part of: the window
    /// stays two segments above the threshold until the episode ends (ns-3 3.37: `EnterCwr` and, for the same
    /// acknowledgement, `ProcessAck` call `DoRecovery`).
    pub counts_twice: bool,
}

impl SenderConfig {
    /// From one reading of the timestamp clock to another.
    pub fn elapsed(&self, from: Time, to: Time) -> Span {
        match self.granularity.nanos() {
            0 => to.since(from),
            tick => Span::from_nanos((to.nanos() / tick).saturating_sub(from.nanos() / tick) * tick),
        }
    }

    /// How long the handshake took, by that clock if RTTs go by what it stamps.
    pub fn handshake(&self, sent: Time, answered: Time) -> Span {
        if self.echoed_rtt { self.elapsed(sent, answered) } else { answered.since(sent) }
    }

    /// Linux's defaults without pacing.
    pub fn linux(mss: u32) -> SenderConfig {
        SenderConfig {
            mss,
            detection: Detection::Rack,
            reduction: Reduction::Prr,
            rto: RtoProfile::Linux,
            rto_floor: None,
            tlp: true,
            undo: true,
            granularity: Span::ZERO,
            pacing: false,
            ecn: false,
            group: 2,
            stalls: false,
            impatient: false,
            ghosts: false,
            disorder: false,
            echoed_rtt: false,
            smoothed_rtt: false,
            one_way: false,
            validated: true,
            counts_twice: false,
        }
    }
}
