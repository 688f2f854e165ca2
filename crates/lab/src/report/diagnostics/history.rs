//! Series of a flight recorder: one value per sample and name. Of the thousand numbers of a sample only those are kept that the page is
//! about, so that a week fits into memory.

use std::collections::BTreeMap;
use std::path::Path;

use arbor_bson::{Doc, ValueRef};
use arbor_metrics::flight::{Chunk, Record, read};

/// Names that are kept; a star is any text.
const KEPT: &[&str] = &[
    "serverStatus.uptimeMillis",
    "serverStatus.opcounters.*",
    "serverStatus.opLatencies.*.latency",
    "serverStatus.opLatencies.*.ops",
    "serverStatus.connections.current",
    "serverStatus.connections.active",
    "serverStatus.network.*",
    "serverStatus.arborLog.bytes",
    "serverStatus.arborLog.diskBytes",
    "serverStatus.arborLog.fsyncs",
    "serverStatus.arborLog.fsyncMicros",
    "serverStatus.engine.diskBytes",
    "serverStatus.engine.freeBytes",
    "serverStatus.engine.cacheBytes",
    "serverStatus.engine.checkpoint.*",
    "serverStatus.mem.resident",
    "serverStatus.memoryBudget.refused",
    "serverStatus.memoryBudget.freeBytes",
    "serverStatus.ftree.leaf block hits",
    "serverStatus.ftree.leaf block misses",
    "serverStatus.ftree.body hits",
    "serverStatus.ftree.body misses",
    "serverStatus.ftree.bytes read for *",
    "serverStatus.ftree.pacing sleep us",
    "serverStatus.metrics.operation.writeConflicts",
    "serverStatus.metrics.queryExecutor.collectionScans.total",
    "serverStatus.extra_info.user_time_us",
    "serverStatus.extra_info.system_time_us",
    "serverStatus.extra_info.page_faults",
    "systemMetrics.cpu.*",
    "systemMetrics.memory.MemAvailable_kb",
    "systemMetrics.memory.SwapFree_kb",
    "replSetGetStatus.myState",
    "replSetGetStatus.members.*.lastAppliedWallTime",
    "slowShapes.*",
];
/// A member, or a shape: names that come and go. More are not kept.
const SERIES_MAX: usize = 1000;
/// No process starts twice within it.
const SAME_START_MS: u64 = 1000;

/// A shape of slow operations, over all samples.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Shape {
    pub namespace: String,
    pub text: String,
    pub plan: String,
    pub count: i64,
    pub micros: i64,
    pub micros_max: i64,
    pub keys_examined: i64,
    pub documents_examined: i64,
    pub returned: i64,
}

#[derive(Debug, Default)]
pub(crate) struct History {
    /// Milliseconds since 1970 of each sample.
    pub times: Vec<i64>,
    series: BTreeMap<String, Vec<f64>>,
    /// Names of the members of the set by their places in `replSetGetStatus`.
    pub members: BTreeMap<usize, String>,
    /// By the time at which their process started and their id there.
    shapes: BTreeMap<(i64, String), Shape>,
    /// `version`, `host` and the like.
    pub facts: Vec<(&'static str, String)>,
}

impl History {
    pub(crate) fn read(directory: &Path) -> std::io::Result<History> {
        let mut history = History::default();
        read(directory, &mut |record| match record {
            Record::About(about) => history.facts = facts(about),
            Record::Chunk(chunk) => history.add(&chunk),
        })?;
        Ok(history)
    }

    pub(crate) fn len(&self) -> usize {
        self.times.len()
    }

    /// Returns a series, with NaN where a sample did not have it; empty if none has.
    pub(crate) fn series(&self, name: &str) -> &[f64] {
        self.series.get(name).map_or(&[], Vec::as_slice)
    }

    /// Returns the names between `prefix` and `suffix`.
    pub(crate) fn between<'h>(&'h self, prefix: &'h str, suffix: &'h str) -> impl Iterator<Item = &'h str> + 'h {
        self.series.keys().filter_map(move |name| name.strip_prefix(prefix)?.strip_suffix(suffix))
    }

    /// Returns the shapes of slow operations, the most expensive first.
    pub(crate) fn shapes(&self) -> Vec<Shape> {
        let mut merged: BTreeMap<(String, String), Shape> = BTreeMap::new();
        for shape in self.shapes.values() {
            let sum = merged.entry((shape.namespace.clone(), shape.text.clone())).or_default();
            let earlier = std::mem::take(sum);
            *sum = Shape {
                count: earlier.count + shape.count,
                micros: earlier.micros + shape.micros,
                micros_max: earlier.micros_max.max(shape.micros_max),
                keys_examined: earlier.keys_examined + shape.keys_examined,
                documents_examined: earlier.documents_examined + shape.documents_examined,
                returned: earlier.returned + shape.returned,
                ..shape.clone()
            };
        }
        let mut shapes: Vec<Shape> = merged.into_values().collect();
        shapes.sort_by_key(|shape| std::cmp::Reverse(shape.micros));
        shapes
    }

