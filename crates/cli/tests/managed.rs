//! Which processes and connections `lowtide run` manages, whose, and what it leaves behind: a group of its own, --pid, --cgroup, --unit.
//! Needs root and BPF; says when it is skipped.

mod common;
#[path = "common/running.rs"]
mod running;

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::thread;

use common::{can_manage, lowtide, output};
use lowtide_testing::skip;
use running::Running;

/// What doctor names.
const CAPS: &str = "+bpf,+net_admin,+perfmon";

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn code(args: &[&str]) -> i32 {
    output(args).status.code().expect("it ends by itself")
}

fn v2_group_of(pid: &str) -> String {
    let text = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
    text.lines().find_map(|l| l.strip_prefix("0::")).unwrap_or_default().to_owned()
}

#[test]
fn the_command_is_in_a_group_of_its_own_and_nothing_stays_behind() {
    if !can_manage("the_command_is_in_a_group_of_its_own_and_nothing_stays_behind") {
        return;
    }
    let mut running = Running::of(&mut lowtide(&["run", "--", "sh", "-c", "cat /proc/self/cgroup | grep ^0::; read wait || sleep 0.3"]));
    let group = running.line().trim_start_matches("0::").to_owned();
    let own = format!("lowtide-{}", running.child.id());
    let socket = format!("/run/lowtide/{}.sock", running.child.id());
    assert!(group.contains(&own), "{group} is not {own}");
    assert!(Path::new(&socket).exists());
    assert_eq!(running.code(), Some(0));
    assert!(!Path::new(&socket).exists());
    let folder = lowtide_kernel::cgroup::v2_root().expect("it managed").join(group.trim_start_matches('/'));
    assert!(!folder.exists(), "{} is still there", folder.display());
}

#[test]
fn two_runs_at_once_are_both_shown_by_status_and_do_not_disturb_each_other() {
    if !can_manage("two_runs_at_once_are_both_shown_by_status_and_do_not_disturb_each_other") {
        return;
    }
    let script = "echo ready; sleep 30";
    let mut runs =
        ["first-of-two", "second-of-two"].map(|name| Running::of(&mut lowtide(&["run", "--name", name, "--", "sh", "-c", script])));
    runs.iter_mut().for_each(|r| assert_eq!(r.line(), "ready"));
    let status = output(&["status", "--json"]);
    let groups: serde_json::Value = serde_json::from_slice(&status.stdout).expect("JSON");
    let names: Vec<&str> = groups.as_array().expect("a list").iter().filter_map(|g| g["name"].as_str()).collect();
    assert!(names.contains(&"first-of-two") && names.contains(&"second-of-two"), "{names:?}");
    for run in runs {
        run.kill("-TERM");
        assert_eq!(run.code(), Some(128 + 15));
    }
}

#[test]
fn a_run_inside_a_run_has_a_group_beside_the_outer_one() {
    if !can_manage("a_run_inside_a_run_has_a_group_beside_the_outer_one") {
        return;
    }
    let lowtide = env!("CARGO_BIN_EXE_lowtide");
    let script = format!("grep ^0:: /proc/self/cgroup; {lowtide} run -- grep ^0:: /proc/self/cgroup; exit 9");
    let output = output(&["run", "--", "sh", "-c", &script]);
    let groups: Vec<String> = String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect();
    assert_eq!((output.status.code(), groups.len()), (Some(9), 2), "{groups:?} {}", stderr(&output));
    assert!(groups[0] != groups[1] && groups[1].matches("lowtide-").count() == 1, "{groups:?}");
}

#[test]
fn under_sudo_the_command_runs_as_the_caller() {
    if !can_manage("under_sudo_the_command_runs_as_the_caller") {
        return;
    }
    let output = lowtide(&["run", "--", "sh", "-c", "id -u; id -g; id -G"]).env("SUDO_UID", "65534").env("SUDO_GID", "65534").output();
    let text = String::from_utf8_lossy(&output.expect("it starts").stdout).into_owned();
    assert_eq!(text.lines().collect::<Vec<_>>(), ["65534"; 3]);
}

