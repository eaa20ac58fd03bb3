//! What the network says of datagrams that did not arrive, and peers that vanish: on loopback and in network namespaces, with real ICMP.
#![expect(clippy::disallowed_methods, reason = "how long a failure takes is what is tested")]

use std::net::{SocketAddr, UdpSocket};
use std::process::Command;
use std::time::{Duration, Instant};

use lowtide_units::Span;
use lowtide_utp::{Header, Kind, Packet};
use lowtide_utp_tokio::{Options, UtpListener, UtpSocket, UtpStream};
use nix::sched::{CloneFlags, unshare};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

fn any(v6: bool) -> SocketAddr {
    if v6 { SocketAddr::from(([0, 0, 0, 0, 0, 0, 0, 1], 0)) } else { SocketAddr::from(([127, 0, 0, 1], 0)) }
}

/// A port where nobody listens.
fn closed_port(v6: bool) -> SocketAddr {
    UdpSocket::bind(any(v6)).and_then(|socket| socket.local_addr()).expect("loopback")
}

async fn connected(options: Options) -> (UtpSocket, UtpStream, UtpListener, UtpStream) {
    let mut listener = UtpListener::bind(any(false), options.clone()).expect("loopback");
    let socket = UtpSocket::bind(any(false), options).expect("loopback");
    let address = listener.socket().local_addr().expect("bound");
    let (ours, theirs) = tokio::join!(socket.connect(address), listener.accept());
    (socket, ours.expect("connected"), listener, theirs.expect("accepted"))
}

/// A peer made of a bare socket: answers a SYN and nothing more.
fn answers_the_syn(socket: UdpSocket) -> UdpSocket {
    let mut bytes = [0; 1500];
    let (n, from) = socket.recv_from(&mut bytes).expect("a SYN");
    let (syn, _) = Packet::decode(&bytes[..n]).expect("a SYN");
    let header = Header { kind: Kind::State, ack: syn.header.seq, window: 1 << 20, ..syn.header };
    let mut answer = Vec::new();
    Packet { header, ..Packet::default() }.encode_head(&mut answer);
    socket.send_to(&answer, from).expect("sent");
    socket
}

/// Without ICMP it takes 21 s.
#[tokio::test]
async fn a_port_where_nobody_listens_refuses_at_once() {
    for v6 in [false, true] {
        let socket = UtpSocket::bind(any(v6), Options::default()).expect("loopback");
        let began = Instant::now();
        let error = socket.connect(closed_port(v6)).await.expect_err("nobody listens");
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionRefused, "{error}");
        assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    }
}

/// A datagram that is refused makes the socket's next call fail, which may be for somebody else: nothing of that one is lost.
#[tokio::test]
async fn reports_about_one_peer_harm_no_other() {
    let (socket, mut ours, _listener, mut theirs) = connected(Options::default()).await;
    for _ in 0..50 {
        // Both are due at once, the SYN first.
        let (refused, written) = tokio::join!(socket.connect(closed_port(false)), ours.write_all(&[7; 100]));
        assert!(refused.is_err());
        written.expect("written");
        theirs.read_exact(&mut [0; 100]).await.expect("read");
    }
    assert_eq!(ours.info().stats.retransmits, 0, "{:?}", ours.info());
}

