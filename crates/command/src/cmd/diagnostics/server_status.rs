//! `serverStatus`: metrics of the server. Each is a real counter; metrics that are not counted are absent.

use std::collections::BTreeMap;

use arbor_base::memory::{self as budget, Class};
use arbor_bson::{Doc, DocBuf, ValueRef};
use arbor_engine::{Member, MemberState};
use arbor_protocol::log::now_ms;
use arbor_protocol::process;

use crate::call::Call;
use crate::{MONGODB_VERSION, Result};

pub fn run(call: &mut Call<'_>) -> Result<()> {
    let uptime = call.server.started.elapsed();
    let host = format!("{}:{}", process::host_name(), call.server.options.port);
    let reply = &mut call.reply;
    reply.append("host", &host).append("version", MONGODB_VERSION).append("process", "mongod");
    reply.append("pid", i64::from(std::process::id())).append("uptime", uptime.as_secs_f64().floor());
    reply.append("uptimeMillis", uptime.as_millis() as i64).append("uptimeEstimate", uptime.as_secs() as i64);
    reply.append("localTime", ValueRef::DateTime(now_ms()));
    for (name, section) in SECTIONS {
        if is_requested(call.body, name) {
            let section = section(call)?;
            if !section.as_doc().is_empty() {
                call.reply.append(name, &section);
            }
        }
    }
    for member in open_members(call) {
        if is_requested(call.body, &member) {
            let counters = counters(call, &member)?;
            call.reply.append(&member, &counters);
        }
    }
    Ok(())
}

/// A client leaves a section out with `name: 0`.
fn is_requested(body: Doc<'_>, name: &str) -> bool {
    !matches!(body.get(name), Some(ValueRef::Int32(0) | ValueRef::Bool(false) | ValueRef::Int64(0)))
        && !matches!(body.get(name), Some(ValueRef::Double(0.0)))
}

