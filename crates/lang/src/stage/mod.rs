//! Pipeline stages.

mod group;
mod unwind;

use arbor_bson::{Array, Doc, DocBuf};

use crate::{Context, Error, Filter, Result, SortPattern};

pub use group::{Group, GroupState};
pub use unwind::Unwind;

/// A parsed stage. `$count` and `$sortByCount` are parsed into the stages they stand for.
#[derive(Clone, Debug)]
pub enum Stage {
    Match(Filter),
    /// One document in, one out: `$project`, `$addFields`, `$set`, `$unset`, `$replaceRoot`, `$replaceWith`.
    Map(Map),
    Group(Group),
    Sort(SortPattern),
    Limit(u64),
    Skip(u64),
    Unwind(Unwind),
    Sample(u64),
}

/// A stage that turns each document into one document.
#[derive(Clone, Debug)]
pub struct Map {}

impl Map {
    pub fn apply(&self, _doc: Doc) -> Result<DocBuf> {
        Err(Error::not_implemented("a stage"))
    }
}

impl Stage {
    /// Parses a whole pipeline.
    pub fn parse_pipeline(_stages: Array, _context: &Context) -> Result<Vec<Stage>> {
        Err(Error::not_implemented("a pipeline"))
    }

    /// The name in a pipeline and in `explain`.
    pub fn name(&self) -> &'static str {
        match self {
            Stage::Match(_) => "$match",
            Stage::Map(_) => "$project",
            Stage::Group(_) => "$group",
            Stage::Sort(_) => "$sort",
            Stage::Limit(_) => "$limit",
            Stage::Skip(_) => "$skip",
            Stage::Unwind(_) => "$unwind",
            Stage::Sample(_) => "$sample",
        }
    }
}
