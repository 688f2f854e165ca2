//! Interface between the network and the commands: connections and their requests.

use std::net::SocketAddr;
use std::time::Instant;

/// Both ends of a connection and its number.
#[derive(Clone, Copy, Debug)]
pub struct Peer {
    /// From 1; never used again in this process.
    pub connection: u64,
    pub remote: SocketAddr,
    pub local: SocketAddr,
    /// Open connections, this one included.
    pub open: usize,
}

/// Thread on which a request runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// On the worker that read the frame: for what is answered from memory.
    Inline,
    /// On the pool of threads that may block.
    Blocking,
}

/// Action after the reply is written. `more` is the call for the next reply of the same request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum After {
    Continue,
    /// Call `more` before the next read (exhaust replies).
    More,
    /// There is no reply yet: call `more` when an event for the connection arrives, when the server's role changes, and at
    /// this time.
    Wait {
        until: Instant,
    },
    Close,
}

/// Counts of connections, requests and bytes at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NetworkStatistics {
    pub connections_open: usize,
    pub connections_created: u64,
    pub connections_rejected: u64,
    pub bytes_in: u64,
    pub bytes_out: u64,
    pub requests: u64,
    /// Requests that ran on the blocking pool.
    pub requests_pooled: u64,
    pub panics: u64,
    /// Connections closed because a frame did not arrive in time, or a reply was not read in time while memory was scarce.
    pub slow_frames: u64,
    /// Connections closed because there was no memory for a message in time.
    pub without_memory: u64,
}
