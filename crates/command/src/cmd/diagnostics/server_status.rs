//! `serverStatus`: metrics of the server. Each is a real counter; metrics that are not counted are absent.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use arbor_base::memory::{self as budget, Class};
use arbor_bson::{Doc, DocBuf, ValueRef};
use arbor_engine::{Member, MemberState};
use arbor_protocol::log::now_ms;
use arbor_protocol::process;
use arbor_store::UpdateMessages;

use crate::call::Call;
use crate::{Commands, MONGODB_VERSION, Result};

pub(crate) fn run(call: &mut Call<'_>) -> Result<()> {
    call.reply = document(call.server, call.body)?;
    Ok(())
}

/// Returns the reply of `serverStatus` with the sections that `body` does not leave out.
pub(super) fn document(server: &Commands, body: Doc<'_>) -> Result<DocBuf> {
    let uptime = server.started.elapsed();
    let host = format!("{}:{}", process::host_name(), server.options.port);
    let process = if server.router.is_some() { "mongos" } else { "mongod" };
    let mut reply = DocBuf::new().with("host", &host).with("version", MONGODB_VERSION).with("process", process);
    reply.append("pid", i64::from(std::process::id())).append("uptime", uptime.as_secs_f64().floor());
    reply.append("uptimeMillis", uptime.as_millis() as i64).append("uptimeEstimate", uptime.as_secs() as i64);
    reply.append("localTime", ValueRef::DateTime(now_ms()));
    for (name, section) in SECTIONS {
        if is_requested(body, name) {
            let section = match name {
                &"opLatencies" if wants_histograms(body) => server.metrics.latencies(true),
                _ => section(server)?,
            };
            if !section.as_doc().is_empty() {
                reply.append(name, &section);
            }
        }
    }
    for member in open_members(server) {
        if is_requested(body, &member) {
            reply.append(&member, &counters(server, &member)?);
        }
    }
    Ok(reply)
}

/// Returns the sections about engines, log, transactions and locks.
pub(super) fn of_engines(server: &Commands) -> Result<Vec<(String, DocBuf)>> {
    const OF_ENGINES: &[&str] =
        &["arborLog", "engine", "locks", "memoryBudget", "storageEngine", "storageEngines", "transactions"];
    let mut sections = Vec::new();
    for (name, section) in SECTIONS.iter().filter(|(name, _)| OF_ENGINES.contains(name)) {
        sections.push(((*name).to_owned(), section(server)?));
    }
    for member in open_members(server) {
        sections.push((member.clone(), counters(server, &member)?));
    }
    Ok(sections)
}

/// A client leaves a section out with `name: 0`.
fn is_requested(body: Doc<'_>, name: &str) -> bool {
    !matches!(body.get(name), Some(ValueRef::Int32(0) | ValueRef::Bool(false) | ValueRef::Int64(0)))
        && !matches!(body.get(name), Some(ValueRef::Double(0.0)))
}

/// `opLatencies: {histograms: true}`.
fn wants_histograms(body: Doc<'_>) -> bool {
    matches!(body.get("opLatencies"), Some(ValueRef::Document(options))
        if matches!(options.get("histograms"), Some(ValueRef::Bool(true) | ValueRef::Int32(1))))
}

impl Commands {
    /// Returns the sections of `serverStatus` with histograms of latencies, the totals of `top` (`collections`) and the status of the
    /// set (`set`). Sections that cannot be read are counted (`missing`).
    pub fn statistics(&self) -> DocBuf {
        let mut doc = DocBuf::new().with("uptimeMillis", self.started.elapsed().as_millis() as i64);
        let mut missing = 0i32;
        for (name, section) in SECTIONS {
            match section(self) {
                Ok(_) if *name == "opLatencies" => drop(doc.append(name, &self.metrics.latencies(true))),
                Ok(section) => drop(doc.append(name, &section)),
                Err(_) => missing += 1,
            }
        }
        for member in open_members(self) {
            match counters(self, &member) {
                Ok(counters) => drop(doc.append(&member, &counters)),
                Err(_) => missing += 1,
            }
        }
        doc.append("collections", &self.usages.totals());
        let mut set = DocBuf::new();
        if self.replication.as_ref().is_some_and(|replication| self.set_status(replication, &mut set).is_ok()) {
            doc.append("set", &set);
        }
        doc.with("missing", missing)
    }

