//! `lowtide utp send`: offers files to a `lowtide utp recv` and sends what it lacks of them.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use clap::Parser;
use lowtide_utp_tokio::UtpStream;

use super::channel::{self, MOST, Reader, Writer};
use super::files::{self, Offered, Source};
use super::messages::{Entry, Have, Message};
use super::progress::{Moved, Progress, Summary};
use super::{Common, printable, resolve_peer, signals};
use crate::stdout;

const INTERRUPTED: &str = "the sender was interrupted";
/// A receiver gives up who is silent for 30 s before a file begins.
const COMPARING: Duration = Duration::from_secs(5);
/// A signal that came together with the end of standard input is known after so long.
const SIGNAL_COMES: Duration = Duration::from_millis(100);

/// Send a file, a folder or standard input to a `lowtide utp recv`.
///
/// What the receiver has of a file is not sent again: a transfer that was interrupted goes on. Each file is compared by its sha256.
#[derive(Clone, Parser)]
pub struct Args {
    /// A file, a folder, or - for standard input.
    path: PathBuf,
    /// Where `lowtide utp recv` listens: HOST:PORT.
    peer: String,
    /// Print a summary as JSON, or an "error".
    #[arg(long)]
    json: bool,
    /// The name that standard input is stored under.
    #[arg(long, value_name = "NAME", default_value = "stdin")]
    name: String,
    #[command(flatten)]
    common: Common,
}

pub async fn main(args: &Args) -> Result<ExitCode> {
    let sent = send(args).await;
    if let Err(e) = &sent
        && args.json
    {
        // What it says of files has their names in it, and of the other end what that chose to say.
        stdout::line(serde_json::json!({ "to": args.peer, "error": printable(&format!("{e:#}")) }))?;
    }
    sent
}

#[expect(clippy::print_stderr, reason = "what of a folder is not sent")]
async fn send(args: &Args) -> Result<ExitCode> {
    let Offered { files: offered, left_out } = files::offer(&args.path, &args.name)?;
    if let Some(first) = left_out.first() {
        eprintln!(
            "lowtide utp send: links, devices, unfinished files and the like are not sent: {}, {} in all",
            printable(&first.display().to_string()),
            left_out.len()
        );
    }
    let key = args.common.key()?;
    let stream = connect(&args.common, &resolve_peer(&args.peer)?).await?;
    let info = stream_info(&stream);
    let (mut reader, mut writer) = channel::open(stream, key.as_ref(), true).await?;
    let total = offered.iter().map(|(entry, _)| entry.bytes).sum::<Option<u64>>();
    let mut progress = Progress::new(total, args.json);
    let files = match transfer(&offered, &mut reader, &mut writer, &mut progress).await {
        Ok(files) => files,
        Err(e) => {
            writer.fail(format!("{e:#}")).await;
            return Err(e);
        }
    };
    let took = progress.end().as_secs_f64();
    let (retransmits, rtt_ms) = info();
    let goodput_bps = progress.moved as f64 * 8.0 / took;
    let summary = Summary { files, bytes: progress.moved, seconds: took, goodput_bps, encrypted: key.is_some(), retransmits, rtt_ms };
    let printed = summary.print(args.json);
    // The receiver has everything; only the end of the connection is left.
    writer.end_soon().await;
    reader.end_soon().await;
    printed.map(|()| ExitCode::SUCCESS)
}

/// A connection to the first of `peers` that takes one.
async fn connect(common: &Common, peers: &[SocketAddr]) -> Result<UtpStream> {
    let mut failed = None;
    for &peer in peers {
        match common.bind_for(peer)?.connect(peer).await {
            Ok(stream) => return Ok(stream),
            Err(e) => failed = Some(format!("{peer}: is `lowtide utp recv` there, and UDP let through?: {e}")),
        }
    }
    bail!("{}", failed.unwrap_or_default())
}

