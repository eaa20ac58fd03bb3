//! A random life of a connection whose peer sends anything at all at any time: datagrams that are nearly right, changed in some bits, cut, or
//! noise; and the promises that must hold. Shared by the fuzzer that needs nothing (`examples/fuzz.rs`) and the one of cargo-fuzz; where
//! chance comes from is theirs.

use lowtide_cc::{Params, Span, Start, Time, registry};
use lowtide_utp::{Config, Connection, Header, Kind, Open, Packet, PathMtu, Placement, Repair, Report, Sack, State};

/// Where chance comes from.
pub trait Chance {
    /// A number of 64 bits.
    fn next(&mut self) -> u64;
    /// A number below `most`.
    fn below(&mut self, most: u64) -> u64;
    /// There is more of it.
    fn is_left(&self) -> bool;
}

/// What the host knows and what it has been promised.
pub struct Life<C> {
    connection: Connection,
    random: C,
    now: Time,
    config: Config,
    written: u64,
    unread: u64,
    held: u64,
    /// The numbers that the peer may know: ours, and its own.
    ours: u16,
    theirs: u16,
    sent: u64,
    /// Some packet of ours, for reports to quote.
    quoted: Header,
    ended: bool,
}

const CONTROLS: [&str; 8] = ["libutp", "libutp-mod", "ledbat", "ledbat_pp", "cubic", "newreno", "lowtide", "bbr1"];

impl<C: Chance> Life<C> {
    /// A connection that begins, with a configuration and a control by chance.
    pub fn new(mut random: C) -> Life<C> {
        let config = Config {
            path_mtu: (random.below(2) == 0).then_some(PathMtu::IPV4),
            repair: if random.below(2) == 0 { Repair::Once } else { Repair::ByTime },
            silence: (random.below(2) == 0).then(|| Span::from_millis(random.below(60_000))),
            receive_buffer: 1 << (11 + random.below(10)),
            ..Config::default()
        };
        let name = CONTROLS[random.below(CONTROLS.len() as u64) as usize];
        let start = Start { mss: 1382, ..Start::default() };
        let cc =
            registry::by_name(name).unwrap_or_else(|e| panic!("{e}")).build(&Params::default(), &start).unwrap_or_else(|e| panic!("{e}"));
        let (now, seq, theirs) = (Time::from_millis(random.below(1 << 33)), random.next() as u16, random.next() as u16);
        let connection = if random.below(2) == 0 {
            Connection::connect(config, cc, Open { id: random.next() as u16, seq }, now)
        } else {
            let header = Header { kind: Kind::Syn, seq: theirs, connection_id: random.next() as u16, ..Header::default() };
            Connection::accept(config, cc, &Packet { header, ..Packet::default() }, seq, now)
        };
        Life {
            connection,
            random,
            now,
            config,
            written: 0,
            unread: 0,
            held: 0,
            ours: seq,
            theirs,
            sent: 0,
            quoted: Header::default(),
            ended: false,
        }
    }

    fn datagram(&mut self) -> Vec<u8> {
        let r = &mut self.random;
        let near = |r: &mut C, at: u16| match r.below(8) {
            0 => r.next() as u16,
            1 => at.wrapping_sub(r.below(8) as u16),
            2..4 => at.wrapping_add(r.below(1100) as u16),
            _ => at.wrapping_add(r.below(3) as u16),
        };
        let kind = [Kind::Data, Kind::Data, Kind::Data, Kind::State, Kind::State, Kind::State, Kind::Fin, Kind::Syn][r.below(8) as usize];
        let reset = r.below(500) == 0;
        let header = Header {
            kind: if reset {
                Kind::Reset
            } else if kind == Kind::Fin && r.below(20) > 0 {
                Kind::State
            } else {
                kind
            },
            connection_id: self.connection.id(),
            timestamp: r.next() as u32,
            timestamp_difference: if r.below(3) == 0 { r.next() as u32 } else { r.below(400_000) as u32 },
            window: if r.below(4) == 0 { r.below(3000) as u32 } else { r.next() as u32 },
            seq: near(r, self.theirs.wrapping_add(1)),
            ack: near(r, self.ours),
        };
        let sack = (r.below(3) == 0).then(|| Sack::from_mask((r.next() & r.next()) as u32));
        let payload = if header.kind == Kind::Data { r.below(1500) as usize } else { 0 };
        let mut bytes = Vec::new();
        Packet { header, sack, payload: payload as u16, ..Packet::default() }.encode_head(&mut bytes);
        bytes.resize(bytes.len() + payload, 0);
        for _ in 0..if r.below(10) == 0 { r.below(6) } else { 0 } {
            let at = r.below(bytes.len().min(40) as u64) as usize;
            bytes[at] ^= 1 << r.below(8);
        }
        if r.below(50) == 0 {
            bytes.truncate(r.below(bytes.len() as u64) as usize);
        }
        bytes
    }

