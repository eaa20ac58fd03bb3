//! A command that is still running: its lines, its end.

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};

/// A command whose output is read while it runs.
pub struct Running {
    pub child: Child,
    pub lines: BufReader<ChildStdout>,
}

impl Running {
    pub fn of(command: &mut Command) -> Running {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
        let lines = BufReader::new(child.stdout.take().expect("piped"));
        Running { child, lines }
    }

    pub fn line(&mut self) -> String {
        let mut line = String::new();
        self.lines.read_line(&mut line).expect("it can be read");
        line.trim().to_owned()
    }

    pub fn kill(&self, signal: &str) {
        let status = Command::new("kill").args([signal, &self.child.id().to_string()]).status().expect("kill starts");
        assert!(status.success());
    }

    pub fn code(mut self) -> Option<i32> {
        self.child.wait().expect("it ends").code()
    }
}
