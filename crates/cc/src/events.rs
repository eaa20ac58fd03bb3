//! What a host tells a congestion control, and what it may look at in return. Plain data: a recorded list of these is at
//! once a trace, a fuzz input and a test vector for the C code.

use lowtide_units::{Rate, Span, Time};
use serde::{Deserialize, Serialize};

/// One acknowledgement, told after the host has updated its RTT estimate and its loss detection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Ack {
    /// When it arrived.
    pub now: Time,
    /// Bytes newly delivered: cumulative plus newly SACKed.
    pub acked: u64,
    /// Bytes by which the left edge moved, whether they had been SACKed before or not; a short last segment counts as a full one.
    #[serde(default)]
    pub advanced: u64,
    /// Bytes that this acknowledgement made the host declare lost.
    pub lost: u64,
    /// Bytes of `acked` that were reported as CE-marked.
    pub ce: u64,
    /// Bytes in flight *before* this acknowledgement (RFC 6817's flightsize).
    pub in_flight: u64,
    /// The most bytes that were in flight during the last round in which the window was not the limit (Linux `max_packets_out`); zero where
    /// the host does not count them.
    #[serde(default)]
    pub most_out: u64,
    /// The left edge after this acknowledgement (SND.UNA) and the bytes of new data sent so far (SND.NXT); zero where the host does not say.
    #[serde(default)]
    pub una: u64,
    /// See `una`.
    #[serde(default)]
    pub nxt: u64,
    /// Raw RTT of the newest segment acknowledged; none where it would be ambiguous (Karn) or taken from a SYN.
    pub rtt: Option<Span>,
    /// The host's smoothed RTT (RFC 6298), zero before the first sample.
    pub srtt: Span,
    /// How much of `srtt` is a queue on the way of the acknowledgements, where the host leaves that out of `rtt`; else zero.
    #[serde(default)]
    pub way_back: Span,
    /// How long this acknowledgement has waited in a queue on its way, whosever it is, where a sender's host can tell; else zero.
    #[serde(default)]
    pub waited: Span,
    /// How long a full segment takes at the bottleneck, where the host can tell (packet pairs); else zero.
    pub segment_time: Span,
    /// One-way delay in ns, unwrapped by the host. Its zero point is arbitrary: only differences mean anything.
    pub owd: Option<i64>,
    /// Bytes delivered on the connection so far, this acknowledgement included.
    pub delivered: u64,
    /// What `delivered` was when the newest segment acknowledged here was sent: the clock of packet-timed rounds.
    pub prior_delivered: u64,
    /// A delivery-rate sample where the host has a valid one.
    pub rate: Option<RateSample>,
    /// The window, not the application or the peer, was the limit during the last round.
    pub cwnd_limited: bool,
    /// When the window last refused a send, where the host knows; none: what `cwnd_limited` says holds of the moment of this one.
    #[serde(default)]
    pub limited_at: Option<Time>,
    /// No window may grow on this one, whatever limits it (Linux `tcp_may_raise_cwnd`).
    #[serde(default)]
    pub no_growth: bool,
    /// The host is in fast recovery or CWR and sends by PRR. Not set while it recovers from a timeout.
    pub in_recovery: bool,
    /// At a receiver: what was permitted before the last reduction has arrived.
    #[serde(default)]
    pub drained: bool,
}

impl Ack {
    /// Whether an algorithm may grow on this acknowledgement (RFC 9293 §3.8.6, Linux `tcp_is_cwnd_limited`): the window was the
    /// limit, or, in slow start, more than half of it is in use.
    pub fn may_grow(&self, cwnd: u64, slow_start: bool) -> bool {
        !self.no_growth && (self.cwnd_limited || (slow_start && self.in_flight.max(self.most_out) * 2 > cwnd))
    }
}

/// A delivery-rate sample (draft-cheng-iccrg-delivery-rate-estimation; Linux `struct rate_sample`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RateSample {
    /// Bytes delivered over `interval`.
    pub delivered: u64,
    /// The longer of the send and the acknowledgement interval; at least the minimum RTT.
    pub interval: Span,
    /// The sample was taken while the application had nothing to send.
    pub app_limited: bool,
    /// Bytes in flight when the newest acknowledged segment was sent, that segment included.
    pub tx_in_flight: u64,
    /// Bytes declared lost between the sending of that segment and now.
    pub lost: u64,
    /// The acknowledgement was probably held back by the receiver's delayed-ACK timer.
    pub ack_delayed: bool,
}

impl RateSample {
    /// The delivery rate.
    pub fn rate(&self) -> Rate {
        Rate::from_bytes_over(self.delivered, self.interval)
    }
}

/// Why a host calls `on_congestion`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// Loss detected by duplicate ACKs, SACK or RACK. The host now enters fast recovery.
    Loss,
    /// The first ECN echo of a window.
    Ecn,
    /// The retransmission timer fired. Told again only if something was acknowledged since, not at each back-off.
    Timeout,
}

/// The start of a congestion episode: at most one per window of data.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Congestion {
    /// When it was noticed.
    pub now: Time,
    /// What was noticed.
    pub cause: Cause,
    /// Bytes declared lost so far in this episode.
    pub lost: u64,
    /// Bytes in flight before anything was declared lost.
    pub in_flight: u64,
    /// The host's smoothed RTT.
    pub srtt: Span,
}

/// The first send after a pause with nothing in flight.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Restart {
    /// When the sending starts again.
    pub now: Time,
    /// How long nothing was in flight.
    pub idle: Span,
    /// The host's retransmission timeout; a pause longer than it invalidates the window.
    pub rto: Span,
}

/// What a controller shows of itself, for series and `status`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Snapshot {
    /// The window in bytes.
    pub cwnd: u64,
    /// The slow-start threshold in bytes; none while it is unset or the algorithm has none.
    pub ssthresh: Option<u64>,
    /// The base delay in use, RTT or one-way as the algorithm defines it.
    pub base_delay: Option<Span>,
    /// The current estimate of the queueing delay.
    pub queueing_delay: Option<Span>,
    /// The name of the state the algorithm is in, as its source calls it.
    pub phase: &'static str,
}

impl Snapshot {
    /// Of a window and a threshold in bytes, infinite while it is unset; the delays are none.
    pub fn of(cwnd: u64, ssthresh: f64, phase: &'static str) -> Snapshot {
        Snapshot { cwnd, ssthresh: ssthresh.is_finite().then_some(ssthresh as u64), phase, ..Snapshot::default() }
    }
}
