//! bpf/lowtide.h against its reference in `cc`, bit for bit: window, pace, step of the edge, state and delays after each event of ten thousand
//! random lives on a line that others use, too; in the form for a sender and in that of a receive window.

mod shared {
    pub mod cause;
}

use lowtide_cc::{Ack, Cause, Congestion, Controller, Params, RateSample, Restart, Span, Start, Time, registry};
use lowtide_kernel::Phase;
use lowtide_kernel::native::{self, CONTROLS, Control, UNKNOWN};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use shared::cause;

const MS: u64 = 1_000_000;

/// The same flow twice, and the line it is on: what is sent stands in a queue, of others as well.
struct Life {
    rng: SmallRng,
    receiver: bool,
    reference: Box<dyn Controller>,
    kernel: Control,
    mss: u64,
    now: u64,
    base: u64,
    /// Bytes a second of the line, and how many of them others take.
    line: u64,
    others: u64,
    /// Bytes of others in the queue.
    rival: u64,
    /// Other stations that take turns of 4 ms on the channel; everywhere, or where only the floor meets them.
    stations: u64,
    rare: bool,
    /// A radio's rate changes from segment to segment, and nothing is lost.
    radio: bool,
    /// The application, or the peer's window, is the limit.
    unused: bool,
    delivered: u64,
    srtt: u64,
    /// Of that a queue of others' on the way back.
    behind: u64,
    states: [u64; 5],
}

impl Life {
    fn new(seed: u64, receiver: bool) -> Life {
        let mut rng = SmallRng::seed_from_u64(seed);
        let (mss, now, drawn) = (rng.random_range(500..9000u32), rng.random_range(0..u64::MAX / 1_000_000), rng.random());
        let start = Start { mss, now: Time::from_nanos(now), seed: drawn, ..Start::default() };
        let params = Params::from_toml(&format!("receiver = {receiver}")).expect("it is TOML");
        let reference = registry::by_name("lowtide").expect("it has one").build(&params, &start).expect("it builds");
        let (number, _) = CONTROLS.iter().find(|(_, name)| *name == "lowtide").expect("control.h has it");
        let kernel = Control::new(*number, &native::Start { mss, now, seed: drawn, receiver, ..native::Start::default() });
        let line = 1 << rng.random_range(14..28u32);
        let base = rng.random_range(MS / 2..300 * MS);
        let mss = u64::from(mss);
        let stations = if rng.random_range(0..3) == 0 { rng.random_range(1..5) } else { 0 };
        let rare = rng.random_range(0..2) == 0;
        let radio = rng.random_range(0..4) == 0;
        let (others, rival, delivered, srtt, behind, states) = (0, 0, 0, 0, 0, [0; 5]);
        Life {
            rng,
            receiver,
            reference,
            kernel,
            mss,
            now,
            base,
            line,
            others,
            rival,
            stations,
            rare,
            radio,
            unused: false,
            delivered,
            srtt,
            behind,
            states,
        }
    }

    /// The wait for the channel: as likely as another each station is next.
    fn turns(&mut self) -> u64 {
        if self.rare && self.reference.snapshot().phase != "floor" {
            return 0;
        }
        let mut turns = 0;
        while turns < 5 && self.stations > 0 && self.rng.random_range(0..=self.stations) > 0 {
            turns += 1;
        }
        turns * 4 * MS
    }

    /// An acknowledgement of what the line carried since the last one.
    fn ack(&mut self) {
        let window = self.reference.cwnd();
        let flight = window.max(self.mss);
        let bandwidth = self.line - self.others;
        let held = bandwidth * (self.base / 1000) / 1_000_000;
        let queued = flight.saturating_sub(held) + self.rival;
        let rtt = self.base + self.turns() + queued.saturating_mul(1_000_000_000) / self.line + self.rng.random_range(0..MS / 5);
        let acked = self.mss * if self.rng.random_range(0..4) == 0 { 1 } else { 2 };
        let rate = bandwidth.min(flight.saturating_mul(1_000_000_000) / rtt).max(100);
        let rate = if self.radio { (rate << self.rng.random_range(0..8u32)) / 4 } else { rate }.max(100);
        let pause = if self.rng.random_range(0..200) == 0 { self.rng.random_range(0..60 * MS) } else { 0 };
        self.now += (acked * 1_000_000_000 / rate).clamp(1000, 8_000 * MS) + pause;
        self.delivered += acked;
        self.srtt = if self.srtt == 0 { rtt } else { self.srtt - self.srtt / 8 + rtt / 8 };
        let sampled = self.rng.random_range(0..20) > 0;
        let rate = (sampled && !self.receiver).then(|| RateSample {
            delivered: rate * (rtt / 1000) / 1_000_000,
            interval: Span::from_nanos(rtt),
            ..RateSample::default()
        });
        // A receiver counts rounds by the time at which it permitted what arrives.
        let (delivered, prior_delivered) =
            if self.receiver { (self.now, self.now.saturating_sub(rtt)) } else { (self.delivered, self.delivered.saturating_sub(flight)) };
        let waited = if self.behind > 0 && !self.receiver { self.rng.random_range(0..self.behind) } else { 0 };
        self.unused ^= self.rng.random_range(0..300) == 0;
        let ack = Ack {
            now: Time::from_nanos(self.now),
            acked,
            lost: if !self.radio && self.rng.random_range(0..300) == 0 { self.mss } else { 0 },
            ce: if !self.radio && self.rng.random_range(0..2000) == 0 { acked } else { 0 },
            in_flight: flight,
            rtt: sampled.then(|| Span::from_nanos(rtt)),
            srtt: Span::from_nanos(self.srtt),
            way_back: Span::from_nanos(self.behind),
            waited: Span::from_nanos(waited),
            delivered,
            prior_delivered,
            rate,
            cwnd_limited: !self.unused && self.rng.random_range(0..30) > 0,
            drained: self.rng.random_range(0..10) > 0,
            ..Ack::default()
        };
        self.reference.on_ack(&ack);
        self.kernel.on_ack(&native::Ack {
            now: self.now,
            acked,
            lost: ack.lost,
            ce: ack.ce,
            in_flight: flight,
            rtt: ack.rtt.map_or(UNKNOWN, Span::nanos),
            srtt: self.srtt,
            way_back: self.behind,
            waited,
            delivered: ack.delivered,
            prior_delivered: ack.prior_delivered,
            rate_delivered: ack.rate.map_or(0, |r| r.delivered),
            rate_interval: ack.rate.map_or(0, |r| r.interval.nanos()),
            limited: ack.cwnd_limited,
            drained: ack.drained,
            ..native::Ack::default()
        });
    }

