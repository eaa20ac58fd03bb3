//! A connection as a stream of bytes.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use lowtide_cc::{Snapshot, Span};
use lowtide_utp::{State, Stats};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::connection::{End, Member};
use crate::port::Port;

/// With more than this written and not sent the windows are what is waited for, not the port.
const ENOUGH: u64 = 64 << 10;

/// A connection. Dropped, it still delivers what was written; to know that it has, `shutdown` it first.
#[derive(Debug)]
pub struct UtpStream {
    port: Arc<Port>,
    member: Arc<Member>,
}

/// What a connection shows of itself.
#[derive(Clone, Copy, Debug)]
pub struct Info {
    /// The smoothed RTT in whole milliseconds; zero before the first sample.
    pub srtt: Span,
    /// Payload bytes in flight.
    pub in_flight: u64,
    /// Payload bytes acknowledged by the peer.
    pub delivered: u64,
    /// Payload bytes received in order.
    pub received: u64,
    /// Bytes that the peer has room for.
    pub peer_window: u64,
    /// Payload of a full packet, as far as the path's MTU is known.
    pub packet: u16,
    /// Retransmissions, timeouts, episodes of loss.
    pub stats: Stats,
    /// The congestion control's state.
    pub control: Snapshot,
    /// Why the peer closed, if it said so (libtorrent's `close_reason_t`).
    pub close_reason: Option<u16>,
}

/// A look at a connection's state; it keeps nothing alive but that state, and no UDP port bound.
#[derive(Clone, Debug)]
pub struct Watch(Arc<Member>);

impl Watch {
    /// How it goes, or went.
    pub fn info(&self) -> Info {
        Info::of(&self.0)
    }
}

impl Info {
    fn of(member: &Member) -> Info {
        let end = member.lock();
        let protocol = &end.protocol;
        Info {
            srtt: protocol.srtt(),
            in_flight: protocol.in_flight(),
            delivered: protocol.delivered(),
            received: protocol.received(),
            peer_window: protocol.peer_window(),
            packet: protocol.packet(),
            stats: protocol.stats(),
            control: protocol.snapshot(),
            close_reason: protocol.close_reason(),
        }
    }
}

impl UtpStream {
    pub(crate) fn new(port: Arc<Port>, member: Arc<Member>) -> UtpStream {
        UtpStream { port, member }
    }

    /// Waits for the answer to the SYN.
    pub(crate) async fn established(&self) -> io::Result<()> {
        std::future::poll_fn(|cx| {
            let mut end = self.member.lock();
            match (end.error(), end.protocol.state()) {
                (Some(error), _) => Poll::Ready(Err(error)),
                (None, State::SynSent) => wait(&mut end.writer, cx),
                _ => Poll::Ready(Ok(())),
            }
        })
        .await
    }

    /// The peer's address.
    pub fn peer_addr(&self) -> SocketAddr {
        SocketAddr::new(self.member.peer.ip().to_canonical(), self.member.peer.port())
    }

    /// The port's address.
    pub fn local_addr(&self) -> SocketAddr {
        self.port.udp.local()
    }

    /// How it goes.
    pub fn info(&self) -> Info {
        Info::of(&self.member)
    }

    /// Ends the connection at once, both ways: what was written and not acknowledged is given up, and the peer is told by a RESET, so that
    /// it does not take what was cut off for an end.
    pub fn abort(self) {
        let mut end = self.member.lock();
        end.reset(self.port.now());
        self.queue(&mut end);
    }

    /// Looks at the connection while the stream is in other hands.
    pub fn watch(&self) -> Watch {
        Watch(Arc::clone(&self.member))
    }

    fn queue(&self, end: &mut End) {
        self.port.queue_and_wake(&self.member, end);
    }
}

fn wait<T>(waker: &mut Option<Waker>, cx: &Context<'_>) -> Poll<T> {
    if !waker.as_ref().is_some_and(|known| known.will_wake(cx.waker())) {
        *waker = Some(cx.waker().clone());
    }
    Poll::Pending
}

impl AsyncRead for UtpStream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let mut end = self.member.lock();
        if end.receiving.read(into) > 0 {
            let unread = end.receiving.len() as u32;
            if end.protocol.set_unread(unread) {
                self.queue(&mut end);
            }
            return Poll::Ready(Ok(()));
        }
        if end.peer_ended || into.remaining() == 0 || end.protocol.state() == State::Closed {
            return Poll::Ready(Ok(()));
        }
        match end.error() {
            Some(error) => Poll::Ready(Err(error)),
            None => wait(&mut end.reader, cx),
        }
    }
}

impl AsyncWrite for UtpStream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let mut end = self.member.lock();
        if let Some(error) = end.error() {
            return Poll::Ready(Err(error));
        }
        if end.protocol.is_closing() {
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::BrokenPipe, "written to after shutdown")));
        }
        let room = (end.protocol.send_buffer() as usize).saturating_sub(end.sending.len()).min(bytes.len());
        if room == 0 && !bytes.is_empty() {
            return wait(&mut end.writer, cx);
        }
        let enough = end.protocol.unsent() > ENOUGH;
        end.sending.push(&bytes[..room]);
        end.protocol.write(room as u64);
        if !enough {
            self.queue(&mut end);
        }
        Poll::Ready(Ok(room))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        // Nothing is held back but a short packet behind others, which no flush can hasten (Nagle).
        Poll::Ready(Ok(()))
    }

    /// Ends this direction and waits until the peer has acknowledged everything.
    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut end = self.member.lock();
        if end.protocol.is_flushed() {
            return Poll::Ready(Ok(()));
        }
        if let Some(error) = end.error() {
            return Poll::Ready(Err(error));
        }
        if !end.protocol.is_closing() {
            end.protocol.shutdown();
            self.queue(&mut end);
        }
        wait(&mut end.writer, cx)
    }
}

impl Drop for UtpStream {
    fn drop(&mut self) {
        let mut end = self.member.lock();
        end.orphan(self.port.now());
        self.queue(&mut end);
    }
}
