//! Aggregation pipelines.
//!
//! The first stages, as far as a query can do them, become a planned query (indexes, order); the others are operators
//! above it.
//!
//! | file | holds |
//! |---|---|
//! | `pipeline.rs`, `step.rs` | a parsed pipeline |
//! | `pushdown.rs` | which stages become part of the query |
//! | `lookup.rs` | `$lookup`, which runs queries of its own |

mod lookup;
mod pipeline;
mod pushdown;
mod step;

use arbor_bson::{DocBuf, ValueRef};
use arbor_lang::Code;

use crate::cursor::RunningPlan;
use crate::operator::{Documents, Eof, Operator};
use crate::plan::{self, Slots};
use crate::{AggregateSpec, Cursor, Database, Error, Interrupt, Result};

pub use lookup::Lookup;
pub use pipeline::Pipeline;

/// The documents that come out of a pipeline. Over a collection that does not exist, what an empty one would give.
pub fn aggregate(database: &Database, spec: &AggregateSpec<'_>, interrupt: &Interrupt) -> Result<Cursor> {
    interrupt.check()?;
    let pipeline = Pipeline::parse(database, spec)?;
    if spec.collectionless {
        return Err(needs_collection(spec));
    }
    let mut slots = Slots::default();
    let (collection, view, source): (_, _, Box<dyn Operator>) = match database.snapshot(&spec.namespace)? {
        None => (None, database.transactions.read()?, Box::new(Eof::default())),
        Some((collection, view)) => {
            let solution = plan::plan(&view, &collection, &pipeline.query)?.winner;
            let source = pipeline.source(&database.settings, &solution, &mut slots);
            (Some(collection), view, source)
        }
    };
    let root = pipeline.above(source, &database.settings);
    let plan = RunningPlan { view, collection, root, slots: slots.count() };
    Ok(Cursor::over_plan(spec.namespace.clone(), plan))
}

/// A pipeline over documents that the caller has: what a stage that asks the server (`$currentOp`, `$collStats`) found.
/// `spec.pipeline` holds the stages behind that one.
pub fn aggregate_documents(
    database: &Database,
    spec: &AggregateSpec<'_>,
    documents: Vec<DocBuf>,
    interrupt: &Interrupt,
) -> Result<Cursor> {
    interrupt.check()?;
    let pipeline = Pipeline::parse_whole(database, spec)?;
    let root = pipeline.above(Box::new(Documents::new(documents)), &database.settings);
    let plan = RunningPlan { view: database.transactions.read()?, collection: None, root, slots: 0 };
    Ok(Cursor::over_plan(spec.namespace.clone(), plan))
}

fn needs_collection(spec: &AggregateSpec<'_>) -> Error {
    let first = match spec.pipeline.get(0) {
        Some(ValueRef::Document(stage)) => stage.first().map(|(name, _)| name),
        _ => None,
    };
    let message = match first {
        Some(name) => format!("{{aggregate: 1}} is not valid for '{name}'; a collection is required."),
        None => "{aggregate: 1} is not valid for an empty pipeline.".to_owned(),
    };
    Error::new(Code::INVALID_NAMESPACE, message)
}
