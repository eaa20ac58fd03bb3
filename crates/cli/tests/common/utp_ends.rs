//! Both ends of `lowtide utp`: starting one that listens, one that sends.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Output, Stdio};

use serde_json::Value;

pub fn lowtide(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lowtide"));
    command.arg("utp").args(args);
    command
}

/// A lowtide that listens, and the address that it says.
pub struct Listening {
    pub child: Child,
    lines: BufReader<ChildStdout>,
    pub address: String,
}

impl Listening {
    pub fn start(args: &[&str]) -> Listening {
        Listening::of(lowtide(args).arg("--json"))
    }

    pub fn of(command: &mut Command) -> Listening {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("lowtide starts");
        let lines = BufReader::new(child.stdout.take().expect("piped"));
        let mut it = Listening { child, lines, address: String::new() };
        it.address = it.line()["listening"].as_str().expect("an address").to_owned();
        it
    }

    pub fn line(&mut self) -> Value {
        let mut line = String::new();
        self.lines.read_line(&mut line).expect("a line");
        serde_json::from_str(&line).unwrap_or_else(|e| panic!("{e}: {line:?}"))
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        // It has ended, or is not needed any more.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn send(what: &Path, to: &str, more: &[&str]) -> Output {
    lowtide(&["send", what.to_str().expect("a name"), to]).args(more).output().expect("lowtide runs")
}

pub fn bytes(len: usize, seed: u64) -> Vec<u8> {
    (0..len as u64).map(|n| ((n ^ seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as u8).collect()
}
