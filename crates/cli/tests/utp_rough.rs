//! uTP with what others wrote over a rough path: 5 Mbit/s with 100 ms of buffer, 100 ms RTT, 2 % lost and 5 % held back, each way, in
//! the laboratory's namespaces. Both directions, with equal sha256. Needs root and scripts/setup-utp-peers.
//!
//! Over IPv6 as well, and a thousand connections between two ports over a bottleneck.
//!
//! A megabyte each; `LOWTIDE_UTP_BYTES=100000000 cargo test -p lowtide --test utp_rough -- --nocapture` sends more.
#![expect(clippy::print_stderr, reason = "what was measured is what the command with more bytes is for")]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Lines};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use lowtide_lab::netns::Namespace;
use lowtide_lab::path::PathConfig;
use lowtide_lab::site::{CLIENT, SERVER, Site, ready};
use lowtide_net::{ImpairConfig, QueueConfig, Seed, droptail};
use lowtide_units::{Rate, Time};
use lowtide_utp_tokio::{Options, UtpSocket, UtpStream};
use sha2::{Digest, Sha256};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::runtime::Runtime;

/// Slower than this a transfer counts as stuck: a tenth of what losses of 2 % leave.
const SLOWEST: f64 = 12_000.0;

fn bytes() -> usize {
    std::env::var("LOWTIDE_UTP_BYTES").ok().and_then(|text| text.parse().ok()).unwrap_or(1_000_000)
}

fn limit() -> Duration {
    Duration::from_secs_f64(20.0 + bytes() as f64 / SLOWEST)
}

fn rough(way: u64) -> PathConfig {
    let impair = ImpairConfig { delay_ms: 50.0, loss: 0.02, reorder: 0.05, reorder_ms: 12.0, ..ImpairConfig::default() };
    PathConfig {
        rate: Rate::from_mbps_f64(5.0),
        trace: None,
        extra: BTreeMap::new(),
        queue: QueueConfig::DropTail(droptail::Config { ms: Some(100.0), ..droptail::Config::default() }),
        impair,
        header: 14,
        seed: Seed::new(1).of("rough").nth(way),
    }
}

/// The rough path, and what `scripts/setup-utp-peers` installed; none if one is missing, and in CI that fails.
fn ground(peer: &str) -> Option<(Site, PathBuf)> {
    ground_of(peer, &rough)
}

fn ground_of(peer: &str, path: &dyn Fn(u64) -> PathConfig) -> Option<(Site, PathBuf)> {
    if let Err(e) = ready() {
        lowtide_testing::skip("uTP over a rough path", &format!("{e:#}"));
        return None;
    }
    let modules = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/utp-peers").join(peer);
    if !modules.exists() {
        lowtide_testing::skip("uTP over a rough path", &format!("{} is missing: scripts/setup-utp-peers", modules.display()));
        return None;
    }
    Some((Site::new(1500, path(0), path(1), Time::ZERO..Time::MAX).expect("a path"), modules))
}

/// A peer in a namespace, ended with this.
struct Peer {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Peer {
    fn start(space: &Namespace, host: IpAddr, program: &str, arguments: &[&str]) -> Result<Peer> {
        let mut command = Command::new(program);
        command.args(arguments).env("HOST", host.to_string()).env("LIMIT_S", limit().as_secs().to_string()).stdout(Stdio::piped());
        let mut child = space.place(&mut command).spawn().with_context(|| program.to_owned())?;
        let lines = BufReader::new(child.stdout.take().context("piped")?).lines();
        Ok(Peer { child, lines })
    }

    fn script(space: &Namespace, host: IpAddr, script: &str, modules: &Path, arguments: &[&str]) -> Result<Peer> {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../utp-tokio/tests/peers").join(script);
        let program = if script.ends_with(".js") { "node" } else { "python3" };
        let all = [&[path.to_str().context("a name")?, modules.to_str().context("a name")?], arguments].concat();
        Peer::start(space, host, program, &all)
    }

