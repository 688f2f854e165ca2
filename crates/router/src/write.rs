//! Writes over several shards.
//!
//! W1: shards check versions before a command runs, so a command that is refused as out of date has done nothing, and its statements
//! are sent again by the new table. W2: a statement for many documents that one of its shards refuses is repeated only for the
//! ranges of the key on which it has not run: each shard had all ranges of the table while it ran.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use arbor_bson::{ArrayBuf, Code, Doc, DocBuf, ValueRef};
use arbor_command::{Answer, Error, Result};
use arbor_lang::KeyRanges;

use crate::catalog::{Routing, versioned};
use crate::first_of_order::{self, sort_of};
use crate::shard::Shard;
use crate::shard_key_update::UpdateOfOne;
use crate::table::Table;
use crate::{ATTEMPTS, Request, fields, is_stale};

/// A statement with its place in the request.
#[derive(Clone)]
struct Statement {
    index: usize,
    document: DocBuf,
}

/// The part of a statement that has run.
#[derive(Default)]
struct Progress {
    replies: Vec<DocBuf>,
    /// Shards, and the tables by which they ran it.
    done: Vec<(Arc<Table>, String)>,
}

impl Progress {
    /// Returns the ranges of a collection on which the statement has run. None: it has not, or on another collection of the name.
    fn ranges(&self, table: &Table) -> Option<KeyRanges> {
        let same = self.done.iter().filter(|(before, _)| before.epoch == table.epoch);
        let ranges = same.flat_map(|(before, shard)| before.ranges_of(shard)).collect();
        let ranges = KeyRanges::new(table.key.clone(), ranges);
        (!ranges.is_empty()).then_some(ranges)
    }
}

/// Outcome of a write that is put together from those of the shards.
#[derive(Default)]
struct Outcome {
    n: i64,
    modified: Option<i64>,
    upserted: Vec<(i32, DocBuf)>,
    errors: Vec<(i32, DocBuf)>,
    concern_error: Option<DocBuf>,
    /// Numbers of statements that an earlier request has done.
    retried: BTreeSet<i32>,
    /// Times and terms of the last reply.
    rest: DocBuf,
}

impl Outcome {
    /// Adds the reply of a shard to the statements `sent`.
    fn add(&mut self, reply: Doc<'_>, sent: &[Statement]) {
        self.n += fields::int(reply, "n");
        if reply.get("nModified").is_some() {
            *self.modified.get_or_insert(0) += fields::int(reply, "nModified");
        }
        let place = |entry: Doc<'_>| {
            let at = usize::try_from(fields::int(entry, "index")).unwrap_or(usize::MAX);
            sent.get(at).map_or(0, |statement| statement.index as i32)
        };
        let renamed = |entry: Doc<'_>, index: i32| -> DocBuf {
            let value = |(name, value)| (name, if name == "index" { ValueRef::Int32(index) } else { value });
            entry.iter().map(value).collect()
        };
        for (name, into) in [("upserted", &mut self.upserted), ("writeErrors", &mut self.errors)] {
            for value in fields::array(reply, name).iter().flat_map(|all| all.iter()) {
                if let ValueRef::Document(entry) = value {
                    let index = place(entry);
                    into.push((index, renamed(entry, index)));
                }
            }
        }
        if let Some(error) = fields::document(reply, "writeConcernError") {
            self.concern_error = Some(error.to_buf());
        }
        let retried = fields::array(reply, "retriedStmtIds").into_iter().flat_map(|ids| ids.iter());
        self.retried.extend(retried.filter_map(fields::number_of).map(|id| id as i32));
        self.rest = reply.iter().filter(|(name, _)| matches!(*name, "$clusterTime" | "operationTime")).collect();
    }

    /// Makes one error of those that several shards have for one statement: the errors from `first` on.
    fn join_errors(&mut self, first: usize) {
        let all = self.errors.split_off(first);
        let code = |(_, error): &(i32, DocBuf)| fields::int(error.as_doc(), "code");
        let Some((index, one)) = all.first().filter(|_| all.len() > 1) else { return self.errors.extend(all) };
        let texts = all.iter().filter_map(|(_, error)| fields::string(error.as_doc(), "errmsg"));
        let text = format!("multiple errors for op : {}", texts.collect::<Vec<_>>().join(" :: and :: "));
        let same = all.iter().all(|error| fields::int(one.as_doc(), "code") == code(error));
        let code = if same { fields::int(one.as_doc(), "code") as i32 } else { Code::MULTIPLE_ERRORS_OCCURRED.0 };
        let error = DocBuf::new().with("index", *index).with("code", code).with("errmsg", text.as_str());
        self.errors.push((*index, error));
    }

    fn refuse(&mut self, index: usize, error: &Error) {
        self.errors.push((index as i32, error.to_write_error(index)));
    }

    fn reply(mut self) -> DocBuf {
        let mut reply = DocBuf::new();
        append_count(&mut reply, "n", self.n);
        if let Some(modified) = self.modified {
            append_count(&mut reply, "nModified", modified);
        }
        for (name, entries) in [("upserted", &mut self.upserted), ("writeErrors", &mut self.errors)] {
            entries.sort_by_key(|(index, _)| *index);
            if !entries.is_empty() {
                reply.append(name, &entries.iter().map(|(_, entry)| entry).collect::<ArrayBuf>());
            }
        }
        if let Some(error) = &self.concern_error {
            reply.append("writeConcernError", error);
        }
        if !self.retried.is_empty() {
            reply.append("retriedStmtIds", &self.retried.into_iter().collect::<ArrayBuf>());
        }
        self.rest.as_doc().iter().for_each(|(name, value)| {
            reply.append(name, value);
        });
        reply
    }
}

