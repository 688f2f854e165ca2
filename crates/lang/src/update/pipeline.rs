//! Pipeline updates: `[{ $set: { total: { $add: ["$a", "$b"] } } }]`.

use arbor_bson::{Array, Doc, DocBuf, ValueRef, compare};

use super::replacement::{id_altered, with_id};
use crate::{Code, Context, Error, Result, Stage, stage::Map};

const ALLOWED: [&str; 6] = ["$addFields", "$project", "$replaceRoot", "$replaceWith", "$set", "$unset"];

/// Error code of the pipeline parser for an unknown stage.
const UNKNOWN_STAGE: Code = Code(40324);

#[derive(Clone, Debug)]
pub(super) struct Pipeline(Vec<Map>);

impl Pipeline {
    pub(super) fn parse(stages: Array, context: &Context) -> Result<Pipeline> {
        let parsed = Stage::parse_pipeline(stages, context);
        if let Some(name) = stages.iter().find_map(not_allowed) {
            return Err(match parsed {
                Err(error) if error.code == UNKNOWN_STAGE => error,
                _ => refuse(name),
            });
        }
        let maps = parsed?.into_iter().map(|stage| match stage {
            Stage::Map(map) => Ok(map),
            other => Err(refuse(other.name())),
        });
        Ok(Pipeline(maps.collect::<Result<_>>()?))
    }

    /// The document after the stages. An `_id` that they drop stays, one that they change is refused.
    pub(super) fn apply(&self, old: Doc) -> Result<DocBuf> {
        let new = self.apply_to_new(old)?;
        match (old.get("_id"), new.get("_id")) {
            (Some(old), None) => Ok(with_id(old, new.as_doc())),
            (Some(old), Some(changed)) if !compare(old, changed).is_eq() => Err(id_altered(changed)),
            _ => Ok(new),
        }
    }

    pub(super) fn apply_to_new(&self, doc: Doc) -> Result<DocBuf> {
        self.0.iter().try_fold(doc.to_buf(), |doc, map| map.apply(doc.as_doc()))
    }
}

/// The name of a stage that updates may not have.
fn not_allowed(stage: ValueRef<'_>) -> Option<&str> {
    match stage {
        ValueRef::Document(stage) => stage.first().map(|(name, _)| name).filter(|name| !ALLOWED.contains(name)),
        _ => None,
    }
}

fn refuse(stage: &str) -> Error {
    Error::new(Code::INVALID_OPTIONS, format!("{stage} is not allowed to be used within an update"))
}
