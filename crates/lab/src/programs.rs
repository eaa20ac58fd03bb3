//! One job's programs: started inside the client's namespace, watched, and ended when their time is over. Knows the
//! programs' command lines; does not know what is measured on the line.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use lowtide_units::{Span, Time};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::clock;
use crate::netns::Namespace;
use crate::plan::{Job, Work};
use crate::server::Server;
use crate::site::SERVER;

/// How long after its time a program that ends by itself (`--max-time`, `-t`) is asked to.
const OVERTIME: Span = Span::from_secs(3);
/// How long a program that was asked to end may take.
const PATIENCE: Span = Span::from_secs(5);
/// How often a program is looked at.
const LOOK: Duration = Duration::from_millis(5);
/// `lowtide run` loads programs into the kernel before it starts one: a flow that shall begin on time is prepared this long before.
pub const AHEAD: Span = Span::from_millis(1500);
/// Starts a program once nobody holds the shell's input open.
const GATE: &str = "read -r go; exec \"$0\" \"$@\" < /dev/null";
/// curl's exit code when `--max-time` ended it: the end of every endless fetch.
const CURL_TIMED_OUT: i32 = 28;

/// Where and with what programs run.
#[derive(Clone, Copy, Debug)]
pub struct Ground<'a> {
    /// The client's namespace.
    pub client: &'a Namespace,
    /// The server's namespace.
    pub server: &'a Namespace,
    /// The executable that `run` is a subcommand of.
    pub lowtide: Option<&'a Path>,
    /// Where `lowtide run --json` writes.
    pub folder: &'a Path,
    /// The scenario's zero.
    pub zero: Time,
    /// Ends everything early.
    pub stop: &'a AtomicBool,
}

/// A finite transfer, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Transfer {
    /// When it began, by the scenario's clock.
    pub began: f64,
    /// How long it took, if it was complete at the end.
    pub took: Option<f64>,
}

/// What a job's programs said.
#[derive(Clone, Debug, Default)]
pub struct Said {
    /// Each finite transfer.
    pub transfers: Vec<Transfer>,
    /// iperf3's own report.
    pub iperf: Option<serde_json::Value>,
    /// `lowtide run`'s own report.
    pub lowtide: Option<serde_json::Value>,
}

