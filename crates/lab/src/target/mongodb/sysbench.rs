//! sysbench's statements: one template per table and statement.

use arbor_bson::{DocBuf, ValueRef};
use arbor_client::Client;

use super::{array, insert_many, read, write};
use crate::target::Failure;
use crate::target::template::{INT_HOLES, Template, text_hole};
use crate::workload::{C_BYTES, Columns, PAD_BYTES, Row, Statement, Tables};

const DATABASE: &str = Tables::DATABASE;

/// The commands on one table.
struct Templates {
    point_all: Template,
    point_c: Template,
    range: Template,
    order: Template,
    distinct: Template,
    index_update: Template,
    non_index_update: Template,
    delete: Template,
    insert: Template,
}

fn table_name(table: u32) -> String {
    format!("sbtest{table}")
}

impl Templates {
    fn of_table(table: u32) -> Templates {
        let name = table_name(table);
        let [first, second] = INT_HOLES;
        let over = |command: &str| DocBuf::new().with(command, name.as_str());
        let in_db = |command: DocBuf| Template::new(command.with("$db", DATABASE));
        let by_id = DocBuf::new().with("_id", first);
        let range = id_range();
        let only_c = DocBuf::new().with("c", 1).with("_id", 0);
        let find_one = || over("find").with("filter", &by_id);
        let find_range = || over("find").with("filter", &range).with("projection", &only_c);
        let update = |change: DocBuf| {
            let statement = DocBuf::new().with("q", &by_id).with("u", &change);
            over("update").with("updates", &array(&[statement])).with("ordered", true)
        };
        // The driver's remove({_id: x}) puts no limit.
        let delete = DocBuf::new().with("q", &by_id).with("limit", 0);
        let row = DocBuf::new()
            .with("_id", first)
            .with("k", second)
            .with("c", text_hole(C_BYTES).as_str())
            .with("pad", text_hole(PAD_BYTES).as_str());
        let set_c = DocBuf::new().with("c", text_hole(C_BYTES).as_str());
        Templates {
            point_all: in_db(find_one().with("limit", 1).with("singleBatch", true)),
            point_c: in_db(find_one().with("projection", &only_c).with("limit", 1).with("singleBatch", true)),
            range: in_db(find_range()),
            order: in_db(find_range().with("sort", &DocBuf::new().with("c", 1))),
            distinct: in_db(over("distinct").with("key", "c").with("query", &range)),
            index_update: in_db(update(DocBuf::new().with("$inc", &DocBuf::new().with("k", 1)))),
            non_index_update: in_db(update(DocBuf::new().with("$set", &set_c))),
            delete: in_db(over("delete").with("deletes", &array(&[delete])).with("ordered", true)),
            insert: in_db(over("insert").with("documents", &array(&[row])).with("ordered", true)),
        }
    }
}

/// The point query of all columns on a table, as other targets send it too.
pub(in crate::target) fn point_command(table: u32) -> Template {
    Templates::of_table(table).point_all
}

fn id_range() -> DocBuf {
    let [first, second] = INT_HOLES;
    DocBuf::new().with("_id", &DocBuf::new().with("$gte", first).with("$lte", second))
}

/// The row as it is loaded: `_id` is an int64 (spec/workloads.md 2.2).
pub(super) fn loaded_document(row: &Row) -> DocBuf {
    DocBuf::new().with("_id", row.id).with("k", row.k).with("c", row.c.as_str()).with("pad", row.pad.as_str())
}

/// Connection state of sysbench.
#[derive(Default)]
pub(super) struct Sysbench {
    /// Templates by table number, made on first use.
    templates: Vec<Option<Box<Templates>>>,
    documents: Vec<DocBuf>,
}

impl Sysbench {
    /// Sends a point query. Returns false if the statement is none.
    pub(super) fn send(&mut self, client: &mut Client, statement: &Statement<'_>) -> Result<bool, Failure> {
        let Statement::Point { table, id, columns } = *statement else { return Ok(false) };
        let of = templates_of(&mut self.templates, table);
        let point = if columns == Columns::All { &mut of.point_all } else { &mut of.point_c };
        client.request(point.with_ints(&[id]))?;
        Ok(true)
    }

