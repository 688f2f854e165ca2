//! `addPartition`, `convertToPartitioned`, `dropPartition` and `getPartitionInfo` (TokuMX).

use arbor_bson::{ArrayBuf, Code, DocBuf, ValueRef};
use arbor_protocol::arguments::Field;
use arbor_store::{Namespace, PartitionsDropped};

use crate::call::Call;
use crate::{Error, Result};

pub(crate) fn convert(call: &mut Call<'_>) -> Result<()> {
    call.only(&[])?;
    let namespace = existing(call)?;
    refuse_unfit(call, &namespace)?;
    Ok(call.database().store.convert_to_partitioned(&namespace)?)
}

pub(crate) fn add(call: &mut Call<'_>) -> Result<()> {
    call.only(&["newMax", "info"])?;
    let namespace = existing(call)?;
    refuse_unfit(call, &namespace)?;
    let max = call.optional("newMax").map(|max| id_in(call.field("newMax"), max)).transpose()?;
    let info = call.optional("info").map(|info| call.field("info").document(info)).transpose()?;
    Ok(call.database().store.add_partition(&namespace, max, info)?)
}

pub(crate) fn drop(call: &mut Call<'_>) -> Result<()> {
    call.only(&["id", "max"])?;
    let namespace = existing(call)?;
    refuse_unfit(call, &namespace)?;
    let which = match (call.optional("id"), call.optional("max")) {
        (Some(id), None) => PartitionsDropped::Id(call.field("id").integer(id)?),
        (None, Some(max)) => PartitionsDropped::Through(id_in(call.field("max"), max)?),
        _ => return Err(Error::new(Code::INVALID_OPTIONS, "dropPartition needs either an id or a max")),
    };
    call.database().store.drop_partitions(&namespace, which)?;
    Ok(())
}

pub(crate) fn info(call: &mut Call<'_>) -> Result<()> {
    call.only(&[])?;
    let namespace = existing(call)?;
    let collection = call.database().store.collection(&namespace);
    let Some(collection) = collection.filter(|own| !own.partitions.is_empty()) else {
        return Err(Error::new(Code::ILLEGAL_OPERATION, format!("{namespace} is not partitioned")));
    };
    let open = DocBuf::new().with("_id", ValueRef::MaxKey);
    let mut partitions = ArrayBuf::new();
    for own in collection.partitions.iter() {
        let max = own.max.as_ref().map_or(&open, |max| &max.doc);
        let mut doc = DocBuf::new().with("_id", own.id).with("max", max);
        doc.append("createTime", ValueRef::DateTime(own.created_ms));
        if let Some(info) = &own.info {
            doc.append("info", info);
        }
        partitions.push(&doc);
    }
    call.reply.append("numPartitions", collection.partitions.len() as i64).append("partitions", &partitions);
    Ok(())
}

fn existing(call: &Call<'_>) -> Result<Namespace> {
    let namespace = call.namespace()?;
    let store = &call.database().store;
    if store.collection(&namespace).is_none() {
        store.refuse_view(&namespace)?;
        return Err(Error::new(Code::NAMESPACE_NOT_FOUND, format!("ns not found: {namespace}")));
    }
    Ok(namespace)
}

/// Refuses names and servers with which a collection cannot be partitioned.
pub(crate) fn refuse_unfit(call: &Call<'_>, namespace: &Namespace) -> Result<()> {
    let refused = |why| Err(Error::new(Code::ILLEGAL_OPERATION, format!("{namespace} cannot be partitioned: {why}")));
    if call.server.is_shard() {
        return refused("the server is a shard, and moves between shards know no partitions");
    }
    if namespace.is_system() || namespace.is_buckets() {
        return refused("it is a collection of the server");
    }
    Ok(())
}

/// The value of `{_id: value}`.
fn id_in<'v>(field: Field<'_>, value: ValueRef<'v>) -> Result<ValueRef<'v>> {
    let given = field.document(value)?;
    let mut fields = given.iter();
    match (fields.next(), fields.next()) {
        (Some(("_id", ValueRef::Array(_) | ValueRef::Regex { .. } | ValueRef::Undefined)), None) => {
            Err(Error::bad_value("an _id can be no array, no regular expression and not undefined"))
        }
        (Some(("_id", id)), None) => Ok(id),
        _ => Err(Error::bad_value("a maximum is a document with the field _id alone")),
    }
}
