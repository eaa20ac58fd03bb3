//! The structs of bpf/send_intf.h as bytes to and from the kernel. Knows no map.

use crate::attach::Config;

/// `struct send_config`: where each field begins.
mod config_at {
    pub(super) const TARGET: usize = 0;
    pub(super) const NAME: usize = 16;
    pub(super) const ALGORITHM: usize = 36;
    pub(super) const ENHANCED: usize = 40;
    pub(super) const OWNED: usize = 41;
    pub(super) const SIZE: usize = 48;
}

/// `struct send_config`.
pub(crate) fn config(config: &Config, name: &str) -> [u8; config_at::SIZE] {
    use config_at::{ALGORITHM, ENHANCED, NAME, OWNED, SIZE, TARGET};
    let (target_ns, profile) = config.target.parts();
    let mut bytes = [0; SIZE];
    bytes[TARGET..TARGET + 8].copy_from_slice(&target_ns.to_ne_bytes());
    bytes[NAME..NAME + name.len()].copy_from_slice(name.as_bytes());
    bytes[ALGORITHM..ALGORITHM + 4].copy_from_slice(&profile.number.to_ne_bytes());
    bytes[ENHANCED] = u8::from(profile.enhanced);
    bytes[OWNED] = 1;
    bytes
}
