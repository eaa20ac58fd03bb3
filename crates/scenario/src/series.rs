//! Time series as Parquet: `flows.parquet` and `queues.parquet`. Knows the columns; not who sampled them, nor why.
//!
//! One row a point, in order of time. Column names carry their unit and are an interface like `summary.json`'s.

use std::borrow::Cow;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;

use parquet::basic::Compression;
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::record::{Row, RowAccessor};
use parquet::schema::parser::parse_message_type;

/// What was seen over time. What does not apply to a point is NaN, in Parquet too.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Series {
    /// Points of flows.
    pub flows: Vec<FlowPoint>,
    /// Points of bottlenecks.
    pub queues: Vec<QueuePoint>,
}

/// One flow at one time.
#[derive(Clone, Debug, PartialEq)]
pub struct FlowPoint {
    /// Since the scenario's start.
    pub time_s: f64,
    /// The flow's name, as in the summary.
    pub flow: Cow<'static, str>,
    /// Payload delivered since the last point, per second.
    pub goodput_bps: f64,
    /// The sender's congestion window.
    pub cwnd_bytes: f64,
    /// Its slow-start threshold.
    pub ssthresh_bytes: f64,
    /// The window that the receiver grants (rLEDBAT).
    pub rwnd_bytes: f64,
    /// The RTT that the flow sees: smoothed for TCP, per packet for a probe.
    pub rtt_ms: f64,
    /// The algorithm's state, empty where it has none.
    pub phase: Cow<'static, str>,
    /// The queueing delay that the algorithm believes in, where it estimates one.
    pub queueing_ms: f64,
    /// How long its packets waited in the queues they left since the last point, on average.
    pub wait_ms: f64,
    /// Acknowledgements that moved its window since the last point.
    pub acks: f64,
}

/// One bottleneck at one time.
#[derive(Clone, Debug, PartialEq)]
pub struct QueuePoint {
    /// Since the scenario's start.
    pub time_s: f64,
    /// The bottleneck's name, as in the summary.
    pub bottleneck: Cow<'static, str>,
    /// Bytes waiting.
    pub queue_bytes: f64,
    /// Packets waiting.
    pub queue_packets: f64,
    /// How long a packet that arrives now waits.
    pub queue_delay_ms: f64,
    /// Packets that its queue dropped since the last point.
    pub drops: f64,
}

impl FlowPoint {
    /// A point at which nothing is known yet.
    pub fn at(time_s: f64, flow: impl Into<Cow<'static, str>>) -> FlowPoint {
        let none = f64::NAN;
        FlowPoint {
            time_s,
            flow: flow.into(),
            goodput_bps: none,
            cwnd_bytes: none,
            ssthresh_bytes: none,
            rwnd_bytes: none,
            rtt_ms: none,
            phase: Cow::Borrowed(""),
            queueing_ms: none,
            wait_ms: none,
            acks: none,
        }
    }
}

/// The file of the flows' points in a result's folder.
pub const FLOWS: &str = "flows.parquet";
/// The file of the bottlenecks' points.
pub const QUEUES: &str = "queues.parquet";

const FLOWS_SCHEMA: &str = "message flows { required double time_s; required binary flow (UTF8); required double goodput_bps; \
required double cwnd_bytes; required double ssthresh_bytes; required double rwnd_bytes; required double rtt_ms; \
required binary phase (UTF8); required double queueing_ms; required double wait_ms; required double acks; }";
const QUEUES_SCHEMA: &str = "message queues { required double time_s; required binary bottleneck (UTF8); \
required double queue_bytes; required double queue_packets; required double queue_delay_ms; required double drops; }";

/// The names of all columns.
#[cfg(test)]
pub(crate) fn columns() -> Vec<&'static str> {
    let words = FLOWS_SCHEMA.split(';').chain(QUEUES_SCHEMA.split(';'));
    words.filter_map(|column| column.trim_end_matches("(UTF8)").split_whitespace().last()).filter(|name| *name != "}").collect()
}

impl Series {
    /// Writes both files into `dir`.
    ///
    /// # Errors
    /// A folder that cannot be written.
    pub fn write(&self, dir: &Path) -> io::Result<()> {
        write(&dir.join(FLOWS), FLOWS_SCHEMA, |group| {
            reals(group, self.flows.iter().map(|p| p.time_s))?;
            texts(group, self.flows.iter().map(|p| &*p.flow))?;
            reals(group, self.flows.iter().map(|p| p.goodput_bps))?;
            reals(group, self.flows.iter().map(|p| p.cwnd_bytes))?;
            reals(group, self.flows.iter().map(|p| p.ssthresh_bytes))?;
            reals(group, self.flows.iter().map(|p| p.rwnd_bytes))?;
            reals(group, self.flows.iter().map(|p| p.rtt_ms))?;
            texts(group, self.flows.iter().map(|p| &*p.phase))?;
            reals(group, self.flows.iter().map(|p| p.queueing_ms))?;
            reals(group, self.flows.iter().map(|p| p.wait_ms))?;
            reals(group, self.flows.iter().map(|p| p.acks))
        })?;
        write(&dir.join(QUEUES), QUEUES_SCHEMA, |group| {
            reals(group, self.queues.iter().map(|p| p.time_s))?;
            texts(group, self.queues.iter().map(|p| &*p.bottleneck))?;
            reals(group, self.queues.iter().map(|p| p.queue_bytes))?;
            reals(group, self.queues.iter().map(|p| p.queue_packets))?;
            reals(group, self.queues.iter().map(|p| p.queue_delay_ms))?;
            reals(group, self.queues.iter().map(|p| p.drops))
        })
    }

