//! What the tests of uploads stand on: a line, a server that keeps what it is sent, a call and page loads, and a command under
//! `lowtide run` beside them. Knows no program that uploads.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use lowtide_lab::clock;
use lowtide_lab::netns::Namespace;
use lowtide_lab::probe::{CALL, Call, Reflector};
use lowtide_lab::server::Server;
use lowtide_lab::site::{SERVER, Site};
use lowtide_net::ImpairConfig;
use lowtide_units::{Span, statistics};
use nix::sys::socket::{Backlog, listen};
use serde_json::Value;
use tempfile::TempDir;

use crate::common::lowtide;
use crate::line::{self, wait};

/// The longest that anything takes.
const PATIENCE: Span = Span::from_millis(60_000);
const PAGES: u16 = 5001;
const REFLECTOR: u16 = 5002;

/// A line, and a folder for what goes over it.
pub struct Ground {
    pub site: Site,
    pub folder: TempDir,
}

impl Ground {
    /// 20 Mbit/s, 20 ms and half a second of buffer each way.
    pub fn new() -> Ground {
        let now = clock::now();
        let site = line::site(ImpairConfig::default(), ImpairConfig::default(), now..now + PATIENCE);
        Ground { site, folder: tempfile::tempdir().expect("a folder") }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A file of bytes that do not compress; another for each name and length.
    pub fn file(&self, name: &str, bytes: usize) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().expect("it lies in the folder")).expect("a folder");
        fs::write(&path, noise(name.len() as u64 + bytes as u64, bytes)).expect("a file");
        path
    }

    /// A server in the server's namespace that answers on `port`, gone when dropped.
    pub fn serve(&self, command: &mut Command, port: u16) -> Daemon {
        let child = self.site.server.place(command.stdin(Stdio::null()).stdout(Stdio::null())).spawn();
        let daemon = Daemon(child.unwrap_or_else(|e| panic!("{command:?}: {e}")));
        wait(&format!("{command:?}"), || self.site.client.enter(|| Ok(TcpStream::connect((SERVER, port))?)).is_ok());
        daemon
    }

    /// Runs `command` under lowtide beside a call and page loads: it succeeds, and at least `bytes` of it were sent by the group's
    /// control. What `--json` says.
    pub fn upload(&self, command: &[&str], settings: &[(&str, &str)], bytes: u64) -> Value {
        let others = Others::start(&self.site);
        let json = self.path("run.json");
        let mut run = lowtide(&["run", "--quiet", "--json", &json.display().to_string(), "--"]);
        // A machine's own certificates are nothing to these servers, and rclone refuses them for S3.
        run.args(command).env_remove("AWS_CA_BUNDLE").envs(settings.iter().copied()).stdout(Stdio::null());
        let output = self.site.client.place(&mut run).output().expect("it starts");
        let (late, pages) = others.end();
        assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
        let said = report(&json);
        eprintln!("{}: {pages} pages, call late by p50, p95, max ms {late:.1?}; sent {}", command[0], said["sent"]);
        let sent = &said["sent"];
        assert!(said["managed"] == true && sent["connections"].as_u64() > Some(0), "{said:#}");
        assert!(sent["bytes"].as_u64() >= Some(bytes) && sent["connections_left_alone"] == 0, "{said:#}");
        assert!(sent["control"].as_str().is_some_and(|name| name.starts_with("lowtide_")), "{said:#}");
        said
    }
}

pub fn report(json: &Path) -> Value {
    serde_json::from_slice(&fs::read(json).expect("`lowtide run --json` wrote it")).expect("JSON")
}

/// Bytes that do not compress, the same for the same `seed`: a linear congruential generator's upper bits.
pub fn noise(seed: u64, bytes: usize) -> Vec<u8> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    (0..bytes).map(|_| next()).collect()
}

/// A program that ends when it is dropped.
pub struct Daemon(pub Child);

impl Drop for Daemon {
    fn drop(&mut self) {
        let _gone = self.0.kill();
        let _gone = self.0.wait();
    }
}

/// A web server that keeps the body of each PUT under its path, for as long as the test runs.
#[derive(Clone, Default)]
pub struct Shelf {
    kept: Arc<Mutex<BTreeMap<String, Vec<u8>>>>,
    received: Arc<AtomicU64>,
}