    fn add(&mut self, chunk: &Chunk) {
        let names = chunk.names();
        let Some(start) = names.iter().position(|name| name == "start") else { return };
        let begun = self.times.len();
        self.times.extend(chunk.series(start));
        let mut last = BTreeMap::new();
        for (at, name) in names.iter().enumerate().filter(|(_, name)| is_kept(name)) {
            if let Some(of_shape) = name.strip_prefix("slowShapes.") {
                last.insert(of_shape.to_owned(), chunk.series(at).last().unwrap_or(0));
                continue;
            }
            if !self.series.contains_key(name) && self.series.len() >= SERIES_MAX {
                continue;
            }
            let series = self.series.entry(name.clone()).or_default();
            series.resize(begun, f64::NAN);
            series.extend(chunk.series(at).map(|number| number as f64));
        }
        for series in self.series.values_mut() {
            series.resize(self.times.len(), f64::NAN);
        }
        self.add_texts(chunk, &last);
    }

    /// Adds what only the first sample of a chunk says; `last` are the last numbers of its shapes.
    fn add_texts(&mut self, chunk: &Chunk, last: &BTreeMap<String, i64>) {
        let document = |doc: Doc<'_>, name: &str| match doc.get(name) {
            Some(ValueRef::Document(inner)) => Some(inner.to_buf()),
            _ => None,
        };
        let text = |doc: Doc<'_>, name: &str| match doc.get(name) {
            Some(ValueRef::String(text)) => text.to_owned(),
            _ => String::new(),
        };
        if let Some(status) = document(chunk.first(), "replSetGetStatus")
            && let Some(ValueRef::Array(members)) = status.get("members")
        {
            for (at, member) in members.iter().enumerate() {
                if let ValueRef::Document(member) = member {
                    self.members.insert(at, text(member, "name"));
                }
            }
        }
        let uptime = self.series("serverStatus.uptimeMillis").last().copied().unwrap_or(0.0);
        let begun = self.times.last().copied().unwrap_or(0) - uptime as i64;
        for (id, value) in document(chunk.first(), "slowShapes").iter().flat_map(|shapes| shapes.as_doc().iter()) {
            let ValueRef::Document(shape) = value else { continue };
            let number = |name: &str| last.get(&format!("{id}.{name}")).copied().unwrap_or(0);
            let shape = Shape {
                namespace: text(shape, "ns"),
                text: text(shape, "shape"),
                plan: text(shape, "plan"),
                count: number("count"),
                micros: number("micros"),
                micros_max: number("microsMax"),
                keys_examined: number("keysExamined"),
                documents_examined: number("docsExamined"),
                returned: number("returned"),
            };
            // one process has one start, which the samples say to a few milliseconds
            let same = self.shapes.keys().find(|(other, known)| known == id && other.abs_diff(begun) < SAME_START_MS);
            let begun = same.map_or(begun, |(other, _)| *other);
            self.shapes.insert((begun, id.to_owned()), shape);
        }
    }
}

fn is_kept(name: &str) -> bool {
    KEPT.iter().any(|kept| match kept.split_once('*') {
        Some((before, after)) => {
            name.len() >= before.len() + after.len() && name.starts_with(before) && name.ends_with(after)
        }
        None => name == *kept,
    })
}

fn facts(about: Doc<'_>) -> Vec<(&'static str, String)> {
    let at = |path: &str| {
        let mut value = ValueRef::Document(about);
        for name in path.split('.') {
            let ValueRef::Document(doc) = value else { return None };
            value = doc.get(name)?;
        }
        Some(match value {
            ValueRef::String(text) => text.to_owned(),
            ValueRef::Int32(number) => number.to_string(),
            ValueRef::Int64(number) => number.to_string(),
            other => other.to_string(),
        })
    };
    let rows = [
        ("version", "version"),
        ("host", "hostInfo.system.hostname"),
        ("processors", "hostInfo.system.numCores"),
        ("memory, MB", "hostInfo.system.memSizeMB"),
        ("system", "hostInfo.os.name"),
        ("options", "parsed"),
    ];
    rows.into_iter().filter_map(|(name, path)| Some((name, at(path)?))).collect()
}
