//! Beside recordings of Linux's receiver (tests/receiver, made by scripts/record-receiver): the same segments at the same times, the same
//! acknowledgements with the same SACK blocks, a delayed one as late, and the window that Linux would have. The simulator's own window
//! is the whole buffer from the start.

use lowtide_units::{Span, Time};

use super::{Receiver, ReceiverConfig};
use crate::packet::{Kind, Packet, TCP_HEADER};
use crate::pair::Receiving as _;

/// A segment that arrives: when, its number, the clock reading it echoes.
type Arrival = (Time, u32, Time);

/// An acknowledgement: when, the next segment expected, blocks, Linux's window.
#[derive(Debug)]
struct Answer {
    at: Time,
    next: u32,
    blocks: Vec<(u32, u32)>,
    window: u64,
}

fn time(word: &str) -> Time {
    Time::from_secs_f64(word.parse::<f64>().expect("a time") / 1000.0 + 1.0)
}

/// Segments that arrive and acknowledgements that leave.
fn read(name: &str) -> (Vec<Arrival>, Vec<Answer>) {
    let text = std::fs::read_to_string(format!("tests/receiver/{name}.txt")).unwrap_or_else(|e| panic!("{name}: {e}"));
    let (mut arrivals, mut answers) = (Vec::new(), Vec::new());
    for line in text.lines().skip(2) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (at, number) = (time(words[0]), words[2].parse().expect("a segment"));
        let after = |name: &str| words.windows(2).filter(|pair| pair[0] == name).map(|pair| pair[1]).collect::<Vec<_>>();
        if words[1] == ">" {
            arrivals.push((at, number, time(after("echo")[0])));
            continue;
        }
        let blocks = after("sack").into_iter().map(|block| {
            let (from, to) = block.split_once('-').expect("a block");
            (from.parse().expect("its start"), to.parse().expect("its end"))
        });
        answers.push(Answer { at, next: number, blocks: blocks.collect(), window: after("window")[0].parse().expect("bytes") });
    }
    (arrivals, answers)
}

/// What the simulator's receiver answers.
fn replay(arrivals: &[Arrival]) -> Vec<Answer> {
    let mut receiver = Receiver::new(0, ReceiverConfig::linux(1448));
    let mut answers = Vec::new();
    let mut note = |at: Time, ack: Option<Packet>, window: u64| {
        if let Some(ack) = ack {
            let blocks = ack.sack.iter().copied().filter(|block| block.0 < block.1).collect();
            answers.push(Answer { at, next: ack.seq, blocks, window });
        }
    };
    for &(at, seq, echo) in arrivals {
        if let Some(due) = receiver.deadline().filter(|due| *due <= at) {
            note(due, receiver.late_answer(due), receiver.quick.window());
        }
        let segment = Packet { seq, echo, ..Packet::new(0, Kind::Data, 1448 + TCP_HEADER, at) };
        note(at, receiver.answer_to(&segment, at), receiver.quick.window());
    }
    if let Some(due) = receiver.deadline() {
        note(due, receiver.late_answer(due), receiver.quick.window());
    }
    answers
}

/// The kernel's timers tick each 4 ms, and the machine that recorded was busy.
const LATE: Span = Span::from_millis(15);

fn compare(name: &str, problems: &mut Vec<String>) {
    let (arrivals, theirs) = read(name);
    let ours = replay(&arrivals);
    for (n, (a, b)) in ours.iter().zip(&theirs).enumerate() {
        if (a.next, &a.blocks) != (b.next, &b.blocks) || b.at.since(a.at) > LATE || a.at.since(b.at) > LATE {
            problems.push(format!("{name}, {n}: {a:?} here, {b:?} in Linux"));
        }
    }
    if ours.len() != theirs.len() {
        problems.push(format!("{name}: {} acknowledgements here, {} in Linux", ours.len(), theirs.len()));
    }
    // Segments that merge in the queue, as at a hole, leave room for another step there.
    let merge = theirs.iter().any(|answer| !answer.blocks.is_empty());
    if !merge && greatest(&ours) != greatest(&theirs) {
        problems.push(format!("{name}: a window of {} here, {} in Linux", greatest(&ours), greatest(&theirs)));
    }
}

#[test]
fn acknowledgements_are_those_of_linux() {
    let mut problems = Vec::new();
    for name in ["quick-then-delayed", "pause", "holes", "duplicates"] {
        compare(name, &mut problems);
    }
    assert!(problems.is_empty(), "{problems:#?}");
}

/// The greatest window of these as its field says it: rounded up to 2^10 (`__tcp_select_window`).
fn greatest(answers: &[Answer]) -> u64 {
    answers.iter().map(|a| a.window.next_multiple_of(1 << 10)).max().unwrap_or(0)
}

/// Linux's clock for round trips ticks each ms here, so that a round trip may end a segment earlier or later than ours: with 20 segments
/// in the second one the window differs by a tenth in the next, and so does the number of segments that are answered alone. It ends
/// where the sender's rate stands still.
#[test]
fn as_many_acknowledgements_leave_at_once_while_the_window_grows() {
    let (arrivals, theirs) = read("slow-start");
    let ours = replay(&arrivals);
    let until = |answers: &[Answer], at: Time| answers.iter().filter(|a| a.at <= at).count();
    for &(at, seq, _) in &arrivals {
        let (n, recorded) = (until(&ours, at), until(&theirs, at));
        assert!(n.abs_diff(recorded) <= 4 + recorded / 8, "at segment {seq}: {n} acknowledgements here, {recorded} in Linux");
    }
    assert!(ours.len().abs_diff(theirs.len()) <= theirs.len() / 32, "{} here, {} in Linux", ours.len(), theirs.len());
    assert_eq!(greatest(&ours), greatest(&theirs));
}
