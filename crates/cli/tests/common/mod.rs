//! What tests of the command from outside have in common: starting it, and saying when this machine cannot manage.

use std::process::{Command, Output, Stdio};
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
