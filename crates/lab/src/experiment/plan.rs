//! The plan of a run: an experiment at a scale, with the command line's overrides in its [`Parameters`]; run.yaml keeps
//! those, so that a run can be repeated exactly.

use std::collections::BTreeMap;
use std::time::Duration;

use rand::SeedableRng;
use rand::rngs::SmallRng;
use rand::seq::SliceRandom;
use serde_json::{Map, Value, json};

use super::definition::{Experiment, KV, Scale};
use super::parameters::{DataDevice, Parameters, PhasePlan, merged};
use super::threshold::Threshold;
use crate::kv::EngineFacts;
use crate::run::{Arrival, Elsewhere, Pace, Ramp};
use crate::target::managed::{Flags, Setup, Shards};
use crate::target::mysql::MariaDb;
use crate::target::{Driver, compression};
use crate::workload::{Mode, Workload};
use crate::{Error, Result};

#[derive(Clone, Debug)]
pub struct Plan {
    pub experiment: Experiment,
    pub scale: Scale,
    pub parameters: Parameters,
    pub setup: Setup,
    /// Replace collections that are there with other contents.
    pub drop: bool,
    /// Command line as typed.
    pub command_line: Vec<String>,
    /// Sentences for a reader of the results.
    pub remarks: Vec<String>,
    /// Facts about the engines of this build, by name.
    pub facts: BTreeMap<String, EngineFacts>,
}

/// A server's flags between two restarts, and what the record calls them.
#[derive(Clone, Debug)]
pub struct Station {
    pub flags: Flags,
    /// `cache64`, `sync5`; joined in the steps' names.
    pub words: Vec<String>,
    pub settings: BTreeMap<String, Value>,
}

/// A server that is started, and the row of the tables that it is.
#[derive(Clone, Debug)]
pub struct ManagedPlan {
    /// `ftree`, `ftree.official`, `ftree@ssd`.
    pub name: String,
    pub engine: String,
    pub driver: Driver,
    pub setup: Setup,
}

/// One step of a station.
#[derive(Clone, Debug, PartialEq)]
pub struct StepPlan {
    pub name: String,
    pub phase: PhasePlan,
    pub clients: usize,
    pub repeat: u32,
    pub settings: BTreeMap<String, Value>,
}

/// Shards of founding text 003.
const SHARDS: u16 = 3;

impl Plan {
    pub fn of(experiment: Experiment, scale: Scale, setup: Setup) -> Plan {
        let parameters = experiment.size(scale).parameters.clone();
        let (drop, command_line, remarks, facts) = Default::default();
        Plan { experiment, scale, parameters, setup, drop, command_line, remarks, facts }
    }

    pub fn mode(&self) -> Mode {
        if self.parameters.mode == "fixed" { Mode::Fixed } else { Mode::Compat }
    }

    /// A new one, at its beginning.
    pub fn workload(&self, phase: &PhasePlan) -> Result<Box<dyn Workload>> {
        let settings = merged(&self.parameters.settings, &phase.settings);
        self.experiment.build(self.mode(), &settings).map_err(Error::Usage)
    }

    /// The phases; one without a name where the experiment has none.
    pub fn phases(&self) -> Vec<PhasePlan> {
        if self.parameters.phases.is_empty() { vec![PhasePlan::default()] } else { self.parameters.phases.clone() }
    }

