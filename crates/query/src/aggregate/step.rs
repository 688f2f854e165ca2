//! One stage of a pipeline: a pure one of `lang`, or one that reads other collections.

use std::sync::Arc;

use arbor_bson::{Array, ArrayBuf, ValueRef};
use arbor_lang::{Context, Stage};
use arbor_store::Store;

use super::lookup::Lookup;
use crate::Result;

#[derive(Clone)]
pub enum Step {
    Pure(Stage),
    Lookup(Box<Lookup>),
}

/// What parsing a pipeline needs to know.
#[derive(Clone, Copy)]
pub struct Surroundings<'s> {
    pub store: &'s Arc<Store>,
    pub db: &'s str,
    pub context: &'s Context,
    /// Pipelines around this one.
    pub depth: usize,
}

impl Step {
    pub fn parse_all(pipeline: Array<'_>, around: &Surroundings<'_>) -> Result<Vec<Step>> {
        let mut steps = Vec::new();
        let mut pure = ArrayBuf::new();
        for stage in pipeline.iter() {
            match lookup_of(stage) {
                None => drop(pure.push(stage)),
                Some(spec) => {
                    Step::parse_pure(&mut steps, &pure, around)?;
                    pure = ArrayBuf::new();
                    steps.push(Step::Lookup(Box::new(Lookup::parse(spec, around)?)));
                }
            }
        }
        Step::parse_pure(&mut steps, &pure, around)?;
        Ok(steps)
    }

    fn parse_pure(steps: &mut Vec<Step>, stages: &ArrayBuf, around: &Surroundings<'_>) -> Result<()> {
        let parsed = Stage::parse_pipeline(stages.as_array(), around.context)?;
        steps.extend(parsed.into_iter().map(Step::Pure));
        Ok(())
    }
}

/// The specification of a `$lookup`.
fn lookup_of(stage: ValueRef<'_>) -> Option<ValueRef<'_>> {
    let ValueRef::Document(stage) = stage else { return None };
    let mut fields = stage.iter();
    match (fields.next(), fields.next()) {
        (Some(("$lookup", spec)), None) => Some(spec),
        _ => None,
    }
}
