//! The command `lowtide`: hands each subcommand to its file and its result to the exit code. Knows nothing of what they do.
//!
//! A subcommand is one file with `Args` (clap) and `main(Args) -> anyhow::Result<ExitCode>`, and three lines here:
//! its `mod`, its variant, its arm.

#![expect(clippy::print_stderr, reason = "the command is what prints")]

mod bench;
mod cc;
mod demo;
mod doctor;
mod held_back;
mod hierarchy;
mod human;
mod lab;
mod made_by;
mod man;
mod papers;
mod plot;
mod report;
mod run;
mod sim;
mod status;
mod status_socket;
mod stdout;
mod top;
mod utp;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use nix::sys::signal::{SigHandler, Signal};

/// Makes background transfers get out of the way.
///
/// `lowtide run -- CMD` lets every TCP byte that CMD receives use only the capacity nobody else wants, and yields it
/// within a round trip when somebody does. The server and the program are not changed.
#[derive(Parser)]
#[command(name = "lowtide", version, after_help = EXIT_CODES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

const EXIT_CODES: &str = "Exit codes: 0 done; 1 failed; 2 wrong usage. `run` gives CMD's own code, 128 + the number of the \
signal that ended it, 127 if there is no such command, 126 if it cannot be executed.";

/// One line a subcommand, in the order `--help` shows.
#[derive(Subcommand)]
enum Command {
    Run(run::Args),
    Status(status::Args),
    Top(top::Args),
    Cc(cc::Args),
    Doctor(doctor::Args),
    Demo(demo::Args),
    Bench(bench::Args),
    Lab(lab::Args),
    Papers(papers::Args),
    Plot(plot::Args),
    Sim(sim::Args),
    Utp(utp::Args),
    Man(man::Args),
}

/// `| head` ends a command that only prints, as it ends others: Rust ignores SIGPIPE, and printing would panic. Those that have
/// something to clean up go on.
#[expect(unsafe_code, reason = "a signal's default action runs no code of ours")]
fn end_with_the_reader(command: &Command) {
    if matches!(command, Command::Run(_) | Command::Top(_) | Command::Demo(_) | Command::Lab(_) | Command::Bench(_) | Command::Utp(_)) {
        return;
    }
    // SAFETY: SIG_DFL is no handler; no other thread exists yet.
    let _previous = unsafe { nix::sys::signal::signal(Signal::SIGPIPE, SigHandler::SigDfl) };
}

fn main() -> ExitCode {
    let command = Cli::parse().command;
    end_with_the_reader(&command);
    let result = match command {
        Command::Run(args) => run::main(args),
        Command::Status(args) => status::main(&args),
        Command::Top(args) => top::main(&args),
        Command::Cc(args) => cc::main(&args),
        Command::Doctor(args) => doctor::main(&args),
        Command::Demo(args) => demo::main(&args),
        Command::Bench(args) => bench::main(&args),
        Command::Lab(args) => lab::main(&args),
        Command::Papers(args) => papers::main(&args),
        Command::Plot(args) => plot::main(&args),
        Command::Sim(args) => sim::main(&args),
        Command::Utp(args) => utp::main(&args),
        Command::Man(args) => man::main(&args),
    };
    result.unwrap_or_else(|e| {
        eprintln!("lowtide: {e:#}");
        ExitCode::FAILURE
    })
}
