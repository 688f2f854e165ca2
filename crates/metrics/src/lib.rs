//! Metrics over HTTP: the statistics of `serverStatus` as text for Prometheus, and the health of the server. And the flight recorder,
//! which keeps them in files.
//!
//! | file | what |
//! |---|---|
//! | `render` | statistics to text; one table of names |
//! | `http` | the port: a few requests at a time, small and short |
//! | `flight/` | the flight recorder: samples of all statistics in compressed files |
//!
//! Nothing is counted here: every number comes from [`Source::statistics`].

#![deny(clippy::unwrap_used, clippy::indexing_slicing)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::indexing_slicing))]

pub mod flight;
mod http;
mod render;

use arbor_bson::DocBuf;

pub use http::{Options, serve};
pub use render::{Format, render};

/// The server that is watched. Errors are sentences for the reply.
pub trait Source: Send + Sync {
    /// Returns the document of `serverStatus`, with `collections` (totals of `top`) and `set` (`replSetGetStatus`).
    fn statistics(&self) -> Result<DocBuf, String>;

    /// Errors: the process should be restarted or inspected.
    fn health(&self) -> Result<(), String>;

    /// Errors: clients should not be sent here now.
    fn readiness(&self) -> Result<(), String>;
}
