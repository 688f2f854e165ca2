//! sysbench's statements on a sharded collection, and the collection's chunks (spec/workloads.md section 5).

use arbor_bson::{DocBuf, ValueRef};
use arbor_client::Client;
use serde_json::Value;

use super::{array, insert_many, read, written};
use crate::target::{ChunkMove, Failure, Stored};
use crate::workload::sharded::{COLLECTION, DATABASE};
use crate::workload::{Collection, Columns, Range, Row, Sharding, Statement};

type Result<T> = std::result::Result<T, Failure>;

fn doc() -> DocBuf {
    DocBuf::new()
}

fn one(table: u32, id: i32) -> DocBuf {
    doc().with("collectionId", table as i32).with("documentId", id)
}

fn several(table: u32, ids: Range) -> DocBuf {
    let numbers = doc().with("$gte", ids.from).with("$lte", ids.to);
    doc().with("collectionId", table as i32).with("documentId", &numbers)
}

fn document(table: u32, row: &Row) -> DocBuf {
    doc()
        .with("_id", (i64::from(table) << 32) + row.id)
        .with("collectionId", table as i32)
        .with("documentId", row.id as i32)
        .with("k", row.k)
        .with("c", row.c.as_str())
        .with("pad", row.pad.as_str())
}

/// Executes a statement; its table is the collection number.
pub(super) fn execute(client: &mut Client, statement: &Statement<'_>) -> Result<u64> {
    let only_c = || doc().with("c", 1).with("_id", 0);
    let find = |filter: &DocBuf| doc().with("find", COLLECTION).with("filter", filter);
    let table = statement.table();
    match *statement {
        Statement::Point { id, columns, .. } => {
            let mut find = find(&one(table, id));
            if columns == Columns::C {
                find.append("projection", &only_c());
            }
            cursor(client, find.with("limit", 1).with("singleBatch", true))
        }
        Statement::Range { ids, .. } => cursor(client, find(&several(table, ids)).with("projection", &only_c())),
        Statement::Order { ids, .. } => {
            let find = find(&several(table, ids)).with("projection", &only_c());
            cursor(client, find.with("sort", &doc().with("c", 1)))
        }
        Statement::Sum { ids, name, .. } => {
            let group = doc().with("_id", ValueRef::Null).with(name, &doc().with("$sum", "$k"));
            let stages =
                [("$match", several(table, ids)), ("$project", doc().with("k", 1).with("_id", 0)), ("$group", group)];
            let pipeline = array(&stages.map(|(name, stage)| doc().with(name, &stage)));
            cursor(client, doc().with("aggregate", COLLECTION).with("pipeline", &pipeline).with("cursor", &doc()))
        }
        Statement::Distinct { ids, .. } => {
            let command = doc().with("distinct", COLLECTION).with("key", "c").with("query", &several(table, ids));
            let reply = client.command(DATABASE, &command)?;
            match reply.doc.get("values") {
                Some(ValueRef::Array(values)) => Ok(values.len() as u64),
                _ => Err(Failure::answer("distinct without values")),
            }
        }
        Statement::IndexUpdate { id, .. } => update(client, &one(table, id), &doc().with("$inc", &doc().with("k", 1))),
        Statement::NonIndexUpdate { id, c, .. } => {
            update(client, &one(table, id), &doc().with("$set", &doc().with("c", c)))
        }
        Statement::Delete { id, .. } => {
            let statement = doc().with("q", &one(table, id)).with("limit", 0);
            let command = doc().with("delete", COLLECTION).with("deletes", &array(&[statement]));
            written(client.command(DATABASE, &command.with("ordered", true))?)
        }
        Statement::Insert { row, .. } => insert_many(client, DATABASE, COLLECTION, true, &[document(table, row)]),
        Statement::InsertRows { rows, .. } => {
            let documents: Vec<DocBuf> = rows.iter().map(|row| document(table, row)).collect();
            insert_many(client, DATABASE, COLLECTION, true, &documents)
        }
    }
}

fn cursor(client: &mut Client, command: DocBuf) -> Result<u64> {
    read(client, command.with("$db", DATABASE).as_bytes())
}

fn update(client: &mut Client, query: &DocBuf, change: &DocBuf) -> Result<u64> {
    let statement = doc().with("q", query).with("u", change);
    let command = doc().with("update", COLLECTION).with("updates", &array(&[statement]));
    written(client.command(DATABASE, &command.with("ordered", true))?)
}

