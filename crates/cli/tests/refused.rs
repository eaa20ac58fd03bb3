//! A kernel that refuses one of lowtide's BPF programs: what can be held back without it is, and `run` and `doctor` say what is not. The refusal is
//! made by a library that stands before bpf(2), as no kernel at hand refuses any. Needs root, BPF and a C compiler; says when it is skipped.

mod common;
#[path = "common/ends.rs"]
mod ends;
#[path = "common/running.rs"]
mod running;

use std::fs;
use std::path::PathBuf;
use std::process::{ChildStdin, Command, Output, Stdio};
use std::thread;
use std::time::Duration;

use common::{can_manage, lowtide};
use ends::{BOTH_ENDS, ask, controls};
use running::Running;
use serde_json::Value;
use tempfile::TempDir;

/// BPF_PROG_LOAD of a program whose name (its first 15 letters) is in REFUSED fails as where the kernel's verifier says no. libbpf makes its system
/// calls by this function of libc's.
const LIBRARY: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <linux/bpf.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

long syscall(long number, ...)
{
	static long (*real)(long, ...);
	static int done;
	const char *refused = getenv("REFUSED"), *once = getenv("REFUSED_ONCE");
	long a[6];
	va_list list;

	va_start(list, number);
	for (int i = 0; i < 6; i++)
		a[i] = va_arg(list, long);
	va_end(list);
	if (number == SYS_bpf && a[0] == BPF_PROG_LOAD && refused && once) {
		const char *name = ((union bpf_attr *)a[1])->prog_name;
		size_t length = strlen(name);

		if (done < 2 && !strcmp(once, name)) { // libbpf tries twice, the second time to hear why
			done++;
			errno = EINVAL;
			return -1;
		}
		for (const char *at = refused; *name && (at = strstr(at, name)); at += length)
			if ((at == refused || at[-1] == ' ') && (at[length] == ' ' || !at[length] || length == BPF_OBJ_NAME_LEN - 1)) {
				errno = EINVAL;
				return -1;
			}
	}
	if (!real)
		real = dlsym(RTLD_NEXT, "syscall");
	return real(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
"#;

/// The library, and a folder for what a run tells.
struct Kernel {
    folder: TempDir,
}

impl Kernel {
    /// None, said loudly, where it cannot be had.
    fn new(test: &str) -> Option<Kernel> {
        if !can_manage(test) {
            return None;
        }
        let folder = tempfile::tempdir().expect("a folder");
        let source = folder.path().join("refuse.c");
        fs::write(&source, LIBRARY).expect("written");
        let compiled =
            Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(folder.path().join("refuse.so")).arg(&source).arg("-ldl").status();
        match compiled {
            Ok(status) => assert!(status.success(), "cc"),
            Err(e) => {
                lowtide_testing::skip(test, &format!("no C compiler (cc): {e}"));
                return None;
            }
        }
        Some(Kernel { folder })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// `lowtide` on a kernel that refuses these programs, or with `!` this one the first time.
    fn lowtide(&self, refused: &str, args: &[&str]) -> Command {
        let mut command = lowtide(args);
        let (refused, once) = refused.strip_suffix('!').map_or((refused, ""), |once| ("", once));
        command.env("LD_PRELOAD", self.path("refuse.so")).env("REFUSED", refused).env("REFUSED_ONCE", once);
        command
    }

    /// A run of `BOTH_ENDS`: the names of its ends' controls, what it said, and its JSON.
    fn run(&self, refused: &str) -> (String, String, Value) {
        self.run_by(refused, &[])
    }

    /// The same with `options` of `lowtide run`.
    fn run_by(&self, refused: &str, options: &[&str]) -> (String, String, Value) {
        let file = self.path("told.json").display().to_string();
        let words = [&["run", "--json", &file], options, &["--", "env", "-u", "LD_PRELOAD", "perl", "-e", BOTH_ENDS]].concat();
        let mut run = Running::of(self.lowtide(refused, &words).stdin(Stdio::piped()));
        let mut input = run.child.stdin.take().expect("piped");
        run.line();
        let names = ask(&mut run, &mut input, "");
        drop(input);
        let mut said = String::new();
        std::io::Read::read_to_string(&mut run.child.stderr.take().expect("piped"), &mut said).expect("text");
        assert_eq!(run.code(), Some(0), "{said}");
        (names, said, serde_json::from_slice(&fs::read(file).expect("written")).expect("JSON"))
    }

    fn doctor(&self, refused: &str) -> (Output, String) {
        let output = self.lowtide(refused, &["doctor"]).output().expect("it starts");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        (output, text)
    }
}

#[test]
fn where_the_sending_programs_are_refused_downloads_are_held_back_and_the_line_and_doctor_say_so() {
    let Some(kernel) = Kernel::new("where_the_sending_programs_are_refused_downloads_are_held_back_and_the_line_and_doctor_say_so") else {
        return;
    };
    let (names, said, told) = kernel.run("choose");
    assert!(!names.contains("lowtide"), "{names}");
    assert!(said.contains("uploads are NOT held back") && said.contains("what it sent was NOT held back"), "{said}");
    assert_eq!((&told["connections"], &told["not_held_back"]), (&2.into(), &Value::Null), "{told:#}");
    assert!(told["sent"]["not_held_back"].is_string() && told["bytes"].as_u64() >= Some(100_000), "{told:#}");
    let (output, text) = kernel.doctor("choose");
    assert!(output.status.success() && text.contains("uploads          NOT held back"), "{text}");
    assert!(
        text.contains("downloads        by ledbat_pp-enhanced-burst: the receiving programs")
            && text.ends_with("for what is received alone.\n"),
        "{text}"
    );
}

#[test]
fn where_the_receiving_programs_are_refused_uploads_are_held_back_and_the_line_and_doctor_say_so() {
    let Some(kernel) = Kernel::new("where_the_receiving_programs_are_refused_uploads_are_held_back_and_the_line_and_doctor_say_so") else {
        return;
    };
    let (names, said, told) = kernel.run("transmit_tcx transmit_clsact");
    assert!(names.split(' ').all(|name| name.starts_with("lowtide_")), "{names}: {said}");
    assert!(said.contains("downloads are NOT held back") && said.contains("what it received was NOT held back"), "{said}");
    assert!(told["not_held_back"].is_string() && told["sent"]["connections"] == 2, "{told:#}");
    let (output, text) = kernel.doctor("transmit_tcx transmit_clsact");
    assert!(output.status.success() && text.contains("downloads        NOT held back"), "{text}");
    assert!(text.ends_with("for what is sent alone.\n"), "{text}");
}

#[test]
fn where_both_are_refused_nothing_runs() {
    let Some(kernel) = Kernel::new("where_both_are_refused_nothing_runs") else { return };
    let output = kernel.lowtide("send_init receive", &["run", "--", "echo", "ran"]).output().expect("it starts");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(1) && output.stdout.is_empty() && said.contains("the kernel refuses"), "{said}");
    assert!(!kernel.doctor("send_init receive").0.status.success());
}

/// Each iterator for itself; `report` is what `status` shows uploads by.
#[test]
fn where_an_iterator_is_refused_new_connections_are_held_back_all_the_same() {
    let Some(kernel) = Kernel::new("where_an_iterator_is_refused_new_connections_are_held_back_all_the_same") else { return };
    for iterator in ["take_over", "give_back", "reclaim", "report"] {
        let (names, said, told) = kernel.run(iterator);
        assert!(names.split(' ').all(|name| name.starts_with("lowtide_")), "{iterator}: {names}: {said}");
        assert!(said.contains(&format!("`{iterator}`: the kernel refuses")), "{said}");
        assert!(told["lacking"].as_array().is_some_and(|all| all.len() == 1) && told["sent"]["not_held_back"].is_null(), "{told:#}");
        assert!(told["sent"]["bytes"].as_u64() >= Some(100_000), "{iterator}: {told:#}");
        assert!(!controls().contains("lowtide_refuse"), "{}", controls());
    }
    let (output, text) = kernel.doctor("take_over report open_before");
    assert!(output.status.success() && text.matches("a program").count() == 3, "{text}");
}

/// As Linux before 6.0 does, which has no control without `cong_avoid` and lets no program write a pace: a control that says its pace is refused as a
/// whole. That the plain one is then held by does not depend on which of its programs it is.
#[test]
fn where_a_control_that_paces_is_refused_a_simpler_one_holds_uploads_back_and_run_and_its_json_say_so() {
    let test = "where_a_control_that_paces_is_refused_a_simpler_one_holds_uploads_back_and_run_and_its_json_say_so";
    let Some(kernel) = Kernel::new(test) else { return };
    for refused in ["send_cong_control send_cong_contr", "send_init!"] {
        let (names, said, told) = kernel.run_by(refused, &["--cc", "lowtide"]);
        assert!(names.split(' ').all(|name| name.starts_with("lowtide_")), "{refused}: {names}: {said}");
        assert!(said.contains("what is sent yields by a simpler control (`lowtide`: the kernel refuses"), "{refused}: {said}");
        assert_eq!((&told["sends_by"], &told["receives_by"]), (&"ledbat_pp-enhanced-burst".into(), &"lowtide".into()), "{told:#}");
        assert!(told["lacking"].as_array().is_some_and(|all| all.len() == 1) && told["sent"]["not_held_back"].is_null(), "{told:#}");
        assert!(told["sent"]["bytes"].as_u64() >= Some(100_000), "{refused}: {told:#}");
    }
    let (_, _, told) = kernel.run_by("", &["--cc", "lowtide"]);
    assert_eq!((&told["sends_by"], &told["lacking"]), (&"lowtide".into(), &serde_json::json!([])), "where nothing is refused: {told:#}");
}

/// In a mount namespace of its own, whose BPF file system takes the pins away with it.
#[test]
fn of_all_controls_for_the_machine_those_are_loaded_that_the_kernel_takes_and_of_named_ones_a_refused_one_fails() {
    let test = "of_all_controls_for_the_machine_those_are_loaded_that_the_kernel_takes_and_of_named_ones_a_refused_one_fails";
    let Some(kernel) = Kernel::new(test) else { return };
    let script = r#"mount -t bpf bpf /sys/fs/bpf || exit 9
        LD_PRELOAD="$1" REFUSED_ONCE= REFUSED="send_cong_control send_cong_contr" "$0" cc load && echo went on
        LD_PRELOAD="$1" REFUSED_ONCE= REFUSED="send_cong_control send_cong_contr" "$0" cc load lt_lowtide || echo failed
        "$0" cc unload"#;
    let words = ["-m", "sh", "-c", script, env!("CARGO_BIN_EXE_lowtide")];
    let output = Command::new("unshare").args(words).arg(kernel.path("refuse.so")).output().expect("unshare starts");
    let (out, err) = (String::from_utf8_lossy(&output.stdout).into_owned(), String::from_utf8_lossy(&output.stderr).into_owned());
    assert!(
        out.contains("lt_ledbat_pp is loaded\n") && out.contains("lt_nice is loaded\n") && !out.contains("lt_lowtide is loaded"),
        "{out}{err}"
    );
    assert!(out.contains("went on\nfailed\n") && err.contains("lt_lowtide is NOT loaded: the kernel refuses"), "{out}{err}");
    assert!(output.status.success() && out.contains("lt_nice is unloaded"), "{out}{err}");
}

/// As Linux before 6.0 does: `send_init` writes to a field of the socket that no program may write to there.
#[test]
fn where_a_program_may_not_ask_for_pacing_uploads_are_held_back_unpaced() {
    let Some(kernel) = Kernel::new("where_a_program_may_not_ask_for_pacing_uploads_are_held_back_unpaced") else { return };
    let (names, said, told) = kernel.run_by("send_init!", &["--cc", "enhanced"]);
    assert!(names.split(' ').all(|name| name.starts_with("lowtide_")), "{names}: {said}");
    assert!(said.contains("uploads are not paced (`send_init`: the kernel refuses"), "{said}");
    assert!(told["lacking"].as_array().is_some_and(|all| all.len() == 1) && told["sent"]["not_held_back"].is_null(), "{told:#}");
}

/// A process with both ends of a connection, to be joined.
fn both_ends() -> (Running, ChildStdin) {
    let mut running = Running::of(Command::new("perl").args(["-e", BOTH_ENDS]).stdin(Stdio::piped()));
    let input = running.child.stdin.take().expect("piped");
    running.line();
    (running, input)
}

#[test]
fn of_connections_that_were_open_before_the_other_direction_is_held_back() {
    let Some(kernel) = Kernel::new("of_connections_that_were_open_before_the_other_direction_is_held_back") else { return };
    for (refused, up) in [("open_before", true), ("receive_joined", true), ("take_over", false)] {
        let (mut ends, mut input) = both_ends();
        let file = kernel.path("told.json");
        let words = ["run", "--pid", &ends.child.id().to_string(), "--name", refused, "--json", &file.display().to_string()];
        let mut run = Running::of(&mut kernel.lowtide(refused, &words));
        let managed =
            || String::from_utf8_lossy(&common::output(&["status", "--json"]).stdout).contains(&format!("\"name\": \"{refused}\""));
        assert!((0..500).any(|_| (thread::sleep(Duration::from_millis(20)), managed()).1), "{refused}: it does not begin");
        assert_eq!(ask(&mut ends, &mut input, "").starts_with("lowtide_"), up, "{refused}");
        run.kill("-INT");
        let mut said = String::new();
        std::io::Read::read_to_string(&mut run.child.stderr.take().expect("piped"), &mut said).expect("text");
        assert_eq!(run.code(), Some(0), "{said}");
        let told: Value = serde_json::from_slice(&fs::read(file).expect("written")).expect("JSON");
        let received = if up { 0 } else { 2 };
        assert_eq!((told["connections"].as_u64(), told["open_before_not_held_back"].is_string()), (Some(received), up), "{told:#}");
        assert_eq!(told["sent"]["open_before_not_held_back"].is_string(), !up, "{told:#}");
        assert!(said.contains("that were open before did NOT yield"), "{said}");
    }
}