    /// Reads what [`Series::write`] wrote; none if `dir` holds no series.
    ///
    /// # Errors
    /// A file that is not Parquet or lacks a column.
    pub fn read(dir: &Path) -> io::Result<Option<Series>> {
        if !dir.join(FLOWS).exists() {
            return Ok(None);
        }
        let flows = read(&dir.join(FLOWS), |row| {
            Ok(FlowPoint {
                time_s: row.get_double(0)?,
                flow: Cow::Owned(row.get_string(1)?.clone()),
                goodput_bps: row.get_double(2)?,
                cwnd_bytes: row.get_double(3)?,
                ssthresh_bytes: row.get_double(4)?,
                rwnd_bytes: row.get_double(5)?,
                rtt_ms: row.get_double(6)?,
                phase: Cow::Owned(row.get_string(7)?.clone()),
                // Results from before these columns lack them.
                queueing_ms: row.get_double(8).unwrap_or(f64::NAN),
                wait_ms: row.get_double(9).unwrap_or(f64::NAN),
                acks: row.get_double(10).unwrap_or(f64::NAN),
            })
        })?;
        let queues = read(&dir.join(QUEUES), |row| {
            Ok(QueuePoint {
                time_s: row.get_double(0)?,
                bottleneck: Cow::Owned(row.get_string(1)?.clone()),
                queue_bytes: row.get_double(2)?,
                queue_packets: row.get_double(3)?,
                queue_delay_ms: row.get_double(4)?,
                drops: row.get_double(5).unwrap_or(f64::NAN),
            })
        })?;
        Ok(Some(Series { flows, queues }))
    }
}

type Group<'a> = SerializedRowGroupWriter<'a, File>;

fn write(path: &Path, schema: &str, fill: impl FnOnce(&mut Group<'_>) -> Result<(), ParquetError>) -> io::Result<()> {
    let named = |e: ParquetError| io::Error::other(format!("{}: {e}", path.display()));
    let schema = Arc::new(parse_message_type(schema).map_err(named)?);
    let properties = Arc::new(WriterProperties::builder().set_compression(Compression::SNAPPY).build());
    let mut writer = SerializedFileWriter::new(File::create(path)?, schema, properties).map_err(named)?;
    let mut group = writer.next_row_group().map_err(named)?;
    fill(&mut group).map_err(named)?;
    group.close().map_err(named)?;
    writer.close().map_err(named)?;
    Ok(())
}

/// The next column, of numbers.
fn reals(group: &mut Group<'_>, values: impl Iterator<Item = f64>) -> Result<(), ParquetError> {
    let mut column = group.next_column()?.ok_or_else(|| ParquetError::General("more columns than the schema has".to_owned()))?;
    column.typed::<DoubleType>().write_batch(&values.collect::<Vec<_>>(), None, None)?;
    column.close()
}

/// The next column, of text.
fn texts<'a>(group: &mut Group<'_>, values: impl Iterator<Item = &'a str>) -> Result<(), ParquetError> {
    let mut column = group.next_column()?.ok_or_else(|| ParquetError::General("more columns than the schema has".to_owned()))?;
    column.typed::<ByteArrayType>().write_batch(&values.map(ByteArray::from).collect::<Vec<_>>(), None, None)?;
    column.close()
}

fn read<T>(path: &Path, point: impl Fn(&Row) -> Result<T, ParquetError>) -> io::Result<Vec<T>> {
    let named = |e: ParquetError| io::Error::new(io::ErrorKind::InvalidData, format!("{}: {e}", path.display()));
    let reader = SerializedFileReader::new(File::open(path)?).map_err(named)?;
    let rows = reader.get_row_iter(None).map_err(named)?;
    rows.map(|row| row.and_then(|row| point(&row)).map_err(named)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_survive_being_written() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let flows: Vec<FlowPoint> = (0..10_000)
            .map(|i| FlowPoint {
                goodput_bps: f64::from(i) * 0.1,
                cwnd_bytes: 2896.0,
                ssthresh_bytes: 1e9,
                rwnd_bytes: 65_535.0,
                rtt_ms: 20.125,
                queueing_ms: 3.5,
                wait_ms: 2.25,
                acks: 7.0,
                phase: Cow::Borrowed(if i % 2 == 0 { "slow-start" } else { "" }),
                ..FlowPoint::at(f64::from(i), ["bulk", "call"][i as usize % 2])
            })
            .collect();
        let queue = QueuePoint {
            time_s: 0.1,
            bottleneck: "forward".into(),
            queue_bytes: 3000.0,
            queue_packets: 2.0,
            queue_delay_ms: 1.2,
            drops: 3.0,
        };
        let series = Series { flows, queues: vec![queue] };
        series.write(dir.path()).expect("writable");
        assert_eq!(Series::read(dir.path()).expect("readable"), Some(series));
    }

    #[test]
    fn what_is_unknown_is_nan_and_no_series_is_none() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        assert_eq!(Series::read(dir.path()).expect("nothing to read"), None);
        Series { flows: vec![FlowPoint::at(1.0, "a")], queues: Vec::new() }.write(dir.path()).expect("writable");
        let read = Series::read(dir.path()).expect("readable").expect("there");
        assert!(read.flows[0].cwnd_bytes.is_nan() && read.flows[0].phase.is_empty() && read.queues.is_empty());
        std::fs::write(dir.path().join(FLOWS), "no parquet").expect("writable");
        assert!(Series::read(dir.path()).expect_err("no parquet").to_string().contains(FLOWS));
    }
}
