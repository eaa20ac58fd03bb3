//! Frames over a stream, in the clear or under a shared key (Noise NNpsk0, by `snow`). Knows no files.
//!
//! On the wire: eight bytes that say which of the two, then frames of a length of 16 bits and as many bytes. Under a key each is a Noise
//! message. The first byte inside says whether bytes follow, a message, or nothing any more: an end that does not say so was cut off.

use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use sha2::{Digest, Sha256};
use snow::StatelessTransportState;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadHalf, WriteHalf};

use super::messages::Message;
use super::printable;

const CLEAR: &[u8; 8] = b"lowtide0";
const SEALED: &[u8; 8] = b"lowtide1";
const NOISE: &str = "Noise_NNpsk0_25519_ChaChaPoly_BLAKE2s";
/// How long an end waits for the other's first words: a program that is no lowtide may keep a connection open and say nothing.
const FIRST_WORDS: Duration = Duration::from_secs(10);
/// How long an end waits for the other when there is nothing left to say.
const SOON: Duration = Duration::from_secs(1);
/// A Noise message has at most 65,535 bytes, its tag included.
const TAG: usize = 16;
/// Bytes of a frame's contents at most.
pub const MOST: usize = 65_535 - TAG - 1;

/// A message is shorter: an open receiver keeps one for everybody who greets. An offer of [`MOST_FILES`](super::messages::MOST_FILES) with names of
/// 130 bytes is, and the answer to it.
const MOST_MESSAGE: usize = 16 << 20;

/// Bytes of a key's file at most.
const MOST_KEY: u64 = 1 << 20;

/// What a frame holds.
#[derive(Debug)]
pub enum Frame<'a> {
    /// Bytes of a file or a forwarded connection.
    Bytes(&'a [u8]),
    /// A message.
    Message(Message),
    /// No more will come.
    End,
}

/// A key that both ends have.
#[derive(Clone)]
pub struct Key([u8; 32]);

impl Key {
    /// The contents of a file, of 16 bytes to a megabyte, as they are.
    ///
    /// # Errors
    /// It cannot be read, is shorter, or longer, as a device of random numbers is.
    pub fn read(path: &Path) -> Result<Key> {
        let about = || format!("--key {}", path.display());
        let mut contents = Vec::new();
        let file = std::fs::File::open(path).with_context(about)?;
        file.take(MOST_KEY + 1).read_to_end(&mut contents).with_context(about)?;
        ensure!(contents.len() as u64 <= MOST_KEY, "{}: has more than {MOST_KEY} bytes, and a key has fewer", about());
        ensure!(contents.len() >= 16, "--key {}: has {} bytes, and a key has at least 16", path.display(), contents.len());
        Ok(Key(Sha256::digest(&contents).into()))
    }
}

/// The sending half of a channel.
pub struct Writer<S> {
    to: WriteHalf<S>,
    noise: Option<Arc<StatelessTransportState>>,
    sent: u64,
    frame: Vec<u8>,
    sealed: Vec<u8>,
}

/// The receiving half.
pub struct Reader<S> {
    from: ReadHalf<S>,
    noise: Option<Arc<StatelessTransportState>>,
    received: u64,
    /// What has come of a frame, its length included; the whole frame until the next one is waited for.
    frame: Vec<u8>,
    whole: bool,
    /// What a key opened of it.
    opened: Vec<u8>,
    /// What has come of a message of several frames.
    text: Vec<u8>,
}

/// Opens a channel over a stream; `first` is the end that connected.
///
/// # Errors
/// The other end is no lowtide, has another key, or has none where this has one; or says nothing for ten seconds.
pub async fn open<S: AsyncRead + AsyncWrite>(stream: S, key: Option<&Key>, first: bool) -> Result<(Reader<S>, Writer<S>)> {
    open_within(FIRST_WORDS, stream, key, first).await
}

async fn open_within<S: AsyncRead + AsyncWrite>(
    limit: Duration,
    stream: S,
    key: Option<&Key>,
    first: bool,
) -> Result<(Reader<S>, Writer<S>)> {
    let opening = tokio::time::timeout(limit, greet(stream, key, first)).await;
    opening.with_context(|| format!("the other end said nothing for {limit:?}: it is no lowtide"))?
}

