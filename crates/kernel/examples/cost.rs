//! What each of lowtide's programs cost the kernel a call, from its start until its standard input ends, as JSON. The kernel
//! counts only while it is asked to; the descriptor that asks goes with this process, so no setting of the machine changes.
//!
//! With the name of an interface it also runs a program there that does nothing (`nothing`, on tcx egress): what the count
//! itself costs on this machine, among the same packets.

#![expect(unsafe_code, reason = "libbpf-rs does not wrap BPF_ENABLE_STATS")]

use std::collections::BTreeMap;
use std::ffi::CStr;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr;

use anyhow::{Context, Result};
use libbpf_rs::query::ProgInfoIter;
use nix::net::if_::if_nametoindex;

/// Calls and ns of each program by name, summed over the runs that are alive.
type Costs = BTreeMap<String, (u64, u64)>;

fn costs() -> Costs {
    let mut sum = Costs::new();
    for program in ProgInfoIter::default() {
        let name = program.name.to_string_lossy().into_owned();
        if ["receive", "transmit_tcx", "transmit_clsact", "connection", "nothing"].iter().any(|n| n.starts_with(&name)) {
            let (calls, ns) = sum.entry(name).or_default();
            *calls += program.run_cnt;
            *ns += program.run_time_ns;
        }
    }
    sum
}

/// A descriptor that libbpf just made for us, or why there is none.
fn owned(fd: i32, what: &str) -> Result<OwnedFd> {
    (fd >= 0).then_some(()).with_context(|| format!("{what}: {}", io::Error::from_raw_os_error(-fd)))?;
    // SAFETY: it is open, and nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Runs `r0 = -1 (TCX_NEXT); exit` for each packet that leaves by the interface, until both descriptors are closed.
fn nothing_at(interface: &str) -> Result<[OwnedFd; 2]> {
    const NAME: &CStr = c"nothing";
    const LICENSE: &CStr = c"GPL";
    let insn = |code: u32, imm: i32| libbpf_sys::bpf_insn { code: code as u8, imm, ..Default::default() };
    let program =
        [insn(libbpf_sys::BPF_ALU64 | libbpf_sys::BPF_MOV | libbpf_sys::BPF_K, -1), insn(libbpf_sys::BPF_JMP | libbpf_sys::BPF_EXIT, 0)];
    let index = if_nametoindex(interface).with_context(|| format!("there is no interface `{interface}` here"))?;
    // SAFETY: the strings end in zero, the instructions live through the call, no options are given.
    let program = unsafe {
        libbpf_sys::bpf_prog_load(
            libbpf_sys::BPF_PROG_TYPE_SCHED_CLS,
            NAME.as_ptr(),
            LICENSE.as_ptr(),
            program.as_ptr(),
            program.len() as u64,
            ptr::null_mut(),
        )
    };
    let program = owned(program, "an empty program does not load")?;
    // SAFETY: a descriptor of ours, an interface's index, no options.
    let link = unsafe { libbpf_sys::bpf_link_create(program.as_raw_fd(), index.cast_signed(), libbpf_sys::BPF_TCX_EGRESS, ptr::null()) };
    Ok([owned(link, "an empty program does not attach (tcx: Linux 6.6 or later)")?, program])
}

#[expect(clippy::print_stdout, reason = "an example prints")]
fn main() -> Result<()> {
    // SAFETY: the argument is one of the enumeration's values.
    let counting = unsafe { libbpf_sys::bpf_enable_stats(libbpf_sys::BPF_STATS_RUN_TIME) };
    let _counting = owned(counting, "the kernel does not count (CAP_SYS_ADMIN)")?;
    let _nothing = std::env::args().nth(1).map(|interface| nothing_at(&interface)).transpose()?;
    let before = costs();
    let _any = io::stdin().read_to_end(&mut Vec::new());
    let each: Vec<String> = costs()
        .into_iter()
        .map(|(name, (calls, ns))| {
            let (calls_before, ns_before) = before.get(&name).copied().unwrap_or_default();
            let calls = calls - calls_before;
            let mean = if calls > 0 { (ns - ns_before) as f64 / calls as f64 } else { 0.0 };
            format!("\"{name}\": {{\"calls\": {calls}, \"ns\": {mean:.1}}}")
        })
        .collect();
    println!("{{{}}}", each.join(", "));
    Ok(())
}
