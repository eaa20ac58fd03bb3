//! Throughput and CPU time per GB over loopback: this uTP beside librqbit-utp, libutp (npm utp-native) and plain UDP with the same
//! datagrams, in turns in one run. Sender and receiver are processes of their own; their CPU time is what the kernel counts.
//!
//! `cargo run --release -p lowtide-utp-tokio --example loopback [MB [ROUNDS]]`

#![expect(clippy::print_stdout, clippy::print_stderr, clippy::disallowed_methods, reason = "an example measures and prints")]

use std::io::{BufRead, BufReader, ErrorKind, IoSliceMut};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use lowtide_utp_tokio::{Options, UtpListener, UtpSocket};
use nix::sys::resource::{UsageWho, getrusage};
use quinn_udp::{RecvMeta, Transmit, UdpSocketState};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

const KINDS: [&str; 4] = ["lowtide", "librqbit-utp", "libutp", "udp"];
/// Payload of a datagram of plain UDP: a full uTP packet.
const DATAGRAM: usize = 1402;

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let text: Vec<&str> = args.iter().map(String::as_str).collect();
    match text[..] {
        [kind, "receive"] => runtime()?.block_on(receive(kind)),
        [kind, "send", port, mb] => runtime()?.block_on(send(kind, port.parse()?, mb.parse::<usize>()? * 1_000_000)),
        [] => compare(1000, 5),
        [mb] => compare(mb.parse()?, 5),
        [mb, rounds] => compare(mb.parse()?, rounds.parse()?),
        _ => Err("usage: loopback [MB [ROUNDS]]".into()),
    }
}

fn runtime() -> Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_current_thread().enable_all().build()?)
}

fn any() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

async fn receive(kind: &str) -> Result<()> {
    match kind {
        "lowtide" => {
            let mut listener = UtpListener::bind(any(), Options::default())?;
            println!("port {}", listener.socket().local_addr()?.port());
            drain(&mut listener.accept().await?).await
        }
        "librqbit-utp" => {
            let socket = librqbit_utp::UtpSocket::new_udp(any()).await?;
            println!("port {}", socket.bind_addr().port());
            drain(&mut socket.accept().await?).await
        }
        "udp" => receive_udp(),
        _ => Err("no such kind".into()),
    }
}

async fn drain(from: &mut (impl AsyncRead + Unpin)) -> Result<()> {
    let (mut bytes, mut got, mut began) = (vec![0; 1 << 17], 0, Instant::now());
    loop {
        match from.read(&mut bytes).await? {
            0 => break,
            n if got == 0 => (got, began) = (n, Instant::now()),
            n => got += n,
        }
    }
    println!("{got} {}", began.elapsed().as_secs_f64());
    Ok(())
}

async fn send(kind: &str, port: u16, bytes: usize) -> Result<()> {
    let to = SocketAddr::from(([127, 0, 0, 1], port));
    match kind {
        "lowtide" => {
            let socket = UtpSocket::bind(any(), Options::default())?;
            let mut stream = socket.connect(to).await?;
            fill(&mut stream, bytes).await?;
            if std::env::var_os("SHOW").is_some() {
                eprintln!("{:?}", stream.info());
            }
            Ok(())
        }
        "librqbit-utp" => fill(&mut librqbit_utp::UtpSocket::new_udp(any()).await?.connect(to).await?, bytes).await,
        "udp" => send_udp(to, bytes),
        _ => Err("no such kind".into()),
    }
}

async fn fill(to: &mut (impl AsyncWrite + Unpin), mut bytes: usize) -> Result<()> {
    let chunk = vec![7; 1 << 17];
    while bytes > 0 {
        let n = bytes.min(chunk.len());
        to.write_all(&chunk[..n]).await?;
        bytes -= n;
    }
    Ok(to.shutdown().await?)
}

/// No protocol at all, but that the receiver says after each system call how much it has, and that so much may be under way.
const UNDER_WAY: u64 = 64 << 10;
/// After such a silence what was under way found the receiver's buffer full: UDP repeats nothing, nor does this.
const LOST_AFTER: Duration = Duration::from_millis(100);

fn send_udp(to: SocketAddr, bytes: usize) -> Result<()> {
    let socket = std::net::UdpSocket::bind(any())?;
    let state = UdpSocketState::new((&socket).into())?;
    socket.set_nonblocking(false)?;
    socket.set_read_timeout(Some(LOST_AFTER))?;
    socket.connect(to)?;
    let segments = state.max_gso_segments().min(65_507 / DATAGRAM);
    let contents = vec![7; segments * DATAGRAM];
    let (mut sent, mut arrived, mut lost, mut word) = (0u64, 0u64, 0u64, [0; 8]);
    while arrived + lost < bytes as u64 {
        if sent < bytes as u64 && sent.saturating_sub(arrived + lost) < UNDER_WAY {
            let transmit = Transmit { destination: to, ecn: None, contents: &contents, segment_size: Some(DATAGRAM), src_ip: None };
            state.try_send((&socket).into(), &transmit)?;
            sent += contents.len() as u64;
        } else {
            match socket.recv(&mut word) {
                Ok(_) => arrived = u64::from_be_bytes(word),
                Err(e) if e.kind() == ErrorKind::WouldBlock => lost = sent - arrived,
                Err(e) => return Err(e.into()),
            }
        }
    }
    socket.send(b"end")?;
    Ok(())
}

