//! What a command was asked for, on standard output. `println!` panics where that cannot be written.

use std::fmt::Display;
use std::io::{self, ErrorKind, Write};

use anyhow::Context;

/// Prints `text` and a line's end. A reader who has gone (`| head`) has had what it wanted.
///
/// # Errors
/// A full disk, for one.
pub fn line(text: impl Display) -> anyhow::Result<()> {
    print(format_args!("{text}\n"))
}

/// Prints `text`.
///
/// # Errors
/// As for [`line`].
pub fn print(text: impl Display) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    match write!(out, "{text}").and_then(|()| out.flush()) {
        Err(e) if e.kind() == ErrorKind::BrokenPipe => Ok(()),
        other => other.context("standard output cannot be written"),
    }
}
