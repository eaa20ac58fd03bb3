//! uTP (BEP 29) on tokio: many connections on one UDP port, each an [`AsyncRead`](tokio::io::AsyncRead) and
//! [`AsyncWrite`](tokio::io::AsyncWrite), sent under a congestion control that gets out of the way (libutp-mod unless another is
//! chosen). Talks to libutp, libtorrent and librqbit-utp. The protocol is `lowtide-utp`, the very state machine that `lowtide sim`
//! runs; this crate adds sockets, clocks, buffers and tasks.
//!
//! uTP is neither encrypted nor authenticated: who can read the path reads the data, and who knows its numbers can end a connection.
//! Run TLS or Noise over the stream where that matters.
//!
//! ```
//! use lowtide_utp_tokio::{Options, UtpSocket};
//! use tokio::io::{AsyncReadExt, AsyncWriteExt};
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> std::io::Result<()> {
//! let server = UtpSocket::bind("127.0.0.1:0".parse().unwrap(), Options::default())?;
//! let mut listener = server.listen();
//! let address = server.local_addr()?;
//! tokio::spawn(async move {
//!     let mut stream = listener.accept().await?;
//!     let mut text = String::new();
//!     stream.read_to_string(&mut text).await?;
//!     stream.write_all(text.to_uppercase().as_bytes()).await?;
//!     stream.shutdown().await
//! });
//!
//! let client = UtpSocket::bind("127.0.0.1:0".parse().unwrap(), Options::default())?;
//! let mut stream = client.connect(address).await?;
//! stream.write_all(b"hello").await?;
//! stream.shutdown().await?; // ends this direction; the other goes on
//! let mut answer = String::new();
//! stream.read_to_string(&mut answer).await?;
//! assert_eq!(answer, "HELLO");
//! # Ok(()) }
//! ```
//!
//! # What to know
//!
//! - [`UtpStream`] is cancellation-safe: a read or write whose future is dropped has taken or moved nothing.
//! - `shutdown` returns when the peer has acknowledged everything. A stream that is dropped still delivers what was written, as
//!   long as the runtime lives; [`UtpSocket::close`] waits for that. Connections that are left when the runtime ends are reset, and
//!   [`UtpStream::abort`] resets one: a reader tells a peer that failed (`ConnectionReset`) from one that ended.
//! - Writes wait for room in a buffer of [`Options::send_buffer`] bytes, and a reader that does not read closes the window.
//! - A connection that is idle keeps no buffers.

mod buffers;
mod connection;
mod driver;
mod errors;
mod limits;
mod options;
mod port;
mod socket;
mod stream;
mod train;
mod udp;

pub use options::{Options, OptionsError};
pub use socket::{UtpListener, UtpSocket};
pub use stream::{Info, UtpStream, Watch};
