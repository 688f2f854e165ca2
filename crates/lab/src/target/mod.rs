//! What executes a workload's operations.
//!
//! A [`Target`] is one system under test, a row of the tables; a [`Session`] is one client's connection to it.

pub mod echo;
pub mod managed;
pub mod mongodb;
pub(crate) mod ports;
mod template;

use std::path::Path;

use serde_json::Value;

use crate::Result;
use crate::workload::{Operation, Row};

pub trait Target: Send + Sync {
    /// The row's name in tables and files.
    fn name(&self) -> &str;

    fn connect(&self) -> Result<Box<dyn Session>>;

    /// The server's process, when it runs on this machine and its number is known.
    fn process(&self) -> Option<u32>;

    /// The server's data folder, when this machine can read it.
    fn folder(&self) -> Option<&Path>;

    /// Version, engine and settings, for the manifest.
    fn about(&self) -> Result<Value>;
}

pub trait Session: Send {
    /// Gives the number of rows read or changed.
    fn execute(&mut self, operation: &Operation<'_>) -> std::result::Result<u64, Failure>;

    /// Makes an empty table with its index on k.
    fn create_table(&mut self, table: u32) -> std::result::Result<(), Failure>;

    fn drop_table(&mut self, table: u32) -> std::result::Result<(), Failure>;

    fn count_rows(&mut self, table: u32) -> std::result::Result<u64, Failure>;

    /// Inserts `rows` by one statement.
    fn insert_rows(&mut self, table: u32, rows: &[Row]) -> std::result::Result<(), Failure>;

    /// Reads every row once.
    fn scan_table(&mut self, table: u32) -> std::result::Result<u64, Failure>;

    fn sizes(&mut self) -> std::result::Result<Sizes, Failure>;
}

/// An operation that did not succeed.
#[derive(Clone, Debug)]
pub struct Failure {
    /// What failures are counted by: the server's error number, or the sort of I/O error.
    pub code: String,
    pub message: String,
    /// The session is of no more use.
    pub broken: bool,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

/// What the server says about its storage; `None` where it says nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sizes {
    pub documents: Option<f64>,
    pub data_bytes: Option<f64>,
    pub storage_bytes: Option<f64>,
    pub index_bytes: Option<f64>,
    /// Appended to the log since the server started.
    pub log_bytes: Option<f64>,
    /// What the engine's files take, all databases together.
    pub engine_bytes: Option<f64>,
    /// What of that holds nothing at present and will be used again.
    pub engine_free_bytes: Option<f64>,
}
