//! A live port under datagrams that are nearly right, changed in some bits, cut, or noise, from peers that have connections and from
//! some that have none. Two seconds; `LOWTIDE_FUZZ_S=3600 cargo test --release -p lowtide-utp-tokio --test hostile -- --nocapture`
//! goes on longer.
#![expect(clippy::print_stderr, clippy::disallowed_methods, reason = "a fuzzer runs for real seconds and says what it did")]

use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use lowtide_utp::{Header, Kind, Packet, Sack};
use lowtide_utp_tokio::{Options, UtpListener, UtpSocket};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const KINDS: [Kind; 8] = [Kind::Data, Kind::Data, Kind::Data, Kind::State, Kind::State, Kind::Fin, Kind::Syn, Kind::Reset];
/// What the port may hold beside what it holds at rest: connections at most, each with two receive buffers.
const MOST_CONNECTIONS: usize = 64;
const RECEIVE_BUFFER: u32 = 1 << 14;

/// A hostile peer, and the last packet that it got.
struct Hostile {
    socket: UdpSocket,
    heard: Header,
    sent: u64,
    received: u64,
    /// It never acknowledges what it was sent, as whoever forges its address cannot.
    blind: bool,
}

impl Hostile {
    fn to(address: SocketAddr, blind: bool) -> Hostile {
        let socket = UdpSocket::bind(SocketAddr::from(([127, 0, 0, 1], 0))).expect("loopback");
        socket.connect(address).expect("loopback");
        socket.set_nonblocking(true).expect("loopback");
        Hostile { socket, heard: Header::default(), sent: 0, received: 0, blind }
    }

    fn listen(&mut self) {
        let mut bytes = [0; 2000];
        while let Ok(n) = self.socket.recv(&mut bytes) {
            self.received += n as u64;
            if let Ok((packet, _)) = Packet::decode(&bytes[..n]) {
                self.heard = packet.header;
            }
        }
    }

    fn speak(&mut self, random: &mut SmallRng) {
        let near = |random: &mut SmallRng, at: u16| match random.random_range(0..8) {
            0 => random.random(),
            1 => at.wrapping_sub(random.random_range(0..8)),
            2 => at.wrapping_add(random.random_range(0..1100)),
            _ => at.wrapping_add(random.random_range(0..3)),
        };
        // What is 40,000 away acknowledges nothing.
        let known = if self.blind { self.heard.seq.wrapping_add(40_000) } else { self.heard.seq };
        let id: u16 = if random.random_range(0..8) == 0 { random.random() } else { random.random_range(100..104) };
        let header = Header {
            kind: KINDS[random.random_range(0..KINDS.len())],
            connection_id: id,
            timestamp: random.random(),
            timestamp_difference: random.random(),
            window: random.random_range(0..1 << 20),
            seq: near(random, self.heard.ack),
            ack: if self.blind { known } else { near(random, known.wrapping_sub(1)) },
        };
        let sack = (random.random_range(0..4) == 0).then(|| Sack::from_mask(random.random()));
        let payload = if header.kind == Kind::Data { random.random_range(0..1500) } else { 0 };
        let mut bytes = Vec::new();
        Packet { header, sack, payload, ..Packet::default() }.encode_head(&mut bytes);
        bytes.resize(bytes.len() + usize::from(payload), 7);
        if random.random_range(0..10) == 0 && !self.blind {
            let at = random.random_range(0..bytes.len().min(40));
            bytes[at] ^= 1 << random.random_range(0..8);
        }
        if random.random_range(0..50) == 0 {
            bytes.truncate(random.random_range(0..bytes.len()));
        }
        if self.socket.send(&bytes).is_ok() {
            self.sent += bytes.len() as u64;
        }
    }
}

fn resident() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm").expect("Linux");
    pages.split_whitespace().nth(1).and_then(|pages| pages.parse::<u64>().ok()).expect("a number") * 4096
}

