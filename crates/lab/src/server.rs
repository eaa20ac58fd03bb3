//! A web server with a congestion control per port, and what the kernel knows of each of its connections. nginx cannot
//! choose its congestion control, and the namespace may not choose any either; a listening socket may
//! (`TCP_CONGESTION`, which what it accepts inherits).
//!
//! `GET /N` answers N bytes; a PUT is read to its end and thrown away.
#![expect(unsafe_code, reason = "TCP_INFO with the fields newer than libc's struct")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use nix::libc;
use nix::sys::socket::{setsockopt, sockopt::TcpCongestion};

use crate::netns::Namespace;

/// One write's worth of body. Its bytes do not matter; that they are sent does.
const CHUNK: usize = 128 * 1024;

/// What the kernel knows of a server's connections, summed over the open and the closed ones.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Stats {
    /// Bytes of payload that the peers acknowledged.
    pub acked: u64,
    /// Bytes of payload received.
    pub received: u64,
    /// Segments sent again.
    pub retransmits: u64,
    /// The congestion windows of the open connections, in bytes.
    pub cwnd: u64,
    /// The windows that the open connections' peers advertise, in bytes.
    pub peer_window: u64,
    /// The largest smoothed RTT among the open connections, in µs.
    pub srtt_us: u32,
    /// Open connections.
    pub open: u32,
}

/// A server on one port, gone when it is dropped.
#[derive(Debug)]
pub struct Server {
    state: Arc<State>,
    port: u16,
    address: Ipv4Addr,
}

#[derive(Debug, Default)]
struct State {
    stop: AtomicBool,
    open: Mutex<Vec<Arc<TcpStream>>>,
    closed: Mutex<Stats>,
}

impl Server {
    /// A server inside `space` on `address`:`port` whose connections use the congestion control `cc`.
    pub fn new(space: &Namespace, address: Ipv4Addr, port: u16, cc: &str) -> Result<Server> {
        let listener = space.enter(|| {
            let listener = TcpListener::bind((address, port)).with_context(|| format!("listening on {address}:{port}"))?;
            setsockopt(&listener, TcpCongestion, &cc.into()).with_context(|| {
                format!("this kernel has no TCP congestion control {cc} (see net.ipv4.tcp_available_congestion_control, `lowtide cc list`)")
            })?;
            Ok(listener)
        })?;
        let state = Arc::new(State::default());
        let shared = Arc::clone(&state);
        listener.set_nonblocking(true)?;
        thread::Builder::new().name(format!("server {port}")).spawn(move || accept(&listener, &shared))?;
        Ok(Server { state, port, address })
    }

    /// Where `bytes` bytes are to be had.
    pub fn url(&self, bytes: u64) -> String {
        format!("http://{}:{}/{bytes}", self.address, self.port)
    }

    /// The sum over all connections so far.
    pub fn stats(&self) -> Stats {
        let open = lock(&self.state.open).clone();
        let mut sum = *lock(&self.state.closed);
        for stream in open {
            sum.add(&info(&stream));
            sum.open += 1;
        }
        sum
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.state.stop.store(true, Ordering::Relaxed);
        for stream in lock(&self.state.open).iter() {
            let _ = stream.shutdown(std::net::Shutdown::Both);
        }
    }
}

impl Stats {
    fn add(&mut self, other: &Stats) {
        self.acked += other.acked;
        self.received += other.received;
        self.retransmits += other.retransmits;
        self.cwnd += other.cwnd;
        self.peer_window += other.peer_window;
        self.srtt_us = self.srtt_us.max(other.srtt_us);
    }
}

/// A poisoned lock only means that a thread of a connection died: its numbers are still good.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn accept(listener: &TcpListener, state: &Arc<State>) {
    while !state.stop.load(Ordering::Relaxed) {
        match listener.accept() {
            Ok((stream, _)) => {
                let _ = stream.set_nonblocking(false);
                let stream = Arc::new(stream);
                lock(&state.open).push(Arc::clone(&stream));
                let state = Arc::clone(state);
                thread::spawn(move || {
                    // A client that goes away in mid-transfer is the normal end of a bulk flow.
                    let _ = serve(&stream);
                    let mut last = info(&stream);
                    (last.cwnd, last.peer_window, last.srtt_us) = (0, 0, 0);
                    lock(&state.open).retain(|other| !Arc::ptr_eq(other, &stream));
                    lock(&state.closed).add(&last);
                });
            }
            Err(_) => thread::sleep(Duration::from_millis(2)),
        }
    }
}

/// Serves requests until the client closes.
fn serve(stream: &TcpStream) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let body = vec![b'~'; CHUNK];
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    loop {
        line.clear();
        if reader.read_line(&mut line)? == 0 {
            return Ok(());
        }
        let upload = line.starts_with("PUT");
        let wanted = line.split(['/', ' ']).find_map(|word| word.parse::<u64>().ok()).unwrap_or(0);
        let mut length = 0;
        loop {
            line.clear();
            if reader.read_line(&mut line)? == 0 || line == "\r\n" {
                break;
            }
            let lower = line.to_ascii_lowercase();
            if let Some(value) = lower.strip_prefix("content-length:") {
                length = value.trim().parse().unwrap_or(0);
            } else if lower.starts_with("expect:") {
                (&*stream).write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
            }
        }
        if upload {
            std::io::copy(&mut reader.by_ref().take(length), &mut std::io::sink())?;
        }
        let mut left = if upload { 0 } else { wanted };
        write!(&*stream, "HTTP/1.1 200 OK\r\nContent-Length: {left}\r\n\r\n")?;
        while left > 0 {
            let part = left.min(CHUNK as u64) as usize;
            (&*stream).write_all(&body[..part])?;
            left -= part as u64;
        }
    }
}

/// `struct tcp_info` of Linux 6.1 as far as it is used here; older kernels fill less and leave the rest zero.
fn info(stream: &TcpStream) -> Stats {
    let mut raw = [0u8; 256];
    let mut length = raw.len() as libc::socklen_t;
    // SAFETY: the descriptor is open, and `raw` and `length` outlive the call and describe each other.
    let result =
        unsafe { libc::getsockopt(stream.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_INFO, raw.as_mut_ptr().cast(), &raw mut length) };
    if result != 0 {
        return Stats::default();
    }
    let u32_at = |at: usize| u32::from_ne_bytes([raw[at], raw[at + 1], raw[at + 2], raw[at + 3]]);
    let u64_at = |at: usize| u64::from(u32_at(at)) | u64::from(u32_at(at + 4)) << 32;
    Stats {
        acked: u64_at(120),
        received: u64_at(128),
        retransmits: u64::from(u32_at(100)),
        cwnd: u64::from(u32_at(80)) * u64::from(u32_at(16)),
        peer_window: u64::from(u32_at(228)),
        srtt_us: u32_at(68),
        open: 0,
    }
}
