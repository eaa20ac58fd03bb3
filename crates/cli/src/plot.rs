//! `lowtide plot`: a folder of results becomes a page. Knows no results and no drawing.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;

use crate::report;
use crate::stdout;

/// Draw the results in a folder: one self-contained HTML page, and each plot's data as CSV beside it.
///
/// One run is shown with its series and distributions; a sweep with curves, or heat maps where two numbers were varied.
#[derive(Parser)]
pub struct Args {
    /// A folder that `lowtide sim --out` or `lowtide lab` wrote.
    dir: PathBuf,
}

/// Runs the subcommand.
///
/// # Errors
/// A folder without results or that cannot be written.
pub fn main(args: &Args) -> Result<ExitCode> {
    stdout::line(report::plot_dir(&args.dir)?.display())?;
    Ok(ExitCode::SUCCESS)
}
