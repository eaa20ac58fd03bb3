//! The UDP socket: batches in (recvmmsg, GRO), trains out (GSO), "don't fragment" for probes. Knows no uTP.

use std::io::{self, IoSliceMut};
use std::net::{IpAddr, SocketAddr};

use dontfrag::UdpSocketExt;
use quinn_udp::{RecvMeta, UdpSocketState};
use socket2::{Domain, Protocol, Socket, Type};
use tokio::io::Interest;
use tokio::net::UdpSocket;

use crate::errors::{self, Trouble};
use crate::train::Train;

/// Messages per system call, and bytes of each: what GRO may put together.
const MESSAGES: usize = 8;
const MESSAGE: usize = 1 << 16;
/// Reports that may fail one call: what is not sent then is lost like any other datagram.
const MOST_FAILED: usize = 4;

/// A bound UDP socket.
#[derive(Debug)]
pub(crate) struct Udp {
    socket: UdpSocket,
    state: UdpSocketState,
    local: SocketAddr,
}

/// Room for what one system call receives.
pub(crate) struct Batch {
    bytes: Vec<u8>,
    metas: [RecvMeta; MESSAGES],
    messages: usize,
}

impl Batch {
    pub(crate) fn new() -> Batch {
        Batch { bytes: vec![0; MESSAGES * MESSAGE], metas: [RecvMeta::default(); MESSAGES], messages: 0 }
    }

    /// The messages: from whom, to which address of this host, and the datagrams of each, all but the last of one size.
    pub(crate) fn messages(&self) -> impl Iterator<Item = (SocketAddr, Option<IpAddr>, std::slice::Chunks<'_, u8>)> {
        self.metas[..self.messages].iter().zip(self.bytes.chunks(MESSAGE)).map(|(meta, bytes)| {
            let bytes = &bytes[..meta.len];
            (meta.addr, meta.dst_ip.filter(|ip| !is_link_local(*ip)), bytes.chunks(meta.stride.max(1)))
        })
    }
}

impl Udp {
    pub(crate) fn bind(address: SocketAddr, buffer: usize) -> io::Result<Udp> {
        let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
        if address.is_ipv6() && address.ip().is_unspecified() {
            // One port for both: IPv4 peers have mapped addresses.
            socket.set_only_v6(false)?;
        }
        // The kernel gives what it allows; less is slower, no more.
        let _ = socket.set_recv_buffer_size(buffer);
        let _ = socket.set_send_buffer_size(buffer);
        socket.bind(&address.into())?;
        let state = UdpSocketState::new((&socket).into())?;
        errors::ask_for(&socket);
        let socket = UdpSocket::from_std(socket.into())?;
        let udp = Udp { local: socket.local_addr()?, socket, state };
        // quinn-udp forbids fragments; a uTP packet that is too large for the path cannot be cut again.
        udp.forbid_fragments(false)?;
        Ok(udp)
    }

    pub(crate) fn local(&self) -> SocketAddr {
        self.local
    }

    /// The address as this socket's kernel wants it.
    pub(crate) fn to_wire(&self, peer: SocketAddr) -> SocketAddr {
        match peer.ip() {
            IpAddr::V4(v4) if self.local.is_ipv6() => SocketAddr::new(v4.to_ipv6_mapped().into(), peer.port()),
            _ => peer,
        }
    }

    /// Something was received, or a report has come.
    pub(crate) async fn readable(&self) -> io::Result<()> {
        self.socket.ready(Interest::READABLE | Interest::ERROR).await.map(drop)
    }

    /// The next report; `WouldBlock` if there is none. One that has come `just_now` is not known to the runtime yet.
    pub(crate) fn trouble(&self, just_now: bool) -> io::Result<Option<Trouble>> {
        if just_now {
            return errors::next(&self.socket);
        }
        self.socket.try_io(Interest::ERROR, || errors::next(&self.socket))
    }

    pub(crate) async fn writable(&self) -> io::Result<()> {
        self.socket.writable().await
    }

    /// Receives what is there; `WouldBlock` if nothing is.
    pub(crate) fn receive(&self, batch: &mut Batch) -> io::Result<()> {
        let Batch { bytes, metas, messages } = batch;
        *messages = 0;
        let mut chunks = bytes.chunks_mut(MESSAGE);
        let mut slices: [IoSliceMut<'_>; MESSAGES] = std::array::from_fn(|_| IoSliceMut::new(chunks.next().unwrap_or_default()));
        *messages = self.socket.try_io(Interest::READABLE, || self.state.recv((&self.socket).into(), &mut slices, metas))?;
        Ok(())
    }

    /// Datagrams that may leave in one train.
    pub(crate) fn longest_train(&self) -> usize {
        self.state.max_gso_segments()
    }

    /// Sends a train; `WouldBlock` if the socket's buffer is full. An error that no other datagram's report can be is the train's own.
    pub(crate) fn send(&self, train: &Train) -> io::Result<()> {
        if train.probe {
            self.forbid_fragments(true)?;
        }
        let transmit = train.transmit();
        let try_send = || self.socket.try_io(Interest::WRITABLE, || self.state.try_send((&self.socket).into(), &transmit));
        // A report about some other datagram, to whomever, fails the next call instead of the one that it is about.
        let sent = (1..MOST_FAILED).map(|_| try_send()).find(|sent| !is_report(sent)).unwrap_or_else(try_send);
        if train.probe {
            self.forbid_fragments(false)?;
        }
        sent
    }

    /// Sends a train if there is room for it, whether the runtime still lives or not.
    pub(crate) fn send_without_runtime(&self, train: &Train) {
        // A last word that is lost is no worse than none.
        let _ = self.state.try_send((&self.socket).into(), &train.transmit());
    }

    /// Linux has no option for a single datagram.
    fn forbid_fragments(&self, forbid: bool) -> io::Result<()> {
        if self.local.is_ipv4() {
            return self.socket.set_dontfrag_v4(forbid);
        }
        // A socket for both kinds has both options.
        let _ = self.socket.set_dontfrag_v4(forbid);
        self.socket.set_dontfrag_v6(forbid)
    }
}

/// Such an address is one of a device, which the kernel wants to be named too, and it takes that address by itself for a peer there.
fn is_link_local(ip: IpAddr) -> bool {
    matches!(ip, IpAddr::V6(ip) if ip.is_unicast_link_local())
}

/// Whether what failed a call is a report, and none of its own.
fn is_report<T>(done: &io::Result<T>) -> bool {
    let own = [io::ErrorKind::WouldBlock, io::ErrorKind::InvalidInput];
    done.as_ref().is_err_and(|e| !own.contains(&e.kind()) && e.raw_os_error() != Some(nix::libc::EMSGSIZE))
}
