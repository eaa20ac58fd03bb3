//! What tests of the command from outside have in common: starting it, and saying when this machine cannot manage.

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::sync::OnceLock;

pub fn lowtide(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lowtide"));
    command.args(args).env_remove("SUDO_UID").env_remove("SUDO_GID").stdin(Stdio::null());
    command
}

pub fn output(args: &[&str]) -> Output {
    lowtide(args).output().expect("lowtide starts")
}

/// Whether this machine can manage; says loudly when it cannot.
pub fn can_manage(test: &str) -> bool {
    static REFUSAL: OnceLock<Option<String>> = OnceLock::new();
    let refusal = REFUSAL.get_or_init(|| {
        let doctor = output(&["doctor"]);
        let why = String::from_utf8_lossy(&doctor.stdout).lines().last().unwrap_or_default().to_owned();
        (!doctor.status.success()).then_some(why)
    });
    if let Some(why) = refusal {
        lowtide_testing::skip(test, why);
    }
    refusal.is_none()
}

/// A run that has said its first line.
pub struct Running {
    pub child: Child,
    pub lines: BufReader<ChildStdout>,
}

impl Running {
    pub fn start(args: &[&str]) -> Running {
        Running::of(&mut lowtide(args))
    }

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
