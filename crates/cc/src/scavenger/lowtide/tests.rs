//! The states and what moves it from one to the next, on a path whose RTT the test says.

use super::*;
use lowtide_units::Time;

const MSS: u64 = 1448;
/// RTT 50 ms, in µs.
const BASE: u64 = 50_000;

struct Path {
    cc: Lowtide,
    now: u64,
    delivered: u64,
}

impl Path {
    fn new() -> Path {
        Path { cc: Lowtide::new(&Start::default(), Parts::ALL), now: 1_000, delivered: 0 }
    }

    /// A window in acknowledgements of two segments, spread over a round trip of `BASE + queue`.
    fn round(&mut self, queue: u64, change: impl Fn(&mut Ack)) {
        let sent = self.cc.cwnd().max(2 * MSS);
        let acks = sent.div_ceil(2 * MSS);
        let rtt = BASE + queue;
        let before = self.delivered;
        for n in 1..=acks {
            self.now += rtt / acks;
            self.delivered += 2 * MSS;
            let mut ack = Ack {
                now: Time::from_nanos(self.now * 1000),
                acked: 2 * MSS,
                in_flight: sent,
                rtt: Some(Span::from_micros(rtt)),
                srtt: Span::from_micros(rtt),
                delivered: self.delivered,
                prior_delivered: if n == 1 { before } else { self.delivered.saturating_sub(acks * 2 * MSS) },
                cwnd_limited: true,
                ..Ack::default()
            };
            change(&mut ack);
            self.cc.on_ack(&ack);
        }
    }

    fn rounds(&mut self, count: u32, queue: u64) {
        for _ in 0..count {
            self.round(queue, |_| ());
        }
    }

    /// In LAW, long enough after START that a queue is an alarm.
    fn settled() -> Path {
        Path::settled_after(5)
    }

    /// The same after so many round trips of doubling; each halves a packet's time on the line.
    fn settled_after(doublings: u32) -> Path {
        let mut path = Path::new();
        path.rounds(doublings, 0);
        path.rounds(20, 2_400);
        assert_eq!(path.cc.state, State::Law);
        path
    }
}

#[test]
fn it_doubles_until_a_queue_appears_and_then_keeps_what_the_line_carries() {
    let mut path = Path::new();
    path.round(0, |_| ());
    let window = path.cc.window;
    path.rounds(4, 0);
    assert_eq!((path.cc.state, path.cc.window), (State::Start, window * 16));
    path.rounds(1, 3_000);
    assert_eq!(path.cc.state, State::Law);
    assert!(path.cc.window < window * 32, "{}", path.cc.window);
}

#[test]
fn a_queue_above_the_alarm_sends_it_to_the_floor() {
    let mut path = Path::settled();
    path.rounds(3, path.cc.signals.alarm - 500);
    assert_eq!(path.cc.state, State::Law);
    // The round that was running has seen less.
    path.rounds(2, path.cc.signals.alarm + 500);
    assert_eq!(path.cc.state, State::Floor);
    assert!(path.cc.cwnd() < MSS && path.cc.pacing_rate().is_none());
}

#[test]
fn a_mark_sends_it_to_the_floor_whatever_the_queue() {
    let mut path = Path::settled();
    path.round(1_000, |ack| ack.ce = ack.acked);
    path.rounds(1, 1_000);
    assert_eq!(path.cc.state, State::Floor);
}

#[test]
fn a_loss_yields_only_where_the_queue_is_more_than_ours() {
    let lossy = |queue| {
        let mut path = Path::settled();
        let window = path.cc.window;
        let lose = |ack: &mut Ack| ack.lost = if ack.prior_delivered % (40 * MSS) < 2 * MSS { MSS } else { 0 };
        path.round(queue, lose);
        path.round(queue, lose);
        (path.cc.state, path.cc.window >= window * 9 / 10)
    };
    assert_eq!(lossy(2_400), (State::Law, true));
    assert_eq!(lossy(4_500).0, State::Floor);
}

#[test]
fn three_free_pairs_after_the_first_bring_a_probe_and_it_the_law() {
    let mut path = Path::settled();
    path.rounds(1, 9_000);
    assert_eq!(path.cc.state, State::Floor);
    let mut samples = 0;
    while path.cc.state == State::Floor {
        path.rounds(1, 0);
        samples += 1;
        assert!(samples < 50);
    }
    assert!(samples >= 3, "{samples}");
    assert_eq!(path.cc.state, State::Probe);
    path.rounds(12, 0);
    assert_eq!(path.cc.state, State::Law);
}

