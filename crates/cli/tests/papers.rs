//! The papers' experiments as files: every one is well-formed, those that a reader tries first hold in a quick run, what is there is
//! not run again, and the report stands on its own. `make test` runs the quick set of all.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn papers(args: &[&str], out: &Path) -> Output {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../papers");
    Command::new(env!("CARGO_BIN_EXE_lowtide"))
        .arg("papers")
        .arg("--experiments")
        .arg(root)
        .arg("--out")
        .arg(out)
        .args(args)
        .output()
        .expect("lowtide starts")
}

fn files(dir: &Path) -> Vec<(PathBuf, std::time::SystemTime)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).expect("a folder").map(|e| e.expect("an entry")) {
        match entry.file_type().expect("a type").is_dir() {
            true => found.extend(files(&entry.path())),
            false => found.push((entry.path(), entry.metadata().expect("metadata").modified().expect("a time"))),
        }
    }
    found.sort();
    found
}

#[test]
fn the_first_figures_hold_and_a_second_run_has_nothing_to_do() {
    let out = tempfile::tempdir().expect("a temporary folder");
    let chosen = ["run", "--quick", "--check", "--json", "bagnulo2023/fig22", "bagnulo2023/tab1", "kapetanidou2024/fig02"];
    let run = papers(&chosen, out.path());
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let claims: Vec<serde_json::Value> = serde_json::from_slice(&run.stdout).expect("a list of claims");
    for figure in &chosen[4..] {
        let mine = || claims.iter().filter(|c| c["experiment"] == *figure);
        let decided = |c: &serde_json::Value| ["met", "not met"].iter().any(|w| c["columns"]["described"]["verdict"] == *w);
        assert!(mine().any(decided), "{figure}: nothing decided");
    }
    assert!(out.path().join("bagnulo2023/fig07").is_dir(), "fig22 looks at fig07, which must have run too");
    let report = std::fs::read_to_string(out.path().join("report.html")).expect("a report");
    assert!(
        report.contains("<svg") && !report.contains("src=") && !report.contains("href=\"http"),
        "the report must open without a network"
    );
    assert!(report.contains("as described") && report.contains("as run"), "verdicts in both columns");
    assert!(out.path().join("data/bagnulo2023-fig22.csv").is_file());

    let results = || files(&out.path().join("bagnulo2023"));
    let before = results();
    assert!(papers(&chosen, out.path()).status.success());
    assert_eq!(results(), before);
    std::fs::remove_file(out.path().join("report.html")).expect("it was there");
    assert!(papers(&["report"], out.path()).status.success());
    assert!(out.path().join("report.html").is_file());
    assert_eq!(results(), before);
    what_another_build_made_is_shown_as_such_and_run_again(out.path(), &chosen);
}

fn what_another_build_made_is_shown_as_such_and_run_again(out: &Path, chosen: &[&str]) {
    let before = files(&out.join("bagnulo2023"));
    let scenario = &before.iter().find(|(file, _)| file.ends_with("scenario.toml")).expect("a result").0;
    let text = std::fs::read_to_string(scenario).expect("readable");
    let (_, rest) = text.split_once('\n').expect("a first line");
    std::fs::write(scenario, format!("# made by lowtide 0.0.1, simulator 0\n{rest}")).expect("writable");
    let report = papers(&["report"], out);
    assert!(report.status.success() && String::from_utf8_lossy(&report.stderr).contains("1 of the runs are of another build"));
    assert!(std::fs::read_to_string(out.join("report.html")).expect("a report").contains("of another build"));
    assert!(papers(chosen, out).status.success());
    assert_eq!(std::fs::read_to_string(scenario).expect("readable"), text);
    let again = files(&out.join("bagnulo2023")).into_iter().filter(|file| !before.contains(file)).count();
    assert!(again > 0 && again < before.len(), "only what was another build's is made anew, not {again} files of {}", before.len());
}

#[test]
fn a_verdict_that_is_not_the_recorded_one_fails_the_check_until_it_is_recorded() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let paper = folder.path().join("papers/abu2010");
    std::fs::create_dir_all(&paper).expect("a folder");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../papers/abu2010/fig03a-d.toml");
    let text = std::fs::read_to_string(source).expect("an experiment");
    let run = |text: &str, flag: &str| {
        std::fs::write(paper.join("fig03a-d.toml"), text).expect("writable");
        let mut command = Command::new(env!("CARGO_BIN_EXE_lowtide"));
        command.arg("papers").arg("--experiments").arg(folder.path().join("papers")).arg("--out").arg(folder.path().join("out"));
        command.args(["run", "--quick", flag]).output().expect("lowtide starts")
    };
    let check = run(&text, "--check");
    assert!(!check.status.success() && String::from_utf8_lossy(&check.stderr).contains("recorded is nothing"));
    assert!(run(&text, "--record").status.success());
    assert!(run(&text, "--check").status.success());
    let stricter = text.replacen("qd_alone(gain-40) = 25 ± 4", "qd_alone(gain-40) = 5 ± 4", 1);
    assert_ne!(stricter, text);
    let check = run(&stricter, "--check");
    let errors = String::from_utf8_lossy(&check.stderr);
    assert!(!check.status.success(), "a bound that is not met");
    assert!(errors.contains("fig03a-d#ab-c2 described: not met, recorded is met") && errors.contains("nobody has said why"), "{errors}");
    let nonsense = text.replacen("qd_alone(gain-40)", "qd_alone(gain-41)", 1);
    let errors = String::from_utf8_lossy(&run(&nonsense, "--check").stderr).into_owned();
    assert!(errors.contains("fig03a-d#ab-c2") && errors.contains("`gain-41` means nothing") && errors.contains("gain-40"), "{errors}");
}

#[test]
fn a_report_of_nothing_is_refused() {
    let out = tempfile::tempdir().expect("a temporary folder");
    let nothing = papers(&["report"], out.path());
    assert!(!nothing.status.success() && String::from_utf8_lossy(&nothing.stderr).contains("papers run"), "a report of nothing");
}

#[test]
fn every_experiment_is_well_formed() {
    let out = tempfile::tempdir().expect("a temporary folder");
    let list = papers(&["list"], out.path());
    let text = String::from_utf8_lossy(&list.stdout);
    assert!(list.status.success(), "{}", String::from_utf8_lossy(&list.stderr));
    for id in ["bagnulo2023/fig05", "bagnulo2023/tab3", "kapetanidou2024/fig02", "abu2010/fig04c", "carofiglio2010/fig02g"] {
        assert!(text.contains(id), "{text}");
    }
}

#[test]
fn a_figure_that_does_not_fit_into_the_time_is_left_out_and_said_before_anything_runs() {
    let out = tempfile::tempdir().expect("a temporary folder");
    let run = papers(&["run", "--within", "1", "--jobs", "1", "kapetanidou2024/fig10"], out.path());
    let error = String::from_utf8_lossy(&run.stderr);
    assert!(!run.status.success() && error.contains("--within 1") && error.contains("papers list"), "{error}");
    assert!(files(out.path()).is_empty());
}

#[test]
fn a_wish_for_nothing_names_what_there_is() {
    let out = tempfile::tempdir().expect("a temporary folder");
    for (wish, near) in [("bagnulo2033", "bagnulo2023"), ("bagnulo2023/fig60", "fig06"), ("", "papers list")] {
        let run = papers(&["run", "--quick", wish], out.path());
        let error = String::from_utf8_lossy(&run.stderr);
        assert!(!run.status.success() && error.contains(&format!("`{wish}`")) && error.contains(near), "{error}");
        assert!(error.lines().count() == 1 && error.len() < 400, "{error}");
    }
}
