//! The one table of settings. It is long because it is flat; each row is read on its own.
//!
//! A row names a flag, its YAML key and what it does. The old `key = value` form uses the names of the flags. Rows that
//! Arbor has no use for stay: files that start a mongod of any age, TokuMX or its engines start Arbor as well.

use arbor_auth::Subject;
use arbor_command::ClusterAuth;

use super::settings::{AuditDestination, Settings, TlsMode};
use super::value::{Kind, ParsedValue};
use super::{RawSetting, Refused};

pub(super) struct Row {
    /// Without the dashes; empty when there is no flag.
    pub flag: &'static str,
    /// Dotted; empty when the setting was never a YAML key.
    pub yaml: &'static str,
    pub kind: Kind,
    pub action: Action,
    /// Empty: what it does says it, see [`Row::description`].
    pub help: &'static str,
}

pub(super) enum Action {
    /// Does what it did in MongoDB. The value was checked against the row's kind.
    Apply(fn(&mut Settings, ParsedValue) -> Result<(), String>),
    /// Does something near; the warning says what.
    Map(fn(&mut Settings, ParsedValue) -> Result<(), String>, &'static str),
    /// Is handed to the engines under this name.
    EngineOption(&'static str),
    /// Has no meaning here; the warning says why.
    Ignore(&'static str),
    /// Would silently promise what Arbor does not do yet: refuses the start unless it is off.
    Refuse(&'static str),
    /// `name=value` for the server's parameters.
    Parameter,
}

use Action::{Apply, EngineOption, Ignore, Map, Refuse};
use Kind::{Bytes, Real, Switch, Text};
use ParsedValue as V;

const PORT: Kind = Kind::Number { min: 0, max: 65_535 };
const COUNT: Kind = Kind::Number { min: 0, max: i64::MAX };

const ONE_LOG: &str = "Arbor has one log for everything and always writes it";
const MMAPV1: &str = "belongs to the mmapv1 engine, which is gone; lmdb is the memory-mapped engine";
const ANY_CERTIFICATE: &str = "every certificate would be accepted, so TLS would protect no client";
/// With less, one statement hardly fits in addition to the server itself.
const MEMORY_LIMIT_MIN: u64 = 64 << 20;

const fn row(flag: &'static str, yaml: &'static str, kind: Kind, action: Action, help: &'static str) -> Row {
    Row { flag, yaml, kind, action, help }
}

#[rustfmt::skip]
static ROWS: &[Row] = &[
    // where the data is
    row("dbpath", "storage.dbPath", Text, Apply(|s, v| { s.dbpath = text(v).into(); Ok(()) }), "Directory of the data files [default: /data/db]"),
    row("storageEngine", "storage.engine", Text, Apply(engine), "ftree (aliases tokuft, perconaft), lmdb (mmapv1), rocksdb, wiredTiger [default: what the directory was made with, else ftree]"),
    row("storageEngineOverride", "replication.storageEngineOverride", Text, Apply(engine_override), "Member of a replica set: engine of all collections and indexes that it creates from now on, whatever the set says"),
    row("journalCommitInterval", "storage.journal.commitIntervalMs", Kind::Number { min: 1, max: 500 }, Apply(|s, v| { s.commit_interval_ms = int(v) as u64; Ok(()) }), "Milliseconds between fsyncs of the log [default: 100]"),
    row("", "storage.mmapv1.journal.commitIntervalMs", Kind::Number { min: 1, max: 500 }, Map(|s, v| { s.commit_interval_ms = int(v) as u64; Ok(()) }, "applied as storage.journal.commitIntervalMs"), ""),
    row("logCompression", "storage.logCompression", Text, Apply(log_compression), "none or lz4: compression of long records of the log, which replica sets send as they are [default: lz4]"),
    row("syncdelay", "storage.syncPeriodSecs", Real, Apply(checkpoints), "Seconds between checkpoints [default: 60; ftree alone: 10]"),
    row("checkpointPeriod", "", COUNT, Apply(checkpoints), "As syncdelay (TokuMX)"),
    row("journal", "storage.journal.enabled", Switch, Apply(|s, v| { if !on(v) { s.warn("storage.journal.enabled", ONE_LOG); } Ok(()) }), "Without effect: Arbor has one log for everything and always writes it"),
    row("nojournal", "", Switch, Ignore(ONE_LOG), ""),
    row("dur", "", Switch, Ignore(ONE_LOG), ""),
    row("nodur", "", Switch, Ignore(ONE_LOG), ""),
    row("journalOptions", "storage.mmapv1.journal.debugFlags", COUNT, Ignore(MMAPV1), ""),
    row("directoryperdb", "storage.directoryPerDB", Switch, Ignore("all databases share the files of their engine"), ""),
    row("smallfiles", "storage.mmapv1.smallFiles", Switch, Ignore(MMAPV1), ""),
    row("noprealloc", "storage.mmapv1.preallocDataFiles", Switch, Ignore(MMAPV1), ""),
    row("nssize", "storage.mmapv1.nsSize", COUNT, Ignore(MMAPV1), ""),
    row("quota", "storage.mmapv1.quota.enforced", Switch, Ignore(MMAPV1), ""),
    row("quotaFiles", "storage.mmapv1.quota.maxFilesPerDB", COUNT, Ignore(MMAPV1), ""),
    row("repair", "", Switch, Ignore("recovery runs at every start; `arbor check` verifies a directory"), ""),
    row("repairpath", "storage.repairPath", Text, Ignore("there is no repair that copies files"), ""),
    row("upgrade", "", Switch, Ignore("any version opens any older format"), ""),
    row("oplogMinRetentionHours", "storage.oplogMinRetentionHours", Real, Apply(|s, v| { s.oplog.hours_min = Some(real(v)); Ok(()) }), "Hours for which local.oplog.rs is kept whatever its size"),

    // network
    row("port", "net.port", PORT, Apply(|s, v| { s.port = int(v) as u16; Ok(()) }), "Port to listen on [default: 27017]"),
    row("bind_ip", "net.bindIp", Text, Apply(|s, v| { s.bind_ip = text(v).split(',').map(|a| a.trim().to_owned()).filter(|a| !a.is_empty()).collect(); Ok(()) }), "Comma-separated addresses to listen on [default: 127.0.0.1]"),
    row("bind_ip_all", "net.bindIpAll", Switch, Apply(|s, v| { s.bind_all = on(v); Ok(()) }), "Listens on all addresses"),
    row("ipv6", "net.ipv6", Switch, Apply(|s, v| { s.ipv6 = on(v); Ok(()) }), "Listens on IPv6 as well"),
    row("maxConns", "net.maxIncomingConnections", Kind::Number { min: 1, max: 1_000_000 }, Apply(|s, v| { s.connections_max = int(v) as usize; Ok(()) }), "Most connections at a time [default: 65536]"),
    row("maxConnsPerAddress", "net.maxIncomingConnectionsPerAddress", Kind::Number { min: 0, max: 1_000_000 }, Apply(|s, v| { s.connections_per_address_max = int(v) as usize; Ok(()) }), "Most connections of one address at a time [default: 0, any number]"),
    row("maxNewConnsPerSecond", "net.maxNewConnectionsPerSecond", Kind::Number { min: 0, max: 1_000_000 }, Apply(|s, v| { s.new_connections_per_second = int(v) as u32; Ok(()) }), "New connections in a second; more wait [default: 0, any number]"),
    row("nounixsocket", "", Switch, Apply(|s, v| { s.unix_socket.enabled = !on(v); Ok(()) }), "No Unix socket"),
    row("", "net.unixDomainSocket.enabled", Switch, Apply(|s, v| { s.unix_socket.enabled = on(v); Ok(()) }), "A Unix socket where the loopback address is bound [default: true]"),
    row("unixSocketPrefix", "net.unixDomainSocket.pathPrefix", Text, Apply(|s, v| { s.unix_socket.directory = text(v).into(); s.unix_socket.given = true; Ok(()) }), "Directory of the Unix socket mongodb-PORT.sock [default: /tmp]"),
    row("filePermissions", "net.unixDomainSocket.filePermissions", Text, Apply(socket_permissions), "Permissions of the Unix socket, in octal [default: 0700]"),
    row("networkMessageCompressors", "net.compression.compressors", Text, Ignore("snappy, zlib and zstd are always offered"), ""),
    row("wireObjectCheck", "net.wireObjectCheck", Switch, Ignore("documents are always checked"), ""),
    row("objcheck", "", Switch, Ignore("documents are always checked"), ""),
    row("noobjcheck", "", Switch, Ignore("documents are always checked"), ""),
    row("serviceExecutor", "net.serviceExecutor", Text, Ignore("there is one way to run connections"), ""),
    row("transportLayer", "net.transportLayer", Text, Ignore("there is one way to run connections"), ""),
    row("httpPort", "net.http.port", PORT, Apply(|s, v| { s.http.port = Some(int(v) as u16); Ok(()) }), "Port of the console, /metrics, /healthz and /readyz; 0: any free one [default: none]"),
    row("httpBindIp", "net.http.bindIp", Text, Apply(|s, v| { s.http.bind_ip = Some(text(v)); Ok(()) }), "Address of that port; with access control, others than the loopback address need --httpTokenFile [default: 127.0.0.1]"),
    row("httpTokenFile", "net.http.tokenFile", Text, Apply(|s, v| { s.http.token_file = Some(text(v).into()); Ok(()) }), "File with the bearer token that /metrics requires"),
    row("httpCollectionsMax", "net.http.collectionsMax", Kind::Number { min: 0, max: 10_000 }, Apply(|s, v| { s.http.collections_max = int(v) as usize; Ok(()) }), "Collections with metrics of their own, the most used ones [default: 100]"),
    row("httpinterface", "net.http.enabled", Switch, Ignore("the HTTP interface is gone"), ""),
    row("nohttpinterface", "", Switch, Ignore("the HTTP interface is gone"), ""),
    row("rest", "net.http.RESTInterfaceEnabled", Switch, Ignore("the HTTP interface is gone"), ""),
    row("jsonp", "net.http.JSONPEnabled", Switch, Ignore("the HTTP interface is gone"), ""),
    row("tlsMode", "net.tls.mode", Text, Apply(tls_mode), "disabled, allowTLS, preferTLS or requireTLS [default: disabled]"),
    row("tlsOnNormalPorts", "", Switch, Apply(tls_on_normal_ports), "The same as --tlsMode requireTLS"),
    row("tlsCertificateKeyFile", "net.tls.certificateKeyFile", Text, Apply(|s, v| { s.tls.certificate_key_file = Some(text(v).into()); Ok(()) }), "Certificate and key of the server, in PEM"),
    row("tlsCAFile", "net.tls.CAFile", Text, Apply(|s, v| { s.tls.ca_file = Some(text(v).into()); Ok(()) }), "Authorities of clients' certificates, in PEM"),
    row("tlsAllowConnectionsWithoutCertificates", "net.tls.allowConnectionsWithoutCertificates", Switch, Apply(|s, v| { s.tls.certificate_optional = on(v); Ok(()) }), "Clients need not show a certificate"),
    row("tlsCertificateKeyFilePassword", "net.tls.certificateKeyFilePassword", Text, Apply(|s, v| { s.tls.key_password = Some(text(v)); Ok(()) }), "Password of the key, if that is encrypted"),
    row("tlsCRLFile", "net.tls.CRLFile", Text, Apply(|s, v| { s.tls.crl_file = Some(text(v).into()); Ok(()) }), "Lists of revoked certificates, in PEM"),
    row("tlsDisabledProtocols", "net.tls.disabledProtocols", Text, Apply(disabled_protocols), "Versions not to speak: TLS1_2, TLS1_3 (older ones never are), none"),
    row("tlsAllowInvalidCertificates", "net.tls.allowInvalidCertificates", Switch, Refuse(ANY_CERTIFICATE), ""),
    row("tlsAllowInvalidHostnames", "net.tls.allowInvalidHostnames", Switch, Apply(any_name), "Certificates of other members may have any name of a host"),
    row("tlsClusterFile", "net.tls.clusterFile", Text, Apply(|s, v| { s.tls.cluster_file = Some(text(v).into()); Ok(()) }), "Certificate and key that other members see, in PEM [default: --tlsCertificateKeyFile]"),
    row("tlsClusterPassword", "net.tls.clusterPassword", Text, Apply(|s, v| { s.tls.cluster_password = Some(text(v)); Ok(()) }), "Password of the key of --tlsClusterFile, if that is encrypted"),
    row("tlsClusterCAFile", "net.tls.clusterCAFile", Text, Apply(|s, v| { s.tls.cluster_ca_file = Some(text(v).into()); Ok(()) }), "Authorities of the certificates of clients and members that connect, in PEM [default: --tlsCAFile]"),
    row("tlsLogVersions", "net.tls.logVersions", Text, Ignore("versions are not logged"), ""),
    row("tlsFIPSMode", "net.tls.FIPSMode", Switch, Refuse("the ciphers of this build are not certified"), ""),
    row("", "net.tls.clusterAuthX509.attributes", Text, Apply(member_attributes), "O, OU and DC of members' certificates [default: those of the own certificate]"),
    row("", "net.tls.clusterAuthX509.extensionValue", Text, Refuse("not in this build yet; clusterAuthX509.attributes are"), ""),
    row("sslMode", "net.ssl.mode", Text, Apply(tls_mode), "Old name of --tlsMode"),
    row("sslOnNormalPorts", "", Switch, Apply(tls_on_normal_ports), "Old name of --tlsOnNormalPorts"),
    row("sslPEMKeyFile", "net.ssl.PEMKeyFile", Text, Apply(|s, v| { s.tls.certificate_key_file = Some(text(v).into()); Ok(()) }), "Old name of --tlsCertificateKeyFile"),
    row("sslCAFile", "net.ssl.CAFile", Text, Apply(|s, v| { s.tls.ca_file = Some(text(v).into()); Ok(()) }), "Old name of --tlsCAFile"),
    row("sslPEMKeyPassword", "net.ssl.PEMKeyPassword", Text, Apply(|s, v| { s.tls.key_password = Some(text(v)); Ok(()) }), "Old name of --tlsCertificateKeyFilePassword"),
    row("sslCRLFile", "net.ssl.CRLFile", Text, Apply(|s, v| { s.tls.crl_file = Some(text(v).into()); Ok(()) }), "Old name of --tlsCRLFile"),
    row("sslDisabledProtocols", "net.ssl.disabledProtocols", Text, Apply(disabled_protocols), "Old name of --tlsDisabledProtocols"),
    row("sslAllowInvalidCertificates", "net.ssl.allowInvalidCertificates", Switch, Refuse(ANY_CERTIFICATE), ""),
    row("sslAllowInvalidHostnames", "net.ssl.allowInvalidHostnames", Switch, Apply(any_name), "Old name of --tlsAllowInvalidHostnames"),
    row("sslClusterFile", "net.ssl.clusterFile", Text, Apply(|s, v| { s.tls.cluster_file = Some(text(v).into()); Ok(()) }), "Old name of --tlsClusterFile"),
    row("sslClusterPassword", "net.ssl.clusterPassword", Text, Apply(|s, v| { s.tls.cluster_password = Some(text(v)); Ok(()) }), "Old name of --tlsClusterPassword"),
    row("sslFIPSMode", "net.ssl.FIPSMode", Switch, Refuse("the ciphers of this build are not certified"), ""),
    row("sslAllowConnectionsWithoutCertificates", "net.ssl.allowConnectionsWithoutCertificates", Switch, Apply(|s, v| { s.tls.certificate_optional = on(v); Ok(()) }), "Old name of --tlsAllowConnectionsWithoutCertificates"),

    // log and process
    row("logpath", "systemLog.path", Text, Apply(|s, v| { s.logpath = Some(text(v).into()); Ok(()) }), "Log file [default: standard output]"),
    row("logappend", "systemLog.logAppend", Switch, Apply(|s, v| { s.logappend = on(v); Ok(()) }), "Appends to the log file instead of moving it away"),
    row("", "systemLog.destination", Text, Apply(destination), "file or syslog; the log goes to standard output or to a file"),
    row("syslog", "", Switch, Ignore("the log goes to standard output or to a file"), ""),
    row("syslogFacility", "systemLog.syslogFacility", Text, Ignore("the log goes to standard output or to a file"), ""),
    row("logRotate", "systemLog.logRotate", Text, Ignore("SIGUSR1 and logRotate move the log file away and begin a new one"), ""),
    row("timeStampFormat", "systemLog.timeStampFormat", Text, Ignore("times are ISO 8601 in UTC"), ""),
    row("traceExceptions", "systemLog.traceAllExceptions", Switch, Ignore("there are no exceptions to trace"), ""),
    row("quiet", "systemLog.quiet", Switch, Apply(|s, v| { s.quiet = on(v); s.set_switch("quiet", s.quiet); Ok(()) }), "Logs no connections"),
    row("verbose", "systemLog.verbosity", Switch, Apply(verbosity), "Logs more (-v, -vv ... -vvvvv)"),
    row("fork", "processManagement.fork", Switch, Apply(|s, v| { s.fork = on(v); Ok(()) }), "Runs in the background (needs --logpath)"),
    row("pidfilepath", "processManagement.pidFilePath", Text, Apply(|s, v| { s.pidfile = Some(text(v).into()); Ok(()) }), "File for the process id"),
    row("timeZoneInfo", "processManagement.timeZoneInfo", Text, Ignore("the time zone database is built in"), ""),
    row("cpu", "", Switch, Ignore("use top or the laboratory"), ""),
    row("welcome", "", Switch, Apply(|s, v| { s.welcome = on(v); Ok(()) }), "Prints a connection string and a first session to type"),

    // profiling
    row("slowms", "operationProfiling.slowOpThresholdMs", Kind::Number { min: -1, max: i32::MAX as i64 }, Apply(|s, v| { s.slow_ms = int(v) as i32; Ok(()) }), "Milliseconds from which an operation is logged as slow [default: 100]"),
    row("slowOpSampleRate", "operationProfiling.slowOpSampleRate", Real, Apply(|s, v| { s.slow_sample_rate = real(v).min(1.0); Ok(()) }), "Share of slow operations that are logged [default: 1]"),
    row("profile", "operationProfiling.mode", Text, Apply(profile_level), "0 (off), 1 (slowOp) or 2 (all): operations recorded in system.profile of each database [default: 0]"),
    row("notablescan", "", Switch, Apply(|s, v| { s.set_switch("notablescan", on(v)); Ok(()) }), "Refuses queries that would scan a whole collection"),
    row("diaglog", "", COUNT, Ignore("gone since MongoDB 3.6"), ""),
    row("sysinfo", "", Switch, Ignore("see hostInfo"), ""),

    // security
    row("auth", "security.authorization", Switch, Apply(|s, v| { s.auth = on(v); Ok(()) }), "Requires a login, and checks what each user may do"),
    row("noauth", "", Switch, Apply(|s, v| { s.auth &= !on(v); Ok(()) }), "No access control, even where the configuration file asks for it [default]"),
    row("allowInsecure", "security.allowInsecure", Switch, Apply(|s, v| { s.allow_insecure = on(v); Ok(()) }), "Listens on other addresses than those of the machine itself without --auth"),
    row("keyFile", "security.keyFile", Text, Apply(|s, v| { s.key_file = Some(text(v).into()); Ok(()) }), "File with the key that members of a cluster share; implies --auth"),
    row("clusterAuthMode", "security.clusterAuthMode", Text, Apply(cluster_auth_mode), "How members prove who they are: keyFile, sendKeyFile, sendX509 or x509 [default: keyFile]"),
    row("transitionToAuth", "security.transitionToAuth", Switch, Apply(|s, v| { s.transition_to_auth = on(v); Ok(()) }), "Takes logins but checks no request, while the clients of a cluster learn to log in"),
    row("redactClientLogData", "security.redactClientLogData", Switch, Apply(|s, v| { s.set_switch("redactClientLogData", on(v)); Ok(()) }), "Writes no values of clients into the log"),
    row("auditDestination", "auditLog.destination", Text, Apply(audit_destination), "file or console: where security events are written [default: nowhere]"),
    row("auditFormat", "auditLog.format", Text, Apply(audit_format), "JSON or BSON [default: JSON]"),
    row("auditPath", "auditLog.path", Text, Apply(|s, v| { s.audit.path = Some(text(v).into()); Ok(()) }), "File of the audit"),
    row("auditFilter", "auditLog.filter", Text, Apply(|s, v| { s.audit.filter = Some(text(v)); Ok(()) }), "Query that chooses the events to be audited, in JSON"),
    row("", "auditLog.schema", Text, Apply(audit_schema), "mongo, the only one"),
    row("noscripting", "security.javascriptEnabled", Switch, Ignore("there is no JavaScript in the server"), ""),

    // replication and sharding
    row("replSet", "replication.replSetName", Text, Apply(replica_set), "Name of the replica set that this server is the member of (see rs.initiate)"),
    row("etcd", "replication.etcd.endpoints", Text, Apply(|s, v| { s.etcd.endpoints = text(v).split(',').map(|a| a.trim().to_owned()).filter(|a| !a.is_empty()).collect(); Ok(()) }), "Comma-separated endpoints of an etcd for a set of several members [default: the server runs its own]"),
    row("etcdPrefix", "replication.etcd.prefix", Text, Apply(|s, v| { s.etcd.prefix = Some(text(v).to_owned()); Ok(()) }), "Prefix of the keys in etcd [default: /arbor/1]"),
    row("etcdCAFile", "replication.etcd.CAFile", Text, Apply(|s, v| { s.etcd.ca_file = Some(text(v).into()); Ok(()) }), "Authorities of etcd's certificates, in PEM"),
    row("etcdCertificateKeyFile", "replication.etcd.certificateKeyFile", Text, Apply(|s, v| { s.etcd.certificate_key_file = Some(text(v).into()); Ok(()) }), "Certificate and key for etcd, in PEM"),
    row("etcdBinary", "replication.etcd.binary", Text, Apply(|s, v| { s.etcd.binary = Some(text(v).into()); Ok(()) }), "The etcd that the server runs [default: next to arbor, on the path, or as built by scripts/setup etcd]"),
    row("oplogSize", "replication.oplogSizeMB", Kind::Number { min: 1, max: 1 << 30 }, Apply(|s, v| { s.oplog.megabytes = Some(int(v) as u64); Ok(()) }), "Oplog size in MB [default: 5 % of the free space, 990 to 51200]"),
    row("expireOplogHours", "replication.expireOplogHours", COUNT, Apply(|s, v| { *s.oplog.hours_max.get_or_insert(0.0) += real(v); Ok(()) }), "Hours after which local.oplog.rs forgets, whatever its size (TokuMX)"),
    row("expireOplogDays", "replication.expireOplogDays", COUNT, Apply(|s, v| { *s.oplog.hours_max.get_or_insert(0.0) += 24.0 * real(v); Ok(()) }), "As expireOplogHours, in days (TokuMX)"),
    row("replIndexPrefetch", "replication.secondaryIndexPrefetch", Text, Ignore("a set has one member in this build; nothing is prefetched"), ""),
    row("enableMajorityReadConcern", "replication.enableMajorityReadConcern", Text, Apply(majority_read_concern), "Read concern majority, which is always on"),
    row("fastsync", "", Switch, Ignore("gone since MongoDB 4.0; a new member syncs by itself"), ""),
    row("rsMaintenance", "", Switch, Ignore("TokuMX's start in maintenance mode; replSetMaintenance sets it while the member runs"), ""),
    row("master", "", Switch, Ignore("gone since MongoDB 4.0"), ""),
    row("slave", "", Switch, Ignore("gone since MongoDB 4.0"), ""),
    row("shardsvr", "", Switch, Apply(|s, v| { s.is_shard = on(v); Ok(()) }), "Makes the replica set a shard of a cluster (docs/sharding.md)"),
    row("configsvr", "", Switch, Apply(|s, v| { s.is_config_server = on(v); Ok(()) }), "Makes the replica set the config servers of a cluster"),
    row("", "sharding.clusterRole", Text, Apply(cluster_role), "shardsvr or configsvr"),
    row("configdb", "sharding.configDB", Text, Apply(|s, v| { s.config_db = Some(text(v)); Ok(()) }), "Config servers of the cluster, set/host:port,...; for arbor route"),
    row("moveParanoia", "sharding.archiveMovedChunks", Switch, Ignore("there are no chunks to move in this build yet"), ""),

    // WiredTiger
    row("wiredTigerCacheSizeGB", "storage.wiredTiger.engineConfig.cacheSizeGB", Real, Apply(wiredtiger_cache_gb), "Cache of the engine in GB"),
    row("wiredTigerCacheSizePct", "storage.wiredTiger.engineConfig.cacheSizePct", Real, Ignore("give --wiredTigerCacheSizeGB"), ""),
    row("wiredTigerJournalCompressor", "storage.wiredTiger.engineConfig.journalCompressor", Text, Map(journal_compressor, "none is applied as storage.logCompression: none, others as lz4"), ""),
    row("wiredTigerDirectoryForIndexes", "storage.wiredTiger.engineConfig.directoryForIndexes", Switch, Ignore("all trees share the files of their engine"), ""),
    row("wiredTigerCollectionBlockCompressor", "storage.wiredTiger.collectionConfig.blockCompressor", Text, EngineOption("wiredTiger.blockCompressor"), ""),
    row("wiredTigerIndexPrefixCompression", "storage.wiredTiger.indexConfig.prefixCompression", Text, EngineOption("wiredTiger.prefixCompression"), ""),
    row("wiredTigerEngineConfigString", "storage.wiredTiger.engineConfig.configString", Text, EngineOption("wiredTiger.configString"), ""),
    row("wiredTigerCollectionConfigString", "storage.wiredTiger.collectionConfig.configString", Text, EngineOption("wiredTiger.collectionConfigString"), ""),
    row("wiredTigerIndexConfigString", "storage.wiredTiger.indexConfig.configString", Text, EngineOption("wiredTiger.indexConfigString"), ""),
    row("wiredTigerStatisticsLogDelaySecs", "storage.wiredTiger.engineConfig.statisticsLogDelaySecs", COUNT, Ignore("statistics are read through serverStatus"), ""),
    row("inMemorySizeGB", "storage.inMemory.engineConfig.inMemorySizeGB", Real, Map(cache_gb, "there is no engine that keeps data in memory only; applied as the size of the cache"), ""),

    // RocksDB
    row("rocksdbCacheSizeGB", "storage.rocksdb.cacheSizeGB", Real, Apply(rocksdb_cache_gb), "Cache of the engine in GB"),
    row("rocksdbCompression", "storage.rocksdb.compression", Text, EngineOption("rocksdb.compression"), ""),
    row("rocksdbMaxWriteMBPerSec", "storage.rocksdb.maxWriteMBPerSec", COUNT, EngineOption("rocksdb.maxWriteMBPerSec"), ""),
    row("rocksdbConfigString", "storage.rocksdb.configString", Text, EngineOption("rocksdb.configString"), ""),
    row("rocksdbCrashSafeCounters", "storage.rocksdb.crashSafeCounters", Switch, Ignore("counts are always kept exact"), ""),
    row("rocksdbCounters", "storage.rocksdb.counters", Switch, Ignore("statistics are read through serverStatus"), ""),

    // the fractal tree
    row("ftreeCacheSizeGB", "storage.ftree.cacheSizeGB", Real, Apply(ftree_cache_gb), "Memory of the fractal tree in GB, at most [default: three quarters of --memoryLimit with direct I/O, else half of the machine's, less 1 GB]"),
    row("ftreeDirectio", "storage.ftree.directio", Switch, EngineOption("ftree.directio"), "Reads and writes past the page cache, where the file system has that [default: with a memory limit of 128 MB or more, unless less than half of a limit below 384 MB is asked for as its cache]"),
    row("ftreePageCache", "", Switch, Apply(|s, v| { s.engine_options.push(("ftree.directio".to_owned(), (!on(v)).to_string())); Ok(()) }), "Reads and writes through the page cache, which has the memory beyond --memoryLimit"),
    row("ftreeCompression", "storage.ftree.compression", Text, EngineOption("ftree.compression"), "auto, none, lz4 or zstd[:level]; auto is zstd for blocks of which it saves a third, none for others [default: auto]"),
    row("ftreeReadPageSize", "storage.ftree.readPageSize", Bytes, EngineOption("ftree.readPageSize"), ""),
    row("ftreePageSize", "storage.ftree.pageSize", Bytes, EngineOption("ftree.pageSize"), ""),
    row("ftreeFanout", "storage.ftree.fanout", COUNT, EngineOption("ftree.fanout"), ""),
    row("ftreeWriteBias", "storage.ftree.writeBias", Text, EngineOption("ftree.writeBias"), "low, normal or high: buffered share of the data [default: normal]"),

    // TokuFT in MongoDB, and TokuMX
    row("tokuftEngineCacheSize", "storage.tokuft.engineOptions.cacheSize", Bytes, Apply(ftree_cache_bytes), "Cache of the fractal tree in bytes"),
    row("memoryLimit", "storage.memoryLimit", Bytes, Apply(memory_limit), "Memory of the whole process in bytes, or with a suffix (8G) [default: 80 % of the machine's or the control group's, of which at least 56 MB stay free]"),
    row("cacheSize", "", Bytes, Apply(cache_bytes), "Cache of the engine in bytes, or with a suffix (8G)"),
    row("tokuftEngineCleanerIterations", "storage.tokuft.engineOptions.cleanerIterations", COUNT, EngineOption("ftree.cleanerIterations"), ""),
    row("tokuftEngineCleanerPeriod", "storage.tokuft.engineOptions.cleanerPeriod", COUNT, EngineOption("ftree.cleanerPeriod"), ""),
    row("tokuftEngineDirectio", "storage.tokuft.engineOptions.directio", Switch, EngineOption("ftree.directio"), ""),
    row("tokuftEngineFsRedzone", "storage.tokuft.engineOptions.fsRedzone", COUNT, EngineOption("ftree.fsRedzone"), ""),
    row("tokuftEngineJournalCommitInterval", "storage.tokuft.engineOptions.journalCommitInterval", Kind::Number { min: 1, max: 500 }, Apply(|s, v| { s.commit_interval_ms = int(v) as u64; Ok(()) }), "As journalCommitInterval"),
    row("tokuftEngineLockTimeout", "storage.tokuft.engineOptions.lockTimeout", COUNT, Ignore("conflicts are detected at commit; nothing waits for a lock"), ""),
    row("tokuftEngineLocktreeMaxMemory", "storage.tokuft.engineOptions.locktreeMaxMemory", Bytes, Ignore("there is no lock tree"), ""),
    row("tokuftEngineCompressBuffersBeforeEviction", "storage.tokuft.engineOptions.compressBuffersBeforeEviction", Switch, EngineOption("ftree.compressBuffersBeforeEviction"), ""),
    row("tokuftEngineNumCachetableBucketMutexes", "storage.tokuft.engineOptions.numCachetableBucketMutexes", COUNT, Ignore("the cache has no such locks"), ""),
    row("tokuftCollectionCompression", "storage.tokuft.collectionOptions.compression", Text, EngineOption("ftree.collection.compression"), ""),
    row("tokuftCollectionFanout", "storage.tokuft.collectionOptions.fanout", COUNT, EngineOption("ftree.collection.fanout"), ""),
    row("tokuftCollectionPageSize", "storage.tokuft.collectionOptions.pageSize", Bytes, EngineOption("ftree.collection.pageSize"), ""),
    row("tokuftCollectionReadPageSize", "storage.tokuft.collectionOptions.readPageSize", Bytes, EngineOption("ftree.collection.readPageSize"), ""),
    row("tokuftIndexCompression", "storage.tokuft.indexOptions.compression", Text, EngineOption("ftree.index.compression"), ""),
    row("tokuftIndexFanout", "storage.tokuft.indexOptions.fanout", COUNT, EngineOption("ftree.index.fanout"), ""),
    row("tokuftIndexPageSize", "storage.tokuft.indexOptions.pageSize", Bytes, EngineOption("ftree.index.pageSize"), ""),
    row("tokuftIndexReadPageSize", "storage.tokuft.indexOptions.readPageSize", Bytes, EngineOption("ftree.index.readPageSize"), ""),

    // PerconaFT in Percona Server for MongoDB
    row("PerconaFTEngineCacheSize", "storage.PerconaFT.engineOptions.cacheSize", Bytes, Apply(ftree_cache_bytes), "Cache of the fractal tree in bytes"),
    row("PerconaFTEngineCleanerIterations", "storage.PerconaFT.engineOptions.cleanerIterations", COUNT, EngineOption("ftree.cleanerIterations"), ""),
    row("PerconaFTEngineCleanerPeriod", "storage.PerconaFT.engineOptions.cleanerPeriod", COUNT, EngineOption("ftree.cleanerPeriod"), ""),
    row("PerconaFTEngineDirectio", "storage.PerconaFT.engineOptions.directio", Switch, EngineOption("ftree.directio"), ""),
    row("PerconaFTEngineFsRedzone", "storage.PerconaFT.engineOptions.fsRedzone", COUNT, EngineOption("ftree.fsRedzone"), ""),
    row("PerconaFTEngineJournalCommitInterval", "storage.PerconaFT.engineOptions.journalCommitInterval", Kind::Number { min: 1, max: 500 }, Apply(|s, v| { s.commit_interval_ms = int(v) as u64; Ok(()) }), "As journalCommitInterval"),
    row("PerconaFTEngineLockTimeout", "storage.PerconaFT.engineOptions.lockTimeout", COUNT, Ignore("conflicts are detected at commit; nothing waits for a lock"), ""),
    row("PerconaFTEngineLocktreeMaxMemory", "storage.PerconaFT.engineOptions.locktreeMaxMemory", Bytes, Ignore("there is no lock tree"), ""),
    row("PerconaFTEngineCompressBuffersBeforeEviction", "storage.PerconaFT.engineOptions.compressBuffersBeforeEviction", Switch, EngineOption("ftree.compressBuffersBeforeEviction"), ""),
    row("PerconaFTEngineNumCachetableBucketMutexes", "storage.PerconaFT.engineOptions.numCachetableBucketMutexes", COUNT, Ignore("the cache has no such locks"), ""),
    row("PerconaFTCollectionCompression", "storage.PerconaFT.collectionOptions.compression", Text, EngineOption("ftree.collection.compression"), ""),
    row("PerconaFTCollectionFanout", "storage.PerconaFT.collectionOptions.fanout", COUNT, EngineOption("ftree.collection.fanout"), ""),
    row("PerconaFTCollectionPageSize", "storage.PerconaFT.collectionOptions.pageSize", Bytes, EngineOption("ftree.collection.pageSize"), ""),
    row("PerconaFTCollectionReadPageSize", "storage.PerconaFT.collectionOptions.readPageSize", Bytes, EngineOption("ftree.collection.readPageSize"), ""),
    row("PerconaFTIndexCompression", "storage.PerconaFT.indexOptions.compression", Text, EngineOption("ftree.index.compression"), ""),
    row("PerconaFTIndexFanout", "storage.PerconaFT.indexOptions.fanout", COUNT, EngineOption("ftree.index.fanout"), ""),
    row("PerconaFTIndexPageSize", "storage.PerconaFT.indexOptions.pageSize", Bytes, EngineOption("ftree.index.pageSize"), ""),
    row("PerconaFTIndexReadPageSize", "storage.PerconaFT.indexOptions.readPageSize", Bytes, EngineOption("ftree.index.readPageSize"), ""),
    row("directio", "", Switch, EngineOption("ftree.directio"), ""),
    row("compressBuffersBeforeEviction", "", Switch, EngineOption("ftree.compressBuffersBeforeEviction"), ""),
    row("cleanerPeriod", "", COUNT, EngineOption("ftree.cleanerPeriod"), ""),
    row("cleanerIterations", "", COUNT, EngineOption("ftree.cleanerIterations"), ""),
    row("fsRedzone", "", COUNT, EngineOption("ftree.fsRedzone"), ""),
    row("loaderMaxMemory", "", Bytes, EngineOption("loaderMaxMemory"), ""),
    row("loaderCompressTmp", "", Switch, EngineOption("loaderCompressTmp"), ""),
    row("lockTimeout", "", COUNT, Ignore("conflicts are detected at commit; nothing waits for a lock"), ""),
    row("locktreeMaxMemory", "", Bytes, Ignore("there is no lock tree"), ""),
    row("logFlushPeriod", "", Kind::Number { min: 0, max: 500 }, Map(|s, v| { s.commit_interval_ms = int(v).max(1) as u64; Ok(()) }, "applied as storage.journal.commitIntervalMs"), ""),
    row("logDir", "", Text, Ignore("the log lives inside the data directory"), ""),
    row("tmpDir", "", Text, Ignore("temporary files live inside the data directory"), ""),
    row("txnMemLimit", "", Bytes, Ignore("transactions spill by themselves"), ""),
    row("gdb", "", Switch, Ignore("a TokuMX debugging aid"), ""),
    row("gdbPath", "", Text, Ignore("a TokuMX debugging aid"), ""),

    row("setParameter", "", Text, Action::Parameter, "Sets a server parameter; may be repeated"),
];

pub(super) fn rows() -> &'static [Row] {
    ROWS
}

/// Titles of the groups of rows, with the row that begins each (its flag, or its YAML key).
const GROUPS: &[(&str, &str)] = &[
    ("dbpath", "Storage"),
    ("port", "Network"),
    ("logpath", "Log and process"),
    ("slowms", "Slow operations and the profiler"),
    ("auth", "Security"),
    ("replSet", "Replication and sharding"),
    ("wiredTigerCacheSizeGB", "WiredTiger"),
    ("rocksdbCacheSizeGB", "RocksDB"),
    ("ftreeCacheSizeGB", "Fractal tree"),
    ("tokuftEngineCacheSize", "TokuFT, PerconaFT and TokuMX"),
    ("setParameter", "Server parameters"),
];

/// Returns the rows in their groups, with the title of each.
pub(super) fn groups() -> Vec<(&'static str, &'static [Row])> {
    let begins: Vec<usize> =
        GROUPS.iter().filter_map(|(first, _)| ROWS.iter().position(|row| row.flag == *first)).collect();
    assert!(
        begins.len() == GROUPS.len() && begins.is_sorted(),
        "each group begins at a row, in the order of the table"
    );
    let ends = begins.iter().skip(1).copied().chain([ROWS.len()]);
    let slices = begins.iter().zip(ends).filter_map(|(begin, end)| ROWS.get(*begin..end));
    GROUPS.iter().map(|(_, title)| *title).zip(slices).collect()
}

/// Returns the arguments of the process without secrets.
pub(crate) fn without_secrets(arguments: impl Iterator<Item = String>) -> Vec<String> {
    let mut hides = false;
    let mut shown = Vec::new();
    for argument in arguments {
        let flag = argument.trim_start_matches('-');
        let (name, value) = flag.split_once('=').map_or((flag, None), |(name, value)| (name, Some(value)));
        let is_secret = argument.starts_with('-') && by_flag(name).is_some_and(Row::is_secret);
        shown.push(match (hides, is_secret, value) {
            (true, ..) => "<password>".to_owned(),
            (false, true, Some(_)) => format!("--{name}=<password>"),
            _ => argument.clone(),
        });
        hides = !hides && is_secret && value.is_none();
    }
    shown
}

pub(super) fn by_flag(flag: &str) -> Option<&'static Row> {
    ROWS.iter().find(|row| !flag.is_empty() && row.flag == flag)
}

pub(super) fn by_yaml(key: &str) -> Option<&'static Row> {
    ROWS.iter().find(|row| !key.is_empty() && row.yaml == key && !row.is_set_parameter())
}

impl Row {
    pub(super) fn is_set_parameter(&self) -> bool {
        matches!(self.action, Action::Parameter)
    }

