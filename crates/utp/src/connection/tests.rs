//! Two ends and a path between them that loses, delays, reorders and repeats as told.

mod pacing;
mod pair;
mod reports;

use lowtide_cc::{Params, Start, registry};
use proptest::prelude::*;

use super::*;
use crate::config::Repair;
use crate::header::{Header, Kind, Sack};
use crate::mtu::PathMtu;
use pair::{Fate, Pair};

fn libutp() -> Box<dyn Controller> {
    control("libutp")
}

fn control(name: &str) -> Box<dyn Controller> {
    let start = Start { mss: 1382, ..Start::default() };
    registry::by_name(name).expect("registered").build(&Params::default(), &start).expect("no parameters")
}

fn at(ms: u64) -> Time {
    Time::from_millis(ms)
}

fn pair(config: Config, seq: u16) -> Pair {
    Pair::new(config, Open { id: 0xffff, seq }, 65_530)
}

#[test]
fn the_handshake_joins_ids_and_numbers() {
    let mut pair = pair(Config::default(), 700);
    pair.run(at(19), &mut |_| Fate::Pass);
    assert_eq!(pair.states(), [State::SynSent, State::SynReceived]);
    pair.initiator.write(5);
    pair.run(at(45), &mut |_| Fate::Pass);
    assert_eq!(pair.states(), [State::Connected, State::Connected]);
    let acceptor = pair.acceptor.as_ref().expect("there");
    assert_eq!((pair.initiator.id(), acceptor.id()), (0xffff, 0));
    assert_eq!(acceptor.received(), 5);
    let kinds: Vec<_> = pair.sent.iter().map(|(_, p)| (p.header.kind, p.header.connection_id, p.header.seq, p.header.ack)).collect();
    assert_eq!(kinds[..3], [(Kind::Syn, 0xffff, 700, 0), (Kind::State, 0xffff, 65_530, 700), (Kind::Data, 0, 701, 65_529)]);
}

/// The acceptor's first data has the number of its answer to the SYN.
#[test]
fn the_acceptor_may_send_once_it_has_heard() {
    let mut pair = pair(Config::default(), 700);
    pair.initiator.write(1);
    pair.run(at(45), &mut |_| Fate::Pass);
    pair.acceptor.as_mut().expect("there").write(10_000);
    pair.run(at(400), &mut |_| Fate::Pass);
    assert_eq!(pair.initiator.received(), 10_000);
}

fn times_of(kind: Kind, pair: &Pair) -> Vec<u64> {
    pair.sent.iter().filter(|(_, p)| p.header.kind == kind).map(|(at, _)| at.nanos() / 1_000_000).collect()
}

/// A SYN at 0, 3, 9 s and the end at 21 s, on a tick of half a second.
#[test]
fn nobody_answers_the_syn() {
    let mut pair = pair(Config::default(), 1);
    pair.run(at(20_999), &mut |_| Fate::Lost);
    assert_eq!(times_of(Kind::Syn, &pair), [0, 3000, 9000]);
    assert_eq!(pair.initiator.state(), State::SynSent);
    pair.run(at(21_000), &mut |_| Fate::Lost);
    assert_eq!(pair.initiator.state(), State::Failed(Failure::TimedOut));
    assert_eq!(pair.initiator.deadline(), None);
}

/// Data again after 1, 3, 7, 15 s, the end after 31 s.
#[test]
fn the_peer_falls_silent() {
    let mut pair = pair(Config::default(), 1);
    pair.run(at(100), &mut |_| Fate::Pass);
    pair.initiator.write(100);
    pair.run(at(40_000), &mut |_| Fate::Lost);
    let sent = times_of(Kind::Data, &pair);
    let after: Vec<u64> = sent.iter().map(|at| at - sent[0]).collect();
    // The tick counts from the last packet, not from the write: each may be half a second late.
    for (after, want) in after.iter().zip([0, 1000, 3000, 7000, 15_000]) {
        assert!((want..=want + 500).contains(after), "{sent:?}");
    }
    assert_eq!(after.len(), 5);
    assert_eq!(pair.initiator.state(), State::Failed(Failure::TimedOut));
}

