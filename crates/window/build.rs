//! Compiles the headers of the kernel's programs as ordinary functions. Needs a C compiler, neither clang nor libbpf.

fn main() {
    println!("cargo:rerun-if-changed=../kernel/bpf");
    cc::Build::new()
        .file("../kernel/bpf/native.c")
        .file("../kernel/bpf/native_sender.c")
        .include("../kernel/bpf")
        .warnings(true)
        .extra_warnings(true)
        .opt_level(2)
        .compile("lowtide_native");
}
