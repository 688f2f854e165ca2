//! The load, and one client of a run.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arbor_bson::DocBuf;

use super::binding::{DrawState, Draws};
use super::{Definition, OwnOperation};
use crate::workload::{Client, Execute, Kind, Operation, Random, Unit};

/// One thread of the load; threads take batches from one counter.
pub(super) struct Loader {
    definition: Arc<Definition>,
    documents: Vec<u64>,
    batch: u64,
    next: Arc<AtomicU64>,
    rows: Vec<AtomicU64>,
    state: DrawState,
}

impl Loader {
    pub(super) fn new(definition: Arc<Definition>, documents: Vec<u64>, batch: u64, next: Arc<AtomicU64>) -> Loader {
        let rows: Vec<AtomicU64> = documents.iter().map(|count| AtomicU64::new(*count)).collect();
        let state = DrawState::new(&definition.bindings, &rows, Random::new(0));
        Loader { definition, documents, batch, next, rows, state }
    }

    /// Returns the collection, the first row and the number of rows of a batch; `None`: there is no such batch.
    fn batch(&self, mut number: u64) -> Option<(usize, u64, u64)> {
        for (collection, documents) in self.documents.iter().enumerate() {
            let batches = documents.div_ceil(self.batch);
            if number < batches {
                let first = number * self.batch;
                return Some((collection, first, self.batch.min(documents - first)));
            }
            number -= batches;
        }
        None
    }
}

/// Seed of a document's values, which depend on its collection and row only: the same on every server.
fn seed(collection: usize, row: u64) -> u64 {
    crate::workload::ycsb::fnv(row ^ ((collection as u64 + 1) << 48))
}

impl Client for Loader {
    fn unit(&mut self, execute: &mut Execute<'_>) -> Unit {
        let taken = self.batch(self.next.fetch_add(1, Ordering::Relaxed));
        let Some((at, first, count)) = taken else { return Unit::Finished };
        let Some(collection) = self.definition.collections.get(at) else { return Unit::Finished };
        let mut document = |row| {
            self.state.again(Some(Random::new(seed(at, row))));
            let draws = Draws::new(&self.definition.bindings, &self.rows, row);
            collection.document.document(&draws, &mut self.state)
        };
        let documents: Vec<DocBuf> = (first..first + count).map(&mut document).collect();
        let database = self.definition.database;
        let operation = OwnOperation::Load { database, collection: &collection.name, documents: &documents };
        execute(&Operation::Own(operation)).map_or(Unit::Abandoned, |_| Unit::Complete(&[]))
    }
}

/// One client of a run.
pub(super) struct Stream {
    definition: Arc<Definition>,
    rows: Arc<Vec<AtomicU64>>,
    weights: f64,
    state: DrawState,
}

impl Stream {
    pub(super) fn new(definition: Arc<Definition>, rows: Arc<Vec<AtomicU64>>, seed: u64) -> Stream {
        let state = DrawState::new(&definition.bindings, &rows, Random::new(seed));
        let weights = definition.statements.iter().map(|statement| statement.weight).sum();
        Stream { definition, rows, weights, state }
    }
}

impl Client for Stream {
    fn unit(&mut self, execute: &mut Execute<'_>) -> Unit {
        let mut drawn = self.state.random().unit() * self.weights;
        let chosen = self.definition.statements.iter().find(|statement| {
            drawn -= statement.weight;
            drawn < 0.0
        });
        let Some(statement) = chosen.or(self.definition.statements.last()) else { return Unit::Finished };
        self.state.again(None);
        let draws = Draws::new(&self.definition.bindings, &self.rows, 0);
        let command = statement.command.document(&draws, &mut self.state);
        let database = self.definition.database;
        let operation = OwnOperation::Statement { kind: statement.kind, database, command: &command };
        execute(&Operation::Own(operation)).map_or(Unit::Abandoned, |_| Unit::Complete(&[Kind::OPERATION]))
    }
}
