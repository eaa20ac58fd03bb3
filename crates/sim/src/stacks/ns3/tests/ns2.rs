//! ns-2's Linux agent opposite a receiver without SACK, step by step from `tcp/tcp-linux.cc`.

use super::*;
use crate::stacks::ns3::receiver::Echo;

fn pair(timestamps: bool) -> Pair {
    let rto = RtoProfile::Ns2 { timestamps };
    let mut pair = Pair::bulk(SenderConfig { rto, undo: false, ..with(Detection::Timer) });
    pair.receiver = Receiver::new(0, ReceiverConfig { every: 1, sack: false, echo: Echo::LeftEdge, ..ReceiverConfig::linux(MSS) });
    pair
}

/// Ten leave, then twenty at 40 ms, of which the first is lost. Its nineteen duplicates at 80 ms say nothing, but each sets the
/// timer anew: 200 ms later it fires. What it repairs acknowledges all that was out, and the window is three segments.
#[test]
fn duplicates_only_put_the_timer_off() {
    let mut pair = pair(false);
    pair.drop = vec![10];
    pair.run(Time::from_millis(330));
    assert_eq!(pair.times_of(10), [40, 280]);
    let at = |ms: u64| pair.sent.iter().filter(|s| s.0.nanos() / 1_000_000 == ms).count();
    assert_eq!((at(40), at(80), at(280), at(320)), (20, 0, 1, 3));
    assert_eq!((pair.sender.stats().timeouts, pair.sender.stats().retransmits), (1, 1));
}

/// With timestamps the duplicates are samples, too: they echo the last that came in order and so seem 80 ms old instead of 40.
#[test]
fn duplicates_are_samples_where_there_are_timestamps() {
    let mut pair = pair(true);
    pair.drop = vec![10];
    pair.run(Time::from_millis(85));
    let srtt = pair.sender.srtt();
    assert!(srtt > Span::from_millis(72) && srtt < Span::from_millis(80), "19 steps of an eighth towards 80 ms: {srtt:?}");
    let mut without = self::pair(false);
    without.drop = vec![10];
    without.run(Time::from_millis(85));
    assert_eq!(without.sender.srtt(), Span::from_millis(40));
}

/// The retransmission is lost as well: the window is reduced at each expiry, not once.
#[test]
fn each_expiry_is_told() {
    let mut pair = pair(false);
    pair.drop_segment = (10, 3);
    pair.run(Time::from_millis(1000));
    assert_eq!(pair.times_of(10), [40, 280, 680]);
    assert_eq!((pair.sender.stats().timeouts, pair.sender.stats().episodes), (2, 2));
}

/// After a timeout Reno sends everything again, most of it for nothing. The duplicates that answer it lie below the recovery point
/// and reduce nothing (ns-2 `dupack_action`, RFC 6582 §3.2), and the next window counts none of them as having left.
#[test]
fn what_a_timeout_sends_again_for_nothing_is_no_loss() {
    for detection in [Detection::Reno, Detection::NewReno] {
        let mut pair = Pair::new(with(detection), 60.0, 1e6);
        pair.sender.write(u64::MAX);
        // A hole, and its repair: the timer's turn, with all else arrived.
        pair.drop_segment = (2, 2);
        pair.run(Time::from_millis(1500));
        let stats = pair.sender.stats();
        assert_eq!((stats.timeouts, stats.episodes), (1, 2), "{detection:?}");
        let under_way = (pair.data.len() + pair.acks.len()) as u64;
        assert_eq!(pair.sender.in_flight(), under_way * u64::from(MSS), "{detection:?}");
    }
}

/// The SYN and one segment leave together; the transfer's two thousand bytes follow the SYN's number, none is lost for it.
#[test]
fn a_syn_without_handshake_takes_a_number_and_no_payload() {
    let config = SenderConfig { one_way: true, undo: false, ..with(Detection::Timer) };
    let mut pair = Pair::new(config, 2.0, 1e6);
    pair.receiver = Receiver::new(0, ReceiverConfig { every: 1, sack: false, echo: Echo::LeftEdge, ..ReceiverConfig::linux(MSS) });
    pair.sender.write(u64::from(MSS) * 5);
    pair.sender.close();
    pair.run(Time::from_millis(100));
    assert_eq!(pair.sent.iter().map(|s| s.0.nanos() / 1_000_000).collect::<Vec<_>>(), [0, 0, 40, 40, 40, 40]);
    assert_eq!(pair.receiver.delivered(), u64::from(MSS) * 5);
    assert!(pair.sender.is_done());
}
