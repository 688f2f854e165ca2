//! YCSB's records in MongoDB (spec/workloads.md 8.1, 8.5).

use arbor_bson::{DocBuf, ValueRef};
use arbor_wire::client::Client;

use super::{array, insert_many, written};
use crate::target::Failure;
use crate::workload::ycsb::{COLLECTION, DATABASE, Record, YcsbOperation};

type Result<T> = std::result::Result<T, Failure>;

/// What a connection keeps for YCSB.
#[derive(Default)]
pub(super) struct Ycsb {
    documents: Vec<DocBuf>,
}

impl Ycsb {
    pub(super) fn execute(&mut self, client: &mut Client, operation: &YcsbOperation<'_>) -> Result<u64> {
        match *operation {
            YcsbOperation::Read { key, field } => {
                let mut find = DocBuf::new().with("find", COLLECTION).with("filter", &by_id(key));
                if let Some(field) = field {
                    find.append("projection", &DocBuf::new().with(field, 1));
                }
                Ok(client.find(DATABASE, &find.with("limit", 1).with("singleBatch", true), |_| {})? as u64)
            }
            YcsbOperation::Update { key, fields } => {
                let mut values = DocBuf::new();
                for (name, value) in fields {
                    values.append(name, binary(value));
                }
                let change = DocBuf::new().with("$set", &values);
                update(client, DocBuf::new().with("q", &by_id(key)).with("u", &change))
            }
            YcsbOperation::Insert(record) => self.insert(client, true, &[record]),
            YcsbOperation::Scan { key, limit } => {
                let from = DocBuf::new().with("_id", &DocBuf::new().with("$gte", key));
                let find = DocBuf::new().with("find", COLLECTION).with("filter", &from);
                let find = find.with("sort", &DocBuf::new().with("_id", 1)).with("limit", limit as i32);
                Ok(client.find(DATABASE, &find, |_| {})? as u64)
            }
            YcsbOperation::Load(records) => self.insert(client, false, records),
            YcsbOperation::LoadByReplacing(record) => {
                let statement = DocBuf::new().with("q", &by_id(record.key)).with("u", &document(&record));
                update(client, statement.with("upsert", true))
            }
        }
    }

    fn insert(&mut self, client: &mut Client, ordered: bool, records: &[Record<'_>]) -> Result<u64> {
        self.documents.clear();
        self.documents.extend(records.iter().map(document));
        insert_many(client, DATABASE, COLLECTION, ordered, &self.documents)
    }
}

fn update(client: &mut Client, statement: DocBuf) -> Result<u64> {
    let command = DocBuf::new().with("update", COLLECTION).with("updates", &array(&[statement]));
    written(client.command(DATABASE, &command.with("ordered", true))?)
}

fn by_id(key: &str) -> DocBuf {
    DocBuf::new().with("_id", key)
}

fn binary(bytes: &[u8]) -> ValueRef<'_> {
    ValueRef::Binary { subtype: 0, bytes }
}

fn document(record: &Record<'_>) -> DocBuf {
    let mut document = by_id(record.key);
    for (name, value) in record.fields {
        document.append(name, binary(value));
    }
    document
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_has_the_size_of_ycsb() {
        let (value, names) = ([b'x'; 100], (0..10).map(|n| format!("field{n}")).collect::<Vec<_>>());
        let fields: Vec<_> = names.iter().map(|name| (name.as_str(), &value[..])).collect();
        // 8.1 says about 1,168 bytes.
        let size = document(&Record { key: "user6284781860667377211", fields: &fields }).as_bytes().len();
        assert!((1165..=1175).contains(&size), "{size}");
    }
}
