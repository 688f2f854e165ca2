//! `bulkWrite` over several shards: its operations as inserts, updates and deletes of their collections.
//!
//! Neighbouring inserts into one collection go together. The others go one by one, since the reply says what each of them has done.

use std::sync::Arc;

use arbor_bson::{ArrayBuf, Doc, DocBuf, ValueRef};
use arbor_command::{Answer, Error, Result, Routed, RoutedCursor};
use arbor_query::Cursor;
use arbor_store::Namespace;

use crate::catalog::{Routing, version_entry};
use crate::dispatch::{VIEW_ATTEMPTS, is_view};
use crate::shard::Shard;
use crate::{ATTEMPTS, Request, fields, is_stale};

/// Fields of `bulkWrite` that are not those of a single statement.
const OWN_FIELDS: &[&str] =
    &["bulkWrite", "ops", "nsInfo", "ordered", "errorsOnly", "cursor", "let", "bypassDocumentValidation"];
/// Names of an operation's fields, and those of the statement.
const RENAMED: &[(&str, &str)] = &[("filter", "q"), ("updateMods", "u"), ("constants", "c")];

#[derive(Default)]
struct Results {
    documents: Vec<DocBuf>,
    errors_only: bool,
    errors: i64,
    inserted: i64,
    matched: i64,
    modified: i64,
    upserted: i64,
    deleted: i64,
    concern_error: Option<DocBuf>,
}

impl Results {
    fn push(&mut self, document: DocBuf) {
        if !self.errors_only {
            self.documents.push(document);
        }
    }

    /// Adds the entries of `writeErrors`; `first` is the place of the statements in `ops`. Returns their places.
    fn add_errors(&mut self, reply: Doc<'_>, first: usize) -> Vec<usize> {
        let mut failed = Vec::new();
        for value in fields::array(reply, "writeErrors").iter().flat_map(|all| all.iter()) {
            let ValueRef::Document(entry) = value else { continue };
            let at = first + usize::try_from(fields::int(entry, "index")).unwrap_or(0);
            let mut document = DocBuf::new().with("ok", 0.0).with("idx", at as i32);
            entry.iter().filter(|(name, _)| *name != "index").for_each(|(name, value)| {
                document.append(name, value);
            });
            self.documents.push(document.with("n", 0i32));
            self.errors += 1;
            failed.push(at);
        }
        if let Some(error) = fields::document(reply, "writeConcernError") {
            self.concern_error = Some(error.to_buf());
        }
        failed
    }

    /// Adds the reply to `count` statements of one kind, the first of which is at `first` in `ops`. Returns false if those behind them are not to run.
    fn add(&mut self, kind: &str, reply: Doc<'_>, first: usize, count: usize, ordered: bool) -> bool {
        let failed = self.add_errors(reply, first);
        // what is behind the first error of ordered statements was not tried
        let end = match failed.first() {
            Some(at) if ordered => *at,
            _ => first + count,
        };
        for at in (first..end).filter(|at| !failed.contains(at)) {
            let document = DocBuf::new().with("ok", 1.0).with("idx", at as i32);
            let n = fields::int(reply, "n");
            match kind {
                "insert" => {
                    self.inserted += 1;
                    self.push(document.with("n", 1i32));
                }
                "update" => {
                    let modified = fields::int(reply, "nModified");
                    let upserted = fields::array(reply, "upserted").and_then(|all| all.get(0));
                    self.matched += n - i64::from(upserted.is_some());
                    self.modified += modified;
                    self.upserted += i64::from(upserted.is_some());
                    let mut document = document.with("n", n as i32).with("nModified", modified as i32);
                    if let Some(ValueRef::Document(entry)) = upserted {
                        let id = entry.get("_id").unwrap_or(ValueRef::Null);
                        document.append("upserted", &DocBuf::new().with("_id", id));
                    }
                    self.push(document);
                }
                _ => {
                    self.deleted += n;
                    self.push(document.with("n", n as i32));
                }
            }
        }
        failed.is_empty() || !ordered
    }
}

