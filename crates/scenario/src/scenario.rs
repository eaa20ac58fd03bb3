//! A scenario: topology, flows and duration, as a TOML file. Knows no algorithm by name: those are checked by who runs it.

use std::fmt;
use std::fs;
use std::io::{self, Read as _};
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::locate::{self, Place};

mod draw;
mod flow;
mod topology;
mod wiring;

pub use draw::Draw;
pub use flow::{Direction, Flow, Kind, Lab, Receiver, Recovery, Repair, Tcp, Traffic, Utp};
pub use flow::{Ns2, Ns2Agent, Ns3, Ns3Recovery, Stack};
pub use topology::{Access, Dumbbell, Graph, GraphLink, ParkingLot, Topology};
pub use wiring::{Channel, Limit, Route, Service, Wiring};

/// What is run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Its name in results; the file's name if absent.
    #[serde(default)]
    pub name: String,
    /// How long it runs.
    pub duration_s: f64,
    /// Seed of everything random in it.
    #[serde(default = "one")]
    pub seed: u64,
    /// Metrics leave out what came before this.
    #[serde(default)]
    pub warmup_s: f64,
    /// Each packet waits so long more in the host that sends it, drawn evenly from zero to this; none overtakes another of its flow.
    #[serde(default)]
    pub host_jitter_us: f64,
    /// The network.
    pub topology: Topology,
    /// Who uses it.
    #[serde(default)]
    pub flows: Vec<Flow>,
}

fn one() -> u64 {
    1
}

/// A scenario that cannot be run: file, line, key, the rule, and what is allowed, in one line.
#[derive(Debug, thiserror::Error)]
#[error("scenario{}{}{}: {reason}", part(" ", file.as_ref()), part(" line ", line.as_ref()), part(" key ", key.as_ref()))]
pub struct ScenarioError {
    file: Option<String>,
    line: Option<usize>,
    key: Option<String>,
    reason: String,
}

fn part<T: fmt::Display>(before: &str, what: Option<&T>) -> String {
    what.map(|w| format!("{before}{w}")).unwrap_or_default()
}

impl ScenarioError {
    /// A rule that the scenario breaks.
    pub fn new(reason: impl Into<String>) -> ScenarioError {
        ScenarioError { file: None, line: None, key: None, reason: reason.into() }
    }

    /// A rule that the value of `key` breaks.
    pub fn at(key: impl Into<String>, reason: impl Into<String>) -> ScenarioError {
        ScenarioError { key: Some(key.into()), ..ScenarioError::new(reason) }
    }

    /// This error as one of the scenario that `file` holds: found out later than while reading it.
    #[must_use]
    pub fn in_file(self, file: &Path) -> ScenarioError {
        let text = read_text(file).unwrap_or_default();
        let line = self.key.as_deref().and_then(|key| locate::line_of_key(&text, key));
        ScenarioError { file: Some(file.display().to_string()), line, ..self }
    }

    /// The line it stands in, counted from one.
    pub fn line(&self) -> Option<usize> {
        self.line
    }

    /// The key it is about.
    pub fn key(&self) -> Option<&str> {
        self.key.as_deref()
    }
}

impl Scenario {
    /// Reads TOML text.
    ///
    /// # Errors
    /// With the line, the key and what is allowed.
    pub fn parse(text: &str) -> Result<Scenario, ScenarioError> {
        Scenario::parse_in(text, Path::new(""))
    }

    /// Reads TOML text that names other files relative to `dir`.
    fn parse_in(text: &str, dir: &Path) -> Result<Scenario, ScenarioError> {
        let scenario = toml::from_str::<Scenario>(text).map_err(|e| {
            let Place { line, key } = locate::complaint(text, &e);
            ScenarioError { line, key, ..ScenarioError::new(plain(e.message())) }
        })?;
        let sound = scenario.flows.iter().try_for_each(Flow::check_receiver_counts).and_then(|()| scenario.checked(dir));
        sound.map_err(|e| {
            let line = e.key.as_deref().and_then(|key| locate::line_of_key(text, key));
            ScenarioError { line, ..e }
        })
    }

