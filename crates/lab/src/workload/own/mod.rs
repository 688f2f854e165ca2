//! A user's own documents and statements, from templates in an experiment's file (docs/laboratory.md): no code is written for them.
//!
//! | file | what |
//! |---|---|
//! | `template` | documents with holes, filled in their order of fields |
//! | `binding` | the numbers and texts that fill the holes, by name, distribution and seed |
//! | `stream` | the load, and one client |

mod binding;
mod stream;
mod template;

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use arbor_bson::DocBuf;
pub use binding::{Binding, Skew};
use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use stream::{Loader, Stream};
pub use template::{Names, Template};

use super::{Client, Collection, Found, Index, Kind, Place, Workload};

/// The name of this workload in an experiment's file.
pub const NAME: &str = "statements";
/// Documents per insert of the load.
const BATCH: u64 = 100;

/// A file's templates, checked.
#[derive(Debug)]
pub struct Definition {
    pub database: &'static str,
    pub bindings: Vec<Binding>,
    pub collections: Vec<OwnCollection>,
    pub statements: Vec<OwnStatement>,
    /// The unit, then each statement.
    pub kinds: &'static [Kind],
}

#[derive(Debug)]
pub struct OwnCollection {
    pub name: String,
    pub documents: u64,
    pub document: Template,
    pub indexes: Vec<Index>,
}

#[derive(Debug)]
pub struct OwnStatement {
    pub kind: Kind,
    pub weight: f64,
    /// A database command.
    pub command: Template,
}

/// An operation of this workload.
#[derive(Clone, Copy, Debug)]
pub enum OwnOperation<'a> {
    Load { database: &'static str, collection: &'a str, documents: &'a [DocBuf] },
    Statement { kind: Kind, database: &'static str, command: &'a DocBuf },
}

impl OwnOperation<'_> {
    pub fn kind(&self) -> Kind {
        match self {
            OwnOperation::Load { .. } => Kind::INSERT_BATCH,
            OwnOperation::Statement { kind, .. } => *kind,
        }
    }
}

/// Returns the same text for the rest of the process: names in results live as long. A file has few of them.
pub fn lasting(text: &str) -> &'static str {
    static KNOWN: Mutex<Vec<&'static str>> = Mutex::new(Vec::new());
    let mut known = KNOWN.lock();
    if let Some(found) = known.iter().find(|each| **each == text) {
        return found;
    }
    let lasting: &'static str = Box::leak(text.to_owned().into_boxed_str());
    known.push(lasting);
    lasting
}

/// The workload of a definition with its numbers of documents.
#[derive(Debug)]
pub struct Own {
    definition: Arc<Definition>,
    documents: Vec<u64>,
    batch: u64,
    /// Rows of each collection: loaded, and those that statements have added.
    rows: Arc<Vec<AtomicU64>>,
}

impl Own {
    /// Settings are `batch` and a number of documents by the name of a collection.
    pub fn new(definition: &Arc<Definition>, settings: &Map<String, Value>) -> Result<Own, String> {
        let mut documents: Vec<u64> = definition.collections.iter().map(|collection| collection.documents).collect();
        let mut batch = BATCH;
        for (name, value) in settings {
            let number = value.as_u64().filter(|number| *number <= 1 << 40);
            let number = number.ok_or_else(|| format!("workload {NAME}: `{name}`: expected a number, not {value}"))?;
            let at = definition.collections.iter().position(|collection| collection.name == *name);
            match at.and_then(|at| documents.get_mut(at)) {
                Some(documents) => *documents = number,
                None if name == "batch" && number > 0 => batch = number,
                None => {
                    let known: Vec<&str> = definition.collections.iter().map(|known| known.name.as_str()).collect();
                    return Err(format!(
                        "workload {NAME}: unknown setting `{name}`; known are batch and the collections {}",
                        known.join(", ")
                    ));
                }
            }
        }
        let rows = Arc::new(documents.iter().map(|count| AtomicU64::new(*count)).collect());
        Ok(Own { definition: definition.clone(), documents, batch, rows })
    }
}

impl Workload for Own {
    fn unit(&self) -> Kind {
        Kind::OPERATION
    }

    fn kinds(&self) -> &'static [Kind] {
        self.definition.kinds
    }

    fn settings(&self) -> Value {
        let counts = self.definition.collections.iter().zip(&self.documents);
        let mut settings: Map<String, Value> =
            counts.map(|(collection, count)| (collection.name.clone(), json!(count))).collect();
        settings.insert("batch".to_owned(), json!(self.batch));
        Value::Object(settings)
    }

    fn database(&self) -> &'static str {
        self.definition.database
    }

    fn collections(&self) -> Vec<Collection> {
        let of = |(own, count): (&OwnCollection, &u64)| Collection {
            database: self.definition.database,
            name: own.name.clone(),
            indexes: own.indexes.clone(),
            // Statements may add documents.
            documents: *count..=u64::MAX,
            sequence: false,
            sharding: None,
        };
        self.definition.collections.iter().zip(&self.documents).map(of).collect()
    }

    fn loaders(&self, threads: usize) -> Vec<Box<dyn Client>> {
        let next = Arc::<AtomicU64>::default();
        let loader = |_| {
            let (definition, documents) = (self.definition.clone(), self.documents.clone());
            Box::new(Loader::new(definition, documents, self.batch, next.clone())) as Box<dyn Client>
        };
        (0..threads.max(1)).map(loader).collect()
    }

    fn resume(&self, found: &[Found]) {
        for (rows, found) in self.rows.iter().zip(found) {
            rows.fetch_max(found.documents, std::sync::atomic::Ordering::Relaxed);
        }
    }

    fn client(&self, _place: Place, seed: u64) -> Box<dyn Client> {
        Box::new(Stream::new(self.definition.clone(), self.rows.clone(), seed))
    }
}
