//! Runs a scenario and says how long it took: `cargo run --release -p lowtide-sim --example speed -- FILE`.
#![expect(clippy::print_stdout, clippy::disallowed_methods, reason = "a stopwatch around the simulator")]

use std::path::PathBuf;
use std::time::Instant;

fn main() -> Result<(), lowtide_scenario::ScenarioError> {
    for file in std::env::args().skip(1).map(PathBuf::from) {
        let scenario = lowtide_scenario::Scenario::load(&file)?;
        let start = Instant::now();
        let summary = lowtide_sim::run(&scenario, scenario.seed, true)?.summary;
        let took = start.elapsed().as_secs_f64();
        let sent: f64 = summary.bottlenecks.iter().map(|b| b.utilisation * b.capacity_bps / 8.0 / 1514.0 * summary.duration_s).sum();
        println!(
            "{}: {took:.3} s, {} events, {:.0} ns an event, {:.0} ns a packet, utilisation {:.3}, jain {:.3}",
            file.display(),
            summary.events,
            took * 1e9 / summary.events as f64,
            took * 1e9 / sent,
            summary.bottlenecks[0].utilisation,
            summary.jain,
        );
    }
    Ok(())
}