/// Sends what the receiver lacks of the files offered.
async fn transfer(
    offered: &[(Entry, Option<PathBuf>)],
    reader: &mut Reader<UtpStream>,
    writer: &mut Writer<UtpStream>,
    progress: &mut Progress,
) -> Result<Vec<Moved>> {
    writer.message(&Message::Offer(offered.iter().map(|(entry, _)| entry.clone()).collect())).await?;
    let Message::Want(wanted) = reader.message().await? else { bail!("the other end did not say what it wants") };
    ensure!(wanted.len() == offered.len(), "the other end wants {} files, and {} were offered", wanted.len(), offered.len());
    let mut moved = Vec::new();
    for ((entry, path), have) in offered.iter().zip(&wanted) {
        let sent = file(entry, path.as_deref(), have, writer, progress);
        // A receiver that gives up says why, and resets nothing before.
        let source = tokio::select! {
            source = sent => source?,
            complaint = reader.message() => { complaint?; bail!("the other end spoke out of turn") }
        };
        let Have { bytes, sha256 } = source.whole();
        moved.push(Moved { path: entry.path.clone(), bytes, resumed_at: source.resumed_at, sha256 });
    }
    match reader.message().await? {
        Message::Done => Ok(moved),
        _ => bail!("the other end spoke out of turn"),
    }
}

async fn file(entry: &Entry, path: Option<&Path>, have: &Have, writer: &mut Writer<UtpStream>, progress: &mut Progress) -> Result<Source> {
    let mut source = open(COMPARING, entry, path, have, writer).await?;
    writer.message(&Message::Begin(source.bytes)).await?;
    let mut bytes = vec![0; MOST];
    loop {
        let n;
        (source, bytes, n) = next(source, bytes, path.is_none()).await?;
        if n == 0 {
            break;
        }
        ensure!(!signals::have_come(), INTERRUPTED);
        writer.bytes(&bytes[..n]).await?;
        progress.add(n);
    }
    if path.is_none() {
        // Ctrl-C ends the program that writes here too, and the end of what it wrote is none.
        ensure!(!signals::have_come(), INTERRUPTED);
        tokio::time::sleep(SIGNAL_COMES).await;
        ensure!(!signals::have_come(), INTERRUPTED);
    }
    writer.message(&Message::End(source.whole())).await?;
    Ok(source)
}

/// Opens a file; while what the receiver has of it is compared, which may take long, says `every` so often how far that is.
async fn open(every: Duration, entry: &Entry, path: Option<&Path>, have: &Have, writer: &mut Writer<UtpStream>) -> Result<Source> {
    let compared = Arc::new(AtomicU64::new(0));
    let open = {
        let (entry, path, have, compared) = (entry.clone(), path.map(Path::to_owned), have.clone(), Arc::clone(&compared));
        move || Source::open(&entry, path.as_deref(), &have, &compared)
    };
    let mut opening = tokio::task::spawn_blocking(open);
    let mut told = 0;
    loop {
        if let Ok(opened) = tokio::time::timeout(every, &mut opening).await {
            return opened?;
        }
        let now = compared.load(Ordering::Relaxed);
        if now > std::mem::replace(&mut told, now) {
            writer.message(&Message::Compared(now)).await?;
        }
    }
}

/// The next bytes. Standard input may be silent for long: it is read on another thread, so that the receiver is heard meanwhile.
async fn next(mut source: Source, mut bytes: Vec<u8>, standard_input: bool) -> Result<(Source, Vec<u8>, usize)> {
    let read = move || source.read(&mut bytes).map(|n| (source, bytes, n));
    if standard_input { tokio::task::spawn_blocking(read).await? } else { tokio::task::block_in_place(read) }
}

/// How to ask a stream for its retransmissions and RTT once it belongs to a channel.
fn stream_info(stream: &UtpStream) -> impl Fn() -> (u64, f64) + use<> {
    let watch = stream.watch();
    move || {
        let info = watch.info();
        (info.stats.retransmits, info.srtt.millis_f64())
    }
}

impl Summary {
    /// On standard output: JSON, or a line a file.
    ///
    /// # Errors
    /// It cannot be written; the files are in their places nevertheless.
    pub fn print(&self, json: bool) -> Result<()> {
        self.write(json).context("everything has arrived and is in its place, but the summary cannot be printed")
    }

    fn write(&self, json: bool) -> Result<()> {
        if json {
            return stdout::line(serde_json::to_string(self)?);
        }
        for Moved { path, bytes, resumed_at, sha256 } in &self.files {
            let resumed = if *resumed_at > 0 { format!(", from byte {resumed_at} on") } else { String::new() };
            stdout::line(format_args!("{sha256}  {}  ({bytes} bytes{resumed})", printable(path)))?;
        }
        let how = if self.encrypted { "encrypted" } else { "NOT encrypted (--key FILE)" };
        stdout::line(format_args!(
            "{:.1} MB in {:.1} s, {:.1} Mbit/s, {how}",
            self.bytes as f64 / 1e6,
            self.seconds,
            self.goodput_bps / 1e6
        ))
    }
}
