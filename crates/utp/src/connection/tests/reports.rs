//! What the network and a silent peer do to a connection.

use proptest::prelude::*;

use super::pair::{Fate, Pair};
use super::*;
use crate::config::Config;
use crate::header::Header;
use crate::mtu::PathMtu;

/// The packet that left last from the initiator.
fn last(pair: &Pair) -> Header {
    let mut numbered = pair.sent.iter().rev().map(|(_, packet)| packet.header).filter(|header| header.kind.is_numbered());
    numbered.next().expect("one")
}

#[test]
fn a_syn_to_a_closed_port_is_refused_at_once() {
    let mut pair = pair(Config::default(), 1);
    pair.run(at(100), &mut |_| Fate::Lost);
    assert!(pair.initiator.on_report(&last(&pair), Report::Unreachable, at(100)));
    assert_eq!(pair.initiator.state(), State::Failed(Failure::Refused));
}

/// A host that cannot be reached ends the attempt, as it ends TCP's; what is established outlives a route that is gone for a while.
#[test]
fn a_peer_without_a_route_ends_an_attempt_and_no_connection() {
    let mut pair = pair(Config::default(), 1);
    pair.run(at(100), &mut |_| Fate::Lost);
    assert!(pair.initiator.on_report(&last(&pair), Report::NoRoute, at(100)));
    assert_eq!(pair.initiator.state(), State::Failed(Failure::NoRoute));

    let mut pair = super::pair(Config::default(), 1);
    pair.run(at(100), &mut |_| Fate::Pass);
    pair.initiator.write(100);
    pair.run(at(600), &mut |_| Fate::Lost);
    assert!(!pair.initiator.on_report(&last(&pair), Report::NoRoute, at(600)));
    pair.run(at(4200), &mut |_| Fate::Lost);
    assert_eq!(pair.initiator.state(), State::Connected);
}

/// An established connection ends when reports went on for three seconds without a packet between; one packet and it goes on.
#[test]
fn a_closed_port_ends_a_connection_after_three_seconds_of_silence() {
    let after = |answers: bool| {
        let mut pair = pair(Config::default(), 1);
        pair.run(at(100), &mut |_| Fate::Pass);
        pair.initiator.write(100);
        pair.run(at(600), &mut |_| Fate::Lost);
        let header = last(&pair);
        assert!(pair.initiator.on_report(&header, Report::Unreachable, at(600)));
        assert_eq!(pair.initiator.state(), State::Connected, "a report alone ends nothing");
        pair.run(at(2000), &mut |_| if answers { Fate::Pass } else { Fate::Lost });
        pair.run(at(4200), &mut |_| Fate::Lost);
        pair.initiator.state()
    };
    assert_eq!((after(false), after(true)), (State::Failed(Failure::Unreachable), State::Connected));
}

/// A router that names what it carries ends the search in three packets, and no loss is told.
#[test]
fn a_router_that_names_its_limit_is_believed() {
    let mut pair = pair(Config { path_mtu: Some(PathMtu::IPV4), ..Config::default() }, 1);
    pair.run(at(100), &mut |_| Fate::Pass);
    pair.initiator.write(400_000);
    pair.drops_probes_above = Some(1272);
    // The probe leaves once something else is looked at: at the next tick.
    pair.run(at(501), &mut |_| Fate::Pass);
    let probe = pair.sent.iter().rev().map(|(_, packet)| *packet).find(|packet| packet.payload > 1000).expect("a probe");
    assert!(pair.initiator.on_report(&probe.header, Report::TooLarge(1272), at(501)));
    pair.run(at(10_000), &mut |_| Fate::Pass);
    assert_eq!((pair.initiator.packet(), pair.acceptor.as_ref().expect("there").received()), (1252, 400_000));
    let stats = pair.initiator.stats();
    assert_eq!((stats.retransmits, stats.episodes, stats.timeouts), (1, 0, 0));
    assert!(!pair.initiator.on_report(&probe.header, Report::TooLarge(600), at(10_000)), "it has long arrived");
    assert_eq!(pair.initiator.packet(), 1252);
}