#[tokio::test]
async fn a_port_survives_whatever_is_sent_to_it() {
    let seconds = std::env::var("LOWTIDE_FUZZ_S").map_or(2, |text| text.parse().expect("seconds"));
    let options = Options {
        max_connections: MOST_CONNECTIONS,
        max_half_open: 16,
        receive_buffer: RECEIVE_BUFFER,
        send_buffer: RECEIVE_BUFFER as usize,
        ..Options::default()
    };
    let mut listener = UtpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0)), options).expect("loopback");
    let address = listener.socket().local_addr().expect("bound");
    let port = listener.socket().clone();
    let accepting = tokio::spawn(async move {
        let mut accepted = 0u64;
        while let Ok(Ok(mut stream)) = tokio::time::timeout(Duration::from_secs(40), listener.accept()).await {
            accepted += 1;
            tokio::spawn(async move {
                // Some are echoed to, some never read, some given up.
                let mut bytes = [0; 3000];
                for n in 0..accepted % 50 {
                    match stream.read(&mut bytes).await {
                        Ok(read) if read > 0 && n % 2 == 0 => drop(stream.write_all(&bytes[..read]).await),
                        Ok(read) if read > 0 => {}
                        _ => return,
                    }
                }
                tokio::time::sleep(Duration::from_millis(accepted % 7 * 100)).await;
            });
        }
    });
    let mut random = SmallRng::seed_from_u64(seconds);
    let mut peers: Vec<Hostile> = (0..6).map(|n| Hostile::to(address, n < 2)).collect();
    let (began, mut datagrams, mut most, mut least) = (Instant::now(), 0u64, 0, u64::MAX);
    while began.elapsed() < Duration::from_secs(seconds) {
        for peer in &mut peers {
            for _ in 0..8 {
                peer.speak(&mut random);
                datagrams += 1;
            }
        }
        tokio::time::sleep(Duration::from_micros(200)).await;
        peers.iter_mut().for_each(Hostile::listen);
        assert!(port.connections() <= MOST_CONNECTIONS && !port.is_ended(), "{}", port.connections());
        // What the first quarter fills is no growth.
        if began.elapsed() >= Duration::from_secs(seconds) / 4 && (most == 0 || datagrams.is_multiple_of(48 * 100)) {
            (most, least) = (resident().max(most), resident().min(least));
        }
    }
    (most, least) = (resident().max(most), resident().min(least));
    for peer in peers.iter().filter(|peer| peer.blind) {
        assert!(peer.received > 0 && peer.received <= peer.sent, "{} bytes answer {}", peer.received, peer.sent);
    }
    eprintln!("{datagrams} datagrams in {seconds} s; memory {least} to {most} bytes; {} connections now", port.connections());
    let grown = most - least;
    assert!(grown <= (MOST_CONNECTIONS as u64) * 4 * u64::from(RECEIVE_BUFFER) + (8 << 20), "grew by {grown} bytes");
    drop(peers);
    // Who is really there gets through, once what the others left has gone.
    let socket = UtpSocket::bind(SocketAddr::from(([127, 0, 0, 1], 0)), Options::default()).expect("loopback");
    let honest = async { while socket.connect(address).await.is_err() {} };
    tokio::time::timeout(Duration::from_secs(60), honest).await.expect("the port is alive");
    accepting.abort();
}

/// Each answer by itself, to a peer whose address may be forged: a SYN of another end's is answered behind it, so that what has come by then
/// answers the last datagram and nothing else.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_answer_is_larger_than_what_asked() {
    let options = Options { max_half_open: 16, ..Options::default() };
    let listener = UtpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0)), options).expect("loopback");
    let address = listener.socket().local_addr().expect("bound");
    let behind = UdpSocket::bind(SocketAddr::from(([127, 0, 0, 1], 0))).expect("loopback");
    behind.connect(address).expect("loopback");
    behind.set_read_timeout(Some(Duration::from_secs(10))).expect("loopback");
    let mut syn = Vec::new();
    let header = Header { kind: Kind::Syn, connection_id: 1, seq: 1, window: 1 << 20, ..Header::default() };
    Packet { header, ..Packet::default() }.encode_head(&mut syn);
    let mut random = SmallRng::seed_from_u64(1);
    let (mut answers, mut refused) = (0, 0);
    for _ in 0..20 {
        let mut peer = Hostile::to(address, true);
        peer.heard.seq = random.random();
        for _ in 0..100 {
            let before = peer.sent;
            peer.speak(&mut random);
            let asked = peer.sent - before;
            behind.send(&syn).expect("loopback");
            behind.recv(&mut [0; 2000]).expect("a SYN is answered each time");
            let mut answer = [0; 2000];
            let lens: Vec<u64> = std::iter::from_fn(|| peer.socket.recv(&mut answer).ok()).map(|len| len as u64).collect();
            assert!(lens.len() <= 1 && lens.iter().sum::<u64>() <= asked, "{lens:?} bytes answer {asked}");
            answers += lens.len();
            refused += usize::from(lens.is_empty());
        }
    }
    assert!(answers > 300 && refused > 300, "{answers} answers, {refused} silences");
}
