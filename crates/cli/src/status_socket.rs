//! What a running `lowtide run` tells `status` and `top`: one JSON text for each who connects to its socket. Knows neither
//! BPF nor how it is drawn.

use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, process};

use anyhow::Context;
use lowtide_kernel::LeftAlone;
use nix::unistd::Uid;
use serde::{Deserialize, Serialize};

/// Where root's sockets are: `<pid>.sock`, for root alone.
const ROOTS: &str = "/run/lowtide";

/// Where this user's are. A run with capabilities but not as root (`setcap`) has its own place, which is nobody else's.
pub fn folder() -> PathBuf {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").filter(|d| !d.is_empty());
    match (Uid::effective().is_root(), runtime) {
        (true, _) => PathBuf::from(ROOTS),
        (false, Some(runtime)) => Path::new(&runtime).join("lowtide"),
        (false, None) => PathBuf::from(format!("/run/user/{}/lowtide", Uid::effective())),
    }
}

/// Nobody may hold up the run by connecting and not reading; nobody waits longer for a run that is stopped.
const PATIENCE: Duration = Duration::from_millis(200);

/// One run and what it manages. Fields are only ever added.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Group {
    /// `--name`, else the command's.
    pub name: String,
    /// The process of `lowtide run`.
    pub pid: u32,
    /// What is managed: the command line, or the cgroup that was named.
    pub what: String,
    /// The cgroup's path.
    pub cgroup: String,
    /// The delay of `--target`, or the control whose source says it.
    pub target: String,
    /// The control of what is received.
    #[serde(default)]
    pub receives_by: String,
    /// The control of what is sent.
    #[serde(default)]
    pub sends_by: String,
    /// Since the start.
    pub running_s: f64,
    /// Bytes of TCP payload received since the start.
    pub bytes: u64,
    /// The receiving rate of the whole group since the last look.
    pub rate_bps: u64,
    /// Summed over paths: the delay was above the target and the window gave way.
    pub yielded_s: f64,
    /// The mean queueing delay of all samples.
    pub added_delay_ms: Option<f64>,
    /// Connections that do not yield, or did not for a time; `left_alone` says why.
    pub connections_left_alone: u64,
    #[serde(default)]
    pub left_alone: LeftAlone,
    /// Why what it receives is not held back.
    #[serde(default)]
    pub not_held_back: Option<String>,
    /// What is not done, and why: the kernel refuses a program that the rest works without.
    #[serde(default)]
    pub lacking: Vec<String>,
    /// Why what connections receive that were open when their process joined (`--pid`) is not held back.
    #[serde(default)]
    pub open_before_not_held_back: Option<String>,
    /// Acknowledgements that left with a smaller window than the kernel's.
    #[serde(default)]
    pub acks_lowered: u64,
    /// Packets of managed connections, received and sent, that could not be read and passed as they were.
    #[serde(default)]
    pub packets_unparsed: u64,
    /// Interfaces, of all network namespaces the group uses, whose outgoing packets are seen to.
    #[serde(default)]
    pub interfaces: usize,
    /// What it sends.
    #[serde(default)]
    pub sending: Sending,
    pub flows: Vec<Flow>,
}

impl Group {
    /// What yields by which control, and at which delay it aims if one was given.
    pub fn controls(&self) -> String {
        // The two may differ by a burst's time, which a receiver alone keeps free: one name says both.
        let one = !self.sends_by.is_empty() && self.receives_by.starts_with(&self.sends_by);
        let by =
            if one { format!("by {}", self.receives_by) } else { format!("receives by {}, sends by {}", self.receives_by, self.sends_by) };
        if self.target.ends_with("ms") { format!("{by}, target {}", self.target) } else { by }
    }
}

/// What a group sends, as one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Sending {
    /// The congestion control that its connections have; none where the kernel does not hold uploads back.
    pub control: Option<String>,
    /// Why it does not.
    pub not_held_back: Option<String>,
    /// Bytes of TCP payload acknowledged since the start.
    pub bytes: u64,
    /// The rate since the last look.
    pub rate_bps: u64,
    /// Summed over paths: the delay was above the target and the window gave way.
    pub yielded_s: f64,
    /// The mean queueing delay of all samples.
    pub added_delay_ms: Option<f64>,
    pub connections: u64,
    pub retransmissions: u64,
    pub losses: u64,
    pub slowdowns: u64,
    /// Reductions that were taken back because nothing had been lost.
    pub undone: u64,
    /// Times that a program asked for a congestion control of its own.
    pub controls_refused: u64,
    /// Connections that could not be given the control.
    pub connections_left_alone: u64,
    /// Connections that were open when their process joined (`--pid`).
    pub connections_open_before: u64,
    /// Why what they send is not held back.
    pub open_before_not_held_back: Option<String>,
}

