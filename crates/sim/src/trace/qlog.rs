//! Each sender's doings as qlog (draft-ietf-quic-qlog-main-schema-02, version 0.3, JSON-SEQ), with the events of QUIC
//! (draft-ietf-quic-qlog-quic-events-01): what qvis and its like draw. Packet numbers count transmissions, so that a segment sent again has a new one.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use lowtide_scenario::scenario::Direction;
use lowtide_units::{Span, Time};
use serde_json::{Map, Value, json};

use super::{Connection, Participants, Step, Watcher};
use crate::endpoint::SendingEnd;
use crate::flow::Flow;
use crate::link::QueueState;
use crate::packet::{Kind, Packet, TCP_HEADER};
use crate::sender_stats::Note;

/// Where the files are, one a connection.
pub const FOLDER: &str = "qlog";

/// What is held back before it is written: no file stays open.
const BUFFER: usize = 1 << 16;

/// The files while they are written.
pub struct Logs {
    participants: Arc<Participants>,
    folder: PathBuf,
    logs: Vec<Log>,
    result: io::Result<()>,
}

/// One connection's.
#[derive(Default)]
struct Log {
    text: Vec<u8>,
    begun: bool,
    /// The acknowledgement that arrived last, until its effect is known; and how many came.
    arrived: Option<Packet>,
    acks: u64,
    /// Metrics as last written.
    metrics: Map<String, Value>,
    phase: &'static str,
}

impl Logs {
    /// An empty folder in `folder`.
    pub fn create(folder: &Path, participants: &Arc<Participants>) -> io::Result<Logs> {
        let folder = folder.join(FOLDER);
        fs::create_dir_all(&folder)?;
        let logs = participants.connections.iter().map(|_| Log::default()).collect();
        Ok(Logs { participants: Arc::clone(participants), folder, logs, result: Ok(()) })
    }

    fn write(&mut self, id: usize, at_least: usize) {
        if self.result.is_err() || self.logs[id].text.len() <= at_least {
            return;
        }
        let path = self.folder.join(file_name(&self.participants.connections[id]));
        let file = OpenOptions::new().create(true).append(true).open(path);
        self.result = file.and_then(|mut file| file.write_all(&self.logs[id].text));
        self.logs[id].text.clear();
    }
}

fn file_name(connection: &Connection) -> String {
    let name: String = connection.name.chars().map(|c| if c.is_alphanumeric() || "-_.".contains(c) { c } else { '_' }).collect();
    if connection.of_many { format!("{name}-{}.sqlog", connection.number + 1) } else { format!("{name}.sqlog") }
}

impl Watcher for Logs {
    fn packet(&mut self, now: Time, step: Step, packet: &Packet, _at: Option<(u16, QueueState)>) {
        let log = &mut self.logs[packet.flow as usize];
        match (packet.kind, step) {
            (Kind::Ack, Step::Deliver) => log.arrived = Some(*packet),
            // uTP numbers its packets itself.
            (Kind::Utp(utp), Step::Send) if !utp.back => {
                log.begin(&self.participants.connections[packet.flow as usize]);
                log.utp(now, "transport:packet_sent", packet);
            }
            (Kind::Utp(utp), Step::Deliver) if utp.back => log.utp(now, "transport:packet_received", packet),
            _ => {}
        }
    }

    fn sender(&mut self, now: Time, id: u32, flow: &mut Flow) {
        let id = id as usize;
        let log = &mut self.logs[id];
        if let Some(sender) = &mut flow.sender {
            log.begin(&self.participants.connections[id]);
            log.notes(now, sender, u64::from(flow.spec.wire.mss));
            log.metrics(now, sender, flow.stats.last_rtt);
            self.write(id, BUFFER);
        } else {
            self.write(id, 0);
        }
    }

    fn finish(mut self: Box<Self>) -> io::Result<()> {
        (0..self.logs.len()).for_each(|id| self.write(id, 0));
        self.result
    }
}

impl Log {
    fn begin(&mut self, connection: &Connection) {
        if std::mem::replace(&mut self.begun, true) {
            return;
        }
        let end = if connection.direction == Direction::Forward { "server" } else { "client" };
        let protocol = if connection.spec.utp.is_some() { "uTP" } else { "TCP" };
        self.record(&json!({
            "qlog_version": "0.3",
            "qlog_format": "JSON-SEQ",
            "title": *connection.name,
            "description": format!("{protocol} with {}, simulated by lowtide", connection.spec.cc),
            "trace": {
                "vantage_point": { "name": *connection.name, "type": end },
                "common_fields": { "time_format": "relative", "reference_time": 0.0, "protocol_type": [protocol] },
            },
        }));
    }

