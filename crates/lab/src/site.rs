//! The laboratory's ground: a client's and a server's namespace with one link between them. Knows addresses; does not know
//! what is measured.

use std::net::Ipv4Addr;
use std::ops::Range;

use anyhow::Result;
use lowtide_units::Time;

use crate::link::{Link, Record};
use crate::netns::Namespace;
use crate::packet::MTU;
use crate::path::PathConfig;
use crate::tun::Tun;

/// The client's address.
pub const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);
/// The server's address.
pub const SERVER: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 2);
const PREFIX: u8 = 24;

/// Whether this process may make a laboratory, and if not, why.
pub fn ready() -> Result<()> {
    let space = Namespace::new()?;
    Tun::new(&space, "tun0", &[CLIENT], PREFIX, MTU as u32).map(drop)
}

/// Two namespaces and the link between them, gone when dropped.
#[derive(Debug)]
pub struct Site {
    /// Where programs run.
    pub client: Namespace,
    /// Where servers run.
    pub server: Namespace,
    link: Link,
}

impl Site {
    /// Makes both namespaces and starts the link, whose packets are of at most `mtu` bytes and which measures during `measure`. `up` is the client's way to the server.
    pub fn new(mtu: u32, up: PathConfig, down: PathConfig, measure: Range<Time>) -> Result<Site> {
        let (client, server) = (Namespace::new()?, Namespace::new()?);
        let near = Tun::new(&client, "tun0", &[CLIENT], PREFIX, mtu)?;
        let far = Tun::new(&server, "tun0", &[SERVER], PREFIX, mtu)?;
        let link = Link::start(near, far, up, down, measure)?;
        Ok(Site { client, server, link })
    }

    /// Stops the link: what it saw, `reverse` being the way up and `forward` the way down.
    pub fn stop(self) -> Result<Record> {
        self.link.stop()
    }
}
