//! How a transfer goes: a line on a terminal, and what is said at its end. Knows no protocol.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use serde::Serialize;

/// The line is drawn anew this often.
const EVERY: Duration = Duration::from_millis(250);

/// A transfer's progress.
pub struct Progress {
    began: Instant,
    drawn: Instant,
    shows: bool,
    /// Bytes that came over the connection.
    pub moved: u64,
    total: Option<u64>,
}

/// What is said of a transfer at its end, and what `--json` prints.
#[derive(Debug, Serialize)]
pub struct Summary {
    /// The files, with their sizes and sums.
    pub files: Vec<Moved>,
    /// Bytes of the files that came over the connection, less what was there before.
    pub bytes: u64,
    /// From the first message to the last.
    pub seconds: f64,
    /// Their quotient.
    pub goodput_bps: f64,
    /// The connection was encrypted.
    pub encrypted: bool,
    /// Packets sent again by this end.
    pub retransmits: u64,
    /// Smoothed RTT, if this end measured one.
    pub rtt_ms: f64,
}

/// One file of a transfer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Moved {
    /// Its path as it was offered.
    pub path: String,
    /// Its size.
    pub bytes: u64,
    /// Of it so much was there before.
    pub resumed_at: u64,
    /// Its sum, equal at both ends.
    pub sha256: String,
}

impl Progress {
    /// Begins now; `shows` if somebody looks and does not want JSON.
    #[expect(clippy::disallowed_methods, reason = "a transfer takes real time")]
    pub fn new(total: Option<u64>, json: bool) -> Progress {
        let now = Instant::now();
        Progress { began: now, drawn: now, shows: !json && std::io::stderr().is_terminal(), moved: 0, total }
    }

    /// `bytes` more.
    pub fn add(&mut self, bytes: usize) {
        self.moved += bytes as u64;
        if self.shows && self.drawn.elapsed() >= EVERY {
            self.drawn += self.drawn.elapsed();
            let of = self.total.map_or(String::new(), |total| format!(" of {:.1}", total as f64 / 1e6));
            let rate = self.moved as f64 / self.began.elapsed().as_secs_f64() / 1e6;
            // A terminal that has gone is no reason to stop.
            let _ = write!(std::io::stderr(), "\r{:.1}{of} MB, {rate:.1} MB/s\x1b[K", self.moved as f64 / 1e6);
        }
    }

    /// It is over.
    pub fn end(&mut self) -> Duration {
        self.clear();
        self.began.elapsed()
    }

    fn clear(&mut self) {
        if std::mem::take(&mut self.shows) {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.clear();
    }
}
