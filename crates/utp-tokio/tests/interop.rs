//! Beside what others wrote: libutp itself (npm utp-native), libtorrent (PyPI), librqbit-utp (a crate). 100 MB each way on loopback, with
//! equal sha256. `scripts/setup-utp-peers` installs the first two into target/; without them these tests say so, and fail in CI.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use lowtide_units::Span;
use lowtide_utp_tokio::{Options, UtpListener, UtpSocket};
use sha2::{Digest, Sha256};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader, Lines};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::{Child, ChildStdout, Command};

const BYTES: usize = 100_000_000;
/// One transfer, on a machine that is busy.
const LIMIT: Duration = Duration::from_secs(60);

fn loopback(port: u16) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], port))
}

fn listener() -> (UtpListener, u16) {
    let listener = UtpListener::bind(loopback(0), Options::default()).expect("loopback");
    let port = listener.socket().local_addr().expect("bound").port();
    (listener, port)
}

/// Asks a peer that is silent for half a second whether it is there.
fn impatient(from: IpAddr) -> UtpSocket {
    let options = Options { silence: Some(Span::from_millis(500)), tick: Span::from_millis(100), ..Options::default() };
    UtpSocket::bind(SocketAddr::new(from, 0), options).expect("loopback")
}

/// Long enough for a peer that answers no question to be given up.
const QUIET: Duration = Duration::from_secs(4);

fn socket() -> UtpSocket {
    UtpSocket::bind(loopback(0), Options::default()).expect("loopback")
}

