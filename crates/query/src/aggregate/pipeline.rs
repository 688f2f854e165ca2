//! A parsed pipeline: the query at its begin and the stages above it.

use std::collections::VecDeque;

use arbor_bson::Doc;
use arbor_lang::Stage;

use super::pushdown::push_down;
use crate::operator::{FilterRows, GroupRows, Limit, MapRows, Operator, Sample, Skip, Sort, UnwindRows};
use crate::plan::{self, Query, Slots, Solution};
use crate::read::counting_operator;
use crate::{AggregateSpec, Database, Result, Settings};

pub struct Pipeline {
    pub query: Query,
    /// Stages of the client's pipeline that the query does.
    pub pushed: usize,
    stages: VecDeque<Stage>,
}

impl Pipeline {
    pub fn parse(database: &Database, spec: &AggregateSpec<'_>) -> Result<Pipeline> {
        let context = database.context(spec.let_variables)?;
        let mut stages: VecDeque<Stage> = Stage::parse_pipeline(spec.pipeline, &context)?.into();
        let mut query = Query::parse(Doc::empty(), spec.hint, &context)?;
        let pushed = push_down(&mut stages, &mut query);
        Ok(Pipeline { query, pushed, stages })
    }

    /// The query does all of it.
    pub fn is_query(&self) -> bool {
        self.stages.is_empty()
    }

    /// The rows of the query. When the first stage above only counts documents, they are not read.
    pub fn source(&self, database: &Database, solution: &Solution, slots: &mut Slots) -> Box<dyn Operator> {
        match self.stages.front() {
            Some(Stage::Group(group)) if !group.reads_documents() => {
                counting_operator(database, solution, &self.query, slots)
            }
            _ => plan::operator(solution, &self.query, &database.settings, slots),
        }
    }

    /// The remaining stages as operators above the query's rows.
    pub fn above(mut self, source: Box<dyn Operator>, settings: &Settings) -> Box<dyn Operator> {
        let mut root = source;
        while let Some(stage) = self.stages.pop_front() {
            root = match stage {
                Stage::Match(filter) => Box::new(FilterRows::new(root, filter)),
                Stage::Map(map) => Box::new(MapRows::new(root, map)),
                Stage::Group(group) => Box::new(GroupRows::new(root, &group, settings.group_bytes_max)),
                Stage::Sort(pattern) => {
                    let limit = sort_limit(&self.stages);
                    Box::new(Sort::new(root, pattern, limit, settings.sort_bytes_max))
                }
                Stage::Limit(count) => Box::new(Limit::new(root, count)),
                Stage::Skip(count) => Box::new(Skip::new(root, count)),
                Stage::Unwind(unwind) => Box::new(UnwindRows::new(root, unwind)),
                Stage::Sample(size) => Box::new(Sample::new(root, size)),
            };
        }
        root
    }
}

/// Rows that a sort has to keep for the `$skip`s and the `$limit` right behind it.
fn sort_limit(behind: &VecDeque<Stage>) -> Option<u64> {
    let mut skipped = 0u64;
    for stage in behind {
        match stage {
            Stage::Skip(count) => skipped = skipped.saturating_add(*count),
            Stage::Limit(count) => return Some(skipped.saturating_add(*count)),
            _ => return None,
        }
    }
    None
}
