//! A rough path in real time: a relay on loopback that loses 2 %, puts 5 % behind others, takes 50 ms each way, and carries 5 Mbit/s.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use lowtide_utp_tokio::{Options, UtpListener, UtpSocket, UtpStream};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UdpSocket;
use tokio::time::{Instant, sleep_until};

const BYTES: usize = 500_000;
const RATE_BPS: u64 = 5_000_000;
const LATENCY: Duration = Duration::from_millis(50);
/// A packet that is put behind others comes this much later.
const BEHIND: Duration = Duration::from_millis(12);
/// 100 ms of buffer.
const BUFFER: Duration = Duration::from_millis(100);

fn loopback() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

/// The relay's address for a client of `server`.
async fn relay(server: SocketAddr, seed: u64) -> SocketAddr {
    let (front, back) = (UdpSocket::bind(loopback()).await.expect("loopback"), UdpSocket::bind(loopback()).await.expect("loopback"));
    let address = front.local_addr().expect("bound");
    let (front, back) = (Arc::new(front), Arc::new(back));
    let client = Arc::new(std::sync::Mutex::new(None));
    for (from, to, forward) in [(Arc::clone(&front), Arc::clone(&back), true), (back, front, false)] {
        let client = Arc::clone(&client);
        tokio::spawn(async move {
            let (mut bytes, mut random, mut free) = (vec![0; 2000], seed + u64::from(forward), Instant::now());
            while let Ok((n, sender)) = from.recv_from(&mut bytes).await {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let chance = (random >> 33) % 100;
                if forward {
                    *client.lock().expect("sound") = Some(sender);
                }
                let now = Instant::now();
                // The bottleneck's queue is the time until it is free.
                let waits = free.saturating_duration_since(now);
                if chance < 2 || waits > BUFFER {
                    continue;
                }
                free = now + waits + Duration::from_nanos((n as u64 + 28) * 8 * 1_000_000_000 / RATE_BPS);
                let at = free + LATENCY + if chance < 7 { BEHIND } else { Duration::ZERO };
                let target = if forward { Some(server) } else { *client.lock().expect("sound") };
                let (packet, to) = (bytes[..n].to_vec(), Arc::clone(&to));
                tokio::spawn(async move {
                    sleep_until(at).await;
                    if let Some(target) = target {
                        to.send_to(&packet, target).await.expect("sent");
                    }
                });
            }
        });
    }
    address
}

fn pattern() -> Vec<u8> {
    (0..BYTES as u64).map(|n| (n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as u8).collect()
}

async fn carry(mut from: UtpStream, mut to: UtpStream) -> Duration {
    let (began, sent, mut received) = (Instant::now(), pattern(), Vec::new());
    let send = async {
        from.write_all(&sent).await?;
        from.shutdown().await
    };
    let (sending, reading) = tokio::join!(send, to.read_to_end(&mut received));
    sending.and(reading.map(drop)).expect("carried");
    assert!(received == sent);
    let info = from.info();
    assert!(info.stats.retransmits > 0, "the path is rough: {info:?}");
    // Reordering and single losses are repaired by acknowledgements; only what is lost at the very end may wait for a timer.
    assert!(info.stats.timeouts <= 3, "{info:?}");
    began.elapsed()
}

/// Ours to ours, both directions at once over one path.
#[tokio::test]
async fn a_rough_path_delivers_either_way() {
    let mut listener = UtpListener::bind(loopback(), Options::default()).expect("loopback");
    let socket = UtpSocket::bind(loopback(), Options::default()).expect("loopback");
    let to = relay(listener.socket().local_addr().expect("bound"), 7).await;
    let open = async |listener: &mut UtpListener| {
        let (there, here) = tokio::join!(listener.accept(), socket.connect(to));
        (here.expect("connected"), there.expect("accepted"))
    };
    let ((a, b), (c, d)) = (open(&mut listener).await, open(&mut listener).await);
    let both = async { tokio::join!(carry(a, b), carry(d, c)) };
    tokio::time::timeout(Duration::from_secs(50), both).await.expect("within a minute");
}

/// libutp at the other end, sending and receiving.
#[tokio::test]
async fn libutp_and_ours_carry_over_a_rough_path() {
    let modules = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/utp-peers/node_modules");
    if !modules.exists() {
        lowtide_testing::skip(
            "libutp_and_ours_carry_over_a_rough_path",
            &format!("{} is missing: scripts/setup-utp-peers", modules.display()),
        );
        return;
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/peers/libutp.js");
    let transfer = async {
        for what in ["receive", "send"] {
            let mut listener = UtpListener::bind(loopback(), Options::default()).expect("loopback");
            let to = relay(listener.socket().local_addr().expect("bound"), 11).await;
            let node = tokio::process::Command::new("node")
                .arg(&script)
                .arg(&modules)
                .args(["connect", &to.port().to_string(), what, &BYTES.to_string()])
                .stdout(Stdio::piped())
                .kill_on_drop(true)
                .spawn()
                .expect("node starts");
            let mut stream = listener.accept().await.expect("accepted");
            let hash = if what == "receive" {
                stream.write_all(&pattern()).await.and(stream.shutdown().await).expect("acknowledged");
                sha256(&pattern())
            } else {
                let mut received = Vec::new();
                stream.read_to_end(&mut received).await.expect("read");
                sha256(&received)
            };
            drop(stream);
            let said = node.wait_with_output().await.expect("ends").stdout;
            assert_eq!(String::from_utf8_lossy(&said).trim(), format!("{hash} {BYTES}"), "{what}");
        }
    };
    tokio::time::timeout(Duration::from_secs(100), transfer).await.expect("in time");
}

fn sha256(bytes: &[u8]) -> String {
    use sha2::Digest;
    sha2::Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}
