//! Settings of the server.

use std::path::PathBuf;

use arbor_auth::Subject;
use arbor_command::ClusterAuth;

use super::value::ParsedValue;

#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub dbpath: PathBuf,
    pub port: u16,
    pub bind_ip: Vec<String>,
    pub bind_all: bool,
    pub ipv6: bool,
    pub connections_max: usize,
    /// `None`: standard output.
    pub logpath: Option<PathBuf>,
    pub logappend: bool,
    pub quiet: bool,
    pub verbosity: u8,
    pub fork: bool,
    pub pidfile: Option<PathBuf>,
    /// Canonical name, if one was given: `ftree`, `lmdb`, `rocksdb`, `wiredTiger`.
    pub engine: Option<String>,
    /// Engine of everything that this member of a set creates from now on; a canonical name.
    pub engine_override: Option<String>,
    /// Options for engines by their own names, in the order given; each engine takes those it knows.
    pub engine_options: Vec<(String, String)>,
    /// Memory limit of the whole process; `None`: a fixed part of the memory of the machine or the control group.
    pub memory_limit: Option<u64>,
    /// Cache of the default engine: the last flag of any.
    pub cache_bytes: Option<u64>,
    /// Cache of an engine by its own flag; the last counts.
    pub cache_bytes_of: Vec<(&'static str, u64)>,
    pub commit_interval_ms: u64,
    /// Long records of the log are compressed.
    pub log_compression: bool,
    pub checkpoint_seconds: u64,
    /// Like `checkpoint_seconds`, if it was given: engines that make checkpoints by themselves use it.
    pub checkpoint_seconds_given: Option<u64>,
    pub slow_ms: i32,
    pub slow_sample_rate: f64,
    /// Level of the profiler in every database.
    pub profile_level: i32,
    pub parameters: Vec<(String, String)>,
    /// Name of the replica set; `None`: a standalone.
    pub replica_set: Option<String>,
    /// The set is a shard.
    pub is_shard: bool,
    /// The set is that of the config servers.
    pub is_config_server: bool,
    /// Config servers of the cluster that a router serves; `None`: this is no router.
    pub config_db: Option<String>,
    /// The coordinator of a set of several members.
    pub etcd: EtcdSettings,
    /// Size and retention of `local.oplog.rs`.
    pub oplog: OplogSettings,
    /// Prints a connection string and a first session even when standard output is no terminal.
    pub welcome: bool,
    /// Access control.
    pub auth: bool,
    /// Without access control, other addresses than the machine's own are bound all the same.
    pub allow_insecure: bool,
    /// Key that members of a cluster share.
    pub key_file: Option<PathBuf>,
    pub cluster_auth: ClusterAuth,
    /// Requests are not checked yet, while the clients of a cluster learn to log in.
    pub transition_to_auth: bool,
    pub tls: TlsSettings,
    pub unix_socket: UnixSocketSettings,
    /// Connections of one address; 0: any number.
    pub connections_per_address_max: usize,
    /// New connections in a second; 0: any number.
    pub new_connections_per_second: u32,
    pub audit: AuditSettings,
    pub http: HttpSettings,
    pub warnings: Vec<Warning>,
    /// All that was given, under YAML names: `getCmdLineOpts`.
    pub given: Vec<(String, ParsedValue)>,
}

/// Oplog settings that were given.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct OplogSettings {
    pub megabytes: Option<u64>,
    /// Younger entries are kept, whatever their size.
    pub hours_min: Option<f64>,
    /// TokuMX: older entries are removed, whatever their size.
    pub hours_max: Option<f64>,
}

/// Settings of etcd that were given.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct EtcdSettings {
    /// Empty: the server runs its own.
    pub endpoints: Vec<String>,
    pub prefix: Option<String>,
    pub ca_file: Option<PathBuf>,
    pub certificate_key_file: Option<PathBuf>,
    pub binary: Option<PathBuf>,
}

/// TLS settings that were given.
#[derive(Clone, Default)]
pub(crate) struct TlsSettings {
    pub mode: TlsMode,
    pub certificate_key_file: Option<PathBuf>,
    pub key_password: Option<String>,
    pub ca_file: Option<PathBuf>,
    /// Certificate and key that the server shows to other members; None: those that it shows to clients.
    pub cluster_file: Option<PathBuf>,
    pub cluster_password: Option<String>,
    /// Authorities of the certificates of clients and of members that connect; None: those of `ca_file`, which verify the servers to
    /// which this one connects in any case.
    pub cluster_ca_file: Option<PathBuf>,
    pub crl_file: Option<PathBuf>,
    pub certificate_optional: bool,
    /// Certificates of other members may have any name of a host.
    pub any_name: bool,
    /// Versions that are not spoken, of those that could be.
    pub without_1_2: bool,
    pub without_1_3: bool,
    /// Attributes of members' certificates; `None`: those of the own certificate.
    pub member: Option<Subject>,
}

