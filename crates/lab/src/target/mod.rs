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
use crate::workload::{Answer, Collection, Found, Operation};

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
    /// Refuses a family of operations it does not know ([`Failure::unsupported`]).
    fn execute(&mut self, operation: &Operation<'_>) -> std::result::Result<Answer, Failure>;

    /// Makes an empty collection with the indexes that are made before the load.
    fn create(&mut self, collection: &Collection) -> std::result::Result<(), Failure>;

    /// Makes the indexes that wait for the load.
    fn create_late_indexes(&mut self, collection: &Collection) -> std::result::Result<(), Failure>;

    /// Drops it, if it is there.
    fn remove(&mut self, collection: &Collection) -> std::result::Result<(), Failure>;

    /// What the server holds of it.
    fn find(&mut self, collection: &Collection) -> std::result::Result<Found, Failure>;

    /// Reads every document once.
    fn scan(&mut self, collection: &Collection) -> std::result::Result<u64, Failure>;

    fn sizes(&mut self, database: &str) -> std::result::Result<Sizes, Failure>;
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

impl Failure {
    /// `who` has no way to execute what was asked.
    pub fn unsupported(who: &str) -> Failure {
        let message = format!("{who} does not execute such operations");
        Failure { code: "unsupported".to_owned(), message, broken: false }
    }
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