/// Somebody behind a fair queue, or one who leaves gaps: no queue stands, but every other pair waits for a packet in service.
#[test]
fn an_uneven_floor_without_a_queue_is_not_left_for_long() {
    let mut path = Path::settled();
    path.rounds(1, 9_000);
    let ser = path.cc.signals.serialisation;
    let uneven = |path: &mut Path| {
        path.rounds(1, 0);
        path.rounds(1, ser);
        path.cc.state
    };
    let began = path.now;
    while uneven(&mut path) == State::Floor {
        assert!(path.now < began + 60_000_000);
    }
    assert!(path.now > began + 19_900_000, "{}", path.now - began);
}

/// Answers a train of the floor's whose segments come back after `delay(ms)` in µs, ten acknowledgements a round trip of 50 ms.
fn echo(path: &mut Path, delay: impl Fn(u64) -> u64) {
    let until = path.now + 1_000_000;
    while path.cc.state == State::Probe && path.now < until {
        let rtt = BASE + delay(path.now / 1000);
        path.now += 5_000;
        path.delivered += 2 * MSS;
        let ack = Ack {
            now: Time::from_nanos(path.now * 1000),
            acked: 2 * MSS,
            in_flight: 20 * MSS,
            rtt: Some(Span::from_micros(rtt)),
            srtt: Span::from_micros(BASE),
            delivered: path.delivered,
            prior_delivered: path.delivered.saturating_sub(20 * MSS),
            cwnd_limited: true,
            ..Ack::default()
        };
        path.cc.on_ack(&ack);
        if path.cc.window > 30 * MSS {
            return;
        }
    }
}

/// At the floor until it is left, by pairs that are delayed so, in turn, for at most so many seconds. It was entered at a low rate, so that no
/// delay is a slower line's.
fn wait_at_floor(path: &mut Path, seconds: u64, delays: &[u64]) -> u64 {
    path.cc.floor.left_at = 300_000;
    let (began, mut n) = (path.now, 0);
    while path.cc.state == State::Floor && path.now < began + seconds * 1_000_000 {
        path.rounds(1, delays[n % delays.len()]);
        n += 1;
    }
    path.now - began
}

/// A station whose pairs wait for one, two or three turns of another, or not at all: that is no queue, and a train shows it.
#[test]
fn a_floor_whose_pairs_come_and_go_is_listened_to_and_left_where_the_line_sends_in_bunches() {
    let mut path = Path::settled();
    path.rounds(1, 9_000);
    let waited = wait_at_floor(&mut path, 60, &[0, 8_000, 4_000, 0, 12_000, 0, 4_000]);
    assert!(waited < 4_000_000, "{waited}");
    assert!(path.cc.window <= 30 * MSS, "a train disturbs nobody: {}", path.cc.window / MSS);
    echo(&mut path, |ms| 12_000 - ms % 12 * 1_000);
    assert_eq!(path.cc.state, State::Probe);
    assert!(path.cc.window > 30 * MSS, "{}", path.cc.window / MSS);
}

#[test]
fn a_train_that_meets_no_bunches_is_a_relapse_and_the_next_waits_twice_as_long_each_time() {
    let mut path = Path::settled();
    path.rounds(1, 9_000);
    let delays = [0, 8_000, 4_000, 0, 12_000, 0, 4_000];
    wait_at_floor(&mut path, 60, &delays);
    echo(&mut path, |ms| ms % 300 * 20);
    assert_eq!(path.cc.state, State::Floor);
    let again = wait_at_floor(&mut path, 60, &delays);
    assert!((3_700_000..5_000_000).contains(&again), "{again}");
    echo(&mut path, |ms| ms % 300 * 20);
    let third = wait_at_floor(&mut path, 60, &delays);
    assert!((7_700_000..9_000_000).contains(&third), "{third}");
}