    /// Returns true for values that no client and no log shows.
    fn is_secret(&self) -> bool {
        self.flag.ends_with("Password")
    }

    pub(super) fn value_name(&self) -> &'static str {
        match self.kind {
            _ if self.flag == "dbpath" => "DIR",
            Kind::Switch => "BOOL",
            Kind::Text => "TEXT",
            Kind::Number { .. } | Kind::Real => "N",
            Kind::Bytes => "BYTES",
        }
    }

    /// Returns the text of `--help` and of the documentation.
    pub(super) fn description(&self) -> String {
        let help = |otherwise: String| if self.help.is_empty() { otherwise } else { self.help.to_owned() };
        match &self.action {
            Action::Apply(_) | Action::Parameter => help(String::new()),
            Action::Map(_, note) => help((*note).to_owned()),
            Action::EngineOption(option) => help(format!("The engine's option {option}")),
            Action::Ignore(reason) => format!("Ignored with a warning: {reason}"),
            Action::Refuse(reason) => format!("Refused: {reason}"),
        }
    }

    /// The name under which `getCmdLineOpts` shows it.
    fn name(&self) -> &'static str {
        if self.yaml.is_empty() { self.flag } else { self.yaml }
    }
}

/// Does what the row says with one given value.
pub(super) fn apply(settings: &mut Settings, given: &RawSetting) -> Result<(), Refused> {
    let RawSetting { row, written, parameter, value } = given;
    if let (Action::Parameter, Some(name)) = (&row.action, parameter) {
        settings.parameters.push((name.clone(), value.clone()));
        settings.given.push((format!("setParameter.{name}"), ParsedValue::Text(value.clone())));
        return Ok(());
    }
    let refused = |reason: String| Refused(format!("{written}: {reason}"));
    let value = read_value(row, value).map_err(refused)?;
    let shown = if row.is_secret() { V::Text("<password>".to_owned()) } else { value.clone() };
    settings.given.push((row.name().to_owned(), shown));
    match &row.action {
        Action::Apply(apply) => apply(settings, value).map_err(refused)?,
        Action::Map(apply, note) => {
            apply(settings, value).map_err(refused)?;
            settings.warn(written, note);
        }
        Action::EngineOption(option) => settings.engine_options.push(((*option).to_owned(), text(value))),
        Action::Ignore(reason) => settings.warn(written, reason),
        Action::Refuse(reason) if asks_for_it(&value) => return Err(refused((*reason).to_owned())),
        Action::Refuse(_) | Action::Parameter => {}
    }
    Ok(())
}

