//! Bounds of what a client can make the server hold.

use std::time::Duration;

use arbor_base::memory::{self, Budget};

#[derive(Clone, Debug)]
pub struct Limits {
    /// Connections above this number are closed at once.
    pub connections_max: usize,
    /// Connections of one address above this number are closed at once; 0: any number.
    pub connections_per_address_max: usize,
    /// New connections of all addresses in a second; more wait until they are accepted. 0: any number.
    pub new_connections_per_second: u32,
    /// Time for a handshake of TLS.
    pub handshake: Duration,
    /// Time until the first message, where access control is enabled.
    pub silence: Option<Duration>,
    /// Longest frame, header included; a longer announcement closes the connection.
    pub frame_bytes_max: usize,
    /// Memory budget of large messages and replies.
    pub budget: &'static Budget,
    /// Longest wait of a message for memory; its connection is closed then.
    pub memory_wait: Duration,
    /// Time for a begun frame, in addition to the time that its length earns (see `frame_time`).
    pub frame_grace: Duration,
    /// Longest wait of one write for a client that does not read.
    pub write_stall: Duration,
    /// Threads of all pools, which begin as they are needed; a quarter of them is for reads. Writers that wait for the end of an index build hold one
    /// each, so there are many: when they have taken all, requests for other collections wait as well.
    pub blocking_threads_max: usize,
    /// Longest wait of a clean shutdown for running requests.
    pub stop_grace: Duration,
}

/// MongoDB's `maxMessageSizeBytes`.
pub(crate) const FRAME_BYTES_MAX: usize = 48_000_000;

/// Each of these threads may read a snapshot.
pub const BLOCKING_THREADS_MAX: usize = 4096;

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            connections_max: 65_536,
            connections_per_address_max: 0,
            new_connections_per_second: 0,
            handshake: Duration::from_secs(10),
            silence: None,
            frame_bytes_max: FRAME_BYTES_MAX,
            budget: memory::process(),
            memory_wait: Duration::from_secs(60),
            frame_grace: Duration::from_secs(60),
            write_stall: Duration::from_secs(60),
            blocking_threads_max: BLOCKING_THREADS_MAX,
            stop_grace: Duration::from_secs(15),
        }
    }
}

impl Limits {
    /// A frame must arrive within the grace plus one second per 16 KB, so that a trickle cannot hold memory for long.
    pub(crate) fn frame_time(&self, frame_bytes: usize) -> Duration {
        self.frame_grace + Duration::from_secs(frame_bytes as u64 / (16 << 10))
    }

    /// Like `frame_time`, but while memory is scarce: a twelfth of the grace, and one second per 4 MB.
    pub(crate) fn hurry(&self, bytes: usize) -> Duration {
        self.frame_grace / 12 + Duration::from_secs(bytes as u64 / (4 << 20))
    }
}
