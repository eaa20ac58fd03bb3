//! A flow: its application, its two endpoints, and what is measured of it. Knows no links.

mod control;
mod stats;
mod timer;

use lowtide_cc::{ParamError, Params, Start, rledbat};
use lowtide_units::{Rate, Span, Time};

use crate::endpoint::{ReceivingEnd, SendingEnd};
use crate::packet::{Kind, Packet, UDP_HEADER};
use crate::sender_stats::SenderStats;
use crate::stacks::{Stack, Wire};
use crate::utp::UtpEnd;
use crate::window_limiter::WindowLimiter;
pub use stats::FlowStats;
pub use timer::Timer;

/// Bytes of a SYN or SYN-ACK with its options.
const SYN_SIZE: u32 = 60;
/// RFC 6298 §2: the timeout before there is a sample, doubled each time.
const SYN_TIMEOUT: Span = Span::from_secs(1);

/// What the flow carries.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum App {
    /// As much as the network takes.
    Bulk,
    /// So many bytes, then the end.
    Bytes(u64),
    /// As much as the network takes for `on`, then nothing for `off`, over and over.
    OnOff {
        /// Sending.
        on: Span,
        /// Silent.
        off: Span,
        /// The application's rate while on; none: as much as the network takes.
        rate: Option<Rate>,
        /// Silent at first.
        wait: Span,
        /// With a rate: the send buffer. What does not fit is not written later; what is in it at a burst's end is sent.
        buffer: Option<u64>,
    },
    /// Datagrams of `size` bytes at an even rate, without acknowledgements.
    Datagrams {
        /// On the wire.
        rate: Rate,
        /// Payload bytes of each.
        size: u32,
    },
}

/// A flow as planned.
#[derive(Clone, Debug)]
pub struct FlowSpec {
    /// The result it is counted in.
    pub result: usize,
    /// Name in the registry.
    pub cc: String,
    /// Parameters of the algorithm.
    pub params: Params,
    /// When it starts.
    pub start: Time,
    /// When it stops sending new data.
    pub stop: Time,
    /// What it carries.
    pub app: App,
    /// Stages from the sender to the receiver, and back.
    pub forward: Vec<u16>,
    /// Stages from the receiver to the sender.
    pub reverse: Vec<u16>,
    /// The TCP at both ends.
    pub stack: Stack,
    /// What of it shows in its packets.
    pub wire: Wire,
    /// Both ends, where the flow is uTP instead of TCP.
    pub utp: Option<lowtide_utp::Config>,
    /// The profile of the rLEDBAT receiver, if one holds the sender back, with its parameters.
    pub held_by: Option<(String, Params)>,
    /// Initial window in bytes, if the host insists.
    pub initial_window: Option<u64>,
    /// Seed of whatever the algorithm draws.
    pub seed: u64,
}

/// A flow while it runs.
#[derive(Debug)]
pub struct Flow {
    /// As planned.
    pub spec: FlowSpec,
    /// Measured.
    pub stats: FlowStats,
    /// The sending end; of TCP once the handshake is done.
    pub sender: Option<SendingEnd>,
    /// The receiving end, once it has heard of the other.
    pub receiver: Option<ReceivingEnd>,
    /// What holds the sender back through the receive window.
    limiter: Option<Box<WindowLimiter>>,
    /// The event that pends for the sender's deadline, and for the receiver's.
    pub sender_timer: Timer,
    /// See there.
    pub receiver_timer: Timer,
    syn_sent: Time,
    syn_timeout: Span,
    /// OnOff: the end of the running burst.
    burst_end: Time,
    /// Datagrams sent.
    datagrams: u32,
}

impl Flow {
    /// A flow before its start.
    pub fn new(spec: FlowSpec) -> Flow {
        Flow {
            spec,
            stats: FlowStats::default(),
            sender: None,
            receiver: None,
            limiter: None,
            sender_timer: Timer::default(),
            receiver_timer: Timer::default(),
            syn_sent: Time::ZERO,
            syn_timeout: SYN_TIMEOUT,
            burst_end: Time::ZERO,
            datagrams: 0,
        }
    }

    /// Whether it sends datagrams instead of a byte stream.
    pub fn is_datagrams(&self) -> bool {
        matches!(self.spec.app, App::Datagrams { .. })
    }

    /// Whether it has an end of its own.
    pub fn is_transfer(&self) -> bool {
        matches!(self.spec.app, App::Bytes(_))
    }

    /// Payload bytes received in order so far.
    pub fn delivered(&self) -> u64 {
        self.receiver.as_ref().map_or(self.stats.delivered, |receiver| receiver.delivered()) + self.stats.datagram_bytes
    }

    /// Counters of the sender.
    pub fn sender_stats(&self) -> SenderStats {
        self.sender.as_ref().map_or(self.stats.sender, |sender| sender.stats())
    }

