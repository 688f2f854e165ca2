//! sysbench on one sharded collection (founding text 003, spec/workloads.md section 5): the classic transaction with
//! every `_id` replaced by a pair of collection number and document number, so that each statement goes to one shard.
//!
//! The chunks lie on the shards in blocks before the load begins. With three shards and twelve collection numbers the
//! script of the text moves chunks of collections 5 (second shard to third), 9 (third to first) and 1 (first to second).

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::sysbench::{Mix, Sysbench};
use super::{
    Client, Collection, Execute, Index, Kind, Mode, Operation, Place, Random, Row, Shape, Sharding, Statement, Tables,
    Unit, Workload,
};

pub const DATABASE: &str = "sbtest";
pub const COLLECTION: &str = "sbtest";

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Collection numbers, each of which was a chunk in the text.
    collections: u32,
    /// Per collection number.
    docs: u32,
    /// Documents per chunk. The text says a collection number is a chunk, which at its size no server could have moved in
    /// the time it reports (spec/workloads.md 5.6); 0 takes it at its word.
    chunk_docs: u32,
    batch: u32,
    /// False: a plain collection, to run against a single server.
    sharded: bool,
    /// Config servers of a cluster that the laboratory starts.
    members: u16,
    points: u32,
    ranges: u32,
    sums: u32,
    orders: u32,
    distincts: u32,
    index_updates: u32,
    non_index_updates: u32,
    inserts: u32,
    range_size: u32,
}

impl Default for Settings {
    fn default() -> Settings {
        let mix = Mix::default();
        Settings {
            collections: 12,
            docs: 10_000_000,
            chunk_docs: 250_000,
            batch: 1000,
            sharded: true,
            members: 1,
            points: mix.points,
            ranges: mix.ranges,
            sums: mix.sums,
            orders: mix.orders,
            distincts: mix.distincts,
            index_updates: mix.index_updates,
            non_index_updates: mix.non_index_updates,
            inserts: mix.inserts,
            range_size: mix.range_size,
        }
    }
}

#[derive(Debug)]
pub struct Sharded {
    settings: Settings,
    /// Statements of sysbench; its table numbers are collection numbers here.
    sysbench: Sysbench,
}

impl Sharded {
    pub fn new(mode: Mode, settings: Settings) -> Result<Sharded, String> {
        let Settings { collections, docs, batch, members, .. } = settings;
        if !(1..=7).contains(&members) {
            return Err("sharded: members must be 1 to 7".to_owned());
        }
        if collections == 0 || docs == 0 || batch == 0 || docs > i32::MAX as u32 / 2 || collections > 10_000 {
            return Err("sharded: collections, docs and batch must be at least 1, docs at most 2^30".to_owned());
        }
        let mix = Mix {
            points: settings.points,
            ranges: settings.ranges,
            sums: settings.sums,
            orders: settings.orders,
            distincts: settings.distincts,
            index_updates: settings.index_updates,
            non_index_updates: settings.non_index_updates,
            inserts: settings.inserts,
            range_size: settings.range_size,
        };
        let tables = Tables { shape: Shape { tables: collections, rows: docs }, mode, batch };
        Ok(Sharded { settings, sysbench: Sysbench { tables, mix } })
    }

    /// The first document of every chunk but the first one, by collection and document number.
    fn splits(&self) -> Vec<(i32, i32)> {
        let Settings { collections, docs, chunk_docs, .. } = self.settings;
        let chunk = if chunk_docs == 0 { docs } else { chunk_docs.min(docs) };
        let firsts = (1..=collections as i32)
            .flat_map(|collection| (1..=docs).step_by(chunk as usize).map(move |first| (collection, first as i32)));
        firsts.skip(1).collect()
    }
}

impl Workload for Sharded {
    fn unit(&self) -> Kind {
        Kind::TRANSACTION
    }

