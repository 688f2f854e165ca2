//! Interface between the network and the commands: connections and their requests.

use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Instant;

/// Both ends of a connection and its number.
#[derive(Clone, Debug)]
pub struct Peer {
    /// From 1; never used again in this process.
    pub connection: u64,
    /// The loopback address with port 0, if the client came through a Unix socket.
    pub remote: SocketAddr,
    pub local: SocketAddr,
    /// Open connections, this one included.
    pub open: usize,
    /// Path of the Unix socket through which the client came; None: it came through the network.
    pub unix: Option<Arc<str>>,
    /// None: the connection is in plain text.
    pub tls: Option<Arc<TlsFacts>>,
}

/// Facts about a connection from its handshake of TLS.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsFacts {
    /// Name by which the client addressed the server (SNI).
    pub server_name: Option<String>,
    /// Certificate of the client in DER, verified against the authority; None: it showed none.
    pub certificate: Option<Vec<u8>>,
}

/// Reason why a connection was closed before its first request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// As many connections are open as there may be.
    TooMany,
    /// As many connections of this address are open as there may be.
    TooManyOfAddress,
    /// The handshake of TLS failed, or there was none although there has to be one.
    Tls(String),
}

impl Peer {
    pub fn new(connection: u64, remote: SocketAddr, local: SocketAddr, open: usize) -> Peer {
        Peer { connection, remote, local, open, unix: None, tls: None }
    }

    /// Returns the client's end as the log and `currentOp` show it.
    pub fn client(&self) -> String {
        match self.unix {
            Some(_) => "anonymous unix socket".to_owned(),
            None => self.remote.to_string(),
        }
    }
}

/// Resolves when there are news, also those that came before it was asked first.
pub type News = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Thread on which a request runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// On the worker that read the frame: for what is answered from memory.
    Inline,
    /// On a thread that may block, few at once: for reads, which wait for nothing but a disk.
    Reading,
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
    /// Connections closed because nothing, or no whole frame, arrived in time before a login.
    pub silent: u64,
    /// Handshakes of TLS that failed.
    pub tls_failed: u64,
    /// Connections closed because a frame did not arrive in time, or a reply was not read in time while memory was scarce.
    pub slow_frames: u64,
    /// Connections closed because there was no memory for a message in time.
    pub without_memory: u64,
}
