//! What one system call for many peers would gain (sendmmsg) over one for each, which is what a port does: the sender's CPU time per
//! datagram, in turns in one run. Acknowledgements and full packets, each to another peer, whose sockets are emptied between the turns.
//!
//! `cargo run --release -p lowtide-utp-tokio --example peers [ROUNDS]`

#![expect(clippy::print_stdout, reason = "an example measures and prints")]

use std::io::IoSlice;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::time::Duration;

use nix::sys::socket::{MsgFlags, MultiHeaders, SockaddrStorage, sendmmsg, sendmsg};
use nix::time::{ClockId, clock_gettime};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Peers, and datagrams of a turn.
const PEERS: usize = 256;
/// Datagrams of one system call.
const TOGETHER: [usize; 3] = [1, 8, 64];

fn main() -> Result<()> {
    let rounds: usize = std::env::args().nth(1).map_or(Ok(300), |text| text.parse())?;
    let from = UdpSocket::bind(any())?;
    let peers = (0..PEERS).map(|_| UdpSocket::bind(any())).collect::<std::io::Result<Vec<_>>>()?;
    for peer in &peers {
        peer.set_nonblocking(true)?;
    }
    let to: Vec<SockaddrStorage> = peers.iter().map(|peer| Ok(peer.local_addr()?.into())).collect::<std::io::Result<_>>()?;
    println!("CPU µs a datagram takes its sender: median (10 % to 90 %) of {rounds} turns of {PEERS} datagrams, each to another peer");
    for bytes in [20, 1402] {
        let payload = vec![7; bytes];
        let mut took = [const { Vec::new() }; TOGETHER.len()];
        for _ in 0..rounds {
            for (together, took) in TOGETHER.into_iter().zip(&mut took) {
                took.push(turn(&from, &to, &payload, together)?);
                peers.iter().for_each(empty);
            }
        }
        for (together, took) in TOGETHER.into_iter().zip(&mut took) {
            println!("{bytes:>5} bytes, {together:>2} a system call  {}", show(took));
        }
    }
    Ok(())
}

fn any() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

fn empty(peer: &UdpSocket) {
    let mut bytes = [0; 2000];
    while peer.recv(&mut bytes).is_ok() {}
}

/// Sends to each of `to`, so many in one system call; µs of CPU time for one.
fn turn(from: &UdpSocket, to: &[SockaddrStorage], payload: &[u8], together: usize) -> Result<f64> {
    let slices = [IoSlice::new(payload)];
    let mut headers = MultiHeaders::preallocate(together, None);
    let began = cpu()?;
    for peers in to.chunks(together) {
        if together == 1 {
            sendmsg(from.as_raw_fd(), &slices, &[], MsgFlags::MSG_DONTWAIT, Some(&peers[0]))?;
        } else {
            let addresses: Vec<_> = peers.iter().copied().map(Some).collect();
            let each = std::iter::repeat_n(&slices, peers.len());
            sendmmsg(from.as_raw_fd(), &mut headers, each, &addresses, [], MsgFlags::MSG_DONTWAIT)?;
        }
    }
    Ok((cpu()? - began).as_secs_f64() * 1e6 / to.len() as f64)
}

/// What this thread has used.
fn cpu() -> Result<Duration> {
    Ok(clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID)?.into())
}

fn show(took: &mut [f64]) -> String {
    took.sort_by(f64::total_cmp);
    let at = |q: f64| took[((took.len() - 1) as f64 * q) as usize];
    format!("{:.2} ({:.2} to {:.2})", at(0.5), at(0.1), at(0.9))
}
