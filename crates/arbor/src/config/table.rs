//! The one table of settings. It is long because it is flat; each row is read on its own.
//!
//! A row names a flag, its YAML key and what it does. The old `key = value` form uses the names of the flags. Rows that
//! Arbor has no use for stay: files that start a mongod of any age, TokuMX or its engines start Arbor as well.

use super::settings::Settings;
use super::value::{Kind, ParsedValue};
use super::{RawSetting, Refused};

pub struct Row {
    /// Without the dashes; empty when there is no flag.
    pub flag: &'static str,
    /// Dotted; empty when the setting was never a YAML key.
    pub yaml: &'static str,
    pub kind: Kind,
    pub action: Action,
    /// Empty: not shown by `--help`.
    pub help: &'static str,
}

pub enum Action {
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
const NO_SHARDING: &str =
    "not in this build yet; refusing to start as a standalone where a part of a sharded cluster was asked for";
const NO_AUTH: &str = "not in this build yet; refusing to start open where access control was asked for";
const NO_TLS: &str = "not in this build yet; refusing to start without the encryption that was asked for";
/// With less, one statement hardly fits in addition to the server itself.
const MEMORY_LIMIT_MIN: u64 = 64 << 20;
const NO_JOURNAL_COMPRESSION: &str = "Arbor's log is not compressed yet";

const fn row(flag: &'static str, yaml: &'static str, kind: Kind, action: Action, help: &'static str) -> Row {
    Row { flag, yaml, kind, action, help }
}

#[rustfmt::skip]
static ROWS: &[Row] = &[
    // where the data is
    row("dbpath", "storage.dbPath", Text, Apply(|s, v| { s.dbpath = text(v).into(); Ok(()) }), "Directory of the data files [default: /data/db]"),
    row("storageEngine", "storage.engine", Text, Apply(engine), "ftree (aliases tokuft, perconaft), lmdb (mmapv1), rocksdb, wiredTiger [default: what the directory was made with, else ftree]"),
    row("journalCommitInterval", "storage.journal.commitIntervalMs", Kind::Number { min: 1, max: 500 }, Apply(|s, v| { s.commit_interval_ms = int(v) as u64; Ok(()) }), "Milliseconds between fsyncs of the log [default: 100]"),
    row("", "storage.mmapv1.journal.commitIntervalMs", Kind::Number { min: 1, max: 500 }, Map(|s, v| { s.commit_interval_ms = int(v) as u64; Ok(()) }, "applied as storage.journal.commitIntervalMs"), ""),
    row("syncdelay", "storage.syncPeriodSecs", Real, Apply(checkpoints), "Seconds between checkpoints [default: 60; ftree alone: 10]"),
    row("checkpointPeriod", "", COUNT, Apply(checkpoints), ""),
    row("journal", "storage.journal.enabled", Switch, Apply(|s, v| { if !on(v) { s.warn("storage.journal.enabled", ONE_LOG); } Ok(()) }), ""),
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
    row("nounixsocket", "net.unixDomainSocket.enabled", Switch, Ignore("Unix sockets are not in this build yet"), ""),
    row("unixSocketPrefix", "net.unixDomainSocket.pathPrefix", Text, Ignore("Unix sockets are not in this build yet"), ""),
    row("filePermissions", "net.unixDomainSocket.filePermissions", Text, Ignore("Unix sockets are not in this build yet"), ""),
    row("networkMessageCompressors", "net.compression.compressors", Text, Ignore("snappy, zlib and zstd are always offered"), ""),
    row("wireObjectCheck", "net.wireObjectCheck", Switch, Ignore("documents are always checked"), ""),
    row("objcheck", "", Switch, Ignore("documents are always checked"), ""),
    row("noobjcheck", "", Switch, Ignore("documents are always checked"), ""),
    row("serviceExecutor", "net.serviceExecutor", Text, Ignore("there is one way to run connections"), ""),
    row("transportLayer", "net.transportLayer", Text, Ignore("there is one way to run connections"), ""),
    row("httpinterface", "net.http.enabled", Switch, Ignore("the HTTP interface is gone"), ""),
    row("nohttpinterface", "", Switch, Ignore("the HTTP interface is gone"), ""),
    row("rest", "net.http.RESTInterfaceEnabled", Switch, Ignore("the HTTP interface is gone"), ""),
    row("jsonp", "net.http.JSONPEnabled", Switch, Ignore("the HTTP interface is gone"), ""),
    row("tlsMode", "net.tls.mode", Text, Refuse(NO_TLS), ""),
    row("tlsOnNormalPorts", "", Switch, Refuse(NO_TLS), ""),
    row("tlsCertificateKeyFile", "net.tls.certificateKeyFile", Text, Refuse(NO_TLS), ""),
    row("tlsCAFile", "net.tls.CAFile", Text, Refuse(NO_TLS), ""),
    row("sslMode", "net.ssl.mode", Text, Refuse(NO_TLS), ""),
    row("sslOnNormalPorts", "", Switch, Refuse(NO_TLS), ""),
    row("sslPEMKeyFile", "net.ssl.PEMKeyFile", Text, Refuse(NO_TLS), ""),
    row("sslCAFile", "net.ssl.CAFile", Text, Refuse(NO_TLS), ""),

    // log and process
    row("logpath", "systemLog.path", Text, Apply(|s, v| { s.logpath = Some(text(v).into()); Ok(()) }), "Log file [default: standard output]"),
    row("logappend", "systemLog.logAppend", Switch, Apply(|s, v| { s.logappend = on(v); Ok(()) }), "Appends to the log file instead of moving it away"),
    row("", "systemLog.destination", Text, Apply(destination), ""),
    row("syslog", "", Switch, Ignore("the log goes to standard output or to a file"), ""),
    row("syslogFacility", "systemLog.syslogFacility", Text, Ignore("the log goes to standard output or to a file"), ""),
    row("logRotate", "systemLog.logRotate", Text, Ignore("SIGUSR1 and logRotate move the log file away and begin a new one"), ""),
    row("timeStampFormat", "systemLog.timeStampFormat", Text, Ignore("times are ISO 8601 in UTC"), ""),
    row("traceExceptions", "systemLog.traceAllExceptions", Switch, Ignore("there are no exceptions to trace"), ""),
    row("quiet", "systemLog.quiet", Switch, Apply(|s, v| { s.quiet = on(v); Ok(()) }), "Logs no connections"),
    row("verbose", "systemLog.verbosity", Switch, Apply(|s, v| { s.verbosity = match v { V::Int(n) => n.clamp(0, 5) as u8, v => on(v) as u8 }; Ok(()) }), "Logs more (-v, -vv ... -vvvvv)"),
    row("fork", "processManagement.fork", Switch, Apply(|s, v| { s.fork = on(v); Ok(()) }), "Runs in the background (needs --logpath)"),
    row("pidfilepath", "processManagement.pidFilePath", Text, Apply(|s, v| { s.pidfile = Some(text(v).into()); Ok(()) }), "File for the process id"),
    row("timeZoneInfo", "processManagement.timeZoneInfo", Text, Ignore("the time zone database is built in"), ""),
    row("cpu", "", Switch, Ignore("use top or the laboratory"), ""),
    row("welcome", "", Switch, Apply(|s, v| { s.welcome = on(v); Ok(()) }), "Prints a connection string and a first session to type"),

    // profiling
    row("slowms", "operationProfiling.slowOpThresholdMs", Kind::Number { min: -1, max: i32::MAX as i64 }, Apply(|s, v| { s.slow_ms = int(v) as i32; Ok(()) }), "Milliseconds from which an operation is logged as slow [default: 100]"),
    row("slowOpSampleRate", "operationProfiling.slowOpSampleRate", Real, Apply(|s, v| { s.slow_sample_rate = real(v).min(1.0); Ok(()) }), "Share of slow operations that are logged [default: 1]"),
    row("profile", "operationProfiling.mode", Text, Ignore("the profiler is not in this build yet; slow operations go to the log"), ""),
    row("diaglog", "", COUNT, Ignore("gone since MongoDB 3.6"), ""),
    row("sysinfo", "", Switch, Ignore("see hostInfo"), ""),

    // security
    row("auth", "security.authorization", Switch, Refuse(NO_AUTH), ""),
    row("noauth", "", Switch, Apply(|_, _| Ok(())), ""),
    row("keyFile", "security.keyFile", Text, Refuse(NO_AUTH), ""),
    row("clusterAuthMode", "security.clusterAuthMode", Text, Refuse(NO_AUTH), ""),
    row("transitionToAuth", "security.transitionToAuth", Switch, Refuse(NO_AUTH), ""),
    row("noscripting", "security.javascriptEnabled", Switch, Ignore("there is no JavaScript in the server"), ""),

    // replication and sharding
    row("replSet", "replication.replSetName", Text, Apply(replica_set), "Name of the replica set that this server is the member of (see rs.initiate)"),
    row("oplogSize", "replication.oplogSizeMB", Kind::Number { min: 1, max: 1 << 30 }, Apply(|s, v| { s.oplog.megabytes = Some(int(v) as u64); Ok(()) }), "Oplog size in MB [default: 5 % of the free space, 990 to 51200]"),
    row("expireOplogHours", "replication.expireOplogHours", COUNT, Apply(|s, v| { *s.oplog.hours_max.get_or_insert(0.0) += real(v); Ok(()) }), "Hours after which local.oplog.rs forgets, whatever its size (TokuMX)"),
    row("expireOplogDays", "replication.expireOplogDays", COUNT, Apply(|s, v| { *s.oplog.hours_max.get_or_insert(0.0) += 24.0 * real(v); Ok(()) }), ""),
    row("replIndexPrefetch", "replication.secondaryIndexPrefetch", Text, Ignore("a set has one member in this build; nothing is prefetched"), ""),
    row("enableMajorityReadConcern", "replication.enableMajorityReadConcern", Text, Ignore("read concern majority is always on"), ""),
    row("master", "", Switch, Ignore("gone since MongoDB 4.0"), ""),
    row("slave", "", Switch, Ignore("gone since MongoDB 4.0"), ""),
    row("shardsvr", "", Switch, Refuse(NO_SHARDING), ""),
    row("configsvr", "", Switch, Refuse(NO_SHARDING), ""),
    row("", "sharding.clusterRole", Text, Refuse(NO_SHARDING), ""),
    row("moveParanoia", "sharding.archiveMovedChunks", Switch, Ignore("there are no chunks to move in this build yet"), ""),

    // WiredTiger
    row("wiredTigerCacheSizeGB", "storage.wiredTiger.engineConfig.cacheSizeGB", Real, Apply(wiredtiger_cache_gb), "Cache of the engine in GB"),
    row("wiredTigerCacheSizePct", "storage.wiredTiger.engineConfig.cacheSizePct", Real, Ignore("give --wiredTigerCacheSizeGB"), ""),
    row("wiredTigerJournalCompressor", "storage.wiredTiger.engineConfig.journalCompressor", Text, Ignore(NO_JOURNAL_COMPRESSION), ""),
    row("wiredTigerDirectoryForIndexes", "storage.wiredTiger.engineConfig.directoryForIndexes", Switch, Ignore("all trees share the files of their engine"), ""),
    row("wiredTigerCollectionBlockCompressor", "storage.wiredTiger.collectionConfig.blockCompressor", Text, EngineOption("wiredTiger.blockCompressor"), ""),
    row("wiredTigerIndexPrefixCompression", "storage.wiredTiger.indexConfig.prefixCompression", Text, EngineOption("wiredTiger.prefixCompression"), ""),
    row("wiredTigerEngineConfigString", "storage.wiredTiger.engineConfig.configString", Text, EngineOption("wiredTiger.configString"), ""),
    row("wiredTigerCollectionConfigString", "storage.wiredTiger.collectionConfig.configString", Text, EngineOption("wiredTiger.collectionConfigString"), ""),
    row("wiredTigerIndexConfigString", "storage.wiredTiger.indexConfig.configString", Text, EngineOption("wiredTiger.indexConfigString"), ""),
    row("wiredTigerStatisticsLogDelaySecs", "storage.wiredTiger.engineConfig.statisticsLogDelaySecs", COUNT, Ignore("statistics are read through serverStatus"), ""),
    row("inMemorySizeGB", "storage.inMemory.engineConfig.inMemorySizeGB", Real, Apply(cache_gb), ""),

    // RocksDB
    row("rocksdbCacheSizeGB", "storage.rocksdb.cacheSizeGB", Real, Apply(rocksdb_cache_gb), ""),
    row("rocksdbCompression", "storage.rocksdb.compression", Text, EngineOption("rocksdb.compression"), ""),
    row("rocksdbMaxWriteMBPerSec", "storage.rocksdb.maxWriteMBPerSec", COUNT, EngineOption("rocksdb.maxWriteMBPerSec"), ""),
    row("rocksdbConfigString", "storage.rocksdb.configString", Text, EngineOption("rocksdb.configString"), ""),
    row("rocksdbCrashSafeCounters", "storage.rocksdb.crashSafeCounters", Switch, Ignore("counts are always kept exact"), ""),
    row("rocksdbCounters", "storage.rocksdb.counters", Switch, Ignore("statistics are read through serverStatus"), ""),

    // the fractal tree
    row("ftreeCacheSizeGB", "storage.ftree.cacheSizeGB", Real, Apply(ftree_cache_gb), "Memory of the fractal tree in GB [default: half of the machine's, less 1 GB]"),
    row("ftreeDirectio", "storage.ftree.directio", Switch, EngineOption("ftree.directio"), "Reads and writes past the page cache"),
    row("ftreeCompression", "storage.ftree.compression", Text, EngineOption("ftree.compression"), "none, lz4 or zstd[:level] [default: zstd]"),
    row("ftreeReadPageSize", "storage.ftree.readPageSize", Bytes, EngineOption("ftree.readPageSize"), ""),
    row("ftreePageSize", "storage.ftree.pageSize", Bytes, EngineOption("ftree.pageSize"), ""),
    row("ftreeFanout", "storage.ftree.fanout", COUNT, EngineOption("ftree.fanout"), ""),
    row("ftreeWriteBias", "storage.ftree.writeBias", Text, EngineOption("ftree.writeBias"), "low, normal or high: buffered share of the data [default: normal]"),

    // TokuFT in MongoDB, and TokuMX
    row("tokuftEngineCacheSize", "storage.tokuft.engineOptions.cacheSize", Bytes, Apply(ftree_cache_bytes), ""),
    row("memoryLimit", "storage.memoryLimit", Bytes, Apply(memory_limit), "Memory of the whole process in bytes, or with a suffix (8G) [default: 80 % of the machine's or the control group's]"),
    row("cacheSize", "", Bytes, Apply(cache_bytes), "Cache of the engine in bytes, or with a suffix (8G)"),
    row("tokuftEngineCleanerIterations", "storage.tokuft.engineOptions.cleanerIterations", COUNT, EngineOption("ftree.cleanerIterations"), ""),
    row("tokuftEngineCleanerPeriod", "storage.tokuft.engineOptions.cleanerPeriod", COUNT, EngineOption("ftree.cleanerPeriod"), ""),
    row("tokuftEngineDirectio", "storage.tokuft.engineOptions.directio", Switch, EngineOption("ftree.directio"), ""),
    row("tokuftEngineFsRedzone", "storage.tokuft.engineOptions.fsRedzone", COUNT, EngineOption("ftree.fsRedzone"), ""),
    row("tokuftEngineJournalCommitInterval", "storage.tokuft.engineOptions.journalCommitInterval", Kind::Number { min: 1, max: 500 }, Apply(|s, v| { s.commit_interval_ms = int(v) as u64; Ok(()) }), ""),
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

pub fn rows() -> &'static [Row] {
    ROWS
}

pub fn by_flag(flag: &str) -> Option<&'static Row> {
    ROWS.iter().find(|row| !flag.is_empty() && row.flag == flag)
}

