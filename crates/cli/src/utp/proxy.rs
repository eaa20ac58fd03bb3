//! `lowtide utp proxy`: connections that come over TCP go on over uTP, or the other way round. Knows no application.

use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use clap::Parser;
use lowtide_utp_tokio::{UtpListener, UtpSocket, UtpStream};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::net::{TcpListener, TcpStream};

use super::channel::{self, Frame, Key, MOST, Reader, Writer};
use super::{Common, resolve, resolve_peer};
use crate::stdout;

/// Forward the connections of a port: TCP in, uTP out, or the other way round.
///
/// Here `lowtide utp proxy 127.0.0.1:2222 far.example:7071`, and there `lowtide utp proxy utp:0.0.0.0:7071 tcp:127.0.0.1:22`: then what
/// goes through port 2222 here gets out of the way. Each direction of a connection ends by itself. With --key both ends are lowtides;
/// without it the other may be any program that speaks uTP.
#[derive(Clone, Parser)]
pub struct Args {
    /// Where to listen: [tcp:]ADDRESS:PORT, or utp:ADDRESS:PORT.
    listen: String,
    /// Where to connect for each: [utp:]HOST:PORT, or tcp:HOST:PORT.
    connect: String,
    /// Print each connection that has ended as a line of JSON; the first line is the address.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    common: Common,
}

/// Which of the two is uTP.
enum Entrance {
    Tcp(TcpListener, Arc<[Way]>),
    Utp(UtpListener),
}

/// An address of the uTP side, and a port to connect to it from.
type Way = (SocketAddr, UtpSocket);

/// `text` without what says the protocol, and whether it says uTP.
fn protocol(text: &str, otherwise_utp: bool) -> (&str, bool) {
    match (text.strip_prefix("tcp:"), text.strip_prefix("utp:")) {
        (Some(address), _) => (address, false),
        (_, Some(address)) => (address, true),
        _ => (text, otherwise_utp),
    }
}

#[expect(clippy::print_stderr, reason = "where it listens, and what failed while it goes on listening")]
pub async fn main(args: &Args) -> Result<ExitCode> {
    let ((listen, from_utp), (connect, to_utp)) = (protocol(&args.listen, false), protocol(&args.connect, true));
    if from_utp == to_utp {
        bail!("{} to {}: one of them is TCP and the other uTP (tcp: and utp: say which)", args.listen, args.connect);
    }
    let listen = resolve(listen)?[0];
    // Of localhost's addresses, say, a service may have one only.
    let to: Arc<[SocketAddr]> = resolve_peer(connect)?.into();
    let key = Arc::new(args.common.key()?);
    // Each connection is a TCP socket, and a shell's limit is 1024.
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE)?;
    setrlimit(Resource::RLIMIT_NOFILE, most, most)?;
    let (mut entrance, address) = if from_utp {
        let listener = args.common.bind(listen)?.listen();
        let address = listener.socket().local_addr()?;
        (Entrance::Utp(listener), address)
    } else {
        let listener = TcpListener::bind(listen).await.with_context(|| format!("TCP {listen}"))?;
        let address = listener.local_addr()?;
        (Entrance::Tcp(listener, ways(&args.common, &to)?), address)
    };
    if args.json {
        stdout::line(serde_json::json!({ "listening": address.to_string(), "encrypted": key.is_some() }))?;
    } else {
        let how = if key.is_some() { "" } else { "; the uTP side is NOT encrypted (--key FILE)" };
        eprintln!("lowtide utp proxy: {} {address}{how}", if from_utp { "uTP" } else { "TCP" });
    }
    let json = args.json;
    loop {
        let Some((peer, work)) = next(&mut entrance, &to, &key).await else { continue };
        let connect = args.connect.clone();
        tokio::spawn(async move {
            let result = work.await.with_context(|| format!("{peer} to {connect}"));
            let printed = match result {
                Ok((up, down)) if json => {
                    stdout::line(serde_json::json!({ "from": peer.to_string(), "bytes_out": up, "bytes_back": down }))
                }
                Ok(_) => Ok(()),
                Err(e) if json => stdout::line(serde_json::json!({ "from": peer.to_string(), "error": format!("{e:#}") })),
                Err(e) => Err(e),
            };
            if let Err(e) = printed {
                eprintln!("lowtide utp proxy: {e:#}");
            }
        });
    }
}

type Work = std::pin::Pin<Box<dyn Future<Output = Result<(u64, u64)>> + Send>>;

/// The next connection: from where, and what is to be done with it. None if accepting failed, as it does without file descriptors.
async fn next(entrance: &mut Entrance, to: &Arc<[SocketAddr]>, key: &Arc<Option<Key>>) -> Option<(SocketAddr, Work)> {
    let (to, key) = (Arc::clone(to), Arc::clone(key));
    match entrance {
        Entrance::Tcp(listener, ways) => {
            let Ok((tcp, peer)) = listener.accept().await else {
                tokio::time::sleep(std::time::Duration::from_millis(100)).await;
                return None;
            };
            let ways = Arc::clone(ways);
            let work = async move {
                match connect_utp(&ways).await {
                    Ok(utp) => match greet(utp, key.as_ref().as_ref(), true).await {
                        Ok(side) => forward(tcp, side).await,
                        Err(e) => {
                            // The other end misses the first word, and takes that for no end either.
                            tcp.set_zero_linger()?;
                            Err(e)
                        }
                    },
                    Err(e) => {
                        tcp.set_zero_linger()?;
                        Err(e)
                    }
                }
            };
            Some((peer, Box::pin(work)))
        }
        Entrance::Utp(listener) => {
            let utp = listener.accept().await.ok()?;
            let peer = utp.peer_addr();
            let work = async move {
                // What is behind the key sees nobody who has none.
                let side = greet(utp, key.as_ref().as_ref(), false).await?;
                match TcpStream::connect(&*to).await {
                    Ok(tcp) => forward(tcp, side).await,
                    Err(e) => {
                        side.stream().abort();
                        Err(e.into())
                    }
                }
            };
            Some((peer, Box::pin(work)))
        }
    }
}