    /// What follows `key` in the next line.
    fn says(&mut self, key: &str) -> Result<String> {
        let line = self.lines.next().with_context(|| format!("the peer ended without `{key}`"))??;
        Ok(line.strip_prefix(key).with_context(|| format!("`{key}` and not: {line}"))?.trim().to_owned())
    }
}

fn runtime() -> Result<Runtime> {
    Ok(tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?)
}

/// A port of ours in `space`.
fn ours(runtime: &Runtime, space: &Namespace, address: IpAddr) -> Result<UtpSocket> {
    space.enter(|| {
        let _inside = runtime.enter();
        Ok(UtpSocket::bind(SocketAddr::new(address, 0), Options::default())?)
    })
}

fn hex(digest: &[u8]) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

async fn send(to: &mut (impl AsyncWrite + Unpin)) -> Result<String> {
    let chunk: Vec<u8> = (0..1u64 << 16).map(|n| (n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as u8).collect();
    let (mut left, mut hash) = (bytes(), Sha256::new());
    while left > 0 {
        let part = &chunk[..left.min(chunk.len())];
        to.write_all(part).await?;
        hash.update(part);
        left -= part.len();
    }
    to.shutdown().await?;
    Ok(hex(&hash.finalize()))
}

async fn receive(from: &mut (impl AsyncRead + Unpin)) -> Result<String> {
    let (mut hash, mut part) = (Sha256::new(), vec![0; 1 << 16]);
    loop {
        match from.read(&mut part).await? {
            0 => return Ok(hex(&hash.finalize())),
            n => hash.update(&part[..n]),
        }
    }
}

/// Says how it went.
fn told(what: &str, began: Instant, stream: Option<&UtpStream>) {
    let took = began.elapsed().as_secs_f64();
    let sender = stream.map_or_else(String::new, |stream| {
        let stats = stream.info().stats;
        format!(", {} sent again, {} timeouts", stats.retransmits, stats.timeouts)
    });
    eprintln!("{what}: {} bytes in {took:.1} s, {:.2} Mbit/s{sender}", bytes(), bytes() as f64 * 8e-6 / took);
}

#[expect(clippy::disallowed_methods, reason = "how long it took is told")]
fn now() -> Instant {
    Instant::now()
}

/// libutp listens in the server's namespace, and receives or sends.
fn with_libutp(we_send: bool) -> Result<()> {
    let Some((site, modules)) = ground("node_modules") else { return Ok(()) };
    let (runtime, count) = (runtime()?, bytes().to_string());
    let what = if we_send { "receive" } else { "send" };
    let mut peer = Peer::script(&site.server, SERVER.into(), "libutp.js", &modules, &["listen", "5001", what, &count])?;
    peer.says("port")?;
    let socket = ours(&runtime, &site.client, CLIENT.into())?;
    let began = now();
    let sha256 = runtime.block_on(async {
        let transfer = async {
            let mut stream = socket.connect((SERVER, 5001).into()).await?;
            let sha256 = if we_send {
                send(&mut stream).await?
            } else {
                stream.write_all(b".").await?;
                receive(&mut stream).await?
            };
            told(if we_send { "ours to libutp" } else { "libutp to ours" }, began, we_send.then_some(&stream));
            Ok::<_, anyhow::Error>(sha256)
        };
        tokio::time::timeout(limit(), transfer).await.context("stuck")?
    })?;
    ensure!(peer.says("")? == format!("{sha256} {count}"), "another sha256");
    Ok(())
}

#[test]
fn libutp_receives_what_we_send_over_a_rough_path() {
    with_libutp(true).unwrap_or_else(|e| panic!("{e:#}"));
}

#[test]
fn we_receive_what_libutp_sends_over_a_rough_path() {
    with_libutp(false).unwrap_or_else(|e| panic!("{e:#}"));
}

fn with_librqbit(we_send: bool, v6: bool) -> Result<()> {
    let Some((site, _)) = ground("") else { return Ok(()) };
    let (client, server) = if v6 { give_ipv6(&site)? } else { (CLIENT.into(), SERVER.into()) };
    let runtime = runtime()?;
    let theirs = site.server.enter(|| Ok(runtime.block_on(librqbit_utp::UtpSocket::new_udp((server, 5001).into()))?))?;
    let socket = ours(&runtime, &site.client, client)?;
    let began = now();
    let transfer = async {
        let connect = async {
            let mut stream = socket.connect((server, 5001).into()).await?;
            stream.write_all(b".").await?;
            Ok::<_, anyhow::Error>(stream)
        };
        let (mut ours, mut theirs) = tokio::try_join!(connect, async { Ok(theirs.accept().await?) })?;
        theirs.read_exact(&mut [0]).await?;
        let (sent, received) = if we_send {
            tokio::try_join!(send(&mut ours), receive(&mut theirs))?
        } else {
            tokio::try_join!(send(&mut theirs), receive(&mut ours))?
        };
        ensure!(sent == received, "another sha256");
        told(if we_send { "ours to librqbit-utp" } else { "librqbit-utp to ours" }, began, we_send.then_some(&ours));
        Ok(())
    };
    runtime.block_on(async { tokio::time::timeout(limit(), transfer).await.context("stuck")? })
}

#[test]
fn librqbit_utp_receives_what_we_send_over_a_rough_path() {
    with_librqbit(true, false).unwrap_or_else(|e| panic!("{e:#}"));
}

#[test]
fn we_receive_what_librqbit_utp_sends_over_a_rough_path() {
    with_librqbit(false, false).unwrap_or_else(|e| panic!("{e:#}"));
}

#[test]
fn both_send_over_a_rough_path_of_ipv6() {
    for we_send in [true, false] {
        with_librqbit(we_send, true).unwrap_or_else(|e| panic!("{we_send}: {e:#}"));
    }
}

/// The client's and the server's address of IPv6.
fn give_ipv6(site: &Site) -> Result<(IpAddr, IpAddr)> {
    let addresses = [1, 2].map(|last| Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, last));
    for (space, address) in [&site.client, &site.server].into_iter().zip(addresses) {
        let mut command = Command::new("ip");
        command.args(["-6", "address", "add", &format!("{address}/64"), "dev", "tun0", "nodad"]);
        ensure!(space.place(&mut command).status()?.success(), "ip -6 address add {address} failed");
    }
    Ok((addresses[0].into(), addresses[1].into()))
}

/// All begin at once, and 20 Mbit/s with 100 ms of buffer hold a quarter of one packet of each.
#[test]
fn a_thousand_connections_share_a_bottleneck() {
    let smooth = |way| PathConfig {
        rate: Rate::from_mbps_f64(20.0),
        impair: ImpairConfig { delay_ms: 20.0, ..ImpairConfig::default() },
        ..rough(way)
    };
    let Some((site, _)) = ground_of("", &smooth) else { return };
    a_thousand_share(&site).unwrap_or_else(|e| panic!("{e:#}"));
}

fn a_thousand_share(site: &Site) -> Result<()> {
    const EACH: usize = 10_000;
    let runtime = runtime()?;
    let (here, there) = (ours(&runtime, &site.client, CLIENT.into())?, ours(&runtime, &site.server, SERVER.into())?);
    let (began, to) = (now(), there.local_addr()?);
    runtime.block_on(async {
        let mut listener = there.listen();
        let accepting = tokio::spawn(async move {
            let mut receiving = tokio::task::JoinSet::new();
            for _ in 0..1000 {
                let mut stream = listener.accept().await?;
                receiving.spawn(async move {
                    let mut got = Vec::new();
                    stream.read_to_end(&mut got).await?;
                    // Which one it is, so many times.
                    ensure!(got.len() == EACH && got.chunks(4).all(|part| part == &got[..4]), "{} bytes", got.len());
                    Ok(u32::from_le_bytes(got[..4].try_into()?))
                });
            }
            let mut all: Vec<u32> = receiving.join_all().await.into_iter().collect::<Result<_>>()?;
            all.sort_unstable();
            Ok::<_, anyhow::Error>(all)
        });
        let sending: Vec<_> = (0..1000u32)
            .map(|n| {
                let here = here.clone();
                tokio::spawn(async move {
                    let mut stream = here.connect(to).await.with_context(|| format!("connection {n}"))?;
                    let sent: Vec<u8> = n.to_le_bytes().into_iter().cycle().take(EACH).collect();
                    stream.write_all(&sent).await?;
                    stream.shutdown().await.with_context(|| format!("connection {n}: {:?}", stream.info()))?;
                    Ok::<_, anyhow::Error>(stream.info().stats)
                })
            })
            .collect();
        let (mut again, mut timeouts) = (0, 0);
        for sent in sending {
            let stats = sent.await??;
            (again, timeouts) = (again + stats.retransmits, timeouts + stats.timeouts);
        }
        ensure!(accepting.await?? == (0..1000).collect::<Vec<_>>(), "not all arrived");
        let took = began.elapsed().as_secs_f64();
        eprintln!("1000 connections, {EACH} bytes each, 20 Mbit/s: {took:.1} s, {again} packets sent again, {timeouts} timeouts");
        Ok(())
    })
}

/// A torrent through `lowtide utp proxy`: one libtorrent speaks uTP over the path, the other TCP to the proxy beside it.
fn with_libtorrent(we_send: bool) -> Result<()> {
    let Some((site, modules)) = ground("python") else { return Ok(()) };
    let (folder, count) = (tempfile::tempdir()?, bytes().to_string());
    let folder = folder.path().to_str().context("a name")?;
    let loopback = IpAddr::from([127, 0, 0, 1]);
    let (seeds, fetches) = if we_send { (("tcp", loopback), ("utp", CLIENT.into())) } else { (("utp", SERVER.into()), ("tcp", loopback)) };
    let script = "libtorrent_peer.py";
    let mut seeder = Peer::script(&site.server, seeds.1, script, &modules, &[folder, seeds.0, "seed", &count])?;
    let sha256 = seeder.says("sha256")?;
    let seeder_port = seeder.says("port")?;
    let (space, listen, connect) = if we_send {
        (&site.server, format!("utp:{SERVER}:5001"), format!("tcp:127.0.0.1:{seeder_port}"))
    } else {
        (&site.client, "tcp:127.0.0.1:0".to_owned(), format!("utp:{SERVER}:{seeder_port}"))
    };
    let mut proxy = Peer::start(space, loopback, env!("CARGO_BIN_EXE_lowtide"), &["utp", "proxy", &listen, &connect, "--json"])?;
    let address: serde_json::Value = serde_json::from_str(&proxy.says("")?)?;
    let address: SocketAddr = address["listening"].as_str().context("an address")?.parse()?;
    let began = now();
    let (host, port) = (address.ip().to_string(), address.port().to_string());
    let mut fetcher = Peer::script(&site.client, fetches.1, script, &modules, &[folder, fetches.0, "fetch", &host, &port])?;
    fetcher.says("port")?;
    ensure!(fetcher.says("sha256")? == sha256, "another sha256");
    told(if we_send { "proxy to libtorrent" } else { "libtorrent to proxy" }, began, None);
    Ok(())
}

#[test]
fn libtorrent_fetches_through_our_proxy_over_a_rough_path() {
    with_libtorrent(true).unwrap_or_else(|e| panic!("{e:#}"));
}

#[test]
fn libtorrent_seeds_through_our_proxy_over_a_rough_path() {
    with_libtorrent(false).unwrap_or_else(|e| panic!("{e:#}"));
}
