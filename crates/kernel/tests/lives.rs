//! The controls of bpf/control.h against their references in `cc`, event by event, in ten thousand random lives each; `lowtide`, bit for bit, is
//! in lowtide.rs.

mod shared {
    pub mod cause;
    pub mod phase;
}

use lowtide_cc::scavenger::ledbat_pp::{Config, LedbatPp};
use lowtide_cc::{Ack, Cause, Congestion, Controller, Params, Restart, Span, Start, Time, registry};
use lowtide_kernel::native::{self, CONTROLS, Control, UNKNOWN};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use shared::{cause, phase};

const MS: u64 = 1_000_000;

/// The same flow twice: the reference and the kernel's code.
struct Pair {
    reference: Box<dyn Controller>,
    kernel: Control,
    mss: u64,
    delivered: u64,
}

impl Pair {
    /// As the control's source says, but of LEDBAT++ each profile and target.
    fn new(name: &str, rng: &mut SmallRng) -> Pair {
        let mss = rng.random_range(500..9000);
        let start = Start { mss, ..Start::default() };
        let mut native = native::Start { mss, ..native::Start::default() };
        let reference = if name == "ledbat_pp" {
            let (enhanced, burst) = (rng.random(), rng.random_range(0..4));
            let target_ms: u32 = if rng.random() { 60 } else { rng.random_range(5..60) };
            native = native::Start { target: u64::from(target_ms) * MS, burst, enhanced, ..native };
            let config = Config { enhanced, target_ms: f64::from(target_ms), burst_segments: f64::from(burst), ..Config::default() };
            Box::new(LedbatPp::new(config, &start))
        } else {
            let reference = registry::by_name(name).expect("it has a reference");
            reference.build(&Params::default(), &start).expect("it builds")
        };
        let (number, _) = CONTROLS.iter().find(|(_, n)| *n == name).expect("control.h has it");
        Pair { reference, kernel: Control::new(*number, &native), mss: u64::from(mss), delivered: 0 }
    }

    fn ack(&mut self, ack: &Ack) {
        self.reference.on_ack(ack);
        self.kernel.on_ack(&native::Ack {
            now: ack.now.nanos(),
            acked: ack.acked,
            in_flight: ack.in_flight,
            rtt: ack.rtt.map_or(UNKNOWN, Span::nanos),
            owd: ack.owd.unwrap_or(0) as u64,
            srtt: ack.srtt.nanos(),
            way_back: ack.way_back.nanos(),
            waited: ack.waited.nanos(),
            segment: ack.segment_time.nanos(),
            delivered: ack.delivered,
            prior_delivered: ack.prior_delivered,
            limited: ack.cwnd_limited,
            in_recovery: ack.in_recovery,
            ..native::Ack::default()
        });
    }

    fn congestion(&mut self, now: u64, cause: Cause, in_flight: u64, srtt: u64) {
        let event = Congestion { now: Time::from_nanos(now), cause, lost: self.mss, in_flight, srtt: Span::from_nanos(srtt) };
        self.reference.on_congestion(&event);
        self.kernel.on_congestion(&native::Congestion { now, in_flight, lost: self.mss, srtt, cause: cause::native(cause) });
    }

    fn restart(&mut self, now: u64, idle: u64, rto: u64) {
        self.reference.on_restart(&Restart { now: Time::from_nanos(now), idle: Span::from_nanos(idle), rto: Span::from_nanos(rto) });
        self.kernel.on_restart(&native::Restart { now, idle, rto });
    }

    fn undo(&mut self, now: u64) {
        self.reference.on_undo(Time::from_nanos(now));
        self.kernel.on_undo(now);
    }

    fn mss(&mut self, mss: u32) {
        self.mss = u64::from(mss);
        self.reference.on_mss(mss);
        self.kernel.on_mss(mss);
    }

    /// In segments.
    fn difference(&self) -> f64 {
        (self.kernel.show().window() - self.reference.cwnd() as f64).abs() / self.mss as f64
    }

    /// TCP-LP's reference says that it learns, and that it infers from its first reaction on; there the thresholds are compared.
    fn in_different_phases(&self) -> bool {
        let (reference, kernel) = (self.reference.snapshot(), self.kernel.show());
        let below = |window: f64, threshold: Option<f64>| threshold.is_none_or(|t| window + 1.0 < t);
        match reference.phase {
            "learning" | "inference" => {
                below(reference.cwnd as f64, reference.ssthresh.map(|t| t as f64)) != below(kernel.window(), kernel.threshold())
            }
            name => phase::name(kernel.phase()) != name,
        }
    }
}

/// What happened in a life besides acknowledgements, and what it came to.
#[derive(Default)]
struct Story {
    worst: f64,
    /// In different phases after so many events.
    apart: u32,
    shrunk_by_delay: u32,
    least_segments: f64,
}

