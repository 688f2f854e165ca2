//! State shared by all connections.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::time::{Duration, Instant};

use arbor_bson::DocBuf;
use arbor_protocol::fail_points::FailPoints;
use arbor_protocol::log::{Log, events};
use arbor_protocol::metrics::Metrics;
use arbor_protocol::operation::{About, Operations};
use arbor_protocol::topology::Topology;
use arbor_protocol::transport::{NetworkStatistics, Peer};
use arbor_query::Database;
use arbor_repl::Replication;

use crate::session::{SESSIONS_MAX, Sessions};
use crate::storage_parameters::StorageParameters;
use crate::usage::Usages;
use crate::{Connection, Parameters, Result};

/// Startup options that commands report.
#[derive(Clone, Debug, Default)]
pub struct Options {
    pub argv: Vec<String>,
    /// Settings under their YAML names, nested.
    pub parsed: DocBuf,
    pub dbpath: PathBuf,
    pub port: u16,
    /// Milliseconds from which a request is logged; negative: none is.
    pub slow_ms: i32,
    pub slow_sample_rate: f64,
    pub connections_max: usize,
}

/// Interface to the surrounding process.
pub trait Host: Send + Sync {
    fn network(&self) -> NetworkStatistics;
    /// Begins the clean shutdown; returns at once.
    fn shut_down(&self);
    /// Wakes the clients that wait for news of this server's role.
    fn topology_changed(&self);
}

pub struct Commands {
    pub database: Database,
    /// `None`: a standalone.
    pub replication: Option<Arc<Replication>>,
    pub(crate) topology: Topology,
    pub(crate) log: Arc<Log>,
    pub(crate) parameters: Parameters,
    pub(crate) options: Options,
    pub(crate) host: Box<dyn Host>,
    pub(crate) metrics: Metrics,
    pub(crate) usages: Usages,
    pub(crate) operations: Operations,
    pub(crate) sessions: Sessions,
    pub(crate) fail_points: FailPoints,
    pub(crate) started: Instant,
    pub(crate) slow_ms: AtomicI32,
    pub(crate) stopping: AtomicBool,
    /// Low-space state as last logged.
    low_on_space: AtomicBool,
}

impl Commands {
    /// Like [`Commands::new`], with the counts of the commands of a registry.
    pub(crate) fn with_metrics(
        mut database: Database,
        log: Arc<Log>,
        parameters: Parameters,
        options: Options,
        host: Box<dyn Host>,
        metrics: Metrics,
    ) -> Commands {
        let limit = |name: &str| parameters.int(name).and_then(|limit| usize::try_from(limit).ok());
        let settings = &mut database.settings;
        settings.sort_bytes_max =
            limit("internalQueryMaxBlockingSortMemoryUsageBytes").unwrap_or(settings.sort_bytes_max);
        settings.group_bytes_max =
            limit("internalDocumentSourceGroupMaxMemoryBytes").unwrap_or(settings.group_bytes_max);
        let slow_ms = AtomicI32::new(options.slow_ms);
        let own_log = log.clone();
        database.on_mismatch = Some(Box::new(move |namespace, info| {
            let attributes = DocBuf::new().with("namespace", namespace.as_str()).with("errInfo", info);
            own_log.warn(events::INVALID_DOCUMENT, "write", attributes);
        }));
        let sessions_max = limit("maxSessions").unwrap_or(SESSIONS_MAX);
        let limits = arbor_session::Limits { sessions_max, ..Default::default() };
        let sessions = Sessions::with_limits(database.transactions.clone(), limits);
        Commands {
            database,
            replication: None,
            topology: Topology::default(),
            log,
            parameters,
            options,
            host,
            metrics,
            usages: Usages::default(),
            operations: Operations::default(),
            sessions,
            fail_points: FailPoints::default(),
            started: Instant::now(),
            slow_ms,
            stopping: AtomicBool::new(false),
            low_on_space: AtomicBool::new(false),
        }
    }

    /// Returns the commands of a replica set member, which becomes primary with [`Commands::begin_replication`].
    pub fn with_replication(self, replication: Option<Replication>) -> Commands {
        Commands { replication: replication.map(Arc::new), ..self }
    }

    /// Sets what was given at the start for log, checkpoints and engines; answers what has no effect, with the reason.
    /// Errors: an unknown parameter, a bad value.
    pub fn set_storage_parameters(&self) -> Result<Vec<(&str, String)>> {
        let storage = StorageParameters(&self.database.transactions);
        let mut without_effect = Vec::new();
        for (name, text) in &self.parameters.for_storage {
            without_effect.extend(storage.set_at_start(name, text)?.map(|reason| (name.as_str(), reason)));
        }
        Ok(without_effect)
    }

    pub fn open(&self, peer: Peer) -> Connection {
        let remote = peer.remote.to_string();
        if !self.log.is_quiet() {
            let attributes = DocBuf::new().with("remote", &remote).with("connectionId", peer.connection as i64);
            self.log.info(
                events::CONNECTION_ACCEPTED,
                "listener",
                attributes.with("connectionCount", peer.open as i64),
            );
        }
        let slot = self.operations.open(peer.connection, About { remote, ..About::default() });
        Connection::new(peer, slot)
    }

    pub fn close(&self, connection: &Connection, open: usize) {
        self.operations.close(connection.peer.connection);
        if let Some(bound) = connection.bound {
            self.sessions.end(bound.session);
        }
        if !self.log.is_quiet() {
            let attributes = DocBuf::new().with("remote", &connection.peer.remote.to_string());
            let attributes = attributes.with("connectionId", connection.peer.connection as i64);
            self.log.info(events::CONNECTION_ENDED, &connection.name, attributes.with("connectionCount", open as i64));
        }
    }

    /// A connection that was closed because there are too many.
    pub fn refused(&self, remote: std::net::SocketAddr, open: usize) {
        let attributes = DocBuf::new().with("remote", &remote.to_string()).with("connectionCount", open as i64);
        self.log.info(events::CONNECTION_REFUSED, "listener", attributes);
    }

    /// Closes forgotten cursors, transactions and sessions. To be called about every second.
    pub fn tick(&self) {
        let now = Instant::now();
        let idle = self.parameters.int("cursorTimeoutMillis").unwrap_or(600_000).max(0) as u64;
        self.database.cursors.reap(now, Duration::from_millis(idle));
        self.log_space();
        self.resume_primary();
        self.end_expired_transactions();
        self.expire_sessions(now);
    }

    /// A line when writes begin or cease to be refused for lack of space.
    fn log_space(&self) {
        let low = self.database.transactions.is_low_on_space();
        if self.low_on_space.swap(low, Ordering::Relaxed) != low {
            match low {
                true => self.log.warn(events::LOW_ON_SPACE, "clock", DocBuf::new()),
                false => self.log.info(events::SPACE_AGAIN, "clock", DocBuf::new()),
            }
        }
    }

    /// Interrupts what runs, and everything that comes from now on.
    pub fn interrupt_all(&self) {
        self.stopping.store(true, Ordering::Relaxed);
        self.operations.kill_all();
        self.database.feed.wake_all();
    }
}
