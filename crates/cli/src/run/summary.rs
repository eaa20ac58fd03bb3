//! What a run did, as one line and as the JSON of `--json`. Knows neither groups nor BPF programs.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::fchown;
use std::path::{Path, PathBuf};

use anyhow::Context;
use lowtide_kernel::{LeftAlone, Totals};
use lowtide_units::{Rate, Span};
use serde::Serialize;

use super::user::Caller;
use crate::human;
use crate::status_socket::{Group, Sending, WORTH_TELLING};

/// The JSON of `--json`; fields are only ever added.
#[derive(Debug, Default, Serialize)]
pub struct Summary {
    pub schema: u32,
    /// False where --best-effort ran it without lowtide, or it did not start.
    pub managed: bool,
    pub name: String,
    pub what: String,
    pub target: String,
    pub receives_by: String,
    pub sends_by: String,
    pub dscp_le: bool,
    pub seconds: f64,
    /// TCP payload received, each byte once.
    pub bytes: u64,
    pub mean_rate_bps: u64,
    /// Summed over paths: the delay was above the target and the window gave way.
    pub yielded_s: f64,
    /// The mean queueing delay of all samples.
    pub added_delay_ms: Option<f64>,
    pub connections: u64,
    /// Connections that did not yield, or not for a time; `left_alone` says why.
    pub connections_left_alone: u64,
    pub left_alone: LeftAlone,
    /// Why what was received was not held back.
    pub not_held_back: Option<String>,
    /// What was not done, and why: the kernel refuses a program that the rest works without.
    pub lacking: Vec<String>,
    /// Why what connections received that were open when their process joined was not held back.
    pub open_before_not_held_back: Option<String>,
    /// Acknowledgements that left with a smaller window than the kernel's.
    pub acks_lowered: u64,
    /// Packets of managed connections, received and sent, that could not be read and passed as they were.
    pub packets_unparsed: u64,
    pub retransmissions: u64,
    pub losses: u64,
    pub slowdowns: u64,
    /// The same of what was sent.
    pub sent: Sending,
    pub exit_code: u8,
}

impl Summary {
    /// `totals` is none for what was not managed.
    pub fn new(dscp_le: bool, group: Group, totals: Option<Totals>, exit_code: u8) -> Summary {
        let managed = totals.is_some();
        let totals = totals.unwrap_or_default();
        Summary {
            schema: 1,
            managed,
            name: group.name,
            what: group.what,
            target: group.target,
            receives_by: group.receives_by,
            sends_by: group.sends_by,
            dscp_le,
            seconds: group.running_s,
            bytes: totals.bytes,
            mean_rate_bps: Rate::from_bytes_over(totals.bytes, Span::from_secs_f64(group.running_s)).bps(),
            yielded_s: totals.yielded.secs_f64(),
            added_delay_ms: totals.mean_queueing_delay.map(Span::millis_f64),
            connections: totals.flows,
            connections_left_alone: totals.left_alone.total(),
            left_alone: totals.left_alone,
            not_held_back: group.not_held_back,
            lacking: group.lacking,
            open_before_not_held_back: group.open_before_not_held_back,
            acks_lowered: totals.lowered,
            packets_unparsed: totals.unparsed + totals.unparsed_sent,
            retransmissions: totals.retransmissions,
            losses: totals.losses,
            slowdowns: totals.slowdowns,
            sent: Sending {
                rate_bps: Rate::from_bytes_over(group.sending.bytes, Span::from_secs_f64(group.running_s)).bps(),
                ..group.sending
            },
            exit_code,
        }
    }
}

impl Summary {
    fn line(&self, verb: &str, bytes: u64, rate_bps: u64, yielded_s: f64, delay_ms: Option<f64>) -> String {
        format!(
            "{verb} {} in {}, mean {}; yielded {}; added delay {} ms",
            human::bytes(bytes),
            human::span(self.seconds),
            human::rate(rate_bps),
            human::span(yielded_s),
            human::ms(delay_ms),
        )
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let down = self.bytes > 0 && self.bytes.saturating_mul(WORTH_TELLING) >= self.sent.bytes;
        let up = self.sent.bytes > 0 && self.sent.bytes.saturating_mul(WORTH_TELLING) >= self.bytes;
        let mut directions = Vec::new();
        if down {
            directions.push(self.line("received", self.bytes, self.mean_rate_bps, self.yielded_s, self.added_delay_ms));
        }
        if up {
            directions.push(self.line("sent", self.sent.bytes, self.sent.rate_bps, self.sent.yielded_s, self.sent.added_delay_ms));
        }
        match directions.as_slice() {
            [] if self.not_held_back.is_some() => write!(f, "nothing was sent over TCP in {}", human::span(self.seconds))?,
            [] if self.sent.not_held_back.is_some() => write!(f, "nothing was received over TCP in {}", human::span(self.seconds))?,
            [] => write!(f, "nothing was received or sent over TCP in {}", human::span(self.seconds))?,
            all => write!(f, "{}", all.join("; "))?,
        }
        for (verb, why) in [("received", &self.not_held_back), ("sent", &self.sent.not_held_back)] {
            if why.is_some() {
                write!(f, "; what it {verb} was NOT held back")?;
            }
        }
        if self.sent.connections_left_alone > 0 {
            write!(f, "; {} connection(s) kept their own congestion control", self.sent.connections_left_alone)?;
        }
        for (verb, why) in [("received", &self.open_before_not_held_back), ("sent", &self.sent.open_before_not_held_back)] {
            if let Some(why) = why {
                write!(f, "; what connections {verb} that were open before did NOT yield: {why}")?;
            }
        }
        match self.connections_left_alone {
            0 => Ok(()),
            n => write!(f, "; {n} connection(s) did NOT yield: {}", self.left_alone),
        }
    }
}

