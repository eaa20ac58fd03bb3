//! Two connections joined by a path of 10 ms each way, and a clock that only this file moves.

use std::collections::BTreeMap;

use lowtide_cc::Controller;
use lowtide_units::{Span, Time};

use crate::config::Config;
use crate::connection::{Connection, Open, Placement, State};
use crate::header::{Kind, Packet};

const LATENCY: Span = Span::from_millis(10);

/// What the path does to a packet.
#[derive(PartialEq)]
pub(super) enum Fate {
    Pass,
    Lost,
    /// 25 ms later than it should: reordered.
    Late,
    Twice,
}

pub(super) struct Pair {
    pub initiator: Connection,
    pub acceptor: Option<Connection>,
    config: Config,
    seq: u16,
    now: Time,
    /// Under way: by arrival and order, to the acceptor or not.
    path: BTreeMap<(Time, u64), (bool, Packet)>,
    sends: u64,
    /// Every packet that left, with its time, unless nobody asks.
    pub sent: Vec<(Time, Packet)>,
    pub records: bool,
    /// Datagrams larger than this are lost if they must not be fragmented.
    pub drops_probes_above: Option<usize>,
    /// The acceptor's clock runs so much too fast.
    pub drift_ppm: i64,
    /// The acceptor was told of the end.
    pub ended: bool,
    /// When payload last arrived in order.
    pub last_data: Time,
}

impl Pair {
    pub(super) fn new(config: Config, open: Open, seq: u16) -> Pair {
        Pair::under(config, super::libutp(), open, seq)
    }

    /// The initiator sends under `cc`.
    pub(super) fn under(config: Config, cc: Box<dyn Controller>, open: Open, seq: u16) -> Pair {
        let initiator = Connection::connect(config, cc, open, Time::ZERO);
        Pair {
            initiator,
            acceptor: None,
            config,
            seq,
            now: Time::ZERO,
            path: BTreeMap::new(),
            sends: 0,
            sent: Vec::new(),
            records: true,
            drops_probes_above: None,
            drift_ppm: 0,
            ended: false,
            last_data: Time::ZERO,
        }
    }

    /// What the acceptor's clock says at `now`.
    fn theirs(&self, now: Time) -> Time {
        Time::from_nanos(now.nanos().saturating_add_signed(now.nanos() as i64 / 1_000_000 * self.drift_ppm))
    }

    /// When the acceptor's clock says `theirs`, or a little later.
    fn ours(&self, theirs: Time) -> Time {
        let nanos = theirs.nanos() as i128 * 1_000_000 / i128::from(1_000_000 + self.drift_ppm);
        Time::from_nanos(nanos as u64 + u64::from(self.drift_ppm != 0) * 1_000_000)
    }

    pub(super) fn states(&self) -> [State; 2] {
        [self.initiator.state(), self.acceptor.as_ref().map_or(State::SynSent, Connection::state)]
    }

    /// Runs to `end`.
    pub(super) fn run(&mut self, end: Time, fate: &mut dyn FnMut(&Packet) -> Fate) {
        loop {
            self.send_all(fate);
            let theirs = self.acceptor.as_ref().and_then(Connection::deadline).map(|at| self.ours(at));
            let timers = [self.initiator.deadline(), theirs];
            let due = timers.into_iter().flatten().chain(self.path.keys().next().map(|key| key.0)).min();
            let Some(due) = due.filter(|&due| due <= end) else { break };
            self.now = due;
            if self.path.keys().next().is_some_and(|key| key.0 == due) {
                self.arrive();
            } else if timers[0] == Some(due) {
                self.initiator.on_timer(due);
            } else {
                let theirs = self.theirs(due);
                self.acceptor.iter_mut().for_each(|acceptor| acceptor.on_timer(theirs));
            }
        }
        self.now = end;
    }

    fn send_all(&mut self, fate: &mut dyn FnMut(&Packet) -> Fate) {
        for to_acceptor in [true, false] {
            let now = if to_acceptor { self.now } else { self.theirs(self.now) };
            let from = if to_acceptor { Some(&mut self.initiator) } else { self.acceptor.as_mut() };
            let Some(from) = from else { continue };
            while let Some(transmit) = from.poll(now) {
                let packet = transmit.packet;
                if self.records {
                    self.sent.push((self.now, packet));
                }
                let too_large = transmit.probe && self.drops_probes_above.is_some_and(|most| packet.bytes() > most);
                let (late, copies) = match fate(&packet) {
                    _ if too_large => (Span::ZERO, 0),
                    Fate::Pass => (Span::ZERO, 1),
                    Fate::Lost => (Span::ZERO, 0),
                    Fate::Late => (Span::from_millis(25), 1),
                    Fate::Twice => (Span::ZERO, 2),
                };
                for _ in 0..copies {
                    self.sends += 1;
                    self.path.insert((self.now + LATENCY + late, self.sends), (to_acceptor, packet));
                }
            }
        }
    }

    fn arrive(&mut self) {
        let Some((_, (to_acceptor, packet))) = self.path.pop_first() else { return };
        if !to_acceptor {
            self.initiator.on_packet(&packet, self.now);
            return;
        }
        let theirs = self.theirs(self.now);
        match &mut self.acceptor {
            None if packet.header.kind == Kind::Syn => {
                self.acceptor = Some(Connection::accept(self.config, super::libutp(), &packet, self.seq, theirs));
            }
            None => {}
            Some(acceptor) => {
                let arrival = acceptor.on_packet(&packet, theirs);
                self.ended |= arrival.end;
                if arrival.payload == Placement::InOrder {
                    self.last_data = self.now;
                }
            }
        }
    }
}
