//! A scenario times its sweeps and repetitions. Knows no files and no simulator.

use std::str::FromStr;

use anyhow::{Result, bail};
use lowtide_scenario::{Scenario, scenario};

/// `KEY=VALUE` of the command line.
#[derive(Clone, Debug, PartialEq)]
pub struct Assignment {
    /// Where: `topology.rtt_ms`.
    pub key: String,
    text: String,
}

impl FromStr for Assignment {
    type Err = String;

    fn from_str(text: &str) -> Result<Assignment, String> {
        match text.split_once('=') {
            Some((key, value)) if !key.trim().is_empty() && !value.trim().is_empty() => {
                Ok(Assignment { key: key.trim().to_owned(), text: value.trim().to_owned() })
            }
            _ => Err("write it as KEY=VALUE, for example topology.rtt_ms=50".to_owned()),
        }
    }
}

impl Assignment {
    /// The value: a TOML value where it is one, else the text itself.
    pub fn value(&self) -> toml::Value {
        scenario::value(&self.text)
    }

    /// The values of a sweep, separated by commas that are not inside brackets or quotes.
    fn values(&self) -> Vec<&str> {
        let (mut depth, mut quoted, mut from, mut values) = (0_i32, false, 0, Vec::new());
        for (at, c) in self.text.char_indices() {
            match c {
                '"' => quoted = !quoted,
                '{' | '[' if !quoted => depth += 1,
                '}' | ']' if !quoted => depth -= 1,
                ',' if !quoted && depth == 0 => {
                    values.push(self.text[from..at].trim());
                    from = at + 1;
                }
                _ => {}
            }
        }
        values.push(self.text[from..].trim());
        values
    }
}

/// One run.
#[derive(Clone, Debug)]
pub struct Run {
    /// What distinguishes it: `topology.rtt_ms=50 seed=2`.
    pub name: String,
    /// The scenario with its values set.
    pub scenario: Scenario,
    /// Its seed.
    pub seed: u64,
}

impl Run {
    /// Its folder below the sweep's.
    pub fn folder(&self) -> String {
        self.name.chars().map(|c| if c.is_alphanumeric() || "=.-_".contains(c) { c } else { '_' }).collect()
    }
}

/// The most runs at once: each is held in memory from the start.
const MOST_RUNS: u64 = 1_000_000;

/// All combinations of the sweeps' values, each `repeat` times.
///
/// # Errors
/// A key or value that the scenario does not take, or one that is given twice.
pub fn expand(scenario: &Scenario, sweeps: &[Assignment], repeat: u64) -> Result<Vec<Run>> {
    for (n, sweep) in sweeps.iter().enumerate() {
        if sweeps[..n].iter().any(|before| before.key == sweep.key) {
            bail!("--sweep {}: is swept twice; give all its values at once", sweep.key);
        }
        let values = sweep.values();
        if let Some(again) = (1..values.len()).find(|&i| values[..i].contains(&values[i]) || values[i].is_empty()) {
            bail!("--sweep {}: `{}` is empty or stands there twice; use --repeat for more seeds", sweep.key, values[again]);
        }
    }
    let runs = sweeps.iter().map(|sweep| sweep.values().len() as u64).fold(repeat.max(1), u64::saturating_mul);
    if runs > MOST_RUNS {
        bail!("{runs} runs: at most {MOST_RUNS} at once; sweep fewer values or repeat less");
    }
    let mut variants = vec![(String::new(), scenario.clone())];
    for sweep in sweeps {
        let mut wider = Vec::new();
        for (name, variant) in &variants {
            for value in sweep.values() {
                let name = format!("{name}{}={value} ", sweep.key);
                wider.push((name, variant.with(&sweep.key, scenario::value(value))?));
            }
        }
        variants = wider;
    }
    let runs = variants.into_iter().flat_map(|(name, scenario)| {
        (0..repeat.max(1)).map(move |n| {
            let seed = scenario.seed.wrapping_add(n);
            Run { name: format!("{name}seed={seed}"), scenario: scenario.clone(), seed }
        })
    });
    Ok(runs.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scenario() -> Scenario {
        Scenario::parse(
            "duration_s = 1.0\n[topology]\nkind = \"dumbbell\"\nrate_mbps = 20.0\nrtt_ms = 20.0\n\
             queue = { kind = \"drop_tail\", ms = 50 }\n[[flows]]\nname = \"a\"\ncc = \"cubic\"\n",
        )
        .unwrap_or_else(|e| panic!("{e}"))
    }

    fn sweep(text: &str) -> Assignment {
        text.parse().unwrap_or_else(|e| panic!("{e}"))
    }

    #[test]
    fn sweeps_multiply_and_repeats_count_the_seed_up() {
        let sweeps = [sweep("topology.rtt_ms=10,20,30"), sweep("flows.a.cc=cubic,ledbat_pp")];
        let runs = expand(&scenario(), &sweeps, 2).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(runs.len(), 12);
        assert_eq!(runs[3].name, "topology.rtt_ms=10 flows.a.cc=ledbat_pp seed=2");
        assert_eq!(runs[3].scenario.flows[0].cc, "ledbat_pp");
        assert_eq!(runs[3].folder(), "topology.rtt_ms=10_flows.a.cc=ledbat_pp_seed=2");
    }

    #[test]
    fn a_comma_inside_a_table_does_not_separate() {
        let queues = sweep("topology.queue={ kind = \"drop_tail\", ms = 10 },{ kind = \"drop_tail\", ms = 20 }");
        assert_eq!(queues.values().len(), 2);
        assert_eq!(expand(&scenario(), &[queues], 1).unwrap_or_else(|e| panic!("{e}")).len(), 2);
    }

    #[test]
    fn nothing_is_swept_twice() {
        for sweeps in [vec![sweep("topology.rtt_ms=10,20,10")], vec![sweep("topology.rtt_ms=10"), sweep("topology.rtt_ms=20")]] {
            let message = expand(&scenario(), &sweeps, 1).expect_err("twice").to_string();
            assert!(message.contains("topology.rtt_ms") && message.contains("twice"), "{message}");
        }
    }

    #[test]
    fn what_is_no_assignment_is_refused_with_an_example() {
        let error = "topology.rtt_ms".parse::<Assignment>().expect_err("no value");
        assert!(error.contains("KEY=VALUE"), "{error}");
    }
}
