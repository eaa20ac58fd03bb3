//! Many connections on one port, what an idle one costs, and peers that are none: floods, strays, forged packets.
#![expect(clippy::print_stderr, reason = "what was measured is shown where it is asked for")]

use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use lowtide_utp::{Header, Kind, Packet};
use lowtide_utp_tokio::{Options, UtpListener, UtpSocket, UtpStream};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

fn loopback() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

fn listener(options: Options) -> (UtpListener, SocketAddr) {
    let listener = UtpListener::bind(loopback(), options).expect("loopback");
    let address = listener.socket().local_addr().expect("bound");
    (listener, address)
}

fn datagram(header: Header, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    Packet { header, payload: payload.len() as u16, ..Packet::default() }.encode_head(&mut bytes);
    bytes.extend(payload);
    bytes
}

/// A peer made of bare datagrams.
struct Raw {
    socket: UdpSocket,
    received: usize,
}

impl Raw {
    fn to(address: SocketAddr) -> Raw {
        let socket = UdpSocket::bind(loopback()).expect("loopback");
        socket.connect(address).expect("loopback");
        socket.set_nonblocking(true).expect("loopback");
        Raw { socket, received: 0 }
    }

    fn send(&self, header: Header, payload: &[u8]) {
        self.socket.send(&datagram(header, payload)).expect("sent");
    }

    /// What has come within `ms`.
    async fn answers(&mut self, ms: u64) -> Vec<Packet> {
        tokio::time::sleep(Duration::from_millis(ms)).await;
        let (mut answers, mut bytes) = (Vec::new(), [0; 2000]);
        while let Ok(n) = self.socket.recv(&mut bytes) {
            self.received += n;
            answers.push(Packet::decode(&bytes[..n]).expect("uTP").0);
        }
        answers
    }
}

async fn echo(mut stream: UtpStream) {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).await.expect("read");
    stream.write_all(&bytes).await.expect("written");
    stream.shutdown().await.expect("acknowledged");
}

/// A thousand transfers at once between two ports, each there and back.
#[tokio::test]
async fn a_thousand_connections_on_one_port() {
    let (mut listener, address) = listener(Options::default());
    tokio::spawn(async move {
        while let Ok(stream) = listener.accept().await {
            tokio::spawn(echo(stream));
        }
    });
    let socket = UtpSocket::bind(loopback(), Options::default()).expect("loopback");
    let clients: Vec<_> = (0..1000u32)
        .map(|n| {
            let socket = socket.clone();
            tokio::spawn(async move {
                let mut stream = socket.connect(address).await.expect("connected");
                let sent: Vec<u8> = (0..20_000u32).map(|k| (k.wrapping_mul(n + 1) >> 3) as u8).collect();
                stream.write_all(&sent).await.expect("written");
                stream.shutdown().await.expect("acknowledged");
                let mut back = Vec::new();
                stream.read_to_end(&mut back).await.expect("read");
                assert!(back == sent, "{n}");
            })
        })
        .collect();
    for client in clients {
        client.await.expect("whole");
    }
}

/// Resident memory of this process in bytes.
fn resident() -> i64 {
    let pages = std::fs::read_to_string("/proc/self/statm").expect("Linux");
    pages.split_whitespace().nth(1).and_then(|pages| pages.parse::<i64>().ok()).expect("a number") * 4096
}

/// Seconds of the processor that this process has used.
fn cpu() -> f64 {
    let usage = nix::sys::resource::getrusage(nix::sys::resource::UsageWho::RUSAGE_SELF).expect("Linux");
    let seconds = |t: nix::sys::time::TimeVal| t.tv_sec() as f64 + t.tv_usec() as f64 / 1e6;
    seconds(usage.user_time()) + seconds(usage.system_time())
}

