//! The wait for the end: signals, `status`, new interfaces and rates meanwhile. Knows no BPF.

use std::os::fd::AsFd;
use std::process::Child;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::Signal;
use nix::unistd::Pid;

use super::child;
use super::manage::Managed;
use super::meter::Meter;
use super::signals::{self, Arrived, Signals};

/// How often namespaces that are new are looked for, and rates measured. Milliseconds.
const TICK_MS: u16 = 1000;

/// Waits until CMD ends, or without one, until the group does or a signal says so. Returns the exit code.
pub fn until_the_end(
    mut child: Option<&mut Child>,
    signals: &Signals,
    mut managed: Option<&mut Managed>,
    meter: &mut Meter,
) -> anyhow::Result<u8> {
    let mut complaint = None;
    loop {
        wait(signals, managed.as_deref())?;
        while let Some(arrived) = signals.next()? {
            if let Some(code) = act_on(arrived, child.as_deref_mut())? {
                return Ok(code);
            }
        }
        let Some(managed) = &mut managed else { continue };
        if let Err(e) = tend(managed, meter) {
            // CMD has not ended, so neither does the run; the same complaint every second would drown CMD's output.
            if complaint.replace(e.to_string()).is_none_or(|last| last != e.to_string()) {
                super::say(format_args!("{e:#}"));
            }
        }
        if child.is_none() && managed.has_ended() {
            return Ok(0);
        }
    }
}

/// What is due: answers for `status`, interfaces that have come up, rates.
fn tend(managed: &mut Managed, meter: &mut Meter) -> anyhow::Result<()> {
    managed.answer(|| meter.group(Some(managed)))?;
    let due = meter.tick_is_due();
    managed.look_around(due)?;
    if due {
        meter.sample(managed)?;
    }
    Ok(())
}

/// Returns when something has happened, at the latest after a tick.
fn wait(signals: &Signals, managed: Option<&Managed>) -> nix::Result<()> {
    let mut watched = vec![PollFd::new(signals.as_fd(), PollFlags::POLLIN)];
    watched.extend(managed.into_iter().flat_map(Managed::watched).map(|fd| PollFd::new(fd, PollFlags::POLLIN)));
    match poll(&mut watched, PollTimeout::from(TICK_MS)) {
        Err(Errno::EINTR) | Ok(_) => Ok(()),
        Err(e) => Err(e),
    }
}

/// The exit code, if this was the end.
fn act_on(arrived: Arrived, child: Option<&mut Child>) -> anyhow::Result<Option<u8>> {
    match (arrived, child) {
        (Arrived::Child, Some(child)) => Ok(child.try_wait()?.map(child::code)),
        (Arrived::Request { signal, from_terminal: false }, Some(child)) => {
            signals::pass_on(signal, Pid::from_raw(child.id() as i32))?;
            Ok(None)
        }
        (Arrived::Request { signal: Signal::SIGUSR1 | Signal::SIGUSR2, .. }, None) => Ok(None),
        (Arrived::Request { .. }, None) => Ok(Some(0)),
        _ => Ok(None),
    }
}
