//! The demo's acts in the laboratory: real programs, real stacks. Draws nothing.

use anyhow::{Context, Result, bail};
use lowtide_kernel::features::Features;
use lowtide_lab::outcome::{Outcome, Trace};
use lowtide_lab::run::{self, Options};
use lowtide_lab::{measure, plan};

use super::{ACTS, Call, Seen, Way, scenario, smooth};
use crate::report::Curve;
use crate::{doctor, lab};

const NOT_HERE: &str = "the demo cannot run for real here (`lowtide demo --sim` simulates it, without root or BPF)";

/// What the acts need, where this machine and this user have it.
pub fn ready() -> Result<Options> {
    let options = lab::options().context(NOT_HERE)?;
    let features = Features::detect();
    if !features.ready() {
        bail!("{NOT_HERE}: {}", doctor::explain(&features));
    }
    Ok(options)
}

/// Runs the acts one after the other.
pub fn run(way: Way, options: &Options) -> Result<Vec<Seen>> {
    let mut seen = Vec::new();
    for (number, act) in ACTS.iter().enumerate() {
        eprintln!("lowtide: {} of {}: {} ({:.0} s)", number + 1, ACTS.len(), act.name(way), act.seconds);
        let scenario = scenario(act, way)?;
        let outcome = run::run(&scenario, options).with_context(|| act.name(way))?;
        seen.push(see(outcome, scenario.warmup_s));
    }
    Ok(seen)
}

fn see(outcome: Outcome, warmup_s: f64) -> Seen {
    let throughput = |t: &Trace| {
        let points: Vec<_> = measure::throughput(t, &outcome.link, outcome.zero).into_iter().map(|(at, bps)| (at, bps / 1e6)).collect();
        Curve::line(&t.job.name, smooth(&points))
    };
    let bulk = outcome.traces.iter().filter(|t| t.job.name == "bulk");
    Seen {
        call: outcome.traces.iter().find_map(|t| call(t, &outcome, warmup_s)),
        throughput: outcome.traces.iter().map(throughput).collect(),
        window: bulk.flat_map(|t| measure::window(t, outcome.zero)).map(|(at, bytes)| (at, bytes / 1e3)).collect(),
        summary: outcome.summary,
    }
}

/// The numbers leave out what came before the warm-up's end; the curve shows it.
fn call(trace: &Trace, outcome: &Outcome, warmup_s: f64) -> Option<Call> {
    let echoes = trace.echoes.as_ref().filter(|_| matches!(trace.job.work, plan::Work::Call(_)))?;
    let added = measure::added_delay(trace, outcome.zero);
    let mut delays: Vec<f64> = added.iter().filter(|p| p.0 >= warmup_s).map(|p| p.1).collect();
    delays.sort_by(f64::total_cmp);
    let quantile = |q: f64| delays.get(((delays.len().max(1) - 1) as f64 * q).round() as usize).copied();
    Some(Call { p50: quantile(0.5)?, p95: quantile(0.95)?, max: quantile(1.0)?, loss: echoes.loss(), added })
}