pub fn by_yaml(key: &str) -> Option<&'static Row> {
    ROWS.iter().find(|row| !key.is_empty() && row.yaml == key && !row.is_set_parameter())
}

impl Row {
    pub fn is_set_parameter(&self) -> bool {
        matches!(self.action, Action::Parameter)
    }

    pub fn value_name(&self) -> &'static str {
        match self.kind {
            _ if self.flag == "dbpath" => "DIR",
            Kind::Switch => "BOOL",
            Kind::Text => "TEXT",
            Kind::Number { .. } | Kind::Real => "N",
            Kind::Bytes => "BYTES",
        }
    }

    /// The name under which `getCmdLineOpts` shows it.
    fn name(&self) -> &'static str {
        if self.yaml.is_empty() { self.flag } else { self.yaml }
    }
}

/// Does what the row says with one given value.
pub fn apply(settings: &mut Settings, given: &RawSetting) -> Result<(), Refused> {
    let RawSetting { row, written, parameter, value } = given;
    if let (Action::Parameter, Some(name)) = (&row.action, parameter) {
        settings.parameters.push((name.clone(), value.clone()));
        settings.given.push((format!("setParameter.{name}"), ParsedValue::Text(value.clone())));
        return Ok(());
    }
    let refused = |reason: String| Refused(format!("{written}: {reason}"));
    let value = read_value(row, value).map_err(refused)?;
    settings.given.push((row.name().to_owned(), value.clone()));
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

fn destination(settings: &mut Settings, value: ParsedValue) -> Result<(), String> {
    match text(value).as_str() {
        "file" => {}
        "syslog" => settings.warn("systemLog.destination", "the log goes to standard output or to a file"),
        other => return Err(format!("expected 'file' or 'syslog', found '{other}'")),
    }
    Ok(())
}

fn engine(settings: &mut Settings, value: ParsedValue) -> Result<(), String> {
    let name = text(value);
    let canonical = match name.to_ascii_lowercase().as_str() {
        "lmdb" | "mmapv1" => "lmdb",
        "ftree" | "tokuft" | "perconaft" => "ftree",
        "rocksdb" => "rocksdb",
        "wiredtiger" => "wiredTiger",
        _ => return Err(format!("unknown storage engine '{name}'; known are ftree, lmdb, rocksdb, wiredTiger")),
    };
    settings.engine = Some(canonical.to_owned());
    Ok(())
}
