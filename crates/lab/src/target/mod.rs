//! Systems that execute a workload's operations.
//!
//! A [`Target`] is one system under test, a row of the tables; a [`Session`] is one client's connection to it.

pub(crate) mod compression;
pub(crate) mod control_groups;
pub mod echo;
pub mod managed;
pub mod mongodb;
pub mod mysql;
mod official;
pub(crate) mod ports;
pub(crate) mod process;
pub(crate) mod replica_set;
mod template;

use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::Arc;

use serde_json::Value;

use crate::agent::Agent;
use crate::workload::{Answer, Collection, Found, Operation};
use crate::{Error, Result};

pub trait Target: Send + Sync {
    /// The row's name in tables and files.
    fn name(&self) -> &str;

    fn connect(&self) -> Result<Box<dyn Session>>;

    /// The server's process, when it runs on this machine and its number is known.
    fn process(&self) -> Option<u32>;

    /// The server's data directory, when this machine can read it.
    fn directory(&self) -> Option<&Path>;

    /// The agent on the server's host, when there is one: it knows more than this machine does.
    fn agent(&self) -> Option<Arc<Agent>> {
        None
    }

    /// Version, engine and settings, for the manifest.
    fn about(&self) -> Result<Value>;

    /// Bytes of the reply to a point query, for the echo to send as many.
    fn point_reply_bytes(&self) -> Option<usize> {
        None
    }

    /// Returns a reader of the server's own counters, over a connection of its own; `None` if it has none.
    fn statistics(&self) -> Option<Box<dyn Statistics>> {
        None
    }
}

/// The server's own counters.
pub trait Statistics: Send {
    /// Returns the counters by name, with dots between levels; empty if the server does not reply.
    fn read(&mut self) -> Vec<(String, f64)>;
}

pub trait Session: Send {
    /// Refuses a family of operations it does not know ([`Failure::unsupported`]).
    fn execute(&mut self, operation: &Operation<'_>) -> std::result::Result<Answer, Failure>;

    /// Sends an operation that is one request, whose reply [`Session::receive`] returns. Returns false, and has done nothing, if it is not.
    fn send(&mut self, _operation: &Operation<'_>) -> std::result::Result<bool, Failure> {
        Ok(false)
    }

    fn receive(&mut self) -> std::result::Result<Answer, Failure> {
        Err(Failure::unsupported("this target"))
    }

    /// Returns the connection, whose reply a thread may await next to others.
    fn socket(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Makes an empty collection with the indexes that are made before the load.
    fn create(&mut self, collection: &Collection) -> std::result::Result<(), Failure>;

    /// Makes the indexes that wait for the load.
    fn create_late_indexes(&mut self, collection: &Collection) -> std::result::Result<(), Failure>;

    /// Drops it, if it is there.
    fn remove(&mut self, collection: &Collection) -> std::result::Result<(), Failure>;

    /// Returns what the server holds of it.
    fn find(&mut self, collection: &Collection) -> std::result::Result<Found, Failure>;

    /// Reads every document once.
    fn scan(&mut self, collection: &Collection) -> std::result::Result<u64, Failure>;

    fn sizes(&mut self, database: &str) -> std::result::Result<Sizes, Failure>;

    /// Returns the number of shards of the cluster; 0: it has none.
    fn shards(&mut self) -> usize {
        0
    }

    /// Returns the moves of a sharded collection's chunks that have succeeded since the cluster began, in order.
    fn moves(&mut self, _collection: &Collection) -> std::result::Result<Vec<ChunkMove>, Failure> {
        Err(Failure::unsupported("this target"))
    }

    /// Returns the number of documents that the shards of a collection have, those included that do not belong to them.
    fn stored(&mut self, _collection: &Collection) -> std::result::Result<u64, Failure> {
        Err(Failure::unsupported("this target"))
    }

    /// Counts what [`Session::stored`] estimates, in the documents and in every index.
    fn validate(&mut self, _collection: &Collection) -> std::result::Result<Stored, Failure> {
        Err(Failure::unsupported("this target"))
    }

    /// Runs a command of an experiment's script: names and values in their order.
    fn command(&mut self, _database: &str, _command: &[(String, Value)]) -> std::result::Result<(), Failure> {
        Err(Failure::unsupported("this target"))
    }
}

/// One move of a chunk, as the cluster's own log records it; `None`: it does not say.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ChunkMove {
    /// Time that writers of the range waited at most.
    pub critical_ms: Option<f64>,
    pub documents: Option<f64>,
    /// Time that the copy waited for the sake of clients.
    pub throttled_ms: Option<f64>,
}

/// Documents and index entries of a collection on all shards.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stored {
    pub documents: u64,
    pub index_entries: u64,
}

