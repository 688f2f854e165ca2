//! Pipeline stages: parsing, and what is a pure function of one document. Driving them is `query`'s part.
//!
//! | stage | parsed into |
//! |---|---|
//! | `$match` | [`Stage::Match`] |
//! | `$project $addFields $set $unset $replaceRoot $replaceWith` | [`Stage::Map`] |
//! | `$group` | [`Stage::Group`], driven through [`GroupState`] |
//! | `$sort $limit $skip $sample` | their numbers and patterns |
//! | `$unwind` | [`Stage::Unwind`] |
//! | `$count` | `$group`, `$project` |
//! | `$sortByCount` | `$group`, `$sort` |
//! | `$bucket` | `$group`, `$sort` |
//! | `$fill` | `$setWindowFields`, `$addFields` |
//! | `$bucketAuto $densify $redact $setWindowFields` | [`Stage::Flow`], driven through [`Flow`], above a [`Stage::Arrange`] where it needs an order |
//!
//! Stages that read collections or write them (`ELSEWHERE`) are `query`'s.

mod accumulated;
mod add_fields;
mod arrange;
mod bucket;
mod bucket_auto;
mod count;
mod densify;
pub mod documents;
#[cfg(test)]
mod examples;
mod fill;
mod flow;
mod geo_near;
mod granularity;
mod group;
mod limit;
mod map;
mod match_documents;
mod project;
mod redact;
mod replace_root;
mod sample;
mod set_window_fields;
mod skip;
mod sort;
mod sort_by_count;
#[cfg(test)]
mod tests;
mod unset;
mod unwind;

use std::sync::Arc;

use arbor_bson::{Array, ValueRef};

use crate::{Code, Context, Error, Filter, Result, SortPattern};

pub use crate::window::NAMES as WINDOW_FUNCTION_NAMES;
pub use arrange::Arrange;
pub use flow::{Flow, FlowStage};
pub use geo_near::{GeoNear, NearFields};
pub use group::{Group, GroupState, Groups, Regrouped};
pub use map::Map;
pub use unwind::{Unwind, Unwound};

/// MongoDB's limit on the stages of a pipeline.
const STAGES_MAX: usize = 1000;

/// Stages that [`Stage::parse`] reads.
pub const NAMES: &[&str] = &[
    "$addFields",
    "$bucket",
    "$bucketAuto",
    "$changeStream",
    "$changeStreamSplitLargeEvent",
    "$count",
    "$densify",
    "$fill",
    "$group",
    "$limit",
    "$match",
    "$project",
    "$redact",
    "$replaceRoot",
    "$replaceWith",
    "$sample",
    "$set",
    "$setWindowFields",
    "$skip",
    "$sort",
    "$sortByCount",
    "$unset",
    "$unwind",
];

/// Stages that need more than documents; `query` reads them.
const ELSEWHERE: &[&str] = &[
    "$_internalUnpackBucket",
    "$collStats",
    "$currentOp",
    "$documents",
    "$facet",
    "$geoNear",
    "$graphLookup",
    "$indexStats",
    "$listLocalSessions",
    "$listSessions",
    "$lookup",
    "$merge",
    "$out",
    "$unionWith",
];

/// Stages MongoDB has and this server has not yet.
const LATER: &[&str] = &[
    "$listSampledQueries",
    "$listSearchIndexes",
    "$planCacheStats",
    "$queryStats",
    "$search",
    "$searchMeta",
    "$vectorSearch",
];

/// A parsed stage.
#[derive(Clone, Debug)]
pub enum Stage {
    Match(Filter),
    /// One document in, one out.
    Map(Map),
    Group(Group),
    /// Never empty.
    Sort(SortPattern),
    Limit(u64),
    Skip(u64),
    Unwind(Unwind),
    Sample(u64),
    /// A sort that the next stage needs.
    Arrange(Arrange),
    /// Many documents in, many out.
    Flow(Arc<dyn FlowStage>),
}

impl Stage {
    /// Parses a whole pipeline.
    pub fn parse_pipeline(stages: Array, context: &Context) -> Result<Vec<Stage>> {
        Stage::check_length(stages)?;
        let mut parsed = Vec::new();
        stages.iter().try_for_each(|stage| Stage::parse(stage, context, &mut parsed))?;
        Ok(parsed)
    }

