//! What a run did, as one line and as the JSON of `--json`. Knows neither groups nor BPF programs.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::fchown;
use std::path::{Path, PathBuf};

use anyhow::Context;
use lowtide_kernel::Totals;
use lowtide_units::{Rate, Span};
use serde::Serialize;

use super::user::Caller;
use crate::human;
use crate::share::Group;

/// The JSON of `--json`; fields are only ever added.
#[derive(Debug, Default, Serialize)]
pub struct Summary {
    pub schema: u32,
    /// False where --best-effort ran it without lowtide, or it did not start.
    pub managed: bool,
    pub name: String,
    pub what: String,
    pub target: String,
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
    /// Connections whose window scale nobody could tell: not managed.
    pub connections_left_alone: u64,
    pub retransmissions: u64,
    pub losses: u64,
    pub slowdowns: u64,
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
            dscp_le,
            seconds: group.running_s,
            bytes: totals.bytes,
            mean_rate_bps: Rate::from_bytes_over(totals.bytes, Span::from_secs_f64(group.running_s)).bps(),
            yielded_s: totals.yielded.secs_f64(),
            added_delay_ms: totals.mean_queueing_delay.map(Span::millis_f64),
            connections: totals.flows,
            connections_left_alone: totals.unmanaged,
            retransmissions: totals.retransmissions,
            losses: totals.losses,
            slowdowns: totals.slowdowns,
            exit_code,
        }
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.bytes {
            0 => write!(f, "nothing was received over TCP in {}", human::span(self.seconds))?,
            bytes => write!(
                f,
                "received {} in {}, mean {}; yielded {}; added delay {} ms",
                human::bytes(bytes),
                human::span(self.seconds),
                human::rate(self.mean_rate_bps),
                human::span(self.yielded_s),
                human::ms(self.added_delay_ms),
            )?,
        }
        match self.connections_left_alone {
            0 => Ok(()),
            n => write!(f, "; {n} connection(s) left alone: open before lowtide came, window scale unknown"),
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
        let left_alone = summary(Totals { unmanaged: 2, ..totals }).to_string();
        assert!(left_alone.starts_with(line) && left_alone.contains("2 connection(s) left alone"), "{left_alone}");
        assert_eq!(summary(Totals::default()).to_string(), "nothing was received over TCP in 42.0 s");
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
