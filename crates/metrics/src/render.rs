//! Statistics to text.
//!
//! The names are a promise to dashboards and alerts: a family is added, and never means something else later. A statistic that
//! is absent (no memory limit, no set) has no sample. Counters begin at zero with the process.

use std::fmt::Write;

use arbor_bson::{Doc, ValueRef};

/// The two texts that Prometheus reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// OpenMetrics 1.0.
    OpenMetrics,
    /// The older format, for everything that does not ask for the newer one.
    Prometheus,
}

impl Format {
    pub(crate) fn content_type(self) -> &'static str {
        match self {
            Format::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Format::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Counter,
    Gauge,
    Histogram,
    Unknown,
}

use Kind::{Counter, Gauge, Histogram, Unknown};

const MICROS: f64 = 1e-6;
const MILLIS: f64 = 1e-3;
const MIB: f64 = 1_048_576.0;

/// Name, kind, place in the statistics, unit, help.
#[rustfmt::skip]
static SINGLE: &[(&str, Kind, &str, f64, &str)] = &[
    ("arbor_uptime_seconds", Gauge, "uptimeMillis", MILLIS, "Time since the server started."),
    ("arbor_connections", Gauge, "connections.current", 1.0, "Open connections."),
    ("arbor_connections_available", Gauge, "connections.available", 1.0, "Connections that may still be opened."),
    ("arbor_connections_created", Counter, "connections.totalCreated", 1.0, "Connections that were opened."),
    ("arbor_connections_rejected", Counter, "connections.rejected", 1.0, "Connections that were closed because there were too many."),
    ("arbor_operations_running", Gauge, "connections.active", 1.0, "Operations that run now."),
    ("arbor_network_received_bytes", Counter, "network.bytesIn", 1.0, "Bytes from clients."),
    ("arbor_network_sent_bytes", Counter, "network.bytesOut", 1.0, "Bytes to clients."),
    ("arbor_network_requests", Counter, "network.numRequests", 1.0, "Messages from clients."),
    ("arbor_failed_commands", Counter, "asserts.user", 1.0, "Commands that ended with an error."),
    ("arbor_operations_timed_out", Counter, "metrics.operation.killedDueToMaxTimeMSExpired", 1.0, "Operations that ended at their maxTimeMS."),
    ("arbor_write_conflicts", Counter, "metrics.operation.writeConflicts", 1.0, "Statements that conflicted with a concurrent write and ran again or failed."),
    ("arbor_keys_examined", Counter, "metrics.queryExecutor.scanned", 1.0, "Index entries that statements read."),
    ("arbor_documents_examined", Counter, "metrics.queryExecutor.scannedObjects", 1.0, "Documents that statements read."),
    ("arbor_collection_scans", Counter, "metrics.queryExecutor.collectionScans.total", 1.0, "Statements that read a whole collection."),
    ("arbor_sorts", Counter, "metrics.operation.scanAndOrder", 1.0, "Statements that sorted without an index."),
    ("arbor_sort_spills", Counter, "metrics.query.sort.spillToDisk", 1.0, "Times that a statement wrote a sort to disk."),
    ("arbor_cursors_open", Gauge, "metrics.cursor.open.total", 1.0, "Open cursors."),
    ("arbor_cursors_opened", Counter, "metrics.cursor.totalOpened", 1.0, "Cursors that were opened."),
    ("arbor_cursors_timed_out", Counter, "metrics.cursor.timedOut", 1.0, "Cursors that were closed because no client read them."),
    ("arbor_sessions", Gauge, "logicalSessionRecordCache.activeSessionsCount", 1.0, "Sessions in memory."),
    ("arbor_transactions_open", Gauge, "transactions.currentOpen", 1.0, "Open transactions of several statements."),
    ("arbor_transactions_started", Counter, "transactions.totalStarted", 1.0, "Transactions that began."),
    ("arbor_transactions_committed", Counter, "transactions.totalCommitted", 1.0, "Transactions that were committed."),
    ("arbor_transactions_aborted", Counter, "transactions.totalAborted", 1.0, "Transactions that were aborted."),
    ("arbor_ttl_deleted_documents", Counter, "metrics.ttl.deletedDocuments", 1.0, "Documents that expired."),
    ("arbor_ttl_passes", Counter, "metrics.ttl.passes", 1.0, "Passes of the monitor that deletes expired documents."),
    ("arbor_index_builds", Counter, "indexBuilds.total", 1.0, "Index builds that began."),
    ("arbor_index_builds_failed", Counter, "indexBuilds.failed", 1.0, "Index builds that failed."),
    ("arbor_log_records", Counter, "arborLog.records", 1.0, "Records written to the log."),
    ("arbor_log_written_bytes", Counter, "arborLog.bytes", 1.0, "Bytes written to the log."),
    ("arbor_log_groups", Counter, "arborLog.groups", 1.0, "Writes to the log, each of a group of records."),
    ("arbor_log_fsyncs", Counter, "arborLog.fsyncs", 1.0, "Fsyncs of the log."),
    ("arbor_log_fsync_seconds", Counter, "arborLog.fsyncMicros", MICROS, "Time spent in fsyncs of the log."),
    ("arbor_log_fsync_longest_seconds", Gauge, "arborLog.fsyncMicrosMax", MICROS, "Longest fsync of the log since the start."),
    ("arbor_log_disk_bytes", Gauge, "arborLog.diskBytes", 1.0, "Size of the log."),
    ("arbor_log_segments", Gauge, "arborLog.segments", 1.0, "Files of the log."),
    ("arbor_log_appended_position", Gauge, "arborLog.appended", 1.0, "Position of the last record."),
    ("arbor_log_durable_position", Gauge, "arborLog.durable", 1.0, "Position up to which the log is on disk."),
    ("arbor_oplog_segments_removed", Counter, "oplogTruncation.truncateCount", 1.0, "Files of the log that were removed for their age or size."),
    ("arbor_checkpoints", Counter, "engine.checkpoint.count", 1.0, "Checkpoints."),
    ("arbor_checkpoint_seconds", Counter, "engine.checkpoint.totalMillis", MILLIS, "Time spent in checkpoints."),
    ("arbor_checkpoint_last_seconds", Gauge, "engine.checkpoint.lastMillis", MILLIS, "Duration of the last checkpoint."),
    ("arbor_checkpoint_last_position", Gauge, "engine.checkpoint.lastPosition", 1.0, "Log position of the last checkpoint."),
    ("arbor_data_disk_bytes", Gauge, "engine.diskBytes", 1.0, "Size of the files of all engines."),
    ("arbor_data_free_bytes", Gauge, "engine.freeBytes", 1.0, "Space in these files that can be used again."),
    ("arbor_cache_bytes", Gauge, "engine.cacheBytes", 1.0, "Memory of the caches."),
    ("arbor_resident_memory_bytes", Gauge, "mem.resident", MIB, "Resident memory of the process."),
    ("arbor_memory_limit_bytes", Gauge, "memoryBudget.limitBytes", 1.0, "Memory limit of the process."),
    ("arbor_memory_free_bytes", Gauge, "memoryBudget.freeBytes", 1.0, "Memory that may still be reserved."),
    ("arbor_memory_caches_bytes_limit", Gauge, "memoryBudget.cachesBytesMax", 1.0, "Memory that the caches may have now."),
    ("arbor_memory_apart_bytes", Gauge, "memoryBudget.apartBytes", 1.0, "Memory outside of all accounts."),
    ("arbor_memory_refusals", Counter, "memoryBudget.refused", 1.0, "Requests that were refused for lack of memory."),
    ("arbor_set_term", Gauge, "set.term", 1.0, "Term of the primary that this member knows."),
    ("arbor_set_state", Gauge, "set.myState", 1.0, "State of this member: 1 primary, 2 secondary, others as in replSetGetStatus."),
    ("arbor_statistics_missing", Gauge, "missing", 1.0, "Sections of the statistics that could not be read."),
];

/// Name, kind, place of a document whose fields are the samples, label, help.
#[rustfmt::skip]
static BY_FIELD: &[(&str, Kind, &str, &str, &str)] = &[
    ("arbor_operations", Counter, "opcounters", "kind", "Operations by kind: inserted documents, statements of updates and deletes, commands."),
    ("arbor_documents", Counter, "metrics.document", "outcome", "Documents that statements deleted, inserted, returned and updated."),
    ("arbor_memory_reserved_bytes", Gauge, "memoryBudget.reservedBytes", "owner", "Reserved memory by owner."),
];

type Sample<'s> = (Vec<(&'static str, &'s str)>, f64);

/// Buckets of the histograms, as powers of two in microseconds: 16 us to 34 s.
const BUCKET_POWERS: std::ops::RangeInclusive<u32> = 4..=25;

/// Writes all metrics. Collections beyond the most used `collections_max` are only counted.
pub fn render(statistics: Doc<'_>, format: Format, collections_max: usize) -> String {
    let mut text = Text { out: String::new(), format };
    for (name, kind, place, unit, help) in SINGLE {
        let value = find(statistics, place).and_then(number).map(|value| (Vec::new(), value * unit));
        text.family(name, *kind, help, value);
    }
    for (name, kind, place, label, help) in BY_FIELD {
        let samples = numbers(document(statistics, place)).map(|(field, value)| (vec![(*label, field)], value));
        text.family(name, *kind, help, samples);
    }
    flags(&mut text, statistics);
    commands(&mut text, statistics);
    latencies(&mut text, statistics);
    engines(&mut text, statistics);
    members(&mut text, statistics);
    collections(&mut text, statistics, collections_max);
    if format == Format::OpenMetrics {
        text.out.push_str("# EOF\n");
    }
    text.out
}

/// Failures of the storage: zero or one.
fn flags(text: &mut Text, statistics: Doc<'_>) {
    let Some(engine) = document(statistics, "engine") else { return };
    let flag = |place| [(Vec::new(), f64::from(u8::from(find(engine, place).is_some())))];
    text.family("arbor_poisoned", Gauge, "1: writes are refused until a restart.", flag("poisoned"));
    text.family("arbor_checkpoint_failed", Gauge, "1: the last checkpoint failed.", flag("checkpoint.error"));
}

fn commands(text: &mut Text, statistics: Doc<'_>) {
    let commands = || fields(document(statistics, "metrics.commands"));
    let count = |field: &'static str| {
        let count = move |(name, value)| match value {
            ValueRef::Document(counts) => {
                Some((vec![("command", name)], counts.get(field).and_then(number).filter(|n| *n > 0.0)?))
            }
            _ => None,
        };
        commands().filter_map(count).collect::<Vec<Sample<'_>>>()
    };
    text.family("arbor_commands", Counter, "Commands that ended, by name.", count("total"));
    text.family("arbor_command_failures", Counter, "Commands that ended with an error, by name.", count("failed"));
}