/// The peer's port is gone: what is sent there is refused by its host, and the connection ends long before its timeouts would.
#[tokio::test]
async fn a_peer_whose_port_is_gone_is_given_up_after_seconds() {
    let bare = UdpSocket::bind(any(false)).expect("loopback");
    let address = bare.local_addr().expect("bound");
    let answer = tokio::task::spawn_blocking(move || answers_the_syn(bare));
    let socket = UtpSocket::bind(any(false), Options::default()).expect("loopback");
    let mut ours = socket.connect(address).await.expect("connected");
    drop(answer.await.expect("answered"));
    let began = Instant::now();
    let error = async {
        loop {
            ours.write_all(&[1; 1000]).await?;
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    let Err::<(), std::io::Error>(error) = error.await else { unreachable!("it writes for ever") };
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "{error}");
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
}

/// A peer that is there answers a question; one whose host has gone without a word is given up.
#[tokio::test]
async fn a_silent_peer_is_given_up_and_a_quiet_one_is_not() {
    let options = Options { silence: Some(Span::from_millis(500)), tick: Span::from_millis(100), ..Options::default() };
    let (_socket, mut ours, _listener, mut theirs) = connected(options.clone()).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    ours.write_all(b"there?").await.expect("connected");
    theirs.read_exact(&mut [0; 6]).await.expect("connected");

    let silent = UdpSocket::bind(any(false)).expect("loopback");
    let address = silent.local_addr().expect("bound");
    let answer = tokio::task::spawn_blocking(move || answers_the_syn(silent));
    let socket = UtpSocket::bind(any(false), options).expect("loopback");
    let mut stream = socket.connect(address).await.expect("connected");
    let _silent = answer.await.expect("answered");
    let read = tokio::time::timeout(Duration::from_secs(60), stream.read(&mut [0])).await.expect("given up");
    assert_eq!(read.expect_err("nobody is there").kind(), std::io::ErrorKind::TimedOut);
}

fn ip(arguments: &str) {
    assert!(Command::new("ip").args(arguments.split(' ')).status().expect("ip starts").success(), "ip {arguments}");
}

/// Runs `test` in a network namespace of its own, where no interface is up.
fn alone<T: Future<Output = ()>>(name: &str, test: impl FnOnce() -> T + Send) {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            if let Err(e) = unshare(CloneFlags::CLONE_NEWNET) {
                return lowtide_testing::skip(name, &format!("a network namespace needs root: {e}"));
            }
            // All on this thread, the only one that is in the namespace.
            tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime").block_on(test());
        });
        thread.join().expect("it passes");
    });
}

async fn refused(bound: &str, peer: &str) -> (std::io::ErrorKind, Duration) {
    let socket = UtpSocket::bind(bound.parse().expect("an address"), Options::default()).expect("bound");
    let began = Instant::now();
    let error = socket.connect(peer.parse().expect("an address")).await.expect_err("nobody is there");
    (error.kind(), began.elapsed())
}

/// Offline; or of a host with addresses of both families the one that this host has no route to. Silence would take 21 s.
#[test]
fn a_peer_without_a_route_is_given_up_at_once() {
    alone("a_peer_without_a_route_is_given_up_at_once", || async {
        for (bound, peer) in [("0.0.0.0:0", "192.0.2.1:7070"), ("[::]:0", "[2001:db8::1]:7070"), ("[::]:0", "192.0.2.1:7070")] {
            let (kind, took) = refused(bound, peer).await;
            assert_eq!(kind, std::io::ErrorKind::HostUnreachable, "{bound} {peer}");
            assert!(took < Duration::from_secs(2), "{bound} {peer}: {took:?}");
        }
    });
}

/// A neighbour that does not answer: this host's own ICMP says so after three seconds, as it tells TCP.
#[test]
fn a_neighbour_that_is_not_there_is_given_up_with_the_networks_word() {
    alone("a_neighbour_that_is_not_there_is_given_up_with_the_networks_word", || async {
        // Where this host's own word comes from.
        ip("link set lo up");
        ip("link add near type veth peer name far");
        ip("address add 192.0.2.1/24 dev near");
        ip("link set near up");
        ip("link set far up");
        let (kind, took) = refused("0.0.0.0:0", "192.0.2.2:7070").await;
        assert_eq!(kind, std::io::ErrorKind::HostUnreachable);
        assert!(took < Duration::from_secs(15), "{took:?}");
    });
}

/// A route that is gone for a moment ends nothing that is established (RFC 1122, sec. 4.2.3.9).
#[test]
fn an_established_connection_outlives_its_route() {
    alone("an_established_connection_outlives_its_route", || async {
        ip("link set lo up");
        let (_socket, mut ours, _listener, mut theirs) = connected(Options::default()).await;
        ip("link set lo down");
        ours.write_all(&[1; 5000]).await.expect("taken");
        tokio::time::sleep(Duration::from_secs(1)).await;
        ip("link set lo up");
        let read = tokio::time::timeout(Duration::from_secs(20), theirs.read_exact(&mut [0; 5000])).await;
        assert_eq!(read.expect("in time").expect("it goes on"), 5000);
    });
}