    /// Checks the settings of the plan before servers are started.
    pub fn check(&self) -> Result<()> {
        if self.parameters.text_settings && self.experiment.text_settings.is_none() {
            let name = &self.experiment.name;
            return Err(Error::Usage(format!("--settings text: no founding text has settings for {name}")));
        }
        if self.experiment.workload == KV {
            let one = self.parameters.devices.is_empty();
            return if one { Ok(()) } else { Err(Error::Usage("--data: kv takes one directory".to_owned())) };
        }
        for phase in self.phases() {
            self.workload(&phase)?;
        }
        let parameters = &self.parameters;
        if parameters.clients.iter().any(|clients| !(1..=10_000).contains(clients)) {
            return Err(Error::Usage("--clients takes numbers from 1 to 10000".to_owned()));
        }
        if parameters.seconds <= 0.0 && !parameters.clients.is_empty() {
            return Err(Error::Usage("--seconds must be above 0".to_owned()));
        }
        if parameters.interval_s < 0.01 {
            return Err(Error::Usage("--interval must be at least 0.01".to_owned()));
        }
        if parameters.rate.is_some_and(|rate| !rate.is_finite() || rate <= 0.0) {
            return Err(Error::Usage("--rate takes a number above 0".to_owned()));
        }
        self.check_load()?;
        if !parameters.generators.is_empty() {
            self.check_generators()?;
        }
        if let Some(connections) = parameters.connections_per_thread {
            self.check_connections(connections)?;
        }
        parameters.targets.iter().try_for_each(|target| crate::target::check(target))
    }

    fn check_generators(&self) -> Result<()> {
        let wrong = |what: &str| Err(Error::Usage(format!("--generator: {what}")));
        if !self.parameters.engines.is_empty() {
            return wrong("other hosts reach running servers (--target) only");
        }
        for phase in self.phases() {
            if !self.workload(&phase)?.is_divisible() {
                return wrong(
                    "the clients of this workload share a counter: only point queries and sysbench's transactions",
                );
            }
        }
        Ok(())
    }

    /// Returns what hosts have to know that run clients for a target.
    pub fn elsewhere(&self, target: &str, driver: Driver) -> Option<Elsewhere> {
        let (generators, mode) = (self.parameters.generators.clone(), self.mode());
        let workload = self.experiment.workload.clone();
        (!generators.is_empty()).then(|| Elsewhere { generators, target: target.to_owned(), driver, workload, mode })
    }

    fn check_connections(&self, connections: usize) -> Result<()> {
        let parameters = &self.parameters;
        let wrong = |what: &str| Err(Error::Usage(format!("--connections-per-thread: {what}")));
        if connections == 0 {
            return wrong("at least one");
        }
        if parameters.rate.is_some() || parameters.ramp.is_some() || parameters.search_p99_ms.is_some() {
            return wrong("a thread with several connections sends when replies come, and keeps no rate");
        }
        for phase in self.phases() {
            if !self.workload(&phase)?.is_of_requests() {
                return wrong("only for experiments whose operations are one request each: point queries");
            }
        }
        Ok(())
    }

    /// Checks ramp, thresholds and search.
    fn check_load(&self) -> Result<()> {
        let parameters = &self.parameters;
        let wrong = |option: &str, what: &str| Err(Error::Usage(format!("--{option}: {what}")));
        for text in &parameters.thresholds {
            Threshold::parse(text).map_err(|what| Error::Usage(format!("--threshold: {what}")))?;
        }
        if parameters.ramp.is_some() && (parameters.rate.is_some() || parameters.steady_s.is_some()) {
            return wrong("ramp", "a ramp is a rate itself, and its times count from a warm-up of fixed length");
        }
        let Some(bound) = parameters.search_p99_ms else { return Ok(()) };
        if bound <= 0.0 {
            return wrong("search-p99", "expected milliseconds above 0");
        }
        if parameters.rate.is_some() || parameters.ramp.is_some() || parameters.rounds > 1 || parameters.repeats > 1 {
            return wrong("search-p99", "the search sets the rate, and repeats each step by itself");
        }
        if self.experiment.recovery || !parameters.script.is_empty() {
            return wrong("search-p99", "steps that kill the server or have a script cannot be repeated at many rates");
        }
        Ok(())
    }

    /// Returns the cluster of an experiment that needs one: as many shards as its founding text has.
    fn cluster(&self) -> Option<Shards> {
        let setting = |name: &str| self.parameters.settings.get(name);
        let plain = setting("sharded").and_then(Value::as_bool) == Some(false);
        let members = setting("members").and_then(Value::as_u64).and_then(|members| u16::try_from(members).ok());
        let needed = self.experiment.sharded && !plain;
        needed.then(|| Shards { shards: SHARDS, config_members: members.unwrap_or(1) })
    }

