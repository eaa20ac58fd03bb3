//! Queue disciplines as a scenario file writes them, and the one list of their names.

use lowtide_units::{Rate, Span};
use serde::{Deserialize, Serialize};

use crate::droptail::{DropTail, Limit};
use crate::queue::{Packet, Queue};

/// A queue discipline: `queue = { kind = "droptail", ms = 500 }`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum QueueConfig {
    /// First in, first out, with exactly one limit.
    #[serde(rename = "droptail")]
    DropTail {
        /// As long as the link needs for so many milliseconds of data; at least one frame.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ms: Option<f64>,
        /// So many bytes.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        bytes: Option<u64>,
        /// So many packets.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        packets: Option<usize>,
    },
}

/// The disciplines' names with one line each, for `--list`.
pub static DISCIPLINES: &[(&str, &str)] = &[("droptail", "first in, first out; limit in ms, bytes or packets")];

/// A queue that cannot be built as configured.
#[derive(Debug, thiserror::Error)]
#[error("queue `{kind}`: {reason}")]
pub struct ConfigError {
    kind: &'static str,
    reason: String,
}

/// The smallest buffer in bytes: one Ethernet frame.
const ONE_FRAME: u64 = 1514;

impl QueueConfig {
    /// The queue in front of a link of `rate`.
    ///
    /// # Errors
    /// No limit, or more than one.
    pub fn build<P: Packet + Send + 'static>(&self, rate: Rate, _seed: u64) -> Result<Box<dyn Queue<P>>, ConfigError> {
        match *self {
            QueueConfig::DropTail { ms, bytes, packets } => {
                let limit = match (ms, bytes, packets) {
                    (Some(ms), None, None) => Limit::Bytes(rate.bytes_in(Span::from_millis_f64(ms)).max(ONE_FRAME)),
                    (None, Some(bytes), None) => Limit::Bytes(bytes),
                    (None, None, Some(packets)) => Limit::Packets(packets),
                    _ => return Err(ConfigError { kind: "droptail", reason: "give exactly one of `ms`, `bytes`, `packets`".to_owned() }),
                };
                Ok(Box::new(DropTail::new(limit)))
            }
        }
    }
}