    fn kinds(&self) -> &'static [Kind] {
        self.sysbench.kinds()
    }

    fn settings(&self) -> Value {
        json!(self.settings)
    }

    fn database(&self) -> &'static str {
        DATABASE
    }

    fn collections(&self) -> Vec<Collection> {
        let documents = u64::from(self.settings.collections) * u64::from(self.settings.docs);
        let sharding = Sharding {
            key: ["collectionId", "documentId"],
            splits: self.splits(),
            groups: self.settings.collections as i32,
        };
        vec![Collection {
            database: DATABASE,
            name: COLLECTION.to_owned(),
            indexes: vec![Index::on(&["collectionId", "documentId"]), Index::on(&["collectionId", "k"])],
            documents: documents.saturating_sub(1000).max(1)..=documents + 1000,
            sequence: false,
            sharding: self.settings.sharded.then_some(sharding),
        }]
    }

    fn loaders(&self, threads: usize) -> Vec<Box<dyn Client>> {
        let next = Arc::new(AtomicI32::new(1));
        let loaders = threads.clamp(1, self.settings.collections as usize);
        let loader = || Loader { tables: self.sysbench.tables, next: next.clone(), at: None, batch: Vec::new() };
        (0..loaders).map(|_| Box::new(loader()) as Box<dyn Client>).collect()
    }

    fn client(&self, place: Place, seed: u64) -> Box<dyn Client> {
        Box::new(Stream { sysbench: self.sysbench.client(place, seed) })
    }
}

/// The transactions of sysbench on the sharded collection.
struct Stream {
    sysbench: Box<dyn Client>,
}

impl Client for Stream {
    fn unit(&mut self, execute: &mut Execute<'_>) -> Unit {
        self.sysbench.unit(&mut |operation| match operation {
            Operation::Sysbench(statement) => execute(&Operation::Sharded(*statement)),
            other => execute(other),
        })
    }
}

/// One thread per collection number, document numbers ascending.
struct Loader {
    tables: Tables,
    next: Arc<AtomicI32>,
    /// The collection number, its generator and the next document number.
    at: Option<(i32, Random, u32)>,
    batch: Vec<Row>,
}

impl Client for Loader {
    fn unit(&mut self, execute: &mut Execute<'_>) -> Unit {
        let Shape { tables: collections, rows } = self.tables.shape;
        loop {
            if let Some((collection, random, next)) = &mut self.at
                && *next <= rows
            {
                let end = (*next + self.tables.batch - 1).min(rows);
                self.batch.clear();
                self.batch.extend((*next..=end).map(|document| Row::random(document.into(), rows, random)));
                *next = end + 1;
                let statement = Statement::InsertRows { table: *collection as u32, rows: &self.batch };
                let insert = Operation::Sharded(statement);
                return execute(&insert).map_or(Unit::Abandoned, |_| Unit::Complete(&[]));
            }
            let collection = self.next.fetch_add(1, Ordering::Relaxed);
            if collection > collections as i32 {
                return Unit::Finished;
            }
            self.at = Some((collection, Random::new(collection as u64), 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::Answer;

    fn sharded(settings: Value) -> Sharded {
        Sharded::new(Mode::Fixed, serde_json::from_value(settings).unwrap()).unwrap()
    }

    #[test]
    fn chunks_begin_where_they_should() {
        let workload = sharded(json!({"collections": 3, "docs": 1000, "chunk_docs": 400}));
        let splits = workload.splits();
        assert_eq!(splits, [(1, 401), (1, 801), (2, 1), (2, 401), (2, 801), (3, 1), (3, 401), (3, 801)]);
        assert_eq!(sharded(json!({"chunk_docs": 0})).splits().len(), 11);
    }

    #[test]
    fn every_document_is_loaded_once_and_transactions_are_sysbenchs() {
        let workload = sharded(json!({"collections": 3, "docs": 250, "batch": 100}));
        let mut seen = std::collections::BTreeSet::new();
        for mut loader in workload.loaders(2) {
            while loader.unit(&mut |operation| {
                let Operation::Sharded(Statement::InsertRows { table, rows }) = operation else {
                    panic!("{operation:?}")
                };
                rows.iter().for_each(|row| assert!(seen.insert((*table, row.id))));
                Some(Answer::rows(1))
            }) != Unit::Finished
            {}
        }
        assert_eq!((seen.len(), seen.first(), seen.last()), (750, Some(&(1, 1)), Some(&(3, 250))));
        let mut statements = 0;
        let unit = workload.client(Place { number: 0, of: 1 }, 1).unit(&mut |operation| {
            statements += u32::from(matches!(operation, Operation::Sharded(..)));
            Some(Answer::rows(1))
        });
        assert_eq!((unit, statements), (Unit::Complete(&[Kind::TRANSACTION]), 18));
    }
}
