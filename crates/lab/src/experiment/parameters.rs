//! Everything that decides what is sent to the servers.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::run::{Ramp, Scripted};
use crate::target::Driver;
use crate::target::control_groups::DiskLimits;
use crate::target::mysql::MySqlBuild;

/// All of it is in run.yaml. An experiment's file says it for each scale, the command line overrides it and adds the systems.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Parameters {
    /// Managed servers, by engine.
    pub engines: Vec<String>,
    /// Names that engines were asked for by, where those are not theirs.
    #[serde(default)]
    pub asked_for: BTreeMap<String, String>,
    /// Directories on several devices: each engine runs on each.
    #[serde(default)]
    pub devices: Vec<DataDevice>,
    /// MySQLs besides Debian's, whose engines are named `NAME.innodb`.
    #[serde(default)]
    pub mysql: Vec<MySqlBuild>,
    /// Running servers: `[NAME=]URI`.
    pub targets: Vec<String>,
    /// Agents on the hosts of running servers: `NAME=HOST:PORT`.
    #[serde(default)]
    pub agents: Vec<String>,
    /// Other hosts that run clients: addresses of generators.
    #[serde(default)]
    pub generators: Vec<String>,
    pub drivers: Vec<Driver>,
    /// Settings of the workload.
    pub settings: Map<String, Value>,
    pub mode: String,
    pub seed: u64,
    pub clients: Vec<usize>,
    /// Clients that share a thread.
    #[serde(default)]
    pub connections_per_thread: Option<usize>,
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

/// A directory for servers' data and what its device is called.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DataDevice {
    pub name: String,
    pub directory: PathBuf,
    #[serde(default)]
    pub limits: DiskLimits,
}

impl DataDevice {
    /// Reads `NAME=DIR[+LIMIT][,NAME=DIR...]` with limits as `200iops` and `40mb`; a text without a name is one directory and none of these.
    pub fn parse(text: &str) -> Result<Vec<DataDevice>, String> {
        if !text.contains('=') {
            return Ok(Vec::new());
        }
        let device = |part: &str| match part.split_once('=') {
            Some((name, directory))
                if !name.is_empty() && name.chars().all(char::is_alphanumeric) && !directory.is_empty() =>
            {
                let (mut directory, mut limits) = (directory, DiskLimits::default());
                while let Some((rest, limit)) = directory.rsplit_once('+')
                    && limits.read(limit)
                {
                    directory = rest;
                }
                Ok(DataDevice { name: name.to_owned(), directory: directory.into(), limits })
            }
            _ => Err(format!("expected NAME=DIR with a name of letters and digits, not {part:?}")),
        };
        let devices = text.split(',').map(device).collect::<Result<Vec<_>, _>>()?;
        let twice = devices
            .iter()
            .enumerate()
            .find(|(n, device)| devices.iter().take(*n).any(|other| other.name == device.name));
        twice.map_or(Ok(devices.clone()), |(_, device)| Err(format!("there are two devices {:?}", device.name)))
    }
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
