//! The crate `mongodb` in place of our own client, to see what a full driver costs: one client object for all threads,
//! documents in its own types, its pool and its runtime between thread and socket. In builds with the feature
//! `official-driver` only; it executes sysbench's statements. What is not measured (making, loading, counting) goes the
//! lean way.

use super::Target;
use super::mongodb::MongoDb;
use crate::Result;

#[cfg(feature = "official-driver")]
pub(super) fn wrap(target: MongoDb) -> Result<Box<dyn Target>> {
    Ok(Box::new(driver::Official::new(target)?))
}

#[cfg(not(feature = "official-driver"))]
pub(super) fn wrap(_target: MongoDb) -> Result<Box<dyn Target>> {
    let missing = "this build has no other driver; build with --features official-driver";
    Err(crate::Error::Usage(missing.to_owned()))
}

#[cfg(feature = "official-driver")]
mod driver {
    use std::path::Path;

    use bson::{Bson, Document, doc};
    use mongodb::sync::{Client, Collection as Handle, Database};
    use serde_json::Value;

    use super::super::mongodb::MongoDb;
    use super::super::{Driver, Failure, Session, Sizes, Statistics, Target};
    use crate::workload::{Answer, Collection, Columns, Found, Operation, Range, Row, Statement, Tables};
    use crate::{Error, Result};

    type Done<T> = std::result::Result<T, Failure>;

    #[derive(Debug)]
    pub struct Official {
        name: String,
        lean: MongoDb,
        client: Client,
    }

    impl Official {
        pub fn new(lean: MongoDb) -> Result<Official> {
            let name = Driver::Official.named(lean.name().trim_end_matches(".official"));
            let uri = format!("mongodb://{}/?directConnection=true&appName=arbor+lab", lean.address());
            let client = Client::with_uri_str(&uri)
                .map_err(|error| Error::Server { server: name.clone(), reason: error.to_string() })?;
            Ok(Official { name, lean, client })
        }
    }

    impl Target for Official {
        fn name(&self) -> &str {
            &self.name
        }

        fn connect(&self) -> Result<Box<dyn Session>> {
            let database = self.client.database(Tables::DATABASE);
            Ok(Box::new(OfficialSession { lean: self.lean.connect()?, database, tables: Vec::new() }))
        }

        fn process(&self) -> Option<u32> {
            self.lean.process()
        }

        fn folder(&self) -> Option<&Path> {
            self.lean.folder()
        }

        fn about(&self) -> Result<Value> {
            let mut about = self.lean.about()?;
            about["driver"] = "the crate mongodb, blocking API".into();
            Ok(about)
        }

        fn statistics(&self) -> Option<Box<dyn Statistics>> {
            self.lean.statistics()
        }
    }

    struct OfficialSession {
        lean: Box<dyn Session>,
        database: Database,
        /// By table number.
        tables: Vec<Option<Handle<Document>>>,
    }

    fn ids(range: Range) -> Document {
        doc! { "_id": { "$gte": range.from, "$lte": range.to } }
    }

    fn document(row: &Row) -> Document {
        doc! { "_id": row.id as i32, "k": row.k, "c": &row.c, "pad": &row.pad }
    }

    impl OfficialSession {
        fn table(&mut self, table: u32) -> &Handle<Document> {
            let index = table as usize;
            if self.tables.len() <= index {
                self.tables.resize_with(index + 1, || None);
            }
            let database = &self.database;
            self.tables[index].get_or_insert_with(|| database.collection(&format!("sbtest{table}")))
        }

        fn statement(&mut self, statement: &Statement<'_>) -> Done<u64> {
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

    fn count(found: Option<Document>) -> u64 {
        u64::from(found.is_some())
    }

    fn drained(cursor: mongodb::sync::Cursor<Document>) -> Done<u64> {
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

    impl From<mongodb::error::Error> for Failure {
        fn from(error: mongodb::error::Error) -> Failure {
            use mongodb::error::{ErrorKind, WriteFailure};
            let code = match error.kind.as_ref() {
                ErrorKind::Command(command) => command.code.to_string(),
                ErrorKind::Write(WriteFailure::WriteError(write)) => write.code.to_string(),
                ErrorKind::Io(error) => format!("io: {}", error.kind()),
                _ => "driver".to_owned(),
            };
            // The driver connects again by itself.
            Failure { code, message: error.to_string(), broken: false }
        }
    }

    impl Session for OfficialSession {
        fn execute(&mut self, operation: &Operation<'_>) -> Done<Answer> {
            match operation {
                Operation::Sysbench(statement) => self.statement(statement).map(Answer::rows),
                _ => Err(Failure::unsupported("the official driver's session")),
            }
        }

        fn create(&mut self, collection: &Collection) -> Done<()> {
            self.lean.create(collection)
        }

        fn create_late_indexes(&mut self, collection: &Collection) -> Done<()> {
            self.lean.create_late_indexes(collection)
        }

        fn remove(&mut self, collection: &Collection) -> Done<()> {
            self.lean.remove(collection)
        }

        fn find(&mut self, collection: &Collection) -> Done<Found> {
            self.lean.find(collection)
        }

        fn scan(&mut self, collection: &Collection) -> Done<u64> {
            self.lean.scan(collection)
        }

        fn sizes(&mut self, database: &str) -> Done<Sizes> {
            self.lean.sizes(database)
        }
    }
}
