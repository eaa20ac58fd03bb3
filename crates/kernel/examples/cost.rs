//! What each of lowtide's programs cost the kernel a call, from its start until its standard input ends, as JSON. The kernel
//! counts only while it is asked to; the descriptor that asks goes with this process, so no setting of the machine changes.
//!
//! With the name of an interface it also runs a program there that does nothing (`nothing`, on tcx egress): what the count
//! itself costs on this machine, among the same packets.

#![expect(unsafe_code, reason = "libbpf-rs does not wrap BPF_ENABLE_STATS")]

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::os::fd::{FromRawFd, OwnedFd};

use anyhow::{Context, Result};
use libbpf_rs::query::ProgInfoIter;
use lowtide_kernel::other_program::{OtherProgram, Verdict};

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

#[expect(clippy::print_stdout, reason = "an example prints")]
fn main() -> Result<()> {
    // SAFETY: the argument is one of the enumeration's values.
    let counting = unsafe { libbpf_sys::bpf_enable_stats(libbpf_sys::BPF_STATS_RUN_TIME) };
    let _counting = owned(counting, "the kernel does not count (CAP_SYS_ADMIN)")?;
    let _nothing = std::env::args().nth(1).map(|interface| OtherProgram::attach(&interface, Verdict::Next)).transpose()?;
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
