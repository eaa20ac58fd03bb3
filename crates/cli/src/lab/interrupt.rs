//! Ctrl-C and SIGTERM as a flag, so that what is being done ends in order. Knows nothing of what that is.

use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use anyhow::{Context, Result};
use nix::sys::signal::{SigSet, Signal};

/// The flag that the first signal sets; the second ends the process at once. To be called before any other thread is started,
/// since the mask is inherited; by children, too, and whoever starts one clears it.
pub fn flag() -> Result<Arc<AtomicBool>> {
    let set: SigSet = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP].into_iter().collect();
    set.thread_block().context("cannot take over the signals")?;
    let flag = Arc::new(AtomicBool::new(false));
    let raised = Arc::clone(&flag);
    thread::Builder::new()
        .name("signals".into())
        .spawn(move || {
            while let Ok(signal) = set.wait() {
                if raised.swap(true, Ordering::Relaxed) {
                    process::exit(128 + signal as i32);
                }
            }
        })
        .context("starting the thread that waits for signals")?;
    Ok(flag)
}