    /// Errors: writes are refused until a restart.
    pub fn health(&self) -> std::result::Result<(), String> {
        let poisoned = self.database.transactions.poisoned();
        poisoned.map_or(Ok(()), |reason| Err(format!("writes are refused until a restart: {reason}")))
    }

    /// Errors: the reason why clients should not be sent to this server now.
    pub fn readiness(&self) -> std::result::Result<(), String> {
        self.health()?;
        if self.stopping.load(Ordering::Relaxed) {
            return Err("the server stops".to_owned());
        }
        let Some(replication) = &self.replication else { return Ok(()) };
        let mut set = DocBuf::new();
        self.set_status(replication, &mut set).map_err(|error| error.to_string())?;
        match set.get("myState") {
            Some(ValueRef::Int32(1 | 2)) => Ok(()),
            _ => Err("the member is neither primary nor secondary".to_owned()),
        }
    }
}

type Section = fn(&Commands) -> Result<DocBuf>;

/// In alphabetical order, as MongoDB answers them.
const SECTIONS: &[(&str, Section)] = &[
    ("arborLog", log),
    ("asserts", asserts),
    ("audit", |server| Ok(server.audit.as_ref().map_or_else(DocBuf::new, |audit| audit.statistics()))),
    ("connections", connections),
    ("electionMetrics", |server| Ok(election_metrics(server))),
    ("extra_info", |_| Ok(process::extra_info())),
    ("flowControl", |_| Ok(flow_control())),
    ("globalLock", global_lock),
    ("indexBuilds", |server| Ok(index_builds(server))),
    ("indexBulkBuilder", |server| Ok(index_bulk_builder(server))),
    ("locks", locks),
    ("logicalSessionRecordCache", sessions),
    ("network", network),
    ("opLatencies", |server| Ok(server.metrics.latencies(false))),
    ("opcounters", |server| Ok(server.metrics.opcounters())),
    ("opcountersRepl", |_| Ok(applied_from_others())),
    ("oplogTruncation", oplog_truncation),
    ("queryAnalyzers", |server| Ok(server.sampler.statistics())),
    ("queues", queues),
    ("repl", |server| Ok(repl(server))),
    ("security", |server| Ok(server.accounts.attempts.to_doc())),
    ("storageEngine", storage_engine),
    ("storageEngines", |server| Ok(storage_engines(server))),
    ("engine", engine),
    ("tcmalloc", |server| Ok(allocator(server))),
    ("transactions", transactions),
    ("mem", memory),
    ("memoryBudget", |_| Ok(memory_budget())),
    ("metrics", metrics),
];

/// The server has no assertions that are counted but those of users' requests; tools want the other kinds as well.
fn asserts(server: &Commands) -> Result<DocBuf> {
    Ok(DocBuf::new()
        .with("regular", 0i32)
        .with("warning", 0i32)
        .with("msg", 0i32)
        .with("user", server.metrics.asserts_user.sum() as i64)
        .with("tripwire", 0i32)
        .with("rollovers", 0i32))
}

fn connections(server: &Commands) -> Result<DocBuf> {
    let statistics = server.host.network();
    let max = server.options.connections_max as u64;
    Ok(DocBuf::new()
        .with("current", statistics.connections_open as i32)
        .with("available", max.saturating_sub(statistics.connections_open as u64) as i32)
        .with("totalCreated", statistics.connections_created as i32)
        .with("rejected", statistics.connections_rejected as i32)
        .with("closedForSilence", statistics.silent as i64)
        .with("handshakesFailed", statistics.tls_failed as i64)
        .with("active", server.operations.running().total as i32))
}

