//! `beginLoad`, `commitLoad` and `abortLoad` of TokuMX: a new collection with its indexes and documents, inside of a transaction of the
//! connection. Others see it after the commit of the transaction.
//!
//! COMPAT: documents go the way of all writes of a transaction, so that the oplog and change streams have them.

use arbor_bson::{Array, Code, Doc, DocBuf, ValueRef};
use arbor_store::{Namespace, OpenTransaction};

use crate::call::Call;
use crate::{Error, Result, registry};

/// Kinds of collections that a load does not make.
const REFUSED: &[&str] = &["capped", "partitioned", "pipeline", "timeseries", "viewOn"];

pub(crate) fn begin(call: &mut Call<'_>) -> Result<()> {
    let (mut name, mut indexes, mut options) = (None, None, None);
    for (field_name, value) in call.own_fields() {
        let field = call.field(field_name);
        match field_name {
            "ns" => name = Some(field.string(value)?),
            "indexes" => indexes = Some(field.array(value)?),
            "options" => options = Some(field.document(value)?),
            _ => return call.unknown(field),
        }
    }
    let Some(name) = name else { return Err(call.field("ns").missing().into()) };
    let namespace = Namespace::new(call.db, name)?;
    open(call)?.begin_load(&namespace)?;
    perform(call, create(name, options.unwrap_or(Doc::empty()))?)?;
    let specs = indexes.map(|indexes| specs(call, indexes)).transpose()?.unwrap_or_default();
    if !specs.is_empty() {
        let specs: arbor_bson::ArrayBuf = specs.iter().map(ValueRef::from).collect();
        perform(call, DocBuf::new().with("createIndexes", name).with("indexes", &specs))?;
    }
    call.reply.append("status", "load began");
    Ok(())
}

pub(crate) fn commit(call: &mut Call<'_>) -> Result<()> {
    call.only(&[])?;
    if !open(call)?.commit_load() {
        return Err(no_load(call));
    }
    call.reply.append("status", "load committed");
    Ok(())
}

pub(crate) fn abort(call: &mut Call<'_>) -> Result<()> {
    call.only(&[])?;
    if !open(call)?.abort_load() {
        return Err(no_load(call));
    }
    call.reply.append("status", "load aborted");
    Ok(())
}

fn no_load(call: &Call<'_>) -> Error {
    Error::new(Code::ILLEGAL_OPERATION, format!("{}: no load has begun on this connection", call.info.name))
}

/// The transaction of the connection.
fn open<'c>(call: &Call<'c>) -> Result<&'c OpenTransaction> {
    let bound = call.connection.bound.and_then(|_| call.scope().transaction());
    let text = format!("{} must be run within a transaction that was begun by beginTransaction", call.info.name);
    bound.ok_or_else(|| Error::new(Code::COMMAND_FAILED, text))
}

fn create(name: &str, options: Doc<'_>) -> Result<DocBuf> {
    let mut create = DocBuf::new().with("create", name);
    for (name, value) in options.iter() {
        let is_set = !matches!(value, ValueRef::Bool(false));
        match (name, value) {
            (name, _) if is_set && REFUSED.contains(&name) => {
                return Err(Error::new(Code::INVALID_OPTIONS, format!("a load makes no collection with '{name}'")));
            }
            // the key that all collections have
            ("primaryKey", ValueRef::Document(key)) if is_of_id(key) => {}
            ("primaryKey", _) => {
                let text = "a load makes no collection with another primaryKey than {_id: 1}";
                return Err(Error::new(Code::INVALID_OPTIONS, text));
            }
            (name, value) => drop(create.append(name, value)),
        }
    }
    Ok(create)
}

fn is_of_id(key: Doc<'_>) -> bool {
    key.iter().map(|(name, _)| name).eq(["_id"])
}

/// The specifications as `createIndexes` takes them: they are rows of `system.indexes`, with the namespace and the index of `_id`.
fn specs(call: &Call<'_>, indexes: Array<'_>) -> Result<Vec<DocBuf>> {
    let mut specs = Vec::new();
    for value in indexes.iter() {
        let spec = call.field("indexes").document(value)?;
        if matches!(spec.get("key"), Some(ValueRef::Document(key)) if is_of_id(key)) {
            continue;
        }
        specs.push(spec.iter().filter(|(name, _)| *name != "ns").collect());
    }
    Ok(specs)
}

/// Runs a command as a part of this one, in the same transaction.
fn perform(call: &mut Call<'_>, body: DocBuf) -> Result<()> {
    let name = body.as_doc().first().map_or("", |(name, _)| name);
    let Some((info, run, _)) = registry::find(name) else { unreachable!("{name} is a command") };
    let (session, db) = (call.session, call.db);
    let mut part = call.inside(info, db, body.as_doc());
    part.session = session;
    run(&mut part)
}
