//! A BPF object in the kernel: opening and loading it, what the verifier said, its programs and maps. Knows no program by name.

use std::cell::RefCell;
use std::ffi::OsStr;
use std::fmt;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};

use anyhow::{Context, Result, anyhow};
use libbpf_rs::query::ProgInfoIter;
use libbpf_rs::{Map, MapCore, MapFlags, Object, ObjectBuilder, OpenObject, PrintLevel, Program, ProgramMut};

use crate::stats::{Lacking, Verified};
use crate::wire;

/// An ELF file in memory is read through its structs.
#[repr(C, align(8))]
pub(crate) struct Aligned<T: ?Sized>(pub(crate) T);

/// An object of this binary, to be configured.
pub(crate) fn open(name: &str, object: &[u8]) -> Result<OpenObject> {
    ObjectBuilder::default().name(name)?.open_memory(object).context("the BPF object in this binary cannot be opened")
}

/// Hands it to the kernel; of a refusal, a [`Refused`], the verifier's last word is told.
pub(crate) fn finish(mut open: OpenObject) -> Result<Object> {
    let level = std::env::var(LOG).ok().and_then(|level| level.parse().ok()).unwrap_or(0);
    for mut program in open.progs_mut() {
        program.set_log_level(level);
    }
    libbpf_rs::set_print(Some(if level > 0 { (PrintLevel::Debug, print) } else { (PrintLevel::Warn, overhear) }));
    open.load().map_err(|e| {
        let said = SAID.take();
        let why = reason(&said).map_or_else(String::new, |line| format!(": {line}"));
        let message = format!("the kernel refuses the BPF programs: {e:#}{why} (more: lowtide doctor; the verifier in full: {LOG}=1)");
        Refused { program: refused(&said).map(str::to_owned), message }.into()
    })
}

/// That the kernel does not take an object.
#[derive(Debug)]
struct Refused {
    /// The program at which it stopped.
    program: Option<String>,
    message: String,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Refused {}

/// An object without the programs that the kernel refuses, of those that it can do without: `load` loads all but the named ones. With what was
/// left out and why.
pub(crate) fn without_refused(
    optional: &[&'static str],
    load: impl Fn(&[&'static str]) -> Result<Object>,
) -> Result<(Object, Vec<Lacking>)> {
    let mut lacking: Vec<Lacking> = Vec::new();
    loop {
        let left_out: Vec<&str> = lacking.iter().map(|l| l.program).collect();
        let error = match load(&left_out) {
            Ok(object) => return Ok((object, lacking)),
            Err(error) => error,
        };
        let refused = error.downcast_ref::<Refused>().and_then(|e| e.program.as_deref());
        match optional.iter().find(|name| Some(**name) == refused && !left_out.contains(name)) {
            Some(program) => lacking.push(Lacking { program, why: format!("{error:#}") }),
            None => return Err(error),
        }
    }
}

/// The verifier's log level (bpf(2): 1 what it follows, 2 every state, 4 its statistics); libbpf prints what it says.
const LOG: &str = "LOWTIDE_VERIFIER_LOG";

/// Bytes of it that are kept; a refusal takes less. A run that lasts for weeks may hear the same warning every second.
const MOST_SAID: usize = 1 << 20;

thread_local! {
    /// What libbpf has said on this thread: on a refusal that is a screen of registers, of which one line is for people. Receiver and sender are
    /// loaded at the same time.
    static SAID: RefCell<String> = const { RefCell::new(String::new()) };
}

fn overhear(_level: PrintLevel, text: String) {
    SAID.with_borrow_mut(|said| {
        if said.len() < MOST_SAID {
            *said += &text;
        }
    });
}

fn print(_level: PrintLevel, text: String) {
    let _closed = io::stderr().write_all(text.as_bytes());
}

/// The verifier's last word before its statistics.
fn reason(said: &str) -> Option<&str> {
    let log = said.split("-- END PROG LOAD LOG --").next().filter(|log| log.len() < said.len())?;
    log.lines().rev().map(str::trim).find(|line| !line.is_empty() && !line.starts_with("processed "))
}

/// The program that libbpf spoke of last.
fn refused(said: &str) -> Option<&str> {
    said.lines().rev().find_map(|line| line.strip_prefix("libbpf: prog '")?.split('\'').next())
}

/// To be attached: `attach` of libbpf-rs is of programs that may be changed, though it changes nothing in user space.
pub(crate) fn program<'a>(object: &'a Object, name: &str) -> Result<ProgramMut<'a>> {
    object.progs_mut().find(|p| p.name() == OsStr::new(name)).ok_or_else(|| anyhow!("the BPF object has no program `{name}`"))
}

/// The map whose name ends so.
pub(crate) fn map<'a>(object: &'a Object, name: &str) -> Result<Map<'a>> {
    object.maps().find(|m| m.name().to_string_lossy().ends_with(name)).ok_or_else(|| anyhow!("the BPF object has no map `{name}`"))
}

