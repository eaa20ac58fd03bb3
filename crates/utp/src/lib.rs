//! uTP (BEP 29) without I/O: the wire format, and connections that are told the time, take packets in and give packets out. The
//! simulator and a UDP socket drive the same connection; neither payload bytes nor clocks nor sockets are known here.
//!
//! Where BEP 29 and libutp disagree, libutp (commit 3110314, which Al-Saadi 2018 measured) is followed: it is what peers run.

pub mod config;
pub mod connection;
mod delay;
pub mod header;
mod incoming;
mod loss;
mod outgoing;
mod rto;
mod seq;

pub use config::{Config, Episodes, Repair};
pub use connection::{Arrival, Connection, Failure, Open, State, Stats, Transmit};
pub use header::{DecodeError, Header, Kind, Packet, Sack};
