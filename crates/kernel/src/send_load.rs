//! The sending BPF object in the kernel: which of its programs, under which name its control. Knows no group.

use std::ffi::OsStr;

use anyhow::{Context, Result, anyhow};
use libbpf_rs::query::{MapInfo, MapInfoIter};
use libbpf_rs::{Link, MapCore, MapFlags, MapHandle, MapType, Object, OpenObject};

use crate::choice::Choice;
use crate::object;
use crate::probe::{has_control_links, has_four_arguments};
use crate::send_wire::{self, NAME_BYTES, Settings};
use crate::stats::Lacking;

/// What clang made of bpf/send.bpf.c for the control of a number.
macro_rules! object {
    ($number:literal) => {
        &object::Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/send_", $number, ".bpf.o")))
    };
}

/// One for each control of bpf/control.h, from number 1.
static OBJECTS: [&object::Aligned<[u8]>; 5] = [object!("1"), object!("2"), object!("3"), object!("4"), object!("5")];

/// The struct_ops map and the name in it, which is replaced.
const CONTROL: &str = "lowtide";
/// The same of a control that paces, for kernels that are without four arguments of `cong_control`.
const OLD_CONTROL: &str = "lowtide_old";

/// BPF_F_LINK: where the kernel has it a registration is a link, which ends with the process; before, it stays until it is taken back.
const LINK_FLAG: u32 = 1 << 13;

/// The object in the kernel, registered and attached nowhere: the programs that `wanted` names, and the control if it wants `send_init`.
pub(crate) fn load(settings: &Settings, wanted: impl Fn(&str) -> bool) -> Result<Object> {
    let number = settings.profile.number as usize;
    let object = OBJECTS.get(number.wrapping_sub(1)).ok_or_else(|| anyhow!("no BPF object has the control {number}"))?;
    let mut open = object::open("lowtide_send", &object.0)?;
    configure(&mut open, settings, wanted("send_init"))?;
    let others = if has_four_arguments() { "send_cong_control_old" } else { "send_cong_control" };
    for mut program in open.progs_mut() {
        let name = program.name().to_string_lossy().into_owned();
        program.set_autoload(wanted(&name) && name != others);
    }
    object::finish(open)
}

/// What a group goes on without: connections that are open already, and what is shown of those that send.
const OPTIONAL: [&str; 5] = [ASKS_TO_PACE, "take_over", "give_back", "reclaim", "report"];
/// It is not left out, but does not ask.
const ASKS_TO_PACE: &str = "send_init";

/// A group's programs in the kernel, and its control known to it.
pub(crate) struct Registered {
    pub(crate) object: Object,
    pub(crate) control: Link,
    /// The profile that it sends by.
    pub(crate) sends_by: &'static str,
    pub(crate) lacking: Vec<Lacking>,
}

/// All that a group has use for, but for what the kernel refuses and a group can do without; its control under `name`. Where the kernel refuses the
/// control that was chosen, the plain one stands in: an upload that yields another way is less bad than one that does not.
pub(crate) fn register_for(choice: Choice, name: &str, cgroup: u64) -> Result<Registered> {
    let refusal = match register_chosen(choice, name, cgroup) {
        Ok(registered) => return Ok(registered),
        Err(refusal) => refusal,
    };
    let Some(plain) = choice.without_its_sender() else { return Err(refusal) };
    // What keeps the plain one out as well is no matter of the control.
    let Ok(mut registered) = register_chosen(plain, name, cgroup) else { return Err(refusal) };
    registered.lacking.insert(0, Lacking { program: choice.sends_by(), why: format!("{refusal:#}") });
    Ok(registered)
}

fn register_chosen(choice: Choice, name: &str, cgroup: u64) -> Result<Registered> {
    let (target_ns, profile) = choice.sending();
    let settings = Settings { name, target_ns, profile, cgroup, owned: true, alone: false, paces: true };
    let optional: Vec<_> = OPTIONAL.into_iter().filter(|program| *program != ASKS_TO_PACE || !profile.paces).collect();
    let (mut object, lacking) = load_as_far(&settings, &optional, |program| program != "users")?;
    object::keep_alive(&object)?;
    let control = register(&mut object).with_context(|| format!("the kernel does not register the control `{name}`"))?;
    Ok(Registered { object, control, sends_by: profile.name, lacking })
}

/// The control alone, which does not ask the kernel to pace where the kernel does not let it.
pub(crate) fn load_control(settings: &Settings) -> Result<(Object, Vec<Lacking>)> {
    let optional: &[_] = if settings.profile.paces { &[] } else { &[ASKS_TO_PACE] };
    load_as_far(settings, optional, |program| program.starts_with("send_"))
}

fn load_as_far(settings: &Settings, optional: &[&'static str], wanted: impl Fn(&str) -> bool) -> Result<(Object, Vec<Lacking>)> {
    object::without_refused(optional, |left_out| {
        let settings = Settings { paces: !left_out.contains(&ASKS_TO_PACE), ..*settings };
        load(&settings, |program| wanted(program) && (program == ASKS_TO_PACE || !left_out.contains(&program)))
    })
}

/// Makes the control known to the kernel.
pub(crate) fn register(object: &mut Object) -> Result<Link> {
    let is = |name: &OsStr, wanted: &str| name == OsStr::new(wanted);
    let has_old = object.maps().any(|m| is(m.name(), OLD_CONTROL));
    let name = if has_old && !has_four_arguments() { OLD_CONTROL } else { CONTROL };
    let map = object.maps_mut().find(|m| is(m.name(), name));
    Ok(map.ok_or_else(|| anyhow!("the BPF object has no control `{name}`"))?.attach_struct_ops()?)
}

/// Takes controls of ours back that `is_meant` recognises by their `struct tcp_congestion_ops`: before Linux 6.4 whoever has the struct_ops map
/// may.
pub(crate) fn unregister(is_meant: impl Fn(&[u8]) -> bool) {
    let ours = |info: &MapInfo| info.ty == MapType::StructOps && (info.name == CONTROL || info.name == OLD_CONTROL);
    for info in MapInfoIter::default().filter(ours) {
        // It may go at any moment, by another run's hand.
        let Ok(map) = MapHandle::from_map_id(info.id) else { continue };
        let key = 0u32.to_ne_bytes();
        if map.lookup(&key, MapFlags::ANY).ok().flatten().is_some_and(|control| is_meant(&control)) {
            let _gone = map.delete(&key);
        }
    }
}

fn configure(open: &mut OpenObject, settings: &Settings, control: bool) -> Result<()> {
    let has_old = open.maps().any(|m| m.name() == OsStr::new(OLD_CONTROL));
    let wanted = if has_old && !has_four_arguments() { OLD_CONTROL } else { CONTROL };
    for mut map in open.maps_mut() {
        let called = map.name().to_string_lossy().into_owned();
        if called.ends_with(".rodata.config") {
            map.set_initial_value(&send_wire::config(settings)).context("the configuration cannot be written into the BPF object")?;
        } else if called == CONTROL || called == OLD_CONTROL {
            map.set_autocreate(control && called == wanted)?;
            let value = map.initial_value_mut().ok_or_else(|| anyhow!("the control `{CONTROL}` has no value"))?;
            rename(value, settings.name)?;
            if has_control_links() {
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
