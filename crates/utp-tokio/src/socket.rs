//! A UDP port from outside: bind, connect, listen, close.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::task::AbortHandle;

use crate::driver;
use crate::options::Options;
use crate::port::Port;
use crate::stream::UtpStream;
use crate::udp::Udp;

/// A UDP port that connects; with [`listen`](UtpSocket::listen) it accepts too. Clones are the same port.
#[derive(Debug)]
pub struct UtpSocket {
    port: Arc<Port>,
    task: AbortHandle,
}

impl UtpSocket {
    /// Binds a UDP port, within a tokio runtime. The unspecified IPv6 address is for IPv4 too.
    ///
    /// # Errors
    /// The address cannot be bound, or the options cannot be had ([`OptionsError`](crate::OptionsError) inside).
    pub fn bind(address: SocketAddr, options: Options) -> io::Result<UtpSocket> {
        options.check().map_err(|e| io::Error::new(io::ErrorKind::InvalidInput, e))?;
        let port = Arc::new(Port::new(Udp::bind(address, options.udp_buffer)?, options));
        // Counted before the task looks for the first time.
        port.handles.fetch_add(1, Ordering::AcqRel);
        let task = tokio::spawn(driver::run(Arc::clone(&port))).abort_handle();
        Ok(UtpSocket { port, task })
    }

    /// The address that is bound.
    ///
    /// # Errors
    /// None today; a socket's address is a question to the system elsewhere.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.port.udp.local())
    }

    /// Connects. A future that is dropped gives up the attempt.
    ///
    /// # Errors
    /// `TimedOut` after 21 s without an answer (SYNs at 0, 3 and 9 s), `ConnectionRefused`, `HostUnreachable` where no route leads to the
    /// peer, or no room for another connection.
    pub async fn connect(&self, peer: SocketAddr) -> io::Result<UtpStream> {
        let stream = UtpStream::new(Arc::clone(&self.port), self.port.connect(self.port.udp.to_wire(peer))?);
        stream.established().await?;
        Ok(stream)
    }

    /// Accepts connections as long as the listener lives. Those that nobody has accepted are reset with it.
    pub fn listen(&self) -> UtpListener {
        self.port.listen(true);
        UtpListener { socket: self.clone() }
    }

    /// Waits until every connection of the port has ended, what was written having arrived or failed to.
    pub async fn close(self) {
        loop {
            let emptied = self.port.emptied.notified();
            if self.port.is_empty() {
                return;
            }
            emptied.await;
        }
    }

    /// Connections on the port, half-open and closing ones included.
    pub fn connections(&self) -> usize {
        self.port.len()
    }

    /// Whether the port's task has ended, with the runtime or by [`abort`](UtpSocket::abort).
    pub fn is_ended(&self) -> bool {
        self.task.is_finished()
    }

    /// Ends the port at once: its streams fail, and their peers are told by a RESET each.
    pub fn abort(self) {
        self.task.abort();
    }
}

impl Clone for UtpSocket {
    fn clone(&self) -> UtpSocket {
        self.port.handles.fetch_add(1, Ordering::AcqRel);
        UtpSocket { port: Arc::clone(&self.port), task: self.task.clone() }
    }
}

impl Drop for UtpSocket {
    fn drop(&mut self) {
        if self.port.handles.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.port.wake.notify_one();
        }
    }
}

/// Accepts the connections of a port. A peer is offered once it has shown that it has our answer, hence no forged address is.
#[derive(Debug)]
pub struct UtpListener {
    socket: UtpSocket,
}

impl UtpListener {
    /// Binds a UDP port and listens on it.
    ///
    /// # Errors
    /// As [`UtpSocket::bind`].
    pub fn bind(address: SocketAddr, options: Options) -> io::Result<UtpListener> {
        Ok(UtpSocket::bind(address, options)?.listen())
    }

    /// The next connection. A future that is dropped takes none.
    ///
    /// # Errors
    /// None today.
    pub async fn accept(&mut self) -> io::Result<UtpStream> {
        loop {
            let arrived = self.socket.port.arrived.notified();
            if let Some(member) = self.socket.port.accepted() {
                return Ok(UtpStream::new(Arc::clone(&self.socket.port), member));
            }
            arrived.await;
        }
    }

    /// The port, to connect from.
    pub fn socket(&self) -> &UtpSocket {
        &self.socket
    }
}

impl Drop for UtpListener {
    fn drop(&mut self) {
        self.socket.port.listen(false);
    }
}
