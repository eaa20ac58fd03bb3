//! What this kernel has of what came after Linux 5.15, where programs and loader differ by it. From the version on it is there; a
//! distribution may have ported it back to an older one, whose type information (BTF) tells. Changes nothing.

use std::fs;
use std::sync::OnceLock;

use libbpf_rs::btf::types::{Enum, FuncProto, Ptr, Struct};
use libbpf_rs::btf::{Btf, ReferencesType};

/// The kernel's version as (major, minor).
pub(crate) fn version() -> (u32, u32) {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let mut parts = release.split(|c: char| !c.is_ascii_digit()).map(|n| n.parse().unwrap_or(0));
    (parts.next().unwrap_or(0), parts.next().unwrap_or(0))
}

/// Whether programs attach to interfaces by tcx, since Linux 6.6; else by clsact.
pub(crate) fn has_tcx() -> bool {
    static FOUND: OnceLock<bool> = OnceLock::new();
    *FOUND.get_or_init(|| version() >= (6, 6) || in_types(knows_tcx))
}

/// Whether the registration of a congestion control may be a link, which ends with its owner, since Linux 6.4; else it stays until it is taken back.
pub(crate) fn has_control_links() -> bool {
    static FOUND: OnceLock<bool> = OnceLock::new();
    *FOUND.get_or_init(|| version() >= (6, 4) || in_types(knows_control_links))
}

/// Whether a control's `cong_control` has four arguments, since Linux 6.10; else two.
pub(crate) fn has_four_arguments() -> bool {
    static FOUND: OnceLock<bool> = OnceLock::new();
    *FOUND.get_or_init(|| version() >= (6, 10) || in_types(knows_four_arguments))
}

fn in_types(has: impl Fn(&Btf<'_>) -> bool) -> bool {
    Btf::from_vmlinux().is_ok_and(|types| has(&types))
}

fn knows_tcx(types: &Btf<'_>) -> bool {
    let kinds = types.type_by_name::<Enum<'_>>("bpf_attach_type");
    kinds.is_some_and(|kinds| kinds.iter().any(|kind| kind.name.is_some_and(|name| name == "BPF_TCX_EGRESS")))
}

fn knows_control_links(types: &Btf<'_>) -> bool {
    types.type_by_name::<Struct<'_>>("bpf_struct_ops_link").is_some()
}

fn knows_four_arguments(types: &Btf<'_>) -> bool {
    let arguments = |operation: &str| {
        let operations = types.type_by_name::<Struct<'_>>("tcp_congestion_ops")?;
        let member = operations.iter().find(|member| member.name.is_some_and(|name| name == operation))?;
        let pointer: Ptr<'_> = types.type_by_id(member.ty)?;
        let function: FuncProto<'_> = types.type_by_id(pointer.referenced_type().type_id())?;
        Some(function.len())
    };
    arguments("cong_control") == Some(4)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of kernels whose version says that it is there, the type information says so too.
    #[test]
    fn what_a_version_has_is_found_in_its_types() {
        let Ok(types) = Btf::from_vmlinux() else { return lowtide_testing::skip("what a kernel has", "it tells no types (BTF)") };
        for (since, knows) in [((6, 6), knows_tcx as fn(&Btf<'_>) -> bool), ((6, 4), knows_control_links), ((6, 10), knows_four_arguments)]
        {
            assert!(version() < since || knows(&types), "Linux {version:?} and {since:?}", version = version());
        }
    }
}
