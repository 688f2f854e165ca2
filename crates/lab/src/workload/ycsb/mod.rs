//! YCSB, workloads A to F (founding text 004, spec/workloads.md section 8): one collection of records of ten binary
//! fields, read, updated, inserted, scanned and modified in the proportions of the stock files.
//!
//! A timed run knows no operation count, so the key space does not follow from one: inserts continue after the keys that
//! the collection holds when a run begins (YCSB begins again at `recordcount` and collides with its own last run).

mod choice;
mod keys;
mod operation;
mod settings;
mod stream;

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use keys::KeyCounter;
pub use keys::fnv;
pub use operation::{Field, Record, YcsbOperation};
use serde_json::{Value, json};
pub use settings::{Distribution, Letter, Order, Plan, Settings};
use stream::{Loader, Stream};

use super::{Client, Collection, Found, Kind, Mode, Place, Workload};

pub const DATABASE: &str = "ycsb";
pub const COLLECTION: &str = "usertable";

#[derive(Debug)]
pub struct Ycsb {
    plan: Plan,
    keys: Arc<KeyCounter>,
    choice: choice::Choice,
}

impl Ycsb {
    pub fn new(mode: Mode, settings: &Settings) -> Result<Ycsb, String> {
        let plan = settings.plan(mode)?;
        let keys = Arc::new(KeyCounter::new(plan.records_loaded()));
        let choice = choice::Choice::new(&plan, keys.clone());
        Ok(Ycsb { plan, keys, choice })
    }
}

impl Workload for Ycsb {
    fn unit(&self) -> Kind {
        Kind::OPERATION
    }

    fn kinds(&self) -> &'static [Kind] {
        &[
            Kind::OPERATION,
            YcsbOperation::READ,
            YcsbOperation::UPDATE,
            Kind::INSERT,
            YcsbOperation::SCAN,
            YcsbOperation::READ_MODIFY_WRITE,
        ]
    }

    fn settings(&self) -> Value {
        json!(self.plan)
    }

    fn database(&self) -> &'static str {
        DATABASE
    }

    fn collections(&self) -> Vec<Collection> {
        // Runs add records and remove none.
        let documents = self.plan.records_loaded()..=u64::MAX;
        let (name, indexes) = (COLLECTION.to_owned(), Vec::new());
        vec![Collection { database: DATABASE, name, indexes, documents, sequence: false, sharding: None }]
    }

    fn loaders(&self, threads: usize) -> Vec<Box<dyn Client>> {
        let next = Arc::<AtomicU64>::default();
        (0..threads.max(1)).map(|_| Box::new(Loader::new(self.plan, next.clone())) as Box<dyn Client>).collect()
    }

    fn resume(&self, found: &[Found]) {
        self.keys.resume(found.first().map_or(0, |records| records.documents));
    }

    fn client(&self, _place: Place, seed: u64) -> Box<dyn Client> {
        Box::new(Stream::new(self.plan, self.choice.clone(), self.keys.clone(), seed))
    }
}
