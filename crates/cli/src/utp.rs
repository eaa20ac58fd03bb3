//! `lowtide utp`: transfers over uTP that get out of the way by themselves. Which kind is the affair of the files beside this one.

mod channel;
mod files;
mod messages;
mod progress;
mod proxy;
mod recv;
mod send;

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Parser;
use lowtide_cc::Params;
use lowtide_utp_tokio::{Options, UtpSocket};

use channel::Key;

/// Transfer files or forward connections over uTP, which gets out of the way of other traffic.
///
/// Both ends run lowtide; for `proxy` the other end may be any program that speaks uTP (BEP 29). uTP itself is NOT encrypted: whoever
/// is on the path can read what is sent and alter it. With --key FILE on both ends it is encrypted and authenticated (Noise NNpsk0).
#[derive(Parser)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    Send(send::Args),
    Recv(recv::Args),
    Proxy(proxy::Args),
}

/// What all three take.
#[derive(Parser)]
struct Common {
    /// Encrypt and authenticate with this file's contents as the shared key; the other end needs the same file. Made by, say:
    /// head -c 32 /dev/urandom > key
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// Congestion control of what this end sends.
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
        let params = Params::from_toml(&self.cc_params).context("--cc-params")?;
        let options = Options { control: self.cc.clone(), params, ..Options::default() };
        UtpSocket::bind(address, options).with_context(|| format!("UDP {address}"))
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
    let code = runtime.block_on(async {
        match &args.command {
            Command::Send(args) => send::main(args).await,
            Command::Recv(args) => recv::main(args).await,
            Command::Proxy(args) => proxy::main(args).await,
        }
    });
    // A read of a terminal's standard input may never end.
    runtime.shutdown_background();
    code
}

/// The first address of HOST:PORT.
fn resolve(text: &str) -> Result<SocketAddr> {
    let mut addresses = text.to_socket_addrs().with_context(|| format!("{text}: not HOST:PORT, or unknown ([ADDRESS]:PORT for IPv6)"))?;
    addresses.next().with_context(|| format!("{text}: no address"))
}