    /// The window that an rLEDBAT receiver aims at.
    pub fn held_window(&self) -> Option<u64> {
        self.limiter.as_ref().map(|limiter| limiter.window())
    }

    /// TCP's SYN, and when to repeat it.
    pub fn syn(&mut self, id: u32, now: Time) -> (Packet, Time) {
        self.syn_sent = now;
        let again = now + self.syn_timeout;
        self.syn_timeout = self.syn_timeout * 2;
        (Packet::new(id, Kind::Syn, SYN_SIZE, now), again)
    }

    /// The SYN arrived: the receiver exists and answers with the first window.
    ///
    /// # Errors
    /// Parameters that the receiver refuses.
    pub fn syn_ack(&mut self, id: u32, now: Time) -> Result<Packet, ParamError> {
        let config = self.spec.wire;
        if self.receiver.is_none() {
            self.receiver = Some(self.spec.stack.receiving_end(id));
            if let Some((profile, params)) = &self.spec.held_by {
                let start = Start { now, mss: config.mss, seed: self.spec.seed, ..Start::default() };
                self.limiter = Some(Box::new(WindowLimiter::build(profile, params, &start, config.scale)?));
            }
        }
        let mut answer = Packet::new(id, Kind::SynAck, SYN_SIZE, now);
        answer.window = config.window;
        self.hold(&mut answer, WindowLimiter::on_syn, now);
        Ok(answer)
    }

    /// A data segment arrives; whether an acknowledgement is due, which is then written to `room`.
    #[inline]
    pub fn on_data(&mut self, packet: &Packet, now: Time, room: &mut Packet) -> bool {
        if let Some(limiter) = &mut self.limiter {
            let (len, mss) = (packet.payload(), self.spec.wire.mss);
            let segment = rledbat::Segment {
                now,
                seq: packet.seq.wrapping_mul(mss),
                len,
                wire: len,
                timestamps: Some((label(packet.sent), label(packet.echo))),
                ce: packet.is_marked(),
            };
            let expected = self.receiver.as_ref().map_or(0, |receiver| receiver.next_expected());
            limiter.on_segment(&segment, expected.wrapping_mul(mss));
        }
        let answers = self.receiver.as_mut().is_some_and(|receiver| receiver.on_packet(packet, now, room));
        if answers {
            self.hold(room, WindowLimiter::on_outgoing, now);
        }
        answers
    }

    /// The receiver's timer; whether an acknowledgement is due, which is then written to `room`.
    pub fn on_receiver_timer(&mut self, now: Time, room: &mut Packet) -> bool {
        let answers = self.receiver.as_mut().is_some_and(|receiver| receiver.on_timer(now, room));
        if answers {
            self.hold(room, WindowLimiter::on_outgoing, now);
        }
        answers
    }

    /// Lets an rLEDBAT receiver lower the window of what leaves.
    fn hold(&mut self, packet: &mut Packet, field: fn(&mut WindowLimiter, &rledbat::Outgoing) -> u16, now: Time) {
        let Some(limiter) = &mut self.limiter else { return };
        let config = self.spec.wire;
        let out = rledbat::Outgoing {
            now,
            ack: packet.seq.wrapping_mul(config.mss),
            field: (packet.window >> config.scale).min(u32::from(u16::MAX)) as u16,
            tsval: Some(label(now)),
        };
        packet.window = u32::from(field(limiter, &out)) << config.scale;
    }

    /// A connection without handshake: both ends exist from the start.
    ///
    /// # Errors
    /// Parameters that an end refuses.
    pub fn open(&mut self, id: u32, now: Time) -> Result<(), ParamError> {
        let window = self.syn_ack(id, now)?.window;
        self.establish(id, window, now)
    }

    /// The SYN-ACK arrived: the sender exists.
    ///
    /// # Errors
    /// Parameters that the algorithm refuses.
    pub fn establish(&mut self, id: u32, window: u32, now: Time) -> Result<(), ParamError> {
        if self.sender.is_some() || self.stats.completed.is_some() {
            return Ok(());
        }
        let handshake = self.spec.stack.handshake(self.syn_sent, now);
        let start = self.spec.start_at(handshake, now);
        let cc = self.spec.control(&start)?;
        let sender = self.spec.stack.sending_end(id, cc, &start, u64::from(window)).map_err(|unfit| self.spec.refused(unfit))?;
        self.begin_writing(sender, now);
        Ok(())
    }

    /// uTP connects: its sender exists from the SYN on, which it repeats itself.
    ///
    /// # Errors
    /// Parameters that the algorithm refuses.
    pub fn connect(&mut self, id: u32, config: lowtide_utp::Config, now: Time) -> Result<(), ParamError> {
        let cc = self.spec.controller(now)?;
        let end = UtpEnd::connect(id, config, cc, self.spec.seed, now);
        self.begin_writing(SendingEnd::Utp(Box::new(end)), now);
        Ok(())
    }