/// CUBIC's queue in a small buffer is empty for seconds, and stands for seconds.
#[test]
fn a_queue_that_stands_and_falls_slowly_is_not_listened_to() {
    let mut path = Path::settled();
    path.rounds(1, 9_000);
    let mut delays = [0; 12];
    delays[4..].fill(12_000);
    let waited = wait_at_floor(&mut path, 60, &delays);
    assert!(waited >= 60_000_000 && path.cc.state == State::Floor, "{waited}");
}

/// Hosts hold packets back by a tenth of a millisecond here and there: that is nobody on the line.
#[test]
fn a_floor_as_uneven_as_hosts_are_is_left_at_once() {
    let mut path = Path::settled_after(6);
    path.rounds(1, 9_000);
    let mut n = 0;
    while path.cc.state == State::Floor {
        path.rounds(1, [0, 180][n % 2]);
        n += 1;
        assert!(n < 10);
    }
    assert_eq!(path.cc.state, State::Probe);
}

/// A line of half the rate delays each pair by two packets' times, alike.
#[test]
fn pairs_that_are_all_delayed_alike_have_met_nobody() {
    let mut path = Path::settled();
    path.rounds(1, 9_000);
    path.cc.floor.left_at = path.cc.signals.line_rate() / 2;
    // More than one of ours would keep.
    let later = path.cc.signals.alarm + 1_000;
    let mut n = 0;
    while path.cc.state == State::Floor {
        path.rounds(1, later + [0, 60, 90][n % 3]);
        n += 1;
        assert!(n < 30);
    }
    assert_eq!(path.cc.state, State::Probe);
}

/// Bursts of somebody else's, once a round trip, are silences between our acknowledgements, too: not every one may be taken for a pause.
#[test]
fn a_queue_between_silences_is_seen() {
    let mut path = Path::settled();
    path.rounds(1, 2_400);
    for _ in 0..20 {
        path.now += 40_000;
        path.round(30_000, |_| ());
    }
    assert_eq!(path.cc.state, State::Floor);
}

/// From one segment it doubles as after a visit to the floor, up to what the line carries.
#[test]
fn after_a_timeout_it_begins_anew_from_one_segment() {
    let timeout = Congestion { now: Time::ZERO, cause: Cause::Timeout, lost: MSS, in_flight: 10 * MSS, srtt: Span::from_micros(BASE) };
    let mut path = Path::settled();
    let before = path.cc.window;
    path.cc.on_congestion(&timeout);
    assert_eq!((path.cc.state, path.cc.cwnd()), (State::Probe, MSS));
    path.rounds(16, 0);
    assert_eq!(path.cc.state, State::Law);
    assert!(path.cc.window > before / 4 * 3, "{} of {before}", path.cc.window);

    let mut path = Path::new();
    path.rounds(3, 0);
    path.cc.on_congestion(&timeout);
    assert_eq!((path.cc.state, path.cc.cwnd()), (State::Start, MSS));

    let mut path = Path::settled();
    path.rounds(3, 9_000);
    let floor = path.cc.cwnd();
    path.cc.on_congestion(&timeout);
    assert_eq!((path.cc.state, path.cc.cwnd()), (State::Floor, floor));
}

#[test]
fn a_busy_floor_is_not_left() {
    let mut path = Path::settled();
    path.rounds(1, 9_000);
    path.rounds(200, 9_000);
    assert_eq!(path.cc.state, State::Floor);
}

#[test]
fn the_own_queue_grows_with_the_square_root_of_the_rate() {
    let packets = |packets_a_second: u64| {
        let cc = Lowtide::new(&Start::default(), Parts::ALL);
        cc.signals.share_of_queue(packets_a_second * MSS) as f64 / MSS as f64
    };
    for (rate, expected) in [(100, 3.0), (1_667, 4.0), (4 * 1_667, 8.0), (100 * 1_667, 40.0)] {
        assert!((packets(rate) - expected).abs() < 0.01 * expected, "{rate}: {}", packets(rate));
    }
}

#[test]
fn there_is_nothing_to_set() {
    let params = Params::from_toml("target_ms = 5").expect("valid TOML");
    assert!(build(&params, &Start::default()).expect_err("unknown").to_string().contains("target_ms"));
    let params = Params::from_toml("without = [\"drain\", \"tide\"]").expect("valid TOML");
    assert!(build(&params, &Start::default()).expect_err("unknown").to_string().contains("even-floor"));
}
