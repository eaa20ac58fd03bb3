//! Streams between two ports on loopback: what is written arrives, ends are ends, and futures may be dropped.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::time::Duration;

use lowtide_utp_tokio::{Options, UtpListener, UtpSocket, UtpStream};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

fn any_port(ip: &str) -> SocketAddr {
    SocketAddr::new(ip.parse().expect("an address"), 0)
}

fn ports(ip: &str) -> (UtpListener, UtpSocket) {
    let listener = UtpListener::bind(any_port(ip), Options::default()).expect("loopback");
    (listener, UtpSocket::bind(any_port(ip), Options::default()).expect("loopback"))
}

async fn pair(ip: &str) -> (UtpStream, UtpStream) {
    let (mut listener, socket) = ports(ip);
    let address = listener.socket().local_addr().expect("bound");
    let (accepted, connected) = tokio::join!(listener.accept(), socket.connect(address));
    (connected.expect("connected"), accepted.expect("accepted"))
}

/// Bytes in which every shift shows.
fn pattern(len: usize) -> Vec<u8> {
    (0..len as u64).map(|n| (n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as u8).collect()
}

#[tokio::test]
async fn both_directions_carry_over_both_families() {
    for ip in ["127.0.0.1", "::1"] {
        let (a, b) = pair(ip).await;
        let sent = pattern(5_000_000);
        let copy = |stream: UtpStream, sent: Vec<u8>| async move {
            let (mut from, mut to) = tokio::io::split(stream);
            let mut received = Vec::new();
            let send = async {
                to.write_all(&sent).await?;
                to.shutdown().await
            };
            let (read, written) = tokio::join!(from.read_to_end(&mut received), send);
            read.and(written).expect("a stream");
            received
        };
        let (x, y) = tokio::join!(copy(a, sent.clone()), copy(b, sent.clone()));
        assert!(x == sent && y == sent, "{ip}");
    }
}

#[tokio::test]
async fn an_ipv6_port_on_all_addresses_speaks_ipv4_too() {
    let mut listener = UtpListener::bind(any_port("::"), Options::default()).expect("loopback");
    let port = listener.socket().local_addr().expect("bound").port();
    let socket = UtpSocket::bind(any_port("127.0.0.1"), Options::default()).expect("loopback");
    let connecting = socket.connect(SocketAddr::from(([127, 0, 0, 1], port)));
    let (accepted, connected) = tokio::join!(listener.accept(), connecting);
    assert_eq!(accepted.expect("accepted").peer_addr(), socket.local_addr().expect("bound"));
    drop(connected);
}

/// A server that speaks first, and a client that only reads.
#[tokio::test]
async fn the_server_may_speak_first() {
    let (mut client, mut server) = pair("127.0.0.1").await;
    server.write_all(b"220 ready").await.expect("written");
    server.shutdown().await.expect("acknowledged");
    let mut text = String::new();
    client.read_to_string(&mut text).await.expect("read");
    assert_eq!(text, "220 ready");
}

#[tokio::test]
async fn a_stream_that_is_dropped_still_delivers() {
    let (mut listener, socket) = ports("127.0.0.1");
    let address = listener.socket().local_addr().expect("bound");
    let sent = pattern(900_000);
    let mut stream = socket.connect(address).await.expect("connected");
    let mut accepted = listener.accept().await.expect("accepted");
    stream.write_all(&sent).await.expect("written");
    drop(stream);
    let mut received = Vec::new();
    accepted.read_to_end(&mut received).await.expect("read");
    assert_eq!(received, sent);
    drop(accepted);
    tokio::time::timeout(Duration::from_secs(10), socket.close()).await.expect("nothing is left");
}

/// Each read and write is dropped over and over before it is ready.
#[tokio::test]
async fn futures_that_are_dropped_lose_nothing() {
    let (mut a, mut b) = pair("127.0.0.1").await;
    let sent = pattern(3_000_000);
    let write = async {
        let mut left = &sent[..];
        while !left.is_empty() {
            tokio::select! {
                biased;
                n = a.write(&left[..left.len().min(70_000)]) => left = &left[n.expect("written")..],
                () = tokio::task::yield_now() => {}
            }
        }
        a.shutdown().await.expect("acknowledged");
    };
    let read = async {
        let (mut received, mut part) = (Vec::<u8>::new(), vec![0; 50_000]);
        loop {
            tokio::select! {
                biased;
                n = b.read(&mut part) => match n.expect("read") {
                    0 => return received,
                    n => received.extend(&part[..n]),
                },
                () = tokio::task::yield_now() => {}
            }
        }
    };
    let ((), received) = tokio::join!(write, read);
    assert!(received == sent);
}

/// The window closes, what was written waits, and neither end keeps more than its buffers.
#[tokio::test]
async fn a_reader_that_does_not_read_holds_the_writer_back() {
    let (mut a, mut b) = pair("127.0.0.1").await;
    let mut written = 0;
    while let Ok(n) = tokio::time::timeout(Duration::from_millis(700), a.write(&[7; 65_536])).await {
        written += n.expect("written");
    }
    // Two buffers, less what no whole packet fits in, and what was read at once.
    assert!(((2 << 20) - 1400..=(2 << 20) + 1400).contains(&written), "{written}");
    let read_all = async {
        let mut received = Vec::new();
        b.read_to_end(&mut received).await.expect("read");
        received.len()
    };
    let (ended, received) = tokio::join!(a.shutdown(), read_all);
    ended.expect("acknowledged");
    assert_eq!(received, written);
}

#[tokio::test]
async fn nobody_listens() {
    let deaf = UtpSocket::bind(any_port("127.0.0.1"), Options::default()).expect("loopback");
    let socket = UtpSocket::bind(any_port("127.0.0.1"), Options::default()).expect("loopback");
    let attempt = socket.connect(deaf.local_addr().expect("bound"));
    assert!(tokio::time::timeout(Duration::from_millis(300), attempt).await.is_err(), "a SYN to a port that only connects is ignored");
    // The attempt was given up with its future.
    tokio::time::timeout(Duration::from_secs(1), socket.close()).await.expect("nothing is left");
}

/// The peer's process has gone: what comes for its connection is answered by a reset.
#[tokio::test]
async fn a_peer_that_knows_nothing_of_it_resets_a_connection() {
    let (mut listener, socket) = ports("127.0.0.1");
    let address = listener.socket().local_addr().expect("bound");
    let mut stream = socket.connect(address).await.expect("connected");
    drop(listener.accept().await.expect("accepted"));
    // The FIN arrives and the other end forgets; then this end writes.
    assert_eq!(stream.read(&mut [0; 10]).await.expect("the end"), 0);
    let mut failed = None;
    for _ in 0..30 {
        tokio::time::sleep(Duration::from_millis(100)).await;
        if let Err(error) = stream.write_all(b"more").await {
            failed = Some(error.kind());
            break;
        }
    }
    assert_eq!(failed, Some(ErrorKind::ConnectionReset));
}

/// The peer's program ends in the middle of what it sends, this end having ended its own direction: cut off is not the end.
#[tokio::test]
async fn an_answer_that_is_cut_off_by_a_reset_has_not_ended() {
    let (mut listener, socket) = ports("127.0.0.1");
    let address = listener.socket().local_addr().expect("bound");
    let mut stream = socket.connect(address).await.expect("connected");
    let mut accepted = listener.accept().await.expect("accepted");
    stream.shutdown().await.expect("acknowledged");
    accepted.write_all(&[7; 1000]).await.expect("written");
    stream.read_exact(&mut [0; 1000]).await.expect("read");
    accepted.abort();
    let error = stream.read(&mut [0; 10]).await.expect_err("no end has come");
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
}

/// The peer's program ends while this end waits for the acknowledgement of what it wrote: it is told, and waits no longer.
#[tokio::test]
async fn who_waits_for_acknowledgements_is_told_of_a_reset() {
    let (mut listener, socket) = ports("127.0.0.1");
    let address = listener.socket().local_addr().expect("bound");
    let mut stream = socket.connect(address).await.expect("connected");
    let accepted = listener.accept().await.expect("accepted");
    // More than the other end's buffer holds.
    let write = async {
        stream.write_all(&vec![7; 1_900_000]).await?;
        stream.shutdown().await
    };
    let gives_up = async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        accepted.abort();
    };
    let (ended, ()) = tokio::time::timeout(Duration::from_secs(5), async { tokio::join!(write, gives_up) }).await.expect("it is told");
    assert_eq!(ended.expect_err("not all arrived").kind(), ErrorKind::ConnectionReset);
}

