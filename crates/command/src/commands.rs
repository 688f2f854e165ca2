//! State shared by all connections.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::{Duration, Instant};

use arbor_bson::{Code, DocBuf};
use arbor_protocol::fail_points::FailPoints;
use arbor_protocol::log::{Log, events};
use arbor_protocol::metrics::Metrics;
use arbor_protocol::operation::{About, Operations};
use arbor_protocol::topology::Topology;
use arbor_protocol::transport::{NetworkStatistics, Peer, Refusal};
use arbor_query::Database;
use arbor_repl::{OwnFacts, Replication};
use arbor_txn::fetch::{self, Begun, Source};

use crate::access::{Accounts, ClusterAuth, Keys};
use crate::analysis::sampler::Sampler;
use crate::audit::Audit;
use crate::cmd::admin::auto_compact::AutoCompact;
use crate::cmd::crud::backup_cursor::BackupOpen;
use crate::cmd::repl::arbor_tree::HELD_IDLE;
use crate::feature_version::FeatureVersion;
use crate::log_components::LogComponents;
use crate::ownership::Ownership;
use crate::profiler::Profiler;
use crate::query_statistics::QueryStatistics;
use crate::replication::{LocalCollections, Membership, Several};
use crate::session::collections::SessionCollections;
use crate::session::two_phase::Settling;
use crate::session::{SESSIONS_MAX, Sessions};
use crate::slow_shapes::SlowShapes;
use crate::storage_parameters::StorageParameters;
use crate::usage::Usages;
use crate::write_block::WriteBlock;
use crate::{Balancer, Connection, Error, Parameters, Result, Router};

/// Operations that run for this long are looked at: their clients may have left.
const ABANDONED_AGE: Duration = Duration::from_secs(1);

/// Startup options that commands report.
#[derive(Clone, Debug, Default)]
pub struct Options {
    pub argv: Vec<String>,
    /// Settings under their YAML names, nested.
    pub parsed: DocBuf,
    pub dbpath: PathBuf,
    /// Identity of the data directory.
    pub directory_id: String,
    pub port: u16,
    /// Milliseconds from which a request is logged; negative: none is.
    pub slow_ms: i32,
    pub slow_sample_rate: f64,
    /// Level of the profiler in every database.
    pub profile_level: i32,
    pub connections_max: usize,
    /// The commit that was built: hexadecimal digits, or `unknown`.
    pub commit: &'static str,
    /// Version, commit and how the server was built, in one line.
    pub build: &'static str,
}

/// Interface to the surrounding process.
pub trait Host: Send + Sync {
    fn network(&self) -> NetworkStatistics;
    /// Reads the certificates of TLS again. Errors: they are wrong, and everything stays as it was.
    fn rotate_certificates(&self) -> std::result::Result<(), String>;
    /// Reads the key file again; None: there is none. Errors: it is wrong.
    fn keys(&self) -> std::result::Result<Option<Keys>, String> {
        Ok(None)
    }
    /// Returns the server's own certificate in DER; None: TLS is disabled.
    fn certificate(&self) -> Option<Arc<[u8]>> {
        None
    }
    /// Begins the clean shutdown; returns at once.
    fn shut_down(&self);
    /// Makes a data directory, which is empty still, of the state that a peer has. `home`: the engine of the trees that a server keeps for itself.
    fn make_directory(&self, _: &dyn fetch::Peer, _: &Begun, _home: &str, _: &Path) -> std::result::Result<(), String> {
        Err("this server cannot make files".to_owned())
    }
    /// Appends records to the log of a directory that was made so.
    fn append_to_directory(&self, _: &Path, _epoch: u64, _: &[&[u8]]) -> std::result::Result<(), String> {
        Err("this server cannot make files".to_owned())
    }
    /// Returns true if the client of a connection has closed it.
    fn has_left(&self, _connection: u64) -> bool {
        false
    }
    /// Wakes the clients that wait for news of this server's role.
    fn topology_changed(&self);
    /// Bytes that the allocator counts, by names of its own: `allocated`, `active`, `resident`, `mapped`, `retained`.
    fn allocator(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }
}

