//! The socket's error queue (Linux `IP_RECVERR`): what ICMP, or this host itself, says of datagrams that were sent. Knows no connection.

use std::io;
use std::net::SocketAddr;

use lowtide_utp::{Header, Packet, Report};
use nix::cmsg_space;
use nix::libc;
use nix::sys::socket::{ControlMessageOwned, MsgFlags, SockaddrStorage, recvmsg, setsockopt, sockopt};
use std::io::IoSliceMut;
use std::os::fd::{AsFd, AsRawFd};
use tokio::net::UdpSocket;

/// IP and UDP headers before a datagram's payload.
const V4_HEADERS: u32 = 28;
const V6_HEADERS: u32 = 48;

/// What was said of one datagram.
#[derive(Debug)]
pub(crate) struct Trouble {
    /// Where it was sent.
    pub to: SocketAddr,
    /// Its header, as the report quotes it; this host's own reports quote nothing.
    pub quoted: Option<Header>,
    /// What was said.
    pub report: Report,
}

/// Asks for reports. A kernel that has none is asked in vain: then timeouts tell.
pub(crate) fn ask_for(socket: &impl AsFd) {
    let _ = setsockopt(socket, sockopt::Ipv4RecvErr, &true);
    let _ = setsockopt(socket, sockopt::Ipv6RecvErr, &true);
}

/// The next report; none if it is about nothing that concerns uTP. `WouldBlock` at the end of the queue.
pub(crate) fn next(socket: &UdpSocket) -> io::Result<Option<Trouble>> {
    let mut bytes = [0; 128];
    let mut slices = [IoSliceMut::new(&mut bytes)];
    let mut space = cmsg_space!(libc::sock_extended_err, libc::sockaddr_in6, [u8; 64]);
    let flags = MsgFlags::MSG_ERRQUEUE | MsgFlags::MSG_DONTWAIT;
    let message = recvmsg::<SockaddrStorage>(socket.as_raw_fd(), &mut slices, Some(&mut space), flags)?;
    let (to, length) = (message.address.and_then(address), message.bytes);
    let said = message.cmsgs()?.find_map(|message| match message {
        ControlMessageOwned::Ipv4RecvErr(error, _) => report(&error, V4_HEADERS),
        ControlMessageOwned::Ipv6RecvErr(error, _) => report(&error, V6_HEADERS),
        _ => None,
    });
    let quoted = Packet::decode(&bytes[..length.min(128)]).ok().map(|(packet, _)| packet.header);
    Ok(to.zip(said).map(|(to, report)| Trouble { to, quoted, report }))
}

fn address(storage: SockaddrStorage) -> Option<SocketAddr> {
    let v4 = storage.as_sockaddr_in().map(|a| SocketAddr::new(a.ip().into(), a.port()));
    v4.or_else(|| storage.as_sockaddr_in6().map(|a| SocketAddr::new(a.ip().into(), a.port())))
}

/// "Port unreachable", "fragmentation needed", and that a host or a network is out of reach.
fn report(error: &libc::sock_extended_err, headers: u32) -> Option<Report> {
    match error.ee_errno as i32 {
        libc::ECONNREFUSED => Some(Report::Unreachable),
        errno if is_no_route(errno) => Some(Report::NoRoute),
        libc::EMSGSIZE => Some(Report::TooLarge(error.ee_info.saturating_sub(headers).min(u32::from(u16::MAX)) as u16)),
        _ => None,
    }
}

/// Whether that says that no route leads there, none that may be used (`ip route add prohibit`), or none from an address of that family.
fn is_no_route(errno: i32) -> bool {
    matches!(errno, libc::ENETUNREACH | libc::EHOSTUNREACH | libc::EACCES | libc::EADDRNOTAVAIL | libc::EAFNOSUPPORT)
}

/// What this host itself said when it was to send a datagram.
pub(crate) fn own_report(error: &io::Error) -> Option<Report> {
    error.raw_os_error().filter(|errno| is_no_route(*errno)).map(|_| Report::NoRoute)
}