fn tls_mode(settings: &mut Settings, value: ParsedValue) -> Result<(), String> {
    settings.tls.mode = match text(value).as_str() {
        "disabled" => TlsMode::Disabled,
        "allowTLS" | "allowSSL" => TlsMode::Allowed,
        "preferTLS" | "preferSSL" => TlsMode::Preferred,
        "requireTLS" | "requireSSL" => TlsMode::Required,
        other => return Err(format!("unknown mode '{other}'")),
    };
    Ok(())
}

fn tls_on_normal_ports(settings: &mut Settings, value: ParsedValue) -> Result<(), String> {
    if on(value) {
        settings.tls.mode = TlsMode::Required;
    }
    Ok(())
}

fn any_name(settings: &mut Settings, value: ParsedValue) -> Result<(), String> {
    settings.tls.any_name = on(value);
    Ok(())
}

fn cluster_auth_mode(settings: &mut Settings, value: ParsedValue) -> Result<(), String> {
    settings.cluster_auth = match text(value).as_str() {
        "keyFile" => ClusterAuth::KeyFile,
        "sendKeyFile" => ClusterAuth::SendKeyFile,
        "sendX509" => ClusterAuth::SendX509,
        "x509" => ClusterAuth::X509,
        other => return Err(format!("unknown mode '{other}'")),
    };
    Ok(())
}

