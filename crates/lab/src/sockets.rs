//! What the kernel tells of connections of programs that are not ours: their windows, by SOCK_DIAG (sock_diag(7)). Sees the namespace that it was
//! opened in.

use std::os::fd::{AsRawFd, OwnedFd};

use anyhow::{Context, Result};
use nix::libc;
use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, recv, send, socket};
use nix::sys::time::{TimeVal, TimeValLike};

/// linux/sock_diag.h, linux/inet_diag.h.
const SOCK_DIAG_BY_FAMILY: u16 = 20;
const INET_DIAG_INFO: u16 = 2;
/// `struct nlmsghdr`, `struct inet_diag_req_v2`, `struct inet_diag_msg`, `struct nlattr`.
const HEADER: usize = 16;
const REQUEST: usize = 56;
const ANSWER: usize = 72;
const ATTRIBUTE: usize = 4;
/// `idiag_dport` within an answer: family, state, timer, retransmits, then the source's port and this one, both in network order.
const REMOTE_PORT: usize = 6;
/// States of include/net/tcp_states.h: ESTABLISHED, FIN_WAIT1 (it has data on the way still), CLOSE_WAIT.
const SENDING: u32 = 1 << 1 | 1 << 4 | 1 << 8;
/// Of `struct tcp_info`: bytes of a segment, segments of the congestion window, bytes of the window that the peer advertises.
const SEGMENT_AT: usize = 16;
const CWND_AT: usize = 80;
const PEER_WINDOW_AT: usize = 228;

/// A question to the kernel that may be asked again and again.
#[derive(Debug)]
pub struct Sockets(OwnedFd);

impl Sockets {
    /// Of the namespace of the calling thread.
    ///
    /// # Errors
    /// The kernel has no such sockets (CONFIG_INET_DIAG).
    pub fn open() -> Result<Sockets> {
        let flags = SockFlag::SOCK_CLOEXEC;
        let socket = socket(AddressFamily::Netlink, SockType::Raw, flags, SockProtocol::NetlinkSockDiag)
            .context("asking for connections' windows")?;
        nix::sys::socket::setsockopt(&socket, nix::sys::socket::sockopt::ReceiveTimeout, &TimeVal::milliseconds(100))?;
        Ok(Sockets(socket))
    }

    /// Bytes that all connections to `port` may have in flight: the smaller of each one's own window and its peer's. None where there is no connection.
    ///
    /// # Errors
    /// The kernel does not answer.
    pub fn windows_to(&self, port: u16) -> Result<Option<u64>> {
        let mut request = Vec::with_capacity(HEADER + REQUEST);
        request.extend(((HEADER + REQUEST) as u32).to_ne_bytes());
        request.extend(SOCK_DIAG_BY_FAMILY.to_ne_bytes());
        request.extend(((libc::NLM_F_REQUEST | libc::NLM_F_DUMP) as u16).to_ne_bytes());
        request.extend([0; 8]); // sequence, port
        request.extend([libc::AF_INET as u8, libc::IPPROTO_TCP as u8, 1 << (INET_DIAG_INFO - 1), 0]);
        request.extend(SENDING.to_ne_bytes());
        request.resize(HEADER + REQUEST, 0); // any addresses and ports
        send(self.0.as_raw_fd(), &request, MsgFlags::empty())?;
        let (mut windows, mut buffer) = (None, vec![0; 32_768]);
        loop {
            let length = recv(self.0.as_raw_fd(), &mut buffer, MsgFlags::empty())?;
            if add(&buffer[..length], port, &mut windows) {
                return Ok(windows);
            }
        }
    }
}

/// Adds what these messages say of connections to `port`. True if they end the answer.
fn add(mut messages: &[u8], port: u16, windows: &mut Option<u64>) -> bool {
    while let Some(head) = messages.get(..HEADER) {
        let kind = u16::from_ne_bytes([head[4], head[5]]);
        let length = u32_at(head, 0).map_or(0, |length| length as usize).clamp(HEADER, messages.len());
        if kind == libc::NLMSG_DONE as u16 || kind == libc::NLMSG_ERROR as u16 {
            return true;
        }
        let body = &messages[HEADER..length];
        if body.get(REMOTE_PORT..REMOTE_PORT + 2) == Some(&port.to_be_bytes())
            && let Some(window) = body.get(ANSWER..).and_then(window)
        {
            *windows = Some(windows.unwrap_or(0) + window);
        }
        messages = &messages[length.next_multiple_of(4).min(messages.len())..];
    }
    false
}

/// The window of a connection, by the attributes of its answer.
fn window(mut attributes: &[u8]) -> Option<u64> {
    while let Some(head) = attributes.get(..ATTRIBUTE) {
        let length = usize::from(u16::from_ne_bytes([head[0], head[1]])).max(ATTRIBUTE);
        let kind = u16::from_ne_bytes([head[2], head[3]]);
        let value = attributes.get(ATTRIBUTE..length)?;
        if kind == INET_DIAG_INFO {
            let own = u64::from(u32_at(value, CWND_AT)?) * u64::from(u32_at(value, SEGMENT_AT)?);
            // Linux before 5.4 does not tell the peer's.
            return Some(own.min(u32_at(value, PEER_WINDOW_AT).map_or(u64::MAX, u64::from)));
        }
        attributes = attributes.get(length.next_multiple_of(4)..)?;
    }
    None
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at + 4).map(|b| u32::from_ne_bytes([b[0], b[1], b[2], b[3]]))
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn a_connections_window_is_found_by_its_port_and_nobody_elses() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("it can listen");
        let port = listener.local_addr().expect("it has one").port();
        let sockets = Sockets::open().expect("every Linux has it");
        assert_eq!(sockets.windows_to(port).expect("an answer"), None, "nobody has connected");
        let one = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
        let (_accepted, _) = listener.accept().expect("it has connected");
        let alone = sockets.windows_to(port).expect("an answer").expect("a window");
        assert!((1_000..10_000_000).contains(&alone), "{alone} bytes");
        let _other = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
        assert!(sockets.windows_to(port).expect("an answer") > Some(alone), "two have more than one");
        drop(one);
    }

    #[test]
    fn an_answer_that_is_torn_says_nothing() {
        let mut windows = None;
        let mut answer = vec![0; HEADER + ANSWER + ATTRIBUTE + 232];
        let length = answer.len() as u32;
        answer[..4].copy_from_slice(&length.to_ne_bytes());
        answer[4..6].copy_from_slice(&SOCK_DIAG_BY_FAMILY.to_ne_bytes());
        answer[HEADER + REMOTE_PORT..][..2].copy_from_slice(&80_u16.to_be_bytes());
        let info = HEADER + ANSWER;
        answer[info..info + 2].copy_from_slice(&((ATTRIBUTE + 232) as u16).to_ne_bytes());
        answer[info + 2..info + 4].copy_from_slice(&INET_DIAG_INFO.to_ne_bytes());
        for (at, value) in [(SEGMENT_AT, 1448_u32), (CWND_AT, 10), (PEER_WINDOW_AT, 65_535)] {
            answer[info + ATTRIBUTE + at..][..4].copy_from_slice(&value.to_ne_bytes());
        }
        assert!(!add(&answer, 80, &mut windows));
        assert_eq!(windows, Some(14_480));
        for end in 0..answer.len() {
            let mut torn = None;
            assert!(!add(&answer[..end], 80, &mut torn) && torn.is_none_or(|bytes| bytes == 14_480), "{end}");
        }
    }
}
