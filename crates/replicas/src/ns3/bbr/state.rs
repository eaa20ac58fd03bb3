//! The states that ns-3.37's `TcpBbr` and its socket are in. Plain data.

/// `BbrMode_t`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Mode {
    Startup,
    Drain,
    ProbeBw,
    ProbeRtt,
}

impl Mode {
    pub(super) fn name(self) -> &'static str {
        match self {
            Mode::Startup => "startup",
            Mode::Drain => "drain",
            Mode::ProbeBw => "probe_bw",
            Mode::ProbeRtt => "probe_rtt",
        }
    }
}

/// What the socket's state machine is in.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Socket {
    Open,
    /// A loss was told; the next acknowledgement is the one that told it.
    Entering,
    Recovery,
}