/// Returns `globalLock`. There is no global lock: the queue is empty, and running operations are counted by kind.
fn global_lock(server: &Commands) -> Result<DocBuf> {
    let running = server.operations.running();
    let counts = |readers: usize, writers: usize, total: usize| {
        DocBuf::new().with("total", total as i32).with("readers", readers as i32).with("writers", writers as i32)
    };
    Ok(DocBuf::new()
        .with("totalTime", server.started.elapsed().as_micros() as i64)
        .with("currentQueue", &counts(0, 0, 0))
        .with("activeClients", &counts(running.readers, running.writers, running.total)))
}

/// Those of large collections, since the start.
fn index_builds(server: &Commands) -> DocBuf {
    let counts = server.database.store.index_build_counts();
    let phases = DocBuf::new()
        .with("scanCollection", counts.scanning as i64)
        .with("bulkLoad", counts.loading as i64)
        .with("drainSideWritesTable", counts.catching_up as i64);
    DocBuf::new().with("total", counts.begun as i64).with("failed", counts.failed as i64).with("phases", &phases)
}

fn index_bulk_builder(server: &Commands) -> DocBuf {
    let counts = server.database.store.index_build_counts();
    DocBuf::new().with("count", counts.begun as i64).with("resumed", counts.begun_again as i64)
}

/// A set of one member applies nothing that others did.
fn applied_from_others() -> DocBuf {
    ["insert", "query", "update", "delete", "getmore", "command"]
        .iter()
        .map(|name| (*name, ValueRef::Int64(0)))
        .collect()
}

/// Empty on a standalone.
fn repl(server: &Commands) -> DocBuf {
    let Some(replication) = &server.replication else { return DocBuf::new() };
    let mut doc = DocBuf::new().with("topologyVersion", &server.topology.version().to_doc());
    replication.append_hello("isWritablePrimary", server.progress(replication), None, &mut doc);
    doc.with("rbid", 1i32)
}

/// A set of one member has had no elections but those that `replSetStepUp` asked for; the counters are those that tools read.
fn election_metrics(server: &Commands) -> DocBuf {
    if server.replication.is_none() {
        return DocBuf::new();
    }
    let none = DocBuf::new().with("called", 0i64).with("successful", 0i64);
    let mut doc = DocBuf::new();
    for name in ["stepUpCmd", "priorityTakeover", "catchUpTakeover", "electionTimeout", "freezeTimeout"] {
        doc.append(name, &none);
    }
    for name in ["numStepDownsCausedByHigherTerm", "numCatchUps", "numCatchUpsSucceeded", "numCatchUpsFailedWithError"]
    {
        doc.append(name, 0i64);
    }
    doc.with("averageCatchUpOps", 0.0)
}

/// There is no other member that could fall behind.
fn flow_control() -> DocBuf {
    DocBuf::new()
        .with("enabled", false)
        .with("targetRateLimit", 1_000_000_000i32)
        .with("timeAcquiringMicros", 0i64)
        .with("locksPerKiloOp", 0.0)
        .with("sustainerRate", 0i32)
        .with("isLagged", false)
        .with("isLaggedCount", 0i32)
        .with("isLaggedTimeMicros", 0i64)
}

/// Returns `locks`. There is no global lock; the commands that would have taken it are counted, none of which waited.
fn locks(server: &Commands) -> Result<DocBuf> {
    let [reads, writes, commands] = server.metrics.commands_by_class();
    let counts = DocBuf::new().with("r", (reads + commands) as i64).with("w", writes as i64);
    Ok(DocBuf::new().with("Global", &DocBuf::new().with("acquireCount", &counts)))
}

