//! One stage of a pipeline: a pure one of `lang`, or one that needs more than documents.

use arbor_bson::{Array, ArrayBuf};
use arbor_lang::Stage;
use arbor_lang::time_series::Unpack;

use super::facet::Facet;
use super::graph_lookup::GraphLookup;
use super::inner::Inner;
use super::lookup::Lookup;
use super::surroundings::Surroundings;
use super::union_with;
use crate::Result;
use crate::stage_spec::only_field;

#[derive(Clone)]
pub(crate) enum Step {
    Pure(Stage),
    Lookup(Box<Lookup>),
    UnionWith(Box<Inner>),
    Facet(Facet),
    GraphLookup(Box<GraphLookup>),
    /// Buckets of a time series become measurements; with the number of `$match`es after it that have narrowed the query.
    Unpack(Unpack, usize),
}

impl Step {
    /// All stages; a `$documents` in front is not one of them (see `Pipeline`).
    pub(crate) fn parse_all(pipeline: Array<'_>, around: &Surroundings<'_>) -> Result<Vec<Step>> {
        Stage::check_length(pipeline)?;
        let around = &around.above(pipeline.len())?;
        let mut steps = Vec::new();
        let mut pure = ArrayBuf::new();
        for stage in pipeline.iter() {
            let named = only_field(stage);
            if let Some((name, _)) = named {
                around.check_allowed(name)?;
            }
            let step = match named {
                Some(("$lookup", spec)) => Step::Lookup(Box::new(Lookup::parse(spec, around)?)),
                Some(("$unionWith", spec)) => Step::UnionWith(Box::new(union_with::parse(spec, around)?)),
                Some(("$graphLookup", spec)) => Step::GraphLookup(Box::new(GraphLookup::parse(spec, around)?)),
                Some(("$facet", spec)) => Step::Facet(Facet::parse(spec, around)?),
                Some((Unpack::NAME, spec)) => Step::Unpack(Unpack::parse(spec)?, 0),
                _ => {
                    pure.push(stage);
                    continue;
                }
            };
            Step::parse_pure(&mut steps, &pure, around)?;
            pure = ArrayBuf::new();
            steps.push(step);
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
