//! run.yaml: what was asked and what came of it, without the series.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::yaml;

/// Format of the files in a directory; a reader refuses newer ones.
pub(super) const FORMAT: u32 = 1;

/// Readable order of run.yaml: what was requested, how it ended, then the systems; a step's name before its metrics.
const ORDER: [&str; 28] = [
    "format",
    "experiment",
    "name",
    "about",
    "founding_text",
    "phase",
    "kind",
    "clock",
    "code",
    "clients",
    "repeat",
    "settings",
    "scale",
    "mode",
    "seed",
    "unit",
    "kinds",
    "schedule",
    "started",
    "ended",
    "ending",
    "begin_s",
    "end_s",
    "figures",
    "count",
    "remarks",
    "parameters",
    "failure",
];

/// The whole of run.yaml.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct Record {
    pub format: u32,
    /// The experiment's name, as `arbor lab list` shows it.
    pub experiment: String,
    pub about: String,
    /// Number of the founding text, `"001"`, when it is one of those.
    #[serde(default)]
    pub founding_text: Option<String>,
    /// `small`, `full`, or `custom` when sizes were given on the command line.
    pub scale: String,
    /// `compat` or `fixed`.
    pub mode: String,
    pub seed: u64,
    /// The kind whose rate is the headline, and its plural in titles: `transaction`, `query`.
    pub unit: String,
    /// The kinds that are recorded, in the order tables show them.
    pub kinds: Vec<String>,
    /// `closed loop`, or the rate: `constant 15/s`.
    pub schedule: String,
    /// Every parameter of workload and run, as set.
    pub parameters: Value,
    pub arbor_version: String,
    /// Command line as typed.
    pub command_line: Vec<String>,
    pub client_placement: String,
    pub started: String,
    #[serde(default)]
    pub ended: Option<String>,
    pub ending: Ending,
    /// Caveats for a reader of the tables: limits that were not set, points that do not count.
    #[serde(default)]
    pub remarks: Vec<String>,
    #[serde(default)]
    pub systems: Vec<SystemRecord>,
    /// The experiment's file as it was run.
    pub text: String,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Ending {
    /// Still running, or the laboratory itself died.
    Running,
    Complete,
    /// A system could not be measured to the end; its `failure` has the reason.
    Partial,
    /// Ended by Ctrl-C; what was measured is kept.
    Interrupted,
}

/// One system under test: a row of the tables.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct SystemRecord {
    pub name: String,
    /// Version, engine, settings, flags.
    #[serde(default)]
    pub about: Value,
    /// Load, warm-up-free measured parts, recoveries: in the order they ran.
    #[serde(default)]
    pub steps: Vec<StepRecord>,
    /// Why it ended before its plan.
    #[serde(default)]
    pub failure: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    Load,
    #[default]
    Run,
    /// From kill -9 to the first reply.
    Recovery,
}

impl Phase {
    pub fn name(self) -> &'static str {
        match self {
            Phase::Load => "load",
            Phase::Run => "run",
            Phase::Recovery => "recovery",
        }
    }
}

/// One phase of one system at one number of clients (and cache size, repeat ...).
///
/// `metrics` are named numbers, missing where they are not known: `per_second` (units; documents of a load), `units`,
/// `seconds`, `cpu_per_unit` ((us + sy) percent of the host / Q * 10^6), `cpu_us_per_unit`, `context_switches_per_unit`, `reads_per_unit`,
/// `read_kb_per_unit`, `writes_per_unit`, `write_kb_per_unit` (device), `server_read_kb_per_unit`,
/// `server_write_kb_per_unit` (the server's process), `server_cpu_us_per_unit`, `client_cpu_us_per_unit`,
/// `generator_share` (of its processors), `misses`, `errors`, `backlog`, `steady_from_s` (since the step began),
/// `rss_bytes`, `rss_peak_bytes`, `documents`, `data_bytes`, `storage_bytes`, `index_bytes`, `log_bytes`, `engine_bytes`,
/// `engine_free_bytes`, `du_bytes`, `apparent_bytes` (at the step's end, `_before` at its begin), `serve_s` (recovery).
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct StepRecord {
    /// Unique within the system; what series and histograms refer to: `load`, `c16`, `c16-r2`, `cache64-c112`.
    pub name: String,
    pub phase: Phase,
    pub clients: usize,
    /// From 1.
    #[serde(default = "one")]
    pub repeat: u32,
    /// Further settings that distinguish the step: `cache_mb`, `syncdelay_s`, `workload` (A..F).
    #[serde(default)]
    pub settings: BTreeMap<String, Value>,
    /// Begin of the measured part, on the run's clock.
    pub begin_s: f64,
    pub end_s: f64,
    /// The kind that `per_second` counts.
    pub unit: String,
    #[serde(default, rename = "figures")]
    pub metrics: BTreeMap<String, f64>,
    #[serde(default)]
    pub latencies: Vec<LatencyRow>,
    #[serde(default)]
    pub errors: Vec<ErrorCount>,
    #[serde(default)]
    pub interrupted: bool,
    /// Why the point does not count, or counts with care.
    #[serde(default)]
    pub marks: Vec<String>,
}

fn one() -> u32 {
    1
}

impl StepRecord {
    pub fn metric(&self, name: &str) -> Option<f64> {
        self.metrics.get(name).copied()
    }

    pub fn per_second(&self) -> Option<f64> {
        self.metric("per_second")
    }

    pub fn latency(&self, kind: &str, clock: Clock) -> Option<&LatencyRow> {
        self.latencies.iter().find(|row| row.kind == kind && row.clock == clock)
    }
}

/// Which time a latency counts from.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Clock {
    /// From sending to the last byte of the reply.
    #[default]
    Service,
    /// From the time it was due by the schedule.
    Response,
}

/// Latencies of a whole step, in microseconds.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct LatencyRow {
    pub kind: String,
    pub clock: Clock,
    pub count: u64,
    pub mean: f64,
    pub p50: f64,
    pub p90: f64,
    pub p95: f64,
    pub p99: f64,
    pub p999: f64,
    pub max: f64,
}

#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct ErrorCount {
    pub code: String,
    pub count: u64,
    /// The first message with this code.
    pub first: String,
}

pub(super) fn parse(text: &str) -> Result<Record, String> {
    let value = yaml::parse(text)?;
    match value.get("format").and_then(Value::as_u64) {
        Some(format) if format <= u64::from(FORMAT) => {}
        Some(format) => return Err(format!("format {format} is newer than this laboratory's {FORMAT}")),
        None => return Err("there is no `format`".to_owned()),
    }
    serde_json::from_value(value).map_err(|error| error.to_string())
}

pub(super) fn emit(record: &Record) -> String {
    let value = serde_json::to_value(record).expect("keys of a record are strings");
    yaml::emit(&value, &ORDER)
}
