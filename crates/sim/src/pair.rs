//! Both ends of a connection over a path that delays by a fixed time and drops what the test says. For the tests of the stacks.

use std::collections::VecDeque;

use lowtide_net::Ecn;
use lowtide_units::{Rate, Span, Time};

use crate::packet::{Kind, Packet};
use crate::stacks::{ns2, ns3};
use crate::tcp;

/// What of a sending end the path needs.
pub trait Sending {
    /// The next packet to leave.
    fn next(&mut self, now: Time) -> Option<Packet>;
    fn on_ack(&mut self, ack: &Packet, now: Time);
    fn deadline(&self) -> Option<Time>;
    fn on_timer(&mut self, now: Time);
}

/// The same of a receiving end.
pub trait Receiving {
    /// What it answers to a data segment.
    fn answer_to(&mut self, packet: &Packet, now: Time) -> Option<Packet>;
    fn deadline(&self) -> Option<Time>;
    /// What it answers when its deadline has come.
    fn late_answer(&mut self, now: Time) -> Option<Packet>;
}

/// What `end` writes, if it says so.
fn written(end: impl FnOnce(&mut Packet) -> bool) -> Option<Packet> {
    let mut room = Packet::new(0, Kind::Data, 0, Time::ZERO);
    end(&mut room).then_some(room)
}

macro_rules! ends {
    ($($sender:ty, $receiver:ty;)*) => {
        $(
            impl Sending for $sender {
                fn next(&mut self, now: Time) -> Option<Packet> {
                    written(|room| self.poll(now, room))
                }

                fn on_ack(&mut self, ack: &Packet, now: Time) {
                    self.on_ack(ack, now);
                }

                fn deadline(&self) -> Option<Time> {
                    self.deadline()
                }

                fn on_timer(&mut self, now: Time) {
                    self.on_timer(now);
                }
            }

            impl Receiving for $receiver {
                fn answer_to(&mut self, packet: &Packet, now: Time) -> Option<Packet> {
                    written(|room| self.on_data(packet, now, room))
                }

                fn deadline(&self) -> Option<Time> {
                    self.deadline()
                }

                fn late_answer(&mut self, now: Time) -> Option<Packet> {
                    written(|room| self.on_timer(now, room))
                }
            }
        )*
    };
}

ends! {
    tcp::sender::Sender, tcp::receiver::Receiver;
    ns3::socket::Socket, ns3::receiver::Receiver;
    ns2::Agent, ns2::sink::Sink;
}

/// A connection over a path of a rate and a delay, without limit of queue.
pub struct Pair<S, R> {
    pub sender: S,
    pub receiver: R,
    pub now: Time,
    pub rtt: Span,
    pub rate: Option<Rate>,
    pub free: Time,
    pub data: VecDeque<(Time, Packet)>,
    pub acks: VecDeque<(Time, Packet)>,
    /// When which segment left.
    pub sent: Vec<(Time, u32)>,
    /// Transmissions to drop, counted from zero, ascending; and a segment whose first `.1` transmissions are dropped.
    pub drop: Vec<usize>,
    pub drop_segment: (u32, u32),
    /// What would arrive between these arrives at the second.
    pub stall: (Time, Time),
    /// Segments below are marked on the way.
    pub marked: u32,
}

impl<S: Sending, R: Receiving> Pair<S, R> {
    /// 40 ms there and back.
    pub fn of(sender: S, receiver: R) -> Pair<S, R> {
        Pair {
            sender,
            receiver,
            now: Time::ZERO,
            rtt: Span::from_millis(40),
            rate: None,
            free: Time::ZERO,
            data: VecDeque::new(),
            acks: VecDeque::new(),
            sent: Vec::new(),
            drop: Vec::new(),
            drop_segment: (0, 0),
            stall: (Time::ZERO, Time::ZERO),
            marked: 0,
        }
    }

    pub fn flush(&mut self) {
        while let Some(mut packet) = self.sender.next(self.now) {
            if packet.seq < self.marked {
                packet.ecn = Ecn::Ce;
            }
            let number = self.sent.len();
            self.sent.push((self.now, packet.seq));
            if packet.seq == self.drop_segment.0 && self.drop_segment.1 > 0 {
                self.drop_segment.1 -= 1;
                continue;
            }
            if self.drop.binary_search(&number).is_ok() {
                continue;
            }
            let departs = match self.rate {
                Some(rate) => self.free.max(self.now) + rate.time_for(u64::from(packet.size)),
                None => self.now,
            };
            self.free = departs;
            let arrives = departs + self.rtt / 2;
            let stalled = (self.stall.0..self.stall.1).contains(&arrives);
            self.data.push_back((if stalled { self.stall.1 } else { arrives }, packet));
        }
    }

    pub fn run(&mut self, until: Time) {
        self.flush();
        loop {
            let timer = self.sender.deadline().into_iter().chain(self.receiver.deadline());
            let next = timer.chain(self.data.front().map(|d| d.0)).chain(self.acks.front().map(|a| a.0)).min();
            let Some(next) = next.filter(|&at| at <= until) else { break };
            self.now = next.max(self.now);
            self.step();
        }
        self.now = until;
    }

    fn step(&mut self) {
        if self.data.front().is_some_and(|d| d.0 <= self.now) {
            let (_, packet) = self.data.pop_front().expect("just seen");
            let ack = self.receiver.answer_to(&packet, self.now);
            self.acks.extend(ack.map(|ack| (self.now + self.rtt / 2, ack)));
        } else if self.acks.front().is_some_and(|a| a.0 <= self.now) {
            let (_, ack) = self.acks.pop_front().expect("just seen");
            self.sender.on_ack(&ack, self.now);
            self.flush();
        } else {
            let ack = self.receiver.late_answer(self.now);
            self.acks.extend(ack.map(|ack| (self.now + self.rtt / 2, ack)));
            self.sender.on_timer(self.now);
            self.flush();
        }
    }

    /// When segment `seq` left, in ms.
    pub fn times_of(&self, seq: u32) -> Vec<u64> {
        self.sent.iter().filter(|s| s.1 == seq).map(|s| s.0.nanos() / 1_000_000).collect()
    }
}
