//! The two requests the laboratory has for the kernel's network configuration: a device up, an address on it. Acts on the
//! namespace of the calling thread; does not know whose that is.

use std::net::Ipv4Addr;
use std::os::fd::AsRawFd;

use anyhow::{Context, Result, bail};
use nix::libc;
use nix::net::if_::if_nametoindex;
use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, recv, send, socket};

/// `struct nlmsghdr`: length, type, flags, sequence, port.
const HEADER: usize = 16;

/// What else is set on a device.
#[derive(Clone, Copy, Debug)]
pub struct Device {
    /// The largest IP packet.
    pub mtu: u32,
    /// Packets that its own queue holds.
    pub queue: u32,
}

/// Sets device `name` up, and what `device` says where it is given.
pub fn up(name: &str, device: Option<Device>) -> Result<()> {
    let index = if_nametoindex(name).with_context(|| format!("no device {name} in this network namespace"))?;
    // struct ifinfomsg: family, pad, type, index, flags, change.
    let mut body = vec![libc::AF_UNSPEC as u8, 0, 0, 0];
    body.extend(index.to_ne_bytes());
    body.extend((libc::IFF_UP as u32).to_ne_bytes());
    body.extend((libc::IFF_UP as u32).to_ne_bytes());
    if let Some(device) = device {
        attribute(&mut body, libc::IFLA_MTU, &device.mtu.to_ne_bytes());
        attribute(&mut body, libc::IFLA_TXQLEN, &device.queue.to_ne_bytes());
    }
    request(libc::RTM_NEWLINK, 0, &body).with_context(|| format!("setting {name} up"))
}

/// Puts `address`/`prefix` on device `name`.
pub fn address(name: &str, address: Ipv4Addr, prefix: u8) -> Result<()> {
    let index = if_nametoindex(name).with_context(|| format!("no device {name} in this network namespace"))?;
    // struct ifaddrmsg: family, prefix length, flags, scope, index.
    let mut body = vec![libc::AF_INET as u8, prefix, 0, 0];
    body.extend(index.to_ne_bytes());
    attribute(&mut body, libc::IFA_LOCAL, &address.octets());
    attribute(&mut body, libc::IFA_ADDRESS, &address.octets());
    request(libc::RTM_NEWADDR, libc::NLM_F_CREATE | libc::NLM_F_EXCL, &body)
        .with_context(|| format!("putting {address}/{prefix} on {name}"))
}

fn attribute(body: &mut Vec<u8>, kind: u16, value: &[u8]) {
    body.extend((4 + value.len() as u16).to_ne_bytes());
    body.extend(kind.to_ne_bytes());
    body.extend(value);
    body.resize(body.len().next_multiple_of(4), 0);
}

/// Sends one request and waits for its acknowledgement.
fn request(kind: u16, flags: i32, body: &[u8]) -> Result<()> {
    let socket = socket(AddressFamily::Netlink, SockType::Raw, SockFlag::SOCK_CLOEXEC, SockProtocol::NetlinkRoute)
        .context("opening a netlink socket")?;
    let mut message = Vec::with_capacity(HEADER + body.len());
    message.extend(((HEADER + body.len()) as u32).to_ne_bytes());
    message.extend(kind.to_ne_bytes());
    message.extend(((libc::NLM_F_REQUEST | libc::NLM_F_ACK | flags) as u16).to_ne_bytes());
    message.extend([0; 8]);
    message.extend(body);
    send(socket.as_raw_fd(), &message, MsgFlags::empty()).context("writing to netlink")?;
    let mut answer = [0; 1024];
    let length = recv(socket.as_raw_fd(), &mut answer, MsgFlags::empty()).context("reading from netlink")?;
    // NLMSG_ERROR carries the negated errno, zero for an acknowledgement.
    match answer.get(HEADER..HEADER + 4) {
        Some(code) if length >= HEADER + 4 => match i32::from_ne_bytes([code[0], code[1], code[2], code[3]]) {
            0 => Ok(()),
            error => Err(nix::Error::from_raw(-error)).context("the kernel refused"),
        },
        _ => bail!("netlink answered {length} bytes where at least {} were due", HEADER + 4),
    }
}
