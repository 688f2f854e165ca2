//! Pipeline updates: `[{ $set: { total: { $add: ["$a", "$b"] } } }]`.

use arbor_bson::{Array, Doc, DocBuf, ValueRef, compare};

use super::replacement::{id_altered, with_id};
use crate::{Code, Context, Error, Result, Stage, stage::Map};

const ALLOWED: [&str; 6] = ["$addFields", "$project", "$replaceRoot", "$replaceWith", "$set", "$unset"];

#[derive(Clone, Debug)]
pub(super) struct Pipeline(Vec<Map>);

impl Pipeline {
    pub(super) fn parse(stages: Array, context: &Context) -> Result<Pipeline> {
        for stage in stages.iter() {
            let name = match stage {
                ValueRef::Document(stage) => stage.first().map(|(name, _)| name).unwrap_or_default(),
                _ => continue,
            };
            if name.starts_with('$') && !ALLOWED.contains(&name) {
                let message = format!("{name} is not allowed to be used within an update");
                return Err(Error::new(Code::INVALID_OPTIONS, message));
            }
        }
        let parsed = Stage::parse_pipeline(stages, context)?;
        let maps = parsed.into_iter().map(|stage| match stage {
            Stage::Map(map) => Ok(map),
            other => {
                let message = format!("{} is not allowed to be used within an update", other.name());
                Err(Error::new(Code::INVALID_OPTIONS, message))
            }
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
