//! For tests only: one way to skip a test that needs what this machine or this user lacks. Knows no other crate.

use std::ffi::OsStr;
use std::io::{self, Write};

/// Says on the standard error stream that `test` does not run here, and `why`.
///
/// # Panics
/// Where the environment has `CI` set to something: there nothing that needs root, BPF or a program that `make test` installs is skipped.
pub fn skip(test: &str, why: &str) {
    if let Some(refusal) = refusal(std::env::var_os("CI").as_deref(), test, why) {
        panic!("{refusal}");
    }
    skip_in_ci_too(test, why);
}

/// The same for what CI does not have: a browser.
pub fn skip_in_ci_too(test: &str, why: &str) {
    // Not eprintln: the test harness would swallow it.
    let _closed = writeln!(io::stderr(), "SKIPPED, NOT TESTED: {test}: {why}");
}

fn refusal(ci: Option<&OsStr>, test: &str, why: &str) -> Option<String> {
    ci.filter(|value| !value.is_empty()).map(|_| format!("{test} cannot run here, and in CI nothing is skipped: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_ci_a_skipped_test_fails_and_elsewhere_it_does_not() {
        assert_eq!(refusal(None, "a_test", "no root"), None);
        assert_eq!(refusal(Some(OsStr::new("")), "a_test", "no root"), None);
        let said = refusal(Some(OsStr::new("true")), "a_test", "no root");
        assert_eq!(said.as_deref(), Some("a_test cannot run here, and in CI nothing is skipped: no root"));
    }
}
