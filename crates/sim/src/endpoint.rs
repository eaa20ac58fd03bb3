//! The two ends of a flow, whatever its transport: what the world drives. Knows TCP and uTP ends, no links.

use lowtide_cc::Snapshot;
use lowtide_units::{Rate, Span, Time};

use crate::packet::Packet;
use crate::sender_stats::{Note, SenderStats};
use crate::stacks::{ns2, ns3};
use crate::tcp;
use crate::utp::UtpEnd;

/// The end that sends the flow's data.
#[derive(Debug)]
pub enum SendingEnd {
    /// TCP, its handshake done.
    Tcp(Box<tcp::sender::Sender>),
    /// ns-3's socket.
    Ns3(Box<ns3::socket::Socket>),
    /// An agent of ns-2.
    Ns2(Box<ns2::Agent>),
    /// uTP, from its SYN on.
    Utp(Box<UtpEnd>),
}

/// The end that receives it.
#[derive(Debug)]
pub enum ReceivingEnd {
    /// TCP.
    Tcp(Box<tcp::receiver::Receiver>),
    /// ns-3's socket.
    Ns3(Box<ns3::receiver::Receiver>),
    /// ns-2's sink.
    Ns2(Box<ns2::sink::Sink>),
    /// uTP.
    Utp(Box<UtpEnd>),
}

impl SendingEnd {
    /// A packet from the other end arrives.
    #[inline]
    pub fn on_packet(&mut self, packet: &Packet, now: Time) {
        match self {
            SendingEnd::Tcp(sender) => sender.on_ack(packet, now),
            SendingEnd::Ns3(sender) => sender.on_ack(packet, now),
            SendingEnd::Ns2(sender) => sender.on_ack(packet, now),
            SendingEnd::Utp(end) => end.on_packet(packet, now),
        }
    }

    /// Writes the next packet to leave now to `room`, until there is none.
    #[inline]
    pub fn poll(&mut self, now: Time, room: &mut Packet) -> bool {
        match self {
            SendingEnd::Tcp(sender) => sender.poll(now, room),
            SendingEnd::Ns3(sender) => sender.poll(now, room),
            SendingEnd::Ns2(sender) => sender.poll(now, room),
            SendingEnd::Utp(end) => end.poll(now, room),
        }
    }

    /// Whether a timer comes before what arrives in the same nanosecond.
    pub fn timer_goes_first(&self) -> bool {
        matches!(self, SendingEnd::Ns3(sender) if sender.timer_goes_first())
    }

    /// When [`on_timer`](Self::on_timer) is due.
    #[inline]
    pub fn deadline(&self) -> Option<Time> {
        match self {
            SendingEnd::Tcp(sender) => sender.deadline(),
            SendingEnd::Ns3(sender) => sender.deadline(),
            SendingEnd::Ns2(sender) => sender.deadline(),
            SendingEnd::Utp(end) => end.connection.deadline(),
        }
    }

    /// The deadline has come.
    pub fn on_timer(&mut self, now: Time) {
        match self {
            SendingEnd::Tcp(sender) => sender.on_timer(now),
            SendingEnd::Ns3(sender) => sender.on_timer(now),
            SendingEnd::Ns2(sender) => sender.on_timer(now),
            SendingEnd::Utp(end) => end.connection.on_timer(now),
        }
    }

    /// The application writes `bytes` more; `u64::MAX` for a transfer without end.
    pub fn write(&mut self, bytes: u64) {
        match self {
            SendingEnd::Tcp(sender) => sender.write(bytes),
            SendingEnd::Ns3(sender) => sender.write(bytes),
            SendingEnd::Ns2(sender) => sender.write(bytes),
            SendingEnd::Utp(end) => end.connection.write(bytes),
        }
    }

    /// The application will write no more.
    pub fn close(&mut self) {
        match self {
            SendingEnd::Tcp(sender) => sender.close(),
            SendingEnd::Ns3(sender) => sender.close(),
            SendingEnd::Ns2(sender) => sender.close(),
            SendingEnd::Utp(end) => end.connection.close(),
        }
    }

    /// Bytes written and not acknowledged; of uTP none, which has no such buffer here.
    pub fn unacknowledged(&self) -> u64 {
        match self {
            SendingEnd::Tcp(sender) => sender.unacknowledged(),
            SendingEnd::Ns3(sender) => sender.unacknowledged(),
            SendingEnd::Ns2(sender) => sender.unacknowledged(),
            SendingEnd::Utp(_) => 0,
        }
    }

    /// The application takes back what has not been sent.
    pub fn stop(&mut self) {
        match self {
            SendingEnd::Tcp(sender) => sender.stop(),
            SendingEnd::Ns3(sender) => sender.stop(),
            SendingEnd::Ns2(sender) => sender.stop(),
            SendingEnd::Utp(end) => end.connection.stop(),
        }
    }

    /// Everything written has been acknowledged.
    pub fn is_done(&self) -> bool {
        match self {
            SendingEnd::Tcp(sender) => sender.is_done(),
            SendingEnd::Ns3(sender) => sender.is_done(),
            SendingEnd::Ns2(sender) => sender.is_done(),
            SendingEnd::Utp(end) => end.connection.is_idle(),
        }
    }

    /// Counters.
    pub fn stats(&self) -> SenderStats {
        match self {
            SendingEnd::Tcp(sender) => sender.stats(),
            SendingEnd::Ns3(sender) => sender.stats(),
            SendingEnd::Ns2(sender) => sender.stats(),
            SendingEnd::Utp(end) => end.stats(),
        }
    }