    /// What else may happen.
    fn event(&mut self) {
        match self.rng.random_range(0..1000) {
            0..4 => {
                (self.others, self.rival) = (self.line / 10 * self.rng.random_range(0..9), self.line / 1000 * self.rng.random_range(0..200))
            }
            4..12 => (self.others, self.rival) = (0, 0),
            12 => self.line = 1 << self.rng.random_range(14..28u32),
            13 => self.base = self.rng.random_range(MS / 2..300 * MS),
            18 => self.behind = self.rng.random_range(0..600 * MS),
            19 | 20 => self.behind = 0,
            14 => {
                let mss = self.rng.random_range(500..9000);
                self.mss = u64::from(mss);
                self.reference.on_mss(mss);
                self.kernel.on_mss(mss);
            }
            15 | 16 => {
                let cause = [Cause::Timeout, Cause::Loss][self.rng.random_range(0..2)];
                let (now, srtt) = (self.now, self.srtt);
                let event = Congestion { now: Time::from_nanos(now), cause, lost: self.mss, in_flight: 0, srtt: Span::from_nanos(srtt) };
                self.reference.on_congestion(&event);
                self.kernel.on_congestion(&native::Congestion { now, in_flight: 0, lost: self.mss, srtt, cause: cause::native(cause) });
            }
            17 if self.receiver => {
                let (now, rto) = (self.now, 2 * self.srtt);
                let (idle, ns) = (2 * rto, Span::from_nanos);
                self.reference.on_restart(&Restart { now: Time::from_nanos(now), idle: ns(idle), rto: ns(rto) });
                self.kernel.on_restart(&native::Restart { now, idle, rto });
            }
            _ => {}
        }
        self.others = self.others.min(self.line / 10 * 9);
    }

    fn compare(&mut self, what: &str) {
        let (wanted, shown) = (self.reference.snapshot(), self.kernel.show());
        let (name, at) = match shown.phase() {
            Phase::SlowStart => ("start", 0),
            Phase::Alone => ("law", 1),
            Phase::Drain => ("drain", 2),
            Phase::Yielding => ("floor", 3),
            Phase::Probing => ("probe", 4),
            other => panic!("{other:?} is none of its states"),
        };
        self.states[at] += 1;
        assert_eq!((name, shown.cwnd), (wanted.phase, self.reference.cwnd() << 16), "{what}");
        assert_eq!(shown.pacing_rate, self.reference.pacing_rate().map_or(0, |rate| rate.bps() / 8), "{what}");
        assert_eq!(shown.edge_step, self.reference.edge_step().unwrap_or(0), "{what}");
        let delay = |ns| (ns != UNKNOWN).then(|| Span::from_nanos(ns));
        assert_eq!((delay(shown.base), delay(shown.queueing)), (wanted.base_delay, wanted.queueing_delay), "{what}");
    }
}

/// How often each state was compared.
fn live(lives: u64, receiver: bool) -> [u64; 5] {
    let mut states = [0; 5];
    for seed in 0..lives {
        let mut life = Life::new(seed, receiver);
        let events = life.rng.random_range(100..1000);
        for n in 0..events {
            life.ack();
            life.event();
            life.compare(&format!("seed {seed}, event {n}"));
        }
        states.iter_mut().zip(life.states).for_each(|(all, one)| *all += one);
    }
    states
}

#[test]
fn a_sender_does_what_its_reference_does_bit_for_bit_in_ten_thousand_lives() {
    let states = live(10_000, false);
    assert!(states.iter().all(|&n| n > 20_000), "{states:?}: every state must be among what is compared");
}

#[test]
fn a_receiver_does_what_its_reference_does_bit_for_bit_in_ten_thousand_lives() {
    let states = live(10_000, true);
    assert!(states.iter().all(|&n| n > 20_000), "{states:?}: every state must be among what is compared");
}
