//! What `lowtide run` holds back in the laboratory, held back in the simulator. Knows scenarios, and what `lowtide run` uses by default.

use lowtide_kernel::Choice;
use lowtide_scenario::Scenario;
use lowtide_scenario::scenario::{Direction, Kind, Receiver};

/// The simulator's scenario for one of the laboratory's: a managed download has the receiver whose code the kernel runs, a managed upload
/// the algorithm that the kernel's control is tested against. The simulator refuses a target that is a delay.
pub fn held_back(mut scenario: Scenario) -> Scenario {
    for flow in scenario.flows.iter_mut().filter(|f| f.lab.lowtide && f.kind == Kind::Tcp) {
        let by_default = Choice::default();
        let target = flow.lab.target.as_deref();
        if flow.direction == Direction::Reverse {
            // A sender has no use for the profiles that keep the time of a burst free: the kernel leaves that out as well.
            let target = target.unwrap_or(by_default.sends_by());
            flow.cc = target.strip_suffix("-burst").unwrap_or(target).to_owned();
            continue;
        }
        let target = target.unwrap_or(by_default.receives_by());
        flow.kind = Kind::Rledbat;
        flow.receiver = Some(Receiver { algorithm: format!("{target}:kernel"), params: Default::default() });
    }
    scenario
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_managed_is_held_back_by_its_own_target_and_nothing_else_is() {
        let text = r#"
            duration_s = 3.0
            topology = { kind = "dumbbell", rate_mbps = 20.0, rtt_ms = 20.0, queue = { kind = "drop_tail", ms = 500.0 } }
            [[flows]]
            name = "down"
            cc = "cubic"
            lab = { lowtide = true }
            [[flows]]
            name = "up"
            cc = "cubic"
            direction = "reverse"
            lab = { lowtide = true }
            [[flows]]
            name = "pacing"
            cc = "cubic"
            direction = "reverse"
            lab = { lowtide = true, target = "lowtide" }
            [[flows]]
            name = "theirs"
            cc = "cubic"
        "#;
        let scenario = held_back(Scenario::parse(text).expect("a scenario"));
        let receivers: Vec<_> = scenario.flows.iter().map(|f| f.receiver.as_ref().map(|r| r.algorithm.as_str())).collect();
        let by_default = Choice::default();
        assert_eq!(receivers, [Some(format!("{}:kernel", by_default.receives_by()).as_str()), None, None, None]);
        let controls: Vec<_> = scenario.flows.iter().map(|f| f.cc.as_str()).collect();
        assert_eq!(controls, ["cubic", by_default.sends_by().trim_end_matches("-burst"), "lowtide", "cubic"]);
        lowtide_sim::run(&scenario, 1, false).expect("the simulator knows every one of them");
    }
}
