//! Programs that people upload with, under `lowtide run` beside a call and page loads: what they sent arrives as it was.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use lowtide_lab::site::SERVER;

use crate::common::can_manage;
use crate::ground::{Ground, Shelf};

const MB: usize = 1_000_000;

/// Whether `program` starts; said loudly where it does not.
fn has(test: &str, program: &str, argument: &str) -> bool {
    let found = Command::new(program).arg(argument).stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok();
    if !found {
        lowtide_testing::skip(test, &format!("no {program}: `make peers` installs it"));
    }
    found
}

fn same(one: &Path, other: &Path) {
    assert!(fs::read(one).expect("sent") == fs::read(other).expect("arrived"), "{} is not {}", other.display(), one.display());
}

#[test]
fn curl_puts_a_file() {
    if !can_manage("curl_puts_a_file") {
        return;
    }
    let ground = Ground::new();
    let shelf = Shelf::new(&ground.site.server, 8080);
    let file = ground.file("movie", 4 * MB);
    ground.upload(&["curl", "-sfT", &file.display().to_string(), &format!("http://{SERVER}:8080/movie")], &[], 4 * MB as u64);
    assert!(shelf.get("movie").is_some_and(|got| got == fs::read(&file).expect("sent")));
}

/// As `docker push` does: several layers at once, then a small manifest.
#[test]
fn layers_are_put_in_parallel() {
    if !can_manage("layers_are_put_in_parallel") {
        return;
    }
    let ground = Ground::new();
    let shelf = Shelf::new(&ground.site.server, 8080);
    let layers: Vec<PathBuf> = [3_000, 40_000, 300_000, 700_000, 1_100_000, 1_900_000].map(|n| ground.file(&format!("layer{n}"), n)).into();
    let name = |layer: &Path| layer.file_name().expect("a name").to_string_lossy().into_owned();
    let mut words = vec!["curl".to_owned(), "-sfZ".into(), "--parallel-immediate".into()];
    for layer in &layers {
        words.extend(["-T".into(), layer.display().to_string(), format!("http://{SERVER}:8080/{}", name(layer))]);
    }
    let said = ground.upload(&words.iter().map(String::as_str).collect::<Vec<_>>(), &[], 4_000_000);
    assert_eq!(said["sent"]["connections"], layers.len(), "{said:#}");
    for layer in &layers {
        assert!(shelf.get(&name(layer)).is_some_and(|got| got == fs::read(layer).expect("sent")), "{}", layer.display());
    }
}

#[test]
fn rsync_copies_a_folder_over_ssh() {
    let test = "rsync_copies_a_folder_over_ssh";
    if !can_manage(test) || !has(test, "rsync", "--version") || !has(test, "/usr/sbin/sshd", "-V") {
        return;
    }
    let ground = Ground::new();
    let at = |name: &str| ground.path(name).display().to_string();
    for key in ["host", "user"] {
        let made = Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f", &at(key)]).status().expect("ssh-keygen starts");
        assert!(made.success());
    }
    let (host, user) = (at("host"), at("user.pub"));
    let config = format!(
        "Port 2222\nListenAddress {SERVER}\nHostKey {host}\nAuthorizedKeysFile {user}\nStrictModes no\nUsePAM no\n\
         PermitRootLogin prohibit-password\nPidFile none\n"
    );
    fs::write(ground.path("sshd_config"), config).expect("written");
    // It wants a /run/sshd, which this machine need not have: in a mount namespace of its own.
    let script = "mount -t tmpfs none /run && mkdir /run/sshd && exec /usr/sbin/sshd -D -e -f \"$0\"";
    let log = fs::File::create(ground.path("sshd.log")).expect("a file");
    let mut sshd = Command::new("unshare");
    let _sshd = ground.serve(sshd.args(["-m", "sh", "-c", script, &at("sshd_config")]).stderr(log), 2222);
    let sent = [ground.file("photos/one", MB), ground.file("photos/two", 3 * MB)];
    let ssh = format!(
        "ssh -F none -p 2222 -i {} -o BatchMode=yes -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR",
        at("user")
    );
    let to = format!("root@{SERVER}:{}/", at("backup"));
    ground.upload(&["rsync", "-a", "-e", &ssh, &at("photos"), &to], &[], 4 * MB as u64);
    for file in sent {
        same(&file, &ground.path("backup/photos").join(file.file_name().expect("a name")));
    }
}

#[test]
fn restic_backs_up_to_its_rest_server_and_restores_the_same() {
    let test = "restic_backs_up_to_its_rest_server_and_restores_the_same";
    if !can_manage(test) || !has(test, "restic", "version") || !has(test, "rclone", "version") {
        return;
    }
    let ground = Ground::new();
    let at = |name: &str| ground.path(name).display().to_string();
    let settings = [("RESTIC_PASSWORD", "tide"), ("HOME", &at("home"))];
    let mut server = Command::new("rclone");
    server.args(["serve", "restic", "--config", "", "--addr", &format!("{SERVER}:8000"), &at("repository")]).stderr(Stdio::null());
    let _server = ground.serve(&mut server, 8000);
    let local = |words: &[&str]| {
        let output = Command::new("restic").args(["-r", &at("repository"), "--no-cache"]).args(words).envs(settings).output();
        let output = output.expect("restic starts");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    local(&["init"]);
    let sent = [ground.file("photos/one", MB), ground.file("photos/two", 3 * MB)];
    let repository = format!("rest:http://{SERVER}:8000/");
    ground.upload(&["restic", "-r", &repository, "--no-cache", "backup", &at("photos")], &settings, 4 * MB as u64);
    local(&["restore", "latest", "--target", &at("restored")]);
    for file in sent {
        same(&file, &ground.path("restored").join(file.strip_prefix("/").expect("an absolute path")));
    }
}

#[test]
fn rclone_copies_a_folder_to_an_s3_server() {
    let test = "rclone_copies_a_folder_to_an_s3_server";
    if !can_manage(test) || !has(test, "rclone", "version") || !has(test, "node", "--version") {
        return;
    }
    let s3rver = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/upload-peers/node_modules/s3rver/bin/s3rver.js");
    if !s3rver.exists() {
        lowtide_testing::skip(test, "no S3 server: `make peers` installs it");
        return;
    }
    let ground = Ground::new();
    let at = |name: &str| ground.path(name).display().to_string();
    let mut server = Command::new("node");
    server.arg(s3rver).args(["-d", &at("s3"), "-a", &SERVER.to_string(), "-p", "4568", "--configure-bucket", "backup"]);
    let _server = ground.serve(server.stderr(Stdio::null()), 4568);
    let sent = [ground.file("photos/one", MB), ground.file("photos/two", 3 * MB)];
    let endpoint = format!("http://{SERVER}:4568");
    // The name and the password that s3rver knows.
    let settings = [
        ("RCLONE_S3_PROVIDER", "Other"),
        ("RCLONE_S3_ENDPOINT", &endpoint),
        ("RCLONE_S3_ACCESS_KEY_ID", "S3RVER"),
        ("RCLONE_S3_SECRET_ACCESS_KEY", "S3RVER"),
    ];
    ground.upload(&["rclone", "--config", "", "copy", &at("photos"), ":s3:backup/photos"], &settings, 4 * MB as u64);
    for file in sent {
        let name = format!("{}._S3rver_object", file.file_name().expect("a name").to_string_lossy());
        same(&file, &ground.path("s3/backup/photos").join(name));
    }
}
