//! The series of a run as a CSV file: a row a flow or bottleneck and instant. Knows no simulator but its outcome.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use lowtide_sim::Outcome;

/// Writes `path`.
///
/// # Errors
/// A file that cannot be written.
pub fn write(path: &Path, outcome: &Outcome) -> io::Result<()> {
    let mut out = BufWriter::new(File::create(path)?);
    writeln!(out, "time_s,kind,name,goodput_bps,cwnd_bytes,ssthresh_bytes,srtt_ms,phase,queue_bytes,queue_packets")?;
    let interval = outcome.series.interval.secs_f64();
    let at = |n: usize| (n + 1) as f64 * interval;
    for (flow, points) in outcome.summary.flows.iter().zip(&outcome.series.flows) {
        for (n, p) in points.iter().enumerate() {
            let (goodput, srtt) = (p.goodput_bps, p.srtt_ms);
            writeln!(out, "{:.1},flow,{},{goodput:.0},{},{},{srtt:.3},{},,", at(n), flow.name, p.cwnd, p.ssthresh, p.phase)?;
        }
    }
    for (bottleneck, points) in outcome.summary.bottlenecks.iter().zip(&outcome.series.queues) {
        for (n, p) in points.iter().enumerate() {
            writeln!(out, "{:.1},queue,{},,,,,,{},{}", at(n), bottleneck.name, p.bytes, p.packets)?;
        }
    }
    out.flush()
}
