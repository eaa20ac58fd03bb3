//! A VoIP-like probe: datagrams at a fixed beat to a reflector and back, with the time on both ends. One machine, one clock:
//! each way's delay is exact. Knows nothing of what else is on the line.

use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use lowtide_units::{Span, Time};

use crate::clock;
use crate::netns::Namespace;

/// How long after the last datagram its answer is still waited for.
const GRACE: Duration = Duration::from_secs(2);

/// How the probe talks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Beat {
    /// Bytes of UDP payload; at least 24.
    pub size: usize,
    /// Time between two datagrams.
    pub interval: Span,
}

/// A G.711 call: 160 bytes of sound each 20 ms.
pub const CALL: Beat = Beat { size: 160, interval: Span::from_millis(20) };

/// One datagram that went there and back.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Echo {
    /// When it was sent.
    pub sent: Time,
    /// From the client to the server.
    pub up: Span,
    /// From the server to the client.
    pub down: Span,
}

impl Echo {
    /// There and back.
    pub fn rtt(&self) -> Span {
        self.up + self.down
    }
}

/// What a probe saw.
#[derive(Clone, Debug, Default)]
pub struct Echoes {
    /// Those that came back, in order of arrival.
    pub echoes: Vec<Echo>,
    /// Datagrams sent.
    pub sent: u64,
}

impl Echoes {
    /// Datagrams that did not come back, as a part of those sent.
    pub fn loss(&self) -> f64 {
        if self.sent == 0 { 0.0 } else { 1.0 - self.echoes.len() as f64 / self.sent as f64 }
    }

    /// The interarrival jitter of RFC 3550 §6.4.1 of the way down, its mean over the call in ms.
    pub fn jitter_ms(&self) -> f64 {
        let (mut jitter, mut sum) = (0.0, 0.0);
        for pair in self.echoes.windows(2) {
            let difference = (pair[1].down.millis_f64() - pair[0].down.millis_f64()).abs();
            jitter += (difference - jitter) / 16.0;
            sum += jitter;
        }
        sum / (self.echoes.len().saturating_sub(1)).max(1) as f64
    }
}

/// The far end: sends each datagram back with the time it arrived. Gone when it is dropped.
#[derive(Debug)]
pub struct Reflector {
    stop: Arc<AtomicBool>,
}

impl Reflector {
    /// A reflector inside `space` on `address`:`port`.
    pub fn new(space: &Namespace, address: Ipv4Addr, port: u16) -> Result<Reflector> {
        let socket = space.enter(|| UdpSocket::bind((address, port)).with_context(|| format!("a reflector on {address}:{port}")))?;
        socket.set_read_timeout(Some(Duration::from_millis(100)))?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        thread::Builder::new().name("reflector".into()).spawn(move || reflect(&socket, &stopped))?;
        Ok(Reflector { stop })
    }
}

impl Drop for Reflector {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

fn reflect(socket: &UdpSocket, stop: &AtomicBool) {
    let mut packet = [0; 2048];
    while !stop.load(Ordering::Relaxed) {
        if let Ok((length, from)) = socket.recv_from(&mut packet)
            && length >= 24
        {
            packet[16..24].copy_from_slice(&clock::now().nanos().to_le_bytes());
            let _ = socket.send_to(&packet[..length], from);
        }
    }
}

/// A call in progress.
#[derive(Debug)]
pub struct Call {
    thread: JoinHandle<Result<Echoes>>,
}

impl Call {
    /// Calls the reflector at `to` from inside `space`, from `start` to `end`, or until `stop` is set.
    pub fn new(space: &Namespace, to: SocketAddr, beat: Beat, start: Time, end: Time, stop: Arc<AtomicBool>) -> Result<Call> {
        let socket = space.enter(|| UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).context("a socket for the call"))?;
        socket.connect(to).with_context(|| format!("calling {to}"))?;
        socket.set_nonblocking(true)?;
        let thread = thread::Builder::new().name("call".into()).spawn(move || call(&socket, beat, start, end, &stop))?;
        Ok(Call { thread })
    }

    /// Waits for the end of the call.
    pub fn join(self) -> Result<Echoes> {
        self.thread.join().map_err(|_| anyhow!("the probe's thread died"))?
    }
}

fn call(socket: &UdpSocket, beat: Beat, start: Time, end: Time, stop: &AtomicBool) -> Result<Echoes> {
    let mut echoes = Echoes::default();
    let mut packet = vec![0; beat.size.max(24)];
    let mut next = start;
    loop {
        let now = clock::now();
        if stop.load(Ordering::Relaxed)
            || now >= end + Span::from_nanos(GRACE.as_nanos() as u64)
            || (now >= end && echoes.echoes.len() as u64 == echoes.sent)
        {
            return Ok(echoes);
        }
        if now >= next && next < end {
            packet[..8].copy_from_slice(&echoes.sent.to_le_bytes());
            packet[8..16].copy_from_slice(&now.nanos().to_le_bytes());
            // A full device queue is a lost datagram, which counts as one.
            let _ = socket.send(&packet);
            echoes.sent += 1;
            next += beat.interval;
        }
        loop {
            match socket.recv(&mut packet) {
                Ok(length) if length >= 24 => echoes.echoes.push(echo(&packet, clock::now())),
                Ok(_) => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                Err(e) => return Err(e).context("the call broke off"),
            }
        }
        let until = if next < end { next } else { clock::now() + Span::from_millis(10) };
        clock::wait_readable(socket, until);
    }
}

fn echo(packet: &[u8], now: Time) -> Echo {
    let stamp = |at: usize| Time::from_nanos(packet[at..at + 8].iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte)));
    let (sent, reflected) = (stamp(8), stamp(16));
    Echo { sent, up: reflected.since(sent), down: now.since(reflected) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_steady_delay_has_no_jitter_and_one_step_of_sixteen_ms_decays_by_a_sixteenth() {
        let echo = |down| Echo { sent: Time::ZERO, up: Span::ZERO, down: Span::from_millis(down) };
        let steady = Echoes { echoes: vec![echo(20); 50], sent: 50 };
        assert_eq!((steady.jitter_ms(), steady.loss()), (0.0, 0.0));
        let step = Echoes { echoes: vec![echo(20), echo(36), echo(36)], sent: 4 };
        assert!((step.jitter_ms() - (1.0 + 15.0 / 16.0) / 2.0).abs() < 1e-9);
        assert_eq!(step.loss(), 0.25);
    }
}
