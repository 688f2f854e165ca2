//! `applyOps`: what entries of an oplog say, done here one after the other. Tools that restore up to a point in time use it.
//!
//! Entries are idempotent: an insert of a document that is there replaces it, a change of one that is gone does nothing.
//! Each entry is a statement of its own; MongoDB may do several at once (`allowAtomic`).

use arbor_bson::{ArrayBuf, Code, Doc, DocBuf, ValueRef};
use arbor_oplog::delta;
use arbor_protocol::arguments::Field;
use arbor_query::{BatchLimit, FindSpec};
use arbor_store::Namespace;

use crate::call::{Call, Plan};
use crate::{Error, Result, registry};

/// `applyOps` inside `applyOps`.
const DEPTH_MAX: usize = 10;

pub(crate) fn run(call: &mut Call<'_>) -> Result<()> {
    call.only(&["allowAtomic", "alwaysUpsert", "preCondition", "oplogApplicationMode"])?;
    if call.optional("preCondition").is_some() {
        return Err(Error::not_supported("applyOps with preCondition"));
    }
    let operations = call.field("applyOps").documents(call.target())?;
    let mut results = ArrayBuf::new();
    let mut failed = None;
    for operation in &operations {
        let done = apply(call, *operation, 0);
        results.push(done.is_ok());
        if let Err(error) = done {
            failed = Some(error);
            break;
        }
    }
    let applied = results.len() as i32;
    match failed {
        None => {
            call.reply = DocBuf::new().with("applied", applied).with("results", &results);
            Ok(())
        }
        Some(mut error) => {
            let mut details = error.details.take().unwrap_or_default();
            details.append("applied", applied).append("results", &results);
            Err(error.with_details(details))
        }
    }
}

fn apply(call: &mut Call<'_>, operation: Doc<'_>, depth: usize) -> Result<()> {
    let text = |name: &'static str| {
        let field = Field::new("applyOps", name);
        operation.get(name).ok_or_else(|| field.missing()).and_then(|value| field.string(value))
    };
    let document = |name: &'static str| {
        let field = Field::new("applyOps", name);
        operation.get(name).ok_or_else(|| field.missing()).and_then(|value| field.document(value))
    };
    let kind = text("op")?;
    if kind == "n" {
        return Ok(());
    }
    let (db, collection) = text("ns")?.split_once('.').unwrap_or_default();
    match kind {
        "i" => put(call, db, collection, document("o")?),
        "u" => change(call, db, collection, document("o2")?, document("o")?),
        "d" => {
            let statement = DocBuf::new().with("q", document("o")?).with("limit", 1i32);
            let deletes: ArrayBuf = [&statement].into_iter().collect();
            perform(call, db, &DocBuf::new().with("delete", collection).with("deletes", &deletes)).map(drop)
        }
        "c" => command(call, db, document("o")?, depth),
        _ => Err(Error::failed_to_parse(format!("invalid op type '{kind}' in applyOps"))),
    }
}

fn put(call: &mut Call<'_>, db: &str, collection: &str, doc: Doc<'_>) -> Result<()> {
    let id = doc.get("_id").ok_or_else(|| Error::new(Code::NO_SUCH_KEY, "an inserted document has no _id"))?;
    update(call, db, collection, DocBuf::new().with("_id", id).as_doc(), doc, true)
}

/// With a difference, a replacement, or operators.
fn change(call: &mut Call<'_>, db: &str, collection: &str, key: Doc<'_>, o: Doc<'_>) -> Result<()> {
    let Some(ValueRef::Document(difference)) = o.get("diff").filter(|_| o.get("$v").is_some()) else {
        let o: DocBuf = o.iter().filter(|(name, _)| *name != "$v").collect();
        return update(call, db, collection, key, o.as_doc(), false);
    };
    let spec = FindSpec { filter: key, limit: Some(1), ..FindSpec::new(Namespace::new(db, collection)?) };
    let mut cursor = arbor_query::find(&call.scope(), &spec, &call.interrupt)?;
    let batch = cursor.next_batch(BatchLimit::docs(1), &call.interrupt)?;
    let Some(ValueRef::Document(before)) = batch.docs.as_array().get(0) else { return Ok(()) };
    let after = delta::apply(before, difference).map_err(|error| Error::failed_to_parse(error.to_string()))?;
    update(call, db, collection, key, after.as_doc(), false)
}