/// Both ends of 1000 connections (`LOWTIDE_CONNECTIONS`) that have carried data and rest: at most 4 KB each.
#[test]
fn an_idle_connection_costs_four_kilobytes_at_most() {
    let connections = std::env::var("LOWTIDE_CONNECTIONS").map_or(1000, |text| text.parse::<i64>().expect("a number"));
    // A process of its own: the other tests' memory is not in question.
    if std::env::var_os("IDLE_ALONE").is_none() {
        let alone = std::process::Command::new(std::env::current_exe().expect("this test"))
            .args(["an_idle_connection", "--nocapture"])
            .env("IDLE_ALONE", "1")
            .output()
            .expect("starts");
        eprint!("{}", String::from_utf8_lossy(&alone.stderr));
        assert!(alone.status.success());
        return;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let options = Options { max_half_open: 4000, backlog: 4000, ..Options::default() };
        let (mut listener, address) = listener(options.clone());
        let socket = UtpSocket::bind(loopback(), options).expect("loopback");
        let mut streams = Vec::with_capacity(2 * connections as usize + 200);
        let (sent, mut bytes) = (vec![7; 30_000], vec![0; 30_000]);
        let mut before = 0;
        // The first hundred warm what all share.
        for n in 0..connections + 100 {
            if n == 100 {
                tokio::time::sleep(Duration::from_millis(700)).await;
                before = resident();
            }
            let mut here = socket.connect(address).await.expect("connected");
            let mut there = listener.accept().await.expect("accepted");
            let (written, read) = tokio::join!(here.write_all(&sent), there.read_exact(&mut bytes));
            written.and(read.map(|_| ())).expect("carried");
            streams.extend([here, there]);
            if n % 50 == 0 {
                // Their buffers are given back with the next tick, and the allocator uses them again.
                tokio::time::sleep(Duration::from_millis(120)).await;
            }
        }
        tokio::time::sleep(Duration::from_millis(700)).await;
        let each = (resident() - before) / (2 * connections);
        let busy = cpu();
        tokio::time::sleep(Duration::from_secs(2)).await;
        let part = (cpu() - busy) / 2.0 * 100.0;
        eprintln!("{connections} idle connections: {each} bytes for each end, {part:.1} % of a processor for both ports");
        assert!((300..=4096).contains(&each), "{each} bytes for each end");
    });
}

/// 20,000 SYNs that nobody stands behind: a bounded number is kept, none is offered, no answer is larger than what asked, and who is
/// really there still gets through.
#[tokio::test]
async fn a_flood_of_syns_is_bounded() {
    let (mut listener, address) = listener(Options { max_half_open: 64, ..Options::default() });
    let mut flood = Raw::to(address);
    let mut sent = 0;
    for n in 0..20_000u32 {
        let header = Header { kind: Kind::Syn, connection_id: (n * 3) as u16, seq: n as u16, ..Header::default() };
        flood.send(header, &[]);
        sent += 20;
        if n % 500 == 0 {
            tokio::task::yield_now().await;
            flood.answers(0).await;
        }
    }
    flood.answers(300).await;
    assert!(flood.received > 0 && flood.received <= sent, "{} for {sent}", flood.received);
    assert!(listener.socket().connections() <= 64, "{}", listener.socket().connections());
    assert!(tokio::time::timeout(Duration::from_millis(100), listener.accept()).await.is_err(), "none is offered");
    let socket = UtpSocket::bind(loopback(), Options::default()).expect("loopback");
    let (accepted, connected) = tokio::join!(listener.accept(), socket.connect(address));
    accepted.and(connected).expect("there is room for who answers");
}

/// Packets that belong to no connection get one RESET of 20 bytes each, a thousand at most in ten seconds.
#[tokio::test]
async fn strays_are_answered_sparingly() {
    let (_listener, address) = listener(Options::default());
    let mut raw = Raw::to(address);
    let mut answers = Vec::new();
    for n in 0..3000u32 {
        let kind = [Kind::Data, Kind::Fin, Kind::State, Kind::Reset][n as usize % 4];
        raw.send(Header { kind, connection_id: 5, seq: n as u16, ..Header::default() }, &[0; 10]);
        if n % 50 == 0 {
            answers.extend(raw.answers(5).await);
        }
    }
    answers.extend(raw.answers(300).await);
    assert!((900..=1000).contains(&answers.len()), "{}", answers.len());
    assert!(answers.iter().all(|p| p.header.kind == Kind::Reset && p.bytes() == 20 && p.header.ack % 4 != 3));
}

