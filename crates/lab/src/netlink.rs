//! What the laboratory asks of the kernel's network configuration: a device up, an address on it, a control by port. Acts on the
//! namespace of the calling thread; does not know whose that is.

use std::net::Ipv4Addr;
use std::os::fd::AsRawFd;

use anyhow::{Context, Result, bail};
use nix::libc;
use nix::net::if_::if_nametoindex;
use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, recv, send, socket};

/// linux/rtnetlink.h: the control's name among a route's metrics.
const RTAX_CC_ALGO: u16 = 16;
/// linux/fib_rules.h: look in a table; a rule's attributes.
const FR_ACT_TO_TBL: u8 = 1;
const FRA_TABLE: u16 = 15;
const FRA_IP_PROTO: u16 = 22;
const FRA_DPORT_RANGE: u16 = 24;

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

/// Has connections to `port` of `host`, through device `name`, begin with the congestion control `control`: by a rule that matches the
/// port and a route of its own that names the control. A namespace's default may only be a control that the machine allows; this may be any.
pub fn control_by_port(control: &str, port: u16, name: &str, host: Ipv4Addr) -> Result<()> {
    let index = if_nametoindex(name).with_context(|| format!("no device {name} in this network namespace"))?;
    let table = u32::from(port);
    // struct rtmsg: family, lengths of the addresses, tos, table, protocol, scope, type, flags.
    let mut route = vec![libc::AF_INET as u8, 32, 0, 0, 0, libc::RTPROT_STATIC, libc::RT_SCOPE_LINK, libc::RTN_UNICAST, 0, 0, 0, 0];
    attribute(&mut route, libc::RTA_TABLE, &table.to_ne_bytes());
    attribute(&mut route, libc::RTA_DST, &host.octets());
    attribute(&mut route, libc::RTA_OIF, &index.to_ne_bytes());
    let mut metrics = Vec::new();
    attribute(&mut metrics, RTAX_CC_ALGO, &[control.as_bytes(), &[0]].concat());
    attribute(&mut route, libc::RTA_METRICS, &metrics);
    request(libc::RTM_NEWROUTE, libc::NLM_F_CREATE | libc::NLM_F_EXCL, &route)
        .with_context(|| format!("a route whose connections begin with the congestion control {control}"))?;
    // struct fib_rule_hdr: family, lengths, tos, table, two reserved, action, flags.
    let mut rule = vec![libc::AF_INET as u8, 0, 0, 0, 0, 0, 0, FR_ACT_TO_TBL, 0, 0, 0, 0];
    attribute(&mut rule, FRA_TABLE, &table.to_ne_bytes());
    attribute(&mut rule, FRA_IP_PROTO, &[libc::IPPROTO_TCP as u8]);
    attribute(&mut rule, FRA_DPORT_RANGE, &[port.to_ne_bytes(), port.to_ne_bytes()].concat());
    request(libc::RTM_NEWRULE, libc::NLM_F_CREATE | libc::NLM_F_EXCL, &rule).with_context(|| format!("a rule for port {port}"))
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
