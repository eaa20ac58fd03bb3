//! The congestion controls that a laboratory's servers send with and the kernel lacks: there while it runs, gone afterwards.

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use lowtide_kernel::controls::{Held, Known};
use lowtide_lab::plan;
use lowtide_scenario::Scenario;

/// Those that were loaded; dropped, they are taken back.
pub struct Controls {
    _held: Vec<Held>,
}

impl Controls {
    /// Loads those of `scenarios` that are lowtide's own and not there.
    ///
    /// # Errors
    /// The kernel refuses one.
    pub fn load<'a>(scenarios: impl Iterator<Item = &'a Scenario>) -> Result<Controls> {
        let flows = scenarios.flat_map(|s| &s.flows).filter(|f| f.count > 0);
        let names: BTreeSet<&str> = flows.map(|f| plan::kernel_name(&f.cc)).collect();
        let load = |known: &Known| known.hold().with_context(|| format!("loading the congestion control {}", known.name)).transpose();
        let held = names.into_iter().filter_map(|name| Known::by_name(name).ok()).filter_map(load);
        Ok(Controls { _held: held.collect::<Result<_>>()? })
    }
}