/// Data, or a FIN, that acknowledges the SYN is no answer to it: the attempt ends when none comes.
#[test]
fn what_is_no_answer_to_a_syn_does_not_prolong_the_attempt() {
    for kind in [Kind::Data, Kind::Fin] {
        let mut pair = pair(Config::default(), 700);
        pair.run(at(1), &mut |_| Fate::Lost);
        let header = Header { kind, connection_id: 0xffff, seq: 9, ack: 700, window: 1 << 20, ..Header::default() };
        pair.initiator.on_packet(&Packet { header, payload: u16::from(kind == Kind::Data), ..Packet::default() }, at(2));
        pair.run(at(22_000), &mut |_| Fate::Lost);
        assert_eq!(
            (pair.initiator.state(), times_of(Kind::Syn, &pair)),
            (State::Failed(Failure::TimedOut), vec![0, 3000, 9000]),
            "{kind:?}"
        );
    }
}

#[test]
fn an_answer_that_is_lost_is_given_again() {
    let mut pair = pair(Config::default(), 1);
    let mut lost = false;
    pair.run(at(4000), &mut |p| if p.header.kind == Kind::State && !std::mem::replace(&mut lost, true) { Fate::Lost } else { Fate::Pass });
    assert_eq!(pair.initiator.state(), State::Connected);
}

/// A closed window is probed with one packet after 15 s.
#[test]
fn a_closed_window_is_probed() {
    let mut pair = pair(Config { receive_buffer: 3000, ..Config::default() }, 1);
    pair.initiator.write(100_000);
    pair.run(at(45), &mut |_| Fate::Pass);
    pair.acceptor.as_mut().expect("there").set_unread(3000);
    pair.run(at(14_000), &mut |_| Fate::Pass);
    let before = pair.acceptor.as_ref().expect("there").received();
    pair.run(at(17_000), &mut |_| Fate::Pass);
    assert_eq!(pair.acceptor.as_ref().expect("there").received(), before + 1382);
    pair.acceptor.as_mut().expect("there").set_unread(0);
    pair.run(at(30_000), &mut |_| Fate::Pass);
    assert_eq!(pair.acceptor.as_ref().expect("there").received(), 100_000);
}

#[test]
fn an_idle_connection_is_kept_alive_with_an_old_acknowledgement() {
    let mut pair = pair(Config::default(), 1);
    pair.initiator.write(10);
    pair.run(at(31_000), &mut |_| Fate::Pass);
    let (_, last) = pair.sent.iter().rev().find(|(at, p)| at.nanos() > 20_000_000_000 && p.header.connection_id == 0).expect("one");
    assert_eq!((last.header.kind, last.header.ack, last.sack), (Kind::State, 65_528, None));
}

#[test]
fn a_fin_ends_the_stream_behind_the_last_byte() {
    let mut pair = pair(Config::default(), 65_000);
    pair.initiator.write(5000);
    pair.initiator.close();
    pair.run(at(3000), &mut |p| if p.header.seq % 3 == 0 && p.header.kind != Kind::State { Fate::Twice } else { Fate::Pass });
    assert_eq!(pair.initiator.state(), State::Closed);
    assert!(pair.ended && pair.acceptor.as_ref().expect("there").received() == 5000);
}

/// The reason that came with the FIN stays, though later packets name none.
#[test]
fn why_the_peer_closed_is_known() {
    let mut pair = pair(Config::default(), 700);
    pair.initiator.write(1);
    pair.run(at(100), &mut |_| Fate::Pass);
    let acceptor = pair.acceptor.as_mut().expect("there");
    let (seq, ack) = (acceptor.incoming.last().wrapping_add(1), acceptor.out.next().wrapping_sub(1));
    let header = Header { kind: Kind::Fin, connection_id: acceptor.id(), seq, ack, ..Header::default() };
    assert_eq!(acceptor.close_reason(), None);
    let arrival = acceptor.on_packet(&Packet { header, close_reason: Some(6), ..Packet::default() }, at(101));
    acceptor.on_packet(&Packet { header: Header { kind: Kind::State, ..header }, ..Packet::default() }, at(102));
    assert_eq!((arrival.end, acceptor.close_reason()), (true, Some(6)));
}

