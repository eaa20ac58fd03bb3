//! One way of the line between the laboratory's two ends.

use std::collections::BTreeMap;

use lowtide_lab::path::PathConfig;
use lowtide_net::{ImpairConfig, QueueConfig, Seed, droptail};
use lowtide_units::Rate;

/// 20 Mbit/s, a delay of `delay_ms` and a buffer of `buffer_ms`.
pub fn path(delay_ms: f64, buffer_ms: f64) -> PathConfig {
    PathConfig {
        rate: Rate::from_mbps_f64(20.0),
        trace: None,
        extra: BTreeMap::new(),
        queue: QueueConfig::DropTail(droptail::Config { ms: Some(buffer_ms), ..droptail::Config::default() }),
        impair: ImpairConfig { delay_ms, ..ImpairConfig::default() },
        header: 14,
        seed: Seed::new(1),
    }
}