fn disabled_protocols(settings: &mut Settings, value: ParsedValue) -> Result<(), String> {
    let tls = &mut settings.tls;
    (tls.without_1_2, tls.without_1_3) = (false, false);
    for name in text(value).split(',').map(str::trim) {
        match name {
            "TLS1_2" | "noTLS1_2" => tls.without_1_2 = true,
            "TLS1_3" | "noTLS1_3" => tls.without_1_3 = true,
            // older ones are not spoken anyway
            "TLS1_0" | "noTLS1_0" | "TLS1_1" | "noTLS1_1" | "none" | "" => {}
            other => return Err(format!("unknown protocol '{other}'")),
        }
    }
    match tls.without_1_2 && tls.without_1_3 {
        true => Err("no version is left to speak".to_owned()),
        false => Ok(()),
    }
}

fn member_attributes(settings: &mut Settings, value: ParsedValue) -> Result<(), String> {
    let given = text(value);
    let member = Subject::parse(&given).filter(|member| member.is_of_cluster(member));
    settings.tls.member = Some(member.ok_or_else(|| format!("'{given}' is no list of O, OU and DC attributes"))?);
    Ok(())
}

fn socket_permissions(settings: &mut Settings, value: ParsedValue) -> Result<(), String> {
    let given = text(value);
    let permissions = u32::from_str_radix(&given, 8).ok().filter(|permissions| *permissions <= 0o777);
    settings.unix_socket.permissions = permissions.ok_or_else(|| format!("'{given}' is no octal number up to 0777"))?;
    Ok(())
}

