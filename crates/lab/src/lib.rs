//! The laboratory: runs the founding experiments against any server and prints their tables.
//!
//! | directory | what |
//! |---|---|
//! | `workload` | operations and distributions, no I/O (spec/workloads.md) |
//! | `target` | what executes operations: a MongoDB server over the lean client, managed Arbor servers, the bare echo |
//! | `observe` | CPU, context switches and sizes from the operating system |
//! | `run` | phases, client counts, the global schedule, intervals, histograms |
//! | `results` | a run as files, written during the run and read back: run.yaml, series.csv, hist.hlog, events, tables |
//! | `report` | what is drawn from a run's files: tables in the founding texts' forms, the page with charts, the index page |
//! | `export` | series for other programs |
//! | `site` | one page over many runs and machines |
//! | `live` | the page that shows a run in progress |
//! | `query` | single shapes of queries, timed and explained |
//! | `replset` | costs of a replica set: of one member, and of several |
//! | `kv` | the storage engines alone, side by side |
//! | `experiment` | the experiments (one YAML file each in `experiments/`) and how one is carried out |
//! | `agent`, `generator` | counters of a server on another host; clients on other hosts |
//! | `cli` | `arbor lab ...` |
//!
//! The generator shares the machine with the server, as in founding text 001: one blocking connection per client thread,
//! reused buffers, no runtime.

pub mod agent;
pub mod cli;
pub mod compare;
mod error;
pub mod experiment;
mod export;
pub mod generator;
mod host;
pub mod kv;
pub mod live;
pub mod observe;
mod query;
mod replset;
pub mod report;
pub mod results;
pub mod run;
pub mod site;
pub mod target;
pub mod workload;

pub use error::{Error, Result};
pub use host::Host;
pub(crate) use host::{build, launcher};
