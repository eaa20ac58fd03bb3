//! The transcript's text.

use std::path::Path;
use std::str::FromStr;

use lowtide_units::Span;

use crate::tcp::sender::LossRecovery;

/// What happens at a time.
#[derive(Debug)]
pub enum Event {
    /// The application writes so many segments.
    Write(u64),
    /// Segments leave, again or not; the first one may answer a mark.
    Sent { from: u32, to: u32, again: bool, cwr: bool },
    /// An empty probe of the peer's window leaves.
    WindowProbe,
    /// An acknowledgement arrives.
    Ack(Answer),
    /// Nothing more has left.
    Quiet,
}

/// An acknowledgement, and the window after it.
#[derive(Debug)]
pub struct Answer {
    pub seq: u32,
    /// Whose timestamp it echoes: a transmission's number.
    pub echo: usize,
    pub sack: Vec<(u32, u32)>,
    pub ece: bool,
    pub window: Option<u32>,
    pub cwnd: Option<f64>,
    pub ssthresh: Option<f64>,
    pub srtt_us: Option<f64>,
}

/// A file.
#[derive(Debug, Default)]
pub struct Transcript {
    pub cc: String,
    pub recovery: LossRecovery,
    pub mss: u32,
    pub handshake: Span,
    pub window: u32,
    pub ecn: bool,
    /// Line, time in ms, event.
    pub events: Vec<(usize, f64, Event)>,
}

impl Transcript {
    pub fn read(path: &Path) -> Transcript {
        let text = std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let handshake = Span::from_millis(100);
        let mut t = Transcript { cc: "reno".to_owned(), mss: 1448, window: 1 << 30, handshake, ..Transcript::default() };
        for (number, line) in text.lines().enumerate() {
            let words: Vec<&str> = line.split('#').next().unwrap_or_default().split_whitespace().collect();
            let Some((first, rest)) = words.split_first() else { continue };
            let value = rest.first().copied().unwrap_or_default();
            match *first {
                "cc" => t.cc = value.to_owned(),
                "mss" => t.mss = number_of(value),
                "handshake_us" => t.handshake = Span::from_micros(number_of(value)),
                "window" => t.window = number_of(value),
                "ecn" => t.ecn = true,
                "recovery" if value == "newreno" => t.recovery = LossRecovery::NewReno,
                "recovery" => t.recovery = LossRecovery::Sack,
                time => t.events.push((number + 1, number_of(time), event(rest))),
            }
        }
        t
    }
}

fn number_of<T: FromStr>(word: &str) -> T {
    word.parse().unwrap_or_else(|_| panic!("no number: {word}"))
}

fn range(word: &str) -> (u32, u32) {
    let (from, to) = word.split_once('-').unwrap_or((word, word));
    (number_of(from), number_of(to))
}

fn event(words: &[&str]) -> Event {
    match words {
        ["write", segments] => Event::Write(number_of(segments)),
        ["quiet"] => Event::Quiet,
        [">", "probe"] => Event::WindowProbe,
        [">", segments, how @ ..] => {
            let (from, to) = range(segments);
            Event::Sent { from, to: to + 1, again: how.contains(&"again"), cwr: how.contains(&"cwr") }
        }
        ["<", seq, what @ ..] => {
            let after = |key: &str| what.iter().position(|&w| w == key).map(|n| what[n + 1]);
            let blocks = what.iter().enumerate().filter(|(_, w)| **w == "sack").map(|(n, _)| range(what[n + 1]));
            Event::Ack(Answer {
                seq: number_of(seq),
                echo: after("echo").map_or(usize::MAX, number_of),
                sack: blocks.collect(),
                ece: what.contains(&"ece"),
                window: after("window").map(number_of),
                cwnd: after("cwnd").map(number_of),
                ssthresh: after("ssthresh").filter(|&word| word != "-").map(number_of),
                srtt_us: after("srtt_us").map(number_of),
            })
        }
        other => panic!("no event: {other:?}"),
    }
}