/// Segments of the log that were removed. Empty on a standalone, which has no oplog.
fn oplog_truncation(server: &Commands) -> Result<DocBuf> {
    if server.replication.is_none() {
        return Ok(DocBuf::new());
    }
    let stats = server.database.transactions.log().stats();
    Ok(DocBuf::new()
        .with("processingMethod", "segments")
        .with("totalTimeProcessingMicros", 0i64)
        .with("totalTimeTruncatingMicros", stats.trim_micros as i64)
        .with("truncateCount", stats.segments_trimmed as i64))
}

/// Nothing queues for tickets: as many may run as there are connections.
fn queues(server: &Commands) -> Result<DocBuf> {
    let running = server.operations.running();
    let max = server.options.connections_max;
    let tickets = |out: usize| {
        DocBuf::new()
            .with("out", out as i32)
            .with("available", max.saturating_sub(out) as i32)
            .with("totalTickets", max as i32)
    };
    let execution = DocBuf::new().with("read", &tickets(running.readers)).with("write", &tickets(running.writers));
    Ok(DocBuf::new().with("execution", &execution))
}

/// Statistics of the allocator under the names of MongoDB's, for tools that read those.
fn allocator(server: &Commands) -> DocBuf {
    let counts = server.host.allocator();
    if counts.is_empty() {
        // jemalloc counts only in builds that ask for it
        let resident = process::memory().resident_bytes as i64;
        let generic = DocBuf::new().with("heap_size", resident).with("physical_memory_used", resident);
        return DocBuf::new().with("allocator", "jemalloc").with("generic", &generic);
    }
    let of = |name: &str| counts.iter().find(|(own, _)| *own == name).map_or(0, |(_, bytes)| *bytes as i64);
    let generic = DocBuf::new()
        .with("current_allocated_bytes", of("allocated"))
        .with("heap_size", of("mapped"))
        .with("bytes_in_use_by_app", of("allocated"))
        .with("physical_memory_used", of("resident"));
    let pages = DocBuf::new()
        .with("pageheap_free_bytes", of("active").saturating_sub(of("allocated")))
        .with("pageheap_unmapped_bytes", of("retained"));
    DocBuf::new().with("allocator", "jemalloc").with("generic", &generic).with("tcmalloc", &pages)
}

fn sessions(server: &Commands) -> Result<DocBuf> {
    let count = server.sessions.len() as i32;
    Ok(DocBuf::new().with("activeSessionsCount", count).with("sessionCatalogSize", count))
}

fn network(server: &Commands) -> Result<DocBuf> {
    let statistics = server.host.network();
    Ok(DocBuf::new()
        .with("bytesIn", statistics.bytes_in as i64)
        .with("bytesOut", statistics.bytes_out as i64)
        .with("numRequests", statistics.requests as i64)
        .with("numRequestsPooled", statistics.requests_pooled as i64))
}

fn storage_engine(server: &Commands) -> Result<DocBuf> {
    Ok(DocBuf::new()
        .with("name", server.database.transactions.engine().name())
        .with("supportsCommittedReads", true)
        .with("persistent", true)
        .with("supportsSnapshotReadConcern", server.replication.is_some())
        .with("readOnly", false))
}

fn open_members(server: &Commands) -> Vec<String> {
    let members = server.database.transactions.engine().members().into_iter();
    members.filter(|member| matches!(member.state, MemberState::Open { .. })).map(|member| member.name).collect()
}

/// The engines of this build, by name, and how they are.
fn storage_engines(server: &Commands) -> DocBuf {
    let mut engines = DocBuf::new();
    for Member { name, is_default, state } in server.database.transactions.engine().members() {
        let engine = match state {
            MemberState::Open { applied, durable } => DocBuf::new()
                .with("state", "open")
                .with("default", is_default)
                .with("applied", applied.0 as i64)
                .with("durable", durable.0 as i64),
            MemberState::Closed => DocBuf::new().with("state", "closed").with("default", is_default),
            MemberState::Unavailable { reason } => {
                DocBuf::new().with("state", "unavailable").with("default", is_default).with("reason", &*reason)
            }
        };
        engines.append(&name, &engine);
    }
    engines
}

