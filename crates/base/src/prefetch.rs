//! Reads of a device that are done before a request begins.

use std::pin::Pin;

/// State of the memory with regard to a request that is about to begin.
pub enum Prefetch {
    /// It is not known whether the request waits for a device.
    Unknown,
    /// As far as is known, the request waits for no device.
    InMemory,
    /// The first thing that the request would wait for is in memory once `done` has resolved; a read that fails is repeated by the request.
    Reading {
        /// Bytes that are read.
        bytes: u64,
        done: Pin<Box<dyn Future<Output = ()> + Send>>,
    },
}
