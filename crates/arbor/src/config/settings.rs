//! Settings of the server.

use std::path::PathBuf;

use super::value::ParsedValue;

#[derive(Clone, Debug)]
pub struct Settings {
    pub dbpath: PathBuf,
    pub port: u16,
    pub bind_ip: Vec<String>,
    pub bind_all: bool,
    pub ipv6: bool,
    pub connections_max: usize,
    /// `None`: standard output.
    pub logpath: Option<PathBuf>,
    pub logappend: bool,
    pub quiet: bool,
    pub verbosity: u8,
    pub fork: bool,
    pub pidfile: Option<PathBuf>,
    /// Canonical name, if one was given: `ftree`, `lmdb`, `rocksdb`, `wiredTiger`.
    pub engine: Option<String>,
    /// Options for engines by their own names, in the order given; each engine takes those it knows.
    pub engine_options: Vec<(String, String)>,
    /// Memory limit of the whole process; `None`: a fixed part of the memory of the machine or the control group.
    pub memory_limit: Option<u64>,
    /// Cache of the default engine: the last flag of any.
    pub cache_bytes: Option<u64>,
    /// Cache of an engine by its own flag; the last counts.
    pub cache_bytes_of: Vec<(&'static str, u64)>,
    pub commit_interval_ms: u64,
    pub checkpoint_seconds: u64,
    /// Like `checkpoint_seconds`, if it was given: engines that make checkpoints by themselves use it.
    pub checkpoint_seconds_given: Option<u64>,
    pub slow_ms: i32,
    pub slow_sample_rate: f64,
    pub parameters: Vec<(String, String)>,
    /// Name of the replica set; `None`: a standalone.
    pub replica_set: Option<String>,
    /// Size and retention of `local.oplog.rs`.
    pub oplog: OplogSettings,
    /// Prints a connection string and a first session even when standard output is no terminal.
    pub welcome: bool,
    pub warnings: Vec<Warning>,
    /// All that was given, under YAML names: `getCmdLineOpts`.
    pub given: Vec<(String, ParsedValue)>,
}

/// Oplog settings that were given.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct OplogSettings {
    pub megabytes: Option<u64>,
    /// Younger entries are kept, whatever their size.
    pub hours_min: Option<f64>,
    /// TokuMX: older entries are removed, whatever their size.
    pub hours_max: Option<f64>,
}

/// A setting that was ignored or adjusted.
#[derive(Clone, Debug)]
pub struct Warning {
    pub key: String,
    pub text: String,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            dbpath: PathBuf::from("/data/db"),
            port: 27017,
            bind_ip: vec!["127.0.0.1".to_owned()],
            bind_all: false,
            ipv6: false,
            connections_max: 65_536,
            logpath: None,
            logappend: false,
            quiet: false,
            verbosity: 0,
            fork: false,
            pidfile: None,
            engine: None,
            engine_options: Vec::new(),
            memory_limit: None,
            cache_bytes: None,
            cache_bytes_of: Vec::new(),
            commit_interval_ms: 100,
            checkpoint_seconds: 60,
            checkpoint_seconds_given: None,
            slow_ms: 100,
            slow_sample_rate: 1.0,
            parameters: Vec::new(),
            replica_set: None,
            oplog: OplogSettings::default(),
            welcome: false,
            warnings: Vec::new(),
            given: Vec::new(),
        }
    }
}

impl Settings {
    pub fn warn(&mut self, key: &str, text: &str) {
        self.warnings.push(Warning { key: key.to_owned(), text: text.to_owned() });
    }

    /// The names to bind, `--bind_ip_all` resolved.
    pub fn addresses(&self) -> Vec<String> {
        match (self.bind_all, self.ipv6) {
            (false, _) => self.bind_ip.clone(),
            (true, false) => vec!["0.0.0.0".to_owned()],
            (true, true) => vec!["0.0.0.0".to_owned(), "::".to_owned()],
        }
    }
}