fn receive_udp() -> Result<()> {
    let socket = std::net::UdpSocket::bind(any())?;
    println!("port {}", socket.local_addr()?.port());
    let state = UdpSocketState::new((&socket).into())?;
    socket.set_nonblocking(false)?;
    let mut bytes = vec![0; 1 << 16];
    let (mut got, mut began) = (0, Instant::now());
    loop {
        // One message: a blocking recvmmsg waits until it has as many as it has room for.
        let mut meta = [RecvMeta::default()];
        state.recv((&socket).into(), &mut [IoSliceMut::new(&mut bytes)], &mut meta)?;
        let [meta] = meta;
        if meta.len < DATAGRAM {
            break;
        }
        if got == 0 {
            began = Instant::now();
        }
        got += meta.len as u64;
        socket.send_to(&got.to_be_bytes(), meta.addr)?;
    }
    println!("{got} {}", began.elapsed().as_secs_f64());
    Ok(())
}

/// MB/s and CPU seconds per GB.
struct Run {
    rate: f64,
    cpu: f64,
}

fn compare(mb: usize, rounds: usize) -> Result<()> {
    let modules = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/utp-peers/node_modules");
    let kinds: Vec<&str> = KINDS.into_iter().filter(|kind| *kind != "libutp" || modules.exists()).collect();
    if kinds.len() < KINDS.len() {
        eprintln!("libutp is left out: scripts/setup-utp-peers installs it");
    }
    let mut runs: Vec<Vec<Run>> = kinds.iter().map(|_| Vec::new()).collect();
    for _ in 0..rounds {
        for (kind, runs) in kinds.iter().zip(&mut runs) {
            runs.push(run(kind, mb, &modules)?);
        }
    }
    println!("{mb} MB over loopback (libutp: {}), {rounds} rounds: median (least to most)", mb.div_ceil(20));
    println!("{:<14}{:>28}{:>30}", "", "MB/s", "CPU s per GB, both ends");
    for (kind, runs) in kinds.iter().zip(&runs) {
        let (rate, cpu) = (spread(runs.iter().map(|run| run.rate)), spread(runs.iter().map(|run| run.cpu)));
        println!("{kind:<14}{:>28}{:>30}", rate.0, cpu.1);
    }
    Ok(())
}

/// In whole numbers, and with two decimals.
fn spread(values: impl Iterator<Item = f64>) -> (String, String) {
    let mut sorted: Vec<f64> = values.collect();
    sorted.sort_by(f64::total_cmp);
    let (least, middle, most) = (sorted[0], sorted[sorted.len() / 2], sorted[sorted.len() - 1]);
    (format!("{middle:.0} ({least:.0} to {most:.0})"), format!("{middle:.2} ({least:.2} to {most:.2})"))
}

fn command(kind: &str, modules: &Path, args: &[&str]) -> Result<Command> {
    let mut command = if kind == "libutp" {
        let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/peers/libutp.js");
        let mut node = Command::new("node");
        node.arg(script).arg(modules).args(args).env("NO_HASH", "1");
        node
    } else {
        let mut own = Command::new(std::env::current_exe()?);
        own.arg(kind).args(args);
        own
    };
    command.stdout(Stdio::piped());
    Ok(command)
}

fn line(child: &mut Child, lines: &mut Option<BufReader<std::process::ChildStdout>>) -> Result<String> {
    let lines = lines.get_or_insert_with(|| BufReader::new(child.stdout.take().unwrap_or_else(|| unreachable!("piped"))));
    let mut line = String::new();
    lines.read_line(&mut line)?;
    Ok(line.trim().to_owned())
}

fn cpu() -> Result<f64> {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    let seconds = |t: nix::sys::time::TimeVal| t.tv_sec() as f64 + t.tv_usec() as f64 / 1e6;
    Ok(seconds(usage.user_time()) + seconds(usage.system_time()))
}

fn run(kind: &str, mb: usize, modules: &Path) -> Result<Run> {
    let before = cpu()?;
    // libutp to libutp stands still most of the time: its retransmissions wait for timeouts.
    let mb = if kind == "libutp" { mb.div_ceil(20) } else { mb };
    let bytes = (mb * 1_000_000).to_string();
    let mega = mb.to_string();
    let receiver: &[&str] = if kind == "libutp" { &["listen", "0", "receive", &bytes] } else { &["receive"] };
    let mut receiver = command(kind, modules, receiver)?.spawn()?;
    let mut lines = None;
    let port = line(&mut receiver, &mut lines)?.trim_start_matches("port ").to_owned();
    let sender: Vec<&str> = if kind == "libutp" { vec!["connect", &port, "send", &bytes] } else { vec!["send", &port, &mega] };
    let sent = command(kind, modules, &sender)?.stdout(Stdio::null()).status()?;
    let said = line(&mut receiver, &mut lines)?;
    receiver.wait()?;
    let numbers: Vec<f64> = said.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    let [got, seconds] = numbers[..] else { return Err(format!("{kind}: {sent}, and the receiver said {said:?}").into()) };
    Ok(Run { rate: got / 1e6 / seconds, cpu: (cpu()? - before) / (got / 1e9) })
}
