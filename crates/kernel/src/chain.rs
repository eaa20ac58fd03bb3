//! BPF programs of others at the outgoing side of the interfaces: before which lowtide's goes, and one of which may have been put before it
//! since. By tcx (Linux 6.6); filters of clsact run after them. Changes nothing.

#![expect(unsafe_code, reason = "libbpf-rs has no safe wrapper for bpf_prog_query_opts")]

use anyhow::Result;
use libbpf_rs::query::ProgInfoIter;
use nix::net::if_::if_nameindex;
use serde::Serialize;

use crate::links;

/// More than these on one interface are not told.
const MOST: usize = 64;

/// A program at an interface.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Other {
    /// The interface's name.
    pub interface: String,
    /// The program's name, or its number where it has none.
    pub program: String,
}

/// Those on the interfaces of this network namespace that are up, in the order in which packets meet them; of lowtide's own, none.
///
/// # Errors
/// The interfaces cannot be listed.
pub fn others() -> Result<Vec<Other>> {
    let (up, all) = (links::up()?, if_nameindex()?);
    let mut found = Vec::new();
    for interface in all.iter().filter(|i| up.contains(&i.index())) {
        let name = interface.name().to_string_lossy().into_owned();
        let programs = at(interface.index()).into_iter().map(program_name).filter(|program| !program.starts_with("transmit_"));
        found.extend(programs.map(|program| Other { interface: name.clone(), program }));
    }
    Ok(found)
}

fn program_name(id: u32) -> String {
    let name = ProgInfoIter::default().find(|p| p.id == id).map(|p| p.name.to_string_lossy().into_owned());
    name.filter(|n| !n.is_empty()).unwrap_or_else(|| format!("program {id}"))
}

/// The numbers of the programs at an interface; none where the kernel does not tell.
fn at(index: u32) -> Vec<u32> {
    let mut ids = [0; MOST];
    let mut query = libbpf_sys::bpf_prog_query_opts {
        sz: size_of::<libbpf_sys::bpf_prog_query_opts>() as libbpf_sys::size_t,
        prog_ids: ids.as_mut_ptr(),
        __bindgen_anon_1: libbpf_sys::bpf_prog_query_opts__bindgen_ty_1 { count: MOST as u32 },
        ..Default::default()
    };
    // SAFETY: the kernel writes at most `count` numbers to `prog_ids`; both outlive the call.
    let refused = unsafe { libbpf_sys::bpf_prog_query_opts(index.cast_signed(), libbpf_sys::BPF_TCX_EGRESS, &raw mut query) } < 0;
    // SAFETY: both members of the union are the same number.
    let count = unsafe { query.__bindgen_anon_1.count } as usize;
    if refused { Vec::new() } else { ids[..count.min(MOST)].to_vec() }
}
