//! The signals that end a transfer: connections must be reset before the process goes. Knows no connections.

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Result;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// One of them came.
static CAME: AtomicBool = AtomicBool::new(false);

/// Whether this process was asked to end: what it reads from now on may come from another that was interrupted too.
pub fn have_come() -> bool {
    CAME.load(Ordering::Relaxed)
}

/// Waits for SIGINT, SIGTERM or SIGHUP, whichever of them this process was not started to ignore (nohup, `&` in a script): the exit
/// code that a shell gives to who dies of it.
///
/// # Errors
/// They cannot be listened to.
pub async fn end_requested() -> Result<ExitCode> {
    let ignored = ignored();
    let listen = |kind: SignalKind| if ignored >> (kind.as_raw_value() - 1) & 1 == 1 { Ok(None) } else { signal(kind).map(Some) };
    let (mut interrupt, mut terminate) = (listen(SignalKind::interrupt())?, listen(SignalKind::terminate())?);
    let mut hangup = listen(SignalKind::hangup())?;
    let came = tokio::select! {
        () = next(&mut interrupt) => SignalKind::interrupt(),
        () = next(&mut terminate) => SignalKind::terminate(),
        () = next(&mut hangup) => SignalKind::hangup(),
    };
    CAME.store(true, Ordering::Relaxed);
    Ok(ExitCode::from(128 + came.as_raw_value() as u8))
}

async fn next(signal: &mut Option<Signal>) {
    match signal {
        Some(signal) => drop(signal.recv().await),
        None => std::future::pending().await,
    }
}

/// The signals that this process ignores, bit 0 being signal 1 (proc_pid_status(5), SigIgn).
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}
