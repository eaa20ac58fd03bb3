//! `lowtide man`: the man pages, generated from the same definitions as `--help`. Knows no subcommand by name.

use std::path::PathBuf;
use std::process::ExitCode;

use crate::stdout;
use anyhow::Context;
use clap::CommandFactory;

/// Write the man pages, one a subcommand.
#[derive(clap::Args)]
pub struct Args {
    /// The folder they are written to; made if it does not exist.
    #[arg(default_value = "man")]
    folder: PathBuf,
}

pub fn main(args: &Args) -> anyhow::Result<ExitCode> {
    std::fs::create_dir_all(&args.folder).with_context(|| format!("cannot make the folder {}", args.folder.display()))?;
    clap_mangen::generate_to(crate::Cli::command().disable_help_subcommand(true), &args.folder)
        .with_context(|| format!("cannot write man pages to {}", args.folder.display()))?;
    stdout::line(format_args!("man pages are in {}; read one with: man -l {0}/lowtide-run.1", args.folder.display()))?;
    Ok(ExitCode::SUCCESS)
}