    pub fn check_length(stages: Array) -> Result<()> {
        if stages.iter().nth(STAGES_MAX).is_some() {
            let message = format!("Pipeline length must be no longer than {STAGES_MAX} stages");
            return Err(Error::location(7749501, message));
        }
        Ok(())
    }

    fn parse(stage: ValueRef, context: &Context, parsed: &mut Vec<Stage>) -> Result<()> {
        let ValueRef::Document(stage) = stage else {
            return Err(Error::type_mismatch("Each element of the 'pipeline' array must be an object"));
        };
        let mut fields = stage.iter();
        let (Some((name, spec)), None) = (fields.next(), fields.next()) else {
            let message = "A pipeline stage specification object must contain exactly one field.";
            return Err(Error::location(40323, message));
        };
        if !NAMES.contains(&name) {
            return Err(match LATER.contains(&name) || ELSEWHERE.contains(&name) {
                true => Error::not_implemented(name),
                false => unrecognized(name),
            });
        }
        match name {
            "$match" => parsed.push(Stage::Match(match_documents::parse(spec, context)?)),
            "$project" => parsed.push(Stage::Map(project::parse(spec, context)?)),
            "$addFields" => parsed.push(Stage::Map(add_fields::parse("$addFields", spec, context)?)),
            "$set" => parsed.push(Stage::Map(add_fields::parse("$set", spec, context)?)),
            "$unset" => parsed.push(Stage::Map(unset::parse(spec, context)?)),
            "$replaceRoot" => parsed.push(Stage::Map(replace_root::parse_root(spec, context)?)),
            "$replaceWith" => parsed.push(Stage::Map(replace_root::parse_with(spec, context)?)),
            "$group" => parsed.push(Stage::Group(Group::parse(spec, context)?)),
            "$sort" => parsed.push(Stage::Sort(sort::parse(spec, context)?)),
            "$limit" => parsed.push(Stage::Limit(limit::parse(spec)?)),
            "$skip" => parsed.push(Stage::Skip(skip::parse(spec)?)),
            "$unwind" => parsed.push(Stage::Unwind(Unwind::parse(spec)?)),
            "$sample" => parsed.push(Stage::Sample(sample::parse(spec)?)),
            "$bucket" => parsed.extend(bucket::parse(spec, context)?),
            "$bucketAuto" => parsed.extend(bucket_auto::parse(spec, context)?),
            "$densify" => parsed.extend(densify::parse(spec, context)?),
            "$fill" => parsed.extend(fill::parse(spec, context)?),
            "$setWindowFields" => parsed.extend(set_window_fields::parse(spec, context)?),
            "$redact" => parsed.push(Stage::Flow(redact::parse(spec, context)?)),
            "$count" => parsed.extend(count::parse(spec, context)?),
            "$sortByCount" => parsed.extend(sort_by_count::parse(spec, context)?),
            "$changeStream" => {
                return Err(Error::location(40573, "The $changeStream stage is only supported on replica sets"));
            }
            "$changeStreamSplitLargeEvent" => {
                let message = "$changeStreamSplitLargeEvent can only be used in a $changeStream pipeline";
                return Err(Error::new(Code::ILLEGAL_OPERATION, message));
            }
            _ => unreachable!("{name} is one of the names"),
        }
        Ok(())
    }

    /// Refuses a pipeline with a name that no stage of MongoDB has; checks nothing else.
    pub fn check_names(stages: Array) -> Result<()> {
        let names = stages.iter().filter_map(|stage| match stage {
            ValueRef::Document(stage) => stage.first().map(|(name, _)| name),
            _ => None,
        });
        for name in names {
            if ![NAMES, ELSEWHERE, LATER].iter().any(|names| names.contains(&name)) {
                return Err(unrecognized(name));
            }
        }
        Ok(())
    }

    /// The name in a pipeline and in `explain`.
    pub fn name(&self) -> &'static str {
        match self {
            Stage::Match(_) => "$match",
            Stage::Map(map) => map.name(),
            Stage::Group(_) => "$group",
            Stage::Sort(_) => "$sort",
            Stage::Limit(_) => "$limit",
            Stage::Skip(_) => "$skip",
            Stage::Unwind(_) => "$unwind",
            Stage::Sample(_) => "$sample",
            Stage::Arrange(_) => "$sort",
            Stage::Flow(stage) => stage.name(),
        }
    }
}

fn unrecognized(name: &str) -> Error {
    Error::location(40324, format!("Unrecognized pipeline stage name: '{name}'"))
}