/// The file of `--json`, open before CMD starts: a path that cannot be written is known then, not after the download.
pub struct SummaryFile {
    file: File,
    path: PathBuf,
}

impl SummaryFile {
    /// A file that is made here belongs to the user behind sudo.
    pub fn open(path: &Path, owner: Option<&Caller>) -> anyhow::Result<SummaryFile> {
        let open = || match OpenOptions::new().write(true).create_new(true).open(path) {
            Ok(file) => owner.map_or(Ok(()), |o| fchown(&file, Some(o.uid.as_raw()), Some(o.gid.as_raw()))).map(|()| file),
            Err(e) if e.kind() == ErrorKind::AlreadyExists => OpenOptions::new().write(true).open(path),
            Err(e) => Err(e),
        };
        let file = open().with_context(|| format!("--json {}: cannot be written", path.display()))?;
        Ok(SummaryFile { file, path: path.to_owned() })
    }

    /// Replaces what was in it; a pipe or a terminal has nothing to replace.
    pub fn write(mut self, summary: &Summary) -> anyhow::Result<()> {
        let text = serde_json::to_string_pretty(summary)? + "\n";
        let write = |file: &mut File| {
            if file.metadata()?.is_file() {
                file.set_len(0)?;
            }
            file.write_all(text.as_bytes())
        };
        write(&mut self.file).with_context(|| format!("--json {}: cannot be written", self.path.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary(totals: Totals) -> Summary {
        Summary::new(false, Group { running_s: 42.0, ..Group::default() }, Some(totals), 0)
    }

    #[test]
    fn the_line_has_bytes_mean_rate_time_yielded_and_added_delay() {
        let totals = Totals {
            bytes: 105_000_000,
            yielded: Span::from_millis(12_300),
            mean_queueing_delay: Some(Span::from_micros(8_140)),
            ..Totals::default()
        };
        let line = "received 105 MB in 42.0 s, mean 20.0 Mbit/s; yielded 12.3 s; added delay 8.1 ms";
        assert_eq!(summary(totals).to_string(), line);
        let causes = LeftAlone { mptcp: 2, acks_unseen: 1, ..LeftAlone::default() };
        let left_alone = summary(Totals { left_alone: causes, ..totals }).to_string();
        assert!(
            left_alone.starts_with(line) && left_alone.contains("3 connection(s) did NOT yield: 2 Multipath TCP; 1 ack"),
            "{left_alone}"
        );
        assert_eq!(summary(Totals::default()).to_string(), "nothing was received or sent over TCP in 42.0 s");
    }

    #[test]
    fn an_upload_has_its_part_of_the_line_and_a_reply_to_it_has_none() {
        let sent = Sending { bytes: 105_000_000, rate_bps: 20_000_000, yielded_s: 3.0, added_delay_ms: Some(8.1), ..Sending::default() };
        let up = "sent 105 MB in 42.0 s, mean 20.0 Mbit/s; yielded 3.0 s; added delay 8.1 ms";
        let with = |bytes| Summary { sent: sent.clone(), ..summary(Totals { bytes, ..Totals::default() }) }.to_string();
        assert_eq!(with(1000), up);
        assert!(with(100_000_000).starts_with("received 100 MB") && with(100_000_000).ends_with(up), "{}", with(100_000_000));
    }

    #[test]
    fn what_is_not_held_back_is_told() {
        let sent = Sending { not_held_back: Some("no struct_ops".to_owned()), ..Sending::default() };
        let line = Summary { sent, ..summary(Totals { bytes: 1000, ..Totals::default() }) }.to_string();
        assert!(line.starts_with("received 1.00 kB") && line.contains("what it sent was NOT held back"), "{line}");
        let line = Summary { not_held_back: Some("no tcx".to_owned()), ..summary(Totals::default()) }.to_string();
        assert!(line.starts_with("nothing was sent") && line.contains("what it received was NOT held back"), "{line}");
    }

    #[test]
    fn the_file_is_replaced_at_the_end_not_at_the_start() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("run.json");
        std::fs::write(&path, "x".repeat(10_000)).expect("written");
        let file = SummaryFile::open(&path, None).expect("it can be written");
        assert_eq!(std::fs::metadata(&path).expect("there").len(), 10_000);
        file.write(&summary(Totals::default())).expect("written");
        let read: serde_json::Value = serde_json::from_slice(&std::fs::read(&path).expect("there")).expect("JSON");
        assert_eq!((&read["schema"], &read["managed"]), (&1.into(), &true.into()));
    }

    #[test]
    fn a_path_that_cannot_be_written_is_named_before_anything_runs() {
        let e = SummaryFile::open(Path::new("/no/such/folder/x.json"), None).map(drop).expect_err("no folder");
        assert!(format!("{e:#}").contains("/no/such/folder/x.json"), "{e:#}");
    }
}
