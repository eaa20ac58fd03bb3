//! A uTP transfer: both ends in this process, each on a UDP port of its own namespace, by `lowtide-utp-tokio`. Does not know what is
//! measured on the line.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use lowtide_scenario::Flow;
use lowtide_scenario::scenario::Repair;
use lowtide_units::{Span, Time};
use lowtide_utp_tokio::{Info, Options, UtpSocket, UtpStream};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::runtime::{Builder, Runtime};

use crate::clock;
use crate::netns::Namespace;
use crate::outcome::{SAMPLE, Sample};
use crate::plan::Job;
use crate::programs::{Ground, Transfer};
use crate::server::Stats;
use crate::site::{CLIENT, SERVER};

/// One write's worth of payload. Its bytes do not matter; that they are sent does.
const CHUNK: usize = 64 << 10;

/// What the scenario asks of uTP.
pub fn options(flow: &Flow) -> Options {
    Options {
        control: flow.cc.clone(),
        params: lowtide_cc::Params::from(flow.params.clone()),
        repair: match flow.utp.repair_under(&flow.cc) {
            Repair::Once => lowtide_utp::Repair::Once,
            Repair::ByTime => lowtide_utp::Repair::ByTime,
        },
        min_rto: Span::from_millis_f64(flow.utp.min_rto_ms),
        tick: Span::from_millis_f64(flow.utp.tick_ms),
        packet: Some(flow.utp.payload_bytes),
        ..Options::default()
    }
}

/// Runs a job that is a transfer of `bytes`, upwards or downwards, endless if it is not finite; `samples` get the sender's state.
///
/// # Errors
/// Sockets that cannot be had, or a connection that failed.
pub fn run(job: &Job, ground: &Ground<'_>, bytes: Option<u64>, up: bool, samples: &mut Vec<Sample>) -> Result<Vec<Transfer>> {
    let at = |seconds: f64| ground.zero + Span::from_secs_f64(seconds);
    let (start, end) = (at(job.runs.start), at(job.runs.end));
    // The server's port is the lower one, by which the link tells flows apart.
    let (server, client) = ((ground.server, SERVER, job.port), (ground.client, CLIENT, 0));
    let (from, to) = if up { (client, server) } else { (server, client) };
    // A runtime each, as two programs would have.
    let (sender, receiver) = (End::new(job, from)?, End::new(job, to)?);
    let address = receiver.socket.local_addr()?;
    let over = AtomicBool::new(false);
    let took = std::thread::scope(|scope| {
        let reading = scope.spawn(|| receiver.runtime.block_on(sink(&receiver.socket, &over)));
        let sent = sender.runtime.block_on(source(&sender.socket, address, bytes, start, end, ground.stop, samples));
        over.store(true, Ordering::Relaxed);
        reading.join().map_err(|_| anyhow!("the thread of a uTP receiver died"))??;
        sent
    });
    let took = took.with_context(|| format!("flow `{}`", job.name))?;
    let transfer = || Transfer { began: job.runs.start, took };
    Ok(bytes.map(|_| transfer()).into_iter().collect())
}

/// One end's port and the thread that drives it.
struct End {
    runtime: Runtime,
    socket: UtpSocket,
}

impl End {
    fn new(job: &Job, (space, address, port): (&Namespace, Ipv4Addr, u16)) -> Result<End> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let options = options(&job.flow);
        let socket = space.enter(|| {
            let _inside = runtime.enter();
            UtpSocket::bind(SocketAddr::from((address, port)), options).with_context(|| format!("uTP on {address}:{port}"))
        })?;
        Ok(End { runtime, socket })
    }
}

/// Reads and throws away, until `over`.
async fn sink(socket: &UtpSocket, over: &AtomicBool) -> Result<()> {
    let mut listener = socket.listen();
    let until = async {
        while !over.load(Ordering::Relaxed) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let read = async {
        let mut bytes = vec![0; CHUNK];
        loop {
            let mut stream = listener.accept().await?;
            // How it ends is the sender's affair.
            while stream.read(&mut bytes).await.is_ok_and(|n| n > 0) {}
        }
    };
    tokio::select! {
        () = until => Ok(()),
        ended = read => ended,
    }
}

/// Sends from `start` on; how many seconds it took, if it was complete before `end`.
async fn source(
    socket: &UtpSocket,
    to: SocketAddr,
    bytes: Option<u64>,
    start: Time,
    end: Time,
    stop: &AtomicBool,
    samples: &mut Vec<Sample>,
) -> Result<Option<f64>> {
    sleep_until(start, stop).await;
    let connecting = socket.connect(to);
    let mut stream = tokio::select! {
        stream = connecting => stream.context("connecting by uTP")?,
        () = sleep_until(end, stop) => return Ok(None),
    };
    let watch = stream.watch();
    let watching = async {
        while clock::now() < end && !stop.load(Ordering::Relaxed) {
            samples.push(sample(&watch.info()));
            tokio::time::sleep(SAMPLE).await;
        }
    };
    let took = tokio::select! {
        sent = send(&mut stream, bytes) => {
            sent?;
            Some(clock::now().since(start).secs_f64())
        }
        () = watching => None,
    };
    samples.push(sample(&watch.info()));
    ensure!(took.is_some() || stream.info().delivered > 0 || stop.load(Ordering::Relaxed), "nothing was acknowledged");
    Ok(took)
}

/// Sends `bytes` and waits for their acknowledgement, or sends for ever.
async fn send(stream: &mut UtpStream, bytes: Option<u64>) -> Result<()> {
    let chunk = vec![b'~'; CHUNK];
    let mut left = bytes.unwrap_or(u64::MAX);
    while left > 0 {
        let part = left.min(CHUNK as u64) as usize;
        stream.write_all(&chunk[..part]).await?;
        left -= part as u64;
    }
    Ok(stream.shutdown().await?)
}

async fn sleep_until(until: Time, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) && clock::now() < until {
        tokio::time::sleep(Duration::from_nanos(until.since(clock::now()).nanos().min(20_000_000))).await;
    }
}

fn sample(info: &Info) -> Sample {
    let stats = Stats {
        acked: info.delivered,
        received: info.received,
        retransmits: info.stats.retransmits,
        cwnd: info.control.cwnd,
        peer_window: info.peer_window,
        srtt_us: (info.srtt.nanos() / 1000) as u32,
        open: 1,
    };
    Sample { at: clock::now(), stats }
}
