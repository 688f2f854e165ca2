//! Statements of Percona's sysbench that differ from sysbench-mongodb's (spec/workloads.md 3.1, 3.2).

use arbor_bson::{ArrayBuf, DocBuf, ValueRef};
use arbor_client::Client;

use super::{array, insert_many, integer, written};
use crate::target::Failure;
use crate::workload::percona::PerconaStatement;
use crate::workload::{Range, Row, Tables};

type Result<T> = std::result::Result<T, Failure>;

const DATABASE: &str = Tables::DATABASE;

fn doc() -> DocBuf {
    DocBuf::new()
}

fn table_name(table: u32) -> String {
    format!("sbtest{table}")
}

fn between(ids: Range) -> DocBuf {
    doc().with("_id", &doc().with("$gte", ids.from).with("$lte", ids.to))
}

/// Returns a filter of the range without its ends.
fn inside(ids: Range) -> DocBuf {
    doc().with("_id", &doc().with("$gt", ids.from).with("$lt", ids.to))
}

pub(super) fn execute(client: &mut Client, statement: &PerconaStatement<'_>) -> Result<u64> {
    match *statement {
        PerconaStatement::FirstOf { table, ids, by_k } => first_of(client, &table_name(table), ids, by_k),
        PerconaStatement::SumOfText { table, ids } => {
            let group = doc().with("_id", ValueRef::Null).with("total", &doc().with("$sum", "k"));
            aggregate(client, table, &[doc().with("$match", &inside(ids)), doc().with("$group", &group)])
        }
        PerconaStatement::DistinctK { table, ids } => {
            let command = doc().with("distinct", table_name(table).as_str()).with("key", "k");
            let reply = client.command(DATABASE, &command.with("query", &inside(ids)))?;
            match reply.doc.get("values") {
                Some(ValueRef::Array(values)) => Ok(values.len() as u64),
                _ => Err(Failure::answer("distinct without values")),
            }
        }
        PerconaStatement::SetConstant { table, id } => {
            let change = doc().with("$set", &doc().with("c", "hello there"));
            let statement = doc().with("q", &doc().with("_id", id)).with("u", &change);
            let command = doc().with("update", table_name(table).as_str()).with("updates", &array(&[statement]));
            written(client.command(DATABASE, &command.with("ordered", true))?)
        }
        PerconaStatement::Replace { table, row } => find_and_modify(client, table, row, &document(row)),
        PerconaStatement::Upsert { table, row } => {
            let fields = doc().with("k", row.k).with("c", row.c.as_str()).with("pad", row.pad.as_str());
            find_and_modify(client, table, row, &doc().with("$set", &fields))
        }
        PerconaStatement::Sum { table, ids } => {
            let group = doc().with("_id", ValueRef::Null).with("sum", &doc().with("$sum", "$k"));
            let project = doc().with("_id", 0).with("sum", 1);
            let stages = [("$match", between(ids)), ("$group", group), ("$project", project)];
            aggregate(client, table, &stages.map(|(name, stage)| doc().with(name, &stage)))
        }
        PerconaStatement::Order { table, ids } => {
            let by_c = || doc().with("c", 1);
            let stages = [("$match", between(ids)), ("$sort", by_c()), ("$project", by_c())];
            aggregate(client, table, &stages.map(|(name, stage)| doc().with(name, &stage)))
        }
        PerconaStatement::Distinct { table, ids } => {
            let stages =
                [("$match", between(ids)), ("$group", doc().with("_id", "$c")), ("$sort", doc().with("_id", -1))];
            aggregate(client, table, &stages.map(|(name, stage)| doc().with(name, &stage)))
        }
        PerconaStatement::Load { table, rows, one_by_one } => load(client, &table_name(table), rows, one_by_one),
    }
}

/// Reads one document of a range and closes the cursor.
fn first_of(client: &mut Client, table: &str, ids: Range, by_k: bool) -> Result<u64> {
    let projection = doc().with("c", 1).with("_id", 0);
    let mut find = doc().with("find", table).with("filter", &between(ids)).with("projection", &projection);
    if by_k {
        find.append("sort", &doc().with("k", 1));
    }
    let reply = client.command(DATABASE, &find)?;
    let Some(ValueRef::Document(cursor)) = reply.doc.get("cursor") else {
        return Err(Failure::answer("find without a cursor"));
    };
    let found = matches!(cursor.get("firstBatch"), Some(ValueRef::Array(batch)) if batch.get(0).is_some());
    let id = integer(cursor.get("id")).unwrap_or(0);
    if id != 0 {
        let cursors: ArrayBuf = [id].into_iter().collect();
        client.command(DATABASE, &doc().with("killCursors", table).with("cursors", &cursors))?;
    }
    Ok(found.into())
}

fn aggregate(client: &mut Client, table: u32, pipeline: &[DocBuf]) -> Result<u64> {
    let command = doc().with("aggregate", table_name(table).as_str()).with("pipeline", &array(pipeline));
    Ok(client.find(DATABASE, &command.with("cursor", &doc()), |_| {})? as u64)
}

fn find_and_modify(client: &mut Client, table: u32, row: &Row, change: &DocBuf) -> Result<u64> {
    let by_id = doc().with("_id", row.id as i32);
    let command = doc().with("findAndModify", table_name(table).as_str()).with("query", &by_id);
    client.command(DATABASE, &command.with("update", change).with("upsert", true))?;
    Ok(1)
}

fn load(client: &mut Client, table: &str, rows: &[Row], one_by_one: bool) -> Result<u64> {
    let documents: Vec<DocBuf> = rows.iter().map(document).collect();
    if !one_by_one {
        return insert_many(client, DATABASE, table, false, &documents);
    }
    documents.iter().map(|document| insert_many(client, DATABASE, table, true, std::slice::from_ref(document))).sum()
}

fn document(row: &Row) -> DocBuf {
    doc().with("_id", row.id as i32).with("k", row.k).with("c", row.c.as_str()).with("pad", row.pad.as_str())
}