fn audit_destination(settings: &mut Settings, value: ParsedValue) -> Result<(), String> {
    settings.audit.destination = match text(value).as_str() {
        "file" => Some(AuditDestination::File),
        "console" | "syslog" => Some(AuditDestination::Console),
        "none" => None,
        other => return Err(format!("unknown destination '{other}'")),
    };
    Ok(())
}

fn audit_format(settings: &mut Settings, value: ParsedValue) -> Result<(), String> {
    settings.audit.bson = match text(value).as_str() {
        "JSON" => false,
        "BSON" => true,
        other => return Err(format!("unknown format '{other}'")),
    };
    Ok(())
}

fn audit_schema(_: &mut Settings, value: ParsedValue) -> Result<(), String> {
    match text(value).as_str() {
        "mongo" => Ok(()),
        other => Err(format!("unknown schema '{other}'; the server writes mongo")),
    }
}

/// `verbosity` counts; `authorization` is "enabled" or "disabled"; YAML names some switches by their opposite.
fn read_value(row: &Row, value: &str) -> Result<ParsedValue, String> {
    match (row.yaml, value) {
        ("systemLog.verbosity", value) => Ok(value.parse().map_or(V::Int(0), V::Int)),
        ("security.authorization", "enabled") => Ok(V::Bool(true)),
        ("security.authorization", "disabled") => Ok(V::Bool(false)),
        _ => row.kind.read(value),
    }
}