fn append_count(reply: &mut DocBuf, name: &str, count: i64) {
    match i32::try_from(count) {
        Ok(count) => reply.append(name, count),
        Err(_) => reply.append(name, count),
    };
}

impl Request<'_> {
    /// Returns the statements of a field, an array or a document sequence.
    fn statements(&self, name: &str) -> Vec<Statement> {
        let documents = self.documents_of(name).into_iter().enumerate();
        documents.map(|(index, document)| Statement { index, document }).collect()
    }

    pub(crate) fn documents_of(&self, name: &str) -> Vec<DocBuf> {
        match self.routed.sequences.iter().find(|some| some.name == name) {
            Some(sequence) => sequence.iter().map(Doc::to_buf).collect(),
            None => fields::array(self.body(), name)
                .iter()
                .flat_map(|all| all.iter())
                .filter_map(|value| if let ValueRef::Document(doc) = value { Some(doc.to_buf()) } else { None })
                .collect(),
        }
    }

    /// Sends some statements to one shard, as a part of the request.
    fn send(&self, routing: &Routing, shard: &Arc<Shard>, name: &str, some: &[Statement]) -> Result<DocBuf> {
        self.check_series(routing)?;
        let mut command = fields::without(self.plain().as_doc(), &[name, "stmtId", "stmtIds"]);
        if self.routed.generic.numbered.is_some() && some.len() <= 100_000 {
            let ids: Vec<i32> = some.iter().map(|statement| self.statement_number(statement.index)).collect();
            command.append("stmtIds", &ids.into_iter().collect::<ArrayBuf>());
        }
        let command = versioned(command, routing, &shard.name);
        let documents: Vec<DocBuf> = some.iter().map(|statement| statement.document.clone()).collect();
        self.on_one(shard, self.routed.db, command, &[(name, &documents)])
    }

    fn statement_number(&self, index: usize) -> i32 {
        let given = fields::array(self.body(), "stmtIds").and_then(|ids| ids.get(index)).and_then(fields::number_of);
        given.map_or(fields::int(self.body(), "stmtId") as i32 + index as i32, |id| id as i32)
    }

    fn is_ordered(&self) -> bool {
        self.body().get("ordered").is_none() || fields::is_true(self.body(), "ordered")
    }

    /// Sends statements where `place` says, group by group, until all are done or, if they are ordered, one has failed.
    /// `place` returns the shard of a statement; its errors are those of the statement.
    fn in_groups(
        &self,
        namespace: &str,
        name: &str,
        mut waiting: Vec<Statement>,
        outcome: &mut Outcome,
        place: impl Fn(&Routing, &Statement) -> Result<Arc<Shard>>,
    ) -> Result<()> {
        let ordered = self.is_ordered();
        let mut attempts = 0;
        while !waiting.is_empty() {
            let routing = self.routing(self.routed.db, namespace, true)?;
            let mut groups: BTreeMap<String, (Arc<Shard>, Vec<Statement>)> = BTreeMap::new();
            let mut later = Vec::new();
            let mut refused = false;
            for statement in waiting {
                if refused || !later.is_empty() {
                    later.push(statement);
                    continue;
                }
                match place(&routing, &statement) {
                    Ok(shard) if ordered && groups.keys().any(|name| *name != shard.name) => later.push(statement),
                    Ok(shard) => {
                        groups.entry(shard.name.clone()).or_insert_with(|| (shard, Vec::new())).1.push(statement);
                    }
                    Err(error) if is_stale(&error) => return Err(error),
                    Err(error) if ordered && !groups.is_empty() => {
                        // the ones before it are first
                        drop(error);
                        later.push(statement);
                    }
                    Err(error) => {
                        outcome.refuse(statement.index, &error);
                        refused = ordered;
                    }
                }
            }
            let (mut again, mut stale) = (Vec::new(), None);
            for (shard, some) in groups.into_values() {
                match self.send(&routing, &shard, name, &some) {
                    Ok(reply) => outcome.add(reply.as_doc(), &some),
                    Err(error) if is_stale(&error) && attempts < ATTEMPTS => {
                        again.extend(some);
                        stale = Some(error);
                    }
                    Err(error) => return Err(error),
                }
            }
            if let Some(error) = stale {
                self.prepare_attempt((self.routed.db, namespace), &routing, &error, &mut attempts)?;
            }
            again.extend(later);
            again.sort_by_key(|statement| statement.index);
            waiting = again;
            if ordered && !outcome.errors.is_empty() {
                break;
            }
        }
        Ok(())
    }

    pub(crate) fn insert(&self) -> Result<Answer> {
        if self.buckets()?.is_some() {
            return self.on_buckets(|request| request.insert());
        }
        let namespace = self.namespace()?;
        let routing = self.routing(self.routed.db, &namespace, true)?;
        if !matches!(routing, Routing::Sharded(..)) {
            match self.forward(true) {
                // it has become sharded
                Err(error) if is_stale(&error) => {}
                other => return other,
            }
        }
        let mut statements = self.statements("documents");
        if statements.is_empty() {
            return self.refused_by_any(&routing);
        }
        for statement in &mut statements {
            if statement.document.get("_id").is_none() {
                let id = arbor_protocol::topology::new_object_id();
                let with_id = DocBuf::new().with("_id", ValueRef::ObjectId(id));
                statement.document =
                    statement.document.as_doc().iter().fold(with_id, |doc, (name, value)| doc.with(name, value));
            }
        }
        let mut outcome = Outcome::default();
        self.in_groups(&namespace, "documents", statements, &mut outcome, |routing, statement| match routing {
            Routing::Sharded(table, _) => {
                let key = match self.is_of_time_series() {
                    true => table.key_of_measurement(statement.document.as_doc())?,
                    false => table.key_of_document(statement.document.as_doc())?,
                };
                self.catalog().shard(table.shard_of(&key), self.interrupt())
            }
            Routing::Unsharded(shard, _) | Routing::Config(shard) => Ok(shard.clone()),
        })?;
        Ok(Answer::Reply(outcome.reply()))
    }

    /// Lets a shard say what is wrong with a request.
    fn refused_by_any(&self, routing: &Routing) -> Result<Answer> {
        let shard = match routing {
            Routing::Sharded(table, _) => {
                self.catalog().shard(table.shards().next().unwrap_or(""), self.interrupt())?
            }
            Routing::Unsharded(shard, _) | Routing::Config(shard) => shard.clone(),
        };
        Ok(Answer::Reply(self.forward_to(routing, &shard)?))
    }

    /// `update` and `delete`.
    pub(crate) fn change(&self) -> Result<Answer> {
        if self.buckets()?.is_some() {
            return self.on_buckets(|request| request.change());
        }
        let namespace = self.namespace()?;
        let routing = self.routing(self.routed.db, &namespace, self.may_create())?;
        if !matches!(routing, Routing::Sharded(..)) {
            match self.forward(self.may_create()) {
                Err(error) if is_stale(&error) => {}
                other => return other,
            }
        }
        let name = if self.routed.info.name == "update" { "updates" } else { "deletes" };
        let statements = self.statements(name);
        if statements.is_empty() {
            return self.refused_by_any(&routing);
        }
        let mut outcome = Outcome { modified: (name == "updates").then_some(0), ..Outcome::default() };
        for statement in statements {
            let index = statement.index;
            let mut progress = Progress::default();
            let checked = match name {
                // shards know what may be done to measurements
                "updates" if !self.is_of_time_series() => {
                    let variables = fields::document(self.body(), "let");
                    arbor_command::check_update(statement.document.as_doc(), variables)
                }
                _ => Ok(()),
            };
            if let Err(error) = checked {
                outcome.refuse(index, &error);
                if self.is_ordered() {
                    break;
                }
                continue;
            }
            let done = self.with_routing(self.routed.db, &namespace, true, |routing| {
                self.change_one(routing, name, &statement, &mut progress)
            });
            let errors = outcome.errors.len();
            for reply in progress.replies {
                outcome.add(reply.as_doc(), std::slice::from_ref(&statement));
            }
            outcome.join_errors(errors);
            match done {
                Ok(()) => {}
                // errors of the statement are part of the reply; others end the request
                Err(error) if is_of_statement(&error) => outcome.refuse(index, &error),
                Err(error) => return Err(error),
            }
            if self.is_ordered() && !outcome.errors.is_empty() {
                break;
            }
        }
        Ok(Answer::Reply(outcome.reply()))
    }

    fn may_create(&self) -> bool {
        self.routed.info.name == "update"
            && self.statements("updates").iter().any(|one| fields::is_true(one.document.as_doc(), "upsert"))
    }

    /// Runs one statement where it has not run yet.
    fn change_one(&self, routing: &Routing, name: &str, statement: &Statement, progress: &mut Progress) -> Result<()> {
        let one = std::slice::from_ref(statement);
        let table = match routing {
            Routing::Sharded(table, _) => table,
            Routing::Unsharded(shard, _) | Routing::Config(shard) => {
                progress.replies.push(self.send(routing, shard, name, one)?);
                return Ok(());
            }
        };
        let document = statement.document.as_doc();
        let filter = fields::document(document, "q").unwrap_or(Doc::empty());
        let multi = match name {
            "updates" => fields::is_true(document, "multi"),
            _ => fields::int(document, "limit") == 0,
        };
        let upsert = fields::is_true(document, "upsert");
        let context = self.context(routing.collation(fields::document(document, "collation")));
        let of_time_series = self.is_of_time_series();
        let (names, whole) = match of_time_series {
            true => table.shards_for_measurements(filter, &context),
            false => table.shards_for_filter(filter, &context),
        };
        if name == "updates" && !table.unsplittable && !of_time_series {
            match check_update(table, filter, document.get("u"), upsert, whole) {
                Err(error) if !multi && is_of_statement(&error) => {
                    progress.replies.push(self.update_and_move(
                        routing,
                        document,
                        self.statement_number(statement.index),
                    )?);
                    return Ok(());
                }
                // the shards see whether it does
                Err(error) if multi && !upsert && error.code == Code::IMMUTABLE_FIELD => {}
                checked => checked?,
            }
        }
        let shards = self.shards_named(&names)?;
        let done = progress.ranges(table).filter(|_| multi);
        let others = done.as_ref().filter(|_| of_time_series).map(KeyRanges::outside);
        let rest = done.as_ref().filter(|_| !of_time_series).map(|done| Statement {
            index: statement.index,
            document: with_filter(document, filter, done.outside().as_doc()),
        });
        let one = rest.as_ref().map_or(one, std::slice::from_ref);
        if !multi && shards.len() > 1 && sort_of(document).is_some() && !of_time_series {
            progress.replies.push(self.change_first((routing, table), &shards, (name, statement), filter)?);
            return Ok(());
        }
        for shard in &shards {
            let is_done =
                |done: &KeyRanges| table.ranges_of(&shard.name).iter().all(|(low, high)| done.cover(low, high));
            if done.as_ref().is_some_and(is_done) {
                continue;
            }
            let reply = self.on_other_buckets(others.as_ref(), |request| request.send(routing, shard, name, one))?;
            let found = fields::int(reply.as_doc(), "n") > 0 || reply.get("writeErrors").is_some();
            progress.replies.push(reply);
            progress.done.push((table.clone(), shard.name.clone()));
            // one document was asked for
            if found && !multi {
                break;
            }
        }
        Ok(())
    }

    /// Runs an update of the first document in an order.
    fn change_first(
        &self,
        (routing, table): (&Routing, &Table),
        shards: &[Arc<Shard>],
        (name, statement): (&str, &Statement),
        filter: Doc<'_>,
    ) -> Result<DocBuf> {
        let document = statement.document.as_doc();
        let run = |shard: &Arc<Shard>, id: &DocBuf| {
            let document = first_of_order::of_document(document, "q", filter, id);
            self.send(routing, shard, name, &[Statement { index: statement.index, document }])
        };
        if self.may_be_retried() {
            for shard in shards {
                let reply = run(shard, &first_of_order::no_document())?;
                if reply.get("retriedStmtIds").is_some() {
                    return Ok(reply);
                }
            }
        }
        for _ in 0..first_of_order::ATTEMPTS {
            self.interrupt().check()?;
            let found = self.first_of_order((routing, table), shards, (document, filter))?;
            let Some((shard, id)) = found else {
                return Ok(DocBuf::new().with("n", 0i32).with("nModified", 0i32));
            };
            let reply = run(&shard, &id)?;
            if fields::int(reply.as_doc(), "n") > 0 || reply.get("writeErrors").is_some() {
                return Ok(reply);
            }
        }
        Err(first_of_order::changed_meanwhile())
    }

    /// Runs an update of one document that may change its shard key.
    fn update_and_move(&self, routing: &Routing, statement: Doc<'_>, number: i32) -> Result<DocBuf> {
        let mut options = DocBuf::new();
        fields::copy(self.body(), &["let", "bypassDocumentValidation"], &mut options);
        fields::copy(statement, &["collation", "sort", "hint", "arrayFilters"], &mut options);
        let query = fields::document(statement, "q").unwrap_or(Doc::empty());
        let (update, upsert) = (statement.get("u").unwrap_or(ValueRef::Null), fields::is_true(statement, "upsert"));
        let of_one = UpdateOfOne { query, update, upsert, options, statement: number, shows_new: None, shown: None };
        let done = match self.update_one_and_move(routing, &of_one) {
            Ok(done) => done,
            Err(error) if self.is_of_statement(&error) => {
                let errors: ArrayBuf = std::iter::once(&error.to_write_error(0)).collect();
                return Ok(DocBuf::new().with("n", 0i32).with("nModified", 0i32).with("writeErrors", &errors));
            }
            Err(error) => return Err(error),
        };
        let Some(done) = done else { return Ok(DocBuf::new().with("n", 0i32).with("nModified", 0i32)) };
        let outcome = done.outcome.as_doc();
        if fields::string(outcome, "kind") != Some("update") {
            return Err(another_kind(outcome, "update"));
        }
        let upserted = outcome.get("upserted").map(|id| DocBuf::new().with("index", 0i32).with("_id", id));
        let n = fields::int(outcome, "n") as i32 + i32::from(upserted.is_some());
        let mut reply = DocBuf::new().with("n", n).with("nModified", fields::int(outcome, "nModified") as i32);
        if let Some(upserted) = &upserted {
            reply.append("upserted", &std::iter::once(upserted).collect::<ArrayBuf>());
        }
        if done.is_of_before {
            reply.append("retriedStmtIds", &std::iter::once(number).collect::<ArrayBuf>());
        }
        Ok(reply)
    }

    /// Runs a `findAndModify` that may change the shard key of its document.
    fn find_and_move(&self, routing: &Routing) -> Result<Answer> {
        let body = self.body();
        let mut options = DocBuf::new();
        fields::copy(
            body,
            &["let", "bypassDocumentValidation", "collation", "sort", "hint", "arrayFilters"],
            &mut options,
        );
        let query = fields::document(body, "query").unwrap_or(Doc::empty());
        let (update, upsert) = (body.get("update").unwrap_or(ValueRef::Null), fields::is_true(body, "upsert"));
        let (statement, shows_new) = (self.statement_number(0), Some(fields::is_true(body, "new")));
        let mut statement_of = DocBuf::new().with("q", query).with("u", update);
        fields::copy(options.as_doc(), &["arrayFilters", "collation"], &mut statement_of);
        arbor_command::check_update(statement_of.as_doc(), fields::document(body, "let"))?;
        let shown = fields::document(body, "fields").filter(|shown| !shown.is_empty());
        let of_one = UpdateOfOne { query, update, upsert, options, statement, shows_new, shown };
        let Some(done) = self.update_one_and_move(routing, &of_one)? else {
            let effect = DocBuf::new().with("n", 0i32).with("updatedExisting", false);
            return Ok(Answer::Reply(DocBuf::new().with("lastErrorObject", &effect).with("value", ValueRef::Null)));
        };
        let outcome = done.outcome.as_doc();
        if fields::string(outcome, "kind") != Some("findAndModify") {
            return Err(another_kind(outcome, "findAndModify"));
        }
        let mut effect = DocBuf::new().with("n", fields::int(outcome, "n") as i32);
        effect.append("updatedExisting", fields::is_true(outcome, "updatedExisting"));
        if let Some(id) = outcome.get("upserted") {
            effect.append("upserted", id);
        }
        let mut reply = DocBuf::new().with("lastErrorObject", &effect);
        reply.append("value", outcome.get("value").unwrap_or(ValueRef::Null));
        if done.is_of_before {
            reply.append("retriedStmtId", statement);
        }
        Ok(Answer::Reply(reply))
    }

    pub(crate) fn find_and_modify(&self) -> Result<Answer> {
        let namespace = self.namespace()?;
        let body = self.body();
        let upsert = fields::is_true(body, "upsert");
        let filter = fields::document(body, "query").unwrap_or(Doc::empty());
        self.with_routing(self.routed.db, &namespace, upsert, |routing| {
            let context = self.context(routing.collation(fields::document(body, "collation")));
            let Routing::Sharded(table, _) = routing else {
                let (Routing::Unsharded(shard, _) | Routing::Config(shard)) = routing else {
                    unreachable!("the other case")
                };
                return Ok(Answer::Reply(self.forward_to(routing, shard)?));
            };
            let (names, whole) = table.shards_for_filter(filter, &context);
            if !fields::is_true(body, "remove") && !table.unsplittable {
                let checked = check_update(table, filter, body.get("update"), upsert, whole);
                match checked {
                    Err(error) if is_of_statement(&error) => return self.find_and_move(routing),
                    checked => checked?,
                }
            }
            let shards = self.shards_named(&names)?;
            if let [only] = shards.as_slice() {
                return Ok(Answer::Reply(self.forward_to(routing, only)?));
            }
            if sort_of(body).is_some() {
                return self.find_first_and_modify((routing, table), &shards, filter);
            }
            let mut last = DocBuf::new();
            for shard in &shards {
                last = self.forward_to(routing, shard)?;
                let found = fields::document(last.as_doc(), "lastErrorObject").map_or(0, |own| fields::int(own, "n"));
                if found > 0 {
                    break;
                }
            }
            Ok(Answer::Reply(last))
        })
    }
}