/// A path with a queue that wanders, losses, timeouts, pauses, other segment sizes, an application that may limit.
fn random_life(name: &str, seed: u64) -> Story {
    let mut rng = SmallRng::seed_from_u64(seed);
    let mut pair = Pair::new(name, &mut rng);
    let mut behind = SmallRng::seed_from_u64(!seed);
    let behind = if name == "ledbat_pp" { behind.random_range(0..2) * behind.random_range(0..500 * MS) } else { 0 };
    let segment = rng.random_range(0..2) * rng.random_range(1000..20 * MS);
    let (base, offset) = (rng.random_range(MS / 5..300 * MS), rng.random_range(0..10_000 * MS));
    let (mut now, mut srtt, mut queue, mut recovery) = (1_000 * MS, 0u64, 0u64, 0u32);
    let mut story = Story { least_segments: f64::MAX, ..Story::default() };
    for _ in 0..rng.random_range(50..500) {
        let mss = pair.mss;
        let window = pair.reference.cwnd();
        now += rng.random_range(1..base / 4);
        queue = match rng.random_range(0..40) {
            0 => 0,
            1 => rng.random_range(0..300 * MS),
            _ => (queue + rng.random_range(0..6 * MS)).saturating_sub(rng.random_range(0..6 * MS)),
        };
        let rtt = base + queue;
        // What the host has left out of the samples is in its smoothed RTT.
        let whole = rtt + behind;
        srtt = if srtt == 0 { whole } else { srtt - srtt / 8 + whole / 8 };
        // Ragged: a window that meets ssthresh to the bit is a tie, which floating and fixed point break an ACK apart.
        let acked = rng.random_range(mss / 2..8 * mss);
        let in_flight = match rng.random_range(0..6) {
            0 => rng.random_range(0..2 * mss + 1),
            _ => window,
        };
        pair.delivered += acked;
        let prior = pair.delivered - rng.random_range(0..window.min(pair.delivered) + 1);
        let sampled = rng.random_range(0..20) > 0;
        pair.ack(&Ack {
            now: Time::from_nanos(now),
            acked,
            in_flight,
            rtt: sampled.then(|| Span::from_nanos(rtt)),
            owd: sampled.then_some((offset + base / 2 + queue) as i64),
            srtt: Span::from_nanos(srtt),
            way_back: Span::from_nanos(behind),
            segment_time: Span::from_nanos(segment),
            delivered: pair.delivered,
            prior_delivered: prior,
            cwnd_limited: rng.random_range(0..5) > 0,
            in_recovery: recovery > 0,
            ..Ack::default()
        });
        story.shrunk_by_delay += u32::from(pair.reference.cwnd() < window);
        recovery = recovery.saturating_sub(1);
        match rng.random_range(0..150) {
            0 => {
                pair.congestion(now, Cause::Loss, window, srtt);
                recovery = rng.random_range(0..10);
            }
            1 => pair.congestion(now, Cause::Ecn, window, srtt),
            2 => pair.congestion(now, Cause::Timeout, window, srtt),
            3 => {
                let idle = rng.random_range(0..2_000 * MS);
                now += idle;
                pair.restart(now, idle, 2 * srtt);
            }
            4 => pair.undo(now),
            5 if rng.random_range(0..4) == 0 => pair.mss(rng.random_range(500..9000)),
            _ => {}
        }
        story.worst = story.worst.max(pair.difference());
        story.apart += u32::from(pair.in_different_phases());
        story.least_segments = story.least_segments.min(pair.reference.cwnd() as f64 / pair.mss as f64);
    }
    story
}

/// The lives of a control, which are at most so many segments apart, and what all of them came to.
fn lives(name: &str, most: f64) -> Story {
    let mut all = Story { least_segments: f64::MAX, ..Story::default() };
    for seed in 0..10_000 {
        let one = random_life(name, seed);
        assert!(one.worst <= most, "{name}, seed {seed}: {} segments apart", one.worst);
        assert!(one.apart <= 2, "{name}, seed {seed}: in different phases {} times: more than a tie explains", one.apart);
        all.worst = all.worst.max(one.worst);
        all.shrunk_by_delay += one.shrunk_by_delay;
        all.least_segments = all.least_segments.min(one.least_segments);
    }
    assert!(all.shrunk_by_delay > 10_000, "{name}: {} times: that must be among what is compared", all.shrunk_by_delay);
    all
}

#[test]
fn ledbat_pp_does_what_its_reference_does_within_a_segment_in_ten_thousand_lives() {
    lives("ledbat_pp", 1.0);
}

#[test]
fn ledbat_does_what_its_reference_does_in_ten_thousand_lives() {
    lives("ledbat", 0.01);
}

#[test]
fn tcp_lp_does_what_its_reference_does_in_ten_thousand_lives() {
    lives("tcp_lp", 0.01);
}

#[test]
fn tcp_nice_does_what_its_reference_does_in_ten_thousand_lives() {
    let least = lives("tcp_nice", 0.01).least_segments;
    assert!(least < 0.1, "{least}: windows below a segment must be among what is compared");
}