/// "disabled" and `false` ask for nothing.
fn asks_for_it(value: &ParsedValue) -> bool {
    !matches!(value, V::Bool(false)) && !matches!(value, V::Text(text) if text == "disabled")
}

fn text(value: ParsedValue) -> String {
    match value {
        V::Bool(value) => value.to_string(),
        V::Int(value) => value.to_string(),
        V::Real(value) => value.to_string(),
        V::Text(value) => value,
    }
}

fn int(value: ParsedValue) -> i64 {
    match value {
        V::Int(value) => value,
        V::Real(value) => value as i64,
        V::Bool(value) => i64::from(value),
        V::Text(_) => 0,
    }
}

fn real(value: ParsedValue) -> f64 {
    match value {
        V::Real(value) => value,
        value => int(value) as f64,
    }
}

fn on(value: ParsedValue) -> bool {
    matches!(value, V::Bool(true))
}

fn cache_gb(settings: &mut Settings, value: ParsedValue) -> Result<(), String> {
    settings.cache_bytes = Some((real(value) * (1u64 << 30) as f64) as u64);
    Ok(())
}

/// The flag of one engine; it serves whichever is the default as well, as long as that has none of its own.
fn own_cache(settings: &mut Settings, engine: &'static str, bytes: u64) -> Result<(), String> {
    settings.cache_bytes = Some(bytes);
    settings.cache_bytes_of.push((engine, bytes));
    Ok(())
}