    /// Lives for so many steps at most; how many they were, how many packets left, and whether the connection was ever established.
    pub fn run(mut self, most: u64) -> (u64, u64, bool) {
        let (mut steps, mut connected) = (0, false);
        while steps < most && self.random.is_left() && !self.connection.is_forgettable(self.now) {
            self.step();
            steps += 1;
            connected |= self.connection.state() == State::Connected;
        }
        (steps, self.sent, connected)
    }

    /// One thing happens, then everything leaves that may.
    fn step(&mut self) {
        let jump = [1_000, 100_000, 3_000_000, 200_000_000, 3_000_000_000][(self.random.below(30) / 7) as usize];
        self.now += Span::from_nanos(self.random.below(jump));
        match self.random.below(40) {
            0..4 => {
                let bytes = self.random.below(200_000);
                if !self.connection.is_closing() && self.written - self.connection.kept_from() < 1 << 20 {
                    self.connection.write(bytes);
                    self.written += bytes;
                }
            }
            4..8 => {
                self.unread = self.random.below(self.unread + 1);
                self.connection.set_unread(self.unread as u32);
            }
            8 if self.random.below(30) == 0 => self.connection.shutdown(),
            9 if self.random.below(60) == 0 => self.connection.close(),
            10..14 => self.connection.on_timer(self.now),
            14 if self.random.below(4) == 0 => {
                let noise = self.random.below(3) == 0;
                let seq = if noise { self.random.next() as u16 } else { self.quoted.seq };
                let report = match self.random.below(8) {
                    0 => Report::Unreachable,
                    1 => Report::NoRoute,
                    _ => Report::TooLarge(self.random.below(1500) as u16),
                };
                self.connection.on_report(&Header { seq, ..self.quoted }, report, self.now);
            }
            _ => {
                let bytes = self.datagram();
                if let Ok((packet, payload)) = Packet::decode(&bytes) {
                    assert_eq!(usize::from(packet.payload), payload.len());
                    self.arrive(&packet);
                }
            }
        }
        self.leave();
    }

    fn arrive(&mut self, packet: &Packet) {
        let before = self.connection.received();
        let arrival = self.connection.on_packet(packet, self.now);
        let delivered = self.connection.received() - before;
        self.unread += delivered;
        match arrival.payload {
            Placement::InOrder => {
                self.theirs = packet.header.seq.wrapping_add(arrival.released);
                self.held -= delivered - u64::from(packet.payload);
            }
            Placement::Held => self.held += u64::from(packet.payload),
            Placement::Refused => assert_eq!(delivered, 0),
        }
        assert!(!self.ended || (!arrival.end && delivered == 0), "nothing comes behind the end");
        self.ended |= arrival.end;
        if self.ended {
            self.held = 0;
        }
        self.connection.set_unread(self.unread as u32);
        assert!(self.unread + self.held <= 2 * u64::from(self.config.receive_buffer), "kept: {} + {}", self.unread, self.held);
    }

    fn leave(&mut self) {
        let mut packets = 0;
        while let Some(transmit) = self.connection.poll(self.now) {
            packets += 1;
            self.sent += 1;
            assert!(packets <= 1100, "more than everything leaves at once");
            let Packet { header, payload, .. } = transmit.packet;
            if self.random.below(8) == 0 {
                self.quoted = header;
            }
            assert!(transmit.packet.bytes() <= 1402);
            if payload > 0 && !transmit.question {
                assert!(transmit.offset >= self.connection.kept_from(), "what was forgotten leaves again");
                assert!(transmit.offset + u64::from(payload) <= self.written, "what was never written leaves");
            }
            if header.kind.is_numbered() && self.random.below(4) > 0 {
                self.ours = header.seq;
            }
        }
        assert!(self.connection.in_flight() <= self.config.send_buffer);
        assert!(self.connection.delivered() <= self.written);
        assert!(self.connection.deadline().is_none_or(|at| at <= self.now + self.config.tick));
    }
}
