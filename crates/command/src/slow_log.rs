//! An operation that ended, in MongoDB's layouts: as a line of the slow query log, and as a document of the profiler.

use std::time::Duration;

use arbor_base::work;
use arbor_bson::{ArrayBuf, Code, Doc, DocBuf, ValueRef};
use arbor_lang::Collation;
use arbor_protocol::CommandInfo;
use arbor_protocol::log::{events, now_ms};
use arbor_protocol::metrics::{Class, Kind};
use arbor_protocol::operation::{append_work, storage};
use arbor_query::{QueryShape, ShapeHash, summary};
use arbor_store::Namespace;
use arbor_wire::Form;

use crate::call::Plan;
use crate::cmd::crud::query_stats::placeholder;
use crate::incoming::{Incoming, kind_name};
use crate::profiler::Verdict;
use crate::query_statistics::Execution;
use crate::slow_shapes::SlowOperation;
use crate::{Commands, Connection, Error, thread_cpu, usage};

/// An operation that ended.
pub(crate) struct Ended<'e> {
    pub info: &'static CommandInfo,
    pub request: &'e Incoming<'e>,
    pub took: Duration,
    pub plan: &'e Plan,
    pub reply: &'e DocBuf,
    pub error: Option<&'e Error>,
    /// CPU time of the thread at the beginning ([`thread_cpu`]).
    pub cpu_begun: u64,
}

impl Commands {
    /// Counts an operation, and logs or records it if that is asked for.
    pub(crate) fn note_ended(&self, connection: &Connection, ended: &Ended<'_>) {
        self.metrics.work.add(&work::done());
        if ended.error.is_some_and(|error| error.code == Code::MAX_TIME_MS_EXPIRED) {
            self.metrics.timed_out.add(1);
        }
        self.note_statistics(connection, ended);
        let shown = || ended.profile(connection);
        let db = ended.request.db;
        let took_ms = if ended.info.is_waiting() { 0 } else { ended.took.as_millis() };
        let Verdict { logged, recorded } = self.profiler.judge(db, took_ms, shown);
        if logged {
            self.slow_shapes.add(SlowOperation {
                namespace: ended.namespace(),
                statement: ended.statement().as_doc(),
                plan: summary::line(),
                took: ended.took,
                work: &work::done(),
                returned: ended.plan.returned.unwrap_or(0),
            });
            self.log.info(events::SLOW_QUERY, &connection.name, ended.log_attributes(connection));
        }
        if recorded {
            self.record(db, &ended.profile(connection));
        }
        summary::end();
    }
}

impl Commands {
    /// Adds the statement to the statistics that `$queryStats` shows.
    fn note_statistics(&self, connection: &Connection, ended: &Ended<'_>) {
        let is_later = ended.info.kind == Kind::GetMore && self.query_statistics.has_cursors();
        if ended.plan.shape.is_none() && !is_later {
            return;
        }
        let execution = || Execution {
            took: ended.took,
            first: ended.took,
            cpu_nanos: thread_cpu::nanos().saturating_sub(ended.cpu_begun),
            returned: ended.plan.returned.unwrap_or(0),
            work: work::done(),
        };
        let left = ended.plan.cursor_id;
        match (&ended.plan.shape, ended.request.body.first()) {
            (Some(shape), _) if ended.error.is_none() => {
                let key = self.statistics_key(connection, ended, shape);
                self.query_statistics.add(key, QueryShape::of(shape), execution(), left);
            }
            (None, Some((_, ValueRef::Int64(cursor)))) => {
                self.query_statistics.add_batch(cursor, &execution(), left == 0);
            }
            _ => {}
        }
    }

    /// Returns the shape with what else sets statements apart: the client, the kind of collection, options.
    fn statistics_key(&self, connection: &Connection, ended: &Ended<'_>, shape: &DocBuf) -> DocBuf {
        let mut key = DocBuf::new().with("queryShape", shape);
        if let Some(client) = connection.slot.client() {
            key.append("client", &client);
        }
        let store = &self.database.store;
        let namespace = usage::collection_of(ended.request.body).map(|name| Namespace::new(ended.request.db, name));
        let kind = match namespace {
            Some(Ok(namespace)) if store.buckets_of(&namespace).is_some() => "timeseries",
            Some(Ok(namespace)) if store.view(&namespace).is_some() => "view",
            Some(Ok(namespace)) if store.collection(&namespace).is_some() => "collection",
            Some(_) => "nonExistent",
            None => "virtual",
        };
        key.append("collectionType", kind);
        for (name, value) in ended.request.body {
            match (name, value) {
                ("hint" | "$readPreference" | "apiVersion" | "apiStrict" | "apiDeprecationErrors", value) => {
                    key.append(name, value);
                }
                ("readConcern", ValueRef::Document(concern)) => {
                    let level = concern.iter().filter(|(name, _)| *name == "level").collect::<DocBuf>();
                    key.append(name, &level);
                }
                ("maxTimeMS" | "comment" | "batchSize" | "allowDiskUse", value) => {
                    key.append(name, &placeholder(value));
                }
                _ => {}
            }
        }
        key
    }
}

