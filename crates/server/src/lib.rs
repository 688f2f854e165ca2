//! Sockets: accepts connections, reads frames in bounded steps, hands each to a [`Session`], writes its reply.
//!
//! The only crate with an async runtime, and free of documents: a frame is a length and bytes.
//!
//! | file | what |
//! |---|---|
//! | `handler` | the seam: what a user of this crate implements |
//! | `server` | the runtime, accepting, stopping |
//! | `connection` | one connection from accept to close |
//! | `addresses` | how many connections an address may have, and how many may come in a second |
//! | `frame` | the read buffer of one connection |
//! | `memory` | who may read a large message now, and how long a client may take |
//! | `place` | where a request runs: on the worker that read it or on the blocking pool |
//! | `pool` | the threads of requests that may wait for a disk |
//! | `reads` | reads of a device that no thread waits for |
//! | `waits` | observes whether requests that run on a worker wait for a device |
//! | `bell` | wakes the connections whose requests wait for news |
//! | `stop` | the clean shutdown |
//! | `tls` | TLS of connections |
//! | `signal` | SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2 as calls |
//! | `metrics` | connection and byte counts |
//! | `echo` | a server that answers every frame with a canned reply: the laboratory's bare peer |
//!
//! Threads: one tokio worker per core runs all connections; what may block on a disk runs on a pool of threads, so a
//! reader that waits for a disk holds up no other connection. A connection is one task and runs one request at a time.
//! No lock is taken per request that runs on a worker; the pool has one.

#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

mod addresses;
mod bell;
mod connection;
pub mod echo;
mod error;
mod frame;
mod handler;
mod limits;
mod listeners;
mod memory;
mod metrics;
mod place;
mod pool;
mod reads;
mod server;
mod signal;
mod stop;
mod tls;
mod waits;

pub use arbor_protocol::transport::{After, NetworkStatistics, News, Peer, Place, Refusal, TlsFacts};
pub use bell::Bell;
pub use error::{Error, Result};
pub use handler::{Handler, Session};
pub use limits::{BLOCKING_THREADS_MAX, Limits};
pub use listeners::{Listeners, UnixSocket, bind, listen};
pub use metrics::Metrics;
pub use reads::Reads;
pub use server::{Hooks, Server};
pub use signal::{Signal, watch_signals};
pub use stop::Stop;
pub use tls::{Tls, TlsOptions, TlsVersions};
