//! Who left something behind: a process by its number and its start, for numbers are given again.

use std::fmt;
use std::fs;
use std::process;
use std::str::FromStr;

/// A process. As text, `417.88213`: its number and when it started, in ticks since the machine did (proc(5), `starttime`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) pid: u32,
    /// None: not known, as in what an earlier version left.
    start: Option<u64>,
}

impl Owner {
    /// This process.
    pub(crate) fn this() -> Owner {
        Owner { pid: process::id(), start: start(process::id()) }
    }

    /// Whether it still runs.
    pub(crate) fn is_alive(self) -> bool {
        let now = start(self.pid);
        now.is_some() && (self.start.is_none() || self.start == now)
    }
}

/// When a process started; none if there is no such process. The name before it may contain anything, also parentheses.
fn start(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.start {
            Some(start) => write!(f, "{}.{start}", self.pid),
            None => write!(f, "{}", self.pid),
        }
    }
}

impl FromStr for Owner {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Owner, Self::Err> {
        Ok(match text.split_once('.') {
            Some((pid, start)) => Owner { pid: pid.parse()?, start: Some(start.parse()?) },
            None => Owner { pid: text.parse()?, start: None },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_has_anothers_number_is_not_that_other() {
        let this = Owner::this();
        assert!(this.start.is_some() && this.is_alive());
        assert_eq!(this.to_string().parse(), Ok(this));
        assert!(!Owner { start: Some(1), ..this }.is_alive());
        assert!(Owner { start: None, ..this }.is_alive());
        assert!(!Owner { pid: 4_194_305, start: None }.is_alive(), "one more than the largest pid (proc(5))");
    }
}