/// Returns a statement whose filter has another condition.
fn with_filter(statement: Doc<'_>, filter: Doc<'_>, condition: Doc<'_>) -> DocBuf {
    let both: ArrayBuf = [filter, condition].into_iter().collect();
    let query = DocBuf::new().with("$and", &both);
    let field = |(name, value)| (name, if name == "q" { ValueRef::Document(query.as_doc()) } else { value });
    statement.iter().map(field).collect()
}

/// Returns the error of a retry that is another statement than the one before.
fn another_kind(outcome: Doc<'_>, kind: &str) -> Error {
    let before = fields::string(outcome, "kind").unwrap_or_default();
    let text =
        format!("{kind} retry request is not compatible with previous write in the transaction of type: {before}");
    Error::new(Code(40606), text)
}

fn is_of_statement(error: &Error) -> bool {
    matches!(error.code, Code::SHARD_KEY_NOT_FOUND | Code::IMMUTABLE_FIELD)
}

/// Refuses an update that could give a document another shard key, and an upsert whose shard is not known.
fn check_update(table: &Table, filter: Doc<'_>, update: Option<ValueRef<'_>>, upsert: bool, whole: bool) -> Result<()> {
    if upsert && !whole {
        let text = "An upsert on a sharded collection must contain the shard key and have the simple collation";
        return Err(Error::new(Code::SHARD_KEY_NOT_FOUND, text));
    }
    let refused = |path: &str| {
        let text =
            format!("an upsert of many documents may not give the field '{path}' of the shard key another value");
        Err(Error::new(Code::IMMUTABLE_FIELD, text))
    };
    // the value that the filter demands, if it demands one
    let demanded = |path: &str| match filter.get(path) {
        Some(ValueRef::Document(operators)) => match operators.first() {
            Some((name, _)) if !name.starts_with('$') => filter.get(path),
            Some(("$eq", value)) => Some(value),
            _ => None,
        },
        other => other,
    };
    let same = |path: &str, value: Option<ValueRef<'_>>| match (demanded(path), value) {
        (Some(own), Some(value)) => arbor_bson::compare(own, value).is_eq(),
        _ => false,
    };
    let paths = || table.key.as_doc().iter().map(|(path, _)| path);
    match update {
        Some(ValueRef::Document(update)) if update.first().is_some_and(|(name, _)| name.starts_with('$')) => {
            for (operator, targets) in update {
                let ValueRef::Document(targets) = targets else { continue };
                for (target, value) in targets {
                    let renamed = if operator == "$rename" { fields::text(value) } else { None };
                    for path in
                        paths().filter(|path| overlap(path, target) || renamed.is_some_and(|to| overlap(path, to)))
                    {
                        let kept =
                            matches!(operator, "$set" | "$setOnInsert") && path == target && same(path, Some(value));
                        if !kept {
                            return refused(path);
                        }
                    }
                }
            }
            Ok(())
        }
        Some(ValueRef::Document(replacement)) => {
            for path in paths().filter(|path| *path != "_id" || replacement.get("_id").is_some()) {
                if !same(path, fields::at_path(replacement, path).unwrap_or(None)) {
                    return refused(path);
                }
            }
            Ok(())
        }
        Some(ValueRef::Array(stages)) => {
            for stage in stages.iter() {
                let Some((name, spec)) = crate::pipeline::stage_of(Some(stage)) else { continue };
                let targets: Vec<&str> = match (name, spec) {
                    ("$set" | "$addFields", ValueRef::Document(spec)) => {
                        spec.iter().map(|(target, _)| target).collect()
                    }
                    ("$unset", ValueRef::String(target)) => vec![target],
                    ("$unset", ValueRef::Array(targets)) => targets.iter().filter_map(fields::text).collect(),
                    _ => return refused(paths().next().unwrap_or_default()),
                };
                if let Some(path) = paths().find(|path| targets.iter().any(|target| overlap(path, target))) {
                    return refused(path);
                }
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Returns true if one path leads to, or through, the other.
fn overlap(a: &str, b: &str) -> bool {
    let (short, long) = if a.len() <= b.len() { (a, b) } else { (b, a) };
    long.strip_prefix(short).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}