/// An operation that did not succeed.
#[derive(Clone, Debug)]
pub struct Failure {
    /// Key by which failures are counted: the server's error number, or the kind of I/O error.
    pub code: String,
    pub message: String,
    /// The session is of no more use.
    pub broken: bool,
}

impl Failure {
    /// Returns the failure of a target `who` that cannot execute an operation.
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

/// Storage sizes reported by the server; `None` where it reports nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sizes {
    pub documents: Option<f64>,
    pub data_bytes: Option<f64>,
    pub storage_bytes: Option<f64>,
    pub index_bytes: Option<f64>,
    /// Appended to the log since the server started.
    pub log_bytes: Option<f64>,
    /// Bytes of the engine's files, all databases together.
    pub engine_bytes: Option<f64>,
    /// Bytes of these that are free at present and will be reused.
    pub engine_free_bytes: Option<f64>,
}

/// Which client code drives a MongoDB server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Driver {
    /// Our own: blocking, buffers used again.
    #[default]
    Lean,
    /// The crate `mongodb`, to see what a full driver costs.
    Official,
}

impl Driver {
    /// Returns the name of a system with this driver.
    pub fn named(self, system: &str) -> String {
        match self {
            Driver::Lean => system.to_owned(),
            Driver::Official => format!("{system}.official"),
        }
    }
}

/// `[NAME=]URI` as name and URI.
fn split(text: &str) -> (Option<&str>, &str) {
    match text.split_once('=') {
        Some((name, uri)) if !name.contains([':', '/']) => (Some(name), uri),
        _ => (None, text),
    }
}

/// Returns the name of the system at `[NAME=]URI`.
pub fn name_of(text: &str) -> String {
    let (name, uri) = split(text);
    let host = uri.split_once("://").map_or(uri, |(_, rest)| rest);
    let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
    name.unwrap_or(host.split(['/', '?']).next().unwrap_or(host)).to_owned()
}

/// `text` with `***` in place of the password of a URI, for what others read.
pub fn without_password(text: &str) -> String {
    let parts = text.split_once("://").and_then(|(scheme, rest)| {
        let end = rest.find('/').unwrap_or(rest.len());
        let (user, host) = rest.get(..end)?.rsplit_once('@')?;
        let (user, _) = user.split_once(':')?;
        Some(format!("{scheme}://{user}:***@{host}{}", rest.get(end..)?))
    });
    parts.unwrap_or_else(|| text.to_owned())
}

/// Refuses what no client understands, without a connection.
pub fn check(text: &str) -> Result<()> {
    let (_, uri) = split(text);
    match uri.split_once("://") {
        _ if mysql::is_uri(uri) => Ok(()),
        Some((scheme, _)) if scheme != "mongodb" => {
            Err(Error::Usage(format!("{uri}: unknown scheme; known are mongodb://, mysql:// and mysql+handler://")))
        }
        _ => mongodb::MongoDb::parse(text).map(|_| ()),
    }
}

/// A running server by `[NAME=]URI`.
pub fn open(text: &str, driver: Driver) -> Result<Box<dyn Target>> {
    let (name, uri) = split(text);
    if mysql::is_uri(uri) {
        return mysql::parse(name, uri);
    }
    let target = mongodb::MongoDb::parse(text)?.discover()?;
    driven(target, driver)
}

/// A MongoDB server with the client code that was asked for.
pub(crate) fn driven(target: mongodb::MongoDb, driver: Driver) -> Result<Box<dyn Target>> {
    match driver {
        Driver::Lean => Ok(Box::new(target)),
        Driver::Official => official::wrap(target),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_not_shown() {
        let check = |text: &str, expect: &str| assert_eq!(without_password(text), expect);
        check("m=mongodb://u:p%40@h:1/d?x=a@b", "m=mongodb://u:***@h:1/d?x=a@b");
        check("--target=mysql://root:secret@h", "--target=mysql://root:***@h");
        for open in ["mongodb://h:1", "mongodb://u@h", "--keep", "a:b@c"] {
            check(open, open);
        }
    }
}
