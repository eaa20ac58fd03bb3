//! The laboratory's line that these tests use.

use std::collections::BTreeMap;
use std::ops::Range;
use std::thread;
use std::time::Duration;

use lowtide_lab::clock;
use lowtide_lab::path::PathConfig;
use lowtide_lab::site::Site;
use lowtide_net::{ImpairConfig, QueueConfig, droptail};
use lowtide_units::{Rate, Span, Time};

/// 20 Mbit/s, 10 ms and what else `impair` says, half a second of buffer.
fn path(impair: ImpairConfig) -> PathConfig {
    PathConfig {
        rate: Rate::from_mbps_f64(20.0),
        extra: BTreeMap::new(),
        queue: QueueConfig::DropTail(droptail::Config { ms: Some(500.0), ..droptail::Config::default() }),
        impair: ImpairConfig { delay_ms: 10.0, ..impair },
        header: 14,
        seed: lowtide_net::Seed::new(7),
        trace: None,
    }
}

/// Measured within `measure`.
pub fn site(up: ImpairConfig, down: ImpairConfig, measure: Range<Time>) -> Site {
    Site::new(1500, path(up), path(down), measure).expect("a laboratory")
}

/// Waits until `ready`; what it waits for is named.
pub fn wait(what: &str, mut ready: impl FnMut() -> bool) {
    let end = clock::now() + Span::from_millis(60_000);
    while !ready() {
        assert!(clock::now() < end, "{what}: not within a minute");
        thread::sleep(Duration::from_millis(20));
    }
}