/// A request beside a download is no upload, nor is a reply beside an upload a download: less than one part in so many of the
/// other direction's bytes is not told of.
pub const WORTH_TELLING: u64 = 20;

/// Which way a connection's bytes go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    #[default]
    Down,
    Up,
}

/// One direction of a connection: one that carries much both ways is listed twice.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Flow {
    /// The same for as long as the connection lives, in each direction another.
    pub id: u64,
    #[serde(default)]
    pub direction: Direction,
    pub local: String,
    pub remote: String,
    pub bytes: u64,
    pub rate_bps: u64,
    pub base_rtt_ms: Option<f64>,
    pub rtt_ms: Option<f64>,
    pub queueing_delay_ms: Option<f64>,
    /// Its part of the window of its path.
    pub window_bytes: u64,
    /// What all flows of its path may have in flight, and how many they are.
    pub path_window_bytes: u64,
    pub path_flows: u32,
    /// The state of the path's control.
    pub phase: String,
    pub retransmissions: u64,
    pub slowdowns: u64,
    /// How the delay is measured: `timestamps` or `edge` by the receiver, `sender` by the sender.
    pub mode: String,
    /// Its latest segments left where lowtide does not see or cannot read them: it does not yield.
    #[serde(default)]
    pub unseen: bool,
    pub idle_s: f64,
    pub age_s: f64,
}

impl Flow {
    /// The state of its path's control, or that it does not yield.
    pub fn state(&self) -> &str {
        if self.unseen { "NOT YIELDING" } else { &self.phase }
    }
}

/// The socket of this process; the file goes with it.
pub struct Server {
    listener: UnixListener,
    path: PathBuf,
}

impl Server {
    /// Opens `<pid>.sock` in `folder`.
    pub fn open(folder: &Path) -> anyhow::Result<Server> {
        let path = folder.join(format!("{}.sock", process::id()));
        let open = || -> io::Result<UnixListener> {
            fs::DirBuilder::new().recursive(true).mode(0o755).create(folder)?;
            remove(&path)?; // of an earlier process with this number
            let listener = UnixListener::bind(&path)?;
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600))?;
            listener.set_nonblocking(true)?;
            Ok(listener)
        };
        let listener = open().with_context(|| {
            format!("cannot open the socket {} for `lowtide status` (not root? XDG_RUNTIME_DIR names a folder of yours)", path.display())
        })?;
        Ok(Server { listener, path })
    }

    /// Answers all who are waiting. One who does not read is dropped, and the run goes on.
    pub fn answer(&self, group: impl FnOnce() -> Group) -> anyhow::Result<()> {
        let Ok((first, _)) = self.listener.accept() else { return Ok(()) };
        let text = serde_json::to_vec(&group())?;
        let mut next = Some(first);
        while let Some(mut peer) = next {
            let _ = peer.set_write_timeout(Some(PATIENCE)).and_then(|()| peer.write_all(&text));
            next = self.listener.accept().ok().map(|(peer, _)| peer);
        }
        Ok(())
    }
}

impl AsFd for Server {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = remove(&self.path); // at the latest, the next reader finds it stale
    }
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// Removes the sockets of runs that were killed. Only tidiness: a reader would do the same.
pub fn remove_leftovers(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        remove_if_dead(&entry.path());
    }
}

/// Removes a socket whose process is gone. One that lives may be between bind and listen.
fn remove_if_dead(path: &Path) {
    let pid = path.file_stem().and_then(|s| s.to_str()).filter(|s| s.parse::<u32>().is_ok());
    if pid.is_some_and(|pid| !Path::new("/proc").join(pid).exists()) {
        let _ = remove(path);
    }
}

/// Every run that this user may see, by pid. Sockets of runs that are gone are removed.
///
/// # Errors
/// There are only root's and this user is not root, or a run answers what is not its JSON.
pub fn read() -> anyhow::Result<Vec<Group>> {
    let own = folder();
    let groups = read_all(&own)?;
    if groups.is_empty() && own != Path::new(ROOTS) {
        return read_all(Path::new(ROOTS));
    }
    Ok(groups)
}

