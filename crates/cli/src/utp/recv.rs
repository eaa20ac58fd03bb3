//! `lowtide utp recv`: takes the files that `lowtide utp send` offers, into one folder and nowhere else.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use clap::Parser;
use lowtide_units::Span;
use lowtide_utp_tokio::{UtpStream, Watch};
use tokio::sync::Semaphore;

use super::channel::{self, Frame, Key, Reader, Writer};
use super::files::{self, Busy, Part};
use super::messages::{Entry, Have, Message};
use super::progress::{Moved, Progress, Summary};
use super::{Common, printable};

/// A sender that is silent for so long is asked whether it is there, and given up after three questions, as far apart.
const SILENCE: Span = Span::from_secs(5);
/// How often, and how far apart, a file is looked at that somebody else is sending: for as long as it takes to give up a sender, and more.
const PATIENCE: u32 = 100;
const BETWEEN: Duration = Duration::from_millis(250);
/// So many transfers at once: each may take a message of 64 MiB before anything is known of it.
const PLACES: usize = 16;
/// A sender that is silent for so long when it is its turn to offer its files, or to begin one, has nothing to send.
const TURN: Duration = Duration::from_secs(30);

/// Receive what `lowtide utp send` sends, until Ctrl-C.
///
/// Files go below the folder -o and nowhere else; one that is there is not replaced unless --overwrite says so. An unfinished file is
/// kept as `.NAME.lowtide-part` and continued when it is sent again.
#[derive(Clone, Parser)]
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
    /// End after one transfer, with its success or failure. A connection that fails the handshake does not count: one without the
    /// --key, with another, or of a program that is no lowtide.
    #[arg(long)]
    once: bool,
    /// Print each transfer as a line of JSON, with an "error" if it failed; the first line is the address.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    common: Common,
}

#[expect(clippy::print_stderr, reason = "where it listens, and what failed while it goes on listening")]
pub async fn main(args: &Args) -> Result<ExitCode> {
    ensure!(args.output.is_dir(), "-o {}: is no folder", args.output.display());
    let key = args.common.key()?;
    let socket = args.common.bind_asking(args.listen, SILENCE)?;
    let mut listener = socket.listen();
    let address = socket.local_addr()?;
    if args.json {
        crate::stdout::line(serde_json::json!({ "listening": address.to_string(), "encrypted": key.is_some() }))?;
    } else {
        let how = if key.is_some() { "" } else { "; NOT encrypted, and anybody may send (--key FILE)" };
        eprintln!("lowtide utp recv: UDP {address}, into {}{how}", args.output.display());
    }
    let (done, mut ended) = tokio::sync::mpsc::channel::<Ended>(16);
    let places = Arc::new(Semaphore::new(PLACES));
    loop {
        tokio::select! {
            stream = listener.accept() => {
                let stream = stream?;
                let job = Job {
                    root: args.output.clone(),
                    overwrite: args.overwrite,
                    json: args.json,
                    key: key.clone(),
                    places: Arc::clone(&places),
                    patience: TURN,
                };
                let done = done.clone();
                tokio::spawn(async move {
                    let peer = stream.peer_addr();
                    let (summary, stranger) = job.serve(stream).await;
                    // What it says of files has their names in it, which the sender chose.
                    let summary = summary.map_err(|e| printable(&format!("{e:#}")));
                    // Nobody listens once the command ends.
                    let _ = done.send(Ended { peer, summary, stranger }).await;
                });
            }
            Some(Ended { peer, summary, stranger }) = ended.recv() => {
                let told = tell(peer, summary, args.json);
                // A stranger must neither end what others are about nor be what was waited for.
                if args.once && !stranger {
                    drop(listener);
                    // The last acknowledgement is on its way.
                    let _ = tokio::time::timeout(Duration::from_millis(500), socket.close()).await;
                    return told.map(|()| ExitCode::SUCCESS);
                }
                if let Err(e) = told {
                    eprintln!("lowtide utp recv: {e:#}");
                }
            }
        }
    }
}

/// A connection that has ended, how it went or what was wrong, and whether the other end was none that could have sent anything.
struct Ended {
    peer: SocketAddr,
    summary: Result<Summary, String>,
    stranger: bool,
}

/// Tells how a transfer went on standard output, what was wrong as well if that is JSON.
///
/// # Errors
/// What was wrong; or it cannot be told.
fn tell(peer: SocketAddr, summary: Result<Summary, String>, json: bool) -> Result<()> {
    let why = match summary {
        Ok(summary) => return summary.print(json),
        Err(why) => why,
    };
    if json {
        crate::stdout::line(serde_json::json!({ "from": peer.to_string(), "error": why }))?;
    }
    bail!("{peer}: {why}")
}

/// One transfer.
struct Job {
    root: PathBuf,
    overwrite: bool,
    json: bool,
    key: Option<Key>,
    /// One a transfer.
    places: Arc<Semaphore>,
    /// For the offer, and for each file's beginning.
    patience: Duration,
}

impl Job {
    /// How it went, and whether the other end was a stranger.
    async fn serve(&self, stream: UtpStream) -> (Result<Summary>, bool) {
        let watch = stream.watch();
        match channel::open(stream, self.key.as_ref(), false).await {
            Ok((reader, writer)) => (self.receive(reader, writer, &watch).await, false),
            Err(e) => (Err(e), true),
        }
    }