fn ftree_cache_gb(settings: &mut Settings, value: ParsedValue) -> Result<(), String> {
    own_cache(settings, "ftree", (real(value) * (1u64 << 30) as f64) as u64)
}

fn ftree_cache_bytes(settings: &mut Settings, value: ParsedValue) -> Result<(), String> {
    own_cache(settings, "ftree", int(value) as u64)
}

fn rocksdb_cache_gb(settings: &mut Settings, value: ParsedValue) -> Result<(), String> {
    own_cache(settings, "rocksdb", (real(value) * (1u64 << 30) as f64) as u64)
}

fn wiredtiger_cache_gb(settings: &mut Settings, value: ParsedValue) -> Result<(), String> {
    own_cache(settings, "wiredTiger", (real(value) * (1u64 << 30) as f64) as u64)
}

fn memory_limit(settings: &mut Settings, value: ParsedValue) -> Result<(), String> {
    let bytes = int(value) as u64;
    if bytes < MEMORY_LIMIT_MIN {
        return Err(format!("the least memory limit is {} MB", MEMORY_LIMIT_MIN >> 20));
    }
    settings.memory_limit = Some(bytes);
    Ok(())
}

fn log_compression(settings: &mut Settings, value: ParsedValue) -> Result<(), String> {
    settings.log_compression = match text(value).as_str() {
        "none" => false,
        "lz4" => true,
        other => return Err(format!("unknown compression of the log '{other}'; known are none, lz4")),
    };
    Ok(())
}

