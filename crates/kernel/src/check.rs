//! The programs without a group: what the verifier followed of them, and the outgoing one under BPF_PROG_TEST_RUN (a packet in, a packet
//! out, no network). For tests, measurements and `doctor`.

use std::process;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context, Result};
use libbpf_rs::{Object, ProgramInput};

use crate::config::Config;
use crate::load;
use crate::object;
use crate::send_load;
use crate::stats::{Lacking, Verified};

/// What came of trying the sending programs of a group.
#[derive(Clone, Debug)]
pub struct Sending {
    /// The profile that a group would send by: the one that was chosen, or what stands in for it.
    pub by: &'static str,
    /// What loading them took the kernel's verifier.
    pub verified: Vec<Verified>,
    /// What the kernel refuses and a group can do without.
    pub lacking: Vec<Lacking>,
}

/// Loads the sending programs of a group, registers their control and takes it back; they are attached to nothing, so that no connection changes.
///
/// # Errors
/// The kernel refuses them or the control.
pub fn sending(config: &Config) -> Result<Sending> {
    // Another name for each: several may ask at once.
    static ASKED: AtomicU32 = AtomicU32::new(0);
    let name = format!("lt_{}_{}", process::id(), ASKED.fetch_add(1, Ordering::Relaxed));
    let registered = send_load::register_for(config.choice, &name, 0)?;
    Ok(Sending { by: registered.sends_by, verified: object::verified(&registered.object), lacking: registered.lacking })
}

/// Bytes of `struct __sk_buff` up to `gso_size`, and where what a caller may set of a batch stands in it (linux/bpf.h; Linux
/// `net/bpf/test_run.c`, convert___skb_to_skb).
const CONTEXT: usize = 180;
const GSO_SEGS: usize = 164;
const GSO_SIZE: usize = 176;

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
        object::verified(&self.object)
    }

    /// What the outgoing program makes of an Ethernet frame of a flow that may have 2920 bytes in flight.
    ///
    /// # Errors
    /// The kernel cannot run the program on it.
    pub fn transmit(&self, frame: &[u8]) -> Result<Vec<u8>> {
        self.transmit_batch(frame, 0)
    }

    /// The same of a batch that the device will cut into segments of `gso_size` bytes of payload; zero: no batch.
    ///
    /// # Errors
    /// The kernel cannot run the program on it.
    pub fn transmit_batch(&self, frame: &[u8], gso_size: u32) -> Result<Vec<u8>> {
        let program = object::program(&self.object, "transmit_test")?;
        let mut out = vec![0; frame.len() + 256];
        let mut context = [0; CONTEXT];
        if let Some(segments) = (frame.len() as u32).checked_div(gso_size) {
            context[GSO_SEGS..][..4].copy_from_slice(&segments.to_ne_bytes());
            context[GSO_SIZE..][..4].copy_from_slice(&gso_size.to_ne_bytes());
        }
        let input = ProgramInput {
            data_in: Some(frame),
            data_out: Some(&mut out),
            context_in: (gso_size > 0).then_some(&mut context[..]),
            ..ProgramInput::default()
        };
        let output = program.test_run(input).context("the program does not run on this frame")?;
        Ok(output.data.as_deref().map(<[u8]>::to_vec).unwrap_or_default())
    }
}