    /// Reads a file; an unnamed scenario takes the file's name.
    ///
    /// # Errors
    /// An unreadable file, or as [`Scenario::parse`].
    pub fn load(path: &Path) -> Result<Scenario, ScenarioError> {
        let named = |e: ScenarioError| ScenarioError { file: Some(path.display().to_string()), ..e };
        let text = read_text(path).map_err(|e| named(ScenarioError::new(format!("cannot be read: {e}"))))?;
        let mut scenario = Scenario::parse_in(&text, path.parent().unwrap_or(Path::new(""))).map_err(named)?;
        if scenario.name.is_empty() {
            scenario.name = path.file_stem().map(|s| s.to_string_lossy().into_owned()).unwrap_or_default();
        }
        Ok(scenario)
    }

    /// This scenario with `key` (`topology.rtt_ms`, `flows.bulk.cc`) set to `value`.
    ///
    /// # Errors
    /// An unknown key or a value it cannot take.
    pub fn with(&self, key: &str, value: toml::Value) -> Result<Scenario, ScenarioError> {
        let mut tree = toml::Value::try_from(self).map_err(|e| ScenarioError::new(e.to_string()))?;
        set(&mut tree, key, key, value)?;
        let scenario: Scenario = tree.try_into().map_err(|e: toml::de::Error| ScenarioError::at(key, plain(e.message())))?;
        scenario.checked(Path::new(""))
    }

    /// This scenario as the text of a file.
    ///
    /// # Errors
    /// A number that TOML cannot hold (a seed above 2^63).
    pub fn to_toml(&self) -> Result<String, ScenarioError> {
        toml::to_string(self).map_err(|e| ScenarioError::new(e.to_string()))
    }

    /// Checks it and takes in the files that it names, relative to `dir`.
    fn checked(mut self, dir: &Path) -> Result<Scenario, ScenarioError> {
        require(self.duration_s > 0.0, "duration_s", "must be above 0")?;
        require(self.duration_s <= LONGEST_S, "duration_s", "must be at most 10000000 (115 days)")?;
        require((0.0..self.duration_s).contains(&self.warmup_s), "warmup_s", "must be at least 0 and below `duration_s`")?;
        require((0.0..=MOST_JITTER_US).contains(&self.host_jitter_us), "host_jitter_us", "must be between 0 and 1000000 (a second)")?;
        self.topology.check(dir)?;
        for i in 0..self.flows.len() {
            let (before, rest) = self.flows.split_at_mut(i);
            let flow = &mut rest[0];
            if flow.group.is_empty() {
                flow.group.clone_from(&flow.name);
            }
            let named = !flow.name.is_empty() && !flow.name.contains(|c: char| c == '.' || c == '/' || c.is_control());
            let rule = format!("`{}` must not be empty or contain a dot, a slash or a control character", flow.name.escape_debug());
            require(named, &format!("flows.{}.name", i + 1), &rule)?;
            let twin = before.iter().any(|f| f.name == flow.name);
            require(!twin, &format!("flows.{}.name", flow.name), "two flows have this name; `count = 2` makes several alike")?;
            flow.receiver = flow.receiver.take().filter(|_| flow.kind == Kind::Rledbat);
            flow.check()?;
            flow.check_amount(self.duration_s)?;
        }
        let wiring = self.topology.wiring(&self.flows);
        for flow in &self.flows {
            if matches!(self.topology, Topology::Dumbbell(_)) {
                flow.check_has_no_ends()?;
            }
            wiring.route(flow)?;
        }
        Ok(self)
    }
}