impl Ended<'_> {
    fn namespace(&self) -> String {
        let collection = usage::collection_of(self.request.body).unwrap_or("$cmd");
        format!("{}.{collection}", self.request.db)
    }

    /// MongoDB's name of the kind of operation.
    fn kind(&self) -> &'static str {
        kind_name(self.info.kind)
    }

    fn protocol(&self) -> &'static str {
        match self.request.reply_to.form {
            Form::Message { .. } => "op_msg",
            _ => "op_query",
        }
    }

    fn log_attributes(&self, connection: &Connection) -> DocBuf {
        let (kind, statement) = match self.one_statement() {
            Some(statement) => (self.kind(), shortened(statement)),
            None => ("command", shortened(self.request.body)),
        };
        let mut doc = DocBuf::new().with("type", kind).with("isFromUserConnection", true);
        doc.append("ns", &self.namespace());
        if let Some(name) = connection.slot.app_name() {
            doc.append("appName", &name);
        }
        doc.append("command", &statement);
        if let Some(line) = summary::line() {
            doc.append("planSummary", &line);
        }
        self.append_work(&mut doc);
        doc.append("reslen", self.reply.as_bytes().len() as i32);
        self.append_costs(&mut doc);
        doc.append("remote", &connection.peer.client());
        let took_ms = self.took.as_millis() as i64;
        doc.append("protocol", self.protocol()).append("workingMillis", took_ms).append("durationMillis", took_ms);
        doc
    }

    /// The document for `system.profile`.
    fn profile(&self, connection: &Connection) -> DocBuf {
        let mut doc = DocBuf::new().with("op", self.kind()).with("ns", &self.namespace());
        doc.append("command", &self.statement());
        if self.info.kind == Kind::GetMore {
            let about = usage::collection_of(self.request.body).unwrap_or_default();
            doc.append("originatingCommand", &DocBuf::new().with("getMore", about));
        }
        self.append_work(&mut doc);
        self.append_costs(&mut doc);
        doc.append("responseLength", self.reply.as_bytes().len() as i32).append("protocol", self.protocol());
        doc.append("millis", self.took.as_millis().min(i32::MAX as u128) as i32);
        if let Some(line) = summary::line() {
            doc.append("planSummary", &line);
        }
        if let Some(stages) = summary::take_execution() {
            doc.append("execStats", &stages);
        }
        doc.append("ts", ValueRef::DateTime(now_ms())).append("client", &connection.peer.remote.ip().to_string());
        doc.append("appName", &connection.slot.app_name().unwrap_or_default());
        doc.with("allUsers", &ArrayBuf::new()).with("user", "")
    }

    /// Returns the command, or of a write of one statement that statement, as MongoDB records it.
    fn statement(&self) -> DocBuf {
        shortened(self.one_statement().unwrap_or(self.request.body))
    }

    /// Returns the statement of an `update` or `delete` that has just one.
    fn one_statement(&self) -> Option<Doc<'_>> {
        let list = match self.info.kind {
            Kind::Update => "updates",
            Kind::Delete => "deletes",
            _ => return None,
        };
        let sequence = self.request.sequences.iter().find(|sequence| sequence.name == list);
        let first_two: Vec<Doc<'_>> = match (sequence, self.request.body.get(list)) {
            (Some(sequence), _) => sequence.iter().take(2).collect(),
            (None, Some(ValueRef::Array(statements))) => {
                let documents = statements.iter().take(2).filter_map(|statement| match statement {
                    ValueRef::Document(statement) => Some(statement),
                    _ => None,
                });
                documents.collect()
            }
            _ => Vec::new(),
        };
        match first_two.as_slice() {
            [only] => Some(*only),
            _ => None,
        }
    }

    /// Appends what the operation examined, found and changed.
    fn append_work(&self, doc: &mut DocBuf) {
        let work = work::done();
        if self.plan.cursor_id != 0 {
            doc.append("cursorid", self.plan.cursor_id);
        }
        if self.info.class != Class::Command {
            append_work(doc, &work);
        }
        if let Some(returned) = self.plan.returned {
            let has_cursor = matches!(self.info.kind, Kind::Query | Kind::GetMore) || self.info.name == "aggregate";
            if self.plan.cursor_id == 0 && has_cursor {
                doc.append("cursorExhausted", true);
            }
            doc.append("nreturned", returned as i64);
        }
        let reply = self.reply.as_doc();
        let changes: &[(&str, &str)] = match self.info.kind {
            Kind::Insert => &[("n", "ninserted")],
            Kind::Update => &[("n", "nMatched"), ("nModified", "nModified")],
            Kind::Delete => &[("n", "ndeleted")],
            _ => &[],
        };
        for (of, name) in changes {
            if let Some(count) = reply.get(of).and_then(|count| count.as_number()).map(|count| count.to_f64() as i64) {
                doc.append(name, count);
            }
        }
        for (count, name) in [(work.keys_inserted, "keysInserted"), (work.keys_deleted, "keysDeleted")] {
            if count > 0 {
                doc.append(name, count as i64);
            }
        }
        if work.write_conflicts > 0 {
            doc.append("writeConflicts", work.write_conflicts as i64);
        }
        if let Some(error) = self.error {
            doc.append("errMsg", &error.message).append("errName", &*error.code.name());
            doc.append("errCode", error.code.0);
        }
        if let Some(shape) = self.shape() {
            doc.append("queryHash", &shape).append("planCacheShapeHash", &shape).append("queryFramework", "classic");
        }
        doc.append("numYields", 0i32);
    }

    /// Returns the hash under which the plan cache and `explain` list queries of the statement's shape. None: it has none, or several.
    fn shape(&self) -> Option<String> {
        let body = self.request.body;
        let shape = match self.info.name {
            "aggregate" if body.as_bytes().len() <= SHAPED_BYTES_MAX => summary::shape(),
            "find" => shape_of(body, "filter"),
            "count" | "distinct" | "findAndModify" | "findandmodify" => shape_of(body, "query"),
            "update" | "delete" => self.one_statement().and_then(|own| shape_of(own, "q")),
            _ => None,
        };
        shape.map(ShapeHash::text)
    }

    /// Appends what the operation took. There are no locks that it could have waited for.
    fn append_costs(&self, doc: &mut DocBuf) {
        let work = work::done();
        doc.append("locks", &DocBuf::new());
        doc.append("storage", &storage(&work));
        doc.append("cpuNanos", thread_cpu::nanos().saturating_sub(self.cpu_begun) as i64);
    }
}