/// Returns the engine's own counters, in a section of its name. A counter `group: name` is in the section `group`, as those of
/// WiredTiger are in MongoDB.
fn counters(server: &Commands, member: &str) -> Result<DocBuf> {
    let stats = server.database.transactions.engine().member_stats(member).map_err(arbor_txn::Error::from)?;
    let mut counters = DocBuf::new();
    let mut groups: BTreeMap<&str, DocBuf> = BTreeMap::new();
    for (name, value) in &stats.counters {
        match name.split_once(": ") {
            Some((group, name)) => groups.entry(group).or_default().append(name, *value as i64),
            None => counters.append(name, *value as i64),
        };
    }
    for (group, own) in &groups {
        counters.append(group, own);
    }
    Ok(counters)
}

/// Returns the statistics common to all engines.
fn engine(server: &Commands) -> Result<DocBuf> {
    let transactions = &server.database.transactions;
    let stats = transactions.engine().stats().map_err(arbor_txn::Error::from)?;
    let checkpoints = transactions.checkpoint_stats();
    let mut checkpoint = DocBuf::new()
        .with("count", checkpoints.count as i64)
        .with("lastMillis", checkpoints.last_duration.as_millis() as i64)
        .with("totalMillis", checkpoints.total_duration.as_millis() as i64)
        .with("lastPosition", checkpoints.last_position.0 as i64);
    if let Some(error) = &checkpoints.error {
        checkpoint.append("error", error);
    }
    let mut doc = DocBuf::new()
        .with("name", transactions.engine().name())
        .with("diskBytes", stats.disk_bytes as i64)
        .with("freeBytes", stats.free_bytes as i64)
        .with("cacheBytes", stats.cache_bytes as i64)
        .with("applied", transactions.engine().applied().0 as i64)
        .with("durable", transactions.engine().durable().0 as i64);
    if let Some(reason) = transactions.poisoned() {
        doc.append("poisoned", reason);
    }
    Ok(doc.with("checkpoint", &checkpoint))
}

/// The commit log.
fn log(server: &Commands) -> Result<DocBuf> {
    let stats = server.database.transactions.log().stats();
    Ok(DocBuf::new()
        .with("first", stats.first.0 as i64)
        .with("appended", stats.appended.0 as i64)
        .with("durable", stats.durable.0 as i64)
        .with("segments", stats.segments as i64)
        .with("diskBytes", stats.disk_bytes as i64)
        .with("groups", stats.groups as i64)
        .with("records", stats.records as i64)
        .with("bytes", stats.bytes as i64)
        .with("fsyncs", stats.fsyncs as i64)
        .with("fsyncMicros", stats.fsync_micros as i64)
        .with("fsyncMicrosMax", stats.fsync_micros_max as i64))
}

fn transactions(server: &Commands) -> Result<DocBuf> {
    let (statistics, open) = (server.sessions.statistics(), server.sessions.open_statistics());
    Ok(DocBuf::new()
        .with("retriedCommandsCount", statistics.retried_commands.get() as i64)
        .with("retriedStatementsCount", statistics.retried_statements.get() as i64)
        .with("transactionsCollectionWriteCount", statistics.rows_written.get() as i64)
        .with("currentActive", open.active as i64)
        .with("currentInactive", open.inactive as i64)
        .with("currentOpen", (open.active + open.inactive) as i64)
        .with("totalAborted", statistics.aborted.get() as i64)
        .with("totalCommitted", statistics.committed.get() as i64)
        .with("totalStarted", statistics.started.get() as i64)
        .with("totalPrepared", 0i64)
        .with("currentPrepared", 0i64))
}

fn memory(_: &Commands) -> Result<DocBuf> {
    let memory = process::memory();
    Ok(DocBuf::new()
        .with("bits", usize::BITS as i32)
        .with("resident", (memory.resident_bytes >> 20) as i32)
        .with("virtual", (memory.virtual_bytes >> 20) as i32)
        .with("supported", true))
}