fn update(call: &mut Call<'_>, db: &str, collection: &str, q: Doc<'_>, u: Doc<'_>, upsert: bool) -> Result<()> {
    let statement = DocBuf::new().with("q", q).with("u", u).with("upsert", upsert);
    let updates: ArrayBuf = [&statement].into_iter().collect();
    perform(call, db, &DocBuf::new().with("update", collection).with("updates", &updates)).map(drop)
}

fn command(call: &mut Call<'_>, db: &str, o: Doc<'_>, depth: usize) -> Result<()> {
    match o.first() {
        Some(("applyOps", nested)) if depth < DEPTH_MAX => {
            let operations = Field::new("applyOps", "applyOps").documents(nested)?;
            operations.into_iter().try_for_each(|operation| apply(call, operation, depth + 1))
        }
        // in an oplog the index fields are at the same level as the collection
        Some(("createIndexes", ValueRef::String(collection))) if o.get("indexes").is_none() => {
            let index: DocBuf = o.iter().skip(1).collect();
            let indexes: ArrayBuf = [&index].into_iter().collect();
            perform(call, db, &DocBuf::new().with("createIndexes", collection).with("indexes", &indexes)).map(drop)
        }
        // the end of a build says all that its beginning did
        Some(("startIndexBuild" | "abortIndexBuild", _)) => Ok(()),
        Some(("commitIndexBuild", ValueRef::String(collection))) => {
            let indexes = o.get("indexes").ok_or_else(|| Field::new("commitIndexBuild", "indexes").missing())?;
            perform(call, db, &DocBuf::new().with("createIndexes", collection).with("indexes", indexes)).map(drop)
        }
        Some(("renameCollection", _)) => perform(call, "admin", &o.to_buf()).map(drop),
        Some((
            "create" | "drop" | "dropDatabase" | "dropIndexes" | "deleteIndexes" | "collMod" | "convertToCapped",
            _,
        )) => perform(call, db, &o.to_buf()).map(drop),
        Some((name, _)) => Err(Error::new(Code::BAD_VALUE, format!("applyOps cannot run the command '{name}'"))),
        None => Err(Error::failed_to_parse("an empty command in applyOps")),
    }
}

/// Runs a command as a part of this one. Errors of its statements are errors.
fn perform(call: &mut Call<'_>, db: &str, body: &DocBuf) -> Result<DocBuf> {
    let name = body.as_doc().first().map_or("", |(name, _)| name);
    let unknown = || Error::new(Code::COMMAND_NOT_FOUND, format!("no such command: '{name}'"));
    let (info, run, _) = registry::find(name).ok_or_else(unknown)?;
    let mut part = Call {
        server: call.server,
        connection: &mut *call.connection,
        info,
        db,
        body: body.as_doc(),
        sequences: &[],
        generic: call.generic,
        session: None,
        statements: None,
        is_of_old_client: call.is_of_old_client,
        interrupt: call.interrupt.clone(),
        last_commit: call.last_commit,
        view: None,
        owned_view: None,
        sharded: None,
        routed_time: None,
        waited_until: None,
        wait_until: None,
        reply: DocBuf::new(),
        reply_memory: None,
        plan: Plan::default(),
    };
    run(&mut part)?;
    let reply = part.reply;
    match reply.get("writeErrors") {
        Some(ValueRef::Array(errors)) => Err(first_of(errors)),
        _ => Ok(reply),
    }
}

fn first_of(errors: arbor_bson::Array<'_>) -> Error {
    let Some(ValueRef::Document(first)) = errors.get(0) else { return Error::bad_value("the statement failed") };
    let code = if let Some(ValueRef::Int32(code)) = first.get("code") { Code(code) } else { Code::BAD_VALUE };
    let text = if let Some(ValueRef::String(text)) = first.get("errmsg") { text } else { "" };
    Error::new(code, text)
}