impl Ground<'_> {
    /// Runs a job from its start to its end.
    pub fn run(&self, job: &Job, server: Option<&Server>) -> Result<Said> {
        let mut said = Said::default();
        let end = self.at(job.runs.end);
        match (job.work, server) {
            (Work::Curl { bytes, every, .. }, Some(server)) => self.transfers(job, server, bytes, every, end, &mut said)?,
            (Work::Iperf { up }, _) => said.iperf = self.iperf(job, up, self.at(job.runs.start), end)?,
            _ => bail!("flow `{}` has no program", job.name),
        }
        if let Ok(text) = fs::read(self.report(job)) {
            said.lowtide = serde_json::from_slice(&text).ok();
        }
        Ok(said)
    }

    fn at(&self, seconds: f64) -> Time {
        self.zero + Span::from_secs_f64(seconds)
    }

    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn sleep_until(&self, until: Time) {
        while !self.stopped() && clock::now() < until {
            sleep(Duration::from_nanos(until.since(clock::now()).nanos().min(20_000_000)));
        }
    }

    /// Sleeps until it is time to prepare a program that begins at `due`.
    fn sleep_before(&self, job: &Job, due: Time) {
        self.sleep_until(if self.is_managed(job) { due - AHEAD } else { due });
    }

    fn is_managed(&self, job: &Job) -> bool {
        self.lowtide.is_some() && job.managed.is_some()
    }

    fn report(&self, job: &Job) -> PathBuf {
        self.folder.join(format!("{}.lowtide.json", job.name))
    }

    fn transfers(&self, job: &Job, server: &Server, bytes: u64, every: Option<f64>, end: Time, said: &mut Said) -> Result<()> {
        let mut start = job.runs.start;
        loop {
            self.sleep_before(job, self.at(start));
            if self.stopped() || clock::now() >= end {
                return Ok(());
            }
            let began = clock::now().max(self.at(start));
            let output = self.curl(job, server, bytes, began, end)?;
            if !job.endless() {
                let began = began.since(self.zero).secs_f64();
                let took = output.lines().filter_map(|line| line.parse().ok()).map(Some);
                let all = took.chain(std::iter::repeat(None)).take(job.flow.lab.connections.max(1) as usize);
                said.transfers.extend(all.map(|took| Transfer { began, took }));
            }
            let Some(every) = every else { return Ok(()) };
            // A transfer longer than the beat takes the place of those it covers.
            while self.at(start) <= clock::now() {
                start += every;
            }
        }
    }

    fn curl(&self, job: &Job, server: &Server, bytes: u64, due: Time, end: Time) -> Result<String> {
        let mut command = self.command(job, "curl");
        let left = end.since(due).secs_f64();
        command.args(["--silent", "--show-error", "--noproxy", "*", "--write-out", "%{time_total}\\n"]);
        command.args(["--max-time", &format!("{left:.3}")]);
        let connections = job.flow.lab.connections.max(1);
        if connections > 1 {
            command.args(["--parallel", "--parallel-immediate", "--parallel-max", &connections.to_string()]);
        }
        let sent = if job.is_upload() { Some(self.file_of(bytes)?) } else { None };
        for _ in 0..connections {
            match &sent {
                Some(file) => command.arg("--upload-file").arg(file),
                None => &mut command,
            };
            command.args(["--output", "/dev/null", &server.url(bytes)]);
        }
        let last = self.watch(command, self.is_managed(job).then_some(due), end + OVERTIME)?;
        let cut_off = last.was_asked || last.code == Some(CURL_TIMED_OUT);
        ensure!(last.code == Some(0) || cut_off, "flow `{}`: curl ended with {:?}: {}", job.name, last.code, last.errors.trim());
        // What the end of the run cut off has not arrived, however long curl says it took.
        Ok(if last.code == Some(0) { last.output } else { String::new() })
    }

    /// A sparse file of so many zeros.
    fn file_of(&self, bytes: u64) -> Result<PathBuf> {
        let path = self.folder.join(format!("{bytes}-bytes"));
        let made = File::create(&path).and_then(|file| file.set_len(bytes));
        made.with_context(|| format!("{}: a file of {bytes} bytes to send cannot be made", path.display()))?;
        Ok(path)
    }

    fn iperf(&self, job: &Job, up: bool, due: Time, end: Time) -> Result<Option<serde_json::Value>> {
        self.sleep_before(job, due);
        let port = job.port.to_string();
        let mut server = match (self.lowtide, &job.managed) {
            (Some(lowtide), Some(options)) if job.flow.lab.lowtide_server => {
                let mut command = Command::new(lowtide);
                command.args(["run", "--quiet"]).args(options).args(["--", "iperf3"]);
                command
            }
            _ => Command::new("iperf3"),
        };
        server.args(["-s", "-1", "-p", &port]).stdout(Stdio::null()).stderr(Stdio::null());
        let server = Guard(self.server.place(&mut server).spawn().context("starting iperf3 (apt install iperf3)")?);
        sleep(Duration::from_millis(100));
        let seconds = end.since(clock::now().max(due)).secs_f64().ceil().max(1.0);
        let mut command = self.command(job, "iperf3");
        command.args(["-J", "-i", "0.5", "-c", &SERVER.to_string(), "-p", &port, "-C", &job.cc, "-t", &format!("{seconds}")]);
        command.args(["-P", &job.flow.lab.connections.max(1).to_string()]);
        if !up {
            command.arg("-R");
        }
        let result = self.watch(command, self.is_managed(job).then_some(due), end + OVERTIME);
        server.end();
        let last = result?;
        let report: Option<serde_json::Value> = serde_json::from_str(&last.output).ok();
        let complaint = report.as_ref().and_then(|r| r["error"].as_str()).unwrap_or(last.errors.trim()).to_owned();
        // Its farewell crosses the line, and its time is over then: a report that was cut off says all that there is.
        let cut_off = last.was_asked && report.is_some();
        ensure!(last.code == Some(0) || cut_off || self.stopped(), "flow `{}`: iperf3 ended with {:?}: {complaint}", job.name, last.code);
        Ok(report)
    }

    /// `program`, under `lowtide run` and behind a gate where the scenario wants it managed.
    fn command(&self, job: &Job, program: &str) -> Command {
        match (self.lowtide, &job.managed) {
            (Some(lowtide), Some(options)) => {
                let mut command = Command::new(lowtide);
                let report = OsString::from(self.report(job));
                command
                    .args(["run", "--quiet"])
                    .args(options)
                    .args(["--name", &job.name, "--json"])
                    .arg(report)
                    .args(["--", "sh", "-c", GATE, program]);
                command
            }
            _ => Command::new(program),
        }
    }

    /// Starts a program, opens its gate at `gate`, and sees it end, by itself or because its time is over.
    fn watch(&self, mut command: Command, gate: Option<Time>, end: Time) -> Result<Ended> {
        command.stdin(if gate.is_some() { Stdio::piped() } else { Stdio::null() }).stdout(Stdio::piped()).stderr(Stdio::piped());
        let name = command.get_program().to_string_lossy().into_owned();
        let mut child = Guard(self.client.place(&mut command).spawn().with_context(|| format!("starting {name}: is it installed?"))?);
        let readers = (drain(child.0.stdout.take()), drain(child.0.stderr.take()));
        let mut asked = None;
        let status = loop {
            if let Some(status) = child.0.try_wait().with_context(|| format!("waiting for {name}"))? {
                break status;
            }
            let now = clock::now();
            if gate.is_none_or(|due| now >= due) {
                drop(child.0.stdin.take());
            }
            match asked {
                None if self.stopped() || now >= end => {
                    let _ = kill(Pid::from_raw(child.0.id() as i32), Signal::SIGTERM);
                    asked = Some(now);
                }
                Some(since) if now.since(since) > PATIENCE => {
                    let _ = child.0.kill();
                }
                _ => {}
            }
            sleep(LOOK);
        };
        let read = |reader: Option<std::thread::JoinHandle<String>>| reader.and_then(|r| r.join().ok()).unwrap_or_default();
        Ok(Ended { code: status.code(), was_asked: asked.is_some(), output: read(readers.0), errors: read(readers.1) })
    }
}

/// How a program ended and what it said.
struct Ended {
    /// None if a signal ended it.
    code: Option<i32>,
    /// Whether it was sent SIGTERM, because its time was over or the run was.
    was_asked: bool,
    output: String,
    errors: String,
}

/// A child that does not outlive the function that started it.
struct Guard(Child);

impl Guard {
    /// Asks it to end, and lets it. Not SIGKILL at once: `lowtide run` would leave behind what it runs.
    fn end(mut self) {
        let asked = clock::now();
        let _gone = kill(Pid::from_raw(self.0.id() as i32), Signal::SIGTERM);
        while matches!(self.0.try_wait(), Ok(None)) && clock::now().since(asked) < PATIENCE {
            sleep(LOOK);
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Reads a pipe to its end, so that its writer never waits.
fn drain(pipe: Option<impl Read + Send + 'static>) -> Option<std::thread::JoinHandle<String>> {
    pipe.map(|mut pipe| {
        std::thread::spawn(move || {
            let mut text = String::new();
            let _ = pipe.read_to_string(&mut text);
            text
        })
    })
}