    async fn receive(&self, mut reader: Reader<UtpStream>, mut writer: Writer<UtpStream>, watch: &Watch) -> Result<Summary> {
        let Ok(_place) = self.places.try_acquire() else {
            writer.fail(format!("{PLACES} transfers are under way here, which is as many as may be; try again later")).await;
            bail!("{PLACES} transfers are under way; one more was refused");
        };
        let mut progress = Progress::new(None, self.json);
        let files = match self.transfer(&mut reader, &mut writer, &mut progress).await {
            Ok(files) => files,
            Err(e) => {
                writer.fail(format!("{e:#}")).await;
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
        let Message::Offer(offered) = self.turn(reader).await? else { bail!("the other end offered nothing") };
        files::check(&offered)?;
        let wanted = self.have(&offered).await?;
        writer.message(&Message::Want(wanted)).await?;
        let mut moved = Vec::new();
        for entry in &offered {
            moved.push(self.file(entry, reader, progress).await?);
        }
        Ok(moved)
    }

    async fn file(&self, entry: &Entry, reader: &mut Reader<UtpStream>, progress: &mut Progress) -> Result<Moved> {
        let mut part = tokio::task::block_in_place(|| Part::open(&self.root, entry, self.overwrite))?;
        let resumed_at = self.beginning(entry, part.have().bytes, reader).await?;
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
                Frame::Message(Message::Error(why)) => bail!("the other end: {}", printable(&why)),
                Frame::Message(_) | Frame::End => bail!("{}: ended in the middle", entry.path),
            }
        }
    }

    /// What the sender says when it is its turn, before any byte of a file.
    async fn turn(&self, reader: &mut Reader<UtpStream>) -> Result<Message> {
        tokio::time::timeout(self.patience, reader.message()).await.context("the other end is silent")?
    }

    /// Where the sender begins with a file. If it compares the `there` bytes of it first, it says how far it is: more each time, or it
    /// could keep its place for ever.
    async fn beginning(&self, entry: &Entry, there: u64, reader: &mut Reader<UtpStream>) -> Result<u64> {
        let mut compared = 0;
        loop {
            match self.turn(reader).await? {
                Message::Begin(at) => return Ok(at),
                Message::Compared(bytes) if compared < bytes && bytes <= there => compared = bytes,
                _ => bail!("{}: did not begin", entry.path),
            }
        }
    }

    /// What is there of each. Who is being received already may have lost its sender and not know it yet: that is waited for.
    async fn have(&self, offered: &[Entry]) -> Result<Vec<Have>> {
        let look = || offered.iter().map(|entry| files::have(&self.root, entry, self.overwrite)).collect::<Result<_>>();
        let mut asked = 0;
        loop {
            match tokio::task::block_in_place(look) {
                Err(e) if e.is::<Busy>() && asked < PATIENCE => {
                    asked += 1;
                    tokio::time::sleep(BETWEEN).await;
                }
                looked => return looked,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Duration = Duration::from_millis(50);

    /// A receiver with so many places and three bytes of `f`, and what it tells a sender that greets, says `words` and is silent then.
    async fn told(places: usize, patience: Duration, words: &[Message]) -> Result<(String, String)> {
        let dir = tempfile::tempdir()?;
        std::fs::write(dir.path().join(".f.lowtide-part"), b"par")?;
        let job = Job {
            root: dir.path().to_owned(),
            overwrite: false,
            json: true,
            key: None,
            places: Arc::new(Semaphore::new(places)),
            patience,
        };
        let here = lowtide_utp_tokio::UtpSocket::bind("127.0.0.1:0".parse()?, lowtide_utp_tokio::Options::default())?;
        let mut listener = here.listen();
        let there = lowtide_utp_tokio::UtpSocket::bind("127.0.0.1:0".parse()?, lowtide_utp_tokio::Options::default())?;
        let serve = async { job.serve(listener.accept().await?).await.0.map(drop) };
        let greet = async {
            let (mut reader, mut writer) = channel::open(there.connect(here.local_addr()?).await?, None, true).await?;
            for word in words {
                writer.message(word).await?;
            }
            while let Message::Want(_) = reader.message().await? {}
            Ok(())
        };
        let (served, greeted) = tokio::time::timeout(Duration::from_secs(30), async { tokio::join!(serve, greet) }).await?;
        ensure!(job.places.available_permits() == places, "its place is not free again");
        let words = |result: Result<()>| result.map_or_else(|e| format!("{e:#}"), |()| "nothing".to_owned());
        Ok((words(served), words(greeted)))
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_sender_that_is_silent_or_one_too_many_is_told_and_let_go() -> Result<()> {
        let (here, there) = told(1, SHORT, &[]).await?;
        assert!(here.contains("silent") && there.contains("silent"), "{here}; {there}");
        let (here, there) = told(0, SHORT, &[]).await?;
        assert!(here.contains("refused") && there.contains("try again later"), "{here}; {there}");
        Ok(())
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_sender_that_offers_and_does_not_begin_is_let_go() -> Result<()> {
        let offer = |bytes| Message::Offer(vec![Entry { path: "f".to_owned(), bytes }]);
        for words in [vec![offer(Some(9))], vec![offer(None)], vec![offer(Some(9)), Message::Compared(2)]] {
            let (here, there) = told(1, SHORT, &words).await?;
            assert!(here.contains("silent") && there.contains("silent"), "{words:?}: {here}; {there}");
        }
        // Nor does it keep its place by words that lead nowhere: the receiver has three bytes.
        for compared in [[0, 1], [2, 2], [2, 1], [3, 4]] {
            let [first, second] = compared.map(Message::Compared);
            let (here, _) = told(1, 100 * SHORT, &[offer(Some(9)), first, second]).await?;
            assert!(here.contains("did not begin"), "{compared:?}: {here}");
        }
        Ok(())
    }
}
