//! `lowtide doctor`: what this machine has of what `run` needs, what is missing and how to get it.

use std::process::ExitCode;

use lowtide_kernel::cgroup::Group;
use lowtide_kernel::chain::{self, Other};
use lowtide_kernel::check;
use lowtide_kernel::features::{Feature, Features};
use lowtide_kernel::{Choice, Config, Lacking, Receiver, Verified};
use serde::Serialize;

use crate::hierarchy;
use crate::stdout;

/// What this machine has of what `run` needs, and how to get the rest; exit code 1 if `run` cannot work
#[derive(clap::Args)]
pub struct Args {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Report {
    schema: u32,
    ready: bool,
    features: Vec<Feature>,
    /// Why the receiving programs would not load and attach when it was tried; not tried where something is missing.
    refusal: Option<String>,
    /// The same of the sending side. `run` goes on with one of the two, and holds back what that one can.
    uploads_refusal: Option<String>,
    /// The controls that `run` yields by where it is not told which: of downloads, and of uploads where those are held back.
    receives_by: &'static str,
    sends_by: Option<&'static str>,
    /// What is not done, and why: the kernel refuses a program that the rest works without.
    lacking: Vec<String>,
    /// What loading them took the kernel's verifier.
    programs: Vec<Verified>,
    /// BPF programs of others that outgoing packets meet.
    other_programs: Vec<Other>,
}

pub fn main(args: &Args) -> anyhow::Result<ExitCode> {
    let _hierarchy = hierarchy::reach();
    let features = Features::detect();
    let (mut programs, mut lacking) = (Vec::new(), Vec::new());
    let mut tell = |tried: Option<anyhow::Result<(Vec<Verified>, Vec<Lacking>)>>| match tried.transpose() {
        Ok(tried) => {
            let (verified, lacks) = tried.unwrap_or_default();
            programs.extend(verified);
            lacking.extend(lacks.iter().map(Lacking::to_string));
            None
        }
        Err(e) => Some(format!("{e:#}")),
    };
    let refusal = tell(features.ready().then(attempt));
    let mut sends_by = None;
    let uploads_refusal = tell(features.ready().then(|| {
        let sending = check::sending(&Config::default())?;
        sends_by = Some(sending.by);
        Ok((sending.verified, sending.lacking))
    }));
    let ready = features.ready() && (refusal.is_none() || uploads_refusal.is_none());
    let other_programs = if ready { chain::others()? } else { Vec::new() };
    let (features, receives_by) = (features.list, Choice::default().receives_by());
    let report = Report { schema: 1, ready, features, refusal, uploads_refusal, receives_by, sends_by, lacking, programs, other_programs };
    match args.json {
        true => stdout::line(serde_json::to_string_pretty(&report)?)?,
        false => stdout::print(text(&report))?,
    }
    Ok(if report.ready { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Loads and attaches to an empty group, and takes it all away again: the only certain answer. The sending programs are not attached, since
/// then connections of runs that died would change; what refuses them does not keep downloads from being held back.
fn attempt() -> anyhow::Result<(Vec<Verified>, Vec<Lacking>)> {
    let group = Group::create("doctor")?;
    let receiver = Receiver::attach(group.path(), &Config { joins: true, name: "doctor".to_owned(), ..Config::default() })?;
    Ok((receiver.verified(), receiver.lacking().to_vec()))
}

fn text(report: &Report) -> String {
    let mut text: String = report.features.iter().map(line).collect();
    if !report.programs.is_empty() {
        let each: Vec<String> = report.programs.iter().map(|p| format!("{} {}", p.name, p.followed)).collect();
        text += &format!("{:8} {:16} instructions the verifier followed: {}\n", "ok", "BPF programs", each.join(", "));
    }
    if report.ready {
        let tried = [
            ("downloads", &report.refusal, TRIED, report.receives_by),
            ("uploads", &report.uploads_refusal, REGISTERED, report.sends_by.unwrap_or_default()),
        ];
        text += &tried
            .map(|(what, why, done, by)| match why {
                Some(why) => format!("{:8} {what:16} NOT held back: {why}\n", "without"),
                None => format!("{:8} {what:16} by {by}: {done}\n", "ok"),
            })
            .concat();
        text += &report.lacking.iter().map(|why| format!("{:8} {:16} {why}\n", "without", "a program")).collect::<String>();
    }
    if !report.other_programs.is_empty() {
        let each: Vec<String> = report.other_programs.iter().map(|o| format!("{} on {}", o.program, o.interface)).collect();
        text += &format!("{:8} {:16} {}\n{:26}→ {BEFORE_THEM}\n", "note", "other programs", each.join(", "), "");
    }
    text += &match (&report.refusal, &report.uploads_refusal, report.ready) {
        (None, None, true) => "\n`lowtide run` works here: its programs were loaded and attached, and removed again.\n".to_owned(),
        (Some(_), _, true) => "\n`lowtide run` works here for what is sent alone.\n".to_owned(),
        (_, Some(_), true) => "\n`lowtide run` works here for what is received alone.\n".to_owned(),
        (Some(why), _, false) => format!("\n`lowtide run` cannot work here: {why}\n"),
        (None, _, false) => "\n`lowtide run` cannot work here until what is MISSING is there.\n".to_owned(),
    };
    text
}

const TRIED: &str = "the receiving programs were loaded and attached, and removed again";
const REGISTERED: &str = "the sending control was registered, and taken back";

const BEFORE_THEM: &str = "lowtide's goes before them; of one that is put before it later, `run` and `status` tell what it takes";

fn line(feature: &Feature) -> String {
    let state = match (feature.found, feature.required) {
        (true, _) => "ok",
        (false, true) => "MISSING",
        (false, false) => "without",
    };
    let line = format!("{state:8} {:16} {}\n", feature.name, feature.detail);
    if feature.found {
        return line;
    }
    format!("{line}{:26}→ {}\n", "", feature.remedy)
}

/// Why `run` cannot work: each missing thing and its remedy.
pub fn explain(features: &Features) -> String {
    let mut missing = String::new();
    let mut all = features.missing().peekable();
    while let Some(one) = all.next() {
        missing += &format!("\n  {}: {}", one.name, one.detail);
        // Capabilities come together: their remedy is said once.
        if all.peek().is_none_or(|next| next.remedy != one.remedy) {
            missing += &format!("\n    → {}", one.remedy);
        }
    }
    format!("this machine, or this user, lacks what managing takes:{missing}\n(all of it: lowtide doctor; without managing: --best-effort)")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn feature(name: &'static str, found: bool, required: bool) -> Feature {
        Feature { name, found, required, detail: format!("state of {name}"), remedy: "get it" }
    }

    #[test]
    fn what_is_missing_comes_with_its_remedy_and_what_is_there_without() {
        let features = Features { list: vec![feature("BTF", false, true), feature("tcx", false, false), feature("JIT", true, false)] };
        let why = explain(&features);
        assert!(why.contains("BTF: state of BTF\n    → get it") && !why.contains("tcx"), "{why}");
        let report = Report {
            schema: 1,
            ready: false,
            features: features.list,
            refusal: None,
            uploads_refusal: None,
            receives_by: "one",
            sends_by: None,
            lacking: Vec::new(),
            programs: Vec::new(),
            other_programs: Vec::new(),
        };
        let text = text(&report);
        let starts: Vec<&str> = text.lines().filter_map(|l| l.split_whitespace().next()).collect();
        assert_eq!(starts, ["MISSING", "→", "without", "→", "ok", "`lowtide"]);
    }
}