impl Shelf {
    pub fn new(space: &Namespace, port: u16) -> Shelf {
        let listener = space.enter(|| Ok(TcpListener::bind((SERVER, port))?)).expect("it can listen");
        // The library's 128 are too few for a crowd: of what comes beyond them Linux forgets some and resets it later.
        listen(&listener, Backlog::new(1024).expect("in range")).expect("it listens");
        let shelf = Shelf::default();
        let mine = shelf.clone();
        thread::spawn(move || {
            while let Ok((peer, _)) = listener.accept() {
                let mine = mine.clone();
                // A client that goes away has sent what it has sent.
                thread::spawn(move || mine.take(&peer).ok());
            }
        });
        shelf
    }

    fn take(&self, peer: &TcpStream) -> std::io::Result<()> {
        let (mut reader, mut line) = (BufReader::new(peer), String::new());
        while reader.read_line(&mut line)? > 0 {
            let name = line.split(' ').nth(1).unwrap_or_default().trim_start_matches('/').to_owned();
            let mut length = 0;
            while line != "\r\n" {
                line.clear();
                if reader.read_line(&mut line)? == 0 {
                    return Ok(());
                }
                let header = line.to_ascii_lowercase();
                if let Some(value) = header.strip_prefix("content-length:") {
                    length = value.trim().parse().unwrap_or(0);
                } else if header.starts_with("expect:") {
                    (&*peer).write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
                }
            }
            let mut body = Vec::with_capacity(length);
            while body.len() < length {
                let part = (length - body.len()).min(16_384) as u64;
                let taken = reader.by_ref().take(part).read_to_end(&mut body)?;
                if taken == 0 {
                    return Ok(());
                }
                self.received.fetch_add(taken as u64, Ordering::Relaxed);
            }
            self.kept.lock().expect("nobody died").insert(name, body);
            (&*peer).write_all(b"HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n")?;
            line.clear();
        }
        Ok(())
    }

    pub fn get(&self, name: &str) -> Option<Vec<u8>> {
        self.kept.lock().expect("nobody died").get(name).cloned()
    }

    /// Bytes of bodies so far.
    pub fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }
}

/// A call and a page of 262 kB again and again, from CUBIC.
struct Others {
    call: Call,
    pages: JoinHandle<u32>,
    stop: Arc<AtomicBool>,
    _reflector: Reflector,
}

impl Others {
    fn start(site: &Site) -> Others {
        let stop = Arc::new(AtomicBool::new(false));
        let reflector = Reflector::new(&site.server, SERVER, REFLECTOR).expect("a reflector");
        let now = clock::now();
        let call = Call::new(&site.client, (SERVER, REFLECTOR).into(), CALL, now, now + PATIENCE, Arc::clone(&stop)).expect("a call");
        let server = Server::new(&site.server, SERVER, PAGES, "cubic").expect("a server");
        let mut curl = Command::new("curl");
        curl.args(["-sf", "--noproxy", "*", "--max-time", "30", "-o", "/dev/null", &server.url(262_144)]);
        site.client.place(&mut curl);
        let over = Arc::clone(&stop);
        let pages = thread::spawn(move || {
            let mut loaded = 0;
            while loaded == 0 || !over.load(Ordering::Relaxed) {
                assert!(curl.status().expect("curl starts").success(), "a page");
                loaded += 1;
                thread::sleep(Duration::from_millis(300));
            }
            drop(server);
            loaded
        });
        Others { call, pages, stop, _reflector: reflector }
    }

    /// Delays of the call beyond its fastest packet (p50, p95, max in ms), and the pages.
    fn end(self) -> ([f64; 3], u32) {
        self.stop.store(true, Ordering::Relaxed);
        let echoes = self.call.join().expect("it was answered").echoes;
        let delays: Vec<f64> = echoes.iter().map(|e| e.rtt().millis_f64()).collect();
        assert!(!delays.is_empty(), "nobody answered the call");
        let late = [0.5, 0.95, 1.0].map(|q| statistics::quantile(&delays, q) - statistics::quantile(&delays, 0.0));
        (late, self.pages.join().expect("pages were loaded"))
    }
}
