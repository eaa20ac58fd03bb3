//! The sending BPF object in the kernel: which of its programs, under which name its control. Knows no group.

use std::ffi::OsStr;

use anyhow::{Context, Result, anyhow};
use libbpf_rs::{Link, MapCore, Object, OpenObject};

use crate::features;
use crate::load;
use crate::send_wire::{self, NAME_BYTES, Settings};

/// What clang made of bpf/send.bpf.c.
static OBJECT: &load::Aligned<[u8]> = &load::Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/send.bpf.o")));

/// The struct_ops map and the name in it, which is replaced.
pub(crate) const CONTROL: &str = "lowtide";

/// BPF_F_LINK: since Linux 6.4 a registration is a link, which ends with the process; before, it stays until it is taken back.
const LINK_FLAG: u32 = 1 << 13;

/// Whether a registration is a link.
pub(crate) fn has_links() -> bool {
    features::kernel_version() >= (6, 4)
}

/// The object in the kernel, registered and attached nowhere: the programs that `wanted` names, and the control if it wants `lowtide_init`.
pub(crate) fn load(settings: &Settings, wanted: impl Fn(&str) -> bool) -> Result<Object> {
    let mut open = load::open("lowtide_send", &OBJECT.0)?;
    configure(&mut open, settings, wanted("lowtide_init"))?;
    for mut program in open.progs_mut() {
        let wanted = wanted(&program.name().to_string_lossy());
        program.set_autoload(wanted);
    }
    load::finish(open)
}

/// Makes the control known to the kernel.
pub(crate) fn register(object: &mut Object) -> Result<Link> {
    let map = object.maps_mut().find(|m| m.name() == OsStr::new(CONTROL));
    Ok(map.ok_or_else(|| anyhow!("the BPF object has no control `{CONTROL}`"))?.attach_struct_ops()?)
}

fn configure(open: &mut OpenObject, settings: &Settings, control: bool) -> Result<()> {
    for mut map in open.maps_mut() {
        let called = map.name().to_string_lossy().into_owned();
        if called.ends_with(".rodata.config") {
            map.set_initial_value(&send_wire::config(settings)).context("the configuration cannot be written into the BPF object")?;
        } else if called == CONTROL {
            map.set_autocreate(control)?;
            let value = map.initial_value_mut().ok_or_else(|| anyhow!("the control `{CONTROL}` has no value"))?;
            rename(value, settings.name)?;
            if has_links() {
                map.set_map_flags(LINK_FLAG)?;
            }
        }
    }
    Ok(())
}

/// Writes `name` where the control has its own.
fn rename(value: &mut [u8], name: &str) -> Result<()> {
    let old = send_wire::name(CONTROL);
    let at = value.windows(NAME_BYTES).position(|w| w == old).ok_or_else(|| anyhow!("the control `{CONTROL}` has another name"))?;
    value[at..at + NAME_BYTES].copy_from_slice(&send_wire::name(name));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_name_is_replaced() {
        let mut value = [7u8; 40];
        value[4..20].copy_from_slice(b"lowtide\0\0\0\0\0\0\0\0\0");
        rename(&mut value, "lowtide_417").expect("it is there");
        assert_eq!(&value[4..20], b"lowtide_417\0\0\0\0\0");
        assert!(value[..4].iter().chain(&value[20..]).all(|b| *b == 7));
    }
}