/// As doctor says: with three capabilities and a group of one's own, root is not needed.
#[test]
fn with_capabilities_and_a_group_of_its_own_a_user_who_is_not_root_manages() {
    let test = "with_capabilities_and_a_group_of_its_own_a_user_who_is_not_root_manages";
    if !can_manage(test) {
        return;
    }
    let readable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    let folder = tempfile::Builder::new().permissions(readable).tempdir().expect("a folder can be made");
    let copy = folder.path().join("copy");
    fs::copy(env!("CARGO_BIN_EXE_lowtide"), &copy).expect("it can be copied");
    let group = lowtide_kernel::cgroup::v2_root().expect("it managed").join(format!("of-test-{}-user", std::process::id()));
    fs::create_dir(&group).expect("a group");
    for own in [group.clone(), group.join("cgroup.procs"), folder.path().to_owned()] {
        std::os::unix::fs::chown(&own, Some(65534), Some(65534)).expect("root may");
    }
    let inside = "id -u; grep -c ^0::.*-user/lowtide- /proc/self/cgroup; \"$0\" status --json";
    let words = ["--reuid", "65534", "--regid", "65534", "--clear-groups", "--inh-caps", CAPS, "--ambient-caps", CAPS];
    let script = format!(
        "echo $$ > {}/cgroup.procs; exec setpriv {} \"$0\" run --name of-nobody -- sh -c '{inside}' \"$0\"",
        group.display(),
        words.join(" ")
    );
    let output = Command::new("sh").args(["-c", &script]).arg(&copy).env("XDG_RUNTIME_DIR", folder.path()).output().expect("sh starts");
    fs::remove_dir(&group).expect("it is empty again");
    if stderr(&output).contains("setpriv:") {
        skip(test, &stderr(&output));
        return;
    }
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && text.starts_with("65534\n1\n") && text.contains("of-nobody"), "{text}{}", stderr(&output));
}

/// Whoever may execute a file with these capabilities could otherwise hold back everybody's transfers.
#[test]
fn with_capabilities_a_user_manages_their_own_group_and_process_and_nobody_elses() {
    let test = "with_capabilities_a_user_manages_their_own_group_and_process_and_nobody_elses";
    if !can_manage(test) {
        return;
    }
    let folder = tempfile::Builder::new().permissions(std::os::unix::fs::PermissionsExt::from_mode(0o755)).tempdir().expect("a folder");
    let copy = folder.path().join("copy");
    fs::copy(env!("CARGO_BIN_EXE_lowtide"), &copy).expect("it can be copied");
    let root = lowtide_kernel::cgroup::v2_root().expect("it managed");
    let groups = [65534, 65533].map(|user: u32| {
        let group = root.join(format!("of-test-{}-of-{user}", std::process::id()));
        fs::create_dir(&group).expect("a group");
        std::os::unix::fs::chown(group.join("cgroup.procs"), Some(user), Some(user)).expect("root may");
        group
    });
    std::os::unix::fs::chown(folder.path(), Some(65534), Some(65534)).expect("root may");
    let run = |option: &str, value: &str| {
        let mut command = Command::new("timeout");
        command.args(["-s", "INT", "2", "setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]);
        command.args(["--inh-caps", CAPS, "--ambient-caps", CAPS]).arg(&copy).args(["run", option, value]);
        command.env("XDG_RUNTIME_DIR", folder.path()).output().expect("timeout starts")
    };
    let own = run("--cgroup", &groups[0].display().to_string());
    let refused = [
        run("--cgroup", &groups[1].display().to_string()),
        run("--cgroup", &root.display().to_string()),
        run("--unit", &groups[1].file_name().expect("a name").to_string_lossy()),
        run("--pid", &std::process::id().to_string()),
    ];
    groups.iter().for_each(|group| fs::remove_dir(group).expect("it is empty"));
    if stderr(&own).contains("setpriv:") {
        skip(test, &stderr(&own));
        return;
    }
    assert!(stderr(&own).contains("nothing was received"), "{}", stderr(&own));
    for refusal in refused {
        let said = stderr(&refusal);
        assert!(refusal.status.code() == Some(1) && said.contains("belongs to user") && said.contains("you are user 65534"), "{said}");
    }
}

#[test]
fn a_window_clamp_of_the_programs_or_the_routes_is_not_raised() {
    if !can_manage("a_window_clamp_of_the_programs_or_the_routes_is_not_raised") {
        return;
    }
    let script = "
import socket
listener = socket.create_server(('10.9.9.8', 0))
def clamp(own):
    client = socket.socket()
    if own:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_WINDOW_CLAMP, own)
    client.connect(listener.getsockname())
    return client.getsockopt(socket.IPPROTO_TCP, socket.TCP_WINDOW_CLAMP)
print(clamp(20000), clamp(0))
listener = socket.create_server(('10.9.9.8', 0))
def accepted(source):
    client = socket.socket()
    client.bind((source, 0))
    client.connect(listener.getsockname())
    peer, _ = listener.accept()
    return peer.getsockopt(socket.IPPROTO_TCP, socket.TCP_WINDOW_CLAMP)
print(accepted('10.9.9.7'), accepted('10.9.9.9') > 40000)
";
    let inside = "ip link set lo up && ip addr add 10.9.9.9/32 dev lo && ip route add local 10.9.9.8 dev lo window 30000 src 10.9.9.9 \
                  && ip route add local 10.9.9.7 dev lo window 40000 && exec \"$@\"";
    let words = [env!("CARGO_BIN_EXE_lowtide"), "run", "--quiet", "--", "python3", "-c", script];
    let output = Command::new("unshare").args(["--net", "sh", "-c", inside, "sh"]).args(words).output().expect("unshare starts");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "20000 30000\n40000 True\n", "{}", stderr(&output));
}

