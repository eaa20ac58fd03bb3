//! What two lowtides tell each other about files. Knows no connection and no disk.

use serde::{Deserialize, Serialize};

/// The most files of one offer: what an open receiver must look up and remember for a stranger.
pub const MOST_FILES: usize = 100_000;

/// A message; between `Begin` and `End` come the file's bytes.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Message {
    /// The sender has these files.
    Offer(Vec<Entry>),
    /// The receiver wants them, and has this much of each already.
    Want(Vec<Have>),
    /// The sender is still comparing what the receiver has of the next file with its own, and has compared so many bytes.
    Compared(u64),
    /// The bytes of the next file follow, from this offset on.
    Begin(u64),
    /// They are complete: the whole file's bytes and sha256.
    End(Have),
    /// Everything is in its place.
    Done,
    /// It ends here, and why.
    Error(String),
}

/// A file as it is offered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Where it belongs below the receiver's folder; `/` between the parts.
    pub path: String,
    /// Its size; none for standard input.
    pub bytes: Option<u64>,
}

/// The beginning of a file, or all of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Have {
    /// So much of it.
    pub bytes: u64,
    /// The sha256 of that.
    pub sha256: String,
}