pub struct Commands {
    pub database: Database,
    /// `None`: a standalone.
    pub replication: Option<Arc<Replication>>,
    /// Together with `replication`.
    pub(crate) own_facts: Option<Arc<OwnFacts>>,
    /// The part in a set of several members.
    pub(crate) several: Several,
    pub(crate) accounts: Accounts,
    /// None: nothing is audited.
    pub(crate) audit: Option<Arc<Audit>>,
    pub(crate) topology: Topology,
    pub(crate) log: Arc<Log>,
    pub(crate) parameters: Parameters,
    pub(crate) options: Options,
    pub(crate) host: Box<dyn Host>,
    pub(crate) metrics: Metrics,
    pub(crate) usages: Usages,
    pub(crate) operations: Operations,
    pub(crate) sessions: Arc<Sessions>,
    /// Another member has changed settings that are cached here.
    pub(crate) settings_changed: Arc<AtomicBool>,
    /// States that are held for backups, and for members that fetch trees.
    pub(crate) trees: Source,
    pub(crate) fail_points: FailPoints,
    pub(crate) started: Instant,
    pub(crate) feature_version: FeatureVersion,
    pub(crate) profiler: Profiler,
    pub(crate) slow_shapes: SlowShapes,
    pub(crate) query_statistics: QueryStatistics,
    pub(crate) sampler: Sampler,
    /// Time at which the last backup began, in milliseconds since 1970; 0: none since the start.
    pub(crate) last_backup_ms: AtomicI64,
    pub(crate) backup_open: BackupOpen,
    pub(crate) write_block: WriteBlock,
    pub(crate) log_components: LogComponents,
    pub(crate) stopping: AtomicBool,
    pub(crate) auto_compact: AutoCompact,
    /// The data is on other servers.
    pub(crate) router: Option<Arc<dyn Router>>,
    /// `None`: this server is no config server.
    pub(crate) balancer: Option<Arc<dyn Balancer>>,
    /// Its database `config` is that of a cluster.
    pub(crate) is_config_server: bool,
    /// `None`: this server is no shard.
    pub(crate) ownership: Option<Ownership>,
    pub(crate) settling: Settling,
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
        let profiler = Profiler::new(options.slow_ms, options.slow_sample_rate, options.profile_level);
        let own_log = log.clone();
        database.on_mismatch = Some(Box::new(move |namespace, info| {
            let attributes = DocBuf::new().with("namespace", namespace.as_str()).with("errInfo", info);
            own_log.warn(events::INVALID_DOCUMENT, "write", attributes);
        }));
        let sessions_max = limit("maxSessions").unwrap_or(SESSIONS_MAX);
        let limits = arbor_session::Limits { sessions_max, ..Default::default() };
        let sessions = Arc::new(Sessions::with_limits(database.transactions.clone(), limits));
        let own = SessionCollections::new(sessions.clone(), &database.transactions);
        database.server_collections.push(Box::new(own));
        Commands {
            settings_changed: Arc::default(),
            trees: Source::new(database.transactions.clone()),
            database,
            replication: None,
            own_facts: None,
            accounts: Accounts::new(false, None, ClusterAuth::default()),
            audit: None,
            several: Several::default(),
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
            feature_version: FeatureVersion::default(),
            profiler,
            slow_shapes: SlowShapes::default(),
            query_statistics: QueryStatistics::default(),
            sampler: Sampler::default(),
            last_backup_ms: AtomicI64::new(0),
            backup_open: BackupOpen::default(),
            write_block: WriteBlock::default(),
            log_components: LogComponents::default(),
            stopping: AtomicBool::new(false),
            auto_compact: AutoCompact::default(),
            router: None,
            balancer: None,
            is_config_server: false,
            ownership: None,
            settling: Settling::default(),
            low_on_space: AtomicBool::new(false),
        }
    }

    /// Returns the commands with access control as these accounts have it.
    pub fn with_accounts(self, accounts: Accounts) -> Commands {
        Commands { accounts, ..self }
    }

    /// Returns the commands with an audit.
    pub fn with_audit(self, audit: Option<Arc<Audit>>) -> Commands {
        Commands { audit, ..self }
    }

    /// Returns the commands of a config server with a balancer.
    pub fn with_balancer(self, balancer: Option<Arc<dyn Balancer>>) -> Commands {
        Commands { balancer, ..self }
    }

    /// Returns the term and the address, `set/host:port,...`, of the set of which this server is the primary.
    pub fn leads(&self) -> Option<(i64, String)> {
        let replication = self.replication.as_ref().filter(|replication| replication.is_primary())?;
        let state = replication.state();
        let hosts: Vec<&str> = state.config.as_ref()?.members.iter().map(|member| member.host.as_str()).collect();
        Some((replication.term(), format!("{}/{}", replication.name(), hosts.join(","))))
    }

    /// Returns how far back members of replica sets are read.
    pub fn history_window(&self) -> Duration {
        self.database.transactions.history_window()
    }

    pub fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }

    pub fn parameter(&self, name: &str) -> Option<i64> {
        self.parameters.int(name)
    }

    /// Returns the commands of a router.
    pub fn with_router(self, router: Option<Arc<dyn Router>>) -> Commands {
        Commands { router, ..self }
    }

    /// Returns true for the database that describes the cluster, which routers change by transactions.
    pub(crate) fn is_of_cluster(&self, db: &str) -> bool {
        self.is_config_server && db == "config"
    }

    /// Returns the commands of a config server.
    pub fn as_config_server(self, is_config_server: bool) -> Commands {
        Commands { is_config_server, ..self }
    }

    /// Returns the commands of a shard, which begins with [`Commands::begin_sharding`].
    pub fn as_shard(self, is_shard: bool) -> Commands {
        Commands { ownership: is_shard.then(Ownership::default), ..self }
    }

    /// Returns the commands of a replica set member, which becomes primary with [`Commands::begin_replication`].
    pub fn with_replication(mut self, replication: Option<Replication>) -> Commands {
        let Some(replication) = replication.map(Arc::new) else { return self };
        let facts = Arc::new(OwnFacts::new(&self.options.dbpath));
        let local = LocalCollections::new(replication.clone(), facts.clone());
        self.database.server_collections.push(Box::new(local));
        Commands { replication: Some(replication), own_facts: Some(facts), ..self }
    }

    /// Returns the commands of a member whose set may have several members.
    pub fn with_membership(self, membership: Option<Membership>) -> Commands {
        Commands { several: Several::new(membership), ..self }
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

    /// Brings what parameters steer in line with them.
    pub fn apply_parameters(&self) {
        let level = self.parameters.int("logLevel").unwrap_or(0).clamp(0, 5);
        self.log.set_verbosity(level as u8);
        self.log.set_quiet(self.parameters.bool("quiet"));
        self.log.set_redacting(self.parameters.bool("redactClientLogData"));
        if let Some(audit) = &self.audit {
            audit.set_successes(self.parameters.bool("auditAuthorizationSuccess"));
        }
        self.profiler.log_all(self.log_components.of_commands(level as i32) > 0);
        self.database.unread_updates.enable(self.parameters.bool("fastUpdates"));
        self.profiler.forbid_scans(self.parameters.bool("notablescan"));
        self.query_statistics.set_rate(self.parameters.int("internalQueryStatsRateLimit").unwrap_or(0));
    }

    pub fn open(&self, peer: Peer) -> Connection {
        let remote = peer.client();
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
        if let Some((member, handle)) = connection.member.zip(self.several.handle()) {
            handle.lost(member);
        }
        self.audit_logout(connection, "Client has disconnected");
        if !self.log.is_quiet() {
            let attributes = DocBuf::new().with("remote", &connection.peer.client());
            let attributes = attributes.with("connectionId", connection.peer.connection as i64);
            self.log.info(events::CONNECTION_ENDED, &connection.name, attributes.with("connectionCount", open as i64));
        }
    }

    /// Notes a connection that was closed before its first request.
    pub fn refused(&self, peer: &Peer, refusal: Refusal) {
        let attributes = DocBuf::new().with("remote", &peer.client());
        let (event, attributes) = match refusal {
            Refusal::TooMany => (events::CONNECTION_REFUSED, attributes.with("connectionCount", peer.open as i64)),
            Refusal::TooManyOfAddress => (events::ADDRESS_REFUSED, attributes),
            Refusal::Tls(reason) => {
                let error = Error::new(Code::SSL_HANDSHAKE_FAILED, reason);
                let attributes = attributes.with("connectionId", peer.connection as i64);
                let error = DocBuf::new()
                    .with("code", error.code.0)
                    .with("codeName", &*error.code.name())
                    .with("errmsg", &error.message);
                (events::HANDSHAKE_FAILED, attributes.with("error", &error))
            }
        };
        self.log.info(event, "listener", attributes);
    }

    pub(crate) fn is_primary(&self) -> bool {
        self.replication.as_ref().is_some_and(|replication| replication.is_primary())
    }

    /// Reads users and roles again before the next request of each connection.
    pub fn accounts_changed(&self) {
        self.accounts.changed();
    }

    /// Closes forgotten cursors, transactions and sessions. To be called about every second.
    pub fn tick(&self) {
        let now = Instant::now();
        let idle = self.parameters.int("cursorTimeoutMillis").unwrap_or(600_000).max(0) as u64;
        self.database.cursors.reap(now, Duration::from_millis(idle));
        if self.operations.kill_abandoned(ABANDONED_AGE, |connection| self.host.has_left(connection)) > 0 {
            self.database.feed.wake_all();
        }
        self.log_space();
        self.resume_primary();
        self.tend_primary(now);
        self.end_expired_transactions();
        self.expire_sessions(now);
        self.trees.expire(HELD_IDLE);
        self.reload_settings();
        if let Some(router) = &self.router {
            let seconds = self.parameters.int("userCacheInvalidationIntervalSecs").unwrap_or(30).clamp(1, 86_400);
            self.accounts.begin_interval(self.started.elapsed().as_secs() / seconds as u64);
            router.tick();
        }
    }

    /// Completes changes of the cluster that another router has left. May take long; to be called every few seconds.
    pub fn continue_changes(&self) {
        if let Some(router) = &self.router {
            router.continue_changes(self);
        }
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
        self.auto_compact.stop();
        self.operations.kill_all();
        self.database.feed.wake_all();
    }
}