/// Nobody will ever read what they send: a FIN would say that all is well.
#[tokio::test]
async fn connections_that_nobody_accepted_are_reset_with_their_listener() {
    let (listener, socket) = ports("127.0.0.1");
    let mut stream = socket.connect(listener.socket().local_addr().expect("bound")).await.expect("connected");
    stream.write_all(b"hello").await.expect("written");
    stream.shutdown().await.expect("acknowledged");
    drop(listener);
    let read = tokio::time::timeout(Duration::from_secs(5), stream.read(&mut [0; 10])).await.expect("it is told");
    assert_eq!(read.expect_err("nobody has answered").kind(), ErrorKind::ConnectionReset);
}

/// A runtime that ends, or a port that is aborted, leaves no peer in the dark.
#[test]
fn a_program_that_ends_resets_its_connections() {
    let runtime = || tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
    let (here, there) = (runtime(), runtime());
    let mut listener = here.block_on(async { UtpListener::bind(any_port("127.0.0.1"), Options::default()).expect("loopback") });
    let address = listener.socket().local_addr().expect("bound");
    let socket = there.block_on(async { UtpSocket::bind(any_port("127.0.0.1"), Options::default()).expect("loopback") });
    let _stream = there.block_on(socket.connect(address)).expect("connected");
    let mut accepted = here.block_on(listener.accept()).expect("accepted");
    there.shutdown_timeout(Duration::from_secs(1));
    let read = here.block_on(async { tokio::time::timeout(Duration::from_secs(5), accepted.read(&mut [0])).await });
    assert_eq!(read.expect("it is told").expect_err("no end has come").kind(), ErrorKind::ConnectionReset);
}

