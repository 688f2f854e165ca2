//! Everything that decides what is sent to the servers.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::run::{Ramp, Scripted};
use crate::target::Driver;

/// All of it is in run.yaml. An experiment's file says it for each scale, the command line overrides it and adds the systems.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Parameters {
    /// Managed servers, by engine.
    pub engines: Vec<String>,
    /// Names that engines were asked for by, where those are not theirs.
    #[serde(default)]
    pub asked_for: BTreeMap<String, String>,
    /// Running servers: `[NAME=]URI`.
    pub targets: Vec<String>,
    pub drivers: Vec<Driver>,
    /// Settings of the workload.
    pub settings: Map<String, Value>,
    pub mode: String,
    pub seed: u64,
    pub clients: Vec<usize>,
    pub warm_s: f64,
    pub steady_s: Option<f64>,
    pub seconds: f64,
    pub interval_s: f64,
    pub repeats: u32,
    pub rounds: u32,
    pub cache_mb: Vec<u64>,
    /// The memory of the server with its page cache, in multiples of its cache.
    pub memory: Option<f64>,
    pub syncdelay: Vec<f64>,
    pub rate: Option<f64>,
    /// A rate that changes during each step, by its measured seconds.
    #[serde(default)]
    pub ramp: Option<Ramp>,
    pub poisson: bool,
    /// Bounds that the run has to keep.
    #[serde(default)]
    pub thresholds: Vec<String>,
    /// Search for the highest rate with p99 below this number of milliseconds.
    #[serde(default)]
    pub search_p99_ms: Option<f64>,
    pub loaders: usize,
    pub phases: Vec<PhasePlan>,
    pub script: Vec<Scripted>,
    /// Measure the bare TCP echo as well.
    pub echo: bool,
    pub server_arguments: Vec<String>,
    /// Servers have the founding text's settings.
    #[serde(default)]
    pub text_settings: bool,
    /// Arguments of `arbor lab kv`.
    pub arguments: Vec<String>,
    /// The engine that the others are compared with in a report of `kv`.
    #[serde(default)]
    pub peer: Option<String>,
}

/// Steps with settings of their own on the same data: YCSB's A, B, C ...
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PhasePlan {
    pub name: String,
    pub settings: Map<String, Value>,
    /// Drop and reload the data first.
    pub reload: bool,
}

/// The settings of a phase over those of all.
pub(super) fn merged(all: &Map<String, Value>, own: &Map<String, Value>) -> Map<String, Value> {
    all.iter().chain(own).map(|(name, value)| (name.clone(), value.clone())).collect()
}