/// A quarter of an hour on a path without a queue, the acceptor's clock 200 parts in a million too fast, or too slow: 180 ms by then. Neither
/// end's control takes that for a queue.
#[test]
fn clocks_that_drift_apart_make_no_queue() {
    for drift_ppm in [200, -200] {
        let mut pair = pair(Config { packet: 100, ..Config::default() }, 700);
        (pair.records, pair.drift_ppm) = (false, drift_ppm);
        for second in 1..=900 {
            pair.initiator.write(1000);
            if let Some(acceptor) = &mut pair.acceptor {
                acceptor.write(1000);
            }
            pair.run(at(second * 1000), &mut |_| Fate::Pass);
        }
        let acceptor = pair.acceptor.as_ref().expect("there");
        assert!(acceptor.received() > 890_000 && pair.initiator.received() > 890_000);
        let queues = [&pair.initiator, acceptor].map(|end| end.snapshot().queueing_delay.expect("measured").millis_f64());
        assert!(queues.iter().all(|&ms| ms < 15.0), "{drift_ppm}: {queues:?} ms");
    }
}

/// A protocol in which the server speaks first: the answer to the SYN is acknowledged at once when there is nothing to send.
#[test]
fn the_acceptor_may_speak_first() {
    let mut pair = pair(Config::default(), 700);
    pair.run(at(45), &mut |_| Fate::Pass);
    assert_eq!(pair.states(), [State::Connected, State::Connected]);
    pair.acceptor.as_mut().expect("there").write(3000);
    pair.run(at(200), &mut |_| Fate::Pass);
    assert_eq!(pair.initiator.received(), 3000);
}

/// Each direction ends by itself; the acknowledgement of the last FIN may be lost.
#[test]
fn one_direction_ends_and_the_other_goes_on() {
    let mut pair = pair(Config::default(), 65_000);
    pair.initiator.write(5000);
    pair.initiator.shutdown();
    pair.run(at(1000), &mut |_| Fate::Pass);
    assert!(pair.ended);
    assert_eq!(pair.states(), [State::Connected, State::Connected]);
    let acceptor = pair.acceptor.as_mut().expect("there");
    acceptor.write(70_000);
    acceptor.shutdown();
    let (mut fins, mut fin) = (0, None);
    pair.run(at(9000), &mut |p| {
        if p.header.kind == Kind::Fin {
            (fins, fin) = (fins + 1, Some(p.header.seq));
        }
        let acknowledges = p.header.kind == Kind::State && p.header.connection_id == 0 && Some(p.header.ack) == fin;
        if acknowledges && fins == 1 { Fate::Lost } else { Fate::Pass }
    });
    assert_eq!((pair.states(), pair.initiator.received(), fins), ([State::Closed, State::Closed], 70_000, 2));
    assert!(pair.initiator.is_forgettable(at(9000)));
}

/// A reset is believed of who knows the numbers of what was sent, be it the number of an acknowledgement.
#[test]
fn a_reset_must_know_a_number() {
    let mut believed = 0u32;
    for ack in 0..=u16::MAX {
        let mut pair = pair(Config::default(), 700);
        pair.initiator.write(1);
        pair.run(at(100), &mut |_| Fate::Pass);
        let header = Header { kind: Kind::Reset, connection_id: 0xffff, ack, ..Header::default() };
        pair.initiator.on_packet(&Packet { header, ..Packet::default() }, at(101));
        believed += u32::from(pair.initiator.state() == State::Failed(Failure::Reset));
    }
    assert_eq!(believed, 5, "the next number, the last, and three before");
}

/// A receiver whose host reads nothing, and a sender that heeds no window: two buffers' worth are kept at most.
#[test]
fn what_is_kept_is_bounded_whatever_the_peer_sends() {
    let mut pair = pair(Config { receive_buffer: 10_000, ..Config::default() }, 700);
    pair.initiator.write(1);
    pair.run(at(100), &mut |_| Fate::Pass);
    let acceptor = pair.acceptor.as_mut().expect("there");
    let (mut unread, mut held) = (1u64, 0u64);
    for n in 0..5000u16 {
        let seq = acceptor.incoming.last().wrapping_add(1 + (n * 7) % 900);
        let header = Header { kind: Kind::Data, connection_id: 0, seq, ack: acceptor.out.next().wrapping_sub(1), ..Header::default() };
        let before = acceptor.received();
        let arrival = acceptor.on_packet(&Packet { header, payload: 1400, ..Packet::default() }, at(200 + u64::from(n)));
        held += if arrival.payload == Placement::Held { 1400 } else { 0 };
        held -= u64::from(arrival.released) * 1400;
        unread += acceptor.received() - before;
        acceptor.set_unread(unread as u32);
        assert!(unread + held <= 20_000, "{unread} {held}");
    }
    assert!(unread + held > 17_000, "{unread} {held}");
}