/// Shards a new, empty collection and lays its chunks on the shards in blocks, the balancer off.
pub(super) fn shard(client: &mut Client, collection: &Collection, sharding: &Sharding) -> Result<()> {
    let shards = shards(client)?;
    let namespace = format!("{}.{}", collection.database, collection.name);
    let key = sharding.key.iter().fold(doc(), |key, field| key.with(field, 1));
    client.command("admin", &doc().with("balancerStop", 1))?;
    client.command("admin", &doc().with("enableSharding", collection.database))?;
    client.command("admin", &doc().with("shardCollection", namespace.as_str()).with("key", &key))?;
    let at = |(first, second): (i32, i32)| doc().with(sharding.key[0], first).with(sharding.key[1], second);
    for split in &sharding.splits {
        client.command("admin", &doc().with("split", namespace.as_str()).with("middle", &at(*split)))?;
    }
    // The first chunk begins at the least key and is found by its first document.
    for first in std::iter::once(&(1, 1)).chain(&sharding.splits) {
        let shard = (first.0 - 1) as usize * shards.len() / sharding.groups.max(1) as usize;
        let Some(shard) = shards.get(shard) else { continue };
        let command = doc().with("moveChunk", namespace.as_str()).with("find", &at(*first)).with("to", shard.as_str());
        client.command("admin", &command)?;
    }
    Ok(())
}

/// `shard:0` in a script's command is the first shard's name, whatever it is called.
pub(super) fn with_shard_names(client: &mut Client, command: &[(String, Value)]) -> Result<Vec<(String, Value)>> {
    let mut command = command.to_vec();
    for (_, value) in &mut command {
        let number = value.as_str().and_then(|text| text.strip_prefix("shard:")?.parse::<usize>().ok());
        if let Some(number) = number {
            let shards = shards(client)?;
            let missing = || Failure::answer(&format!("there are {} shards, none with number {number}", shards.len()));
            *value = shards.get(number).ok_or_else(missing)?.as_str().into();
        }
    }
    Ok(command)
}

/// Reads the moves of a collection from `config.changelog`.
pub(super) fn moves(client: &mut Client, collection: &Collection) -> Result<Vec<ChunkMove>> {
    let namespace = format!("{}.{}", collection.database, collection.name);
    let filter = doc().with("what", "moveChunk.commit").with("ns", namespace.as_str());
    let find = doc().with("find", "changelog").with("filter", &filter).with("sort", &doc().with("time", 1));
    let mut moves = Vec::new();
    client.find("config", &find, |row| {
        let Some(ValueRef::Document(details)) = row.get("details") else { return };
        let counts = match details.get("counts") {
            Some(ValueRef::Document(counts)) => counts,
            _ => details,
        };
        moves.push(ChunkMove {
            critical_ms: number(details.get("criticalSectionMicros")).map(|micros| micros / 1000.0),
            documents: number(details.get("clonedDocs")).or(number(counts.get("cloned"))),
            throttled_ms: number(details.get("throttledMS")),
        });
    })?;
    Ok(moves)
}

/// Adds up what `validate` counts on each shard.
pub(super) fn validate(client: &mut Client, collection: &Collection) -> Result<Stored> {
    let reply = client.command(collection.database, &doc().with("validate", collection.name.as_str()))?;
    let Some(ValueRef::Document(raw)) = reply.doc.get("raw") else {
        return Err(Failure::answer("validate without the shards' replies"));
    };
    let mut stored = Stored::default();
    for (_, shard) in raw {
        let ValueRef::Document(shard) = shard else { continue };
        if !matches!(shard.get("valid"), Some(ValueRef::Bool(true))) {
            return Err(Failure::answer(&format!("the collection is not valid: {shard}")));
        }
        stored.documents += number(shard.get("nrecords")).unwrap_or(0.0) as u64;
        let Some(ValueRef::Document(indexes)) = shard.get("keysPerIndex") else { continue };
        stored.index_entries += indexes.iter().filter_map(|(_, count)| number(Some(count))).sum::<f64>() as u64;
    }
    Ok(stored)
}

fn number(value: Option<ValueRef<'_>>) -> Option<f64> {
    match value? {
        ValueRef::Int32(number) => Some(number.into()),
        ValueRef::Int64(number) => Some(number as f64),
        ValueRef::Double(number) => Some(number),
        _ => None,
    }
}

/// Returns the names of the shards, in their order.
pub(super) fn shards(client: &mut Client) -> Result<Vec<String>> {
    let reply = client.command("admin", &doc().with("listShards", 1)).map_err(|error| {
        let failure = Failure::from(error);
        let message = format!("sharding needs a mongos ({}); the setting sharded: false does without", failure.message);
        Failure { message, ..failure }
    })?;
    let mut names = Vec::new();
    if let Some(ValueRef::Array(shards)) = reply.doc.get("shards") {
        for shard in shards.iter() {
            if let ValueRef::Document(shard) = shard
                && let Some(ValueRef::String(name)) = shard.get("_id")
            {
                names.push(name.to_owned());
            }
        }
    }
    names.sort();
    if names.is_empty() { Err(Failure::answer("listShards names no shard")) } else { Ok(names) }
}