impl Request<'_> {
    pub(crate) fn bulk_write(&self) -> Result<Answer> {
        let (ops, infos) = (self.documents_of("ops"), self.documents_of("nsInfo"));
        let namespaces = arbor_command::check_bulk_write(self.body(), &ops, &infos)?;
        let mut attempts = 0;
        while let Some((shard, routings)) = self.only_shard_of(&namespaces)? {
            let named = namespaces.iter().zip(&routings);
            let versions: Vec<DocBuf> =
                named.clone().filter_map(|(name, routing)| version_entry(name, routing)).collect();
            let body = fields::without(self.body(), &["shardVersions"])
                .with("shardVersions", &versions.iter().collect::<ArrayBuf>());
            let all = Routing::Unsharded(shard.clone(), None);
            match self.with_body(&body, |request| request.forward_to(&all, &shard)) {
                // nothing was done
                Err(error) if is_stale(&error) && attempts < ATTEMPTS => {
                    for (name, routing) in named.clone() {
                        self.catalog().forget_used(name.split('.').next().unwrap_or_default(), name, routing);
                    }
                    if let Some((name, routing)) = named.clone().next() {
                        let db = name.split('.').next().unwrap_or_default();
                        self.prepare_attempt((db, name), routing, &error, &mut attempts)?;
                    }
                }
                reply => return Ok(Answer::Reply(reply?)),
            }
        }
        let body = self.body();
        let ordered = body.get("ordered").is_none() || fields::is_true(body, "ordered");
        let mut results = Results { errors_only: fields::is_true(body, "errorsOnly"), ..Results::default() };
        let mut first = 0;
        while let Some((kind, at)) = ops.get(first).and_then(kind_of) {
            let same = |op: &&DocBuf| kind_of(op) == Some((kind, at));
            let rest = ops.iter().skip(first);
            let some: Vec<&DocBuf> =
                rest.take_while(same).take(if kind == "insert" { usize::MAX } else { 1 }).collect();
            let namespace = namespaces.get(at).ok_or_else(|| Error::bad_value("no such namespace"))?;
            let continues = self.run_some(kind, namespace, first, &some, ordered, &mut results)?;
            if !continues {
                break;
            }
            first += some.len();
        }
        results.documents.sort_by_key(|document| fields::int(document.as_doc(), "idx"));
        let mut extra = DocBuf::new()
            .with("nErrors", results.errors as i32)
            .with("nInserted", results.inserted as i32)
            .with("nMatched", results.matched as i32)
            .with("nModified", results.modified as i32)
            .with("nUpserted", results.upserted as i32)
            .with("nDeleted", results.deleted as i32);
        if let Some(error) = &results.concern_error {
            extra.append("writeConcernError", error);
        }
        let cursor = fields::document(body, "cursor").unwrap_or(Doc::empty());
        let batch_size = cursor.get("batchSize").and_then(fields::number_of).map(|size| size as u64);
        let namespace = Namespace::new("admin", "$cmd.bulkWrite")?;
        Ok(Answer::Cursor(RoutedCursor {
            cursor: Box::new(Cursor::over_documents(namespace, results.documents)),
            batch_size: Some(batch_size.unwrap_or(u64::MAX)),
            single_batch: false,
            no_timeout: false,
            time: None,
            extra: Some(Box::new(extra)),
        }))
    }

    /// Returns the shard on which all of these collections are, and how that is known. None: there is no such shard.
    fn only_shard_of(&self, namespaces: &[String]) -> Result<Option<(Arc<Shard>, Vec<Routing>)>> {
        let (mut one, mut routings): (Option<Arc<Shard>>, Vec<Routing>) = (None, Vec::new());
        for namespace in namespaces {
            let (db, collection) = namespace.split_once('.').unwrap_or((namespace, ""));
            let routing = self.routing(db, namespace, true)?;
            let (Routing::Unsharded(shard, _) | Routing::Config(shard)) = &routing else { return Ok(None) };
            if self.catalog().buckets(db, collection, self.interrupt())?.is_some()
                || one.as_ref().is_some_and(|own| own.name != shard.name)
            {
                return Ok(None);
            }
            one = Some(shard.clone());
            routings.push(routing);
        }
        Ok(one.map(|shard| (shard, routings)))
    }

    /// Runs neighbouring operations of one kind on one collection. Returns false if those behind them are not to run.
    fn run_some(
        &self,
        kind: &str,
        namespace: &str,
        first: usize,
        some: &[&DocBuf],
        ordered: bool,
        results: &mut Results,
    ) -> Result<bool> {
        let Some((db, collection)) = namespace.split_once('.') else { return Err(Error::bad_value("no collection")) };
        let list = match kind {
            "insert" => "documents",
            "update" => "updates",
            _ => "deletes",
        };
        let statements: ArrayBuf =
            some.iter().map(|op| statement_of(kind, op.as_doc())).collect::<Vec<_>>().iter().collect();
        let mut body = DocBuf::new().with(kind, collection).with(list, &statements).with("ordered", ordered);
        for (name, value) in self.body() {
            let is_shared = match name {
                "let" => kind != "insert",
                "bypassDocumentValidation" => kind != "delete",
                "stmtId" | "stmtIds" => false,
                name => !OWN_FIELDS.contains(&name),
            };
            if is_shared {
                body.append(name, value);
            }
        }
        if self.routed.generic.numbered.is_some() {
            body.append("stmtId", fields::int(self.body(), "stmtId") as i32 + first as i32);
        }
        let info = arbor_command::command_info(kind).ok_or_else(|| Error::bad_value("no such operation"))?;
        let routed = Routed { info, db, body: body.as_doc(), sequences: &[], ..*self.routed };
        let request = Request { routed: &routed, ..*self };
        let run = || if kind == "insert" { request.insert() } else { request.change() };
        let mut answer = run();
        for _ in 0..VIEW_ATTEMPTS {
            if answer.as_ref().err().is_some_and(is_view) {
                self.catalog().forget_no_views();
                answer = run();
            }
        }
        match answer {
            Ok(Answer::Reply(reply)) => Ok(results.add(kind, reply.as_doc(), first, some.len(), ordered)),
            Ok(_) => Err(Error::bad_value("the statement was not run")),
            // of a view, or a name that is none: of each operation on it
            Err(error) if self.is_of_statement(&error) => {
                results.documents.push(error.to_bulk_error(first).with("n", 0i32));
                results.errors += 1;
                Ok(!ordered)
            }
            Err(error) => Err(error),
        }
    }
}

/// Returns the kind of an operation, and the place of its collection in `nsInfo`.
fn kind_of(op: &DocBuf) -> Option<(&str, usize)> {
    let (kind, target) = op.as_doc().first()?;
    Some((kind, fields::number_of(target)? as usize))
}

/// Returns an operation as the commands of single collections have it.
fn statement_of(kind: &str, op: Doc<'_>) -> DocBuf {
    if kind == "insert" {
        return fields::document(op, "document").unwrap_or(Doc::empty()).to_buf();
    }
    let mut statement = DocBuf::new();
    for (name, value) in op.iter().skip(1).filter(|(name, _)| *name != "multi" || kind == "update") {
        let renamed = RENAMED.iter().find(|(own, _)| *own == name).map_or(name, |(_, other)| other);
        statement.append(renamed, value);
    }
    if kind == "delete" {
        statement.append("limit", i32::from(!fields::is_true(op, "multi")));
    }
    statement
}
