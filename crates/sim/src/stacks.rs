//! Whose TCP a flow runs over: the simulator's own, or a port of another simulator's. Each turns a scenario's keys into its own
//! configuration; nothing else knows which there are but the ends of a flow.

pub(crate) mod ns2;
pub(crate) mod ns3;

use lowtide_cc::Start;
use lowtide_replicas::{Built, Unfit};
use lowtide_scenario::scenario::{Recovery, Stack as Name, Tcp};
use lowtide_units::{Span, Time};

use crate::endpoint::{ReceivingEnd, SendingEnd};
use crate::tcp::receiver::{MarkEcho, Receiver, ReceiverConfig};
use crate::tcp::sender::{LossRecovery, Sender, SenderConfig};

/// The configuration of both ends.
#[derive(Clone, Copy, Debug)]
pub enum Stack {
    /// The simulator's own.
    Tcp(SenderConfig, ReceiverConfig),
    /// ns-3's socket.
    Ns3(ns3::socket::SocketConfig, ns3::receiver::ReceiverConfig),
    /// ns-2's agent and sink.
    Ns2(ns2::AgentConfig, ns2::sink::SinkConfig),
}

/// What of a stack shows in the packets of a connection.
#[derive(Clone, Copy, Debug)]
pub struct Wire {
    /// Payload bytes of a full segment.
    pub mss: u32,
    /// The shift of the window field.
    pub scale: u8,
    /// The first window that the receiver advertises, in bytes.
    pub window: u32,
    /// SACK is permitted.
    pub sack: bool,
    /// ECN is asked for.
    pub ecn: bool,
    /// It begins with a SYN and a SYN-ACK; otherwise both ends exist from the start.
    pub handshake: bool,
}

impl Stack {
    /// As a scenario asks.
    pub fn of(tcp: &Tcp) -> Stack {
        match tcp.stack {
            Name::Linux | Name::Rfc => {
                let (sender, receiver) = own(tcp);
                Stack::Tcp(sender, receiver)
            }
            Name::Ns3 => {
                let (sender, receiver) = ns3::config(tcp);
                Stack::Ns3(sender, receiver)
            }
            Name::Ns2 => {
                let (sender, receiver) = ns2::config(tcp);
                Stack::Ns2(sender, receiver)
            }
        }
    }

    /// Makes the receiver echo marks as the sender's `control` needs them.
    ///
    /// # Errors
    /// The control does not run over this stack.
    pub fn suit(&mut self, control: Built) -> Result<(), Unfit> {
        match self {
            Stack::Tcp(_, receiver) => {
                if control.into_controller()?.counts_marks() {
                    receiver.marks = MarkEcho::EachChange;
                }
            }
            Stack::Ns3(_, receiver) => receiver.dctcp = control.into_congestion_ops()?.has_dctcp_ecn(),
            Stack::Ns2(..) => drop(control.into_replica()?),
        }
        Ok(())
    }

    /// What of it shows in the packets.
    pub fn wire(&self) -> Wire {
        match self {
            Stack::Tcp(sender, receiver) => Wire {
                mss: sender.mss,
                scale: receiver.scale,
                window: receiver.window(),
                sack: receiver.sack,
                ecn: sender.ecn,
                handshake: true,
            },
            Stack::Ns3(sender, receiver) => {
                Wire { mss: sender.segment, scale: receiver.scale, window: receiver.window(), sack: true, ecn: sender.ecn, handshake: true }
            }
            Stack::Ns2(sender, sink) => {
                Wire { mss: sender.size, scale: sink.scale, window: sink.window(), sack: false, ecn: false, handshake: !sender.one_way }
            }
        }
    }

    /// The RTT that a handshake of these times gives; none where there is none.
    pub fn handshake(&self, sent: Time, answered: Time) -> Option<Span> {
        match self {
            Stack::Tcp(..) => Some(answered.since(sent)),
            Stack::Ns3(..) => Some(ns3::elapsed(sent, answered)),
            Stack::Ns2(sender, _) => (!sender.one_way).then(|| answered.since(sent)),
        }
    }

    /// The end that sends, which begins as `start` says; its peer permits `window` bytes.
    ///
    /// # Errors
    /// The control does not run over this stack.
    pub fn sending_end(&self, flow: u32, cc: Built, start: &Start, window: u64) -> Result<SendingEnd, Unfit> {
        let handshake = start.handshake_rtt;
        Ok(match *self {
            Stack::Tcp(config, _) => SendingEnd::Tcp(Box::new(Sender::new(flow, config, cc.into_controller()?, handshake, window))),
            Stack::Ns3(config, _) => {
                SendingEnd::Ns3(Box::new(ns3::socket::Socket::new(flow, config, cc.into_congestion_ops()?, start, window)))
            }
            Stack::Ns2(config, _) => SendingEnd::Ns2(Box::new(ns2::Agent::new(flow, config, cc.into_replica()?, window))),
        })
    }

    /// The end that receives.
    pub fn receiving_end(&self, flow: u32) -> ReceivingEnd {
        match *self {
            Stack::Tcp(_, config) => ReceivingEnd::Tcp(Box::new(Receiver::new(flow, config))),
            Stack::Ns3(_, config) => ReceivingEnd::Ns3(Box::new(ns3::receiver::Receiver::new(flow, config))),
            Stack::Ns2(_, config) => ReceivingEnd::Ns2(Box::new(ns2::sink::Sink::new(flow, config))),
        }
    }
}

/// The simulator's own TCP: Linux's, or the RFCs'.
fn own(tcp: &Tcp) -> (SenderConfig, ReceiverConfig) {
    let profile = match (tcp.stack, tcp.recovery.unwrap_or_default()) {
        (Name::Rfc, Recovery::Sack) => SenderConfig::rfc(tcp.mss, LossRecovery::Sack),
        (Name::Rfc, Recovery::Newreno) => SenderConfig::rfc(tcp.mss, LossRecovery::NewReno),
        _ => SenderConfig::linux(tcp.mss),
    };
    let sender = SenderConfig {
        rto_floor: tcp.min_rto_ms.map(Span::from_millis_f64),
        granularity: Span::from_millis_f64(tcp.timestamp_ms),
        pacing: tcp.pacing,
        tso: tcp.tso,
        ecn: tcp.ecn,
        group: tcp.delayed_ack,
        ..profile
    };
    let receiver = ReceiverConfig {
        every: tcp.delayed_ack,
        delay: Span::from_millis_f64(tcp.ack_timer_ms),
        quick: tcp.quickack,
        grows: tcp.stack == Name::Linux,
        sack: sender.has_sack(),
        marks: MarkEcho::default(),
        buffer: tcp.rcvbuf_bytes.unwrap_or(1 << 30),
        mss: tcp.mss,
        scale: tcp.window_scale,
    };
    (sender, receiver)
}
