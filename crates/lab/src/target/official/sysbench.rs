//! sysbench's statements.

use bson::{Bson, Document, doc};
use mongodb::sync::{Client, Collection as Handle, Cursor, Database};

use super::driver::Done;
use crate::workload::{Columns, Range, Row, Statement, Tables};

/// One thread's handles of sysbench's tables.
pub(super) struct Sysbench {
    database: Database,
    /// Collection handles by table number.
    tables: Vec<Option<Handle<Document>>>,
}

fn ids(range: Range) -> Document {
    doc! { "_id": { "$gte": range.from, "$lte": range.to } }
}

fn document(row: &Row) -> Document {
    doc! { "_id": row.id as i32, "k": row.k, "c": &row.c, "pad": &row.pad }
}

impl Sysbench {
    pub(super) fn new(client: &Client) -> Sysbench {
        Sysbench { database: client.database(Tables::DATABASE), tables: Vec::new() }
    }

    fn table(&mut self, table: u32) -> &Handle<Document> {
        let index = table as usize;
        if self.tables.len() <= index {
            self.tables.resize_with(index + 1, || None);
        }
        let database = &self.database;
        self.tables[index].get_or_insert_with(|| database.collection(&format!("sbtest{table}")))
    }

    pub(super) fn execute(&mut self, statement: &Statement<'_>) -> Done<u64> {
        let only_c = || doc! { "c": 1, "_id": 0 };
        let table = self.table(statement.table());
        Ok(match *statement {
            Statement::Point { id, columns: Columns::All, .. } => count(table.find_one(doc! { "_id": id }).run()?),
            Statement::Point { id, columns: Columns::C, .. } => {
                count(table.find_one(doc! { "_id": id }).projection(only_c()).run()?)
            }
            Statement::Range { ids: range, .. } => drained(table.find(ids(range)).projection(only_c()).run()?)?,
            Statement::Order { ids: range, .. } => {
                drained(table.find(ids(range)).projection(only_c()).sort(doc! { "c": 1 }).run()?)?
            }
            Statement::Sum { ids: range, name, .. } => drained(table.aggregate(sum(range, name)).run()?)?,
            Statement::Distinct { ids: range, .. } => table.distinct("c", ids(range)).run()?.len() as u64,
            Statement::IndexUpdate { id, .. } => {
                table.update_one(doc! { "_id": id }, doc! { "$inc": { "k": 1 } }).run()?.matched_count
            }
            Statement::NonIndexUpdate { id, c, .. } => {
                table.update_one(doc! { "_id": id }, doc! { "$set": { "c": c } }).run()?.matched_count
            }
            Statement::Delete { id, .. } => table.delete_many(doc! { "_id": id }).run()?.deleted_count,
            Statement::Insert { row, .. } => {
                table.insert_one(document(row)).run()?;
                1
            }
            Statement::InsertRows { rows, .. } => {
                let rows: Vec<Document> = rows.iter().map(document).collect();
                table.insert_many(rows).run()?.inserted_ids.len() as u64
            }
        })
    }
}

pub(super) fn count(found: Option<Document>) -> u64 {
    u64::from(found.is_some())
}

pub(super) fn drained(cursor: Cursor<Document>) -> Done<u64> {
    let mut documents = 0;
    for document in cursor {
        document?;
        documents += 1;
    }
    Ok(documents)
}

fn sum(range: Range, name: &str) -> Vec<Document> {
    let mut group = doc! { "_id": Bson::Null };
    group.insert(name, doc! { "$sum": "$k" });
    vec![doc! { "$match": ids(range) }, doc! { "$project": { "k": 1, "_id": 0 } }, doc! { "$group": group }]
}