fn latencies(text: &mut Text, statistics: Doc<'_>) {
    let name = "arbor_operation_latency_seconds";
    let Some(classes) = document(statistics, "opLatencies") else { return };
    text.head(name, Histogram, "Latency of reads, writes and other commands.");
    for class in ["reads", "writes", "commands"] {
        let Some(own) = document(classes, class) else { continue };
        let rows = histogram(own);
        let label = [("class", class)];
        for power in BUCKET_POWERS {
            let below = 1i64 << power;
            let count: f64 = rows.iter().filter(|(micros, _)| *micros < below as f64).map(|(_, count)| count).sum();
            let bound = (below as f64 * MICROS).to_string();
            text.sample(name, "_bucket", &[("class", class), ("le", &bound)], count);
        }
        // From the same rows as the buckets, which are read one after the other.
        let count = rows.iter().map(|(_, count)| count).sum();
        text.sample(name, "_bucket", &[("class", class), ("le", "+Inf")], count);
        text.sample(name, "_sum", &label, own.get("latency").and_then(number).unwrap_or_default() * MICROS);
        text.sample(name, "_count", &label, count);
    }
}

/// Lower bounds in microseconds, and counts.
fn histogram(latency: Doc<'_>) -> Vec<(f64, f64)> {
    let Some(ValueRef::Array(rows)) = latency.get("histogram") else { return Vec::new() };
    let row = |value| match value {
        ValueRef::Document(row) => Some((number(row.get("micros")?)?, number(row.get("count")?)?)),
        _ => None,
    };
    (0..).map_while(|index| rows.get(index)).filter_map(row).collect()
}