type Section = fn(&Call<'_>) -> Result<DocBuf>;

/// In alphabetical order, as MongoDB answers them.
const SECTIONS: &[(&str, Section)] = &[
    ("arborLog", log),
    ("asserts", asserts),
    ("connections", connections),
    ("extra_info", |_| Ok(process::extra_info())),
    ("globalLock", global_lock),
    ("indexBuilds", |call| Ok(index_builds(call))),
    ("indexBulkBuilder", |call| Ok(index_bulk_builder(call))),
    ("logicalSessionRecordCache", sessions),
    ("network", network),
    ("opLatencies", |call| Ok(call.server.metrics.latencies())),
    ("opcounters", |call| Ok(call.server.metrics.opcounters())),
    ("opcountersRepl", |_| Ok(applied_from_others())),
    ("repl", |call| Ok(repl(call))),
    ("storageEngine", storage_engine),
    ("storageEngines", |call| Ok(storage_engines(call))),
    ("engine", engine),
    ("transactions", transactions),
    ("mem", memory),
    ("memoryBudget", |_| Ok(memory_budget())),
    ("metrics", metrics),
];

/// The server has no assertions that are counted but those of users' requests; tools want the other kinds as well.
fn asserts(call: &Call<'_>) -> Result<DocBuf> {
    Ok(DocBuf::new()
        .with("regular", 0i32)
        .with("warning", 0i32)
        .with("msg", 0i32)
        .with("user", call.server.metrics.asserts_user.sum() as i64)
        .with("tripwire", 0i32)
        .with("rollovers", 0i32))
}

fn connections(call: &Call<'_>) -> Result<DocBuf> {
    let statistics = call.server.host.network();
    let max = call.server.options.connections_max as u64;
    Ok(DocBuf::new()
        .with("current", statistics.connections_open as i32)
        .with("available", max.saturating_sub(statistics.connections_open as u64) as i32)
        .with("totalCreated", statistics.connections_created as i32)
        .with("rejected", statistics.connections_rejected as i32)
        .with("active", call.server.operations.running().total as i32))
}

/// Returns `globalLock`. There is no global lock: the queue is empty, and running operations are counted by kind.
fn global_lock(call: &Call<'_>) -> Result<DocBuf> {
    let running = call.server.operations.running();
    let counts = |readers: usize, writers: usize, total: usize| {
        DocBuf::new().with("total", total as i32).with("readers", readers as i32).with("writers", writers as i32)
    };
    Ok(DocBuf::new()
        .with("totalTime", call.server.started.elapsed().as_micros() as i64)
        .with("currentQueue", &counts(0, 0, 0))
        .with("activeClients", &counts(running.readers, running.writers, running.total)))
}

/// Those of large collections, since the start.
fn index_builds(call: &Call<'_>) -> DocBuf {
    let counts = call.database().store.index_build_counts();
    let phases = DocBuf::new()
        .with("scanCollection", counts.scanning as i64)
        .with("bulkLoad", counts.loading as i64)
        .with("drainSideWritesTable", counts.catching_up as i64);
    DocBuf::new().with("total", counts.begun as i64).with("failed", counts.failed as i64).with("phases", &phases)
}

fn index_bulk_builder(call: &Call<'_>) -> DocBuf {
    let counts = call.database().store.index_build_counts();
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
fn repl(call: &Call<'_>) -> DocBuf {
    let Some(replication) = &call.server.replication else { return DocBuf::new() };
    let mut doc = DocBuf::new().with("topologyVersion", &call.server.topology.version().to_doc());
    replication.append_hello("isWritablePrimary", call.server.progress(replication), &mut doc);
    doc.with("rbid", 1i32)
}

fn sessions(call: &Call<'_>) -> Result<DocBuf> {
    let count = call.server.sessions.len() as i32;
    Ok(DocBuf::new().with("activeSessionsCount", count).with("sessionCatalogSize", count))
}

fn network(call: &Call<'_>) -> Result<DocBuf> {
    let statistics = call.server.host.network();
    Ok(DocBuf::new()
        .with("bytesIn", statistics.bytes_in as i64)
        .with("bytesOut", statistics.bytes_out as i64)
        .with("numRequests", statistics.requests as i64)
        .with("numRequestsPooled", statistics.requests_pooled as i64))
}

fn storage_engine(call: &Call<'_>) -> Result<DocBuf> {
    Ok(DocBuf::new()
        .with("name", call.database().transactions.engine().name())
        .with("supportsCommittedReads", true)
        .with("persistent", true)
        .with("supportsSnapshotReadConcern", call.server.replication.is_some())
        .with("readOnly", false))
}

fn open_members(call: &Call<'_>) -> Vec<String> {
    let members = call.database().transactions.engine().members().into_iter();
    members.filter(|member| matches!(member.state, MemberState::Open { .. })).map(|member| member.name).collect()
}

/// The engines of this build, by name, and how they are.
fn storage_engines(call: &Call<'_>) -> DocBuf {
    let mut engines = DocBuf::new();
    for Member { name, is_default, state } in call.database().transactions.engine().members() {
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
fn counters(call: &Call<'_>, member: &str) -> Result<DocBuf> {
    let stats = call.database().transactions.engine().member_stats(member).map_err(arbor_txn::Error::from)?;
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
fn engine(call: &Call<'_>) -> Result<DocBuf> {
    let transactions = &call.database().transactions;
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
fn log(call: &Call<'_>) -> Result<DocBuf> {
    let stats = call.database().transactions.log().stats();
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

fn transactions(call: &Call<'_>) -> Result<DocBuf> {
    let (statistics, open) = (call.server.sessions.statistics(), call.server.sessions.open_statistics());
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

fn memory(_call: &Call<'_>) -> Result<DocBuf> {
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

fn metrics(call: &Call<'_>) -> Result<DocBuf> {
    let metrics = &call.server.metrics;
    let document = DocBuf::new()
        .with("deleted", metrics.documents.deleted.sum() as i64)
        .with("inserted", metrics.documents.inserted.sum() as i64)
        .with("returned", metrics.documents.returned.sum() as i64)
        .with("updated", metrics.documents.updated.sum() as i64);
    let cursors = call.database().cursors.list();
    let open = DocBuf::new()
        .with("noTimeout", cursors.iter().filter(|cursor| cursor.no_timeout).count() as i64)
        .with("pinned", cursors.iter().filter(|cursor| cursor.in_use).count() as i64)
        .with("total", cursors.len() as i64);
    let ttl = DocBuf::new()
        .with("deletedDocuments", metrics.ttl.deleted.sum() as i64)
        .with("passes", metrics.ttl.passes.sum() as i64);
    Ok(DocBuf::new()
        .with("commands", &metrics.commands())
        .with("cursor", &DocBuf::new().with("open", &open))
        .with("document", &document)
        .with("ttl", &ttl))
}