/// Ports to connect to `addresses` from. A host may lack one of the families.
fn ways(common: &Common, addresses: &[SocketAddr]) -> Result<Arc<[Way]>> {
    let bound: Vec<_> = addresses.iter().map(|&to| anyhow::Ok((to, common.bind_for(to)?))).collect();
    if bound.iter().all(Result::is_err) {
        return bound.into_iter().collect();
    }
    Ok(bound.into_iter().flatten().collect())
}

/// A connection over the first way that leads somewhere.
async fn connect_utp(ways: &[Way]) -> Result<UtpStream> {
    let mut failed = None;
    for (to, socket) in ways {
        match socket.connect(*to).await {
            Ok(stream) => return Ok(stream),
            Err(e) => failed = Some(format!("{to}: {e}")),
        }
    }
    bail!("{}", failed.unwrap_or_default())
}

/// The uTP side of a connection, once both ends have said who they are.
enum Side {
    Clear(UtpStream),
    Sealed(Reader<UtpStream>, Writer<UtpStream>),
}

impl Side {
    fn stream(self) -> UtpStream {
        match self {
            Side::Clear(utp) => utp,
            Side::Sealed(reader, writer) => reader.reunite(writer),
        }
    }
}

async fn greet(utp: UtpStream, key: Option<&Key>, first: bool) -> Result<Side> {
    let Some(key) = key else { return Ok(Side::Clear(utp)) };
    let (reader, writer) = channel::open(utp, Some(key), first).await?;
    Ok(Side::Sealed(reader, writer))
}

/// Both directions, each to its end; bytes from TCP and to it. When one fails both ends are reset: neither side may take what was cut off
/// for an end.
async fn forward(mut tcp: TcpStream, side: Side) -> Result<(u64, u64)> {
    tcp.set_nodelay(true)?;
    let (utp, result) = match side {
        Side::Clear(utp) => in_the_clear(&mut tcp, utp).await,
        Side::Sealed(reader, writer) => sealed(&mut tcp, reader, writer).await,
    };
    if result.is_err() {
        tcp.set_zero_linger()?;
        utp.abort();
    }
    result
}

async fn in_the_clear(tcp: &mut TcpStream, mut utp: UtpStream) -> (UtpStream, Result<(u64, u64)>) {
    let moved = tokio::io::copy_bidirectional_with_sizes(tcp, &mut utp, MOST, MOST).await;
    (utp, moved.map_err(Into::into))
}

async fn sealed(tcp: &mut TcpStream, mut reader: Reader<UtpStream>, mut writer: Writer<UtpStream>) -> (UtpStream, Result<(u64, u64)>) {
    let (mut from, mut to) = tcp.split();
    let moved = tokio::try_join!(outwards(&mut from, &mut writer), back(&mut reader, &mut to));
    (reader.reunite(writer), moved)
}

async fn outwards(from: &mut ReadHalf<'_>, writer: &mut Writer<UtpStream>) -> Result<u64> {
    let (mut bytes, mut moved) = (vec![0; MOST], 0);
    loop {
        match from.read(&mut bytes).await? {
            0 => break,
            n => {
                writer.bytes(&bytes[..n]).await?;
                moved += n as u64;
            }
        }
    }
    writer.end().await?;
    Ok(moved)
}

async fn back(reader: &mut Reader<UtpStream>, to: &mut WriteHalf<'_>) -> Result<u64> {
    let mut moved = 0;
    loop {
        match reader.frame().await? {
            Frame::Bytes(bytes) => {
                to.write_all(bytes).await?;
                moved += bytes.len() as u64;
            }
            Frame::End => break,
            Frame::Message(_) => bail!("the other end is no proxy"),
        }
    }
    to.shutdown().await?;
    Ok(moved)
}

#[cfg(test)]
mod tests {
    use lowtide_utp_tokio::Options;

    use super::*;

    fn any() -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], 0))
    }

    /// A name with two addresses, at the first of which nobody listens.
    #[tokio::test]
    async fn an_address_where_nobody_listens_is_not_the_last_word() {
        let mut listener = UtpListener::bind(any(), Options::default()).expect("loopback");
        let there = listener.socket().local_addr().expect("bound");
        let nobody = std::net::UdpSocket::bind(any()).and_then(|socket| socket.local_addr()).expect("loopback");
        let ways = [nobody, there].map(|to| (to, UtpSocket::bind(any(), Options::default()).expect("loopback")));
        let (stream, _) = tokio::join!(connect_utp(&ways), listener.accept());
        assert_eq!(stream.expect("the second").peer_addr(), there);
        let error = connect_utp(&ways[..1]).await.expect_err("nobody").to_string();
        assert!(error.contains(&nobody.to_string()), "{error}");

        let server = TcpListener::bind(any()).await.expect("loopback");
        let nobody = TcpListener::bind(any()).await.and_then(|closed| closed.local_addr()).expect("loopback");
        let to: Arc<[SocketAddr]> = [nobody, server.local_addr().expect("bound")].into();
        let mut entrance = Entrance::Utp(listener);
        let near = ways[1].1.connect(there);
        let ((_, work), _near) = tokio::join!(async { next(&mut entrance, &to, &Arc::new(None)).await.expect("accepted") }, near);
        tokio::spawn(work);
        tokio::time::timeout(std::time::Duration::from_secs(5), server.accept()).await.expect("in time").expect("connected");
    }
}