/// Such a connection's end is not told by its states, which nobody asked for when it was opened.
#[test]
fn a_connection_that_was_open_before_is_no_longer_shown_once_it_is_closed() {
    if !can_manage("a_connection_that_was_open_before_is_no_longer_shown_once_it_is_closed") {
        return;
    }
    let group = lowtide_kernel::cgroup::v2_root().expect("it managed").join(format!("of-test-{}-open", std::process::id()));
    fs::create_dir(&group).expect("a group");
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback is up");
    let port = listener.local_addr().expect("it is bound").port();
    let script = format!("echo $$ > {}/cgroup.procs; exec 3< /dev/tcp/127.0.0.1/{port}; read go; exec 3<&-; read end", group.display());
    let mut bash = Command::new("bash").args(["-c", &script]).stdin(Stdio::piped()).spawn().expect("bash starts");
    let (mut peer, _) = listener.accept().expect("it connects");
    let run = Running::of(&mut lowtide(&["run", "--quiet", "--name", "open-before", "--cgroup", &group.display().to_string()]));
    let flows = || {
        let groups: serde_json::Value = serde_json::from_slice(&output(&["status", "--json"]).stdout).unwrap_or_default();
        let own =
            groups.as_array().into_iter().flatten().find(|g| g["name"] == "open-before").map(|g| g["flows"].as_array().map_or(0, Vec::len));
        own.unwrap_or(0)
    };
    let mut until = |count: usize, send: bool| {
        (0..500).any(|_| {
            if send {
                peer.write_all(&[0; 1000]).expect("it is open");
            }
            thread::sleep(std::time::Duration::from_millis(20));
            flows() == count
        })
    };
    let (shown, ended) = (until(1, true), {
        bash.stdin.as_mut().expect("piped").write_all(b"go\n").expect("it reads");
        until(0, false)
    });
    run.kill("-INT");
    run.code();
    bash.kill().expect("it lives");
    bash.wait().expect("it ends");
    fs::remove_dir(&group).expect("it is empty");
    assert!(shown && ended, "shown: {shown}, no longer: {ended}");
}

#[test]
fn a_killed_run_leaves_the_command_alive_and_the_next_run_removes_what_was_left() {
    if !can_manage("a_killed_run_leaves_the_command_alive_and_the_next_run_removes_what_was_left") {
        return;
    }
    let mut running = Running::of(&mut lowtide(&["run", "--", "sh", "-c", "echo $$; sleep 1; echo alive; sleep 30"]));
    let pid = running.line();
    let socket = format!("/run/lowtide/{}.sock", running.child.id());
    let group = v2_group_of(&pid);
    running.kill("-KILL");
    assert_eq!(running.child.wait().expect("it ends").code(), None);
    assert_eq!(running.line(), "alive");
    assert!(group.contains("lowtide-"), "{group}");
    assert_eq!(code(&["run", "--", "true"]), 0);
    assert!(!Path::new(&socket).exists(), "{socket} is still there");
    assert_ne!(v2_group_of(&pid), group);
    Command::new("kill").arg(&pid).status().expect("kill starts");
}

#[test]
fn a_process_that_runs_already_is_managed_and_put_back() {
    if !can_manage("a_process_that_runs_already_is_managed_and_put_back") {
        return;
    }
    let mut sleeper = Command::new("sh").args(["-c", "sleep 30; true"]).spawn().expect("sh starts");
    let pid = sleeper.id().to_string();
    let before = v2_group_of(&pid);
    let running = Running::of(&mut lowtide(&["run", "--pid", &pid]));
    let in_time = (0..1500).any(|_| {
        thread::sleep(std::time::Duration::from_millis(20));
        v2_group_of(&pid) != before
    });
    assert!(in_time, "process {pid} was never moved");
    running.kill("-INT");
    assert_eq!(running.code(), Some(0));
    assert_eq!(v2_group_of(&pid), before);
    sleeper.kill().expect("it lives");
    sleeper.wait().expect("it ends");
}

