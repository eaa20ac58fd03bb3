//! `lowtide cc`: the sending controls for the whole machine, for who wants them by name.

use std::process::ExitCode;

use lowtide_kernel::controls::{KNOWN, Known};
use serde::Serialize;

use crate::stdout;

/// Load lowtide's congestion controls into the kernel, for sysctl, `ip route … congctl` and programs that choose theirs
///
/// `lowtide run` needs none of this. What is loaded stays until it is unloaded or the machine restarts (docs/send.md has a systemd
/// unit). Then: sysctl net.ipv4.tcp_congestion_control, `ip route change … congctl lowtide`, `iperf3 -C lowtide`, TCP_CONGESTION;
/// for who is not root also net.ipv4.tcp_allowed_congestion_control.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand)]
enum Action {
    /// What there is, what is loaded, what uses it
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Load them: all, or those that are named
    Load { names: Vec<String> },
    /// Unload them: all, or those that are named; refused while a socket uses one
    Unload { names: Vec<String> },
}

#[derive(Serialize)]
struct Listed {
    name: &'static str,
    says: &'static str,
    loaded: bool,
    default: bool,
    sockets: usize,
}

pub fn main(args: &Args) -> anyhow::Result<ExitCode> {
    match &args.action {
        Action::List { json } => list(*json)?,
        Action::Load { names } => load(names)?,
        Action::Unload { names } => {
            for known in named(names)? {
                let was = known.unload()?;
                stdout::line(format!("{} {}", known.name, if was { "is unloaded" } else { "was not loaded" }))?;
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// All if none is named. A name that is none is known before anything is done.
fn named(names: &[String]) -> anyhow::Result<Vec<&'static Known>> {
    if names.is_empty() { Ok(KNOWN.iter().collect()) } else { names.iter().map(|name| Known::by_name(name)).collect() }
}

/// Of all, those that this kernel takes: an older one has no control that says its own pace. What is named is to be had, or nothing is right.
fn load(names: &[String]) -> anyhow::Result<()> {
    let mut refused = None;
    let mut loaded = 0;
    for known in named(names)? {
        match known.load() {
            Ok(new) => {
                loaded += 1;
                stdout::line(format!("{} {}", known.name, if new { "is loaded" } else { "was loaded already" }))?;
            }
            Err(e) if names.is_empty() => {
                eprintln!("lowtide: {} is NOT loaded: {e:#}", known.name);
                refused = Some(e);
            }
            Err(e) => return Err(e),
        }
    }
    refused.filter(|_| loaded == 0).map_or(Ok(()), Err)
}

fn list(json: bool) -> anyhow::Result<()> {
    let listed = KNOWN.iter().map(|known| {
        let loaded = known.is_loaded();
        let sockets = if loaded { known.users()?.len() } else { 0 };
        Ok(Listed { name: known.name, says: known.says, loaded, default: known.is_default(), sockets })
    });
    let listed = listed.collect::<anyhow::Result<Vec<_>>>()?;
    if json {
        return stdout::line(serde_json::to_string_pretty(&listed)?);
    }
    for one in listed {
        let state = match (one.loaded, one.default) {
            (false, _) => "not loaded".to_owned(),
            (true, false) => format!("loaded, {} socket(s)", one.sockets),
            (true, true) => format!("loaded, the default here, {} socket(s)", one.sockets),
        };
        stdout::line(format!("{:13} {state:24} {}", one.name, one.says))?;
    }
    Ok(())
}
