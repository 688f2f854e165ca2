//! YCSB's operations.

use bson::spec::BinarySubtype;
use bson::{Binary, Document, doc};
use mongodb::sync::{Client, Collection};

use super::driver::Done;
use super::sysbench::{count, drained};
use crate::target::Failure;
use crate::workload::ycsb::{COLLECTION, DATABASE, Field, Record, YcsbOperation};

pub(super) struct Ycsb(Collection<Document>);

impl Ycsb {
    pub(super) fn new(client: &Client) -> Ycsb {
        Ycsb(client.database(DATABASE).collection(COLLECTION))
    }

    pub(super) fn execute(&mut self, operation: &YcsbOperation<'_>) -> Done<u64> {
        match *operation {
            YcsbOperation::Read { key, field } => {
                let find = self.0.find_one(doc! { "_id": key });
                let find = match field {
                    Some(field) => find.projection(doc! { field: 1 }),
                    None => find,
                };
                Ok(count(find.run()?))
            }
            YcsbOperation::Update { key, fields } => {
                let change = doc! { "$set": values(fields) };
                Ok(self.0.update_one(doc! { "_id": key }, change).run()?.matched_count)
            }
            YcsbOperation::Insert(record) => {
                self.0.insert_one(document(&record)).run()?;
                Ok(1)
            }
            YcsbOperation::Scan { key, limit } => {
                let find = self.0.find(doc! { "_id": { "$gte": key } }).sort(doc! { "_id": 1 });
                drained(find.limit(i64::from(limit)).run()?)
            }
            YcsbOperation::Load(_) | YcsbOperation::LoadByReplacing(_) => {
                Err(Failure::unsupported("the official driver's session"))
            }
        }
    }
}

fn values(fields: &[Field<'_>]) -> Document {
    let binary = |bytes: &[u8]| Binary { subtype: BinarySubtype::Generic, bytes: bytes.to_vec() };
    fields.iter().map(|(name, value)| ((*name).to_owned(), binary(value).into())).collect()
}

fn document(record: &Record<'_>) -> Document {
    let mut document = doc! { "_id": record.key };
    document.extend(values(record.fields));
    document
}
