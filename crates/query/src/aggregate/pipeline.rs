//! A parsed pipeline: the query at its begin and the stages above it.

use std::collections::VecDeque;

use arbor_bson::{Array, Doc};
use arbor_lang::{Filter, Stage};

use super::pushdown::push_down;
use super::step::{Step, Surroundings};
use crate::operator::{FilterRows, GroupRows, Limit, LookupRows, MapRows, Operator, Sample, Skip, Sort, UnwindRows};
use crate::plan::{self, Query, Slots, Solution};
use crate::read::counting_operator;
use crate::{AggregateSpec, Database, Result, Settings};

#[derive(Clone)]
pub struct Pipeline {
    pub query: Query,
    /// Stages of the client's pipeline that the query does.
    pub pushed: usize,
    steps: VecDeque<Step>,
}

impl Pipeline {
    pub fn parse(database: &Database, spec: &AggregateSpec<'_>) -> Result<Pipeline> {
        let mut pipeline = Pipeline::parse_whole(database, spec)?;
        pipeline.pushed = push_down(&mut pipeline.steps, &mut pipeline.query);
        Ok(pipeline)
    }

    /// Without a query: every stage is an operator.
    pub fn parse_whole(database: &Database, spec: &AggregateSpec<'_>) -> Result<Pipeline> {
        let context = database.context(spec.let_variables)?;
        let db = spec.namespace.db();
        let around = Surroundings { store: &database.store, db, context: &context, depth: 0 };
        let steps = Step::parse_all(spec.pipeline, &around)?.into();
        Ok(Pipeline { query: Query::parse(Doc::empty(), spec.hint, &context)?, pushed: 0, steps })
    }

    /// A pipeline inside another one, whose first stage is `filter`.
    pub fn parse_inner(filter: Filter, pipeline: Array<'_>, around: &Surroundings<'_>) -> Result<Pipeline> {
        let mut steps = Step::parse_all(pipeline, around)?.into();
        let mut query = Query::new(filter);
        let pushed = push_down(&mut steps, &mut query);
        Ok(Pipeline { query, pushed, steps })
    }

    /// The query does all of it.
    pub fn is_query(&self) -> bool {
        self.steps.is_empty()
    }

    /// The rows of the query. When the first stage above only counts documents, they are not read.
    pub fn source(&self, settings: &Settings, solution: &Solution, slots: &mut Slots) -> Box<dyn Operator> {
        match self.steps.front() {
            Some(Step::Pure(Stage::Group(group))) if !group.reads_documents() => {
                counting_operator(settings, solution, &self.query, slots)
            }
            _ => plan::operator(solution, &self.query, settings, slots),
        }
    }

    /// The remaining stages as operators above the query's rows.
    pub fn above(mut self, source: Box<dyn Operator>, settings: &Settings) -> Box<dyn Operator> {
        let mut root = source;
        while let Some(step) = self.steps.pop_front() {
            root = match step {
                Step::Pure(stage) => self.pure(stage, root, settings),
                Step::Lookup(lookup) => Box::new(LookupRows::new(root, *lookup, settings.clone())),
            };
        }
        root
    }

    fn pure(&self, stage: Stage, input: Box<dyn Operator>, settings: &Settings) -> Box<dyn Operator> {
        match stage {
            Stage::Match(filter) => Box::new(FilterRows::new(input, filter)),
            Stage::Map(map) => Box::new(MapRows::new(input, map)),
            Stage::Group(group) => Box::new(GroupRows::new(input, &group, settings.group_bytes_max)),
            Stage::Sort(pattern) => {
                Box::new(Sort::new(input, pattern, sort_limit(&self.steps), settings.sort_bytes_max))
            }
            Stage::Limit(count) => Box::new(Limit::new(input, count)),
            Stage::Skip(count) => Box::new(Skip::new(input, count)),
            Stage::Unwind(unwind) => Box::new(UnwindRows::new(input, unwind)),
            Stage::Sample(size) => Box::new(Sample::new(input, size)),
        }
    }
}

/// Rows that a sort has to keep for the `$skip`s and the `$limit` right behind it.
fn sort_limit(behind: &VecDeque<Step>) -> Option<u64> {
    let mut skipped = 0u64;
    for step in behind {
        match step {
            Step::Pure(Stage::Skip(count)) => skipped = skipped.saturating_add(*count),
            Step::Pure(Stage::Limit(count)) => return Some(skipped.saturating_add(*count)),
            _ => return None,
        }
    }
    None
}
