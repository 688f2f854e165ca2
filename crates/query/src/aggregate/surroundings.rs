//! Context of a pipeline for its parser: which stages are allowed there.

use arbor_lang::{Code, Context};

use crate::names::Names;
use crate::{AggregateSpec, Error, Result};

/// Context of a pipeline for its parser.
#[derive(Clone, Copy)]
pub(crate) struct Surroundings<'s> {
    pub names: &'s Names,
    pub db: &'s str,
    pub context: &'s Context,
    /// Pipelines around this one.
    pub depth: usize,
    /// Stages of those pipelines.
    pub stages: usize,
    /// The stage that this pipeline belongs to.
    pub inside: Option<&'static str>,
    /// It is inside a `$facet`, at any depth.
    pub within_facet: bool,
    /// It reads no collection.
    pub collectionless: bool,
}

/// Stages of a pipeline, of the view that it reads and of the pipelines around it. COMPAT: MongoDB limits each pipeline
/// (1,000) and the pipelines around it (20), not their product.
const STAGES_NESTED_MAX: usize = 1200;

/// Stages that write, or that ask the server for their documents.
const OUTERMOST_ONLY: &[&str] = &["$changeStream", "$currentOp", "$listLocalSessions", "$merge", "$out"];
/// Stages about the server or a database, which no collection has.
const WITHOUT_COLLECTION: &[&str] = &["$listClusterCatalog", "$querySettings"];
/// Stages that make their own documents.
const FIRST_ONLY: &[&str] = &[
    "$collStats",
    "$documents",
    "$geoNear",
    "$indexStats",
    "$listClusterCatalog",
    "$listSampledQueries",
    "$listSearchIndexes",
    "$planCacheStats",
    "$querySettings",
    "$queryStats",
    "$search",
    "$searchMeta",
    "$vectorSearch",
];

impl<'s> Surroundings<'s> {
    pub(crate) fn outermost(names: &'s Names, spec: &'s AggregateSpec<'_>, context: &'s Context) -> Surroundings<'s> {
        let (db, collectionless) = (spec.namespace.db(), spec.collectionless);
        Surroundings { names, db, context, depth: 0, stages: 0, inside: None, within_facet: false, collectionless }
    }

    /// For a pipeline inside a stage of this one.
    pub(crate) fn inside(&self, stage: &'static str) -> Surroundings<'s> {
        let facet = stage == "$facet";
        Surroundings {
            depth: self.depth + 1,
            inside: Some(stage),
            within_facet: self.within_facet || facet,
            collectionless: self.collectionless && facet,
            ..*self
        }
    }

    /// Returns the surroundings above `stages` further stages. Errors: too many nested stages, each with a frame on the
    /// stack of the thread.
    pub(crate) fn above(&self, stages: usize) -> Result<Surroundings<'s>> {
        let stages = self.stages + stages;
        if stages > STAGES_NESTED_MAX {
            let message = format!("Pipelines within each other must have no more than {STAGES_NESTED_MAX} stages");
            return Err(Error::Lang(arbor_lang::Error::location(7749501, message)));
        }
        Ok(Surroundings { stages, ..*self })
    }

    /// Errors: a stage that may be nowhere in this pipeline.
    pub(crate) fn check_forbidden(&self, name: &str) -> Result<()> {
        let outermost_only = OUTERMOST_ONLY.contains(&name);
        let never_in_facet =
            matches!(name, "$changeStreamSplitLargeEvent" | "$listCatalog" | "$querySettings" | "$searchBeta");
        if self.within_facet && never_in_facet {
            let message = format!("{name} is not allowed to be used within a $facet stage");
            return Err(Error::Lang(arbor_lang::Error::location(40600, message)));
        }
        let of_no_collection = match self.inside {
            Some("$lookup") => matches!(name, "$currentOp" | "$listSessions" | "$listLocalSessions"),
            Some("$facet") => name == "$listSessions",
            _ => false,
        };
        if of_no_collection {
            let message = format!("{name} cannot read the collection of this pipeline");
            return Err(Error::new(Code::INVALID_NAMESPACE, message));
        }
        if WITHOUT_COLLECTION.contains(&name) && !self.collectionless {
            let message = format!("{name} must be run against the database with {{aggregate: 1}}, not a collection");
            return Err(match name {
                "$listClusterCatalog" => Error::Lang(arbor_lang::Error::location(9_621_301, message)),
                _ => Error::new(Code::INVALID_NAMESPACE, message),
            });
        }
        let own_documents = name == "$documents" && self.inside != Some("$facet");
        let (code, message) = match self.inside {
            Some("$unionWith") if outermost_only => {
                (31441, format!("{name} is not allowed within a $unionWith's sub-pipeline"))
            }
            Some("$lookup") if outermost_only => {
                (51047, format!("{name} is not allowed within a $lookup's sub-pipeline"))
            }
            _ if self.within_facet
                && !own_documents
                && (outermost_only || name == "$facet" || FIRST_ONLY.contains(&name)) =>
            {
                (40600, format!("{name} is not allowed to be used within a $facet stage"))
            }
            _ => return Ok(()),
        };
        Err(Error::Lang(arbor_lang::Error::location(code, message)))
    }

    /// Errors: a stage that may not be here.
    pub(super) fn check_allowed(&self, name: &str) -> Result<()> {
        self.check_forbidden(name)?;
        let (code, message) = match self.inside {
            None if matches!(name, "$out" | "$merge") => {
                (40601, format!("{name} can only be the final stage in the pipeline"))
            }
            _ if FIRST_ONLY.contains(&name) => {
                (40602, format!("{name} is only valid as the first stage in a pipeline"))
            }
            _ => return Ok(()),
        };
        Err(Error::Lang(arbor_lang::Error::location(code, message)))
    }
}
