//! Compiles the BPF objects with clang.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

/// How many controls bpf/control.h has. An object has one of them, in the form of its side: the kernel's verifier follows no other, and there is room for
/// no other's state. A test compares the number.
const CONTROLS: u32 = 5;
/// Those that a receiver can run.
const RECEIVERS: [u32; 2] = [1, 5];

fn main() -> Result<()> {
    let out = PathBuf::from(env::var_os("OUT_DIR").context("OUT_DIR is not set: run through cargo")?);
    println!("cargo:rerun-if-changed=bpf");
    for control in RECEIVERS {
        bpf(&out, "receive", control)?;
    }
    for control in 1..=CONTROLS {
        bpf(&out, "send", control)?;
    }
    Ok(())
}

/// No header of the build machine's kernel but its user-space interface is used: CO-RE relocates the rest at load time.
fn bpf(out: &Path, program: &str, control: u32) -> Result<()> {
    let clang = env::var("CLANG").unwrap_or_else(|_| "clang".to_owned());
    let libbpf = env::var("DEP_BPF_INCLUDE").context("DEP_BPF_INCLUDE is not set: libbpf-sys must be a dependency")?;
    let object = out.join(format!("{program}_{control}.bpf.o"));
    let status = Command::new(&clang)
        .args([
            "-target",
            "bpf",
            "-mcpu=v3",
            "-O2",
            "-g",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-Wno-unused-function",
            &format!("-DALGORITHM={control}"),
            &format!("-DCONTROL_RECEIVES={}", u32::from(program == "receive")),
            "-c",
            &format!("bpf/{program}.bpf.c"),
            "-I",
            &libbpf,
        ])
        .args(multiarch())
        .arg("-o")
        .arg(&object)
        .status()
        .with_context(|| format!("`{clang}` cannot be run: apt-get install clang (or set CLANG)"))?;
    if !status.success() {
        bail!("clang could not compile bpf/{program}.bpf.c ({status}); its messages are above");
    }
    // Only the type information is needed of what -g adds.
    let _optional = Command::new("llvm-strip").arg("-g").arg(&object).status();
    Ok(())
}

/// Debian keeps asm/types.h, which linux/types.h includes, in a directory named after the machine.
fn multiarch() -> Vec<String> {
    let arch = env::var("CARGO_CFG_TARGET_ARCH").unwrap_or_default();
    let dir = format!("/usr/include/{arch}-linux-gnu");
    if Path::new(&dir).exists() { vec!["-I".to_owned(), dir] } else { Vec::new() }
}