/// A path that carries 1300 bytes: the search ends at 1297, and the control never hears of a probe's loss.
#[test]
fn probes_find_what_the_path_carries() {
    let config = Config { path_mtu: Some(PathMtu::IPV4), ..Config::default() };
    let mut pair = pair(config, 700);
    pair.initiator.write(3_000_000);
    pair.drops_probes_above = Some(1300);
    pair.run(at(20_000), &mut |_| Fate::Pass);
    assert_eq!(pair.acceptor.as_ref().expect("there").received(), 3_000_000);
    assert_eq!(pair.initiator.packet(), 1297 - 20);
    let stats = pair.initiator.stats();
    assert_eq!((stats.episodes, stats.timeouts, stats.retransmits), (0, 0, 12), "1402, 1349, 1322 and 1309 were lost three times each");
}

/// Al-Saadi 2018, Fig. 5: a packet is lost and its retransmission too. libutp stands still for its minimum timeout of 1 s, or of 200 ms
/// where that is its minimum, and libutp-mod not at all: it sees that something sent later has arrived.
#[test]
fn a_lost_retransmission_stalls_for_the_minimum_timeout_or_not_at_all() {
    let longest_pause = |min_rto_ms, repair| {
        // The timers are looked at every 10 ms, so that what is seen is the timeout and not the 500 ms between two looks.
        let config = Config { repair, min_rto: Span::from_millis(min_rto_ms), tick: Span::from_millis(10), ..Config::default() };
        let mut pair = pair(config, 1);
        pair.initiator.write(400_000);
        let mut left = 2;
        pair.run(at(10_000), &mut |p| {
            let hit = p.header.seq == 60 && p.header.kind == Kind::Data && left > 0;
            left -= i32::from(hit);
            if hit { Fate::Lost } else { Fate::Pass }
        });
        assert_eq!(pair.acceptor.as_ref().expect("there").received(), 400_000);
        let times = times_of(Kind::Data, &pair);
        let pause = times.windows(2).map(|two| two[1] - two[0]).max().expect("many");
        (pause, pair.initiator.stats().timeouts)
    };
    let (second, fifth, none) = (longest_pause(1000, Repair::Once), longest_pause(200, Repair::Once), longest_pause(1000, Repair::ByTime));
    assert!((950..=1060).contains(&second.0) && second.1 == 1, "{second:?}");
    assert!((150..=260).contains(&fifth.0) && fifth.1 == 1, "{fifth:?}");
    assert!(none.0 <= 30 && none.1 == 0, "{none:?}, and the RTT is 20 ms");
}

/// The numbers wrap three times under one percent of loss, both ways; from 40 000 on repairs are still quick.
#[test]
fn numbers_wrap_under_loss() {
    for seq in [65_530, 40_000] {
        let config = Config { packet: 100, ..Config::default() };
        let mut pair = pair(config, seq);
        pair.initiator.write(20_000_000);
        let mut n = 0u64;
        pair.run(at(4_000_000), &mut |_| {
            n += 1;
            if n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32 & 127 == 0 { Fate::Lost } else { Fate::Pass }
        });
        assert_eq!(pair.acceptor.as_ref().expect("there").received(), 20_000_000);
        assert!(pair.initiator.stats().retransmits > 1000);
        assert!(pair.initiator.stats().timeouts < 100, "{:?}", pair.initiator.stats());
    }
}

