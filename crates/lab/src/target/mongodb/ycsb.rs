//! YCSB's records in MongoDB (spec/workloads.md 8.1, 8.5).

use arbor_bson::{DocBuf, ValueRef};
use arbor_client::Client;

use super::{array, insert_many, read, write, written};
use crate::target::Failure;
use crate::target::template::{Template, text_hole};
use crate::workload::ycsb::{COLLECTION, DATABASE, Record, YcsbOperation};

type Result<T> = std::result::Result<T, Failure>;

/// Templates by the lengths of the values in their holes: keys are of few lengths, so few are made.
struct Shapes<const HOLES: usize>(Vec<([usize; HOLES], Template)>);

impl<const HOLES: usize> Default for Shapes<HOLES> {
    fn default() -> Self {
        Shapes(Vec::new())
    }
}

impl<const HOLES: usize> Shapes<HOLES> {
    /// The command with `values` in its holes; `build` makes one whose values are texts of these lengths.
    fn with(&mut self, values: [&[u8]; HOLES], build: impl FnOnce([&str; HOLES]) -> DocBuf) -> &[u8] {
        let lengths = values.map(<[u8]>::len);
        let at = self.0.iter().position(|(each, _)| *each == lengths).unwrap_or_else(|| {
            let holes = lengths.map(text_hole);
            self.0.push((lengths, Template::new(build(holes.each_ref().map(String::as_str)).with("$db", DATABASE))));
            self.0.len() - 1
        });
        self.0[at].1.with(&[], &values)
    }
}

/// Connection state of YCSB.
#[derive(Default)]
pub(super) struct Ycsb {
    documents: Vec<DocBuf>,
    reads: Shapes<1>,
    field_reads: Shapes<2>,
    updates: Shapes<3>,
}

impl Ycsb {
    pub(super) fn execute(&mut self, client: &mut Client, operation: &YcsbOperation<'_>) -> Result<u64> {
        match *operation {
            YcsbOperation::Read { key, field: None } => {
                read(client, self.reads.with([key.as_bytes()], |[key]| one(key)))
            }
            YcsbOperation::Read { key, field: Some(field) } => {
                let command = self.field_reads.with([key.as_bytes(), field.as_bytes()], |[key, field]| {
                    one(key).with("projection", &DocBuf::new().with(field, 1))
                });
                read(client, command)
            }
            YcsbOperation::Update { key, fields: [(name, value)] } => {
                let values = [key.as_bytes(), name.as_bytes(), value];
                let command = self.updates.with(values, |[key, name, value]| {
                    update(key, &DocBuf::new().with(name, binary(value.as_bytes())))
                });
                write(client, command)
            }
            YcsbOperation::Update { key, fields } => {
                let mut values = DocBuf::new();
                for (name, value) in fields {
                    values.append(name, binary(value));
                }
                written(client.command(DATABASE, &update(key, &values))?)
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
                written(client.command(DATABASE, &updates(statement.with("upsert", true)))?)
            }
        }
    }

    fn insert(&mut self, client: &mut Client, ordered: bool, records: &[Record<'_>]) -> Result<u64> {
        self.documents.clear();
        self.documents.extend(records.iter().map(document));
        insert_many(client, DATABASE, COLLECTION, ordered, &self.documents)
    }
}

/// Finds one record.
fn one(key: &str) -> DocBuf {
    let find = DocBuf::new().with("find", COLLECTION).with("filter", &by_id(key));
    find.with("limit", 1).with("singleBatch", true)
}

/// Sets fields of one record.
fn update(key: &str, values: &DocBuf) -> DocBuf {
    updates(DocBuf::new().with("q", &by_id(key)).with("u", &DocBuf::new().with("$set", values)))
}

fn updates(statement: DocBuf) -> DocBuf {
    DocBuf::new().with("update", COLLECTION).with("updates", &array(&[statement])).with("ordered", true)
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

    #[test]
    fn commands_are_patched_for_every_length() {
        let (mut reads, mut changes) = (Shapes::<1>::default(), Shapes::<3>::default());
        for (key, name, value) in
            [("user7", "field0", "abc"), ("user12", "field0", "\u{1}"), ("user8", "field9", "xyz")]
        {
            assert_eq!(reads.with([key.as_bytes()], |[key]| one(key)), one(key).with("$db", DATABASE).as_bytes());
            let values = [key.as_bytes(), name.as_bytes(), value.as_bytes()];
            let build =
                |[key, name, value]: [&str; 3]| update(key, &DocBuf::new().with(name, binary(value.as_bytes())));
            assert_eq!(changes.with(values, build), build([key, name, value]).with("$db", DATABASE).as_bytes());
        }
        assert_eq!((reads.0.len(), changes.0.len()), (2, 2));
    }
}