/// Takes the names of MongoDB.
fn journal_compressor(settings: &mut Settings, value: ParsedValue) -> Result<(), String> {
    settings.log_compression = match text(value).as_str() {
        "none" => false,
        "snappy" | "zlib" | "zstd" => true,
        other => {
            return Err(format!("unknown compressor of the journal '{other}'; known are none, snappy, zlib, zstd"));
        }
    };
    Ok(())
}

fn cache_bytes(settings: &mut Settings, value: ParsedValue) -> Result<(), String> {
    settings.cache_bytes = Some(int(value) as u64);
    Ok(())
}

fn checkpoints(settings: &mut Settings, value: ParsedValue) -> Result<(), String> {
    settings.checkpoint_seconds = real(value) as u64;
    settings.checkpoint_seconds_given = Some(settings.checkpoint_seconds);
    Ok(())
}

/// MongoDB's older form named seeds behind a slash.
fn replica_set(settings: &mut Settings, value: ParsedValue) -> Result<(), String> {
    let given = text(value);
    let name = given.split('/').next().unwrap_or_default();
    if name.is_empty() {
        return Err("expected the name of a replica set".to_owned());
    }
    settings.replica_set = Some(name.to_owned());
    Ok(())
}

fn cluster_role(settings: &mut Settings, value: ParsedValue) -> Result<(), String> {
    match text(value).as_str() {
        "shardsvr" => settings.is_shard = true,
        "configsvr" => settings.is_config_server = true,
        other => return Err(format!("expected shardsvr or configsvr, found '{other}'")),
    }
    Ok(())
}

fn verbosity(settings: &mut Settings, value: ParsedValue) -> Result<(), String> {
    settings.verbosity = match value {
        V::Int(level) => level.clamp(0, 5) as u8,
        value => on(value) as u8,
    };
    settings.parameters.push(("logLevel".to_owned(), settings.verbosity.to_string()));
    Ok(())
}

fn majority_read_concern(settings: &mut Settings, value: ParsedValue) -> Result<(), String> {
    match text(value).as_str() {
        "true" | "1" => {}
        "false" | "0" => settings.warn("replication.enableMajorityReadConcern", "read concern majority is always on"),
        other => return Err(format!("expected true or false, found '{other}'")),
    }
    Ok(())
}

/// The flag takes a number, the YAML key a name.
fn profile_level(settings: &mut Settings, value: ParsedValue) -> Result<(), String> {
    settings.profile_level = match text(value).as_str() {
        "0" | "off" | "false" => 0,
        "1" | "slowOp" => 1,
        "2" | "all" => 2,
        other => return Err(format!("expected 0 (off), 1 (slowOp) or 2 (all), found '{other}'")),
    };
    Ok(())
}

fn destination(settings: &mut Settings, value: ParsedValue) -> Result<(), String> {
    match text(value).as_str() {
        "file" => {}
        "syslog" => settings.warn("systemLog.destination", "the log goes to standard output or to a file"),
        other => return Err(format!("expected 'file' or 'syslog', found '{other}'")),
    }
    Ok(())
}

fn engine_override(settings: &mut Settings, value: ParsedValue) -> Result<(), String> {
    settings.engine_override = Some(canonical_engine(&text(value))?.to_owned());
    Ok(())
}

fn canonical_engine(name: &str) -> Result<&'static str, String> {
    match name.to_ascii_lowercase().as_str() {
        "lmdb" | "mmapv1" => Ok("lmdb"),
        "ftree" | "tokuft" | "perconaft" => Ok("ftree"),
        "rocksdb" => Ok("rocksdb"),
        "wiredtiger" => Ok("wiredTiger"),
        _ => Err(format!("unknown storage engine '{name}'; known are ftree, lmdb, rocksdb, wiredTiger")),
    }
}

fn engine(settings: &mut Settings, value: ParsedValue) -> Result<(), String> {
    let name = text(value);
    if name.eq_ignore_ascii_case("mmapv1") {
        settings.warn("storage.engine", "mmapv1 is gone; lmdb runs, the memory-mapped engine of this build");
    }
    settings.engine = Some(canonical_engine(&name)?.to_owned());
    Ok(())
}