fn engines(text: &mut Text, statistics: Doc<'_>) {
    let members: Vec<(&str, Doc<'_>)> = documents(document(statistics, "storageEngines")).collect();
    let of = |field: &'static str| {
        let sample = move |(name, member): &(_, Doc<'_>)| Some((vec![("engine", *name)], number(member.get(field)?)?));
        members.iter().filter_map(sample).collect::<Vec<Sample<'_>>>()
    };
    let available = members.iter().map(|(name, member)| {
        let unavailable = matches!(member.get("state"), Some(ValueRef::String("unavailable")));
        (vec![("engine", *name)], f64::from(u8::from(!unavailable)))
    });
    text.family(
        "arbor_engine_available",
        Gauge,
        "0: the engine does not open, and its collections are missed.",
        available,
    );
    text.family("arbor_engine_applied_position", Gauge, "Last log position in the engine.", of("applied"));
    text.family("arbor_engine_durable_position", Gauge, "Last log position in the engine's files.", of("durable"));
    let mut counters = Vec::new();
    for (engine, _) in &members {
        for (name, value) in fields(document(statistics, engine)) {
            match value {
                ValueRef::Document(group) => {
                    let own = numbers(Some(group));
                    counters
                        .extend(own.map(|(field, n)| (vec![("engine", *engine), ("group", name), ("name", field)], n)));
                }
                value => counters.extend(number(value).map(|n| (vec![("engine", *engine), ("name", name)], n))),
            }
        }
    }
    text.family("arbor_engine_statistic", Unknown, "Statistics that an engine counts under its own names.", counters);
}

/// Members of the set as this one sees them.
fn members(text: &mut Text, statistics: Doc<'_>) {
    let Some(ValueRef::Array(members)) = find(statistics, "set.members") else { return };
    let members: Vec<(&str, Doc<'_>)> = (0..)
        .map_while(|index| members.get(index))
        .filter_map(|member| match member {
            ValueRef::Document(member) => match member.get("name")? {
                ValueRef::String(name) => Some((name, member)),
                _ => None,
            },
            _ => None,
        })
        .collect();
    let of = |field: &'static str| {
        let sample = move |(name, member): &(_, Doc<'_>)| Some((vec![("member", *name)], number(member.get(field)?)?));
        members.iter().filter_map(sample).collect::<Vec<Sample<'_>>>()
    };
    let own = find(statistics, "set.arbor.inSync").map(names).unwrap_or_default();
    let in_sync = members.iter().map(|(name, _)| (vec![("member", *name)], f64::from(u8::from(own.contains(name)))));
    text.family("arbor_set_member_up", Gauge, "1: the member replies.", of("health"));
    text.family("arbor_set_member_state", Gauge, "State of the member, as in replSetGetStatus.", of("state"));
    text.family("arbor_set_member_in_sync", Gauge, "1: what is committed is on the member's disk.", in_sync);
    let is_primary = |member: &Doc<'_>| member.get("state").and_then(number) == Some(1.0);
    let written = |member: &Doc<'_>| member.get("optimeDate").and_then(number);
    let Some(newest) = members.iter().map(|(_, member)| member).find(|member| is_primary(member)).and_then(written)
    else {
        return;
    };
    let lag = |(name, member): &(_, Doc<'_>)| {
        written(member).filter(|at| *at > 0.0).map(|at| (vec![("member", *name)], (newest - at).max(0.0)))
    };
    text.family(
        "arbor_set_member_lag_seconds",
        Gauge,
        "Time that the member is behind the primary.",
        members.iter().filter_map(lag),
    );
}

fn names(value: ValueRef<'_>) -> Vec<&str> {
    let ValueRef::Array(values) = value else { return Vec::new() };
    let name = |value| match value {
        ValueRef::String(name) => Some(name),
        _ => None,
    };
    (0..).map_while(|index| values.get(index)).filter_map(name).collect()
}

fn collections(text: &mut Text, statistics: Doc<'_>, most: usize) {
    let spent = |usage: Doc<'_>, kind, field| document(usage, kind).and_then(|spent| number(spent.get(field)?));
    let mut used: Vec<(&str, Doc<'_>)> = documents(document(statistics, "collections")).collect();
    // The first of equally used ones stay the same from one scrape to the next.
    let count = |usage| spent(usage, "total", "count").unwrap_or_default();
    used.sort_by(|(name, one), (other_name, other)| count(*other).total_cmp(&count(*one)).then(name.cmp(other_name)));
    let hidden = used.len().saturating_sub(most);
    used.truncate(most);
    used.sort_by_key(|(name, _)| *name);
    let of = |field: &'static str, unit: f64| {
        let mut samples: Vec<Sample<'_>> = Vec::new();
        for (name, usage) in &used {
            for kind in ["queries", "getmore", "insert", "update", "remove", "commands"] {
                let value = spent(*usage, kind, field).filter(|value| *value > 0.0);
                samples.extend(value.map(|value| (vec![("collection", *name), ("kind", kind)], value * unit)));
            }
        }
        samples
    };
    text.family("arbor_collection_operations", Counter, "Operations on a collection.", of("count", 1.0));
    text.family(
        "arbor_collection_operation_seconds",
        Counter,
        "Time of operations on a collection.",
        of("time", MICROS),
    );
    let help = "Collections without metrics of their own: others are used more.";
    text.family("arbor_collections_hidden", Gauge, help, [(Vec::new(), hidden as f64)]);
}

struct Text {
    out: String,
    format: Format,
}

impl Text {
    /// Writes a family, if it has samples.
    fn family<'s>(&mut self, name: &str, kind: Kind, help: &str, samples: impl IntoIterator<Item = Sample<'s>>) {
        let mut samples = samples.into_iter().peekable();
        if samples.peek().is_none() {
            return;
        }
        self.head(name, kind, help);
        let suffix = if kind == Counter { "_total" } else { "" };
        samples.for_each(|(labels, value)| self.sample(name, suffix, &labels, value));
    }

    fn head(&mut self, name: &str, kind: Kind, help: &str) {
        // The older format knows a counter by the name of its sample.
        let suffix = if kind == Counter && self.format == Format::Prometheus { "_total" } else { "" };
        let kind = match (kind, self.format) {
            (Counter, _) => "counter",
            (Gauge, _) => "gauge",
            (Histogram, _) => "histogram",
            (Unknown, Format::OpenMetrics) => "unknown",
            (Unknown, Format::Prometheus) => "untyped",
        };
        let _ = write!(self.out, "# HELP {name}{suffix} {help}\n# TYPE {name}{suffix} {kind}\n");
    }

    fn sample(&mut self, name: &str, suffix: &str, labels: &[(&str, &str)], value: f64) {
        let _ = write!(self.out, "{name}{suffix}");
        for (index, (label, text)) in labels.iter().enumerate() {
            let text = text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            let _ = write!(self.out, "{}{label}=\"{text}\"", if index == 0 { '{' } else { ',' });
        }
        let _ = writeln!(self.out, "{} {value}", if labels.is_empty() { "" } else { "}" });
    }
}

fn find<'d>(doc: Doc<'d>, place: &str) -> Option<ValueRef<'d>> {
    match place.split_once('.') {
        None => doc.get(place),
        Some((first, rest)) => match doc.get(first)? {
            ValueRef::Document(inner) => find(inner, rest),
            _ => None,
        },
    }
}

