//! The states of a path's controller, by the numbers that the C code gives them (`enum control_phase` of bpf/control_events.h). Knows no window.

use serde::{Deserialize, Serialize};

/// The state of a path's control.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// The initial slow start.
    SlowStart,
    /// Congestion avoidance.
    Avoidance,
    /// At a receiver: a slowdown has begun, what was permitted before is still arriving.
    Drain,
    /// Held at two segments so that the queue empties.
    Freeze,
    /// Back to the window of before the slowdown.
    Ramp,
    /// Slow start after a retransmission timeout.
    SlowStartAfterTimeout,
    /// TCP-LP: it has withdrawn, and waits for what that shows.
    Inference,
    /// Our own control: nobody but its kind is on the line.
    Alone,
    /// Our own control: somebody else is on the line.
    Yielding,
    /// Our own control: it looks whether somebody still is.
    Probing,
}

impl Phase {
    /// `enum control_phase` of bpf/control_events.h.
    pub fn from_number(number: u8) -> Phase {
        match number {
            0 => Phase::SlowStart,
            1 => Phase::Avoidance,
            2 => Phase::Drain,
            3 => Phase::Freeze,
            4 => Phase::Ramp,
            5 => Phase::SlowStartAfterTimeout,
            6 => Phase::Inference,
            7 => Phase::Alone,
            8 => Phase::Yielding,
            _ => Phase::Probing,
        }
    }
}