    /// The stations of a managed server, in order: each cache size at each time between checkpoints.
    pub fn stations(&self, engine: &str) -> Vec<Station> {
        let parameters = &self.parameters;
        // of a build, as of Debian's
        let engine = engine.rsplit_once('.').map_or(engine, |(_, name)| name);
        let mut own = self.experiment.flags.get(engine).cloned().unwrap_or_default();
        let of_text = self.experiment.text_settings.as_ref().filter(|_| parameters.text_settings);
        own.extend(of_text.and_then(|settings| settings.flags.get(engine)).into_iter().flatten().cloned());
        let oplog = of_text.is_some_and(|settings| settings.oplog);
        let mut stations = Vec::new();
        for cache_mb in choices(&parameters.cache_mb) {
            for syncdelay_s in choices(&parameters.syncdelay) {
                let memory_mb = cache_mb.zip(parameters.memory).map(|(cache, times)| (cache as f64 * times) as u64);
                let mut station = Station {
                    flags: Flags {
                        cache_mb,
                        syncdelay_s,
                        memory_mb,
                        arguments: own.clone(),
                        oplog,
                        cluster: self.cluster(),
                    },
                    words: Vec::new(),
                    settings: BTreeMap::new(),
                };
                if let (Some(cache_mb), true) = (cache_mb, parameters.cache_mb.len() > 1) {
                    station.words.push(format!("cache{cache_mb}"));
                    station.settings.insert("cache_mb".to_owned(), json!(cache_mb));
                }
                if let (Some(syncdelay_s), true) = (syncdelay_s, parameters.syncdelay.len() > 1) {
                    station.words.push(format!("sync{syncdelay_s}"));
                    station.settings.insert("syncdelay_s".to_owned(), number(syncdelay_s));
                }
                stations.push(station);
            }
        }
        stations
    }

    /// Returns the servers that are started, in order: each engine on each device by each driver.
    pub fn managed(&self) -> Vec<ManagedPlan> {
        let one = DataDevice { directory: self.setup.root.clone(), ..DataDevice::default() };
        let devices = match self.parameters.devices.as_slice() {
            [] => std::slice::from_ref(&one),
            devices => devices,
        };
        let mut all = Vec::new();
        for engine in &self.parameters.engines {
            for device in devices {
                let place = if device.name.is_empty() { String::new() } else { format!("@{}", device.name) };
                for driver in &self.parameters.drivers {
                    let (root, mysql) = (device.directory.clone(), self.parameters.mysql.clone());
                    let setup = Setup { root, disk: device.limits, mysql, ..self.setup.clone() };
                    let name = format!("{}{place}", driver.named(engine));
                    all.push(ManagedPlan { name, engine: engine.clone(), driver: *driver, setup });
                }
            }
        }
        all
    }

    /// Returns facts about a managed server that it does not report: the name that it was asked for by, the library of its
    /// engine, and the compression of its files.
    pub fn known(&self, engine: &str, flags: &Flags) -> Map<String, Value> {
        let facts = self.facts.get(engine);
        let arguments: Vec<String> = flags.arguments.iter().chain(&self.setup.arguments).cloned().collect();
        let usual = facts
            .map(|facts| facts.compression.clone())
            .or_else(|| MariaDb::of(engine, &self.parameters.mysql).map(MariaDb::compression));
        let set = if flags.oplog { "one member of a set" } else { "" };
        let of_text = [flags.arguments.join(" ").as_str(), set].map(str::to_owned).into_iter();
        let of_text = of_text.filter(|text| !text.is_empty()).collect::<Vec<_>>().join(", ");
        let all = [
            ("text_settings", self.parameters.text_settings.then_some(of_text)),
            ("asked_for", self.parameters.asked_for.get(engine).cloned()),
            ("library", facts.and_then(|facts| facts.library.clone())),
            ("cluster", flags.cluster.map(|cluster| format!("{} shards", cluster.shards))),
            ("compression", compression::chosen(engine, &arguments).or(usual)),
        ];
        all.into_iter().filter_map(|(name, value)| Some((name.to_owned(), json!(value?)))).collect()
    }

