//! A program of somebody else at the outgoing side of an interface, as lowtide may meet one. For tests and measurements.

#![expect(unsafe_code, reason = "libbpf-rs does not load bare instructions")]

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr;

use anyhow::{Context, Result};
use nix::net::if_::if_nametoindex;

/// What it does with each packet.
#[derive(Clone, Copy, Debug)]
pub enum Verdict {
    /// `TCX_NEXT`: nothing.
    Next,
    /// `TCX_PASS` (`TC_ACT_OK`): the packet leaves, later programs do not see it.
    Pass,
    /// `bpf_redirect` to the interface of that index: later programs do not see it here.
    Redirect(u32),
}

/// An attached program, until it is dropped.
#[derive(Debug)]
pub struct OtherProgram {
    _link: OwnedFd,
    _program: OwnedFd,
}

impl OtherProgram {
    /// Attaches it to `interface` of this thread's network namespace by tcx (Linux 6.6), as the first of the programs there.
    ///
    /// # Errors
    /// No such interface, or the kernel refuses.
    pub fn attach(interface: &str, verdict: Verdict) -> Result<OtherProgram> {
        const NAME: &CStr = c"nothing";
        const LICENSE: &CStr = c"GPL";
        let index = if_nametoindex(interface).with_context(|| format!("there is no interface `{interface}` here"))?;
        let code = instructions(verdict);
        // SAFETY: the strings end in zero, the instructions live through the call, no options are given.
        let program = unsafe {
            libbpf_sys::bpf_prog_load(
                libbpf_sys::BPF_PROG_TYPE_SCHED_CLS,
                NAME.as_ptr(),
                LICENSE.as_ptr(),
                code.as_ptr(),
                code.len() as u64,
                ptr::null_mut(),
            )
        };
        let program = owned(program, "the program does not load")?;
        let options = libbpf_sys::bpf_link_create_opts {
            sz: size_of::<libbpf_sys::bpf_link_create_opts>() as libbpf_sys::size_t,
            flags: libbpf_sys::BPF_F_BEFORE,
            ..Default::default()
        };
        // SAFETY: a descriptor of ours, an interface's index, options that outlive the call and tell their size.
        let link = unsafe {
            libbpf_sys::bpf_link_create(program.as_raw_fd(), index.cast_signed(), libbpf_sys::BPF_TCX_EGRESS, &raw const options)
        };
        Ok(OtherProgram { _link: owned(link, "the program does not attach (tcx: Linux 6.6 or later)")?, _program: program })
    }
}

fn instructions(verdict: Verdict) -> Vec<libbpf_sys::bpf_insn> {
    const REDIRECT: i32 = 23; // bpf_redirect(ifindex, flags)
    let insn = |code: u32, register: u8, imm: i32| {
        let mut insn = libbpf_sys::bpf_insn { code: code as u8, imm, ..Default::default() };
        insn.set_dst_reg(register);
        insn
    };
    let set = |register, value| insn(libbpf_sys::BPF_ALU64 | libbpf_sys::BPF_MOV | libbpf_sys::BPF_K, register, value);
    let end = insn(libbpf_sys::BPF_JMP | libbpf_sys::BPF_EXIT, 0, 0);
    match verdict {
        Verdict::Next => vec![set(0, -1), end],
        Verdict::Pass => vec![set(0, 0), end],
        Verdict::Redirect(index) => {
            vec![set(1, index.cast_signed()), set(2, 0), insn(libbpf_sys::BPF_JMP | libbpf_sys::BPF_CALL, 0, REDIRECT), end]
        }
    }
}

/// A descriptor that libbpf just made for us, or why there is none.
fn owned(fd: i32, what: &str) -> Result<OwnedFd> {
    (fd >= 0).then_some(()).with_context(|| format!("{what}: {}", io::Error::from_raw_os_error(-fd)))?;
    // SAFETY: it is open, and nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}
