//! A running sender: a congestion control of a group's own, registered with the kernel and given to its connections; dropping it
//! gives them back. Knows no interface and nothing of the receiver.

use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::process;

use anyhow::{Context, Result, anyhow};
use libbpf_rs::{Link, MapCore, MapFlags, Object, OpenObject};

use crate::attach::Config;
use crate::load;
use crate::probe;
use crate::send_wire;
use crate::wire;

/// What clang made of bpf/send.bpf.c.
static OBJECT: &load::Aligned<[u8]> = &load::Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/send.bpf.o")));

/// The struct_ops map and the name in it, which each run replaces by its own.
const CONTROL: &str = "lowtide";

/// `TCP_CA_NAME_MAX`, its final zero included.
const NAME_BYTES: usize = 16;

/// BPF_F_LINK: since Linux 6.4 a registration is a link, which ends with the process; before, it stays until it is taken back.
const LINK_FLAG: u32 = 1 << 13;

/// The sender at work on one cgroup. Dropping it gives its connections back and takes everything away.
#[derive(Debug)]
pub struct Sender {
    // Dropped in this order: first no connection is given the control any more, then it is taken back.
    _choosers: Vec<Link>,
    _control: Link,
    object: Object,
    name: String,
}

impl Sender {
    /// Registers a control named after this process, and attaches what gives it to the connections of `cgroup`.
    ///
    /// # Errors
    /// The kernel refuses a program or the control, or its attachment.
    pub fn attach(cgroup: &Path, config: &Config) -> Result<Sender> {
        let name = format!("lowtide_{}", process::id());
        let mut object = open(config, &name)?;
        keep_alive(&object)?;
        let control = register(&mut object).with_context(|| format!("the kernel does not register the control `{name}`"))?;
        let attached = ["choose", "refuse"].map(|name| {
            attach_program(&mut object, name, cgroup)
                .with_context(|| format!("{}: the kernel does not attach `{name}` to this cgroup", cgroup.display()))
        });
        let choosers = attached.into_iter().collect::<Result<Vec<Link>>>()?;
        Ok(Sender { _choosers: choosers, _control: control, object, name })
    }

    /// The control's name, as `ss -ti` and getsockopt show it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Tells the control, which sockets keep when we are killed, that we have not been. Call it about once a second.
    ///
    /// # Errors
    /// The kernel refuses to write its map.
    pub fn keep_alive(&self) -> Result<()> {
        keep_alive(&self.object)
    }
}

fn register(object: &mut Object) -> Result<Link> {
    let map = object.maps_mut().find(|m| m.name() == OsStr::new(CONTROL));
    Ok(map.ok_or_else(|| anyhow!("the BPF object has no control `{CONTROL}`"))?.attach_struct_ops()?)
}

fn attach_program(object: &mut Object, name: &str, cgroup: &Path) -> Result<Link> {
    let dir = File::open(cgroup)?;
    let program = object.progs_mut().find(|p| p.name() == OsStr::new(name));
    Ok(program.ok_or_else(|| anyhow!("the BPF object has no program `{name}`"))?.attach_cgroup(dir.as_raw_fd())?)
}

fn keep_alive(object: &Object) -> Result<()> {
    let map = object.maps().find(|m| m.name().to_string_lossy().ends_with(".data.alive"));
    let map = map.ok_or_else(|| anyhow!("the BPF object has no sign of life"))?;
    map.update(&0u32.to_ne_bytes(), &wire::monotonic_now().to_ne_bytes(), MapFlags::ANY).context("the sign of life cannot be written")
}

/// The object in the kernel, registered and attached nowhere.
fn open(config: &Config, name: &str) -> Result<Object> {
    let mut open = load::open("lowtide_send", &OBJECT.0)?;
    configure(&mut open, config, name)?;
    load::finish(open)
}

fn configure(open: &mut OpenObject, config: &Config, name: &str) -> Result<()> {
    for mut map in open.maps_mut() {
        let called = map.name().to_string_lossy().into_owned();
        if called.ends_with(".rodata.config") {
            map.set_initial_value(&send_wire::config(config, name)).context("the configuration cannot be written into the BPF object")?;
        } else if called == CONTROL {
            let value = map.initial_value_mut().ok_or_else(|| anyhow!("the control `{CONTROL}` has no value"))?;
            rename(value, name)?;
            if probe::kernel_version() >= (6, 4) {
                map.set_map_flags(LINK_FLAG)?;
            }
        }
    }
    Ok(())
}

/// Writes `name` where the control has its own.
fn rename(value: &mut [u8], name: &str) -> Result<()> {
    let mut old = [0; NAME_BYTES];
    old[..CONTROL.len()].copy_from_slice(CONTROL.as_bytes());
    let at = value.windows(NAME_BYTES).position(|w| w == old).ok_or_else(|| anyhow!("the control `{CONTROL}` has another name"))?;
    let field = &mut value[at..at + NAME_BYTES];
    field.fill(0);
    field[..name.len().min(NAME_BYTES - 1)].copy_from_slice(&name.as_bytes()[..name.len().min(NAME_BYTES - 1)]);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_process_number_fits_the_kernels_name() {
        assert!(format!("lowtide_{}", 4_194_304).len() < NAME_BYTES); // PID_MAX_LIMIT, proc(5)
    }

    #[test]
    fn only_the_name_is_replaced() {
        let mut value = [7u8; 40];
        value[4..20].copy_from_slice(b"lowtide\0\0\0\0\0\0\0\0\0");
        rename(&mut value, "lowtide_417").expect("it is there");
        assert_eq!(&value[4..20], b"lowtide_417\0\0\0\0\0");
        assert!(value[..4].iter().chain(&value[20..]).all(|b| *b == 7));
    }
}
