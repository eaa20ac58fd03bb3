//! `lowtide utp`: transfers over uTP that get out of the way by themselves. Which kind is the affair of the files beside this one.

mod channel;
mod files;
mod messages;
mod progress;
mod proxy;
mod recv;
mod send;
mod signals;

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Parser;
use lowtide_cc::Params;
use lowtide_units::Span;
use lowtide_utp_tokio::{Options, OptionsError, UtpSocket};

use channel::Key;

/// Transfer files or forward connections over uTP, which gets out of the way of other traffic.
///
/// Both ends run lowtide; for `proxy` the other end may be any program that speaks uTP (BEP 29). uTP itself is NOT encrypted: whoever
/// is on the path can read what is sent and alter it. With --key FILE on both ends it is encrypted and authenticated (Noise NNpsk0).
#[derive(Clone, Parser)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Clone, clap::Subcommand)]
enum Command {
    Send(send::Args),
    Recv(recv::Args),
    Proxy(proxy::Args),
}

/// How long connections have to be reset when the command ends.
const LAST_WORDS: Duration = Duration::from_millis(300);

/// What all three take.
#[derive(Clone, Parser)]
struct Common {
    /// Encrypt and authenticate with this file's contents as the shared key; the other end needs the same file. Made by, say:
    /// head -c 32 /dev/urandom > key
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// Congestion control of what this end sends: libutp-mod, libutp, ledbat, ledbat++, enhanced, lowtide, or any that the simulator has.
    #[arg(long, default_value = "libutp-mod", value_name = "NAME")]
    cc: String,
    /// Its parameters, in TOML: "target_ms = 25".
    #[arg(long, default_value = "", value_name = "TOML")]
    cc_params: String,
}

impl Common {
    fn key(&self) -> Result<Option<Key>> {
        self.key.as_deref().map(Key::read).transpose()
    }

    fn bind(&self, address: SocketAddr) -> Result<UtpSocket> {
        self.bind_with(address, Options::default())
    }

    /// A port that asks peers which are silent for so long whether they are there.
    fn bind_asking(&self, address: SocketAddr, silence: Span) -> Result<UtpSocket> {
        self.bind_with(address, Options { silence: Some(silence), ..Options::default() })
    }

    fn bind_with(&self, address: SocketAddr, options: Options) -> Result<UtpSocket> {
        let params = Params::from_toml(&self.cc_params).context("--cc-params")?;
        // As papers and drafts write them; what `run` means by them, with our parts, is in `lowtide_window`'s SPELLINGS.
        let control = match &*self.cc {
            "ledbat++" => "ledbat_pp",
            "enhanced" => "ledbat_pp-enhanced",
            name => name,
        };
        let options = Options { control: control.to_owned(), params, ..options };
        UtpSocket::bind(address, options).map_err(|e| {
            let options = e.kind() == std::io::ErrorKind::InvalidInput && e.get_ref().is_some_and(|e| e.is::<OptionsError>());
            let input = match (options, &*self.cc_params) {
                (false, _) => format!("UDP {address}"),
                (true, "") => format!("--cc {}", self.cc),
                (true, params) => format!("--cc {} --cc-params {params:?}", self.cc),
            };
            anyhow::Error::from(e).context(input)
        })
    }

    /// A port to connect to `peer` from.
    fn bind_for(&self, peer: SocketAddr) -> Result<UtpSocket> {
        let any = if peer.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
        self.bind(any.parse()?)
    }
}

/// Runs the subcommand.
///
/// # Errors
/// What went wrong, in one line.
pub fn main(args: &Args) -> Result<ExitCode> {
    // One thread drives the port, the others read, write and hash.
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let command = args.command.clone();
    let running = runtime.spawn(async move {
        match &command {
            Command::Send(args) => send::main(args).await,
            Command::Recv(args) => recv::main(args).await,
            Command::Proxy(args) => proxy::main(args).await,
        }
    });
    let code = runtime.block_on(async {
        tokio::select! {
            ended = running => ended?,
            code = signals::end_requested() => code,
        }
    });
    // Peers of connections that are left are told. A read of a terminal's standard input may never end.
    runtime.shutdown_timeout(LAST_WORDS);
    code
}

/// The addresses of HOST:PORT.
fn resolve(text: &str) -> Result<Vec<SocketAddr>> {
    let addresses = text.to_socket_addrs().with_context(|| format!("{text}: not HOST:PORT, or unknown ([ADDRESS]:PORT for IPv6)"))?;
    let all: Vec<SocketAddr> = addresses.collect();
    ensure!(!all.is_empty(), "{text}: no address");
    Ok(all)
}

/// The same of who is to be connected to, which no port 0 is.
fn resolve_peer(text: &str) -> Result<Vec<SocketAddr>> {
    let all = resolve(text)?;
    ensure!(all.iter().all(|address| address.port() != 0), "{text}: nobody listens on port 0; the other end says which port it has");
    Ok(all)
}

/// Text of the other end's, or with names of its files in it, without what a terminal would obey.
fn printable(text: &str) -> String {
    let escaped = |c: char| if c.is_control() { c.escape_default().to_string() } else { c.to_string() };
    text.chars().map(escaped).collect()
}