/// Every run whose socket is in `folder`.
fn read_all(folder: &Path) -> anyhow::Result<Vec<Group>> {
    let entries = match fs::read_dir(folder) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        other => other.with_context(|| format!("cannot look into {}", folder.display()))?,
    };
    let mut groups = Vec::new();
    for entry in entries {
        let path = entry?.path();
        if path.extension().is_some_and(|e| e == "sock") {
            groups.extend(read_one(&path)?);
        }
    }
    groups.sort_by_key(|g: &Group| g.pid);
    Ok(groups)
}

fn read_one(path: &Path) -> anyhow::Result<Option<Group>> {
    let mut text = Vec::new();
    let mut read = || -> io::Result<()> {
        let mut peer = UnixStream::connect(path)?;
        peer.set_read_timeout(Some(PATIENCE))?;
        peer.read_to_end(&mut text).map(drop)
    };
    match read() {
        Ok(()) if text.is_empty() => Ok(None), // it ended while it was asked
        Ok(()) => Ok(Some(serde_json::from_slice(&text).with_context(|| format!("{} speaks another version", path.display()))?)),
        Err(e) => match e.kind() {
            ErrorKind::ConnectionRefused => {
                remove_if_dead(path);
                Ok(None)
            }
            // It has just ended, or it is stopped (Ctrl-Z) and cannot answer.
            ErrorKind::NotFound | ErrorKind::WouldBlock | ErrorKind::ConnectionReset => Ok(None),
            ErrorKind::PermissionDenied => anyhow::bail!("{} is root's: ask with sudo", path.display()),
            _ => Err(e).with_context(|| format!("cannot ask {}", path.display())),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    fn group() -> Group {
        Group { name: "backup".into(), pid: process::id(), flows: vec![Flow::default(); 2000], ..Group::default() }
    }

    #[test]
    fn what_a_run_tells_is_what_a_reader_gets_and_nothing_stays_behind() {
        let folder = tempfile::tempdir().expect("a folder");
        let server = Server::open(folder.path()).expect("it opens");
        let path = folder.path().to_owned();
        // On a machine that is busy the answer may come later than a reader's patience: it asks again, as `top` does.
        let ask = move || (0..50).map(|_| read_all(&path)).find(|read| !matches!(read, Ok(groups) if groups.is_empty()));
        let reader = thread::spawn(move || ask().expect("an answer in fifty questions"));
        while !reader.is_finished() {
            server.answer(group).expect("it answers");
            thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(reader.join().expect("no panic").expect("read"), [group()]);
        drop(server);
        assert_eq!(fs::read_dir(folder.path()).expect("still there").count(), 0);
    }

    #[test]
    fn a_socket_that_nobody_listens_on_is_removed() {
        let folder = tempfile::tempdir().expect("a folder");
        let stale = folder.path().join("4194305.sock"); // one more than the largest pid (proc(5))
        drop(UnixListener::bind(&stale).expect("it binds")); // as kill -9 leaves it: the file stays
        assert!(stale.exists());
        assert_eq!(read_all(folder.path()).expect("it is no failure"), []);
        assert!(!stale.exists());
    }

    #[test]
    fn a_reader_who_never_reads_does_not_hold_up_the_run() {
        let folder = tempfile::tempdir().expect("a folder");
        let server = Server::open(folder.path()).expect("it opens");
        let path = folder.path().join(format!("{}.sock", process::id()));
        let mut idle = UnixStream::connect(&path).expect("it connects"); // 2000 flows do not fit its buffer
        server.answer(group).expect("the run goes on");
        // It gave up on that one, and is there for the next.
        let (whole, mut got) = (serde_json::to_vec(&group()).expect("JSON"), Vec::new());
        idle.read_to_end(&mut got).expect("the end, not a wait");
        assert!(!got.is_empty() && got.len() < whole.len() && whole.starts_with(&got), "{} of {} bytes", got.len(), whole.len());
        let reader = thread::spawn({
            let folder = folder.path().to_owned();
            move || (0..50).map(|_| read_all(&folder)).find(|read| !matches!(read, Ok(groups) if groups.is_empty()))
        });
        while !reader.is_finished() {
            server.answer(group).expect("it answers");
            thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(reader.join().expect("no panic").expect("in fifty questions").expect("read"), [group()]);
    }
}