/// Streams that outlive their port's task, streams that nobody accepted, and who only looks at one, keep neither the port nor its file descriptor.
#[tokio::test]
async fn a_port_that_has_ended_is_closed_with_its_last_stream() {
    let (mut listener, socket) = ports("127.0.0.1");
    let [here, there] = [listener.socket(), &socket].map(|socket| socket.local_addr().expect("bound"));
    let failed = socket.connect(here).await.expect("connected");
    listener.accept().await.expect("accepted").abort();
    // Without a handle and without a connection the task ends; the program has not looked at its stream yet.
    drop(socket);
    tokio::time::sleep(Duration::from_millis(500)).await;
    let watch = failed.watch();
    drop(failed);
    closed(there).await;
    assert_eq!(watch.info().delivered, 0);

    let other = UtpSocket::bind(any_port("127.0.0.1"), Options::default()).expect("loopback");
    let mut streams = Vec::new();
    for _ in 0..3 {
        streams.push(other.connect(here).await.expect("connected"));
    }
    let accepted = listener.accept().await.expect("accepted");
    listener.socket().clone().abort();
    tokio::time::sleep(Duration::from_millis(100)).await;
    drop((accepted, listener));
    closed(here).await;
}

/// Whether anybody may have the port again, soon.
async fn closed(address: SocketAddr) {
    for _ in 0..50 {
        if std::net::UdpSocket::bind(address).is_ok() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("{address} is still bound");
}

#[tokio::test]
async fn options_that_cannot_be_had_are_told_in_one_line() {
    let wrong = Options { control: "ledbatt".to_owned(), ..Options::default() };
    let error = UtpSocket::bind(any_port("127.0.0.1"), wrong).expect_err("no such control").to_string();
    assert!(error.contains("ledbatt") && error.contains("ledbat_pp"), "{error}");
}

/// On threads of its own a port's task may look before its socket is handed out.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_port_lives_from_its_first_moment() {
    for _ in 0..500 {
        let socket = UtpSocket::bind(any_port("127.0.0.1"), Options::default()).expect("loopback");
        tokio::task::yield_now().await;
        assert!(!socket.is_ended());
    }
}

/// Controls that pace carry too, and those whose window falls below a packet.
#[tokio::test]
async fn controls_that_pace_carry_too() {
    for control in ["lowtide", "bbr1", "tcp_lp", "ledbat_pp"] {
        let options = Options { control: control.to_owned(), ..Options::default() };
        let mut listener = UtpListener::bind("127.0.0.1:0".parse().expect("an address"), options.clone()).expect("loopback");
        let address = listener.socket().local_addr().expect("bound");
        let socket = UtpSocket::bind("127.0.0.1:0".parse().expect("an address"), options).expect("loopback");
        let (ours, theirs) = tokio::join!(socket.connect(address), listener.accept());
        let (mut ours, mut theirs) = (ours.expect("connected"), theirs.expect("accepted"));
        let sent: Vec<u8> = (0..300_000u32).map(|n| (n.wrapping_mul(31) >> 3) as u8).collect();
        let send = async {
            ours.write_all(&sent).await?;
            ours.shutdown().await
        };
        let mut received = Vec::new();
        let both = async { tokio::join!(send, theirs.read_to_end(&mut received)) };
        let (sending, reading) = tokio::time::timeout(Duration::from_secs(30), both).await.expect(control);
        sending.and(reading.map(drop)).expect("carried");
        assert!(received == sent, "{control}");
    }
}

/// The kernel would answer from 127.0.0.1, and the peer would know nobody of that name.
#[tokio::test]
async fn a_port_on_all_addresses_answers_from_the_one_that_was_asked() {
    for all in ["0.0.0.0", "::"] {
        let mut listener = UtpListener::bind(any_port(all), Options::default()).expect("all addresses");
        let port = listener.socket().local_addr().expect("bound").port();
        let socket = UtpSocket::bind(any_port("127.0.0.1"), Options::default()).expect("loopback");
        let address = SocketAddr::from(([127, 0, 0, 2], port));
        let both = async { tokio::join!(listener.accept(), socket.connect(address)) };
        let (accepted, connected) = tokio::time::timeout(Duration::from_secs(10), both).await.expect("an answer from 127.0.0.2");
        let (mut accepted, mut connected) = (accepted.expect("accepted"), connected.expect("connected"));
        accepted.write_all(&pattern(300_000)).await.expect("written");
        accepted.shutdown().await.expect("acknowledged");
        let mut received = Vec::new();
        connected.read_to_end(&mut received).await.expect("read");
        assert_eq!(received, pattern(300_000), "{all}");
    }
}
