//! Legacy requests as commands, so that `command` stays unaware of them.
//!
//! | opcode | command |
//! |---|---|
//! | OP_QUERY on `db.$cmd` | the query document itself (out of `$query`, if wrapped) |
//! | OP_QUERY on `db.$cmd.sys.inprog`, `killop`, `unlock` | currentOp, killOp, fsyncUnlock on admin |
//! | OP_QUERY | find, or explain of find when `$explain` is set |
//! | OP_GET_MORE | getMore |
//! | OP_INSERT | insert; into `system.indexes`: createIndexes |
//! | OP_UPDATE, OP_DELETE | update, delete with one statement |
//! | OP_KILL_CURSORS | killCursors on `admin`, collection `$legacy`: the opcode names no namespace |

use arbor_bson::{ArrayBuf, Doc, DocBuf, ValueRef};

use super::{Back, Delete, GetMore, Insert, KillCursors, Query, Update, flag};
use crate::error::code;
use crate::{Body, Operation, Sequence};

/// A legacy request as a command.
#[derive(Debug)]
pub struct Translated<'a> {
    pub db: &'a str,
    pub body: Body<'a>,
    pub sequences: Vec<Sequence<'a>>,
}

/// MongoDB's number and text when a request has no command that says it.
type Untranslatable = (i32, String);

/// Gives a legacy request the shape of a command. OP_MSG is one already and is refused.
pub fn to_command<'a>(operation: &Operation<'a>) -> Result<Translated<'a>, Untranslatable> {
    match operation {
        Operation::Query(query) => from_query(query),
        Operation::GetMore(get_more) => from_get_more(get_more),
        Operation::Insert(insert) => from_insert(insert),
        Operation::Update(update) => from_update(update),
        Operation::Delete(delete) => from_delete(delete),
        Operation::KillCursors(kill) => Ok(from_kill_cursors(kill)),
        Operation::Message(_) => Err((code::PROTOCOL_ERROR, "OP_MSG is not a legacy message".to_owned())),
    }
}

fn owned<'a>(db: &'a str, body: DocBuf) -> Translated<'a> {
    Translated { db, body: Body::Owned(body), sequences: Vec::new() }
}

fn split(namespace: &str) -> Result<(&str, &str), Untranslatable> {
    namespace
        .split_once('.')
        .filter(|(db, collection)| !db.is_empty() && !collection.is_empty())
        .ok_or_else(|| (code::INVALID_NAMESPACE, format!("Invalid namespace specified '{namespace}'")))
}

impl<'a> Query<'a> {
    /// The command of a query on `$cmd`; `None` for a query on a collection.
    pub fn command(&self) -> Option<Doc<'a>> {
        let (_, collection) = self.namespace.split_once('.')?;
        (collection == "$cmd").then(|| self.unwrapped())
    }

    /// Returns the translation of the reply.
    pub fn back(&self) -> Back {
        let pseudo = self.namespace.split_once('.').is_some_and(|(_, collection)| collection.starts_with("$cmd"));
        if pseudo || self.explains() { Back::Command } else { Back::Cursor }
    }

    /// The document without the `$query` (or, as old shells wrote, `query`) around it.
    fn unwrapped(&self) -> Doc<'a> {
        self.wrapped().unwrap_or(self.query)
    }

    fn wrapped(&self) -> Option<Doc<'a>> {
        let first = self.query.first().filter(|(name, _)| *name == "query").map(|(_, value)| value);
        match first.or_else(|| self.query.get("$query")) {
            Some(ValueRef::Document(inner)) => Some(inner),
            _ => None,
        }
    }

    fn explains(&self) -> bool {
        self.wrapped().is_some() && self.query.get("$explain").is_some_and(truthy)
    }
}

fn truthy(value: ValueRef<'_>) -> bool {
    match value {
        ValueRef::Bool(value) => value,
        ValueRef::Int32(value) => value != 0,
        ValueRef::Int64(value) => value != 0,
        ValueRef::Double(value) => value != 0.0,
        _ => false,
    }
}

fn from_query<'a>(query: &Query<'a>) -> Result<Translated<'a>, Untranslatable> {
    if query.flags & flag::QUERY_EXHAUST != 0 {
        return Err((code::BAD_VALUE, "OP_QUERY with the exhaust flag is not supported".to_owned()));
    }
    let (db, collection) = split(query.namespace)?;
    let pseudo = |name: &str| owned("admin", command_over(name, query.unwrapped()));
    match collection {
        "$cmd" => Ok(Translated { db, body: Body::Borrowed(query.unwrapped()), sequences: Vec::new() }),
        "$cmd.sys.inprog" => Ok(pseudo("currentOp")),
        "$cmd.sys.killop" => Ok(pseudo("killOp")),
        "$cmd.sys.unlock" => Ok(pseudo("fsyncUnlock")),
        _ if query.explains() => {
            let find = find_command(query, collection);
            Ok(owned(db, DocBuf::new().with("explain", &find)))
        }
        _ => Ok(owned(db, find_command(query, collection))),
    }
}

/// `{name: 1, ...fields}`.
fn command_over(name: &str, fields: Doc<'_>) -> DocBuf {
    let mut command = DocBuf::new().with(name, 1);
    for (field, value) in fields {
        command.append(field, value);
    }
    command
}