    fn event(&mut self, now: Time, name: &str, data: &Value) {
        self.record(&json!({ "time": now.nanos() as f64 / 1e6, "name": name, "data": data }));
    }

    /// RFC 7464: a record begins with RS and ends with a line feed.
    fn record(&mut self, value: &Value) {
        self.text.push(0x1e);
        self.text.extend(value.to_string().as_bytes());
        self.text.push(b'\n');
    }

    fn utp(&mut self, now: Time, name: &str, packet: &Packet) {
        let header = json!({ "packet_type": "1RTT", "packet_number": packet.seq });
        self.event(now, name, &json!({ "header": header, "raw": { "length": packet.size } }));
    }

    /// What the sender noted: packets sent, delivered and given up.
    fn notes(&mut self, now: Time, sender: &mut SendingEnd, mss: u64) {
        let header = |number: u32| json!({ "packet_type": "1RTT", "packet_number": number });
        let notes = sender.take_notes();
        let mut acked: Vec<u32> =
            notes.iter().filter_map(|note| if let Note::Delivered { order } = note { Some(*order) } else { None }).collect();
        if let Some(ack) = self.arrived.take() {
            self.acks += 1;
            let frames = if acked.is_empty() { json!([]) } else { json!([{ "frame_type": "ack", "acked_ranges": ranges(&mut acked) }]) };
            let header = json!({ "packet_type": "1RTT", "packet_number": self.acks });
            self.event(now, "transport:packet_received", &json!({ "header": header, "raw": { "length": ack.size }, "frames": frames }));
        }
        for note in notes {
            match note {
                Note::Delivered { .. } => {}
                Note::Lost { order } => self.event(now, "recovery:packet_lost", &json!({ "header": header(order) })),
                Note::Sent { order, seq, len } => {
                    let frame = json!({ "frame_type": "stream", "stream_id": 0, "offset": u64::from(seq) * mss, "length": len });
                    let raw = json!({ "length": len + TCP_HEADER, "payload_length": len });
                    self.event(now, "transport:packet_sent", &json!({ "header": header(order), "raw": raw, "frames": [frame] }));
                }
            }
        }
    }

    /// The metrics that have changed.
    fn metrics(&mut self, now: Time, sender: &SendingEnd, latest_rtt: Option<Span>) {
        let shown = sender.snapshot();
        let mut changed = Map::new();
        for (key, value) in [
            ("congestion_window", Some(json!(shown.cwnd))),
            ("ssthresh", shown.ssthresh.map(|bytes| json!(bytes))),
            ("bytes_in_flight", Some(json!(sender.in_flight()))),
            ("smoothed_rtt", Some(json!(sender.srtt().millis_f64()))),
            ("latest_rtt", latest_rtt.map(|rtt| json!(rtt.millis_f64()))),
            ("min_rtt", sender.min_rtt().map(|rtt| json!(rtt.millis_f64()))),
            ("pacing_rate", sender.pacing_rate().map(|rate| json!(rate.bps()))),
        ] {
            if let Some(value) = value.filter(|value| self.metrics.get(key) != Some(value)) {
                self.metrics.insert(key.to_owned(), value.clone());
                changed.insert(key.to_owned(), value);
            }
        }
        if !changed.is_empty() {
            self.event(now, "recovery:metrics_updated", &Value::Object(changed));
        }
        if shown.phase != self.phase {
            self.phase = shown.phase;
            self.event(now, "recovery:congestion_state_updated", &json!({ "new": shown.phase }));
        }
    }
}

/// Numbers as closed intervals, ascending.
fn ranges(numbers: &mut [u32]) -> Vec<[u32; 2]> {
    numbers.sort_unstable();
    let mut ranges: Vec<[u32; 2]> = Vec::new();
    for &mut number in numbers {
        match ranges.last_mut() {
            Some(last) if last[1] + 1 == number => last[1] = number,
            _ => ranges.push([number, number]),
        }
    }
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_closed_and_do_not_touch() {
        assert_eq!(ranges(&mut [7, 1, 2, 9, 3, 8]), [[1, 3], [7, 9]]);
    }
}
