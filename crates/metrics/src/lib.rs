//! Metrics over HTTP: the statistics of `serverStatus` as text for Prometheus, and the health of the server. And the flight recorder,
//! which keeps them in files.
//!
//! | file | what |
//! |---|---|
//! | `render` | statistics to text; one table of names |
//! | `http` | the port: a few requests at a time, small and short |
//! | `console` | the page of the server, with its data from the same source |
//! | `flight/` | the flight recorder: samples of all statistics in compressed files |
//!
//! Nothing is counted here: every number comes from [`Source::statistics`].

#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

mod console;
pub mod flight;
mod http;
mod render;

use arbor_bson::DocBuf;

pub use http::{Connection, Options, Secure, Timed, serve};
pub use render::{Format, render};

/// The server that is watched. Errors are sentences for the reply.
pub trait Source: Send + Sync {
    /// Returns the document of `serverStatus`, with `collections` (totals of `top`) and `set` (`replSetGetStatus`).
    fn statistics(&self) -> Result<DocBuf, String>;

    /// Returns the document of the console, with statements of clients and sizes of collections where they are requested.
    fn console(&self, operations: bool, collections: bool) -> Result<DocBuf, String>;

    /// Ends an operation of a client, if it still runs.
    fn kill(&self, operation: u64) -> Result<(), String>;

    /// Errors: the process should be restarted or inspected.
    fn health(&self) -> Result<(), String>;

    /// Errors: clients should not be sent here now.
    fn readiness(&self) -> Result<(), String>;
}
