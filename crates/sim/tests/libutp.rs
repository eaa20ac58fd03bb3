//! The control `libutp` beside libutp itself, event by event: each packet's delay, what it acknowledged, each repair and timeout, and the window after it.
//! `tests/libutp/*.csv` are transfers of libutp's own program, recorded by `scripts/record-libutp`; their first lines are the command, the source's
//! address and its hash.

use std::fs;

use lowtide_cc::events::{Ack, Cause, Congestion};
use lowtide_cc::params::Params;
use lowtide_cc::scavenger::libutp;
use lowtide_cc::{Controller, Start};
use lowtide_units::{Span, Time};

/// A row. What libutp's log does not say of an event is none.
struct Event {
    kind: String,
    now: Time,
    delay_us: Option<i64>,
    /// The base of the delays in the other direction.
    their_base_us: i64,
    acked: Option<u64>,
    /// The least RTT of what was acknowledged.
    min_rtt: Option<Span>,
    /// When the window last refused a send.
    full: Time,
    packet: u32,
    our_delay_ms: Option<u64>,
    window: Option<u64>,
}

fn record(name: &str) -> Vec<Event> {
    let path = format!("tests/libutp/{name}.csv");
    let text = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"));
    let rows = text.lines().filter(|line| !line.starts_with('#')).skip(1);
    rows.map(|line| {
        let cells: Vec<&str> = line.split(',').collect();
        let cell = |at: usize| (!cells[at].is_empty()).then(|| cells[at].parse::<u64>().unwrap_or_else(|e| panic!("{path}: {line}: {e}")));
        let ms = |at| Time::from_millis(cell(at).expect("a time"));
        Event {
            kind: cells[0].to_owned(),
            now: ms(1),
            delay_us: cell(2).map(|us| us as i64),
            their_base_us: cell(3).expect("a base") as i64,
            acked: cell(4),
            min_rtt: cell(5).map(Span::from_micros),
            full: ms(6),
            packet: cell(7).expect("a packet") as u32,
            our_delay_ms: cell(8),
            window: cell(10),
        }
    })
    .collect()
}

/// What libutp does to the base when the other direction's falls (`utp_process_incoming`): raising it is lowering the samples. Its host does so here
/// (`lowtide-utp`), hence this test.
#[derive(Default)]
struct Skew {
    base_us: Option<i64>,
    sum_us: i64,
}

impl Skew {
    fn follow(&mut self, base_us: i64) -> i64 {
        let fallen = self.base_us.map_or(0, |before| before - base_us);
        if (1..=10_000).contains(&fallen) {
            self.sum_us += fallen;
        }
        self.base_us = Some(base_us);
        self.sum_us
    }
}

fn tell(control: &mut dyn Controller, event: &Event, skew_us: i64) {
    let cause = match event.kind.as_str() {
        "a" => {
            control.on_ack(&Ack {
                now: event.now,
                acked: event.acked.expect("acknowledged bytes"),
                owd: event.delay_us.map(|us| (us - skew_us) * 1000),
                rtt: event.min_rtt,
                limited_at: Some(event.full),
                ..Ack::default()
            });
            return;
        }
        "l" => Cause::Loss,
        "t" => Cause::Timeout,
        other => panic!("an event {other}"),
    };
    control.on_congestion(&Congestion { now: event.now, cause, lost: u64::from(event.packet), in_flight: 1, srtt: Span::ZERO });
}

/// Window and queueing delay after every event. Delays and windows are whole numbers in both, so they are equal, not near.
fn replay(name: &str) -> (usize, usize, usize) {
    let events = record(name);
    let packet = events[0].packet;
    let start = Start { mss: packet, now: events[0].now, ..Start::default() };
    let mut control = libutp::build(&Params::default(), &start).expect("libutp");
    let (mut skew, mut seen) = (Skew::default(), (0, 0, 0));
    for (n, event) in events.iter().enumerate() {
        control.on_mss(event.packet);
        tell(&mut *control, event, skew.follow(event.their_base_us));
        let at = format!("{name}, event {n} at {:?}", event.now);
        if let Some(window) = event.window {
            assert_eq!(control.cwnd(), window, "{at}: window");
        }
        if let Some(delay) = event.our_delay_ms {
            // What libutp's log calls so is bounded by the RTT (`apply_ccontrol`).
            let ours = control.snapshot().queueing_delay.min(event.min_rtt).map(|span| span.nanos() / 1_000_000);
            assert_eq!(ours, Some(delay), "{at}: queueing delay in ms");
        }
        match event.kind.as_str() {
            "a" => seen.0 += 1,
            "l" => seen.1 += 1,
            _ => seen.2 += 1,
        }
    }
    seen
}

#[test]
fn alone_at_its_target_the_window_is_libutps_after_every_acknowledgement() {
    let (acks, _, _) = replay("deep");
    assert!(acks > 2000, "{acks}");
}

#[test]
fn over_a_short_queue_the_window_is_libutps_after_every_acknowledgement_and_repair() {
    let (acks, repairs, _) = replay("shallow");
    assert!(acks > 1000 && repairs > 20, "{acks} {repairs}");
}

#[test]
fn with_random_loss_and_a_dead_line_the_window_is_libutps_after_every_timeout_too() {
    let (acks, repairs, timeouts) = replay("rough");
    assert!(acks > 1000 && repairs > 10 && timeouts > 1, "{acks} {repairs} {timeouts}");
}