fn find_command(query: &Query<'_>, collection: &str) -> DocBuf {
    let mut find = DocBuf::new().with("find", collection).with("filter", query.unwrapped());
    if let Some(projection) = query.projection.filter(|projection| !projection.is_empty()) {
        find.append("projection", projection);
    }
    if query.wrapped().is_some() {
        for (name, value) in query.query {
            if let Some(field) = find_field(name) {
                find.append(field, value);
            }
        }
    }
    if query.skip != 0 {
        find.append("skip", query.skip);
    }
    append_limit(query.number_to_return, &mut find);
    for (bit, field) in [
        (flag::QUERY_TAILABLE, "tailable"),
        (flag::QUERY_AWAIT_DATA, "awaitData"),
        (flag::QUERY_NO_CURSOR_TIMEOUT, "noCursorTimeout"),
        (flag::QUERY_PARTIAL, "allowPartialResults"),
    ] {
        if query.flags & bit != 0 {
            find.append(field, true);
        }
    }
    find
}

/// Returns the find field for a modifier at the level of `$query`. `$snapshot` and `$maxScan` were removed in MongoDB 4.0 and 4.2;
/// the first is the default behaviour of a find, the second was a guard.
fn find_field(modifier: &str) -> Option<&'static str> {
    Some(match modifier {
        "$orderby" | "orderby" => "sort",
        "$hint" => "hint",
        "$min" => "min",
        "$max" => "max",
        "$returnKey" => "returnKey",
        "$showDiskLoc" => "showRecordId",
        "$maxTimeMS" => "maxTimeMS",
        "$comment" => "comment",
        "$readPreference" => "$readPreference",
        _ => return None,
    })
}

/// A negative number is a limit answered in one batch, and so is 1; other numbers are only the first batch's size.
fn append_limit(number_to_return: i32, find: &mut DocBuf) {
    match number_to_return {
        0 => {}
        1 | ..0 => {
            find.append("limit", i64::from(number_to_return.unsigned_abs())).append("singleBatch", true);
        }
        size => {
            find.append("batchSize", size);
        }
    }
}

fn from_get_more<'a>(get_more: &GetMore<'a>) -> Result<Translated<'a>, Untranslatable> {
    let (db, collection) = split(get_more.namespace)?;
    let mut command = DocBuf::new().with("getMore", get_more.cursor).with("collection", collection);
    if get_more.number_to_return != 0 {
        command.append("batchSize", i64::from(get_more.number_to_return.unsigned_abs()));
    }
    Ok(owned(db, command))
}

fn from_insert<'a>(insert: &Insert<'a>) -> Result<Translated<'a>, Untranslatable> {
    let (db, collection) = split(insert.namespace)?;
    if collection == "system.indexes" {
        return from_index_insert(db, insert);
    }
    let ordered = insert.flags & flag::INSERT_CONTINUE_ON_ERROR == 0;
    let body = DocBuf::new().with("insert", collection).with("ordered", ordered);
    Ok(Translated { db, body: Body::Owned(body), sequences: vec![insert.documents] })
}

/// Clients before `createIndexes` built an index by inserting its description, which names the collection in `ns`.
fn from_index_insert<'a>(db: &'a str, insert: &Insert<'a>) -> Result<Translated<'a>, Untranslatable> {
    let mut collection = None;
    let mut indexes = ArrayBuf::new();
    for description in insert.documents.iter() {
        let Some(ValueRef::String(namespace)) = description.get("ns") else {
            return Err((code::FAILED_TO_PARSE, "an index description needs the field ns".to_owned()));
        };
        let (_, name) = split(namespace)?;
        if *collection.get_or_insert(name) != name {
            return Err((code::BAD_VALUE, "index descriptions of several collections in one insert".to_owned()));
        }
        let index: DocBuf = description.iter().filter(|(field, _)| !matches!(*field, "ns" | "_id")).collect();
        indexes.push(&index);
    }
    Ok(owned(db, DocBuf::new().with("createIndexes", collection.unwrap_or_default()).with("indexes", &indexes)))
}

fn from_update<'a>(update: &Update<'a>) -> Result<Translated<'a>, Untranslatable> {
    let (db, collection) = split(update.namespace)?;
    let statement = DocBuf::new()
        .with("q", update.selector)
        .with("u", update.update)
        .with("upsert", update.flags & flag::UPDATE_UPSERT != 0)
        .with("multi", update.flags & flag::UPDATE_MULTI != 0);
    let updates: ArrayBuf = [&statement].into_iter().collect();
    Ok(owned(db, DocBuf::new().with("update", collection).with("updates", &updates)))
}

fn from_delete<'a>(delete: &Delete<'a>) -> Result<Translated<'a>, Untranslatable> {
    let (db, collection) = split(delete.namespace)?;
    let limit = i32::from(delete.flags & flag::DELETE_SINGLE != 0);
    let statement = DocBuf::new().with("q", delete.selector).with("limit", limit);
    let deletes: ArrayBuf = [&statement].into_iter().collect();
    Ok(owned(db, DocBuf::new().with("delete", collection).with("deletes", &deletes)))
}

fn from_kill_cursors<'a>(kill: &KillCursors<'a>) -> Translated<'a> {
    let cursors: ArrayBuf = kill.cursors().collect();
    owned("admin", DocBuf::new().with("killCursors", "$legacy").with("cursors", &cursors))
}