/// 10 GB, 7.2 million packets: more than a hundred wraps of their numbers. 40,000 packets lie between two losses, further than
/// half the circle, and each is told.
#[test]
fn every_loss_of_a_long_transfer_is_told() {
    for lose_every in [None, Some(40_000)] {
        let config = Config { repair: Repair::ByTime, ..Config::default() };
        let mut pair = Pair::under(config, control("newreno"), Open { id: 1, seq: 65_000 }, 7);
        pair.records = false;
        pair.initiator.write(10_000_000_000);
        let (mut sent, mut lost) = (0u64, 0u64);
        pair.run(at(3_600_000), &mut |p| {
            sent += u64::from(p.header.kind == Kind::Data);
            let hit = p.header.kind == Kind::Data && lose_every.is_some_and(|every| sent % every == 0);
            lost += u64::from(hit);
            if hit { Fate::Lost } else { Fate::Pass }
        });
        assert_eq!(pair.acceptor.as_ref().expect("there").received(), 10_000_000_000);
        let stats = pair.initiator.stats();
        assert_eq!((stats.episodes, stats.retransmits, stats.timeouts), (lost, lost, 0));
        assert_eq!(lost, if lose_every.is_some() { 180 } else { 0 });
    }
}

/// Drops where a packet of the run says so; everything sent arrives, in order, once. A peer is given up after five
/// timeouts in a row, after three for the SYN, and by the acceptor when nothing came for 10 s, as it should be: so no more
/// than three packets are lost between two steps forward.
fn survives(config: Config, fates: &[u8]) -> Result<(), TestCaseError> {
    let first = 65_500;
    let mut pair = pair(config, first);
    pair.initiator.write(120_000);
    pair.initiator.close();
    let mut next = fates.iter().copied();
    let (mut acked, mut lost) = (first.wrapping_sub(1), 0);
    pair.run(at(400_000), &mut |p| {
        let handshake = p.header.kind == Kind::Syn || p.header.kind == Kind::State && p.header.ack == first;
        let fate = match next.next() {
            Some(0 | 1) if !handshake && lost < 3 => Fate::Lost,
            Some(2) => Fate::Late,
            Some(3) => Fate::Twice,
            _ => Fate::Pass,
        };
        lost += u32::from(fate == Fate::Lost);
        if p.header.kind == Kind::State && fate != Fate::Lost && p.header.ack.wrapping_sub(acked) as i16 > 0 {
            (acked, lost) = (p.header.ack, 0);
        }
        fate
    });
    prop_assert_eq!(pair.initiator.state(), State::Closed);
    prop_assert_eq!(pair.acceptor.as_ref().expect("there").received(), 120_000);
    Ok(())
}

fn any_packet() -> impl Strategy<Value = (u8, i16, i16, u32, u32, Option<u32>, u16)> {
    (0u8..5, -40i16..40, -40i16..40, any::<u32>(), any::<u32>(), prop::option::of(any::<u32>()), 0u16..1400)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_is_written_arrives(fates in prop::collection::vec(0u8..14, 0..300), by_time: bool) {
        let repair = if by_time { Repair::ByTime } else { Repair::Once };
        survives(Config { repair, ..Config::default() }, &fates)?;
    }

    /// A peer that sends anything at all: no panic, bounded memory, windows obeyed.
    #[test]
    fn a_hostile_peer_changes_nothing_but_the_connection(packets in prop::collection::vec(any_packet(), 1..200)) {
        let mut pair = pair(Config::default(), 10);
        pair.initiator.write(u64::MAX);
        pair.run(at(60), &mut |_| Fate::Pass);
        let one = &mut pair.initiator;
        for (n, (kind, seq, ack, difference, window, sack, payload)) in packets.into_iter().enumerate() {
            let kinds = [Kind::Data, Kind::Fin, Kind::State, Kind::State, Kind::Syn];
            let header = Header {
                kind: kinds[usize::from(kind)],
                connection_id: one.id(),
                timestamp: difference,
                timestamp_difference: difference,
                window,
                seq: one.incoming.last().wrapping_add_signed(seq),
                ack: one.out.first().wrapping_add_signed(ack),
            };
            let now = at(60 + 7 * n as u64);
            one.on_packet(&Packet { header, sack: sack.map(Sack::from_mask), payload, ..Packet::default() }, now);
            while one.poll(now).is_some() {}
            prop_assert!(one.out.len() <= 1024);
            prop_assert!(one.in_flight() <= one.config.send_buffer);
            let sum: u64 = (0..one.out.len()).filter_map(|n| one.out.get(one.out.first().wrapping_add(n))).filter(|s| !s.marked).map(|s| u64::from(s.len)).sum();
            prop_assert_eq!(one.in_flight(), sum);
        }
    }
}
