//! `bulkWrite`: inserts, updates and deletes over several collections in one command.
//!
//! Neighbours of one kind on one collection run as one statement of that kind, so that they share transactions. The
//! answers of the operations come as a cursor.

use arbor_bson::{Doc, DocBuf, Value, ValueRef};
use arbor_protocol::arguments::{Field, present};
use arbor_protocol::generic::is_generic;
use arbor_protocol::metrics::Kind;
use arbor_query::{Cursor, DeleteSpec, DeleteStatement, InsertSpec, UpdateSpec, UpdateStatement, WriteError};
use arbor_store::Namespace;

use crate::call::Call;
use crate::cmd::crud::update::modification;
use crate::cmd::shared::cursor_reply::{First, answer_first, collation, cursor_option};
use crate::cmd::shared::write_reply::{check_count, check_length, is_fatal};
use crate::{Error, Result};

pub(crate) fn run(call: &mut Call<'_>) -> Result<()> {
    let request = Request::parse(call)?;
    let mut answers = Answers { errors_only: request.options.errors_only, ..Answers::default() };
    let mut next = 0;
    while let Some(first) = request.operations.get(next) {
        let group = request.operations[next..].iter().take_while(|other| first.runs_with(other)).count();
        let operations = &request.operations[next..next + group];
        if !run_group(call, &request, next, operations, &mut answers)? {
            break;
        }
        next += group;
    }
    let namespace = Namespace::new("admin", "$cmd.bulkWrite")?;
    answer_first(
        call,
        Cursor::over_documents(namespace, answers.documents),
        First::of_all(request.options.batch_size),
    )?;
    for (name, count) in [
        ("nErrors", answers.errors),
        ("nInserted", answers.inserted),
        ("nMatched", answers.matched),
        ("nModified", answers.modified),
        ("nUpserted", answers.upserted),
        ("nDeleted", answers.deleted),
    ] {
        call.reply.append(name, count as i32);
    }
    Ok(())
}

struct Request<'c> {
    operations: Vec<Operation<'c>>,
    namespaces: Vec<Namespace>,
    options: Options<'c>,
}

/// Fields of the command other than `ops` and `nsInfo`.
struct Options<'c> {
    ordered: bool,
    errors_only: bool,
    bypass_validation: bool,
    let_variables: Option<Doc<'c>>,
    batch_size: Option<u64>,
}

/// One entry of `ops`.
struct Operation<'c> {
    /// Place of its collection in `nsInfo`.
    namespace: usize,
    action: Action<'c>,
}