#[test]
fn a_unit_is_found_in_its_slice_managed_and_left_as_it_was() {
    if !can_manage("a_unit_is_found_in_its_slice_managed_and_left_as_it_was") {
        return;
    }
    let unit = format!("of-test-{}.service", std::process::id());
    let slice = lowtide_kernel::cgroup::v2_root().expect("it managed").join(format!("of-test-{}.slice", std::process::id()));
    let folder = slice.join(&unit);
    fs::create_dir_all(&folder).expect("groups");
    let script = format!("echo $$ > {}/cgroup.procs; echo in; read end", folder.display());
    let mut service = Command::new("sh").args(["-c", &script]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("sh starts");
    let mut said = [0; 3];
    service.stdout.as_mut().expect("piped").read_exact(&mut said).expect("it says that it is in");
    let run = Running::of(&mut lowtide(&["run", "--quiet", "--name", "by-unit", "--unit", &unit]));
    let listed = || serde_json::from_slice::<serde_json::Value>(&output(&["status", "--json"]).stdout).unwrap_or_default();
    let is_ours = |g: &serde_json::Value| g["name"] == "by-unit" && g["cgroup"] == folder.display().to_string();
    let found = (0..1500).any(|_| {
        thread::sleep(std::time::Duration::from_millis(20));
        listed().as_array().is_some_and(|groups| groups.iter().any(is_ours))
    });
    assert!(found, "{:#}", listed());
    run.kill("-INT");
    assert_eq!(run.code(), Some(0));
    assert_eq!(v2_group_of(&service.id().to_string()), format!("/of-test-{}.slice/{unit}", std::process::id()));
    service.kill().expect("it lives");
    service.wait().expect("it ends");
    fs::remove_dir(&folder).and_then(|()| fs::remove_dir(&slice)).expect("left as they were, and empty");
}

#[test]
fn a_process_cgroup_or_unit_that_does_not_exist_is_named() {
    let cases = [["--pid", "4194305"], ["--cgroup", "/no/such/group"], ["--unit", "no-such.service"]];
    for [option, value] in cases {
        let output = output(&["run", option, value]);
        assert_eq!(output.status.code(), Some(1), "{option}");
        let needs_root = stderr(&output).contains("CAP_BPF");
        assert!(stderr(&output).contains(&format!("{option} {value}")) || needs_root, "{option}: {}", stderr(&output));
    }
}

#[test]
fn where_no_mount_shows_the_hierarchy_it_is_reached_all_the_same_and_the_mount_goes_with_the_run() {
    if !can_manage("where_no_mount_shows_the_hierarchy_it_is_reached_all_the_same_and_the_mount_goes_with_the_run") {
        return;
    }
    let (lowtide, root) = (env!("CARGO_BIN_EXE_lowtide"), lowtide_kernel::cgroup::v2_root().expect("it managed"));
    // The mount stays for as long as somebody else's run has a group in it.
    let script = format!(
        "umount -l {}; {lowtide} run --quiet -- grep -o lowtide- /proc/self/cgroup; ls -d /run/lowtide/cgroup/lowtide-* || grep -c cgroup2 /proc/mounts",
        root.display()
    );
    let output = Command::new("unshare").args(["--mount", "sh", "-c", &script]).output().expect("unshare starts");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text == "lowtide-\n0\n" || text.starts_with("lowtide-\n/run/lowtide/cgroup/lowtide-"), "{text}{}", stderr(&output));
}

#[test]
fn a_process_that_cannot_be_moved_and_a_unit_without_a_name_are_named_with_the_option() {
    if !can_manage("a_process_that_cannot_be_moved_and_a_unit_without_a_name_are_named_with_the_option") {
        return;
    }
    let kernel_thread = fs::read_to_string("/proc/2/comm").is_ok_and(|name| name.trim() == "kthreadd");
    let pid = if kernel_thread { "2" } else { "0" }; // in a container 2 may be anything
    for args in [["--pid", pid], ["--unit", ""], ["--cgroup", "/proc"]] {
        let output = output(&["run", args[0], args[1]]);
        assert!(output.status.code() == Some(1) && stderr(&output).starts_with(&format!("lowtide: {}", args[0])), "{}", stderr(&output));
        assert_eq!(stderr(&output).lines().count(), 1, "{}", stderr(&output));
    }
}

#[test]
fn a_shell_may_have_itself_managed_by_its_child_and_ends_it_by_ending() {
    if !can_manage("a_shell_may_have_itself_managed_by_its_child_and_ends_it_by_ending") {
        return;
    }
    // The child is in the group that it manages: when the shell has gone it is alone there, and that is the end.
    let script =
        format!("{} run --quiet --pid $$ & until grep -q lowtide- /proc/self/cgroup; do sleep 0.05; done", env!("CARGO_BIN_EXE_lowtide"));
    // The child holds the pipe: it is read to its end when the child has gone.
    let output = Command::new("sh").args(["-c", &script]).output().expect("sh starts");
    assert!(output.status.success(), "{}", stderr(&output));
}
