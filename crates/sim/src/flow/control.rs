//! A flow's congestion control, built when the flow begins. Knows the registries, no packets.

use std::fmt;

use lowtide_cc::{Controller, ParamError, Start};
use lowtide_replicas::Built;
use lowtide_units::{Span, Time};

use super::FlowSpec;

impl FlowSpec {
    /// What a control that begins at `now` is told.
    pub(super) fn start_at(&self, handshake_rtt: Option<Span>, now: Time) -> Start {
        Start { now, mss: self.wire.mss, initial_window: self.initial_window, handshake_rtt, seed: self.seed }
    }

    /// TCP's control.
    pub(super) fn control(&self, start: &Start) -> Result<Built, ParamError> {
        lowtide_replicas::by_name(&self.cc).map_err(|e| self.refused(e))?.build(&self.params, start)
    }

    /// uTP's control.
    pub(super) fn controller(&self, now: Time) -> Result<Box<dyn Controller>, ParamError> {
        self.control(&self.start_at(None, now))?.into_controller().map_err(|unfit| self.refused(unfit))
    }

    /// The control cannot be had.
    pub(super) fn refused(&self, reason: impl fmt::Display) -> ParamError {
        ParamError { algorithm: self.cc.clone(), reason: reason.to_string() }
    }
}