enum Action<'c> {
    Insert(Doc<'c>),
    Update(UpdateStatement<'c>),
    Delete(DeleteStatement<'c>),
}

impl Operation<'_> {
    fn runs_with(&self, other: &Operation<'_>) -> bool {
        self.namespace == other.namespace
            && std::mem::discriminant(&self.action) == std::mem::discriminant(&other.action)
    }
}

// ---- reading the command

impl<'c> Request<'c> {
    fn parse(call: &Call<'c>) -> Result<Request<'c>> {
        let options = Options::parse(call.own_fields())?;
        let operations = call.documents("ops")?;
        check_count(call, operations.len())?;
        let namespaces = call.documents("nsInfo")?;
        check_length(namespaces.len())?;
        let namespaces = namespaces.into_iter().map(namespace).collect::<Result<Vec<_>>>()?;
        let operations = operations.into_iter().enumerate();
        let operations = operations.map(|(at, doc)| operation(at, doc, namespaces.len())).collect::<Result<_>>()?;
        Ok(Request { operations, namespaces, options })
    }
}

impl<'c> Options<'c> {
    fn parse(fields: impl Iterator<Item = (&'c str, ValueRef<'c>)>) -> Result<Options<'c>> {
        let mut options = Options {
            ordered: true,
            errors_only: false,
            bypass_validation: false,
            let_variables: None,
            batch_size: None,
        };
        for (name, value) in fields {
            let field = Field::new("bulkWrite", name);
            match name {
                "ops" | "nsInfo" => {}
                "ordered" => options.ordered = field.bool(value)?,
                "errorsOnly" => options.errors_only = field.bool(value)?,
                "bypassDocumentValidation" => options.bypass_validation = field.bool(value)?,
                "let" => options.let_variables = Some(field.document(value)?),
                "cursor" => options.batch_size = cursor_option(field, value)?,
                _ => return Err(field.unknown().into()),
            }
        }
        Ok(options)
    }
}

/// Checks a command with its `ops` and `nsInfo`; returns the names of the collections.
pub(crate) fn check(body: Doc<'_>, ops: &[DocBuf], infos: &[DocBuf]) -> Result<Vec<String>> {
    Options::parse(present(body).skip(1).filter(|(name, _)| !is_generic(name)))?;
    check_length(ops.len())?;
    check_length(infos.len())?;
    let names: Vec<Namespace> = infos.iter().map(|info| namespace(info.as_doc())).collect::<Result<_>>()?;
    for (at, op) in ops.iter().enumerate() {
        operation(at, op.as_doc(), names.len())?;
    }
    Ok(names.iter().map(|name| name.as_str().to_owned()).collect())
}

fn namespace(info: Doc<'_>) -> Result<Namespace> {
    let mut given = None;
    for (name, value) in present(info) {
        let field = Field::new("bulkWrite.nsInfo", name);
        match name {
            "ns" => given = Some(field.string(value)?),
            "collectionUUID" => {}
            "encryptionInformation" => return Err(Error::not_supported("queryable encryption")),
            _ => return Err(field.unknown().into()),
        }
    }
    let given = given.ok_or_else(|| Field::new("bulkWrite.nsInfo", "ns").missing())?;
    Namespace::parse(given).map_err(|_| crate::error_map::invalid_namespace(given))
}

/// Requires `namespaces`, how many there are.
fn operation(at: usize, doc: Doc<'_>, namespaces: usize) -> Result<Operation<'_>> {
    let (kind, target) = doc.first().unwrap_or(("", ValueRef::Null));
    let action = match kind {
        "insert" => Action::Insert(insert(doc)?),
        "update" => Action::Update(update(doc)?),
        "delete" => Action::Delete(delete(doc)?),
        other => {
            let text = format!("BulkWriteOp must be one of insert, update, delete as the first field, found '{other}'");
            return Err(Error::failed_to_parse(text));
        }
    };
    let target = Field::new("bulkWrite.ops", kind).unsigned(target)?;
    match usize::try_from(target) {
        Ok(namespace) if namespace < namespaces => Ok(Operation { namespace, action }),
        _ => Err(Error::bad_value(format!("BulkWrite ops entry {at} has an invalid nsInfo index."))),
    }
}

fn insert(doc: Doc<'_>) -> Result<Doc<'_>> {
    let mut document = None;
    for (name, value) in present(doc) {
        let field = Field::new("insert", name);
        match name {
            "insert" => {}
            "document" => document = Some(field.document(value)?),
            _ => return Err(field.unknown().into()),
        }
    }
    Ok(document.ok_or_else(|| Field::new("insert", "document").missing())?)
}

fn update(doc: Doc<'_>) -> Result<UpdateStatement<'_>> {
    let (mut filter, mut mods) = (None, None);
    let mut statement = UpdateStatement::new(Doc::empty(), ValueRef::Null);
    for (name, value) in present(doc) {
        let field = Field::new("update", name);
        match name {
            "update" => {}
            "filter" => filter = Some(field.document(value)?),
            "updateMods" => mods = Some(modification(value)?),
            "constants" => statement.c = Some(field.document(value)?),
            _ => crate::cmd::crud::update::option(&mut statement, field, value)?,
        }
    }
    statement.q = filter.ok_or_else(|| Field::new("update", "filter").missing())?;
    statement.u = mods.ok_or_else(|| Field::new("update", "updateMods").missing())?;
    crate::cmd::crud::update::check_sort(&statement)?;
    Ok(statement)
}

fn delete(doc: Doc<'_>) -> Result<DeleteStatement<'_>> {
    let (mut filter, mut multi, mut hint, mut own) = (None, false, None, None);
    for (name, value) in present(doc) {
        let field = Field::new("delete", name);
        match name {
            "delete" => {}
            "filter" => filter = Some(field.document(value)?),
            "multi" => multi = field.bool(value)?,
            "hint" => hint = crate::cmd::shared::hint::read(field, value)?,
            "collation" => own = collation(field, value)?,
            "sampleId" => {}
            _ => return Err(field.unknown().into()),
        }
    }
    let q = filter.ok_or_else(|| Field::new("delete", "filter").missing())?;
    Ok(DeleteStatement { q, multi, hint, collation: own })
}

// ---- running it

/// Runs neighbours of one kind; answers whether those behind them are to run.
fn run_group(
    call: &mut Call<'_>,
    request: &Request<'_>,
    first: usize,
    operations: &[Operation<'_>],
    answers: &mut Answers,
) -> Result<bool> {
    let Some(namespace) = operations.first().and_then(|first| request.namespaces.get(first.namespace)) else {
        return Ok(false);
    };
    let group = Group { request, namespace: namespace.clone(), first, operations };
    let done = match operations.first().map(|first| &first.action) {
        Some(Action::Insert(_)) => group.insert(call),
        Some(Action::Update(_)) => group.update(call),
        _ => group.delete(call),
    };
    // what concerns the collection (it is a view) concerns each operation on it
    let done = match done.map_err(|error| call.server.with_namespace(error)) {
        Err(error) if is_fatal(&error) => return Err(error),
        Err(error) => vec![Answer { index: first, outcome: Err(error) }],
        Ok(done) => done,
    };
    let mut proceed = true;
    for answer in done {
        proceed &= answer.outcome.is_ok() || !request.options.ordered;
        answers.add(answer)?;
    }
    Ok(proceed)
}

struct Group<'g> {
    request: &'g Request<'g>,
    namespace: Namespace,
    first: usize,
    operations: &'g [Operation<'g>],
}

/// Result of one operation.
struct Answer {
    index: usize,
    outcome: Result<OperationEffect>,
}

enum OperationEffect {
    Insert,
    Update { matched: u64, modified: u64, upserted: Option<Value> },
    Delete(u64),
}

impl Group<'_> {
    fn insert(&self, call: &Call<'_>) -> Result<Vec<Answer>> {
        let documents = self.operations.iter().filter_map(|operation| match operation.action {
            Action::Insert(document) => Some(document),
            _ => None,
        });
        let spec = InsertSpec {
            namespace: self.namespace.clone(),
            documents: documents.collect(),
            ordered: self.request.options.ordered,
            durability: call.generic.write_concern.durability(),
            bypass_validation: self.request.options.bypass_validation,
        };
        call.server.metrics.count(Kind::Insert, spec.documents.len() as u64);
        let outcome = arbor_query::insert(&call.scope().from_statement(self.first), &spec, &call.interrupt)?;
        call.server.metrics.documents.inserted.add(outcome.inserted);
        // documents are taken in order, so those not attempted are at the end
        let attempted = outcome.inserted as usize + outcome.errors.len();
        let failed: Vec<usize> = outcome.errors.iter().map(|error| error.index).collect();
        let good = (0..attempted).filter(|index| !failed.contains(index)).map(|index| (index, OperationEffect::Insert));
        self.answers(call, good.collect(), outcome.errors)
    }

    fn update(&self, call: &Call<'_>) -> Result<Vec<Answer>> {
        let updates = self.operations.iter().filter_map(|operation| match &operation.action {
            Action::Update(statement) => Some(statement.clone()),
            _ => None,
        });
        let spec = UpdateSpec {
            namespace: self.namespace.clone(),
            updates: updates.collect(),
            ordered: self.request.options.ordered,
            let_variables: self.request.options.let_variables,
            durability: call.generic.write_concern.durability(),
            bypass_validation: self.request.options.bypass_validation,
        };
        call.server.metrics.count(Kind::Update, spec.updates.len() as u64);
        let outcome = arbor_query::update(&call.scope().from_statement(self.first), &spec, &call.interrupt)?;
        call.server.metrics.documents.updated.add(outcome.modified);
        let mut upserted = outcome.upserted.into_iter().peekable();
        let mut good = Vec::with_capacity(outcome.each.len());
        for each in outcome.each {
            let own = upserted.next_if(|upserted| upserted.index == each.index).map(|upserted| upserted.id);
            good.push((
                each.index,
                OperationEffect::Update { matched: each.matched, modified: each.modified, upserted: own },
            ));
        }
        self.answers(call, good, outcome.errors)
    }

    fn delete(&self, call: &Call<'_>) -> Result<Vec<Answer>> {
        let deletes = self.operations.iter().filter_map(|operation| match &operation.action {
            Action::Delete(statement) => Some(statement.clone()),
            _ => None,
        });
        let spec = DeleteSpec {
            namespace: self.namespace.clone(),
            deletes: deletes.collect(),
            ordered: self.request.options.ordered,
            let_variables: self.request.options.let_variables,
            durability: call.generic.write_concern.durability(),
        };
        call.server.metrics.count(Kind::Delete, spec.deletes.len() as u64);
        let outcome = arbor_query::delete(&call.scope().from_statement(self.first), &spec, &call.interrupt)?;
        call.server.metrics.documents.deleted.add(outcome.deleted);
        let good = outcome.each.into_iter().map(|(index, deleted)| (index, OperationEffect::Delete(deleted)));
        self.answers(call, good.collect(), outcome.errors)
    }

    /// All that ran, in the order of the operations.
    fn answers(
        &self,
        call: &Call<'_>,
        good: Vec<(usize, OperationEffect)>,
        bad: Vec<WriteError>,
    ) -> Result<Vec<Answer>> {
        let at = |index: usize| self.first + index;
        let mut answers: Vec<Answer> =
            good.into_iter().map(|(index, effect)| Answer { index: at(index), outcome: Ok(effect) }).collect();
        for WriteError { index, error } in bad {
            let error = call.server.with_namespace(Error::from(error));
            if is_fatal(&error) {
                return Err(error);
            }
            answers.push(Answer { index: at(index), outcome: Err(error) });
        }
        answers.sort_by_key(|answer| answer.index);
        Ok(answers)
    }
}

// ---- the reply

#[derive(Default)]
struct Answers {
    errors_only: bool,
    documents: Vec<DocBuf>,
    errors: u64,
    inserted: u64,
    matched: u64,
    modified: u64,
    upserted: u64,
    deleted: u64,
}

impl Answers {
    fn add(&mut self, Answer { index, outcome }: Answer) -> Result<()> {
        let mut document = match &outcome {
            Ok(_) => DocBuf::new().with("ok", 1.0).with("idx", index as i32),
            Err(error) => error.to_bulk_error(index),
        };
        match &outcome {
            Err(_) => {
                self.errors += 1;
                document.append("n", 0i32);
            }
            Ok(OperationEffect::Insert) => {
                self.inserted += 1;
                document.append("n", 1i32);
            }
            Ok(OperationEffect::Update { matched, modified, upserted }) => {
                self.matched += matched;
                self.modified += modified;
                self.upserted += u64::from(upserted.is_some());
                document.append("n", (matched + u64::from(upserted.is_some())) as i32);
                document.append("nModified", *modified as i32);
                if let Some(id) = upserted {
                    document.append("upserted", &DocBuf::new().with("_id", id));
                }
            }
            Ok(OperationEffect::Delete(deleted)) => {
                self.deleted += deleted;
                document.append("n", *deleted as i32);
            }
        }
        if outcome.is_err() || !self.errors_only {
            self.documents.push(document);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arbor_bson::Code;

    #[test]
    fn bad_operations_are_refused() {
        let empty = DocBuf::new();
        let insert = |at: i32| DocBuf::new().with("insert", at);
        for (doc, code) in [
            (DocBuf::new(), 9),
            (DocBuf::new().with("replace", 0i32), 9),
            (insert(0), 40414),
            (insert(1).with("document", &empty), 2),
            (insert(-1).with("document", &empty), 2),
            (insert(0).with("document", 1i32), 14),
            (insert(0).with("document", &empty).with("x", 1i32), 40415),
            (DocBuf::new().with("insert", "a").with("document", &empty), 14),
            (DocBuf::new().with("update", 0i32).with("filter", &empty), 40414),
            (DocBuf::new().with("delete", 0i32), 40414),
        ] {
            let error = operation(0, doc.as_doc(), 1).err().unwrap();
            assert_eq!(error.code.0, code, "{doc:?}: {}", error.message);
        }
        let sorted = DocBuf::new().with("update", 0i32).with("filter", &empty).with("updateMods", &empty);
        let sorted = sorted.with("sort", &DocBuf::new().with("a", 1i32));
        assert!(operation(0, sorted.as_doc(), 1).is_ok());
        assert_eq!(operation(0, sorted.with("multi", true).as_doc(), 1).err().unwrap().code, Code::FAILED_TO_PARSE);
    }
}