/// Returns the memory limit of the process and its use by class. Empty without a limit.
fn memory_budget() -> DocBuf {
    let budget = budget::process();
    let Some(limit) = budget.limit() else { return DocBuf::new() };
    let reserved: DocBuf = Class::ALL.iter().map(|class| (class.name(), budget.held(*class) as i64)).collect();
    DocBuf::new()
        .with("limitBytes", limit as i64)
        .with("residentBytes", budget.resident() as i64)
        .with("cachesBytesMax", budget.caches_max() as i64)
        .with("apartBytes", budget.apart() as i64)
        .with("freeBytes", budget.free() as i64)
        .with("refused", budget.refused() as i64)
        .with("reservedBytes", &reserved)
}

fn metrics(server: &Commands) -> Result<DocBuf> {
    let metrics = &server.metrics;
    let document = DocBuf::new()
        .with("deleted", metrics.documents.deleted.sum() as i64)
        .with("inserted", metrics.documents.inserted.sum() as i64)
        .with("returned", metrics.documents.returned.sum() as i64)
        .with("updated", metrics.documents.updated.sum() as i64);
    let fast_updates = DocBuf::new()
        .with("performed", server.database.unread_updates.performed.sum() as i64)
        .with("errors", UpdateMessages::failed() as i64);
    let cursors = server.database.cursors.list();
    let open = DocBuf::new()
        .with("noTimeout", cursors.iter().filter(|cursor| cursor.no_timeout).count() as i64)
        .with("pinned", cursors.iter().filter(|cursor| cursor.in_use).count() as i64)
        .with("total", cursors.len() as i64);
    let ttl = DocBuf::new()
        .with("deletedDocuments", metrics.ttl.deleted.sum() as i64)
        .with("passes", metrics.ttl.passes.sum() as i64);
    let registry = &server.database.cursors;
    let cursor = DocBuf::new()
        .with("timedOut", registry.timed_out.sum() as i64)
        .with("totalOpened", registry.opened.sum() as i64)
        .with("open", &open);
    let work = &metrics.work;
    let scans = DocBuf::new().with("nonTailable", work.collection_scans.sum() as i64);
    let executor = DocBuf::new()
        .with("scanned", work.keys_examined.sum() as i64)
        .with("scannedObjects", work.documents_examined.sum() as i64)
        .with("collectionScans", &scans.with("total", work.collection_scans.sum() as i64));
    let operation = DocBuf::new()
        .with("scanAndOrder", work.sorts.sum() as i64)
        .with("writeConflicts", work.write_conflicts.sum() as i64)
        .with("killedDueToMaxTimeMSExpired", metrics.timed_out.sum() as i64);
    let sort = DocBuf::new().with("spillToDisk", work.spills.sum() as i64);
    Ok(DocBuf::new()
        .with("commands", &metrics.commands())
        .with("cursor", &cursor)
        .with("document", &document)
        .with("fastUpdates", &fast_updates)
        .with("operation", &operation)
        .with("query", &DocBuf::new().with("sort", &sort))
        .with("queryExecutor", &executor)
        .with("record", &DocBuf::new().with("moves", 0i64))
        .with("repl", &repl_metrics())
        .with("ttl", &ttl))
}

/// Nothing is read from other members.
fn repl_metrics() -> DocBuf {
    let num_millis = DocBuf::new().with("num", 0i32).with("totalMillis", 0i32);
    let apply = DocBuf::new().with("batches", &num_millis).with("ops", 0i64);
    let buffer = DocBuf::new().with("count", 0i64).with("maxSizeBytes", 0i64).with("sizeBytes", 0i64);
    let network =
        DocBuf::new().with("bytes", 0i64).with("getmores", &num_millis).with("ops", 0i64).with("readersCreated", 0i64);
    DocBuf::new().with("apply", &apply).with("buffer", &buffer).with("network", &network)
}