fn hex(digest: &[u8]) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Sends `BYTES` of a pattern; their sha256.
async fn send(to: &mut (impl AsyncWrite + Unpin)) -> String {
    let chunk: Vec<u8> = (0..1u64 << 16).map(|n| (n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as u8).collect();
    let (mut left, mut hash) = (BYTES, Sha256::new());
    while left > 0 {
        let part = &chunk[..left.min(chunk.len())];
        to.write_all(part).await.expect("written");
        hash.update(part);
        left -= part.len();
    }
    to.shutdown().await.expect("acknowledged");
    hex(&hash.finalize())
}

/// Receives to the end: the sha256, and how much.
async fn receive(from: &mut (impl AsyncRead + Unpin)) -> (String, usize) {
    let (mut got, mut hash, mut part) = (0, Sha256::new(), vec![0; 1 << 16]);
    loop {
        let n = from.read(&mut part).await.expect("read");
        if n == 0 {
            return (hex(&hash.finalize()), got);
        }
        hash.update(&part[..n]);
        got += n;
    }
}

/// What the set-up installed, or none: then the test is skipped, loudly.
fn installed(what: &str) -> Option<PathBuf> {
    let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/utp-peers").join(what);
    if target.exists() {
        return Some(target);
    }
    lowtide_testing::skip("a uTP beside ours", &format!("{} is missing: scripts/setup-utp-peers", target.display()));
    None
}

/// A peer in a process of its own.
struct Peer {
    _child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Peer {
    fn start(program: &str, script: &str, modules: &Path, arguments: &[&str]) -> Peer {
        Peer::start_on("127.0.0.1", program, script, modules, arguments)
    }

    fn start_on(host: &str, program: &str, script: &str, modules: &Path, arguments: &[&str]) -> Peer {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/peers").join(script);
        let mut child = Command::new(program)
            .arg(script)
            .arg(modules)
            .args(arguments)
            .env("HOST", host)
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap_or_else(|e| panic!("{program}: {e}"));
        let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        Peer { _child: child, lines }
    }

    /// The next line's word after `key`.
    async fn says(&mut self, key: &str) -> String {
        let line = self.lines.next_line().await.expect("a line").unwrap_or_else(|| panic!("the peer ended without `{key}`"));
        line.strip_prefix(key).unwrap_or_else(|| panic!("`{key}` and not: {line}")).trim().to_owned()
    }
}

async fn within<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(LIMIT, what).await.expect("within a minute")
}

#[tokio::test]
async fn libutp_receives_what_we_send_and_sends_what_we_receive() {
    let Some(modules) = installed("node_modules") else { return };
    let node = |arguments: &[&str]| Peer::start("node", "libutp.js", &modules, arguments);
    let bytes = BYTES.to_string();
    within(async {
        // Each end connects, and each end sends.
        let mut peer = node(&["listen", "0", "receive", &bytes]);
        let port = peer.says("port").await.parse().expect("a port");
        let sent = send(&mut socket().connect(loopback(port)).await.expect("connected")).await;
        assert_eq!(peer.says("").await, format!("{sent} {bytes}"), "we connect and send");

        let mut peer = node(&["listen", "0", "send", &bytes]);
        let port = peer.says("port").await.parse().expect("a port");
        let mut stream = socket().connect(loopback(port)).await.expect("connected");
        stream.write_all(b".").await.expect("written");
        let (sha256, got) = receive(&mut stream).await;
        drop(stream);
        assert_eq!(peer.says("").await, format!("{sha256} {got}"), "we connect and receive");

        let (mut listener, port) = listener();
        let mut peer = node(&["connect", &port.to_string(), "send", &bytes]);
        let mut stream = listener.accept().await.expect("accepted");
        let (sha256, got) = receive(&mut stream).await;
        drop(stream);
        assert_eq!(peer.says("").await, format!("{sha256} {got}"), "we accept and receive");

        let mut peer = node(&["connect", &port.to_string(), "receive", &bytes]);
        let sent = send(&mut listener.accept().await.expect("accepted")).await;
        assert_eq!(peer.says("").await, format!("{sent} {bytes}"), "we accept and send");
    })
    .await;
}

#[tokio::test]
async fn librqbit_utp_receives_what_we_send_and_sends_what_we_receive() {
    with_librqbit(loopback(0)).await;
}

#[tokio::test]
async fn librqbit_utp_does_so_over_ipv6_too() {
    with_librqbit(SocketAddr::from((Ipv6Addr::LOCALHOST, 0))).await;
}

async fn with_librqbit(any_port: SocketAddr) {
    within(async {
        let theirs = librqbit_utp::UtpSocket::new_udp(any_port).await.expect("loopback");
        let mut listener = UtpListener::bind(any_port, Options::default()).expect("loopback");
        let to = listener.socket().local_addr().expect("bound");
        // It knows no half-closed connection: one for each direction.
        for we_send in [true, false] {
            let connect = async {
                // Before it writes nothing confirms its address, and it is not offered.
                let mut stream = theirs.connect(to).await.expect("connected");
                stream.write_all(b".").await.expect("written");
                stream
            };
            let (ours, theirs) = tokio::join!(listener.accept(), connect);
            let (mut ours, mut theirs) = (ours.expect("accepted"), theirs);
            ours.read_exact(&mut [0]).await.expect("read");
            let (sent, received) = if we_send {
                tokio::join!(send(&mut ours), receive(&mut theirs))
            } else {
                tokio::join!(send(&mut theirs), receive(&mut ours))
            };
            assert_eq!(received, (sent, BYTES), "we accept and send: {we_send}");
        }
        let (accepted, ours) = tokio::join!(theirs.accept(), listener.socket().connect(theirs.bind_addr()));
        let (mut accepted, mut ours) = (accepted.expect("accepted"), ours.expect("connected"));
        ours.write_all(b".").await.expect("written");
        accepted.read_exact(&mut [0]).await.expect("read");
        let (sent, received) = tokio::join!(send(&mut accepted), receive(&mut ours));
        assert_eq!(received, (sent, BYTES), "we connect and receive");
    })
    .await;
}

/// A peer that is quiet is not given up, since it answers: neither libutp nor librqbit-utp.
#[tokio::test]
async fn quiet_peers_answer_questions() {
    let theirs = librqbit_utp::UtpSocket::new_udp(loopback(0)).await.expect("loopback");
    let (accepted, ours) = tokio::join!(theirs.accept(), async {
        let mut stream = impatient([127, 0, 0, 1].into()).connect(theirs.bind_addr()).await.expect("connected");
        stream.write_all(b".").await.expect("written");
        stream
    });
    let (mut accepted, mut ours) = (accepted.expect("accepted"), ours);
    accepted.read_exact(&mut [0]).await.expect("read");
    tokio::time::sleep(QUIET).await;
    ours.write_all(b"there?").await.expect("librqbit-utp is there");
    accepted.read_exact(&mut [0; 6]).await.expect("read");

    let Some(modules) = installed("node_modules") else { return };
    let mut peer = Peer::start("node", "libutp.js", &modules, &["listen", "0", "receive", "7"]);
    let port = peer.says("port").await.parse().expect("a port");
    let mut stream = impatient([127, 0, 0, 1].into()).connect(loopback(port)).await.expect("connected");
    stream.write_all(b".").await.expect("written");
    tokio::time::sleep(QUIET).await;
    stream.write_all(b"there?").await.expect("libutp is there");
    stream.shutdown().await.expect("acknowledged");
    assert_eq!(peer.says("").await.split(' ').nth(1), Some("7"));
}

/// A torrent of 100 MB from a libtorrent that speaks uTP alone to one that speaks TCP alone, and the other way round: what is in between
/// is ours.
#[tokio::test]
async fn libtorrent_fetches_a_torrent_through_us_either_way() {
    let Some(modules) = installed("python") else { return };
    let bytes = BYTES.to_string();
    for (seeds, fetches) in [("utp", "tcp"), ("tcp", "utp")] {
        within(async {
            let folder = tempfile::tempdir().expect("a folder");
            let folder = folder.path().to_str().expect("a name");
            let mut seeder = Peer::start("python3", "libtorrent_peer.py", &modules, &[folder, seeds, "seed", &bytes]);
            let sha256 = seeder.says("sha256").await;
            let to = loopback(seeder.says("port").await.parse().expect("a port"));
            let port = if seeds == "utp" { forward_to_utp(to).await } else { forward_to_tcp(to) };
            let mut fetcher =
                Peer::start("python3", "libtorrent_peer.py", &modules, &[folder, fetches, "fetch", "127.0.0.1", &port.to_string()]);
            fetcher.says("port").await;
            assert_eq!(fetcher.says("sha256").await, sha256, "{seeds} seeds");
        })
        .await;
    }
}

/// A TCP port whose connections go on over uTP.
async fn forward_to_utp(to: SocketAddr) -> u16 {
    let listener = TcpListener::bind(loopback(0)).await.expect("loopback");
    let port = listener.local_addr().expect("bound").port();
    let socket = socket();
    tokio::spawn(async move {
        while let Ok((mut tcp, _)) = listener.accept().await {
            let socket = socket.clone();
            tokio::spawn(async move {
                let mut utp = socket.connect(to).await?;
                tokio::io::copy_bidirectional(&mut tcp, &mut utp).await
            });
        }
    });
    port
}

/// A uTP port whose connections go on over TCP.
fn forward_to_tcp(to: SocketAddr) -> u16 {
    let (mut listener, port) = listener();
    tokio::spawn(async move {
        while let Ok(mut utp) = listener.accept().await {
            tokio::spawn(async move {
                let mut tcp = TcpStream::connect(to).await?;
                tokio::io::copy_bidirectional(&mut utp, &mut tcp).await
            });
        }
    });
    port
}

/// The BitTorrent handshake (BEP 3) with libtorrent's uTP port, byte for byte.
#[tokio::test]
async fn libtorrent_answers_a_handshake() {
    let Some(modules) = installed("python") else { return };
    shakes_hands(&modules, "127.0.0.1".parse().expect("an address")).await;
    shakes_hands(&modules, Ipv6Addr::LOCALHOST.into()).await;
}

async fn shakes_hands(modules: &Path, host: IpAddr) {
    within(async {
        let folder = tempfile::tempdir().expect("a folder");
        let name = folder.path().to_str().expect("a name");
        let listens_on = if host.is_ipv6() { format!("[{host}]") } else { host.to_string() };
        let mut seeder = Peer::start_on(&listens_on, "python3", "libtorrent_peer.py", modules, &[name, "utp", "seed", "1000000"]);
        seeder.says("sha256").await;
        let to = SocketAddr::new(host, seeder.says("port").await.parse().expect("a port"));
        let torrent = std::fs::read(folder.path().join("data.torrent")).expect("written");
        let hash = info_hash(&torrent);
        let mut hello = b"\x13BitTorrent protocol\0\0\0\0\0\0\0\0".to_vec();
        hello.extend(&hash);
        hello.extend(b"-LT0000-lowtide-test");
        let mut stream = impatient(host).connect(to).await.expect("connected");
        stream.write_all(&hello).await.expect("written");
        let mut answer = [0; 68];
        stream.read_exact(&mut answer).await.expect("an answer");
        assert_eq!((&answer[..20], &answer[28..48]), (&hello[..20], &hash[..]));
        tokio::time::sleep(QUIET).await;
        // What it says of its pieces is none of ours; an error would be.
        let mut rest = vec![0; 1 << 16];
        while let Ok(read) = tokio::time::timeout(Duration::from_millis(100), stream.read(&mut rest)).await {
            assert!(read.expect("libtorrent is there") > 0, "it closed");
        }
    })
    .await;
}

/// SHA-1 of the `info` dictionary, which libtorrent's torrents end with but for one `e`.
fn info_hash(torrent: &[u8]) -> Vec<u8> {
    let at = torrent.windows(6).position(|w| w == b"4:info").expect("a torrent") + 6;
    let mut end = at;
    let mut depth = 0;
    loop {
        match torrent[end] {
            b'd' | b'l' => (depth, end) = (depth + 1, end + 1),
            b'i' => end += torrent[end..].iter().position(|&b| b == b'e').expect("an integer") + 1,
            b'e' => (depth, end) = (depth - 1, end + 1),
            _ => {
                let colon = end + torrent[end..].iter().position(|&b| b == b':').expect("a string");
                let len: usize = std::str::from_utf8(&torrent[end..colon]).expect("digits").parse().expect("a length");
                end = colon + 1 + len;
            }
        }
        if depth == 0 {
            return sha1::Sha1::digest(&torrent[at..end]).to_vec();
        }
    }
}