/// Bounds that no scenario of sense reaches, far from where times and rates would overflow.
const LONGEST_S: f64 = 1e7;
const LONGEST_DELAY_MS: f64 = 1e6;
const MOST_JITTER_US: f64 = 1e6;
const FASTEST_MBPS: f64 = 1e6;
const SLOWEST_MBPS: f64 = 1e-6;
/// The largest file that is read: of a scenario, of a trace.
const LARGEST_FILE: u64 = 16 << 20;

/// The text of a file that is no larger than a scenario or a trace of sense.
fn read_text(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    fs::File::open(path)?.take(LARGEST_FILE + 1).read_to_string(&mut text)?;
    if text.len() as u64 > LARGEST_FILE { Err(io::Error::other("it is larger than 16 MiB")) } else { Ok(text) }
}

/// A rate that a link may have.
fn check_rate(mbps: f64, key: &str) -> Result<(), ScenarioError> {
    require(mbps >= SLOWEST_MBPS, key, "must be at least 0.000001 (1 bit/s)")?;
    require(mbps <= FASTEST_MBPS, key, "must be at most 1000000 (1 Tbit/s)")
}

/// A delay that a path may have.
fn check_delay(ms: f64, key: &str) -> Result<(), ScenarioError> {
    require(ms >= 0.0, key, "must not be negative")?;
    require(ms <= LONGEST_DELAY_MS, key, "must be at most 1000000 (1000 seconds)")
}

/// A reader's complaint in one line, without the names of types.
fn plain(message: &str) -> String {
    let line = message.replace('\n', "; ");
    let (before, expected) = line.rsplit_once("expected ").unwrap_or((&line, ""));
    let wanted = match expected {
        "f64" => "a number",
        _ if expected.starts_with(['u', 'i']) && before.contains("floating point") => "a whole number, without a point or an exponent",
        "u8" => "a whole number from 0 to 255",
        "u16" => "a whole number from 0 to 65535",
        "u32" => "a whole number from 0 to 4294967295",
        "u64" | "usize" => "a whole number, not negative",
        "a boolean" => "true or false",
        _ => return line,
    };
    format!("{before}expected {wanted}")
}

fn require(ok: bool, key: &str, rule: &str) -> Result<(), ScenarioError> {
    if ok { Ok(()) } else { Err(ScenarioError::at(key, rule)) }
}

/// What `--set key=TEXT` means by TEXT: a TOML value, or else the text itself (`cc=cubic` needs no quotes).
pub fn value(text: &str) -> toml::Value {
    let parsed = toml::from_str::<toml::Table>(&format!("v = {text}")).ok();
    parsed.filter(|t| t.len() == 1).and_then(|mut t| t.remove("v")).unwrap_or_else(|| toml::Value::String(text.to_owned()))
}

/// Descends `path` in `tree`; a list of tables is entered by its elements' `name`.
fn set(tree: &mut toml::Value, path: &str, whole: &str, value: toml::Value) -> Result<(), ScenarioError> {
    let (head, rest) = path.split_once('.').map_or((path, None), |(head, rest)| (head, Some(rest)));
    let unknown = || ScenarioError::new(format!("`{whole}`: there is no `{head}` here"));
    match tree {
        toml::Value::Array(items) => {
            let item = items.iter_mut().find(|i| i.get("name").and_then(toml::Value::as_str) == Some(head)).ok_or_else(unknown)?;
            set(item, rest.ok_or_else(unknown)?, whole, value)
        }
        toml::Value::Table(table) => match rest {
            None => {
                // A whole number given where a real one stands is meant as one.
                let real = matches!(table.get(head), Some(toml::Value::Float(_)));
                let value = match value {
                    toml::Value::Integer(i) if real => toml::Value::Float(i as f64),
                    other => other,
                };
                table.insert(head.to_owned(), value);
                Ok(())
            }
            Some(rest) => set(table.entry(head).or_insert_with(|| toml::Value::Table(toml::Table::new())), rest, whole, value),
        },
        _ => Err(unknown()),
    }
}

#[cfg(test)]
mod document;
#[cfg(test)]
mod tests;
