//! What happened to each packet, as Parquet: `events.parquet`. Written while a run goes on, in groups of rows. Knows the
//! columns; not who saw the packets, nor why.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parquet::basic::Compression;
use parquet::data_type::{ByteArray, ByteArrayType, DataType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::record::{Row, RowAccessor};
use parquet::schema::parser::parse_message_type;

/// The file in a result's folder.
pub const EVENTS: &str = "events.parquet";

const SCHEMA: &str = "message events { required int64 time_ns; required binary event (UTF8); required binary link (UTF8); \
required binary flow (UTF8); required binary packet (UTF8); required int64 connection; required int64 number; \
required int64 bytes; required int64 queue_bytes; required int64 queue_packets; }";

/// Rows of a group: some megabytes in memory.
const GROUP: usize = 1 << 16;

/// One thing that happened to one packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PacketEvent {
    /// Since the scenario's start.
    pub time_ns: u64,
    /// `send`, `enqueue`, `mark`, `dequeue`, `deliver`; a drop by its reason: `drop-overflow`, `drop-early`, `drop-loss`.
    pub event: &'static str,
    /// The bottleneck, by the summary's name; empty at the endpoints.
    pub link: Arc<str>,
    /// The flow, by the summary's name.
    pub flow: Arc<str>,
    /// `syn`, `syn-ack`, `data`, `resent`, `ack`, `datagram`.
    pub packet: &'static str,
    /// The how-manieth connection of the run it belongs to.
    pub connection: u32,
    /// Data: the segment's number. ACK: the next one expected. Datagram: its number.
    pub number: u32,
    /// Size of the IP packet.
    pub bytes: u32,
    /// Bytes waiting at the link after the event.
    pub queue_bytes: u64,
    /// Packets waiting at the link after the event.
    pub queue_packets: u64,
}

/// `events.parquet` while it is written.
pub struct EventWriter {
    path: PathBuf,
    writer: SerializedFileWriter<File>,
    rows: Vec<PacketEvent>,
}

impl EventWriter {
    /// A file without rows in `dir`.
    ///
    /// # Errors
    /// A folder that cannot be written.
    pub fn create(dir: &Path) -> io::Result<EventWriter> {
        let path = dir.join(EVENTS);
        let schema = Arc::new(parse_message_type(SCHEMA).map_err(|e| named(&path, &e))?);
        let properties = Arc::new(WriterProperties::builder().set_compression(Compression::SNAPPY).build());
        let writer = SerializedFileWriter::new(File::create(&path)?, schema, properties).map_err(|e| named(&path, &e))?;
        Ok(EventWriter { path, writer, rows: Vec::with_capacity(GROUP) })
    }

    /// One row more.
    ///
    /// # Errors
    /// A full disk.
    pub fn push(&mut self, event: PacketEvent) -> io::Result<()> {
        self.rows.push(event);
        if self.rows.len() == GROUP { self.flush() } else { Ok(()) }
    }

    /// The last rows and the footer, without which the file is none.
    ///
    /// # Errors
    /// A full disk.
    pub fn finish(mut self) -> io::Result<()> {
        self.flush()?;
        self.writer.close().map_err(|e| named(&self.path, &e))?;
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        let rows = std::mem::take(&mut self.rows);
        let mut write = || -> Result<(), ParquetError> {
            let mut group = self.writer.next_row_group()?;
            integers(&mut group, rows.iter().map(|r| r.time_ns as i64))?;
            texts(&mut group, rows.iter().map(|r| r.event))?;
            texts(&mut group, rows.iter().map(|r| &*r.link))?;
            texts(&mut group, rows.iter().map(|r| &*r.flow))?;
            texts(&mut group, rows.iter().map(|r| r.packet))?;
            integers(&mut group, rows.iter().map(|r| i64::from(r.connection)))?;
            integers(&mut group, rows.iter().map(|r| i64::from(r.number)))?;
            integers(&mut group, rows.iter().map(|r| i64::from(r.bytes)))?;
            integers(&mut group, rows.iter().map(|r| r.queue_bytes as i64))?;
            integers(&mut group, rows.iter().map(|r| r.queue_packets as i64))?;
            group.close().map(drop)
        };
        write().map_err(|e| named(&self.path, &e))?;
        self.rows = rows;
        self.rows.clear();
        Ok(())
    }
}

/// The events of a result, each handed to `visit` as (time in ns, event, link, flow, packet, [connection, number, bytes, queue
/// bytes, queue packets]).
///
/// # Errors
/// A file that is missing, is not Parquet or lacks a column.
pub fn read(dir: &Path, mut visit: impl FnMut(u64, [&str; 4], [u64; 5])) -> io::Result<()> {
    let path = dir.join(EVENTS);
    let reader = SerializedFileReader::new(File::open(&path)?).map_err(|e| named(&path, &e))?;
    for row in reader.get_row_iter(None).map_err(|e| named(&path, &e))? {
        let mut one = |row: Result<Row, ParquetError>| -> Result<(), ParquetError> {
            let row = row?;
            let text = |i| row.get_string(i).map(String::as_str);
            let number = |i| row.get_long(i).map(|n| n as u64);
            visit(number(0)?, [text(1)?, text(2)?, text(3)?, text(4)?], [number(5)?, number(6)?, number(7)?, number(8)?, number(9)?]);
            Ok(())
        };
        one(row).map_err(|e| named(&path, &e))?;
    }
    Ok(())
}

fn named(path: &Path, e: &ParquetError) -> io::Error {
    io::Error::other(format!("{}: {e}", path.display()))
}

type Group<'a> = SerializedRowGroupWriter<'a, File>;

fn integers(group: &mut Group<'_>, values: impl Iterator<Item = i64>) -> Result<(), ParquetError> {
    column::<Int64Type>(group, &values.collect::<Vec<_>>())
}

fn texts<'a>(group: &mut Group<'_>, values: impl Iterator<Item = &'a str>) -> Result<(), ParquetError> {
    column::<ByteArrayType>(group, &values.map(ByteArray::from).collect::<Vec<_>>())
}

fn column<T: DataType>(group: &mut Group<'_>, values: &[T::T]) -> Result<(), ParquetError> {
    let mut column = group.next_column()?.ok_or_else(|| ParquetError::General("more columns than the schema has".to_owned()))?;
    column.typed::<T>().write_batch(values, None, None)?;
    column.close()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_survive_being_written_in_several_groups() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let mut writer = EventWriter::create(dir.path()).expect("writable");
        let event = |n: u32| PacketEvent {
            time_ns: u64::from(n) * 1000,
            event: "enqueue",
            link: "forward".into(),
            flow: "bulk".into(),
            packet: "data",
            connection: 3,
            number: n,
            bytes: 1500,
            queue_bytes: 3000,
            queue_packets: 2,
        };
        let count = GROUP as u32 + 10;
        (0..count).for_each(|n| writer.push(event(n)).expect("writable"));
        writer.finish().expect("writable");
        let mut seen = 0;
        read(dir.path(), |time, texts, numbers| {
            assert_eq!((time, texts, numbers), (seen * 1000, ["enqueue", "forward", "bulk", "data"], [3, seen, 1500, 3000, 2]));
            seen += 1;
        })
        .expect("readable");
        assert_eq!(seen, u64::from(count));
    }
}
