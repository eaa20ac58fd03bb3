//! `lowtide utp recv`: takes the files that `lowtide utp send` offers, into one folder and nowhere else.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail, ensure};
use clap::Parser;
use lowtide_utp_tokio::UtpStream;

use super::Common;
use super::channel::{self, Frame, Key, Reader, Writer};
use super::files::Part;
use super::messages::{Entry, Have, Message};
use super::progress::{Moved, Progress, Summary};

/// Receive what `lowtide utp send` sends, until Ctrl-C.
///
/// Files go below the folder -o and nowhere else; one that is there is not replaced unless --overwrite says so. An unfinished file is
/// kept as `.NAME.lowtide-part` and continued when it is sent again.
#[derive(Parser)]
pub struct Args {
    /// The folder.
    #[arg(short, long, value_name = "DIR", default_value = ".")]
    output: PathBuf,
    /// Where to listen: a UDP port.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "[::]:7070")]
    listen: SocketAddr,
    /// Replace files that are there.
    #[arg(long)]
    overwrite: bool,
    /// End after one transfer, with its success or failure.
    #[arg(long)]
    once: bool,
    /// Print each transfer as a line of JSON; the first line is the address.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    common: Common,
}

#[expect(clippy::print_stderr, reason = "where it listens, and what failed while it goes on listening")]
pub async fn main(args: &Args) -> Result<ExitCode> {
    ensure!(args.output.is_dir(), "-o {}: is no folder", args.output.display());
    let key = args.common.key()?;
    let socket = args.common.bind(args.listen)?;
    let mut listener = socket.listen();
    let address = socket.local_addr()?;
    if args.json {
        crate::stdout::line(serde_json::json!({ "listening": address.to_string(), "encrypted": key.is_some() }))?;
    } else {
        let how = if key.is_some() { "" } else { "; NOT encrypted, and anybody may send (--key FILE)" };
        eprintln!("lowtide utp recv: UDP {address}, into {}{how}", args.output.display());
    }
    let (done, mut ended) = tokio::sync::mpsc::channel::<Result<Summary>>(16);
    loop {
        tokio::select! {
            stream = listener.accept() => {
                let stream = stream?;
                let job = Job { root: args.output.clone(), overwrite: args.overwrite, json: args.json, key: key.clone() };
                let done = done.clone();
                tokio::spawn(async move {
                    let peer = stream.peer_addr();
                    let summary = job.receive(stream).await.with_context(|| peer.to_string());
                    // Nobody listens once the command ends.
                    let _ = done.send(summary).await;
                });
            }
            Some(summary) = ended.recv() => {
                let summary = summary.and_then(|summary| summary.print(args.json));
                if args.once {
                    drop(listener);
                    // The last acknowledgement is on its way.
                    let _ = tokio::time::timeout(std::time::Duration::from_millis(500), socket.close()).await;
                    return summary.map(|()| ExitCode::SUCCESS);
                }
                if let Err(e) = summary {
                    eprintln!("lowtide utp recv: {e:#}");
                }
            }
        }
    }
}

/// One transfer.
struct Job {
    root: PathBuf,
    overwrite: bool,
    json: bool,
    key: Option<Key>,
}

impl Job {
    async fn receive(&self, stream: UtpStream) -> Result<Summary> {
        let watch = stream.watch();
        let (mut reader, mut writer) = channel::open(stream, self.key.as_ref(), false).await?;
        let mut progress = Progress::new(None, self.json);
        let files = match self.transfer(&mut reader, &mut writer, &mut progress).await {
            Ok(files) => files,
            Err(e) => {
                // The sender shall know why; if it has gone, nobody is left to be told.
                let _ = writer.message(&Message::Error(format!("{e:#}"))).await;
                writer.end_soon().await;
                return Err(e);
            }
        };
        let took = progress.end().as_secs_f64();
        writer.message(&Message::Done).await?;
        let info = watch.info();
        // The sender ends first.
        reader.end_soon().await;
        writer.end_soon().await;
        Ok(Summary {
            files,
            bytes: progress.moved,
            seconds: took,
            goodput_bps: progress.moved as f64 * 8.0 / took,
            encrypted: self.key.is_some(),
            retransmits: info.stats.retransmits,
            rtt_ms: info.srtt.millis_f64(),
        })
    }

    async fn transfer(
        &self,
        reader: &mut Reader<UtpStream>,
        writer: &mut Writer<UtpStream>,
        progress: &mut Progress,
    ) -> Result<Vec<Moved>> {
        let Message::Offer(offered) = reader.message().await? else { bail!("the other end offered nothing") };
        let wanted = tokio::task::block_in_place(|| have(&self.root, &offered, self.overwrite))?;
        writer.message(&Message::Want(wanted)).await?;
        let mut moved = Vec::new();
        for entry in &offered {
            moved.push(self.file(entry, reader, progress).await?);
        }
        Ok(moved)
    }

    async fn file(&self, entry: &Entry, reader: &mut Reader<UtpStream>, progress: &mut Progress) -> Result<Moved> {
        let mut part = tokio::task::block_in_place(|| Part::open(&self.root, entry, self.overwrite))?;
        let Message::Begin(resumed_at) = reader.message().await? else { bail!("{}: did not begin", entry.path) };
        part.begin(resumed_at)?;
        loop {
            match reader.frame().await? {
                Frame::Bytes(bytes) => {
                    tokio::task::block_in_place(|| part.write(bytes))?;
                    progress.add(bytes.len());
                }
                Frame::Message(Message::End(whole)) => {
                    tokio::task::block_in_place(|| part.finish(&whole))?;
                    return Ok(Moved { path: entry.path.clone(), bytes: whole.bytes, resumed_at, sha256: whole.sha256 });
                }
                Frame::Message(Message::Error(why)) => bail!("the other end: {why}"),
                Frame::Message(_) | Frame::End => bail!("{}: ended in the middle", entry.path),
            }
        }
    }
}

/// What is there of each; nothing is created outside the folder, and nothing at all if one of them cannot be taken.
fn have(root: &Path, offered: &[Entry], overwrite: bool) -> Result<Vec<Have>> {
    for entry in offered {
        let place = super::files::place(root, &entry.path)?;
        ensure!(overwrite || place.symlink_metadata().is_err(), "{}: is there already (--overwrite replaces it)", entry.path);
    }
    offered.iter().map(|entry| Ok(Part::open(root, entry, overwrite)?.have())).collect()
}