async fn greet<S: AsyncRead + AsyncWrite>(stream: S, key: Option<&Key>, first: bool) -> Result<(Reader<S>, Writer<S>)> {
    let (mut from, mut to) = tokio::io::split(stream);
    let ours = if key.is_some() { SEALED } else { CLEAR };
    let mut theirs = [0; 8];
    if first {
        to.write_all(ours).await?;
    }
    from.read_exact(&mut theirs).await.context("the other end closed the connection before a word")?;
    if !first {
        to.write_all(ours).await?;
    }
    match (&theirs, key.is_some()) {
        (CLEAR, true) => bail!("this end has a --key and the other has none"),
        (SEALED, false) => bail!("the other end wants a --key"),
        (CLEAR | SEALED, _) => {}
        _ => bail!("the other end is no lowtide"),
    }
    let noise = match key {
        Some(key) => Some(Arc::new(handshake(&mut from, &mut to, key, first).await?)),
        None => None,
    };
    let writer = Writer { to, noise: noise.clone(), sent: 0, frame: Vec::new(), sealed: Vec::new() };
    Ok((Reader { from, noise, received: 0, frame: Vec::new(), whole: false, opened: Vec::new(), text: Vec::new() }, writer))
}

async fn handshake<S: AsyncRead + AsyncWrite>(
    from: &mut ReadHalf<S>,
    to: &mut WriteHalf<S>,
    key: &Key,
    first: bool,
) -> Result<StatelessTransportState> {
    const DIFFER: &str = "the two ends have different keys";
    let builder = snow::Builder::new(NOISE.parse()?).psk(0, &key.0)?;
    let mut state = if first { builder.build_initiator()? } else { builder.build_responder()? };
    let mut buffer = vec![0; 1024];
    for turn in [first, !first] {
        if turn {
            let len = state.write_message(&[], &mut buffer)?;
            to.write_u16(len as u16).await?;
            to.write_all(&buffer[..len]).await?;
        } else {
            let len = usize::from(from.read_u16().await.context(DIFFER)?);
            ensure!(len <= buffer.len(), "the other end's handshake has {len} bytes");
            let mut message = vec![0; len];
            from.read_exact(&mut message).await.context(DIFFER)?;
            state.read_message(&message, &mut buffer).context(DIFFER)?;
        }
    }
    Ok(state.into_stateless_transport_mode()?)
}

impl<S: AsyncRead + AsyncWrite> Writer<S> {
    /// Sends bytes, at most [`MOST`].
    pub async fn bytes(&mut self, bytes: &[u8]) -> Result<()> {
        self.frame(b'b', bytes).await
    }

    /// Sends a message.
    pub async fn message(&mut self, message: &Message) -> Result<()> {
        let text = serde_json::to_vec(message)?;
        ensure!(
            text.len() < MOST_MESSAGE,
            "the names of the files take more than 16 MiB; send fewer at a time, or an archive: tar c … | lowtide utp send -"
        );
        // An offer of many files is longer than a frame.
        let mut parts = text.chunks(MOST).peekable();
        while let Some(part) = parts.next() {
            self.frame(if parts.peek().is_some() { b'+' } else { b'm' }, part).await?;
        }
        Ok(())
    }

    /// Says that no more will come, and waits until everything has arrived.
    pub async fn end(&mut self) -> Result<()> {
        self.frame(b'e', &[]).await?;
        Ok(self.to.shutdown().await?)
    }

    /// The same, but waits for a second at most: the other end may have what it wants and be gone.
    pub async fn end_soon(&mut self) {
        // There is nobody to be told.
        let _ = tokio::time::timeout(SOON, self.end()).await;
    }

    /// Says why it ends here, if the other end still takes it.
    pub async fn fail(&mut self, why: String) {
        let words = async {
            self.message(&Message::Error(why)).await?;
            self.end().await
        };
        // There is nobody to be told.
        let _ = tokio::time::timeout(SOON, words).await;
    }

    async fn frame(&mut self, kind: u8, contents: &[u8]) -> Result<()> {
        self.frame.clear();
        match &self.noise {
            None => {
                self.frame.extend((contents.len() as u16 + 1).to_be_bytes());
                self.frame.push(kind);
                self.frame.extend(contents);
            }
            Some(noise) => {
                self.sealed.clear();
                self.sealed.push(kind);
                self.sealed.extend(contents);
                self.frame.resize(2 + self.sealed.len() + TAG, 0);
                let len = noise.write_message(self.sent, &self.sealed, &mut self.frame[2..])?;
                self.frame[..2].copy_from_slice(&(len as u16).to_be_bytes());
                self.sent += 1;
            }
        }
        Ok(self.to.write_all(&self.frame).await?)
    }
}

