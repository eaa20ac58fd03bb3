//! Both ends over a path that delays by 40 ms there and back and drops what a test says, step by step from `tcp.cc`, `tcp-reno.cc` and
//! `tcp-linux.cc`.

use lowtide_cc::{Params, Start};
use lowtide_units::{Span, Time};

use super::sink::{Sink, SinkConfig};
use super::{Agent, AgentConfig};
use crate::packet::Packet;
use crate::pair::Receiving as _;

const SIZE: u32 = 1448;

type Pair = crate::pair::Pair<Agent, Sink>;

fn pair(linux: bool, timestamps: bool, one_way: bool, segments: u64) -> Pair {
    let config = AgentConfig { linux, size: SIZE, timestamps, minrto: Span::from_millis(200), one_way };
    let start = Start { mss: SIZE, initial_window: Some(if one_way { 2 } else { 10 } * u64::from(SIZE)), ..Start::default() };
    let control = lowtide_replicas::by_name("reno-ns2").expect("known").build(&Params::default(), &start).expect("no parameters");
    let mut agent = Agent::new(0, config, control.into_replica().expect("any host"), 1 << 40);
    agent.write(segments.saturating_mul(u64::from(SIZE)));
    let sink = SinkConfig { size: SIZE, every: 1, interval: Span::from_millis(100), buffer: 1 << 30, scale: 14 };
    Pair::of(agent, Sink::new(0, sink))
}

/// How many left at `ms`.
fn left_at(pair: &Pair, ms: u64) -> usize {
    pair.sent.iter().filter(|s| s.0 == Time::from_millis(ms)).count()
}

/// Ten leave, then twenty at 40 ms, of which the first is lost. Its nineteen duplicates at 80 ms say nothing, but each sets the
/// timer anew: 200 ms later it fires. What it repairs acknowledges all that was out, and the window is three segments.
#[test]
fn duplicates_only_put_the_linux_agents_timer_off() {
    let mut pair = pair(true, false, false, u64::MAX);
    pair.drop = vec![10];
    pair.run(Time::from_millis(330));
    assert_eq!(pair.times_of(10), [40, 280]);
    assert_eq!([40, 80, 280, 320].map(|ms| left_at(&pair, ms)), [20, 0, 1, 3]);
    assert_eq!((pair.sender.stats().timeouts, pair.sender.stats().retransmits), (1, 1));
}

/// With timestamps the duplicates are samples, too: they echo the last that came in order and so seem 80 ms old instead of 40.
#[test]
fn duplicates_are_samples_where_there_are_timestamps() {
    let srtt = |timestamps| {
        let mut pair = pair(true, timestamps, false, u64::MAX);
        pair.drop = vec![10];
        pair.run(Time::from_millis(85));
        pair.sender.srtt()
    };
    assert!(srtt(true) > Span::from_millis(72) && srtt(true) < Span::from_millis(80), "19 steps of an eighth towards 80 ms");
    assert_eq!(srtt(false), Span::from_millis(40));
}

/// The retransmission is lost as well: the window is reduced at each expiry, not once.
#[test]
fn each_expiry_is_told() {
    let mut pair = pair(true, false, false, u64::MAX);
    pair.drop_segment = (10, 3);
    pair.run(Time::from_millis(1000));
    assert_eq!(pair.times_of(10), [40, 280, 680]);
    assert_eq!((pair.sender.stats().timeouts, pair.sender.stats().episodes), (2, 2));
}

/// Three duplicates: Reno repairs at 80 ms, once, and the first two let a new segment each go (RFC 3042).
#[test]
fn reno_repairs_at_the_third_duplicate() {
    let mut pair = pair(false, false, false, 60);
    pair.drop = vec![10];
    pair.run(Time::from_millis(100));
    assert_eq!(pair.times_of(10), [40, 80]);
    let at_80: Vec<u32> = pair.sent.iter().filter(|s| s.0 == Time::from_millis(80)).map(|s| s.1).collect();
    assert_eq!(at_80[..3], [30, 31, 10]);
    pair.run(Time::from_millis(3000));
    assert!(pair.sender.is_done() && pair.sender.stats().timeouts == 0);
}

/// A hole and its repair are lost: the timeout goes back to the left edge, and its one repair acknowledges all that was held above.
#[test]
fn a_timeout_goes_back_to_the_left_edge() {
    let mut pair = pair(false, false, false, 60);
    pair.drop_segment = (12, 2);
    pair.run(Time::from_millis(5000));
    assert!(pair.sender.is_done());
    let stats = pair.sender.stats();
    assert_eq!((stats.timeouts, stats.episodes), (1, 2));
}

/// The Linux agent's SYN and one segment leave together; Reno's SYN alone (`delay_growth_`). It has a number and no payload.
#[test]
fn a_syn_without_handshake_takes_a_number_and_no_payload() {
    for (linux, times) in [(true, [0, 0, 40, 40, 40, 40]), (false, [0, 40, 40, 80, 80, 80])] {
        let mut pair = pair(linux, false, true, 5);
        pair.sender.close();
        pair.run(Time::from_millis(200));
        assert_eq!(pair.sent.iter().map(|s| s.0.nanos() / 1_000_000).collect::<Vec<_>>(), times, "Linux: {linux}");
        assert_eq!(pair.receiver.delivered(), u64::from(SIZE) * 5);
        assert!(pair.sender.is_done());
    }
}

/// The sink echoes what came at or below the left edge, duplicates too; nothing above a hole.
#[test]
fn the_echo_is_of_the_left_edge() {
    let mut sink = pair(true, true, false, 1).receiver;
    let mut echo = |seq, ms| {
        let sent = Time::from_millis(ms);
        let packet = Packet { seq, sent, ..Packet::new(0, crate::packet::Kind::Data, SIZE + crate::packet::TCP_HEADER, sent) };
        sink.answer_to(&packet, Time::from_millis(99)).map(|a| a.echo.nanos() / 1_000_000)
    };
    assert_eq!([echo(0, 1), echo(2, 3), echo(3, 4), echo(0, 7), echo(1, 9)], [1, 1, 1, 7, 9].map(Some));
}