fn document<'d>(doc: Doc<'d>, place: &str) -> Option<Doc<'d>> {
    match find(doc, place)? {
        ValueRef::Document(inner) => Some(inner),
        _ => None,
    }
}

fn fields<'d>(doc: Option<Doc<'d>>) -> impl Iterator<Item = (&'d str, ValueRef<'d>)> {
    doc.into_iter().flat_map(|doc| doc.iter())
}

fn documents<'d>(doc: Option<Doc<'d>>) -> impl Iterator<Item = (&'d str, Doc<'d>)> {
    fields(doc).filter_map(|(name, value)| match value {
        ValueRef::Document(inner) => Some((name, inner)),
        _ => None,
    })
}

fn numbers<'d>(doc: Option<Doc<'d>>) -> impl Iterator<Item = (&'d str, f64)> {
    fields(doc).filter_map(|(name, value)| Some((name, number(value)?)))
}

fn number(value: ValueRef<'_>) -> Option<f64> {
    Some(match value {
        ValueRef::Int32(n) => f64::from(n),
        ValueRef::Int64(n) => n as f64,
        ValueRef::Double(n) => n,
        ValueRef::Bool(is) => f64::from(u8::from(is)),
        ValueRef::DateTime(millis) => millis as f64 * MILLIS,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use arbor_bson::{ArrayBuf, DocBuf};

    use super::*;

    fn text(statistics: &DocBuf) -> String {
        render(statistics.as_doc(), Format::Prometheus, 2)
    }

    #[test]
    fn buckets_are_cumulative_and_end_with_all() {
        let row = |micros: i64, count: i64| DocBuf::new().with("micros", micros).with("count", count);
        let rows: ArrayBuf = [row(1, 3), row(16, 2), row(1 << 30, 1)].iter().collect();
        let reads = DocBuf::new().with("histogram", &rows).with("latency", 5_000_000i64).with("ops", 6i64);
        let text = text(&DocBuf::new().with("opLatencies", &DocBuf::new().with("reads", &reads)));
        for line in [
            "_bucket{class=\"reads\",le=\"0.000016\"} 3",
            "_bucket{class=\"reads\",le=\"0.000032\"} 5",
            "_bucket{class=\"reads\",le=\"33.554432\"} 5",
            "_bucket{class=\"reads\",le=\"+Inf\"} 6",
            "_sum{class=\"reads\"} 5",
            "_count{class=\"reads\"} 6",
        ] {
            assert!(text.lines().any(|own| own == format!("arbor_operation_latency_seconds{line}")), "{line}\n{text}");
        }
    }

    #[test]
    fn only_the_most_used_collections_are_shown() {
        let usage = |count: i64| {
            let spent = DocBuf::new().with("time", 2_000_000i64).with("count", count);
            DocBuf::new().with("total", &spent).with("insert", &spent)
        };
        let names = DocBuf::new().with("note", "text").with("d.rare", &usage(1)).with("d.b\"", &usage(9));
        let text = text(&DocBuf::new().with("collections", &names.with("d.a", &usage(5))));
        assert!(
            text.contains("arbor_collection_operations_total{collection=\"d.b\\\"\",kind=\"insert\"} 9\n"),
            "{text}"
        );
        assert!(text.contains("arbor_collection_operation_seconds_total{collection=\"d.a\",kind=\"insert\"} 2\n"));
        assert!(text.contains("arbor_collections_hidden 1\n") && !text.contains("d.rare"), "{text}");
    }

    #[test]
    fn the_lag_is_counted_from_the_primary() {
        let member = |name: &str, state: i32, seconds: i64| {
            let date = ValueRef::DateTime(seconds * 1000);
            DocBuf::new().with("name", name).with("state", state).with("health", 1.0).with("optimeDate", date)
        };
        let members: ArrayBuf = [member("a:1", 1, 100), member("b:1", 2, 93), member("c:1", 2, 101)].iter().collect();
        let in_sync: ArrayBuf = ["a:1", "b:1"].into_iter().collect();
        let arbor = DocBuf::new().with("inSync", &in_sync);
        let text = text(
            &DocBuf::new()
                .with("set", &DocBuf::new().with("members", &members).with("term", 4i64).with("arbor", &arbor)),
        );
        for (name, lag) in [("a:1", 0), ("b:1", 7), ("c:1", 0)] {
            assert!(text.contains(&format!("arbor_set_member_lag_seconds{{member=\"{name}\"}} {lag}\n")), "{text}");
        }
        for (name, is) in [("a:1", 1), ("b:1", 1), ("c:1", 0)] {
            assert!(text.contains(&format!("arbor_set_member_in_sync{{member=\"{name}\"}} {is}\n")), "{text}");
        }
        assert!(text.contains("\narbor_set_term 4\n") && text.contains("arbor_set_member_up{member=\"b:1\"} 1\n"));
    }

    #[test]
    fn engines_that_do_not_open_are_shown() {
        let engines = DocBuf::new()
            .with("ftree", &DocBuf::new().with("state", "open").with("applied", 5i64).with("durable", 4i64))
            .with("lmdb", &DocBuf::new().with("state", "unavailable").with("reason", "damaged"));
        let own = DocBuf::new().with("flushes", 3i64).with("cache", &DocBuf::new().with("hits", 2i64));
        let statistics = DocBuf::new().with("storageEngines", &engines).with("ftree", &own);
        let text = render(statistics.as_doc(), Format::OpenMetrics, 2);
        assert!(text.contains("arbor_engine_available{engine=\"lmdb\"} 0\n"), "{text}");
        assert!(text.contains("arbor_engine_applied_position{engine=\"ftree\"} 5\n"), "{text}");
        assert!(text.contains("arbor_engine_statistic{engine=\"ftree\",name=\"flushes\"} 3\n"), "{text}");
        assert!(text.contains("arbor_engine_statistic{engine=\"ftree\",group=\"cache\",name=\"hits\"} 2\n"), "{text}");
        assert!(text.contains("# TYPE arbor_engine_statistic unknown\n"));
    }
}