/// The path comes to carry 1000 bytes: packets that were cut before are fragmented, and what is cut after three timeouts fits.
#[test]
fn a_path_that_shrinks_silently_is_searched_again() {
    let mut pair = pair(Config { path_mtu: Some(PathMtu::IPV4), ..Config::default() }, 1);
    pair.initiator.write(20_000);
    pair.run(at(1000), &mut |_| Fate::Pass);
    assert_eq!(pair.initiator.packet(), 1382);
    pair.initiator.write(200_000);
    pair.drops_probes_above = Some(1000);
    pair.run(at(9000), &mut |_| Fate::Lost);
    assert_eq!(pair.initiator.packet(), 556);
    pair.run(at(60_000), &mut |_| Fate::Pass);
    assert_eq!(pair.acceptor.as_ref().expect("there").received(), 220_000);
    assert!((950..=980).contains(&pair.initiator.packet()), "{}", pair.initiator.packet());
}

/// With nothing to send a vanished peer is asked three times, ten seconds apart, and then given up; one that is there answers for ever.
#[test]
fn a_silent_peer_is_asked_and_given_up() {
    let after = |answers: bool| {
        let mut pair = pair(Config { silence: Some(Span::from_secs(20)), ..Config::default() }, 9);
        pair.initiator.write(1000);
        pair.run(at(1000), &mut |_| Fate::Pass);
        pair.run(at(200_000), &mut |_| if answers { Fate::Pass } else { Fate::Lost });
        let asked = pair.sent.iter().filter(|(at, p)| at.nanos() > 1_000_000_000 && p.header.kind == Kind::Data);
        (pair.states(), asked.count(), pair.initiator.received(), pair.acceptor.as_ref().expect("there").received())
    };
    let failed = State::Failed(Failure::TimedOut);
    assert_eq!(after(false), ([failed, failed], 6, 0, 1000));
    let (states, asked, ..) = after(true);
    assert_eq!(states, [State::Connected; 2]);
    // Whoever asks hears an answer, and is heard.
    assert!((9..=11).contains(&asked), "{asked}");
}

/// A question that the peer's host answers with "port unreachable" ends the connection seconds later; a forged report does not.
#[test]
fn a_question_to_a_closed_port_ends_a_connection_after_three_seconds() {
    let after = |change: fn(&mut Header)| {
        let mut pair = pair(Config { silence: Some(Span::from_secs(20)), ..Config::default() }, 9);
        pair.initiator.write(1000);
        pair.run(at(1000), &mut |_| Fate::Pass);
        pair.run(at(21_500), &mut |_| Fate::Lost);
        let mut asked = last(&pair);
        change(&mut asked);
        let believed = pair.initiator.on_report(&asked, Report::Unreachable, at(21_500));
        pair.run(at(25_500), &mut |_| Fate::Lost);
        (believed, pair.initiator.state())
    };
    assert_eq!(after(|_| {}), (true, State::Failed(Failure::Unreachable)));
    assert_eq!(after(|asked| asked.timestamp ^= 1), (false, State::Connected));
    assert_eq!(after(|asked| asked.connection_id ^= 1), (false, State::Connected));
}

proptest! {
    /// Who does not know the packet's number, id and timestamp changes nothing.
    #[test]
    fn a_forged_report_changes_nothing(seq: u16, id: u16, timestamp: u32, most in 0u16..1500, unreachable: bool) {
        let mut pair = pair(Config { path_mtu: Some(PathMtu::IPV4), ..Config::default() }, 1);
        pair.run(at(100), &mut |_| Fate::Pass);
        pair.initiator.write(3000);
        pair.run(at(1000), &mut |_| Fate::Lost);
        let header = last(&pair);
        let report = if unreachable { Report::Unreachable } else { Report::TooLarge(most) };
        let before = pair.initiator.packet();
        for forged in [
            Header { seq, connection_id: id, timestamp, ..header },
            Header { timestamp: if timestamp == header.timestamp { timestamp ^ 1 } else { timestamp }, ..header },
            Header { connection_id: if id == header.connection_id { !id } else { id }, ..header },
        ] {
            prop_assume!(forged != header);
            prop_assert!(!pair.initiator.on_report(&forged, report, at(1000)));
        }
        pair.run(at(5000), &mut |_| Fate::Lost);
        prop_assert_eq!((pair.initiator.state(), pair.initiator.packet()), (State::Connected, before));
    }
}