/// A connection made of bare datagrams: its peer's first number and the stream.
async fn by_hand(listener: &mut UtpListener, raw: &mut Raw, window: u32) -> (u16, UtpStream) {
    raw.send(Header { kind: Kind::Syn, connection_id: 100, seq: 1, window, ..Header::default() }, &[]);
    let answer = raw.answers(50).await[0].header;
    assert_eq!((answer.kind, answer.connection_id, answer.ack), (Kind::State, 100, 1));
    let ack = answer.seq.wrapping_sub(1);
    raw.send(Header { kind: Kind::Data, connection_id: 101, seq: 2, ack, window, ..Header::default() }, b"x");
    let mut stream = listener.accept().await.expect("established");
    stream.read_exact(&mut [0]).await.expect("read");
    (answer.seq, stream)
}

/// Another address with the right ids, a RESET that knows no number, an acknowledgement and a SACK of what was never sent: nothing.
#[tokio::test]
async fn forged_packets_change_nothing() {
    let (mut listener, address) = listener(Options::default());
    let (mut peer, other) = (Raw::to(address), Raw::to(address));
    let (next, mut stream) = by_hand(&mut listener, &mut peer, 1 << 20).await;
    stream.write_all(&[7; 100]).await.expect("written");
    assert_eq!(peer.answers(50).await.iter().filter(|p| p.header.kind == Kind::Data).count(), 1);
    let good = Header { kind: Kind::Data, connection_id: 101, seq: 3, ack: next.wrapping_sub(1), window: 1 << 20, ..Header::default() };
    // From elsewhere, with everything right.
    other.send(good, b"forged");
    other.send(Header { kind: Kind::Reset, ..good }, &[]);
    other.send(Header { kind: Kind::Fin, ..good }, &[]);
    // From the peer's address, without its numbers.
    for ack in [next.wrapping_add(2), next.wrapping_add(30_000), next.wrapping_sub(100)] {
        peer.send(Header { kind: Kind::Reset, ack, ..good }, &[]);
        peer.send(Header { ack, ..good }, b"future");
    }
    // Says that packets have arrived that never left.
    let mut sack = Vec::new();
    let mask = Some(lowtide_utp::Sack::from_mask(u32::MAX));
    let state = Header { kind: Kind::State, seq: 3, ..good };
    Packet { header: state, sack: mask, ..Packet::default() }.encode_head(&mut sack);
    peer.socket.send(&sack).expect("sent");
    tokio::time::sleep(Duration::from_millis(50)).await;
    let info = stream.info();
    assert_eq!((info.delivered, info.received, info.in_flight, info.stats.retransmits), (0, 1, 100, 0));
    // The right ones count.
    peer.send(Header { ack: next, ..good }, b"y");
    stream.read_exact(&mut [0]).await.expect("read");
    assert_eq!(stream.info().delivered, 100);
    peer.send(Header { kind: Kind::Reset, ack: next, ..good }, &[]);
    let error = stream.read(&mut [0]).await.expect_err("reset");
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
}

/// The peer's window is zero and stays so: nothing is sent, and the writer gets one buffer's worth rid of.
#[tokio::test]
async fn a_window_of_zero_holds_everything_back() {
    let (mut listener, address) = listener(Options::default());
    let mut peer = Raw::to(address);
    let (_, mut stream) = by_hand(&mut listener, &mut peer, 0).await;
    peer.answers(0).await;
    let mut written = 0;
    while let Ok(n) = tokio::time::timeout(Duration::from_millis(100), stream.write(&[7; 65_536])).await {
        written += n.expect("written");
    }
    assert_eq!(written, 1 << 20);
    assert!(peer.answers(300).await.iter().all(|p| p.payload == 0));
}

/// The listener goes between a peer's SYN and its first packet.
#[tokio::test]
async fn a_connection_that_nobody_will_accept_is_reset() {
    let (listener, address) = listener(Options::default());
    let socket = listener.socket().clone();
    let mut peer = Raw::to(address);
    peer.send(Header { kind: Kind::Syn, connection_id: 100, seq: 1, window: 1 << 20, ..Header::default() }, &[]);
    let ack = peer.answers(50).await[0].header.seq.wrapping_sub(1);
    drop(listener);
    peer.send(Header { kind: Kind::Data, connection_id: 101, seq: 2, ack, window: 1 << 20, ..Header::default() }, b"x");
    assert!(peer.answers(200).await.iter().any(|p| p.header.kind == Kind::Reset), "the peer is told");
    tokio::time::timeout(Duration::from_secs(5), socket.close()).await.expect("nothing is left on the port");
}
