//! Sums up the sources that a simulation's result depends on, so that a result of another build is not taken for this one's.

use std::path::{Path, PathBuf};
use std::{env, fs};

const SOURCES: [&str; 11] = [
    "../cc/src",
    "../kernel/bpf",
    "../net/src",
    "../replicas/src",
    "../scenario/src",
    "../sim/src",
    "../units/src",
    "../utp/src",
    "../window/src",
    "src/papers/measure.rs",
    "src/papers/metrics",
];

fn main() {
    let here = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    let mut files = Vec::new();
    for source in SOURCES {
        println!("cargo:rerun-if-changed={source}");
        collect(&here.join(source), &mut files);
    }
    files.sort();
    let texts = files.iter().map(|file| fs::read(file).unwrap_or_else(|e| panic!("{}: {e}", file.display())));
    println!("cargo:rustc-env=LOWTIDE_SIMULATOR={:016x}", texts.fold(0xcbf2_9ce4_8422_2325, |sum, text| add(sum, &text)));
}

fn collect(path: &Path, files: &mut Vec<PathBuf>) {
    match fs::read_dir(path) {
        Ok(entries) => entries.flatten().for_each(|entry| collect(&entry.path(), files)),
        Err(_) => files.push(path.to_owned()),
    }
}

/// FNV-1a.
fn add(sum: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(sum, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3))
}