/// The shape of a longer command is not made for the log: nothing ends that any more, and the statement took its time already.
const SHAPED_BYTES_MAX: usize = 64 << 10;

/// Returns the hash of a statement by its own fields; `filter`: the name of its filter.
fn shape_of<'b>(statement: Doc<'b>, filter: &str) -> Option<ShapeHash> {
    let document = |name: &str| -> Option<Doc<'b>> {
        match statement.get(name) {
            Some(ValueRef::Document(document)) => Some(document),
            _ => None,
        }
    };
    if statement.as_bytes().len() > SHAPED_BYTES_MAX {
        return None;
    }
    let collation = match document("collation").map(Collation::parse) {
        Some(Ok(collation)) => collation,
        _ => Collation::simple(),
    };
    let filter = document(filter).unwrap_or(Doc::empty());
    ShapeHash::of_find(filter, document("sort"), document("projection"), collation).ok()
}

/// The command for a log line: long arrays and strings would make it unreadable.
fn shortened(body: Doc<'_>) -> DocBuf {
    const SHOWN_BYTES_MAX: usize = 4096;
    if body.as_bytes().len() <= SHOWN_BYTES_MAX {
        return body.to_buf();
    }
    let mut doc = DocBuf::new();
    for (name, value) in body {
        if doc.as_bytes().len() > SHOWN_BYTES_MAX {
            return doc.with("$truncated", true);
        }
        let name = name.get(..name.floor_char_boundary(SHOWN_BYTES_MAX / 4)).unwrap_or_default();
        if value.content_bytes() <= SHOWN_BYTES_MAX / 4 {
            doc.append(name, value);
        } else {
            doc.append(name, "...");
        }
    }
    doc
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_of_a_command_is_bounded() {
        let fields = || (0..100_000).map(|n| (format!("a{n}"), n)).collect::<DocBuf>();
        let long = DocBuf::new().with("find", "c").with("filter", &fields()).with(&"n".repeat(1 << 20), 1);
        let shown = shortened(long.as_doc());
        assert!(matches!(shown.get("filter"), Some(ValueRef::String("..."))));
        assert!(shown.as_bytes().len() < 8192 && shape_of(long.as_doc(), "filter").is_none());
        let wide = shortened(fields().as_doc());
        assert!(wide.as_bytes().len() < 8192 && wide.get("$truncated").is_some());
        let short = DocBuf::new().with("find", "c").with("filter", &DocBuf::new().with("a", 1));
        assert_eq!(shortened(short.as_doc()).as_bytes(), short.as_bytes());
        assert!(shape_of(short.as_doc(), "filter").is_some());
    }
}
