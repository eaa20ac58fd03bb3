//! uTP (BEP 29) without I/O: the wire format, and connections that are told the time, take packets in and give packets out. The
//! simulator and UDP sockets (`lowtide-utp-tokio`) drive the same connection; neither payload bytes nor clocks nor sockets are known here.
//!
//! Where BEP 29 and libutp disagree, libutp (commit 3110314, which Al-Saadi 2018 measured) is followed: it is what peers run.

pub mod config;
pub mod connection;
mod delay;
pub mod header;
mod incoming;
mod loss;
mod mtu;
mod newest;
mod outgoing;
mod pace;
mod rto;
mod seq;

pub use config::{Config, Repair};
pub use connection::{Arrival, Connection, Failure, Open, Placement, Report, State, Stats, Transmit};
pub use header::{DecodeError, Header, Kind, Packet, Sack};
pub use mtu::PathMtu;
