//! The programs without a group: what the verifier followed of them, and the outgoing one under BPF_PROG_TEST_RUN (a packet in, a packet
//! out, no network). For tests, measurements and `doctor`.

use std::process;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context, Result};
use libbpf_rs::{Object, ProgramInput};

use crate::config::Config;
use crate::load;
use crate::send_load;
use crate::send_wire::Settings;
use crate::stats::{Lacking, Verified};

/// What loading the sending programs of a group took the kernel's verifier. Their control is registered and taken back; they are attached
/// to nothing, so that no connection changes. With the programs that it can do without and that the kernel refuses.
///
/// # Errors
/// The kernel refuses them or the control.
pub fn sending_verified(config: &Config) -> Result<(Vec<Verified>, Vec<Lacking>)> {
    // Another name for each: several may ask at once.
    static ASKED: AtomicU32 = AtomicU32::new(0);
    let name = format!("lt_{}_{}", process::id(), ASKED.fetch_add(1, Ordering::Relaxed));
    let (target_ns, profile) = config.choice.sending();
    let settings = Settings { name: &name, target_ns, profile, cgroup: 0, owned: true, alone: false };
    let (mut object, lacking) = send_load::load_what_there_is(&settings)?;
    let _registered = send_load::register(&mut object).with_context(|| format!("the kernel does not register the control `{name}`"))?;
    Ok((load::verified(&object), lacking))
}

/// The programs in the kernel, attached to nothing.
#[derive(Debug)]
pub struct Bench {
    object: Object,
}

impl Bench {
    /// Loads them.
    ///
    /// # Errors
    /// The kernel refuses them.
    pub fn load(config: &Config) -> Result<Bench> {
        Ok(Bench { object: load::load(config, &[], true)? })
    }

    /// What loading them took the kernel's verifier.
    pub fn verified(&self) -> Vec<Verified> {
        load::verified(&self.object)
    }

    /// What the outgoing program makes of an Ethernet frame of a flow that may have 2920 bytes in flight.
    ///
    /// # Errors
    /// The kernel cannot run the program on it.
    pub fn transmit(&self, frame: &[u8]) -> Result<Vec<u8>> {
        let program = load::program(&self.object, "transmit_test")?;
        let mut out = vec![0; frame.len() + 256];
        let input = ProgramInput { data_in: Some(frame), data_out: Some(&mut out), ..ProgramInput::default() };
        let output = program.test_run(input).context("the program does not run on this frame")?;
        Ok(output.data.as_deref().map(<[u8]>::to_vec).unwrap_or_default())
    }
}
