//! The states that bpf/control.h shows, by the names that their references in `cc` have.

use lowtide_kernel::Phase;

pub fn name(phase: Phase) -> &'static str {
    match phase {
        Phase::SlowStart => "slow_start",
        Phase::Avoidance => "avoidance",
        Phase::Drain => "drain",
        Phase::Freeze => "freeze",
        Phase::Ramp => "ramp",
        Phase::SlowStartAfterTimeout => "slow_start_after_timeout",
        Phase::Inference => "inference",
        Phase::Alone => "law",
        Phase::Yielding => "floor",
        Phase::Probing => "probe",
    }
}