    /// The congestion control's state.
    pub fn snapshot(&self) -> Snapshot {
        match self {
            SendingEnd::Tcp(sender) => sender.snapshot(),
            SendingEnd::Ns3(sender) => sender.snapshot(),
            SendingEnd::Ns2(sender) => sender.snapshot(),
            SendingEnd::Utp(end) => end.connection.snapshot(),
        }
    }

    /// Bytes in flight.
    pub fn in_flight(&self) -> u64 {
        match self {
            SendingEnd::Tcp(sender) => sender.in_flight(),
            SendingEnd::Ns3(sender) => sender.in_flight(),
            SendingEnd::Ns2(sender) => sender.in_flight(),
            SendingEnd::Utp(end) => end.connection.in_flight(),
        }
    }

    /// The smallest RTT seen, where the transport keeps it.
    pub fn min_rtt(&self) -> Option<Span> {
        match self {
            SendingEnd::Tcp(sender) => sender.min_rtt(),
            SendingEnd::Ns3(sender) => sender.min_rtt(),
            SendingEnd::Ns2(sender) => sender.min_rtt(),
            SendingEnd::Utp(_) => None,
        }
    }

    /// The rate at which packets leave, if they are paced.
    pub fn pacing_rate(&self) -> Option<Rate> {
        match self {
            SendingEnd::Tcp(sender) => sender.pacing_rate(),
            SendingEnd::Ns3(sender) => sender.pacing_rate(),
            SendingEnd::Ns2(sender) => sender.pacing_rate(),
            SendingEnd::Utp(_) => None,
        }
    }

    /// What became of its transmissions since the last call, where the transport notes it; the first call begins it.
    pub fn take_notes(&mut self) -> Vec<Note> {
        match self {
            SendingEnd::Tcp(sender) => sender.take_notes(),
            SendingEnd::Ns3(sender) => sender.take_notes(),
            SendingEnd::Ns2(sender) => sender.take_notes(),
            SendingEnd::Utp(_) => Vec::new(),
        }
    }

    /// The smoothed RTT.
    pub fn srtt(&self) -> Span {
        match self {
            SendingEnd::Tcp(sender) => sender.srtt(),
            SendingEnd::Ns3(sender) => sender.srtt(),
            SendingEnd::Ns2(sender) => sender.srtt(),
            SendingEnd::Utp(end) => end.connection.srtt(),
        }
    }

    /// The RTT sample that the last packet gave.
    #[inline]
    pub fn take_rtt(&mut self) -> Option<Span> {
        match self {
            SendingEnd::Tcp(sender) => sender.take_rtt(),
            SendingEnd::Ns3(sender) => sender.take_rtt(),
            SendingEnd::Ns2(sender) => sender.take_rtt(),
            SendingEnd::Utp(end) => end.connection.take_rtt(),
        }
    }
}

impl ReceivingEnd {
    /// A packet of the flow arrives; whether an answer is due, which is then written to `room`.
    #[inline]
    pub fn on_packet(&mut self, packet: &Packet, now: Time, room: &mut Packet) -> bool {
        match self {
            ReceivingEnd::Tcp(receiver) => receiver.on_data(packet, now, room),
            ReceivingEnd::Ns3(receiver) => receiver.on_data(packet, now, room),
            ReceivingEnd::Ns2(receiver) => receiver.on_data(packet, now, room),
            ReceivingEnd::Utp(end) => {
                end.on_packet(packet, now);
                end.poll(now, room)
            }
        }
    }

    /// The deadline has come; whether a packet is due, which is then written to `room`.
    pub fn on_timer(&mut self, now: Time, room: &mut Packet) -> bool {
        match self {
            ReceivingEnd::Tcp(receiver) => receiver.on_timer(now, room),
            ReceivingEnd::Ns3(receiver) => receiver.on_timer(now, room),
            ReceivingEnd::Ns2(receiver) => receiver.on_timer(now, room),
            ReceivingEnd::Utp(end) => {
                end.connection.on_timer(now);
                end.poll(now, room)
            }
        }
    }

    /// When [`on_timer`](Self::on_timer) is due.
    #[inline]
    pub fn deadline(&self) -> Option<Time> {
        match self {
            ReceivingEnd::Tcp(receiver) => receiver.deadline(),
            ReceivingEnd::Ns3(receiver) => receiver.deadline(),
            ReceivingEnd::Ns2(receiver) => receiver.deadline(),
            ReceivingEnd::Utp(end) => end.connection.deadline(),
        }
    }

    /// TCP: the next segment expected.
    pub fn next_expected(&self) -> u32 {
        match self {
            ReceivingEnd::Tcp(receiver) => receiver.next_expected(),
            ReceivingEnd::Ns3(receiver) => receiver.next_expected(),
            ReceivingEnd::Ns2(receiver) => receiver.next_expected(),
            ReceivingEnd::Utp(_) => 0,
        }
    }

    /// Payload bytes received in order.
    pub fn delivered(&self) -> u64 {
        match self {
            ReceivingEnd::Tcp(receiver) => receiver.delivered(),
            ReceivingEnd::Ns3(receiver) => receiver.delivered(),
            ReceivingEnd::Ns2(receiver) => receiver.delivered(),
            ReceivingEnd::Utp(end) => end.connection.received(),
        }
    }
}
