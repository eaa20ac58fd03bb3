//! `lowtide run`: a command, or what already runs, managed until it ends. Says in which order things are done; how each is
//! done is in `run/`.

mod child;
mod manage;
mod meter;
mod signals;
mod summary;
mod user;
mod wait;
mod what;

use std::ffi::OsString;
use std::fmt::Display;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::ValueEnum;
use clap::error::ErrorKind;
use lowtide_kernel::features::Features;
use lowtide_kernel::native::{self, Profile};
use lowtide_kernel::{Choice, Config, Delay};

use self::manage::Managed;
use self::meter::Meter;
use self::signals::Signals;
use self::summary::{Summary, SummaryFile};
use self::what::What;
use crate::doctor;
use crate::hierarchy;
use crate::human;
use crate::status_socket::Group;

const USAGE: &str = "lowtide run [OPTIONS] -- CMD [ARGUMENT]...
       lowtide run [OPTIONS] --pid N | --cgroup PATH | --unit NAME.service";

/// Run CMD so that what it downloads and uploads over TCP yields to everything else
///
/// CMD keeps its terminal, its signals and its exit code, and under sudo it runs as the user who called sudo. At its end one
/// line on stderr says what was done. With --pid, --cgroup or --unit, what already runs is managed until Ctrl-C or its end.
#[derive(clap::Args)]
#[command(group = clap::ArgGroup::new("what").required(true), override_usage = USAGE)]
pub struct Args {
    #[arg(long, value_name = "NAME", value_parser = native::by_name, help = help_of_cc())]
    cc: Option<&'static Profile>,
    #[arg(long, value_name = "DELAY", help = help_of_target())]
    target: Option<Delay>,
    /// Mark what the group sends as Lower Effort (RFC 8622), so that routers which know it may put it behind the rest
    #[arg(long, value_name = "CLASS")]
    dscp: Option<Dscp>,
    /// The name that `status` and `top` show; CMD's if not given
    #[arg(long)]
    name: Option<String>,
    /// No line at the end
    #[arg(long)]
    quiet: bool,
    /// Write what was done to FILE, as JSON; it is opened before CMD starts
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Where this machine cannot do it, run CMD all the same, unmanaged, and say so
    #[arg(long, conflicts_with_all = ["pid", "cgroup", "unit"])]
    best_effort: bool,
    /// Manage this process and its descendants, with the connections that they have
    #[arg(long, value_name = "N", group = "what")]
    pid: Option<u32>,
    /// Manage this cgroup (v2), with the connections that it has
    #[arg(long, value_name = "PATH", group = "what")]
    cgroup: Option<PathBuf>,
    /// Manage this systemd unit, with the connections that it has
    #[arg(long, value_name = "NAME.service", group = "what")]
    unit: Option<String>,
    /// The command and its arguments
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "CMD", group = "what", num_args = 1..)]
    command: Vec<OsString>,
}

fn help_of_cc() -> String {
    format!(
        "The control to yield by, of both directions: `ledbat_pp-enhanced-burst` (or `enhanced`), `ledbat_pp-enhanced`, `ledbat_pp-burst` (or `ledbat++`), \
         `ledbat_pp`, `lowtide`; for what is sent alone also `ledbat`, `tcp_lp`, `tcp_nice`. Unless told otherwise: {} (docs/run.md)",
        Choice::default()
    )
}

fn help_of_target() -> String {
    let by_default = Choice::default();
    let aimed = "5ms".parse().and_then(|least| Choice::new(None, Some(least))).map(|aimed| aimed.sends_by()).unwrap_or_default();
    let without_cc =
        if by_default.sends_by() == aimed { String::new() } else { format!("; without --cc it chooses `{aimed}` for both directions") };
    format!(
        "The queueing delay to aim at, such as `25ms`, for controls that aim at one: `ledbat_pp` and its profiles, by themselves at 60 ms, or where enhanced at \
         the smaller of 60 ms and the base RTT, which yields to BBR too (a delay from 5ms to 60ms takes the place of the 60), and `ledbat` (to 100ms){without_cc}"
    )
}

#[derive(Clone, Copy, ValueEnum)]
enum Dscp {
    #[value(name = "le")]
    LowerEffort,
}

