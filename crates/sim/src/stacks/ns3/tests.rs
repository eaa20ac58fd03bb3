//! Both ends over a path that delays by a fixed time and drops what a test says, step by step from `tcp-socket-base.cc`. The records of
//! `crates/sim/tests/ns3` compare whole runs.

use lowtide_cc::Start;
use lowtide_replicas::ns3::reno::NewReno;
use lowtide_replicas::ns3::socket::State;
use lowtide_units::{Rate, Span, Time};

use super::receiver::{Receiver, ReceiverConfig};
use super::recovery::RecoveryOps;
use super::socket::{Socket, SocketConfig};

const SEGMENT: u32 = 1448;
const RTT: Span = Span::from_millis(40);

type Pair = crate::pair::Pair<Socket, Receiver>;

impl Pair {
    fn new(segments: u64, recovery: RecoveryOps) -> Pair {
        let config = SocketConfig { segment: SEGMENT, recovery, min_rto: Span::from_secs(1), snd_buf: 1 << 30, pacing: false, ecn: true };
        let start = Start { mss: SEGMENT, handshake_rtt: Some(RTT), ..Start::default() };
        let mut socket = Socket::new(0, config, Box::new(NewReno), &start, 1 << 30);
        socket.write(segments * u64::from(SEGMENT));
        let receiver = ReceiverConfig {
            segment: SEGMENT,
            del_ack_max_count: 1,
            del_ack_timeout: Span::from_millis(200),
            rcv_buf: 1 << 30,
            scale: 14,
            ecn: true,
            dctcp: false,
        };
        Pair::of(socket, Receiver::new(0, receiver))
    }
}

/// Three duplicates repair the first hole; the next ones leave one segment for two acknowledgements.
#[test]
fn a_loss_is_repaired_by_the_third_duplicate() {
    let mut pair = Pair::new(60, RecoveryOps::prr());
    pair.drop = vec![10];
    pair.run(Time::from_millis(79));
    assert_eq!(pair.times_of(10), [40]);
    pair.run(Time::from_millis(5000));
    assert_eq!(pair.times_of(10), [40, 80]);
    assert!(pair.sender.is_done());
    let stats = pair.sender.stats();
    assert_eq!((stats.episodes, stats.timeouts, stats.retransmits), (1, 0, 1));
}

/// Two holes are repaired a few ms apart, a third one's repair is lost: the timer runs from the first partial acknowledgement, the impatient
/// variant of RFC 6582 §4.
#[test]
fn the_timer_runs_from_the_first_partial_acknowledgement() {
    let mut pair = Pair::new(200, RecoveryOps::prr());
    pair.rate = Some(Rate::from_mbps_f64(20.0));
    pair.drop = vec![2, 6];
    pair.drop_segment = (9, 2);
    pair.run(Time::from_millis(3000));
    assert_eq!(pair.sender.stats().timeouts, 1);
    // Sent at 0, its acknowledgements come from 41 ms on; the repair of 2 is acknowledged a round trip later.
    let times = pair.times_of(9);
    assert!((1080..1090).contains(&times[2]), "{times:?}");
}

/// `ReTxTimeout` doubles the timer and starts over with one segment; after six in a row the connection ends (`DataRetries`).
#[test]
fn timeouts_double_and_the_seventh_ends_the_connection() {
    let mut pair = Pair::new(1, RecoveryOps::prr());
    pair.drop_segment = (0, 100);
    pair.run(Time::from_millis(300_000));
    assert_eq!(pair.times_of(0), [0, 1000, 3000, 7000, 15_000, 31_000, 63_000]);
    assert!(pair.sender.deadline().is_none() && !pair.sender.is_done());
}

/// A mark reduces once a window: until something sent after the reduction is acknowledged.
#[test]
fn marks_reduce_once_a_window() {
    let mut pair = Pair::new(200, RecoveryOps::prr());
    pair.marked = 10;
    pair.run(Time::from_millis(45));
    assert_eq!((pair.sender.stats().episodes, pair.sender.tcb.state), (1, State::Cwr));
    pair.run(Time::from_millis(3000));
    assert_eq!(pair.sender.stats().episodes, 1);
    assert!(pair.sender.is_done());
}

/// `TcpClassicRecovery` goes to the threshold at once: half of what is in flight when the third duplicate has come.
#[test]
fn the_classic_recovery_stands_at_the_threshold() {
    let mut pair = Pair::new(60, RecoveryOps::Classic);
    pair.drop = vec![10];
    pair.run(Time::from_millis(82));
    assert_eq!((pair.sender.tcb.state, pair.sender.tcb.cwnd), (State::Recovery, pair.sender.tcb.ssthresh));
    assert!((6..=9).contains(&(pair.sender.tcb.cwnd / SEGMENT)), "{}", pair.sender.tcb.cwnd);
}

/// A window below one segment sends nothing; the timer, which runs although nothing is out, gives one.
#[test]
fn a_window_below_a_segment_waits_for_the_timer() {
    let mut pair = Pair::new(100, RecoveryOps::prr());
    pair.run(Time::from_millis(45));
    pair.sender.tcb.cwnd = 2;
    pair.data.clear();
    pair.acks.truncate(1);
    let before = pair.sent.len();
    pair.run(Time::from_millis(900));
    assert_eq!(pair.sent.len(), before);
    pair.run(Time::from_millis(1300));
    assert!(pair.sent.len() > before && pair.sender.stats().timeouts == 1);
}
