//! Uploads under `lowtide run`, across the laboratory's link, from outside: real programs whose data must arrive as it was, and what
//! an upload must survive. Needs root and BPF; says when it is skipped.
#![expect(clippy::print_stderr, reason = "what was measured is shown where a test fails")]

#[path = "../common/mod.rs"]
mod common;
#[path = "../common/ends.rs"]
mod ends;
mod ground;
#[path = "../common/line.rs"]
mod line;
mod programs;
#[path = "../common/running.rs"]
mod running;
mod survive;
