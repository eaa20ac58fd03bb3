//! A TUN device: packets as they leave the stack of one namespace, and the way into it. Knows nothing of links.
#![expect(unsafe_code, reason = "TUNSETIFF is an ioctl")]

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;

use anyhow::{Context, Result};
use nix::libc;

use crate::netlink;
use crate::netns::Namespace;

/// Packets the device holds while the link's thread is away: at 1 Gbit/s, 0.1 s. The bottleneck's queue is the link's, not this.
const TX_QUEUE: u32 = 10_000;

/// A TUN device, gone when it is dropped.
#[derive(Debug)]
pub struct Tun {
    file: File,
}

impl Tun {
    /// A device `name` inside `space`, up, with the first of `addresses` as its own; the others are further hosts.
    pub fn new(space: &Namespace, name: &str, addresses: &[Ipv4Addr], prefix: u8, mtu: u32) -> Result<Tun> {
        space.enter(|| {
            let file = OpenOptions::new()
                .read(true)
                .write(true)
                .custom_flags(libc::O_NONBLOCK)
                .open("/dev/net/tun")
                .context("opening /dev/net/tun (the laboratory needs the TUN driver)")?;
            // SAFETY: an ifreq is plain data, for which zero is a value.
            let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
            for (to, from) in request.ifr_name.iter_mut().zip(name.bytes().take(libc::IFNAMSIZ - 1)) {
                *to = from as libc::c_char;
            }
            request.ifr_ifru.ifru_flags = (libc::IFF_TUN | libc::IFF_NO_PI) as libc::c_short;
            // SAFETY: the descriptor is open and `request` is a valid ifreq for the length of the call.
            let made = unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF, &raw const request) };
            nix::Error::result(made).with_context(|| format!("making the TUN device {name}"))?;
            for address in addresses {
                netlink::address(name, *address, prefix)?;
            }
            netlink::up(name, Some(netlink::Device { mtu, queue: TX_QUEUE }))?;
            Ok(Tun { file })
        })
    }

    /// The next packet that the stack sends, none if there is none now.
    pub fn read(&self, buffer: &mut [u8]) -> Result<Option<usize>> {
        match (&self.file).read(buffer) {
            Ok(length) => Ok(Some(length)),
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(None),
            Err(e) => Err(e).context("reading from a TUN device"),
        }
    }

    /// Hands the stack a packet. What the stack will not take (its backlog is full) is lost, as on a real host.
    pub fn write(&self, packet: &[u8]) -> Result<bool> {
        match (&self.file).write(packet) {
            Ok(_) => Ok(true),
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::OutOfMemory) => Ok(false),
            Err(e) => Err(e).context("writing to a TUN device"),
        }
    }
}

impl AsFd for Tun {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}
