//! Aggregation pipelines.
//!
//! The first stages, as far as a query can do them, become a planned [`Query`] (indexes, order); the others are
//! operators above it.

mod pipeline;
mod pushdown;

use arbor_lang::Code;

use crate::cursor::RunningPlan;
use crate::operator::{Eof, Operator};
use crate::plan::{self, Slots};
use crate::{AggregateSpec, Cursor, Database, Error, Interrupt, Result};

pub use pipeline::Pipeline;

/// The documents that come out of a pipeline. Over a collection that does not exist, what an empty one would give.
pub fn aggregate(database: &Database, spec: &AggregateSpec<'_>, interrupt: &Interrupt) -> Result<Cursor> {
    interrupt.check()?;
    let pipeline = Pipeline::parse(database, spec)?;
    if spec.collectionless {
        let first = spec.pipeline.iter().next().and_then(|stage| match stage {
            arbor_bson::ValueRef::Document(stage) => stage.first().map(|(name, _)| name),
            _ => None,
        });
        let message = match first {
            Some(name) => format!("{{aggregate: 1}} is not valid for '{name}'; a collection is required."),
            None => "{aggregate: 1} is not valid for an empty pipeline.".to_owned(),
        };
        return Err(Error::new(Code::INVALID_NAMESPACE, message));
    }
    let mut slots = Slots::default();
    let (collection, view, source): (_, _, Box<dyn Operator>) = match database.snapshot(&spec.namespace)? {
        None => (None, database.transactions.read()?, Box::new(Eof::default())),
        Some((collection, view)) => {
            let solution = plan::plan(&view, &collection, &pipeline.query)?.winner;
            let source = pipeline.source(database, &solution, &mut slots);
            (Some(collection), view, source)
        }
    };
    let root = pipeline.above(source, &database.settings);
    let plan = RunningPlan { view, collection, root, slots: slots.count() };
    Ok(Cursor::over_plan(spec.namespace.clone(), plan))
}