/// Without the password.
impl std::fmt::Debug for TlsSettings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TlsSettings").field("mode", &self.mode).finish_non_exhaustive()
    }
}

/// The Unix socket.
#[derive(Clone, Debug)]
pub(crate) struct UnixSocketSettings {
    pub enabled: bool,
    /// It was asked for, so that a failure is one of the start.
    pub given: bool,
    pub directory: PathBuf,
    pub permissions: u32,
}

impl Default for UnixSocketSettings {
    fn default() -> UnixSocketSettings {
        UnixSocketSettings { enabled: true, given: false, directory: PathBuf::from("/tmp"), permissions: 0o700 }
    }
}

/// Settings of the HTTP port.
#[derive(Clone, Debug)]
pub(crate) struct HttpSettings {
    /// `None`: there is no such port.
    pub port: Option<u16>,
    pub bind_ip: Option<String>,
    pub token_file: Option<PathBuf>,
    /// Collections with metrics of their own.
    pub collections_max: usize,
}

impl Default for HttpSettings {
    fn default() -> HttpSettings {
        HttpSettings { port: None, bind_ip: None, token_file: None, collections_max: 100 }
    }
}

/// Audit settings that were given.
#[derive(Clone, Debug, Default)]
pub(crate) struct AuditSettings {
    /// `None`: nothing is audited.
    pub destination: Option<AuditDestination>,
    pub path: Option<PathBuf>,
    pub bson: bool,
    /// In JSON.
    pub filter: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AuditDestination {
    File,
    Console,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum TlsMode {
    #[default]
    Disabled,
    /// Connections in plain text as well.
    Allowed,
    /// Like `Allowed`, but connections to other members are encrypted.
    Preferred,
    Required,
}

/// A setting that was ignored or adjusted.
#[derive(Clone, Debug)]
pub(crate) struct Warning {
    pub key: String,
    pub text: String,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            dbpath: PathBuf::from("/data/db"),
            port: 27017,
            bind_ip: vec!["127.0.0.1".to_owned()],
            bind_all: false,
            ipv6: false,
            connections_max: 65_536,
            logpath: None,
            logappend: false,
            quiet: false,
            verbosity: 0,
            fork: false,
            pidfile: None,
            engine: None,
            engine_override: None,
            engine_options: Vec::new(),
            memory_limit: None,
            cache_bytes: None,
            cache_bytes_of: Vec::new(),
            commit_interval_ms: 100,
            log_compression: true,
            checkpoint_seconds: 60,
            checkpoint_seconds_given: None,
            slow_ms: 100,
            slow_sample_rate: 1.0,
            profile_level: 0,
            parameters: Vec::new(),
            replica_set: None,
            is_shard: false,
            is_config_server: false,
            config_db: None,
            etcd: EtcdSettings::default(),
            oplog: OplogSettings::default(),
            welcome: false,
            auth: false,
            allow_insecure: false,
            key_file: None,
            cluster_auth: ClusterAuth::default(),
            transition_to_auth: false,
            unix_socket: UnixSocketSettings::default(),
            connections_per_address_max: 0,
            new_connections_per_second: 0,
            audit: AuditSettings::default(),
            http: HttpSettings::default(),
            tls: TlsSettings::default(),
            warnings: Vec::new(),
            given: Vec::new(),
        }
    }
}

impl Settings {
    /// Sets a server parameter that has a flag of its own.
    pub(crate) fn set_switch(&mut self, name: &str, on: bool) {
        self.parameters.push((name.to_owned(), on.to_string()));
    }

    pub(crate) fn warn(&mut self, key: &str, text: &str) {
        self.warnings.push(Warning { key: key.to_owned(), text: text.to_owned() });
    }

    /// Returns true if requests are checked: a key file means so too, and members that log in by certificate.
    pub(crate) fn has_access_control(&self) -> bool {
        let has_members = self.key_file.is_some() || self.cluster_auth == ClusterAuth::X509;
        (self.auth || has_members) && !self.transition_to_auth
    }

    /// Returns the path of the Unix socket; None: there is none. It is for clients on the machine itself, so it is there where the
    /// loopback address is.
    pub(crate) fn unix_socket_path(&self, port: u16) -> Option<PathBuf> {
        let is_local = |name: &String| matches!(name.as_str(), "localhost" | "127.0.0.1" | "::1" | "0.0.0.0" | "::");
        let local = self.addresses().iter().any(is_local);
        let socket = &self.unix_socket;
        (socket.enabled && local).then(|| socket.directory.join(format!("mongodb-{port}.sock")))
    }

    /// The names to bind, `--bind_ip_all` resolved.
    pub(crate) fn addresses(&self) -> Vec<String> {
        match (self.bind_all, self.ipv6) {
            (false, _) => self.bind_ip.clone(),
            (true, false) => vec!["0.0.0.0".to_owned()],
            (true, true) => vec!["0.0.0.0".to_owned(), "::".to_owned()],
        }
    }
}
