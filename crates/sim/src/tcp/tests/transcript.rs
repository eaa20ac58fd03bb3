//! Transcripts in the manner of packetdrill: a file says when the application writes, which acknowledgements arrive, what leaves
//! and how large the window is afterwards. The format is in tests/transcripts/README.md. Those named `linux-…` were recorded from
//! a kernel by scripts/record-tcp.

mod script;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use lowtide_cc::registry;
use lowtide_units::{Span, Time};

use crate::packet::{Kind, Packet};
use crate::pair::Sending as _;
use crate::tcp::sender::{LossRecovery, Sender, SenderConfig};
use script::{Answer, Event, Transcript};

/// How far a replay may be from the transcript.
struct Tolerance {
    /// Of the window, in segments.
    window: f64,
    /// Of the smoothed RTT, relative.
    srtt: f64,
    /// Segments that may leave an acknowledgement sooner or later.
    sent: usize,
    /// Neighbours that may change places.
    swapped: usize,
    /// Timers may be late, as a kernel's are: by two ticks of 4 ms and what the timer wheel rounds up, an eighth of the wait, here at
    /// most 64 ms.
    late_timers: bool,
}

const EXACT: Tolerance = Tolerance { window: 0.01, srtt: 0.001, sent: 0, swapped: 0, late_timers: false };
/// Against a kernel: one segment; the order is the same.
const KERNEL: Tolerance = Tolerance { window: 1.0, srtt: 0.05, sent: 1, swapped: 0, late_timers: true };
/// BBR paces by a rate that it estimates from times, the kernel's to the microsecond: what waits for the pacer may be overtaken by one
/// acknowledgement, and three segments (a burst's worth) may leave sooner or later.
const PACED: Tolerance = Tolerance { sent: 3, swapped: 1, ..KERNEL };
const LATE: Span = Span::from_millis(2 * 4 + 64);

/// A sender that goes through a transcript.
struct Replay {
    sender: Sender,
    mss: u32,
    window: u32,
    now: Time,
    /// When each transmission left, by its number from 1 on.
    left: Vec<Time>,
    /// What has left and was not compared yet; what the transcript has seen leave: line, segment, again, CWR.
    sent: Vec<Packet>,
    expected: Vec<(usize, u32, bool, bool)>,
    problems: Vec<String>,
}

impl Replay {
    fn new(t: &Transcript) -> Replay {
        let name = if t.cc == "bbr" { "bbr1" } else { &t.cc };
        let algorithm = registry::by_name(name).unwrap_or_else(|e| panic!("{e}"));
        let now = Time::from_millis(1000);
        let start = lowtide_cc::Start { now, mss: t.mss, handshake_rtt: Some(t.handshake), ..Default::default() };
        let cc = algorithm.build(&Default::default(), &start).unwrap_or_else(|e| panic!("{e}"));
        let config = match t.recovery {
            LossRecovery::Linux => SenderConfig::linux(t.mss),
            rfc => SenderConfig::rfc(t.mss, rfc),
        };
        let sender = Sender::new(0, SenderConfig { ecn: t.ecn, ..config }, cc, Some(t.handshake), u64::from(t.window));
        let (sent, expected, problems) = (Vec::new(), Vec::new(), Vec::new());
        Replay { sender, mss: t.mss, window: t.window, now, left: vec![now], sent, expected, problems }
    }

    fn poll(&mut self) {
        while let Some(packet) = self.sender.next(self.now) {
            self.left.push(self.now);
            self.sent.push(packet);
        }
    }

    /// Lets the pacer run up to `at`; the timer waits for [`expire`](Self::expire).
    fn pace(&mut self, at: Time) {
        while let Some(due) = self.sender.paced_until().filter(|&due| due <= at) {
            self.now = due.max(self.now);
            self.sender.on_pacer(due);
            self.poll();
        }
        self.now = at;
    }

    /// Whether the timer was due by `at`.
    fn expire(&mut self, at: Time) -> bool {
        let due = self.sender.timer_at().is_some_and(|due| due <= at);
        if due {
            self.sender.on_timer(at);
            self.poll();
        }
        due
    }

    fn play(&mut self, line: usize, at: Time, event: &Event, tolerance: &Tolerance) {
        self.pace(at);
        match event {
            Event::Write(segments) => {
                self.sender.write(segments * u64::from(self.mss));
                self.poll();
            }
            &Event::Sent { from, to, again, cwr } => {
                if self.sent.len() <= self.expected.len() {
                    self.expire(at);
                }
                self.expected.extend((from..to).map(|seq| (line, seq, again, cwr && seq == from)));
            }
            Event::WindowProbe => {
                if !self.expire(at) || self.sent.pop().is_none_or(|probe| probe.payload() > 0) {
                    self.problem(line, format!("no window probe; the timer is {:?}", self.sender.timer_at()));
                }
            }
            Event::Quiet => self.compare(tolerance, line, at),
            Event::Ack(answer) => {
                self.compare(tolerance, line, at);
                self.answer(line, at, answer, tolerance);
            }
        }
    }

