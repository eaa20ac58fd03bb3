//! Whose TCP a flow runs over: the simulator's own, or a port of another simulator's. Each turns a scenario's keys into its own
//! configuration; nothing else knows which there are but the ends of a flow.

pub mod ns2;
pub mod ns3;

use lowtide_cc::Controller;
use lowtide_scenario::scenario::{Recovery, Rto, Stack as Name, Tcp};
use lowtide_units::{Span, Time};

use crate::endpoint::{ReceivingEnd, SendingEnd};
use crate::tcp::receiver::{Echo, Receiver, ReceiverConfig};
use crate::tcp::rto::RtoProfile;
use crate::tcp::sender::{Detection, Reduction, Sender, SenderConfig};

/// The configuration of both ends.
#[derive(Clone, Copy, Debug)]
pub enum Stack {
    /// The simulator's own.
    Tcp(SenderConfig, ReceiverConfig),
    /// ns-3's socket.
    Ns3(ns3::sender::SenderConfig, ns3::receiver::ReceiverConfig),
    /// ns-2's agent and sink.
    Ns2(ns2::sender::SenderConfig, ns2::receiver::ReceiverConfig),
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
            Stack::Ns3(sender, receiver) => Wire {
                mss: sender.mss,
                scale: receiver.scale,
                window: receiver.window(),
                sack: receiver.sack,
                ecn: sender.ecn,
                handshake: true,
            },
            Stack::Ns2(sender, receiver) => Wire {
                mss: sender.mss,
                scale: receiver.scale,
                window: receiver.window(),
                sack: receiver.sack,
                ecn: sender.ecn,
                handshake: !sender.one_way,
            },
        }
    }

    /// The RTT that a handshake of these times gives; none where there is none.
    pub fn handshake(&self, sent: Time, answered: Time) -> Option<Span> {
        match self {
            Stack::Tcp(..) => Some(answered.since(sent)),
            Stack::Ns3(sender, _) => Some(sender.handshake(sent, answered)),
            Stack::Ns2(sender, _) => (!sender.one_way).then(|| sender.handshake(sent, answered)),
        }
    }

    /// The end that sends, whose peer permits `window` bytes.
    pub fn sending_end(&self, flow: u32, cc: Box<dyn Controller>, handshake: Option<Span>, window: u64) -> SendingEnd {
        match *self {
            Stack::Tcp(config, _) => SendingEnd::Tcp(Box::new(Sender::new(flow, config, cc, handshake, window))),
            Stack::Ns3(config, _) => SendingEnd::Ns3(Box::new(ns3::sender::Sender::new(flow, config, cc, handshake, window))),
            Stack::Ns2(config, _) => SendingEnd::Ns2(Box::new(ns2::sender::Sender::new(flow, config, cc, handshake, window))),
        }
    }

    /// The end that receives.
    pub fn receiving_end(&self, flow: u32) -> ReceivingEnd {
        match *self {
            Stack::Tcp(_, config) => ReceivingEnd::Tcp(Box::new(Receiver::new(flow, config))),
            Stack::Ns3(_, config) => ReceivingEnd::Ns3(Box::new(ns3::receiver::Receiver::new(flow, config))),
            Stack::Ns2(_, config) => ReceivingEnd::Ns2(Box::new(ns2::receiver::Receiver::new(flow, config))),
        }
    }
}

/// The simulator's own TCP.
fn own(tcp: &Tcp) -> (SenderConfig, ReceiverConfig) {
    let rfc = tcp.stack == Name::Rfc;
    let recovery = tcp.recovery.unwrap_or(if rfc { Recovery::Sack } else { Recovery::Rack });
    let rto = tcp.rto.unwrap_or(if rfc { Rto::Rfc } else { Rto::Linux });
    let sender = SenderConfig {
        detection: match recovery {
            Recovery::Rack => Detection::Rack,
            Recovery::Sack | Recovery::SackClassic => Detection::Rfc6675,
            Recovery::Newreno => Detection::NewReno,
            Recovery::Reno => Detection::Reno,
        },
        reduction: match recovery {
            Recovery::Rack | Recovery::Sack => Reduction::Prr,
            Recovery::SackClassic | Recovery::Newreno | Recovery::Reno => Reduction::AtOnce,
        },
        rto: match rto {
            Rto::Linux => RtoProfile::Linux,
            Rto::Rfc => RtoProfile::Rfc,
        },
        rto_floor: tcp.min_rto_ms.map(Span::from_millis_f64),
        tlp: recovery == Recovery::Rack,
        undo: recovery == Recovery::Rack,
        granularity: Span::from_millis_f64(tcp.timestamp_ms),
        pacing: tcp.pacing,
        ecn: tcp.ecn,
        group: tcp.delayed_ack,
        ..SenderConfig::linux(tcp.mss)
    };
    let receiver = ReceiverConfig {
        every: tcp.delayed_ack,
        delay: Span::from_millis_f64(tcp.ack_timer_ms),
        quick: tcp.quickack,
        sack: recovery.has_sack(),
        buffer: tcp.rcvbuf_bytes.unwrap_or(1 << 30),
        mss: tcp.mss,
        scale: tcp.window_scale,
        echo: Echo::First,
        short_of_change: false,
    };
    (sender, receiver)
}