    /// A uTP packet arrives where the flow's data goes; whether an acknowledgement is due, which is then written to `room`.
    ///
    /// # Errors
    /// Parameters that the algorithm refuses.
    pub fn on_utp(&mut self, packet: &Packet, now: Time, room: &mut Packet) -> Result<bool, ParamError> {
        if let Some(receiver) = &mut self.receiver {
            return Ok(receiver.on_packet(packet, now, room));
        }
        let Some(config) = self.spec.utp.filter(|_| self.stats.completed.is_none()) else { return Ok(false) };
        let end = UtpEnd::accept(packet.flow, config, self.spec.controller(now)?, packet, self.spec.seed, now);
        let Some(mut end) = end else { return Ok(false) };
        let answers = end.poll(now, room);
        self.receiver = Some(ReceivingEnd::Utp(Box::new(end)));
        Ok(answers)
    }

    fn begin_writing(&mut self, mut sender: SendingEnd, now: Time) {
        match self.spec.app {
            App::Bytes(bytes) => {
                sender.write(bytes);
                sender.close();
            }
            App::Bulk => sender.write(u64::MAX),
            App::OnOff { rate: None, .. } if now < self.burst_end => sender.write(u64::MAX),
            App::OnOff { .. } | App::Datagrams { .. } => {}
        }
        self.sender = Some(sender);
    }

    /// The application of an OnOff flow acts. When it acts next.
    pub fn act(&mut self, now: Time) -> Option<Time> {
        let App::OnOff { on, off, rate, wait, buffer } = self.spec.app else { return None };
        if now < self.spec.start + wait {
            return Some(self.spec.start + wait);
        }
        if now >= self.burst_end + off || self.burst_end == Time::ZERO {
            self.burst_end = now + on;
        }
        let sender = self.sender.as_mut();
        if now >= self.burst_end {
            if let Some(sender) = sender.filter(|_| buffer.is_none()) {
                sender.stop();
            }
            return Some(self.burst_end + off);
        }
        let write = rate.map_or(u64::MAX, |_| u64::from(self.spec.wire.mss));
        if let Some(sender) = sender.filter(|sender| buffer.is_none_or(|buffer| sender.unacknowledged() + write <= buffer)) {
            sender.write(write);
        }
        Some(rate.map_or(self.burst_end, |rate| (now + rate.time_for(write)).min(self.burst_end)))
    }

    /// The next datagram and when the one after it leaves.
    pub fn datagram(&mut self, id: u32, now: Time) -> Option<(Packet, Time)> {
        let App::Datagrams { rate, size } = self.spec.app else { return None };
        let mut packet = Packet::new(id, Kind::Datagram, size + UDP_HEADER, now);
        packet.seq = self.datagrams;
        self.datagrams += 1;
        Some((packet, self.spec.start + Span::from_nanos(datagram_offset(rate, size + UDP_HEADER, u64::from(self.datagrams)))))
    }

    /// A datagram arrived.
    pub fn on_datagram(&mut self, packet: &Packet, now: Time) {
        self.stats.datagram_bytes += u64::from(packet.size - UDP_HEADER);
        let transit = now.since(packet.sent);
        self.stats.rtt.add(transit);
        self.stats.add_transit(transit);
    }

    /// The transfer may be complete: then its endpoints go.
    #[inline]
    pub fn check_done(&mut self, now: Time) {
        let finite = matches!(self.spec.app, App::Bytes(_));
        if finite && self.sender.as_ref().is_some_and(|sender| sender.is_done()) {
            self.stats.completed = Some(now);
            self.stats.delivered = self.receiver.take().map_or(0, |receiver| receiver.delivered());
            self.stats.sender = self.sender.take().map(|sender| sender.stats()).unwrap_or_default();
        }
    }
}

/// A time as Linux's timestamp option shows it: whole milliseconds.
fn label(at: Time) -> u32 {
    (at.nanos() / 1_000_000) as u32
}

/// When datagram `number` leaves, in ns after the first: multiplied out, so that no rounding adds up.
fn datagram_offset(rate: Rate, wire: u32, number: u64) -> u64 {
    (u128::from(number) * u128::from(wire) * 8_000_000_000 / u128::from(rate.bps().max(1))) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn datagrams_do_not_drift() {
        // 7 Mbit/s and 1028 bytes: 1.174857… ms each; after a million of them still on time.
        let offset = datagram_offset(Rate::from_bps(7_000_000), 1028, 1_000_000);
        assert_eq!(offset, 1_174_857_142_857);
    }
}