    /// The steps of a station. Repeats come in random order, the same for the same seed: a drift of the machine shall not
    /// look like an effect of the number of clients.
    pub fn steps(&self, station: &Station) -> Vec<StepPlan> {
        let parameters = &self.parameters;
        let mut random = SmallRng::seed_from_u64(parameters.seed);
        let mut steps = Vec::new();
        for phase in self.phases() {
            for round in 1..=parameters.rounds.max(1) {
                let mut group = Vec::new();
                for repeat in 1..=parameters.repeats.max(1) {
                    group.extend(
                        parameters.clients.iter().map(|clients| self.step(station, &phase, (round, *clients, repeat))),
                    );
                }
                if parameters.repeats > 1 {
                    group.shuffle(&mut random);
                }
                steps.extend(group);
            }
        }
        steps
    }

    fn step(&self, station: &Station, phase: &PhasePlan, (round, clients, repeat): (u32, usize, u32)) -> StepPlan {
        let parameters = &self.parameters;
        let (mut words, mut settings) = (station.words.clone(), station.settings.clone());
        if !phase.name.is_empty() {
            words.push(phase.name.clone());
            settings.insert("workload".to_owned(), json!(phase.name));
        }
        if parameters.rounds > 1 {
            words.push(format!("round{round}"));
            settings.insert("round".to_owned(), json!(round));
        }
        words.push(format!("c{clients}"));
        if parameters.repeats > 1 {
            words.push(format!("r{repeat}"));
        }
        StepPlan { name: words.join("-"), phase: phase.clone(), clients, repeat, settings }
    }

    pub fn arrival(&self) -> Arrival {
        if self.parameters.poisson { Arrival::Poisson } else { Arrival::Constant }
    }

    pub fn pace(&self) -> Pace {
        let parameters = &self.parameters;
        let ramp = parameters.ramp.as_ref().map(|ramp| ramp.later(parameters.warm_s));
        Pace {
            warm: Duration::from_secs_f64(parameters.warm_s),
            steady_within: parameters.steady_s.map(Duration::from_secs_f64),
            measured: Duration::from_secs_f64(parameters.seconds),
            interval: Duration::from_secs_f64(parameters.interval_s),
            rate: ramp.or(parameters.rate.map(Ramp::level)).map(|ramp| (ramp, self.arrival())),
            seed: parameters.seed,
            script: parameters.script.clone(),
            kill_at_end: self.experiment.recovery,
            connections_per_thread: parameters.connections_per_thread.unwrap_or(1),
            elsewhere: None,
        }
    }

    /// Describes the schedule of operations.
    pub fn schedule(&self) -> String {
        let arrival = if self.parameters.poisson { "Poisson" } else { "constant" };
        match (&self.parameters.ramp, self.parameters.rate, self.parameters.search_p99_ms) {
            (Some(ramp), _, _) => format!("open, {arrival}, {ramp} (rate/s at seconds)"),
            (None, Some(rate), _) => format!("open, {arrival}, {rate}/s"),
            (None, None, Some(bound)) => format!("open, {arrival}, the highest rate with p99 below {bound} ms"),
            (None, None, None) => "closed loop".to_owned(),
        }
    }

    /// Names of all systems, in order.
    pub fn systems(&self) -> usize {
        let parameters = &self.parameters;
        let managed = parameters.engines.len() * parameters.devices.len().max(1);
        (managed + parameters.targets.len()) * parameters.drivers.len().max(1) + usize::from(parameters.echo)
    }
}

/// A whole number without its `.0`.
fn number(value: f64) -> Value {
    if value.fract() == 0.0 { json!(value as i64) } else { json!(value) }
}

/// Each of them, or once none.
fn choices<T: Copy>(values: &[T]) -> Vec<Option<T>> {
    if values.is_empty() { vec![None] } else { values.iter().copied().map(Some).collect() }
}