pub fn main(args: Args) -> anyhow::Result<ExitCode> {
    // Before anything starts a thread, and before a Ctrl-C could leave something behind.
    let signals = Signals::block().context("cannot take over the signals")?;
    let user = user::behind_sudo()?;
    let file = args.json.as_deref().map(|path| SummaryFile::open(path, user.as_ref())).transpose()?;
    let _hierarchy = hierarchy::reach(); // let go of after the group
    let what = What::of(&args)?;
    let choice = Choice::new(args.cc, args.target).unwrap_or_else(|why| clap::Error::raw(ErrorKind::ValueValidation, why + "\n").exit());
    if let Some(only_sends) = args.cc.filter(|control| !control.receives() && !args.quiet) {
        say(format_args!("--cc {}: what is sent yields by it; what is received yields by {}", only_sends.name, choice.receives_by()));
    }
    let by_default = Choice::default().sends_by();
    if args.cc.is_none() && choice.sends_by() != by_default && !args.quiet {
        say(format_args!(
            "--target: what is sent yields by {}, which aims at a delay; {by_default}, the default, aims at none",
            choice.sends_by()
        ));
    }
    let managed = match manage(&args, &what, choice) {
        Ok(managed) => Some(managed),
        Err(e) if args.best_effort => {
            say(format_args!("--best-effort: NOT managed, runs as without lowtide: {e:#}"));
            None
        }
        Err(e) => return Err(e),
    };
    let meter = Meter::start(describe(&args, &what, choice, managed.as_ref()));
    let (summary, code) = run(&args, user, &signals, managed, meter)?;
    if !args.quiet && summary.managed {
        say(&summary);
    }
    file.map_or(Ok(()), |file| file.write(&summary))?;
    Ok(ExitCode::from(code))
}

/// Everything that can fail for want of a privilege or of a kernel feature, before CMD starts.
fn manage(args: &Args, what: &What, choice: Choice) -> anyhow::Result<Managed> {
    let features = Features::detect();
    if !features.ready() {
        bail!("{}", doctor::explain(&features));
    }
    let config = Config { choice, dscp_le: args.dscp.is_some(), joins: matches!(what, What::Process(_)), name: name(args, what) };
    Managed::start(what, &config)
}

/// Runs CMD to its end, or waits for the end of what is managed. Whatever happens, all is detached when this returns.
fn run(
    args: &Args,
    user: Option<user::Caller>,
    signals: &Signals,
    mut managed: Option<Managed>,
    mut meter: Meter,
) -> anyhow::Result<(Summary, u8)> {
    let mut started = None;
    if !args.command.is_empty() {
        let group = managed.as_ref().map(Managed::door).transpose()?;
        if let Some(signal) = signals.end_requested()? {
            let code = 128 + signal as u8;
            say(format_args!("{} came before CMD was started: it was not", signal.as_str()));
            return Ok((Summary::new(args.dscp.is_some(), meter.group(managed.as_ref()), None, code), code));
        }
        match child::start(child::Start { command: &args.command, group, user, mask: signals.before() }) {
            Ok(child) => started = Some(child),
            Err(failed) => {
                say(&failed);
                return Ok((Summary::new(args.dscp.is_some(), meter.group(managed.as_ref()), None, failed.code()), failed.code()));
            }
        }
    }
    let code = wait::until_the_end(started.as_mut(), signals, managed.as_mut(), &mut meter)?;
    let group = meter.group(managed.as_ref());
    let totals = managed.as_ref().map(|m| m.totals().unwrap_or_else(|e| note(&e)));
    let sending = managed.as_ref().map(|m| m.sending(&m.sent().unwrap_or_else(|e| note(&e)))).unwrap_or_default();
    let left = managed.map_or(0, Managed::end);
    if left > 0 && started.is_some() && !args.quiet {
        say(format_args!("CMD has ended; {left} process(es) that it started go on, no longer managed"));
    }
    Ok((Summary::new(args.dscp.is_some(), Group { sending, ..group }, totals, code), code))
}

/// One line on stderr. That nobody reads it, as on a terminal that was closed, must not end a run.
fn say(line: impl Display) {
    let _ = writeln!(io::stderr(), "lowtide: {line}");
}

/// What cannot be known is said, and CMD goes on: a run fails open.
fn note<T: Default>(error: &anyhow::Error) -> T {
    say(format_args!("{error:#}"));
    T::default()
}

fn describe(args: &Args, what: &What, choice: Choice, managed: Option<&Managed>) -> Group {
    Group {
        name: name(args, what),
        pid: std::process::id(),
        what: what.to_string(),
        cgroup: managed.map(|m| m.path().display().to_string()).unwrap_or_default(),
        target: choice.target(),
        receives_by: choice.receives_by().to_owned(),
        sends_by: managed.and_then(Managed::sends_by).unwrap_or(choice.sends_by()).to_owned(),
        lacking: managed.map(Managed::lacking).unwrap_or_default(),
        not_held_back: managed.and_then(Managed::not_held_back),
        open_before_not_held_back: managed.and_then(Managed::open_before_not_held_back),
        ..Group::default()
    }
}

fn name(args: &Args, what: &What) -> String {
    args.name.clone().unwrap_or_else(|| human::head(&what.short_name(), 24))
}