    pub(super) fn execute(&mut self, client: &mut Client, statement: &Statement<'_>) -> Result<u64, Failure> {
        let table = statement.table();
        let of = templates_of(&mut self.templates, table);
        match *statement {
            Statement::Point { id, columns: Columns::All, .. } => read(client, of.point_all.with_ints(&[id])),
            Statement::Point { id, columns: Columns::C, .. } => read(client, of.point_c.with_ints(&[id])),
            Statement::Range { ids, .. } => read(client, of.range.with_ints(&[ids.from, ids.to])),
            Statement::Order { ids, .. } => read(client, of.order.with_ints(&[ids.from, ids.to])),
            Statement::Sum { ids, name, .. } => read(client, sum_command(table, ids.from, ids.to, name).as_bytes()),
            Statement::Distinct { ids, .. } => {
                let reply = client.call(of.distinct.with_ints(&[ids.from, ids.to]))?;
                match reply.doc.get("values") {
                    Some(ValueRef::Array(values)) => Ok(values.len() as u64),
                    _ => Err(Failure::answer("distinct without values")),
                }
            }
            Statement::IndexUpdate { id, .. } => write(client, of.index_update.with_ints(&[id])),
            Statement::NonIndexUpdate { id, c, .. } => write(client, of.non_index_update.with(&[id], &[c])),
            Statement::Delete { id, .. } => write(client, of.delete.with_ints(&[id])),
            Statement::Insert { row, .. } => {
                write(client, of.insert.with(&[row.id as i32, row.k], &[&row.c, &row.pad]))
            }
            Statement::InsertRows { rows, .. } => {
                self.documents.clear();
                self.documents.extend(rows.iter().map(loaded_document));
                insert_many(client, DATABASE, &table_name(table), true, &self.documents)
            }
        }
    }
}

/// Returns the templates of a table; not a method, so that the client can be borrowed at the same time.
fn templates_of(all: &mut Vec<Option<Box<Templates>>>, table: u32) -> &mut Templates {
    let index = table as usize;
    if all.len() <= index {
        all.resize_with(index + 1, || None);
    }
    all[index].get_or_insert_with(|| Box::new(Templates::of_table(table)))
}

fn sum_command(table: u32, from: i32, to: i32, name: &str) -> DocBuf {
    let range = DocBuf::new().with("_id", &DocBuf::new().with("$gte", from).with("$lte", to));
    let project = DocBuf::new().with("k", 1).with("_id", 0);
    let group = DocBuf::new().with("_id", ValueRef::Null).with(name, &DocBuf::new().with("$sum", "$k"));
    let pipeline = array(&[
        DocBuf::new().with("$match", &range),
        DocBuf::new().with("$project", &project),
        DocBuf::new().with("$group", &group),
    ]);
    DocBuf::new()
        .with("aggregate", table_name(table).as_str())
        .with("pipeline", &pipeline)
        .with("cursor", &DocBuf::new())
        .with("$db", DATABASE)
}

#[cfg(test)]
mod tests {
    use arbor_bson::Doc;

    use super::*;
    use crate::workload::Random;

    #[test]
    fn documents_have_the_sizes_of_sysbench() {
        let row = Row::random(1, 1000, &mut Random::new(1));
        assert_eq!(loaded_document(&row).as_bytes().len(), 221);
        let mut templates = Templates::of_table(1);
        let insert = Doc::parse(templates.insert.with(&[1, 2], &[&row.c, &row.pad])).unwrap();
        let Some(ValueRef::Array(documents)) = insert.get("documents") else { panic!("{insert:?}") };
        let Some(ValueRef::Document(document)) = documents.get(0) else { panic!("{insert:?}") };
        assert_eq!(document.as_bytes().len(), 217);
        assert!(matches!(document.get("_id"), Some(ValueRef::Int32(1))));
        assert!(matches!(document.get("pad"), Some(ValueRef::String(pad)) if pad == row.pad));
    }

    #[test]
    fn templates_equal_the_commands_they_replace() {
        let mut templates = Templates::of_table(3);
        let expected = DocBuf::new()
            .with("find", "sbtest3")
            .with("filter", &DocBuf::new().with("_id", &DocBuf::new().with("$gte", 5).with("$lte", 104)))
            .with("projection", &DocBuf::new().with("c", 1).with("_id", 0))
            .with("$db", "sbtest");
        assert_eq!(templates.range.with_ints(&[5, 104]), expected.as_bytes());
        let set = DocBuf::new().with("$set", &DocBuf::new().with("c", "z".repeat(119).as_str()));
        let statement = DocBuf::new().with("q", &DocBuf::new().with("_id", 9)).with("u", &set);
        let expected = DocBuf::new()
            .with("update", "sbtest3")
            .with("updates", &array(&[statement]))
            .with("ordered", true)
            .with("$db", "sbtest");
        assert_eq!(templates.non_index_update.with(&[9], &[&"z".repeat(119)]), expected.as_bytes());
    }
}