    /// An acknowledgement arrives; the window is as it says.
    fn answer(&mut self, line: usize, at: Time, answer: &Answer, tolerance: &Tolerance) {
        let mut ack = Packet::new(0, Kind::Ack, 0, at);
        (ack.seq, ack.ece, ack.window) = (answer.seq, answer.ece, answer.window.unwrap_or(self.window));
        ack.echo = self.left.get(answer.echo).copied().unwrap_or(at);
        ack.sack.iter_mut().zip(&answer.sack).for_each(|(slot, &block)| *slot = block);
        self.sender.on_ack(&ack, at);
        self.poll();
        let segments = |bytes: u64| bytes as f64 / f64::from(self.mss);
        let cwnd = segments(self.sender.window());
        let threshold = self.sender.snapshot().ssthresh.map(segments);
        if answer.cwnd.is_some_and(|wanted| (wanted - cwnd).abs() > tolerance.window) {
            self.problem(line, format!("cwnd {cwnd:.2} for {:?}", answer.cwnd));
        }
        let srtt_us = self.sender.srtt().nanos() as f64 / 1e3;
        if answer.srtt_us.is_some_and(|wanted| (wanted - srtt_us).abs() > tolerance.srtt * wanted) {
            self.problem(line, format!("srtt {srtt_us:.0} us for {:?}", answer.srtt_us));
        }
        // BBR's threshold means nothing to itself and is not told.
        if answer.ssthresh.is_some_and(|wanted| threshold.is_some_and(|has| (has - wanted).abs() > tolerance.window)) {
            self.problem(line, format!("ssthresh {threshold:?} for {:?}", answer.ssthresh));
        }
    }

    /// What has left since the last acknowledgement against what should have.
    fn compare(&mut self, tolerance: &Tolerance, line: usize, at: Time) {
        let slack = if tolerance.late_timers { LATE } else { Span::ZERO };
        if let Some(due) = self.sender.timer_at().filter(|&due| due + slack < at) {
            self.problem(line, format!("a timer was due at {due}"));
            self.expire(at);
        }
        let mut early = Vec::new();
        for packet in std::mem::take(&mut self.sent) {
            let has = (packet.seq, packet.retransmission, packet.cwr);
            let mut near = self.expected.iter().take(1 + tolerance.swapped);
            if let Some(place) = near.position(|&(_, seq, again, cwr)| has == (seq, again, cwr)) {
                self.expected.remove(place);
            } else if self.expected.is_empty() || early.len() < tolerance.swapped {
                early.push(packet);
            } else {
                let (line, seq, again, cwr) = self.expected.remove(0);
                let text = format!("(segment, again, cwr) {has:?} left, not {:?}; {}", (seq, again, cwr), self.sender.describe());
                self.problem(line, text);
            }
        }
        self.sent = early;
        if self.sent.len().max(self.expected.len()) > tolerance.sent {
            let sent: Vec<u32> = self.sent.drain(..).map(|p| p.seq).collect();
            let missing: Vec<u32> = self.expected.drain(..).map(|e| e.1).collect();
            self.problem(line, format!("{sent:?} left in addition, {missing:?} did not; {}", self.sender.describe()));
        }
    }

    fn problem(&mut self, line: usize, text: String) {
        self.problems.push(format!("line {line}: {text}"));
    }
}

fn replay(path: &Path, tolerance: &Tolerance) -> Result<(), String> {
    let t = Transcript::read(path);
    let mut r = Replay::new(&t);
    for (line, ms, event) in &t.events {
        r.play(*line, Time::from_secs_f64(1.0 + ms / 1e3), event, tolerance);
        if r.problems.len() > 8 {
            break;
        }
    }
    if r.problems.is_empty() { Ok(()) } else { Err(format!("{}:\n  {}", path.display(), r.problems.join("\n  "))) }
}

fn transcripts() -> BTreeMap<String, PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/transcripts");
    let entries = std::fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let files = entries.map(|entry| entry.expect("a readable folder").path());
    let named = files.filter_map(|path| Some((path.file_stem()?.to_str()?.to_owned(), path)));
    named.filter(|(_, path)| path.extension().is_some_and(|e| e == "txt")).collect()
}

fn replay_all(which: impl Fn(&str) -> bool, tolerance: &Tolerance) {
    let files: Vec<PathBuf> = transcripts().into_iter().filter(|(name, _)| which(name)).map(|(_, path)| path).collect();
    assert!(!files.is_empty(), "no such transcript");
    let problems: Vec<String> = files.iter().filter_map(|path| replay(path, tolerance).err()).collect();
    assert!(problems.is_empty(), "{} of {} differ:\n{}", problems.len(), files.len(), problems.join("\n"));
}

#[test]
fn what_linux_sent_with_reno_is_sent() {
    replay_all(|name| name.starts_with("linux-") && name.ends_with("-reno"), &KERNEL);
}

#[test]
fn what_linux_sent_with_cubic_is_sent() {
    replay_all(|name| name.starts_with("linux-") && name.ends_with("-cubic"), &KERNEL);
}

#[test]
fn what_linux_sent_with_bbr_is_sent() {
    replay_all(|name| name.starts_with("linux-") && name.ends_with("-bbr"), &PACED);
}

#[test]
fn what_is_written_down_is_sent_exactly() {
    replay_all(|name| !name.starts_with("linux-"), &EXACT);
}
