//! Segments that are not the server's, injected beside a live transfer by a raw socket, change nothing that lowtide knows of its path. Programs
//! see them before the kernel has checked checksum, timestamp and window. Needs root and BPF; says when it is skipped.

mod common;
#[path = "common/line.rs"]
mod line;

use std::fs;
use std::net::SocketAddrV4;
use std::os::fd::AsRawFd;
use std::process::Command;

use common::{can_manage, lowtide};
use lowtide_lab::clock;
use lowtide_lab::netns::Namespace;
use lowtide_lab::server::Server;
use lowtide_lab::site::{CLIENT, SERVER, Site};
use lowtide_net::ImpairConfig;
use lowtide_units::Span;
use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, SockaddrIn, sendto, socket};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

const FORGED: u32 = 100_000;
/// Of curl.
const PORT: u16 = 40_077;

fn ip(space: &Namespace, words: &str) {
    let status = space.place(Command::new("ip").args(words.split(' '))).status().expect("ip starts");
    assert!(status.success(), "ip {words}");
}

/// A host beside the line, so that what it sends takes nothing of it, whose packets to the client seem to be the server's.
fn beside(site: &Site) -> Namespace {
    let forger = Namespace::new().expect("a namespace");
    let mut holder = forger.place(Command::new("sleep").arg("60")).spawn().expect("sleep starts");
    ip(&site.client, &format!("link add side type veth peer name side netns {}", holder.id()));
    ip(&site.client, "link set side up address 02:00:00:00:00:01");
    ip(&forger, "link set side up");
    ip(&forger, "addr add 10.79.0.1/24 dev side");
    ip(&forger, &format!("route add {CLIENT} dev side"));
    ip(&forger, &format!("neigh add {CLIENT} lladdr 02:00:00:00:00:01 dev side"));
    let lax = || Ok(["all", "side"].iter().try_for_each(|name| fs::write(format!("/proc/sys/net/ipv4/conf/{name}/rp_filter"), "0"))?);
    site.client.enter(lax).expect("settings of the namespace");
    holder.kill().expect("it lives");
    holder.wait().expect("it ends");
    forger
}

/// From the server's port to curl's, with timestamps, and all else by chance, the checksum too. Linux looks at a checksum of up to 76 bytes at
/// once (CHECKSUM_BREAK), and at that of a longer segment only after BPF programs have seen it.
fn segment(rng: &mut SmallRng) -> Vec<u8> {
    let payload: u16 = rng.random_range(77..1400);
    let mut packet = vec![0x45, 0];
    packet.extend((52 + payload).to_be_bytes());
    packet.extend([0, 0, 0x40, 0, 64, 6, 0, 0]); // the kernel computes IP's checksum
    packet.extend(SERVER.octets());
    packet.extend(CLIENT.octets());
    packet.extend(5001u16.to_be_bytes());
    packet.extend(PORT.to_be_bytes());
    packet.extend(rng.random::<[u8; 8]>()); // sequence number and acknowledgement
    packet.extend([0x80, if rng.random_range(0..50) == 0 { rng.random() } else { 0x10 }]);
    packet.extend(rng.random::<[u8; 4]>()); // window and checksum
    packet.extend([0, 0, 1, 1, 8, 10]);
    packet.extend(rng.random::<[u8; 8]>());
    packet.resize(packet.len() + usize::from(payload), 0);
    packet
}

fn forge(from: &Namespace) {
    let send = || {
        let raw = socket(AddressFamily::Inet, SockType::Raw, SockFlag::empty(), SockProtocol::Raw)?;
        let (to, mut rng) = (SockaddrIn::from(SocketAddrV4::new(CLIENT, 0)), SmallRng::seed_from_u64(2));
        for _ in 0..FORGED {
            sendto(raw.as_raw_fd(), &segment(&mut rng), &to, MsgFlags::empty())?;
        }
        Ok(())
    };
    from.enter(send).expect("a raw socket");
}

/// The rate is compared in docs/receive.md: on a machine that is busy it varies.
#[test]
fn a_hundred_thousand_forged_segments_change_neither_base_nor_losses_nor_window() {
    let test = "a_hundred_thousand_forged_segments_change_neither_base_nor_losses_nor_window";
    if !can_manage(test) {
        return;
    }
    let now = clock::now();
    let site = line::site(ImpairConfig::default(), ImpairConfig::default(), now..now + Span::from_millis(60_000));
    let forger = beside(&site);
    let server = Server::new(&site.server, SERVER, 5001, "cubic").expect("a server");
    let folder = tempfile::tempdir().expect("a folder");
    let json = folder.path().join("run.json");
    let mut command = lowtide(&["run", "--quiet", "--json"]);
    command.arg(&json).args(["--", "curl", "-s", "-o", "/dev/null", "--local-port", &PORT.to_string(), &server.url(12_000_000)]);
    let mut run = site.client.place(&mut command).spawn().expect("it starts");
    line::wait("the download", || server.stats().acked > 1_000_000);
    let received = || {
        let text = site.client.enter(|| Ok(fs::read_to_string("/proc/thread-self/net/dev")?)).expect("it is there");
        let side = text.lines().find(|l| l.trim_start().starts_with("side:")).expect("it is there").to_owned();
        side.split_whitespace().nth(2).and_then(|n| n.parse::<u64>().ok()).expect("a number")
    };
    forge(&forger);
    assert!(received() >= u64::from(FORGED), "they arrived: {}", received());
    let (acked, window) = (server.stats().acked, server.stats().peer_window);
    assert!(acked < 12_000_000, "the transfer was live all the time");
    assert!(window < 300_000, "{window}");
    assert!(run.wait().expect("it ends").success());
    let summary: serde_json::Value = serde_json::from_slice(&fs::read(&json).expect("it is there")).expect("JSON");
    assert_eq!((&summary["losses"], &summary["retransmissions"]), (&0.into(), &0.into()), "{summary:#}");
    assert!(summary["added_delay_ms"].as_f64().is_some_and(|ms| ms > 1.0 && ms < 60.0), "base and delay are as they were: {summary:#}");
}
