//! Starts CMD: in its group before its first instruction, as its user, with the signal mask it would have had. Knows no BPF.

#![expect(unsafe_code, reason = "pre_exec: what the child does between fork and exec")]

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus};

use nix::fcntl::OFlag;
use nix::sys::signal::SigSet;
use nix::unistd::{pipe2, setgid, setgroups, setuid};

use super::user::Caller;

/// What CMD starts with.
pub struct Start<'a> {
    pub command: &'a [OsString],
    /// `cgroup.procs` of its group, open for writing; none for a run that is not managed.
    pub group: Option<File>,
    pub user: Option<Caller>,
    pub mask: SigSet,
}

/// Why CMD did not start.
#[derive(Debug, thiserror::Error)]
pub enum Failed {
    #[error("there is no command `{0}`: check its spelling, or give its path")]
    Missing(String),
    #[error("`{0}` is there, but what runs it is not: see its first line (#!), or which dynamic loader it wants")]
    NoInterpreter(String),
    #[error("`{0}` cannot be executed: {1}")]
    NotExecutable(String, io::Error),
    #[error("cannot {0} for `{1}`: {2}")]
    Before(&'static str, String, io::Error),
}

impl Failed {
    /// The shell's codes: 127 not found, 126 found but not executable; 1 if it never came to that.
    pub fn code(&self) -> u8 {
        match self {
            Failed::Missing(_) => 127,
            Failed::NoInterpreter(_) | Failed::NotExecutable(..) => 126,
            Failed::Before(..) => 1,
        }
    }
}

/// The steps between fork and exec, in order; the child reports the index of the one that failed.
const STEPS: [&str; 5] = ["start a process", "join the group", "take the user's groups", "take the user's group", "become the user"];

/// Starts it.
pub fn start(start: Start) -> Result<Child, Failed> {
    let (program, args) = start.command.split_first().expect("clap demands one word");
    let name = program.to_string_lossy().into_owned();
    let before = |step: usize, e: io::Error| Failed::Before(STEPS[step], program.to_string_lossy().into_owned(), e);
    let (reader, writer) = pipe2(OFlag::O_CLOEXEC).map_err(|e| before(0, e.into()))?;
    let (mut reader, mut writer) = (File::from(reader), File::from(writer));
    let mut command = Command::new(program);
    command.args(args);
    if let Some(user) = &start.user {
        command.envs(user.env.iter().map(|(k, v)| (k, v)));
    }
    let (group, user, mask) = (start.group, start.user, start.mask);
    let prepare = move || {
        in_child(group.as_ref(), user.as_ref(), mask).map_err(|(step, e)| {
            let _ = writer.write_all(&[step]);
            e
        })
    };
    // SAFETY: `in_child` makes system calls on what was prepared before the fork; it allocates nothing and takes no lock.
    unsafe { command.pre_exec(prepare) };
    let result = command.spawn();
    drop(command); // and with it the pipe's writing end
    result.map_err(|e| {
        let mut step = [0];
        match (reader.read(&mut step), e.kind()) {
            (Ok(1), _) => before(usize::from(step[0]), e),
            // execve(2) says the same of a missing file and of a missing interpreter.
            (_, io::ErrorKind::NotFound) if name.contains('/') && Path::new(&name).exists() => Failed::NoInterpreter(name),
            (_, io::ErrorKind::NotFound) => Failed::Missing(name),
            _ => Failed::NotExecutable(name, e),
        }
    })
}

/// Runs in the child. The group is joined first: by then it is still root that writes.
fn in_child(mut group: Option<&File>, user: Option<&Caller>, mask: SigSet) -> Result<(), (u8, io::Error)> {
    if let Some(group) = &mut group {
        group.write_all(b"0").map_err(|e| (1, e))?;
    }
    if let Some(user) = user {
        setgroups(&user.groups).map_err(|e| (2, e.into()))?;
        setgid(user.gid).map_err(|e| (3, e.into()))?;
        setuid(user.uid).map_err(|e| (4, e.into()))?;
    }
    mask.thread_set_mask().map_err(|e| (0, e.into()))
}

/// What a shell would say: CMD's own code, or 128 + the signal that ended it.
pub fn code(status: ExitStatus) -> u8 {
    match (status.code(), status.signal()) {
        (Some(code), _) => code as u8,
        (None, Some(signal)) => 128 + signal as u8,
        (None, None) => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(words: &[&str]) -> Result<u8, Failed> {
        let command: Vec<OsString> = words.iter().map(OsString::from).collect();
        let mask = SigSet::thread_get_mask().expect("the mask can be read");
        let mut child = start(Start { command: &command, group: None, user: None, mask })?;
        Ok(code(child.wait().expect("it can be waited for")))
    }

    #[test]
    fn the_code_is_the_commands_own_or_128_and_its_signal() {
        assert_eq!(run(&["sh", "-c", "exit 7"]).expect("sh starts"), 7);
        assert_eq!(run(&["sh", "-c", "kill -TERM $$"]).expect("sh starts"), 128 + 15);
    }

    #[test]
    fn a_missing_command_is_127_and_one_that_is_no_program_126() {
        let missing = run(&["no-such-command-of-lowtide"]).expect_err("there is none");
        assert_eq!((missing.code(), missing.to_string().contains("no-such-command-of-lowtide")), (127, true));
        assert_eq!(run(&["/etc/passwd"]).expect_err("it is data").code(), 126);
    }

    #[test]
    fn a_script_without_its_interpreter_is_not_called_missing() {
        let folder = tempfile::tempdir().expect("a folder");
        let script = folder.path().join("script");
        std::fs::write(&script, "#!/no/such/shell\n").expect("written");
        std::fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("ours");
        let failed = run(&[&script.display().to_string()]).expect_err("nothing can run it");
        assert_eq!((failed.code(), failed.to_string().contains("#!")), (126, true), "{failed}");
    }

    #[test]
    fn a_group_that_cannot_be_joined_is_told_apart_from_a_command_that_cannot_run() {
        let command = [OsString::from("true")];
        let group = Some(File::open("/dev/null").expect("it exists")); // not writable
        let mask = SigSet::thread_get_mask().expect("the mask can be read");
        let failed = start(Start { command: &command, group, user: None, mask }).map(drop).expect_err("it cannot join");
        assert!(matches!(failed, Failed::Before("join the group", ..)), "{failed}");
        assert_eq!(failed.code(), 1);
    }
}