/// Writes a variable that has a map of its own, or the one entry of a map.
pub(crate) fn set(object: &Object, name: &str, value: &[u8]) -> Result<()> {
    map(object, name)?.update(&0u32.to_ne_bytes(), value, MapFlags::ANY).with_context(|| format!("`{name}` cannot be written"))
}

/// Tells what the kernel may keep when we die that we have not.
pub(crate) fn keep_alive(object: &Object) -> Result<()> {
    set(object, ".data.alive", &wire::monotonic_now().to_ne_bytes())
}

/// Forgets remote addresses whose base delay has aged out anyway (RFC 6817 §3.4.2: ten minutes), so that the map never fills; `last` says when
/// an entry of it was last in use.
pub(crate) fn forget_idle(object: &Object, paths: &str, last: impl Fn(&[u8]) -> u64) -> Result<()> {
    const KEPT_NS: u64 = 600_000_000_000;
    let (map, now) = (map(object, paths)?, wire::monotonic_now());
    for key in map.keys() {
        let idle = |value: Vec<u8>| now.saturating_sub(last(&value)) > KEPT_NS;
        if map.lookup(&key, MapFlags::ANY).ok().flatten().is_some_and(idle) {
            // Somebody else's hand in the map would be the kernel's own: it is gone already.
            let _gone = map.delete(&key);
        }
    }
    Ok(())
}

/// The programs of `object` that are loaded. Before Linux 5.16 the kernel does not tell, and every number is 0.
pub(crate) fn verified(object: &Object) -> Vec<Verified> {
    let info = |id: u32| ProgInfoIter::default().find(|p| p.id == id);
    object
        .progs()
        .filter_map(|p| Some((p.name().to_string_lossy().into_owned(), p.insn_cnt(), info(Program::id_from_fd(p.as_fd()).ok()?)?)))
        .map(|(name, instructions, info)| Verified { name, instructions, followed: info.verified_insns })
        .collect()
}

/// A program's descriptor, for attachments that libbpf-rs does not wrap.
pub(crate) fn descriptor<'a>(program: &'a Program<'_>) -> BorrowedFd<'a> {
    program.as_fd()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_refusal_the_verifiers_last_word_is_told() {
        let log = "libbpf: prog 'receive': -- BEGIN PROG LOAD LOG --\n0: R1=ctx()\n34: (85) call bpf_skc_to_tcp_sock#137\n\
                   program of this type cannot use helper bpf_skc_to_tcp_sock#137\nprocessed 34 insns (limit 1000000)\n\
                   -- END PROG LOAD LOG --\nlibbpf: prog 'receive': failed to load: -EINVAL\n";
        assert_eq!(reason(log), Some("program of this type cannot use helper bpf_skc_to_tcp_sock#137"));
        assert_eq!(reason("libbpf: failed to load object"), None);
        assert_eq!((refused(log), refused("libbpf: failed to load object")), (Some("receive"), None));
    }
}