impl<S: AsyncRead + AsyncWrite> Reader<S> {
    /// The next frame. A future that is dropped has taken nothing: what has come of the frame is kept.
    ///
    /// # Errors
    /// The connection failed or was cut off, or somebody altered what was sent.
    pub async fn frame(&mut self) -> Result<Frame<'_>> {
        loop {
            self.next().await?;
            let contents = if self.noise.is_some() { &self.opened } else { &self.frame[2..] };
            let (&kind, contents) = contents.split_first().context("a frame of the other end is empty")?;
            match kind {
                // As a new borrow: one that leaves the loop would last for all of it.
                b'b' => return Ok(Frame::Bytes(if self.noise.is_some() { &self.opened[1..] } else { &self.frame[3..] })),
                b'e' => return Ok(Frame::End),
                b'm' if self.text.is_empty() => return Ok(Frame::Message(serde_json::from_slice(contents)?)),
                b'm' | b'+' => {
                    self.text.extend(contents);
                    ensure!(self.text.len() < MOST_MESSAGE, "a message of the other end has more than 16 MiB");
                    if kind == b'm' {
                        return Ok(Frame::Message(serde_json::from_slice(&std::mem::take(&mut self.text))?));
                    }
                }
                kind => bail!("the other end sent a frame of kind {kind}, which this lowtide does not know"),
            }
        }
    }

    /// Waits for a frame, opened if there is a key.
    async fn next(&mut self) -> Result<()> {
        if std::mem::take(&mut self.whole) {
            self.frame.clear();
        }
        self.fill(2).await?;
        let len = usize::from(u16::from_be_bytes([self.frame[0], self.frame[1]]));
        self.fill(2 + len).await?;
        self.whole = true;
        if let Some(noise) = &self.noise {
            self.opened.resize(len, 0);
            let len = noise.read_message(self.received, &self.frame[2..], &mut self.opened).context("a frame was altered on the way")?;
            self.opened.truncate(len);
            self.received += 1;
        }
        Ok(())
    }

    /// Waits until so many bytes of a frame have come.
    async fn fill(&mut self, bytes: usize) -> Result<()> {
        const CUT: &str = "the connection was cut off";
        self.frame.reserve(bytes.saturating_sub(self.frame.len()));
        while self.frame.len() < bytes {
            let left = (bytes - self.frame.len()) as u64;
            ensure!((&mut self.from).take(left).read_buf(&mut self.frame).await.context(CUT)? > 0, CUT);
        }
        Ok(())
    }

    /// The stream that both halves are of.
    pub fn reunite(self, writer: Writer<S>) -> S
    where
        S: Unpin,
    {
        self.from.unsplit(writer.to)
    }

    /// Waits for the other end's last word, for a second at most.
    pub async fn end_soon(&mut self) {
        // Nothing is expected of it any more.
        let _ = tokio::time::timeout(SOON, self.frame()).await;
    }

    /// The next frame, which is a message. A future that is dropped has taken nothing.
    ///
    /// # Errors
    /// It is none; or what the other end complains of.
    pub async fn message(&mut self) -> Result<Message> {
        match self.frame().await? {
            Frame::Message(Message::Error(why)) => bail!("the other end: {}", printable(&why)),
            Frame::Message(message) => Ok(message),
            Frame::Bytes(_) | Frame::End => bail!("the other end sent something else than a message"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(byte: u8) -> Key {
        Key([byte; 32])
    }

    async fn both(a: Option<Key>, b: Option<Key>) -> [Result<(), String>; 2] {
        let (one, two) = tokio::io::duplex(1 << 20);
        let talk = |stream, key: Option<Key>, first| async move {
            let (mut reader, mut writer) = open(stream, key.as_ref(), first).await?;
            writer.bytes(&[7; MOST]).await?;
            writer.message(&Message::Error("x".repeat(3 * MOST))).await?;
            writer.end().await?;
            ensure!(matches!(reader.frame().await?, Frame::Bytes(bytes) if bytes == [7; MOST]));
            ensure!(matches!(reader.frame().await?, Frame::Message(Message::Error(text)) if text.len() == 3 * MOST));
            ensure!(matches!(reader.frame().await?, Frame::End));
            anyhow::Ok(())
        };
        let (a, b) = tokio::join!(talk(one, a, true), talk(two, b, false));
        [a, b].map(|end| end.map_err(|e| format!("{e:#}")))
    }

    #[tokio::test]
    async fn frames_pass_in_the_clear_and_under_a_key() {
        assert_eq!(both(None, None).await, [Ok(()), Ok(())]);
        assert_eq!(both(Some(key(1)), Some(key(1))).await, [Ok(()), Ok(())]);
    }

    #[tokio::test]
    async fn ends_that_do_not_agree_say_so() {
        let [a, b] = both(Some(key(1)), None).await;
        assert!(a.as_ref().is_err_and(|e| e.contains("the other has none")) && b.as_ref().is_err_and(|e| e.contains("wants a --key")));
        for end in both(Some(key(1)), Some(key(2))).await {
            assert!(end.as_ref().is_err_and(|e| e.contains("different keys")), "{end:?}");
        }
    }

    /// Who sends a file listens for a complaint meanwhile, and drops that future with each file's end.
    #[tokio::test]
    async fn a_wait_for_a_message_that_is_dropped_loses_nothing() {
        for key in [None, Some(key(4))] {
            let (one, middle) = tokio::io::duplex(1 << 20);
            let (relay, two) = tokio::io::duplex(1 << 20);
            let (mut from_one, mut to_one) = tokio::io::split(middle);
            let (mut from_two, mut to_two) = tokio::io::split(relay);
            tokio::spawn(async move { tokio::io::copy(&mut from_two, &mut to_one).await });
            // What one says comes byte by byte.
            tokio::spawn(async move {
                while let Ok(byte) = from_one.read_u8().await {
                    to_two.write_u8(byte).await.expect("room");
                    tokio::task::yield_now().await;
                }
            });
            let (a, b) = tokio::join!(open(one, key.as_ref(), true), open(two, key.as_ref(), false));
            let ((_, mut writer), (mut reader, _)) = (a.expect("open"), b.expect("open"));
            let long = "x".repeat(2 * MOST);
            writer.message(&Message::Begin(7)).await.expect("sent");
            writer.message(&Message::Error(long.clone())).await.expect("sent");
            for expected in [Message::Begin(7), Message::Error(long)] {
                let mut dropped = 0;
                let came = loop {
                    tokio::select! {
                        biased;
                        frame = reader.frame() => break frame.expect("whole"),
                        () = tokio::task::yield_now() => dropped += 1,
                    }
                    // Bytes that were lost are waited for for ever.
                    assert!(dropped < 10_000_000, "{expected:?} does not come");
                };
                assert!(matches!(came, Frame::Message(message) if message == expected) && dropped > 2, "dropped {dropped} times");
            }
        }
    }

    /// A BitTorrent client, say, takes the connection, and answers that it is there for ever.
    #[tokio::test]
    async fn a_peer_that_says_nothing_is_given_up() {
        for (key, first) in [(None, true), (Some(key(1)), false)] {
            let (one, _silent) = tokio::io::duplex(1 << 10);
            let opened = open_within(Duration::from_millis(50), one, key.as_ref(), first).await;
            let error = opened.err().expect("nobody spoke").to_string();
            assert!(error.contains("said nothing"), "{error}");
        }
    }

    #[test]
    fn a_key_that_never_ends_is_refused() {
        let error = Key::read(Path::new("/dev/urandom")).err().expect("no key").to_string();
        assert!(error.contains("/dev/urandom") && error.contains("more than"), "{error}");
    }

    /// One bit of a sealed frame changed on the way, or the connection cut behind a whole frame.
    #[tokio::test]
    async fn what_was_altered_or_cut_off_is_noticed() {
        let (one, middle) = tokio::io::duplex(1 << 20);
        let (relay, two) = tokio::io::duplex(1 << 20);
        let ((mut from_one, mut to_one), (mut from_two, mut to_two)) = (tokio::io::split(middle), tokio::io::split(relay));
        tokio::spawn(async move { tokio::io::copy(&mut from_two, &mut to_one).await });
        tokio::spawn(async move {
            let mut bytes = vec![0; 1 << 16];
            let mut passed = 0;
            while let Ok(n @ 1..) = from_one.read(&mut bytes).await {
                // Behind the handshake of 8 + 2 + 48 bytes, and the first frame of 2 + 1 + 3 + 16.
                if (passed..passed + n).contains(&90) {
                    bytes[90 - passed] ^= 1;
                }
                to_two.write_all(&bytes[..n]).await.expect("room");
                passed += n;
            }
        });
        let key = key(3);
        let (a, b) = tokio::join!(open(one, Some(&key), true), open(two, Some(&key), false));
        let ((_, mut writer), (mut reader, _)) = (a.expect("open"), b.expect("open"));
        writer.bytes(b"one").await.expect("sent");
        writer.bytes(b"two and more").await.expect("sent");
        assert!(matches!(reader.frame().await.expect("whole"), Frame::Bytes(b"one")));
        let error = reader.frame().await.expect_err("altered");
        assert!(format!("{error:#}").contains("altered"), "{error:#}");
    }
}
